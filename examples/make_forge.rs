//! Writes inputs as large as whole games, so that reading can be measured without them. The same arguments give the
//! same bytes.
//!
//!     cargo run --release --example make_forge -- OUT [--clips N] [--keys N] [--codec zstd|lz4|stored]
//!     cargo run --release --example make_forge -- OUT --large 4294967296 [--keys-each N]

#![allow(clippy::print_stdout)]

use anim2gltf_testkit::big;
use std::path::PathBuf;
use std::time::Instant;

use anim2gltf_testkit::anvil_container::Pack;
use clap::{Parser, ValueEnum};

/// Write a forge (version 27) of Riders Republic clips, by default as many as the game has: 9,087 with 1,396,592 tracks
/// and 25,241,022 keys.
#[derive(Parser)]
struct Arguments {
    /// The archive to write.
    out: PathBuf,
    /// Number of Animations.
    #[arg(long, default_value_t = 9087)]
    clips: u64,
    /// Number of keys in all of them.
    #[arg(long, default_value_t = 25_241_022)]
    keys: u64,
    /// Codec of the containers.
    #[arg(long, value_enum, default_value = "zstd")]
    codec: Codec,
    /// An archive of so many bytes, stored, half of which are Animations.
    #[arg(long)]
    large: Option<u64>,
    /// Keys of each Animation of a large archive.
    #[arg(long, default_value_t = 60_000)]
    keys_each: u64,
}

#[derive(Clone, Copy, ValueEnum)]
enum Codec {
    Zstd,
    Lz4,
    Stored,
}

fn main() -> std::io::Result<()> {
    let arguments = Arguments::parse();
    let start = Instant::now();
    let (algorithm, pack) = match arguments.codec {
        Codec::Zstd => (3, Pack::Zstd),
        Codec::Lz4 => (4, Pack::Lz4),
        Codec::Stored => (0, Pack::Stored),
    };
    let written = match arguments.large {
        Some(size) => big::large_forge(&arguments.out, size, arguments.keys_each)?,
        None => big::rr_forge(&arguments.out, arguments.clips, arguments.keys, algorithm, pack)?,
    };
    println!(
        "{}: {} clips, {} tracks, {} keys, {:.1} MB of objects in {:.1} MB, {:.1} s",
        arguments.out.display(),
        written.clips,
        written.tracks,
        written.keys,
        written.objects as f64 / 1e6,
        written.size as f64 / 1e6,
        start.elapsed().as_secs_f64()
    );
    Ok(())
}
