//! Bystanders: parties that see the datagrams of others and may act. Strangers: parties that only
//! send and receive.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use anabranch_units::{Duration, Ecn, Instant};

use super::fabric::{Due, Fabric};
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

/// A party with an address of 192.0.2.0/24 and no line, which sends datagrams of its own and keeps
/// the answers.
#[derive(Debug)]
pub struct Stranger {
    fabric: Fabric,
    address: SocketAddr,
}

impl Stranger {
    pub(super) fn new(fabric: &Fabric, port: u16) -> Self {
        let address = SocketAddr::from(([192, 0, 2, 1], port));
        fabric.lock().strangers.insert(address, Vec::new());
        let fabric = fabric.clone();
        Stranger { fabric, address }
    }

    /// Returns its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends a datagram.
    pub fn send(&self, to: SocketAddr, bytes: &[u8]) {
        let packet = Packet {
            from: self.address,
            to,
            ecn: Ecn::NotEct,
            bytes: bytes.to_vec(),
        };
        let mut state = self.fabric.lock();
        let now = state.now;
        state.schedule(now, Due::Inject(packet));
    }

    /// Takes the datagrams that have come to its address.
    pub fn take(&self) -> Vec<Vec<u8>> {
        let received = self.take_with_sources().into_iter();
        received.map(|(_, bytes)| bytes).collect()
    }

    /// Takes the datagrams that have come to its address, each with its source.
    pub fn take_with_sources(&self) -> Vec<(SocketAddr, Vec<u8>)> {
        let mut state = self.fabric.lock();
        let received = state.strangers.get_mut(&self.address);
        received.map(core::mem::take).unwrap_or_default()
    }
}

/// Returns whether an address is a bystander's: 192.0.2.0/24 (RFC 5737).
pub(super) fn is_bystanders(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.octets()[..3] == Ipv4Addr::new(192, 0, 2, 0).octets()[..3],
        IpAddr::V6(_) => false,
    }
}
