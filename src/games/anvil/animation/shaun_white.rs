//! Shaun White Skateboarding: an Animation's body to a [`Clip`].

use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::games::anvil::animation::tracks::{
    Block, ClipCensus, Decoder, FoundTail, TrackLayout, find_tail, raw_for_extras, walk,
};
use crate::games::anvil::container::object::{Generation, Object, class};
use crate::io::bytes::Cursor;
use crate::model::{Clip, ClipId, Warning, WarningKind};

static ID_DIFFERS: WarningKind = WarningKind {
    code: "anvil-id-differs",
    text: "the object calls itself {object:X}, its directory {directory:X}",
};
static WORD_28: WarningKind = WarningKind {
    code: "anvil-word-28",
    text: "the word at offset 28 is {word:04X}, not 0: the clip may be additive (deltas, not poses)",
};

/// The game's name in extras and manifest.
pub const GAME: &str = "SWS";

/// Decodes an Animation.
///
/// Body, little-endian, from the table's first byte (docs/formats/anvil.md, section 4.5; readings marked D
/// are inferred):
///
/// | Offset | Size | Type | Field | Unit | Source |
/// |---|---|---|---|---|---|
/// | 0x0 | 3 | u8[3] | 02 00 00 | | anvil.md 4.5 |
/// | 0x3 | 4 | u32 | row count k | | anvil.md 4.5 |
/// | 0x7 | 12k | rows | what the allocator must make room for: class id, u16 0, u16, u32 | | anvil.md 4.5 |
/// | 7+12k | 1 | u8 | managed, 1 | | anvil.md 4.5 |
/// | 8+12k | 4 | u32 | id, the directory's | | anvil.md 4.5 |
/// | 12+12k | 4 | u32 | class 0FA3067F | | anvil.md 4.5 |
/// | 16+12k | 4 | f32 | length | s | anvil.md 4.5 |
/// | 20+12k | 4 | u32 | layout word: clips that share it share their mappings | | anvil.md 4.5 |
/// | 24+12k | 4 | u32 | not known (D: count of TeleportAtTime) | | anvil.md 4.5 |
/// | 28+12k | 2 | u16 | not known (D: Additive, AdditiveWithAlwaysMatchBlendLength) | | anvil.md 4.5 |
/// | 30+12k | 4 | u32 | not known, often id + 3 | | anvil.md 4.5 |
/// | 34+12k | 4 | u32 | event count | | anvil.md 4.5 |
/// | 38+12k | E | objects | AnimTrackEvents, not decoded | | anvil.md 4.5 |
/// | 38+12k+E | 4 | u32 | not known | | anvil.md 4.5 |
/// | 42+12k+E | 9 | u8 0, u32, u32 | AnimTrackData: tag, id, class 0181EFE8 | | anvil.md 4.5 |
/// | 51+12k+E | 4 | u32 | layout word again | | anvil.md 4.5 |
/// | 55+12k+E | 4 + 12n | u32, mappings | u32 id, class 653CAA76, u32 CRC-32 of the bone's name, 0 the root's motion | | anvil.md 4.5 |
/// | 59+12k+E+12n | 2 | u16 | not known | | anvil.md 4.5 |
/// | 61+12k+E+12n | 4 | u32 | track count, equal to n | | anvil.md 4.5 |
/// | 65+12k+E+12n | | blocks | tracks, one for each mapping, in order; they end the object | | anvil.md 4.5 |
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
    if object.generation != Generation::Ids32 || object.class != class::ANIMATION {
        return Err(Error::malformed(
            object.body_offset,
            format_args!("class {:08X}, {:?}", object.class, object.generation),
            "an Animation (0FA3067F) with 32-bit ids",
        ));
    }
    let mut c = Cursor::new(object.body, object.body_offset);
    let table = c.array::<3>("the table's first bytes")?;
    if table != [2, 0, 0] {
        return Err(Error::malformed(
            c.offset() - 3,
            format_args!("{:02X} {:02X} {:02X}", table[0], table[1], table[2]),
            "02 00 00",
        ));
    }
    let row_count = c.u32("row count")?;
    let rows = c.take_items(row_count as usize, 12, "the table's rows")?;
    let managed = c.u8("managed byte")?;
    let id = c.u32("id")?;
    let found = c.u32("class")?;
    if managed > 1 || found != class::ANIMATION {
        return Err(Error::malformed(
            c.offset() - 9,
            format_args!("managed byte {managed}, class {found:08X}"),
            "1 and 0FA3067F (Animation)",
        ));
    }
    let length = c.f32("length")?;
    if !length.is_finite() || length < 0.0 {
        return Err(Error::malformed(c.offset() - 4, format_args!("a length of {length} s"), "0 or more"));
    }
    let layout = c.u32("layout word")?;
    let unknown_24 = c.u32("the word at 24")?;
    let unknown_28 = c.u16("the word at 28")?;
    let unknown_30 = c.u32("the word at 30")?;
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

    let mut decoder = Decoder::new(TrackLayout::ShaunWhite, f64::from(length), tail.blocks.len());
    for (block, mapping) in tail.blocks.iter().zip(tail.mappings) {
        decoder.track(block, mapping_crc(mapping))?;
    }
    let census = &mut decoder.census;
    census.events += u64::from(event_count);
    census.with_events += u64::from(event_count > 0);
    census.anomalies.layout_word_differs += u64::from(tail.layout != layout);

    let mut warnings = decoder.warnings();
    warnings.extend(ambiguous_tail);
    let game_id = if object.id == 0 { u64::from(id) } else { object.id };
    if game_id != u64::from(id) {
        warnings.push(Warning::new(&ID_DIFFERS).with("object", id).with("directory", game_id));
    }
    if unknown_28 != 0 {
        warnings.push(Warning::new(&WORD_28).with("word", unknown_28));
    }
    let hex32 = |v: u32| Value::from(format!("{v:08X}"));
    let mut extras = Map::new();
    let mut put = |key: &str, value: Value| {
        extras.insert(key.into(), value);
    };
    put("layoutWord", hex32(layout));
    if tail.layout != layout {
        put("layoutWordOfTrackData", hex32(tail.layout));
    }
    put("eventCount", event_count.into());
    if !events.is_empty() {
        put("eventByteLength", events.len().into());
        put("eventBytes", raw_for_extras(events));
    }
    if !rows.is_empty() {
        put("allocatorRows", raw_for_extras(rows));
    }
    put("unknown30", hex32(unknown_30));
    for (key, value) in [
        ("unknown24", unknown_24),
        ("unknown28", unknown_28.into()),
        ("unknownBeforeTrackData", tail.unknown_before),
        ("animTrackDataId", tail.id),
        ("unknownAfterMappings", tail.unknown_after.into()),
    ] {
        if value != 0 {
            put(key, hex32(value));
        }
    }

    let clip = Clip {
        id: ClipId { value: game_id, min_digits: 1 },
        name: object.name.clone(),
        short_name: object.name.clone(),
        game: GAME,
        source: source.to_owned(),
        length_s: f64::from(length),
        additive: false,
        timelines: decoder.timelines,
        tracks: decoder.tracks,
        events: Vec::new(),
        extras,
        warnings,
    };
    Ok((clip, decoder.census))
}

/// Bytes of a mapping: u32 id, class, bone.
const MAPPING: usize = 12;

fn mapping_crc(mapping: &[u8; MAPPING]) -> u32 {
    u32::from_le_bytes([mapping[8], mapping[9], mapping[10], mapping[11]])
}

/// The tail: everything from the word before AnimTrackData to the end of the body.
struct Tail<'a> {
    unknown_before: u32,
    id: u32,
    layout: u32,
    mappings: &'a [[u8; MAPPING]],
    unknown_after: u16,
    blocks: Vec<Block<'a>>,
}

fn read_tail<'a>(object: &Object<'a>, at: usize) -> Result<Tail<'a>> {
    let mut c = Cursor::new(object.body, object.body_offset);
    c.seek(at, "AnimTrackData")?;
    let unknown_before = c.u32("the word before AnimTrackData")?;
    let tag = c.u8("AnimTrackData tag")?;
    let id = c.u32("AnimTrackData id")?;
    let found = c.u32("AnimTrackData class")?;
    if tag != 0 || found != class::ANIM_TRACK_DATA {
        return Err(Error::malformed(
            object.body_offset + at as u64 + 4,
            format_args!("tag {tag}, class {found:08X}"),
            "AnimTrackData: tag 0, u32 id, class 0181EFE8",
        ));
    }
    let layout = c.u32("layout word")?;
    let count = c.u32("mapping count")?;
    let mappings_at = c.offset();
    let (mappings, _) = c.take_items(count as usize, MAPPING, "mappings")?.as_chunks::<MAPPING>();
    let expected = class::ANIM_TRACK_DATA_MAPPING.to_le_bytes();
    if let Some(i) = mappings.iter().position(|m| m[4..8] != expected) {
        let m = &mappings[i];
        return Err(Error::malformed(
            mappings_at + (i * MAPPING) as u64 + 4,
            format_args!("class {:08X} of mapping {i}", u32::from_le_bytes([m[4], m[5], m[6], m[7]])),
            "653CAA76 (AnimTrackDataMapping)",
        ));
    }
    let unknown_after = c.u16("the word after the mappings")?;
    let tracks = c.u32("track count")?;
    if tracks != count {
        return Err(Error::malformed(
            c.offset() - 4,
            format_args!("{tracks} tracks"),
            format_args!("one for each of the {count} mappings"),
        ));
    }
    let blocks = walk(&mut c, tracks, TrackLayout::ShaunWhite)?;
    c.expect_end("the last track")?;
    Ok(Tail { unknown_before, id, layout, mappings, unknown_after, blocks })
}
