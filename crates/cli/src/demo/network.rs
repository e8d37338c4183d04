//! The network of the demo: two emulated links, one of which fails for a while.

use std::net::{Ipv4Addr, SocketAddr};

use anabranch_emu::{RelayConfig, RelayLink};
use anabranch_link::{LinkConfig, LossModel, QueueLimit};
use anabranch_net::Clock;
use anabranch_units::{DataRate, Duration, Instant, Seed};

/// One of the demo's links; both directions are alike.
#[derive(Clone, Copy, Debug)]
pub(super) struct DemoLink {
    pub(super) name: &'static str,
    pub(super) rate: DataRate,
    /// One-way delay.
    pub(super) delay: Duration,
    /// Capacity of the drop-tail queue, as time at the link's rate.
    pub(super) queue: Duration,
}

/// The demo's links; the index is the path's number.
pub(super) const LINKS: [DemoLink; 2] = [
    DemoLink {
        name: "Wi-Fi",
        rate: DataRate::from_megabits_per_second(4),
        delay: Duration::from_millis(20),
        queue: Duration::from_millis(200),
    },
    DemoLink {
        name: "LTE",
        rate: DataRate::from_megabits_per_second(3),
        delay: Duration::from_millis(50),
        queue: Duration::from_millis(300),
    },
];

/// Index of the link that fails.
pub(super) const FAILING: usize = 0;
/// Time at which the link fails.
pub(super) const OUTAGE_AT: Instant = Instant::from_secs(10);
/// Time at which the link is back.
pub(super) const RETURN_AT: Instant = Instant::from_secs(15);
/// Changes of the failing link.
pub(super) const SCRIPT: [(Instant, &str); 2] = [(OUTAGE_AT, "goes down"), (RETURN_AT, "is back")];
/// End of the interval that counts as the outage: one second after the return.
pub(super) const SETTLED_AT: Instant = Instant::from_secs(16);

/// Returns the links' names.
pub(super) fn names() -> Vec<String> {
    LINKS.map(|link| link.name.to_owned()).into()
}

/// Describes an entry of the script.
pub(super) fn scripted(what: &str) -> String {
    format!("the {} link {what}", LINKS[FAILING].name)
}

/// Creates the relay that emulates the links between their senders and `target`. The links lose
/// packets at random with this probability. The outage counts from the origin of `clock`.
pub(super) fn relay(
    target: SocketAddr,
    clock: &Clock,
    seed: Seed,
    loss_probability: f64,
) -> RelayConfig {
    let loss = if loss_probability > 0.0 {
        LossModel::Bernoulli {
            probability: loss_probability,
        }
    } else {
        LossModel::None
    };
    let links = LINKS.iter().enumerate().map(|(index, link)| {
        let outages = if index == FAILING {
            vec![(OUTAGE_AT, RETURN_AT - OUTAGE_AT)]
        } else {
            Vec::new()
        };
        let direction = LinkConfig {
            rate: Some(link.rate),
            delay: link.delay,
            queue: QueueLimit::Time(link.queue),
            outages,
            loss,
            ..LinkConfig::default()
        };
        RelayLink {
            name: link.name.to_owned(),
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            target,
            forward: direction.clone(),
            reverse: direction,
            seed: seed.derive(link.name),
        }
    });
    RelayConfig {
        links: links.collect(),
        origin: Some(clock.origin()),
    }
}
