//! Inputs as large as whole games, so that speed and memory can be measured without them. The same arguments give the
//! same bytes.

use std::fs::{self, File};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

use crate::anvil_clip::{self as clips, BoneSpec, ClipSpec, Keys, TrackSpec};
use crate::anvil_container::{self as containers, Container, Entry, Forge, Listed, Pack, crc32};
use crate::ycd_writer as ycd;

/// SplitMix64: the same numbers everywhere.
struct Random(u64);

impl Random {
    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.draw() % n.max(1)
    }

    /// -1 to 1.
    fn signed(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

/// `total` cut into `parts` of between a half and twice the mean, to the last one exactly.
fn shares(total: u64, parts: u64, random: &mut Random) -> Vec<u64> {
    let weights: Vec<u64> = (0..parts).map(|_| 500 + random.below(1001)).collect();
    let sum: u64 = weights.iter().sum();
    let (mut seen, mut given) = (0u64, 0u64);
    weights
        .iter()
        .map(|w| {
            seen += w;
            let up_to = (total as u128 * seen as u128 / sum.max(1) as u128) as u64;
            let share = up_to - given;
            given = up_to;
            share
        })
        .collect()
}

fn unit(q: [f64; 4]) -> [f64; 4] {
    // Square root and division alone: the same bits on every machine, as sines are not.
    let n = q.iter().map(|v| v * v).sum::<f64>().sqrt();
    q.map(|v| v / n)
}

fn bones() -> Vec<BoneSpec> {
    let mut random = Random(1);
    let table = include_str!("../../src/games/anvil/data/bone_names.tsv");
    let crcs = table.lines().filter_map(|line| u32::from_str_radix(line.split('\t').next()?, 16).ok());
    crcs.enumerate()
        .map(|(i, crc)| BoneSpec {
            crc,
            parent: (i > 0).then(|| (i - 1) / 3),
            position: [random.signed() * 0.2, random.signed() * 0.2, random.signed() * 0.2],
            rotation: unit([random.signed(), random.signed(), random.signed(), 1.5]),
        })
        .collect()
}

/// Rotations that swing about `rest`, as motion does: neighbours are near, none are equal.
fn swing(rest: [f64; 4], n: usize, random: &mut Random) -> Keys {
    let to = [random.signed(), random.signed(), random.signed(), random.signed()];
    let period = 8.0 + random.below(40) as f64;
    Keys::Quat(
        (0..n)
            .map(|k| {
                let phase = (k as f64 / period).fract();
                let s = 4.0 * phase * (1.0 - phase) * 0.6;
                let noise = random.signed() * 2e-4;
                unit([0, 1, 2, 3].map(|i| rest[i] + s * to[i] + noise * (i as f64 - 1.5)))
            })
            .collect(),
    )
}

/// A track of `n` keys over `frames` of 1/30 s.
fn track(bone: &BoneSpec, translation: bool, n: usize, frames: usize, random: &mut Random) -> TrackSpec {
    let n = n.clamp(1, frames);
    // Rising frames from 0 on; the last key of a moving track is the clip's last frame.
    let frame = |k: usize| if n == 1 { 0 } else { (k * (frames - 1) / (n - 1)) as u32 };
    let in_mask = frames <= 64 && random.below(2) == 0;
    let form = if in_mask {
        2
    } else if 2 * (frames - 1) <= 255 {
        0
    } else {
        1
    };
    let ticks = if in_mask { 1 } else { 2 };
    let times = (0..n).map(|k| frame(k) * ticks).collect();
    let (kind, keys) = if translation {
        let drift = [random.signed() * 0.01, random.signed() * 0.01, random.signed() * 0.01];
        let keys = (0..n)
            .map(|k| {
                [0, 1, 2].map(|i| bone.position[i] + drift[i] * (k % 40) as f64 + random.signed() * 1e-4)
            })
            .collect();
        (9, Keys::Vec3(keys))
    } else {
        let kind = match random.below(20) {
            0 => 8,
            1 | 2 => 3,
            3..=5 => 5,
            _ => 4,
        };
        (kind, swing(bone.rotation, n, random))
    };
    TrackSpec { crc: bone.crc, kind, form, times, keys }
}

/// A clip of exactly `tracks` tracks and `keys` keys (where that is at least one a track).
fn clip(tracks: u64, keys: u64, bones: &[BoneSpec], random: &mut Random) -> ClipSpec {
    let tracks = (tracks as usize).clamp(1, 2 * bones.len());
    let mut left = (keys as usize).max(tracks);
    // Half of the tracks hold still with one or two keys, the others share the rest evenly.
    let counts: Vec<usize> = (0..tracks)
        .map(|i| {
            let after = tracks - 1 - i;
            let moving_after = after / 2;
            let n = if i % 2 == 0 && after > 0 {
                1 + random.below(2) as usize
            } else {
                (left.saturating_sub(after - moving_after)) / (moving_after + 1)
            };
            let n = n.clamp(1, left - after);
            left -= n;
            n
        })
        .collect();
    let most = counts.iter().max().map_or(1, |&n| n);
    let frames = (most + random.below(most as u64) as usize).clamp(2, 30_000);
    // The first bones have a translation before their rotation; tracks stand in the order of their bones.
    let with_translation = tracks.saturating_sub(bones.len()).max(tracks / 8);
    let mut specs: Vec<TrackSpec> = Vec::with_capacity(tracks);
    let mut counts = counts.into_iter();
    for (i, bone) in bones.iter().enumerate() {
        if i < with_translation
            && let Some(n) = counts.next()
        {
            specs.push(track(bone, true, n, frames, random));
        }
        let Some(n) = counts.next() else { break };
        specs.push(track(bone, false, n, frames, random));
    }
    let event = [&[0u8][..], &random.draw().to_le_bytes(), &0x4168_2213u32.to_le_bytes(), &[0; 24]].concat();
    let events = if random.below(9087) < 1923 { 1 + random.below(4) as u32 } else { 0 };
    ClipSpec {
        length_s: (frames - 1) as f32 / 30.0,
        flags: [0, 0, 0, (random.below(9087) < 390) as u8],
        event_count: events,
        events: event.repeat(events as usize),
        ecl: (random.below(9087) < 4053).then(|| [vec![1; 4], vec![2; 8], vec![3; 4], vec![4; 3]]),
        tracks: specs,
        ..ClipSpec::default()
    }
}

/// What an archive was written with.
#[derive(Debug, Clone, Copy, Default)]
pub struct Written {
    pub clips: u64,
    pub tracks: u64,
    pub keys: u64,
    /// Bytes of Animation objects, unpacked.
    pub objects: u64,
    /// Bytes of the file.
    pub size: u64,
}

/// An archive that is written entry by entry: the index comes first but is known last, so its place is left free.
struct ForgeWriter {
    forge: Forge,
    out: BufWriter<File>,
    listed: Vec<Listed>,
    size: u64,
}

impl ForgeWriter {
    /// With room for `entries` entries.
    fn create(path: &Path, version: u32, entries: usize) -> io::Result<Self> {
        let forge = Forge::of(version);
        let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
        let size = forge.head_len(entries) as u64;
        out.seek(SeekFrom::Start(size))?;
        Ok(ForgeWriter { forge, out, listed: Vec::with_capacity(entries), size })
    }

    fn add(&mut self, id: u64, name: &str, class: &str, payload: &[u8]) -> io::Result<()> {
        let class = if class.is_empty() { 0 } else { crc32(class.as_bytes()) };
        self.listed.push(Listed { id, name: name.to_owned(), class, size: payload.len() as u32 });
        self.size += payload.len() as u64;
        self.out.write_all(payload)
    }

    fn finish(mut self) -> io::Result<u64> {
        let size = self.size.next_multiple_of(0x8000);
        self.out.write_all(&vec![0; (size - self.size) as usize])?;
        self.out.seek(SeekFrom::Start(0))?;
        self.out.write_all(&self.forge.head(&self.listed))?;
        self.out.flush()?;
        Ok(size)
    }
}

fn container(algorithm: u8, pack: Pack) -> Container {
    Container { version: 2, size_width: 4, block: 0x40000, ..Container::of(27, algorithm, pack) }
}

const SKELETON: u64 = 0x5_0000_0000;

fn skeleton_payload(container: &Container, bones: &[BoneSpec]) -> Vec<u8> {
    let body = clips::skeleton64(bones, bones.len() as u32, 0);
    let object = containers::object64("Skeleton", SKELETON, "Bench_Skeleton", None, &body);
    containers::pair64(container, &[(SKELETON, object)])
}

/// Riders Republic (forge version 27): one clip an entry. 9,087 clips and 25,241,022 keys are what the game has.
pub fn rr_forge(path: &Path, clips: u64, keys: u64, algorithm: u8, pack: Pack) -> io::Result<Written> {
    let container = container(algorithm, pack);
    let mut random = Random(7);
    let bones = bones();
    let tracks = (clips as u128 * 1_396_592 / 9087) as u64;
    let tracks = shares(tracks.min(keys), clips, &mut random);
    let keys = shares(keys, clips, &mut random);
    let mut forge = ForgeWriter::create(path, 27, clips as usize + 3)?;
    forge.add(0x10, "GlobalMetaFile", "", &[7; 64])?;
    forge.add(SKELETON, "Bench_Skeleton", "Skeleton", &skeleton_payload(&container, &bones))?;
    let mut written = Written { clips, ..Written::default() };
    for (i, (&tracks, &keys)) in tracks.iter().zip(&keys).enumerate() {
        let spec = clip(tracks, keys, &bones, &mut random);
        written.tracks += spec.tracks.len() as u64;
        written.keys += spec.tracks.iter().map(|t| t.keys.len() as u64).sum::<u64>();
        let id = 0x10_0000_0000 + i as u64 * 0x1_0001;
        let name = format!("Bench_{i:05}");
        let rows = Some(random.below(3) as u32);
        let object = containers::object64("Animation", id, &name, rows, &clips::rr_body(&spec));
        written.objects += object.len() as u64;
        forge.add(id, &name, "Animation", &containers::pair64(&container, &[(id, object)]))?;
    }
    forge.add(0x91, "PrefetchingFileInfos", "", &[9; 64])?;
    written.size = forge.finish()?;
    Ok(written)
}

/// An archive of `size` bytes, stored, as an install could hold it: a quarter are Animations of `keys` keys each, of
/// another quarter each repeats one of them under another entry, half is something else.
pub fn large_forge(path: &Path, size: u64, keys: u64) -> io::Result<Written> {
    let container = container(0, Pack::Stored);
    let mut random = Random(11);
    let bones = bones();
    // Some clips, of which all others are made by another id and other bytes in an array that stands in the extras.
    let mut bodies: Vec<(Vec<u8>, u64, u64)> = (0..16)
        .map(|_| {
            let mut spec = clip(150, keys, &bones, &mut random);
            spec.buffer = vec![0x5A; 16];
            let tracks = spec.tracks.len() as u64;
            let keys = spec.tracks.iter().map(|t| t.keys.len() as u64).sum();
            (clips::rr_body(&spec), tracks, keys)
        })
        .collect();
    let marks: Vec<usize> = bodies
        .iter()
        .map(|(body, ..)| body.windows(16).position(|w| w == [0x5A; 16]).expect("the array"))
        .collect();
    let one = bodies.iter().map(|b| b.0.len() as u64).sum::<u64>() / bodies.len() as u64;
    let clips = size / 4 / one;
    let other: Vec<u8> = (0..one / 8).flat_map(|_| random.draw().to_le_bytes()).collect();
    let mut forge = ForgeWriter::create(path, 27, 4 * clips as usize + 3)?;
    forge.add(0x10, "GlobalMetaFile", "", &[7; 64])?;
    forge.add(SKELETON, "Bench_Skeleton", "Skeleton", &skeleton_payload(&container, &bones))?;
    let mut written = Written { clips, ..Written::default() };
    for i in 0..clips {
        let k = (i % bodies.len() as u64) as usize;
        let (body, tracks, keys) = &mut bodies[k];
        body[marks[k]..marks[k] + 8].copy_from_slice(&i.to_le_bytes());
        (written.tracks, written.keys) = (written.tracks + *tracks, written.keys + *keys);
        let id = 0x10_0000_0000 + i;
        let name = format!("Large_{i:06}");
        let object = containers::object64("Animation", id, &name, Some(1), body);
        written.objects += object.len() as u64;
        let payload = containers::pair64(&container, &[(id, object)]);
        forge.add(id, &name, "Animation", &payload)?;
        forge.add(0x20_0000_0000 + i, &format!("Group_{i:06}"), "AnimationGroup", &payload)?;
        for half in 0..2u64 {
            let id = 0x30_0000_0000 + 2 * i + half;
            let object = containers::object64("Unknown", id, &name, None, &other);
            forge.add(
                id,
                &format!("Other_{id:X}"),
                "Unknown",
                &containers::pair64(&container, &[(id, object)]),
            )?;
        }
    }
    forge.add(0x91, "PrefetchingFileInfos", "", &[9; 64])?;
    written.size = forge.finish()?;
    Ok(written)
}

/// Shaun White Skateboarding (forge version 25, LZO1X): cells of a level that repeat their clips. 80,466 objects of
/// which 2,708 differ, in 1,624 cells with 82 tracks each, are what the game has.
pub fn sws_forge(path: &Path, objects: u64, distinct: u64, cells: u64) -> io::Result<Written> {
    let container = Container::of(25, 1, Pack::Lzo1x);
    let mut random = Random(13);
    let bones: Vec<BoneSpec> = bones().into_iter().take(60).collect();
    let mut written = Written { clips: objects, ..Written::default() };
    let mut kinds = Vec::new();
    for i in 0..distinct {
        let id = 0x0040_0000 + i as u32;
        let keys = 82 + random.below(900);
        let spec = ClipSpec { id: id.into(), ..sws_clip(82, keys, &bones, &mut random) };
        let body = clips::sws_body(&spec);
        let name = format!("Skate_{i:04}");
        // Its declared size does not count the table that opens it (seed).
        let mut object = crc32(b"Animation").to_le_bytes().to_vec();
        object.extend(((body.len() - 7 - 12 * spec.rows.len()) as u32).to_le_bytes());
        object.extend((name.len() as u32).to_le_bytes());
        object.extend(name.as_bytes());
        object.push(1);
        object.extend(&body);
        let keys: u64 = spec.tracks.iter().map(|t| t.keys.len() as u64).sum();
        kinds.push((u64::from(id), object, spec.tracks.len() as u64, keys));
    }
    let mut forge = ForgeWriter::create(path, 25, cells as usize)?;
    let mut next = 0;
    for (cell, count) in shares(objects, cells, &mut random).into_iter().enumerate() {
        let list: Vec<(u64, Vec<u8>)> = (0..count)
            .map(|_| {
                // Every clip once, then any.
                let k = if next < distinct { next } else { random.below(distinct) };
                next += 1;
                let (id, object, tracks, keys) = &kinds[k as usize];
                written.tracks += tracks;
                written.keys += keys;
                written.objects += object.len() as u64;
                (*id, object.clone())
            })
            .collect();
        let id = 0x0100_0000 + cell as u64;
        let payload = containers::pair32(&container, &list);
        // The header that this generation has before each payload.
        let entry = Entry {
            id,
            name: format!("Level_{cell:04}_DataBlock"),
            class: crc32(b"GridCellDataBlock"),
            payload,
        };
        let payload = forge.forge.payload(&entry);
        forge.add(id, &entry.name, "GridCellDataBlock", &payload)?;
    }
    written.size = forge.finish()?;
    Ok(written)
}

/// As [`clip`], in the kinds of the older game: times in ticks, rotations of kind 4, translations of kind 9.
fn sws_clip(tracks: u64, keys: u64, bones: &[BoneSpec], random: &mut Random) -> ClipSpec {
    let mut spec = clip(tracks, keys, bones, random);
    for track in &mut spec.tracks {
        if track.form == 2 {
            track.times.iter_mut().for_each(|t| *t *= 2);
        }
        track.kind = if matches!(track.keys, Keys::Vec3(_)) { 9 } else { 4 };
        track.form = u8::from(track.times.last().is_some_and(|t| *t > 255));
    }
    ClipSpec {
        length_s: spec.length_s,
        rows: vec![[0; 12]],
        layout: 7,
        second_layout: 7,
        tracks: std::mem::take(&mut spec.tracks),
        ..ClipSpec::default()
    }
}

/// A component as bodies move: most stand still or swing, coded as the game codes them.
fn swinging_component(random: &mut ycd::Random, frames: usize, amplitude: f32) -> ycd::Channel {
    const STEPS: f64 = 2000.0;
    let period = 12.0 + random.below(60) as f64;
    let phase = random.below(1000) as f64 / 1000.0;
    let reach = 0.1 + 0.4 * random.below(1000) as f64 / 1000.0;
    let at = |frame: usize| {
        (STEPS * (0.5 + reach * libm::sin(std::f64::consts::TAU * (frame as f64 / period + phase)))) as u32
    };
    let (quantum, offset) = (2.0 * amplitude / STEPS as f32, -amplitude);
    match random.below(6) {
        0 | 1 => ycd::Channel::StaticFloat(random.float() * amplitude),
        2 => ycd::Channel::Linear { n: (0..frames).map(|f| at(f) as i32).collect(), quantum, offset },
        _ => ycd::Channel::Quantised { n: (0..frames).map(at).collect(), quantum, offset },
    }
}

/// GTA V: dictionaries with ped animations. 25,961 with 267,536 animations are what the game has.
pub fn dictionaries(folder: &Path, dictionaries: u64, animations: u64) -> io::Result<Written> {
    fs::create_dir_all(folder)?;
    let mut random = ycd::Random::new(17);
    let bones = [
        0u16, 11816, 57597, 23553, 24816, 24817, 24818, 39317, 31086, 10706, 64729, 45509, 40269, 61163,
        28252, 18905, 57005, 58271, 63931, 14201, 51826, 36864, 52301, 65245, 35502, 2108, 20781,
    ];
    let mut written = Written::default();
    for i in 0..dictionaries {
        let mut list = Vec::new();
        // As many as make the sum right, some dictionaries with many more than others.
        let end = animations * (i + 1) / dictionaries;
        while written.clips < end {
            let longest = if random.below(8) == 0 { 300 } else { 90 };
            let frames = 8 + random.below(longest);
            let tracks: Vec<ycd::Track> = bones
                .iter()
                .map(|&bone| {
                    let mut swing = |amplitude| swinging_component(&mut random, frames, amplitude);
                    let mut channels = vec![swing(0.3), swing(0.3), swing(0.3)];
                    if bone == 0 {
                        return ycd::Track::new(bone, 0, ycd::Format::Vector3, channels);
                    }
                    channels.push(ycd::Channel::Cached1(3));
                    ycd::Track::new(bone, 1, ycd::Format::Quaternion, channels)
                })
                .collect();
            written.tracks += tracks.len() as u64;
            written.keys += (tracks.len() * frames) as u64;
            list.push(ycd::Animation::new(&format!("bench_{}", written.clips), frames, tracks));
            written.clips += 1;
        }
        let clips = list
            .iter()
            .enumerate()
            .map(|(k, animation)| ycd::Clip::whole(&format!("pack:/bench_{k}.clip"), animation))
            .collect();
        let bytes = ycd::Dictionary { clips, animations: list, ..Default::default() }.to_bytes();
        written.size += bytes.len() as u64;
        fs::write(folder.join(format!("bench_{i:05}.ycd")), bytes)?;
    }
    Ok(written)
}
