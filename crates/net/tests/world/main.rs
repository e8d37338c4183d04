//! Sessions in worlds in memory: deterministic, and in virtual time.

mod bed;
mod session;
