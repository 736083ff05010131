//! Jobs: what the threads of a run do, each for itself. A job is a resource on its way to a file: what an earlier run
//! has finished is found, the rest is converted and put into the output folder.

use std::fs;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use super::journal::{Done, Key, RecordSpan, Records};
use super::output;
use crate::convert::settings::{Additive, Settings};
use crate::convert::{Converter, Written, is_called};
use crate::error::{Error, Result};
use crate::model::{Clip, Skeleton};
use crate::report::manifest::{ErrorRow, FileRow, NoteRow};
use crate::source::sections::Section;
use crate::source::skeletons::{self, Choice};
use crate::source::survey::{self, Contents, Unit};
use crate::source::{Input, Layout, Resource, Scratch, Source};

/// What the threads of a run share.
pub(super) struct Worker<'a> {
    pub settings: &'a Settings,
    pub inputs: &'a [Input],
    pub sources: &'a [Option<Box<dyn Source>>],
    pub converter: Converter<'a>,
    /// What earlier runs have finished.
    pub records: Option<Records>,
    /// Everything but the resources' own bytes that a file is made by.
    options: String,
    /// What decides which clips and skeletons are taken, by family of games.
    chosen_by: Vec<(&'static str, u64)>,
    /// Set when nothing can be written any more: what has not begun does not begin.
    stopped: AtomicBool,
}

/// A resource on its way to a file.
#[derive(Debug)]
pub(super) struct Job {
    /// Index of the input.
    pub input: usize,
    /// What is read, or what stands for `sections`.
    pub resource: Resource<'static>,
    /// The sections of one whole, which are joined; none of anything else.
    pub sections: Vec<Section>,
    /// What its clips say of where they come from.
    pub source: String,
    /// Output path without extension.
    pub stem: String,
    /// Its place among all files of the run.
    pub order: u64,
}

/// Clips of several resources that share a file.
#[derive(Debug)]
pub(super) struct Bundle {
    pub clips: Vec<Clip>,
    pub skeleton: std::sync::Arc<Skeleton>,
    /// Hashes of the clips' resources.
    pub hashes: Vec<u128>,
    pub stem: String,
    pub order: u64,
}

/// What became of a job.
#[derive(Debug, Default)]
pub(super) struct JobResult {
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
pub(super) struct Finished {
    pub done: Done,
    /// Written now; otherwise an earlier run's.
    pub is_fresh: bool,
    /// Its record in the journal, if that still says the right thing.
    pub record: Option<RecordSpan>,
}

impl<'a> Worker<'a> {
    pub fn new(
        inputs: &'a [Input],
        sources: &'a [Option<Box<dyn Source>>],
        converter: Converter<'a>,
    ) -> Self {
        let settings = converter.settings;
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
            settings.passes
        );
        let mut chosen_by: Vec<(&'static str, u64)> = Vec::new();
        for game in settings.games {
            let family = game.family();
            if !chosen_by.iter().any(|(known, _)| *known == family) {
                let text = format!("{:?} {:016X}", settings.select, converter.skeletons.fingerprint(family));
                chosen_by.push((family, xxh3_64(text.as_bytes())));
            }
        }
        Worker {
            settings,
            inputs,
            sources,
            converter,
            records: None,
            options,
            chosen_by,
            stopped: AtomicBool::new(false),
        }
    }

    /// Finds the clip that additive ones are composed on, where the settings name one.
    ///
    /// # Errors
    /// Usage, where it is not in the inputs.
    pub fn find_base(&mut self, units: &[Unit]) -> Result<()> {
        let Additive::Clip(name) = &self.settings.passes.additive else { return Ok(()) };
        // A resource without an id may hold clips of any name.
        let may_hold = |r: &Resource<'_>| match r.id {
            None => true,
            Some(id) => r.name == *name || format!("{id:X}").eq_ignore_ascii_case(name),
        };
        let found = units
            .par_iter()
            .map_init(Scratch::default, |scratch, unit| {
                let source = self.sources[unit.input].as_deref()?;
                let resources = survey::read(source, unit, scratch).resources;
                resources.iter().filter(|r| may_hold(r)).find_map(|resource| {
                    let clips = resource.game.read(resource, "", scratch).ok()?.clips;
                    Some((resource.hash, clips.into_iter().find(|clip| is_called(clip, name))?))
                })
            })
            .find_first(Option::is_some)
            .flatten();
        let Some((hash, base)) = found else {
            return Err(Error::usage(format!("found no clip \"{name}\" to compose additive clips on")));
        };
        self.options.push_str(&format!(" {hash:032X}"));
        self.converter.base = Some(base);
        Ok(())
    }

    /// Where the files of an input go.
    pub fn layout(&self, input: usize) -> Layout {
        self.sources[input].as_ref().map_or(Layout::File, |source| source.layout())
    }

    /// Lets nothing more begin.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Reads a unit.
    pub fn read(&self, unit: &Unit, scratch: &mut Scratch) -> Contents {
        let empty = || Contents { input: unit.input, part: unit.part, ..Contents::default() };
        let Some(source) = self.sources[unit.input].as_deref() else { return empty() };
        guard(|| survey::read(source, unit, scratch)).unwrap_or_else(|e| Contents {
            errors: vec![e.in_file(&self.inputs[unit.input].path)],
            ..empty()
        })
    }

    /// Makes the file of a job.
    pub fn convert(&self, job: &Job, scratch: &mut Scratch) -> JobResult {
        if self.stopped.load(Ordering::Relaxed) {
            return JobResult::default();
        }
        let mut result = self.settle(guard(|| self.try_convert(job, scratch)).and_then(|result| result));
        let file = &self.inputs[job.input].path;
        result.errors = result.errors.into_iter().map(|e| e.in_file(file)).collect();
        if let Some(Finished { done, is_fresh: true, .. }) = &mut result.file {
            let output = Some(&done.file.output);
            done.errors = result
                .errors
                .iter()
                .map(|e| ErrorRow { output: output.cloned(), ..ErrorRow::from(e) })
                .collect();
            done.notes = result
                .notes
                .drain(..)
                .map(|note| NoteRow { source: job.source.clone(), note, output: output.cloned() })
                .collect();
        }
        result
    }

    /// Makes the file of a bundle.
    pub fn convert_bundle(&self, bundle: &mut Bundle) -> JobResult {
        if self.stopped.load(Ordering::Relaxed) {
            return JobResult::default();
        }
        let stem = bundle.stem.clone();
        let mut result = self.settle(guard(|| self.try_convert_bundle(bundle)).and_then(|result| result));
        result.errors = result.errors.into_iter().map(|e| e.in_entry(&stem)).collect();
        result
    }

    /// Tells what stops the run from what concerns one file.
    fn settle(&self, result: Result<JobResult>) -> JobResult {
        match result {
            Ok(result) => result,
            Err(e) if e.io_error().is_some_and(|e| is_final(e.kind())) => {
                self.stop();
                JobResult { stop: Some(e), ..JobResult::default() }
            }
            Err(e) => JobResult { errors: vec![e], ..JobResult::default() },
        }
    }

    fn try_convert(&self, job: &Job, scratch: &mut Scratch) -> Result<JobResult> {
        let (settings, resource) = (self.settings, &job.resource);
        let game = resource.game;
        if !settings.select.takes_game(game.code()) {
            let left_out = match resource.id {
                Some(_) => 1,
                None => {
                    let read =
                        self.converter.read(job.input, resource, &job.sections, &job.source, scratch)?;
                    read.left_out
                }
            };
            return Ok(JobResult { left_out, ..JobResult::default() });
        }
        let id = resource.id.unwrap_or_default();
        let text = format!("{} {:032X} {id:X} {} {}", self.options, resource.hash, job.source, job.stem);
        let made_of = xxh3_128(text.as_bytes());
        let chosen_by = self.chosen_by.iter().find(|(family, _)| *family == game.family());
        let mut key = Key { made_of, chosen_by: chosen_by.map_or(0, |(_, hash)| *hash), chosen: 0 };
        let format = settings.format;
        let output = format!("{}.{}", job.stem, format.extension());
        let holds_records = format.holds_records();
        let alone = !settings.list && (settings.bundle == 0 || holds_records);
        let known = alone.then(|| self.known(&job.stem, &output, made_of)).flatten();
        if let Some((known, record)) = known
            && known.chosen_by == key.chosen_by
        {
            return self.finished(record, job.order, None);
        }
        if alone && holds_records {
            let mut written = self.converter.export(resource, &job.source, &output)?;
            let (errors, notes) = (std::mem::take(&mut written.errors), std::mem::take(&mut written.notes));
            let file = self.put(&job.stem, written, output, key, job.order)?;
            return Ok(JobResult { file: Some(file), errors, notes, ..JobResult::default() });
        }
        let mut read = self.converter.read(job.input, resource, &job.sections, &job.source, scratch)?;
        let mut result = JobResult {
            errors: read.errors,
            notes: read.notes,
            left_out: read.left_out,
            ..JobResult::default()
        };
        let Some(choice) = read.choice else { return Ok(result) };
        if !alone {
            (result.clips, result.choice) = (read.clips, Some(choice));
            return Ok(result);
        }
        key.chosen = chosen(choice.hash, &read.clips);
        if let Some((known, record)) = known
            && known.chosen == key.chosen
        {
            // Something else decided the same.
            let finished = self.finished(record, job.order, Some(key))?;
            return Ok(JobResult { left_out: result.left_out, ..finished });
        }
        let skeleton = (&*choice.skeleton, choice.hash);
        let written = self.converter.write(&mut read.clips, skeleton, &job.stem, &output)?;
        result.file = Some(self.put(&job.stem, written, output, key, job.order)?);
        Ok(result)
    }

    fn try_convert_bundle(&self, bundle: &mut Bundle) -> Result<JobResult> {
        let Bundle { clips, skeleton, hashes, stem, order } = bundle;
        let output = format!("{stem}.{}", self.settings.format.extension());
        let sources: Vec<&str> = clips.iter().map(|c| c.source.as_str()).collect();
        let text = format!("{} {hashes:X?} {sources:?} {stem}", self.options);
        let made_of = xxh3_128(text.as_bytes());
        let hash = skeletons::hash(skeleton);
        let key = Key { made_of, chosen_by: 0, chosen: chosen(hash, clips) };
        if let Some((known, record)) = self.known(stem, &output, made_of)
            && known == key
        {
            return self.finished(record, *order, None);
        }
        let written = self.converter.write(clips, (skeleton, hash), stem, &output)?;
        let file = self.put(stem, written, output, key, *order)?;
        Ok(JobResult { file: Some(file), ..JobResult::default() })
    }

    /// What an earlier run says of `output`, if it made it of the same, and the files are there.
    fn known(&self, stem: &str, output: &str, made_of: u128) -> Option<(Key, RecordSpan)> {
        let known = self.records.as_ref()?.find(output)?;
        if known.key.made_of != made_of {
            return None;
        }
        let format = self.settings.format;
        let mut bytes = 0;
        for extension in format.companions().iter().chain([&format.extension()]) {
            bytes += fs::metadata(self.settings.out.join(format!("{stem}.{extension}"))).ok()?.len();
        }
        (bytes == known.bytes).then_some((known.key, known.record))
    }

    /// A file of an earlier run; with `key`, where what decided it has changed.
    fn finished(&self, record: RecordSpan, order: u64, key: Option<Key>) -> Result<JobResult> {
        let Some(records) = &self.records else { return Ok(JobResult::default()) };
        let mut done = records.read(record)?;
        let is_same = key.is_none() && done.file.order == order;
        if let Some(key) = key {
            done.file.key = key.to_string();
        }
        done.file.order = order;
        let file = Finished { done, is_fresh: false, record: is_same.then_some(record) };
        Ok(JobResult { file: Some(file), ..JobResult::default() })
    }

    /// Puts a file into the output folder.
    fn put(&self, stem: &str, written: Written, output: String, key: Key, order: u64) -> Result<Finished> {
        let mut bytes = 0;
        for (extension, content) in &written.files {
            let path = self.settings.out.join(format!("{stem}.{extension}"));
            output::write_whole(&path, content, &self.settings.tag())?;
            bytes += content.len() as u64;
        }
        self.converter.recycle(written.files);
        let file = FileRow { output, key: key.to_string(), bytes, order };
        let done = Done { file, errors: Vec::new(), notes: Vec::new(), clips: written.rows };
        Ok(Finished { done, is_fresh: true, record: None })
    }
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

/// A fault of this program in one resource must not end the run of all others.
fn guard<T>(work: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no message");
        Error::internal(text)
    })
}
