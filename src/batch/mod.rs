//! Finding the work, doing it, and the report of it.

pub mod find;
pub mod output;
pub mod rage;
pub mod run;

pub use run::{Outcome, Progress, Settings, run};
