//! Which skeleton a file's clips stand on.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustc_hash::{FxHashMap, FxHashSet};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use super::find::{MAX_FILE_BYTES, start_of};
use super::game::{self, Game};
use crate::error::{Error, Result};
use crate::games::own;
use crate::model::{Clip, JointId, Property, Skeleton, SkeletonFile, Track, Trs, Warning, WarningKind};

/// The skeletons of a run.
#[derive(Debug)]
pub struct Skeletons {
    games: &'static [&'static dyn Game],
    /// Given by the user: nothing else is looked at.
    given: Vec<Arc<Skeleton>>,
    /// How the given ones were read: file name, sentence.
    notes: Vec<(String, String)>,
    /// Found in the inputs, equal ones of a family once.
    found: Vec<Found>,
    /// Position in `found` by family and content.
    by_hash: FxHashMap<(&'static str, u64), usize>,
    /// What was chosen before, by what was asked.
    chosen: Mutex<FxHashMap<u128, Choice>>,
    /// Defaults that were made, by game and key.
    defaults: Mutex<FxHashMap<(&'static str, u128), Choice>>,
}

#[derive(Debug)]
struct Found {
    family: &'static str,
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
    pub fn new(given: Option<&Path>, games: &'static [&'static dyn Game]) -> Result<Self> {
        let files = given.map(|path| read(path, games)).transpose()?.unwrap_or_default();
        let mut notes: Vec<(String, String)> = Vec::new();
        for file in &files {
            // A file that is read once for each game is read alike: its notes are said once.
            for note in &file.notes {
                let note = (file.skeleton.name.clone(), note.clone());
                if !notes.contains(&note) {
                    notes.push(note);
                }
            }
        }
        Ok(Skeletons {
            games,
            given: files.into_iter().map(|file| Arc::new(file.skeleton)).collect(),
            notes,
            found: Vec::new(),
            by_hash: FxHashMap::default(),
            chosen: Mutex::default(),
            defaults: Mutex::default(),
        })
    }

    /// What there is to say of how the given skeletons were read: (file name, sentence).
    pub fn notes(&self) -> &[(String, String)] {
        &self.notes
    }

    /// Adds one that input `input` of a game of `family` holds.
    pub fn add(&mut self, input: usize, family: &'static str, skeleton: Skeleton) {
        let next = self.found.len();
        let at = *self.by_hash.entry((family, hash(&skeleton))).or_insert(next);
        match self.found.get_mut(at) {
            Some(found) => {
                if found.inputs.last() != Some(&input) {
                    found.inputs.push(input);
                }
            }
            None => {
                self.found.push(Found { family, skeleton: Arc::new(skeleton), inputs: vec![input] });
            }
        }
    }

    /// Changes when a skeleton does that could be chosen for clips of `family`.
    pub fn fingerprint(&self, family: &str) -> u64 {
        let mut bytes = Vec::new();
        for skeleton in &self.given {
            bytes.extend(hash(skeleton).to_le_bytes());
        }
        for found in self.found.iter().filter(|f| f.family == family) {
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
        let game = clips.first().and_then(|c| game::by_code(self.games, c.game));
        let family = game.map_or("", |g| g.family());
        let is_found = self.found.iter().any(|f| f.family == family);
        if self.given.is_empty()
            && !is_found
            && let Some(game) = game
            && let Some(choice) = self.default_of(game, clips)?
        {
            return Ok(choice);
        }
        // Most clips move the joints that others moved before them.
        let moves = |t: &&Track| !matches!(t.target.property, Property::Other(_));
        let mut question: Vec<u64> = Vec::new();
        for clip in clips {
            question.extend(clip.tracks.iter().map(|t| number(t.target.joint) << 1 | u64::from(moves(&t))));
        }
        question.sort_unstable();
        question.dedup();
        question.extend([input as u64, xxh3_64(family.as_bytes())]);
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
        let choice = self.look(input, clips, game, &moved)?;
        remember(&self.chosen, question, &choice);
        Ok(choice)
    }

    /// The game's default, made once for all that have the same.
    fn default_of(&self, game: &'static dyn Game, clips: &[Clip]) -> Result<Option<Choice>> {
        let Some(key) = game.default_skeleton_key(clips) else { return Ok(None) };
        let key = (game.code(), key);
        if let Ok(defaults) = self.defaults.lock()
            && let Some(choice) = defaults.get(&key)
        {
            return Ok(Some(choice.clone()));
        }
        let Some(skeleton) = game.default_skeleton(clips)? else { return Ok(None) };
        let choice = Choice { hash: hash(&skeleton), skeleton: Arc::new(skeleton), note: None };
        remember(&self.defaults, key, &choice);
        Ok(Some(choice))
    }

    fn look(
        &self,
        input: usize,
        clips: &[Clip],
        game: Option<&'static dyn Game>,
        moved: &FxHashSet<JointId>,
    ) -> Result<Choice> {
        let covers = |s: &Skeleton| s.joints().iter().filter(|j| moved.contains(&j.id)).count();
        let choice = |skeleton: &Arc<Skeleton>, covered: usize| Choice {
            hash: hash(skeleton),
            skeleton: skeleton.clone(),
            note: (covered < moved.len()).then(|| {
                let warning = Warning::new(&PARTIAL).with("skeleton", skeleton.name.as_str());
                warning.with("covered", covered).with("moved", moved.len())
            }),
        };
        if let Some((covered, skeleton)) = best(self.given.iter().map(|s| (covers(s), true, s)))
            && (covered > 0 || moved.is_empty())
        {
            return Ok(choice(skeleton, covered));
        }
        let family = game.map_or("", |g| g.family());
        let found = self
            .found
            .iter()
            .filter(|f| f.family == family)
            .map(|f| (covers(&f.skeleton), f.inputs.contains(&input), &f.skeleton));
        if let Some((covered, skeleton)) = best(found)
            && covered > 0
        {
            return Ok(choice(skeleton, covered));
        }
        if let Some(game) = game
            && let Some(default) = self.default_of(game, clips)?
        {
            let note = (!self.given.is_empty()).then(|| Warning::new(&GIVEN_HOLDS_NONE));
            return Ok(Choice { note, ..default });
        }
        let note = (!moved.is_empty()).then(|| Warning::new(&NONE));
        let skeleton = Arc::new(Skeleton::new("none", Vec::new())?);
        Ok(Choice { hash: hash(&skeleton), skeleton, note })
    }
}

/// Reads what `--skeleton` names: a file, or all skeleton files of a folder.
///
/// # Errors
/// A file that holds no skeleton; in a folder such files are passed over unless none is left.
fn read(path: &Path, games: &[&'static dyn Game]) -> Result<Vec<SkeletonFile>> {
    let is_folder = fs::metadata(path).map_err(|e| Error::io("cannot be opened", e).in_file(path))?.is_dir();
    if !is_folder {
        return read_file(path, games).map_err(|e| e.in_file(path));
    }
    let endings: Vec<&str> =
        games.iter().flat_map(|g| g.skeleton_endings()).chain(own::ENDINGS).copied().collect();
    let mut files: Vec<PathBuf> = walkdir::WalkDir::new(path)
        .sort_by_file_name()
        .into_iter()
        .filter_map(|e| e.ok())
        .filter(|e| e.file_type().is_file())
        .map(walkdir::DirEntry::into_path)
        .collect();
    files.retain(|f| {
        let name = f.to_string_lossy().to_ascii_lowercase();
        endings.iter().any(|e| name.ends_with(&e.to_ascii_lowercase()))
    });
    let all: Vec<SkeletonFile> = files.iter().filter_map(|f| read_file(f, games).ok()).flatten().collect();
    if all.is_empty() {
        return Err(Error::unsupported("a folder without a skeleton that can be read").in_file(path));
    }
    Ok(all)
}

/// Reads the skeletons of a file: of a game's own kind, or of glTF or FBX. These hold names alone: they are read once by
/// each game's naming, and the game of a clip decides which is used.
fn read_file(path: &Path, games: &[&'static dyn Game]) -> Result<Vec<SkeletonFile>> {
    let io = |e| Error::io("cannot be read", e);
    let size = fs::metadata(path).map_err(io)?.len();
    let mut file = fs::File::open(path).map_err(|e| Error::io("cannot be opened", e))?;
    // An archive may be larger than memory: the game reads it by position.
    let bytes = if size <= MAX_FILE_BYTES { fs::read(path).map_err(io)? } else { start_of(&mut file)? };
    let load = &mut |uri: &str, wanted: usize| own::open::beside(path, uri, wanted);
    let mut all: Vec<SkeletonFile> = Vec::new();
    let mut refused = None;
    for game in games {
        match read_as(*game, path, &bytes, load) {
            None => {}
            Some(Ok(files)) => {
                let is_new = |file: &SkeletonFile| !all.iter().any(|a| a.skeleton == file.skeleton);
                let new: Vec<SkeletonFile> = files.into_iter().filter(is_new).collect();
                all.extend(new);
            }
            Some(Err(e)) => refused = refused.or(Some(e)),
        }
        // A game's own kind is no other game's.
        if !all.is_empty() && !own::skeleton::is_readable(&bytes) {
            break;
        }
    }
    if all.is_empty() {
        let unknown = || Error::unsupported("found none of the known kinds of skeleton files").at(0);
        return Err(refused.unwrap_or_else(unknown));
    }
    Ok(all)
}

/// Reads the skeletons of a file as `game` understands it; `None` where it is no kind that the game, glTF or FBX knows.
/// `path` names it; `load` gives the bytes of what a .gltf points at, see [`own::skeleton::read`].
pub fn read_as(
    game: &dyn Game,
    path: &Path,
    bytes: &[u8],
    load: &mut dyn FnMut(&str, usize) -> Result<Vec<u8>>,
) -> Option<Result<Vec<SkeletonFile>>> {
    let text = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes).trim_ascii_start();
    if own::skeleton::is_readable(bytes) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Some(own::skeleton::read(bytes, &name, game, load).and_then(|mut file| {
            file.skeleton = game.skeleton_of_names(file.skeleton)?;
            Ok(vec![file])
        }))
    } else if text.starts_with(b";") && text[..text.len().min(200)].windows(3).any(|w| w == b"FBX") {
        let found = "found an FBX file in its text form, expected the binary one: save it as binary";
        Some(Err(Error::unsupported(found)))
    } else {
        game.skeletons(path, bytes)
    }
}

/// How many choices are remembered. Each holds a skeleton: a game has hundreds of sets of joints, not millions.
const MAX_CHOSEN: usize = 1024;

fn remember<K: std::hash::Hash + Eq>(chosen: &Mutex<FxHashMap<K, Choice>>, key: K, choice: &Choice) {
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
        JointId::BoneTag(tag) => (1, u32::from(tag)),
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
