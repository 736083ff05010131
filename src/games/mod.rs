//! The games: a folder for each engine, one for the user's own files, and the table.

pub mod anvil;
pub mod own;
pub mod rage;

use crate::source::Game;

/// Every game that is read. A file belongs to the first that knows it.
pub static GAMES: &[&dyn Game] = &[&anvil::RIDERS_REPUBLIC, &anvil::SHAUN_WHITE, &rage::GTA_V];
