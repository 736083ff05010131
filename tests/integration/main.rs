//! The tests that stand outside the library. One binary: twenty would link twenty times. Each module is a theme; what
//! they share is the crate `anim2gltf-testkit` in `tests/support`.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

mod anvil;
mod compare;
mod formats;
mod golden;
mod house;
mod passes;
mod rage;
mod runs;
