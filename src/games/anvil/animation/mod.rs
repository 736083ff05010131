//! Animation resources to clips: one reader of tracks, a reader of the body for each game.

pub mod packed_quat;
pub mod riders_republic;
pub mod shaun_white;
pub mod tracks;
