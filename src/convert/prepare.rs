//! Clips as read to the bytes of the file that holds them: passes, rig, writer.

use std::sync::Arc;

use crate::convert::rig;
use crate::convert::rig::Rig;
use crate::convert::settings::{Additive, Passes, Settings};
use crate::error::Result;
use crate::formats::{BetweenKeys, Files, Scene, Workspace, WriteOptions};
use crate::model::{Clip, Skeleton, Warning, WarningKind};
use crate::passes as resample;
use crate::passes::{AdditiveBase, RootMotion, Slerp};
use crate::source::{Names, game};

/// A reduction that cannot hold its bound with 16-bit rotations.
static REDUCTION_NOT_QUANTISED: WarningKind =
    WarningKind { code: "reduction-not-quantised", text: "rotations are not quantised: {why}" };
static ROTATIONS_NOT_QUANTISED: WarningKind = WarningKind {
    code: "rotations-not-quantised",
    text: "rotations are not quantised: at 10 cm from a joint they would be {cost_mm:.3} mm off, more than {bound_mm} mm",
};
static BOUND_BELOW_F32: WarningKind = WarningKind {
    code: "reduction-bound-below-f32",
    text: "the bound of {max_mm} mm is below what 32-bit numbers hold here: {bound_mm:.6} mm",
};

/// The passes and the rig: clips as read to clips as written, and what they stand on. `base` is the clip that
/// additive ones are composed on, where one is named.
///
/// # Errors
/// See [`rig::build`], [`resample::bake()`] and [`resample::reduce()`].
pub fn prepare(
    clips: &mut [Clip],
    skeleton: &Skeleton,
    names: &Names,
    passes: &Passes,
    base: Option<&Clip>,
) -> Result<Skeleton> {
    let build = |clips: &[Clip]| {
        Ok(Rig { skeleton: Arc::new(rig::build(skeleton, clips, names)?), is_shared: false })
    };
    let slerp = &mut Slerp::new(passes.tolerance_deg);
    let rig = prepare_on(clips, skeleton, names, passes, (BetweenKeys::Slerp, slerp), base, build)?;
    Ok(Arc::unwrap_or_clone(rig.skeleton))
}

/// [`prepare`] for a format that goes `between_keys` as it does, with rigs that `build` gives. `slerp` is that of
/// [`Passes::tolerance_deg`].
pub(crate) fn prepare_on(
    clips: &mut [Clip],
    skeleton: &Skeleton,
    names: &Names,
    passes: &Passes,
    (between_keys, slerp): (BetweenKeys, &mut Slerp),
    base: Option<&Clip>,
    build: impl Fn(&[Clip]) -> Result<Rig>,
) -> Result<Rig> {
    for clip in clips.iter_mut() {
        if let Some(game) = game::by_code(names.games(), clip.game) {
            game.pose_rules(clip, skeleton, &passes.pose, names);
        }
    }
    let quantize = passes.quantize;
    let slerps = between_keys == BetweenKeys::Slerp;
    let mut built = build(clips)?;
    let rig = &built.skeleton;
    for clip in clips.iter_mut() {
        resample::align_signs(clip);
        let additive_base = match (&passes.additive, base) {
            (Additive::Rest, _) => Some(AdditiveBase::Rest),
            (Additive::Clip(_), Some(base)) => Some(AdditiveBase::Clip(base)),
            _ => None,
        };
        if let Some(additive_base) = additive_base {
            resample::compose_additive(clip, rig, additive_base);
        }
        resample::root_motion(clip, rig, passes.root_motion);
    }
    if matches!(passes.root_motion, RootMotion::Bake | RootMotion::Drop) {
        // Without movers no joint stands for them.
        built = build(clips)?;
    }
    let rig = &built.skeleton;
    for clip in clips.iter_mut() {
        if let Some(bake) = passes.bake {
            resample::bake(clip, bake)?;
        }
        if let Some(mm) = passes.reduce_mm {
            reduce(clip, rig, if slerps { mm } else { mm * CURVES_SHARE }, quantize)?;
            // What stands at rest in every clip of the file needs no key; what moves in another is keyed at rest.
            resample::drop_at_rest(clip, rig);
        } else if passes.bake.is_none() && slerps {
            resample::subdivide_with(clip, slerp);
        }
        resample::align_signs(clip);
        resample::collapse_constant(clip);
        resample::hold_from_start(clip);
    }
    Ok(built)
}

/// The part of a reduction's bound that the curves may use where the writer turns them into Euler angles.
const CURVES_SHARE: f64 = 0.5;
/// Degrees of the writer's tolerance for each mm of the rest: its 0.05 degrees are 0.09 mm at a joint, and up to twice that
/// at the end of a chain.
const EULER_DEG_PER_MM: f64 = 0.28;

/// Few keys; with `quantize` the rounding to 16 bits is inside the bound, or the clip says why it cannot be.
fn reduce(clip: &mut Clip, rig: &Skeleton, max_mm: f64, quantize: bool) -> Result<()> {
    let reduction = if quantize {
        match resample::reduce_quantized(clip, rig, max_mm) {
            Ok(reduction) => reduction,
            Err(e) => {
                clip.warnings.push(Warning::new(&REDUCTION_NOT_QUANTISED).with("why", e.message()));
                resample::reduce(clip, rig, max_mm)?
            }
        }
    } else {
        resample::reduce(clip, rig, max_mm)?
    };
    if reduction.bound_mm > max_mm {
        let warning = Warning::new(&BOUND_BELOW_F32);
        clip.warnings.push(warning.with("max_mm", max_mm).with("bound_mm", reduction.bound_mm));
    }
    Ok(())
}

/// Whether rotations can be quantised within the bound; if not, each clip that speaks against it says so.
fn may_quantize(clips: &mut [Clip], rig: &Skeleton, passes: &Passes) -> bool {
    if passes.reduce_mm.is_some() {
        // The reduction has proven it, or said why not.
        return !clips.iter().any(|c| c.warnings.iter().any(|w| w.is(&REDUCTION_NOT_QUANTISED)));
    }
    let bound = resample::QUANTIZE_MM;
    let mut may = true;
    for clip in clips {
        let cost = resample::quantize_cost(clip, rig);
        if cost.max_mm > bound {
            let warning = Warning::new(&ROTATIONS_NOT_QUANTISED);
            clip.warnings.push(warning.with("cost_mm", cost.max_mm).with("bound_mm", bound));
            may = false;
        }
    }
    may
}

/// The writer's options for these clips.
pub(crate) fn options_for(clips: &mut [Clip], rig: &Skeleton, settings: &Settings) -> WriteOptions {
    let mut write = settings.write.clone();
    if let Some(mm) = settings.passes.reduce_mm {
        let left_mm = mm * (1.0 - CURVES_SHARE);
        write.euler_tolerance_deg = write.euler_tolerance_deg.min(left_mm * EULER_DEG_PER_MM);
    }
    if write.quantize_rotations {
        write.quantize_rotations = may_quantize(clips, rig, &settings.passes);
    }
    write
}

/// Clips as read to the files that hold them, in memory.
///
/// # Errors
/// See the writers.
pub fn pack(
    clips: &mut [Clip],
    skeleton: &Skeleton,
    names: &Names,
    stem: &str,
    settings: &Settings,
) -> Result<(Files, Skeleton)> {
    let rig = prepare(clips, skeleton, names, &settings.passes, None)?;
    let write = options_for(clips, &rig, settings);
    let name = stem.rsplit('/').next().unwrap_or(stem);
    let files = settings.format.write(&Scene::new(&rig, clips), name, &write, &mut Workspace::default())?;
    Ok((files, rig))
}
