//! Tests that judge times.

mod relay;
