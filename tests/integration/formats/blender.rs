//! Blender imports the GLBs: one armature, the right bones, an action a clip, and head, hands and feet where the
//! library's own forward kinematics puts them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anim2gltf::convert::prepare::prepare;
use anim2gltf::convert::settings::Passes;
use anim2gltf::games::GAMES;
use anim2gltf::games::rage::container::rsc7;
use anim2gltf::games::rage::ycd;
use anim2gltf::model::naming::JointNames;
use anim2gltf::model::{Clip, Property, Sampler, Skeleton, Trs};
use anim2gltf::source::Names;
use glam::DVec3;
use serde_json::{Value, json};

/// What the issue allows: 0.1 mm.
const TOLERANCE_M: f64 = 1e-4;
const BONES: [&str; 5] = ["SKEL_Head", "SKEL_L_Hand", "SKEL_R_Hand", "SKEL_L_Foot", "SKEL_R_Foot"];

/// Where the named joints stand at `t`, in source space.
fn places(rig: &Skeleton, clip: &Clip, t: f64) -> Vec<(String, DVec3)> {
    let mut pose: Vec<Trs> = rig.joints().iter().map(|j| j.rest).collect();
    for track in &clip.tracks {
        let Some(joint) = rig.find(track.target.joint) else { continue };
        let mut sampler = Sampler::new(clip.timeline(track), &track.curve);
        match track.target.property {
            Property::Translation => pose[joint].translation = sampler.vec3(t).as_vec3(),
            Property::Rotation => pose[joint].rotation = sampler.quat(t).as_quat(),
            Property::Scale => pose[joint].scale = sampler.vec3(t).as_vec3(),
            _ => {}
        }
    }
    rig.joints()
        .iter()
        .zip(rig.model_matrices(&pose))
        .map(|(joint, m)| (joint.name.clone().expect("named"), m.w_axis.truncate()))
        .collect()
}

struct Case {
    file: PathBuf,
    rig: Skeleton,
    clips: Vec<Clip>,
    /// Names of the animations, in the clips' order.
    names: Vec<String>,
}

fn case(input: &Path, out: &Path) -> Case {
    let run = Command::new(env!("CARGO_BIN_EXE_anim2gltf"))
        .arg(input)
        .arg("-o")
        .arg(out)
        .arg("-q")
        .output()
        .expect("the program runs");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let bytes = std::fs::read(input).expect("input");
    let mut scratch = Vec::new();
    let resource = rsc7::open(&bytes, &mut scratch).expect("a resource");
    let mut clips = ycd::read(&resource, "x").expect("clips").clips;
    let skeleton = ycd::default_skeleton(&clips).expect("a skeleton");
    let names = Names::new(GAMES);
    assert!(names.joint_name(anim2gltf::model::JointId::BoneTag(31086)).is_some());
    let rig = prepare(&mut clips, &skeleton, &names, &Passes::default(), None).expect("a rig");
    let stem = input.file_stem().expect("stem").to_string_lossy().into_owned();
    let scene = anim2gltf::formats::scene::Scene::new(&rig, &clips);
    let names = scene.animations.iter().map(|a| a.name.clone()).collect();
    Case { file: out.join(format!("{stem}.glb")), names, rig: rig.clone(), clips: clips.clone() }
}

#[test]
fn blender_shows_what_the_library_computes() {
    let Some(python) = anim2gltf_testkit::tool("ANIM2GLTF_BLENDER_PYTHON") else { return };
    let out = tempfile::tempdir().expect("a folder");
    let mut inputs = vec![PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/golden/sample.ycd"))];
    if let Some(shared) = anim2gltf_testkit::shared() {
        inputs.extend(
            [
                "corpus/ycd/custom@gangnamstyle.ycd",
                "corpus/ycd/lunyx@dazzleme.ycd",
                "corpus/ycd/airforce@salute.ycd",
                "corpus/ycd/handinpocket@sharror.ycd",
                "fixtures/ycd/synthetic_1.ycd",
                "fixtures/ycd/synthetic_2.ycd",
            ]
            .map(|p| shared.join(p)),
        );
    }
    let cases: Vec<Case> = inputs.iter().map(|input| case(input, out.path())).collect();
    let times = |clip: &Clip| (0..5).map(|i| clip.length_s * f64::from(i) / 4.0).collect::<Vec<f64>>();
    let jobs: Vec<Value> = cases
        .iter()
        .map(|c| {
            let times: serde_json::Map<String, Value> =
                c.names.iter().zip(&c.clips).map(|(n, clip)| (n.clone(), json!(times(clip)))).collect();
            json!({ "file": c.file, "bones": c.rig.joints().iter().map(|j| j.name.clone()).collect::<Vec<_>>(), "times": times })
        })
        .collect();
    let list = out.path().join("jobs.json");
    std::fs::write(&list, serde_json::to_vec(&jobs).expect("JSON")).expect("written");
    let run = Command::new(python)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/blender/check_glb.py"))
        .arg(&list)
        .output()
        .expect("Python runs");
    let stdout = String::from_utf8_lossy(&run.stdout).into_owned();
    let results: Vec<Value> = stdout
        .lines()
        .filter_map(|l| l.strip_prefix("RESULT "))
        .map(|l| serde_json::from_str(l).expect("JSON"))
        .collect();
    assert_eq!(results.len(), cases.len(), "{stdout}{}", String::from_utf8_lossy(&run.stderr));
    for (case, result) in cases.iter().zip(&results) {
        let name = case.file.display();
        assert_eq!(result["armatures"], 1, "{name}");
        assert_eq!(result["empties"], 0, "{name}");
        let mut bones: Vec<&str> =
            result["bones"].as_array().expect("bones").iter().filter_map(Value::as_str).collect();
        let mut joints: Vec<&str> = case.rig.joints().iter().filter_map(|j| j.name.as_deref()).collect();
        bones.sort_unstable();
        joints.sort_unstable();
        assert_eq!(bones, joints, "{name}");
        let mut names = case.names.clone();
        names.sort();
        assert_eq!(result["actions"], json!(names), "{name}");
        let far = |found: &Value, at: DVec3| {
            let v: Vec<f64> =
                found.as_array().expect("a position").iter().filter_map(Value::as_f64).collect();
            (DVec3::new(v[0], v[1], v[2]) - at).length()
        };
        let mut worst = 0f64;
        for (animation, clip) in case.names.iter().zip(&case.clips) {
            let rows = result["poses"][animation].as_array().expect("poses");
            assert_eq!(rows.len(), 5, "{name} {animation}");
            for (t, row) in times(clip).iter().zip(rows) {
                for (joint, at) in places(&case.rig, clip, *t) {
                    // Of ten thousand joints below scaled or junk ones only those that matter are named.
                    if BONES.contains(&joint.as_str()) {
                        let error = far(&row[&joint], at);
                        worst = worst.max(error);
                        assert!(
                            error < TOLERANCE_M,
                            "{name} {animation} at {t}: {joint} is {error} m off: {}",
                            row[&joint]
                        );
                    }
                }
            }
        }
        println!("{name}: {:.4} mm at most", worst * 1e3);
    }
    // A standing person, in the default rest pose too (source space: Z up, facing +Y).
    let rest = |result: &Value, bone: &str| {
        result["rest"][bone].as_array().expect("rest").iter().filter_map(Value::as_f64).collect::<Vec<f64>>()
    };
    let sample = &results[0];
    let (head, hand, foot) =
        (rest(sample, "SKEL_Head"), rest(sample, "SKEL_L_Hand"), rest(sample, "SKEL_L_Foot"));
    assert!((1.3..1.8).contains(&(head[2] - foot[2])), "head {head:?}, foot {foot:?}");
    assert!(hand[0] < -0.1, "the left hand is on the left: {hand:?}");
}
