//! Names of joints, clips and what else a file names.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::model::JointId;

/// The longest name that Blender keeps whole, bytes (notes, glTF 0.5).
pub const MAX_NAME_BYTES: usize = 63;

/// Resolves what a file calls a joint into a name.
pub trait JointNames {
    /// The name, where one is known.
    fn joint_name(&self, id: JointId) -> Option<&str>;
}

/// The name of a joint that no dictionary knows: `bone_XXXXXXXX`, `tag_NNNNN` or `root_motion`; of what is no joint:
/// `camera`, `camera_NNNNN`, `uv`, `uv_NNNNN` (tag 0 is not said).
pub fn fallback_name(id: JointId) -> String {
    match id {
        JointId::RootMotion => "root_motion".to_owned(),
        JointId::BoneTag(tag) => format!("tag_{tag}"),
        JointId::Crc32(crc) => format!("bone_{crc:08X}"),
        JointId::Camera(0) => "camera".to_owned(),
        JointId::Camera(tag) => format!("camera_{tag}"),
        JointId::Texture(0) => "uv".to_owned(),
        JointId::Texture(tag) => format!("uv_{tag}"),
    }
}

/// Gives out names that are unique within a number of bytes: a later equal one gets `~2`, `~3` and so on.
#[derive(Debug)]
pub struct UniqueNames {
    max_bytes: usize,
    taken: FxHashSet<String>,
    next: FxHashMap<String, u32>,
}

impl Default for UniqueNames {
    fn default() -> Self {
        UniqueNames::within(MAX_NAME_BYTES)
    }
}

impl UniqueNames {
    /// No name yet; names will have at most `max_bytes`, or 16 where that is less: a suffix needs room.
    pub fn within(max_bytes: usize) -> Self {
        UniqueNames { max_bytes: max_bytes.max(16), taken: FxHashSet::default(), next: FxHashMap::default() }
    }

    /// The name to use for `wanted`.
    pub fn name(&mut self, wanted: &str) -> String {
        let first = cut(wanted, self.max_bytes);
        if self.taken.insert(first.to_owned()) {
            return first.to_owned();
        }
        let next = self.next.entry(first.to_owned()).or_insert(2);
        loop {
            let suffix = format!("~{next}");
            *next += 1;
            let name = format!("{}{suffix}", cut(wanted, self.max_bytes - suffix.len()));
            if self.taken.insert(name.clone()) {
                return name;
            }
        }
    }
}

fn cut(text: &str, bytes: usize) -> &str {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_stay_apart_within_63_bytes() {
        let mut names = UniqueNames::default();
        let long = "ä".repeat(40);
        assert_eq!(names.name(&long).len(), 62);
        let second = names.name(&long);
        assert!(second.ends_with("~2") && second.len() <= MAX_NAME_BYTES);
        assert_eq!(names.name("a"), "a");
        assert_eq!(names.name("a~2"), "a~2");
        assert_eq!(names.name("a"), "a~3");
    }
}
