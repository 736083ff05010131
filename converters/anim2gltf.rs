//! `anim2gltf`: game animation to glTF, and the tools beside it.

use anim2gltf::cli;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    cli::main(cli::args::To::Glb)
}
