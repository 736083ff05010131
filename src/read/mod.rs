//! Resources to [`Clip`](crate::model::Clip)s and [`Skeleton`](crate::model::Skeleton)s.
pub mod ycd;
