//! The codecs of Anvil's data containers. One block in, exactly the stated number of bytes out.
//!
//! The algorithm byte of a container means different codecs in different games (docs/formats/anvil.md, section 2.4),
//! so it only orders the attempts: what has a signature is tried first, and a codec counts only if it gives the exact
//! length.
//!
//! | Byte | Meaning | Source |
//! |---|---|---|
//! | 0, 1 | LZO1X | anvil.md 2.4, A |
//! | 2 | LZO2A | anvil.md 2.4, A/B |
//! | 3 | zstd (Steep, R6), Oodle (Breakpoint), LZX (AC1 on Xbox: refused) | anvil.md 2.4, B |
//! | 4 | Oodle, LZ4 | anvil.md 2.4, C |
//! | 5 | LZO1C (refused) | anvil.md 2.4, C |
//! | 7, 8, 13 | Oodle; 7 also stored | anvil.md 2.4, B/C |

pub mod checksum;
pub mod lzo2a;
mod oodle;

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// A codec of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Codec {
    /// As it is.
    Stored,
    /// LZO1X, with every level's stream (LZO1X-1, LZO1X-999).
    Lzo1x,
    /// LZO2A.
    Lzo2a,
    /// Zstandard frames.
    Zstd,
    /// A raw LZ4 block without a frame.
    Lz4,
    /// Oodle: Kraken, Mermaid, Selkie, Leviathan, LZNA, BitKnit.
    Oodle,
}

impl Codec {
    /// Every codec, in the order of the documentation.
    pub const ALL: [Codec; 6] =
        [Codec::Stored, Codec::Lzo1x, Codec::Lzo2a, Codec::Zstd, Codec::Lz4, Codec::Oodle];

    /// The name on the command line and in messages.
    pub fn name(self) -> &'static str {
        match self {
            Codec::Stored => "stored",
            Codec::Lzo1x => "lzo1x",
            Codec::Lzo2a => "lzo2a",
            Codec::Zstd => "zstd",
            Codec::Lz4 => "lz4",
            Codec::Oodle => "oodle",
        }
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Codec {
    type Err = Error;

    fn from_str(s: &str) -> Result<Self> {
        if let Some(codec) = Codec::ALL.into_iter().find(|c| c.name().eq_ignore_ascii_case(s)) {
            return Ok(codec);
        }
        Err(match s.to_ascii_lowercase().as_str() {
            name @ ("lzx" | "lzo1c") => Error::unsupported(format!("codec {name} is not decoded")),
            _ => Error::usage(format!(
                "unknown codec {s:?}; known: {}",
                Codec::ALL.map(Codec::name).join(", ")
            )),
        })
    }
}

/// The state of the codecs that have one, kept from block to block.
#[derive(Default)]
pub struct Decoders {
    zstd: Option<zstd::bulk::Decompressor<'static>>,
    oodle: oodle::Oodle,
}

impl fmt::Debug for Decoders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Decoders")
    }
}

/// Why a block does not decode: the codec's own words.
pub type Reason = String;

impl Decoders {
    /// Decodes the whole of `packed` with `codec` into the whole of `out`; what `out` holds after an error is
    /// undefined. Never panics.
    pub fn decode(&mut self, codec: Codec, packed: &[u8], out: &mut [u8]) -> Result<(), Reason> {
        let wanted = out.len();
        let written = match codec {
            Codec::Stored if packed.len() == wanted => {
                out.copy_from_slice(packed);
                wanted
            }
            Codec::Stored => packed.len(),
            Codec::Lzo1x => {
                lzokay::decompress::decompress(packed, out).map_err(|e| format!("lzo1x: {e:?}"))?
            }
            Codec::Lzo2a => lzo2a::decode(packed, out).map_err(|e| format!("lzo2a: {e}"))?,
            Codec::Zstd => {
                let decoder = match &mut self.zstd {
                    Some(decoder) => decoder,
                    none => none.insert(zstd::bulk::Decompressor::new().map_err(|e| format!("zstd: {e}"))?),
                };
                decoder.decompress_to_buffer(packed, out).map_err(|e| format!("zstd: {e}"))?
            }
            Codec::Lz4 => lz4_flex::block::decompress_into(packed, out).map_err(|e| format!("lz4: {e}"))?,
            Codec::Oodle => self.oodle.decode(packed, out).map_err(|e| format!("oodle: {e}"))?,
        };
        if written == wanted { Ok(()) } else { Err(format!("{codec}: {written} bytes instead of {wanted}")) }
    }

    /// Decodes a block whose codec is not certain: `known` (the codec of the block before) first, then what
    /// [`order`] says of the algorithm byte and the block's first bytes. Returns the codec that gave the exact length.
    pub fn decode_any(
        &mut self,
        algorithm: u8,
        known: Option<Codec>,
        packed: &[u8],
        out: &mut [u8],
    ) -> Result<Codec, Reason> {
        let mut first = None;
        for codec in known.into_iter().chain(order(algorithm, packed).filter(|&c| Some(c) != known)) {
            match self.decode(codec, packed, out) {
                Ok(()) => return Ok(codec),
                Err(reason) => {
                    first.get_or_insert(reason);
                }
            }
        }
        // A byte that names a codec which is refused is the better reason, unless a signature contradicts it.
        match (refused(algorithm), signature(packed), known) {
            (Some(name), None, None) => Err(format!("codec {name} is not decoded")),
            _ => Err(first.unwrap_or_default()),
        }
    }
}

/// The codecs to try on a block, best first: its signature, the algorithm byte's, the rest.
pub fn order(algorithm: u8, packed: &[u8]) -> impl Iterator<Item = Codec> + use<> {
    use Codec::{Lz4, Lzo1x, Lzo2a};
    let signed = signature(packed);
    let by_byte: &'static [Codec] = match algorithm {
        2 => &[Lzo2a, Lzo1x, Lz4],
        4 => &[Lz4, Lzo1x, Lzo2a],
        // LZO1C streams have no signature and no end that tells them from the others: never guessed at.
        5 => &[],
        _ => &[Lzo1x, Lzo2a, Lz4],
    };
    signed.into_iter().chain(by_byte.iter().copied())
}

/// The codec that the first bytes of a block show: a zstd frame, an Oodle block header.
pub fn signature(packed: &[u8]) -> Option<Codec> {
    match packed {
        [0x28, 0xB5, 0x2F, 0xFD, ..] => Some(Codec::Zstd),
        [a, b, ..] if a & 0x3F == 0x0C && matches!(b & 0x7F, 2 | 5 | 6 | 10 | 11 | 12) => Some(Codec::Oodle),
        _ => None,
    }
}

/// The codec that is refused by name where the algorithm byte means it.
pub fn refused(algorithm: u8) -> Option<&'static str> {
    match algorithm {
        3 => Some("LZX (algorithm byte 3 on a block that is neither zstd nor Oodle)"),
        5 => Some("LZO1C (algorithm byte 5)"),
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn sample() -> Vec<u8> {
        (0..5000u32).map(|i| ((i * i) >> 7) as u8 ^ (i % 19) as u8).collect()
    }

    fn packed(codec: Codec, data: &[u8]) -> Vec<u8> {
        match codec {
            Codec::Lzo1x => lzokay::compress::compress(data).unwrap(),
            Codec::Zstd => zstd::bulk::compress(data, 3).unwrap(),
            Codec::Lz4 => lz4_flex::block::compress(data),
            _ => data.to_vec(),
        }
    }

    #[test]
    fn names_parse_back_and_the_refused_ones_say_so() {
        for codec in Codec::ALL {
            assert_eq!(codec.name().parse::<Codec>().unwrap(), codec);
        }
        assert_eq!("lzx".parse::<Codec>().unwrap_err().kind(), crate::ErrorKind::Unsupported);
        assert_eq!("LZO1C".parse::<Codec>().unwrap_err().kind(), crate::ErrorKind::Unsupported);
        assert_eq!("rar".parse::<Codec>().unwrap_err().kind(), crate::ErrorKind::Usage);
    }

    #[test]
    fn any_byte_finds_the_codec_by_exact_length() {
        let data = sample();
        let mut decoders = Decoders::default();
        let mut out = vec![0; data.len()];
        for codec in [Codec::Lzo1x, Codec::Zstd, Codec::Lz4] {
            let block = packed(codec, &data);
            for byte in (0..=16).filter(|&b| b != 5) {
                assert_eq!(decoders.decode_any(byte, None, &block, &mut out), Ok(codec), "byte {byte}");
                assert_eq!(out, data);
            }
        }
    }

    #[test]
    fn lzx_and_lzo1c_are_refused_by_name() {
        let mut decoders = Decoders::default();
        let block = [0xFFu8; 100];
        let mut out = vec![0; 5000];
        assert!(decoders.decode_any(3, None, &block, &mut out).unwrap_err().contains("LZX"));
        assert!(decoders.decode_any(5, None, &block, &mut out).unwrap_err().contains("LZO1C"));
        // a signature wins over the byte
        let zstd = packed(Codec::Zstd, &sample());
        assert_eq!(decoders.decode_any(5, None, &zstd, &mut out), Ok(Codec::Zstd));
    }

    #[test]
    fn a_wrong_length_is_refused() {
        let data = sample();
        let mut decoders = Decoders::default();
        for codec in [Codec::Stored, Codec::Lzo1x, Codec::Zstd, Codec::Lz4] {
            let block = packed(codec, &data);
            for wrong in [data.len() - 1, data.len() + 1] {
                let mut out = vec![0; wrong];
                assert!(decoders.decode(codec, &block, &mut out).is_err(), "{codec} {wrong}");
            }
        }
    }
}
