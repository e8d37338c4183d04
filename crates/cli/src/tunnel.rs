//! TCP connections through streams, UDP flows and IP packets through datagrams: the common parts of
//! `serve` and `proxy`.
//!
//! | file | idea |
//! |---|---|
//! | `request.rs` | the request of a new stream, and its answer |
//! | `streams.rs` | the server's end of streams |
//! | `policy.rs` | permitted targets of streams and flows |
//! | `destination.rs` | rules for destinations |
//! | `reach.rs` | special addresses, which a rule must name |
//! | `journal.rs` | a record of connections and refusals |
//! | `resolver.rs` | the addresses of names, with a bound for each peer |
//! | `relay.rs` | bytes from a connection to a stream and back |
//! | `socks5.rs`, `http.rs` | the protocols between applications and a proxy |
//! | `udp.rs`, `udp/` | UDP flows |
//! | `tun.rs`, `tun/` | IP packets of a TUN interface |

mod destination;
pub(crate) mod http;
mod journal;
pub(crate) mod policy;
mod reach;
pub(crate) mod relay;
pub(crate) mod request;
mod resolver;
pub(crate) mod socks5;
pub(crate) mod streams;
pub(crate) mod tun;
pub(crate) mod udp;

use std::io;

use anabranch_core::Config;
use anabranch_net::stream_transport;
use anabranch_secure::{PublicKey, SessionKind};
use tokio::runtime::{Builder, Runtime};

pub(crate) use destination::{Destination, Target};
pub(crate) use journal::Transport;

/// Congestion control of the paths, and their scheduler.
#[derive(Debug, clap::Args)]
pub(crate) struct TransportArguments {
    /// Congestion controller of every path, with any options; `anabranch controllers` lists them.
    #[arg(long, value_name = "NAME", default_value = DEFAULT_CONTROLLER)]
    controller: String,
    /// Packet scheduler; `anabranch schedulers` lists them.
    #[arg(long, value_name = "NAME", default_value = anabranch_schedulers::STREAM_DEFAULT)]
    scheduler: String,
}

/// Default controller of tunnels. It does not take the random loss of radio links for congestion.
const DEFAULT_CONTROLLER: &str = "bbr3";

impl TransportArguments {
    pub(crate) fn config(&self) -> anyhow::Result<Config> {
        let controller = anabranch_controllers::by_name(&self.controller)?;
        let scheduler = anabranch_schedulers::by_name(&self.scheduler)?;
        Ok(stream_transport(controller, scheduler))
    }
}

/// Returns the user's word for a session's kind.
pub(crate) fn name(session_kind: SessionKind) -> &'static str {
    match session_kind {
        SessionKind::Frames => "video",
        SessionKind::Streams => "connections",
        SessionKind::Datagrams => "datagrams",
    }
}

/// Returns the name of a peer's session, which is unique in the program.
pub(crate) fn session_name(session_kind: SessionKind, peer: &PublicKey) -> String {
    format!("{} of {peer}", name(session_kind))
}

/// Starts the runtime for tasks that move bytes. One thread is enough, since sessions have their
/// own.
pub(crate) fn tasks() -> io::Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("connections")
        .enable_all()
        .build()
}
