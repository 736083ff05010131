//! Clip dictionaries: the whole way against inflating the input and copying the output, and decoding alone.
//! Medians of five, one core. `make bench` runs it.

#![allow(clippy::print_stdout)]

// As the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anim2gltf::convert::settings::Settings;
use anim2gltf::engine as batch;
use anim2gltf::formats::gltf::Glb;
use anim2gltf::games::rage::container::rsc7;
use anim2gltf::games::rage::ycd;

/// Times of a measurement are those of so many rounds: one takes milliseconds.
const ROUNDS: u32 = 10;

fn median(mut run: impl FnMut() -> Duration) -> Duration {
    let mut times: Vec<Duration> = (0..5).map(|_| run()).collect();
    times.sort();
    times[2]
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut out: Vec<PathBuf> = walkdir::WalkDir::new(folder)
        .into_iter()
        .filter_map(Result::ok)
        .filter(|e| e.path().extension().is_some_and(|x| x == extension))
        .map(|e| e.into_path())
        .collect();
    out.sort();
    out
}

/// A memory file system where there is one: the disk's moods stay out.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder for the output")
}

fn main() {
    let corpus = [
        concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/corpus/ycd"),
        concat!(env!("CARGO_MANIFEST_DIR"), "/golden"),
    ]
    .map(PathBuf::from)
    .into_iter()
    .find(|p| p.is_dir())
    .expect("dictionaries to measure with");
    let inputs = files(&corpus, "ycd");
    println!("{} dictionaries of {}", inputs.len(), corpus.display());

    let (a, b) = (folder(), folder());
    let mut settings = Settings::new(vec![corpus.clone()], a.path().to_owned(), &Glb);
    settings.threads = 1;
    settings.force = true;
    let run = || {
        batch::run::run(&settings, &mut batch::run::Silent).expect("converts");
    };
    run();
    let outputs: Vec<(PathBuf, Vec<u8>)> = files(a.path(), "glb")
        .into_iter()
        .map(|p| {
            let bytes = std::fs::read(&p).expect("written");
            (b.path().join(p.file_name().expect("a name")), bytes)
        })
        .collect();
    let least = || {
        let mut scratch = Vec::new();
        for input in &inputs {
            let bytes = std::fs::read(input).expect("read");
            let _ = std::hint::black_box(rsc7::open(&bytes, &mut scratch));
        }
        for (path, bytes) in &outputs {
            let temporary = path.with_extension("tmp");
            std::fs::write(&temporary, bytes).expect("written");
            std::fs::rename(&temporary, path).expect("renamed");
        }
    };
    // In turn, so that a change of the machine's mood meets both.
    let time = |f: &dyn Fn()| {
        let start = Instant::now();
        (0..ROUNDS).for_each(|_| f());
        start.elapsed() / ROUNDS
    };
    let (mut runs, mut floors): (Vec<_>, Vec<_>) = (0..5).map(|_| (time(&run), time(&least))).unzip();
    runs.sort();
    floors.sort();
    let (convert, floor) = (runs[2], floors[2]);
    let bytes: usize = outputs.iter().map(|(_, b)| b.len()).sum();
    println!(
        "read, decode, write: {:.1} ms; inflate, write and rename the same {:.1} MB: {:.1} ms; ratio {:.2} (aim: under 3)",
        convert.as_secs_f64() * 1e3,
        bytes as f64 / 1e6,
        floor.as_secs_f64() * 1e3,
        convert.as_secs_f64() / floor.as_secs_f64()
    );

    let raw: Vec<Vec<u8>> = inputs.iter().map(|p| std::fs::read(p).expect("read")).collect();
    let mut scratch: Vec<Vec<u8>> = raw.iter().map(|_| Vec::new()).collect();
    let resources: Vec<rsc7::Resource<'_>> =
        raw.iter().zip(&mut scratch).filter_map(|(r, s)| rsc7::open(r, s).ok()).collect();
    let mut track_frames = 0;
    let decode = median(|| {
        track_frames = 0;
        let start = Instant::now();
        for resource in &resources {
            let Ok(dictionary) = ycd::dictionary::read(resource) else { continue };
            let mut scratch = ycd::animation::Scratch::default();
            for animation in &dictionary.animations {
                let decoded = ycd::animation::decode(animation, |_| true, &mut scratch);
                std::hint::black_box(decoded).expect("decodes");
                track_frames += animation.tracks.len() as u64 * u64::from(animation.frames);
            }
        }
        start.elapsed()
    });
    println!(
        "decode alone: {track_frames} track-frames in {:.2} ms, {:.0} million a second (aim: 60)",
        decode.as_secs_f64() * 1e3,
        track_frames as f64 / decode.as_secs_f64() / 1e6
    );
}
