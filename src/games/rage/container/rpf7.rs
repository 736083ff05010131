//! RPF7: the archives of GTA V, plain and `OPEN`, with the archives inside them.
//!
//! | Offset | Size | Type | Field | Unit | Source |
//! |---|---|---|---|---|---|
//! | 0x00 | 4 | 4 bytes | `7FPR` (u32 0x52504637) | | rage.md 12 |
//! | 0x04 | 4 | u32 | number of entries | | rage.md 12 |
//! | 0x08 | 4 | u32 | bytes of names | bytes | rage.md 12 |
//! | 0x0C | 4 | u32 | encryption: 0 none, 0x4E45504F `OPEN`, 0x0FFFFFF9 AES, 0x0FEFFFFF NG | | rage.md 12 |
//! | 0x10 | | .. | entries of 16 bytes, then the NUL-terminated names | | rage.md 12 |
//!
//! An entry; the first is the root directory (docs/formats/rage.md, section 12):
//!
//! | Offset | Directory | Binary file | Resource | Unit | Source |
//! |---|---|---|---|---|---|
//! | 0x00 | u32 name | u16 name | u16 name | | rage.md 12 |
//! | 0x02 | | u24 packed size, 0: stored | u24 size; 0xFFFFFF: in the data's header | bytes | rage.md 12 |
//! | 0x04 | u32 0x7FFFFF00 | | | | rage.md 12 |
//! | 0x05 | | u24 block, top bit clear | u24 block, top bit set | 512 bytes | rage.md 12 |
//! | 0x08 | u32 first child | u32 unpacked size | u32 system page flags | | rage.md 12 |
//! | 0x0C | u32 children | u32 1: encrypted | u32 graphics page flags | | rage.md 12 |
//!
//! Names are offsets into the block of names; blocks are of 512 bytes and count from the start of the archive
//! itself, also where it lies in another. Packed binary files are raw deflate. A resource begins with a header
//! of 16 bytes which may be scrambled: the one of the file that [`Entry::read`] gives is made from the flags.

use std::collections::HashSet;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::games::rage::container::rsc7;
use crate::io::bytes::Cursor;
use crate::io::read_at::ReadAt;

/// First bytes of an archive.
pub const MAGIC: [u8; 4] = *b"7FPR";

const HEADER_SIZE: u64 = 16;
const ENTRY_SIZE: usize = 16;
const BLOCK: u64 = 512;
const DIRECTORY: u32 = 0x7FFF_FF00;
const ENCRYPTION_NONE: u32 = 0;
const ENCRYPTION_OPEN: u32 = 0x4E45_504F;
const ENCRYPTION_AES: u32 = 0x0FFF_FFF9;
const ENCRYPTION_NG: u32 = 0x0FEF_FFFF;
/// Size of a resource whose real size stands in the header of its data.
const SIZE_IN_HEADER: u64 = 0x00FF_FFFF;
/// Archives within archives that are followed; the game has two levels.
const MAX_DEPTH: u32 = 8;
/// Deflate cannot make more than this of one byte.
const MAX_DEFLATE_RATIO: u64 = 1032;

/// What an archive holds, archives inside it included, in the order of its directories.
#[derive(Debug, Default)]
pub struct Listing {
    /// The files.
    pub entries: Vec<Entry>,
    /// Parts that cannot be read: an encrypted archive inside, a damaged directory.
    pub problems: Vec<Error>,
}

/// A file in an archive.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Directories, archives inside and the file's name, joined by `/`. No part is empty, `.` or `..`, and none
    /// holds a character that makes a path of it.
    pub path: String,
    kind: Kind,
    /// Offset of the data in the source.
    offset: u64,
    /// Bytes of the data.
    size: u64,
    /// The unpacked archive that the file lies in, where that was itself packed.
    memory: Option<Arc<Vec<u8>>>,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Stored,
    Deflated { unpacked: u32 },
    Resource { system: u32, graphics: u32 },
}

/// Lists the archive `source`.
///
/// # Errors
/// Where the archive itself cannot be read: encrypted, of another game, damaged. Problems with a part of it
/// are in the [`Listing`].
pub fn list(source: &dyn ReadAt) -> Result<Listing> {
    let mut out = Listing::default();
    let mut walk = Walk { source, memory: None, seen: HashSet::new(), budget: 0, out: &mut out };
    walk.budget = walk.source.len() / ENTRY_SIZE as u64;
    walk.archive("", 0, source.len(), 0)?;
    Ok(out)
}

impl Entry {
    /// Whether it is a resource: its bytes are an RSC7 file.
    pub fn is_resource(&self) -> bool {
        matches!(self.kind, Kind::Resource { .. })
    }

    /// The last part of the path.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Writes the file into `out` (cleared first) as it would be outside of the archive. `source` is the
    /// one that was listed.
    ///
    /// # Errors
    /// Io; Malformed where a packed file is damaged; Limit where its size cannot be true.
    pub fn read(&self, source: &dyn ReadAt, out: &mut Vec<u8>) -> Result<()> {
        self.read_inner(source, out).map_err(|e| e.in_entry(&self.path))
    }

    fn read_inner(&self, source: &dyn ReadAt, out: &mut Vec<u8>) -> Result<()> {
        let source = self.memory.as_ref().map_or(source, |m| m.as_ref() as &dyn ReadAt);
        out.clear();
        match self.kind {
            Kind::Stored => fill(source, self.offset, self.size, out),
            Kind::Deflated { unpacked } => {
                let mut packed = Vec::new();
                fill(source, self.offset, self.size, &mut packed)?;
                unpack(&packed, unpacked, self.offset, out)
            }
            Kind::Resource { system, graphics } => {
                let body = self.offset + rsc7::HEADER_SIZE as u64;
                out.extend(rsc7::MAGIC);
                // The version's nibbles stand in the top of the flags (docs/formats/rage.md, section 1).
                for word in [system >> 28 << 4 | graphics >> 28, system, graphics] {
                    out.extend(word.to_le_bytes());
                }
                fill(source, body, self.size - rsc7::HEADER_SIZE as u64, out)
            }
        }
    }
}

/// Appends `size` bytes from `offset` on; the listing has proven that they are there.
fn fill(source: &dyn ReadAt, offset: u64, size: u64, out: &mut Vec<u8>) -> Result<()> {
    let start = out.len();
    let size = usize::try_from(size).map_err(|_| Error::limit(offset, size, "a size that fits memory"))?;
    out.resize(start + size, 0);
    source
        .read_exact_at(&mut out[start..], offset)
        .map_err(|e| Error::io("cannot read the archive", e).at(offset))
}

fn unpack(packed: &[u8], unpacked: u32, base: u64, out: &mut Vec<u8>) -> Result<()> {
    if u64::from(unpacked) > packed.len() as u64 * MAX_DEFLATE_RATIO {
        return Err(Error::limit(
            base,
            format_args!("{unpacked} bytes declared, {} packed", packed.len()),
            format_args!("at most {MAX_DEFLATE_RATIO} times what is packed"),
        ));
    }
    rsc7::inflate(packed, unpacked as usize, base, out).map(|_| ())
}

struct Walk<'a> {
    source: &'a dyn ReadAt,
    /// The source as a packed archive that was unpacked; `None` for the file.
    memory: Option<Arc<Vec<u8>>>,
    /// Offsets of archives that were read, so that a second entry for one is not read again.
    seen: HashSet<u64>,
    /// How many entries may still be read. Sound tables do not overlap, so the file's size limits them.
    budget: u64,
    out: &'a mut Listing,
}

/// The tables of one archive.
struct Tables<'t> {
    /// Range of the archive in the source.
    base: u64,
    len: u64,
    entries: &'t [u8],
    names: &'t [u8],
    depth: u32,
}

impl Walk<'_> {
    /// Lists the archive at `base`, its files below `path`.
    fn archive(&mut self, path: &str, base: u64, len: u64, depth: u32) -> Result<()> {
        let mut head = Vec::new();
        if len < HEADER_SIZE {
            return Err(Error::malformed(base, format_args!("{len} bytes"), "an RPF7 header of 16"));
        }
        fill(self.source, base, HEADER_SIZE, &mut head)?;
        let mut header = Cursor::new(&head, base);
        let magic = header.array::<4>("the magic")?;
        match &magic {
            b"7FPR" => {}
            b"RPF7" => {
                return Err(Error::unsupported(
                    "found a byte-swapped RPF7: an archive of a console edition, expected the PC edition",
                )
                .at(base));
            }
            [n, b'F', b'P', b'R'] => {
                return Err(Error::unsupported(format!(
                    "found RPF{}: an archive of another game, expected RPF7 of GTA V",
                    n.escape_ascii()
                ))
                .at(base));
            }
            _ => {
                return Err(Error::malformed(base, format_args!("\"{}\"", magic.escape_ascii()), "7FPR"));
            }
        }
        let count = u64::from(header.u32("the number of entries")?);
        let names_len = u64::from(header.u32("the bytes of names")?);
        let encryption = header.u32("the encryption")?;
        let keys = match encryption {
            ENCRYPTION_NONE | ENCRYPTION_OPEN => None,
            ENCRYPTION_AES => Some("AES"),
            ENCRYPTION_NG => Some("NG"),
            other => {
                return Err(Error::malformed(
                    base + 12,
                    format_args!("encryption 0x{other:08X}"),
                    "none, OPEN, AES or NG",
                ));
            }
        };
        if let Some(keys) = keys {
            return Err(Error::unsupported(format!(
                "the archive is encrypted ({keys}, with keys of the game): extract the .ycd files with CodeWalker \
                 or OpenIV and give those"
            ))
            .at(base + 12));
        }
        let tables = count * ENTRY_SIZE as u64 + names_len;
        if count == 0 || tables > len - HEADER_SIZE || count > self.budget {
            return Err(Error::limit(
                base + 4,
                format_args!("{count} entries and {names_len} bytes of names"),
                format_args!("a root directory, and tables within the {len} bytes of the archive"),
            ));
        }
        self.budget -= count;
        let mut bytes = Vec::new();
        fill(self.source, base + HEADER_SIZE, tables, &mut bytes)?;
        let (entries, names) = bytes.split_at(count as usize * ENTRY_SIZE);
        self.seen.insert(base);
        self.directories(path, &Tables { base, len, entries, names, depth })
    }

    /// Walks the directories from the root on: the files of each in the order of the table, then its folders.
    fn directories(&mut self, path: &str, tables: &Tables) -> Result<()> {
        let count = tables.entries.len() / ENTRY_SIZE;
        let mut visited = vec![false; count];
        visited[0] = true;
        let mut stack = vec![(path.to_owned(), 0_usize)];
        while let Some((path, directory)) = stack.pop() {
            let mut e = tables.entry(directory)?;
            e.skip(4, "the name of the directory")?;
            if e.u32("the mark of a directory")? != DIRECTORY {
                return Err(Error::malformed(
                    tables.place(directory),
                    "a file",
                    "the root directory as the first entry",
                ));
            }
            let (first, children) = (e.u32("the first child")?, e.u32("the number of children")?);
            let range = first as usize..first as usize + children as usize;
            if range.end > count {
                let e = Error::limit(
                    tables.place(directory) + 8,
                    format_args!("children {first} to {}", range.end),
                    format_args!("at most the {count} entries"),
                );
                self.problem(e, &path);
                continue;
            }
            let below = stack.len();
            for i in range {
                if std::mem::replace(&mut visited[i], true) {
                    let e = Error::malformed(tables.place(i), format_args!("entry {i} again"), "a tree");
                    self.problem(e, &path);
                    continue;
                }
                let mut e = tables.entry(i)?;
                e.skip(4, "")?;
                let is_directory = e.u32("the kind of the entry")? == DIRECTORY;
                let path = join(&path, &tables.name(i, is_directory));
                if is_directory {
                    stack.push((path, i));
                } else if let Err(e) = self.file(path.clone(), i, tables) {
                    self.problem(e, &path);
                }
            }
            stack[below..].reverse();
        }
        Ok(())
    }

    fn file(&mut self, path: String, i: usize, tables: &Tables) -> Result<()> {
        let mut e = tables.entry(i)?;
        e.skip(2, "the name")?;
        let size = u24(e.array("the size")?);
        let block = u24(e.array("the block")?);
        let (low, high) = (e.u32("the first word")?, e.u32("the second word")?);
        let offset = (block & 0x007F_FFFF) * BLOCK;
        let inside = |size: u64| {
            if offset == 0 || offset + size > tables.len {
                return Err(Error::limit(
                    tables.place(i),
                    format_args!("{size} bytes at 0x{offset:X}"),
                    format_args!("data inside the {} bytes of the archive", tables.len),
                ));
            }
            Ok(size)
        };
        let offset_here = tables.base + offset;
        let (kind, size) = if block & 0x0080_0000 != 0 {
            let size = match size {
                SIZE_IN_HEADER => {
                    let mut head = Vec::new();
                    inside(rsc7::HEADER_SIZE as u64)?;
                    fill(self.source, offset_here, rsc7::HEADER_SIZE as u64, &mut head)?;
                    u64::from(u32::from_le_bytes([head[7], head[14], head[5], head[2]]))
                }
                size => size,
            };
            if inside(size)? < rsc7::HEADER_SIZE as u64 {
                return Err(Error::malformed(tables.place(i), format_args!("{size} bytes"), "a resource"));
            }
            (Kind::Resource { system: low, graphics: high }, size)
        } else if high != 0 {
            return Err(Error::unsupported(
                "the file is encrypted with keys of the game: extract it with CodeWalker or OpenIV",
            )
            .at(tables.place(i)));
        } else if size == 0 {
            (Kind::Stored, inside(u64::from(low))?)
        } else {
            (Kind::Deflated { unpacked: low }, inside(size)?)
        };
        let entry = Entry { path, kind, offset: offset_here, size, memory: self.memory.clone() };
        if entry.path.to_ascii_lowercase().ends_with(".rpf") && !entry.is_resource() {
            return self.nested(entry, tables.depth + 1);
        }
        self.out.entries.push(entry);
        Ok(())
    }

    /// Lists an archive in the archive: in place where it is stored, unpacked to memory where it is not.
    fn nested(&mut self, entry: Entry, depth: u32) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(Error::limit(
                entry.offset,
                "archives in archives",
                format_args!("{MAX_DEPTH} levels"),
            ));
        }
        if !self.seen.insert(entry.offset) {
            return Err(Error::malformed(
                entry.offset,
                "an archive that another entry holds",
                "its own data",
            ));
        }
        match entry.kind {
            Kind::Deflated { unpacked } => {
                if self.memory.is_some() {
                    return Err(Error::limit(
                        entry.offset,
                        "packed archives in packed archives",
                        "one level",
                    ));
                }
                let mut bytes = Vec::new();
                entry.read_inner(self.source, &mut bytes)?;
                let memory = Arc::new(bytes);
                let source: &dyn ReadAt = memory.as_ref();
                Walk {
                    source,
                    memory: Some(memory.clone()),
                    seen: HashSet::new(),
                    budget: u64::from(unpacked) / ENTRY_SIZE as u64,
                    out: self.out,
                }
                .archive(&entry.path, 0, memory.as_ref().len() as u64, depth)
            }
            _ => self.archive(&entry.path, entry.offset, entry.size, depth),
        }
    }

    fn problem(&mut self, e: Error, path: &str) {
        self.out.problems.push(if path.is_empty() { e } else { e.in_entry(path) });
    }
}

impl<'t> Tables<'t> {
    /// A cursor over entry `i`, which must exist.
    fn entry(&self, i: usize) -> Result<Cursor<'t>> {
        let mut c = Cursor::new(self.entries, self.base + HEADER_SIZE);
        c.seek(i * ENTRY_SIZE, "an entry")?;
        let base = c.offset();
        Ok(Cursor::new(c.take(ENTRY_SIZE, "an entry")?, base))
    }

    /// Offset of entry `i` in the source.
    fn place(&self, i: usize) -> u64 {
        self.base + HEADER_SIZE + (i * ENTRY_SIZE) as u64
    }

    /// The name of entry `i` as a part of a path; `entry_N` where there is none.
    fn name(&self, i: usize, is_directory: bool) -> String {
        let entry = &self.entries[i * ENTRY_SIZE..];
        let word = u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]);
        let at = if is_directory { word } else { word & 0xFFFF };
        let name = self.names.get(at as usize..).unwrap_or_default();
        let name = &name[..name.iter().position(|b| *b == 0).unwrap_or(name.len())];
        let name: String = String::from_utf8_lossy(name)
            .chars()
            .map(|c| if c.is_control() || "/\\:*?\"<>|".contains(c) { '_' } else { c })
            .collect();
        match name.trim_end_matches([' ', '.']) {
            "" => format!("entry_{i}"),
            name => name.to_owned(),
        }
    }
}

fn u24(b: [u8; 3]) -> u64 {
    u64::from(u32::from_le_bytes([b[0], b[1], b[2], 0]))
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") }
}
