//! How fast payloads are unpacked, beside the codec alone on the same blocks, on one core.
//! `cargo bench --bench unpack_anvil`; with an archive as argument (as `make_forge` writes it) that archive as well:
//! unpacking, then unpacking and decoding every Animation.

#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use anim2gltf::games::anvil::animation::riders_republic as rr;
use anim2gltf::games::anvil::container::codec::{Codec, Decoders};
use anim2gltf::games::anvil::container::data::{DataOptions, Unpacker};
use anim2gltf::games::anvil::container::file as anvil;
use anim2gltf::games::anvil::container::file::{Options, Scratch};
use anim2gltf::games::anvil::container::object::class;
use anim2gltf_testkit::anvil_container::{Container, Pack};

/// The best of the passes within a second.
fn best(mut pass: impl FnMut()) -> Duration {
    pass();
    let begin = Instant::now();
    let mut best = Duration::MAX;
    while begin.elapsed() < Duration::from_secs(1) {
        let start = Instant::now();
        pass();
        best = best.min(start.elapsed());
    }
    best
}

/// Bytes of which half repeats what stood shortly before.
fn sample(n: usize) -> Vec<u8> {
    let mut state = 1u32;
    let mut random = |n: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) % n
    };
    let mut out: Vec<u8> = Vec::with_capacity(n + 64);
    while out.len() < n {
        let length = 4 + random(20) as usize;
        if out.len() > 4096 && random(2) == 0 {
            let from = out.len() - 64 - random(4000) as usize;
            out.extend_from_within(from..from + length);
        } else {
            out.extend((0..length).map(|_| random(256) as u8));
        }
    }
    out.truncate(n);
    out
}

fn main() {
    let data = sample(8 << 20);
    let megabytes = data.len() as f64 / 1e6;
    for (pack, codec, algorithm) in [
        (Pack::Stored, Codec::Stored, 0),
        (Pack::Lz4, Codec::Lz4, 4),
        (Pack::Zstd, Codec::Zstd, 3),
        (Pack::Lzo1x, Codec::Lzo1x, 1),
        (Pack::Lzo2a, Codec::Lzo2a, 2),
    ] {
        let mut container = Container::of(27, algorithm, pack);
        (container.version, container.size_width, container.block) = (2, 4, 0x8000);
        let payload = container.write(&data);
        let blocks: Vec<Vec<u8>> = data
            .chunks(container.block)
            .map(|chunk| Some(pack.pack(chunk)).filter(|p| p.len() < chunk.len()).unwrap_or(chunk.to_vec()))
            .collect();
        let mut out = vec![0; data.len()];
        let mut decoders = Decoders::default();
        let plain = best(|| {
            for (block, out) in blocks.iter().zip(out.chunks_mut(container.block)) {
                if block.len() < out.len() {
                    decoders.decode(codec, block, out).expect("its own block");
                } else {
                    decoders.decode(Codec::Stored, block, out).expect("its own block");
                }
            }
            black_box(&out);
        });
        let mut unpacker = Unpacker::default();
        let options = DataOptions { forge_version: Some(27), codec: None };
        let whole = best(|| {
            black_box(unpacker.unpack(&payload, &options).expect("its own payload").bytes.len());
        });
        println!(
            "{codec:>6}: codec alone {:.0} MB/s, container {:.0} MB/s ({:.2} of the time)",
            megabytes / plain.as_secs_f64(),
            megabytes / whole.as_secs_f64(),
            whole.as_secs_f64() / plain.as_secs_f64()
        );
    }

    for path in std::env::args().skip(1).filter(|a| !a.starts_with('-')) {
        let source = anvil::open(Path::new(&path), &Options::default()).expect("an archive");
        let mut scratch = Scratch::new();
        let (mut bytes, mut keys) = (0, 0);
        let unpacking = best(|| {
            bytes = (0..source.entries().len())
                .map(|i| source.unpack(i, &mut scratch).expect("an entry").bytes.len())
                .sum::<usize>();
        });
        let decoding = best(|| {
            keys = 0;
            for i in 0..source.entries().len() {
                source
                    .for_each_object(i, &mut scratch, &mut |object| {
                        let object = object.expect("an object");
                        if object.class == class::ANIMATION {
                            let (clip, census) = rr::read_with_census(&object, "").expect("a clip");
                            black_box(&clip);
                            keys += census.keys;
                        }
                    })
                    .expect("an entry");
            }
        });
        println!(
            "{path}: {} entries, {:.1} MB unpacked in {:.3} s ({:.0} MB/s); with decoding {:.3} s ({:.1} million keys/s)",
            source.entries().len(),
            bytes as f64 / 1e6,
            unpacking.as_secs_f64(),
            bytes as f64 / 1e6 / unpacking.as_secs_f64(),
            decoding.as_secs_f64(),
            keys as f64 / 1e6 / decoding.as_secs_f64()
        );
    }
}
