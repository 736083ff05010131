//! `verify`: its arguments and its run.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args as Group;
use serde_json::json;

use crate::cli::output;
use crate::compare::sources;
use crate::compare::verify::{Report, Summary, Worst, verify};
use crate::error::{Error, Result};
use crate::games::GAMES;
use crate::source::ReadOptions;

/// Options of `verify`.
#[derive(Debug, Group)]
#[command(after_help = "\
Exit code: 0 all compared (and within the bounds given), 1 past a bound, 2 something could not be compared.")]
pub struct Args {
    /// What was converted: a file or a folder
    #[arg(value_name = "SOURCE")]
    pub source: PathBuf,
    /// What came of it: a .glb, .gltf or .fbx, or the output folder
    #[arg(value_name = "OUTPUT")]
    pub output: PathBuf,
    /// Largest error allowed anywhere, at any instant: mm of a point 10 cm from a joint, in model space
    #[arg(long, value_name = "MM", value_parser = bound)]
    pub max: Option<f64>,
    /// Largest error allowed at keys of the source, mm at 10 cm
    #[arg(long, value_name = "MM", value_parser = bound)]
    pub max_keys: Option<f64>,
    /// Largest angle allowed between the rotations of a joint, anywhere, degrees
    #[arg(long, value_name = "DEG", value_parser = bound)]
    pub max_deg: Option<f64>,
    /// The skeleton that the conversion was given
    #[arg(long, value_name = "FILE")]
    pub skeleton: Option<PathBuf>,
    /// The bone names that the conversion was given
    #[arg(long, value_name = "FILE")]
    pub names: Vec<PathBuf>,
    /// Codec of packed blocks, instead of the one that each container shows
    #[arg(long, value_name = "CODEC")]
    pub codec: Option<String>,
    /// A line a clip
    #[arg(short, long)]
    pub verbose: bool,
    /// Everything as JSON on standard output
    #[arg(long)]
    pub json: bool,
}

/// A number that something can be held against.
pub(super) fn bound(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(v) if v >= 0.0 && v.is_finite() => Ok(v),
        _ => Err("expected a number from 0 on".to_owned()),
    }
}

/// Verifies and prints.
pub fn run(args: &Args) -> Result<ExitCode> {
    let options = sources::Options {
        skeleton: args.skeleton.clone(),
        names: args.names.clone(),
        games: GAMES,
        read: ReadOptions { codec: args.codec.clone() },
    };
    let summary = verify(&args.source, &args.output, &options)?;
    for problem in &summary.not_compared {
        output::message(format_args!("error: {problem}"));
    }
    let code = exit_code(args, &summary);
    if args.json {
        output::result(as_json(&summary, code)?);
    } else {
        output::results(|out| as_text(out, args, &summary));
    }
    Ok(ExitCode::from(code))
}

fn exit_code(args: &Args, summary: &Summary) -> u8 {
    let past = |bound: Option<f64>, worst: Option<&Worst>| {
        bound.is_some_and(|bound| worst.is_some_and(|w| w.value > bound))
    };
    if !summary.not_compared.is_empty() || summary.clips.is_empty() {
        return 2;
    }
    let is_past = summary.clips.iter().any(|c| {
        past(args.max, c.anywhere_mm.as_ref())
            || past(args.max_keys, c.at_keys_mm.as_ref())
            || past(args.max_deg, c.at_keys_deg.as_ref())
            || past(args.max_deg, c.between_deg.as_ref())
    });
    u8::from(is_past)
}

fn as_json(summary: &Summary, code: u8) -> Result<String> {
    let place = |found: Option<(&Report, &Worst)>| {
        found.map(|(clip, worst)| json!({ "clip": clip.name, "id": clip.id, "worst": worst }))
    };
    let value = json!({
        "exitCode": code,
        "worst": {
            "atKeysMm": place(summary.worst(|c| c.at_keys_mm.as_ref())),
            "betweenMm": place(summary.worst(|c| c.between_mm.as_ref())),
            "anywhereMm": place(summary.worst(|c| c.anywhere_mm.as_ref())),
            "atKeysDeg": place(summary.worst(|c| c.at_keys_deg.as_ref())),
            "betweenDeg": place(summary.worst(|c| c.between_deg.as_ref())),
        },
        "clips": summary.clips,
        "notCompared": summary.not_compared,
        "notConverted": summary.not_converted,
    });
    serde_json::to_string_pretty(&value).map_err(|e| Error::unsupported(e.to_string()))
}

fn as_text(out: &mut dyn Write, args: &Args, summary: &Summary) -> std::io::Result<()> {
    if args.verbose {
        for clip in &summary.clips {
            writeln!(
                out,
                "{} {}: at keys {}, between {}; rotations {}, {}",
                clip.output,
                clip.animation,
                short(clip.at_keys_mm.as_ref(), "mm"),
                short(clip.between_mm.as_ref(), "mm"),
                short(clip.at_keys_deg.as_ref(), "deg"),
                short(clip.between_deg.as_ref(), "deg"),
            )?;
        }
    }
    let instants: usize = summary.clips.iter().map(|c| c.instants).sum();
    writeln!(
        out,
        "{} clips compared at {instants} instants; model-space error of points 10 cm from each joint:",
        summary.clips.len()
    )?;
    let mut line = |label: &str, unit: &str, found: Option<(&Report, &Worst)>| match found {
        Some((clip, worst)) => writeln!(
            out,
            "  {label:<28}{:.6} {unit} at {}, {:.4} s, in {} ({})",
            worst.value, worst.joint, worst.time_s, clip.animation, clip.output
        ),
        None => writeln!(out, "  {label:<28}none"),
    };
    line("at keys", "mm", summary.worst(|c| c.at_keys_mm.as_ref()))?;
    line("between keys", "mm", summary.worst(|c| c.between_mm.as_ref()))?;
    line("anywhere", "mm", summary.worst(|c| c.anywhere_mm.as_ref()))?;
    line("largest rotation at keys", "deg", summary.worst(|c| c.at_keys_deg.as_ref()))?;
    line("largest rotation between", "deg", summary.worst(|c| c.between_deg.as_ref()))?;
    if summary.not_converted > 0 {
        writeln!(out, "{} clips of the source are not in the output", summary.not_converted)?;
    }
    if !summary.not_compared.is_empty() {
        writeln!(out, "{} not compared", summary.not_compared.len())?;
    }
    Ok(())
}

fn short(worst: Option<&Worst>, unit: &str) -> String {
    worst.map_or_else(
        || format!("0 {unit}"),
        |w| format!("{:.6} {unit} ({}, {:.4} s)", w.value, w.joint, w.time_s),
    )
}
