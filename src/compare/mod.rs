//! Holding files against their source, and against each other.

pub mod diff;
pub mod evaluate;
pub mod html;
mod json;
pub mod measure;
pub mod pair;
pub mod sources;
pub mod verify;
