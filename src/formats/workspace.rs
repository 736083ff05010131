//! Memory that writers use again from file to file.
//!
//! A file is a few hundred kilobytes, and fresh memory for each costs more than what is written into it. The caller owns
//! this memory: a [`Workspace`] for each thread, which lives as long as its run.

use std::any::{Any, TypeId};
use std::fmt;

use rustc_hash::FxHashMap;

/// Written files: (extension, bytes), the main one last, so that what it points at is there before it.
pub type Files = Vec<(&'static str, Vec<u8>)>;

/// Bytes that a workspace keeps at most, in all its buffers, and how many these are.
const MAX_BYTES: usize = 24 << 20;
const MAX_BUFFERS: usize = 16;

/// What one thread keeps from one file to the next. A new one is empty; what a file holds never depends on it.
#[derive(Default)]
pub struct Workspace {
    buffers: Buffers,
    state: FxHashMap<TypeId, Box<dyn Any + Send>>,
}

impl fmt::Debug for Workspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workspace").field("buffers", &self.buffers).finish_non_exhaustive()
    }
}

impl Workspace {
    /// The byte buffers, and the value of type `T` that a format keeps: made by its default at first, as it was left
    /// afterwards.
    pub fn parts<T: Any + Default + Send>(&mut self) -> (&mut Buffers, &mut T) {
        let state = self.state.entry(TypeId::of::<T>()).or_insert_with(|| Box::<T>::default());
        match state.downcast_mut::<T>() {
            Some(state) => (&mut self.buffers, state),
            None => unreachable!("the key of a value is its type"),
        }
    }

    /// The byte buffers.
    pub fn buffers(&mut self) -> &mut Buffers {
        &mut self.buffers
    }

    /// Takes the memory of a file that is done with, for the next one.
    pub fn recycle(&mut self, files: Files) {
        files.into_iter().for_each(|(_, bytes)| self.buffers.give(bytes));
    }
}

/// Byte buffers that are used again.
#[derive(Debug, Default)]
pub struct Buffers(Vec<Vec<u8>>);

impl Buffers {
    /// An empty buffer with room for `bytes`.
    pub fn take(&mut self, bytes: usize) -> Vec<u8> {
        // The smallest that is large enough.
        let fits = (0..self.0.len()).filter(|i| self.0[*i].capacity() >= bytes);
        match fits.min_by_key(|i| self.0[*i].capacity()) {
            Some(best) => self.0.swap_remove(best),
            // With room for a file that is a little larger, the next time.
            None => Vec::with_capacity(bytes + bytes / 4),
        }
    }

    /// Keeps a buffer for a later [`Buffers::take`]. Its content is lost.
    pub fn give(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        let held: usize = self.0.iter().map(Vec::capacity).sum();
        if buffer.capacity() == 0 || held + buffer.capacity() > MAX_BYTES {
            return;
        }
        self.0.push(buffer);
        if self.0.len() > MAX_BUFFERS
            && let Some(least) = (0..self.0.len()).min_by_key(|i| self.0[*i].capacity())
        {
            self.0.swap_remove(least);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_used_again() {
        let mut buffers = Buffers::default();
        let (mut small, large) = (buffers.take(100), buffers.take(10_000));
        let (small_at, large_at) = (small.as_ptr(), large.as_ptr());
        small.push(1);
        buffers.give(large);
        buffers.give(small);
        let small = buffers.take(50);
        assert!(small.is_empty() && small.as_ptr() == small_at);
        let large = buffers.take(5_000);
        assert!(large.as_ptr() == large_at);
    }

    #[test]
    fn a_format_finds_its_value_as_it_left_it() {
        let mut workspace = Workspace::default();
        workspace.parts::<u32>().1.clone_from(&7);
        assert_eq!(*workspace.parts::<u64>().1, 0);
        assert_eq!(*workspace.parts::<u32>().1, 7);
    }
}
