//! What other programs read in the files: the `gltf` crate, ufbx, the Khronos validator, Blender, assimp.

mod blender;
mod fbx;
mod inspect;
mod toy_format;
mod validator;
