//! CRC-32, joaat and bone-tag dictionaries.

pub mod anvil;
pub mod rage;
