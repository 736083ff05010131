//! A whole run: work in order on many threads, the journal, the output folder.

pub mod journal;
pub mod merge;
pub mod output;
pub mod run;
