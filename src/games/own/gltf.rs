//! .glb and .gltf (glTF 2.0, public specification), read without any glTF library.
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

use std::collections::BTreeMap;

use glam::{DMat4, DQuat, DVec3};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::error::{Error, ErrorKind, Result};
use crate::games::own::scene::arrange;
use crate::games::own::scene::{
    Animation, Basis, Channel, Curve, Format, Joint, Keys, Local, Mode, Node, Numbers, Path, Shown,
};
use crate::io::bytes::Cursor;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    #[serde(default)]
    nodes: Vec<FileNode>,
    #[serde(default)]
    skins: Vec<FileSkin>,
    #[serde(default)]
    animations: Vec<FileAnimation>,
    #[serde(default)]
    accessors: Vec<FileAccessor>,
    #[serde(default)]
    buffer_views: Vec<FileView>,
    #[serde(default)]
    buffers: Vec<FileBuffer>,
    #[serde(default)]
    meshes: Vec<IgnoredAny>,
    #[serde(default)]
    materials: Vec<IgnoredAny>,
    #[serde(default)]
    cameras: Vec<IgnoredAny>,
    #[serde(default)]
    scenes: Vec<IgnoredAny>,
}

#[derive(Deserialize)]
struct FileNode {
    name: Option<String>,
    #[serde(default)]
    children: Vec<usize>,
    matrix: Option<[f64; 16]>,
    translation: Option<[f64; 3]>,
    rotation: Option<[f64; 4]>,
    scale: Option<[f64; 3]>,
    extras: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FileSkin {
    #[serde(default)]
    joints: Vec<usize>,
    inverse_bind_matrices: Option<usize>,
}

#[derive(Deserialize)]
struct FileAnimation {
    name: Option<String>,
    #[serde(default)]
    channels: Vec<FileChannel>,
    #[serde(default)]
    samplers: Vec<FileSampler>,
    extras: Option<Value>,
}

#[derive(Deserialize)]
struct FileChannel {
    sampler: usize,
    target: FileTarget,
}

#[derive(Deserialize)]
struct FileTarget {
    node: Option<usize>,
    path: String,
    extensions: Option<Value>,
}

#[derive(Deserialize)]
struct FileSampler {
    input: usize,
    output: usize,
    interpolation: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FileAccessor {
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
struct FileView {
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
struct FileBuffer {
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
/// numbers. Unsupported: sparse accessors, compressed views.
pub fn read(bytes: &[u8], load: &mut dyn FnMut(&str, usize) -> Result<Vec<u8>>) -> Result<Shown> {
    let (json, bin) = chunks(bytes)?;
    let document: Document = serde_json::from_slice(json)
        .map_err(|e| Error::new(ErrorKind::Malformed, format!("found JSON that is no glTF: {e}")))?;
    let mut loaded: Vec<Option<Vec<u8>>> = Vec::with_capacity(document.buffers.len());
    for (i, buffer) in document.buffers.iter().enumerate() {
        loaded.push(match &buffer.uri {
            Some(uri) => {
                Some(from_uri(uri, buffer.byte_length, load).map_err(|e| e.in_entry(format!("buffer {i}")))?)
            }
            None => None,
        });
    }
    let mut buffers: Vec<&[u8]> = Vec::with_capacity(loaded.len());
    for (i, (buffer, loaded)) in document.buffers.iter().zip(&loaded).enumerate() {
        let data = match (loaded, bin) {
            (Some(data), _) => data.as_slice(),
            (None, Some(bin)) if i == 0 => bin,
            (None, _) => &[],
        };
        if data.len() < buffer.byte_length {
            return Err(bad(
                format_args!("{} bytes of buffer {i}", data.len()),
                format_args!("{}", buffer.byte_length),
            ));
        }
        buffers.push(&data[..buffer.byte_length]);
    }
    let reader = Reader { document: &document, buffers };
    let nodes = reader.nodes()?;
    let mut animations = Vec::with_capacity(document.animations.len());
    for (i, animation) in document.animations.iter().enumerate() {
        let name = animation.name.clone().unwrap_or_else(|| format!("animation_{i}"));
        animations.push(reader.animation(&name, animation).map_err(|e| e.in_entry(name.clone()))?);
    }
    let contents = [
        ("cameras", document.cameras.len()),
        ("materials", document.materials.len()),
        ("meshes", document.meshes.len()),
        ("scenes", document.scenes.len()),
        ("skins", document.skins.len()),
    ];
    arrange(Format::Gltf, nodes, animations, contents.into_iter().collect())
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
    buffers: Vec<&'a [u8]>,
}

impl Reader<'_> {
    fn nodes(&self) -> Result<Vec<Node>> {
        let files = &self.document.nodes;
        let mut nodes: Vec<Node> = Vec::with_capacity(files.len());
        for (i, file) in files.iter().enumerate() {
            nodes.push(Node {
                joint: Joint {
                    name: file.name.clone().unwrap_or_else(|| format!("node_{i}")),
                    parent: None,
                    rest: rest(file).map_err(|e| e.in_entry(format!("node {i}")))?,
                    inverse_bind: None,
                    extras: file.extras.clone(),
                },
                wanted: false,
            });
        }
        for (i, file) in files.iter().enumerate() {
            for &child in &file.children {
                match nodes.get_mut(child) {
                    Some(node) if node.joint.parent.is_none() => node.joint.parent = Some(i),
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
            let binds = match skin.inverse_bind_matrices {
                Some(accessor) => {
                    let array = self.accessor(accessor)?;
                    if array.width != 16 || array.values.len() / 16 < skin.joints.len() {
                        return Err(bad(
                            format_args!("inverse bind matrices of skin {i} that do not fit"),
                            format_args!("{} matrices", skin.joints.len()),
                        ));
                    }
                    Some(array)
                }
                None => None,
            };
            for (k, &joint) in skin.joints.iter().enumerate() {
                let Some(node) = nodes.get_mut(joint) else {
                    return Err(bad(
                        format_args!("joint {joint} of skin {i}"),
                        format_args!("one of the {} nodes", files.len()),
                    ));
                };
                node.wanted = true;
                if let Some(binds) = &binds {
                    let mut m = [0.0; 16];
                    m.copy_from_slice(&binds.values[k * 16..k * 16 + 16]);
                    node.joint.inverse_bind = Some(DMat4::from_cols_array(&m));
                }
            }
        }
        Ok(nodes)
    }

    fn animation(&self, name: &str, file: &FileAnimation) -> Result<Animation> {
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

    fn channel(&self, file: &FileAnimation, channel: &FileChannel, out: &mut Animation) -> Result<()> {
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

fn rest(node: &FileNode) -> Result<Local> {
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
    Ok(Local {
        translation: Basis::GLTF.translation(translation),
        rotation: Basis::GLTF.rotation(unit(rotation)?),
        scale: Basis::GLTF.scale(scale),
    })
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
        return base64(text.as_bytes());
    }
    load(&percent_decode(uri)?, wanted)
}

fn base64(text: &[u8]) -> Result<Vec<u8>> {
    let text = text.strip_suffix(b"==").or(text.strip_suffix(b"=")).unwrap_or(text);
    let mut out = Vec::with_capacity(text.len() / 4 * 3 + 2);
    let (mut word, mut bits) = (0u32, 0);
    for (i, c) in text.iter().enumerate() {
        let six = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return Err(Error::malformed(i as u64, format_args!("byte 0x{c:02X}"), "a digit of base64")),
        };
        word = word << 6 | u32::from(six);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            out.push((word >> bits) as u8);
            word &= (1 << bits) - 1;
        }
    }
    Ok(out)
}

pub(crate) fn percent_decode(uri: &str) -> Result<String> {
    let bytes = uri.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        let digit = |k: usize| bytes.get(k).and_then(|b| (*b as char).to_digit(16));
        match (bytes[i], digit(i + 1), digit(i + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                i += 3;
            }
            (b, ..) => {
                out.push(b);
                i += 1;
            }
        }
    }
    String::from_utf8(out).map_err(|_| bad("a URI that is no UTF-8", "text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none(_: &str, _: usize) -> Result<Vec<u8>> {
        Err(Error::unsupported("nothing beside it"))
    }

    #[test]
    fn base64_of_the_rfc() {
        for (text, plain) in
            [("", ""), ("Zg==", "f"), ("Zm8=", "fo"), ("Zm9v", "foo"), ("Zm9vYmFy", "foobar")]
        {
            assert_eq!(base64(text.as_bytes()).unwrap(), plain.as_bytes());
        }
        assert!(base64(b"a*b").is_err());
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
        let reader = Reader { document: &document, buffers: vec![&data] };
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
            assert_eq!(read(text.as_bytes(), &mut none).unwrap_err().kind(), ErrorKind::Malformed);
        }
        assert!(read(br#"{"nodes":[{"children":[7]}]}"#, &mut none).is_err());
    }
}
