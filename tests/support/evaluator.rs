//! An evaluator of its own, in f64: a .glb by `serde_json` and its accessors, a clip by its keys. It shares no code
//! with the passes that it checks, nor with `verify`.

use std::collections::HashMap;
use std::path::Path;

use anim2gltf::model::{Clip, Interpolation, Property, Skeleton, Values};
use serde_json::Value;

pub type V = [f64; 3];
pub type Q = [f64; 4];

/// Keys of a channel.
#[derive(Debug, Clone)]
pub struct Curve {
    pub times: Vec<f64>,
    /// Of three or four numbers.
    pub values: Vec<Vec<f64>>,
    pub step: bool,
    /// Rotations between keys: along the great arc (glTF), or on the chord, normalised (the games).
    pub arc: bool,
}

/// A joint: its parent, its pose at rest, and what moves it: translation, rotation, scale.
#[derive(Debug, Clone)]
pub struct Node {
    pub name: String,
    pub parent: Option<usize>,
    pub rest: [Vec<f64>; 3],
    pub curves: [Option<Curve>; 3],
}

/// Joints, in no order that matters.
#[derive(Debug, Clone)]
pub struct Played {
    /// Identity of the clip, and where it comes from.
    pub id: (String, String),
    pub nodes: Vec<Node>,
}

/// Position and the three axes of a joint in model space.
pub type Frame = (V, [V; 3]);

impl Curve {
    pub fn at(&self, t: f64) -> Vec<f64> {
        let after = self.times.partition_point(|k| *k <= t);
        if after == 0 {
            return self.values[0].clone();
        }
        let (i, j) = (after - 1, after.min(self.times.len() - 1));
        let (a, b) = (&self.values[i], &self.values[j]);
        if self.step || i == j {
            return a.clone();
        }
        let f = (t - self.times[i]) / (self.times[j] - self.times[i]);
        if a.len() == 3 {
            return (0..3).map(|c| a[c] + (b[c] - a[c]) * f).collect();
        }
        let (a, mut b) = (unit(a), unit(b));
        let mut dot: f64 = a.iter().zip(&b).map(|(a, b)| a * b).sum();
        if dot < 0.0 {
            b.iter_mut().for_each(|c| *c = -*c);
            dot = -dot;
        }
        let angle = dot.min(1.0).acos();
        let (wa, wb) = if self.arc && angle > 1e-5 {
            (((1.0 - f) * angle).sin() / angle.sin(), (f * angle).sin() / angle.sin())
        } else {
            (1.0 - f, f)
        };
        unit(&a.iter().zip(&b).map(|(a, b)| a * wa + b * wb).collect::<Vec<_>>())
    }
}

fn unit(q: &[f64]) -> Vec<f64> {
    let n = q.iter().map(|c| c * c).sum::<f64>().sqrt();
    q.iter().map(|c| c / n).collect()
}

impl Played {
    /// All joints at an instant.
    pub fn pose(&self, t: f64) -> Vec<Frame> {
        let mut done: Vec<Option<Frame>> = vec![None; self.nodes.len()];
        (0..self.nodes.len()).for_each(|n| {
            self.frame(n, t, &mut done);
        });
        done.into_iter().flatten().collect()
    }

    fn frame(&self, n: usize, t: f64, done: &mut Vec<Option<Frame>>) -> Frame {
        if let Some(frame) = done[n] {
            return frame;
        }
        let node = &self.nodes[n];
        let part = |k: usize| node.curves[k].as_ref().map_or_else(|| node.rest[k].clone(), |c| c.at(t));
        let (at, turn, scale) = (part(0), unit(&part(1)), part(2));
        let mut axes = [[0.0; 3]; 3];
        for (c, axis) in axes.iter_mut().enumerate() {
            let mut e = [0.0; 3];
            e[c] = scale[c];
            *axis = rotate(&turn, e);
        }
        let own = ([at[0], at[1], at[2]], axes);
        let frame = match node.parent {
            None => own,
            Some(p) => {
                let up = self.frame(p, t, done);
                (apply(&up, own.0), own.1.map(|a| add(apply(&up, a), up.0, -1.0)))
            }
        };
        done[n] = Some(frame);
        frame
    }

    /// Every key's time.
    pub fn keys(&self) -> Vec<f64> {
        let curves = self.nodes.iter().flat_map(|n| n.curves.iter().flatten());
        curves.filter(|c| c.times.len() > 1).flat_map(|c| c.times.iter().copied()).collect()
    }

    /// Keys of all channels.
    pub fn key_count(&self) -> usize {
        self.nodes.iter().flat_map(|n| n.curves.iter().flatten()).map(|c| c.times.len()).sum()
    }
}

/// Where a point fixed to a joint is.
pub fn apply(frame: &Frame, p: V) -> V {
    std::array::from_fn(|c| frame.0[c] + (0..3).map(|a| frame.1[a][c] * p[a]).sum::<f64>())
}

pub fn add(a: V, b: V, factor: f64) -> V {
    std::array::from_fn(|c| a[c] + factor * b[c])
}

pub fn length(v: V) -> f64 {
    v.iter().map(|c| c * c).sum::<f64>().sqrt()
}

/// v + 2 w (u x v) + 2 u x (u x v).
fn rotate(q: &[f64], v: V) -> V {
    let cross =
        |a: V, b: V| [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
    let u = [q[0], q[1], q[2]];
    let uv = cross(u, v);
    add(add(v, uv, 2.0 * q[3]), cross(u, uv), 2.0)
}

/// A clip of the source on its rig, Z up.
pub fn source(rig: &Skeleton, clip: &Clip) -> Played {
    let nodes = rig.joints().iter().map(|joint| {
        let f64s = |v: &[f32]| v.iter().map(|c| f64::from(*c)).collect::<Vec<_>>();
        let rest = [
            f64s(&joint.rest.translation.to_array()),
            f64s(&joint.rest.rotation.to_array()),
            f64s(&joint.rest.scale.to_array()),
        ];
        let curves = [Property::Translation, Property::Rotation, Property::Scale].map(|property| {
            let track = clip.tracks.iter().find(|t| {
                t.target.joint == joint.id && t.target.property == property && !t.curve.values.is_empty()
            })?;
            let values: Vec<Vec<f64>> = match &track.curve.values {
                Values::Vec3(v) => v.iter().map(|v| f64s(&v.to_array())).collect(),
                Values::Quat(v) => v.iter().map(|q| f64s(&q.to_array())).collect(),
                _ => return None,
            };
            let mut times: Vec<f64> = clip.timelines[track.timeline as usize].iter_seconds().collect();
            if values.len() == 1 {
                times = vec![0.0];
            }
            let step = track.curve.interpolation == Interpolation::Step;
            Some(Curve { times, values, step, arc: false })
        });
        Node { name: joint.name.clone().unwrap_or_default(), parent: joint.parent, rest, curves }
    });
    Played { id: (clip.id.to_string(), clip.source.clone()), nodes: nodes.collect() }
}

/// The animations of a .glb, turned to Z up.
pub fn file(path: &Path) -> Vec<Played> {
    let bytes = std::fs::read(path).unwrap();
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let json: Value = serde_json::from_slice(&bytes[20..20 + word(12)]).unwrap();
    let bin = &bytes[20 + word(12) + 8..];
    let list = |v: &Value| v.as_array().cloned().unwrap_or_default();
    let index = |v: &Value| v.as_u64().unwrap() as usize;
    let accessors = list(&json["accessors"]);
    let rows = |number: usize| -> Vec<Vec<f64>> {
        let accessor = &accessors[number];
        let view = &json["bufferViews"][index(&accessor["bufferView"])];
        let offset = |v: &Value| v["byteOffset"].as_u64().unwrap_or(0) as usize;
        let start = offset(view) + offset(accessor);
        let width = match accessor["type"].as_str().unwrap() {
            "SCALAR" => 1,
            "VEC3" => 3,
            _ => 4,
        };
        let number = |i: usize| match accessor["componentType"].as_u64().unwrap() {
            5126 => f64::from(f32::from_le_bytes(bin[start + 4 * i..start + 4 * i + 4].try_into().unwrap())),
            _ => {
                let c = i16::from_le_bytes(bin[start + 2 * i..start + 2 * i + 2].try_into().unwrap());
                (f64::from(c) / 32767.0).max(-1.0)
            }
        };
        (0..index(&accessor["count"])).map(|r| (0..width).map(|c| number(r * width + c)).collect()).collect()
    };
    let z_up = |kind: usize, v: Vec<f64>| match kind {
        0 => vec![v[0], -v[2], v[1]],
        1 => vec![v[0], -v[2], v[1], v[3]],
        _ => vec![v[0], v[2], v[1]],
    };
    let paths = ["translation", "rotation", "scale"];
    let still: Vec<Node> = list(&json["nodes"])
        .iter()
        .map(|node| {
            let rest = [vec![0.0; 3], vec![0.0, 0.0, 0.0, 1.0], vec![1.0; 3]];
            let mut kinds = 0..3;
            let rest = rest.map(|identity| {
                let kind = kinds.next().unwrap();
                let given: Vec<f64> = list(&node[paths[kind]]).iter().map(|c| c.as_f64().unwrap()).collect();
                z_up(kind, if given.is_empty() { identity } else { given })
            });
            let name = node["name"].as_str().unwrap_or_default().to_owned();
            Node { name, parent: None, rest, curves: [None, None, None] }
        })
        .collect();
    let mut still = Played { id: Default::default(), nodes: still };
    for (parent, node) in list(&json["nodes"]).iter().enumerate() {
        for child in list(&node["children"]) {
            still.nodes[index(&child)].parent = Some(parent);
        }
    }
    let play = |animation: &Value| {
        let mut played = still.clone();
        let stated = |name: &str| animation["extras"][name].as_str().unwrap_or_default().to_owned();
        played.id = (stated("id"), stated("source"));
        for channel in list(&animation["channels"]) {
            let Some(node) = channel["target"]["node"].as_u64() else { continue };
            let kind = paths.iter().position(|p| channel["target"]["path"] == *p).unwrap();
            let sampler = &animation["samplers"][index(&channel["sampler"])];
            played.nodes[node as usize].curves[kind] = Some(Curve {
                times: rows(index(&sampler["input"])).into_iter().flatten().collect(),
                values: rows(index(&sampler["output"])).into_iter().map(|v| z_up(kind, v)).collect(),
                step: sampler["interpolation"] == "STEP",
                arc: true,
            });
        }
        played
    };
    list(&json["animations"]).iter().map(play).collect()
}

/// The joints of `file` in the order of `source`, by name.
pub fn places(source: &Played, file: &Played) -> Vec<usize> {
    let names: HashMap<&str, usize> =
        file.nodes.iter().enumerate().map(|(i, n)| (n.name.as_str(), i)).collect();
    source.nodes.iter().map(|n| names[n.name.as_str()]).collect()
}
