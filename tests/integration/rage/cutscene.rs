//! `--join-cutscene`, `--facial`, `--no-thigh-roll`: what the files and the report say.

use std::path::Path;
use std::process::Command;

use anim2gltf_testkit::glb::Glb;
use anim2gltf_testkit::ycd_writer::{Animation, Channel, Clip, Dictionary, Format, Part, Plays, Tag, Track};
use serde_json::Value;

const HEAD: u16 = 31086;

fn convert(input: &Path, out: &Path, options: &[&str]) -> (Value, String) {
    let run = Command::new(env!("CARGO_BIN_EXE_anim2gltf"))
        .arg(input)
        .arg("-o")
        .arg(out)
        .args(["-q", "--force"])
        .args(options)
        .output()
        .expect("the program runs");
    assert!(run.status.code().is_some_and(|c| c < 2), "{}", String::from_utf8_lossy(&run.stderr));
    let manifest = std::fs::read(out.join("manifest.json")).expect("a manifest");
    let report = std::fs::read_to_string(out.join("report.txt")).expect("a report");
    (serde_json::from_slice(&manifest).expect("JSON"), report)
}

/// A section: each actor's clip moves the head along x from `from` to `to`, in `frames` frames.
fn section(number: u32, frames: usize, from: f32, to: f32, actors: &[&str]) -> Vec<u8> {
    let last = (frames - 1) as f32;
    let mut animations = Vec::new();
    let mut clips = Vec::new();
    for actor in actors {
        let values: Vec<[f32; 3]> =
            (0..frames).map(|i| [from + (to - from) * i as f32 / last, 0.0, 0.0]).collect();
        let animation = Animation::new(
            &format!("{actor}{number}"),
            frames,
            vec![Track::vectors(HEAD, 0, &values), Track::constant(HEAD, 2, [1.0; 3])],
        );
        let mut clip = Clip::whole(&format!("pack:/{actor}-{number}.clip"), &animation);
        clip.tags.push(Tag {
            property: anim2gltf_testkit::ycd_writer::Property::new("foot", &[]),
            start_phase: 0.5,
            end_phase: 0.5,
        });
        animations.push(animation);
        clips.push(clip);
    }
    Dictionary { clips, animations, ..Dictionary::default() }.to_bytes()
}

/// The head's x at `t`, linear between keys.
fn x_at(glb: &Glb, animation: &str, t: f32) -> f32 {
    let animation = glb.document.animations().find(|a| a.name() == Some(animation)).expect("the animation");
    let keys = &glb.channels(&animation)[&(glb.nodes["SKEL_Head"], "translation")];
    let after = keys.times.iter().position(|k| *k >= t).unwrap_or(keys.times.len() - 1);
    let before = after.saturating_sub(1);
    let (a, b) = (keys.times[before], keys.times[after]);
    let f = if t >= b {
        1.0
    } else if b > a && t > a {
        (t - a) / (b - a)
    } else {
        0.0
    };
    keys.values[before][0] * (1.0 - f) + keys.values[after][0] * f
}

#[test]
fn sections_follow_each_other_actor_by_actor() {
    let folder = tempfile::tempdir().expect("a folder");
    let (input, out) = (folder.path().join("in"), folder.path().join("out"));
    std::fs::create_dir_all(input.join("cuts")).expect("made");
    let write = |name: &str, bytes: &[u8]| std::fs::write(input.join(name), bytes).expect("written");
    // 1 s, 2 s, 0.5 s; section 1 is not there; 10 comes after 2 in numbers, before it in names.
    write("cuts/scene-0.ycd", &section(0, 31, 0.0, 1.0, &["lamar", "franklin_dual"]));
    write("cuts/scene-2.ycd", &section(2, 61, 1.0, 3.0, &["lamar", "franklin"]));
    write("cuts/scene-10.ycd", &section(10, 16, 10.0, 10.5, &["lamar"]));
    write("cuts/other.ycd", &section(7, 16, 0.0, 1.0, &["someone"]));
    // Another folder is another cutscene.
    write("scene-3.ycd", &section(3, 31, 0.0, 1.0, &["lamar"]));
    let (manifest, report) = convert(&input, &out, &["--join-cutscene", "--no-thigh-roll"]);
    let outputs: Vec<&str> =
        manifest["files"].as_array().expect("files").iter().filter_map(|f| f["output"].as_str()).collect();
    assert_eq!(outputs, ["cuts/other.glb", "cuts/scene.glb", "scene.glb"]);

    let glb = Glb::open(&std::fs::read(out.join("cuts/scene.glb")).expect("the file"));
    let names: Vec<&str> = glb.document.animations().filter_map(|a| a.name()).collect();
    assert_eq!(names, ["franklin", "lamar"], "one animation an actor, `_dual` or not");
    for (t, x) in [
        (0.0, 0.0),
        (0.5, 0.5),
        (1.0, 1.0),
        (1.5, 1.5),
        (2.9, 2.9),
        (2.99, 2.99),
        (3.0, 10.0),
        (3.25, 10.25),
        (3.5, 10.5),
    ] {
        let is = x_at(&glb, "lamar", t);
        assert!((is - x).abs() < 2e-3, "at {t}: {is}, expected {x}");
    }
    // The jump to section 10 takes no longer than a millisecond.
    assert!((x_at(&glb, "lamar", 2.9985) - 2.9985).abs() < 2e-3);
    // Franklin is not in the last section: his pose holds.
    assert!((x_at(&glb, "franklin", 3.4) - 3.0).abs() < 1e-6);
    let lamar = glb.document.animations().find(|a| a.name() == Some("lamar")).expect("Lamar");
    let extras = Glb::extras(&lamar);
    assert_eq!(extras["length"], 3.5);
    let events: Vec<f64> =
        extras["events"].as_array().expect("events").iter().filter_map(|e| e["start"].as_f64()).collect();
    assert_eq!(events, [0.5, 2.0, 3.25]);
    let sections = extras["sections"].as_array().expect("sections");
    assert_eq!(sections.len(), 3);
    assert_eq!((&sections[2]["section"], &sections[2]["start"]), (&10.into(), &3.0.into()));
    assert_eq!(sections[1]["source"], "cuts/scene-2.ycd");
    assert_eq!(extras["source"], "cuts/scene-{0,2,10}.ycd");
    // A value that is the same in all sections stays one key.
    let scale = &glb.channels(&lamar)[&(glb.nodes["SKEL_Head"], "scale")];
    assert_eq!(scale.values.len(), 1);

    assert!(report.contains("joined sections 0, 2, 10"), "{report}");
    assert!(report.contains("end: 1, 3, 4, 5, 6, 7, 8, 9"), "{report}");
    assert!(report.contains("no clip in sections"), "{report}");

    // Without the option each is a file, and the clips keep their numbers.
    let (manifest, _) = convert(&input, &out, &[]);
    assert_eq!(manifest["files"].as_array().expect("files").len(), 5);
    // The same on one thread and in shards.
    let again = folder.path().join("again");
    convert(&input, &again, &["--join-cutscene", "--no-thigh-roll", "-j", "1"]);
    let bytes = std::fs::read(again.join("cuts/scene.glb")).expect("the file");
    convert(&input, &out, &["--join-cutscene", "--no-thigh-roll"]);
    assert!(bytes == std::fs::read(out.join("cuts/scene.glb")).expect("the file"));
}

#[test]
fn a_damaged_section_is_named_and_the_rest_joined() {
    let folder = tempfile::tempdir().expect("a folder");
    let (input, out) = (folder.path().join("in"), folder.path().join("out"));
    std::fs::create_dir_all(&input).expect("made");
    let whole = section(1, 31, 0.0, 1.0, &["a"]);
    std::fs::write(input.join("s-0.ycd"), section(0, 31, 0.0, 1.0, &["a", "a_dual"])).expect("written");
    std::fs::write(input.join("s-1.ycd"), &whole[..whole.len() / 2]).expect("written");
    std::fs::write(input.join("s-2.ycd"), section(2, 31, 0.0, 1.0, &["a"])).expect("written");
    let (manifest, report) = convert(&input, &out, &["--join-cutscene"]);
    let errors = manifest["errors"].as_array().expect("errors");
    assert_eq!(errors.len(), 1);
    assert!(errors[0]["file"].as_str().expect("a file").ends_with("s-1.ycd"), "{}", errors[0]);
    assert!(report.contains("that are missing") && report.contains("end: 1"), "{report}");
    // Both forms of a name in one section are two actors.
    let names: Vec<&str> =
        manifest["clips"].as_array().expect("clips").iter().filter_map(|c| c["animation"].as_str()).collect();
    assert_eq!(names, ["a", "a_dual"]);
    assert_eq!(manifest["clips"][0]["duration"], 2.0);
}

/// A person with a thigh that turns and a jaw with a facial rotation.
fn person() -> Vec<u8> {
    let turn = |degrees: f32| {
        let (s, c) = (degrees.to_radians() / 2.0).sin_cos();
        [s, 0.0, 0.0, c]
    };
    let thigh: Vec<[f32; 4]> = (0..11).map(|i| turn(3.0 * i as f32)).collect();
    let animation = Animation::new(
        "walk",
        11,
        vec![
            Track::rotations(58271, 1, &thigh),
            Track::constant(11816, 0, [0.0, 0.0, 1.0]),
            Track::rotations(HEAD, 26, &thigh),
            Track::new(HEAD, 24, Format::Float, vec![Channel::StaticFloat(1.0)]),
        ],
    );
    Dictionary {
        clips: vec![Clip::new("pack:/walk.clip", Plays::One(Part::whole(&animation)))],
        animations: vec![animation],
        ..Dictionary::default()
    }
    .to_bytes()
}

#[test]
fn rolls_follow_by_default_and_faces_on_request() {
    let folder = tempfile::tempdir().expect("a folder");
    let input = folder.path().join("walk.ycd");
    std::fs::write(&input, person()).expect("written");
    let out = folder.path().join("out");
    let open = || {
        let glb = Glb::open(&std::fs::read(out.join("walk.glb")).expect("the file"));
        let animation = glb.document.animations().next().expect("one");
        let channels = glb.channels(&animation);
        let find = |node: &str, path| channels.get(&(glb.nodes[node], path)).cloned();
        let [roll, thigh, jaw] = ["RB_L_ThighRoll", "SKEL_L_Thigh", "SKEL_Head"].map(|n| find(n, "rotation"));
        (roll, thigh, jaw, Glb::extras(&animation))
    };
    let (manifest, report) = convert(&input, &out, &[]);
    let (roll, thigh, jaw, extras) = open();
    let (roll, thigh) = (roll.expect("it follows"), thigh.expect("it turns"));
    assert_eq!((&roll.times, &roll.values), (&thigh.times, &thigh.values));
    assert_eq!(roll.values.len(), 11);
    assert!(jaw.is_none());
    assert_eq!(extras["thighRolls"], serde_json::json!(["RB_L_ThighRoll"]));
    assert_eq!(manifest["clips"][0]["thighRolls"], serde_json::json!(["RB_L_ThighRoll"]));
    assert!(report.contains("in 1 clips thigh-roll bones"), "{report}");
    assert!(manifest["clips"][0].get("warnings").is_none());

    // `verify` knows from the file that they follow.
    let verify = Command::new(env!("CARGO_BIN_EXE_anim2gltf"))
        .arg("verify")
        .args([&input, &out])
        .args(["--max", "0.01"])
        .output()
        .expect("the program runs");
    assert!(verify.status.success(), "{}", String::from_utf8_lossy(&verify.stdout));

    let (manifest, report) = convert(&input, &out, &["--no-thigh-roll", "--facial"]);
    let (roll, _, jaw, extras) = open();
    assert!(roll.is_none() && extras.get("thighRolls").is_none() && !report.contains("thigh-roll"));
    assert_eq!(jaw.expect("it turns").values.len(), 11);
    let warning = manifest["clips"][0]["warnings"][0].as_str().expect("a warning");
    assert!(warning.contains("guesses"), "{warning}");
    // The tracks themselves are still there.
    assert_eq!(extras["tracks"].as_array().expect("tracks").len(), 2);
}
