//! What a format is: [`Format`], and what its writer is told and gives back.

use std::fmt::Debug;

use crate::error::Result;
use crate::formats::scene::Scene;
use crate::formats::workspace::{Files, Workspace};
use crate::model::naming::MAX_NAME_BYTES;

/// A kind of file that clips are written to.
///
/// It is object-safe and holds no data of a conversion, so that one constant serves all threads. To add one, implement
/// this trait in a folder of its own and add a line to [`FORMATS`](crate::formats::FORMATS); a program that uses this
/// library can put a format of its own into the settings of a conversion.
pub trait Format: Debug + Send + Sync {
    /// What `--to` calls it. It also stands for the format where a run decides whether an earlier file is still good.
    fn name(&self) -> &'static str;

    /// A line for `--help`.
    fn about(&self) -> &'static str;

    /// The extension of the main file, without its first dot.
    fn extension(&self) -> &'static str {
        self.name()
    }

    /// The extensions of the files beside the main one, always all of them.
    fn companions(&self) -> &'static [&'static str] {
        &[]
    }

    /// What its players do between two keys of a rotation.
    fn between_keys(&self) -> BetweenKeys;

    /// The longest name (bytes of UTF-8) of a joint or an animation that its readers keep whole.
    fn max_name_bytes(&self) -> usize {
        MAX_NAME_BYTES
    }

    /// Whether it is made of a game's records, which only the game knows, instead of a scene. Then
    /// [`Format::write`] refuses every scene.
    fn holds_records(&self) -> bool {
        false
    }

    /// Writes `scene` into memory. `stem` is what the files will be called, without folder and extension, for names that
    /// point from one file to the other. `workspace` only saves time: the same scene and options give the same bytes.
    ///
    /// # Errors
    /// [`ErrorKind::Limit`](crate::ErrorKind) where the format cannot hold so much,
    /// [`ErrorKind::Unsupported`](crate::ErrorKind) where it cannot hold the scene at all.
    fn write(
        &self,
        scene: &Scene<'_>,
        stem: &str,
        options: &WriteOptions,
        workspace: &mut Workspace,
    ) -> Result<Files>;
}

/// What players of a format do between two keys of a rotation. The source goes from one key to the next in a line by
/// components and normalises the result; a format that does otherwise needs more keys to stay near that path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BetweenKeys {
    /// Spherical-linear interpolation: the passes add keys between wide ones.
    Slerp,
    /// Each of three Euler angles for itself: the writer adds keys within [`WriteOptions::euler_tolerance_deg`], and a
    /// reduction leaves a part of its bound to that.
    Euler,
    /// As the source: no keys are added.
    NormalizedLinear,
}

/// What all writers are told; each takes what concerns it.
#[derive(Debug, Clone, PartialEq)]
pub struct WriteOptions {
    /// Adds a stick mesh, skinned to the joints ([`crate::formats::preview`]).
    pub preview_mesh: bool,
    /// glTF: rotations as normalised i16 instead of f32 (at most about 0.0035 degrees off).
    pub quantize_rotations: bool,
    /// FBX: how far (degrees) a rotation may be from the source's between keys before keys are added, at a joint that
    /// carries no other. The longer the chain that a joint carries, the less is left to it.
    pub euler_tolerance_deg: f64,
    /// FBX: longer arrays through zlib.
    pub compress: bool,
}

impl Default for WriteOptions {
    fn default() -> Self {
        WriteOptions {
            preview_mesh: false,
            quantize_rotations: false,
            euler_tolerance_deg: 0.05,
            compress: true,
        }
    }
}
