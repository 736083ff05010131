//! One run: a stream from inputs to files.
//!
//! Threads of the pool read units (dictionaries, archive entries) into items and make files of items; the thread that
//! started the run hands out the work and takes the results in the order of the inputs, whatever order they come in:
//!
//! 1. a unit is read and unpacked into items (any thread, any order);
//! 2. items get their output paths; repeated ones and those of other shards are set aside (in order);
//! 3. an item is read, resampled, and written under a temporary name that becomes final (any thread, any order);
//! 4. journal, counts, progress (in order).
//!
//! What is decided is decided in order, so that the same input gives the same files on any number of threads. What is
//! on its way is bounded in bytes, so that memory does not grow with the input; rows of finished files wait in the
//! journal, not in memory.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Arc, mpsc};
use std::time::Instant;

use rayon::ThreadPool;
use rustc_hash::{FxHashMap, FxHashSet};
use xxhash_rust::xxh3::xxh3_128;

use super::closing::{self, Listed};
use super::job::{Bundle, Finished, Job, JobResult, Worker};
use super::journal::{Journal, RecordSpan};
use super::ordered::{Batch, BatchSize, Lane, Window};
use super::output::{self, Paths};
use crate::convert::Converter;
use crate::convert::pool::Pool;
use crate::convert::settings::Settings;
use crate::error::{Error, Result};
use crate::model::{Clip, Skeleton};
use crate::report::manifest::{ClipRow, DecidedRow, ErrorRow, Manifest, NoteRow, UseRow};
use crate::report::text::Tally;
use crate::source::sections::{Section, Sections};
use crate::source::skeletons::{Choice, Skeletons};
use crate::source::survey::{Contents, Survey, Unit, survey};
use crate::source::{self, Input, Layout, Names, Resource, Scratch, Source, find};

/// Bytes of units and items that are on their way at most, and units; a single larger one still goes, alone.
const WINDOW_BYTES: u64 = 12 << 20;
const WINDOW_UNITS: usize = 256;

/// Units or jobs that are handed out together, at most: so many, and so many bytes.
const BATCH_UNITS: usize = 32;
const BATCH_BYTES: u64 = 512 << 10;

/// Full bundles that are on their way at most, beside the one that is being filled.
const BUNDLES: usize = 4;

/// What a stored byte is taken to unpack to, until it has.
const UNPACKED: u64 = 3;

/// A unit of more stored bytes has buffers of its own.
const SCRATCH_BYTES: u64 = 4 << 20;

/// Hears of a run's course.
pub trait Progress {
    /// An archive is looked through, before anything else.
    fn look(&mut self, _name: &str) {}
    /// `units` (dictionaries, archive entries) of together `bytes` stored bytes are to be read.
    fn begin(&mut self, _units: usize, _bytes: u64) {}
    /// `units` more are done, of `bytes`; `name` is the last item's.
    fn advance(&mut self, _units: usize, _bytes: u64, _name: &str, _outcome: &Outcome) {}
    /// A clip was written (`fresh`), or found finished, or listed.
    fn clip(&mut self, _row: &ClipRow, _fresh: bool) {}
    /// Something failed; the run goes on.
    fn failed(&mut self, _error: &ErrorRow) {}
}

/// Says nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {}

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
    /// Of these: written now.
    pub fresh_keys: u64,
    /// Clips that the selection left out.
    pub left_out: usize,
    /// Clips that repeat others.
    pub repeated: usize,
    /// Clips of other shards.
    pub elsewhere: usize,
    /// Seconds that the run took.
    pub seconds: f64,
    /// Whether it was stopped because nothing could be written any more: it goes on when it is started again.
    pub stopped: bool,
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
/// Only what prevents the whole run: an output folder that cannot be written, no input at all, a skeleton file that
/// cannot be read.
pub fn run(settings: &Settings, progress: &mut (dyn Progress + Send + Sync)) -> Result<Outcome> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(settings.threads)
        .build()
        .map_err(|e| Error::usage(format!("cannot start threads: {e}")))?;
    let mut run = Run::new(settings, progress);
    settings.games.iter().try_for_each(|g| g.check_options(&settings.read))?;
    let (inputs, errors) = find::find(&settings.inputs, settings.games);
    for e in &errors {
        run.fail(e);
    }
    if inputs.is_empty() && errors.is_empty() {
        return Err(source::nothing_found(settings.games, &settings.inputs));
    }
    let names = Names::with_files(settings.games, &settings.names)?;
    let mut skeletons = Skeletons::new(settings.skeleton.as_deref(), settings.games)?;
    if !settings.list {
        // Before the long look: what cannot be written is said at once.
        let out = &settings.out;
        fs::create_dir_all(out).map_err(|e| Error::io("cannot be made", e).in_file(out))?;
        output::prove_writable(out, &settings.tag())?;
    }
    let open = |input| source::open(input, settings.games, &settings.read);
    let sources: Vec<Option<Box<dyn Source>>> =
        inputs.iter().map(|input| open(input).map_err(|e| run.fail(&e)).ok()).collect();
    let survey = pool.install(|| {
        survey(&inputs, &sources, &mut skeletons, |input: &Input| run.progress.look(&input.relative))
    });
    let Survey { mut units, uses, errors, notes } = survey;
    if settings.join_sections {
        run.sections = Sections::find(&inputs, &sources, &mut units);
    }
    run.manifest.uses = uses.iter().map(|(i, one)| UseRow::new(&inputs[*i].relative, one)).collect();
    for e in &errors {
        run.fail(e);
    }
    for (input, note) in notes {
        run.note(&inputs[input], note);
    }
    for (file, note) in skeletons.notes() {
        *run.notes.entry((file.clone(), note.clone())).or_default() += 1;
    }
    let mut worker = Worker::new(&inputs, &sources, Converter::new(settings, names, skeletons));
    pool.install(|| worker.find_base(&units))?;
    if !settings.list {
        output::clean(&settings.out, &settings.tag());
        let (journal, records) = Journal::open(&settings.out, &settings.tag(), settings.force)?;
        run.journal = Some(journal);
        worker.records = Some(records);
    }
    run.stream(&pool, &worker, units)?;
    run.finish(&worker)
}

/// Work for a thread.
enum Task {
    Read(Batch<Unit>),
    Convert(Batch<Job>),
    Bundle(usize, Bundle),
}

/// What became of it.
#[expect(clippy::large_enum_variant, reason = "moved once, from a worker to the starting thread")]
enum TaskResult {
    Read(usize, Vec<Contents>),
    Converted(usize, Vec<(Job, JobResult)>),
    Bundled(usize, JobResult),
}

fn work_off(task: Task, worker: &Worker<'_>, scratches: &Pool<Scratch>) -> TaskResult {
    match task {
        Task::Read(Batch { order, items }) => {
            let read = |unit: Unit| match unit.found {
                Some(resources) => {
                    Contents { input: unit.input, part: unit.part, resources, ..Contents::default() }
                }
                // Buffers would stay as large as an entry far larger than most needs them.
                None if unit.size > SCRATCH_BYTES => worker.read(&unit, &mut Scratch::default()),
                None => scratches.with(Scratch::default, |scratch| worker.read(&unit, scratch)),
            };
            TaskResult::Read(order, items.into_iter().map(read).collect())
        }
        Task::Convert(Batch { order, items }) => {
            let convert = |job: Job| {
                let result = scratches.with(Scratch::default, |scratch| worker.convert(&job, scratch));
                (job, result)
            };
            TaskResult::Converted(order, items.into_iter().map(convert).collect())
        }
        Task::Bundle(order, mut bundle) => TaskResult::Bundled(order, worker.convert_bundle(&mut bundle)),
    }
}

/// Hands out units and jobs, and takes their results in order.
struct Scheduler<'g> {
    give: &'g dyn Fn(Task),
    /// Results that are still to come.
    pending: usize,
    units: Lane<Unit, Contents>,
    jobs: Lane<Job, (Job, JobResult)>,
    bundles: Lane<Bundle, JobResult>,
    window: Window,
}

impl<'g> Scheduler<'g> {
    /// `most`: units and jobs that may go together.
    fn new(give: &'g dyn Fn(Task), most: usize) -> Self {
        let size = BatchSize { items: most, bytes: BATCH_BYTES };
        Scheduler {
            give,
            pending: 0,
            units: Lane::new(size),
            jobs: Lane::new(size),
            bundles: Lane::new(BatchSize { items: 1, bytes: 0 }),
            window: Window::new(WINDOW_BYTES, WINDOW_UNITS, UNPACKED),
        }
    }

    /// Whether a unit of `size` stored bytes may go on its way.
    fn has_room(&self, size: u64) -> bool {
        let is_idle = self.pending == 0 && self.units.is_empty() && self.jobs.is_empty();
        let bundles = self.bundles.added() - self.bundles.taken();
        (self.window.has_room(size) && bundles <= BUNDLES) || is_idle
    }

    fn read(&mut self, unit: Unit) {
        let size = unit.size;
        self.window.enter(size);
        if let Some(batch) = self.units.add(unit, size) {
            self.give(Task::Read(batch));
        }
    }

    fn convert(&mut self, job: Job) {
        let size = job.resource.size();
        if let Some(batch) = self.jobs.add(job, size) {
            self.give(Task::Convert(batch));
        }
    }

    fn bundle(&mut self, bundle: Bundle) {
        if let Some(Batch { order, items }) = self.bundles.add(bundle, 1) {
            items.into_iter().for_each(|bundle| self.give(Task::Bundle(order, bundle)));
        }
    }

    /// Hands out what is collected.
    fn give_rest(&mut self) {
        if let Some(batch) = self.jobs.rest() {
            self.give(Task::Convert(batch));
        }
        if let Some(batch) = self.units.rest() {
            self.give(Task::Read(batch));
        }
    }

    fn give(&mut self, task: Task) {
        self.pending += 1;
        (self.give)(task);
    }

    fn put(&mut self, result: TaskResult) {
        self.pending -= 1;
        match result {
            TaskResult::Read(order, contents) => self.units.put(order, contents),
            TaskResult::Converted(order, results) => self.jobs.put(order, results),
            TaskResult::Bundled(order, result) => self.bundles.put(order, [result]),
        }
    }

    /// The unit whose contents were taken last has its jobs, which hold `cost` bytes.
    fn placed(&mut self, cost: u64) {
        self.window.read(cost, self.jobs.added());
    }

    /// Takes away the units that are done: how many, and their stored bytes.
    fn close(&mut self) -> (usize, u64) {
        self.window.leave(self.jobs.taken())
    }
}

/// Clips of one folder and skeleton that wait for a file.
struct Waiting {
    folder: String,
    skeleton: Arc<Skeleton>,
    clips: Vec<Clip>,
    hashes: Vec<u128>,
    made: usize,
}

/// What the starting thread keeps.
struct Run<'a> {
    settings: &'a Settings,
    progress: &'a mut (dyn Progress + Send + Sync),
    outcome: Outcome,
    /// Everything but files and clips.
    manifest: Manifest,
    tally: Tally,
    /// Notes on inputs, and how many entries gave rise to each.
    notes: BTreeMap<(String, String), usize>,
    paths: Paths,
    /// Animations that have a place, by id and content; and their ids.
    seen: FxHashSet<(u64, u128)>,
    ids: FxHashSet<u64>,
    /// Other places of Animations.
    again: FxHashMap<(u64, u128), Vec<String>>,
    journal: Option<Journal>,
    /// Which units are joined, and the sections that wait for the rest of their cutscene.
    sections: Sections,
    open_sections: Vec<(usize, Section)>,
    /// Files for the manifest, and the Animation that each holds alone.
    listed: Vec<(RecordSpan, Option<(u64, u128)>)>,
    waiting: Vec<Waiting>,
    /// Files that have a path.
    files: u64,
    started: Instant,
}

impl<'a> Run<'a> {
    fn new(settings: &'a Settings, progress: &'a mut (dyn Progress + Send + Sync)) -> Self {
        Run {
            settings,
            progress,
            outcome: Outcome::default(),
            manifest: Manifest {
                generator: concat!("anim2gltf ", env!("CARGO_PKG_VERSION")).to_owned(),
                shard: settings.shard.map(|(k, n)| format!("{k}/{n}")),
                ..Manifest::default()
            },
            tally: Tally::default(),
            notes: BTreeMap::new(),
            paths: Paths::default(),
            seen: FxHashSet::default(),
            ids: FxHashSet::default(),
            again: FxHashMap::default(),
            journal: None,
            sections: Sections::default(),
            open_sections: Vec::new(),
            listed: Vec::new(),
            waiting: Vec::new(),
            files: 0,
            started: Instant::now(),
        }
    }

    /// Everything from units to files.
    fn stream(&mut self, pool: &ThreadPool, worker: &Worker<'_>, units: Vec<Unit>) -> Result<()> {
        self.progress.begin(units.len(), units.iter().map(|u| u.size).sum());
        let (sender, receiver) = mpsc::channel();
        let scratches = Pool::default();
        pool.in_place_scope(|scope| {
            let give = |task| {
                let (sender, scratches) = (sender.clone(), &scratches);
                // The receiver outlives all tasks.
                scope.spawn(move |_| drop(sender.send(work_off(task, worker, scratches))));
            };
            // All threads get something, a few times over.
            let most = units.len().div_ceil(8 * pool.current_num_threads()).clamp(1, BATCH_UNITS);
            let mut scheduler = Scheduler::new(&give, most);
            let mut units = units.into_iter().peekable();
            let mut last = String::new();
            loop {
                while !self.outcome.stopped
                    && let Some(unit) = units.next_if(|unit| scheduler.has_room(unit.size))
                {
                    scheduler.read(unit);
                }
                scheduler.give_rest();
                if scheduler.pending == 0 {
                    // The last cutscene, and clips that fill no bundle, go at the very end.
                    if self.outcome.stopped
                        || !(self.place_sections(worker, &mut scheduler) || self.bundle_rest(&mut scheduler))
                    {
                        // A full disk has room again where the files that did not come to be are gone.
                        if let (true, Some(journal)) = (self.outcome.stopped, &mut self.journal) {
                            let _ = journal.flush();
                        }
                        return Ok(());
                    }
                    scheduler.give_rest();
                }
                let Ok(report) = receiver.recv() else { return Ok(()) };
                scheduler.put(report);
                receiver.try_iter().for_each(|report| scheduler.put(report));
                while let Some(contents) = scheduler.units.take() {
                    self.place_all(worker, &mut scheduler, contents);
                }
                while let Some((job, result)) = scheduler.jobs.take() {
                    last.clone_from(&job.source);
                    self.remember_job(worker, &mut scheduler, job, result)?;
                }
                while let Some(result) = scheduler.bundles.take() {
                    self.remember(None, result)?;
                }
                if let Some(Err(e)) = self.journal.as_mut().map(Journal::flush) {
                    self.stop(worker, &e);
                }
                let (units, bytes) = scheduler.close();
                self.outcome.seconds = self.started.elapsed().as_secs_f64();
                self.progress.advance(units, bytes, &last, &self.outcome);
            }
        })
    }

    /// Gives the resources of a unit their paths, and hands them out.
    fn place_all(&mut self, worker: &Worker<'_>, scheduler: &mut Scheduler<'_>, contents: Contents) {
        for e in &contents.errors {
            self.fail(e);
        }
        let input = &worker.inputs[contents.input];
        for note in contents.notes {
            self.note(input, note);
        }
        let layout = worker.layout(contents.input);
        let mut cost = 0;
        let section = self.sections.of(contents.input, contents.part);
        let before = self.open_sections.first().map(|(whole, _)| *whole);
        if before.is_some_and(|before| section.is_none_or(|(now, _)| now != before)) {
            self.place_sections(worker, scheduler);
        }
        for resource in contents.resources {
            let source = source::text(input, layout, &resource);
            cost += resource.size();
            if let Some((whole, number)) = section {
                let section = Section { number, resource, source, file: input.path.clone() };
                self.open_sections.push((whole, section));
            } else if let Some(job) = self.place(contents.input, input, layout, resource, source, Vec::new())
            {
                scheduler.convert(job);
            }
        }
        scheduler.placed(cost);
    }

    /// Hands out the sections of one whole. Returns whether there were some.
    fn place_sections(&mut self, worker: &Worker<'_>, scheduler: &mut Scheduler<'_>) -> bool {
        let sections = std::mem::take(&mut self.open_sections);
        let Some((whole, first)) = sections.first() else { return false };
        let (whole, file) = (*whole, first.file.clone());
        let sections: Vec<Section> = sections.into_iter().map(|(_, section)| section).collect();
        let Some((resource, source)) = self.sections.resource(whole, &sections) else { return false };
        let Some(at) = worker.inputs.iter().position(|input| input.path == file) else { return false };
        let job = self.place(at, &worker.inputs[at], worker.layout(at), resource, source, sections);
        job.map(|job| scheduler.convert(job)).is_some()
    }

    /// Gives a resource its output path; `None` for one that is there already or that another shard does.
    fn place(
        &mut self,
        at: usize,
        input: &Input,
        layout: Layout,
        resource: Resource<'static>,
        source: String,
        sections: Vec<Section>,
    ) -> Option<Job> {
        // A loose file was given for its own sake, whatever else holds the same clip.
        if let Some(identity) = resource.identity()
            && layout == Layout::Folder
        {
            if !self.seen.insert(identity) {
                self.outcome.repeated += 1;
                self.again.entry(identity).or_default().push(source);
                return None;
            }
            if !self.ids.insert(identity.0) {
                let text = format!(
                    "clip \"{}\" ({:X}) is there with other bytes before: both are written",
                    resource.name, identity.0
                );
                self.manifest.notes.push(NoteRow { source: source.clone(), note: text, output: None });
            }
        }
        let (folder, mut name) = wanted_output(input, layout, &resource);
        if !sections.is_empty() {
            name.clone_from(&resource.name);
        }
        let stem = match resource.id {
            Some(id) if layout == Layout::Folder => self.paths.unique_by(&folder, &name, &format!("{id:X}")),
            _ => self.paths.unique(&format!("{folder}/{name}")),
        };
        let order = self.files;
        self.files += 1;
        if let Some((k, n)) = self.settings.shard {
            let lot = match resource.id {
                Some(id) => xxh3_128(&id.to_le_bytes()) ^ resource.hash,
                None => resource.hash,
            };
            if (lot % u128::from(n)) as u32 != k - 1 {
                self.outcome.elsewhere += 1;
                return None;
            }
        }
        Some(Job { input: at, resource, sections, source, stem, order })
    }

    fn remember_job(
        &mut self,
        worker: &Worker<'_>,
        scheduler: &mut Scheduler<'_>,
        job: Job,
        mut result: JobResult,
    ) -> Result<()> {
        let clips = std::mem::take(&mut result.clips);
        let choice = result.choice.take();
        let notes = std::mem::take(&mut result.notes);
        if let Some(e) = result.stop.take() {
            self.stop(worker, &e);
        }
        // Notes of a file that is written are in its record.
        for note in notes {
            self.manifest.notes.push(NoteRow { source: job.source.clone(), note, output: None });
        }
        self.remember(job.resource.identity(), result)?;
        if self.settings.list {
            let empty = Skeleton::new("", Vec::new())?;
            for clip in &clips {
                self.outcome.clips += 1;
                self.progress.clip(&ClipRow::new(clip, "", &clip.short_name, &[], &empty), false);
            }
        } else if let Some(choice) = choice {
            let input = &worker.inputs[job.input];
            let (folder, _) = wanted_output(input, worker.layout(job.input), &job.resource);
            self.wait(scheduler, &folder, &choice, job.resource.hash, clips);
        }
        Ok(())
    }

    /// Takes a result into journal, counts and progress.
    fn remember(&mut self, identity: Option<(u64, u128)>, result: JobResult) -> Result<()> {
        self.outcome.left_out += result.left_out;
        let Some(Finished { done, is_fresh, record }) = result.file else {
            result.errors.iter().for_each(|e| self.fail(e));
            return Ok(());
        };
        let record = match (record, &mut self.journal) {
            (Some(record), _) => record,
            (None, Some(journal)) => journal.add(&done)?,
            (None, None) => return Ok(()),
        };
        self.listed.push((record, identity));
        self.outcome.files += 1;
        self.outcome.errors += done.errors.len();
        done.errors.iter().for_each(|e| self.progress.failed(e));
        self.manifest.errors.extend(done.errors);
        self.manifest.notes.extend(done.notes);
        for row in &done.clips {
            self.outcome.clips += 1;
            self.outcome.finished += usize::from(!is_fresh);
            self.outcome.keys += row.keys;
            self.outcome.fresh_keys += if is_fresh { row.keys } else { 0 };
            self.outcome.warned += usize::from(!row.warnings.is_empty());
            self.tally.clip(row);
            self.progress.clip(row, is_fresh);
        }
        Ok(())
    }

    /// Puts clips into the bundle of their folder and skeleton, and hands out those that are full.
    fn wait(
        &mut self,
        scheduler: &mut Scheduler<'_>,
        folder: &str,
        choice: &Choice,
        hash: u128,
        clips: Vec<Clip>,
    ) {
        let skeleton = &choice.skeleton;
        for clip in clips {
            let place = self.waiting.iter().position(|b| {
                b.folder == folder && b.skeleton.name == skeleton.name && joins(&b.skeleton, skeleton)
            });
            let place = place.unwrap_or_else(|| {
                self.waiting.push(Waiting {
                    folder: folder.to_owned(),
                    skeleton: skeleton.clone(),
                    clips: Vec::new(),
                    hashes: Vec::new(),
                    made: 0,
                });
                self.waiting.len() - 1
            });
            let bundle = &mut self.waiting[place];
            if skeleton.joints().len() > bundle.skeleton.joints().len() {
                bundle.skeleton = skeleton.clone();
            }
            bundle.clips.push(clip);
            bundle.hashes.push(hash);
            if bundle.clips.len() >= self.settings.bundle {
                self.hand_out(scheduler, place);
            }
        }
    }

    /// Hands out the bundles that are not full. Returns whether there was one.
    fn bundle_rest(&mut self, scheduler: &mut Scheduler<'_>) -> bool {
        for place in 0..self.waiting.len() {
            if !self.waiting[place].clips.is_empty() {
                self.hand_out(scheduler, place);
            }
        }
        scheduler.pending > 0
    }

    fn hand_out(&mut self, scheduler: &mut Scheduler<'_>, place: usize) {
        let Waiting { folder, skeleton, clips, hashes, made } = &mut self.waiting[place];
        *made += 1;
        // Shards bundle their own clips: the files of one must not be called as those of another.
        let shard = self.settings.shard.map_or_else(String::new, |(k, n)| format!("_{k}-of-{n}"));
        let wanted = format!("{folder}/{}{shard}_{made:04}", output::safe_name(&skeleton.name));
        let stem = self.paths.unique(&wanted);
        let (clips, hashes) = (std::mem::take(clips), std::mem::take(hashes));
        scheduler.bundle(Bundle {
            clips,
            skeleton: skeleton.clone(),
            hashes,
            stem,
            order: scheduler.bundles.added() as u64,
        });
    }

    fn finish(mut self, worker: &Worker<'_>) -> Result<Outcome> {
        self.outcome.seconds = self.started.elapsed().as_secs_f64();
        let (Some(journal), Some(records), false) =
            (self.journal.take(), &worker.records, self.outcome.stopped)
        else {
            return Ok(self.outcome);
        };
        for ((source, note), count) in std::mem::take(&mut self.notes) {
            let note = if count == 1 { note } else { format!("{note} ({count} times)") };
            self.manifest.notes.push(NoteRow { source, note, output: None });
        }
        let listed: Vec<Listed> = self
            .listed
            .into_iter()
            .map(|(record, identity)| Listed {
                record,
                also_at: identity.and_then(|identity| self.again.remove(&identity)).unwrap_or_default(),
            })
            .collect();
        self.manifest.decided = DecidedRow::of(worker.inputs, worker.sources);
        let totals = &mut self.tally.totals;
        totals.files = self.outcome.files as u64;
        totals.repeated = self.outcome.repeated as u64;
        totals.left_out = self.outcome.left_out as u64;
        let (out, tag) = (&self.settings.out, self.settings.tag());
        closing::write(out, &tag, self.manifest, self.tally, records, &listed)?;
        journal.close();
        self.outcome.seconds = self.started.elapsed().as_secs_f64();
        Ok(self.outcome)
    }

    fn note(&mut self, input: &Input, note: String) {
        *self.notes.entry((input.relative.clone(), note)).or_default() += 1;
    }

    fn fail(&mut self, error: &Error) {
        let row = ErrorRow::from(error);
        self.progress.failed(&row);
        self.outcome.errors += 1;
        self.manifest.errors.push(row);
    }

    /// Ends the run early, once: what is finished stays and is found when it is started again.
    fn stop(&mut self, worker: &Worker<'_>, error: &Error) {
        worker.stop();
        if !self.outcome.stopped {
            self.outcome.stopped = true;
            let text = format!(
                "{}; {} files are whole, and the same command goes on from there",
                error.message(),
                self.outcome.files
            );
            let error = Error::new(error.kind(), text).in_file(error.file().unwrap_or(&self.settings.out));
            self.fail(&error);
        }
    }
}

/// Whether clips on these two can share a file: every joint that both hold has the same parent and rest.
fn joins(a: &Skeleton, b: &Skeleton) -> bool {
    let parent = |s: &Skeleton, i: usize| s.joints()[i].parent.map(|p| s.joints()[p].id);
    a.joints().iter().enumerate().all(|(i, joint)| {
        b.find(joint.id).is_none_or(|k| parent(b, k) == parent(a, i) && b.joints()[k].rest == joint.rest)
    })
}

/// The folder of a resource's output, and what its file is called there (without extension).
fn wanted_output(input: &Input, layout: Layout, resource: &Resource<'_>) -> (String, String) {
    let folder = input.folder();
    match (layout, &resource.path) {
        (Layout::File, _) => (folder.to_owned(), input.stem.clone()),
        (Layout::Folder, Some(path)) => {
            let inside = path.rsplit_once('/').map_or("", |(inside, _)| inside);
            (format!("{folder}{}/{inside}", input.stem), resource.name.clone())
        }
        (Layout::Folder, None) => {
            let id = || format!("{:X}", resource.id.unwrap_or_default());
            let name = if resource.name.is_empty() { id() } else { resource.name.clone() };
            (format!("{folder}{}", input.stem), name)
        }
    }
}
