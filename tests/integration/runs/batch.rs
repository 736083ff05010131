//! The whole of a run on inputs that the project writes: same bytes on any number of threads, resuming, killing, full
//! and locked disks, names, shards, bundles, selections, events, exit codes.

use anim2gltf_testkit::anvil_clip;
use anim2gltf_testkit::anvil_container;
use anim2gltf_testkit::glb;
use anim2gltf_testkit::ycd_writer as ycd;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use anim2gltf::convert::settings::Settings;
use anim2gltf::engine as batch;
use anim2gltf::engine::run::{Outcome, Progress, Silent};
use anim2gltf::formats::gltf::{Glb, Gltf};
use anim2gltf::report::manifest::{ErrorRow, Manifest};
use anim2gltf_testkit::anvil_clip::{BoneSpec, ClipSpec, Keys, TrackSpec, turn};
use anim2gltf_testkit::anvil_container::{Container, Entry, Forge, Pack, crc32};
use tempfile::TempDir;

const BONES: [&str; 5] = ["Reference", "Hips", "Spine", "Head", "LeftHand"];

fn bones() -> Vec<BoneSpec> {
    BONES
        .iter()
        .enumerate()
        .map(|(i, name)| BoneSpec {
            crc: crc32(name.as_bytes()),
            parent: i.checked_sub(1),
            position: [0.0, 0.1 * i as f64, 0.3],
            rotation: turn([1.0, 0.2, 0.0], 10.0 * i as f64),
        })
        .collect()
}

/// A clip of `keys` keys a track; `seed` makes it another.
fn clip(id: u64, keys: usize, seed: u64) -> ClipSpec {
    let tracks = bones()
        .iter()
        .map(|bone| TrackSpec {
            crc: bone.crc,
            kind: 4,
            form: 1,
            times: (0..keys as u32).map(|k| 2 * k).collect(),
            keys: Keys::Quat(
                (0..keys).map(|k| turn([0.3, 1.0, 0.1], ((k as u64 * 7 + seed * 31) % 120) as f64)).collect(),
            ),
        })
        .collect();
    ClipSpec { id, length_s: (keys - 1) as f32 / 30.0, tracks, ..ClipSpec::default() }
}

fn rr_entry(id: u64, name: &str, keys: usize, seed: u64) -> Entry {
    let object = anvil_container::object64(
        "Animation",
        id,
        name,
        Some(0),
        &anvil_clip::rr_body(&clip(id, keys, seed)),
    );
    let container = Container::of(27, 3, Pack::Zstd);
    Entry {
        id,
        // The table has room for less than the object.
        name: name.chars().take(30).collect(),
        class: crc32(b"Animation"),
        payload: anvil_container::pair64(&container, &[(id, object)]),
    }
}

fn rr_skeleton(id: u64) -> Entry {
    let body = anvil_clip::skeleton64(&bones(), BONES.len() as u32, 0);
    let object = anvil_container::object64("Skeleton", id, "Rider", None, &body);
    let payload = anvil_container::pair64(&Container::of(27, 3, Pack::Zstd), &[(id, object)]);
    Entry { id, name: "Rider".into(), class: crc32(b"Skeleton"), payload }
}

fn rr_forge(path: &Path, clips: &[(u64, &str, usize, u64)]) {
    let mut entries = vec![rr_skeleton(0x500)];
    entries.extend(clips.iter().map(|(id, name, keys, seed)| rr_entry(*id, name, *keys, *seed)));
    fs::write(path, Forge::of(27).write(&entries)).unwrap();
}

/// Cells of a level, with ids from `first` on: each a list of (id, name, keys, seed).
fn sws_forge(path: &Path, first: u64, cells: &[&[(u32, &str, usize, u64)]]) {
    let container = Container::of(25, 2, Pack::Lzo2a);
    let entries: Vec<Entry> = cells
        .iter()
        .enumerate()
        .map(|(i, clips)| {
            let mut objects: Vec<(u64, Vec<u8>)> = clips
                .iter()
                .map(|(id, name, keys, seed)| {
                    let body = anvil_clip::sws_body(&clip(u64::from(*id), *keys, *seed));
                    (u64::from(*id), sws_animation(name, &body))
                })
                .collect();
            let skeleton = anvil_clip::skeleton32(&bones());
            objects.push((0x900, anvil_container::object32("Skeleton", 0x900, "Boarder", None, &skeleton)));
            Entry {
                id: first + i as u64,
                name: format!("Level_01_{i}_DataBlock"),
                class: crc32(b"GridCellDataBlock"),
                payload: anvil_container::pair32(&container, &objects),
            }
        })
        .collect();
    fs::write(path, Forge::of(25).write(&entries)).unwrap();
}

/// An Animation's record: its bytes run past what it declares by the table that opens them.
fn sws_animation(name: &str, body: &[u8]) -> Vec<u8> {
    let mut out = crc32(b"Animation").to_le_bytes().to_vec();
    let rows = u32::from_le_bytes(body[3..7].try_into().unwrap());
    out.extend((body.len() as u32 - 7 - 12 * rows).to_le_bytes());
    out.extend((name.len() as u32).to_le_bytes());
    out.extend(name.as_bytes());
    out.push(1);
    out.extend(body);
    out
}

/// A dictionary with two clips of `frames` frames.
fn dictionary(frames: usize, seed: usize) -> Vec<u8> {
    let bones = [0u16, 11816, 57597, 23553, 24816, 24817];
    let tracks = |shift: usize| {
        bones
            .iter()
            .map(|bone| {
                let keys: Vec<[f32; 4]> = (0..frames)
                    .map(|k| {
                        turn([1.0, 0.4, 0.2], ((k * 5 + seed * 17 + shift) % 90) as f64).map(|v| v as f32)
                    })
                    .collect();
                ycd::Track::rotations(*bone, 1, &keys)
            })
            .collect()
    };
    let walk = ycd::Animation::new("walk", frames, tracks(0));
    let idle = ycd::Animation::new("idle", frames, tracks(40));
    ycd::Dictionary {
        clips: vec![ycd::Clip::whole("pack:/walk.clip", &walk), ycd::Clip::whole("pack:/idle.clip", &idle)],
        animations: vec![walk, idle],
        ..Default::default()
    }
    .to_bytes()
}

/// A dictionary of which one clip plays an animation that is not there.
fn half_dictionary() -> Vec<u8> {
    let walk = ycd::Animation::new("walk", 8, vec![ycd::Track::constant(0, 0, [1.0, 2.0, 3.0])]);
    let lost = ycd::Animation::new("lost", 8, Vec::new());
    ycd::Dictionary {
        clips: vec![ycd::Clip::whole("pack:/walk.clip", &walk), ycd::Clip::whole("pack:/lost.clip", &lost)],
        animations: vec![walk],
        ..Default::default()
    }
    .to_bytes()
}

/// All kinds of input, small: `n` says how many of each.
fn world(n: usize) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at("ycd/deep")).unwrap();
    for i in 0..n {
        let name = if i % 2 == 0 { format!("ycd/d{i}.ycd") } else { format!("ycd/deep/d{i}.ycd") };
        fs::write(at(&name), dictionary(20 + i, i)).unwrap();
    }
    let names: Vec<String> = (0..n).map(|i| format!("Rider_{i}")).collect();
    let clips: Vec<(u64, &str, usize, u64)> =
        (0..n).map(|i| (0x7000 + i as u64, names[i].as_str(), 30 + i % 40, i as u64)).collect();
    rr_forge(&at("riders.forge"), &clips);
    // The second cell repeats clips of the first.
    let skate: Vec<(u32, &str, usize, u64)> =
        (0..n).map(|i| (0x300 + i as u32, names[i].as_str(), 12 + i % 9, i as u64)).collect();
    sws_forge(&at("skate.forge"), 0x1000, &[&skate[..n / 2 + 1], &skate[n / 3..]]);
    folder
}

fn settings(inputs: &[&Path], out: &Path) -> Settings {
    let inputs = inputs.iter().map(|p| p.to_path_buf()).collect();
    Settings { threads: 2, ..Settings::new(inputs, out.to_owned(), &Glb) }
}

fn run(settings: &Settings) -> Outcome {
    batch::run::run(settings, &mut Silent).unwrap()
}

/// Every file below `folder`, hidden ones too.
fn tree(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    walkdir::WalkDir::new(folder)
        .into_iter()
        .map(|e| e.unwrap())
        .filter(|e| e.file_type().is_file())
        .map(|e| {
            let name = e.path().strip_prefix(folder).unwrap().to_string_lossy().replace('\\', "/");
            (name, fs::read(e.path()).unwrap())
        })
        .collect()
}

/// Of a tree: what is not manifest or report.
fn files(tree: &BTreeMap<String, Vec<u8>>) -> BTreeMap<&String, &Vec<u8>> {
    tree.iter().filter(|(name, _)| !name.starts_with("manifest") && !name.starts_with("report")).collect()
}

/// Two trees, with a message that can be read.
#[track_caller]
fn assert_same(a: &BTreeMap<String, Vec<u8>>, b: &BTreeMap<String, Vec<u8>>) {
    assert_eq!(a.keys().collect::<Vec<_>>(), b.keys().collect::<Vec<_>>());
    for (name, bytes) in a {
        let other = &b[name];
        assert!(
            bytes == other,
            "{name} differs:\n{}\n{}",
            String::from_utf8_lossy(&bytes[..bytes.len().min(3000)]),
            String::from_utf8_lossy(&other[..other.len().min(3000)])
        );
    }
}

fn manifest(out: &Path) -> Manifest {
    serde_json::from_slice(&fs::read(out.join("manifest.json")).unwrap()).unwrap()
}

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_anim2gltf"))
}

fn output(arguments: &[&str]) -> Output {
    program().args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// When and where each file was written: changes when it is written again.
#[cfg(unix)]
fn stamps(out: &Path) -> BTreeMap<String, (u64, i64, i64)> {
    use std::os::unix::fs::MetadataExt;
    tree(out)
        .into_keys()
        .filter(|name| name.ends_with(".glb") || name.ends_with(".gltf") || name.ends_with(".bin"))
        .map(|name| {
            let meta = fs::metadata(out.join(&name)).unwrap();
            (name, (meta.ino(), meta.mtime(), meta.mtime_nsec()))
        })
        .collect()
}

/// Names of files that were written again, or are new.
#[cfg(unix)]
fn rewritten(before: &BTreeMap<String, (u64, i64, i64)>, out: &Path) -> Vec<String> {
    stamps(out).into_iter().filter(|(name, stamp)| before.get(name) != Some(stamp)).map(|(n, _)| n).collect()
}

#[test]
fn any_number_of_threads_and_any_order_give_the_same_bytes() {
    let input = world(12);
    let outs = tempfile::tempdir().unwrap();
    let out = |name: &str| outs.path().join(name);
    for (name, threads) in [("1", 1), ("2", 2), ("5", 5)] {
        let outcome = run(&Settings { threads, ..settings(&[input.path()], &out(name)) });
        assert_eq!((outcome.errors, outcome.clips), (0, 12 * 2 + 12 + 12));
        assert_eq!(outcome.repeated, 12 / 2 + 1 - 12 / 3);
    }
    let one = tree(&out("1"));
    assert_same(&one, &tree(&out("2")));
    assert_same(&one, &tree(&out("5")));
    assert!(one.keys().all(|name| !name.contains(".anim2gltf")));

    // The same inputs one by one, forwards and backwards.
    let (a, b, c) =
        (input.path().join("riders.forge"), input.path().join("skate.forge"), input.path().join("ycd"));
    run(&settings(&[&a, &b, &c], &out("abc")));
    run(&settings(&[&c, &b, &a], &out("cba")));
    assert_eq!(files(&tree(&out("abc"))), files(&tree(&out("cba"))));
}

/// Which way open questions were decided stands in the manifest, in the report and in the census: once for each
/// archive, whatever the number of clips and threads, and again in a run that finds everything finished.
#[test]
fn what_was_decided_is_told_once_for_each_archive() {
    let input = world(12);
    for loose in ["a", "b", "c"] {
        let body = anvil_clip::rr_body(&clip(0x70_0000, 4, 3));
        let bytes = anvil_container::object64("Animation", 0x70_0000, loose, Some(0), &body);
        fs::write(input.path().join(format!("{loose}.Animation")), bytes).unwrap();
    }
    let out = tempfile::tempdir().unwrap();
    run(&settings(&[input.path()], out.path()));
    let ways = |rows: &[(String, u64, Vec<String>)]| {
        let way = |of: &str, text: &str| {
            let rows: Vec<_> = rows.iter().filter(|(source, _, _)| source == of).collect();
            assert_eq!(rows.len(), 1, "{of}: {rows:?}");
            let n = rows[0].2.iter().filter(|way| way.contains(text)).count();
            assert_eq!(n, 1, "{of}: {text}: {rows:?}");
        };
        assert_eq!(rows.len(), 3);
        way("riders.forge", "forge version 27: index records of 20 bytes, name records of 192 bytes");
        way("riders.forge", "zstd, 32-bit count and 16-bit sizes, Adler-32 from 0");
        way("riders.forge", "directories as records of 64-bit ids with extras");
        way("skate.forge", "forge version 25: index records of 16 bytes, name records of 188 bytes");
        way("skate.forge", "FILEDATA");
        way("skate.forge", "lzo2a, 16-bit count and 16-bit sizes, Adler-32 from 0");
        way("skate.forge", "directories as records of 32-bit ids");
        way("a.Animation", "with their name headers");
        assert_eq!(rows.iter().map(|(_, alike, _)| alike).sum::<u64>(), 2);
    };
    let of_manifest = || -> Vec<_> {
        manifest(out.path()).decided.into_iter().map(|r| (r.source, r.alike, r.decided)).collect()
    };
    let first = of_manifest();
    ways(&first);
    let report = fs::read_to_string(out.path().join("report.txt")).unwrap();
    for (source, alike, ways) in &first {
        let more = if *alike > 0 { format!(" and {alike} more") } else { String::new() };
        ways.iter().for_each(|way| assert!(report.contains(&format!("{source}{more}: {way}")), "{report}"));
    }
    run(&settings(&[input.path()], out.path()));
    assert_eq!(of_manifest(), first);

    let census = |arguments: &[&str]| {
        let run = output(&[&["check", text(input.path())], arguments].concat());
        assert!(run.status.success(), "{run:?}");
        String::from_utf8(run.stdout).unwrap()
    };
    let json: serde_json::Value = serde_json::from_str(&census(&["--json", "-j", "2"])).unwrap();
    assert_eq!(json, serde_json::from_str::<serde_json::Value>(&census(&["--json", "-j", "1"])).unwrap());
    let rows: Vec<_> = json["decided"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            let ways = row["decided"].as_array().unwrap().iter().map(|w| w.as_str().unwrap().to_owned());
            (row["source"].as_str().unwrap().to_owned(), row["alike"].as_u64().unwrap_or(0), ways.collect())
        })
        .collect();
    ways(&rows);
    let plain = census(&[]);
    for (_, _, ways) in &rows {
        ways.iter().for_each(|way| assert_eq!(plain.matches(&format!("  {way}\n")).count(), 1, "{plain}"));
    }
}

#[test]
#[cfg(unix)]
fn a_second_run_does_what_has_changed_and_no_more() {
    let input = world(6);
    let outs = tempfile::tempdir().unwrap();
    let out = outs.path().join("out");
    let settings = Settings { ..settings(&[input.path()], &out) };
    let first = run(&settings);
    assert_eq!((first.finished, first.errors), (0, 0));
    let whole = tree(&out);
    let before = stamps(&out);

    let again = run(&settings);
    assert_eq!(again.finished, again.clips);
    assert_eq!((again.clips, again.files, again.keys), (first.clips, first.files, first.keys));
    assert_eq!(again.fresh_keys, 0);
    assert_eq!(rewritten(&before, &out), Vec::<String>::new());
    assert_same(&whole, &tree(&out));

    // One input changes.
    fs::write(input.path().join("ycd/d2.ycd"), dictionary(33, 99)).unwrap();
    run(&settings);
    assert_eq!(rewritten(&before, &out), ["ycd/d2.glb"]);
    let before = stamps(&out);

    // One output goes, one is cut.
    fs::remove_file(out.join("ycd/d0.glb")).unwrap();
    fs::write(out.join("riders/Rider_3.glb"), b"glTF").unwrap();
    run(&settings);
    assert_eq!(rewritten(&before, &out), ["riders/Rider_3.glb", "ycd/d0.glb"]);
    let (before, whole) = (stamps(&out), tree(&out));

    // A selection leaves files alone that hold the same clips with it: those of one clip.
    let select = anim2gltf::convert::settings::Select {
        clips: anim2gltf::convert::settings::Globs::new(&["walk".into(), "Rider_*".into()]).unwrap(),
        ..Default::default()
    };
    let narrow = Settings { select, ..settings.clone() };
    let outcome = run(&narrow);
    assert_eq!(outcome.left_out, 6);
    let only: BTreeSet<String> = rewritten(&before, &out).into_iter().collect();
    assert!(only.len() == 6 && only.iter().all(|name| name.starts_with("ycd/")), "{only:?}");
    // What was decided is remembered: the next run does nothing.
    let narrowed = stamps(&out);
    assert_eq!(run(&narrow).finished, outcome.clips);
    assert_eq!(rewritten(&narrowed, &out), Vec::<String>::new());
    run(&settings);
    assert_same(&whole, &tree(&out));
    let before = stamps(&out);

    // Another skeleton among the inputs that nothing chooses touches nothing.
    let other = tempfile::tempdir().unwrap();
    let small = anvil_clip::skeleton64(&bones()[..1], 1, 0);
    let object = anvil_container::object64("Skeleton", 0x501, "Small", None, &small);
    let payload = anvil_container::pair64(&Container::of(27, 3, Pack::Zstd), &[(0x501, object)]);
    let entry = Entry { id: 0x501, name: "Small".into(), class: crc32(b"Skeleton"), payload };
    fs::write(other.path().join("small.forge"), Forge::of(27).write(&[entry])).unwrap();
    let more =
        Settings { inputs: vec![other.path().to_owned(), input.path().to_owned()], ..settings.clone() };
    let outcome = run(&more);
    assert_eq!((outcome.finished, outcome.errors), (outcome.clips, 0));
    assert_eq!(rewritten(&before, &out), Vec::<String>::new());

    // An option that is part of every file, and --force, do all again.
    let mut coarse = settings.clone();
    coarse.passes.tolerance_deg = 1.0;
    assert_eq!(run(&coarse).finished, 0);
    assert_eq!(rewritten(&before, &out).len(), before.len());
    let before = stamps(&out);
    assert_eq!(run(&Settings { force: true, ..coarse }).finished, 0);
    assert_eq!(rewritten(&before, &out).len(), before.len());
}

#[test]
#[cfg(unix)]
fn failures_and_notes_of_finished_files_are_said_again() {
    let input = tempfile::tempdir().unwrap();
    fs::write(input.path().join("half.ycd"), half_dictionary()).unwrap();
    fs::write(input.path().join("whole.ycd"), dictionary(9, 1)).unwrap();
    let out = input.path().join("out");
    let settings = settings(&[input.path()], &out);
    let first = run(&settings);
    assert_eq!((first.errors, first.clips, first.exit_code()), (1, 3, 1));
    let whole = tree(&out);
    let second = run(&settings);
    assert_eq!((second.errors, second.finished, second.exit_code()), (1, 3, 1));
    assert_same(&whole, &tree(&out));
    let manifest = manifest(&out);
    assert_eq!(manifest.errors.len(), 1);
    assert_eq!(manifest.errors[0].output.as_deref(), Some("half.glb"));
    assert_eq!(manifest.totals.failures, 1);
}

#[test]
#[cfg(unix)]
fn a_text_file_without_its_companion_is_written_again() {
    let input = tempfile::tempdir().unwrap();
    fs::write(input.path().join("a.ycd"), dictionary(9, 1)).unwrap();
    let out = input.path().join("out");
    let mut settings = settings(&[input.path()], &out);
    settings.format = &Gltf;
    run(&settings);
    fs::remove_file(out.join("a.bin")).unwrap();
    assert_eq!(run(&settings).finished, 0);
    assert!(out.join("a.bin").is_file());
    assert_eq!(run(&settings).finished, 2);
}

/// Whether the bytes are a whole file of their kind.
fn is_whole(name: &str, bytes: &[u8]) -> bool {
    if name.ends_with(".glb") {
        let word =
            |at: usize| bytes.get(at..at + 4).map(|b| u32::from_le_bytes(b.try_into().unwrap()) as usize);
        let (Some(length), Some(json)) = (word(8), word(12)) else { return false };
        return bytes.starts_with(b"glTF\x02\0\0\0")
            && length == bytes.len()
            && serde_json::from_slice::<serde_json::Value>(&bytes[20..20 + json]).is_ok();
    }
    !name.ends_with(".json") || serde_json::from_slice::<Manifest>(bytes).is_ok()
}

/// Checks that every file that can be seen is whole; returns how many there are.
fn look(out: &Path) -> usize {
    let mut seen = 0;
    for entry in walkdir::WalkDir::new(out).into_iter().filter_map(|e| e.ok()) {
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type().is_file() && !name.starts_with('.') {
            // One that is being replaced may be gone for us, never cut.
            if let Ok(bytes) = fs::read(entry.path()) {
                assert!(is_whole(&name, &bytes), "{} is half written", entry.path().display());
                seen += 1;
            }
        }
    }
    seen
}

#[test]
fn killed_at_twenty_moments_and_started_again() {
    let input = world(60);
    let outs = tempfile::tempdir().unwrap();
    let command = |out: &Path| {
        let mut command = program();
        command.arg(input.path()).arg("-o").arg(out).args(["-j", "2", "--quiet"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let right = outs.path().join("right");
    let start = Instant::now();
    assert!(command(&right).status().unwrap().success());
    let length = start.elapsed();
    let right = tree(&right);
    let mut random = ycd::Random::new(7);
    let (mut stopped, mut part) = (0, 0);
    for i in 0..20 {
        let out = outs.path().join(format!("{i}"));
        // Every third is killed a second time before it may finish.
        for _ in 0..1 + usize::from(i % 3 == 0) {
            let moment = length.mul_f32(random.float().abs().fract());
            let start = Instant::now();
            let mut child = command(&out).spawn().unwrap();
            while start.elapsed() < moment {
                look(&out);
                std::thread::sleep(Duration::from_millis(1));
            }
            child.kill().unwrap();
            stopped += usize::from(!child.wait().unwrap().success());
            let seen = look(&out);
            part += usize::from(seen > 0 && seen < right.len());
        }
        assert!(command(&out).status().unwrap().success());
        assert_same(&right, &tree(&out));
        fs::remove_dir_all(&out).unwrap();
    }
    eprintln!("{stopped} of 26 runs were killed before their end, {part} in the midst of the files");
    assert!(stopped >= 10, "the moments came too late to prove anything");
}

/// Mounts a memory file system; unmounts it at the end.
struct Mount(PathBuf);

impl Mount {
    fn new(at: &Path, options: &str) -> Option<Mount> {
        fs::create_dir_all(at).unwrap();
        let done = Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(at).output();
        match done {
            Ok(output) if output.status.success() => Some(Mount(at.to_owned())),
            _ => {
                eprintln!("skipped: a memory file system cannot be mounted here (not root?)");
                None
            }
        }
    }

    fn change(&self, options: &str) {
        let options = format!("remount,{options}");
        let status = Command::new("mount").args(["-o", &options]).arg(&self.0).status().unwrap();
        assert!(status.success());
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_stops_the_run_with_one_error() {
    let input = world(40);
    let outs = tempfile::tempdir().unwrap();
    let right = outs.path().join("right");
    run(&settings(&[input.path()], &right));
    let right = tree(&right);
    let size: usize = right.values().map(Vec::len).sum();
    let at = outs.path().join("small");
    let Some(mount) = Mount::new(&at, &format!("size={}", size / 2)) else { return };
    let out = at.join("out");
    let result = output(&[text(input.path()), "-o", text(&out)]);
    let said = String::from_utf8_lossy(&result.stderr);
    assert_eq!(result.status.code(), Some(1), "{said}");
    assert_eq!(said.matches("error:").count(), 1, "{said}");
    assert!(said.contains("No space left on device") && said.contains("the same command goes on"), "{said}");
    let kept = look(&out);
    assert!(kept > 10, "{kept} files");
    assert!(!out.join("manifest.json").exists());
    let left: Vec<String> = tree(&out).into_keys().filter(|n| n.contains(".anim2gltf")).collect();
    assert!(left.iter().all(|n| n.ends_with(".journal")), "temporary files are left: {left:?}");

    // Whole records are all that is in the journal, however it came to its end; on a disk that is full to the last page
    // there may be none, and everything is made again.
    let journal = fs::read_to_string(out.join(".anim2gltf.journal")).unwrap();
    assert!(journal.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "{journal}");

    mount.change(&format!("size={}", size * 4));
    let outcome = run(&settings(&[input.path()], &out));
    assert_eq!(outcome.errors, 0);
    assert!(outcome.finished > 10 || journal.is_empty(), "{outcome:?}");
    assert_same(&right, &tree(&out));
}

#[test]
#[cfg(target_os = "linux")]
fn a_folder_that_may_not_be_written_is_said_at_once() {
    use std::os::unix::fs::PermissionsExt;
    let input = world(3);
    let outs = tempfile::tempdir().unwrap();
    let out = outs.path().join("locked");
    fs::create_dir(&out).unwrap();
    let explain = |result: Output| {
        let said = String::from_utf8_lossy(&result.stderr).into_owned();
        assert_eq!(result.status.code(), Some(2), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.starts_with("error: ") && said.contains("locked"), "{said}");
        said
    };
    // A file stands where the folder should be.
    let file = outs.path().join("locked.txt");
    fs::write(&file, "x").unwrap();
    explain(output(&[text(input.path()), "-o", text(&file)]));

    // Another user, as root may write everywhere.
    for path in [outs.path(), input.path()] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let copy = outs.path().join("anim2gltf");
    fs::copy(env!("CARGO_BIN_EXE_anim2gltf"), &copy).unwrap();
    let as_nobody = |program: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", program]);
        command
    };
    if as_nobody("true").status().is_ok_and(|s| s.success()) {
        let said = explain(as_nobody(text(&copy)).arg(input.path()).arg("-o").arg(&out).output().unwrap());
        assert!(said.contains("Permission denied"), "{said}");
        assert_eq!(fs::read_dir(&out).unwrap().count(), 0);
        // A folder inside that may not be written fails for its files alone.
        let open = outs.path().join("open");
        fs::create_dir_all(open.join("riders")).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        let result = as_nobody(text(&copy)).arg(input.path()).arg("-o").arg(&open).output().unwrap();
        let said = String::from_utf8_lossy(&result.stderr).into_owned();
        assert_eq!(result.status.code(), Some(1), "{said}");
        assert_eq!(said.matches("error:").count(), 3, "{said}");
        assert_eq!(manifest(&open).errors.len(), 3);
    } else {
        eprintln!("skipped: the program cannot be started as another user here");
    }

    let Some(mount) = Mount::new(&out, "size=64k") else { return };
    mount.change("ro");
    let said = explain(output(&[text(input.path()), "-o", text(&out)]));
    assert!(said.contains("Read-only file system"), "{said}");
}

/// Does something to the inputs in the midst of a run.
struct Meddler<F: FnMut(&str)>(F, Vec<ErrorRow>);

impl<F: FnMut(&str)> Progress for Meddler<F> {
    fn look(&mut self, name: &str) {
        (self.0)(name);
    }

    fn begin(&mut self, _: usize, _: u64) {
        (self.0)("begin");
    }

    fn failed(&mut self, error: &ErrorRow) {
        self.1.push(error.clone());
    }
}

#[test]
fn inputs_that_vanish_or_shrink_fail_alone() {
    let input = world(6);
    let at = |name: &str| input.path().join(name);
    fs::copy(at("riders.forge"), at("shrinks.forge")).unwrap();
    let out = input.path().join("out");
    let mut meddler = Meddler(
        |moment: &str| match moment {
            // It is open, and its table is read.
            "shrinks.forge" => {
                let file = fs::File::options().write(true).open(at("shrinks.forge")).unwrap();
                file.set_len(file.metadata().unwrap().len() / 3).unwrap();
            }
            "begin" => {
                fs::remove_file(at("ycd/d0.ycd")).unwrap();
                let file = fs::File::options().write(true).open(at("ycd/d2.ycd")).unwrap();
                file.set_len(100).unwrap();
            }
            _ => {}
        },
        Vec::new(),
    );
    // The copy is a later archive with the same ids: give it alone, so that it replaces nothing.
    let inputs = [at("shrinks.forge"), at("riders.forge"), at("skate.forge"), at("ycd")];
    let inputs: Vec<&Path> = inputs.iter().map(PathBuf::as_path).collect();
    let outcome = batch::run::run(&settings(&inputs, &out), &mut meddler).unwrap();
    let said: Vec<String> = meddler.1.iter().map(ToString::to_string).collect();
    assert!(said.iter().any(|e| e.contains("d0.ycd") && e.contains("No such file")), "{said:#?}");
    assert!(said.iter().any(|e| e.contains("d2.ycd")), "{said:#?}");
    assert_eq!(outcome.errors, said.len());
    assert_eq!(outcome.exit_code(), 1);
    assert_eq!(outcome.clips, 4 * 2 + 6 + 6, "{said:#?}");
    look(&out);
}

#[test]
fn ten_thousand_clips_of_one_name() {
    const N: usize = 10_000;
    let folder = tempfile::tempdir().unwrap();
    let forge = folder.path().join("many.forge");
    let entries: Vec<Entry> = (0..N as u64)
        .map(|i| {
            let spec = ClipSpec {
                id: i,
                length_s: 0.1,
                tracks: vec![TrackSpec {
                    crc: crc32(b"Hips"),
                    kind: 4,
                    form: 0,
                    times: vec![0],
                    keys: Keys::Quat(vec![turn([0.0, 0.0, 1.0], i as f64 * 0.01)]),
                }],
                ..ClipSpec::default()
            };
            let body = anvil_clip::rr_body(&spec);
            let object = anvil_container::object64("Animation", 0x10_0000 + i, "Walk", Some(0), &body);
            let payload =
                anvil_container::pair64(&Container::of(27, 0, Pack::Stored), &[(0x10_0000 + i, object)]);
            Entry { id: 0x10_0000 + i, name: "Walk".into(), class: crc32(b"Animation"), payload }
        })
        .collect();
    fs::write(&forge, Forge::of(27).write(&entries)).unwrap();
    let out = folder.path().join("out");
    let outcome = run(&settings(&[&forge], &out));
    assert_eq!((outcome.clips, outcome.files, outcome.errors), (N, N, 0));
    let rows = manifest(&out).clips;
    let outputs: BTreeSet<&str> = rows.iter().map(|r| r.output.as_str()).collect();
    assert_eq!(outputs.len(), N);
    assert!(outputs.contains("many/Walk.glb") && outputs.contains("many/Walk~10000F.glb"));
    assert!(outputs.iter().all(|o| out.join(o).is_file()));

    // In one file they are Walk, Walk~2, ...
    let out = folder.path().join("bundle");
    let outcome = run(&Settings { bundle: N, ..settings(&[&forge], &out) });
    assert_eq!((outcome.clips, outcome.files), (N, 1));
    let names: BTreeSet<String> = manifest(&out).clips.into_iter().map(|r| r.animation).collect();
    assert_eq!(names.len(), N);
}

#[test]
fn names_of_any_length_script_and_meaning() {
    let long = "Grab_".repeat(60);
    let names = [
        long.as_str(),
        "Прыжок_с_поворотом",
        "宙返り🏂",
        "CON",
        "aux.takedown",
        "LPT1",
        "a/b\\c:d*e?f\"g<h>i|j",
        "..",
        ".hidden",
        "ends with a dot.",
        "tab\tand\nline",
        "it's \"quoted\" & $(HOME) `x`",
        "walk",
        "WALK",
        "",
    ];
    // Spaces and quotes in all paths.
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("it's \"my\" $folder");
    fs::create_dir(&home).unwrap();
    let forge = home.join("a 'forge' (1).forge");
    let clips: Vec<(u64, &str, usize, u64)> =
        names.iter().enumerate().map(|(i, name)| (0x40 + i as u64, *name, 5, i as u64)).collect();
    rr_forge(&forge, &clips);
    fs::write(home.join("ж \"ц\".ycd"), dictionary(5, 1)).unwrap();
    let out = home.join("out 'put'");
    let result = output(&[text(&home), "-o", text(&out)]);
    assert_eq!(result.status.code(), Some(0), "{}", String::from_utf8_lossy(&result.stderr));
    let manifest = manifest(&out);
    let written: BTreeSet<String> = manifest.clips.iter().map(|c| c.output.clone()).collect();
    assert_eq!(written.len(), names.len() + 1);
    for output in &written {
        assert!(out.join(output).is_file(), "{output}");
        for part in output.split('/') {
            assert!(
                part.len() <= 210 && !part.contains(['\\', ':', '*', '?', '"', '<', '>', '|', '\n', '\t']),
                "{part}"
            );
            assert!(!part.starts_with('.') && !part.ends_with(['.', ' ']), "{part}");
            let stem = part.split('.').next().unwrap().to_ascii_uppercase();
            assert!(!["CON", "AUX", "LPT1"].contains(&stem.as_str()), "{part}");
        }
    }
    let folded: BTreeSet<String> = written.iter().map(|w| w.to_lowercase()).collect();
    assert_eq!(folded.len(), written.len(), "two differ only in case");
    // What a file cannot be called stands in the manifest.
    for name in names.iter().filter(|n| !n.is_empty()) {
        assert!(manifest.clips.iter().any(|c| c.name == *name), "{name}");
    }
    assert_eq!(tree(&home).len(), 2 + written.len() + 2, "something lies outside the output folder");
}

#[test]
fn shards_together_are_the_whole() {
    let input = world(10);
    let outs = tempfile::tempdir().unwrap();
    let whole = outs.path().join("whole");
    run(&settings(&[input.path()], &whole));
    let whole = tree(&whole);
    for n in [1, 2, 5] {
        let out = outs.path().join(format!("{n}"));
        // All at once into one folder.
        let children: Vec<_> = (1..=n)
            .map(|k| {
                program()
                    .arg(input.path())
                    .arg("-o")
                    .arg(&out)
                    .args(["-j", "1", "--quiet", "--shard", &format!("{k}/{n}")])
                    .spawn()
                    .unwrap()
            })
            .collect();
        for mut child in children {
            assert_eq!(child.wait().unwrap().code(), Some(0));
        }
        let parts = tree(&out);
        assert_eq!(files(&parts), files(&whole));
        assert!((1..=n).all(|k| parts.contains_key(&format!("manifest.{k}-of-{n}.json"))));
        let result = output(&["merge", text(&out)]);
        assert_eq!(result.status.code(), Some(0), "{}", String::from_utf8_lossy(&result.stderr));
        for name in ["manifest.json", "report.txt"] {
            let joined = fs::read(out.join(name)).unwrap();
            assert!(
                joined == whole[name],
                "{name}\n{}\n{}",
                String::from_utf8_lossy(&joined),
                String::from_utf8_lossy(&whole[name])
            );
        }
        // A whole run after it finds everything done.
        let outcome = run(&settings(&[input.path()], &out));
        assert_eq!(outcome.finished, outcome.clips);
    }

    // Each its own folder; then one is missing.
    let outs: Vec<PathBuf> = (1..=3).map(|k| outs.path().join(format!("own{k}"))).collect();
    for (k, out) in outs.iter().enumerate() {
        run(&Settings { shard: Some((k as u32 + 1, 3)), ..settings(&[input.path()], out) });
    }
    let all: Vec<&str> = outs.iter().map(|o| text(o)).collect();
    let result = output(&[&["merge"][..], &all].concat());
    assert_eq!(result.status.code(), Some(0));
    let joined = manifest(&outs[0]);
    assert!(joined.clips.iter().all(|c| outs[0].join(&c.output).is_file()));
    let whole: Manifest = serde_json::from_slice(&whole["manifest.json"]).unwrap();
    assert_eq!(joined.totals, whole.totals);
    assert_eq!(joined.clips.len(), whole.clips.len());
    let result = output(&["merge", all[0], all[2]]);
    assert_eq!(result.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&result.stderr).contains("shard 2/3"));

    for wrong in ["0/2", "3/2", "1", "a/b", "1/0"] {
        assert_eq!(output(&[text(input.path()), "-o", all[0], "--shard", wrong]).status.code(), Some(2));
    }
}

#[test]
#[cfg(unix)]
fn bundles_hold_clips_of_one_skeleton() {
    let input = world(10);
    let outs = tempfile::tempdir().unwrap();
    let out = |name: &str| outs.path().join(name);
    let bundled =
        |name: &str, threads| Settings { bundle: 4, threads, ..settings(&[input.path()], &out(name)) };
    let outcome = run(&bundled("1", 1));
    run(&bundled("2", 2));
    assert_same(&tree(&out("1")), &tree(&out("2")));
    let rows = manifest(&out("1")).clips;
    assert_eq!((rows.len(), outcome.clips), (10 * 2 + 10 + 10, 10 * 2 + 10 + 10));
    let mut by_file: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for row in &rows {
        by_file.entry(&row.output).or_default().push(&row.animation);
        assert!(by_file[row.output.as_str()].len() <= 4);
    }
    // Folders stay apart: 5 dictionaries in each, 2 archives.
    assert_eq!(by_file.len(), 2 * 10usize.div_ceil(4) + 2 * 10usize.div_ceil(4), "{by_file:?}");
    for (file, animations) in &by_file {
        let glb = glb::Glb::open(&std::fs::read(out("1").join(file)).unwrap());
        let names: Vec<&str> = glb.document.animations().map(|a| a.name().unwrap()).collect();
        assert_eq!(names, *animations, "{file}");
        assert_eq!(glb.document.skins().count(), 1);
        for animation in glb.document.animations() {
            let channels = glb.channels(&animation);
            assert!(!channels.is_empty(), "{file}: {:?} moves nothing", animation.name());
            for (target, keys) in channels {
                assert_eq!(keys.times.len(), keys.values.len(), "{file} {target:?}");
                assert!(keys.times.is_sorted(), "{file} {target:?}: {:?}", keys.times);
            }
        }
    }
    let before = stamps(&out("1"));
    let again = run(&bundled("1", 2));
    assert_eq!((again.finished, rewritten(&before, &out("1"))), (again.clips, Vec::new()));

    // Shards in one folder do not write over each other's.
    for k in 1..=2 {
        run(&Settings { shard: Some((k, 2)), ..bundled("shards", 2) });
    }
    assert_eq!(output(&["merge", text(&out("shards"))]).status.code(), Some(0));
    let joined = manifest(&out("shards")).clips;
    let ids = |rows: &[anim2gltf::report::manifest::ClipRow]| -> Vec<String> {
        let mut ids: Vec<String> = rows.iter().map(|r| format!("{} {} {}", r.source, r.id, r.name)).collect();
        ids.sort();
        ids
    };
    assert_eq!(ids(&joined), ids(&rows));
    for row in &joined {
        let glb = glb::Glb::open(&std::fs::read(out("shards").join(&row.output)).unwrap());
        let animation = glb.document.animations().find(|a| a.name() == Some(&row.animation));
        let animation = animation.unwrap_or_else(|| panic!("{row:?}"));
        assert!(glb.channels(&animation).values().all(|keys| !keys.times.is_empty()), "{row:?}");
    }
}

#[test]
fn selections_and_lists() {
    let input = world(6);
    let listed = |arguments: &[&str]| -> Vec<String> {
        let result = output(&[&[text(input.path()), "--list"][..], arguments].concat());
        let mut names: Vec<String> = String::from_utf8(result.stdout)
            .unwrap()
            .lines()
            .map(|line| line.split("  ").filter(|p| !p.is_empty()).nth(3).unwrap().trim().to_owned())
            .collect();
        names.sort();
        names
    };
    assert_eq!(listed(&[]).len(), 6 * 2 + 6 + 6);
    assert_eq!(listed(&["--game", "gtav"]).len(), 12);
    assert_eq!(listed(&["--game", "RR"]), ["Rider_0", "Rider_1", "Rider_2", "Rider_3", "Rider_4", "Rider_5"]);
    assert_eq!(listed(&["--clip", "*_[12]"]), ["Rider_1", "Rider_1", "Rider_2", "Rider_2"]);
    assert_eq!(listed(&["--clip", "Rider_1", "--clip", "*walk*"]).len(), 2 + 6);
    assert_eq!(listed(&["--game", "SWS", "--exclude", "*_0", "--exclude", "*_1"]).len(), 4);
    // By id.
    assert_eq!(listed(&["--clip", "*7003"]), ["Rider_3"]);
    // Riders have 30 to 35 keys at 30 a second, skaters 12 to 17, dictionaries 20 to 25 frames.
    assert_eq!(listed(&["--min-length", "0.9"]).len(), 6);
    assert_eq!(listed(&["--min-length", "1.0"]).len(), 5);
    assert!(!input.path().join("out").exists());

    // Nothing is written, whatever else is asked.
    let out = input.path().join("out");
    for more in [&["--to", "ycd.xml"][..], &["--bundle", "5"], &["--force"]] {
        let result = output(&[&[text(input.path()), "--list", "-o", text(&out)][..], more].concat());
        assert_eq!(result.status.code(), Some(0), "{more:?}");
        assert!(!out.exists(), "{more:?}");
    }
    let result = output(&[text(input.path()), "-o", text(&out), "--clip", "*_[12]", "--quiet"]);
    assert_eq!(result.status.code(), Some(0));
    assert!(result.stderr.is_empty() && result.stdout.is_empty());
    assert_eq!(manifest(&out).clips.len(), 4);
    assert_eq!(manifest(&out).totals.left_out, 24 - 4);
    assert_eq!(output(&[text(input.path()), "--list", "--clip", "[a"]).status.code(), Some(2));
}

#[test]
fn events_are_json_lines() {
    let input = world(5);
    fs::write(input.path().join("ycd/bad.ycd"), b"RSC7 and no more").unwrap();
    let out = input.path().join("out");
    let result = output(&[text(input.path()), "-o", text(&out), "--json"]);
    assert_eq!(result.status.code(), Some(1));
    let events: Vec<serde_json::Value> = String::from_utf8(result.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect();
    let of = |kind: &str| events.iter().filter(|e| e["event"] == kind).collect::<Vec<_>>();
    assert_eq!((of("begin").len(), of("end").len(), of("error").len()), (1, 1, 1));
    assert_eq!(of("clip").len(), 5 * 2 + 5 + 5);
    assert!(
        of("clip").iter().all(|c| out.join(c["output"].as_str().unwrap()).is_file() && c["fresh"] == true)
    );
    let sum = |key: &str| of("progress").iter().map(|e| e[key].as_u64().unwrap()).sum::<u64>();
    assert_eq!(sum("units"), of("begin")[0]["units"].as_u64().unwrap());
    assert_eq!(sum("bytes"), of("begin")[0]["bytes"].as_u64().unwrap());
    let end = of("end")[0];
    assert_eq!(
        (end["clips"].as_u64(), end["errors"].as_u64(), end["exitCode"].as_u64()),
        (Some(20), Some(1), Some(1))
    );
    assert_eq!(events.last().unwrap()["event"], "end");

    let result = output(&[text(input.path()), "--list", "--json"]);
    let listed = String::from_utf8(result.stdout).unwrap();
    assert_eq!(listed.lines().filter(|l| l.contains("\"listed\"")).count(), 20);
}

#[test]
fn exit_codes_and_one_line_without_a_terminal() {
    let input = world(3);
    let out = input.path().join("out");
    let result = output(&[text(input.path()), "-o", text(&out)]);
    assert_eq!(result.status.code(), Some(0));
    let said = String::from_utf8(result.stderr).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("12 clips in 9 files written to "), "{said}");
    assert!(result.stdout.is_empty());

    let bad = input.path().join("bad.ycd");
    fs::write(&bad, b"nothing").unwrap();
    let out = |n: u32| input.path().join(format!("out{n}"));
    assert_eq!(output(&[text(input.path()), "-o", text(&out(1))]).status.code(), Some(1));
    assert_eq!(output(&[text(&bad), "-o", text(&out(2))]).status.code(), Some(2));
    assert!(fs::read_to_string(out(2).join("report.txt")).unwrap().contains("bad.ycd"));
    assert_eq!(output(&[text(&input.path().join("none")), "-o", text(&out(3))]).status.code(), Some(2));
    let empty = tempfile::tempdir().unwrap();
    assert_eq!(output(&[text(empty.path()), "-o", text(&out(4))]).status.code(), Some(2));
    assert_eq!(output(&[text(input.path())]).status.code(), Some(2));
    assert_eq!(output(&["--help"]).status.code(), Some(0));
}

#[test]
fn repeated_clips_are_written_once_and_listed_with_their_places() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    sws_forge(
        &at("cells.forge"),
        0x1000,
        &[
            &[(1, "Ollie", 9, 1), (2, "Kick", 9, 2)],
            &[(1, "Ollie", 9, 1), (3, "Grind", 9, 3)],
            // The same id with other bytes.
            &[(1, "Ollie", 9, 4), (2, "Kick", 9, 2)],
        ],
    );
    sws_forge(&at("more.forge"), 0x2000, &[&[(2, "Kick", 9, 2)]]);
    let out = at("out");
    let outcome = run(&settings(&[&at("cells.forge"), &at("more.forge")], &out));
    assert_eq!((outcome.clips, outcome.repeated, outcome.errors), (4, 3, 0));
    let manifest = manifest(&out);
    let row = |output: &str| manifest.clips.iter().find(|c| c.output == output).unwrap();
    assert_eq!(row("cells/Ollie.glb").also_at, ["cells.forge/Ollie"]);
    assert_eq!(row("cells/Kick.glb").also_at, ["cells.forge/Kick", "more.forge/Kick"]);
    assert_eq!(row("cells/Grind.glb").also_at, Vec::<String>::new());
    assert_eq!(row("cells/Ollie~1.glb").also_at, Vec::<String>::new());
    assert!(manifest.notes.iter().any(|n| n.note.contains("other bytes")));
    assert_eq!(manifest.totals.repeated, 3);

    // An archive and its patch: the entry of the patch counts, and the report says so.
    rr_forge(&at("DataPC.forge"), &[(0x7001, "Push", 9, 1), (0x7002, "Idle", 9, 2)]);
    rr_forge(&at("DataPC_patch_01.forge"), &[(0x7001, "Push", 14, 5)]);
    let out = at("patched");
    let outcome = run(&settings(&[&at("DataPC.forge"), &at("DataPC_patch_01.forge")], &out));
    assert_eq!((outcome.clips, outcome.errors), (2, 0));
    let manifest = self::manifest(&out);
    let push = manifest.clips.iter().find(|c| c.name == "Push").unwrap();
    assert_eq!(
        (push.output.as_str(), push.source.as_str()),
        ("DataPC_patch_01/Push.glb", "DataPC_patch_01.forge/Push")
    );
    assert!((push.duration - 13.0 / 30.0).abs() < 1e-6);
    assert!(
        manifest.notes.iter().any(|n| n.source == "DataPC.forge" && n.note.contains("replaced")),
        "{:?}",
        manifest.notes
    );
}
