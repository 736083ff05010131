//! The one place that prints. A reader that goes away, or a full device, never ends the work: the files are the
//! result, and the exit code says how it went.
//!
//! `println!` and `eprintln!` panic where they cannot write, and are denied in the rest of the crate.

use std::fmt::Display;
use std::io;
use std::io::{IsTerminal, Write};

use indicatif::{ProgressBar, ProgressDrawTarget};

/// A line on standard output: a result.
pub(super) fn result(line: impl Display) {
    results(|out| writeln!(out, "{line}"));
}

/// Several lines on standard output. What `write` cannot write is lost.
pub(super) fn results(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
    // One write each, and no line of another thread between.
    let mut text = Vec::new();
    if write(&mut text).is_ok() {
        let mut out = io::stdout().lock();
        let _ = out.write_all(&text).and_then(|()| out.flush());
    }
}

/// A line on standard error: what went wrong, or how it went.
pub(super) fn message(line: impl Display) {
    // Made before it is written: a line is one write.
    let text = format!("{line}\n");
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// What clap has to say: help and version on standard output, wrong usage on standard error.
pub(super) fn usage(said: &clap::Error) {
    let _ = said.print();
}

/// A progress bar on standard error where that is a terminal and it is `wanted`. It passes over what it cannot draw.
pub(super) fn bar(wanted: bool) -> ProgressBar {
    let target = if wanted && io::stderr().is_terminal() {
        ProgressDrawTarget::stderr_with_hz(10)
    } else {
        ProgressDrawTarget::hidden()
    };
    ProgressBar::with_draw_target(None, target)
}
