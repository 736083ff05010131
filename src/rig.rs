//! The rig of one output file: the chosen skeleton with every joint that the file's clips move, all named.

use std::collections::BTreeSet;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::error::Result;
use crate::model::{Clip, Joint, JointId, Property, Skeleton, Trs, Values};

/// The longest name that Blender keeps whole, bytes (notes, glTF 0.5).
pub const MAX_NAME_BYTES: usize = 63;

/// Resolves what a file calls a joint into a name.
pub trait JointNames {
    /// The name, where one is known.
    fn joint_name(&self, id: JointId) -> Option<&str>;
}

/// The name of a joint that no dictionary knows: `bone_XXXXXXXX`, `tag_NNNNN` or `root_motion`; of what is no joint:
/// `camera`, `camera_NNNNN`, `uv`, `uv_NNNNN` (tag 0 is not said).
pub fn fallback_name(id: JointId) -> String {
    match id {
        JointId::RootMotion => "root_motion".to_owned(),
        JointId::RageTag(tag) => format!("tag_{tag}"),
        JointId::Crc32(crc) => format!("bone_{crc:08X}"),
        JointId::Camera(0) => "camera".to_owned(),
        JointId::Camera(tag) => format!("camera_{tag}"),
        JointId::Texture(0) => "uv".to_owned(),
        JointId::Texture(tag) => format!("uv_{tag}"),
    }
}

/// Gives out names that are unique within [`MAX_NAME_BYTES`]: a later equal one gets `~2`, `~3` and so on.
#[derive(Debug, Default)]
pub struct UniqueNames {
    taken: FxHashSet<String>,
    next: FxHashMap<String, u32>,
}

impl UniqueNames {
    /// The name to use for `wanted`.
    pub fn name(&mut self, wanted: &str) -> String {
        let first = cut(wanted, MAX_NAME_BYTES);
        if self.taken.insert(first.to_owned()) {
            return first.to_owned();
        }
        let next = self.next.entry(first.to_owned()).or_insert(2);
        loop {
            let suffix = format!("~{next}");
            *next += 1;
            let name = format!("{}{suffix}", cut(wanted, MAX_NAME_BYTES - suffix.len()));
            if self.taken.insert(name.clone()) {
                return name;
            }
        }
    }
}

fn cut(text: &str, bytes: usize) -> &str {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Builds the rig: all joints of `skeleton`; above its root a `root_motion` joint where a clip moves one (or
/// where the skeleton has several roots: a skin needs a common one); below its root every joint that a clip
/// moves and the skeleton has not. Every joint of the result has a name, unique within the rig.
///
/// A joint that the skeleton does not hold rests at the first key that a clip (no additive one) gives it.
///
/// # Errors
/// None for a valid skeleton; the type is that of [`Skeleton::new`].
pub fn build(skeleton: &Skeleton, clips: &[Clip], names: &dyn JointNames) -> Result<Skeleton> {
    let mut moved = BTreeSet::new();
    for clip in clips {
        for track in &clip.tracks {
            if track.target.joint.is_joint() && !matches!(track.target.property, Property::Other(_)) {
                moved.insert(track.target.joint);
            }
        }
    }
    let mut joints: Vec<Joint> = Vec::with_capacity(skeleton.joints().len() + 1);
    let roots = skeleton.joints().iter().filter(|j| j.parent.is_none()).count();
    let has_mover = skeleton.find(JointId::RootMotion).is_some();
    let mut shift = 0;
    if !has_mover && (roots != 1 || moved.contains(&JointId::RootMotion)) {
        joints.push(Joint { id: JointId::RootMotion, name: None, parent: None, rest: Trs::IDENTITY });
        shift = 1;
    }
    joints.extend(skeleton.joints().iter().map(|joint| Joint {
        parent: joint.parent.map(|p| p + shift).or((shift == 1).then_some(0)),
        ..joint.clone()
    }));
    // New joints hang from the skeleton's own root, or from the mover where there are several or none.
    let root = if shift == 1 && roots == 1 { 1 } else { 0 };
    let known: FxHashSet<JointId> = joints.iter().map(|j| j.id).collect();
    for id in moved.into_iter().filter(|id| !known.contains(id)) {
        joints.push(Joint { id, name: None, parent: Some(root), rest: first_pose(id, clips) });
    }
    let mut unique = UniqueNames::default();
    for joint in &mut joints {
        let wanted = match (&joint.name, names.joint_name(joint.id)) {
            (Some(name), _) => unique.name(name),
            (None, Some(name)) => unique.name(name),
            (None, None) => unique.name(&fallback_name(joint.id)),
        };
        joint.name = Some(wanted);
    }
    Skeleton::new(skeleton.name.clone(), joints)
}

/// The pose that the first keys of the clips give a joint.
pub fn first_pose(id: JointId, clips: &[Clip]) -> Trs {
    let mut rest = Trs::IDENTITY;
    let (mut t, mut r, mut s) = (false, false, false);
    for track in clips.iter().filter(|c| !c.additive).flat_map(|c| &c.tracks).filter(|t| t.target.joint == id)
    {
        match (track.target.property, &track.curve.values) {
            (Property::Translation, Values::Vec3(v)) if !t && !v.is_empty() => {
                (rest.translation, t) = (v[0], true)
            }
            (Property::Rotation, Values::Quat(v)) if !r && !v.is_empty() => (rest.rotation, r) = (v[0], true),
            (Property::Scale, Values::Vec3(v)) if !s && !v.is_empty() => (rest.scale, s) = (v[0], true),
            _ => {}
        }
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_stay_apart_within_63_bytes() {
        let mut names = UniqueNames::default();
        let long = "ä".repeat(40);
        assert_eq!(names.name(&long).len(), 62);
        let second = names.name(&long);
        assert!(second.ends_with("~2") && second.len() <= MAX_NAME_BYTES);
        assert_eq!(names.name("a"), "a");
        assert_eq!(names.name("a~2"), "a~2");
        assert_eq!(names.name("a"), "a~3");
    }
}
