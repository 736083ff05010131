//! Bytes to resources: archives, data containers and their codecs, loose files.

pub mod object;
pub mod rsc7;
