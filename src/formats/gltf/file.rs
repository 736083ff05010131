//! The document as it is serialised. What a document holds by the thousand (accessors, channels, samplers, nodes) is
//! written as text where it arises; the rest is gltf-json's. Fields stand in gltf-json's order.

use gltf_json as json;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::formats::gltf::accessors::{Accessors, Index};
use crate::formats::gltf::text::{List, Piece, put, put_number};
use crate::formats::scene::Path;
use crate::formats::workspace::Buffers;
use crate::model::Interpolation;

/// Name of the extension by which a channel moves any property.
pub const POINTER: &str = "KHR_animation_pointer";

/// An animation.
#[derive(Debug)]
pub struct Animation {
    extras: Box<RawValue>,
    channels: List,
    name: String,
    samplers: List,
    /// The samplers that are there, and by output accessor the last one of it.
    known: Vec<Sampler>,
    last: Vec<Option<u32>>,
    has_pointers: bool,
}

/// A sampler that is there.
#[derive(Debug)]
struct Sampler {
    input: Index,
    step: bool,
    /// The one before it with the same output.
    before: Option<u32>,
}

/// What a channel moves.
#[derive(Debug)]
pub enum Target {
    /// A property of a node.
    Node(u32, Path),
    /// The property that a JSON pointer into the document names; nothing in it needs an escape.
    Pointer(String),
}

impl Animation {
    /// Without channels yet.
    pub fn new(name: String, extras: Box<RawValue>, channels: usize, buffers: &mut Buffers) -> Self {
        // Bytes of an element: a little more than the shortest, for three digits each.
        const CHANNEL: usize = 64;
        const SAMPLER: usize = 56;
        Animation {
            extras,
            channels: List::with_capacity(channels * CHANNEL, buffers),
            name,
            samplers: List::with_capacity(channels * SAMPLER, buffers),
            known: Vec::with_capacity(channels),
            last: Vec::new(),
            has_pointers: false,
        }
    }

    /// Adds a channel. Channels of equal curves share a sampler: in poses most scales are one value.
    pub fn push(&mut self, input: Index, interpolation: Interpolation, output: Index, target: &Target) {
        let step = interpolation == Interpolation::Step;
        let sampler = self.sampler(input, step, output);
        let mut piece = Piece::default();
        piece.text(b"{\"sampler\":");
        piece.number(sampler);
        match target {
            Target::Node(node, path) => {
                piece.text(b",\"target\":{\"node\":");
                piece.number(*node);
                match path {
                    Path::Translation => piece.text(b",\"path\":\"translation\"}}"),
                    Path::Rotation => piece.text(b",\"path\":\"rotation\"}}"),
                    Path::Scale => piece.text(b",\"path\":\"scale\"}}"),
                }
                piece.put(self.channels.next());
            }
            Target::Pointer(pointer) => {
                self.has_pointers = true;
                let out = self.channels.next();
                piece.put(out);
                put(out, ",\"target\":{\"extensions\":{\"KHR_animation_pointer\":{\"pointer\":\"");
                put(out, pointer);
                put(out, "\"}},\"path\":\"pointer\"}}");
            }
        }
    }

    /// The sampler of these, which is made where it is not there.
    fn sampler(&mut self, input: Index, step: bool, output: Index) -> u32 {
        let slot = output as usize;
        if self.last.len() <= slot {
            self.last.resize(slot + 1, None);
        }
        let mut known = self.last[slot];
        while let Some(i) = known {
            let sampler = &self.known[i as usize];
            if (sampler.input, sampler.step) == (input, step) {
                return i;
            }
            known = sampler.before;
        }
        let next = self.known.len() as u32;
        self.known.push(Sampler { input, step, before: self.last[slot].replace(next) });
        let mut piece = Piece::default();
        piece.text(b"{\"input\":");
        piece.number(input);
        // LINEAR is what a sampler is that says nothing: in files of many joints the word was a tenth of the bytes.
        if step {
            piece.text(b",\"interpolation\":\"STEP\"");
        }
        piece.text(b",\"output\":");
        piece.number(output);
        piece.text(b"}");
        piece.put(self.samplers.next());
        next
    }

    /// Whether a channel needs [`POINTER`].
    pub fn has_pointers(&self) -> bool {
        self.has_pointers
    }

    /// Lets the next document have the buffers.
    pub fn recycle(self, buffers: &mut Buffers) {
        buffers.give(self.channels.into_text());
        buffers.give(self.samplers.into_text());
    }

    /// Bytes of its JSON, about.
    pub fn text_size(&self) -> usize {
        self.extras.get().len() + self.channels.text().len() + self.samplers.text().len() + 128
    }

    fn write(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        put(out, "{\"extras\":");
        put(out, self.extras.get());
        put(out, ",\"channels\":[");
        out.extend_from_slice(self.channels.text());
        put(out, "],\"name\":");
        serde_json::to_writer(&mut *out, &self.name)?;
        put(out, ",\"samplers\":[");
        out.extend_from_slice(self.samplers.text());
        put(out, "]}");
        Ok(())
    }
}

/// The JSON of a document: `root` with what stands outside of it. Appended to `out`.
pub fn write(
    out: &mut Vec<u8>,
    root: &json::Root,
    accessors: &Accessors,
    animations: &[Animation],
    joints: &List,
) -> serde_json::Result<()> {
    put(out, "{\"accessors\":[");
    accessors.write(out)?;
    put(out, "],\"animations\":[");
    for (i, animation) in animations.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        animation.write(out)?;
    }
    put(out, "],\"asset\":");
    serde_json::to_writer(&mut *out, &root.asset)?;
    list(out, "buffers", &root.buffers)?;
    list(out, "bufferViews", &root.buffer_views)?;
    if let Some(scene) = &root.scene {
        put(out, ",\"scene\":");
        put_number(out, scene.value() as u32);
    }
    list(out, "extensionsUsed", &root.extensions_used)?;
    list(out, "cameras", &root.cameras)?;
    list(out, "images", &root.images)?;
    list(out, "materials", &root.materials)?;
    list(out, "meshes", &root.meshes)?;
    put(out, ",\"nodes\":[");
    out.extend_from_slice(joints.text());
    for (i, node) in root.nodes.iter().enumerate() {
        if i > 0 || !joints.text().is_empty() {
            out.push(b',');
        }
        serde_json::to_writer(&mut *out, node)?;
    }
    out.push(b']');
    list(out, "samplers", &root.samplers)?;
    list(out, "scenes", &root.scenes)?;
    list(out, "skins", &root.skins)?;
    list(out, "textures", &root.textures)?;
    out.push(b'}');
    Ok(())
}

fn list<T: Serialize>(out: &mut Vec<u8>, name: &str, list: &[T]) -> serde_json::Result<()> {
    if !list.is_empty() {
        put(out, ",\"");
        put(out, name);
        put(out, "\":");
        serde_json::to_writer(&mut *out, list)?;
    }
    Ok(())
}
