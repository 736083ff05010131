//! .glb and .gltf (glTF 2.0, public specification), read without any glTF library.
//!
//! Typed crates read what valid files hold; this reader also tells what is wrong with the others, and shares
//! nothing with the writer, so that `verify` checks it.
//!
//! A .glb, little-endian:
//!
//! | Offset | Type | Field |
//! |---|---|---|
//! | 0 | u32 | `glTF` |
//! | 4 | u32 | version, 2 |
//! | 8 | u32 | bytes of the whole file |
//! | 12 | chunks | u32 bytes, u32 type (`JSON` first, then `BIN\0`), the bytes |
//!
//! An accessor's element i of width w stands at `view.byteOffset + accessor.byteOffset + i * stride`, stride the
//! view's or w. Normalised integers are `c / max`, the signed ones not below -1. Sparse accessors and compressed
//! views are refused.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use glam::{DMat4, DQuat, DVec3, Quat, Vec3};
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::error::{Error, ErrorKind, Result};
use crate::games::own::scene::{
    Animation, Basis, BindPose, Channel, Content, Curve, FileNode, Format, ImportedScene, Joint, Keys, Mode,
    NodeKind, Numbers, Path, Transform,
};
use crate::games::own::transform;
use crate::io::bytes::Cursor;
use crate::model::Trs;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    #[serde(default)]
    asset: DocumentAsset,
    #[serde(default)]
    nodes: Vec<DocumentNode>,
    #[serde(default)]
    skins: Vec<DocumentSkin>,
    #[serde(default)]
    animations: Vec<DocumentAnimation>,
    #[serde(default)]
    accessors: Vec<DocumentAccessor>,
    #[serde(default)]
    buffer_views: Vec<DocumentView>,
    #[serde(default)]
    buffers: Vec<DocumentBuffer>,
    #[serde(default)]
    meshes: Vec<IgnoredAny>,
    #[serde(default)]
    materials: Vec<IgnoredAny>,
    #[serde(default)]
    cameras: Vec<IgnoredAny>,
    #[serde(default)]
    scenes: Vec<IgnoredAny>,
}

#[derive(Deserialize, Default)]
struct DocumentAsset {
    generator: Option<String>,
}

#[derive(Deserialize)]
struct DocumentNode {
    name: Option<String>,
    #[serde(default)]
    children: Vec<usize>,
    matrix: Option<[f64; 16]>,
    translation: Option<[f64; 3]>,
    rotation: Option<[f64; 4]>,
    scale: Option<[f64; 3]>,
    mesh: Option<usize>,
    camera: Option<usize>,
    skin: Option<usize>,
    extras: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DocumentSkin {
    #[serde(default)]
    joints: Vec<usize>,
    inverse_bind_matrices: Option<usize>,
    skeleton: Option<usize>,
}

#[derive(Deserialize)]
struct DocumentAnimation {
    name: Option<String>,
    #[serde(default)]
    channels: Vec<DocumentChannel>,
    #[serde(default)]
    samplers: Vec<DocumentSampler>,
    extras: Option<Value>,
}

#[derive(Deserialize)]
struct DocumentChannel {
    sampler: usize,
    target: DocumentTarget,
}

#[derive(Deserialize)]
struct DocumentTarget {
    node: Option<usize>,
    path: String,
    extensions: Option<Value>,
}

#[derive(Deserialize)]
struct DocumentSampler {
    input: usize,
    output: usize,
    interpolation: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DocumentAccessor {
    buffer_view: Option<usize>,
    #[serde(default)]
    byte_offset: usize,
    component_type: u32,
    #[serde(default)]
    normalized: bool,
    count: usize,
    #[serde(rename = "type")]
    shape: String,
    sparse: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DocumentView {
    buffer: usize,
    #[serde(default)]
    byte_offset: usize,
    byte_length: usize,
    byte_stride: Option<usize>,
    #[serde(default)]
    extensions: BTreeMap<String, IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DocumentBuffer {
    byte_length: usize,
    uri: Option<String>,
}

fn bad(found: impl std::fmt::Display, expected: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Malformed, format!("found {found}, expected {expected}"))
}

/// The JSON of a file and, of a .glb, its binary chunk.
///
/// # Errors
/// Chunks that do not fit into the file.
pub fn chunks(bytes: &[u8]) -> Result<(&[u8], Option<&[u8]>)> {
    if !bytes.starts_with(b"glTF") {
        return Ok((bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes), None));
    }
    let mut c = Cursor::new(bytes, 0);
    c.skip(4, "the magic")?;
    let version = c.u32("the version")?;
    if version != 2 {
        return Err(Error::malformed(4, format_args!("version {version}"), "2"));
    }
    let length = c.u32("the length")? as usize;
    if length > bytes.len() {
        return Err(Error::malformed(
            8,
            format_args!("a length of {length}"),
            format_args!("{}", bytes.len()),
        ));
    }
    let mut chunk = |expected: &[u8; 4]| -> Result<&[u8]> {
        let at = c.offset();
        let size = c.u32("the bytes of a chunk")? as usize;
        let kind = c.array::<4>("the type of a chunk")?;
        if kind != *expected {
            return Err(Error::malformed(
                at + 4,
                format_args!("chunk {:?}", String::from_utf8_lossy(&kind)),
                format_args!("{:?}", String::from_utf8_lossy(expected)),
            ));
        }
        let data = c.take(size, "a chunk")?;
        Ok(data)
    };
    let json = chunk(b"JSON")?;
    let bin = if 20 + json.len() < length { Some(chunk(b"BIN\0")?) } else { None };
    Ok((json, bin))
}

/// Reads a file. `load` gives the bytes of the files that buffers name: decoded URI, bytes wanted.
///
/// # Errors
/// Malformed: no JSON, indices or ranges outside of what is there, key times that do not rise, values that are no
/// numbers. Unsupported: sparse accessors, compressed views. For a skeleton nothing of buffers is an error: bind
/// poses that cannot be read are named in the notes.
pub fn read(
    bytes: &[u8],
    content: Content,
    load: &mut dyn FnMut(&str, usize) -> Result<Vec<u8>>,
) -> Result<ImportedScene> {
    let (json, bin) = chunks(bytes)?;
    let document: Document = serde_json::from_slice(json)
        .map_err(|e| Error::new(ErrorKind::Malformed, format!("found JSON that is no glTF: {e}")))?;
    let mut notes = Vec::new();
    let wanted = match content {
        Content::Animations => vec![true; document.buffers.len()],
        Content::Skeleton => buffers_of_skins(&document),
    };
    let mut buffers = Vec::with_capacity(document.buffers.len());
    for (i, (buffer, wanted)) in document.buffers.iter().zip(wanted).enumerate() {
        let data = if wanted { buffer_bytes(i, buffer, bin, load) } else { Ok(Cow::Borrowed(&[][..])) };
        buffers.push(match (data, content) {
            (Ok(data), _) => data,
            (Err(e), Content::Animations) => return Err(e),
            (Err(e), Content::Skeleton) => {
                notes.push(format!("buffer {i} is passed over: {e}"));
                Cow::Borrowed(&[][..])
            }
        });
    }
    let reader = Reader { document: &document, buffers };
    let mut joints = reader.nodes()?;
    let mut bind_poses = Vec::new();
    let mut animations = Vec::new();
    match content {
        Content::Animations => {
            for (i, skin) in document.skins.iter().enumerate() {
                let Some(matrices) = reader.inverse_bind_matrices(i, skin)? else { continue };
                for (&joint, matrix) in skin.joints.iter().zip(matrices) {
                    joints[joint].inverse_bind = Some(matrix);
                }
            }
            for (i, animation) in document.animations.iter().enumerate() {
                let name = animation.name.clone().unwrap_or_else(|| format!("animation_{i}"));
                animations.push(reader.animation(&name, animation).map_err(|e| e.in_entry(name.clone()))?);
            }
        }
        Content::Skeleton => bind_poses = reader.bind_poses(&mut notes),
    }
    let contents = [
        ("cameras", document.cameras.len()),
        ("materials", document.materials.len()),
        ("meshes", document.meshes.len()),
        ("scenes", document.scenes.len()),
        ("skins", document.skins.len()),
    ];
    let scene = ImportedScene {
        writer: document.asset.generator.clone().unwrap_or_default(),
        joints,
        animations,
        contents: contents.into_iter().collect(),
        has_animation: document.animations.iter().any(|a| !a.channels.is_empty()),
        bind_poses,
        notes,
        ..ImportedScene::empty(Format::Gltf)
    };
    scene.arrange(content)
}

/// Which buffers hold inverse bind matrices.
fn buffers_of_skins(document: &Document) -> Vec<bool> {
    let mut wanted = vec![false; document.buffers.len()];
    for skin in &document.skins {
        let accessor = skin.inverse_bind_matrices.and_then(|a| document.accessors.get(a));
        let view = accessor.and_then(|a| document.buffer_views.get(a.buffer_view?));
        if let Some(wanted) = view.and_then(|v| wanted.get_mut(v.buffer)) {
            *wanted = true;
        }
    }
    wanted
}

/// The stated bytes of buffer `i`.
fn buffer_bytes<'a>(
    i: usize,
    buffer: &DocumentBuffer,
    bin: Option<&'a [u8]>,
    load: &mut dyn FnMut(&str, usize) -> Result<Vec<u8>>,
) -> Result<Cow<'a, [u8]>> {
    let wanted = buffer.byte_length;
    let data = match (&buffer.uri, bin) {
        (Some(uri), _) => {
            Cow::Owned(from_uri(uri, wanted, load).map_err(|e| e.in_entry(format!("buffer {i}")))?)
        }
        (None, Some(bin)) if i == 0 => Cow::Borrowed(bin),
        (None, _) => Cow::Borrowed(&[][..]),
    };
    if data.len() < wanted {
        return Err(bad(format_args!("{} bytes of buffer {i}", data.len()), format_args!("{wanted}")));
    }
    Ok(match data {
        Cow::Borrowed(data) => Cow::Borrowed(&data[..wanted]),
        Cow::Owned(mut data) => {
            data.truncate(wanted);
            Cow::Owned(data)
        }
    })
}

/// Flat values of an accessor.
struct Array {
    values: Vec<f64>,
    width: usize,
}

impl Array {
    fn rows(&self) -> impl Iterator<Item = &[f64]> {
        self.values.chunks_exact(self.width)
    }
}

struct Reader<'a> {
    document: &'a Document,
    buffers: Vec<Cow<'a, [u8]>>,
}

impl Reader<'_> {
    fn nodes(&self) -> Result<Vec<Joint>> {
        let files = &self.document.nodes;
        let mut nodes: Vec<Joint> = Vec::with_capacity(files.len());
        for (i, file) in files.iter().enumerate() {
            let draws_nothing = file.mesh.is_none() && file.camera.is_none();
            nodes.push(Joint {
                name: file.name.clone().unwrap_or_else(|| format!("node_{i}")),
                parent: None,
                rest: rest(file).map_err(|e| e.in_entry(format!("node {i}")))?,
                inverse_bind: None,
                extras: file.extras.clone(),
                file: FileNode {
                    index: i,
                    is_named: file.name.is_some(),
                    kind: if draws_nothing { NodeKind::Empty } else { NodeKind::Other },
                    transform: file_transform(file),
                },
            });
        }
        for (i, file) in files.iter().enumerate() {
            for &child in &file.children {
                match nodes.get_mut(child) {
                    Some(node) if node.parent.is_none() => node.parent = Some(i),
                    Some(_) => {
                        return Err(bad(format_args!("node {child} below two nodes"), "one parent"));
                    }
                    None => {
                        return Err(bad(
                            format_args!("child {child} of node {i}"),
                            format_args!("one of the {} nodes", files.len()),
                        ));
                    }
                }
            }
        }
        for (i, skin) in self.document.skins.iter().enumerate() {
            for &joint in &skin.joints {
                let Some(node) = nodes.get_mut(joint) else {
                    return Err(bad(
                        format_args!("joint {joint} of skin {i}"),
                        format_args!("one of the {} nodes", files.len()),
                    ));
                };
                node.file.kind = NodeKind::Joint;
            }
        }
        Ok(nodes)
    }

    /// One matrix a joint of skin `i`; `None` where the file gives none.
    fn inverse_bind_matrices(&self, i: usize, skin: &DocumentSkin) -> Result<Option<Vec<DMat4>>> {
        let Some(accessor) = skin.inverse_bind_matrices else { return Ok(None) };
        let array = self.accessor(accessor)?;
        if array.width != 16 || array.values.len() / 16 < skin.joints.len() {
            return Err(bad(
                format_args!("inverse bind matrices of skin {i} that do not fit"),
                format_args!("{} matrices", skin.joints.len()),
            ));
        }
        let (matrices, _) = array.values.as_chunks();
        Ok(Some(matrices.iter().take(skin.joints.len()).map(DMat4::from_cols_array).collect()))
    }

    /// The bind pose of each skin that has one. Matrices that are all the identity say nothing: it is what the
    /// specification puts where there are none.
    fn bind_poses(&self, notes: &mut Vec<String>) -> Vec<BindPose> {
        let mut meshes: Vec<Vec<usize>> = vec![Vec::new(); self.document.skins.len()];
        for (n, node) in self.document.nodes.iter().enumerate() {
            if let (Some(_), Some(list)) = (node.mesh, node.skin.and_then(|s| meshes.get_mut(s))) {
                list.push(n);
            }
        }
        let mut poses = Vec::new();
        for (i, (skin, mut spaces)) in self.document.skins.iter().zip(meshes).enumerate() {
            let inverse = match self.inverse_bind_matrices(i, skin) {
                Ok(Some(inverse)) => inverse,
                Ok(None) => continue,
                Err(e) => {
                    notes.push(format!("the bind pose of skin {i} is passed over: {e}"));
                    continue;
                }
            };
            if inverse.len() > 1 && inverse.iter().all(|m| *m == DMat4::IDENTITY) {
                continue;
            }
            let pairs = skin.joints.iter().zip(inverse).map(|(j, m)| (*j, m.inverse()));
            let joints = pairs.filter(|(_, m)| m.is_finite() && m.determinant().abs() > 0.0).collect();
            spaces.extend(skin.skeleton.filter(|n| *n < self.document.nodes.len()));
            poses.push(BindPose { joints, spaces, in_scene: false });
        }
        poses
    }

    fn animation(&self, name: &str, file: &DocumentAnimation) -> Result<Animation> {
        let mut out = Animation {
            name: name.to_owned(),
            length_s: 0.0,
            channels: Vec::with_capacity(file.channels.len()),
            numbers: Vec::new(),
            extras: file.extras.clone(),
        };
        for (i, channel) in file.channels.iter().enumerate() {
            self.channel(file, channel, &mut out).map_err(|e| e.in_entry(format!("channel {i}")))?;
        }
        Ok(out)
    }

    fn channel(
        &self,
        file: &DocumentAnimation,
        channel: &DocumentChannel,
        out: &mut Animation,
    ) -> Result<()> {
        let Some(sampler) = file.samplers.get(channel.sampler) else {
            return Err(bad(
                format_args!("sampler {}", channel.sampler),
                format_args!("one of {}", file.samplers.len()),
            ));
        };
        let mode = match sampler.interpolation.as_deref() {
            None | Some("LINEAR") => Mode::Linear,
            Some("STEP") => Mode::Step,
            Some("CUBICSPLINE") => Mode::Cubic,
            Some(other) => {
                return Err(bad(format_args!("interpolation {other}"), "LINEAR, STEP or CUBICSPLINE"));
            }
        };
        let times = self.accessor(sampler.input)?;
        let values = self.accessor(sampler.output)?;
        if times.width != 1 || times.values.is_empty() {
            return Err(bad(format_args!("{} key times", times.values.len()), "at least one number"));
        }
        if let Some(i) = times.values.windows(2).position(|w| w[0] >= w[1]) {
            return Err(bad(
                format_args!("key {} at {} s after {} s", i + 1, times.values[i + 1], times.values[i]),
                "times that rise",
            ));
        }
        let wanted = times.values.len() * if mode == Mode::Cubic { 3 } else { 1 };
        let have = values.values.len() / values.width;
        let target = &channel.target;
        let path = match (target.path.as_str(), target.node) {
            ("translation", Some(node)) => Some((node, Path::Translation, 3)),
            ("rotation", Some(node)) => Some((node, Path::Rotation, 4)),
            ("scale", Some(node)) => Some((node, Path::Scale, 3)),
            _ => None,
        };
        let last = times.values.last().copied().unwrap_or(0.0);
        let Some((node, path, width)) = path else {
            let pointer = target
                .extensions
                .as_ref()
                .and_then(|e| e.get("KHR_animation_pointer")?.get("pointer")?.as_str());
            let name = match (pointer, target.node) {
                (Some(pointer), _) => pointer.to_owned(),
                (None, Some(node)) => format!("{} of node {node}", target.path),
                // Without a target the specification has it ignored.
                (None, None) => return Ok(()),
            };
            if values.values.is_empty() || values.values.len() % times.values.len() != 0 {
                return Err(bad(format_args!("{have} values"), format_args!("{wanted}")));
            }
            out.length_s = out.length_s.max(last);
            out.numbers.push(Numbers { name, times: times.values, values: values.values, mode });
            return Ok(());
        };
        if node >= self.document.nodes.len() {
            return Err(bad(
                format_args!("node {node}"),
                format_args!("one of {}", self.document.nodes.len()),
            ));
        }
        if values.width != width || have != wanted {
            return Err(bad(
                format_args!("{have} values of {}", values.width),
                format_args!("{wanted} of {width} for {}", path.name()),
            ));
        }
        let tangent = |k: usize| mode == Mode::Cubic && k % 3 != 1;
        let mut rows = Vec::with_capacity(have);
        for (k, row) in values.rows().enumerate() {
            let v = DVec3::new(row[0], row[1], row[2]);
            rows.push(match path {
                Path::Translation => Basis::GLTF.translation(v).extend(0.0).to_array(),
                Path::Scale => Basis::GLTF.scale(v).extend(0.0).to_array(),
                Path::Rotation => {
                    let q = Basis::GLTF.rotation(DQuat::from_xyzw(row[0], row[1], row[2], row[3]));
                    if tangent(k) { q.to_array() } else { unit(q)?.to_array() }
                }
            });
        }
        out.length_s = out.length_s.max(last);
        let curve = Curve::Keys(Keys { times: times.values, rows, mode });
        out.channels.push(Channel { joint: node, path, curve });
        Ok(())
    }

    fn accessor(&self, index: usize) -> Result<Array> {
        self.try_accessor(index).map_err(|e| e.in_entry(format!("accessor {index}")))
    }

    fn try_accessor(&self, index: usize) -> Result<Array> {
        let Some(accessor) = self.document.accessors.get(index) else {
            return Err(bad("its index", format_args!("one of {}", self.document.accessors.len())));
        };
        let width = match accessor.shape.as_str() {
            "SCALAR" => 1,
            "VEC2" => 2,
            "VEC3" => 3,
            "VEC4" => 4,
            "MAT4" => 16,
            other => return Err(Error::unsupported(format!("an accessor of type {other}"))),
        };
        let size = match accessor.component_type {
            5120 | 5121 => 1,
            5122 | 5123 => 2,
            5125 | 5126 => 4,
            other => return Err(bad(format_args!("component type {other}"), "5120 to 5123, 5125 or 5126")),
        };
        if accessor.sparse.is_some() {
            return Err(Error::unsupported("a sparse accessor"));
        }
        let Some(view) = accessor.buffer_view.and_then(|v| self.document.buffer_views.get(v)) else {
            return Err(bad("no buffer view that is there", "one"));
        };
        if let Some(name) = view.extensions.keys().next() {
            return Err(Error::unsupported(format!("a view that is packed by {name}")));
        }
        let Some(buffer) = self.buffers.get(view.buffer) else {
            return Err(bad(
                format_args!("buffer {}", view.buffer),
                format_args!("one of {}", self.buffers.len()),
            ));
        };
        let element = width * size;
        let stride = view.byte_stride.unwrap_or(element);
        let data = view
            .byte_offset
            .checked_add(view.byte_length)
            .and_then(|end| buffer.get(view.byte_offset..end))
            .and_then(|view| view.get(accessor.byte_offset..));
        // Bytes from the first element to the end of the last.
        let span = match accessor.count {
            0 => Some(0),
            n => (n - 1).checked_mul(stride).and_then(|s| s.checked_add(element)),
        };
        let (Some(data), Some(span)) = (data, span) else {
            return Err(bad("a range outside of its buffer", format_args!("one of {} bytes", buffer.len())));
        };
        if span > data.len() || stride < element {
            return Err(Error::new(
                ErrorKind::Limit,
                format!(
                    "found {} elements of {element} bytes, {stride} apart, with {} bytes there, expected a count that fits",
                    accessor.count,
                    data.len()
                ),
            ));
        }
        let mut values = Vec::with_capacity(accessor.count * width);
        let normalized = accessor.normalized;
        for element in 0..accessor.count {
            let start = element * stride;
            for c in data[start..start + width * size].chunks_exact(size) {
                values.push(component(accessor.component_type, normalized, c));
            }
        }
        if values.iter().any(|v| !v.is_finite()) {
            return Err(bad("a value that is no finite number", "numbers"));
        }
        Ok(Array { values, width })
    }
}

fn component(kind: u32, normalized: bool, c: &[u8]) -> f64 {
    let signed = |v: f64, max: f64| if normalized { (v / max).max(-1.0) } else { v };
    let unsigned = |v: f64, max: f64| if normalized { v / max } else { v };
    match (kind, c) {
        (5120, [a]) => signed(f64::from(*a as i8), 127.0),
        (5121, [a]) => unsigned(f64::from(*a), 255.0),
        (5122, [a, b]) => signed(f64::from(i16::from_le_bytes([*a, *b])), 32767.0),
        (5123, [a, b]) => unsigned(f64::from(u16::from_le_bytes([*a, *b])), 65535.0),
        (5125, [a, b, c, d]) => f64::from(u32::from_le_bytes([*a, *b, *c, *d])),
        (5126, [a, b, c, d]) => f64::from(f32::from_le_bytes([*a, *b, *c, *d])),
        _ => f64::NAN,
    }
}

/// Of length 1.
fn unit(q: DQuat) -> Result<DQuat> {
    let length = q.length();
    if length.is_finite() && length > 1e-6 {
        Ok(q * (1.0 / length))
    } else {
        Err(bad(format_args!("a rotation of length {length}"), "1"))
    }
}

fn rest(node: &DocumentNode) -> Result<Transform> {
    let (scale, rotation, translation) = match node.matrix {
        Some(m) => {
            let m = DMat4::from_cols_array(&m);
            if m.determinant() == 0.0 {
                return Err(Error::unsupported("a matrix that flattens"));
            }
            m.to_scale_rotation_translation()
        }
        None => (
            DVec3::from_array(node.scale.unwrap_or([1.0; 3])),
            DQuat::from_array(node.rotation.unwrap_or([0.0, 0.0, 0.0, 1.0])),
            DVec3::from_array(node.translation.unwrap_or([0.0; 3])),
        ),
    };
    if !(scale.is_finite() && translation.is_finite()) {
        return Err(bad("a transform that is no number", "numbers"));
    }
    Ok(Transform {
        translation: Basis::GLTF.translation(translation),
        rotation: Basis::GLTF.rotation(unit(rotation)?),
        scale: Basis::GLTF.scale(scale),
    })
}

/// The node's transform in the file's space, in f32 as glTF states it: what this project wrote comes back to the
/// bit.
fn file_transform(node: &DocumentNode) -> Trs {
    if let Some(m) = node.matrix {
        return transform::decomposed(&DMat4::from_cols_array(&m.map(|v| f64::from(v as f32))), 1e-6);
    }
    let vector = |v: [f64; 3]| Vec3::from_array(v.map(|v| v as f32));
    let q = Quat::from_array(node.rotation.unwrap_or([0.0, 0.0, 0.0, 1.0]).map(|v| v as f32));
    Trs {
        translation: vector(node.translation.unwrap_or_default()),
        // Unit but for the rounding to f32.
        rotation: if (q.length_squared() - 1.0).abs() < 4e-7 {
            q
        } else {
            q.as_dquat().normalize().as_quat()
        },
        scale: vector(node.scale.unwrap_or([1.0; 3])),
    }
}

/// Bytes of a `data:` URI, or of the file that a relative one names.
fn from_uri(
    uri: &str,
    wanted: usize,
    load: &mut dyn FnMut(&str, usize) -> Result<Vec<u8>>,
) -> Result<Vec<u8>> {
    if let Some(data) = uri.strip_prefix("data:") {
        let Some((_, text)) = data.split_once(";base64,") else {
            return Err(Error::unsupported("a data URI that is not base64"));
        };
        return BASE64.decode(text).map_err(|e| bad(e, "base64"));
    }
    load(&percent_decode(uri)?, wanted)
}

/// With or without padding: files have both.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// The name of the file that a relative URI names.
///
/// # Errors
/// Malformed: no UTF-8.
pub(crate) fn percent_decode(uri: &str) -> Result<String> {
    let text = percent_decode_str(uri).decode_utf8().map_err(|_| bad("a URI that is no UTF-8", "text"))?;
    Ok(text.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none(_: &str, _: usize) -> Result<Vec<u8>> {
        Err(Error::unsupported("nothing beside it"))
    }

    #[test]
    fn data_uris_with_and_without_padding() {
        for (text, plain) in
            [("", ""), ("Zg==", "f"), ("Zg", "f"), ("Zm8=", "fo"), ("Zm9v", "foo"), ("Zm9vYmFy", "foobar")]
        {
            let uri = format!("data:application/gltf-buffer;base64,{text}");
            assert_eq!(from_uri(&uri, 0, &mut none).unwrap(), plain.as_bytes());
        }
        assert!(from_uri("data:;base64,a*b", 0, &mut none).is_err());
        assert!(from_uri("data:,text", 0, &mut none).is_err());
        assert_eq!(percent_decode("a%20b%2Fc%").unwrap(), "a b/c%");
        assert!(percent_decode("%FF").is_err());
    }

    #[test]
    fn every_component_type_is_read() {
        // 8 bytes: 7F 81 00 80 | 00 00 80 3F.
        let text = r#"{"asset":{"version":"2.0"},
            "buffers":[{"byteLength":8,"uri":"data:application/octet-stream;base64,f4EAgAAAgD8="}],
            "bufferViews":[{"buffer":0,"byteLength":8}],
            "accessors":[
                {"bufferView":0,"componentType":5120,"normalized":true,"count":2,"type":"SCALAR"},
                {"bufferView":0,"componentType":5121,"normalized":true,"count":2,"type":"SCALAR"},
                {"bufferView":0,"componentType":5122,"normalized":true,"count":2,"type":"SCALAR"},
                {"bufferView":0,"componentType":5123,"normalized":true,"count":2,"type":"SCALAR"},
                {"bufferView":0,"byteOffset":4,"componentType":5126,"count":1,"type":"SCALAR"},
                {"bufferView":0,"byteOffset":4,"componentType":5126,"count":2,"type":"SCALAR"},
                {"bufferView":0,"componentType":5126,"count":4611686018427387904,"type":"VEC4"}]}"#;
        let document: Document = serde_json::from_str(text).unwrap();
        let data = from_uri(document.buffers[0].uri.as_deref().unwrap(), 8, &mut none).unwrap();
        let reader = Reader { document: &document, buffers: vec![Cow::Borrowed(&data)] };
        let values = |i| reader.accessor(i).map(|a| a.values);
        assert_eq!(values(0).unwrap(), [1.0, -1.0]);
        assert_eq!(values(1).unwrap(), [127.0 / 255.0, 129.0 / 255.0]);
        assert_eq!(values(2).unwrap(), [-32385.0 / 32767.0, -1.0]);
        assert_eq!(values(3).unwrap(), [33151.0 / 65535.0, 32768.0 / 65535.0]);
        assert_eq!(values(4).unwrap(), [1.0]);
        assert_eq!(values(5).unwrap_err().kind(), ErrorKind::Limit);
        assert!(values(6).is_err());
        assert!(values(7).is_err());
    }

    #[test]
    fn loops_and_two_parents_are_refused() {
        for nodes in [r#"[{"children":[1]},{"children":[0]}]"#, r#"[{"children":[1]},{},{"children":[1]}]"#] {
            let text = format!(r#"{{"nodes":{nodes}}}"#);
            assert_eq!(
                read(text.as_bytes(), Content::Animations, &mut none).unwrap_err().kind(),
                ErrorKind::Malformed
            );
        }
        assert!(read(br#"{"nodes":[{"children":[7]}]}"#, Content::Animations, &mut none).is_err());
    }
}
