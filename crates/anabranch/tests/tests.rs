//! The integration tests of the crate, in one program: a build links once, and all tests run in
//! parallel.

mod ends;
mod exports;
#[path = "../../emu/tests/punctual/mod.rs"]
mod punctual;
mod real_time;
