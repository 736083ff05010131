//! One resource to one file: its clips are read, go through the passes, get a rig and are written into memory. No
//! thread, no journal, no disk.

pub mod pool;
pub mod prepare;
pub mod rig;
pub mod settings;

use crate::error::{Error, Result};
use crate::formats::{Files, Scene, Workspace};
use crate::model::{Clip, Skeleton};
use crate::passes::Slerp;
use crate::report::manifest::ClipRow;
use crate::source::sections::{self, Section};
use crate::source::skeletons::{Choice, Skeletons};
use crate::source::{Clips, Names, Resource, Scratch};
use pool::Pool;
use rig::Rigs;
use settings::{Additive, Settings};

/// What all conversions of a run share.
#[derive(Debug)]
pub struct Converter<'a> {
    /// What the run is told.
    pub settings: &'a Settings,
    /// Names of joints.
    pub names: Names,
    /// Skeletons to choose from.
    pub skeletons: Skeletons,
    /// The clip that additive ones are composed on, where one is named and found.
    pub base: Option<Clip>,
    rigs: Rigs,
    /// What writers and passes keep from file to file.
    workspaces: Pool<(Workspace, Slerp)>,
}

/// Clips that were read and selected, on their skeleton.
#[derive(Debug, Default)]
pub struct Selected {
    /// The clips.
    pub clips: Vec<Clip>,
    /// Their skeleton; `None` where no clip is left.
    pub choice: Option<Choice>,
    /// Clips that could not be read.
    pub errors: Vec<Error>,
    /// Notes on the resource.
    pub notes: Vec<String>,
    /// Number of clips that the selection left out.
    pub left_out: usize,
}

/// A file in memory, and what the manifest says of its clips.
#[derive(Debug, Default)]
pub struct Written {
    /// The file with its companions.
    pub files: Files,
    /// A row a clip.
    pub rows: Vec<ClipRow>,
    /// Clips that could not be read.
    pub errors: Vec<Error>,
    /// Notes on the resource.
    pub notes: Vec<String>,
}

impl<'a> Converter<'a> {
    /// A converter with these names and skeletons.
    pub fn new(settings: &'a Settings, names: Names, skeletons: Skeletons) -> Self {
        let rigs = Rigs::new(settings.format.max_name_bytes());
        Converter { settings, names, skeletons, base: None, rigs, workspaces: Pool::default() }
    }

    /// Reads the clips of a resource of input `input`, or of all sections of one whole where there are some, takes those
    /// that are selected, and chooses their skeleton. `source` is what the clips say of where they come from.
    ///
    /// # Errors
    /// Where nothing can be read.
    pub fn read(
        &self,
        input: usize,
        resource: &Resource<'_>,
        sections: &[Section],
        source: &str,
        scratch: &mut Scratch,
    ) -> Result<Selected> {
        let Clips { clips, errors, notes } = match sections {
            [] => resource.game.read(resource, source, scratch)?,
            sections => sections::read(sections, source, scratch)?,
        };
        let before = clips.len();
        let mut clips: Vec<Clip> = clips.into_iter().filter(|c| self.settings.select.takes(c)).collect();
        let left_out = before - clips.len();
        let mut choice = None;
        if !clips.is_empty() {
            let chosen = self.skeletons.choose(input, &clips)?;
            if let Some(note) = &chosen.note {
                clips.iter_mut().for_each(|c| c.warnings.push(note.clone()));
            }
            choice = Some(chosen);
        }
        Ok(Selected { clips, choice, errors, notes, left_out })
    }

    /// Takes clips through the passes, puts them on their rig and writes the file. `hash` stands for what `skeleton`
    /// holds; `stem` is the output's path without extension, `output` with it.
    ///
    /// # Errors
    /// See [`prepare::prepare`] and the writers.
    pub fn write(
        &self,
        clips: &mut [Clip],
        (skeleton, hash): (&Skeleton, u64),
        stem: &str,
        output: &str,
    ) -> Result<Written> {
        let own = match &self.settings.passes.additive {
            Additive::Clip(name) => clips.iter().find(|c| is_called(c, name)).cloned(),
            _ => None,
        };
        let base = own.as_ref().or(self.base.as_ref());
        let build = |clips: &[Clip]| self.rigs.build(skeleton, hash, clips, &self.names);
        let (passes, format) = (&self.settings.passes, self.settings.format);
        let new = || (Workspace::default(), Slerp::new(passes.tolerance_deg));
        self.workspaces.with(new, |(workspace, slerp)| {
            let between_keys = (format.between_keys(), slerp);
            let rig = prepare::prepare_on(clips, skeleton, &self.names, passes, between_keys, base, build)?;
            let options = prepare::options_for(clips, &rig.skeleton, self.settings);
            let scene = Scene {
                shared_rig: rig.is_shared.then(|| rig.skeleton.clone()),
                ..Scene::within(&rig.skeleton, clips, format.max_name_bytes())
            };
            let name = stem.rsplit('/').next().unwrap_or(stem);
            let files = format.write(&scene, name, &options, workspace)?;
            let rig = &rig.skeleton;
            let rows = scene
                .animations
                .iter()
                .map(|a| ClipRow::new(a.clip, output, &a.name, &a.extra_tracks, rig))
                .collect();
            Ok(Written { files, rows, ..Written::default() })
        })
    }

    /// Writes a resource in a form of its game's own records: no pass, no rig.
    ///
    /// # Errors
    /// Unsupported, where the game has no such form.
    pub fn export(&self, resource: &Resource<'_>, source: &str, output: &str) -> Result<Written> {
        let format = self.settings.format;
        let Some(export) = resource.game.export(resource, source, format.name()) else {
            let text = format!("{} has no form .{}", resource.game.title(), format.extension());
            return Err(Error::unsupported(text));
        };
        let export = export?;
        let rig = Skeleton::new("none", Vec::new())?;
        let row = |c: &Clip| ClipRow::new(c, output, &c.short_name, &[], &rig);
        Ok(Written {
            rows: export.clips.iter().map(row).collect(),
            files: vec![(format.extension(), export.bytes)],
            errors: export.errors,
            notes: export.notes,
        })
    }
}

impl Converter<'_> {
    /// Lets the next file have the memory of one that is done with.
    pub fn recycle(&self, files: Files) {
        let new = || (Workspace::default(), Slerp::new(self.settings.passes.tolerance_deg));
        self.workspaces.with(new, |(workspace, _)| workspace.recycle(files));
    }
}

/// Whether `name` is one of the clip's names or its id.
pub fn is_called(clip: &Clip, name: &str) -> bool {
    clip.short_name == name || clip.name == name || clip.id.to_string().eq_ignore_ascii_case(name)
}
