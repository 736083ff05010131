//! The command line: raw arguments ([`args`]) to validated settings, and the run of each command.

pub mod args;
mod progress;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

use crate::batch::{self, Settings};
use crate::write::format;

/// Runs the program with the arguments of the process.
pub fn main() -> ExitCode {
    run(std::env::args_os())
}

/// Runs the program with `arguments`, of which the first is its name.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args = match args::Args::try_parse_from(arguments) {
        Ok(args) => args,
        Err(e) => {
            // Help and version go to standard output with 0; wrong usage to standard error with 2.
            let _ = e.print();
            return ExitCode::from(if e.use_stderr() { 2 } else { 0 });
        }
    };
    convert(args)
}

fn convert(args: args::Args) -> ExitCode {
    let settings = Settings {
        inputs: args.inputs,
        out: args.out.unwrap_or_default(),
        write: format::Options {
            format: match args.to {
                args::To::Glb => format::Format::Glb,
                args::To::Gltf => format::Format::Gltf,
            },
            ..format::Options::default()
        },
        tolerance_deg: 0.05,
    };
    let mut progress = progress::Terminal::new(args.quiet);
    let result = batch::run(&settings, &mut progress);
    progress.finish();
    match result {
        Ok(outcome) => {
            if !args.quiet {
                eprintln!("{}", progress::summary(&outcome, &settings.out));
            }
            ExitCode::from(outcome.exit_code())
        }
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::from(2)
        }
    }
}
