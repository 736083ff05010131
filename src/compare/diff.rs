//! Two files, or two folders of files, compared by what they show.
//!
//! Order of JSON, names of accessors and views, the layout of buffers and the number of keys mean nothing; what
//! means something: which joints there are, how they hang together and rest; which clips there are and what they
//! are called; their lengths, events and extras; how a curve is declared to go between keys; when its keys stand,
//! where there are as many on both sides; and where everything is at any instant. Instants are all keys of both
//! sides and the quarter points between them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use serde::Serialize;
use serde_json::Value;

use crate::compare::evaluate;
use crate::compare::evaluate::Pose;
use crate::compare::json;
use crate::compare::json::{FLOAT_ROUNDING, quote};
use crate::compare::measure::{above_mm, angle_deg};
use crate::compare::pair;
use crate::compare::pair::Joints;
use crate::compare::verify::Worst;
use crate::error::{Error, Result};
use crate::games::own::open::{files_below, is_readable, open};
use crate::games::own::scene::{
    Animation, AxisMode, Channel, Curve, Format, ImportedScene, Joint, Path as ChannelPath, Transform,
};

/// Float rounding: what counts as equal where nothing else is asked for, mm and degrees.
pub const ROUNDING: f64 = 0.001;

/// What counts as different.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// Distance in model space of points 10 cm from a joint, mm.
    pub max_mm: f64,
    /// Angle between the rotations of a joint, degrees.
    pub max_deg: f64,
    /// Whether keys must stand at the same instants where there are as many.
    pub key_times: bool,
    /// Everything, down to the bytes.
    pub strict: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { max_mm: ROUNDING, max_deg: ROUNDING, key_times: true, strict: false }
    }
}

impl Options {
    /// From the bounds of the command. Where one of two is given, the other measure is not looked at; where any
    /// is, keys may move as long as the curve stays within it.
    pub fn new(max_mm: Option<f64>, max_deg: Option<f64>, strict: bool) -> Self {
        let given = max_mm.is_some() || max_deg.is_some();
        let missing = if given { f64::INFINITY } else { ROUNDING };
        Options {
            max_mm: max_mm.unwrap_or(missing),
            max_deg: max_deg.unwrap_or(missing),
            key_times: !given || strict,
            strict,
        }
    }
}

/// One difference.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// What kind: `joint renamed`, `interpolation changed`, `key time moved` ...
    pub kind: &'static str,
    /// What it is about: joints, channels, fields.
    pub of: Vec<String>,
    /// What was there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old: Option<Value>,
    /// What is there now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new: Option<Value>,
    /// The whole as a sentence.
    pub text: String,
}

/// How far a joint's motion differs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JointDiff {
    /// The joint, by its new name.
    pub joint: String,
    /// Largest angle between its own rotations, degrees, and when.
    pub deg: f64,
    /// Seconds.
    pub deg_at_s: f64,
    /// Largest distance that its own transform makes of a point 10 cm from it, mm, and when.
    pub own_mm: f64,
    /// Seconds.
    pub own_mm_at_s: f64,
    /// The same in model space, with everything above it.
    pub model_mm: f64,
    /// Seconds.
    pub model_mm_at_s: f64,
}

/// What became of a clip, a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Nothing that counts.
    Equal,
    /// Something.
    Changed,
    /// It has another name; perhaps more.
    Renamed,
    /// Only the new side has it.
    Added,
    /// Only the old side has it.
    Removed,
}

/// One clip.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClipDiff {
    /// What became of it.
    pub status: Status,
    /// Its name on the old side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old_name: Option<String>,
    /// Its name on the new side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_name: Option<String>,
    /// Its identity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// What differs beside motion.
    pub changes: Vec<Change>,
    /// Largest difference in model space, mm at 10 cm.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub largest_mm: Option<Worst>,
    /// Largest angle between the rotations of a joint, degrees.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub largest_deg: Option<Worst>,
    /// Joints whose own motion differs by more than is allowed, the worst first.
    pub joints: Vec<JointDiff>,
}

/// One pair of files.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FileDiff {
    /// Path, relative to what was given: the new one where there is one.
    pub file: String,
    /// What became of it.
    pub status: Status,
    /// What differs of the file as a whole: its joints, its bytes.
    pub changes: Vec<Change>,
    /// Its clips.
    pub clips: Vec<ClipDiff>,
    /// Where the two are.
    #[serde(skip)]
    pub paths: (Option<PathBuf>, Option<PathBuf>),
}

impl FileDiff {
    /// Whether nothing differs.
    pub fn is_equal(&self) -> bool {
        self.status == Status::Equal
    }
}

/// What a comparison found.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Outcome {
    /// One a pair of files, by name.
    pub files: Vec<FileDiff>,
    /// What could not be compared.
    pub errors: Vec<String>,
}

impl Outcome {
    /// 0 equal, 1 different, 2 could not compare.
    pub fn exit_code(&self) -> u8 {
        match (self.errors.is_empty(), self.files.iter().all(FileDiff::is_equal)) {
            (false, _) => 2,
            (true, false) => 1,
            (true, true) => 0,
        }
    }
}

fn change(
    kind: &'static str,
    of: Vec<String>,
    old: Option<Value>,
    new: Option<Value>,
    text: String,
) -> Change {
    Change { kind, of, old, new, text }
}

/// Compares two files, or two folders.
///
/// # Errors
/// Usage: a file and a folder, a path that is not there, folders without any file to compare.
pub fn diff(old: &Path, new: &Path, options: &Options) -> Result<Outcome> {
    let is_folder = |path: &Path| {
        std::fs::metadata(path)
            .map(|m| m.is_dir())
            .map_err(|e| Error::io("cannot be opened", e).in_file(path))
    };
    let pairs = match (is_folder(old)?, is_folder(new)?) {
        (false, false) => {
            let name = new.file_name().unwrap_or_default().to_string_lossy().into_owned();
            vec![(name, Some(old.to_owned()), Some(new.to_owned()))]
        }
        (true, true) => pair_files(old, new)?,
        _ => return Err(Error::usage("expected two files or two folders, found one of each")),
    };
    let results: Vec<Result<FileDiff>> = pairs
        .par_iter()
        .map(|(name, old, new)| {
            let mut diff = match (old, new) {
                (Some(old), Some(new)) => file_pair(name, old, new, options)?,
                (Some(path), None) => only(name, &open(path)?, Status::Removed),
                (None, Some(path)) => only(name, &open(path)?, Status::Added),
                (None, None) => only(name, &ImportedScene::empty(Format::Gltf), Status::Equal),
            };
            diff.paths = (old.clone(), new.clone());
            Ok(diff)
        })
        .collect();
    let mut outcome = Outcome::default();
    for result in results {
        match result {
            Ok(diff) => outcome.files.push(diff),
            Err(e) => outcome.errors.push(e.to_string()),
        }
    }
    Ok(outcome)
}

type FilePair = (String, Option<PathBuf>, Option<PathBuf>);

/// Pairs files by their relative path; then, of what is left, those that differ in the extension alone; then
/// those that hold clips of the same ids: they were renamed.
fn pair_files(old: &Path, new: &Path) -> Result<Vec<FilePair>> {
    let mut left: BTreeMap<String, PathBuf> = files_below(old)?.into_iter().collect();
    let mut right: BTreeMap<String, PathBuf> = files_below(new)?.into_iter().collect();
    if left.is_empty() && right.is_empty() {
        return Err(Error::usage("found no .glb, .gltf or .fbx on either side").in_file(old));
    }
    let mut pairs: Vec<FilePair> = Vec::new();
    left.retain(|name, path| match right.remove(name) {
        Some(other) => {
            pairs.push((name.clone(), Some(std::mem::take(path)), Some(other)));
            false
        }
        None => true,
    });
    let stem = |name: &str| {
        let cut = if is_readable(Path::new(name)) { name.rfind('.') } else { None };
        name[..cut.unwrap_or(name.len())].to_owned()
    };
    left.retain(|name, path| {
        let mut same = right.keys().filter(|k| stem(k) == stem(name));
        let (Some(other), None) = (same.next().cloned(), same.next()) else { return true };
        if let Some(other_path) = right.remove(&other) {
            pairs.push((other, Some(std::mem::take(path)), Some(other_path)));
        }
        false
    });
    let ids = |path: &Path| -> Option<Vec<String>> {
        let scene = open(path).ok()?;
        let mut ids: Vec<String> =
            scene.animations.iter().filter_map(|a| a.id().map(str::to_owned)).collect();
        ids.sort();
        (!ids.is_empty()).then_some(ids)
    };
    if !left.is_empty() && !right.is_empty() {
        let mut by_ids: BTreeMap<Vec<String>, String> = BTreeMap::new();
        for (name, path) in right.iter().rev() {
            if let Some(ids) = ids(path) {
                by_ids.insert(ids, name.clone());
            }
        }
        left.retain(|_, path| {
            let Some(other) = ids(path).and_then(|ids| by_ids.remove(&ids)) else { return true };
            if let Some(other_path) = right.remove(&other) {
                pairs.push((other, Some(std::mem::take(path)), Some(other_path)));
            }
            false
        });
    }
    pairs.extend(left.into_iter().map(|(name, path)| (name, Some(path), None)));
    pairs.extend(right.into_iter().map(|(name, path)| (name, None, Some(path))));
    pairs.sort();
    Ok(pairs)
}

/// A file that only one side has.
fn only(name: &str, scene: &ImportedScene, status: Status) -> FileDiff {
    FileDiff {
        file: name.to_owned(),
        status,
        changes: Vec::new(),
        clips: scene.animations.iter().map(|a| lone_clip(a, status)).collect(),
        paths: (None, None),
    }
}

fn lone_clip(animation: &Animation, status: Status) -> ClipDiff {
    let name = Some(animation.name.clone());
    let (old_name, new_name) = if status == Status::Removed { (name, None) } else { (None, name) };
    ClipDiff {
        status,
        old_name,
        new_name,
        id: animation.id().map(str::to_owned),
        changes: Vec::new(),
        largest_mm: None,
        largest_deg: None,
        joints: Vec::new(),
    }
}

fn file_pair(name: &str, old: &Path, new: &Path, options: &Options) -> Result<FileDiff> {
    let (a, b) = (open(old)?, open(new)?);
    let mut diff = scenes(name, &a, &b, options);
    let names = (old.file_name(), new.file_name());
    if names.0 != names.1 && !name.is_empty() && old.parent() != new.parent() {
        let text = |n: Option<&std::ffi::OsStr>| n.unwrap_or_default().to_string_lossy().into_owned();
        let (was, is) = (text(names.0), text(names.1));
        let stem = |s: &str| s.rsplit_once('.').map_or(s.to_owned(), |(stem, _)| stem.to_owned());
        // Another extension is another format of the same; two files given by hand may be called anything.
        if options.strict || stem(&was) != stem(&is) {
            diff.changes.push(change(
                "file renamed",
                Vec::new(),
                Some(was.clone().into()),
                Some(is.clone().into()),
                format!("file renamed: {was} -> {is}"),
            ));
        }
    }
    if options.strict {
        bytes(old, new, &mut diff)?;
    }
    diff.settle();
    Ok(diff)
}

impl FileDiff {
    /// Whether something differs, from its parts.
    fn settle(&mut self) {
        let same = self.changes.is_empty() && self.clips.iter().all(|c| c.status == Status::Equal);
        self.status = if same { Status::Equal } else { Status::Changed };
    }
}

/// Strict: the files byte by byte, and the .bin beside a .gltf.
fn bytes(old: &Path, new: &Path, diff: &mut FileDiff) -> Result<()> {
    let read = |path: &Path| std::fs::read(path).map_err(|e| Error::io("cannot be read", e).in_file(path));
    let mut compare = |what: &str, a: &[u8], b: &[u8]| {
        if a == b {
            return;
        }
        let at = a.iter().zip(b).position(|(a, b)| a != b).unwrap_or(a.len().min(b.len()));
        diff.changes.push(change(
            "bytes differ",
            vec![what.to_owned()],
            Some(a.len().into()),
            Some(b.len().into()),
            format!("bytes differ: {what} from byte {at} on ({} and {} bytes)", a.len(), b.len()),
        ));
    };
    let (a, b) = (read(old)?, read(new)?);
    compare("the file", &a, &b);
    let uris = |path: &Path, bytes: &[u8]| -> Vec<PathBuf> {
        let value: Value = serde_json::from_slice(bytes).unwrap_or_default();
        let buffers = value["buffers"].as_array().cloned().unwrap_or_default();
        let uris = buffers.iter().filter_map(|b| b["uri"].as_str()).filter(|u| !u.contains(':'));
        let names = uris.filter_map(|u| crate::games::own::gltf::percent_decode(u).ok());
        names.map(|name| path.parent().unwrap_or(Path::new("")).join(name)).collect()
    };
    for (a, b) in uris(old, &a).iter().zip(&uris(new, &b)) {
        compare("the buffer", &read(a)?, &read(b)?);
    }
    Ok(())
}

/// Compares what two files hold.
pub fn scenes(name: &str, old: &ImportedScene, new: &ImportedScene, options: &Options) -> FileDiff {
    let pairs = pair::joints(&old.joints, &new.joints);
    let mut diff = FileDiff {
        file: name.to_owned(),
        status: Status::Equal,
        changes: Vec::new(),
        clips: Vec::new(),
        paths: (None, None),
    };
    joints(old, new, &pairs, options, &mut diff.changes);
    if old.format == new.format {
        for kind in old.contents.keys().chain(new.contents.keys().filter(|k| !old.contents.contains_key(*k)))
        {
            let count = |s: &ImportedScene| s.contents.get(kind).copied().unwrap_or(0);
            if count(old) != count(new) {
                diff.changes.push(change(
                    "content changed",
                    vec![(*kind).to_owned()],
                    Some(count(old).into()),
                    Some(count(new).into()),
                    format!("{kind}: {} -> {}", count(old), count(new)),
                ));
            }
        }
    }
    let motion = |i: usize, k: usize| Comparison { old, new, pairs: &pairs, options }.clip(i, k);
    let clips = pair::clips(old, new, |i, k| {
        let found = motion(i, k);
        // Extras are what tells clips of equal content apart; a renamed clip may state its new name there.
        found.joints.is_empty()
            && found.largest_mm.as_ref().is_none_or(|w| w.value <= options.max_mm)
            && found.changes.iter().all(|c| matches!(c.kind, "extras changed"))
            && !old.animations[i].channels.is_empty()
    });
    for pair in clips {
        diff.clips.push(match pair {
            (Some(i), Some(k)) => motion(i, k),
            (Some(i), None) => lone_clip(&old.animations[i], Status::Removed),
            (None, Some(k)) => lone_clip(&new.animations[k], Status::Added),
            (None, None) => continue,
        });
    }
    diff.settle();
    diff
}

/// Of a rest pose: mm of a point 10 cm from the joint, degrees.
fn rest_apart(a: &Transform, b: &Transform) -> (f64, f64) {
    (above_mm(&a.affine(), &b.affine(), 0.0).unwrap_or(0.0), angle_deg(a.rotation, b.rotation))
}

fn joints(
    old: &ImportedScene,
    new: &ImportedScene,
    pairs: &Joints,
    options: &Options,
    out: &mut Vec<Change>,
) {
    let name = |joints: &[Joint], i: Option<usize>| {
        i.and_then(|i| joints.get(i)).map_or("the scene".to_owned(), |j| j.name.clone())
    };
    for (i, joint) in old.joints.iter().enumerate() {
        let Some(k) = pairs.new_of[i] else {
            out.push(change(
                "joint removed",
                vec![joint.name.clone()],
                Some(joint.name.clone().into()),
                None,
                format!("joint removed: {}", joint.name),
            ));
            continue;
        };
        let other = &new.joints[k];
        if joint.name != other.name {
            out.push(change(
                "joint renamed",
                vec![joint.name.clone()],
                Some(joint.name.clone().into()),
                Some(other.name.clone().into()),
                format!("joint renamed: {} -> {}", joint.name, other.name),
            ));
        }
        if joint.parent.map(|p| pairs.new_of[p]) != other.parent.map(Some) {
            let (was, is) = (name(&old.joints, joint.parent), name(&new.joints, other.parent));
            out.push(change(
                "joint reparented",
                vec![other.name.clone()],
                Some(was.clone().into()),
                Some(is.clone().into()),
                format!("joint reparented: {} from {was} to {is}", other.name),
            ));
        }
        let (mm, deg) = rest_apart(&joint.rest, &other.rest);
        if mm > options.max_mm || deg > options.max_deg {
            let text = |l: &Transform| {
                let (t, r, s) = (l.translation, l.rotation, l.scale);
                serde_json::json!({
                    "translation": t.to_array(), "rotation": r.to_array(), "scale": s.to_array(),
                })
            };
            out.push(change(
                "rest changed",
                vec![other.name.clone()],
                Some(text(&joint.rest)),
                Some(text(&other.rest)),
                format!("rest changed: {} by {mm:.4} mm at 10 cm, {deg:.4} deg", other.name),
            ));
        }
        if let (Some(a), Some(b)) = (joint.inverse_bind, other.inverse_bind) {
            let affine = glam::DAffine3::from_mat4;
            if let Some(mm) = above_mm(&affine(a), &affine(b), options.max_mm.min(1e6)) {
                out.push(change(
                    "bind pose changed",
                    vec![other.name.clone()],
                    None,
                    None,
                    format!("bind pose changed: {} by {mm:.4} mm at 10 cm", other.name),
                ));
            }
        }
        if old.format == new.format {
            let none = Value::Null;
            let (a, b) = (joint.extras.as_ref().unwrap_or(&none), other.extras.as_ref().unwrap_or(&none));
            extras(a, b, &format!("{}.", other.name), out);
        }
    }
    for joint in new.joints.iter().zip(&pairs.old_of).filter(|(_, o)| o.is_none()).map(|(j, _)| j) {
        out.push(change(
            "joint added",
            vec![joint.name.clone()],
            None,
            Some(joint.name.clone().into()),
            format!("joint added: {}", joint.name),
        ));
    }
}

/// Differences of two extras; `prefix` stands before the path.
fn extras(old: &Value, new: &Value, prefix: &str, out: &mut Vec<Change>) {
    let mut found = Vec::new();
    json::compare(old, new, "", &mut found);
    for d in found {
        let path = format!("{prefix}extras{}{}", if d.path.is_empty() { "" } else { "." }, d.path);
        let more = if d.more > 0 { format!(" and {} more places", d.more) } else { String::new() };
        let text =
            format!("extras changed: {path} {} -> {}{more}", quote(d.old.as_ref()), quote(d.new.as_ref()));
        out.push(change("extras changed", vec![path], d.old, d.new, text));
    }
}

/// Two files whose joints are paired.
struct Comparison<'a> {
    old: &'a ImportedScene,
    new: &'a ImportedScene,
    pairs: &'a Joints,
    options: &'a Options,
}

/// Instants of two channels that differ, and the channels that share the difference.
type Shared<K> = BTreeMap<K, Vec<String>>;

impl Comparison<'_> {
    fn clip(&self, i: usize, k: usize) -> ClipDiff {
        let (a, b) = (&self.old.animations[i], &self.new.animations[k]);
        let mut out = ClipDiff {
            status: Status::Equal,
            old_name: Some(a.name.clone()),
            new_name: Some(b.name.clone()),
            id: b.id().or(a.id()).map(str::to_owned),
            changes: Vec::new(),
            largest_mm: None,
            largest_deg: None,
            joints: Vec::new(),
        };
        self.length(a.length_s, b.length_s, "the last key", &mut out.changes);
        self.extras_and_events(a, b, &mut out.changes);
        self.declarations(a, b, &mut out.changes);
        self.numbers(a, b, &mut out.changes);
        self.motion(a, b, &mut out);
        let moved = !out.joints.is_empty()
            || out.largest_mm.as_ref().is_some_and(|w| w.value > self.options.max_mm)
            || out.largest_deg.as_ref().is_some_and(|w| w.value > self.options.max_deg);
        out.status = if a.name != b.name {
            Status::Renamed
        } else if moved || !out.changes.is_empty() {
            Status::Changed
        } else {
            Status::Equal
        };
        out
    }

    fn length(&self, a: f64, b: f64, what: &str, out: &mut Vec<Change>) {
        if !same_time(a, b) {
            out.push(change(
                "length changed",
                vec![what.to_owned()],
                Some(a.into()),
                Some(b.into()),
                format!("length changed: {what} {a:.6} -> {b:.6} s"),
            ));
        }
    }

    fn extras_and_events(&self, a: &Animation, b: &Animation, out: &mut Vec<Change>) {
        let split = |animation: &Animation| {
            let mut extras = animation.extras.clone().unwrap_or(Value::Null);
            let mut events = Vec::new();
            let mut length = None;
            if let Value::Object(map) = &mut extras {
                if let Some(Value::Array(found)) = map.get("events") {
                    events = found.clone();
                    map.remove("events");
                }
                if let Some(found) = map.get("length").and_then(Value::as_f64) {
                    length = Some(found);
                    map.remove("length");
                }
            }
            (extras, events, length)
        };
        let ((ax, ae, al), (bx, be, bl)) = (split(a), split(b));
        match (al, bl) {
            (Some(a), Some(b)) => self.length(a, b, "stated in the extras", out),
            (None, None) => {}
            _ => out.push(change(
                "length changed",
                vec!["stated in the extras".to_owned()],
                al.map(Value::from),
                bl.map(Value::from),
                "length changed: only one side states it in the extras".to_owned(),
            )),
        }
        events(&ae, &be, out);
        extras(&ax, &bx, "", out);
    }

    fn label(&self, joint: usize, path: ChannelPath) -> String {
        format!("{} {}", self.new.joints[joint].name, path.name())
    }

    /// Interpolation, key times, channels that only one side has.
    fn declarations(&self, a: &Animation, b: &Animation, out: &mut Vec<Change>) {
        let mut modes: Shared<(&'static str, &'static str)> = BTreeMap::new();
        let mut moved: Shared<(usize, usize, u64, u64)> = BTreeMap::new();
        let mut counts: Shared<(usize, usize)> = BTreeMap::new();
        let mut values = Vec::new();
        for (i, k) in self.pairs.both() {
            for path in [ChannelPath::Translation, ChannelPath::Rotation, ChannelPath::Scale] {
                let (x, y) = (a.channel(i, path), b.channel(k, path));
                let (x, y) = match (x, y) {
                    (Some(x), Some(y)) => (x, y),
                    (None, None) => continue,
                    (x, _) => {
                        // What stands at rest needs no channel, unless another clip of the file moves it.
                        let (scene, joint) = if x.is_none() { (self.old, i) } else { (self.new, k) };
                        let elsewhere = scene.animations.iter().any(|o| o.channel(joint, path).is_some());
                        if elsewhere || self.options.strict {
                            let kind = if x.is_none() { "channel added" } else { "channel removed" };
                            let label = self.label(k, path);
                            out.push(change(
                                kind,
                                vec![label.clone()],
                                None,
                                None,
                                format!("{kind}: {label}"),
                            ));
                        }
                        continue;
                    }
                };
                if self.old.format != self.new.format {
                    continue;
                }
                if let Some(found) = modes_apart(x, y) {
                    modes.entry(found).or_default().push(self.label(k, path));
                }
                let is_strict = self.options.strict;
                if let Some(found) = times_apart(x, y).filter(|_| self.options.key_times) {
                    moved.entry(found).or_default().push(self.label(k, path));
                } else if is_strict && x.curve.key_count() != y.curve.key_count() {
                    let key = (x.curve.key_count(), y.curve.key_count());
                    counts.entry(key).or_default().push(self.label(k, path));
                } else if is_strict && x.curve != y.curve {
                    values.push(self.label(k, path));
                }
            }
        }
        for ((was, is), of) in modes {
            let text = format!("interpolation changed: {} {was} -> {is}", list(&of));
            out.push(change("interpolation changed", of, Some(was.into()), Some(is.into()), text));
        }
        for ((key, more, was, is), of) in moved {
            let (was, is) = (f64::from_bits(was), f64::from_bits(is));
            let more = if more > 0 { format!(" and {more} more keys") } else { String::new() };
            let text = format!("key time moved: {} key {key} {was:.6} -> {is:.6} s{more}", list(&of));
            out.push(change("key time moved", of, Some(was.into()), Some(is.into()), text));
        }
        for ((was, is), of) in counts {
            let text = format!("key count changed: {} {was} -> {is}", list(&of));
            out.push(change("key count changed", of, Some(was.into()), Some(is.into()), text));
        }
        if !values.is_empty() {
            let text = format!("values differ to the bit: {}", list(&values));
            out.push(change("values differ to the bit", values, None, None, text));
        }
    }

    /// What moves no joint.
    fn numbers(&self, a: &Animation, b: &Animation, out: &mut Vec<Change>) {
        if self.old.format != self.new.format {
            return;
        }
        for x in &a.numbers {
            let Some(y) = b.numbers.iter().find(|y| y.name == x.name) else {
                out.push(change(
                    "numbers removed",
                    vec![x.name.clone()],
                    None,
                    None,
                    format!("numbers removed: {}", x.name),
                ));
                continue;
            };
            let same_times = x.times.len() == y.times.len()
                && x.times.iter().zip(&y.times).all(|(a, b)| same_time(*a, *b));
            let same_values = x.values.len() == y.values.len()
                && x.values.iter().zip(&y.values).all(|(a, b)| json::same_float(*a, *b));
            if !(same_times && same_values && x.mode == y.mode) {
                let what = match (same_times, same_values) {
                    (false, _) => "key times",
                    (_, false) => "values",
                    _ => "interpolation",
                };
                out.push(change(
                    "numbers changed",
                    vec![x.name.clone()],
                    None,
                    None,
                    format!("numbers changed: {what} of {}", x.name),
                ));
            }
        }
        for y in b.numbers.iter().filter(|y| !a.numbers.iter().any(|x| x.name == y.name)) {
            out.push(change(
                "numbers added",
                vec![y.name.clone()],
                None,
                None,
                format!("numbers added: {}", y.name),
            ));
        }
    }

    fn motion(&self, a: &Animation, b: &Animation, out: &mut ClipDiff) {
        let both: Vec<(usize, usize)> = self.pairs.both().collect();
        let mut found: Vec<JointDiff> = both
            .iter()
            .map(|(_, k)| JointDiff {
                joint: self.new.joints[*k].name.clone(),
                deg: 0.0,
                deg_at_s: 0.0,
                own_mm: 0.0,
                own_mm_at_s: 0.0,
                model_mm: 0.0,
                model_mm_at_s: 0.0,
            })
            .collect();
        let (mut x, mut y) = (Pose::default(), Pose::default());
        for (at_a, at_b) in instants(a, b) {
            evaluate::pose(self.old, a, at_a, &mut x);
            evaluate::pose(self.new, b, at_b, &mut y);
            for ((i, k), found) in both.iter().zip(&mut found) {
                if let Some(mm) = above_mm(&x.model[*i], &y.model[*k], found.model_mm) {
                    (found.model_mm, found.model_mm_at_s) = (mm, at_a);
                }
                let (own_a, own_b) = (&x.local[*i], &y.local[*k]);
                if own_a == own_b {
                    continue;
                }
                if let Some(mm) = above_mm(&own_a.affine(), &own_b.affine(), found.own_mm) {
                    (found.own_mm, found.own_mm_at_s) = (mm, at_a);
                }
                let deg = angle_deg(own_a.rotation, own_b.rotation);
                if deg > found.deg {
                    (found.deg, found.deg_at_s) = (deg, at_a);
                }
            }
        }
        let worst = |value: fn(&JointDiff) -> (f64, f64)| {
            let largest = found.iter().reduce(|a, b| if value(b).0 > value(a).0 { b } else { a })?;
            let (value, time_s) = value(largest);
            (value > 0.0).then(|| Worst { value, joint: largest.joint.clone(), time_s })
        };
        out.largest_mm = worst(|j| (j.model_mm, j.model_mm_at_s));
        out.largest_deg = worst(|j| (j.deg, j.deg_at_s));
        found.retain(|j| j.deg > self.options.max_deg || j.own_mm > self.options.max_mm);
        found.sort_by(|a, b| b.own_mm.total_cmp(&a.own_mm));
        out.joints = found;
    }
}

/// The first of several and how many more.
fn list(of: &[String]) -> String {
    match of {
        [] => String::new(),
        [one] => one.clone(),
        [first, rest @ ..] => format!("{first} (and {} more)", rest.len()),
    }
}

/// Whether two instants are one, within the rounding of f32 seconds.
pub fn same_time(a: f64, b: f64) -> bool {
    (a - b).abs() <= FLOAT_ROUNDING * a.abs().max(b.abs()).max(0.01)
}

/// All instants at which two clips are compared, as each states them: keys, and quarter points between.
pub fn instants(a: &Animation, b: &Animation) -> Vec<(f64, f64)> {
    let times = |animation: &Animation| {
        let mut out = vec![0.0];
        animation.channels.iter().for_each(|c| c.curve.push_times(&mut out));
        out.sort_by(f64::total_cmp);
        out.dedup();
        out
    };
    let (a, b) = (times(a), times(b));
    let (mut i, mut k) = (0, 0);
    let mut out: Vec<(f64, f64)> = Vec::with_capacity(4 * a.len().max(b.len()));
    while i < a.len() || k < b.len() {
        let next = |v: &[f64], i: usize| v.get(i).copied().unwrap_or(f64::INFINITY);
        let at = next(&a, i).min(next(&b, k));
        // Of one instant the latest: there every step is taken, on both sides.
        let take = |v: &[f64], i: &mut usize| {
            let mut last = None;
            while let Some(t) = v.get(*i).copied().filter(|t| same_time(*t, at)) {
                last = Some(t);
                *i += 1;
            }
            last
        };
        let (x, y) = (take(&a, &mut i), take(&b, &mut k));
        let here = (x.or(y).unwrap_or(at), y.or(x).unwrap_or(at));
        if let Some(&before) = out.last() {
            for part in [0.25, 0.5, 0.75] {
                out.push((before.0 + (here.0 - before.0) * part, before.1 + (here.1 - before.1) * part));
            }
        }
        out.push(here);
    }
    out
}

/// How the curves of two channels go from key to key, where that differs.
fn modes_apart(x: &Channel, y: &Channel) -> Option<(&'static str, &'static str)> {
    match (&x.curve, &y.curve) {
        (Curve::Keys(a), Curve::Keys(b)) => (a.mode != b.mode).then(|| (a.mode.name(), b.mode.name())),
        (Curve::Axes { axes: a, .. }, Curve::Axes { axes: b, .. }) => {
            a.iter().zip(b.iter()).find_map(|(a, b)| {
                let pairs = || a.modes.iter().zip(&b.modes).map(|(a, b)| (a.mode(), b.mode()));
                // Of curves that have other keys only what all keys have in common can be held together.
                let uniform = |m: &[AxisMode]| m.windows(2).all(|w| w[0].mode() == w[1].mode());
                if a.modes.len() != b.modes.len() && !(uniform(&a.modes) && uniform(&b.modes)) {
                    return None;
                }
                pairs().find(|(a, b)| a != b).map(|(a, b)| (a.name(), b.name()))
            })
        }
        _ => None,
    }
}

/// The first key that stands elsewhere, how many more do, and the bits of both times; where both sides have as
/// many keys.
fn times_apart(x: &Channel, y: &Channel) -> Option<(usize, usize, u64, u64)> {
    let apart = |a: &[f64], b: &[f64]| {
        if a.len() != b.len() {
            return None;
        }
        let mut moved = (0..a.len()).filter(|i| !same_time(a[*i], b[*i]));
        let first = moved.next()?;
        Some((first, moved.count(), a[first].to_bits(), b[first].to_bits()))
    };
    match (&x.curve, &y.curve) {
        (Curve::Keys(a), Curve::Keys(b)) => apart(&a.times, &b.times),
        (Curve::Axes { axes: a, .. }, Curve::Axes { axes: b, .. }) => {
            a.iter().zip(b.iter()).find_map(|(a, b)| apart(&a.times, &b.times))
        }
        _ => None,
    }
}

fn events(old: &[Value], new: &[Value], out: &mut Vec<Change>) {
    let mut left: Vec<&Value> = old.iter().collect();
    let mut right: Vec<&Value> = new.iter().collect();
    let mut pair = |same: &dyn Fn(&Value, &Value) -> bool| -> Vec<(Value, Value)> {
        let mut pairs = Vec::new();
        left.retain(|a| match right.iter().position(|b| same(a, b)) {
            Some(k) => {
                pairs.push(((*a).clone(), right.remove(k).clone()));
                false
            }
            None => true,
        });
        pairs
    };
    let field = |a: &Value, b: &Value, key: &str| json::same(&a[key], &b[key]);
    pair(&|a, b| json::same(a, b));
    let mut changed = pair(&|a, b| field(a, b, "name") && field(a, b, "start"));
    changed.extend(pair(&|a, b| field(a, b, "name") && field(a, b, "attributes")));
    changed.extend(pair(&|a, b| field(a, b, "start") && field(a, b, "end")));
    changed.extend(pair(&|a, b| field(a, b, "name")));
    let name = |e: &Value| e["name"].as_str().unwrap_or("(no name)").to_owned();
    for (a, b) in changed {
        let mut found = Vec::new();
        json::compare(&a, &b, "", &mut found);
        let what: Vec<String> = found
            .iter()
            .map(|d| format!("{} {} -> {}", d.path, quote(d.old.as_ref()), quote(d.new.as_ref())))
            .collect();
        let text = format!("event changed: {} {}", name(&a), what.join(", "));
        out.push(change("event changed", vec![name(&a)], Some(a), Some(b), text));
    }
    for (kind, events, is_old) in [("event removed", left, true), ("event added", right, false)] {
        for e in events {
            let text = format!("{kind}: {} at {} s", name(e), quote(e.get("start")));
            let value = Some(e.clone());
            let (old, new) = if is_old { (value, None) } else { (None, value) };
            out.push(change(kind, vec![name(e)], old, new, text));
        }
    }
}
