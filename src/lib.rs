//! Game animation to glTF and FBX: readers bring clips of Riders Republic, Shaun White Skateboarding
//! (Ubisoft Anvil) and GTA V (RAGE) into one curve model; passes work on it; writers emit files.
//!
//! ```text
//! bytes - container -> resource - read -> Clip - resample -> Clip - write -> .glb / .gltf / .fbx
//!                                  ^                                ^

//! ```
//!
//! It flows one way. [`games`] know their own bytes and the [`model`]; [`formats`] know the model and their own bytes;
//! [`passes`] know the model alone.

// A reader of hostile input does not take chances; tests may.
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

pub mod cli;
pub mod compare;
pub mod convert;
pub mod engine;
pub mod error;
pub mod formats;
pub mod games;
pub mod io;
pub mod model;
pub mod passes;
pub mod report;
pub mod source;

pub use error::{Error, ErrorKind, Result};
