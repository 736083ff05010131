//! The FBX writer, read back by ufbx, Blender and assimp, against poses that this file works out itself.

use std::collections::HashSet;
use std::process::Command;

use anim2gltf::convert::rig;
use anim2gltf::formats::fbx::{Fbx, TICKS_PER_S};
use anim2gltf::formats::gltf::Glb;
use anim2gltf::formats::scene::Path as ScenePath;
use anim2gltf::formats::{Format, Scene, Workspace, WriteOptions};
use anim2gltf::model::naming::JointNames;
use anim2gltf::model::{
    Clip, ClipId, Clock, Curve, Event, Interpolation, Joint, JointId, OtherTrack, Positions, Property,
    Skeleton, Target, Timeline, Track, Trs, Values, Window,
};
use glam::{DMat4, DQuat, DVec3, EulerRot, Quat, Vec3};
use proptest::prelude::*;

// Building clips.

struct NoNames;

impl JointNames for NoNames {
    fn joint_name(&self, _: JointId) -> Option<&str> {
        None
    }
}

const PELVIS: JointId = JointId::BoneTag(0);
const SPINE: JointId = JointId::BoneTag(1);
const HEAD: JointId = JointId::BoneTag(2);
const ARM: [JointId; 2] = [JointId::BoneTag(10), JointId::BoneTag(20)];
const FOREARM: [JointId; 2] = [JointId::BoneTag(11), JointId::BoneTag(21)];
const HAND: [JointId; 2] = [JointId::BoneTag(12), JointId::BoneTag(22)];
const THIGH: [JointId; 2] = [JointId::BoneTag(30), JointId::BoneTag(40)];
const CALF: [JointId; 2] = [JointId::BoneTag(31), JointId::BoneTag(41)];
const FOOT: [JointId; 2] = [JointId::BoneTag(32), JointId::BoneTag(42)];

/// A body of 16 joints in metres, Z up, whose rest is turned in many ways.
fn body() -> Skeleton {
    let mut joints: Vec<Joint> = Vec::new();
    let mut add = |id, parent: Option<usize>, name: &str, t: [f32; 3], euler_deg: [f32; 3]| {
        let [x, y, z] = euler_deg.map(f32::to_radians);
        let rotation = Quat::from_euler(EulerRot::ZYX, z, y, x);
        joints.push(Joint {
            id,
            name: Some(name.to_owned()),
            parent,
            rest: Trs { translation: Vec3::from(t), rotation, scale: Vec3::ONE },
        });
        joints.len() - 1
    };
    let pelvis = add(PELVIS, None, "Pelvis", [0.0, 0.02, 0.95], [0.0, -90.0, 90.0]);
    let spine = add(SPINE, Some(pelvis), "Spine", [0.2, 0.0, 0.01], [3.0, -8.0, 5.0]);
    add(HEAD, Some(spine), "Head", [0.45, 0.01, 0.0], [-4.0, 20.0, 2.0]);
    for (side, name) in ["Left", "Right"].into_iter().enumerate() {
        let sign = [1.0, -1.0][side];
        let arm =
            add(ARM[side], Some(spine), &format!("{name}Arm"), [0.35, 0.0, 0.2 * sign], [170.0, 60.0, 35.0]);
        let forearm =
            add(FOREARM[side], Some(arm), &format!("{name}ForeArm"), [0.28, 0.0, 0.0], [0.0, 0.0, -20.0]);
        add(HAND[side], Some(forearm), &format!("{name}Hand"), [0.25, 0.0, 0.0], [90.0, 0.0, 0.0]);
        let thigh = add(
            THIGH[side],
            Some(pelvis),
            &format!("{name}Thigh"),
            [-0.05, 0.0, 0.1 * sign],
            [0.0, 180.0, 3.0],
        );
        let calf = add(CALF[side], Some(thigh), &format!("{name}Calf"), [0.42, 0.0, 0.0], [0.0, 0.0, -5.0]);
        add(FOOT[side], Some(calf), &format!("{name}Foot"), [0.4, 0.0, 0.0], [0.0, 90.0, 0.0]);
    }
    Skeleton::new("body", joints).unwrap()
}

fn empty_clip(name: &str, length_s: f64) -> Clip {
    Clip {
        id: ClipId { value: 0xABCD, min_digits: 8 },
        name: format!("folder/{name}"),
        short_name: name.to_owned(),
        game: "RR",
        source: format!("{name}.bin"),
        length_s,
        additive: false,
        timelines: Vec::new(),
        tracks: Vec::new(),
        events: Vec::new(),
        extras: serde_json::Map::new(),
        warnings: Vec::new(),
    }
}

fn ticks60(positions: Vec<u32>) -> Timeline {
    Timeline { clock: Clock::Ticks60, positions: Positions::Whole(positions), window: Window::WHOLE }
}

fn add_track(
    clip: &mut Clip,
    joint: JointId,
    property: Property,
    timeline: Timeline,
    interpolation: Interpolation,
    values: Values,
) {
    let timeline = clip.add_timeline(timeline);
    let target = Target { joint, property };
    clip.tracks.push(Track { target, timeline, curve: Curve { interpolation, values } });
}

fn add_rotation(clip: &mut Clip, joint: JointId, timeline: Timeline, values: Vec<Quat>) {
    add_track(clip, joint, Property::Rotation, timeline, Interpolation::Nlerp, Values::Quat(values));
}

/// Swings of every joint about skew axes, with the root going forward: one key each `step` ticks.
fn walk(name: &str, body: &Skeleton, keys: u32, step: u32, swing_deg: f32) -> Clip {
    let mut clip = empty_clip(name, f64::from((keys - 1) * step) / 60.0);
    let positions: Vec<u32> = (0..keys).map(|i| i * step).collect();
    let phase = |i: u32| (i * step) as f32 / 60.0 * std::f32::consts::TAU;
    let forward = (0..keys).map(|i| Vec3::new(0.0, -1.4 * (i * step) as f32 / 60.0, 0.01 * phase(i).sin()));
    add_track(
        &mut clip,
        JointId::RootMotion,
        Property::Translation,
        ticks60(positions.clone()),
        Interpolation::Linear,
        Values::Vec3(forward.collect()),
    );
    for (j, joint) in body.joints().iter().enumerate() {
        let axis = Vec3::new(1.0, 0.3 * j as f32 - 2.0, 0.7 - 0.11 * j as f32).normalize();
        let values = (0..keys)
            .map(|i| {
                let angle = (swing_deg * (phase(i) + j as f32).sin()).to_radians();
                (joint.rest.rotation * Quat::from_axis_angle(axis, angle)).normalize()
            })
            .collect();
        add_rotation(&mut clip, joint.id, ticks60(positions.clone()), values);
    }
    clip
}

// What the clip says, worked out here.

#[derive(Clone, Copy)]
struct Pose {
    t: DVec3,
    r: DQuat,
    s: DVec3,
}

fn local_poses(rig: &Skeleton, clip: &Clip, time: f64) -> Vec<Pose> {
    let mut out: Vec<Pose> = rig
        .joints()
        .iter()
        .map(|j| Pose {
            t: j.rest.translation.as_dvec3(),
            r: j.rest.rotation.as_dquat().normalize(),
            s: j.rest.scale.as_dvec3(),
        })
        .collect();
    for track in &clip.tracks {
        let Some(joint) = rig.find(track.target.joint) else { continue };
        let (i, j, mut f) = match track.curve.is_constant() {
            true => (0, 0, 0.0),
            false => clip.timeline(track).locate(time),
        };
        if track.curve.interpolation == Interpolation::Step {
            f = 0.0;
        }
        match (track.target.property, &track.curve.values) {
            (Property::Rotation, Values::Quat(q)) => {
                let (a, mut b) = (q[i].as_dquat(), q[j].as_dquat());
                if a.dot(b) < 0.0 {
                    b = -b;
                }
                out[joint].r = (a * (1.0 - f) + b * f).normalize();
            }
            (Property::Translation, Values::Vec3(v)) => {
                out[joint].t = v[i].as_dvec3().lerp(v[j].as_dvec3(), f);
            }
            (Property::Scale, Values::Vec3(v)) => out[joint].s = v[i].as_dvec3().lerp(v[j].as_dvec3(), f),
            _ => {}
        }
    }
    out
}

fn world(rig: &Skeleton, clip: &Clip, time: f64) -> Vec<DMat4> {
    let mut out: Vec<DMat4> = Vec::new();
    for (joint, p) in rig.joints().iter().zip(local_poses(rig, clip, time)) {
        let m = DMat4::from_scale_rotation_translation(p.s, p.r, p.t);
        out.push(joint.parent.map_or(m, |parent| out[parent] * m));
    }
    out
}

/// Points 10 cm from a joint, in its own space.
const SHELL: [DVec3; 3] = [DVec3::new(0.1, 0.0, 0.0), DVec3::new(0.0, 0.1, 0.0), DVec3::new(0.0, 0.0, 0.1)];

// What ufbx reads.

fn write(rig: &Skeleton, clips: &[Clip], options: &WriteOptions) -> Vec<u8> {
    in_format(&Fbx, &Scene::new(rig, clips), options)
}

fn in_format(format: &dyn Format, scene: &Scene<'_>, options: &WriteOptions) -> Vec<u8> {
    let mut workspace = Workspace::default();
    workspace.buffers().give(b"whatever stands in the buffer".to_vec());
    format.write(scene, "clips", options, &mut workspace).unwrap().pop().unwrap().1
}

fn load(bytes: &[u8]) -> ufbx::SceneRoot {
    let scene = match ufbx::load_memory(bytes, ufbx::LoadOpts::default()) {
        Ok(scene) => scene,
        Err(e) => panic!("ufbx refuses the file: {}", &*e.description),
    };
    let warnings: Vec<String> = scene.metadata.warnings.iter().map(|w| w.description.to_string()).collect();
    assert!(warnings.is_empty(), "{warnings:?}");
    scene
}

fn dvec3(v: ufbx::Vec3) -> DVec3 {
    DVec3::new(v.x, v.y, v.z)
}

/// The matrix of a ufbx transform, in its parent's space.
fn dmat4(t: &ufbx::Transform) -> DMat4 {
    let r = DQuat::from_xyzw(t.rotation.x, t.rotation.y, t.rotation.z, t.rotation.w);
    DMat4::from_scale_rotation_translation(dvec3(t.scale), r, dvec3(t.translation))
}

/// The worst distance (metres) of points 10 cm from the joints over `times`: in the parents' space, and in the
/// world.
fn worst(rig: &Skeleton, clip: &Clip, scene: &ufbx::Scene, stack: usize, times: &[f64]) -> (f64, f64) {
    let anim = &scene.anim_stacks[stack].anim;
    let mut nodes = Vec::new();
    for joint in rig.joints() {
        nodes.push(ufbx::find_node(scene, joint.name.as_deref().unwrap()).unwrap());
    }
    let (mut worst_local, mut worst_world) = (0.0f64, 0.0f64);
    for &time in times {
        let expected_world = world(rig, clip, time);
        let mut found_world: Vec<DMat4> = Vec::new();
        for (i, (joint, p)) in rig.joints().iter().zip(local_poses(rig, clip, time)).enumerate() {
            let found = dmat4(&ufbx::evaluate_transform(anim, nodes[i], time));
            let expected = DMat4::from_scale_rotation_translation(p.s, p.r, p.t);
            found_world.push(joint.parent.map_or(found, |parent| found_world[parent] * found));
            for point in SHELL {
                let local = found.transform_point3(point).distance(expected.transform_point3(point));
                let world = found_world[i]
                    .transform_point3(point)
                    .distance(expected_world[i].transform_point3(point));
                worst_local = worst_local.max(local);
                worst_world = worst_world.max(world);
            }
        }
    }
    (worst_local, worst_world)
}

/// Instants of all keys, and of `parts` points between each two.
fn instants(clip: &Clip, parts: u32) -> (Vec<f64>, Vec<f64>) {
    let mut keys: Vec<f64> =
        clip.timelines.iter().flat_map(|t| t.iter_seconds().collect::<Vec<_>>()).collect();
    keys.sort_by(f64::total_cmp);
    keys.dedup();
    let between = keys
        .windows(2)
        .flat_map(|w| (1..parts).map(move |i| w[0] + (w[1] - w[0]) * f64::from(i) / f64::from(parts)))
        .collect();
    (keys, between)
}

fn key_ticks(curve: &ufbx::AnimCurve) -> Vec<i64> {
    curve.keyframes.iter().map(|k| (k.time * TICKS_PER_S as f64).round() as i64).collect()
}

/// The curve of one number of a node's property.
fn curve<'a>(
    scene: &'a ufbx::Scene,
    stack: usize,
    node: &str,
    property: &str,
    axis: usize,
) -> &'a ufbx::AnimCurve {
    let node = ufbx::find_node(scene, node).unwrap();
    let layer = &scene.anim_stacks[stack].layers[0];
    let prop = layer
        .anim_props
        .iter()
        .find(|p| p.element.element_id == node.element.element_id && &*p.prop_name == property)
        .unwrap();
    prop.anim_value.curves[axis].as_ref().unwrap()
}

// The tests.

#[test]
fn a_walk_is_the_same_walk() {
    let body = body();
    let clips = [walk("walk", &body, 31, 2, 12.0), walk("run", &body, 16, 2, 35.0)];
    let rig = rig::build(&body, &clips, &NoNames).unwrap();
    let bytes = write(&rig, &clips, &WriteOptions::default());
    let scene = load(&bytes);
    assert_eq!(scene.bones.len(), rig.joints().len());
    assert_eq!(scene.anim_stacks.len(), 2);
    assert_eq!(scene.settings.frames_per_second, 60.0);
    assert_eq!(scene.settings.unit_meters, 1.0);
    assert_eq!(scene.settings.axes.up, ufbx::CoordinateAxis::PositiveZ);
    for (i, clip) in clips.iter().enumerate() {
        assert_eq!(&*scene.anim_stacks[i].element.name, clip.short_name);
        assert_eq!(scene.anim_stacks[i].time_begin, 0.0);
        assert_eq!(scene.anim_stacks[i].time_end, clip.length_s);
        let (keys, between) = instants(clip, 7);
        let (local, world) = worst(&rig, clip, &scene, i, &keys);
        assert!(local < 1e-6 && world < 1e-5, "at keys: {local} {world}");
        let (local, world) = worst(&rig, clip, &scene, i, &between);
        // 10 cm x 0.05 degrees; no more at the ends of the chains.
        assert!(local < 0.1 * 0.05f64.to_radians() + 1e-6, "between keys: {local}");
        assert!(world < 0.1e-3, "between keys, the world over: {world}");
        println!("{}: between keys {local:.2e} m local, {world:.2e} m world", clip.short_name);
    }
}

#[test]
fn a_finer_tolerance_holds_the_whole_chain() {
    let body = body();
    let clips = [walk("run", &body, 16, 2, 35.0)];
    let rig = rig::build(&body, &clips, &NoNames).unwrap();
    let options = WriteOptions { euler_tolerance_deg: 0.004, ..WriteOptions::default() };
    let scene = load(&write(&rig, &clips, &options));
    let (_, world) = worst(&rig, &clips[0], &scene, 0, &instants(&clips[0], 7).1);
    assert!(world < 0.1e-3, "{world}");
}

#[test]
fn the_rest_pose_and_the_bind_pose_are_the_rigs() {
    let body = body();
    let clips = [walk("walk", &body, 3, 2, 12.0)];
    let rig = rig::build(&body, &clips, &NoNames).unwrap();
    let scene = load(&write(&rig, &clips, &WriteOptions::default()));
    let rest: Vec<Trs> = rig.joints().iter().map(|j| j.rest).collect();
    let binds = rig.model_matrices(&rest);
    let pose = scene.poses.iter().find(|p| p.is_bind_pose).unwrap();
    assert_eq!(pose.bone_poses.len(), rig.joints().len());
    for (joint, bind) in rig.joints().iter().zip(&binds) {
        let name = joint.name.as_deref().unwrap();
        let node = ufbx::find_node(&scene, name).unwrap();
        let found = dmat4(&node.local_transform);
        let bone = pose.bone_poses.iter().find(|b| &*b.bone_node.element.name == name).unwrap();
        let m = &bone.bone_to_world;
        for point in SHELL {
            let local = joint.rest.matrix().transform_point3(point);
            assert!(found.transform_point3(point).distance(local) < 1e-9);
            let world = DVec3::new(m.m03, m.m13, m.m23)
                + DVec3::new(m.m00, m.m10, m.m20) * point.x
                + DVec3::new(m.m01, m.m11, m.m21) * point.y
                + DVec3::new(m.m02, m.m12, m.m22) * point.z;
            assert!(world.distance(bind.transform_point3(point)) < 1e-9);
        }
        match joint.parent {
            Some(p) => {
                assert_eq!(
                    &*node.parent.as_ref().unwrap().element.name,
                    rig.joints()[p].name.as_deref().unwrap()
                )
            }
            None => assert!(node.parent.as_ref().unwrap().is_root),
        }
    }
}

#[test]
fn ticks_are_whole_frames() {
    let body = body();
    let clips = [walk("walk", &body, 20, 3, 5.0)];
    let rig = rig::build(&body, &clips, &NoNames).unwrap();
    let scene = load(&write(&rig, &clips, &WriteOptions::default()));
    let found = key_ticks(curve(&scene, 0, "root_motion", "Lcl Translation", 1));
    let expected: Vec<i64> = (0..20).map(|i| i * 3 * 769_769_300).collect();
    assert_eq!(found, expected);
}

#[test]
fn every_clip_keys_what_another_moves() {
    let body = body();
    let mut stand = empty_clip("stand", 2.0);
    add_rotation(&mut stand, HEAD, ticks60(vec![0, 60]), vec![Quat::IDENTITY, Quat::from_rotation_z(1.0)]);
    let clips = [walk("walk", &body, 5, 2, 5.0), stand];
    let rig = rig::build(&body, &clips, &NoNames).unwrap();
    let scene = load(&write(&rig, &clips, &WriteOptions::default()));
    for (stack, clip) in scene.anim_stacks.iter().zip(&clips) {
        assert_eq!(stack.layers[0].anim_props.len(), rig.joints().len());
        assert_eq!(stack.time_end, clip.length_s);
    }
    // A rest key is one key; the clip's end hangs on one channel.
    let (local, _) = worst(&rig, &clips[1], &scene, 1, &[0.0, 0.3, 1.0, 1.5, 2.0]);
    assert!(local < 1e-4);
    assert_eq!(curve(&scene, 1, "LeftHand", "Lcl Rotation", 0).keyframes.len(), 1);
    let ends = scene.anim_curves.iter().filter(|c| c.max_time == 2.0).count();
    assert_eq!(ends, 3);
}

#[test]
fn a_single_pose_and_no_track_at_all() {
    let body = body();
    let mut pose = empty_clip("pose", 0.0);
    add_rotation(&mut pose, HEAD, ticks60(vec![0]), vec![Quat::from_rotation_y(0.5)]);
    let clips = [pose, empty_clip("nothing", 0.0), empty_clip("still", 1.5)];
    let rig = rig::build(&body, &clips, &NoNames).unwrap();
    let scene = load(&write(&rig, &clips, &WriteOptions::default()));
    assert_eq!(scene.anim_stacks.len(), 3);
    let frame = 1.0 / 60.0;
    let lengths: Vec<f64> = scene.anim_stacks.iter().map(|s| s.time_end).collect();
    assert_eq!(lengths, [frame, frame, 1.5]);
    for (i, clip) in clips.iter().enumerate() {
        assert!(worst(&rig, clip, &scene, i, &[0.0, 1.0]).0 < 1e-7);
    }
}

#[test]
fn steps_stay_steps() {
    let body = body();
    let mut clip = empty_clip("steps", 1.0);
    let times = vec![0, 10, 20, 21, 60];
    let turns = [0.0, 1.0, 1.0, 3.0, -2.0].map(Quat::from_rotation_z);
    let places = [0.0, 1.0, 1.0, 2.0, 3.0].map(|x| Vec3::new(x, 0.0, -x));
    add_track(
        &mut clip,
        HEAD,
        Property::Rotation,
        ticks60(times.clone()),
        Interpolation::Step,
        Values::Quat(turns.to_vec()),
    );
    add_track(
        &mut clip,
        HEAD,
        Property::Translation,
        ticks60(times.clone()),
        Interpolation::Step,
        Values::Vec3(places.to_vec()),
    );
    let clips = [clip];
    let rig = rig::build(&body, &clips, &NoNames).unwrap();
    let scene = load(&write(&rig, &clips, &WriteOptions::default()));
    let near: Vec<f64> = times
        .iter()
        .flat_map(|&t| [-5e-3, -1.001e-3, 0.0, 1e-9, 1e-3].map(|d| f64::from(t) / 60.0 + d))
        .filter(|t| (0.0..1.0).contains(t))
        .collect();
    let (local, _) = worst(&rig, &clips[0], &scene, 0, &near);
    assert!(local < 1e-6, "{local}");
    // Five keys, and one more before each of the three steps.
    assert_eq!(curve(&scene, 0, "Head", "Lcl Translation", 0).keyframes.len(), 8);
    assert_eq!(curve(&scene, 0, "Head", "Lcl Translation", 1).keyframes.len(), 1);
}

/// Everything that happens to two quaternions on their way.
fn check_rotations(positions: Vec<u32>, values: Vec<Quat>, options: &WriteOptions) -> usize {
    let body = Skeleton::new(
        "one",
        vec![Joint { id: HEAD, name: Some("Head".into()), parent: None, rest: Trs::IDENTITY }],
    )
    .unwrap();
    let mut clip = empty_clip("turn", f64::from(*positions.last().unwrap()) / 60.0);
    add_rotation(&mut clip, HEAD, ticks60(positions), values);
    let clips = [clip];
    let rig = rig::build(&body, &clips, &NoNames).unwrap();
    let scene = load(&write(&rig, &clips, options));
    let (keys, between) = instants(&clips[0], 29);
    let (local, _) = worst(&rig, &clips[0], &scene, 0, &keys);
    assert!(local < 1e-6, "at keys: {local}");
    let (local, _) = worst(&rig, &clips[0], &scene, 0, &between);
    let limit = 0.1 * options.euler_tolerance_deg.to_radians();
    assert!(local <= limit * 1.0001 + 1e-7, "between keys: {local}, expected at most {limit}");
    let mut most = 0;
    for axis in 0..3 {
        let curve = curve(&scene, 0, "Head", "Lcl Rotation", axis);
        for pair in curve.keyframes.windows(2) {
            assert!(pair[0].time < pair[1].time);
            let step = (pair[0].value - pair[1].value).abs();
            // Angles that start over jump by whole turns, within a tick.
            let jump =
                (step / 360.0 - (step / 360.0).round()).abs() < 1e-4 && pair[1].time - pair[0].time < 1e-9;
            assert!(step < 180.0 || jump, "{} {}", pair[0].value, pair[1].value);
        }
        most = most.max(curve.keyframes.len());
    }
    most
}

#[test]
fn turns_of_almost_half_a_circle() {
    for axis in [Vec3::X, Vec3::Y, Vec3::Z, Vec3::ONE.normalize(), Vec3::new(0.6, -0.8, 0.0)] {
        for deg in [90.0f32, 120.0, 178.0, 179.0, 179.9, 180.0] {
            let turn = Quat::from_axis_angle(axis, deg.to_radians());
            let start = Quat::from_euler(EulerRot::ZYX, 0.3, 1.2, -0.7);
            check_rotations(
                vec![0, 2, 40],
                vec![start, (start * turn).normalize(), start],
                &WriteOptions::default(),
            );
        }
    }
}

#[test]
fn ways_through_the_pole_and_past_it() {
    let at =
        |y: f32, x: f32| Quat::from_euler(EulerRot::ZYX, 0.4, y.to_radians(), x.to_radians()).normalize();
    // Through the pole along one angle: no key is needed, and y goes on past 90 degrees.
    let keys = check_rotations(
        (0..13).collect(),
        (0..13).map(|i| at(60.0 + 5.0 * i as f32, 20.0)).collect(),
        &WriteOptions::default(),
    );
    assert_eq!(keys, 13);
    // Past it at a distance, and a key that stands on it.
    for miss in [1e-4f32, 0.01, 0.1, 1.0, 5.0] {
        let over = Quat::from_rotation_x(miss.to_radians());
        let values = (0..9).map(|i| (over * at(70.0 + 5.0 * i as f32, 0.0)).normalize()).collect();
        check_rotations((0..9).map(|i| 2 * i).collect(), values, &WriteOptions::default());
    }
    for y in [90.0f32, -90.0] {
        let values =
            vec![at(y - 20.0, 30.0), at(y, 50.0), at(y, -80.0), at(y + 10.0, 170.0), at(y, 0.0), at(y, 1.0)];
        check_rotations(vec![0, 2, 4, 6, 8, 10], values, &WriteOptions::default());
    }
}

#[test]
fn a_pole_is_left_with_few_keys() {
    // As a pelvis does whose rest is a quarter turn. Keys that crowd at the pole are one key to Blender.
    let pole = Quat::from_euler(EulerRot::ZYX, 1.2, -std::f32::consts::FRAC_PI_2, 0.0);
    let away = (pole * Quat::from_axis_angle(Vec3::new(0.4, -0.8, 0.45).normalize(), 0.1)).normalize();
    assert!(check_rotations(vec![0, 2], vec![pole, away], &WriteOptions::default()) <= 4);
    let back = (pole * Quat::from_rotation_x(-0.1)).normalize();
    assert!(check_rotations(vec![0, 2, 4], vec![back, pole, away], &WriteOptions::default()) <= 8);
}

#[test]
fn a_wheel_may_turn_for_ever() {
    // 75 degrees a key, 400 turns: the angles start over, so that an f32 can hold them.
    let n = 1920;
    let values = (0..n).map(|i| Quat::from_rotation_x((75.0 * i as f64).to_radians() as f32 % 6.283_185_5));
    let values: Vec<Quat> = values.map(|q| q.normalize()).collect();
    check_rotations((0..n).map(|i| 2 * i).collect(), values, &WriteOptions::default());
}

#[test]
fn values_that_are_none_do_no_harm() {
    let body = body();
    let mut clip = empty_clip("broken", f64::NAN);
    let nan = f32::NAN;
    add_rotation(
        &mut clip,
        HEAD,
        Timeline {
            clock: Clock::Span { duration_s: nan, intervals: 3 },
            positions: Positions::Run { first: 0, count: 4 },
            window: Window { start_s: nan as f64, end_s: 0.0, rate: 0.0 },
        },
        vec![
            Quat::from_xyzw(nan, 0.0, 0.0, 1.0),
            Quat::from_xyzw(0.0, 0.0, 0.0, 0.0),
            Quat::IDENTITY,
            Quat::IDENTITY,
        ],
    );
    add_track(
        &mut clip,
        HEAD,
        Property::Translation,
        ticks60(vec![0, u32::MAX - 1, u32::MAX]),
        Interpolation::Linear,
        Values::Vec3(vec![Vec3::splat(f32::INFINITY), Vec3::NAN, Vec3::ONE]),
    );
    add_track(
        &mut clip,
        HEAD,
        Property::Other(OtherTrack { number: 16, name: None }),
        ticks60(vec![0, 1]),
        Interpolation::Linear,
        Values::Scalar(vec![nan, 1.0]),
    );
    let clips = [clip];
    let rig = rig::build(&body, &clips, &NoNames).unwrap();
    let scene = load(&write(&rig, &clips, &WriteOptions::default()));
    assert!(scene.anim_curves.iter().all(|c| c.keyframes.iter().all(|k| k.value.is_finite())));
}

#[test]
fn scales_are_kept() {
    let body = body();
    let mut clip = empty_clip("scale", 1.0);
    add_track(
        &mut clip,
        SPINE,
        Property::Scale,
        ticks60(vec![0, 30, 60]),
        Interpolation::Linear,
        Values::Vec3(vec![Vec3::ONE, Vec3::new(1.0, 1.5, 0.5), Vec3::ONE]),
    );
    let clips = [clip];
    let rig = rig::build(&body, &clips, &NoNames).unwrap();
    let scene = load(&write(&rig, &clips, &WriteOptions::default()));
    let spine = ufbx::find_node(&scene, "Head").unwrap();
    assert_eq!(spine.inherit_mode, ufbx::InheritMode::Normal);
    assert!(worst(&rig, &clips[0], &scene, 0, &[0.0, 0.25, 0.5, 0.75, 1.0]).1 < 1e-6);
}

#[test]
fn what_has_no_place_is_a_user_property() {
    let body = body();
    let mut clip = walk("walk", &body, 5, 2, 5.0);
    clip.events.push(Event {
        name: "step".into(),
        start_s: 0.1,
        end_s: 0.1,
        attributes: serde_json::Map::new(),
    });
    clip.extras.insert("flags".into(), serde_json::json!([1, 2]));
    let other = |number, name| Property::Other(OtherTrack { number, name });
    add_track(
        &mut clip,
        JointId::Crc32(0x1234_ABCD),
        other(16, None),
        ticks60(vec![0, 4, 8]),
        Interpolation::Linear,
        Values::Scalar(vec![0.5, 1.0, 0.25]),
    );
    add_track(
        &mut clip,
        HEAD,
        other(24, Some("visibility")),
        ticks60(vec![0, 4, 8]),
        Interpolation::Step,
        Values::Scalar(vec![0.0, 1.0, 0.0]),
    );
    add_track(
        &mut clip,
        HEAD,
        other(25, None),
        ticks60(vec![0]),
        Interpolation::Step,
        Values::Raw { width: 2, bytes: vec![0x34, 0x12] },
    );
    let clips = [clip, walk("run", &body, 3, 2, 5.0)];
    let rig = rig::build(&body, &clips, &NoNames).unwrap();
    let scene = load(&write(&rig, &clips, &WriteOptions::default()));
    let root = ufbx::find_node(&scene, "root_motion").unwrap();
    let text = |name: &str| ufbx::find_prop(&root.element.props, name).unwrap().value_str.to_string();
    let walk: serde_json::Value = serde_json::from_str(&text("walk|extras")).unwrap();
    assert_eq!(walk["id"], "0000ABCD");
    assert_eq!(walk["source"], "walk.bin");
    assert_eq!(walk["flags"], serde_json::json!([1, 2]));
    assert_eq!(walk["events"][0]["name"], "step");
    assert_eq!(walk["tracks"].as_array().unwrap().len(), 3);
    assert_eq!(walk["tracks"][2]["values"], serde_json::json!([0x1234]));
    let run: serde_json::Value = serde_json::from_str(&text("run|extras")).unwrap();
    assert_eq!(run["name"], "folder/run");
    let value = |name: &str, t: f64| {
        ufbx::evaluate_prop(&scene.anim_stacks[0].anim, &root.element, name, t).value_vec4.x
    };
    for (t, expected) in [(0.0, 0.5), (1.0 / 30.0, 0.75), (4.0 / 60.0, 1.0), (0.1, 0.625), (8.0 / 60.0, 0.25)]
    {
        assert!((value("bone_1234ABCD.track_16", t) - expected).abs() < 1e-6);
    }
    for (t, expected) in [(0.0, 0.0), (0.065, 0.0), (0.0667, 1.0), (0.13, 1.0), (8.0 / 60.0, 0.0)] {
        assert!((value("Head.visibility", t) - expected).abs() < 1e-6);
    }
}

#[test]
fn rates_become_time_modes() {
    let body = body();
    let with_clock = |clock, rate| {
        let mut clip = empty_clip("rate", 1.0);
        let timeline = Timeline {
            clock,
            positions: Positions::Run { first: 0, count: 2 },
            window: Window { start_s: 0.0, end_s: f64::INFINITY, rate },
        };
        add_rotation(&mut clip, HEAD, timeline, vec![Quat::IDENTITY, Quat::from_rotation_x(0.1)]);
        clip
    };
    let span = |duration_s, intervals| Clock::Span { duration_s, intervals };
    for (clips, expected) in [
        (vec![with_clock(Clock::Frames30, 1.0)], 30.0),
        (vec![with_clock(Clock::Frames30, 1.0), with_clock(Clock::Ticks60, 1.0)], 60.0),
        (vec![with_clock(span(1.033_333_3, 31), 1.0)], 30.0),
        (vec![with_clock(span(2.0, 48), 1.0)], 24.0),
        (vec![with_clock(span(12.4, 371), 1.0)], 30.0),
        (vec![with_clock(span(1.0, 1), 1.0)], 1.0),
        (vec![with_clock(span(60.0, 1), 1.0)], 1.0),
        (vec![with_clock(span(2.0, 200), 1.0)], 100.0),
        (vec![with_clock(Clock::Frames30, 1.1)], 33.0),
        (vec![with_clock(span(1e-6, 1), 1.0)], 1000.0),
        (vec![empty_clip("none", 1.0)], 30.0),
    ] {
        let rig = rig::build(&body, &clips, &NoNames).unwrap();
        let scene = load(&write(&rig, &clips, &WriteOptions::default()));
        assert!((scene.settings.frames_per_second - expected).abs() < 1e-9);
    }
}

#[test]
fn the_stick_mesh_follows_the_joints() {
    let body = body();
    let clips = [walk("walk", &body, 5, 2, 25.0)];
    let rig = rig::build(&body, &clips, &NoNames).unwrap();
    let options = WriteOptions { preview_mesh: true, ..WriteOptions::default() };
    let scene = load(&write(&rig, &clips, &options));
    let mesh = anim2gltf::formats::preview::build(&rig);
    assert_eq!(scene.meshes.len(), 1);
    assert_eq!(scene.meshes[0].num_vertices, mesh.positions.len());
    assert_eq!(scene.meshes[0].num_triangles, mesh.triangles.len());
    let rest: Vec<Trs> = rig.joints().iter().map(|j| j.rest).collect();
    let binds = rig.model_matrices(&rest);
    let time = clips[0].timelines[0].seconds(3);
    let posed = world(&rig, &clips[0], time);
    let opts = ufbx::EvaluateOpts { evaluate_skinning: true, ..Default::default() };
    let evaluated = ufbx::evaluate_scene(&scene, &scene.anim_stacks[0].anim, time, opts)
        .unwrap_or_else(|e| panic!("{}", &*e.description));
    let found = &evaluated.meshes[0].skinned_position.values;
    for (i, position) in mesh.positions.iter().enumerate() {
        let joint = mesh.joints[i] as usize;
        let expected = (posed[joint] * binds[joint].inverse()).transform_point3(position.as_dvec3());
        assert!(dvec3(found[i]).distance(expected) < 1e-5);
    }
}

#[test]
fn the_same_scene_gives_the_same_bytes() {
    let body = body();
    let clips = [walk("walk", &body, 90, 2, 15.0), walk("run", &body, 9, 2, 50.0)];
    let rig = rig::build(&body, &clips, &NoNames).unwrap();
    let plain = WriteOptions { compress: false, ..WriteOptions::default() };
    let first = write(&rig, &clips, &WriteOptions::default());
    assert_eq!(first, write(&rig, &clips, &WriteOptions::default()));
    // Compression changes the size and nothing else.
    let large = write(&rig, &clips, &plain);
    assert!(first.len() < large.len());
    let (a, b) = (load(&first), load(&large));
    assert_eq!(a.anim_curves.len(), b.anim_curves.len());
    for (a, b) in a.anim_curves.iter().zip(b.anim_curves.iter()) {
        let same = |(a, b): (&ufbx::Keyframe, &ufbx::Keyframe)| a.time == b.time && a.value == b.value;
        assert!(
            a.keyframes.len() == b.keyframes.len() && a.keyframes.iter().zip(b.keyframes.iter()).all(same)
        );
    }
}

fn quat() -> impl Strategy<Value = Quat> {
    [-1.0f32..1.0, -1.0f32..1.0, -1.0f32..1.0, -1.0f32..1.0]
        .prop_map(Quat::from_array)
        .prop_filter("a direction", |q| q.length() > 0.1)
        .prop_map(Quat::normalize)
}

/// A key by a step from the key before: mostly short, sometimes anything; sometimes near a pole.
fn steps() -> impl Strategy<Value = Vec<(u32, Quat, f32)>> {
    prop::collection::vec((1u32..40, quat(), prop_oneof![0.0f32..0.05, 0.0f32..0.4, 0.0f32..1.0]), 2..12)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_way_is_kept(first in quat(), steps in steps(), pole in any::<bool>(), fine in any::<bool>()) {
        let mut at = 0;
        let mut q = if pole { Quat::from_rotation_y(std::f32::consts::FRAC_PI_2 - 0.01) } else { first };
        let (mut positions, mut values) = (vec![0], vec![q]);
        for (ticks, turn, part) in steps {
            at += ticks;
            q = (q * Quat::IDENTITY.lerp(turn, part)).normalize();
            // Either of the two quaternions of a rotation may stand in a file.
            positions.push(at);
            values.push(if ticks % 3 == 0 { -q } else { q });
        }
        let tolerance_deg = if fine { 0.005 } else { 0.05 };
        check_rotations(positions, values, &WriteOptions { euler_tolerance_deg: tolerance_deg, ..WriteOptions::default() });
    }
}

/// Real dictionaries: all their clips in one file, every key and three points between.
/// Whether a track's joint is elsewhere than at rest at any key, by more than the rounding of f32 numbers.
fn leaves_rest(rest: &Trs, track: &Track) -> bool {
    match &track.curve.values {
        Values::Quat(v) => v.iter().any(|q| {
            let (a, b) = (q.as_dquat(), rest.rotation.as_dquat());
            let apart = |b: DQuat| (a - b).to_array().into_iter().fold(0.0, |m: f64, d| m.max(d.abs()));
            apart(b).min(apart(-b)) > 1.2e-7
        }),
        Values::Vec3(v) if track.target.property == Property::Scale => v.iter().any(|v| *v != rest.scale),
        Values::Vec3(v) => v.iter().any(|v| *v != rest.translation),
        _ => true,
    }
}

#[test]
fn what_never_leaves_the_rest_pose_has_no_curves() {
    let body = body();
    let rest = |id: JointId| body.joints()[body.find(id).unwrap()].rest;
    let mut first = empty_clip("first", 1.0);
    let mut second = empty_clip("second", 1.0);
    for clip in [&mut first, &mut second] {
        // At rest in both, once with the other sign, once with keys.
        add_rotation(clip, HEAD, ticks60(vec![0, 60]), vec![-rest(HEAD).rotation; 2]);
        add_rotation(clip, ARM[0], ticks60(vec![0]), vec![rest(ARM[0]).rotation]);
    }
    let turn = rest(SPINE).rotation * Quat::from_rotation_x(0.3);
    add_rotation(&mut first, SPINE, ticks60(vec![0]), vec![rest(SPINE).rotation]);
    add_rotation(&mut second, SPINE, ticks60(vec![0, 60]), vec![rest(SPINE).rotation, turn]);
    let clips = [first, second];
    let rig = rig::build(&body, &clips, &NoNames).unwrap();
    let scene = load(&write(&rig, &clips, &WriteOptions::default()));
    for (stack, clip) in clips.iter().enumerate() {
        let keyed: Vec<String> = scene.anim_stacks[stack].layers[0]
            .anim_props
            .iter()
            .map(|p| p.element.name.to_string())
            .collect();
        assert!(keyed.iter().any(|n| n == "Spine"), "{keyed:?}");
        assert!(!keyed.iter().any(|n| n == "LeftArm"), "{keyed:?}");
        let (local, _) = worst(&rig, clip, &scene, stack, &[0.0, 0.4, 1.0]);
        assert!(local < 1e-5, "{local}");
    }
    // A clip that rests altogether is still an animation, as long as it says.
    let rests = [clips[0].clone()];
    let scene = load(&write(&rig, &rests, &WriteOptions::default()));
    assert_eq!(scene.anim_stacks.len(), 1);
    assert_eq!(scene.anim_stacks[0].time_end, 1.0);
    assert!(!scene.anim_stacks[0].layers[0].anim_props.is_empty());
}

#[test]
fn real_clips_keep_their_ways() {
    let Some(shared) = anim2gltf_testkit::shared() else { return };
    let mut paths: Vec<_> = walkdir::WalkDir::new(shared.join("corpus/ycd"))
        .into_iter()
        .filter_map(|e| Some(e.ok()?.into_path()))
        .filter(|p| p.extension().is_some_and(|e| e == "ycd"))
        .collect();
    paths.sort();
    assert!(!paths.is_empty());
    let (mut source_keys, mut written_keys, mut clip_count) = (0, 0, 0);
    let mut worst_of_all = 0.0f64;
    for path in &paths {
        let bytes = std::fs::read(path).unwrap();
        let mut scratch = Vec::new();
        let resource = anim2gltf::games::rage::container::rsc7::open(&bytes, &mut scratch).unwrap();
        let clips = anim2gltf::games::rage::ycd::read(&resource, "x").unwrap().clips;
        let skeleton = anim2gltf::games::rage::ycd::default_skeleton(&clips).unwrap();
        let rig = rig::build(&skeleton, &clips, &NoNames).unwrap();
        let arranged = Scene::new(&rig, &clips);
        let out = in_format(&Fbx, &arranged, &WriteOptions::default());
        let scene = load(&out);
        assert_eq!(scene.anim_stacks.len(), clips.len());
        assert_eq!(scene.bones.len(), rig.joints().len());
        let moved: HashSet<(usize, ScenePath)> = arranged
            .animations
            .iter()
            .flat_map(|a| a.channels.iter().map(|c| (a.clip, c)))
            .filter(|(clip, c)| {
                c.track.is_some_and(|t| leaves_rest(&rig.joints()[c.joint].rest, &clip.tracks[t]))
            })
            .map(|(_, c)| (c.joint, c.path))
            .collect();
        for (i, animation) in arranged.animations.iter().enumerate() {
            let clip = animation.clip;
            // What rests in every clip of the file has no curves, but for the one that holds the clip's end.
            let keyed =
                animation.channels.iter().filter(|c| c.hold_to_end || moved.contains(&(c.joint, c.path)));
            let numbers = |&&k: &&usize| matches!(animation.clip.tracks[k].curve.values, Values::Scalar(_));
            assert_eq!(
                scene.anim_stacks[i].layers[0].anim_props.len(),
                keyed.count().max(1) + animation.extra_tracks.iter().filter(numbers).count()
            );
            let (mut keys, between) = instants(clip, 4);
            // Long clips: some of them.
            let thin = |times: Vec<f64>| {
                let step = times.len().div_ceil(200).max(1);
                times.into_iter().step_by(step).collect::<Vec<_>>()
            };
            keys = thin(keys);
            let (local, _) = worst(&rig, clip, &scene, i, &keys);
            assert!(local < 2e-6, "{}: {} at keys: {local}", path.display(), animation.name);
            let (local, _) = worst(&rig, clip, &scene, i, &thin(between));
            assert!(local < 1e-4, "{}: {} between keys: {local}", path.display(), animation.name);
            worst_of_all = worst_of_all.max(local);
            for channel in animation
                .channels
                .iter()
                .filter(|c| c.path == ScenePath::Rotation && moved.contains(&(c.joint, c.path)))
            {
                if let Some(track) = channel.track.map(|t| &clip.tracks[t]).filter(|t| !t.curve.is_constant())
                {
                    source_keys += clip.timeline(track).len();
                    let name = rig.joints()[channel.joint].name.as_deref().unwrap();
                    written_keys += (0..3)
                        .map(|a| curve(&scene, i, name, "Lcl Rotation", a).keyframes.len())
                        .max()
                        .unwrap();
                }
            }
            clip_count += 1;
        }
    }
    println!(
        "{} files, {clip_count} clips: {written_keys} rotation keys for {source_keys}, at most {:.4} mm off between keys",
        paths.len(),
        worst_of_all * 1e3
    );
}

#[test]
fn blender_and_assimp_agree() {
    let body = body();
    let mut clips = vec![walk("walk", &body, 31, 2, 12.0), walk("run", &body, 16, 2, 35.0)];
    let mut nod = empty_clip("nod", 0.5);
    add_rotation(
        &mut nod,
        HEAD,
        ticks60(vec![0, 15, 30]),
        [0.0, 1.0, 0.2].map(Quat::from_rotation_z).to_vec(),
    );
    add_track(
        &mut nod,
        FOOT[0],
        Property::Translation,
        ticks60(vec![0, 6, 10, 22, 30]),
        Interpolation::Step,
        Values::Vec3([0.4, 0.5, 0.3, 0.45, 0.6].map(|x| Vec3::new(x, 0.0, 0.0)).to_vec()),
    );
    add_track(
        &mut nod,
        HEAD,
        Property::Other(OtherTrack { number: 24, name: Some("visibility") }),
        ticks60(vec![0, 4, 8]),
        Interpolation::Linear,
        Values::Scalar(vec![0.0, 1.0, 0.0]),
    );
    clips.push(nod);
    let rig = rig::build(&body, &clips, &NoNames).unwrap();
    // Stays behind, to be looked at.
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let glb = folder.join("clips.glb");
    let scene = Scene::new(&rig, &clips);
    std::fs::write(&glb, in_format(&Glb, &scene, &WriteOptions::default())).unwrap();
    for preview_mesh in [false, true] {
        let path = folder.join(format!("clips_{preview_mesh}.fbx"));
        std::fs::write(&path, write(&rig, &clips, &WriteOptions { preview_mesh, ..WriteOptions::default() }))
            .unwrap();
        match Command::new("assimp").arg("info").arg(&path).output() {
            Ok(output) => {
                let text = String::from_utf8_lossy(&output.stdout).into_owned();
                let count = |label: &str| {
                    let line = text.lines().find(|l| l.trim_start().starts_with(label));
                    line.and_then(|l| l.rsplit(' ').next()).and_then(|n| n.parse::<usize>().ok())
                };
                assert!(output.status.success(), "{text}");
                assert_eq!(count("Animations:"), Some(3), "{text}");
                // It leaves out the joints of the third clip that stay at rest.
                assert_eq!(count("Animation Channels:"), Some(2 * rig.joints().len() + 2), "{text}");
            }
            Err(_) => eprintln!("skipped: assimp is not installed"),
        }
        let Some(python) = std::env::var_os("ANIM2GLTF_BLENDER_PYTHON") else {
            eprintln!("skipped: ANIM2GLTF_BLENDER_PYTHON names no python with bpy");
            continue;
        };
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/blender/check_fbx.py");
        let output = Command::new(python)
            .arg(script)
            .args([&glb, &path])
            .args(["--bones", &rig.joints().len().to_string()])
            .args(["--fps", "60"])
            .args(["--compare", "Head,LeftHand,RightHand,LeftFoot,RightFoot"])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
        println!("{text}");
    }
}

/// Not a test: `cargo test --release --test integration -- --ignored --nocapture fbx::speed`.
#[test]
#[ignore = "prints times"]
fn speed() {
    let joints: Vec<Joint> = (0..60)
        .map(|i| Joint {
            id: JointId::BoneTag(i),
            name: None,
            parent: i.checked_sub(1).map(|p| usize::from(p / 2)),
            rest: Trs { translation: Vec3::new(0.1, 0.0, 0.02), ..Trs::IDENTITY },
        })
        .collect();
    let body = Skeleton::new("body", joints).unwrap();
    for (count, keys) in [(200, 60), (20, 600)] {
        let clips: Vec<Clip> = (0..count)
            .map(|i| walk(&format!("clip_{i}"), &body, keys, 2, 4.0 + 20.0 * i as f32 / count as f32))
            .collect();
        let rig = rig::build(&body, &clips, &NoNames).unwrap();
        let total = f64::from(count * keys) * 61.0;
        for _ in 0..3 {
            let start = std::time::Instant::now();
            let mut clips = clips.clone();
            for clip in &mut clips {
                anim2gltf::passes::align_signs(clip);
                anim2gltf::passes::collapse_constant(clip);
                anim2gltf::passes::subdivide(clip, 0.05);
            }
            let scene = Scene::new(&rig, &clips);
            let glb = in_format(&Glb, &scene, &WriteOptions::default());
            let t = start.elapsed().as_secs_f64();
            println!(
                "glb            {:6.0} ms {:5.0} ns a key {:9} bytes",
                t * 1e3,
                t * 1e9 / total,
                glb.len()
            );
            for compress in [false, true] {
                let start = std::time::Instant::now();
                let mut clips = clips.clone();
                for clip in &mut clips {
                    anim2gltf::passes::align_signs(clip);
                    anim2gltf::passes::collapse_constant(clip);
                }
                let scene = Scene::new(&rig, &clips);
                let out = in_format(&Fbx, &scene, &WriteOptions { compress, ..WriteOptions::default() });
                let t = start.elapsed().as_secs_f64();
                println!(
                    "fbx compress {} {:6.0} ms {:5.0} ns a key {:9} bytes",
                    u8::from(compress),
                    t * 1e3,
                    t * 1e9 / total,
                    out.len()
                );
            }
        }
    }
}
