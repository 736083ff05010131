//! Bytes: a bounds-checked cursor, and reading by position from many threads.

pub mod bytes;
pub mod hex;
pub mod read_at;
