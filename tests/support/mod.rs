//! What the tests share. `shared()` finds the folder of inputs with right values.
#![allow(dead_code)]

pub mod glb;
pub mod ycd_writer;

use std::path::PathBuf;

/// The folder with fixtures and corpus, or `None` (with a message) where this checkout stands alone.
pub fn shared() -> Option<PathBuf> {
    let folder = std::env::var_os("ANIM2GLTF_SHARED")
        .map(PathBuf::from)
        .unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared"));
    if folder.join("fixtures").is_dir() {
        Some(folder)
    } else {
        eprintln!("skipped: {} is not there", folder.display());
        None
    }
}
