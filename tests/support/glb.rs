//! Reads .glb back with the `gltf` crate: what another program sees.

use std::collections::HashMap;

/// A file as a reader sees it.
pub struct Glb {
    pub document: gltf::Document,
    pub bin: Vec<u8>,
    /// Node by name.
    pub nodes: HashMap<String, usize>,
}

/// A channel's keys.
#[derive(Debug, Clone)]
pub struct Keys {
    pub times: Vec<f32>,
    /// Rows of three or four.
    pub values: Vec<Vec<f32>>,
    pub step: bool,
}

impl Glb {
    pub fn open(bytes: &[u8]) -> Glb {
        let file = gltf::Gltf::from_slice(bytes).expect("the gltf crate reads it");
        let nodes = file.document.nodes().map(|n| (n.name().expect("named").to_owned(), n.index())).collect();
        Glb { bin: file.blob.clone().unwrap_or_default(), document: file.document, nodes }
    }

    /// Keys of all channels of an animation, by node and path (`translation`, `rotation`, `scale`).
    pub fn channels(&self, animation: &gltf::Animation<'_>) -> HashMap<(usize, &'static str), Keys> {
        animation
            .channels()
            .map(|channel| {
                let reader = channel.reader(|_| Some(&self.bin));
                let times: Vec<f32> = reader.read_inputs().expect("times").collect();
                use gltf::animation::util::ReadOutputs as R;
                let (path, values): (_, Vec<Vec<f32>>) = match reader.read_outputs().expect("values") {
                    R::Translations(v) => ("translation", v.map(|v| v.to_vec()).collect()),
                    R::Rotations(v) => ("rotation", v.into_f32().map(|v| v.to_vec()).collect()),
                    R::Scales(v) => ("scale", v.map(|v| v.to_vec()).collect()),
                    R::MorphTargetWeights(_) => panic!("no weights are written"),
                };
                let step = channel.sampler().interpolation() == gltf::animation::Interpolation::Step;
                ((channel.target().node().index(), path), Keys { times, values, step })
            })
            .collect()
    }

    /// The extras of an animation.
    pub fn extras(animation: &gltf::Animation<'_>) -> serde_json::Value {
        let raw = animation.extras().as_ref().expect("extras");
        serde_json::from_str(raw.get()).expect("extras are JSON")
    }
}

/// From Y up back to Z up.
pub fn z_up(path: &str, v: &[f32]) -> Vec<f32> {
    match path {
        "translation" => vec![v[0], -v[2], v[1]],
        "scale" => vec![v[0], v[2], v[1]],
        _ => vec![v[0], -v[2], v[1], v[3]],
    }
}
