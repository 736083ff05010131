//! What a run says: the manifest, the report for people, the census.

pub mod census;
pub mod manifest;
pub mod text;
