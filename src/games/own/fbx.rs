//! Binary .fbx (version 7), read without any FBX library; the tests hold it against ufbx.
//!
//! FBX has no public specification; this is what open readers agree on.
//!
//! | Record | What of it |
//! |---|---|
//! | `GlobalSettings` | `UpAxis`, `FrontAxis`, `CoordAxis` with signs: the file's axes; `UnitScaleFactor`: cm in a unit |
//! | `Objects/Model` | id, name, kind; `Lcl Translation` / `Rotation` / `Scaling`, `PreRotation`, `PostRotation`, `RotationOrder` where `RotationActive`; user properties `<clip>\|extras` |
//! | `Objects/AnimationStack` | a clip: name, `LocalStop` |
//! | `Objects/AnimationLayer` | one in a stack |
//! | `Objects/AnimationCurveNode` | three numbers with defaults `d\|X` ... |
//! | `Objects/AnimationCurve` | `KeyTime` ticks, `KeyValueFloat`, flags (2 constant, with 0x100 the next value, 4 linear, 8 cubic) and slopes for runs of keys |
//! | `Objects/Pose` | kind `BindPose`: `PoseNode`s of `Node` (a model's id) and `Matrix` (joint to scene) |
//! | `Objects/Deformer` | kind `Skin`; kind `Cluster`: `TransformLink`, the limb's matrix when it was bound |
//! | `Connections/C` | `OO` child, parent; `OP` child, parent, property |
//!
//! Cubic keys are played by their stored slopes, without weights. Pivots, several layers and mirrored axes are
//! refused. What inherits scale in another way than by matrices (`InheritType` other than 1) is played as if it
//! did not: the same as long as no scale is keyed. For a skeleton, nothing of this is refused: pivots are passed
//! over with a note.

use std::collections::{BTreeMap, HashMap, HashSet};

use glam::{DMat4, DQuat, DVec3};
use serde_json::Value;

use crate::error::{Error, ErrorKind, Result};
use crate::games::own::fbx_records;
use crate::games::own::fbx_records::{Record, Records};
use crate::games::own::scene::{
    Angles, Animation, Axis, AxisMode, Basis, BindPose, Channel, Content, Curve, FBX_TICKS_PER_S, FileNode,
    Format, ImportedScene, Joint, Mode, NodeKind, Numbers, Path, Transform, euler,
};
use crate::model::Trs;

pub use crate::games::own::fbx_records::MAGIC;

/// Numbers of a `Properties70`, by name.
type Settings<'a> = HashMap<&'a [u8], [f64; 3]>;

struct Model {
    name: String,
    is_limb: bool,
    rest: Transform,
    rest_degrees: [f64; 3],
    rest_translation: [f64; 3],
    rest_scale: [f64; 3],
    angles: Angles,
    extras: Vec<(String, Value)>,
    /// What of its transform is not read.
    unread: Option<String>,
}

#[derive(Default)]
struct Objects<'a> {
    models: Vec<Model>,
    /// (id, name, stop in ticks)
    stacks: Vec<(i64, String, Option<i64>)>,
    layers: Vec<i64>,
    nodes: HashMap<i64, CurveNode>,
    curves: HashMap<i64, Record<'a>>,
    model_ids: HashMap<i64, usize>,
    contents: BTreeMap<&'static str, usize>,
    /// The nodes of each bind pose: (model id, matrix).
    poses: Vec<Vec<(i64, DMat4)>>,
    /// Ids of skins.
    skins: Vec<i64>,
    /// `TransformLink` of clusters, by id.
    clusters: BTreeMap<i64, DMat4>,
}

/// What moves one property: defaults by axis name, then its connections.
#[derive(Default)]
struct CurveNode {
    defaults: HashMap<Vec<u8>, f64>,
    /// (model, property)
    target: Option<(usize, Vec<u8>)>,
    /// (axis name, curve), in the file's order.
    curves: Vec<(Vec<u8>, i64)>,
}

fn bad(found: impl std::fmt::Display, expected: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Malformed, format!("found {found}, expected {expected}"))
}

/// Reads a file.
///
/// # Errors
/// Malformed: records that do not fit each other, keys that do not rise, numbers that are none, models in a loop.
/// Unsupported: see the module.
pub fn read(bytes: &[u8], content: Content) -> Result<ImportedScene> {
    let mut top = fbx_records::open(bytes)?;
    let mut global = Settings::new();
    let mut objects = Objects::default();
    let mut links = Vec::new();
    let mut writer = String::new();
    let mut notes = Vec::new();
    while let Some(record) = top.next()? {
        match record.name {
            b"Creator" => {
                let text = record.properties.first().and_then(|p| p.text()).unwrap_or_default();
                writer = String::from_utf8_lossy(text).into_owned();
            }
            b"GlobalSettings" => global = settings(&record)?,
            b"Objects" => objects.read(record.below(), content, &mut notes)?,
            b"Connections" => links = connections(record.below())?,
            _ => {}
        }
    }
    let basis = match (basis(&global), content) {
        // A skeleton needs the axis that is up and the unit alone.
        (Err(_), Content::Skeleton) => {
            Basis { metres: metres_in_unit(&global).unwrap_or(CENTIMETRE), ..Basis::GLTF }
        }
        (basis, _) => basis?,
    };
    let hierarchy = objects.connect(&links);
    let (animations, bind_poses) = match content {
        Content::Animations => (objects.animations(&hierarchy, &basis)?, Vec::new()),
        Content::Skeleton => (Vec::new(), objects.bind_poses(&links)),
    };
    let joints =
        objects.models.into_iter().zip(hierarchy.parents).enumerate().map(|(index, (model, parent))| {
            let rest = model.rest;
            Joint {
                name: model.name,
                parent,
                rest: Transform {
                    translation: basis.translation(rest.translation),
                    rotation: basis.rotation(rest.rotation),
                    scale: basis.scale(rest.scale),
                },
                inverse_bind: None,
                extras: None,
                file: FileNode {
                    index,
                    is_named: true,
                    kind: if model.is_limb { NodeKind::Joint } else { NodeKind::Other },
                    transform: Trs {
                        translation: rest.translation.as_vec3(),
                        rotation: rest.rotation.as_quat(),
                        scale: rest.scale.as_vec3(),
                    },
                },
            }
        });
    let scene = ImportedScene {
        writer,
        is_z_up: global.get(&b"UpAxis"[..]).is_some_and(|v| v[0] == 2.0),
        metres: basis.metres,
        joints: joints.collect(),
        animations,
        contents: objects.contents,
        has_animation: !objects.curves.is_empty(),
        bind_poses,
        notes,
        ..ImportedScene::empty(Format::Fbx)
    };
    scene.arrange(content)
}

/// FBX's unit where the file gives none that can be used, metres.
const CENTIMETRE: f64 = 0.01;

/// What hangs on what.
struct Hierarchy {
    /// Parent of each model.
    parents: Vec<Option<usize>>,
    /// Layers of each stack.
    layers: HashMap<i64, Vec<i64>>,
    /// Curve nodes of each layer.
    curve_nodes: HashMap<i64, Vec<i64>>,
}

/// (child, parent, property where there is one)
type Link<'a> = (i64, i64, Option<&'a [u8]>);

fn connections<'a>(mut below: Records<'a>) -> Result<Vec<Link<'a>>> {
    let mut out = Vec::new();
    while let Some(record) = below.next()? {
        let p = &record.properties;
        let kind = p.first().and_then(|p| p.text()).unwrap_or_default();
        let (Some(child), Some(parent)) =
            (p.get(1).and_then(|p| p.integer()), p.get(2).and_then(|p| p.integer()))
        else {
            continue;
        };
        match kind {
            b"OO" => out.push((child, parent, None)),
            b"OP" => out.push((child, parent, Some(p.get(3).and_then(|p| p.text()).unwrap_or_default()))),
            _ => {}
        }
    }
    Ok(out)
}

fn properties70<'a>(record: &Record<'a>, mut take: impl FnMut(&Record<'a>, &'a [u8])) -> Result<()> {
    let mut below = record.below();
    while let Some(list) = below.next()? {
        if list.name != b"Properties70" {
            continue;
        }
        let mut list = list.below();
        while let Some(p) = list.next()? {
            if let Some(name) = p.properties.first().and_then(|n| n.text()) {
                take(&p, name);
            }
        }
    }
    Ok(())
}

fn values(p: &Record<'_>) -> Option<[f64; 3]> {
    let mut out = [0.0; 3];
    let mut any = false;
    for (slot, value) in out.iter_mut().zip(p.properties.get(4..)?) {
        if let Some(v) = value.number() {
            *slot = v;
            any = true;
        }
    }
    any.then_some(out)
}

fn settings<'a>(record: &Record<'a>) -> Result<Settings<'a>> {
    let mut out = Settings::new();
    properties70(record, |p, name| {
        if let Some(v) = values(p) {
            out.insert(name, v);
        }
    })?;
    Ok(out)
}

fn metres_in_unit(global: &Settings) -> Result<f64> {
    let metres = global.get(&b"UnitScaleFactor"[..]).map_or(1.0, |v| v[0]) / 100.0;
    if metres.is_finite() && metres > 0.0 {
        Ok(metres)
    } else {
        Err(bad(format_args!("UnitScaleFactor {}", metres * 100.0), "a positive number"))
    }
}

fn basis(global: &Settings) -> Result<Basis> {
    let get = |name: &[u8], missing: f64| global.get(name).map_or(missing, |v| v[0]);
    let axis = |name: &[u8], sign: &[u8], missing: f64| {
        let axis = get(name, missing);
        let axis = if (0.0..3.0).contains(&axis) { axis as usize } else { 3 };
        (axis, if get(sign, 1.0) < 0.0 { -1.0 } else { 1.0 })
    };
    let right = axis(b"CoordAxis", b"CoordAxisSign", 0.0);
    let front = axis(b"FrontAxis", b"FrontAxisSign", 2.0);
    let up = axis(b"UpAxis", b"UpAxisSign", 1.0);
    let basis = Basis { rows: [right, (front.0, -front.1), up], metres: metres_in_unit(global)? };
    if !basis.is_rotation() {
        return Err(Error::unsupported("axes that are mirrored or fall together"));
    }
    Ok(basis)
}

impl<'a> Objects<'a> {
    fn read(&mut self, mut below: Records<'a>, content: Content, notes: &mut Vec<String>) -> Result<()> {
        while let Some(object) = below.next()? {
            let Some(id) = object.properties.first().and_then(|p| p.integer()) else { continue };
            match object.name {
                b"Model" => {
                    let model = model(&object).map_err(|e| e.in_entry(object.object_name()))?;
                    match (&model.unread, content) {
                        (Some(what), Content::Animations) => {
                            return Err(Error::unsupported(what.clone()).in_entry(model.name));
                        }
                        (Some(what), Content::Skeleton) if model.is_limb => {
                            notes.push(format!("\"{}\" has {what}: passed over", model.name));
                        }
                        _ => {}
                    }
                    self.model_ids.insert(id, self.models.len());
                    self.models.push(model);
                }
                b"AnimationStack" => {
                    let mut stop = None;
                    properties70(&object, |p, name| {
                        if name == b"LocalStop" {
                            stop = p.properties.get(4).and_then(|p| p.integer());
                        }
                    })?;
                    self.stacks.push((id, object.object_name(), stop));
                }
                b"AnimationLayer" => self.layers.push(id),
                b"AnimationCurveNode" => {
                    let mut node = CurveNode::default();
                    properties70(&object, |p, name| {
                        if let Some(v) = p.properties.get(4).and_then(|p| p.number()) {
                            node.defaults.insert(name.to_vec(), v);
                        }
                    })?;
                    self.nodes.insert(id, node);
                }
                b"AnimationCurve" => {
                    self.curves.insert(id, object);
                }
                b"Geometry" => *self.contents.entry("meshes").or_default() += 1,
                b"Material" => *self.contents.entry("materials").or_default() += 1,
                b"Deformer" => {
                    *self.contents.entry("deformers").or_default() += 1;
                    match object.properties.get(2).and_then(|p| p.text()) {
                        Some(b"Skin") => self.skins.push(id),
                        Some(b"Cluster") if content == Content::Skeleton => {
                            if let Some(matrix) = matrix(&object, b"TransformLink")? {
                                self.clusters.insert(id, matrix);
                            }
                        }
                        _ => {}
                    }
                }
                b"Pose" if content == Content::Skeleton => {
                    if object.properties.get(2).and_then(|p| p.text()) == Some(b"BindPose") {
                        self.poses.push(pose_nodes(&object)?);
                    }
                }
                _ => {}
            }
        }
        self.layers.sort_unstable();
        self.skins.sort_unstable();
        Ok(())
    }

    /// Follows the connections; tells curve nodes what they move.
    fn connect(&mut self, links: &[Link<'_>]) -> Hierarchy {
        let mut parents = vec![None; self.models.len()];
        let mut layers: HashMap<i64, Vec<i64>> = HashMap::new();
        let mut curve_nodes: HashMap<i64, Vec<i64>> = HashMap::new();
        let stacks: HashSet<i64> = self.stacks.iter().map(|s| s.0).collect();
        for (child, parent, property) in links {
            match property {
                None => {
                    if let (Some(&c), Some(&p)) = (self.model_ids.get(child), self.model_ids.get(parent)) {
                        parents[c] = Some(p);
                    } else if self.layers.contains(child) && stacks.contains(parent) {
                        layers.entry(*parent).or_default().push(*child);
                    } else if self.nodes.contains_key(child) && self.layers.contains(parent) {
                        curve_nodes.entry(*parent).or_default().push(*child);
                    }
                }
                Some(property) => {
                    if let (Some(&model), Some(node)) =
                        (self.model_ids.get(parent), self.nodes.get_mut(child))
                    {
                        node.target = Some((model, property.to_vec()));
                    } else if let (true, Some(node)) =
                        (self.curves.contains_key(child), self.nodes.get_mut(parent))
                    {
                        node.curves.push((property.to_vec(), *child));
                    }
                }
            }
        }
        Hierarchy { parents, layers, curve_nodes }
    }

    fn animations(&self, hierarchy: &Hierarchy, basis: &Basis) -> Result<Vec<Animation>> {
        let mut decoded: HashMap<i64, Axis> = HashMap::with_capacity(self.curves.len());
        let mut animations = Vec::with_capacity(self.stacks.len());
        for (id, name, stop) in &self.stacks {
            let mut animation = Animation {
                name: name.clone(),
                length_s: 0.0,
                channels: Vec::new(),
                numbers: Vec::new(),
                extras: None,
            };
            let layers = hierarchy.layers.get(id).map_or(&[][..], Vec::as_slice);
            let filled: Vec<&Vec<i64>> = layers.iter().filter_map(|l| hierarchy.curve_nodes.get(l)).collect();
            if filled.len() > 1 {
                return Err(Error::unsupported("an animation of several layers").in_entry(name.clone()));
            }
            for node in filled.into_iter().flatten() {
                self.channel(*node, basis, &mut decoded, &mut animation)
                    .map_err(|e| e.in_entry(name.clone()))?;
            }
            let last = animation.channels.iter().map(|c| c.curve.last_s());
            let last = last.chain(animation.numbers.iter().filter_map(|n| n.times.last().copied()));
            let last = last.fold(0.0, f64::max);
            animation.length_s = stop.map_or(last, |ticks| ticks as f64 / FBX_TICKS_PER_S);
            let wanted = format!("{name}|extras");
            animation.extras = self
                .models
                .iter()
                .flat_map(|m| &m.extras)
                .find(|(n, _)| *n == wanted)
                .map(|(_, value)| value.clone());
            animations.push(animation);
        }
        Ok(animations)
    }

    /// The limbs of each skin by its clusters, then each bind pose.
    fn bind_poses(&self, links: &[Link<'_>]) -> Vec<BindPose> {
        let mut skin_of = HashMap::new();
        for (child, parent, property) in links {
            if property.is_none() && self.clusters.contains_key(child) && self.skins.contains(parent) {
                skin_of.insert(*child, *parent);
            }
        }
        // Clusters without a skin are one group, the last.
        let mut groups: Vec<Vec<(usize, DMat4)>> = vec![Vec::new(); self.skins.len() + 1];
        for (child, parent, property) in links {
            let (None, Some(&model), Some(matrix)) =
                (property, self.model_ids.get(child), self.clusters.get(parent))
            else {
                continue;
            };
            let skin = skin_of.get(parent).and_then(|id| self.skins.binary_search(id).ok());
            groups[skin.unwrap_or(self.skins.len())].push((model, *matrix));
        }
        groups.extend(self.poses.iter().map(|pose| {
            pose.iter().filter_map(|(id, matrix)| Some((*self.model_ids.get(id)?, *matrix))).collect()
        }));
        groups.retain(|joints| !joints.is_empty());
        groups.into_iter().map(|joints| BindPose { joints, spaces: Vec::new(), in_scene: true }).collect()
    }

    fn channel(
        &self,
        node: i64,
        basis: &Basis,
        decoded: &mut HashMap<i64, Axis>,
        out: &mut Animation,
    ) -> Result<()> {
        let Some(node) = self.nodes.get(&node) else { return Ok(()) };
        let Some((model, property)) = &node.target else { return Ok(()) };
        let target = &self.models[*model];
        let label = String::from_utf8_lossy(property).into_owned();
        let mut curve = |id: &i64, default: f64| -> Result<Axis> {
            if let Some(known) = decoded.get(id) {
                return Ok(Axis { default, ..known.clone() });
            }
            let axis = match self.curves.get(id) {
                Some(record) => axis(record, default)
                    .map_err(|e| e.in_entry(format!("curve of {label} of {}", target.name)))?,
                None => Axis { default, ..Axis::default() },
            };
            decoded.insert(*id, axis.clone());
            Ok(axis)
        };
        let (path, rest) = match property.as_slice() {
            b"Lcl Translation" => (Path::Translation, target.rest_translation),
            b"Lcl Rotation" => (Path::Rotation, target.rest_degrees),
            b"Lcl Scaling" => (Path::Scale, target.rest_scale),
            _ => {
                for (axis_name, id) in &node.curves {
                    let default = node.defaults.get(axis_name).copied().unwrap_or_default();
                    let axis = curve(id, default)?;
                    if axis.times.is_empty() {
                        continue;
                    }
                    let mode = axis.modes.first().map_or(Mode::Linear, |m| m.mode());
                    let mut name = format!("{} of {}", label, target.name);
                    if node.curves.len() > 1 {
                        name.push(' ');
                        name.push_str(&String::from_utf8_lossy(axis_name));
                    }
                    out.numbers.push(Numbers { name, times: axis.times, values: axis.values, mode });
                }
                return Ok(());
            }
        };
        let mut axes: [Axis; 3] = Default::default();
        for ((slot, name), rest) in axes.iter_mut().zip([b"d|X", b"d|Y", b"d|Z"]).zip(rest) {
            let default = node.defaults.get(name.as_slice()).copied().unwrap_or(rest);
            if !default.is_finite() {
                return Err(bad(format_args!("{default} as a value of {label}"), "a number"));
            }
            *slot = match node.curves.iter().find(|(n, _)| n == name) {
                Some((_, id)) => curve(id, default)?,
                None => Axis { default, ..Axis::default() },
            };
        }
        let angles = target.angles;
        out.channels.push(Channel {
            joint: *model,
            path,
            curve: Curve::Axes { axes: Box::new(axes), angles, basis: *basis },
        });
        Ok(())
    }
}

/// The matrix of 16 numbers in the record inside of a name, where it is there and can be inverted.
fn matrix(record: &Record<'_>, name: &[u8]) -> Result<Option<DMat4>> {
    let Some(array) = record.child_array(name)? else { return Ok(None) };
    let numbers = array.numbers()?;
    let Ok(columns) = <[f64; 16]>::try_from(numbers.as_slice()) else {
        return Err(bad(format_args!("{} numbers of {}", numbers.len(), String::from_utf8_lossy(name)), 16));
    };
    let matrix = DMat4::from_cols_array(&columns);
    let can_be_inverted = matrix.is_finite() && matrix.inverse().is_finite();
    Ok(can_be_inverted.then_some(matrix))
}

/// (model id, matrix) of each node of a pose.
fn pose_nodes(pose: &Record<'_>) -> Result<Vec<(i64, DMat4)>> {
    let mut out = Vec::new();
    let mut below = pose.below();
    while let Some(node) = below.next()? {
        if node.name != b"PoseNode" {
            continue;
        }
        let id = node.child(b"Node")?.and_then(|r| r.properties.first()?.integer());
        if let (Some(id), Some(matrix)) = (id, matrix(&node, b"Matrix")?) {
            out.push((id, matrix));
        }
    }
    Ok(out)
}

fn model(object: &Record<'_>) -> Result<Model> {
    let settings = settings(object)?;
    let get = |name: &[u8], missing: [f64; 3]| settings.get(name).copied().unwrap_or(missing);
    let kind = object.properties.get(2).and_then(|p| p.text()).unwrap_or_default();
    let pivots = [&b"RotationOffset"[..], b"RotationPivot", b"ScalingOffset", b"ScalingPivot"];
    let pivot = pivots.into_iter().find(|name| get(name, [0.0; 3]) != [0.0; 3]);
    let mut unread = pivot.map(|name| format!("a {}", String::from_utf8_lossy(name)));
    let translation = get(b"Lcl Translation", [0.0; 3]);
    let scale = get(b"Lcl Scaling", [1.0; 3]);
    let degrees = get(b"Lcl Rotation", [0.0; 3]);
    let angles = if get(b"RotationActive", [0.0; 3])[0] != 0.0 {
        let order = get(b"RotationOrder", [0.0; 3])[0];
        if !(0.0..=5.0).contains(&order) {
            unread.get_or_insert_with(|| format!("rotation order {order}"));
        }
        Angles {
            order: order as u8,
            pre: euler(get(b"PreRotation", [0.0; 3]), 0),
            post_inverse: euler(get(b"PostRotation", [0.0; 3]), 0).conjugate(),
        }
    } else {
        Angles::PLAIN
    };
    let rotation: DQuat = angles.rotation(degrees).normalize();
    let rest =
        Transform { translation: DVec3::from_array(translation), rotation, scale: DVec3::from_array(scale) };
    if !(rest.translation.is_finite() && rest.rotation.is_finite() && rest.scale.is_finite()) {
        return Err(bad("a transform that is no number", "numbers"));
    }
    let mut extras = Vec::new();
    properties70(object, |p, name| {
        if !name.ends_with(b"|extras") {
            return;
        }
        let text = p.properties.get(4).and_then(|p| p.text()).unwrap_or_default();
        if let Ok(value) = serde_json::from_slice(text) {
            extras.push((String::from_utf8_lossy(name).into_owned(), value));
        }
    })?;
    Ok(Model {
        name: object.object_name(),
        is_limb: matches!(kind, b"LimbNode" | b"Limb" | b"Root"),
        rest,
        rest_degrees: degrees,
        rest_translation: translation,
        rest_scale: scale,
        angles,
        extras,
        unread,
    })
}

/// Bits of a key's flags.
const CONSTANT: i64 = 2;
const LINEAR: i64 = 4;
const CUBIC: i64 = 8;
/// With [`CONSTANT`]: the next key's value.
const CONSTANT_NEXT: i64 = 0x100;

fn axis(record: &Record<'_>, default: f64) -> Result<Axis> {
    let (Some(ticks), Some(values)) =
        (record.child_array(b"KeyTime")?, record.child_array(b"KeyValueFloat")?)
    else {
        return Ok(Axis { default, ..Axis::default() });
    };
    let (ticks, values) = (ticks.integers()?, values.numbers()?);
    if ticks.len() != values.len() {
        return Err(bad(
            format_args!("{} times and {} values", ticks.len(), values.len()),
            "as many of both",
        ));
    }
    if let Some(w) = ticks.windows(2).find(|w| w[0] >= w[1]) {
        return Err(bad(format_args!("a key at tick {} after {}", w[1], w[0]), "times that rise"));
    }
    if values.iter().any(|v| !v.is_finite()) {
        return Err(bad("a value that is no finite number", "numbers"));
    }
    let flags = record.child_array(b"KeyAttrFlags")?.map_or(Ok(Vec::new()), |a| a.integers())?;
    let data = record.child_array(b"KeyAttrDataFloat")?.map_or(Ok(Vec::new()), |a| a.words())?;
    let runs = record.child_array(b"KeyAttrRefCount")?.map_or(Ok(Vec::new()), |a| a.integers())?;
    let mut modes = Vec::with_capacity(values.len());
    for (i, flag) in flags.iter().enumerate() {
        let slope = |k: usize| data.get(4 * i + k).map_or(0.0, |w| f64::from(f32::from_bits(*w)));
        let mode = if flag & CONSTANT != 0 {
            AxisMode::Plain(if flag & CONSTANT_NEXT != 0 { Mode::StepNext } else { Mode::Step })
        } else if flag & CUBIC != 0 {
            let slopes = [slope(0), slope(1)];
            if slopes.iter().any(|s| !s.is_finite()) {
                return Err(bad("a slope that is no finite number", "numbers"));
            }
            AxisMode::Cubic(slopes)
        } else if flag & LINEAR != 0 {
            AxisMode::Plain(Mode::Linear)
        } else {
            return Err(bad(format_args!("key flags 0x{flag:X}"), "constant, linear or cubic"));
        };
        let run = runs.get(i).copied().unwrap_or(1).max(0);
        let room = values.len() - modes.len();
        modes.extend(std::iter::repeat_n(mode, usize::try_from(run).unwrap_or(room).min(room)));
    }
    modes.resize(values.len(), modes.last().copied().unwrap_or(AxisMode::Plain(Mode::Linear)));
    let times: Vec<f64> = ticks.iter().map(|t| *t as f64 / FBX_TICKS_PER_S).collect();
    // Ticks that f64 seconds cannot tell apart stand beyond any clip.
    if times.windows(2).any(|w| w[0] >= w[1]) {
        return Err(bad("key times beyond reach", "seconds"));
    }
    Ok(Axis { times, values, modes, default })
}
