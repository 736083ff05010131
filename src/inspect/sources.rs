//! The source side of [`verify`](super::verify): clips as the readers give them, before any pass, with the rig
//! that a conversion would put them on.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use crate::batch::find::{self, Input};
use crate::batch::skeletons::Skeletons;
use crate::batch::work::{self, Names, Source, Unit};
use crate::container::anvil;
use crate::container::forge::Entry;
use crate::error::{Error, Result};
use crate::model::{Clip, Skeleton};
use crate::rig;

/// What the conversion was told of skeletons and names, and the source must be told again.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// `--skeleton`.
    pub skeleton: Option<PathBuf>,
    /// `--names`.
    pub names: Vec<PathBuf>,
    /// How containers are read.
    pub anvil: anvil::Options,
}

/// Clips that were read together (a dictionary, an Animation) on their rig.
#[derive(Debug)]
pub struct Group {
    /// Every joint, named.
    pub rig: Skeleton,
    /// The clips.
    pub clips: Vec<Clip>,
}

/// An opened source.
#[derive(Debug)]
pub struct Sources {
    inputs: Vec<Input>,
    sources: Vec<Option<Source>>,
    units: Vec<Unit>,
    skeletons: Skeletons,
    names: Names,
}

impl Sources {
    /// Opens a file or folder. What cannot be opened goes to the second part.
    ///
    /// # Errors
    /// Nothing there that a conversion would take; a skeleton or name file that cannot be read.
    pub fn open(path: &Path, options: &Options) -> Result<(Self, Vec<Error>)> {
        let (inputs, mut errors) = find::find(&[path.to_owned()]);
        if inputs.is_empty() && errors.is_empty() {
            return Err(Error::usage("found no .ycd, .forge, .data or .Animation").in_file(path));
        }
        let names = Names::with_files(&options.names)?;
        let mut skeletons = Skeletons::default();
        if let Some(path) = &options.skeleton {
            skeletons.given = Skeletons::given(path)?;
        }
        let mut sources = Vec::with_capacity(inputs.len());
        for input in &inputs {
            match work::open(input, &options.anvil) {
                Ok(source) => sources.push(Some(source)),
                Err(e) => {
                    errors.push(e);
                    sources.push(None);
                }
            }
        }
        let archives: Vec<(usize, &[Entry])> = sources
            .iter()
            .enumerate()
            .filter_map(|(i, s)| match s {
                Some(Source::Anvil(s)) if s.kind() == anvil::Kind::Forge => Some((i, s.entries())),
                _ => None,
            })
            .collect();
        let tables: Vec<&[Entry]> = archives.iter().map(|(_, entries)| *entries).collect();
        // A later archive's entry of one id stands for that of an earlier one, as in a conversion.
        let replaced: HashMap<usize, Vec<usize>> =
            archives.iter().map(|(i, _)| *i).zip(anvil::superseded(&tables)).collect();
        let mut units = Vec::new();
        for (input, source) in sources.iter().enumerate() {
            match source {
                Some(Source::Anvil(source)) => {
                    let replaced = replaced.get(&input).map_or(&[][..], Vec::as_slice);
                    let found: Vec<Vec<Skeleton>> = (0..source.entries().len())
                        .into_par_iter()
                        .filter(|entry| !replaced.contains(entry))
                        .map_init(anvil::Scratch::new, |scratch, entry| {
                            work::scan(source, entry, scratch).skeletons
                        })
                        .collect();
                    skeletons.found.extend(found.into_iter().flatten().map(|s| (input, s)));
                    let left = (0..source.entries().len()).filter(|entry| !replaced.contains(entry));
                    units.extend(left.map(|entry| Unit { input, entry, size: 0 }));
                }
                Some(Source::Rpf { entries, problems, .. }) => {
                    errors.extend(problems.iter().map(|e| Error::new(e.kind(), e.to_string())));
                    units.extend((0..entries.len()).map(|entry| Unit { input, entry, size: 0 }));
                }
                Some(Source::Dictionary) => units.push(Unit { input, entry: 0, size: 0 }),
                None => {}
            }
        }
        Ok((Sources { inputs, sources, units, skeletons, names }, errors))
    }

    /// What can be read for itself, in order.
    pub fn units(&self) -> &[Unit] {
        &self.units
    }

    /// Reads a unit.
    pub fn read(&self, unit: Unit, scratch: &mut anvil::Scratch) -> (Vec<Group>, Vec<Error>) {
        let input = &self.inputs[unit.input];
        let (items, mut errors) = work::items(&self.inputs, &self.sources, unit, scratch);
        let mut groups = Vec::new();
        for item in items {
            let group = work::read(&item, &work::source_text(input, &item)).and_then(|read| {
                errors.extend(read.errors.into_iter().map(|e| e.in_file(&input.path)));
                let (skeleton, _) = self.skeletons.choose(unit.input, &read.clips)?;
                Ok(Group { rig: rig::build(&skeleton, &read.clips, &self.names)?, clips: read.clips })
            });
            match group {
                Ok(group) => groups.push(group),
                Err(e) => errors.push(e.in_file(&input.path)),
            }
        }
        (groups, errors)
    }
}
