//! Inputs: files and folders as given, to a list of files in a fixed order.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use walkdir::WalkDir;

use super::game::{Game, Input};
use crate::error::{Error, Result};

/// How many bytes of a file's start [`Game::probe`] sees.
pub const PROBE_SIZE: usize = 4096;

/// What a file outside an archive is read up to, in bytes.
pub const MAX_FILE_BYTES: u64 = 1 << 30;

fn input(path: PathBuf, relative: String, game: Option<&'static dyn Game>) -> Input {
    let name = relative.rsplit('/').next().unwrap_or(&relative);
    let stem = stem(name, game.map_or(&[], |g| g.endings())).to_owned();
    Input { path, relative, stem, game }
}

/// A file's name without the longest of `endings` that it has, or without its last extension.
pub fn stem<'a>(name: &'a str, endings: &[&str]) -> &'a str {
    let longest = endings.iter().filter(|e| ends_with(name, e)).map(|e| e.len()).max();
    match longest {
        Some(length) => &name[..name.len() - length],
        None => match name.rsplit_once('.') {
            Some((stem, _)) if !stem.is_empty() => stem,
            _ => name,
        },
    }
}

/// Whether a name ends in `ending` (case makes no difference) and is more than that.
fn ends_with(name: &str, ending: &str) -> bool {
    name.len()
        .checked_sub(ending.len())
        .filter(|at| *at > 0)
        .is_some_and(|at| name.get(at..).is_some_and(|end| end.eq_ignore_ascii_case(ending)))
}

/// All files behind `given`: a file as it is, a folder's files of known kinds in the order of their names.
/// What cannot be read goes to the second list.
pub fn find(given: &[PathBuf], games: &'static [&'static dyn Game]) -> (Vec<Input>, Vec<Error>) {
    let mut inputs = Vec::new();
    let mut errors = Vec::new();
    for path in given {
        match std::fs::metadata(path) {
            Ok(meta) if meta.is_dir() => folder(path, games, &mut inputs, &mut errors),
            // A pipe would be waited for.
            Ok(meta) if !meta.is_file() => {
                errors.push(Error::unsupported("neither a file nor a folder").in_file(path));
            }
            Ok(_) => {
                let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
                match game_of(path, &name, games) {
                    Ok(game) => inputs.push(input(path.clone(), name, game)),
                    Err(e) => errors.push(e.in_file(path)),
                }
            }
            Err(e) => errors.push(Error::io("cannot be opened", e).in_file(path)),
        }
    }
    (inputs, errors)
}

fn folder(root: &Path, games: &[&'static dyn Game], inputs: &mut Vec<Input>, errors: &mut Vec<Error>) {
    for entry in WalkDir::new(root).follow_links(true).sort_by_file_name() {
        let entry = match entry {
            Ok(entry) => entry,
            Err(e) => {
                let path = e.path().unwrap_or(root).to_owned();
                let text = e.to_string();
                let io = e.into_io_error().unwrap_or_else(|| std::io::Error::other(text));
                errors.push(Error::io("cannot be opened", io).in_file(path));
                continue;
            }
        };
        if !entry.file_type().is_file() || is_hidden(entry.file_name()) {
            continue;
        }
        let Some(game) = game_by_ending(&entry.file_name().to_string_lossy(), games) else { continue };
        let relative: Vec<String> = entry
            .path()
            .strip_prefix(root)
            .unwrap_or(entry.path())
            .components()
            .map(|c| c.as_os_str().to_string_lossy().into_owned())
            .collect();
        inputs.push(input(entry.path().to_owned(), relative.join("/"), Some(game)));
    }
}

fn is_hidden(name: &std::ffi::OsStr) -> bool {
    name.as_encoded_bytes().first() == Some(&b'.')
}

/// The first game that a folder is searched for files of this name for.
fn game_by_ending(name: &str, games: &[&'static dyn Game]) -> Option<&'static dyn Game> {
    games.iter().copied().find(|g| g.endings().iter().any(|e| ends_with(name, e)))
}

/// The whole of a file that is read at once: at most [`MAX_FILE_BYTES`].
///
/// # Errors
/// Io; a file that is larger.
pub fn read_file(path: &Path) -> Result<Vec<u8>> {
    let io = |e| Error::io("cannot be read", e);
    let file = File::open(path).map_err(io)?;
    let size = file.metadata().map_err(io)?.len();
    if size > MAX_FILE_BYTES {
        return Err(Error::limit(0, format_args!("{size} bytes"), "at most 1 GiB outside an archive"));
    }
    // A file that grows meanwhile is not followed.
    let mut bytes = Vec::with_capacity(size as usize);
    file.take(size).read_to_end(&mut bytes).map_err(io)?;
    Ok(bytes)
}

/// The game of a file given directly: by its first bytes, then by its name.
fn game_of(path: &Path, name: &str, games: &[&'static dyn Game]) -> Result<Option<&'static dyn Game>> {
    let mut file = File::open(path).map_err(|e| Error::io("cannot be opened", e))?;
    let length = file.metadata().map_err(|e| Error::io("cannot be read", e))?.len();
    let start = start_of(&mut file)?;
    let by_content = games.iter().copied().find(|g| g.probe(&start, length, name));
    Ok(by_content.or_else(|| game_by_ending(name, games)))
}

/// The first [`PROBE_SIZE`] bytes of a file, or all that it has.
///
/// # Errors
/// Io.
pub fn start_of(file: &mut File) -> Result<Vec<u8>> {
    let mut start = Vec::with_capacity(PROBE_SIZE);
    file.take(PROBE_SIZE as u64).read_to_end(&mut start).map_err(|e| Error::io("cannot be read", e))?;
    Ok(start)
}
