//! The rest pose of an imported skeleton.
//!
//! Tools save the nodes in whatever pose they stand at that moment. Where a skin is bound to the joints, its bind
//! pose tells where they stood at rest: the inverse bind matrices of glTF, the clusters and bind poses of FBX.
//!
//! Of a joint and the joint above it in one bind pose, the space of the pose cancels: the rest of the joint is
//! `inverse(B parent) * B joint`. Only a joint without such a parent needs to know where the pose stands in the
//! scene. FBX says the scene itself. glTF leaves it open, and tools put it in the scene, at a mesh, at the
//! skeleton's root or at a node above the joints: the space is taken in which most joints stand in their bind
//! pose.
//!
//! A node that stands at its bind pose within rounding keeps its own transform, to the bit. A joint without a bind
//! pose stands below its parent as its node does.

use glam::{DMat4, DVec4};

use crate::games::own::scene::{BindPose, ImportedScene};
use crate::games::own::transform::decomposed;
use crate::model::Trs;

/// How far columns of equal rotations and scales lie apart, relative: f32 matrices, inverted.
const TURN_ROUNDING: f64 = 1e-4;
/// How far equal positions lie apart, as a part of the skeleton's size: 0.04 mm of a human.
const PLACE_ROUNDING: f64 = 2e-5;
/// Different spaces that are tried for a pose, and nodes of each kind whose space may be one; files have a handful.
const MAX_SPACES: usize = 16;
const MAX_NODES: usize = 64;

/// The rest of each joint in the space of the joint above it (the scene's, where there is none), in the file's
/// axes and units. `above` is that joint and `from_joint` the node's transform in its space, of every node.
/// Entries of nodes that are no joints mean nothing.
pub(super) fn of_joints(
    scene: &ImportedScene,
    is_joint: &[bool],
    above: &[Option<usize>],
    from_joint: &[Trs],
    notes: &mut Vec<String>,
) -> Vec<Trs> {
    let nodes = &scene.joints;
    let mut rest = from_joint.to_vec();
    let count = is_joint.iter().filter(|j| **j).count();
    // Of each joint the bind poses that hold it, rising, with its matrix; the first of two in one pose.
    let mut binds: Vec<Vec<(usize, DMat4)>> = vec![Vec::new(); nodes.len()];
    for (pose, i, matrix) in
        scene.bind_poses.iter().enumerate().flat_map(|(k, p)| p.joints.iter().map(move |(i, m)| (k, *i, *m)))
    {
        if is_joint[i] && binds[i].last().is_none_or(|last| last.0 != pose) {
            binds[i].push((pose, matrix));
        }
    }
    // Where the nodes stand in the scene now.
    let mut world: Vec<DMat4> = Vec::with_capacity(nodes.len());
    for node in nodes {
        let own = node.file.transform.matrix();
        world.push(node.parent.map_or(own, |p| world[p] * own));
    }
    let spaces: Vec<DMat4> =
        scene.bind_poses.iter().map(|pose| space(scene, pose, is_joint, above, &world)).collect();
    let sizes: Vec<f64> = scene.bind_poses.iter().map(extent).collect();

    // Where the joints stand in the scene at rest.
    let mut rest_world: Vec<DMat4> = world.clone();
    let (mut moved, mut unbound) = (0, 0);
    for i in (0..nodes.len()).filter(|i| is_joint[*i]) {
        let parent = above[i].map_or(DMat4::IDENTITY, |p| rest_world[p]);
        let from_node = parent * from_joint[i].matrix();
        let shared = above[i].and_then(|p| {
            binds[i].iter().find_map(|(pose, matrix)| {
                let k = binds[p].binary_search_by_key(pose, |b| b.0).ok()?;
                // Both in the scene: one place for all poses that agree.
                Some((*pose, parent * (binds[p][k].1.inverse() * *matrix)))
            })
        });
        let first = || binds[i].first().map(|(pose, matrix)| (*pose, spaces[*pose] * *matrix));
        let Some((pose, bound)) = shared.or_else(first) else {
            unbound += 1;
            rest_world[i] = from_node;
            continue;
        };
        let scale = spaces[pose].x_axis.truncate().length();
        rest_world[i] = bound;
        if is_near(&bound, &from_node, sizes[pose] * scale) {
            continue;
        }
        let local = parent.inverse() * bound;
        let trs = decomposed(&local, 1e-5);
        if local.is_finite()
            && trs.translation.is_finite()
            && trs.rotation.is_finite()
            && trs.scale.is_finite()
        {
            rest[i] = trs;
            moved += 1;
        } else {
            rest_world[i] = from_node;
        }
    }
    if moved > 0 {
        notes.push(format!(
            "{moved} of {count} joints do not stand at rest in the file: their rest is taken from its bind pose"
        ));
    }
    if unbound > 0 && scene.has_animation {
        notes.push(format!(
            "the file is animated and has no bind pose of {unbound} of {count} joints: the pose in which they \
             were saved is taken as their rest"
        ));
    }
    rest
}

/// From the space of a bind pose to the scene.
fn space(
    scene: &ImportedScene,
    pose: &BindPose,
    is_joint: &[bool],
    above: &[Option<usize>],
    world: &[DMat4],
) -> DMat4 {
    if pose.in_scene {
        return DMat4::IDENTITY;
    }
    // Parents stand before children: nothing of the pose is above its first joint.
    let Some(&(top, top_bind)) = pose.joints.iter().min_by_key(|(i, _)| *i) else {
        return DMat4::IDENTITY;
    };
    // (space, whether no joint moves it)
    let mut spaces = vec![(DMat4::IDENTITY, true)];
    let mut add = |i: usize| {
        let space = world[i];
        let can_be_inverted = space.is_finite() && space.inverse().is_finite();
        if can_be_inverted && spaces.len() < MAX_SPACES && spaces.iter().all(|s| !is_near(&s.0, &space, 1.0))
        {
            spaces.push((space, !is_joint[i] && above[i].is_none()));
        }
    };
    let ancestors = std::iter::successors(scene.joints[top].parent, |i| scene.joints[*i].parent);
    ancestors.take(MAX_NODES).chain(pose.spaces.iter().copied().take(MAX_NODES)).for_each(&mut add);
    let size = extent(pose);
    let at_rest = |space: &DMat4| {
        let size = size * space.x_axis.truncate().length();
        pose.joints.iter().filter(|(i, bind)| is_near(&(*space * *bind), &world[*i], size)).count()
    };
    let mut best = (0, DMat4::IDENTITY);
    for (space, _) in &spaces {
        let count = at_rest(space);
        if count > best.0 {
            best = (count, *space);
        }
    }
    // The space in which the top joint stands at rest.
    let of_top = world[top] * top_bind.inverse();
    if best.0 > 0 || !of_top.is_finite() {
        return best.1;
    }
    // All joints stand in a pose, or the pose has a space of its own. It has where the nodes have another size
    // in it than in any other (files with packed positions), or where all of them agree on it and nothing is
    // animated. A top joint that is stretched along an axis says nothing of sizes: that is a pose.
    let lengths = [of_top.x_axis, of_top.y_axis, of_top.z_axis].map(|axis| axis.truncate().length());
    let is_uniform = lengths.iter().all(|l| (l - lengths[0]).abs() <= 1e-2 * lengths[0]);
    let fits_size = |space: &&DMat4| {
        !is_uniform || (space.x_axis.truncate().length() - lengths[0]).abs() <= 1e-2 * lengths[0]
    };
    if !scene.has_animation && at_rest(&of_top) == pose.joints.len() {
        return of_top;
    }
    let apart = |space: &DMat4| {
        let difference = space.to_cols_array().into_iter().zip(of_top.to_cols_array());
        difference.map(|(a, b)| (a - b) * (a - b)).sum::<f64>()
    };
    let fixed = spaces.iter().filter(|s| s.1).map(|s| &s.0);
    let fitting = fixed.filter(fits_size).min_by(|a, b| apart(a).total_cmp(&apart(b)));
    fitting.copied().unwrap_or(of_top)
}

/// How far the joints of a pose lie apart at most, along an axis; 1 where that is nothing.
fn extent(pose: &BindPose) -> f64 {
    let mut least = DVec4::splat(f64::INFINITY);
    let mut most = DVec4::splat(f64::NEG_INFINITY);
    for (_, matrix) in &pose.joints {
        least = least.min(matrix.w_axis);
        most = most.max(matrix.w_axis);
    }
    let extent = (most - least).max_element();
    if extent.is_finite() && extent > 0.0 { extent } else { 1.0 }
}

/// Whether two transforms of a skeleton of a size are equal but for rounding.
fn is_near(a: &DMat4, b: &DMat4, size: f64) -> bool {
    let columns = [(a.x_axis, b.x_axis), (a.y_axis, b.y_axis), (a.z_axis, b.z_axis)];
    columns.iter().all(|(a, b)| (*a - *b).length() <= TURN_ROUNDING * a.length().max(b.length()))
        && (a.w_axis - b.w_axis).length() <= PLACE_ROUNDING * size
}
