//! The arguments as they are typed.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum To {
    /// Binary glTF, one file
    Glb,
    /// glTF text with a .bin beside it
    Gltf,
}

/// Converts animation of GTA V to glTF that opens in Blender as a moving skeleton.
#[derive(Debug, Parser)]
#[command(
    version,
    about,
    max_term_width = 100,
    after_help = "\
Examples:
  anim2gltf move_m@generic.ycd -o out/        one dictionary to out/move_m@generic.glb
  anim2gltf clips/ -o out/                    every dictionary below a folder, folders kept
  anim2gltf clips/ -o out/ --to gltf          text that reads well in a diff

Each run writes out/manifest.json, which says of each clip where it is and what a file cannot hold.
Exit code: 0 all good, 1 some inputs failed, 2 nothing done or wrong usage."
)]
pub struct Args {
    /// Clip dictionaries (.ycd), or folders that hold them
    #[arg(required = true, value_name = "INPUT")]
    pub inputs: Vec<PathBuf>,

    /// The folder to write to; it is made where it is missing
    #[arg(short, long, value_name = "OUT", required = true)]
    pub out: Option<PathBuf>,

    /// What to write
    #[arg(long, value_enum, default_value_t = To::Glb, value_name = "FORMAT")]
    pub to: To,

    /// Say nothing but errors
    #[arg(short, long)]
    pub quiet: bool,
}
