//! A clip and what it is made of.

use std::fmt;

use glam::{Quat, Vec3};
use serde_json::{Map, Value};

use crate::model::time::Timeline;
use crate::model::warning::Warning;

/// Identity of a clip in its game: a hash or a resource id. Printed as upper-case hex without a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClipId {
    /// The id.
    pub value: u64,
    /// Digits that are printed at least.
    pub min_digits: u8,
}

impl fmt::Display for ClipId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:0width$X}", self.value, width = self.min_digits as usize)
    }
}

/// A joint, or one of the few other things that move, named by what the source file gives: never by a guess.
/// Names are resolved at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum JointId {
    /// The mover above the skeleton's root.
    RootMotion,
    /// A 16-bit bone tag.
    BoneTag(u16),
    /// The CRC-32 of the bone's name.
    Crc32(u32),
    /// A camera beside the skeleton, by the tag of its tracks. Unturned it looks along +Y, its top is +Z.
    Camera(u16),
    /// The texture coordinates of a material, by the tag of its tracks.
    Texture(u16),
}

impl JointId {
    /// Whether it is a joint of a skeleton (or can become one), and no camera and no texture.
    pub fn is_joint(self) -> bool {
        !matches!(self, JointId::Camera(_) | JointId::Texture(_))
    }
}

/// A track that moves no joint: its number or kind in the source, and the field's name for it where known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OtherTrack {
    /// Number or kind of the track in the source.
    pub number: u8,
    /// Name, where known.
    pub name: Option<&'static str>,
}

/// What of the joint a track moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Property {
    /// Parent-local translation, metres.
    Translation,
    /// Parent-local rotation.
    Rotation,
    /// Parent-local scale.
    Scale,
    /// Vertical field of view of a camera, degrees.
    FieldOfView,
    /// Offset of texture coordinates, in textures, v down: x, y; z is 0. The last that is done to them.
    UvOffset,
    /// Turn of texture coordinates, radians, from +v to +u: (u, v) to (u cos + v sin, v cos - u sin).
    UvRotation,
    /// Scale of texture coordinates: x, y; z is 1. The first that is done to them.
    UvScale,
    /// Something that has no joint: kept beside the animation.
    Other(OtherTrack),
}

/// What a track moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Target {
    /// Which joint.
    pub joint: JointId,
    /// What of it.
    pub property: Property,
}

/// How the source plays a curve between two keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Interpolation {
    /// Quaternion components linearly, then normalised.
    Nlerp,
    /// Components linearly.
    Linear,
    /// The earlier key holds.
    Step,
}

/// The values of a curve, one per key.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Translations (metres) or scales.
    Vec3(Vec<Vec3>),
    /// Unit quaternions x, y, z, w.
    Quat(Vec<Quat>),
    /// Numbers.
    Scalar(Vec<f32>),
    /// Bytes whose meaning is not known: `width` bytes a key, little-endian.
    Raw {
        /// Bytes a key, 1 to 8.
        width: u8,
        /// All keys, in order.
        bytes: Vec<u8>,
    },
}

impl Values {
    /// Number of values.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Values::Vec3(v) => v.len(),
            Values::Quat(v) => v.len(),
            Values::Scalar(v) => v.len(),
            Values::Raw { width, bytes } => bytes.len() / (*width).max(1) as usize,
        }
    }

    /// Whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Values over time with their interpolation.
///
/// A curve holds either one value for each key of its track's timeline or, where all keys are equal to the
/// bit, a single value ([`Curve::is_constant`]).
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// How the source plays it between keys.
    pub interpolation: Interpolation,
    /// Its values.
    pub values: Values,
}

impl Curve {
    /// Whether one value stands for all keys.
    #[inline]
    pub fn is_constant(&self) -> bool {
        self.values.len() == 1
    }
}

/// One curve of a clip: what it moves, when its keys are, its values.
#[derive(Debug, Clone, PartialEq)]
pub struct Track {
    /// What it moves.
    pub target: Target,
    /// Index into [`Clip::timelines`].
    pub timeline: u32,
    /// Its values.
    pub curve: Curve,
}

/// Something that happens at an instant or over a span of a clip.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Name, or `hash_XXXXXXXX` where it is not known.
    pub name: String,
    /// Begin, seconds of the clip.
    pub start_s: f64,
    /// End, seconds of the clip; equal to the begin for an instant.
    pub end_s: f64,
    /// Its attributes.
    pub attributes: Map<String, Value>,
}

/// One animation of one game, in the source's space and with the source's keys.
#[derive(Debug, Clone, PartialEq)]
pub struct Clip {
    /// Identity in its game.
    pub id: ClipId,
    /// The whole name that the source gives.
    pub name: String,
    /// The name that people call it by: what an animation in a file is named.
    pub short_name: String,
    /// Which game, by its [code](crate::source::Game::code).
    pub game: &'static str,
    /// Where it comes from: the path relative to what was given, with `/`; entries of archives behind it.
    pub source: String,
    /// Length in seconds. Keys may stand after it; they are kept.
    pub length_s: f64,
    /// Whether values are deltas to a pose and no poses.
    pub additive: bool,
    /// When keys are; tracks point here.
    pub timelines: Vec<Timeline>,
    /// The curves.
    pub tracks: Vec<Track>,
    /// Events with times.
    pub events: Vec<Event>,
    /// Everything else that the source says of the clip.
    pub extras: Map<String, Value>,
    /// What a reader of the report should know: deviations, junk, assumptions.
    pub warnings: Vec<Warning>,
}

impl Clip {
    /// The timeline of `track`.
    #[inline]
    pub fn timeline(&self, track: &Track) -> &Timeline {
        &self.timelines[track.timeline as usize]
    }

    /// Puts `timeline` into the clip, or finds the equal one that is there. Returns its index.
    pub fn add_timeline(&mut self, timeline: Timeline) -> u32 {
        match self.timelines.iter().position(|t| *t == timeline) {
            Some(i) => i as u32,
            None => {
                self.timelines.push(timeline);
                (self.timelines.len() - 1) as u32
            }
        }
    }

    /// The highest key rate among the clip's joint tracks, in Hz; that of any track where none moves a joint.
    pub fn rate_hz(&self) -> Option<f64> {
        let rate = |joints_only: bool| {
            self.tracks
                .iter()
                .filter(|t| !joints_only || !matches!(t.target.property, Property::Other(_)))
                .filter_map(|t| {
                    let timeline = self.timeline(t);
                    timeline.clock.rate_hz().map(|hz| hz * timeline.window.rate)
                })
                .reduce(f64::max)
        };
        rate(true).or_else(|| rate(false))
    }
}
