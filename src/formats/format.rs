//! The kinds of files that are written, and a file in memory.

use crate::error::{Error, Result};
use crate::formats::buffers;
use crate::formats::scene::Scene;
use crate::formats::{fbx, gltf};

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Format {
    /// One binary glTF file.
    #[default]
    Glb,
    /// glTF text with its numbers in a .bin beside it.
    Gltf,
    /// Binary FBX 7.4.
    Fbx,
    /// CodeWalker's XML of a clip dictionary: made of the dictionary's records, not of a scene.
    YcdXml,
}

impl Format {
    /// The extension of the main file.
    pub fn extension(self) -> &'static str {
        match self {
            Format::Glb => "glb",
            Format::Gltf => "gltf",
            Format::Fbx => "fbx",
            Format::YcdXml => "ycd.xml",
        }
    }

    /// Whether its players slerp between the keys of rotations: then the source's normalised-linear path asks for keys
    /// between wide ones. FBX plays Euler angles; its writer adds the keys that hold these on the source's path.
    pub fn slerps(self) -> bool {
        matches!(self, Format::Glb | Format::Gltf)
    }

    /// The extensions of the files beside it.
    pub fn companions(self) -> &'static [&'static str] {
        match self {
            Format::Gltf => &["bin"],
            Format::Glb | Format::Fbx | Format::YcdXml => &[],
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
    /// FBX's own.
    pub fbx: fbx::Options,
}

/// A written file: (extension, bytes), the main one last, so that what it points at is there before it.
pub type Files = Vec<(&'static str, Vec<u8>)>;

/// Lets the next file of this thread have the memory of one that is done with.
pub fn recycle(files: Files) {
    files.into_iter().for_each(|(_, bytes)| buffers::give(bytes));
}

/// Writes `scene` into memory. `stem` is what the file will be called, for what points from one to the
/// other.
///
/// # Errors
/// See the writers.
pub fn write(scene: &Scene<'_>, stem: &str, options: &Options) -> Result<Files> {
    match options.format {
        Format::Glb => {
            let document = gltf::document(scene, &options.gltf)?;
            let glb = document.to_glb()?;
            document.recycle();
            Ok(vec![("glb", glb)])
        }
        Format::Gltf => {
            let (text, bin) = gltf::document(scene, &options.gltf)?.to_gltf(&format!("{stem}.bin"))?;
            Ok(vec![("bin", bin), ("gltf", text.into_bytes())])
        }
        Format::Fbx => {
            let mut bytes = Vec::new();
            fbx::write(scene, &options.fbx, &mut bytes)?;
            Ok(vec![("fbx", bytes)])
        }
        Format::YcdXml => Err(Error::unsupported("only clip dictionaries have the form .ycd.xml")),
    }
}
