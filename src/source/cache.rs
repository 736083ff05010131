//! Resources that a survey has met, kept for the conversion.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use rustc_hash::FxHashMap;

use super::game::{Bytes, Resource};

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
