//! Resources to [`Clip`](crate::model::Clip)s and [`Skeleton`](crate::model::Skeleton)s.
pub mod rage_skeleton;
pub mod skeleton;
pub mod skeleton_fbx;
pub mod skeleton_gltf;
pub mod skeleton_xml;
pub mod xml;
pub mod ycd;
pub mod ycd_xml;
