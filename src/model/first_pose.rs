//! The pose that clips begin with.

use crate::model::{Clip, JointId, Property, Trs, Values};

/// The pose that the first keys of the clips give a joint.
pub fn first_pose(id: JointId, clips: &[Clip]) -> Trs {
    first_poses(&[id], clips).first().copied().unwrap_or_default()
}

/// [`first_pose`] of all `ids`, which must rise.
pub fn first_poses(ids: &[JointId], clips: &[Clip]) -> Vec<Trs> {
    let mut poses = vec![(Trs::IDENTITY, [false; 3]); ids.len()];
    if ids.is_empty() {
        return Vec::new();
    }
    for track in clips.iter().filter(|c| !c.additive).flat_map(|c| &c.tracks) {
        let Ok(i) = ids.binary_search(&track.target.joint) else { continue };
        let (rest, [t, r, s]) = &mut poses[i];
        match (track.target.property, &track.curve.values) {
            (Property::Translation, Values::Vec3(v)) if !*t && !v.is_empty() => {
                (rest.translation, *t) = (v[0], true);
            }
            (Property::Rotation, Values::Quat(v)) if !*r && !v.is_empty() => {
                (rest.rotation, *r) = (v[0], true);
            }
            (Property::Scale, Values::Vec3(v)) if !*s && !v.is_empty() => {
                (rest.scale, *s) = (v[0], true);
            }
            _ => {}
        }
    }
    poses.into_iter().map(|(rest, _)| rest).collect()
}
