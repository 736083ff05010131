//! Clip dictionaries in CodeWalker's XML form (.ycd.xml): the same records as of the binary, with the values of
//! the channels in the open (docs/formats/rage.md, section 11).
//!
//! ```text
//! ClipDictionary
//!   Clips / Item
//!     Hash, Name (text)  Type @value: Animation | AnimationList  Unknown30 @value
//!     Tags / Item: as a property, with StartPhase, EndPhase @value
//!     Properties / Item: NameHash, UnkHash (text)
//!       Attributes / Item: NameHash (text)  Type @value  Value
//!     Animation: AnimationHash (text)  StartTime, EndTime, Rate @value
//!     AnimationList: Duration @value  Animations / Item: as above
//!   Animations / Item
//!     Hash (text)  Unknown10, FrameCount, SequenceFrameLimit, Duration @value  Unknown1C (text)
//!     BoneIds / Item: BoneId, Track, Unk0 (in newer tools Type) @value
//!     Sequences / Item: Hash (text)  FrameCount @value
//!       SequenceData / Item, one a bone id / Channels / Item: Type @value, then
//!         StaticQuaternion: Value @x y z w    StaticVector3: Value @x y z    StaticFloat: Value @value
//!         RawFloat, QuantizeFloat, LinearFloat: Values (text, decoded)
//!         IndirectQuantizeFloat: Values (text, decoded)  Frames (text, indices into them)
//!         CachedQuaternion1, CachedQuaternion2: QuatIndex @value
//! ```
//!
//! Hashes are text: a name, or `hash_XXXXXXXX`. Component channels of a track stand in the order x, y, z, w,
//! without the one that a cached quaternion makes.

use glam::DQuat;

use crate::error::{Error, Result};
use crate::games::rage::names::hash_of_text;
use crate::games::rage::xml::tree::{Element, Xml};
use crate::games::rage::ycd::dictionary::{
    Animation, Attribute, AttributeValue, ClipProperty, ClipRecord, ClipTag, Dictionary, Part, TrackFormat,
    TrackId,
};
use crate::games::rage::ycd::sequence::{Channel, Coding, Sequence};

/// Chunk size of the blocks; the XML has no channels that need it.
const CHUNK: u8 = 255;

/// Whether the text begins like this form: its first element is a `ClipDictionary`.
pub fn probe(start: &[u8]) -> bool {
    let mut rest = start.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(start).trim_ascii_start();
    while rest.starts_with(b"<?") || rest.starts_with(b"<!") {
        let Some(end) = rest.iter().position(|b| *b == b'>') else { return false };
        rest = rest[end + 1..].trim_ascii_start();
    }
    rest.starts_with(b"<ClipDictionary")
}

/// Reads the records of a dictionary.
///
/// # Errors
/// Malformed, with the offset in the text, where the form is none. Damage inside a clip or an animation goes to
/// [`Dictionary::errors`].
pub fn read(bytes: &[u8]) -> Result<Dictionary<'static>> {
    let xml = Xml::parse(bytes)?;
    let root = xml.root();
    if root.name() != "ClipDictionary" {
        return Err(Error::malformed(root.offset(), format_args!("<{}>", root.name()), "<ClipDictionary>"));
    }
    let mut dictionary = Dictionary::default();
    for item in root.items("Animations") {
        let hash = hash_of_text(&item.child_text("Hash")?);
        match animation(item, hash) {
            Ok(animation) => dictionary.animations.push(animation),
            Err(e) => dictionary.errors.push((hash, e.in_entry(format!("animation {hash:08X}")))),
        }
    }
    for item in root.items("Clips") {
        let hash = hash_of_text(&item.child_text("Hash")?);
        match clip(item, hash) {
            Ok(clip) => dictionary.clips.push(clip),
            Err(e) => dictionary.errors.push((hash, e.in_entry(format!("clip {hash:08X}")))),
        }
    }
    Ok(dictionary)
}

fn animation(item: Element, hash: u32) -> Result<Animation<'static>> {
    let frames: u16 = item.value("FrameCount")?;
    let duration_s: f32 = item.value("Duration")?;
    if frames == 0 {
        return Err(item.bad("0 frames", "at least 1"));
    }
    if !(duration_s.is_finite() && duration_s >= 0.0) {
        return Err(item.bad(format_args!("a duration of {duration_s}"), "seconds, 0 or more"));
    }
    let mut tracks = Vec::new();
    for id in item.items("BoneIds") {
        let format = match id.child("Unk0").or_else(|| id.child("Type")) {
            Some(format) => format.number("value")?,
            None => return Err(id.bad("no track format", "an <Unk0>")),
        };
        let format = match format {
            0_u8 => TrackFormat::Vector3,
            1 => TrackFormat::Quaternion,
            2 => TrackFormat::Float,
            other => {
                return Err(id.bad(format_args!("track format {other}"), "0 vector, 1 quaternion or 2 float"));
            }
        };
        tracks.push(TrackId { bone: id.value("BoneId")?, format, track: id.value("Track")? });
    }
    if tracks.len() > usize::from(u16::MAX >> 2) + 1 {
        return Err(item.bad(format_args!("{} tracks", tracks.len()), "at most 16384"));
    }
    let sequences = item
        .items("Sequences")
        .enumerate()
        .map(|(i, s)| sequence(s, tracks.len()).map_err(|e| e.in_entry(format!("sequence {i}"))))
        .collect::<Result<_>>()?;
    Ok(Animation {
        at: item.offset(),
        hash,
        flags: item.value_or("Unknown10", 0)?,
        frames,
        sequence_frame_limit: item.value("SequenceFrameLimit")?,
        duration_s,
        signature: hash_of_text(&item.child_text("Unknown1C")?),
        tracks,
        sequences,
    })
}

fn sequence(item: Element, tracks: usize) -> Result<Sequence<'static>> {
    let frames: u16 = item.value("FrameCount")?;
    if frames == 0 {
        return Err(item.bad("a block of 0 frames", "at least 1"));
    }
    let mut channels = Vec::new();
    for (track, data) in item.items("SequenceData").enumerate() {
        if track >= tracks {
            return Err(data.bad(format_args!("channels of track {track}"), format_args!("{tracks} tracks")));
        }
        let mut component = 0_u8;
        for channel in data.items("Channels") {
            let coding = coding(channel, usize::from(frames))?;
            let slot = match &coding {
                Coding::CachedQuaternion1 | Coding::CachedQuaternion2 => match channel.value("QuatIndex")? {
                    index @ 0..=3 => index,
                    other => return Err(channel.bad(format_args!("component {other}"), "0 to 3")),
                },
                Coding::StaticQuaternion(_) | Coding::StaticVector3(_) => 0,
                _ if component > 3 => return Err(channel.bad("a fifth component", "at most four")),
                _ => {
                    component += 1;
                    component - 1
                }
            };
            channels.push(Channel { track: track as u16, slot, coding });
        }
    }
    Ok(Sequence {
        at: item.offset(),
        signature: hash_of_text(&item.child_text("Hash")?),
        frames,
        chunk: CHUNK,
        channels,
        records: &[],
        record_size: 0,
        wrapped_counts: false,
    })
}

fn coding(channel: Element, frames: usize) -> Result<Coding<'static>> {
    let kind = channel.need("Type")?;
    let kind = kind.attribute("value")?.unwrap_or_default();
    Ok(match kind.as_ref() {
        "StaticQuaternion" => {
            Coding::StaticQuaternion(static_quaternion(channel.need("Value")?.numbers(["x", "y", "z", "w"])?))
        }
        "StaticVector3" => Coding::StaticVector3(channel.need("Value")?.numbers(["x", "y", "z"])?),
        "StaticFloat" => Coding::StaticFloat(channel.value("Value")?),
        "RawFloat" | "QuantizeFloat" | "LinearFloat" => {
            let mut values = list(channel, "Values")?;
            if values.is_empty() {
                values.push(channel.value_or("Offset", 0.0)?);
            }
            Coding::Values(values)
        }
        "IndirectQuantizeFloat" => {
            let table: Vec<f32> = list(channel, "Values")?;
            let indices: Vec<usize> = list(channel, "Frames")?;
            let mut values = Vec::with_capacity(indices.len().min(frames));
            for index in indices {
                let value = table.get(index).ok_or_else(|| {
                    channel
                        .bad(format_args!("index {index}"), format_args!("one of the {} values", table.len()))
                })?;
                values.push(*value);
            }
            if values.is_empty() {
                values.push(channel.value_or("Offset", 0.0)?);
            }
            Coding::Values(values)
        }
        "CachedQuaternion1" | "ReconstructQuaternion" => Coding::CachedQuaternion1,
        "CachedQuaternion2" | "NormalizeQuaternion" => Coding::CachedQuaternion2,
        other => return Err(channel.bad(format_args!("channel type \"{other}\""), "a known one")),
    })
}

/// The x, y and z that a static quaternion of a binary file holds. Its w is the positive root, so a rotation
/// with a negative w is held by its opposite, which is the same rotation.
fn static_quaternion([x, y, z, w]: [f32; 4]) -> [f32; 3] {
    let root = (1.0 - (x * x + y * y + z * z)).max(0.0).sqrt();
    if (root - w).abs() < 1e-3 {
        return [x, y, z];
    }
    if (root + w).abs() < 1e-3 {
        return [-x, -y, -z];
    }
    let q = DQuat::from_xyzw(x.into(), y.into(), z.into(), w.into());
    let q = if q.length_squared() > 0.0 { q.normalize() } else { q };
    let q = if q.w < 0.0 { -q } else { q };
    [q.x as f32, q.y as f32, q.z as f32]
}

/// Numbers with white space between.
fn list<T: std::str::FromStr>(channel: Element, name: &str) -> Result<Vec<T>> {
    let Some(element) = channel.child(name) else { return Ok(Vec::new()) };
    let text = element.text()?;
    let mut out = Vec::new();
    for word in text.split_ascii_whitespace() {
        out.push(word.parse().map_err(|_| {
            element.bad(format_args!("\"{word}\" as number {}", out.len()), std::any::type_name::<T>())
        })?);
    }
    Ok(out)
}

fn clip(item: Element, hash: u32) -> Result<ClipRecord> {
    let kind = item.need("Type")?;
    let kind = kind.attribute("value")?.unwrap_or_default();
    let list = match kind.as_ref() {
        "Animation" => false,
        "AnimationList" => true,
        other => {
            return Err(item.bad(format_args!("clip type \"{other}\""), "Animation or AnimationList"));
        }
    };
    let part = |item: Element| -> Result<Part> {
        Ok(Part {
            animation: hash_of_text(&item.child_text("AnimationHash")?),
            start_s: item.value("StartTime")?,
            end_s: item.value("EndTime")?,
            rate: item.value("Rate")?,
        })
    };
    let parts =
        if list { item.items("Animations").map(part).collect::<Result<_>>()? } else { vec![part(item)?] };
    let name = item.child_text("Name")?;
    let mut tags = Vec::new();
    for tag in item.items("Tags") {
        tags.push(ClipTag {
            property: property(tag)?,
            start_phase: tag.value("StartPhase")?,
            end_phase: tag.value("EndPhase")?,
        });
    }
    Ok(ClipRecord {
        hash,
        name: if name.is_empty() { format!("hash_{hash:08X}") } else { name.into_owned() },
        list,
        unknown_30: item.value_or("Unknown30", 0)?,
        parts,
        duration_s: if list { Some(item.value("Duration")?) } else { None },
        tags,
        properties: item.items("Properties").map(property).collect::<Result<_>>()?,
    })
}

fn property(item: Element) -> Result<ClipProperty> {
    Ok(ClipProperty {
        name: hash_of_text(&item.child_text("NameHash")?),
        unknown_hash: hash_of_text(&item.child_text("UnkHash")?),
        attributes: item.items("Attributes").map(attribute).collect::<Result<_>>()?,
    })
}

fn attribute(item: Element) -> Result<Attribute> {
    let kind = item.need("Type")?;
    let kind = kind.attribute("value")?.unwrap_or_default();
    let value = match kind.as_ref() {
        "Float" => AttributeValue::Float(item.value("Value")?),
        "Int" => AttributeValue::Int(item.value("Value")?),
        "Bool" => {
            let value = item.need("Value")?;
            let text = value.attribute("value")?.unwrap_or_default();
            match text.trim() {
                "true" | "True" => AttributeValue::Bool(true),
                "false" | "False" => AttributeValue::Bool(false),
                _ => AttributeValue::Bool(value.number::<u32>("value")? != 0),
            }
        }
        "String" => AttributeValue::String(item.child_text("Value")?.into_owned()),
        "Vector3" => {
            let [x, y, z] = item.need("Value")?.numbers(["x", "y", "z"])?;
            AttributeValue::Vector3([x, y, z, item.value_or("Unknown2C", 0.0)?])
        }
        "Vector4" => AttributeValue::Vector4(item.need("Value")?.numbers(["x", "y", "z", "w"])?),
        "HashString" => AttributeValue::HashString(hash_of_text(&item.child_text("Value")?)),
        other => return Err(item.bad(format_args!("attribute type \"{other}\""), "a known one")),
    };
    Ok(Attribute { name: hash_of_text(&item.child_text("NameHash")?), value })
}
