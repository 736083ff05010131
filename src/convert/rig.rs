//! The rig of one output file: the chosen skeleton with every joint that the file's clips move, all named.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use crate::error::Result;
use crate::model::{Clip, Joint, JointId, Property, Skeleton, Track, Trs, Values};

/// The longest name that Blender keeps whole, bytes (docs/formats/gltf-fbx.md, section 0, fact 5).
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
    let (moved, moves_root) = missing(skeleton, clips);
    build_with(skeleton, clips, names, moved, moves_root)
}

/// The joints that `clips` move and `skeleton` has not, rising; and whether they move its mover.
fn missing(skeleton: &Skeleton, clips: &[Clip]) -> (Vec<JointId>, bool) {
    let mut moved: Vec<JointId> = Vec::new();
    for clip in clips {
        let moves =
            |t: &&Track| t.target.joint.is_joint() && !matches!(t.target.property, Property::Other(_));
        moved.extend(clip.tracks.iter().filter(moves).map(|t| t.target.joint));
    }
    let moves_root = moved.contains(&JointId::RootMotion);
    moved.retain(|id| *id != JointId::RootMotion && skeleton.find(*id).is_none());
    moved.sort_unstable();
    moved.dedup();
    (moved, moves_root)
}

/// A rig, and where many files may have it a number that stands for it in this process: writers keep what they make of
/// such a one.
#[derive(Debug, Clone)]
pub struct Rig {
    /// The joints.
    pub skeleton: Arc<Skeleton>,
    /// The number.
    pub shared: Option<u64>,
}

/// Rigs that were built: the clips of a game stand on few.
#[derive(Debug, Default)]
pub struct Rigs(Mutex<FxHashMap<(u64, bool), Rig>>);

impl Rigs {
    /// [`build`], once for all clips that add no joint of their own to the skeleton. `hash` stands for what the skeleton
    /// holds; `names` are always the same.
    ///
    /// # Errors
    /// Those of [`build`].
    pub fn build(
        &self,
        skeleton: &Skeleton,
        hash: u64,
        clips: &[Clip],
        names: &dyn JointNames,
    ) -> Result<Rig> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let (moved, moves_root) = missing(skeleton, clips);
        if !moved.is_empty() {
            let built = build_with(skeleton, clips, names, moved, moves_root)?;
            return Ok(Rig { skeleton: Arc::new(built), shared: None });
        }
        if let Ok(rigs) = self.0.lock()
            && let Some(rig) = rigs.get(&(hash, moves_root))
        {
            return Ok(rig.clone());
        }
        let built = build_with(skeleton, clips, names, moved, moves_root)?;
        let rig = Rig { skeleton: Arc::new(built), shared: Some(NEXT.fetch_add(1, Ordering::Relaxed)) };
        if let Ok(mut rigs) = self.0.lock() {
            if rigs.len() >= MAX_RIGS {
                rigs.clear();
            }
            rigs.insert((hash, moves_root), rig.clone());
        }
        Ok(rig)
    }
}

/// Rigs that are kept, at most.
const MAX_RIGS: usize = 1024;

fn build_with(
    skeleton: &Skeleton,
    clips: &[Clip],
    names: &dyn JointNames,
    moved: Vec<JointId>,
    moves_root: bool,
) -> Result<Skeleton> {
    let mut joints: Vec<Joint> = Vec::with_capacity(skeleton.joints().len() + 1);
    let roots = skeleton.joints().iter().filter(|j| j.parent.is_none()).count();
    let has_mover = skeleton.find(JointId::RootMotion).is_some();
    let mut shift = 0;
    if !has_mover && (roots != 1 || moves_root) {
        joints.push(Joint { id: JointId::RootMotion, name: None, parent: None, rest: Trs::IDENTITY });
        shift = 1;
    }
    joints.extend(skeleton.joints().iter().map(|joint| Joint {
        id: joint.id,
        // Given below.
        name: None,
        parent: joint.parent.map(|p| p + shift).or((shift == 1).then_some(0)),
        rest: joint.rest,
    }));
    // New joints hang from the skeleton's own root, or from the mover where there are several or none.
    let root = if shift == 1 && roots == 1 { 1 } else { 0 };
    let poses = first_poses(&moved, clips);
    joints.extend(moved.into_iter().zip(poses).map(|(id, rest)| Joint {
        id,
        name: None,
        parent: Some(root),
        rest,
    }));
    let given = skeleton.joints();
    let wanted: Vec<Cow<'_, str>> = (0..joints.len())
        .map(|i| {
            let given = i.checked_sub(shift).and_then(|i| given.get(i)?.name.as_deref());
            match given.or_else(|| names.joint_name(joints[i].id)) {
                Some(name) => Cow::Borrowed(name),
                None => Cow::Owned(fallback_name(joints[i].id)),
            }
        })
        .collect();
    let mut seen = FxHashSet::with_capacity_and_hasher(wanted.len(), FxBuildHasher);
    if wanted.iter().all(|name| name.len() <= MAX_NAME_BYTES && seen.insert(&**name)) {
        joints.iter_mut().zip(wanted).for_each(|(joint, name)| joint.name = Some(name.into_owned()));
    } else {
        let mut unique = UniqueNames::default();
        joints.iter_mut().zip(wanted).for_each(|(joint, name)| joint.name = Some(unique.name(&name)));
    }
    Skeleton::new(skeleton.name.clone(), joints)
}

/// The pose that the first keys of the clips give a joint.
pub fn first_pose(id: JointId, clips: &[Clip]) -> Trs {
    first_poses(&[id], clips).first().copied().unwrap_or_default()
}

/// [`first_pose`] of all `ids`, which rise.
fn first_poses(ids: &[JointId], clips: &[Clip]) -> Vec<Trs> {
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
