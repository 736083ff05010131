//! CodeWalker's XML forms: clip dictionaries in and out, skeletons in.

pub mod read;
pub mod skeleton;
pub mod tree;
pub mod write;
