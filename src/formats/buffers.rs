//! Buffers that a thread uses again: a file is a few hundred kilobytes, and fresh memory for each costs more than what
//! is written into it.

use std::cell::RefCell;

/// Bytes that a thread keeps at most, in all its buffers, and how many these are.
const MAX_BYTES: usize = 24 << 20;
const MAX_BUFFERS: usize = 16;

thread_local! {
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// An empty buffer with room for `bytes`.
pub fn take(bytes: usize) -> Vec<u8> {
    let spare = SPARE.with_borrow_mut(|spare| {
        // The smallest that is large enough.
        let fits = (0..spare.len()).filter(|i| spare[*i].capacity() >= bytes);
        let best = fits.min_by_key(|i| spare[*i].capacity())?;
        Some(spare.swap_remove(best))
    });
    // With room for one that is a little larger, the next time.
    spare.unwrap_or_else(|| Vec::with_capacity(bytes + bytes / 4))
}

/// Gives a buffer back, for whatever this thread writes next.
pub fn give(mut buffer: Vec<u8>) {
    buffer.clear();
    SPARE.with_borrow_mut(|spare| {
        let kept: usize = spare.iter().map(Vec::capacity).sum();
        if buffer.capacity() == 0 || kept + buffer.capacity() > MAX_BYTES {
            return;
        }
        spare.push(buffer);
        if spare.len() > MAX_BUFFERS
            && let Some(least) = (0..spare.len()).min_by_key(|i| spare[*i].capacity())
        {
            spare.swap_remove(least);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::give;
    use super::take;

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
