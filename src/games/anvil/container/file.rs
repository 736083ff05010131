//! The front of Anvil's containers: a `.forge`, a `.data` or a loose resource, read entry by entry from many threads.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::error::{Error, Result};
use crate::games::anvil::container::codec::Codec;
use crate::games::anvil::container::data;
use crate::games::anvil::container::data::{ContainerForm, DataOptions, Unpacked, Unpacker};
use crate::games::anvil::container::forge;
use crate::games::anvil::container::forge::{Archive, Entry};
use crate::games::anvil::container::loose;
use crate::games::anvil::container::object::{Generation, Object};
use crate::games::anvil::container::walk;
use crate::games::anvil::container::walk::{Context, WalkReport};
use crate::io::read_at::{FileAt, ReadAt};

/// How containers are read.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// The codec of every packed block, instead of the one that each container shows.
    pub codec: Option<Codec>,
}

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An archive.
    Forge,
    /// A chain of data containers without an archive.
    Data,
    /// A resource in a file of its own.
    Loose,
}

/// How many bytes of a file's start [`probe`] looks at.
pub const PROBE_SIZE: usize = 4096;

/// The kind of a file, from its first [`PROBE_SIZE`] bytes (or all of a shorter one) and its `extension`; `None` for a
/// file that is not Anvil's.
pub fn probe(prefix: &[u8], extension: &str) -> Option<Kind> {
    if Archive::<&[u8]>::probe(prefix) {
        Some(Kind::Forge)
    } else if data::probe(prefix) {
        Some(Kind::Data)
    } else if loose::probe(prefix, extension) {
        Some(Kind::Loose)
    } else {
        None
    }
}

/// The buffers and decoders of one thread, kept from entry to entry.
#[derive(Debug, Default)]
pub struct Scratch {
    packed: Vec<u8>,
    unpacker: Unpacker,
    report: WalkReport,
}

impl Scratch {
    /// Empty buffers. They grow to the largest entry that is read.
    pub fn new() -> Self {
        Scratch::default()
    }

    /// Notes about the entry that was read last: what was assumed, and what contradicts docs/formats.
    pub fn notes(&self) -> &[String] {
        &self.report.notes
    }
}

/// How a part of a file was read where docs/formats leaves it open. The order is the one of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Assumption {
    /// Bytes before the first container of a payload.
    Before(usize),
    /// A payload without a container.
    Raw,
    /// A data container.
    Container(ContainerForm),
    /// A directory.
    Directory(&'static str),
    /// A loose file.
    Loose(&'static str),
}

impl std::fmt::Display for Assumption {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Assumption::Before(data::FILEDATA_SIZE) => f.write_str("payloads behind a FILEDATA header"),
            Assumption::Before(n) if *n > data::FILEDATA_SIZE => {
                write!(f, "payloads behind a FILEDATA header and {} bytes", n - data::FILEDATA_SIZE)
            }
            Assumption::Before(n) => write!(f, "payloads behind {n} bytes"),
            Assumption::Raw => f.write_str("payloads without a container"),
            Assumption::Container(form) => write!(f, "data containers of {form}"),
            Assumption::Directory(form) => write!(f, "directories as {form}"),
            Assumption::Loose(form) => f.write_str(form),
        }
    }
}

/// An opened Anvil file. Threads share it, because everything is read by position.
#[derive(Debug)]
pub struct AnvilFile {
    path: PathBuf,
    stem: String,
    extension: String,
    options: Options,
    kind: Kind,
    content: Content,
    faults: Vec<Error>,
    /// The assumptions about the entries read so far. A set, because threads read entries in any order.
    assumptions: Mutex<BTreeSet<Assumption>>,
}

type Source = Box<dyn ReadAt>;

enum Content {
    Archive(Archive<Source>),
    Whole { source: Source, entry: Entry },
}

impl std::fmt::Debug for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Content::Archive(archive) => write!(f, "Archive({} entries)", archive.entries().len()),
            Content::Whole { entry, .. } => write!(f, "Whole({} bytes)", entry.size),
        }
    }
}

/// Opens the file at `path`; errors name it.
pub fn open(path: &Path, options: &Options) -> Result<AnvilFile> {
    FileAt::open(path)
        .and_then(|file| AnvilFile::new(Box::new(file), path, options))
        .map_err(|e| e.in_file(path))
}

impl AnvilFile {
    /// A source over any bytes; `path` gives stem and extension, which name and prove loose resources.
    pub fn new(source: Source, path: &Path, options: &Options) -> Result<Self> {
        let part = |part: Option<&OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
        let (stem, extension) = (part(path.file_stem()), part(path.extension()));
        let len = source.len();
        if len == 0 {
            return Err(Error::malformed(
                0,
                "an empty file",
                "a forge archive, a data container or a resource",
            ));
        }
        let mut prefix = vec![0; PROBE_SIZE.min(usize::try_from(len).unwrap_or(PROBE_SIZE))];
        source.read_exact_at(&mut prefix, 0).map_err(|e| Error::io("cannot read", e))?;
        let kind = match probe(&prefix, &extension) {
            Some(kind) => kind,
            None if extension.eq_ignore_ascii_case("forge") => Kind::Forge,
            None => Kind::Loose,
        };
        let mut faults = Vec::new();
        let content = match kind {
            Kind::Forge => {
                let mut archive = Archive::open(source)?;
                faults.extend(archive.take_faults().into_iter().map(|e| e.in_file(path)));
                Content::Archive(archive)
            }
            Kind::Data | Kind::Loose => {
                if len > loose::MAX_SIZE {
                    return Err(Error::limit(
                        0,
                        format_args!("{len} bytes"),
                        "at most 1 GiB outside an archive",
                    ));
                }
                let entry =
                    Entry { index: 0, id: 0, name: Some(stem.clone()), class: None, offset: 0, size: len };
                Content::Whole { source, entry }
            }
        };
        Ok(AnvilFile {
            path: path.to_owned(),
            stem,
            extension,
            options: *options,
            kind,
            content,
            faults,
            assumptions: Mutex::default(),
        })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the file is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Version of the archive, where it is one.
    pub fn forge_version(&self) -> Option<u32> {
        match &self.content {
            Content::Archive(archive) => Some(archive.version()),
            Content::Whole { .. } => None,
        }
    }

    /// The entries: those of an archive without the special ones, or one for the whole file (id 0, named by the stem).
    pub fn entries(&self) -> &[Entry] {
        match &self.content {
            Content::Archive(archive) => archive.entries(),
            Content::Whole { entry, .. } => std::slice::from_ref(entry),
        }
    }

    /// Notes about the archive: what was assumed, and what contradicts docs/formats.
    pub fn notes(&self) -> &[String] {
        match &self.content {
            Content::Archive(archive) => archive.notes(),
            Content::Whole { .. } => &[],
        }
    }

    /// How the index, the containers, the directories and the resources of all entries read so far were read: each
    /// assumption once, in a fixed order. docs/formats cannot tell these of a game before its files were seen.
    pub fn assumptions(&self) -> Vec<String> {
        let index = match &self.content {
            Content::Archive(archive) => Some(archive.form()),
            Content::Whole { .. } => None,
        };
        let assumptions = self.assumptions.lock().unwrap_or_else(PoisonError::into_inner);
        index.into_iter().chain(assumptions.iter().map(Assumption::to_string)).collect()
    }

    fn assume(&self, met: impl IntoIterator<Item = Assumption>) {
        self.assumptions.lock().unwrap_or_else(PoisonError::into_inner).extend(met);
    }

    /// Damage of the archive's index that leaves other entries readable: each error is one failure to report.
    pub fn faults(&self) -> &[Error] {
        &self.faults
    }

    /// The generation that the archive's version suggests.
    fn expected_generation(&self) -> Generation {
        match self.forge_version() {
            Some(version) if version <= 26 => Generation::Ids32,
            _ => Generation::Ids64,
        }
    }

    /// Reads and unpacks entry `index` (its position in [`AnvilFile::entries`]) without looking at its objects.
    pub fn unpack<'s>(&self, index: usize, scratch: &'s mut Scratch) -> Result<Unpacked<'s>> {
        let entry = self.entry(index)?;
        let unpacked = self.read(entry, &mut scratch.packed).and_then(|packed| {
            let options = DataOptions { forge_version: self.forge_version(), codec: self.options.codec };
            scratch.unpacker.unpack(packed, &options)
        });
        unpacked.map_err(|e| self.locate(entry, e))
    }

    /// Calls `visit` with every object of entry `index` (its position in [`AnvilFile::entries`]), in stored order.
    /// A damaged object is passed as an `Err`; the returned `Err` is of the entry as a whole. Errors name
    /// file and entry, with offsets in the entry or in its unpacked container.
    pub fn for_each_object(
        &self,
        index: usize,
        scratch: &mut Scratch,
        visit: &mut dyn FnMut(Result<Object<'_>>),
    ) -> Result<()> {
        scratch.report.notes.clear();
        let entry = self.entry(index)?;
        let visit = &mut |result: Result<Object<'_>>| visit(result.map_err(|e| self.locate(entry, e)));
        if self.kind == Kind::Loose {
            return self
                .read(entry, &mut scratch.packed)
                .and_then(|bytes| loose::for_each_object(bytes, &self.stem, &self.extension, visit))
                .map(|form| self.assume([Assumption::Loose(form)]))
                .map_err(|e| self.locate(entry, e));
        }
        let Scratch { packed, unpacker, report } = scratch;
        report.directories.clear();
        let packed = self.read(entry, packed).map_err(|e| self.locate(entry, e))?;
        let options = DataOptions { forge_version: self.forge_version(), codec: self.options.codec };
        let unpacked = unpacker.unpack(packed, &options).map_err(|e| self.locate(entry, e))?;
        report.notes.extend_from_slice(unpacked.notes);
        let known = (self.kind == Kind::Forge).then_some(entry);
        let walked = walk::for_each_object(
            &unpacked,
            Context { entry: known, likely: self.expected_generation() },
            report,
            visit,
        );
        let before = (unpacked.before > 0).then_some(Assumption::Before(unpacked.before));
        let raw = unpacked.containers.is_empty().then_some(Assumption::Raw);
        let containers = unpacked.containers.iter().map(|c| Assumption::Container(c.form));
        let directories = report.directories.iter().map(|form| Assumption::Directory(form));
        self.assume(before.into_iter().chain(raw).chain(containers).chain(directories));
        walked.map_err(|e| self.locate(entry, e))
    }

    fn entry(&self, index: usize) -> Result<&Entry> {
        let entries = self.entries();
        entries
            .get(index)
            .ok_or_else(|| Error::usage(format!("entry {index} of {}", entries.len())).in_file(&self.path))
    }

    fn read<'b>(&self, entry: &Entry, buffer: &'b mut Vec<u8>) -> Result<&'b [u8]> {
        match &self.content {
            Content::Archive(archive) => archive.read_entry(entry, buffer),
            Content::Whole { source, .. } => forge::read_range(source, entry.offset, entry.size, buffer),
        }
    }

    /// Adds the entry (in an archive) and the file to an error.
    fn locate(&self, entry: &Entry, error: Error) -> Error {
        let error = if self.kind == Kind::Forge { error.in_entry(entry.label()) } else { error };
        error.in_file(&self.path)
    }
}
