//! Output files: unique and safe paths, whole or not at all.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;
use xxhash_rust::xxh3::xxh3_128;

use crate::error::{Error, Result};

/// Gives out relative output paths (without extension) that differ even where case does not count.
#[derive(Debug, Default)]
pub struct Paths {
    /// Hash of a path in lower case -> how often it was asked for. No path is kept: there may be a million.
    taken: FxHashMap<u128, u32>,
}

impl Paths {
    /// `wanted` (with `/`, each part made safe), or with `~2`, `~3` behind it where it is taken.
    pub fn unique(&mut self, wanted: &str) -> String {
        let safe: Vec<String> = wanted.split('/').filter(|p| !p.is_empty()).map(safe_name).collect();
        let safe = safe.join("/");
        let mut n = self.take(&safe);
        if n == 1 {
            return safe;
        }
        loop {
            let name = format!("{safe}~{n}");
            if self.take(&name) == 1 {
                return name;
            }
            n += 1;
        }
    }

    /// `folder/name`, or `folder/name~suffix` (then as [`Paths::unique`]) where it is taken: for clips of one
    /// name, which their ids keep apart.
    pub fn unique_by(&mut self, folder: &str, name: &str, suffix: &str) -> String {
        let folder: Vec<String> = folder.split('/').filter(|p| !p.is_empty()).map(safe_name).collect();
        let folder = folder.join("/");
        let join = |name: &str| if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
        let plain = join(&safe_name(name));
        if self.take(&plain) == 1 {
            return plain;
        }
        self.unique(&join(&safe_name(&format!("{}~{suffix}", cut(name, MAX_NAME - suffix.len() - 1)))))
    }

    /// Asks for `path`: the first gets 1.
    fn take(&mut self, path: &str) -> u32 {
        let count = self.taken.entry(xxh3_128(path.to_lowercase().as_bytes())).or_default();
        *count += 1;
        *count
    }
}

/// Bytes of a name that leave room for `.`, an extension, a suffix and the dot of the temporary file within the
/// 255 that file systems allow.
const MAX_NAME: usize = 200;

/// A file name that Linux, macOS and Windows take: no separators, control or reserved characters, no reserved
/// device name, no dot or space at the end, no dot in front (those are temporary), at most 200 bytes.
pub fn safe_name(name: &str) -> String {
    let mut out: String = name
        .chars()
        .map(|c| match c {
            '/' | '\\' | ':' | '*' | '?' | '"' | '<' | '>' | '|' => '_',
            c if c.is_control() => '_',
            c => c,
        })
        .collect();
    out.truncate(cut(&out, MAX_NAME).len());
    while out.ends_with(['.', ' ']) {
        out.pop();
    }
    if out.starts_with('.') {
        out.replace_range(..1, "_");
    }
    let stem = out.split('.').next().unwrap_or_default().trim_end().to_ascii_uppercase();
    let device = matches!(stem.as_str(), "CON" | "PRN" | "AUX" | "NUL" | "CONIN$" | "CONOUT$")
        || (stem.chars().count() == 4
            && (stem.starts_with("COM") || stem.starts_with("LPT"))
            && stem.ends_with(|c: char| c.is_ascii_digit() || "¹²³".contains(c)));
    if device || out.is_empty() {
        out.insert(0, '_');
    }
    out
}

fn cut(text: &str, bytes: usize) -> &str {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Removes what a killed run left in `out`: temporary files, and journals that no run goes on from. What belongs to
/// another part of the same split (`tag` is `.K-of-N` of this one), which may be at work, is left alone.
pub fn clean(out: &Path, tag: &str) {
    let own = format!(".anim2gltf{tag}.journal");
    let split = tag.rfind("-of-").map(|i| &tag[i..]);
    let is_left = |name: &str| {
        let Some(rest) = name.strip_prefix(PREFIX) else { return false };
        let Some(split) = split else { return name != own };
        // A temporary file goes on with `-` behind its tag, a journal with its extension.
        let Some((of, rest)) = rest.strip_prefix('.').and_then(|r| Some((r.find("-of-")?, r))) else {
            return true;
        };
        let is_same_split = rest[of..].strip_prefix(split).is_some_and(|r| r.starts_with(['-', '.']));
        !is_same_split || (rest.starts_with(&format!("{}-", &tag[1..])) && name != own)
    };
    for entry in walkdir::WalkDir::new(out).into_iter().filter_map(|e| e.ok()) {
        if entry.file_type().is_file() && is_left(&entry.file_name().to_string_lossy()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Proves that files can be made in `out`.
///
/// # Errors
/// Io, naming the folder.
pub fn prove_writable(out: &Path, tag: &str) -> Result<()> {
    let path = out.join(format!("{PREFIX}{tag}-"));
    fs::File::create(&path)
        .and_then(|_| fs::remove_file(&path))
        .map_err(|e| Error::io("cannot be written to", e).in_file(out))
}

/// How the names of temporary files and journals begin.
const PREFIX: &str = ".anim2gltf";

/// Writes `bytes` to `path` whole or not at all: beside it under a name that begins with a dot, then renamed.
/// `tag` goes into that name: see [`clean`].
///
/// # Errors
/// Io, naming the file.
pub fn write_whole(path: &Path, bytes: &[u8], tag: &str) -> Result<()> {
    write_whole_with(path, tag, |file| file.write_all(bytes))
}

/// As [`write_whole`], with what `fill` writes.
///
/// # Errors
/// Io, naming the file; an [`Error`] inside one of `fill` as it is.
pub fn write_whole_with(
    path: &Path,
    tag: &str,
    fill: impl FnOnce(&mut fs::File) -> io::Result<()>,
) -> Result<()> {
    let temporary = temporary_for(path, tag);
    let result = (|| {
        let mut file = match fs::File::create(&temporary) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                if let Some(folder) = path.parent() {
                    fs::create_dir_all(folder)?;
                }
                fs::File::create(&temporary)?
            }
            other => other?,
        };
        fill(&mut file)?;
        drop(file);
        fs::rename(&temporary, path)
    })();
    result.map_err(|e| {
        let _ = fs::remove_file(&temporary);
        match e.downcast::<Error>() {
            Ok(inner) => inner,
            Err(e) => Error::io("cannot be written", e).in_file(path),
        }
    })
}

fn temporary_for(path: &Path, tag: &str) -> PathBuf {
    let mut name = std::ffi::OsString::from(format!("{PREFIX}{tag}-"));
    name.push(path.file_name().unwrap_or_default());
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_safe_everywhere() {
        assert_eq!(safe_name("a/b:c?"), "a_b_c_");
        assert_eq!(safe_name("con"), "_con");
        assert_eq!(safe_name("LPT1.x"), "_LPT1.x");
        assert_eq!(safe_name("name. ."), "name");
        assert_eq!(safe_name(".hidden"), "_hidden");
        assert_eq!(safe_name(""), "_");
        assert!(safe_name(&"ж".repeat(300)).len() <= MAX_NAME);
    }

    #[test]
    fn equal_paths_stay_apart() {
        let mut paths = Paths::default();
        assert_eq!(paths.unique("a/Walk"), "a/Walk");
        assert_eq!(paths.unique("a/walk"), "a/walk~2");
        assert_eq!(paths.unique("../a/Walk"), "__./a/Walk".replace("__.", "_"));
        assert_eq!(paths.unique_by("a", "Walk", "1F"), "a/Walk~1F");
        assert_eq!(paths.unique_by("a", "Walk", "1F"), "a/Walk~1F~2");
    }
}
