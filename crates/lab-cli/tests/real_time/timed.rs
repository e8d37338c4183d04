//! Tests that judge times.

mod parity;
