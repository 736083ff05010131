//! A key on every frame.

use glam::{Quat, Vec3};

use crate::error::{Error, ErrorKind, Result};
use crate::model::{
    Clip, Clock, Curve, Positions, Property, Sampler, Timeline, Values, Warning, WarningKind, Window,
};

static KEYS_AFTER_END: WarningKind = WarningKind {
    code: "bake-keys-after-end",
    text: "keys after the clip's end are not baked ({tracks} tracks)",
};

/// Which frames [`bake`] makes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bake {
    /// Frames in a second.
    Fps(f64),
    /// The clip's own highest key rate ([`Clip::rate_hz`]).
    Source,
}

/// A source key this near to a frame, in seconds of the clip, is on it: f32 durations put keys up to 8e-6 s off
/// within the longest animations (153 s; docs/formats/rage.md, section 3).
const ON_FRAME_S: f64 = 1e-5;

/// More frames than this are refused: over four hours at 60 frames in a second.
const MAX_FRAMES: f64 = 1_048_576.0;

/// Puts a key of every joint track on every frame from 0 on, and one at the clip's end where no frame is there.
/// A source key on a frame is taken to the bit; between keys the source's own interpolation is evaluated. Curves
/// keep their interpolation, constant ones their one value, tracks that move no joint everything. Keys after the
/// clip's end are left out, with a warning. All baked tracks share one timeline.
///
/// # Errors
/// A rate that is not a positive number; a clip too long for it; [`Bake::Source`] where no track has a rate and the
/// clip is not a single instant.
pub fn bake(clip: &mut Clip, frames: Bake) -> Result<()> {
    let hz = match frames {
        Bake::Fps(hz) => hz,
        Bake::Source if clip.length_s <= 0.0 => 30.0,
        Bake::Source => clip.rate_hz().ok_or_else(|| {
            Error::usage("found no track with a frame rate, expected a rate to bake at (in frames a second)")
        })?,
    };
    if !(hz > 0.0 && hz.is_finite()) {
        return Err(Error::usage(format!(
            "found {hz} frames a second to bake at, expected a positive number"
        )));
    }
    let length_s = if clip.length_s > 0.0 { clip.length_s } else { 0.0 };
    let end = length_s * hz;
    if end >= MAX_FRAMES {
        let found =
            format!("found {length_s} s at {hz} frames a second, expected at most {MAX_FRAMES} frames");
        return Err(Error::new(ErrorKind::Limit, found));
    }
    // The last frame is the clip's end: a frame that near is it.
    let whole = (end - ON_FRAME_S * hz).floor().max(0.0);
    let last = if end > 0.0 && end > whole { whole as u32 + 1 } else { whole as u32 };
    let on_frame = (f64::from(last) / hz - length_s).abs() <= ON_FRAME_S;
    let positions = if on_frame && f64::from(last) / hz == length_s {
        Positions::Run { first: 0, count: last + 1 }
    } else {
        let mut p: Vec<f64> = (0..last).map(f64::from).collect();
        p.push(end);
        Positions::Fractional(p)
    };
    let baked = Timeline { clock: Clock::Rate { hz }, positions, window: Window::WHOLE };
    let mut instants: Vec<f64> = baked.iter_seconds().collect();
    if let Some(end) = instants.last_mut() {
        *end = length_s;
    }

    let mut late = 0usize;
    let mut curves: Vec<(usize, Curve)> = Vec::new();
    for (index, track) in clip.tracks.iter().enumerate() {
        let timeline = clip.timeline(track);
        let unknown = matches!(track.curve.values, Values::Raw { .. });
        if matches!(track.target.property, Property::Other(_))
            || unknown
            || track.curve.is_constant()
            || track.curve.values.is_empty()
        {
            continue;
        }
        if timeline.last_s() > length_s + ON_FRAME_S {
            late += 1;
        }
        curves.push((index, on_frames(timeline, &track.curve, &instants)));
    }
    if curves.is_empty() {
        return Ok(());
    }
    let timeline = clip.add_timeline(baked);
    for (index, curve) in curves {
        clip.tracks[index].timeline = timeline;
        clip.tracks[index].curve = curve;
    }
    crate::passes::timelines::drop_unused_timelines(clip);
    if late > 0 {
        clip.warnings.push(Warning::new(&KEYS_AFTER_END).with("tracks", late));
    }
    Ok(())
}

/// `curve` at `instants` (rising), keys within [`ON_FRAME_S`] to the bit.
pub(crate) fn on_frames(timeline: &Timeline, curve: &Curve, instants: &[f64]) -> Curve {
    let keys = curve.values.len().min(timeline.len());
    let mut sampler = Sampler::new(timeline, curve);
    // The first key that is not before the frame.
    let mut next = 0;
    let mut key_at = |t: f64| {
        while next < keys && timeline.seconds(next) < t - ON_FRAME_S {
            next += 1;
        }
        if next >= keys || timeline.seconds(next) > t + ON_FRAME_S {
            return None;
        }
        // Of two that near (a rate of many kHz) the nearer one.
        let mut key = next;
        while key + 1 < keys && (timeline.seconds(key + 1) - t).abs() < (timeline.seconds(key) - t).abs() {
            key += 1;
        }
        Some(key)
    };
    let values = match &curve.values {
        Values::Quat(v) => Values::Quat(
            instants
                .iter()
                .map(|t| match key_at(*t) {
                    Some(key) => v[key],
                    None => exact(sampler.quat(*t)),
                })
                .collect(),
        ),
        Values::Vec3(v) => Values::Vec3(
            instants
                .iter()
                .map(|t| match key_at(*t) {
                    Some(key) => v[key],
                    None => {
                        let v: glam::DVec3 = sampler.vec3(*t);
                        Vec3::new(v.x as f32, v.y as f32, v.z as f32)
                    }
                })
                .collect(),
        ),
        Values::Scalar(v) => Values::Scalar(
            instants
                .iter()
                .map(|t| match key_at(*t) {
                    Some(key) => v[key],
                    None => sampler.scalar(*t) as f32,
                })
                .collect(),
        ),
        Values::Raw { .. } => curve.values.clone(),
    };
    Curve { interpolation: curve.interpolation, values }
}

fn exact(q: glam::DQuat) -> Quat {
    Quat::from_xyzw(q.x as f32, q.y as f32, q.z as f32, q.w as f32)
}
