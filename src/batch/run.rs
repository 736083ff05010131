//! One run: inputs to output files and a manifest.

use std::fs;
use std::path::{Path, PathBuf};

use super::find::{self, Input, Kind};
use super::output::{Paths, write_whole};
use super::rage;
use crate::error::{Error, Result};
use crate::model::{Clip, Skeleton};
use crate::resample;
use crate::rig::{self, JointNames};
use crate::write::format::{self, Files};
use crate::write::manifest::{ClipRow, ErrorRow, Manifest, NoteRow};
use crate::write::scene::Scene;

/// What a run does.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Files and folders.
    pub inputs: Vec<PathBuf>,
    /// The output folder.
    pub out: PathBuf,
    /// How files are written.
    pub write: format::Options,
    /// Largest angle, degrees, between a written rotation and the source's between keys.
    pub tolerance_deg: f64,
}

/// Hears of a run's course.
pub trait Progress {
    /// `total` inputs were found.
    fn begin(&mut self, total: usize);
    /// The next input is begun.
    fn next(&mut self, name: &str);
    /// Something failed; the run goes on.
    fn failed(&mut self, error: &Error);
}

/// What came of a run.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Clips written.
    pub clips: usize,
    /// Files written, companions not counted.
    pub files: usize,
    /// Failures.
    pub errors: usize,
    /// Clips with warnings.
    pub warned: usize,
    /// Keys of joint tracks.
    pub keys: u64,
}

impl Outcome {
    /// 0 all, 1 some failed, 2 nothing done.
    pub fn exit_code(&self) -> u8 {
        match (self.errors, self.clips) {
            (0, 1..) => 0,
            (_, 0) => 2,
            _ => 1,
        }
    }
}

/// Converts everything that `settings` names and writes the manifest.
///
/// # Errors
/// Only what stops the whole run: an output folder that cannot be written, no input at all.
pub fn run(settings: &Settings, progress: &mut dyn Progress) -> Result<Outcome> {
    let (inputs, errors) = find::find(&settings.inputs);
    let mut run = Run {
        settings,
        progress,
        manifest: Manifest {
            generator: concat!("anim2gltf ", env!("CARGO_PKG_VERSION")),
            ..Manifest::default()
        },
        outcome: Outcome::default(),
        paths: Paths::default(),
    };
    run.progress.begin(inputs.len());
    for e in errors {
        run.fail(&e);
    }
    if inputs.is_empty() && run.outcome.errors == 0 {
        let given: Vec<String> = settings.inputs.iter().map(|p| p.display().to_string()).collect();
        return Err(Error::usage(format!("found no clip dictionary (.ycd) in {}", given.join(", "))));
    }
    fs::create_dir_all(&settings.out).map_err(|e| Error::io("cannot be made", e).in_file(&settings.out))?;
    let mut scratch = Vec::new();
    let mut bytes = Vec::new();
    for input in &inputs {
        run.progress.next(&input.relative);
        if let Err(e) = run.input(input, &mut bytes, &mut scratch) {
            run.fail(&e.in_file(&input.path));
        }
    }
    let json = run.manifest.to_json().map_err(|e| Error::unsupported(format!("manifest: {e}")))?;
    write_whole(&settings.out.join("manifest.json"), &json)?;
    Ok(run.outcome)
}

struct Run<'a> {
    settings: &'a Settings,
    progress: &'a mut dyn Progress,
    manifest: Manifest,
    outcome: Outcome,
    paths: Paths,
}

impl Run<'_> {
    fn fail(&mut self, error: &Error) {
        self.progress.failed(error);
        self.outcome.errors += 1;
        self.manifest.errors.push(ErrorRow::from(error));
    }

    fn input(&mut self, input: &Input, bytes: &mut Vec<u8>, scratch: &mut Vec<u8>) -> Result<()> {
        match input.kind {
            Kind::Ycd => {
                read_file(&input.path, bytes)?;
                let dictionary = rage::read(bytes, &input.relative, scratch)?;
                for e in dictionary.errors {
                    self.fail(&e.in_file(&input.path));
                }
                for note in dictionary.notes {
                    self.manifest.notes.push(NoteRow { source: input.relative.clone(), note });
                }
                if dictionary.clips.is_empty() {
                    return Err(Error::unsupported("a dictionary without a clip that can be read"));
                }
                let stem = self.paths.unique(&format!("{}{}", input.folder(), input.stem()));
                self.file(&stem, dictionary.clips, &dictionary.skeleton, &rage::RageNames)
            }
            Kind::Unknown => Err(Error::unsupported(
                "found none of the known beginnings, expected a clip dictionary (.ycd: RSC7)",
            )
            .at(0)),
        }
    }

    /// Writes one output file of `clips`; `stem` is its path without extension.
    fn file(
        &mut self,
        stem: &str,
        mut clips: Vec<Clip>,
        skeleton: &Skeleton,
        names: &dyn JointNames,
    ) -> Result<()> {
        let (files, rig) = pack(&mut clips, skeleton, names, stem, self.settings)?;
        let mut output = String::new();
        for (extension, bytes) in &files {
            output = format!("{stem}.{extension}");
            write_whole(&self.settings.out.join(&output), bytes)?;
        }
        self.outcome.files += 1;
        let scene = Scene::new(&rig, &clips);
        for animation in &scene.animations {
            let row = ClipRow::new(animation.clip, &output, &animation.name, &animation.kept);
            self.outcome.clips += 1;
            self.outcome.keys += row.keys;
            self.outcome.warned += usize::from(!row.warnings.is_empty());
            self.manifest.clips.push(row);
        }
        Ok(())
    }
}

/// The passes, the rig and the writer: clips as read to the files that hold them, and the rig they stand on.
///
/// # Errors
/// See the writers.
pub fn pack(
    clips: &mut [Clip],
    skeleton: &Skeleton,
    names: &dyn JointNames,
    stem: &str,
    settings: &Settings,
) -> Result<(Files, Skeleton)> {
    let rig = rig::build(skeleton, clips, names)?;
    for clip in clips.iter_mut() {
        resample::align_signs(clip);
        resample::collapse_constant(clip);
        resample::add_inbetweens(clip, settings.tolerance_deg);
    }
    let name = stem.rsplit('/').next().unwrap_or(stem);
    Ok((format::write(&rig, clips, name, &settings.write)?, rig))
}

/// Reads a whole file into `bytes`.
fn read_file(path: &Path, bytes: &mut Vec<u8>) -> Result<()> {
    use std::io::Read;
    bytes.clear();
    let mut file = fs::File::open(path).map_err(|e| Error::io("cannot be opened", e))?;
    file.read_to_end(bytes).map_err(|e| Error::io("cannot be read", e))?;
    Ok(())
}
