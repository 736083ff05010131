//! Bytes to resources: [`forge`] finds the entries of an archive, [`data`] unpacks one, [`codec`] its blocks, [`walk`]
//! cuts the result into [`object::Object`]s, [`loose`] reads files outside archives; [`file`] is the front of them all.

pub mod codec;
pub mod data;
pub mod file;
pub mod forge;
pub mod loose;
pub mod object;
pub mod walk;

/// Limit of a payload's unpacked size, bytes.
pub const MAX_UNPACKED: usize = 1 << 30;
