//! `check`: decodes everything, writes nothing, and counts: the census, to compare with docs/formats/README.md,
//! section 2.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;
use xxhash_rust::xxh3::xxh3_128;

use crate::error::{Error, Result};
use crate::games::anvil::animation::tracks::ClipCensus;
use crate::games::anvil::animation::{riders_republic as rr, shaun_white as sws};
use crate::games::anvil::container::file as anvil;
use crate::games::anvil::container::object::{Generation, class};
use crate::games::anvil::{sets as anvil_sets, skeleton as anvil_skeleton};
use crate::games::rage::ycd;
use crate::report::manifest::{DecidedRow, ErrorRow};
use crate::source::find;
use crate::source::find::Input;
use crate::source::work;
use crate::source::work::Source;

/// What is counted of Anvil's Animations of one game.
#[derive(Debug, Default, Serialize)]
pub struct AnvilCensus {
    /// Animation objects met.
    pub objects: u64,
    /// Distinct ones: other id or other bytes.
    pub distinct: u64,
    /// Ids that stand for more than one content.
    pub ids_with_several_contents: u64,
    /// Distinct clips that could not be read.
    pub refused: u64,
    /// Tracks of all objects, repeats counted.
    pub tracks_of_all_objects: u64,
    /// Keys of all objects, repeats counted.
    pub keys_of_all_objects: u64,
    /// Everything of the distinct clips.
    pub clips: ClipCensus,
}

/// The whole census.
#[derive(Debug, Default, Serialize)]
pub struct Census {
    /// Archives, containers and loose files of Anvil's.
    pub anvil_files: u64,
    /// Entries of archives.
    pub entries: u64,
    /// Riders Republic.
    #[serde(rename = "RR")]
    pub rr: AnvilCensus,
    /// Shaun White Skateboarding.
    #[serde(rename = "SWS")]
    pub sws: AnvilCensus,
    /// Skeletons read, and refused.
    pub skeletons: u64,
    /// Skeletons that were refused.
    pub skeletons_refused: u64,
    /// AnimSets and their pairs.
    pub anim_sets: u64,
    /// Pairs of clips in them.
    pub anim_pairs: u64,
    /// Pairs of which an id is no clip of the input.
    pub anim_pairs_unresolved: u64,
    /// Entities that name clips.
    pub entities_with_clips: u64,
    /// Clip dictionaries.
    pub dictionaries: u64,
    /// Of those: refused.
    pub dictionaries_refused: u64,
    /// What is in them.
    #[serde(rename = "GTAV")]
    pub rage: ycd::Census,
    /// How Anvil's inputs were read, where the formats leave it open.
    pub decided: Vec<DecidedRow>,
    /// What of the inputs' containers contradicts docs/formats or was read otherwise than usual; how often.
    pub notes: Vec<NoteCount>,
    /// What was refused, and why.
    pub refused: Vec<ErrorRow>,
}

/// A sentence about an input, and how many of its entries gave rise to it.
#[derive(Debug, Serialize)]
pub struct NoteCount {
    /// The input.
    pub source: String,
    /// The sentence.
    pub note: String,
    /// How often.
    pub entries: u64,
}

/// Result of one unit.
#[derive(Default)]
struct Part {
    /// Generation, id, hash, and the census or the error of an Animation. `None`: read before.
    animations: Vec<(Generation, u64, u128, Option<ClipCensus>)>,
    skeletons: (u64, u64),
    sets: Vec<anvil_sets::AnimSet>,
    entities: u64,
    rage: Option<ycd::Census>,
    notes: Vec<String>,
    errors: Vec<Error>,
}

/// Takes the census of `inputs`.
///
/// # Errors
/// Only where no input is there at all; everything else is in [`Census::refused`].
pub fn check(given: &[PathBuf], options: &anvil::Options, threads: usize) -> Result<Census> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .map_err(|e| Error::usage(format!("cannot start threads: {e}")))?;
    pool.install(|| take(given, options))
}

fn take(given: &[PathBuf], options: &anvil::Options) -> Result<Census> {
    let (inputs, errors) = find::find(given);
    if inputs.is_empty() && errors.is_empty() {
        return Err(Error::usage("found no .ycd, .forge, .data or .Animation"));
    }
    let mut census = Census { refused: errors.iter().map(ErrorRow::from).collect(), ..Census::default() };
    let mut units: Vec<(usize, usize)> = Vec::new();
    let mut sources: Vec<Option<Source>> = Vec::new();
    let mut notes: BTreeMap<(usize, String), u64> = BTreeMap::new();
    for (i, input) in inputs.iter().enumerate() {
        match work::open(input, options) {
            Ok(source) => {
                match &source {
                    Source::Dictionary => {
                        census.dictionaries += 1;
                        units.push((i, 0));
                    }
                    Source::Rpf { entries, problems, .. } => {
                        census.refused.extend(problems.iter().map(|e| row(input, e)));
                        census.dictionaries += entries.len() as u64;
                        units.extend((0..entries.len()).map(|e| (i, e)));
                    }
                    Source::Anvil(source) => {
                        census.anvil_files += 1;
                        census.entries += source.entries().len() as u64;
                        census.refused.extend(source.faults().iter().map(|e| row(input, e)));
                        for note in source.notes() {
                            *notes.entry((i, note.clone())).or_default() += 1;
                        }
                        units.extend((0..source.entries().len()).map(|e| (i, e)));
                    }
                }
                sources.push(Some(source));
            }
            Err(e) => {
                census.refused.push(row(input, &e));
                sources.push(None);
            }
        }
    }
    let mut known: FxHashMap<(u64, u128), ClipCensus> = FxHashMap::default();
    let mut contents: FxHashMap<(Generation, u64), FxHashSet<u128>> = FxHashMap::default();
    let mut pairs: Vec<[u32; 2]> = Vec::new();
    // Units in rounds: what a round has read, later ones need not read again.
    for round in units.chunks(2048) {
        let parts: Vec<(usize, Part)> = round
            .par_iter()
            .map_init(anvil::Scratch::new, |scratch, &(i, entry)| {
                let part = match &sources[i] {
                    Some(Source::Dictionary) => {
                        let bytes =
                            std::fs::read(&inputs[i].path).map_err(|e| Error::io("cannot be read", e));
                        dictionary(bytes, &inputs[i].relative)
                    }
                    Some(Source::Rpf { file, entries, .. }) => {
                        let mut bytes = Vec::new();
                        let read = entries[entry].read(file, &mut bytes).map(|()| bytes);
                        let mut part = dictionary(read, &inputs[i].relative);
                        part.errors = part
                            .errors
                            .into_iter()
                            .map(|e| e.in_entry(entries[entry].path.clone()))
                            .collect();
                        part
                    }
                    Some(Source::Anvil(source)) => archive(source, entry, scratch, &known),
                    None => Part::default(),
                };
                (i, part)
            })
            .collect();
        for (i, part) in parts {
            for (generation, id, hash, clip) in part.animations {
                let game = match generation {
                    Generation::Ids64 => &mut census.rr,
                    Generation::Ids32 => &mut census.sws,
                };
                game.objects += 1;
                let new = contents.entry((generation, id)).or_default().insert(hash);
                if new {
                    game.distinct += 1;
                    game.ids_with_several_contents += u64::from(contents[&(generation, id)].len() == 2);
                    match clip {
                        Some(clip) => {
                            game.clips += &clip;
                            known.insert((id, hash), clip);
                        }
                        None => game.refused += 1,
                    }
                }
                if let Some(clip) = known.get(&(id, hash)) {
                    game.tracks_of_all_objects += clip.tracks;
                    game.keys_of_all_objects += clip.keys;
                }
            }
            census.skeletons += part.skeletons.0;
            census.skeletons_refused += part.skeletons.1;
            census.anim_sets += part.sets.len() as u64;
            for set in part.sets {
                pairs.extend(set.pairs);
            }
            census.entities_with_clips += part.entities;
            match part.rage {
                Some(rage) => census.rage.add(&rage),
                None => {
                    census.dictionaries_refused +=
                        u64::from(matches!(sources[i], Some(Source::Dictionary | Source::Rpf { .. })));
                }
            }
            for note in part.notes {
                *notes.entry((i, note)).or_default() += 1;
            }
            census.refused.extend(part.errors.iter().map(|e| row(&inputs[i], e)));
        }
    }
    census.decided = work::decided(&inputs, &sources);
    census.notes = notes
        .into_iter()
        .map(|((i, note), entries)| NoteCount { source: inputs[i].relative.clone(), note, entries })
        .collect();
    census.anim_pairs = pairs.len() as u64;
    let is_clip = |id: u32| contents.contains_key(&(Generation::Ids32, u64::from(id)));
    census.anim_pairs_unresolved = pairs.iter().filter(|p| !p.iter().all(|id| is_clip(*id))).count() as u64;
    Ok(census)
}

fn row(input: &Input, error: &Error) -> ErrorRow {
    let mut row = ErrorRow::from(error);
    row.file.get_or_insert_with(|| input.path.to_string_lossy().into_owned());
    row
}

fn dictionary(bytes: Result<Vec<u8>>, source: &str) -> Part {
    let mut part = Part::default();
    let result = (|| {
        let bytes = bytes?;
        let mut scratch = Vec::new();
        let dictionary = work::dictionary(&bytes, &mut scratch)?;
        let census = ycd::Census::of(&dictionary);
        let read = ycd::clips::assemble(dictionary, source)?;
        part.errors = read.errors;
        Ok(census)
    })();
    match result {
        Ok(census) => part.rage = Some(census),
        Err(e) => part.errors.push(e),
    }
    part
}

fn archive(
    source: &anvil::AnvilSource,
    entry: usize,
    scratch: &mut anvil::Scratch,
    known: &FxHashMap<(u64, u128), ClipCensus>,
) -> Part {
    let mut part = Part::default();
    let result = source.for_each_object(entry, scratch, &mut |object| {
        let object = match object {
            Ok(object) => object,
            Err(e) => return part.errors.push(e),
        };
        let place = |e: Error| e.in_entry(format!("\"{}\" ({:X})", object.name, object.id));
        match object.class {
            class::ANIMATION => {
                let hash = xxh3_128(object.body);
                let census = match known.get(&(object.id, hash)) {
                    Some(census) => Some(census.clone()),
                    None => match match object.generation {
                        Generation::Ids64 => rr::read_with_census(&object, ""),
                        Generation::Ids32 => sws::read_with_census(&object, ""),
                    } {
                        Ok((_, census)) => Some(census),
                        Err(e) => {
                            part.errors.push(e);
                            None
                        }
                    },
                };
                part.animations.push((object.generation, object.id, hash, census));
            }
            class::SKELETON => match anvil_skeleton::read(&object) {
                Ok(_) => part.skeletons.0 += 1,
                Err(e) => {
                    part.skeletons.1 += 1;
                    part.errors.push(place(e));
                }
            },
            class::ANIM_SET => match anvil_sets::read_anim_set(&object) {
                Ok(set) => part.sets.push(set),
                Err(e) => part.errors.push(place(e)),
            },
            _ => part.entities += u64::from(!anvil_sets::entity_clips(&object).is_empty()),
        }
    });
    part.errors.extend(result.err());
    part.notes.extend_from_slice(scratch.notes());
    part
}
