//! The command line: raw arguments ([`args`]) to validated settings, and the run of each command.

pub mod args;
mod check;
pub mod diff;
pub mod manual;
mod output;
mod progress;
pub mod verify;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::FromArgMatches;
use serde_json::json;

use crate::convert::settings::Settings;
use crate::convert::settings::{Globs, Passes, Select};
use crate::engine as batch;
use crate::error::{Error, Result};
use crate::formats::{Format, WriteOptions, gltf};
use crate::passes::RootMotion;
use crate::source::{PoseRules, ReadOptions};

/// Runs the program with the arguments of the process; `to` is what is written by default.
pub fn main(to: &'static dyn Format) -> ExitCode {
    run_with(std::env::args_os(), to)
}

/// Runs the program with `arguments`, of which the first is its name.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    run_with(arguments, &gltf::Glb)
}

/// As [`run`]; `to` is what is written by default.
pub fn run_with(arguments: impl IntoIterator<Item = OsString>, to: &'static dyn Format) -> ExitCode {
    let args = match args::command()
        .try_get_matches_from(arguments)
        .and_then(|matches| args::Args::from_arg_matches(&matches))
    {
        Ok(args) => args,
        Err(e) => {
            // Help and version go to standard output with 0; wrong usage to standard error with 2.
            output::usage(&e);
            return ExitCode::from(if e.use_stderr() { 2 } else { 0 });
        }
    };
    let result = match args.command {
        None => convert(args.convert, to),
        Some(args::Command::Check(args)) => check::run(&args),
        Some(args::Command::Diff(args)) => diff::run(&args),
        Some(args::Command::Verify(args)) => verify::run(&args),
        Some(args::Command::Merge(args)) => merge(&args),
        Some(args::Command::Man(args)) => manual::man(&args, args::command()),
        Some(args::Command::Completions(args)) => Ok(manual::completions(&args, args::command())),
    };
    result.unwrap_or_else(|e| {
        output::message(format_args!("error: {e}"));
        ExitCode::from(2)
    })
}

/// An exit code of 2 never comes without a reason.
const NO_CLIP: &str = "error: found no clip in the inputs, expected an Animation or a clip dictionary";

fn convert(args: args::Convert, to: &'static dyn Format) -> Result<ExitCode> {
    let (quiet, json, list) = (args.quiet, args.json, args.list);
    let settings = settings(args, to)?;
    let mut progress = progress::Terminal::new(quiet, json, list);
    let result = batch::run::run(&settings, &mut progress);
    progress.finish();
    let outcome = result?;
    if json {
        output::result(json!({
            "event": "end", "clips": outcome.clips, "finished": outcome.finished, "files": outcome.files,
            "errors": outcome.errors, "repeated": outcome.repeated, "leftOut": outcome.left_out,
            "stopped": outcome.stopped, "elsewhere": outcome.elsewhere, "keys": outcome.keys, "seconds": outcome.seconds,
            "exitCode": outcome.exit_code(),
        }));
    } else if !quiet && !list {
        output::message(progress::summary(&outcome, &settings.out));
    }
    if outcome.exit_code() == 2 && outcome.errors == 0 && !json {
        output::message(NO_CLIP);
    }
    Ok(ExitCode::from(outcome.exit_code()))
}

/// Validates what was typed.
fn settings(args: args::Convert, to: &'static dyn Format) -> Result<Settings> {
    let mut settings = Settings::new(args.inputs, args.out.unwrap_or_default(), args.to.unwrap_or(to));
    settings.write = WriteOptions {
        preview_mesh: args.preview_mesh,
        quantize_rotations: args.quantize,
        ..WriteOptions::default()
    };
    settings.select = Select {
        clips: Globs::new(&args.clip)?,
        exclude: Globs::new(&args.exclude)?,
        min_length_s: args.min_length,
        game: args.game,
    };
    settings.passes = Passes {
        bake: args.bake,
        reduce_mm: args.reduce,
        quantize: args.quantize,
        root_motion: match args.root_motion {
            args::RootMotionArg::Keep => RootMotion::Keep,
            args::RootMotionArg::Bake => RootMotion::Bake,
            args::RootMotionArg::Drop => RootMotion::Drop,
            args::RootMotionArg::Inplace => RootMotion::InPlace,
        },
        additive: args.additive,
        pose: PoseRules { thigh_roll: !args.no_thigh_roll, facial: args.facial },
        ..Passes::default()
    };
    settings.read = ReadOptions { codec: args.codec };
    settings.skeleton = args.skeleton;
    settings.names = args.names;
    if args.join_cutscene && settings.format.holds_records() {
        return Err(Error::usage(
            "--join-cutscene joins clips, and ycd.xml holds the records of one dictionary",
        ));
    }
    settings.join_sections = args.join_cutscene;
    settings.threads = args.threads;
    settings.bundle = args.bundle;
    settings.shard = args.shard;
    settings.force = args.force;
    settings.list = args.list;
    Ok(settings)
}

fn merge(args: &args::Merge) -> Result<ExitCode> {
    let merged = batch::merge::merge(&args.outs)?;
    let counts =
        format_args!("{} clips in {} files, {} failures", merged.clips, merged.files, merged.failures);
    output::message(counts);
    for shard in &merged.missing {
        output::message(format_args!("error: shard {shard} has no manifest: it has not run, or was stopped"));
    }
    Ok(ExitCode::from(u8::from(merged.failures > 0 || !merged.missing.is_empty())))
}
