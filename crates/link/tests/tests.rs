//! The integration tests of the crate, in one program: a build links once, and all tests run in
//! parallel.

mod burst;
mod changes;
mod disciplines;
mod forecast;
mod jitter;
mod look_ahead;
mod mtu;
mod oracles;
mod support;
mod traces;
