//! Clips and a rig to files. Knows no game.

pub mod buffers;
pub mod fbx;
pub mod format;
pub mod gltf;
pub mod preview;
pub mod scene;
