//! Passes over a [`Clip`](crate::model::Clip): sign continuity, keys between keys, baking, reduction, root
//! motion, additive composition, and the measure of what a change costs.
//!
//! The order in which a converter runs them, each but the last two on request:
//!
//! 1. [`compose_additive`], [`root_motion`]: what is animated.
//! 2. [`bake`] or [`reduce`]: when keys stand.
//! 3. [`add_inbetweens`]: keys that keep a slerping player on the source's path.
//! 4. [`align_signs`], then [`collapse_constant`]: last, always.

mod inbetween;
mod measure;
mod reduce;
mod signs;
mod stage;

pub use inbetween::{Path, Slerp, add_inbetweens, add_inbetweens_for};
pub use measure::{ErrorReport, measure};
pub use reduce::{Reduction, drop_at_rest, reduce};
pub use signs::{align_signs, collapse_constant};
