//! What 16-bit rotations would cost.

use super::measure::{ErrorReport, measure_same_rule};
use crate::model::{Clip, Property, Skeleton, Values};

/// The bound, in millimetres, past which a writer refuses 16-bit rotations where no `--reduce` bound is given: what
/// the project holds its default output to at the keys is 0.01 mm, and a body whose every joint is off by the
/// largest rounding error (0.0035 degrees, notes, gltf-fbx 0.11) a tenth of a millimetre per metre of reach.
pub const QUANTIZE_MM: f64 = 1.0;

/// A component as glTF stores it in a normalised i16: nearest of -32767 to 32767 (ties away from 0).
#[inline]
pub fn quantize_i16(component: f32) -> i16 {
    (f64::from(component) * 32767.0).round().clamp(-32767.0, 32767.0) as i16
}

/// What a glTF reader makes of it.
#[inline]
pub fn dequantize_i16(value: i16) -> f32 {
    (f64::from(value) / 32767.0).max(-1.0) as f32
}

/// What 16-bit rotations cost a clip as it stands: the largest displacement (mm, 10 cm from a joint, in model space)
/// and turn (degrees), at keys and between them, both versions played by glTF's rule. A writer compares `max_mm`
/// with its bound: that of `--reduce` where one is given, else [`QUANTIZE_MM`].
pub fn quantize_cost(clip: &Clip, rig: &Skeleton) -> ErrorReport {
    let mut rounded = clip.clone();
    for track in rounded.tracks.iter_mut().filter(|t| t.target.property == Property::Rotation) {
        if let Values::Quat(keys) = &mut track.curve.values {
            for key in keys {
                // Not normalised again: readers differ, and the difference is of second order.
                *key = glam::Quat::from_array(key.to_array().map(|c| dequantize_i16(quantize_i16(c))));
            }
        }
    }
    measure_same_rule(clip, &rounded, rig)
}
