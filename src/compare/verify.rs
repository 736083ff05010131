//! What a conversion cost: the source's clips, played by their own rules, against the files that were written,
//! played by theirs.
//!
//! Both are evaluated at all keys of the source, and between each two instants at which either has a key: at the
//! quarter points, and at keys that only the file has. The number is the largest distance in model space between
//! where the two take a point 10 cm from a joint ([`measure`](crate::compare::measure)); beside it stands the largest angle
//! between the joints' own rotations. An instant is taken as near as the file's clock can state it (f32 seconds,
//! ticks).
//!
//! Tracks of a clip may have keys at different instants. "At keys" takes from the file what has a key there (or
//! holds one value), and the rest from the source: it is the error of the keys alone, with all of them along the
//! chain of joints. "Between" is the error of everything, at all instants at which something is between keys.
//! "Anywhere" is the error of everything at every instant: what is seen, and what a reduction promises.
//!
//! The source side takes the readers' clips before any pass; the file side is read by [`crate::games::own::gltf`] and
//! [`crate::games::own::fbx`]. What both share is the rig that the clips stand on ([`crate::convert::rig`]).

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;
use serde::Serialize;

use crate::compare::evaluate;
use crate::compare::evaluate::Pose;
use crate::compare::measure::{above_mm, angle_deg};
use crate::compare::sources;
use crate::compare::sources::Sources;
use crate::error::{Error, Result};
use crate::games::own::open::{files_below, open};
use crate::games::own::scene::{Animation, ImportedScene, Transform};
use crate::model::{Clip, Curve, JointId, Property, Sampler, Skeleton, Timeline};
use crate::report::manifest::Manifest;
use crate::source::Scratch;

/// Keys nearer to each other than this are one instant: clocks of several tracks state it with different last
/// digits.
const SAME_INSTANT_S: f64 = 1e-6;
/// Units that are read at once.
const ROUND: usize = 64;

/// The largest of something, with its place.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Worst {
    /// mm or degrees.
    pub value: f64,
    /// Name of the joint.
    pub joint: String,
    /// Seconds of the clip.
    pub time_s: f64,
}

/// What a clip's comparison found. `None`: nothing differs at all.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Identity.
    pub id: String,
    /// Whole name.
    pub name: String,
    /// Where it comes from.
    pub source: String,
    /// The file that was read, with `/`.
    pub output: String,
    /// The animation's name in it.
    pub animation: String,
    /// Largest model-space error at keys of the source, mm at 10 cm.
    pub at_keys_mm: Option<Worst>,
    /// Largest model-space error between keys, mm at 10 cm.
    pub between_mm: Option<Worst>,
    /// Largest model-space error of the file as it is played, at any instant, mm at 10 cm. Where a track is between
    /// keys while another has one, "at keys" is of a pose that nobody sees, and can be larger.
    pub anywhere_mm: Option<Worst>,
    /// Largest angle between the rotations of a joint at keys, degrees.
    pub at_keys_deg: Option<Worst>,
    /// Largest angle between the rotations of a joint between keys, degrees.
    pub between_deg: Option<Worst>,
    /// Instants with a key.
    pub keys: usize,
    /// All instants that were compared.
    pub instants: usize,
}

/// What a whole verification found.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// One a clip, in the order of the source.
    pub clips: Vec<Report>,
    /// What could not be compared: one sentence each.
    pub not_compared: Vec<String>,
    /// Clips of the source that the output does not state to hold.
    pub not_converted: usize,
}

impl Summary {
    /// The worst clip by a measure, with its value.
    pub fn worst(&self, measure: impl Fn(&Report) -> Option<&Worst>) -> Option<(&Report, &Worst)> {
        self.clips
            .iter()
            .filter_map(|c| measure(c).map(|w| (c, w)))
            .reduce(|a, b| if b.1.value > a.1.value { b } else { a })
    }
}

/// Keeps the largest value and its place; the joint's name is looked up at the end.
#[derive(Debug, Clone, Copy, Default)]
struct Peak {
    value: f64,
    joint: usize,
    time_s: f64,
}

impl Peak {
    fn raise(&mut self, value: f64, joint: usize, time_s: f64) {
        if value > self.value {
            *self = Peak { value, joint, time_s };
        }
    }

    fn named(self, rig: &Skeleton) -> Option<Worst> {
        let joint = rig.joints().get(self.joint)?.name.clone().unwrap_or_default();
        (self.value > 0.0).then_some(Worst { value: self.value, joint, time_s: self.time_s })
    }
}

/// Poses that are compared: all tracks have a key or hold a value; some are between keys; the same, but for what is
/// between, which the source gives.
const KEYED: usize = 0;
const BETWEEN: usize = 1;
const KEYS_ALONE: usize = 2;

/// Plays a clip of the source on its rig.
struct SourcePlayer<'a> {
    rig: &'a Skeleton,
    rest: Vec<Transform>,
    tracks: Vec<PlayedTrack<'a>>,
}

/// A track that moves a joint.
struct PlayedTrack<'a> {
    joint: usize,
    property: Property,
    timeline: &'a Timeline,
    curve: &'a Curve,
    sampler: Sampler<'a>,
    /// Whether at the last instant a key stands or one value holds.
    keyed: bool,
}

impl<'a> SourcePlayer<'a> {
    fn new(rig: &'a Skeleton, clip: &'a Clip) -> Self {
        let rest = rig
            .joints()
            .iter()
            .map(|j| Transform {
                translation: j.rest.translation.as_dvec3(),
                rotation: j.rest.rotation.as_dquat().normalize(),
                scale: j.rest.scale.as_dvec3(),
            })
            .collect();
        let mut seen = HashSet::new();
        let mut tracks = Vec::new();
        for track in &clip.tracks {
            // Of two tracks for one property the first is played, the other is stored as data (see [`crate::formats::scene`]).
            if let (false, Some(joint)) =
                (matches!(track.target.property, Property::Other(_)), rig.find(track.target.joint))
                && !track.curve.values.is_empty()
                && seen.insert((joint, track.target.property))
            {
                let (timeline, curve) = (clip.timeline(track), &track.curve);
                let sampler = Sampler::new(timeline, curve);
                let property = track.target.property;
                tracks.push(PlayedTrack { joint, property, timeline, curve, sampler, keyed: true });
            }
        }
        SourcePlayer { rig, rest, tracks }
    }

    fn pose(&mut self, seconds: f64, out: &mut Pose) {
        out.local.clone_from(&self.rest);
        for track in &mut self.tracks {
            let place = track.sampler.seek(seconds);
            let near = |i: usize| (track.timeline.seconds(i) - seconds).abs() < SAME_INSTANT_S;
            track.keyed = place.f == 0.0 || near(place.i) || near(place.j);
            let local = &mut out.local[track.joint];
            match track.property {
                Property::Translation => local.translation = track.curve.vec3_at(place),
                Property::Scale => local.scale = track.curve.vec3_at(place),
                Property::Rotation => local.rotation = track.curve.quat_at(place).normalize(),
                _ => {}
            }
        }
        evaluate::model_space(self.rig.joints().iter().map(|j| j.parent), &out.local, &mut out.model);
    }

    /// Puts into `file` (whose joint `place[i]` is the rig's joint i) the values of `source` for all tracks that
    /// are between keys, but for a joint that root motion was baked into: there it stands in other values.
    fn keys_alone(&self, source: &Pose, place: &[Option<usize>], scene: &ImportedScene, file: &mut Pose) {
        for track in self.tracks.iter().filter(|t| !t.keyed) {
            let baked = self.rig.joints()[track.joint].parent.is_some_and(|p| place[p].is_none());
            let Some(k) = place[track.joint].filter(|_| !baked) else { continue };
            let (from, to) = (&source.local[track.joint], &mut file.local[k]);
            match track.property {
                Property::Translation => to.translation = from.translation,
                Property::Scale => to.scale = from.scale,
                Property::Rotation => to.rotation = from.rotation,
                _ => {}
            }
        }
        evaluate::model_space(scene.joints.iter().map(|j| j.parent), &file.local, &mut file.model);
    }
}

/// Instants at which both sides are compared: where the source is read, where the file, whether a key stands there.
struct Instant {
    source_s: f64,
    file_s: f64,
    is_key: bool,
}

fn instants(clip: &Clip, rig: &Skeleton, scene: &ImportedScene, animation: &Animation) -> Vec<Instant> {
    let mut keys = vec![0.0, clip.length_s.max(0.0)];
    for track in &clip.tracks {
        let moves =
            !matches!(track.target.property, Property::Other(_)) && rig.find(track.target.joint).is_some();
        if moves && !track.curve.is_constant() {
            let timeline = clip.timeline(track);
            keys.extend(timeline.iter_seconds().take(track.curve.values.len()));
        }
    }
    keys.retain(|t| t.is_finite());
    keys.sort_by(f64::total_cmp);
    // Of one instant the latest: there all tracks have reached their keys.
    let mut merged: Vec<f64> = Vec::with_capacity(keys.len());
    for t in keys {
        match merged.last_mut() {
            Some(last) if t - *last < SAME_INSTANT_S => *last = t,
            _ => merged.push(t),
        }
    }
    let mut all: Vec<Instant> = merged
        .iter()
        .map(|&t| Instant { source_s: t, file_s: scene.format.stated(t), is_key: true })
        .collect();
    let mut own = Vec::new();
    animation.channels.iter().for_each(|c| c.curve.push_times(&mut own));
    own.sort_by(f64::total_cmp);
    own.dedup();
    let mut next = 0;
    let mut extra = Vec::new();
    for t in own {
        while next < all.len() && all[next].file_s < t - SAME_INSTANT_S {
            next += 1;
        }
        // Half an ulp of f32 at this instant, beside the rounding of the clocks.
        let near = SAME_INSTANT_S + t.abs() * 1e-7;
        let is_there = [next.wrapping_sub(1), next]
            .iter()
            .any(|&i| all.get(i).is_some_and(|a| (a.file_s - t).abs() <= near));
        if !is_there {
            extra.push(Instant { source_s: t, file_s: t, is_key: false });
        }
    }
    all.extend(extra);
    all.sort_by(|a, b| a.file_s.total_cmp(&b.file_s));
    let mut out = Vec::with_capacity(all.len() * 4);
    let mut before: Option<(f64, f64)> = None;
    for instant in all {
        if let Some((source_s, file_s)) = before {
            for part in [0.25, 0.5, 0.75] {
                out.push(Instant {
                    source_s: source_s + (instant.source_s - source_s) * part,
                    file_s: file_s + (instant.file_s - file_s) * part,
                    is_key: false,
                });
            }
        }
        before = Some((instant.source_s, instant.file_s));
        out.push(instant);
    }
    out
}

/// Holds `clip` on `rig` against `animation` of `scene`.
///
/// # Errors
/// A joint of the rig that the file has not.
pub fn compare(
    rig: &Skeleton,
    clip: &Clip,
    scene: &ImportedScene,
    animation: &Animation,
    output: &str,
) -> Result<Report> {
    let by_name: HashMap<&str, usize> =
        scene.joints.iter().enumerate().rev().map(|(i, j)| (j.name.as_str(), i)).collect();
    let mut place = Vec::with_capacity(rig.joints().len());
    for joint in rig.joints() {
        let name = joint.name.as_deref().unwrap_or_default();
        match by_name.get(name) {
            Some(i) => place.push(Some(*i)),
            // Root motion that was baked into the root, or taken away on request, leaves no joint.
            None if joint.id == JointId::RootMotion => place.push(None),
            None => {
                return Err(Error::unsupported(format!(
                    "the file has no joint {name}, which the source's rig ({}) has; a conversion with --skeleton is verified with the same --skeleton",
                    rig.name
                )));
            }
        }
    }
    let mut player = SourcePlayer::new(rig, clip);
    let (mut source, mut file) = (Pose::default(), Pose::default());
    let (mut mm, mut deg) = ([Peak::default(); 3], [Peak::default(); 3]);
    let instants = instants(clip, rig, scene, animation);
    for instant in &instants {
        player.pose(instant.source_s, &mut source);
        evaluate::pose(scene, animation, instant.file_s, &mut file);
        let mut raise = |side: usize, file: &Pose| {
            for (i, k) in place.iter().enumerate() {
                let Some(k) = *k else { continue };
                if let Some(value) = above_mm(&source.model[i], &file.model[k], mm[side].value) {
                    mm[side].raise(value, i, instant.source_s);
                }
                let mut rotation = source.local[i].rotation;
                if let Some(p) = rig.joints()[i].parent.filter(|p| place[*p].is_none()) {
                    rotation = source.local[p].rotation * rotation;
                }
                let angle = angle_deg(rotation, file.local[k].rotation);
                deg[side].raise(angle, i, instant.source_s);
            }
        };
        let all_keyed = instant.is_key && player.tracks.iter().all(|t| t.keyed);
        if all_keyed {
            raise(KEYED, &file);
            continue;
        }
        raise(BETWEEN, &file);
        if instant.is_key {
            player.keys_alone(&source, &place, scene, &mut file);
            raise(KEYS_ALONE, &file);
        }
    }
    let larger = |a: Peak, b: Peak| if b.value > a.value { b } else { a };
    Ok(Report {
        id: clip.id.to_string(),
        name: clip.name.clone(),
        source: clip.source.clone(),
        output: output.to_owned(),
        animation: animation.name.clone(),
        at_keys_mm: larger(mm[KEYED], mm[KEYS_ALONE]).named(rig),
        between_mm: mm[BETWEEN].named(rig),
        anywhere_mm: larger(mm[KEYED], mm[BETWEEN]).named(rig),
        at_keys_deg: larger(deg[KEYED], deg[KEYS_ALONE]).named(rig),
        between_deg: deg[BETWEEN].named(rig),
        keys: instants.iter().filter(|i| i.is_key).count(),
        instants: instants.len(),
    })
}

/// An animation that a file says to hold.
#[derive(Debug)]
struct WrittenAnimation {
    path: PathBuf,
    output: String,
    animation: String,
    id: String,
    source: String,
}

/// What the output holds, and whether it says so itself.
struct Index {
    written: Vec<WrittenAnimation>,
    by_id: HashMap<String, Vec<usize>>,
    /// Places of equal clips that were written once: (id, source).
    repeats: HashSet<(String, String)>,
    has_manifest: bool,
}

impl Index {
    fn of(output: &Path, problems: &mut Vec<String>) -> Result<Self> {
        let is_folder =
            std::fs::metadata(output).map_err(|e| Error::io("cannot be opened", e).in_file(output))?.is_dir();
        let mut index = Index {
            written: Vec::new(),
            by_id: HashMap::new(),
            repeats: HashSet::new(),
            has_manifest: false,
        };
        let manifest = output.join("manifest.json");
        if is_folder && manifest.is_file() {
            let bytes =
                std::fs::read(&manifest).map_err(|e| Error::io("cannot be read", e).in_file(&manifest))?;
            let parsed: Manifest = serde_json::from_slice(&bytes)
                .map_err(|e| Error::unsupported(format!("no manifest: {e}")).in_file(&manifest))?;
            index.has_manifest = true;
            for row in parsed.clips {
                for place in row.also_at {
                    index.repeats.insert((row.id.clone(), place));
                }
                index.add(WrittenAnimation {
                    path: output.join(&row.output),
                    output: row.output,
                    animation: row.animation,
                    id: row.id,
                    source: row.source,
                });
            }
            return Ok(index);
        }
        let files = if is_folder {
            files_below(output)?
        } else {
            let name = output.file_name().unwrap_or_default().to_string_lossy().into_owned();
            vec![(name, output.to_owned())]
        };
        if files.is_empty() {
            return Err(Error::usage("found no .glb, .gltf or .fbx").in_file(output));
        }
        for (relative, path) in files {
            match open(&path) {
                Ok(scene) => {
                    for animation in &scene.animations {
                        let Some(id) = animation.id() else {
                            problems.push(format!(
                                "{relative}: animation {} states no id in its extras",
                                animation.name
                            ));
                            continue;
                        };
                        index.add(WrittenAnimation {
                            path: path.clone(),
                            output: relative.clone(),
                            animation: animation.name.clone(),
                            id: id.to_owned(),
                            source: animation.extra("source").unwrap_or_default().to_owned(),
                        });
                    }
                }
                Err(e) => problems.push(e.to_string()),
            }
        }
        Ok(index)
    }

    fn add(&mut self, written: WrittenAnimation) {
        self.by_id.entry(written.id.clone()).or_default().push(self.written.len());
        self.written.push(written);
    }

    /// The animation of a clip: of its id, and from its place; the place may be stated from a folder further up
    /// or down, and without a manifest counts for nothing where only one animation has the id.
    fn find(&self, clip: &Clip) -> Option<usize> {
        let all = self.by_id.get(&clip.id.to_string())?;
        let within = |long: &str, short: &str| {
            long.strip_suffix(short).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
        };
        let same = |i: &&usize| self.written[**i].source == clip.source;
        let like = |i: &&usize| {
            let source = &self.written[**i].source;
            within(source, &clip.source) || within(&clip.source, source)
        };
        let found = all.iter().find(same).or_else(|| all.iter().find(like));
        let only = || if let [only] = &all[..] { Some(only) } else { None };
        // A manifest tells the places of all clips that were written: one from elsewhere was not.
        found.or_else(|| only().filter(|_| !self.has_manifest)).copied()
    }
}

/// What came of a unit: a report or a sentence for each clip, and which animations they were.
#[derive(Default)]
struct UnitOutcome {
    reports: Vec<Report>,
    problems: Vec<String>,
    found: Vec<usize>,
    missing: Vec<String>,
}

/// Verifies `output` (a file, or a folder of files) against `source`.
///
/// # Errors
/// What stops the whole: nothing to read on a side. The rest is in [`Summary::not_compared`].
pub fn verify(source: &Path, output: &Path, options: &sources::Options) -> Result<Summary> {
    let mut summary = Summary::default();
    let index = Index::of(output, &mut summary.not_compared)?;
    let (sources, errors) = Sources::open(source, options)?;
    summary.not_compared.extend(errors.iter().map(|e| e.to_string()));
    let mut found = vec![false; index.written.len()];
    let mut missing = Vec::new();
    for round in sources.units().chunks(ROUND) {
        let parts: Vec<UnitOutcome> = round
            .par_iter()
            .map_init(Scratch::default, |scratch, unit| {
                let (groups, errors) = sources.read(unit, scratch);
                let mut part = UnitOutcome {
                    problems: errors.iter().map(|e| e.to_string()).collect(),
                    ..UnitOutcome::default()
                };
                groups.iter().for_each(|group| part.group(group, &index));
                part
            })
            .collect();
        for part in parts {
            summary.clips.extend(part.reports);
            summary.not_compared.extend(part.problems);
            part.found.into_iter().for_each(|i| found[i] = true);
            missing.extend(part.missing);
        }
    }
    // A manifest says what was to be written; without one, and for a single file, only what is there can be asked.
    if index.has_manifest || output.is_file() {
        summary.not_converted = missing.len();
    } else {
        summary.not_compared.extend(missing.iter().map(|m| format!("{m}: the output does not hold it")));
    }
    for (written, _) in index.written.iter().zip(&found).filter(|(_, found)| !**found) {
        summary.not_compared.push(format!(
            "{}: the source holds no clip {} for animation {}",
            written.output, written.id, written.animation
        ));
    }
    if summary.clips.is_empty() && summary.not_compared.is_empty() {
        summary.not_compared.push("no clip is on both sides".to_owned());
    }
    Ok(summary)
}

impl UnitOutcome {
    fn group(&mut self, group: &sources::Group, index: &Index) {
        // Clips of a group are mostly of one file.
        let mut last: Option<(PathBuf, Arc<ImportedScene>)> = None;
        for clip in &group.clips {
            let Some(i) = index.find(clip) else {
                if !index.repeats.contains(&(clip.id.to_string(), clip.source.clone())) {
                    self.missing.push(format!("{} {} ({})", clip.id, clip.name, clip.source));
                }
                continue;
            };
            let written = &index.written[i];
            self.found.push(i);
            let scene = match &last {
                Some((path, scene)) if *path == written.path => Ok(scene.clone()),
                _ => open(&written.path).map(Arc::new),
            };
            let result = scene.and_then(|scene| {
                last = Some((written.path.clone(), scene.clone()));
                let of_name = |a: &&Animation| a.name == written.animation;
                let animation = scene
                    .animations
                    .iter()
                    .find(|a| of_name(a) && a.id() == Some(&written.id))
                    .or_else(|| scene.animations.iter().find(of_name));
                let Some(animation) = animation else {
                    return Err(Error::unsupported("the file has no such animation"));
                };
                // What the game's own code does to a pose, as the file states, is part of it.
                let extras = animation.extras.as_ref().and_then(serde_json::Value::as_object);
                let ruled = extras.and_then(|e| group.game.stated_pose_rules(clip, &group.rig, e));
                compare(&group.rig, ruled.as_ref().unwrap_or(clip), &scene, animation, &written.output)
            });
            match result {
                Ok(report) => self.reports.push(report),
                Err(e) => self.problems.push(format!("{}: {}: {e}", written.output, written.animation)),
            }
        }
    }
}
