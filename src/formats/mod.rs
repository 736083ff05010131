//! Clips and a rig to files. A format is one folder and one line of [`FORMATS`]; none knows a game.

pub mod extras;
pub mod fbx;
pub mod format;
pub mod gltf;
pub mod non_joint;
pub mod preview;
pub mod scene;
pub mod workspace;
pub mod ycd_xml;

pub use format::{BetweenKeys, Format, WriteOptions};
pub use scene::Scene;
pub use workspace::{Files, Workspace};

/// All formats, in the order of `--help`.
pub const FORMATS: &[&dyn Format] = &[&gltf::Glb, &gltf::Gltf, &fbx::Fbx, &ycd_xml::YcdXml];

/// The format that `--to` calls `name`.
pub fn find(name: &str) -> Option<&'static dyn Format> {
    FORMATS.iter().copied().find(|format| format.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_found_by_its_name() {
        for format in FORMATS {
            assert_eq!(find(format.name()).map(Format::about), Some(format.about()));
        }
        assert!(find("bvh").is_none());
    }
}
