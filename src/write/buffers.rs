//! Buffers that a thread uses again: a file is a few hundred kilobytes, and fresh memory for each costs more than what
//! is written into it.

use std::cell::RefCell;

/// Bytes that a thread keeps at most, in all its buffers, and how many these are.
const MAX_BYTES: usize = 8 << 20;
const MAX_BUFFERS: usize = 16;

thread_local! {
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// An empty buffer with room for `bytes`.
pub fn take(bytes: usize) -> Vec<u8> {
    let mut buffer = SPARE
        .with_borrow_mut(|spare| {
            // The smallest that is large enough, or else the largest.
            let fits = |b: &Vec<u8>| (b.capacity() < bytes, b.capacity().abs_diff(bytes));
            let best = (0..spare.len()).min_by_key(|i| fits(&spare[*i]))?;
            Some(spare.swap_remove(best))
        })
        .unwrap_or_default();
    buffer.reserve(bytes);
    buffer
}

/// Gives a buffer back, for whatever this thread writes next.
pub fn give(mut buffer: Vec<u8>) {
    buffer.clear();
    SPARE.with_borrow_mut(|spare| {
        let kept: usize = spare.iter().map(Vec::capacity).sum();
        if buffer.capacity() > 0 && spare.len() < MAX_BUFFERS && kept + buffer.capacity() <= MAX_BYTES {
            spare.push(buffer);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::{give, take};

    #[test]
    fn what_fits_is_used_again() {
        let (mut small, large) = (take(100), take(10_000));
        let (small_at, large_at) = (small.as_ptr(), large.as_ptr());
        small.push(1);
        give(large);
        give(small);
        let small = take(50);
        assert!(small.is_empty() && small.as_ptr() == small_at);
        let large = take(5_000);
        assert!(large.as_ptr() == large_at);
    }
}
