//! Which skeleton a file's clips stand on.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashSet;

use crate::container::anvil;
use crate::error::{Error, Result};
use crate::model::{Clip, JointId, Property, Skeleton};
use crate::read::skeleton::{self, Naming};
use crate::read::ycd;

use super::work;

/// The skeletons of a run.
#[derive(Debug, Default)]
pub struct Skeletons {
    /// Given by the user: nothing else is looked at.
    pub given: Vec<Skeleton>,
    /// Found in the inputs: index of the input, skeleton.
    pub found: Vec<(usize, Skeleton)>,
}

impl Skeletons {
    /// Reads what `--skeleton` names: a file, or all skeleton files of a folder. Files of glTF and FBX are read
    /// twice, once by each naming: the game of a clip decides which is used.
    ///
    /// # Errors
    /// A file that holds no skeleton; in a folder such files are passed over unless none is left.
    pub fn given(path: &Path) -> Result<Vec<Skeleton>> {
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

    /// Changes when any skeleton of the run does: part of what an output depends on.
    pub fn fingerprint(&self) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        for skeleton in self.given.iter().chain(self.found.iter().map(|(_, s)| s)) {
            hasher.update(format!("{} {:?}", skeleton.name, skeleton.joints()).as_bytes());
        }
        hasher.finalize()
    }

    /// The skeleton for `clips` (of input `input`), and a note where there is something to say.
    ///
    /// # Errors
    /// None in practice.
    pub fn choose(&self, input: usize, clips: &[Clip]) -> Result<(Cow<'_, Skeleton>, Option<String>)> {
        let moved: FxHashSet<JointId> = clips
            .iter()
            .flat_map(|c| &c.tracks)
            .filter(|t| !matches!(t.target.property, Property::Other(_)))
            .map(|t| t.target.joint)
            .filter(|id| id.is_joint() && *id != JointId::RootMotion)
            .collect();
        let covers = |s: &Skeleton| s.joints().iter().filter(|j| moved.contains(&j.id)).count();
        if !self.given.is_empty() {
            let best = best(self.given.iter().map(|s| (covers(s), true, s)));
            if let Some((covered, skeleton)) = best.filter(|(covered, _)| *covered > 0 || moved.is_empty()) {
                let note = (covered < moved.len()).then(|| {
                    format!(
                        "skeleton {} holds {covered} of the {} joints that move: the others hang from its root",
                        skeleton.name,
                        moved.len()
                    )
                });
                return Ok((Cow::Borrowed(skeleton), note));
            }
        }
        if clips.iter().all(|c| c.game == ycd::clips::GAME) {
            let skeleton = ycd::default_skeleton(clips)?;
            let note = (!self.given.is_empty())
                .then(|| "no given skeleton holds a joint that moves: the default is taken".to_owned());
            return Ok((Cow::Owned(skeleton), note));
        }
        let found = best(self.found.iter().map(|(i, s)| (covers(s), *i == input, s)));
        if let Some((covered, skeleton)) = found.filter(|(covered, _)| *covered > 0) {
            let note = (covered < moved.len()).then(|| {
                format!(
                    "skeleton {} holds {covered} of the {} joints that move: the others hang from its root",
                    skeleton.name,
                    moved.len()
                )
            });
            return Ok((Cow::Borrowed(skeleton), note));
        }
        let note = (!moved.is_empty()).then(|| "no skeleton holds its joints: they stand flat".to_owned());
        Ok((Cow::Owned(Skeleton::new("none", Vec::new())?), note))
    }
}

/// The one that covers most; of equal ones that of the own archive, then the first.
fn best<'a>(all: impl Iterator<Item = (usize, bool, &'a Skeleton)>) -> Option<(usize, &'a Skeleton)> {
    let mut best: Option<(usize, bool, &Skeleton)> = None;
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
            let scan = work::scan(&source, entry, &mut scratch);
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
