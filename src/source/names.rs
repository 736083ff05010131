//! Names of joints: what the games know, and what the user lists.

use std::fs;
use std::path::Path;

use rustc_hash::FxHashMap;

use super::game::Game;
use crate::error::{Error, Result};
use crate::model::JointId;
use crate::model::naming::JointNames;

/// Resolves joints into names: first by the user's lists, then by the games' own dictionaries.
#[derive(Debug, Clone)]
pub struct Names {
    games: &'static [&'static dyn Game],
    listed: FxHashMap<JointId, String>,
}

impl Names {
    /// What the games know.
    pub fn new(games: &'static [&'static dyn Game]) -> Self {
        Names { games, listed: FxHashMap::default() }
    }

    /// With the names of the text files `paths`, one a line.
    ///
    /// # Errors
    /// Io.
    pub fn with_files(games: &'static [&'static dyn Game], paths: &[impl AsRef<Path>]) -> Result<Self> {
        let mut names = Names::new(games);
        for path in paths {
            let path = path.as_ref();
            let bytes = fs::read(path).map_err(|e| Error::io("cannot be read", e).in_file(path))?;
            names.add(&String::from_utf8_lossy(&bytes));
        }
        Ok(names)
    }

    /// The games.
    pub fn games(&self) -> &'static [&'static dyn Game] {
        self.games
    }

    /// Adds the names of `text`, one a line. Empty lines and a carriage return at a line's end are passed over. A
    /// later name for the same joint replaces an earlier one: the user knows better.
    pub fn add(&mut self, text: &str) {
        for name in text.trim_start_matches('\u{FEFF}').lines().filter(|name| !name.is_empty()) {
            for id in self.games.iter().filter_map(|g| g.listed_joint_id(name)) {
                self.listed.insert(id, name.to_owned());
            }
        }
    }
}

impl JointNames for Names {
    fn joint_name(&self, id: JointId) -> Option<&str> {
        match self.listed.get(&id) {
            Some(name) => Some(name),
            None => self.games.iter().find_map(|g| g.joint_name(id)),
        }
    }
}
