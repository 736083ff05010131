//! Clips and a rig to files. Knows no game.

pub mod format;
pub mod gltf;
pub mod manifest;
pub mod scene;
