//! Tests that judge times.

mod attackers;
mod session;
