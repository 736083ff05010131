//! The rig of one output file: the chosen skeleton with every joint that the file's clips move, all named.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};

use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use crate::error::Result;
use crate::model::first_pose::first_poses;
use crate::model::naming::{JointNames, MAX_NAME_BYTES, UniqueNames, fallback_name};
use crate::model::{Clip, Joint, JointId, Property, Skeleton, Track, Trs};

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
    build_with(skeleton, clips, names, moved, moves_root, MAX_NAME_BYTES)
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

/// A rig.
#[derive(Debug, Clone)]
pub struct Rig {
    /// The joints.
    pub skeleton: Arc<Skeleton>,
    /// Whether other files of the run can have this very skeleton, so that a writer may keep what it makes of it
    /// ([`Scene::shared_rig`](crate::formats::scene::Scene::shared_rig)).
    pub is_shared: bool,
}

/// The rigs that a run has built: the clips of a game stand on few.
#[derive(Debug)]
pub struct Rigs {
    built: Mutex<FxHashMap<(u64, bool), Rig>>,
    max_name_bytes: usize,
}

impl Default for Rigs {
    fn default() -> Self {
        Rigs::new(MAX_NAME_BYTES)
    }
}

impl Rigs {
    /// No rig yet; joints will have names of at most `max_name_bytes`.
    pub fn new(max_name_bytes: usize) -> Self {
        Rigs { built: Mutex::default(), max_name_bytes }
    }

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
        let (moved, moves_root) = missing(skeleton, clips);
        if !moved.is_empty() {
            let built = build_with(skeleton, clips, names, moved, moves_root, self.max_name_bytes)?;
            return Ok(Rig { skeleton: Arc::new(built), is_shared: false });
        }
        if let Ok(rigs) = self.built.lock()
            && let Some(rig) = rigs.get(&(hash, moves_root))
        {
            return Ok(rig.clone());
        }
        let built = build_with(skeleton, clips, names, moved, moves_root, self.max_name_bytes)?;
        let rig = Rig { skeleton: Arc::new(built), is_shared: true };
        if let Ok(mut rigs) = self.built.lock() {
            if rigs.len() >= MAX_RIGS {
                rigs.clear();
            }
            // Two threads may have built it at the same time: the first one's stays, so that files share it.
            return Ok(rigs.entry((hash, moves_root)).or_insert(rig).clone());
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
    max_name_bytes: usize,
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
    if wanted.iter().all(|name| name.len() <= max_name_bytes && seen.insert(&**name)) {
        joints.iter_mut().zip(wanted).for_each(|(joint, name)| joint.name = Some(name.into_owned()));
    } else {
        let mut unique = UniqueNames::within(max_name_bytes);
        joints.iter_mut().zip(wanted).for_each(|(joint, name)| joint.name = Some(unique.name(&name)));
    }
    Skeleton::new(skeleton.name.clone(), joints)
}
