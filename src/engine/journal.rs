//! What is done: the rows of this run and of those before it, on disk, so that memory holds none of them.
//!
//! The journal is a file of records, appended in the order of the run; a record stands there only after its output
//! file stands under its own name. At the start it takes over what the manifest of the last run says; at the end the
//! manifest is made of it, and it goes. A record:
//!
//! | Line | Holds |
//! |---|---|
//! | 1 | [`Head`]: the file, its failures and notes, the number of its clips |
//! | 2.. | one [`ClipRow`] each |
//!
//! A kill can cut the last record: it is dropped when the journal is opened again.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use crate::error::{Error, Result};
use crate::io::read_at::{FileAt, ReadAt};
use crate::report::manifest;
use crate::report::manifest::{ClipRow, ErrorRow, FileRow, Manifest, NoteRow};

/// Bytes of records that wait in memory at most.
const BUFFER: usize = 64 << 10;

/// What an output depends on. Each part is a hash; a file is finished where the first two are equal. Where only the
/// second differs, the clips are read again, and the file stays if they choose the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// The bytes of the input and the options of reading, passes and writing.
    pub made_of: u128,
    /// What decides which clips and which skeleton are taken: the selection, all skeletons of the run.
    pub chosen_by: u64,
    /// The clips and the skeleton that were taken.
    pub chosen: u64,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032X}-{:016X}-{:016X}", self.made_of, self.chosen_by, self.chosen)
    }
}

impl FromStr for Key {
    type Err = ();

    fn from_str(text: &str) -> std::result::Result<Self, ()> {
        let mut parts = text.split('-');
        let mut part = || u128::from_str_radix(parts.next().unwrap_or_default(), 16).map_err(|_| ());
        let (made_of, chosen_by, chosen) = (part()?, part()?, part()?);
        let narrow = |v: u128| u64::try_from(v).map_err(|_| ());
        Ok(Key { made_of, chosen_by: narrow(chosen_by)?, chosen: narrow(chosen)? })
    }
}

/// One output that is whole.
#[derive(Debug, Clone)]
pub struct Done {
    /// The file.
    pub file: FileRow,
    /// Clips of the same item that failed.
    pub errors: Vec<ErrorRow>,
    /// Notes on the item.
    pub notes: Vec<NoteRow>,
    /// Its clips.
    pub clips: Vec<ClipRow>,
}

/// The first line of a record.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Head {
    /// The file.
    pub file: FileRow,
    /// Clips of the same item that failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<ErrorRow>,
    /// Notes on the item.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<NoteRow>,
    /// Number of its clips: lines that follow.
    pub clips: usize,
}

/// How the first line of a record begins, and how the others do.
const HEAD: &[u8] = b"{\"file\":";
const ROW: &[u8] = b"{\"source\":";

/// Where a record stands in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordSpan {
    at: u64,
    head: u32,
    size: u32,
}

/// A file that an earlier run has finished.
#[derive(Debug, Clone, Copy)]
pub struct Known {
    /// What it depends on.
    pub key: Key,
    /// Bytes, companions included.
    pub bytes: u64,
    /// Its record.
    pub record: RecordSpan,
}

/// The records of earlier runs, by output; read from many threads.
#[derive(Debug)]
pub struct Records {
    file: FileAt,
    path: PathBuf,
    known: FxHashMap<u128, Known>,
}

impl Records {
    /// What an earlier run says of `output`.
    pub fn find(&self, output: &str) -> Option<&Known> {
        self.known.get(&xxh3_128(output.as_bytes()))
    }

    /// The whole record.
    ///
    /// # Errors
    /// Io; a record that was changed since.
    pub fn read(&self, record: RecordSpan) -> Result<Done> {
        let bytes = self.bytes(record.at, record.size as usize)?;
        let mut lines = lines(&bytes);
        let head: Head = self.parse(lines.next().unwrap_or_default())?;
        let clips = lines.map(|line| self.parse(line)).collect::<Result<_>>()?;
        Ok(Done { file: head.file, errors: head.errors, notes: head.notes, clips })
    }

    /// The file of a record.
    ///
    /// # Errors
    /// As [`Records::read`].
    pub fn head(&self, record: RecordSpan) -> Result<Head> {
        self.parse(&self.bytes(record.at, record.head as usize)?)
    }

    /// Calls `row` with the line of each clip of a record.
    ///
    /// # Errors
    /// Io of the journal (an [`Error`] inside), and those of `row`.
    pub fn rows(&self, record: RecordSpan, row: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let at = record.at + u64::from(record.head);
        let bytes = self.bytes(at, (record.size - record.head) as usize).map_err(io::Error::other)?;
        lines(&bytes).try_for_each(row)
    }

    fn bytes(&self, at: u64, size: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; size];
        self.file
            .read_exact_at(&mut bytes, at)
            .map_err(|e| Error::io("cannot be read", e).in_file(&self.path))?;
        Ok(bytes)
    }

    fn parse<T: for<'de> Deserialize<'de>>(&self, line: &[u8]) -> Result<T> {
        serde_json::from_slice(line)
            .map_err(|e| Error::unsupported(format!("the journal was changed: {e}")).in_file(&self.path))
    }
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|b| *b == b'\n').filter(|line| !line.is_empty())
}

/// The journal of a run: what is appended.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    /// Bytes in the file.
    end: u64,
    buffer: Vec<u8>,
}

impl Journal {
    /// Opens the journal in `out` (`tag` tells shards apart) with what earlier runs say; `fresh` forgets that.
    ///
    /// # Errors
    /// Io, where the journal cannot be written.
    pub fn open(out: &Path, tag: &str, fresh: bool) -> Result<(Self, Records)> {
        let path = out.join(format!(".anim2gltf{tag}.journal"));
        let io = |e| Error::io("cannot be written", e).in_file(&path);
        let file = OpenOptions::new().read(true).append(true).create(true).open(&path).map_err(io)?;
        let mut known = FxHashMap::default();
        let end = if fresh { 0 } else { scan(&file, &mut known) };
        file.set_len(end).map_err(io)?;
        let reader = FileAt::open(&path)?;
        let mut journal = Journal { path: path.clone(), file, end, buffer: Vec::new() };
        if !fresh {
            for manifest in previous(out, tag) {
                journal.import(&manifest, &mut known)?;
            }
            journal.flush()?;
        }
        Ok((journal, Records { file: reader, path, known }))
    }

    /// Takes over the rows of a manifest. Those of the journal are younger and stay.
    fn import(&mut self, path: &Path, known: &mut FxHashMap<u128, Known>) -> Result<()> {
        let Ok(file) = File::open(path) else { return Ok(()) };
        let mut result = Ok(());
        let mut import = |mut done: Done| {
            // Found anew by each run.
            done.clips.iter_mut().for_each(|c| c.also_at.clear());
            let hash = xxh3_128(done.file.output.as_bytes());
            if let (Ok(key), false) = (done.file.key.parse(), known.contains_key(&hash)) {
                match self.add(&done) {
                    Ok(record) => {
                        known.insert(hash, Known { key, bytes: done.file.bytes, record });
                    }
                    Err(e) => result = Err(e),
                }
            }
        };
        // One that is damaged, or of another program, is as good as none: what is not known is done again.
        let _ = for_each_file(BufReader::with_capacity(1 << 18, file), |_, done| import(done));
        result
    }

    /// Appends the record of an output.
    ///
    /// # Errors
    /// Io.
    pub fn add(&mut self, done: &Done) -> Result<RecordSpan> {
        let at = self.buffer.len();
        let head =
            HeadRef { file: &done.file, errors: &done.errors, notes: &done.notes, clips: done.clips.len() };
        let line = |buffer: &mut Vec<u8>, row: &dyn Fn(&mut Vec<u8>) -> serde_json::Result<()>| {
            row(buffer).map_err(|e| Error::unsupported(format!("journal: {e}")))?;
            buffer.push(b'\n');
            Ok(buffer.len() - at)
        };
        let head = line(&mut self.buffer, &|buffer| serde_json::to_writer(buffer, &head))?;
        let mut size = head;
        for clip in &done.clips {
            size = line(&mut self.buffer, &|buffer| serde_json::to_writer(buffer, clip))?;
        }
        let (Ok(head), Ok(size)) = (u32::try_from(head), u32::try_from(size)) else {
            return Err(Error::limit(0, format_args!("{size} bytes of rows"), "at most 4 GiB for a file"));
        };
        let record = RecordSpan { at: self.end + at as u64, head, size };
        if self.buffer.len() >= BUFFER {
            self.flush()?;
        }
        Ok(record)
    }

    /// Writes what waits.
    ///
    /// # Errors
    /// Io.
    pub fn flush(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        match self.file.write_all(&self.buffer) {
            Ok(()) => {
                self.end += self.buffer.len() as u64;
                self.buffer.clear();
                Ok(())
            }
            Err(e) => {
                self.keep_whole_records();
                Err(Error::io("cannot be written", e).in_file(&self.path))
            }
        }
    }

    /// After a write that came to nothing half-way (a full disk): the records that are whole stay, the others wait for
    /// the next [`Journal::flush`]. A torn line would run into what is appended behind it.
    fn keep_whole_records(&mut self) {
        let length = self.file.metadata().map_or(self.end, |m| m.len());
        let written =
            usize::try_from(length.saturating_sub(self.end)).map_or(0, |n| n.min(self.buffer.len()));
        let next =
            self.buffer[..written].windows(1 + HEAD.len()).rposition(|w| w[0] == b'\n' && w[1..] == *HEAD);
        let whole = next.map_or(0, |newline| newline + 1);
        if self.file.set_len(self.end + whole as u64).is_ok() {
            self.end += whole as u64;
            self.buffer.drain(..whole);
        }
    }

    /// Removes it: the manifest says everything now.
    pub fn close(self) {
        drop(self.file);
        let _ = fs::remove_file(&self.path);
    }
}

#[derive(Serialize)]
struct HeadRef<'a> {
    file: &'a FileRow,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    errors: &'a [ErrorRow],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    notes: &'a [NoteRow],
    clips: usize,
}

/// Indexes the records of a journal; returns where the last whole one ends.
fn scan(file: &File, known: &mut FxHashMap<u128, Known>) -> u64 {
    let mut reader = BufReader::with_capacity(1 << 18, file);
    let (mut at, mut line) = (0, Vec::new());
    loop {
        let Some(head) = next_line(&mut reader, &mut line, HEAD) else { return at };
        let Ok(first) = serde_json::from_slice::<Head>(&line) else { return at };
        let mut size = head;
        for _ in 0..first.clips {
            let Some(row) = next_line(&mut reader, &mut line, ROW) else { return at };
            size += row;
        }
        let (Ok(head), Ok(size)) = (u32::try_from(head), u32::try_from(size)) else { return at };
        if let Ok(key) = first.file.key.parse() {
            let record = RecordSpan { at, head, size };
            known.insert(
                xxh3_128(first.file.output.as_bytes()),
                Known { key, bytes: first.file.bytes, record },
            );
        }
        at += u64::from(size);
    }
}

/// The size of the next line with its end, if it is whole and begins as it should.
fn next_line(reader: &mut impl BufRead, line: &mut Vec<u8>, begin: &[u8]) -> Option<usize> {
    line.clear();
    let size = reader.read_until(b'\n', line).ok()?;
    (line.starts_with(begin) && line.ends_with(b"}\n")).then_some(size)
}

/// The manifests to resume from: the run's own; those of all shards for a whole run, that of a whole run for a shard
/// that has none yet.
fn previous(out: &Path, tag: &str) -> Vec<PathBuf> {
    let own = out.join(format!("manifest{tag}.json"));
    let whole = out.join("manifest.json");
    match (tag, own.is_file()) {
        ("", true) => vec![own],
        ("", false) => shard_manifests(out),
        (_, true) => vec![own],
        (_, false) => vec![whole],
    }
}

/// The manifests of shards in `out`, by name.
pub fn shard_manifests(out: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(out) else { return Vec::new() };
    let mut shards: Vec<PathBuf> = entries
        .filter_map(std::result::Result::ok)
        .map(|e| e.path())
        .filter(|p| {
            let name = p.file_name().unwrap_or_default().to_string_lossy().into_owned();
            name.strip_prefix("manifest.")
                .is_some_and(|rest| rest.ends_with(".json") && rest.contains("-of-"))
        })
        .collect();
    shards.sort();
    shards
}

/// Reads a manifest file by file: each with the clips, failures and notes that belong to it. Returns what comes
/// before the clips in the manifest.
///
/// # Errors
/// What is no manifest.
pub fn for_each_file(
    from: impl io::Read,
    mut file: impl FnMut(&Manifest, Done),
) -> serde_json::Result<Manifest> {
    #[derive(Default)]
    struct Of {
        errors: Vec<ErrorRow>,
        notes: Vec<NoteRow>,
    }
    let mut of: Option<FxHashMap<String, Of>> = None;
    let mut next = 0;
    let mut clips: Vec<ClipRow> = Vec::new();
    // Rows of clips stand in the order of their files.
    let mut give = |manifest: &Manifest, clips: Vec<ClipRow>| {
        let Some(output) = clips.first().map(|c| &c.output) else { return };
        let Some(at) = manifest.files[next..].iter().position(|f| f.output == *output) else { return };
        let row = manifest.files[next + at].clone();
        next += at + 1;
        let of = of.get_or_insert_with(|| {
            let mut of: FxHashMap<String, Of> = FxHashMap::default();
            for e in &manifest.errors {
                if let Some(output) = &e.output {
                    of.entry(output.clone()).or_default().errors.push(e.clone());
                }
            }
            for n in &manifest.notes {
                if let Some(output) = &n.output {
                    of.entry(output.clone()).or_default().notes.push(n.clone());
                }
            }
            of
        });
        let Of { errors, notes } = of.remove(output).unwrap_or_default();
        file(manifest, Done { file: row, errors, notes, clips });
    };
    let manifest = manifest::read(from, &mut |manifest, row| {
        if clips.first().is_some_and(|first| first.output != row.output) {
            give(manifest, std::mem::take(&mut clips));
        }
        clips.push(row);
    })?;
    give(&manifest, clips);
    Ok(manifest)
}
