//! RAGE clip dictionaries (.ycd, RSC7 version 46): clips that play windows of animations.
//!
//! Reading goes in four steps: [`dictionary`] walks the maps and reads the records, [`sequence`] reads the channels of a block and
//! decodes a column of values, [`animation`] makes whole tracks of the blocks, [`clips`] takes the keys of
//! the windows and makes [`Clip`](crate::model::Clip)s. The XML form of the same dictionaries enters at the records.

pub mod animation;
pub mod bits;
pub mod clips;
pub mod dictionary;
mod non_joint_tracks;
pub mod sequence;

pub use clips::{Census, DefaultSkeleton, default_skeleton, read};
pub use dictionary::Dictionary;
