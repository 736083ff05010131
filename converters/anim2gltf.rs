//! `anim2gltf`: game animation to glTF, and the tools beside it.

use anim2gltf::cli;
use anim2gltf::formats::gltf::Glb;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    cli::main(&Glb)
}
