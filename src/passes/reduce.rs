//! Fewer keys within a bound that is measured in model space.

// One index runs over several arrays of lanes or components at once.
#![allow(clippy::needless_range_loop)]

use std::collections::BTreeMap;
use std::ops::Range;

use crate::error::{Error, Result};
use crate::model::{Clip, Interpolation, Positions, Property, Skeleton, Timeline, Trs, Values};
use crate::passes::pose_pair::{Arc, LANES, NONE, PosePair, SHELL_M, SelectedKeys, sin_cos, unit};
use crate::passes::quantize::{dequantize_i16, quantize_i16, round_rotations};
use crate::passes::signs::{align, align_signs, all_equal};
use crate::passes::subdivide::{Slerp, subdivide_track};
use crate::passes::timelines::drop_unused_timelines;

/// What [`reduce`] did.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Reduction {
    /// Keys of the joint tracks before.
    pub keys_before: usize,
    /// Keys of the joint tracks after.
    pub keys_after: usize,
    /// What no looked-at point moves farther than, millimetres.
    pub bound_mm: f64,
    /// Times that the clip was posed to look for points that move too far.
    pub rounds: usize,
}

/// Share of the bound that is used at keys and at [`BETWEEN`] instants between: elsewhere the error is still a little
/// larger.
const USE: f64 = 0.985;
/// Instants in each gap at which keys are chosen.
const BETWEEN: usize = 3;
/// The same for the last look, which only adds keys: twice as many instants, so a quarter of what can be missed.
const LAST_USE: f64 = 0.995;
const LAST_BETWEEN: usize = 7;
/// The sum of the budgets down a chain, in bounds. Errors of neighbouring joints point all ways and are seldom at
/// their largest together, so more than one bound is given out, and the sweep takes back where it was too much.
const OVERCOMMIT: f64 = 12.0;

/// Source and slerp are not brought nearer to each other than about this share of the bound.
const LEAST_SHARE: f64 = 0.005;
/// No track gets less than this share of the bound: below it, noise is followed key by key.
const LEAST: f64 = 0.05;
/// A track within this share of the bound of one value takes it, whatever its budget.
const CONSTANT: f64 = 0.1;
/// A track within this share of the bound of its joint's rest pose needs no key at all.
const REST: f64 = 0.5;
/// Keys and tracks are tried without where one alone would not move what is farthest from it by more than this many
/// bounds (chains are seldom stretched out, so that number is mostly too high).
const TRIED: f64 = 4.0;
/// A longer step of one key is refused (180 degrees and more could go either way round): cosine of 150 / 2 degrees.
const LONGEST_STEP_DOT: f64 = 0.258_819_045;

/// Leaves so few keys that no point fixed 10 cm from any joint moves more than `max_mm` in model space, at any time.
///
/// The result is meant for glTF's rule: rotations spherical-linear, vectors linear, steps held. Key values are the
/// source's to the bit, except where one value stands for a whole track (the middle of its range) and where a
/// rotation is so fast that keys must be put between the source's (values on the source's own path).
///
/// Method. The error is ACL's object-space metric (`docs/error_metrics.md`: displacement of points rigidly fixed
/// around a joint), at the 10 cm of ozz's `AnimationOptimizer`, from which the hierarchy is taken as well: an
/// angle counts by how far its joint reaches (the longest chain below it, plus 10 cm), so a shoulder is held
/// tighter than a finger.
///
/// 1. Each track gets a budget so that those down a chain add up to a fixed sum. The number of keys that a track
///    needs falls with the root of its budget, `n = c / sqrt(e)`, where `c` is summed from the second differences
///    of its keys; the split with the fewest keys over the whole tree then has a closed form: a joint before a
///    subtree takes `c^(2/3) / (c^(2/3) + C^(2/3))` of what is left, and both together count as
///    `(c^(2/3) + C^(2/3))^(3/2)`.
/// 2. Each track is fitted alone: from a kept key to the farthest one that holds the budget at every key between,
///    by doubling and bisection. A track near its joint's rest pose, or near one value, takes that.
/// 3. Source (its own interpolation) and result are posed in model space at the union of all keys and at three
///    instants between. Where a point moves too far, the chain's track that moves it most gets back the key that it
///    misses most; again, only around what changed, until every point holds.
/// 4. The other way round, for the budgets were a guess: whole tracks go to rest or to one value, then single keys
///    go, in the order of how little they are missed, wherever every point on the chain still holds without them.
/// 5. Tracks get the same keys where that is fewer bytes than instants of their own (tracks with equal keys and
///    values are one from the start); then 3. and 4. once more, for instants that tracks share.
/// 6. A last 3. at seven instants between, nearer to the bound.
///
/// Sources of the method: the metric and the idea to decide by it and not by a tolerance in each track's own units,
/// ACL (Nicholas Frechette); the hierarchy, ozz-animation (Guillaume Blanc). The closed form of 1. is Lagrange's
/// condition for the model of `n` given there; 4. is the greedy decimation known from lines and meshes.
///
/// Deterministic. Tracks that move no joint are left alone; steps lose only keys that repeat the one before. A
/// rotation never turns by 150 degrees or more from one key to the next. The bound is that of glTF's rule: FBX goes
/// along Euler angles, and what its writer allows for them comes on top.
///
/// # Errors
/// A bound that is not a positive number.
pub fn reduce(clip: &mut Clip, rig: &Skeleton, max_mm: f64) -> Result<Reduction> {
    let (reduced, report) = within(clip, rig, max_mm, false)?;
    *clip = reduced;
    Ok(report)
}

/// [`reduce`] for a writer that stores rotations as normalised i16: they are rounded before keys are chosen, so the
/// bound holds for what is written. The rounded rotations are left in the clip.
///
/// # Errors
/// A bound that is not a positive number; one that the rounding alone breaks: then the clip is left as it was.
pub fn reduce_quantized(clip: &mut Clip, rig: &Skeleton, max_mm: f64) -> Result<Reduction> {
    let (reduced, report) = within(clip, rig, max_mm, true)?;
    if report.bound_mm > max_mm {
        return Err(Error::usage(format!(
            "found that 16-bit rotations move points by up to {:.4} mm, expected at most the {max_mm} mm of the reduction",
            report.bound_mm
        )));
    }
    *clip = reduced;
    Ok(report)
}

fn within(clip: &mut Clip, rig: &Skeleton, max_mm: f64, quantized: bool) -> Result<(Clip, Reduction)> {
    if !(max_mm > 0.0 && max_mm.is_finite()) {
        return Err(Error::usage(format!(
            "found {max_mm} mm as bound of the reduction, expected a positive number"
        )));
    }
    align_signs(clip);
    let max_m = max_mm / 1000.0;
    // How near slerp must follow the source where all keys are kept, as a share of the bound; less only where
    // many joints of a chain turn fast at once.
    let mut share = 0.25;
    loop {
        let (reduced, mut report) = attempt(clip, rig, max_m, share, quantized);
        if report.bound_mm <= max_mm || share < LEAST_SHARE {
            report.keys_before = keys(clip);
            report.keys_after = keys(&reduced);
            return Ok((reduced, report));
        }
        share *= 0.2;
    }
}

fn keys(clip: &Clip) -> usize {
    clip.tracks
        .iter()
        .filter(|t| !matches!(t.target.property, Property::Other(_)))
        .map(|t| t.curve.values.len())
        .sum()
}

/// A track that is being fitted.
struct Fit {
    /// Its joint in the pose pair, and its number in the clip.
    joint: usize,
    track: u32,
    /// 0 translation, 1 rotation, 2 scale.
    kind: usize,
    values: Vec<[f64; 4]>,
    /// What the joint has without the track.
    rest: Option<[f64; 4]>,
    /// Metres at the far end for one unit of deviation (metre, radian, factor).
    lever_m: f64,
    /// Largest deviation, in units.
    budget: f64,
    /// Spans (seconds) in which this round has put keys.
    fresh: Vec<(f64, f64)>,
    /// Tracks of one group have the same keys.
    group: usize,
    /// Rotations are stored in 16 bits.
    quantized: bool,
}

fn at_rest(rest: Trs, kind: usize) -> [f64; 4] {
    match kind {
        0 => rest.translation.extend(0.0).to_array().map(f64::from),
        1 => rest.rotation.to_array().map(f64::from),
        _ => rest.scale.extend(0.0).to_array().map(f64::from),
    }
}

/// The arm, metres, that a camera's rotation is held to.
const CAMERA_M: f64 = 1.0;

fn attempt(source: &Clip, rig: &Skeleton, max_m: f64, share: f64, quantized: bool) -> (Clip, Reduction) {
    let mut dense = source.clone();
    let reach = {
        let pair = PosePair::new(rig, source, source, 0);
        reach(&pair)
    };
    // Keys where slerp alone would leave the path.
    for track in 0..dense.tracks.len() {
        if dense.tracks[track].curve.is_constant() {
            continue;
        }
        let id = dense.tracks[track].target.joint;
        let lever = match rig.find(id) {
            Some(j) => reach[j],
            None if id.is_joint() => SHELL_M,
            // A camera turns what it sees: all its keys stay, and those between stand as for a long arm.
            None => CAMERA_M,
        };
        subdivide_track(&mut dense, track, &mut Slerp::new((share * max_m / lever).to_degrees()));
    }
    align_signs(&mut dense);

    if quantized {
        round_rotations(&mut dense);
    }
    let mut pair = PosePair::new(rig, source, &dense, BETWEEN);
    // What all keys together do not hold no choice of them does: other keys are needed, or none will do.
    let all = farthest(&mut pair, &vec![SelectedKeys::default(); dense.tracks.len()]);
    if all > max_m && (quantized || share >= LEAST_SHARE) {
        drop(pair);
        return (dense, Reduction { bound_mm: all * 1000.0, ..Reduction::default() });
    }
    let mut fits = Vec::new();
    for (j, joint) in pair.joints.iter().enumerate() {
        for kind in 0..3 {
            let track = joint.changed[kind];
            let Some(t) = dense.tracks.get(track as usize) else { continue };
            if t.curve.interpolation == Interpolation::Step {
                continue;
            }
            let values: Vec<[f64; 4]> = match &t.curve.values {
                Values::Quat(v) => v.iter().map(|q| unit(q.to_array().map(f64::from))).collect(),
                Values::Vec3(v) => v.iter().map(|v| v.extend(0.0).to_array().map(f64::from)).collect(),
                _ => continue,
            };
            let rest = rig.joints().get(j).map(|joint| at_rest(joint.rest, kind));
            let one_value = t.curve.is_constant();
            if one_value && (values.len() != 1 || rest == values.first().copied() || rest.is_none()) {
                continue;
            }
            let lever_m = if kind == 0 { 1.0 } else { reach[j] };
            let group = fits.len();
            fits.push(Fit {
                joint: j,
                track,
                kind,
                values,
                rest,
                lever_m,
                budget: 0.0,
                fresh: Vec::new(),
                group,
                quantized,
            });
        }
    }
    share_budgets(&pair, &mut fits, max_m);

    let mut selected = vec![SelectedKeys::default(); dense.tracks.len()];
    pair_equals(&dense, &mut fits);
    fit_alone(&pair, &mut fits, &mut selected, max_m);
    let mut report = Reduction::default();
    repair(&mut pair, &mut fits, &mut selected, USE * max_m, &mut report);
    try_constants(&mut pair, &mut fits, &mut selected, max_m);
    prune(&mut pair, &fits, &mut selected, max_m);
    share_keys(&dense, &mut fits, &mut selected);
    repair(&mut pair, &mut fits, &mut selected, USE * max_m, &mut report);
    prune(&mut pair, &fits, &mut selected, max_m);
    drop(pair);
    let mut pair = PosePair::new(rig, source, &dense, LAST_BETWEEN);
    repair(&mut pair, &mut fits, &mut selected, LAST_USE * max_m, &mut report);
    drop(pair);

    let mut fitted = vec![false; dense.tracks.len()];
    for fit in &fits {
        fitted[fit.track as usize] = true;
    }
    for track in 0..dense.tracks.len() {
        if fitted[track] {
            retain_keys(&mut dense, track, &selected[track]);
        } else if !matches!(dense.tracks[track].target.property, Property::Other(_))
            && dense.tracks[track].curve.interpolation == Interpolation::Step
        {
            let repeated = select_changes(&dense, track);
            retain_keys(&mut dense, track, &repeated);
        }
    }
    drop_unused_timelines(&mut dense);
    (dense, report)
}

/// Tracks with the same keys and values (roll bones that follow their limbs) become one group: a writer stores
/// them once for as long as they keep the same keys.
fn pair_equals(clip: &Clip, fits: &mut [Fit]) {
    for n in 0..fits.len() {
        let equal = |fit: &Fit| {
            let (a, b) = (&clip.tracks[fit.track as usize], &clip.tracks[fits[n].track as usize]);
            fit.kind == fits[n].kind && a.timeline == b.timeline && fit.values == fits[n].values
        };
        if fits[n].values.len() > 1
            && let Some(before) = fits[..n].iter().position(equal)
        {
            fits[n].group = fits[before].group;
        }
    }
}

/// The members of each group, by its number.
fn groups_of(fits: &[Fit]) -> BTreeMap<usize, Vec<usize>> {
    let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (n, fit) in fits.iter().enumerate() {
        groups.entry(fit.group).or_default().push(n);
    }
    groups
}

/// Step 2 of [`reduce`] for all tracks.
fn fit_alone(pair: &PosePair<'_>, fits: &mut [Fit], selected: &mut [SelectedKeys], max_m: f64) {
    for fit in fits.iter() {
        selected[fit.track as usize] = fit.fit_alone(pair.changed_seconds(fit.track), max_m);
    }
    for members in groups_of(fits).into_values().filter(|m| m.len() > 1) {
        let of = |n: &usize| &selected[fits[*n].track as usize];
        if members.iter().any(|n| of(n).constant.is_some()) {
            members.iter().for_each(|n| fits[*n].group = *n);
        } else if let Some(keys) = members.iter().map(|n| &of(n).keys).max_by_key(|k| k.len()).cloned() {
            members.iter().for_each(|n| selected[fits[*n].track as usize].keys.clone_from(&keys));
        }
    }
}

/// The farthest that a point is moved at the instants of the pose pair, metres.
fn farthest(pair: &mut PosePair<'_>, selected: &[SelectedKeys]) -> f64 {
    let mut most = 0.0f64;
    for block in 0..pair.blocks() {
        pair.pose(block, selected);
        for j in (0..pair.joints.len()).filter(|j| pair.live[*j]) {
            most = pair.bound(j).iter().copied().fold(most, f64::max);
        }
    }
    most
}

/// For each joint: how far the farthest point that it turns can be, metres. Chains stretched out, so true of any pose.
fn reach(pair: &PosePair<'_>) -> Vec<f64> {
    let mut reach = vec![SHELL_M; pair.joints.len()];
    for j in (0..pair.joints.len()).rev() {
        let joint = &pair.joints[j];
        if joint.parent == NONE {
            continue;
        }
        let longest = |kind: usize, rest: f32, of: fn(glam::Vec3) -> f32| match pair
            .source
            .tracks
            .get(joint.source[kind] as usize)
        {
            Some(t) => match &t.curve.values {
                Values::Vec3(v) => v.iter().map(|v| of(*v)).filter(|v| v.is_finite()).fold(0.0, f32::max),
                _ => rest,
            },
            None => rest,
        };
        let away = longest(0, joint.rest.translation.length(), |v| v.length());
        let scale = longest(2, joint.rest.scale.abs().max_element(), |v| v.abs().max_element());
        let here = f64::from(away) + reach[j] * f64::from(scale).max(1e-3);
        let above = &mut reach[joint.parent as usize];
        *above = above.max(here);
    }
    reach
}

/// Step 1 of [`reduce`]: budgets.
fn share_budgets(pair: &PosePair<'_>, fits: &mut [Fit], max_m: f64) {
    let count = pair.joints.len();
    // For each joint: cost of its tracks, and the fit's number.
    let mut cost = vec![[0.0f64; 3]; count];
    let mut number = vec![[usize::MAX; 3]; count];
    for (n, fit) in fits.iter().enumerate() {
        cost[fit.joint][fit.kind] = fit.cost(pair.changed_seconds(fit.track));
        number[fit.joint][fit.kind] = n;
    }
    let thirds = |v: f64| libm::cbrt(v * v);
    // Subtrees, from the leaves: what hangs below a joint, then the joint before it.
    let mut below = vec![0.0f64; count];
    let mut part = vec![[0.0f64; 3]; count];
    for j in (0..count).rev() {
        let mut whole = below[j];
        for kind in (0..3).rev() {
            let (own, rest) = (thirds(cost[j][kind]), thirds(whole));
            if own > 0.0 {
                part[j][kind] = own / (own + rest);
                let sum = own + rest;
                whole = sum * sum.sqrt();
            }
        }
        if let Some(above) = below.get_mut(pair.joints[j].parent as usize) {
            *above += whole;
        }
    }
    let mut left = vec![OVERCOMMIT * max_m; count];
    for j in 0..count {
        if let Some(above) = left.get(pair.joints[j].parent as usize) {
            left[j] = *above;
        }
        for kind in 0..3 {
            let own = left[j] * part[j][kind];
            left[j] -= own;
            if let Some(fit) = fits.get_mut(number[j][kind]) {
                fit.budget = own.clamp(LEAST * max_m, USE * max_m) / fit.lever_m;
            }
        }
    }
}

impl Fit {
    /// Deviation of key `m` from `arc` or chord `a` to `b` at fraction `f`, in units.
    #[inline]
    fn deviation(&self, line: &Line, m: usize, f: f64) -> f64 {
        let v = &self.values[m];
        let (wa, wb) = line.weights(f);
        let mut sum = 0.0;
        for c in 0..4 {
            let d = line.a[c] * wa + line.b[c] * wb - v[c];
            sum += d * d;
        }
        sum.sqrt() * line.unit
    }

    fn line(&self, i: usize, j: usize) -> Line {
        if self.kind == 1 {
            let arc = Arc::new(self.values[i], self.values[j]);
            Line { a: arc.from, b: arc.side, angle: arc.angle, unit: 2.0 }
        } else {
            Line { a: self.values[i], b: self.values[j], angle: -1.0, unit: 1.0 }
        }
    }

    /// Whether one step from key `i` to key `j` holds the budget at all keys between.
    fn holds(&self, seconds: &[f64], i: usize, j: usize) -> bool {
        if j <= i + 1 {
            return true;
        }
        if self.kind == 1 {
            let (a, b) = (&self.values[i], &self.values[j]);
            let dot: f64 = (0..4).map(|c| a[c] * b[c]).sum();
            if dot < LONGEST_STEP_DOT {
                return false;
            }
        }
        let line = self.line(i, j);
        let (start, per) = (seconds[i], 1.0 / (seconds[j] - seconds[i]));
        let near = |m: usize| self.deviation(&line, m, (seconds[m] - start) * per) <= self.budget;
        // The middle fails first.
        near((i + j) / 2) && (i + 1..j).all(near)
    }

    /// The key between `i` and `j` that one step misses most.
    fn worst(&self, seconds: &[f64], i: usize, j: usize) -> usize {
        let line = self.line(i, j);
        let (start, per) = (seconds[i], 1.0 / (seconds[j] - seconds[i]));
        let mut worst = ((i + j) / 2, 0.0);
        for m in i + 1..j {
            let d = self.deviation(&line, m, (seconds[m] - start) * per);
            if d > worst.1 {
                worst = (m, d);
            }
        }
        worst.0
    }

    /// How far one step from key `i` to key `j` misses what is between, in units; infinite where no such step may be.
    fn missed(&self, seconds: &[f64], i: usize, j: usize) -> f64 {
        if self.kind == 1 {
            let (a, b) = (&self.values[i], &self.values[j]);
            let dot: f64 = (0..4).map(|c| a[c] * b[c]).sum();
            if dot < LONGEST_STEP_DOT {
                return f64::INFINITY;
            }
        }
        let line = self.line(i, j);
        let (start, per) = (seconds[i], 1.0 / (seconds[j] - seconds[i]));
        (i + 1..j).map(|m| self.deviation(&line, m, (seconds[m] - start) * per)).fold(0.0, f64::max)
    }

    /// `c` of the number of keys `c / sqrt(budget in metres)`, but for a factor that all tracks share.
    fn cost(&self, seconds: &[f64]) -> f64 {
        let mut sum = 0.0;
        for m in 1..self.values.len() - 1 {
            let f = (seconds[m] - seconds[m - 1]) / (seconds[m + 1] - seconds[m - 1]);
            let (a, b, v) = (&self.values[m - 1], &self.values[m + 1], &self.values[m]);
            let mut d2 = 0.0;
            for c in 0..4 {
                let d = a[c] * (1.0 - f) + b[c] * f - v[c];
                d2 += d * d;
            }
            let unit = if self.kind == 1 { 2.0 } else { 1.0 };
            sum += (d2.sqrt() * unit * self.lever_m).sqrt();
        }
        sum
    }

    /// Step 2 of [`reduce`]: the keys that hold the budget when the track is alone.
    fn fit_alone(&self, seconds: &[f64], max_m: f64) -> SelectedKeys {
        let at_least = |share: f64| self.budget.max(share * max_m / self.lever_m) * 0.7;
        if let Some(rest) = self.rest.filter(|rest| self.farthest(rest) <= at_least(REST)) {
            return SelectedKeys { keys: vec![0], constant: Some(rest) };
        }
        if self.values.len() == 1 {
            return SelectedKeys { keys: vec![0], constant: None };
        }
        let constant = self.middle();
        if self.farthest(&constant) <= at_least(CONSTANT) {
            return SelectedKeys { keys: vec![0], constant: Some(constant) };
        }
        let last = self.values.len() - 1;
        let mut keys = vec![0u32];
        let mut i = 0;
        let mut stride = 8;
        while i < last {
            // Farther, in doubled strides, for as long as it holds; then between the last two.
            let mut good = i + 1;
            let mut bad = last + 1;
            let mut next = i + stride;
            loop {
                let j = next.min(last);
                if self.holds(seconds, i, j) {
                    good = good.max(j);
                    if j == last {
                        break;
                    }
                    next = i + 2 * (j - i);
                } else {
                    bad = j;
                    break;
                }
            }
            while good < last && bad - good > 1 {
                let mid = (good + bad) / 2;
                if self.holds(seconds, i, mid) {
                    good = mid;
                } else {
                    bad = mid;
                }
            }
            stride = (good - i).max(2);
            keys.push(good as u32);
            i = good;
        }
        SelectedKeys { keys, constant: None }
    }

    /// The middle of the track's range, as the file will hold it.
    fn middle(&self) -> [f64; 4] {
        let mut low = self.values[0];
        let mut high = self.values[0];
        for v in &self.values {
            for c in 0..4 {
                low[c] = low[c].min(v[c]);
                high[c] = high[c].max(v[c]);
            }
        }
        let mut middle: [f64; 4] = std::array::from_fn(|c| 0.5 * (low[c] + high[c]));
        if self.kind == 1 {
            middle = unit(middle);
        }
        let as_stored = |v: f64| match self.quantized && self.kind == 1 {
            true => f64::from(dequantize_i16(quantize_i16(v as f32))),
            false => f64::from(v as f32),
        };
        middle.map(as_stored)
    }

    /// How far the farthest key is from `value`, in units.
    fn farthest(&self, value: &[f64; 4]) -> f64 {
        let factor = if self.kind == 1 { 2.0 } else { 1.0 };
        let apart = |v: &[f64; 4]| {
            let apart = |sign: f64| (0..4).map(|c| (v[c] - sign * value[c]).powi(2)).sum::<f64>();
            if self.kind == 1 { apart(1.0).min(apart(-1.0)) } else { apart(1.0) }
        };
        // What is not a number is near nothing.
        let apart = |v: &[f64; 4]| Some(apart(v)).filter(|d| !d.is_nan()).unwrap_or(f64::INFINITY);
        self.values.iter().map(apart).fold(0.0, f64::max).sqrt() * factor
    }
}

/// Gives tracks the same keys where that costs fewer bytes: their instants are then written once.
fn share_keys(clip: &Clip, fits: &mut [Fit], selected: &mut [SelectedKeys]) {
    /// f32 instant; accessor of instants with its bounds, as JSON.
    const INSTANT_BYTES: usize = 4;
    const ACCESSOR_BYTES: usize = 110;
    struct Group {
        timeline: u32,
        keys: Vec<u64>,
        /// Of a key's values, in all tracks; equal tracks are written once.
        value_bytes: usize,
        fits: Vec<usize>,
    }
    let cost = |keys: usize, value_bytes: usize| keys * (value_bytes + INSTANT_BYTES) + ACCESSOR_BYTES;
    let mut groups: Vec<Group> = Vec::new();
    for fits_of_one in groups_of(fits).into_values() {
        let fit = &fits[fits_of_one[0]];
        let selected = &selected[fit.track as usize];
        if selected.constant.is_some() || fit.values.len() == 1 {
            continue;
        }
        let mut keys = vec![0u64; fit.values.len().div_ceil(64)];
        for k in &selected.keys {
            keys[*k as usize / 64] |= 1 << (k % 64);
        }
        let timeline = clip.tracks[fit.track as usize].timeline;
        let value_bytes = match (fit.kind, fit.quantized) {
            (1, true) => 8,
            (1, false) => 16,
            _ => 12,
        };
        groups.push(Group { timeline, keys, value_bytes, fits: fits_of_one });
    }
    let count = |g: &Group| g.keys.iter().map(|w| w.count_ones() as usize).sum::<usize>();
    let gain = |a: &Group, b: &Group| {
        if a.timeline != b.timeline {
            return 0;
        }
        let joined: usize = a.keys.iter().zip(&b.keys).map(|(a, b)| (a | b).count_ones() as usize).sum();
        (cost(count(a), a.value_bytes) + cost(count(b), b.value_bytes))
            .saturating_sub(cost(joined, a.value_bytes + b.value_bytes))
    };
    // For each group the best of the later ones.
    let best = |groups: &[Group], i: usize| {
        let mut best = (0, 0);
        for j in i + 1..groups.len() {
            let gain = gain(&groups[i], &groups[j]);
            if gain > best.0 {
                best = (gain, j);
            }
        }
        best
    };
    let mut bests: Vec<(usize, usize)> = (0..groups.len()).map(|i| best(&groups, i)).collect();
    while let Some((i, (most, j))) =
        bests.iter().copied().enumerate().max_by_key(|(i, b)| (b.0, usize::MAX - i))
    {
        if most == 0 {
            break;
        }
        // The later one goes into the earlier; its place stays, empty, so that no number changes.
        let other = std::mem::replace(
            &mut groups[j],
            Group { timeline: NONE - j as u32, keys: Vec::new(), value_bytes: 0, fits: Vec::new() },
        );
        let group = &mut groups[i];
        group.keys.iter_mut().zip(&other.keys).for_each(|(a, b)| *a |= b);
        group.value_bytes += other.value_bytes;
        group.fits.extend(other.fits);
        bests[j] = (0, 0);
        for k in 0..=i.max(j) {
            if k == i || bests[k].0 > 0 && (bests[k].1 == i || bests[k].1 == j) {
                bests[k] = best(&groups, k);
            } else if k < i {
                let gain = gain(&groups[k], &groups[i]);
                if gain > bests[k].0 {
                    bests[k] = (gain, i);
                }
            }
        }
    }
    for (number, group) in groups.iter().enumerate().filter(|(_, g)| g.fits.len() > 1) {
        let keys: Vec<u32> = (0..group.keys.len() as u32 * 64)
            .filter(|k| group.keys[*k as usize / 64] >> (k % 64) & 1 == 1)
            .collect();
        for n in &group.fits {
            // Beside the numbers of tracks that stay alone.
            fits[*n].group = selected.len() + number;
            selected[fits[*n].track as usize].keys.clone_from(&keys);
        }
    }
}

/// A step between two keys: an arc (angle 0 or more) or a chord.
struct Line {
    a: [f64; 4],
    b: [f64; 4],
    angle: f64,
    unit: f64,
}

impl Line {
    #[inline]
    fn weights(&self, f: f64) -> (f64, f64) {
        if self.angle < 0.0 {
            (1.0 - f, f)
        } else {
            let (sin, cos) = sin_cos(self.angle * f);
            (cos, sin)
        }
    }
}

/// Step 3 of [`reduce`]: keys come back until the bound holds at every instant of the pose pair.
fn repair(
    pair: &mut PosePair<'_>,
    fits: &mut [Fit],
    selected: &mut [SelectedKeys],
    limit: f64,
    report: &mut Reduction,
) {
    let joints = pair.joints.len();
    let mut of_joint = vec![[usize::MAX; 3]; joints];
    for (n, fit) in fits.iter().enumerate() {
        of_joint[fit.joint][fit.kind] = n;
    }
    let mut dirty = vec![true; pair.blocks()];
    let mut last = vec![0.0f64; pair.blocks()];
    let mut bounds: Vec<[f64; LANES]> = vec![[0.0; LANES]; joints];
    let mut order: Vec<usize> = Vec::new();
    while dirty.iter().any(|d| *d) {
        report.rounds += 1;
        for fit in fits.iter_mut() {
            fit.fresh.clear();
        }
        for block in 0..pair.blocks() {
            if !dirty[block] {
                continue;
            }
            pair.pose(block, selected);
            last[block] = 0.0;
            for j in 0..joints {
                if pair.live[j] {
                    bounds[j] = pair.bound(j);
                    last[block] = bounds[j].iter().fold(last[block], |a, b| a.max(*b));
                }
            }
            if last[block] <= limit {
                continue;
            }
            for l in 0..LANES {
                order.clear();
                order.extend((0..joints).filter(|j| bounds[*j][l] > limit));
                order.sort_by(|a, b| bounds[*b][l].total_cmp(&bounds[*a][l]));
                for j in order.iter() {
                    restore_key(pair, fits, selected, &of_joint, *j, block * LANES + l);
                }
            }
        }
        dirty.fill(false);
        for (from, to) in fits.iter().flat_map(|f| f.fresh.iter().copied()) {
            let a = pair.instants.partition_point(|t| *t < from) / LANES;
            let b = pair.instants.partition_point(|t| *t <= to).div_ceil(LANES);
            dirty[a..b].fill(true);
        }
    }
    report.bound_mm = last.iter().copied().fold(0.0, f64::max) * 1000.0;
}

/// What a change of some tracks moves, and what has to stand before that can be posed.
#[derive(Default)]
struct Moved {
    /// Joints, parents first; and whether the change moves it (those above it it does not).
    joints: Vec<(u32, bool)>,
}

impl Moved {
    fn by(pair: &PosePair<'_>, fits: &[Fit], members: &[usize]) -> Self {
        let count = pair.joints.len();
        let (mut above, mut moved) = (vec![false; count], vec![false; count]);
        for n in members {
            let mut j = fits[*n].joint;
            moved[j] = true;
            while pair.joints[j].parent != NONE {
                j = pair.joints[j].parent as usize;
                above[j] = true;
            }
        }
        for j in 0..count {
            moved[j] |= moved.get(pair.joints[j].parent as usize).copied().unwrap_or(false);
        }
        let joints = (0..count).filter(|j| pair.live[*j] && (above[*j] || moved[*j]));
        Moved { joints: joints.map(|j| (j as u32, moved[j])).collect() }
    }

    /// Whether no point that the change moves is farther off than `limit` in the blocks.
    fn holds(
        &self,
        pair: &mut PosePair<'_>,
        selected: &[SelectedKeys],
        blocks: Range<usize>,
        limit: f64,
    ) -> bool {
        // The middle fails first.
        let middle = blocks.start.midpoint(blocks.end);
        (middle..blocks.end).chain(blocks.start..middle).all(|block| {
            self.joints.iter().all(|&(j, moved)| {
                pair.pose_joint(j as usize, block, selected);
                !moved || pair.bound(j as usize).iter().all(|b| *b <= limit)
            })
        })
    }
}

/// Step 4 of [`reduce`], whole tracks: those that can stand at rest, or at one value, do.
fn try_constants(pair: &mut PosePair<'_>, fits: &mut [Fit], selected: &mut [SelectedKeys], max_m: f64) {
    let limit = USE * max_m;
    let mut candidates = Vec::new();
    for (n, fit) in fits.iter().enumerate() {
        let now = selected[fit.track as usize].constant;
        let rest = fit.rest.filter(|rest| now != Some(*rest));
        let middle = (now.is_none() && fit.values.len() > 1).then(|| fit.middle());
        for value in rest.into_iter().chain(middle) {
            let cost = fit.farthest(&value) * fit.lever_m;
            if cost <= TRIED * limit {
                candidates.push((cost, n, value));
            }
        }
    }
    // Stable: of the two values of a track the one that it misses less comes first, rest where they are equal.
    candidates.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    for (_, n, value) in candidates {
        let track = fits[n].track as usize;
        let was =
            std::mem::replace(&mut selected[track], SelectedKeys { keys: vec![0], constant: Some(value) });
        let all = 0..pair.blocks();
        if !Moved::by(pair, fits, &[n]).holds(pair, selected, all, limit) {
            selected[track] = was;
        } else {
            // Equal tracks part.
            let group = fits[n].group;
            for (m, fit) in fits.iter_mut().enumerate().filter(|(_, f)| f.group == group) {
                fit.group = m;
            }
        }
    }
}

/// Step 4 of [`reduce`]: keys go, those first that are missed least, wherever the bound holds without them.
fn prune(pair: &mut PosePair<'_>, fits: &[Fit], selected: &mut [SelectedKeys], max_m: f64) {
    let limit = USE * max_m;
    let groups: Vec<Vec<usize>> = groups_of(fits).into_values().collect();
    let mut moved: Vec<Moved> = Vec::new();
    // Metres at the far end, number of the group, key.
    let mut candidates = Vec::new();
    let missed = |pair: &PosePair<'_>, n: &usize, from: u32, to: u32, lever: fn(f64) -> f64| {
        let fit = &fits[*n];
        fit.missed(pair.changed_seconds(fit.track), from as usize, to as usize) * lever(fit.lever_m)
    };
    for (g, members) in groups.iter().enumerate() {
        moved.push(Moved::default());
        let track = &selected[fits[members[0]].track as usize];
        if track.constant.is_some() || track.keys.len() < 3 {
            continue;
        }
        moved[g] = Moved::by(pair, fits, members);
        for around in track.keys.windows(3) {
            let cost = members
                .iter()
                .map(|n| missed(pair, n, around[0], around[2], |lever| lever))
                .fold(0.0, f64::max);
            if cost <= TRIED * limit {
                candidates.push((cost, g, around[1]));
            }
        }
    }
    candidates.sort_by(|a, b| a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    for (_, g, key) in candidates {
        let members = &groups[g];
        let first = fits[members[0]].track as usize;
        let keys = &selected[first].keys;
        let Ok(at) = keys.binary_search(&key) else { continue };
        let (before, after) = (keys[at - 1], keys[at + 1]);
        // What was removed beside it since may have made the step longer.
        if members.iter().any(|n| missed(pair, n, before, after, |lever| lever.min(SHELL_M)) > limit) {
            continue;
        }
        let seconds = pair.changed_seconds(first as u32);
        let (from, to) = (seconds[before as usize], seconds[after as usize]);
        let blocks = pair.instants.partition_point(|t| *t <= from) / LANES
            ..pair.instants.partition_point(|t| *t < to).div_ceil(LANES);
        for n in members {
            selected[fits[*n].track as usize].keys.remove(at);
        }
        if !moved[g].holds(pair, selected, blocks, limit) {
            for n in members {
                selected[fits[*n].track as usize].keys.insert(at, key);
            }
        }
    }
}

/// Gives a key back to the track that moves the shell of joint `j` most at `instant`, unless a track of its chain
/// has got one around it in this round already.
fn restore_key(
    pair: &PosePair<'_>,
    fits: &mut [Fit],
    selected: &mut [SelectedKeys],
    of_joint: &[[usize; 3]],
    j: usize,
    instant: usize,
) {
    let l = instant % LANES;
    let t = pair.instants[instant];
    let tip = &pair.model[0][j].p;
    let mut moved: Vec<(f64, usize)> = Vec::new();
    let mut a = j;
    loop {
        for kind in 0..3 {
            let n = of_joint[a][kind];
            let Some(fit) = fits.get(n) else { continue };
            if fit.fresh.iter().any(|(from, to)| *from <= t && t <= *to) {
                return;
            }
            let (source, changed) = (&pair.local[0][a], &pair.local[1][a]);
            let distance = |x: &[[f64; LANES]], y: &[[f64; LANES]], sign: f64| {
                x.iter().zip(y).map(|(x, y)| (x[l] - sign * y[l]) * (x[l] - sign * y[l])).sum::<f64>().sqrt()
            };
            let base = &pair.model[0][a].p;
            let lever = SHELL_M + distance(tip, base, 1.0);
            moved.push((
                match kind {
                    0 => distance(&source.t, &changed.t, 1.0),
                    1 => {
                        let same = distance(&source.r, &changed.r, 1.0);
                        2.0 * lever * same.min(distance(&source.r, &changed.r, -1.0))
                    }
                    _ => lever * distance(&source.s, &changed.s, 1.0),
                },
                n,
            ));
        }
        match pair.joints[a].parent {
            NONE => break,
            p => a = p as usize,
        }
    }
    moved.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    for (_, n) in moved {
        let fit = &fits[n];
        let seconds = pair.changed_seconds(fit.track);
        let track = &mut selected[fit.track as usize];
        let end = fit.values.len() - 1;
        if end == 0 && track.constant.is_none() {
            continue;
        }
        if track.constant.take().is_some() {
            // A value for the whole clip becomes its ends and the key between that they miss most.
            if end == 0 {
                fits[n].fresh.push((f64::NEG_INFINITY, f64::INFINITY));
                return;
            }
            let mut keys = vec![0, end as u32];
            if end > 1 {
                keys.insert(1, fit.worst(seconds, 0, end) as u32);
            }
            track.keys = keys;
            fits[n].fresh.push((f64::NEG_INFINITY, f64::INFINITY));
            return;
        }
        // Between which kept keys the instant lies.
        let after = track.keys.partition_point(|k| seconds[*k as usize] <= t).clamp(1, track.keys.len() - 1);
        let (from, to) = (track.keys[after - 1] as usize, track.keys[after] as usize);
        if to > from + 1 && t >= seconds[from] && t <= seconds[to] {
            let key = fit.worst(seconds, from, to) as u32;
            let group = fit.group;
            for fit in fits.iter_mut().filter(|f| f.group == group) {
                selected[fit.track as usize].keys.insert(after, key);
                fit.fresh.push((seconds[from], seconds[to]));
            }
            return;
        }
    }
}

/// The keys of a stepped track that differ from the one before.
fn select_changes(clip: &Clip, track: usize) -> SelectedKeys {
    let values = &clip.tracks[track].curve.values;
    let (bytes, width): (&[u8], usize) = match values {
        Values::Vec3(v) => (bytemuck::cast_slice(v), 12),
        Values::Quat(v) => (bytemuck::cast_slice(v), 16),
        Values::Scalar(v) => (bytemuck::cast_slice(v), 4),
        Values::Raw { .. } => return SelectedKeys::default(),
    };
    if values.len() < 2 || values.len() != clip.timeline(&clip.tracks[track]).len() {
        return SelectedKeys::default();
    }
    if all_equal(bytes, width) {
        return SelectedKeys { keys: vec![0], constant: None };
    }
    let key = |i: usize| &bytes[i * width..(i + 1) * width];
    let keys = (0..values.len()).filter(|i| *i == 0 || key(*i) != key(i - 1)).map(|i| i as u32).collect();
    SelectedKeys { keys, constant: None }
}

/// Leaves `selected` of a track. Nothing where it names no key.
fn retain_keys(clip: &mut Clip, index: usize, selected: &SelectedKeys) {
    let track = &clip.tracks[index];
    if selected.keys.is_empty()
        || selected.constant.is_none() && selected.keys.len() == track.curve.values.len()
    {
        return;
    }
    let pick = |i: &u32| *i as usize;
    let values = match (&track.curve.values, selected.constant) {
        (Values::Quat(_), Some(v)) => Values::Quat(vec![glam::Quat::from_array(v.map(|c| c as f32))]),
        (Values::Vec3(_), Some(v)) => {
            Values::Vec3(vec![glam::Vec3::new(v[0] as f32, v[1] as f32, v[2] as f32)])
        }
        (Values::Quat(v), None) => {
            let mut v: Vec<_> = selected.keys.iter().map(|i| v[pick(i)]).collect();
            align(&mut v);
            Values::Quat(v)
        }
        (Values::Vec3(v), None) => Values::Vec3(selected.keys.iter().map(|i| v[pick(i)]).collect()),
        (Values::Scalar(v), None) => Values::Scalar(selected.keys.iter().map(|i| v[pick(i)]).collect()),
        _ => return,
    };
    if selected.keys.len() > 1 {
        let timeline = clip.timeline(track);
        let positions: Vec<f64> = selected.keys.iter().map(|i| timeline.positions.get(pick(i))).collect();
        let whole = positions.iter().all(|p| p.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(p));
        let positions = if whole {
            Positions::Whole(positions.iter().map(|p| *p as u32).collect())
        } else {
            Positions::Fractional(positions)
        };
        let timeline = Timeline { positions, ..timeline.clone() };
        let timeline = clip.add_timeline(timeline);
        clip.tracks[index].timeline = timeline;
    }
    clip.tracks[index].curve.values = values;
}

/// Drops tracks whose one value is the joint's rest pose to the bit (rotations: or its negative). Only on request:
/// a player that shows several clips one after the other keeps the pose of the clip before where a track is missing.
pub fn drop_at_rest(clip: &mut Clip, rig: &Skeleton) {
    clip.tracks.retain(|track| {
        let Some(joint) = rig.find(track.target.joint) else { return true };
        let rest = rig.joints()[joint].rest;
        match (&track.curve.values, track.target.property) {
            (Values::Vec3(v), Property::Translation) => v[..] != [rest.translation],
            (Values::Vec3(v), Property::Scale) => v[..] != [rest.scale],
            (Values::Quat(v), Property::Rotation) => v[..] != [rest.rotation] && v[..] != [-rest.rotation],
            _ => true,
        }
    });
    drop_unused_timelines(clip);
}
