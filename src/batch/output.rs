//! Output files: unique and safe paths, whole or not at all.

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Gives out relative output paths (without extension) that differ even where case does not count.
#[derive(Debug, Default)]
pub struct Paths {
    taken: HashMap<String, u32>,
}

impl Paths {
    /// `wanted` (with `/`, each part made safe), or with `~2`, `~3` behind it where it is taken.
    pub fn unique(&mut self, wanted: &str) -> String {
        let safe: Vec<String> = wanted.split('/').filter(|p| !p.is_empty()).map(safe_name).collect();
        let safe = safe.join("/");
        if self.take(&safe) {
            return safe;
        }
        let mut n = 1;
        loop {
            n += 1;
            let name = format!("{safe}~{n}");
            if self.take(&name) {
                return name;
            }
        }
    }

    /// `folder/name`, or `folder/name~suffix` (then as [`Paths::unique`]) where it is taken: for clips of one
    /// name, which their ids keep apart.
    pub fn unique_by(&mut self, folder: &str, name: &str, suffix: &str) -> String {
        let folder = folder.trim_matches('/');
        let join = |name: &str| if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
        let plain = join(&safe_name(name));
        if self.take(&plain) {
            return plain;
        }
        self.unique(&join(&safe_name(&format!("{}~{suffix}", cut(name, MAX_NAME - suffix.len() - 1)))))
    }

    fn take(&mut self, path: &str) -> bool {
        let count = self.taken.entry(path.to_lowercase()).or_default();
        *count += 1;
        *count == 1
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
        || (stem.len() == 4
            && (stem.starts_with("COM") || stem.starts_with("LPT"))
            && stem.ends_with(|c: char| c.is_ascii_digit()));
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

/// Removes the temporary files that a killed run left in `out`. `tag` is that of this run's shard: files of
/// other shards, which may be at work, are left alone.
pub fn clean(out: &Path, tag: &str) {
    let prefix = format!(".anim2gltf{tag}-");
    for entry in walkdir::WalkDir::new(out).into_iter().filter_map(|e| e.ok()) {
        if entry.file_type().is_file() && entry.file_name().to_string_lossy().starts_with(&prefix) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Writes `bytes` to `path` whole or not at all: beside it under a name that begins with a dot, then renamed.
/// `tag` goes into that name: see [`clean`].
///
/// # Errors
/// Io, naming the file.
pub fn write_whole(path: &Path, bytes: &[u8], tag: &str) -> Result<()> {
    let temporary = temporary_for(path, tag);
    let result = (|| {
        let mut file = match fs::File::create(&temporary) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                if let Some(folder) = path.parent() {
                    fs::create_dir_all(folder)?;
                }
                fs::File::create(&temporary)?
            }
            other => other?,
        };
        file.write_all(bytes)?;
        drop(file);
        fs::rename(&temporary, path)
    })();
    result.map_err(|e| {
        let _ = fs::remove_file(&temporary);
        Error::io("cannot be written", e).in_file(path)
    })
}

fn temporary_for(path: &Path, tag: &str) -> PathBuf {
    let mut name = std::ffi::OsString::from(format!(".anim2gltf{tag}-"));
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
