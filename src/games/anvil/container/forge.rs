//! Anvil's `.forge` archives: which entries there are and where their bytes lie.
//!
//! All integers are little-endian. Layouts and marks of confidence: docs/formats/anvil.md, section 1.
//!
//! File header:
//!
//! | Offset | Size | Field | Unit | Source, mark |
//! |---|---|---|---|---|
//! | 0x00 | 9 | `scimitar\0` | | anvil.md 1.1, A |
//! | 0x09 | 4 | u32 version | | anvil.md 1.1, A |
//! | 0x0D | 8 | u64 offset H of the data header | bytes | anvil.md 1.1, A |
//!
//! Data header at H (ids of 32 bits up to version 26, of 64 bits from 27 on):
//!
//! | Offset in 25, 26 | Offset from 27 on | Size | Field | Unit | Source, mark |
//! |---|---|---|---|---|---|
//! | H+0x00 | H+0x00 | 4 | i32 number of files | | anvil.md 1.2, A |
//! | H+0x04 | H+0x04 | 4 | i32 number of folders | | anvil.md 1.2, A |
//! | H+0x08 | H+0x08 | 4, 8 | u32 or u64 largest key | | anvil.md 1.2, A |
//! | H+0x0C | H+0x10 | 20 | i32 root, first free file, first free folder, size of a table, number of tables | | anvil.md 1.2, A |
//! | H+0x20 | H+0x24 | 8 | u64 offset of the first table | bytes | anvil.md 1.2, A |
//!
//! Table (a "file set"), 48 bytes; the chain ends at offset −1:
//!
//! | Offset | Size | Field | Unit | Source, mark |
//! |---|---|---|---|---|
//! | 0x00 | 4 | i32 entries in this table, may be 0 | | anvil.md 1.3, A |
//! | 0x04 | 4 | i32 folders | | anvil.md 1.3, A |
//! | 0x08 | 8 | i64 offset of the index records | bytes | anvil.md 1.3, A |
//! | 0x10 | 8 | i64 offset of the next table, −1 for none | bytes | anvil.md 1.3, A |
//! | 0x18 | 8 | i32 first and i32 last index | | anvil.md 1.3, A |
//! | 0x20 | 8 | i64 offset of the name records | bytes | anvil.md 1.3, A |
//! | 0x28 | 8 | i64 offset of the folder records | bytes | anvil.md 1.3, A |
//!
//! Index and name records: [`IndexLayout`], [`NameLayout`]. Versions 42 and 50 have no name records and one table.

use std::collections::HashSet;

use crate::error::{Error, Result};
use crate::io::bytes::Cursor;
use crate::io::read_at::ReadAt;

/// The first nine bytes.
pub const MAGIC: &[u8; 9] = b"scimitar\0";
/// GlobalMetaFile: raw bytes, no object (docs/formats/anvil.md, section 1.7).
pub const GLOBAL_META_FILE: u64 = 0x10;
/// PrefetchingFileInfos: not a pair of containers (docs/formats/anvil.md, section 1.7).
pub const PREFETCHING_FILE_INFOS: u64 = 0x91;

/// Files are padded to a multiple of this (docs/formats/anvil.md, section 1.7).
const PADDING: u64 = 0x8000;
const TABLE_SIZE: usize = 48;
/// No archive is known with more than 1.3 million entries; a file of zeros would otherwise pass for billions.
const MAX_ENTRIES: usize = 1 << 24;
/// Tools write 5,000 entries a table, games up to 69,000 (docs/formats/anvil.md, section 1.3).
const MAX_TABLES: usize = 1 << 16;

/// One entry of an archive (or of anything that is read like one).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Position in the archive, over all tables, special entries counted.
    pub index: usize,
    /// The ClassID (64-bit) or object id (32-bit) of its first object.
    pub id: u64,
    /// Name from the name record, where there is one and it is readable text.
    pub name: Option<String>,
    /// CRC-32 of the class name of its first object, from the name record.
    pub class: Option<u32>,
    /// Offset in the file.
    pub offset: u64,
    /// Size in bytes in the file.
    pub size: u64,
}

impl Entry {
    /// The name, or `entry_` and the id for an entry without one.
    pub fn display_name(&self) -> String {
        self.name.clone().unwrap_or_else(|| format!("entry_{:016X}", self.id))
    }

    /// Name and id, for messages.
    pub fn label(&self) -> String {
        match &self.name {
            Some(name) => format!("{name} (id {:X})", self.id),
            None => format!("entry_{:016X}", self.id),
        }
    }
}

/// The form of an index record (docs/formats/anvil.md, section 1.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexLayout {
    /// u64 offset, u32 id, u32 size: versions 25 and 26.
    Bytes16,
    /// u64 offset, u64 id, u32 size: versions 27 to 30.
    Bytes20,
    /// u64 offset, u64 id, u32 size, u32 class: versions 42 and 50.
    Bytes24,
}

impl IndexLayout {
    const ALL: [IndexLayout; 3] = [IndexLayout::Bytes16, IndexLayout::Bytes20, IndexLayout::Bytes24];

    fn size(self) -> usize {
        match self {
            IndexLayout::Bytes16 => 16,
            IndexLayout::Bytes20 => 20,
            IndexLayout::Bytes24 => 24,
        }
    }

    fn read(self, record: &[u8]) -> Result<Index> {
        let mut c = Cursor::new(record, 0);
        let offset = c.u64("entry offset")?;
        let id = match self {
            IndexLayout::Bytes16 => c.u32("entry id")? as u64,
            _ => c.u64("entry id")?,
        };
        let size = c.u32("entry size")?;
        let class = match self {
            IndexLayout::Bytes24 => Some(c.u32("entry class")?),
            _ => None,
        };
        Ok(Index { offset, id, size, class })
    }
}

struct Index {
    offset: u64,
    id: u64,
    size: u32,
    class: Option<u32>,
}

impl Index {
    /// Whether an entry of at least one byte lies in a file of `len` bytes, behind its header.
    fn fits(&self, len: u64) -> bool {
        self.offset >= MAGIC.len() as u64
            && self.size > 0
            && self.offset.checked_add(self.size as u64).is_some_and(|end| end <= len)
    }
}

/// The form of a name record (docs/formats/anvil.md, section 1.5).
///
/// | Layout | Size | Length word | Class | Name | Confidence |
/// |---|---|---|---|---|---|
/// | `Bytes188` (25, 26) | 188 | 0x00 | 0x10 | 0x2C, 128 bytes | A |
/// | `Bytes192` (27, 28) | 192 | 0x00 | 0x10 | 0x2C, 128 bytes | A |
/// | `Bytes320Size0` (29) | 320 | 0x00 | 0x10 | 0x2C, 255 bytes scrambled, u8 length | B |
/// | `Bytes320Size316` (30) | 320 | 0x13C | 0x12C | 0x14, 255 bytes scrambled, u8 length | B |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameLayout {
    /// Versions 25 and 26.
    Bytes188,
    /// Versions 27 and 28.
    Bytes192,
    /// Version 29.
    Bytes320Size0,
    /// Version 30.
    Bytes320Size316,
}

impl NameLayout {
    const ALL: [NameLayout; 4] =
        [NameLayout::Bytes188, NameLayout::Bytes192, NameLayout::Bytes320Size0, NameLayout::Bytes320Size316];

    fn size(self) -> usize {
        match self {
            NameLayout::Bytes188 => 188,
            NameLayout::Bytes192 => 192,
            _ => 320,
        }
    }

    /// The length word of `record`, which equals the entry's size: what proves the layout.
    fn length(self, record: &[u8]) -> Option<u32> {
        let at = if self == NameLayout::Bytes320Size316 { 316 } else { 0 };
        word(record, at)
    }

    fn class(self, record: &[u8]) -> Option<u32> {
        let at = if self == NameLayout::Bytes320Size316 { 300 } else { 16 };
        word(record, at).filter(|&class| class != 0)
    }

    fn name(self, record: &[u8], entry: &Index) -> Option<String> {
        let at = match self {
            NameLayout::Bytes188 | NameLayout::Bytes192 => return text(record.get(44..172)?),
            NameLayout::Bytes320Size0 => 44,
            NameLayout::Bytes320Size316 => 20,
        };
        let length = *record.get(at + 255)? as usize;
        let mut name = record.get(at..at + length)?.to_vec();
        // Key and step as RainbowForge has them (docs/formats/anvil.md, section 1.5, B); a name that is not
        // readable text is left out.
        let class = word(record, if at == 44 { 16 } else { 300 })? as u64;
        let mut key = 0xA860_F0EC_DE33_39FBu64
            .wrapping_add(entry.id)
            .wrapping_add(entry.offset)
            .wrapping_add(class)
            .wrapping_add(class << 32);
        for part in name.chunks_mut(8) {
            for (byte, k) in part.iter_mut().zip(key.to_le_bytes()) {
                *byte ^= k;
            }
            key = key.wrapping_add(0x3572_67C7_6FFB_9EB2);
        }
        readable(&name).or_else(|| readable(record.get(at..at + length)?))
    }
}

fn word(record: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*record.get(at..)?.first_chunk()?))
}

/// A NUL-padded name; `None` where it is empty or holds control characters.
fn text(field: &[u8]) -> Option<String> {
    let end = field.iter().position(|&b| b == 0).unwrap_or(field.len());
    let bytes = &field[..end];
    if bytes.is_empty() || bytes.iter().any(|&b| b < 0x20 || b == 0x7F) {
        return None;
    }
    Some(latin(bytes))
}

/// As [`text`], for what may still be scrambled: ASCII only.
fn readable(bytes: &[u8]) -> Option<String> {
    text(bytes).filter(|name| name.is_ascii())
}

/// UTF-8, or else one character a byte.
pub(crate) fn latin(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(s) => s.to_owned(),
        Err(_) => bytes.iter().map(|&b| b as char).collect(),
    }
}

/// An opened archive: the index is held, the payloads are read by position.
#[derive(Debug)]
pub struct Archive<R> {
    source: R,
    version: u32,
    entries: Vec<Entry>,
    /// The forms in which index and names were read; `None` where there was no entry.
    layout: Option<(IndexLayout, Option<NameLayout>)>,
    /// Where the last of tables and entries ends.
    content_end: u64,
    notes: Vec<String>,
    faults: Vec<Error>,
}

/// A table of the chain, with counts cut to what the file's size allows.
#[derive(Debug, Clone, Copy)]
struct Table {
    at: u64,
    count: u64,
    index: u64,
    names: Option<u64>,
}

impl<R: ReadAt> Archive<R> {
    /// Whether `prefix` (at least nine bytes of a file's start) shows an archive.
    pub fn probe(prefix: &[u8]) -> bool {
        prefix.starts_with(MAGIC)
    }

    /// Reads header, tables, index and names. Errors where nothing can be listed; what damages only a part of the
    /// archive is left for [`Archive::take_faults`].
    pub fn open(source: R) -> Result<Self> {
        let len = source.len();
        let mut head = [0u8; 37];
        let have = (len as usize).min(head.len());
        read(&source, &mut head[..have], 0, "file header")?;
        let head = &head[..have];
        if !head.starts_with(MAGIC) {
            let found = &head[..have.min(MAGIC.len())];
            return Err(Error::malformed(
                0,
                format_args!("{len} bytes that start with {}", crate::io::hex::spaced(found)),
                "a forge archive (\"scimitar\")",
            ));
        }
        let mut c = Cursor::new(head, 0);
        c.skip(MAGIC.len(), "magic")?;
        let version = c.u32("version")?;
        if version < 25 {
            return Err(
                Error::unsupported(format!("forge version {version} (known: 25 to 30, 42, 50)")).at(9)
            );
        }
        let header = c.u64("offset of the data header")?;

        let mut archive = Archive {
            source,
            version,
            entries: Vec::new(),
            layout: None,
            content_end: header.saturating_add(0x2C).min(len),
            notes: Vec::new(),
            faults: Vec::new(),
        };
        match version {
            25..=30 => {}
            42 | 50 => archive.notes.push(format!("forge version {version}: read by one tool's description")),
            _ => archive.notes.push(format!("forge version {version} is not known: read like version 27")),
        }
        let tables = match version {
            42 => archive.table_42(header)?,
            50 => archive.table_50(header)?,
            _ => archive.chain(header)?,
        };
        archive.list(&tables)?;
        if archive.entries.is_empty() && !archive.faults.is_empty() {
            return Err(archive.faults.swap_remove(0));
        }
        archive.check_end();
        Ok(archive)
    }

    /// The archive's bytes.
    pub fn source(&self) -> &R {
        &self.source
    }

    /// The version in the header.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The entries, special ones left out, in the order of the tables.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Notes: what was assumed, and what contradicts docs/formats.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// How index and names were read: version, record widths, whether the names read as text.
    pub fn form(&self) -> String {
        let names = match self.layout {
            None => return format!("forge version {} without entries", self.version),
            Some((_, None)) => "no name records".to_owned(),
            Some((_, Some(layout))) => {
                let named = self.entries.iter().filter(|e| e.name.is_some()).count();
                let all = self.entries.len();
                let names =
                    if named == all { String::new() } else { format!(" ({named} of {all} names read)") };
                format!("name records of {} bytes{names}", layout.size())
            }
        };
        let width = self.layout.map_or(0, |(index, _)| index.size());
        format!("forge version {}: index records of {width} bytes, {names}", self.version)
    }

    /// Takes the damage that did not stop the listing: each error is one failure to report.
    pub fn take_faults(&mut self) -> Vec<Error> {
        std::mem::take(&mut self.faults)
    }

    /// Reads the bytes of `entry` into `buffer`, which only ever grows, and returns them.
    pub fn read_entry<'b>(&self, entry: &Entry, buffer: &'b mut Vec<u8>) -> Result<&'b [u8]> {
        read_range(&self.source, entry.offset, entry.size, buffer)
    }

    /// Reports a file that ends within its padding. It was cut, though every entry is whole: a writer ends a file
    /// behind its last entry or at a page boundary. It is the only sign of damage where no entry was lost.
    fn check_end(&mut self) {
        let (len, content) = (self.source.len(), self.content_end);
        if content > len || len.is_multiple_of(PADDING) {
            return;
        }
        if (0..PADDING.trailing_zeros()).any(|bit| content.next_multiple_of(1 << bit) == len) {
            return self.notes.push(format!("the file is not padded to a multiple of 0x{PADDING:X} bytes"));
        }
        let mut rest = vec![0; (len - content).min(PADDING) as usize];
        let is_padding =
            read(&self.source, &mut rest, content, "padding").is_ok() && rest.iter().all(|b| *b == 0);
        if is_padding {
            self.faults.push(Error::malformed(
                len,
                format_args!("the end of the file after {len} (0x{len:X}) bytes, within its padding"),
                "a whole number of 0x8000-byte pages: the archive is cut short",
            ));
        } else {
            self.notes
                .push(format!("{} bytes behind the last entry that no index record names", len - content));
        }
    }

    /// The chain of tables from the data header on; `Err` where the first cannot be valid.
    fn chain(&mut self, header: u64) -> Result<Vec<Table>> {
        let len = self.source.len();
        let narrow = self.version <= 26;
        if header.checked_add(0x2C).is_none_or(|end| end > len) {
            return Err(Error::malformed(
                0x0D,
                format_args!("the data header at 0x{header:X} of {len} bytes"),
                "an offset inside the file",
            ));
        }
        let mut head = [0u8; 0x2C];
        read(&self.source, &mut head, header, "data header")?;
        let files = word(&head, 0).unwrap_or(0) as i32;
        let first = |at: usize| head[at..].first_chunk().map_or(u64::MAX, |b| u64::from_le_bytes(*b));
        let usual = if narrow { 0x20 } else { 0x24 };
        let mut at = first(usual);
        if at == u64::MAX && files == 0 {
            return Ok(Vec::new());
        }
        if !self.is_table(at) {
            let other = first(0x44 - usual);
            if !self.is_table(other) {
                return Err(Error::malformed(
                    header + usual as u64,
                    format_args!("the first index table at 0x{at:X} of {len} bytes"),
                    "an offset inside the file",
                ));
            }
            self.notes.push(format!(
                "forge version {}: the data header has the {} id width",
                self.version,
                if narrow { "64-bit" } else { "32-bit" }
            ));
            at = other;
        }

        let mut tables = Vec::new();
        let mut seen = HashSet::new();
        while at != u64::MAX {
            if seen.len() == MAX_TABLES {
                self.faults.push(Error::limit(
                    at,
                    "one more index table",
                    format_args!("at most {MAX_TABLES}"),
                ));
                break;
            }
            if !seen.insert(at) {
                self.faults.push(Error::malformed(
                    at,
                    "an index table that the chain has passed already",
                    "the chain of index tables to end",
                ));
                break;
            }
            let mut block = [0u8; TABLE_SIZE];
            if let Err(e) = read(&self.source, &mut block, at, "index table") {
                self.faults.push(e);
                break;
            }
            let mut c = Cursor::new(&block, at);
            let count = c.i32("entry count")?;
            c.skip(4, "folder count")?;
            let index = c.u64("index offset")?;
            let next = c.u64("next table")?;
            c.skip(8, "first and last index")?;
            let names = c.u64("name offset")?;
            let smallest = IndexLayout::Bytes16.size() as u64;
            match u64::try_from(count) {
                // The offsets of an empty table are not read, so any value is accepted.
                Ok(0) => self.content_end = self.content_end.max(at.saturating_add(TABLE_SIZE as u64)),
                Ok(count) if index.checked_add(count * smallest).is_some_and(|end| end <= len) => {
                    self.content_end = self.content_end.max(at.saturating_add(TABLE_SIZE as u64));
                    tables.push(Table { at, count, index, names: Some(names) });
                }
                _ => {
                    self.faults.push(Error::limit(
                        at,
                        format_args!("{count} index records at 0x{index:X} in a file of {len} bytes"),
                        "a count that the file can hold",
                    ));
                    break;
                }
            }
            at = next;
            if at == 0 {
                self.notes.push("the chain of index tables ends with 0 instead of -1".to_owned());
                break;
            }
        }
        let listed: u64 = tables.iter().map(|t| t.count).sum();
        if self.faults.is_empty() && u64::try_from(files).is_ok_and(|files| files != listed) {
            if listed == 0 {
                return Err(Error::malformed(
                    header,
                    format_args!("{files} files in the data header and none in the index tables"),
                    "an index record for each",
                ));
            }
            self.notes.push(format!("the data header counts {files} files, the index tables {listed}"));
        }
        Ok(tables)
    }

    /// Whether an index table can be at `at`.
    fn is_table(&self, at: u64) -> bool {
        let mut block = [0u8; TABLE_SIZE];
        at >= MAGIC.len() as u64
            && at.checked_add(TABLE_SIZE as u64).is_some_and(|end| end <= self.source.len())
            && self.source.read_exact_at(&mut block, at).is_ok()
    }

    /// Version 42 (docs/formats/anvil.md, section 1.4, C): at H, u32 count +0x0C, u32 offset of the records +0x28.
    fn table_42(&mut self, header: u64) -> Result<Vec<Table>> {
        let mut head = [0u8; 0x2C];
        read(&self.source, &mut head, header, "data header")?;
        let count = word(&head, 0x0C).unwrap_or(0) as u64;
        let index = word(&head, 0x28).unwrap_or(0) as u64;
        self.one_table(header, count, index)
    }

    /// Version 50 (docs/formats/anvil.md, section 1.4, C): at H, u32 count, u64 offset of the records, u64 end mark.
    fn table_50(&mut self, header: u64) -> Result<Vec<Table>> {
        let mut head = [0u8; 20];
        read(&self.source, &mut head, header, "data header")?;
        let mut c = Cursor::new(&head, header);
        let count = c.u32("entry count")? as u64;
        let index = c.u64("index offset")?;
        self.one_table(header, count, index)
    }

    fn one_table(&self, at: u64, count: u64, index: u64) -> Result<Vec<Table>> {
        let len = self.source.len();
        if index.checked_add(count * 16).is_none_or(|end| end > len) {
            return Err(Error::limit(
                at,
                format_args!("{count} index records at 0x{index:X} in a file of {len} bytes"),
                "a count that the file can hold",
            ));
        }
        Ok(if count == 0 { Vec::new() } else { vec![Table { at, count, index, names: None }] })
    }

    /// Finds the layouts of the records and reads every record.
    fn list(&mut self, tables: &[Table]) -> Result<()> {
        let total: u64 = tables.iter().map(|t| t.count).sum();
        if total > MAX_ENTRIES as u64 {
            return Err(Error::limit(
                tables.first().map_or(0, |t| t.at),
                format_args!("{total} entries"),
                format_args!("at most {MAX_ENTRIES}"),
            ));
        }
        let Some(layout) = self.index_layout(tables)? else { return Ok(()) };
        let names = self.name_layout(tables, layout);
        self.layout = Some((layout, names));
        self.entries.reserve_exact(total as usize);

        let (width, name_width) = (layout.size(), names.map_or(0, NameLayout::size));
        let len = self.source.len();
        let (mut buffer, mut name_buffer) = (Vec::new(), Vec::new());
        let mut outside = Outside::default();
        let mut base = 0usize;
        for table in tables {
            for (at, width) in [(Some(table.index), width), (table.names, name_width)] {
                let end = at.unwrap_or(0).saturating_add(table.count.saturating_mul(width as u64));
                // Name records that reach past the end count as missing.
                self.content_end = self.content_end.max(if end <= len { end } else { 0 });
            }
            // Read in chunks, so that a large count allocates nothing before the file is seen to hold as much.
            const CHUNK: u64 = 4096;
            let mut done = 0u64;
            while done < table.count {
                let n = CHUNK.min(table.count - done);
                buffer.resize(n as usize * width, 0);
                let at = table.index + done * width as u64;
                if let Err(e) = read(&self.source, &mut buffer, at, "index records") {
                    self.faults.push(e);
                    break;
                }
                name_buffer.resize(n as usize * name_width, 0);
                let named = names.is_some()
                    && table.names.is_some_and(|names| {
                        let at = names.checked_add(done * name_width as u64);
                        at.is_some_and(|at| read(&self.source, &mut name_buffer, at, "names").is_ok())
                    });
                for (i, record) in buffer.chunks_exact(width).enumerate() {
                    let entry = layout.read(record)?;
                    let index = base + done as usize + i;
                    let special = matches!(entry.id, GLOBAL_META_FILE | PREFETCHING_FILE_INFOS);
                    let (mut name, mut class) = (None, entry.class.filter(|&c| c != 0));
                    if let (Some(names), true) = (names, named) {
                        let record = &name_buffer[i * name_width..][..name_width];
                        name = names.name(record, &entry);
                        class = class.or_else(|| names.class(record));
                    }
                    let whole = entry.fits(len);
                    let entry = Entry {
                        index,
                        id: entry.id,
                        name,
                        class,
                        offset: entry.offset,
                        size: entry.size as u64,
                    };
                    if whole {
                        self.content_end = self.content_end.max(entry.offset + entry.size);
                        if !special {
                            self.entries.push(entry);
                        }
                    } else if entry.size > 0 {
                        outside.add(&entry, at + (i * width) as u64);
                    } else {
                        outside.empty += 1;
                    }
                }
                done += n;
            }
            base += table.count as usize;
        }
        if outside.empty > 0 {
            self.notes.push(format!("{} index records of size 0", outside.empty));
        }
        if let Some(fault) = outside.fault(len) {
            self.faults.push(fault);
        }
        Ok(())
    }

    /// The index layout: the version's where its records fit, otherwise the one whose records fit best.
    fn index_layout(&mut self, tables: &[Table]) -> Result<Option<IndexLayout>> {
        let Some(first) = tables.first() else { return Ok(None) };
        let usual = match self.version {
            25 | 26 => IndexLayout::Bytes16,
            42 | 50 => IndexLayout::Bytes24,
            _ => IndexLayout::Bytes20,
        };
        let len = self.source.len();
        let mut best = (usual, 0u64, 0u64);
        for layout in std::iter::once(usual).chain(IndexLayout::ALL.into_iter().filter(|&l| l != usual)) {
            let (mut fit, mut of) = (0u64, 0u64);
            for_samples(&self.source, tables, layout.size(), |record| {
                if let Ok(entry) = layout.read(record) {
                    of += 1;
                    fit += entry.fits(len) as u64;
                }
            });
            if fit > 0 && fit == of {
                best = (layout, fit, of);
                break;
            }
            if fit * best.2.max(1) > best.1 * of.max(1) {
                best = (layout, fit, of);
            }
        }
        let (layout, fit, of) = best;
        if fit == 0 {
            // No record makes sense in any layout. A single bad entry is reported by `list` instead.
            return Err(Error::malformed(
                first.index,
                format_args!("index records whose entries all lie outside the {len} bytes of the file"),
                "records of 16, 20 or 24 bytes",
            ));
        }
        if layout != usual {
            self.notes.push(format!(
                "forge version {}: {} of {of} index records checked fit as {} bytes, not as {}",
                self.version,
                fit,
                layout.size(),
                usual.size()
            ));
        }
        Ok(Some(layout))
    }

    /// The name layout: the first whose length word equals the entry's size on more than half of the records looked at.
    fn name_layout(&mut self, tables: &[Table], index: IndexLayout) -> Option<NameLayout> {
        let usual = match self.version {
            25 | 26 => NameLayout::Bytes188,
            29 => NameLayout::Bytes320Size0,
            30 => NameLayout::Bytes320Size316,
            42 | 50 => return None,
            _ => NameLayout::Bytes192,
        };
        let mut sizes = Vec::new();
        for_samples(&self.source, tables, index.size(), |record| {
            sizes.push(index.read(record).map_or(0, |e| e.size));
        });
        let mut record = [0u8; 320];
        for layout in std::iter::once(usual).chain(NameLayout::ALL.into_iter().filter(|&l| l != usual)) {
            let mut equal = 0;
            let mut sample = sizes.iter();
            for table in tables.iter().take(SAMPLE_TABLES) {
                for i in 0..table.count.min(SAMPLE) {
                    let size = sample.next();
                    let Some(names) = table.names else { continue };
                    let record = &mut record[..layout.size()];
                    let at = names.saturating_add(i * layout.size() as u64);
                    let found =
                        self.source.read_exact_at(record, at).ok().and_then(|()| layout.length(record));
                    equal += (found.is_some() && found == size.copied()) as usize;
                }
            }
            if equal * 2 > sizes.len() {
                if layout != usual {
                    self.notes.push(format!(
                        "forge version {}: name records read as {layout:?}, by their length words",
                        self.version
                    ));
                }
                return Some(layout);
            }
        }
        self.notes
            .push("no name records that agree with the index: entries are named by their ids".to_owned());
        None
    }
}

/// Records of each table that are looked at to find a layout, and how many tables.
const SAMPLE: u64 = 64;
const SAMPLE_TABLES: usize = 64;

/// Calls `f` with every sampled record, or with zeros where the file ends before it.
fn for_samples(source: &impl ReadAt, tables: &[Table], width: usize, mut f: impl FnMut(&[u8])) {
    for table in tables.iter().take(SAMPLE_TABLES) {
        for i in 0..table.count.min(SAMPLE) {
            let mut record = [0u8; 24];
            let record = &mut record[..width];
            if source.read_exact_at(record, table.index + i * width as u64).is_err() {
                record.fill(0);
            }
            f(record);
        }
    }
}

/// Entries that are outside the file, reported in one message.
#[derive(Default)]
struct Outside {
    count: usize,
    empty: usize,
    first: Option<(String, u64, u64, u64)>,
}

impl Outside {
    fn add(&mut self, entry: &Entry, record: u64) {
        self.count += 1;
        self.first.get_or_insert_with(|| (entry.label(), record, entry.offset, entry.size));
    }

    fn fault(self, len: u64) -> Option<Error> {
        let (label, record, offset, size) = self.first?;
        let more = match self.count {
            1 => String::new(),
            n => format!(" (and {} more entries like it)", n - 1),
        };
        Some(
            Error::malformed(
                record,
                format_args!("{size} bytes at 0x{offset:X}{more}"),
                format_args!("entries inside the {len} (0x{len:X}) bytes of the file"),
            )
            .in_entry(label),
        )
    }
}

/// Reads `size` bytes at `offset` into `buffer`, which only ever grows (so that no byte is cleared to be overwritten),
/// and returns them. The size is checked against the source before anything is allocated.
pub fn read_range<'b>(
    source: &impl ReadAt,
    offset: u64,
    size: u64,
    buffer: &'b mut Vec<u8>,
) -> Result<&'b [u8]> {
    let len = source.len();
    if offset.checked_add(size).is_none_or(|end| end > len) {
        return Err(Error::malformed(
            offset,
            format_args!("{size} bytes in a file of {len}"),
            "an entry inside the file",
        ));
    }
    if size > crate::games::anvil::container::MAX_UNPACKED as u64 {
        return Err(Error::limit(offset, format_args!("{size} bytes"), "at most 1 GiB an entry"));
    }
    let size = size as usize;
    if buffer.len() < size {
        buffer.resize(size, 0);
    }
    let bytes = &mut buffer[..size];
    read(source, bytes, offset, "entry")?;
    Ok(bytes)
}

fn read(source: &impl ReadAt, buffer: &mut [u8], offset: u64, what: &str) -> Result<()> {
    source.read_exact_at(buffer, offset).map_err(|e| match e.kind() {
        std::io::ErrorKind::UnexpectedEof => Error::malformed(
            offset,
            format_args!("the end of the file ({} bytes)", source.len()),
            format_args!("{} bytes of {what}", buffer.len()),
        ),
        _ => Error::io(&format!("cannot read the {what}"), e).at(offset),
    })
}
