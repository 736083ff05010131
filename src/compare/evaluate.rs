//! Poses at instants, by the file's own interpolation, in f64.
//!
//! glTF: rotations LINEAR go along the great arc, the shorter way; CUBICSPLINE by the Hermite form of the
//! specification, normalised. FBX: each of three numbers for itself, then the angles make a rotation. Before the
//! first and after the last key a curve holds. What no channel moves stands at rest.

use glam::{DAffine3, DQuat, DVec3};

use crate::games::own::scene::{
    Animation, Axis, AxisMode, Curve, ImportedScene, Keys, Mode, Path, Transform,
};
use crate::model::sample::slerp;

/// A pose of all joints.
#[derive(Debug, Clone, Default)]
pub struct Pose {
    /// Parent-local.
    pub local: Vec<Transform>,
    /// In model space.
    pub model: Vec<DAffine3>,
}

/// The pose of `animation` at `seconds`, into `out`.
pub fn pose(scene: &ImportedScene, animation: &Animation, seconds: f64, out: &mut Pose) {
    out.local.clear();
    out.local.extend(scene.joints.iter().map(|j| j.rest));
    for channel in &animation.channels {
        let local = &mut out.local[channel.joint];
        match channel.path {
            Path::Translation => local.translation = vector(&channel.curve, channel.path, seconds),
            Path::Scale => local.scale = vector(&channel.curve, channel.path, seconds),
            Path::Rotation => local.rotation = rotation(&channel.curve, seconds),
        }
    }
    model_space(scene.joints.iter().map(|j| j.parent), &out.local, &mut out.model);
}

/// Parent-local to model space; parents come before children.
pub fn model_space(
    parents: impl Iterator<Item = Option<usize>>,
    local: &[Transform],
    model: &mut Vec<DAffine3>,
) {
    model.clear();
    for (parent, local) in parents.zip(local) {
        let own = local.affine();
        let whole = match parent.and_then(|p| model.get(p)) {
            Some(above) => *above * own,
            None => own,
        };
        model.push(whole);
    }
}

/// A translation or scale at an instant.
pub fn vector(curve: &Curve, path: Path, seconds: f64) -> DVec3 {
    match curve {
        Curve::Keys(keys) => {
            let v = row(keys, seconds, |a, b, f| std::array::from_fn(|i| a[i] * (1.0 - f) + b[i] * f));
            DVec3::new(v[0], v[1], v[2])
        }
        Curve::Axes { axes, basis, .. } => {
            let v = DVec3::from_array(axes.each_ref().map(|a| axis(a, seconds)));
            if path == Path::Scale { basis.scale(v) } else { basis.translation(v) }
        }
    }
}

/// A rotation at an instant.
pub fn rotation(curve: &Curve, seconds: f64) -> DQuat {
    match curve {
        Curve::Keys(keys) => {
            let v =
                row(keys, seconds, |a, b, f| slerp(DQuat::from_array(a), DQuat::from_array(b), f).to_array());
            DQuat::from_array(v).normalize()
        }
        Curve::Axes { axes, angles, basis } => {
            let degrees = axes.each_ref().map(|a| axis(a, seconds));
            basis.rotation(angles.rotation(degrees)).normalize()
        }
    }
}

/// The key at or before `seconds`, and how far to the next: 0 where the curve holds.
fn place(times: &[f64], seconds: f64) -> (usize, f64) {
    let after = times.partition_point(|t| *t <= seconds);
    if after == 0 {
        return (0, 0.0);
    }
    let i = after - 1;
    match times.get(after) {
        Some(next) => (i, (seconds - times[i]) / (next - times[i])),
        None => (i, 0.0),
    }
}

fn row(keys: &Keys, seconds: f64, between: impl Fn([f64; 4], [f64; 4], f64) -> [f64; 4]) -> [f64; 4] {
    let (i, f) = place(&keys.times, seconds);
    match keys.mode {
        Mode::Cubic => {
            let at = |k: usize, part: usize| keys.rows.get(3 * k + part).copied().unwrap_or_default();
            if f == 0.0 {
                return at(i, 1);
            }
            let span = keys.times[i + 1] - keys.times[i];
            hermite(at(i, 1), at(i, 2), at(i + 1, 1), at(i + 1, 0), span, f)
        }
        Mode::Linear if f > 0.0 => match (keys.rows.get(i), keys.rows.get(i + 1)) {
            (Some(a), Some(b)) => between(*a, *b, f),
            _ => keys.rows.get(i).copied().unwrap_or_default(),
        },
        _ => keys.rows.get(i).copied().unwrap_or_default(),
    }
}

/// Values and slopes (a second) at both ends of an interval of `span` seconds.
fn hermite<const N: usize>(
    a: [f64; N],
    a_slope: [f64; N],
    b: [f64; N],
    b_slope: [f64; N],
    span: f64,
    f: f64,
) -> [f64; N] {
    let (f2, f3) = (f * f, f * f * f);
    let (ha, hb) = (2.0 * f3 - 3.0 * f2 + 1.0, 3.0 * f2 - 2.0 * f3);
    let (sa, sb) = ((f3 - 2.0 * f2 + f) * span, (f3 - f2) * span);
    std::array::from_fn(|i| ha * a[i] + sa * a_slope[i] + hb * b[i] + sb * b_slope[i])
}

/// One number of FBX at an instant.
pub fn axis(axis: &Axis, seconds: f64) -> f64 {
    let (i, f) = place(&axis.times, seconds);
    let Some(&a) = axis.values.get(i) else { return axis.default };
    let (Some(&b), true) = (axis.values.get(i + 1), f > 0.0) else { return a };
    match axis.modes.get(i) {
        Some(AxisMode::Plain(Mode::Step)) => a,
        Some(AxisMode::Plain(Mode::StepNext)) => b,
        Some(AxisMode::Cubic([right, left])) => {
            let span = axis.times[i + 1] - axis.times[i];
            hermite([a], [*right], [b], [*left], span, f)[0]
        }
        _ => a * (1.0 - f) + b * f,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_hold_at_the_ends_and_are_exact() {
        let keys = Keys { times: vec![1.0, 2.0], rows: vec![[1.0; 4], [3.0; 4]], mode: Mode::Linear };
        let at = |mode, t| vector(&Curve::Keys(Keys { mode, ..keys.clone() }), Path::Translation, t).x;
        assert_eq!([0.0, 1.0, 1.5, 2.0, 9.0].map(|t| at(Mode::Linear, t)), [1.0, 1.0, 2.0, 3.0, 3.0]);
        assert_eq!([1.0, 1.999, 2.0].map(|t| at(Mode::Step, t)), [1.0, 1.0, 3.0]);
    }

    #[test]
    fn a_cubic_spline_meets_its_keys_and_slopes() {
        // f(t) = t^3 on [1, 2]: slopes 3 and 12.
        let row = |v: f64| [v; 4];
        let rows = vec![row(0.0), row(1.0), row(3.0), row(12.0), row(8.0), row(0.0)];
        let curve = Curve::Keys(Keys { times: vec![1.0, 2.0], rows, mode: Mode::Cubic });
        for t in [1.0, 1.25, 1.5, 1.75, 2.0] {
            assert!((vector(&curve, Path::Translation, t).y - t * t * t).abs() < 1e-12);
        }
    }
}
