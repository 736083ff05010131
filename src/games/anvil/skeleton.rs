//! Anvil: a Skeleton's body to a [`Skeleton`], both generations.

use std::collections::HashMap;

use glam::{DQuat, DVec3, Quat, Vec3};

use crate::error::{Error, Result};
use crate::games::anvil::animation::tracks::find_word;
use crate::games::anvil::container::object::{Generation, Object, class};
use crate::io::bytes::Cursor;
use crate::model::{Joint, JointId, Skeleton, Trs};

/// Positions agree within this, relative to their size and metres.
const POSITION_M: f64 = 1e-4;
/// 1 - |dot| of rotations that agree.
const ROTATION: f64 = 1e-5;
/// How far behind its parent a bone's transforms are looked for, in bytes: room for a mirror pointer and for
/// fields that these games may have added.
const MAX_GAP: usize = 64;
/// Bytes of the transforms: global position and rotation, local position and rotation, four f32 each.
const TRANSFORMS_SIZE: usize = 64;

/// Decodes a Skeleton.
///
/// Only older and newer games of the engine are documented (docs/formats/anvil.md, section 5), so bones are found by
/// what must hold in any of them and not by the sizes of what stands between:
///
/// | Order | Size, 64-bit and 32-bit ids | Field | Unit | Source |
/// |---|---|---|---|---|
/// | before the first bone | 4 | u32 bone count | | anvil.md 5.1, 5.2 |
/// | 1 | 1 | u8 0, begin of a bone | | anvil.md 5.4 |
/// | 2 | 8, 4 | object id | | anvil.md 5.4 |
/// | 3 | 4 | u32 class 95741049 | | anvil.md 5.4 |
/// | 4 | 4 | u32 CRC-32 of the bone's name | | anvil.md 5.4 |
/// | 5 | 1, or 9 and 5 | parent: u8 3 (none), or u8 2 or 1 and the id of an earlier bone | | anvil.md 5.4 |
/// | 6 | any | mirror pointer; with 32-bit ids u8 0, u32 id, class 6350E5A6 | | anvil.md 5.1, 5.2 |
/// | 7 | 32 | global: position f32 x 4, quaternion x, y, z, w | m | anvil.md 5.4 |
/// | 8 | 32 | local: position f32 x 4, quaternion x, y, z, w | m | anvil.md 5.4 |
/// | 9 | any | modifiers and others, not read | | anvil.md 5.1, 5.2 |
///
/// A bone is accepted when `parent.global o local == global` to float precision (for a root `global == local`) with
/// unit quaternions. The class word anywhere else is passed over. The skeleton is accepted when as many bones were
/// accepted as it says it has and the first of them is the only root. Joints have no names: the file holds none.
///
/// # Errors
/// A body of which that cannot be proven, with the reason.
pub fn read(object: &Object) -> Result<Skeleton> {
    let fail = |offset: usize, found: String, expected: String| {
        Error::malformed(object.body_offset + offset as u64, found, expected)
            .in_entry(format!("Skeleton {:?} ({:X})", object.name, object.id))
    };
    if object.class != class::SKELETON {
        return Err(fail(0, format!("class {:08X}", object.class), "24AECB7C (Skeleton)".into()));
    }
    let body = object.body;
    let id_size = match object.generation {
        Generation::Ids32 => 4,
        Generation::Ids64 => 8,
    };
    let mut bones: Vec<Bone> = Vec::new();
    let mut by_id: HashMap<u64, usize> = HashMap::new();
    let mut first_at = 0;
    let mut refused: Option<(usize, &'static str)> = None;
    let mut from = 0;
    while let Some(word) = find_word(body, from, class::BONE) {
        match read_bone(body, word, id_size, &bones, &by_id) {
            Ok((id, bone, end)) => {
                if bones.is_empty() {
                    first_at = word - id_size - 1;
                }
                by_id.insert(id, bones.len());
                bones.push(bone);
                from = end;
            }
            Err(reason) => {
                refused.get_or_insert((word, reason));
                from = word + 1;
            }
        }
    }
    // Why the numbers do not agree: the first candidate that was refused.
    let why = refused.map_or(String::new(), |(at, reason)| {
        format!(" (not proven: the one at 0x{:X}, {reason})", object.body_offset + at as u64)
    });
    if bones.is_empty() {
        return Err(fail(0, format!("no bone{why}"), "class 95741049 with consistent transforms".into()));
    }
    let count_at = first_at.checked_sub(4);
    let count = count_at.and_then(|at| body.get(at..at + 4)?.try_into().ok()).map(u32::from_le_bytes);
    if count != u32::try_from(bones.len()).ok() {
        return Err(fail(
            count_at.unwrap_or_default(),
            format!("{} proven bones{why}", bones.len()),
            count.map_or("a bone count before them".into(), |n| format!("the {n} that the skeleton counts")),
        ));
    }
    let roots = bones.iter().filter(|b| b.joint.parent.is_none()).count();
    if roots != 1 {
        return Err(fail(first_at, format!("{roots} bones without a parent"), "one root".into()));
    }
    Skeleton::new(object.name.clone(), bones.into_iter().map(|b| b.joint).collect())
        .map_err(|e| e.at(object.body_offset))
}

struct Bone {
    joint: Joint,
    rotation: DQuat,
    position: DVec3,
}

/// The bone whose class word stands at `word`: its object id, itself, and the end of its transforms; or why it is
/// none.
fn read_bone(
    body: &[u8],
    word: usize,
    id_size: usize,
    bones: &[Bone],
    by_id: &HashMap<u64, usize>,
) -> std::result::Result<(u64, Bone, usize), &'static str> {
    const ENDS_INSIDE: &str = "the body ends inside it";
    let id_at = word.checked_sub(id_size).ok_or("no room for an id before it")?;
    if id_at == 0 || body[id_at - 1] != 0 {
        return Err("no begin byte 0 before its id");
    }
    let id = read_id(&body[id_at..word]);
    let mut c = Cursor::new(body, 0);
    c.seek(word + 4, "bone").map_err(|_| ENDS_INSIDE)?;
    let crc = c.u32("bone").map_err(|_| ENDS_INSIDE)?;
    let parent = match c.u8("parent").map_err(|_| ENDS_INSIDE)? {
        3 => None,
        1 | 2 => {
            let id = read_id(c.take(id_size, "parent").map_err(|_| ENDS_INSIDE)?);
            Some(*by_id.get(&id).ok_or("its parent is no earlier bone")?)
        }
        _ => return Err("its parent is no pointer to a bone"),
    };
    let parent_global = parent.map(|p| (bones[p].rotation, bones[p].position));
    let at = c.position();
    // Not into the next bone, whose transforms would do for a false class word here.
    let window = &body[..body.len().min(at + MAX_GAP + TRANSFORMS_SIZE)];
    let limit = find_word(window, at, class::BONE).unwrap_or(window.len());
    for start in at..(limit + 1).saturating_sub(TRANSFORMS_SIZE) {
        let Some(bytes) = body.get(start..start + TRANSFORMS_SIZE) else { break };
        if let Some((trs, rotation, position)) = verified_transforms(bytes, parent_global) {
            let joint = Joint { id: JointId::Crc32(crc), name: None, parent, rest: trs };
            return Ok((id, Bone { joint, rotation, position }, start + TRANSFORMS_SIZE));
        }
    }
    Err("no transforms in it with parent.global o local == global")
}

fn read_id(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |id, b| id << 8 | u64::from(*b))
}

/// The local transform and the global rotation and position, where the 64 bytes are both and agree.
fn verified_transforms(bytes: &[u8], parent: Option<(DQuat, DVec3)>) -> Option<(Trs, DQuat, DVec3)> {
    let mut f = [0f32; 16];
    for (value, bytes) in f.iter_mut().zip(bytes.as_chunks::<4>().0) {
        *value = f32::from_le_bytes(*bytes);
        if !value.is_finite() {
            return None;
        }
    }
    // The fourth of a position is 1 or 0 in every documented form.
    if [f[3], f[11]].iter().any(|w| *w != 0.0 && *w != 1.0) {
        return None;
    }
    let vector = |i: usize| Vec3::new(f[i], f[i + 1], f[i + 2]);
    let quaternion = |i: usize| Quat::from_xyzw(f[i], f[i + 1], f[i + 2], f[i + 3]);
    let (position, rotation) = (vector(0).as_dvec3(), quaternion(4).as_dquat());
    let (local_position, local_rotation) = (vector(8), quaternion(12));
    let unit = |q: DQuat| (q.length_squared() - 1.0).abs() < 1e-3;
    if !unit(rotation) || !unit(local_rotation.as_dquat()) {
        return None;
    }
    let (parent_rotation, parent_position) = parent.unwrap_or((DQuat::IDENTITY, DVec3::ZERO));
    let expected_rotation = parent_rotation * local_rotation.as_dquat().normalize();
    let expected_position = parent_position + parent_rotation * local_position.as_dvec3();
    let rotation = rotation.normalize();
    let close = (expected_position - position).length() <= POSITION_M * (1.0 + position.length())
        && 1.0 - expected_rotation.dot(rotation).abs() <= ROTATION;
    close.then_some((
        Trs { translation: local_position, rotation: local_rotation, scale: Vec3::ONE },
        rotation,
        position,
    ))
}
