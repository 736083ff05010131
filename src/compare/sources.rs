//! The source side of [`verify`](crate::compare::verify): clips as the readers give them, before any pass, with the rig
//! that a conversion would put them on.

use std::path::{Path, PathBuf};

use crate::convert::rig;
use crate::error::{Error, Result};
use crate::model::{Clip, Skeleton};
use crate::source::skeletons::Skeletons;
use crate::source::survey::{self, Unit, survey};
use crate::source::{self, Game, Input, Names, ReadOptions, Scratch, Source, find};

/// What the conversion was told of skeletons and names, and the source must be told again.
#[derive(Debug, Clone)]
pub struct Options {
    /// `--skeleton`.
    pub skeleton: Option<PathBuf>,
    /// `--names`.
    pub names: Vec<PathBuf>,
    /// The games whose files are read.
    pub games: &'static [&'static dyn Game],
    /// How containers are read.
    pub read: ReadOptions,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            skeleton: None,
            names: Vec::new(),
            games: crate::games::GAMES,
            read: ReadOptions::default(),
        }
    }
}

/// Clips that were read together (a dictionary, an Animation) on their rig.
#[derive(Debug)]
pub struct Group {
    /// Whose they are.
    pub game: &'static dyn Game,
    /// Every joint, named.
    pub rig: Skeleton,
    /// The clips.
    pub clips: Vec<Clip>,
}

/// An opened source.
#[derive(Debug)]
pub struct Sources {
    inputs: Vec<Input>,
    sources: Vec<Option<Box<dyn Source>>>,
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
        let games = options.games;
        games.iter().try_for_each(|g| g.check_options(&options.read))?;
        let given = [path.to_owned()];
        let (inputs, mut errors) = find::find(&given, games);
        if inputs.is_empty() && errors.is_empty() {
            return Err(source::nothing_found(games, &given));
        }
        let names = Names::with_files(games, &options.names)?;
        let mut skeletons = Skeletons::new(options.skeleton.as_deref(), games)?;
        let mut sources = Vec::with_capacity(inputs.len());
        for input in &inputs {
            match source::open(input, games, &options.read) {
                Ok(source) => sources.push(Some(source)),
                Err(e) => {
                    errors.push(e);
                    sources.push(None);
                }
            }
        }
        // As a conversion looks through them.
        let survey = survey(&inputs, &sources, &mut skeletons, |_| {});
        errors.extend(survey.errors);
        let mut units = survey.units;
        units.iter_mut().for_each(|unit| unit.found = None);
        Ok((Sources { inputs, sources, units, skeletons, names }, errors))
    }

    /// What can be read for itself, in order.
    pub fn units(&self) -> &[Unit] {
        &self.units
    }

    /// Reads a unit.
    pub fn read(&self, unit: &Unit, scratch: &mut Scratch) -> (Vec<Group>, Vec<Error>) {
        let input = &self.inputs[unit.input];
        let Some(source) = self.sources[unit.input].as_deref() else { return (Vec::new(), Vec::new()) };
        let survey::Contents { resources, mut errors, .. } = survey::read(source, unit, scratch);
        let mut groups = Vec::new();
        for resource in resources {
            let text = source::text(input, source.layout(), &resource);
            let group = resource.game.read(&resource, &text, scratch).and_then(|read| {
                errors.extend(read.errors.into_iter().map(|e| e.in_file(&input.path)));
                let skeleton = self.skeletons.choose(unit.input, &read.clips)?.skeleton;
                Ok(Group {
                    game: resource.game,
                    rig: rig::build(&skeleton, &read.clips, &self.names)?,
                    clips: read.clips,
                })
            });
            match group {
                Ok(group) => groups.push(group),
                Err(e) => errors.push(e.in_file(&input.path)),
            }
        }
        (groups, errors)
    }
}
