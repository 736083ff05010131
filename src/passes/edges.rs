//! The clip's first instant.

use glam::{Quat, Vec3};

use crate::model::{Clip, Positions, Property, Timeline, Values};

/// Gives each joint track whose first key stands after 0 the same value at 0: players differ in what they show
/// before a first key (held, or the clip moved to the front; docs/formats/gltf-fbx.md, section 1, row 6). The values
/// between stay what they were, and so do all keys. (What keeps a clip's length is the writer's: it knows which
/// tracks it has.)
pub fn hold_from_start(clip: &mut Clip) {
    for index in 0..clip.tracks.len() {
        let track = &clip.tracks[index];
        let timeline = clip.timeline(track);
        if matches!(track.target.property, Property::Other(_))
            || track.curve.values.len() < 2
            || track.curve.values.len() != timeline.len()
            || timeline.seconds(0) <= 0.0
        {
            continue;
        }
        let start = timeline.position_at(0.0);
        let first = timeline.positions.get(0);
        // A clock that cannot say 0 before the first key (a single frame): leave it.
        if !(start < first && timeline.window.clip_seconds(timeline.clock.seconds(start)) == 0.0) {
            continue;
        }
        let rest = (0..timeline.len()).map(|i| timeline.positions.get(i));
        let positions: Vec<f64> = std::iter::once(start).chain(rest).collect();
        let whole = |p: &f64| p.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(p);
        let positions = if positions.iter().all(whole) {
            Positions::Whole(positions.iter().map(|p| *p as u32).collect())
        } else {
            Positions::Fractional(positions)
        };
        let timeline = Timeline { positions, ..timeline.clone() };
        let timeline = clip.add_timeline(timeline);
        let track = &mut clip.tracks[index];
        track.timeline = timeline;
        match &mut track.curve.values {
            Values::Vec3(v) => v.insert(0, v.first().copied().unwrap_or(Vec3::ZERO)),
            Values::Quat(v) => v.insert(0, v.first().copied().unwrap_or(Quat::IDENTITY)),
            Values::Scalar(v) => v.insert(0, v.first().copied().unwrap_or(0.0)),
            Values::Raw { width, bytes } => {
                let mut first = bytes[..(*width as usize).min(bytes.len())].to_vec();
                first.append(bytes);
                *bytes = first;
            }
        }
    }
    crate::passes::timelines::drop_unused_timelines(clip);
}
