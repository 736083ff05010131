//! Passes over clips, against evaluators that share no code with them.

mod reduction;
mod resample;
