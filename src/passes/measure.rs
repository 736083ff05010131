//! What a change of a clip costs: the largest displacement in model space.

use crate::model::{Clip, JointId, Skeleton};
use crate::passes::pose_pair::{LANES, PosePair, SelectedKeys};

/// How far one version of a clip is from another.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ErrorReport {
    /// Largest displacement in model space of a point fixed 10 cm from a joint, millimetres.
    pub max_mm: f64,
    /// Around which joint; `None` where nothing moves.
    pub joint: Option<JointId>,
    /// When, seconds of the clip.
    pub time_s: f64,
    /// Largest difference of a parent-local rotation, degrees.
    pub max_deg: f64,
    /// Of which joint.
    pub deg_joint: Option<JointId>,
    /// When, seconds of the clip.
    pub deg_time_s: f64,
    /// Instants looked at.
    pub instants: usize,
}

/// Compares `changed` with `original` on `rig`: at every key of either, and at three instants between.
///
/// The original is played by the source's rule (normalised-linear), `changed` by glTF's (spherical-linear); a joint
/// without a track stands at rest; a joint that `rig` lacks is taken as a root. The displacement is that of the
/// point of the sphere of 10 cm around the joint that moves most, in model space: the object-space metric of ACL
/// (`docs/error_metrics.md`) at the distance that ozz's optimizer uses.
pub fn measure(original: &Clip, changed: &Clip, rig: &Skeleton) -> ErrorReport {
    compare(PosePair::new(rig, original, changed, 3))
}

/// [`measure`], but with both played by glTF's rule.
pub(crate) fn measure_same_rule(original: &Clip, changed: &Clip, rig: &Skeleton) -> ErrorReport {
    let mut pair = PosePair::new(rig, original, changed, 1);
    pair.source_as_target = true;
    compare(pair)
}

fn compare(mut pair: PosePair<'_>) -> ErrorReport {
    let changed = pair.changed;
    let selected = vec![SelectedKeys::default(); changed.tracks.len()];
    let mut report = ErrorReport { instants: pair.instants.len(), ..ErrorReport::default() };
    for block in 0..pair.blocks() {
        pair.pose(block, &selected);
        for j in 0..pair.joints.len() {
            if !pair.live[j] {
                continue;
            }
            let bound = pair.bound(j);
            for (l, most) in bound.iter().enumerate() {
                // The bound is cheap and never below the displacement.
                if most * 1000.0 > report.max_mm {
                    let mm = pair.displacement(j, l) * 1000.0;
                    if mm > report.max_mm {
                        report.max_mm = mm;
                        report.joint = Some(pair.joints[j].id);
                        report.time_s = pair.instants[block * LANES + l];
                    }
                }
            }
            let turn = rotation_gap(&pair, j);
            for (l, rad) in turn.iter().enumerate() {
                if rad.to_degrees() > report.max_deg {
                    report.max_deg = rad.to_degrees();
                    report.deg_joint = Some(pair.joints[j].id);
                    report.deg_time_s = pair.instants[block * LANES + l];
                }
            }
        }
    }
    report
}

/// Angle between the two local rotations of joint `j`, radians.
fn rotation_gap(pair: &PosePair<'_>, j: usize) -> [f64; LANES] {
    let (a, b) = (&pair.local[0][j].r, &pair.local[1][j].r);
    std::array::from_fn(|l| {
        let (mut minus, mut plus) = (0.0, 0.0);
        for c in 0..4 {
            let (d, s) = (a[c][l] - b[c][l], a[c][l] + b[c][l]);
            minus += d * d;
            plus += s * s;
        }
        // Chord / 2 = sin(angle / 4); small chords, the common case, need no arcus.
        let chord = minus.min(plus).sqrt();
        if chord < 1e-3 { 2.0 * chord } else { 4.0 * libm::asin((0.5 * chord).min(1.0)) }
    })
}
