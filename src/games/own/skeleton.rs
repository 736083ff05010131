//! A skeleton file of any known kind: what `--skeleton` takes, apart from Anvil's own resources.

use crate::error::{Error, Result};
use crate::games::own::{skeleton_fbx, skeleton_gltf};
use crate::games::rage::container::rsc7;
use crate::games::rage::names as rage;
use crate::games::rage::skeleton as rage_skeleton;
use crate::games::rage::xml::skeleton as skeleton_xml;
use crate::model::{JointId, Skeleton};

/// A skeleton with what a reader of the report should know of how it was read, one sentence each.
#[derive(Debug, Clone, PartialEq)]
pub struct SkeletonFile {
    /// The skeleton.
    pub skeleton: Skeleton,
    /// Deviations and decisions.
    pub notes: Vec<String>,
}

/// By what a game's tracks name joints: decides what the joint names of glTF and FBX files stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    /// Bone tags: of the ped table, from `tag_NNNNN`, or the tag hash of the name.
    Rage,
    /// CRC-32 of the name, or from `bone_XXXXXXXX`.
    Anvil,
}

impl Naming {
    /// What tracks call the joint of this name.
    pub fn joint_id(self, name: &str) -> JointId {
        if name == "root_motion" {
            return JointId::RootMotion;
        }
        match self {
            Naming::Rage => JointId::RageTag(rage::tag_of_name(name)),
            Naming::Anvil => JointId::Crc32(
                name.strip_prefix("bone_")
                    .filter(|hex| hex.len() == 8)
                    .and_then(|hex| u32::from_str_radix(hex, 16).ok())
                    .unwrap_or_else(|| crc32fast::hash(name.as_bytes())),
            ),
        }
    }
}

/// Reads a skeleton from .yft, .ydr, .ydd (and their `.xml` forms), .glb, .gltf or .fbx, told apart by their
/// first bytes. `name` is what the skeleton is called in the report.
///
/// # Errors
/// Whatever the reader of the kind says; Malformed where the bytes are none of them.
pub fn read(bytes: &[u8], name: &str, naming: Naming) -> Result<SkeletonFile> {
    let text = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes).trim_ascii_start();
    if bytes.starts_with(b"glTF") || text.starts_with(b"{") {
        skeleton_gltf::read(bytes, name, naming)
    } else if text.starts_with(b"<") {
        skeleton_xml::read(bytes, name)
    } else if bytes.starts_with(skeleton_fbx::MAGIC) {
        skeleton_fbx::read(bytes, name, naming)
    } else if text.starts_with(b";") && text[..text.len().min(200)].windows(3).any(|w| w == b"FBX") {
        Err(Error::unsupported(
            "found an FBX file in its text form, expected the binary one: save it as binary",
        ))
    } else {
        let mut scratch = Vec::new();
        let resource = rsc7::open(bytes, &mut scratch)?;
        rage_skeleton::read(&resource, name)
    }
}
