//! Ubisoft Anvil: Riders Republic and Shaun White Skateboarding.

pub mod animation;
pub mod container;
pub mod names;
pub mod sets;
pub mod skeleton;
