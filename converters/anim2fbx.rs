//! `anim2fbx`: converts game animation to FBX.
fn main() {}
