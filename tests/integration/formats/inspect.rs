//! The readers of the reading-back side against other readers of the same files (the `gltf` crate, ufbx), and
//! against damaged files.

use anim2gltf::compare::diff;
use anim2gltf::compare::evaluate;
use anim2gltf::compare::evaluate::Pose;
use anim2gltf::formats::Format;
use anim2gltf::formats::fbx::Fbx;
use anim2gltf::formats::gltf::{self, Gltf};
use anim2gltf::games::own::scene::{Content, Curve, ImportedScene, Path as ChannelPath};
use anim2gltf_testkit::glb::{Glb, z_up};
use anim2gltf_testkit::shown::{clips, options, prepared, write};
use glam::{DQuat, DVec3};

fn nothing_beside(_: &str, _: usize) -> anim2gltf::Result<Vec<u8>> {
    Err(anim2gltf::Error::unsupported("nothing beside it"))
}

fn read(bytes: &[u8]) -> anim2gltf::Result<ImportedScene> {
    anim2gltf::games::own::open::read(bytes, Content::Animations, &mut nothing_beside)
}

#[test]
fn keys_are_those_that_the_gltf_crate_reads() {
    let folder = tempfile::tempdir().unwrap();
    let (rig, clips) = prepared(clips());
    let mut compared = 0;
    for quantize in [false, true] {
        let mut options = options(&gltf::Glb);
        options.write.quantize_rotations = quantize;
        let path = write(folder.path(), "clips", &rig, &clips, &options);
        let shown = anim2gltf::games::own::open::open(&path).unwrap();
        let glb = Glb::open(&std::fs::read(&path).unwrap());
        assert_eq!(shown.joints.len(), rig.joints().len());
        for (mine, theirs) in shown.animations.iter().zip(glb.document.animations()) {
            assert_eq!(Some(mine.name.as_str()), theirs.name());
            assert_eq!(mine.extras.as_ref().unwrap(), &Glb::extras(&theirs));
            let channels = glb.channels(&theirs);
            assert_eq!(mine.channels.len(), channels.len());
            for channel in &mine.channels {
                let node = glb.nodes[&shown.joints[channel.joint].name];
                let keys = &channels[&(node, channel.path.name())];
                let Curve::Keys(found) = &channel.curve else { panic!("keys") };
                let times: Vec<f64> = keys.times.iter().map(|t| f64::from(*t)).collect();
                assert_eq!(found.times, times);
                assert_eq!(found.mode == anim2gltf::games::own::scene::Mode::Step, keys.step);
                for (row, values) in found.rows.iter().zip(&keys.values) {
                    let values = z_up(channel.path.name(), values);
                    // The crate gives i16 in f32, and leaves lengths as they are.
                    let near = if quantize { 1e-4 } else { 1e-6 };
                    for (a, b) in row.iter().zip(&values) {
                        assert!((a - f64::from(*b)).abs() < near, "{row:?} {values:?}");
                        compared += 1;
                    }
                }
            }
        }
    }
    assert!(compared > 1000);
}

/// Local transforms of every joint by our reader and by ufbx, over each clip and past its ends.
fn against_ufbx(bytes: &[u8]) -> usize {
    let mine = read(bytes).unwrap();
    let scene = match ufbx::load_memory(bytes, ufbx::LoadOpts::default()) {
        Ok(scene) => scene,
        Err(e) => panic!("ufbx: {}", &*e.description),
    };
    assert_eq!(mine.animations.len(), scene.anim_stacks.len());
    let mut compared = 0;
    for (animation, stack) in mine.animations.iter().zip(&scene.anim_stacks) {
        assert_eq!(animation.name, &*stack.element.name);
        assert_eq!(animation.length_s, stack.time_end);
        let mut pose = Pose::default();
        for i in -2..=203 {
            let t = animation.length_s * f64::from(i) / 200.0;
            evaluate::pose(&mine, animation, t, &mut pose);
            for (joint, local) in mine.joints.iter().zip(&pose.local) {
                let node = ufbx::find_node(&scene, &joint.name).unwrap();
                let parent = node.parent.as_ref().map(|p| p.element.name.to_string());
                let parent = parent.filter(|name| !name.is_empty());
                assert_eq!(joint.parent.map(|p| mine.joints[p].name.clone()), parent);
                let want = ufbx::evaluate_transform(&stack.anim, node, t);
                let rotation =
                    DQuat::from_xyzw(want.rotation.x, want.rotation.y, want.rotation.z, want.rotation.w);
                let translation = DVec3::new(want.translation.x, want.translation.y, want.translation.z);
                let scale = DVec3::new(want.scale.x, want.scale.y, want.scale.z);
                assert!(local.rotation.dot(rotation).abs() > 1.0 - 1e-12, "{} at {t}", joint.name);
                assert!(local.translation.distance(translation) < 1e-9, "{} at {t}", joint.name);
                assert!(local.scale.distance(scale) < 1e-9, "{} at {t}", joint.name);
                compared += 1;
            }
        }
    }
    compared
}

#[test]
fn fbx_plays_as_ufbx_plays_it() {
    let folder = tempfile::tempdir().unwrap();
    let (rig, clips) = prepared(clips());
    for compress in [false, true] {
        let mut options = options(&Fbx);
        options.write.compress = compress;
        let bytes = std::fs::read(write(folder.path(), "clips", &rig, &clips, &options)).unwrap();
        assert!(against_ufbx(&bytes) > 1000);
    }
}

/// Puts other bytes behind the first place of `name` + `gap` bytes.
fn patch(bytes: &mut [u8], name: &[u8], letter: u8, value: &[u8]) {
    let at = bytes.windows(name.len()).position(|w| w == name).unwrap() + name.len();
    // Type, label and flags follow as texts, then the value's letter.
    let mut c = at;
    for _ in 0..3 {
        assert_eq!(bytes[c], b'S');
        c += 5 + u32::from_le_bytes(bytes[c + 1..c + 5].try_into().unwrap()) as usize;
    }
    assert_eq!(bytes[c], letter);
    bytes[c + 1..c + 1 + value.len()].copy_from_slice(value);
}

#[test]
fn axes_and_units_of_an_fbx_are_undone() {
    let folder = tempfile::tempdir().unwrap();
    let (rig, clips) = prepared(clips());
    let mut bytes = std::fs::read(write(folder.path(), "clips", &rig, &clips, &options(&Fbx))).unwrap();
    let plain = read(&bytes).unwrap();
    // The same numbers, said to be Y up, in centimetres.
    patch(&mut bytes, b"UpAxis", b'I', &1i32.to_le_bytes());
    patch(&mut bytes, b"FrontAxis", b'I', &2i32.to_le_bytes());
    patch(&mut bytes, b"FrontAxisSign", b'I', &1i32.to_le_bytes());
    patch(&mut bytes, b"UnitScaleFactor", b'D', &1f64.to_le_bytes());
    let turned = read(&bytes).unwrap();
    let (mut a, mut b) = (Pose::default(), Pose::default());
    for t in [0.0, 0.31, 0.77] {
        evaluate::pose(&plain, &plain.animations[0], t, &mut a);
        evaluate::pose(&turned, &turned.animations[0], t, &mut b);
        for (a, b) in a.model.iter().zip(&b.model) {
            let (a, b) = (a.translation, b.translation);
            assert!(DVec3::new(a.x, -a.z, a.y).distance(b * 100.0) < 1e-9, "{a} {b}");
        }
    }
    // Mirrored axes are refused.
    patch(&mut bytes, b"CoordAxisSign", b'I', &(-1i32).to_le_bytes());
    assert_eq!(read(&bytes).unwrap_err().kind(), anim2gltf::ErrorKind::Unsupported);
}

#[test]
fn all_formats_show_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let (rig, clips) = prepared(clips());
    let files = [&gltf::Glb as &'static dyn Format, &Gltf, &Fbx]
        .map(|f| write(folder.path(), "clips", &rig, &clips, &options(f)));
    let glb = anim2gltf::games::own::open::open(&files[0]).unwrap();
    assert_eq!(glb, anim2gltf::games::own::open::open(&files[1]).unwrap());
    let fbx = anim2gltf::games::own::open::open(&files[2]).unwrap();
    let names = |s: &ImportedScene| s.joints.iter().map(|j| j.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&glb), names(&fbx));
    let (mut a, mut b) = (Pose::default(), Pose::default());
    for (x, y) in glb.animations.iter().zip(&fbx.animations) {
        assert_eq!((x.id(), x.length_s), (y.id(), y.length_s));
        assert!(x.channel(1, ChannelPath::Rotation).is_some());
        for t in [0.0, 0.1, 0.25, 0.5, 0.93] {
            evaluate::pose(&glb, x, t, &mut a);
            evaluate::pose(&fbx, y, t, &mut b);
            for (a, b) in a.model.iter().zip(&b.model) {
                assert!(a.translation.distance(b.translation) < 0.005, "{} at {t}", x.name);
            }
        }
    }
}

/// Reads damaged bytes; what can be read is also played and compared. Nothing may panic.
fn survive(bytes: &[u8], whole: &ImportedScene, bin: Option<&[u8]>) -> bool {
    let Ok(shown) = anim2gltf::games::own::open::read(bytes, Content::Animations, &mut |_, n| match bin {
        Some(bin) => Ok(bin[..n.min(bin.len())].to_vec()),
        None => nothing_beside("", 0),
    }) else {
        return false;
    };
    let mut pose = Pose::default();
    for animation in &shown.animations {
        for t in [-1.0, 0.0, 0.3, 1e9] {
            evaluate::pose(&shown, animation, t, &mut pose);
        }
    }
    let _ = diff::scenes("damaged", whole, &shown, &diff::Options::default());
    true
}

#[test]
fn damaged_files_end_in_an_error_or_a_result() {
    let folder = tempfile::tempdir().unwrap();
    let (rig, mut clips) = prepared(clips());
    // Small, so that many places can be tried.
    clips[0].tracks.truncate(5);
    let mut formats = vec![options(&gltf::Glb), options(&Gltf), options(&Fbx), options(&Fbx)];
    formats[3].write.compress = false;
    for options in formats {
        let path = write(folder.path(), "clips", &rig, &clips, &options);
        let bytes = std::fs::read(&path).unwrap();
        let bin =
            (options.format.name() == "gltf").then(|| std::fs::read(path.with_extension("bin")).unwrap());
        let bin = bin.as_deref();
        let whole = anim2gltf::games::own::open::open(&path).unwrap();
        assert!(survive(&bytes, &whole, bin));
        for i in 0..200 {
            let cut = bytes.len() * i / 200;
            let read = survive(&bytes[..cut], &whole, bin);
            // Behind the records of an FBX file stands a footer that nothing is read from.
            assert!(!read || options.format.name() == "fbx" && cut > bytes.len() - 300, "{cut} bytes");
        }
        let mut random = 0x9E37_79B9u32;
        let mut damaged = bytes.clone();
        for _ in 0..1500 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let at = random as usize % bytes.len();
            let bit = 1 << (random >> 29);
            damaged[at] ^= bit;
            survive(&damaged, &whole, bin);
            damaged[at] ^= bit;
        }
    }
}

#[test]
fn counts_that_cannot_be_are_refused_before_anything_is_allocated() {
    let text = br#"{"asset":{"version":"2.0"},"nodes":[{"name":"a"}],
        "buffers":[{"byteLength":18446744073709551615,"uri":"a.bin"}],
        "bufferViews":[{"buffer":0,"byteLength":8}],
        "accessors":[{"bufferView":0,"componentType":5126,"count":2,"type":"SCALAR"}],
        "animations":[{"channels":[{"sampler":0,"target":{"node":0,"path":"rotation"}}],
        "samplers":[{"input":0,"output":0}]}]}"#;
    assert!(read(text).is_err());
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.bin"), [0; 8]).unwrap();
    let path = folder.path().join("a.gltf");
    std::fs::write(&path, text).unwrap();
    assert!(anim2gltf::games::own::open::open(&path).is_err());
    let outside = String::from_utf8_lossy(text).replace("a.bin", "../a.bin");
    std::fs::write(&path, outside).unwrap();
    let e = anim2gltf::games::own::open::open(&path).unwrap_err();
    assert!(e.to_string().contains("below its folder"), "{e}");
}
