//! Evaluation of curves at instants of the clip, by the curve's own interpolation.
//!
//! Rotations go componentwise linearly and are normalised, along the shorter way (the games' rule as the project
//! takes it: docs/architecture.md, section 3); vectors and numbers go linearly; steps hold the earlier key. Before
//! the first and after the last key a curve holds. At a key the value is the key's, to the bit.

use glam::{DQuat, DVec3};

use crate::model::clip::{Curve, Interpolation, Values};
use crate::model::time::Timeline;

/// Normalised-linear rotation from `a` to `b`, along the shorter way. `f` 0 gives `a` and 1 gives `b`, untouched.
#[inline]
pub fn nlerp(a: DQuat, b: DQuat, f: f64) -> DQuat {
    let b = if a.dot(b) < 0.0 { -b } else { b };
    if f == 0.0 {
        a
    } else if f == 1.0 {
        b
    } else {
        // The shorter way keeps the length at or above sqrt(1/2): no division by nothing.
        (a * (1.0 - f) + b * f).normalize()
    }
}

/// Spherical-linear rotation from `a` to `b`, along the shorter way: how a glTF player goes between two keys.
#[inline]
pub fn slerp(a: DQuat, b: DQuat, f: f64) -> DQuat {
    let mut dot = a.dot(b);
    let b = if dot < 0.0 { -b } else { b };
    dot = dot.abs();
    if f == 0.0 {
        return a;
    }
    if f == 1.0 {
        return b;
    }
    // Below 1e-4 rad both ways are the same to 1e-13.
    if dot > 1.0 - 5e-9 {
        return (a * (1.0 - f) + b * f).normalize();
    }
    let angle = libm::acos(dot);
    let sin = libm::sqrt(1.0 - dot * dot);
    (a * (libm::sin((1.0 - f) * angle) / sin) + b * (libm::sin(f * angle) / sin)).normalize()
}

/// Two keys and how far between them: what [`Sampler::seek`] finds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Place {
    /// The earlier key.
    pub i: usize,
    /// The later key; equal to `i` where the curve holds.
    pub j: usize,
    /// The way from `i` to `j`, 0 to below 1.
    pub f: f64,
}

impl Curve {
    /// The rotation at `place`; the identity where the curve holds no rotations.
    #[inline]
    pub fn quat_at(&self, place: Place) -> DQuat {
        let Values::Quat(v) = &self.values else { return DQuat::IDENTITY };
        let Some(a) = v.get(place.i.min(v.len().saturating_sub(1))) else { return DQuat::IDENTITY };
        if place.f == 0.0 || self.interpolation == Interpolation::Step {
            return a.as_dquat();
        }
        let b = v.get(place.j).unwrap_or(a);
        nlerp(a.as_dquat(), b.as_dquat(), place.f)
    }

    /// The vector at `place`; zero where the curve holds no vectors.
    #[inline]
    pub fn vec3_at(&self, place: Place) -> DVec3 {
        let Values::Vec3(v) = &self.values else { return DVec3::ZERO };
        let Some(a) = v.get(place.i.min(v.len().saturating_sub(1))) else { return DVec3::ZERO };
        if place.f == 0.0 || self.interpolation == Interpolation::Step {
            return a.as_dvec3();
        }
        let b = v.get(place.j).unwrap_or(a);
        a.as_dvec3() * (1.0 - place.f) + b.as_dvec3() * place.f
    }

    /// The number at `place`; zero where the curve holds no numbers.
    #[inline]
    pub fn scalar_at(&self, place: Place) -> f64 {
        let Values::Scalar(v) = &self.values else { return 0.0 };
        let Some(a) = v.get(place.i.min(v.len().saturating_sub(1))) else { return 0.0 };
        if place.f == 0.0 || self.interpolation == Interpolation::Step {
            return f64::from(*a);
        }
        let b = v.get(place.j).unwrap_or(a);
        f64::from(*a) * (1.0 - place.f) + f64::from(*b) * place.f
    }
}

/// Reads a curve at one instant after the other. Rising instants cost a step of the cursor, others a search.
///
/// A curve without any value gives the identity or zero; one with fewer values than its timeline has keys is
/// read as if the timeline ended there. Nothing here panics.
#[derive(Debug, Clone)]
pub struct Sampler<'a> {
    timeline: &'a Timeline,
    curve: &'a Curve,
    /// Keys with a value; 0 or 1: constant.
    count: usize,
    /// The key at or before the last instant asked for.
    key: usize,
    /// Its instant and the next key's.
    span: (f64, f64),
}

impl<'a> Sampler<'a> {
    /// Starts before the first key.
    pub fn new(timeline: &'a Timeline, curve: &'a Curve) -> Self {
        let count = if curve.is_constant() { 1 } else { curve.values.len().min(timeline.len()) };
        let mut sampler = Sampler { timeline, curve, count, key: 0, span: (0.0, 0.0) };
        if count > 1 {
            sampler.stand(0);
        }
        sampler
    }

    fn stand(&mut self, key: usize) {
        self.key = key;
        self.span = (self.timeline.seconds(key), self.timeline.seconds(key + 1));
    }

    /// The keys around `clip_s` (seconds of the clip).
    pub fn seek(&mut self, clip_s: f64) -> Place {
        let hold = |i| Place { i, j: i, f: 0.0 };
        if self.count < 2 {
            return hold(0);
        }
        if clip_s < self.span.0 {
            // Back: the last key that is not later, by bisection below the cursor.
            let (mut low, mut high) = (0, self.key);
            while low < high {
                let mid = (low + high) / 2;
                if self.timeline.seconds(mid) <= clip_s {
                    low = mid + 1;
                } else {
                    high = mid;
                }
            }
            self.stand(low.saturating_sub(1));
            if clip_s < self.span.0 {
                return hold(0);
            }
        }
        while clip_s >= self.span.1 {
            if self.key + 2 >= self.count {
                return hold(self.count - 1);
            }
            let next = self.timeline.seconds(self.key + 2);
            self.key += 1;
            self.span = (self.span.1, next);
        }
        let (a, b) = self.span;
        if clip_s > a {
            Place { i: self.key, j: self.key + 1, f: (clip_s - a) / (b - a) }
        } else {
            hold(self.key)
        }
    }

    /// The rotation at `clip_s`.
    #[inline]
    pub fn quat(&mut self, clip_s: f64) -> DQuat {
        let place = self.seek(clip_s);
        self.curve.quat_at(place)
    }

    /// The vector at `clip_s`.
    #[inline]
    pub fn vec3(&mut self, clip_s: f64) -> DVec3 {
        let place = self.seek(clip_s);
        self.curve.vec3_at(place)
    }

    /// The number at `clip_s`.
    #[inline]
    pub fn scalar(&mut self, clip_s: f64) -> f64 {
        let place = self.seek(clip_s);
        self.curve.scalar_at(place)
    }
}

#[cfg(test)]
mod tests {
    use glam::{Quat, Vec3};

    use super::*;
    use crate::model::{Clock, Positions, Window};

    fn timeline(positions: &[u32]) -> Timeline {
        Timeline {
            clock: Clock::Frames30,
            positions: Positions::Whole(positions.to_vec()),
            window: Window::WHOLE,
        }
    }

    #[test]
    fn keys_are_given_to_the_bit_and_ends_hold() {
        let keys = vec![Quat::from_xyzw(0.1, 0.2, 0.3, 0.9), Quat::from_xyzw(0.0, 0.0, 0.0, -1.0)];
        let curve = Curve { interpolation: Interpolation::Nlerp, values: Values::Quat(keys.clone()) };
        let t = timeline(&[3, 6]);
        let mut s = Sampler::new(&t, &curve);
        assert_eq!(s.quat(-1.0).as_quat(), keys[0]);
        assert_eq!(s.quat(0.1).as_quat(), keys[0]);
        assert_eq!(s.quat(0.2).as_quat(), keys[1]);
        assert_eq!(s.quat(9.0).as_quat(), keys[1]);
        assert_eq!(s.quat(0.0).as_quat(), keys[0]);
    }

    #[test]
    fn between_keys_along_the_shorter_way() {
        // 0 and 90 degrees about z, the second key with the other sign: half way is 45 degrees for both rules.
        let (a, b) = (DQuat::IDENTITY, -DQuat::from_rotation_z(std::f64::consts::FRAC_PI_2));
        let want = DQuat::from_rotation_z(std::f64::consts::FRAC_PI_4);
        assert!(nlerp(a, b, 0.5).dot(want).abs() > 1.0 - 1e-15);
        assert!(slerp(a, b, 0.5).dot(want).abs() > 1.0 - 1e-15);
        // A third of the way: 30 degrees by slerp; by nlerp atan(f sin / (1 - f + f cos)) on the half angles.
        let angle = |q: DQuat| 2.0 * q.z.abs().atan2(q.w.abs()).to_degrees();
        assert!((angle(slerp(a, b, 1.0 / 3.0)) - 30.0).abs() < 1e-9);
        assert!((angle(nlerp(a, b, 1.0 / 3.0)) - 29.277_64).abs() < 1e-4);
    }

    #[test]
    fn cursor_agrees_with_the_search_in_any_order() {
        let t = timeline(&[0, 1, 4, 9, 10, 20]);
        let values = (0..6).map(|i| Vec3::new(i as f32, (i * i) as f32, 1.0)).collect();
        let curve = Curve { interpolation: Interpolation::Linear, values: Values::Vec3(values) };
        let mut s = Sampler::new(&t, &curve);
        for k in 0..500u32 {
            let at = f64::from(k.wrapping_mul(2_654_435_761) % 1000) / 1000.0 * 0.8 - 0.05;
            let (i, j, f) = t.locate(at);
            assert_eq!(s.vec3(at), curve.vec3_at(Place { i, j, f }), "at {at}");
        }
    }

    #[test]
    fn steps_hold_and_odd_curves_do_not_panic() {
        let t = timeline(&[0, 1, 2]);
        let step = Curve { interpolation: Interpolation::Step, values: Values::Scalar(vec![1.0, 2.0, 3.0]) };
        let mut s = Sampler::new(&t, &step);
        assert_eq!(s.scalar(0.9 / 30.0), 1.0);
        assert_eq!(s.scalar(1.0 / 30.0), 2.0);
        for values in [Values::Scalar(vec![]), Values::Vec3(vec![]), Values::Quat(vec![Quat::IDENTITY; 2])] {
            let curve = Curve { interpolation: Interpolation::Linear, values };
            let mut s = Sampler::new(&t, &curve);
            for at in [-1.0, 0.0, 0.04, 5.0, f64::NAN] {
                let _ = (s.quat(at), s.vec3(at), s.scalar(at));
            }
        }
    }
}
