//! Clips and a rig that tests of the reading-back side write, and edits of a written .gltf.

use std::path::{Path, PathBuf};

use anim2gltf::convert::rig;
use anim2gltf::formats::{Format, Scene, Workspace, WriteOptions};
use anim2gltf::model::naming::JointNames;
use anim2gltf::model::{
    Clip, ClipId, Clock, Curve, Event, Interpolation, Joint, JointId, OtherTrack, Positions, Property,
    Skeleton, Target, Timeline, Track, Trs, Values, Window,
};
use anim2gltf::passes as resample;
use glam::{EulerRot, Quat, Vec3};
use serde_json::{Map, Value, json};

pub struct NoNames;

impl JointNames for NoNames {
    fn joint_name(&self, _: JointId) -> Option<&str> {
        None
    }
}

pub fn tag(i: u16) -> JointId {
    JointId::BoneTag(i)
}

/// Seven joints in metres, Z up, whose rest is turned in many ways.
pub fn body() -> Skeleton {
    let joint = |i: u16, parent: Option<usize>, name: &str, t: [f32; 3], deg: [f32; 3]| {
        let [x, y, z] = deg.map(f32::to_radians);
        let rotation = Quat::from_euler(EulerRot::ZYX, z, y, x).normalize();
        let rest = Trs { translation: Vec3::from(t), rotation, scale: Vec3::ONE };
        Joint { id: tag(i), name: Some(name.to_owned()), parent, rest }
    };
    let joints = vec![
        joint(0, None, "Pelvis", [0.0, 0.02, 0.95], [0.0, -90.0, 90.0]),
        joint(1, Some(0), "Spine", [0.2, 0.0, 0.01], [3.0, -8.0, 5.0]),
        joint(2, Some(1), "Head", [0.45, 0.01, 0.0], [-4.0, 20.0, 2.0]),
        joint(3, Some(1), "Arm", [0.35, 0.0, 0.2], [170.0, 60.0, 35.0]),
        joint(4, Some(3), "Hand", [0.5, 0.0, 0.0], [0.0, 0.0, -20.0]),
        joint(5, Some(0), "Leg", [-0.05, 0.0, 0.1], [0.0, 180.0, 3.0]),
        joint(6, Some(5), "Foot", [0.82, 0.0, 0.0], [0.0, 90.0, 0.0]),
    ];
    Skeleton::new("body", joints).expect("a tree")
}

fn empty(name: &str, id: u64, length_s: f64) -> Clip {
    Clip {
        id: ClipId { value: id, min_digits: 8 },
        name: format!("pack:/{name}.clip"),
        short_name: name.to_owned(),
        game: "GTAV",
        source: "pack.ycd".to_owned(),
        length_s,
        additive: false,
        timelines: Vec::new(),
        tracks: Vec::new(),
        events: Vec::new(),
        extras: Map::new(),
        warnings: Vec::new(),
    }
}

fn ticks(step: u32, count: u32) -> Timeline {
    Timeline {
        clock: Clock::Ticks60,
        positions: Positions::Whole((0..count).map(|i| i * step).collect()),
        window: Window::WHOLE,
    }
}

fn track(clip: &mut Clip, joint: JointId, property: Property, timeline: Timeline, curve: Curve) {
    let timeline = clip.add_timeline(timeline);
    clip.tracks.push(Track { target: Target { joint, property }, timeline, curve });
}

fn linear(values: Values) -> Curve {
    Curve { interpolation: Interpolation::Linear, values }
}

/// Clips with every kind of channel: moving and constant, linear and stepping, of several rates, some with spans
/// that need keys between.
pub fn clips() -> Vec<Clip> {
    let body = body();
    let mut walk = empty("walk", 0x1111, 1.0);
    let swing = |i: u16, count: u32, deg: f32| {
        let rest = body.joints()[i as usize].rest.rotation;
        let axis = Vec3::new(1.0, 0.4 * f32::from(i) - 1.0, 0.6).normalize();
        let key = |k: u32| {
            let angle = deg * (k as f32 * 1.3 + f32::from(i)).sin();
            (rest * Quat::from_axis_angle(axis, angle.to_radians())).normalize()
        };
        Values::Quat((0..count).map(key).collect())
    };
    let nlerp = |values| Curve { interpolation: Interpolation::Nlerp, values };
    let forward = (0..11).map(|k| Vec3::new(0.0, 0.14 * k as f32, 0.01 * (k as f32).sin()));
    let forward = linear(Values::Vec3(forward.collect()));
    track(&mut walk, JointId::RootMotion, Property::Translation, ticks(6, 11), forward);
    let bob = (0..31).map(|k| Vec3::new(0.0, 0.02, 0.95 + 0.02 * (k as f32 * 0.7).cos()));
    track(&mut walk, tag(0), Property::Translation, ticks(2, 31), linear(Values::Vec3(bob.collect())));
    track(&mut walk, tag(0), Property::Rotation, ticks(2, 31), nlerp(swing(0, 31, 4.0)));
    track(&mut walk, tag(1), Property::Rotation, ticks(3, 21), nlerp(swing(1, 21, 9.0)));
    track(&mut walk, tag(2), Property::Rotation, ticks(2, 31), nlerp(swing(2, 31, 70.0)));
    let grow = (0..11).map(|k| Vec3::new(1.0, 1.0 + 0.02 * k as f32, 1.0));
    track(&mut walk, tag(2), Property::Scale, ticks(6, 11), linear(Values::Vec3(grow.collect())));
    track(&mut walk, tag(3), Property::Rotation, ticks(4, 16), nlerp(swing(3, 16, 35.0)));
    let step = Curve { interpolation: Interpolation::Step, values: swing(4, 11, 20.0) };
    track(&mut walk, tag(4), Property::Rotation, ticks(6, 11), step);
    track(&mut walk, tag(5), Property::Rotation, ticks(2, 31), nlerp(swing(5, 1, 15.0)));
    // Two equal keys at the ends, in a track that is otherwise not constant.
    let mut foot = swing(6, 13, 12.0);
    if let Values::Quat(keys) = &mut foot {
        keys[1] = keys[0];
        keys[12] = keys[11];
    }
    track(&mut walk, tag(6), Property::Rotation, ticks(5, 13), nlerp(foot));
    let open = OtherTrack { number: 9, name: Some("openness") };
    let curve = linear(Values::Scalar(vec![0.0, 0.5, 1.0, 0.25, 0.125, 0.75]));
    track(&mut walk, tag(2), Property::Other(open), ticks(12, 6), curve);
    let attributes = |side: &str| {
        let mut map = Map::new();
        map.insert("foot".to_owned(), json!(side));
        map.insert("blend".to_owned(), json!(0.25));
        map
    };
    walk.events = vec![
        Event { name: "step".to_owned(), start_s: 0.1, end_s: 0.1, attributes: attributes("left") },
        Event { name: "step".to_owned(), start_s: 0.6, end_s: 0.6, attributes: attributes("right") },
        Event { name: "breathe".to_owned(), start_s: 0.0, end_s: 1.0, attributes: Map::new() },
    ];
    walk.extras.insert("flags".to_owned(), json!([1, 2, 4]));
    walk.extras.insert("hash".to_owned(), json!(18_446_744_073_709_551_615u64));

    let mut pose = empty("pose", 0x2222, 0.5);
    track(&mut pose, tag(0), Property::Rotation, ticks(2, 1), nlerp(swing(0, 1, 10.0)));
    track(&mut pose, tag(3), Property::Rotation, ticks(2, 1), nlerp(swing(3, 1, 80.0)));
    let still = linear(Values::Vec3(vec![Vec3::new(0.0, 0.0, 0.7)]));
    track(&mut pose, tag(0), Property::Translation, ticks(2, 1), still);
    pose.events = vec![Event { name: "hold".to_owned(), start_s: 0.25, end_s: 0.25, attributes: Map::new() }];
    vec![walk, pose]
}

/// The rig of the clips, and the clips after the passes that a conversion makes.
pub fn prepared(mut clips: Vec<Clip>) -> (Skeleton, Vec<Clip>) {
    let rig = rig::build(&body(), &clips, &NoNames).expect("a rig");
    for clip in &mut clips {
        resample::align_signs(clip);
        resample::collapse_constant(clip);
        resample::subdivide(clip, 0.05);
        resample::align_signs(clip);
    }
    (rig, clips)
}

/// Writes `clips` (as they are) into `folder`; returns the main file.
pub fn write(folder: &Path, stem: &str, rig: &Skeleton, clips: &[Clip], output: &Output) -> PathBuf {
    let files = output
        .format
        .write(&Scene::new(rig, clips), stem, &output.write, &mut Workspace::default())
        .expect("written");
    let mut main = PathBuf::new();
    for (extension, bytes) in files {
        main = folder.join(format!("{stem}.{extension}"));
        std::fs::write(&main, bytes).expect("a file");
    }
    main
}

/// What is written, and how.
#[derive(Clone)]
pub struct Output {
    pub format: &'static dyn Format,
    pub write: WriteOptions,
}

pub fn options(format: &'static dyn Format) -> Output {
    Output { format, write: WriteOptions::default() }
}

/// A .gltf and its .bin, to be edited.
#[derive(Clone)]
pub struct Doc {
    pub json: Value,
    pub bin: Vec<u8>,
}

impl Doc {
    pub fn open(path: &Path) -> Doc {
        let json = serde_json::from_slice(&std::fs::read(path).expect("a file")).expect("JSON");
        Doc { json, bin: std::fs::read(path.with_extension("bin")).expect("a .bin") }
    }

    pub fn save(&self, folder: &Path, stem: &str) -> PathBuf {
        let mut json = self.json.clone();
        json["buffers"][0]["uri"] = json!(format!("{stem}.bin"));
        json["buffers"][0]["byteLength"] = json!(self.bin.len());
        self.save_text(folder, stem, &serde_json::to_string(&json).expect("JSON"))
    }

    /// With other text than the JSON's own, which must name `stem`.bin.
    pub fn save_text(&self, folder: &Path, stem: &str, text: &str) -> PathBuf {
        std::fs::create_dir_all(folder).expect("a folder");
        std::fs::write(folder.join(format!("{stem}.bin")), &self.bin).expect("a file");
        let path = folder.join(format!("{stem}.gltf"));
        std::fs::write(&path, text).expect("a file");
        path
    }

    pub fn count(&self, pointer: &str) -> usize {
        self.json.pointer(pointer).and_then(Value::as_array).map_or(0, Vec::len)
    }

    fn number(value: &Value) -> usize {
        value.as_u64().unwrap_or(0) as usize
    }

    fn width(shape: &Value) -> usize {
        match shape.as_str().expect("a type") {
            "SCALAR" => 1,
            "VEC3" => 3,
            "VEC4" => 4,
            _ => 16,
        }
    }

    /// The f32 values of an accessor.
    pub fn floats(&self, accessor: usize) -> Vec<f32> {
        let a = &self.json["accessors"][accessor];
        assert_eq!(a["componentType"], 5126);
        let view = &self.json["bufferViews"][Self::number(&a["bufferView"])];
        let start = Self::number(&view["byteOffset"]) + Self::number(&a["byteOffset"]);
        let n = Self::number(&a["count"]) * Self::width(&a["type"]);
        let (chunks, _) = self.bin[start..start + 4 * n].as_chunks();
        chunks.iter().map(|c| f32::from_le_bytes(*c)).collect()
    }

    /// A new accessor in a view of its own.
    pub fn add(&mut self, values: &[f32], like: usize) -> usize {
        let shape = self.json["accessors"][like]["type"].clone();
        let view = json!({"buffer": 0, "byteOffset": self.bin.len(), "byteLength": 4 * values.len()});
        values.iter().for_each(|v| self.bin.extend(v.to_le_bytes()));
        let views = self.json["bufferViews"].as_array_mut().expect("views");
        views.push(view);
        let view = views.len() - 1;
        let width = Self::width(&shape);
        let mut accessor =
            json!({"bufferView": view, "componentType": 5126, "count": values.len() / width, "type": shape});
        if width == 1 {
            accessor["min"] = json!([values[0]]);
            accessor["max"] = json!([values[values.len() - 1]]);
        }
        let accessors = self.json["accessors"].as_array_mut().expect("accessors");
        accessors.push(accessor);
        accessors.len() - 1
    }

    /// Gives a channel a sampler that no other channel shares; returns its index.
    pub fn own_sampler(&mut self, animation: usize, channel: usize) -> usize {
        let a = &mut self.json["animations"][animation];
        let sampler = Self::number(&a["channels"][channel]["sampler"]);
        let copy = a["samplers"][sampler].clone();
        let samplers = a["samplers"].as_array_mut().expect("samplers");
        samplers.push(copy);
        let own = samplers.len() - 1;
        a["channels"][channel]["sampler"] = json!(own);
        own
    }

    /// Changes the times or values (`which`: `input`, `output`) of one channel alone.
    pub fn edit(
        &mut self,
        animation: usize,
        channel: usize,
        which: &str,
        change: impl FnOnce(&mut Vec<f32>),
    ) {
        let sampler = self.own_sampler(animation, channel);
        let accessor = Self::number(&self.json["animations"][animation]["samplers"][sampler][which]);
        let mut values = self.floats(accessor);
        change(&mut values);
        let own = self.add(&values, accessor);
        self.json["animations"][animation]["samplers"][sampler][which] = json!(own);
    }

    /// `joint path` of a channel, as reports call it.
    pub fn label(&self, animation: usize, channel: usize) -> String {
        let target = &self.json["animations"][animation]["channels"][channel]["target"];
        let node = &self.json["nodes"][Self::number(&target["node"])];
        format!("{} {}", node["name"].as_str().expect("a name"), target["path"].as_str().expect("a path"))
    }

    /// Every (animation, channel).
    pub fn channels(&self) -> Vec<(usize, usize)> {
        (0..self.count("/animations"))
            .flat_map(|a| (0..self.count(&format!("/animations/{a}/channels"))).map(move |c| (a, c)))
            .collect()
    }
}
