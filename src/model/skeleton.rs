//! A skeleton: joints with parents and a rest pose.

use glam::{DMat4, DQuat, DVec3, Quat, Vec3};
use rustc_hash::FxHashMap;

use crate::error::{Error, ErrorKind, Result};
use crate::model::clip::JointId;

/// A parent-local transform: scale, then rotation, then translation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trs {
    /// Metres.
    pub translation: Vec3,
    /// Unit quaternion.
    pub rotation: Quat,
    /// Factors along the axes.
    pub scale: Vec3,
}

impl Trs {
    /// No change.
    pub const IDENTITY: Trs = Trs { translation: Vec3::ZERO, rotation: Quat::IDENTITY, scale: Vec3::ONE };

    /// As a matrix for column vectors, in f64.
    pub fn matrix(&self) -> DMat4 {
        DMat4::from_scale_rotation_translation(
            self.scale.as_dvec3(),
            self.rotation.as_dquat().normalize(),
            self.translation.as_dvec3(),
        )
    }
}

impl Default for Trs {
    fn default() -> Self {
        Trs::IDENTITY
    }
}

/// One joint of a [`Skeleton`].
#[derive(Debug, Clone, PartialEq)]
pub struct Joint {
    /// What tracks call it.
    pub id: JointId,
    /// Its name, where the source of the skeleton gives one.
    pub name: Option<String>,
    /// Index of the parent, always before the joint itself; `None` for a root.
    pub parent: Option<usize>,
    /// Parent-local rest pose.
    pub rest: Trs,
}

/// Joints, parents before children. Made by [`Skeleton::new`], which proves that.
#[derive(Debug, Clone, PartialEq)]
pub struct Skeleton {
    /// What to call it in the report: a file, a resource, `ped`.
    pub name: String,
    joints: Vec<Joint>,
    index: FxHashMap<JointId, usize>,
}

/// A skeleton with what a reader of the report should know of how it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct SkeletonFile {
    /// The skeleton.
    pub skeleton: Skeleton,
    /// Deviations and decisions, one sentence each.
    pub notes: Vec<String>,
}

impl Skeleton {
    /// Puts parents before children (keeping the order otherwise) and refuses what is no forest.
    ///
    /// # Errors
    /// A parent outside the list, or a loop. Of two joints with one id the first is found by [`Skeleton::find`].
    pub fn new(name: impl Into<String>, joints: Vec<Joint>) -> Result<Self> {
        let name = name.into();
        let bad = |text: String| Error::new(ErrorKind::Malformed, text).in_entry(format!("skeleton {name}"));
        if let Some((i, joint)) =
            joints.iter().enumerate().find(|(_, j)| j.parent.is_some_and(|p| p >= joints.len()))
        {
            return Err(bad(format!(
                "found parent {} of joint {i}, expected one of the {} joints",
                joint.parent.unwrap_or_default(),
                joints.len()
            )));
        }
        let sorted = joints.iter().enumerate().all(|(i, j)| j.parent.is_none_or(|p| p < i));
        let joints = if sorted { joints } else { sort_parents_first(joints).map_err(bad)? };
        let mut index = FxHashMap::with_capacity_and_hasher(joints.len(), rustc_hash::FxBuildHasher);
        for (i, joint) in joints.iter().enumerate() {
            index.entry(joint.id).or_insert(i);
        }
        Ok(Skeleton { name, joints, index })
    }

    /// The joints, parents before children.
    pub fn joints(&self) -> &[Joint] {
        &self.joints
    }

    /// Index of the joint that tracks call `id`.
    pub fn find(&self, id: JointId) -> Option<usize> {
        self.index.get(&id).copied()
    }

    /// Model-space matrices for the given parent-local pose (one [`Trs`] a joint).
    pub fn model_matrices(&self, local: &[Trs]) -> Vec<DMat4> {
        let mut out: Vec<DMat4> = Vec::with_capacity(self.joints.len());
        for (joint, trs) in self.joints.iter().zip(local) {
            let m = trs.matrix();
            out.push(joint.parent.map_or(m, |p| out[p] * m));
        }
        out
    }

    /// Model-space rest rotations and positions, for readers that check themselves by them.
    pub fn rest_model(&self) -> Vec<(DQuat, DVec3)> {
        let local: Vec<Trs> = self.joints.iter().map(|j| j.rest).collect();
        self.model_matrices(&local)
            .into_iter()
            .map(|m| {
                let (_, r, t) = m.to_scale_rotation_translation();
                (r, t)
            })
            .collect()
    }
}

/// Depth-first order from each root, in the order of the list.
fn sort_parents_first(joints: Vec<Joint>) -> std::result::Result<Vec<Joint>, String> {
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); joints.len()];
    let mut stack = Vec::new();
    for (i, joint) in joints.iter().enumerate().rev() {
        match joint.parent {
            Some(p) => children[p].push(i),
            None => stack.push(i),
        }
    }
    let mut place = vec![usize::MAX; joints.len()];
    let mut order = Vec::with_capacity(joints.len());
    while let Some(i) = stack.pop() {
        place[i] = order.len();
        order.push(i);
        stack.extend(&children[i]);
    }
    if order.len() != joints.len() {
        let i = place.iter().position(|p| *p == usize::MAX).unwrap_or_default();
        return Err(format!("found joint {i} among its own ancestors, expected parents that end at a root"));
    }
    Ok(order
        .into_iter()
        .map(|i| {
            let mut joint = joints[i].clone();
            joint.parent = joint.parent.map(|p| place[p]);
            joint
        })
        .collect())
}
