//! Opens a file of the user: its first bytes tell the reader, which makes an imported scene of it.
//!
//! ```text
//! .glb / .gltf - gltf -+                 +-> skeleton: what --skeleton takes
//!                      +-> ImportedScene-+
//! .fbx --------- fbx --+                 +-> compare: verify (against the source), diff (against another file)
//! ```

use std::fs::{self, File};
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use walkdir::WalkDir;

use crate::error::{Error, Result};
use crate::games::own::scene::{Content, ImportedScene};
use crate::games::own::{fbx, gltf};

/// Reads a file that was written: .glb, .gltf with what it points at, or .fbx. Its first bytes tell which.
///
/// # Errors
/// Io; malformed or unsupported content, with the file's name.
pub fn open(path: &Path) -> Result<ImportedScene> {
    let bytes = fs::read(path).map_err(|e| Error::io("cannot be read", e).in_file(path))?;
    read(&bytes, Content::Animations, &mut |uri, wanted| beside(path, uri, wanted))
        .map_err(|e| e.in_file(path))
}

/// Reads a file in memory. `load` gives the bytes of what it points at, by its decoded relative URI and how many
/// are wanted.
///
/// # Errors
/// Malformed or unsupported content.
pub fn read(
    bytes: &[u8],
    content: Content,
    load: &mut dyn FnMut(&str, usize) -> Result<Vec<u8>>,
) -> Result<ImportedScene> {
    if bytes.starts_with(fbx::MAGIC) { fbx::read(bytes, content) } else { gltf::read(bytes, content, load) }
}

/// Reads `wanted` bytes of the file that `uri` names beside `path`; fewer where it is shorter.
///
/// # Errors
/// Unsupported: a URI that leads out of the folder. Io.
pub fn beside(path: &Path, uri: &str, wanted: usize) -> Result<Vec<u8>> {
    let relative = Path::new(uri);
    if uri.contains(':')
        || !relative.components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir))
    {
        return Err(Error::unsupported(format!("it points at {uri}: only files below its folder are read")));
    }
    let target = path.parent().unwrap_or(Path::new("")).join(relative);
    let read = || {
        let file = File::open(&target)?;
        let there = file.metadata()?.len();
        // The file's length is what justifies the memory.
        let mut bytes = Vec::with_capacity(wanted.min(usize::try_from(there).unwrap_or(usize::MAX)));
        file.take(wanted as u64).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read().map_err(|e| Error::io(&format!("{uri} cannot be read"), e))
}

/// Whether a name ends like a file that [`open`] reads.
pub fn is_readable(path: &Path) -> bool {
    let extension = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    matches!(extension.as_str(), "glb" | "gltf" | "fbx")
}

/// The files that [`open`] reads below a folder: (path relative to it with `/`, path), in the order of names.
///
/// # Errors
/// Io.
pub fn files_below(root: &Path) -> Result<Vec<(String, PathBuf)>> {
    let mut out = Vec::new();
    for entry in WalkDir::new(root).follow_links(true).sort_by_file_name() {
        let entry = entry.map_err(|e| {
            let text = e.to_string();
            let io = e.into_io_error().unwrap_or_else(|| std::io::Error::other(text));
            Error::io("cannot be opened", io).in_file(root)
        })?;
        let hidden = entry.depth() > 0 && entry.file_name().as_encoded_bytes().first() == Some(&b'.');
        if hidden || !entry.file_type().is_file() || !is_readable(entry.path()) {
            continue;
        }
        let relative = entry.path().strip_prefix(root).unwrap_or(entry.path());
        let parts: Vec<String> =
            relative.components().map(|c| c.as_os_str().to_string_lossy().into_owned()).collect();
        out.push((parts.join("/"), entry.path().to_owned()));
    }
    Ok(out)
}
