//! Cutscenes: the dictionaries `name-0`, `name-1`, ... of one folder are sections of one, and what they hold of an
//! actor is one animation (notes, RAGE 7).
//!
//! The sections are taken in the order of their numbers, each from where the former ended; a section lasts as long
//! as its longest clip. A clip's actor is its name without `-N`, and without `_dual` before it unless a section has
//! both. Where the values of two sections differ at their border the former ones hold until [`HOLD_S`] before it;
//! where a section has no track, or no clip of an actor, the last values hold (the first ones before the first).

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use rustc_hash::FxHashMap;
use serde_json::{Map, Value, json};
use xxhash_rust::xxh3::xxh3_128;

use crate::error::{Error, Result};
use crate::games::rage::names as rage;
use crate::model::{
    Clip, ClipId, Clock, Curve, EDGE_S, Event, Positions, Property, Target, Timeline, Track, Values, Warning,
    WarningKind, Window,
};
use crate::source::find;
use crate::source::find::{Input, Kind};
use crate::source::work;
use crate::source::work::{Content, Item, Read, Source, Unit};

/// How long before a border the last value of a section is repeated, seconds: what jumps there jumps within this,
/// and not over a frame. f32 seconds tell it from the border up to two hours.
const HOLD_S: f64 = 1e-3;
/// Two key rates that differ by less than this, relatively, are one: f32 durations.
const SAME_RATE: f64 = 1e-5;

/// A section of a cutscene that is read and not yet decoded.
#[derive(Debug)]
pub struct Section {
    /// Its number.
    pub number: u32,
    /// Its dictionary.
    pub item: Item,
    /// What its clips say of where they come from.
    pub source: String,
    /// Its file, for errors.
    pub file: PathBuf,
}

/// Which units are sections of which cutscene.
#[derive(Debug, Default)]
pub struct Cutscenes {
    /// By input and entry: number of the cutscene, number of the section.
    units: FxHashMap<(usize, usize), (usize, u32)>,
    names: Vec<String>,
}

impl Cutscenes {
    /// Finds the sections among `units` and moves those of one cutscene together, in the order of their numbers, to
    /// where the first of them stood. Of two files of one number the later stays alone.
    pub fn find(inputs: &[Input], sources: &[Option<Source>], units: &mut Vec<Unit>) -> Self {
        let mut out = Cutscenes::default();
        let mut numbers: FxHashMap<(PathBuf, String), usize> = FxHashMap::default();
        let mut sections: Vec<BTreeMap<u32, Unit>> = Vec::new();
        let mut order: Vec<Result<Unit, usize>> = Vec::new();
        for unit in units.drain(..) {
            let place = place(inputs, sources, &unit);
            let section = place.as_ref().and_then(|(folder, stem)| Some((folder, split(stem)?)));
            let Some((folder, (name, number))) = section else {
                order.push(Ok(unit));
                continue;
            };
            let next = out.names.len();
            let cutscene = *numbers.entry((folder.clone(), name.to_lowercase())).or_insert(next);
            if cutscene == next {
                out.names.push(name.to_owned());
                sections.push(BTreeMap::new());
                order.push(Err(cutscene));
            }
            if sections[cutscene].contains_key(&number) {
                order.push(Ok(unit));
                continue;
            }
            out.units.insert((unit.input, unit.entry), (cutscene, number));
            sections[cutscene].insert(number, unit);
        }
        for place in order {
            match place {
                Ok(unit) => units.push(unit),
                Err(cutscene) => units.extend(std::mem::take(&mut sections[cutscene]).into_values()),
            }
        }
        out
    }

    /// The cutscene of a unit (by input and entry) and its section's number.
    pub fn of(&self, input: usize, entry: usize) -> Option<(usize, u32)> {
        self.units.get(&(input, entry)).copied()
    }

    /// One item that stands for all `sections` of a cutscene; its source. `sections` is not empty.
    pub fn item(&self, cutscene: usize, sections: &[Section]) -> Option<(Item, String)> {
        let first = sections.first()?;
        let name = self.names[cutscene].clone();
        let hashes: Vec<u8> = sections
            .iter()
            .flat_map(|s| s.number.to_le_bytes().into_iter().chain(s.item.hash.to_le_bytes()))
            .collect();
        let numbers: Vec<String> = sections.iter().map(|s| s.number.to_string()).collect();
        let source = match first.source.rfind(&format!("{name}-")) {
            Some(at) if numbers.len() > 1 => {
                let behind = &first.source[at + name.len() + 1..];
                let end = behind.trim_start_matches(|c: char| c.is_ascii_digit());
                format!("{}{name}-{{{}}}{end}", &first.source[..at], numbers.join(","))
            }
            _ => first.source.clone(),
        };
        let item = Item {
            input: first.item.input,
            entry: first.item.entry.clone(),
            name,
            inside: first.item.inside.clone(),
            id: 0,
            hash: xxh3_128(&hashes),
            content: Content::Dictionary(Vec::new()),
        };
        Some((item, source))
    }
}

/// The folder of a dictionary (of an archive too) and its name without extension; `None` for anything else.
fn place(inputs: &[Input], sources: &[Option<Source>], unit: &Unit) -> Option<(PathBuf, String)> {
    let input = &inputs[unit.input];
    match &sources[unit.input] {
        Some(Source::Dictionary) if input.kind == Kind::Ycd => {
            Some((input.path.parent()?.to_owned(), input.stem().to_owned()))
        }
        Some(Source::Rpf { entries, .. }) => {
            let path = &entries[unit.entry].path;
            let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
            Some((input.path.join(folder), find::stem(name).to_owned()))
        }
        _ => None,
    }
}

/// `name-N` to name and N.
fn split(stem: &str) -> Option<(&str, u32)> {
    let (name, number) = stem.rsplit_once('-')?;
    let digits = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    (digits && !name.is_empty()).then_some(())?;
    Some((name, number.parse().ok()?))
}

/// Reads all sections and joins them.
///
/// # Errors
/// Where no section can be read. A section that cannot be goes to [`Read::errors`].
pub fn read(sections: &[Section], source: &str) -> Result<Read> {
    let mut out = Read::default();
    let mut read: Vec<Part> = Vec::with_capacity(sections.len());
    let mut start_s = 0.0;
    let mut missing: BTreeSet<u32> = BTreeSet::new();
    let mut expected = 0;
    for section in sections {
        // A stray number must not name thousands of missing ones.
        missing.extend((expected..section.number).take(100));
        expected = section.number + 1;
        match work::read(&section.item, &section.source) {
            Ok(part) => {
                let errors = part.errors.into_iter().map(|e| e.in_file(&section.file));
                out.errors.extend(errors);
                out.notes.extend(part.notes.into_iter().map(|n| format!("{n} (section {})", section.number)));
                let length_s = part.clips.iter().map(|c| c.length_s).fold(0.0, f64::max);
                read.push(Part { number: section.number, start_s, clips: part.clips });
                start_s += length_s;
            }
            Err(e) => {
                missing.insert(section.number);
                out.errors.push(e.in_file(&section.file));
            }
        }
    }
    if read.is_empty() {
        return Err(out.errors.pop().unwrap_or_else(|| Error::unsupported("a cutscene without sections")));
    }
    let list = |numbers: &mut dyn Iterator<Item = u32>| {
        numbers.map(|n| n.to_string()).collect::<Vec<String>>().join(", ")
    };
    out.notes.push(format!("joined sections {}", list(&mut read.iter().map(|p| p.number))));
    if !missing.is_empty() {
        out.notes.push(format!(
            "sections that are missing, so that the next ones begin where those before them end: {}",
            list(&mut missing.into_iter())
        ));
    }
    out.clips = join(&read, start_s, source);
    Ok(out)
}

/// A decoded section.
struct Part {
    number: u32,
    start_s: f64,
    clips: Vec<Clip>,
}

/// Whose clip it is, and the same without `_dual` where that stands.
fn actor(clip: &Clip, number: u32) -> (&str, Option<&str>) {
    let name = match split(&clip.short_name) {
        Some((name, n)) if n == number => name,
        _ => &clip.short_name,
    };
    (name, name.strip_suffix("_dual").filter(|n| !n.is_empty()))
}

fn join(parts: &[Part], length_s: f64, source: &str) -> Vec<Clip> {
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
