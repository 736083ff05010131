//! Files to items, items to clips. An item is what becomes one output file: a whole clip dictionary, or one
//! Animation of Anvil's.

use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use rustc_hash::FxHashMap;
use xxhash_rust::xxh3::xxh3_128;

use crate::error::{Error, Result};
use crate::games::anvil::animation::{riders_republic as rr, shaun_white as sws};
use crate::games::anvil::container::file as anvil;
use crate::games::anvil::container::file::AnvilSource;
use crate::games::anvil::container::object::{Generation, Object, class};
use crate::games::anvil::names::NameTable;
use crate::games::anvil::{sets as anvil_sets, skeleton as anvil_skeleton};
use crate::games::rage::container::{rpf7, rsc7};
use crate::games::rage::names as rage;
use crate::games::rage::xml::read as ycd_xml;
use crate::games::rage::ycd;
use crate::io::read_at::FileAt;
use crate::model::naming::JointNames;
use crate::model::{Clip, JointId, Skeleton};
use crate::report::manifest::DecidedRow;
use crate::source::find;
use crate::source::find::{Input, Kind};

/// An input that is open.
#[derive(Debug)]
pub enum Source {
    /// Read whole when its turn comes: dictionaries are small.
    Dictionary,
    /// Read entry by entry.
    Anvil(Box<AnvilSource>),
    /// The dictionaries of a RAGE archive, and what of it cannot be read.
    Rpf {
        /// The file.
        file: FileAt,
        /// Its dictionaries.
        entries: Vec<rpf7::Entry>,
        /// Encrypted or damaged parts.
        problems: Vec<Error>,
    },
}

/// A part of an input that is read at once: a dictionary, or an entry of an archive.
#[derive(Debug)]
pub struct Unit {
    /// Index of the input.
    pub input: usize,
    /// Index of the entry, 0 for a dictionary.
    pub entry: usize,
    /// Stored bytes.
    pub size: u64,
    /// Its items, where a look into the archive has found them all: then it is not read again.
    pub found: Option<Vec<Item>>,
}

/// What becomes one output file, with its bytes.
#[derive(Debug)]
pub struct Item {
    /// Index of the input.
    pub input: usize,
    /// The archive entry, for errors.
    pub entry: Option<String>,
    /// What it is called.
    pub name: String,
    /// Its path in an archive that has folders.
    pub inside: Option<String>,
    /// Its identity (Anvil).
    pub id: u64,
    /// Hash of its bytes.
    pub hash: u128,
    /// Its bytes.
    pub content: Content,
}

/// The bytes of an [`Item`].
#[derive(Debug)]
pub enum Content {
    /// A dictionary file.
    Dictionary(Vec<u8>),
    /// An Animation that a look has met before, or that waits in [`Kept`].
    Seen,
    /// An Animation.
    Object {
        /// Generation.
        generation: Generation,
        /// File header.
        header: Vec<u8>,
        /// Body.
        body: Vec<u8>,
        /// Where the body stood.
        body_offset: u64,
    },
}

/// What an item's clips are read into.
#[derive(Debug, Default)]
pub struct Read {
    /// Clips.
    pub clips: Vec<Clip>,
    /// Clips that could not be read.
    pub errors: Vec<Error>,
    /// Notes on the item as a whole.
    pub notes: Vec<String>,
}

impl Item {
    /// Identity of an Animation: equal ones are the same clip.
    pub fn identity(&self) -> (u64, u128) {
        (self.id, self.hash)
    }

    /// Bytes that it holds.
    pub fn size(&self) -> u64 {
        match &self.content {
            Content::Dictionary(bytes) => bytes.len() as u64,
            Content::Object { body, .. } => body.len() as u64,
            Content::Seen => 0,
        }
    }
}

/// Animations that a look into archives has met, each with its bytes as long as there is room: what waits here is
/// not unpacked a second time.
#[derive(Debug)]
pub struct Kept {
    contents: Mutex<FxHashMap<(u64, u128), Option<Content>>>,
    room: AtomicU64,
}

impl Kept {
    /// With room for `bytes`.
    pub fn new(bytes: u64) -> Self {
        Kept { contents: Mutex::default(), room: AtomicU64::new(bytes) }
    }

    fn keep(&self, identity: (u64, u128), object: &Object<'_>) {
        let Ok(mut contents) = self.contents.lock() else { return };
        contents.entry(identity).or_insert_with(|| {
            let size = object.body.len() as u64;
            let take = |room: u64| room.checked_sub(size);
            let fits = self.room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok();
            fits.then(|| content(object))
        });
    }

    /// Gives the bytes of an Animation, once.
    pub fn take(&self, identity: (u64, u128)) -> Option<Content> {
        self.contents.lock().ok()?.get_mut(&identity)?.take()
    }
}

/// What a look into the objects of an archive finds.
#[derive(Debug, Default)]
pub struct Scan {
    /// Skeletons, in stored order.
    pub skeletons: Vec<Skeleton>,
    /// Animations, in stored order, without their bytes.
    pub items: Vec<Item>,
    /// Whether something could not be read: the entry is read again, and its faults are reported, with its clips.
    pub is_damaged: bool,
    /// AnimSets: name, id, pairs of clip ids.
    pub sets: Vec<anvil_sets::AnimSet>,
    /// Entities that name clips: name, id, clip ids.
    pub entities: Vec<(String, u64, Vec<u64>)>,
    /// What could not be read.
    pub errors: Vec<Error>,
    /// How open questions were decided.
    pub notes: Vec<String>,
}

/// Opens an input.
///
/// # Errors
/// See [`anvil::open`]; unknown kinds are refused.
pub fn open(input: &Input, options: &anvil::Options) -> Result<Source> {
    match input.kind {
        Kind::Ycd => Ok(Source::Dictionary),
        Kind::Anvil(_) => Ok(Source::Anvil(Box::new(anvil::open(&input.path, options)?))),
        Kind::Rpf => {
            let file = FileAt::open(&input.path).map_err(|e| e.in_file(&input.path))?;
            let listing = rpf7::list(&file).map_err(|e| e.in_file(&input.path))?;
            let is_dictionary = |path: &str| {
                let path = path.to_ascii_lowercase();
                path.ends_with(".ycd") || path.ends_with(".ycd.xml")
            };
            Ok(Source::Rpf {
                file,
                entries: listing.entries.into_iter().filter(|e| is_dictionary(&e.path)).collect(),
                problems: listing.problems.into_iter().map(|e| e.in_file(&input.path)).collect(),
            })
        }
        Kind::Unknown => Err(Error::unsupported(
            "found none of the known beginnings, expected a clip dictionary (.ycd, .ycd.xml), an archive (.forge, .data, .rpf) or a .Animation",
        )
        .at(0)
        .in_file(&input.path)),
    }
}

/// How each of Anvil's inputs was read so far, where the formats leave it open: a row for each archive, and for files
/// outside archives, of which there may be thousands, a row for those that were read in the same ways.
pub fn decided(inputs: &[Input], sources: &[Option<Source>]) -> Vec<DecidedRow> {
    let mut rows: Vec<DecidedRow> = Vec::new();
    let mut outside: FxHashMap<Vec<String>, usize> = FxHashMap::default();
    for (input, source) in inputs.iter().zip(sources) {
        let Some(Source::Anvil(source)) = source else { continue };
        let decided = source.decided();
        if decided.is_empty() {
            continue;
        }
        if source.kind() != anvil::Kind::Forge {
            if let Some(row) = outside.get(&decided) {
                rows[*row].alike += 1;
                continue;
            }
            outside.insert(decided.clone(), rows.len());
        }
        rows.push(DecidedRow { source: input.relative.clone(), alike: 0, decided });
    }
    rows
}

/// Looks through one entry. Bytes of Animations go to `kept`.
pub fn scan(
    input: usize,
    source: &AnvilSource,
    entry: usize,
    scratch: &mut anvil::Scratch,
    kept: Option<&Kept>,
) -> Scan {
    let mut scan = Scan::default();
    let result = source.for_each_object(entry, scratch, &mut |object| {
        let Ok(object) = object else {
            scan.is_damaged = true;
            return;
        };
        let place = |e: Error| e.in_entry(label(&object)).in_file(source.path());
        match object.class {
            class::ANIMATION => {
                let item = item(input, &object, Content::Seen);
                if let Some(kept) = kept {
                    kept.keep(item.identity(), &object);
                }
                scan.items.push(item);
            }
            class::SKELETON => match anvil_skeleton::read(&object) {
                Ok(skeleton) => scan.skeletons.push(skeleton),
                Err(e) => scan.errors.push(place(e)),
            },
            class::ANIM_SET => match anvil_sets::read_anim_set(&object) {
                Ok(set) => scan.sets.push(set),
                Err(e) => scan.errors.push(place(e)),
            },
            _ => {
                let clips = anvil_sets::entity_clips(&object);
                if !clips.is_empty() {
                    scan.entities.push((object.name.clone(), object.id, clips));
                }
            }
        }
    });
    scan.is_damaged |= result.is_err();
    scan.notes.extend(scratch.notes().iter().cloned());
    scan
}

fn label(object: &Object<'_>) -> String {
    format!("\"{}\" ({:X})", object.name, object.id)
}

/// What a unit holds.
#[derive(Debug, Default)]
pub struct Contents {
    /// Index of its input, and of its entry there.
    pub input: usize,
    /// See [`Unit::entry`].
    pub entry: usize,
    /// Its items.
    pub items: Vec<Item>,
    /// What could not be read of it.
    pub errors: Vec<Error>,
    /// How open questions were decided.
    pub notes: Vec<String>,
}

/// Reads a unit.
pub fn items(
    inputs: &[Input],
    sources: &[Option<Source>],
    unit: &Unit,
    scratch: &mut anvil::Scratch,
) -> Contents {
    let input = &inputs[unit.input];
    let mut out = Contents { input: unit.input, entry: unit.entry, ..Contents::default() };
    let dictionary = |bytes: Vec<u8>, entry: Option<&rpf7::Entry>| Item {
        input: unit.input,
        entry: entry.map(|e| e.path.clone()),
        name: entry.map_or(input.stem(), |e| find::stem(e.name())).to_owned(),
        inside: entry.map(|e| e.path.clone()),
        id: 0,
        hash: xxh3_128(&bytes),
        content: Content::Dictionary(bytes),
    };
    match &sources[unit.input] {
        Some(Source::Dictionary) => match find::read_file(&input.path) {
            Ok(bytes) => out.items.push(dictionary(bytes, None)),
            Err(e) => out.errors.push(e.in_file(&input.path)),
        },
        Some(Source::Rpf { file, entries, .. }) => {
            let entry = &entries[unit.entry];
            let mut bytes = Vec::new();
            match entry.read(file, &mut bytes) {
                Ok(()) => out.items.push(dictionary(bytes, Some(entry))),
                Err(e) => out.errors.push(e.in_file(&input.path)),
            }
        }
        Some(Source::Anvil(source)) => {
            let result = source.for_each_object(unit.entry, scratch, &mut |object| match object {
                Ok(object) if object.class == class::ANIMATION => {
                    out.items.push(item(unit.input, &object, content(&object)));
                }
                Ok(_) => {}
                Err(e) => out.errors.push(e),
            });
            out.errors.extend(result.err());
            out.notes.extend(scratch.notes().iter().cloned());
        }
        None => {}
    }
    out
}

fn item(input: usize, object: &Object<'_>, content: Content) -> Item {
    Item {
        input,
        // The readers name the Animation themselves.
        entry: None,
        name: object.name.clone(),
        inside: None,
        id: object.id,
        hash: xxh3_128(object.body),
        content,
    }
}

fn content(object: &Object<'_>) -> Content {
    Content::Object {
        generation: object.generation,
        header: object.header.to_vec(),
        body: object.body.to_vec(),
        body_offset: object.body_offset,
    }
}

/// Bytes of a buffer that a thread keeps, at most.
const KEPT_SCRATCH: usize = 4 << 20;

thread_local! {
    /// Room for an unpacked dictionary: fresh memory for each costs as much as unpacking it.
    static UNPACKED: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Reads an item's clips; `source` is what they say of where they come from.
///
/// # Errors
/// Where nothing of the item can be read. They name the entry, not the file.
pub fn read(item: &Item, source: &str) -> Result<Read> {
    match &item.content {
        Content::Dictionary(bytes) => {
            let mut scratch = UNPACKED.take();
            let place = |e: Error| match &item.entry {
                Some(entry) => e.in_entry(entry.clone()),
                None => e,
            };
            let dictionary = dictionary(bytes, &mut scratch).map_err(place)?;
            let mut read = ycd::clips::assemble(dictionary, source).map_err(place)?;
            if scratch.capacity() <= KEPT_SCRATCH {
                UNPACKED.set(scratch);
            }
            if item.entry.is_some() {
                read.errors = read.errors.into_iter().map(place).collect();
            }
            if read.clips.is_empty() && read.errors.is_empty() {
                return Err(place(Error::unsupported("a dictionary without clips")));
            }
            Ok(Read { clips: read.clips, errors: read.errors, notes: read.notes })
        }
        Content::Object { generation, header, body, body_offset } => {
            let object = Object {
                generation: *generation,
                class: class::ANIMATION,
                id: item.id,
                name: item.name.clone(),
                header,
                body,
                body_offset: *body_offset,
            };
            let clip = match generation {
                Generation::Ids64 => rr::read(&object, source),
                Generation::Ids32 => sws::read(&object, source),
            };
            Ok(Read { clips: vec![clip?], ..Read::default() })
        }
        Content::Seen => Err(Error::unsupported("its first place could not be read")
            .in_entry(format!("\"{}\" ({:X})", item.name, item.id))),
    }
}

/// The records of a dictionary, from its binary or its XML form.
///
/// # Errors
/// See [`rsc7::open`], [`ycd::dictionary::read`], [`ycd_xml::read`].
pub fn dictionary<'a>(bytes: &'a [u8], scratch: &'a mut Vec<u8>) -> Result<ycd::Dictionary<'a>> {
    if ycd_xml::probe(bytes) {
        return ycd_xml::read(bytes);
    }
    let resource = rsc7::open(bytes, scratch)?;
    ycd::dictionary::read(&resource)
}

/// What clips of `input` say of where they come from: its relative path, and the archive's entry behind it.
pub fn source_text(input: &Input, item: &Item) -> String {
    match (input.kind, &item.content) {
        (Kind::Anvil(anvil::Kind::Forge | anvil::Kind::Data), _) => {
            format!("{}/{}", input.relative, item.name)
        }
        (Kind::Rpf, _) => format!("{}/{}", input.relative, item.inside.as_deref().unwrap_or(&item.name)),
        _ => input.relative.clone(),
    }
}

/// The folder of an item's output, and what its file is called there (without extension).
pub fn wanted_output(input: &Input, item: &Item) -> (String, String) {
    match input.kind {
        Kind::Anvil(anvil::Kind::Forge | anvil::Kind::Data) => {
            let name = if item.name.is_empty() { format!("{:X}", item.id) } else { item.name.clone() };
            (format!("{}{}", input.folder(), input.stem()), name)
        }
        Kind::Rpf => {
            let inside = item.inside.as_deref().unwrap_or_default();
            let folder = inside.rsplit_once('/').map_or("", |(folder, _)| folder);
            (format!("{}{}/{folder}", input.folder(), input.stem()), item.name.clone())
        }
        _ => (input.folder().to_owned(), input.stem().to_owned()),
    }
}

/// Names of joints: RAGE tags by the embedded table, CRCs by the dictionary.
#[derive(Debug, Default)]
pub struct Names {
    /// Anvil's, with what the user added.
    pub anvil: NameTable,
}

impl JointNames for Names {
    fn joint_name(&self, id: JointId) -> Option<&str> {
        match id {
            JointId::RageTag(tag) => rage::bone_name(tag),
            JointId::Crc32(crc) => self.anvil.get(crc),
            JointId::RootMotion | JointId::Camera(_) | JointId::Texture(_) => None,
        }
    }
}

impl Names {
    /// With the names of the text files `paths`, one a line.
    ///
    /// # Errors
    /// Io.
    pub fn with_files(paths: &[impl AsRef<Path>]) -> Result<Self> {
        let mut anvil = NameTable::new();
        for path in paths {
            let path = path.as_ref();
            let bytes = fs::read(path).map_err(|e| Error::io("cannot be read", e).in_file(path))?;
            anvil = anvil.with_file(&String::from_utf8_lossy(&bytes));
        }
        Ok(Names { anvil })
    }
}
