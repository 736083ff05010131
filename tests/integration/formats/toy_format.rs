//! A format that is not the crate's own, through the public trait alone: a line of text for each animated joint.

use std::fmt::Write as _;
use std::path::Path;

use anim2gltf::convert::settings::Settings;
use anim2gltf::engine::run;
use anim2gltf::formats::{BetweenKeys, Files, Format, Scene, Workspace, WriteOptions};

/// Names, and how many keys each channel has.
#[derive(Debug)]
struct Dump;

/// How many files a thread has written.
#[derive(Default)]
struct Written(usize);

impl Format for Dump {
    fn name(&self) -> &'static str {
        "dump"
    }

    fn about(&self) -> &'static str {
        "Names and numbers of keys as text"
    }

    fn extension(&self) -> &'static str {
        "dump.txt"
    }

    fn companions(&self) -> &'static [&'static str] {
        &["joints.txt"]
    }

    fn between_keys(&self) -> BetweenKeys {
        BetweenKeys::NormalizedLinear
    }

    fn max_name_bytes(&self) -> usize {
        16
    }

    fn write(
        &self,
        scene: &Scene<'_>,
        stem: &str,
        _: &WriteOptions,
        workspace: &mut Workspace,
    ) -> anim2gltf::Result<Files> {
        workspace.parts::<Written>().1.0 += 1;
        let joints: Vec<&str> = scene.rig.joints().iter().filter_map(|j| j.name.as_deref()).collect();
        let mut text = format!("joints in {stem}.joints.txt\n");
        for animation in &scene.animations {
            for channel in &animation.channels {
                let keys = channel.track.map_or(1, |i| animation.clip.tracks[i].curve.values.len());
                writeln!(text, "{} {} {:?} {keys}", animation.name, joints[channel.joint], channel.path)
                    .expect("text");
            }
        }
        Ok(vec![("joints.txt", joints.join("\n").into_bytes()), ("dump.txt", text.into_bytes())])
    }
}

#[test]
fn a_format_from_outside_is_converted_to() {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/sample.ycd");
    let out = tempfile::tempdir().unwrap();
    let settings = Settings::new(vec![sample], out.path().to_owned(), &Dump);
    let outcome = run::run(&settings, &mut run::Silent).unwrap();
    assert_eq!((outcome.files, outcome.errors), (1, 0));

    let text = std::fs::read_to_string(out.path().join("sample.dump.txt")).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("joints in sample.joints.txt"));
    assert!(lines.clone().count() > 10);
    // The limit on names holds for animations and joints.
    for name in lines.flat_map(|line| line.split(' ').take(2)) {
        assert!(name.len() <= 16, "{name}");
    }
    let joints = std::fs::read_to_string(out.path().join("sample.joints.txt")).unwrap();
    assert!(joints.lines().all(|name| name.len() <= 16));

    let manifest = std::fs::read_to_string(out.path().join("manifest.json")).unwrap();
    assert!(manifest.contains("sample.dump.txt"));
    // A second run finds both files and leaves them.
    assert_eq!(run::run(&settings, &mut run::Silent).unwrap().finished, outcome.clips);
}

#[test]
fn a_format_keeps_its_own_state_in_the_workspace() {
    let rig = anim2gltf::model::Skeleton::new("empty", Vec::new()).unwrap();
    let scene = Scene::new(&rig, &[]);
    let mut workspace = Workspace::default();
    for _ in 0..3 {
        let files = Dump.write(&scene, "x", &WriteOptions::default(), &mut workspace).unwrap();
        workspace.recycle(files);
    }
    assert_eq!(workspace.parts::<Written>().1.0, 3);
}
