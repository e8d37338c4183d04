//! Tests that judge times.

mod attackers;
mod datagrams;
mod session;
