//! `anim2gltf`: game animation to glTF, and the tools beside it.

fn main() -> std::process::ExitCode {
    anim2gltf::cli::main()
}
