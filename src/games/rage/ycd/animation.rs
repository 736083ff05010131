//! Blocks to whole tracks: joins columns into vectors and quaternions, normalises, aligns signs.

use glam::{DQuat, Quat, Vec3};

use crate::error::{Error, Result};
use crate::games::rage::ycd::dictionary::{Animation, TrackFormat};
use crate::games::rage::ycd::sequence::{Coding, Sequence};
use crate::model::{Values, Warning, WarningKind};

/// A decoded track: one value a frame, or one value where all are equal to the bit.
#[derive(Debug, Clone, PartialEq)]
pub struct DecodedTrack {
    /// Index into [`Animation::tracks`].
    pub track: usize,
    /// Rotations are unit and neighbours lie in one hemisphere.
    pub values: Values,
}

/// An animation's tracks with what was noticed on the way.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decoded {
    /// The tracks that were wanted, in the order of the file.
    pub tracks: Vec<DecodedTrack>,
    /// Deviations.
    pub warnings: Vec<Warning>,
}

static BLOCKS_MISSING: WarningKind = WarningKind {
    code: "rage-blocks-missing",
    text: "{blocks} sequence blocks for {frames} frames, {expected} expected: the last frame of the last block holds",
};
static BLOCK_SHORT: WarningKind = WarningKind {
    code: "rage-block-short",
    text: "the last sequence block is {frames} frames short: its last frame holds",
};
static ROTATIONS_ZERO: WarningKind = WarningKind {
    code: "rage-rotations-zero",
    text: "{keys} rotation keys of length zero: taken as no rotation",
};
static NOT_FINITE: WarningKind =
    WarningKind { code: "rage-values-not-finite", text: "{values} values that are no numbers: taken as 0" };

/// Buffers that are reused from one decode to the next.
#[derive(Debug, Default)]
pub struct Scratch {
    columns: [Vec<f32>; 4],
    parts: Vec<Parts>,
}

/// The channels of one track in one block, by index.
#[derive(Debug, Clone, Copy, Default)]
struct Parts {
    whole: Option<u16>,
    component: [Option<u16>; 4],
    /// The component that a cached quaternion leaves out.
    cached: Option<u8>,
}

/// Decodes the tracks of `animation` for which `wanted(index)`.
///
/// Block i begins at frame i x limit. It shares that frame with the block before, and its value is the one taken. A
/// block that is too short holds its last frame: some tools write such blocks (docs/formats/rage.md, section 4).
///
/// # Errors
/// Malformed: a track without the channels that its format needs, or see [`Sequence::column`].
pub fn decode(
    animation: &Animation<'_>,
    wanted: impl Fn(usize) -> bool,
    scratch: &mut Scratch,
) -> Result<Decoded> {
    let frames = usize::from(animation.frames).max(1);
    let limit = usize::from(animation.sequence_frame_limit).max(1);
    let mut out = Decoded::default();
    if animation.sequences.is_empty() {
        return Err(Error::malformed(animation.at, "an animation of no sequences", "at least one"));
    }
    let blocks = animation.sequences.len();
    let expected = (frames - 1).div_ceil(limit).max(1);
    // Tools write blocks that are a few frames short. A count far beyond what is stored is damage, and would
    // produce many keys from few bytes.
    let held: usize = animation.sequences.iter().map(|s| usize::from(s.frames)).sum();
    if frames > held.saturating_mul(2) {
        return Err(Error::limit(
            animation.at,
            format_args!("{frames} frames"),
            format_args!("about as many as the blocks hold: {held}"),
        ));
    }
    if blocks < expected {
        let warning = Warning::new(&BLOCKS_MISSING).with("blocks", blocks);
        out.warnings.push(warning.with("frames", frames).with("expected", expected));
    }
    let mut tracks: Vec<Option<DecodedTrack>> = (0..animation.tracks.len())
        .map(|track| {
            wanted(track).then(|| DecodedTrack { track, values: empty(animation.tracks[track].format) })
        })
        .collect();
    let mut short = 0usize;
    for (b, sequence) in animation.sequences.iter().take(expected).enumerate() {
        let first = b * limit;
        // Up to the next block's first frame, which that block gives; the last block goes to the end.
        let end = if b + 1 == blocks.min(expected) { frames } else { first + limit };
        let count = end - first;
        let stored = usize::from(sequence.frames);
        let needed = count.min(limit + 1);
        if stored < needed {
            short += needed - stored;
        }
        let usable = count.min(stored);
        scratch.parts.clear();
        scratch.parts.resize(animation.tracks.len(), Parts::default());
        group(sequence, &mut scratch.parts);
        let Scratch { parts, columns } = scratch;
        for (decoded, parts) in tracks.iter_mut().zip(parts.iter()) {
            let Some(decoded) = decoded else { continue };
            let format = animation.tracks[decoded.track].format;
            let block = block_values(sequence, parts, format, usable, columns)
                .map_err(|e| e.in_entry(format!("track {}, block {b}", decoded.track)))?;
            append(&mut decoded.values, block, first, count, usable);
        }
    }
    if short > 0 {
        out.warnings.push(Warning::new(&BLOCK_SHORT).with("frames", short));
    }
    let mut zero_rotations = 0usize;
    let mut not_finite = 0usize;
    for mut decoded in tracks.into_iter().flatten() {
        not_finite += make_finite(&mut decoded.values);
        if let Values::Quat(q) = &mut decoded.values {
            zero_rotations += align(q);
        }
        collapse(&mut decoded.values);
        out.tracks.push(decoded);
    }
    if zero_rotations > 0 {
        out.warnings.push(Warning::new(&ROTATIONS_ZERO).with("keys", zero_rotations));
    }
    if not_finite > 0 {
        out.warnings.push(Warning::new(&NOT_FINITE).with("values", not_finite));
    }
    Ok(out)
}

fn empty(format: TrackFormat) -> Values {
    match format {
        TrackFormat::Vector3 => Values::Vec3(Vec::new()),
        TrackFormat::Quaternion => Values::Quat(Vec::new()),
        TrackFormat::Float => Values::Scalar(Vec::new()),
    }
}

fn group(sequence: &Sequence<'_>, parts: &mut [Parts]) {
    for (i, channel) in sequence.channels.iter().enumerate() {
        let Some(part) = parts.get_mut(usize::from(channel.track)) else { continue };
        let i = Some(i as u16);
        match channel.coding {
            Coding::StaticQuaternion(_) | Coding::StaticVector3(_) => part.whole = i,
            Coding::CachedQuaternion1 => part.cached = Some(channel.slot),
            // Four stored components and a marker to normalise. Every rotation is normalised anyway.
            Coding::CachedQuaternion2 => {}
            _ => part.component[usize::from(channel.slot & 3)] = i,
        }
    }
}

/// Values of a track in a block: one where the block is static, otherwise one a frame.
fn block_values(
    sequence: &Sequence<'_>,
    parts: &Parts,
    format: TrackFormat,
    frames: usize,
    columns: &mut [Vec<f32>; 4],
) -> Result<Values> {
    let channel = |i: u16| &sequence.channels[usize::from(i)];
    if let Some(whole) = parts.whole {
        return match (&channel(whole).coding, format) {
            (Coding::StaticQuaternion(v), TrackFormat::Quaternion) => {
                let [x, y, z] = *v;
                Ok(Values::Quat(vec![unit([x, y, z, reconstructed(x, y, z)])]))
            }
            (Coding::StaticVector3(v), TrackFormat::Vector3) => Ok(Values::Vec3(vec![Vec3::from_array(*v)])),
            (coding, _) => Err(Error::malformed(
                sequence.at,
                format_args!(
                    "{} of a {format:?} track",
                    if matches!(coding, Coding::StaticVector3(_)) {
                        "a static vector"
                    } else {
                        "a static quaternion"
                    }
                ),
                "a channel of the track's format",
            )),
        };
    }
    let needed = match format {
        TrackFormat::Float => 1,
        TrackFormat::Vector3 => 3,
        TrackFormat::Quaternion if parts.cached.is_some() => 3,
        TrackFormat::Quaternion => 4,
    };
    let components = &parts.component[..needed];
    let is_static =
        components.iter().all(|c| c.is_some_and(|i| matches!(channel(i).coding, Coding::StaticFloat(_))));
    let count = if is_static { 1 } else { frames };
    for (slot, (component, column)) in components.iter().zip(columns.iter_mut()).enumerate() {
        let Some(i) = component else {
            return Err(Error::malformed(
                sequence.at,
                format_args!("no channel for component {slot}"),
                format_args!("{needed} components of a {format:?} track"),
            ));
        };
        column.resize(count, 0.0);
        sequence.column(channel(*i), column)?;
    }
    let [a, b, c, d] = columns;
    let (a, b, c) = (&a[..], &b[..], &c[..]);
    Ok(match format {
        TrackFormat::Float => Values::Scalar(a[..count].to_vec()),
        TrackFormat::Vector3 => {
            Values::Vec3(a[..count].iter().zip(b).zip(c).map(|((x, y), z)| Vec3::new(*x, *y, *z)).collect())
        }
        TrackFormat::Quaternion => {
            let (a, b, c) = (&a[..count], &b[..count], &c[..count]);
            if parts.cached.is_some() {
                d.clear();
                d.extend(a.iter().zip(b).zip(c).map(|((a, b), c)| reconstructed(*a, *b, *c)));
            }
            let d = &d[..count];
            Values::Quat(units(match parts.cached {
                Some(0) => [d, a, b, c],
                Some(1) => [a, d, b, c],
                Some(2) => [a, b, d, c],
                _ => [a, b, c, d],
            }))
        }
    })
}

/// The component that gives unit length, rounded to f32 at every step in this order (docs/formats/rage.md, section
/// 5: another order differs by up to 1.8e-4 where the component is near zero).
#[inline]
fn reconstructed(a: f32, b: f32, c: f32) -> f32 {
    let q = (a * a + b * b) + c * c;
    (1.0 - q).max(0.0).sqrt()
}

/// Quaternions of four columns, each normalised as [`unit`] does, in loops that the compiler vectorises.
fn units(columns: [&[f32]; 4]) -> Vec<Quat> {
    const LANES: usize = 8;
    let count = columns[0].len();
    let mut out = Vec::with_capacity(count);
    let mut at = 0;
    while at + LANES <= count {
        let [mut x, mut y, mut z, mut w] = [[0.0f32; LANES]; 4];
        for (part, column) in [&mut x, &mut y, &mut z, &mut w].into_iter().zip(columns) {
            part.copy_from_slice(&column[at..at + LANES]);
        }
        let mut factors = [0.0f64; LANES];
        for i in 0..LANES {
            let [x, y, z, w] = [f64::from(x[i]), f64::from(y[i]), f64::from(z[i]), f64::from(w[i])];
            factors[i] = x * x + y * y + z * z + w * w;
        }
        if factors.iter().fold(true, |all, s| all & (*s > 0.0) & (*s < f64::INFINITY)) {
            for f in &mut factors {
                *f = 1.0 / f.sqrt();
            }
            for part in [&mut x, &mut y, &mut z, &mut w] {
                for i in 0..LANES {
                    part[i] = (f64::from(part[i]) * factors[i]) as f32;
                }
            }
            out.extend((0..LANES).map(|i| Quat::from_array([x[i], y[i], z[i], w[i]])));
        } else {
            out.extend((0..LANES).map(|i| unit([x[i], y[i], z[i], w[i]])));
        }
        at += LANES;
    }
    let [x, y, z, w] = columns;
    out.extend((at..count).map(|i| unit([x[i], y[i], z[i], w[i]])));
    out
}

/// Normalises in f64. A quaternion of length zero stays as it is; [`align`] replaces it.
#[inline]
fn unit(q: [f32; 4]) -> Quat {
    let [x, y, z, w] = q.map(f64::from);
    let square = x * x + y * y + z * z + w * w;
    if square > 0.0 && square.is_finite() {
        let factor = 1.0 / square.sqrt();
        DQuat::from_xyzw(x * factor, y * factor, z * factor, w * factor).as_quat()
    } else {
        Quat::from_array([0.0; 4])
    }
}

/// Appends a block that begins at frame `first`: `count` frames of which `usable` are stored.
fn append(all: &mut Values, block: Values, first: usize, count: usize, usable: usize) {
    fn join<T: Copy + PartialEq>(all: &mut Vec<T>, block: &[T], first: usize, count: usize, usable: usize) {
        let Some(&last) = block.last() else { return };
        // A single value stands for all frames as long as every block has the same one.
        if block.len() == 1 && (first == 0 || (all.len() == 1 && all[0] == last)) {
            if first == 0 {
                all.push(last);
            }
            return;
        }
        if first > 0 && all.len() == 1 {
            all.resize(first, all[0]);
        }
        if block.len() == 1 {
            all.resize(first + count, last);
        } else {
            all.extend_from_slice(&block[..usable.min(block.len())]);
            all.resize(first + count, last);
        }
    }
    // The first block is taken as it is where it is whole, or one value.
    let whole = |n: usize| first == 0 && (n == count || n == 1);
    match (all, block) {
        (Values::Vec3(a), Values::Vec3(b)) if whole(b.len()) => *a = b,
        (Values::Quat(a), Values::Quat(b)) if whole(b.len()) => *a = b,
        (Values::Scalar(a), Values::Scalar(b)) if whole(b.len()) => *a = b,
        (Values::Vec3(a), Values::Vec3(b)) => join(a, &b, first, count, usable),
        (Values::Quat(a), Values::Quat(b)) => join(a, &b, first, count, usable),
        (Values::Scalar(a), Values::Scalar(b)) => join(a, &b, first, count, usable),
        _ => {}
    }
}

/// Gives neighbouring keys the sign that puts them into one hemisphere. A key of length zero becomes the key before
/// it, or the identity. Returns how many there were.
fn align(keys: &mut [Quat]) -> usize {
    let mut zero = 0;
    let mut last = Quat::IDENTITY;
    let mut first = true;
    for q in keys {
        if *q == Quat::from_array([0.0; 4]) {
            zero += 1;
            *q = last;
        } else if !first && q.dot(last) < 0.0 {
            *q = -*q;
        }
        first = false;
        last = *q;
    }
    zero
}

/// Replaces values that are not finite by 0. Returns how many there were.
fn make_finite(values: &mut Values) -> usize {
    let fix = |v: &mut f32| {
        let bad = !v.is_finite();
        if bad {
            *v = 0.0;
        }
        usize::from(bad)
    };
    match values {
        Values::Vec3(v) => {
            if v.iter().all(|v| v.is_finite()) {
                return 0;
            }
            v.iter_mut().map(|v| fix(&mut v.x) + fix(&mut v.y) + fix(&mut v.z)).sum()
        }
        Values::Scalar(v) => v.iter_mut().map(fix).sum(),
        // Rotations were made finite when they were normalised.
        Values::Quat(_) | Values::Raw { .. } => 0,
    }
}

/// Reduces a track whose keys are all equal to the bit to one value.
fn collapse(values: &mut Values) {
    fn same<T: Copy, K: PartialEq>(v: &mut Vec<T>, bits: impl Fn(T) -> K) {
        if let Some(&first) = v.first() {
            let key = bits(first);
            if v.iter().all(|x| bits(*x) == key) {
                v.truncate(1);
            }
        }
    }
    match values {
        Values::Vec3(v) => same(v, |v| v.to_array().map(f32::to_bits)),
        Values::Quat(v) => same(v, |q| q.to_array().map(f32::to_bits)),
        Values::Scalar(v) => same(v, f32::to_bits),
        Values::Raw { .. } => {}
    }
}
