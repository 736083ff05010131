//! The source side of [`verify`](crate::compare::verify): clips as the readers give them, before any pass, with the rig
//! that a conversion would put them on.

use std::path::{Path, PathBuf};

use crate::convert::rig;
use crate::error::{Error, Result};
use crate::games::anvil::container::file as anvil;
use crate::model::{Clip, Skeleton};
use crate::source::find;
use crate::source::find::Input;
use crate::source::plan::plan;
use crate::source::skeletons::Skeletons;
use crate::source::work;
use crate::source::work::{Contents, Names, Source, Unit};

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
        let mut skeletons = Skeletons::new(options.skeleton.as_deref())?;
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
        // As a conversion looks through them.
        let plan = plan(&inputs, &sources, &mut skeletons, |_| {});
        errors.extend(plan.errors);
        let mut units = plan.units;
        units.iter_mut().for_each(|unit| unit.found = None);
        Ok((Sources { inputs, sources, units, skeletons, names }, errors))
    }

    /// What can be read for itself, in order.
    pub fn units(&self) -> &[Unit] {
        &self.units
    }

    /// Reads a unit.
    pub fn read(&self, unit: &Unit, scratch: &mut anvil::Scratch) -> (Vec<Group>, Vec<Error>) {
        let input = &self.inputs[unit.input];
        let Contents { items, mut errors, .. } = work::items(&self.inputs, &self.sources, unit, scratch);
        let mut groups = Vec::new();
        for item in items {
            let group = work::read(&item, &work::source_text(input, &item)).and_then(|read| {
                errors.extend(read.errors.into_iter().map(|e| e.in_file(&input.path)));
                let skeleton = self.skeletons.choose(unit.input, &read.clips)?.skeleton;
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
