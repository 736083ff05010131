//! Writes clip dictionaries (.ycd) for the tests, made from the format notes alone, never from the reader: what
//! the two agree on is then worth something. Everything is packed as the game's files have it, and, by option,
//! as the tools have it that get things wrong.
//!
//! | Piece | Bytes | Where it goes |
//! |---|---|---|
//! | clip dictionary | 64 | 0x50000000, the root |
//! | page map | 16 | what the root's base points at |
//! | animation map, buckets, entries | 48, 8 each, 32 each | behind it |
//! | animations, track ids, blocks | 96, 4 each, 32 + data | |
//! | clips, names, tags, properties, attributes | 112, .., 80, 64, 48 | |
//!
//! Every value that is packed can be asked for again ([`Track::value`]), computed by the rules of the notes with
//! f32 rounding at every step.

use std::io::Write;

use flate2::{Compression, write::DeflateEncoder};

/// Hash of a name as the game makes it: of the lower-cased text.
pub fn joaat(text: &str) -> u32 {
    let mut h: u32 = 0;
    for c in text.to_lowercase().bytes() {
        h = h.wrapping_add(c.into());
        h = h.wrapping_add(h.wrapping_shl(10));
        h ^= h >> 6;
    }
    h = h.wrapping_add(h.wrapping_shl(3));
    h ^= h >> 11;
    h.wrapping_add(h.wrapping_shl(15))
}

/// One channel: values of a component (or of all of them) over the frames of an animation.
#[derive(Debug, Clone)]
pub enum Channel {
    /// Type 0: x, y, z; w is the positive root.
    StaticQuaternion([f32; 3]),
    /// Type 1.
    StaticVector3([f32; 3]),
    /// Type 2.
    StaticFloat(f32),
    /// Type 3.
    Raw(Vec<f32>),
    /// Type 4.
    Quantised { n: Vec<u32>, quantum: f32, offset: f32 },
    /// Type 5: the table is made of the integers that occur.
    Indirect { n: Vec<u32>, quantum: f32, offset: f32 },
    /// Type 6.
    Linear { n: Vec<i32>, quantum: f32, offset: f32 },
    /// Type 7: the component (0 x to 3 w) that the three others give.
    Cached1(u8),
    /// Type 8: four components are stored and want normalising.
    Cached2,
}

impl Channel {
    fn kind(&self) -> usize {
        match self {
            Channel::StaticQuaternion(_) => 0,
            Channel::StaticVector3(_) => 1,
            Channel::StaticFloat(_) => 2,
            Channel::Raw(_) => 3,
            Channel::Quantised { .. } => 4,
            Channel::Indirect { .. } => 5,
            Channel::Linear { .. } => 6,
            Channel::Cached1(_) => 7,
            Channel::Cached2 => 8,
        }
    }

    /// The component's value in `frame`; two roundings, after the product and after the sum.
    fn component(&self, frame: usize) -> f32 {
        let dequantise = |n: f32, quantum: f32, offset: f32| {
            let product: f32 = n * quantum;
            product + offset
        };
        match self {
            Channel::StaticFloat(v) => *v,
            Channel::Raw(v) => v[frame],
            Channel::Quantised { n, quantum, offset } | Channel::Indirect { n, quantum, offset } => {
                dequantise(n[frame] as f32, *quantum, *offset)
            }
            Channel::Linear { n, quantum, offset } => dequantise(n[frame] as f32, *quantum, *offset),
            other => panic!("{other:?} is no component"),
        }
    }

    /// Frames `first..first + count` of it.
    fn slice(&self, first: usize, count: usize) -> Channel {
        let mut part = self.clone();
        let range = first..first + count;
        match &mut part {
            Channel::Raw(v) => *v = v[range].to_vec(),
            Channel::Quantised { n, .. } | Channel::Indirect { n, .. } => *n = n[range].to_vec(),
            Channel::Linear { n, .. } => *n = n[range].to_vec(),
            _ => {}
        }
        part
    }
}

/// What a track's values are; the number is the file's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Vector3 = 0,
    Quaternion = 1,
    Float = 2,
}

/// One animated thing.
#[derive(Debug, Clone)]
pub struct Track {
    pub bone: u16,
    pub number: u8,
    pub format: Format,
    /// Channels by slot: one for a static or a float, else a component each, and the cached marker last.
    pub channels: Vec<Channel>,
}

impl Track {
    pub fn new(bone: u16, number: u8, format: Format, channels: Vec<Channel>) -> Track {
        Track { bone, number, format, channels }
    }

    /// A constant translation, scale or mover.
    pub fn constant(bone: u16, number: u8, value: [f32; 3]) -> Track {
        Track::new(bone, number, Format::Vector3, vec![Channel::StaticVector3(value)])
    }

    /// A number that changes, raw.
    pub fn floats(bone: u16, number: u8, values: &[f32]) -> Track {
        Track::new(bone, number, Format::Float, vec![Channel::Raw(values.to_vec())])
    }

    /// Vectors, raw.
    pub fn vectors(bone: u16, number: u8, values: &[[f32; 3]]) -> Track {
        let column = |i: usize| Channel::Raw(values.iter().map(|v| v[i]).collect());
        Track::new(bone, number, Format::Vector3, (0..3).map(column).collect())
    }

    /// Rotations as four raw components and the marker that wants them normalised.
    pub fn rotations(bone: u16, number: u8, values: &[[f32; 4]]) -> Track {
        let column = |i: usize| Channel::Raw(values.iter().map(|v| v[i]).collect());
        let mut channels: Vec<Channel> = (0..4).map(column).collect();
        channels.push(Channel::Cached2);
        Track::new(bone, number, Format::Quaternion, channels)
    }

    /// Slot of each channel: cached quaternions stand where the notes put them.
    fn slot(&self, i: usize) -> u16 {
        match self.channels[i] {
            Channel::Cached1(q) => u16::from(q),
            Channel::Cached2 => 0,
            _ => i as u16,
        }
    }

    /// What the notes say that `frame` holds: 1, 3 or 4 numbers; rotations normalised in f64.
    pub fn value(&self, frame: usize) -> Vec<f64> {
        let unit = |q: [f32; 4]| {
            let q = q.map(f64::from);
            let length = q.iter().map(|c| c * c).sum::<f64>().sqrt();
            q.map(|c| c / length).to_vec()
        };
        let root = |a: f32, b: f32, c: f32| {
            let (aa, bb, cc) = (a * a, b * b, c * c);
            let ab = aa + bb;
            let q = ab + cc;
            let m = 1.0f32 - q;
            if m > 0.0 { m.sqrt() } else { 0.0 }
        };
        match &self.channels[0] {
            Channel::StaticQuaternion([x, y, z]) => return unit([*x, *y, *z, root(*x, *y, *z)]),
            Channel::StaticVector3(v) => return v.map(f64::from).to_vec(),
            _ => {}
        }
        let get = |i: usize| self.channels[i].component(frame);
        match self.format {
            Format::Float => vec![f64::from(get(0))],
            Format::Vector3 => (0..3).map(|i| f64::from(get(i))).collect(),
            Format::Quaternion => match self.channels.get(3) {
                Some(Channel::Cached1(q)) => {
                    let (a, b, c) = (get(0), get(1), get(2));
                    let mut all = vec![a, b, c];
                    all.insert(usize::from(*q), root(a, b, c));
                    unit([all[0], all[1], all[2], all[3]])
                }
                _ => unit([get(0), get(1), get(2), get(3)]),
            },
        }
    }
}

/// An animation.
#[derive(Debug, Clone)]
pub struct Animation {
    pub hash: u32,
    pub frames: usize,
    pub duration_s: f32,
    /// Frames a block, without the one shared with the next. The game's files have a multiple of 16, less 1.
    pub limit: usize,
    /// Frames a chunk of linear channels.
    pub chunk: u8,
    /// Whether a delta stands behind the last frame of a chunk that is not full, as the game's reader would take
    /// one there.
    pub spare_delta: bool,
    pub tracks: Vec<Track>,
    /// The last block lacks so many frames (a slip of tools).
    pub last_block_short_by: usize,
}

impl Animation {
    /// `frames` at 30 a second, in blocks of 127 frames.
    pub fn new(name: &str, frames: usize, tracks: Vec<Track>) -> Animation {
        Animation {
            hash: joaat(name),
            frames,
            duration_s: (frames.max(1) - 1) as f32 / 30.0,
            limit: 127,
            chunk: 64,
            spare_delta: true,
            tracks,
            last_block_short_by: 0,
        }
    }

    /// Begin and stored frames of each block.
    fn blocks(&self) -> Vec<(usize, usize)> {
        let last = self.frames - 1;
        let n = last.div_ceil(self.limit).max(1);
        (0..n)
            .map(|i| {
                let first = i * self.limit;
                let short = if i + 1 == n { self.last_block_short_by } else { 0 };
                (first, (self.frames - first).min(self.limit + 1) - short)
            })
            .collect()
    }

    fn has_mover(&self) -> bool {
        self.tracks.iter().any(|t| t.number == 5 || t.number == 6)
    }
}

/// A window of an animation.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    pub animation: u32,
    pub start_s: f32,
    pub end_s: f32,
    pub rate: f32,
}

impl Part {
    /// All of it, at its own speed.
    pub fn whole(animation: &Animation) -> Part {
        Part { animation: animation.hash, start_s: 0.0, end_s: animation.duration_s, rate: 1.0 }
    }
}

/// Value of an attribute.
#[derive(Debug, Clone)]
pub enum Value {
    Float(f32),
    Int(i32),
    Bool(bool),
    String(String),
    Vector3([f32; 3]),
    Vector4([f32; 4]),
    HashString(u32),
    /// A type that is not known, and its 16 bytes.
    Other(u8, [u8; 16]),
}

/// A property, or the inside of a tag: hash of the name, attributes by hash.
#[derive(Debug, Clone)]
pub struct Property {
    pub name: u32,
    pub attributes: Vec<(u32, Value)>,
}

impl Property {
    pub fn new(name: &str, attributes: &[(&str, Value)]) -> Property {
        Property {
            name: joaat(name),
            attributes: attributes.iter().map(|(n, v)| (joaat(n), v.clone())).collect(),
        }
    }
}

/// A tag: a property at a phase of the clip.
#[derive(Debug, Clone)]
pub struct Tag {
    pub property: Property,
    pub start_phase: f32,
    pub end_phase: f32,
}

/// What a clip plays.
#[derive(Debug, Clone)]
pub enum Plays {
    /// Type 1.
    One(Part),
    /// Type 2: parallel parts and the whole duration, seconds.
    List(Vec<Part>, f32),
}

/// A clip.
#[derive(Debug, Clone)]
pub struct Clip {
    pub hash: u32,
    pub name: String,
    pub plays: Plays,
    pub tags: Vec<Tag>,
    pub properties: Vec<Property>,
}

impl Clip {
    /// `name` as in the game, for example `pack:/walk.clip`; its hash is that of the short name.
    pub fn new(name: &str, plays: Plays) -> Clip {
        let file = name.rsplit(['/', '\\']).next().unwrap_or(name);
        let short = file.split('.').next().unwrap_or(file);
        Clip { hash: joaat(short), name: name.to_owned(), plays, tags: Vec::new(), properties: Vec::new() }
    }

    /// Plays all of `animation`.
    pub fn whole(name: &str, animation: &Animation) -> Clip {
        Clip::new(name, Plays::One(Part::whole(animation)))
    }
}

/// How the file is made, and what is wrong with it.
#[derive(Debug, Clone)]
pub struct Options {
    /// Only the unpacked segment, no header.
    pub headerless: bool,
    /// Bytes behind the deflate stream.
    pub trailing: Vec<u8>,
    /// Buckets of both maps; the game's numbers where `None`.
    pub buckets: Option<u16>,
    /// Resource version.
    pub version: u32,
    /// The smallest page is 0x200 << this.
    pub page_shift: u32,
    /// A chain of the clip map leads back to its first entry.
    pub cycle: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            headerless: false,
            trailing: Vec::new(),
            buckets: None,
            version: 46,
            page_shift: 4,
            cycle: false,
        }
    }
}

/// A dictionary.
#[derive(Debug, Clone, Default)]
pub struct Dictionary {
    pub clips: Vec<Clip>,
    pub animations: Vec<Animation>,
    pub options: Options,
}

impl Dictionary {
    /// The file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut segment = self.segment();
        if self.options.headerless {
            segment.resize(segment.len().next_multiple_of(0x2000), 0);
            return segment;
        }
        let (flags, size) = page_flags(segment.len() as u64, self.options.page_shift);
        segment.resize(size as usize, 0);
        let version = self.options.version;
        let mut file = b"RSC7".to_vec();
        // Both top nibbles repeat the version.
        for word in [version, flags | (version >> 4 & 15) << 28, (version & 15) << 28] {
            file.extend(word.to_le_bytes());
        }
        let mut deflate = DeflateEncoder::new(file, Compression::best());
        deflate.write_all(&segment).expect("into memory");
        let mut file = deflate.finish().expect("into memory");
        file.extend(&self.options.trailing);
        file
    }

    /// The unpacked system segment, not padded to pages.
    pub fn segment(&self) -> Vec<u8> {
        let mut s = Segment::default();
        let root = s.room(64);
        let page_map = s.room(16);
        s.u32(root + 4, 1);
        s.pointer(root + 8, page_map);

        let uses = |hash: u32| -> u32 {
            self.clips
                .iter()
                .map(|clip| match &clip.plays {
                    Plays::One(part) => u32::from(part.animation == hash),
                    Plays::List(parts, _) => parts.iter().filter(|p| p.animation == hash).count() as u32,
                })
                .sum()
        };
        let animations: Vec<(u32, usize)> =
            self.animations.iter().map(|a| (a.hash, s.animation(a, 1 + uses(a.hash)))).collect();
        let map = s.room(48);
        s.u32(map + 4, 1);
        let (buckets, count) = s.map(&animations, self.options.buckets, false);
        s.pointer(map + 0x18, buckets);
        s.u16(map + 0x20, count);
        s.u16(map + 0x22, animations.len() as u16);
        s.u32(map + 0x24, 0x0100_0000);
        s.u32(map + 0x28, 1);

        let clips: Vec<(u32, usize)> =
            self.clips.iter().map(|clip| (clip.hash, s.clip(clip, &animations))).collect();
        let (buckets, count) = s.map(&clips, self.options.buckets, self.options.cycle);
        s.pointer(root + 0x18, map);
        s.u32(root + 0x20, 0x101);
        s.pointer(root + 0x28, buckets);
        s.u16(root + 0x30, count);
        s.u16(root + 0x32, clips.len() as u16);
        s.u32(root + 0x34, 0x0100_0000);
        s.0
    }
}

/// Page flags of the least pages of at least `0x200 << shift` that hold `len`, and what they hold.
pub fn page_flags(len: u64, shift: u32) -> (u32, u64) {
    let base = 0x200u64 << shift;
    let mut units = len.div_ceil(base).max(1);
    let mut flags = shift;
    // Pages times base, first bit, most of them; the largest lie first.
    for (times, bit, most) in [
        (256, 4, 1),
        (128, 5, 3),
        (64, 7, 15),
        (32, 11, 63),
        (16, 17, 127),
        (8, 24, 1),
        (4, 25, 1),
        (2, 26, 1),
        (1, 27, 1u64),
    ] {
        let n = (units / times).min(most);
        flags |= (n as u32) << bit;
        units -= n * times;
    }
    assert_eq!(units, 0, "{len} bytes need larger pages");
    (flags, len.div_ceil(base).max(1) * base)
}

/// Bytes that grow, with pointers into themselves.
#[derive(Default)]
struct Segment(Vec<u8>);

impl Segment {
    /// `n` zero bytes at a multiple of 16.
    fn room(&mut self, n: usize) -> usize {
        let at = self.0.len().next_multiple_of(16);
        self.0.resize(at + n, 0);
        at
    }

    fn bytes(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn u16(&mut self, at: usize, v: u16) {
        self.bytes(at, &v.to_le_bytes());
    }

    fn u32(&mut self, at: usize, v: u32) {
        self.bytes(at, &v.to_le_bytes());
    }

    fn f32(&mut self, at: usize, v: f32) {
        self.bytes(at, &v.to_le_bytes());
    }

    fn pointer(&mut self, at: usize, to: usize) {
        self.bytes(at, &(0x5000_0000 + to as u64).to_le_bytes());
    }

    /// Pointers in a row.
    fn pointers(&mut self, to: &[usize]) -> usize {
        let at = self.room(8 * to.len());
        for (i, to) in to.iter().enumerate() {
            self.pointer(at + 8 * i, *to);
        }
        at
    }

    fn text(&mut self, text: &str) -> usize {
        let at = self.room(text.len() + 1);
        self.bytes(at, text.as_bytes());
        at
    }

    /// Buckets with chains of entries; where they are and how many.
    fn map(&mut self, entries: &[(u32, usize)], buckets: Option<u16>, cycle: bool) -> (usize, u16) {
        const SIZES: [u16; 17] =
            [11, 29, 59, 107, 191, 331, 563, 953, 1609, 2729, 4621, 7841, 13297, 22571, 38351, 65167, 65521];
        let count = buckets.unwrap_or_else(|| {
            *SIZES.iter().find(|n| usize::from(**n) > entries.len()).expect("fewer entries")
        });
        let at = self.room(8 * usize::from(count));
        let mut tails: Vec<Option<usize>> = vec![None; usize::from(count)];
        let mut first = None;
        for (hash, payload) in entries {
            let entry = self.room(32);
            self.u32(entry, *hash);
            self.pointer(entry + 8, *payload);
            let bucket = (hash % u32::from(count)) as usize;
            match tails[bucket] {
                Some(before) => self.pointer(before + 16, entry),
                None => self.pointer(at + 8 * bucket, entry),
            }
            tails[bucket] = Some(entry);
            first.get_or_insert((bucket, entry));
        }
        if let (true, Some((bucket, entry))) = (cycle, first) {
            let last = tails[bucket].expect("an entry is there");
            self.pointer(last + 16, entry);
        }
        (at, count)
    }

    fn animation(&mut self, a: &Animation, usage: u32) -> usize {
        let at = self.room(96);
        let blocks: Vec<Vec<u8>> = a.blocks().iter().map(|(first, count)| block(a, *first, *count)).collect();
        self.u32(at + 4, 1);
        self.bytes(at + 0x10, &[if a.has_mover() { 16 } else { 0 }, 1]);
        self.u16(at + 0x14, a.frames as u16);
        self.u16(at + 0x16, a.limit as u16);
        self.f32(at + 0x18, a.duration_s);
        self.u32(at + 0x1C, a.hash.rotate_left(7));
        self.u32(at + 0x38, blocks.iter().map(Vec::len).max().unwrap_or(0) as u32);
        self.u32(at + 0x3C, usage);
        let mut places = Vec::new();
        for block in &blocks {
            let place = self.room(block.len());
            self.bytes(place, block);
            places.push(place);
        }
        let list = self.pointers(&places);
        self.pointer(at + 0x40, list);
        self.u16(at + 0x48, places.len() as u16);
        self.u16(at + 0x4A, places.len() as u16);
        let ids = self.room(4 * a.tracks.len());
        for (i, t) in a.tracks.iter().enumerate() {
            self.u16(ids + 4 * i, t.bone);
            self.bytes(ids + 4 * i + 2, &[t.format as u8, t.number]);
        }
        self.pointer(at + 0x50, ids);
        self.u16(at + 0x58, a.tracks.len() as u16);
        self.u16(at + 0x5A, a.tracks.len() as u16);
        at
    }

    fn clip(&mut self, clip: &Clip, animations: &[(u32, usize)]) -> usize {
        // A part without its animation points at the root: something that is no animation.
        let place = |hash: u32| animations.iter().find(|(h, _)| *h == hash).map_or(0, |(_, at)| *at);
        let at = self.room(112);
        self.u32(at + 4, 1);
        let name = self.text(&clip.name);
        self.pointer(at + 0x18, name);
        self.u16(at + 0x20, clip.name.len() as u16);
        self.u16(at + 0x22, clip.name.len() as u16 + 1);
        self.pointer(at + 0x28, 0);
        self.u32(at + 0x48, 1);
        match &clip.plays {
            Plays::One(part) => {
                self.u32(at + 0x10, 1);
                self.pointer(at + 0x50, place(part.animation));
                self.f32(at + 0x58, part.start_s);
                self.f32(at + 0x5C, part.end_s);
                self.f32(at + 0x60, part.rate);
            }
            Plays::List(parts, duration_s) => {
                self.u32(at + 0x10, 2);
                let entries = self.room(24 * parts.len());
                for (i, part) in parts.iter().enumerate() {
                    let entry = entries + 24 * i;
                    self.f32(entry, part.start_s);
                    self.f32(entry + 4, part.end_s);
                    self.f32(entry + 8, part.rate);
                    self.pointer(entry + 16, place(part.animation));
                }
                self.pointer(at + 0x50, entries);
                self.u16(at + 0x58, parts.len() as u16);
                self.u16(at + 0x5A, parts.len() as u16);
                self.f32(at + 0x60, *duration_s);
                self.u32(at + 0x64, 1);
            }
        }
        if !clip.tags.is_empty() {
            let list = self.room(32);
            let mut places = Vec::new();
            for tag in &clip.tags {
                let place = self.room(80);
                self.property(place, &tag.property);
                self.f32(place + 0x40, tag.start_phase);
                self.f32(place + 0x44, tag.end_phase);
                self.pointer(place + 0x48, list);
                places.push(place);
            }
            let pointers = self.pointers(&places);
            self.pointer(list, pointers);
            self.u16(list + 8, places.len() as u16);
            self.u16(list + 10, places.len() as u16);
            self.u32(list + 16, u32::from(clip.tags.iter().any(|t| t.property.name == joaat("block"))));
            self.pointer(at + 0x38, list);
        }
        if !clip.properties.is_empty() {
            let mut entries = Vec::new();
            for property in &clip.properties {
                let place = self.room(64);
                self.property(place, property);
                entries.push((property.name, place));
            }
            let map = self.room(16);
            let (buckets, count) = self.map(&entries, None, false);
            self.pointer(map, buckets);
            self.u16(map + 8, count);
            self.u16(map + 10, entries.len() as u16);
            self.u32(map + 12, 0x0100_0000);
            self.pointer(at + 0x40, map);
        }
        at
    }

    fn property(&mut self, at: usize, property: &Property) {
        self.u32(at + 4, 1);
        self.u32(at + 0x18, property.name);
        self.u32(at + 0x38, property.name ^ 0x5A5A_5A5A);
        let mut places = Vec::new();
        for (name, value) in &property.attributes {
            let place = self.room(48);
            self.u32(place + 4, 1);
            self.u32(place + 0x18, *name);
            let kind = match value {
                Value::Float(v) => {
                    self.f32(place + 0x20, *v);
                    1
                }
                Value::Int(v) => {
                    self.bytes(place + 0x20, &v.to_le_bytes());
                    2
                }
                Value::Bool(v) => {
                    self.u32(place + 0x20, u32::from(*v));
                    3
                }
                Value::String(v) => {
                    let text = self.text(v);
                    self.pointer(place + 0x20, text);
                    self.u16(place + 0x28, v.len() as u16);
                    self.u16(place + 0x2A, v.len() as u16 + 1);
                    4
                }
                Value::Vector3(v) => {
                    for (i, v) in v.iter().enumerate() {
                        self.f32(place + 0x20 + 4 * i, *v);
                    }
                    6
                }
                Value::Vector4(v) => {
                    for (i, v) in v.iter().enumerate() {
                        self.f32(place + 0x20 + 4 * i, *v);
                    }
                    8
                }
                Value::HashString(v) => {
                    self.u32(place + 0x20, *v);
                    12
                }
                Value::Other(kind, bytes) => {
                    self.bytes(place + 0x20, bytes);
                    *kind
                }
            };
            self.bytes(place + 8, &[kind]);
            places.push(place);
        }
        let pointers = self.pointers(&places);
        self.pointer(at + 0x20, pointers);
        self.u16(at + 0x28, places.len() as u16);
        self.u16(at + 0x2A, places.len() as u16);
    }
}

/// Bits, least significant first.
#[derive(Default, Clone)]
struct Bits {
    bytes: Vec<u8>,
    len: usize,
}

impl Bits {
    fn push(&mut self, value: u32, width: u32) {
        for i in 0..width {
            if self.len.is_multiple_of(8) {
                self.bytes.push(0);
            }
            if value >> i & 1 == 1 {
                self.bytes[self.len / 8] |= 1 << (self.len % 8);
            }
            self.len += 1;
        }
    }

    fn zeros_then_one(&mut self, zeros: u32) {
        for _ in 0..zeros {
            self.push(0, 1);
        }
        self.push(1, 1);
    }

    fn append(&mut self, other: &Bits) {
        for i in 0..other.len {
            self.push(u32::from(other.bytes[i / 8] >> (i % 8) & 1), 1);
        }
    }

    /// Whole words of 32 bits.
    fn words(mut self) -> Vec<u8> {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self.bytes
    }
}

fn width_of(max: u32) -> u32 {
    32 - max.leading_zeros()
}

/// One block: header, parameters, frame records, channel lists, root-motion references.
fn block(a: &Animation, first: usize, frames: usize) -> Vec<u8> {
    struct Entry {
        track: u16,
        slot: u16,
        channel: Channel,
    }
    let mut by_kind: [Vec<Entry>; 9] = Default::default();
    for (i, track) in a.tracks.iter().enumerate() {
        for (c, channel) in track.channels.iter().enumerate() {
            by_kind[channel.kind()].push(Entry {
                track: i as u16,
                slot: track.slot(c),
                channel: channel.slice(first, frames),
            });
        }
    }
    let mut params: Vec<u8> = Vec::new();
    // Per frame-bit channel: width and the value of each frame.
    let mut fields: Vec<(u32, Vec<u32>)> = Vec::new();
    let mut frame_bits = 0u32;
    let (mut indirect_sum, mut quantised_sum) = (0u32, 0u32);
    // (mover number, kind, slot, parameter offset / 4, frame bit)
    let mut refs: Vec<(u8, u8, u8, u16, u16)> = Vec::new();
    for (kind, entries) in by_kind.iter().enumerate() {
        for entry in entries {
            let number = a.tracks[usize::from(entry.track)].number;
            if number == 5 || number == 6 {
                refs.push((
                    number,
                    kind as u8,
                    entry.slot as u8,
                    (params.len() / 4) as u16,
                    frame_bits as u16,
                ));
            }
            let mut float = |v: &f32| params.extend(v.to_le_bytes());
            match &entry.channel {
                Channel::StaticQuaternion(v) | Channel::StaticVector3(v) => v.iter().for_each(&mut float),
                Channel::StaticFloat(v) => float(v),
                Channel::Raw(v) => {
                    fields.push((32, v.iter().map(|v| v.to_bits()).collect()));
                    frame_bits += 32;
                }
                Channel::Quantised { n, quantum, offset } => {
                    let width = width_of(n.iter().copied().max().unwrap_or(0)).max(1);
                    params.extend(width.to_le_bytes());
                    params.extend(quantum.to_le_bytes());
                    params.extend(offset.to_le_bytes());
                    fields.push((width, n.clone()));
                    frame_bits += width;
                    quantised_sum += width;
                }
                Channel::Indirect { n, quantum, offset } => {
                    let mut table = n.clone();
                    table.sort_unstable();
                    table.dedup();
                    // The index of all ones never occurs in the game's files.
                    let index_bits = width_of(table.len() as u32).max(1);
                    let value_bits = width_of(table.iter().copied().max().unwrap_or(0)).max(1);
                    let mut bits = Bits::default();
                    table.iter().for_each(|v| bits.push(*v, value_bits));
                    let words = bits.words();
                    for word in [index_bits, value_bits, (words.len() / 4) as u32] {
                        params.extend(word.to_le_bytes());
                    }
                    params.extend(quantum.to_le_bytes());
                    params.extend(offset.to_le_bytes());
                    params.extend(&words);
                    let index = |v: &u32| table.binary_search(v).expect("in the table") as u32;
                    fields.push((index_bits, n.iter().map(index).collect()));
                    frame_bits += index_bits;
                    indirect_sum += 5 + (words.len() / 4) as u32;
                }
                Channel::Linear { n, quantum, offset } => {
                    params.extend(linear(n, *quantum, *offset, usize::from(a.chunk), a.spare_delta));
                }
                Channel::Cached1(_) | Channel::Cached2 => {}
            }
        }
    }
    let mut data = params;
    let frame_offset = data.len();
    let record = 4 * (frame_bits as usize).div_ceil(32);
    for f in 0..frames {
        let mut bits = Bits::default();
        for (width, values) in &fields {
            bits.push(values[f], *width);
        }
        let mut bytes = bits.bytes;
        bytes.resize(record, 0);
        data.extend(bytes);
    }
    for entries in &by_kind {
        data.extend((entries.len() as u16).to_le_bytes());
    }
    for entries in &by_kind {
        for entry in entries {
            data.extend((entry.track << 2 | entry.slot & 3).to_le_bytes());
        }
        for _ in entries.len()..entries.len().next_multiple_of(4) {
            data.extend(((a.tracks.len() as u16) << 2).to_le_bytes());
        }
    }
    refs.sort_by_key(|r| r.0);
    let count = |number: u8| refs.iter().filter(|r| r.0 == number).count();
    // Over 15 the nibbles wrap, as tools write it, and the offset of the references is reckoned from them.
    let counts = ((count(5) << 4 | count(6)) & 0xFF) as u8;
    for (_, kind, slot, param, bit) in &refs {
        data.extend([*kind, *slot]);
        data.extend(param.to_le_bytes());
        data.extend(bit.to_le_bytes());
    }
    let counted = usize::from(counts >> 4) + usize::from(counts & 15);
    let refs_offset = 32 + data.len() - 6 * counted;

    let mut out = Vec::with_capacity(32 + data.len());
    let word = |out: &mut Vec<u8>, v: u32| out.extend(v.to_le_bytes());
    let half = |out: &mut Vec<u8>, v: usize| out.extend((v as u16).to_le_bytes());
    word(&mut out, a.hash.rotate_left(7));
    word(&mut out, data.len() as u32);
    word(&mut out, 0);
    word(&mut out, frame_offset as u32);
    word(&mut out, refs_offset as u32);
    half(&mut out, 0);
    half(&mut out, frames);
    half(&mut out, record);
    half(&mut out, indirect_sum as usize);
    half(&mut out, quantised_sum as usize);
    out.push(if by_kind[6].is_empty() { 255 } else { a.chunk });
    out.push(counts);
    out.extend(data);
    out
}

/// A linear channel: how many words, widths, quantum, offset, then offsets, starts and deltas.
fn linear(n: &[i32], quantum: f32, offset: f32, chunk: usize, spare_delta: bool) -> Vec<u8> {
    // The changes of the increment, for each chunk.
    let steps: Vec<Vec<i32>> = n
        .chunks(chunk)
        .map(|values| {
            let mut increment = 0i32;
            let mut steps: Vec<i32> = values
                .windows(2)
                .map(|pair| {
                    let next = pair[1].wrapping_sub(pair[0]);
                    let step = next.wrapping_sub(increment);
                    increment = next;
                    step
                })
                .collect();
            if values.len() < chunk && spare_delta {
                steps.push(0);
            }
            steps
        })
        .collect();
    let encode = |low: u32| {
        let mut deltas = Bits::default();
        let mut offsets = Vec::new();
        for steps in &steps {
            offsets.push(deltas.len as u32);
            for step in steps {
                let size = step.unsigned_abs();
                deltas.push(size & ((1u32 << low) - 1), low);
                deltas.zeros_then_one(size >> low);
                if size != 0 {
                    deltas.push(u32::from(*step < 0), 1);
                }
            }
        }
        (deltas, offsets)
    };
    // A width of low bits that keeps the unary part short enough to be written at all.
    let largest = steps.iter().flatten().map(|s| s.unsigned_abs()).max().unwrap_or(0);
    let least = width_of(largest).saturating_sub(8);
    let (low, (deltas, offsets)) = (least..=width_of(largest).min(31))
        .map(|low| (low, encode(low)))
        .min_by_key(|(_, (deltas, _))| deltas.len)
        .expect("one width");
    let starts: Vec<u32> = n.chunks(chunk).map(|c| c[0] as u32).collect();
    let offset_bits = width_of(offsets.iter().copied().max().unwrap_or(0));
    let start_bits = width_of(starts.iter().copied().max().unwrap_or(0));
    let mut bits = Bits::default();
    offsets.iter().for_each(|v| bits.push(*v, offset_bits));
    starts.iter().for_each(|v| bits.push(*v, start_bits));
    bits.append(&deltas);
    let stream = bits.words();
    let mut out = Vec::new();
    out.extend((4 + stream.len() as u32 / 4).to_le_bytes());
    out.extend([offset_bits as u8, start_bits as u8, low as u8, 0]);
    out.extend(quantum.to_le_bytes());
    out.extend(offset.to_le_bytes());
    out.extend(stream);
    out
}

/// The same sequence of numbers everywhere: xorshift64*.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn draw(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// 0 to below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        ((self.draw() >> 33) % n as u64) as usize
    }

    /// -1 to 1.
    pub fn float(&mut self) -> f32 {
        (self.draw() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
}

/// A component with all values in `-amplitude..amplitude`, stored as `kind` (2 to 6).
pub fn random_component(random: &mut Random, kind: usize, frames: usize, amplitude: f32) -> Channel {
    let steps = 1 << (1 + random.below(12));
    let quantum = 2.0 * amplitude / steps as f32;
    let offset = -amplitude;
    match kind {
        2 => Channel::StaticFloat(random.float() * amplitude),
        3 => Channel::Raw((0..frames).map(|_| random.float() * amplitude).collect()),
        4 => Channel::Quantised {
            n: (0..frames).map(|_| random.below(steps + 1) as u32).collect(),
            quantum,
            offset,
        },
        5 => {
            let few: Vec<u32> = (0..1 + random.below(9)).map(|_| random.below(steps + 1) as u32).collect();
            let n = (0..frames).map(|_| few[random.below(few.len())]).collect();
            Channel::Indirect { n, quantum, offset }
        }
        _ => {
            // A walk within the range, with a leap here and there.
            let mut at = random.below(steps + 1) as i32;
            let n = (0..frames)
                .map(|_| {
                    at = match random.below(20) {
                        0 => random.below(steps + 1) as i32,
                        n => (at + n as i32 % 5 - 2).clamp(0, steps as i32),
                    };
                    at
                })
                .collect();
            Channel::Linear { n, quantum, offset }
        }
    }
}

/// A track of any coding that its format has.
pub fn random_track(random: &mut Random, bone: u16, number: u8, format: Format, frames: usize) -> Track {
    let kind = |random: &mut Random| 2 + random.below(5);
    let channels = match format {
        Format::Float => {
            let kind = kind(random);
            vec![random_component(random, kind, frames, 10.0)]
        }
        Format::Vector3 if random.below(4) == 0 => {
            vec![Channel::StaticVector3([random.float(), random.float(), random.float()])]
        }
        Format::Vector3 => (0..3)
            .map(|_| {
                let kind = kind(random);
                random_component(random, kind, frames, 2.0)
            })
            .collect(),
        Format::Quaternion => match random.below(4) {
            0 => vec![Channel::StaticQuaternion([0.5; 3].map(|a| a * random.float()))],
            1 => {
                // Never all near zero: the last component is at least a half.
                let mut channels: Vec<Channel> = (0..3)
                    .map(|_| {
                        let kind = kind(random);
                        random_component(random, kind, frames, 0.9)
                    })
                    .collect();
                let n = (0..frames).map(|_| random.below(200) as u32).collect();
                channels.push(Channel::Quantised { n, quantum: 0.0025, offset: 0.5 });
                if random.below(2) == 0 {
                    channels.push(Channel::Cached2);
                }
                channels
            }
            _ => {
                let mut channels: Vec<Channel> = (0..3)
                    .map(|_| {
                        let kind = kind(random);
                        random_component(random, kind, frames, 0.56)
                    })
                    .collect();
                channels.push(Channel::Cached1(random.below(4) as u8));
                channels
            }
        },
    };
    Track::new(bone, number, format, channels)
}
