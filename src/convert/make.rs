//! Items to output files: what the threads of a run do, each item for itself.

use std::fs;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use crate::convert::pack::{options_for, prepare_on};
use crate::convert::pool::Pool;
use crate::convert::rig::Rigs;
use crate::convert::settings::{Additive, Settings};
use crate::engine::journal::{Done, Key, Records};
use crate::engine::output;
use crate::error::{Error, Result};
use crate::formats::{Files, Scene, Workspace};
use crate::games::anvil::animation::{riders_republic as rr, shaun_white as sws};
use crate::games::anvil::container::file as anvil;
use crate::games::anvil::container::object::Generation;
use crate::games::rage::cutscene;
use crate::games::rage::cutscene::Section;
use crate::games::rage::xml::write as ycd_xml;
use crate::games::rage::ycd;
use crate::model::{Clip, Skeleton};
use crate::passes::Slerp;
use crate::report::manifest::{ClipRow, ErrorRow, FileRow, NoteRow};
use crate::source::find::Input;
use crate::source::skeletons::{Choice, Skeletons};
use crate::source::work;
use crate::source::work::{Content, Contents, Item, Names, Read, Source, Unit};

/// What all threads share.
pub(crate) struct Maker<'a> {
    pub settings: &'a Settings,
    pub inputs: &'a [Input],
    pub sources: &'a [Option<Source>],
    pub names: Names,
    pub skeletons: Skeletons,
    rigs: Rigs,
    /// What writers and passes keep from file to file.
    workspaces: Pool<(Workspace, Slerp)>,
    /// What earlier runs have finished.
    pub records: Option<Records>,
    /// Everything but the items' own bytes that a file is made by.
    options: String,
    /// What decides which clips and skeletons are taken: of RAGE's, of Anvil's.
    chosen_by: [u64; 2],
    /// The clip that additive ones are composed on, where one is named and found.
    base: Option<Clip>,
    /// Set when nothing can be written any more: what has not begun does not begin.
    stopped: AtomicBool,
}

/// An item on its way to a file.
#[derive(Debug)]
pub(crate) struct Job {
    /// What is read, or what stands for `sections`.
    pub item: Item,
    /// The sections of a cutscene, which are joined; none of anything else.
    pub sections: Vec<Section>,
    /// What its clips say of where they come from.
    pub source: String,
    /// Output path without extension.
    pub stem: String,
    /// Its place among all files of the run.
    pub order: u64,
}

/// Clips on their way to a file that they share.
#[derive(Debug)]
pub(crate) struct Bundle {
    pub clips: Vec<Clip>,
    pub skeleton: std::sync::Arc<Skeleton>,
    /// Hashes of the items that the clips come from.
    pub hashes: Vec<u128>,
    pub stem: String,
    pub order: u64,
}

/// What became of an item.
#[derive(Debug, Default)]
pub(crate) struct Made {
    /// The file, if there is one.
    pub file: Option<Finished>,
    /// Its clips, where they are not written on their own, and what they stand on.
    pub clips: Vec<Clip>,
    pub choice: Option<Choice>,
    pub errors: Vec<Error>,
    pub notes: Vec<String>,
    pub left_out: usize,
    /// Why the whole run must stop.
    pub stop: Option<Error>,
}

#[derive(Debug)]
pub(crate) struct Finished {
    pub done: Done,
    /// Written now; otherwise an earlier run's.
    pub is_fresh: bool,
    /// Its record in the journal, if that still says the right thing.
    pub place: Option<crate::engine::journal::Place>,
}

impl<'a> Maker<'a> {
    pub fn new(
        settings: &'a Settings,
        inputs: &'a [Input],
        sources: &'a [Option<Source>],
        names: Names,
        skeletons: Skeletons,
    ) -> Self {
        let named: Vec<u128> = settings
            .names
            .iter()
            .map(|path| fs::read(path).map(|bytes| xxh3_128(&bytes)).unwrap_or_default())
            .collect();
        let options = format!(
            "{} {} {:?} {:?} {named:X?}",
            env!("CARGO_PKG_VERSION"),
            settings.format.name(),
            settings.write,
            settings.passes,
        );
        let chosen_by = [true, false].map(|is_rage| {
            let text = format!("{:?} {:016X}", settings.select, skeletons.fingerprint(is_rage));
            xxh3_64(text.as_bytes())
        });
        Maker {
            settings,
            inputs,
            sources,
            names,
            skeletons,
            rigs: Rigs::new(settings.format.max_name_bytes()),
            workspaces: Pool::default(),
            records: None,
            options,
            chosen_by,
            base: None,
            stopped: AtomicBool::new(false),
        }
    }

    /// Finds the clip that additive ones are composed on, where the settings name one.
    ///
    /// # Errors
    /// Usage, where it is not in the inputs.
    pub fn find_base(&mut self, units: &[Unit]) -> Result<()> {
        let Additive::Clip(name) = &self.settings.passes.additive else { return Ok(()) };
        let is_wanted = |item: &Item| {
            matches!(item.content, Content::Dictionary(_))
                || item.name == *name
                || format!("{:X}", item.id).eq_ignore_ascii_case(name)
        };
        let found = units
            .par_iter()
            .map_init(anvil::Scratch::new, |scratch, unit| {
                let items = work::items(self.inputs, self.sources, unit, scratch).items;
                items.iter().filter(|item| is_wanted(item)).find_map(|item| {
                    let clips = work::read(item, "").ok()?.clips;
                    Some((item.hash, clips.into_iter().find(|clip| is_called(clip, name))?))
                })
            })
            .find_first(Option::is_some)
            .flatten();
        let Some((hash, base)) = found else {
            return Err(Error::usage(format!("found no clip \"{name}\" to compose additive clips on")));
        };
        self.options.push_str(&format!(" {hash:032X}"));
        self.base = Some(base);
        Ok(())
    }

    /// Lets nothing more begin.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Reads a unit.
    pub fn read(&self, unit: &Unit, scratch: &mut anvil::Scratch) -> Contents {
        let file = &self.inputs[unit.input].path;
        guard(|| work::items(self.inputs, self.sources, unit, scratch)).unwrap_or_else(|e| Contents {
            input: unit.input,
            entry: unit.entry,
            errors: vec![e.in_file(file)],
            ..Contents::default()
        })
    }

    /// Makes the file of an item.
    pub fn make(&self, job: &Job) -> Made {
        if self.stopped.load(Ordering::Relaxed) {
            return Made::default();
        }
        let mut made = self.settle(guard(|| self.try_make(job)).and_then(|made| made));
        let file = &self.inputs[job.item.input].path;
        made.errors = made.errors.into_iter().map(|e| e.in_file(file)).collect();
        if let Some(Finished { done, is_fresh: true, .. }) = &mut made.file {
            let output = Some(&done.file.output);
            done.errors = made
                .errors
                .iter()
                .map(|e| ErrorRow { output: output.cloned(), ..ErrorRow::from(e) })
                .collect();
            done.notes = made
                .notes
                .drain(..)
                .map(|note| NoteRow { source: job.source.clone(), note, output: output.cloned() })
                .collect();
        }
        made
    }

    /// Makes the file of a bundle.
    pub fn make_bundle(&self, bundle: &mut Bundle) -> Made {
        if self.stopped.load(Ordering::Relaxed) {
            return Made::default();
        }
        let stem = bundle.stem.clone();
        let mut made = self.settle(guard(|| self.try_make_bundle(bundle)).and_then(|made| made));
        made.errors = made.errors.into_iter().map(|e| e.in_entry(&stem)).collect();
        made
    }

    /// Tells what stops the run from what concerns one file.
    fn settle(&self, result: Result<Made>) -> Made {
        match result {
            Ok(made) => made,
            Err(e) if e.io_error().is_some_and(|e| is_final(e.kind())) => {
                self.stop();
                Made { stop: Some(e), ..Made::default() }
            }
            Err(e) => Made { errors: vec![e], ..Made::default() },
        }
    }

    fn try_make(&self, job: &Job) -> Result<Made> {
        let settings = self.settings;
        let item = &job.item;
        let game = match &item.content {
            Content::Object { generation: Generation::Ids64, .. } => rr::GAME,
            Content::Object { generation: Generation::Ids32, .. } => sws::GAME,
            Content::Dictionary(_) | Content::Seen => ycd::clips::GAME,
        };
        if !settings.select.takes_game(game) {
            let left_out = match &item.content {
                Content::Dictionary(_) => self.clips(job)?.clips.len(),
                _ => 1,
            };
            return Ok(Made { left_out, ..Made::default() });
        }
        let text = format!("{} {:032X} {:X} {} {}", self.options, item.hash, item.id, job.source, job.stem);
        let made_of = xxh3_128(text.as_bytes());
        let mut key =
            Key { made_of, chosen_by: self.chosen_by[usize::from(game != ycd::clips::GAME)], chosen: 0 };
        let output = format!("{}.{}", job.stem, settings.format.extension());
        let alone = !settings.list && (settings.bundle == 0 || settings.format.holds_records());
        let known = alone.then(|| self.known(&job.stem, &output, made_of)).flatten();
        if let Some((known, place)) = known
            && known.chosen_by == key.chosen_by
        {
            return self.finished(place, job.order, None);
        }
        if alone && settings.format.holds_records() {
            return self.make_xml(job, output, key);
        }
        let read = self.clips(job)?;
        let before = read.clips.len();
        let mut clips: Vec<Clip> = read.clips.into_iter().filter(|c| settings.select.takes(c)).collect();
        let mut made = Made {
            errors: read.errors,
            notes: read.notes,
            left_out: before - clips.len(),
            ..Made::default()
        };
        if clips.is_empty() {
            return Ok(made);
        }
        let choice = self.skeletons.choose(item.input, &clips)?;
        if let Some(note) = &choice.note {
            clips.iter_mut().for_each(|c| c.warnings.push(note.clone()));
        }
        if !alone {
            (made.clips, made.choice) = (clips, Some(choice));
            return Ok(made);
        }
        key.chosen = chosen(choice.hash, &clips);
        if let Some((known, place)) = known
            && known.chosen == key.chosen
        {
            // Something else decided the same.
            let finished = self.finished(place, job.order, Some(key))?;
            return Ok(Made { left_out: made.left_out, ..finished });
        }
        made.file = Some(self.write(
            &mut clips,
            (&choice.skeleton, choice.hash),
            &job.stem,
            output,
            key,
            job.order,
        )?);
        Ok(made)
    }

    fn clips(&self, job: &Job) -> Result<Read> {
        match &job.sections[..] {
            [] => work::read(&job.item, &job.source),
            sections => cutscene::read(sections, &job.source),
        }
    }

    fn try_make_bundle(&self, bundle: &mut Bundle) -> Result<Made> {
        let Bundle { clips, skeleton, hashes, stem, order } = bundle;
        let output = format!("{stem}.{}", self.settings.format.extension());
        let sources: Vec<&str> = clips.iter().map(|c| c.source.as_str()).collect();
        let text = format!("{} {hashes:X?} {sources:?} {stem}", self.options);
        let made_of = xxh3_128(text.as_bytes());
        let hash = crate::source::skeletons::hash(skeleton);
        let chosen = chosen(hash, clips);
        let key = Key { made_of, chosen_by: 0, chosen };
        if let Some((known, place)) = self.known(stem, &output, made_of)
            && known == key
        {
            return self.finished(place, *order, None);
        }
        let file = self.write(clips, (skeleton, hash), stem, output, key, *order)?;
        Ok(Made { file: Some(file), ..Made::default() })
    }

    /// What an earlier run says of `output`, if it made it of the same, and the files are there.
    fn known(&self, stem: &str, output: &str, made_of: u128) -> Option<(Key, crate::engine::journal::Place)> {
        let known = self.records.as_ref()?.find(output)?;
        if known.key.made_of != made_of {
            return None;
        }
        let format = self.settings.format;
        let mut bytes = 0;
        for extension in format.companions().iter().chain([&format.extension()]) {
            bytes += fs::metadata(self.settings.out.join(format!("{stem}.{extension}"))).ok()?.len();
        }
        (bytes == known.bytes).then_some((known.key, known.place))
    }

    /// A file of an earlier run; with `key`, where what decided it has changed.
    fn finished(&self, place: crate::engine::journal::Place, order: u64, key: Option<Key>) -> Result<Made> {
        let Some(records) = &self.records else { return Ok(Made::default()) };
        let mut done = records.read(place)?;
        let is_same = key.is_none() && done.file.order == order;
        if let Some(key) = key {
            done.file.key = key.to_string();
        }
        done.file.order = order;
        let file = Finished { done, is_fresh: false, place: is_same.then_some(place) };
        Ok(Made { file: Some(file), ..Made::default() })
    }

    /// Passes, rig, writer, disk.
    fn write(
        &self,
        clips: &mut [Clip],
        (skeleton, hash): (&Skeleton, u64),
        stem: &str,
        output: String,
        key: Key,
        order: u64,
    ) -> Result<Finished> {
        let own = match &self.settings.passes.additive {
            Additive::Clip(name) => clips.iter().find(|c| is_called(c, name)).cloned(),
            _ => None,
        };
        let base = own.as_ref().or(self.base.as_ref());
        let build = |clips: &[Clip]| self.rigs.build(skeleton, hash, clips, &self.names);
        let (passes, format) = (&self.settings.passes, self.settings.format);
        let new = || (Workspace::default(), Slerp::new(passes.tolerance_deg));
        self.workspaces.with(new, |(workspace, slerp)| {
            let between_keys = (format.between_keys(), slerp);
            let rig = prepare_on(clips, skeleton, &self.names, passes, between_keys, base, build)?;
            let write = options_for(clips, &rig.skeleton, self.settings);
            let scene = Scene {
                shared_rig: rig.is_shared.then(|| rig.skeleton.clone()),
                ..Scene::within(&rig.skeleton, clips, format.max_name_bytes())
            };
            let rig = &rig.skeleton;
            let name = stem.rsplit('/').next().unwrap_or(stem);
            let files = format.write(&scene, name, &write, workspace)?;
            let rows = scene
                .animations
                .iter()
                .map(|a| ClipRow::new(a.clip, &output, &a.name, &a.extra_tracks, rig))
                .collect();
            let finished = self.put(stem, &files, output, key, order, rows);
            workspace.recycle(files);
            finished
        })
    }

    /// A dictionary as CodeWalker's XML: records, not clips, go from one form to the other.
    fn make_xml(&self, job: &Job, output: String, key: Key) -> Result<Made> {
        let Content::Dictionary(bytes) = &job.item.content else {
            return Err(Error::unsupported("only clip dictionaries have the form .ycd.xml"));
        };
        let mut scratch = Vec::new();
        let mut dictionary = work::dictionary(bytes, &mut scratch)?;
        let errors = std::mem::take(&mut dictionary.errors).into_iter().map(|(_, e)| e).collect();
        let (text, notes) = ycd_xml::write(&dictionary)?;
        let clips = ycd::clips::assemble(dictionary, &job.source)?.clips;
        let rig = Skeleton::new("none", Vec::new())?;
        let rows = clips.iter().map(|c| ClipRow::new(c, &output, &c.short_name, &[], &rig)).collect();
        let files = vec![(self.settings.format.extension(), text.into_bytes())];
        let file = self.put(&job.stem, &files, output, key, job.order, rows)?;
        Ok(Made { file: Some(file), errors, notes, ..Made::default() })
    }

    fn put(
        &self,
        stem: &str,
        files: &Files,
        output: String,
        key: Key,
        order: u64,
        clips: Vec<ClipRow>,
    ) -> Result<Finished> {
        let mut bytes = 0;
        for (extension, content) in files {
            let path = self.settings.out.join(format!("{stem}.{extension}"));
            output::write_whole(&path, content, &self.settings.tag())?;
            bytes += content.len() as u64;
        }
        let file = FileRow { output, key: key.to_string(), bytes, order };
        let done = Done { file, errors: Vec::new(), notes: Vec::new(), clips };
        Ok(Finished { done, is_fresh: true, place: None })
    }
}

/// Whether `name` is one of the clip's names or its id.
fn is_called(clip: &Clip, name: &str) -> bool {
    clip.short_name == name || clip.name == name || clip.id.to_string().eq_ignore_ascii_case(name)
}

/// Hash of a choice: the skeleton and the clips.
fn chosen(skeleton: u64, clips: &[Clip]) -> u64 {
    let mut bytes = skeleton.to_le_bytes().to_vec();
    bytes.extend(clips.iter().flat_map(|c| c.id.value.to_le_bytes()));
    xxh3_64(&bytes)
}

/// Whether no other file can be written either.
fn is_final(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::ReadOnlyFilesystem)
}

/// A fault of this program in one item must not end the run of all others.
fn guard<T>(work: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no message");
        Error::unsupported(format!("a fault of this program, please report it: {text}"))
    })
}
