//! The binary buffer and the accessors into it.
//!
//! | View | Holds | Component |
//! |---|---|---|
//! | inverse bind matrices | one MAT4 a joint | f32 |
//! | times | SCALAR, with bounds | f32 seconds |
//! | rotations | VEC4 | f32, or normalised i16 |
//! | vectors | VEC3, translations and scales | f32 |
//! | numbers | SCALAR: fields of view, turns of texture coordinates | f32 |
//! | pairs | VEC2: offsets and scales of texture coordinates | f32 |
//!
//! Times are shared by all channels that have equal keys; values by all channels that hold the same ones (single
//! values mostly, and roll bones, which follow their limbs).

use bytemuck::cast_slice;
use glam::{Quat, Vec3};
use gltf_json as json;
use json::accessor::ComponentType;
use json::validation::{Checked::Valid, USize64};
use rustc_hash::FxHashMap;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::error::{Error, Result};
use crate::formats::gltf::text::{Piece, put, put_floats};
use crate::formats::preview::Mesh;
use crate::formats::workspace::Buffers;
use crate::model::{Clip, Track, Values};

/// Number of an accessor.
pub type Index = u32;

/// An accessor, which is written as text at the end, when it is known which views there are.
#[derive(Debug)]
struct Accessor {
    view: u8,
    type_: Type,
    component: ComponentType,
    offset: u32,
    count: u32,
    bounds: Bounds,
}

/// What an element is made of.
#[derive(Debug, Clone, Copy)]
enum Type {
    Scalar,
    Vec2,
    Vec3,
    Vec4,
    Mat4,
}

#[derive(Debug)]
enum Bounds {
    None,
    /// First and last.
    Times(f32, f32),
    Vec3s(Vec3, Vec3),
}

/// (x, y, z) -> (x, z, -y): Z up to Y up.
#[inline]
pub fn y_up_vec3(v: Vec3) -> Vec3 {
    Vec3::new(v.x, v.z, 0.0 - v.y)
}

/// (x, y, z, w) -> (x, z, -y, w).
#[inline]
pub fn y_up_quat(q: Quat) -> Quat {
    Quat::from_xyzw(q.x, q.z, 0.0 - q.y, q.w)
}

/// (x, y, z) -> (x, z, y).
#[inline]
pub fn y_up_scale(s: Vec3) -> Vec3 {
    Vec3::new(s.x, s.z, s.y)
}

#[derive(Debug, Clone, Copy)]
enum View {
    Matrices,
    Times,
    Quats,
    Vec3s,
    Numbers,
    Pairs,
    Image,
    Positions,
    Joints,
    Weights,
    Indices,
    QuadPositions,
    QuadUvs,
}

const VIEWS: usize = 13;

/// What a view of a mesh is for; the others must not say (a validator's rule for animation).
fn target(view: usize) -> Option<json::validation::Checked<json::buffer::Target>> {
    use json::buffer::Target;
    const FIRST: usize = View::Positions as usize;
    const INDICES: usize = View::Indices as usize;
    match view {
        INDICES => Some(Valid(Target::ElementArrayBuffer)),
        FIRST.. => Some(Valid(Target::ArrayBuffer)),
        _ => None,
    }
}

/// Collects accessors and the bytes they point at.
#[derive(Debug, Default)]
pub struct Accessors {
    bytes: [Vec<u8>; VIEWS],
    accessors: Vec<Accessor>,
    /// Index of each view in the document, once that is known.
    views: [Option<u32>; VIEWS],
    /// Accessors of the timelines of the current clip.
    timelines: Vec<Option<(Index, Option<Vec<u32>>)>>,
    /// Times of one or two keys (0, and 0 with the clip's end), for the whole file.
    held: FxHashMap<Option<u32>, Index>,
    /// Single vectors that are there already.
    vec3: FxHashMap<([u32; 3], bool), Index>,
    /// Single rotations that are there already.
    quat: FxHashMap<([u32; 4], bool), Index>,
    /// Values of more keys (or of 16 bits) that are there already, by the hash of their bytes.
    values: FxHashMap<u64, Index>,
}

impl Accessors {
    fn push(
        &mut self,
        view: View,
        offset: usize,
        count: usize,
        type_: Type,
        component: ComponentType,
    ) -> Index {
        self.accessors.push(Accessor {
            view: view as u8,
            type_,
            component,
            // Over 4 GiB is refused at the end.
            offset: offset as u32,
            count: count as u32,
            bounds: Bounds::None,
        });
        (self.accessors.len() - 1) as u32
    }

    /// [`Accessors::push`] of `count` elements that end their view; but where an accessor with the same bytes is
    /// there already, that one.
    fn push_once(
        &mut self,
        view: View,
        offset: usize,
        count: usize,
        type_: Type,
        component: ComponentType,
    ) -> Index {
        let bytes = &mut self.bytes[view as usize];
        let (before, own) = bytes.split_at(offset);
        // The seed tells views apart, and 16 bits from 32.
        let seed = (view as u64) << 1 | u64::from(matches!(component, ComponentType::I16));
        let hash = xxh3_64_with_seed(own, seed);
        if let Some(index) = self.values.get(&hash)
            && let Some(known) = self.accessors.get(*index as usize)
            && (known.view, known.component, known.count) == (view as u8, component, count as u32)
            && before.get(known.offset as usize..known.offset as usize + own.len()) == Some(own)
        {
            bytes.truncate(offset);
            return *index;
        }
        let index = self.push(view, offset, count, type_, component);
        self.values.insert(hash, index);
        index
    }

    /// Inverse bind matrices, column by column.
    pub fn matrices(&mut self, matrices: &[[f32; 16]]) -> Index {
        let offset = self.bytes[View::Matrices as usize].len();
        for m in matrices {
            extend_f32(&mut self.bytes[View::Matrices as usize], m);
        }
        self.push(View::Matrices, offset, matrices.len(), Type::Mat4, ComponentType::F32)
    }

    /// The preview mesh: positions, joints, weights, indices.
    pub fn mesh(&mut self, mesh: &Mesh) -> [Index; 4] {
        let count = mesh.positions.len();
        let points: Vec<Vec3> = mesh.positions.iter().map(|p| y_up_vec3(*p)).collect();
        for p in &points {
            extend_f32(&mut self.bytes[View::Positions as usize], &p.to_array());
        }
        let positions = self.push(View::Positions, 0, count, Type::Vec3, ComponentType::F32);
        if let Some(accessor) = self.accessors.last_mut() {
            let min = points.iter().copied().reduce(Vec3::min).unwrap_or_default();
            let max = points.iter().copied().reduce(Vec3::max).unwrap_or_default();
            accessor.bounds = Bounds::Vec3s(min, max);
        }
        for joint in &mesh.joints {
            let bytes = &mut self.bytes[View::Joints as usize];
            bytes.extend_from_slice(&(*joint as u16).to_le_bytes());
            bytes.extend_from_slice(&[0; 6]);
            extend_f32(&mut self.bytes[View::Weights as usize], &[1.0, 0.0, 0.0, 0.0]);
        }
        let joints = self.push(View::Joints, 0, count, Type::Vec4, ComponentType::U16);
        let weights = self.push(View::Weights, 0, count, Type::Vec4, ComponentType::F32);
        for index in mesh.triangles.iter().flatten() {
            self.bytes[View::Indices as usize].extend_from_slice(&index.to_le_bytes());
        }
        let indices = self.push(View::Indices, 0, mesh.triangles.len() * 3, Type::Scalar, ComponentType::U32);
        [positions, joints, weights, indices]
    }

    /// Forgets the timelines of the clip before.
    pub fn begin_clip(&mut self, clip: &Clip) {
        self.timelines.clear();
        self.timelines.resize(clip.timelines.len(), None);
    }

    /// Makes room for all keys of these clips at once, as if none were shared.
    pub fn expect<'a>(&mut self, clips: impl Iterator<Item = &'a Clip>, buffers: &mut Buffers) {
        let (mut times, mut quats, mut vec3s, mut tracks) = (0, 0, 0, 0);
        for clip in clips {
            times += clip.timelines.iter().map(|t| t.len() + 2).sum::<usize>();
            tracks += clip.tracks.len();
            for track in &clip.tracks {
                match &track.curve.values {
                    Values::Quat(q) => quats += q.len() + 1,
                    Values::Vec3(v) => vec3s += v.len() + 1,
                    Values::Scalar(_) | Values::Raw { .. } => {}
                }
            }
        }
        self.reserve(View::Times, times * 4, buffers);
        self.reserve(View::Quats, quats * 16, buffers);
        self.reserve(View::Vec3s, vec3s * 12, buffers);
        self.accessors.reserve(tracks);
        self.quat.reserve(tracks / 2);
        self.vec3.reserve(tracks / 8);
    }

    fn reserve(&mut self, view: View, bytes: usize, buffers: &mut Buffers) {
        let view = &mut self.bytes[view as usize];
        if view.capacity() == 0 {
            *view = buffers.take(bytes);
        }
        view.reserve(bytes);
    }

    /// Lets the next document have the buffers.
    pub fn recycle(self, buffers: &mut Buffers) {
        self.bytes.into_iter().for_each(|bytes| buffers.give(bytes));
    }

    /// Key times of a track, f32 seconds, strictly rising. Where rounding makes neighbours equal, the first of
    /// them stays: then the second part of the result says which keys stay.
    pub fn times(&mut self, clip: &Clip, track: &Track, hold: Option<f64>) -> (Index, Option<Vec<u32>>) {
        if track.curve.is_constant() {
            return (self.held(hold), None);
        }
        self.all_times(clip, track.timeline, hold)
    }

    /// [`Accessors::times`] of a whole timeline of the clip.
    pub fn all_times(&mut self, clip: &Clip, timeline: u32, hold: Option<f64>) -> (Index, Option<Vec<u32>>) {
        let number = timeline as usize;
        if hold.is_none()
            && let Some(Some(known)) = self.timelines.get(number)
        {
            return known.clone();
        }
        let timeline = &clip.timelines[number];
        let bytes = &mut self.bytes[View::Times as usize];
        let offset = bytes.len();
        let mut last = f32::NEG_INFINITY;
        let mut first = 0.0;
        let mut count = 0;
        let mut keep: Option<Vec<u32>> = None;
        for (i, seconds) in timeline.iter_seconds().enumerate() {
            let t = seconds as f32;
            if t > last {
                if count == 0 {
                    first = t;
                }
                bytes.extend_from_slice(&t.to_le_bytes());
                last = t;
                count += 1;
                if let Some(keep) = &mut keep {
                    keep.push(i as u32);
                }
            } else if keep.is_none() {
                keep = Some((0..i as u32).collect());
            }
        }
        if let Some(end) = hold.map(|s| s as f32) {
            bytes.extend_from_slice(&end.to_le_bytes());
            last = end;
            count += 1;
        }
        let index = self.push(View::Times, offset, count, Type::Scalar, ComponentType::F32);
        self.bound(first, last);
        if hold.is_none() {
            self.timelines[number] = Some((index, keep.clone()));
        }
        (index, keep)
    }

    /// The times of a value that holds: 0, and the end where the clip's length hangs on it.
    pub fn held(&mut self, end_s: Option<f64>) -> Index {
        let end = end_s.map(|s| s as f32);
        if let Some(index) = self.held.get(&end.map(f32::to_bits)) {
            return *index;
        }
        let bytes = &mut self.bytes[View::Times as usize];
        let offset = bytes.len();
        bytes.extend_from_slice(&0f32.to_le_bytes());
        if let Some(end) = end {
            bytes.extend_from_slice(&end.to_le_bytes());
        }
        let count = 1 + usize::from(end.is_some());
        let index = self.push(View::Times, offset, count, Type::Scalar, ComponentType::F32);
        self.bound(0.0, end.unwrap_or(0.0));
        self.held.insert(end.map(f32::to_bits), index);
        index
    }

    fn bound(&mut self, min: f32, max: f32) {
        if let Some(accessor) = self.accessors.last_mut() {
            accessor.bounds = Bounds::Times(min, max);
        }
    }

    /// Rotations as f32. `hold` repeats the last value.
    pub fn quats(&mut self, values: &[Quat], keep: Option<&[u32]>, hold: bool) -> Index {
        if let [single] = values {
            let key = (single.to_array().map(f32::to_bits), hold);
            if let Some(index) = self.quat.get(&key) {
                return *index;
            }
            let index = self.quats_new(values, keep, hold);
            self.quat.insert(key, index);
            return index;
        }
        self.quats_new(values, keep, hold)
    }

    fn quats_new(&mut self, values: &[Quat], keep: Option<&[u32]>, hold: bool) -> Index {
        let bytes = &mut self.bytes[View::Quats as usize];
        let offset = bytes.len();
        let mut put = |q: Quat| extend_f32(bytes, &y_up_quat(q).to_array());
        let count = each_key(values, keep, hold, &mut put);
        self.push_once(View::Quats, offset, count, Type::Vec4, ComponentType::F32)
    }

    /// Rotations as normalised i16: c -> round(c x 32767).
    pub fn quats_i16(&mut self, values: &[Quat], keep: Option<&[u32]>, hold: bool) -> Index {
        let bytes = &mut self.bytes[View::Quats as usize];
        let offset = bytes.len();
        let mut put = |q: Quat| {
            let q = y_up_quat(q).to_array().map(|c| (c * 32767.0).round() as i16);
            for c in q {
                bytes.extend_from_slice(&c.to_le_bytes());
            }
        };
        let count = each_key(values, keep, hold, &mut put);
        self.push_once(View::Quats, offset, count, Type::Vec4, ComponentType::I16)
    }

    /// Translations or scales. `hold` repeats the last value.
    pub fn vec3s(&mut self, values: &[Vec3], keep: Option<&[u32]>, hold: bool, scale: bool) -> Index {
        let turn = if scale { y_up_scale } else { y_up_vec3 };
        // Singles are found by what is written, so that a scale can share with a translation.
        let key = match values {
            [single] => Some((turn(*single).to_array().map(f32::to_bits), hold)),
            _ => None,
        };
        if let Some(index) = key.and_then(|k| self.vec3.get(&k)) {
            return *index;
        }
        let bytes = &mut self.bytes[View::Vec3s as usize];
        let offset = bytes.len();
        let mut put = |v: Vec3| extend_f32(bytes, &turn(v).to_array());
        let count = each_key(values, keep, hold, &mut put);
        let index = self.push_once(View::Vec3s, offset, count, Type::Vec3, ComponentType::F32);
        if let Some(key) = key {
            self.vec3.insert(key, index);
        }
        index
    }

    /// Numbers as they are.
    pub fn numbers(&mut self, values: &[f32]) -> Index {
        let bytes = &mut self.bytes[View::Numbers as usize];
        let offset = bytes.len();
        extend_f32(bytes, values);
        self.push(View::Numbers, offset, values.len(), Type::Scalar, ComponentType::F32)
    }

    /// Pairs as they are.
    pub fn pairs(&mut self, values: &[[f32; 2]]) -> Index {
        let bytes = &mut self.bytes[View::Pairs as usize];
        let offset = bytes.len();
        extend_f32(bytes, cast_slice(values));
        self.push(View::Pairs, offset, values.len(), Type::Vec2, ComponentType::F32)
    }

    /// The bytes of the file's one image; [`Accessors::finish`] tells the image where they are.
    pub fn image(&mut self, bytes: &[u8]) {
        self.bytes[View::Image as usize].extend_from_slice(bytes);
    }

    /// Positions (Y up) and texture coordinates of two triangles.
    pub fn quad(&mut self, positions: &[[f32; 3]; 6], uvs: &[[f32; 2]; 6]) -> [Index; 2] {
        extend_f32(&mut self.bytes[View::QuadPositions as usize], cast_slice(positions));
        let at = self.push(View::QuadPositions, 0, 6, Type::Vec3, ComponentType::F32);
        if let Some(accessor) = self.accessors.last_mut() {
            let all = || positions.iter().map(|p| Vec3::from_array(*p));
            let bound = |by: fn(Vec3, Vec3) -> Vec3| all().reduce(by).unwrap_or_default();
            accessor.bounds = Bounds::Vec3s(bound(Vec3::min), bound(Vec3::max));
        }
        extend_f32(&mut self.bytes[View::QuadUvs as usize], cast_slice(uvs));
        [at, self.push(View::QuadUvs, 0, 6, Type::Vec2, ComponentType::F32)]
    }

    /// Puts views and the buffer into `root`. Nothing can be added after it.
    ///
    /// # Errors
    /// Over 4 GiB.
    pub fn finish(&mut self, root: &mut json::Root) -> Result<()> {
        let total: usize = self.bytes.iter().map(|b| b.len().next_multiple_of(4)).sum();
        if u32::try_from(total).is_err() {
            return Err(too_large(total));
        }
        let mut offset = 0;
        for (i, bytes) in self.bytes.iter_mut().enumerate().filter(|(_, b)| !b.is_empty()) {
            self.views[i] = Some(root.buffer_views.len() as u32);
            root.buffer_views.push(json::buffer::View {
                buffer: json::Index::new(0),
                byte_length: USize64::from(bytes.len()),
                byte_offset: Some(USize64::from(offset)),
                byte_stride: None,
                name: None,
                target: target(i),
                extensions: None,
                extras: None,
            });
            // What follows an image must stand on four bytes.
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            offset += bytes.len();
        }
        for image in &mut root.images {
            image.buffer_view = self.views[View::Image as usize].map(json::Index::new);
        }
        root.buffers.push(json::Buffer {
            byte_length: USize64::from(total),
            name: None,
            uri: None,
            extensions: None,
            extras: None,
        });
        Ok(())
    }

    /// The buffer, view by view.
    pub fn bin(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.iter().map(Vec::as_slice)
    }

    /// Bytes that [`Accessors::write`] will write, about.
    pub fn text_size(&self) -> usize {
        self.accessors.len() * 112
    }

    /// Writes the accessors, with commas between them.
    pub fn write(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        for (i, accessor) in self.accessors.iter().enumerate() {
            let mut piece = Piece::default();
            if i > 0 {
                piece.text(b",");
            }
            piece.text(b"{");
            if let Some(view) = self.views[usize::from(accessor.view)] {
                piece.text(b"\"bufferView\":");
                piece.number(view);
                piece.text(b",");
            }
            piece.text(b"\"byteOffset\":");
            piece.number(accessor.offset);
            piece.text(b",\"count\":");
            piece.number(accessor.count);
            piece.text(b",\"componentType\":");
            piece.number(accessor.component.as_gl_enum());
            match accessor.type_ {
                Type::Scalar => piece.text(b",\"type\":\"SCALAR\""),
                Type::Vec2 => piece.text(b",\"type\":\"VEC2\""),
                Type::Vec3 => piece.text(b",\"type\":\"VEC3\""),
                Type::Vec4 => piece.text(b",\"type\":\"VEC4\""),
                Type::Mat4 => piece.text(b",\"type\":\"MAT4\""),
            }
            piece.put(out);
            match accessor.bounds {
                Bounds::None => {}
                Bounds::Times(first, last) => put_bounds(out, &[first], &[last])?,
                Bounds::Vec3s(min, max) => put_bounds(out, &min.to_array(), &max.to_array())?,
            }
            if accessor.component == ComponentType::I16 {
                put(out, ",\"normalized\":true");
            }
            out.push(b'}');
        }
        Ok(())
    }
}

/// The error of a file over 4 GiB.
pub fn too_large(bytes: usize) -> Error {
    Error::limit(
        0,
        format_args!("{bytes} bytes of output"),
        "at most 4 GiB in a glTF file; use fewer clips a file",
    )
}

fn put_bounds(out: &mut Vec<u8>, min: &[f32], max: &[f32]) -> serde_json::Result<()> {
    put(out, ",\"min\":");
    put_floats(out, min)?;
    put(out, ",\"max\":");
    put_floats(out, max)
}

fn each_key<T: Copy>(values: &[T], keep: Option<&[u32]>, hold: bool, put: &mut impl FnMut(T)) -> usize {
    let mut count = match keep {
        Some(keep) => {
            keep.iter().for_each(|&i| put(values[i as usize]));
            keep.len()
        }
        None => {
            values.iter().for_each(|&v| put(v));
            values.len()
        }
    };
    if let (true, Some(last)) = (hold, values.last()) {
        put(*last);
        count += 1;
    }
    count
}

#[inline]
fn extend_f32(bytes: &mut Vec<u8>, values: &[f32]) {
    if cfg!(target_endian = "little") {
        bytes.extend_from_slice(cast_slice(values));
    } else {
        values.iter().for_each(|v| bytes.extend_from_slice(&v.to_le_bytes()));
    }
}
