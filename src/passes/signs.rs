//! Neighbouring rotations in one hemisphere, and tracks that hold one value.

use glam::Quat;

use crate::model::{Clip, Property, Values};

/// Gives the neighbours of every rotation curve the same sign: no pair with a negative dot product is left. The
/// first key stays as it is. The last step on every rotation curve, so that players which go componentwise, or
/// slerp without a look at the sign, take the shorter arc.
pub fn align_signs(clip: &mut Clip) {
    for track in &mut clip.tracks {
        if let Values::Quat(keys) = &mut track.curve.values {
            align(keys);
        }
    }
}

/// [`align_signs`] on one curve.
pub(crate) fn align(keys: &mut [Quat]) {
    // Most curves are aligned. An f32 dot product of unit quaternions is right to a millionth.
    const SURELY: f32 = 1e-5;
    if keys.windows(2).fold(true, |aligned, pair| aligned & (pair[0].dot(pair[1]) > SURELY)) {
        return;
    }
    let Some((first, rest)) = keys.split_first_mut() else { return };
    let mut before = *first;
    let mut flip = false;
    for key in rest {
        // The dot product of the keys as they were: whether a key turns is the parity of the negative ones
        // before it. In f64, where the products are exact, so that two passes decide the same.
        let here = *key;
        flip ^= before.as_dquat().dot(here.as_dquat()) < 0.0;
        before = here;
        if flip {
            *key = -here;
        }
    }
}

/// Leaves one value to each joint track whose keys are all equal to the bit (-0.0 is not 0.0). Run after
/// [`align_signs`]. Tracks that move no joint keep all their keys: they are data, not motion.
pub fn collapse_constant(clip: &mut Clip) {
    for track in &mut clip.tracks {
        if matches!(track.target.property, Property::Other(_)) {
            continue;
        }
        match &mut track.curve.values {
            Values::Vec3(v) => collapse(v),
            Values::Quat(v) => collapse(v),
            Values::Scalar(v) => collapse(v),
            Values::Raw { width, bytes } => {
                if all_equal(bytes, (*width).max(1) as usize) {
                    bytes.truncate((*width).max(1) as usize);
                }
            }
        }
    }
}

fn collapse<T: bytemuck::NoUninit>(keys: &mut Vec<T>) {
    if all_equal(bytemuck::cast_slice(keys), size_of::<T>()) {
        keys.truncate(1);
        keys.shrink_to_fit();
    }
}

/// All groups of `width` bytes are equal where the bytes are equal to themselves moved by one group.
pub(crate) fn all_equal(bytes: &[u8], width: usize) -> bool {
    bytes.len() > width && bytes[width..] == bytes[..bytes.len() - width]
}
