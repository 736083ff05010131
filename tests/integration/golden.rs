//! The golden files: inputs that the project writes, and the reviewed output beside them, compared byte by byte.
//! `make golden` renews them.

use anim2gltf_testkit::anvil_clip;
use anim2gltf_testkit::anvil_container;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anim2gltf_testkit::anvil_clip::{BoneSpec, ClipSpec, Keys, TrackSpec};
use anim2gltf_testkit::anvil_container::{Container, Entry, Forge, Pack, crc32};
use anim2gltf_testkit::glb::Glb;
use anim2gltf_testkit::sample;
use anim2gltf_testkit::ycd_writer::{self as ycd, Format, Random};
use glam::{DQuat, DVec3};

fn golden() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/golden"))
}

/// A turn about a unit axis: sines by libm, so that every platform writes the same input.
fn turn(axis: DVec3, degrees: f64) -> DQuat {
    let half = degrees.to_radians() / 2.0;
    let (s, c) = (libm::sin(half), libm::cos(half));
    DQuat::from_xyzw(axis.x * s, axis.y * s, axis.z * s, c)
}

/// Every channel type and quaternion form, in one block and in three.
fn channels() -> Vec<u8> {
    let mut random = Random::new(1);
    let bones = [0, 11816, 57597, 23553, 24816, 24817, 24818, 39317, 31086];
    let mut tracks = Vec::new();
    for (i, kind) in (2..=6).enumerate() {
        let component = |r: &mut Random| ycd::random_component(r, kind, 40, 0.5);
        let three = (0..3).map(|_| component(&mut random)).collect::<Vec<_>>();
        tracks.push(ycd::Track::new(bones[i], 0, Format::Vector3, three));
    }
    for (i, q) in (0..4u8).enumerate() {
        let mut three: Vec<_> = (0..3).map(|_| ycd::random_component(&mut random, 3 + i, 40, 0.5)).collect();
        three.push(ycd::Channel::Cached1(q));
        tracks.push(ycd::Track::new(bones[i], 1, Format::Quaternion, three));
    }
    let mut four: Vec<_> = (0..3).map(|_| ycd::random_component(&mut random, 4, 40, 0.4)).collect();
    four.push(ycd::Channel::StaticFloat(0.75));
    four.push(ycd::Channel::Cached2);
    tracks.push(ycd::Track::new(bones[4], 1, Format::Quaternion, four));
    tracks.push(ycd::Track::new(
        bones[5],
        1,
        Format::Quaternion,
        vec![ycd::Channel::StaticQuaternion([0.1, -0.2, 0.3])],
    ));
    tracks.push(ycd::Track::constant(bones[5], 0, [0.1, 0.2, 0.3]));
    tracks.push(ycd::Track::floats(31086, 22, &(0..40).map(|i| i as f32 / 40.0).collect::<Vec<_>>()));
    let one = ycd::Animation::new("one_block", 40, tracks.clone());
    let mut three = ycd::Animation::new("three_blocks", 40, tracks);
    three.limit = 15;
    let clips = vec![
        ycd::Clip::whole("pack:/one_block.clip", &one),
        ycd::Clip::whole("pack:/three_blocks.clip", &three),
    ];
    ycd::Dictionary { clips, animations: vec![one, three], ..Default::default() }.to_bytes()
}

/// Windows, rates, lists of two rates, faces, unknown tags, tags and properties of every type, odd names.
fn clips() -> Vec<u8> {
    let mut random = Random::new(2);
    let mut body = |frames: usize, bones: &[u16]| -> Vec<ycd::Track> {
        bones.iter().map(|b| ycd::random_track(&mut random, *b, 1, Format::Quaternion, frames)).collect()
    };
    let fast = ycd::Animation::new("fast", 31, body(31, &[11816, 57597, 64000]));
    let mut slow = ycd::Animation::new("slow", 11, body(11, &[31086, 39317]));
    slow.duration_s = 1.0;
    let face = ycd::Animation::new(
        "face",
        16,
        vec![
            ycd::Track::floats(47419, 24, &(0..16).map(|i| (i * i) as f32 / 225.0).collect::<Vec<_>>()),
            ycd::Track::constant(47419, 25, [0.1, 0.0, 0.0]),
        ],
    );
    let mut movers = body(5, &[11816]);
    movers.push(ycd::Track::constant(0, 5, [0.0, 1.0, 0.0]));
    movers.push(ycd::Track::constant(11816, 5, [9.0, 9.0, 9.0]));
    let junk = ycd::Animation::new("junk", 5, movers);
    let part =
        |a: &ycd::Animation, start_s, end_s, rate| ycd::Part { animation: a.hash, start_s, end_s, rate };
    let one = |name: &str, part| ycd::Clip::new(name, ycd::Plays::One(part));
    let mut list = ycd::Clip::new(
        "pack:/two_rates.clip",
        ycd::Plays::List(vec![ycd::Part::whole(&fast), ycd::Part::whole(&slow)], 1.0),
    );
    list.tags = vec![ycd::Tag {
        property: ycd::Property::new(
            "moveevent",
            &[
                ("a", ycd::Value::Float(0.5)),
                ("b", ycd::Value::Int(-3)),
                ("c", ycd::Value::Bool(true)),
                ("d", ycd::Value::String("text".to_owned())),
                ("e", ycd::Value::Vector3([1.0, 2.0, 3.0])),
                ("f", ycd::Value::Vector4([1.0, 2.0, 3.0, 4.0])),
                ("id", ycd::Value::HashString(ycd::joaat("left"))),
                ("g", ycd::Value::Other(9, [7; 16])),
            ],
        ),
        start_phase: 0.2,
        end_phase: 0.4,
    }];
    list.properties = vec![ycd::Property::new(
        "initialoffsetposition",
        &[("initialoffsetposition", ycd::Value::Vector3([0.0, 1.0, 0.0]))],
    )];
    let clips = vec![
        one("pack:/window.clip", part(&fast, 0.25, 0.75, 1.0)),
        one("pack:/between_keys.clip", part(&fast, 0.21, 0.77, 1.0)),
        one("pack:/double.clip", part(&fast, 0.2, 0.8, 2.0)),
        one("pack:/past_end.clip", part(&fast, 0.0, 1.5, 1.0)),
        one("pack:/no_rate.clip", part(&fast, 0.0, 0.0, 0.0)),
        list,
        ycd::Clip::whole("pack:/face.clip", &face),
        ycd::Clip::whole("pack:/junk.clip", &junk),
        ycd::Clip::whole(&format!("pack:/{}.clip", "long_name_".repeat(8)), &slow),
    ];
    ycd::Dictionary { clips, animations: vec![fast, slow, face, junk], ..Default::default() }.to_bytes()
}

const RIG: [(&str, Option<usize>); 6] = [
    ("Reference", None),
    ("Hips", Some(0)),
    ("Spine", Some(1)),
    ("Head", Some(2)),
    ("LeftArm", Some(2)),
    ("RightArm", Some(2)),
];

fn bones() -> Vec<BoneSpec> {
    RIG.iter()
        .enumerate()
        .map(|(i, (name, parent))| BoneSpec {
            crc: crc32(name.as_bytes()),
            parent: *parent,
            position: [
                [0.0, 0.0, 0.0],
                [0.0, 0.0, 1.0],
                [0.0, 0.0, 0.3],
                [0.0, 0.0, 0.4],
                [-0.2, 0.0, 0.3],
                [0.2, 0.0, 0.3],
            ][i],
            rotation: [0.0, 0.0, 0.0, 1.0],
        })
        .collect()
}

fn swings(n: usize, axis: DVec3, degrees: f64) -> Keys {
    let last = (n - 1).max(1) as f64;
    Keys::Quat((0..n).map(|i| turn(axis, degrees * (i as f64 / last - 0.5)).to_array()).collect())
}

fn moves(n: usize) -> Keys {
    Keys::Vec3((0..n).map(|i| [0.01 * i as f64, 0.25 - 0.02 * i as f64, 1.0]).collect())
}

fn track(name: &str, kind: u8, form: u8, times: &[u32], keys: Keys) -> TrackSpec {
    let crc = if name.is_empty() { 0 } else { crc32(name.as_bytes()) };
    TrackSpec { crc, kind, form, times: times.to_vec(), keys }
}

/// Riders Republic: every kind and time form, events, flags.
fn rr_clips() -> Vec<(u64, &'static str, ClipSpec)> {
    let raw = |width: usize, n: usize| Keys::Raw(width, (1..=n as u64).map(|i| i * 7).collect());
    let t = [0, 6, 12, 30, 60];
    let base = ClipSpec { length_s: 1.0, ..Default::default() };
    let kinds = ClipSpec {
        tracks: vec![
            track("", 9, 0, &t, moves(5)),
            track("", 5, 0, &t, swings(5, DVec3::Z, 90.0)),
            track("Reference", 9, 1, &t, moves(5)),
            track("Hips", 3, 0, &t, swings(5, DVec3::X, 100.0)),
            track("Spine", 4, 1, &t, swings(5, DVec3::Y, 170.0)),
            track("Head", 5, 2, &[0, 3, 6, 15, 30], swings(5, DVec3::Z, 60.0)),
            track("LeftArm", 8, 0, &t, swings(5, DVec3::X, 80.0)),
            track("RightArm", 7, 0, &t, swings(5, DVec3::Z, 80.0)),
            track("Nobody", 4, 0, &t, swings(5, DVec3::X, 20.0)),
            track("signal16", 16, 0, &t, raw(1, 5)),
            track("signal17", 17, 1, &t, raw(2, 5)),
            track("signal18", 18, 0, &t, raw(1, 5)),
            track("signal21", 21, 2, &[0, 3, 6, 15, 30], raw(4, 5)),
            track("signal22", 22, 0, &t, raw(4, 5)),
            track("signal25", 25, 0, &t, raw(8, 5)),
        ],
        event_count: 1,
        events: (0..64).collect(),
        ..base.clone()
    };
    let pose = ClipSpec {
        length_s: 0.0,
        flags: [1, 0, 0, 1],
        tracks: vec![track("Hips", 4, 0, &[0], swings(1, DVec3::X, 40.0))],
        ..base
    };
    vec![(0x1_0000_00A1, "Kinds", kinds), (0x1_0000_00A2, "Pose_Additive", pose)]
}

fn rr(pack: Pack, algorithm: u8) -> Vec<u8> {
    let container = Container::of(27, algorithm, pack);
    let mut entries: Vec<Entry> = rr_clips()
        .into_iter()
        .map(|(id, name, clip)| {
            let object =
                anvil_container::object64("Animation", id, name, Some(1), &anvil_clip::rr_body(&clip));
            Entry {
                id,
                name: name.to_owned(),
                class: crc32(b"Animation"),
                payload: anvil_container::pair64(&container, &[(id, object)]),
            }
        })
        .collect();
    let bones = bones();
    let body = anvil_clip::skeleton64(&bones, bones.len() as u32, 0);
    let object = anvil_container::object64("Skeleton", 0x2_0000_0001, "Rig", None, &body);
    entries.push(Entry {
        id: 0x2_0000_0001,
        name: "Rig".to_owned(),
        class: crc32(b"Skeleton"),
        payload: anvil_container::pair64(&container, &[(0x2_0000_0001, object)]),
    });
    Forge::of(27).write(&entries)
}

/// Shaun White Skateboarding: a cell with every kind.
fn sws(pack: Pack, algorithm: u8, version: u32) -> Vec<u8> {
    let t = [0, 6, 12, 30, 60];
    let raw = |width: usize, n: usize| Keys::Raw(width, (1..=n as u64).map(|i| i * 7).collect());
    let clip = ClipSpec {
        id: 0xA1,
        length_s: 1.0,
        layout: 7,
        second_layout: 7,
        rows: vec![[0; 12]],
        tracks: vec![
            track("", 7, 0, &t, moves(5)),
            track("Hips", 8, 0, &t, moves(5)),
            track("Hips", 4, 0, &t, swings(5, DVec3::X, 100.0)),
            track("Spine", 9, 1, &t, moves(5)),
            track("Spine", 5, 1, &t, swings(5, DVec3::Y, 170.0)),
            track("Head", 6, 2, &t, swings(5, DVec3::Z, 60.0)),
            track("LeftArm", 4, 3, &t, swings(5, DVec3::X, 80.0)),
            track("signal10", 10, 0, &t, raw(4, 5)),
            track("signal11", 11, 0, &t, raw(1, 5)),
            track("signal17", 17, 0, &t, raw(1, 5)),
        ],
        ..Default::default()
    };
    let body = anvil_clip::sws_body(&clip);
    let name = "Skate_Kinds";
    let mut animation = crc32(b"Animation").to_le_bytes().to_vec();
    animation.extend(((body.len() - 7 - 12) as u32).to_le_bytes());
    animation.extend((name.len() as u32).to_le_bytes());
    animation.extend(name.as_bytes());
    animation.push(1);
    animation.extend(&body);
    let bones = bones();
    let body = anvil_clip::skeleton32(&bones);
    let mut skeleton = crc32(b"Skeleton").to_le_bytes().to_vec();
    skeleton.extend((body.len() as u32).to_le_bytes());
    skeleton.extend(3u32.to_le_bytes());
    skeleton.extend(b"Rig\0");
    skeleton.extend(&body);
    let cell = anvil_container::object32("GridCellDataBlock", 0x50, "", None, &[0; 20]);
    let objects = vec![(0x50, cell), (0xA1, animation), (0x177, skeleton)];
    let entry = Entry {
        id: 0x50,
        name: "Cell_DataBlock".to_owned(),
        class: crc32(b"GridCellDataBlock"),
        payload: anvil_container::pair32(&Container::of(version, algorithm, pack), &objects),
    };
    Forge::of(version).write(&[entry])
}

fn inputs() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("sample.ycd", sample::sample().to_bytes()),
        ("channels.ycd", channels()),
        ("clips.ycd", clips()),
        ("rr_zstd.forge", rr(Pack::Zstd, 3)),
        ("rr_lz4.forge", rr(Pack::Lz4, 4)),
        ("rr_lzo1x.forge", rr(Pack::Lzo1x, 1)),
        ("rr_stored.forge", rr(Pack::Stored, 1)),
        ("sws_lzo2a.forge", sws(Pack::Lzo2a, 2, 25)),
        ("sws_lzo1x.forge", sws(Pack::Lzo1x, 1, 26)),
    ]
}

/// All output of the golden inputs, each converted alone: relative path to bytes.
fn outputs(threads: &str) -> BTreeMap<String, Vec<u8>> {
    let out = tempfile::tempdir().expect("a folder");
    let mut all = BTreeMap::new();
    for (name, _) in inputs() {
        let folder = out.path().join(name);
        let run = Command::new(env!("CARGO_BIN_EXE_anim2gltf"))
            .arg(golden().join(name))
            .arg("-o")
            .arg(&folder)
            .args(["--to", "gltf", "-q", "-j", threads])
            .output()
            .expect("the program runs");
        assert!(run.status.success(), "{name}: {}", String::from_utf8_lossy(&run.stderr));
        for entry in walkdir::WalkDir::new(&folder).sort_by_file_name() {
            let entry = entry.expect("an entry");
            if !entry.file_type().is_file() {
                continue;
            }
            let relative =
                entry.path().strip_prefix(&folder).expect("below").to_string_lossy().replace('\\', "/");
            if relative.starts_with("manifest") || relative.starts_with("report") {
                continue;
            }
            let bytes = std::fs::read(entry.path()).expect("written");
            if relative.ends_with(".gltf") {
                let bin = std::fs::read(entry.path().with_extension("bin")).expect("its numbers");
                all.insert(
                    format!("{}.txt", relative.trim_end_matches(".gltf")),
                    text(&bytes, bin).into_bytes(),
                );
            }
            all.insert(relative, bytes);
        }
    }
    all
}

/// The numbers of a file as a reviewer reads them: a line a key.
fn text(gltf: &[u8], bin: Vec<u8>) -> String {
    let mut glb = Glb::open(gltf);
    glb.bin = bin;
    let names: BTreeMap<usize, &str> = glb.nodes.iter().map(|(name, node)| (*node, name.as_str())).collect();
    let mut out = String::new();
    for animation in glb.document.animations() {
        let _ = writeln!(out, "animation {}", animation.name().expect("named"));
        let mut channels: Vec<_> = glb.channels(&animation).into_iter().collect();
        channels.sort_by_key(|((node, path), _)| (*node, *path));
        for ((node, path), keys) in channels {
            let step = if keys.step { " step" } else { "" };
            let _ = writeln!(out, "  {} {path}{step}", names[&node]);
            for (t, value) in keys.times.iter().zip(&keys.values) {
                let value: Vec<String> = value.iter().map(|v| format!("{v:9.6}")).collect();
                let _ = writeln!(out, "    {t:9.6}  {}", value.join(" "));
            }
        }
    }
    out
}

fn hashes(files: &BTreeMap<String, Vec<u8>>) -> String {
    files.iter().fold(String::new(), |mut out, (name, bytes)| {
        let _ = writeln!(out, "{:032x}  {name}", xxhash_rust::xxh3::xxh3_128(bytes));
        out
    })
}

#[test]
fn every_golden_file_is_written_again_to_the_byte() {
    let files = outputs("1");
    for (name, bytes) in &files {
        let reviewed = std::fs::read(golden().join(name)).unwrap_or_else(|e| panic!("golden/{name}: {e}"));
        assert!(
            *bytes == reviewed,
            "golden/{name} differs: look at it, and if it was meant, run `make golden`"
        );
    }
    let listed = std::fs::read_to_string(golden().join("HASHES")).expect("golden/HASHES");
    assert_eq!(hashes(&files), listed);
    assert_eq!(files, outputs("2"), "two threads write what one does");
    let on_disk = walkdir::WalkDir::new(golden())
        .into_iter()
        .filter_map(Result::ok)
        .filter(|e| e.path().extension().is_some_and(|x| x == "gltf" || x == "bin" || x == "txt"))
        .count();
    assert_eq!(on_disk, files.len(), "golden/ holds files that nothing writes any more");
}

/// The inputs in golden/ are what the writers of the tests make today (compressors may change; then renew).
#[test]
fn the_uncompressed_inputs_are_what_the_writers_make() {
    for (name, bytes) in
        inputs().into_iter().filter(|(name, _)| name.contains("stored") || name.contains("lzo2a"))
    {
        assert!(std::fs::read(golden().join(name)).expect("golden input") == bytes, "golden/{name}");
    }
}

#[test]
#[ignore = "renews golden/: run `make golden`"]
fn renew() {
    for entry in std::fs::read_dir(golden()).expect("golden").filter_map(Result::ok) {
        let path = entry.path();
        let keep = path.extension().is_some_and(|x| x == "md");
        if path.is_dir() {
            std::fs::remove_dir_all(&path).expect("removed");
        } else if !keep {
            std::fs::remove_file(&path).expect("removed");
        }
    }
    for (name, bytes) in inputs() {
        std::fs::write(golden().join(name), bytes).expect("written");
    }
    let files = outputs("1");
    for (name, bytes) in &files {
        let path: &Path = &golden().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, bytes).expect("written");
    }
    std::fs::write(golden().join("HASHES"), hashes(&files)).expect("written");
}
