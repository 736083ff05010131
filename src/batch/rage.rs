//! Clip dictionaries: one output file each.

use crate::container::rsc7;
use crate::error::{Error, Result};
use crate::model::{Clip, JointId, Skeleton};
use crate::names::rage as names;
use crate::read::ycd;
use crate::rig::JointNames;

/// Bone names by tag.
#[derive(Debug, Clone, Copy, Default)]
pub struct RageNames;

impl JointNames for RageNames {
    fn joint_name(&self, id: JointId) -> Option<&str> {
        match id {
            JointId::RageTag(tag) => names::bone_name(tag),
            _ => None,
        }
    }
}

/// What a dictionary gives to the rest of the way.
#[derive(Debug)]
pub struct Dictionary {
    /// Its clips.
    pub clips: Vec<Clip>,
    /// The skeleton that they open with.
    pub skeleton: Skeleton,
    /// Clips and animations that could not be read.
    pub errors: Vec<Error>,
    /// Notes on the whole.
    pub notes: Vec<String>,
}

/// Reads a dictionary from the bytes of its file.
///
/// # Errors
/// See [`rsc7::open`] and [`ycd::read`].
pub fn read(bytes: &[u8], source: &str, scratch: &mut Vec<u8>) -> Result<Dictionary> {
    let resource = rsc7::open(bytes, scratch)?;
    let read = ycd::read(&resource, source)?;
    let skeleton = ycd::default_skeleton(&read.clips)?;
    Ok(Dictionary { clips: read.clips, skeleton, errors: read.errors, notes: read.notes })
}
