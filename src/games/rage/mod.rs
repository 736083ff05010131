//! RAGE: GTA V.

pub mod census;
pub mod container;
pub mod cutscene;
pub mod names;
pub mod pose_rules;
pub mod skeleton;
mod source;
pub mod xml;
pub mod ycd;

use std::hash::{Hash, Hasher};
use std::path::Path;

use container::{rpf7, rsc7};
use xxhash_rust::xxh3::Xxh3;

use crate::error::{Error, Result};
use crate::model::naming::{JointNames, fallback_name};
use crate::model::{Clip, JointId, Skeleton, SkeletonFile, Trs, Warning, WarningKind};
use crate::source::{
    Census, Clips, Export, Game, Input, JointScheme, Names, PoseRules, ReadOptions, Resource, Scratch, Source,
};

/// GTA V.
pub static GTA_V: GtaV = GtaV;

/// GTA V.
#[derive(Debug)]
pub struct GtaV;

/// The name of the format of CodeWalker's XML.
const XML: &str = "ycd.xml";

static FACIAL_GUESSES: WarningKind = WarningKind {
    code: "rage-facial-guesses",
    text: "{joints} facial tracks (24 to 26) move their bones by guesses of CodeWalker's, as --facial asks",
};
/// Bytes of a buffer that a thread keeps, at most.
const KEPT_SCRATCH: usize = 4 << 20;

/// Room for an unpacked dictionary: fresh memory for each costs as much as unpacking it.
#[derive(Default)]
struct Unpacked(Vec<u8>);

impl JointScheme for GtaV {
    fn joint_id(&self, name: &str) -> JointId {
        if name == "root_motion" { JointId::RootMotion } else { JointId::BoneTag(names::tag_of_name(name)) }
    }

    fn known_rest(&self, name: &str) -> Option<Trs> {
        let bone = names::ped_bone_by_name(name)?;
        Some(Trs { translation: bone.translation?, rotation: bone.rotation?, ..Trs::IDENTITY })
    }
}

impl Game for GtaV {
    fn code(&self) -> &'static str {
        ycd::clips::GAME
    }

    fn title(&self) -> &'static str {
        "GTA V"
    }

    fn endings(&self) -> &'static [&'static str] {
        &[".ycd", ".ycd.xml", ".rpf"]
    }

    fn inputs(&self) -> &'static str {
        "a clip dictionary (.ycd, .ycd.xml) or an archive of them (.rpf)"
    }

    fn probe(&self, start: &[u8], length: u64, _name: &str) -> bool {
        rsc7::probe(start, length) || xml::read::probe(start) || start.starts_with(&rpf7::MAGIC)
    }

    fn open(&self, input: &Input, _options: &ReadOptions) -> Result<Box<dyn Source>> {
        source::open(input)
    }

    fn read(&self, resource: &Resource<'_>, source: &str, scratch: &mut Scratch) -> Result<Clips> {
        let place = |e: Error| match &resource.entry {
            Some(entry) => e.in_entry(entry.clone()),
            None => e,
        };
        let unpacked = scratch.of::<Unpacked>();
        let records = records(resource.body()?, &mut unpacked.0).map_err(place)?;
        let mut read = ycd::clips::assemble(records, source).map_err(place)?;
        if unpacked.0.capacity() > KEPT_SCRATCH {
            unpacked.0 = Vec::new();
        }
        if resource.entry.is_some() {
            read.errors = read.errors.into_iter().map(place).collect();
        }
        if read.clips.is_empty() && read.errors.is_empty() {
            return Err(place(Error::unsupported("a dictionary without clips")));
        }
        Ok(read)
    }

    fn joint_name(&self, id: JointId) -> Option<&str> {
        match id {
            JointId::BoneTag(tag) => names::bone_name(tag),
            _ => None,
        }
    }

    fn skeleton_endings(&self) -> &'static [&'static str] {
        &[".yft", ".ydr", ".ydd", ".xml"]
    }

    fn skeletons(&self, path: &Path, bytes: &[u8]) -> Option<Result<Vec<SkeletonFile>>> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let text = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes).trim_ascii_start();
        let file = if text.starts_with(b"<") {
            xml::skeleton::read(bytes, &name)
        } else if rsc7::probe(bytes, bytes.len() as u64)
            || [b"FXAP", b"RSC8", b"8CSR"].iter().any(|magic| bytes.starts_with(*magic))
            || [".yft", ".ydr", ".ydd"].iter().any(|e| name.to_ascii_lowercase().ends_with(e))
        {
            let mut scratch = Vec::new();
            rsc7::open(bytes, &mut scratch).and_then(|resource| skeleton::read(&resource, &name))
        } else {
            return None;
        };
        Some(file.map(|file| vec![file]))
    }

    fn skeleton_of_names(&self, skeleton: Skeleton) -> Result<Skeleton> {
        skeleton::with_root_tag(skeleton)
    }

    fn default_skeleton_key(&self, clips: &[Clip]) -> Option<u128> {
        let mut hasher = Xxh3::new();
        ycd::DefaultSkeleton::of(clips).hash(&mut hasher);
        let low = hasher.finish();
        1u8.hash(&mut hasher);
        Some(u128::from(low) << 64 | u128::from(hasher.finish()))
    }

    fn default_skeleton(&self, clips: &[Clip]) -> Result<Option<Skeleton>> {
        ycd::DefaultSkeleton::of(clips).build().map(Some)
    }

    fn pose_rules(&self, clip: &mut Clip, skeleton: &Skeleton, rules: &PoseRules, names: &Names) {
        if rules.facial {
            let joints = pose_rules::apply_facial_guesses(clip, skeleton);
            if joints > 0 {
                clip.warnings.push(Warning::new(&FACIAL_GUESSES).with("joints", joints));
            }
        }
        if rules.thigh_roll {
            let rolls = pose_rules::follow_thighs(clip, skeleton);
            if !rolls.is_empty() {
                let name = |tag| {
                    let id = JointId::BoneTag(tag);
                    names.joint_name(id).map_or_else(|| fallback_name(id), str::to_owned)
                };
                let rolls: Vec<String> = rolls.into_iter().map(name).collect();
                clip.extras.insert(PoseRules::ROLLED.to_owned(), rolls.into());
            }
        }
    }

    fn stated_pose_rules(
        &self,
        clip: &Clip,
        skeleton: &Skeleton,
        extras: &serde_json::Map<String, serde_json::Value>,
    ) -> Option<Clip> {
        extras.contains_key(PoseRules::ROLLED).then(|| {
            let mut clip = clip.clone();
            pose_rules::follow_thighs(&mut clip, skeleton);
            clip
        })
    }

    fn section_of<'a>(&self, stem: &'a str) -> Option<(&'a str, u32)> {
        cutscene::section_of(stem)
    }

    fn join_sections(&self, sections: Vec<(u32, Vec<Clip>)>, source: &str) -> Result<Vec<Clip>> {
        Ok(cutscene::join(sections, source))
    }

    fn export(&self, resource: &Resource<'_>, source: &str, format: &str) -> Option<Result<Export>> {
        (format == XML).then(|| {
            let mut scratch = Vec::new();
            let mut records = records(resource.body()?, &mut scratch)?;
            let errors = std::mem::take(&mut records.errors).into_iter().map(|(_, e)| e).collect();
            let (text, notes) = xml::write::write(&records)?;
            let clips = ycd::clips::assemble(records, source)?.clips;
            Ok(Export { bytes: text.into_bytes(), clips, errors, notes })
        })
    }

    fn census(&self) -> Option<Box<dyn Census>> {
        Some(Box::new(census::RageCensus::default()))
    }

    fn examples(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("move_m@generic.ycd -o out/", "one dictionary to out/move_m@generic.glb"),
            ("clips/ -o out/", "everything below a folder, folders kept"),
        ]
    }
}

/// The records of a dictionary, from its binary or its XML form.
///
/// # Errors
/// See [`rsc7::open`], [`ycd::dictionary::read`], [`xml::read::read`].
pub fn records<'a>(bytes: &'a [u8], scratch: &'a mut Vec<u8>) -> Result<ycd::Dictionary<'a>> {
    if xml::read::probe(bytes) {
        return xml::read::read(bytes);
    }
    let resource = rsc7::open(bytes, scratch)?;
    ycd::dictionary::read(&resource)
}
