//! The user's own files: .glb, .gltf and .fbx, as skeletons and to be held against a source.

pub mod fbx;
mod fbx_records;
pub mod gltf;
pub mod open;
mod rest_pose;
pub mod scene;
pub mod skeleton;
mod transform;

/// Endings of the files that are read, with the dot.
pub const ENDINGS: &[&str] = &[".glb", ".gltf", ".fbx"];
