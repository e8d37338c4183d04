//! Surroundings that the command-line programs share: output, exit codes, the stop signal, and
//! helpers for arguments.
//!
//! With the feature `clap`, [`menu`] reports mistakes in command lines.

pub mod arguments;
pub mod clean;
pub mod exit;
pub mod files;
#[cfg(feature = "clap")]
pub mod menu;
pub mod names;
pub mod print;
pub mod stop;
