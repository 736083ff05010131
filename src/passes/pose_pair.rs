//! Two versions of a clip on one rig, posed at the same instants: what the reduction and the measure stand on.
//!
//! Instants are worked on in blocks of [`LANES`], component by component, so that the arithmetic is vectorised.

// One index runs over several arrays of lanes or components at once.
#![allow(clippy::needless_range_loop)]

use std::collections::BTreeMap;

use glam::{DMat3, DVec3};

use crate::model::{Clip, Interpolation, JointId, Property, Skeleton, Timeline, Track, Trs, Values};

/// Instants in a block.
pub(crate) const LANES: usize = 8;
/// One component at the instants of a block.
pub(crate) type Lane = [f64; LANES];
/// No joint, no track, no key.
pub(crate) const NONE: u32 = u32::MAX;

/// How far from a joint the points are whose displacement counts, metres.
pub(crate) const SHELL_M: f64 = 0.1;

/// The three tracks of a joint, in this order everywhere.
pub(crate) const PROPERTIES: [Property; 3] = [Property::Translation, Property::Rotation, Property::Scale];

/// A joint with its tracks by number (or [`NONE`]).
pub(crate) struct Joint {
    pub id: JointId,
    pub parent: u32,
    pub rest: Trs,
    pub source: [u32; 3],
    pub changed: [u32; 3],
}

/// Joints of `rig`, then the joints that only the clips know, as roots.
pub(crate) fn joints(rig: &Skeleton, source: &Clip, changed: &Clip) -> Vec<Joint> {
    let mut joints: Vec<Joint> = rig
        .joints()
        .iter()
        .map(|j| Joint {
            id: j.id,
            parent: j.parent.map_or(NONE, |p| p as u32),
            rest: j.rest,
            source: [NONE; 3],
            changed: [NONE; 3],
        })
        .collect();
    let mut extra = BTreeMap::new();
    for (clip, is_source) in [(source, true), (changed, false)] {
        for (number, track) in clip.tracks.iter().enumerate() {
            let Some(kind) = kind(clip, track) else { continue };
            let joint = rig.find(track.target.joint).unwrap_or_else(|| {
                *extra.entry(track.target.joint).or_insert_with(|| {
                    joints.push(Joint {
                        id: track.target.joint,
                        parent: NONE,
                        rest: Trs::IDENTITY,
                        source: [NONE; 3],
                        changed: [NONE; 3],
                    });
                    joints.len() - 1
                })
            });
            let joint = &mut joints[joint];
            let slot = if is_source { &mut joint.source[kind] } else { &mut joint.changed[kind] };
            // Of two tracks with one target the first counts.
            if *slot == NONE {
                *slot = number as u32;
            }
        }
    }
    joints
}

/// Which of a joint's three properties the track moves, where it holds values of that kind for its keys. `None` for
/// cameras and textures: nothing hangs from them.
pub(crate) fn kind(clip: &Clip, track: &Track) -> Option<usize> {
    if !track.target.joint.is_joint() {
        return None;
    }
    let kind = PROPERTIES.iter().position(|p| *p == track.target.property)?;
    let fits = match &track.curve.values {
        Values::Vec3(_) => kind != 1,
        Values::Quat(_) => kind == 1,
        _ => false,
    };
    let (values, keys) = (track.curve.values.len(), clip.timelines.get(track.timeline as usize)?.len());
    (fits && values > 0 && (values == 1 || values == keys)).then_some(kind)
}

/// The instants at which two versions of a clip are compared: every key of a joint track of either, and
/// `between` instants in each gap. Rising.
pub(crate) fn instants(clips: [&Clip; 2], between: usize) -> Vec<f64> {
    let mut keys = vec![0.0];
    for clip in clips {
        let mut used = vec![false; clip.timelines.len()];
        for track in &clip.tracks {
            if kind(clip, track).is_some() && !track.curve.is_constant() {
                used[track.timeline as usize] = true;
            }
        }
        for (timeline, _) in clip.timelines.iter().zip(used).filter(|(_, used)| *used) {
            keys.extend(timeline.iter_seconds().filter(|t| t.is_finite()));
        }
        if clip.length_s.is_finite() {
            keys.push(clip.length_s);
        }
    }
    keys.sort_unstable_by(f64::total_cmp);
    // Two clocks say the same instant with different last bits.
    keys.dedup_by(|b, a| *b - *a < 1e-9);
    let mut out = Vec::with_capacity(keys.len() * (between + 1));
    for (i, key) in keys.iter().enumerate() {
        out.push(*key);
        if let Some(next) = keys.get(i + 1) {
            for k in 1..=between {
                out.push(key + (next - key) * k as f64 / (between + 1) as f64);
            }
        }
    }
    out
}

/// A timeline's instants, and for each instant of the pose pair the key at or before it.
pub(crate) struct KeyLookup {
    pub seconds: Vec<f64>,
    key: Vec<u32>,
}

impl KeyLookup {
    fn new(timeline: &Timeline, instants: &[f64]) -> Self {
        let seconds: Vec<f64> = timeline.iter_seconds().collect();
        let mut key = Vec::with_capacity(instants.len());
        let mut at = 0;
        for t in instants {
            // An instant that another clock says a last bit later is this key.
            while at + 1 < seconds.len() && seconds[at + 1] <= *t + 1e-9 {
                at += 1;
            }
            key.push(at as u32);
        }
        KeyLookup { seconds, key }
    }
}

/// For each timeline that `clip`'s joint tracks use: where its keys are among `instants`.
fn key_lookups(clip: &Clip, instants: &[f64]) -> Vec<Option<KeyLookup>> {
    let mut out: Vec<Option<KeyLookup>> = clip.timelines.iter().map(|_| None).collect();
    for track in clip.tracks.iter().filter(|t| kind(clip, t).is_some() && !t.curve.is_constant()) {
        let timeline = track.timeline as usize;
        if out[timeline].is_none() {
            out[timeline] = Some(KeyLookup::new(&clip.timelines[timeline], instants));
        }
    }
    out
}

/// The keys of a track of the changed clip that are in use.
#[derive(Debug, Clone, Default)]
pub(crate) struct SelectedKeys {
    /// Numbers of keys, rising. Empty: all of the track.
    pub keys: Vec<u32>,
    /// One value for the whole clip, in place of keys: a vector or a quaternion.
    pub constant: Option<[f64; 4]>,
}

/// A pose at the instants of a block: parent-local.
#[derive(Clone)]
pub(crate) struct Local {
    pub t: [Lane; 3],
    pub r: [Lane; 4],
    pub s: [Lane; 3],
}

/// A joint's model-space transform at the instants of a block: columns of the 3 x 3 part, then the position.
#[derive(Clone)]
pub(crate) struct Model {
    pub m: [Lane; 9],
    pub p: [Lane; 3],
}

pub(crate) struct PosePair<'a> {
    pub source: &'a Clip,
    pub changed: &'a Clip,
    pub joints: Vec<Joint>,
    /// Rising, filled up to whole blocks with the last one.
    pub instants: Vec<f64>,
    /// Whether the source, too, is played by glTF's rule.
    pub source_as_target: bool,
    source_lookups: Vec<Option<KeyLookup>>,
    changed_lookups: Vec<Option<KeyLookup>>,
    /// For each joint: neither it nor an ancestor is scaled.
    rigid: Vec<bool>,
    /// For each joint: whether its model transform can differ between the two (so must be looked at).
    pub live: Vec<bool>,
    /// Of the block posed last.
    pub local: [Vec<Local>; 2],
    pub model: [Vec<Model>; 2],
}

impl<'a> PosePair<'a> {
    pub fn new(rig: &Skeleton, source: &'a Clip, changed: &'a Clip, between: usize) -> Self {
        let joints = joints(rig, source, changed);
        let mut instants = instants([source, changed], between);
        let last = instants.last().copied().unwrap_or(0.0);
        instants.resize(instants.len().next_multiple_of(LANES), last);
        let is_one =
            |values: &Values| matches!(values, Values::Vec3(v) if v.iter().all(|v| *v == glam::Vec3::ONE));
        let mut rigid: Vec<bool> = Vec::with_capacity(joints.len());
        let mut live: Vec<bool> = Vec::with_capacity(joints.len());
        for joint in &joints {
            let unscaled = |clip: &Clip, track: u32| {
                if track == NONE {
                    joint.rest.scale == glam::Vec3::ONE
                } else {
                    is_one(&clip.tracks[track as usize].curve.values)
                }
            };
            let above = joint.parent as usize;
            rigid.push(
                unscaled(source, joint.source[2])
                    && unscaled(changed, joint.changed[2])
                    && rigid.get(above).copied().unwrap_or(true),
            );
            let animated = (0..3).any(|k| joint.source[k] != NONE || joint.changed[k] != NONE);
            live.push(animated || live.get(above).copied().unwrap_or(false));
        }
        let locals = |joints: &[Joint]| {
            joints
                .iter()
                .map(|j| Local {
                    t: j.rest.translation.to_array().map(|v| [f64::from(v); LANES]),
                    r: unit(j.rest.rotation.to_array().map(f64::from)).map(|v| [v; LANES]),
                    s: j.rest.scale.to_array().map(|v| [f64::from(v); LANES]),
                })
                .collect::<Vec<_>>()
        };
        let local = [locals(&joints), locals(&joints)];
        let empty = Model { m: [[0.0; LANES]; 9], p: [[0.0; LANES]; 3] };
        let model = [vec![empty.clone(); joints.len()], vec![empty; joints.len()]];
        let source_lookups = key_lookups(source, &instants);
        let changed_lookups = key_lookups(changed, &instants);
        let mut pair = PosePair {
            source,
            changed,
            joints,
            instants,
            source_as_target: false,
            source_lookups,
            changed_lookups,
            rigid,
            live,
            local,
            model,
        };
        // What no track moves is the same at all instants: posed once, for what hangs below it.
        for j in (0..pair.joints.len()).filter(|j| !pair.live[*j]).collect::<Vec<_>>() {
            pair.local_to_model(0, j);
            pair.local_to_model(1, j);
        }
        pair
    }

    pub fn blocks(&self) -> usize {
        self.instants.len() / LANES
    }

    /// Instants of the keys of `track` of the changed clip.
    pub fn changed_seconds(&self, track: u32) -> &[f64] {
        let timeline = self.changed.tracks[track as usize].timeline as usize;
        self.changed_lookups[timeline].as_ref().map_or(&[], |p| &p.seconds)
    }

    /// Poses both clips at the instants of `block`: the source by its own rule, the changed one by glTF's, with
    /// the keys that `selected` (by track number) leaves.
    pub fn pose(&mut self, block: usize, selected: &[SelectedKeys]) {
        for j in 0..self.joints.len() {
            self.pose_joint(j, block, selected);
        }
    }

    /// [`PosePair::pose`] of one joint: those above it must stand at this block already.
    pub fn pose_joint(&mut self, j: usize, block: usize, selected: &[SelectedKeys]) {
        if !self.live[j] {
            return;
        }
        for k in 0..3 {
            let (source, changed) = (self.joints[j].source[k], self.joints[j].changed[k]);
            match source {
                NONE => {}
                track if self.source_as_target => {
                    self.sample_target(0, (j, k), track, block, &SelectedKeys::default());
                }
                track => self.sample_source(j, k, track, block),
            }
            if changed != NONE {
                self.sample_target(1, (j, k), changed, block, &selected[changed as usize]);
            }
        }
        self.local_to_model(0, j);
        self.local_to_model(1, j);
    }

    fn sample_source(&mut self, j: usize, k: usize, track: u32, block: usize) {
        let track = &self.source.tracks[track as usize];
        let local = &mut self.local[0][j];
        let range = block * LANES..(block + 1) * LANES;
        let instants = &self.instants[range.clone()];
        let step = track.curve.interpolation == Interpolation::Step;
        let mut span = ([0u32; LANES], [0u32; LANES], [0.0; LANES]);
        if let (false, Some(p)) = (track.curve.is_constant(), &self.source_lookups[track.timeline as usize]) {
            let last = p.seconds.len() as u32 - 1;
            for l in 0..LANES {
                let i = p.key[range.start + l];
                let i2 = (i + 1).min(last);
                let (a, b) = (p.seconds[i as usize], p.seconds[i2 as usize]);
                let f = if b > a && !step { ((instants[l] - a) / (b - a)).clamp(0.0, 1.0) } else { 0.0 };
                span.0[l] = i;
                span.1[l] = i2;
                span.2[l] = f;
            }
        }
        let (i, i2, f) = &span;
        match &track.curve.values {
            Values::Quat(v) => {
                let mut a = [[0.0; LANES]; 4];
                let mut b = [[0.0; LANES]; 4];
                for l in 0..LANES {
                    let (from, to) = (v[i[l] as usize].to_array(), v[i2[l] as usize].to_array());
                    for c in 0..4 {
                        a[c][l] = f64::from(from[c]);
                        b[c][l] = f64::from(to[c]);
                    }
                }
                for l in 0..LANES {
                    let dot = a[0][l] * b[0][l] + a[1][l] * b[1][l] + a[2][l] * b[2][l] + a[3][l] * b[3][l];
                    let (wa, wb) = (1.0 - f[l], if dot < 0.0 { -f[l] } else { f[l] });
                    let q: [f64; 4] = std::array::from_fn(|c| a[c][l] * wa + b[c][l] * wb);
                    let n = 1.0 / (q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]).sqrt();
                    for c in 0..4 {
                        local.r[c][l] = q[c] * n;
                    }
                }
            }
            Values::Vec3(v) => {
                let out = if k == 0 { &mut local.t } else { &mut local.s };
                for l in 0..LANES {
                    let (a, b) = (v[i[l] as usize].to_array(), v[i2[l] as usize].to_array());
                    for c in 0..3 {
                        out[c][l] = f64::from(a[c]) * (1.0 - f[l]) + f64::from(b[c]) * f[l];
                    }
                }
            }
            _ => {}
        }
    }

    /// By glTF's rule.
    fn sample_target(
        &mut self,
        side: usize,
        (j, k): (usize, usize),
        track: u32,
        block: usize,
        selected: &SelectedKeys,
    ) {
        let (clip, key_lookups) = match side {
            0 => (self.source, &self.source_lookups),
            _ => (self.changed, &self.changed_lookups),
        };
        let track = &clip.tracks[track as usize];
        let local = &mut self.local[side][j];
        if let Some(v) = selected.constant {
            match k {
                0 => (0..3).for_each(|c| local.t[c] = [v[c]; LANES]),
                1 => (0..4).for_each(|c| local.r[c] = [v[c]; LANES]),
                _ => (0..3).for_each(|c| local.s[c] = [v[c]; LANES]),
            }
            return;
        }
        let range = block * LANES..(block + 1) * LANES;
        let instants = &self.instants[range.clone()];
        let step = track.curve.interpolation == Interpolation::Step;
        // The kept keys around each instant.
        let mut span = ([0u32; LANES], [0u32; LANES], [0.0; LANES]);
        if let (false, Some(p)) = (track.curve.is_constant(), &key_lookups[track.timeline as usize]) {
            let all = selected.keys.is_empty();
            let count = if all { p.seconds.len() } else { selected.keys.len() };
            let key = |n: usize| if all { n as u32 } else { selected.keys[n] };
            let first = p.key[range.start];
            let mut at = if all {
                first as usize
            } else {
                selected.keys.partition_point(|k| *k <= first).saturating_sub(1)
            };
            for l in 0..LANES {
                while at + 1 < count && key(at + 1) <= p.key[range.start + l] {
                    at += 1;
                }
                let (i, i2) = (key(at), key((at + 1).min(count - 1)));
                let (a, b) = (p.seconds[i as usize], p.seconds[i2 as usize]);
                span.0[l] = i;
                span.1[l] = i2;
                span.2[l] = if b > a && !step { ((instants[l] - a) / (b - a)).clamp(0.0, 1.0) } else { 0.0 };
            }
        }
        let (i, i2, f) = &span;
        match &track.curve.values {
            Values::Quat(v) => {
                let mut a = [[0.0; LANES]; 4];
                let mut e = [[0.0; LANES]; 4];
                let mut angle = [0.0; LANES];
                let mut arc = Arc::default();
                for l in 0..LANES {
                    if l == 0 || i[l] != i[l - 1] || i2[l] != i2[l - 1] {
                        let (from, to) = (v[i[l] as usize], v[i2[l] as usize]);
                        arc = Arc::new(from.to_array().map(f64::from), to.to_array().map(f64::from));
                    }
                    for c in 0..4 {
                        a[c][l] = arc.from[c];
                        e[c][l] = arc.side[c];
                    }
                    angle[l] = arc.angle * f[l];
                }
                for l in 0..LANES {
                    let (sin, cos) = sin_cos(angle[l]);
                    for c in 0..4 {
                        local.r[c][l] = a[c][l] * cos + e[c][l] * sin;
                    }
                }
            }
            Values::Vec3(v) => {
                let out = if k == 0 { &mut local.t } else { &mut local.s };
                for l in 0..LANES {
                    let (a, b) = (v[i[l] as usize].to_array(), v[i2[l] as usize].to_array());
                    for c in 0..3 {
                        out[c][l] = f64::from(a[c]) * (1.0 - f[l]) + f64::from(b[c]) * f[l];
                    }
                }
            }
            _ => {}
        }
    }

    /// Model space from the parent's.
    fn local_to_model(&mut self, side: usize, j: usize) {
        let Local { t, r, s } = &self.local[side][j];
        let mut own = [[0.0; LANES]; 9];
        for l in 0..LANES {
            let (x, y, z, w) = (r[0][l], r[1][l], r[2][l], r[3][l]);
            own[0][l] = (1.0 - 2.0 * (y * y + z * z)) * s[0][l];
            own[1][l] = 2.0 * (x * y + w * z) * s[0][l];
            own[2][l] = 2.0 * (x * z - w * y) * s[0][l];
            own[3][l] = 2.0 * (x * y - w * z) * s[1][l];
            own[4][l] = (1.0 - 2.0 * (x * x + z * z)) * s[1][l];
            own[5][l] = 2.0 * (y * z + w * x) * s[1][l];
            own[6][l] = 2.0 * (x * z + w * y) * s[2][l];
            own[7][l] = 2.0 * (y * z - w * x) * s[2][l];
            own[8][l] = (1.0 - 2.0 * (x * x + y * y)) * s[2][l];
        }
        let parent = self.joints[j].parent as usize;
        let (above, here) = self.model[side].split_at_mut(j);
        let here = &mut here[0];
        let Some(up) = above.get(parent) else {
            here.m = own;
            here.p = *t;
            return;
        };
        for c in 0..3 {
            for row in 0..3 {
                for l in 0..LANES {
                    here.m[c * 3 + row][l] = up.m[row][l] * own[c * 3][l]
                        + up.m[3 + row][l] * own[c * 3 + 1][l]
                        + up.m[6 + row][l] * own[c * 3 + 2][l];
                }
            }
        }
        for row in 0..3 {
            for l in 0..LANES {
                here.p[row][l] = up.p[row][l]
                    + up.m[row][l] * t[0][l]
                    + up.m[3 + row][l] * t[1][l]
                    + up.m[6 + row][l] * t[2][l];
            }
        }
    }

    /// What no point of the shell around joint `j` exceeds, metres. With `s` the shift of the joint, `D` the change
    /// of its axes and `r` the shell, a point `u` of the unit sphere moves by `|s + r D u|`, whose square is at most
    /// `|s|^2 + 2 r |D^T s| + r^2 |D|^2`. For two rotations `D` has two equal singular values and a null axis, so
    /// the spectral norm is the Frobenius norm / sqrt 2, the same `u` is the farthest for both terms, and this *is*
    /// the displacement of the point that moves most; for other matrices the Frobenius norm makes it a bound.
    pub fn bound(&self, j: usize) -> Lane {
        let (a, b) = (&self.model[0][j], &self.model[1][j]);
        let share = if self.rigid[j] { 0.5 } else { 1.0 };
        let mut out = [0.0; LANES];
        for l in 0..LANES {
            let s: [f64; 3] = std::array::from_fn(|c| a.p[c][l] - b.p[c][l]);
            let (mut axes, mut along) = (0.0, 0.0);
            for c in 0..3 {
                let d: [f64; 3] = std::array::from_fn(|r| a.m[c * 3 + r][l] - b.m[c * 3 + r][l]);
                let dot = d[0] * s[0] + d[1] * s[1] + d[2] * s[2];
                axes += d[0] * d[0] + d[1] * d[1] + d[2] * d[2];
                along += dot * dot;
            }
            let shift = s[0] * s[0] + s[1] * s[1] + s[2] * s[2];
            out[l] = (shift + 2.0 * SHELL_M * along.sqrt() + SHELL_M * SHELL_M * share * axes).sqrt();
        }
        out
    }

    /// The displacement of that point of the shell around `j` which moves most, at lane `l`, metres: a convex
    /// function on a sphere, climbed from several sides.
    pub fn displacement(&self, j: usize, l: usize) -> f64 {
        let (a, b) = (&self.model[0][j], &self.model[1][j]);
        let at = |c: usize| a.m[c][l] - b.m[c][l];
        let axes = DMat3::from_cols_array(&std::array::from_fn(at)) * SHELL_M;
        let shift = DVec3::from_array(std::array::from_fn(|c| a.p[c][l] - b.p[c][l]));
        let back = axes.transpose();
        let mut most = shift.length();
        let starts = [DVec3::X, DVec3::Y, DVec3::Z, DVec3::NEG_X, DVec3::NEG_Y, DVec3::NEG_Z];
        for start in starts {
            let mut u = start;
            for _ in 0..12 {
                let moved = axes * u + shift;
                most = most.max(moved.length());
                u = (back * moved).normalize_or(u);
            }
            most = most.max((axes * u + shift).length());
        }
        most
    }
}

/// The great arc between two rotations, the shorter one: `from` cos + `side` sin.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Arc {
    pub from: [f64; 4],
    /// Unit, at a right angle to `from`; zero where the two are one.
    pub side: [f64; 4],
    /// Between the quaternions: half the rotation's angle. 0 to a quarter turn.
    pub angle: f64,
}

impl Arc {
    pub fn new(a: [f64; 4], b: [f64; 4]) -> Self {
        let (from, to) = (unit(a), unit(b));
        let dot: f64 = (0..4).map(|c| from[c] * to[c]).sum();
        let sign = if dot < 0.0 { -1.0 } else { 1.0 };
        let side: [f64; 4] = std::array::from_fn(|c| sign * (to[c] - dot * from[c]));
        let sin = side.iter().map(|v| v * v).sum::<f64>().sqrt();
        if sin > 1e-300 {
            Arc { from, side: side.map(|v| v / sin), angle: libm::atan2(sin, dot.abs()) }
        } else {
            Arc { from, side: [0.0; 4], angle: 0.0 }
        }
    }
}

pub(crate) fn unit(q: [f64; 4]) -> [f64; 4] {
    let n = q.iter().map(|v| v * v).sum::<f64>().sqrt();
    if n > 0.0 { q.map(|v| v / n) } else { [0.0, 0.0, 0.0, 1.0] }
}

/// Sine and cosine of 0 to a quarter turn, to 4e-14: Taylor's series, which the compiler vectorises.
#[inline]
pub(crate) fn sin_cos(x: f64) -> (f64, f64) {
    let y = x * x;
    let sin = [
        -1.0 / 6.0,
        1.0 / 120.0,
        -1.0 / 5_040.0,
        1.0 / 362_880.0,
        -1.0 / 39_916_800.0,
        1.0 / 6_227_020_800.0,
        -1.0 / 1_307_674_368_000.0,
        1.0 / 355_687_428_096_000.0,
    ];
    let cos = [
        -1.0 / 2.0,
        1.0 / 24.0,
        -1.0 / 720.0,
        1.0 / 40_320.0,
        -1.0 / 3_628_800.0,
        1.0 / 479_001_600.0,
        -1.0 / 87_178_291_200.0,
        1.0 / 20_922_789_888_000.0,
        -1.0 / 6_402_373_705_728_000.0,
    ];
    let series = |terms: &[f64]| terms.iter().rev().fold(0.0, |sum, term| sum * y + term) * y + 1.0;
    (x * series(&sin), series(&cos))
}
