//! Inputs: finding them, opening them, what they hold, which skeleton a clip stands on.

pub mod find;
pub mod plan;
pub mod skeleton_file;
pub mod skeletons;
pub mod work;
