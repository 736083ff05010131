//! Clip dictionaries to CodeWalker's XML form (.ycd.xml), so that people can go on in Sollumz. The form is the
//! one over [`crate::games::rage::xml::read`].
//!
//! Values are written with the fewest digits that give the same f32 back. Channels keep their type but for
//! linear ones, which the form calls `QuantizeFloat` (as CodeWalker does).

use std::collections::HashMap;
use std::fmt::{Display, Write};

use crate::error::Result;
use crate::games::rage::names as rage;
use crate::games::rage::ycd::bits::bits_at;
use crate::games::rage::ycd::dictionary::{
    Animation, AttributeValue, ClipProperty, ClipRecord, Dictionary, Part, TrackFormat,
};
use crate::games::rage::ycd::sequence::{Channel, Coding, Sequence};

/// Values in a line of a list.
const PER_LINE: usize = 10;

/// Writes the records of a dictionary. The second value says what the form cannot hold, one sentence each.
///
/// # Errors
/// Malformed where a channel cannot be decoded.
pub fn write(dictionary: &Dictionary<'_>) -> Result<(String, Vec<String>)> {
    let mut out = Writer::default();
    for clip in &dictionary.clips {
        let name = clip.short_name().to_ascii_lowercase();
        if rage::hash_of_text(&name) == clip.hash && is_plain(&name) {
            out.names.insert(clip.hash, name);
        }
    }
    out.text.push_str("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    out.open("ClipDictionary");
    out.list("Clips", &dictionary.clips, |out, clip| {
        out.clip(clip);
        Ok(())
    })?;
    out.list("Animations", &dictionary.animations, |out, animation| {
        out.animation(animation).map_err(|e| e.in_entry(format!("animation {:08X}", animation.hash)))
    })?;
    out.close("ClipDictionary");
    Ok((out.text, out.notes))
}

/// Whether the text can stand for a hash: it is not taken for a number, and XML changes nothing of it.
fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with("hash_")
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_@-^+!.".contains(&b))
}

/// An f32 with the fewest digits that give it back, in the words that XML readers know.
struct Number(f32);

impl Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let v = self.0;
        match v.abs() {
            m if m.is_nan() => f.write_str("NaN"),
            f32::INFINITY => f.write_str(if v > 0.0 { "Infinity" } else { "-Infinity" }),
            m if m != 0.0 && !(1e-5..1e9).contains(&m) => write!(f, "{v:E}"),
            _ => write!(f, "{v}"),
        }
    }
}

#[derive(Default)]
struct Writer {
    text: String,
    notes: Vec<String>,
    depth: usize,
    /// Names by hash, from the names of the clips.
    names: HashMap<u32, String>,
}

impl Writer {
    /// Appends a line. Writing to a string does not fail.
    fn line(&mut self, arguments: std::fmt::Arguments<'_>) {
        self.text.extend(std::iter::repeat_n(' ', self.depth));
        let _ = self.text.write_fmt(arguments);
        self.text.push('\n');
    }

    fn open(&mut self, tag: &str) {
        self.line(format_args!("<{tag}>"));
        self.depth += 1;
    }

    fn close(&mut self, tag: &str) {
        self.depth -= 1;
        self.line(format_args!("</{tag}>"));
    }

    fn value(&mut self, tag: &str, value: impl Display) {
        self.line(format_args!("<{tag} value=\"{value}\" />"));
    }

    fn float(&mut self, tag: &str, value: f32) {
        self.value(tag, Number(value));
    }

    fn vector(&mut self, tag: &str, values: &[f32]) {
        let axes: String = values
            .iter()
            .zip(["x", "y", "z", "w"])
            .map(|(v, a)| format!(" {a}=\"{}\"", Number(*v)))
            .collect();
        self.line(format_args!("<{tag}{axes} />"));
    }

    fn string(&mut self, tag: &str, text: &str) {
        // XML has no control characters.
        let clean: String = text.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        if clean != text {
            self.notes.push(format!("control characters in \"{}\" are written as ?", text.escape_debug()));
        }
        self.line(format_args!("<{tag}>{}</{tag}>", quick_xml::escape::partial_escape(clean.as_str())));
    }

    fn hash(&mut self, tag: &str, hash: u32) {
        let text = match self.names.get(&hash) {
            Some(name) => name.clone(),
            None => rage::hash_text(hash),
        };
        self.line(format_args!("<{tag}>{text}</{tag}>"));
    }

    fn list<T>(
        &mut self,
        tag: &str,
        items: &[T],
        mut each: impl FnMut(&mut Self, &T) -> Result<()>,
    ) -> Result<()> {
        if items.is_empty() {
            self.line(format_args!("<{tag} />"));
            return Ok(());
        }
        self.open(tag);
        for item in items {
            self.open("Item");
            each(self, item)?;
            self.close("Item");
        }
        self.close(tag);
        Ok(())
    }

    fn numbers(&mut self, tag: &str, values: impl Iterator<Item = impl Display>) {
        self.open(tag);
        for (i, value) in values.enumerate() {
            match i % PER_LINE {
                0 if i == 0 => self.text.extend(std::iter::repeat_n(' ', self.depth)),
                0 => {
                    self.text.push('\n');
                    self.text.extend(std::iter::repeat_n(' ', self.depth));
                }
                _ => self.text.push(' '),
            }
            let _ = write!(self.text, "{value}");
        }
        self.text.push('\n');
        self.close(tag);
    }

    fn clip(&mut self, clip: &ClipRecord) {
        self.hash("Hash", clip.hash);
        self.string("Name", &clip.name);
        self.value("Type", if clip.list { "AnimationList" } else { "Animation" });
        self.value("Unknown30", clip.unknown_30);
        // These lists cannot fail.
        let _ = self.list("Tags", &clip.tags, |out, tag| {
            out.property(&tag.property);
            out.float("StartPhase", tag.start_phase);
            out.float("EndPhase", tag.end_phase);
            Ok(())
        });
        let _ = self.list("Properties", &clip.properties, |out, property| {
            out.property(property);
            Ok(())
        });
        match (clip.list, clip.parts.first()) {
            (true, _) => {
                self.float("Duration", clip.duration_s.unwrap_or_default());
                let _ = self.list("Animations", &clip.parts, |out, part| {
                    out.part(part);
                    Ok(())
                });
            }
            (false, Some(part)) => self.part(part),
            (false, None) => {}
        }
    }

    fn part(&mut self, part: &Part) {
        self.hash("AnimationHash", part.animation);
        self.float("StartTime", part.start_s);
        self.float("EndTime", part.end_s);
        self.float("Rate", part.rate);
    }

    fn property(&mut self, property: &ClipProperty) {
        self.hash("NameHash", property.name);
        self.hash("UnkHash", property.unknown_hash);
        let known: Vec<_> =
            property.attributes.iter().filter(|a| !matches!(a.value, AttributeValue::Raw(..))).collect();
        if known.len() < property.attributes.len() {
            self.notes.push(format!(
                "{} attributes of {} have a type that the form does not know: left out",
                property.attributes.len() - known.len(),
                rage::hash_text(property.name)
            ));
        }
        let _ = self.list("Attributes", &known, |out, attribute| {
            out.hash("NameHash", attribute.name);
            match &attribute.value {
                AttributeValue::Float(v) => {
                    out.value("Type", "Float");
                    out.float("Value", *v);
                }
                AttributeValue::Int(v) => {
                    out.value("Type", "Int");
                    out.value("Value", v);
                }
                AttributeValue::Bool(v) => {
                    out.value("Type", "Bool");
                    out.value("Value", u8::from(*v));
                }
                AttributeValue::String(v) => {
                    out.value("Type", "String");
                    out.string("Value", v);
                }
                AttributeValue::Vector3(v) => {
                    out.value("Type", "Vector3");
                    out.vector("Value", &v[..3]);
                    out.float("Unknown2C", v[3]);
                }
                AttributeValue::Vector4(v) => {
                    out.value("Type", "Vector4");
                    out.vector("Value", v);
                }
                AttributeValue::HashString(v) => {
                    out.value("Type", "HashString");
                    out.hash("Value", *v);
                }
                AttributeValue::Raw(..) => {}
            }
            Ok(())
        });
    }

    fn animation(&mut self, animation: &Animation<'_>) -> Result<()> {
        self.hash("Hash", animation.hash);
        self.value("Unknown10", animation.flags);
        self.value("FrameCount", animation.frames);
        self.value("SequenceFrameLimit", animation.sequence_frame_limit);
        self.float("Duration", animation.duration_s);
        self.hash("Unknown1C", animation.signature);
        self.list("BoneIds", &animation.tracks, |out, track| {
            out.value("BoneId", track.bone);
            out.value("Track", track.track);
            out.value(
                "Unk0",
                match track.format {
                    TrackFormat::Vector3 => 0,
                    TrackFormat::Quaternion => 1,
                    TrackFormat::Float => 2,
                },
            );
            Ok(())
        })?;
        self.list("Sequences", &animation.sequences, |out, sequence| {
            out.sequence(sequence, animation.tracks.len())
        })
    }

    fn sequence(&mut self, sequence: &Sequence<'_>, tracks: usize) -> Result<()> {
        self.hash("Hash", sequence.signature);
        self.value("FrameCount", sequence.frames);
        let mut by_track: Vec<Vec<&Channel>> = vec![Vec::new(); tracks];
        for channel in &sequence.channels {
            if let Some(list) = by_track.get_mut(usize::from(channel.track)) {
                list.push(channel);
            }
        }
        let mut values = vec![0.0; usize::from(sequence.frames)];
        for channels in &mut by_track {
            // Components in their order, cached quaternions after them.
            channels.sort_by_key(|c| match c.coding {
                Coding::CachedQuaternion1 => (1, 0),
                Coding::CachedQuaternion2 => (2, 0),
                _ => (0, c.slot),
            });
        }
        self.list("SequenceData", &by_track, |out, channels| {
            out.list("Channels", channels, |out, channel| out.channel(sequence, channel, &mut values))
        })
    }

    fn channel(&mut self, sequence: &Sequence<'_>, channel: &Channel<'_>, values: &mut [f32]) -> Result<()> {
        match &channel.coding {
            Coding::StaticQuaternion(v) => {
                let [x, y, z] = *v;
                let w = (1.0 - (x * x + y * y + z * z)).max(0.0).sqrt();
                self.value("Type", "StaticQuaternion");
                self.vector("Value", &[x, y, z, w]);
            }
            Coding::StaticVector3(v) => {
                self.value("Type", "StaticVector3");
                self.vector("Value", v);
            }
            Coding::StaticFloat(v) => {
                self.value("Type", "StaticFloat");
                self.float("Value", *v);
            }
            Coding::RawFloat { .. } | Coding::Values(_) => {
                self.value("Type", "RawFloat");
                sequence.column(channel, values)?;
                self.numbers("Values", values.iter().map(|v| Number(*v)));
            }
            Coding::Quantised { quantum, offset, .. } => {
                sequence.column(channel, values)?;
                self.quantised(*quantum, *offset, values);
            }
            Coding::Linear { quantum, offset, .. } => {
                sequence.column(channel, values)?;
                // Tools make unsigned integers of the values again: none may lie below the offset.
                let least = values.iter().copied().fold(*offset, f32::min);
                self.quantised(*quantum, if *quantum > 0.0 { least } else { *offset }, values);
            }
            Coding::Indirect { bit, index_bits, value_bits, quantum, offset, table } => {
                // Proves that every index is in the table.
                sequence.column(channel, values)?;
                let stride = sequence.record_size * 8;
                let indices: Vec<u32> = (0..values.len())
                    .map(|i| bits_at(sequence.records, i * stride + *bit as usize, *index_bits))
                    .collect();
                // The table ends on a whole word: entries that no index can mean are its padding.
                let stored = (table.len() * 8).checked_div(*value_bits as usize).unwrap_or(usize::MAX);
                let meant = (1_usize << (*index_bits).min(31)) - 1;
                let used = indices.iter().max().map_or(0, |n| *n as usize + 1);
                self.value("Type", "IndirectQuantizeFloat");
                self.float("Quantum", *quantum);
                self.float("Offset", *offset);
                let entry = |i: usize| {
                    let n = bits_at(table, i * *value_bits as usize, *value_bits);
                    Number(n as f32 * quantum + offset)
                };
                self.numbers("Values", (0..stored.min(meant).min(MAX_TABLE).max(used)).map(entry));
                self.numbers("Frames", indices.iter());
            }
            Coding::CachedQuaternion1 => {
                self.value("Type", "CachedQuaternion1");
                self.value("QuatIndex", channel.slot);
            }
            Coding::CachedQuaternion2 => {
                self.value("Type", "CachedQuaternion2");
                self.value("QuatIndex", channel.slot);
            }
        }
        Ok(())
    }

    fn quantised(&mut self, quantum: f32, offset: f32, values: &[f32]) {
        self.value("Type", "QuantizeFloat");
        self.float("Quantum", quantum);
        self.float("Offset", offset);
        self.numbers("Values", values.iter().map(|v| Number(*v)));
    }
}

/// Entries of an indirect table that are written although no frame uses them; a block has 65535 frames at most.
const MAX_TABLE: usize = 1 << 16;
