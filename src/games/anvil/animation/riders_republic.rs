//! Riders Republic: an Animation's body to a [`Clip`].

use serde_json::{Map, Value, json};

use crate::error::{Error, Result};
use crate::games::anvil::animation::tracks::{
    Block, ClipCensus, Decoder, FoundTail, TrackLayout, find_tail, raw_for_extras, walk,
};
use crate::games::anvil::container::object::{Generation, Object, class};
use crate::io::bytes::Cursor;
use crate::model::{Clip, ClipId, Warning, WarningKind};

static ADDITIVE: WarningKind =
    WarningKind { code: "anvil-additive", text: "additive clip: its values are deltas to a pose, not poses" };

/// The game's name in extras and manifest.
pub const GAME: &str = "RR";

/// Decodes an Animation.
///
/// Body, little-endian, from the byte after the extension word (docs/formats/anvil.md, section 4.3; names:
/// section 3):
///
/// | Offset | Size | Type | Field | Unit | Source |
/// |---|---|---|---|---|---|
/// | 0x0 | 1 | u8 | ManagedObject byte, 1 | | anvil.md 4.3 |
/// | 0x1 | 4 | f32 | Length | s | anvil.md 4.3 |
/// | 0x5 | 4 | u32 | AnimationKey | | anvil.md 4.3 |
/// | 0x9 | 4 | u32 | 322B96B8, not known, 0 | | anvil.md 4.3 |
/// | 0xD | 4 + 2A | u32, u16[] | TeleportAtTime, empty on all known clips | | anvil.md 4.3 |
/// | 17+2A | 4 + 2B | u32, u16[] | 251905D9, not known, empty on all known clips | | anvil.md 4.3 |
/// | 21+2A+2B | 4 | bool[4] | Additive, AdditiveWithAlwaysMatchBlendLength, UseGlobalCoordsForReferenceBone, IsStreamed | s | anvil.md 4.3 |
/// | 25+2A+2B | 4 | u32 | event count | | anvil.md 4.3 |
/// | 29+2A+2B | | objects | AnimTrackEvents, not decoded | | anvil.md 4.3 |
/// | | 13 | u8 0, u64, u32 | AnimTrackData: tag, id, class 0181EFE8 | | anvil.md 4.3 |
/// | | 4 | u32 | AnimTrackDataKey | | anvil.md 4.3 |
/// | | 4 + 16n | u32, mappings | u64 id, class 653CAA76, u32 TrackID: CRC-32 of the bone's name, 0 the root's motion | | anvil.md 4.3 |
/// | | 2 | u16 | NumRefs | | anvil.md 4.3 |
/// | | 1 or more | pointer | ECLAnimation: 3 (none), or 0, u64 id, class AC692A57, then arrays of u8, u32, u16 and u8, each with a u32 count | | anvil.md 4.3 |
/// | | 4 + m | u32, bytes | B832D26F, not known | | anvil.md 4.3 |
/// | | 4 | u32 | UserCategory | | anvil.md 4.3 |
/// | | 4 | u32 | track count, equal to n | | anvil.md 4.3 |
/// | | | blocks | tracks, one for each mapping, in order; they end the body | | anvil.md 4.3 |
///
/// The length of the events is not stored: `find_tail` finds where AnimTrackData begins.
///
/// `source` becomes [`Clip::source`].
///
/// # Errors
/// A body that departs from the table, named by the offset in the unpacked container.
pub fn read(object: &Object, source: &str) -> Result<Clip> {
    read_with_census(object, source).map(|(clip, _)| clip)
}

/// As [`read`], with the counts that `check` prints.
///
/// # Errors
/// As [`read`].
pub fn read_with_census(object: &Object, source: &str) -> Result<(Clip, ClipCensus)> {
    // Names are bytes of the file: quoted, so that an error stays one line.
    decode(object, source).map_err(|e| e.in_entry(format!("Animation {:?} ({:X})", object.name, object.id)))
}

fn decode(object: &Object, source: &str) -> Result<(Clip, ClipCensus)> {
    if object.generation != Generation::Ids64 || object.class != class::ANIMATION {
        return Err(Error::malformed(
            object.body_offset,
            format_args!("class {:08X}, {:?}", object.class, object.generation),
            "an Animation (0FA3067F) with 64-bit ids",
        ));
    }
    let mut c = Cursor::new(object.body, object.body_offset);
    let managed = c.u8("ManagedObject byte")?;
    let length = c.f32("Length")?;
    if !length.is_finite() || length < 0.0 {
        return Err(Error::malformed(c.offset() - 4, format_args!("a Length of {length} s"), "0 or more"));
    }
    let animation_key = c.u32("AnimationKey")?;
    let field_322b96b8 = c.u32("322B96B8")?;
    let teleport_at_time = u16_array(&mut c, "TeleportAtTime")?;
    let field_251905d9 = u16_array(&mut c, "251905D9")?;
    let flags = c.array::<4>("the four flags")?.map(|b| b != 0);
    let [additive, additive_match, global_reference, streamed] = flags;
    let event_count = c.u32("event count")?;
    if event_count as usize > c.left() {
        return Err(Error::limit(
            c.offset() - 4,
            format_args!("{event_count} events with {} bytes left", c.left()),
            "a count that fits",
        ));
    }
    let events_at = c.position();
    let found = find_tail(object, events_at, event_count, |at| read_tail(object, at), |r| r.blocks.len())?;
    let ambiguous_tail = found.warning();
    let FoundTail { at: anchor, tail, .. } = found;
    let events = &object.body[events_at..anchor];

    let mut decoder = Decoder::new(TrackLayout::RidersRepublic, f64::from(length), tail.blocks.len());
    for (block, mapping) in tail.blocks.iter().zip(tail.mappings) {
        decoder.track(block, mapping_crc(mapping))?;
    }
    let census = &mut decoder.census;
    census.events += u64::from(event_count);
    census.with_events += u64::from(event_count > 0);
    census.with_ecl_animation += u64::from(tail.ecl.is_some());
    census.streamed += u64::from(streamed);
    census.additive += u64::from(additive || additive_match);
    census.anomalies.fields_not_empty +=
        u64::from(field_322b96b8 != 0 || !teleport_at_time.is_empty() || !field_251905d9.is_empty());

    let mut warnings = decoder.warnings();
    warnings.extend(ambiguous_tail);
    if additive || additive_match {
        warnings.push(Warning::new(&ADDITIVE));
    }
    let hex32 = |v: u32| Value::from(format!("{v:08X}"));
    let mut extras = Map::new();
    let mut put = |key: &str, value: Value| {
        extras.insert(key.into(), value);
    };
    put("animationKey", hex32(animation_key));
    put("animTrackDataKey", hex32(tail.key));
    put("animTrackDataId", format!("{:X}", tail.id).into());
    put("numRefs", tail.num_refs.into());
    put("userCategory", tail.user_category.into());
    put("additive", (additive || additive_match).into());
    if additive_match {
        put("additiveWithAlwaysMatchBlendLength", true.into());
    }
    put("useGlobalCoordsForReferenceBone", global_reference.into());
    put("streamed", streamed.into());
    put("eventCount", event_count.into());
    if !events.is_empty() {
        put("eventByteLength", events.len().into());
        put("eventBytes", raw_for_extras(events));
    }
    if let Some(ecl) = &tail.ecl {
        put("eclAnimation", ecl.extras());
    }
    if !tail.buffer.is_empty() {
        put("bufferB832D26F", raw_for_extras(tail.buffer));
    }
    if managed != 1 {
        put("managedObject", managed.into());
    }
    if field_322b96b8 != 0 {
        put("field322B96B8", hex32(field_322b96b8));
    }
    if !teleport_at_time.is_empty() {
        put("teleportAtTime", json!(teleport_at_time));
    }
    if !field_251905d9.is_empty() {
        put("field251905D9", json!(field_251905d9));
    }

    let clip = Clip {
        id: ClipId { value: object.id, min_digits: 1 },
        name: object.name.clone(),
        short_name: object.name.clone(),
        game: GAME,
        source: source.to_owned(),
        length_s: f64::from(length),
        additive: additive || additive_match,
        timelines: decoder.timelines,
        tracks: decoder.tracks,
        events: Vec::new(),
        extras,
        warnings,
    };
    Ok((clip, decoder.census))
}

/// A u32 count and that many u16.
fn u16_array(c: &mut Cursor, what: &str) -> Result<Vec<u16>> {
    let count = c.u32(what)?;
    let bytes = c.take_items(count as usize, 2, what)?;
    Ok(bytes.as_chunks::<2>().0.iter().map(|b| u16::from_le_bytes(*b)).collect())
}

/// Bytes of a mapping: u64 id, class, bone.
const MAPPING: usize = 16;

fn mapping_crc(mapping: &[u8; MAPPING]) -> u32 {
    u32::from_le_bytes([mapping[12], mapping[13], mapping[14], mapping[15]])
}

/// The tail: everything from AnimTrackData's tag to the end of the body.
struct Tail<'a> {
    id: u64,
    key: u32,
    mappings: &'a [[u8; MAPPING]],
    num_refs: u16,
    ecl: Option<Ecl<'a>>,
    buffer: &'a [u8],
    user_category: u32,
    blocks: Vec<Block<'a>>,
}

/// ECLAnimation: four arrays. Only the widths of their elements are known.
struct Ecl<'a> {
    id: u64,
    arrays: [&'a [u8]; 4],
}

impl Ecl<'_> {
    fn extras(&self) -> Value {
        let [bytes_a, u32s, u16s, bytes_b] = self.arrays.map(raw_for_extras);
        json!({ "id": format!("{:X}", self.id), "u8A": bytes_a, "u32": u32s, "u16": u16s, "u8B": bytes_b })
    }
}

fn read_tail<'a>(object: &Object<'a>, at: usize) -> Result<Tail<'a>> {
    let mut c = Cursor::new(object.body, object.body_offset);
    c.seek(at, "AnimTrackData")?;
    let tag = c.u8("AnimTrackData tag")?;
    let id = c.u64("AnimTrackData id")?;
    let found = c.u32("AnimTrackData class")?;
    if tag != 0 || found != class::ANIM_TRACK_DATA {
        return Err(Error::malformed(
            object.body_offset + at as u64,
            format_args!("tag {tag}, class {found:08X}"),
            "AnimTrackData: tag 0, u64 id, class 0181EFE8",
        ));
    }
    let key = c.u32("AnimTrackDataKey")?;
    let count = c.u32("mapping count")?;
    let mappings_at = c.offset();
    let (mappings, _) = c.take_items(count as usize, MAPPING, "mappings")?.as_chunks::<MAPPING>();
    let expected = class::ANIM_TRACK_DATA_MAPPING.to_le_bytes();
    if let Some(i) = mappings.iter().position(|m| m[8..12] != expected) {
        let m = &mappings[i];
        return Err(Error::malformed(
            mappings_at + (i * MAPPING) as u64 + 8,
            format_args!("class {:08X} of mapping {i}", u32::from_le_bytes([m[8], m[9], m[10], m[11]])),
            "653CAA76 (AnimTrackDataMapping)",
        ));
    }
    let num_refs = c.u16("NumRefs")?;
    let ecl = read_ecl(&mut c)?;
    let length = c.u32("length of B832D26F")?;
    let buffer = c.take_items(length as usize, 1, "B832D26F")?;
    let user_category = c.u32("UserCategory")?;
    let tracks = c.u32("track count")?;
    if tracks != count {
        return Err(Error::malformed(
            c.offset() - 4,
            format_args!("{tracks} tracks"),
            format_args!("one for each of the {count} mappings"),
        ));
    }
    let blocks = walk(&mut c, tracks, TrackLayout::RidersRepublic)?;
    c.expect_end("the last track")?;
    Ok(Tail { id, key, mappings, num_refs, ecl, buffer, user_category, blocks })
}

fn read_ecl<'a>(c: &mut Cursor<'a>) -> Result<Option<Ecl<'a>>> {
    let at = c.offset();
    match c.u8("ECLAnimation tag")? {
        3 => return Ok(None),
        0 => {}
        tag => return Err(Error::malformed(at, format_args!("ECLAnimation tag {tag}"), "0 or 3 (none)")),
    }
    let id = c.u64("ECLAnimation id")?;
    let found = c.u32("ECLAnimation class")?;
    if found != class::ECL_ANIMATION {
        return Err(Error::malformed(c.offset() - 4, format_args!("class {found:08X}"), "AC692A57"));
    }
    let mut arrays = [&[] as &[u8]; 4];
    for (array, size) in arrays.iter_mut().zip([1, 4, 2, 1]) {
        let count = c.u32("ECLAnimation count")?;
        *array = c.take_items(count as usize, size, "an ECLAnimation array")?;
    }
    Ok(Some(Ecl { id, arrays }))
}
