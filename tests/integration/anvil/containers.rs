//! Anvil's containers: the independent fixtures, archives that the tests write from the format notes, and damage.

use anim2gltf_testkit::anvil_container as writer;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anim2gltf::games::GAMES;
use anim2gltf::games::anvil::container::codec::Codec;
use anim2gltf::games::anvil::container::file as anvil;
use anim2gltf::games::anvil::container::file::{AnvilFile, Kind, Options, Scratch};
use anim2gltf::games::anvil::container::object::{Generation, class};
use anim2gltf::source::skeletons::Skeletons;
use anim2gltf::source::survey::survey;
use anim2gltf::source::{self, ReadOptions};
use anim2gltf::{Error, ErrorKind, Result};
use anim2gltf_testkit::anvil_container::{Container, Entry, Forge, Names, Pack, Sum, crc32};
use serde_json::Value;

/// An object without its borrow.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Found {
    entry: u64,
    generation: Generation,
    class: u32,
    id: u64,
    name: String,
    header: usize,
    body: Vec<u8>,
}

/// Everything that a source gives: objects, errors of any kind, notes of any kind.
#[derive(Debug, Default)]
struct Read {
    objects: Vec<Found>,
    errors: Vec<String>,
    notes: Vec<String>,
}

fn read(source: &AnvilFile) -> Read {
    let mut read = Read { notes: source.notes().to_vec(), ..Read::default() };
    read.errors.extend(source.faults().iter().map(Error::to_string));
    let mut scratch = Scratch::new();
    for (i, entry) in source.entries().iter().enumerate() {
        let (objects, errors) = (&mut read.objects, &mut read.errors);
        let result = source.for_each_object(i, &mut scratch, &mut |object| match object {
            Ok(o) => objects.push(Found {
                entry: entry.id,
                generation: o.generation,
                class: o.class,
                id: o.id,
                name: o.name,
                header: o.header.len(),
                body: o.body.to_vec(),
            }),
            Err(e) => errors.push(e.to_string()),
        });
        errors.extend(result.err().map(|e| e.to_string()));
        read.notes.extend_from_slice(scratch.notes());
    }
    read
}

fn open_bytes(bytes: Vec<u8>, name: &str) -> Result<AnvilFile> {
    AnvilFile::new(Box::new(bytes), Path::new(name), &Options::default())
}

fn read_bytes(bytes: Vec<u8>, name: &str) -> Read {
    match open_bytes(bytes, name) {
        Ok(source) => read(&source),
        Err(e) => Read { errors: vec![e.to_string()], ..Read::default() },
    }
}

// ---- the independent fixtures

fn fixtures() -> Option<(PathBuf, Value)> {
    let folder = anim2gltf_testkit::shared()?.join("fixtures/anvil");
    let text = std::fs::read_to_string(folder.join("expected.json")).unwrap();
    Some((folder, serde_json::from_str(&text).unwrap()))
}

fn id(clip: &Value) -> (u64, String) {
    (
        u64::from_str_radix(clip["id"].as_str().unwrap(), 16).unwrap(),
        clip["name"].as_str().unwrap().to_owned(),
    )
}

#[test]
fn every_fixture_gives_the_animations_that_are_expected_of_it() {
    let Some((folder, expected)) = fixtures() else { return };
    let files = expected["files"].as_object().unwrap();
    assert_eq!(files.len(), 14);
    for (file, value) in files {
        let source = anvil::open(&folder.join(file), &Options::default()).unwrap();
        let read = read(&source);
        assert_eq!(read.errors, Vec::<String>::new(), "{file}");
        let rr = file.starts_with("rr/");
        let generation = if rr { Generation::Ids64 } else { Generation::Ids32 };
        assert!(read.objects.iter().all(|o| o.generation == generation), "{file}");

        let clips: BTreeSet<_> = value["clips"].as_array().unwrap().iter().map(id).collect();
        let found: BTreeSet<_> = read
            .objects
            .iter()
            .filter(|o| o.class == class::ANIMATION)
            .map(|o| (o.id, o.name.clone()))
            .collect();
        assert_eq!(found, clips, "{file}");
        let skeletons = read.objects.iter().filter(|o| o.class == class::SKELETON).count();
        assert_eq!(skeletons > 0, value["skeleton"].as_bool().unwrap_or(false), "{file}");
        let sets = read.objects.iter().filter(|o| o.class == class::ANIM_SET).count();
        assert_eq!(sets > 0, value["animset"].as_bool().unwrap_or(false), "{file}");
        for o in read.objects.iter().filter(|o| o.class == class::ANIMATION) {
            // the body starts where its reader expects it
            if rr {
                assert_eq!(o.body[0], 1, "{file} {}", o.name);
                assert_eq!(o.header % 12, 8);
            } else {
                assert_eq!(&o.body[..3], [2, 0, 0], "{file} {}", o.name);
            }
        }
        if source.kind() == Kind::Forge {
            assert!(source.entries().iter().all(|e| e.name.is_some() && e.class.is_some()), "{file}");
            assert!(source.entries().iter().all(|e| e.id != 0x10 && e.id != 0x91), "{file}");
        }
    }
}

#[test]
fn a_cell_starts_with_its_grid_cell_data_block() {
    let Some((folder, _)) = fixtures() else { return };
    for file in ["sws/DataPC_lzo2a_v25.forge", "sws/DataPC_lzo1x_v26.forge", "sws/DataPC_stored_v25.forge"] {
        let source = anvil::open(&folder.join(file), &Options::default()).unwrap();
        let read = read(&source);
        assert_eq!(read.notes, Vec::<String>::new(), "{file}");
        assert_eq!(source.entries().len(), 3);
        for entry in source.entries() {
            let first = read.objects.iter().find(|o| o.entry == entry.id).unwrap();
            assert_eq!((first.class, first.id), (class::GRID_CELL_DATA_BLOCK, entry.id));
        }
        // the second cell repeats clips of the first, to the byte
        let clips: Vec<_> = read.objects.iter().filter(|o| o.class == class::ANIMATION).collect();
        let distinct: BTreeSet<_> = clips.iter().map(|o| (o.id, &o.body)).collect();
        assert!(distinct.len() < clips.len());
        assert_eq!(distinct.iter().map(|d| d.0).collect::<BTreeSet<_>>().len(), distinct.len());
    }
}

#[test]
fn fixture_codecs_and_open_questions_are_told() {
    let Some((folder, _)) = fixtures() else { return };
    for (file, codec) in [
        ("rr/DataPC_zstd.forge", Codec::Zstd),
        ("rr/DataPC_lz4.forge", Codec::Lz4),
        ("rr/DataPC_lzo1x.forge", Codec::Lzo1x),
        ("rr/DataPC_stored.forge", Codec::Stored),
        ("sws/DataPC_lzo2a_v25.forge", Codec::Lzo2a),
        ("sws/DataPC_lzo1x_v26.forge", Codec::Lzo1x),
        ("sws/DataPC_stored_v25.forge", Codec::Stored),
    ] {
        let source = anvil::open(&folder.join(file), &Options::default()).unwrap();
        let mut scratch = Scratch::new();
        let mut codecs = BTreeSet::new();
        for i in 0..source.entries().len() {
            let unpacked = source.unpack(i, &mut scratch).unwrap();
            codecs.extend(unpacked.containers.iter().map(|c| c.form.codec).filter(|&c| c != Codec::Stored));
        }
        let expected = if codec == Codec::Stored { BTreeSet::new() } else { BTreeSet::from([codec]) };
        assert_eq!(codecs, expected, "{file}");
    }
}

#[test]
fn what_was_decided_is_told_once() {
    let Some((folder, _)) = fixtures() else { return };
    let source = anvil::open(&folder.join("rr/DataPC_odd.forge"), &Options::default()).unwrap();
    let mut scratch = Scratch::new();
    for i in 0..source.entries().len() {
        source.for_each_object(i, &mut scratch, &mut |_| {}).unwrap();
    }
    let decided = source.assumptions();
    println!("{decided:#?}");
    for part in
        ["streaming form", "CRC-32", "Adler-32 from 0", "lzo1x", "directories as records of 64-bit ids"]
    {
        assert!(decided.iter().any(|d| d.contains(part)), "{part}: {decided:?}");
    }
}

#[test]
fn every_bad_fixture_is_one_clear_error_or_left_to_the_reader_of_the_body() {
    let Some((folder, expected)) = fixtures() else { return };
    for (file, why) in expected["bad"].as_object().unwrap() {
        let read = match anvil::open(&folder.join(file), &Options::default()) {
            Ok(source) => read(&source),
            Err(e) => Read { errors: vec![e.to_string()], ..Read::default() },
        };
        println!("{file} ({why}): {} objects, {:?}", read.objects.len(), read.errors);
        match file.rsplit('/').next().unwrap() {
            // whole containers around a damaged body
            "clip_mappings.Animation" | "sws_size_word.Animation" => {
                assert_eq!((read.objects.len(), read.errors.len()), (1, 0), "{file}");
            }
            // what is readable is still given
            "truncated.forge" | "fat_cycle.forge" => {
                assert_eq!(read.objects.len(), 12, "{file}");
                assert_eq!(read.errors.len(), 1, "{file}: {:?}", read.errors);
            }
            "clip_cut.Animation" | "clip_tail.Animation" => {
                // a size that was made to fit is the body's affair
                assert_eq!(read.objects.len() + read.errors.len(), 1, "{file}: {:?}", read.errors);
            }
            _ => {
                assert_eq!(read.objects.len(), 0, "{file}");
                assert_eq!(read.errors.len(), 1, "{file}: {:?}", read.errors);
                let error = &read.errors[0];
                assert!(error.contains("offset 0x") && error.contains("expected"), "{error}");
            }
        }
    }
}

/// Cut short and with flipped bits: an error or success, never a panic.
#[test]
fn damaged_fixtures_never_panic() {
    let Some((folder, expected)) = fixtures() else { return };
    let mut state = 0x2545_F491u32;
    let mut random = move |n: usize| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as usize % n
    };
    for (file, value) in expected["files"].as_object().unwrap() {
        // without the name header no size is stated: only the body's reader can miss bytes
        let sized = value.get("toolkit").is_none();
        let bytes = std::fs::read(folder.join(file)).unwrap();
        let whole = read_bytes(bytes.clone(), file);
        for i in 0..60 {
            let cut = if i < 24 { bytes.len() * i / 24 } else { random(bytes.len()) };
            let read = read_bytes(bytes[..cut].to_vec(), file);
            // Cut within its padding on a page of some size, an archive is as some writer could end it.
            let is_page = cut.is_multiple_of(0x40) && bytes[cut..].iter().all(|b| *b == 0);
            assert!(!read.errors.is_empty() || !sized || is_page, "{file} cut at {cut}");
            assert!(!is_page || read.objects == whole.objects, "{file} cut at {cut}");
        }
        for _ in 0..60 {
            let mut bytes = bytes.clone();
            // half of the flips in the first 0x1000 bytes, where the structure is
            for k in 0..1 + random(4) {
                let at = random(if k % 2 == 0 { bytes.len().min(0x1000) } else { bytes.len() });
                bytes[at] ^= 1 << random(8);
            }
            read_bytes(bytes, file);
        }
    }
}

// ---- archives written here

/// Bytes that pack somewhat.
fn body(n: usize, seed: u32) -> Vec<u8> {
    (0..n as u32)
        .map(|i| ((i * 7 + seed) >> 4) as u8 ^ if i % 29 == 0 { (i * seed) as u8 } else { 0 })
        .collect()
}

/// Three 64-bit entries: a large one of several blocks, one of two objects, one with an extended header.
fn entries64(container: &Container) -> Vec<Entry> {
    let objects = [
        vec![(
            0x1_0000_0001u64,
            writer::object64("Animation", 0x1_0000_0001, "Walk", Some(3), &body(100_000, 3)),
        )],
        vec![
            (0x2_0000_0001, writer::object64("Skeleton", 0x2_0000_0001, "Rig", None, &body(700, 5))),
            (0x2_0000_0002, writer::object64("Mesh", 0x2_0000_0002, "Body", None, &body(900, 7))),
        ],
        vec![(0x3_0000_0001, writer::object64("Animation", 0x3_0000_0001, "Run", Some(0), &body(2000, 9)))],
    ];
    let classes = ["Animation", "Skeleton", "Animation"];
    objects
        .iter()
        .zip(classes)
        .map(|(objects, class)| Entry {
            id: objects[0].0,
            name: format!("{class}_{:X}", objects[0].0),
            class: crc32(class.as_bytes()),
            payload: writer::pair64(container, objects),
        })
        .collect()
}

/// Two cells with block-allocator objects.
fn entries32(container: &Container) -> Vec<Entry> {
    let cell = |id: u32, n: usize| {
        let objects = vec![
            (id as u64, writer::object32("GridCellDataBlock", id, "", None, &body(50, 1))),
            (77, writer::object32("Animation", 77, "Push", Some(2), &body(n, 3))),
            (78, writer::object32("NavMeshManager", 78, "", Some(0), &body(40, 5))),
            (79, writer::object32("Skeleton", 79, "Rig", None, &body(300, 7))),
        ];
        Entry {
            id: id as u64,
            name: format!("Cell_{id}_DataBlock"),
            class: crc32(b"GridCellDataBlock"),
            payload: writer::pair32(container, &objects),
        }
    };
    vec![cell(0x1001, 400), cell(0x1002, 120_000)]
}

fn expect64(read: &Read) {
    assert_eq!(read.errors, Vec::<String>::new());
    let found: Vec<_> = read.objects.iter().map(|o| (o.id, o.name.as_str(), o.header, &o.body)).collect();
    assert_eq!(
        found,
        [
            (0x1_0000_0001, "Walk", 8 + 36, &body(100_000, 3)),
            (0x2_0000_0001, "Rig", 1, &body(700, 5)),
            (0x2_0000_0002, "Body", 1, &body(900, 7)),
            (0x3_0000_0001, "Run", 8, &body(2000, 9)),
        ]
    );
}

fn expect32(read: &Read) {
    assert_eq!(read.errors, Vec::<String>::new());
    let managed = |id: u32, class: &str, fields: Vec<u8>| {
        [&[1][..], &id.to_le_bytes(), &crc32(class.as_bytes()).to_le_bytes(), &fields].concat()
    };
    let table = |rows: u32, rest: Vec<u8>| {
        let rows_bytes: Vec<u8> = (0..12 * rows).map(|i| i as u8).collect();
        [&[2, 0, 0][..], &rows.to_le_bytes(), &rows_bytes, &rest].concat()
    };
    let cell = |id: u32, n: usize| {
        vec![
            (id as u64, String::new(), managed(id, "GridCellDataBlock", body(50, 1))),
            (77, "Push".to_owned(), table(2, managed(77, "Animation", body(n, 3)))),
            (78, String::new(), table(0, managed(78, "NavMeshManager", body(40, 5)))),
            (79, "Rig".to_owned(), managed(79, "Skeleton", body(300, 7))),
        ]
    };
    let found: Vec<_> = read.objects.iter().map(|o| (o.id, o.name.clone(), o.body.clone())).collect();
    assert_eq!(found, [cell(0x1001, 400), cell(0x1002, 120_000)].concat());
    assert!(read.objects.iter().all(|o| o.generation == Generation::Ids32 && o.header == 0));
}

#[test]
fn every_version_and_codec() {
    for version in [25, 26] {
        for (algorithm, pack) in [(1, Pack::Lzo1x), (2, Pack::Lzo2a), (0, Pack::Stored)] {
            let entries = entries32(&Container::of(version, algorithm, pack));
            let read = read_bytes(Forge::of(version).write(&entries), "DataPC.forge");
            expect32(&read);
            assert_eq!(read.notes, Vec::<String>::new());
        }
    }
    for version in [27, 28, 29, 30] {
        for (algorithm, pack) in [
            (0, Pack::Lzo1x),
            (3, Pack::Zstd),
            (4, Pack::Lz4),
            (2, Pack::Lzo2a),
            (8, Pack::OodleRaw),
            (7, Pack::Stored),
            (3, Pack::OodleRaw),
            (13, Pack::Lz4),
        ] {
            let mut container = Container::of(version, algorithm, pack);
            (container.version, container.size_width) = (2, 4);
            let bytes = Forge::of(version).write(&entries64(&container));
            let source = open_bytes(bytes, "DataPC.forge").unwrap();
            assert_eq!(source.forge_version(), Some(version));
            let names: Vec<_> = source.entries().iter().map(|e| e.display_name()).collect();
            assert_eq!(names, ["Animation_100000001", "Skeleton_200000001", "Animation_300000001"]);
            assert_eq!(source.entries()[1].class, Some(class::SKELETON));
            let read = read(&source);
            expect64(&read);
            assert_eq!(read.notes, Vec::<String>::new(), "{version} {pack:?}");
        }
    }
}

#[test]
fn every_form_of_the_container() {
    for magic in [Container::MAGIC, 0x1014_FA99_57FB_AA34, 0x1015_FA99_57FB_AA35, 0x1016_FA99_57FB_AA36] {
        for count_width in [Some(2), Some(4), None] {
            for (version, size_width) in [(0, 2), (1, 2), (2, 4), (3, 4), (1, 4), (2, 2)] {
                for sum in [Sum::AdlerFromZero, Sum::Crc32, Sum::Adler] {
                    let block = if size_width == 4 { 0x40000 } else { 0x2000 };
                    let container = Container {
                        magic,
                        version,
                        algorithm: 3,
                        pack: Pack::Zstd,
                        sum,
                        block,
                        count_width,
                        size_width,
                    };
                    let forge = Forge { prefix: sum == Sum::Crc32, ..Forge::of(27) };
                    expect64(&read_bytes(forge.write(&entries64(&container)), "DataPC.forge"));
                    let narrow = Container { algorithm: 1, pack: Pack::Lzo1x, ..container };
                    expect32(&read_bytes(Forge::of(25).write(&entries32(&narrow)), "DataPC.forge"));
                }
            }
        }
    }
}

#[test]
fn tables_of_the_archive_are_chained_and_may_be_empty() {
    let container = Container::of(27, 3, Pack::Zstd);
    for table in [1, 2, 3] {
        for empty_table in [false, true] {
            let forge = Forge { table, empty_table, ..Forge::of(27) };
            let source = open_bytes(forge.write(&entries64(&container)), "a.forge").unwrap();
            // the special entries count as positions
            assert_eq!(source.entries().iter().map(|e| e.index).collect::<Vec<_>>(), [1, 2, 3]);
            expect64(&read(&source));
        }
    }
    let none = Forge { special: false, ..Forge::of(27) };
    let source = open_bytes(none.write(&[]), "empty.forge").unwrap();
    assert_eq!((source.entries().len(), source.faults().len()), (0, 0));
}

/// A zeroed table: the data header knows better.
#[test]
fn a_count_that_the_tables_do_not_have_is_damage_where_they_have_none() {
    let forge = Forge { special: false, ..Forge::of(27) };
    let bytes = forge.write(&entries64(&Container::of(27, 3, Pack::Zstd)));
    let mut zeroed = bytes.clone();
    zeroed[0x446..0x446 + 48].fill(0);
    let error = open_bytes(zeroed, "a.forge").unwrap_err().to_string();
    assert!(error.contains("offset 0x41A") && error.contains("3 files"), "{error}");
    let mut more = bytes;
    more[0x41A] = 5;
    let read = read_bytes(more, "a.forge");
    expect64(&read);
    assert_eq!(read.notes, ["the data header counts 5 files, the index tables 3"]);
}

/// Only an entry that reaches past the end is damage, or a file that ends within its padding.
#[test]
fn an_archive_need_not_be_padded() {
    for version in [25, 27, 30] {
        let forge = Forge { special: false, ..Forge::of(version) };
        let (entries, expect): (_, fn(&Read)) = match version {
            25 => (entries32(&Container::of(25, 1, Pack::Lzo1x)), expect32),
            _ => (entries64(&Container::of(27, 3, Pack::Zstd)), expect64),
        };
        let bytes = forge.write(&entries);
        let payloads: usize = entries.iter().map(|e| forge.payload(e).len()).sum();
        let end = forge.head_len(entries.len()) + payloads;
        for page in [1, 2, 16, 0x100, 0x800, 0x4000, 0x8000] {
            let read = read_bytes(bytes[..end.next_multiple_of(page)].to_vec(), "a.forge");
            expect(&read);
            assert_eq!(read.notes.len(), usize::from(end.next_multiple_of(page) % 0x8000 != 0));
        }
        // More behind the last entry than the tables say.
        let read = read_bytes([&bytes[..end], b"something else"].concat(), "a.forge");
        expect(&read);
        assert_eq!(read.notes.len(), 1, "{:?}", read.notes);
        // Within the padding; one byte of the last entry missing.
        let padded = end.next_multiple_of(0x1000) - 37;
        assert!(padded > end);
        for cut in [padded, end - 1] {
            let read = read_bytes(bytes[..cut].to_vec(), "a.forge");
            assert_eq!(read.errors.len(), 1, "{:?}", read.errors);
            assert!(read.errors[0].contains("offset 0x") && read.errors[0].contains("expected"));
        }
    }
}

#[test]
fn other_record_widths_are_found_and_noted() {
    let container = Container::of(27, 3, Pack::Zstd);
    let usual = Forge::of(27);
    for (forge, notes) in [
        (Forge { names: Names::Base188, ..usual }, 1),
        (Forge { names: Names::Scrambled29, ..usual }, 1),
        (Forge { names: Names::Scrambled30, ..usual }, 1),
        (Forge { index: 24, ..usual }, 1),
        (Forge { index: 24, names: Names::Base188, ..usual }, 2),
    ] {
        let source = open_bytes(forge.write(&entries64(&container)), "a.forge").unwrap();
        assert_eq!(source.notes().len(), notes, "{:?}", source.notes());
        assert_eq!(source.entries()[0].name.as_deref(), Some("Animation_100000001"));
        assert_eq!(source.entries()[0].class, Some(class::ANIMATION));
        expect64(&read(&source));
    }
    // without names: by id
    let forge = Forge { names: Names::None, ..usual };
    let source = open_bytes(forge.write(&entries64(&container)), "a.forge").unwrap();
    assert_eq!(source.entries()[0].display_name(), "entry_0000000100000001");
    expect64(&read(&source));
    // a later version is read like 27, an earlier one refused
    let source = open_bytes(Forge { version: 33, ..usual }.write(&entries64(&container)), "a.forge").unwrap();
    assert!(source.notes()[0].contains("33"));
    expect64(&read(&source));
    let old = Forge { version: 24, ..Forge::of(25) }.write(&entries32(&Container::of(25, 1, Pack::Lzo1x)));
    assert_eq!(open_bytes(old, "a.forge").unwrap_err().kind(), ErrorKind::Unsupported);
}

#[test]
fn versions_42_and_50_have_one_table_and_no_names() {
    let entries = entries64(&Container::of(42, 3, Pack::Zstd));
    for version in [42u32, 50] {
        let mut out = b"scimitar\0".to_vec();
        out.extend(version.to_le_bytes());
        out.extend(0x100u64.to_le_bytes());
        out.resize(0x100, 0);
        if version == 42 {
            out.resize(0x10C, 0);
            out.extend((entries.len() as u32).to_le_bytes());
            out.resize(0x128, 0);
            out.extend(0x200u32.to_le_bytes());
        } else {
            out.extend((entries.len() as u32).to_le_bytes());
            out.extend(0x200u64.to_le_bytes());
            out.extend(u64::MAX.to_le_bytes());
        }
        out.resize(0x200, 0);
        let mut at = 0x1000u64;
        for e in &entries {
            out.extend(at.to_le_bytes());
            out.extend(e.id.to_le_bytes());
            out.extend((e.payload.len() as u32).to_le_bytes());
            out.extend(e.class.to_le_bytes());
            at += e.payload.len() as u64;
        }
        out.resize(0x1000, 0);
        entries.iter().for_each(|e| out.extend(&e.payload));
        out.resize(out.len().next_multiple_of(0x8000), 0);
        let source = open_bytes(out, "a.forge").unwrap();
        assert_eq!(source.entries()[2].class, Some(class::ANIMATION));
        expect64(&read(&source));
    }
}

#[test]
fn checksums_that_do_not_match_are_notes_and_wrong_lengths_are_errors() {
    let container = Container { sum: Sum::Wrong, ..Container::of(27, 3, Pack::Zstd) };
    let read = read_bytes(Forge::of(27).write(&entries64(&container)), "a.forge");
    expect64(&read);
    assert_eq!(read.notes.len(), 6, "{:?}", read.notes);
    assert!(read.notes[0].contains("checksum"));
}

#[test]
fn a_16_and_a_32_bit_count_that_end_at_the_same_byte_are_told_apart() {
    // One block whose packed size is two less than its unpacked size: both counts end at the payload's end.
    for count_width in [2, 4] {
        let data = body(5000, 3);
        let mut packed = data.clone();
        packed.truncate(4998);
        let mut out = Container::MAGIC.to_le_bytes().to_vec();
        out.extend([1, 0, 3, 0x00, 0x80, 0x00, 0x80]);
        let block = Pack::Zstd.pack(&data);
        out.extend(&1u32.to_le_bytes()[..count_width]);
        out.extend((data.len() as u16).to_le_bytes());
        out.extend((block.len() as u16).to_le_bytes());
        out.extend(writer::adler32(&block, 0).to_le_bytes());
        out.extend(block);
        let mut unpacker = anim2gltf::games::anvil::container::data::Unpacker::default();
        for forge_version in [25, 27] {
            let options = anim2gltf::games::anvil::container::data::DataOptions {
                forge_version: Some(forge_version),
                codec: None,
            };
            assert_eq!(unpacker.unpack(&out, &options).unwrap().bytes, data);
        }
    }
}

#[test]
fn lzx_and_lzo1c_are_refused_by_name_with_the_place() {
    for (algorithm, name) in [(3u8, "LZX"), (5, "LZO1C")] {
        let mut container = Container::of(27, algorithm, Pack::Lzo1x).write(&body(3000, 3));
        // no codec's stream
        let at = container.len() - 40;
        container[at - 200..].fill(0xFF);
        let entry = Entry { id: 0xABC, name: "X".into(), class: 1, payload: container };
        let source = open_bytes(Forge::of(27).write(&[entry]), "a.forge").unwrap();
        let error = source.for_each_object(0, &mut Scratch::new(), &mut |_| {}).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(name) || algorithm == 3, "{text}");
        assert!(text.contains("id ABC") && text.contains("version 1"), "{text}");
        assert!(text.contains(&format!("algorithm byte {algorithm}")) && text.contains("first "), "{text}");
        assert!(error.offset().is_some());
    }
}

#[test]
fn the_codec_can_be_overridden() {
    let bytes = Forge::of(27).write(&entries64(&Container::of(27, 3, Pack::Lz4)));
    for (codec, works) in [(None, true), (Some(Codec::Lz4), true), (Some(Codec::Zstd), false)] {
        let source =
            AnvilFile::new(Box::new(bytes.clone()), Path::new("a.forge"), &Options { codec }).unwrap();
        let read = read(&source);
        assert_eq!(read.errors.is_empty(), works, "{codec:?} {:?}", read.errors);
    }
}

#[test]
fn a_damaged_object_does_not_stop_the_others() {
    let mut objects = [
        (1u64, writer::object64("Animation", 1, "A", Some(1), &body(500, 1))),
        (2, writer::object64("Animation", 2, "B", Some(1), &body(500, 2))),
        (3, writer::object64("Animation", 3, "C", Some(1), &body(500, 3))),
    ];
    // the second object's size word
    objects[1].1[4] ^= 0x40;
    let payload = writer::pair64(&Container::of(27, 3, Pack::Zstd), &objects);
    let read = read_bytes(payload, "Pack.data");
    assert_eq!(read.objects.iter().map(|o| o.name.as_str()).collect::<Vec<_>>(), ["A", "C"]);
    assert_eq!(read.errors.len(), 1);
    assert!(read.errors[0].contains("object 2"), "{}", read.errors[0]);
}

#[test]
fn a_directory_whose_sizes_do_not_add_up_is_an_error_but_the_objects_are_found() {
    let object = writer::object64("Animation", 1, "A", Some(1), &body(500, 1));
    let container = Container::of(27, 3, Pack::Zstd);
    let directory = writer::directory64(&[(1, object.len() + 1)], 0);
    let payload = [container.write(&directory), container.write(&object)].concat();
    let read = read_bytes(payload, "Pack.data");
    assert_eq!(read.objects.len(), 1);
    assert_eq!(read.errors.len(), 1, "{:?}", read.errors);
}

#[test]
fn data_files_extras_several_pairs_and_lone_resources() {
    let container = Container::of(27, 3, Pack::Zstd);
    let object =
        |id: u64| writer::object64("Animation", id, &format!("C{id}"), Some(1), &body(500, id as u32));
    // two pairs in a chain, the first with extras in its directory, and a lone object without a directory
    let first = [
        container.write(&writer::directory64(&[(1, object(1).len()), (2, object(2).len())], 3)),
        container.write(&[object(1), object(2)].concat()),
    ]
    .concat();
    let second = writer::pair64(&container, &[(3, object(3))]);
    let lone = container.write(&object(4));
    let read = read_bytes([first, second, lone].concat(), "Pack.data");
    assert_eq!(read.errors, Vec::<String>::new());
    assert_eq!(read.objects.iter().map(|o| o.id).collect::<Vec<_>>(), [1, 2, 3, 4]);

    // a directory of the other generation, by the sum of its sizes
    let objects = [(5u64, writer::object32("Animation", 5, "S", Some(1), &body(90, 1)))];
    let read = read_bytes(writer::pair32(&container, &objects), "Pack.data");
    assert_eq!(read.errors, Vec::<String>::new());
    assert_eq!(read.objects[0].generation, Generation::Ids32);
    assert_eq!(read.notes.len(), 1);
}

#[test]
fn a_raw_entry_is_an_object_record() {
    let payload = writer::object64("Animation", 9, "Raw", Some(1), &body(500, 1));
    let entry = Entry { id: 9, name: "Raw".into(), class: class::ANIMATION, payload };
    let read = read_bytes(Forge::of(27).write(&[entry]), "a.forge");
    assert_eq!((read.objects.len(), read.errors.len()), (1, 0));
}

#[test]
fn a_first_object_that_is_not_the_entrys_is_a_note() {
    let container = Container::of(25, 1, Pack::Lzo1x);
    let mut entries = entries32(&container);
    entries[0].id += 5;
    let read = read_bytes(Forge::of(25).write(&entries), "a.forge");
    expect32(&read);
    assert_eq!(read.notes, ["the first object is 1001, the entry 1006"]);
}

#[test]
fn loose_files_with_and_without_the_name_header() {
    let fields = body(60, 1);
    let animation = crc32(b"Animation");
    let named = writer::object64("Animation", 0x1234, "Inside", Some(2), &fields);
    let read = read_bytes(named.clone(), "outside.Animation");
    assert_eq!((read.objects[0].name.as_str(), read.objects[0].id), ("Inside", 0x1234));
    assert_eq!(read.objects[0].body, fields);

    for rows in [None, Some(0), Some(2)] {
        let toolkit = writer::toolkit64(animation, 0x1234, rows, &fields);
        let read = read_bytes(toolkit, "12_-_Walk.fast.Animation");
        assert_eq!((read.objects[0].name.as_str(), read.objects[0].id), ("12_-_Walk.fast", 0x1234));
        assert_eq!(read.objects[0].body, fields);
    }
    // of a class that nobody knows, by its extension
    let toolkit = writer::toolkit64(crc32(b"LODSelector"), 7, None, &fields);
    assert_eq!(read_bytes(toolkit.clone(), "1_-_x.LODSelector").objects.len(), 1);
    assert_eq!(read_bytes(toolkit, "1_-_x.bin").objects.len(), 0);

    for rows in [None, Some(2)] {
        let object = writer::object32("Animation", 0x77, "Inside", rows, &fields);
        let whole = read_bytes(object.clone(), "outside.Animation");
        assert_eq!(whole.objects[0].generation, Generation::Ids32);
        assert_eq!((whole.objects[0].name.as_str(), whole.objects[0].id), ("Inside", 0x77));
        // the same without class, size and name
        let toolkit = read_bytes(object[18..].to_vec(), "3_-_x.Animation");
        assert_eq!((toolkit.objects[0].name.as_str(), toolkit.objects[0].id), ("3_-_x", 0x77));
        assert_eq!(toolkit.objects[0].body, whole.objects[0].body);
    }

    // bytes missing or too many are told with both sizes
    let short = read_bytes(named[..named.len() - 7].to_vec(), "a.Animation");
    assert!(short.objects.is_empty() && short.errors.len() == 1);
    assert!(short.errors[0].contains(&named.len().to_string()), "{}", short.errors[0]);
    let long = read_bytes([named.as_slice(), &[0; 5]].concat(), "a.Animation");
    assert!(long.objects.is_empty() && long.errors.len() == 1, "{:?}", long.errors);
}

#[test]
fn a_later_archive_replaces_entries_by_their_ids() {
    let folder = tempfile::tempdir().unwrap();
    let entry = |id| Entry { id, name: String::new(), class: 0, payload: vec![1; 20] };
    let given: Vec<PathBuf> = [&[1, 2, 3, 4][..], &[2, 9], &[4, 2]]
        .iter()
        .enumerate()
        .map(|(i, ids)| {
            let path = folder.path().join(format!("{i}.forge"));
            let entries: Vec<_> = ids.iter().map(|&id| entry(id)).collect();
            std::fs::write(&path, Forge::of(27).write(&entries)).unwrap();
            path
        })
        .collect();
    let (inputs, _) = source::find::find(&given, GAMES);
    let sources: Vec<_> =
        inputs.iter().map(|i| source::open(i, GAMES, &ReadOptions::default()).ok()).collect();
    let mut skeletons = Skeletons::new(None, GAMES).unwrap();
    let survey = survey(&inputs, &sources, &mut skeletons, |_| {});
    let replaced = |input| {
        let text = "an entry is replaced by that of a later archive with the same id";
        survey.notes.iter().filter(|(i, note)| *i == input && note == text).count()
    };
    // Entries 2 and 4 of the first, 2 of the second; what is replaced is not read.
    assert_eq!([replaced(0), replaced(1), replaced(2)], [2, 1, 0]);
    let mut parts: Vec<(usize, usize)> = survey.units.iter().map(|u| (u.input, u.part)).collect();
    parts.sort_unstable();
    assert_eq!(parts, [(0, 0), (0, 2), (1, 1), (2, 0), (2, 1)]);
}

/// What the written archives give when cut and bent: never a panic, and no wrong object passes for a whole archive.
#[test]
fn damaged_archives_never_panic() {
    let mut state = 99u32;
    let mut random = move |n: usize| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as usize % n
    };
    for pack in [Pack::Lzo1x, Pack::Lzo2a, Pack::Zstd, Pack::Lz4, Pack::OodleRaw, Pack::Stored] {
        let container = Container { block: 0x1000, ..Container::of(27, 1, pack) };
        let object = writer::object64("Animation", 1, "A", Some(1), &body(9000, 1));
        let payload = writer::pair64(&container, &[(1, object)]);
        for cut in (0..payload.len()).step_by(1 + payload.len() / 150) {
            let read = read_bytes(payload[..cut].to_vec(), "a.data");
            assert!(!read.errors.is_empty(), "{pack:?} cut at {cut}");
        }
        for _ in 0..300 {
            let mut bent = payload.clone();
            for _ in 0..1 + random(3) {
                let at = random(bent.len());
                bent[at] = random(256) as u8;
            }
            read_bytes(bent, "a.data");
        }
    }
}
