//! What a run is told to do.

use std::fmt;
use std::path::PathBuf;

use globset::{Glob, GlobSet, GlobSetBuilder};

use crate::error::{Error, Result};
use crate::formats::{Format, WriteOptions};
use crate::model::Clip;
use crate::passes::{Bake, RootMotion};
use crate::source::{Game, PoseRules, ReadOptions};

/// What a run does.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Files and folders.
    pub inputs: Vec<PathBuf>,
    /// The output folder.
    pub out: PathBuf,
    /// What is written.
    pub format: &'static dyn Format,
    /// How it is written.
    pub write: WriteOptions,
    /// What happens to curves.
    pub passes: Passes,
    /// Only these clips.
    pub select: Select,
    /// The games whose files are read.
    pub games: &'static [&'static dyn Game],
    /// How containers are read.
    pub read: ReadOptions,
    /// A skeleton file, or a folder of them.
    pub skeleton: Option<PathBuf>,
    /// Files with more bone names.
    pub names: Vec<PathBuf>,
    /// Threads; 0: all cores.
    pub threads: usize,
    /// Clips of one skeleton in a file, at most; 0: a file for each dictionary or clip.
    pub bundle: usize,
    /// Part K of N of the work, K from 1.
    pub shard: Option<(u32, u32)>,
    /// Do everything again.
    pub force: bool,
    /// Only say what would be converted.
    pub list: bool,
    /// Numbered sections of one whole become one file ([`crate::source::sections`]).
    pub join_sections: bool,
}

/// What happens to curves between reading and writing.
#[derive(Debug, Clone)]
pub struct Passes {
    /// Largest angle, degrees, between a written rotation and the source's between keys.
    pub tolerance_deg: f64,
    /// A key on every frame.
    pub bake: Option<Bake>,
    /// Few keys, within this many millimetres.
    pub reduce_mm: Option<f64>,
    /// Rotations will be written in 16 bits: a reduction counts with that.
    pub quantize: bool,
    /// Where root motion goes.
    pub root_motion: RootMotion,
    /// What additive clips stand on.
    pub additive: Additive,
    /// What a game's own code does to a pose.
    pub pose: PoseRules,
}

/// What happens to additive clips.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Additive {
    /// Their deltas are written, marked.
    #[default]
    Deltas,
    /// They are composed on the rest pose.
    Rest,
    /// They are composed on the clip of this name or id.
    Clip(String),
}

impl Default for Passes {
    fn default() -> Self {
        Passes {
            // The bound is 0.05; key times are rounded to f32 afterwards, which in long clips costs up to 0.0006.
            tolerance_deg: 0.049,
            bake: None,
            reduce_mm: None,
            quantize: false,
            root_motion: RootMotion::Keep,
            additive: Additive::Deltas,
            pose: PoseRules::default(),
        }
    }
}

/// Which clips are taken.
#[derive(Debug, Clone, Default)]
pub struct Select {
    /// Names that are taken; all where there is none.
    pub clips: Option<Globs>,
    /// Names that are not.
    pub exclude: Option<Globs>,
    /// Shortest clip, seconds.
    pub min_length_s: f64,
    /// Only this game.
    pub game: Option<String>,
}

impl Select {
    /// Whether the clip is taken.
    pub fn takes(&self, clip: &Clip) -> bool {
        self.takes_game(clip.game)
            && clip.length_s >= self.min_length_s
            && self.clips.as_ref().is_none_or(|globs| globs.name(clip))
            && !self.exclude.as_ref().is_some_and(|globs| globs.name(clip))
    }

    /// Whether any clip of `game` can be taken.
    pub fn takes_game(&self, game: &str) -> bool {
        self.game.as_ref().is_none_or(|g| g.eq_ignore_ascii_case(game))
    }
}

/// Patterns for names of clips: `*`, `?`, `[...]`, `{a,b}`.
#[derive(Clone)]
pub struct Globs {
    patterns: Vec<String>,
    set: GlobSet,
}

impl Globs {
    /// Any of `patterns`; `None` where there is none.
    ///
    /// # Errors
    /// Usage: a pattern that is none.
    pub fn new(patterns: &[String]) -> Result<Option<Self>> {
        if patterns.is_empty() {
            return Ok(None);
        }
        let mut set = GlobSetBuilder::new();
        for pattern in patterns {
            set.add(Glob::new(pattern).map_err(|e| Error::usage(format!("pattern {pattern}: {e}")))?);
        }
        let set = set.build().map_err(|e| Error::usage(e.to_string()))?;
        Ok(Some(Globs { patterns: patterns.to_vec(), set }))
    }

    /// Whether one matches the clip's name, its whole name or its id.
    fn name(&self, clip: &Clip) -> bool {
        self.set.is_match(&clip.short_name)
            || self.set.is_match(&clip.name)
            || self.set.is_match(clip.id.to_string())
    }
}

/// The patterns alone: what is built of them says the same and is no stable text.
impl fmt::Debug for Globs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.patterns.fmt(f)
    }
}

impl Settings {
    /// The defaults: faithful curves, nothing left out, all cores.
    pub fn new(inputs: Vec<PathBuf>, out: PathBuf, format: &'static dyn Format) -> Self {
        Settings {
            inputs,
            out,
            format,
            write: WriteOptions::default(),
            passes: Passes::default(),
            select: Select::default(),
            games: crate::games::GAMES,
            read: ReadOptions::default(),
            skeleton: None,
            names: Vec::new(),
            threads: 0,
            bundle: 0,
            shard: None,
            force: false,
            list: false,
            join_sections: false,
        }
    }

    /// What tells this shard's files of the output folder from others': empty where there is one.
    pub fn tag(&self) -> String {
        self.shard.map_or_else(String::new, |(k, n)| format!(".{k}-of-{n}"))
    }
}
