//! Damaged input: dictionaries cut at many lengths and with bits flipped, packed and unpacked, all the way to the
//! bytes of a GLB. Never a panic; an error says where. Then the program on bad input, as a user or a pipe sees it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anim2gltf::convert::prepare::prepare;
use anim2gltf::convert::settings::Passes;
use anim2gltf::formats::gltf::Glb;
use anim2gltf::formats::{Format as _, Scene, Workspace, WriteOptions};
use anim2gltf::games::GAMES;
use anim2gltf::games::rage::container::rsc7;
use anim2gltf::games::rage::ycd;
use anim2gltf::source::Names;
use anim2gltf::{Error, ErrorKind};
use anim2gltf_testkit::ycd_writer::*;
use serde_json::Value;

/// All the way from bytes to bytes; what failed on it.
fn whole_way(bytes: &[u8]) -> Vec<Error> {
    let mut scratch = Vec::new();
    let resource = match rsc7::open(bytes, &mut scratch) {
        Ok(resource) => resource,
        Err(e) => return vec![e],
    };
    let mut read = match ycd::read(&resource, "hostile.ycd") {
        Ok(read) => read,
        Err(e) => return vec![e],
    };
    let written = ycd::default_skeleton(&read.clips).and_then(|skeleton| {
        let names = Names::new(GAMES);
        let rig = prepare(&mut read.clips, &skeleton, &names, &Passes::default(), None)?;
        let scene = Scene::new(&rig, &read.clips);
        Glb.write(&scene, "hostile", &WriteOptions::default(), &mut Workspace::default())
    });
    let mut errors = read.errors;
    errors.extend(written.err());
    errors
}

/// As [`whole_way`], naming the case where it panics, and holding the errors to their form.
fn survives(bytes: &[u8], case: &dyn Fn() -> String) -> usize {
    let errors = std::panic::catch_unwind(|| whole_way(bytes)).unwrap_or_else(|_| panic!("{}", case()));
    for e in &errors {
        assert!(!matches!(e.kind(), ErrorKind::Io | ErrorKind::Usage), "{}: {e}", case());
        // A clip whose animation was refused points at the animation's own error.
        let elsewhere = e.message().contains("cannot be used");
        assert!(e.offset().is_some() || elsewhere, "{}: no place: {e}", case());
        assert!(!e.to_string().contains('\n'), "{}: {e}", case());
        if let Some(entry) = e.entry() {
            assert!(["animation ", "clip "].iter().any(|w| entry.starts_with(w)), "{}: {e}", case());
        }
    }
    errors.len()
}

/// The file as an unpacked segment, so that damage hits the structures and not the deflate stream.
fn unpacked(bytes: &[u8]) -> Vec<u8> {
    let mut scratch = Vec::new();
    let resource = rsc7::open(bytes, &mut scratch).expect("sound");
    resource.system.to_vec()
}

/// Cuts at every length near the start and at `cuts` others, flips of 1 to 3 bits in `flips` copies; how many of
/// all these were refused, in whole or in part.
fn damage(name: &str, bytes: &[u8], cuts: usize, flips: usize, seed: u64) -> (usize, usize) {
    let (mut cases, mut refused) = (0, 0);
    let mut random = Random::new(seed);
    let mut lengths: Vec<usize> = (0..bytes.len().min(80)).collect();
    lengths.extend((0..cuts).map(|_| random.below(bytes.len())));
    for length in lengths {
        cases += 1;
        refused += survives(&bytes[..length], &|| format!("{name} cut at {length}")).min(1);
    }
    let used = bytes.iter().rposition(|b| *b != 0).unwrap_or(0) + 1;
    for _ in 0..flips {
        let mut copy = bytes.to_vec();
        let places: Vec<(usize, usize)> =
            (0..1 + random.below(3)).map(|_| (random.below(used), random.below(8))).collect();
        for (byte, bit) in &places {
            copy[*byte] ^= 1 << bit;
        }
        cases += 1;
        refused += survives(&copy, &|| format!("{name} flipped at {places:?}")).min(1);
    }
    (cases, refused)
}

/// Every channel type, lists, tags of every type, movers, a camera, texture coordinates, several blocks.
fn own() -> Dictionary {
    let mut random = Random::new(11);
    let mut tracks = Vec::new();
    for bone in [11816, 24816, 31086, 64000] {
        for (number, format) in
            [(0, Format::Vector3), (1, Format::Quaternion), (2, Format::Vector3), (24, Format::Float)]
        {
            tracks.push(random_track(&mut random, bone, number, format, 40));
        }
    }
    tracks.push(random_track(&mut random, 0, 5, Format::Vector3, 40));
    tracks.push(random_track(&mut random, 0, 6, Format::Quaternion, 40));
    tracks.push(random_track(&mut random, 0, 7, Format::Vector3, 40));
    tracks.push(random_track(&mut random, 0, 8, Format::Quaternion, 40));
    tracks.push(Track::floats(0, 27, &(0..40).map(|i| 50.0 + i as f32).collect::<Vec<f32>>()));
    let rows = |v: bool| -> Vec<[f32; 3]> {
        let turn = |i: i32| (i as f32 * 0.1).sin_cos();
        (0..40)
            .map(|i| (turn(i), i as f32))
            .map(|((s, c), i)| if v { [-s, c, i] } else { [c, s, 0.0] })
            .collect()
    };
    tracks.push(Track::vectors(0, 17, &rows(false)));
    tracks.push(Track::vectors(0, 18, &rows(true)));
    let mut body = Animation::new("body", 40, tracks);
    body.limit = 15;
    body.chunk = 8;
    let face = Animation::new("face", 14, vec![random_track(&mut random, 65068, 24, Format::Float, 14)]);
    let mut list = Clip::new(
        "pack:/list.clip",
        Plays::List(vec![Part::whole(&body), Part { rate: 1.01, ..Part::whole(&face) }], body.duration_s),
    );
    let attributes = [
        ("a", anim2gltf_testkit::ycd_writer::Value::Float(1.5)),
        ("b", anim2gltf_testkit::ycd_writer::Value::String("text".to_owned())),
        ("c", anim2gltf_testkit::ycd_writer::Value::Vector4([1.0; 4])),
        ("d", anim2gltf_testkit::ycd_writer::Value::Other(9, [3; 16])),
    ];
    list.tags =
        vec![Tag { property: Property::new("foot", &attributes), start_phase: 0.25, end_phase: 0.5 }; 3];
    list.properties = vec![Property::new("block", &attributes), Property::new("event", &attributes)];
    let clips = vec![
        list,
        Clip::whole("pack:/body.clip", &body),
        Clip::new(
            "pack:/window.clip",
            Plays::One(Part { animation: body.hash, start_s: 0.21, end_s: 0.83, rate: 1.5 }),
        ),
        Clip::whole("pack:/face.clip", &face),
    ];
    Dictionary {
        clips,
        animations: vec![body, face],
        options: Options { buckets: Some(2), ..Options::default() },
    }
}

#[test]
fn own_dictionaries_cut_and_flipped() {
    let packed = own().to_bytes();
    assert_eq!(whole_way(&packed).len(), 0, "sound before it is damaged");
    let open = unpacked(&packed);
    assert_eq!(whole_way(&open).len(), 0, "the unpacked form as well");
    let (cases, refused) = damage("own, packed", &packed, 150, 600, 1);
    // One flipped bit of a deflate stream may still unpack; a cut one never does.
    assert!(refused > cases / 4, "{refused} of {cases} refused");
    let (cases, refused) = damage("own, unpacked", &open, 300, 2500, 2);
    // Most bits are keys, which any value fits; the rest is seen.
    assert!(refused > cases / 20, "{refused} of {cases} refused");
}

/// Each byte of the records, one after the other, set to what hurts most.
#[test]
fn every_byte_of_the_records_at_its_extremes() {
    let mut dictionary = own();
    // Small, so that every byte can be tried.
    for animation in &mut dictionary.animations {
        animation.tracks.truncate(3);
    }
    let open = unpacked(&dictionary.to_bytes());
    let used = open.iter().rposition(|b| *b != 0).unwrap_or(0) + 1;
    let mut scratch = Vec::new();
    for at in 0..used {
        // All of them through the reader, one all the way.
        for (i, value) in [0x00, 0xFF, 0x7F, 0x80].into_iter().enumerate() {
            let mut copy = open.clone();
            copy[at] = value;
            let case = || format!("byte 0x{at:X} set to 0x{value:X}");
            if i == at % 16 {
                survives(&copy, &case);
            } else if let Ok(resource) = rsc7::open(&copy, &mut scratch) {
                let read = std::panic::catch_unwind(|| ycd::read(&resource, "hostile.ycd").is_ok());
                assert!(read.is_ok(), "{}", case());
            }
        }
    }
}

#[test]
fn fixtures_and_real_files_cut_and_flipped() {
    let Some(shared) = anim2gltf_testkit::shared() else { return };
    let names = [
        "fixtures/ycd/synthetic_1.ycd",
        "fixtures/ycd/synthetic_2.ycd",
        "corpus/ycd/ultra@walkie_talkie.ycd",
        "corpus/ycd/qpacc@gangsign6.ycd",
        "corpus/ycd/bzzz@animation@army2_left.ycd",
    ];
    for (i, name) in names.into_iter().enumerate() {
        let bytes = std::fs::read(shared.join(name)).expect("a fixture");
        let open = unpacked(&bytes);
        damage(name, &bytes, 60, 120, 10 + i as u64);
        damage(name, &open, 60, 250, 20 + i as u64);
    }
    // Drawables and archives that are given as dictionaries.
    for name in ["ped.ydr", "ped.ydd", "ped.yft", "clips_open.rpf", "clips_ng.rpf"] {
        let bytes = std::fs::read(shared.join("fixtures/ycd").join(name)).expect("a fixture");
        assert_eq!(survives(&bytes, &|| name.to_owned()), 1);
    }
}

/// A count that the blocks cannot fill is refused, instead of being filled with a held frame.
#[test]
fn frames_beyond_what_is_stored_are_refused() {
    let values = [[0.0; 3], [1.0; 3], [2.0; 3]];
    let animation = Animation::new("a", 3, vec![Track::vectors(0, 0, &values)]);
    let mut open = Dictionary {
        clips: vec![Clip::whole("a.clip", &animation)],
        animations: vec![animation],
        ..Default::default()
    }
    .segment();
    // The animation's record is the first thing behind the root and its page map.
    let at = 80 + 0x14;
    assert_eq!(open[at..at + 2], [3, 0]);
    open[at..at + 2].copy_from_slice(&[0xFF, 0xFF]);
    let errors = whole_way(&open);
    assert_eq!(errors[0].kind(), ErrorKind::Limit);
    assert!(errors[0].to_string().contains("65535 frames"), "{}", errors[0]);
}

// The program.

struct Run {
    code: i32,
    stdout: String,
    stderr: String,
}

fn run(arguments: &[&Path]) -> Run {
    let Output { status, stdout, stderr } =
        Command::new(env!("CARGO_BIN_EXE_anim2gltf")).args(arguments).output().expect("the program runs");
    Run {
        code: status.code().expect("no signal"),
        stdout: String::from_utf8(stdout).expect("text"),
        stderr: String::from_utf8(stderr).expect("text"),
    }
}

/// A folder with a good dictionary and four bad ones.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let good = own().to_bytes();
    let put = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).expect("written");
    put("a_good.ycd", &good);
    put("b_cut.ycd", &good[..good.len() / 2]);
    put("c_escrow.ycd", b"FXAP\x01\0\0\0 what nobody can read");
    put("d_text.ycd", b"This is no dictionary at all.");
    put("e_empty.ycd", b"");
    put("z_good.ycd", &good);
    folder
}

fn all_files(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = walkdir::WalkDir::new(folder)
        .into_iter()
        .map(|e| e.expect("an entry"))
        .filter(|e| e.file_type().is_file())
        .map(|e| e.path().strip_prefix(folder).expect("below").to_string_lossy().replace('\\', "/"))
        .collect();
    names.sort();
    names
}

const OUT: &str = "-o";

#[test]
fn bad_files_are_reported_and_the_others_converted() {
    let folder = folder();
    let out = folder.path().join("out");
    let run = run(&[folder.path(), OUT.as_ref(), &out]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert_eq!(run.stdout, "", "errors and summary go to standard error, in a pipe too");
    for (name, says) in [
        ("b_cut.ycd", "deflate stream"),
        ("c_escrow.ycd", "escrow"),
        ("d_text.ycd", "RSC7"),
        ("e_empty.ycd", "0 bytes"),
    ] {
        let lines: Vec<&str> = run.stderr.lines().filter(|l| l.contains(name)).collect();
        assert_eq!(lines.len(), 1, "{name} once: {}", run.stderr);
        let line = lines[0];
        let path = folder.path().join(name).display().to_string();
        assert!(line.starts_with("error: ") && line.contains(&path), "{line}");
        assert!(line.contains("at offset 0x") && line.contains(says), "{line}");
    }
    assert!(run.stderr.lines().last().expect("a summary").contains("4 errors"), "{}", run.stderr);
    assert!(!run.stderr.contains('\x1b') && !run.stderr.contains('\r'), "no colours or bars in a pipe");
    assert_eq!(all_files(&out), ["a_good.glb", "manifest.json", "report.txt", "z_good.glb"]);
    let manifest: Value =
        serde_json::from_slice(&std::fs::read(out.join("manifest.json")).expect("written")).expect("JSON");
    let errors = manifest["errors"].as_array().expect("errors");
    assert_eq!(errors.len(), 4);
    assert!(errors.iter().all(|e| e["offset"].is_u64() && e["file"].is_string() && e["message"].is_string()));
}

#[test]
fn nothing_done_is_2() {
    let folder = folder();
    let out = folder.path().join("out");
    let at = |name: &str| folder.path().join(name);
    let empty = tempfile::tempdir().expect("a folder");
    let cases: Vec<Vec<PathBuf>> = vec![
        vec![],
        vec![at("a_good.ycd")],
        vec![at("a_good.ycd"), OUT.into(), out.clone(), "--no-such-option".into()],
        vec![at("a_good.ycd"), OUT.into(), out.clone(), "--to".into(), "usd".into()],
        vec![at("b_cut.ycd"), at("d_text.ycd"), OUT.into(), out.clone()],
        vec![at("missing.ycd"), OUT.into(), out.clone()],
        vec![empty.path().to_owned(), OUT.into(), out.clone()],
    ];
    for case in cases {
        let arguments: Vec<&Path> = case.iter().map(PathBuf::as_path).collect();
        let run = run(&arguments);
        assert_eq!(run.code, 2, "{case:?}: {}", run.stderr);
        assert!(!run.stderr.is_empty() && run.stdout.is_empty(), "{case:?}: {}", run.stdout);
        assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    }
    // A missing input beside a good one: the good one is done.
    let run = run(&[&at("missing.ycd"), &at("a_good.ycd"), OUT.as_ref(), &out]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(run.stderr.contains("missing.ycd") && out.join("a_good.glb").exists(), "{}", run.stderr);
}

#[test]
fn help_and_version_are_no_failures() {
    for option in ["--help", "-h", "--version"] {
        let run = run(&[option.as_ref()]);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{option}");
        assert!(run.stdout.starts_with("anim2gltf") || run.stdout.contains("Usage:"), "{}", run.stdout);
    }
}

#[test]
fn an_output_folder_that_cannot_be() {
    let folder = folder();
    let good = folder.path().join("a_good.ycd");
    // The output folder is a file, or lies in one.
    let file = folder.path().join("occupied");
    std::fs::write(&file, b"mine").expect("written");
    for out in [file.clone(), file.join("below")] {
        let run = run(&[&good, OUT.as_ref(), &out]);
        assert_eq!(run.code, 2, "{}", run.stderr);
        assert!(run.stderr.contains("occupied"), "{}", run.stderr);
    }
    assert_eq!(std::fs::read(&file).expect("still there"), b"mine");
    // The output file's name is taken by a folder: the other one is written, nothing half lies about.
    let out = folder.path().join("out");
    std::fs::create_dir_all(out.join("a_good.glb")).expect("made");
    let run = run(&[&good, &folder.path().join("z_good.ycd"), OUT.as_ref(), &out]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(run.stderr.contains("a_good.glb"), "{}", run.stderr);
    assert_eq!(all_files(&out), ["manifest.json", "report.txt", "z_good.glb"]);
}

/// A folder without write permission. For root there is none such: then this proves nothing and says so.
#[cfg(unix)]
#[test]
fn an_output_folder_without_permission() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder();
    let out = folder.path().join("closed");
    std::fs::create_dir(&out).expect("made");
    std::fs::set_permissions(&out, std::fs::Permissions::from_mode(0o555)).expect("set");
    if std::fs::write(out.join("probe"), b"").is_ok() {
        eprintln!("skipped: this user may write everywhere");
        return;
    }
    let run = run(&[&folder.path().join("a_good.ycd"), OUT.as_ref(), &out]);
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert!(run.stderr.contains("closed") && run.stderr.contains("ermission"), "{}", run.stderr);
    assert_eq!(all_files(&out), [""; 0]);
}
