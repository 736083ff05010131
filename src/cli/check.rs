//! The run of `check`.

use std::process::ExitCode;

use crate::cli::args::Check;
use crate::cli::output;
use crate::error::{Error, Result};
use crate::games::anvil::container::file as anvil;
use crate::report::census::{AnvilCensus, Census, check};

/// Takes the census and prints it: as text, or as JSON. Refusals go to standard error too.
pub fn run(args: &Check) -> Result<ExitCode> {
    let options = anvil::Options { codec: crate::cli::codec(args.codec.as_deref())? };
    let census = check(&args.inputs, &options, args.threads)?;
    for row in &census.refused {
        let place: Vec<&str> = [row.file.as_deref(), row.entry.as_deref()].into_iter().flatten().collect();
        match row.offset {
            Some(offset) => output::message(format_args!(
                "error: {}: at offset 0x{offset:X}: {}",
                place.join(": "),
                row.message
            )),
            None => output::message(format_args!("error: {}: {}", place.join(": "), row.message)),
        }
    }
    if args.json {
        let text = serde_json::to_string_pretty(&census).map_err(|e| Error::unsupported(e.to_string()))?;
        output::result(text);
    } else {
        output::results(|out| out.write_all(text(&census).as_bytes()));
    }
    let decoded = census.rr.clips.clips + census.sws.clips.clips + census.rage.clips + census.skeletons;
    if census.refused.is_empty() && decoded == 0 {
        output::message(super::NO_CLIP);
    }
    Ok(ExitCode::from(match (census.refused.len(), decoded) {
        (0, 1..) => 0,
        (_, 0) => 2,
        _ => 1,
    }))
}

fn text(census: &Census) -> String {
    let mut out = String::new();
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    if census.anvil_files > 0 {
        line(format!("Anvil: {} files, {} entries", census.anvil_files, census.entries));
        anvil("Riders Republic", &census.rr, &mut line);
        anvil("Shaun White Skateboarding", &census.sws, &mut line);
        line(format!("  skeletons {} read, {} refused", census.skeletons, census.skeletons_refused));
        line(format!(
            "  AnimSets {}, pairs {}, of which {} name no clip of this input; entities that name clips {}",
            census.anim_sets, census.anim_pairs, census.anim_pairs_unresolved, census.entities_with_clips
        ));
    }
    if census.dictionaries > 0 {
        let rage = &census.rage;
        line(format!(
            "GTA V: {} dictionaries ({} refused), {} clips, {} animations, {} track-frames",
            census.dictionaries, census.dictionaries_refused, rage.clips, rage.animations, rage.track_frames
        ));
        line(format!(
            "  sequences {} strict, {} with the known deviation",
            rage.sequences_strict, rage.sequences_deviating
        ));
        let list = |counts: &std::collections::BTreeMap<u8, u64>| {
            counts.iter().map(|(k, n)| format!("{k}: {n}")).collect::<Vec<_>>().join(", ")
        };
        line(format!("  channels by type {}", list(&rage.channels)));
        line(format!("  tracks by number {}", list(&rage.tracks)));
    }
    for row in &census.decided {
        line(format!("{}: read as", row.inputs()));
        for way in &row.decided {
            line(format!("  {way}"));
        }
    }
    for row in &census.notes {
        let times = if row.entries == 1 { String::new() } else { format!(" ({} times)", row.entries) };
        line(format!("note: {}: {}{times}", row.source, row.note));
    }
    line(format!("refused {}", census.refused.len()));
    out
}

fn anvil(name: &str, game: &AnvilCensus, line: &mut impl FnMut(String)) {
    if game.objects == 0 {
        return;
    }
    let clips = &game.clips;
    line(format!(
        "{name}: {} objects, {} distinct clips ({} refused), {} tracks, {} keys",
        game.objects, game.distinct, game.refused, clips.tracks, clips.keys
    ));
    if game.objects != game.distinct {
        line(format!(
            "  of all objects: {} tracks, {} keys; ids with several contents {}",
            game.tracks_of_all_objects, game.keys_of_all_objects, game.ids_with_several_contents
        ));
    }
    line(format!(
        "  with events {}, with ECLAnimation {}, streamed {}, additive {}",
        clips.with_events, clips.with_ecl_animation, clips.streamed, clips.additive
    ));
    for count in &clips.kinds {
        line(format!(
            "  kind {:>2} form {}: {:>9} tracks {:>10} keys",
            count.kind, count.form, count.tracks, count.keys
        ));
    }
    let always = clips.departures.iter().filter(|(n, _)| *n > 0);
    let mut departs = false;
    for (n, text) in always {
        departs = true;
        line(format!("  departs from the notes: {n} {text}"));
    }
    if !departs {
        line("  everything is as the notes say that it always is".to_owned());
    }
}
