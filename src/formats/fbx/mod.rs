//! FBX 7.4, binary: a skeleton, one animation stack a clip, perhaps a stick mesh.
//!
//! What each reader needs was measured by leaving it out (docs/formats/gltf-fbx.md, section 3.2); [`document`] says
//! where it is met. Source space is kept (Z up, metres) and declared: no value is turned or scaled. Rotations are Euler
//! angles here ([`curves`]).

mod binary;
mod curves;
mod document;

use crate::error::Result;
use crate::formats::scene::Scene;

pub use curves::TICKS_PER_S;

/// How a file is written.
#[derive(Debug, Clone)]
pub struct Options {
    /// Adds a stick mesh, skinned to the joints ([`crate::formats::preview`]).
    pub preview_mesh: bool,
    /// How far (degrees) a rotation may part from the source's between keys, before keys are added: that of a
    /// joint that carries no other. The longer the chain that a joint carries, the less is left to it.
    pub tolerance_deg: f64,
    /// Longer arrays through zlib.
    pub compress: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { preview_mesh: false, tolerance_deg: 0.05, compress: true }
    }
}

/// Writes `scene` as a file into `out`, which is emptied first. The same scene gives the same bytes.
///
/// # Errors
/// [`ErrorKind::Limit`](crate::ErrorKind) over 4 GiB; [`ErrorKind::Unsupported`](crate::ErrorKind) for a joint's
/// track that holds numbers instead of vectors.
pub fn write(scene: &Scene<'_>, options: &Options, out: &mut Vec<u8>) -> Result<()> {
    document::write(scene, options, out)
}
