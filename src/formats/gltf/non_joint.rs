//! Cameras and texture coordinates: nodes without a parent, next to the rig.
//!
//! A camera of the source looks along +Y with +Z up, one of glTF along -Z with +Y up: turning Z up to Y up turns
//! the one into the other, so that a camera is written like a joint, without a turn of its own. Its field of view
//! is a property without a node: KHR_animation_pointer moves it.
//!
//! Texture coordinates move on a small square with a placeholder texture, because what no mesh uses is dropped by
//! importers: KHR_texture_transform holds them, KHR_animation_pointer moves them. Both count v downwards.

use gltf_json as json;
use json::extensions::texture::{TextureTransform, TextureTransformOffset, TextureTransformRotation};
use json::validation::Checked::Valid;

use crate::formats::gltf::accessors::{Accessors, y_up_quat, y_up_vec3};
use crate::formats::gltf::file;
use crate::formats::gltf::file::Target;
use crate::formats::non_joint::{NonJoint, NonJointChannel};
use crate::formats::scene::{Animation, Path};
use crate::model::{Interpolation, JointId, Property, Values};

/// Nearest and farthest that a camera shows, metres: no field of the source. Near enough for a face, far enough for
/// a city, and a ratio that 24 bits of depth resolve.
const ZNEAR_M: f32 = 0.1;
const ZFAR_M: f32 = 10_000.0;

/// A checker of 4 x 4 pixels; the one at the origin of the coordinates is red, the next along u green.
const IMAGE: &[u8] = include_bytes!("data/uv.png");

/// A square metre that faces +Z, by two triangles; v counts downwards.
const POSITIONS: [[f32; 3]; 6] =
    [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 1.0, 0.0]];
const UVS: [[f32; 2]; 6] = [[0.0, 1.0], [1.0, 1.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 0.0]];

/// The indices of a [`NonJoint`] in the document.
#[derive(Debug, Clone, Copy)]
pub struct Indices {
    node: u32,
    /// Its camera, or its material.
    index: u32,
}

/// Puts nodes (behind those of `joints` joints), cameras and materials into the document.
pub fn put(
    non_joints: &[NonJoint],
    joints: usize,
    root: &mut json::Root,
    accessors: &mut Accessors,
) -> Vec<Indices> {
    let mut quad = None;
    let mut indices = Vec::with_capacity(non_joints.len());
    for thing in non_joints {
        let mut node = json::Node { name: Some(thing.name.clone()), ..json::Node::default() };
        let index = if matches!(thing.id, JointId::Texture(_)) {
            let [positions, uvs] = *quad.get_or_insert_with(|| texture(root, accessors));
            let index = root.materials.len() as u32;
            root.materials.push(material(thing));
            node.mesh = Some(json::Index::new(root.meshes.len() as u32));
            root.meshes.push(square(&thing.name, positions, uvs, index));
            index
        } else {
            let index = root.cameras.len() as u32;
            node.camera = Some(json::Index::new(index));
            node.translation = Some(y_up_vec3(thing.rest.translation).to_array());
            node.rotation = Some(json::scene::UnitQuaternion(y_up_quat(thing.rest.rotation).to_array()));
            root.cameras.push(camera(thing));
            index
        };
        let own = Indices { node: (joints + root.nodes.len()) as u32, index };
        root.nodes.push(node);
        root.scenes[0].nodes.push(json::Index::new(own.node));
        indices.push(own);
    }
    indices
}

fn radians(degrees: f32) -> f32 {
    f64::from(degrees).to_radians() as f32
}

fn camera(non_joint: &NonJoint) -> json::Camera {
    json::Camera {
        name: Some(non_joint.name.clone()),
        orthographic: None,
        perspective: Some(json::camera::Perspective {
            aspect_ratio: None,
            yfov: radians(non_joint.fov_deg),
            zfar: Some(ZFAR_M),
            znear: ZNEAR_M,
            extensions: None,
            extras: None,
        }),
        type_: Valid(json::camera::Type::Perspective),
        extensions: None,
        extras: None,
    }
}

/// The one image and texture, and the corners of the squares.
fn texture(root: &mut json::Root, accessors: &mut Accessors) -> [json::Index<json::Accessor>; 2] {
    use json::texture::{MagFilter, MinFilter, Sampler, WrappingMode};
    root.extensions_used.push("KHR_texture_transform".to_owned());
    accessors.image(IMAGE);
    root.images.push(json::Image {
        buffer_view: None,
        mime_type: Some(json::image::MimeType("image/png".to_owned())),
        name: Some("placeholder".to_owned()),
        uri: None,
        extensions: None,
        extras: None,
    });
    root.samplers.push(Sampler {
        mag_filter: Some(Valid(MagFilter::Nearest)),
        min_filter: Some(Valid(MinFilter::Linear)),
        name: None,
        wrap_s: Valid(WrappingMode::Repeat),
        wrap_t: Valid(WrappingMode::Repeat),
        extensions: None,
        extras: None,
    });
    root.textures.push(json::Texture {
        name: None,
        sampler: Some(json::Index::new(0)),
        source: json::Index::new(0),
        extensions: None,
        extras: None,
    });
    accessors.quad(&POSITIONS, &UVS).map(json::Index::new)
}

fn material(non_joint: &NonJoint) -> json::Material {
    use json::material::{PbrMetallicRoughness, StrengthFactor};
    let (offset, rotation, scale) = non_joint.uv;
    let transform = TextureTransform {
        offset: TextureTransformOffset(offset),
        rotation: TextureTransformRotation(rotation),
        scale: json::extensions::texture::TextureTransformScale(scale),
        // gltf-json writes a null where there is none.
        tex_coord: Some(0),
        extras: None,
    };
    json::Material {
        name: Some(non_joint.name.clone()),
        double_sided: true,
        pbr_metallic_roughness: PbrMetallicRoughness {
            base_color_texture: Some(json::texture::Info {
                index: json::Index::new(0),
                tex_coord: 0,
                extensions: Some(json::extensions::texture::Info { texture_transform: Some(transform) }),
                extras: None,
            }),
            metallic_factor: StrengthFactor(0.0),
            ..PbrMetallicRoughness::default()
        },
        ..json::Material::default()
    }
}

fn square(
    name: &str,
    positions: json::Index<json::Accessor>,
    uvs: json::Index<json::Accessor>,
    material: u32,
) -> json::Mesh {
    use json::mesh::{Mode, Primitive, Semantic};
    json::Mesh {
        extensions: None,
        extras: None,
        name: Some(name.to_owned()),
        primitives: vec![Primitive {
            attributes: [(Valid(Semantic::Positions), positions), (Valid(Semantic::TexCoords(0)), uvs)]
                .into_iter()
                .collect(),
            extensions: None,
            extras: None,
            indices: None,
            material: Some(json::Index::new(material)),
            mode: Valid(Mode::Triangles),
            targets: None,
        }],
        weights: None,
    }
}

/// Adds the channels of an animation that move no joint. The accessors are at its clip.
pub fn animate(
    non_joints: &[NonJoint],
    indices: &[Indices],
    animation: &Animation<'_>,
    out: &mut file::Animation,
    accessors: &mut Accessors,
) {
    let clip = animation.clip;
    for channel in &animation.non_joint_channels {
        let (thing, own) = (&non_joints[channel.non_joint], indices[channel.non_joint]);
        let track = channel.track.map(|i| &clip.tracks[i]);
        let interpolation = track.map_or(Interpolation::Linear, |t| t.curve.interpolation);
        // Importers that turn the three of a texture into others of their own (Blender) want all three at the same
        // instants: a constant one is repeated at those of the others.
        let (input, keep, keys) = match shared_timeline(animation, channel) {
            Some(timeline) => {
                let (input, keep) = accessors.all_times(clip, timeline, None);
                let keys = keep.as_ref().map_or(clip.timelines[timeline as usize].len(), Vec::len);
                (input, keep, keys)
            }
            None => match track {
                Some(track) => {
                    let (input, keep) = accessors.times(clip, track, None);
                    let keys = keep.as_ref().map_or(track.curve.values.len(), Vec::len);
                    (input, keep, keys)
                }
                None => (accessors.held(None), None, 1),
            },
        };
        let values = track.map(|t| &t.curve.values);
        let keep = keep.as_deref();
        let transform = format!(
            "/materials/{}/pbrMetallicRoughness/baseColorTexture/extensions/KHR_texture_transform",
            own.index
        );
        let (output, target) = match (channel.property, values) {
            (Property::Translation, values) => {
                let rest = [thing.rest.translation];
                let values = if let Some(Values::Vec3(v)) = values { v.as_slice() } else { &rest };
                (accessors.vec3s(values, keep, false, false), Target::Node(own.node, Path::Translation))
            }
            (Property::Rotation, values) => {
                let rest = [thing.rest.rotation];
                let values = if let Some(Values::Quat(q)) = values { q.as_slice() } else { &rest };
                (accessors.quats(values, keep, false), Target::Node(own.node, Path::Rotation))
            }
            (Property::FieldOfView, values) => {
                let rest = [thing.fov_deg];
                let values = if let Some(Values::Scalar(v)) = values { v.as_slice() } else { &rest };
                let yfov: Vec<f32> = spread(values, keep, keys).map(radians).collect();
                let pointer = format!("/cameras/{}/perspective/yfov", own.index);
                (accessors.numbers(&yfov), Target::Pointer(pointer))
            }
            (Property::UvRotation, values) => {
                let rest = [thing.uv.1];
                let values = if let Some(Values::Scalar(v)) = values { v.as_slice() } else { &rest };
                let turns: Vec<f32> = spread(values, keep, keys).collect();
                (accessors.numbers(&turns), Target::Pointer(format!("{transform}/rotation")))
            }
            (property, values) => {
                let offset = property == Property::UvOffset;
                let rest = if offset { thing.uv.0 } else { thing.uv.2 };
                let pairs: Vec<[f32; 2]> = match values {
                    Some(Values::Vec3(v)) => spread(v, keep, keys).map(|v| [v.x, v.y]).collect(),
                    _ => vec![rest; keys],
                };
                let name = if offset { "offset" } else { "scale" };
                (accessors.pairs(&pairs), Target::Pointer(format!("{transform}/{name}")))
            }
        };
        out.push(input, interpolation, output, &target);
    }
}

/// The keys that stay, or a single value `keys` times.
fn spread<'a, T: Copy>(
    values: &'a [T],
    keep: Option<&'a [u32]>,
    keys: usize,
) -> impl Iterator<Item = T> + 'a {
    (0..keys).filter_map(move |i| match values {
        [single] => Some(*single),
        all => all.get(keep.map_or(i, |k| k[i] as usize)).copied(),
    })
}

/// The timeline of those channels of a texture's transform that have several keys.
fn shared_timeline(animation: &Animation<'_>, channel: &NonJointChannel) -> Option<u32> {
    if !matches!(channel.property, Property::UvOffset | Property::UvRotation | Property::UvScale) {
        return None;
    }
    let tracks = &animation.clip.tracks;
    let own = animation
        .non_joint_channels
        .iter()
        .filter(|c| c.non_joint == channel.non_joint)
        .filter_map(|c| c.track);
    own.map(|i| &tracks[i]).find(|t| !t.curve.is_constant()).map(|t| t.timeline)
}
