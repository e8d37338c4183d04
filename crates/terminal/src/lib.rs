//! Surroundings that the command-line programs share: output, exit codes, the stop signal, and
//! helpers for arguments.
//!
//! With the feature `clap`, [`menu`] reports mistakes in command lines, and [`manual`] writes
//! completions and manual pages.

pub mod arguments;
pub mod clean;
pub mod exit;
pub mod files;
pub mod hangup;
pub mod log_output;
#[cfg(feature = "clap")]
pub mod manual;
#[cfg(feature = "clap")]
pub mod menu;
pub mod names;
pub mod print;
pub mod stop;
pub mod system;
pub mod turns;
