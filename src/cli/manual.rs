//! `man` and `completions`: made of the same definition as `--help`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args as Group, Command};
use clap_complete::Shell;

use super::output;
use crate::error::{Error, Result};

/// Options of `man`.
#[derive(Debug, Group)]
#[command(after_help = "\
Examples:
  anim2gltf man | man -l -                     read it
  anim2gltf man --out /usr/local/share/man/man1")]
pub struct Man {
    /// Write a page for each command into this folder, instead of the first one to standard output
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
}

/// Options of `completions`.
#[derive(Debug, Group)]
#[command(after_help = "\
Examples:
  anim2gltf completions bash > /etc/bash_completion.d/anim2gltf
  anim2gltf completions zsh > ~/.zfunc/_anim2gltf
  anim2gltf completions fish > ~/.config/fish/completions/anim2gltf.fish
  anim2gltf completions powershell >> $PROFILE")]
pub struct Completions {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    pub shell: Shell,
}

/// Prints the manual page of `command`, or writes those of all its commands.
pub fn man(args: &Man, command: Command) -> Result<ExitCode> {
    match &args.out {
        Some(folder) => {
            let io = |e| Error::io("cannot be written", e).in_file(folder);
            std::fs::create_dir_all(folder).map_err(io)?;
            clap_mangen::generate_to(command, folder).map_err(io)?;
        }
        None => output::results(|out| clap_mangen::Man::new(command).render(out)),
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the completions of `command`.
pub fn completions(args: &Completions, mut command: Command) -> ExitCode {
    let name = command.get_name().to_owned();
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command, name, &mut text);
    output::results(|out| out.write_all(&text));
    ExitCode::SUCCESS
}
