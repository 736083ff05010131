//! Anvil's data containers: packed blocks behind a magic. An entry's payload is a chain of them.
//!
//! Before the payload (docs/formats/anvil.md, section 1.7): in versions 25 and 26 a header of 0x1B8 bytes that starts
//! with `FILEDATA`; in some files four bytes (a checksum). Both are found by the magics, not assumed.
//!
//! Container header (docs/formats/anvil.md, section 2.1):
//!
//! | Offset | Size | Field | Unit | Source, mark |
//! |---|---|---|---|---|
//! | 0 | 8 | magic `33 AA FB 57 99 FA 04 10`, or `34 .. 14 10`, `35 .. 15 10`, `36 .. 16 10` | | anvil.md 2.1, A |
//! | 8 | 2 | version: up to 1 block sizes are u16, from 2 on u32 | | anvil.md 2.1, A |
//! | 10 | 1 | algorithm ([`crate::games::anvil::container::codec`]) | | anvil.md 2.4, A |
//! | 11 | 4 | u16 largest unpacked and u16 largest packed block, or one u32; bit 31 set: table form, clear: streaming form | bytes | anvil.md 2.1, B |
//!
//! Table form (docs/formats/anvil.md, section 2.2): block count (u16 or u32), per block {unpacked, packed}, then per
//! block {u32 checksum, packed bytes}. Equal sizes: stored. A u16 size of 0 is 65,536.
//!
//! Streaming form (docs/formats/anvil.md, section 2.3), up to the end of the payload or the next magic: u8 1, u32
//! packed, u32 unpacked, u32 checksum, bytes; or u8 0, u32 size, raw bytes.
//!
//! The widths of the count and of the sizes are not stated anywhere. A reading of the table counts if its blocks end
//! exactly at the payload's end or at the next magic and no block unpacks to more than the stated maximum; where more
//! than one does, the checksums decide, and every block must decode to its exact length.

use std::ops::Range;

use crate::error::{Error, ErrorKind, Result};
use crate::games::anvil::container::MAX_UNPACKED;
use crate::games::anvil::container::codec::checksum::Checksum;
use crate::games::anvil::container::codec::{Codec, Decoders, refused, signature};
use crate::io::hex;

/// The first eight bytes of `FILEDATA` headers.
pub const FILEDATA: &[u8; 8] = b"FILEDATA";
/// Length of a `FILEDATA` header.
pub const FILEDATA_SIZE: usize = 0x1B8;
/// Limit of a block's unpacked size, bytes: 64 times the largest known.
const MAX_BLOCK: usize = 16 << 20;
const HEADER: usize = 15;
/// First byte of the magic of most games.
const USUAL_MAGIC: u8 = 0x33;

/// How a payload is read.
#[derive(Debug, Clone, Copy, Default)]
pub struct DataOptions {
    /// Version of the archive, where there is one: up to 26 block counts are u16, from 27 on u32.
    pub forge_version: Option<u32>,
    /// The codec of every packed block, instead of the one that the container shows.
    pub codec: Option<Codec>,
}

/// One unpacked container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// Where it starts in the payload.
    pub at: usize,
    /// Where its bytes are in [`Unpacked::bytes`].
    pub range: Range<usize>,
    /// How it was read.
    pub form: ContainerForm,
}

/// How a container was read: what its header states, and what was found by trying.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContainerForm {
    /// The first byte of its magic, 0x33 to 0x36.
    pub magic: u8,
    /// Version in its header.
    pub version: u16,
    /// Algorithm byte in its header.
    pub algorithm: u8,
    /// The codec of its last packed block; `Stored` where no block was packed.
    pub codec: Codec,
    /// Bits of the block count and of each size; `None` in streaming form.
    pub table_bits: Option<(u8, u8)>,
    /// The checksum that its blocks match; `None` where none does, or no block has one.
    pub checksum: Option<Checksum>,
}

impl std::fmt::Display for ContainerForm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.magic != USUAL_MAGIC {
            write!(f, "magic {:X}, ", self.magic)?;
        }
        write!(f, "version {}, algorithm byte {}: {}, ", self.version, self.algorithm, self.codec)?;
        match self.table_bits {
            Some((count, size)) => write!(f, "{count}-bit count and {size}-bit sizes")?,
            None => f.write_str("streaming form")?,
        }
        match self.checksum {
            Some(checksum) => write!(f, ", {checksum}"),
            None => f.write_str(", no checksum that matches"),
        }
    }
}

/// An unpacked payload.
#[derive(Debug, Clone, Copy)]
pub struct Unpacked<'a> {
    /// The unpacked containers one after another, or the raw payload.
    pub bytes: &'a [u8],
    /// Bytes of the payload before the first container: a `FILEDATA` header, a checksum.
    pub before: usize,
    /// The containers; empty where the payload was raw.
    pub containers: &'a [Container],
    /// Notes: what was assumed, and checksums that do not match.
    pub notes: &'a [String],
}

/// Unpacks payloads into buffers that it keeps.
#[derive(Debug, Default)]
pub struct Unpacker {
    decoders: Decoders,
    out: Output,
    containers: Vec<Container>,
    notes: Vec<String>,
}

/// A buffer that only grows: clearing bytes that are then overwritten would cost time.
#[derive(Debug, Default)]
struct Output {
    bytes: Vec<u8>,
    used: usize,
}

impl Output {
    /// The next `n` bytes.
    fn take(&mut self, n: usize) -> &mut [u8] {
        let end = self.used + n;
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        let range = self.used..end;
        self.used = end;
        &mut self.bytes[range]
    }
}

/// Whether there is a container's magic at `at`.
pub fn magic_at(payload: &[u8], at: usize) -> bool {
    matches!(
        payload.get(at..),
        Some([n @ 0x33..=0x36, 0xAA, 0xFB, 0x57, 0x99, 0xFA, k, 0x10, ..])
            if *k == if *n == 0x33 { 0x04 } else { 0x10 | (n & 7) }
    )
}

/// The offset of a container's magic at `at` or four bytes behind it.
fn container_at(payload: &[u8], at: usize) -> Option<usize> {
    [at, at + 4].into_iter().find(|&at| magic_at(payload, at))
}

/// `payload` without its `FILEDATA` header, and the length of that header.
pub fn strip_filedata(payload: &[u8]) -> (&[u8], usize) {
    match payload.get(FILEDATA_SIZE..) {
        Some(rest) if payload.starts_with(FILEDATA) => (rest, FILEDATA_SIZE),
        _ => (payload, 0),
    }
}

/// Whether `prefix` (the first 0x1B8 + 12 bytes of a file, or all of a shorter one) starts a chain of containers.
pub fn probe(prefix: &[u8]) -> bool {
    container_at(strip_filedata(prefix).0, 0).is_some()
}

#[derive(Clone, Copy)]
struct Header {
    at: usize,
    magic: u8,
    version: u16,
    algorithm: u8,
    word: u32,
}

impl Header {
    fn read(payload: &[u8], at: usize) -> Result<Self> {
        let Some(bytes) = payload[at..].first_chunk::<HEADER>() else {
            return Err(Error::malformed(
                at as u64,
                format_args!("{} bytes", payload.len() - at),
                "a container header of 15",
            ));
        };
        Ok(Header {
            at,
            magic: bytes[0],
            version: u16::from_le_bytes([bytes[8], bytes[9]]),
            algorithm: bytes[10],
            word: u32::from_le_bytes([bytes[11], bytes[12], bytes[13], bytes[14]]),
        })
    }

    fn is_table(self) -> bool {
        self.word >> 31 == 1
    }

    /// The largest unpacked block: the u32 without bit 31 where that can be a block, otherwise the first u16.
    /// (0x8000 and 0x8000 give 0x8000 either way.)
    fn largest(self) -> usize {
        let whole = (self.word & 0x7FFF_FFFF) as usize;
        if whole <= MAX_BLOCK { whole } else { (self.word & 0xFFFF) as usize }
    }
}

/// A way to read a block table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Form {
    count_width: usize,
    size_width: usize,
}

/// A block table read in one form.
#[derive(Debug, Clone, Copy)]
struct Framing<'a> {
    form: Form,
    /// The size pairs.
    sizes: &'a [u8],
    /// Offset of the first block's checksum.
    start: usize,
    end: usize,
}

/// A block: its sizes, and the offset of its packed bytes.
#[derive(Clone, Copy)]
struct Block {
    unpacked: usize,
    packed: usize,
    at: usize,
}

impl<'a> Framing<'a> {
    /// Reads the table in `form`; `Err` says where the blocks would end, or why there is no such table.
    fn read(payload: &'a [u8], header: Header, form: Form) -> Result<Self, String> {
        let at = header.at + HEADER;
        let rest = &payload[at..];
        let count = match form.count_width {
            2 => rest.first_chunk().map(|b| u16::from_le_bytes(*b) as usize),
            _ => rest.first_chunk().map(|b| u32::from_le_bytes(*b) as usize),
        }
        .ok_or("no block count")?;
        let rest = &rest[form.count_width..];
        let table = count
            .checked_mul(2 * form.size_width)
            .filter(|&n| n <= rest.len() && count * 4 <= rest.len() - n)
            .ok_or_else(|| format!("{count} blocks in {} bytes", rest.len()))?;
        let start = at + form.count_width + table;
        let mut framing = Framing { form, sizes: &rest[..table], start, end: start };
        let (mut end, mut unpacked) = (start, 0usize);
        for block in framing.blocks() {
            if block.unpacked > header.largest() {
                return Err(format!("a block of {} bytes (at most {})", block.unpacked, header.largest()));
            }
            unpacked = unpacked.saturating_add(block.unpacked);
            end = block.at.saturating_add(block.packed);
            if end > payload.len() {
                return Err(format!("blocks past the end at {}", payload.len()));
            }
        }
        if unpacked > MAX_UNPACKED {
            return Err(format!("{unpacked} unpacked bytes (at most 1 GiB)"));
        }
        if end != payload.len() && container_at(payload, end).is_none() {
            return Err(format!("blocks up to {end}"));
        }
        framing.end = end;
        Ok(framing)
    }

    fn blocks(self) -> impl Iterator<Item = Block> + 'a {
        let (size, sizes) = (self.form.size_width, self.sizes);
        let mut next = self.start;
        sizes.chunks_exact(2 * size).map(move |pair| {
            let (unpacked, packed) = if size == 2 {
                let read = |i: usize| match u16::from_le_bytes([pair[i], pair[i + 1]]) {
                    0 => 0x1_0000,
                    n => n as usize,
                };
                (read(0), read(2))
            } else {
                let read =
                    |i: usize| u32::from_le_bytes([pair[i], pair[i + 1], pair[i + 2], pair[i + 3]]) as usize;
                (read(0), read(4))
            };
            let at = next.saturating_add(4);
            next = at.saturating_add(packed);
            Block { unpacked, packed, at }
        })
    }

    /// How many blocks have the right checksum, of the kind that the first block has.
    fn matching(self, payload: &[u8]) -> usize {
        let mut sums = Sums::default();
        self.blocks().filter(|b| sums.matches(payload, *b)).count()
    }
}

/// Compares checksums; the first block that matches any kind settles the kind.
#[derive(Default)]
struct Sums {
    kind: Option<Checksum>,
}

impl Sums {
    fn matches(&mut self, payload: &[u8], block: Block) -> bool {
        let stored = payload[block.at - 4..].first_chunk().map_or(0, |b| u32::from_le_bytes(*b));
        let bytes = &payload[block.at..block.at + block.packed];
        match self.kind {
            Some(kind) => kind.of(bytes) == stored,
            None => {
                self.kind = Checksum::ALL.into_iter().find(|kind| kind.of(bytes) == stored);
                self.kind.is_some()
            }
        }
    }
}

impl Unpacker {
    /// Unpacks `payload`: skips what is before the first container, then unpacks containers to the payload's end. A
    /// payload without a container is raw and returned as it is.
    ///
    /// Errors carry offsets in `payload`. Never allocates more than 16 MiB beyond what was decoded.
    pub fn unpack<'a>(&'a mut self, payload: &'a [u8], options: &DataOptions) -> Result<Unpacked<'a>> {
        self.out.used = 0;
        self.containers.clear();
        self.notes.clear();
        let (body, skipped) = strip_filedata(payload);
        let Some(mut at) = container_at(body, 0) else {
            if body.starts_with(&[0x10, 0x04, 0xFA, 0x99, 0x57, 0xFB, 0xAA, 0x33]) {
                return Err(Error::unsupported("a big-endian (console) data container").at(skipped as u64));
            }
            return Ok(Unpacked { bytes: body, before: skipped, containers: &[], notes: &self.notes });
        };
        let before = skipped + at;
        loop {
            let header = Header::read(body, at).map_err(|e| shift(e, skipped))?;
            let end = if header.is_table() {
                self.table(body, header, options)
            } else {
                self.stream(body, header, options)
            }
            .map_err(|e| shift(e, skipped))?;
            if end == body.len() {
                break;
            }
            at = match container_at(body, end) {
                // The form was chosen so that the end cannot be before the start.
                Some(next) if next > at => next,
                _ => {
                    return Err(Error::malformed(
                        (skipped + end) as u64,
                        format_args!("{} more bytes", body.len() - end),
                        "the end or another container",
                    ));
                }
            };
        }
        let bytes = &self.out.bytes[..self.out.used];
        Ok(Unpacked { bytes, before, containers: &self.containers, notes: &self.notes })
    }

    /// Unpacks a container in table form and returns where it ends.
    fn table(&mut self, payload: &[u8], header: Header, options: &DataOptions) -> Result<usize> {
        let usual = Form {
            count_width: if options.forge_version.is_some_and(|v| v <= 26) { 2 } else { 4 },
            size_width: if header.version <= 1 { 2 } else { 4 },
        };
        let mut framings: Vec<(usize, Framing<'_>)> = Vec::new();
        let mut refusals = Vec::new();
        for (count_width, size_width) in [
            (usual.count_width, usual.size_width),
            (6 - usual.count_width, usual.size_width),
            (usual.count_width, 6 - usual.size_width),
            (6 - usual.count_width, 6 - usual.size_width),
        ] {
            let form = Form { count_width, size_width };
            match Framing::read(payload, header, form) {
                Ok(framing) => framings.push((0, framing)),
                Err(why) => refusals.push(format!("with {form}: {why}")),
            }
        }
        if framings.is_empty() {
            return Err(Error::malformed(
                header.at as u64,
                format_args!("{} ({})", header.describe(), refusals.join("; ")),
                "a block table whose blocks end at the payload's end or at another container",
            ));
        }
        if framings.len() > 1 {
            for (matching, framing) in &mut framings {
                // The share of matching blocks counts, so that a reading with few blocks is not at a disadvantage.
                let blocks = framing.blocks().count().max(1);
                *matching = framing.matching(payload) * 1000 / blocks;
            }
            framings.sort_by_key(|(matching, _)| std::cmp::Reverse(*matching));
        }
        let ambiguous = framings.len() > 1;
        let mut failure = None;
        for (_, framing) in framings {
            let kept = (self.out.used, self.notes.len());
            match self.blocks(payload, header, framing, options) {
                Ok(()) => {
                    if framing.form != usual {
                        let by = if ambiguous { "checksums and lengths" } else { "where the blocks end" };
                        self.notes.push(format!("block table with {} (by {by})", framing.form));
                    }
                    return Ok(framing.end);
                }
                Err(e) => {
                    self.out.used = kept.0;
                    self.notes.truncate(kept.1);
                    failure.get_or_insert(e);
                }
            }
        }
        Err(failure.unwrap_or_else(|| Error::new(ErrorKind::Malformed, "no block table")))
    }

    /// Decodes the blocks of a table.
    fn blocks(
        &mut self,
        payload: &[u8],
        header: Header,
        framing: Framing<'_>,
        options: &DataOptions,
    ) -> Result<()> {
        let start = self.out.used;
        let mut codec = None;
        let mut sums = Sums::default();
        let mut wrong = (0usize, 0usize);
        let mut count = 0usize;
        for (i, block) in framing.blocks().enumerate() {
            if !sums.matches(payload, block) {
                if wrong.0 == 0 {
                    wrong.1 = i;
                }
                wrong.0 += 1;
            }
            self.block(payload, header, i, block, &mut codec, options)?;
            count = i + 1;
        }
        if wrong.0 > 0 {
            self.notes.push(format!(
                "{} of {count} blocks have another checksum than stored (the first is block {}); all decode exactly",
                wrong.0, wrong.1
            ));
        }
        self.finish(header, start, codec, Some(framing.form), sums.kind);
        Ok(())
    }

    /// Unpacks a container in streaming form and returns where it ends.
    fn stream(&mut self, payload: &[u8], header: Header, options: &DataOptions) -> Result<usize> {
        let start = self.out.used;
        let mut codec = None;
        let mut sums = Sums::default();
        let mut at = header.at + HEADER;
        let mut wrong = 0usize;
        let mut i = 0;
        while at < payload.len() && container_at(payload, at).is_none() {
            let short = |need: usize| {
                Error::malformed(
                    at as u64,
                    format_args!("{} bytes left", payload.len() - at),
                    format_args!("{need} of block {i} of {}", header.describe()),
                )
            };
            let word =
                |k: usize| payload[at..].get(k..)?.first_chunk().map(|b| u32::from_le_bytes(*b) as usize);
            let block = match payload[at] {
                0 => {
                    let size = word(1).ok_or_else(|| short(5))?;
                    Block { unpacked: size, packed: size, at: at + 5 }
                }
                1 => {
                    let (packed, unpacked) = word(1).zip(word(5)).ok_or_else(|| short(13))?;
                    Block { unpacked, packed, at: at + 13 }
                }
                flag => {
                    return Err(Error::malformed(
                        at as u64,
                        format_args!("flag {flag} before block {i} of {}", header.describe()),
                        "0 (raw) or 1 (packed)",
                    ));
                }
            };
            if block.at > payload.len() || block.packed > payload.len() - block.at {
                return Err(short(block.packed.saturating_add(block.at - at)));
            }
            if payload[at] == 1 && !sums.matches(payload, block) {
                wrong += 1;
            }
            self.block(payload, header, i, block, &mut codec, options)?;
            at = block.at + block.packed;
            i += 1;
        }
        if wrong > 0 {
            self.notes.push(format!("{wrong} of {i} streamed blocks have another checksum than stored"));
        }
        self.finish(header, start, codec, None, sums.kind);
        Ok(at)
    }

    /// Decodes one block to the end of the output.
    fn block(
        &mut self,
        payload: &[u8],
        header: Header,
        index: usize,
        block: Block,
        codec: &mut Option<Codec>,
        options: &DataOptions,
    ) -> Result<()> {
        let bytes = &payload[block.at..block.at + block.packed];
        let stored = block.packed == block.unpacked;
        if block.unpacked > MAX_UNPACKED - self.out.used || (!stored && block.unpacked > MAX_BLOCK) {
            return Err(Error::limit(
                block.at as u64,
                format_args!(
                    "block {index} of {} that unpacks to {} bytes",
                    header.describe(),
                    block.unpacked
                ),
                "at most 16 MiB a block and 1 GiB an entry",
            ));
        }
        let out = self.out.take(block.unpacked);
        if stored {
            out.copy_from_slice(bytes);
            return Ok(());
        }
        let result = match options.codec {
            Some(codec) => self.decoders.decode(codec, bytes, out).map(|()| codec),
            None => self.decoders.decode_any(header.algorithm, *codec, bytes, out),
        };
        match result {
            Ok(used) => {
                *codec = Some(used);
                Ok(())
            }
            Err(reason) => {
                let message = format!(
                    "block {index} of {} ({} bytes, first {}) does not decode to {} bytes: {reason}",
                    header.describe(),
                    bytes.len(),
                    hex::spaced(&bytes[..bytes.len().min(8)]),
                    block.unpacked
                );
                let unknown = options.codec.is_none() && codec.is_none() && signature(bytes).is_none();
                let kind = if unknown && refused(header.algorithm).is_some() {
                    ErrorKind::Unsupported
                } else {
                    ErrorKind::Malformed
                };
                Err(Error::new(kind, message).at(block.at as u64))
            }
        }
    }

    fn finish(
        &mut self,
        header: Header,
        start: usize,
        codec: Option<Codec>,
        table: Option<Form>,
        checksum: Option<Checksum>,
    ) {
        let form = ContainerForm {
            magic: header.magic,
            version: header.version,
            algorithm: header.algorithm,
            codec: codec.unwrap_or(Codec::Stored),
            table_bits: table.map(|form| (form.count_width as u8 * 8, form.size_width as u8 * 8)),
            checksum,
        };
        self.containers.push(Container { at: header.at, range: start..self.out.used, form });
    }
}

impl Header {
    fn describe(self) -> String {
        format!("a data container of version {}, algorithm byte {}", self.version, self.algorithm)
    }
}

impl std::fmt::Display for Form {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-bit count and {}-bit sizes", self.count_width * 8, self.size_width * 8)
    }
}

/// Moves an error's offset from the body to the payload.
fn shift(error: Error, by: usize) -> Error {
    match error.offset() {
        Some(offset) => error.at(offset + by as u64),
        None => error,
    }
}
