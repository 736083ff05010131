//! `--reduce` by an evaluator of its own (`anim2gltf_testkit::evaluator`): the bound holds everywhere, and keys go.

use anim2gltf_testkit::evaluator;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anim2gltf::compare::sources::{Options, Sources};
use anim2gltf::source::Scratch;
use anim2gltf_testkit::evaluator::{Played, add, apply, file, length, places, source};

/// Instants between neighbouring keys.
const BETWEEN: usize = 5;

fn sources(path: &Path) -> Vec<Played> {
    let (sources, _) = Sources::open(path, &Options::default()).unwrap();
    let mut scratch = Scratch::default();
    let mut out = Vec::new();
    for unit in sources.units() {
        for group in sources.read(unit, &mut scratch).0 {
            out.extend(group.clips.iter().map(|clip| source(&group.rig, clip)));
        }
    }
    out
}

/// What `arguments` make of a source, by the clips' identities.
fn converted(path: &Path, arguments: &[&str]) -> HashMap<(String, String), Played> {
    let out = tempfile::tempdir().unwrap();
    let result = Command::new(env!("CARGO_BIN_EXE_anim2gltf"))
        .arg(path)
        .arg("-o")
        .arg(out.path())
        // The thigh rolls are a pass of the conversion: not in the source.
        .args(["-q", "--no-thigh-roll"])
        .args(arguments)
        .output()
        .unwrap();
    // Damaged fixtures are reported, and are none of this; but something must have come.
    assert!(result.status.code().is_some_and(|c| c <= 2), "{}", String::from_utf8_lossy(&result.stderr));
    let files = anim2gltf::games::own::open::files_below(out.path()).unwrap();
    files.into_iter().flat_map(|(_, path)| file(&path)).map(|played| (played.id.clone(), played)).collect()
}

/// Pairs of instants, of the source and of the file (whose clock is f32): all keys of both, and [`BETWEEN`] in each gap.
fn instants(source: &Played, file: &Played) -> Vec<(f64, f64)> {
    let mut keys: Vec<(f64, f64)> = source.keys().into_iter().map(|t| (t, f64::from(t as f32))).collect();
    keys.push((0.0, 0.0));
    keys.sort_by(|a, b| a.0.total_cmp(&b.0));
    keys.dedup_by(|b, a| b.0 - a.0 < 1e-6);
    let own = file.keys().into_iter().filter(|t| keys.iter().all(|k| (k.1 - t).abs() > 2e-6));
    let own: Vec<f64> = own.collect();
    keys.extend(own.into_iter().map(|t| (t, t)));
    keys.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut out = Vec::new();
    for pair in keys.windows(2) {
        for k in 0..=BETWEEN {
            let f = k as f64 / (BETWEEN + 1) as f64;
            out.push((pair[0].0 + (pair[1].0 - pair[0].0) * f, pair[0].1 + (pair[1].1 - pair[0].1) * f));
        }
    }
    out.extend(keys.last());
    out
}

/// The farthest that a point 10 cm from a joint, in three directions, is moved: mm, with the place.
fn moved_mm(source: &Played, file: &Played) -> (f64, String) {
    let places = places(source, file);
    let mut most = (0.0, String::new());
    for (source_s, file_s) in instants(source, file) {
        let (a, b) = (source.pose(source_s), file.pose(file_s));
        for (j, k) in places.iter().enumerate() {
            for p in [[0.1, 0.0, 0.0], [0.0, 0.1, 0.0], [0.0, 0.0, 0.1]] {
                let mm = 1000.0 * length(add(apply(&a[j], p), apply(&b[*k], p), -1.0));
                if mm > most.0 {
                    most = (mm, format!("{} of {:?} at {source_s} s", source.nodes[j].name, source.id));
                }
            }
        }
    }
    most
}

/// No rotation steps over half a turn or more, and none goes the long way round.
fn steps_are_short(file: &Played) {
    for node in &file.nodes {
        let Some(curve) = &node.curves[1] else { continue };
        for pair in curve.values.windows(2) {
            let dot: f64 = pair[0].iter().zip(&pair[1]).map(|(a, b)| a * b).sum();
            // Cosine of half the step: 0 at 180 degrees.
            assert!(curve.step || dot > 0.2, "{}: {dot}", node.name);
        }
    }
}

fn inputs() -> Vec<PathBuf> {
    let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden");
    let mut all: Vec<PathBuf> =
        ["sample.ycd", "clips.ycd", "rr_zstd.forge", "sws_lzo1x.forge"].map(|n| golden.join(n)).into();
    if let Some(shared) = anim2gltf_testkit::shared() {
        all.extend(["corpus/ycd", "fixtures/anvil/rr", "fixtures/anvil/sws"].map(|n| shared.join(n)));
    }
    all
}

#[test]
fn a_tenth_of_a_millimetre_everywhere_and_keys_go() {
    for input in inputs() {
        let (plain, reduced) = (converted(&input, &[]), converted(&input, &["--reduce", "0.1"]));
        let (mut before, mut after, mut clips) = (0, 0, 0);
        for source in sources(&input) {
            let Some(file) = reduced.get(&source.id) else { continue };
            let (mm, place) = moved_mm(&source, file);
            assert!(mm < 0.1, "{}: {mm} mm, {place}", input.display());
            steps_are_short(file);
            before += plain[&source.id].key_count();
            after += file.key_count();
            clips += 1;
        }
        println!("{}: {clips} clips, {before} keys -> {after}", input.display());
        // Some files of the tests turn by wide arcs at every key: slerp needs more keys than they have to be there.
        let is_noise = ["clips.ycd", "forge", "anvil"].iter().any(|n| input.to_string_lossy().contains(n));
        assert!(clips > 0 && (is_noise || after < before), "{}: {before} -> {after}", input.display());
    }
}

/// The evaluator can fail: a reduction to a millimetre is not one to a tenth.
#[test]
fn a_looser_bound_is_seen_to_be_looser() {
    let input = &inputs()[0];
    let reduced = converted(input, &["--reduce", "5"]);
    let mm = sources(input).iter().map(|s| moved_mm(s, &reduced[&s.id]).0).fold(0.0, f64::max);
    assert!(mm > 0.5 && mm < 5.0, "{mm}");
}

/// Feet that stand still in the source (the sample walks on such) stand still in what is left of it.
#[test]
fn contacts_at_the_end_of_long_chains_do_not_slide() {
    let input = &inputs()[0];
    let reduced = converted(input, &["--reduce", "0.1"]);
    let mut contacts = 0;
    for source in sources(input) {
        let file = &reduced[&source.id];
        let places = places(&source, file);
        for (j, node) in source.nodes.iter().enumerate().filter(|(_, n)| n.name.contains("Foot")) {
            let mut stands: Vec<(evaluator::V, evaluator::V)> = Vec::new();
            for (source_s, file_s) in instants(&source, file) {
                let here = (source.pose(source_s)[j].0, file.pose(file_s)[places[j]].0);
                // Still: within a fiftieth of a millimetre of where it came to stand.
                if stands.first().is_some_and(|first| length(add(here.0, first.0, -1.0)) > 2e-5) {
                    stands.clear();
                }
                stands.push(here);
                if stands.len() > 5 * (BETWEEN + 1) {
                    contacts += 1;
                    let slid = 1000.0 * length(add(here.1, stands[0].1, -1.0));
                    assert!(slid < 0.2, "{} slides {slid} mm by {source_s} s", node.name);
                }
            }
        }
    }
    assert!(contacts > 100, "{contacts}");
}

/// The exit code, and what is said.
fn program(arguments: &[&str]) -> (Option<i32>, String) {
    let result = Command::new(env!("CARGO_BIN_EXE_anim2gltf")).args(arguments).output().unwrap();
    (result.status.code(), String::from_utf8_lossy(&[result.stdout, result.stderr].concat()).into_owned())
}

#[test]
fn odd_values_are_refused_with_a_reason() {
    let out = tempfile::tempdir().unwrap();
    let (input, out) = (&inputs()[0], out.path().to_str().unwrap());
    for (option, value, reason) in [
        ("--reduce", "0", "a number above 0"),
        ("--reduce", "-1", "a number above 0"),
        ("--reduce", "NaN", "a number above 0"),
        ("--reduce", "inf", "a number above 0"),
        ("--bake", "0", "frames a second above 0, or `source`"),
        ("--bake", "-30", "frames a second above 0, or `source`"),
        ("--bake", "nan", "frames a second above 0, or `source`"),
        ("--bake", "1e9", "at most 1048576 frames"),
        ("--additive", "compose=nobody", "found no clip \"nobody\""),
        ("--root-motion", "away", "keep, bake, drop, inplace"),
    ] {
        let (code, said) = program(&[input.to_str().unwrap(), "-o", out, "-q", option, value]);
        assert_eq!(code, Some(2), "{option} {value}: {said}");
        assert!(said.contains(reason), "{option} {value}: {said}");
    }
    let (code, said) = program(&[input.to_str().unwrap(), "-o", out, "--reduce"]);
    assert!(code == Some(2) && said.contains("a value is required"), "{said}");
}

/// Passes on top of each other keep the bound of the reduction: the sample's keys are on frames of 30 and 60.
#[test]
fn combinations_hold_the_bound() {
    let input = &inputs()[0];
    for (arguments, bound_mm) in [
        (&["--reduce", "0.5", "--quantize"][..], 0.5),
        (&["--reduce", "0.5", "--bake", "60"], 0.5),
        (&["--reduce", "0.5", "--bake", "source", "--quantize"], 0.5),
        (&["--reduce", "0.5", "--bake", "60", "--quantize", "--additive", "compose"], 0.5),
        // More than anything moves: one value a track, if any.
        (&["--reduce", "1e300"], 1e300),
        // Less than 16 bits, or even 32, can hold: told, and as near as it goes.
        (&["--reduce", "1e-9", "--quantize"], 0.005),
    ] {
        let files = converted(input, arguments);
        for source in sources(input) {
            let file = &files[&source.id];
            let (mm, place) = moved_mm(&source, file);
            assert!(mm < bound_mm, "{arguments:?}: {mm} mm, {place}");
            if bound_mm > 1e6 {
                let most = file.nodes.iter().flat_map(|n| n.curves.iter().flatten()).map(|c| c.times.len());
                assert!(most.max().unwrap() <= 2, "a value, and its end");
            } else {
                steps_are_short(file);
            }
        }
    }
}

/// `verify --max` is about what is seen: the bound of a reduction passes, a smaller one does not; FBX is read too.
#[test]
fn verify_knows_a_reduction() {
    let input = inputs()[0].to_str().unwrap().to_owned();
    for format in ["glb", "gltf", "fbx"] {
        let out = tempfile::tempdir().unwrap();
        let folder = out.path().to_str().unwrap();
        let (code, said) = program(&[&input, "-o", folder, "-q", "--to", format, "--reduce", "2"]);
        assert_eq!(code, Some(0), "{said}");
        assert_eq!(program(&["verify", &input, folder, "--max", "2"]).0, Some(0), "{format}");
        let (code, said) = program(&["verify", &input, folder, "--max", "0.2"]);
        assert!(code == Some(1) && said.contains("anywhere"), "{format}: {said}");
    }
}
