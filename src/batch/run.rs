//! One run, round by round.
//!
//! A round takes units (dictionaries, archive entries) up to a few megabytes of stored bytes and goes through
//! four steps; what is in order is done in order, the rest on all threads:
//!
//! 1. units are read and unpacked into items (parallel);
//! 2. items get their output paths, repeated ones and finished ones are set aside (in order);
//! 3. items are read, resampled, and written under temporary names that become final (parallel);
//! 4. journal, manifest, progress (in order).
//!
//! So the same input gives the same files on any number of threads, and memory holds one round.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use globset::GlobSet;
use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};
use xxhash_rust::xxh3::xxh3_128;

use super::cutscene::{self, Cutscenes, Section};
use super::find::{self, Input, Kind};
use super::journal::{Done, Journal};
use super::output::{self, Paths};
use super::report;
use super::skeletons::Skeletons;
use super::work::{self, Item, Names, Source, Unit};
use crate::container::anvil;
use crate::container::object::class;
use crate::error::{Error, Result};
use crate::model::{Clip, JointId, Skeleton};
use crate::resample::{self, AdditiveBase, Bake, RootMotion};
use crate::rig::{self, JointNames};
use crate::write::format::{self, Files, Format};
use crate::write::manifest::{ClipRow, ErrorRow, FileRow, Manifest, NoteRow, UseRow};
use crate::write::scene::Scene;
use crate::write::ycd_xml;

/// Stored bytes that a round takes, and units that it takes at most.
const ROUND_BYTES: u64 = 4 << 20;
const ROUND_UNITS: usize = 512;

/// An archive up to this size is looked through whole for skeletons and users of clips; of a larger one only the
/// entries whose class may hold some, or is not known.
const LOOK_THROUGH_BYTES: u64 = 256 << 20;

/// What a run does.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Files and folders.
    pub inputs: Vec<PathBuf>,
    /// The output folder.
    pub out: PathBuf,
    /// How files are written.
    pub write: format::Options,
    /// What happens to curves.
    pub passes: Passes,
    /// Only these clips.
    pub select: Select,
    /// How containers are read.
    pub anvil: anvil::Options,
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
    /// Sections of a cutscene become one file ([`super::cutscene`]).
    pub join_cutscene: bool,
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
    /// GTA V: thigh-roll bones without a rotation of their own follow their thighs.
    pub thigh_roll: bool,
    /// GTA V: facial tracks move their bones by what is guessed of them.
    pub facial: bool,
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
            tolerance_deg: 0.05,
            bake: None,
            reduce_mm: None,
            quantize: false,
            root_motion: RootMotion::Keep,
            additive: Additive::Deltas,
            thigh_roll: true,
            facial: false,
        }
    }
}

/// Which clips are taken.
#[derive(Debug, Clone, Default)]
pub struct Select {
    /// Names that are taken; all where there is none.
    pub clips: Option<GlobSet>,
    /// Names that are not.
    pub exclude: Option<GlobSet>,
    /// Shortest clip, seconds.
    pub min_length_s: f64,
    /// Only this game.
    pub game: Option<String>,
}

impl Select {
    fn takes(&self, clip: &Clip) -> bool {
        let named = |set: &GlobSet| {
            set.is_match(&clip.short_name) || set.is_match(&clip.name) || set.is_match(clip.id.to_string())
        };
        self.clips.as_ref().is_none_or(named)
            && !self.exclude.as_ref().is_some_and(named)
            && clip.length_s >= self.min_length_s
            && self.game.as_ref().is_none_or(|g| g.eq_ignore_ascii_case(clip.game))
    }
}

impl Settings {
    /// The defaults: faithful curves, nothing left out, all cores.
    pub fn new(inputs: Vec<PathBuf>, out: PathBuf, write: format::Options) -> Self {
        Settings {
            inputs,
            out,
            write,
            passes: Passes::default(),
            select: Select::default(),
            anvil: anvil::Options::default(),
            skeleton: None,
            names: Vec::new(),
            threads: 0,
            bundle: 0,
            shard: None,
            force: false,
            list: false,
            join_cutscene: false,
        }
    }

    /// What tells this shard's files of the output folder from others': empty where there is one.
    fn tag(&self) -> String {
        self.shard.map_or_else(String::new, |(k, n)| format!(".{k}-of-{n}"))
    }
}

/// Hears of a run's course.
pub trait Progress {
    /// `total` units (dictionaries, archive entries) are to be read.
    fn begin(&mut self, total: usize);
    /// `units` more are done; `name` is the last.
    fn advance(&mut self, units: usize, name: &str, outcome: &Outcome);
    /// A clip was written (or found finished, or listed).
    fn clip(&mut self, row: &ClipRow, fresh: bool);
    /// Something failed; the run goes on.
    fn failed(&mut self, error: &Error);
}

/// What came of a run.
#[derive(Debug, Default, Clone)]
pub struct Outcome {
    /// Clips written or found finished.
    pub clips: usize,
    /// Of these: found finished by an earlier run.
    pub finished: usize,
    /// Files written or found finished, companions not counted.
    pub files: usize,
    /// Failures.
    pub errors: usize,
    /// Clips with warnings.
    pub warned: usize,
    /// Keys of joint tracks.
    pub keys: u64,
    /// Clips that the selection left out.
    pub left_out: usize,
    /// Clips that repeat others.
    pub repeated: usize,
    /// Clips of other shards.
    pub elsewhere: usize,
    /// Seconds that the run took.
    pub seconds: f64,
}

impl Outcome {
    /// 0 all, 1 some failed, 2 nothing done.
    pub fn exit_code(&self) -> u8 {
        match (self.errors, self.clips + self.elsewhere + self.left_out) {
            (0, 1..) => 0,
            (_, 0) => 2,
            _ => 1,
        }
    }
}

/// Converts everything that `settings` names and writes the manifest and the report.
///
/// # Errors
/// Only what stops the whole run: an output folder that cannot be written, no input at all, a skeleton file that
/// cannot be read.
pub fn run(settings: &Settings, progress: &mut (dyn Progress + Send + Sync)) -> Result<Outcome> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(settings.threads)
        .build()
        .map_err(|e| Error::usage(format!("cannot start threads: {e}")))?;
    pool.install(|| Run::new(settings, progress)?.go())
}

struct Run<'a> {
    settings: &'a Settings,
    progress: &'a mut (dyn Progress + Send + Sync),
    manifest: Manifest,
    outcome: Outcome,
    paths: Paths,
    names: Names,
    skeletons: Skeletons,
    /// Which units are joined.
    cutscenes: Cutscenes,
    /// Fingerprint of everything but the items' own bytes.
    options: String,
    /// Fingerprint of all skeletons of the run.
    fingerprint: u32,
    /// The clip that additive ones are composed on, where one is named and found.
    base: Option<Clip>,
    /// First place of an Animation: id -> (content hash, row where it stands or would).
    seen: FxHashMap<(u64, u128), String>,
    ids: FxHashSet<u64>,
    /// Places of repeated clips: id and hash -> sources.
    again: FxHashMap<(u64, u128), Vec<String>>,
    /// Row index ranges by identity, to add the places at the end.
    rows: Vec<(usize, (u64, u128))>,
    journal: Option<Journal>,
    /// Clips that wait for their bundle, by folder and skeleton.
    bundles: Vec<Bundle>,
    started: Instant,
}

struct Bundle {
    folder: String,
    skeleton: Skeleton,
    clips: Vec<Clip>,
    keys: Vec<u128>,
    made: usize,
}

/// An item on its way to a file.
struct Job {
    /// What is read, or what stands for `sections`.
    item: Item,
    /// The sections of a cutscene, which are joined; none of anything else.
    sections: Vec<Section>,
    source: String,
    /// Output path without extension.
    stem: String,
}

enum Made {
    Written { done: Done, notes: Vec<String>, errors: Vec<Error>, left_out: usize },
    Finished(Done),
    Clips { clips: Vec<Clip>, notes: Vec<String>, errors: Vec<Error>, left_out: usize },
    Failed(Error),
    LeftOut { left_out: usize, errors: Vec<Error> },
}

impl<'a> Run<'a> {
    fn new(settings: &'a Settings, progress: &'a mut (dyn Progress + Send + Sync)) -> Result<Self> {
        let names = Names::with_files(&settings.names)?;
        let mut skeletons = Skeletons::default();
        if let Some(path) = &settings.skeleton {
            skeletons.given = Skeletons::given(path)?;
        }
        let options = format!(
            "{} {:?} {:?} {:?} {:?} {:?}",
            env!("CARGO_PKG_VERSION"),
            settings.write,
            settings.passes,
            settings.select,
            settings.anvil,
            settings
                .names
                .iter()
                .map(|p| fs::read(p).map(|b| xxh3_128(&b)).unwrap_or_default())
                .collect::<Vec<_>>(),
        );
        Ok(Run {
            settings,
            progress,
            manifest: Manifest {
                generator: concat!("anim2gltf ", env!("CARGO_PKG_VERSION")).to_owned(),
                ..Manifest::default()
            },
            outcome: Outcome::default(),
            paths: Paths::default(),
            names,
            skeletons,
            cutscenes: Cutscenes::default(),
            options,
            fingerprint: 0,
            base: None,
            seen: FxHashMap::default(),
            ids: FxHashSet::default(),
            again: FxHashMap::default(),
            rows: Vec::new(),
            journal: None,
            bundles: Vec::new(),
            started: Instant::now(),
        })
    }

    fn go(mut self) -> Result<Outcome> {
        let (inputs, errors) = find::find(&self.settings.inputs);
        for e in errors {
            self.fail(&e);
        }
        if inputs.is_empty() && self.outcome.errors == 0 {
            let given: Vec<String> = self.settings.inputs.iter().map(|p| p.display().to_string()).collect();
            return Err(Error::usage(format!(
                "found no .ycd, .forge, .data or .Animation in {}",
                given.join(", ")
            )));
        }
        if !self.settings.list {
            self.open_output()?;
        }
        let sources: Vec<Option<Source>> = inputs
            .iter()
            .map(|input| match work::open(input, &self.settings.anvil) {
                Ok(source) => Some(source),
                Err(e) => {
                    self.fail(&e);
                    None
                }
            })
            .collect();
        let mut units = self.plan(&inputs, &sources);
        if self.settings.join_cutscene {
            self.cutscenes = Cutscenes::find(&inputs, &sources, &mut units);
        }
        self.fingerprint = self.skeletons.fingerprint();
        if let Additive::Clip(name) = &self.settings.passes.additive {
            self.base = self.find_base(&inputs, &sources, &units, name);
            if self.base.is_none() {
                return Err(Error::usage(format!("found no clip \"{name}\" to compose additive clips on")));
            }
        }
        self.progress.begin(units.len());
        let mut rest = &units[..];
        while !rest.is_empty() {
            let mut bytes = 0;
            let mut n = rest
                .iter()
                .take(ROUND_UNITS)
                .take_while(|u| {
                    let room = bytes < ROUND_BYTES;
                    bytes += u.size;
                    room
                })
                .count()
                .max(1);
            // The sections of a cutscene are in one round.
            let cutscene = |unit: &Unit| self.cutscenes.of(unit).map(|(cutscene, _)| cutscene);
            let last = cutscene(&rest[n - 1]);
            while last.is_some() && rest.get(n).is_some_and(|unit| cutscene(unit) == last) {
                n += 1;
            }
            let (round, later) = rest.split_at(n);
            rest = later;
            self.round(&inputs, &sources, round)?;
        }
        self.flush_bundles(true)?;
        self.finish()
    }

    fn open_output(&mut self) -> Result<()> {
        let out = &self.settings.out;
        fs::create_dir_all(out).map_err(|e| Error::io("cannot be made", e).in_file(out))?;
        output::clean(out, &self.settings.tag());
        let previous =
            if self.settings.force { Vec::new() } else { report::previous(out, &self.settings.tag()) };
        self.journal = Some(Journal::open(out, &self.settings.tag(), previous, self.settings.force)?);
        Ok(())
    }

    /// Looks for the clip called `name` in all units.
    fn find_base(
        &self,
        inputs: &[Input],
        sources: &[Option<Source>],
        units: &[Unit],
        name: &str,
    ) -> Option<Clip> {
        units
            .par_iter()
            .map_init(anvil::Scratch::new, |scratch, unit| {
                let (items, _) = work::items(inputs, sources, *unit, scratch);
                let wanted = |item: &&Item| {
                    matches!(item.content, work::Content::Dictionary(_))
                        || item.name == name
                        || format!("{:X}", item.id).eq_ignore_ascii_case(name)
                };
                items
                    .iter()
                    .filter(wanted)
                    .filter_map(|item| work::read(item, "").ok())
                    .flat_map(|read| read.clips)
                    .find(|clip| is_called(clip, name))
            })
            .find_first(Option::is_some)
            .flatten()
    }

    /// Lists the units that may hold clips; finds skeletons and the objects that name clips on the way.
    fn plan(&mut self, inputs: &[Input], sources: &[Option<Source>]) -> Vec<Unit> {
        let archives: Vec<(usize, &anvil::AnvilSource)> = sources
            .iter()
            .enumerate()
            .filter_map(|(i, s)| match s {
                Some(Source::Anvil(source)) if source.kind() == anvil::Kind::Forge => Some((i, &**source)),
                _ => None,
            })
            .collect();
        let tables: Vec<&[_]> = archives.iter().map(|(_, a)| a.entries()).collect();
        let mut replaced: FxHashMap<usize, FxHashSet<usize>> = FxHashMap::default();
        for ((input, _), entries) in archives.iter().zip(anvil::superseded(&tables)) {
            if !entries.is_empty() {
                self.note(
                    &inputs[*input].relative,
                    format!(
                        "{} entries are replaced by those of a later archive with the same id",
                        entries.len()
                    ),
                );
                replaced.insert(*input, entries.into_iter().collect());
            }
        }
        let mut units = Vec::new();
        for (i, source) in sources.iter().enumerate() {
            match source {
                Some(Source::Dictionary) => {
                    let size = fs::metadata(&inputs[i].path).map_or(0, |m| m.len());
                    units.push(Unit { input: i, entry: 0, size });
                }
                Some(Source::Rpf { entries, problems, .. }) => {
                    for problem in problems {
                        self.fail(problem);
                    }
                    if entries.is_empty() && problems.is_empty() {
                        self.note(&inputs[i].relative, "an archive without clip dictionaries".to_owned());
                    }
                    units.extend((0..entries.len()).map(|entry| Unit { input: i, entry, size: 64 << 10 }));
                }
                Some(Source::Anvil(source)) => {
                    for note in source.notes() {
                        self.note(&inputs[i].relative, note.clone());
                    }
                    for fault in source.faults() {
                        self.report(&inputs[i], fault);
                    }
                    let replaced = replaced.remove(&i).unwrap_or_default();
                    units.extend(self.plan_archive(i, &inputs[i], source, &replaced));
                }
                None => {}
            }
        }
        units
    }

    fn plan_archive(
        &mut self,
        input: usize,
        given: &Input,
        source: &anvil::AnvilSource,
        replaced: &FxHashSet<usize>,
    ) -> Vec<Unit> {
        let entries = source.entries();
        let total: u64 = entries.iter().map(|e| e.size).sum();
        let look = |e: &crate::container::forge::Entry| match e.class {
            Some(class::ANIMATION) => total <= LOOK_THROUGH_BYTES,
            Some(class::SKELETON | class::ENTITY | class::ANIM_SET) | None | Some(0) => true,
            Some(_) => e.size <= ROUND_BYTES,
        };
        let scans: Vec<(usize, Option<work::Scan>)> = (0..entries.len())
            .into_par_iter()
            .filter(|i| !replaced.contains(i))
            .map_init(anvil::Scratch::new, |scratch, i| {
                (i, look(&entries[i]).then(|| work::scan(source, i, scratch)))
            })
            .collect();
        let mut units = Vec::new();
        let mut notes: FxHashMap<String, usize> = FxHashMap::default();
        for (i, scan) in scans {
            let entry = &entries[i];
            let unit = Unit { input, entry: i, size: entry.size };
            let Some(scan) = scan else {
                if entry.class == Some(class::ANIMATION) {
                    units.push(unit);
                }
                continue;
            };
            self.skeletons.found.extend(scan.skeletons.into_iter().map(|s| (input, s)));
            for e in &scan.errors {
                self.report(given, e);
            }
            for note in scan.notes {
                *notes.entry(note).or_default() += 1;
            }
            for set in scan.sets {
                self.manifest.uses.push(UseRow {
                    class: "AnimSet".to_owned(),
                    source: given.relative.clone(),
                    id: format!("{:X}", set.id),
                    name: set.name,
                    pairs: set.pairs.iter().map(|p| p.map(|id| format!("{id:X}"))).collect(),
                    clips: Vec::new(),
                });
            }
            for (name, id, clips) in scan.entities {
                self.manifest.uses.push(UseRow {
                    class: "Entity".to_owned(),
                    source: given.relative.clone(),
                    id: format!("{id:X}"),
                    name,
                    pairs: Vec::new(),
                    clips: clips.iter().map(|id| format!("{id:X}")).collect(),
                });
            }
            if scan.has_animations || entry.class == Some(class::ANIMATION) {
                units.push(unit);
            }
        }
        let mut notes: Vec<(String, usize)> = notes.into_iter().collect();
        notes.sort();
        for (note, count) in notes {
            let text = if count == 1 { note } else { format!("{note} ({count} entries)") };
            self.note(&given.relative, text);
        }
        self.manifest.uses.dedup();
        units
    }

    fn round(&mut self, inputs: &[Input], sources: &[Option<Source>], units: &[Unit]) -> Result<()> {
        // 1. Read.
        let read: Vec<(Vec<Item>, Vec<Error>)> = units
            .par_iter()
            .map_init(anvil::Scratch::new, |scratch, unit| work::items(inputs, sources, *unit, scratch))
            .collect();
        // 2. Paths, repeats, shards.
        let mut jobs = Vec::new();
        let mut last = String::new();
        let mut sections: Vec<(usize, Section)> = Vec::new();
        for (unit, (items, errors)) in units.iter().zip(read) {
            for e in errors {
                self.fail(&e);
            }
            let section = self.cutscenes.of(unit);
            if sections.first().is_some_and(|(before, _)| section.is_none_or(|(now, _)| now != *before)) {
                jobs.extend(self.place_cutscene(inputs, &mut sections));
            }
            for item in items {
                let input = &inputs[item.input];
                let source = work::source_text(input, &item);
                last.clone_from(&source);
                if let Some((cutscene, number)) = section {
                    sections.push((cutscene, Section { number, item, source, file: input.path.clone() }));
                } else {
                    jobs.extend(self.place(input, item, source, Vec::new()));
                }
            }
        }
        jobs.extend(self.place_cutscene(inputs, &mut sections));
        // 3. Make.
        let this = &*self;
        let made: Vec<Made> = jobs.par_iter().map(|job| this.make(inputs, job)).collect();
        // 4. Remember.
        for (job, made) in jobs.into_iter().zip(made) {
            self.remember(inputs, job, made)?;
        }
        self.outcome.seconds = self.started.elapsed().as_secs_f64();
        self.progress.advance(units.len(), &last, &self.outcome);
        Ok(())
    }

    /// Makes one job of the sections of a cutscene; `None` where there are none, or another shard does it.
    fn place_cutscene(&mut self, inputs: &[Input], sections: &mut Vec<(usize, Section)>) -> Option<Job> {
        let cutscene = sections.first()?.0;
        let sections: Vec<Section> = sections.drain(..).map(|(_, section)| section).collect();
        let (item, source) = self.cutscenes.item(cutscene, &sections)?;
        self.place(&inputs[item.input], item, source, sections)
    }

    /// Gives an item its output path; `None` for one that is there already or that another shard does.
    fn place(&mut self, input: &Input, item: Item, source: String, sections: Vec<Section>) -> Option<Job> {
        let is_object = matches!(item.content, work::Content::Object { .. });
        let identity = (item.id, item.hash);
        // A loose file was given for its own sake, whatever else holds the same clip.
        if is_object && input.kind != Kind::Anvil(anvil::Kind::Loose) {
            if self.seen.contains_key(&identity) {
                self.outcome.repeated += 1;
                self.again.entry(identity).or_default().push(source);
                return None;
            }
            if !self.ids.insert(item.id) {
                let text = format!(
                    "clip \"{}\" ({:X}) is there with other bytes before: both are written",
                    item.name, item.id
                );
                self.note(&source, text);
            }
            self.seen.insert(identity, source.clone());
        }
        let (folder, mut name) = work::wanted_output(input, &item);
        if !sections.is_empty() {
            name.clone_from(&item.name);
        }
        let stem = if is_object && matches!(input.kind, Kind::Anvil(anvil::Kind::Forge | anvil::Kind::Data)) {
            self.paths.unique_by(&folder, &name, &format!("{:X}", item.id))
        } else {
            self.paths.unique(&format!("{folder}/{name}"))
        };
        if let Some((k, n)) = self.settings.shard {
            let lot = if is_object { xxh3_128(&item.id.to_le_bytes()) ^ item.hash } else { item.hash };
            if (lot % u128::from(n)) as u32 != k - 1 {
                self.outcome.elsewhere += 1;
                return None;
            }
        }
        Some(Job { item, sections, source, stem })
    }

    /// Everything that an output depends on.
    fn key(&self, item: &Item, source: &str, stem: &str) -> String {
        let text = format!("{} {:032X} {source} {stem} {:08X}", self.options, item.hash, self.fingerprint);
        format!("{:032X}", xxh3_128(text.as_bytes()))
    }

    fn make(&self, inputs: &[Input], job: &Job) -> Made {
        let file = &inputs[job.item.input].path;
        match self.try_make(job) {
            Ok(mut made) => {
                if let Made::Written { errors, .. }
                | Made::Clips { errors, .. }
                | Made::LeftOut { errors, .. } = &mut made
                {
                    *errors = std::mem::take(errors).into_iter().map(|e| e.in_file(file)).collect();
                }
                made
            }
            Err(e) => Made::Failed(e.in_file(file)),
        }
    }

    fn try_make(&self, job: &Job) -> Result<Made> {
        let settings = self.settings;
        let output = format!("{}.{}", job.stem, settings.write.format.extension());
        let streamed = settings.list || settings.bundle > 0;
        let key = self.key(&job.item, &job.source, &job.stem);
        if !streamed
            && let Some(done) = self.journal.as_ref().and_then(|j| j.find(&settings.out, &output, &key))
        {
            return Ok(Made::Finished(done));
        }
        if settings.write.format == Format::YcdXml {
            return self.make_xml(job, output, key);
        }
        let read = match &job.sections[..] {
            [] => work::read(&job.item, &job.source)?,
            sections => cutscene::read(sections, &job.source)?,
        };
        let (errors, mut notes) = (read.errors, read.notes);
        let before = read.clips.len();
        let mut clips: Vec<Clip> = read.clips.into_iter().filter(|c| settings.select.takes(c)).collect();
        let left_out = before - clips.len();
        if clips.is_empty() {
            return Ok(Made::LeftOut { left_out, errors });
        }
        if streamed {
            return Ok(Made::Clips { clips, notes, errors, left_out });
        }
        let (skeleton, note) = self.skeletons.choose(job.item.input, &clips)?;
        if let Some(note) = note {
            clips.iter_mut().for_each(|c| c.warnings.push(note.clone()));
        }
        let (files, rows) = self.pack(&mut clips, &skeleton, &job.stem, &output, &mut notes)?;
        let bytes = write_files(&settings.out, &job.stem, &files, &settings.tag())?;
        let rows_errors = errors.iter().map(ErrorRow::from).collect();
        Ok(Made::Written {
            done: Done { output, key, bytes, clips: rows, errors: rows_errors },
            notes,
            errors,
            left_out,
        })
    }

    /// A dictionary as CodeWalker's XML: records, not clips, go from one form to the other.
    fn make_xml(&self, job: &Job, output: String, key: String) -> Result<Made> {
        let work::Content::Dictionary(bytes) = &job.item.content else {
            return Err(Error::unsupported("only clip dictionaries have the form .ycd.xml"));
        };
        let mut scratch = Vec::new();
        let mut dictionary = work::dictionary(bytes, &mut scratch)?;
        let errors: Vec<Error> = std::mem::take(&mut dictionary.errors).into_iter().map(|(_, e)| e).collect();
        let (text, notes) = ycd_xml::write(&dictionary)?;
        let clips = crate::read::ycd::clips::assemble(dictionary, &job.source)?.clips;
        let rig = Skeleton::new("none", Vec::new())?;
        let rows = clips.iter().map(|c| ClipRow::new(c, &output, &c.short_name, &[], &rig)).collect();
        let files = vec![("ycd.xml", text.into_bytes())];
        let bytes = write_files(&self.settings.out, &job.stem, &files, &self.settings.tag())?;
        let done =
            Done { output, key, bytes, clips: rows, errors: errors.iter().map(ErrorRow::from).collect() };
        Ok(Made::Written { done, notes, errors, left_out: 0 })
    }

    fn pack(
        &self,
        clips: &mut [Clip],
        skeleton: &Skeleton,
        stem: &str,
        output: &str,
        _notes: &mut Vec<String>,
    ) -> Result<(Files, Vec<ClipRow>)> {
        let own = match &self.settings.passes.additive {
            Additive::Clip(name) => clips.iter().find(|c| is_called(c, name)).cloned(),
            _ => None,
        };
        let base = own.as_ref().or(self.base.as_ref());
        let rig = prepare(clips, skeleton, &self.names, &self.settings.passes, base)?;
        let write = options_for(clips, &rig, self.settings);
        let scene = Scene::new(&rig, clips);
        let name = stem.rsplit('/').next().unwrap_or(stem);
        let files = format::write(&scene, name, &write)?;
        let rows =
            scene.animations.iter().map(|a| ClipRow::new(a.clip, output, &a.name, &a.kept, &rig)).collect();
        Ok((files, rows))
    }

    fn remember(&mut self, inputs: &[Input], job: Job, made: Made) -> Result<()> {
        let identity =
            matches!(job.item.content, work::Content::Object { .. }).then_some((job.item.id, job.item.hash));
        match made {
            Made::Written { done, notes, errors, left_out } => {
                self.outcome.left_out += left_out;
                for e in &errors {
                    self.fail(e);
                }
                for note in notes {
                    self.note(&job.source, note);
                }
                if let Some(journal) = &mut self.journal {
                    journal.add(&done)?;
                }
                self.keep(done, identity, true);
            }
            Made::Finished(done) => {
                for e in &done.errors {
                    self.outcome.errors += 1;
                    let mut error = Error::unsupported(e.message.clone());
                    if let Some(offset) = e.offset {
                        error = error.at(offset);
                    }
                    if let Some(entry) = &e.entry {
                        error = error.in_entry(entry.clone());
                    }
                    self.progress.failed(&error.in_file(&inputs[job.item.input].path));
                    self.manifest.errors.push(e.clone());
                }
                self.keep(done, identity, false);
            }
            Made::Clips { clips, notes, errors, left_out } => {
                self.outcome.left_out += left_out;
                for e in &errors {
                    self.fail(e);
                }
                for note in notes {
                    self.note(&job.source, note);
                }
                if self.settings.list {
                    for clip in &clips {
                        let empty = Skeleton::new("", Vec::new())?;
                        let row = ClipRow::new(clip, "", &clip.short_name, &[], &empty);
                        self.outcome.clips += 1;
                        self.progress.clip(&row, false);
                    }
                } else {
                    self.bundle(&inputs[job.item.input], job.item.input, &job.item, clips)?;
                }
            }
            Made::LeftOut { left_out, errors } => {
                self.outcome.left_out += left_out;
                for e in &errors {
                    self.fail(e);
                }
            }
            Made::Failed(e) => self.fail(&e),
        }
        Ok(())
    }

    fn keep(&mut self, done: Done, identity: Option<(u64, u128)>, fresh: bool) {
        self.outcome.files += 1;
        for row in done.clips {
            self.outcome.clips += 1;
            self.outcome.finished += usize::from(!fresh);
            self.outcome.keys += row.keys;
            self.outcome.warned += usize::from(!row.warnings.is_empty());
            self.progress.clip(&row, fresh);
            if let Some(identity) = identity {
                self.rows.push((self.manifest.clips.len(), identity));
            }
            self.manifest.clips.push(row);
        }
        self.manifest.files.push(FileRow { output: done.output, key: done.key, bytes: done.bytes });
    }

    /// Puts clips into the bundle of their folder and skeleton, and writes those that are full.
    fn bundle(&mut self, input: &Input, index: usize, item: &Item, clips: Vec<Clip>) -> Result<()> {
        let (folder, _) = work::wanted_output(input, item);
        let (skeleton, note) = self.skeletons.choose(index, &clips)?;
        let skeleton = skeleton.into_owned();
        for mut clip in clips {
            clip.warnings.extend(note.clone());
            let place = self.bundles.iter().position(|b| {
                b.folder == folder && b.skeleton.name == skeleton.name && joins(&b.skeleton, &skeleton)
            });
            let place = match place {
                Some(place) => place,
                None => {
                    self.bundles.push(Bundle {
                        folder: folder.clone(),
                        skeleton: skeleton.clone(),
                        clips: Vec::new(),
                        keys: Vec::new(),
                        made: 0,
                    });
                    self.bundles.len() - 1
                }
            };
            let bundle = &mut self.bundles[place];
            if skeleton.joints().len() > bundle.skeleton.joints().len() {
                bundle.skeleton = skeleton.clone();
            }
            bundle.clips.push(clip);
            bundle.keys.push(item.hash);
        }
        self.flush_bundles(false)
    }

    fn flush_bundles(&mut self, all: bool) -> Result<()> {
        let size = self.settings.bundle.max(1);
        for place in 0..self.bundles.len() {
            while self.bundles[place].clips.len() >= size || (all && !self.bundles[place].clips.is_empty()) {
                let bundle = &mut self.bundles[place];
                let n = bundle.clips.len().min(size);
                let mut clips: Vec<Clip> = bundle.clips.drain(..n).collect();
                let keys: Vec<u128> = bundle.keys.drain(..n).collect();
                bundle.made += 1;
                let (folder, made) = (bundle.folder.clone(), bundle.made);
                let skeleton = bundle.skeleton.clone();
                let wanted = format!("{folder}/{}_{made:04}", output::safe_name(&skeleton.name));
                let stem = self.paths.unique(&wanted);
                let output = format!("{stem}.{}", self.settings.write.format.extension());
                let text = format!("{} {keys:X?} {stem} {:?}", self.options, skeleton.joints());
                let key = format!("{:032X}", xxh3_128(text.as_bytes()));
                if let Some(done) =
                    self.journal.as_ref().and_then(|j| j.find(&self.settings.out, &output, &key))
                {
                    self.keep(done, None, false);
                    continue;
                }
                let mut notes = Vec::new();
                let result =
                    self.pack(&mut clips, &skeleton, &stem, &output, &mut notes).and_then(|(files, rows)| {
                        let bytes = write_files(&self.settings.out, &stem, &files, &self.settings.tag())?;
                        Ok(Done { output: output.clone(), key, bytes, clips: rows, errors: Vec::new() })
                    });
                match result {
                    Ok(done) => {
                        if let Some(journal) = &mut self.journal {
                            journal.add(&done)?;
                        }
                        self.keep(done, None, true);
                    }
                    Err(e) => self.fail(&e.in_entry(output)),
                }
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Outcome> {
        for (row, identity) in std::mem::take(&mut self.rows) {
            if let Some(places) = self.again.get(&identity) {
                self.manifest.clips[row].also_at.clone_from(places);
            }
        }
        self.outcome.seconds = self.started.elapsed().as_secs_f64();
        if self.settings.list {
            return Ok(self.outcome);
        }
        report::write(&self.settings.out, &self.settings.tag(), &self.manifest, &self.outcome)?;
        if let Some(journal) = self.journal.take() {
            journal.close();
        }
        Ok(self.outcome)
    }

    fn note(&mut self, source: &str, note: String) {
        self.manifest.notes.push(NoteRow { source: source.to_owned(), note });
    }

    fn fail(&mut self, error: &Error) {
        self.progress.failed(error);
        self.outcome.errors += 1;
        self.manifest.errors.push(ErrorRow::from(error));
    }

    /// As [`Run::fail`], for an error that does not name its file.
    fn report(&mut self, input: &Input, error: &Error) {
        let mut row = ErrorRow::from(error);
        row.file.get_or_insert_with(|| input.path.to_string_lossy().into_owned());
        let mut named = Error::new(error.kind(), error.message());
        if let Some(offset) = error.offset() {
            named = named.at(offset);
        }
        if let Some(entry) = error.entry() {
            named = named.in_entry(entry);
        }
        self.progress.failed(&named.in_file(&input.path));
        self.outcome.errors += 1;
        self.manifest.errors.push(row);
    }
}

/// Whether `name` is one of the clip's names or its id.
fn is_called(clip: &Clip, name: &str) -> bool {
    clip.short_name == name || clip.name == name || clip.id.to_string().eq_ignore_ascii_case(name)
}

/// Whether clips on these two can share a file: every joint that both hold has the same parent and rest.
fn joins(a: &Skeleton, b: &Skeleton) -> bool {
    let parent = |s: &Skeleton, i: usize| s.joints()[i].parent.map(|p| s.joints()[p].id);
    a.joints().iter().enumerate().all(|(i, joint)| {
        b.find(joint.id).is_none_or(|k| parent(b, k) == parent(a, i) && b.joints()[k].rest == joint.rest)
    })
}

/// What GTA V does to a pose by code of its own; clips of other games have none of these bones.
fn rage(clip: &mut Clip, skeleton: &Skeleton, names: &dyn JointNames, passes: &Passes) {
    if passes.facial {
        let joints = resample::apply_facial_guesses(clip, skeleton);
        if joints > 0 {
            clip.warnings.push(format!(
                "{joints} facial tracks (24 to 26) move their bones by guesses of CodeWalker's, as --facial asks"
            ));
        }
    }
    if passes.thigh_roll {
        let rolls = resample::follow_thighs(clip, skeleton);
        if !rolls.is_empty() {
            let name = |tag| {
                let id = JointId::RageTag(tag);
                names.joint_name(id).map_or_else(|| rig::fallback_name(id), str::to_owned)
            };
            let rolls: Vec<String> = rolls.into_iter().map(name).collect();
            clip.extras.insert(ClipRow::THIGH_ROLLS.to_owned(), rolls.into());
        }
    }
}

/// The passes and the rig: clips as read to clips as written, and what they stand on. `base` is the clip that
/// additive ones are composed on, where one is named.
///
/// # Errors
/// See [`rig::build`], [`resample::bake()`] and [`resample::reduce()`].
pub fn prepare(
    clips: &mut [Clip],
    skeleton: &Skeleton,
    names: &dyn JointNames,
    passes: &Passes,
    base: Option<&Clip>,
) -> Result<Skeleton> {
    for clip in clips.iter_mut() {
        rage(clip, skeleton, names, passes);
    }
    let quantize = passes.quantize;
    let mut rig = rig::build(skeleton, clips, names)?;
    for clip in clips.iter_mut() {
        resample::align_signs(clip);
        let additive_base = match (&passes.additive, base) {
            (Additive::Rest, _) => Some(AdditiveBase::Rest),
            (Additive::Clip(_), Some(base)) => Some(AdditiveBase::Clip(base)),
            _ => None,
        };
        if let Some(additive_base) = additive_base {
            resample::compose_additive(clip, &rig, additive_base);
        }
        resample::root_motion(clip, &rig, passes.root_motion);
    }
    if matches!(passes.root_motion, RootMotion::Bake | RootMotion::Drop) {
        // Without movers no joint stands for them.
        rig = rig::build(skeleton, clips, names)?;
    }
    for clip in clips.iter_mut() {
        if let Some(bake) = passes.bake {
            resample::bake(clip, bake)?;
        }
        if let Some(mm) = passes.reduce_mm {
            reduce(clip, &rig, mm, quantize)?;
            // What stands at rest in every clip of the file needs no key; what moves in another is keyed at rest.
            resample::drop_at_rest(clip, &rig);
        } else if passes.bake.is_none() {
            resample::add_inbetweens(clip, passes.tolerance_deg);
        }
        resample::align_signs(clip);
        resample::collapse_constant(clip);
        resample::hold_from_start(clip);
    }
    Ok(rig)
}

/// Few keys; with `quantize` the rounding to 16 bits is inside the bound, or the clip says why it cannot be.
fn reduce(clip: &mut Clip, rig: &Skeleton, max_mm: f64, quantize: bool) -> Result<()> {
    let reduction = if quantize {
        match resample::reduce_quantized(clip, rig, max_mm) {
            Ok(reduction) => reduction,
            Err(e) => {
                clip.warnings.push(format!("{NOT_QUANTISED}: {}", e.message()));
                resample::reduce(clip, rig, max_mm)?
            }
        }
    } else {
        resample::reduce(clip, rig, max_mm)?
    };
    if reduction.bound_mm > max_mm {
        clip.warnings.push(format!(
            "the bound of {max_mm} mm is below what 32-bit numbers hold here: {:.6} mm",
            reduction.bound_mm
        ));
    }
    Ok(())
}

/// How a clip's warning begins that speaks against 16-bit rotations.
const NOT_QUANTISED: &str = "rotations are not quantised";

/// Whether rotations can be quantised within the bound; if not, each clip that speaks against it says so.
fn may_quantize(clips: &mut [Clip], rig: &Skeleton, passes: &Passes) -> bool {
    if passes.reduce_mm.is_some() {
        // The reduction has proven it, or said why not.
        return !clips.iter().any(|c| c.warnings.iter().any(|w| w.starts_with(NOT_QUANTISED)));
    }
    let bound = resample::QUANTIZE_MM;
    let mut may = true;
    for clip in clips {
        let cost = resample::quantize_cost(clip, rig);
        if cost.max_mm > bound {
            clip.warnings.push(format!(
                "{NOT_QUANTISED}: at 10 cm from a joint they would be {:.3} mm off, more than {bound} mm",
                cost.max_mm
            ));
            may = false;
        }
    }
    may
}

/// The writer's options for these clips.
fn options_for(clips: &mut [Clip], rig: &Skeleton, settings: &Settings) -> format::Options {
    let mut write = settings.write.clone();
    if write.gltf.quantize_rotations {
        write.gltf.quantize_rotations = may_quantize(clips, rig, &settings.passes);
    }
    write
}

/// Clips as read to the files that hold them, in memory.
///
/// # Errors
/// See the writers.
pub fn pack(
    clips: &mut [Clip],
    skeleton: &Skeleton,
    names: &dyn JointNames,
    stem: &str,
    settings: &Settings,
) -> Result<(Files, Skeleton)> {
    let rig = prepare(clips, skeleton, names, &settings.passes, None)?;
    let write = options_for(clips, &rig, settings);
    let name = stem.rsplit('/').next().unwrap_or(stem);
    let files = format::write(&Scene::new(&rig, clips), name, &write)?;
    Ok((files, rig))
}

/// Writes the files of one output; returns the bytes of the main one.
fn write_files(out: &Path, stem: &str, files: &Files, tag: &str) -> Result<u64> {
    let mut size = 0;
    for (extension, bytes) in files {
        output::write_whole(&out.join(format!("{stem}.{extension}")), bytes, tag)?;
        size = bytes.len() as u64;
    }
    Ok(size)
}
