//! The records of a dictionary: maps, clips, animations, tags, properties (docs/formats/rage.md,
//! sections 2 to 4).
//!
//! A pointer is a u64 ([`Resource::cursor`]). ClipDictionary, the root, 64 bytes:
//!
//! | Offset | Size | Type | Field | Source |
//! |---|---|---|---|---|
//! | 0x18 | 8 | pointer | animation map | rage.md 2 |
//! | 0x28 | 8 | pointer | clip buckets, u64 each | rage.md 2 |
//! | 0x30 | 2 | u16 | clip bucket count | rage.md 2 |
//! | 0x32 | 2 | u16 | clip count | rage.md 2 |
//!
//! Animation map, 48 bytes:
//!
//! | Offset | Size | Type | Field | Source |
//! |---|---|---|---|---|
//! | 0x18 | 8 | pointer | buckets, u64 each | rage.md 2 |
//! | 0x20 | 2 | u16 | bucket count | rage.md 2 |
//! | 0x22 | 2 | u16 | entry count | rage.md 2 |
//!
//! Map entry, 32 bytes:
//!
//! | Offset | Size | Type | Field | Source |
//! |---|---|---|---|---|
//! | 0x00 | 4 | u32 | hash | rage.md 2 |
//! | 0x08 | 8 | pointer | clip or animation | rage.md 2 |
//! | 0x10 | 8 | pointer | next entry of the bucket, 0 at the end | rage.md 2 |

use std::collections::HashSet;

use crate::error::{Error, Result};
use crate::games::rage::container::rsc7::{ROOT, Resource};
use crate::games::rage::ycd::sequence::Sequence;

/// What the values of a track are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TrackFormat {
    /// 0
    Vector3,
    /// 1
    Quaternion,
    /// 2
    Float,
}

/// What a track of an animation moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TrackId {
    /// Bone tag.
    pub bone: u16,
    /// Format, which must be obeyed before any table of track numbers.
    pub format: TrackFormat,
    /// Track number.
    pub track: u8,
}

/// An animation record (96 bytes) with its blocks.
///
/// | Offset | Size | Type | Field | Unit | Source |
/// |---|---|---|---|---|---|
/// | 0x10 | 1 | u8 | flags: 16 has a mover | | rage.md 4 |
/// | 0x14 | 2 | u16 | frames | frames | rage.md 4 |
/// | 0x16 | 2 | u16 | sequence frame limit | frames | rage.md 4 |
/// | 0x18 | 4 | f32 | duration | s | rage.md 4 |
/// | 0x1C | 4 | u32 | signature | | rage.md 4 |
/// | 0x40 | 8 | pointer | sequence pointers, u64 each | | rage.md 4 |
/// | 0x48 | 2 | u16 | their count | | rage.md 4 |
/// | 0x50 | 8 | pointer | track ids: u16 tag, u8 format, u8 track | | rage.md 4 |
/// | 0x58 | 2 | u16 | their count | | rage.md 4 |
#[derive(Debug, Clone, PartialEq)]
pub struct Animation<'a> {
    /// Pointer of its record, for errors.
    pub at: u64,
    /// Hash of its name, which is not stored.
    pub hash: u32,
    /// Flags.
    pub flags: u8,
    /// Frames, at least 1.
    pub frames: u16,
    /// Frames of a block, without the one that it shares with the next block.
    pub sequence_frame_limit: u16,
    /// Duration, seconds: the time of the last frame.
    pub duration_s: f32,
    /// Signature.
    pub signature: u32,
    /// Its tracks; channels point here by index.
    pub tracks: Vec<TrackId>,
    /// Blocks of frames.
    pub sequences: Vec<Sequence<'a>>,
}

/// The part of an animation that a clip plays.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Part {
    /// Hash of the animation.
    pub animation: u32,
    /// Begin, seconds of the animation.
    pub start_s: f32,
    /// End, seconds of the animation.
    pub end_s: f32,
    /// Seconds of the animation in a second of the clip.
    pub rate: f32,
}

/// A value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum AttributeValue {
    /// Type 1.
    Float(f32),
    /// Type 2.
    Int(i32),
    /// Type 3.
    Bool(bool),
    /// Type 4.
    String(String),
    /// Type 6: x, y, z and a fourth word.
    Vector3([f32; 4]),
    /// Type 8.
    Vector4([f32; 4]),
    /// Type 12.
    HashString(u32),
    /// Any other type: the 16 bytes of the value.
    Raw(u8, [u8; 16]),
}

/// A named value of a tag or a property.
#[derive(Debug, Clone, PartialEq)]
pub struct Attribute {
    /// Hash of its name.
    pub name: u32,
    /// Its value.
    pub value: AttributeValue,
}

/// A property of a clip.
#[derive(Debug, Clone, PartialEq)]
pub struct ClipProperty {
    /// Hash of its name.
    pub name: u32,
    /// The second hash that the record holds.
    pub unknown_hash: u32,
    /// Its values.
    pub attributes: Vec<Attribute>,
}

/// A property with a span of the clip.
#[derive(Debug, Clone, PartialEq)]
pub struct ClipTag {
    /// Name and values.
    pub property: ClipProperty,
    /// Begin, 0 to 1 of the clip.
    pub start_phase: f32,
    /// End, 0 to 1 of the clip.
    pub end_phase: f32,
}

/// A clip record, 112 bytes.
///
/// | Offset | Size | Type | Field | Unit | Source |
/// |---|---|---|---|---|---|
/// | 0x10 | 4 | u32 | 1 one animation, 2 a list (low byte) | | rage.md 3 |
/// | 0x18 | 8 | pointer | name | | rage.md 3 |
/// | 0x30 | 4 | u32 | unknown | | rage.md 3 |
/// | 0x38 | 8 | pointer | tag list | | rage.md 3 |
/// | 0x40 | 8 | pointer | property map | | rage.md 3 |
/// | 0x50 | 8 | pointer | type 1: animation; type 2: entries | | rage.md 3 |
/// | 0x58 | 12 | f32 x 3 | type 1: start, end, rate | s, s, 1 | rage.md 3 |
/// | 0x58 | 2 | u16 | type 2: entry count | | rage.md 3 |
/// | 0x60 | 4 | f32 | type 2: duration | s | rage.md 3 |
///
/// A list entry, 24 bytes:
///
/// | Offset | Size | Type | Field | Unit | Source |
/// |---|---|---|---|---|---|
/// | 0x00 | 12 | f32 x 3 | start, end, rate | s, s, 1 | rage.md 3 |
/// | 0x0C | 4 | u32 | 0 | | rage.md 3 |
/// | 0x10 | 8 | pointer | animation | | rage.md 3 |
#[derive(Debug, Clone, PartialEq)]
pub struct ClipRecord {
    /// Hash of its short name.
    pub hash: u32,
    /// The whole name.
    pub name: String,
    /// Whether it is a list (type 2).
    pub list: bool,
    /// Word 0x30.
    pub unknown_30: u32,
    /// What it plays.
    pub parts: Vec<Part>,
    /// Duration of a list, seconds.
    pub duration_s: Option<f32>,
    /// Tags.
    pub tags: Vec<ClipTag>,
    /// Properties.
    pub properties: Vec<ClipProperty>,
}

impl ClipRecord {
    /// The text after the last `/` or `\`, up to the first `.`: what the clip's hash is made of
    /// (docs/formats/rage.md, section 2).
    pub fn short_name(&self) -> &str {
        short_name(&self.name)
    }
}

/// See [`ClipRecord::short_name`]; the whole name where nothing would be left.
pub fn short_name(name: &str) -> &str {
    let file = name.rsplit(['/', '\\']).next().unwrap_or(name);
    match file.split('.').next() {
        Some(short) if !short.is_empty() => short,
        _ => name,
    }
}

/// The records of a dictionary. Those that could not be read are in `errors`.
#[derive(Debug, Default)]
pub struct Dictionary<'a> {
    /// Clips, in the order of the map.
    pub clips: Vec<ClipRecord>,
    /// Animations, in the order of the map.
    pub animations: Vec<Animation<'a>>,
    /// Animations and clips that are damaged: hash of the animation or clip, and why.
    pub errors: Vec<(u32, Error)>,
    /// Deviations, one sentence each.
    pub notes: Vec<String>,
}

/// An entry of a map.
struct Entry {
    hash: u32,
    /// Pointer to the payload.
    payload: u64,
    /// Where that pointer is stored.
    place: u64,
}

impl Entry {
    /// Names what the entry leads to in an error, and a place where the error has none.
    fn name(&self, what: &str, resource: &Resource<'_>, e: Error) -> Error {
        let place = if resource.tail(self.payload).is_ok() { self.payload } else { self.place };
        e.or_at(place).in_entry(format!("{what} {:08X}", self.hash))
    }
}

/// The entries of a map, bucket by bucket.
fn walk(
    resource: &Resource<'_>,
    buckets: u64,
    bucket_count: u16,
    entry_count: u16,
    what: &str,
    notes: &mut Vec<String>,
) -> Result<Vec<Entry>> {
    let heads = resource.items(buckets, usize::from(bucket_count), 8, what)?;
    let mut seen = HashSet::new();
    let mut entries = Vec::new();
    for (i, head) in heads.as_chunks::<8>().0.iter().enumerate() {
        let mut next = u64::from_le_bytes(*head);
        // Where the pointer that is followed is stored.
        let mut place = buckets + 8 * i as u64;
        while next != 0 {
            if !seen.insert(next) {
                return Err(Error::malformed(
                    next,
                    format_args!("an entry of the {what} map for the second time"),
                    "chains that end",
                ));
            }
            let mut entry = resource.cursor(next).map_err(|e| e.or_at(place))?;
            place = next + 0x10;
            let hash = entry.u32("map entry hash")?;
            entry.skip(4, "map entry")?;
            let payload = entry.u64("map entry payload")?;
            next = entry.u64("map entry chain")?;
            entries.push(Entry { hash, payload, place: next + 8 });
        }
    }
    if entries.len() != usize::from(entry_count) {
        notes.push(format!("the {what} map says {entry_count} entries and holds {}", entries.len()));
    }
    Ok(entries)
}

/// Reads all records of a dictionary.
///
/// # Errors
/// Where the root or a map is damaged, or the resource is of another version. Damage inside a clip or an
/// animation goes to [`Dictionary::errors`].
pub fn read<'a>(resource: &Resource<'a>) -> Result<Dictionary<'a>> {
    if let Some(version) = resource.version.filter(|v| *v != 46) {
        return Err(Error::unsupported(format!(
            "found resource version {version}{}, expected 46, a clip dictionary",
            match version {
                165 | 159 => " (a drawable)",
                162 | 171 => " (a fragment)",
                13 => " (a texture dictionary)",
                _ => "",
            }
        ))
        .at(4));
    }
    let mut dictionary = Dictionary { notes: resource.notes.clone(), ..Dictionary::default() };
    let mut root = resource.cursor(ROOT)?;
    root.skip(0x18, "clip dictionary")?;
    let animation_map = root.u64("animation map pointer")?;
    root.skip(8, "clip dictionary")?;
    let clip_buckets = root.u64("clip bucket pointer")?;
    let clip_bucket_count = root.u16("clip bucket count")?;
    let clip_count = root.u16("clip count")?;

    if animation_map != 0 {
        let mut map = resource.cursor(animation_map).map_err(|e| e.or_at(ROOT + 0x18))?;
        map.skip(0x18, "animation map")?;
        let buckets = map.u64("animation bucket pointer")?;
        let bucket_count = map.u16("animation bucket count")?;
        let entry_count = map.u16("animation count")?;
        let entries = walk(resource, buckets, bucket_count, entry_count, "animation", &mut dictionary.notes)
            .map_err(|e| e.or_at(animation_map + 0x18))?;
        let mut by_pointer = std::collections::HashMap::with_capacity(entries.len());
        for entry in &entries {
            by_pointer.entry(entry.payload).or_insert(entry.hash);
            match animation(resource, entry.payload, entry.hash) {
                Ok(animation) => dictionary.animations.push(animation),
                Err(e) => dictionary.errors.push((entry.hash, entry.name("animation", resource, e))),
            }
        }
        let clips =
            walk(resource, clip_buckets, clip_bucket_count, clip_count, "clip", &mut dictionary.notes)
                .map_err(|e| e.or_at(ROOT + 0x28))?;
        for entry in &clips {
            match clip(resource, entry.payload, entry.hash, &by_pointer) {
                Ok(clip) => dictionary.clips.push(clip),
                Err(e) => dictionary.errors.push((entry.hash, entry.name("clip", resource, e))),
            }
        }
    } else if clip_count > 0 {
        return Err(Error::malformed(ROOT + 0x18, "no animation map", "one, for the clips"));
    }
    Ok(dictionary)
}

fn animation<'a>(resource: &Resource<'a>, pointer: u64, hash: u32) -> Result<Animation<'a>> {
    let mut record = resource.cursor(pointer)?;
    record.skip(0x10, "animation")?;
    let flags = record.u8("animation flags")?;
    record.skip(3, "animation")?;
    let frames = record.u16("frame count")?;
    let sequence_frame_limit = record.u16("sequence frame limit")?;
    let duration_s = record.f32("duration")?;
    let signature = record.u32("signature")?;
    record.skip(0x20, "animation")?;
    let sequence_pointers = record.u64("sequence pointers")?;
    let sequence_count = record.u16("sequence count")?;
    record.skip(6, "animation")?;
    let track_pointer = record.u64("track ids")?;
    let track_count = record.u16("track count")?;
    if frames == 0 {
        return Err(Error::malformed(pointer + 0x14, "0 frames", "at least 1"));
    }
    if !(duration_s.is_finite() && duration_s >= 0.0) {
        return Err(Error::malformed(
            pointer + 0x18,
            format_args!("a duration of {duration_s}"),
            "seconds, 0 or more",
        ));
    }
    let mut tracks = Vec::with_capacity(usize::from(track_count));
    for (i, id) in resource
        .items(track_pointer, usize::from(track_count), 4, "track ids")?
        .as_chunks::<4>()
        .0
        .iter()
        .enumerate()
    {
        let [low, high, format, track] = *id;
        let format = match format {
            0 => TrackFormat::Vector3,
            1 => TrackFormat::Quaternion,
            2 => TrackFormat::Float,
            other => {
                return Err(Error::malformed(
                    track_pointer + 4 * i as u64 + 2,
                    format_args!("track format {other}"),
                    "0 vector, 1 quaternion or 2 float",
                ));
            }
        };
        tracks.push(TrackId { bone: u16::from_le_bytes([low, high]), format, track });
    }
    let pointers = resource.items(sequence_pointers, usize::from(sequence_count), 8, "sequence pointers")?;
    let mut sequences = Vec::with_capacity(usize::from(sequence_count));
    for (i, sequence) in pointers.as_chunks::<8>().0.iter().enumerate() {
        let at = u64::from_le_bytes(*sequence);
        let bytes = resource.tail(at)?;
        let mover = |track: u16| matches!(tracks[usize::from(track)].track, 5 | 6);
        let read = Sequence::read(bytes, at, tracks.len(), mover);
        sequences.push(read.map_err(|e| e.in_entry(format!("sequence {i}")))?);
    }
    Ok(Animation {
        at: pointer,
        hash,
        flags,
        frames,
        sequence_frame_limit,
        duration_s,
        signature,
        tracks,
        sequences,
    })
}

fn clip(
    resource: &Resource<'_>,
    pointer: u64,
    hash: u32,
    animations: &std::collections::HashMap<u64, u32>,
) -> Result<ClipRecord> {
    let mut record = resource.cursor(pointer)?;
    record.skip(0x10, "clip")?;
    let kind = record.u32("clip type")? as u8;
    record.skip(4, "clip")?;
    let name_pointer = record.u64("clip name pointer")?;
    record.skip(0x10, "clip")?;
    let unknown_30 = record.u32("clip word")?;
    record.skip(4, "clip")?;
    let tag_list = record.u64("tag list pointer")?;
    let property_map = record.u64("property map pointer")?;
    record.skip(8, "clip")?;
    let of = |pointer: u64, at: u64| {
        animations.get(&pointer).copied().ok_or_else(|| {
            Error::malformed(at, format_args!("pointer 0x{pointer:08X}"), "an animation of the dictionary")
        })
    };
    let mut parts = Vec::new();
    let mut duration_s = None;
    match kind {
        1 => {
            let animation = of(record.u64("animation pointer")?, pointer + 0x50)?;
            let start_s = record.f32("clip start")?;
            let end_s = record.f32("clip end")?;
            let rate = record.f32("clip rate")?;
            parts.push(Part { animation, start_s, end_s, rate });
        }
        2 => {
            let entries = record.u64("clip entries pointer")?;
            let count = usize::from(record.u16("clip entry count")?);
            record.skip(6, "clip")?;
            duration_s = Some(record.f32("clip duration")?);
            let bytes = resource.items(entries, count, 24, "clip entries")?;
            for i in 0..count {
                let at = entries + 24 * i as u64;
                let mut entry = crate::io::bytes::Cursor::new(&bytes[24 * i..24 * (i + 1)], at);
                let start_s = entry.f32("entry start")?;
                let end_s = entry.f32("entry end")?;
                let rate = entry.f32("entry rate")?;
                entry.skip(4, "entry")?;
                parts.push(Part {
                    animation: of(entry.u64("entry animation")?, at + 16)?,
                    start_s,
                    end_s,
                    rate,
                });
            }
        }
        other => {
            return Err(Error::malformed(
                pointer + 0x10,
                format_args!("clip type {other}"),
                "1 one animation or 2 a list",
            ));
        }
    }
    let name = match name_pointer {
        0 => format!("hash_{hash:08X}"),
        pointer => resource.string(pointer)?.into_owned(),
    };
    let tags = if tag_list == 0 { Vec::new() } else { tags(resource, tag_list)? };
    let properties = if property_map == 0 { Vec::new() } else { properties(resource, property_map)? };
    Ok(ClipRecord { hash, name, list: kind == 2, unknown_30, parts, duration_s, tags, properties })
}

/// A tag list (32 bytes) and its tags.
///
/// | Offset | Size | Type | Field of the list | Source |
/// |---|---|---|---|---|
/// | 0x00 | 8 | pointer | tag pointers, u64 each | rage.md 3 |
/// | 0x08 | 2 | u16 | count | rage.md 3 |
///
/// | Offset | Size | Type | Field of a tag | Unit | Source |
/// |---|---|---|---|---|---|
/// | 0x00 | 64 | property | see [`property`] | | rage.md 3 |
/// | 0x40 | 4 | f32 | start phase | 0 to 1 of the clip | rage.md 3 |
/// | 0x44 | 4 | f32 | end phase | 0 to 1 of the clip | rage.md 3 |
fn tags(resource: &Resource<'_>, pointer: u64) -> Result<Vec<ClipTag>> {
    let mut list = resource.cursor(pointer)?;
    let pointers = list.u64("tag pointers")?;
    let count = usize::from(list.u16("tag count")?);
    let mut out = Vec::with_capacity(count);
    for tag in resource.items(pointers, count, 8, "tag pointers")?.as_chunks::<8>().0 {
        let at = u64::from_le_bytes(*tag);
        if at == 0 {
            continue;
        }
        let mut phases = resource.cursor(at)?;
        phases.skip(64, "tag")?;
        out.push(ClipTag {
            property: property(resource, at)?,
            start_phase: phases.f32("tag start phase")?,
            end_phase: phases.f32("tag end phase")?,
        });
    }
    Ok(out)
}

/// A property map (16 bytes). Its entries are those of the clip map.
///
/// | Offset | Size | Type | Field | Source |
/// |---|---|---|---|---|
/// | 0x00 | 8 | pointer | buckets, u64 each | rage.md 3 |
/// | 0x08 | 2 | u16 | bucket count | rage.md 3 |
/// | 0x0A | 2 | u16 | entry count | rage.md 3 |
fn properties(resource: &Resource<'_>, pointer: u64) -> Result<Vec<ClipProperty>> {
    let mut map = resource.cursor(pointer)?;
    let buckets = map.u64("property buckets")?;
    let bucket_count = map.u16("property bucket count")?;
    let entry_count = map.u16("property count")?;
    walk(resource, buckets, bucket_count, entry_count, "property", &mut Vec::new())?
        .into_iter()
        .filter(|entry| entry.payload != 0)
        .map(|entry| property(resource, entry.payload).map_err(|e| e.or_at(entry.place)))
        .collect()
}

/// A property (64 bytes) and its attributes (48 bytes each).
///
/// | Offset | Size | Type | Field of a property | Source |
/// |---|---|---|---|---|
/// | 0x18 | 4 | u32 | name hash | rage.md 3 |
/// | 0x20 | 8 | pointer | attribute pointers, u64 each | rage.md 3 |
/// | 0x28 | 2 | u16 | count | rage.md 3 |
/// | 0x38 | 4 | u32 | second hash | rage.md 3 |
///
/// | Offset | Size | Type | Field of an attribute | Source |
/// |---|---|---|---|---|
/// | 0x08 | 1 | u8 | type, see [`AttributeValue`] | rage.md 3 |
/// | 0x18 | 4 | u32 | name hash | rage.md 3 |
/// | 0x20 | 16 | by type | value | rage.md 3 |
fn property(resource: &Resource<'_>, pointer: u64) -> Result<ClipProperty> {
    let mut record = resource.cursor(pointer)?;
    record.skip(0x18, "property")?;
    let name = record.u32("property name")?;
    record.skip(4, "property")?;
    let pointers = record.u64("attribute pointers")?;
    let count = usize::from(record.u16("attribute count")?);
    record.skip(0x0E, "property")?;
    let unknown_hash = record.u32("property hash")?;
    let mut attributes = Vec::with_capacity(count);
    for attribute in resource.items(pointers, count, 8, "attribute pointers")?.as_chunks::<8>().0 {
        let at = u64::from_le_bytes(*attribute);
        if at == 0 {
            continue;
        }
        let mut record = resource.cursor(at)?;
        record.skip(8, "attribute")?;
        let kind = record.u8("attribute type")?;
        record.skip(15, "attribute")?;
        let name = record.u32("attribute name")?;
        record.skip(4, "attribute")?;
        let bytes: [u8; 16] = record.array("attribute value")?;
        let [a, b, c, d] =
            [0, 4, 8, 12].map(|i| u32::from_le_bytes([bytes[i], bytes[i + 1], bytes[i + 2], bytes[i + 3]]));
        let floats = [a, b, c, d].map(f32::from_bits);
        let value = match kind {
            1 => AttributeValue::Float(floats[0]),
            2 => AttributeValue::Int(a as i32),
            3 => AttributeValue::Bool(a != 0),
            4 => AttributeValue::String(resource.string(u64::from(a) | u64::from(b) << 32)?.into_owned()),
            6 => AttributeValue::Vector3(floats),
            8 => AttributeValue::Vector4(floats),
            12 => AttributeValue::HashString(a),
            other => AttributeValue::Raw(other, bytes),
        };
        attributes.push(Attribute { name, value });
    }
    Ok(ClipProperty { name, unknown_hash, attributes })
}
