//! One resource to one file.

pub(crate) mod make;
pub mod pack;
pub mod pool;
pub mod rig;
pub mod settings;
