//! TCP connections through streams, UDP flows and IP packets through datagrams, between a proxy
//! and a server.
//!
//! | file | idea |
//! |---|---|
//! | `request.rs` | the request of a new stream, and its answer |
//! | `streams.rs` | the server's end of streams |
//! | `policy.rs` | permitted targets of streams and flows |
//! | `peer.rs` | peers that may use a tunnel |
//! | `destination.rs` | rules for destinations |
//! | `network.rs` | networks of addresses |
//! | `reach.rs` | special addresses, which a rule must name |
//! | `journal.rs` | a record of connections and refusals |
//! | `resolver.rs` | the addresses of names, with a bound for each peer |
//! | `connection.rs` | connections of applications and targets |
//! | `proxy.rs` | the proxy's end of connections |
//! | `relay.rs` | bytes from a connection to a stream and back |
//! | `socks5.rs`, `http.rs` | the protocols between applications and a proxy |
//! | `udp.rs`, `udp/` | UDP flows |
//! | `tun.rs`, `tun/` | IP packets of a TUN interface |

mod connection;
mod destination;
pub mod http;
mod journal;
mod network;
mod peer;
pub mod policy;
pub mod proxy;
mod reach;
mod relay;
pub mod request;
mod resolver;
pub mod socks5;
pub mod streams;
mod surroundings;
pub mod tun;
pub mod udp;
#[cfg(test)]
mod world;

use std::io;

use tokio::runtime::{Builder, Runtime};

pub use destination::{Destination, ParseDestinationError, Target};
pub use peer::Peer;
pub use policy::Policy;

/// Starts the runtime for tasks that move bytes. One thread is enough, since sessions have their
/// own.
pub fn tasks() -> io::Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("connections")
        .enable_all()
        .build()
}
