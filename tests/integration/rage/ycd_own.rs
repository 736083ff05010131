//! Dictionaries that the project writes itself, through the reader and through the whole program: every value
//! that was packed comes back, and each odd thing is taken as the notes and the issue say. Needs no other folder.

use std::collections::BTreeMap;
use std::ffi::OsString;

use anim2gltf::games::rage::container::rsc7;
use anim2gltf::games::rage::ycd;
use anim2gltf::model::{Clip, JointId, Property as Moves, Track as Curve, Values};
use anim2gltf::source::Clips;
use anim2gltf::{Error, ErrorKind};
use anim2gltf_testkit::glb::Glb;
use anim2gltf_testkit::ycd_writer::{self as own, *};
use serde_json::{Value, json};

const ROOT: u16 = 0;
const PELVIS: u16 = 11816;
const SPINE: u16 = 24816;
const HEAD: u16 = 31086;

fn try_read(bytes: &[u8]) -> Result<Clips, Error> {
    let mut scratch = Vec::new();
    let resource = rsc7::open(bytes, &mut scratch)?;
    ycd::read(&resource, "own.ycd")
}

fn read(dictionary: &Dictionary) -> Clips {
    try_read(&dictionary.to_bytes()).expect("the dictionary is sound")
}

fn dictionary(clips: Vec<own::Clip>, animations: Vec<Animation>) -> Dictionary {
    Dictionary { clips, animations, ..Dictionary::default() }
}

/// The only clip of a dictionary of one animation, played as `plays` says.
fn one_clip(animation: &Animation, plays: Plays) -> Clip {
    let read = read(&dictionary(vec![own::Clip::new("pack:/one.clip", plays)], vec![animation.clone()]));
    assert!(read.errors.is_empty(), "{:?}", read.errors);
    read.clips.into_iter().next().expect("one clip")
}

/// The clip's track of a bone: 0 to 2 and the movers by joint, others by number.
fn find(clip: &Clip, bone: u16, number: u8) -> Option<&Curve> {
    clip.tracks.iter().find(|t| match (t.target.joint, t.target.property) {
        (JointId::RootMotion, Moves::Translation) => (bone, number) == (0, 5),
        (JointId::RootMotion, Moves::Rotation) => (bone, number) == (0, 6),
        (JointId::BoneTag(tag), Moves::Translation) => (bone, number) == (tag, 0),
        (JointId::BoneTag(tag), Moves::Rotation) => (bone, number) == (tag, 1),
        (JointId::BoneTag(tag), Moves::Scale) => (bone, number) == (tag, 2),
        (JointId::BoneTag(tag), Moves::Other(other)) => (bone, number) == (tag, other.number),
        _ => false,
    })
}

/// Seconds and value of each key; a constant has its value at each.
fn keys(clip: &Clip, track: &Curve) -> Vec<(f64, Vec<f64>)> {
    let timeline = clip.timeline(track);
    let value = |i: usize| -> Vec<f64> {
        let i = if track.curve.is_constant() { 0 } else { i };
        match &track.curve.values {
            Values::Vec3(v) => v[i].as_dvec3().to_array().to_vec(),
            Values::Quat(v) => v[i].as_dquat().to_array().to_vec(),
            Values::Scalar(v) => vec![f64::from(v[i])],
            Values::Raw { .. } => panic!("RAGE has no raw tracks"),
        }
    };
    timeline.iter_seconds().enumerate().map(|(i, t)| (t, value(i))).collect()
}

/// Largest difference; of rotations also of the other sign, which is the same rotation.
fn far(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let by = |sign: f64| found.iter().zip(expected).map(|(f, e)| (f - sign * e).abs()).fold(0.0, f64::max);
    if found.len() == 4 { by(1.0).min(by(-1.0)) } else { by(1.0) }
}

/// Holds a whole track against what its writer packed: numbers and vectors to the bit, rotations to f32 rounding.
fn same_as_packed(clip: &Clip, animation: &Animation, track: &own::Track, what: &str) {
    let found = find(clip, track.bone, track.number)
        .unwrap_or_else(|| panic!("{what}: track {} of {}", track.number, track.bone));
    let found = keys(clip, found);
    assert_eq!(found.len(), animation.frames, "{what}: all frames are keys");
    let duration = f64::from(animation.duration_s);
    for (i, (t, value)) in found.iter().enumerate() {
        let at = if animation.frames > 1 { i as f64 * duration / (animation.frames - 1) as f64 } else { 0.0 };
        assert!((t - at).abs() < 1e-12, "{what}: key {i} at {t}, expected {at}");
        let allowed = if value.len() == 4 { 1e-7 } else { 0.0 };
        let expected = track.value(i);
        assert!(
            far(value, &expected) <= allowed,
            "{what}: track {} of {}, frame {i}: {value:?}, packed {expected:?}",
            track.number,
            track.bone
        );
        if let Some((_, before)) = i.checked_sub(1).map(|i| &found[i]).filter(|_| value.len() == 4) {
            let dot: f64 = before.iter().zip(value).map(|(a, b)| a * b).sum();
            assert!(dot >= 0.0, "{what}: the sign flips at frame {i}");
        }
    }
}

/// A few hundred dictionaries of any shape: blocks, chunks, buckets, codings, containers.
#[test]
fn all_that_is_packed_comes_back() {
    for seed in 0..150 {
        let mut random = Random::new(seed);
        let mut animations = Vec::new();
        for a in 0..1 + random.below(3) {
            let frames = [1, 2, 3, 17, 40, 64, 65, 129, 200][random.below(9)];
            let mut tracks = Vec::new();
            for bone in [ROOT, PELVIS, SPINE, HEAD, 64000].into_iter().take(1 + random.below(5)) {
                for (number, format) in
                    [(0, Format::Vector3), (1, Format::Quaternion), (2, Format::Vector3), (24, Format::Float)]
                {
                    if random.below(3) > 0 {
                        tracks.push(random_track(&mut random, bone, number, format, frames));
                    }
                }
            }
            tracks.push(random_track(&mut random, ROOT, 5, Format::Vector3, frames));
            tracks.push(random_track(&mut random, ROOT, 6, Format::Quaternion, frames));
            tracks.push(random_track(&mut random, ROOT, 134, Format::Float, frames));
            // The order of tracks is the file's own: the index is what channels point at.
            for i in (1..tracks.len()).rev() {
                tracks.swap(i, random.below(i + 1));
            }
            let mut animation = Animation::new(&format!("animation{a}"), frames, tracks);
            animation.limit = [15, 31, 47, 127, 300][random.below(5)];
            animation.chunk = [1, 8, 16, 64][random.below(4)];
            animation.spare_delta = random.below(2) == 0;
            if random.below(2) == 0 {
                animation.duration_s *= 1.25;
            }
            animations.push(animation);
        }
        let clips: Vec<own::Clip> = (0..animations.len() + random.below(3))
            .map(|i| own::Clip::whole(&format!("pack:/clip{i}.clip"), &animations[i % animations.len()]))
            .collect();
        let options = Options {
            headerless: random.below(4) == 0,
            trailing: vec![0xA5; random.below(9)],
            buckets: (random.below(2) == 0).then_some(1 + random.below(3) as u16),
            page_shift: random.below(6) as u32,
            ..Options::default()
        };
        let dictionary = Dictionary { clips, animations, options };
        let read = read(&dictionary);
        assert!(read.errors.is_empty(), "{seed}: {:?}", read.errors);
        assert_eq!(read.clips.len(), dictionary.clips.len(), "{seed}");
        for clip in &dictionary.clips {
            let Plays::One(part) = &clip.plays else { unreachable!() };
            let animation =
                dictionary.animations.iter().find(|a| a.hash == part.animation).expect("its animation");
            let found = read.clips.iter().find(|c| c.id.value == u64::from(clip.hash)).expect("the clip");
            assert_eq!((&found.name, found.game), (&clip.name, "GTAV"));
            assert_eq!(found.length_s, f64::from(animation.duration_s), "{seed}");
            assert_eq!(found.warnings, [], "{seed}");
            for track in &animation.tracks {
                same_as_packed(found, animation, track, &format!("seed {seed} {}", clip.name));
            }
        }
    }
}

#[test]
fn chains_of_buckets_are_walked_to_their_end() {
    let animations: Vec<Animation> = (0..12)
        .map(|i| Animation::new(&format!("a{i}"), 2, vec![Track::constant(ROOT, 0, [i as f32, 0.0, 0.0])]))
        .collect();
    let clips: Vec<own::Clip> =
        animations.iter().enumerate().map(|(i, a)| own::Clip::whole(&format!("c{i}.clip"), a)).collect();
    for buckets in [1, 3, 11] {
        let mut dictionary = dictionary(clips.clone(), animations.clone());
        dictionary.options.buckets = Some(buckets);
        let read = read(&dictionary);
        assert_eq!((read.clips.len(), read.errors.len(), read.notes.len()), (12, 0, 0));
        for (i, clip) in clips.iter().enumerate() {
            let found = read.clips.iter().find(|c| c.short_name == format!("c{i}")).expect("the clip");
            assert_eq!(found.id.to_string(), format!("{:08X}", clip.hash));
            let x = keys(found, find(found, ROOT, 0).expect("a track"))[0].1[0];
            assert_eq!(x, i as f64, "the clip plays its own animation");
        }
    }
    let mut circle = dictionary(clips, animations);
    circle.options = Options { buckets: Some(1), cycle: true, ..Options::default() };
    let error = try_read(&circle.to_bytes()).expect_err("a chain without an end");
    assert_eq!(error.kind(), ErrorKind::Malformed);
    assert!(error.offset().is_some() && error.to_string().contains("second time"), "{error}");
}

#[test]
fn parts_of_a_list_keep_their_own_keys() {
    let mut random = Random::new(7);
    let fast = Animation::new("fast", 31, vec![random_track(&mut random, PELVIS, 1, Format::Quaternion, 31)]);
    let mut slow =
        Animation::new("slow", 16, vec![random_track(&mut random, HEAD, 1, Format::Quaternion, 16)]);
    // Ten a second, 1.5 s, of which the list plays the first.
    slow.duration_s = 1.5;
    let parts =
        vec![Part::whole(&fast), Part { animation: slow.hash, start_s: 0.0, end_s: 1.02, rate: 1.02 }];
    let clips = vec![own::Clip::new("pack:/two.clip", Plays::List(parts, 1.0))];
    let read = read(&dictionary(clips, vec![fast.clone(), slow.clone()]));
    let clip = &read.clips[0];
    assert_eq!(clip.warnings, []);
    assert_eq!(clip.length_s, 1.0);
    let fast_keys = keys(clip, find(clip, PELVIS, 1).expect("a track"));
    assert_eq!(fast_keys.len(), 31);
    assert!((fast_keys[1].0 - 1.0 / 30.0).abs() < 1e-9 && fast_keys[30].0 == 1.0);
    // Keys at 0, 0.1 .. 1.0 s of the part, and one between keys at its end, 1.02 s, which is 1 s of the clip.
    let slow_keys = keys(clip, find(clip, HEAD, 1).expect("a track"));
    assert_eq!(slow_keys.len(), 12);
    for (i, (t, value)) in slow_keys[..11].iter().enumerate() {
        assert!((t - i as f64 * 0.1 / 1.02).abs() < 1e-7, "{i}: {t}");
        assert!(far(value, &slow.tracks[0].value(i)) < 1e-7);
    }
    assert_eq!(slow_keys[11].0, 1.0);
}

#[test]
fn of_equal_tracks_one_stays_and_of_unequal_ones_the_first() {
    let values: Vec<[f32; 3]> = (0..11).map(|i| [i as f32, 0.0, 0.0]).collect();
    let other: Vec<[f32; 3]> = (0..11).map(|i| [0.0, i as f32, 0.0]).collect();
    let a =
        Animation::new("a", 11, vec![Track::vectors(ROOT, 0, &values), Track::constant(HEAD, 0, [1.0; 3])]);
    let b =
        Animation::new("b", 11, vec![Track::vectors(ROOT, 0, &values), Track::constant(HEAD, 0, [1.0; 3])]);
    let c =
        Animation::new("c", 11, vec![Track::vectors(ROOT, 0, &other), Track::constant(HEAD, 0, [1.0; 3])]);
    let length = a.duration_s;
    let list = |name: &str, x: &Animation, y: &Animation| {
        own::Clip::new(name, Plays::List(vec![Part::whole(x), Part::whole(y)], length))
    };
    let clips = vec![list("equal.clip", &a, &b), list("first.clip", &a, &c), list("second.clip", &c, &a)];
    let read = read(&dictionary(clips, vec![a, b, c]));
    let by_name: BTreeMap<&str, &Clip> = read.clips.iter().map(|c| (c.short_name.as_str(), c)).collect();
    for (name, at_one, warned) in
        [("equal", [1.0, 0.0, 0.0], 0), ("first", [1.0, 0.0, 0.0], 1), ("second", [0.0, 1.0, 0.0], 1)]
    {
        let clip = by_name[name];
        assert_eq!(clip.tracks.len(), 2, "{name}");
        assert_eq!(keys(clip, find(clip, ROOT, 0).expect("a track"))[1].1, at_one, "{name}");
        assert_eq!(clip.warnings.len(), warned, "{name}: {:?}", clip.warnings);
        assert!(
            clip.warnings.iter().map(|w| w.to_string()).all(|w| w.contains("0:0") && !w.contains("31086")),
            "{:?}",
            clip.warnings
        );
    }
}

/// Frame i at i / 30 s with x = i: a value says where in the animation it was taken.
fn ruler(frames: usize) -> Animation {
    let values: Vec<[f32; 3]> = (0..frames).map(|i| [i as f32, 0.0, 0.0]).collect();
    Animation::new("ruler", frames, vec![Track::vectors(ROOT, 0, &values)])
}

#[test]
fn window_edges() {
    let animation = ruler(31);
    // Begin, end, rate; then the first two and the last two keys: seconds of the clip, frame of the animation.
    #[allow(clippy::type_complexity)]
    let cases: [(f32, f32, f32, [(f64, f64); 4]); 7] = [
        // On keys but for f32 rounding.
        (0.1, 0.5, 1.0, [(0.0, 3.0), (1.0 / 30.0, 4.0), (11.0 / 30.0, 14.0), (0.4, 15.0)]),
        // A key 0.05 ms inside or outside of an edge is the edge.
        (0.10005, 0.50005, 1.0, [(0.0, 3.0), (0.03328333, 4.0), (0.36661667, 14.0), (0.4, 15.0)]),
        (0.09995, 0.49995, 1.0, [(0.0, 3.0), (0.03338333, 4.0), (0.36671667, 14.0), (0.4, 15.0)]),
        // 0.2 ms is too far: one is interpolated at the edge, 0.006 frames from the key.
        (0.1002, 0.4998, 1.0, [(0.0, 3.006), (0.03313333, 4.0), (0.36646667, 14.0), (0.3996, 14.994)]),
        (0.0998, 0.5002, 1.0, [(0.0, 2.994), (0.0002, 3.0), (0.4002, 15.0), (0.4004, 15.006)]),
        // Twice as fast.
        (0.1, 0.5, 2.0, [(0.0, 3.0), (1.0 / 60.0, 4.0), (11.0 / 60.0, 14.0), (0.2, 15.0)]),
        // All of it.
        (0.0, 1.0, 1.0, [(0.0, 0.0), (1.0 / 30.0, 1.0), (29.0 / 30.0, 29.0), (1.0, 30.0)]),
    ];
    for (start_s, end_s, rate, expected) in cases {
        let clip = one_clip(&animation, Plays::One(Part { animation: animation.hash, start_s, end_s, rate }));
        assert_eq!(clip.warnings, []);
        let length = (f64::from(end_s) - f64::from(start_s)) / f64::from(rate);
        assert!((clip.length_s - length).abs() < 1e-12);
        let keys = keys(&clip, find(&clip, ROOT, 0).expect("a track"));
        assert_eq!(keys[0].0, 0.0, "the first key stands at exactly 0");
        assert_eq!(keys[keys.len() - 1].0, clip.length_s, "the last at exactly the length");
        let n = keys.len();
        for (key, (t, frame)) in [0, 1, n - 2, n - 1].into_iter().zip(expected) {
            assert!(
                (keys[key].0 - t).abs() < 1e-6,
                "{start_s}..{end_s}: key {key} at {}, not {t}",
                keys[key].0
            );
            assert!(
                (keys[key].1[0] - frame).abs() < 1e-5,
                "{start_s}..{end_s}: key {key}: {:?}",
                keys[key].1
            );
        }
    }
}

/// Where the record makes no sense, the whole animation at its own speed; where it goes on too far, to the end.
#[test]
fn odd_windows() {
    let animation = ruler(31);
    for (start_s, end_s, rate, length, warned) in [
        (0.0, 0.0, 0.0, 1.0, true),
        (0.0, 1.0, 0.0, 1.0, true),
        (0.0, 1.0, -1.0, 1.0, true),
        (0.7, 0.2, 1.0, 1.0, true),
        (0.0, f32::NAN, 1.0, 1.0, true),
        (f32::INFINITY, f32::INFINITY, 1.0, 1.0, true),
        (2.0, 3.0, 1.0, 1.0, true),
        (0.5, 1.0 + 1.0 / 30.0, 1.0, 0.5, true),
        (0.0, 1.00005, 1.0, 1.0, false),
        (0.0, 1.0, 1.0 / 24.0, 24.0, false),
    ] {
        let clip = one_clip(&animation, Plays::One(Part { animation: animation.hash, start_s, end_s, rate }));
        assert!((clip.length_s - length).abs() < 1e-5, "{start_s}..{end_s} x{rate}: {}", clip.length_s);
        assert_eq!(!clip.warnings.is_empty(), warned, "{start_s}..{end_s} x{rate}: {:?}", clip.warnings);
        let keys = keys(&clip, find(&clip, ROOT, 0).expect("a track"));
        assert_eq!(keys[keys.len() - 1].0, clip.length_s);
        assert_eq!(keys[keys.len() - 1].1[0], 30.0);
    }
}

#[test]
fn single_frames_and_animations_without_duration() {
    let pose = Animation::new("pose", 1, vec![Track::constant(ROOT, 0, [1.0, 2.0, 3.0])]);
    let clip = one_clip(&pose, Plays::One(Part::whole(&pose)));
    assert_eq!((clip.length_s, clip.warnings.len()), (0.0, 0));
    assert_eq!(keys(&clip, &clip.tracks[0]), [(0.0, vec![1.0, 2.0, 3.0])]);
    // Two frames in no time: the first is the pose, and the report says so.
    let mut two = ruler(2);
    two.duration_s = 0.0;
    let clip = one_clip(&two, Plays::One(Part::whole(&two)));
    assert_eq!(keys(&clip, &clip.tracks[0]), [(0.0, vec![0.0, 0.0, 0.0])]);
    assert_eq!(clip.warnings.len(), 1, "{:?}", clip.warnings);
}

/// The reconstructed component where the stored squares sum to more than 1, and in every place.
#[test]
fn cached_quaternions_of_every_component() {
    for q in 0..4 {
        let n: Vec<u32> = (0..50).collect();
        let component = |quantum: f32, offset: f32| Channel::Quantised { n: n.clone(), quantum, offset };
        // Up to 0.58 each: the sum of squares passes 1 at the end.
        let channels = vec![
            component(0.0116, 0.01),
            component(-0.0116, 0.0),
            component(0.0117, 0.006),
            Channel::Cached1(q),
        ];
        let animation = Animation::new("q", 50, vec![Track::new(SPINE, 1, Format::Quaternion, channels)]);
        let clip = one_clip(&animation, Plays::One(Part::whole(&animation)));
        same_as_packed(&clip, &animation, &animation.tracks[0], &format!("q {q}"));
        let last = &keys(&clip, &clip.tracks[0])[49].1;
        assert!(last[usize::from(q)].abs() < 0.15, "{last:?}");
    }
}

/// Notes, 5: with more than 15 references the count byte wraps, and with it the offset of the references.
#[test]
fn junk_movers_are_reported_and_their_wrapped_counts_accepted() {
    let mut random = Random::new(3);
    let mut tracks = vec![random_track(&mut random, PELVIS, 1, Format::Quaternion, 20)];
    for bone in [ROOT, PELVIS, SPINE, HEAD, 64729, 10706, 58271, 51826, 63931] {
        tracks.push(random_track(&mut random, bone, 5, Format::Vector3, 20));
        tracks.push(random_track(&mut random, bone, 6, Format::Quaternion, 20));
    }
    let animation = Animation::new("junk", 20, tracks);
    let clip = one_clip(&animation, Plays::One(Part::whole(&animation)));
    for track in &animation.tracks[..3] {
        same_as_packed(&clip, &animation, track, "junk");
    }
    assert_eq!(clip.tracks.len(), 3, "the pelvis, and bone 0's mover");
    assert!(clip.warnings.iter().any(|w| w.code() == "rage-references-wrapped"), "{:?}", clip.warnings);
    let junk = clip.warnings.iter().find(|w| w.code() == "rage-mover-tracks-astray").expect("reported");
    let junk = junk.to_string();
    assert!(["11816", "24816", "31086", "8 bones"].iter().all(|t| junk.contains(t)), "{junk}");
}

#[test]
fn a_short_last_block_holds_its_last_frame() {
    let mut animation = ruler(40);
    animation.limit = 15;
    animation.last_block_short_by = 4;
    let clip = one_clip(&animation, Plays::One(Part::whole(&animation)));
    assert!(clip.warnings.iter().any(|w| w.to_string().contains("4 frames short")), "{:?}", clip.warnings);
    let x: Vec<f64> = keys(&clip, &clip.tracks[0]).iter().map(|k| k.1[0]).collect();
    let expected: Vec<f64> = (0..40).map(|i| f64::from(i.min(35))).collect();
    assert_eq!(x, expected);
}

#[test]
fn tags_and_properties_of_every_type() {
    let animation = ruler(31);
    let mut clip = own::Clip::whole("pack:/tags.clip", &animation);
    let attributes = [
        ("allowed", own::Value::Float(0.25)),
        ("audio", own::Value::Int(-7)),
        ("heel", own::Value::Bool(true)),
        ("event", own::Value::String("bang \"x\"".to_owned())),
        ("left", own::Value::Vector3([1.0, -2.0, 0.5])),
        ("right", own::Value::Vector4([0.0, 0.0, 0.5, 1.0])),
        ("id", own::Value::HashString(joaat("facial"))),
        ("block", own::Value::HashString(0xDEAD_BEEF)),
        ("nobody knows", own::Value::Other(5, [0xAB; 16])),
    ];
    let tag = |name: &str, a, b| Tag {
        property: own::Property::new(name, &attributes),
        start_phase: a,
        end_phase: b,
    };
    clip.tags = vec![tag("foot", 0.5, 0.75), tag("nobody knows", 0.25, 0.25)];
    clip.properties = vec![
        own::Property::new("initialoffsetposition", &attributes[4..5]),
        own::Property::new("initialoffsetrotation", &attributes[5..6]),
    ];
    let read = read(&dictionary(vec![clip], vec![animation]));
    let clip = &read.clips[0];
    let hash = format!("hash_{:08X}", joaat("nobody knows"));
    // Tags in the order of time; phases are of the clip's length, 1 s.
    assert_eq!(clip.events.len(), 2);
    assert_eq!(
        (clip.events[0].name.as_str(), clip.events[0].start_s, clip.events[0].end_s),
        (hash.as_str(), 0.25, 0.25)
    );
    assert_eq!(
        (clip.events[1].name.as_str(), clip.events[1].start_s, clip.events[1].end_s),
        ("foot", 0.5, 0.75)
    );
    let expected = json!({
        "allowed": 0.25, "audio": -7, "heel": true, "event": "bang \"x\"",
        "left": [1.0, -2.0, 0.5], "right": [0.0, 0.0, 0.5, 1.0],
        "id": "facial", "block": "hash_DEADBEEF",
        hash: { "type": 5, "bytes": "AB".repeat(16) },
    });
    assert_eq!(Value::Object(clip.events[1].attributes.clone()), expected);
    assert_eq!(clip.extras["properties"]["initialoffsetposition"], json!({ "left": [1.0, -2.0, 0.5] }));
    assert_eq!(clip.extras["properties"]["initialoffsetrotation"], json!({ "right": [0.0, 0.0, 0.5, 1.0] }));
}

/// The format field rules, not the table of track numbers.
#[test]
fn a_track_of_another_format_than_its_number_is_kept_beside() {
    let animation = Animation::new("odd", 3, vec![Track::floats(PELVIS, 0, &[1.0, 2.0, 3.0])]);
    let clip = one_clip(&animation, Plays::One(Part::whole(&animation)));
    assert!(matches!(clip.tracks[0].target.property, Moves::Other(other) if other.number == 0));
    assert_eq!(clip.tracks[0].curve.values, Values::Scalar(vec![1.0, 2.0, 3.0]));
}

#[test]
fn a_clip_without_its_animation_is_an_error_of_its_own() {
    let animation = ruler(5);
    let mut lost = own::Clip::whole("pack:/lost.clip", &animation);
    lost.plays = Plays::One(Part { animation: 1, start_s: 0.0, end_s: 1.0, rate: 1.0 });
    let read = read(&dictionary(
        vec![lost.clone(), own::Clip::whole("pack:/good.clip", &animation)],
        vec![animation],
    ));
    assert_eq!(read.clips.len(), 1);
    assert_eq!(read.errors.len(), 1);
    let text = read.errors[0].to_string();
    assert!(text.contains(&format!("clip {:08X}", lost.hash)) && text.contains("0x"), "{text}");
}

#[test]
fn what_is_no_dictionary_is_refused_by_name() {
    let animation = ruler(3);
    let mut dictionary = dictionary(vec![own::Clip::whole("a.clip", &animation)], vec![animation]);
    dictionary.options.version = 165;
    let error = try_read(&dictionary.to_bytes()).expect_err("a drawable");
    assert_eq!((error.kind(), error.offset()), (ErrorKind::Unsupported, Some(4)));
    assert!(error.to_string().contains("165") && error.to_string().contains("46"), "{error}");
    let error = try_read(b"FXAP\x01\0\0\0 and more of what cannot be read").expect_err("encrypted");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("escrow"), "{error}");
}

/// Runs the program on `dictionary` as `own.ycd`; the file that it writes and its manifest.
fn convert(dictionary: &Dictionary) -> (Glb, Value) {
    let folder = tempfile::tempdir().expect("a folder");
    let input = folder.path().join("own.ycd");
    std::fs::write(&input, dictionary.to_bytes()).expect("written");
    let out = folder.path().join("out");
    let arguments: [OsString; 5] =
        ["anim2gltf".into(), input.into(), "-o".into(), out.clone().into(), "-q".into()];
    assert_eq!(anim2gltf::cli::run(arguments), std::process::ExitCode::SUCCESS);
    let glb = Glb::open(&std::fs::read(out.join("own.glb")).expect("written"));
    let manifest = serde_json::from_slice(&std::fs::read(out.join("manifest.json")).expect("written"));
    (glb, manifest.expect("JSON"))
}

fn animation<'a>(glb: &'a Glb, name: &str) -> gltf::Animation<'a> {
    glb.document.animations().find(|a| a.name() == Some(name)).unwrap_or_else(|| panic!("{name} is there"))
}

fn face() -> Animation {
    let values: Vec<f32> = (0..16).map(|i| i as f32 / 15.0).collect();
    let mut random = Random::new(4);
    Animation::new(
        "face",
        16,
        vec![
            Track::floats(65068, 24, &values),
            Track::constant(65068, 25, [0.1, 0.2, 0.3]),
            random_track(&mut random, 65068, 26, Format::Quaternion, 16),
            Track::floats(ROOT, 22, &values),
        ],
    )
}

/// A fifth of the game's clips are faces only: each is an animation, of the right length, and moves nothing.
#[test]
fn a_face_alone_is_an_animation_of_its_length() {
    let face = face();
    let (glb, manifest) = convert(&dictionary(vec![own::Clip::whole("pack:/face.clip", &face)], vec![face]));
    let shown = animation(&glb, "face");
    let channels = glb.channels(&shown);
    assert_eq!(channels.len(), 1);
    let ((node, path), keys) = channels.iter().next().expect("one");
    let root = glb.document.scenes().next().expect("a scene").nodes().next().expect("a root");
    assert_eq!((*node, *path), (root.index(), "translation"), "the root joint");
    assert_eq!(keys.times, [0.0, 0.5]);
    let rest = root.transform().decomposed().0.to_vec();
    assert_eq!(keys.values, [rest.clone(), rest]);
    // Its tracks stand beside it, in the file and, by name, in the manifest.
    let extras = Glb::extras(&shown);
    let tracks = extras["tracks"].as_array().expect("tracks");
    let named: Vec<(u64, u64, &str)> = tracks
        .iter()
        .map(|t| {
            let name = t["name"].as_str().expect("a name");
            (t["bone"].as_u64().expect("bone"), t["track"].as_u64().expect("track"), name)
        })
        .collect();
    assert_eq!(
        named,
        [
            (65068, 24, "facialControl"),
            (65068, 25, "facialTranslation"),
            (65068, 26, "facialRotation"),
            (0, 22, "visemes")
        ]
    );
    assert_eq!(tracks[0]["values"].as_array().expect("values").len(), 16);
    assert_eq!(tracks[0]["times"][15], 0.5);
    assert_eq!(manifest["clips"][0]["tracksKept"].as_array().expect("kept").len(), 4);
}

/// Viewers keep the pose of the clip before where a clip has no key: joints that others move are keyed at rest.
#[test]
fn joints_that_other_clips_move_are_keyed_at_rest() {
    let mut random = Random::new(9);
    let body = Animation::new(
        "body",
        16,
        vec![
            random_track(&mut random, HEAD, 1, Format::Quaternion, 16),
            Track::vectors(PELVIS, 0, &(0..16).map(|i| [0.0, 0.0, i as f32 * 0.01]).collect::<Vec<_>>()),
            Track::vectors(ROOT, 5, &(0..16).map(|i| [0.0, i as f32 * 0.1, 0.0]).collect::<Vec<_>>()),
            Track::constant(64000, 2, [2.0; 3]),
        ],
    );
    let face = face();
    let clips = vec![own::Clip::whole("pack:/body.clip", &body), own::Clip::whole("pack:/face.clip", &face)];
    let (glb, _) = convert(&dictionary(clips, vec![body, face]));
    let moved = glb.channels(&animation(&glb, "body"));
    let still = glb.channels(&animation(&glb, "face"));
    let mut expected: Vec<(usize, &str)> = vec![
        (glb.nodes["SKEL_Head"], "rotation"),
        (glb.nodes["SKEL_Pelvis"], "translation"),
        (glb.nodes["root_motion"], "translation"),
        (glb.nodes["tag_64000"], "scale"),
    ];
    expected.sort_unstable();
    for channels in [&moved, &still] {
        let mut found: Vec<(usize, &str)> = channels.keys().copied().collect();
        found.sort_unstable();
        assert_eq!(found, expected);
    }
    let mut held = 0;
    for ((node, path), keys) in &still {
        let node = glb.document.nodes().nth(*node).expect("a node");
        let (t, r, s) = node.transform().decomposed();
        let rest = match *path {
            "translation" => t.to_vec(),
            "rotation" => r.to_vec(),
            _ => s.to_vec(),
        };
        assert_eq!(keys.times[0], 0.0);
        assert!(keys.values.iter().all(|v| *v == rest), "{:?} {path}", node.name());
        held += keys.times.len() - 1;
    }
    assert_eq!(held, 1, "one of them says where the clip ends");
    // The mover's joint is the parent of the skeleton's root.
    let root_motion = glb.document.nodes().nth(glb.nodes["root_motion"]).expect("a node");
    let children: Vec<&str> = root_motion.children().filter_map(|n| n.name()).collect();
    assert_eq!(children, ["SKEL_ROOT"]);
}

#[test]
fn animation_names_are_unique_within_63_bytes() {
    let animation = ruler(3);
    let long = format!("{}é_and_more_that_is_cut", "x".repeat(61));
    let mut clips = vec![
        own::Clip::whole("pack:/one/walk.clip", &animation),
        own::Clip::whole("pack:\\two\\walk.base.clip", &animation),
        own::Clip::whole(&format!("pack:/{long}.clip"), &animation),
        own::Clip::whole(&format!("pack:/{long}2.clip"), &animation),
    ];
    // Equal short names have equal hashes; these come from two tools.
    clips[1].hash = 0x1234_5678;
    let (glb, manifest) = convert(&dictionary(clips, vec![animation]));
    let mut names: Vec<&str> = glb.document.animations().filter_map(|a| a.name()).collect();
    names.sort_unstable();
    let (cut, second) = (format!("{}é", "x".repeat(61)), format!("{}~2", "x".repeat(61)));
    assert_eq!(names, ["walk", "walk~2", &second, &cut]);
    assert!(names.iter().all(|n| n.len() <= 63));
    // The whole names and the ids are in the extras, and the manifest says which animation is which.
    for row in manifest["clips"].as_array().expect("rows") {
        let shown = self::animation(&glb, row["animation"].as_str().expect("a name"));
        let extras = Glb::extras(&shown);
        assert_eq!((&extras["name"], &extras["id"]), (&row["name"], &row["id"]));
        assert_eq!(extras["source"], "own.ycd");
    }
}
