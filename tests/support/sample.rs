//! The sample dictionary: a person that walks and one that waves, 2 s each, made from a few curves.
//!
//! All turns are about axes of the model (x right, y forward, z up), so that a bone turns as a watcher sees it,
//! whatever the directions of its own axes are. The walk stands on its feet: height and speed of the body come
//! from where the foot that bears it is, by forward kinematics.

use std::collections::BTreeMap;
use std::f64::consts::TAU;

use anim2gltf::games::rage::names as rage;
use anim2gltf::model::{JointId, Skeleton, Trs};
use glam::{DMat4, DQuat, DVec3};

use crate::ycd_writer::*;

/// 2 s at 30 frames a second.
const FRAMES: usize = 61;
/// Frames of one stride: left and right step.
const STRIDE: usize = 30;

/// A turn about a unit axis: sines by libm, so that every platform writes the same file.
fn turn(axis: DVec3, degrees: f64) -> DQuat {
    let half = degrees.to_radians() / 2.0;
    let (s, c) = (libm::sin(half), libm::cos(half));
    DQuat::from_xyzw(axis.x * s, axis.y * s, axis.z * s, c)
}

fn about_x(degrees: f64) -> DQuat {
    turn(DVec3::X, degrees)
}

fn about_y(degrees: f64) -> DQuat {
    turn(DVec3::Y, degrees)
}

fn about_z(degrees: f64) -> DQuat {
    turn(DVec3::Z, degrees)
}

fn sine(turns: f64) -> f64 {
    libm::sin(turns * TAU)
}

/// 1 at 0, falling off over `width` to both sides, the same at every whole `turns`.
fn bump(turns: f64, width: f64) -> f64 {
    let d = (turns - libm::round(turns)) / width;
    libm::exp(-d * d)
}

/// 0 before `from`, 1 after `to`, smooth between.
fn ramp(t: f64, from: f64, to: f64) -> f64 {
    let x = ((t - from) / (to - from)).clamp(0.0, 1.0);
    x * x * (3.0 - 2.0 * x)
}

/// The ped of the embedded table, with its rest pose in model space.
struct Body {
    skeleton: Skeleton,
    rest: Vec<DMat4>,
}

impl Body {
    fn new() -> Body {
        let skeleton = rage::ped_skeleton(&|_| false).expect("the table is sound");
        let local: Vec<Trs> = skeleton.joints().iter().map(|j| j.rest).collect();
        Body { rest: skeleton.model_matrices(&local), skeleton }
    }

    fn joint(&self, name: &str) -> usize {
        let bone = rage::ped_bone_by_name(name).expect("a bone of the table");
        self.skeleton.find(JointId::BoneTag(bone.tag)).expect("a joint of the ped")
    }

    /// The parent-local rotation that turns a bone by `turn` about axes of the model.
    fn local(&self, name: &str, turn: DQuat) -> DQuat {
        let joint = &self.skeleton.joints()[self.joint(name)];
        let parent = joint.parent.map_or(DQuat::IDENTITY, |p| DQuat::from_mat4(&self.rest[p]));
        (parent.inverse() * turn * parent * joint.rest.rotation.as_dquat()).normalize()
    }

    /// Model-space matrices of the pose.
    fn matrices(&self, pose: &Pose) -> Vec<DMat4> {
        let mut local: Vec<Trs> = self.skeleton.joints().iter().map(|j| j.rest).collect();
        for (name, turn) in &pose.0 {
            local[self.joint(name)].rotation = self.local(name, *turn).as_quat();
        }
        self.skeleton.model_matrices(&local)
    }

    /// Where heel and ball of both feet are in the pose. At rest they stand on the ground.
    fn soles(&self, pose: &Pose) -> Vec<DVec3> {
        let matrices = self.matrices(pose);
        let mut points = Vec::new();
        for side in ["L", "R"] {
            let foot = self.joint(&format!("SKEL_{side}_Foot"));
            let toe = self.rest[self.joint(&format!("SKEL_{side}_Toe0"))].w_axis.truncate();
            let ankle = self.rest[foot].w_axis.truncate();
            let moved = matrices[foot] * self.rest[foot].inverse();
            for at in
                [DVec3::new(ankle.x, ankle.y - 0.05, self.ground()), DVec3::new(toe.x, toe.y, self.ground())]
            {
                points.push(moved.transform_point3(at));
            }
        }
        points
    }

    /// 2 cm under the balls of the feet.
    fn ground(&self) -> f64 {
        self.rest[self.joint("SKEL_L_Toe0")].w_axis.z - 0.02
    }
}

/// Turns by bone.
#[derive(Default)]
struct Pose(BTreeMap<String, DQuat>);

impl Pose {
    fn turn(&mut self, name: impl Into<String>, by: DQuat) {
        self.0.insert(name.into(), by);
    }
}

/// The ped rests with raised forearms; here the arm hangs, swings forward by `swing` and bends by `bend` degrees.
fn hang_arm(pose: &mut Pose, side: &str, swing: f64, bend: f64) {
    let inwards = if side == "L" { -7.0 } else { 7.0 };
    pose.turn(format!("SKEL_{side}_UpperArm"), about_x(swing) * about_y(inwards));
    pose.turn(format!("SKEL_{side}_Forearm"), about_x(bend - 62.0));
}

/// `turns`: strides since the left heel came down.
fn walking(turns: f64) -> Pose {
    let mut pose = Pose::default();
    for (side, p) in [("L", turns), ("R", turns + 0.5)] {
        // Hip, knee and foot of a walking adult, degrees over a stride, from one heel strike to the next.
        let hip = 7.0 + 21.0 * libm::cos(TAU * (p + 0.04));
        let knee = 6.0 + 12.0 * bump(p - 0.14, 0.09) + 54.0 * bump(p - 0.73, 0.13);
        let foot = 20.0 * bump(p + 0.06, 0.12) - 42.0 * bump(p - 0.62, 0.12);
        pose.turn(format!("SKEL_{side}_Thigh"), about_x(hip));
        pose.turn(format!("SKEL_{side}_Calf"), about_x(-knee));
        pose.turn(format!("SKEL_{side}_Foot"), about_x(foot - (hip - knee)));
        // Arms swing against the legs.
        let swing = -18.0 * libm::cos(TAU * (p + 0.04));
        hang_arm(&mut pose, side, swing, 8.0 + 0.5 * swing);
    }
    let yaw = libm::cos(TAU * (turns + 0.04));
    pose.turn("SKEL_Pelvis", about_z(-4.0 * yaw));
    pose.turn("SKEL_Spine1", about_z(3.0 * yaw) * about_x(-2.0));
    pose.turn("SKEL_Spine3", about_z(3.0 * yaw));
    pose.turn("SKEL_Neck_1", about_z(-3.0 * yaw));
    pose.turn("SKEL_Head", about_z(-3.0 * yaw) * about_x(2.0 + sine(2.0 * turns)));
    pose
}

/// `t`: 0 to 1 of the clip. The left arm goes up, waves, comes down.
fn waving(t: f64) -> Pose {
    let mut pose = Pose::default();
    let up = ramp(t, 0.04, 0.3) * (1.0 - ramp(t, 0.74, 0.98));
    let wave = up * sine(4.0 * t);
    hang_arm(&mut pose, "L", 0.0, 6.0);
    hang_arm(&mut pose, "R", 0.0, 6.0);
    pose.turn("SKEL_L_UpperArm", about_y(-7.0 + up * 75.0));
    pose.turn(
        "SKEL_L_Forearm",
        about_y(22.0 * wave + 12.0 * up) * about_z(90.0 * up) * about_x(-56.0 * (1.0 - up)),
    );
    pose.turn("SKEL_L_Hand", about_y(10.0 * wave));
    pose
}

/// Rotations as the game's files have them: three components of 16 bits, the fourth left out; the three linear
/// where `linear`. Where no component keeps its sign over all keys, four raw ones.
fn packed(bone: u16, keys: &[DQuat], linear: bool) -> Track {
    let mut keys: Vec<[f64; 4]> = keys.iter().map(|q| q.to_array()).collect();
    for i in 1..keys.len() {
        let dot: f64 = (0..4).map(|c| keys[i - 1][c] * keys[i][c]).sum();
        if dot < 0.0 {
            keys[i] = keys[i].map(|c| -c);
        }
    }
    let least = |c: usize| keys.iter().map(|k| k[c].abs()).fold(f64::INFINITY, f64::min);
    let left_out = (0..4).max_by(|a, b| least(*a).total_cmp(&least(*b))).expect("four");
    if keys.iter().any(|k| k[left_out].signum() != keys[0][left_out].signum()) {
        let raw: Vec<[f32; 4]> = keys.iter().map(|k| k.map(|c| c as f32)).collect();
        return Track::rotations(bone, 1, &raw);
    }
    let sign = keys[0][left_out].signum();
    let mut channels: Vec<Channel> = (0..4)
        .filter(|c| *c != left_out)
        .map(|c| {
            let values: Vec<f64> = keys.iter().map(|k| sign * k[c]).collect();
            let low = values.iter().copied().fold(f64::INFINITY, f64::min);
            let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            if high - low < 1e-5 {
                return Channel::StaticFloat(low as f32);
            }
            let steps = if linear { 4095.0 } else { 65535.0 };
            let (quantum, offset) = (((high - low) / steps) as f32, low as f32);
            let n = values.iter().map(|v| ((v - low) / (high - low) * steps).round() as u32);
            match linear {
                true => Channel::Linear { n: n.map(|n| n as i32).collect(), quantum, offset },
                false => Channel::Quantised { n: n.collect(), quantum, offset },
            }
        })
        .collect();
    channels.push(Channel::Cached1(left_out as u8));
    if channels[..3].iter().all(|c| matches!(c, Channel::StaticFloat(_))) {
        let component = |c: usize| (sign * keys[0][c]) as f32;
        let [x, y, z, w] = [0, 1, 2, 3].map(component);
        let flip = if w < 0.0 { -1.0 } else { 1.0 };
        return Track::new(
            bone,
            1,
            Format::Quaternion,
            vec![Channel::StaticQuaternion([flip * x, flip * y, flip * z])],
        );
    }
    Track::new(bone, 1, Format::Quaternion, channels)
}

/// A rotation track for each bone that the poses turn, sorted by tag as in the game's files.
fn rotations(body: &Body, poses: &[Pose]) -> Vec<Track> {
    let mut tracks: Vec<Track> = poses[0]
        .0
        .keys()
        .map(|name| {
            let tag = rage::ped_bone_by_name(name).expect("a bone of the table").tag;
            let keys: Vec<DQuat> = poses.iter().map(|pose| body.local(name, pose.0[name])).collect();
            packed(tag, &keys, name.contains("Arm") || name.contains("arm"))
        })
        .collect();
    tracks.sort_by_key(|t| t.bone);
    tracks
}

/// The mean of each value and its neighbours around the circle.
fn smooth(values: &[f64]) -> Vec<f64> {
    let n = values.len();
    (0..n).map(|i| (values[(i + n - 1) % n] + 2.0 * values[i] + values[(i + 1) % n]) / 4.0).collect()
}

fn walk(body: &Body) -> Animation {
    let poses: Vec<Pose> = (0..FRAMES).map(|i| walking(i as f64 / STRIDE as f64)).collect();
    // One stride: how high the body stands on the foot that bears it, and how far that foot pushes it on.
    let soles: Vec<Vec<DVec3>> = poses[..=STRIDE].iter().map(|pose| body.soles(pose)).collect();
    let lowest = |i: usize| {
        // The left foot bears from its heel strike to the other's.
        let foot = if i < STRIDE / 2 { 0 } else { 2 };
        if soles[i][foot].z < soles[i][foot + 1].z { foot } else { foot + 1 }
    };
    let height: Vec<f64> = (0..STRIDE).map(|i| body.ground() - soles[i][lowest(i)].z).collect();
    let push: Vec<f64> = (0..STRIDE)
        .map(|i| {
            let point = lowest(i);
            soles[i][point].y - soles[i + 1][point].y
        })
        .collect();
    let (height, push) = (smooth(&height), smooth(&push));
    let mut forward = 0.0;
    let mut mover = Vec::new();
    let mut root = Vec::new();
    for i in 0..FRAMES {
        let sway = 0.015 * sine(i as f64 / STRIDE as f64 - 0.06);
        root.push([-sway as f32, 0.0, height[i % STRIDE] as f32]);
        mover.push([0.0, forward as f32, 0.0]);
        forward += push[i % STRIDE];
    }
    let mut tracks = vec![Track::vectors(0, 0, &root)];
    tracks.extend(rotations(body, &poses));
    tracks.push(Track::vectors(0, 5, &mover));
    tracks.push(Track::new(0, 6, Format::Quaternion, vec![Channel::StaticQuaternion([0.0; 3])]));
    Animation::new("sample_walk", FRAMES, tracks)
}

/// The sample dictionary.
pub fn sample() -> Dictionary {
    let body = Body::new();
    let walk = walk(&body);
    let poses: Vec<Pose> = (0..FRAMES).map(|i| waving(i as f64 / (FRAMES - 1) as f64)).collect();
    let wave = Animation::new("sample_wave", FRAMES, rotations(&body, &poses));
    // What moves slowly has ten keys a second, as in the game.
    let slowly = |t: f64| {
        let mut pose = Pose::default();
        let look = ramp(t, 0.05, 0.3) * (1.0 - ramp(t, 0.7, 0.95));
        pose.turn("SKEL_Spine2", about_x(1.5 * sine(t)));
        pose.turn("SKEL_Spine3", about_y(-4.0 * look));
        pose.turn("SKEL_Head", about_z(14.0 * look) * about_y(5.0 * look));
        pose
    };
    let poses: Vec<Pose> = (0..21).map(|i| slowly(f64::from(i) / 20.0)).collect();
    let mut slow = Animation::new("sample_wave_slow", 21, rotations(&body, &poses));
    slow.duration_s = wave.duration_s;

    let mut walks = Clip::whole("pack:/walk.clip", &walk);
    walks.tags = [(0.0, false), (0.25, true), (0.5, false), (0.75, true)]
        .map(|(phase, right)| Tag {
            property: Property::new("foot", &[("heel", Value::Bool(true)), ("right", Value::Bool(right))]),
            start_phase: phase,
            end_phase: phase,
        })
        .to_vec();
    let waves = Clip::new(
        "pack:/wave.clip",
        Plays::List(vec![Part::whole(&wave), Part::whole(&slow)], wave.duration_s),
    );
    Dictionary { clips: vec![walks, waves], animations: vec![walk, wave, slow], ..Default::default() }
}
