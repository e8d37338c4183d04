//! Tests that need a clock: real sockets, programs and threads. `make test` runs them one after
//! another, after all others.

mod answer_loops;
mod attackers;
mod datagrams;
mod links;
mod pairing;
mod session;
mod streams;
mod tcp;
