//! The same clips in every archive that the format notes allow: version, codec, container form, tables, names, order
//! and place. Whatever they lie in, the same files come out, to the byte.

use anim2gltf_testkit::anvil_clip;
use anim2gltf_testkit::anvil_container;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anim2gltf::convert::settings::Settings;
use anim2gltf::engine as batch;
use anim2gltf::engine::run::{Outcome, Silent};
use anim2gltf::formats::gltf::Glb;
use anim2gltf_testkit::anvil_clip::{BoneSpec, ClipSpec, Keys, TrackSpec, turn};
use anim2gltf_testkit::anvil_container::{Container, Entry, Forge, Names, Pack, Sum, crc32};

type Files = BTreeMap<String, Vec<u8>>;

const BONES: [&str; 4] = ["Reference", "Hips", "Spine", "Head"];

fn bones() -> Vec<BoneSpec> {
    (0..BONES.len())
        .map(|i| BoneSpec {
            crc: crc32(BONES[i].as_bytes()),
            parent: i.checked_sub(1),
            position: [0.01 * i as f64, 0.1, 0.3],
            rotation: turn([1.0, 0.2, 0.0], 10.0 * i as f64),
        })
        .collect()
}

fn quats(n: usize, seed: usize) -> Keys {
    Keys::Quat((0..n).map(|k| turn([0.3, 1.0, 0.1], ((k * 7 + seed * 31) % 120) as f64)).collect())
}

fn positions(n: usize) -> Keys {
    Keys::Vec3((0..n).map(|k| [0.013 * k as f64, 0.2, 0.9 - 0.01 * k as f64]).collect())
}

fn track(bone: &str, kind: u8, form: u8, times: Vec<u32>, keys: Keys) -> TrackSpec {
    TrackSpec { crc: crc32(bone.as_bytes()), kind, form, times, keys }
}

/// Three clips that hold every kind and time form of Riders Republic between them.
fn rr_clips() -> Vec<(u64, &'static str, ClipSpec)> {
    let ticks: Vec<u32> = (0..15).map(|k| 4 * k).collect();
    let frames: Vec<u32> = (0..15).map(|k| 2 * k).collect();
    let raw = |kind: u8, width: usize| {
        let keys = Keys::Raw(width, (0..15).map(|v| v * 0x0101_0101_0101).collect());
        TrackSpec { crc: 0xC0DE_0000 + u32::from(kind), kind, form: kind % 3, times: frames.clone(), keys }
    };
    let mut root = track("", 9, 0, ticks.clone(), positions(15));
    root.crc = 0;
    let walk = vec![
        root,
        track("Hips", 9, 1, ticks.clone(), positions(15)),
        track("Hips", 4, 1, ticks.clone(), quats(15, 1)),
        track("Spine", 5, 2, frames.clone(), quats(15, 2)),
        track("Head", 3, 0, ticks.clone(), quats(15, 3)),
        track("Reference", 8, 0, ticks.clone(), quats(15, 4)),
    ];
    let turns = Keys::Quat((0..15).map(|k| turn([0.0, 0.0, 1.0], 5.0 * f64::from(k) - 40.0)).collect());
    let mut signals = vec![track("Spine", 7, 0, ticks.clone(), turns)];
    signals
        .extend([(16, 1), (17, 2), (18, 1), (21, 4), (22, 4), (25, 8)].map(|(kind, width)| raw(kind, width)));
    let hold = vec![track("Head", 4, 2, vec![0], quats(1, 9))];
    let clip = |id: u64, tracks: Vec<TrackSpec>, length_s: f32| ClipSpec {
        id,
        length_s,
        tracks,
        ..ClipSpec::default()
    };
    vec![
        (
            0x1_2345_0001,
            "Walk",
            ClipSpec { event_count: 2, events: vec![0xE8; 37], ..clip(1, walk, 14.0 / 15.0) },
        ),
        (
            0x1_2345_0002,
            "Signals",
            ClipSpec {
                ecl: Some([vec![1, 2], vec![3; 8], vec![4; 6], vec![5]]),
                flags: [0, 0, 0, 1],
                buffer: vec![7; 9],
                ..clip(2, signals, 14.0 / 15.0)
            },
        ),
        (0x1_2345_0003, "Hold", ClipSpec { flags: [1, 0, 0, 0], ..clip(3, hold, 0.0) }),
    ]
}

fn sws_clips() -> Vec<(u32, &'static str, ClipSpec)> {
    let ticks: Vec<u32> = (0..15).map(|k| 4 * k).collect();
    let raw = |kind: u8, width: usize| {
        let keys = Keys::Raw(width, (0..15).map(|v| v * 0x11).collect());
        TrackSpec { crc: 0xC0DE_0000 + u32::from(kind), kind, form: kind & 3, times: ticks.clone(), keys }
    };
    let push = vec![
        track("Hips", 9, 0, ticks.clone(), positions(15)),
        track("Hips", 4, 1, ticks.clone(), quats(15, 1)),
        track("Spine", 5, 2, ticks.clone(), quats(15, 2)),
        track("Head", 6, 3, ticks.clone(), quats(15, 3)),
        track("Reference", 8, 0, ticks.clone(), positions(15)),
        track("Spine", 7, 0, ticks.clone(), positions(15)),
    ];
    let signals = vec![track("Head", 4, 0, ticks.clone(), quats(15, 7)), raw(10, 4), raw(11, 1), raw(17, 1)];
    let clip = |id: u64, tracks: Vec<TrackSpec>| ClipSpec {
        id,
        length_s: 14.0 / 15.0,
        tracks,
        layout: 0xABCD,
        second_layout: 0xABCD,
        ..ClipSpec::default()
    };
    vec![
        (
            0x11_0001,
            "Push",
            ClipSpec {
                event_count: 1,
                events: vec![0x81; 21],
                rows: vec![[9; 12]; 2],
                ..clip(0x11_0001, push)
            },
        ),
        (0x11_0002, "Signals", clip(0x11_0002, signals)),
    ]
}

fn rr_object(id: u64, name: &str, spec: &ClipSpec) -> Vec<u8> {
    anvil_container::object64("Animation", id, name, Some(2), &anvil_clip::rr_body(spec))
}

fn rr_skeleton() -> (u64, Vec<u8>) {
    let body = anvil_clip::skeleton64(&bones(), BONES.len() as u32, 0);
    (0x5_0000_0500, anvil_container::object64("Skeleton", 0x5_0000_0500, "Rider", None, &body))
}

/// Every object of the Riders Republic archive.
fn rr_objects() -> Vec<(u64, &'static str, Vec<u8>)> {
    let (id, skeleton) = rr_skeleton();
    let mesh = anvil_container::object64("Mesh", 0x6_0000_0001, "Body", None, &[3; 700]);
    let mut all = vec![(id, "Skeleton", skeleton), (0x6_0000_0001, "Mesh", mesh)];
    all.extend(rr_clips().iter().map(|(id, name, spec)| (*id, "Animation", rr_object(*id, name, spec))));
    all
}

fn entry(id: u64, class: &str, payload: Vec<u8>) -> Entry {
    Entry { id, name: format!("{class}_{id:X}"), class: crc32(class.as_bytes()), payload }
}

fn rr_entries(container: &Container) -> Vec<Entry> {
    rr_objects()
        .into_iter()
        .map(|(id, class, object)| entry(id, class, anvil_container::pair64(container, &[(id, object)])))
        .collect()
}

/// An Animation's record of Shaun White: what it declares leaves out the table.
fn sws_object(name: &str, spec: &ClipSpec) -> Vec<u8> {
    let body = anvil_clip::sws_body(spec);
    let mut out = crc32(b"Animation").to_le_bytes().to_vec();
    out.extend((body.len() as u32 - 7 - 12 * spec.rows.len() as u32).to_le_bytes());
    out.extend((name.len() as u32).to_le_bytes());
    out.extend(name.as_bytes());
    out.push(1);
    out.extend(body);
    out
}

/// A NavMeshManager whose table does not stand where an Animation's does: the seed leaves it open.
fn odd_nav_mesh(id: u32) -> Vec<u8> {
    let mut out = anvil_container::object32("NavMeshManager", id, "", None, &[4; 30]);
    out[12] = 1;
    out.extend([0x77; 19]);
    out
}

/// Cells that start with their GridCellDataBlock; the second repeats a clip of the first.
fn sws_entries(container: &Container) -> Vec<Entry> {
    let clips = sws_clips();
    let skeleton =
        anvil_container::object32("Skeleton", 0x900, "Boarder", None, &anvil_clip::skeleton32(&bones())[9..]);
    let cell = |id: u32, clips: &[(u32, &str, ClipSpec)], others: Vec<(u64, Vec<u8>)>| {
        let mut objects =
            vec![(u64::from(id), anvil_container::object32("GridCellDataBlock", id, "", None, &[2; 40]))];
        objects.extend(others);
        objects.extend(clips.iter().map(|(id, name, spec)| (u64::from(*id), sws_object(name, spec))));
        let mut entry =
            entry(u64::from(id), "GridCellDataBlock", anvil_container::pair32(container, &objects));
        entry.name = format!("Level_{id:X}_DataBlock");
        entry
    };
    vec![
        cell(0x2001, &clips, vec![(0x900, skeleton)]),
        cell(0x2002, &clips[..1], vec![(0x901, odd_nav_mesh(0x901))]),
    ]
}

/// Converts the archive and gives the outcome and the files, without manifest and report.
fn convert(bytes: &[u8], name: &str, case: &dyn std::fmt::Debug) -> (Outcome, Files) {
    let folder = tempfile::tempdir().unwrap();
    let (input, out) = (folder.path().join(name), folder.path().join("out"));
    fs::write(&input, bytes).unwrap();
    let settings = Settings { threads: 1, ..Settings::new(vec![input], out.clone(), &Glb) };
    let outcome = batch::run::run(&settings, &mut Silent).unwrap();
    let report = || fs::read_to_string(out.join("report.txt")).unwrap_or_default();
    assert_eq!(outcome.errors, 0, "{case:?}: {}", report());
    (outcome, glbs(&out))
}

fn glbs(out: &Path) -> Files {
    walkdir::WalkDir::new(out)
        .into_iter()
        .map(|e| e.unwrap().into_path())
        .filter(|path| path.extension().is_some_and(|e| e == "glb"))
        .map(|path| {
            (path.strip_prefix(out).unwrap().to_string_lossy().replace('\\', "/"), fs::read(&path).unwrap())
        })
        .collect()
}

#[track_caller]
fn assert_files(found: &Files, expected: &Files, case: &dyn std::fmt::Debug) {
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{case:?}");
    for (name, bytes) in found {
        assert!(bytes == &expected[name], "{name} differs: {case:?}");
    }
}

/// What the plainest archive gives: stored, one table. The values themselves are compared by `anvil_readers`.
fn rr_expected() -> Files {
    let (outcome, files) = convert(
        &Forge::of(27).write(&rr_entries(&Container::of(27, 0, Pack::Stored))),
        "DataPC.forge",
        &"plain",
    );
    assert_eq!((outcome.clips, files.len()), (3, 3));
    files
}

fn sws_expected() -> Files {
    let (outcome, files) = convert(
        &Forge::of(25).write(&sws_entries(&Container::of(25, 0, Pack::Stored))),
        "DataPC.forge",
        &"plain",
    );
    assert_eq!((outcome.clips, outcome.repeated, files.len()), (2, 1, 2));
    files
}

/// Every version with every codec in every container form; tables, names and checksums go round beside them.
#[test]
fn every_version_codec_and_container_form_gives_the_same_files() {
    let (rr, sws) = (rr_expected(), sws_expected());
    let codecs = [
        (0, Pack::Stored),
        (1, Pack::Lzo1x),
        (2, Pack::Lzo2a),
        (3, Pack::Zstd),
        (4, Pack::Lz4),
        (8, Pack::OodleRaw),
    ];
    let sums = [Sum::AdlerFromZero, Sum::Crc32, Sum::Adler];
    let magics = [Container::MAGIC, 0x1014_FA99_57FB_AA34, 0x1015_FA99_57FB_AA35, 0x1016_FA99_57FB_AA36];
    let mut n = 0;
    for version in 25..=30 {
        for (algorithm, pack) in codecs {
            for count_width in [Some(2), Some(4), None] {
                for (container_version, size_width, block) in [(1, 2, 0x400), (0, 2, 0x8000), (2, 4, 0x40000)]
                {
                    n += 1;
                    let container = Container {
                        magic: magics[n % 4],
                        version: container_version,
                        algorithm,
                        pack,
                        sum: sums[n % 3],
                        block,
                        count_width,
                        size_width,
                    };
                    let usual = Forge::of(version);
                    let forge = Forge {
                        table: [1, 2, 3, 5000][n % 4],
                        empty_table: n % 2 == 0,
                        names: [usual.names, Names::None, usual.names][n % 3],
                        filedata: usual.filedata && n % 5 != 0,
                        prefix: n % 7 == 0,
                        special: n % 5 != 1,
                        ..usual
                    };
                    let case = (forge, container);
                    let (entries, expected) = if version <= 26 {
                        (sws_entries(&container), &sws)
                    } else {
                        (rr_entries(&container), &rr)
                    };
                    let (_, files) = convert(&forge.write(&entries), "DataPC.forge", &case);
                    assert_files(&files, expected, &case);
                }
            }
        }
    }
    assert_eq!(n, 6 * 6 * 3 * 3);
}

/// How an archive is laid out beyond what [`Forge`] knows.
#[derive(Debug, Clone, Copy, Default)]
struct Layout {
    version: u32,
    /// Tables and records behind the payloads, the last table first.
    tables_last: bool,
    /// Payloads start at multiples of this.
    align: usize,
    /// What the offsets of empty tables hold; an empty one stands between all others.
    empty: Option<u64>,
    /// The payloads in the other order than the records.
    backwards: bool,
    /// Not padded at the end.
    unpadded: bool,
    /// Name records are there, or their offset is this.
    no_names: Option<u64>,
}

/// One entry a table.
fn laid_out(entries: &[Entry], layout: Layout) -> Vec<u8> {
    let narrow = layout.version <= 26;
    let (header_at, first_at) = if narrow { (0x416usize, 0x43E) } else { (0x41A, 0x446) };
    let (index_width, name_width) = if narrow { (16, 188) } else { (20, 192) };
    // Tables: one for each entry, with an empty one before each where that is asked for.
    let tables: Vec<Option<usize>> =
        (0..entries.len()).flat_map(|i| layout.empty.map(|_| None).into_iter().chain([Some(i)])).collect();
    let size = |t: &Option<usize>| 48 + t.map_or(0, |_| index_width + name_width);
    let all: usize = tables.iter().map(size).sum();
    let payloads_at = if layout.tables_last { first_at } else { first_at + all };
    let mut offsets = vec![0; entries.len()];
    let mut at = payloads_at;
    let order: Vec<usize> =
        if layout.backwards { (0..entries.len()).rev().collect() } else { (0..entries.len()).collect() };
    for &i in &order {
        at = at.next_multiple_of(layout.align.max(1));
        offsets[i] = at;
        at += entries[i].payload.len();
    }
    // Behind the payloads the chain runs backwards through the file.
    let mut table_at = vec![0; tables.len()];
    let mut next = if layout.tables_last { at } else { first_at };
    let table_order: Vec<usize> =
        if layout.tables_last { (0..tables.len()).rev().collect() } else { (0..tables.len()).collect() };
    for &t in &table_order {
        table_at[t] = next;
        next += size(&tables[t]);
    }
    let mut out = vec![0; at.max(next)];
    let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"scimitar\0");
    put(9, &layout.version.to_le_bytes());
    put(13, &(header_at as u64).to_le_bytes());
    put(header_at, &(entries.len() as u32).to_le_bytes());
    put(header_at + if narrow { 0x20 } else { 0x24 }, &(table_at[0] as u64).to_le_bytes());
    for (t, table) in tables.iter().enumerate() {
        let at = table_at[t];
        let after = table_at.get(t + 1).map_or(u64::MAX, |at| *at as u64);
        let (index, names) = match (table, layout.no_names) {
            (None, _) => (layout.empty.unwrap(), layout.empty.unwrap()),
            (Some(_), None) => (at as u64 + 48, (at + 48 + index_width) as u64),
            (Some(_), Some(names)) => (at as u64 + 48, names),
        };
        put(at, &u32::from(table.is_some()).to_le_bytes());
        put(at + 8, &index.to_le_bytes());
        put(at + 16, &after.to_le_bytes());
        put(at + 32, &names.to_le_bytes());
        put(at + 40, &names.to_le_bytes());
        let Some(i) = *table else { continue };
        let entry = &entries[i];
        let record = at + 48;
        put(record, &(offsets[i] as u64).to_le_bytes());
        put(record + 8, &entry.id.to_le_bytes()[..if narrow { 4 } else { 8 }]);
        put(record + index_width - 4, &(entry.payload.len() as u32).to_le_bytes());
        if layout.no_names.is_none() {
            let record = record + index_width;
            put(record, &(entry.payload.len() as u32).to_le_bytes());
            put(record + 16, &entry.class.to_le_bytes());
            put(record + 44, entry.name.as_bytes());
        }
    }
    for (entry, &offset) in entries.iter().zip(&offsets) {
        put(offset, &entry.payload);
    }
    if !layout.unpadded {
        out.resize(out.len().next_multiple_of(0x8000), 0);
    }
    out
}

#[test]
fn tables_anywhere_and_entries_in_any_order_give_the_same_files() {
    let (rr, sws) = (rr_expected(), sws_expected());
    let rr_entries = rr_entries(&Container::of(27, 3, Pack::Zstd));
    let sws_entries = sws_entries(&Container::of(25, 2, Pack::Lzo2a));
    for (version, entries, expected) in
        [(27, &rr_entries, &rr), (28, &rr_entries, &rr), (26, &sws_entries, &sws)]
    {
        let usual = Layout { version, ..Layout::default() };
        for layout in [
            usual,
            Layout { tables_last: true, ..usual },
            Layout { tables_last: true, unpadded: true, ..usual },
            Layout { align: 0x800, unpadded: true, ..usual },
            Layout { empty: Some(0), ..usual },
            Layout { empty: Some(u64::MAX), tables_last: true, ..usual },
            Layout { empty: Some(1 << 40), ..usual },
            Layout { backwards: true, align: 0x10, ..usual },
            Layout { no_names: Some(0), ..usual },
            Layout { no_names: Some(u64::MAX), backwards: true, tables_last: true, ..usual },
        ] {
            let (_, files) = convert(&laid_out(entries, layout), "DataPC.forge", &layout);
            assert_files(&files, expected, &layout);
        }
    }
    // The order of the records: the skeleton may come last. (Of Shaun White's cells the first place of a clip counts.)
    let mut turned = rr_entries.clone();
    turned.reverse();
    let (_, files) = convert(&Forge::of(27).write(&turned), "DataPC.forge", &"turned");
    assert_files(&files, &rr, &"turned");
}

#[test]
fn versions_42_and_50_give_the_same_files() {
    let rr = rr_expected();
    for (algorithm, pack) in [(3, Pack::Zstd), (4, Pack::Lz4), (4, Pack::OodleRaw)] {
        let container = Container { version: 3, size_width: 4, ..Container::of(42, algorithm, pack) };
        let entries = rr_entries(&container);
        for version in [42, 50] {
            let (_, files) = convert(&anvil_container::flat(version, &entries), "DataPC.forge", &version);
            assert_files(&files, &rr, &version);
        }
    }
}

/// How resources share entries and containers is the packer's affair.
#[test]
fn resources_in_one_container_or_many_give_the_same_files() {
    let rr = rr_expected();
    let zstd = Container::of(27, 3, Pack::Zstd);
    let objects: Vec<(u64, Vec<u8>)> = rr_objects().into_iter().map(|(id, _, object)| (id, object)).collect();
    let all: Vec<u8> = objects.iter().flat_map(|(_, o)| o.clone()).collect();
    let sizes: Vec<(u64, usize)> = objects.iter().map(|(id, o)| (*id, o.len())).collect();
    let pair = |objects: &[(u64, Vec<u8>)]| anvil_container::pair64(&zstd, objects);
    let half = all.len() / 2;
    let siege = {
        let mut directory = (sizes.len() as u32).to_le_bytes().to_vec();
        for (id, size) in &sizes {
            directory.extend(id.to_le_bytes());
            directory.extend((*size as u32).to_le_bytes());
        }
        directory
    };
    let directory = |extras| zstd.write(&anvil_container::directory64(&sizes, extras));
    let streaming = Container { count_width: None, ..zstd };
    let payloads = [
        ("one pair", pair(&objects)),
        ("several pairs", [pair(&objects[..2]), pair(&objects[2..3]), pair(&objects[3..])].concat()),
        ("extras", [directory(3), zstd.write(&all)].concat()),
        ("a 32-bit count", [zstd.write(&siege), zstd.write(&all)].concat()),
        (
            "objects over two containers",
            [directory(0), zstd.write(&all[..half]), zstd.write(&all[half..])].concat(),
        ),
        ("table, then streaming", [directory(0), streaming.write(&all)].concat()),
        (
            "streaming, then table",
            [streaming.write(&anvil_container::directory64(&sizes, 0)), zstd.write(&all)].concat(),
        ),
        ("no directory", zstd.write(&all)),
        (
            "a sum before each container",
            [&[1, 2, 3, 4][..], &directory(0), &[5, 6, 7, 8], &zstd.write(&all)].concat(),
        ),
        ("an empty pair first", [zstd.write(&[0, 0]), zstd.write(&[]), pair(&objects)].concat()),
        ("an empty directory first", [zstd.write(&[0, 0]), pair(&objects)].concat()),
        ("no container", all.clone()),
    ];
    for (case, payload) in &payloads {
        // The class of the first object: a mesh in front must hide nothing.
        for class in ["Skeleton", "Mesh", "World"] {
            let forge = Forge::of(27).write(&[entry(objects[0].0, class, payload.clone())]);
            let (_, files) = convert(&forge, "DataPC.forge", case);
            assert_files(&files, &rr, case);
        }
        if *case != "no container" {
            let (_, files) = convert(payload, "DataPC.data", case);
            let content = |files: &Files| files.keys().cloned().collect::<Vec<_>>();
            assert_eq!(content(&files), content(&rr), "{case}");
        }
    }
    // A FILEDATA header where the version has none, and none where it has.
    let entries = rr_entries(&zstd);
    for forge in
        [Forge { filedata: true, ..Forge::of(27) }, Forge { filedata: true, prefix: true, ..Forge::of(28) }]
    {
        let (_, files) = convert(&forge.write(&entries), "DataPC.forge", &forge);
        assert_files(&files, &rr, &forge);
    }
}

/// Loose files: with the name header, and without it, when the file's name is the clip's.
#[test]
fn loose_files_hold_the_same_clips() {
    let expected = rr_expected();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("in")).unwrap();
    let (_, skeleton) = rr_skeleton();
    for (id, name, spec) in rr_clips() {
        let body = anvil_clip::rr_body(&spec);
        fs::write(at(&format!("in/{name}.Animation")), rr_object(id, name, &spec)).unwrap();
        for rows in [None, Some(0), Some(5)] {
            let bytes = anvil_container::toolkit64(crc32(b"Animation"), id, rows, &body);
            let number = rows.map_or(9, |n| 10 + n);
            fs::write(at(&format!("in/{number}_-_{name}.Animation")), bytes).unwrap();
        }
    }
    fs::write(at("in/Rider.Skeleton"), skeleton).unwrap();
    let out = at("out");
    let outcome = batch::run::run(
        &Settings { threads: 1, ..Settings::new(vec![at("in")], out.clone(), &Glb) },
        &mut Silent,
    )
    .unwrap();
    assert_eq!((outcome.errors, outcome.clips), (0, 4 * 3));
    // What tells the files apart is the JSON (names, sources); the keys are the binary chunk.
    let keys = |bytes: &[u8]| {
        let json = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
        bytes[20 + json..].to_vec()
    };
    let files = glbs(&out);
    for (name, bytes) in &expected {
        let name = name.rsplit('/').next().unwrap();
        for prefix in ["", "9_-_", "10_-_", "15_-_"] {
            assert_eq!(keys(&files[&format!("{prefix}{name}")]), keys(bytes), "{prefix}{name}");
        }
    }
}

/// Bodies of both games at the edges of what the notes allow; the Khronos validator has nothing to say of them.
#[test]
fn clips_at_the_edges_convert() {
    let ticks = |n: u32| (0..n).map(|k| 4 * k).collect::<Vec<_>>();
    let edge = |tracks: Vec<TrackSpec>, length_s: f32| ClipSpec { length_s, tracks, ..ClipSpec::default() };
    let cases = [
        ("no tracks", edge(Vec::new(), 1.0)),
        ("no length", edge(vec![track("Hips", 4, 0, vec![0], quats(1, 3))], 0.0)),
        ("keys past the length", edge(vec![track("Hips", 4, 0, ticks(20), quats(20, 3))], 0.5)),
        ("keys short of the length", edge(vec![track("Hips", 4, 0, ticks(3), quats(3, 3))], 2.5)),
        (
            "two rotations of one bone",
            edge(
                vec![track("Hips", 5, 0, ticks(4), quats(4, 1)), track("Hips", 4, 0, ticks(4), quats(4, 2))],
                1.0,
            ),
        ),
        (
            "rotation before translation",
            edge(
                vec![track("Hips", 4, 0, ticks(4), quats(4, 1)), track("Hips", 9, 0, ticks(4), positions(4))],
                1.0,
            ),
        ),
        ("only opaque", edge(vec![track("Signal", 11, 0, ticks(4), Keys::Raw(1, vec![1, 2, 3, 4]))], 1.0)),
        ("an unknown bone", edge(vec![track("NoSuchBone_17", 4, 1, ticks(4), quats(4, 2))], 1.0)),
        ("late first mask bit", edge(vec![track("Hips", 4, 2, vec![9, 60, 63], quats(3, 2))], 3.0)),
    ];
    let kept = tempfile::tempdir().unwrap();
    let mut written = Vec::new();
    let mut keep = |files: Files| {
        assert_eq!(files.len(), 1);
        for bytes in files.values() {
            written.push(kept.path().join(format!("{}.glb", written.len())));
            fs::write(written.last().unwrap(), bytes).unwrap();
        }
    };
    for (i, (case, spec)) in cases.iter().enumerate() {
        let (id, skeleton) = rr_skeleton();
        let mut rr = spec.clone();
        for track in &mut rr.tracks {
            // Opaque kinds have other numbers here.
            track.kind = if track.kind == 11 { 16 } else { track.kind };
        }
        let zstd = Container::of(27, 3, Pack::Zstd);
        let clip = 0x7_0000_0000 + i as u64;
        let entries = [
            entry(id, "Skeleton", anvil_container::pair64(&zstd, &[(id, skeleton)])),
            entry(clip, "Animation", anvil_container::pair64(&zstd, &[(clip, rr_object(clip, "Edge", &rr))])),
        ];
        let (outcome, files) = convert(&Forge::of(27).write(&entries), "DataPC.forge", case);
        assert_eq!(outcome.clips, 1, "{case}");
        keep(files);
        let mut sws = ClipSpec { id: 0x44, ..spec.clone() };
        if sws.tracks.iter().any(|t| t.form == 2) {
            continue;
        }
        sws.tracks.iter_mut().for_each(|t| t.form = 0);
        let lzo = Container::of(25, 2, Pack::Lzo2a);
        let objects = [
            (
                0x900,
                anvil_container::object32(
                    "Skeleton",
                    0x900,
                    "Boarder",
                    None,
                    &anvil_clip::skeleton32(&bones())[9..],
                ),
            ),
            (0x44, sws_object("Edge", &sws)),
        ];
        let entries = [entry(0x900, "Skeleton", anvil_container::pair32(&lzo, &objects))];
        let (outcome, files) = convert(&Forge::of(25).write(&entries), "DataPC.forge", case);
        assert_eq!(outcome.clips, 1, "{case}");
        keep(files);
    }
    if let Some(node_modules) = anim2gltf_testkit::tool("ANIM2GLTF_NODE_MODULES") {
        anim2gltf_testkit::khronos::validate(&written, &node_modules);
    }
}

/// An event made to look like everything from AnimTrackData to the end: an empty list of tracks, and a buffer over
/// what follows. The true one has more tracks.
#[test]
fn an_event_that_swallows_the_clip_misleads_nobody() {
    let rr = rr_expected();
    let (id, name, mut spec) = rr_clips().swap_remove(0);
    // The last four bytes of the body are zeros: to the event's reading, no tracks.
    let last = spec.tracks.last_mut().unwrap();
    *last = track("Reference", 9, 0, vec![0, 56], Keys::Vec3(vec![[0.1, 0.2, 0.3], [0.4, 0.0, 0.0]]));
    let honest = ClipSpec { event_count: 1, events: vec![0; 64], ..spec.clone() };
    let size = anvil_clip::rr_body(&honest).len();
    let swallow = |size: usize| {
        let mut event = vec![0; 9];
        event.extend(anvil_clip::ANIM_TRACK_DATA.to_le_bytes());
        event.extend([0; 4 + 4 + 2]);
        event.push(3);
        // From the start of the events, whose place follows from the fields before: 29 bytes.
        let behind = 29 + event.len() + 4;
        event.extend(((size - behind - 8) as u32).to_le_bytes());
        event.resize(64, 0);
        event
    };
    let spec = ClipSpec { event_count: 1, events: swallow(size), ..spec };
    let object = rr_object(id, name, &spec);
    let source = anim2gltf::games::anvil::container::file::AnvilFile::new(
        Box::new(object),
        Path::new("Walk.Animation"),
        &anim2gltf::games::anvil::container::file::Options::default(),
    )
    .unwrap();
    let mut scratch = anim2gltf::games::anvil::container::file::Scratch::new();
    let mut seen = 0;
    source
        .for_each_object(0, &mut scratch, &mut |object| {
            let clip =
                anim2gltf::games::anvil::animation::riders_republic::read(&object.unwrap(), "").unwrap();
            assert_eq!(clip.tracks.len(), spec.tracks.len());
            assert_eq!(clip.extras["eventByteLength"], 64);
            assert!(clip.warnings.iter().any(|w| w.to_string().contains("2 places")), "{:?}", clip.warnings);
            seen += 1;
        })
        .unwrap();
    assert_eq!(seen, 1);
    assert_eq!(rr.len(), 3);
}

/// Memory that the program may ask for on a damaged archive, in KiB: a hundred times what these hold.
#[cfg(unix)]
const MEMORY_KIB: u32 = 600 << 10;

/// Runs the program within [`MEMORY_KIB`]: its exit code, and what it said on standard error.
#[cfg(unix)]
fn confined(arguments: &[&str], case: &str) -> (i32, String) {
    let mut child = std::process::Command::new("sh")
        .args([
            "-c",
            &format!("ulimit -v {MEMORY_KIB} && exec \"$@\""),
            "sh",
            env!("CARGO_BIN_EXE_anim2gltf"),
        ])
        .args(arguments)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let start = std::time::Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed().as_secs() > 60 {
            child.kill().unwrap();
            panic!("{case}: no end after a minute");
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let output = child.wait_with_output().unwrap();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Flipped bits, extreme bytes, zeroed ranges and cuts, through the program itself: it ends, within its memory, and
/// where it could not do everything it says why.
#[cfg(unix)]
#[test]
fn damaged_archives_end_with_a_code_and_a_line() {
    let mut inputs: Vec<(String, Vec<u8>)> = Vec::new();
    for (algorithm, pack) in [(3, Pack::Zstd), (4, Pack::Lz4), (1, Pack::Lzo1x)] {
        let forge = Forge { table: 2, ..Forge::of(27) };
        inputs.push((
            format!("rr-{pack:?}.forge"),
            forge.write(&rr_entries(&Container::of(27, algorithm, pack))),
        ));
    }
    let streaming = Container { count_width: None, ..Container::of(27, 3, Pack::Zstd) };
    inputs.push(("streaming.forge".into(), Forge::of(30).write(&rr_entries(&streaming))));
    inputs.push(("sws.forge".into(), Forge::of(25).write(&sws_entries(&Container::of(25, 2, Pack::Lzo2a)))));
    for (id, name, spec) in rr_clips() {
        inputs.push((format!("{name}.Animation"), rr_object(id, name, &spec)));
    }
    if let Some(shared) = anim2gltf_testkit::shared() {
        for file in ["rr/DataPC_odd.forge", "rr/RID_Pack.data", "sws/DataPC_lzo1x_v26.forge"] {
            let name = file.rsplit('/').next().unwrap();
            inputs.push((name.to_owned(), fs::read(shared.join("fixtures/anvil").join(file)).unwrap()));
        }
    }
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let mut random = |n: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % n.max(1) as u64) as usize
    };
    let folder = tempfile::tempdir().unwrap();
    let (mut whole, mut damaged) = (0, 0);
    for (name, bytes) in &inputs {
        let path = folder.path().join(name);
        // What lies behind the last byte that is not 0 is padding.
        let used = bytes.len() - bytes.iter().rev().take_while(|b| **b == 0).count();
        for i in 0..24 {
            let mut bytes = bytes.clone();
            // Half of the damage where the tables and headers are.
            let place = if i % 2 == 0 { random(used.min(0x1800)) } else { random(used) };
            match i % 4 {
                0 => (0..=random(5)).for_each(|_| {
                    let at = random(used);
                    bytes[at] ^= 1 << random(8);
                }),
                1 => bytes[place] = [0, 1, 0x7F, 0x80, 0xFF][random(5)],
                2 => {
                    let end = (place + [1, 4, 8, 64, 4096][random(5)]).min(used);
                    bytes[place..end].fill([0, 0xFF][random(2)]);
                }
                _ => bytes.truncate(place / 64 * 64),
            }
            fs::write(&path, bytes).unwrap();
            let case = format!("{name}, damage {i}");
            for check in [true, false] {
                let out = folder.path().join("out");
                let (path, out) = (path.to_str().unwrap(), out.to_str().unwrap());
                let arguments: &[&str] =
                    if check { &["check", path, "-j", "1"] } else { &[path, "-o", out, "-q", "-j", "1"] };
                let (code, said) = confined(arguments, &case);
                assert!((0..=2).contains(&code), "{case}: {code}: {said}");
                assert!(!said.contains("panicked") && !said.contains("memory allocation"), "{case}: {said}");
                if code == 0 {
                    whole += 1;
                } else {
                    damaged += 1;
                    assert!(said.lines().any(|l| l.starts_with("error: ")), "{case}: {code}, {said:?}");
                }
            }
        }
    }
    assert!(whole > 0 && damaged > inputs.len(), "{whole} whole, {damaged} damaged");
}
