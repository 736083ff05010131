//! Fewer keys within a bound that is measured in model space.

// One index runs over several arrays of lanes or components at once.
#![allow(clippy::needless_range_loop)]

use super::inbetween::{Slerp, split_track};
use super::quantize::{dequantize_i16, quantize_i16, round_rotations};
use super::signs::{align, align_signs, all_equal};
use super::stage::{Arc, Kept, LANES, NONE, SHELL_M, Stage, sin_cos, unit};
use crate::error::{Error, Result};
use crate::model::{Clip, Interpolation, Positions, Property, Skeleton, Timeline, Trs, Values};

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

/// Share of the bound that keys and the instants looked at may use: between two of those instants the error is
/// still a little larger, and the writer rounds times to f32.
const USE: f64 = 0.97;
/// The sum of the budgets down a chain, in bounds. Errors of neighbouring joints point all ways and are seldom at
/// their largest together, so more than one bound is given out, and the sweep takes back where it was too much.
const OVERCOMMIT: f64 = 6.0;

/// No track gets less than this share of the bound: below it, noise is followed key by key.
const LEAST: f64 = 0.05;
/// A track within this share of the bound of one value takes it, whatever its budget.
const CONSTANT: f64 = 0.1;
/// A track within this share of the bound of its joint's rest pose needs no key at all.
const REST: f64 = 0.5;
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
/// 3. Source (its own interpolation) and result are posed in model space at the union of all keys and between them.
///    Where a point moves too far, the chain's track that moves it most gets back the key that it misses most;
///    again, only around what changed, until every point holds.
/// 4. The other way round: keys go, in the order of how little they are missed, wherever every point holds without
///    them (the budgets are a guess; this takes what they left).
/// 5. Tracks get the same keys where that is fewer bytes than instants of their own, and 3. comes once more.
///
/// Deterministic. Tracks that move no joint are left alone; steps lose only keys that repeat the one before.
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
        if report.bound_mm <= max_mm || share < 0.005 {
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
    /// Its joint in the stage, and its number in the clip.
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
        let stage = Stage::new(rig, source, source, 0);
        reach(&stage)
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
        split_track(&mut dense, track, &mut Slerp::new((share * max_m / lever).to_degrees()));
    }
    align_signs(&mut dense);

    if quantized {
        round_rotations(&mut dense);
    }
    let mut stage = Stage::new(rig, source, &dense, 3);
    let mut fits = Vec::new();
    for (j, joint) in stage.joints.iter().enumerate() {
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
    share_out(&stage, &mut fits, max_m);

    let mut kept = vec![Kept::default(); dense.tracks.len()];
    for fit in &fits {
        kept[fit.track as usize] = fit.first(stage.changed_seconds(fit.track), max_m);
    }
    let mut report = Reduction::default();
    let cnt = |w: &str, kept: &[Kept], fits: &[Fit]| {
        let n: usize = fits.iter().map(|f| { let k=&kept[f.track as usize]; if k.constant.is_some(){1}else if k.keys.is_empty(){f.values.len()}else{k.keys.len()} }).sum();
        let b: usize = fits.iter().map(|f| { let k=&kept[f.track as usize]; (if k.constant.is_some(){0}else{k.keys.len()})*(4+if f.kind==1{if quantized {8} else {16}} else {12}) }).sum();
        let all: usize = fits.iter().map(|f| f.values.len()).sum();
        eprintln!("{w} {n} of {all}, unshared bytes {b}, {:?}", std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_micros() % 10000000);
    };
    cnt("first", &kept, &fits);
    repair(&mut stage, &mut fits, &mut kept, max_m, &mut report);
    cnt("repair", &kept, &fits);
    prune(&mut stage, &fits, &mut kept, max_m);
    cnt("prune", &kept, &fits);
    share_keys(&dense, &mut fits, &mut kept);
    cnt("share", &kept, &fits);
    repair(&mut stage, &mut fits, &mut kept, max_m, &mut report);
    cnt("repair", &kept, &fits);
    drop(stage);

    let mut fitted = vec![false; dense.tracks.len()];
    for fit in &fits {
        fitted[fit.track as usize] = true;
    }
    for track in 0..dense.tracks.len() {
        if fitted[track] {
            keep(&mut dense, track, &kept[track]);
        } else if !matches!(dense.tracks[track].target.property, Property::Other(_))
            && dense.tracks[track].curve.interpolation == Interpolation::Step
        {
            let repeated = keep_changes(&dense, track);
            keep(&mut dense, track, &repeated);
        }
    }
    forget_unused(&mut dense);
    (dense, report)
}

/// For each joint: how far the farthest point that it turns can be, metres. Chains stretched out, so true of any pose.
fn reach(stage: &Stage<'_>) -> Vec<f64> {
    let mut reach = vec![SHELL_M; stage.joints.len()];
    for j in (0..stage.joints.len()).rev() {
        let joint = &stage.joints[j];
        if joint.parent == NONE {
            continue;
        }
        let longest = |kind: usize, rest: f32, of: fn(glam::Vec3) -> f32| match stage
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
fn share_out(stage: &Stage<'_>, fits: &mut [Fit], max_m: f64) {
    let count = stage.joints.len();
    // For each joint: cost of its tracks, and the fit's number.
    let mut cost = vec![[0.0f64; 3]; count];
    let mut number = vec![[usize::MAX; 3]; count];
    for (n, fit) in fits.iter().enumerate() {
        cost[fit.joint][fit.kind] = fit.cost(stage.changed_seconds(fit.track));
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
        if let Some(above) = below.get_mut(stage.joints[j].parent as usize) {
            *above += whole;
        }
    }
    let mut left = vec![OVERCOMMIT * max_m; count];
    for j in 0..count {
        if let Some(above) = left.get(stage.joints[j].parent as usize) {
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
    fn first(&self, seconds: &[f64], max_m: f64) -> Kept {
        let at_least = |share: f64| self.budget.max(share * max_m / self.lever_m) * 0.7;
        if let Some(rest) = self.rest.filter(|rest| self.stays_near(rest, at_least(REST))) {
            return Kept { keys: vec![0], constant: Some(rest) };
        }
        if self.values.len() == 1 {
            return Kept { keys: vec![0], constant: None };
        }
        if let Some(constant) = self.middle(at_least(CONSTANT)) {
            return Kept { keys: vec![0], constant: Some(constant) };
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
        Kept { keys, constant: None }
    }

    /// The middle of the track's range (as f32 will hold it), if no key is farther than `budget` from it.
    fn middle(&self, budget: f64) -> Option<[f64; 4]> {
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
        let middle = middle.map(as_stored);
        self.stays_near(&middle, budget).then_some(middle)
    }

    /// Whether no key is farther than `budget` from `value`.
    fn stays_near(&self, value: &[f64; 4], budget: f64) -> bool {
        let factor = if self.kind == 1 { 2.0 } else { 1.0 };
        let near = |v: &[f64; 4]| {
            let apart = |sign: f64| (0..4).map(|c| (v[c] - sign * value[c]).powi(2)).sum::<f64>();
            let d2 = if self.kind == 1 { apart(1.0).min(apart(-1.0)) } else { apart(1.0) };
            d2.sqrt() * factor <= budget
        };
        self.values.iter().all(near)
    }
}

/// Gives tracks the same keys where that costs fewer bytes: their instants are then written once.
fn share_keys(clip: &Clip, fits: &mut [Fit], kept: &mut [Kept]) {
    /// f32 instant; accessor of instants with its bounds, as JSON.
    const INSTANT_BYTES: usize = 4;
    const ACCESSOR_BYTES: usize = 130;
    struct Group {
        timeline: u32,
        keys: Vec<u64>,
        /// Of a key's values, in all tracks.
        value_bytes: usize,
        /// Keys of the timeline, and of those the most that one of the tracks does without.
        all: usize,
        dropped: usize,
        fits: Vec<usize>,
    }
    let cost = |keys: usize, value_bytes: usize| keys * (value_bytes + INSTANT_BYTES) + ACCESSOR_BYTES;
    let mut groups: Vec<Group> = Vec::new();
    for (n, fit) in fits.iter().enumerate() {
        let kept = &kept[fit.track as usize];
        if kept.constant.is_some() || fit.values.len() == 1 {
            continue;
        }
        let mut keys = vec![0u64; fit.values.len().div_ceil(64)];
        for k in &kept.keys {
            keys[*k as usize / 64] |= 1 << (k % 64);
        }
        let timeline = clip.tracks[fit.track as usize].timeline;
        let value_bytes = match (fit.kind, fit.quantized) {
            (1, true) => 8,
            (1, false) => 16,
            _ => 12,
        };
        let all = fit.values.len();
        let dropped = all - kept.keys.len();
        groups.push(Group { timeline, keys, value_bytes, all, dropped, fits: vec![n] });
    }
    let count = |g: &Group| g.keys.iter().map(|w| w.count_ones() as usize).sum::<usize>();
    let gain = |a: &Group, b: &Group| {
        if a.timeline != b.timeline {
            return 0;
        }
        let joined: usize = a.keys.iter().zip(&b.keys).map(|(a, b)| (a | b).count_ones() as usize).sum();
        // No more than half of what a track dropped comes back: few keys are what was asked for.
        if 2 * (a.all - joined) < a.dropped.max(b.dropped) {
            return 0;
        }
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
            Group {
                timeline: NONE - j as u32,
                keys: Vec::new(),
                value_bytes: 0,
                all: 0,
                dropped: 0,
                fits: Vec::new(),
            },
        );
        let group = &mut groups[i];
        group.keys.iter_mut().zip(&other.keys).for_each(|(a, b)| *a |= b);
        group.value_bytes += other.value_bytes;
        group.dropped = group.dropped.max(other.dropped);
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
            fits[*n].group = kept.len() + number;
            kept[fits[*n].track as usize].keys.clone_from(&keys);
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

/// Step 3 of [`reduce`]: keys come back until the bound holds at every instant of the stage.
fn repair(stage: &mut Stage<'_>, fits: &mut [Fit], kept: &mut [Kept], max_m: f64, report: &mut Reduction) {
    let joints = stage.joints.len();
    let mut of_joint = vec![[usize::MAX; 3]; joints];
    for (n, fit) in fits.iter().enumerate() {
        of_joint[fit.joint][fit.kind] = n;
    }
    let limit = USE * max_m;
    let mut dirty = vec![true; stage.blocks()];
    let mut last = vec![0.0f64; stage.blocks()];
    let mut bounds: Vec<[f64; LANES]> = vec![[0.0; LANES]; joints];
    let mut order: Vec<usize> = Vec::new();
    while dirty.iter().any(|d| *d) {
        report.rounds += 1;
        for fit in fits.iter_mut() {
            fit.fresh.clear();
        }
        for block in 0..stage.blocks() {
            if !dirty[block] {
                continue;
            }
            stage.pose(block, kept);
            last[block] = 0.0;
            for j in 0..joints {
                if stage.live[j] {
                    bounds[j] = stage.bound(j);
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
                    mend(stage, fits, kept, &of_joint, *j, block * LANES + l);
                }
            }
        }
        dirty.fill(false);
        for (from, to) in fits.iter().flat_map(|f| f.fresh.iter().copied()) {
            let a = stage.instants.partition_point(|t| *t < from) / LANES;
            let b = stage.instants.partition_point(|t| *t <= to).div_ceil(LANES);
            dirty[a..b].fill(true);
        }
    }
    report.bound_mm = last.iter().copied().fold(0.0, f64::max) * 1000.0;
}

/// A kept key that may go.
struct Candidate {
    fit: usize,
    key: u32,
    /// Metres at the far end.
    cost: f64,
}

/// Step 4 of [`reduce`]: keys go, those first that are missed least, wherever the bound holds without them.
fn prune(stage: &mut Stage<'_>, fits: &[Fit], kept: &mut [Kept], max_m: f64) {
    let limit = USE * max_m;
    let joints = stage.joints.len();
    // For each joint with a track: those above it, itself, those below it; and which of these it moves.
    let mut lines: Vec<Vec<u32>> = vec![Vec::new(); joints];
    let mut candidates = Vec::new();
    for (n, fit) in fits.iter().enumerate() {
        let track = &kept[fit.track as usize];
        if track.constant.is_some() || track.keys.len() < 3 {
            continue;
        }
        if lines[fit.joint].is_empty() {
            lines[fit.joint] = line_of(stage, fit.joint);
        }
        let seconds = stage.changed_seconds(fit.track);
        for around in track.keys.windows(3) {
            let cost = fit.missed(seconds, around[0] as usize, around[2] as usize);
            if cost * fit.lever_m <= 2.0 * limit {
                candidates.push(Candidate { fit: n, key: around[1], cost: cost * fit.lever_m });
            }
        }
    }
    candidates.sort_by(|a, b| a.cost.total_cmp(&b.cost).then((a.fit, a.key).cmp(&(b.fit, b.key))));
    for Candidate { fit: n, key, .. } in candidates {
        let fit = &fits[n];
        let keys = &mut kept[fit.track as usize].keys;
        let Ok(at) = keys.binary_search(&key) else { continue };
        let (before, after) = (keys[at - 1] as usize, keys[at + 1] as usize);
        let seconds = stage.changed_seconds(fit.track);
        // What was removed beside it since may have made the step longer.
        if fit.missed(seconds, before, after) * SHELL_M.min(fit.lever_m) > limit {
            continue;
        }
        let (from, to) = (seconds[before], seconds[after]);
        keys.remove(at);
        let first = stage.instants.partition_point(|t| *t <= from) / LANES;
        let last = stage.instants.partition_point(|t| *t < to).div_ceil(LANES);
        let holds = (first..last).all(|block| {
            lines[fit.joint].iter().all(|&j| {
                let j = j as usize;
                stage.pose_joint(j, block, kept);
                j < fit.joint || stage.bound(j).iter().all(|b| *b <= limit)
            })
        });
        if !holds {
            kept[fit.track as usize].keys.insert(at, key);
        }
    }
}

/// The moving joints above and below `joint`, and itself; parents first.
fn line_of(stage: &Stage<'_>, joint: usize) -> Vec<u32> {
    let mut line = Vec::new();
    let mut above = joint as u32;
    while above != NONE {
        line.push(above);
        above = stage.joints[above as usize].parent;
    }
    line.reverse();
    let own = line.len() - 1;
    for j in joint + 1..stage.joints.len() {
        if line[own..].contains(&stage.joints[j].parent) {
            line.push(j as u32);
        }
    }
    line.retain(|j| stage.live[*j as usize]);
    line
}

/// Gives a key back to the track that moves the shell of joint `j` most at `instant`, unless a track of its chain
/// has got one around it in this round already.
fn mend(
    stage: &Stage<'_>,
    fits: &mut [Fit],
    kept: &mut [Kept],
    of_joint: &[[usize; 3]],
    j: usize,
    instant: usize,
) {
    let l = instant % LANES;
    let t = stage.instants[instant];
    let tip = &stage.model[0][j].p;
    let mut moved: Vec<(f64, usize)> = Vec::new();
    let mut a = j;
    loop {
        for kind in 0..3 {
            let n = of_joint[a][kind];
            let Some(fit) = fits.get(n) else { continue };
            if fit.fresh.iter().any(|(from, to)| *from <= t && t <= *to) {
                return;
            }
            let (source, changed) = (&stage.local[0][a], &stage.local[1][a]);
            let distance = |x: &[[f64; LANES]], y: &[[f64; LANES]], sign: f64| {
                x.iter().zip(y).map(|(x, y)| (x[l] - sign * y[l]) * (x[l] - sign * y[l])).sum::<f64>().sqrt()
            };
            let base = &stage.model[0][a].p;
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
        match stage.joints[a].parent {
            NONE => break,
            p => a = p as usize,
        }
    }
    moved.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    for (_, n) in moved {
        let fit = &fits[n];
        let seconds = stage.changed_seconds(fit.track);
        let track = &mut kept[fit.track as usize];
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
                kept[fit.track as usize].keys.insert(after, key);
                fit.fresh.push((seconds[from], seconds[to]));
            }
            return;
        }
    }
}

/// The keys of a stepped track that differ from the one before.
fn keep_changes(clip: &Clip, track: usize) -> Kept {
    let values = &clip.tracks[track].curve.values;
    let (bytes, width): (&[u8], usize) = match values {
        Values::Vec3(v) => (bytemuck::cast_slice(v), 12),
        Values::Quat(v) => (bytemuck::cast_slice(v), 16),
        Values::Scalar(v) => (bytemuck::cast_slice(v), 4),
        Values::Raw { .. } => return Kept::default(),
    };
    if values.len() < 2 || values.len() != clip.timeline(&clip.tracks[track]).len() {
        return Kept::default();
    }
    if all_equal(bytes, width) {
        return Kept { keys: vec![0], constant: None };
    }
    let key = |i: usize| &bytes[i * width..(i + 1) * width];
    let keys = (0..values.len()).filter(|i| *i == 0 || key(*i) != key(i - 1)).map(|i| i as u32).collect();
    Kept { keys, constant: None }
}

/// Leaves `kept` of a track. Nothing where it names no key.
fn keep(clip: &mut Clip, index: usize, kept: &Kept) {
    let track = &clip.tracks[index];
    if kept.keys.is_empty() || kept.constant.is_none() && kept.keys.len() == track.curve.values.len() {
        return;
    }
    let pick = |i: &u32| *i as usize;
    let values = match (&track.curve.values, kept.constant) {
        (Values::Quat(_), Some(v)) => Values::Quat(vec![glam::Quat::from_array(v.map(|c| c as f32))]),
        (Values::Vec3(_), Some(v)) => {
            Values::Vec3(vec![glam::Vec3::new(v[0] as f32, v[1] as f32, v[2] as f32)])
        }
        (Values::Quat(v), None) => {
            let mut v: Vec<_> = kept.keys.iter().map(|i| v[pick(i)]).collect();
            align(&mut v);
            Values::Quat(v)
        }
        (Values::Vec3(v), None) => Values::Vec3(kept.keys.iter().map(|i| v[pick(i)]).collect()),
        (Values::Scalar(v), None) => Values::Scalar(kept.keys.iter().map(|i| v[pick(i)]).collect()),
        _ => return,
    };
    if kept.keys.len() > 1 {
        let timeline = clip.timeline(track);
        let positions: Vec<f64> = kept.keys.iter().map(|i| timeline.positions.get(pick(i))).collect();
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

/// Drops timelines that no track uses; the others keep their order.
pub(crate) fn forget_unused(clip: &mut Clip) {
    let mut place = vec![NONE; clip.timelines.len()];
    for track in &clip.tracks {
        place[track.timeline as usize] = 0;
    }
    for (next, p) in place.iter_mut().filter(|p| **p == 0).enumerate() {
        *p = next as u32;
    }
    let mut index = 0;
    clip.timelines.retain(|_| {
        index += 1;
        place[index - 1] != NONE
    });
    for track in &mut clip.tracks {
        track.timeline = place[track.timeline as usize];
    }
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
    forget_unused(clip);
}
