//! One folder for each engine whose games are read, and one for the user's own files.

pub mod anvil;
pub mod own;
pub mod rage;
