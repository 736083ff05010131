//! Bits, least significant first: bit b of the stream is bit (b & 7) of byte b >> 3 (docs/formats/rage.md, section 5).

use crate::error::{Error, Result};

/// `width` bits (at most 32) from `bit` on. Bits behind the end are zero: callers prove the range.
#[inline]
pub fn bits_at(data: &[u8], bit: usize, width: u32) -> u32 {
    let byte = bit >> 3;
    let word = match data.get(byte..).and_then(|d| d.first_chunk::<8>()) {
        Some(chunk) => u64::from_le_bytes(*chunk),
        None => {
            let mut chunk = [0; 8];
            let tail = data.get(byte..).unwrap_or_default();
            chunk[..tail.len()].copy_from_slice(tail);
            u64::from_le_bytes(chunk)
        }
    };
    ((word >> (bit & 7)) & ((1u64 << width) - 1)) as u32
}

/// A reader over a bit stream that knows its end.
#[derive(Debug, Clone)]
pub struct BitReader<'a> {
    data: &'a [u8],
    bit: usize,
    base: u64,
}

impl<'a> BitReader<'a> {
    /// At `bit` of `data`, whose first byte stands at `base` in errors.
    pub fn new(data: &'a [u8], bit: usize, base: u64) -> Self {
        BitReader { data, bit, base }
    }

    /// The next `width` bits, at most 32.
    ///
    /// # Errors
    /// Malformed where the stream ends before.
    #[inline]
    pub fn read(&mut self, width: u32) -> Result<u32> {
        let end = self.bit + width as usize;
        if end > self.data.len() * 8 {
            return Err(self.ended(format_args!("{width} bits")));
        }
        let value = bits_at(self.data, self.bit, width);
        self.bit = end;
        Ok(value)
    }

    /// Counts zero bits up to the next 1, and passes that too.
    ///
    /// # Errors
    /// Malformed where the stream ends before a 1.
    #[inline]
    pub fn zeros(&mut self) -> Result<u32> {
        let start = self.bit;
        loop {
            let word = bits_at(self.data, self.bit, 32);
            if word != 0 {
                self.bit += word.trailing_zeros() as usize + 1;
                return Ok((self.bit - 1 - start) as u32);
            }
            self.bit += 32;
            if self.bit >= self.data.len() * 8 {
                self.bit = start;
                return Err(self.ended(format_args!("a 1 bit")));
            }
        }
    }

    #[cold]
    fn ended(&self, wanted: std::fmt::Arguments<'_>) -> Error {
        Error::malformed(
            self.base + (self.bit >> 3) as u64,
            format_args!("{} bits left of a bit stream", (self.data.len() * 8).saturating_sub(self.bit)),
            wanted,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn as_bit_by_bit(data in proptest::collection::vec(any::<u8>(), 1..40), bit in 0usize..200, width in 0u32..=32) {
            let slow = (0..width).fold(0u32, |value, i| {
                let at = bit + i as usize;
                let one = data.get(at >> 3).map_or(0, |byte| byte >> (at & 7) & 1);
                value | u32::from(one) << i
            });
            prop_assert_eq!(bits_at(&data, bit, width), slow);
        }

        #[test]
        fn unary_of_any_length(zeros in 0usize..300, before in 0usize..20) {
            let mut data = vec![0u8; (before + zeros) / 8 + 1];
            data[(before + zeros) / 8] |= 1 << ((before + zeros) % 8);
            let mut reader = BitReader::new(&data, before, 0);
            prop_assert_eq!(reader.zeros().expect("a one is there") as usize, zeros);
        }
    }

    #[test]
    fn the_end_is_an_error() {
        let mut reader = BitReader::new(&[0, 0], 0, 0x50);
        assert!(reader.zeros().is_err());
        assert!(reader.read(17).expect_err("too long").to_string().contains("0x50"));
        assert_eq!(reader.read(16).expect("fits"), 0);
    }
}
