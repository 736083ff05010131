//! Size, error and time of `--reduce` beside gltfpack and glTF-Transform's resample, on the same clips.
//! `cargo bench --bench reduce` (or `make bench`); a word as argument takes the rows that have it in their name.
//!
//! Each clip is converted with the defaults (every source key). A peer reduces that file with its own defaults, and
//! what it wrote is held against the source by the reader and evaluator of `anim2gltf verify`: the largest
//! displacement of a point 10 cm from a joint, in model space, at keys and between. Then `--reduce` gets that number
//! as its bound, with `--quantize` where the peer stores 16-bit rotations, and its file is measured in the same way.
//!
//! Bytes: of key times and key values that an animation refers to, each accessor once; and of the whole file, without
//! `extras`, which the peers drop. Times: whole processes, in turn, medians of five; the peers' are measured with
//! Node, whose own start is printed.

#![allow(clippy::print_stdout)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anim2gltf::compare::sources::{Options, Sources};
use anim2gltf::compare::verify::compare;
use anim2gltf::games::own::gltf::chunks;
use anim2gltf::games::rage::pose_rules::follow_thighs;
use anim2gltf::model::{Clip, Skeleton};
use anim2gltf::source::Scratch;
use serde_json::Value;

/// An input, and of an archive the one clip that is taken.
struct Case {
    name: String,
    input: PathBuf,
    clip: Option<&'static str>,
}

fn cases() -> Vec<Case> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let shared = std::env::var_os("ANIM2GLTF_SHARED").map_or_else(|| root.join("../shared"), PathBuf::from);
    let mut all: Vec<(PathBuf, Option<&'static str>)> = vec![(root.join("golden/sample.ycd"), None)];
    for name in ["custom@gangnamstyle", "lunyx@dazzleme", "baspel@rock@animation", "gang_2@ierrorr"] {
        all.push((shared.join(format!("corpus/ycd/{name}.ycd")), None));
    }
    all.push((shared.join("fixtures/anvil/rr/DataPC_zstd.forge"), Some("RID_Walk_Fwd")));
    all.push((shared.join("fixtures/anvil/rr/DataPC_zstd.forge"), Some("RID_Long_Idle")));
    all.push((shared.join("fixtures/anvil/sws/DataPC_stored_v25.forge"), Some("SK8_Push")));
    all.into_iter()
        .map(|(input, clip)| {
            let stem = input.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            Case { name: clip.map_or(stem, str::to_owned), input, clip }
        })
        .filter(|case| {
            let there = case.input.is_file();
            if !there {
                println!("{}: not there", case.name);
            }
            there
        })
        .collect()
}

/// A tool that takes a file and gives a smaller one.
struct Peer {
    name: &'static str,
    /// Stores rotations in 16 bits, as `--quantize` does.
    quantizes: bool,
    arguments: fn(&Path, &Path, &Path) -> Vec<PathBuf>,
}

/// gltfpack: 30 Hz, 12 bits of rotations, 16 of translations. Names must stay, for the comparison.
fn gltfpack(modules: &Path, input: &Path, output: &Path) -> Vec<PathBuf> {
    vec![
        modules.join("gltfpack/cli.js"),
        "-i".into(),
        input.to_owned(),
        "-o".into(),
        output.to_owned(),
        "-kn".into(),
    ]
}

fn gltf_transform(modules: &Path, input: &Path, output: &Path) -> Vec<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tools/resample.mjs");
    vec![script, modules.to_owned(), input.to_owned(), output.to_owned()]
}

const PEERS: [Peer; 2] = [
    Peer { name: "gltfpack", quantizes: true, arguments: gltfpack },
    Peer { name: "glTF-Transform", quantizes: false, arguments: gltf_transform },
];

fn run(program: &Path, arguments: &[PathBuf]) -> Duration {
    let start = Instant::now();
    let output =
        Command::new(program).args(arguments).stdin(Stdio::null()).output().expect("a program that starts");
    let time = start.elapsed();
    assert!(
        output.status.success(),
        "{} {arguments:?}: {}",
        program.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    time
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64()
}

/// The source's clips on their rigs, as the conversion poses them.
fn source(case: &Case) -> Vec<(Skeleton, Clip)> {
    let (sources, _) = Sources::open(&case.input, &Options::default()).expect("a source");
    let mut scratch = Scratch::default();
    let mut clips = Vec::new();
    for unit in sources.units() {
        for group in sources.read(unit, &mut scratch).0 {
            for mut clip in group.clips {
                follow_thighs(&mut clip, &group.rig);
                clips.push((group.rig.clone(), clip));
            }
        }
    }
    clips
}

/// The largest error of `output`, mm. Its animations are `ids`, in this order: peers drop what names them.
fn error_mm(source: &[(Skeleton, Clip)], ids: &[String], output: &Path) -> f64 {
    let shown = anim2gltf::games::own::open::open(output).expect("a glTF file");
    assert_eq!(shown.animations.len(), ids.len(), "{}", output.display());
    let mut most = 0.0f64;
    for (animation, id) in shown.animations.iter().zip(ids) {
        let (rig, clip) = source.iter().find(|(_, c)| c.id.to_string() == *id).expect("the clip");
        let report = compare(rig, clip, &shown, animation, "").expect("a comparison");
        most = report.anywhere_mm.iter().fold(most, |most, w| most.max(w.value));
    }
    most
}

/// Bytes of keys, and of the file without extras.
fn bytes(path: &Path) -> (usize, usize) {
    let file = fs::read(path).expect("a file");
    let (json, bin) = chunks(&file).expect("a .glb");
    let mut json: Value = serde_json::from_slice(json).expect("JSON");
    drop_extras(&mut json);
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut used = BTreeSet::new();
    for sampler in list(&json["animations"]).iter().flat_map(|a| list(&a["samplers"])) {
        used.extend(["input", "output"].map(|side| sampler[side].as_u64().expect("an accessor") as usize));
    }
    let keys = used
        .into_iter()
        .map(|i| {
            let accessor = &json["accessors"][i];
            let width = match accessor["type"].as_str() {
                Some("SCALAR") => 1,
                Some("VEC3") => 3,
                _ => 4,
            };
            let size = match accessor["componentType"].as_u64() {
                Some(5120 | 5121) => 1,
                Some(5122 | 5123) => 2,
                _ => 4,
            };
            accessor["count"].as_u64().expect("a count") as usize * (width * size as usize)
        })
        .sum();
    // Header, two chunk headers, the JSON, the rest.
    (keys, 12 + 8 + json.to_string().len() + 8 + bin.map_or(0, <[u8]>::len))
}

fn drop_extras(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.remove("extras");
            map.values_mut().for_each(drop_extras);
        }
        Value::Array(list) => list.iter_mut().for_each(drop_extras),
        _ => {}
    }
}

/// The largest .glb below a folder: of two clips of one name the long one.
fn largest(folder: &Path) -> PathBuf {
    let files = anim2gltf::games::own::open::files_below(folder).expect("a folder");
    let size = |path: &PathBuf| fs::metadata(path).map_or(0, |m| m.len());
    files.into_iter().map(|f| f.1).max_by_key(size).expect("a .glb")
}

fn measure(case: &Case, modules: &Path, node: &Path) {
    let own = Path::new(env!("CARGO_BIN_EXE_anim2gltf"));
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder");
    let convert = |name: &str, more: &[String]| {
        let out = folder.path().join(name);
        let mut arguments = vec![case.input.clone(), "-o".into(), out.clone(), "-q".into(), "--force".into()];
        if let Some(clip) = case.clip {
            arguments.extend(["--clip".into(), clip.into()]);
        }
        arguments.extend(more.iter().map(PathBuf::from));
        let time = run(own, &arguments);
        (largest(&out), time)
    };
    let plain = convert("plain", &[]).0;
    let ids: Vec<String> = anim2gltf::games::own::open::open(&plain)
        .expect("a glTF file")
        .animations
        .iter()
        .map(|a| a.id().unwrap_or_default().to_owned())
        .collect();
    let source = source(case);
    for peer in &PEERS {
        let file = folder.path().join(format!("{}.glb", peer.name));
        let arguments = (peer.arguments)(modules, &plain, &file);
        run(node, &arguments);
        let peer_mm = error_mm(&source, &ids, &file);
        // Rounded down: no larger than what was measured. A hundredth of a micrometre is what a comparison sees.
        let bound = ((peer_mm * 1e6).floor() / 1e6).max(1e-5);
        let mut more = vec!["--reduce".to_owned(), format!("{bound}")];
        if peer.quantizes {
            more.push("--quantize".to_owned());
        }
        let (mut theirs, mut ours) = (Vec::new(), Vec::new());
        let mut reduced = PathBuf::new();
        for _ in 0..5 {
            theirs.push(run(node, &arguments));
            let (path, time) = convert(peer.name, &more);
            reduced = path;
            ours.push(time);
        }
        let (their_bytes, our_bytes) = (bytes(&file), bytes(&reduced));
        let our_mm = error_mm(&source, &ids, &reduced);
        let (theirs, ours) = (median(theirs), median(ours));
        let failed: Vec<&str> = [
            ("error", our_mm > peer_mm),
            ("keys", our_bytes.0 >= their_bytes.0),
            ("file", our_bytes.1 >= their_bytes.1),
            ("time", ours > 3.0 * theirs),
        ]
        .iter()
        .filter_map(|(what, fails)| fails.then_some(*what))
        .collect();
        println!(
            "| {} | {} | {peer_mm:.3} | {our_mm:.3} | {} | {} | {} | {} | {:.2} | {:.2} | {} |",
            case.name,
            peer.name,
            their_bytes.0,
            our_bytes.0,
            their_bytes.1,
            our_bytes.1,
            our_bytes.0 as f64 / their_bytes.0 as f64,
            ours / theirs,
            if failed.is_empty() { "-".to_owned() } else { failed.join(", ") },
        );
    }
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let modules = std::env::var_os("ANIM2GLTF_NODE_MODULES").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("target/test-tools/node_modules"),
        PathBuf::from,
    );
    // Paths may be relative to where make was started.
    let modules = fs::canonicalize(&modules).unwrap_or(modules);
    let node = Path::new("node");
    let starts = |_| {
        let start = Instant::now();
        let status = Command::new(node).args(["-e", "0"]).status();
        status.is_ok_and(|s| s.success()).then(|| start.elapsed())
    };
    let start: Vec<Duration> = (0..5).map_while(starts).collect();
    if start.len() < 5 {
        println!("reduce: skipped, Node is not there");
        return;
    }
    if !modules.join("gltfpack").is_dir() || !modules.join("@gltf-transform/functions").is_dir() {
        println!(
            "reduce: skipped, gltfpack and glTF-Transform are not in {} (make tools)",
            modules.display()
        );
        return;
    }
    println!(
        "reduce: at the error that a peer is measured to make (Node starts in {:.3} s)\n",
        median(start)
    );
    println!(
        "| clips | peer | its error, mm | ours | its keys, bytes | ours | its file, bytes | ours | keys, ours : its | time, ours : its | not held |"
    );
    println!("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|---|");
    for case in cases() {
        if wanted.is_empty() || wanted.iter().any(|w| case.name.contains(w.as_str())) {
            measure(&case, &modules, node);
        }
    }
}
