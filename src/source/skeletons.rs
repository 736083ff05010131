//! Which skeleton a file's clips stand on.

use std::fs;
use std::hash::Hash;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustc_hash::{FxHashMap, FxHashSet};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use crate::error::{Error, Result};
use crate::games::anvil::container::file as anvil;
use crate::games::own::skeleton;
use crate::games::own::skeleton::Naming;
use crate::games::rage::ycd;
use crate::games::rage::ycd::DefaultSkeleton;
use crate::model::{Clip, JointId, Property, Skeleton, Track, Trs, Warning, WarningKind};

use crate::source::work;

/// The skeletons of a run.
#[derive(Debug, Default)]
pub struct Skeletons {
    /// Given by the user: nothing else is looked at.
    given: Vec<Arc<Skeleton>>,
    /// Found in the inputs, equal ones once.
    found: Vec<Found>,
    /// Position in `found` by content.
    by_hash: FxHashMap<u64, usize>,
    /// What was chosen before, by what was asked.
    chosen: Mutex<FxHashMap<u128, Choice>>,
    /// Defaults that were made.
    defaults: Mutex<FxHashMap<DefaultSkeleton, Choice>>,
}

#[derive(Debug)]
struct Found {
    skeleton: Arc<Skeleton>,
    /// The inputs that hold it, rising.
    inputs: Vec<usize>,
}

static PARTIAL: WarningKind = WarningKind {
    code: "skeleton-partial",
    text: "skeleton {skeleton} holds {covered} of the {moved} joints that move: the others hang from its root",
};
static GIVEN_HOLDS_NONE: WarningKind = WarningKind {
    code: "skeleton-given-unfit",
    text: "no given skeleton holds a joint that moves: the default is taken",
};
static NONE: WarningKind =
    WarningKind { code: "skeleton-none", text: "no skeleton holds its joints: they stand flat" };

/// The skeleton for some clips.
#[derive(Debug, Clone)]
pub struct Choice {
    /// The skeleton.
    pub skeleton: Arc<Skeleton>,
    /// Hash of its content.
    pub hash: u64,
    /// What there is to say.
    pub note: Option<Warning>,
}

impl Skeletons {
    /// With what `--skeleton` names, where it does.
    ///
    /// # Errors
    /// A file that holds no skeleton; in a folder such files are passed over unless none is left.
    pub fn new(given: Option<&Path>) -> Result<Self> {
        let given = given.map(Skeletons::read).transpose()?.unwrap_or_default();
        Ok(Skeletons { given: given.into_iter().map(Arc::new).collect(), ..Skeletons::default() })
    }

    /// Adds one that input `input` holds.
    pub fn add(&mut self, input: usize, skeleton: Skeleton) {
        let next = self.found.len();
        let at = *self.by_hash.entry(hash(&skeleton)).or_insert(next);
        match self.found.get_mut(at) {
            Some(found) => {
                if found.inputs.last() != Some(&input) {
                    found.inputs.push(input);
                }
            }
            None => self.found.push(Found { skeleton: Arc::new(skeleton), inputs: vec![input] }),
        }
    }

    /// Reads what `--skeleton` names: a file, or all skeleton files of a folder. Files of glTF and FBX are read
    /// twice, once by each naming: the game of a clip decides which is used.
    ///
    /// # Errors
    /// A file that holds no skeleton; in a folder such files are passed over unless none is left.
    fn read(path: &Path) -> Result<Vec<Skeleton>> {
        let is_folder =
            fs::metadata(path).map_err(|e| Error::io("cannot be opened", e).in_file(path))?.is_dir();
        if !is_folder {
            return read_file(path).map_err(|e| e.in_file(path));
        }
        let mut files: Vec<PathBuf> = walkdir::WalkDir::new(path)
            .sort_by_file_name()
            .into_iter()
            .filter_map(|e| e.ok())
            .filter(|e| e.file_type().is_file())
            .map(walkdir::DirEntry::into_path)
            .collect();
        files.retain(|f| {
            let name = f.to_string_lossy().to_ascii_lowercase();
            [".yft", ".ydr", ".ydd", ".xml", ".glb", ".gltf", ".fbx", ".skeleton", ".forge", ".data"]
                .iter()
                .any(|e| name.ends_with(e))
        });
        let all: Vec<Skeleton> = files.iter().filter_map(|f| read_file(f).ok()).flatten().collect();
        if all.is_empty() {
            return Err(Error::unsupported("a folder without a skeleton that can be read").in_file(path));
        }
        Ok(all)
    }

    /// Changes when a skeleton does that could be chosen: for a clip of RAGE's only a given one.
    pub fn fingerprint(&self, is_rage: bool) -> u64 {
        let mut bytes = Vec::new();
        for skeleton in &self.given {
            bytes.extend(hash(skeleton).to_le_bytes());
        }
        for found in self.found.iter().filter(|_| !is_rage) {
            bytes.extend(hash(&found.skeleton).to_le_bytes());
            bytes.extend((found.inputs.len() as u64).to_le_bytes());
            bytes.extend(found.inputs.iter().flat_map(|i| (*i as u64).to_le_bytes()));
        }
        xxh3_64(&bytes)
    }

    /// The skeleton for `clips` (of input `input`), and a note where there is something to say.
    ///
    /// # Errors
    /// None in practice.
    pub fn choose(&self, input: usize, clips: &[Clip]) -> Result<Choice> {
        // Most clips move the joints that others moved before them.
        let is_rage = clips.iter().all(|c| c.game == ycd::clips::GAME);
        if is_rage && self.given.is_empty() {
            return self.default_of(clips);
        }
        let moves = |t: &&Track| !matches!(t.target.property, Property::Other(_));
        let mut question: Vec<u64> = Vec::new();
        for clip in clips {
            question.extend(clip.tracks.iter().map(|t| number(t.target.joint) << 1 | u64::from(moves(&t))));
        }
        question.sort_unstable();
        question.dedup();
        question.extend([input as u64, u64::from(is_rage)]);
        let question = xxh3_128(bytemuck::cast_slice(&question));
        if let Ok(chosen) = self.chosen.lock()
            && let Some(choice) = chosen.get(&question)
        {
            return Ok(choice.clone());
        }
        let moved: FxHashSet<JointId> = clips
            .iter()
            .flat_map(|c| &c.tracks)
            .filter(moves)
            .map(|t| t.target.joint)
            .filter(|id| id.is_joint() && *id != JointId::RootMotion)
            .collect();
        let (skeleton, note) = self.look(input, clips, is_rage, &moved)?;
        let choice = Choice { hash: hash(&skeleton), skeleton, note };
        remember(&self.chosen, question, &choice);
        Ok(choice)
    }

    /// RAGE's default, made once for all that have the same.
    fn default_of(&self, clips: &[Clip]) -> Result<Choice> {
        let which = DefaultSkeleton::of(clips);
        if let Ok(defaults) = self.defaults.lock()
            && let Some(choice) = defaults.get(&which)
        {
            return Ok(choice.clone());
        }
        let skeleton = Arc::new(which.build()?);
        let choice = Choice { hash: hash(&skeleton), skeleton, note: None };
        remember(&self.defaults, which, &choice);
        Ok(choice)
    }

    fn look(
        &self,
        input: usize,
        clips: &[Clip],
        is_rage: bool,
        moved: &FxHashSet<JointId>,
    ) -> Result<(Arc<Skeleton>, Option<Warning>)> {
        let covers = |s: &Skeleton| s.joints().iter().filter(|j| moved.contains(&j.id)).count();
        let note = |s: &Skeleton, covered: usize| {
            (covered < moved.len()).then(|| {
                let warning = Warning::new(&PARTIAL).with("skeleton", s.name.as_str());
                warning.with("covered", covered).with("moved", moved.len())
            })
        };
        if let Some((covered, skeleton)) = best(self.given.iter().map(|s| (covers(s), true, s)))
            && (covered > 0 || moved.is_empty())
        {
            return Ok((skeleton.clone(), note(skeleton, covered)));
        }
        if is_rage {
            let note = Warning::new(&GIVEN_HOLDS_NONE);
            return Ok((self.default_of(clips)?.skeleton, Some(note)));
        }
        let found = self.found.iter().map(|f| (covers(&f.skeleton), f.inputs.contains(&input), &f.skeleton));
        if let Some((covered, skeleton)) = best(found)
            && covered > 0
        {
            return Ok((skeleton.clone(), note(skeleton, covered)));
        }
        let note = (!moved.is_empty()).then(|| Warning::new(&NONE));
        Ok((Arc::new(Skeleton::new("none", Vec::new())?), note))
    }
}

/// How many choices are remembered. Each holds a skeleton: a game has hundreds of sets of joints, not millions.
const MAX_CHOSEN: usize = 1024;

fn remember<K: Hash + Eq>(chosen: &Mutex<FxHashMap<K, Choice>>, key: K, choice: &Choice) {
    if let Ok(mut chosen) = chosen.lock() {
        if chosen.len() >= MAX_CHOSEN {
            chosen.clear();
        }
        chosen.insert(key, choice.clone());
    }
}

/// Hash of everything that a skeleton holds. Equal on machines of one byte order, which is what a folder is resumed on.
pub fn hash(skeleton: &Skeleton) -> u64 {
    let mut bytes = Vec::with_capacity(skeleton.joints().len() * 80);
    let text = |bytes: &mut Vec<u8>, text: &str| {
        bytes.extend((text.len() as u64).to_le_bytes());
        bytes.extend(text.as_bytes());
    };
    text(&mut bytes, &skeleton.name);
    for joint in skeleton.joints() {
        bytes.extend(number(joint.id).to_le_bytes());
        text(&mut bytes, joint.name.as_deref().unwrap_or("\0"));
        bytes.extend(joint.parent.map_or(u64::MAX, |p| p as u64).to_le_bytes());
        let Trs { translation, rotation, scale } = joint.rest;
        bytes.extend_from_slice(bytemuck::bytes_of(&translation));
        bytes.extend_from_slice(bytemuck::bytes_of(&rotation));
        bytes.extend_from_slice(bytemuck::bytes_of(&scale));
    }
    xxh3_64(&bytes)
}

/// A joint's id as a number of 35 bits.
fn number(joint: JointId) -> u64 {
    let (kind, value) = match joint {
        JointId::RootMotion => (0, 0),
        JointId::RageTag(tag) => (1, u32::from(tag)),
        JointId::Crc32(crc) => (2, crc),
        JointId::Camera(tag) => (3, u32::from(tag)),
        JointId::Texture(tag) => (4, u32::from(tag)),
    };
    kind << 32 | u64::from(value)
}

/// The one that covers most; of equal ones that of the own archive, then the first.
fn best<'a>(
    all: impl Iterator<Item = (usize, bool, &'a Arc<Skeleton>)>,
) -> Option<(usize, &'a Arc<Skeleton>)> {
    let mut best: Option<(usize, bool, &Arc<Skeleton>)> = None;
    for one in all {
        if best.is_none_or(|b| (one.0, one.1) > (b.0, b.1)) {
            best = Some(one);
        }
    }
    best.map(|(covered, _, skeleton)| (covered, skeleton))
}

fn read_file(path: &Path) -> Result<Vec<Skeleton>> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let extension = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let mut start = vec![0; anvil::PROBE_SIZE];
    let n = {
        use std::io::Read;
        let mut file = fs::File::open(path).map_err(|e| Error::io("cannot be opened", e))?;
        file.read(&mut start).map_err(|e| Error::io("cannot be read", e))?
    };
    if anvil::probe(&start[..n], &extension).is_some() {
        let source = anvil::open(path, &anvil::Options::default())?;
        let mut scratch = anvil::Scratch::new();
        let mut all = Vec::new();
        let mut errors = Vec::new();
        for entry in 0..source.entries().len() {
            let scan = work::scan(0, &source, entry, &mut scratch, None);
            all.extend(scan.skeletons);
            errors.extend(scan.errors);
        }
        return match (all.is_empty(), errors.into_iter().next()) {
            (true, Some(e)) => Err(e),
            (true, None) => Err(Error::unsupported("an Anvil file without a Skeleton")),
            _ => Ok(all),
        };
    }
    let bytes = fs::read(path).map_err(|e| Error::io("cannot be read", e))?;
    let rage = skeleton::read(&bytes, &name, Naming::Rage)?.skeleton;
    let mut all = vec![rage];
    if matches!(extension.as_str(), "glb" | "gltf" | "fbx") {
        all.push(skeleton::read(&bytes, &name, Naming::Anvil)?.skeleton);
    }
    Ok(all)
}
