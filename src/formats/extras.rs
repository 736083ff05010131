//! The JSON object that goes with each animation: identity, events, and everything that a format has no place for.

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::value::{RawValue, to_raw_value};

use crate::formats::scene::Animation;
use crate::model::naming::fallback_name;
use crate::model::{Clip, Event, JointId, Property, Timeline, Track, Values};

/// The extras of one animation, keys in a fixed order: `id`, `name`, `game`, `source`, `length`, `additive`
/// (only where true), the reader's own, `events`, `tracks`.
pub fn animation_extras(animation: &Animation<'_>) -> serde_json::Result<Box<RawValue>> {
    to_raw_value(&Extras(animation))
}

struct Extras<'a>(&'a Animation<'a>);

impl Serialize for Extras<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let clip = self.0.clip;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &format_args!("{}", clip.id))?;
        map.serialize_entry("name", &clip.name)?;
        map.serialize_entry("game", clip.game)?;
        map.serialize_entry("source", &clip.source)?;
        map.serialize_entry("length", &(clip.length_s as f32))?;
        if clip.additive {
            map.serialize_entry("additive", &true)?;
        }
        for (key, value) in &clip.extras {
            map.serialize_entry(key, value)?;
        }
        if !clip.events.is_empty() {
            map.serialize_entry("events", &Events(&clip.events))?;
        }
        if !self.0.extra_tracks.is_empty() {
            map.serialize_entry("tracks", &Tracks(clip, &self.0.extra_tracks))?;
        }
        map.end()
    }
}

/// Events with their times in seconds of the clip.
pub struct Events<'a>(pub &'a [Event]);

impl Serialize for Events<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(Some(self.0.len()))?;
        for event in self.0 {
            seq.serialize_element(&OneEvent(event))?;
        }
        seq.end()
    }
}

struct OneEvent<'a>(&'a Event);

impl Serialize for OneEvent<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", &self.0.name)?;
        map.serialize_entry("start", &(self.0.start_s as f32))?;
        map.serialize_entry("end", &(self.0.end_s as f32))?;
        if !self.0.attributes.is_empty() {
            map.serialize_entry("attributes", &self.0.attributes)?;
        }
        map.end()
    }
}

/// Tracks (by index) that no channel stands for: bone, track number, name where known, times in seconds of the clip,
/// values as the source has them (Z up; quaternions x, y, z, w).
pub struct Tracks<'a>(pub &'a Clip, pub &'a [usize]);

impl Serialize for Tracks<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(Some(self.1.len()))?;
        for &i in self.1 {
            let track = &self.0.tracks[i];
            seq.serialize_element(&OneTrack(track, self.0.timeline(track)))?;
        }
        seq.end()
    }
}

struct OneTrack<'a>(&'a Track, &'a Timeline);

impl Serialize for OneTrack<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let OneTrack(track, timeline) = self;
        let mut map = serializer.serialize_map(None)?;
        match track.target.joint {
            JointId::RootMotion => map.serialize_entry("bone", "root_motion")?,
            JointId::BoneTag(tag) => map.serialize_entry("bone", &tag)?,
            JointId::Crc32(crc) => map.serialize_entry("bone", &format_args!("{crc:08X}"))?,
            JointId::Camera(_) | JointId::Texture(_) => {
                map.serialize_entry("bone", &fallback_name(track.target.joint))?;
            }
        }
        match track.target.property {
            Property::Other(other) => {
                map.serialize_entry("track", &other.number)?;
                if let Some(name) = other.name {
                    map.serialize_entry("name", name)?;
                }
            }
            Property::Translation => map.serialize_entry("track", "translation")?,
            Property::Rotation => map.serialize_entry("track", "rotation")?,
            Property::Scale => map.serialize_entry("track", "scale")?,
            Property::FieldOfView => map.serialize_entry("track", "fieldOfView")?,
            Property::UvOffset => map.serialize_entry("track", "uvOffset")?,
            Property::UvRotation => map.serialize_entry("track", "uvRotation")?,
            Property::UvScale => map.serialize_entry("track", "uvScale")?,
        }
        map.serialize_entry("times", &Times(timeline, track.curve.is_constant()))?;
        match &track.curve.values {
            Values::Vec3(v) => map.serialize_entry("values", &Mapped(v, |v: glam::Vec3| v.to_array()))?,
            Values::Quat(q) => map.serialize_entry("values", &Mapped(q, |q: glam::Quat| q.to_array()))?,
            Values::Scalar(s) => map.serialize_entry("values", s)?,
            Values::Raw { width, bytes } => {
                map.serialize_entry("bytesPerKey", width)?;
                map.serialize_entry("values", &Words(*width, bytes))?;
            }
        }
        map.end()
    }
}

struct Times<'a>(&'a Timeline, bool);

impl Serialize for Times<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.1 {
            return [0f32].serialize(serializer);
        }
        serializer.collect_seq(self.0.iter_seconds().map(|s| s as f32))
    }
}

struct Mapped<'a, T, F>(&'a [T], F);

impl<T: Copy, U: Serialize, F: Fn(T) -> U> Serialize for Mapped<'_, T, F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|v| (self.1)(*v)))
    }
}

/// Raw bytes as one unsigned little-endian integer a key.
struct Words<'a>(u8, &'a [u8]);

impl Serialize for Words<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let width = usize::from(self.0.clamp(1, 8));
        serializer.collect_seq(self.1.chunks_exact(width).map(|bytes| {
            let mut word = [0; 8];
            word[..width].copy_from_slice(bytes);
            u64::from_le_bytes(word)
        }))
    }
}
