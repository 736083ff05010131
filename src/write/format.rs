//! The kinds of files that are written, and a file in memory.

use crate::error::Result;
use crate::model::{Clip, Skeleton};
use crate::write::gltf;
use crate::write::scene::Scene;

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Format {
    /// One binary glTF file.
    #[default]
    Glb,
    /// glTF text with its numbers in a .bin beside it.
    Gltf,
}

impl Format {
    /// The extension of the main file.
    pub fn extension(self) -> &'static str {
        match self {
            Format::Glb => "glb",
            Format::Gltf => "gltf",
        }
    }
}

/// Options of all writers.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// What is written.
    pub format: Format,
    /// glTF's own.
    pub gltf: gltf::Options,
}

/// A written file: (extension, bytes), the main one last, so that what it points at is there before it.
pub type Files = Vec<(&'static str, Vec<u8>)>;

/// Writes `clips` on `rig` into memory. `stem` is what the file will be called, for what points from one to the
/// other.
///
/// # Errors
/// See the writers.
pub fn write(rig: &Skeleton, clips: &[Clip], stem: &str, options: &Options) -> Result<Files> {
    let scene = Scene::new(rig, clips);
    match options.format {
        Format::Glb => Ok(vec![("glb", gltf::document(&scene, &options.gltf)?.to_glb()?)]),
        Format::Gltf => {
            let (text, bin) = gltf::document(&scene, &options.gltf)?.to_gltf(&format!("{stem}.bin"))?;
            Ok(vec![("bin", bin), ("gltf", text.into_bytes())])
        }
    }
}
