//! `verify`: the number it prints is right, and an output that was altered does not pass.

use anim2gltf_testkit::shown;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anim2gltf::compare::verify::{Report, compare};
use anim2gltf::formats::WriteOptions;
use anim2gltf::formats::fbx::Fbx;
use anim2gltf::formats::gltf::{Glb, Gltf};
use anim2gltf::model::{Clip, Interpolation, Skeleton};
use anim2gltf_testkit::shown::{Doc, body, clips, options, prepared, write};
use glam::{DQuat, DVec3};
use serde_json::{Value, json};

fn report(rig: &Skeleton, clip: &Clip, path: &Path) -> Report {
    let shown = anim2gltf::games::own::open::open(path).unwrap();
    let id = clip.id.to_string();
    let animation = shown.animations.iter().find(|a| a.id() == Some(&id)).unwrap();
    compare(rig, clip, &shown, animation, "file").unwrap()
}

fn value(worst: &Option<anim2gltf::compare::verify::Worst>) -> f64 {
    worst.as_ref().map_or(0.0, |w| w.value)
}

#[test]
fn every_format_holds_what_it_promises() {
    let folder = tempfile::tempdir().unwrap();
    let plain = clips();
    let (rig, written) = prepared(clips());
    let quantized = shown::Output {
        write: WriteOptions { quantize_rotations: true, ..WriteOptions::default() },
        ..options(&Glb)
    };
    for (options, at_keys_mm, between_deg) in [
        (options(&Glb), 0.001, 0.05),
        (options(&Gltf), 0.001, 0.05),
        // Angles in f32 degrees; and both passes add keys.
        (options(&Fbx), 0.005, 0.1),
        // 16 bits: 0.0035 degrees a joint, some joints on top of each other.
        (quantized, 0.2, 0.06),
    ] {
        let path = write(folder.path(), "clips", &rig, &written, &options);
        for clip in &plain {
            let (mut clip, mut path) = (clip.clone(), path.clone());
            if options.format.name() == "fbx" {
                // FBX has no steps that every reader keeps: they are ramps of a millisecond, and found to be.
                let report = report(&rig, &clip, &path);
                assert!(clip.tracks.len() < 5 || value(&report.between_deg) > 1.0);
                clip.tracks.retain(|t| t.curve.interpolation != Interpolation::Step);
                let mut smooth = written.iter().find(|w| w.id == clip.id).unwrap().clone();
                smooth.tracks.retain(|t| t.curve.interpolation != Interpolation::Step);
                path = write(folder.path(), "smooth", &rig, &[smooth], &options);
            }
            let report = report(&rig, &clip, &path);
            assert!(value(&report.at_keys_mm) < at_keys_mm, "{report:?}");
            assert!(value(&report.between_deg) < between_deg, "{report:?}");
            assert!(report.keys > 1 && report.instants >= 4 * report.keys - 3);
        }
    }
}

/// A rig without turns or scale, so that distances can be told by hand.
#[test]
fn the_number_is_that_of_the_farthest_point() {
    let folder = tempfile::tempdir().unwrap();
    let (rig, written) = prepared(clips());
    let path = write(folder.path(), "clips", &rig, &written, &options(&Gltf));
    let plain = clips();
    let mut doc = Doc::open(&path);
    // The root goes 3 mm aside at one key: all joints with it, by 3 mm wherever the point is.
    let (a, c) =
        *doc.channels().iter().find(|(a, c)| doc.label(*a, *c) == "root_motion translation").unwrap();
    doc.edit(a, c, "output", |v| v[3 * 5] += 0.003);
    let edited = doc.save(folder.path(), "edited");
    let found = report(&rig, &plain[0], &edited);
    assert!((value(&found.at_keys_mm) - 3.0).abs() < 1e-3, "{found:?}");
    assert!((found.at_keys_mm.unwrap().time_s - 0.5).abs() < 1e-6);
    // Halfway to the key before it is half of it, and three quarters at the quarter point.
    assert!((value(&found.between_mm) - 3.0).abs() < 0.8, "{:?}", found.between_mm);
    assert_eq!(report(&rig, &plain[1], &edited).at_keys_mm, report(&rig, &plain[1], &path).at_keys_mm);
}

#[test]
fn every_altered_channel_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let (rig, written) = prepared(clips());
    let path = write(folder.path(), "clips", &rig, &written, &options(&Gltf));
    let plain = clips();
    let doc = Doc::open(&path);
    let turn = DQuat::from_axis_angle(DVec3::new(0.48, 0.6, 0.64), 0.1f64.to_radians());
    for (a, c) in doc.channels() {
        let label = doc.label(a, c);
        let joint = label.split(' ').next().unwrap();
        let mut edited = doc.clone();
        edited.edit(a, c, "output", |v| {
            if label.ends_with("rotation") {
                let key = v.len() / 8 * 4;
                let q =
                    DQuat::from_xyzw(v[key].into(), v[key + 1].into(), v[key + 2].into(), v[key + 3].into());
                v[key..key + 4].copy_from_slice(&(q * turn).as_quat().to_array());
            } else {
                let key = v.len() / 6 * 3;
                v[key] += 0.002;
            }
        });
        let edited = edited.save(folder.path(), "edited");
        let found = report(&rig, &plain[a], &edited);
        let worst = value(&found.at_keys_mm).max(value(&found.between_mm));
        assert!(worst > 0.17, "{label}: {found:?}");
        if label.ends_with("rotation") {
            let deg = [&found.at_keys_deg, &found.between_deg];
            let largest = deg.into_iter().flatten().max_by(|a, b| a.value.total_cmp(&b.value)).unwrap();
            assert!(largest.value > 0.095 && largest.joint == joint, "{label}: {found:?}");
        }
        // And what stands between two keys of the source, where a pass has put none.
        let mut edited = doc.clone();
        edited.edit(a, c, "input", |v| v.iter_mut().for_each(|t| *t *= 0.75));
        let edited = edited.save(folder.path(), "edited");
        let moving = |r: &Report| value(&r.at_keys_mm).max(value(&r.between_mm));
        let constant = {
            let mut keys = 0;
            doc.clone().edit(a, c, "input", |v| keys = v.len());
            keys <= 2
        };
        assert!(constant || moving(&report(&rig, &plain[a], &edited)) > 0.1, "{label}");
    }
}

#[test]
fn another_rest_pose_or_hierarchy_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let (rig, written) = prepared(clips());
    let path = write(folder.path(), "clips", &rig, &written, &options(&Gltf));
    let plain = clips();
    let doc = Doc::open(&path);
    let node =
        |name: &str| doc.json["nodes"].as_array().unwrap().iter().position(|n| n["name"] == name).unwrap();
    let mut edited = doc.clone();
    edited.json["nodes"][node("Arm")]["translation"][0] = json!(0.36);
    let found = report(&rig, &plain[0], &edited.save(folder.path(), "edited"));
    assert!((value(&found.at_keys_mm) - 10.0).abs() < 0.01, "{found:?}");
    let mut edited = doc.clone();
    let (leg, foot) = (node("Leg"), node("Foot"));
    edited.json["nodes"][leg].as_object_mut().unwrap().remove("children");
    edited.json["nodes"][node("Pelvis")]["children"].as_array_mut().unwrap().push(json!(foot));
    let found = report(&rig, &plain[0], &edited.save(folder.path(), "edited"));
    assert!(value(&found.at_keys_mm) > 10.0);
    // A joint that is not there cannot be compared.
    let mut edited = doc.clone();
    edited.json["nodes"][foot]["name"] = json!("Hoof");
    let shown = anim2gltf::games::own::open::open(&edited.save(folder.path(), "edited")).unwrap();
    let e = compare(&rig, &plain[0], &shown, &shown.animations[0], "file").unwrap_err();
    assert!(e.to_string().contains("Foot"), "{e}");
    assert_eq!(body().joints().len() + 1, rig.joints().len());
}

#[test]
fn a_mover_that_was_baked_into_the_root_is_no_difference() {
    let folder = tempfile::tempdir().unwrap();
    let (rig, mut written) = prepared(clips());
    for clip in &mut written {
        anim2gltf::passes::root_motion(clip, &rig, anim2gltf::passes::RootMotion::Bake);
    }
    let bare = anim2gltf::convert::rig::build(&body(), &written, &shown::NoNames).unwrap();
    assert_eq!(bare.joints().len() + 1, rig.joints().len());
    let path = write(folder.path(), "clips", &bare, &written, &options(&Glb));
    let found = report(&rig, &clips()[0], &path);
    assert!(value(&found.at_keys_mm) < 0.01, "{found:?}");
}

// The command.

fn program(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_anim2gltf")).args(arguments).output().unwrap()
}

fn converted(source: &Path, more: &[&str]) -> tempfile::TempDir {
    let out = tempfile::tempdir().unwrap();
    let mut arguments = vec![source.to_str().unwrap(), "-o", out.path().to_str().unwrap(), "-q"];
    arguments.extend(more);
    let result = program(&arguments);
    assert!(result.status.success(), "{}", String::from_utf8_lossy(&result.stderr));
    out
}

fn verify(source: &Path, output: &Path, more: &[&str]) -> (Option<i32>, Value) {
    let mut arguments = vec!["verify", source.to_str().unwrap(), output.to_str().unwrap(), "--json"];
    arguments.extend(more);
    let result = program(&arguments);
    let json = serde_json::from_slice(&result.stdout).unwrap_or_default();
    (result.status.code(), json)
}

fn worst(json: &Value, which: &str) -> f64 {
    json["worst"][which]["worst"]["value"].as_f64().unwrap_or(0.0)
}

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden").join(name)
}

#[test]
fn own_files_of_every_game_pass_and_altered_ones_do_not() {
    for name in ["clips.ycd", "channels.ycd", "sample.ycd", "rr_zstd.forge", "sws_lzo1x.forge"] {
        let source = golden(name);
        for format in ["glb", "gltf", "fbx"] {
            let out = converted(&source, &["--to", format]);
            let (code, json) = verify(&source, out.path(), &["--max-keys", "0.01", "--max-deg", "0.1"]);
            assert_eq!(code, Some(0), "{name} {format}: {json}");
            assert!(!json["clips"].as_array().unwrap().is_empty());
            if format == "gltf" {
                altered(&source, out.path());
            }
        }
    }
}

fn altered(source: &Path, out: &Path) {
    let (path, mut doc, place) = anim2gltf::games::own::open::files_below(out)
        .unwrap()
        .into_iter()
        .find_map(|(_, path)| {
            let doc = Doc::open(&path);
            let place = doc.channels().into_iter().find(|(a, c)| doc.label(*a, *c).ends_with("rotation"))?;
            Some((path, doc, place))
        })
        .unwrap();
    doc.edit(place.0, place.1, "output", |v| {
        let q = DQuat::from_xyzw(v[0].into(), v[1].into(), v[2].into(), v[3].into());
        let turned = q * DQuat::from_rotation_x(0.2f64.to_radians());
        v[..4].copy_from_slice(&turned.as_quat().to_array());
    });
    let (folder, stem) = (path.parent().unwrap(), path.file_stem().unwrap().to_str().unwrap());
    let text = serde_json::to_string(&{
        let mut json = doc.json.clone();
        json["buffers"][0]["byteLength"] = json!(doc.bin.len());
        json
    });
    doc.save_text(folder, stem, &text.unwrap());
    let (code, json) = verify(source, out, &["--max", "0.1"]);
    assert_eq!(code, Some(1), "{}", path.display());
    assert!(worst(&json, "atKeysMm") > 0.3);
    // Without a bound it is only said.
    assert_eq!(verify(source, out, &[]).0, Some(0));
    // A file that is gone, or damaged, cannot be compared.
    std::fs::write(&path, "{").unwrap();
    assert_eq!(verify(source, out, &[]).0, Some(2));
    std::fs::remove_file(&path).unwrap();
    let (code, json) = verify(source, out, &[]);
    assert_eq!(code, Some(2));
    assert!(!json["notCompared"].as_array().unwrap().is_empty());
}

#[test]
fn a_single_file_is_verified_too() {
    let source = golden("sample.ycd");
    let out = converted(&source, &[]);
    let file = out.path().join("sample.glb");
    let renamed = out.path().join("renamed.glb");
    std::fs::copy(file, &renamed).unwrap();
    let (code, json) = verify(&source, &renamed, &["--max-keys", "0.01"]);
    assert_eq!(code, Some(0), "{json}");
    // Against another source nothing is found.
    assert_eq!(verify(&golden("channels.ycd"), &renamed, &[]).0, Some(2));
    assert_eq!(verify(&source, &out.path().join("nothing"), &[]).0, Some(2));
}

#[test]
fn the_corpus_and_the_fixtures_are_within_the_bounds() {
    let Some(shared) = anim2gltf_testkit::shared() else { return };
    for folder in ["corpus/ycd", "fixtures/anvil/rr", "fixtures/anvil/sws"] {
        let source = shared.join(folder);
        let out = tempfile::tempdir().unwrap();
        let arguments = [source.to_str().unwrap(), "-o", out.path().to_str().unwrap(), "-q"];
        // Damaged fixtures are reported by the conversion, and are none of this.
        program(&arguments);
        let (_, json) = verify(&source, out.path(), &[]);
        assert!(json["clips"].as_array().unwrap().len() > 5, "{folder}");
        assert!(worst(&json, "atKeysMm") < 0.01, "{folder}: {}", json["worst"]);
        assert!(worst(&json, "atKeysDeg") < 0.001, "{folder}: {}", json["worst"]);
        // 0.05, and what the rounding of key times to f32 seconds adds in long clips.
        assert!(worst(&json, "betweenDeg") < 0.05, "{folder}: {}", json["worst"]);
    }
}
