//! [`rpf7`] lists archives, [`rsc7`] opens resources.

pub mod rpf7;
pub mod rsc7;
