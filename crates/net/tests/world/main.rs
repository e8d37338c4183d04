//! Sessions in worlds in memory: deterministic, and in virtual time.

mod attackers;
mod bed;
mod session;
