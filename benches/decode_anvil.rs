//! Keys a second that the readers of Anvil's Animations decode on one core, over clips of the shape that the notes
//! count: 154 tracks and 2,778 keys a clip on average for Riders Republic. `cargo bench --bench decode_anvil`.

#![allow(clippy::print_stdout)]

use anim2gltf_testkit::anvil_clip as writer;
use std::hint::black_box;
use std::time::{Duration, Instant};

use anim2gltf::games::anvil::animation::tracks::ClipCensus;
use anim2gltf::games::anvil::animation::{riders_republic as rr, shaun_white as sws};
use anim2gltf::games::anvil::container::object::{Generation, Object};
use anim2gltf_testkit::anvil_clip::{ClipSpec, Keys, TrackSpec, turn};

/// A small generator: the same clips on every run.
struct Lcg(u64);

impl Lcg {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

fn quats(n: usize, r: &mut Lcg) -> Keys {
    let axis = [r.below(100) as f64 - 50.0, r.below(100) as f64 - 50.0, 3.0];
    let speed = r.below(40) as f64;
    Keys::Quat((0..n).map(|i| turn(axis, speed * i as f64)).collect())
}

/// A track of `keys` keys; where it has one or few it is the still bone of most clips.
fn track(crc: u32, kind: u8, form: u8, keys: usize, rotation: bool, r: &mut Lcg) -> TrackSpec {
    let step = 1 + r.below(3) as u32;
    let times = (0..keys as u32).map(|i| i * step).collect();
    let keys = if rotation { quats(keys, r) } else { Keys::Vec3(vec![[0.1, 0.2, 0.3]; keys]) };
    TrackSpec { crc, kind, form, times, keys }
}

/// Two thirds of the tracks hold 2 keys, the others 50: 18 on average.
fn key_count(r: &mut Lcg, most: usize) -> usize {
    if r.below(3) == 0 { (40 + r.below(21) as usize).min(most) } else { 1 + r.below(3) as usize }
}

fn rr_clip(r: &mut Lcg) -> Vec<u8> {
    let tracks = (0..154)
        .map(|i| {
            let form = [0, 0, 0, 2, 1][r.below(5) as usize];
            let kind = [4, 4, 4, 4, 4, 5, 3, 9, 8, 7][r.below(10) as usize];
            let keys = key_count(r, if form == 2 { 21 } else { 60 });
            if kind == 7 {
                let keys = Keys::Quat((0..keys).map(|k| turn([0.0, 0.0, 1.0], k as f64)).collect());
                return TrackSpec { crc: i, kind, form: 0, times: (0..keys.len() as u32).collect(), keys };
            }
            track(i, kind, form, keys, kind != 9, r)
        })
        .collect();
    writer::rr_body(&ClipSpec { length_s: 6.0, tracks, ..ClipSpec::default() })
}

fn sws_clip(r: &mut Lcg) -> Vec<u8> {
    let tracks = (0..82)
        .map(|i| {
            let kind = [4, 4, 4, 4, 5, 5, 6, 8, 9, 7][r.below(10) as usize];
            let keys = key_count(r, 60);
            track(i, kind, r.below(4) as u8, keys, kind < 7, r)
        })
        .collect();
    writer::sws_body(&ClipSpec { id: 1, length_s: 6.0, tracks, ..ClipSpec::default() })
}

/// Prints the speed over `bodies`; with an argument, only where `what` contains it.
fn measure(what: &str, generation: Generation, bodies: &[Vec<u8>]) {
    let wanted = |argument: String| argument.starts_with("--") || what.contains(&argument);
    if !std::env::args().skip(1).all(wanted) {
        return;
    }
    let pass = || {
        let mut total = ClipCensus::default();
        for body in bodies {
            let object = Object {
                generation,
                class: writer::ANIMATION,
                id: 1,
                name: String::new(),
                header: &[],
                body,
                body_offset: 0,
            };
            let read = match generation {
                Generation::Ids64 => rr::read_with_census(&object, ""),
                Generation::Ids32 => sws::read_with_census(&object, ""),
            };
            match read {
                Ok((clip, census)) => {
                    black_box(&clip);
                    total += census;
                }
                Err(e) => panic!("{what}: {e}"),
            }
        }
        total
    };
    let total = pass();
    let mut best = Duration::MAX;
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(2) {
        let start = Instant::now();
        black_box(pass());
        best = best.min(start.elapsed());
    }
    let bytes: usize = bodies.iter().map(Vec::len).sum();
    println!(
        "{what}: {:.1} million keys/s, {:.0} MB/s ({} clips, {} tracks, {} keys in {:.2} ms)",
        total.keys as f64 / best.as_secs_f64() / 1e6,
        bytes as f64 / best.as_secs_f64() / 1e6,
        total.clips,
        total.tracks,
        total.keys,
        best.as_secs_f64() * 1e3,
    );
}

fn main() {
    let mut r = Lcg(7);
    let rr: Vec<Vec<u8>> = (0..200).map(|_| rr_clip(&mut r)).collect();
    measure("Riders Republic", Generation::Ids64, &rr);
    let sws: Vec<Vec<u8>> = (0..200).map(|_| sws_clip(&mut r)).collect();
    measure("Shaun White Skateboarding", Generation::Ids32, &sws);
    // What a key of each packing costs, in tracks long enough to hide the rest.
    for kind in [3, 4, 5, 7, 8, 9] {
        let tracks = (0..40)
            .map(|i| {
                let keys = match kind {
                    7 => Keys::Quat((0..2000).map(|k| turn([0.0, 0.0, 1.0], f64::from(k) * 0.04)).collect()),
                    9 => Keys::Vec3(vec![[0.1, 0.2, 0.3]; 2000]),
                    _ => quats(2000, &mut r),
                };
                TrackSpec { crc: i, kind, form: 1, times: (0..2000).collect(), keys }
            })
            .collect();
        let body = writer::rr_body(&ClipSpec { length_s: 60.0, tracks, ..ClipSpec::default() });
        measure(&format!("kind {kind}, 2000 keys a track"), Generation::Ids64, &[body]);
    }
}
