//! glTF 2.0: one scene, one skin, one animation a clip; as .glb or as .gltf with its .bin.
//!
//! A skin is what makes importers build an armature, so there always is one, with inverse bind matrices and no
//! mesh (notes, glTF 0.1). Y up comes from permuting the values of every joint, which is exact and needs no
//! extra node. Rotations are LINEAR (or STEP); CUBICSPLINE is never written.

mod accessors;
mod beside;
pub(super) mod extras;
mod file;
mod layout;

use gltf_json as json;
use json::validation::Checked::Valid;

use crate::error::{Error, Result};
use crate::model::{Interpolation, Skeleton, Trs, Values};
use crate::write::scene::{Animation, Path, Scene};

use accessors::{Accessors, y_up_quat, y_up_scale, y_up_vec3};

pub use layout::one_container_a_line;

/// How a file is written.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Rotations as normalised i16 instead of f32 (at most about 0.0035 degrees off).
    pub quantize_rotations: bool,
    /// Adds a stick mesh, skinned to the joints ([`crate::write::preview`]).
    pub preview_mesh: bool,
}

/// A document and its binary buffer.
#[derive(Debug)]
pub struct Document {
    root: json::Root,
    animations: Vec<file::Animation>,
    bin: Vec<u8>,
}

/// Builds the document for `scene`.
///
/// # Errors
/// [`ErrorKind::Limit`](crate::ErrorKind) where a buffer would exceed 4 GiB.
pub fn document(scene: &Scene<'_>, options: &Options) -> Result<Document> {
    let mut root = json::Root {
        asset: json::Asset {
            generator: Some(concat!("anim2gltf ", env!("CARGO_PKG_VERSION")).to_owned()),
            ..json::Asset::default()
        },
        ..json::Root::default()
    };
    let mut accessors = Accessors::default();
    joints(scene.rig, &mut root, &mut accessors);
    if options.preview_mesh {
        preview(scene.rig, &mut root, &mut accessors);
    }
    let places = beside::put(&scene.beside, &mut root, &mut accessors);
    let mut animations = Vec::with_capacity(scene.animations.len());
    for animation in &scene.animations {
        let mut written = animate(scene.rig, animation, options, &mut accessors)?;
        beside::animate(&scene.beside, &places, animation, &mut written, &mut accessors);
        animations.push(written);
    }
    if animations.iter().any(file::Animation::has_pointers) {
        root.extensions_used.insert(0, file::POINTER.to_owned());
    }
    let bin = accessors.finish(&mut root)?;
    Ok(Document { root, animations, bin })
}

impl Document {
    /// The document as one .glb.
    ///
    /// # Errors
    /// [`ErrorKind::Limit`](crate::ErrorKind) over 4 GiB.
    pub fn to_glb(&self) -> Result<Vec<u8>> {
        let mut out = Vec::with_capacity(self.bin.len() + 64 * 1024);
        out.extend_from_slice(b"glTF\x02\0\0\0\0\0\0\0\0\0\0\0JSON");
        serde_json::to_writer(&mut out, &file::File::new(&self.root, &self.animations))
            .map_err(not_serialised)?;
        out.resize(out.len().next_multiple_of(4), b' ');
        let json_length = out.len() - 20;
        if !self.bin.is_empty() {
            out.extend_from_slice(&(self.bin.len() as u32).to_le_bytes());
            out.extend_from_slice(b"BIN\0");
            out.extend_from_slice(&self.bin);
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
    pub fn to_gltf(mut self, bin_name: &str) -> Result<(String, Vec<u8>)> {
        if let Some(buffer) = self.root.buffers.first_mut() {
            buffer.uri = Some(percent_encode(bin_name));
        }
        let compact =
            serde_json::to_string(&file::File::new(&self.root, &self.animations)).map_err(not_serialised)?;
        Ok((one_container_a_line(&compact), self.bin))
    }
}

fn not_serialised(e: serde_json::Error) -> Error {
    Error::unsupported(format!("the glTF document cannot be serialised: {e}"))
}

fn too_large(bytes: usize) -> Error {
    Error::limit(
        0,
        format_args!("{bytes} bytes of output"),
        "at most 4 GiB in a glTF file; use fewer clips a file",
    )
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

/// Nodes, scene and skin. Node i is joint i.
fn joints(rig: &Skeleton, root: &mut json::Root, accessors: &mut Accessors) {
    let rest: Vec<Trs> = rig.joints().iter().map(|j| y_up(&j.rest)).collect();
    let mut children: Vec<Vec<json::Index<json::Node>>> = vec![Vec::new(); rest.len()];
    let mut roots = Vec::new();
    for (i, joint) in rig.joints().iter().enumerate() {
        match joint.parent {
            Some(p) => children[p].push(json::Index::new(i as u32)),
            None => roots.push(json::Index::new(i as u32)),
        }
    }
    for ((joint, trs), children) in rig.joints().iter().zip(&rest).zip(children) {
        root.nodes.push(json::Node {
            camera: None,
            children: (!children.is_empty()).then_some(children),
            extensions: None,
            extras: None,
            matrix: None,
            mesh: None,
            name: joint.name.clone(),
            rotation: (trs.rotation != glam::Quat::IDENTITY)
                .then(|| json::scene::UnitQuaternion(trs.rotation.to_array())),
            scale: (trs.scale != glam::Vec3::ONE).then(|| trs.scale.to_array()),
            translation: (trs.translation != glam::Vec3::ZERO).then(|| trs.translation.to_array()),
            skin: None,
            weights: None,
        });
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
    root.skins.push(json::Skin {
        extensions: None,
        extras: None,
        inverse_bind_matrices: Some(accessors.matrices(&inverse_binds)),
        joints: (0..rest.len()).map(|i| json::Index::new(i as u32)).collect(),
        name: Some(rig.name.clone()),
        skeleton: roots.first().copied(),
    });
    root.scenes.push(json::Scene { extensions: None, extras: None, name: None, nodes: roots });
    root.scene = Some(json::Index::new(0));
}

/// A stick mesh on the joints, in a node of its own beside them.
fn preview(rig: &Skeleton, root: &mut json::Root, accessors: &mut Accessors) {
    use json::mesh::{Mode, Primitive, Semantic};
    let mesh = crate::write::preview::build(rig);
    if mesh.positions.is_empty() || rig.joints().len() > usize::from(u16::MAX) {
        return;
    }
    let [positions, joints, weights, indices] = accessors.mesh(&mesh);
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
    let node = json::Index::new(root.nodes.len() as u32);
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
    options: &Options,
    accessors: &mut Accessors,
) -> Result<file::Animation> {
    let clip = animation.clip;
    accessors.begin_clip(clip);
    let mut out = file::Animation::new(
        animation.name.clone(),
        extras::animation_extras(animation).map_err(not_serialised)?,
        animation.channels.len() + animation.beside.len(),
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
                    Path::Rotation if options.quantize_rotations => {
                        accessors.quats_i16(&[rest.rotation], None, hold.is_some())
                    }
                    Path::Rotation => accessors.quats(&[rest.rotation], None, hold.is_some()),
                    Path::Translation => accessors.vec3s(&[rest.translation], None, hold.is_some(), false),
                    Path::Scale => accessors.vec3s(&[rest.scale], None, hold.is_some(), true),
                };
                (input, output, Interpolation::Linear)
            }
        };
        let path = match channel.path {
            Path::Translation => "translation",
            Path::Rotation => "rotation",
            Path::Scale => "scale",
        };
        out.push(input, interpolation, output, file::Target::node(channel.joint as u32, path));
    }
    Ok(out)
}
