//! Progress on a terminal, errors always, events for programs, a summary at the end.

use std::path::Path;

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use crate::cli::output;
use crate::engine::run::{Outcome, Progress};
use crate::report::manifest::{ClipRow, ErrorRow};

/// A bar on standard error where that is a terminal; errors in any case; with `json`, events on standard output.
pub struct Terminal {
    bar: ProgressBar,
    working: ProgressStyle,
    json: bool,
    list: bool,
}

impl Terminal {
    /// Quiet: no bar. List: a line a clip on standard output.
    pub fn new(quiet: bool, json: bool, list: bool) -> Self {
        let bar = output::bar(!quiet && !json);
        let style = |template| {
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
        };
        bar.set_style(style("{spinner} {wide_msg}"));
        let working = style("{bar:24} {percent:>3} %  {msg}  {eta} left  {prefix}");
        Terminal { bar, working, json, list }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn event(&self, event: &serde_json::Value) {
        if self.json {
            output::result(event);
        }
    }
}

impl Progress for Terminal {
    fn look(&mut self, name: &str) {
        self.bar.set_message(format!("looking through {name}"));
        self.bar.tick();
        self.event(&json!({ "event": "look", "name": name }));
    }

    fn begin(&mut self, units: usize, bytes: u64) {
        self.bar.set_style(self.working.clone());
        self.bar.set_message("");
        self.bar.set_length(bytes);
        self.event(&json!({ "event": "begin", "units": units, "bytes": bytes }));
    }

    fn advance(&mut self, units: usize, bytes: u64, name: &str, outcome: &Outcome) {
        // Bytes tell more of the time left than entries, which differ by a factor of thousands.
        self.bar.inc(bytes);
        if !self.bar.is_hidden() {
            let keys = outcome.fresh_keys as f64 / outcome.seconds.max(1e-3);
            self.bar.set_message(format!("{} clips, {} keys/s", outcome.clips, short(keys)));
            self.bar.set_prefix(name.to_owned());
        }
        if units > 0 {
            self.event(&json!({
                "event": "progress", "units": units, "bytes": bytes, "clips": outcome.clips,
                "keys": outcome.keys, "seconds": outcome.seconds, "name": name,
            }));
        }
    }

    fn clip(&mut self, row: &ClipRow, fresh: bool) {
        if self.json {
            let mut event = json!({ "event": if self.list { "listed" } else { "clip" }, "fresh": fresh });
            if let (Some(map), Ok(serde_json::Value::Object(row))) =
                (event.as_object_mut(), serde_json::to_value(row))
            {
                map.extend(row);
            }
            self.event(&event);
        } else if self.list {
            self.bar.suspend(|| {
                output::result(format_args!(
                    "{:>16}  {:>9.3} s  {:4}  {}  ({})",
                    row.id, row.duration, row.game, row.name, row.source
                ));
            });
        }
    }

    fn failed(&mut self, error: &ErrorRow) {
        self.bar.suspend(|| output::message(format_args!("error: {error}")));
        self.event(&json!({ "event": "error", "error": error }));
    }
}

fn short(n: f64) -> String {
    match n {
        n if n >= 1e6 => format!("{:.1}M", n / 1e6),
        n if n >= 1e3 => format!("{:.0}k", n / 1e3),
        n => format!("{n:.0}"),
    }
}

/// One line about the whole run.
pub fn summary(outcome: &Outcome, out: &Path) -> String {
    let plural = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let mut text = format!(
        "{}{} in {} written to {}",
        if outcome.stopped { "stopped: " } else { "" },
        plural(outcome.clips - outcome.finished, "clip"),
        plural(outcome.files, "file"),
        out.display()
    );
    let mut add = |n: usize, what: String| {
        if n > 0 {
            text.push_str(", ");
            text.push_str(&what);
        }
    };
    add(outcome.finished, format!("{} finished before", outcome.finished));
    add(outcome.repeated, format!("{} repeat others", outcome.repeated));
    add(outcome.left_out, format!("{} left out", outcome.left_out));
    add(outcome.elsewhere, format!("{} for other shards", outcome.elsewhere));
    add(outcome.errors, plural(outcome.errors, "error"));
    add(outcome.warned, format!("{} with warnings (see report.txt)", outcome.warned));
    text.push_str(&format!("; {:.2} s", outcome.seconds));
    text
}
