//! Inputs: files and folders as given, to a list of files in a fixed order.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use walkdir::WalkDir;

use crate::container::rsc7;
use crate::error::{Error, Result};

/// What kind of input a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A RAGE clip dictionary.
    Ycd,
    /// Something else: converted only to an error that says what it is.
    Unknown,
}

/// One file to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// Where it is.
    pub path: PathBuf,
    /// Its path relative to what was given, with `/`: the file's name for a file, the path below the folder for
    /// one found in a folder.
    pub relative: String,
    /// What it is.
    pub kind: Kind,
}

impl Input {
    /// Name without its last extension.
    pub fn stem(&self) -> &str {
        let name = self.relative.rsplit('/').next().unwrap_or(&self.relative);
        match name.rsplit_once('.') {
            Some((stem, _)) if !stem.is_empty() => stem,
            _ => name,
        }
    }

    /// The folder part of [`Input::relative`], empty or ending in `/`.
    pub fn folder(&self) -> &str {
        self.relative.rfind('/').map_or("", |i| &self.relative[..=i])
    }
}

/// All files behind `given`: a file as it is, a folder's files of known kinds in the order of their names.
/// What cannot be read goes to the second list.
pub fn find(given: &[PathBuf]) -> (Vec<Input>, Vec<Error>) {
    let mut inputs = Vec::new();
    let mut errors = Vec::new();
    for path in given {
        match std::fs::metadata(path) {
            Ok(meta) if meta.is_dir() => folder(path, &mut inputs, &mut errors),
            Ok(_) => {
                let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
                match kind(path) {
                    Ok(kind) => inputs.push(Input { path: path.clone(), relative: name, kind }),
                    Err(e) => errors.push(e.in_file(path)),
                }
            }
            Err(e) => errors.push(Error::io("cannot be opened", e).in_file(path)),
        }
    }
    (inputs, errors)
}

fn folder(root: &Path, inputs: &mut Vec<Input>, errors: &mut Vec<Error>) {
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
        let Some(kind) = kind_by_extension(entry.path()) else { continue };
        let relative: Vec<String> = entry
            .path()
            .strip_prefix(root)
            .unwrap_or(entry.path())
            .components()
            .map(|c| c.as_os_str().to_string_lossy().into_owned())
            .collect();
        inputs.push(Input { path: entry.path().to_owned(), relative: relative.join("/"), kind });
    }
}

fn is_hidden(name: &std::ffi::OsStr) -> bool {
    name.as_encoded_bytes().first() == Some(&b'.')
}

/// The extensions that a folder is searched for.
fn kind_by_extension(path: &Path) -> Option<Kind> {
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    match extension.as_str() {
        "ycd" => Some(Kind::Ycd),
        _ => None,
    }
}

/// Of a file given directly: by its first bytes, then by its extension.
fn kind(path: &Path) -> Result<Kind> {
    let mut file = File::open(path).map_err(|e| Error::io("cannot be opened", e))?;
    let length = file.metadata().map_err(|e| Error::io("cannot be read", e))?.len();
    let mut start = [0u8; 16];
    let mut filled = 0;
    while filled < start.len() {
        match file.read(&mut start[filled..]).map_err(|e| Error::io("cannot be read", e))? {
            0 => break,
            n => filled += n,
        }
    }
    if rsc7::probe(&start[..filled], length) {
        return Ok(Kind::Ycd);
    }
    Ok(kind_by_extension(path).unwrap_or(Kind::Unknown))
}
