//! Clips and a rig to files. Knows no game.

pub mod fbx;
pub mod gltf;
pub mod preview;
pub mod scene;
