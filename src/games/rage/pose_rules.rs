//! Passes that do to a pose what GTA V's own code does, or is thought to do.

use glam::{DQuat, DVec3, Quat};

use crate::model::{
    Clip, Curve, Interpolation, JointId, OtherTrack, Property, Skeleton, Target, Track, Values,
};

/// A roll bone and the thigh whose rotation it copies (docs/formats/rage.md, section 7): `RB_L_ThighRoll` and
/// `SKEL_L_Thigh`, `RB_R_ThighRoll` and `SKEL_R_Thigh`. Both stand below the pelvis with the same rest rotation.
const THIGH_ROLLS: [(u16, u16); 2] = [(23639, 58271), (6442, 51826)];

/// Metres of movement in a unit of facial control (track 24), along the bone's y: a guess of CodeWalker's.
const FACIAL_CONTROL_M: f64 = 0.005;
/// Radians in a unit of facial translation (track 25), which is taken for angles: a guess of CodeWalker's.
const FACIAL_ANGLE_RAD: f64 = -0.314159265;

/// Lets the thigh-roll bones of `skeleton` follow their thighs where they have no rotation of their own. Returns the
/// tags of the bones that got a track.
pub fn follow_thighs(clip: &mut Clip, skeleton: &Skeleton) -> Vec<u16> {
    let rotation = |tag: u16| Target { joint: JointId::BoneTag(tag), property: Property::Rotation };
    let mut done = Vec::new();
    for (roll, thigh) in THIGH_ROLLS {
        let known = skeleton.find(JointId::BoneTag(roll)).is_some();
        if !known || clip.tracks.iter().any(|t| t.target == rotation(roll)) {
            continue;
        }
        if let Some(track) = clip.tracks.iter().find(|t| t.target == rotation(thigh)) {
            let track = Track { target: rotation(roll), ..track.clone() };
            clip.tracks.push(track);
            done.push(roll);
        }
    }
    done
}

/// Applies the facial tracks 24, 25 and 26 to the joints of their tags, by what CodeWalker guesses of them
/// (docs/formats/rage.md, section 7): 24 moves along the bone's y, 25 turns by angles about its z, y and x, 26 turns
/// by the quaternion; each on top of the rest pose of `skeleton`. Joints that the clip moves already are left alone.
/// The tracks themselves stay. Returns how many joints were given a track; a report must call them guesses.
pub fn apply_facial_guesses(clip: &mut Clip, skeleton: &Skeleton) -> usize {
    let mut added: Vec<Track> = Vec::new();
    for track in &clip.tracks {
        let Property::Other(OtherTrack { number, .. }) = track.target.property else { continue };
        let Some(joint) = skeleton.find(track.target.joint) else { continue };
        let rest = &skeleton.joints()[joint].rest;
        let (at, turn) = (rest.translation.as_dvec3(), rest.rotation.as_dquat());
        let rotated = |q: DQuat| (turn * q).normalize().as_quat();
        let (property, values) = match (number, &track.curve.values) {
            (24, Values::Scalar(v)) => (
                Property::Translation,
                Values::Vec3(
                    v.iter()
                        .map(|v| at + turn * DVec3::new(0.0, f64::from(*v) * FACIAL_CONTROL_M, 0.0))
                        .map(|t| t.as_vec3())
                        .collect(),
                ),
            ),
            (25, Values::Vec3(v)) => (
                Property::Rotation,
                Values::Quat(
                    v.iter().map(|v| rotated(yaw_pitch_roll(v.as_dvec3() * FACIAL_ANGLE_RAD))).collect(),
                ),
            ),
            (26, Values::Quat(q)) => {
                (Property::Rotation, Values::Quat(q.iter().map(|q: &Quat| rotated(q.as_dquat())).collect()))
            }
            _ => continue,
        };
        let target = Target { joint: track.target.joint, property };
        if clip.tracks.iter().chain(&added).any(|t| t.target == target) {
            continue;
        }
        let interpolation = match values {
            Values::Quat(_) => Interpolation::Nlerp,
            _ => Interpolation::Linear,
        };
        added.push(Track { target, timeline: track.timeline, curve: Curve { interpolation, values } });
    }
    let count = added.len();
    clip.tracks.extend(added);
    count
}

/// The turn by x about Z, then y about X, then z about Y, radians: yaw z, pitch y, roll x in the convention of
/// the renderer that the guess is made with.
fn yaw_pitch_roll(angles: DVec3) -> DQuat {
    let half = |angle: f64| libm::sincos(angle * 0.5);
    let ((sin_yaw, cos_yaw), (sin_pitch, cos_pitch), (sin_roll, cos_roll)) =
        (half(angles.z), half(angles.y), half(angles.x));
    DQuat::from_xyzw(0.0, sin_yaw, 0.0, cos_yaw)
        * DQuat::from_xyzw(sin_pitch, 0.0, 0.0, cos_pitch)
        * DQuat::from_xyzw(0.0, 0.0, sin_roll, cos_roll)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::model::{ClipId, Clock, Joint, Positions, Timeline, Trs, Window};
    use glam::Vec3;

    fn clip(tracks: Vec<(u16, Property, Values)>) -> Clip {
        let track = |(tag, property, values)| Track {
            target: Target { joint: JointId::BoneTag(tag), property },
            timeline: 0,
            curve: Curve { interpolation: Interpolation::Linear, values },
        };
        Clip {
            id: ClipId { value: 1, min_digits: 8 },
            name: "c".into(),
            short_name: "c".into(),
            game: "GTAV",
            source: "c".into(),
            length_s: 1.0,
            additive: false,
            timelines: vec![Timeline {
                clock: Clock::Span { duration_s: 1.0, intervals: 1 },
                positions: Positions::Run { first: 0, count: 2 },
                window: Window::WHOLE,
            }],
            tracks: tracks.into_iter().map(track).collect(),
            events: Vec::new(),
            extras: serde_json::Map::new(),
            warnings: Vec::new(),
        }
    }

    #[test]
    fn rolls_follow_only_without_a_track_of_their_own() {
        let turn = Quat::from_xyzw(0.6, 0.0, 0.0, 0.8);
        let quats = |q| Values::Quat(vec![q]);
        let mut c = clip(vec![
            (58271, Property::Rotation, quats(turn)),
            (51826, Property::Rotation, quats(turn)),
            (6442, Property::Rotation, quats(Quat::IDENTITY)),
        ]);
        let joint = |tag| Joint { id: JointId::BoneTag(tag), name: None, parent: None, rest: Trs::IDENTITY };
        let skeleton = Skeleton::new("s", vec![joint(23639), joint(6442)]).unwrap();
        let other = Skeleton::new("s", vec![joint(58271)]).unwrap();
        assert!(follow_thighs(&mut c, &other).is_empty(), "a joint that hung from the root would be worse");
        assert_eq!(follow_thighs(&mut c, &skeleton), [23639]);
        assert_eq!(c.tracks.len(), 4);
        assert_eq!(c.tracks[3].target.joint, JointId::BoneTag(23639));
        assert_eq!(c.tracks[3].curve.values, quats(turn));
        assert!(follow_thighs(&mut c, &skeleton).is_empty());
        assert!(follow_thighs(&mut clip(Vec::new()), &skeleton).is_empty());
    }

    #[test]
    fn facial_guesses_stand_on_the_rest_pose() {
        let half = std::f32::consts::FRAC_1_SQRT_2;
        // 90 degrees about Z: the bone's y is the parent's -x.
        let rest = Trs {
            translation: Vec3::new(1.0, 2.0, 3.0),
            rotation: Quat::from_xyzw(0.0, 0.0, half, half),
            scale: Vec3::ONE,
        };
        let joint = |tag| Joint { id: JointId::BoneTag(tag), name: None, parent: None, rest };
        let skeleton = Skeleton::new("s", vec![joint(1), joint(2), joint(3)]).unwrap();
        let other = |number| Property::Other(OtherTrack { number, name: None });
        // A quarter turn, in the units of track 25.
        let quarter = (std::f64::consts::FRAC_PI_2 / FACIAL_ANGLE_RAD) as f32;
        let mut c = clip(vec![
            (1, other(24), Values::Scalar(vec![0.0, 2.0])),
            (1, other(25), Values::Vec3(vec![Vec3::new(quarter, 0.0, 0.0)])),
            (2, other(26), Values::Quat(vec![Quat::from_xyzw(1.0, 0.0, 0.0, 0.0)])),
            (3, other(26), Values::Quat(vec![Quat::IDENTITY])),
            (3, Property::Rotation, Values::Quat(vec![Quat::IDENTITY])),
            (9, other(26), Values::Quat(vec![Quat::IDENTITY])),
            (1, other(22), Values::Scalar(vec![1.0])),
        ]);
        assert_eq!(apply_facial_guesses(&mut c, &skeleton), 3);
        let Values::Vec3(v) = &c.tracks[7].curve.values else { panic!() };
        assert!(v[0] == Vec3::new(1.0, 2.0, 3.0) && v[1].distance(Vec3::new(0.99, 2.0, 3.0)) < 1e-6);
        let Values::Quat(q) = &c.tracks[8].curve.values else { panic!() };
        // Two quarter turns about Z.
        assert!(q[0].dot(Quat::from_xyzw(0.0, 0.0, 1.0, 0.0)).abs() > 0.999_999, "{q:?}");
        let Values::Quat(q) = &c.tracks[9].curve.values else { panic!() };
        assert!(q[0].dot(Quat::from_xyzw(half, half, 0.0, 0.0)).abs() > 0.999_999, "{q:?}");
    }
}
