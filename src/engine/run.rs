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

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Instant;

use rayon::ThreadPool;
use rustc_hash::{FxHashMap, FxHashSet};
use xxhash_rust::xxh3::xxh3_128;

use crate::convert::make::{Bundle, Finished, Job, Made, Maker};
use crate::engine::journal::{Journal, Place};
use crate::engine::output;
use crate::engine::output::Paths;
use crate::error::{Error, Result};
use crate::games::anvil::container::file as anvil;
use crate::games::rage::cutscene::{Cutscenes, Section};
use crate::model::{Clip, Skeleton};
use crate::report::manifest::{ClipRow, ErrorRow, Manifest, NoteRow};
use crate::report::text as report;
use crate::report::text::{Listed, Tally};
use crate::source::find;
use crate::source::find::{Input, Kind};
use crate::source::plan::{Plan, plan};
use crate::source::skeletons::{Choice, Skeletons};
use crate::source::work;
use crate::source::work::{Content, Contents, Item, Names, Source, Unit};

pub use crate::convert::pack::{pack, prepare};
pub use crate::convert::settings::{Additive, Globs, Passes, Select, Settings};

/// Bytes of units and items that are on their way at most, and units; a single larger one still goes, alone.
const WINDOW_BYTES: u64 = 12 << 20;
const WINDOW_UNITS: usize = 256;

/// Units or jobs that are handed out together, at most: so many, and so many bytes.
const TOGETHER: usize = 32;
const TOGETHER_BYTES: u64 = 512 << 10;

/// Full bundles that are on their way at most, beside the one that is being filled.
const BUNDLES: usize = 4;

/// What a stored byte is taken to unpack to, until it has.
const UNPACKED: u64 = 3;

/// Buffers of a thread that have grown over this (to an entry far larger than most) are given back.
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
    settle_allocator();
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(settings.threads)
        .build()
        .map_err(|e| Error::usage(format!("cannot start threads: {e}")))?;
    let mut run = Run::new(settings, progress);
    let (inputs, errors) = find::find(&settings.inputs);
    for e in &errors {
        run.fail(e);
    }
    if inputs.is_empty() && errors.is_empty() {
        let given: Vec<String> = settings.inputs.iter().map(|p| p.display().to_string()).collect();
        return Err(Error::usage(format!(
            "found no .ycd, .ycd.xml, .rpf, .forge, .data or .Animation in {}",
            given.join(", ")
        )));
    }
    let names = Names::with_files(&settings.names)?;
    let mut skeletons = Skeletons::new(settings.skeleton.as_deref())?;
    if !settings.list {
        // Before the long look: what cannot be written is said at once.
        let out = &settings.out;
        fs::create_dir_all(out).map_err(|e| Error::io("cannot be made", e).in_file(out))?;
        output::prove_writable(out, &settings.tag())?;
    }
    let sources: Vec<Option<Source>> = inputs
        .iter()
        .map(|input| work::open(input, &settings.anvil).map_err(|e| run.fail(&e)).ok())
        .collect();
    let plan = pool.install(|| {
        plan(&inputs, &sources, &mut skeletons, |input: &Input| run.progress.look(&input.relative))
    });
    let Plan { mut units, uses, errors, notes } = plan;
    if settings.join_cutscene {
        run.cutscenes = Cutscenes::find(&inputs, &sources, &mut units);
    }
    run.manifest.uses = uses;
    for e in &errors {
        run.fail(e);
    }
    for (input, note) in notes {
        run.note(&inputs[input], note);
    }
    for (file, note) in skeletons.notes() {
        *run.notes.entry((file.clone(), note.clone())).or_default() += 1;
    }
    let mut maker = Maker::new(settings, &inputs, &sources, names, skeletons);
    pool.install(|| maker.find_base(&units))?;
    if !settings.list {
        output::clean(&settings.out, &settings.tag());
        let (journal, records) = Journal::open(&settings.out, &settings.tag(), settings.force)?;
        run.journal = Some(journal);
        maker.records = Some(records);
    }
    run.stream(&pool, &maker, units)?;
    run.finish(&maker)
}

/// Tells glibc's allocator, which learns from what is given back, that buffers of this size come and go: else it hands
/// the memory of each file to the system and asks for it again, page by page. Costs nothing: no page is touched.
fn settle_allocator() {
    const BUFFER: usize = 16 << 20;
    drop(std::hint::black_box(Vec::<u8>::with_capacity(BUFFER)));
}

/// Work for a thread. `order` counts each kind for itself: of lists it is that of the first.
enum Task {
    Read { order: usize, units: Vec<Unit> },
    Make { order: usize, jobs: Vec<Job> },
    Bundle { order: usize, bundle: Bundle },
}

/// What became of it.
#[expect(clippy::large_enum_variant, reason = "moved once, from a worker to the starting thread")]
enum Report {
    Read { order: usize, contents: Vec<Contents> },
    Made { order: usize, made: Vec<(Job, Made)> },
    Bundled { order: usize, made: Made },
}

fn work_off(task: Task, maker: &Maker<'_>, scratches: &Scratches) -> Report {
    match task {
        Task::Read { order, units } => {
            let read = |unit: Unit| match unit.found {
                Some(items) => {
                    Contents { input: unit.input, entry: unit.entry, items, ..Contents::default() }
                }
                None => scratches.with(unit.size, |scratch| maker.read(&unit, scratch)),
            };
            Report::Read { order, contents: units.into_iter().map(read).collect() }
        }
        Task::Make { order, jobs } => {
            let make = |job: Job| {
                let made = maker.make(&job);
                (job, made)
            };
            Report::Made { order, made: jobs.into_iter().map(make).collect() }
        }
        Task::Bundle { order, mut bundle } => {
            let made = maker.make_bundle(&mut bundle);
            Report::Bundled { order, made }
        }
    }
}

/// Buffers, passed from task to task: no more of them than threads.
#[derive(Default)]
struct Scratches(Mutex<Vec<Box<anvil::Scratch>>>);

impl Scratches {
    fn with<T>(&self, size: u64, work: impl FnOnce(&mut anvil::Scratch) -> T) -> T {
        let taken = self.0.lock().ok().and_then(|mut all| all.pop());
        let mut scratch = taken.unwrap_or_default();
        let result = work(&mut scratch);
        if size <= SCRATCH_BYTES
            && let Ok(mut all) = self.0.lock()
        {
            all.push(scratch);
        }
        result
    }
}

/// Results that come in any order, given back in theirs.
struct InOrder<T> {
    next: usize,
    waiting: BTreeMap<usize, T>,
}

impl<T> InOrder<T> {
    fn new() -> Self {
        InOrder { next: 0, waiting: BTreeMap::new() }
    }

    /// Puts results from number `order` on.
    fn put(&mut self, order: usize, results: impl IntoIterator<Item = T>) {
        self.waiting.extend((order..).zip(results));
    }

    fn take(&mut self) -> Option<T> {
        let result = self.waiting.remove(&self.next)?;
        self.next += 1;
        Some(result)
    }
}

/// A unit between being handed out and its last job being remembered.
struct Open {
    /// Bytes that it is taken to hold in memory.
    cost: u64,
    /// Stored bytes.
    size: u64,
    /// Jobs that were handed out when its own had been.
    jobs: usize,
}

/// Work on its way.
struct Flow<'g> {
    give: &'g dyn Fn(Task),
    /// Reports that are still to come.
    pending: usize,
    reads: InOrder<Contents>,
    makes: InOrder<(Job, Made)>,
    bundles: InOrder<Made>,
    open: VecDeque<Open>,
    /// Of `open`: how many have their jobs.
    placed: usize,
    /// Bytes of all in `open`.
    bytes: u64,
    /// Units and jobs handed out, and jobs and bundles that have a number.
    given_units: usize,
    given_jobs: usize,
    jobs: usize,
    bundled: usize,
    /// Units and jobs that are handed out together; so many of them at most.
    reading: Collected<Unit>,
    making: Collected<Job>,
    most: usize,
}

/// Small things that go together: each hand-over wakes a thread.
struct Collected<T> {
    all: Vec<T>,
    bytes: u64,
}

impl<T> Collected<T> {
    fn new() -> Self {
        Collected { all: Vec::new(), bytes: 0 }
    }

    /// Adds one, and gives all where there are enough.
    fn add(&mut self, one: T, bytes: u64, most: usize) -> Option<Vec<T>> {
        self.all.push(one);
        self.bytes += bytes;
        (self.bytes >= TOGETHER_BYTES || self.all.len() >= most).then(|| self.take())
    }

    fn take(&mut self) -> Vec<T> {
        self.bytes = 0;
        std::mem::take(&mut self.all)
    }
}

impl<'g> Flow<'g> {
    /// `most`: units and jobs that may go together.
    fn new(give: &'g dyn Fn(Task), most: usize) -> Self {
        Flow {
            give,
            most,
            reading: Collected::new(),
            making: Collected::new(),
            given_units: 0,
            given_jobs: 0,
            pending: 0,
            reads: InOrder::new(),
            makes: InOrder::new(),
            bundles: InOrder::new(),
            open: VecDeque::new(),
            placed: 0,
            bytes: 0,
            jobs: 0,
            bundled: 0,
        }
    }

    /// Whether a unit of `size` stored bytes may go on its way.
    fn has_room(&self, size: u64) -> bool {
        let is_room = self.bytes + size * UNPACKED <= WINDOW_BYTES && self.open.len() < WINDOW_UNITS;
        let is_idle = self.pending == 0 && self.reading.all.is_empty() && self.making.all.is_empty();
        (is_room && self.bundled - self.bundles.next <= BUNDLES) || is_idle
    }

    fn read(&mut self, unit: Unit) {
        let (size, cost) = (unit.size, unit.size * UNPACKED);
        self.open.push_back(Open { cost, size, jobs: 0 });
        self.bytes += cost;
        if let Some(units) = self.reading.add(unit, size, self.most) {
            self.give_units(units);
        }
    }

    fn make(&mut self, job: Job) {
        let size = job.item.size();
        self.jobs += 1;
        if let Some(jobs) = self.making.add(job, size, self.most) {
            self.give_jobs(jobs);
        }
    }

    /// Hands out what is collected.
    fn give_rest(&mut self) {
        let (units, jobs) = (self.reading.take(), self.making.take());
        self.give_jobs(jobs);
        self.give_units(units);
    }

    fn give_units(&mut self, units: Vec<Unit>) {
        let order = self.given_units;
        self.given_units += units.len();
        if !units.is_empty() {
            self.give(Task::Read { order, units });
        }
    }

    fn give_jobs(&mut self, jobs: Vec<Job>) {
        let order = self.given_jobs;
        self.given_jobs += jobs.len();
        if !jobs.is_empty() {
            self.give(Task::Make { order, jobs });
        }
    }

    fn bundle(&mut self, bundle: Bundle) {
        self.give(Task::Bundle { order: self.bundled, bundle });
        self.bundled += 1;
    }

    fn give(&mut self, task: Task) {
        self.pending += 1;
        (self.give)(task);
    }

    fn put(&mut self, report: Report) {
        self.pending -= 1;
        match report {
            Report::Read { order, contents } => self.reads.put(order, contents),
            Report::Made { order, made } => self.makes.put(order, made),
            Report::Bundled { order, made } => self.bundles.put(order, [made]),
        }
    }

    /// The unit whose contents were taken last has its jobs, which hold `cost` bytes.
    fn placed(&mut self, cost: u64) {
        if let Some(open) = self.open.get_mut(self.placed) {
            self.bytes = self.bytes - open.cost + cost;
            (open.cost, open.jobs) = (cost, self.jobs);
        }
        self.placed += 1;
    }

    /// Takes away the units that are done: how many, and their stored bytes.
    fn close(&mut self) -> (usize, u64) {
        let (mut units, mut bytes) = (0, 0);
        while self.placed > 0
            && let Some(open) = self.open.front()
            && open.jobs <= self.makes.next
        {
            self.bytes -= open.cost;
            bytes += open.size;
            units += 1;
            self.placed -= 1;
            self.open.pop_front();
        }
        (units, bytes)
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
    cutscenes: Cutscenes,
    sections: Vec<(usize, Section)>,
    /// Files for the manifest, and the Animation that each holds alone.
    listed: Vec<(Place, Option<(u64, u128)>)>,
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
            cutscenes: Cutscenes::default(),
            sections: Vec::new(),
            listed: Vec::new(),
            waiting: Vec::new(),
            files: 0,
            started: Instant::now(),
        }
    }

    /// Everything from units to files.
    fn stream(&mut self, pool: &ThreadPool, maker: &Maker<'_>, units: Vec<Unit>) -> Result<()> {
        self.progress.begin(units.len(), units.iter().map(|u| u.size).sum());
        let (sender, receiver) = mpsc::channel();
        let scratches = Scratches::default();
        pool.in_place_scope(|scope| {
            let give = |task| {
                let (sender, scratches) = (sender.clone(), &scratches);
                // The receiver outlives all tasks.
                scope.spawn(move |_| drop(sender.send(work_off(task, maker, scratches))));
            };
            // All threads get something, a few times over.
            let most = units.len().div_ceil(8 * pool.current_num_threads()).clamp(1, TOGETHER);
            let mut flow = Flow::new(&give, most);
            let mut units = units.into_iter().peekable();
            let mut last = String::new();
            loop {
                while !self.outcome.stopped
                    && let Some(unit) = units.next_if(|unit| flow.has_room(unit.size))
                {
                    flow.read(unit);
                }
                flow.give_rest();
                if flow.pending == 0 {
                    // The last cutscene, and clips that fill no bundle, go at the very end.
                    if self.outcome.stopped
                        || !(self.place_cutscene(maker, &mut flow) || self.bundle_rest(&mut flow))
                    {
                        // A full disk has room again where the files that did not come to be are gone.
                        if let (true, Some(journal)) = (self.outcome.stopped, &mut self.journal) {
                            let _ = journal.flush();
                        }
                        return Ok(());
                    }
                    flow.give_rest();
                }
                let Ok(report) = receiver.recv() else { return Ok(()) };
                flow.put(report);
                receiver.try_iter().for_each(|report| flow.put(report));
                while let Some(contents) = flow.reads.take() {
                    self.place_all(maker, &mut flow, contents);
                }
                while let Some((job, made)) = flow.makes.take() {
                    last.clone_from(&job.source);
                    self.remember_job(maker, &mut flow, job, made)?;
                }
                while let Some(made) = flow.bundles.take() {
                    self.remember(None, made)?;
                }
                if let Some(Err(e)) = self.journal.as_mut().map(Journal::flush) {
                    self.stop(maker, &e);
                }
                let (units, bytes) = flow.close();
                self.outcome.seconds = self.started.elapsed().as_secs_f64();
                self.progress.advance(units, bytes, &last, &self.outcome);
            }
        })
    }

    /// Gives the items of a unit their paths, and hands them out.
    fn place_all(&mut self, maker: &Maker<'_>, flow: &mut Flow<'_>, contents: Contents) {
        for e in &contents.errors {
            self.fail(e);
        }
        let input = &maker.inputs[contents.input];
        for note in contents.notes {
            self.note(input, note);
        }
        let mut cost = 0;
        let section = self.cutscenes.of(contents.input, contents.entry);
        if self.sections.first().is_some_and(|(before, _)| section.is_none_or(|(now, _)| now != *before)) {
            self.place_cutscene(maker, flow);
        }
        for item in contents.items {
            let source = work::source_text(input, &item);
            cost += item.size();
            if let Some((cutscene, number)) = section {
                self.sections.push((cutscene, Section { number, item, source, file: input.path.clone() }));
            } else if let Some(job) = self.place(input, item, source, Vec::new()) {
                flow.make(job);
            }
        }
        flow.placed(cost);
    }

    /// Hands out the sections of a cutscene, as one. Returns whether there were some.
    fn place_cutscene(&mut self, maker: &Maker<'_>, flow: &mut Flow<'_>) -> bool {
        let sections = std::mem::take(&mut self.sections);
        let Some((cutscene, _)) = sections.first() else { return false };
        let cutscene = *cutscene;
        let sections: Vec<Section> = sections.into_iter().map(|(_, section)| section).collect();
        let Some((item, source)) = self.cutscenes.item(cutscene, &sections) else { return false };
        let job = self.place(&maker.inputs[item.input], item, source, sections);
        job.map(|job| flow.make(job)).is_some()
    }

    /// Gives an item its output path; `None` for one that is there already or that another shard does.
    fn place(&mut self, input: &Input, item: Item, source: String, sections: Vec<Section>) -> Option<Job> {
        let is_object = !matches!(item.content, Content::Dictionary(_));
        // A loose file was given for its own sake, whatever else holds the same clip.
        if is_object && input.kind != Kind::Anvil(anvil::Kind::Loose) {
            if !self.seen.insert(item.identity()) {
                self.outcome.repeated += 1;
                self.again.entry(item.identity()).or_default().push(source);
                return None;
            }
            if !self.ids.insert(item.id) {
                let text = format!(
                    "clip \"{}\" ({:X}) is there with other bytes before: both are written",
                    item.name, item.id
                );
                self.manifest.notes.push(NoteRow { source: source.clone(), note: text, output: None });
            }
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
        let order = self.files;
        self.files += 1;
        if let Some((k, n)) = self.settings.shard {
            let lot = if is_object { xxh3_128(&item.id.to_le_bytes()) ^ item.hash } else { item.hash };
            if (lot % u128::from(n)) as u32 != k - 1 {
                self.outcome.elsewhere += 1;
                return None;
            }
        }
        Some(Job { item, sections, source, stem, order })
    }

    fn remember_job(
        &mut self,
        maker: &Maker<'_>,
        flow: &mut Flow<'_>,
        job: Job,
        mut made: Made,
    ) -> Result<()> {
        let clips = std::mem::take(&mut made.clips);
        let choice = made.choice.take();
        let notes = std::mem::take(&mut made.notes);
        if let Some(e) = made.stop.take() {
            self.stop(maker, &e);
        }
        // Notes of a file that is written are in its record.
        for note in notes {
            self.manifest.notes.push(NoteRow { source: job.source.clone(), note, output: None });
        }
        self.remember(
            (!matches!(job.item.content, Content::Dictionary(_))).then(|| job.item.identity()),
            made,
        )?;
        if self.settings.list {
            let empty = Skeleton::new("", Vec::new())?;
            for clip in &clips {
                self.outcome.clips += 1;
                self.progress.clip(&ClipRow::new(clip, "", &clip.short_name, &[], &empty), false);
            }
        } else if let Some(choice) = choice {
            let (folder, _) = work::wanted_output(&maker.inputs[job.item.input], &job.item);
            self.wait(flow, &folder, &choice, job.item.hash, clips);
        }
        Ok(())
    }

    /// Takes a result into journal, counts and progress.
    fn remember(&mut self, identity: Option<(u64, u128)>, made: Made) -> Result<()> {
        self.outcome.left_out += made.left_out;
        let Some(Finished { done, is_fresh, place }) = made.file else {
            made.errors.iter().for_each(|e| self.fail(e));
            return Ok(());
        };
        let place = match (place, &mut self.journal) {
            (Some(place), _) => place,
            (None, Some(journal)) => journal.add(&done)?,
            (None, None) => return Ok(()),
        };
        self.listed.push((place, identity));
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
    fn wait(&mut self, flow: &mut Flow<'_>, folder: &str, choice: &Choice, hash: u128, clips: Vec<Clip>) {
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
                self.hand_out(flow, place);
            }
        }
    }

    /// Hands out the bundles that are not full. Returns whether there was one.
    fn bundle_rest(&mut self, flow: &mut Flow<'_>) -> bool {
        for place in 0..self.waiting.len() {
            if !self.waiting[place].clips.is_empty() {
                self.hand_out(flow, place);
            }
        }
        flow.pending > 0
    }

    fn hand_out(&mut self, flow: &mut Flow<'_>, place: usize) {
        let Waiting { folder, skeleton, clips, hashes, made } = &mut self.waiting[place];
        *made += 1;
        // Shards bundle their own clips: the files of one must not be called as those of another.
        let shard = self.settings.shard.map_or_else(String::new, |(k, n)| format!("_{k}-of-{n}"));
        let wanted = format!("{folder}/{}{shard}_{made:04}", output::safe_name(&skeleton.name));
        let stem = self.paths.unique(&wanted);
        let (clips, hashes) = (std::mem::take(clips), std::mem::take(hashes));
        flow.bundle(Bundle { clips, skeleton: skeleton.clone(), hashes, stem, order: flow.bundled as u64 });
    }

    fn finish(mut self, maker: &Maker<'_>) -> Result<Outcome> {
        self.outcome.seconds = self.started.elapsed().as_secs_f64();
        let (Some(journal), Some(records), false) =
            (self.journal.take(), &maker.records, self.outcome.stopped)
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
            .map(|(place, identity)| Listed {
                place,
                also_at: identity.and_then(|identity| self.again.remove(&identity)).unwrap_or_default(),
            })
            .collect();
        self.manifest.decided = work::decided(maker.inputs, maker.sources);
        let totals = &mut self.tally.totals;
        totals.files = self.outcome.files as u64;
        totals.repeated = self.outcome.repeated as u64;
        totals.left_out = self.outcome.left_out as u64;
        let (out, tag) = (&self.settings.out, self.settings.tag());
        report::write(out, &tag, self.manifest, self.tally, records, &listed)?;
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
    fn stop(&mut self, maker: &Maker<'_>, error: &Error) {
        maker.stop();
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
