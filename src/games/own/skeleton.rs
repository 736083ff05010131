//! Skeletons of .glb, .gltf and .fbx files, ours and those of other tools.
//!
//! Joints are the joints of all skins (glTF) or the limbs (FBX); in a glTF file without skins, all named nodes
//! that draw nothing. Their rest pose is the bind pose where the file has one ([`rest_pose`]), else the
//! node's own transform. Transforms of nodes between joints go into the joint below, those above the top joints
//! into these (a uniform scale up there, as of files in centimetres, goes into the translations).
//!
//! glTF and most FBX files are Y up and the model Z up. There are two ways in which tools turn a skeleton, and
//! the positions of the joints do not tell them apart, only the axes of the joints:
//!
//! - every transform is permuted ([`Turn::EveryJoint`]): what this project writes. Undone exactly, by permuting
//!   back: (x, y, z) -> (x, -z, y), quaternions alike, scale (x, y, z) -> (x, z, y);
//! - only the top joints are turned, or a node above them, the others stand as they were
//!   ([`Turn::TopJoints`]): what Blender's exporters do.
//!
//! The file decides: our own name as its writer; else the known rest pose of the game, where enough of its joints
//! are there; else, in glTF, Blender's name, or a node above the joints that is turned by -90 degrees about X
//! (otherwise the first way), and in FBX the second way.

use glam::{DQuat, Quat, Vec3};

use crate::error::{Error, ErrorKind, Result};
use crate::games::own::rest_pose;
use crate::games::own::scene::{Content, Format, ImportedScene, NodeKind};
use crate::games::own::transform::decomposed;
use crate::games::own::{fbx, open};
use crate::model::{Joint, Skeleton, SkeletonFile, Trs};
use crate::source::JointScheme;

/// Whether a file of these first bytes is one of this module's formats: glTF or binary FBX.
pub fn is_readable(bytes: &[u8]) -> bool {
    let text = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes).trim_ascii_start();
    bytes.starts_with(b"glTF") || text.starts_with(b"{") || bytes.starts_with(fbx::MAGIC)
}

/// Reads a skeleton. `name` is what it is called in the report; `load` gives the bytes of the files that a .gltf
/// points at (decoded relative URI, bytes wanted).
///
/// # Errors
/// Malformed: records, nodes or numbers that make no file of the format. Unsupported: no joint.
pub fn read(
    bytes: &[u8],
    name: &str,
    names: &dyn JointScheme,
    load: &mut dyn FnMut(&str, usize) -> Result<Vec<u8>>,
) -> Result<SkeletonFile> {
    skeleton_of(&open::read(bytes, Content::Skeleton, load)?, name, names)
}

/// The skeleton of a scene that was read with [`Content::Skeleton`].
///
/// # Errors
/// Malformed: a transform that is no number. Unsupported: no joint.
pub fn skeleton_of(scene: &ImportedScene, name: &str, names: &dyn JointScheme) -> Result<SkeletonFile> {
    let nodes = &scene.joints;
    for node in nodes {
        let Trs { translation, rotation, scale } = node.file.transform;
        let is_flat = scene.format == Format::Fbx && scale == Vec3::ZERO;
        if is_flat || !(translation.is_finite() && rotation.is_finite() && scale.is_finite()) {
            let entry = match scene.format {
                Format::Gltf => format!("node {}", node.file.index),
                Format::Fbx => node.name.clone(),
            };
            let text = "found a transform that is no number, expected numbers";
            return Err(Error::new(ErrorKind::Malformed, text).in_entry(entry));
        }
    }
    // In a file with skins or limbs these alone are joints.
    let declares_joints = scene.format == Format::Fbx || scene.contents.get("skins").is_some_and(|n| *n > 0);
    let is_joint: Vec<bool> = nodes
        .iter()
        .map(|n| match n.file.kind {
            NodeKind::Joint => true,
            NodeKind::Empty => !declares_joints && n.file.is_named,
            NodeKind::Other => false,
        })
        .collect();
    // The joint above each node, and the node's transform in its space (the scene's, where there is none).
    let mut above: Vec<Option<usize>> = vec![None; nodes.len()];
    let mut from_joint: Vec<Trs> = nodes.iter().map(|n| n.file.transform).collect();
    let mut is_turned_above = false;
    for (i, node) in nodes.iter().enumerate() {
        let Some(p) = node.parent else { continue };
        if is_joint[p] {
            above[i] = Some(p);
        } else {
            above[i] = above[p];
            from_joint[i] = composed(&from_joint[p], &from_joint[i]);
            is_turned_above |= is_joint[i] && above[i].is_none() && is_z_up_node(from_joint[p].rotation);
        }
    }
    let mut notes = scene.notes.clone();
    let rest = rest_pose::of_joints(scene, &is_joint, &above, &from_joint, &mut notes);
    let order: Vec<usize> = file_order(scene).into_iter().filter(|i| is_joint[*i]).collect();
    let mut place = vec![None; nodes.len()];
    for (k, &i) in order.iter().enumerate() {
        place[i] = Some(k);
    }
    let unit = scene.metres as f32;
    let unit = if unit.is_finite() && unit > 0.0 { unit } else { 0.01 };
    let joints = order.iter().map(|&i| {
        let mut rest = rest[i];
        if above[i].is_none() {
            // As if below a node that is scaled to metres: `in_metres` takes it off again.
            rest.translation *= unit;
            rest.scale *= unit;
        }
        FileJoint {
            name: Some(nodes[i].name.clone()).filter(|_| nodes[i].file.is_named).unwrap_or_default(),
            parent: above[i].and_then(|p| place[p]),
            rest,
        }
    });
    let mut joints: Vec<FileJoint> = joints.collect();
    if joints.is_empty() {
        return Err(Error::unsupported(
            "found no joint in the file, expected a skin, or nodes that are joints",
        ));
    }
    in_metres(&mut joints, &mut notes);
    let turn = turn(scene, &joints, is_turned_above, names);
    notes.push(
        match turn {
            Turn::EveryJoint => "the axes of every joint are turned to Z up",
            Turn::TopJoints => "the axes of the top joints are turned to Z up, the others stand as they are",
            Turn::NoJoint => "the file is Z up: the axes stand as they are",
        }
        .to_owned(),
    );
    let joints = joints.into_iter().map(|joint| {
        let rest = match (turn, joint.parent) {
            (Turn::EveryJoint, _) => permuted(&joint.rest),
            (Turn::TopJoints, None) => Trs {
                rotation: (Z_UP * joint.rest.rotation.as_dquat()).normalize().as_quat(),
                ..moved(&joint.rest)
            },
            (Turn::TopJoints, Some(_)) | (Turn::NoJoint, _) => joint.rest,
        };
        let id = names.joint_id(&joint.name);
        Joint { id, name: Some(joint.name).filter(|n| !n.is_empty()), parent: joint.parent, rest }
    });
    Ok(SkeletonFile { skeleton: Skeleton::new(name, joints.collect())?, notes })
}

/// Which joints a tool has turned from Z up to Y up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// All: each transform is permuted.
    EveryJoint,
    /// The top ones alone.
    TopJoints,
    /// None: the file is Z up (FBX).
    NoJoint,
}

/// A joint in the file's axes, with what lies between it and the joint above.
#[derive(Debug, Clone)]
struct FileJoint {
    /// Empty where the file gives none.
    name: String,
    parent: Option<usize>,
    rest: Trs,
}

/// Nodes in the order in which skeletons have their joints: that of the file (glTF), or level by level (FBX).
fn file_order(scene: &ImportedScene) -> Vec<usize> {
    let mut order: Vec<usize> = (0..scene.joints.len()).collect();
    order.sort_by_key(|i| scene.joints[*i].file.index);
    match scene.format {
        Format::Gltf => order,
        Format::Fbx => {
            let mut parents = vec![None; order.len()];
            for joint in &scene.joints {
                parents[joint.file.index] = joint.parent.map(|p| scene.joints[p].file.index);
            }
            level_by_level(&parents).into_iter().map(|i| order[i]).collect()
        }
    }
}

/// Indices of what has these parents, parents before children, a level at a time.
fn level_by_level(parents: &[Option<usize>]) -> Vec<usize> {
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); parents.len()];
    let mut order = Vec::with_capacity(parents.len());
    for (i, parent) in parents.iter().enumerate() {
        match parent {
            Some(p) => children[*p].push(i),
            None => order.push(i),
        }
    }
    let mut next = 0;
    while let Some(&i) = order.get(next) {
        order.extend(&children[i]);
        next += 1;
    }
    order
}

/// Takes a uniform scale of a top joint as a unit of length.
fn in_metres(joints: &mut [FileJoint], notes: &mut Vec<String>) {
    let parents: Vec<Option<usize>> = joints.iter().map(|j| j.parent).collect();
    let mut units = vec![1.0_f32; joints.len()];
    for i in level_by_level(&parents) {
        let Some(p) = parents[i] else {
            let unit = joints[i].rest.scale.x;
            let is_uniform = (joints[i].rest.scale - Vec3::splat(unit)).abs().max_element() <= 1e-5 * unit;
            if is_uniform && (unit - 1.0).abs() >= 1e-5 {
                units[i] = unit;
                joints[i].rest.scale = Vec3::ONE;
                notes.push(format!(
                    "the top joint \"{}\" is scaled by {unit}: taken as a unit of length",
                    joints[i].name
                ));
            }
            continue;
        };
        units[i] = units[p];
        joints[i].rest.translation *= units[i];
    }
}

fn turn(scene: &ImportedScene, joints: &[FileJoint], is_turned_above: bool, names: &dyn JointScheme) -> Turn {
    let likely = match scene.format {
        _ if scene.is_z_up => return Turn::NoJoint,
        Format::Gltf if scene.writer.contains("anim2gltf") => return Turn::EveryJoint,
        Format::Fbx if scene.writer.contains("anim2") => return Turn::EveryJoint,
        Format::Gltf if scene.writer.contains("Blender") || is_turned_above => Turn::TopJoints,
        Format::Gltf => Turn::EveryJoint,
        Format::Fbx => Turn::TopJoints,
    };
    fitting_turn(joints, names).unwrap_or(likely)
}

/// The turn from Y up to Z up: +90 degrees about X.
const Z_UP: DQuat =
    DQuat::from_xyzw(std::f64::consts::FRAC_1_SQRT_2, 0.0, 0.0, std::f64::consts::FRAC_1_SQRT_2);

/// (x, y, z) -> (x, -z, y), exactly; 0 - z so that no zero gets a sign.
fn permuted(t: &Trs) -> Trs {
    let q = t.rotation;
    Trs {
        translation: moved(t).translation,
        rotation: Quat::from_xyzw(q.x, 0.0 - q.z, q.y, q.w),
        scale: Vec3::new(t.scale.x, t.scale.z, t.scale.y),
    }
}

fn moved(t: &Trs) -> Trs {
    let v = t.translation;
    Trs { translation: Vec3::new(v.x, 0.0 - v.z, v.y), ..*t }
}

/// Whether `q` is the turn of a Z-up scene to Y up: -90 degrees about X, within a degree.
fn is_z_up_node(q: Quat) -> bool {
    q.as_dquat().dot(Z_UP.inverse()).abs() > 0.99996
}

/// The turn under which the rest pose fits the known one, where at least four of its joints below the top are
/// there, one way fits twice as well as the other and well at all.
fn fitting_turn(joints: &[FileJoint], names: &dyn JointScheme) -> Option<Turn> {
    let mut count = 0;
    let (mut every, mut top) = (0.0, 0.0);
    for joint in joints.iter().filter(|j| j.parent.is_some()) {
        let Some(known) = names.known_rest(&joint.name) else { continue };
        // Metres and half radians: a bone is some decimetres long, so both weigh alike.
        let miss = |t: &Trs| {
            let turn = 1.0 - f64::from(t.rotation.dot(known.rotation)).abs().min(1.0);
            f64::from(t.translation.distance(known.translation)) + turn.sqrt()
        };
        every += miss(&permuted(&joint.rest));
        top += miss(&joint.rest);
        count += 1;
    }
    let fits = |a: f64, b: f64| count >= 4 && a * 2.0 < b && a < 0.5 * f64::from(count);
    if fits(every, top) {
        Some(Turn::EveryJoint)
    } else if fits(top, every) {
        Some(Turn::TopJoints)
    } else {
        None
    }
}

/// `a` then `b` below it, as one transform; a shear that comes of it cannot be held.
fn composed(a: &Trs, b: &Trs) -> Trs {
    if *a == Trs::IDENTITY {
        return *b;
    }
    decomposed(&(a.matrix() * b.matrix()), 1e-6)
}
