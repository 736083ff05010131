//! Cameras and texture coordinates of clip dictionaries: what another program sees of them. The dictionaries are
//! written by the tests; what is expected is computed here, from the notes' words.

use std::path::{Path, PathBuf};
use std::process::Command;

use anim2gltf_testkit::ycd_writer::{Animation, Channel, Clip, Dictionary, Format, Track};
use serde_json::{Value, json};

const FRAMES: usize = 31;

/// A turn about a unit axis, x y z w.
fn turn(axis: [f64; 3], degrees: f64) -> [f32; 4] {
    let (s, c) = (degrees.to_radians() / 2.0).sin_cos();
    [axis[0] * s, axis[1] * s, axis[2] * s, c].map(|v| v as f32)
}

fn vectors(bone: u16, number: u8, of: impl Fn(f32) -> [f32; 3]) -> Track {
    let values: Vec<[f32; 3]> = (0..FRAMES).map(|i| of(i as f32 / (FRAMES - 1) as f32)).collect();
    Track::vectors(bone, number, &values)
}

fn floats(bone: u16, number: u8, of: impl Fn(f32) -> f32) -> Track {
    let values: Vec<f32> = (0..FRAMES).map(|i| of(i as f32 / (FRAMES - 1) as f32)).collect();
    Track::floats(bone, number, &values)
}

fn rotations(bone: u16, number: u8, of: impl Fn(f64) -> [f32; 4]) -> Track {
    let values: Vec<[f32; 4]> = (0..FRAMES).map(|i| of(i as f64 / (FRAMES - 1) as f64)).collect();
    Track::rotations(bone, number, &values)
}

/// A pan to the left from +Y to -X while the camera rises and its view narrows; a second clip that stands still.
/// The second camera has no field of view.
fn camera_dictionary() -> Vec<u8> {
    let moving = Animation::new(
        "pan",
        FRAMES,
        vec![
            vectors(0, 7, |f| [1.0, 2.0, 1.5 + f]),
            rotations(0, 8, |f| turn([0.0, 0.0, 1.0], 90.0 * f)),
            floats(0, 27, |f| 60.0 - 30.0 * f),
            floats(0, 36, |f| f),
            vectors(56194, 7, |f| [f, 0.0, 0.0]),
            // Down by 30 degrees: about +X, which points right of a look along +Y, negative.
            rotations(56194, 8, |_| turn([1.0, 0.0, 0.0], -30.0)),
        ],
    );
    let still = Animation::new(
        "still",
        FRAMES,
        vec![
            Track::constant(0, 7, [5.0, 6.0, 7.0]),
            Track::new(0, 27, Format::Float, vec![Channel::StaticFloat(40.0)]),
        ],
    );
    Dictionary {
        clips: vec![Clip::whole("pack:/pan.clip", &moving), Clip::whole("pack:/still.clip", &still)],
        animations: vec![moving, still],
        ..Dictionary::default()
    }
    .to_bytes()
}

/// A scroll, a turn with a scale, a scale with a scroll, a shear; the game's rows.
fn uv_dictionary() -> Vec<u8> {
    let scroll = Animation::new("scroll", FRAMES, vec![vectors(0, 18, |f| [0.0, 1.0, -2.0 * f])]);
    let spin = Animation::new(
        "spin",
        FRAMES,
        vec![
            vectors(0, 17, |f| {
                let (s, c) = (f * 3.0).sin_cos();
                [2.0 * c, s, 0.25 * f]
            }),
            vectors(0, 18, |f| {
                let (s, c) = (f * 3.0).sin_cos();
                [-2.0 * s, c, 0.5]
            }),
        ],
    );
    let zoom = Animation::new(
        "zoom",
        FRAMES,
        vec![vectors(0, 17, |f| [1.0 + f, 0.0, 0.25 * f]), vectors(0, 18, |f| [0.0, 1.0 + 0.5 * f, -f])],
    );
    let shear = Animation::new("shear", FRAMES, vec![vectors(0, 17, |f| [1.0, f, 0.0])]);
    Dictionary {
        clips: vec![
            Clip::whole("pack:/scroll.clip", &scroll),
            Clip::whole("pack:/spin.clip", &spin),
            Clip::whole("pack:/zoom.clip", &zoom),
            Clip::whole("pack:/shear.clip", &shear),
        ],
        animations: vec![scroll, spin, zoom, shear],
        ..Dictionary::default()
    }
    .to_bytes()
}

fn convert(input: &Path, out: &Path, options: &[&str]) {
    let run = Command::new(env!("CARGO_BIN_EXE_anim2gltf"))
        .arg(input)
        .arg("-o")
        .arg(out)
        .args(["-q", "--force"])
        .args(options)
        .output()
        .expect("the program runs");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}

/// A GLB as JSON and bytes: the gltf crate knows no channel without a node.
struct Glb {
    json: Value,
    bin: Vec<u8>,
}

impl Glb {
    fn open(path: &Path) -> Glb {
        let bytes = std::fs::read(path).expect("the file");
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four")) as usize;
        let json = serde_json::from_slice(&bytes[20..20 + word(12)]).expect("JSON");
        Glb { json, bin: bytes[20 + word(12) + 8..].to_vec() }
    }

    fn accessor(&self, index: &Value) -> Vec<Vec<f32>> {
        let accessor = &self.json["accessors"][index.as_u64().expect("an index") as usize];
        let view = &self.json["bufferViews"][accessor["bufferView"].as_u64().expect("a view") as usize];
        let width = match accessor["type"].as_str().expect("a type") {
            "SCALAR" => 1,
            "VEC2" => 2,
            "VEC3" => 3,
            _ => 4,
        };
        let offset = |v: &Value| v["byteOffset"].as_u64().unwrap_or(0) as usize;
        let start = offset(view) + offset(accessor);
        let count = accessor["count"].as_u64().expect("a count") as usize;
        self.bin[start..start + 4 * width * count]
            .chunks_exact(4 * width)
            .map(|row| row.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().expect("four"))).collect())
            .collect()
    }

    fn node(&self, name: &str) -> usize {
        let nodes = self.json["nodes"].as_array().expect("nodes");
        nodes.iter().position(|n| n["name"] == name).unwrap_or_else(|| panic!("no node {name}"))
    }

    /// Times and values of a channel: of a node's path, or of a pointer.
    fn channel(&self, animation: &str, node: Option<usize>, path: &str) -> Option<(Vec<f32>, Vec<Vec<f32>>)> {
        let animations = self.json["animations"].as_array().expect("animations");
        let animation = animations.iter().find(|a| a["name"] == animation).expect("the animation");
        let channel = animation["channels"].as_array().expect("channels").iter().find(|c| {
            let target = &c["target"];
            match node {
                Some(node) => target["node"] == node && target["path"] == path,
                None => {
                    let extension = &target["extensions"]["KHR_animation_pointer"];
                    let is = extension["pointer"] == path;
                    assert!(!is || (target["path"] == "pointer" && target.get("node").is_none()));
                    is
                }
            }
        })?;
        let sampler = &animation["samplers"][channel["sampler"].as_u64().expect("a sampler") as usize];
        assert!(sampler.get("interpolation").is_none(), "LINEAR is the default");
        let times = self.accessor(&sampler["input"]).into_iter().map(|t| t[0]).collect();
        Some((times, self.accessor(&sampler["output"])))
    }
}

/// A vector turned by a quaternion x y z w.
fn turned(q: &[f32], v: [f64; 3]) -> [f64; 3] {
    let q: Vec<f64> = q.iter().map(|c| f64::from(*c)).collect();
    let cross = |a: [f64; 3], b: [f64; 3]| {
        [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
    };
    let axis = [q[0], q[1], q[2]];
    let t = cross(axis, v).map(|c| 2.0 * c);
    let u = cross(axis, t);
    [0, 1, 2].map(|i| v[i] + q[3] * t[i] + u[i])
}

fn near(a: &[f64], b: &[f64], tolerance: f64) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() <= tolerance)
}

#[test]
fn cameras_stand_and_look_where_the_game_has_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let input = folder.path().join("cam.ycd");
    std::fs::write(&input, camera_dictionary()).expect("written");
    convert(&input, folder.path(), &[]);
    let glb = Glb::open(&folder.path().join("cam.glb"));
    assert_eq!(glb.json["extensionsUsed"], json!(["KHR_animation_pointer"]));
    let (a, b) = (glb.node("camera"), glb.node("camera_56194"));
    // Cameras are no joints, and stand beside the rig.
    let joints = glb.json["skins"][0]["joints"].as_array().expect("joints");
    let roots = glb.json["scenes"][0]["nodes"].as_array().expect("nodes");
    for node in [a, b] {
        assert!(!joints.contains(&json!(node)) && roots.contains(&json!(node)));
        assert!(glb.json["nodes"][node]["camera"].is_u64());
    }
    // Source (x, y, z) is (x, z, -y) there.
    let (times, at) = glb.channel("pan", Some(a), "translation").expect("keyed");
    assert_eq!(times.len(), FRAMES);
    assert!((times[FRAMES - 1] - 1.0).abs() < 1e-6);
    assert_eq!(at[0], [1.0, 1.5, -2.0]);
    assert_eq!(at[FRAMES - 1], [1.0, 2.5, -2.0]);
    // A camera of glTF looks along -Z, its top is +Y. First along +Y of the source (-Z), at last along -X; its top
    // stays up.
    let (_, look) = glb.channel("pan", Some(a), "rotation").expect("keyed");
    assert!(near(&turned(&look[0], [0.0, 0.0, -1.0]), &[0.0, 0.0, -1.0], 1e-6));
    assert!(near(&turned(&look[FRAMES - 1], [0.0, 0.0, -1.0]), &[-1.0, 0.0, 0.0], 1e-6));
    assert!(near(&turned(&look[FRAMES - 1], [0.0, 1.0, 0.0]), &[0.0, 1.0, 0.0], 1e-6));
    let (_, look) = glb.channel("pan", Some(b), "rotation").expect("keyed");
    let down = 30f64.to_radians();
    assert!(near(&turned(&look[0], [0.0, 0.0, -1.0]), &[0.0, -down.sin(), -down.cos()], 1e-6));
    // The field of view, in radians; what changes in no clip is not keyed.
    let camera =
        |node: usize| &glb.json["cameras"][glb.json["nodes"][node]["camera"].as_u64().expect("one") as usize];
    let yfov = |node: usize| camera(node)["perspective"]["yfov"].as_f64().expect("a number");
    assert_eq!(camera(a)["type"], "perspective");
    assert!((yfov(a) - 60f64.to_radians()).abs() < 1e-6);
    let index = glb.json["nodes"][a]["camera"].as_u64().expect("one");
    let pointer = format!("/cameras/{index}/perspective/yfov");
    let (times, values) = glb.channel("pan", None, &pointer).expect("keyed");
    assert_eq!(times.len(), FRAMES);
    for (i, row) in values.iter().enumerate() {
        let degrees = 60.0 - 30.0 * i as f64 / (FRAMES - 1) as f64;
        assert!((f64::from(row[0]) - degrees.to_radians()).abs() < 1e-6, "{i}: {row:?}");
    }
    let (_, values) = glb.channel("still", None, &pointer).expect("keyed, because the other clip moves it");
    assert!((f64::from(values[0][0]) - 40f64.to_radians()).abs() < 1e-6);
    let other = 1 - index;
    assert!(glb.channel("pan", None, &format!("/cameras/{other}/perspective/yfov")).is_none());
    // The clip that does not turn the camera puts it back, and one that does not move it too.
    assert_eq!(glb.channel("still", Some(a), "translation").expect("keyed").1, [[5.0, 7.0, -6.0]]);
    assert_eq!(glb.channel("still", Some(a), "rotation").expect("keyed").1.len(), 1);
    assert_eq!(glb.channel("still", Some(b), "translation").expect("keyed").1, [[0.0, 0.0, 0.0]]);
    // The source's own values, in degrees and with its axes.
    let animations = glb.json["animations"].as_array().expect("animations");
    let pan = animations.iter().find(|a| a["name"] == "pan").expect("pan");
    let kept = |bone: u64, track: u64| {
        let tracks = pan["extras"]["tracks"].as_array().expect("tracks");
        tracks.iter().find(|t| t["bone"] == bone && t["track"] == track).expect("kept").clone()
    };
    assert_eq!(kept(0, 27)["values"][0], 60.0);
    assert_eq!(kept(0, 7)["values"][0], json!([1.0, 2.0, 1.5]));
    assert_eq!(kept(56194, 8)["values"].as_array().expect("values").len(), 1);
    assert_eq!(kept(0, 36)["name"], "cameraDofStrength");
}

#[test]
fn texture_coordinates_move_as_the_rows_say() {
    let folder = tempfile::tempdir().expect("a folder");
    let input = folder.path().join("uv.ycd");
    std::fs::write(&input, uv_dictionary()).expect("written");
    for (clip, options) in
        [("scroll", vec!["--clip", "scroll"]), ("spin", vec!["--clip", "spin", "--bake", "60"])]
    {
        convert(&input, folder.path(), &options);
        let glb = Glb::open(&folder.path().join("uv.glb"));
        assert_eq!(glb.json["extensionsUsed"], json!(["KHR_animation_pointer", "KHR_texture_transform"]));
        let node = glb.node("uv");
        let mesh = &glb.json["meshes"][glb.json["nodes"][node]["mesh"].as_u64().expect("a mesh") as usize];
        assert_eq!(mesh["primitives"][0]["material"], 0);
        let base = "/materials/0/pbrMetallicRoughness/baseColorTexture/extensions/KHR_texture_transform";
        let fixed = glb.json.pointer(base).expect("the transform").clone();
        let channel = |name: &str| glb.channel(clip, None, &format!("{base}/{name}"));
        // What does not change has no channel.
        assert_eq!(channel("rotation").is_some(), clip == "spin");
        let play = |name: &str, s: f64| -> Vec<f64> {
            let Some((times, values)) = channel(name) else {
                return match &fixed[name] {
                    Value::Array(v) => v.iter().filter_map(Value::as_f64).collect(),
                    one => vec![one.as_f64().expect("a number")],
                };
            };
            let after = times.iter().position(|t| f64::from(*t) >= s).unwrap_or(times.len() - 1);
            let before = after.saturating_sub(1);
            let (a, b) = (f64::from(times[before]), f64::from(times[after]));
            let f = if b > a { (s - a) / (b - a) } else { 0.0 };
            values[before]
                .iter()
                .zip(&values[after])
                .map(|(x, y)| f64::from(*x) * (1.0 - f) + f64::from(*y) * f)
                .collect()
        };
        for step in 0..=100 {
            let s = f64::from(step) / 100.0;
            // The rows, linear from frame to frame.
            let frame = s * (FRAMES - 1) as f64;
            let (i, f) = ((frame as usize).min(FRAMES - 2), frame - (frame as usize).min(FRAMES - 2) as f64);
            let row = |v: bool, i: usize| -> [f64; 3] {
                let f = i as f64 / (FRAMES - 1) as f64;
                let (sin, cos) = (f * 3.0).sin_cos();
                match (clip, v) {
                    ("scroll", false) => [1.0, 0.0, 0.0],
                    ("scroll", true) => [0.0, 1.0, -2.0 * f],
                    (_, false) => [2.0 * cos, sin, 0.25 * f],
                    (_, true) => [-2.0 * sin, cos, 0.5],
                }
            };
            let between = |v: bool| [0, 1, 2].map(|k| row(v, i)[k] * (1.0 - f) + row(v, i + 1)[k] * f);
            let (u_row, v_row) = (between(false), between(true));
            let (offset, scale, angle) = (play("offset", s), play("scale", s), play("rotation", s)[0]);
            for (u, v) in [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (0.3, 0.8)] {
                // KHR_texture_transform: scale, then turn (counter-clockwise where v points down), then offset.
                let (x, y) = (u * scale[0], v * scale[1]);
                let is = [
                    x * angle.cos() + y * angle.sin() + offset[0],
                    y * angle.cos() - x * angle.sin() + offset[1],
                ];
                let want = [u_row, v_row].map(|r| u * r[0] + v * r[1] + r[2]);
                assert!(near(&is, &want, 2e-3), "{clip} at {s}: {is:?}, expected {want:?}");
            }
        }
    }
    // Shear: the rows alone, and the manifest says so.
    convert(&input, folder.path(), &["--clip", "shear"]);
    let glb = Glb::open(&folder.path().join("uv.glb"));
    assert!(glb.json.get("materials").is_none() && glb.json.get("extensionsUsed").is_none());
    assert_eq!(glb.json["animations"][0]["extras"]["tracks"][0]["track"], 17);
    let manifest = std::fs::read_to_string(folder.path().join("manifest.json")).expect("a manifest");
    assert!(manifest.contains("texture coordinates are only kept as rows"), "{manifest}");
}

/// The validator has no word against any of them.
#[test]
fn the_validator_takes_cameras_and_textures() {
    let Some(node_modules) = anim2gltf_testkit::tool("ANIM2GLTF_NODE_MODULES") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let mut files: Vec<PathBuf> = Vec::new();
    for (name, bytes) in [("cam", camera_dictionary()), ("uv", uv_dictionary())] {
        let input = folder.path().join(format!("{name}.ycd"));
        std::fs::write(&input, bytes).expect("written");
        let ways: [&[&str]; 6] = [
            &[],
            &["--to", "gltf"],
            &["--preview-mesh"],
            &["--bake", "50"],
            &["--reduce", "1", "--quantize"],
            &["--clip", "*p*"],
        ];
        for (i, options) in ways.iter().enumerate() {
            let out = folder.path().join(i.to_string());
            convert(&input, &out, options);
            let extension = if i == 1 { "gltf" } else { "glb" };
            files.push(out.join(format!("{name}.{extension}")));
        }
    }
    let run = Command::new("node")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/validator/validate.cjs"))
        .args(&files)
        .env("NODE_PATH", node_modules)
        .output()
        .expect("node runs");
    let stdout = String::from_utf8(run.stdout).expect("text");
    assert_eq!(stdout.lines().count(), files.len(), "{}", String::from_utf8_lossy(&run.stderr));
    for line in stdout.lines() {
        let line: Value = serde_json::from_str(line).expect("JSON");
        assert!(line["errors"] == 0 && line["warnings"] == 0, "{line}");
        for code in line["informations"].as_array().expect("codes") {
            // The validator knows KHR_animation_pointer by name, not by content.
            let allowed = ["UNUSED_OBJECT", "NODE_EMPTY", "INCOMPLETE_EXTENSION_SUPPORT"];
            assert!(allowed.contains(&code.as_str().expect("a code")), "{line}");
        }
    }
}

/// Blender shows the camera where the game has it, looking along what it films, with its field of view.
#[test]
fn blender_shows_the_camera() {
    let Some(python) = anim2gltf_testkit::tool("ANIM2GLTF_BLENDER_PYTHON") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let times = [0.0, 0.25, 0.5, 1.0];
    let mut jobs = Vec::new();
    for (name, clip, bytes) in [("cam", "pan", camera_dictionary()), ("uv", "zoom", uv_dictionary())] {
        let input = folder.path().join(format!("{name}.ycd"));
        std::fs::write(&input, bytes).expect("written");
        convert(&input, folder.path(), &["--clip", clip]);
        jobs.push(json!({ "file": folder.path().join(format!("{name}.glb")), "times": times }));
    }
    let list = folder.path().join("jobs.json");
    std::fs::write(&list, serde_json::to_vec(&jobs).expect("JSON")).expect("written");
    let run = Command::new(python)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/blender/check_camera.py"))
        .arg(&list)
        .output()
        .expect("Python runs");
    let stdout = String::from_utf8_lossy(&run.stdout).into_owned();
    let results: Vec<Value> = stdout
        .lines()
        .filter_map(|l| l.strip_prefix("RESULT "))
        .map(|l| serde_json::from_str(l).expect("JSON"))
        .collect();
    assert_eq!(results.len(), 2, "{stdout}{}", String::from_utf8_lossy(&run.stderr));
    let numbers =
        |v: &Value| v.as_array().expect("numbers").iter().filter_map(Value::as_f64).collect::<Vec<f64>>();
    for (t, row) in times.iter().zip(results[0]["cameras"]["camera"].as_array().expect("rows")) {
        // In Blender as in the game: Z up.
        assert!(near(&numbers(&row["at"]), &[1.0, 2.0, 1.5 + t], 1e-4), "{t}: {row}");
        let angle = (90.0 * t).to_radians();
        assert!(near(&numbers(&row["look"]), &[-angle.sin(), angle.cos(), 0.0], 1e-3), "{t}: {row}");
        assert!(near(&numbers(&row["up"]), &[0.0, 0.0, 1.0], 1e-4), "{t}: {row}");
        let fov = row["fov_deg"].as_f64().expect("a number");
        assert!((fov - (60.0 - 30.0 * t)).abs() < 0.02, "{t}: {row}");
    }
    for row in results[0]["cameras"]["camera_56194"].as_array().expect("rows") {
        let down = 30f64.to_radians();
        assert!(near(&numbers(&row["look"]), &[0.0, down.cos(), -down.sin()], 1e-4), "{row}");
        assert!((row["fov_deg"].as_f64().expect("a number") - 50.0).abs() < 0.01, "{row}");
    }
    for (t, row) in times.iter().zip(results[1]["mappings"].as_array().expect("rows")) {
        // Blender 5.0 shows offset and scale, and leaves a turn out. v counts upwards there.
        for (u, v) in [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)] {
            let want = [(1.0 + t) * u + 0.25 * t, (1.0 + 0.5 * t) * v - t];
            let m = numbers(row);
            let (x, y) = (u * m[3], (1.0 - v) * m[4]);
            let (s, c) = m[2].sin_cos();
            let is = [c * x - s * y + m[0], 1.0 - (s * x + c * y + m[1])];
            assert!(near(&is, &want, 1e-3), "{t}: {is:?}, expected {want:?}");
        }
    }
}
