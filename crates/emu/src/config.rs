//! What a relay is made from.

use std::io;
use std::net::SocketAddr;

use anabranch_link::{LinkConfig, LinkConfigError};
use anabranch_units::{Duration, Seed};

/// A relay: links that run in one thread.
#[derive(Clone, Debug, Default)]
pub struct RelayConfig {
    /// The links, which know nothing of each other.
    pub links: Vec<RelayLink>,
    /// From when the instants of schedules and outages count, past or future; `None`: from the
    /// start of the relay.
    pub origin: Option<std::time::Instant>,
}

/// A link between whoever sends to `listen`, and `target`.
#[derive(Clone, Debug)]
pub struct RelayLink {
    /// What errors call it.
    pub name: String,
    /// Where it waits for the client; with port 0, at a port that
    /// [`Relay::listen_addr`](crate::Relay::listen_addr) tells. The client is whoever sent last.
    pub listen: SocketAddr,
    /// Where it sends what comes from the client. It gives back only what comes from there.
    pub target: SocketAddr,
    /// From the client to the target.
    pub forward: LinkConfig,
    /// From the target to the client.
    pub reverse: LinkConfig,
    /// Where both directions' chance comes from.
    pub seed: Seed,
}

/// A direction of a relay's link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the client to the target.
    Forward,
    /// From the target to the client.
    Reverse,
}

/// Why a relay did not start.
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
        /// What the operating system said.
        source: io::Error,
    },
    /// A direction's configuration is not valid.
    #[error("link {link:?}, {direction}")]
    Link {
        /// The link's name.
        link: String,
        /// "forward" or "reverse".
        direction: &'static str,
        /// What is wrong with it.
        source: LinkConfigError,
    },
    /// The relay's thread could not be started.
    #[error("cannot start the relay's thread")]
    Thread(#[source] io::Error),
}

/// `config`, everything that it schedules `ahead` later.
pub(crate) fn postponed(config: &LinkConfig, ahead: Duration) -> LinkConfig {
    let mut config = config.clone();
    config
        .rate_schedule
        .iter_mut()
        .for_each(|(at, _)| *at += ahead);
    config
        .delay_schedule
        .iter_mut()
        .for_each(|(at, _)| *at += ahead);
    config
        .mtu_schedule
        .iter_mut()
        .for_each(|(at, _)| *at += ahead);
    config.outages.iter_mut().for_each(|(at, _)| *at += ahead);
    config.trace = config.trace.map(|trace| trace.postponed(ahead));
    config
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_link::Trace;
    use anabranch_units::{DataRate, Instant};

    #[test]
    fn all_that_is_scheduled_is_postponed() {
        let at = Instant::from_secs;
        let with = |second| LinkConfig {
            rate_schedule: vec![(at(second), DataRate::ZERO)],
            delay_schedule: vec![(at(second), Duration::ZERO)],
            outages: vec![(at(second), Duration::from_secs(5))],
            mtu_schedule: vec![(at(second), 1_280)],
            trace: Trace::new(&[900, 5_000])
                .map(|trace| trace.postponed(Duration::from_secs(second)))
                .ok(),
            ..LinkConfig::default()
        };
        assert_eq!(postponed(&with(10), Duration::from_secs(2)), with(12));
    }
}
