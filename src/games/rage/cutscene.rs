//! Cutscenes: the dictionaries `name-0`, `name-1`, ... of one folder are sections of one, and what they hold of an
//! actor is one animation (docs/formats/rage.md, section 7).
//!
//! The sections are taken in the order of their numbers, each from where the former ended; a section lasts as long
//! as its longest clip. A clip's actor is its name without `-N`, and without `_dual` before it unless a section has
//! both. Where the values of two sections differ at their border the former ones hold until [`HOLD_S`] before it;
//! where a section has no track, or no clip of an actor, the last values hold (the first ones before the first).

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;
use serde_json::{Map, Value, json};

use crate::games::rage::names as rage;
use crate::model::{
    Clip, ClipId, Clock, Curve, EDGE_S, Event, Positions, Property, Target, Timeline, Track, Values, Warning,
    WarningKind, Window,
};
/// How long before a border the last value of a section is repeated, seconds: what jumps there jumps within this,
/// and not over a frame. f32 seconds tell it from the border up to two hours.
const HOLD_S: f64 = 1e-3;
/// Two key rates that differ by less than this, relatively, are one: f32 durations.
const SAME_RATE: f64 = 1e-5;

/// `name-N` to name and N.
pub fn section_of(stem: &str) -> Option<(&str, u32)> {
    let (name, number) = stem.rsplit_once('-')?;
    let digits = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    (digits && !name.is_empty()).then_some(())?;
    Some((name, number.parse().ok()?))
}

/// Joins the clips of sections, each with its number, in the order of the numbers.
pub fn join(sections: Vec<(u32, Vec<Clip>)>, source: &str) -> Vec<Clip> {
    let mut start_s = 0.0;
    let mut parts = Vec::with_capacity(sections.len());
    for (number, clips) in sections {
        let length_s = clips.iter().map(|c| c.length_s).fold(0.0, f64::max);
        parts.push(Part { number, start_s, clips });
        start_s += length_s;
    }
    join_parts(&parts, start_s, source)
}

/// A decoded section.
struct Part {
    number: u32,
    start_s: f64,
    clips: Vec<Clip>,
}

/// Whose clip it is, and the same without `_dual` where that stands.
fn actor(clip: &Clip, number: u32) -> (&str, Option<&str>) {
    let name = match section_of(&clip.short_name) {
        Some((name, n)) if n == number => name,
        _ => &clip.short_name,
    };
    (name, name.strip_suffix("_dual").filter(|n| !n.is_empty()))
}

fn join_parts(parts: &[Part], length_s: f64, source: &str) -> Vec<Clip> {
    // Actors that have both forms in one section.
    let mut both: BTreeSet<&str> = BTreeSet::new();
    for part in parts {
        let plain: BTreeSet<&str> = part.clips.iter().map(|c| actor(c, part.number).0).collect();
        let dual = part.clips.iter().filter_map(|c| actor(c, part.number).1);
        both.extend(dual.filter(|d| plain.contains(d)));
    }
    let mut actors: BTreeMap<String, Vec<(&Part, &Clip)>> = BTreeMap::new();
    for part in parts {
        for clip in &part.clips {
            let (name, dual) = actor(clip, part.number);
            let name = dual.filter(|d| !both.contains(d)).unwrap_or(name);
            let mut key = name.to_owned();
            // A second clip of a name in one section is another actor's.
            while actors.get(&key).is_some_and(|a| a.iter().any(|(p, _)| p.number == part.number)) {
                key.push('~');
            }
            actors.entry(key).or_default().push((part, clip));
        }
    }
    actors.into_iter().map(|(name, clips)| one_actor(name, &clips, parts, length_s, source)).collect()
}

static SECTIONS_ABSENT: WarningKind = WarningKind {
    code: "cutscene-sections-absent",
    text: "no clip in sections, where its pose holds: {sections}",
};
static TRACKS_PART_TIME: WarningKind = WarningKind {
    code: "cutscene-tracks-part-time",
    text: "{tracks} tracks are not in all sections: there their values hold",
};

fn one_actor(name: String, clips: &[(&Part, &Clip)], parts: &[Part], length_s: f64, source: &str) -> Clip {
    let (_, first) = clips[0];
    let mut out = Clip {
        id: ClipId { value: u64::from(rage::joaat(&name)), min_digits: 8 },
        short_name: name.clone(),
        name,
        game: first.game,
        source: source.to_owned(),
        length_s,
        additive: first.additive,
        timelines: Vec::new(),
        tracks: Vec::new(),
        events: Vec::new(),
        extras: Map::new(),
        warnings: Vec::new(),
    };
    let mut pieces: FxHashMap<Target, usize> = FxHashMap::default();
    let mut tracks: Vec<(Target, Vec<Piece<'_>>)> = Vec::new();
    let mut sections: Vec<Value> = Vec::new();
    for (part, clip) in clips {
        for track in clip.tracks.iter().filter(|t| !t.curve.values.is_empty()) {
            let i = *pieces.entry(track.target).or_insert(tracks.len());
            if i == tracks.len() {
                tracks.push((track.target, Vec::new()));
            }
            tracks[i].1.push((part.start_s, clip, track));
        }
        out.events.extend(clip.events.iter().map(|event| Event {
            start_s: event.start_s + part.start_s,
            end_s: event.end_s + part.start_s,
            ..event.clone()
        }));
        let mut row = json!({
            "section": part.number, "start": part.start_s as f32, "length": clip.length_s as f32,
            "id": clip.id.to_string(), "name": clip.name, "source": clip.source,
        });
        if let Value::Object(row) = &mut row {
            row.extend(clip.extras.clone());
        }
        sections.push(row);
        let of_section = |w: &Warning| w.clone().of_part("section", part.number.into());
        out.warnings.extend(clip.warnings.iter().map(of_section));
    }
    out.extras.insert("sections".to_owned(), sections.into());
    let absent: Vec<String> = parts
        .iter()
        .filter(|p| !clips.iter().any(|(part, _)| part.number == p.number))
        .map(|p| p.number.to_string())
        .collect();
    if !absent.is_empty() {
        out.warnings.push(Warning::new(&SECTIONS_ABSENT).with("sections", absent));
    }
    let mut part_time = 0;
    for (target, pieces) in &tracks {
        part_time += usize::from(pieces.len() < clips.len());
        let (timeline, curve) = one_track(pieces);
        let timeline = out.add_timeline(timeline);
        out.tracks.push(Track { target: *target, timeline, curve });
    }
    if part_time > 0 {
        out.warnings.push(Warning::new(&TRACKS_PART_TIME).with("tracks", part_time));
    }
    // As a reader has them: joints first, what stands beside them last.
    out.tracks.sort_by_key(|t| (!t.target.joint.is_joint(), matches!(t.target.property, Property::Other(_))));
    out
}

/// A section's begin (seconds), a clip of it, one of the clip's tracks.
type Piece<'a> = (f64, &'a Clip, &'a Track);

/// Where a key of a joined track comes from: its instant, which piece, which value of it.
type Key = (f64, usize, usize);

/// The pieces of a track, each with the instant at which its section begins, one after the other.
fn one_track(pieces: &[Piece<'_>]) -> (Timeline, Curve) {
    let kind = std::mem::discriminant(&pieces[0].2.curve.values);
    let mut keys: Vec<Key> = Vec::new();
    for (p, (start_s, clip, track)) in pieces.iter().enumerate() {
        if std::mem::discriminant(&track.curve.values) != kind {
            continue;
        }
        let start_s = *start_s;
        // Keys at the border and right before it make room; those after it are not played. The value there holds.
        let mut held = None;
        while let Some((at, piece, value)) = keys.last().copied().filter(|(at, ..)| *at > start_s - HOLD_S) {
            if held.is_none() && at <= start_s + EDGE_S {
                held = Some((piece, value));
            }
            keys.pop();
        }
        let last = keys.last().copied();
        let held = held.or(last.map(|(_, piece, value)| (piece, value)));
        if let (Some((piece, value)), Some((at, ..))) = (held, last)
            && at < start_s - HOLD_S
            && !same(pieces, (piece, value), (p, 0))
        {
            keys.push((start_s - HOLD_S, piece, value));
        }
        if track.curve.is_constant() {
            keys.push((start_s, p, 0));
            continue;
        }
        let count = track.curve.values.len();
        for (i, seconds) in clip.timeline(track).iter_seconds().take(count).enumerate() {
            let at = start_s + seconds;
            if keys.last().is_none_or(|(before, ..)| at > *before) {
                keys.push((at, p, i));
            }
        }
    }
    if keys.iter().all(|(_, p, i)| same(pieces, (*p, *i), (keys[0].1, keys[0].2))) {
        keys.truncate(1);
    }
    let rate = |(_, clip, track): &Piece<'_>| {
        let timeline = clip.timeline(track);
        timeline.clock.rate_hz().map(|hz| hz * timeline.window.rate)
    };
    let first = rate(&pieces[0]).filter(|hz| hz.is_finite() && *hz > 0.0);
    let one_rate = first.filter(|first| {
        pieces.iter().all(|piece| rate(piece).is_some_and(|hz| (hz / first - 1.0).abs() < SAME_RATE))
    });
    let clock = one_rate.map_or(Clock::Seconds, |hz| Clock::Rate { hz });
    let positions = Positions::Fractional(keys.iter().map(|(at, ..)| clock.position(*at)).collect());
    let values = gather(pieces, &keys);
    let interpolation = pieces[0].2.curve.interpolation;
    (Timeline { clock, positions, window: Window::WHOLE }, Curve { interpolation, values })
}

/// Whether two values of pieces are equal to the bit.
fn same(pieces: &[Piece<'_>], a: (usize, usize), b: (usize, usize)) -> bool {
    gather(pieces, &[(0.0, a.0, a.1)]) == gather(pieces, &[(0.0, b.0, b.1)])
}

/// The values of `keys`, all of the kind of the first piece.
fn gather(pieces: &[Piece<'_>], keys: &[Key]) -> Values {
    macro_rules! pick {
        ($kind:ident) => {
            Values::$kind(
                keys.iter()
                    .filter_map(|(_, p, i)| match &pieces[*p].2.curve.values {
                        Values::$kind(v) => v.get(*i).copied(),
                        _ => None,
                    })
                    .collect(),
            )
        };
    }
    match &pieces[0].2.curve.values {
        Values::Vec3(_) => pick!(Vec3),
        Values::Quat(_) => pick!(Quat),
        Values::Scalar(_) => pick!(Scalar),
        Values::Raw { width, .. } => {
            let width = *width;
            let bytes = keys
                .iter()
                .filter_map(|(_, p, i)| match &pieces[*p].2.curve.values {
                    Values::Raw { width: w, bytes } if *w == width => {
                        let (size, i) = (usize::from(width), *i);
                        bytes.get(size * i..size * (i + 1))
                    }
                    _ => None,
                })
                .flatten()
                .copied()
                .collect();
            Values::Raw { width, bytes }
        }
    }
}
