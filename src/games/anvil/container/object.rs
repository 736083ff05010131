//! What Anvil containers hold: objects with a class, an id, a name and a body.

/// Which generation of the engine wrote an object: tells the width of ids and the form of references.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Generation {
    /// 32-bit ids (Shaun White Skateboarding).
    Ids32,
    /// 64-bit ids (Riders Republic).
    Ids64,
}

/// One object (resource) in its decoded container; slices of the unpacked bytes.
#[derive(Debug, Clone)]
pub struct Object<'a> {
    /// Generation of the container.
    pub generation: Generation,
    /// CRC-32 of the class name.
    pub class: u32,
    /// ClassID (64-bit) or object id (32-bit).
    pub id: u64,
    /// Name from the resource header; for a loose file without one, the file's stem.
    pub name: String,
    /// The file header (64-bit: `0`, or `1 02 00 00 R rows`); empty for 32-bit objects.
    pub header: &'a [u8],
    /// 64-bit: what follows ClassID and extension word. 32-bit: what follows the NUL of the header; for the
    /// block-allocator classes (`Animation`, `NavMeshManager`) from the table's first byte (`02 00 00`) on.
    pub body: &'a [u8],
    /// Offset of `body` within the unpacked container (or the loose file), for errors.
    pub body_offset: u64,
}

/// Class ids that the readers know: CRC-32 of the class name (docs/formats/anvil.md, section 3).
pub mod class {
    /// `Animation`
    pub const ANIMATION: u32 = 0x0FA3_067F;
    /// `Skeleton`
    pub const SKELETON: u32 = 0x24AE_CB7C;
    /// `Bone`
    pub const BONE: u32 = 0x9574_1049;
    /// `BoneInitialTransforms`
    pub const BONE_INITIAL_TRANSFORMS: u32 = 0x6350_E5A6;
    /// `AnimTrackData`
    pub const ANIM_TRACK_DATA: u32 = 0x0181_EFE8;
    /// `AnimTrackDataMapping`
    pub const ANIM_TRACK_DATA_MAPPING: u32 = 0x653C_AA76;
    /// `AnimTrackEvent`
    pub const ANIM_TRACK_EVENT: u32 = 0x4168_2213;
    /// `TTECLAnimation`
    pub const ECL_ANIMATION: u32 = 0xAC69_2A57;
    /// `AnimComponent`
    pub const ANIM_COMPONENT: u32 = 0x8C8A_A19D;
    /// `AnimPair`
    pub const ANIM_PAIR: u32 = 0x9DE9_A987;
    /// `AnimSet`
    pub const ANIM_SET: u32 = 0x3198_4F55;
    /// `NavMeshManager`
    pub const NAV_MESH_MANAGER: u32 = 0x0B4C_E0E0;
    /// `Entity`
    pub const ENTITY: u32 = 0x0984_415E;
    /// `GridCellDataBlock`
    pub const GRID_CELL_DATA_BLOCK: u32 = 0xAC2B_BF68;

    /// Every class above with its name.
    pub const KNOWN: [(u32, &str); 14] = [
        (ANIMATION, "Animation"),
        (SKELETON, "Skeleton"),
        (BONE, "Bone"),
        (BONE_INITIAL_TRANSFORMS, "BoneInitialTransforms"),
        (ANIM_TRACK_DATA, "AnimTrackData"),
        (ANIM_TRACK_DATA_MAPPING, "AnimTrackDataMapping"),
        (ANIM_TRACK_EVENT, "AnimTrackEvent"),
        (ECL_ANIMATION, "TTECLAnimation"),
        (ANIM_COMPONENT, "AnimComponent"),
        (ANIM_PAIR, "AnimPair"),
        (ANIM_SET, "AnimSet"),
        (NAV_MESH_MANAGER, "NavMeshManager"),
        (ENTITY, "Entity"),
        (GRID_CELL_DATA_BLOCK, "GridCellDataBlock"),
    ];

    /// The name of a known class.
    pub fn name(class: u32) -> Option<&'static str> {
        KNOWN.iter().find(|(id, _)| *id == class).map(|(_, name)| *name)
    }
}

#[cfg(test)]
mod tests {
    use super::class;

    #[test]
    fn class_ids_are_the_crc_32_of_the_class_names() {
        for (id, name) in class::KNOWN {
            assert_eq!(id, crc32fast::hash(name.as_bytes()), "{name}");
        }
        // a value of docs/formats/anvil.md, section 3, from outside this table
        assert_eq!(crc32fast::hash(b"Mesh"), 0x415D_9568);
    }
}
