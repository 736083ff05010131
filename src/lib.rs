//! Game animation to glTF and FBX: readers of each game bring clips into one curve model; passes work on it; writers
//! emit files.
//!
//! ```text
//! bytes - container -> resource - read -> Clip - resample -> Clip - write -> .glb / .gltf / .fbx
//!                                  ^                                ^

//! ```
//!
//! It flows one way. [`games`] know their own bytes and the [`model`]; [`formats`] know the model and their own bytes;
//! [`passes`] know the model alone. [`convert`] takes one resource to one file, [`engine`] many, in order.
//!
//! The library in three calls: [`open()`], [`convert()`], [`verify()`].

// A reader of hostile input does not take chances; tests may.
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

pub mod cli;
pub mod compare;
pub mod convert;
pub mod engine;
pub mod error;
pub mod formats;
pub mod games;
pub mod io;
pub mod model;
pub mod passes;
pub mod report;
pub mod source;

pub use error::{Error, ErrorKind, Result};

use std::path::{Path, PathBuf};

/// Reads every clip of a file, or of all files below a folder, into memory. What cannot be read stands in
/// [`Clips::errors`](source::Clips::errors). For whole games read unit by unit: [`compare::sources::Sources`].
///
/// ```
/// use anim2gltf::model::{Property, Sampler};
///
/// let clips = anim2gltf::open("golden/sample.ycd")?.clips;
/// let clip = clips.iter().find(|clip| clip.short_name == "walk").expect("it is there");
/// let track = clip.tracks.iter().find(|t| t.target.property == Property::Rotation).expect("it moves");
/// let mut sampler = Sampler::new(clip.timeline(track), &track.curve);
/// for frame in 0..5 {
///     let seconds = f64::from(frame) / 30.0;
///     println!("{seconds:.3} s: {:?}", sampler.quat(seconds));
/// }
/// # Ok::<(), anim2gltf::Error>(())
/// ```
///
/// # Errors
/// No file that a game knows; a file that cannot be opened, where it is the only one.
pub fn open(path: impl AsRef<Path>) -> Result<source::Clips> {
    let (sources, errors) = compare::sources::Sources::open(path.as_ref(), &Default::default())?;
    let mut all = source::Clips { errors, ..Default::default() };
    let mut scratch = source::Scratch::default();
    for unit in sources.units() {
        let (groups, errors) = sources.read(unit, &mut scratch);
        all.errors.extend(errors);
        all.clips.extend(groups.into_iter().flat_map(|group| group.clips));
    }
    match (all.clips.is_empty(), all.errors.len()) {
        (true, 1) => Err(all.errors.remove(0)),
        _ => Ok(all),
    }
}

/// Converts files and folders to GLB files below `out`, with the defaults of the program, and says how it went. Other
/// formats, passes and selections: [`engine::run::run`] with [`Settings`](convert::settings::Settings) of your own.
///
/// ```
/// let out = tempfile::tempdir()?;
/// let outcome = anim2gltf::convert(["golden/sample.ycd"], out.path())?;
/// assert_eq!((outcome.files, outcome.errors), (1, 0));
/// assert!(out.path().join("sample.glb").is_file());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Only what prevents the whole run: no input at all, a folder that cannot be written.
pub fn convert<P: Into<PathBuf>>(
    inputs: impl IntoIterator<Item = P>,
    out: impl Into<PathBuf>,
) -> Result<engine::run::Outcome> {
    let inputs = inputs.into_iter().map(Into::into).collect();
    let settings = convert::settings::Settings::new(inputs, out.into(), &formats::gltf::Glb);
    engine::run::run(&settings, &mut engine::run::Silent)
}

/// Holds what was written (a file, or the output folder) against its source: how far each clip is off, at keys and
/// between, in millimetres and degrees.
///
/// ```
/// let out = tempfile::tempdir()?;
/// anim2gltf::convert(["golden/sample.ycd"], out.path())?;
/// let summary = anim2gltf::verify("golden/sample.ycd", out.path())?;
/// let worst = summary.worst(|clip| clip.at_keys_mm.as_ref()).map_or(0.0, |(_, worst)| worst.value);
/// assert!(worst < 0.003, "{worst} mm");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Nothing to read on a side. What cannot be compared stands in the summary.
pub fn verify(source: impl AsRef<Path>, output: impl AsRef<Path>) -> Result<compare::verify::Summary> {
    compare::verify::verify(source.as_ref(), output.as_ref(), &Default::default())
}
