//! Archives, clips, skeletons and sets of Anvil.

mod containers;
mod readers;
mod values;
mod variants;
