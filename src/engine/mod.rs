//! A whole run: work in order on many threads, the journal, the output folder.

mod closing;
mod job;
pub mod journal;
pub mod merge;
pub mod ordered;
pub mod output;
pub mod run;
