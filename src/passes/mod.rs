//! Passes over a [`Clip`](crate::model::Clip): sign continuity, subdivision, baking, reduction, root motion, additive
//! composition, and the measure of what a change costs. A pass knows the model alone.
//!
//! The order in which a converter runs them; the first and the last two always, the others on request:
//!
//! 1. What the clip's game does to a pose by code of its own, then [`align_signs`].
//! 2. [`compose_additive`], then [`root_motion`]: what is animated.
//! 3. [`bake`], or [`reduce`] (which subdivides by itself), or [`subdivide()`]: when keys stand.
//! 4. [`align_signs`] again, for the keys that passes made, [`collapse_constant`] and [`hold_from_start`].

mod bake;
mod compose;
mod edges;
mod measure;
mod pose_pair;
mod quantize;
mod reduce;
mod signs;
mod subdivide;
mod timelines;

pub use bake::{Bake, bake};
pub use compose::{AdditiveBase, RootMotion, compose_additive, root_motion};
pub use edges::hold_from_start;
pub use measure::{ErrorReport, measure};
pub use quantize::{QUANTIZE_MM, dequantize_i16, quantize_cost, quantize_i16, round_rotations};
pub use reduce::{Reduction, drop_at_rest, reduce, reduce_quantized};
pub use signs::{align_signs, collapse_constant};
pub use subdivide::{RotationPath, Slerp, subdivide, subdivide_with};
