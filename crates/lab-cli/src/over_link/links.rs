//! Links between two namespaces, for the time of a run.

use std::sync::Arc;

use anabranch_emu::{Damage, Ends, Network, NetworkConfig, PacketLink, Relay};
use anabranch_lab::EmulatedRoute;
use anabranch_net::Clock;
use anabranch_units::{Duration, Instant, Seed};

/// Waits until the clock shows an instant. A thread may be woken early.
pub(crate) fn wait_until(clock: &Clock, at: Instant) {
    while clock.now() < at {
        std::thread::park_timeout(at.saturating_since(clock.now()).to_std());
    }
}

/// MTU of interfaces that carry what Ethernet does.
pub(crate) const MTU: u32 = 1_500;

/// Links to be opened.
#[derive(Debug)]
pub(crate) struct LinksConfig<'a> {
    pub(crate) routes: &'a [EmulatedRoute],
    /// Seed of losses and jitter.
    pub(crate) seed: Seed,
    /// MTU of each path's interfaces, in bytes.
    pub(crate) mtus: Vec<u32>,
    /// Whether a packet above a link's MTU is answered, as by a router.
    pub(crate) reports_mtu: bool,
    /// Damage to packets of all links.
    pub(crate) damage: Damage,
    /// Whether connections of MPTCP use all paths.
    pub(crate) has_mptcp: bool,
}

/// A network and the links between its ends.
#[derive(Debug)]
pub(crate) struct Links {
    pub(crate) network: Arc<Network>,
    pub(crate) relay: Relay,
    pub(crate) clock: Clock,
    path_count: usize,
}

impl Links {
    /// Makes the network. `prepare` runs before the links start: schedules begin `ahead` of the
    /// clock's origin.
    ///
    /// # Errors
    /// Those of the network, the relay and `prepare`.
    pub(crate) fn open<T>(
        config: &LinksConfig<'_>,
        ahead: Duration,
        prepare: impl FnOnce(&Arc<Network>) -> anyhow::Result<T>,
    ) -> anyhow::Result<(Links, T)> {
        let mut network = Network::new(&NetworkConfig {
            mtus: config.mtus.clone(),
            depth: 0,
            has_mptcp: config.has_mptcp,
            mark: None,
        })?;
        let interfaces = std::mem::take(&mut network.paths);
        let pairs = config.routes.iter().zip(interfaces);
        let links = pairs
            .map(|(route, Ends { near, far })| PacketLink {
                name: route.name.clone(),
                sender: near,
                receiver: far,
                forward: route.forward.postponed(ahead),
                reverse: route.reverse.postponed(ahead),
                seed: config.seed.derive(&route.name),
                reports_mtu: config.reports_mtu,
                damage: config.damage,
            })
            .collect();
        let network = Arc::new(network);
        let prepared = prepare(&network)?;
        let relay = Relay::between_interfaces(links, None)?;
        let clock = Clock::start();
        let links = Links {
            network,
            relay,
            clock,
            path_count: config.routes.len(),
        };
        Ok((links, prepared))
    }

    /// Returns the bytes that have entered the links: there, and back.
    pub(crate) fn wire_bytes(&self) -> [u64; 2] {
        let mut sums = [0; 2];
        for index in 0..self.path_count {
            let statistics = self.relay.statistics(index);
            sums[0] += statistics.forward.link.offered_bytes;
            sums[1] += statistics.reverse.link.offered_bytes;
        }
        sums
    }
}
