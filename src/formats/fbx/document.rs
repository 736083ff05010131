//! The document: which records, objects and connections a skeletal clip is made of.
//!
//! | Record | Why |
//! |---|---|
//! | `GlobalSettings` | Blender's Python importer fails without; Z up; `UnitScaleFactor` 100 (metres), so that the armature has scale 1; `TimeMode`, from which readers take the frame rate |
//! | `Documents`, `References`, `Definitions`, `Takes` | Autodesk's readers; without `Takes` some find no animation |
//! | `NodeAttribute` LimbNode | what makes a node a bone |
//! | `Pose` BindPose | the bones' rest, for readers that take it from there; every joint, so every ancestor, is in it |
//! | `AnimationStack` with four times | length of the clip; connected to nothing above it |
//! | `AnimationLayer` with an empty `Properties70` | assimp finds no animation without a list of records there |
//! | three `AnimationCurve`s a channel | linear keys (flags 24836, as Blender writes); one key where all are equal |
//!
//! Objects have running ids, so that the same input gives the same bytes.

use std::collections::BTreeMap;
use std::ops::Range;

use glam::{DMat4, DVec3, Quat, Vec3};

use crate::error::{Error, Result};
use crate::formats::extras::animation_extras;
use crate::formats::fbx::binary::{CREATION_TIME, Deflate, FILE_ID, Template, VERSION, Writer};
use crate::formats::fbx::curves;
use crate::formats::fbx::curves::{Angles, Keys, degrees, key_ticks, nearest_angles, ticks};
use crate::formats::format::WriteOptions;
use crate::formats::preview;
use crate::formats::scene::{Animation, Channel, Path, Scene};
use crate::formats::workspace::Workspace;
use crate::model::naming::fallback_name;
use crate::model::{Clip, Interpolation, OtherTrack, Property, Skeleton, Trs, Values};

const CREATOR: &str = concat!("anim2gltf ", env!("CARGO_PKG_VERSION"));
/// Id of the document; objects count on from it. 0 is the root of the scene.
const FIRST_ID: i64 = 1_000_000;
/// Linear, with the bits beside it that Blender writes: Autodesk's readers want more than a bare 4
/// (docs/formats/gltf-fbx.md, section 3.2).
const LINEAR: i32 = 24836;
/// Slopes and weights of a linear key: none, and the two default weights of a third (u16 / 10000).
const LINEAR_DATA: [f32; 4] = [0.0, 0.0, f32::from_bits(0x0D05_0D05), 0.0];
/// How far (metres) from a joint the tolerance is meant: 0.05 degrees are 0.09 mm there.
const SHELL_M: f64 = 0.1;
/// Rates (Hz) that have a `TimeMode` of their own.
const TIME_MODES: [(f64, i32); 8] =
    [(30.0, 6), (60.0, 3), (24.0, 11), (25.0, 10), (50.0, 4), (48.0, 5), (120.0, 1), (100.0, 2)];
/// `TimeMode` of any other rate, which stands in `CustomFrameRate`.
const CUSTOM_TIME_MODE: i32 = 14;
/// How far (radians) each joint may turn off the source's path: `most`, and less where it carries others.
///
/// A chain adds up what its joints are off. So each of the `n` joints of the longest chain through a joint gets
/// its part of what `most` is worth at [`SHELL_M`], measured at the joint furthest from it that it carries: then
/// the end of no chain is further off than a point at that distance from a single joint (at the rest pose's
/// lengths). Angles between dense keys are far within that; the keys that it adds are few.
fn tolerances(rig: &Skeleton, most: f64) -> Vec<f64> {
    let joints = rig.joints();
    let positions: Vec<DVec3> = rig.rest_model().into_iter().map(|(_, t)| t).collect();
    let mut reach = vec![0.0f64; joints.len()];
    let mut above = vec![0usize; joints.len()];
    let mut below = vec![0usize; joints.len()];
    for (i, joint) in joints.iter().enumerate() {
        above[i] = joint.parent.map_or(1, |p| above[p] + 1);
        let mut ancestor = joint.parent;
        while let Some(a) = ancestor {
            reach[a] = reach[a].max(positions[i].distance(positions[a]));
            below[a] = below[a].max(above[i] - above[a]);
            ancestor = joints[a].parent;
        }
    }
    let part = |i: usize| SHELL_M / (reach[i] * ((above[i] + below[i]) as f64).sqrt());
    (0..joints.len())
        // At least a hundredth: what rests far away (a prop, a camera) asks for no more than a body does.
        .map(|i| if reach[i] > 0.0 { most * part(i).clamp(0.01, 1.0) } else { most })
        .collect()
}

/// What a curve node calls its three numbers.
const AXES: [&str; 3] = ["d|X", "d|Y", "d|Z"];

/// Children and parents by id, and where the parent takes the child: a place in [`Document::properties`].
type Connections = Vec<(i64, i64, u32)>;

/// The properties that most connections name, first in [`Document::properties`]: none, those of [`Path`], [`AXES`].
const PROPERTIES: [&str; 7] =
    ["", "Lcl Translation", "Lcl Rotation", "Lcl Scaling", AXES[0], AXES[1], AXES[2]];
const TO_PATH: u32 = 1;
const TO_AXIS: u32 = 4;

/// `scene` as a file. The same scene gives the same bytes.
///
/// # Errors
/// [`ErrorKind::Limit`](crate::ErrorKind) over 4 GiB; [`ErrorKind::Unsupported`](crate::ErrorKind) for a joint's
/// track that holds numbers instead of vectors.
pub fn write(scene: &Scene<'_>, options: &WriteOptions, workspace: &mut Workspace) -> Result<Vec<u8>> {
    let (buffers, scratch) = workspace.parts::<Scratch>();
    let custom = custom_properties(scene);
    let mesh = options.preview_mesh.then(|| preview::build(scene.rig));
    let rest_angles: Vec<Angles> = scene.rig.joints().iter().map(|j| rest_angles(&j.rest)).collect();
    let moved = moved(scene);
    let size = expected_size(scene, &moved);
    let deflate = options.compress.then(|| scratch.deflate.take().unwrap_or_default());
    let mut document = Document {
        w: Writer::new(buffers.take(size), deflate),
        scene,
        moved,
        constant_angles: rest_angles
            .iter()
            .zip(scene.rig.joints())
            .map(|(a, j)| (j.rest.rotation, degrees(*a)))
            .collect(),
        rest_angles,
        tolerances: tolerances(scene.rig, options.euler_tolerance_deg.max(0.001).to_radians()),
        next_id: FIRST_ID,
        properties: PROPERTIES.to_vec(),
        custom: &custom,
        rate_hz: rate_hz(scene),
        scratch,
    };
    document.scratch.connections.clear();
    document.header();
    document.settings();
    document.documents();
    document.definitions(mesh.as_ref());
    document.w.begin("Objects");
    let models = document.skeleton()?;
    let mesh_model = mesh.as_ref().map(|mesh| document.mesh(mesh, models.start));
    document.bind_pose(models.start, mesh_model);
    for animation in &scene.animations {
        document.animation(animation, models.start)?;
        document.w.check()?;
    }
    document.w.end();
    document.connections();
    document.takes();
    let (out, deflate) = document.w.finish()?;
    if deflate.is_some() {
        scratch.deflate = deflate;
    }
    Ok(out)
}

struct Document<'a> {
    w: Writer,
    scene: &'a Scene<'a>,
    /// See [`moved`].
    moved: Vec<bool>,
    /// Of each joint, radians.
    tolerances: Vec<f64>,
    /// Of each joint, radians.
    rest_angles: Vec<Angles>,
    /// The last rotation of each joint that did not change over a clip, and its angles, degrees: other clips of the
    /// file often have the same.
    constant_angles: Vec<(Quat, [f32; 3])>,
    next_id: i64,
    /// What connections name; of user properties each once for each clip that moves it.
    properties: Vec<&'a str>,
    custom: &'a BTreeMap<String, Custom>,
    rate_hz: f64,
    scratch: &'a mut Scratch,
}

/// What the next file finds ready: fresh memory costs more than what is written into it.
#[derive(Default)]
struct Scratch {
    templates: Templates,
    connections: Connections,
    keys: Keys,
    /// Keys of the current clip's timelines: ticks, keys, and the encoded ticks in `blobs`.
    timelines: Vec<Option<TimelineKeys>>,
    blobs: Vec<u8>,
    /// Its tables are large. `None` while a file is written.
    deflate: Option<Deflate>,
}

struct TimelineKeys {
    ticks: Vec<i64>,
    keys: Vec<u32>,
    blob: Option<Range<usize>>,
}

/// The frame rate to declare: the highest among the file's clips, to the next whole number of Hz; 30 where none
/// has one.
///
/// Keys stand where their ticks say, whatever the rate is; but Blender's Python importer places them by the
/// rounded rate and plays them by the exact one, so that a clip of 371 frames in 12.4 s would be too slow. Such
/// clips (29.92 Hz) are meant as 30 Hz anyway.
fn rate_hz(scene: &Scene<'_>) -> f64 {
    let rates = scene.animations.iter().filter_map(|a| a.clip.rate_hz()).filter(|r| r.is_finite());
    match rates.reduce(f64::max) {
        // Readers count frames in this: a clip of a few microseconds must not ask for a million of them.
        Some(rate) if rate > 0.0 => rate.round().clamp(1.0, 1000.0),
        _ => 30.0,
    }
}

fn time_mode(rate_hz: f64) -> Option<i32> {
    TIME_MODES.into_iter().find(|(hz, _)| rate_hz == *hz).map(|(_, mode)| mode)
}

/// Place of a path of a joint in what [`moved`] gives.
fn slot(channel: &Channel) -> usize {
    3 * channel.joint + channel.path as usize
}

/// Which paths of which joints (see [`slot`]) leave the rest pose in any animation of the file.
///
/// The others need no curves: a reader that finds none takes the model's own values, which are the rest pose. Of
/// the channels of real dictionaries these are more than a third, each of them 1.5 kB.
fn moved(scene: &Scene<'_>) -> Vec<bool> {
    let joints = scene.rig.joints();
    let mut moved = vec![false; 3 * joints.len()];
    for animation in &scene.animations {
        for channel in &animation.channels {
            let Some(track) = channel.track.and_then(|i| animation.clip.tracks.get(i)) else { continue };
            let moved = &mut moved[slot(channel)];
            if !*moved {
                let rest = &joints[channel.joint].rest;
                *moved = match &track.curve.values {
                    Values::Vec3(v) => {
                        let rest = if channel.path == Path::Scale { rest.scale } else { rest.translation };
                        v.iter().any(|v| *v != rest)
                    }
                    Values::Quat(v) => v.iter().any(|q| !is_same(*q, rest.rotation)),
                    _ => true,
                };
            }
        }
    }
    moved
}

/// What is keyed of `animation`: what `moved` in the file, and the key that holds the clip's length. Never nothing:
/// readers leave out an animation without curves.
fn keyed<'a>(animation: &'a Animation<'a>, moved: &[bool]) -> impl Iterator<Item = &'a Channel> {
    let all = &animation.channels;
    let mut keyed: Vec<bool> = all.iter().map(|c| c.hold_to_end || moved[slot(c)]).collect();
    if !keyed.contains(&true) {
        keyed[..1.min(all.len())].fill(true);
    }
    all.iter().zip(keyed).filter_map(|(channel, keyed)| keyed.then_some(channel))
}

/// About how large (bytes) the file will be without compression: growing it is a tenth of the work otherwise.
fn expected_size(scene: &Scene<'_>, moved: &[bool]) -> usize {
    /// A joint: its model, its attribute, its place in the bind pose.
    const JOINT: usize = 1500;
    /// A channel without its keys: a curve node, three curves, their connections.
    const CHANNEL: usize = 1500;
    /// A key of three curves: ticks and values.
    const KEY: usize = 3 * (8 + 4);
    let mut size = 64 * 1024 + scene.rig.joints().len() * JOINT;
    for animation in &scene.animations {
        for channel in keyed(animation, moved) {
            let track = channel.track.and_then(|i| animation.clip.tracks.get(i));
            size += CHANNEL + KEY * track.map_or(1, |t| t.curve.values.len());
        }
    }
    size
}

/// Whether two unit quaternions are the same rotation, but for the rounding of their f32 components.
fn is_same(a: Quat, b: Quat) -> bool {
    let within = |b: Quat| (a - b).to_array().into_iter().all(|d| d.abs() <= f32::EPSILON);
    within(b) || within(-b)
}

/// A user property that curves move.
struct Custom {
    /// What its curve nodes call it.
    axis: String,
    /// Its first value in the first clip that has it.
    first: f64,
}

/// The user properties that curves of number tracks without a joint property move, by name.
fn custom_properties(scene: &Scene<'_>) -> BTreeMap<String, Custom> {
    let mut out = BTreeMap::new();
    for animation in &scene.animations {
        for (name, track) in custom_tracks(scene.rig, animation) {
            let first = match &animation.clip.tracks[track].curve.values {
                Values::Scalar(values) => values.first().copied().map_or(0.0, finite),
                _ => 0.0,
            };
            let axis = format!("d|{name}");
            out.entry(name).or_insert(Custom { axis, first });
        }
    }
    out
}

/// The tracks of numbers that no joint property holds: what the property is called, which track. Of equal names the first.
fn custom_tracks(rig: &Skeleton, animation: &Animation<'_>) -> BTreeMap<String, usize> {
    let mut out = BTreeMap::new();
    for &i in &animation.extra_tracks {
        let track = &animation.clip.tracks[i];
        let (Property::Other(OtherTrack { number, name }), Values::Scalar(values)) =
            (track.target.property, &track.curve.values)
        else {
            continue;
        };
        if values.is_empty() {
            continue;
        }
        let joint = match rig.find(track.target.joint).and_then(|j| rig.joints()[j].name.clone()) {
            Some(name) => name,
            None => fallback_name(track.target.joint),
        };
        let name = match name {
            Some(name) => format!("{joint}.{name}"),
            None => format!("{joint}.track_{number}"),
        };
        out.entry(name).or_insert(i);
    }
    out
}

fn finite(value: f32) -> f64 {
    if value.is_finite() { f64::from(value) } else { 0.0 }
}

/// Last tick of a clip: its length, or its last key where it states none. A single pose gets a frame: readers
/// leave out a span of no length.
fn stop_tick(clip: &Clip, rate_hz: f64) -> i64 {
    let last_key = || clip.timelines.iter().map(|t| ticks(t.last_s())).max().unwrap_or(0);
    let stop = ticks(clip.length_s);
    [stop, if stop > 0 { 0 } else { last_key() }, ticks(1.0 / rate_hz)]
        .into_iter()
        .find(|t| *t > 0)
        .unwrap_or(1)
}

/// Translation, Euler angles (degrees) and scale of a rest pose.
fn rest_values(rest: &Trs) -> [[f64; 3]; 3] {
    [
        rest.translation.as_dvec3().to_array(),
        rest_angles(rest).map(f64::to_degrees),
        rest.scale.as_dvec3().to_array(),
    ]
}

fn rest_angles(rest: &Trs) -> Angles {
    nearest_angles(rest.rotation, [0.0; 3])
}

fn rest_matrices(rig: &Skeleton) -> Vec<DMat4> {
    let rest: Vec<Trs> = rig.joints().iter().map(|j| j.rest).collect();
    rig.model_matrices(&rest)
}

/// The vertices of each joint that has some.
fn skinned(mesh: &preview::Mesh, joints: usize) -> Vec<(usize, Vec<i32>)> {
    let mut vertices = vec![Vec::new(); joints];
    for (vertex, &joint) in mesh.joints.iter().enumerate() {
        vertices[joint as usize].push(vertex as i32);
    }
    vertices.into_iter().enumerate().filter(|(_, v)| !v.is_empty()).collect()
}

#[cold]
fn no_vectors() -> Error {
    Error::unsupported("a joint's track holds numbers, not vectors")
}

/// Ticks of a curve: as they are, or as [`Writer::encode`] has made them.
enum Ticks<'a> {
    Plain(&'a [i64]),
    Encoded(&'a [u8]),
}

/// Records of an animation that differ in few bytes.
struct Templates {
    /// A curve of one key.
    one_key: Template,
    /// The curve nodes of translation, rotation and scale.
    nodes: [Template; 3],
    /// Each of these with three curves of one key at the begin.
    constants: [Template; 3],
    /// What stands before and behind the keys of a curve.
    curve_head: Template,
    curve_tail: Template,
}

impl Default for Templates {
    fn default() -> Self {
        const LABELS: [&str; 3] = ["T", "R", "S"];
        let one_key = |w: &mut Writer| write_curve(w, 0, Ticks::Plain(&[0]), &[0.0]);
        Templates {
            one_key: Template::new(one_key),
            nodes: LABELS.map(|label| Template::new(|w| write_node(w, 0, label, [0.0; 3]))),
            constants: LABELS.map(|label| {
                Template::new(|w| {
                    write_node(w, 0, label, [0.0; 3]);
                    AXES.iter().for_each(|_| one_key(w));
                })
            }),
            curve_head: Template::new(|w| write_curve_head(w, 0.0)),
            curve_tail: Template::new(|w| write_curve_tail(w, 0)),
        }
    }
}

impl Templates {
    /// What [`write_curve`] writes for a single key.
    fn one_key(&self, w: &mut Writer, id: i64, tick: i64, value: f32) {
        let at = w.stamp(&self.one_key);
        put_key(w, &self.one_key, at, 0, id, value);
        w.put(at + self.one_key.first_number(CURVE_TIME), tick.to_le_bytes());
    }

    /// What [`write_curve`] writes.
    fn curve(&self, w: &mut Writer, id: i64, ticks: Ticks<'_>, values: &[f32]) {
        w.begin("AnimationCurve").i64(id).object_name("", "AnimCurve").string("");
        let at = w.stamp(&self.curve_head);
        let first = values.first().copied().map_or(0.0, f64::from);
        w.put(at + self.curve_head.value(0), first.to_le_bytes());
        write_keys(w, ticks, values);
        let at = w.stamp(&self.curve_tail);
        w.put(at + self.curve_tail.first_number(2), (values.len() as i32).to_le_bytes());
        w.end();
    }

    /// What [`write_node`] writes.
    fn node(&self, w: &mut Writer, id: i64, path: Path, first: [f32; 3]) {
        let t = &self.nodes[path as usize];
        let at = w.stamp(t);
        put_node(w, t, at, id, first);
    }

    /// A node with its curves, which have one key at the begin; their ids follow the node's.
    fn constant(&self, w: &mut Writer, id: i64, path: Path, value: [f32; 3]) {
        let t = &self.constants[path as usize];
        let at = w.stamp(t);
        put_node(w, t, at, id, value);
        for (axis, value) in value.into_iter().enumerate() {
            put_key(w, t, at, NODE_RECORDS + axis * CURVE_RECORDS, id + 1 + axis as i64, value);
        }
    }
}

/// Records of a curve node: itself, `Properties70`, its three numbers.
const NODE_RECORDS: usize = 5;
const NODE_FIRST: usize = 2;
/// Records of a curve: itself, `Default`, `KeyVer`, `KeyTime`, `KeyValueFloat`, and three more.
const CURVE_RECORDS: usize = 8;
const CURVE_DEFAULT: usize = 1;
const CURVE_TIME: usize = 3;
const CURVE_VALUES: usize = 4;

fn put_node(w: &mut Writer, t: &Template, at: usize, id: i64, first: [f32; 3]) {
    w.put(at + t.value(0), id.to_le_bytes());
    for (i, value) in first.into_iter().enumerate() {
        w.put(at + t.last_value(NODE_FIRST + i, 8), f64::from(value).to_le_bytes());
    }
}

/// Id and value of a curve of one key, which is record `curve` of `t`.
fn put_key(w: &mut Writer, t: &Template, at: usize, curve: usize, id: i64, value: f32) {
    w.put(at + t.value(curve), id.to_le_bytes());
    w.put(at + t.value(curve + CURVE_DEFAULT), f64::from(value).to_le_bytes());
    w.put(at + t.first_number(curve + CURVE_VALUES), value.to_le_bytes());
}

/// From the value of a connection's first property to that of its second: length and two letters of the
/// first, type letter of the second.
const CONNECTION_CHILD: usize = 4 + 2 + 1;

/// A connection between two objects that are still to be put in; through `property` unless that is empty.
fn write_connection(w: &mut Writer, property: &str) {
    let kind = if property.is_empty() { "OO" } else { "OP" };
    w.begin("C").string(kind).i64(0).i64(0);
    if !property.is_empty() {
        w.string(property);
    }
    w.end();
}

/// A curve node of three numbers.
fn write_node(w: &mut Writer, id: i64, label: &str, first: [f32; 3]) {
    w.begin("AnimationCurveNode").i64(id).object_name(label, "AnimCurveNode").string("");
    w.begin("Properties70");
    for (name, value) in AXES.into_iter().zip(first) {
        w.p_number(name, "A", f64::from(value));
    }
    w.end();
    w.end();
}

/// A curve with linear keys. `values` is not empty.
fn write_curve(w: &mut Writer, id: i64, ticks: Ticks<'_>, values: &[f32]) {
    w.begin("AnimationCurve").i64(id).object_name("", "AnimCurve").string("");
    write_curve_head(w, values.first().copied().map_or(0.0, f64::from));
    write_keys(w, ticks, values);
    write_curve_tail(w, values.len() as i32);
    w.end();
}

fn write_curve_head(w: &mut Writer, first: f64) {
    w.begin("Default").f64(first).end();
    w.leaf_i32("KeyVer", 4008);
}

fn write_keys(w: &mut Writer, ticks: Ticks<'_>, values: &[f32]) {
    match ticks {
        Ticks::Plain(ticks) => w.leaf_array("KeyTime", ticks),
        Ticks::Encoded(blob) => w.begin("KeyTime").encoded(blob).end(),
    }
    w.leaf_array("KeyValueFloat", values);
}

/// One set of flags for all keys.
fn write_curve_tail(w: &mut Writer, keys: i32) {
    w.leaf_array("KeyAttrFlags", &[LINEAR]);
    w.leaf_array("KeyAttrDataFloat", &LINEAR_DATA);
    w.leaf_array("KeyAttrRefCount", &[keys]);
}

impl<'a> Document<'a> {
    fn id(&mut self) -> i64 {
        self.ids(1)
    }

    /// `count` ids in a row; the first of them.
    fn ids(&mut self, count: usize) -> i64 {
        let id = self.next_id;
        self.next_id += count as i64;
        id
    }

    fn connect(&mut self, child: i64, parent: i64) {
        self.scratch.connections.push((child, parent, 0));
    }

    fn header(&mut self) {
        let w = &mut self.w;
        w.begin("FBXHeaderExtension");
        w.leaf_i32("FBXHeaderVersion", 1003);
        w.leaf_i32("FBXVersion", VERSION as i32);
        w.leaf_i32("EncryptionType", 0);
        w.begin("CreationTimeStamp");
        // The parts of CREATION_TIME.
        for (name, value) in [
            ("Version", 1000),
            ("Year", 1970),
            ("Month", 1),
            ("Day", 1),
            ("Hour", 10),
            ("Minute", 0),
            ("Second", 0),
            ("Millisecond", 0),
        ] {
            w.leaf_i32(name, value);
        }
        w.end();
        w.leaf_string("Creator", CREATOR);
        w.begin("SceneInfo").object_name("GlobalInfo", "SceneInfo").string("UserData");
        w.leaf_string("Type", "UserData");
        w.leaf_i32("Version", 100);
        w.begin("MetaData");
        w.leaf_i32("Version", 100);
        w.leaf_string("Title", &self.scene.rig.name);
        for name in ["Subject", "Author", "Keywords", "Revision", "Comment"] {
            w.leaf_string(name, "");
        }
        w.end();
        w.begin("Properties70");
        for group in ["Original", "LastSaved"] {
            w.p(group, "Compound", "", "").end();
            w.p_string(&format!("{group}|ApplicationVendor"), "", "anim2gltf");
            w.p_string(&format!("{group}|ApplicationName"), "", "anim2gltf");
            w.p_string(&format!("{group}|ApplicationVersion"), "", env!("CARGO_PKG_VERSION"));
        }
        w.end();
        w.end();
        w.end();
        w.begin("FileId").raw(&FILE_ID);
        w.end();
        w.leaf_string("CreationTime", CREATION_TIME);
        w.leaf_string("Creator", CREATOR);
    }

    fn settings(&mut self) {
        let stop = self.scene.animations.iter().map(|a| stop_tick(a.clip, self.rate_hz)).max();
        let (custom_rate, mode) = match time_mode(self.rate_hz) {
            Some(mode) => (-1.0, mode),
            None => (self.rate_hz, CUSTOM_TIME_MODE),
        };
        let w = &mut self.w;
        w.begin("GlobalSettings");
        w.leaf_i32("Version", 1000);
        w.begin("Properties70");
        // Right-handed, Z up, facing -Y: the source's space, and Blender's.
        for (name, value) in [
            ("UpAxis", 2),
            ("UpAxisSign", 1),
            ("FrontAxis", 1),
            ("FrontAxisSign", -1),
            ("CoordAxis", 0),
            ("CoordAxisSign", 1),
            ("OriginalUpAxis", 2),
            ("OriginalUpAxisSign", 1),
        ] {
            w.p_i32(name, "int", "Integer", value);
        }
        // Centimetres in a unit.
        for name in ["UnitScaleFactor", "OriginalUnitScaleFactor"] {
            w.p(name, "double", "Number", "").f64(100.0).end();
        }
        w.p_i32("TimeMode", "enum", "", mode);
        w.p_time("TimeSpanStart", 0);
        w.p_time("TimeSpanStop", stop.unwrap_or(curves::TICKS_PER_S));
        w.p("CustomFrameRate", "double", "Number", "").f64(custom_rate).end();
        w.end();
        w.end();
    }

    fn documents(&mut self) {
        let id = self.id();
        let active = self.scene.animations.first().map_or("", |a| a.name.as_str());
        let w = &mut self.w;
        w.begin("Documents");
        w.leaf_i32("Count", 1);
        w.begin("Document").i64(id).string("").string("Scene");
        w.begin("Properties70");
        w.p("SourceObject", "object", "", "").end();
        w.p_string("ActiveAnimStackName", "", active);
        w.end();
        w.begin("RootNode").i64(0).end();
        w.end();
        w.end();
        w.begin("References").end();
    }

    fn definitions(&mut self, mesh: Option<&preview::Mesh>) {
        let rig = self.scene.rig;
        let joints = rig.joints().len();
        let clips = &self.scene.animations;
        let channels: usize = clips.iter().map(|a| keyed(a, &self.moved).count()).sum();
        let custom: usize = clips.iter().map(|a| custom_tracks(rig, a).len()).sum();
        let meshes = usize::from(mesh.is_some());
        let deformers = mesh.map_or(0, |m| 1 + skinned(m, joints).len());
        let w = &mut self.w;
        let counts = [
            ("GlobalSettings", 1),
            ("NodeAttribute", joints),
            ("Model", joints + meshes),
            ("Geometry", meshes),
            ("Deformer", deformers),
            ("Pose", 1),
            ("AnimationStack", clips.len()),
            ("AnimationLayer", clips.len()),
            ("AnimationCurveNode", channels + custom),
            ("AnimationCurve", 3 * channels + custom),
        ];
        w.begin("Definitions");
        w.leaf_i32("Version", 100);
        w.leaf_i32("Count", counts.iter().map(|(_, n)| *n as i32).sum());
        for (name, count) in counts {
            if count > 0 {
                w.begin("ObjectType").string(name);
                w.leaf_i32("Count", count as i32);
                w.end();
            }
        }
        w.end();
    }

    /// Joints with their attributes. Returns the ids of the models, in the order of the joints.
    fn skeleton(&mut self) -> Result<Range<i64>> {
        let joints = self.scene.rig.joints();
        let models = self.ids(joints.len());
        let attributes = self.ids(joints.len());
        for (i, joint) in joints.iter().enumerate() {
            let name = joint.name.as_deref().unwrap_or_default();
            let w = &mut self.w;
            w.begin("NodeAttribute");
            w.i64(attributes + i as i64).object_name(name, "NodeAttribute").string("LimbNode");
            w.leaf_string("TypeFlags", "Skeleton");
            w.end();
            w.begin("Model");
            w.i64(models + i as i64).object_name(name, "Model").string("LimbNode");
            w.leaf_i32("Version", 232);
            w.begin("Properties70");
            // 1: the parent's scale is a factor of the matrix, as everywhere else.
            w.p_i32("InheritType", "enum", "", 1);
            w.p_i32("DefaultAttributeIndex", "int", "Integer", 0);
            let rest = rest_values(&joint.rest);
            for (name, value) in ["Lcl Translation", "Lcl Rotation", "Lcl Scaling"].into_iter().zip(rest) {
                w.p(name, name, "", "A").f64(value[0]).f64(value[1]).f64(value[2]).end();
            }
            if i == 0 {
                self.user_properties()?;
            }
            let w = &mut self.w;
            w.end();
            w.leaf_string("Culling", "CullingOff");
            w.end();
            let parent = joint.parent.map_or(0, |p| models + p as i64);
            self.connect(models + i as i64, parent);
            self.connect(attributes + i as i64, models + i as i64);
        }
        Ok(models..models + joints.len() as i64)
    }

    /// What FBX has no place for: the clips' extras as text, tracks of numbers as properties that curves
    /// move. They stand at the root joint.
    fn user_properties(&mut self) -> Result<()> {
        for animation in &self.scene.animations {
            let extras = animation_extras(animation)
                .map_err(|e| Error::unsupported(format!("extras that cannot be serialised: {e}")))?;
            // One name may not stand for two clips, so it says which even where there is only one.
            self.w.p_string(&format!("{}|extras", animation.name), "U", extras.get());
        }
        for (name, custom) in self.custom {
            self.w.p_number(name, "A+U", custom.first);
        }
        Ok(())
    }

    /// Mesh, skin and clusters. Returns the id of the mesh's model.
    fn mesh(&mut self, mesh: &preview::Mesh, models: i64) -> i64 {
        let rig = self.scene.rig;
        let (geometry, model, skin) = (self.id(), self.id(), self.id());
        let positions: Vec<f64> = mesh.positions.iter().flat_map(|p| p.to_array()).map(f64::from).collect();
        // The last index of a polygon is marked by its complement.
        let indices: Vec<i32> =
            mesh.triangles.iter().flat_map(|&[a, b, c]| [a as i32, b as i32, !(c as i32)]).collect();
        let w = &mut self.w;
        w.begin("Geometry").i64(geometry).object_name("preview", "Geometry").string("Mesh");
        w.leaf_i32("GeometryVersion", 124);
        w.leaf_array("Vertices", &positions);
        w.leaf_array("PolygonVertexIndex", &indices);
        w.end();
        w.begin("Model").i64(model).object_name("preview", "Model").string("Mesh");
        w.leaf_i32("Version", 232);
        w.begin("Properties70");
        w.p_i32("InheritType", "enum", "", 1);
        w.p_i32("DefaultAttributeIndex", "int", "Integer", 0);
        w.end();
        w.leaf_string("Culling", "CullingOff");
        w.end();
        w.begin("Deformer").i64(skin).object_name("preview", "Deformer").string("Skin");
        w.leaf_i32("Version", 101);
        w.begin("Link_DeformAcuracy").f64(50.0).end();
        w.end();
        self.connect(model, 0);
        self.connect(geometry, model);
        self.connect(skin, geometry);
        let binds = rest_matrices(rig);
        for (joint, vertices) in skinned(mesh, rig.joints().len()) {
            let cluster = self.id();
            let name = rig.joints()[joint].name.as_deref().unwrap_or_default();
            let w = &mut self.w;
            w.begin("Deformer").i64(cluster).object_name(name, "SubDeformer").string("Cluster");
            w.leaf_i32("Version", 100);
            w.begin("UserData").string("").string("").end();
            w.leaf_array("Indexes", &vertices);
            w.leaf_array("Weights", &vec![1.0f64; vertices.len()]);
            w.leaf_array("Transform", &binds[joint].inverse().to_cols_array());
            w.leaf_array("TransformLink", &binds[joint].to_cols_array());
            w.end();
            self.connect(cluster, skin);
            self.connect(models + joint as i64, cluster);
        }
        model
    }

    fn bind_pose(&mut self, models: i64, mesh: Option<i64>) {
        let id = self.id();
        let binds = rest_matrices(self.scene.rig);
        let w = &mut self.w;
        w.begin("Pose").i64(id).object_name(&self.scene.rig.name, "Pose").string("BindPose");
        w.leaf_string("Type", "BindPose");
        w.leaf_i32("Version", 100);
        w.leaf_i32("NbPoseNodes", (binds.len() + usize::from(mesh.is_some())) as i32);
        let nodes = binds.iter().enumerate().map(|(i, m)| (models + i as i64, *m));
        for (node, matrix) in mesh.map(|m| (m, DMat4::IDENTITY)).into_iter().chain(nodes) {
            w.begin("PoseNode");
            w.begin("Node").i64(node).end();
            w.leaf_array("Matrix", &matrix.to_cols_array());
            w.end();
        }
        w.end();
    }

    fn animation(&mut self, animation: &'a Animation<'a>, models: i64) -> Result<()> {
        let clip = animation.clip;
        let stop = stop_tick(clip, self.rate_hz);
        let (stack, layer) = (self.id(), self.id());
        let w = &mut self.w;
        w.begin("AnimationStack").i64(stack).object_name(&animation.name, "AnimStack").string("");
        w.begin("Properties70");
        for (start, end) in [("LocalStart", "LocalStop"), ("ReferenceStart", "ReferenceStop")] {
            w.p_time(start, 0);
            w.p_time(end, stop);
        }
        w.end();
        w.end();
        w.begin("AnimationLayer").i64(layer).object_name(&animation.name, "AnimLayer").string("");
        w.begin("Properties70").end();
        w.end();
        self.connect(layer, stack);
        self.scratch.timelines.clear();
        self.scratch.timelines.resize_with(clip.timelines.len(), || None);
        self.scratch.blobs.clear();
        let channels: Vec<&Channel> = keyed(animation, &self.moved).collect();
        for channel in channels {
            let (path, model) = (channel.path, models + channel.joint as i64);
            let node = self.ids(1 + AXES.len());
            let axes = (0u32..).zip(node + 1..).take(AXES.len());
            self.connect(node, layer);
            self.scratch.connections.push((node, model, TO_PATH + path as u32));
            self.scratch.connections.extend(axes.clone().map(|(axis, curve)| (curve, node, TO_AXIS + axis)));
            if let Some(value) = self.constant(clip, channel)? {
                self.scratch.templates.constant(&mut self.w, node, path, value);
                continue;
            }
            let blob = self.sample(clip, channel)?;
            let first = self.scratch.keys.values.each_ref().map(|v| v.first().copied().unwrap_or(0.0));
            self.scratch.templates.node(&mut self.w, node, path, first);
            for (axis, curve) in axes {
                let axis = axis as usize;
                let keys = &self.scratch.keys;
                // The key that holds the clip's end is wanted for where it stands.
                if keys.is_constant(axis) && !channel.hold_to_end {
                    let tick = keys.ticks.first().copied().unwrap_or(0);
                    self.scratch.templates.one_key(&mut self.w, curve, tick, first[axis]);
                } else {
                    let ticks = Ticks::Encoded(&self.scratch.blobs[blob.clone()]);
                    self.scratch.templates.curve(&mut self.w, curve, ticks, &keys.values[axis]);
                }
            }
        }
        self.custom_curves(animation, models, layer);
        Ok(())
    }

    /// The value of a channel that needs but one key; `None` where it needs more.
    fn constant(&mut self, clip: &Clip, channel: &Channel) -> Result<Option<[f32; 3]>> {
        let curve = channel.track.and_then(|i| clip.tracks.get(i)).map(|t| &t.curve);
        if channel.hold_to_end || curve.is_some_and(|c| !c.is_constant()) {
            return Ok(None);
        }
        let rest = &self.scene.rig.joints()[channel.joint].rest;
        Ok(match (channel.path, curve.map(|c| &c.values)) {
            (Path::Rotation, values) => {
                let q = match values {
                    Some(Values::Quat(q)) => q.first().copied(),
                    None => Some(rest.rotation),
                    Some(_) => return Err(no_vectors()),
                };
                q.map(|q| {
                    let known = &mut self.constant_angles[channel.joint];
                    if known.0 != q {
                        *known = (q, degrees(nearest_angles(q, self.rest_angles[channel.joint])));
                    }
                    known.1
                })
            }
            (path, values) => {
                let rest = if path == Path::Scale { rest.scale } else { rest.translation };
                let v = match values {
                    Some(Values::Vec3(v)) => v.first().copied(),
                    None => Some(rest),
                    Some(_) => return Err(no_vectors()),
                };
                v.map(|v| curves::vector(v, rest))
            }
        })
    }

    /// Puts the keys of a channel into the scratch buffer; returns their encoded ticks.
    fn sample(&mut self, clip: &Clip, channel: &Channel) -> Result<Range<usize>> {
        let rest = &self.scene.rig.joints()[channel.joint].rest;
        let keys = &mut self.scratch.keys;
        let track = channel.track.and_then(|i| clip.tracks.get(i));
        let curve = track.map(|t| &t.curve);
        let mut timeline = match track {
            Some(track) if !track.curve.is_constant() => Some(track.timeline as usize),
            _ => None,
        };
        let known = match timeline {
            Some(i) => {
                let known = self.scratch.timelines[i].get_or_insert_with(|| {
                    let (mut ticks, mut keys) = (Vec::new(), Vec::new());
                    key_ticks(&clip.timelines[i], &mut ticks, &mut keys);
                    TimelineKeys { ticks, keys, blob: None }
                });
                (known.ticks.as_slice(), known.keys.as_slice())
            }
            // A value that does not change: one key at the begin.
            None => ([0i64].as_slice(), [0u32].as_slice()),
        };
        let interpolation = curve.map_or(Interpolation::Linear, |c| c.interpolation);
        match (channel.path, curve.map(|c| &c.values)) {
            (Path::Rotation, values) => {
                let values = match values {
                    Some(Values::Quat(q)) => q.as_slice(),
                    None => std::slice::from_ref(&rest.rotation),
                    Some(_) => return Err(no_vectors()),
                };
                let start = self.rest_angles[channel.joint];
                let tolerance = self.tolerances[channel.joint];
                keys.rotations(known.0, known.1, values, interpolation, start, tolerance);
            }
            (path, values) => {
                let rest = if path == Path::Scale { &rest.scale } else { &rest.translation };
                let values = match values {
                    Some(Values::Vec3(v)) => v.as_slice(),
                    None => std::slice::from_ref(rest),
                    Some(_) => return Err(no_vectors()),
                };
                let rest = if rest.is_finite() { *rest } else { Vec3::ZERO };
                keys.vectors(known.0, known.1, values, interpolation, rest);
            }
        }
        if channel.hold_to_end {
            keys.hold_to(ticks(clip.length_s));
            timeline = None;
        }
        // Channels of one timeline share its encoded ticks, as long as no key was added.
        let known = match timeline {
            Some(i) if !keys.added => self.scratch.timelines[i].as_mut(),
            _ => None,
        };
        let encode = |w: &mut Writer, blobs| w.encode(&keys.ticks, blobs);
        Ok(match known {
            Some(TimelineKeys { blob: Some(blob), .. }) => blob.clone(),
            Some(known) => {
                let blob = encode(&mut self.w, &mut self.scratch.blobs);
                known.blob = Some(blob.clone());
                blob
            }
            None => encode(&mut self.w, &mut self.scratch.blobs),
        })
    }

    /// Curves of the user properties that tracks of numbers move.
    fn custom_curves(&mut self, animation: &Animation<'_>, models: i64, layer: i64) {
        let clip = animation.clip;
        for (name, track) in custom_tracks(self.scene.rig, animation) {
            let Some((name, Custom { axis, .. })) = self.custom.get_key_value(&name) else { continue };
            let track = &clip.tracks[track];
            let Values::Scalar(values) = &track.curve.values else { continue };
            let (mut at, mut keys) = (vec![0], vec![0]);
            if !track.curve.is_constant() {
                key_ticks(clip.timeline(track), &mut at, &mut keys);
            }
            self.scratch.keys.numbers(&at, &keys, values, track.curve.interpolation);
            let (node, curve) = (self.id(), self.id());
            let keys = &self.scratch.keys;
            let value = keys.values[0].first().copied().map_or(0.0, f64::from);
            let w = &mut self.w;
            w.begin("AnimationCurveNode").i64(node).object_name(name, "AnimCurveNode").string("");
            w.begin("Properties70");
            w.p_number(axis, "A", value);
            w.end();
            w.end();
            write_curve(w, curve, Ticks::Plain(&keys.ticks), &keys.values[0]);
            self.connect(node, layer);
            let property = self.properties.len() as u32;
            self.properties.extend([name.as_str(), axis.as_str()]);
            self.scratch.connections.push((node, models, property));
            self.scratch.connections.push((curve, node, property + 1));
        }
    }

    fn connections(&mut self) {
        let w = &mut self.w;
        w.begin("Connections");
        let kinds: Vec<Template> =
            self.properties.iter().map(|name| Template::new(|w| write_connection(w, name))).collect();
        for &(child, parent, property) in &self.scratch.connections {
            let template = &kinds[property as usize];
            let at = w.stamp(template) + template.value(0) + CONNECTION_CHILD;
            w.put(at, child.to_le_bytes());
            w.put(at + 8 + 1, parent.to_le_bytes());
        }
        w.end();
    }

    fn takes(&mut self) {
        let scene = self.scene;
        self.w.begin("Takes");
        self.w.leaf_string("Current", scene.animations.first().map_or("", |a| a.name.as_str()));
        for animation in &scene.animations {
            let stop = stop_tick(animation.clip, self.rate_hz);
            let w = &mut self.w;
            w.begin("Take").string(&animation.name);
            w.leaf_string("FileName", &format!("{}.tak", animation.name));
            w.begin("LocalTime").i64(0).i64(stop).end();
            w.begin("ReferenceTime").i64(0).i64(stop).end();
            w.end();
        }
        self.w.end();
    }
}
