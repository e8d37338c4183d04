//! One direction of a link: datagrams in, a link, datagrams out.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;

use anabranch_link::{
    DropCause, Dropped, Link, LinkChange, LinkConfigError, LinkStatistics, Packet,
};
use anabranch_units::{Duration, Ecn, Instant};

#[cfg(target_os = "linux")]
use crate::ip::IpHeader;
use crate::socket::Arrival;

/// Maximum payload that a direction holds. A real buffer of that size is a misconfiguration, and a
/// link without a limit would take all memory.
const MAX_HELD_BYTES: usize = 64 << 20;

/// Payload allocations kept for later datagrams.
const MAX_SPARE_COUNT: usize = 1_024;

/// Counters of the datagrams of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectionStatistics {
    /// Statistics of the link. Its instants count from the relay's start or its origin, whichever
    /// was earlier.
    pub link: LinkStatistics,
    /// Datagrams refused before the link because the relay held 64 MiB already.
    pub overflow_packets: u64,
    /// Datagrams that left the link and that the operating system refused.
    pub unsent_packets: u64,
}

/// A datagram in a link's view.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived<'a> {
    payload: &'a [u8],
    ecn: Ecn,
    flow: u32,
}

impl<'a> Arrived<'a> {
    /// Makes an arrived datagram of the start of `buffer`. Every source, address and port, is a
    /// flow of its own.
    pub(crate) fn new(arrival: &Arrival, buffer: &'a [u8]) -> Self {
        Arrived {
            payload: &buffer[..arrival.len],
            ecn: arrival.ecn,
            flow: flow_key(arrival.from),
        }
    }

    /// Makes an arrived packet of IP, whose headers are part of it.
    #[cfg(target_os = "linux")]
    pub(crate) fn of_ip(packet: &'a [u8], header: &IpHeader) -> Self {
        Arrived {
            payload: packet,
            ecn: header.ecn,
            flow: header.flow,
        }
    }
}

/// A datagram that is due.
#[derive(Debug)]
pub(crate) struct Due<'a> {
    pub(crate) payload: &'a mut [u8],
    pub(crate) ecn: Ecn,
    #[cfg_attr(
        not(target_os = "linux"),
        allow(dead_code, reason = "for packets of IP")
    )]
    pub(crate) arrived_at: Instant,
    #[cfg_attr(
        not(target_os = "linux"),
        allow(dead_code, reason = "for packets of IP")
    )]
    pub(crate) due_at: Instant,
}

/// A datagram on a link.
#[derive(Debug, Default)]
struct Held {
    payload: Vec<u8>,
    arrived_at: Instant,
}

fn flow_key(source: SocketAddr) -> u32 {
    let mut hasher = DefaultHasher::new();
    source.hash(&mut hasher);
    // Either half of a good hash is a good hash.
    hasher.finish() as u32
}

/// A link with the datagrams on it.
#[derive(Debug)]
pub(crate) struct Direction {
    link: Link,
    header_bytes: u32,
    held_bytes: usize,
    /// Datagrams by the packet's [`Packet::id`].
    held: Vec<Held>,
    /// Indices in `held` without a packet.
    vacant: Vec<u64>,
    overflow_packets: u64,
    unsent_packets: u64,
}

impl Direction {
    /// Creates a direction in which IP and UDP add `header_bytes` to each datagram on the wire.
    pub(crate) fn new(link: Link, header_bytes: u32) -> Self {
        Direction {
            link,
            header_bytes,
            held_bytes: 0,
            held: Vec::new(),
            vacant: Vec::new(),
            overflow_packets: 0,
            unsent_packets: 0,
        }
    }

    /// Takes in a datagram that arrived at `now`. Returns the cause if the link drops it at once.
    pub(crate) fn receive(&mut self, now: Instant, arrived: &Arrived<'_>) -> Option<DropCause> {
        let payload = arrived.payload;
        if self.held_bytes + payload.len() > MAX_HELD_BYTES {
            self.overflow_packets += 1;
            return None;
        }
        self.held_bytes += payload.len();
        let id = self.vacant.pop().unwrap_or_else(|| {
            self.held.push(Held::default());
            self.held.len() as u64 - 1
        });
        let held = &mut self.held[id as usize];
        held.payload.extend_from_slice(payload);
        held.arrived_at = now;
        let size_bytes = payload.len() as u32 + self.header_bytes;
        let packet = Packet {
            id,
            ecn: arrived.ecn,
            flow: arrived.flow,
            ..Packet::of_size(size_bytes)
        };
        let dropped = self.link.push(now, packet).err()?;
        self.forget(dropped.packet.id);
        Some(dropped.cause)
    }

    /// Changes the link at `now`.
    ///
    /// # Errors
    /// The change is not valid for this link.
    pub(crate) fn change(
        &mut self,
        now: Instant,
        change: LinkChange,
    ) -> Result<(), LinkConfigError> {
        self.link.change(now, change)
    }

    /// Hands all datagrams due by `now` to `send`, which returns whether it could send them.
    pub(crate) fn send_due(&mut self, now: Instant, mut send: impl FnMut(Due<'_>) -> bool) {
        let after_now = now + Duration::from_nanos(1);
        while let Some((due_at, packet)) = self.link.pop_before(now, after_now) {
            let held = &mut self.held[packet.id as usize];
            let due = Due {
                payload: &mut held.payload,
                ecn: packet.ecn,
                arrived_at: held.arrived_at,
                due_at,
            };
            if !send(due) {
                self.unsent_packets += 1;
            }
            self.forget(packet.id);
        }
    }

    /// Releases the next datagram that the link took in and lost later, and returns its packet.
    pub(crate) fn take_dropped(&mut self) -> Option<Dropped> {
        let dropped = self.link.take_dropped()?;
        self.forget(dropped.packet.id);
        Some(dropped)
    }

    /// Releases the packet's payload; a few allocations are kept for later ones.
    fn forget(&mut self, id: u64) {
        let payload = &mut self.held[id as usize].payload;
        self.held_bytes -= payload.len();
        if self.vacant.len() < MAX_SPARE_COUNT {
            payload.clear();
        } else {
            *payload = Vec::new();
        }
        self.vacant.push(id);
    }

    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.link.next_at()
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn mtu(&self, now: Instant) -> Option<u32> {
        self.link.mtu(now)
    }

    pub(crate) fn statistics(&mut self, now: Instant) -> DirectionStatistics {
        DirectionStatistics {
            link: self.link.statistics(now),
            overflow_packets: self.overflow_packets,
            unsent_packets: self.unsent_packets,
        }
    }
}

/// Counters of one link of a relay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelayLinkStatistics {
    /// Direction from the client to the target.
    pub forward: DirectionStatistics,
    /// Direction from the target to the client.
    pub reverse: DirectionStatistics,
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_link::LinkConfig;
    use anabranch_units::{Duration, Seed};

    #[test]
    fn memory_is_bounded_and_given_back() {
        let config = LinkConfig {
            delay: Duration::from_secs(1),
            ..LinkConfig::default()
        };
        let mut direction = Direction::new(config.build(Seed(1)).expect("valid"), 28);
        let payload = vec![7; 1 << 20];
        let arrived = Arrived {
            payload: &payload,
            ecn: Ecn::Ect0,
            flow: 7,
        };
        for _ in 0..70 {
            assert_eq!(direction.receive(Instant::ZERO, &arrived), None);
        }
        assert_eq!(direction.statistics(Instant::ZERO).overflow_packets, 6);

        let mut sent_count = 0;
        direction.send_due(Instant::from_secs(2), |due| {
            sent_count += 1;
            let expected = (Instant::ZERO, Instant::from_secs(1));
            assert_eq!((due.arrived_at, due.due_at), expected);
            (&due.payload[..], due.ecn) == (&payload[..], Ecn::Ect0) && sent_count > 1
        });
        assert_eq!((sent_count, direction.held_bytes), (64, 0));
        direction.receive(Instant::from_secs(2), &arrived);
        let statistics = direction.statistics(Instant::from_secs(2));
        assert_eq!(
            (statistics.unsent_packets, statistics.link.held_packets),
            (1, 1)
        );
        assert_eq!(statistics.link.offered_bytes, 65 * ((1 << 20) + 28));
    }
}
