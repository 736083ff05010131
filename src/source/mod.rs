//! Inputs and the games that read them: the two traits that a game implements, finding inputs, opening them, looking
//! through archives, the choice of a skeleton.
//!
//! ```text
//! paths - find -> Input - Game::open -> Source - Source::visit -> Resource - Game::read -> Clips
//!                                          \- survey: skeletons, users of clips, units to read
//! ```

mod cache;
pub mod find;
pub mod game;
pub mod names;
pub mod sections;
pub mod skeletons;
pub mod survey;

pub use game::{
    Bytes, Census, ClipUse, Clips, Export, Found, Game, Input, JointScheme, Layout, PoseRules, ReadOptions,
    Resource, Scratch, Source, UnitCensus, UnitPlan,
};
pub use names::Names;

use crate::error::{Error, Result};

/// Opens an input.
///
/// # Errors
/// See [`Game::open`]; a file that no game knows is refused.
pub fn open(
    input: &Input,
    games: &'static [&'static dyn Game],
    options: &ReadOptions,
) -> Result<Box<dyn Source>> {
    match input.game {
        Some(game) => game.open(input, options).map_err(|e| e.in_file(&input.path)),
        None => {
            let mut expected: Vec<&str> = games.iter().map(|g| g.inputs()).collect();
            expected.dedup();
            let found = "found none of the known beginnings, expected ";
            Err(Error::unsupported(format!("{found}{}", expected.join(", or "))).at(0).in_file(&input.path))
        }
    }
}

/// The refusal of inputs among which is no file of a game.
pub fn nothing_found(games: &[&dyn Game], given: &[std::path::PathBuf]) -> Error {
    let mut endings: Vec<&str> = Vec::new();
    for ending in games.iter().flat_map(|g| g.endings()) {
        if !endings.contains(ending) {
            endings.push(ending);
        }
    }
    let last = endings.pop().unwrap_or_default();
    let endings =
        if endings.is_empty() { last.to_owned() } else { format!("{} or {last}", endings.join(", ")) };
    let given: Vec<String> = given.iter().map(|p| p.display().to_string()).collect();
    Error::usage(format!("found no {endings} in {}", given.join(", ")))
}

/// What clips of `input` say of where they come from: its relative path, and the archive's entry behind it.
pub fn text(input: &Input, layout: Layout, resource: &Resource<'_>) -> String {
    match layout {
        Layout::Folder => {
            format!("{}/{}", input.relative, resource.path.as_deref().unwrap_or(&resource.name))
        }
        Layout::File => input.relative.clone(),
    }
}
