//! Anvil objects that name clips: AnimSets (Shaun White Skateboarding) and the AnimComponents of Entities (Riders
//! Republic).

use std::collections::HashSet;

use serde::Serialize;

use crate::error::{Error, Result};
use crate::games::anvil::animation::tracks::find_word;
use crate::games::anvil::container::object::{Generation, Object, class};
use crate::io::bytes::Cursor;

/// An AnimSet: pairs of clips. Which of a pair the game plays when is not known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AnimSet {
    /// Object id.
    pub id: u32,
    /// Object name.
    pub name: String,
    /// Ids of the two Animations of each AnimPair, in order.
    pub pairs: Vec<[u32; 2]>,
}

/// Decodes an AnimSet.
///
/// Body, little-endian, to the exact end:
///
/// | Offset | Size | Type | Field | Source |
/// |---|---|---|---|---|
/// | 0x0 | 1 | u8 | managed | anvil.md 4.7 |
/// | 0x1 | 4 | u32 | id | anvil.md 4.7 |
/// | 0x5 | 4 | u32 | class 31984F55 | anvil.md 4.7 |
/// | 0x9 | 4 | u32 | 0 | anvil.md 4.7 |
/// | 0xD | 4 | u32 | pair count n | anvil.md 4.7 |
/// | 0x11 | 16n | pairs | u32 id, u32 class 9DE9A987 (AnimPair), u32 and u32 id of an Animation | anvil.md 4.7 |
/// | 0x11+16n | 1 | u8 | 0 or 1 | anvil.md 4.7 |
///
/// # Errors
/// A body that departs from this.
pub fn read_anim_set(object: &Object) -> Result<AnimSet> {
    decode(object).map_err(|e| e.in_entry(format!("AnimSet {:?} ({:X})", object.name, object.id)))
}

fn decode(object: &Object) -> Result<AnimSet> {
    if object.generation != Generation::Ids32 || object.class != class::ANIM_SET {
        return Err(Error::malformed(
            object.body_offset,
            format_args!("class {:08X}, {:?}", object.class, object.generation),
            "an AnimSet (31984F55) with 32-bit ids",
        ));
    }
    let mut c = Cursor::new(object.body, object.body_offset);
    c.u8("managed byte")?;
    let id = c.u32("id")?;
    let found = c.u32("class")?;
    if found != class::ANIM_SET {
        return Err(Error::malformed(
            c.offset() - 4,
            format_args!("class {found:08X}"),
            "31984F55 (AnimSet)",
        ));
    }
    c.u32("the word before the count")?;
    let count = c.u32("pair count")?;
    let at = c.offset();
    let (chunks, _) = c.take_items(count as usize, 16, "AnimPairs")?.as_chunks::<16>();
    let word =
        |pair: &[u8; 16], i: usize| u32::from_le_bytes([pair[i], pair[i + 1], pair[i + 2], pair[i + 3]]);
    let mut pairs = Vec::with_capacity(chunks.len());
    for (i, pair) in chunks.iter().enumerate() {
        if word(pair, 4) != class::ANIM_PAIR {
            return Err(Error::malformed(
                at + 16 * i as u64 + 4,
                format_args!("class {:08X} of pair {i}", word(pair, 4)),
                "9DE9A987 (AnimPair)",
            ));
        }
        pairs.push([word(pair, 8), word(pair, 12)]);
    }
    c.u8("the final byte")?;
    c.expect_end("the AnimSet")?;
    Ok(AnimSet { id, name: object.name.clone(), pairs })
}

/// The clips that an Entity's AnimComponents name, in order, without repeats; empty where it has none.
///
/// An AnimComponent is an embedded object:
///
/// | Offset | Size | Type | Field | Source |
/// |---|---|---|---|---|
/// | 0x0 | 8 | u64 | id | anvil.md 4.8 |
/// | 0x8 | 4 | u32 | class 8C8AA19D | anvil.md 4.8 |
/// | 0xC | 4 | u8[4] | not known | anvil.md 4.8 |
/// | 0x10 | 4 | u32 | reference count n | anvil.md 4.8 |
/// | 0x14 | 10n | references | u8 1, u8 mode, u64 ClassID; or u8 3 and nine zeros for none | anvil.md 2.5.1 |
///
/// Entities are not read as a whole. A class word counts as an AnimComponent if all its references have that form.
pub fn entity_clips(object: &Object) -> Vec<u64> {
    let mut clips = Vec::new();
    let mut seen = HashSet::new();
    if object.generation != Generation::Ids64 {
        return clips;
    }
    let mut from = 0;
    while let Some(at) = find_word(object.body, from, class::ANIM_COMPONENT) {
        from = at + 1;
        let mut c = Cursor::new(&object.body[at + 4..], 0);
        let Some(references) = references(&mut c) else { continue };
        clips.extend(references.into_iter().filter(|id| seen.insert(*id)));
    }
    clips
}

fn references(c: &mut Cursor) -> Option<Vec<u64>> {
    c.skip(4, "base bytes").ok()?;
    let count = c.u32("count").ok()?;
    let (chunks, _) = c.take_items(count as usize, 10, "references").ok()?.as_chunks::<10>();
    let mut ids = Vec::with_capacity(chunks.len());
    for r in chunks {
        match r {
            [1, _, id @ ..] => ids.push(u64::from_le_bytes(*id)),
            [3, 0, 0, 0, 0, 0, 0, 0, 0, 0] => {}
            _ => return None,
        }
    }
    Some(ids)
}
