//! A skeleton file of any known kind: what `--skeleton` takes, apart from Anvil's own resources.

use crate::error::{Error, Result};
use crate::games::own::skeleton as own;
use crate::games::rage::container::rsc7;
use crate::games::rage::names as rage;
use crate::games::rage::skeleton as rage_skeleton;
use crate::games::rage::xml::skeleton as skeleton_xml;
use crate::model::{JointId, SkeletonFile, Trs};

/// By what a game's tracks name joints: decides what the joint names of glTF and FBX files stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JointIdScheme {
    /// Bone tags: of the ped table, from `tag_NNNNN`, or the tag hash of the name.
    Rage,
    /// CRC-32 of the name, or from `bone_XXXXXXXX`.
    Anvil,
}

impl JointIdScheme {
    /// What tracks call the joint of this name.
    pub fn joint_id(self, name: &str) -> JointId {
        if name == "root_motion" {
            return JointId::RootMotion;
        }
        match self {
            JointIdScheme::Rage => JointId::RageTag(rage::tag_of_name(name)),
            JointIdScheme::Anvil => JointId::Crc32(
                name.strip_prefix("bone_")
                    .filter(|hex| hex.len() == 8)
                    .and_then(|hex| u32::from_str_radix(hex, 16).ok())
                    .unwrap_or_else(|| crc32fast::hash(name.as_bytes())),
            ),
        }
    }

    /// The rest pose of the game's own joint of this name, where it is known.
    fn known_rest(self, name: &str) -> Option<Trs> {
        let bone = rage::ped_bone_by_name(name).filter(|_| self == JointIdScheme::Rage)?;
        Some(Trs { translation: bone.translation?, rotation: bone.rotation?, ..Trs::IDENTITY })
    }
}

/// Reads a skeleton from .yft, .ydr, .ydd (and their `.xml` forms), .glb, .gltf or .fbx, told apart by their
/// first bytes. `name` is what the skeleton is called in the report; `load` gives the bytes of what a .gltf points
/// at, see [`own::read`].
///
/// # Errors
/// Whatever the reader of the kind says; Malformed where the bytes are none of them.
pub fn read(
    bytes: &[u8],
    name: &str,
    scheme: JointIdScheme,
    load: &mut dyn FnMut(&str, usize) -> Result<Vec<u8>>,
) -> Result<SkeletonFile> {
    let text = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes).trim_ascii_start();
    if own::is_readable(bytes) {
        let names =
            own::JointNames { id: &|name| scheme.joint_id(name), rest: &|name| scheme.known_rest(name) };
        let mut file = own::read(bytes, name, names, load)?;
        if scheme == JointIdScheme::Rage {
            file.skeleton = rage_skeleton::with_root_tag(file.skeleton)?;
        }
        Ok(file)
    } else if text.starts_with(b"<") {
        skeleton_xml::read(bytes, name)
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
