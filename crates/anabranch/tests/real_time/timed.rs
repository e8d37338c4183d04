//! Tests that judge times.

mod examples;
