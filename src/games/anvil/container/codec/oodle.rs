//! Oodle blocks by `oozextract`, which panics on some damaged input: its panics become errors here.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use oozextract::Extractor;

/// A decoder that is kept from block to block: it owns three quarters of a megabyte.
#[derive(Default)]
pub(super) struct Oodle {
    extractor: Option<Extractor>,
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Keeps the panic message of a caught panic off standard error, and only that of this thread's Oodle call.
fn install_quiet_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                previous(info);
            }
        }));
    });
}

impl Oodle {
    /// Decodes the whole of `packed` into `out` and returns the number of bytes written.
    pub(super) fn decode(&mut self, packed: &[u8], out: &mut [u8]) -> Result<usize, String> {
        // LZNA and BitKnit keep a model that a block may continue; none may be left over from another block.
        let [first, kind, ..] = packed else {
            return Err(format!("{} bytes are no block", packed.len()));
        };
        if first & 0x80 == 0 && matches!(kind & 0x7F, 5 | 11) {
            self.extractor = None;
        }
        install_quiet_hook();
        let mut extractor = self.extractor.take().unwrap_or_else(Extractor::new);
        let mut input = packed;
        QUIET.set(true);
        let result = panic::catch_unwind(AssertUnwindSafe(|| {
            // By `Read`, not by slice: only so does it tell how much of the input it used.
            let written = extractor.read(&mut input, out);
            (extractor, written)
        }));
        QUIET.set(false);
        match result {
            Ok((extractor, Ok(written))) => {
                self.extractor = Some(extractor);
                if input.is_empty() {
                    Ok(written)
                } else {
                    Err(format!("{} bytes left after the block", input.len()))
                }
            }
            Ok((_, Err(e))) => Err(e.to_string()),
            Err(_) => Err("the block is damaged".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An uncompressed Oodle block: header 0x8C | 0x40, decoder 6, then the bytes.
    #[test]
    fn uncompressed_blocks_decode_and_damage_is_an_error() {
        let data: Vec<u8> = (0..1000).map(|i| i as u8).collect();
        let block = [&[0xCC, 0x06][..], &data].concat();
        let mut oodle = Oodle::default();
        let mut out = vec![0; 1000];
        assert_eq!(oodle.decode(&block, &mut out), Ok(1000));
        assert_eq!(out, data);
        assert!(oodle.decode(&block[..900], &mut out).is_err());
        assert!(oodle.decode(&[block.as_slice(), &[0]].concat(), &mut out).is_err());
    }

    /// Whatever the bytes, it returns.
    #[test]
    fn noise_never_panics() {
        let mut oodle = Oodle::default();
        let mut out = vec![0; 0x8000];
        let mut state = 1u32;
        for decoder in [2u8, 5, 6, 10, 11, 12] {
            for round in 0..60 {
                let mut block: Vec<u8> = (0..600)
                    .map(|_| {
                        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
                        (state >> 24) as u8
                    })
                    .collect();
                block[0] = 0x8C;
                block[1] = decoder;
                // a quantum header whose size is the block's
                if round % 2 == 0 {
                    (block[2], block[3], block[4]) = (0, ((600 - 6) >> 8) as u8, (600 - 6) as u8);
                }
                let _ = oodle.decode(&block, &mut out);
            }
        }
    }
}
