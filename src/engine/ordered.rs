//! Ordered parallel work: things are handed out in batches and in order, their results come back in any order and are
//! taken in the order of the things. A [`Window`] bounds what is on its way in bytes.
//!
//! Nothing here knows what the work is: the tests use integers.

use std::collections::{BTreeMap, VecDeque};

/// Things that are handed out together: each hand-over wakes a thread.
#[derive(Debug, PartialEq, Eq)]
pub struct Batch<T> {
    /// Number of the first.
    pub order: usize,
    /// The things, numbered on from [`Batch::order`].
    pub items: Vec<T>,
}

/// How large a [`Batch`] grows.
#[derive(Debug, Clone, Copy)]
pub struct BatchSize {
    /// Things, at most.
    pub items: usize,
    /// Bytes from which on a batch is full.
    pub bytes: u64,
}

/// One kind of work: things `T` on their way out, results `R` on their way back.
#[derive(Debug)]
pub struct Lane<T, R> {
    size: BatchSize,
    collected: Vec<T>,
    bytes: u64,
    /// Things in batches that were handed out.
    given: usize,
    /// Number of the result that is taken next.
    next: usize,
    waiting: BTreeMap<usize, R>,
}

impl<T, R> Lane<T, R> {
    /// An empty one.
    pub fn new(size: BatchSize) -> Self {
        Lane { size, collected: Vec::new(), bytes: 0, given: 0, next: 0, waiting: BTreeMap::new() }
    }

    /// Adds a thing of `bytes`. Gives a batch where there is enough for one.
    #[must_use]
    pub fn add(&mut self, item: T, bytes: u64) -> Option<Batch<T>> {
        self.collected.push(item);
        self.bytes += bytes;
        let is_full = self.bytes >= self.size.bytes || self.collected.len() >= self.size.items;
        if is_full { self.rest() } else { None }
    }

    /// Gives what is collected, if anything is.
    #[must_use]
    pub fn rest(&mut self) -> Option<Batch<T>> {
        if self.collected.is_empty() {
            return None;
        }
        let (order, items) = (self.given, std::mem::take(&mut self.collected));
        self.given += items.len();
        self.bytes = 0;
        Some(Batch { order, items })
    }

    /// Takes in the results of a batch.
    pub fn put(&mut self, order: usize, results: impl IntoIterator<Item = R>) {
        self.waiting.extend((order..).zip(results));
    }

    /// The next result, if it is there.
    pub fn take(&mut self) -> Option<R> {
        let result = self.waiting.remove(&self.next)?;
        self.next += 1;
        Some(result)
    }

    /// Whether nothing waits to be handed out.
    pub fn is_empty(&self) -> bool {
        self.collected.is_empty()
    }

    /// Number of things that were added.
    pub fn added(&self) -> usize {
        self.given + self.collected.len()
    }

    /// Number of results that were taken.
    pub fn taken(&self) -> usize {
        self.next
    }
}

/// What is on its way, bounded in bytes and in number. A part enters with the bytes that it is taken to hold, says when
/// it is read what it holds and which jobs it gave rise to, and leaves when these are done; parts leave in order.
#[derive(Debug)]
pub struct Window {
    max_bytes: u64,
    max_parts: usize,
    /// Memory that a stored byte is taken to need, until it is read.
    factor: u64,
    parts: VecDeque<Part>,
    /// Of `parts`: how many are read.
    read: usize,
    bytes: u64,
}

#[derive(Debug)]
struct Part {
    /// Bytes that it is taken to hold in memory.
    cost: u64,
    /// Stored bytes.
    size: u64,
    /// Jobs that there were when its own had been added.
    jobs: usize,
}

impl Window {
    /// An empty one.
    pub fn new(max_bytes: u64, max_parts: usize, factor: u64) -> Self {
        Window { max_bytes, max_parts, factor, parts: VecDeque::new(), read: 0, bytes: 0 }
    }

    /// Whether a part of `size` stored bytes may enter. One larger than the window must be let in alone.
    pub fn has_room(&self, size: u64) -> bool {
        self.bytes + size.saturating_mul(self.factor) <= self.max_bytes && self.parts.len() < self.max_parts
    }

    /// A part enters.
    pub fn enter(&mut self, size: u64) {
        let cost = size.saturating_mul(self.factor);
        self.bytes += cost;
        self.parts.push_back(Part { cost, size, jobs: 0 });
    }

    /// The next part is read: it holds `cost` bytes, and there are `jobs` jobs now with its own.
    pub fn read(&mut self, cost: u64, jobs: usize) {
        if let Some(part) = self.parts.get_mut(self.read) {
            self.bytes = self.bytes - part.cost + cost;
            (part.cost, part.jobs) = (cost, jobs);
        }
        self.read += 1;
    }

    /// Lets the parts go of which all jobs are among the first `done`: how many, and their stored bytes.
    pub fn leave(&mut self, done: usize) -> (usize, u64) {
        let (mut parts, mut bytes) = (0, 0);
        while self.read > 0
            && let Some(part) = self.parts.front()
            && part.jobs <= done
        {
            self.bytes -= part.cost;
            bytes += part.size;
            parts += 1;
            self.read -= 1;
            self.parts.pop_front();
        }
        (parts, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(items: usize, bytes: u64) -> Lane<u32, u32> {
        Lane::new(BatchSize { items, bytes })
    }

    #[test]
    fn batches_close_by_number_or_by_bytes_and_the_rest_goes_when_asked() {
        let mut lane = lane(3, 100);
        assert_eq!(lane.add(1, 10), None);
        assert_eq!(lane.add(2, 10), None);
        assert_eq!(lane.add(3, 10), Some(Batch { order: 0, items: vec![1, 2, 3] }));
        assert_eq!(lane.add(4, 100), Some(Batch { order: 3, items: vec![4] }));
        assert_eq!(lane.rest(), None);
        assert_eq!(lane.add(5, 0), None);
        assert_eq!((lane.added(), lane.is_empty()), (5, false));
        assert_eq!(lane.rest(), Some(Batch { order: 4, items: vec![5] }));
    }

    #[test]
    fn results_are_taken_in_the_order_of_the_things_whatever_order_they_come_in() {
        let mut lane = lane(2, u64::MAX);
        let batches: Vec<Batch<u32>> = (0..6).filter_map(|n| lane.add(n, 1)).collect();
        let mut taken = Vec::new();
        for batch in batches.iter().rev() {
            lane.put(batch.order, batch.items.iter().map(|n| n * n));
            while let Some(result) = lane.take() {
                taken.push(result);
            }
        }
        assert_eq!(taken, [0, 1, 4, 9, 16, 25]);
        assert_eq!(lane.taken(), 6);
    }

    #[test]
    fn real_threads_give_the_same_order() {
        let mut lane = lane(7, u64::MAX);
        let mut batches: Vec<Batch<u32>> = (0..1000).filter_map(|n| lane.add(n, 1)).collect();
        batches.extend(lane.rest());
        let (sender, receiver) = std::sync::mpsc::channel();
        rayon::scope(|scope| {
            for batch in batches {
                let sender = sender.clone();
                scope.spawn(move |_| {
                    let results: Vec<u32> = batch.items.iter().map(|n| n + 1).collect();
                    sender.send((batch.order, results)).unwrap();
                });
            }
        });
        drop(sender);
        let mut taken = Vec::new();
        for (order, results) in receiver {
            lane.put(order, results);
            taken.extend(std::iter::from_fn(|| lane.take()));
        }
        assert_eq!(taken, (1..=1000).collect::<Vec<u32>>());
    }

    #[test]
    fn the_window_counts_what_is_held_and_lets_parts_go_in_order() {
        let mut window = Window::new(100, 3, 2);
        assert!(window.has_room(50));
        assert!(!window.has_room(51));
        window.enter(20);
        window.enter(20);
        assert!(!window.has_room(20), "40 + 40 bytes are taken");
        // The first holds less than was thought, and gave rise to two jobs; the second to one.
        window.read(10, 2);
        assert!(window.has_room(20));
        assert_eq!(window.leave(1), (0, 0), "one of its jobs is not done");
        window.read(40, 3);
        assert_eq!(window.leave(2), (1, 20));
        assert_eq!(window.leave(3), (1, 20));
        assert!(window.has_room(50));
        (0..3).for_each(|_| window.enter(0));
        assert!(!window.has_room(0), "three parts at most");
    }
}
