//! Lines: the ways from machines to the Internet and back, with their routers and firewalls.

use std::collections::BTreeMap;
use std::net::IpAddr;

use anabranch_link::{Link, LinkConfig, LossModel, Packet as LinkPacket, QueueLimit};
use anabranch_units::{DataRate, Duration, Instant, Seed};

use super::fabric::{Due, State};
use super::nat::{Nat, NatState};
use super::packet::Packet;

/// Set-up of a line. The Internet between two lines takes no time: a path's delay is that of its
/// two lines.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Link to the Internet.
    pub up: LinkConfig,
    /// Link from the Internet.
    pub down: LinkConfig,
    /// Address translation at the end of the line; `None`: the machine's address is public.
    pub nat: Option<Nat>,
    /// Longest IP packets of the interface in bytes: it refuses longer ones. Links may have shorter
    /// limits, and drop silently.
    pub mtu: u32,
    /// Whether the interface's address is one of IPv6.
    pub is_ipv6: bool,
}

impl Line {
    /// Returns a line of `rate` and one-way `delay` in both directions, with a queue of 200 ms.
    pub fn new(rate: DataRate, delay: impl Into<Duration>) -> Line {
        let link = LinkConfig {
            rate: Some(rate),
            delay: delay.into(),
            queue: QueueLimit::Time(Duration::from_millis(200)),
            ..LinkConfig::default()
        };
        Line {
            up: link.clone(),
            down: link,
            nat: None,
            mtu: 1_500,
            is_ipv6: false,
        }
    }

    /// Gives the interface an address of IPv6, and none of IPv4.
    #[must_use]
    pub fn over_ipv6(mut self) -> Line {
        self.is_ipv6 = true;
        self
    }

    /// Loses this share of the packets of both directions, each independently.
    #[must_use]
    pub fn with_loss(mut self, probability: f64) -> Line {
        self.up.loss = LossModel::Bernoulli { probability };
        self.down.loss = self.up.loss;
        self
    }

    /// Puts the machine behind a translator of addresses.
    #[must_use]
    pub fn behind(mut self, nat: Nat) -> Line {
        self.nat = Some(nat);
        self
    }
}

/// Direction on a line, in the machine's view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Up,
    Down,
}

pub(super) struct LineState {
    pub(super) machine: usize,
    pub(super) name: String,
    /// Address of the machine's interface.
    pub(super) address: IpAddr,
    pub(super) nat: Option<NatState>,
    pub(super) is_plugged: bool,
    /// Whether a firewall drops UDP, and TCP.
    pub(super) blocks_udp: bool,
    pub(super) blocks_tcp: bool,
    /// Whether the machine's own firewall refuses to send (EPERM).
    pub(super) refuses: bool,
    pub(super) mtu: u32,
    /// Delay and rate of TCP's bytes, up and down.
    pub(super) tcp: [(Duration, Option<DataRate>); 2],
    /// Time until which no TCP connection moves.
    pub(super) tcp_stalled_until: Instant,
    links: [Link; 2],
    due_at: [Option<Instant>; 2],
    pub(super) packets: BTreeMap<u64, Packet>,
}

impl LineState {
    /// # Panics
    /// If a link's set-up is wrong.
    pub(super) fn new(
        machine: usize,
        name: &str,
        line: &Line,
        [inside, public]: [IpAddr; 2],
        seed: Seed,
    ) -> Self {
        LineState {
            machine,
            name: name.to_owned(),
            address: if line.nat.is_some() { inside } else { public },
            nat: line.nat.map(|nat| NatState::new(public, nat)),
            is_plugged: true,
            blocks_udp: false,
            blocks_tcp: false,
            refuses: false,
            mtu: line.mtu,
            tcp: [&line.up, &line.down].map(|link| (link.delay, link.rate)),
            tcp_stalled_until: Instant::ZERO,
            links: [
                build(&line.up, seed.derive("up")),
                build(&line.down, seed.derive("down")),
            ],
            due_at: [None; 2],
            packets: BTreeMap::new(),
        }
    }

    /// Returns whether TCP connections move now.
    pub(super) fn carries_tcp(&self, now: Instant) -> bool {
        self.is_plugged && !self.blocks_tcp && now >= self.tcp_stalled_until
    }

    /// Returns the address in the Internet.
    pub(super) fn public(&self) -> IpAddr {
        self.nat.as_ref().map_or(self.address, |nat| nat.public)
    }

    /// Takes a datagram from the Internet: through the firewall and the translator.
    pub(super) fn admit(&mut self, now: Instant, mut packet: Packet) -> Option<Packet> {
        if self.blocks_udp {
            return None;
        }
        if let Some(nat) = &self.nat {
            packet.to = nat.inward(now, packet.from, packet.to)?;
        }
        Some(packet)
    }

    /// Takes a datagram from the machine into the Internet.
    fn emit(&mut self, now: Instant, mut packet: Packet) -> Option<Packet> {
        if self.blocks_udp {
            return None;
        }
        if let Some(nat) = &mut self.nat {
            packet.from = nat.outward(now, packet.from, packet.to)?;
        }
        Some(packet)
    }

    pub(super) fn link_mut(&mut self, way: Way) -> &mut Link {
        &mut self.links[way as usize]
    }
}

/// # Panics
/// If the set-up is wrong.
fn build(link: &LinkConfig, seed: Seed) -> Link {
    let link = link.build_changeable(seed);
    link.expect("the set-up of a link must be valid")
}

impl State {
    /// Puts a datagram on a line.
    pub(super) fn push(&mut self, line: usize, way: Way, packet: Packet) {
        let (now, id) = (self.now, self.number());
        let pushed = LinkPacket {
            ecn: packet.ecn,
            id,
            ..LinkPacket::of_size(packet.wire_bytes())
        };
        let state = &mut self.lines[line];
        if state.link_mut(way).push(now, pushed).is_ok() {
            state.packets.insert(id, packet);
        }
        self.plan(line, way);
    }

    /// Schedules the line's next event.
    pub(super) fn plan(&mut self, line: usize, way: Way) {
        let state = &mut self.lines[line];
        let due_at = state.due_at[way as usize];
        let Some(next_at) = state.links[way as usize].next_at() else {
            return;
        };
        if due_at.is_none_or(|due_at| next_at < due_at) {
            state.due_at[way as usize] = Some(next_at);
            self.schedule(next_at, Due::Line(line, way));
        }
    }

    /// Takes the packets that have left a line, or were lost on it.
    pub(super) fn advance_line(&mut self, line: usize, way: Way) {
        let now = self.now;
        let state = &mut self.lines[line];
        if state.due_at[way as usize].is_none_or(|at| at > now) {
            return;
        }
        state.due_at[way as usize] = None;
        let mut left = Vec::new();
        while let Some(popped) = state.links[way as usize].pop(now) {
            if let Some(mut packet) = state.packets.remove(&popped.id) {
                packet.ecn = popped.ecn;
                left.push(packet);
            }
        }
        while let Some(dropped) = state.links[way as usize].take_dropped() {
            state.packets.remove(&dropped.packet.id);
        }
        for packet in left {
            match way {
                Way::Down => self.arrive(line, packet),
                Way::Up => {
                    if let Some(packet) = self.lines[line].emit(now, packet) {
                        self.cross(packet);
                    }
                }
            }
        }
        self.plan(line, way);
    }
}
