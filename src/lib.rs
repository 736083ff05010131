//! Game animation to glTF and FBX: readers bring clips of Riders Republic, Shaun White Skateboarding
//! (Ubisoft Anvil) and GTA V (RAGE) into one curve model; passes work on it; writers emit files.
//!
//! ```text
//! bytes - container -> resource - read -> Clip - resample -> Clip - write -> .glb / .gltf / .fbx
//!                                  ^                                ^
//!                           packed values                    Skeleton, names
//! ```
//!
//! It flows one way: nothing in [`container`] or [`read`] knows of glTF, nothing in [`write`] of a game,
//! and [`model`] knows nobody.

// A reader of hostile input does not take chances; tests may.
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

pub mod batch;
pub mod bytes;
pub mod cli;
pub mod container;
pub mod error;
pub mod inspect;
pub mod model;
pub mod names;
pub mod read;
pub mod resample;
pub mod rig;
pub mod write;

pub use error::{Error, ErrorKind, Result};
