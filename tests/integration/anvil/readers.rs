//! The readers of Anvil's Animations, Skeletons and AnimSets, against right values of an independent writer and
//! against bodies that the project writes itself.

use anim2gltf_testkit::anvil_clip as writer;
use std::collections::BTreeMap;
use std::path::Path;

use anim2gltf::games::anvil::animation::tracks::ClipCensus;
use anim2gltf::games::anvil::animation::{riders_republic as rr, shaun_white as sws};
use anim2gltf::games::anvil::container::file as anvil;
use anim2gltf::games::anvil::container::object::{Generation, Object, class};
use anim2gltf::games::anvil::{sets as anvil_sets, skeleton as anvil_skeleton};
use anim2gltf::model::{Clip, Interpolation, JointId, Property, Skeleton, Track, Values};
use anim2gltf::{Error, ErrorKind};
use anim2gltf_testkit::anvil_clip::{BoneSpec, ClipSpec, Keys, TrackSpec, turn};
use serde_json::Value;

// ---- Inputs ----

/// Splits a loose resource by hand: the test's own reading of the resource header.
fn loose<'a>(data: &'a [u8], stem: &str, generation: Generation) -> Option<Object<'a>> {
    let u32_at = |at: usize| Some(u32::from_le_bytes(data.get(at..at + 4)?.try_into().ok()?));
    let first = u32_at(0)?;
    // A class id stands first where there is a name; otherwise the file begins with the file header's tag.
    let (at, name, class) = if first & 0xFF > 1 {
        let length = u32_at(8)? as usize;
        let name = String::from_utf8_lossy(data.get(12..12usize.checked_add(length)?)?).into_owned();
        (12 + length, name, Some(first))
    } else {
        (0, stem.to_owned(), None)
    };
    let tag = *data.get(at)?;
    if generation == Generation::Ids32 {
        let body = data.get(at + 1..)?;
        return Some(Object {
            generation,
            class: class?,
            id: 0,
            name,
            header: &[],
            body,
            body_offset: at as u64 + 1,
        });
    }
    let header =
        if tag == 1 { 8usize.checked_add(12usize.checked_mul(u32_at(at + 4)? as usize)?)? } else { 1 };
    let id_at = at.checked_add(header)?;
    let id = u64::from_le_bytes(data.get(id_at..id_at + 8)?.try_into().ok()?);
    let body = data.get(id_at + 12..)?;
    Some(Object {
        generation,
        class: class.or(u32_at(id_at + 8))?,
        id,
        name,
        header: &data[at..id_at],
        body,
        body_offset: id_at as u64 + 12,
    })
}

fn read(object: &Object) -> Result<Clip, Error> {
    read_counted(object).map(|(clip, _)| clip)
}

fn read_counted(object: &Object) -> Result<(Clip, ClipCensus), Error> {
    match object.generation {
        Generation::Ids64 => rr::read_with_census(object, "test"),
        Generation::Ids32 => sws::read_with_census(object, "test"),
    }
}

fn body(body: &[u8], generation: Generation) -> Object<'_> {
    Object {
        generation,
        class: writer::ANIMATION,
        id: 0xABC,
        name: "clip".into(),
        header: &[],
        body,
        body_offset: 0,
    }
}

fn rr_object(bytes: &[u8]) -> Object<'_> {
    body(bytes, Generation::Ids64)
}

fn sws_object(bytes: &[u8]) -> Object<'_> {
    body(bytes, Generation::Ids32)
}

fn generation_of(path: &str) -> Generation {
    if path.contains("sws") { Generation::Ids32 } else { Generation::Ids64 }
}

fn stem(path: &str) -> String {
    Path::new(path).file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

// ---- Comparison ----

const TOLERANCE: f64 = 2e-6;

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}

/// Holds `clip` against an entry of expected.json.
fn assert_clip(clip: &Clip, expected: &Value) {
    let name = expected["name"].as_str().unwrap();
    assert_eq!(clip.name, name);
    assert_eq!(clip.id.to_string(), expected["id"].as_str().unwrap(), "{name}");
    assert_eq!(clip.game, expected["game"].as_str().unwrap());
    // Stored as f32.
    assert_eq!(clip.length_s as f32, expected["length"].as_f64().unwrap() as f32, "{name}");
    if clip.game == "RR" {
        assert_eq!(clip.additive, expected["additive"].as_bool().unwrap(), "{name}");
        assert_eq!(clip.extras["streamed"], expected["streamed"], "{name}");
        assert_eq!(clip.extras["eventCount"], expected["event_count"], "{name}");
    }
    let tracks = expected["tracks"].as_array().unwrap();
    assert_eq!(clip.tracks.len(), tracks.len(), "{name}");
    for (track, e) in clip.tracks.iter().zip(tracks) {
        let at = format!("{name}, bone {}, kind {}", e["crc"], e["kind"]);
        let crc = u32::from_str_radix(e["crc"].as_str().unwrap(), 16).unwrap();
        let joint = if crc == 0 { JointId::RootMotion } else { JointId::Crc32(crc) };
        assert_eq!(track.target.joint, joint, "{at}");
        let times = numbers(&e["times"]);
        let timeline = clip.timeline(track);
        assert_eq!(timeline.len(), times.len(), "{at}");
        for (found, expected) in timeline.iter_seconds().zip(times) {
            assert!((found - expected).abs() < 1e-9, "{at}: {found} s, not {expected} s");
        }
        assert_values(track, e, &at);
    }
}

fn assert_values(track: &Track, e: &Value, at: &str) {
    let values = e["values"].as_array().unwrap();
    assert_eq!(track.curve.values.len(), values.len(), "{at}");
    let near = |found: &[f32], expected: &Value| {
        for (f, e) in found.iter().zip(numbers(expected)) {
            assert!((f64::from(*f) - e).abs() <= TOLERANCE, "{at}: {found:?}, not {expected}");
        }
    };
    match (&track.curve.values, e["path"].as_str().unwrap()) {
        (Values::Quat(v), "rotation") => {
            assert_eq!(
                (track.target.property, track.curve.interpolation),
                (Property::Rotation, Interpolation::Nlerp)
            );
            v.iter().zip(values).for_each(|(q, e)| near(&q.to_array(), e));
        }
        (Values::Vec3(v), "translation") => {
            assert_eq!(
                (track.target.property, track.curve.interpolation),
                (Property::Translation, Interpolation::Linear)
            );
            v.iter().zip(values).for_each(|(p, e)| near(&p.to_array(), e));
        }
        (Values::Raw { width, bytes }, "opaque") => {
            let Property::Other(other) = track.target.property else { panic!("{at}") };
            assert_eq!(u64::from(other.number), e["kind"].as_u64().unwrap());
            for (found, expected) in bytes.chunks(usize::from(*width)).zip(values) {
                let found = found.iter().rev().fold(0u64, |v, b| v << 8 | u64::from(*b));
                assert_eq!(found, expected.as_u64().unwrap(), "{at}");
            }
        }
        (values, path) => panic!("{at}: {values:?} for {path}"),
    }
}

fn assert_skeleton(skeleton: &Skeleton, expected: &Value) {
    let bones = expected.as_array().unwrap();
    assert_eq!(skeleton.joints().len(), bones.len());
    for (joint, e) in skeleton.joints().iter().zip(bones) {
        let name = e["name"].as_str().unwrap();
        let crc = |name: &str| JointId::Crc32(crc32fast::hash(name.as_bytes()));
        assert_eq!(joint.id, crc(name), "{name}");
        let parent = joint.parent.map(|p| skeleton.joints()[p].id);
        assert_eq!(parent, e["parent"].as_str().filter(|p| !p.is_empty()).map(crc), "{name}");
        for (found, expected) in joint
            .rest
            .translation
            .to_array()
            .iter()
            .zip(numbers(&e["translation"]))
            .chain(joint.rest.rotation.to_array().iter().zip(numbers(&e["rotation"])))
        {
            assert!((f64::from(*found) - expected).abs() < TOLERANCE, "{name}: {found}, not {expected}");
        }
    }
}

fn expected() -> Option<(std::path::PathBuf, Value)> {
    let folder = anim2gltf_testkit::shared()?.join("fixtures/anvil");
    let text = std::fs::read_to_string(folder.join("expected.json")).unwrap();
    Some((folder, serde_json::from_str(&text).unwrap()))
}

// ---- Fixtures ----

#[test]
fn loose_fixtures_have_the_expected_values() {
    let Some((folder, expected)) = expected() else { return };
    let mut read_files = 0;
    for (file, e) in expected["files"].as_object().unwrap() {
        if !file.contains("/loose/") {
            continue;
        }
        let data = std::fs::read(folder.join(file)).unwrap();
        let object = loose(&data, &stem(file), generation_of(file)).unwrap();
        let (clip, census) = read_counted(&object).unwrap_or_else(|e| panic!("{file}: {e}"));
        assert_clip(&clip, &e["clips"][0]);
        assert_eq!(clip.source, "test");
        let unusual: Vec<_> = census.anomalies.iter().filter(|(n, _)| *n > 0).collect();
        assert!(unusual.is_empty(), "{file}: {unusual:?}");
        read_files += 1;
    }
    assert_eq!(read_files, 5);
}

/// All the fixtures through the containers: archives of both games, a `.data` and loose files.
#[test]
fn every_fixture_has_the_expected_values() {
    let Some((folder, expected)) = expected() else { return };
    let files = expected["files"].as_object().unwrap();
    assert_eq!(files.len(), 14);
    for (file, e) in files {
        let source = anvil::open(&folder.join(file), &anvil::Options::default()).unwrap();
        let mut scratch = anvil::Scratch::new();
        let mut clips = BTreeMap::new();
        let (mut skeletons, mut sets) = (Vec::new(), Vec::new());
        for index in 0..source.entries().len() {
            source
                .for_each_object(index, &mut scratch, &mut |object| {
                    let object = object.unwrap();
                    match object.class {
                        class::ANIMATION => {
                            let (clip, census) =
                                read_counted(&object).unwrap_or_else(|e| panic!("{file}: {e}"));
                            assert_eq!(census.anomalies.keys_past_length, 0, "{file}: {}", clip.name);
                            clips.insert(clip.id.to_string(), clip);
                        }
                        class::SKELETON => skeletons.push(anvil_skeleton::read(&object).unwrap()),
                        class::ANIM_SET => sets.push(anvil_sets::read_anim_set(&object).unwrap()),
                        _ => {}
                    }
                })
                .unwrap_or_else(|e| panic!("{file}: {e}"));
        }
        let wanted = e["clips"].as_array().unwrap();
        assert_eq!(clips.len(), wanted.len(), "{file}: {:?}", clips.keys());
        for e in wanted {
            assert_clip(&clips[e["id"].as_str().unwrap()], e);
        }
        assert_eq!(skeletons.is_empty(), e["skeleton"].is_null(), "{file}");
        skeletons.iter().for_each(|s| assert_skeleton(s, &expected["skeleton"]));
        assert_eq!(sets.is_empty(), e["animset"].is_null(), "{file}");
        for set in sets {
            assert_eq!(set.name, expected["animset"]["name"]);
            let pairs: Vec<_> = set.pairs.iter().map(|pair| pair.map(|id| format!("{id:X}"))).collect();
            assert_eq!(serde_json::json!(pairs), expected["animset"]["pairs"]);
        }
    }
}

#[test]
fn skeleton_fixtures_have_the_expected_bones() {
    let Some((folder, expected)) = expected() else { return };
    for file in [
        "rr/loose/RID_Skeleton.Skeleton",
        "rr/loose/RID_Skeleton_bp.Skeleton",
        "rr/loose/RID_Skeleton_full.Skeleton",
        "sws/loose/SK8_Skeleton.Skeleton",
    ] {
        let data = std::fs::read(folder.join(file)).unwrap();
        let object = loose(&data, &stem(file), generation_of(file)).unwrap();
        let skeleton = anvil_skeleton::read(&object).unwrap_or_else(|e| panic!("{file}: {e}"));
        assert_skeleton(&skeleton, &expected["skeleton"]);
    }
}

#[test]
fn damaged_fixtures_say_where_and_what() {
    let Some((folder, _)) = expected() else { return };
    for (file, kind, parts) in [
        ("clip_cut.Animation", ErrorKind::Limit, ["track 24 of 25", "bytes left"]),
        (
            "clip_tail.Animation",
            ErrorKind::Malformed,
            ["more bytes after the last track", "expected the end"],
        ),
        ("clip_mappings.Animation", ErrorKind::Limit, ["mappings", "a count that fits"]),
        ("sws_size_word.Animation", ErrorKind::Malformed, ["bytes in memory", "keys of kind"]),
    ] {
        let data = std::fs::read(folder.join("bad").join(file)).unwrap();
        let object = loose(&data, &stem(file), generation_of(file)).unwrap();
        let error = read(&object).expect_err(file);
        assert_eq!(error.kind(), kind, "{file}: {error}");
        assert!(error.offset().is_some(), "{file}: {error}");
        let text = error.to_string();
        assert!(text.starts_with("Animation \""), "{text}");
        for part in parts {
            assert!(text.contains(part), "{file}: {text}");
        }
        assert!(!text.contains('\n'));
    }
}

/// Every file cut at every length and with bits turned: an answer or an error, never a panic.
fn torture(data: &[u8], check: impl Fn(&[u8])) {
    for length in 0..data.len() {
        check(&data[..length]);
    }
    let mut copy = data.to_vec();
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    for i in 0..copy.len() {
        // Every byte gets one bit turned, some of them another.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        for bit in [(state >> 60) & 7, (state >> 50) & 7] {
            copy[i] ^= 1 << bit;
            check(&copy);
            copy[i] = data[i];
        }
    }
}

#[test]
fn damage_never_panics() {
    let Some((folder, _)) = expected() else { return };
    for folder in [folder.join("rr/loose"), folder.join("sws/loose")] {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let data = std::fs::read(&path).unwrap();
            let (stem, generation) = (stem(path.to_str().unwrap()), generation_of(path.to_str().unwrap()));
            torture(&data, |bytes| {
                let Some(object) = loose(bytes, &stem, generation) else { return };
                if path.extension().is_some_and(|e| e == "Skeleton") {
                    if let Ok(skeleton) = anvil_skeleton::read(&object) {
                        assert!(!skeleton.joints().is_empty());
                    }
                } else if let Ok((clip, _)) = read_counted(&object) {
                    assert_sound(&clip);
                }
            });
        }
    }
}

/// What the rest of the program relies on.
fn assert_sound(clip: &Clip) {
    assert!(clip.length_s.is_finite() && clip.length_s >= 0.0);
    for track in &clip.tracks {
        let timeline = clip.timeline(track);
        assert!(!timeline.is_empty());
        assert_eq!(track.curve.values.len(), timeline.len());
        let times: Vec<f64> = timeline.iter_seconds().collect();
        assert!(times.is_sorted_by(|a, b| a < b));
        match &track.curve.values {
            Values::Quat(v) => assert!(v.iter().all(|q| (q.length() - 1.0).abs() < 1e-5)),
            Values::Vec3(v) => assert!(v.iter().all(|p| p.is_finite())),
            _ => {}
        }
    }
}

// ---- Bodies that the project writes ----

/// Rotations that run through every choice of omitted component.
fn motion(keys: usize, seed: f64) -> Vec<[f64; 4]> {
    (0..keys)
        .map(|i| {
            let t = i as f64 / keys.max(2) as f64;
            let axis = [(seed + 3.0 * t).sin(), (2.0 * seed + t).cos(), 0.3 + t];
            turn(axis, 700.0 * t * seed.sin() + 20.0 * seed)
        })
        .collect()
}

fn positions(keys: usize) -> Vec<[f64; 3]> {
    (0..keys)
        .map(|i| [0.017 * i as f64 - 0.5, 0.9 - 0.011 * i as f64, (i as f64 * 0.4).sin() * 0.5])
        .collect()
}

fn assert_near_rotation(found: &[glam::Quat], expected: &[[f64; 4]], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (q, e) in found.iter().zip(expected) {
        let q = q.to_array().map(f64::from);
        let dot: f64 = q.iter().zip(e).map(|(a, b)| a * b).sum();
        for (a, b) in q.iter().zip(e) {
            assert!((a - b * dot.signum()).abs() < tolerance, "{q:?}, not {e:?}");
        }
    }
}

#[test]
fn every_kind_and_form_of_riders_republic() {
    let frames: Vec<u32> = (0..20).map(|i| i * 3 + 1).collect();
    let ticks: Vec<u32> = (0..20).map(|i| i * 7).collect();
    let long: Vec<u32> = (0..20).map(|i| i * 1000).collect();
    let mut tracks = Vec::new();
    for kind in [3, 4, 5, 7, 8, 9, 16, 17, 18, 21, 22, 25] {
        for form in 0..3u8 {
            let keys = match kind {
                7 => Keys::Quat((0..20).map(|i| turn([0.0, 0.0, 1.0], f64::from(i) * 8.0 - 80.0)).collect()),
                3..=8 => Keys::Quat(motion(20, f64::from(kind) + f64::from(form) / 10.0)),
                9 => Keys::Vec3(positions(20)),
                16 | 18 => Keys::Raw(1, (0..20).collect()),
                17 => Keys::Raw(2, (0..20).map(|v| v * 3000).collect()),
                21 | 22 => Keys::Raw(4, (0..20).map(|v| v << 27 | 5).collect()),
                _ => Keys::Raw(8, (0..20).map(|v| v << 59 | 9).collect()),
            };
            let times = [&ticks, &long, &frames][usize::from(form)].clone();
            tracks.push(TrackSpec { crc: u32::from(kind) * 16 + u32::from(form), kind, form, times, keys });
        }
    }
    tracks[0].crc = 0;
    let spec =
        ClipSpec { length_s: 317.0, flags: [0, 0, 1, 1], buffer: vec![7; 5], tracks, ..ClipSpec::default() };
    let bytes = writer::rr_body(&spec);
    let (clip, census) = read_counted(&rr_object(&bytes)).unwrap();
    assert_sound(&clip);
    assert_eq!(clip.tracks[0].target.joint, JointId::RootMotion);
    assert_eq!(clip.tracks[1].target.joint, JointId::Crc32(49));
    assert_eq!(clip.timelines.len(), 3, "equal times are shared");
    assert_eq!(clip.extras["bufferB832D26F"], "0707070707");
    assert_eq!(clip.extras["userCategory"], 50);
    assert!(clip.warnings.is_empty(), "{:?}", clip.warnings);
    for (track, spec) in clip.tracks.iter().zip(&spec.tracks) {
        let unit = if spec.form == 2 { 30.0 } else { 60.0 };
        for (found, expected) in clip.timeline(track).iter_seconds().zip(&spec.times) {
            assert_eq!(found, f64::from(*expected) / unit);
        }
        match (&track.curve.values, &spec.keys) {
            (Values::Quat(found), Keys::Quat(expected)) => {
                // Half a step of the packing, and what that does to the omitted component.
                let tolerance = match spec.kind {
                    3 => 2e-3,
                    4 | 7 => 8e-5,
                    5 => 2e-6,
                    _ => 4e-4,
                };
                assert_near_rotation(found, expected, tolerance);
            }
            (Values::Vec3(found), Keys::Vec3(expected)) => {
                for (f, e) in found.iter().zip(expected) {
                    assert_eq!(f.to_array(), e.map(|v| v as f32));
                }
            }
            (Values::Raw { width, bytes }, Keys::Raw(expected_width, expected)) => {
                assert_eq!(usize::from(*width), *expected_width);
                let expected: Vec<u8> =
                    expected.iter().flat_map(|v| v.to_le_bytes()[..*expected_width].to_vec()).collect();
                assert_eq!(*bytes, expected);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((census.clips, census.tracks, census.keys), (1, 36, 720));
    assert_eq!((census.streamed, census.additive, census.with_events), (1, 0, 0));
    assert_eq!(census.mask_markers, [0, 12, 0, 0]);
    assert_eq!(census.kinds.len(), 36);
    assert!(census.kinds.iter().all(|k| (k.tracks, k.keys) == (1, 20)));
}

#[test]
fn every_kind_and_form_of_shaun_white() {
    let mut tracks = Vec::new();
    for kind in [4, 5, 6, 7, 8, 9, 10, 11, 17] {
        for form in 0..4u8 {
            let n = 5 + usize::from(form);
            let step = if form & 1 != 0 { 900 } else { 17 };
            let keys = match kind {
                4..=6 => Keys::Quat(motion(n, f64::from(kind * 4 + form))),
                7..=9 => Keys::Vec3(positions(n)),
                10 => Keys::Raw(4, (0..n as u64).map(|v| v * 77_777_777).collect()),
                _ => Keys::Raw(1, (0..n as u64).collect()),
            };
            tracks.push(TrackSpec {
                crc: 1000 + u32::from(kind) * 4 + u32::from(form),
                kind,
                form,
                times: (0..n as u32).map(|i| i * step).collect(),
                keys,
            });
        }
    }
    let spec = ClipSpec {
        id: 0xABC,
        length_s: 0.0,
        rows: vec![[3; 12]; 4],
        layout: 7,
        second_layout: 7,
        tracks,
        ..ClipSpec::default()
    };
    let bytes = writer::sws_body(&spec);
    let (clip, census) = read_counted(&sws_object(&bytes)).unwrap();
    assert_sound(&clip);
    for (track, spec) in clip.tracks.iter().zip(&spec.tracks) {
        for (found, expected) in clip.timeline(track).iter_seconds().zip(&spec.times) {
            assert_eq!(found, f64::from(*expected) / 60.0);
        }
        match (&track.curve.values, &spec.keys) {
            (Values::Quat(found), Keys::Quat(expected)) => {
                assert_near_rotation(found, expected, if spec.kind == 6 { 4e-4 } else { 8e-5 });
            }
            (Values::Vec3(found), Keys::Vec3(expected)) => {
                let step = if spec.kind == 7 { 1e-7 } else { 0.000_51 };
                for (f, e) in found.iter().zip(expected) {
                    assert!(f.to_array().iter().zip(e).all(|(f, e)| (f64::from(*f) - e).abs() < step));
                }
            }
            (Values::Raw { bytes, .. }, Keys::Raw(width, _)) => {
                assert_eq!(bytes.len(), width * spec.keys.len());
            }
            other => panic!("{other:?}"),
        }
    }
    // Everything behind 0 is past a length of 0, and no last key stands on it.
    assert_eq!(census.anomalies.keys_past_length, census.keys - census.tracks);
    assert_eq!(census.anomalies.last_key_off_length, census.tracks);
    assert_eq!(census.anomalies.layout_word_differs, 0);
    assert!(clip.warnings.iter().any(|w| w.code() == "anvil-keys-past-length"));
}

fn one_track(times: Vec<u32>, form: u8) -> TrackSpec {
    let keys = Keys::Quat(motion(times.len(), 1.0));
    TrackSpec { crc: 0xC0FFEE, kind: 4, form, times, keys }
}

/// Bytes that look like AnimTrackData inside an event: the bare word, one with a mapping list, and one that is whole
/// up to the tracks.
fn false_anchors(id_size: usize) -> Vec<u8> {
    let word = writer::ANIM_TRACK_DATA.to_le_bytes();
    let mut events = vec![0x13, 0x22, 0x68, 0x41];
    let mut anchor = |rest: &[u8]| {
        events.extend([0; 5]);
        events.extend(vec![0; id_size]);
        events.extend(word);
        events.extend(rest);
    };
    anchor(&[9; 3]);
    anchor(&[&[1, 2, 3, 4, 2, 0, 0, 0][..], &[5; 40]].concat());
    let mut whole = vec![1, 2, 3, 4, 1, 0, 0, 0];
    whole.extend(vec![0; id_size]);
    whole.extend(writer::MAPPING.to_le_bytes());
    whole.extend([1, 1, 1, 1, 0, 0]);
    if id_size == 8 {
        whole.extend([3, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
    whole.extend([1, 0, 0, 0]);
    anchor(&whole);
    events
}

#[test]
fn false_anchors_inside_events_mislead_nobody() {
    for (id_size, write, generation) in [
        (8, writer::rr_body as fn(&ClipSpec) -> Vec<u8>, Generation::Ids64),
        (4, writer::sws_body, Generation::Ids32),
    ] {
        let spec = ClipSpec {
            id: 0xABC,
            length_s: 1.0,
            event_count: 2,
            events: false_anchors(id_size),
            ecl: Some([vec![1, 2], vec![3; 8], vec![4; 6], vec![]]),
            tracks: vec![one_track(vec![0, 30, 60], 0)],
            ..ClipSpec::default()
        };
        let bytes = write(&spec);
        let (clip, census) = read_counted(&body(&bytes, generation)).unwrap();
        assert_eq!(clip.tracks.len(), 1);
        assert_eq!(clip.extras["eventCount"], 2);
        assert_eq!(clip.extras["eventByteLength"], spec.events.len());
        assert_eq!(clip.extras["eventBytes"].as_str().unwrap().len(), 2 * spec.events.len());
        assert_eq!((census.events, census.with_events), (2, 1));
        if id_size == 8 {
            assert_eq!(census.with_ecl_animation, 1);
            assert_eq!(clip.extras["eclAnimation"]["u32"], "0303030303030303");
        }
        // The same with the true one damaged: an error that names the furthest place, and no anchor that fits.
        let mut damaged = bytes.clone();
        damaged.truncate(bytes.len() - 1);
        let error = read(&body(&damaged, generation)).unwrap_err();
        assert!(error.to_string().contains("track 0 of 1"), "{error}");
        torture(&bytes, |bytes| {
            if let Ok(clip) = read(&body(bytes, generation)) {
                assert_sound(&clip);
            }
        });
    }
}

#[test]
fn additive_clips_are_marked() {
    for flags in [[1, 0, 0, 0], [0, 1, 0, 0]] {
        let spec = ClipSpec { flags, tracks: vec![one_track(vec![0], 0)], ..ClipSpec::default() };
        let bytes = writer::rr_body(&spec);
        let (clip, census) = read_counted(&rr_object(&bytes)).unwrap();
        assert!(clip.additive && clip.extras["additive"] == true);
        assert!(clip.warnings.iter().any(|w| w.code() == "anvil-additive"));
        assert_eq!(census.additive, 1);
    }
}

#[test]
fn keys_past_the_length_are_kept_and_reported() {
    let spec = ClipSpec {
        length_s: 1.0,
        // 60 ticks are the length, 61 are within the grace of 1/30 s, 70 are not.
        tracks: vec![one_track(vec![0, 60, 61, 70], 0), one_track(vec![0, 60], 1)],
        ..ClipSpec::default()
    };
    let bytes = writer::rr_body(&spec);
    let (clip, census) = read_counted(&rr_object(&bytes)).unwrap();
    assert_eq!(clip.timeline(&clip.tracks[0]).len(), 4);
    assert_eq!((census.anomalies.keys_past_length, census.anomalies.keys_past_grace), (2, 1));
    assert!(clip.warnings.iter().any(|w| w.to_string().contains("1.1667 s")), "{:?}", clip.warnings);
}

#[test]
fn keys_that_do_not_rise_are_left_out_and_reported() {
    let spec = ClipSpec {
        length_s: 1.0,
        tracks: vec![one_track(vec![0, 30, 30, 20, 60], 0), one_track(vec![0, 30, 30, 20, 60], 1)],
        ..ClipSpec::default()
    };
    let bytes = writer::rr_body(&spec);
    let (clip, census) = read_counted(&rr_object(&bytes)).unwrap();
    assert_sound(&clip);
    assert_eq!(clip.timeline(&clip.tracks[0]).iter_seconds().collect::<Vec<_>>(), [0.0, 0.5, 1.0]);
    assert_eq!(census.anomalies.keys_not_rising, 4);
    let Values::Quat(kept) = &clip.tracks[1].curve.values else { panic!() };
    let all = motion(5, 1.0);
    assert_near_rotation(kept, &[all[0], all[1], all[4]], 8e-5);
}

#[test]
fn anomalies_are_counted() {
    let spec = ClipSpec {
        length_s: 1.0,
        teleport: vec![4],
        tracks: vec![one_track(vec![0, 60], 0), TrackSpec { kind: 5, ..one_track(vec![0, 30], 2) }],
        ..ClipSpec::default()
    };
    let mut bytes = writer::rr_body(&spec);
    let second = writer::rr_block(&spec.tracks[1]).len();
    let first = writer::rr_block(&spec.tracks[0]).len();
    let at = bytes.len() - second - first;
    // Bit 15 of the third word of the first key; the size word; bits 28 of the kind 5 keys; the marker's high bits.
    bytes[at + 9 + 1 + 5] |= 0x80;
    bytes[at + 1] = 0xFF;
    let at = at + first;
    bytes[at + 9] &= 0x3F;
    let values = bytes.len() - 16;
    bytes[values + 3] |= 0x10;
    bytes[values + 11] |= 0x20;
    let (clip, census) = read_counted(&rr_object(&bytes)).unwrap();
    let d = census.anomalies;
    assert_eq!(
        (d.kind_4_third_word_bit_15, d.kind_5_bits_28_29, d.size_word_off, d.mask_marker_without_high_bits),
        (1, 2, 1, 1)
    );
    assert_eq!((d.fields_not_empty, d.keys_not_rising, d.rotations_not_unit), (1, 0, 0));
    assert_eq!(clip.warnings.len(), 5, "{:?}", clip.warnings);
    assert_eq!(clip.extras["teleportAtTime"], serde_json::json!([4]));
}

#[test]
fn what_no_writer_can_mean_is_refused() {
    let spec = ClipSpec { length_s: 1.0, tracks: vec![one_track(vec![0, 60], 0)], ..ClipSpec::default() };
    let good = writer::rr_body(&spec);
    let block = good.len() - writer::rr_block(&spec.tracks[0]).len();
    type Damage = fn(&mut Vec<u8>, usize);
    let damages: [(Damage, &str); 5] = [
        (|b, _| b[1..5].copy_from_slice(&f32::NAN.to_le_bytes()), "Length"),
        (|b, _| b[1..5].copy_from_slice(&(-1f32).to_le_bytes()), "Length"),
        (|b, at| b[at] = 3 * 6, "kind 6"),
        (|b, at| b[at + 5..at + 9].fill(0xFF), "key times"),
        (|b, at| b[at - 4] = 2, "2 tracks"),
    ];
    for (damage, part) in damages {
        let mut bytes = good.clone();
        damage(&mut bytes, block);
        let error = read(&rr_object(&bytes)).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }
    // A mask with another number of bits; values that are not finite.
    let mask = ClipSpec { tracks: vec![one_track(vec![0, 3], 2)], ..spec.clone() };
    let mut bytes = writer::rr_body(&mask);
    let at = bytes.len() - 12 - 1;
    bytes[at] |= 0x40;
    let error = read(&rr_object(&bytes)).unwrap_err();
    assert!(error.to_string().contains("a mask of 3 bits"), "{error}");
    for kind in [8, 9] {
        let nan = f64::NAN;
        let keys = if kind == 8 {
            Keys::Quat(vec![[0.0, 0.0, 0.0, 1.0], [0.0, nan, 0.0, 1.0]])
        } else {
            Keys::Vec3(vec![[0.0; 3], [0.0, nan, 0.0]])
        };
        let track = TrackSpec { crc: 1, kind, form: 0, times: vec![0, 1], keys };
        let bytes = writer::rr_body(&ClipSpec { tracks: vec![track], ..spec.clone() });
        let error = read(&rr_object(&bytes)).unwrap_err();
        assert!(error.to_string().contains("not finite"), "{error}");
        assert_eq!(error.offset(), Some(bytes.len() as u64 - 8));
    }
}

#[test]
fn rotations_longer_than_one_are_made_unit_and_reported() {
    let keys = Keys::Quat(vec![[1.5, 0.0, 0.0, 0.0], [0.6, 0.0, 0.0, 0.8]]);
    let track = TrackSpec { crc: 1, kind: 8, form: 0, times: vec![0, 1], keys };
    let bytes = writer::rr_body(&ClipSpec { length_s: 1.0, tracks: vec![track], ..ClipSpec::default() });
    let (clip, census) = read_counted(&rr_object(&bytes)).unwrap();
    assert_sound(&clip);
    assert_eq!(census.anomalies.rotations_not_unit, 1);
    assert!(clip.warnings.iter().any(|w| w.code() == "anvil-rotations-not-unit"));
}

// ---- Skeletons ----

fn rig() -> Vec<BoneSpec> {
    (0..12)
        .map(|i| BoneSpec {
            crc: 0x1000_0000 + i as u32 * 0x0101,
            parent: (i > 0).then(|| (i - 1) / 2),
            position: if i == 0 { [0.0; 3] } else { [0.1 * i as f64, -0.2, 0.05 * i as f64] },
            rotation: turn([1.0, i as f64, 0.5], 17.0 * i as f64),
        })
        .collect()
}

fn skeleton_object(body: &[u8], generation: Generation) -> Object<'_> {
    Object { class: 0x24AE_CB7C, name: "rig".into(), ..self::body(body, generation) }
}

fn assert_rig(skeleton: &Skeleton) {
    let rig = rig();
    assert_eq!(skeleton.joints().len(), rig.len());
    for (joint, spec) in skeleton.joints().iter().zip(&rig) {
        assert_eq!((joint.id, joint.parent, &joint.name), (JointId::Crc32(spec.crc), spec.parent, &None));
        assert_eq!(joint.rest.translation.to_array(), spec.position.map(|v| v as f32));
        assert_eq!(joint.rest.rotation.to_array(), spec.rotation.map(|v| v as f32));
    }
}

#[test]
fn skeletons_are_found_through_drift_and_false_class_words() {
    for drift in [0, 1, 4, 9, 40] {
        let bytes = writer::skeleton64(&rig(), 12, drift);
        assert_rig(&anvil_skeleton::read(&skeleton_object(&bytes, Generation::Ids64)).unwrap());
    }
    let bytes = writer::skeleton32(&rig());
    assert_rig(&anvil_skeleton::read(&skeleton_object(&bytes, Generation::Ids32)).unwrap());
}

#[test]
fn skeletons_that_are_not_proven_are_refused_with_the_reason() {
    let refused = |bytes: &[u8]| {
        anvil_skeleton::read(&skeleton_object(bytes, Generation::Ids64)).unwrap_err().to_string()
    };
    // A count that is not the number of bones.
    let text = refused(&writer::skeleton64(&rig(), 13, 0));
    assert!(text.contains("12 proven bones") && text.contains("the 13"), "{text}");
    // One transform that does not agree: the bone and its children are not proven.
    let mut bytes = writer::skeleton64(&rig(), 12, 0);
    let local = (0..bytes.len() - 4).rfind(|i| bytes[*i..*i + 4] == 0.3f32.to_le_bytes()).unwrap();
    bytes[local..local + 4].copy_from_slice(&0.31f32.to_le_bytes());
    let text = refused(&bytes);
    assert!(text.contains("not proven") && text.contains("parent.global"), "{text}");
    // Two roots.
    let mut two = rig();
    two[5].parent = None;
    let text = refused(&writer::skeleton64(&two, 12, 0));
    assert!(text.contains("2 bones without a parent"), "{text}");
    // A parent that comes later.
    let mut late = rig();
    late[3].parent = Some(11);
    let text = refused(&writer::skeleton64(&late, 12, 0));
    assert!(text.contains("no earlier bone"), "{text}");
    // Nothing at all.
    assert!(refused(&[]).contains("no bone"));
    for bytes in [writer::skeleton64(&rig(), 12, 3), writer::skeleton32(&rig())] {
        torture(&bytes, |bytes| {
            for generation in [Generation::Ids32, Generation::Ids64] {
                let _ = anvil_skeleton::read(&skeleton_object(bytes, generation));
            }
        });
    }
}

// ---- Sets ----

#[test]
fn anim_sets_name_pairs() {
    let mut bytes = vec![1];
    for word in [0x77u32, 0x3198_4F55, 0, 2] {
        bytes.extend(word.to_le_bytes());
    }
    for (a, b) in [(0x9913C1Eu32, 0x3B65984u32), (0x4DEAA32, 0x4DEAA32)] {
        for word in [5, 0x9DE9_A987, a, b] {
            bytes.extend(word.to_le_bytes());
        }
    }
    bytes.push(0);
    fn object(bytes: &[u8]) -> Object<'_> {
        Object { class: 0x3198_4F55, ..sws_object(bytes) }
    }
    let set = anvil_sets::read_anim_set(&object(&bytes)).unwrap();
    assert_eq!((set.id, set.pairs), (0x77, vec![[0x9913C1E, 0x3B65984], [0x4DEAA32, 0x4DEAA32]]));
    torture(&bytes, |bytes| {
        let _ = anvil_sets::read_anim_set(&object(bytes));
    });
    bytes.push(0);
    assert!(anvil_sets::read_anim_set(&object(&bytes)).is_err());
}

#[test]
fn entities_name_clips() {
    let component = 0x8C8A_A19Du32.to_le_bytes();
    // The class word by chance, then a component with a null reference, then one that repeats a clip.
    let mut bytes = [&[0xAA; 9][..], &component, &[0xFF; 20]].concat();
    for ids in [&[Some(0x1CC2534B4u64), None, Some(7)][..], &[Some(7)], &[]] {
        bytes.extend(99u64.to_le_bytes());
        bytes.extend(component);
        bytes.extend([0; 4]);
        bytes.extend((ids.len() as u32).to_le_bytes());
        for id in ids {
            match id {
                Some(id) => bytes.extend([&[1, 1][..], &id.to_le_bytes()].concat()),
                None => bytes.extend([3, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            }
        }
        bytes.extend([0x55; 6]);
    }
    fn object(bytes: &[u8]) -> Object<'_> {
        Object { class: 0x0984_415E, ..rr_object(bytes) }
    }
    assert_eq!(anvil_sets::entity_clips(&object(&bytes)), [0x1CC2534B4, 7]);
    torture(&bytes, |bytes| {
        let _ = anvil_sets::entity_clips(&object(bytes));
    });
}
