//! `anim2fbx`: `anim2gltf` with FBX as what is written by default.

use anim2gltf::cli;

fn main() -> std::process::ExitCode {
    cli::main(cli::args::To::Fbx)
}
