//! Nothing that is printed may end the work: readers that have gone away, and a full device, under every command.

use std::collections::BTreeMap;
use std::fs;
#[cfg(target_os = "linux")]
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

use anim2gltf_testkit::ycd_writer as ycd;
use tempfile::TempDir;

/// Three dictionaries of two clips, and one file that is none: there is something to say on both streams.
fn inputs() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for i in 0..3 {
        let moves: Vec<[f32; 3]> = (0..8).map(|k| [k as f32, 0.5 * i as f32, 1.0]).collect();
        let walk = ycd::Animation::new("walk", 8, vec![ycd::Track::constant(0, 0, [1.0, 2.0, i as f32])]);
        let idle = ycd::Animation::new("idle", 8, vec![ycd::Track::vectors(0, 0, &moves)]);
        let bytes = ycd::Dictionary {
            clips: vec![
                ycd::Clip::whole("pack:/walk.clip", &walk),
                ycd::Clip::whole("pack:/idle.clip", &idle),
            ],
            animations: vec![walk, idle],
            ..Default::default()
        }
        .to_bytes();
        fs::write(folder.path().join(format!("d{i}.ycd")), bytes).unwrap();
    }
    fs::write(folder.path().join("bad.ycd"), b"RSC7 and no more").unwrap();
    folder
}

/// Where standard output and standard error lead.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Streams {
    Read,
    Closed,
    #[cfg(target_os = "linux")]
    Full,
}

impl Streams {
    fn one(self) -> Stdio {
        match self {
            Streams::Read => Stdio::null(),
            Streams::Closed => {
                let (reader, writer) = std::io::pipe().unwrap();
                drop(reader);
                writer.into()
            }
            #[cfg(target_os = "linux")]
            Streams::Full => File::options().write(true).open("/dev/full").unwrap().into(),
        }
    }
}

fn broken() -> Vec<Streams> {
    vec![
        Streams::Closed,
        #[cfg(target_os = "linux")]
        Streams::Full,
    ]
}

fn exit_code(arguments: &[&str], streams: Streams) -> Option<i32> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anim2gltf"));
    command.args(arguments).stdin(Stdio::null()).stdout(streams.one()).stderr(streams.one());
    command.status().unwrap().code()
}

/// The files of `folder`, with the bytes of those that hold no time of the clock.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let bytes = if name.ends_with(".json") { Vec::new() } else { fs::read(&path).unwrap() };
            (name, bytes)
        })
        .filter(|(name, _)| !name.starts_with('.'))
        .collect()
}

#[test]
fn a_conversion_writes_everything_though_nobody_reads_what_it_says() {
    let input = inputs();
    let source = input.path().to_str().unwrap();
    for options in [&[][..], &["--json"], &["-q"]] {
        let out = tempfile::tempdir().unwrap();
        let at = |name: &str| out.path().join(name).to_str().unwrap().to_owned();
        let run = |name: &str, streams| exit_code(&[&[source, "-o", &at(name)], options].concat(), streams);
        assert_eq!(run("read", Streams::Read), Some(1), "one input is bad");
        let wanted = files(&out.path().join("read"));
        for name in ["d0.glb", "d1.glb", "d2.glb", "manifest.json", "report.txt"] {
            assert!(wanted.contains_key(name), "{name}");
        }
        for streams in broken() {
            let name = format!("{streams:?}");
            assert_eq!(run(&name, streams), Some(1), "{options:?} {streams:?}");
            assert!(files(&out.path().join(&name)) == wanted, "{options:?} {streams:?}");
            assert_eq!(run(&name, streams), Some(1), "again: {options:?} {streams:?}");
        }
    }
}

#[test]
fn every_command_ends_with_the_same_exit_code() {
    let input = inputs();
    let source = input.path().to_str().unwrap();
    let out = tempfile::tempdir().unwrap();
    let (out, none) = (out.path().join("out"), out.path().join("none"));
    let (out, none) = (out.to_str().unwrap(), none.to_str().unwrap());
    assert_eq!(exit_code(&[source, "-o", out], Streams::Read), Some(1));
    let good = format!("{out}/d0.glb");
    let other = format!("{out}/d1.glb");
    let cases: &[(&[&str], i32)] = &[
        (&[source, "--list"], 1),
        (&[source, "--list", "--json"], 1),
        (&["check", source], 1),
        (&["check", source, "--json"], 1),
        (&["diff", &good, &good], 0),
        (&["diff", &good, &other], 1),
        (&["diff", &good, &other, "--json"], 1),
        (&["diff", &good, none], 2),
        (&["merge", out], 1),
        (&["--help"], 0),
        (&["--version"], 0),
        (&["--no-such-option"], 2),
        (&[none, "-o", none], 2),
    ];
    for (arguments, code) in cases {
        assert_eq!(exit_code(arguments, Streams::Read), Some(*code), "{arguments:?}");
        for streams in broken() {
            assert_eq!(exit_code(arguments, streams), Some(*code), "{arguments:?} {streams:?}");
        }
    }
    for arguments in [&["verify", source, out][..], &["verify", source, out, "--json"]] {
        let code = exit_code(arguments, Streams::Read);
        for streams in broken() {
            assert_eq!(exit_code(arguments, streams), code, "{arguments:?} {streams:?}");
        }
    }
}

/// The first line is read, as `head -1` does, and then nobody is there.
#[test]
fn a_reader_that_leaves_after_the_first_line_stops_nothing() {
    use std::io::{BufRead, BufReader};
    let input = inputs();
    let out = input.path().join("out");
    let mut child = Command::new(env!("CARGO_BIN_EXE_anim2gltf"))
        .args([input.path().to_str().unwrap(), "-o", out.to_str().unwrap(), "--json"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::with_capacity(1, child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert!(first.starts_with('{'), "{first}");
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(out.join("report.txt").is_file() && out.join("d2.glb").is_file());
}
