//! Matrices of files as transforms.

use glam::{DMat4, DQuat, DVec3, Vec3};

use crate::model::Trs;

/// A matrix as scale, rotation and translation. Factors within `rounding` of one are one: a product of matrices
/// does not give it back exactly.
pub(super) fn decomposed(m: &DMat4, rounding: f64) -> Trs {
    let (scale, rotation, translation): (DVec3, DQuat, DVec3) = m.to_scale_rotation_translation();
    let snap = |v: f64| if (v - 1.0).abs() < rounding { 1.0 } else { v as f32 };
    Trs {
        translation: translation.as_vec3(),
        rotation: rotation.normalize().as_quat(),
        scale: Vec3::new(snap(scale.x), snap(scale.y), snap(scale.z)),
    }
}
