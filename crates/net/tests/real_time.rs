//! Tests that need a clock: real sockets, programs and threads. `make test` runs them after all
//! others, those of `timed` one after another.

mod tcp;
mod timed;
