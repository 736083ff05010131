//! LZO2A: flag bits and bytes in one stream.
//!
//! Flag bits come from bytes of the same stream: where fewer than the wanted bits are held, the next byte is put above
//! them, and the lowest are taken (docs/formats/anvil.md, section 2.6).
//!
//! | Flags | Then | Meaning |
//! |---|---|---|
//! | 0 | byte | one literal |
//! | 1 0 | 2 flag bits L, byte d | copy L + 2 bytes from distance d + 1 |
//! | 1 1 | bytes a, b | distance D = (a & 31) \| b << 5, l = a >> 5 |
//! | | l = 0: bytes | copy 9 + their sum from D: each 0 counts 255, the first other one ends the sum |
//! | | l = 1..7, D = 0 | the end |
//! | | l = 1..7 | copy l + 2 bytes from D |

use std::fmt;

/// Why a stream is refused, and at which byte of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lzo2aError {
    /// The input ends before the end code.
    InputEnds(usize),
    /// More output than was asked for.
    OutputFull(usize),
    /// A copy from before the start of the output, or from distance 0.
    Distance(usize),
    /// Bytes after the end code.
    InputLeft(usize),
}

impl fmt::Display for Lzo2aError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lzo2aError::InputEnds(at) => write!(f, "the input ends at byte {at} without an end code"),
            Lzo2aError::OutputFull(at) => write!(f, "more output than stated at byte {at}"),
            Lzo2aError::Distance(at) => write!(f, "a copy from before the start at byte {at}"),
            Lzo2aError::InputLeft(at) => write!(f, "bytes after the end code at byte {at}"),
        }
    }
}

/// Decodes the whole of `input` into `out` and returns how many bytes were written. The end code must be the last of
/// the input; the caller compares the length.
pub fn decode(input: &[u8], out: &mut [u8]) -> Result<usize, Lzo2aError> {
    let mut stream = Stream { input, at: 0, bits: 0, held: 0 };
    let mut end = 0;
    loop {
        if stream.flags(1)? == 0 {
            let literal = stream.byte()?;
            *out.get_mut(end).ok_or(Lzo2aError::OutputFull(stream.at))? = literal;
            end += 1;
            continue;
        }
        let (distance, length);
        if stream.flags(1)? == 0 {
            length = stream.flags(2)? as usize + 2;
            distance = stream.byte()? as usize + 1;
        } else {
            let a = stream.byte()? as usize;
            distance = (a & 31) | (stream.byte()? as usize) << 5;
            length = match a >> 5 {
                0 => stream.long_length()?,
                _ if distance == 0 => break,
                l => l + 2,
            };
        }
        if distance == 0 || distance > end {
            return Err(Lzo2aError::Distance(stream.at));
        }
        if length > out.len() - end {
            return Err(Lzo2aError::OutputFull(stream.at));
        }
        repeat(out, end, distance, length);
        end += length;
    }
    if stream.at != input.len() {
        return Err(Lzo2aError::InputLeft(stream.at));
    }
    Ok(end)
}

/// Copies `length` bytes to `end` from `distance` before it; a distance below the length repeats what was just written.
#[inline]
fn repeat(out: &mut [u8], end: usize, distance: usize, length: usize) {
    let start = end - distance;
    if distance >= length {
        out.copy_within(start..start + length, end);
    } else if distance == 1 {
        let byte = out[start];
        out[end..end + length].fill(byte);
    } else {
        for i in 0..length {
            out[end + i] = out[start + i];
        }
    }
}

struct Stream<'a> {
    input: &'a [u8],
    at: usize,
    bits: u32,
    held: u32,
}

impl Stream<'_> {
    #[inline]
    fn byte(&mut self) -> Result<u8, Lzo2aError> {
        let byte = *self.input.get(self.at).ok_or(Lzo2aError::InputEnds(self.at))?;
        self.at += 1;
        Ok(byte)
    }

    #[inline]
    fn flags(&mut self, n: u32) -> Result<u32, Lzo2aError> {
        if self.held < n {
            self.bits |= (self.byte()? as u32) << self.held;
            self.held += 8;
        }
        let flags = self.bits & ((1 << n) - 1);
        self.bits >>= n;
        self.held -= n;
        Ok(flags)
    }

    fn long_length(&mut self) -> Result<usize, Lzo2aError> {
        let mut length = 9usize;
        loop {
            match self.byte()? {
                // The input bounds the number of zeros, so this cannot overflow.
                0 => length += 255,
                last => return Ok(length + last as usize),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bits and bytes in the order in which the decoder asks for them: a flag byte stands where its first bit is
    /// wanted.
    #[derive(Default)]
    struct Writer {
        out: Vec<u8>,
        flag_byte: usize,
        used: u32,
    }

    impl Writer {
        fn flag(&mut self, bit: u32) {
            if self.used == 0 {
                self.flag_byte = self.out.len();
                self.out.push(0);
                self.used = 8;
            }
            self.out[self.flag_byte] |= (bit as u8) << (8 - self.used);
            self.used -= 1;
        }

        /// Two bits of which the second may fall into a new byte, which then stands before the next plain byte.
        fn flags(&mut self, bits: &[u32]) {
            bits.iter().for_each(|&b| self.flag(b));
        }

        fn byte(&mut self, b: usize) {
            self.out.push(b as u8);
        }
    }

    fn encode(data: &[u8]) -> Vec<u8> {
        let mut w = Writer::default();
        let mut at = 0;
        while at < data.len() {
            // the longest match within 8191, found the slow way
            let (mut best, mut from) = (0, 0);
            for distance in 1..=at.min(8191) {
                let n = data[at..].iter().zip(&data[at - distance..]).take_while(|(a, b)| a == b).count();
                if n > best {
                    (best, from) = (n, distance);
                }
            }
            if (2..=5).contains(&best) && from <= 256 {
                w.flags(&[1, 0, (best as u32 - 2) & 1, (best as u32 - 2) >> 1]);
                w.byte(from - 1);
                at += best;
            } else if (3..=9).contains(&best) {
                w.flags(&[1, 1]);
                w.byte((best - 2) << 5 | (from & 31));
                w.byte(from >> 5);
                at += best;
            } else if best > 9 {
                w.flags(&[1, 1]);
                w.byte(from & 31);
                w.byte(from >> 5);
                let mut rest = best - 9;
                while rest > 255 {
                    w.byte(0);
                    rest -= 255;
                }
                w.byte(rest);
                at += best;
            } else {
                w.flag(0);
                w.byte(data[at] as usize);
                at += 1;
            }
        }
        w.flags(&[1, 1]);
        w.byte(0x20);
        w.byte(0);
        w.out
    }

    #[test]
    fn worked_out_by_hand() {
        // flags 0 0 0 | 1 0 L=01 -> 'a' 'b' 'c', then 3 bytes from distance 3; flags 1 1 -> the end.
        // bits in order: 0 0 0 1 0 1 0 1 | 1 ; bit k of the byte is the k-th flag.
        let input = [0b1010_1000, b'a', b'b', b'c', 2, 0b0000_0001, 0x20, 0];
        let mut out = [0; 6];
        assert_eq!(decode(&input, &mut out), Ok(6));
        assert_eq!(&out, b"abcabc");
        // a run: 'x', then 9 + 255 + 7 bytes from distance 1, then the end
        let input = [0b0001_1110, b'x', 1, 0, 0, 7, 0x20, 0];
        let mut out = [0; 272];
        assert_eq!(decode(&input, &mut out), Ok(272));
        assert_eq!(out, [b'x'; 272]);
    }

    #[test]
    fn round_trips() {
        let texts: [Vec<u8>; 6] = [
            vec![],
            b"a".to_vec(),
            b"abababababababababababababababababababab".to_vec(),
            vec![7; 3000],
            (0..6000u32).map(|i| (i.wrapping_mul(2654435761) >> 24) as u8).collect(),
            (0..9000u32).map(|i| ((i * i) >> 9) as u8).collect(),
        ];
        for text in texts {
            let packed = encode(&text);
            let mut out = vec![0; text.len()];
            assert_eq!(decode(&packed, &mut out), Ok(text.len()));
            assert_eq!(out, text);
            // every cut ends without an end code; one byte of output less does not fit
            for n in (0..packed.len()).step_by(1 + packed.len() / 97) {
                assert!(decode(&packed[..n], &mut out).is_err());
            }
            if !text.is_empty() {
                assert!(decode(&packed, &mut out[1..]).is_err());
            }
            let longer = [packed.as_slice(), &[0]].concat();
            assert_eq!(decode(&longer, &mut out), Err(Lzo2aError::InputLeft(packed.len())));
        }
    }

    #[test]
    fn distances_are_checked() {
        let mut out = [0; 16];
        // a copy before anything was written
        assert!(matches!(decode(&[0b0001, 0], &mut out), Err(Lzo2aError::Distance(_))));
        // l = 0 with distance 0 is no end code
        assert!(matches!(decode(&[0b110, b'x', 0, 0, 1], &mut out), Err(Lzo2aError::Distance(_))));
    }
}
