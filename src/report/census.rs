//! `check`: decodes everything, writes nothing, and counts. What is counted of a game is the game's; what is refused, and
//! how inputs were read, is the same for all.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rayon::prelude::*;
use serde::Serialize;
use serde::ser::SerializeMap;

use crate::error::{Error, Result};
use crate::report::manifest::{DecidedRow, ErrorRow};
use crate::source::{self, Game, Input, ReadOptions, Scratch, Source, find};

/// Units that are read before what they hold is added: what is known by then need not be read again.
const ROUND: usize = 2048;

/// The whole census.
#[derive(Debug, Default)]
pub struct Census {
    /// Counts of every family of games.
    pub families: Vec<Box<dyn source::Census>>,
    /// How inputs were read, where the formats leave it open.
    pub decided: Vec<DecidedRow>,
    /// What of the inputs' containers contradicts the formats or was read otherwise than usual; how often.
    pub notes: Vec<NoteCount>,
    /// What was refused, and why.
    pub refused: Vec<ErrorRow>,
}

impl Serialize for Census {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (key, counts) in self.families.iter().flat_map(|f| f.json()) {
            map.serialize_entry(key, &counts)?;
        }
        map.serialize_entry("decided", &self.decided)?;
        map.serialize_entry("notes", &self.notes)?;
        map.serialize_entry("refused", &self.refused)?;
        map.end()
    }
}

impl Census {
    /// The counts as lines for people.
    pub fn lines(&self) -> impl Iterator<Item = String> + '_ {
        self.families.iter().flat_map(|f| f.text())
    }

    /// Clips and skeletons that were decoded.
    pub fn decoded(&self) -> u64 {
        self.families.iter().map(|f| f.decoded()).sum()
    }
}

/// A sentence about an input, and how many of its units gave rise to it.
#[derive(Debug, Serialize)]
pub struct NoteCount {
    /// The input.
    pub source: String,
    /// The sentence.
    pub note: String,
    /// How often.
    pub entries: u64,
}

/// Takes the census of `given` on `threads` threads (0: all cores).
///
/// # Errors
/// Only where no input is there at all; everything else is in [`Census::refused`].
pub fn check(
    given: &[PathBuf],
    games: &'static [&'static dyn Game],
    options: &ReadOptions,
    threads: usize,
) -> Result<Census> {
    games.iter().try_for_each(|g| g.check_options(options))?;
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .map_err(|e| Error::usage(format!("cannot start threads: {e}")))?;
    pool.install(|| take(given, games, options))
}

fn take(given: &[PathBuf], games: &'static [&'static dyn Game], options: &ReadOptions) -> Result<Census> {
    let (inputs, errors) = find::find(given, games);
    if inputs.is_empty() && errors.is_empty() {
        return Err(source::nothing_found(games, given));
    }
    let mut census = Census { refused: errors.iter().map(ErrorRow::from).collect(), ..Census::default() };
    // One for each family, in the order of the table.
    let mut families: Vec<(&'static str, Box<dyn source::Census>)> = Vec::new();
    for game in games {
        if !families.iter().any(|(family, _)| *family == game.family())
            && let Some(census) = game.census()
        {
            families.push((game.family(), census));
        }
    }
    let mut notes: BTreeMap<(usize, String), u64> = BTreeMap::new();
    let mut sources: Vec<Option<Box<dyn Source>>> = Vec::with_capacity(inputs.len());
    let mut units: Vec<(usize, usize, usize)> = Vec::new();
    for (i, input) in inputs.iter().enumerate() {
        let source = match source::open(input, games, options) {
            Ok(source) => source,
            Err(e) => {
                census.refused.push(row(input, &e));
                sources.push(None);
                continue;
            }
        };
        census.refused.extend(source.faults().iter().map(|e| row(input, e)));
        for note in source.notes() {
            *notes.entry((i, note)).or_default() += 1;
        }
        let family = input.game.map_or("", |g| g.family());
        if let Some(at) = families.iter().position(|(f, _)| *f == family) {
            families[at].1.open(&*source);
            units.extend((0..source.units()).map(|unit| (i, unit, at)));
        }
        sources.push(Some(source));
    }
    for round in units.chunks(ROUND) {
        let parts: Vec<Option<source::UnitCensus>> = round
            .par_iter()
            .map_init(Scratch::default, |scratch, &(i, unit, family)| {
                let source = sources[i].as_ref()?;
                Some(families[family].1.count(&**source, unit, &inputs[i].relative, scratch))
            })
            .collect();
        for (&(i, _, family), part) in round.iter().zip(parts) {
            let Some(part) = part else { continue };
            families[family].1.add(part.counts);
            for note in part.notes {
                *notes.entry((i, note)).or_default() += 1;
            }
            census.refused.extend(part.errors.iter().map(|e| row(&inputs[i], e)));
        }
    }
    census.decided = DecidedRow::of(&inputs, &sources);
    census.notes = notes
        .into_iter()
        .map(|((i, note), entries)| NoteCount { source: inputs[i].relative.clone(), note, entries })
        .collect();
    census.families = families.into_iter().map(|(_, family)| family).collect();
    Ok(census)
}

fn row(input: &Input, error: &Error) -> ErrorRow {
    let mut row = ErrorRow::from(error);
    row.file.get_or_insert_with(|| input.path.to_string_lossy().into_owned());
    row
}
