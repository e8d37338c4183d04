//! Address translation at the end of a line.

use std::net::{IpAddr, SocketAddr};

use anabranch_units::{Duration, Instant};

/// Behaviour of a translator: one mapping for each socket behind it (RFC 4787's
/// endpoint-independent mapping), open to those whom the socket has called (address- and
/// port-dependent filtering).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nat {
    /// Silence after which a mapping is forgotten. RFC 4787 asks for two minutes; many take 30 s.
    pub timeout: Duration,
}

impl Default for Nat {
    fn default() -> Self {
        Nat {
            timeout: Duration::from_secs(30),
        }
    }
}

#[derive(Debug)]
struct Mapping {
    inside: SocketAddr,
    port: u16,
    called: Vec<SocketAddr>,
    used_at: Instant,
    /// Whether it leads nowhere, though each datagram keeps it.
    is_stuck: bool,
}

#[derive(Debug)]
pub(super) struct NatState {
    pub(super) public: IpAddr,
    config: Nat,
    mappings: Vec<Mapping>,
    next_port: u16,
}

impl NatState {
    pub(super) fn new(public: IpAddr, config: Nat) -> Self {
        NatState {
            public,
            config,
            mappings: Vec::new(),
            next_port: 20_000,
        }
    }

    /// Forgets all mappings: the next datagrams come from other ports.
    pub(super) fn rebind(&mut self) {
        self.mappings.clear();
    }

    /// Makes the present mappings lead nowhere as long as they are used.
    pub(super) fn stick(&mut self) {
        for mapping in &mut self.mappings {
            mapping.is_stuck = true;
        }
    }

    /// Returns the public source of a datagram from behind; `None` if it is lost.
    pub(super) fn outward(
        &mut self,
        now: Instant,
        inside: SocketAddr,
        to: SocketAddr,
    ) -> Option<SocketAddr> {
        let timeout = self.config.timeout;
        self.mappings
            .retain(|mapping| now < mapping.used_at + timeout);
        if self.mappings.iter().all(|mapping| mapping.inside != inside) {
            self.mappings.push(Mapping {
                inside,
                port: self.next_port,
                called: Vec::new(),
                used_at: now,
                is_stuck: false,
            });
            self.next_port = self.next_port.checked_add(1).unwrap_or(20_000);
        }
        let mapping = self
            .mappings
            .iter_mut()
            .find(|mapping| mapping.inside == inside)?;
        mapping.used_at = now;
        if !mapping.called.contains(&to) {
            mapping.called.push(to);
        }
        let public = SocketAddr::new(self.public, mapping.port);
        if mapping.is_stuck { None } else { Some(public) }
    }

    /// Returns the destination behind of a datagram from the Internet; `None` if it is refused.
    pub(super) fn inward(
        &self,
        now: Instant,
        from: SocketAddr,
        to: SocketAddr,
    ) -> Option<SocketAddr> {
        let timeout = self.config.timeout;
        let mut mappings = self.mappings.iter();
        let mapping = mappings.find(|mapping| mapping.port == to.port())?;
        let is_open = now < mapping.used_at + timeout && !mapping.is_stuck;
        (is_open && mapping.called.contains(&from)).then_some(mapping.inside)
    }
}
