//! A skeleton from a file of the user's: .glb, .gltf or .fbx.

use super::{skeleton_fbx, skeleton_gltf};
use crate::source::JointScheme;
use crate::error::{Error, Result};
use crate::model::Skeleton;

/// A skeleton with what a reader of the report should know of how it was read, one sentence each.
#[derive(Debug, Clone, PartialEq)]
pub struct SkeletonFile {
    /// The skeleton.
    pub skeleton: Skeleton,
    /// Deviations and decisions.
    pub notes: Vec<String>,
}

/// Whether the bytes are of a kind that [`read`] takes, or refuses by name.
pub fn is_own(bytes: &[u8]) -> bool {
    let text = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes).trim_ascii_start();
    bytes.starts_with(b"glTF")
        || text.starts_with(b"{")
        || bytes.starts_with(skeleton_fbx::MAGIC)
        || is_fbx_text(text)
}

fn is_fbx_text(text: &[u8]) -> bool {
    text.starts_with(b";") && text[..text.len().min(200)].windows(3).any(|w| w == b"FBX")
}

/// Reads a skeleton from .glb, .gltf or .fbx, told apart by their first bytes. `name` is what the skeleton is called in
/// the report.
///
/// # Errors
/// Whatever the reader of the kind says; Unsupported for FBX in its text form.
pub fn read(bytes: &[u8], name: &str, ids: &dyn JointScheme) -> Result<SkeletonFile> {
    let text = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes).trim_ascii_start();
    if bytes.starts_with(skeleton_fbx::MAGIC) {
        skeleton_fbx::read(bytes, name, ids)
    } else if is_fbx_text(text) {
        Err(Error::unsupported(
            "found an FBX file in its text form, expected the binary one: save it as binary",
        ))
    } else {
        skeleton_gltf::read(bytes, name, ids)
    }
}
