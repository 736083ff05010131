//! The imported scene: what a file of the user holds, whatever its format.
//!
//! Space: right-handed, Z up, metres, as the source's. Quaternions are x, y, z, w and unit. Only
//! [`FileNode::transform`] and [`BindPose`] keep the file's own space, for skeletons: they are turned there by
//! rules that look at the whole file.

use std::collections::BTreeMap;

use glam::{DAffine3, DMat4, DQuat, DVec3};
use serde_json::Value;

use crate::error::{Error, ErrorKind, Result};
use crate::model::Trs;

/// How much of a file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Joints and animations, without what stands apart from both. What cannot be played exactly is refused.
    Animations,
    /// All nodes and their bind poses. Animations are not read, so that nothing about them is refused.
    Skeleton,
}

/// Which format a file has: it says how its clock rounds instants, and whether two files can be held against
/// each other key by key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Key times are f32 seconds.
    Gltf,
    /// Key times are whole ticks of 1 / 46,186,158,000 s.
    Fbx,
}

/// Ticks of FBX in a second.
pub const FBX_TICKS_PER_S: f64 = 46_186_158_000.0;

impl Format {
    /// `seconds` as near as a file of this format can state it.
    #[inline]
    pub fn stated(self, seconds: f64) -> f64 {
        match self {
            Format::Gltf => f64::from(seconds as f32),
            Format::Fbx => (seconds * FBX_TICKS_PER_S).round() / FBX_TICKS_PER_S,
        }
    }
}

/// A parent-local transform in f64: scale, then rotation, then translation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Transform {
    /// Metres.
    pub translation: DVec3,
    /// Unit.
    pub rotation: DQuat,
    /// Factors.
    pub scale: DVec3,
}

impl Transform {
    /// No change.
    pub const IDENTITY: Transform =
        Transform { translation: DVec3::ZERO, rotation: DQuat::IDENTITY, scale: DVec3::ONE };

    /// As an affine map.
    #[inline]
    pub fn affine(&self) -> DAffine3 {
        DAffine3::from_scale_rotation_translation(self.scale, self.rotation, self.translation)
    }
}

/// A node that moves or that something hangs on.
#[derive(Debug, Clone, PartialEq)]
pub struct Joint {
    /// Its name; `node_<index>` where the file gives none.
    pub name: String,
    /// Index of its parent, always before it.
    pub parent: Option<usize>,
    /// Its own transform.
    pub rest: Transform,
    /// Inverse bind matrix as the file states it (glTF).
    pub inverse_bind: Option<DMat4>,
    /// Its extras.
    pub extras: Option<Value>,
    /// How the file states it.
    pub file: FileNode,
}

/// A node as the file states it.
#[derive(Debug, Clone, PartialEq)]
pub struct FileNode {
    /// Its place among the nodes of the file.
    pub index: usize,
    /// Whether the file gives it a name.
    pub is_named: bool,
    /// What it is for.
    pub kind: NodeKind,
    /// Its own transform in the file's space and units; may hold values that are no numbers.
    pub transform: Trs,
}

/// What a node is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeKind {
    /// A joint of a skin (glTF) or a limb (FBX).
    Joint,
    /// Draws nothing: a joint in a file that declares none.
    Empty,
    /// A mesh, a camera and the like.
    Other,
}

/// Where joints stood when something was bound to them: a skin of glTF, a skin or a bind pose of FBX.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BindPose {
    /// (index into [`ImportedScene::joints`], joint to the space of the pose), in the file's units. Each matrix
    /// is finite and can be inverted.
    pub joints: Vec<(usize, DMat4)>,
    /// Indices of nodes whose space may be that of the pose, where the format leaves it open (glTF).
    pub spaces: Vec<usize>,
    /// Whether the pose stands in the scene's space for sure (FBX).
    pub in_scene: bool,
}

/// What of a joint a channel moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Path {
    /// Metres.
    Translation,
    /// Rotation.
    Rotation,
    /// Factors.
    Scale,
}

impl Path {
    /// As a report calls it.
    pub fn name(self) -> &'static str {
        match self {
            Path::Translation => "translation",
            Path::Rotation => "rotation",
            Path::Scale => "scale",
        }
    }
}

/// How a curve goes on from a key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mode {
    /// The key holds up to the next.
    Step,
    /// The next key's value holds from here on (FBX).
    StepNext,
    /// Straight; rotations of glTF along the great arc.
    Linear,
    /// By tangents.
    Cubic,
}

impl Mode {
    /// As glTF calls it.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Step => "STEP",
            Mode::StepNext => "STEP (next)",
            Mode::Linear => "LINEAR",
            Mode::Cubic => "CUBIC",
        }
    }
}

/// Keys whose values are rows of up to four numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Keys {
    /// Seconds, strictly rising. Not empty.
    pub times: Vec<f64>,
    /// One row a key: x, y, z and for rotations w. Cubic: in-tangent, value, out-tangent a key.
    pub rows: Vec<[f64; 4]>,
    /// How it goes from key to key.
    pub mode: Mode,
}

/// Keys of one number (FBX).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Axis {
    /// Seconds, strictly rising. Empty: `default` always.
    pub times: Vec<f64>,
    /// One a key.
    pub values: Vec<f64>,
    /// One a key.
    pub modes: Vec<AxisMode>,
    /// The value without keys.
    pub default: f64,
}

/// How one number goes on from a key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum AxisMode {
    /// See [`Mode`].
    Plain(Mode),
    /// Slope at this key to the right, and at the next key from the left, units a second.
    Cubic([f64; 2]),
}

impl AxisMode {
    /// What is declared.
    pub fn mode(self) -> Mode {
        match self {
            AxisMode::Plain(mode) => mode,
            AxisMode::Cubic(_) => Mode::Cubic,
        }
    }
}

/// How a file's space lies in the source's: a signed permutation and a unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Basis {
    /// For each source axis (right, away from the viewer, up): which axis of the file, and its sign.
    pub rows: [(usize, f64); 3],
    /// Metres in a unit.
    pub metres: f64,
}

impl Basis {
    /// glTF: Y up, metres. (x, y, z) of the file is (x, -z, y) here.
    pub const GLTF: Basis = Basis { rows: [(0, 1.0), (2, -1.0), (1, 1.0)], metres: 1.0 };

    /// Whether it keeps right-handedness.
    pub fn is_rotation(&self) -> bool {
        let [(a, s), (b, t), (c, u)] = self.rows;
        let even = matches!((a, b, c), (0, 1, 2) | (1, 2, 0) | (2, 0, 1));
        let distinct = a != b && b != c && a != c && a.max(b).max(c) < 3;
        distinct && s * t * u == if even { 1.0 } else { -1.0 }
    }

    fn turn(&self, v: DVec3) -> DVec3 {
        // 0 + : one way to write zero.
        DVec3::from_array(self.rows.map(|(axis, sign)| 0.0 + sign * v[axis.min(2)]))
    }

    /// A translation.
    pub fn translation(&self, v: DVec3) -> DVec3 {
        self.turn(v) * self.metres
    }

    /// A rotation: its axis turns with the space.
    pub fn rotation(&self, q: DQuat) -> DQuat {
        let v = self.turn(q.xyz_vector());
        DQuat::from_xyzw(v.x, v.y, v.z, q.w)
    }

    /// Factors along axes.
    pub fn scale(&self, s: DVec3) -> DVec3 {
        DVec3::from_array(self.rows.map(|(axis, _)| s[axis.min(2)]))
    }
}

trait XyzVector {
    fn xyz_vector(self) -> DVec3;
}

impl XyzVector for DQuat {
    fn xyz_vector(self) -> DVec3 {
        DVec3::new(self.x, self.y, self.z)
    }
}

/// How three angles (degrees) of FBX make a rotation: `pre`, then the angles, then `post` undone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Angles {
    /// `RotationOrder`: 0 is X first, then Y, then Z about fixed axes.
    pub order: u8,
    /// `PreRotation`.
    pub pre: DQuat,
    /// The inverse of `PostRotation`.
    pub post_inverse: DQuat,
}

impl Angles {
    /// X, Y, Z and nothing else.
    pub const PLAIN: Angles = Angles { order: 0, pre: DQuat::IDENTITY, post_inverse: DQuat::IDENTITY };

    /// The rotation of `degrees`.
    pub fn rotation(&self, degrees: [f64; 3]) -> DQuat {
        self.pre * euler(degrees, self.order) * self.post_inverse
    }
}

/// Rotations about the axes in one of FBX's orders.
pub fn euler(degrees: [f64; 3], order: u8) -> DQuat {
    let about = |axis: usize| {
        let (sin, cos) = libm::sincos(degrees[axis].to_radians() * 0.5);
        let mut q = [0.0, 0.0, 0.0, cos];
        q[axis] = sin;
        DQuat::from_array(q)
    };
    let [first, second, third] = match order {
        1 => [0, 2, 1],
        2 => [1, 2, 0],
        3 => [1, 0, 2],
        4 => [2, 0, 1],
        5 => [2, 1, 0],
        _ => [0, 1, 2],
    };
    about(third) * about(second) * about(first)
}

/// The values of a channel over time.
#[derive(Debug, Clone, PartialEq)]
pub enum Curve {
    /// Rows in the source's space (glTF).
    Keys(Keys),
    /// Three numbers in the file's space, each with its own keys (FBX).
    Axes {
        /// X, Y, Z: units, degrees or factors.
        axes: Box<[Axis; 3]>,
        /// How angles make a rotation.
        angles: Angles,
        /// How the file's space lies in the source's.
        basis: Basis,
    },
}

impl Curve {
    /// The last key, seconds.
    pub fn last_s(&self) -> f64 {
        match self {
            Curve::Keys(keys) => keys.times.last().copied().unwrap_or(0.0),
            Curve::Axes { axes, .. } => {
                axes.iter().filter_map(|a| a.times.last()).fold(0.0, |m: f64, t| m.max(*t))
            }
        }
    }

    /// Appends the instants of all keys.
    pub fn push_times(&self, out: &mut Vec<f64>) {
        match self {
            Curve::Keys(keys) => out.extend_from_slice(&keys.times),
            Curve::Axes { axes, .. } => axes.iter().for_each(|a| out.extend_from_slice(&a.times)),
        }
    }

    /// Number of keys.
    pub fn key_count(&self) -> usize {
        match self {
            Curve::Keys(keys) => keys.times.len(),
            Curve::Axes { axes, .. } => axes.iter().map(|a| a.times.len()).sum(),
        }
    }
}

/// One moving property of one joint.
#[derive(Debug, Clone, PartialEq)]
pub struct Channel {
    /// Index into [`ImportedScene::joints`].
    pub joint: usize,
    /// What of it.
    pub path: Path,
    /// Its values.
    pub curve: Curve,
}

/// Numbers that move no joint: custom properties (FBX), pointers and weights (glTF).
#[derive(Debug, Clone, PartialEq)]
pub struct Numbers {
    /// What moves.
    pub name: String,
    /// Seconds.
    pub times: Vec<f64>,
    /// `values.len() / times.len()` a key.
    pub values: Vec<f64>,
    /// How it goes from the first key on.
    pub mode: Mode,
}

/// One clip of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Animation {
    /// Its name.
    pub name: String,
    /// The last key, or what the file states (FBX), seconds.
    pub length_s: f64,
    /// By joint, then path.
    pub channels: Vec<Channel>,
    /// What moves no joint, by name.
    pub numbers: Vec<Numbers>,
    /// Its extras.
    pub extras: Option<Value>,
}

impl Animation {
    /// A text of the extras.
    pub fn extra(&self, key: &str) -> Option<&str> {
        self.extras.as_ref()?.get(key)?.as_str()
    }

    /// `id` of the extras.
    pub fn id(&self) -> Option<&str> {
        self.extra("id")
    }

    /// The channel of a property of a joint.
    pub fn channel(&self, joint: usize, path: Path) -> Option<&Channel> {
        let i = self.channels.partition_point(|c| (c.joint, c.path) < (joint, path));
        self.channels.get(i).filter(|c| (c.joint, c.path) == (joint, path))
    }
}

/// What a file holds.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportedScene {
    /// Its format.
    pub format: Format,
    /// The program that wrote it, as the file calls it.
    pub writer: String,
    /// Whether the file's own space has Z up.
    pub is_z_up: bool,
    /// Metres in a unit of the file.
    pub metres: f64,
    /// Parents before children.
    pub joints: Vec<Joint>,
    /// In the file's order.
    pub animations: Vec<Animation>,
    /// How many things of other kinds it holds: meshes, skins, materials and so on.
    pub contents: BTreeMap<&'static str, usize>,
    /// Whether it holds animation, read or not.
    pub has_animation: bool,
    /// In the file's order. Empty unless [`Content::Skeleton`] was asked for.
    pub bind_poses: Vec<BindPose>,
    /// What was passed over, one sentence each.
    pub notes: Vec<String>,
}

impl ImportedScene {
    /// A scene without anything in it.
    pub fn empty(format: Format) -> Self {
        ImportedScene {
            format,
            writer: String::new(),
            is_z_up: false,
            metres: 1.0,
            joints: Vec::new(),
            animations: Vec::new(),
            contents: BTreeMap::new(),
            has_animation: false,
            bind_poses: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Index of the first joint of a name.
    pub fn joint(&self, name: &str) -> Option<usize> {
        self.joints.iter().position(|j| j.name == name)
    }
}

impl ImportedScene {
    /// Puts the nodes parents first and makes channels and bind poses point at the result. With
    /// [`Content::Animations`], only joints, what is animated and all above them stay (all nodes, where there
    /// are none). Channels are sorted; of two for one property the first stays.
    ///
    /// # Errors
    /// Malformed: nodes in a loop.
    pub(super) fn arrange(mut self, content: Content) -> Result<Self> {
        let order = parents_first(&self.joints)?;
        let mut wanted = vec![content == Content::Skeleton; self.joints.len()];
        for (wanted, joint) in wanted.iter_mut().zip(&self.joints) {
            *wanted |= joint.file.kind == NodeKind::Joint;
        }
        for channel in self.animations.iter().flat_map(|a| &a.channels) {
            wanted[channel.joint] = true;
        }
        if wanted.iter().all(|w| !w) {
            wanted.fill(true);
        }
        for &i in order.iter().rev() {
            if let (true, Some(p)) = (wanted[i], self.joints[i].parent) {
                wanted[p] = true;
            }
        }
        let mut place = vec![None; self.joints.len()];
        let mut nodes: Vec<Option<Joint>> = self.joints.into_iter().map(Some).collect();
        let mut joints = Vec::new();
        for i in order.into_iter().filter(|i| wanted[*i]) {
            let Some(mut joint) = nodes[i].take() else { continue };
            joint.parent = joint.parent.and_then(|p| place[p]);
            place[i] = Some(joints.len());
            joints.push(joint);
        }
        self.joints = joints;
        for animation in &mut self.animations {
            animation.channels.retain_mut(|c| match place[c.joint] {
                Some(joint) => {
                    c.joint = joint;
                    true
                }
                None => false,
            });
            animation.channels.sort_by_key(|c| (c.joint, c.path));
            animation.channels.dedup_by_key(|c| (c.joint, c.path));
            animation.numbers.sort_by(|a, b| a.name.cmp(&b.name));
        }
        for pose in &mut self.bind_poses {
            pose.joints = pose.joints.iter().filter_map(|(i, m)| Some((place[*i]?, *m))).collect();
            pose.spaces = pose.spaces.iter().filter_map(|i| place[*i]).collect();
        }
        Ok(self)
    }
}

/// Indices of all nodes, each behind its parent and before its parent's next child.
fn parents_first(nodes: &[Joint]) -> Result<Vec<usize>> {
    let mut order = Vec::with_capacity(nodes.len());
    let mut children = vec![Vec::new(); nodes.len()];
    let mut stack = Vec::new();
    for (i, node) in nodes.iter().enumerate().rev() {
        match node.parent {
            Some(p) if p < nodes.len() => children[p].push(i),
            _ => stack.push(i),
        }
    }
    while let Some(i) = stack.pop() {
        order.push(i);
        stack.extend(&children[i]);
    }
    if order.len() != nodes.len() {
        return Err(Error::new(
            ErrorKind::Malformed,
            format!("found {} nodes among their own ancestors, expected a forest", nodes.len() - order.len()),
        ));
    }
    Ok(order)
}
