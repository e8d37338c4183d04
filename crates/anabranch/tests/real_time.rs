//! Tests that need a clock: real sockets, programs and threads. `make test` runs them one after
//! another, after all others.

mod examples;
mod tutorial;
