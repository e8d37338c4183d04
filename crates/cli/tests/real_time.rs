//! Tests that need a clock: real sockets, programs and threads. `make test` runs them after all
//! others, those of `timed` one after another.

mod dashboard;
#[cfg(feature = "codec")]
mod drawing;
#[cfg(all(feature = "codec", feature = "emulate"))]
mod emulate;
mod flows;
mod growing;
#[cfg(feature = "codec")]
mod live;
mod observe;
mod other_protocols;
mod outputs;
mod pairing;
mod qlog;
mod service;
mod stuffing;
mod timed;
mod tunnel;
#[cfg(all(feature = "codec", feature = "emulate"))]
mod tutorial;
mod udp;
