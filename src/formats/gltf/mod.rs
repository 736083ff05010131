//! glTF 2.0: one scene, one skin, one animation a clip; as .glb or as .gltf with its .bin.
//!
//! A skin is what makes importers build an armature, so there always is one, with inverse bind matrices and no
//! mesh (docs/formats/gltf-fbx.md, section 0, fact 1). Y up comes from permuting the values of every joint, which is
//! exact and needs no extra node. Rotations are LINEAR (or STEP); CUBICSPLINE is never written.

mod accessors;
mod file;
mod layout;
mod non_joint;
mod text;

use std::sync::Arc;

use gltf_json as json;
use json::validation::Checked::Valid;
use rustc_hash::FxHashMap;

use crate::error::{Error, Result};
use crate::formats::extras;
use crate::formats::scene::{Animation, Path, Scene};
use crate::formats::workspace::{Buffers, Workspace};
use crate::formats::{BetweenKeys, Files, Format, WriteOptions};
use crate::model::{Interpolation, Skeleton, Trs, Values};

use accessors::{Accessors, too_large, y_up_quat, y_up_scale, y_up_vec3};
use layout::one_container_a_line;
use text::{List, put, put_floats, put_number};

/// One binary glTF file.
#[derive(Debug, Clone, Copy)]
pub struct Glb;

impl Format for Glb {
    fn name(&self) -> &'static str {
        "glb"
    }

    fn about(&self) -> &'static str {
        "Binary glTF, one file"
    }

    fn between_keys(&self) -> BetweenKeys {
        BetweenKeys::Slerp
    }

    fn write(
        &self,
        scene: &Scene<'_>,
        _stem: &str,
        options: &WriteOptions,
        workspace: &mut Workspace,
    ) -> Result<Files> {
        let document = document(scene, options, workspace)?;
        let glb = document.to_glb(workspace.buffers())?;
        document.recycle(workspace.buffers());
        Ok(vec![(self.extension(), glb)])
    }
}

/// glTF text with its numbers in a .bin beside it.
#[derive(Debug, Clone, Copy)]
pub struct Gltf;

impl Format for Gltf {
    fn name(&self) -> &'static str {
        "gltf"
    }

    fn about(&self) -> &'static str {
        "glTF text with a .bin beside it"
    }

    fn companions(&self) -> &'static [&'static str] {
        &["bin"]
    }

    fn between_keys(&self) -> BetweenKeys {
        BetweenKeys::Slerp
    }

    fn write(
        &self,
        scene: &Scene<'_>,
        stem: &str,
        options: &WriteOptions,
        workspace: &mut Workspace,
    ) -> Result<Files> {
        let mut document = document(scene, options, workspace)?;
        let (text, bin) = document.text_and_bin(&format!("{stem}.bin"))?;
        document.recycle(workspace.buffers());
        Ok(vec![("bin", bin), (self.extension(), text.into_bytes())])
    }
}

/// A document and its binary buffer.
#[derive(Debug)]
struct Document {
    root: json::Root,
    /// The nodes before those of `root`: node i is joint i.
    joints: Arc<Joints>,
    animations: Vec<file::Animation>,
    accessors: Accessors,
}

/// Builds the document for `scene`.
///
/// # Errors
/// [`ErrorKind::Limit`](crate::ErrorKind) where a buffer would exceed 4 GiB.
fn document(scene: &Scene<'_>, options: &WriteOptions, workspace: &mut Workspace) -> Result<Document> {
    let (buffers, known) = workspace.parts::<Known>();
    let mut root = json::Root {
        asset: json::Asset {
            generator: Some(concat!("anim2gltf ", env!("CARGO_PKG_VERSION")).to_owned()),
            ..json::Asset::default()
        },
        ..json::Root::default()
    };
    let mut accessors = Accessors::default();
    accessors.expect(scene.animations.iter().map(|a| a.clip), buffers);
    let joints = joints(scene, &mut root, &mut accessors, buffers, known).map_err(not_serialised)?;
    if options.preview_mesh {
        preview(scene.rig, &mut root, &mut accessors);
    }
    let indices = non_joint::put(&scene.non_joints, scene.rig.joints().len(), &mut root, &mut accessors);
    let mut animations = Vec::with_capacity(scene.animations.len());
    for animation in &scene.animations {
        let mut written = animate(scene.rig, animation, options, &mut accessors, buffers)?;
        non_joint::animate(&scene.non_joints, &indices, animation, &mut written, &mut accessors);
        animations.push(written);
    }
    if animations.iter().any(file::Animation::has_pointers) {
        root.extensions_used.insert(0, file::POINTER.to_owned());
    }
    accessors.finish(&mut root)?;
    Ok(Document { root, joints, animations, accessors })
}

impl Document {
    /// The document as one .glb.
    ///
    /// # Errors
    /// [`ErrorKind::Limit`](crate::ErrorKind) over 4 GiB.
    fn to_glb(&self, buffers: &mut Buffers) -> Result<Vec<u8>> {
        let bin: usize = self.accessors.bin().map(<[u8]>::len).sum();
        let mut out = buffers.take(self.text_size() + bin + 32);
        out.extend_from_slice(b"glTF\x02\0\0\0\0\0\0\0\0\0\0\0JSON");
        self.write(&mut out)?;
        out.resize(out.len().next_multiple_of(4), b' ');
        let json_length = out.len() - 20;
        if bin > 0 {
            out.extend_from_slice(&(bin as u32).to_le_bytes());
            out.extend_from_slice(b"BIN\0");
            self.accessors.bin().for_each(|view| out.extend_from_slice(view));
        }
        let length = u32::try_from(out.len()).map_err(|_| too_large(out.len()))?;
        out[8..12].copy_from_slice(&length.to_le_bytes());
        out[12..16].copy_from_slice(&(json_length as u32).to_le_bytes());
        Ok(out)
    }

    /// The document as .gltf text that reads well in a diff, and the bytes of the .bin beside it, which the
    /// text calls `bin_name`.
    ///
    /// # Errors
    /// None in practice: the document is made of numbers and strings.
    fn text_and_bin(&mut self, bin_name: &str) -> Result<(String, Vec<u8>)> {
        if let Some(buffer) = self.root.buffers.first_mut() {
            buffer.uri = Some(percent_encode(bin_name));
        }
        let mut compact = Vec::with_capacity(self.text_size());
        self.write(&mut compact)?;
        let compact = String::from_utf8(compact).map_err(|e| Error::unsupported(e.to_string()))?;
        Ok((one_container_a_line(&compact), self.accessors.bin().collect::<Vec<_>>().concat()))
    }

    /// Lets the next document have the buffers.
    fn recycle(self, buffers: &mut Buffers) {
        if let Some(joints) = Arc::into_inner(self.joints) {
            buffers.give(joints.nodes.into_text());
        }
        self.animations.into_iter().for_each(|animation| animation.recycle(buffers));
        self.accessors.recycle(buffers);
    }

    /// Bytes of the JSON, about.
    fn text_size(&self) -> usize {
        let animations: usize = self.animations.iter().map(file::Animation::text_size).sum();
        animations + self.joints.nodes.text().len() + self.accessors.text_size() + 4096
    }

    fn write(&self, out: &mut Vec<u8>) -> Result<()> {
        file::write(out, &self.root, &self.accessors, &self.animations, &self.joints.nodes)
            .map_err(not_serialised)
    }
}

fn not_serialised(e: serde_json::Error) -> Error {
    Error::unsupported(format!("the glTF document cannot be serialised: {e}"))
}

/// A relative URI of one path segment (RFC 3986: everything but unreserved characters is encoded).
fn percent_encode(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'@' => {
                out.push(byte as char)
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// What the joints of a rig are in a document: the nodes as JSON, inverse bind matrices, the nodes without a parent.
#[derive(Debug)]
struct Joints {
    nodes: List,
    inverse_binds: Vec<[f32; 16]>,
    roots: Vec<u32>,
}

/// Shared rigs whose joints are kept, at most.
const MAX_RIGS: usize = 16;

/// Text that a workspace keeps from file to file.
#[derive(Debug, Default)]
struct Known {
    /// The joints of shared rigs. While a rig is held here no other one can have its address.
    rigs: Vec<(Arc<Skeleton>, Arc<Joints>)>,
    rests: Rests,
}

/// Nodes, scene and skin. Node i is joint i.
fn joints(
    scene: &Scene<'_>,
    root: &mut json::Root,
    accessors: &mut Accessors,
    buffers: &mut Buffers,
    Known { rigs, rests }: &mut Known,
) -> serde_json::Result<Arc<Joints>> {
    let rig = scene.rig;
    let shared = scene.shared_rig.as_ref();
    let known = shared.and_then(|shared| rigs.iter().find(|(rig, _)| Arc::ptr_eq(rig, shared)));
    let joints = match known {
        Some((_, joints)) => joints.clone(),
        None => {
            let joints = Arc::new(Joints::new(rig, buffers, rests)?);
            if let Some(shared) = shared {
                if rigs.len() >= MAX_RIGS {
                    rigs.clear();
                }
                rigs.push((shared.clone(), joints.clone()));
            }
            joints
        }
    };
    let roots: Vec<json::Index<json::Node>> = joints.roots.iter().map(|i| json::Index::new(*i)).collect();
    root.skins.push(json::Skin {
        extensions: None,
        extras: None,
        inverse_bind_matrices: Some(json::Index::new(accessors.matrices(&joints.inverse_binds))),
        joints: (0..rig.joints().len()).map(|i| json::Index::new(i as u32)).collect(),
        name: Some(rig.name.clone()),
        skeleton: roots.first().copied(),
    });
    root.scenes.push(json::Scene { extensions: None, extras: None, name: None, nodes: roots });
    root.scene = Some(json::Index::new(0));
    Ok(joints)
}

impl Joints {
    fn new(rig: &Skeleton, buffers: &mut Buffers, rests: &mut Rests) -> serde_json::Result<Self> {
        let rest: Vec<Trs> = rig.joints().iter().map(|j| y_up(&j.rest)).collect();
        let mut children: Vec<Vec<u32>> = vec![Vec::new(); rest.len()];
        let mut roots = Vec::new();
        for (i, joint) in rig.joints().iter().enumerate() {
            match joint.parent {
                Some(p) => children[p].push(i as u32),
                None => roots.push(i as u32),
            }
        }
        let mut nodes = List::with_capacity(rest.len() * NODE_BYTES, buffers);
        for ((joint, trs), children) in rig.joints().iter().zip(&rest).zip(children) {
            let out = nodes.next();
            let start = out.len();
            for (i, child) in children.into_iter().enumerate() {
                put(out, if i == 0 { ",\"children\":[" } else { "," });
                put_number(out, child);
            }
            if out.len() > start {
                out.push(b']');
            }
            if let Some(name) = &joint.name {
                put(out, ",\"name\":");
                serde_json::to_writer(&mut *out, name)?;
            }
            put_rest(out, trs, rests)?;
            // The first comma is the opening bracket.
            match out.get_mut(start) {
                Some(comma) => *comma = b'{',
                None => out.push(b'{'),
            }
            out.push(b'}');
        }
        let inverse_binds: Vec<[f32; 16]> = rig
            .model_matrices(&rest)
            .iter()
            .map(|m| {
                let mut m = m.inverse().as_mat4().to_cols_array();
                // The validator wants the last row exactly (ACCESSOR_INVALID_IBM).
                (m[3], m[7], m[11], m[15]) = (0.0, 0.0, 0.0, 1.0);
                m
            })
            .collect();
        Ok(Joints { nodes, inverse_binds, roots })
    }
}

/// Rest poses whose text is kept, at most.
const MAX_RESTS: usize = 1 << 13;

/// The text of rest poses: the files of a game have some skeletons, not one each.
type Rests = FxHashMap<[u32; 10], Box<[u8]>>;

/// A node's transform, each part where it is not the default.
fn put_rest(out: &mut Vec<u8>, trs: &Trs, rests: &mut Rests) -> serde_json::Result<()> {
    let mut key = [0; 10];
    let values =
        trs.rotation.to_array().into_iter().chain(trs.scale.to_array()).chain(trs.translation.to_array());
    key.iter_mut().zip(values).for_each(|(key, value)| *key = value.to_bits());
    if let Some(text) = rests.get(&key) {
        out.extend_from_slice(text);
        return Ok(());
    }
    let start = out.len();
    if trs.rotation != glam::Quat::IDENTITY {
        put(out, ",\"rotation\":");
        put_floats(out, &trs.rotation.to_array())?;
    }
    if trs.scale != glam::Vec3::ONE {
        put(out, ",\"scale\":");
        put_floats(out, &trs.scale.to_array())?;
    }
    if trs.translation != glam::Vec3::ZERO {
        put(out, ",\"translation\":");
        put_floats(out, &trs.translation.to_array())?;
    }
    if rests.len() >= MAX_RESTS {
        rests.clear();
    }
    rests.insert(key, out[start..].into());
    Ok(())
}

/// Bytes of a node, about: with its name, rotation and translation.
const NODE_BYTES: usize = 192;

/// A stick mesh on the joints, in a node of its own.
fn preview(rig: &Skeleton, root: &mut json::Root, accessors: &mut Accessors) {
    use json::mesh::{Mode, Primitive, Semantic};
    let mesh = crate::formats::preview::build(rig);
    if mesh.positions.is_empty() || rig.joints().len() > usize::from(u16::MAX) {
        return;
    }
    let [positions, joints, weights, indices] = accessors.mesh(&mesh).map(json::Index::new);
    root.meshes.push(json::Mesh {
        extensions: None,
        extras: None,
        name: Some("preview".to_owned()),
        primitives: vec![Primitive {
            attributes: [
                (Valid(Semantic::Positions), positions),
                (Valid(Semantic::Joints(0)), joints),
                (Valid(Semantic::Weights(0)), weights),
            ]
            .into_iter()
            .collect(),
            extensions: None,
            extras: None,
            indices: Some(indices),
            material: None,
            mode: Valid(Mode::Triangles),
            targets: None,
        }],
        weights: None,
    });
    let node = json::Index::new((rig.joints().len() + root.nodes.len()) as u32);
    root.nodes.push(json::Node {
        mesh: Some(json::Index::new(0)),
        skin: Some(json::Index::new(0)),
        name: Some("preview_mesh".to_owned()),
        ..json::Node::default()
    });
    root.scenes[0].nodes.push(node);
}

fn y_up(trs: &Trs) -> Trs {
    Trs {
        translation: y_up_vec3(trs.translation),
        rotation: y_up_quat(trs.rotation),
        scale: y_up_scale(trs.scale),
    }
}

fn animate(
    rig: &Skeleton,
    animation: &Animation<'_>,
    options: &WriteOptions,
    accessors: &mut Accessors,
    buffers: &mut Buffers,
) -> Result<file::Animation> {
    let clip = animation.clip;
    accessors.begin_clip(clip);
    let mut out = file::Animation::new(
        animation.name.clone(),
        extras::animation_extras(animation).map_err(not_serialised)?,
        animation.channels.len() + animation.non_joint_channels.len(),
        buffers,
    );
    for channel in &animation.channels {
        let hold = channel.hold_to_end.then_some(clip.length_s);
        let (input, output, interpolation) = match channel.track {
            Some(i) => {
                let track = &clip.tracks[i];
                let (input, keep) = accessors.times(clip, track, hold);
                let output = match &track.curve.values {
                    Values::Quat(q) if options.quantize_rotations => {
                        accessors.quats_i16(q, keep.as_deref(), hold.is_some())
                    }
                    Values::Quat(q) => accessors.quats(q, keep.as_deref(), hold.is_some()),
                    Values::Vec3(v) => {
                        accessors.vec3s(v, keep.as_deref(), hold.is_some(), channel.path == Path::Scale)
                    }
                    Values::Scalar(_) | Values::Raw { .. } => {
                        return Err(Error::unsupported("a joint's track holds numbers, not vectors"));
                    }
                };
                (input, output, track.curve.interpolation)
            }
            None => {
                let rest = &rig.joints()[channel.joint].rest;
                let input = accessors.held(hold);
                let output = match channel.path {
                    // In f32 always: at rest is what the bound of a reduction took it for.
                    Path::Rotation => accessors.quats(&[rest.rotation], None, hold.is_some()),
                    Path::Translation => accessors.vec3s(&[rest.translation], None, hold.is_some(), false),
                    Path::Scale => accessors.vec3s(&[rest.scale], None, hold.is_some(), true),
                };
                (input, output, Interpolation::Linear)
            }
        };
        out.push(input, interpolation, output, &file::Target::Node(channel.joint as u32, channel.path));
    }
    Ok(out)
}
