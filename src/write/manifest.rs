//! `manifest.json`: what was written, from what, and everything that a file could not say.

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::model::{Clip, JointId, Property, Skeleton};
use crate::rig::fallback_name;

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
    /// The key of a clip's extras that names the bones of [`ClipRow::thigh_rolls`].
    pub const THIGH_ROLLS: &str = "thighRolls";

    /// Describes `clip`, written as `animation` into `output`.
    pub fn new(clip: &Clip, output: &str, animation: &str, kept: &[usize], rig: &Skeleton) -> Self {
        let moved = || clip.tracks.iter().filter(|t| !matches!(t.target.property, Property::Other(_)));
        let mut unknown: Vec<String> = moved()
            .filter(|t| t.target.joint != JointId::RootMotion)
            .filter_map(|t| rig.joints()[rig.find(t.target.joint)?].name.clone())
            .filter(|name| is_fallback(name))
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
                        JointId::RageTag(tag) => tag.to_string(),
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
            thigh_rolls: match clip.extras.get(Self::THIGH_ROLLS) {
                Some(serde_json::Value::Array(names)) => {
                    names.iter().filter_map(|n| n.as_str().map(str::to_owned)).collect()
                }
                _ => Vec::new(),
            },
            unknown_joints: unknown,
            also_at: Vec::new(),
            warnings: clip.warnings.clone(),
        }
    }
}

/// Something that failed.
#[derive(Debug, Clone, Serialize, Deserialize)]
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
}

impl From<&Error> for ErrorRow {
    fn from(e: &Error) -> Self {
        ErrorRow {
            file: e.file().map(|f| f.to_string_lossy().replace('\\', "/")),
            entry: e.entry().map(str::to_owned),
            offset: e.offset(),
            message: e.message().to_owned(),
        }
    }
}

/// A sentence about an input as a whole.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NoteRow {
    /// Where it applies.
    pub source: String,
    /// The sentence.
    pub note: String,
}

/// An output file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FileRow {
    /// Path, relative to the output folder.
    pub output: String,
    /// Hash of all that it depends on.
    pub key: String,
    /// Bytes.
    pub bytes: u64,
}

/// Which clips an object of the game names: an AnimSet's pairs, an Entity's list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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

/// The whole manifest.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Manifest {
    /// Program and version.
    pub generator: String,
    /// Clips, in the order of the inputs.
    pub clips: Vec<ClipRow>,
    /// Failures.
    pub errors: Vec<ErrorRow>,
    /// Notes on inputs.
    #[serde(default)]
    pub notes: Vec<NoteRow>,
    /// Objects that name clips.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uses: Vec<UseRow>,
    /// Output files.
    #[serde(default)]
    pub files: Vec<FileRow>,
}

impl Manifest {
    /// As JSON, one field a line.
    ///
    /// # Errors
    /// None in practice: it is made of strings and numbers.
    pub fn to_json(&self) -> serde_json::Result<Vec<u8>> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        Ok(text)
    }
}
