//! Checks of parsers and state machines with any bytes from outside. The programs of `fuzz/` run
//! them with random ones, `make test` with their seeds and `fuzz/corpus`.
//!
//! | file | idea |
//! |---|---|
//! | `target.rs` | a target: what runs with an input, and valid inputs to begin with |
//! | `targets.rs` | all targets |
//! | `meter.rs` | bounds of memory and time for each byte of input |
//! | `steps.rs` | inputs as sequences of steps, which seeds can write |
//!
//! Sessions check their invariants, so the crate is empty without debug assertions unless the
//! feature `invariants` is on.
#![cfg(any(debug_assertions, feature = "invariants"))]

mod meter;
mod steps;
mod target;
mod targets;

pub use meter::{Bound, Meter, TRANSPORT, on_allocated, on_freed};
pub use steps::{Reader, Writer};
pub use target::Target;
pub use targets::TARGETS;
