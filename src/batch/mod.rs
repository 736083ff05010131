//! The whole of a run: finding the work, doing it in parallel, resuming, and the report.
//!
//! [`find`] turns what was given into files; [`work`] splits files into items (a dictionary, or one Animation of
//! an archive) and reads an item's clips; [`run`] takes items round by round through the passes and a writer;
//! [`cutscene`] joins dictionaries on request;
//! [`output`] keeps files whole and paths apart; [`journal`] remembers what is done; [`report`] says what was.

pub mod check;
pub mod cutscene;
pub mod find;
pub mod journal;
pub mod merge;
pub mod output;
pub mod report;
pub mod run;
pub mod skeletons;
pub mod work;

pub use run::{Outcome, Progress, Settings, pack, run};
