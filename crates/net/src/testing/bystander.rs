//! Bystanders: parties that see the datagrams of others and may act.

use std::net::{IpAddr, Ipv4Addr};

use anabranch_units::{Duration, Instant};

use super::packet::Packet;

/// Somebody on the way between two lines, with the addresses 192.0.2.0/24.
pub trait Bystander: Send {
    /// Sees a datagram of others on its way.
    fn see(&mut self, now: Instant, packet: &Packet, hands: &mut Hands);

    /// Receives a datagram at an address of its own.
    fn receive(&mut self, _now: Instant, _packet: &Packet, _hands: &mut Hands) {}
}

/// Fate of a datagram that a bystander sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Fate {
    #[default]
    Passes,
    Held(Duration),
    Dropped,
}

/// The acts of a bystander on one occasion.
#[derive(Debug, Default)]
pub struct Hands {
    pub(super) fate: Fate,
    pub(super) injected: Vec<(Duration, Packet)>,
}

impl Hands {
    /// Sends a datagram, from any address. It arrives after this time, past all lines: a bystander
    /// may be faster than a path.
    pub fn inject(&mut self, after: Duration, packet: Packet) {
        self.injected.push((after, packet));
    }

    /// Holds the datagram that was seen for this time.
    pub fn hold(&mut self, span: Duration) {
        self.fate = Fate::Held(span);
    }

    /// Drops the datagram that was seen.
    pub fn discard(&mut self) {
        self.fate = Fate::Dropped;
    }
}

/// Returns whether an address is a bystander's: 192.0.2.0/24 (RFC 5737).
pub(super) fn is_bystanders(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.octets()[..3] == Ipv4Addr::new(192, 0, 2, 0).octets()[..3],
        IpAddr::V6(_) => false,
    }
}
