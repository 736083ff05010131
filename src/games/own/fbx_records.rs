//! The container of binary FBX 7: nested records.
//!
//! Little-endian; the words of a record are u32 below version 7500 and u64 from there on.
//!
//! | Offset | Type | Field |
//! |---|---|---|
//! | 0 | 23 bytes | `Kaydara FBX Binary  \0\x1A\0` |
//! | 23 | u32 | version |
//! | 27 | records | up to one of zeros; a footer follows that is not read |
//!
//! | Of a record | |
//! |---|---|
//! | word | offset in the file behind it; 0 ends a list |
//! | word | number of properties |
//! | word | bytes of properties |
//! | u8, bytes | name |
//! | properties | a type letter, then the value |
//! | records | up to the end |
//!
//! Properties: `C` `B` u8, `Y` i16, `I` i32, `L` i64, `F` f32, `D` f64; `S` `R` u32 length and bytes; arrays `i`
//! `l` `f` `d` `b`: u32 count, u32 encoding (0 plain, 1 zlib), u32 bytes that follow, the bytes.

use std::io::Read;

use flate2::read::ZlibDecoder;

use crate::error::{Error, Result};
use crate::io::bytes::Cursor;

/// First bytes of a binary FBX file.
pub const MAGIC: &[u8] = b"Kaydara FBX Binary  \0\x1a\0";
/// Deepest nesting that is followed; what is read here stands five deep.
const MAX_DEPTH: u32 = 64;
/// zlib cannot make more than this of a byte (a run of zeros).
const MAX_INFLATION: usize = 1040;

/// A property of a record.
#[derive(Debug, Clone, Copy)]
pub enum Property<'a> {
    Integer(i64),
    Number(f64),
    Text(&'a [u8]),
    Array(Array<'a>),
}

/// An array as it is stored.
#[derive(Debug, Clone, Copy)]
pub struct Array<'a> {
    letter: u8,
    count: usize,
    packed: bool,
    bytes: &'a [u8],
    offset: u64,
}

impl<'a> Property<'a> {
    pub fn integer(&self) -> Option<i64> {
        match self {
            Property::Integer(v) => Some(*v),
            _ => None,
        }
    }

    pub fn number(&self) -> Option<f64> {
        match self {
            Property::Integer(v) => Some(*v as f64),
            Property::Number(v) => Some(*v),
            _ => None,
        }
    }

    pub fn text(&self) -> Option<&'a [u8]> {
        match self {
            Property::Text(v) => Some(v),
            _ => None,
        }
    }
}

macro_rules! values {
    ($name:ident, $out:ty, $($letter:literal => $type:ty),*) => {
        /// Its values.
        ///
        /// # Errors
        /// Another type, or bytes that do not unpack to the stated count.
        pub fn $name(&self) -> Result<Vec<$out>> {
            match self.letter {
                $($letter => {
                    let mut plain = Vec::new();
                    let bytes = self.plain(size_of::<$type>(), &mut plain)?;
                    let (chunks, _) = bytes.as_chunks();
                    Ok(chunks.iter().map(|c| <$out>::from(<$type>::from_le_bytes(*c))).collect())
                })*
                other => Err(Error::malformed(
                    self.offset,
                    format_args!("an array of type {:?}", other as char),
                    concat!("an array for ", stringify!($out)),
                )),
            }
        }
    };
}

impl<'a> Array<'a> {
    values!(integers, i64, b'l' => i64, b'i' => i32);
    values!(numbers, f64, b'f' => f32, b'd' => f64);

    /// The bits of 32-bit values, whichever they are.
    pub fn words(&self) -> Result<Vec<u32>> {
        if !matches!(self.letter, b'f' | b'i') {
            return Err(Error::malformed(
                self.offset,
                format_args!("an array of type {:?}", self.letter as char),
                "32-bit values",
            ));
        }
        let mut plain = Vec::new();
        let (chunks, _) = self.plain(4, &mut plain)?.as_chunks();
        Ok(chunks.iter().map(|c| u32::from_le_bytes(*c)).collect())
    }

    fn plain<'b>(&'b self, width: usize, out: &'b mut Vec<u8>) -> Result<&'b [u8]> {
        let wanted = self.count.checked_mul(width).filter(|n| {
            if self.packed { n / MAX_INFLATION <= self.bytes.len() } else { *n <= self.bytes.len() }
        });
        let Some(wanted) = wanted else {
            return Err(Error::limit(
                self.offset,
                format_args!("{} values in {} bytes", self.count, self.bytes.len()),
                "a count that fits",
            ));
        };
        if !self.packed {
            return Ok(&self.bytes[..wanted]);
        }
        out.clear();
        ZlibDecoder::new(self.bytes)
            .take(wanted as u64)
            .read_to_end(out)
            .map_err(|e| Error::malformed(self.offset, e, "a zlib stream"))?;
        if out.len() != wanted {
            return Err(Error::malformed(
                self.offset,
                format_args!("{} unpacked bytes", out.len()),
                format_args!("{wanted}"),
            ));
        }
        Ok(out)
    }
}

/// A record.
#[derive(Debug, Clone)]
pub struct Record<'a> {
    pub name: &'a [u8],
    pub properties: Vec<Property<'a>>,
    below: Records<'a>,
}

impl<'a> Record<'a> {
    /// The records inside.
    pub fn below(&self) -> Records<'a> {
        self.below.clone()
    }

    /// The first record inside of a name.
    pub fn child(&self, name: &[u8]) -> Result<Option<Record<'a>>> {
        let mut below = self.below();
        while let Some(record) = below.next()? {
            if record.name == name {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    /// The array that the record inside of a name holds.
    pub fn child_array(&self, name: &[u8]) -> Result<Option<Array<'a>>> {
        Ok(self.child(name)?.and_then(|r| match r.properties.first() {
            Some(Property::Array(array)) => Some(*array),
            _ => None,
        }))
    }

    /// An object's name: up to where its class begins.
    pub fn object_name(&self) -> String {
        let text = self.properties.get(1).and_then(Property::text).unwrap_or_default();
        let end = text.iter().position(|b| *b == 0).unwrap_or(text.len());
        String::from_utf8_lossy(&text[..end]).into_owned()
    }
}

/// A list of records.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    cursor: Cursor<'a>,
    wide: bool,
    depth: u32,
}

/// The records of a file.
///
/// # Errors
/// Another magic.
pub fn open(bytes: &[u8]) -> Result<Records<'_>> {
    let mut cursor = Cursor::new(bytes, 0);
    if cursor.take(MAGIC.len(), "the magic")? != MAGIC {
        return Err(Error::malformed(0, "other first bytes", "those of a binary FBX file"));
    }
    let wide = cursor.u32("the version")? >= 7500;
    Ok(Records { cursor, wide, depth: 0 })
}

impl<'a> Records<'a> {
    fn word(&mut self, what: &str) -> Result<u64> {
        if self.wide { self.cursor.u64(what) } else { self.cursor.u32(what).map(u64::from) }
    }

    /// The next record; `None` at the end.
    ///
    /// # Errors
    /// Records that do not fit each other.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<Record<'a>>> {
        let at = self.cursor.offset();
        if self.depth > MAX_DEPTH {
            return Err(Error::limit(at, "records in records", format_args!("{MAX_DEPTH} levels")));
        }
        // Only the list at the top ends without a record of zeros where a file is cut.
        if self.cursor.left() == 0 && self.depth > 0 {
            return Ok(None);
        }
        let end = self.word("the end of a record")?;
        let count = self.word("a property count")?;
        let size = self.word("the bytes of properties")?;
        let name_length = self.cursor.u8("the length of a name")?;
        if end == 0 {
            return Ok(None);
        }
        let name = self.cursor.take(usize::from(name_length), "a record's name")?;
        let base = self.cursor.offset();
        let size = usize::try_from(size).map_err(|_| Error::limit(at, size, "bytes of properties"))?;
        let mut list = Cursor::new(self.cursor.take(size, "properties")?, base);
        let mut properties = Vec::new();
        for _ in 0..count {
            if list.left() == 0 {
                return Err(Error::malformed(
                    list.offset(),
                    "no more bytes",
                    format_args!("{count} properties"),
                ));
            }
            properties.push(property(&mut list)?);
        }
        let base = self.cursor.offset();
        let below = end.checked_sub(base).and_then(|n| usize::try_from(n).ok()).ok_or_else(|| {
            Error::malformed(
                at,
                format_args!("a record that ends at 0x{end:X}"),
                format_args!("an end from 0x{base:X} on"),
            )
        })?;
        let below = Cursor::new(self.cursor.take(below, "a record's records")?, base);
        let below = Records { cursor: below, wide: self.wide, depth: self.depth + 1 };
        Ok(Some(Record { name, properties, below }))
    }
}

fn property<'a>(c: &mut Cursor<'a>) -> Result<Property<'a>> {
    let at = c.offset();
    Ok(match c.u8("a property type")? {
        b'C' | b'B' => Property::Integer(i64::from(c.u8("a flag")?)),
        b'Y' => Property::Integer(i64::from(c.i16("a property")?)),
        b'I' => Property::Integer(i64::from(c.i32("a property")?)),
        b'L' => Property::Integer(c.i64("a property")?),
        b'F' => Property::Number(f64::from(c.f32("a property")?)),
        b'D' => Property::Number(f64::from_le_bytes(c.array("a property")?)),
        b'S' | b'R' => {
            let length = c.u32("the length of a text")? as usize;
            Property::Text(c.take(length, "a text")?)
        }
        letter @ (b'f' | b'd' | b'l' | b'i' | b'b' | b'c') => {
            let count = c.u32("the length of an array")? as usize;
            let encoding = c.u32("the encoding of an array")?;
            let size = c.u32("the bytes of an array")? as usize;
            if encoding > 1 {
                return Err(Error::malformed(at + 5, format_args!("array encoding {encoding}"), "0 or 1"));
            }
            let offset = c.offset();
            let bytes = c.take(size, "an array")?;
            Property::Array(Array { letter, count, packed: encoding == 1, bytes, offset })
        }
        other => {
            return Err(Error::malformed(at, format_args!("property type 0x{other:02X}"), "a known one"));
        }
    })
}
