//! The integration tests of the crate, in one program: a build links once, and all tests run in
//! parallel.

mod arrows;
mod bed;
mod cargo_tools;
mod code_lines;
mod decisions;
mod dialect;
mod fields;
mod libraries;
mod links;
#[cfg(all(feature = "codec", feature = "emulate"))]
mod pages;
mod ports;
mod promises;
mod prose;
#[path = "../../emu/tests/punctual/mod.rs"]
mod punctual;
mod real_time;
#[cfg(feature = "codec")]
mod refusals;
mod repository;
mod setup;
mod supply;
mod test_programs;
mod tidy;
mod walk;
