//! Skeleton files of RAGE and of other tools against right values, and damaged.

use std::fmt::Write;

use std::path::Path;

use anim2gltf::games::anvil::RIDERS_REPUBLIC;
use anim2gltf::games::rage::GTA_V;
use anim2gltf::games::rage::names as rage;
use anim2gltf::model::{JointId, Skeleton, SkeletonFile};
use anim2gltf::source::{Game, skeletons};
use glam::{DQuat, Quat, Vec3};
use serde_json::{Value, json};

/// A bone as the right values give it: name, tag, parent, translation, rotation.
struct Bone {
    name: String,
    tag: u16,
    parent: i64,
    translation: Vec3,
    rotation: Quat,
}

/// The bones of the ped table as right values, for tests that run alone.
fn table_bones() -> Vec<Bone> {
    let ped = rage::ped_skeleton(&|_| false).unwrap();
    let bones = ped.joints().iter().map(|j| Bone {
        name: j.name.clone().unwrap(),
        tag: rage::ped_bone_by_name(j.name.as_deref().unwrap()).unwrap().tag,
        parent: j.parent.map_or(-1, |p| p as i64),
        translation: j.rest.translation,
        rotation: j.rest.rotation,
    });
    bones.collect()
}

fn fixture_bones() -> Option<(std::path::PathBuf, Vec<Bone>)> {
    let folder = anim2gltf_testkit::shared()?.join("fixtures/ycd");
    let list: Vec<Value> = serde_json::from_slice(&std::fs::read(folder.join("ped.json")).unwrap()).unwrap();
    let numbers = |v: &Value| -> Vec<f32> {
        v.as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect()
    };
    let bones = list.iter().map(|b| Bone {
        name: b["name"].as_str().unwrap().to_owned(),
        tag: b["tag"].as_u64().unwrap() as u16,
        parent: b["parent"].as_i64().unwrap(),
        translation: Vec3::from_slice(&numbers(&b["translation"])),
        rotation: Quat::from_slice(&numbers(&b["rotation"])),
    });
    Some((folder, bones.collect()))
}

fn check(skeleton: &Skeleton, bones: &[Bone], tolerance: f32) {
    assert_eq!(skeleton.joints().len(), bones.len());
    for bone in bones {
        let i =
            skeleton.find(JointId::BoneTag(bone.tag)).unwrap_or_else(|| panic!("{} is missing", bone.name));
        let joint = &skeleton.joints()[i];
        assert_eq!(joint.name.as_deref(), Some(bone.name.as_str()));
        let parent = joint.parent.map(|p| skeleton.joints()[p].name.clone().unwrap());
        let right = (bone.parent >= 0).then(|| bones[bone.parent as usize].name.clone());
        assert_eq!(parent, right, "{}", bone.name);
        let d = joint.rest.translation - bone.translation;
        assert!(
            d.abs().max_element() <= tolerance,
            "{}: {} {}",
            bone.name,
            joint.rest.translation,
            bone.translation
        );
        let d = 1.0 - joint.rest.rotation.as_dquat().dot(bone.rotation.as_dquat()).abs();
        assert!(d < 1e-6, "{}: {} {}", bone.name, joint.rest.rotation, bone.rotation);
        assert!((joint.rest.scale - Vec3::ONE).abs().max_element() < 1e-5);
    }
}

/// Reads a file that points at nothing beside it.
fn read_as(bytes: &[u8], name: &str, game: &dyn Game) -> anim2gltf::Result<SkeletonFile> {
    let nothing = || anim2gltf::Error::unsupported("no kind that the game knows").at(0);
    let read = skeletons::read_as(game, Path::new(name), bytes, &mut |uri, _| {
        Err(anim2gltf::Error::unsupported(format!("nothing is at {uri}")))
    });
    let mut files = read.unwrap_or_else(|| Err(nothing()))?;
    assert_eq!(files.len(), 1);
    Ok(files.remove(0))
}

fn read(bytes: &[u8]) -> SkeletonFile {
    read_as(bytes, "test", &GTA_V).unwrap()
}

/// Cut short at many lengths and with bits flipped: an error or a skeleton, no panic.
fn damage(bytes: &[u8], step: usize) {
    for n in (0..bytes.len()).step_by(step) {
        let _ = read_as(&bytes[..n], "cut", &GTA_V);
    }
    let mut damaged = bytes.to_vec();
    for i in (0..bytes.len()).step_by(step) {
        for bit in 0..8 {
            damaged[i] ^= 1 << bit;
            let _ = read_as(&damaged, "flipped", &GTA_V);
            damaged[i] ^= 1 << bit;
        }
    }
}

#[test]
fn fixture_containers_of_both_editions() {
    let Some((folder, bones)) = fixture_bones() else { return };
    for file in ["ped.ydr", "ped.ydd", "ped.yft"] {
        let bytes = std::fs::read(folder.join(file)).unwrap();
        let found = read(&bytes);
        check(&found.skeleton, &bones, 0.0);
        damage(&bytes, 1);
        // Flips of the unpacked resource reach the reader itself; headerless, so also the guessing of its kind.
        let mut scratch = Vec::new();
        let system =
            anim2gltf::games::rage::container::rsc7::open(&bytes, &mut scratch).unwrap().system.to_vec();
        let mut plain = system.clone();
        plain[4..16].copy_from_slice(&[1, 0, 0, 0, 0x40, 0, 0, 0x50, 0, 0, 0, 0]);
        check(&read(&plain).skeleton, &bones, 0.0);
        damage(&plain, 3);
    }
}

#[test]
fn clip_dictionaries_and_empty_drawables_are_refused_by_name() {
    let Some(shared) = anim2gltf_testkit::shared() else { return };
    let bytes = std::fs::read(shared.join("corpus/ycd/custom@gangnamstyle.ycd")).unwrap();
    let e = read_as(&bytes, "x", &GTA_V).unwrap_err();
    assert!(e.to_string().contains("clip dictionary"), "{e}");
}

fn xml(bones: &[Bone], open: &str, close: &str) -> String {
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{open}<Skeleton>\n<Unknown1C value=\"16777216\" />\n<Bones>\n"
    );
    for (i, b) in bones.iter().enumerate() {
        let (t, r) = (b.translation, b.rotation);
        write!(
            out,
            "<Item>\n<Name>{}</Name>\n<Tag value=\"{}\" />\n<Index value=\"{i}\" />\n<ParentIndex value=\"{}\" />\n\
             <SiblingIndex value=\"-1\" />\n<Flags>RotX, RotY, RotZ</Flags>\n\
             <Translation x=\"{}\" y=\"{}\" z=\"{}\" />\n<Rotation x=\"{}\" y=\"{}\" z=\"{}\" w=\"{}\" />\n\
             <Scale x=\"1\" y=\"1\" z=\"1\" />\n<TransformUnk x=\"0\" y=\"4\" z=\"-3\" w=\"0\" />\n</Item>\n",
            b.name, b.tag, b.parent, t.x, t.y, t.z, r.x, r.y, r.z, r.w
        )
        .unwrap();
    }
    out + "</Bones>\n</Skeleton>\n" + close
}

#[test]
fn codewalker_xml_forms() {
    let bones = fixture_bones().map_or_else(table_bones, |(_, bones)| bones);
    for (open, close) in [
        ("<Drawable>\n<Name>x</Name>", "</Drawable>"),
        ("<DrawableDictionary><Item><Name>none</Name></Item><Item>", "</Item></DrawableDictionary>"),
        ("<Fragment><Name>x</Name><Drawable>", "</Drawable></Fragment>"),
    ] {
        let text = xml(&bones, open, close);
        check(&read(text.as_bytes()).skeleton, &bones, 0.0);
        damage(text.as_bytes(), 13);
    }
    let e = read_as(b"<Fragment><Drawable/></Fragment>", "x", &GTA_V).unwrap_err();
    assert!(e.to_string().contains("no skeleton"), "{e}");
    assert!(read_as(b"<ClipDictionary/>", "x", &GTA_V).is_err());
}

/// (x, y, z) -> (x, z, -y), as a Y-up file holds it.
fn y_up(b: &Bone) -> ([f32; 3], [f32; 4]) {
    let (t, r) = (b.translation, b.rotation);
    ([t.x, t.z, -t.y], [r.x, r.z, -r.y, r.w])
}

fn gltf(nodes: Vec<Value>, joints: Vec<usize>, generator: &str) -> Value {
    json!({ "asset": { "version": "2.0", "generator": generator }, "nodes": nodes, "skins": [{ "joints": joints }] })
}

fn children(bones: &[Bone], i: usize) -> Vec<usize> {
    (0..bones.len()).filter(|c| bones[*c].parent == i as i64).collect()
}

fn nodes(bones: &[Bone], transform: impl Fn(&Bone) -> ([f32; 3], [f32; 4])) -> Vec<Value> {
    (0..bones.len())
        .map(|i| {
            let (t, r) = transform(&bones[i]);
            let mut node = json!({ "name": bones[i].name, "translation": t, "rotation": r });
            let children = children(bones, i);
            if !children.is_empty() {
                node["children"] = json!(children);
            }
            node
        })
        .collect()
}

#[test]
fn gltf_with_every_joint_turned() {
    let bones = fixture_bones().map_or_else(table_bones, |(_, bones)| bones);
    let all: Vec<usize> = (0..bones.len()).collect();
    let document = gltf(nodes(&bones, y_up), all, "anim2gltf 0.1.0").to_string();
    check(&read(document.as_bytes()).skeleton, &bones, 0.0);
    damage(document.as_bytes(), 7);

    // The same in a .glb.
    let mut text = document.into_bytes();
    text.resize(text.len().next_multiple_of(4), b' ');
    let mut glb = b"glTF".to_vec();
    for word in [2, 20 + text.len() as u32, text.len() as u32] {
        glb.extend(word.to_le_bytes());
    }
    glb.extend(b"JSON");
    glb.extend(text);
    check(&read(&glb).skeleton, &bones, 0.0);
    damage(&glb, 11);
}

/// Other tools keep the axes of the joints and turn the top, or a node above; the ped's rest pose tells.
#[test]
fn gltf_with_the_top_turned() {
    let bones = table_bones();
    let n = bones.len();
    let half = std::f64::consts::FRAC_1_SQRT_2;
    let down = DQuat::from_xyzw(-half, 0.0, 0.0, half);
    let verbatim = |b: &Bone| (b.translation.to_array(), b.rotation.to_array());
    let top_turned = |b: &Bone| match b.parent {
        -1 => {
            let t = (down * b.translation.as_dvec3()).as_vec3();
            (t.to_array(), (down * b.rotation.as_dquat()).as_quat().to_array())
        }
        _ => verbatim(b),
    };
    let document = gltf(nodes(&bones, top_turned), (0..n).collect(), "some exporter");
    let found = read(document.to_string().as_bytes());
    check(&found.skeleton, &bones, 1e-6);
    assert!(found.notes.iter().any(|n| n.contains("top joints")), "{:?}", found.notes);

    // A node above in centimetres, with a node between that is no joint, and a mesh that is none either.
    let in_cm = |b: &Bone| ((b.translation * 100.0).to_array(), b.rotation.to_array());
    let mut list = nodes(&bones, in_cm);
    list.push(json!({ "name": "Armature", "children": [n + 1], "scale": [0.01, 0.01, 0.01] }));
    list.push(json!({ "name": "turn", "children": [0], "matrix": [1,0,0,0, 0,0,-1,0, 0,1,0,0, 0,0,0,1] }));
    list.push(json!({ "name": "mesh", "mesh": 0 }));
    let document = gltf(list, (0..n).collect(), "other");
    check(&read(document.to_string().as_bytes()).skeleton, &bones, 1e-6);
}

#[test]
fn gltf_names_to_ids() {
    let list = vec![
        json!({ "name": "chassis", "children": [1, 2] }),
        json!({ "name": "wheel_lf" }),
        json!({ "name": "tag_54" }),
    ];
    let document = gltf(list, vec![0, 1, 2], "").to_string();
    let found = read(document.as_bytes());
    let ids: Vec<JointId> = found.skeleton.joints().iter().map(|j| j.id).collect();
    assert_eq!(ids, [0, 27922, 54].map(JointId::BoneTag));

    let list = vec![json!({ "name": "Hips", "children": [1] }), json!({ "name": "bone_0000ABCD" })];
    let document = gltf(list, vec![0, 1], "").to_string();
    let found = read_as(document.as_bytes(), "a", &RIDERS_REPUBLIC).unwrap();
    let ids: Vec<JointId> = found.skeleton.joints().iter().map(|j| j.id).collect();
    assert_eq!(ids, [JointId::Crc32(crc32fast::hash(b"Hips")), JointId::Crc32(0xABCD)]);

    for bad in [
        r#"{"nodes":[{"children":[0]}],"skins":[{"joints":[0]}]}"#,
        r#"{"nodes":[{"children":[1]},{"children":[0]}],"skins":[{"joints":[0]}]}"#,
        r#"{"nodes":[{"children":[5]}]}"#,
        r#"{"nodes":[{}],"skins":[{"joints":[7]}]}"#,
        r#"{"nodes":[{"rotation":[0,0,0,0]}],"skins":[{"joints":[0]}]}"#,
        r#"{"nodes":[]}"#,
        "{",
    ] {
        assert!(read_as(bad.as_bytes(), "x", &GTA_V).is_err(), "{bad}");
    }
}

/// A binary FBX record of version 7400.
fn record(at: usize, name: &str, properties: &[Vec<u8>], below: &[(&str, Vec<Vec<u8>>, Below)]) -> Vec<u8> {
    let list = properties.concat();
    let mut out = vec![0; 12];
    out.push(name.len() as u8);
    out.extend(name.bytes());
    out.extend(&list);
    for (name, properties, Below(below)) in below {
        let inner = record(at + out.len(), name, properties, below);
        out.extend(inner);
    }
    if !below.is_empty() {
        out.extend([0; 13]);
    }
    let words = [(at + out.len()) as u32, properties.len() as u32, list.len() as u32];
    for (slot, word) in out.chunks_exact_mut(4).zip(words) {
        slot.copy_from_slice(&word.to_le_bytes());
    }
    out
}

struct Below(Vec<(&'static str, Vec<Vec<u8>>, Below)>);

fn text(s: &[u8]) -> Vec<u8> {
    [b"S", &(s.len() as u32).to_le_bytes()[..], s].concat()
}

fn long(v: i64) -> Vec<u8> {
    [b"L", &v.to_le_bytes()[..]].concat()
}

fn setting(name: &str, values: &[f64]) -> (&'static str, Vec<Vec<u8>>, Below) {
    let mut list: Vec<Vec<u8>> = [name, "", "", "A"].iter().map(|s| text(s.as_bytes())).collect();
    list.extend(values.iter().map(|v| [b"D", &v.to_le_bytes()[..]].concat()));
    ("P", list, Below(Vec::new()))
}

/// Two limbs below a turned null of scale 100, in centimetres, as Blender writes them.
#[test]
fn fbx_of_another_tool() {
    let model = |id, name: &str, kind: &str, settings| {
        let properties = vec![long(id), text(format!("{name}\0\x01Model").as_bytes()), text(kind.as_bytes())];
        ("Model", properties, Below(vec![("Properties70", Vec::new(), Below(settings))]))
    };
    let link = |a, b| ("C", vec![text(b"OO"), long(a), long(b)], Below(Vec::new()));
    let globals = vec![setting("UpAxis", &[1.0]), setting("UnitScaleFactor", &[1.0])];
    let objects = vec![
        model(
            1,
            "Armature",
            "Null",
            vec![setting("Lcl Rotation", &[-90.0, 0.0, 0.0]), setting("Lcl Scaling", &[100.0; 3])],
        ),
        model(2, "SKEL_ROOT", "LimbNode", vec![setting("Lcl Translation", &[0.0, 0.0, 1.0])]),
        model(
            3,
            "SKEL_Pelvis",
            "LimbNode",
            vec![setting("Lcl Translation", &[0.5, 0.25, 0.0]), setting("Lcl Rotation", &[90.0, 0.0, 90.0])],
        ),
    ];
    let links = vec![link(3, 2), link(2, 1), link(1, 0)];
    let mut file = b"Kaydara FBX Binary  \0\x1a\0".to_vec();
    file.extend(7400_u32.to_le_bytes());
    for (name, below) in [
        ("GlobalSettings", vec![("Properties70", Vec::new(), Below(globals))]),
        ("Objects", objects),
        ("Connections", links),
    ] {
        let r = record(file.len(), name, &[], &below);
        file.extend(r);
    }
    file.extend([0; 13]);
    let found = read(&file);
    // X by 90 degrees, then Z by 90: (1, 1, 1, 1) / 2.
    let bones = [
        Bone { name: "SKEL_ROOT".into(), tag: 0, parent: -1, translation: Vec3::Z, rotation: Quat::IDENTITY },
        Bone {
            name: "SKEL_Pelvis".into(),
            tag: 11816,
            parent: 0,
            translation: Vec3::new(0.5, 0.25, 0.0),
            rotation: Quat::from_xyzw(0.5, 0.5, 0.5, 0.5),
        },
    ];
    check(&found.skeleton, &bones, 1e-6);
    damage(&file, 1);
}

/// What this project writes comes back as the skeleton that it was written with, to the bit.
#[test]
fn our_own_glb_is_a_skeleton() {
    let Some(shared) = anim2gltf_testkit::shared() else { return };
    let out = tempfile::tempdir().unwrap();
    let input = shared.join("corpus/ycd/custom@gangnamstyle.ycd");
    let arguments: [std::ffi::OsString; 5] =
        ["anim2gltf".into(), input.into(), "-o".into(), out.path().into(), "-q".into()];
    let _ = anim2gltf::cli::run(arguments);
    let found = read(&std::fs::read(out.path().join("custom@gangnamstyle.glb")).unwrap());
    let ped = rage::ped_skeleton(&|_| false).unwrap();
    let mut compared = 0;
    for joint in found.skeleton.joints() {
        let Some(i) = ped.find(joint.id) else { continue };
        assert_eq!(joint.rest, ped.joints()[i].rest, "{:?}", joint.name);
        assert_eq!(joint.name, ped.joints()[i].name);
        compared += 1;
    }
    assert!(compared > 100, "{compared}");
    damage(&std::fs::read(out.path().join("custom@gangnamstyle.glb")).unwrap(), 4999);
}

/// Where each joint stands in model space, metres.
fn positions(skeleton: &Skeleton) -> Vec<(String, glam::DVec3)> {
    let mut model: Vec<glam::DMat4> = Vec::new();
    let mut out = Vec::new();
    for joint in skeleton.joints() {
        let above = joint.parent.map_or(glam::DMat4::IDENTITY, |p| model[p]);
        model.push(above * joint.rest.matrix());
        out.push((joint.name.clone().unwrap(), model[model.len() - 1].w_axis.truncate()));
    }
    out
}

/// The public report "posed_rig": Blender saves the nodes in the pose of the active action; the rest stands in
/// the inverse bind matrices (glTF), or in the bind pose and the clusters (FBX).
#[test]
fn report_posed_rig() {
    let Some(shared) = anim2gltf_testkit::shared() else { return };
    let folder = shared.join("fixtures/reports/posed_rig");
    let Ok(text) = std::fs::read(folder.join("rest.json")) else { return };
    let right: std::collections::BTreeMap<String, [f64; 3]> = serde_json::from_slice(&text).unwrap();
    for name in ["posed.glb", "posed.fbx"] {
        let found = read(&std::fs::read(folder.join(name)).unwrap());
        assert!(found.notes.iter().any(|n| n.contains("bind pose")), "{name}: {:?}", found.notes);
        let mut count = 0;
        for (joint, at) in positions(&found.skeleton) {
            let Some(right) = right.get(&joint) else { continue };
            let apart = at.distance(glam::DVec3::from_array(*right));
            assert!(apart < 2e-5, "{name}: {joint} is {apart} m off");
            count += 1;
        }
        assert_eq!(count, right.len(), "{name}");
    }
}

/// A .gltf of nodes (name, parent, node matrix) and skins (joints with the matrix they were bound at, in the space
/// of the skin), with its binary inside.
fn skinned(
    nodes: &[(&str, Option<usize>, glam::DMat4)],
    skins: &[&[(usize, glam::DMat4)]],
    animated: bool,
) -> Vec<u8> {
    let mut list: Vec<Value> = nodes
        .iter()
        .enumerate()
        .map(|(i, (name, _, matrix))| {
            let children: Vec<usize> = (0..nodes.len()).filter(|c| nodes[*c].1 == Some(i)).collect();
            let mut node = json!({ "name": name, "matrix": matrix.to_cols_array() });
            if !children.is_empty() {
                node["children"] = json!(children);
            }
            node
        })
        .collect();
    let (mut bytes, mut views, mut accessors, mut skin_list) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (s, skin) in skins.iter().enumerate() {
        let joints: Vec<usize> = skin.iter().map(|j| j.0).collect();
        views.push(json!({ "buffer": 0, "byteOffset": bytes.len(), "byteLength": 64 * skin.len() }));
        accessors
            .push(json!({ "bufferView": s, "componentType": 5126, "count": skin.len(), "type": "MAT4" }));
        skin_list.push(json!({ "joints": joints, "inverseBindMatrices": s }));
        for (_, bind) in *skin {
            bytes.extend(bind.inverse().as_mat4().to_cols_array().into_iter().flat_map(f32::to_le_bytes));
        }
        if let Some(i) = nodes.iter().position(|n| n.0 == format!("mesh{s}")) {
            list[i]["mesh"] = json!(0);
            list[i]["skin"] = json!(s);
        }
    }
    let uri = format!("data:;base64,{}", base64(&bytes));
    let mut document = json!({
        "asset": { "version": "2.0", "generator": "anim2gltf" },
        "nodes": list, "skins": skin_list, "bufferViews": views, "accessors": accessors,
        "buffers": [{ "byteLength": bytes.len(), "uri": uri }],
    });
    if animated {
        let channel = json!({ "sampler": 0, "target": { "node": 0, "path": "translation" } });
        document["animations"] =
            json!([{ "samplers": [{ "input": 90, "output": 91 }], "channels": [channel] }]);
    }
    document.to_string().into_bytes()
}

fn base64(bytes: &[u8]) -> String {
    let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0_u32, |w, b| w << 8 | u32::from(*b)) << (8 * (3 - chunk.len()));
        (0..=chunk.len()).for_each(|k| out.push(digits[(word >> (18 - 6 * k) & 63) as usize] as char));
    }
    out
}

/// The kinds of bind poses that the report "posed_rig" does not have. Rest positions in the file's axes, Y up.
#[test]
fn posed_rig_in_other_forms() {
    use glam::{DMat4, DVec3};
    let at = |x, y, z| DMat4::from_translation(DVec3::new(x, y, z));
    let bent = |m: DMat4| m * DMat4::from_rotation_z(0.7);
    let check = |file: &[u8], right: &[(&str, DVec3)], note: Option<&str>| {
        let found = read(file);
        let at = positions(&found.skeleton);
        for (name, right) in right {
            let (_, at) = at.iter().find(|(n, _)| n == name).unwrap();
            let right = DVec3::new(right.x, -right.z, right.y);
            assert!(at.distance(right) < 1e-5, "{name}: {at} for {right}, {:?}", found.notes);
        }
        let said: Vec<&String> = found.notes.iter().filter(|n| n.contains("bind pose")).collect();
        match note {
            Some(note) => assert!(said.iter().any(|n| n.contains(note)), "{said:?}"),
            None => assert!(said.is_empty(), "{said:?}"),
        }
    };
    let rest = [
        ("a", DVec3::new(0.0, 1.0, 0.0)),
        ("b", DVec3::new(0.0, 1.5, 0.0)),
        ("c", DVec3::new(0.25, 1.5, 0.0)),
    ];
    let bind = rest.map(|(_, p)| DMat4::from_translation(p));
    let (a, b, c) = (at(0.0, 1.0, 0.0), at(0.0, 0.5, 0.0), at(0.25, 0.0, 0.0));
    let whole = [(0, bind[0]), (1, bind[1]), (2, bind[2])];

    // At rest: nothing to say. Posed, the root moved as well.
    let nodes = [("a", None, a), ("b", Some(0), b), ("c", Some(1), c)];
    check(&skinned(&nodes, &[&whole], true), &rest, None);
    let posed = [("a", None, bent(at(3.0, 1.0, 2.0))), ("b", Some(0), bent(b)), ("c", Some(1), bent(c))];
    check(&skinned(&posed, &[&whole], true), &rest, Some("3 of 3 joints"));

    // Two skins that share a joint, the second with a space of its own, where its mesh stands.
    let mesh = at(5.0, 0.0, 0.0);
    let second = [(1, mesh.inverse() * bind[1]), (2, mesh.inverse() * bind[2])];
    let nodes = [("a", None, a), ("b", Some(0), bent(b)), ("c", Some(1), bent(c)), ("mesh1", None, mesh)];
    check(&skinned(&nodes, &[&whole[..2], &second], true), &rest, Some("2 of 3 joints"));

    // Skins that share nothing: the space of the second is that of its mesh, where its joint is at rest.
    let nodes = [("a", None, a), ("b", Some(0), b), ("c", Some(1), c), ("mesh1", None, mesh)];
    check(&skinned(&nodes, &[&whole[..2], &second[1..]], true), &rest, None);
    let nodes = [("a", None, bent(a)), ("b", Some(0), b), ("c", Some(1), c)];
    check(&skinned(&nodes, &[&whole[..2], &whole[2..]], true), &rest, Some("1 of 3 joints"));

    // Bound in the space of a scaled node above.
    let above = DMat4::from_scale(DVec3::splat(0.01));
    let big = |m: DMat4| DMat4::from_translation(m.w_axis.truncate() * 100.0);
    let binds = [(0, big(bind[0])), (1, big(bind[1])), (2, big(bind[2]))];
    let nodes = [
        ("a", Some(3), big(a)),
        ("b", Some(0), bent(big(b))),
        ("c", Some(1), bent(big(c))),
        ("cm", None, above),
    ];
    check(&skinned(&nodes, &[&binds], true), &rest, Some("2 of 3 joints"));

    // A joint whose matrix says nothing stands below its parent as its node does.
    let nodes = [("a", None, bent(a)), ("b", Some(0), bent(b)), ("c", Some(1), c)];
    let singular = [(0, bind[0]), (1, bind[1]), (2, DMat4::from_scale(DVec3::splat(1e60)))];
    check(&skinned(&nodes, &[&singular], true), &rest, Some("no bind pose of 1 of 3"));
    check(&skinned(&nodes, &[&singular], false), &rest, Some("2 of 3"));

    // Stretched along one axis at rest, and bent in the file.
    let wide = DMat4::from_scale(DVec3::new(2.0, 1.0, 1.0));
    let binds = [(0, a * wide), (1, a * wide * b), (2, a * wide * b * c)];
    let nodes = [("a", None, bent(a)), ("b", Some(0), bent(b)), ("c", Some(1), c)];
    let right = [rest[0], rest[1], ("c", DVec3::new(0.5, 1.5, 0.0))];
    check(&skinned(&nodes, &[&binds], true), &right, Some("2 of 3 joints"));

    // Without matrices: the nodes, with a word where the file is animated.
    let mut file: Value = serde_json::from_slice(&skinned(&nodes, &[&whole], true)).unwrap();
    file["skins"][0].as_object_mut().unwrap().remove("inverseBindMatrices");
    let found = read(file.to_string().as_bytes());
    assert!(found.notes.iter().any(|n| n.contains("no bind pose of 3 of 3")), "{:?}", found.notes);
    file.as_object_mut().unwrap().remove("animations");
    let found = read(file.to_string().as_bytes());
    assert!(!found.notes.iter().any(|n| n.contains("bind pose")), "{:?}", found.notes);
    // Matrices that are not there: said, and the nodes taken.
    let mut file: Value = serde_json::from_slice(&skinned(&nodes, &[&whole], false)).unwrap();
    file["buffers"][0]["uri"] = json!("lost.bin");
    let found = read(file.to_string().as_bytes());
    assert!(found.notes.iter().any(|n| n.contains("lost.bin")), "{:?}", found.notes);
    damage(&skinned(&posed, &[&whole], true), 5);
}
