//! A file of the engine as a [`Source`]: its entries are the units; the objects in them are what is found.

use std::borrow::Cow;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_128;

use super::container::file::{self, AnvilFile, Kind};
use super::container::forge::Entry;
use super::container::object::{Object, class};
use super::{codec, game_of, sets, skeleton};
use crate::error::{Error, Result};
use crate::source::{Bytes, ClipUse, Found, Layout, ReadOptions, Resource, Scratch, Source, UnitPlan};

/// An archive up to this size is looked through whole. Of a larger one Animations are not: they say what they are in
/// the archive's table, and what skeletons and users of clips they could hold is elsewhere too.
const LOOK_THROUGH_BYTES: u64 = 64 << 20;

/// Classes of large entries that are passed over in archives of the 64-bit generation that are not looked through
/// whole: there each resource has an entry of its own (seed: the classes by which objects of an install repeat).
const ASSETS: [&[u8]; 6] =
    [b"Mesh", b"MeshShape", b"SoundBao", b"TextureMap", b"TextureMapSpec", b"NavMeshManager"];

/// Version of an archive from which on ids have 64 bits (notes 1.4).
const FIRST_64_BIT_VERSION: u32 = 27;

/// An opened file of the engine.
#[derive(Debug)]
pub(super) struct AnvilSource {
    file: AnvilFile,
    /// Stored bytes of all entries.
    bytes: u64,
    /// Classes that are passed over.
    assets: Vec<u32>,
}

/// Opens the file at `path`; errors name it.
pub(super) fn open(path: &Path, options: &ReadOptions) -> Result<AnvilSource> {
    let file = file::open(path, &file::Options { codec: codec(options)? })?;
    let bytes = file.entries().iter().map(|e| e.size).sum();
    let assets = match file.forge_version() {
        Some(FIRST_64_BIT_VERSION..) if bytes > LOOK_THROUGH_BYTES => {
            ASSETS.iter().map(|name| crc32fast::hash(name)).collect()
        }
        _ => Vec::new(),
    };
    Ok(AnvilSource { file, bytes, assets })
}

impl AnvilSource {
    fn entry(&self, unit: usize) -> Option<&Entry> {
        self.file.entries().get(unit)
    }
}

impl Source for AnvilSource {
    fn layout(&self) -> Layout {
        match self.file.kind() {
            Kind::Forge | Kind::Data => Layout::Folder,
            Kind::Loose => Layout::File,
        }
    }

    fn units(&self) -> usize {
        self.file.entries().len()
    }

    fn unit_bytes(&self, unit: usize) -> u64 {
        self.entry(unit).map_or(0, |e| e.size)
    }

    fn unit_id(&self, unit: usize) -> Option<u64> {
        (self.file.kind() == Kind::Forge).then(|| self.entry(unit).map(|e| e.id))?
    }

    fn unit_plan(&self, unit: usize) -> UnitPlan {
        let class = self.entry(unit).and_then(|e| e.class);
        if class.is_some_and(|c| self.assets.contains(&c)) {
            UnitPlan::PassOver("an entry of a class without clips (mesh, texture, sound) is passed over")
        } else if class == Some(class::ANIMATION) && self.bytes > LOOK_THROUGH_BYTES {
            UnitPlan::Read
        } else {
            UnitPlan::Survey
        }
    }

    fn visit(
        &self,
        unit: usize,
        everything: bool,
        scratch: &mut Scratch,
        visit: &mut dyn FnMut(Result<Found<'_>>),
    ) -> Result<()> {
        let scratch = scratch.of::<file::Scratch>();
        let result = self.file.for_each_object(unit, scratch, &mut |object| {
            let object = match object {
                Ok(object) => object,
                Err(e) => return visit(Err(e)),
            };
            let place = |e: Error| {
                e.in_entry(format!("\"{}\" ({:X})", object.name, object.id)).in_file(self.file.path())
            };
            match object.class {
                class::ANIMATION => visit(Ok(Found::Clips(resource(&object)))),
                _ if !everything => {}
                class::SKELETON => visit(Ok(Found::Skeleton(skeleton::read(&object).map_err(place)))),
                class::ANIM_SET => {
                    let set = sets::read_anim_set(&object).map_err(place);
                    visit(Ok(Found::Use(set.map(|set| ClipUse {
                        class: "AnimSet",
                        id: u64::from(set.id),
                        name: set.name,
                        pairs: set.pairs.iter().map(|p| p.map(u64::from)).collect(),
                        clips: Vec::new(),
                    }))));
                }
                _ => {
                    let clips = sets::entity_clips(&object);
                    if !clips.is_empty() {
                        visit(Ok(Found::Use(Ok(ClipUse {
                            class: "Entity",
                            id: object.id,
                            name: object.name.clone(),
                            pairs: Vec::new(),
                            clips,
                        }))));
                    }
                }
            }
        });
        for note in scratch.notes() {
            visit(Ok(Found::Note(note.clone())));
        }
        result
    }

    fn faults(&self) -> &[Error] {
        self.file.faults()
    }

    fn notes(&self) -> Vec<String> {
        self.file.notes().to_vec()
    }

    fn assumptions(&self) -> Vec<String> {
        self.file.assumptions()
    }

    fn shares_assumptions(&self) -> bool {
        self.file.kind() != Kind::Forge
    }
}

fn resource<'a>(object: &Object<'a>) -> Resource<'a> {
    Resource {
        game: game_of(object.generation),
        name: object.name.clone(),
        entry: None,
        path: None,
        id: Some(object.id),
        hash: xxh3_128(object.body),
        bytes: Bytes::Here {
            header: Cow::Borrowed(object.header),
            body: Cow::Borrowed(object.body),
            offset: object.body_offset,
        },
    }
}
