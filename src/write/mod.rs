//! Clips and a rig to files. Knows no game.

pub mod gltf;
pub mod scene;
