//! Resources to [`Clip`](crate::model::Clip)s and [`Skeleton`](crate::model::Skeleton)s.

pub mod anvil_sets;
pub mod anvil_skeleton;
pub mod anvil_tracks;
pub mod packed_quat;
pub mod rr;
pub mod sws;
pub mod ycd;
