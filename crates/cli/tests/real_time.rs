//! Tests that need a clock: real sockets, programs and threads. `make test` runs them one after
//! another, after all others.

mod dashboard;
#[cfg(feature = "codec")]
mod drawing;
#[cfg(all(feature = "codec", feature = "emulate"))]
mod emulate;
mod encoder;
mod flows;
mod growing;
#[cfg(feature = "codec")]
mod live;
#[cfg(feature = "codec")]
mod manners;
mod observe;
mod other_protocols;
mod outputs;
mod pairing;
mod qlog;
mod service;
#[cfg(feature = "codec")]
mod streaming;
mod structures;
mod studio;
mod stuffing;
mod tunnel;
#[cfg(all(feature = "codec", feature = "emulate"))]
mod tutorial;
mod udp;
