//! `anim2gltf`: converts game animation to glTF.
fn main() {}
