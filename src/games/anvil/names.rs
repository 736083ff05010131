//! Bone names of Anvil. Files hold the CRC-32 of a name only; the names come from a dictionary that is built in and
//! from lists that a user adds.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::model::JointId;

/// CRC-32 and name, rising by CRC, one a line behind a heading.
const BUILT_IN: &str = include_str!("data/bone_names.tsv");

/// Names by CRC-32: the built-in dictionary and what was added.
#[derive(Debug, Clone)]
pub struct NameTable {
    names: HashMap<u32, Cow<'static, str>>,
}

impl Default for NameTable {
    fn default() -> Self {
        NameTable::new()
    }
}

impl NameTable {
    /// The built-in dictionary.
    pub fn new() -> Self {
        let names = BUILT_IN
            .lines()
            .filter_map(|line| {
                let (crc, name) = line.split_once('\t')?;
                Some((u32::from_str_radix(crc, 16).ok()?, Cow::Borrowed(name)))
            })
            .collect();
        NameTable { names }
    }

    /// Adds the names of `text`, one a line; each stands for the CRC-32 of its exact bytes. Empty lines and a
    /// carriage return at a line's end are skipped. A name replaces the built-in one of the same CRC,
    /// because the user knows better.
    #[must_use]
    pub fn with_file(mut self, text: &str) -> Self {
        for name in text.trim_start_matches('\u{FEFF}').lines().filter(|name| !name.is_empty()) {
            self.names.insert(crc32fast::hash(name.as_bytes()), Cow::Owned(name.to_owned()));
        }
        self
    }

    /// The name with that CRC-32, where one is known.
    pub fn get(&self, crc: u32) -> Option<&str> {
        self.names.get(&crc).map(|name| &**name)
    }

    /// The name of a joint: the known one, or `bone_XXXXXXXX`, or `root_motion`. `None` for a joint that no Anvil file
    /// has.
    pub fn joint(&self, id: JointId) -> Option<Cow<'_, str>> {
        match id {
            JointId::RootMotion => Some(Cow::Borrowed("root_motion")),
            JointId::Crc32(crc) => {
                Some(self.get(crc).map_or_else(|| format!("bone_{crc:08X}").into(), Cow::from))
            }
            JointId::BoneTag(_) | JointId::Camera(_) | JointId::Texture(_) => None,
        }
    }

    /// Number of names.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether no name is known.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_name_has_its_crc() {
        let table = NameTable::new();
        assert_eq!(table.len(), BUILT_IN.lines().count() - 1);
        for (crc, name) in &table.names {
            assert_eq!(crc32fast::hash(name.as_bytes()), *crc, "{name}");
        }
        // docs/formats/anvil.md, section 4.2: the bone that holds the pelvis height.
        assert_eq!(table.get(0x2C52_CBB0), Some("Reference"));
    }

    #[test]
    fn added_names_and_unknown_ones() {
        let crc = crc32fast::hash(b"Board Nose");
        let table = NameTable::new();
        assert_eq!(table.joint(JointId::Crc32(crc)).unwrap(), format!("bone_{crc:08X}"));
        let table = table.with_file("\u{FEFF}Board Nose\r\n\r\nBoardTail");
        assert_eq!(table.joint(JointId::Crc32(crc)).unwrap(), "Board Nose");
        assert_eq!(table.get(crc32fast::hash(b"BoardTail")), Some("BoardTail"));
        assert_eq!(table.joint(JointId::RootMotion).unwrap(), "root_motion");
        assert_eq!(table.joint(JointId::BoneTag(1)), None);
        assert_eq!(table.joint(JointId::Crc32(0x0000_00AB)).unwrap(), "bone_000000AB");
    }
}
