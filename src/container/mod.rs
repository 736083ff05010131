//! Bytes to resources: archives, data containers and their codecs, loose files.

pub mod object;
pub mod read_at;
pub mod rpf7;
pub mod rsc7;
