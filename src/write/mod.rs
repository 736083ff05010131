//! Clips and a rig to files. Knows no game.
