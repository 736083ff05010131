//! The whole of a run: finding the work, doing it in parallel, resuming, and the report.
//!
//! [`find`] turns what was given into files; [`plan`] looks through archives for what holds clips; [`work`] splits
//! files into items (a dictionary, or one Animation of an archive) and reads an item's clips; [`skeletons`] knows what
//! they stand on; [`cutscene`] joins dictionaries on request; [`pack`](mod@pack) takes clips through the passes and a writer; [`run`](mod@run) lets all threads do
//! that; [`output`] keeps files whole and paths apart; [`journal`] remembers what is done; [`report`] says what was.

pub mod check;
pub mod cutscene;
pub mod find;
pub mod journal;
mod make;
pub mod merge;
pub mod output;
pub mod pack;
pub mod plan;
pub mod report;
pub mod run;
pub mod settings;
pub mod skeletons;
pub mod work;

pub use pack::pack;
pub use run::{Outcome, Progress, Silent, run};
pub use settings::Settings;
