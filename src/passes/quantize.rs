//! What 16-bit rotations would cost.

use crate::model::{Clip, Property, Skeleton, Values};
use crate::passes::measure::{ErrorReport, measure_same_rule};

/// The bound, in millimetres, past which a writer refuses 16-bit rotations where no `--reduce` bound is given. Each
/// rotation is off by up to 0.0035 degrees (docs/formats/gltf-fbx.md, section 0, fact 11), 0.06 mm per metre of reach;
/// down the chains of real dictionaries that adds up to 0.05 to 0.14 mm. Past half a millimetre something is far from
/// the body.
pub const QUANTIZE_MM: f64 = 0.5;

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
/// with [`QUANTIZE_MM`]; together with `--reduce` it is [`reduce_quantized`](crate::passes::reduce_quantized) that
/// decides.
pub fn quantize_cost(clip: &Clip, rig: &Skeleton) -> ErrorReport {
    let mut rounded = clip.clone();
    round_rotations(&mut rounded);
    measure_same_rule(clip, &rounded, rig)
}

/// Gives each rotation of a joint the value that a reader of the 16 bits sees. Not normalised again: readers differ,
/// and the difference is of second order.
pub fn round_rotations(clip: &mut Clip) {
    for track in clip.tracks.iter_mut().filter(|t| t.target.property == Property::Rotation) {
        if let Values::Quat(keys) = &mut track.curve.values {
            for key in keys {
                *key = glam::Quat::from_array(key.to_array().map(|c| dequantize_i16(quantize_i16(c))));
            }
        }
    }
}
