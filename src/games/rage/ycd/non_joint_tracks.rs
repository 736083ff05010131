//! Tracks that move no joint of the skeleton but a camera or texture coordinates (docs/formats/rage.md, sections 6
//! to 8).
//!
//! | Track | Format | Field | Becomes |
//! |---|---|---|---|
//! | 7 | vector | camera translation, metres | [`Property::Translation`] of [`JointId::Camera`] |
//! | 8 | quaternion | camera rotation; looks along +Y | [`Property::Rotation`] |
//! | 27 | float | camera field of view, degrees | [`Property::FieldOfView`] |
//! | 17 | vector | U row: u' = (u, v, 1) . row, (1, 0, 0) where it is missing | [`Property::UvOffset`], |
//! | 18 | vector | V row: v' = (u, v, 1) . row, (0, 1, 0) where it is missing | `UvRotation`, `UvScale` of [`JointId::Texture`] |
//!
//! The source's own tracks stay in the clip too, so that a file also holds their values. No
//! source says which way the field of view is measured; it is taken for the vertical one, as the game's own
//! scripts and tools set it. Camera scale (9) and depth of field (28, 36 and the like) have no field in glTF's
//! camera, so only their values are kept.

use glam::{DVec3, Vec3};

use crate::model::{
    Clip, Clock, Curve, Interpolation, JointId, OtherTrack, Positions, Property, Sampler, Target, Timeline,
    Track, Values, Warning, WarningKind, Window,
};

/// Deviation of the written texture coordinates from the rows, in textures: a quarter of a pixel of 1024.
const UV_TOLERANCE: f64 = 1.0 / 4096.0;
/// What the axes of the coordinates may lean towards each other (a cosine) and count as upright: f32 noise of
/// quantised channels.
const SHEAR: f64 = 1e-3;
/// An interval between two keys is halved at most this often.
const MAX_HALVINGS: u32 = 6;
/// Keys of two tracks that are this near are one, seconds.
const SAME_INSTANT_S: f64 = 1e-7;

/// Adds the tracks of cameras and of texture transforms.
pub fn add(clip: &mut Clip) {
    let mut added = Vec::new();
    let mut textures: Vec<u16> = Vec::new();
    let mut bad_fov = 0u64;
    for track in &clip.tracks {
        let (Property::Other(OtherTrack { number, .. }), JointId::BoneTag(tag)) =
            (track.target.property, track.target.joint)
        else {
            continue;
        };
        let property = match (number, &track.curve.values) {
            (7, Values::Vec3(_)) => Property::Translation,
            (8, Values::Quat(_)) => Property::Rotation,
            (27, Values::Scalar(fov)) if fov.iter().all(|f| *f > 0.0 && *f < 180.0) => Property::FieldOfView,
            (27, Values::Scalar(_)) => {
                bad_fov += 1;
                continue;
            }
            (17 | 18, Values::Vec3(_)) => {
                if !textures.contains(&tag) {
                    textures.push(tag);
                }
                continue;
            }
            _ => continue,
        };
        added.push(Track { target: Target { joint: JointId::Camera(tag), property }, ..track.clone() });
    }
    if bad_fov > 0 {
        clip.warnings.push(Warning::new(&BAD_FOV).with("tracks", bad_fov));
    }
    clip.tracks.append(&mut added);
    for tag in textures {
        match texture(clip, tag) {
            Ok((timeline, curves)) => {
                let timeline = match timeline {
                    TimelineChoice::Existing(index) => index,
                    TimelineChoice::New(timeline) => clip.add_timeline(timeline),
                };
                for (property, curve) in curves {
                    let target = Target { joint: JointId::Texture(tag), property };
                    clip.tracks.push(Track { target, timeline, curve });
                }
            }
            Err(warning) => clip.warnings.push(warning),
        }
    }
}

static BAD_FOV: WarningKind = WarningKind {
    code: "rage-fov-out-of-range",
    text: "{tracks} fields of view are not between 0 and 180 degrees: only their values are kept",
};
static UV_EMPTY: WarningKind = WarningKind {
    code: "rage-uv-empty",
    text: "texture coordinates are only kept as rows: they hold no values",
};
static UV_SHEARED: WarningKind = WarningKind {
    code: "rage-uv-sheared",
    text: "texture coordinates are only kept as rows: they shear or are no numbers at {at_s:.3} s, which no turn and scale say",
};

/// Offset, turn and scale of texture coordinates at one instant.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Uv {
    offset: [f64; 2],
    rotation: f64,
    scale: [f64; 2],
}

impl Uv {
    /// Of the rows U and V, as near to `before` as one turn can be written (by whole turns, and by half turns with
    /// both scales negated). `None` where the axes are not at right angles, or f32 cannot say it.
    fn of(u: DVec3, v: DVec3, before: Option<f64>) -> Option<Uv> {
        // The images of the two axes.
        let (x, y) = ([u.x, v.x], [u.y, v.y]);
        let length = |a: [f64; 2]| libm::sqrt(a[0] * a[0] + a[1] * a[1]);
        let (x_length, y_length) = (length(x), length(y));
        if (x[0] * y[0] + x[1] * y[1]).abs() > SHEAR * x_length * y_length {
            return None;
        }
        let before_or_0 = before.unwrap_or(0.0);
        // Of an axis without length the other one tells, of none the turn before.
        let mut rotation = if x_length > 0.0 && x_length * 1e3 >= y_length {
            libm::atan2(-x[1], x[0])
        } else if y_length > 0.0 {
            libm::atan2(y[0], y[1])
        } else {
            before_or_0
        };
        let half_turns = libm::round((before_or_0 - rotation) / std::f64::consts::PI);
        if before.is_some() {
            rotation += half_turns * std::f64::consts::PI;
        }
        let (sin, cos) = libm::sincos(rotation);
        let scale = [cos * x[0] - sin * x[1], sin * y[0] + cos * y[1]];
        // Rows at the end of f32's range.
        let fits = scale.iter().all(|s| (*s as f32).is_finite());
        fits.then_some(Uv { offset: [u.z, v.z], rotation, scale })
    }

    /// The rows.
    fn rows(&self) -> [DVec3; 2] {
        let (sin, cos) = libm::sincos(self.rotation);
        [
            DVec3::new(cos * self.scale[0], sin * self.scale[1], self.offset[0]),
            DVec3::new(-sin * self.scale[0], cos * self.scale[1], self.offset[1]),
        ]
    }

    fn middle(&self, other: &Uv) -> Uv {
        let mid = |a: f64, b: f64| 0.5 * (a + b);
        Uv {
            offset: [mid(self.offset[0], other.offset[0]), mid(self.offset[1], other.offset[1])],
            rotation: mid(self.rotation, other.rotation),
            scale: [mid(self.scale[0], other.scale[0]), mid(self.scale[1], other.scale[1])],
        }
    }
}

/// The timeline of the texture curves.
enum TimelineChoice {
    /// A timeline that the clip has.
    Existing(u32),
    /// One that must be added.
    New(Timeline),
}

type Curves = Vec<(Property, Curve)>;

/// The rows of `tag` as transforms: a key at every key of either row, and more where a line from one to the next
/// would deviate from the rows.
fn texture(clip: &Clip, tag: u16) -> Result<(TimelineChoice, Curves), Warning> {
    let find = |number: u8| {
        clip.tracks.iter().find(|t| {
            t.target.joint == JointId::BoneTag(tag)
                && matches!(t.target.property, Property::Other(o) if o.number == number)
                && matches!(&t.curve.values, Values::Vec3(v) if !v.is_empty())
        })
    };
    let rows = [find(17), find(18)];
    let Some(first) = rows.iter().flatten().next() else { return Err(Warning::new(&UV_EMPTY)) };
    let moving: Vec<&Track> = rows.into_iter().flatten().filter(|t| !t.curve.is_constant()).collect();
    let shared = moving.first().unwrap_or(first).timeline;
    let mut instants: Vec<f64> =
        moving.iter().flat_map(|t| clip.timeline(t).iter_seconds()).filter(|s| s.is_finite()).collect();
    instants.sort_unstable_by(f64::total_cmp);
    instants.dedup_by(|b, a| *b - *a < SAME_INSTANT_S);
    if instants.is_empty() {
        instants.push(0.0);
    }
    let mut samplers = rows.map(|t| t.map(|t| Sampler::new(clip.timeline(t), &t.curve)));
    let mut at = |s: f64| -> [DVec3; 2] {
        let [u, v] = &mut samplers;
        [u.as_mut().map_or(DVec3::X, |u| u.vec3(s)), v.as_mut().map_or(DVec3::Y, |v| v.vec3(s))]
    };
    let sheared = |s: f64| Warning::new(&UV_SHEARED).with("at_s", s);
    let mut keys: Vec<(f64, Uv)> = Vec::with_capacity(instants.len());
    for s in &instants {
        let [u, v] = at(*s);
        let before = keys.last().map(|(_, uv)| uv.rotation);
        let key =
            Uv::of(u, v, before).filter(|_| u.is_finite() && v.is_finite()).ok_or_else(|| sheared(*s))?;
        match keys.last().copied() {
            None => keys.push((*s, key)),
            Some(before) => subdivide(before, *s, &mut at, MAX_HALVINGS, &mut keys).map_err(sheared)?,
        }
    }
    let timeline = if moving.iter().all(|t| t.timeline == shared) && keys.len() == instants.len() {
        TimelineChoice::Existing(shared)
    } else {
        let positions = Positions::Fractional(keys.iter().map(|(s, _)| *s).collect());
        TimelineChoice::New(Timeline { clock: Clock::Seconds, positions, window: Window::WHOLE })
    };
    let curve = |values| Curve { interpolation: Interpolation::Linear, values };
    let vec3 = |of: fn(&Uv) -> [f64; 2], z: f32| {
        let one = |uv: &Uv| Vec3::new(of(uv)[0] as f32, of(uv)[1] as f32, z);
        let all: Vec<Vec3> = keys.iter().map(|(_, uv)| one(uv)).collect();
        curve(Values::Vec3(all))
    };
    let turns = Values::Scalar(keys.iter().map(|(_, uv)| uv.rotation as f32).collect());
    Ok((
        timeline,
        vec![
            (Property::UvOffset, vec3(|uv| uv.offset, 0.0)),
            (Property::UvRotation, curve(turns)),
            (Property::UvScale, vec3(|uv| uv.scale, 1.0)),
        ],
    ))
}

/// Pushes the key at `end_s`, and as many between it and `start` as the tolerance needs. `Err`: the instant at which
/// the rows shear.
fn subdivide(
    start: (f64, Uv),
    end_s: f64,
    at: &mut impl FnMut(f64) -> [DVec3; 2],
    halvings: u32,
    keys: &mut Vec<(f64, Uv)>,
) -> Result<(), f64> {
    let uv = |s: f64, before: &Uv, at: &mut dyn FnMut(f64) -> [DVec3; 2]| {
        let [u, v] = at(s);
        Uv::of(u, v, Some(before.rotation)).ok_or(s)
    };
    let end = uv(end_s, &start.1, at)?;
    let middle_s = 0.5 * (start.0 + end_s);
    let (is, would) = (at(middle_s), start.1.middle(&end).rows());
    let off = (0..2).map(|i| (is[i] - would[i]).abs().max_element()).fold(0.0, f64::max);
    if halvings == 0 || off <= UV_TOLERANCE {
        keys.push((end_s, end));
        return Ok(());
    }
    subdivide(start, middle_s, at, halvings - 1, keys)?;
    let middle = keys.last().copied().unwrap_or(start);
    subdivide(middle, end_s, at, halvings - 1, keys)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::model::ClipId;

    fn clip(rows: [Option<Vec<Vec3>>; 2]) -> Clip {
        let count = rows.iter().flatten().map(Vec::len).max().unwrap() as u32;
        let tracks = rows
            .into_iter()
            .zip([17, 18])
            .filter_map(|(values, number)| {
                Some(Track {
                    target: Target {
                        joint: JointId::BoneTag(0),
                        property: Property::Other(OtherTrack { number, name: None }),
                    },
                    timeline: 0,
                    curve: Curve { interpolation: Interpolation::Linear, values: Values::Vec3(values?) },
                })
            })
            .collect();
        Clip {
            id: ClipId { value: 1, min_digits: 8 },
            name: "c".into(),
            short_name: "c".into(),
            game: "GTAV",
            source: "c".into(),
            length_s: 1.0,
            additive: false,
            timelines: vec![Timeline {
                clock: Clock::Span { duration_s: 1.0, intervals: (count - 1).max(1) },
                positions: Positions::Run { first: 0, count },
                window: Window::WHOLE,
            }],
            tracks,
            events: Vec::new(),
            extras: serde_json::Map::new(),
            warnings: Vec::new(),
        }
    }

    /// What a player makes of the written tracks at `s`, by the formula of KHR_texture_transform, for a point.
    fn played(clip: &Clip, s: f64, point: [f64; 2]) -> [f64; 2] {
        let find = |p| clip.tracks.iter().find(|t| t.target.property == p).unwrap();
        let vec3 = |p| Sampler::new(clip.timeline(find(p)), &find(p).curve).vec3(s);
        let (offset, scale) = (vec3(Property::UvOffset), vec3(Property::UvScale));
        let turn = find(Property::UvRotation);
        let (sin, cos) = Sampler::new(clip.timeline(turn), &turn.curve).scalar(s).sin_cos();
        let (x, y) = (point[0] * scale.x, point[1] * scale.y);
        [cos * x + sin * y + offset.x, cos * y - sin * x + offset.y]
    }

    #[test]
    fn what_is_played_is_what_the_rows_say() {
        let turned = |degrees: f32, sx: f32, sy: f32, at: Vec3| {
            let (s, c) = degrees.to_radians().sin_cos();
            [Vec3::new(c * sx, s * sy, at.x), Vec3::new(-s * sx, c * sy, at.y)]
        };
        let cases: [Vec<[Vec3; 2]>; 6] = [
            vec![turned(0.0, 1.0, 1.0, Vec3::ZERO), turned(0.0, 1.0, 1.0, Vec3::new(0.0, -4.0, 0.0))],
            vec![turned(0.0, 1.0, 1.0, Vec3::ZERO), turned(0.0, -2.0, 0.5, Vec3::ONE)],
            vec![
                turned(10.0, 1.0, 1.0, Vec3::ZERO),
                turned(50.0, 2.0, 2.0, Vec3::ONE),
                turned(100.0, 2.0, 2.0, Vec3::ONE),
            ],
            vec![turned(170.0, 1.0, 3.0, Vec3::ZERO), turned(190.0, 1.0, 3.0, Vec3::X)],
            vec![turned(0.0, 0.0, 0.0, Vec3::ZERO), turned(0.0, 0.0, 1.0, Vec3::X)],
            vec![turned(33.0, 1.0, 2.0, Vec3::X)],
        ];
        for (n, case) in cases.into_iter().enumerate() {
            let rows = [0, 1].map(|i| Some(case.iter().map(|c| c[i]).collect::<Vec<Vec3>>()));
            let mut c = clip(rows.clone());
            add(&mut c);
            assert_eq!((c.tracks.len(), c.warnings.len()), (5, 0), "case {n}");
            for step in 0..=40 {
                let s = f64::from(step) / 40.0;
                let row = |i: usize| Sampler::new(&c.timelines[0], &c.tracks[i].curve).vec3(s);
                for point in [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.7, 0.3]] {
                    let want = [0, 1].map(|i| row(i).dot(DVec3::new(point[0], point[1], 1.0)));
                    let is = played(&c, s, point);
                    let off = (is[0] - want[0]).abs().max((is[1] - want[1]).abs());
                    assert!(off < 1e-3, "case {n} at {s}: {is:?}, expected {want:?}");
                }
            }
        }
    }

    #[test]
    fn a_plain_scroll_keeps_its_keys_and_shear_stays_rows() {
        let mut c = clip([None, Some(vec![Vec3::Y, Vec3::new(0.0, 1.0, 2.0)])]);
        add(&mut c);
        assert_eq!(c.tracks.len(), 4);
        assert!(c.tracks.iter().all(|t| t.timeline == 0));
        assert_eq!(c.tracks[1].curve.values, Values::Vec3(vec![Vec3::ZERO, Vec3::new(0.0, 2.0, 0.0)]));
        let mut c = clip([Some(vec![Vec3::new(1.0, 0.5, 0.0); 2]), None]);
        add(&mut c);
        assert_eq!((c.tracks.len(), c.warnings.len()), (1, 1));
        let mut c = clip([Some(vec![Vec3::NAN; 2]), None]);
        add(&mut c);
        assert_eq!((c.tracks.len(), c.warnings.len()), (1, 1));
    }
}
