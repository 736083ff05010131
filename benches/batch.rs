//! Whole runs on inputs as large as the games: time against the least that any program must do, memory, and what
//! threads and sizes do to time. `cargo bench --bench batch` (or `make bench`); a word as argument runs what has it in
//! its name. Medians of five; output on a memory file system where there is one.
//!
//! The inputs are made once, below target/bench-inputs, at a part of the game's size that is printed:
//! `ANIM2GLTF_BENCH_SCALE=1` makes them whole.

#![allow(clippy::print_stdout)]

use anim2gltf_testkit::big;
use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anim2gltf::convert::settings::Settings;
use anim2gltf::engine as batch;
use anim2gltf::formats::Format;
use anim2gltf::formats::fbx::Fbx;
use anim2gltf::formats::gltf::Glb;
use anim2gltf::games::GAMES;
use anim2gltf::games::anvil::container::file as anvil;
use anim2gltf::games::rage::container::rsc7;
use anim2gltf::report::census as check;
use anim2gltf::source::ReadOptions;
use anim2gltf_testkit::anvil_container::Pack;
use rayon::prelude::*;

// As the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const CORES: usize = 2;

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// Runs both in turn, five times each, so that a change of the machine's mood meets both. Medians, seconds.
fn in_turn(mut a: impl FnMut(), mut b: impl FnMut()) -> (f64, f64) {
    let time = |f: &mut dyn FnMut()| {
        let start = Instant::now();
        f();
        start.elapsed()
    };
    let (mut all_a, mut all_b) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        all_a.push(time(&mut a));
        all_b.push(time(&mut b));
    }
    (median(all_a).as_secs_f64(), median(all_b).as_secs_f64())
}

fn pool(threads: usize) -> rayon::ThreadPool {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads")
}

/// A memory file system where there is one: the disk's moods stay out.
fn output_folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder for the output")
}

/// Reads and unpacks all that `inputs` hold, and no more. Bytes.
fn unpack(inputs: &[PathBuf]) -> u64 {
    let files: Vec<PathBuf> = inputs.iter().flat_map(|p| files(p)).collect();
    let dictionaries: u64 = files
        .par_iter()
        .filter(|p| p.extension().is_some_and(|e| e == "ycd"))
        .map_init(Vec::new, |scratch, path| {
            let bytes = fs::read(path).expect("an input");
            black_box(rsc7::open(&bytes, scratch)).map_or(0, |r| r.system.len() as u64)
        })
        .sum();
    let archives: u64 = files
        .iter()
        .filter(|p| p.extension().is_some_and(|e| e == "forge"))
        .map(|path| {
            let source = anvil::open(path, &anvil::Options::default()).expect("an archive");
            let unpack = |scratch: &mut anvil::Scratch, i| {
                source.unpack(i, scratch).map_or(0, |u| u.bytes.len() as u64)
            };
            (0..source.entries().len()).into_par_iter().map_init(anvil::Scratch::new, unpack).sum::<u64>()
        })
        .sum();
    dictionaries + archives
}

fn files(path: &Path) -> Vec<PathBuf> {
    walkdir::WalkDir::new(path)
        .sort_by_file_name()
        .into_iter()
        .filter_map(Result::ok)
        .filter(|e| e.file_type().is_file())
        .map(walkdir::DirEntry::into_path)
        .collect()
}

/// Copies the files below `from`, in parallel; folders are made first.
fn copy_tree(from: &Path, to: &Path) {
    let all = files(from);
    for path in &all {
        if let Some(folder) = to.join(path.strip_prefix(from).expect("below")).parent() {
            fs::create_dir_all(folder).expect("a folder");
        }
    }
    all.par_iter().for_each(|path| {
        let bytes = fs::read(path).expect("an output");
        fs::write(to.join(path.strip_prefix(from).expect("below")), bytes).expect("a copy");
    });
}

fn size(folder: &Path) -> u64 {
    files(folder).iter().filter_map(|p| fs::metadata(p).ok()).map(|m| m.len()).sum()
}

fn settings(inputs: &[PathBuf], out: &Path, threads: usize) -> Settings {
    Settings { threads, force: true, ..Settings::new(inputs.to_vec(), out.to_owned(), &Glb) }
}

/// The part of each game that is made, 1 for the whole, unless the environment says otherwise.
fn scale(default: f64) -> f64 {
    std::env::var("ANIM2GLTF_BENCH_SCALE").ok().and_then(|s| s.parse().ok()).unwrap_or(default)
}

/// An input below target/bench-inputs, made by `make` where it is not there yet.
fn input(name: &str, make: impl FnOnce(&Path) -> std::io::Result<big::Written>) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/bench-inputs");
    let path = folder.join(name);
    if !path.exists() {
        fs::create_dir_all(&folder).expect("a folder for the inputs");
        let start = Instant::now();
        let part = folder.join(format!("part-{name}"));
        let _ = fs::remove_dir_all(&part);
        let written = make(&part).expect("an input");
        fs::rename(&part, &path).expect("an input");
        println!("  made {name} in {:.0} s: {written:?}", start.elapsed().as_secs_f64());
    }
    path
}

struct Workload {
    name: &'static str,
    what: String,
    inputs: Vec<PathBuf>,
    /// The same, twice as much.
    twice: Vec<PathBuf>,
}

/// What is measured, by name.
const WORKLOADS: [&str; 4] = ["RR", "SWS", "GTAV", "corpus"];

/// `None`: what it needs is not there.
fn workload(name: &'static str) -> Option<Workload> {
    let of = |n: u64, scale: f64| ((n as f64 * scale).round() as u64).max(1);
    let workload = |what: String, make: &dyn Fn(f64) -> PathBuf| {
        Some(Workload { name, what, inputs: vec![make(0.5)], twice: vec![make(1.0)] })
    };
    match name {
        "RR" => {
            let s = scale(1.0);
            let make = |part: f64| {
                let (clips, keys) = (of(9087, s * part), of(25_241_022, s * part));
                input(&format!("rr-{clips}.forge"), |path| big::rr_forge(path, clips, keys, 3, Pack::Zstd))
            };
            let millions = of(25_241_022, s) as f64 / 1e6;
            workload(format!("{} clips, {millions:.1} million keys, scale {s}", of(9087, s)), &make)
        }
        "SWS" => {
            let s = scale(0.25);
            let make = |part: f64| {
                let [objects, distinct, cells] = [80_466, 2708, 1624].map(|n| of(n, s * part));
                input(&format!("sws-{objects}.forge"), |path| big::sws_forge(path, objects, distinct, cells))
            };
            workload(format!("{} objects of which {} differ, scale {s}", of(80_466, s), of(2708, s)), &make)
        }
        "GTAV" => {
            let s = scale(1.0 / 16.0);
            let make = |part: f64| {
                let (files, animations) = (of(25_961, s * part), of(267_536, s * part));
                input(&format!("peds-{files}"), |path| big::dictionaries(path, files, animations))
            };
            let (files, animations) = (of(25_961, s), of(267_536, s));
            workload(format!("{files} dictionaries, {animations} animations, scale {s:.4}"), &make)
        }
        _ => {
            const TIMES: usize = 10;
            let shared = std::env::var_os("ANIM2GLTF_SHARED").map_or_else(
                || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared")),
                PathBuf::from,
            );
            let corpus = files(&shared.join("corpus/ycd"));
            if corpus.is_empty() {
                return None;
            }
            let make = |part: f64| {
                let times = (TIMES as f64 * part) as usize;
                input(&format!("corpus-{times}"), |path| {
                    for i in 0..times {
                        let folder = path.join(format!("{i:02}"));
                        fs::create_dir_all(&folder)?;
                        for file in &corpus {
                            fs::copy(file, folder.join(file.file_name().unwrap_or_default()))?;
                        }
                    }
                    Ok(big::Written::default())
                })
            };
            workload(format!("{} real dictionaries, {TIMES} times", corpus.len()), &make)
        }
    }
}

fn measure(workload: &Workload) {
    let Workload { name, what, inputs: half, twice: inputs } = workload;
    println!("{name}: {what}");
    // What the subcommand `check` does.
    let check_all = |inputs: &[PathBuf], threads| {
        black_box(check::check(inputs, GAMES, &ReadOptions::default(), threads)).expect("a census")
    };
    for threads in [1, CORES] {
        let pool = pool(threads);
        let (mut bytes, mut decoded) = (0, String::new());
        let (decode, plain) = in_turn(
            || {
                let census = check_all(inputs, threads);
                let json = serde_json::to_value(&census).expect("a census");
                let count = |path: &str| json.pointer(path).and_then(|n| n.as_u64()).unwrap_or(0);
                decoded = match count("/RR/clips/keys") + count("/SWS/clips/keys") {
                    0 => format!("{} track-frames", count("/GTAV/track_frames")),
                    keys => format!("{keys} keys"),
                };
            },
            || bytes = pool.install(|| unpack(inputs)),
        );
        let count: f64 = decoded.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0.0);
        println!(
            "  (a) {threads} threads: decode {decode:.3} s ({decoded}, {:.1} million a second and core), unpack alone \
             {plain:.3} s ({:.0} MB): ratio {:.2}",
            count / decode / threads as f64 / 1e6,
            bytes as f64 / 1e6,
            decode / plain
        );
    }
    let mut clips = 0;
    for threads in [1, CORES] {
        let pool = pool(threads);
        let (out, copy) = (output_folder(), output_folder());
        let convert = || {
            clips = batch::run::run(&settings(inputs, out.path(), threads), &mut batch::run::Silent)
                .expect("a run")
                .clips
        };
        let least = || {
            pool.install(|| {
                unpack(inputs);
                copy_tree(out.path(), copy.path());
            });
        };
        let (end_to_end, floor) = in_turn(convert, least);
        println!(
            "  (b) {threads} threads: {clips} clips end to end {end_to_end:.3} s, unpack and copy the output ({:.0} MB) {floor:.3} s: \
             ratio {:.2}{}",
            size(out.path()) as f64 / 1e6,
            end_to_end / floor,
            if threads == CORES { " (aim: under 2)" } else { "" }
        );
    }
    let (one, two) = in_turn(|| drop(check_all(inputs, 1)), || drop(check_all(inputs, CORES)));
    println!(
        "  (c) decode with 1 thread {one:.3} s, with {CORES} {two:.3} s: {:.2} times (aim: 1.8)",
        one / two
    );
    let out = output_folder();
    let convert = |inputs: &[PathBuf]| {
        batch::run::run(&settings(inputs, out.path(), CORES), &mut batch::run::Silent).expect("a run");
    };
    let (whole, part) = in_turn(|| convert(inputs), || convert(half));
    println!(
        "  (d) half of it {part:.3} s, all {whole:.3} s: {:.2} times the time for twice the work (aim: 1.8 to 2.2)",
        whole / part
    );
    drop(out);
    compare_formats(half);
}

/// The FBX way beside the GLB way, on one thread, each into a new folder.
fn compare_formats(inputs: &[PathBuf]) {
    let mut bytes = [0u64; 2];
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..5 {
        for (i, format) in [&Glb as &'static dyn Format, &Fbx].into_iter().enumerate() {
            let out = output_folder();
            let mut settings = settings(inputs, out.path(), 1);
            settings.format = format;
            let start = Instant::now();
            batch::run::run(&settings, &mut batch::run::Silent).expect("a run");
            times[i].push(start.elapsed());
            bytes[i] = size(out.path());
        }
    }
    let [glb, fbx] = times.map(|t| median(t).as_secs_f64());
    let [glb_mb, fbx_mb] = bytes.map(|b| b as f64 / 1e6);
    println!(
        "  (e) 1 thread: GLB {glb:.3} s ({glb_mb:.0} MB), FBX {fbx:.3} s ({fbx_mb:.0} MB): ratio {:.2} (aim: under 3)",
        fbx / glb
    );
}

/// Peak resident memory of the program on an archive of `gigabytes`.
fn memory(gigabytes: u64) {
    let size = gigabytes << 30;
    let forge = std::env::temp_dir().join(format!("anim2gltf-bench-{gigabytes}.forge"));
    let written = big::large_forge(&forge, size, 60_000).expect("a large archive");
    let out = output_folder();
    let start = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_anim2gltf"))
        .arg(&forge)
        .arg("-o")
        .arg(out.path())
        .args(["-j", "2", "--quiet"])
        .stdin(Stdio::null())
        .spawn()
        .expect("the program");
    // Linux: the highest resident size so far.
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0.0f64;
    while child.try_wait().expect("a child").is_none() {
        if let Ok(status) = fs::read_to_string(&status)
            && let Some(line) = status.lines().find(|l| l.starts_with("VmHWM:"))
            && let Some(kilobytes) = line.split_whitespace().nth(1).and_then(|n| n.parse::<f64>().ok())
        {
            peak = peak.max(kilobytes * 1024.0);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    println!(
        "memory: an archive of {:.2} GB, {} clips of {:.1} MB (each there twice), 2 threads: peak {:.0} MB (aim: under 300), \
         {:.1} s, {} MB written",
        written.size as f64 / 1e9,
        written.clips,
        written.objects as f64 / 1e6 / written.clips as f64,
        peak / 1e6,
        start.elapsed().as_secs_f64(),
        self::size(out.path()) / 1_000_000,
    );
    let _ = fs::remove_file(forge);
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|w| name.contains(w.as_str()));
    for name in WORKLOADS.into_iter().filter(|name| is_wanted(name)) {
        match workload(name) {
            Some(workload) => measure(&workload),
            None => println!("{name}: not there"),
        }
    }
    if is_wanted("memory") {
        memory(4);
    }
}
