//! How far two poses are apart: the largest distance of points that are fixed to a joint, 10 cm from it.
//!
//! This is the error metric of ACL and ozz-animation (a shell of points around each joint, in model space), with
//! the farthest point of the whole sphere instead of two or three chosen ones.

use glam::{DAffine3, DMat3, DQuat, DVec3};

/// Where the points stand: 10 cm from the joint.
pub const RADIUS_M: f64 = 0.1;

/// The largest distance, mm, between where `a` and `b` take a point 10 cm from the joint; `None` where it is not
/// above `floor_mm` (which costs little to find out).
pub fn above_mm(a: &DAffine3, b: &DAffine3, floor_mm: f64) -> Option<f64> {
    let d = DMat3::from_cols(
        a.matrix3.x_axis - b.matrix3.x_axis,
        a.matrix3.y_axis - b.matrix3.y_axis,
        a.matrix3.z_axis - b.matrix3.z_axis,
    );
    let t = a.translation - b.translation;
    let floor = floor_mm * 1e-3;
    // No point goes farther than this. What is no number counts as far.
    let frobenius =
        (d.x_axis.length_squared() + d.y_axis.length_squared() + d.z_axis.length_squared()).sqrt();
    let bound = RADIUS_M * frobenius + t.length();
    if bound <= floor {
        return None;
    }
    if !bound.is_finite() {
        return Some(f64::INFINITY);
    }
    // The distance is a convex function of the point: from any start, going to the point that lies farthest
    // along the gradient never comes nearer.
    let (transposed, mut best) = (d.transpose(), 0.0f64);
    for start in [DVec3::X, DVec3::Y, DVec3::Z] {
        for sign in [1.0, -1.0] {
            let mut u = start * sign;
            for _ in 0..12 {
                let moved = d * u * RADIUS_M + t;
                best = best.max(moved.length());
                let gradient = transposed * moved;
                let length = gradient.length();
                if length <= f64::MIN_POSITIVE {
                    break;
                }
                u = gradient * (1.0 / length);
            }
            best = best.max((d * u * RADIUS_M + t).length());
        }
    }
    (best > floor).then_some(best * 1e3)
}

/// The angle of the rotation from `a` to `b`, degrees, 0 to 180.
pub fn angle_deg(a: DQuat, b: DQuat) -> f64 {
    let d = a.conjugate() * b;
    let sin = DVec3::new(d.x, d.y, d.z).length();
    let angle = (2.0 * libm::atan2(sin, d.w.abs())).to_degrees();
    if angle.is_nan() { 180.0 } else { angle }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_farthest_point_is_found() {
        // A turn by 0.1 degrees about a skew axis moves points on its equator by 2 r sin(angle / 2).
        let q = DQuat::from_axis_angle(DVec3::new(1.0, 1.0, 1.0).normalize(), 0.1f64.to_radians());
        let a = DAffine3::IDENTITY;
        let want = 2e2 * (0.05f64.to_radians()).sin();
        let found = above_mm(&a, &DAffine3::from_quat(q), 0.0).unwrap();
        assert!((found - want).abs() < 1e-6, "{found} {want}");
        assert!((angle_deg(DQuat::IDENTITY, q) - 0.1).abs() < 1e-12);
        assert!((angle_deg(DQuat::IDENTITY, -q) - 0.1).abs() < 1e-12);
        // A shift adds to scale along its direction.
        let b = DAffine3::from_scale_rotation_translation(
            DVec3::new(1.0, 1.0, 1.01),
            DQuat::IDENTITY,
            DVec3::new(0.0, 0.0, 0.002),
        );
        let found = above_mm(&a, &b, 0.0).unwrap();
        assert!((found - 3.0).abs() < 1e-9, "{found}");
        assert!(above_mm(&a, &b, 3.1).is_none());
        assert!(above_mm(&a, &a, 0.0).is_none());
    }
}
