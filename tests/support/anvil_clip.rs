//! Writes Animation, Skeleton, AnimSet and Entity bodies of both Anvil games, so that the readers can be tested
//! where no fixture is. Written from the format notes, not from the readers: it packs what they unpack.

pub const ANIMATION: u32 = 0x0FA3_067F;
pub const ANIM_TRACK_DATA: u32 = 0x0181_EFE8;
pub const MAPPING: u32 = 0x653C_AA76;

/// What the keys of a track hold.
#[derive(Debug, Clone)]
pub enum Keys {
    /// x, y, z, w; packed as the track's kind says.
    Quat(Vec<[f64; 4]>),
    /// Metres.
    Vec3(Vec<[f64; 3]>),
    /// `width` low bytes of each.
    Raw(usize, Vec<u64>),
}

impl Keys {
    pub fn len(&self) -> usize {
        match self {
            Keys::Quat(v) => v.len(),
            Keys::Vec3(v) => v.len(),
            Keys::Raw(_, v) => v.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[derive(Debug, Clone)]
pub struct TrackSpec {
    pub crc: u32,
    pub kind: u8,
    /// RR: 0, 1, 2. SWS: tag & 3.
    pub form: u8,
    /// Ticks of 1/60 s; for RR's form 2 frames of 1/30 s.
    pub times: Vec<u32>,
    pub keys: Keys,
}

#[derive(Debug, Clone, Default)]
pub struct ClipSpec {
    pub id: u64,
    pub length_s: f32,
    pub flags: [u8; 4],
    pub teleport: Vec<u16>,
    pub event_count: u32,
    pub events: Vec<u8>,
    pub ecl: Option<[Vec<u8>; 4]>,
    pub buffer: Vec<u8>,
    pub tracks: Vec<TrackSpec>,
    /// SWS: rows of the allocator's table.
    pub rows: Vec<[u8; 12]>,
    pub layout: u32,
    pub second_layout: u32,
}

fn smallest_three(q: [f64; 4], max: f64) -> (usize, [u64; 3]) {
    let index = (0..4).fold(0, |best, i| if q[i].abs() > q[best].abs() { i } else { best });
    let sign = if q[index] < 0.0 { -1.0 } else { 1.0 };
    let mut kept = [0; 3];
    for (slot, i) in (0..4).filter(|i| *i != index).enumerate() {
        let v = (sign * q[i] * 2f64.sqrt() + 1.0) / 2.0 * max;
        kept[slot] = v.round().clamp(0.0, max) as u64;
    }
    (index, kept)
}

fn quat10(q: [f64; 4]) -> Vec<u8> {
    let (i, [a, b, c]) = smallest_three(q, 1023.0);
    ((i as u64) << 30 | a << 20 | b << 10 | c).to_le_bytes()[..4].to_vec()
}

fn quat15(q: [f64; 4]) -> Vec<u8> {
    let (i, [a, b, c]) = smallest_three(q, 32767.0);
    let i = i as u64;
    [a | (i & 1) << 15, b | (i >> 1) << 15, c].iter().flat_map(|w| (*w as u16).to_le_bytes()).collect()
}

fn quat20(q: [f64; 4]) -> Vec<u8> {
    let (i, [a, b, c]) = smallest_three(q, 1_048_575.0);
    // Bits 8-27 a; bits 52-63 the low twelve bits of b, bits 0-7 its high eight; bits 32-51 c; bits 30-31 index.
    (b >> 12 | a << 8 | (i as u64) << 30 | c << 32 | (b & 0xFFF) << 52).to_le_bytes().to_vec()
}

fn xyz(q: [f64; 4]) -> Vec<u8> {
    let sign = if q[3] < 0.0 { -1.0 } else { 1.0 };
    q[..3].iter().flat_map(|v| ((v * sign) as f32).to_le_bytes()).collect()
}

fn z_only(q: [f64; 4]) -> Vec<u8> {
    let z = if q[3] < 0.0 { -q[2] } else { q[2] };
    (((z * 2f64.sqrt() + 1.0) / 2.0 * 32767.0).round() as u16).to_le_bytes().to_vec()
}

/// The value bytes of a track.
fn pack(keys: &Keys, kind: u8, sws: bool) -> Vec<u8> {
    match keys {
        Keys::Quat(v) => {
            let f: fn([f64; 4]) -> Vec<u8> = match (sws, kind) {
                (false, 3) => quat10,
                (_, 4) => quat15,
                (_, 5) => quat20,
                (false, 7) => z_only,
                (false, 8) | (true, 6) => xyz,
                _ => panic!("kind {kind} is no rotation"),
            };
            v.iter().flat_map(|q| f(*q)).collect()
        }
        Keys::Vec3(v) => v
            .iter()
            .flat_map(|p| -> Vec<u8> {
                let mm = |v: f64| (v * 1000.0).round() as i64;
                match (sws, kind) {
                    (false, 9) | (true, 7) => p.iter().flat_map(|v| (*v as f32).to_le_bytes()).collect(),
                    (true, 8) => ((mm(p[0]) & 0x7FF) << 21 | (mm(p[1]) & 0x7FF) << 10 | mm(p[2]) & 0x3FF)
                        .to_le_bytes()[..4]
                        .to_vec(),
                    (true, 9) => p.iter().flat_map(|v| (mm(*v) as i16).to_le_bytes()).collect(),
                    _ => panic!("kind {kind} is no translation"),
                }
            })
            .collect(),
        Keys::Raw(width, v) => v.iter().flat_map(|v| v.to_le_bytes()[..*width].to_vec()).collect(),
    }
}

fn put(out: &mut Vec<u8>, v: u32) {
    out.extend(v.to_le_bytes());
}

/// Times behind the first key, in the width of the form.
fn times(track: &TrackSpec, wide: bool) -> Vec<u8> {
    track.times[1..]
        .iter()
        .flat_map(|t| if wide { (*t as u16).to_le_bytes().to_vec() } else { vec![*t as u8] })
        .collect()
}

pub fn rr_block(track: &TrackSpec) -> Vec<u8> {
    let time_bytes = match track.form {
        2 => {
            let mask = track.times.iter().fold(0u64, |m, t| m | 1 << t);
            let bytes = mask.to_le_bytes();
            let n = 8 - mask.leading_zeros() as usize / 8;
            [&[0x40 | n as u8][..], &bytes[..n]].concat()
        }
        form => times(track, form == 1),
    };
    let values = pack(&track.keys, track.kind, false);
    let mut out = vec![3 * track.kind + track.form];
    put(&mut out, (time_bytes.len() + values.len() + 4) as u32);
    put(&mut out, track.keys.len() as u32);
    [out, time_bytes, values].concat()
}

pub fn rr_body(clip: &ClipSpec) -> Vec<u8> {
    let mut out = vec![1];
    out.extend(clip.length_s.to_le_bytes());
    put(&mut out, 0xA11C_E000);
    put(&mut out, 0);
    put(&mut out, clip.teleport.len() as u32);
    out.extend(clip.teleport.iter().flat_map(|v| v.to_le_bytes()));
    put(&mut out, 0);
    out.extend(clip.flags);
    put(&mut out, clip.event_count);
    out.extend(&clip.events);
    out.push(0);
    out.extend(0x1122_3344_5566_7788u64.to_le_bytes());
    put(&mut out, ANIM_TRACK_DATA);
    put(&mut out, 0xDA7A_0000);
    put(&mut out, clip.tracks.len() as u32);
    for (i, track) in clip.tracks.iter().enumerate() {
        out.extend((i as u64 + 77).to_le_bytes());
        put(&mut out, MAPPING);
        put(&mut out, track.crc);
    }
    out.extend(5u16.to_le_bytes());
    match &clip.ecl {
        None => out.push(3),
        Some(arrays) => {
            out.push(0);
            out.extend(9u64.to_le_bytes());
            put(&mut out, 0xAC69_2A57);
            for (array, size) in arrays.iter().zip([1, 4, 2, 1]) {
                put(&mut out, (array.len() / size) as u32);
                out.extend(array);
            }
        }
    }
    put(&mut out, clip.buffer.len() as u32);
    out.extend(&clip.buffer);
    put(&mut out, 50);
    put(&mut out, clip.tracks.len() as u32);
    for track in &clip.tracks {
        out.extend(rr_block(track));
    }
    out
}

pub fn sws_block(track: &TrackSpec) -> Vec<u8> {
    let time_bytes = times(track, track.form & 1 != 0);
    let values = pack(&track.keys, track.kind, true);
    let alignment = match track.kind {
        4 | 9 => 2,
        5..=8 | 10 => 4,
        _ => 1,
    };
    let size: usize = 2 + time_bytes.len() + if track.form & 2 != 0 { 2 } else { 0 };
    let size = size.div_ceil(alignment) * alignment;
    let mut out = vec![track.kind << 2 | track.form];
    put(&mut out, (size + values.len()) as u32);
    put(&mut out, track.keys.len() as u32);
    [out, time_bytes, values].concat()
}

pub fn sws_body(clip: &ClipSpec) -> Vec<u8> {
    let mut out = vec![2, 0, 0];
    put(&mut out, clip.rows.len() as u32);
    out.extend(clip.rows.iter().flatten());
    out.push(1);
    put(&mut out, clip.id as u32);
    put(&mut out, ANIMATION);
    out.extend(clip.length_s.to_le_bytes());
    put(&mut out, clip.layout);
    put(&mut out, 0);
    out.extend([0, 0]);
    put(&mut out, clip.id as u32 + 3);
    put(&mut out, clip.event_count);
    out.extend(&clip.events);
    put(&mut out, 0);
    out.push(0);
    put(&mut out, 0);
    put(&mut out, ANIM_TRACK_DATA);
    put(&mut out, clip.second_layout);
    put(&mut out, clip.tracks.len() as u32);
    for track in &clip.tracks {
        put(&mut out, 0);
        put(&mut out, MAPPING);
        put(&mut out, track.crc);
    }
    out.extend([0, 0]);
    put(&mut out, clip.tracks.len() as u32);
    for track in &clip.tracks {
        out.extend(sws_block(track));
    }
    out
}

/// A bone for the skeleton writers.
#[derive(Debug, Clone)]
pub struct BoneSpec {
    pub crc: u32,
    pub parent: Option<usize>,
    pub position: [f64; 3],
    pub rotation: [f64; 4],
}

pub fn quat_mul(a: [f64; 4], b: [f64; 4]) -> [f64; 4] {
    let [ax, ay, az, aw] = a;
    let [bx, by, bz, bw] = b;
    [
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
        aw * bw - ax * bx - ay * by - az * bz,
    ]
}

pub fn rotate(q: [f64; 4], v: [f64; 3]) -> [f64; 3] {
    let r = quat_mul(quat_mul(q, [v[0], v[1], v[2], 0.0]), [-q[0], -q[1], -q[2], q[3]]);
    [r[0], r[1], r[2]]
}

/// A unit quaternion about an axis.
pub fn turn(axis: [f64; 3], degrees: f64) -> [f64; 4] {
    let n = axis.iter().map(|v| v * v).sum::<f64>().sqrt();
    let (s, c) = (degrees.to_radians() / 2.0).sin_cos();
    [axis[0] / n * s, axis[1] / n * s, axis[2] / n * s, c]
}

fn transforms(bones: &[BoneSpec], i: usize) -> Vec<u8> {
    fn global(bones: &[BoneSpec], i: usize) -> ([f64; 3], [f64; 4]) {
        let b = &bones[i];
        match b.parent {
            None => (b.position, b.rotation),
            Some(p) => {
                let (gp, gr) = global(bones, p);
                let d = rotate(gr, b.position);
                ([gp[0] + d[0], gp[1] + d[1], gp[2] + d[2]], quat_mul(gr, b.rotation))
            }
        }
    }
    let (gp, gr) = global(bones, i);
    let b = &bones[i];
    [&gp[..], &[1.0], &gr, &b.position, &[1.0], &b.rotation]
        .concat()
        .iter()
        .flat_map(|v| (*v as f32).to_le_bytes())
        .collect()
}

/// A 64-bit Skeleton body. `drift` bytes of a field that no notes know stand before each bone's transforms; where
/// there are any, each bone's tail also holds a false bone class word.
pub fn skeleton64(bones: &[BoneSpec], count: u32, drift: usize) -> Vec<u8> {
    let id = |i: usize| 0xB0_0000_0000u64 + i as u64;
    let mut out = Vec::new();
    put(&mut out, count);
    for (i, b) in bones.iter().enumerate() {
        out.push(0);
        out.extend(id(i).to_le_bytes());
        put(&mut out, 0x9574_1049);
        put(&mut out, b.crc);
        match b.parent {
            None => out.push(3),
            Some(p) => {
                out.push(2);
                out.extend(id(p).to_le_bytes());
            }
        }
        out.push(3);
        out.extend(vec![0xEE; drift]);
        out.extend(transforms(bones, i));
        out.extend([0; 9]);
        if drift > 0 {
            put(&mut out, 0x9574_1049);
            put(&mut out, b.crc);
        }
        out.extend([3; 30]);
    }
    out.extend([2]);
    out.extend(id(0).to_le_bytes());
    out.extend([3; 6]);
    out
}

/// A 32-bit Skeleton body.
pub fn skeleton32(bones: &[BoneSpec]) -> Vec<u8> {
    let id = |i: usize| 0xB000 + i as u32;
    let mut out = vec![1];
    put(&mut out, 0x177);
    put(&mut out, 0x24AE_CB7C);
    put(&mut out, 0);
    put(&mut out, bones.len() as u32);
    for (i, b) in bones.iter().enumerate() {
        out.push(0);
        put(&mut out, id(i));
        put(&mut out, 0x9574_1049);
        put(&mut out, b.crc);
        match b.parent {
            None => out.push(3),
            Some(p) => {
                out.push(2);
                put(&mut out, id(p));
            }
        }
        out.push(0);
        put(&mut out, 0xC000 + i as u32);
        put(&mut out, 0x6350_E5A6);
        out.extend(transforms(bones, i));
        put(&mut out, 0);
        out.extend([i as u8, 0]);
    }
    out
}
