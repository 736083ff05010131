//! What is done already: read from the manifest of the last run and from the journal of one that was stopped.
//!
//! The journal is one JSON line an output file, appended when the file stands under its own name. A line that
//! was cut by a kill is passed over. The manifest replaces the journal at the end of a run.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::write::manifest::{ClipRow, ErrorRow};

/// One output that is whole.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Done {
    /// Path of the main file, relative to the output folder.
    pub output: String,
    /// Hash of everything that the file depends on: input bytes, options, skeleton, version.
    pub key: String,
    /// Bytes of the main file.
    pub bytes: u64,
    /// Its clips.
    pub clips: Vec<ClipRow>,
    /// Clips of the same item that failed.
    #[serde(default)]
    pub errors: Vec<ErrorRow>,
}

/// The journal of a run.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: Option<File>,
    done: FxHashMap<String, Done>,
}

impl Journal {
    /// Opens the journal in `out` (`tag` tells shards apart) and reads what is done; `fresh` forgets it.
    ///
    /// # Errors
    /// Io, where the journal cannot be written.
    pub fn open(out: &Path, tag: &str, previous: Vec<Done>, fresh: bool) -> Result<Self> {
        let path = out.join(format!(".anim2gltf{tag}.journal"));
        let mut done = FxHashMap::default();
        if !fresh {
            let mut add = |d: Done| {
                done.insert(d.output.clone(), d);
            };
            previous.into_iter().for_each(&mut add);
            if let Ok(file) = File::open(&path) {
                for line in BufReader::new(file).split(b'\n').map_while(|l| l.ok()) {
                    if let Ok(d) = serde_json::from_slice::<Done>(&line) {
                        add(d);
                    }
                }
            }
        }
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .truncate(false)
            .open(&path)
            .map_err(|e| Error::io("cannot be written", e).in_file(&path))?;
        if fresh {
            file.set_len(0).map_err(|e| Error::io("cannot be written", e).in_file(&path))?;
        } else {
            // A line that was cut must not join the next one.
            (&file).write_all(b"\n").map_err(|e| Error::io("cannot be written", e).in_file(&path))?;
        }
        Ok(Journal { path, file: Some(file), done })
    }

    /// What an earlier run says of `output`, if that still holds: the same key, and a file of the same size.
    pub fn find(&self, out: &Path, output: &str, key: &str) -> Option<Done> {
        let done = self.done.get(output)?;
        let size = fs::metadata(out.join(output)).ok()?.len();
        (done.key == key && done.bytes == size).then(|| done.clone())
    }

    /// Remembers an output.
    ///
    /// # Errors
    /// Io.
    pub fn add(&mut self, done: &Done) -> Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let mut line = serde_json::to_vec(done).map_err(|e| Error::unsupported(e.to_string()))?;
        line.push(b'\n');
        file.write_all(&line).map_err(|e| Error::io("cannot be written", e).in_file(&self.path))
    }

    /// The manifest says everything now.
    pub fn close(mut self) {
        self.file = None;
        let _ = fs::remove_file(&self.path);
    }
}
