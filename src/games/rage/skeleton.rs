//! Skeletons of RAGE resources: .ydr, .ydd and .yft of both editions (docs/formats/rage.md, section 9).
//!
//! Where the skeleton is:
//!
//! | resource | versions | path |
//! |---|---|---|
//! | drawable (.ydr) | 165, 159 | root 0x18 -> skeleton |
//! | drawable dictionary (.ydd) | 165, 159 | root 0x30 -> u64 pointers, 0x38 u16 count; each a drawable |
//! | fragment (.yft) | 162, 171 | root 0x30 -> drawable; 0x38 -> u64 pointers, 0x48 u32 count; 0xF8 -> cloth drawable |
//!
//! Of the skeleton record (112 bytes) the pointer to the bones (0x20) and the u16 bone count (0x5E) are read. Its
//! matrix tables and its parent table repeat what the bones say, or hold junk, and are not read. A bone, 80 bytes:
//!
//! | Offset | Size | Type | Field | Unit | Source |
//! |---|---|---|---|---|---|
//! | 0x00 | 16 | f32 x 4 | rest rotation x, y, z, w, parent-local | | rage.md 9 |
//! | 0x10 | 12 | f32 x 3 | rest translation, parent-local | m | rage.md 9 |
//! | 0x20 | 12 | f32 x 3 | rest scale | | rage.md 9 |
//! | 0x32 | 2 | i16 | index of the parent, -1 for the root | | rage.md 9 |
//! | 0x38 | 8 | pointer | name | | rage.md 9 |
//! | 0x44 | 2 | u16 | tag | | rage.md 9 |

use glam::{DQuat, Quat, Vec3};

use crate::error::{Error, ErrorKind, Result};
use crate::games::rage::container::rsc7::{ROOT, Resource};
use crate::games::rage::names as rage;
use crate::io::bytes::Cursor;
use crate::model::{Joint, JointId, Skeleton, SkeletonFile, Trs};

const BONE_SIZE: usize = 80;
/// Drawables of a dictionary or fragment that are looked into.
const MAX_DRAWABLES: usize = 4096;

/// What any form of a RAGE skeleton gives for a bone.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bone {
    pub name: String,
    pub tag: u16,
    /// -1: a root.
    pub parent: i32,
    pub rotation: [f32; 4],
    pub translation: [f32; 3],
    pub scale: [f32; 3],
}

/// Reads the skeleton of a resource: of several drawables the one with most bones, the first of equals.
///
/// # Errors
/// Malformed, with the pointer as offset; Unsupported where the resource holds no skeleton.
pub fn read(resource: &Resource<'_>, name: &str) -> Result<SkeletonFile> {
    let mut notes = resource.notes.clone();
    let drawables = drawables(resource)?;
    let mut best: Option<(u64, u16)> = None;
    let mut others = 0;
    for drawable in &drawables {
        let skeleton = pointer_at(resource, drawable + 0x18, "skeleton pointer")?;
        if skeleton == 0 {
            continue;
        }
        let count = resource.cursor(skeleton + 0x5E)?.u16("bone count")?;
        others += usize::from(best.is_some());
        if best.is_none_or(|(_, most)| count > most) {
            best = Some((skeleton, count));
        }
    }
    let Some((skeleton, count)) = best else {
        return Err(Error::unsupported(format!(
            "found no skeleton in {} drawable{}; the skeleton of a ped stands in its .yft",
            drawables.len(),
            if drawables.len() == 1 { "" } else { "s" }
        )));
    };
    if others > 0 {
        notes.push(format!("{} skeletons: the one with most bones ({count}) is taken", others + 1));
    }
    if count == 0 {
        return Err(Error::malformed(skeleton + 0x5E, "a skeleton of 0 bones", "at least one"));
    }
    let bones_at = pointer_at(resource, skeleton + 0x20, "bone pointer")?;
    let records = resource.items(bones_at, usize::from(count), BONE_SIZE, "bones")?;
    let mut bones = Vec::with_capacity(usize::from(count));
    for (i, record) in records.chunks_exact(BONE_SIZE).enumerate() {
        let at = bones_at + (i * BONE_SIZE) as u64;
        bones.push(bone(resource, Cursor::new(record, at)).map_err(|e| e.in_entry(format!("bone {i}")))?);
    }
    let skeleton = build(name, bones, &mut notes)?;
    Ok(SkeletonFile { skeleton, notes })
}

/// Gives the only root tag 0 where names alone were known: a root bone has tag 0 whatever it is called (notes, 9),
/// but where its name is a ped bone's or a tag.
///
/// # Errors
/// None in practice.
pub fn with_root_tag(skeleton: Skeleton) -> Result<Skeleton> {
    let mut roots = skeleton.joints().iter().enumerate().filter(|(_, j)| j.parent.is_none());
    let (Some((i, root)), None) = (roots.next(), roots.next()) else { return Ok(skeleton) };
    let name = root.name.as_deref().unwrap_or_default();
    let is_named = rage::ped_bone_by_name(name).is_some() || name.starts_with("tag_");
    if is_named || root.id == JointId::RootMotion {
        return Ok(skeleton);
    }
    let mut joints = skeleton.joints().to_vec();
    joints[i].id = JointId::BoneTag(0);
    Skeleton::new(skeleton.name, joints)
}

fn pointer_at(resource: &Resource<'_>, at: u64, what: &str) -> Result<u64> {
    resource.cursor(at)?.u64(what)
}

/// Pointers to the drawables of the resource. What it is is told by its version and, as a drawable and a
/// dictionary of them share that, by the fields of a dictionary: counts that agree where a drawable has floats.
fn drawables(resource: &Resource<'_>) -> Result<Vec<u64>> {
    match resource.version {
        Some(162 | 171) => fragment(resource),
        Some(165 | 159) => match dictionary(resource) {
            Some(drawables) => Ok(drawables),
            None => Ok(vec![ROOT]),
        },
        Some(version) => Err(Error::unsupported(format!(
            "found resource version {version}{}, expected a drawable (165, 159) or a fragment (162, 171)",
            if version == 46 { " (a clip dictionary)" } else { "" }
        ))
        .at(4)),
        // Without a header only the contents can tell.
        None => {
            let is_skeleton = |drawable: &u64| {
                pointer_at(resource, drawable + 0x18, "skeleton pointer")
                    .is_ok_and(|s| s != 0 && resource.at(s, 112).is_ok())
            };
            if let Some(drawables) = dictionary(resource) {
                return Ok(drawables);
            }
            let fragment = fragment(resource).unwrap_or_default();
            Ok(if fragment.iter().any(is_skeleton) { fragment } else { vec![ROOT] })
        }
    }
}

/// The drawables of a dictionary; `None` for a drawable, which has a pointer or null at 0x18 (1 in a
/// dictionary) and a bounding sphere at 0x20 (a pointer to hashes).
fn dictionary(resource: &Resource<'_>) -> Option<Vec<u64>> {
    let hashes = pointer_at(resource, ROOT + 0x20, "hashes").ok()?;
    let mut list = resource.cursor(ROOT + 0x28).ok()?;
    let hash_count = list.u16("hash count").ok()?;
    list.skip(6, "hash capacity").ok()?;
    let pointers = list.u64("drawable pointers").ok()?;
    let count = list.u16("drawable count").ok()?;
    if count == 0 || hash_count != count || resource.items(hashes, usize::from(count), 4, "hashes").is_err() {
        return None;
    }
    let at = pointer_at(resource, ROOT + 0x18, "skeleton pointer").ok()?;
    if resource.at(at, 1).is_ok() {
        return None;
    }
    pointers_of(resource, pointers, usize::from(count)).ok()
}

fn fragment(resource: &Resource<'_>) -> Result<Vec<u64>> {
    let mut root = resource.cursor(ROOT + 0x30)?;
    let drawable = root.u64("drawable pointer")?;
    let extra = root.u64("extra drawables")?;
    root.skip(8, "names of extra drawables")?;
    let extra_count = root.u32("extra drawable count")? as usize;
    let mut out = vec![drawable];
    if extra != 0 {
        out.extend(pointers_of(resource, extra, extra_count)?);
    }
    if let Ok(cloth) = pointer_at(resource, ROOT + 0xF8, "cloth drawable") {
        out.push(cloth);
    }
    out.retain(|p| *p != 0);
    Ok(out)
}

fn pointers_of(resource: &Resource<'_>, at: u64, count: usize) -> Result<Vec<u64>> {
    if count > MAX_DRAWABLES {
        return Err(Error::limit(
            at,
            format_args!("{count} drawables"),
            format_args!("at most {MAX_DRAWABLES}"),
        ));
    }
    let bytes = resource.items(at, count, 8, "drawable pointers")?;
    Ok(bytes.as_chunks::<8>().0.iter().map(|b| u64::from_le_bytes(*b)).filter(|p| *p != 0).collect())
}

fn bone(resource: &Resource<'_>, mut record: Cursor<'_>) -> Result<Bone> {
    let mut floats = [0.0; 12];
    for value in &mut floats {
        *value = record.f32("rest pose")?;
    }
    record.skip(2, "next sibling")?;
    let parent = i32::from(record.i16("parent")?);
    record.skip(4, "padding")?;
    let name = resource.string(record.u64("name pointer")?)?.into_owned();
    record.skip(4, "flags and index")?;
    let tag = record.u16("tag")?;
    let [qx, qy, qz, qw, tx, ty, tz, _, sx, sy, sz, _] = floats;
    Ok(Bone { name, tag, parent, rotation: [qx, qy, qz, qw], translation: [tx, ty, tz], scale: [sx, sy, sz] })
}

/// A skeleton of bones in any order.
///
/// Tags are believed as they stand. Where a tool left the tags of all bones 0, they are made of the names.
///
/// # Errors
/// Malformed: parents that are no tree, numbers that are none.
pub(super) fn build(name: &str, bones: Vec<Bone>, notes: &mut Vec<String>) -> Result<Skeleton> {
    let untagged = bones.len() > 1 && bones.iter().all(|b| b.tag == 0);
    if untagged {
        notes.push("no bone has a tag: tags are made of the names".to_owned());
    }
    let mut no_rotation = 0;
    let mut joints = Vec::with_capacity(bones.len());
    for (i, bone) in bones.into_iter().enumerate() {
        let bad = |found: String, expected: &str| {
            Err(Error::new(ErrorKind::Malformed, format!("found {found}, expected {expected}"))
                .in_entry(format!("bone {i} \"{}\"", bone.name)))
        };
        let [x, y, z, w] = bone.rotation.map(f64::from);
        let rotation = DQuat::from_xyzw(x, y, z, w);
        let numbers = bone.rotation.iter().chain(&bone.translation).chain(&bone.scale);
        if numbers.into_iter().any(|v| !v.is_finite()) {
            return bad("a rest pose that is no number".to_owned(), "numbers");
        }
        let rotation = if rotation.length_squared() > 0.0 {
            rotation.normalize().as_quat()
        } else {
            no_rotation += 1;
            Quat::IDENTITY
        };
        let parent = match bone.parent {
            -1 => None,
            p if p >= 0 && p as usize != i => Some(p as usize),
            p => return bad(format!("parent {p}"), "another bone, or -1"),
        };
        let tag = if untagged && parent.is_some() { rage::tag_of_name(&bone.name) } else { bone.tag };
        // A scale of zero would make the joint's matrix singular; tools that leave the field empty mean one.
        let scale = Vec3::from_array(bone.scale);
        let scale = if scale == Vec3::ZERO { Vec3::ONE } else { scale };
        joints.push(Joint {
            id: JointId::BoneTag(tag),
            name: Some(bone.name).filter(|n| !n.is_empty()),
            parent,
            rest: Trs { translation: Vec3::from_array(bone.translation), rotation, scale },
        });
    }
    if no_rotation > 0 {
        notes.push(format!("{no_rotation} rest rotations of length zero: taken as no rotation"));
    }
    Skeleton::new(name, joints)
}
