//! Every real and synthetic dictionary against the values beside it, as a reader of the written GLB sees them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anim2gltf_testkit::glb::{Glb, z_up};
use flate2::read::GzDecoder;
use serde_json::Value;

/// What the issue allows at a source key.
const TOLERANCE: f64 = 2e-6;

fn convert(input: &Path, out: &Path) -> u8 {
    let code =
        anim2gltf::cli::run(["anim2gltf".into(), input.into(), "-o".into(), out.into(), "-q".into()]
            as [std::ffi::OsString; 5]);
    u8::from(code != std::process::ExitCode::SUCCESS)
}

fn bones(shared: &Path) -> BTreeMap<u64, String> {
    let text = std::fs::read_to_string(shared.join("names/rage_ped_bones.tsv")).expect("table");
    text.lines()
        .skip(1)
        .map(|line| {
            let mut fields = line.split('\t');
            let tag = fields.next().expect("tag").parse().expect("number");
            (tag, fields.next().expect("name").to_owned())
        })
        .collect()
}

/// The window that a part plays, by the rules of the notes: (start, end, rate).
fn window(part: &Value, duration: f64) -> (f64, f64, f64) {
    let get = |k: &str| part[k].as_f64().unwrap_or(f64::NAN);
    let (start, end, rate) = (get("start"), get("end").min(duration), get("rate"));
    if end <= start || rate <= 0.0 || get("end") <= get("start") {
        (0.0, duration, 1.0)
    } else {
        (start, end, rate)
    }
}

/// Holds all clips of `json` against `glb`; returns how many keys were compared.
fn compare(glb: &Glb, json: &Value, bones: &BTreeMap<u64, String>, name: &str) -> usize {
    let mut compared = 0;
    let clips = json["clips"].as_array().expect("clips");
    assert_eq!(glb.document.animations().count(), clips.len(), "{name}: an animation for each clip");
    for clip in clips {
        let id = format!("{:08X}", clip["hash"].as_u64().expect("hash"));
        let animation = glb
            .document
            .animations()
            .find(|a| Glb::extras(a)["id"] == id.as_str())
            .unwrap_or_else(|| panic!("{name}: clip {id} is there"));
        let extras = Glb::extras(&animation);
        assert_eq!(extras["name"], clip["name"], "{name}");
        let channels = glb.channels(&animation);
        let mut longest = 0f64;
        for part in clip["anims"].as_array().expect("parts") {
            let animation = json["animations"]
                .as_array()
                .expect("animations")
                .iter()
                .find(|a| a["hash"] == part["animation"])
                .expect("its animation");
            let frames = animation["frames"].as_u64().expect("frames") as usize;
            let duration = animation["duration"].as_f64().expect("duration");
            let (start, end, rate) = window(part, duration);
            let length = (end - start) / rate;
            longest = longest.max(length);
            for track in animation["tracks"].as_array().expect("tracks") {
                let (tag, number) =
                    (track["bone"].as_u64().expect("bone"), track["track"].as_u64().expect("track"));
                let key = match (number, tag) {
                    (0..=2, _) => {
                        let joint = bones.get(&tag).cloned().unwrap_or(format!("tag_{tag}"));
                        let path = ["translation", "rotation", "scale"][number as usize];
                        Some((glb.nodes[&joint], path))
                    }
                    (5, 0) => Some((glb.nodes["root_motion"], "translation")),
                    (6, 0) => Some((glb.nodes["root_motion"], "rotation")),
                    _ => None,
                };
                let values = track["values"].as_array().expect("values");
                let kept = key.is_none().then(|| {
                    extras["tracks"]
                        .as_array()
                        .and_then(|t| t.iter().find(|t| t["bone"] == tag && t["track"] == number))
                });
                if let Some(None) = kept {
                    assert!(number == 5 || number == 6, "{name}: track {number} of {tag} is in the extras");
                    continue;
                }
                for (i, expected) in values.iter().enumerate() {
                    let t = if frames > 1 { i as f64 * duration / (frames - 1) as f64 } else { 0.0 };
                    if t < start - 1e-4 || t > end + 1e-4 || (duration == 0.0 && i > 0) {
                        continue;
                    }
                    let at = if (t - start).abs() < 1e-4 {
                        0.0
                    } else if (t - end).abs() < 1e-4 {
                        length
                    } else {
                        (t - start) / rate
                    };
                    let expected: Vec<f64> = match expected {
                        Value::Array(a) => a.iter().map(|v| v.as_f64().expect("number")).collect(),
                        v => vec![v.as_f64().expect("number")],
                    };
                    let found: Vec<f64> = match (&key, &kept) {
                        (Some(key), _) => {
                            let keys = channels
                                .get(key)
                                .unwrap_or_else(|| panic!("{name}: {key:?} of {tag}:{number}"));
                            let k = at_time(&keys.times, at, name);
                            z_up(key.1, &keys.values[k]).into_iter().map(f64::from).collect()
                        }
                        (None, Some(Some(track))) => {
                            let times: Vec<f32> = track["times"]
                                .as_array()
                                .expect("times")
                                .iter()
                                .map(|t| t.as_f64().expect("time") as f32)
                                .collect();
                            match &track["values"][at_time(&times, at, name)] {
                                Value::Array(a) => a.iter().map(|v| v.as_f64().expect("number")).collect(),
                                v => vec![v.as_f64().expect("number")],
                            }
                        }
                        _ => unreachable!(),
                    };
                    let far = |sign: f64| {
                        expected.iter().zip(&found).map(|(e, f)| (e - sign * f).abs()).fold(0.0, f64::max)
                    };
                    let error = if expected.len() == 4 { far(1.0).min(far(-1.0)) } else { far(1.0) };
                    assert!(
                        error <= TOLERANCE,
                        "{name} {id}: track {number} of {tag}, frame {i}: {found:?}, expected {expected:?}"
                    );
                    compared += 1;
                }
            }
        }
        let last = channels.values().filter_map(|k| k.times.last()).fold(0f32, |a, b| a.max(*b));
        assert!(
            (f64::from(last) - longest).abs() < 2e-6 || last == longest as f32,
            "{name} {id}: ends at {last}, expected {longest}"
        );
    }
    compared
}

/// The key at `at` seconds; a channel of one key holds it always.
fn at_time(times: &[f32], at: f64, name: &str) -> usize {
    let nearest = (0..times.len())
        .min_by(|a, b| (f64::from(times[*a]) - at).abs().total_cmp(&(f64::from(times[*b]) - at).abs()))
        .expect("a key");
    let constant = times.len() <= 2;
    assert!(
        constant || (f64::from(times[nearest]) - at).abs() < 2e-6 || times[nearest] == at as f32,
        "{name}: a key at {at}, found {}",
        times[nearest]
    );
    nearest
}

fn gz(path: &Path) -> Value {
    serde_json::from_reader(GzDecoder::new(std::fs::File::open(path).expect("values"))).expect("JSON")
}

#[test]
fn every_key_equals_the_values_beside_it() {
    let Some(shared) = anim2gltf_testkit::shared() else { return };
    let bones = bones(&shared);
    let out = tempfile::tempdir().expect("a folder");
    let mut cases: Vec<(PathBuf, Value)> = Vec::new();
    for entry in std::fs::read_dir(shared.join("corpus")).expect("corpus") {
        let path = entry.expect("entry").path();
        let name = path.file_name().expect("name").to_string_lossy().into_owned();
        if let Some(stem) = name.strip_suffix(".json.gz") {
            cases.push((shared.join("corpus/ycd").join(stem), gz(&path)));
        }
    }
    for name in ["synthetic_1", "synthetic_2"] {
        let folder = shared.join("fixtures/ycd");
        let text = std::fs::read(folder.join(format!("{name}.json"))).expect("values");
        cases.push((folder.join(format!("{name}.ycd")), serde_json::from_slice(&text).expect("JSON")));
    }
    assert!(cases.len() >= 10, "ten real files have values");
    for (input, json) in cases {
        assert_eq!(convert(&input, out.path()), 0, "{}", input.display());
        let stem = input.file_stem().expect("stem").to_string_lossy().into_owned();
        let bytes = std::fs::read(out.path().join(format!("{stem}.glb"))).expect("written");
        let compared = compare(&Glb::open(&bytes), &json, &bones, &stem);
        assert!(compared > 100, "{stem}: {compared} keys compared");
    }
}

#[test]
fn every_real_file_converts_with_its_clips() {
    let Some(shared) = anim2gltf_testkit::shared() else { return };
    let out = tempfile::tempdir().expect("a folder");
    assert_eq!(convert(&shared.join("corpus/ycd"), out.path()), 0);
    let index: Value =
        serde_json::from_slice(&std::fs::read(shared.join("corpus/index.json")).expect("index"))
            .expect("JSON");
    let index = index.as_array().expect("files");
    assert_eq!(index.len(), 87);
    for file in index {
        let name = file["file"].as_str().expect("name");
        let stem = name.strip_suffix(".ycd").expect("a dictionary");
        let glb = Glb::open(&std::fs::read(out.path().join(format!("{stem}.glb"))).expect("written"));
        let mut ids: Vec<String> = glb
            .document
            .animations()
            .map(|a| Glb::extras(&a)["id"].as_str().expect("id").to_owned())
            .collect();
        let mut expected: Vec<String> = file["clips"]
            .as_array()
            .expect("clips")
            .iter()
            .map(|c| c["hash"].as_str().expect("hash").to_owned())
            .collect();
        ids.sort();
        expected.sort();
        assert_eq!(ids, expected, "{name}");
    }
}
