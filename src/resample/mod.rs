//! Passes over a [`Clip`](crate::model::Clip): sign continuity, keys between keys, baking, reduction, root motion.
