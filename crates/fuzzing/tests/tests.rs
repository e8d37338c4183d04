//! The integration tests of the crate, in one program.
#![cfg(any(debug_assertions, feature = "invariants"))]

mod corpora;
