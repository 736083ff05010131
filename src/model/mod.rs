//! The one intermediate curve model: [`Clip`], [`Track`], [`Curve`], [`Timeline`], [`Skeleton`], [`Event`],
//! [`Warning`].
//!
//! No I/O, no game and no file format is known here. Source space is right-handed, Z up, metres; quaternions
//! are x, y, z, w and unit.

mod clip;
pub mod first_pose;
pub mod naming;
pub mod sample;
mod skeleton;
mod time;
mod warning;

pub use clip::{
    Clip, ClipId, Curve, Event, Interpolation, JointId, OtherTrack, Property, Target, Track, Values,
};
pub use sample::Sampler;
pub use skeleton::{Joint, Skeleton, SkeletonFile, Trs};
pub use time::{Clock, EDGE_S, Positions, Timeline, Window};
pub use warning::{Field, Warning, WarningKind};
