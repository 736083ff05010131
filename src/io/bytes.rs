//! A bounds-checked little-endian cursor whose errors carry offsets.

use crate::error::{Error, Result};

/// Reads little-endian fields from a slice. Every read is checked; an error names the offset
/// (`base` + position), the bytes that were left and what was wanted.
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    data: &'a [u8],
    position: usize,
    base: u64,
}

macro_rules! field {
    ($name:ident, $type:ty, $size:literal) => {
        #[doc = concat!("The next little-endian `", stringify!($type), "`; `what` names the field in the error.")]
        #[inline]
        pub fn $name(&mut self, what: &str) -> Result<$type> {
            Ok(<$type>::from_le_bytes(self.array::<$size>(what)?))
        }
    };
}

impl<'a> Cursor<'a> {
    /// A cursor at the start of `data`, whose first byte stands at `base` in the errors.
    pub fn new(data: &'a [u8], base: u64) -> Self {
        Cursor { data, position: 0, base }
    }

    field!(u8, u8, 1);
    field!(u16, u16, 2);
    field!(u32, u32, 4);
    field!(u64, u64, 8);
    field!(i8, i8, 1);
    field!(i16, i16, 2);
    field!(i32, i32, 4);
    field!(i64, i64, 8);
    field!(f32, f32, 4);

    /// The next `N` bytes.
    #[inline]
    pub fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        match self.data[self.position..].first_chunk::<N>() {
            Some(bytes) => {
                self.position += N;
                Ok(*bytes)
            }
            None => Err(self.short(N, what)),
        }
    }

    /// The next `n` bytes as a slice of the input.
    #[inline]
    pub fn take(&mut self, n: usize, what: &str) -> Result<&'a [u8]> {
        match self.data[self.position..].get(..n) {
            Some(bytes) => {
                self.position += n;
                Ok(bytes)
            }
            None => Err(self.short(n, what)),
        }
    }

    /// `count` items of `size` bytes each; refused before anything is allocated where they cannot be there.
    pub fn take_items(&mut self, count: usize, size: usize, what: &str) -> Result<&'a [u8]> {
        match count.checked_mul(size) {
            Some(n) if n <= self.left() => self.take(n, what),
            _ => Err(Error::limit(
                self.offset(),
                format_args!("{count} x {size} bytes of {what} with {} bytes left", self.left()),
                "a count that fits",
            )),
        }
    }

    /// Moves to `position` within the slice.
    pub fn seek(&mut self, position: usize, what: &str) -> Result<()> {
        if position > self.data.len() {
            return Err(Error::malformed(
                self.base + position as u64,
                format_args!("{what} outside the {} bytes that are there", self.data.len()),
                "an offset inside",
            ));
        }
        self.position = position;
        Ok(())
    }

    /// Skips `n` bytes.
    pub fn skip(&mut self, n: usize, what: &str) -> Result<()> {
        self.take(n, what).map(|_| ())
    }

    /// The position within the slice.
    pub fn position(&self) -> usize {
        self.position
    }

    /// The offset that errors name: base + position.
    pub fn offset(&self) -> u64 {
        self.base + self.position as u64
    }

    /// Bytes that are left.
    pub fn left(&self) -> usize {
        self.data.len() - self.position
    }

    /// The bytes that are left, without moving.
    pub fn rest(&self) -> &'a [u8] {
        &self.data[self.position..]
    }

    /// The whole slice.
    pub fn data(&self) -> &'a [u8] {
        self.data
    }

    /// Demands that everything was read.
    pub fn expect_end(&self, what: &str) -> Result<()> {
        if self.left() == 0 {
            return Ok(());
        }
        Err(Error::malformed(
            self.offset(),
            format_args!("{} more bytes after {what}", self.left()),
            "the end",
        ))
    }

    #[cold]
    fn short(&self, wanted: usize, what: &str) -> Error {
        Error::malformed(
            self.offset(),
            format_args!("{} bytes left", self.left()),
            format_args!("{wanted} for {what}"),
        )
    }
}
