//! What one file holds, whatever its format: which track drives which joint, what is keyed at rest, what has
//! no joint. Both writers start from here, so that a GLB and an FBX of the same clips say the same.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::formats::non_joint::{NonJoint, NonJointChannel, non_joints};
use crate::model::naming::{MAX_NAME_BYTES, UniqueNames};
use crate::model::{Clip, JointId, Property, Skeleton};

/// Parent-local property of a joint that a file can animate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Path {
    /// Metres.
    Translation,
    /// Unit quaternion.
    Rotation,
    /// Factors.
    Scale,
}

/// One animated property of one joint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Channel {
    /// Index into the rig's joints.
    pub joint: usize,
    /// What of it.
    pub path: Path,
    /// The track (index into [`Clip::tracks`]), or `None`: keyed once, at the rest pose, because another clip
    /// of the file moves it (viewers keep the pose of the clip before otherwise).
    pub track: Option<usize>,
    /// Holds its last value in a key at the clip's end, because no other key stands there: a file has no field
    /// for the length of a clip but its last key.
    pub hold_to_end: bool,
}

/// One clip as a file holds it.
#[derive(Debug)]
pub struct Animation<'a> {
    /// The clip.
    pub clip: &'a Clip,
    /// Name, unique in the file and within the format's limit.
    pub name: String,
    /// What is keyed, by joint, then path. Never empty.
    pub channels: Vec<Channel>,
    /// What is keyed of cameras and texture coordinates, by these, then property. Fields of view and texture
    /// coordinates that hold the file's own value in all clips are not keyed.
    pub non_joint_channels: Vec<NonJointChannel>,
    /// Tracks (indices) that no channel stands for: their values go to the extras.
    pub extra_tracks: Vec<usize>,
}

/// All that a file holds.
#[derive(Debug)]
pub struct Scene<'a> {
    /// Every joint that the file holds, named, with one root.
    pub rig: &'a Skeleton,
    /// `rig` itself, where other files may have the very same: a writer may keep what it makes of it.
    pub shared_rig: Option<Arc<Skeleton>>,
    /// Cameras and texture coordinates that the clips move, by id.
    pub non_joints: Vec<NonJoint>,
    /// The clips, in the order given.
    pub animations: Vec<Animation<'a>>,
}

impl<'a> Scene<'a> {
    /// Arranges `clips` on `rig`, which must hold every joint that they move.
    ///
    /// Of two tracks of a clip for the same property of the same joint the first gets the channel and the second goes to the extras.
    pub fn new(rig: &'a Skeleton, clips: &'a [Clip]) -> Self {
        Self::within(rig, clips, MAX_NAME_BYTES)
    }

    /// [`Scene::new`] with names of at most `max_name_bytes`; those of the joints are the rig's own.
    pub fn within(rig: &'a Skeleton, clips: &'a [Clip], max_name_bytes: usize) -> Self {
        let mut moved: BTreeSet<(usize, Path)> = BTreeSet::new();
        let mut names = UniqueNames::within(max_name_bytes);
        let mut animations: Vec<Animation<'a>> = clips
            .iter()
            .map(|clip| {
                // Joint, path and track in one number each, to be sorted: of equal ones the first track stays.
                let mut keyed: Vec<u64> = Vec::with_capacity(clip.tracks.len());
                let mut extra_tracks = Vec::new();
                for (i, track) in clip.tracks.iter().enumerate() {
                    if !track.target.joint.is_joint() {
                        continue;
                    }
                    match (path(track.target.property), rig.find(track.target.joint)) {
                        (Some(path), Some(joint)) if !track.curve.values.is_empty() => {
                            keyed.push((joint as u64) << 34 | (path as u64) << 32 | i as u64);
                        }
                        _ => extra_tracks.push(i),
                    }
                }
                keyed.sort_unstable();
                let mut channels: Vec<Channel> = Vec::with_capacity(keyed.len());
                for key in keyed {
                    let (joint, track) = ((key >> 34) as usize, (key & 0xFFFF_FFFF) as usize);
                    let path = [Path::Translation, Path::Rotation, Path::Scale][(key >> 32 & 3) as usize];
                    if channels.last().is_some_and(|c| (c.joint, c.path) == (joint, path)) {
                        extra_tracks.push(track);
                    } else {
                        channels.push(Channel { joint, path, track: Some(track), hold_to_end: false });
                    }
                }
                extra_tracks.sort_unstable();
                if clips.len() > 1 {
                    moved.extend(channels.iter().map(|c| (c.joint, c.path)));
                }
                let name = names.name(&clip.short_name);
                Animation { clip, name, channels, non_joint_channels: Vec::new(), extra_tracks }
            })
            .collect();
        let several = animations.len() > 1;
        for animation in &mut animations {
            if several {
                animation.key_the_rest(&moved);
            }
            animation.reach_the_end(root(rig));
        }
        let (non_joints, channels) = non_joints(rig, clips, max_name_bytes);
        for (animation, channels) in animations.iter_mut().zip(channels) {
            animation.non_joint_channels = channels;
        }
        Scene { rig, shared_rig: None, non_joints, animations }
    }
}

impl Animation<'_> {
    fn key_the_rest(&mut self, moved: &BTreeSet<(usize, Path)>) {
        let own: BTreeSet<(usize, Path)> = self.channels.iter().map(|c| (c.joint, c.path)).collect();
        self.channels.extend(moved.difference(&own).map(|&(joint, path)| Channel {
            joint,
            path,
            track: None,
            hold_to_end: false,
        }));
        self.channels.sort_unstable_by_key(|c| (c.joint, c.path));
    }

    /// Makes sure that a key stands at the clip's end, and that there is a key at all.
    fn reach_the_end(&mut self, root: usize) {
        if self.channels.is_empty() {
            self.channels.push(Channel {
                joint: root,
                path: Path::Translation,
                track: None,
                hold_to_end: false,
            });
        }
        let length = self.clip.length_s as f32;
        let reached = self.channels.iter().filter_map(|c| c.track).any(|i| {
            let track = &self.clip.tracks[i];
            !track.curve.is_constant() && self.clip.timeline(track).last_s() as f32 >= length
        });
        if !reached && length > 0.0 {
            // A constant channel is the cheapest to hold; the root's would be looked at first.
            let i = self
                .channels
                .iter()
                .position(|c| c.track.is_none_or(|t| self.clip.tracks[t].curve.is_constant()))
                .unwrap_or(0);
            self.channels[i].hold_to_end = true;
        }
    }
}

/// What a file can animate of a joint, if the track's property is one of these.
pub fn path(property: Property) -> Option<Path> {
    match property {
        Property::Translation => Some(Path::Translation),
        Property::Rotation => Some(Path::Rotation),
        Property::Scale => Some(Path::Scale),
        Property::FieldOfView
        | Property::UvOffset
        | Property::UvRotation
        | Property::UvScale
        | Property::Other(_) => None,
    }
}

/// The skeleton's own root: the first joint that is no mover.
fn root(rig: &Skeleton) -> usize {
    rig.joints().iter().position(|j| j.id != JointId::RootMotion).unwrap_or(0)
}
