//! `diff`: one change in a copy is found and named, whichever channel, joint or event it is in; what means
//! nothing is passed over.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anim2gltf::compare::diff::{ClipDiff, FileDiff, Options, Outcome, Status, diff};
use anim2gltf::formats::fbx::Fbx;
use anim2gltf::formats::gltf::{Glb, Gltf};
use anim2gltf::model::{Interpolation, JointId, Values};
use anim2gltf_testkit::shown::{Doc, clips, options, prepared, write};
use glam::{DQuat, DVec3};
use serde_json::{Value, json};

const TICK_S: f32 = 1.0 / 60.0;

struct Case {
    folder: tempfile::TempDir,
    old: PathBuf,
    doc: Doc,
}

impl Case {
    fn new() -> Case {
        let folder = tempfile::tempdir().unwrap();
        let (rig, clips) = prepared(clips());
        let old = write(folder.path(), "clips", &rig, &clips, &options(&Gltf));
        let doc = Doc::open(&old);
        Case { folder, old, doc }
    }

    /// Compares with an edited copy.
    fn with(&self, doc: &Doc, options: &Options) -> FileDiff {
        let new = doc.save(&self.folder.path().join("new"), "clips");
        one(diff(&self.old, &new, options).unwrap())
    }
}

fn one(outcome: Outcome) -> FileDiff {
    assert!(outcome.errors.is_empty(), "{:?}", outcome.errors);
    assert_eq!(outcome.files.len(), 1);
    outcome.files.into_iter().next().unwrap()
}

/// The one clip that differs.
fn only_changed(file: &FileDiff) -> &ClipDiff {
    let mut changed = file.clips.iter().filter(|c| c.status != Status::Equal);
    let first = changed.next().expect("a clip that differs");
    assert!(changed.next().is_none(), "{file:?}");
    assert!(file.changes.is_empty(), "{:?}", file.changes);
    first
}

fn kinds(clip: &ClipDiff) -> Vec<&'static str> {
    clip.changes.iter().map(|c| c.kind).collect()
}

#[test]
fn a_copy_is_equal() {
    let case = Case::new();
    let found = case.with(&case.doc, &Options::default());
    assert!(found.is_equal(), "{found:?}");
    // Equal to the bit: nothing differs by anything.
    assert!(found.clips.iter().all(|c| c.largest_mm.is_none() && c.largest_deg.is_none()));
}

#[test]
fn a_rotation_by_a_tenth_of_a_degree_is_found_in_every_channel_and_key() {
    let case = Case::new();
    let turn = DQuat::from_axis_angle(DVec3::new(0.48, 0.6, 0.64), 0.1f64.to_radians());
    let mut tried = 0;
    for (a, c) in case.doc.channels() {
        let label = case.doc.label(a, c);
        let Some(joint) = label.strip_suffix(" rotation") else { continue };
        let mut probe = case.doc.clone();
        let mut keys = 0;
        probe.edit(a, c, "output", |v| keys = v.len() / 4);
        for key in [0, keys / 2, keys - 1] {
            let mut doc = case.doc.clone();
            doc.edit(a, c, "output", |v| {
                let q = &mut v[4 * key..4 * key + 4];
                let turned = DQuat::from_xyzw(q[0].into(), q[1].into(), q[2].into(), q[3].into()) * turn;
                q.copy_from_slice(&turned.as_quat().to_array());
            });
            let found = case.with(&doc, &Options::default());
            let clip = only_changed(&found);
            assert_eq!(clip.status, Status::Changed);
            assert_eq!(clip.joints.len(), 1, "{label}: {clip:?}");
            assert_eq!(clip.joints[0].joint, joint);
            let deg = clip.largest_deg.as_ref().unwrap();
            assert_eq!(deg.joint, joint);
            assert!((deg.value - 0.1).abs() < 1e-4, "{label}: {deg:?}");
            // 10 cm and a tenth of a degree: 0.1745 mm, for the joint itself; more where it is scaled.
            let own = clip.joints[0].own_mm;
            assert!((0.1744..0.1746).contains(&own) || joint == "Head" && own < 0.22, "{label}: {clip:?}");
            assert!(kinds(clip).is_empty(), "{clip:?}");
            // Bounds let it pass, or not.
            let bounded = |mm, deg| case.with(&doc, &Options::new(mm, deg, false)).is_equal();
            assert!(bounded(None, Some(0.11)) && !bounded(None, Some(0.09)));
            // At the end of the longest chain it is some millimetres.
            assert!(bounded(Some(5.0), None) && !bounded(Some(0.1), None));
            tried += 1;
        }
    }
    assert!(tried >= 30, "{tried}");
}

#[test]
fn a_time_by_one_tick_is_found_in_every_channel() {
    let case = Case::new();
    for (a, c) in case.doc.channels() {
        let label = case.doc.label(a, c);
        let mut probe = case.doc.clone();
        let mut times = Vec::new();
        probe.edit(a, c, "input", |v| times.clone_from(v));
        for key in 0..times.len() {
            // Where there is no room for a tick, key order would change.
            let room = times.get(key + 1).is_none_or(|next| times[key] + TICK_S < *next - 1e-4);
            if !room {
                continue;
            }
            let mut doc = case.doc.clone();
            doc.edit(a, c, "input", |v| v[key] += TICK_S);
            let found = case.with(&doc, &Options::default());
            let clip = only_changed(&found);
            let moved = clip.changes.iter().find(|c| c.kind == "key time moved").expect("named");
            assert_eq!(moved.of, std::slice::from_ref(&label));
            assert!(moved.text.contains(&format!("key {key} ")), "{}", moved.text);
            assert!(clip.joints.len() <= 1);
            if let Some(joint) = clip.joints.first() {
                assert!(label.starts_with(&joint.joint));
            }
        }
    }
}

#[test]
fn an_interpolation_is_found_in_every_channel_constant_ones_included() {
    let case = Case::new();
    let mut constant = 0;
    for (a, c) in case.doc.channels() {
        let label = case.doc.label(a, c);
        let mut doc = case.doc.clone();
        let sampler = doc.own_sampler(a, c);
        let sampler = &mut doc.json["animations"][a]["samplers"][sampler];
        let was = sampler["interpolation"].as_str().unwrap_or("LINEAR").to_owned();
        let is = if was == "STEP" { "LINEAR" } else { "STEP" };
        sampler["interpolation"] = json!(is);
        let found = case.with(&doc, &Options::default());
        let clip = only_changed(&found);
        let change = clip.changes.iter().find(|c| c.kind == "interpolation changed").expect("named");
        assert_eq!(change.of, std::slice::from_ref(&label));
        assert_eq!((change.old.as_ref(), change.new.as_ref()), (Some(&json!(was)), Some(&json!(is))));
        constant += usize::from(clip.joints.is_empty());
    }
    assert!(constant > 5, "constant channels are among them");
}

#[test]
fn a_name_is_found_for_every_joint_and_clip() {
    let case = Case::new();
    for i in 0..case.doc.count("/nodes") {
        let mut doc = case.doc.clone();
        let was = doc.json["nodes"][i]["name"].as_str().unwrap().to_owned();
        doc.json["nodes"][i]["name"] = json!("Another");
        let found = case.with(&doc, &Options::default());
        assert_eq!(found.changes.len(), 1, "{:?}", found.changes);
        assert_eq!(found.changes[0].text, format!("joint renamed: {was} -> Another"));
        assert!(found.clips.iter().all(|c| c.status == Status::Equal), "{found:?}");
        assert!(!found.is_equal());
    }
    for i in 0..case.doc.count("/animations") {
        let mut doc = case.doc.clone();
        doc.json["animations"][i]["name"] = json!("another");
        let found = case.with(&doc, &Options::default());
        let clip = only_changed(&found);
        assert_eq!((clip.status, clip.new_name.as_deref()), (Status::Renamed, Some("another")));
        assert!(clip.changes.is_empty());
        // Without ids: by content.
        doc.json["animations"][i]["extras"].as_object_mut().unwrap().remove("id");
        let found = case.with(&doc, &Options::default());
        let clip = only_changed(&found);
        assert_eq!((clip.status, clip.new_name.as_deref()), (Status::Renamed, Some("another")));
    }
}

/// Whether `node` is `below` or under it.
fn is_below(doc: &Doc, node: usize, below: usize) -> bool {
    let children = |i: usize| -> Vec<usize> {
        let list = doc.json["nodes"][i]["children"].as_array().cloned().unwrap_or_default();
        list.iter().map(|v| v.as_u64().unwrap() as usize).collect()
    };
    node == below || children(below).into_iter().any(|c| is_below(doc, node, c))
}

#[test]
fn a_parent_is_found_for_every_joint() {
    let case = Case::new();
    let n = case.doc.count("/nodes");
    let mut tried = 0;
    for i in 0..n {
        let is_child = |p: usize| {
            case.doc.json["nodes"][p]["children"].as_array().is_some_and(|c| c.contains(&json!(i)))
        };
        let Some(parent) = (0..n).find(|p| is_child(*p)) else { continue };
        for other in (0..n).filter(|o| *o != parent && !is_below(&case.doc, *o, i)) {
            let mut doc = case.doc.clone();
            let list = doc.json["nodes"][parent]["children"].as_array_mut().unwrap();
            list.retain(|c| *c != json!(i));
            if list.is_empty() {
                doc.json["nodes"][parent].as_object_mut().unwrap().remove("children");
            }
            match doc.json["nodes"][other].get_mut("children") {
                Some(list) => list.as_array_mut().unwrap().push(json!(i)),
                None => doc.json["nodes"][other]["children"] = json!([i]),
            }
            let found = case.with(&doc, &Options::default());
            let name = |k: usize| doc.json["nodes"][k]["name"].as_str().unwrap();
            let text = format!("joint reparented: {} from {} to {}", name(i), name(parent), name(other));
            assert_eq!(found.changes.iter().map(|c| &c.text).collect::<Vec<_>>(), [&text]);
            tried += 1;
        }
    }
    assert!(tried > 20);
}

#[test]
fn an_event_is_found_whatever_of_it_changes() {
    let case = Case::new();
    let mut tried = 0;
    for a in 0..case.doc.count("/animations") {
        for e in 0..case.doc.count(&format!("/animations/{a}/extras/events")) {
            type Edit = fn(&mut Value);
            let edits: [(&str, Edit); 5] = [
                ("event changed", |e| e["name"] = json!("another")),
                ("event changed", |e| e["start"] = json!(e["start"].as_f64().unwrap() + 1.0 / 60.0)),
                ("event changed", |e| e["end"] = json!(e["end"].as_f64().unwrap() + 1.0 / 60.0)),
                ("event changed", |e| e["attributes"] = json!({"foot": "none"})),
                ("event removed", |_| ()),
            ];
            for (kind, edit) in edits {
                let mut doc = case.doc.clone();
                let events = doc.json["animations"][a]["extras"]["events"].as_array_mut().unwrap();
                let name = events[e]["name"].as_str().unwrap().to_owned();
                if kind == "event removed" {
                    events.remove(e);
                } else {
                    edit(&mut events[e]);
                }
                let found = case.with(&doc, &Options::default());
                let clip = only_changed(&found);
                assert_eq!(kinds(clip), [kind], "{clip:?}");
                assert_eq!(clip.changes[0].of, [name]);
                tried += 1;
            }
            let mut doc = case.doc.clone();
            let events = doc.json["animations"][a]["extras"]["events"].as_array_mut().unwrap();
            events.push(json!({"name": "new", "start": 0.2, "end": 0.2}));
            assert_eq!(kinds(only_changed(&case.with(&doc, &Options::default()))), ["event added"]);
        }
    }
    assert_eq!(tried, 20);
}

#[test]
fn the_rest_is_found_too() {
    let case = Case::new();
    let kinds_of = |edit: &dyn Fn(&mut Doc)| -> Vec<&'static str> {
        let mut doc = case.doc.clone();
        edit(&mut doc);
        let found = case.with(&doc, &Options::default());
        assert!(!found.is_equal());
        let clips = found.clips.iter().flat_map(|c| c.changes.iter().map(|c| c.kind));
        let mut all: Vec<_> = found.changes.iter().map(|c| c.kind).chain(clips).collect();
        all.dedup();
        all
    };
    let extras = |edit: fn(&mut Value)| kinds_of(&|d| edit(&mut d.json["animations"][0]["extras"]));
    assert_eq!(extras(|e| e["flags"][1] = json!(3)), ["extras changed"]);
    assert_eq!(extras(|e| e["hash"] = json!(18_446_744_073_709_551_614u64)), ["extras changed"]);
    assert_eq!(extras(|e| e["tracks"][0]["values"][2] = json!(0.9)), ["extras changed"]);
    assert_eq!(extras(|e| e["length"] = json!(1.1)), ["length changed"]);
    let node = |edit: fn(&mut Value)| kinds_of(&|d| edit(&mut d.json["nodes"][3]));
    assert_eq!(node(|n| n["translation"][0] = json!(0.455)), ["rest changed"]);
    assert_eq!(node(|n| n["scale"] = json!([1.0, 1.0, 1.001])), ["rest changed"]);
    assert_eq!(node(|n| n["extras"] = json!({"a": 1})), ["extras changed"]);
    // A joint more, a clip less, a mesh.
    let added = kinds_of(&|d| {
        let n = d.count("/nodes");
        d.json["nodes"].as_array_mut().unwrap().push(json!({"name": "Tail"}));
        d.json["skins"][0]["joints"].as_array_mut().unwrap().pop();
        d.json["skins"][0]["joints"].as_array_mut().unwrap().push(json!(n));
    });
    assert!(added.contains(&"joint added"), "{added:?}");
    assert_eq!(kinds_of(&|d| d.json["meshes"] = json!([{"primitives": []}])), ["content changed"]);
    let mut doc = case.doc.clone();
    doc.json["animations"].as_array_mut().unwrap().remove(0);
    let found = case.with(&doc, &Options::default());
    let statuses: Vec<Status> = found.clips.iter().map(|c| c.status).collect();
    assert_eq!(statuses, [Status::Removed, Status::Equal]);
    // One clip keys at rest what the other moves: without that a viewer keeps the other's pose.
    let missing = kinds_of(&|d| {
        d.json["animations"][1]["channels"].as_array_mut().unwrap().pop();
    });
    assert_eq!(missing, ["channel removed"]);
}

/// JSON with the fields of every object backwards.
fn backwards(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let fields = map.iter().rev().map(|(k, v)| format!("\n {}: {}", json!(k), backwards(v)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
        }
        Value::Array(list) => format!("[{}]", list.iter().map(backwards).collect::<Vec<_>>().join(" ,")),
        other => other.to_string(),
    }
}

#[test]
fn names_of_accessors_order_of_json_and_layout_pass() {
    let case = Case::new();
    let strict = Options::new(None, None, true);

    let mut named = case.doc.clone();
    for list in ["accessors", "bufferViews"] {
        for (i, item) in named.json[list].as_array_mut().unwrap().iter_mut().enumerate() {
            item["name"] = json!(format!("{list} {i}"));
        }
    }
    assert!(case.with(&named, &Options::default()).is_equal());
    assert!(!case.with(&named, &strict).is_equal());

    let new = case.doc.save_text(&case.folder.path().join("new"), "clips", &backwards(&case.doc.json));
    assert!(one(diff(&case.old, &new, &Options::default()).unwrap()).is_equal());
    assert!(!one(diff(&case.old, &new, &strict).unwrap()).is_equal());

    // Every accessor in a view of its own, in the other order, with gaps; channels, samplers and nodes turned
    // around.
    let mut moved = case.doc.clone();
    moved.bin = vec![0xAA; 4];
    let n = case.doc.count("/accessors");
    moved.json["accessors"] = json!([]);
    moved.json["bufferViews"] = json!([]);
    for i in (0..n).rev() {
        let mut accessor = case.doc.json["accessors"][i].clone();
        moved.bin.extend([0xAA; 8]);
        let offset = moved.bin.len();
        let bytes: Vec<u8> = case.doc.floats(i).iter().flat_map(|v| v.to_le_bytes()).collect();
        moved.bin.extend(&bytes);
        accessor["bufferView"] = json!(n - 1 - i);
        accessor.as_object_mut().unwrap().remove("byteOffset");
        moved.json["accessors"].as_array_mut().unwrap().push(accessor);
        let view = json!({"buffer": 0, "byteOffset": offset, "byteLength": bytes.len()});
        moved.json["bufferViews"].as_array_mut().unwrap().push(view);
    }
    let flip = |v: &mut Value, n: usize| *v = json!(n - 1 - v.as_u64().unwrap() as usize);
    let binds = &mut moved.json["skins"][0]["inverseBindMatrices"];
    flip(binds, n);
    for animation in moved.json["animations"].as_array_mut().unwrap() {
        let samplers = animation["samplers"].as_array().unwrap().len();
        for sampler in animation["samplers"].as_array_mut().unwrap() {
            flip(&mut sampler["input"], n);
            flip(&mut sampler["output"], n);
        }
        animation["samplers"].as_array_mut().unwrap().reverse();
        for channel in animation["channels"].as_array_mut().unwrap() {
            flip(&mut channel["sampler"], samplers);
        }
        animation["channels"].as_array_mut().unwrap().reverse();
    }
    assert!(case.with(&moved, &Options::default()).is_equal());
    let nodes = moved.count("/nodes");
    for node in moved.json["nodes"].as_array_mut().unwrap() {
        if let Some(children) = node.get_mut("children") {
            children.as_array_mut().unwrap().iter_mut().for_each(|c| flip(c, nodes));
        }
    }
    moved.json["nodes"].as_array_mut().unwrap().reverse();
    moved.json["scenes"][0]["nodes"].as_array_mut().unwrap().iter_mut().for_each(|c| flip(c, nodes));
    moved.json["skins"][0]["joints"].as_array_mut().unwrap().iter_mut().for_each(|c| flip(c, nodes));
    for animation in moved.json["animations"].as_array_mut().unwrap() {
        for channel in animation["channels"].as_array_mut().unwrap() {
            flip(&mut channel["target"]["node"], nodes);
        }
    }
    let found = case.with(&moved, &Options::default());
    assert!(found.is_equal(), "{found:?}");
}

#[test]
fn more_keys_on_the_same_way_are_equal_unless_strict() {
    let case = Case::new();
    let (a, c) =
        *case.doc.channels().iter().find(|(a, c)| case.doc.label(*a, *c) == "Pelvis translation").unwrap();
    let mut doc = case.doc.clone();
    let (mut times, mut values) = (Vec::new(), Vec::new());
    doc.edit(a, c, "input", |v| {
        let mid = 0.5 * (v[3] + v[4]);
        v.insert(4, mid);
        times.clone_from(v);
    });
    doc.edit(a, c, "output", |v| {
        let f = f64::from(times[4] - times[3]) / f64::from(times[5] - times[3]);
        for axis in 0..3 {
            let (a, b) = (f64::from(v[9 + axis]), f64::from(v[12 + 2 * axis - axis]));
            values.push((a + (b - a) * f) as f32);
        }
        let at = 12;
        values.iter().rev().for_each(|x| v.insert(at, *x));
    });
    let found = case.with(&doc, &Options::default());
    assert!(found.is_equal(), "{found:?}");
    let strict = case.with(&doc, &Options::new(None, None, true));
    let clip = strict.clips.iter().find(|c| c.status == Status::Changed).unwrap();
    assert_eq!(kinds(clip), ["key count changed"]);
}

fn program(arguments: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_anim2gltf")).arg("diff").args(arguments).output().unwrap()
}

#[test]
fn the_command_names_it_in_one_line_and_its_exit_code_tells() {
    let case = Case::new();
    let new_folder = case.folder.path().join("new");
    let same = case.doc.save(&new_folder, "clips");
    let run = |more: &[&str]| {
        let mut arguments: Vec<&Path> = vec![&case.old, &same];
        arguments.extend(more.iter().map(Path::new));
        program(&arguments)
    };
    let out = run(&[]);
    assert_eq!(out.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&out.stdout).contains("= clips.gltf: walk: equal"));

    let mut doc = case.doc.clone();
    let c = case.doc.channels().into_iter().find(|(a, c)| doc.label(*a, *c) == "Arm rotation").unwrap();
    doc.edit(c.0, c.1, "output", |v| {
        let turned = DQuat::from_rotation_x(0.1f64.to_radians())
            * DQuat::from_xyzw(v[8].into(), v[9].into(), v[10].into(), v[11].into());
        v[8..12].copy_from_slice(&turned.as_quat().to_array());
    });
    doc.json["animations"][0]["extras"]["events"][0]["start"] = json!(0.1167);
    doc.save(&new_folder, "clips");
    let page = case.folder.path().join("page.html");
    let out = run(&["--html", page.to_str().unwrap()]);
    assert_eq!(out.status.code(), Some(1));
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let line = text.lines().find(|l| l.starts_with('~')).unwrap();
    for part in
        ["clips.gltf: walk: ", "0.1000 deg at Arm", "moves otherwise: Arm", "event changed: step start"]
    {
        assert!(line.contains(part), "{part}: {line}");
    }
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(
        html.contains("<svg") && html.contains("Arm: rotation") && !html.contains("http"),
        "a page of its own"
    );
    assert_eq!(html.matches("<svg").count(), html.matches("</svg>").count());

    let out = run(&["--json"]);
    let json: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!((&json["equal"], &json["exitCode"]), (&json!(false), &json!(1)));
    let clip = &json["files"][0]["clips"][0];
    assert_eq!((&clip["status"], &clip["joints"][0]["joint"]), (&json!("changed"), &json!("Arm")));
    assert_eq!(clip["changes"][0]["kind"], "event changed");

    std::fs::write(new_folder.join("clips.bin"), b"short").unwrap();
    assert_eq!(run(&[]).status.code(), Some(2));
    assert_eq!(program(&[&case.old, &new_folder]).status.code(), Some(2));
    assert_eq!(program(&[&case.old, Path::new("not there")]).status.code(), Some(2));
}

#[test]
fn folders_are_paired_by_path_then_by_what_they_hold() {
    let (rig, clips) = prepared(clips());
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    for side in [&old, &new] {
        std::fs::create_dir_all(side.join("a")).unwrap();
    }
    let glb = options(&Glb);
    let (walk, pose) = (&clips[..1], &clips[1..]);
    write(&old.join("a"), "walk", &rig, walk, &glb);
    write(&new.join("a"), "walk", &rig, walk, &glb);
    write(&old, "both", &rig, &clips, &glb);
    write(&new, "both", &rig, &clips, &options(&Gltf));
    write(&old, "pose", &rig, pose, &glb);
    write(&new.join("a"), "still", &rig, pose, &glb);
    let mut lone = clips[1].clone();
    lone.id.value = 0x3333;
    write(&new, "lone", &rig, std::slice::from_ref(&lone), &glb);
    let outcome = diff(&old, &new, &Options::default()).unwrap();
    assert!(outcome.errors.is_empty());
    let found: Vec<(&str, Status)> = outcome.files.iter().map(|f| (f.file.as_str(), f.status)).collect();
    assert_eq!(
        found,
        [
            ("a/still.glb", Status::Changed),
            ("a/walk.glb", Status::Equal),
            ("both.gltf", Status::Equal),
            ("lone.glb", Status::Added),
        ]
    );
    assert_eq!(outcome.files[0].changes[0].kind, "file renamed");
    assert_eq!(outcome.exit_code(), 1);
}

/// An FBX of each changed model against the FBX of the plain one.
#[test]
fn changes_are_found_in_fbx() {
    let folder = tempfile::tempdir().unwrap();
    let (rig, plain) = prepared(clips());
    let fbx = options(&Fbx);
    let old = write(folder.path(), "old", &rig, &plain, &fbx);
    let changed = |edit: &dyn Fn(&mut Vec<anim2gltf::model::Clip>)| {
        let mut clips = plain.clone();
        edit(&mut clips);
        let new = write(folder.path(), "new", &rig, &clips, &fbx);
        one(diff(&old, &new, &Options::default()).unwrap())
    };
    assert!(changed(&|_| ()).is_equal());
    for i in 0..plain[0].tracks.len() {
        let target = plain[0].tracks[i].target;
        if let Values::Quat(_) = &plain[0].tracks[i].curve.values {
            let found = changed(&|clips| {
                let Values::Quat(v) = &mut clips[0].tracks[i].curve.values else { return };
                let k = v.len() / 2;
                v[k] = (v[k].as_dquat() * DQuat::from_rotation_y(0.1f64.to_radians())).as_quat();
            });
            let clip = only_changed(&found);
            let name = rig.joints()[rig.find(target.joint).unwrap()].name.as_deref();
            assert_eq!(Some(clip.joints[0].joint.as_str()), name);
            assert!(clip.largest_deg.as_ref().unwrap().value > 0.099);
        }
    }
    let found = changed(&|clips| clips[0].events[1].start_s += 1.0 / 60.0);
    assert_eq!(kinds(only_changed(&found)), ["event changed"]);
    let found = changed(&|clips| clips[1].short_name = "another".to_owned());
    assert_eq!(only_changed(&found).status, Status::Renamed);
    // What steps instead of going straight.
    let found = changed(&|clips| clips[0].tracks[2].curve.interpolation = Interpolation::Step);
    assert_eq!(only_changed(&found).joints[0].joint, "Pelvis");

    let mut joints = rig.joints().to_vec();
    let arm = joints.iter().position(|j| j.name.as_deref() == Some("Arm")).unwrap();
    joints[arm].name = Some("Wing".to_owned());
    let foot = joints.iter().position(|j| j.name.as_deref() == Some("Foot")).unwrap();
    joints[foot].parent = rig.find(JointId::BoneTag(0));
    let other = anim2gltf::model::Skeleton::new("body", joints).unwrap();
    let new = write(folder.path(), "new", &other, &plain, &fbx);
    let found = one(diff(&old, &new, &Options::default()).unwrap());
    let mut texts: Vec<&str> = found.changes.iter().map(|c| c.text.as_str()).collect();
    texts.sort_unstable();
    assert_eq!(texts, ["joint renamed: Arm -> Wing", "joint reparented: Foot from Leg to Pelvis"]);
}

/// The flags and times of every FBX curve, one after the other, by its bytes.
#[test]
fn interpolation_and_times_of_every_fbx_curve_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let (rig, plain) = prepared(clips());
    let mut fbx = options(&Fbx);
    fbx.write.compress = false;
    let old = write(folder.path(), "old", &rig, &plain, &fbx);
    let bytes = std::fs::read(&old).unwrap();
    let new = folder.path().join("new.fbx");
    let places = |name: &[u8]| -> Vec<usize> {
        (0..bytes.len() - name.len())
            .filter(|i| bytes[*i..].starts_with(name))
            .map(|i| i + name.len())
            .collect()
    };
    let compare = |edited: &[u8]| {
        std::fs::write(&new, edited).unwrap();
        one(diff(&old, &new, &Options::default()).unwrap())
    };
    // The array behind the name: letter, count, encoding, bytes, values.
    let flags = places(b"KeyAttrFlags");
    assert!(flags.len() > 40);
    for at in flags {
        let mut edited = bytes.clone();
        edited[at + 13..at + 17].copy_from_slice(&2i32.to_le_bytes());
        let found = compare(&edited);
        let kinds = kinds(only_changed(&found));
        assert!(kinds == ["interpolation changed"] || kinds == ["numbers changed"], "{kinds:?}");
    }
    for at in places(b"KeyTime") {
        let count = u32::from_le_bytes(bytes[at + 1..at + 5].try_into().unwrap()) as usize;
        let key = at + 13 + 8 * (count / 2);
        let ticks = i64::from_le_bytes(bytes[key..key + 8].try_into().unwrap());
        let mut edited = bytes.clone();
        // A few milliseconds, so that it stays before the next.
        edited[key..key + 8].copy_from_slice(&(ticks + 46_186_158 / 4).to_le_bytes());
        let found = compare(&edited);
        let kinds = kinds(only_changed(&found));
        assert!(kinds.contains(&"key time moved") || kinds == ["numbers changed"], "{kinds:?}");
    }
}
