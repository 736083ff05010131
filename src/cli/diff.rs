//! `diff`: its arguments and its run.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args as Group;
use serde_json::json;

use crate::cli::output;
use crate::cli::verify::bound;
use crate::compare::diff::{ClipDiff, Options, Outcome, Status, diff};
use crate::compare::html;
use crate::error::{Error, Result};

/// Changes of a clip that its line names; --json has all.
const NAMED: usize = 6;

/// Options of `diff`.
#[derive(Debug, Group)]
#[command(after_help = "\
Without bounds, anything beyond float rounding (0.001 mm, 0.001 degrees) is different, and so is a key that
stands at another time. With --max-mm or --max-deg, curves and rest poses may differ up to what is given; where
only one is given, the other is not looked at. Names, joints, events, extras, lengths and interpolation always count.

Exit code: 0 equal, 1 different, 2 could not compare.")]
pub struct Args {
    /// A .glb, .gltf or .fbx, or a folder of them
    #[arg(value_name = "OLD")]
    pub old: PathBuf,
    /// The file or folder to hold against it; the formats may differ
    #[arg(value_name = "NEW")]
    pub new: PathBuf,
    /// Largest distance allowed, mm of a point 10 cm from a joint, in model space
    #[arg(long, value_name = "MM", value_parser = bound)]
    pub max_mm: Option<f64>,
    /// Largest angle allowed between the rotations of a joint, degrees
    #[arg(long, value_name = "DEG", value_parser = bound)]
    pub max_deg: Option<f64>,
    /// Everything counts, down to the bytes: key counts, names of accessors, order of JSON
    #[arg(long)]
    pub strict: bool,
    /// A line only for what differs
    #[arg(short, long)]
    pub quiet: bool,
    /// Everything as JSON on standard output
    #[arg(long)]
    pub json: bool,
    /// A page with the curves of the worst clips
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// Compares and prints.
pub fn run(args: &Args) -> Result<ExitCode> {
    let options = Options::new(args.max_mm, args.max_deg, args.strict);
    let outcome = diff(&args.old, &args.new, &options)?;
    for error in &outcome.errors {
        output::message(format_args!("error: {error}"));
    }
    if let Some(path) = &args.html {
        let title = format!("{} and {}", args.old.display(), args.new.display());
        let page = html::page(&outcome, &title)?;
        std::fs::write(path, page).map_err(|e| Error::io("cannot be written", e).in_file(path))?;
    }
    if args.json {
        let value = json!({
            "equal": outcome.exit_code() == 0,
            "exitCode": outcome.exit_code(),
            "files": outcome.files,
            "errors": outcome.errors,
        });
        let text = serde_json::to_string_pretty(&value).map_err(|e| Error::unsupported(e.to_string()))?;
        output::result(text);
    } else {
        output::results(|out| as_text(out, &outcome, args.quiet));
    }
    Ok(ExitCode::from(outcome.exit_code()))
}

fn as_text(out: &mut dyn Write, outcome: &Outcome, quiet: bool) -> std::io::Result<()> {
    let mut different = 0;
    let mut clips = 0;
    for file in &outcome.files {
        for change in &file.changes {
            writeln!(out, "~ {}: {}", file.file, change.text)?;
        }
        for clip in &file.clips {
            clips += 1;
            different += usize::from(clip.status != Status::Equal);
            if !(quiet && clip.status == Status::Equal) {
                writeln!(out, "{}", line(&file.file, clip))?;
            }
        }
    }
    let files = outcome.files.iter().filter(|f| !f.is_equal()).count();
    writeln!(
        out,
        "{clips} clips in {} files: {different} different, in {files} files{}",
        outcome.files.len(),
        match outcome.errors.len() {
            0 => String::new(),
            n => format!("; {n} could not be compared"),
        }
    )
}

/// One line: a mark, the file, the clip, what differs.
fn line(file: &str, clip: &ClipDiff) -> String {
    let name = match (&clip.old_name, &clip.new_name) {
        (Some(old), Some(new)) if old != new => format!("{old} -> {new}"),
        (_, Some(name)) | (Some(name), None) => name.clone(),
        (None, None) => String::new(),
    };
    let mark = match clip.status {
        Status::Equal => '=',
        Status::Changed => '~',
        Status::Renamed => '>',
        Status::Added => '+',
        Status::Removed => '-',
    };
    let mut parts = Vec::new();
    match clip.status {
        Status::Equal => parts.push("equal".to_owned()),
        Status::Renamed => parts.push("clip renamed".to_owned()),
        Status::Added => parts.push("clip added".to_owned()),
        Status::Removed => parts.push("clip removed".to_owned()),
        Status::Changed => {}
    }
    if clip.status != Status::Equal {
        let place = |w: &crate::compare::verify::Worst, unit: &str| {
            format!("{:.4} {unit} at {} ({:.4} s)", w.value, w.joint, w.time_s)
        };
        parts.extend(clip.largest_mm.as_ref().map(|w| place(w, "mm")));
        parts.extend(clip.largest_deg.as_ref().map(|w| place(w, "deg")));
        if let Some(joint) = clip.joints.first() {
            let more = match clip.joints.len() - 1 {
                0 => String::new(),
                n => format!(" and {n} more joints"),
            };
            parts.push(format!("moves otherwise: {}{more}", joint.joint));
        }
        parts.extend(clip.changes.iter().take(NAMED).map(|c| c.text.clone()));
        if clip.changes.len() > NAMED {
            parts.push(format!("and {} more differences", clip.changes.len() - NAMED));
        }
    }
    format!("{mark} {file}: {name}: {}", parts.join("; "))
}
