//! `verify` and `diff`.

mod diff;
mod verify;
