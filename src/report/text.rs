//! `report.txt`: what was written, what was not and why, what is not known yet.

use std::collections::BTreeMap;

use crate::report::manifest::{ClipRow, Manifest, Totals};

/// Counts what the report says of clips.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Counts for the manifest.
    pub totals: Totals,
    /// Clips and seconds by game.
    games: BTreeMap<String, (u64, f64)>,
    /// Warnings by code: how many, and the first of their sentences in the order of the alphabet.
    warnings: BTreeMap<String, (u64, String)>,
}

/// What stands for the code in rows of an earlier version, which have none.
const NO_CODE: &str = "(no code)";
/// Characters of a warning that the report shows as an example: some end in a long list.
const EXAMPLE: usize = 160;

impl Tally {
    /// Counts a clip.
    pub fn clip(&mut self, clip: &ClipRow) {
        let totals = &mut self.totals;
        totals.clips += 1;
        totals.keys += clip.keys;
        totals.thigh_rolls += u64::from(!clip.thigh_rolls.is_empty());
        totals.clips_with_warnings += u64::from(!clip.warnings.is_empty());
        for name in &clip.unknown_joints {
            count(&mut totals.unknown_joints, name);
        }
        for kept in &clip.tracks_kept {
            match &kept.name {
                Some(name) => count(&mut totals.tracks_kept, &format!("{} {name}", kept.track)),
                None => count(&mut totals.tracks_kept, &kept.track.to_string()),
            }
        }
        for (i, warning) in clip.warnings.iter().enumerate() {
            let code = clip.warning_codes.get(i).map_or(NO_CODE, String::as_str);
            match self.warnings.get_mut(code) {
                Some((n, example)) => {
                    *n += 1;
                    // Clips come in any order, and the report must not depend on it.
                    if warning < example {
                        example.clone_from(warning);
                    }
                }
                None => {
                    self.warnings.insert(code.to_owned(), (1, warning.clone()));
                }
            }
        }
        if !self.games.contains_key(&clip.game) {
            self.games.insert(clip.game.clone(), (0, 0.0));
        }
        if let Some(game) = self.games.get_mut(&clip.game) {
            game.0 += 1;
            game.1 += f64::from(clip.duration);
        }
    }
}

/// Adds one; the key is copied only where it is new.
fn count(counts: &mut BTreeMap<String, u64>, key: &str) {
    match counts.get_mut(key) {
        Some(n) => *n += 1,
        None => {
            counts.insert(key.to_owned(), 1);
        }
    }
}

/// The report for a person. It holds no times of the clock, so that equal runs say the same.
pub fn text(manifest: &Manifest, tally: &Tally) -> String {
    let mut out = String::new();
    let totals = &tally.totals;
    line(
        &mut out,
        format_args!(
            "{} clips in {} files, {} keys; {} failures, {} clips with warnings",
            totals.clips, totals.files, totals.keys, totals.failures, totals.clips_with_warnings
        ),
    );
    if totals.repeated > 0 {
        line(
            &mut out,
            format_args!(
                "{} clips repeat others (same id, same bytes) and were written once",
                totals.repeated
            ),
        );
    }
    if totals.thigh_rolls > 0 {
        line(
            &mut out,
            format_args!(
                "in {} clips thigh-roll bones without a rotation of their own follow their thighs, as in the game \
                 (--no-thigh-roll leaves them at rest)",
                totals.thigh_rolls
            ),
        );
    }
    if totals.left_out > 0 {
        line(&mut out, format_args!("{} clips were left out by the selection", totals.left_out));
    }
    for (game, (count, seconds)) in &tally.games {
        line(&mut out, format_args!("  {game}: {count} clips, {seconds:.1} s of animation"));
    }
    section(&mut out, "Failures", manifest.errors.iter().map(ToString::to_string));
    section(&mut out, "Notes on inputs", manifest.notes.iter().map(|n| format!("{}: {}", n.source, n.note)));
    section(
        &mut out,
        "How inputs were read, where the formats leave it open",
        manifest
            .decided
            .iter()
            .flat_map(|row| row.decided.iter().map(move |way| format!("{}: {way}", row.inputs()))),
    );
    let kinds: BTreeMap<String, u64> = tally
        .warnings
        .iter()
        .map(|(code, (n, example))| (format!("{code}: {}", short(example)), *n))
        .collect();
    section(&mut out, "Warnings by kind, each with an example", by_count(&kinds));
    section(&mut out, "Joints without a name, by clips that move them", by_count(&totals.unknown_joints));
    section(
        &mut out,
        "Tracks that no joint shows, by number or kind (their values are in the extras)",
        by_count(&totals.tracks_kept),
    );
    out
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = std::fmt::Write::write_fmt(out, text);
    out.push('\n');
}

fn section(out: &mut String, title: &str, lines: impl Iterator<Item = String>) {
    let mut lines = lines.peekable();
    if lines.peek().is_some() {
        line(out, format_args!("\n{title}"));
        for text in lines {
            line(out, format_args!("  {text}"));
        }
    }
}

/// The begin of a long text.
fn short(text: &str) -> String {
    match text.char_indices().nth(EXAMPLE) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// Most frequent first, then by text.
fn by_count(counts: &BTreeMap<String, u64>) -> impl Iterator<Item = String> {
    let mut all: Vec<(&String, &u64)> = counts.iter().collect();
    all.sort_by(|a, b| b.1.cmp(a.1).then_with(|| a.0.cmp(b.0)));
    all.into_iter().map(|(k, n)| format!("{n:>8}  {k}"))
}
