//! Requests of a tunnel's peers.

use std::net::SocketAddr;

use anabranch_net::SessionKind;
use anabranch_secure::PublicKey;

/// Protocol of a request behind the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A TCP connection.
    Tcp,
    /// A UDP flow.
    Udp,
}

impl Transport {
    /// Returns its name in messages and statistics.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Tcp => "tcp",
            Transport::Udp => "udp",
        }
    }

    /// Returns the kind of the session that carries such requests.
    pub fn session_kind(self) -> SessionKind {
        match self {
            Transport::Tcp => SessionKind::Streams,
            Transport::Udp => SessionKind::Datagrams,
        }
    }
}

/// A request of a tunnel's peer.
#[derive(Clone, Copy, Debug)]
pub struct Tunnelled<'a> {
    /// Public key of the peer.
    pub peer: &'a PublicKey,
    /// Protocol of the request.
    pub transport: Transport,
    /// Requested host and port.
    pub target: &'a str,
    /// Outcome of the request.
    pub outcome: Outcome,
    /// Number of the peer's earlier requests that were not reported. `None`: this one is counted,
    /// and not reported either.
    pub left_out: Option<u64>,
}

/// Outcome of a request of a tunnel's peer.
#[derive(Clone, Copy, Debug)]
pub enum Outcome {
    /// The target was connected to, at this address.
    Connected(SocketAddr),
    /// No rule permits it, for this reason.
    Refused(&'static str),
    /// The target could not be connected to, for this reason.
    Failed(&'static str),
}
