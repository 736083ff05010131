//! Packed rotations of Anvil, one function for each packing, whole tracks at a time.
//!
//! **Smallest three**: of a unit quaternion the largest component is left out and made again as the
//! non-negative root that gives unit length; the other three, in component order, stand as unsigned numbers
//! `v` with the value `(v / max x 2 - 1) / sqrt(2)` (docs/formats/anvil.md, sections 4.4 and 4.6). The index of the
//! omitted component is 0 x, 1 y, 2 z, 3 w.
//!
//! | Function | Bytes | Layout | Source |
//! |---|---|---|---|
//! | [`smallest_three_10`] | 4 | u32: index bits 30-31; components bits 20-29, 10-19, 0-9 | anvil.md 4.4, kind 3 |
//! | [`smallest_three_15`] | 6 | u16 x 3: components in the low 15 bits; bit 15 of word 0 is the index's low bit, of word 1 its high bit, of word 2 always 0 | anvil.md 4.4, kind 4 |
//! | [`smallest_three_15_sws`] | 6 | the same, in the steps and widths of the game's own unpack | anvil.md 4.6.1 |
//! | [`smallest_three_20`] | 8 | u64: components bits 8-27, bits 52-63 then 0-7 (`low8 << 12 \| high12`), bits 32-51; index bits 30-31; bits 28-29 always 0 | anvil.md 4.4, kind 5 |
//! | [`xyz_positive_w`] | 12 | f32 x 3: x, y, z; w the non-negative root | anvil.md 4.4, kind 8; 4.6, kind 6 |
//! | [`z_rotation`] | 2 | u16: low 15 bits one of z and w, the other the non-negative root; x = y = 0; top bit: which | anvil.md 4.4, kind 7; 4.1 |
//!
//! Sums and roots are taken in f64: in f32 a w near zero is off by up to 5e-6 (docs/formats/anvil.md, section 4.2).

use std::f64::consts::{FRAC_1_SQRT_2, PI};

use glam::Quat;

/// What the keys of a track show while they are decoded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DecodeStats {
    /// Keys in which bits that are always 0 are set.
    pub reserved_bits: u32,
    /// The least `1 - a^2 - b^2 - c^2` over all keys. Below 0 no fourth component makes unit length; NaN where a
    /// stored float is not finite.
    pub least_remainder: f64,
}

impl DecodeStats {
    const NONE: DecodeStats = DecodeStats { reserved_bits: 0, least_remainder: f64::INFINITY };

    #[inline(always)]
    fn observe(&mut self, remainder: f64, reserved: u32) {
        self.reserved_bits += reserved;
        self.least_remainder =
            if remainder < self.least_remainder { remainder } else { self.least_remainder };
    }
}

/// Value of a component of `max`, as `(2 v - max) / (max sqrt(2))`: the formula above with one rounding instead
/// of three, since the numerator is whole.
#[inline(always)]
fn component<const MAX: i32>(v: u32) -> f64 {
    f64::from(2 * v as i32 - MAX) * (FRAC_1_SQRT_2 / MAX as f64)
}

/// Puts the omitted component `root` at `index` among the three others. By a table and not by conditions: the index
/// changes from key to key, and a mispredicted jump costs more than the whole rest of a key.
#[inline(always)]
fn with_omitted(index: u32, root: f32, a: f32, b: f32, c: f32) -> Quat {
    const PLACES: [[u8; 4]; 4] = [[3, 0, 1, 2], [0, 3, 1, 2], [0, 1, 3, 2], [0, 1, 2, 3]];
    let parts = [a, b, c, root];
    Quat::from_array(PLACES[(index & 3) as usize].map(|place| parts[(place & 3) as usize]))
}

/// The three components of one key, the index of the omitted one, and whether reserved bits are set.
type Fields = (f64, f64, f64, u32, u32);

#[inline(always)]
fn smallest_three<const N: usize>(
    bytes: &[u8],
    out: &mut Vec<Quat>,
    fields: impl Fn(&[u8; N]) -> Fields,
) -> DecodeStats {
    let mut stats = DecodeStats::NONE;
    let (keys, _) = bytes.as_chunks::<N>();
    out.extend(keys.iter().map(|key| {
        let (a, b, c, index, reserved) = fields(key);
        let remainder = 1.0 - a * a - b * b - c * c;
        stats.observe(remainder, reserved);
        with_omitted(index, remainder.max(0.0).sqrt() as f32, a as f32, b as f32, c as f32)
    }));
    stats
}

#[inline(always)]
fn words(key: &[u8; 6]) -> [u32; 3] {
    [0, 2, 4].map(|i| u32::from(u16::from_le_bytes([key[i], key[i + 1]])))
}

/// Decodes 4-byte keys with 10-bit components and appends them to `out`. Bytes short of a key are left.
pub fn smallest_three_10(bytes: &[u8], out: &mut Vec<Quat>) -> DecodeStats {
    smallest_three(bytes, out, |key: &[u8; 4]| {
        let v = u32::from_le_bytes(*key);
        let part = |shift: u32| component::<1023>(v >> shift & 0x3FF);
        (part(20), part(10), part(0), v >> 30, 0)
    })
}

/// Decodes 6-byte keys with 15-bit components and appends them to `out`. Bytes short of a key are left.
/// Reserved: bit 15 of the third word.
pub fn smallest_three_15(bytes: &[u8], out: &mut Vec<Quat>) -> DecodeStats {
    smallest_three(bytes, out, |key: &[u8; 6]| {
        let [p, q, r] = words(key);
        let part = |word: u32| component::<32767>(word & 0x7FFF);
        (part(p), part(q), part(r), p >> 15 | (q >> 15) << 1, r >> 15)
    })
}

/// Decodes 8-byte keys with 20-bit components on a bit ring and appends them to `out`. Bytes short of a key are
/// left. Reserved: bits 28 and 29.
pub fn smallest_three_20(bytes: &[u8], out: &mut Vec<Quat>) -> DecodeStats {
    smallest_three(bytes, out, |key: &[u8; 8]| {
        let v = u64::from_le_bytes(*key);
        let (low, high) = (v as u32, (v >> 32) as u32);
        let part = component::<0xF_FFFF>;
        let ring = (low & 0xFF) << 12 | high >> 20;
        (
            part(low >> 8 & 0xF_FFFF),
            part(ring),
            part(high & 0xF_FFFF),
            low >> 30,
            u32::from(low & 0x3000_0000 != 0),
        )
    })
}

/// The f32 nearest sqrt(2)/32767, widened (docs/formats/anvil.md, section 4.6.1).
const SWS_STEP: f64 = f64::from_bits(0x3F06_A0CB_A000_0000);
/// The f32 nearest 1/sqrt(2).
const SWS_HALF: f32 = FRAC_1_SQRT_2 as f32;

/// Decodes 6-byte keys as the executable of Shaun White Skateboarding does, to the same bits: a component is
/// `f32(f32(v x C) - f32(1 / sqrt(2)))`, the root is taken in f64 of the rounded components. Appends to `out`;
/// bytes short of a key are left. Reserved: bit 15 of the third word.
pub fn smallest_three_15_sws(bytes: &[u8], out: &mut Vec<Quat>) -> DecodeStats {
    smallest_three(bytes, out, |key: &[u8; 6]| {
        let [p, q, r] = words(key);
        let part = |word: u32| f64::from((f64::from(word & 0x7FFF) * SWS_STEP) as f32 - SWS_HALF);
        (part(p), part(q), part(r), p >> 15 | (q >> 15) << 1, r >> 15)
    })
}

/// Decodes 12-byte keys of f32 x, y, z with a non-negative w and appends them to `out`. Bytes short of a key are
/// left.
pub fn xyz_positive_w(bytes: &[u8], out: &mut Vec<Quat>) -> DecodeStats {
    let mut stats = DecodeStats::NONE;
    // Becomes NaN with the first value that is not finite, and stays.
    let mut poison = 0.0;
    let (keys, _) = bytes.as_chunks::<12>();
    out.extend(keys.iter().map(|key| {
        let [x, y, z] = [0, 4, 8].map(|i| f32::from_le_bytes([key[i], key[i + 1], key[i + 2], key[i + 3]]));
        let [dx, dy, dz] = [x, y, z].map(f64::from);
        let remainder = 1.0 - dx * dx - dy * dy - dz * dz;
        stats.observe(remainder, 0);
        poison += remainder * 0.0;
        Quat::from_xyzw(x, y, z, remainder.max(0.0).sqrt() as f32)
    }));
    if poison != 0.0 {
        stats.least_remainder = f64::NAN;
    }
    stats
}

/// What a track of [`z_rotation`] keys shows of its top bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ZRotation {
    /// Keys whose top bit is set.
    pub top_bits: u32,
    /// Whether a set top bit was read as "the stored component is w"; otherwise it was ignored.
    pub stored_w: bool,
}

/// Decodes one track of 2-byte keys that turn about z and appends it to `out`. Bytes short of a key are left.
///
/// The low 15 bits are z and w is the root on every key that was matched with a bind rotation. The top bit is not
/// settled: Unity packs the smaller of z and w and needs a bit for which (docs/formats/anvil.md, section 4.1), so a
/// set bit is read as "w is stored, z is the root". Where a track has keys of both sorts and moves more smoothly with
/// the bit ignored, it is ignored, for the whole track: of single sparse keys the wrong reading may well be the
/// nearer one.
///
/// Smoothness is the sum of the changes of angular step, not of the steps: ignoring a bit that counts folds the
/// motion at 45 degrees of half angle, which makes no step longer but turns the motion round.
pub fn z_rotation(bytes: &[u8], out: &mut Vec<Quat>) -> ZRotation {
    let (keys, _) = bytes.as_chunks::<2>();
    let parts = |key: &[u8; 2]| {
        let word = u32::from(u16::from_le_bytes(*key));
        let stored = component::<32767>(word & 0x7FFF);
        // |stored| <= 1/sqrt(2): the root is never imaginary.
        (stored, (1.0 - stored * stored).sqrt(), word >> 15 != 0)
    };
    let top_bits = keys.iter().filter(|key| key[1] & 0x80 != 0).count();
    let roughness = |stored_w: bool| {
        let half_angles = keys.iter().map(|key| {
            let (stored, root, top) = parts(key);
            if top && stored_w { libm::atan2(root, stored) } else { libm::atan2(stored, root) }
        });
        let (mut last, mut last_step, mut sum) = (None, None, 0.0);
        for angle in half_angles {
            if let Some(last) = last {
                // q and -q are one rotation: half angles repeat after half a turn.
                let mut step: f64 = angle - last;
                step -= PI * (step / PI).round();
                sum += last_step.map_or(0.0, |last_step: f64| (step - last_step).abs());
                last_step = Some(step);
            }
            last = Some(angle);
        }
        sum
    };
    let stored_w = top_bits > 0 && (top_bits == keys.len() || roughness(true) <= roughness(false));
    out.extend(keys.iter().map(|key| {
        let (stored, root, top) = parts(key);
        let (z, w) = if top && stored_w { (root, stored) } else { (stored, root) };
        Quat::from_xyzw(0.0, 0.0, z as f32, w as f32)
    }));
    ZRotation { top_bits: top_bits as u32, stored_w }
}

/// Makes every quaternion unit whose length is further than 2e-6 from 1, and counts them. The three stored
/// components of such a key left no room for the fourth.
pub fn renormalise(quats: &mut [Quat]) -> u32 {
    let mut changed = 0;
    for q in quats {
        let d = q.as_dquat();
        let length_squared = d.length_squared();
        if (length_squared - 1.0).abs() > 4e-6 {
            *q = (d * (1.0 / length_squared.sqrt())).as_quat();
            changed += 1;
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literal(v: u32, max: f64) -> f64 {
        (f64::from(v) / max * 2.0 - 1.0) / 2f64.sqrt()
    }

    #[test]
    fn components_are_the_documented_formula_for_every_value() {
        for v in 0..=1023 {
            assert!((component::<1023>(v) - literal(v, 1023.0)).abs() < 1e-15);
        }
        for v in 0..=32767 {
            assert!((component::<32767>(v) - literal(v, 32767.0)).abs() < 1e-15);
        }
        for v in 0..=0xF_FFFF {
            assert!((component::<0xF_FFFF>(v) - literal(v, 1_048_575.0)).abs() < 1e-15);
        }
    }

    /// The four word patterns of docs/formats/anvil.md, section 4.6.1, and the steps of the executed unpack.
    #[test]
    fn shaun_white_word_patterns() {
        let a = |v: u32| ((f64::from(v) * SWS_STEP) as f32) - (0.5f64.sqrt() as f32);
        let (p, q, r) = (a(0x1234), a(0x5678), a(0x2345));
        let square = |v: f32| f64::from(v) * f64::from(v);
        let root = (1.0 - square(p) - square(q) - square(r)).max(0.0).sqrt() as f32;
        for (words, expected) in [
            ([0x1234u16, 0x5678, 0x2345], [root, p, q, r]),
            ([0x9234, 0x5678, 0x2345], [p, root, q, r]),
            ([0x1234, 0xD678, 0x2345], [p, q, root, r]),
            ([0x9234, 0xD678, 0x2345], [p, q, r, root]),
        ] {
            let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
            let mut out = Vec::new();
            let stats = smallest_three_15_sws(&bytes, &mut out);
            assert_eq!(out[0].to_array().map(f32::to_bits), expected.map(f32::to_bits), "{words:04X?}");
            assert_eq!(stats.reserved_bits, 0);
            // The other game's decode is the same value up to rounding.
            let mut other = Vec::new();
            smallest_three_15(&bytes, &mut other);
            for (x, y) in out[0].to_array().iter().zip(other[0].to_array()) {
                assert!((x - y).abs() < 3e-7);
            }
        }
        assert_eq!(SWS_STEP, f64::from((2f64.sqrt() / 32767.0) as f32));
    }

    /// Worked by hand from the bit positions of the layout table.
    #[test]
    fn ring_and_ten_bit_layouts() {
        // Components 1, 0x80002, 0xFFFFF with z left out: low word = index 2 << 30 | a << 8 | b >> 12,
        // high word = (b & 0xFFF) << 20 | c.
        let b = 0x8_0002u64;
        let v = 2u64 << 30 | 1 << 8 | b >> 12 | (b & 0xFFF) << 52 | 0xF_FFFF << 32;
        let mut out = Vec::new();
        let stats = smallest_three_20(&v.to_le_bytes(), &mut out);
        let q = out[0];
        let max = 1_048_575.0;
        assert_eq!(
            [q.x, q.y, q.w],
            [literal(1, max) as f32, literal(0x8_0002, max) as f32, literal(0xF_FFFF, max) as f32]
        );
        assert_eq!(stats.reserved_bits, 0);
        for bit in [28, 29] {
            assert_eq!(smallest_three_20(&(v | 1 << bit).to_le_bytes(), &mut out).reserved_bits, 1);
        }

        let v = 3u32 << 30 | 100 << 20 | 200 << 10 | 700;
        let mut out = Vec::new();
        smallest_three_10(&v.to_le_bytes(), &mut out);
        let q = out[0];
        let [x, y, z] = [100, 200, 700].map(|v| literal(v, 1023.0));
        assert_eq!([q.x, q.y, q.z], [x as f32, y as f32, z as f32]);
        assert_eq!(q.w, (1.0 - x * x - y * y - z * z).sqrt() as f32);
    }

    #[test]
    fn top_bit_of_a_z_rotation() {
        // A turn from 0 to 300 degrees in steps of 10: half angles 0 to 150 degrees, packed as Unity does it.
        let mut bytes = Vec::new();
        let mut expected = Vec::new();
        for i in 0..=30 {
            let half = f64::from(i) * 5f64.to_radians();
            let (z, w) = (half.sin(), half.cos());
            let (kept, root, top) = if z.abs() < w.abs() { (z, w, 0) } else { (w, z, 0x8000) };
            let kept = if root < 0.0 { -kept } else { kept };
            let v = ((kept * 2f64.sqrt() + 1.0) / 2.0 * 32767.0).round() as u16;
            bytes.extend((v | top).to_le_bytes());
            expected.push((z, w));
        }
        let mut out = Vec::new();
        let facts = z_rotation(&bytes, &mut out);
        assert!(facts.stored_w && facts.top_bits > 10);
        for (q, (z, w)) in out.iter().zip(&expected) {
            assert!((f64::from(q.z) * z + f64::from(q.w) * w).abs() > 1.0 - 1e-6);
        }
        // Random top bits on a slow turn in which z is always stored: the bit is ignored.
        let mut bytes = Vec::new();
        for i in 0..40u16 {
            let v = 16384 + i * 100;
            bytes.extend((v | if i % 3 == 1 { 0x8000 } else { 0 }).to_le_bytes());
        }
        let mut out = Vec::new();
        let facts = z_rotation(&bytes, &mut out);
        assert_eq!((facts.stored_w, facts.top_bits), (false, 13));
        assert!(
            out.iter()
                .enumerate()
                .all(|(i, q)| { (f64::from(q.z) - literal(16384 + i as u32 * 100, 32767.0)).abs() < 1e-7 })
        );
    }

    #[test]
    fn what_is_no_rotation_is_seen() {
        let mut out = Vec::new();
        // All three components at their greatest: 3/2 without the fourth.
        let stats = smallest_three_10(&0x3FFF_FFFFu32.to_le_bytes(), &mut out);
        assert!(stats.least_remainder < -0.49);
        assert_eq!(renormalise(&mut out), 1);
        assert!((out[0].length() - 1.0).abs() < 1e-6);

        for place in 0..3 {
            let mut bytes = [[0.5f32, 0.1, 0.1], [0.1, 0.2, 0.3], [0.0; 3]];
            bytes[place][1] = f32::NAN;
            let bytes: Vec<u8> = bytes.iter().flatten().flat_map(|v| v.to_le_bytes()).collect();
            let mut out = Vec::new();
            assert!(xyz_positive_w(&bytes, &mut out).least_remainder.is_nan());
        }
        let mut out = Vec::new();
        let infinite: Vec<u8> = [f32::INFINITY, 0.0, 0.0].iter().flat_map(|v| v.to_le_bytes()).collect();
        assert!(xyz_positive_w(&infinite, &mut out).least_remainder.is_nan());
    }
}
