//! Progress on a terminal, errors always, a summary at the end.

use std::io::IsTerminal;
use std::path::Path;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::batch::{Outcome, Progress};
use crate::error::Error;

/// A bar on standard error where that is a terminal; errors in any case.
pub struct Terminal {
    bar: ProgressBar,
}

impl Terminal {
    /// Quiet: no bar.
    pub fn new(quiet: bool) -> Self {
        let target = if quiet || !std::io::stderr().is_terminal() {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr()
        };
        let bar = ProgressBar::with_draw_target(None, target);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {eta:>4} {wide_msg}") {
            bar.set_style(style);
        }
        Terminal { bar }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Progress for Terminal {
    fn begin(&mut self, total: usize) {
        self.bar.set_length(total as u64);
    }

    fn next(&mut self, name: &str) {
        self.bar.set_message(name.to_owned());
        self.bar.inc(1);
    }

    fn failed(&mut self, error: &Error) {
        self.bar.suspend(|| eprintln!("error: {error}"));
    }
}

/// One line about the whole run.
pub fn summary(outcome: &Outcome, out: &Path) -> String {
    let plural = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let mut text = format!(
        "{} in {} written to {}",
        plural(outcome.clips, "clip"),
        plural(outcome.files, "file"),
        out.display()
    );
    if outcome.errors > 0 {
        text.push_str(&format!(", {}", plural(outcome.errors, "error")));
    }
    if outcome.warned > 0 {
        text.push_str(&format!(", {} with warnings (see manifest.json)", plural(outcome.warned, "clip")));
    }
    text
}
