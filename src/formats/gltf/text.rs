//! Pieces of JSON text.

use crate::formats::workspace::Buffers;

/// A JSON list that grows.
#[derive(Debug, Default)]
pub struct List {
    text: Vec<u8>,
}

impl List {
    /// The text, to append the next element to.
    #[inline]
    pub fn next(&mut self) -> &mut Vec<u8> {
        if !self.text.is_empty() {
            self.text.push(b',');
        }
        &mut self.text
    }

    /// With room for `bytes`.
    pub fn with_capacity(bytes: usize, buffers: &mut Buffers) -> Self {
        List { text: buffers.take(bytes) }
    }

    /// The buffer.
    pub fn into_text(self) -> Vec<u8> {
        self.text
    }

    /// The elements, with commas between them.
    pub fn text(&self) -> &[u8] {
        &self.text
    }
}

/// Appends text.
#[inline]
pub fn put(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

/// Appends a whole number.
#[inline]
pub fn put_number(out: &mut Vec<u8>, n: u32) {
    let mut piece = Piece::default();
    piece.number(n);
    piece.put(out);
}

/// An element of a list that is put together on the stack and appended at once: documents are made of these by the
/// thousand.
#[derive(Debug)]
pub struct Piece {
    bytes: [u8; Piece::SIZE],
    length: usize,
}

impl Default for Piece {
    #[inline]
    fn default() -> Self {
        Piece { bytes: [0; Piece::SIZE], length: 0 }
    }
}

impl Piece {
    /// The longest element, an accessor without bounds, has less.
    const SIZE: usize = 192;

    /// Adds text; what does not fit is lost, which the debug build notices.
    #[inline]
    pub fn text<const N: usize>(&mut self, text: &[u8; N]) {
        debug_assert!(self.length + N <= Piece::SIZE);
        if let Some(room) = self.bytes.get_mut(self.length..self.length + N) {
            room.copy_from_slice(text);
            self.length += N;
        }
    }

    /// Adds a whole number.
    #[inline]
    pub fn number(&mut self, mut n: u32) {
        const DIGITS: usize = 10;
        let mut digits = [0; DIGITS];
        let mut at = DIGITS;
        loop {
            at -= 1;
            digits[at] = b'0' + (n % 10) as u8;
            n /= 10;
            if n == 0 {
                break;
            }
        }
        debug_assert!(self.length + DIGITS <= Piece::SIZE);
        for digit in &digits[at..] {
            if let Some(room) = self.bytes.get_mut(self.length) {
                *room = *digit;
                self.length += 1;
            }
        }
    }

    /// Appends it.
    #[inline]
    pub fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes[..self.length]);
    }
}

/// Appends numbers in brackets, each with the fewest digits that give the same f32 back.
pub fn put_floats(out: &mut Vec<u8>, values: &[f32]) -> serde_json::Result<()> {
    for (i, value) in values.iter().enumerate() {
        out.push(if i == 0 { b'[' } else { b',' });
        serde_json::to_writer(&mut *out, value)?;
    }
    out.push(b']');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::put_number;

    #[test]
    fn whole_numbers_are_written_whole() {
        for n in [0, 7, 10, 99, 4_294_967_295] {
            let mut out = Vec::new();
            put_number(&mut out, n);
            assert_eq!(String::from_utf8(out).unwrap(), n.to_string());
        }
    }
}
