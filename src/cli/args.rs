//! The arguments as they are typed.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args as Group, CommandFactory, Parser, Subcommand, ValueEnum};

use crate::convert::settings::Additive;
use crate::formats::{FORMATS, Format};
use crate::games::GAMES;
use crate::passes::Bake;
use crate::source::Game;

/// What is the same whatever games there are; [`command`] adds what the tables say.
#[derive(Debug, Parser)]
#[command(
    name = "anim2gltf",
    version,
    max_term_width = 100,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
pub struct Args {
    /// Another command than conversion
    #[command(subcommand)]
    pub command: Option<Command>,

    /// The conversion
    #[command(flatten)]
    pub convert: Convert,
}

/// The one definition of the command line: of it come the parser, `--help`, the manual page and completions.
pub fn command() -> clap::Command {
    let titles: Vec<&str> = GAMES.iter().map(|g| g.title()).collect();
    let codes: Vec<&str> = GAMES.iter().map(|g| g.code()).collect();
    let (last, others) = codes.split_last().unwrap_or((&"", &[]));
    let endings = |of: fn(&dyn Game) -> &'static [&'static str]| {
        let mut all: Vec<&str> = Vec::new();
        for ending in GAMES.iter().flat_map(|g| of(*g)) {
            if !all.contains(ending) {
                all.push(ending);
            }
        }
        all.join(", ")
    };
    let inputs = format!("{}, or folders that hold them", endings(|g| g.endings()));
    let skeleton = format!(
        "Put the clips on this skeleton ({}, .glb, .gltf, .fbx), or on the best one of a folder",
        endings(|g| g.skeleton_endings())
    );
    let game = format!("Only clips of this game: {} or {last}", others.join(", "));
    Args::command()
        .about(format!("Converts game animation ({}) to files that open in Blender", titles.join(", ")))
        .after_help(examples())
        .mut_arg("inputs", |arg| arg.help(inputs))
        .mut_arg("skeleton", |arg| arg.help(skeleton))
        .mut_arg("game", |arg| arg.help(game).value_parser(PossibleValuesParser::new(codes)))
}

/// The examples of all games, and what there is to say of every run.
fn examples() -> String {
    let mut text = "Examples:\n".to_owned();
    for (arguments, what) in GAMES.iter().flat_map(|g| g.examples()) {
        // What an example does stands in a column of its own, below where there is no room.
        let command = format!("  anim2gltf {arguments}");
        match (what.is_empty(), command.len() < 46) {
            (true, _) => text.push_str(&command),
            (false, true) => text.push_str(&format!("{command:<46} {what}")),
            (false, false) => text.push_str(&format!("{command}\n{:<46} {what}", "")),
        }
        text.push('\n');
    }
    text.push_str(
        "
A run that was stopped goes on where it was when it is started again. Each run writes
out/manifest.json and out/report.txt: what was written, what was not, and why.
Exit code: 0 all good, 1 some inputs failed, 2 nothing done or wrong usage.",
    );
    text
}

/// Commands beside the conversion.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Decode everything, write nothing, print the census
    Check(Check),
    /// Compare two outputs by what they show: files or folders, .glb, .gltf or .fbx
    Diff(crate::cli::diff::Args),
    /// Hold an output against its source: the largest error in mm, at keys and between
    Verify(crate::cli::verify::Args),
    /// Join the manifests of shards into manifest.json and report.txt of the first folder
    Merge(Merge),
    /// Print the manual page (roff), or write the pages of all commands into a folder
    Man(super::manual::Man),
    /// Print completions for a shell
    Completions(super::manual::Completions),
}

/// Options of `check`.
#[derive(Debug, Group)]
pub struct Check {
    /// Archives, dictionaries, or folders that hold them
    #[arg(required = true, value_name = "INPUT")]
    pub inputs: Vec<PathBuf>,
    /// The census as JSON on standard output
    #[arg(long)]
    pub json: bool,
    /// Threads [default: all cores]
    #[arg(short = 'j', long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub threads: usize,
    /// Codec of packed blocks, instead of the one that each container shows
    #[arg(long, value_name = "CODEC")]
    pub codec: Option<String>,
}

/// Options of `merge`.
#[derive(Debug, Group)]
pub struct Merge {
    /// Output folders
    #[arg(required = true, value_name = "OUT")]
    pub outs: Vec<PathBuf>,
}

/// Options of the conversion.
#[derive(Debug, Group)]
pub struct Convert {
    /// Files of the games, or folders that hold them
    #[arg(required = true, value_name = "INPUT")]
    pub inputs: Vec<PathBuf>,

    /// The folder to write to; it is made where it is missing
    #[arg(short, long, value_name = "OUT", required_unless_present = "list")]
    pub out: Option<PathBuf>,

    /// What to write [default: glb; of anim2fbx: fbx]
    #[arg(long, value_name = "FORMAT", value_parser = format())]
    pub to: Option<&'static dyn Format>,

    /// Add a stick mesh on the joints, for readers that refuse a file without a mesh
    #[arg(long)]
    pub preview_mesh: bool,

    /// Only clips whose name (or id) matches; may be given several times
    #[arg(long, value_name = "GLOB", help_heading = "Which clips")]
    pub clip: Vec<String>,

    /// No clips whose name (or id) matches; may be given several times
    #[arg(long, value_name = "GLOB", help_heading = "Which clips")]
    pub exclude: Vec<String>,

    /// Only clips of at least this length
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 0.0,
        hide_default_value = true,
        help_heading = "Which clips"
    )]
    pub min_length: f64,

    /// Only clips of this game
    #[arg(long, value_name = "GAME", ignore_case = true, help_heading = "Which clips")]
    pub game: Option<String>,

    /// Say what would be converted, write nothing
    #[arg(long, help_heading = "Which clips")]
    pub list: bool,

    /// Put the clips on this skeleton, or on the best one of a folder
    #[arg(long, value_name = "FILE", help_heading = "Skeleton and names")]
    pub skeleton: Option<PathBuf>,

    /// More bone names: a text file, one a line
    #[arg(long, value_name = "FILE", help_heading = "Skeleton and names")]
    pub names: Vec<PathBuf>,

    /// Codec of packed blocks (stored, lzo1x, lzo2a, zstd, lz4, oodle), instead of the one that each container shows
    #[arg(long, value_name = "CODEC", help_heading = "Reading")]
    pub codec: Option<String>,

    /// A key on every frame of FPS (or of the clip's own rate: source); without it all source keys are kept
    #[arg(long, value_name = "FPS", value_parser = bake, allow_negative_numbers = true, help_heading = "Curves")]
    pub bake: Option<Bake>,

    /// Few keys: no point 10 cm from a joint moves more than MM, at any time
    #[arg(long, value_name = "MM", value_parser = positive, allow_negative_numbers = true, help_heading = "Curves")]
    pub reduce: Option<f64>,

    /// Rotations as 16-bit integers (glTF), where that costs less than --reduce (or 0.5 mm)
    #[arg(long, help_heading = "Curves")]
    pub quantize: bool,

    /// Root motion: keep it on a joint of its own, bake it into the root, drop it, or stay in place
    #[arg(long, value_enum, default_value_t = RootMotionArg::Keep, value_name = "MODE", help_heading = "Curves")]
    pub root_motion: RootMotionArg,

    /// Additive clips: deltas as they are, or `compose` on the rest pose, or `compose=CLIP` on that clip
    #[arg(long, default_value = "deltas", value_name = "MODE", value_parser = additive, help_heading = "Curves")]
    pub additive: Additive,

    /// Thigh-roll bones stay at rest; without it they follow their thighs where they have no rotation of their own
    #[arg(long, help_heading = "GTA V")]
    pub no_thigh_roll: bool,

    /// Let facial tracks move their bones, by what is guessed of them
    #[arg(long, help_heading = "GTA V")]
    pub facial: bool,

    /// Join the sections of a cutscene (NAME-0.ycd, NAME-1.ycd, ... of one folder) to OUT/NAME.glb, one animation an
    /// actor
    #[arg(long, help_heading = "GTA V")]
    pub join_cutscene: bool,

    /// Threads [default: all cores]
    #[arg(
        short = 'j',
        long,
        value_name = "N",
        default_value_t = 0,
        hide_default_value = true,
        help_heading = "The run"
    )]
    pub threads: usize,

    /// Up to N clips of one skeleton in a file; 0: a file for each dictionary or clip
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true, help_heading = "The run")]
    pub bundle: usize,

    /// Do part K of N of the work (K from 1); all parts may share one OUT, `anim2gltf merge OUT` joins their manifests
    #[arg(long, value_name = "K/N", value_parser = shard, help_heading = "The run")]
    pub shard: Option<(u32, u32)>,

    /// Convert everything again, also what an earlier run has finished
    #[arg(long, help_heading = "The run")]
    pub force: bool,

    /// Say nothing but errors
    #[arg(short, long, help_heading = "The run")]
    pub quiet: bool,

    /// Events as JSON lines on standard output, for programs
    #[arg(long, help_heading = "The run")]
    pub json: bool,
}

/// The formats of the table, by name.
fn format() -> impl TypedValueParser<Value = &'static dyn Format> {
    let names = FORMATS.iter().map(|format| PossibleValue::new(format.name()).help(format.about()));
    PossibleValuesParser::new(names)
        .try_map(|name| crate::formats::find(&name).ok_or("not the name of a format"))
}

fn shard(text: &str) -> Result<(u32, u32), String> {
    let parse = || {
        let (k, n) = text.split_once('/')?;
        let (k, n) = (k.trim().parse().ok()?, n.trim().parse().ok()?);
        (k >= 1 && k <= n).then_some((k, n))
    };
    parse().ok_or_else(|| "expected K/N with K from 1 to N, for example 2/8".to_owned())
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(n) if n.is_finite() && n > 0.0 => Ok(n),
        _ => Err("expected a number above 0".to_owned()),
    }
}

fn bake(text: &str) -> Result<Bake, String> {
    if text.eq_ignore_ascii_case("source") {
        return Ok(Bake::Source);
    }
    positive(text).map(Bake::Fps).map_err(|_| "expected frames a second above 0, or `source`".to_owned())
}

fn additive(text: &str) -> Result<Additive, String> {
    match text.split_once('=') {
        None if text == "deltas" => Ok(Additive::Deltas),
        None if text == "compose" => Ok(Additive::Rest),
        Some(("compose", name)) if !name.is_empty() => Ok(Additive::Clip(name.to_owned())),
        _ => Err("expected `deltas`, `compose` or `compose=CLIP`".to_owned()),
    }
}

/// Where root motion goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RootMotionArg {
    /// On a joint of its own above the root
    Keep,
    /// Into the root joint
    Bake,
    /// Left out
    Drop,
    /// Its horizontal part left out
    Inplace,
}
