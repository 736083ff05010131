//! `anim2fbx`: `anim2gltf` with FBX as what is written by default.

use anim2gltf::cli;
use anim2gltf::formats::fbx::Fbx;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    cli::main(&Fbx)
}
