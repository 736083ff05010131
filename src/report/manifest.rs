//! `manifest.json`: what was written, from what, and everything that a file could not say.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};

use rustc_hash::FxHashMap;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::model::naming::fallback_name;
use crate::model::{Clip, JointId, Property, Skeleton};
use crate::source::{ClipUse, Input, PoseRules, Source};

/// One clip of the manifest.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClipRow {
    /// Where it comes from.
    pub source: String,
    /// The file that holds it, relative to the output folder, with `/`.
    pub output: String,
    /// Name of the animation in that file.
    pub animation: String,
    /// Identity, hex.
    pub id: String,
    /// The whole name.
    pub name: String,
    /// Game.
    pub game: String,
    /// Seconds.
    pub duration: f32,
    /// Highest key rate of the clip, Hz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame_rate: Option<f32>,
    /// Whether it is additive: deltas, no poses.
    #[serde(default, skip_serializing_if = "is_false")]
    pub additive: bool,
    /// Keys of the tracks written.
    pub keys: u64,
    /// Tracks that move joints.
    pub tracks_written: u64,
    /// Tracks whose values are in the extras.
    pub tracks_kept: Vec<KeptRow>,
    /// Events.
    pub events: u64,
    /// Skeleton that it stands on.
    #[serde(default)]
    pub skeleton: String,
    /// Thigh-roll bones that follow their thighs, for want of a rotation of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thigh_rolls: Vec<String>,
    /// Joints whose names no dictionary knows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown_joints: Vec<String>,
    /// Other places of the same clip: equal objects elsewhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also_at: Vec<String>,
    /// What a reader should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The code of each of [`ClipRow::warnings`], in their order; `docs/warnings.md` says what they mean.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warning_codes: Vec<String>,
}

/// Whether a name is one that stands for an id: `bone_XXXXXXXX`, `tag_NNNNN`.
fn is_fallback(name: &str) -> bool {
    let digits = |prefix: &str, hex: bool| {
        name.strip_prefix(prefix).is_some_and(|rest| {
            !rest.is_empty()
                && rest.bytes().all(|b| if hex { b.is_ascii_hexdigit() } else { b.is_ascii_digit() })
        })
    };
    digits("bone_", true) || digits("tag_", false)
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

fn is_false(value: &bool) -> bool {
    !value
}

/// A track that no joint shows.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct KeptRow {
    /// Tag, or CRC as hex.
    pub bone: String,
    /// Track number or kind.
    pub track: u8,
    /// Name, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl ClipRow {
    /// Describes `clip`, written as `animation` into `output`.
    pub fn new(clip: &Clip, output: &str, animation: &str, kept: &[usize], rig: &Skeleton) -> Self {
        let moved = || clip.tracks.iter().filter(|t| !matches!(t.target.property, Property::Other(_)));
        let nameless: Vec<bool> =
            rig.joints().iter().map(|j| j.name.as_deref().is_some_and(is_fallback)).collect();
        let mut unknown: Vec<String> = moved()
            .filter(|t| t.target.joint != JointId::RootMotion)
            .filter_map(|t| rig.find(t.target.joint))
            .filter(|i| nameless[*i])
            .filter_map(|i| rig.joints()[i].name.clone())
            .collect();
        unknown.sort();
        unknown.dedup();
        ClipRow {
            source: clip.source.clone(),
            output: output.to_owned(),
            animation: animation.to_owned(),
            id: clip.id.to_string(),
            name: clip.name.clone(),
            game: clip.game.to_owned(),
            duration: clip.length_s as f32,
            frame_rate: clip.rate_hz().map(|hz| hz as f32),
            additive: clip.additive,
            keys: moved().map(|t| t.curve.values.len() as u64).sum(),
            tracks_written: (clip.tracks.len() - kept.len()) as u64,
            tracks_kept: kept
                .iter()
                .map(|&i| {
                    let target = clip.tracks[i].target;
                    let (track, name) = match target.property {
                        Property::Other(other) => (other.number, other.name),
                        Property::Translation => (0, Some("translation")),
                        Property::Rotation => (1, Some("rotation")),
                        Property::Scale => (2, Some("scale")),
                        // Made from tracks that stand in this list themselves.
                        Property::FieldOfView => (27, Some("fieldOfView")),
                        Property::UvOffset | Property::UvRotation | Property::UvScale => (17, Some("uv")),
                    };
                    let bone = match target.joint {
                        JointId::BoneTag(tag) => tag.to_string(),
                        JointId::Crc32(crc) => format!("{crc:08X}"),
                        JointId::RootMotion | JointId::Camera(_) | JointId::Texture(_) => {
                            fallback_name(target.joint)
                        }
                    };
                    KeptRow { bone, track, name: name.map(str::to_owned) }
                })
                .collect(),
            events: clip.events.len() as u64,
            skeleton: rig.name.clone(),
            thigh_rolls: match clip.extras.get(PoseRules::ROLLED) {
                Some(serde_json::Value::Array(names)) => {
                    names.iter().filter_map(|n| n.as_str().map(str::to_owned)).collect()
                }
                _ => Vec::new(),
            },
            unknown_joints: unknown,
            also_at: Vec::new(),
            warnings: clip.warnings.iter().map(ToString::to_string).collect(),
            warning_codes: clip.warnings.iter().map(|w| w.code().to_owned()).collect(),
        }
    }
}

/// Something that failed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ErrorRow {
    /// The input, as it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Entry, clip or object in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<String>,
    /// Byte offset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// What was found and what was expected.
    pub message: String,
    /// The output file that was written all the same, without what failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
}

impl UseRow {
    /// The row of an object that the input of this relative path holds.
    pub fn new(source: &str, one: &ClipUse) -> Self {
        let hex = |id: &u64| format!("{id:X}");
        UseRow {
            class: one.class.to_owned(),
            source: source.to_owned(),
            id: hex(&one.id),
            name: one.name.clone(),
            pairs: one.pairs.iter().map(|pair| pair.each_ref().map(hex)).collect(),
            clips: one.clips.iter().map(hex).collect(),
        }
    }
}

impl From<&Error> for ErrorRow {
    fn from(e: &Error) -> Self {
        ErrorRow {
            file: e.file().map(|f| f.to_string_lossy().replace('\\', "/")),
            entry: e.entry().map(str::to_owned),
            offset: e.offset(),
            message: e.message().to_owned(),
            output: None,
        }
    }
}

/// As [`Error`] prints itself.
impl fmt::Display for ErrorRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for place in [&self.file, &self.entry].into_iter().flatten() {
            write!(f, "{place}: ")?;
        }
        if let Some(offset) = self.offset {
            write!(f, "at offset 0x{offset:X}: ")?;
        }
        f.write_str(&self.message)
    }
}

/// A sentence about an input or an output file as a whole.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NoteRow {
    /// Where it applies.
    pub source: String,
    /// The sentence.
    pub note: String,
    /// The output file of which it speaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
}

/// How an input was read, where the formats leave it open.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DecidedRow {
    /// The input.
    pub source: String,
    /// How many more inputs were read in the same ways and have no row of their own.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub alike: u64,
    /// Each way once, in a fixed order.
    pub decided: Vec<String>,
}

impl DecidedRow {
    /// How each of `inputs` was read so far: a row for each archive, and for files outside archives, of which there may
    /// be thousands, a row for those that were read in the same ways.
    pub fn of(inputs: &[Input], sources: &[Option<Box<dyn Source>>]) -> Vec<Self> {
        let mut rows: Vec<DecidedRow> = Vec::new();
        let mut shared: FxHashMap<Vec<String>, usize> = FxHashMap::default();
        for (input, source) in inputs.iter().zip(sources) {
            let Some(source) = source else { continue };
            let decided = source.assumptions();
            if decided.is_empty() {
                continue;
            }
            if source.shares_assumptions() {
                if let Some(row) = shared.get(&decided) {
                    rows[*row].alike += 1;
                    continue;
                }
                shared.insert(decided.clone(), rows.len());
            }
            rows.push(DecidedRow { source: input.relative.clone(), alike: 0, decided });
        }
        rows
    }

    /// The input, and how many others the row speaks of.
    pub fn inputs(&self) -> String {
        match self.alike {
            0 => self.source.clone(),
            n => format!("{} and {n} more", self.source),
        }
    }
}

/// An output file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FileRow {
    /// Path, relative to the output folder.
    pub output: String,
    /// Hashes of all that it depends on: what it is made of, what was chosen by, what was chosen.
    pub key: String,
    /// Bytes, those of companions included.
    pub bytes: u64,
    /// Its place among all files of the run, shards or not.
    pub order: u64,
}

/// Which clips an object of the game names: an AnimSet's pairs, an Entity's list.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UseRow {
    /// `AnimSet` or `Entity`.
    pub class: String,
    /// Where it stands.
    pub source: String,
    /// Its identity, hex.
    pub id: String,
    /// Its name.
    pub name: String,
    /// AnimSet: pairs of clip ids, hex.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pairs: Vec<[String; 2]>,
    /// Entity: clip ids, hex.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clips: Vec<String>,
}

/// Counts of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// Clips written.
    pub clips: u64,
    /// Files, companions not counted.
    pub files: u64,
    /// Keys of tracks that move joints.
    pub keys: u64,
    /// Failures.
    pub failures: u64,
    /// Clips with warnings.
    pub clips_with_warnings: u64,
    /// Clips that repeat others and were not written again.
    pub repeated: u64,
    /// Clips that the selection left out.
    pub left_out: u64,
    /// Clips in which thigh-roll bones follow their thighs.
    #[serde(default)]
    pub thigh_rolls: u64,
    /// Joints whose names no dictionary knows: clips that move each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unknown_joints: BTreeMap<String, u64>,
    /// Tracks that no joint shows: how many of each number or kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tracks_kept: BTreeMap<String, u64>,
}

/// The whole manifest. Its file has one row a line, and what is long comes last, so that it can be read and written
/// row by row: see [`read`] and [`Manifest::write`].
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Manifest {
    /// Program and version.
    pub generator: String,
    /// Which part of the work it speaks of: `K/N`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<String>,
    /// Counts.
    #[serde(default)]
    pub totals: Totals,
    /// Failures.
    #[serde(default)]
    pub errors: Vec<ErrorRow>,
    /// Notes on inputs and files.
    #[serde(default)]
    pub notes: Vec<NoteRow>,
    /// How inputs were read, where the formats leave it open.
    #[serde(default)]
    pub decided: Vec<DecidedRow>,
    /// Objects that name clips.
    #[serde(default)]
    pub uses: Vec<UseRow>,
    /// Output files, in the order of the inputs.
    #[serde(default)]
    pub files: Vec<FileRow>,
    /// Clips, in the order of their files.
    #[serde(default)]
    pub clips: Vec<ClipRow>,
}

impl Manifest {
    /// Writes everything but [`Manifest::files`] and [`Manifest::clips`], whose rows the two functions write: each
    /// as JSON on one line, through [`Rows::row`] or [`Rows::raw`].
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write<W: Write>(
        &self,
        out: &mut W,
        files: impl FnOnce(&mut Rows<'_, W>) -> io::Result<()>,
        clips: impl FnOnce(&mut Rows<'_, W>) -> io::Result<()>,
    ) -> io::Result<()> {
        write!(out, "{{\n\"generator\": {}", serde_json::to_string(&self.generator)?)?;
        if let Some(shard) = &self.shard {
            write!(out, ",\n\"shard\": {}", serde_json::to_string(shard)?)?;
        }
        write!(out, ",\n\"totals\": {}", serde_json::to_string(&self.totals)?)?;
        fn all<W: Write, T: Serialize>(rows: &mut Rows<'_, W>, all: &[T]) -> io::Result<()> {
            all.iter().try_for_each(|row| rows.row(row))
        }
        list(out, "errors", |rows| all(rows, &self.errors))?;
        list(out, "notes", |rows| all(rows, &self.notes))?;
        list(out, "decided", |rows| all(rows, &self.decided))?;
        list(out, "uses", |rows| all(rows, &self.uses))?;
        list(out, "files", files)?;
        list(out, "clips", clips)?;
        out.write_all(b"\n}\n")
    }
}

fn list<W: Write>(
    out: &mut W,
    name: &str,
    fill: impl FnOnce(&mut Rows<'_, W>) -> io::Result<()>,
) -> io::Result<()> {
    write!(out, ",\n\"{name}\": [")?;
    let mut rows = Rows { out, first: true };
    fill(&mut rows)?;
    let empty = rows.first;
    out.write_all(if empty { b"]" } else { b"\n]" })
}

/// Rows of one list of a manifest that is being written.
#[derive(Debug)]
pub struct Rows<'a, W> {
    out: &'a mut W,
    first: bool,
}

impl<W: Write> Rows<'_, W> {
    /// Writes a row.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn row(&mut self, row: &impl Serialize) -> io::Result<()> {
        self.separate()?;
        serde_json::to_writer(&mut *self.out, row)?;
        Ok(())
    }

    /// Writes a row that is JSON already.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn raw(&mut self, row: &[u8]) -> io::Result<()> {
        self.separate()?;
        self.out.write_all(row)
    }

    fn separate(&mut self) -> io::Result<()> {
        let separator: &[u8] = if self.first { b"\n " } else { b",\n " };
        self.first = false;
        self.out.write_all(separator)
    }
}

/// Reads a manifest row by row: `clip` gets each clip with all that comes before the clips in the file, whose own
/// list of clips stays empty. Returns that.
///
/// # Errors
/// What is no manifest.
pub fn read(from: impl io::Read, clip: &mut dyn FnMut(&Manifest, ClipRow)) -> serde_json::Result<Manifest> {
    let mut deserializer = serde_json::Deserializer::from_reader(from);
    let manifest = serde::Deserializer::deserialize_map(&mut deserializer, Reader(clip))?;
    deserializer.end()?;
    Ok(manifest)
}

struct Reader<'a>(&'a mut dyn FnMut(&Manifest, ClipRow));

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Manifest;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a manifest")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Manifest, A::Error> {
        let mut manifest = Manifest::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "generator" => manifest.generator = map.next_value()?,
                "shard" => manifest.shard = map.next_value()?,
                "totals" => manifest.totals = map.next_value()?,
                "errors" => manifest.errors = map.next_value()?,
                "notes" => manifest.notes = map.next_value()?,
                "decided" => manifest.decided = map.next_value()?,
                "uses" => manifest.uses = map.next_value()?,
                "files" => manifest.files = map.next_value()?,
                "clips" => map.next_value_seed(Clips(&manifest, self.0))?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(manifest)
    }
}

struct Clips<'a>(&'a Manifest, &'a mut dyn FnMut(&Manifest, ClipRow));

impl<'de> DeserializeSeed<'de> for Clips<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Clips<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of clips")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(row) = seq.next_element()? {
            self.1(self.0, row);
        }
        Ok(())
    }
}
