//! What clips move that is no joint: cameras and texture coordinates.

use std::collections::BTreeSet;

use crate::model::first_pose::first_pose;
use crate::model::naming::{UniqueNames, fallback_name};
use crate::model::{Clip, JointId, Property, Skeleton, Target, Track, Trs, Values};

/// A camera, or the texture coordinates of a material: what clips move that is no joint. It has no parent: its space is
/// that of the rig.
#[derive(Debug)]
pub struct NonJoint {
    /// [`JointId::Camera`] or [`JointId::Texture`].
    pub id: JointId,
    /// Name, unique among the joints and these.
    pub name: String,
    /// A camera's pose where no clip moves it: the first that a clip gives it.
    pub rest: Trs,
    /// The first vertical field of view that a clip gives a camera, degrees.
    pub fov_deg: f32,
    /// Texture coordinates: the first offset, turn (radians) and scale.
    pub uv: ([f32; 2], f32, [f32; 2]),
}

/// One animated property of a [`NonJoint`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NonJointChannel {
    /// Index into [`Scene::non_joints`](crate::formats::scene::Scene::non_joints).
    pub non_joint: usize,
    /// What of it.
    pub property: Property,
    /// The track, or `None`: keyed once, at what [`NonJoint`] says, because another clip of the file moves it.
    pub track: Option<usize>,
}

/// The field of view of a camera for which no clip has one, degrees: that of the game's own default camera.
const FOV_DEG: f32 = 50.0;

impl NonJoint {
    fn new(id: JointId, clips: &[Clip], names: &mut UniqueNames) -> Self {
        let first = |property: Property| {
            let is = |t: &&Track| t.target == Target { joint: id, property };
            clips.iter().flat_map(|c| &c.tracks).find(is).map(|t| &t.curve.values)
        };
        let scalar = |property, or: f32| match first(property) {
            Some(Values::Scalar(v)) => v.first().copied().unwrap_or(or),
            _ => or,
        };
        let vec2 = |property, or: [f32; 2]| match first(property) {
            Some(Values::Vec3(v)) => v.first().map_or(or, |v| [v.x, v.y]),
            _ => or,
        };
        NonJoint {
            id,
            name: names.name(&fallback_name(id)),
            rest: first_pose(id, clips),
            fov_deg: scalar(Property::FieldOfView, FOV_DEG),
            uv: (
                vec2(Property::UvOffset, [0.0; 2]),
                scalar(Property::UvRotation, 0.0),
                vec2(Property::UvScale, [1.0; 2]),
            ),
        }
    }

    /// Whether `track` holds at all times the value that a file without it has.
    fn is_constant_at_rest(&self, track: &Track) -> bool {
        let vec2 = |is: [f32; 2]| matches!(&track.curve.values, Values::Vec3(v) if v.iter().all(|v| [v.x, v.y] == is));
        let scalar = |is: f32| matches!(&track.curve.values, Values::Scalar(v) if v.iter().all(|v| *v == is));
        match track.target.property {
            Property::FieldOfView => scalar(self.fov_deg),
            Property::UvOffset => vec2(self.uv.0),
            Property::UvRotation => scalar(self.uv.1),
            Property::UvScale => vec2(self.uv.2),
            _ => false,
        }
    }
}

/// What clips move that is no joint, and for each clip its channels. Names are unique among these and the joints of
/// `rig`, and of at most `max_name_bytes`.
pub fn non_joints(
    rig: &Skeleton,
    clips: &[Clip],
    max_name_bytes: usize,
) -> (Vec<NonJoint>, Vec<Vec<NonJointChannel>>) {
    let mut channels = vec![Vec::new(); clips.len()];
    let ids: BTreeSet<JointId> =
        clips.iter().flat_map(|c| &c.tracks).map(|t| t.target.joint).filter(|id| !id.is_joint()).collect();
    if ids.is_empty() {
        return (Vec::new(), channels);
    }
    let mut names = UniqueNames::within(max_name_bytes);
    for name in rig.joints().iter().filter_map(|j| j.name.as_deref()) {
        names.name(name);
    }
    let all: Vec<NonJoint> = ids.into_iter().map(|id| NonJoint::new(id, clips, &mut names)).collect();
    const KEYED: [Property; 6] = [
        Property::Translation,
        Property::Rotation,
        Property::FieldOfView,
        Property::UvOffset,
        Property::UvRotation,
        Property::UvScale,
    ];
    for (index, non_joint) in all.iter().enumerate() {
        for property in KEYED {
            let find = |clip: &Clip| {
                let is = |t: &Track| t.target.joint == non_joint.id && t.target.property == property;
                clip.tracks.iter().position(|t| is(t) && !t.curve.values.is_empty())
            };
            let tracks: Vec<Option<usize>> = clips.iter().map(find).collect();
            let moves = |(clip, track): (&Clip, &Option<usize>)| {
                track.is_some_and(|track| !non_joint.is_constant_at_rest(&clip.tracks[track]))
            };
            if clips.iter().zip(&tracks).any(moves) {
                for (channels, track) in channels.iter_mut().zip(tracks) {
                    channels.push(NonJointChannel { non_joint: index, property, track });
                }
            }
        }
    }
    (all, channels)
}
