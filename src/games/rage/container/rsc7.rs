//! RSC7: a RAGE resource, two memory segments in one raw deflate stream.
//!
//! | Offset | Size | Type | Field | Unit | Source |
//! |---|---|---|---|---|---|
//! | 0x00 | 4 | 4 bytes | `RSC7` | | rage.md 1 |
//! | 0x04 | 4 | u32 | version of the resource: clip dictionary 46, drawable 165 or 159, fragment 162 or 171 | | rage.md 1 |
//! | 0x08 | 4 | u32 | page flags of the system ("virtual") segment, see [`segment_size`] | | rage.md 1 |
//! | 0x0C | 4 | u32 | page flags of the graphics ("physical") segment | | rage.md 1 |
//! | 0x10 | | .. | raw deflate: system segment, then graphics segment; bytes after it mean nothing | | rage.md 1 |
//!
//! Some tools write the unpacked system segment without a header. Such a file has u32 1 at 4 and at 8 a pointer
//! of the system segment that lies inside the file (docs/formats/rage.md, section 1).
//!
//! Pointers are u64: the top nibble of the low word names the segment (5 system, 6 graphics), the 28 bits below
//! it are the offset, and 0 is null. The root object stands at 0x50000000.

use std::borrow::Cow;

use flate2::{Decompress, FlushDecompress, Status};

use crate::error::{Error, ErrorKind, Result};
use crate::io::bytes::Cursor;

/// First bytes of a resource with a header.
pub const MAGIC: [u8; 4] = *b"RSC7";
/// Bytes of the header.
pub const HEADER_SIZE: usize = 16;
/// The pointer to offset 0 of the system segment, where the root object is.
pub const ROOT: u64 = 0x5000_0000;

/// Deflate cannot make more than this of one byte (258 bytes out of 2 bits, and the code tables).
const MAX_DEFLATE_RATIO: u64 = 1032;
/// Pointers have 28 bits of offset: a larger segment could not be addressed.
const MAX_SEGMENT: u64 = 0x1000_0000;
/// Longest C string that is accepted. Names are paths of a few dozen characters.
const MAX_STRING: usize = 4096;
/// The least number of bytes that the output buffer grows by.
const STEP: usize = 1 << 16;

/// An unpacked resource.
#[derive(Debug, Clone)]
pub struct Resource<'a> {
    /// Version from the header; `None` where there is no header.
    pub version: Option<u32>,
    /// The system segment: what pointers 0x5....... point into.
    pub system: &'a [u8],
    /// The graphics segment: what pointers 0x6....... point into.
    pub graphics: &'a [u8],
    /// Whether the file was the unpacked system segment itself.
    pub headerless: bool,
    /// Deviations that did not stop the reading, one sentence each.
    pub notes: Vec<String>,
}

/// Bytes of a segment from its page flags (docs/formats/rage.md, section 1).
///
/// The low 4 bits give the smallest page, `0x200 << n`; fields above count pages of 1 to 256 times that.
pub fn segment_size(flags: u32) -> u64 {
    let field = |shift: u32, bits: u32| u64::from((flags >> shift) & ((1 << bits) - 1));
    let pages = field(27, 1)
        + field(26, 1) * 2
        + field(25, 1) * 4
        + field(24, 1) * 8
        + field(17, 7) * 16
        + field(11, 6) * 32
        + field(7, 4) * 64
        + field(5, 2) * 128
        + field(4, 1) * 256;
    pages * (0x200 << (flags & 15))
}

/// Whether `bytes` begin like a resource: with a header, or like an unpacked system segment.
/// At least the first 16 bytes must be given, and `len` is the length of the whole file.
pub fn probe(start: &[u8], len: u64) -> bool {
    start.starts_with(&MAGIC) || is_headerless(start, len)
}

/// u32 1 at 4 and a pointer of the system segment, inside the file, at 8.
fn is_headerless(start: &[u8], len: u64) -> bool {
    let Some((head, _)) = start.split_first_chunk::<16>() else { return false };
    let word = |i: usize| u32::from_le_bytes([head[i], head[i + 1], head[i + 2], head[i + 3]]);
    word(4) == 1 && word(12) == 0 && word(8) >> 28 == 5 && u64::from(word(8) & 0x0FFF_FFFF) < len
}

/// Unpacks a resource. `scratch` takes the unpacked segments and can be used again for the next file; a
/// headerless file is not copied.
///
/// # Errors
/// - Unsupported: encrypted (`FXAP`), of another game (`RSC8`), byte-swapped, or nothing of the kind.
/// - Limit: page flags that declare more than the stream can hold or a pointer can address.
/// - Malformed: a stream that is damaged or ends before the declared size.
pub fn open<'a>(bytes: &'a [u8], scratch: &'a mut Vec<u8>) -> Result<Resource<'a>> {
    match bytes.first_chunk::<4>() {
        Some(b"RSC7") => open_packed(bytes, scratch),
        Some(b"FXAP") => Err(Error::unsupported(
            "found FXAP: an asset encrypted by FiveM's escrow, which only its server can read; \
             ask its author for the open file",
        )
        .at(0)),
        Some(b"RSC8" | b"8CSR") => {
            Err(Error::unsupported("found RSC8: a resource of Red Dead Redemption 2, expected RSC7 of GTA V")
                .at(0))
        }
        Some(b"7CSR") => Err(Error::unsupported(
            "found a byte-swapped RSC7: a resource of a console edition, expected the PC edition",
        )
        .at(0)),
        _ if is_headerless(bytes, bytes.len() as u64) => Ok(Resource {
            version: None,
            system: bytes,
            graphics: &[],
            headerless: true,
            notes: vec!["no RSC7 header: read as an unpacked resource".to_owned()],
        }),
        Some(other) => Err(Error::malformed(
            0,
            format_args!("\"{}\"", other.escape_ascii()),
            "RSC7, or an unpacked resource (u32 1 at 4, a pointer at 8)",
        )),
        None => Err(Error::malformed(0, format_args!("{} bytes", bytes.len()), "an RSC7 header of 16")),
    }
}

fn open_packed<'a>(bytes: &'a [u8], scratch: &'a mut Vec<u8>) -> Result<Resource<'a>> {
    let mut header = Cursor::new(bytes, 0);
    header.skip(4, "the magic")?;
    let version = header.u32("the resource version")?;
    let system_flags = header.u32("the system page flags")?;
    let graphics_flags = header.u32("the graphics page flags")?;
    let (system, graphics) = (segment_size(system_flags), segment_size(graphics_flags));
    let packed = header.rest();
    for (at, flags, size) in [(8, system_flags, system), (12, graphics_flags, graphics)] {
        if size > MAX_SEGMENT {
            return Err(Error::limit(
                at,
                format_args!("page flags 0x{flags:08X} of {size} bytes"),
                format_args!("at most {MAX_SEGMENT}, which pointers can address"),
            ));
        }
    }
    let declared = system + graphics;
    if system == 0 {
        return Err(Error::malformed(8, "no system pages", "at least one"));
    }
    if declared > packed.len() as u64 * MAX_DEFLATE_RATIO {
        return Err(Error::limit(
            8,
            format_args!("{declared} bytes declared, {} packed", packed.len()),
            format_args!("at most {MAX_DEFLATE_RATIO} times what is packed"),
        ));
    }
    let mut notes = Vec::new();
    if !inflate(packed, declared as usize, HEADER_SIZE as u64, scratch)? {
        notes.push(format!("the deflate stream goes on after the declared {declared} bytes"));
    }
    let (system, graphics) = scratch.split_at(system as usize);
    Ok(Resource { version: Some(version), system, graphics, headerless: false, notes })
}

/// Inflates a raw deflate stream into `out` (cleared first) until `size` bytes are there. The buffer grows with
/// what is really unpacked, so that a false size costs nothing. `false`: the stream would go on.
///
/// # Errors
/// Malformed with an offset from `base`: a damaged stream, or one that ends early.
pub(crate) fn inflate(packed: &[u8], size: usize, base: u64, out: &mut Vec<u8>) -> Result<bool> {
    out.clear();
    let mut stream = Decompress::new(false);
    let failed = |stream: &Decompress, found: &dyn std::fmt::Display| {
        Error::malformed(
            base + stream.total_in(),
            format_args!("{found} after {} unpacked bytes", stream.total_out()),
            format_args!("a deflate stream of {size} bytes"),
        )
    };
    while out.len() < size {
        let done = out.len();
        let step = (size - done).min(done.max(packed.len().saturating_mul(4)).max(STEP));
        out.resize(done + step, 0);
        let consumed = stream.total_in();
        let status = stream
            .decompress(&packed[consumed as usize..], &mut out[done..], FlushDecompress::None)
            .map_err(|e| failed(&stream, &e))?;
        out.truncate(stream.total_out() as usize);
        let stuck = out.len() == done && stream.total_in() == consumed;
        match status {
            Status::StreamEnd if out.len() < size => return Err(failed(&stream, &"the end of the stream")),
            Status::StreamEnd => return Ok(true),
            _ if stuck => return Err(failed(&stream, &"the end of the file")),
            _ => {}
        }
    }
    // The end mark may still be missing. A stream that is cut right before it has given everything declared.
    let mut more = [0_u8; 1];
    let _ = stream.decompress(&packed[stream.total_in() as usize..], &mut more, FlushDecompress::None);
    Ok(stream.total_out() as usize == size)
}

impl<'a> Resource<'a> {
    /// The bytes from `pointer` to the end of its segment.
    ///
    /// # Errors
    /// Malformed: null, no pointer of a segment, or one behind the segment's end. The offset is the pointer.
    pub fn tail(&self, pointer: u64) -> Result<&'a [u8]> {
        let segment = match pointer >> 28 {
            5 => self.system,
            6 => self.graphics,
            _ => {
                return Err(Error::new(
                    ErrorKind::Malformed,
                    format!("found pointer 0x{pointer:08X}, expected 0x5....... or 0x6......."),
                ));
            }
        };
        let offset = (pointer & 0x0FFF_FFFF) as usize;
        segment.get(offset..).ok_or_else(|| {
            Error::malformed(
                pointer,
                format_args!("pointer 0x{pointer:08X}"),
                format_args!("one inside the {} bytes of its segment", segment.len()),
            )
        })
    }

    /// `len` bytes at `pointer`.
    ///
    /// # Errors
    /// Malformed: see [`Resource::tail`]; also where fewer bytes are there.
    pub fn at(&self, pointer: u64, len: usize) -> Result<&'a [u8]> {
        let bytes = self.tail(pointer)?;
        bytes.get(..len).ok_or_else(|| {
            Error::malformed(
                pointer,
                format_args!("{} bytes at pointer 0x{pointer:08X}", bytes.len()),
                format_args!("{len} of them"),
            )
        })
    }

    /// `count` items of `size` bytes at `pointer`; an empty slice for a count of 0, wherever it points.
    ///
    /// # Errors
    /// As [`Resource::at`]; Limit where the count cannot be there.
    pub fn items(&self, pointer: u64, count: usize, size: usize, what: &str) -> Result<&'a [u8]> {
        if count == 0 {
            return Ok(&[]);
        }
        self.cursor(pointer)?.take_items(count, size, what)
    }

    /// A cursor from `pointer` to the end of its segment. Its errors name pointers as offsets.
    ///
    /// # Errors
    /// See [`Resource::tail`].
    pub fn cursor(&self, pointer: u64) -> Result<Cursor<'a>> {
        Ok(Cursor::new(self.tail(pointer)?, pointer))
    }

    /// The NUL-terminated string at `pointer`, bytes that are no UTF-8 replaced; empty for null.
    ///
    /// # Errors
    /// Malformed: a pointer outside, or no NUL within 4096 bytes.
    pub fn string(&self, pointer: u64) -> Result<Cow<'a, str>> {
        if pointer == 0 {
            return Ok(Cow::Borrowed(""));
        }
        let bytes = self.tail(pointer)?;
        let bytes = &bytes[..bytes.len().min(MAX_STRING)];
        match bytes.iter().position(|b| *b == 0) {
            Some(n) => Ok(String::from_utf8_lossy(&bytes[..n])),
            None => Err(Error::malformed(
                pointer,
                format_args!("no NUL in {} bytes", bytes.len()),
                "a NUL-terminated string",
            )),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use flate2::{Compression, write::DeflateEncoder};
    use std::io::Write;

    fn deflate(data: &[u8]) -> Vec<u8> {
        let mut e = DeflateEncoder::new(Vec::new(), Compression::default());
        e.write_all(data).unwrap();
        e.finish().unwrap()
    }

    fn packed(system_flags: u32, graphics_flags: u32, data: &[u8]) -> Vec<u8> {
        let mut out = b"RSC7".to_vec();
        for word in [46, system_flags, graphics_flags] {
            out.extend(u32::to_le_bytes(word));
        }
        out.extend(deflate(data));
        out
    }

    fn fails(bytes: &[u8]) -> Error {
        open(bytes, &mut Vec::new()).unwrap_err()
    }

    #[test]
    fn page_flags_to_sizes() {
        // b27 counts smallest pages of 0x200 << 4; the bits from b4 up count larger ones.
        assert_eq!(segment_size(1 << 27 | 4), 0x2000);
        assert_eq!(segment_size(0x2000_0000), 0);
        assert_eq!(segment_size(1 << 4), 0x200 * 256);
        assert_eq!(segment_size(3 << 17 | 1 << 26 | 1), 0x400 * (48 + 2));
        assert_eq!(
            segment_size(0x0FFF_FFFF),
            (0x200 << 15) * (15 + 127 * 16 + 63 * 32 + 15 * 64 + 384 + 256)
        );
    }

    #[test]
    fn segments_and_pointers() {
        let mut data = vec![0_u8; 0x600];
        data[0x10..0x14].copy_from_slice(b"abc\0");
        data[0x400] = 7;
        let mut file = packed(1 << 26, 1 << 27, &data);
        file.extend([1, 2, 3, 4]);
        let mut scratch = vec![9; 3];
        let r = open(&file, &mut scratch).unwrap();
        assert_eq!((r.version, r.system.len(), r.graphics.len()), (Some(46), 0x400, 0x200));
        assert!(r.notes.is_empty());
        assert_eq!(r.string(0x5000_0010).unwrap(), "abc");
        assert_eq!(r.at(0x6000_0000, 1).unwrap(), [7]);
        assert_eq!(r.at(0x5000_0400, 0).unwrap().len(), 0);
        for bad in [0, 0x5000_0401, 0x7000_0000, 0x1_5000_0000] {
            let e = r.at(bad, 0).unwrap_err();
            assert!(e.to_string().contains(&format!("0x{bad:08X}")), "{e}");
        }
        assert_eq!(r.items(0x5000_0000, 0x401, 1, "x").unwrap_err().kind(), ErrorKind::Limit);
    }

    #[test]
    fn refusals() {
        assert!(fails(b"FXAP0000").to_string().contains("escrow"));
        assert!(fails(b"RSC8........").to_string().contains("Red Dead"));
        assert_eq!(fails(b"7CSR").kind(), ErrorKind::Unsupported);
        assert_eq!(fails(b"\0\0").kind(), ErrorKind::Malformed);
        assert_eq!(fails(&packed(0, 0, &[])).kind(), ErrorKind::Malformed);
        // 256 MiB from a few bytes.
        assert_eq!(fails(&packed(1 << 4 | 11, 0, &[0; 64])).kind(), ErrorKind::Limit);
        assert_eq!(fails(&packed(1 << 4 | 15, 0, &[0; 64])).kind(), ErrorKind::Limit);
        let whole = packed(1 << 27, 0, &[5; 0x200]);
        for n in 0..whole.len() - 1 {
            assert_eq!(fails(&whole[..n]).file(), None);
        }
        let short = packed(1 << 26, 0, &[5; 0x200]);
        assert!(fails(&short).to_string().contains("512 unpacked bytes"));
    }

    #[test]
    fn longer_stream_is_noted() {
        let file = packed(1 << 27, 0, &[5; 0x300]);
        let mut scratch = Vec::new();
        let r = open(&file, &mut scratch).unwrap();
        assert_eq!((r.system.len(), r.notes.len()), (0x200, 1));
    }

    #[test]
    fn headerless() {
        let mut file = vec![0_u8; 0x80];
        file[4] = 1;
        file[8..12].copy_from_slice(&0x5000_0040_u32.to_le_bytes());
        let mut scratch = Vec::new();
        let r = open(&file, &mut scratch).unwrap();
        assert!(r.headerless && r.version.is_none() && r.system.len() == 0x80);
        file[8] = 0x80;
        assert_eq!(fails(&file).kind(), ErrorKind::Malformed);
    }
}
