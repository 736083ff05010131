//! Writes an archive as large as Riders Republic's animation data, so that reading can be measured without the game:
//! 9,087 clips, 1,396,592 tracks and 25,241,022 keys by default. The same arguments give the same bytes.
//!
//!     cargo run --release --example make_forge -- OUT [--clips N] [--keys N] [--codec zstd|lz4|stored]

#[path = "../tests/support/anvil_clip.rs"]
mod clips;
#[path = "../tests/support/anvil_container.rs"]
mod containers;

use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::time::Instant;

use clap::{Parser, ValueEnum};
use clips::{BoneSpec, ClipSpec, Keys, TrackSpec};
use containers::{Container, Forge, Listed, Pack};

/// Write a forge (version 27) of Riders Republic clips.
#[derive(Parser)]
struct Arguments {
    /// The archive to write.
    out: PathBuf,
    /// Number of Animations.
    #[arg(long, default_value_t = 9087)]
    clips: u64,
    /// Number of keys in all of them.
    #[arg(long, default_value_t = 25_241_022)]
    keys: u64,
    /// Codec of the containers.
    #[arg(long, value_enum, default_value = "zstd")]
    codec: Codec,
}

#[derive(Clone, Copy, ValueEnum)]
enum Codec {
    Zstd,
    Lz4,
    Stored,
}

/// SplitMix64: the same numbers everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    /// -1 to 1.
    fn signed(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
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
    let table = include_str!("../src/names/data/anvil_bone_names.tsv");
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
    let event = [&[0u8][..], &random.next().to_le_bytes(), &0x4168_2213u32.to_le_bytes(), &[0; 24]].concat();
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

fn main() -> std::io::Result<()> {
    let arguments = Arguments::parse();
    let start = Instant::now();
    let (algorithm, pack) = match arguments.codec {
        Codec::Zstd => (3, Pack::Zstd),
        Codec::Lz4 => (4, Pack::Lz4),
        Codec::Stored => (0, Pack::Stored),
    };
    let mut container = Container::of(27, algorithm, pack);
    (container.version, container.size_width, container.block) = (2, 4, 0x40000);

    let mut random = Random(7);
    let bones = bones();
    let tracks = (arguments.clips as u128 * 1_396_592 / 9087) as u64;
    let tracks = shares(tracks.min(arguments.keys), arguments.clips, &mut random);
    let keys = shares(arguments.keys, arguments.clips, &mut random);

    let forge = Forge::of(27);
    let count = arguments.clips as usize + 3;
    let mut out = BufWriter::with_capacity(1 << 20, File::create(&arguments.out)?);
    // The index comes first but is known last: its place is left free and filled at the end.
    out.seek(SeekFrom::Start(forge.head_len(count) as u64))?;
    let mut listed = Vec::with_capacity(count);
    let mut size = forge.head_len(count) as u64;
    let mut add = |out: &mut BufWriter<File>, id: u64, name: String, class: &str, payload: &[u8]| {
        let class = if class.is_empty() { 0 } else { containers::crc32(class.as_bytes()) };
        listed.push(Listed { id, name, class, size: payload.len() as u32 });
        size += payload.len() as u64;
        out.write_all(payload)
    };
    add(&mut out, 0x10, "GlobalMetaFile".into(), "", &[7; 64])?;
    let skeleton = clips::skeleton64(&bones, bones.len() as u32, 0);
    let id = 0x5_0000_0000;
    let object = containers::object64("Skeleton", id, "Bench_Skeleton", None, &skeleton);
    add(&mut out, id, "Bench_Skeleton".into(), "Skeleton", &containers::pair64(&container, &[(id, object)]))?;
    let (mut track_total, mut key_total, mut bytes) = (0u64, 0u64, 0u64);
    for (i, (&tracks, &keys)) in tracks.iter().zip(&keys).enumerate() {
        let spec = clip(tracks, keys, &bones, &mut random);
        track_total += spec.tracks.len() as u64;
        key_total += spec.tracks.iter().map(|t| t.keys.len() as u64).sum::<u64>();
        let id = 0x10_0000_0000 + i as u64 * 0x1_0001;
        let name = format!("Bench_{i:05}");
        let object = containers::object64(
            "Animation",
            id,
            &name,
            Some(random.below(3) as u32),
            &clips::rr_body(&spec),
        );
        bytes += object.len() as u64;
        add(&mut out, id, name, "Animation", &containers::pair64(&container, &[(id, object)]))?;
    }
    add(&mut out, 0x91, "PrefetchingFileInfos".into(), "", &[9; 64])?;
    out.write_all(&vec![0; (size.next_multiple_of(0x8000) - size) as usize])?;
    out.seek(SeekFrom::Start(0))?;
    out.write_all(&forge.head(&listed))?;
    out.flush()?;
    println!(
        "{}: {} clips, {track_total} tracks, {key_total} keys, {:.1} MB of objects in {:.1} MB, {:.1} s",
        arguments.out.display(),
        arguments.clips,
        bytes as f64 / 1e6,
        size.next_multiple_of(0x8000) as f64 / 1e6,
        start.elapsed().as_secs_f64()
    );
    Ok(())
}
