//! Resources to [`Clip`](crate::model::Clip)s and [`Skeleton`](crate::model::Skeleton)s.

pub mod anvil_sets;
pub mod anvil_skeleton;
pub mod anvil_tracks;
pub mod packed_quat;
pub mod rage_skeleton;
pub mod rr;
pub mod skeleton;
pub mod skeleton_fbx;
pub mod skeleton_gltf;
pub mod skeleton_xml;
pub mod sws;
pub mod xml;
pub mod ycd;
pub mod ycd_xml;
