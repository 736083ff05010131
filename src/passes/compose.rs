//! Transforms put together over time: the mover into the skeleton, deltas onto a pose.

use glam::{DQuat, DVec3};

use crate::model::{
    Clip, Clock, Curve, Interpolation, JointId, Positions, Property, Sampler, Skeleton, Target, Timeline,
    Track, Trs, Values, Warning, WarningKind, Window,
};
use crate::passes::signs::align;
use crate::passes::timelines::drop_unused_timelines;

static WITHOUT_REST: WarningKind = WarningKind {
    code: "additive-without-rest",
    text: "{tracks} additive tracks move joints without a rest pose: composed on nothing",
};

/// Keys are put between the joined ones until the values between are this near to the composition.
const TOLERANCE_M: f64 = 5e-6;
const TOLERANCE_RAD: f64 = 2e-4;
/// An interval is halved at most this often.
const MAX_HALVINGS: u32 = 6;
/// Keys of two tracks that are this near are one.
const SAME_INSTANT_S: f64 = 1e-7;

/// What becomes of the mover: the joint above the skeleton's root that carries the motion through the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RootMotion {
    /// Stays its own joint.
    #[default]
    Keep,
    /// Goes into the joints below it: their translation is `mover + turned by the mover (own)`, their rotation
    /// `mover x own` (docs/formats/rage.md, section 7).
    Bake,
    /// Goes.
    Drop,
    /// Stays, without its horizontal part (x and y: source space is Z up), which rests. Where a clip has no mover
    /// the skeleton's roots lose theirs.
    InPlace,
}

/// Applies `mode` to the mover ([`JointId::RootMotion`]) of a clip on `rig`.
pub fn root_motion(clip: &mut Clip, rig: &Skeleton, mode: RootMotion) {
    let is_mover = |track: &Track| {
        track.target.joint == JointId::RootMotion && !matches!(track.target.property, Property::Other(_))
    };
    match mode {
        RootMotion::Keep => {}
        RootMotion::Drop => {
            clip.tracks.retain(|t| !is_mover(t));
            drop_unused_timelines(clip);
        }
        RootMotion::InPlace => {
            let has_mover = clip.tracks.iter().any(is_mover);
            for track in &mut clip.tracks {
                let joint = rig.find(track.target.joint);
                let is_root = joint.is_none_or(|j| rig.joints()[j].parent.is_none());
                let here = if has_mover { track.target.joint == JointId::RootMotion } else { is_root };
                let moves_joint = track.target.joint.is_joint();
                if !here || !moves_joint || track.target.property != Property::Translation {
                    continue;
                }
                let rest = joint.map_or(Trs::IDENTITY, |j| rig.joints()[j].rest).translation;
                if let Values::Vec3(keys) = &mut track.curve.values {
                    for key in keys {
                        (key.x, key.y) = (rest.x, rest.y);
                    }
                }
            }
        }
        RootMotion::Bake => {
            if clip.tracks.iter().any(is_mover) {
                bake_mover(clip, rig);
                clip.tracks.retain(|t| !is_mover(t));
                drop_unused_timelines(clip);
            }
        }
    }
}

fn bake_mover(clip: &mut Clip, rig: &Skeleton) {
    let mover = rig.find(JointId::RootMotion);
    let mover_rest = mover.map_or(Trs::IDENTITY, |m| rig.joints()[m].rest);
    // Joints right below the mover; of a rig without one, its roots.
    let below: Vec<(JointId, Trs)> = rig
        .joints()
        .iter()
        .filter(|j| j.parent == mover && j.id != JointId::RootMotion)
        .map(|j| (j.id, j.rest))
        .collect();
    let source = clip.clone();
    for (id, rest) in below {
        let mover = Channels::of(&source, JointId::RootMotion, mover_rest);
        let bone = Channels::of(&source, id, rest);
        // What stays of the mover is its rest pose, which the result must not turn once more.
        let back = mover_rest.rotation.as_dquat().normalize().inverse();
        let rest_t = mover_rest.translation.as_dvec3();
        let size = mover_rest.scale.as_dvec3();
        let (mut m1, mut b1) = (mover.clone(), bone.clone());
        let rotation = compose_quat(&[&mover.tracks[1], &bone.tracks[1]], &source, move |t| {
            (back * m1.rotation(t) * b1.rotation(t)).normalize()
        });
        let (mut m2, mut b2) = (mover.clone(), bone.clone());
        let parts = [&mover.tracks[0], &mover.tracks[1], &bone.tracks[0]];
        let translation = compose_vec3(&parts, &source, move |t| {
            let moved = m2.translation(t) + m2.rotation(t) * (size * b2.translation(t)) - rest_t;
            let local = back * moved;
            DVec3::new(local.x / size.x, local.y / size.y, local.z / size.z)
        });
        if parts.iter().any(|p| p.is_some()) {
            put(clip, id, Property::Translation, translation);
        }
        if mover.tracks[1].is_some() {
            put(clip, id, Property::Rotation, rotation);
        }
    }
}

/// What additive clips are composed on.
#[derive(Debug, Clone, Copy)]
pub enum AdditiveBase<'a> {
    /// The rig's rest pose.
    Rest,
    /// The pose of another clip at the same instant; held after its end.
    Clip(&'a Clip),
}

/// Makes poses of an additive clip's deltas: rotation `base x delta`, translation `base + delta`, scale
/// `base x delta` per axis. Clips that are not additive are left alone.
///
/// That the delta stands on the right side of the rotation (is given in the joint's own axes) is an assumption:
/// no source in docs/formats tells the order. `extras` says on what it was composed (`additiveComposed`: `rest` or the
/// base clip's name), and loses `additive`.
pub fn compose_additive(clip: &mut Clip, rig: &Skeleton, base: AdditiveBase<'_>) {
    if !clip.additive {
        return;
    }
    let source = clip.clone();
    let rest = |id| rig.find(id).map_or(Trs::IDENTITY, |j| rig.joints()[j].rest);
    let mut unknown = 0usize;
    let empty;
    let (base, label) = match base {
        AdditiveBase::Rest => {
            empty = Clip { tracks: Vec::new(), timelines: Vec::new(), ..source.clone() };
            (&empty, "rest".to_owned())
        }
        AdditiveBase::Clip(base) => (base, base.name.clone()),
    };
    for track in &source.tracks {
        let Target { joint, property } = track.target;
        if !joint.is_joint() {
            continue;
        }
        let pose = rest(joint);
        let base_track = base.tracks.iter().find(|t| t.target == track.target);
        if rig.find(joint).is_none() && base_track.is_none() && !matches!(property, Property::Other(_)) {
            unknown += 1;
        }
        let own = Some((&source, track));
        let below = base_track.map(|t| (base, t));
        let mut base_sampler = below.map(|(c, t)| Sampler::new(c.timeline(t), &t.curve));
        let mut sampler = Sampler::new(source.timeline(track), &track.curve);
        let parts = [&own, &below];
        let keys = match property {
            Property::Rotation => {
                let rest = pose.rotation.as_dquat().normalize();
                compose_quat(&parts, &source, move |t| {
                    let base = base_sampler.as_mut().map_or(rest, |s| s.quat(t));
                    (base * sampler.quat(t)).normalize()
                })
            }
            Property::Translation => {
                let rest = pose.translation.as_dvec3();
                compose_vec3(&parts, &source, move |t| {
                    base_sampler.as_mut().map_or(rest, |s| s.vec3(t)) + sampler.vec3(t)
                })
            }
            Property::Scale => {
                let rest = pose.scale.as_dvec3();
                compose_vec3(&parts, &source, move |t| {
                    base_sampler.as_mut().map_or(rest, |s| s.vec3(t)) * sampler.vec3(t)
                })
            }
            _ => continue,
        };
        put(clip, joint, property, keys);
    }
    // What the base moves and the delta does not is the base's, as long as the clip lasts.
    for track in &base.tracks {
        let Target { joint, property } = track.target;
        let moves_joint = joint.is_joint() && !matches!(property, Property::Other(_));
        if !moves_joint || source.tracks.iter().any(|t| t.target == track.target) {
            continue;
        }
        let mut sampler = Sampler::new(base.timeline(track), &track.curve);
        let part = Some((base, track));
        let keys = match property {
            Property::Rotation => compose_quat(&[&part], &source, move |t| sampler.quat(t)),
            _ => compose_vec3(&[&part], &source, move |t| sampler.vec3(t)),
        };
        put(clip, joint, property, keys);
    }
    drop_unused_timelines(clip);
    clip.additive = false;
    clip.extras.remove("additive");
    clip.extras.insert("additiveComposed".to_owned(), label.into());
    if unknown > 0 {
        clip.warnings.push(Warning::new(&WITHOUT_REST).with("tracks", unknown));
    }
}

/// A track with the clip that holds its timeline; `None`: at rest.
type Part<'a> = Option<(&'a Clip, &'a Track)>;

/// The three tracks of a joint, with samplers.
#[derive(Clone)]
struct Channels<'a> {
    rest: Trs,
    tracks: [Part<'a>; 3],
    samplers: [Option<Sampler<'a>>; 3],
}

impl<'a> Channels<'a> {
    fn of(clip: &'a Clip, joint: JointId, rest: Trs) -> Self {
        let tracks = [Property::Translation, Property::Rotation, Property::Scale].map(|property| {
            let target = Target { joint, property };
            clip.tracks.iter().find(|t| t.target == target && !t.curve.values.is_empty()).map(|t| (clip, t))
        });
        let samplers = tracks.map(|part| part.map(|(c, t)| Sampler::new(c.timeline(t), &t.curve)));
        Channels { rest, tracks, samplers }
    }

    fn translation(&mut self, t: f64) -> DVec3 {
        self.samplers[0].as_mut().map_or(self.rest.translation.as_dvec3(), |s| s.vec3(t))
    }

    fn rotation(&mut self, t: f64) -> DQuat {
        self.samplers[1].as_mut().map_or(self.rest.rotation.as_dquat(), |s| s.quat(t)).normalize()
    }
}

/// The keys of a composed track.
struct Keys {
    timeline: Timeline,
    curve: Curve,
}

/// Rotations `at` the joined instants of `parts`, and between them where the path between would leave `at`.
fn compose_quat(parts: &[&Part<'_>], clip: &Clip, mut at: impl FnMut(f64) -> DQuat) -> Keys {
    let joined = Joined::of(parts, clip);
    let (instants, values) = joined.keys(&mut at, |a, b, m, f| {
        let path = crate::model::sample::nlerp(*a, *b, f);
        let path = if path.dot(*m) < 0.0 { -path } else { path };
        2.0 * (path - *m).length() <= TOLERANCE_RAD
    });
    let mut values: Vec<glam::Quat> = values
        .iter()
        .map(|q| glam::Quat::from_xyzw(q.x as f32, q.y as f32, q.z as f32, q.w as f32))
        .collect();
    align(&mut values);
    joined.finish(instants, Values::Quat(values), Interpolation::Nlerp)
}

/// [`compose_quat`] for vectors.
fn compose_vec3(parts: &[&Part<'_>], clip: &Clip, mut at: impl FnMut(f64) -> DVec3) -> Keys {
    let joined = Joined::of(parts, clip);
    let (instants, values) =
        joined.keys(&mut at, |a, b, m, f| (*a * (1.0 - f) + *b * f - *m).length() <= TOLERANCE_M);
    let values = values.iter().map(|v| glam::Vec3::new(v.x as f32, v.y as f32, v.z as f32)).collect();
    joined.finish(instants, Values::Vec3(values), Interpolation::Linear)
}

/// The instants of several tracks together.
struct Joined {
    /// The one timeline of all parts that change, where it is one.
    shared: Option<Timeline>,
    /// Any part's: what a single value stands on.
    any: Option<Timeline>,
    instants: Vec<f64>,
    stepped: bool,
}

impl Joined {
    fn of(parts: &[&Part<'_>], clip: &Clip) -> Self {
        let changing: Vec<(&Clip, &Track)> =
            parts.iter().filter_map(|p| **p).filter(|(_, t)| !t.curve.is_constant()).collect();
        let stepped = !changing.is_empty()
            && changing.iter().all(|(_, t)| t.curve.interpolation == Interpolation::Step);
        let first = changing.first().map(|(c, t)| c.timeline(t));
        let shared = first.filter(|first| changing.iter().all(|(c, t)| c.timeline(t) == *first)).cloned();
        let mut instants: Vec<f64> = match &shared {
            Some(timeline) => timeline.iter_seconds().collect(),
            None => changing.iter().flat_map(|(c, t)| c.timeline(t).iter_seconds()).collect(),
        };
        let own_last = changing
            .iter()
            .filter(|(c, _)| std::ptr::eq(*c, clip))
            .map(|(c, t)| c.timeline(t).last_s())
            .fold(clip.length_s, f64::max);
        let shared = shared.filter(|_| instants.last().is_none_or(|t| *t <= own_last));
        if shared.is_none() {
            // A base that is longer than the clip is cut at its end.
            let longer = instants.iter().any(|t| *t > own_last);
            instants.retain(|t| *t <= own_last);
            if longer {
                instants.push(own_last);
            }
            instants.sort_unstable_by(f64::total_cmp);
            instants.dedup_by(|b, a| *b - *a <= SAME_INSTANT_S);
        }
        if instants.is_empty() {
            instants.push(0.0);
        }
        let any = parts.iter().find_map(|p| p.map(|(c, t)| c.timeline(t).clone()));
        Joined { shared, any, instants, stepped }
    }

    /// Values at the joined instants, and at halves of the gaps between where `near(a, b, middle, fraction)` says
    /// that the path from a to b misses the middle.
    fn keys<V: Copy>(
        &self,
        at: &mut impl FnMut(f64) -> V,
        near: impl Fn(&V, &V, &V, f64) -> bool,
    ) -> (Vec<f64>, Vec<V>) {
        let mut instants = Vec::with_capacity(self.instants.len());
        let mut values = Vec::with_capacity(self.instants.len());
        for t in &self.instants {
            let here = at(*t);
            if let (Some(from), Some(a), false) =
                (instants.last().copied(), values.last().copied(), self.stepped)
            {
                between(at, &near, (from, a), (*t, here), MAX_HALVINGS, &mut instants, &mut values);
            }
            instants.push(*t);
            values.push(here);
        }
        (instants, values)
    }

    fn finish(&self, instants: Vec<f64>, values: Values, interpolation: Interpolation) -> Keys {
        let interpolation = if self.stepped { Interpolation::Step } else { interpolation };
        let timeline = match (&self.shared, &self.any) {
            (Some(timeline), _) if timeline.len() == instants.len() => timeline.clone(),
            (_, Some(timeline)) if instants.len() == 1 => timeline.clone(),
            _ => Timeline {
                clock: Clock::Seconds,
                positions: Positions::Fractional(instants),
                window: Window::WHOLE,
            },
        };
        Keys { timeline, curve: Curve { interpolation, values } }
    }
}

fn between<V: Copy>(
    at: &mut impl FnMut(f64) -> V,
    near: &impl Fn(&V, &V, &V, f64) -> bool,
    a: (f64, V),
    b: (f64, V),
    halvings: u32,
    instants: &mut Vec<f64>,
    values: &mut Vec<V>,
) {
    let gap = b.0 - a.0;
    if halvings == 0 || gap < 1e-5 {
        return;
    }
    // The quarters as well: a path that is even about its middle meets it.
    let holds = [0.25, 0.5, 0.75].iter().all(|f| {
        let m = at(a.0 + gap * f);
        near(&a.1, &b.1, &m, *f)
    });
    if holds {
        return;
    }
    let half = a.0 + 0.5 * gap;
    let middle = at(half);
    between(at, near, a, (half, middle), halvings - 1, instants, values);
    instants.push(half);
    values.push(middle);
    between(at, near, (half, middle), b, halvings - 1, instants, values);
}

/// Replaces the track of this target, or adds it.
fn put(clip: &mut Clip, joint: JointId, property: Property, keys: Keys) {
    let timeline = clip.add_timeline(keys.timeline);
    let target = Target { joint, property };
    match clip.tracks.iter_mut().find(|t| t.target == target) {
        Some(track) => {
            track.timeline = timeline;
            track.curve = keys.curve;
        }
        None => clip.tracks.push(Track { target, timeline, curve: keys.curve }),
    }
}
