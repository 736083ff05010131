//! Tracks to curves of one number each: whole ticks, and Euler angles that stay on the source's path.
//!
//! FBX plays a rotation as three curves of degrees, each linear between its keys; the source goes along the
//! normalised line between quaternions. Between two keys the two paths part by about
//!
//! ```text
//! |w'| / 8,  w' = the change of the Euler path's angular velocity over the interval
//! |w'|^2 = dy^2 (dx^2 + 2 dx dz sin y + dz^2) + (dx dz cos y)^2
//! ```
//!
//! with dx, dy, dz the steps of the angles (radians), plus what parts the normalised line from the great arc
//! (at most 0.0042 angle^3). Most intervals of real clips are found good by a bound of that, which needs no
//! trigonometry. The others get keys at steps that the same bound finds good; near the pole, where it says nothing, the
//! two paths are compared at points between.
//!
//! Angles of the next key come from the key before by the angles between them (a short series, plain sums), so
//! they are unrolled without search; where the step is large, or near the pole (y = +-90 degrees), from the
//! arc tangents of `libm`, the nearest of the two solutions. All bits are the same on every platform.

use std::f64::consts::{FRAC_PI_2, PI, TAU};

use glam::{DQuat, Quat, Vec3};

use crate::model::{Interpolation, Timeline};

/// Ticks in a second (docs/formats/gltf-fbx.md, section 3.1).
pub const TICKS_PER_S: i64 = 46_186_158_000;

/// How long before a step the earlier value is keyed again: 1 ms. One tick would do for FBX itself, but readers
/// that count in f32 frames or seconds see one instant then: Blender's Python importer drops the held key (the
/// step becomes a ramp), its C++ importer plays the step a frame late. This is 0.024 frames or more from 24 Hz
/// on, twice what Blender takes for the same frame.
const STEP_TICKS: i64 = TICKS_PER_S / 1000;
/// The part of the tolerance that one interval may use: the bound is the first term of a series, and what joints of a
/// chain are off adds up.
const MARGIN: f64 = 0.8;
/// Larger steps of one angle are split: readers take one of half a turn or more for a flip
/// (docs/formats/gltf-fbx.md, section 1, row 17).
const STEP_LIMIT: f64 = 175.0 * PI / 180.0;
/// No interval of the source is split finer than into this many parts. At that the rotation moves less than
/// 0.1 degrees in a part, so that nothing is gained by more.
const FINEST: i64 = 4096;
/// Angles (radians) past this start over: at 32 turns an f32 is right to 0.0005 degrees, and ever less after.
const REWIND: f64 = 32.0 * TAU;
/// Steps of the three angles, together (radians), up to which the paths part as the first terms of their series do.
const SHORT_STEP: f64 = 0.4;
/// How far the normalised line and the great arc part at most, of the cube of the angle between their ends.
const CUBIC: f64 = 0.0042;
/// Sine of the distance from the pole below which two of the angles are one (see [`Half::angles`]).
const POLE: f64 = 1e-5;

/// The nearest tick of an instant.
///
/// From f64 seconds this is exact for whole ticks of 1/60 s and frames of 1/30 s up to 10,000 s: the error of
/// the seconds, 2 x 2^-53 of them, is then below 0.1 ticks.
#[inline]
pub fn ticks(seconds: f64) -> i64 {
    // Saturates, and 0 for what is no number.
    (seconds * TICKS_PER_S as f64).round() as i64
}

/// Ticks of a timeline's keys, strictly rising, and the key that each belongs to. Of keys on one tick the
/// first stays.
pub fn key_ticks(timeline: &Timeline, ticks_out: &mut Vec<i64>, keys_out: &mut Vec<u32>) {
    ticks_out.clear();
    keys_out.clear();
    let mut last = i64::MIN;
    for (i, seconds) in timeline.iter_seconds().enumerate() {
        let t = ticks(seconds);
        if t > last {
            ticks_out.push(t);
            keys_out.push(i as u32);
            last = t;
        }
    }
}

/// Keys of three curves that share their times.
#[derive(Debug, Default)]
pub struct Keys {
    /// Instants, strictly rising.
    pub ticks: Vec<i64>,
    /// Values of each axis: metres, factors or degrees.
    pub values: [Vec<f32>; 3],
    /// Whether keys were put between those of the source.
    pub added: bool,
}

impl Keys {
    /// Empties it.
    pub fn clear(&mut self) {
        self.ticks.clear();
        self.values.iter_mut().for_each(Vec::clear);
        self.added = false;
    }

    #[inline]
    fn push(&mut self, tick: i64, value: [f32; 3]) {
        self.ticks.push(tick);
        let [x, y, z] = &mut self.values;
        x.push(value[0]);
        y.push(value[1]);
        z.push(value[2]);
    }

    fn reserve(&mut self, keys: usize) {
        self.ticks.reserve(keys);
        self.values.iter_mut().for_each(|v| v.reserve(keys));
    }

    /// Repeats the last value just before `tick`, which ends its hold.
    fn push_hold(&mut self, tick: i64) {
        let Some(&last) = self.ticks.last() else { return };
        let gap = STEP_TICKS.min((tick - last) / 2);
        if gap > 0 {
            self.hold_to(tick - gap);
        }
    }

    /// Repeats the last value at `tick`, unless a key stands there or later.
    pub fn hold_to(&mut self, tick: i64) {
        if self.ticks.last().is_some_and(|&last| tick > last) {
            self.ticks.push(tick);
            for values in &mut self.values {
                let last = values.last().copied().unwrap_or_default();
                values.push(last);
            }
            self.added = true;
        }
    }

    /// Whether an axis has the same bits in every key.
    pub fn is_constant(&self, axis: usize) -> bool {
        match self.values[axis].split_first() {
            Some((first, rest)) => rest.iter().all(|v| v.to_bits() == first.to_bits()),
            None => true,
        }
    }

    /// Translations or scales: `values[keys[i]]` at `ticks[i]`. What is no finite number becomes that of `rest`.
    pub fn vectors(
        &mut self,
        ticks: &[i64],
        keys: &[u32],
        values: &[Vec3],
        interpolation: Interpolation,
        rest: Vec3,
    ) {
        self.clear();
        let value = |i: u32| vector(values[(i as usize).min(values.len() - 1)], rest);
        if values.is_empty() {
            return;
        }
        if interpolation == Interpolation::Step {
            let mut last = None;
            for (&tick, &key) in ticks.iter().zip(keys) {
                let v = value(key);
                if last.is_some_and(|l| l != v) {
                    self.push_hold(tick);
                }
                self.push(tick, v);
                last = Some(v);
            }
            return;
        }
        self.reserve(ticks.len());
        self.ticks.extend_from_slice(ticks);
        let [x, y, z] = &mut self.values;
        for v in keys.iter().map(|&i| value(i)) {
            x.push(v[0]);
            y.push(v[1]);
            z.push(v[2]);
        }
    }

    /// Numbers, on the first axis. What is no finite number becomes 0.
    pub fn numbers(&mut self, ticks: &[i64], keys: &[u32], values: &[f32], interpolation: Interpolation) {
        self.clear();
        if values.is_empty() {
            return;
        }
        for (&tick, &key) in ticks.iter().zip(keys) {
            let v = values[(key as usize).min(values.len() - 1)];
            let v = if v.is_finite() { v + 0.0 } else { 0.0 };
            if interpolation == Interpolation::Step && self.values[0].last().is_some_and(|l| *l != v) {
                self.push_hold(tick);
            }
            self.push(tick, [v, 0.0, 0.0]);
        }
    }

    /// Rotations as degrees: `values[keys[i]]` at `ticks[i]`, unrolled from the angles `start` (radians) on,
    /// with keys added where the path parts from the source's by more than `tolerance` (radians).
    pub fn rotations(
        &mut self,
        ticks: &[i64],
        keys: &[u32],
        values: &[Quat],
        interpolation: Interpolation,
        start: Angles,
        tolerance: f64,
    ) {
        self.clear();
        if values.is_empty() {
            return;
        }
        self.reserve(ticks.len());
        let step = interpolation == Interpolation::Step;
        let tolerance = tolerance * MARGIN;
        let mut path = EulerPath { angles: start, ..EulerPath::default() };
        let mut last: Option<(i64, DQuat)> = None;
        for (&tick, &key) in ticks.iter().zip(keys) {
            let raw = unit(values[(key as usize).min(values.len() - 1)]);
            let Some((last_tick, last_q)) = last else {
                path.jump(Half::new(raw));
                self.push(tick, path.degrees());
                last = Some((tick, raw));
                continue;
            };
            if path.is_far() && tick - last_tick > 1 {
                path.set(path.angles.map(|a| a - TAU * (a / TAU).round()));
                self.push(last_tick + 1, path.degrees());
                self.added = true;
            }
            // A rotation has two quaternions; the source goes to the nearer one.
            let q = if raw.dot(last_q) < 0.0 { -raw } else { raw };
            if step {
                let before = path.degrees();
                path.go(Half::new(q));
                if path.degrees() != before {
                    self.push_hold(tick);
                }
            } else {
                let before = path;
                let near = path.go(Half::new(q));
                if !(near && path.bound(before.angles) <= tolerance) {
                    let interval = Interval::new([last_tick, tick], [last_q, q], tolerance);
                    path = self.fill(&interval, before);
                }
            }
            self.push(tick, path.degrees());
            last = Some((tick, q));
        }
    }

    /// Puts the keys between the ends of `interval` that keep the angles, which are those of `path` at its start, on
    /// the source's path. Returns the path at its end.
    ///
    /// The gap goes with the square of a step's length, so that the gap of one step tells the length of the next.
    fn fill(&mut self, interval: &Interval, mut path: EulerPath) -> EulerPath {
        let shortest = ((interval.end - interval.start) / FINEST).max(1);
        // Behind the key of the source may stand that of rewound angles.
        let mut at = self.ticks.last().map_or(interval.start, |&t| t.max(interval.start));
        let angles = self.leave_pole(interval, &mut at, path.angles);
        path.set(angles);
        let mut length = interval.short_step().min(interval.end - at);
        loop {
            let left = interval.end - at;
            // Steps of one length to the end.
            let parts = (left + length - 1) / length.max(1);
            let mut step = (left / parts.max(1)).max(shortest).min(left);
            let (next, gap) = loop {
                let half = Half::new(interval.at(at + step));
                let mut next = path;
                let gap = if next.go_short(half) {
                    next.bound(path.angles) + interval.uneven_motion(at, step)
                } else {
                    f64::INFINITY
                };
                if gap <= interval.tolerance {
                    break (next, gap);
                }
                if gap.is_infinite() || step <= shortest {
                    // Near the pole, or as far as it goes.
                    step = interval.careful_step(at, step, path.angles, shortest);
                    next = path;
                    next.jump(Half::new(interval.at(at + step)));
                    break (next, interval.tolerance);
                }
                step = ((step as f64 * (interval.tolerance / gap).sqrt() * 0.98) as i64)
                    .clamp(shortest, step - 1);
            };
            path = next;
            at += step;
            if at >= interval.end {
                return path;
            }
            self.push(at, path.degrees());
            self.added = true;
            let longer = (interval.tolerance / gap.max(interval.tolerance / 16.0)).sqrt();
            length = ((step as f64 * longer * 0.98) as i64).max(shortest);
        }
    }
}

impl Keys {
    /// At a pole the two other angles are one, however it is split between them. The key there took the split
    /// that it came with; the path on needs the one that it leaves with, or the first keys behind would lie
    /// so near that readers take them for one. Both are keyed, a tick apart: the rotation is the same. Moves `at`
    /// to the last key, returns its angles.
    fn leave_pole(&mut self, interval: &Interval, at: &mut i64, angles: Angles) -> Angles {
        let pole = Half::new(interval.from);
        if !pole.is_pole() {
            return angles;
        }
        let soon = interval.start + ((interval.end - interval.start) / 64).max(1);
        let leaving = pole.nearest(Half::new(interval.at(soon)).nearest(angles));
        let written = degrees(leaving);
        if written == degrees(angles) {
            return angles;
        }
        if let [_] = self.ticks[..] {
            // Nothing leads to the first key.
            for (values, value) in self.values.iter_mut().zip(written) {
                values.fill(value);
            }
        } else if *at + 1 < interval.end {
            *at += 1;
            self.push(*at, written);
            self.added = true;
        } else {
            return angles;
        }
        leaving
    }
}

/// A translation or scale as a curve holds it: that of `rest` where it is no finite number, and 0 where that is none.
#[inline]
pub fn vector(v: Vec3, rest: Vec3) -> [f32; 3] {
    let v = if v.is_finite() {
        v
    } else if rest.is_finite() {
        rest
    } else {
        Vec3::ZERO
    };
    // -0 + 0 = 0: one form of zero, so that equal values have equal bits.
    (v + Vec3::ZERO).to_array()
}

/// Angles about x, y, z (radians), applied in this order about fixed axes: R = Rz Ry Rx.
pub type Angles = [f64; 3];

/// The angles of a rotation that are nearest to `near`.
pub fn nearest_angles(q: Quat, near: Angles) -> Angles {
    Half::new(unit(q)).nearest(near)
}

/// As a curve holds them.
#[inline]
pub fn degrees(angles: Angles) -> [f32; 3] {
    // -0 + 0 = 0.
    let [x, y, z] = angles;
    [x.to_degrees() as f32 + 0.0, y.to_degrees() as f32 + 0.0, z.to_degrees() as f32 + 0.0]
}

/// In f64, of about length 1; no rotation where the source's four numbers are none. What a unit quaternion lost
/// by rounding is left as it is: no angle depends on the length, and the source interpolates these numbers.
#[inline]
fn unit(q: Quat) -> DQuat {
    let q = q.as_dquat();
    let squared = q.length_squared();
    if (0.9..1.1).contains(&squared) {
        q
    } else if squared.is_finite() && squared > 1e-12 {
        q * (1.0 / squared.sqrt())
    } else {
        DQuat::IDENTITY
    }
}

/// A quaternion of q = qz qy qx in the form that separates its angles. With X, Y, Z the half angles:
///
/// ```text
/// (w - y, z + x) = sqrt 2 cos(Y + 45 deg) (cos(Z + X), sin(Z + X))
/// (w + y, z - x) = sqrt 2 sin(Y + 45 deg) (cos(Z - X), sin(Z - X))
/// ```
#[derive(Debug, Clone, Copy)]
struct Half {
    sum: [f64; 2],
    difference: [f64; 2],
    /// Lengths of the two.
    sum_length: f64,
    difference_length: f64,
}

impl Half {
    #[inline]
    fn new(q: DQuat) -> Self {
        let sum = [q.w - q.y, q.z + q.x];
        let difference = [q.w + q.y, q.z - q.x];
        let length = |v: [f64; 2]| (v[0] * v[0] + v[1] * v[1]).sqrt();
        Half { sum, difference, sum_length: length(sum), difference_length: length(difference) }
    }

    fn is_pole(&self) -> bool {
        self.sum_length < POLE || self.difference_length < POLE
    }

    /// The solution nearest to `near`.
    fn nearest(&self, near: Angles) -> Angles {
        let y = 2.0 * libm::atan2(self.difference_length, self.sum_length) - FRAC_PI_2;
        let unroll = |a: f64, near: f64| a + TAU * ((near - a) / TAU).round();
        // At a pole only one of sum and difference is told; the other stays as it was.
        if self.sum_length < POLE {
            let difference = 2.0 * libm::atan2(self.difference[1], self.difference[0]);
            let (sum, difference) = (near[2] + near[0], unroll(difference, near[2] - near[0]));
            return [(sum - difference) / 2.0, unroll(y, near[1]), (sum + difference) / 2.0];
        }
        if self.difference_length < POLE {
            let sum = 2.0 * libm::atan2(self.sum[1], self.sum[0]);
            let (sum, difference) = (unroll(sum, near[2] + near[0]), near[2] - near[0]);
            return [(sum - difference) / 2.0, unroll(y, near[1]), (sum + difference) / 2.0];
        }
        let sum = libm::atan2(self.sum[1], self.sum[0]);
        let difference = libm::atan2(self.difference[1], self.difference[0]);
        let (x, z) = (sum - difference, sum + difference);
        let first = [unroll(x, near[0]), unroll(y, near[1]), unroll(z, near[2])];
        let second = [unroll(x + PI, near[0]), unroll(PI - y, near[1]), unroll(z + PI, near[2])];
        let distance = |a: Angles| -> f64 { a.iter().zip(near).map(|(a, n)| (a - n) * (a - n)).sum() };
        if distance(second) < distance(first) { second } else { first }
    }

    /// Half the steps of sum, y and difference from `self` to `next`, where they are short.
    #[inline]
    fn short_step(&self, next: &Half) -> Option<[f64; 3]> {
        /// Tangent below which the series has its full precision (the first term left out is r^15 / 15).
        const SHORT: f64 = 0.125;
        let turn = |a: [f64; 2], b: [f64; 2]| (a[0] * b[1] - a[1] * b[0], a[0] * b[0] + a[1] * b[1]);
        let (s_sin, s_cos) = turn(self.sum, next.sum);
        let (d_sin, d_cos) = turn(self.difference, next.difference);
        let (y_sin, y_cos) =
            turn([self.sum_length, self.difference_length], [next.sum_length, next.difference_length]);
        let short = (s_sin.abs() < SHORT * s_cos)
            & (d_sin.abs() < SHORT * d_cos)
            & (y_sin.abs() < SHORT * y_cos)
            & (self.sum_length.min(next.sum_length) > POLE)
            & (self.difference_length.min(next.difference_length) > POLE);
        short.then(|| [atan_short(s_sin / s_cos), atan_short(y_sin / y_cos), atan_short(d_sin / d_cos)])
    }
}

/// Arc tangent of |r| < 0.125.
#[inline]
fn atan_short(r: f64) -> f64 {
    let s = r * r;
    r * (1.0
        - s * (1.0 / 3.0
            - s * (1.0 / 5.0 - s * (1.0 / 7.0 - s * (1.0 / 9.0 - s * (1.0 / 11.0 - s * (1.0 / 13.0)))))))
}

/// The angles of the key before, and how to go on from them.
#[derive(Debug, Clone, Copy, Default)]
struct EulerPath {
    angles: Angles,
    half: Option<Half>,
    /// Whether the angles are the second solution: y runs against Y.
    second: bool,
}

impl EulerPath {
    fn degrees(&self) -> [f32; 3] {
        degrees(self.angles)
    }

    /// To the nearest angles of `half`, from wherever.
    fn jump(&mut self, half: Half) {
        self.set(half.nearest(self.angles));
        self.half = Some(half);
    }

    /// An upper bound of how far the paths part between the angles of the key before, `from`, and these, where they lie
    /// near each other; infinite where they do not.
    #[inline]
    fn bound(&self, from: Angles) -> f64 {
        let to = &self.angles;
        let (x, y, z) = (to[0] - from[0], (to[1] - from[1]).abs(), to[2] - from[2]);
        let all = x.abs() + y + z.abs();
        // The formula is the first term of a series: the rest stays below a tenth of it up to here.
        if all > SHORT_STEP {
            return f64::INFINITY;
        }
        // Sine and cosine of y need no trigonometry; both change by less than y does. The sine is that of Y also where
        // y runs against it.
        let (sin, cos) = self.half.map_or((0.0, 1.0), |h| {
            let (s, d) = (h.sum_length, h.difference_length);
            let per_squared = 1.0 / (d * d + s * s);
            ((d * d - s * s) * per_squared, 2.0 * s * d * per_squared)
        });
        let xz = x * z;
        let turned = x * x + z * z + 2.0 * (xz * sin + xz.abs() * y);
        let cos = (cos + y).min(1.0) * xz;
        (y * y * turned + cos * cos).sqrt() * (1.1 / 8.0) + CUBIC * all * all * all
    }

    #[inline]
    fn is_far(&self) -> bool {
        let [x, y, z] = self.angles;
        x.abs().max(y.abs()).max(z.abs()) > REWIND
    }

    /// Other angles of the same rotation.
    fn set(&mut self, angles: Angles) {
        self.angles = angles;
        self.second = cos_is_negative(angles[1]);
    }

    /// To the nearest angles of `half`. Whether it was a short step.
    #[inline]
    fn go(&mut self, half: Half) -> bool {
        let short = self.go_short(half);
        if !short {
            self.jump(half);
        }
        short
    }

    /// To the nearest angles of `half`, if that is a short step.
    #[inline]
    fn go_short(&mut self, half: Half) -> bool {
        if let Some([sum, y, difference]) = self.half.and_then(|before| before.short_step(&half)) {
            self.angles[0] += sum - difference;
            self.angles[1] += if self.second { -2.0 * y } else { 2.0 * y };
            self.angles[2] += sum + difference;
            self.half = Some(half);
            return true;
        }
        false
    }
}

/// Whether an angle lies in the half of the circle around 180 degrees.
fn cos_is_negative(a: f64) -> bool {
    (a - TAU * (a / TAU).round()).abs() > FRAC_PI_2
}

/// The source's path between two of its keys.
struct Interval {
    start: i64,
    end: i64,
    from: DQuat,
    to: DQuat,
    tolerance: f64,
    /// 1 / (end - start).
    per_tick: f64,
    /// 1 - cos w and sin w (1 - cos w) / 2, see [`Interval::uneven_motion`].
    bend: [f64; 2],
}

impl Interval {
    fn new([start, end]: [i64; 2], [from, to]: [DQuat; 2], tolerance: f64) -> Self {
        let cos = from.dot(to).min(1.0);
        let sin = (1.0 - cos * cos).max(0.0).sqrt();
        let (per_tick, bend) = (1.0 / (end - start) as f64, [1.0 - cos, 0.5 * sin * (1.0 - cos)]);
        Interval { start, end, from, to, tolerance, per_tick, bend }
    }

    /// The source's rotation at `tick`; its length is not 1.
    #[inline]
    fn at(&self, tick: i64) -> DQuat {
        let t = (tick - self.start) as f64 * self.per_tick;
        if tick >= self.end { self.to } else { self.from + (self.to - self.from) * t }
    }

    /// Ticks in which the rotation turns by no more than about [`SHORT_STEP`].
    fn short_step(&self) -> i64 {
        // The chord between two quaternions is half the angle, a little less where it is wide; the line between them is
        // fastest in its middle, up to twice as fast as the arc at 120 degrees.
        let chord = (self.to - self.from).length();
        let parts = (chord * 2.0 * 2.0 / SHORT_STEP).ceil().max(1.0);
        ((self.end - self.start) as f64 / parts) as i64
    }

    /// How far the source may be from even motion along an arc, within a step of `step` ticks from `at`: radians.
    ///
    /// With `w` the arc between the quaternions the line stands at `atan2(f sin w, 1 - f + f cos w)`, of which the second
    /// derivative is `2 sin w (1 - cos w) (1 - 2f) / d^4`, where `d` is the length of the line's quaternion; a rotation
    /// turns by twice that. An eighth of it, times the square of the step, is what it may be off.
    fn uneven_motion(&self, at: i64, step: i64) -> f64 {
        let h = step as f64 * self.per_tick;
        let first = (at - self.start) as f64 * self.per_tick;
        let last = first + h;
        let [bend, twice] = self.bend;
        // The shortest is the nearest to the middle.
        let nearest = first.max(0.5).min(last);
        let squared = 1.0 - 2.0 * nearest * (1.0 - nearest) * bend;
        let uneven = (1.0 - 2.0 * first).abs().max((1.0 - 2.0 * last).abs());
        twice * uneven * h * h / (squared * squared)
    }

    /// The longest step from `at`, of `step` ticks at most, whose gap is good by comparison of the two paths.
    fn careful_step(&self, at: i64, mut step: i64, angles: Angles, shortest: i64) -> i64 {
        loop {
            let next = Half::new(self.at(at + step)).nearest(angles);
            let parts = self.parts(at, at + step, angles, next);
            if parts <= 1 || step <= shortest {
                return step;
            }
            step = (step / parts).max(shortest);
        }
    }

    /// Into how many parts the path of the angles between two ticks must be split: 1 where it is good.
    fn parts(&self, start: i64, end: i64, from: Angles, to: Angles) -> i64 {
        let step = [0, 1, 2].map(|i| to[i] - from[i]);
        if step.iter().any(|s| s.abs() > STEP_LIMIT) {
            return 2;
        }
        let gap = |part: f64| {
            let tick = start + ((end - start) as f64 * part) as i64;
            // The tick may lie beside by less than one: take the angles where it is.
            let part = (tick - start) as f64 / (end - start) as f64;
            let q = quaternion([0, 1, 2].map(|i| from[i] + step[i] * part));
            let between = (q.conjugate() * self.at(tick)).normalize();
            2.0 * (between.x * between.x + between.y * between.y + between.z * between.z).sqrt()
        };
        let worst = gap(0.25).max(gap(0.5)).max(gap(0.75));
        // The gap goes with the square of the length.
        ((worst / self.tolerance).sqrt().ceil() as i64).clamp(1, 16)
    }
}

/// The rotation of angles: qz qy qx.
fn quaternion(angles: Angles) -> DQuat {
    let [(sx, cx), (sy, cy), (sz, cz)] = angles.map(|a| libm::sincos(a * 0.5));
    DQuat::from_xyzw(
        sx * cy * cz - cx * sy * sz,
        cx * sy * cz + sx * cy * sz,
        cx * cy * sz - sx * sy * cz,
        cx * cy * cz + sx * sy * sz,
    )
}
