//! Every Anvil fixture through the program: the written GLB against the values of the independent writer.

use std::path::Path;

use anim2gltf_testkit::glb::{Glb, z_up};
use serde_json::Value;

const TOLERANCE: f64 = 2e-6;

fn convert(inputs: &[&Path], out: &Path) -> u8 {
    let status = std::process::Command::new(env!("CARGO_BIN_EXE_anim2gltf"))
        .args(inputs)
        .arg("-o")
        .arg(out)
        .output()
        .expect("the program runs");
    u8::try_from(status.status.code().expect("no signal")).expect("small")
}

fn outputs(out: &Path) -> Vec<Glb> {
    let mut paths: Vec<_> = walkdir::WalkDir::new(out)
        .into_iter()
        .filter_map(Result::ok)
        .map(|e| e.into_path())
        .filter(|p| p.extension().is_some_and(|e| e == "glb"))
        .collect();
    paths.sort();
    paths.iter().map(|p| Glb::open(&std::fs::read(p).expect("read"))).collect()
}

fn numbers(v: &Value) -> Vec<f64> {
    match v {
        Value::Array(a) => a.iter().map(|v| v.as_f64().expect("number")).collect(),
        v => vec![v.as_f64().expect("number")],
    }
}

#[test]
fn every_fixture_gives_the_expected_values() {
    let Some(shared) = anim2gltf_testkit::shared() else { return };
    let fixtures = shared.join("fixtures/anvil");
    let expected: Value =
        serde_json::from_slice(&std::fs::read(fixtures.join("expected.json")).expect("expected"))
            .expect("JSON");
    let files = expected["files"].as_object().expect("files");
    assert_eq!(files.len(), 14);
    for (name, file) in files {
        let out = tempfile::tempdir().expect("a folder");
        assert_eq!(convert(&[&fixtures.join(name)], out.path()), 0, "{name}");
        let written = outputs(out.path());
        let clips = file["clips"].as_array().expect("clips");
        assert_eq!(written.len(), clips.len(), "{name}: a file for each clip");
        for clip in clips {
            let id = clip["id"].as_str().expect("id");
            let glb = written
                .iter()
                .find(|g| g.document.animations().any(|a| Glb::extras(&a)["id"] == id))
                .unwrap_or_else(|| panic!("{name}: {id}"));
            let animation = glb.document.animations().next().expect("an animation");
            let extras = Glb::extras(&animation);
            assert_eq!(extras["name"], clip["name"], "{name}");
            assert_eq!(extras["game"], clip["game"], "{name}");
            assert_eq!(extras["additive"] == true, clip["additive"] == true, "{name} {id}");
            let channels = glb.channels(&animation);
            let length = clip["length"].as_f64().expect("length");
            let last_key = clip["tracks"]
                .as_array()
                .expect("tracks")
                .iter()
                .filter(|t| t["path"] != "opaque")
                .filter_map(|t| t["times"].as_array()?.last()?.as_f64())
                .fold(length, f64::max);
            let last = channels.values().filter_map(|k| k.times.last()).fold(0f32, |a, b| a.max(*b));
            assert!(
                (f64::from(last) - last_key).abs() < 1e-5,
                "{name} {id}: ends at {last}, expected {last_key}"
            );
            for (index, track) in clip["tracks"].as_array().expect("tracks").iter().enumerate() {
                let times = numbers(&track["times"]);
                let values = track["values"].as_array().expect("values");
                let crc = track["crc"].as_str().expect("crc");
                if track["path"] == "opaque" {
                    let kind = &track["kind"];
                    let kept = extras["tracks"].as_array().expect("kept");
                    let found = kept
                        .iter()
                        .filter(|t| t["bone"] == crc || (crc == "00000000" && t["bone"] == "root_motion"))
                        .find(|t| {
                            &t["track"] == kind
                                && (t["values"] == track["values"]
                                    || t["values"].as_array().is_some_and(|v| v.len() == 1))
                        });
                    assert!(found.is_some(), "{name} {id}: opaque track {index} of {crc}");
                    continue;
                }
                let joint = match track["bone"].as_str() {
                    Some("") => "root_motion".to_owned(),
                    Some(bone) => bone.to_owned(),
                    None => format!("bone_{crc}"),
                };
                let path = track["path"].as_str().expect("path");
                let (_, keys) = channels
                    .iter()
                    .find(|((node, p), _)| glb.nodes.get(&joint) == Some(node) && *p == path)
                    .unwrap_or_else(|| panic!("{name} {id}: {path} of {joint}"));
                for (t, value) in times.iter().zip(values) {
                    let k = if keys.times.len() == 1 {
                        0
                    } else {
                        keys.times.iter().position(|x| (f64::from(*x) - t).abs() < 2e-6).unwrap_or_else(
                            || panic!("{name} {id}: key at {t} of {joint} {path}: {:?}", keys.times),
                        )
                    };
                    let found: Vec<f64> = z_up(path, &keys.values[k]).into_iter().map(f64::from).collect();
                    let value = numbers(value);
                    let far = |sign: f64| {
                        value.iter().zip(&found).map(|(e, f)| (e - sign * f).abs()).fold(0.0, f64::max)
                    };
                    let error = if value.len() == 4 { far(1.0).min(far(-1.0)) } else { far(1.0) };
                    assert!(
                        error <= TOLERANCE,
                        "{name} {id}: {joint} {path} at {t}: {found:?}, expected {value:?}"
                    );
                }
            }
        }
    }
}

/// The rest pose of every file that has a skeleton is the fixtures' skeleton.
#[test]
fn joints_rest_where_the_skeleton_says() {
    let Some(shared) = anim2gltf_testkit::shared() else { return };
    let fixtures = shared.join("fixtures/anvil");
    let expected: Value =
        serde_json::from_slice(&std::fs::read(fixtures.join("expected.json")).expect("expected"))
            .expect("JSON");
    let bones = expected["skeleton"].as_array().expect("skeleton");
    for name in ["rr/DataPC_odd.forge", "rr/RID_Pack.data", "sws/DataPC_lzo2a_v25.forge"] {
        let out = tempfile::tempdir().expect("a folder");
        assert_eq!(convert(&[&fixtures.join(name)], out.path()), 0, "{name}");
        for glb in outputs(out.path()) {
            for bone in bones {
                let node = glb.nodes[bone["name"].as_str().expect("name")];
                let (t, r, _) = glb.document.nodes().nth(node).expect("node").transform().decomposed();
                let t: Vec<f64> = z_up("translation", &t).into_iter().map(f64::from).collect();
                let r: Vec<f64> = z_up("rotation", &r).into_iter().map(f64::from).collect();
                for (found, value) in [(t, numbers(&bone["translation"])), (r, numbers(&bone["rotation"]))] {
                    let error = found.iter().zip(&value).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                    assert!(error < 2e-6, "{name} {}: {found:?}, expected {value:?}", bone["name"]);
                }
            }
        }
    }
}

#[test]
fn every_damaged_file_is_one_clear_error() {
    let Some(shared) = anim2gltf_testkit::shared() else { return };
    let folder = shared.join("fixtures/anvil/bad");
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).expect("bad files") {
        let path = entry.expect("entry").path();
        let out = tempfile::tempdir().expect("a folder");
        let run = std::process::Command::new(env!("CARGO_BIN_EXE_anim2gltf"))
            .arg(&path)
            .arg("-o")
            .arg(out.path())
            .output()
            .expect("the program runs");
        let text = String::from_utf8(run.stderr).expect("text");
        assert!(matches!(run.status.code(), Some(1 | 2)), "{}: {:?} {text}", path.display(), run.status);
        let errors: Vec<&str> = text.lines().filter(|l| l.starts_with("error: ")).collect();
        assert_eq!(errors.len(), 1, "{}: {text}", path.display());
        assert!(
            errors[0].contains("found") && errors[0].contains("expected") || errors[0].contains("empty"),
            "{text}"
        );
        assert!(errors[0].contains("offset 0x"), "{text}");
        println!("{text}");
        count += 1;
    }
    assert_eq!(count, 10);
}
