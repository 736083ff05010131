//! The container: nested records in a byte buffer.
//!
//! A file of version 7400 (docs/formats/gltf-fbx.md, section 3.1), little-endian:
//!
//! | Part | Bytes | Holds |
//! |---|---|---|
//! | magic | 23 | `Kaydara FBX Binary  \0\x1A\0` |
//! | version | 4 | u32 7400 |
//! | records | | top-level records, then 13 zero bytes |
//! | footer id | 16 | belongs to the `CreationTime` that the document states: a fixed pair |
//! | zeros | 4, then 1 to 16 | up to the next multiple of 16 |
//! | version | 4 | again |
//! | zeros | 120 | |
//! | end magic | 16 | |
//!
//! A record:
//!
//! | Offset | Size | Field |
//! |---|---|---|
//! | 0 | 4 | u32 offset in the file behind the record |
//! | 4 | 4 | u32 number of properties |
//! | 8 | 4 | u32 bytes of properties |
//! | 12 | 1 | u8 length of the name |
//! | 13 | n | name |
//! | 13+n | | properties: a type letter, then the value |
//! | | | records inside, then 13 zero bytes; nothing where there is none |
//!
//! Properties: `I` i32, `L` i64, `D` f64, `S` and `R` u32 length and bytes; arrays `i` `l` `f` `d`: u32 number of
//! values, u32 encoding (0 plain, 1 zlib), u32 bytes that follow, the bytes.

use std::ops::Range;

use flate2::{Compress, Compression, FlushCompress, Status};

use crate::error::{Error, Result};

/// Version of the files: 7.4 is what most readers know (docs/formats/gltf-fbx.md, section 3.1).
pub const VERSION: u32 = 7400;

/// The creation time that [`FILE_ID`] and [`FOOTER_ID`] belong to. Readers of Autodesk check that they fit, so
/// it is as fixed as they are, and makes the same input give the same bytes.
pub const CREATION_TIME: &str = "1970-01-01 10:00:00:000";
/// See [`CREATION_TIME`].
pub const FILE_ID: [u8; 16] = *b"\x28\xb3\x2a\xeb\xb6\x24\xcc\xc2\xbf\xc8\xb0\x2a\xa9\x2b\xfc\xf1";

const MAGIC: &[u8; 23] = b"Kaydara FBX Binary  \0\x1a\0";
const FOOTER_ID: [u8; 16] = *b"\xfa\xbc\xab\x09\xd0\xc8\xd4\x66\xb1\x76\xfb\x83\x1c\xf7\x26\x7e";
const END_MAGIC: [u8; 16] = *b"\xf8\x5a\x8c\x6a\xde\xf5\xd9\x7e\xec\xe9\x0c\xe3\x75\x8f\x29\x0b";
/// Ends the list of records inside a record. Also stands for an empty list.
const NULL_RECORD: [u8; 13] = [0; 13];

/// A type that an array property can hold.
pub trait Element: bytemuck::NoUninit {
    /// Its type letter.
    const LETTER: u8;
    /// Shorter arrays (bytes) stay plain: zlib's own setup, some microseconds, costs more than it can save. That
    /// is early for ticks, of which three curves share one array, and late for values, which hardly shrink.
    const COMPRESS_FROM: usize;
    /// Little-endian bytes, for machines that are not.
    fn put(self, out: &mut Vec<u8>);
}

macro_rules! element {
    ($type:ty, $letter:literal, $compress_from:literal) => {
        impl Element for $type {
            const LETTER: u8 = $letter;
            const COMPRESS_FROM: usize = $compress_from;
            fn put(self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
        }
    };
}
element!(i32, b'i', 512);
element!(i64, b'l', 512);
element!(f32, b'f', 4096);
element!(f64, b'd', 512);

/// A record whose end is not written yet.
#[derive(Debug)]
struct Open {
    /// Where it starts in the buffer.
    start: usize,
    /// Where its properties start.
    properties: usize,
    /// How many properties it has so far.
    count: u32,
    /// Whether records are inside.
    nested: bool,
}

/// Writes records into a buffer that it empties first.
pub struct Writer {
    out: Vec<u8>,
    open: Vec<Open>,
    deflate: Option<Deflate>,
}

/// zlib, with its state.
pub struct Deflate {
    state: Compress,
    /// Little-endian input, where it cannot be borrowed.
    plain: Vec<u8>,
}

impl Default for Deflate {
    fn default() -> Self {
        Deflate { state: Compress::new(Compression::fast(), true), plain: Vec::new() }
    }
}

impl Writer {
    /// Starts a file in `out`. With `deflate` longer arrays go through zlib.
    pub fn new(mut out: Vec<u8>, deflate: Option<Deflate>) -> Self {
        out.clear();
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        Writer { out, open: Vec::new(), deflate }
    }

    /// Opens a record; properties first, then records inside, then [`Writer::end`].
    pub fn begin(&mut self, name: &str) -> &mut Self {
        debug_assert!(name.len() < 256, "record names are constants of this crate");
        self.close_properties();
        if let Some(parent) = self.open.last_mut() {
            parent.nested = true;
        }
        let start = self.out.len();
        self.out.extend_from_slice(&[0; 12]);
        self.out.push(name.len() as u8);
        self.out.extend_from_slice(name.as_bytes());
        self.open.push(Open { start, properties: self.out.len(), count: 0, nested: false });
        self
    }

    /// Closes the innermost open record.
    pub fn end(&mut self) {
        self.close_properties();
        let Some(open) = self.open.pop() else { return };
        // A record without anything in it is an empty list.
        if open.nested || open.count == 0 {
            self.out.extend_from_slice(&NULL_RECORD);
        }
        let end = self.out.len();
        self.patch(open.start, end);
    }

    fn close_properties(&mut self) {
        let end = self.out.len();
        if let Some(&Open { start, properties, count, nested: false }) = self.open.last() {
            self.patch(start + 4, count as usize);
            self.patch(start + 8, end - properties);
        }
    }

    /// Offsets past u32 are cut here and refused by [`Writer::check`].
    fn patch(&mut self, at: usize, value: usize) {
        self.out[at..at + 4].copy_from_slice(&(value as u32).to_le_bytes());
    }

    /// Refuses a file whose offsets do not fit into their fields.
    ///
    /// # Errors
    /// [`ErrorKind::Limit`](crate::ErrorKind) from 4 GiB on.
    pub fn check(&self) -> Result<()> {
        match u32::try_from(self.out.len()) {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::limit(
                0,
                format_args!("{} bytes of output", self.out.len()),
                "at most 4 GiB in an FBX file of version 7.4; use fewer clips a file",
            )),
        }
    }

    /// Ends the file.
    ///
    /// # Errors
    /// See [`Writer::check`].
    pub fn finish(mut self) -> Result<(Vec<u8>, Option<Deflate>)> {
        while !self.open.is_empty() {
            self.end();
        }
        self.out.extend_from_slice(&NULL_RECORD);
        self.out.extend_from_slice(&FOOTER_ID);
        self.out.extend_from_slice(&[0; 4]);
        let zeros = 16 - self.out.len() % 16;
        self.out.extend_from_slice(&[0; 16][..zeros]);
        self.out.extend_from_slice(&VERSION.to_le_bytes());
        self.out.extend_from_slice(&[0; 120]);
        self.out.extend_from_slice(&END_MAGIC);
        self.check()?;
        Ok((self.out, self.deflate))
    }

    fn property(&mut self, letter: u8) {
        if let Some(open) = self.open.last_mut() {
            debug_assert!(!open.nested, "properties come before records");
            open.count += 1;
        }
        self.out.push(letter);
    }

    /// An `I` property.
    pub fn i32(&mut self, value: i32) -> &mut Self {
        self.property(b'I');
        self.out.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// An `L` property.
    pub fn i64(&mut self, value: i64) -> &mut Self {
        self.property(b'L');
        self.out.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// A `D` property.
    pub fn f64(&mut self, value: f64) -> &mut Self {
        self.property(b'D');
        self.out.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// An `S` property.
    pub fn string(&mut self, value: &str) -> &mut Self {
        self.sized(b'S', &[value.as_bytes()])
    }

    /// The `S` property that names an object: name, separator, class.
    pub fn object_name(&mut self, name: &str, class: &str) -> &mut Self {
        // The separator ends the name: one inside would cut it.
        if name.contains('\0') {
            let name = name.replace('\0', "_");
            return self.sized(b'S', &[name.as_bytes(), b"\0\x01", class.as_bytes()]);
        }
        self.sized(b'S', &[name.as_bytes(), b"\0\x01", class.as_bytes()])
    }

    /// An `R` property.
    pub fn raw(&mut self, value: &[u8]) -> &mut Self {
        self.sized(b'R', &[value])
    }

    fn sized(&mut self, letter: u8, parts: &[&[u8]]) -> &mut Self {
        self.property(letter);
        let length: usize = parts.iter().map(|p| p.len()).sum();
        self.out.extend_from_slice(&(length as u32).to_le_bytes());
        for part in parts {
            self.out.extend_from_slice(part);
        }
        self
    }

    /// An array property.
    pub fn array<T: Element>(&mut self, values: &[T]) -> &mut Self {
        self.property(T::LETTER);
        encode(values, self.deflate.as_mut(), &mut self.out);
        self
    }

    /// Encodes an array into `blobs` for several [`Writer::encoded`].
    pub fn encode<T: Element>(&mut self, values: &[T], blobs: &mut Vec<u8>) -> Range<usize> {
        let start = blobs.len();
        blobs.push(T::LETTER);
        encode(values, self.deflate.as_mut(), blobs);
        start..blobs.len()
    }

    /// An array property that [`Writer::encode`] has made.
    pub fn encoded(&mut self, blob: &[u8]) -> &mut Self {
        if let Some((letter, rest)) = blob.split_first() {
            self.property(*letter);
            self.out.extend_from_slice(rest);
        }
        self
    }

    /// A record with one `I` property.
    pub fn leaf_i32(&mut self, name: &str, value: i32) {
        self.begin(name).i32(value);
        self.end();
    }

    /// A record with one `S` property.
    pub fn leaf_string(&mut self, name: &str, value: &str) {
        self.begin(name).string(value);
        self.end();
    }

    /// A record with one array property.
    pub fn leaf_array<T: Element>(&mut self, name: &str, values: &[T]) {
        self.begin(name).array(values);
        self.end();
    }

    /// Opens a `P` record inside `Properties70`: name, type, label, flags; its value and `end` follow.
    pub fn p(&mut self, name: &str, kind: &str, label: &str, flags: &str) -> &mut Self {
        self.begin("P").string(name).string(kind).string(label).string(flags)
    }

    /// `P` of an integer kind (`int`, `enum`, `bool`).
    pub fn p_i32(&mut self, name: &str, kind: &str, label: &str, value: i32) {
        self.p(name, kind, label, "").i32(value);
        self.end();
    }

    /// `P` of a time, ticks.
    pub fn p_time(&mut self, name: &str, ticks: i64) {
        self.p(name, "KTime", "Time", "").i64(ticks);
        self.end();
    }

    /// `P` of a number that curves may move.
    pub fn p_number(&mut self, name: &str, flags: &str, value: f64) {
        self.p(name, "Number", "", flags).f64(value);
        self.end();
    }

    /// `P` of a text.
    pub fn p_string(&mut self, name: &str, flags: &str, value: &str) {
        self.p(name, "KString", "", flags).string(value);
        self.end();
    }
}

/// A record that is written many times with other values: copied, and patched.
pub struct Template {
    bytes: Vec<u8>,
    /// Where it and the records in it start, in the order of the bytes.
    records: Vec<usize>,
}

impl Template {
    /// What `write` writes: one record.
    pub fn new(write: impl FnOnce(&mut Writer)) -> Self {
        let mut w = Writer::new(Vec::new(), None);
        write(&mut w);
        let mut bytes = w.out;
        let start = MAGIC.len() + 4;
        bytes.drain(..start);
        // The offsets in it count from its own start then.
        let mut records = Vec::new();
        let mut at = 0;
        while let Some(end) = bytes.get(at..at + 4) {
            let end = u32::from_le_bytes([end[0], end[1], end[2], end[3]]);
            if end == 0 {
                // The end of a list.
                at += NULL_RECORD.len();
                continue;
            }
            bytes[at..at + 4].copy_from_slice(&(end - start as u32).to_le_bytes());
            records.push(at);
            let properties =
                u32::from_le_bytes([bytes[at + 8], bytes[at + 9], bytes[at + 10], bytes[at + 11]]);
            at += 13 + usize::from(bytes[at + 12]) + properties as usize;
        }
        Template { bytes, records }
    }

    /// Where the value of the first property of record `i` stands.
    pub fn value(&self, i: usize) -> usize {
        let at = self.records[i];
        at + 13 + usize::from(self.bytes[at + 12]) + 1
    }

    /// Where the first number of the first property of record `i`, a plain array, stands.
    pub fn first_number(&self, i: usize) -> usize {
        self.value(i) + 12
    }

    /// Where the value of the property that ends record `i` stands: `size` bytes.
    pub fn last_value(&self, i: usize, size: usize) -> usize {
        let at = self.records[i];
        let field = &self.bytes[at..at + 4];
        u32::from_le_bytes([field[0], field[1], field[2], field[3]]) as usize - size
    }
}

impl Writer {
    /// Writes the record of `template`. Returns where, for [`Writer::put`].
    pub fn stamp(&mut self, template: &Template) -> usize {
        self.close_properties();
        if let Some(parent) = self.open.last_mut() {
            parent.nested = true;
        }
        let start = self.out.len();
        self.out.extend_from_slice(&template.bytes);
        for &at in &template.records {
            let field = &mut self.out[start + at..start + at + 4];
            let end = u32::from_le_bytes([field[0], field[1], field[2], field[3]]);
            field.copy_from_slice(&(start as u32).wrapping_add(end).to_le_bytes());
        }
        start
    }

    /// Overwrites bytes at an offset.
    pub fn put<const N: usize>(&mut self, at: usize, bytes: [u8; N]) {
        if let Some(field) = self.out.get_mut(at..at + N) {
            field.copy_from_slice(&bytes);
        }
    }
}

/// Count, encoding, size and bytes of an array.
fn encode<T: Element>(values: &[T], deflate: Option<&mut Deflate>, out: &mut Vec<u8>) {
    out.extend_from_slice(&(values.len() as u32).to_le_bytes());
    let size = size_of_val(values);
    if let Some(deflate) = deflate
        && size >= T::COMPRESS_FROM
    {
        let header = out.len();
        out.extend_from_slice(&1u32.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        if deflate.run(values, out) && out.len() - header - 8 < size {
            let compressed = (out.len() - header - 8) as u32;
            out[header + 4..header + 8].copy_from_slice(&compressed.to_le_bytes());
            return;
        }
        out.truncate(header);
    }
    out.extend_from_slice(&0u32.to_le_bytes());
    out.extend_from_slice(&(size as u32).to_le_bytes());
    if cfg!(target_endian = "little") {
        out.extend_from_slice(bytemuck::cast_slice(values));
    } else {
        values.iter().for_each(|v| v.put(out));
    }
}

impl Deflate {
    /// Appends the zlib stream of `values`. False where it did not come to its end (then it is not used).
    fn run<T: Element>(&mut self, values: &[T], out: &mut Vec<u8>) -> bool {
        let plain: &[u8] = if cfg!(target_endian = "little") {
            bytemuck::cast_slice(values)
        } else {
            self.plain.clear();
            values.iter().for_each(|v| v.put(&mut self.plain));
            &self.plain
        };
        self.state.reset();
        // As much as zlib may need where nothing can be saved: then one call is enough.
        out.reserve(plain.len() + plain.len() / 1000 + 64);
        matches!(self.state.compress_vec(plain, out, FlushCompress::Finish), Ok(Status::StreamEnd))
    }
}
