//! Names of RAGE: bone tags, the ped skeleton, joaat hashes, track numbers.

use std::sync::LazyLock;

use glam::{DQuat, Quat, Vec3};
use rustc_hash::FxHashMap;

use crate::error::Result;
use crate::model::{Joint, JointId, Skeleton, Trs};

/// The ped bone table. Tags and names: the ped bone enumeration that CodeWalker lists, facts only; where two
/// names share a tag the first is kept. Rest transforms: what most constant channels of 640 community clips
/// carry; a rotation that is held by less than 30 of them is the mean of the first keys (`r_how` = `mean`).
const PED_BONES: &str = include_str!("data/ped_bones.tsv");

/// A bone of the ped table. Its tag is an entry of a fixed table and not the hash of its name.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PedBone {
    /// Bone tag.
    pub tag: u16,
    /// Name, for example `SKEL_Head`.
    pub name: &'static str,
    /// Name of the parent, where it is known.
    pub parent: Option<&'static str>,
    /// Parent-local rest translation in metres, where a clip was ever seen to hold one.
    pub translation: Option<Vec3>,
    /// Parent-local rest rotation, unit, where a clip was ever seen to hold one.
    pub rotation: Option<Quat>,
}

struct Ped {
    bones: Vec<PedBone>,
    by_tag: FxHashMap<u16, usize>,
    /// By upper-cased name.
    by_name: FxHashMap<String, usize>,
    /// Parent of each bone. Bones without a known parent are children of `SKEL_ROOT`.
    parents: Vec<Option<usize>>,
}

static PED: LazyLock<Ped> = LazyLock::new(|| {
    let bones: Vec<PedBone> = PED_BONES.lines().skip(1).filter_map(ped_bone).collect();
    let by_tag: FxHashMap<u16, usize> = bones.iter().enumerate().map(|(i, b)| (b.tag, i)).collect();
    let by_name: FxHashMap<String, usize> =
        bones.iter().enumerate().map(|(i, b)| (b.name.to_ascii_uppercase(), i)).collect();
    let parents = bones
        .iter()
        .map(|bone| match bone.parent {
            Some(name) => by_name.get(&name.to_ascii_uppercase()).copied(),
            None if bone.tag == 0 => None,
            None => by_tag.get(&0).copied(),
        })
        .collect();
    Ped { bones, by_tag, by_name, parents }
});

/// One row: tag, name, parent, tx ty tz, votes, of, rx ry rz rw, votes, how.
fn ped_bone(row: &'static str) -> Option<PedBone> {
    let mut cells = [""; 14];
    for (cell, text) in cells.iter_mut().zip(row.split('\t')) {
        *cell = text;
    }
    let numbers = |range: std::ops::Range<usize>| -> Option<Vec<f64>> {
        // Adding 0 turns the -0 of the table into 0.
        cells[range].iter().map(|c| c.parse::<f64>().ok().map(|v| v + 0.0)).collect()
    };
    let translation = numbers(3..6).map(|t| Vec3::new(t[0] as f32, t[1] as f32, t[2] as f32));
    // The rows are rounded to four digits: normalised in f64, then rounded once.
    let rotation = numbers(8..12).map(|r| DQuat::from_xyzw(r[0], r[1], r[2], r[3]).normalize().as_quat());
    Some(PedBone {
        tag: cells[0].parse().ok()?,
        name: cells[1],
        parent: Some(cells[2]).filter(|p| !p.is_empty()),
        translation,
        rotation: rotation.filter(|r| r.is_finite()),
    })
}

/// All bones of the ped table, in its order.
pub fn ped_bones() -> &'static [PedBone] {
    &PED.bones
}

/// The ped bone with this tag.
pub fn ped_bone_by_tag(tag: u16) -> Option<&'static PedBone> {
    PED.by_tag.get(&tag).map(|i| &PED.bones[*i])
}

/// The ped bone of this name. Case does not matter, as in the game.
pub fn ped_bone_by_name(name: &str) -> Option<&'static PedBone> {
    PED.by_name.get(&name.to_ascii_uppercase()).map(|i| &PED.bones[*i])
}

/// Name of a ped bone's tag. A tag without one is printed by [`tag_name`].
pub fn bone_name(tag: u16) -> Option<&'static str> {
    ped_bone_by_tag(tag).map(|b| b.name)
}

/// The joint name of a tag that has no bone name: `tag_NNNNN`, decimal, unpadded.
pub fn tag_name(tag: u16) -> String {
    format!("tag_{tag}")
}

/// Tag of a bone that is not in the ped table: ELF hash of the upper-cased name, modulo 0xFE8F, plus 0x170
/// (docs/formats/rage.md, section 9; held on all vehicle and prop bones). A root bone has tag 0 whatever it is called.
pub fn bone_hash(name: &str) -> u16 {
    let mut h = 0_u32;
    for byte in name.bytes() {
        h = (h << 4).wrapping_add(u32::from(byte.to_ascii_uppercase()));
        let high = h & 0xF000_0000;
        h = (h ^ high >> 24) & !high;
    }
    (h % 0xFE8F + 0x170) as u16
}

/// The tag that a joint of this name has: from the ped table, from `tag_NNNNN`, else [`bone_hash`].
pub fn tag_of_name(name: &str) -> u16 {
    if let Some(bone) = ped_bone_by_name(name) {
        return bone.tag;
    }
    name.strip_prefix("tag_").and_then(|n| n.parse().ok()).unwrap_or_else(|| bone_hash(name))
}

/// The ped skeleton of the table, so that a clip dictionary alone opens as a person.
///
/// Bones without a known parent are children of `SKEL_ROOT`. Bones without a known rest translation are left out,
/// unless `animated(tag)` is true for them or a bone below them is included; their rest position is their parent's.
/// Joints are [`JointId::BoneTag`] and named.
pub fn ped_skeleton(animated: &dyn Fn(u16) -> bool) -> Result<Skeleton> {
    let bones = ped_bones();
    let parent_of = |i: usize| PED.parents[i];
    let mut taken = vec![false; bones.len()];
    for (i, bone) in bones.iter().enumerate() {
        if bone.translation.is_some() || animated(bone.tag) {
            let mut next = Some(i);
            while let Some(i) = next.filter(|i| !taken[*i]) {
                taken[i] = true;
                next = parent_of(i);
            }
        }
    }
    let rows: Vec<usize> = (0..bones.len()).filter(|i| taken[*i]).collect();
    let joints = rows
        .iter()
        .map(|i| Joint {
            id: JointId::BoneTag(bones[*i].tag),
            name: Some(bones[*i].name.to_owned()),
            parent: parent_of(*i).and_then(|p| rows.binary_search(&p).ok()),
            rest: Trs {
                translation: bones[*i].translation.unwrap_or(Vec3::ZERO),
                rotation: bones[*i].rotation.unwrap_or(Quat::IDENTITY),
                scale: Vec3::ONE,
            },
        })
        .collect();
    Skeleton::new("ped", joints)
}

/// The joaat ("Jenkins one at a time") hash of the lower-cased text, which is how the game hashes names.
pub fn joaat(text: &str) -> u32 {
    joaat_of(text.bytes().map(|b| b.to_ascii_lowercase()))
}

fn joaat_of(bytes: impl Iterator<Item = u8>) -> u32 {
    let mut h = 0_u32;
    for byte in bytes {
        h = h.wrapping_add(u32::from(byte));
        h = h.wrapping_add(h << 10);
        h ^= h >> 6;
    }
    h = h.wrapping_add(h << 3);
    h ^= h >> 11;
    h.wrapping_add(h << 15)
}

/// Names of tags, properties and attributes whose hashes occur in clips (docs/formats/rage.md, section 3).
const HASH_NAMES: [&str; 18] = [
    "allowed",
    "armsik",
    "audio",
    "block",
    "blocked",
    "event",
    "facial",
    "foot",
    "heel",
    "id",
    "initialoffsetposition",
    "initialoffsetrotation",
    "left",
    "lookik",
    "moveevent",
    "relevantweightthreshold",
    "right",
    "visibletoscript",
];

static BY_HASH: LazyLock<FxHashMap<u32, &'static str>> =
    LazyLock::new(|| HASH_NAMES.iter().map(|name| (joaat(name), *name)).collect());

/// Name of a tag, property or attribute by its joaat hash.
pub fn hash_name(hash: u32) -> Option<&'static str> {
    BY_HASH.get(&hash).copied()
}

/// The name of a hash, or `hash_XXXXXXXX` where it is not known.
pub fn hash_text(hash: u32) -> String {
    hash_name(hash).map_or_else(|| format!("hash_{hash:08X}"), str::to_owned)
}

/// The hash that a text of CodeWalker's XML stands for: `hash_XXXXXXXX` is that number, nothing is 0, anything
/// else is hashed as it is given (not lower-cased: that is how CodeWalker makes the binary of it).
pub fn hash_of_text(text: &str) -> u32 {
    text.strip_prefix("hash_")
        .and_then(|hex| u32::from_str_radix(hex, 16).ok())
        .unwrap_or_else(|| joaat_of(text.bytes()))
}

/// Names of the track numbers from 0 on (docs/formats/rage.md, section 6).
const TRACK_NAMES: [&str; 54] = [
    "boneTranslation",
    "boneRotation",
    "boneScale",
    "boneConstraint",
    "visibility",
    "moverTranslation",
    "moverRotation",
    "cameraTranslation",
    "cameraRotation",
    "cameraScale",
    "cameraFocalLength",
    "cameraHorizontalFilmAperture",
    "cameraAperture",
    "cameraFocalPoint",
    "cameraFStop",
    "cameraFocusDistance",
    "shaderFrameIndex",
    "shaderSlideU",
    "shaderSlideV",
    "shaderRotateUv",
    "moverScale",
    "blendShape",
    "visemes",
    "animatedNormalMaps",
    "facialControl",
    "facialTranslation",
    "facialRotation",
    "cameraFov",
    "cameraDof",
    "color",
    "lightIntensity",
    "lightFalloff",
    "lightConeAngle",
    "genericControl",
    "genericTranslation",
    "genericRotation",
    "cameraDofStrength",
    "facialScale",
    "genericScale",
    "cameraShallowDof",
    "cameraMotionBlur",
    "particleData",
    "lightDirection",
    "cameraDofNearOutPlane",
    "cameraDofNearInPlane",
    "cameraDofFarOutPlane",
    "cameraDofFarInPlane",
    "lightExpFalloff",
    "cameraSimpleDof",
    "cameraCoc",
    "facialTinting",
    "cameraFocus",
    "cameraNightCoc",
    "cameraLimit",
];

/// Name of a track number; `None` for 54 and above, whose meaning is not known.
pub fn track_name(track: u8) -> Option<&'static str> {
    TRACK_NAMES.get(usize::from(track)).copied()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read_whole() {
        let bones = ped_bones();
        assert_eq!(bones.len(), PED_BONES.lines().count() - 1);
        assert_eq!(PED.by_tag.len(), bones.len(), "a tag twice");
        assert_eq!(PED.by_name.len(), bones.len(), "a name twice");
        for b in bones {
            assert!(b.parent.is_none_or(|p| ped_bone_by_name(p).is_some()), "{b:?}");
            assert!(b.rotation.is_none_or(|r| r.is_normalized()), "{b:?}");
        }
        assert_eq!(bone_name(31086), Some("SKEL_Head"));
        assert_eq!(ped_bone_by_name("skel_pelvis").map(|b| b.tag), Some(11816));
    }

    #[test]
    fn tags_of_names() {
        // Tags that vehicles and props of the game store (docs/formats/rage.md, section 9).
        assert_eq!(bone_hash("wheel_lf"), 27922);
        assert_eq!(bone_hash("door_dside_f"), 60963);
        assert_eq!(bone_hash("IK_L_Hand"), 36029);
        assert_eq!(tag_of_name("SKEL_Spine3"), 24818);
        assert_eq!(tag_of_name("tag_54"), 54);
        assert_eq!(tag_of_name("wheel_lf"), 27922);
    }

    #[test]
    fn hashes() {
        // Values stored in clips of the game (docs/formats/rage.md, section 3); the empty text hashes to 0.
        assert_eq!(joaat("initialoffsetposition"), 839_617_379);
        assert_eq!(joaat("InitialOffsetRotation"), 1_144_887_015);
        assert_eq!(joaat(""), 0);
        assert_eq!(hash_name(839_617_379), Some("initialoffsetposition"));
        assert_eq!(hash_text(1_766_423_732), "hash_69497CB4");
        assert_eq!(hash_of_text("hash_69497CB4"), 1_766_423_732);
        assert_eq!(hash_of_text("initialoffsetposition"), 839_617_379);
        assert_eq!(
            (track_name(27), track_name(53), track_name(54)),
            (Some("cameraFov"), Some("cameraLimit"), None)
        );
    }

    /// The measures that the makers of the table give: head at z 0.66, feet at -0.89, left hand at x -0.22.
    #[test]
    fn the_ped_stands_upright() {
        let ped = ped_skeleton(&|_| false).unwrap();
        let rest = ped.rest_model();
        let place = |name| {
            let bone: &PedBone = ped_bone_by_name(name).unwrap();
            rest[ped.find(JointId::BoneTag(bone.tag)).unwrap()].1
        };
        assert!((place("SKEL_Head").z - 0.66).abs() < 0.01);
        assert!((place("SKEL_L_Foot").z + 0.89).abs() < 0.01);
        assert!((place("SKEL_R_Foot").z + 0.89).abs() < 0.01);
        assert!((place("SKEL_L_Hand").x + 0.22).abs() < 0.01);
        assert!(place("SKEL_R_Hand").x > 0.15);
        assert_eq!(ped.joints().iter().filter(|j| j.parent.is_none()).count(), 1);
        assert_eq!(ped.joints()[0].name.as_deref(), Some("SKEL_ROOT"));
    }

    #[test]
    fn animated_bones_come_in_with_their_ancestors() {
        let jaw = ped_bone_by_name("FACIAL_jaw").unwrap();
        let least = ped_skeleton(&|_| false).unwrap();
        let more = ped_skeleton(&|tag| tag == jaw.tag).unwrap();
        assert_eq!(least.find(JointId::BoneTag(jaw.tag)), None);
        let joint = &more.joints()[more.find(JointId::BoneTag(jaw.tag)).unwrap()];
        assert_eq!(more.joints()[joint.parent.unwrap()].name.as_deref(), jaw.parent);
        assert_eq!(ped_skeleton(&|_| true).unwrap().joints().len(), ped_bones().len());
    }
}
