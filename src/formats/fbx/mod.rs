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
use crate::formats::workspace::Workspace;
use crate::formats::{BetweenKeys, Files, Format, WriteOptions};

pub use curves::TICKS_PER_S;

/// Binary FBX 7.4.
#[derive(Debug, Clone, Copy)]
pub struct Fbx;

impl Format for Fbx {
    fn name(&self) -> &'static str {
        "fbx"
    }

    fn about(&self) -> &'static str {
        "Binary FBX 7.4, for Blender, Maya, Unity and Unreal"
    }

    fn between_keys(&self) -> BetweenKeys {
        BetweenKeys::Euler
    }

    fn write(
        &self,
        scene: &Scene<'_>,
        _stem: &str,
        options: &WriteOptions,
        workspace: &mut Workspace,
    ) -> Result<Files> {
        Ok(vec![(self.extension(), document::write(scene, options, workspace)?)])
    }
}
