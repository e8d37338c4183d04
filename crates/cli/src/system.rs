//! The operating system's part of the commands: rights of files, locks, limits, terminals. One file
//! for each family of systems, with the same functions.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(windows)]
pub(crate) use windows::*;
