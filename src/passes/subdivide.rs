//! Subdivision: keys between keys, so that a player that slerps stays on the path that the source takes.

use glam::DQuat;
use rustc_hash::FxHashMap;

use crate::model::sample::nlerp;
use crate::model::{Clip, Interpolation, Positions, Property, Timeline, Values};

/// How a target goes from one rotation key to the next, for [`subdivide_with`].
pub trait RotationPath {
    /// Pushes the fractions (rising, between 0 and 1) at which keys on the source's path keep the target near
    /// enough to the normalised-linear path from `a` to `b` (`a.dot(b)` is not negative). None: the two keys do.
    fn cuts(&mut self, a: DQuat, b: DQuat, fractions: &mut Vec<f64>);

    /// Whether two keys with this dot product, rounded to f32, surely need nothing between them.
    fn is_near(&self, _dot: f32) -> bool {
        false
    }
}

/// The path of a glTF player: spherical-linear.
///
/// Both paths lie on one great arc, so their gap has a closed form. With the arc `w` between the quaternions (half
/// the rotation's angle) nlerp stands at `atan2(f sin w, 1 - f + f cos w)` and slerp at `f w`; the gap is widest
/// where nlerp runs at slerp's speed. Over a whole interval it is 0.010° at 20°, 0.033° at 30°, 0.92° at 90°
/// (docs/formats/gltf-fbx.md, section 0, fact 7), so that 0.05° asks for keys only above 34°, and a dot product tells.
#[derive(Debug, Clone)]
pub struct Slerp {
    tolerance_rad: f64,
    /// Keys whose dot product is not below this need nothing between them.
    near_dot: f64,
    /// Keys whose dot product is not below these need one key in the middle; or two, at the thirds. The path is the
    /// same from both ends, so that no other two, and then no other three pieces do better.
    halves_dot: f64,
    thirds_dot: f64,
    /// The cuts of wider arcs, found once for each class of arcs that are all but equally wide.
    wide: FxHashMap<u64, Box<[f64]>>,
}

/// Classes of arcs by the leading bits of 1 - cos: 128 in each doubling, so that arcs of one differ by 0.4 % at most.
const CLASS_SHIFT: u32 = 45;

impl Slerp {
    /// Below this, in degrees, f32 components are what limits.
    pub const MIN_TOLERANCE_DEG: f64 = 1e-4;

    /// Holds the gap under `tolerance_deg` (at least [`Slerp::MIN_TOLERANCE_DEG`]), as an angle of rotation.
    pub fn new(tolerance_deg: f64) -> Self {
        let tolerance_rad = tolerance_deg.max(Self::MIN_TOLERANCE_DEG).to_radians();
        Slerp {
            tolerance_rad,
            near_dot: dot_within(tolerance_rad, |arc| arc.gap(0.0, 1.0)),
            halves_dot: dot_within(tolerance_rad, |arc| arc.widest_of(2)),
            thirds_dot: dot_within(tolerance_rad, |arc| arc.widest_of(3)),
            wide: FxHashMap::default(),
        }
    }

    /// The angle of rotation, in degrees, up to which two keys need nothing between them.
    pub fn threshold_deg(&self) -> f64 {
        2.0 * libm::acos(self.near_dot).to_degrees()
    }

    /// Whether two keys with this dot product may need keys between them.
    #[inline]
    pub(crate) fn is_far(&self, dot: f64) -> bool {
        dot.abs() < self.near_dot
    }
}

impl RotationPath for Slerp {
    fn cuts(&mut self, a: DQuat, b: DQuat, fractions: &mut Vec<f64>) {
        let dot = a.dot(b);
        if !self.is_far(dot) {
            return;
        }
        let cos = (dot.abs() / libm::sqrt(a.length_squared() * b.length_squared())).min(1.0);
        // Most intervals that need keys need one or two, and the dot product tells that too, but for the last digits.
        const SURE: f64 = 1e-6;
        if cos < self.near_dot - SURE && cos > self.halves_dot + SURE {
            fractions.push(0.5);
            return;
        }
        if cos < self.halves_dot - SURE && cos > self.thirds_dot + SURE {
            fractions.extend([1.0 / 3.0, 2.0 / 3.0]);
            return;
        }
        if Arc::new(libm::acos(cos)).gap(0.0, 1.0) <= self.tolerance_rad {
            return;
        }
        let class = (1.0 - cos).to_bits() >> CLASS_SHIFT;
        let tolerance_rad = self.tolerance_rad;
        let cuts = self.wide.entry(class).or_insert_with(|| {
            // The widest arc of the class: what holds for it holds for the narrower ones.
            let widest = (1.0 - f64::from_bits((class + 1) << CLASS_SHIFT)).max(0.0);
            cuts_of(Arc::new(libm::acos(widest)), tolerance_rad)
        });
        fractions.extend_from_slice(cuts);
    }

    #[inline]
    fn is_near(&self, dot: f32) -> bool {
        // Four products of unit components: rounding costs less than this.
        const ROUNDING: f64 = 1e-6;
        f64::from(dot.abs()) > self.near_dot + ROUNDING
    }
}

/// Where keys cut `arc` into the fewest pieces that stay within the tolerance. The gap of a piece grows with the arc
/// (the bend of `at` does, up to two thirds of a half turn), so that the cuts hold for every narrower arc too.
fn cuts_of(arc: Arc, tolerance_rad: f64) -> Box<[f64]> {
    // As far as it goes, piece by piece: how few pieces can do.
    let mut greedy = Vec::new();
    let mut from = 0.0;
    while arc.gap(from, 1.0) > tolerance_rad {
        let (mut low, mut high) = (from, 1.0);
        for _ in 0..HALVINGS {
            let mid = 0.5 * (low + high);
            if arc.gap(from, mid) <= tolerance_rad {
                low = mid;
            } else {
                high = mid;
            }
        }
        greedy.push(low);
        from = low;
    }
    // No fewer pieces can do. Equal ones where they do too: their positions are round, and other tracks may share them.
    let n = greedy.len() + 1;
    if arc.widest_of(n) <= tolerance_rad {
        return (1..n).map(|k| k as f64 / n as f64).collect();
    }
    greedy.into()
}

/// Halvings of an interval until the place of a key in it is known to the last digits.
const HALVINGS: usize = 40;

/// The smallest dot product of two keys for which `gap` is within the tolerance.
fn dot_within(tolerance_rad: f64, gap: impl Fn(Arc) -> f64) -> f64 {
    let quarter = std::f64::consts::FRAC_PI_2;
    let mut arc = quarter;
    if gap(Arc::new(quarter)) > tolerance_rad {
        // The gap grows about with the third power of the arc, which makes this converge fast.
        for _ in 0..40 {
            let factor = libm::cbrt(tolerance_rad / gap(Arc::new(arc)));
            arc *= factor;
            if (factor - 1.0).abs() < 1e-6 {
                break;
            }
        }
    }
    // Up to 90 degrees apart: never negative, and 0 exactly where everything is within.
    if arc >= quarter { 0.0 } else { libm::cos(arc) }
}

/// The arc between two quaternions, 0 to a quarter turn.
#[derive(Debug, Clone, Copy)]
struct Arc {
    sin: f64,
    cos: f64,
}

impl Arc {
    fn new(arc_rad: f64) -> Self {
        Arc { sin: libm::sin(arc_rad), cos: libm::cos(arc_rad) }
    }

    /// How far along the arc (radians) the normalised-linear path is.
    fn at(self, f: f64) -> f64 {
        libm::atan2(f * self.sin, 1.0 - f + f * self.cos)
    }

    /// The widest gap of `n` equal pieces.
    fn widest_of(self, n: usize) -> f64 {
        let at = |k: usize| k as f64 / n as f64;
        (0..n).map(|k| self.gap(at(k), at(k + 1))).fold(0.0, f64::max)
    }

    /// Widest angle of rotation (radians) between the normalised-linear path over the arc and a slerp from its point
    /// at `f0` to its point at `f1`, at equal times.
    fn gap(self, f0: f64, f1: f64) -> f64 {
        let start = self.at(f0);
        let speed = (self.at(f1) - start) / (f1 - f0);
        if speed.is_nan() || speed <= 0.0 || self.cos >= 1.0 {
            return 0.0;
        }
        // The derivative of `at` is sin / (1 - 2 f (1 - f) (1 - cos)).
        let root = libm::sqrt((1.0 - 2.0 * (1.0 - self.sin / speed) / (1.0 - self.cos)).max(0.0));
        let mut widest = 0.0f64;
        for f in [0.5 - 0.5 * root, 0.5 + 0.5 * root] {
            if f > f0 && f < f1 {
                widest = widest.max((self.at(f) - start - speed * (f - f0)).abs());
            }
        }
        2.0 * widest
    }
}

/// Adds the keys that keep a slerping player within `tolerance_deg` (0.05 by default in the command) of the
/// source's normalised-linear path, just as many as it takes. All source keys stay, to the bit; steps, constant
/// tracks and tracks that move no joint are left alone. Run [`align_signs`](crate::passes::align_signs) after it.
pub fn subdivide(clip: &mut Clip, tolerance_deg: f64) {
    subdivide_with(clip, &mut Slerp::new(tolerance_deg));
}

/// [`subdivide`] for a target that goes between keys along `path`.
pub fn subdivide_with(clip: &mut Clip, path: &mut impl RotationPath) {
    for track in 0..clip.tracks.len() {
        subdivide_track(clip, track, path);
    }
}

/// Puts the keys that `path` asks for into one track.
pub(crate) fn subdivide_track(clip: &mut Clip, index: usize, path: &mut impl RotationPath) {
    let track = &clip.tracks[index];
    if track.target.property != Property::Rotation || track.curve.interpolation == Interpolation::Step {
        return;
    }
    let Values::Quat(keys) = &track.curve.values else { return };
    let timeline = clip.timeline(track);
    if keys.len() < 2 || keys.len() != timeline.len() {
        return;
    }
    let mut fractions = Vec::new();
    // (key before it, position, value) of each new key.
    let mut added = Vec::new();
    for i in 0..keys.len() - 1 {
        if path.is_near(keys[i].dot(keys[i + 1])) {
            continue;
        }
        let a = keys[i].as_dquat();
        let mut b = keys[i + 1].as_dquat();
        if a.dot(b) < 0.0 {
            b = -b;
        }
        path.cuts(a, b, &mut fractions);
        if fractions.is_empty() {
            continue;
        }
        let (start_s, end_s) = (timeline.seconds(i), timeline.seconds(i + 1));
        let mut before_s = start_s;
        for f in fractions.drain(..) {
            let position = timeline.position_at(start_s + (end_s - start_s) * f);
            let at_s = timeline.window.clip_seconds(timeline.clock.seconds(position));
            // Not where the clock cannot tell it from its neighbours (an edge of the window takes it in).
            if at_s > before_s && at_s < end_s {
                added.push((i, position, nlerp(a, b, (at_s - start_s) / (end_s - start_s)).as_quat()));
                before_s = at_s;
            }
        }
    }
    if added.is_empty() {
        return;
    }
    let mut positions = Vec::with_capacity(keys.len() + added.len());
    let mut values = Vec::with_capacity(keys.len() + added.len());
    let mut next = added.iter().peekable();
    for (i, key) in keys.iter().enumerate() {
        positions.push(timeline.positions.get(i));
        values.push(*key);
        while let Some((_, position, value)) = next.next_if(|(after, ..)| *after == i) {
            positions.push(*position);
            values.push(*value);
        }
    }
    let timeline = Timeline { positions: Positions::Fractional(positions), ..timeline.clone() };
    let timeline = clip.add_timeline(timeline);
    clip.tracks[index].timeline = timeline;
    clip.tracks[index].curve.values = Values::Quat(values);
}
