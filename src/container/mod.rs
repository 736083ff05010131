//! Bytes to resources: archives, data containers and their codecs, loose files.
//!
//! Anvil: [`anvil`] is the front; below it [`forge`] finds the entries of an archive, [`data`] unpacks one,
//! [`codec`] its blocks, [`walk`] cuts the result into [`object::Object`]s, and [`loose`] reads files outside archives.
//! RAGE: [`rpf7`] lists archives, [`rsc7`] opens resources.

pub mod anvil;
pub mod codec;
pub mod data;
pub mod forge;
pub mod loose;
pub mod object;
pub mod read_at;
pub mod rpf7;
pub mod rsc7;
pub mod walk;
