//! A file of the engine as a [`Source`]: a dictionary, or an archive whose dictionaries are the units.

use std::fs::File;
use std::path::PathBuf;

use super::container::rpf7;
use super::{GTA_V, GtaV};
use crate::error::{Error, Result};
use crate::io::read_at::FileAt;
use crate::source::find::{read_file, start_of, stem};
use crate::source::{Found, Game, Input, Layout, Resource, Scratch, Source};

/// Stored bytes of a dictionary in an archive: its table says only what it unpacks to.
const ENTRY_BYTES: u64 = 64 << 10;

/// Opens a dictionary or an archive.
pub(super) fn open(input: &Input) -> Result<Box<dyn Source>> {
    let name = input.relative.to_ascii_lowercase();
    let is_archive = if name.ends_with(".ycd") || name.ends_with(".ycd.xml") {
        // There are thousands of these: they are not opened twice.
        false
    } else {
        let mut file = File::open(&input.path).map_err(|e| Error::io("cannot be opened", e))?;
        let start = start_of(&mut file)?;
        let size = file.metadata().map_or(0, |m| m.len());
        start.starts_with(&rpf7::MAGIC) || (name.ends_with(".rpf") && !GTA_V.probe(&start, size, ""))
    };
    if !is_archive {
        let size = std::fs::metadata(&input.path).map_or(0, |m| m.len());
        return Ok(Box::new(Dictionary { path: input.path.clone(), stem: input.stem.clone(), size }));
    }
    let file = FileAt::open(&input.path)?;
    let listing = rpf7::list(&file)?;
    let is_dictionary = |path: &str| {
        let path = path.to_ascii_lowercase();
        path.ends_with(".ycd") || path.ends_with(".ycd.xml")
    };
    Ok(Box::new(Archive {
        file,
        entries: listing.entries.into_iter().filter(|e| is_dictionary(&e.path)).collect(),
        problems: listing.problems.into_iter().map(|e| e.in_file(&input.path)).collect(),
        path: input.path.clone(),
    }))
}

/// A clip dictionary: read whole when its turn comes, since dictionaries are small.
#[derive(Debug)]
struct Dictionary {
    path: PathBuf,
    stem: String,
    size: u64,
}

impl Source for Dictionary {
    fn layout(&self) -> Layout {
        Layout::File
    }

    fn units(&self) -> usize {
        1
    }

    fn unit_bytes(&self, _unit: usize) -> u64 {
        self.size
    }

    fn visit(
        &self,
        _unit: usize,
        _everything: bool,
        _scratch: &mut Scratch,
        visit: &mut dyn FnMut(Result<Found<'_>>),
    ) -> Result<()> {
        let bytes = read_file(&self.path).map_err(|e| e.in_file(&self.path))?;
        visit(Ok(Found::Clips(Resource::whole(&GTA_V, self.stem.clone(), bytes))));
        Ok(())
    }
}

/// The dictionaries of an archive, and what of it cannot be read.
#[derive(Debug)]
struct Archive {
    path: PathBuf,
    file: FileAt,
    entries: Vec<rpf7::Entry>,
    /// Encrypted or damaged parts.
    problems: Vec<Error>,
}

impl Source for Archive {
    fn layout(&self) -> Layout {
        Layout::Folder
    }

    fn units(&self) -> usize {
        self.entries.len()
    }

    fn unit_bytes(&self, _unit: usize) -> u64 {
        ENTRY_BYTES
    }

    fn unit_path(&self, unit: usize) -> Option<&str> {
        self.entries.get(unit).map(|e| e.path.as_str())
    }

    fn visit(
        &self,
        unit: usize,
        _everything: bool,
        _scratch: &mut Scratch,
        visit: &mut dyn FnMut(Result<Found<'_>>),
    ) -> Result<()> {
        let Some(entry) = self.entries.get(unit) else { return Ok(()) };
        let mut bytes = Vec::new();
        entry.read(&self.file, &mut bytes).map_err(|e| e.in_file(&self.path))?;
        let name = stem(entry.name(), GtaV.endings()).to_owned();
        visit(Ok(Found::Clips(Resource {
            entry: Some(entry.path.clone()),
            path: Some(entry.path.clone()),
            ..Resource::whole(&GTA_V, name, bytes)
        })));
        Ok(())
    }

    fn faults(&self) -> &[Error] {
        &self.problems
    }

    fn notes(&self) -> Vec<String> {
        let is_empty = self.entries.is_empty() && self.problems.is_empty();
        is_empty.then(|| "an archive without clip dictionaries".to_owned()).into_iter().collect()
    }
}
