//! What tests, benches and examples share: writers of inputs, readers of outputs, made from the format notes.
//!
//! `shared()` finds the folder of inputs with right values, `tool()` what make installs.

#![allow(clippy::print_stdout, clippy::print_stderr)]

pub mod anvil_clip;
pub mod anvil_container;
pub mod big;
pub mod evaluator;
pub mod glb;
pub mod khronos;
pub mod sample;
pub mod shown;
pub mod ycd_writer;

use std::path::PathBuf;

/// The folder with fixtures and corpus, or `None` (with a message) where this checkout stands alone.
pub fn shared() -> Option<PathBuf> {
    let folder = std::env::var_os("ANIM2GLTF_SHARED")
        .map(PathBuf::from)
        .unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"));
    if folder.join("fixtures").is_dir() {
        Some(folder)
    } else {
        eprintln!("skipped: {} is not there", folder.display());
        None
    }
}

/// What an environment variable says of a tool that `make test` installs, or `None` (with a message).
pub fn tool(variable: &str) -> Option<String> {
    let value = std::env::var(variable).ok().filter(|v| !v.is_empty());
    if value.is_none() {
        assert!(std::env::var("CI").is_err(), "{variable} must be set in CI: run `make test`");
        eprintln!("skipped: {variable} is not set (make test sets it)");
    }
    value
}
