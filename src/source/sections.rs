//! Numbered sections of one whole: files `name-0`, `name-1`, ... of one folder that a game joins on request.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use rustc_hash::FxHashMap;
use xxhash_rust::xxh3::xxh3_128;

use super::find;
use super::game::{Bytes, Clips, Game, Input, Resource, Scratch, Source};
use super::survey::Unit;
use crate::error::{Error, Result};

/// A section that is read and not yet decoded.
#[derive(Debug)]
pub struct Section {
    /// Its number.
    pub number: u32,
    /// What holds its clips.
    pub resource: Resource<'static>,
    /// What its clips say of where they come from.
    pub source: String,
    /// Its file, for errors.
    pub file: PathBuf,
}

/// Which units are sections of which whole.
#[derive(Debug, Default)]
pub struct Sections {
    /// By input and part: number of the whole, number of the section.
    units: FxHashMap<(usize, usize), (usize, u32)>,
    names: Vec<String>,
}

impl Sections {
    /// Finds the sections among `units` and moves those of one whole together, in the order of their numbers, to
    /// where the first of them stood. Of two files of one number the later stays alone.
    pub fn find(inputs: &[Input], sources: &[Option<Box<dyn Source>>], units: &mut Vec<Unit>) -> Self {
        let mut out = Sections::default();
        let mut numbers: FxHashMap<(PathBuf, String), usize> = FxHashMap::default();
        let mut sections: Vec<BTreeMap<u32, Unit>> = Vec::new();
        let mut order: Vec<Result<Unit, usize>> = Vec::new();
        for unit in units.drain(..) {
            let place = place(inputs, sources, &unit);
            let section =
                place.as_ref().and_then(|(game, folder, stem)| Some((folder, game.section_of(stem)?)));
            let Some((folder, (name, number))) = section else {
                order.push(Ok(unit));
                continue;
            };
            let next = out.names.len();
            let whole = *numbers.entry((folder.clone(), name.to_lowercase())).or_insert(next);
            if whole == next {
                out.names.push(name.to_owned());
                sections.push(BTreeMap::new());
                order.push(Err(whole));
            }
            if sections[whole].contains_key(&number) {
                order.push(Ok(unit));
                continue;
            }
            out.units.insert((unit.input, unit.part), (whole, number));
            sections[whole].insert(number, unit);
        }
        for place in order {
            match place {
                Ok(unit) => units.push(unit),
                Err(whole) => units.extend(std::mem::take(&mut sections[whole]).into_values()),
            }
        }
        out
    }

    /// The whole of a unit (by input and part) and its section's number.
    pub fn of(&self, input: usize, part: usize) -> Option<(usize, u32)> {
        self.units.get(&(input, part)).copied()
    }

    /// One resource that stands for all `sections` of a whole; its source. `None` where there is no section.
    pub fn resource(&self, whole: usize, sections: &[Section]) -> Option<(Resource<'static>, String)> {
        let first = sections.first()?;
        let name = self.names[whole].clone();
        let hashes: Vec<u8> = sections
            .iter()
            .flat_map(|s| s.number.to_le_bytes().into_iter().chain(s.resource.hash.to_le_bytes()))
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
        let resource = Resource {
            game: first.resource.game,
            name,
            entry: first.resource.entry.clone(),
            path: first.resource.path.clone(),
            id: None,
            hash: xxh3_128(&hashes),
            bytes: Bytes::Elsewhere,
        };
        Some((resource, source))
    }
}

/// The game, the folder (of an archive too) and the name without its ending of a unit that may be a section.
fn place(
    inputs: &[Input],
    sources: &[Option<Box<dyn Source>>],
    unit: &Unit,
) -> Option<(&'static dyn Game, PathBuf, String)> {
    let input = &inputs[unit.input];
    let (game, source) = (input.game?, sources[unit.input].as_ref()?);
    Some(match source.unit_path(unit.part) {
        Some(path) => {
            let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
            (game, input.path.join(folder), find::stem(name, game.endings()).to_owned())
        }
        None => (game, input.path.parent()?.to_owned(), input.stem.clone()),
    })
}

/// Reads all sections and joins them.
///
/// # Errors
/// Where no section can be read. A section that cannot be goes to [`Clips::errors`].
pub fn read(sections: &[Section], source: &str, scratch: &mut Scratch) -> Result<Clips> {
    let mut out = Clips::default();
    let mut parts: Vec<(u32, Vec<crate::model::Clip>)> = Vec::with_capacity(sections.len());
    let mut missing: BTreeSet<u32> = BTreeSet::new();
    let mut expected = 0;
    for section in sections {
        // A stray number must not name thousands of missing ones.
        missing.extend((expected..section.number).take(100));
        expected = section.number.saturating_add(1);
        match section.resource.game.read(&section.resource, &section.source, scratch) {
            Ok(part) => {
                let errors = part.errors.into_iter().map(|e| e.in_file(&section.file));
                out.errors.extend(errors);
                out.notes.extend(part.notes.into_iter().map(|n| format!("{n} (section {})", section.number)));
                parts.push((section.number, part.clips));
            }
            Err(e) => {
                missing.insert(section.number);
                out.errors.push(e.in_file(&section.file));
            }
        }
    }
    let Some(game) = sections.first().map(|s| s.resource.game).filter(|_| !parts.is_empty()) else {
        return Err(out.errors.pop().unwrap_or_else(|| Error::unsupported("a whole without sections")));
    };
    let list = |numbers: &mut dyn Iterator<Item = u32>| {
        numbers.map(|n| n.to_string()).collect::<Vec<String>>().join(", ")
    };
    out.notes.push(format!("joined sections {}", list(&mut parts.iter().map(|p| p.0))));
    if !missing.is_empty() {
        out.notes.push(format!(
            "sections that are missing, so that the next ones begin where those before them end: {}",
            list(&mut missing.into_iter())
        ));
    }
    out.clips = game.join_sections(parts, source)?;
    Ok(out)
}
