//! Ubisoft Anvil: Riders Republic (64-bit ids) and Shaun White Skateboarding (32-bit ids). Containers, skeletons and
//! names are the engine's; each game has a layout of its own for the body of an Animation.

pub mod animation;
pub mod census;
pub mod container;
pub mod names;
pub mod sets;
pub mod skeleton;
mod source;

use std::path::Path;
use std::sync::LazyLock;

use container::codec::Codec;
use container::file;
use container::object::{Generation, Object, class};

use crate::error::{Error, Result};
use crate::model::{Clip, JointId, SkeletonFile};
use crate::source::{
    Bytes, Census, Clips, Game, Input, JointScheme, ReadOptions, Resource, Scratch, Source, survey,
};

/// A game of the engine: what differs from the others.
#[derive(Debug)]
pub struct AnvilGame {
    code: &'static str,
    title: &'static str,
    generation: Generation,
    read: fn(&Object<'_>, &str) -> Result<Clip>,
}

/// Riders Republic.
pub static RIDERS_REPUBLIC: AnvilGame = AnvilGame {
    code: animation::riders_republic::GAME,
    title: "Riders Republic",
    generation: Generation::Ids64,
    read: animation::riders_republic::read,
};

/// Shaun White Skateboarding.
pub static SHAUN_WHITE: AnvilGame = AnvilGame {
    code: animation::shaun_white::GAME,
    title: "Shaun White Skateboarding",
    generation: Generation::Ids32,
    read: animation::shaun_white::read,
};

/// The engine's games.
static ALL: [&AnvilGame; 2] = [&RIDERS_REPUBLIC, &SHAUN_WHITE];

/// The game whose objects are of `generation`.
fn game_of(generation: Generation) -> &'static AnvilGame {
    ALL.into_iter().find(|g| g.generation == generation).unwrap_or(&RIDERS_REPUBLIC)
}

static NAMES: LazyLock<names::NameTable> = LazyLock::new(names::NameTable::new);

impl JointScheme for AnvilGame {
    fn joint_id(&self, name: &str) -> JointId {
        if name == "root_motion" {
            return JointId::RootMotion;
        }
        let hex = name.strip_prefix("bone_").filter(|hex| hex.len() == 8);
        let crc = hex.and_then(|hex| u32::from_str_radix(hex, 16).ok());
        JointId::Crc32(crc.unwrap_or_else(|| crc32fast::hash(name.as_bytes())))
    }
}

impl Game for AnvilGame {
    fn code(&self) -> &'static str {
        self.code
    }

    fn title(&self) -> &'static str {
        self.title
    }

    fn family(&self) -> &'static str {
        "Anvil"
    }

    fn endings(&self) -> &'static [&'static str] {
        &[".forge", ".data", ".Animation", ".Skeleton", ".AnimSet"]
    }

    fn inputs(&self) -> &'static str {
        "an archive (.forge, .data) or a .Animation"
    }

    fn probe(&self, start: &[u8], _length: u64, name: &str) -> bool {
        let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
        file::probe(start, extension).is_some()
    }

    fn open(&self, input: &Input, options: &ReadOptions) -> Result<Box<dyn Source>> {
        Ok(Box::new(source::open(&input.path, options)?))
    }

    fn check_options(&self, options: &ReadOptions) -> Result<()> {
        codec(options).map(|_| ())
    }

    fn read(&self, resource: &Resource<'_>, source: &str, _scratch: &mut Scratch) -> Result<Clips> {
        let clip = (self.read)(&object(resource, self.generation)?, source)?;
        Ok(Clips { clips: vec![clip], ..Clips::default() })
    }

    fn joint_name(&self, id: JointId) -> Option<&str> {
        match id {
            JointId::Crc32(crc) => NAMES.get(crc),
            _ => None,
        }
    }

    fn listed_joint_id(&self, name: &str) -> Option<JointId> {
        Some(JointId::Crc32(crc32fast::hash(name.as_bytes())))
    }

    fn skeleton_endings(&self) -> &'static [&'static str] {
        &[".Skeleton", ".forge", ".data"]
    }

    fn skeletons(&self, path: &Path, bytes: &[u8]) -> Option<Result<Vec<SkeletonFile>>> {
        let extension = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        file::probe(&bytes[..bytes.len().min(file::PROBE_SIZE)], &extension)?;
        Some(source::open(path, &ReadOptions::default()).and_then(|source| {
            let (all, errors) = survey::skeletons_of(&source);
            match (all.is_empty(), errors.into_iter().next()) {
                (true, Some(e)) => Err(e),
                (true, None) => Err(Error::unsupported("an Anvil file without a Skeleton")),
                _ => {
                    Ok(all.into_iter().map(|skeleton| SkeletonFile { skeleton, notes: Vec::new() }).collect())
                }
            }
        }))
    }

    fn census(&self) -> Option<Box<dyn Census>> {
        Some(Box::new(census::AnvilCensus::default()))
    }

    fn examples(&self) -> &'static [(&'static str, &'static str)] {
        match self.generation {
            Generation::Ids64 => &[
                (
                    "DataPC.forge DataPC_patch_01.forge -o out/",
                    "an archive with its patch: out/DataPC/<clip>.glb",
                ),
                ("DataPC.forge -o out/ --clip '*Push*' --to gltf", ""),
                ("DataPC.forge --list", "names and lengths, nothing written"),
                ("check DataPC.forge", "decode everything, write nothing, print the census"),
            ],
            Generation::Ids32 => &[],
        }
    }
}

/// The codec that the user names.
fn codec(options: &ReadOptions) -> Result<Option<Codec>> {
    options.codec.as_deref().map(str::parse).transpose()
}

/// The object that a resource was made of.
fn object<'a>(resource: &'a Resource<'_>, generation: Generation) -> Result<Object<'a>> {
    let body = resource.body()?;
    let (header, body_offset): (&[u8], u64) = match &resource.bytes {
        Bytes::Here { header, offset, .. } => (header, *offset),
        Bytes::Elsewhere => (&[], 0),
    };
    Ok(Object {
        generation,
        class: class::ANIMATION,
        id: resource.id.unwrap_or_default(),
        name: resource.name.clone(),
        header,
        body,
        body_offset,
    })
}
