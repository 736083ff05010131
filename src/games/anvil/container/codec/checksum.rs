//! Checksums over the packed bytes of a block.
//!
//! | Kind | Where | Source |
//! |---|---|---|
//! | Adler-32, both sums started at 0 | AC1, Wildlands, Syndicate, Shadows | anvil.md 2.2, A |
//! | CRC-32 (zlib) | R6, files that AnvilToolkit wrote | anvil.md 2.2, C |
//! | Adler-32 as usual (first sum started at 1) | tools that did not know better | taken as possible |

use std::fmt;

const MODULUS: u32 = 65521;

/// The checksum of a container's blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Checksum {
    /// Adler-32 with both sums started at 0.
    AdlerFromZero,
    /// CRC-32 (zlib).
    Crc32,
    /// Adler-32 with the first sum started at 1.
    Adler,
}

impl Checksum {
    /// All kinds, the likeliest first.
    pub const ALL: [Checksum; 3] = [Checksum::AdlerFromZero, Checksum::Crc32, Checksum::Adler];

    /// The checksum of `bytes`.
    pub fn of(self, bytes: &[u8]) -> u32 {
        match self {
            Checksum::AdlerFromZero => adler32(bytes, 0),
            Checksum::Crc32 => crc32fast::hash(bytes),
            Checksum::Adler => adler32(bytes, 1),
        }
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Checksum::AdlerFromZero => "Adler-32 from 0",
            Checksum::Crc32 => "CRC-32",
            Checksum::Adler => "Adler-32",
        })
    }
}

/// Adler-32 whose first sum starts at `start` and whose second starts at 0.
pub fn adler32(bytes: &[u8], start: u32) -> u32 {
    // Independent lanes, so that the loop becomes vector additions. Within a lane b stays below 2^32 for up to
    // 5,803 rows of 255.
    const LANES: usize = 32;
    const ROWS: usize = 5552;
    let (mut a, mut b) = (start as u64, 0u64);
    for chunk in bytes.chunks(LANES * ROWS) {
        let (rows, rest) = chunk.as_chunks::<LANES>();
        let (mut lane_a, mut lane_b) = ([0u32; LANES], [0u32; LANES]);
        for row in rows {
            for i in 0..LANES {
                lane_a[i] += row[i] as u32;
                lane_b[i] += lane_a[i];
            }
        }
        // A byte in row r and lane i of n rows counts n·L − (r·L + i) times: L·(n − r) − i.
        b += a * (rows.len() * LANES) as u64;
        for i in 0..LANES {
            a += lane_a[i] as u64;
            b += LANES as u64 * lane_b[i] as u64 - i as u64 * lane_a[i] as u64;
        }
        for &byte in rest {
            a += byte as u64;
            b += a;
        }
        a %= MODULUS as u64;
        b %= MODULUS as u64;
    }
    (b as u32) << 16 | a as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plainly(bytes: &[u8], start: u32) -> u32 {
        let (mut a, mut b) = (start, 0u32);
        for &byte in bytes {
            a = (a + byte as u32) % MODULUS;
            b = (b + a) % MODULUS;
        }
        b << 16 | a
    }

    #[test]
    fn known_values() {
        // RFC 1950's usual example, and its value when the sums start at 0: a loses 1, b loses the length.
        assert_eq!(Checksum::Adler.of(b"Wikipedia"), 0x11E6_0398);
        assert_eq!(Checksum::AdlerFromZero.of(b"Wikipedia"), 0x11DD_0397);
        assert_eq!(Checksum::Crc32.of(b"123456789"), 0xCBF4_3926);
        assert_eq!(Checksum::AdlerFromZero.of(b""), 0);
    }

    #[test]
    fn lanes_give_what_the_plain_loop_gives() {
        let mut bytes = vec![255u8; 400_000];
        for (i, b) in bytes.iter_mut().enumerate().skip(200_000) {
            *b = (i * 31) as u8;
        }
        for n in [0, 1, 31, 32, 33, 4095, 32 * 5552, 32 * 5552 + 1, 400_000] {
            for start in [0, 1] {
                assert_eq!(adler32(&bytes[..n], start), plainly(&bytes[..n], start), "{n}");
            }
        }
    }
}
