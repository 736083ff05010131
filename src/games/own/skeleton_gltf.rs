//! Skeletons of .glb and .gltf files, ours and those of other tools (glTF 2.0, public specification).
//!
//! Joints are the joints of all skins, in the order of the nodes; in a file without skins, all nodes that draw
//! nothing. Their rest pose is the node's own transform; transforms of nodes between joints go into the joint
//! below, those above the top joints into these (a uniform scale up there, as of files in centimetres, goes
//! into the translations).
//!
//! glTF is Y up and the model Z up. There are two ways in which tools turn a skeleton, and the positions of the
//! joints do not tell them apart, only the axes of the joints:
//!
//! - every transform is permuted ([`Turn::EveryJoint`]): what this project writes. Undone exactly, by permuting
//!   back: (x, y, z) -> (x, -z, y), quaternions alike, scale (x, y, z) -> (x, z, y);
//! - only the top joints are turned, or a node above them, the others stand as they were
//!   ([`Turn::TopJoints`]): what Blender's exporter does.
//!
//! The file decides: our own name in `asset.generator`; else the rest pose of the ped table, where enough of
//! its bones are there; else Blender's name, or a node above the joints that is turned by -90 degrees about X;
//! else the first way.

use glam::{DMat4, DQuat, DVec3, Quat, Vec3};
use serde::Deserialize;

use crate::error::{Error, ErrorKind, Result};
use crate::games::own::skeleton::{Naming, SkeletonFile};
use crate::games::rage::names as rage;
use crate::io::bytes::Cursor;
use crate::model::{Joint, JointId, Skeleton, Trs};

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    asset: Asset,
    #[serde(default)]
    nodes: Vec<Node>,
    #[serde(default)]
    skins: Vec<Skin>,
}

#[derive(Deserialize, Default)]
struct Asset {
    generator: Option<String>,
}

#[derive(Deserialize)]
struct Skin {
    #[serde(default)]
    joints: Vec<usize>,
}

#[derive(Deserialize)]
struct Node {
    name: Option<String>,
    #[serde(default)]
    children: Vec<usize>,
    matrix: Option<[f32; 16]>,
    translation: Option<[f32; 3]>,
    rotation: Option<[f32; 4]>,
    scale: Option<[f32; 3]>,
    mesh: Option<usize>,
    camera: Option<usize>,
}

/// Which joints a tool has turned from Z up to Y up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// All: each transform is permuted.
    EveryJoint,
    /// The top ones alone.
    TopJoints,
    /// None: the file is Z up (FBX).
    NoJoint,
}

/// A joint as it stands in a Y-up file, with what lies between it and the joint above.
#[derive(Debug, Clone)]
pub(super) struct FileJoint {
    pub name: String,
    pub parent: Option<usize>,
    pub rest: Trs,
}

/// Reads a skeleton. `naming` says what joint names stand for.
///
/// # Errors
/// Malformed: no glTF, nodes that are no forest, transforms that are no numbers. Unsupported: no joint.
pub fn read(bytes: &[u8], name: &str, naming: Naming) -> Result<SkeletonFile> {
    let json = if bytes.starts_with(b"glTF") { json_chunk(bytes)? } else { bytes };
    let json = json.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(json);
    let document: Document = serde_json::from_slice(json)
        .map_err(|e| Error::new(ErrorKind::Malformed, format!("found JSON that is no glTF: {e}")))?;
    let parents = parents(&document.nodes)?;
    let is_joint = joints(&document)?;
    let order = top_down(&parents);
    let local: Vec<Trs> =
        document.nodes.iter().enumerate().map(|(i, n)| transform(i, n)).collect::<Result<_>>()?;

    // Index among the joints, in the order of the nodes.
    let mut place = vec![None; document.nodes.len()];
    for (i, (place, _)) in place.iter_mut().zip(&is_joint).filter(|(_, j)| **j).enumerate() {
        *place = Some(i);
    }
    // From the joint above (or the scene) down to each node, this included.
    let mut from_joint: Vec<Trs> = local.clone();
    let mut above: Vec<Option<usize>> = vec![None; document.nodes.len()];
    let mut turned_above = false;
    for &i in &order {
        let Some(p) = parents[i] else { continue };
        if is_joint[p] {
            above[i] = place[p];
        } else {
            above[i] = above[p];
            from_joint[i] = compose(&from_joint[p], &local[i]);
            turned_above |= is_joint[i] && above[i].is_none() && is_z_up_node(from_joint[p].rotation);
        }
    }
    let file_joints: Vec<FileJoint> = (0..document.nodes.len())
        .filter(|i| is_joint[*i])
        .map(|i| FileJoint {
            name: document.nodes[i].name.clone().unwrap_or_default(),
            parent: above[i],
            rest: from_joint[i],
        })
        .collect();
    let generator = document.asset.generator.unwrap_or_default();
    let hint = if generator.contains("anim2gltf") {
        Hint::Sure(Turn::EveryJoint)
    } else if generator.contains("Blender") || turned_above {
        Hint::Likely(Turn::TopJoints)
    } else {
        Hint::Likely(Turn::EveryJoint)
    };
    to_model(name, file_joints, hint, naming)
}

/// What a file says of the way it was turned, before its rest pose is looked at.
#[derive(Debug, Clone, Copy)]
pub(super) enum Hint {
    Sure(Turn),
    Likely(Turn),
}

/// Joints of a Y-up file in metres to a skeleton.
pub(super) fn to_model(
    name: &str,
    mut joints: Vec<FileJoint>,
    hint: Hint,
    naming: Naming,
) -> Result<SkeletonFile> {
    let mut notes = Vec::new();
    if joints.is_empty() {
        return Err(Error::unsupported(
            "found no joint in the file, expected a skin, or nodes that are joints",
        ));
    }
    let parents: Vec<Option<usize>> = joints.iter().map(|j| j.parent).collect();
    let mut units = vec![1.0_f32; joints.len()];
    for i in top_down(&parents) {
        let Some(p) = parents[i] else {
            // A uniform scale on a top joint is a unit of length.
            let unit = joints[i].rest.scale.x;
            let uniform = (joints[i].rest.scale - Vec3::splat(unit)).abs().max_element() <= 1e-5 * unit;
            if uniform && (unit - 1.0).abs() >= 1e-5 {
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
    let turn = match hint {
        Hint::Sure(turn) => turn,
        Hint::Likely(likely) => fitting_turn(&joints, naming).unwrap_or(likely),
    };
    notes.push(
        match turn {
            Turn::EveryJoint => "the axes of every joint are turned to Z up",
            Turn::TopJoints => "the axes of the top joints are turned to Z up, the others stand as they are",
            Turn::NoJoint => "the file is Z up: the axes stand as they are",
        }
        .to_owned(),
    );
    let mut roots = joints.iter().filter(|j| j.parent.is_none()).count();
    let model = joints.into_iter().map(|joint| {
        let mut id = naming.joint_id(&joint.name);
        // A root bone has tag 0 whatever it is called (docs/formats/rage.md, section 9), where it is alone and no
        // ped's.
        let is_named = rage::ped_bone_by_name(&joint.name).is_some() || joint.name.starts_with("tag_");
        if naming == Naming::Rage
            && roots == 1
            && joint.parent.is_none()
            && !is_named
            && id != JointId::RootMotion
        {
            id = JointId::RageTag(0);
            roots = 0;
        }
        let rest = match (turn, joint.parent) {
            (Turn::EveryJoint, _) => permuted(&joint.rest),
            (Turn::TopJoints, None) => Trs {
                rotation: (Z_UP * joint.rest.rotation.as_dquat()).normalize().as_quat(),
                ..moved(&joint.rest)
            },
            (Turn::TopJoints, Some(_)) | (Turn::NoJoint, _) => joint.rest,
        };
        Joint { id, name: Some(joint.name).filter(|n| !n.is_empty()), parent: joint.parent, rest }
    });
    let skeleton = Skeleton::new(name, model.collect())?;
    Ok(SkeletonFile { skeleton, notes })
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

/// The turn under which the rest pose fits the ped table, where at least four of its bones below the top are
/// there, one way fits twice as well as the other and well at all.
fn fitting_turn(joints: &[FileJoint], naming: Naming) -> Option<Turn> {
    if naming != Naming::Rage {
        return None;
    }
    let mut count = 0;
    let (mut every, mut top) = (0.0, 0.0);
    for joint in joints.iter().filter(|j| j.parent.is_some()) {
        let Some(bone) = rage::ped_bone_by_name(&joint.name) else { continue };
        let (Some(translation), Some(rotation)) = (bone.translation, bone.rotation) else { continue };
        // Metres and half radians: a bone is some decimetres long, so both weigh alike.
        let miss = |t: &Trs| {
            let turn = 1.0 - f64::from(t.rotation.dot(rotation)).abs().min(1.0);
            f64::from(t.translation.distance(translation)) + turn.sqrt()
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

/// The JSON chunk of a GLB: magic, u32 version 2, u32 length; then chunks of u32 length, u32 type, bytes.
fn json_chunk(bytes: &[u8]) -> Result<&[u8]> {
    let mut c = Cursor::new(bytes, 0);
    c.skip(4, "the magic")?;
    let version = c.u32("the version")?;
    if version != 2 {
        return Err(Error::unsupported(format!("found glTF version {version}, expected 2")).at(4));
    }
    c.skip(4, "the length")?;
    let length = c.u32("the length of the first chunk")? as usize;
    let kind = c.array::<4>("the type of the first chunk")?;
    if &kind != b"JSON" {
        return Err(Error::malformed(16, format_args!("\"{}\"", kind.escape_ascii()), "a JSON chunk"));
    }
    c.take(length, "the JSON chunk")
}

fn bad(i: usize, text: String) -> Error {
    Error::new(ErrorKind::Malformed, text).in_entry(format!("node {i}"))
}

/// Parent of each node; every node has at most one, and none is its own ancestor.
fn parents(nodes: &[Node]) -> Result<Vec<Option<usize>>> {
    let mut parents = vec![None; nodes.len()];
    for (i, node) in nodes.iter().enumerate() {
        for &child in &node.children {
            let Some(slot) = parents.get_mut(child) else {
                return Err(bad(
                    i,
                    format!("found child {child}, expected one of the {} nodes", nodes.len()),
                ));
            };
            if slot.replace(i).is_some() {
                return Err(bad(child, "found two parents, expected one".to_owned()));
            }
        }
    }
    if let Some(i) = top_down_marks(&parents).1.iter().position(|seen| !seen) {
        return Err(bad(i, "found it among its own ancestors, expected a tree".to_owned()));
    }
    Ok(parents)
}

/// Nodes, parents before children.
pub(super) fn top_down(parents: &[Option<usize>]) -> Vec<usize> {
    top_down_marks(parents).0
}

/// As [`top_down`], with a mark on each node that hangs from a root.
fn top_down_marks(parents: &[Option<usize>]) -> (Vec<usize>, Vec<bool>) {
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); parents.len()];
    let mut order = Vec::with_capacity(parents.len());
    for (i, parent) in parents.iter().enumerate() {
        match parent {
            Some(p) => children[*p].push(i),
            None => order.push(i),
        }
    }
    let mut seen = vec![false; parents.len()];
    let mut next = 0;
    while let Some(&i) = order.get(next) {
        seen[i] = true;
        order.extend(&children[i]);
        next += 1;
    }
    (order, seen)
}

fn joints(document: &Document) -> Result<Vec<bool>> {
    let nodes = &document.nodes;
    let mut is_joint = vec![false; nodes.len()];
    for (s, skin) in document.skins.iter().enumerate() {
        for &joint in &skin.joints {
            *is_joint.get_mut(joint).ok_or_else(|| {
                Error::new(
                    ErrorKind::Malformed,
                    format!("found joint {joint}, expected one of the {} nodes", nodes.len()),
                )
                .in_entry(format!("skin {s}"))
            })? = true;
        }
    }
    if document.skins.is_empty() {
        for (is_joint, node) in is_joint.iter_mut().zip(nodes) {
            *is_joint = node.mesh.is_none() && node.camera.is_none() && node.name.is_some();
        }
    }
    Ok(is_joint)
}

fn transform(i: usize, node: &Node) -> Result<Trs> {
    let trs = match &node.matrix {
        Some(m) => from_matrix(&DMat4::from_cols_array(&m.map(f64::from))),
        None => {
            let q = Quat::from_array(node.rotation.unwrap_or([0.0, 0.0, 0.0, 1.0]));
            Trs {
                translation: Vec3::from_array(node.translation.unwrap_or_default()),
                // A quaternion that is unit but for the rounding to f32 stays as it is, to the bit.
                rotation: if (q.length_squared() - 1.0).abs() < 4e-7 {
                    q
                } else {
                    q.as_dquat().normalize().as_quat()
                },
                scale: Vec3::from_array(node.scale.unwrap_or([1.0; 3])),
            }
        }
    };
    if trs.translation.is_finite() && trs.rotation.is_finite() && trs.scale.is_finite() {
        Ok(trs)
    } else {
        Err(bad(i, "found a transform that is no number, expected numbers".to_owned()))
    }
}

/// `a` then `b` below it, as one transform; a shear that comes of it cannot be held.
pub(super) fn compose(a: &Trs, b: &Trs) -> Trs {
    if *a == Trs::IDENTITY {
        return *b;
    }
    from_matrix(&(a.matrix() * b.matrix()))
}

fn from_matrix(m: &DMat4) -> Trs {
    let (scale, rotation, translation): (DVec3, DQuat, DVec3) = m.to_scale_rotation_translation();
    Trs {
        translation: translation.as_vec3(),
        rotation: rotation.normalize().as_quat(),
        scale: snapped(scale),
    }
}

/// Scale factors with the rounding of a matrix product taken off: within 1e-6 of one is one.
fn snapped(scale: DVec3) -> Vec3 {
    let snap = |v: f64| if (v - 1.0).abs() < 1e-6 { 1.0 } else { v as f32 };
    Vec3::new(snap(scale.x), snap(scale.y), snap(scale.z))
}
