//! Track blocks of Anvil: finding them, key times, values, and counts for `check`. Riders Republic and Shaun White
//! Skateboarding share this code.
//!
//! Riders Republic (docs/formats/anvil.md, section 4.4):
//!
//! | Offset | Size | Type | Field | Unit | Source |
//! |---|---|---|---|---|---|
//! | 0x0 | 1 | u8 | tag = 3 x kind + time form | | anvil.md 4.4 |
//! | 0x1 | 4 | u32 | size word, within eight bytes of T + K x width | bytes | anvil.md 4.4 |
//! | 0x5 | 4 | u32 | key count K | | anvil.md 4.4 |
//! | 0x9 | T | | times: form 0 K-1 u8, form 1 K-1 u16 (the first key at 0); form 2 a marker and 1 to 8 mask bytes | 1/60 s; 1/30 s in form 2 | anvil.md 4.4 |
//! | 9+T | K x width | | values | | anvil.md 4.4 |
//!
//! The marker's low six bits count the mask bytes; its high bits are 0x40, 0x80 or 0xC0. A set bit is a key at
//! that frame of 1/30 s, least significant bit first (docs/formats/anvil.md, section 4.2); K bits are set.
//!
//! | Kind | Bytes | Value | | Kind | Bytes | Value |
//! |---|---|---|---|---|---|---|
//! | 3 | 4 | rotation, 10-bit smallest three | | 9 | 12 | translation, f32 x 3, metres |
//! | 4 | 6 | rotation, 15-bit smallest three | | 16, 18 | 1 | not known |
//! | 5 | 8 | rotation, 20-bit smallest three | | 17 | 2 | not known |
//! | 7 | 2 | rotation about z | | 21, 22 | 4 | not known |
//! | 8 | 12 | rotation, f32 x, y, z | | 25 | 8 | not known |
//!
//! Shaun White Skateboarding (docs/formats/anvil.md, section 4.6):
//!
//! | Offset | Size | Type | Field | Unit | Source |
//! |---|---|---|---|---|---|
//! | 0x0 | 1 | u8 | tag = kind << 2; bit 0: u16 times; bit 1: two more bytes in memory | | anvil.md 4.6 |
//! | 0x1 | 4 | u32 | in-memory size: 2 + T, plus 2 with bit 1, up to the kind's alignment, plus K x width | bytes | anvil.md 4.6 |
//! | 0x5 | 4 | u32 | key count K, at least 1 | | anvil.md 4.6 |
//! | 0x9 | T | u8[] or u16[] | K-1 times, the first key at 0, strictly rising | 1/60 s | anvil.md 4.6 |
//! | 9+T | K x width | | values | | anvil.md 4.6 |
//!
//! | Kind | Bytes / alignment | Value |
//! |---|---|---|
//! | 4 | 6 / 2 | rotation, 15-bit smallest three, in the game's own steps |
//! | 5 | 8 / 4 | rotation, 20-bit smallest three |
//! | 6 | 12 / 4 | rotation, f32 x, y, z |
//! | 7 | 12 / 4 | translation, f32 x 3 (D, by the numbering of the engine's first game: anvil.md 4.1) |
//! | 8 | 4 / 4 | translation, x bits 21-31, y bits 10-20, z bits 0-9, two's complement, mm |
//! | 9 | 6 / 2 | translation, i16 x 3, mm |
//! | 10 | 4 / 4 | one f32 that moves no bone: kept raw |
//! | 11, 17 | 1 / 1 | not known |

use std::collections::HashMap;
use std::ops::AddAssign;

use glam::{Quat, Vec3};
use serde::{Serialize, Serializer};

use crate::error::{Error, Result};
use crate::games::anvil::animation::packed_quat;
use crate::games::anvil::animation::packed_quat::DecodeStats;
use crate::games::anvil::container::object::{Object, class};
use crate::io::bytes::Cursor;
use crate::io::hex;
use crate::model::{
    Clock, Curve, Interpolation, JointId, OtherTrack, Positions, Property, Target, Timeline, Track, Values,
    Warning, WarningKind, Window,
};

/// A key later than the clip's length by more than this (seconds) is past it: lengths are f32, times whole ticks.
const PAST_S: f64 = 1e-4;
/// All times are within Length + 1/30 s (docs/formats/anvil.md, section 4.4).
const GRACE_S: f64 = 1.0 / 30.0;
/// A last key further than this (in ticks of 1/60 s) from length x 60 is not on it. The f32 length of the longest
/// track that u16 times allow is exact to 0.004 ticks.
const LAST_KEY_TICKS: f64 = 0.02;

/// The game whose track blocks are read: they differ in tags, time forms and kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TrackLayout {
    RidersRepublic,
    ShaunWhite,
}

/// How a key's bytes become a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Packing {
    Rotation10,
    Rotation15,
    Rotation15Sws,
    Rotation20,
    RotationZ,
    RotationXyz,
    TranslationF32,
    TranslationMm32,
    TranslationMm48,
    Raw,
}

/// Width in bytes, alignment in memory and packing of a kind; `None` for an unknown kind.
fn kind_facts(layout: TrackLayout, kind: u8) -> Option<(usize, usize, Packing)> {
    use Packing::*;
    Some(match (layout, kind) {
        (TrackLayout::RidersRepublic, 3) => (4, 4, Rotation10),
        (TrackLayout::RidersRepublic, 4) => (6, 2, Rotation15),
        (TrackLayout::RidersRepublic, 5) => (8, 4, Rotation20),
        (TrackLayout::RidersRepublic, 7) => (2, 2, RotationZ),
        (TrackLayout::RidersRepublic, 8) => (12, 4, RotationXyz),
        (TrackLayout::RidersRepublic, 9) => (12, 4, TranslationF32),
        (TrackLayout::RidersRepublic, 16 | 18) => (1, 1, Raw),
        (TrackLayout::RidersRepublic, 17) => (2, 2, Raw),
        (TrackLayout::RidersRepublic, 21 | 22) => (4, 4, Raw),
        (TrackLayout::RidersRepublic, 25) => (8, 4, Raw),
        (TrackLayout::ShaunWhite, 4) => (6, 2, Rotation15Sws),
        (TrackLayout::ShaunWhite, 5) => (8, 4, Rotation20),
        (TrackLayout::ShaunWhite, 6) => (12, 4, RotationXyz),
        (TrackLayout::ShaunWhite, 7) => (12, 4, TranslationF32),
        (TrackLayout::ShaunWhite, 8) => (4, 4, TranslationMm32),
        (TrackLayout::ShaunWhite, 9) => (6, 2, TranslationMm48),
        (TrackLayout::ShaunWhite, 10) => (4, 4, Raw),
        (TrackLayout::ShaunWhite, 11 | 17) => (1, 1, Raw),
        _ => return None,
    })
}

/// A track block that is not decoded yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block<'a> {
    /// Offset of the tag, for errors.
    offset: u64,
    kind: u8,
    /// Riders Republic: tag modulo 3. Shaun White: tag & 3.
    form: u8,
    size_word: u32,
    keys: u32,
    /// Time bytes; for the mask form the marker and the mask.
    times: &'a [u8],
    values: &'a [u8],
    packing: Packing,
    width: usize,
}

impl Block<'_> {
    /// The time form without Shaun White's bit 1, which does not change the times.
    fn time_form(&self, layout: TrackLayout) -> u8 {
        match layout {
            TrackLayout::RidersRepublic => self.form,
            TrackLayout::ShaunWhite => self.form & 1,
        }
    }

    /// Offset of the block's values.
    fn values_offset(&self) -> u64 {
        self.offset + 9 + self.times.len() as u64
    }
}

/// Finds `count` blocks. Nothing is decoded, but every size is checked, the mask's bits and the in-memory size too.
pub(crate) fn walk<'a>(cursor: &mut Cursor<'a>, count: u32, layout: TrackLayout) -> Result<Vec<Block<'a>>> {
    // A block has at least 9 bytes, which limits the count.
    let mut blocks = Vec::with_capacity((count as usize).min(cursor.left() / 9));
    for i in 0..count {
        let block = match layout {
            TrackLayout::RidersRepublic => walk_rr(cursor),
            TrackLayout::ShaunWhite => walk_sws(cursor),
        };
        blocks.push(block.map_err(|e| e.in_entry(format!("track {i} of {count}")))?);
    }
    Ok(blocks)
}

fn unknown_kind(offset: u64, tag: u8, kind: u8, known: &str) -> Error {
    Error::malformed(
        offset,
        format_args!("track tag 0x{tag:02X} (kind {kind})"),
        format_args!("one of the kinds {known}"),
    )
}

fn walk_rr<'a>(c: &mut Cursor<'a>) -> Result<Block<'a>> {
    let offset = c.offset();
    let tag = c.u8("track tag")?;
    let (kind, form) = (tag / 3, tag % 3);
    let Some((width, _, packing)) = kind_facts(TrackLayout::RidersRepublic, kind) else {
        return Err(unknown_kind(offset, tag, kind, "3, 4, 5, 7, 8, 9, 16, 17, 18, 21, 22, 25"));
    };
    let size_word = c.u32("track size word")?;
    let keys = c.u32("key count")?;
    let after_first = (keys as usize).saturating_sub(1);
    let times = match form {
        0 => c.take_items(after_first, 1, "key times")?,
        1 => c.take_items(after_first, 2, "key times")?,
        _ => {
            let marker = c.rest().first().copied().unwrap_or_default();
            let length = usize::from(marker & 0x3F);
            let at = c.offset();
            let times = c.take(1 + length, "mask marker and mask bytes")?;
            if !(1..=8).contains(&length) {
                return Err(Error::malformed(at, format_args!("{length} mask bytes"), "1 to 8"));
            }
            let set: u32 = times[1..].iter().map(|b| b.count_ones()).sum();
            if set != keys {
                return Err(Error::malformed(
                    at,
                    format_args!("a mask of {set} bits"),
                    format_args!("as many as the {keys} keys"),
                ));
            }
            times
        }
    };
    let values = c.take_items(keys as usize, width, "key values")?;
    Ok(Block { offset, kind, form, size_word, keys, times, values, packing, width })
}

fn walk_sws<'a>(c: &mut Cursor<'a>) -> Result<Block<'a>> {
    let offset = c.offset();
    let tag = c.u8("track tag")?;
    let (kind, form) = (tag >> 2, tag & 3);
    let Some((width, alignment, packing)) = kind_facts(TrackLayout::ShaunWhite, kind) else {
        return Err(unknown_kind(offset, tag, kind, "4 to 11 and 17"));
    };
    let size_word = c.u32("track size in memory")?;
    let keys = c.u32("key count")?;
    if keys == 0 {
        return Err(Error::malformed(c.offset() - 4, "0 keys", "at least 1"));
    }
    let times = c.take_items(keys as usize - 1, 1 + usize::from(form & 1), "key times")?;
    let values = c.take_items(keys as usize, width, "key values")?;
    let before = 2 + times.len() + if form & 2 != 0 { 2 } else { 0 };
    let in_memory = before.next_multiple_of(alignment) + values.len();
    if size_word as usize != in_memory {
        return Err(Error::malformed(
            offset + 1,
            format_args!("{size_word} bytes in memory"),
            format_args!("{in_memory}, as {keys} keys of kind {kind} need"),
        ));
    }
    Ok(Block { offset, kind, form, size_word, keys, times, values, packing, width })
}

/// The number of tracks and keys of one kind in one time form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct KindCount {
    /// Track kind.
    pub kind: u8,
    /// Riders Republic: tag modulo 3. Shaun White Skateboarding: tag & 3.
    pub form: u8,
    /// Tracks.
    pub tracks: u64,
    /// Keys in them.
    pub keys: u64,
}

/// Counts over decoded clips: totals, and anomalies. Sums with `+=`.
///
/// Whatever breaks the framing (a mask whose bits are not K, a wrong in-memory size, an end that is not exact) is
/// not counted here: it is an error of the clip.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ClipCensus {
    /// Clips decoded.
    pub clips: u64,
    /// Their tracks.
    pub tracks: u64,
    /// Their keys.
    pub keys: u64,
    /// Clips with events.
    pub with_events: u64,
    /// Events.
    pub events: u64,
    /// Clips with an ECLAnimation object (Riders Republic).
    pub with_ecl_animation: u64,
    /// Clips whose fourth flag, IsStreamed, is set (Riders Republic).
    pub streamed: u64,
    /// Clips whose Additive or AdditiveWithAlwaysMatchBlendLength is set (Riders Republic).
    pub additive: u64,
    /// Tracks and keys of each kind in each time form, rising.
    pub kinds: Vec<KindCount>,
    /// Mask tracks by the marker's high bits: none, 0x40, 0x80, 0xC0. The first is an anomaly.
    #[serde(serialize_with = "markers")]
    pub mask_markers: [u64; 4],
    /// Tracks of kind 7 in which a key's top bit is set.
    pub kind_7_top_bit_tracks: u64,
    /// Counts of what docs/formats/anvil.md says never happens. The key in JSON stays as users know it.
    #[serde(rename = "departures")]
    pub anomalies: Anomalies,
}

fn markers<S: Serializer>(counts: &[u64; 4], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(["0x00", "0x40", "0x80", "0xC0"].into_iter().zip(counts))
}

macro_rules! anomalies {
    ($($(#[$doc:meta])* $field:ident = $text:literal $(raises $code:literal)?,)*) => {
        /// Counts of what docs/formats/anvil.md says never happens.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
        pub struct Anomalies {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl Anomalies {
            /// Each count with its sentence ("keys of kind 4 with ..."), in a fixed order, zeros too.
            pub fn iter(&self) -> impl Iterator<Item = (u64, &'static str)> + '_ {
                [$((self.$field, $text)),*].into_iter()
            }

            /// A warning for each count above zero, in the same order.
            fn warnings(&self, out: &mut Vec<Warning>) {
                $($(if self.$field > 0 {
                    static KIND: WarningKind = WarningKind { code: $code, text: concat!($text, ": {count}") };
                    out.push(Warning::new(&KIND).with("count", self.$field));
                })?)*
            }
        }

        impl AddAssign<&Anomalies> for Anomalies {
            fn add_assign(&mut self, other: &Anomalies) {
                $(self.$field += other.$field;)*
            }
        }
    };
}

anomalies! {
    /// Mask tracks whose marker has none of the bits 0x40 and 0x80.
    mask_marker_without_high_bits = "mask tracks whose marker has no high bit" raises "anvil-mask-marker",
    /// Keys of kind 4 whose third word has bit 15.
    kind_4_third_word_bit_15 = "keys of kind 4 with bit 15 of the third word set" raises "anvil-kind-4-bit-15",
    /// Keys of kind 5 with bit 28 or 29.
    kind_5_bits_28_29 = "keys of kind 5 with bit 28 or 29 set" raises "anvil-kind-5-bits",
    /// Riders Republic tracks whose size word is more than eight bytes off the stored payload.
    size_word_off = "tracks whose size word is more than 8 bytes off their payload" raises "anvil-size-word",
    /// Tracks without a key (Riders Republic; none is known).
    tracks_without_keys = "tracks without a key, left out" raises "anvil-tracks-without-keys",
    /// Keys whose time is not after the key before; left out.
    keys_not_rising = "keys whose time does not rise, left out" raises "anvil-keys-not-rising",
    /// Keys after Length (by more than 1e-4 s).
    keys_past_length = "keys past the clip's length",
    /// Keys after Length + 1/30 s.
    keys_past_grace = "keys past the clip's length by more than 1/30 s",
    /// Shaun White tracks whose last key is not on length x 60 (25 are known).
    last_key_off_length = "tracks whose last key is not on length x 60" raises "anvil-last-key-off-length",
    /// Shaun White clips whose second layout word is not the first (99 are known).
    layout_word_differs = "clips whose second layout word is not the first" raises "anvil-layout-word",
    /// Riders Republic clips with 322B96B8, TeleportAtTime or 251905D9 other than empty.
    fields_not_empty = "clips with a field that is empty throughout the seed's census" raises "anvil-fields-not-empty",
    /// Rotation keys whose stored components leave no room for the omitted one; made unit.
    rotations_not_unit = "rotation keys longer than 1, made unit" raises "anvil-rotations-not-unit",
}

impl ClipCensus {
    fn count(&mut self, kind: u8, form: u8, tracks: u64, keys: u64) {
        match self.kinds.binary_search_by_key(&(kind, form), |k| (k.kind, k.form)) {
            Ok(i) => {
                self.kinds[i].tracks += tracks;
                self.kinds[i].keys += keys;
            }
            Err(i) => self.kinds.insert(i, KindCount { kind, form, tracks, keys }),
        }
    }
}

impl AddAssign<&ClipCensus> for ClipCensus {
    fn add_assign(&mut self, other: &ClipCensus) {
        // Destructured, so that a new field cannot be forgotten.
        let ClipCensus {
            clips,
            tracks,
            keys,
            with_events,
            events,
            with_ecl_animation,
            streamed,
            additive,
            kinds,
            mask_markers,
            kind_7_top_bit_tracks,
            anomalies,
        } = other;
        self.clips += clips;
        self.tracks += tracks;
        self.keys += keys;
        self.with_events += with_events;
        self.events += events;
        self.with_ecl_animation += with_ecl_animation;
        self.streamed += streamed;
        self.additive += additive;
        for k in kinds {
            self.count(k.kind, k.form, k.tracks, k.keys);
        }
        for (mine, theirs) in self.mask_markers.iter_mut().zip(mask_markers) {
            *mine += theirs;
        }
        self.kind_7_top_bit_tracks += kind_7_top_bit_tracks;
        self.anomalies += anomalies;
    }
}

impl AddAssign for ClipCensus {
    fn add_assign(&mut self, other: ClipCensus) {
        *self += &other;
    }
}

/// What the key times of a timeline show once they are read.
struct TimelineFacts {
    past_length: u32,
    past_grace: u32,
    /// The indices of the keys that rise, where not all do.
    rising: Option<Vec<u32>>,
    off_length: bool,
}

/// Decodes blocks into tracks; gathers timelines, census and warnings.
pub(crate) struct Decoder<'a> {
    layout: TrackLayout,
    length_s: f64,
    pub(crate) timelines: Vec<Timeline>,
    facts: Vec<TimelineFacts>,
    by_bytes: HashMap<(u8, &'a [u8]), u32>,
    pub(crate) tracks: Vec<Track>,
    pub(crate) census: ClipCensus,
    last_key_s: f64,
    z_keys: u64,
    z_ignored_keys: u64,
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(layout: TrackLayout, length_s: f64, tracks: usize) -> Self {
        Decoder {
            layout,
            length_s,
            timelines: Vec::new(),
            facts: Vec::new(),
            // Clips have few timelines or many. Room for many is one allocation.
            by_bytes: HashMap::with_capacity(tracks.min(512)),
            tracks: Vec::with_capacity(tracks),
            census: ClipCensus { clips: 1, ..ClipCensus::default() },
            last_key_s: 0.0,
            z_keys: 0,
            z_ignored_keys: 0,
        }
    }

    /// Decodes `block`, which moves the bone of that name's CRC-32.
    pub(crate) fn track(&mut self, block: &Block<'a>, bone_crc: u32) -> Result<()> {
        let keys = u64::from(block.keys);
        self.census.tracks += 1;
        self.census.keys += keys;
        self.census.count(block.kind, block.form, 1, keys);
        if self.layout == TrackLayout::RidersRepublic {
            let payload = block.times.len() + block.values.len();
            if (block.size_word as usize).abs_diff(payload) > 8 {
                self.census.anomalies.size_word_off += 1;
            }
            if block.form == 2 {
                let high = usize::from(block.times[0] >> 6);
                self.census.mask_markers[high] += 1;
                self.census.anomalies.mask_marker_without_high_bits += u64::from(high == 0);
            }
        }
        if block.keys == 0 {
            self.census.anomalies.tracks_without_keys += 1;
            return Ok(());
        }
        let mut values = self.values(block)?;
        let timeline = self.timeline(block);
        let facts = &self.facts[timeline as usize];
        let anomalies = &mut self.census.anomalies;
        anomalies.keys_past_length += u64::from(facts.past_length);
        anomalies.keys_past_grace += u64::from(facts.past_grace);
        anomalies.last_key_off_length += u64::from(facts.off_length);
        if let Some(rising) = &facts.rising {
            anomalies.keys_not_rising += keys - rising.len() as u64;
            retain_keys(&mut values, rising);
        }
        let (property, interpolation) = match &values {
            Values::Quat(_) => (Property::Rotation, Interpolation::Nlerp),
            Values::Vec3(_) => (Property::Translation, Interpolation::Linear),
            _ => (Property::Other(OtherTrack { number: block.kind, name: None }), Interpolation::Step),
        };
        let joint = if bone_crc == 0 { JointId::RootMotion } else { JointId::Crc32(bone_crc) };
        self.tracks.push(Track {
            target: Target { joint, property },
            timeline,
            curve: Curve { interpolation, values },
        });
        Ok(())
    }

    fn values(&mut self, block: &Block) -> Result<Values> {
        let bytes = block.values;
        let keys = block.keys as usize;
        Ok(match block.packing {
            Packing::Rotation10 => self.rotation(block, packed_quat::smallest_three_10)?,
            Packing::Rotation15 => self.rotation(block, packed_quat::smallest_three_15)?,
            Packing::Rotation15Sws => self.rotation(block, packed_quat::smallest_three_15_sws)?,
            Packing::Rotation20 => self.rotation(block, packed_quat::smallest_three_20)?,
            Packing::RotationXyz => self.rotation(block, packed_quat::xyz_positive_w)?,
            Packing::RotationZ => {
                let mut out = Vec::with_capacity(keys);
                let z = packed_quat::z_rotation(bytes, &mut out);
                if z.top_bits > 0 {
                    self.census.kind_7_top_bit_tracks += 1;
                    if z.stored_w {
                        self.z_keys += u64::from(z.top_bits);
                    } else {
                        self.z_ignored_keys += u64::from(z.top_bits);
                    }
                }
                Values::Quat(out)
            }
            Packing::TranslationF32 => {
                let (chunks, _) = bytes.as_chunks::<12>();
                let mut sum = 0.0;
                let out: Vec<Vec3> = chunks
                    .iter()
                    .map(|k| {
                        let v = Vec3::from_array(
                            [0, 4, 8].map(|i| f32::from_le_bytes([k[i], k[i + 1], k[i + 2], k[i + 3]])),
                        );
                        // 0 for finite values, NaN otherwise.
                        sum += v.x * 0.0 + v.y * 0.0 + v.z * 0.0;
                        v
                    })
                    .collect();
                if sum != 0.0 {
                    return Err(not_finite(block));
                }
                Values::Vec3(out)
            }
            Packing::TranslationMm32 => {
                let (chunks, _) = bytes.as_chunks::<4>();
                Values::Vec3(
                    chunks
                        .iter()
                        .map(|k| {
                            let v = i32::from_le_bytes(*k);
                            millimetres([v >> 21, v << 11 >> 21, v << 22 >> 22])
                        })
                        .collect(),
                )
            }
            Packing::TranslationMm48 => {
                let (chunks, _) = bytes.as_chunks::<6>();
                Values::Vec3(
                    chunks
                        .iter()
                        .map(|k| {
                            millimetres([0, 2, 4].map(|i| i32::from(i16::from_le_bytes([k[i], k[i + 1]]))))
                        })
                        .collect(),
                )
            }
            Packing::Raw => Values::Raw { width: block.width as u8, bytes: bytes.to_vec() },
        })
    }

    #[inline]
    fn rotation(
        &mut self,
        block: &Block,
        decode: fn(&[u8], &mut Vec<Quat>) -> DecodeStats,
    ) -> Result<Values> {
        let mut out = Vec::with_capacity(block.keys as usize);
        let stats = decode(block.values, &mut out);
        let anomalies = &mut self.census.anomalies;
        match block.kind {
            4 => anomalies.kind_4_third_word_bit_15 += u64::from(stats.reserved_bits),
            5 => anomalies.kind_5_bits_28_29 += u64::from(stats.reserved_bits),
            _ => {}
        }
        if stats.least_remainder.is_nan() {
            return Err(not_finite(block));
        }
        if stats.least_remainder < -4e-6 {
            anomalies.rotations_not_unit += u64::from(packed_quat::renormalise(&mut out));
        }
        Ok(Values::Quat(out))
    }

    /// Index of the block's timeline. Blocks with equal time bytes share one.
    fn timeline(&mut self, block: &Block<'a>) -> u32 {
        let form = block.time_form(self.layout);
        // One key at 0 needs no time bytes in either form: one timeline for both.
        let mask = self.layout == TrackLayout::RidersRepublic && form == 2;
        let bytes = if mask { &block.times[1..] } else { block.times };
        let form = if bytes.is_empty() { 0 } else { form };
        if let Some(&i) = self.by_bytes.get(&(form, bytes)) {
            return i;
        }
        let (clock, positions) = if mask {
            (Clock::Frames30, mask_positions(bytes, block.keys))
        } else {
            let mut p = Vec::with_capacity(block.keys as usize);
            p.push(0);
            if form == 0 {
                p.extend(bytes.iter().map(|b| u32::from(*b)));
            } else {
                let (times, _) = bytes.as_chunks::<2>();
                p.extend(times.iter().map(|b| u32::from(u16::from_le_bytes(*b))));
            }
            (Clock::Ticks60, p)
        };
        let (positions, facts) = self.check_times(clock, positions);
        self.timelines.push(Timeline { clock, positions, window: Window::WHOLE });
        self.facts.push(facts);
        let i = (self.timelines.len() - 1) as u32;
        self.by_bytes.insert((form, bytes), i);
        i
    }

    /// Keeps the rising keys of `positions` and compares them with the clip's length.
    fn check_times(&mut self, clock: Clock, mut positions: Vec<u32>) -> (Positions, TimelineFacts) {
        let mut rising = None;
        if !positions.is_sorted_by(|a, b| a < b) {
            let mut kept = Vec::new();
            let mut last = None;
            for (i, &p) in positions.iter().enumerate() {
                if last.is_none_or(|l| p > l) {
                    last = Some(p);
                    kept.push(i as u32);
                }
            }
            positions = kept.iter().map(|&i| positions[i as usize]).collect();
            rising = Some(kept);
        }
        let after = |edge_s: f64| {
            // From the end, so that a sound clip needs one comparison.
            positions.iter().rev().take_while(|p| clock.seconds(f64::from(**p)) > edge_s).count() as u32
        };
        let past_length = after(self.length_s + PAST_S);
        let past_grace = if past_length > 0 { after(self.length_s + GRACE_S + PAST_S) } else { 0 };
        let last = positions.last().copied().unwrap_or_default();
        if past_length > 0 {
            self.last_key_s = self.last_key_s.max(clock.seconds(f64::from(last)));
        }
        let off_length = self.layout == TrackLayout::ShaunWhite
            && (self.length_s * 60.0 - f64::from(last)).abs() > LAST_KEY_TICKS;
        let first = positions.first().copied().unwrap_or_default();
        let count = positions.len() as u32;
        let positions = if last - first == count.saturating_sub(1) {
            Positions::Run { first, count }
        } else {
            Positions::Whole(positions)
        };
        (positions, TimelineFacts { past_length, past_grace, rising, off_length })
    }

    /// The warnings about this clip.
    pub(crate) fn warnings(&self) -> Vec<Warning> {
        let mut out = Vec::new();
        let past = self.census.anomalies.keys_past_length;
        if past > 0 {
            let warning = Warning::new(&KEYS_PAST_LENGTH).with("length_s", self.length_s);
            out.push(warning.with("keys", past).with("last_s", self.last_key_s));
        }
        self.census.anomalies.warnings(&mut out);
        if self.z_keys > 0 {
            out.push(Warning::new(&KIND_7_ROOT_Z).with("keys", self.z_keys));
        }
        if self.z_ignored_keys > 0 {
            out.push(Warning::new(&KIND_7_TOP_BIT_IGNORED).with("keys", self.z_ignored_keys));
        }
        out
    }
}

static KEYS_PAST_LENGTH: WarningKind = WarningKind {
    code: "anvil-keys-past-length",
    text: "keys past the length of {length_s:.4} s, kept: {keys}, up to {last_s:.4} s",
};
static KIND_7_ROOT_Z: WarningKind = WarningKind {
    code: "anvil-kind-7-root-z",
    text: "{keys} keys of kind 7 have the top bit set: read as w stored and z its root, by continuity",
};
static KIND_7_TOP_BIT_IGNORED: WarningKind = WarningKind {
    code: "anvil-kind-7-top-bit-ignored",
    text: "{keys} keys of kind 7 have the top bit set: ignored, by continuity",
};
static EVENTS_AMBIGUOUS: WarningKind = WarningKind {
    code: "anvil-events-ambiguous",
    text: "{places} places behind the events read as AnimTrackData to the exact end: the one with the most tracks is taken",
};

/// Frames of the set bits, least significant bit of the first byte first.
fn mask_positions(mask: &[u8], keys: u32) -> Vec<u32> {
    let mut out = Vec::with_capacity(keys as usize);
    let mut word = mask.iter().rev().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
    while word != 0 {
        out.push(word.trailing_zeros());
        word &= word - 1;
    }
    out
}

/// Whole millimetres to metres: one division, correctly rounded.
#[inline(always)]
fn millimetres(v: [i32; 3]) -> Vec3 {
    Vec3::from_array(v.map(|v| v as f32 / 1000.0))
}

/// The error for a float that is not finite. It is found by a second pass, so that the first stays fast.
#[cold]
fn not_finite(block: &Block) -> Error {
    let at = block
        .values
        .as_chunks::<4>()
        .0
        .iter()
        .position(|b| !f32::from_le_bytes(*b).is_finite())
        .unwrap_or_default();
    Error::malformed(
        block.values_offset() + 4 * at as u64,
        format_args!("a value of kind {} that is not finite", block.kind),
        "finite numbers",
    )
}

/// Keeps only the values of the keys `kept`.
fn retain_keys(values: &mut Values, kept: &[u32]) {
    fn pick<T: Copy>(values: &mut Vec<T>, kept: &[u32]) {
        *values = kept.iter().map(|&i| values[i as usize]).collect();
    }
    match values {
        Values::Vec3(v) => pick(v, kept),
        Values::Quat(v) => pick(v, kept),
        Values::Scalar(v) => pick(v, kept),
        Values::Raw { width, bytes } => {
            let width = usize::from(*width);
            *bytes =
                kept.iter().flat_map(|&i| bytes[i as usize * width..][..width].iter().copied()).collect();
        }
    }
}

/// The longest unread part that extras hold as hex, bytes. Longer ones are given by length and CRC-32.
const HEX_LIMIT: usize = 4096;

/// An unread part for extras: its hex, or (where that would swell the output) its length and CRC-32.
pub(crate) fn raw_for_extras(bytes: &[u8]) -> serde_json::Value {
    if bytes.len() <= HEX_LIMIT {
        return hex::packed(bytes).into();
    }
    serde_json::json!({ "byteLength": bytes.len(), "crc32": format!("{:08X}", crc32fast::hash(bytes)) })
}

/// The next offset of `word` in `data` at or after `from`.
pub(crate) fn find_word(data: &[u8], from: usize, word: u32) -> Option<usize> {
    memchr::memmem::find(data.get(from..)?, &word.to_le_bytes()).map(|i| from + i)
}

/// Bytes before AnimTrackData's class word that belong to it. Riders Republic: tag, u64 id. Shaun White: a word,
/// tag, u32 id.
const BEFORE_CLASS: usize = 9;

/// The tail of a body: everything behind the events, which begins with AnimTrackData.
pub(crate) struct FoundTail<T> {
    /// Offset in the body.
    pub at: usize,
    pub tail: T,
    /// Number of offsets that read as a tail to the exact end of the body. More than one gives a warning.
    pub candidates: usize,
}

impl<T> FoundTail<T> {
    /// The warning where there was more than one candidate.
    pub fn warning(&self) -> Option<Warning> {
        (self.candidates > 1).then(|| Warning::new(&EVENTS_AMBIGUOUS).with("places", self.candidates))
    }
}

/// Finds the tail. The length of the events before it is not stored, so the tail begins at the offset where `read`
/// succeeds. `read` demands the exact end of the body, so that the same bytes inside an event mislead nobody. Without
/// events the tail begins at `events_at`. Several offsets can only succeed in bytes that were made for it (an empty
/// list of tracks, and a buffer over the true ones). Then the one with the most tracks is taken, and of equal ones the
/// first.
///
/// Hostile bytes do not make this slow: a candidate costs its list of mappings, and the lists of several candidates
/// cannot share their bytes (a mapping's class stands where the tag of the next candidate must be 0).
///
/// # Errors
/// Malformed where no offset succeeds: the error of the candidate that was read furthest.
pub(crate) fn find_tail<T>(
    object: &Object,
    events_at: usize,
    event_count: u32,
    read: impl Fn(usize) -> Result<T>,
    tracks: impl Fn(&T) -> usize,
) -> Result<FoundTail<T>> {
    if event_count == 0 {
        return read(events_at).map(|tail| FoundTail { at: events_at, tail, candidates: 1 });
    }
    let mut from = events_at + BEFORE_CLASS;
    let mut furthest: Option<Error> = None;
    let mut best: Option<FoundTail<T>> = None;
    while let Some(word) = find_word(object.body, from, class::ANIM_TRACK_DATA) {
        let at = word - BEFORE_CLASS;
        match read(at) {
            Ok(tail) => {
                let candidates = best.as_ref().map_or(0, |best| best.candidates) + 1;
                match &mut best {
                    Some(best) if tracks(&best.tail) >= tracks(&tail) => best.candidates = candidates,
                    _ => best = Some(FoundTail { at, tail, candidates }),
                }
            }
            Err(e) if furthest.as_ref().is_none_or(|f| f.offset() < e.offset()) => furthest = Some(e),
            Err(_) => {}
        }
        from = word + 1;
    }
    best.ok_or_else(|| {
        furthest.unwrap_or_else(|| {
            Error::malformed(
                object.body_offset + events_at as u64,
                format_args!("no AnimTrackData after {event_count} events"),
                "its tag 0, id and class 0181EFE8",
            )
        })
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn masks_run_from_the_lowest_bit_up() {
        assert_eq!(mask_positions(&[0b1000_0001, 0b0000_0010], 3), [0, 7, 9]);
        assert_eq!(mask_positions(&[0xFF; 8], 64), (0..64).collect::<Vec<_>>());
    }

    #[test]
    fn census_sums_by_kind() {
        let mut a = ClipCensus::default();
        a.count(9, 0, 1, 2);
        a.count(4, 1, 1, 3);
        a.count(4, 1, 1, 3);
        let mut b = a.clone();
        b.anomalies.keys_past_length = 7;
        a += &b;
        a += b;
        assert_eq!(
            a.kinds.iter().map(|k| (k.kind, k.form, k.tracks, k.keys)).collect::<Vec<_>>(),
            [(4, 1, 6, 18), (9, 0, 3, 6)]
        );
        assert_eq!(a.anomalies.keys_past_length, 14);
        let json = serde_json::to_value(&a).unwrap();
        assert_eq!(json["mask_markers"]["0x40"], 0);
        assert_eq!(json["departures"]["keys_past_length"], 14);
    }

    #[test]
    fn packed_millimetres() {
        // x -1024, y 1023, z -512: the ends of 11, 11 and 10 bits.
        let v = (0x400u32 << 21 | 0x3FF << 10 | 0x200) as i32;
        assert_eq!([v >> 21, v << 11 >> 21, v << 22 >> 22], [-1024, 1023, -512]);
        assert_eq!(millimetres([-1024, 1023, 1]).to_array(), [-1.024, 1.023, 0.001]);
    }
}
