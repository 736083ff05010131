//! Whole runs of the program: its output tree, its exit codes, and damaged input.

mod batch;
mod hostile;
mod printing;
mod toy_game;
mod warnings;
