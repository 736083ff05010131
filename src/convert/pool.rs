//! Values that threads lend each other, so that a run has no more of them than threads at work.

use std::sync::Mutex;

/// A pool of `T`s.
#[derive(Debug)]
pub struct Pool<T>(Mutex<Vec<T>>);

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Pool(Mutex::default())
    }
}

impl<T> Pool<T> {
    /// Calls `work` with a value of the pool, or with a new one where all are in use. One that `work` panics with is
    /// dropped.
    pub fn with<R>(&self, new: impl FnOnce() -> T, work: impl FnOnce(&mut T) -> R) -> R {
        let idle = self.0.lock().ok().and_then(|mut idle| idle.pop());
        let mut value = idle.unwrap_or_else(new);
        let result = work(&mut value);
        if let Ok(mut idle) = self.0.lock() {
            idle.push(value);
        }
        result
    }
}
