//! A stick figure of the rig, for readers that refuse a file without a mesh and for people who want to see
//! something. Knows no file format.

use glam::{DVec3, Vec3};

use crate::model::{JointId, Skeleton};

/// Thickness of a stick as a part of its length.
const THICKNESS: f64 = 0.1;
/// Where along a stick it is thickest.
const WAIST: f64 = 0.15;
/// Joints nearer to each other than this (metres) get no stick.
const SHORTEST_M: f64 = 1e-4;
/// Radius (metres) of the marker of a joint that has neither children nor a parent to take a size from.
const ALONE_M: f64 = 0.05;
/// Radius of the marker at the end of a chain, as a part of the last stick's length.
const MARKER: f64 = 0.15;

/// A triangle mesh in source space (Z up, metres), at the rest pose; each vertex follows one joint wholly.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Mesh {
    /// Vertices, model space.
    pub positions: Vec<Vec3>,
    /// Vertex indices, counter-clockwise from outside.
    pub triangles: Vec<[u32; 3]>,
    /// The joint (index into the rig) that each vertex follows.
    pub joints: Vec<u32>,
}

/// An octahedral stick from each joint to each of its children, a small octahedron at the end of each chain.
/// The mover gets no stick to the skeleton: it is no part of the body. Empty only for a rig without joints.
pub fn build(rig: &Skeleton) -> Mesh {
    let positions: Vec<DVec3> = rig.rest_model().into_iter().map(|(_, t)| t).collect();
    let mut mesh = Mesh::default();
    let mut leaf = vec![true; positions.len()];
    for (i, joint) in rig.joints().iter().enumerate() {
        let Some(parent) = joint.parent else { continue };
        if rig.joints()[parent].id == JointId::RootMotion {
            continue;
        }
        leaf[parent] = false;
        let (from, to) = (positions[parent], positions[i]);
        let length = from.distance(to);
        if length > SHORTEST_M {
            let waist = from.lerp(to, WAIST);
            mesh.octahedron(parent, from, to, waist, length * THICKNESS);
        }
    }
    for (i, joint) in rig.joints().iter().enumerate() {
        if !leaf[i] || (joint.id == JointId::RootMotion && rig.joints().len() > 1) {
            continue;
        }
        let radius = match joint.parent {
            Some(p) if rig.joints()[p].id != JointId::RootMotion => {
                (positions[p].distance(positions[i]) * MARKER).max(SHORTEST_M)
            }
            _ => ALONE_M,
        };
        let (at, up) = (positions[i], DVec3::Z * radius);
        mesh.octahedron(i, at - up, at + up, at, radius);
    }
    mesh
}

impl Mesh {
    /// Four points of `radius` around `waist`, across the way from `from` to `to`, and these two as tips.
    fn octahedron(&mut self, joint: usize, from: DVec3, to: DVec3, waist: DVec3, radius: f64) {
        let along = to - from;
        // The axis that lies most across gives a stable frame.
        let across = if along.x.abs() <= along.y.abs() && along.x.abs() <= along.z.abs() {
            DVec3::X
        } else if along.y.abs() <= along.z.abs() {
            DVec3::Y
        } else {
            DVec3::Z
        };
        let u = along.cross(across).normalize_or_zero() * radius;
        let v = along.normalize_or_zero().cross(u);
        let base = self.positions.len() as u32;
        for p in [from, to, waist + u, waist + v, waist - u, waist - v] {
            self.positions.push(p.as_vec3());
            self.joints.push(joint as u32);
        }
        for i in 0..4 {
            let (a, b) = (base + 2 + i, base + 2 + (i + 1) % 4);
            self.triangles.push([base, b, a]);
            self.triangles.push([base + 1, a, b]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Joint, Trs};

    fn joint(id: JointId, parent: Option<usize>, translation: Vec3) -> Joint {
        Joint { id, name: None, parent, rest: Trs { translation, ..Trs::IDENTITY } }
    }

    #[test]
    fn sticks_are_closed_and_turned_outwards() {
        let rig = Skeleton::new(
            "t",
            vec![
                joint(JointId::RootMotion, None, Vec3::ZERO),
                joint(JointId::BoneTag(0), Some(0), Vec3::new(0.0, 0.0, 1.0)),
                joint(JointId::BoneTag(1), Some(1), Vec3::new(0.3, 0.0, 0.0)),
                joint(JointId::BoneTag(2), Some(1), Vec3::ZERO),
                joint(JointId::BoneTag(3), Some(2), Vec3::new(0.1, -0.4, 0.2)),
            ],
        )
        .unwrap();
        let mesh = build(&rig);
        // Two sticks (one joint lies on its parent), and a marker at each of the two ends.
        assert_eq!(mesh.positions.len(), 4 * 6);
        assert_eq!(mesh.triangles.len(), 4 * 8);
        assert_eq!(mesh.joints.len(), mesh.positions.len());
        assert!(!mesh.joints.contains(&0));
        for octahedron in mesh.triangles.chunks(8) {
            let volume: f32 = octahedron
                .iter()
                .map(|t| {
                    let [a, b, c] = t.map(|i| mesh.positions[i as usize]);
                    a.dot(b.cross(c)) / 6.0
                })
                .sum();
            assert!(volume > 0.0, "{volume}");
        }
    }

    #[test]
    fn a_single_joint_is_seen() {
        let rig = Skeleton::new("t", vec![joint(JointId::RootMotion, None, Vec3::ZERO)]).unwrap();
        assert_eq!(build(&rig).triangles.len(), 8);
    }
}
