//! The document as it is serialised. gltf-json's animation channels must have a node, and the channels of
//! KHR_animation_pointer have none: animations are types of this module, everything else is gltf-json's.

use gltf_json as json;
use json::animation::Interpolation as I;
use json::extras::Extras;
use json::validation::Checked::Valid;
use json::{Accessor, Index};
use rustc_hash::FxHashMap;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::model::Interpolation;

/// Name of the extension by which a channel moves any property.
pub const POINTER: &str = "KHR_animation_pointer";

/// An animation, its fields in gltf-json's order.
#[derive(Debug, Serialize)]
pub struct Animation {
    extras: Extras,
    channels: Vec<Channel>,
    name: String,
    samplers: Vec<json::animation::Sampler>,
    /// The samplers that are there: input, output, step.
    #[serde(skip)]
    known: FxHashMap<(usize, usize, bool), u32>,
}

#[derive(Debug, Serialize)]
struct Channel {
    sampler: u32,
    target: Target,
}

/// What a channel moves.
#[derive(Debug, Serialize)]
pub struct Target {
    #[serde(skip_serializing_if = "Option::is_none")]
    extensions: Option<Extensions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<u32>,
    path: &'static str,
}

#[derive(Debug, Serialize)]
struct Extensions {
    #[serde(rename = "KHR_animation_pointer")]
    pointer: Pointer,
}

#[derive(Debug, Serialize)]
struct Pointer {
    pointer: String,
}

impl Target {
    /// `translation`, `rotation` or `scale` of a node.
    pub fn node(node: u32, path: &'static str) -> Self {
        Target { extensions: None, node: Some(node), path }
    }

    /// The property that a JSON pointer into the document names.
    pub fn pointer(pointer: String) -> Self {
        let extensions = Some(Extensions { pointer: Pointer { pointer } });
        Target { extensions, node: None, path: "pointer" }
    }
}

impl Animation {
    /// Without channels yet.
    pub fn new(name: String, extras: Box<RawValue>, channels: usize) -> Self {
        Animation {
            extras: Some(extras),
            channels: Vec::with_capacity(channels),
            name,
            samplers: Vec::with_capacity(channels),
            known: FxHashMap::default(),
        }
    }

    /// Adds a channel. Channels of equal curves share a sampler: in poses most scales are one value.
    pub fn push(
        &mut self,
        input: Index<Accessor>,
        interpolation: Interpolation,
        output: Index<Accessor>,
        target: Target,
    ) {
        let step = interpolation == Interpolation::Step;
        let samplers = &mut self.samplers;
        let sampler = *self.known.entry((input.value(), output.value(), step)).or_insert_with(|| {
            samplers.push(json::animation::Sampler {
                extensions: None,
                extras: None,
                input,
                interpolation: Valid(if step { I::Step } else { I::Linear }),
                output,
            });
            (samplers.len() - 1) as u32
        });
        self.channels.push(Channel { sampler, target });
    }

    /// Whether a channel needs [`POINTER`].
    pub fn has_pointers(&self) -> bool {
        self.channels.iter().any(|c| c.target.node.is_none())
    }
}

/// The whole document: [`json::Root`] with other animations, in its order of fields.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct File<'a> {
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    accessors: &'a [Accessor],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    animations: &'a [Animation],
    asset: &'a json::Asset,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    buffers: &'a [json::Buffer],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    buffer_views: &'a [json::buffer::View],
    #[serde(skip_serializing_if = "Option::is_none")]
    scene: Option<Index<json::Scene>>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    extensions_used: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    cameras: &'a [json::Camera],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    images: &'a [json::Image],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    materials: &'a [json::Material],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    meshes: &'a [json::Mesh],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    nodes: &'a [json::Node],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    samplers: &'a [json::texture::Sampler],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    scenes: &'a [json::Scene],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    skins: &'a [json::Skin],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    textures: &'a [json::Texture],
}

impl<'a> File<'a> {
    /// `root` with `animations`.
    pub fn new(root: &'a json::Root, animations: &'a [Animation]) -> Self {
        File {
            accessors: &root.accessors,
            animations,
            asset: &root.asset,
            buffers: &root.buffers,
            buffer_views: &root.buffer_views,
            scene: root.scene,
            extensions_used: &root.extensions_used,
            cameras: &root.cameras,
            images: &root.images,
            materials: &root.materials,
            meshes: &root.meshes,
            nodes: &root.nodes,
            samplers: &root.samplers,
            scenes: &root.scenes,
            skins: &root.skins,
            textures: &root.textures,
        }
    }
}
