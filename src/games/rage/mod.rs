//! RAGE: GTA V.

pub mod container;
pub mod cutscene;
pub mod names;
pub mod pose_rules;
pub mod skeleton;
pub mod xml;
pub mod ycd;
