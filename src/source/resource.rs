//! A resource: what becomes one output file, with its bytes; the clips that are read of it; buffers for reading.

use std::any::Any;
use std::borrow::Cow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use rustc_hash::FxHashMap;
use xxhash_rust::xxh3::xxh3_128;

use super::game::Game;
use crate::error::Error;
use crate::model::Clip;

/// What becomes one output file: a clip dictionary, or one animation of an archive.
#[derive(Debug)]
pub struct Resource<'a> {
    /// Whose it is.
    pub game: &'static dyn Game,
    /// What it is called.
    pub name: String,
    /// The archive entry, for errors; `None` where the game's reader names the resource itself.
    pub entry: Option<String>,
    /// Its path in an archive that has folders.
    pub path: Option<String>,
    /// Its identity, where resources of the game have one: equal ids with equal bytes are one clip met twice.
    pub id: Option<u64>,
    /// Hash of its bytes.
    pub hash: u128,
    /// Its bytes.
    pub bytes: Bytes<'a>,
}

/// The bytes of a [`Resource`].
#[derive(Debug)]
pub enum Bytes<'a> {
    /// They are here.
    Here {
        /// What its container says of it beside the body; empty for most.
        header: Cow<'a, [u8]>,
        /// The resource itself.
        body: Cow<'a, [u8]>,
        /// Where the body stood in its container, for errors.
        offset: u64,
    },
    /// They wait with an equal resource that was met before, or in a [`Cache`].
    Elsewhere,
}

impl<'a> Resource<'a> {
    /// A resource of `body` alone: a whole file.
    pub fn whole(game: &'static dyn Game, name: String, body: impl Into<Cow<'a, [u8]>>) -> Self {
        let body = body.into();
        Resource {
            game,
            name,
            entry: None,
            path: None,
            id: None,
            hash: xxh3_128(&body),
            bytes: Bytes::Here { header: Cow::Borrowed(&[]), body, offset: 0 },
        }
    }

    /// What tells it from others, where it has an id.
    pub fn identity(&self) -> Option<(u64, u128)> {
        Some((self.id?, self.hash))
    }

    /// Bytes that it holds in memory.
    pub fn size(&self) -> u64 {
        match &self.bytes {
            Bytes::Here { body, .. } => body.len() as u64,
            Bytes::Elsewhere => 0,
        }
    }

    /// Its body.
    ///
    /// # Errors
    /// Where the bytes are [`Bytes::Elsewhere`]: the place that held them could not be read.
    pub fn body(&self) -> Result<&[u8], Error> {
        match &self.bytes {
            Bytes::Here { body, .. } => Ok(body),
            Bytes::Elsewhere => Err(Error::unsupported("its first place could not be read")
                .in_entry(format!("\"{}\" ({:X})", self.name, self.id.unwrap_or_default()))),
        }
    }

    /// The same without its bytes.
    #[must_use]
    pub fn without_bytes(self) -> Resource<'static> {
        Resource { bytes: Bytes::Elsewhere, ..self.into_owned_if(false) }
    }

    /// The same with bytes of its own.
    #[must_use]
    pub fn into_owned(self) -> Resource<'static> {
        self.into_owned_if(true)
    }

    fn into_owned_if(self, bytes: bool) -> Resource<'static> {
        let Resource { game, name, entry, path, id, hash, bytes: own } = self;
        let bytes = if bytes { own.into_owned() } else { Bytes::Elsewhere };
        Resource { game, name, entry, path, id, hash, bytes }
    }
}

impl Bytes<'_> {
    /// The same with bytes of its own.
    #[must_use]
    pub fn into_owned(self) -> Bytes<'static> {
        match self {
            Bytes::Here { header, body, offset } => Bytes::Here {
                header: Cow::Owned(header.into_owned()),
                body: Cow::Owned(body.into_owned()),
                offset,
            },
            Bytes::Elsewhere => Bytes::Elsewhere,
        }
    }
}

/// What a resource is read into.
#[derive(Debug, Default)]
pub struct Clips {
    /// The clips.
    pub clips: Vec<Clip>,
    /// Clips that could not be read.
    pub errors: Vec<Error>,
    /// Notes on the resource as a whole.
    pub notes: Vec<String>,
}

/// Buffers of one thread, kept from unit to unit: each reader keeps a type of its own here.
#[derive(Debug, Default)]
pub struct Scratch(Vec<Box<dyn Any + Send>>);

impl Scratch {
    /// The buffers of type `T`; empty ones at first.
    pub fn of<T: Any + Send + Default>(&mut self) -> &mut T {
        let at = match self.0.iter().position(|b| b.is::<T>()) {
            Some(at) => at,
            None => {
                self.0.push(Box::<T>::default());
                self.0.len() - 1
            }
        };
        match self.0[at].downcast_mut() {
            Some(buffers) => buffers,
            None => unreachable!("the type was just looked for"),
        }
    }
}

/// Resources that a survey has met, each with its bytes as long as there is room: what waits here is not unpacked a
/// second time.
#[derive(Debug)]
pub struct Cache {
    bytes: Mutex<FxHashMap<(u64, u128), Option<Bytes<'static>>>>,
    room: AtomicU64,
}

impl Cache {
    /// With room for `bytes`.
    pub fn new(bytes: u64) -> Self {
        Cache { bytes: Mutex::default(), room: AtomicU64::new(bytes) }
    }

    /// Takes the resource's bytes where it is new and they fit; gives back the resource without them.
    pub fn keep(&self, resource: Resource<'_>) -> Resource<'static> {
        if let (Some(identity), Ok(mut all)) = (resource.identity(), self.bytes.lock())
            && !all.contains_key(&identity)
        {
            let size = resource.size();
            let take = |room: u64| room.checked_sub(size);
            let fits = self.room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok();
            let Resource { game, name, entry, path, id, hash, bytes } = resource;
            all.insert(identity, fits.then(|| bytes.into_owned()));
            return Resource { game, name, entry, path, id, hash, bytes: Bytes::Elsewhere };
        }
        resource.without_bytes()
    }

    /// Gives the bytes of a resource, once.
    pub fn take(&self, identity: (u64, u128)) -> Option<Bytes<'static>> {
        self.bytes.lock().ok()?.get_mut(&identity)?.take()
    }
}
