//! The integration tests of the crate, in one program: a build links once, and all tests run in
//! parallel.

mod contest;
mod laboratory;
#[path = "../../cli/tests/ports/mod.rs"]
mod ports;
mod real_time;
mod runtime;
mod tutorial;
#[path = "../../cli/tests/walk/mod.rs"]
mod walk;
