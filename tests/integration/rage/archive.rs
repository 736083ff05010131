//! RPF7 archives: fixtures of an independent writer, archives made here, and damaged ones.

use std::io::Write;

use anim2gltf::ErrorKind;
use anim2gltf::games::rage::container::rpf7;
use anim2gltf::games::rage::container::rpf7::Listing;
use anim2gltf::games::rage::container::rsc7;
use anim2gltf::io::read_at::ReadAt;
use flate2::{Compression, write::DeflateEncoder};

fn paths(listing: &Listing) -> Vec<&str> {
    listing.entries.iter().map(|e| e.path.as_str()).collect()
}

fn read(listing: &Listing, source: &dyn ReadAt, path: &str) -> Vec<u8> {
    let mut out = Vec::new();
    listing.entries.iter().find(|e| e.path == path).unwrap().read(source, &mut out).unwrap();
    out
}

/// What a file of a test archive is.
enum Item<'a> {
    Folder(&'a str, Vec<Item<'a>>),
    Stored(&'a str, Vec<u8>),
    Deflated(&'a str, Vec<u8>),
    /// An RSC7 file; the archive's copy of its header is scrambled.
    Resource(&'a str, Vec<u8>),
}

/// Writes an archive by the table in the notes, breadth first as the game's own are.
fn archive(items: Vec<Item>, encryption: u32) -> Vec<u8> {
    let mut names = vec![0_u8];
    let mut blobs: Vec<(usize, Vec<u8>)> = Vec::new();
    let mut entries: Vec<[u8; 16]> = vec![[0; 16]];
    let mut queue = std::collections::VecDeque::from([(0_usize, 0_u32, items)]);
    let words = |a: u32, b: u32, c: u32, d: u32| {
        let mut e = [0; 16];
        for (slot, w) in e.chunks_exact_mut(4).zip([a, b, c, d]) {
            slot.copy_from_slice(&w.to_le_bytes());
        }
        e
    };
    while let Some((slot, name, items)) = queue.pop_front() {
        let first = entries.len();
        entries[slot] = words(name, 0x7FFF_FF00, first as u32, items.len() as u32);
        entries.resize(first + items.len(), [0; 16]);
        for (i, item) in items.into_iter().enumerate() {
            let at = names.len() as u32;
            let (Item::Folder(text, _)
            | Item::Stored(text, _)
            | Item::Deflated(text, _)
            | Item::Resource(text, _)) = &item;
            names.extend(text.bytes().chain([0]));
            let (size, c, d, flag, data) = match item {
                Item::Folder(_, children) => {
                    queue.push_back((first + i, at, children));
                    continue;
                }
                Item::Stored(_, data) => (0, data.len() as u32, 0, 0, data),
                Item::Deflated(_, data) => {
                    let mut e = DeflateEncoder::new(Vec::new(), Compression::default());
                    e.write_all(&data).unwrap();
                    let packed = e.finish().unwrap();
                    (packed.len() as u32, data.len() as u32, 0, 0, packed)
                }
                Item::Resource(_, mut data) => {
                    let word = |i: usize| u32::from_le_bytes(data[i..i + 4].try_into().unwrap());
                    let (c, d) = (word(8), word(12));
                    data[..16].fill(0xEE);
                    (data.len() as u32, c, d, 0x0080_0000, data)
                }
            };
            // Names are offsets of 16 bits, then sizes and blocks of 24 each; the block comes below.
            let mut e = words(at | size << 16, size >> 16, c, d);
            e[7] = (flag >> 16) as u8;
            entries[first + i] = e;
            blobs.push((first + i, data));
        }
    }
    let mut out = b"7FPR".to_vec();
    for word in [entries.len() as u32, names.len() as u32, encryption] {
        out.extend(word.to_le_bytes());
    }
    let table = out.len();
    out.extend(entries.concat());
    out.extend(&names);
    for (slot, data) in blobs {
        out.resize(out.len().next_multiple_of(512), 0);
        let block = (out.len() / 512) as u32;
        let at = table + slot * 16;
        out[at + 5] = block as u8;
        out[at + 6] = (block >> 8) as u8;
        out[at + 7] |= (block >> 16) as u8;
        out.extend(data);
    }
    out
}

fn resource() -> Vec<u8> {
    let mut out = b"RSC7".to_vec();
    for word in [46_u32, 0x2000_0000 | 1 << 27, 0xE000_0000] {
        out.extend(word.to_le_bytes());
    }
    let mut e = DeflateEncoder::new(Vec::new(), Compression::default());
    e.write_all(&[3; 0x200]).unwrap();
    out.extend(e.finish().unwrap());
    out
}

#[test]
fn fixture_open_archive_gives_the_files_back() {
    let Some(shared) = anim2gltf_testkit::shared() else { return };
    let folder = shared.join("fixtures/ycd");
    let source = std::fs::read(folder.join("clips_open.rpf")).unwrap();
    let listing = rpf7::list(&source).unwrap();
    assert!(listing.problems.is_empty(), "{:?}", listing.problems);
    assert_eq!(
        paths(&listing),
        ["ped.yft", "readme.txt", "x64/peds.rpf/pose.ycd", "x64/anim/ingame/synthetic_1.ycd"]
    );
    // The entries hold whole RSC7 files: header from the flags, body byte for byte.
    for (path, file) in [("ped.yft", "ped.yft"), ("x64/anim/ingame/synthetic_1.ycd", "synthetic_1.ycd")] {
        assert!(read(&listing, &source, path) == std::fs::read(folder.join(file)).unwrap(), "{path}");
    }
    assert_eq!(read(&listing, &source, "readme.txt").len(), 300);
    let pose = read(&listing, &source, "x64/peds.rpf/pose.ycd");
    assert_eq!(rsc7::open(&pose, &mut Vec::new()).unwrap().version, Some(46));
}

#[test]
fn fixture_encrypted_archive_is_refused_with_the_way_out() {
    let Some(shared) = anim2gltf_testkit::shared() else { return };
    let source = std::fs::read(shared.join("fixtures/ycd/clips_ng.rpf")).unwrap();
    let e = rpf7::list(&source).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Unsupported);
    for word in ["NG", "CodeWalker", "OpenIV"] {
        assert!(e.to_string().contains(word), "{e}");
    }
}

#[test]
fn every_kind_of_entry_and_archives_in_archives() {
    let text = b"text ".repeat(100);
    let deepest = archive(vec![Item::Resource("a.ycd", resource())], 0);
    let packed = archive(
        vec![Item::Stored("deepest.rpf", deepest), Item::Deflated("t.txt", text.clone())],
        0x4E45_504F,
    );
    let stored = archive(vec![Item::Folder("d", vec![Item::Resource("b.ycd", resource())])], 0);
    let locked = archive(vec![], 0x0FFF_FFF9);
    let source = archive(
        vec![
            Item::Folder("..", vec![Item::Stored("a/b", vec![1, 2, 3])]),
            Item::Deflated("packed.rpf", packed),
            Item::Stored("stored.RPF", stored),
            Item::Stored("locked.rpf", locked),
            Item::Folder("empty", vec![]),
        ],
        0,
    );
    let listing = rpf7::list(&source).unwrap();
    assert_eq!(
        paths(&listing),
        ["packed.rpf/deepest.rpf/a.ycd", "packed.rpf/t.txt", "stored.RPF/d/b.ycd", "entry_1/a_b",]
    );
    assert_eq!(listing.problems.len(), 1);
    assert!(listing.problems[0].to_string().starts_with("locked.rpf: "), "{}", listing.problems[0]);
    assert!(listing.problems[0].to_string().contains("AES"));
    assert_eq!(read(&listing, &source, "packed.rpf/t.txt"), text);
    assert_eq!(read(&listing, &source, "entry_1/a_b"), [1, 2, 3]);
    for path in ["packed.rpf/deepest.rpf/a.ycd", "stored.RPF/d/b.ycd"] {
        assert_eq!(read(&listing, &source, path), resource());
    }
}

#[test]
fn loops_end() {
    // A folder that holds itself, and an archive whose nested archive is itself again.
    let mut source = archive(vec![Item::Folder("d", vec![Item::Stored("x", vec![0; 4])])], 0);
    source[16 + 16 + 8] = 1;
    let listing = rpf7::list(&source).unwrap();
    assert_eq!((listing.entries.len(), listing.problems.len()), (0, 1));

    let inner = archive(vec![Item::Stored("y.rpf", vec![0; 512])], 0);
    let mut source = archive(vec![Item::Stored("x.rpf", inner.clone()), Item::Stored("z.rpf", inner)], 0);
    // Both entries point at the same archive.
    source.copy_within(32..48, 48);
    let listing = rpf7::list(&source).unwrap();
    assert!(listing.entries.is_empty());
    assert_eq!(listing.problems.len(), 2, "{:?}", listing.problems);
}

#[test]
fn damaged_archives_never_panic() {
    let mut sources = vec![archive(
        vec![
            Item::Folder("f", vec![Item::Resource("a.ycd", resource())]),
            Item::Deflated("p.rpf", archive(vec![Item::Stored("s", vec![1; 40])], 0)),
            Item::Stored("q.rpf", archive(vec![Item::Deflated("t", vec![1; 40])], 0)),
        ],
        0x4E45_504F,
    )];
    if let Some(shared) = anim2gltf_testkit::shared() {
        sources.push(std::fs::read(shared.join("fixtures/ycd/clips_open.rpf")).unwrap());
    }
    for source in sources {
        let walk = |bytes: &Vec<u8>| {
            if let Ok(listing) = rpf7::list(bytes) {
                let mut out = Vec::new();
                for entry in &listing.entries {
                    let _ = entry.read(bytes, &mut out);
                    assert!(out.len() as u64 <= 2048 * ReadAt::len(bytes).max(512));
                }
            }
        };
        for n in (0..source.len()).step_by(7).chain(0..700) {
            walk(&source[..n.min(source.len())].to_vec());
        }
        let mut damaged = source.clone();
        // Everything that stands in tables, and the tables of archives inside.
        for i in (0..source.len()).filter(|i| i % 512 < 160) {
            for bit in 0..8 {
                damaged[i] ^= 1 << bit;
                walk(&damaged);
                damaged[i] ^= 1 << bit;
            }
        }
    }
}
