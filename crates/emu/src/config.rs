//! The set-up of a relay.

use std::io;
use std::net::SocketAddr;

use anabranch_link::{LinkConfig, LinkConfigError};
use anabranch_units::Seed;

/// A relay: links that run in one thread.
#[derive(Clone, Debug, Default)]
pub struct RelayConfig {
    /// The links, which are independent of each other.
    pub links: Vec<RelayLink>,
    /// Origin of the instants of schedules and outages, past or future; `None`: the start of the
    /// relay.
    pub origin: Option<std::time::Instant>,
}

/// A link between the client at `listen` and `target`.
#[derive(Clone, Debug)]
pub struct RelayLink {
    /// The link's name in errors.
    pub name: String,
    /// Local address for the client; with port 0, [`Relay::listen_addr`](crate::Relay::listen_addr)
    /// returns the port. The client is the source of the last datagram.
    pub listen: SocketAddr,
    /// Destination of the client's datagrams. Only datagrams from this address go back to the
    /// client.
    pub target: SocketAddr,
    /// Direction from the client to the target.
    pub forward: LinkConfig,
    /// Direction from the target to the client.
    pub reverse: LinkConfig,
    /// Seed of both directions' random numbers.
    pub seed: Seed,
}

/// A direction of a relay's link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkDirection {
    /// From the client to the target.
    Forward,
    /// From the target to the client.
    Reverse,
}

/// Reasons for which a relay did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RelayError {
    /// A socket could not be made.
    #[error("link {link:?}: cannot {action} {address}")]
    Socket {
        /// The link's name.
        link: String,
        /// "listen at" or "send to".
        action: &'static str,
        /// The address that the link was given.
        address: SocketAddr,
        /// The operating system's error.
        source: io::Error,
    },
    /// A direction's configuration is not valid.
    #[error("link {link:?}, {direction}")]
    Link {
        /// The link's name.
        link: String,
        /// "forward" or "reverse".
        direction: &'static str,
        /// The mistake in its set-up.
        source: LinkConfigError,
    },
    /// The relay's thread could not be started.
    #[error("cannot start the relay's thread")]
    Thread(#[source] io::Error),
}
