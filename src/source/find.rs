//! Inputs: files and folders as given, to a list of files in a fixed order.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use walkdir::WalkDir;

use crate::error::{Error, Result};
use crate::games::anvil::container::{file as anvil, loose};
use crate::games::rage::container::{rpf7, rsc7};
use crate::games::rage::xml::read as ycd_xml;

/// What kind of input a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A RAGE clip dictionary, or its XML form.
    Ycd,
    /// A RAGE archive.
    Rpf,
    /// Something of Anvil's: a .forge, a .data, or a loose resource.
    Anvil(anvil::Kind),
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
        stem(self.relative.rsplit('/').next().unwrap_or(&self.relative))
    }

    /// The folder part of [`Input::relative`], empty or ending in `/`.
    pub fn folder(&self) -> &str {
        self.relative.rfind('/').map_or("", |i| &self.relative[..=i])
    }
}

/// A file's name without its extension: `x` of `x.ycd`, and of `x.ycd.xml`.
pub fn stem(name: &str) -> &str {
    const XML: &str = ".ycd.xml";
    if let Some(at) = name.len().checked_sub(XML.len()).filter(|at| *at > 0)
        && name.get(at..).is_some_and(|end| end.eq_ignore_ascii_case(XML))
    {
        return &name[..at];
    }
    match name.rsplit_once('.') {
        Some((stem, _)) if !stem.is_empty() => stem,
        _ => name,
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
            // A pipe would be waited for.
            Ok(meta) if !meta.is_file() => {
                errors.push(Error::unsupported("neither a file nor a folder").in_file(path));
            }
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
        "xml" if path.file_name()?.to_str()?.to_ascii_lowercase().ends_with(".ycd.xml") => Some(Kind::Ycd),
        "rpf" => Some(Kind::Rpf),
        "forge" => Some(Kind::Anvil(anvil::Kind::Forge)),
        "data" => Some(Kind::Anvil(anvil::Kind::Data)),
        "animation" | "skeleton" | "animset" => Some(Kind::Anvil(anvil::Kind::Loose)),
        _ => None,
    }
}

/// The whole of a file that is read at once: at most [`loose::MAX_SIZE`].
///
/// # Errors
/// Io; a file that is larger.
pub fn read_file(path: &Path) -> Result<Vec<u8>> {
    let io = |e| Error::io("cannot be read", e);
    let file = File::open(path).map_err(io)?;
    let size = file.metadata().map_err(io)?.len();
    if size > loose::MAX_SIZE {
        return Err(Error::limit(0, format_args!("{size} bytes"), "at most 1 GiB outside an archive"));
    }
    // A file that grows meanwhile is not followed.
    let mut bytes = Vec::with_capacity(size as usize);
    file.take(size).read_to_end(&mut bytes).map_err(io)?;
    Ok(bytes)
}

/// Of a file given directly: by its first bytes, then by its extension.
fn kind(path: &Path) -> Result<Kind> {
    let mut file = File::open(path).map_err(|e| Error::io("cannot be opened", e))?;
    let length = file.metadata().map_err(|e| Error::io("cannot be read", e))?.len();
    let mut start = [0u8; anvil::PROBE_SIZE];
    let mut filled = 0;
    while filled < start.len() {
        match file.read(&mut start[filled..]).map_err(|e| Error::io("cannot be read", e))? {
            0 => break,
            n => filled += n,
        }
    }
    let start = &start[..filled];
    if rsc7::probe(start, length) || ycd_xml::probe(start) {
        return Ok(Kind::Ycd);
    }
    if start.starts_with(&rpf7::MAGIC) {
        return Ok(Kind::Rpf);
    }
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    if let Some(kind) = anvil::probe(start, &extension) {
        return Ok(Kind::Anvil(kind));
    }
    Ok(kind_by_extension(path).unwrap_or(Kind::Unknown))
}
