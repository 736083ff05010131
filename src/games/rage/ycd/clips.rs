//! Records and decoded tracks to [`Clip`]s: windows, lists, movers, events.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::error::{Error, ErrorKind, Result};
use crate::games::rage::container::rsc7::Resource;
use crate::games::rage::names as rage;
use crate::games::rage::ycd::animation::{Decoded, Scratch, decode};
use crate::games::rage::ycd::dictionary;
use crate::games::rage::ycd::dictionary::{
    Animation, AttributeValue, ClipProperty, ClipRecord, Dictionary, Part, TrackFormat, TrackId,
};
use crate::games::rage::ycd::sequence::Coding;
use crate::model::{
    Clip, ClipId, Clock, Curve, EDGE_S, Event, Interpolation, Joint, JointId, OtherTrack, Positions,
    Property, Skeleton, Target, Timeline, Track, Trs, Values, Warning, WarningKind, Window,
};
use crate::source::Clips;

/// The game's name in extras and manifest.
pub const GAME: &str = "GTAV";

/// Mover translation and rotation.
const MOVER: [u8; 2] = [5, 6];

/// Tags of `SKEL_Pelvis` and `SKEL_Spine_Root`.
const PELVIS: u16 = 11816;
const SPINE_ROOT: u16 = 57597;

/// Counts of a dictionary, for the census.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Census {
    /// Clips.
    pub clips: u64,
    /// Animations.
    pub animations: u64,
    /// Sequence blocks whose boundaries are strict.
    pub sequences_strict: u64,
    /// Sequence blocks with the one known deviation.
    pub sequences_deviating: u64,
    /// Tracks by track number.
    pub tracks: BTreeMap<u8, u64>,
    /// Channels by type.
    pub channels: BTreeMap<u8, u64>,
    /// Tracks x frames.
    pub track_frames: u64,
}

impl Census {
    /// Counts `dictionary`.
    pub fn of(dictionary: &Dictionary<'_>) -> Self {
        let mut census = Census {
            clips: dictionary.clips.len() as u64,
            animations: dictionary.animations.len() as u64,
            ..Census::default()
        };
        for animation in &dictionary.animations {
            census.track_frames += animation.tracks.len() as u64 * u64::from(animation.frames);
            for track in &animation.tracks {
                *census.tracks.entry(track.track).or_default() += 1;
            }
            for sequence in &animation.sequences {
                if sequence.wrapped_counts {
                    census.sequences_deviating += 1;
                } else {
                    census.sequences_strict += 1;
                }
                for channel in &sequence.channels {
                    let kind = match channel.coding {
                        Coding::StaticQuaternion(_) => 0,
                        Coding::StaticVector3(_) => 1,
                        Coding::StaticFloat(_) => 2,
                        Coding::RawFloat { .. } | Coding::Values(_) => 3,
                        Coding::Quantised { .. } => 4,
                        Coding::Indirect { .. } => 5,
                        Coding::Linear { .. } => 6,
                        Coding::CachedQuaternion1 => 7,
                        Coding::CachedQuaternion2 => 8,
                    };
                    *census.channels.entry(kind).or_default() += 1;
                }
            }
        }
        census
    }

    /// Adds the counts of another dictionary.
    pub fn add(&mut self, other: &Census) {
        self.clips += other.clips;
        self.animations += other.animations;
        self.sequences_strict += other.sequences_strict;
        self.sequences_deviating += other.sequences_deviating;
        self.track_frames += other.track_frames;
        for (k, n) in &other.tracks {
            *self.tracks.entry(*k).or_default() += n;
        }
        for (k, n) in &other.channels {
            *self.channels.entry(*k).or_default() += n;
        }
    }
}

/// Reads a dictionary's clips. `source` becomes [`Clip::source`].
///
/// # Errors
/// As [`dictionary::read`]. Errors of single clips go to [`Clips::errors`].
pub fn read(resource: &Resource<'_>, source: &str) -> Result<Clips> {
    assemble(dictionary::read(resource)?, source)
}

/// Makes the clips of a dictionary's records.
///
/// # Errors
/// None; the signature leaves room for limits.
pub fn assemble(dictionary: Dictionary<'_>, source: &str) -> Result<Clips> {
    let mut out = Clips { notes: dictionary.notes, ..Clips::default() };
    let mut scratch = Scratch::default();
    let mut failed: FxHashMap<u32, String> =
        dictionary.errors.iter().map(|(hash, e)| (*hash, e.to_string())).collect();
    out.errors.extend(dictionary.errors.into_iter().map(|(_, e)| e));
    let mut parts: FxHashMap<u32, usize> = FxHashMap::default();
    for part in dictionary.clips.iter().flat_map(|c| &c.parts) {
        *parts.entry(part.animation).or_default() += 1;
    }
    let mut used: FxHashMap<u32, SharedAnimation> = FxHashMap::default();
    for animation in &dictionary.animations {
        if used.contains_key(&animation.hash) {
            out.notes.push(format!("animation {:08X} is there twice: the first is used", animation.hash));
            continue;
        }
        match decode(animation, |i| !is_stray_mover(animation.tracks[i]), &mut scratch) {
            Ok(decoded) => {
                let left = parts.get(&animation.hash).copied().unwrap_or_default();
                used.insert(animation.hash, SharedAnimation { animation, decoded, uses: 0, left });
            }
            Err(e) => {
                let e = e.in_entry(format!("animation {:08X}", animation.hash));
                failed.insert(animation.hash, e.to_string());
                out.errors.push(e);
            }
        }
    }
    for record in &dictionary.clips {
        match clip(record, &mut used, source) {
            Ok(clip) => out.clips.push(clip),
            Err(missing) => {
                let reason = failed.get(&missing).map_or("it is not in the dictionary", String::as_str);
                out.errors.push(
                    Error::new(
                        ErrorKind::Malformed,
                        format!("its animation {missing:08X} cannot be used: {reason}"),
                    )
                    .in_entry(format!("clip {:08X} \"{}\"", record.hash, record.name)),
                );
            }
        }
    }
    let mut unused: Vec<u32> = used.values().filter(|u| u.uses == 0).map(|u| u.animation.hash).collect();
    unused.sort_unstable();
    if !unused.is_empty() {
        let list: Vec<String> = unused.iter().map(|h| format!("{h:08X}")).collect();
        out.notes.push(format!("no clip plays these animations: {}", list.join(", ")));
    }
    out.clips.sort_by(|a, b| (&a.name, a.id).cmp(&(&b.name, b.id)));
    Ok(out)
}

struct SharedAnimation<'a, 'b> {
    animation: &'b Animation<'a>,
    decoded: Decoded,
    uses: usize,
    /// How many parts of clips still need the values. The last one takes them without a copy.
    left: usize,
}

/// Whether the track is a mover of a bone other than 0. Tools write these; they mean nothing (docs/formats/rage.md,
/// section 6).
fn is_stray_mover(track: TrackId) -> bool {
    MOVER.contains(&track.track) && track.bone != 0
}

fn target(id: TrackId) -> Target {
    let joint = JointId::BoneTag(id.bone);
    let other = Property::Other(OtherTrack { number: id.track, name: rage::track_name(id.track) });
    let (joint, property) = match (id.track, id.format) {
        (0, TrackFormat::Vector3) => (joint, Property::Translation),
        (1, TrackFormat::Quaternion) => (joint, Property::Rotation),
        (2, TrackFormat::Vector3) => (joint, Property::Scale),
        (5, TrackFormat::Vector3) if id.bone == 0 => (JointId::RootMotion, Property::Translation),
        (6, TrackFormat::Quaternion) if id.bone == 0 => (JointId::RootMotion, Property::Rotation),
        _ => (joint, other),
    };
    Target { joint, property }
}

static WINDOW_SENSELESS: WarningKind = WarningKind {
    code: "rage-window-senseless",
    text: "the playback window is {start_s} to {end_s} s at rate {rate}: the whole animation is taken",
};
static WINDOW_ENDS_LATE: WarningKind = WarningKind {
    code: "rage-window-ends-late",
    text: "the playback window ends at {end_s} s, after the animation's {duration_s} s: cut there",
};
static WINDOW_BEGINS_LATE: WarningKind = WarningKind {
    code: "rage-window-begins-late",
    text: "the playback window begins at {start_s} s, after the animation's {duration_s} s: the whole animation is taken",
};
static LIST_DURATION: WarningKind = WarningKind {
    code: "rage-list-duration",
    text: "the list says {list_s} s and its longest part lasts {longest_s} s: the part is believed",
};
static REFERENCES_WRAPPED: WarningKind = WarningKind {
    code: "rage-references-wrapped",
    text: "animation {animation:08X}: more root-motion references than its header can count (a known slip of tools)",
};
static PARTS_CONFLICT: WarningKind = WarningKind {
    code: "rage-parts-conflict",
    text: "tracks that several parts carry with other values, of which the first counts (bone:track): {tracks}",
};
static STILL_WITH_KEYS: WarningKind = WarningKind {
    code: "rage-still-with-keys",
    text: "an animation of 0 s has {keys} keys after its first: left out",
};
static MOVER_TRACKS_ASTRAY: WarningKind = WarningKind {
    code: "rage-mover-tracks-astray",
    text: "mover tracks (5, 6) of bones other than 0 mean nothing and are left out; {count} bones: {bones: }",
};

/// The window of a part on its animation. It is the whole animation where the record makes no sense
/// (docs/formats/rage.md, section 3).
fn window(part: &Part, duration_s: f64, warnings: &mut Vec<Warning>) -> Window {
    let (start, mut end, rate) = (f64::from(part.start_s), f64::from(part.end_s), f64::from(part.rate));
    let whole = Window { start_s: 0.0, end_s: duration_s, rate: 1.0 };
    if !(start.is_finite() && end.is_finite() && rate.is_finite()) || end <= start || rate <= 0.0 {
        // For a pose of one frame, 0 to 0 at rate 1 is right and needs no warning.
        if !(start == 0.0 && end == 0.0 && duration_s == 0.0) {
            let warning = Warning::new(&WINDOW_SENSELESS).with("start_s", start);
            warnings.push(warning.with("end_s", end).with("rate", rate));
        }
        return whole;
    }
    if end > duration_s {
        if end > duration_s + EDGE_S {
            let warning = Warning::new(&WINDOW_ENDS_LATE);
            warnings.push(warning.with("end_s", end).with("duration_s", duration_s));
        }
        end = duration_s;
    }
    let start = start.max(0.0);
    if end <= start {
        let warning = Warning::new(&WINDOW_BEGINS_LATE);
        warnings.push(warning.with("start_s", start).with("duration_s", duration_s));
        return whole;
    }
    Window { start_s: start, end_s: end, rate }
}

/// The keys of an animation that a window plays.
struct KeySelection {
    /// An interpolated key at the window's begin: position in frames.
    lead: Option<f64>,
    /// Source frames, first and past the last.
    first: usize,
    end: usize,
    /// An interpolated key at the window's end.
    tail: Option<f64>,
}

fn select_keys(clock: Clock, frames: usize, window: &Window) -> KeySelection {
    let seconds = |i: usize| clock.seconds(i as f64);
    let near = |i: usize, edge: f64| i < frames && (seconds(i) - edge).abs() < EDGE_S;
    let last = frames - 1;
    // The nearest frame of each edge, and whether it is the edge.
    let nearest = |edge: f64| (clock.position(edge).round().max(0.0) as usize).min(last);
    let (a, b) = (nearest(window.start_s), nearest(window.end_s));
    let (lead, first) = if near(a, window.start_s) {
        (None, a)
    } else {
        (
            Some(clock.position(window.start_s)),
            (clock.position(window.start_s).floor() as usize + 1).min(frames),
        )
    };
    let (tail, end) = if near(b, window.end_s) {
        (None, b + 1)
    } else {
        (Some(clock.position(window.end_s)), clock.position(window.end_s).ceil() as usize)
    };
    KeySelection { lead, first, end: end.clamp(first, frames), tail }
}

impl KeySelection {
    fn positions(&self) -> Positions {
        if self.lead.is_none() && self.tail.is_none() {
            return Positions::Run { first: self.first as u32, count: (self.end - self.first) as u32 };
        }
        Positions::Fractional(
            self.lead.into_iter().chain((self.first..self.end).map(|i| i as f64)).chain(self.tail).collect(),
        )
    }

    /// [`KeySelection::values`] for values that nothing else needs: a track that is played whole is not copied.
    fn take(&self, values: Values) -> Values {
        let is_whole =
            self.lead.is_none() && self.tail.is_none() && self.first == 0 && self.end == values.len();
        if is_whole || values.len() == 1 { values } else { self.values(&values) }
    }

    fn values(&self, values: &Values) -> Values {
        fn pick<T: Copy>(keys: &KeySelection, all: &[T], between: impl Fn(T, T, f64) -> T) -> Vec<T> {
            if all.len() == 1 {
                return all.to_vec();
            }
            let at = |position: f64| {
                let i = (position.floor() as usize).min(all.len() - 2);
                between(all[i], all[i + 1], position - i as f64)
            };
            let mut out = Vec::with_capacity(keys.end - keys.first + 2);
            out.extend(keys.lead.map(at));
            out.extend_from_slice(&all[keys.first..keys.end]);
            out.extend(keys.tail.map(at));
            out
        }
        let scalar = |a: f32, b: f32, f: f64| (f64::from(a) + (f64::from(b) - f64::from(a)) * f) as f32;
        match values {
            Values::Vec3(v) => Values::Vec3(pick(self, v, |a, b, f| {
                let (a, b) = (a.as_dvec3(), b.as_dvec3());
                (a + (b - a) * f).as_vec3()
            })),
            Values::Quat(v) => Values::Quat(pick(self, v, |a, b, f| {
                let (a, b) = (a.as_dquat(), b.as_dquat());
                (a * (1.0 - f) + b * f).normalize().as_quat()
            })),
            Values::Scalar(v) => Values::Scalar(pick(self, v, scalar)),
            raw @ Values::Raw { .. } => raw.clone(),
        }
    }
}

/// Makes a clip; `Err` names the animation that is missing.
fn clip(
    record: &ClipRecord,
    used: &mut FxHashMap<u32, SharedAnimation<'_, '_>>,
    source: &str,
) -> std::result::Result<Clip, u32> {
    if let Some(part) = record.parts.iter().find(|p| !used.contains_key(&p.animation)) {
        return Err(part.animation);
    }
    let mut clip = Clip {
        id: ClipId { value: u64::from(record.hash), min_digits: 8 },
        name: record.name.clone(),
        short_name: record.short_name().to_owned(),
        game: GAME,
        source: source.to_owned(),
        length_s: 0.0,
        additive: false,
        timelines: Vec::new(),
        tracks: Vec::new(),
        events: Vec::new(),
        extras: Map::new(),
        warnings: Vec::new(),
    };
    let mut windows: Vec<Window> = Vec::with_capacity(record.parts.len());
    for part in &record.parts {
        let duration = f64::from(used[&part.animation].animation.duration_s);
        windows.push(window(part, duration, &mut clip.warnings));
    }
    // The parts of a list and its own duration agree but for f32 rounding. All of them get one number.
    let longest = windows.iter().map(Window::length_s).fold(0.0, f64::max);
    clip.length_s = match record.duration_s.map(f64::from) {
        Some(duration) if (duration - longest).abs() < EDGE_S => duration,
        Some(duration) => {
            if !record.parts.is_empty() {
                let warning = Warning::new(&LIST_DURATION);
                clip.warnings.push(warning.with("list_s", duration).with("longest_s", longest));
            }
            longest
        }
        None => longest,
    };
    for window in &mut windows {
        let length = window.length_s();
        if length != clip.length_s && (length - clip.length_s).abs() < EDGE_S && clip.length_s > 0.0 {
            window.rate = (window.end_s - window.start_s) / clip.length_s;
        }
    }
    let mut stray_movers: Vec<u16> = Vec::new();
    let mut seen: FxHashMap<u32, usize> = FxHashMap::default();
    let (mut conflicts, mut frames_dropped) = (Vec::new(), 0);
    for (part, window) in record.parts.iter().zip(windows) {
        let Some(entry) = used.get_mut(&part.animation) else { continue };
        entry.uses += 1;
        entry.left = entry.left.saturating_sub(1);
        let animation = entry.animation;
        stray_movers.extend(animation.tracks.iter().filter(|t| is_stray_mover(**t)).map(|t| t.bone));
        clip.warnings.extend(entry.decoded.warnings.iter().cloned());
        if animation.sequences.iter().any(|s| s.wrapped_counts) {
            clip.warnings.push(Warning::new(&REFERENCES_WRAPPED).with("animation", animation.hash));
        }
        let frames = usize::from(animation.frames);
        let clock =
            Clock::Span { duration_s: animation.duration_s, intervals: u32::from(animation.frames) - 1 };
        // All frames of an animation of duration 0 are at one instant. The first is the pose.
        let still = animation.duration_s == 0.0 || frames == 1;
        let selection = if still {
            KeySelection { lead: None, first: 0, end: 1, tail: None }
        } else {
            select_keys(clock, frames, &window)
        };
        let timeline = clip.timelines.len() as u32;
        clip.timelines.push(Timeline { clock, positions: selection.positions(), window });
        clip.tracks.reserve(entry.decoded.tracks.len());
        seen.reserve(entry.decoded.tracks.len());
        for decoded in &mut entry.decoded.tracks {
            let id = animation.tracks[decoded.track];
            let target = target(id);
            if still && decoded.values.len() > 1 {
                frames_dropped += decoded.values.len() - 1;
            }
            let values = if entry.left == 0 {
                selection.take(std::mem::replace(&mut decoded.values, Values::Scalar(Vec::new())))
            } else {
                selection.values(&decoded.values)
            };
            let interpolation = match values {
                Values::Quat(_) => Interpolation::Nlerp,
                _ => Interpolation::Linear,
            };
            let track = Track { target, timeline, curve: Curve { interpolation, values } };
            // Bone, number and format together identify a target.
            let key = u32::from(id.bone) << 16 | u32::from(id.track) << 8 | id.format as u32;
            match seen.get(&key) {
                Some(&first) => {
                    let before = &clip.tracks[first];
                    let equal = before.curve.values == track.curve.values
                        && (before.curve.is_constant()
                            || clip.timelines[before.timeline as usize] == clip.timelines[timeline as usize]);
                    if !equal {
                        conflicts.push(format!("{}:{}", id.bone, id.track));
                    }
                }
                None => {
                    seen.insert(key, clip.tracks.len());
                    clip.tracks.push(track);
                }
            }
        }
    }
    if !conflicts.is_empty() {
        clip.warnings.push(Warning::new(&PARTS_CONFLICT).with("tracks", conflicts));
    }
    if frames_dropped > 0 {
        clip.warnings.push(Warning::new(&STILL_WITH_KEYS).with("keys", frames_dropped));
    }
    if !stray_movers.is_empty() {
        stray_movers.sort_unstable();
        stray_movers.dedup();
        let list: Vec<String> = stray_movers.iter().map(u16::to_string).collect();
        clip.warnings.push(Warning::new(&MOVER_TRACKS_ASTRAY).with("count", list.len()).with("bones", list));
    }
    crate::games::rage::ycd::non_joint_tracks::add(&mut clip);
    describe(record, &mut clip);
    Ok(clip)
}

/// Adds events, properties and the other fields of the record to the clip.
fn describe(record: &ClipRecord, clip: &mut Clip) {
    for tag in &record.tags {
        clip.events.push(Event {
            name: rage::hash_text(tag.property.name),
            start_s: f64::from(tag.start_phase) * clip.length_s,
            end_s: f64::from(tag.end_phase) * clip.length_s,
            attributes: attributes(&tag.property),
        });
    }
    clip.events.sort_by(|a, b| a.start_s.total_cmp(&b.start_s));
    if !record.properties.is_empty() {
        let mut properties: Vec<&ClipProperty> = record.properties.iter().collect();
        properties.sort_by_key(|p| p.name);
        let map: Map<String, Value> =
            properties.iter().map(|p| (rage::hash_text(p.name), Value::Object(attributes(p)))).collect();
        clip.extras.insert("properties".to_owned(), Value::Object(map));
    }
    let parts: Vec<Value> = record
        .parts
        .iter()
        .map(|p| {
            json!({
                "animation": format!("{:08X}", p.animation),
                "start": number(p.start_s), "end": number(p.end_s), "rate": number(p.rate),
            })
        })
        .collect();
    clip.extras.insert("parts".to_owned(), Value::Array(parts));
}

/// An f32 with the fewest digits that give it back; a value that is not finite as text.
fn number(value: f32) -> Value {
    match value.to_string().parse::<f64>() {
        Ok(v) if v.is_finite() => json!(v),
        _ => Value::String(value.to_string()),
    }
}

fn attributes(property: &ClipProperty) -> Map<String, Value> {
    let vector = |v: &[f32]| Value::Array(v.iter().map(|v| number(*v)).collect());
    property
        .attributes
        .iter()
        .map(|a| {
            let value = match &a.value {
                AttributeValue::Float(v) => number(*v),
                AttributeValue::Int(v) => json!(v),
                AttributeValue::Bool(v) => json!(v),
                AttributeValue::String(v) => json!(v),
                AttributeValue::Vector3(v) => vector(&v[..3]),
                AttributeValue::Vector4(v) => vector(v),
                AttributeValue::HashString(v) => json!(rage::hash_text(*v)),
                AttributeValue::Raw(kind, bytes) => {
                    let hex: String = bytes.iter().map(|b| format!("{b:02X}")).collect();
                    json!({ "type": kind, "bytes": hex })
                }
            };
            (rage::hash_text(a.name), value)
        })
        .collect()
}

/// The skeleton for a dictionary when no other is given: the ped, if most of the bones that the clips animate are a
/// ped's, and otherwise a root alone, to which the animated bones are added.
///
/// # Errors
/// None: the embedded table is sound.
pub fn default_skeleton(clips: &[Clip]) -> Result<Skeleton> {
    DefaultSkeleton::of(clips).build()
}

/// Which skeleton [`default_skeleton`] makes. It is cheap to compute and to compare.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum DefaultSkeleton {
    /// A root alone.
    Root,
    /// The ped with these bones (sorted tags) in addition to those that it always has.
    Ped(Vec<u16>),
}

impl DefaultSkeleton {
    /// The one for `clips`.
    pub fn of(clips: &[Clip]) -> Self {
        // Two bits for each possible tag: seen, moved.
        let mut met = vec![0u8; 1 << 14];
        let mut tags: Vec<u16> = Vec::new();
        for track in clips.iter().flat_map(|c| &c.tracks) {
            let JointId::BoneTag(tag) = track.target.joint else { continue };
            let (byte, shift) = (usize::from(tag >> 2), tag % 4 * 2);
            if met[byte] >> shift & 1 == 0 {
                tags.push(tag);
            }
            let moves = !matches!(track.target.property, Property::Other(_));
            met[byte] |= (1 | u8::from(moves) << 1) << shift;
        }
        let moved = |tag: u16| met[usize::from(tag >> 2)] >> (tag % 4 * 2) & 2 != 0;
        let others = tags.iter().filter(|t| **t != 0).count();
        let known = tags.iter().filter(|t| **t != 0 && rage::bone_name(**t).is_some()).count();
        // Tools add tags of their own. Clips that move a pelvis are a body all the same.
        let body = tags.iter().any(|t| [PELVIS, SPINE_ROOT].contains(t));
        if known == 0 || !(body || known * 2 >= others) {
            return DefaultSkeleton::Root;
        }
        tags.retain(|tag| {
            moved(*tag) && rage::ped_bone_by_tag(*tag).is_some_and(|b| b.translation.is_none())
        });
        tags.sort_unstable();
        DefaultSkeleton::Ped(tags)
    }

    /// Makes it.
    ///
    /// # Errors
    /// None: the embedded table is sound.
    pub fn build(&self) -> Result<Skeleton> {
        match self {
            DefaultSkeleton::Ped(more) => rage::ped_skeleton(&|tag| more.binary_search(&tag).is_ok()),
            DefaultSkeleton::Root => {
                let root = Joint { id: JointId::BoneTag(0), name: None, parent: None, rest: Trs::IDENTITY };
                Skeleton::new("none", vec![root])
            }
        }
    }
}
