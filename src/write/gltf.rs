//! glTF.
