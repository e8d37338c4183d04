//! Largest packet size of a path: Datagram Packetization Layer Path MTU Discovery.
//!
//! RFC 8899 (September 2020), §4 and §5, in the manner of RFC 9000 §14. Sizes are those of IP
//! packets, headers included.
//!
//! A path starts with a base that every network carries. A *probe* is a larger packet of padding:
//! when it is acknowledged, the path carries its size. The loss of a probe says nothing about
//! congestion.
//!
//! *Deviations*
//! - The largest size is tried first, since most paths carry 1500 B; then sizes that networks have
//!   (RFC 8899 §5.3.2 leaves the choice open). Between base and maximum that is at most five sizes.
//! - A black hole (§4.3) is detected by the content's own packets, and not by a timer's probes:
//!   three full-size packets in a row are lost while later, smaller ones arrive. A stream's
//!   retransmission timeout also counts as one.
//! - A path that does not carry the base either is recognised, so that the driver can warn. The
//!   search does not go below the base.
//! - ICMP messages are ignored, since anyone may forge them. An interface's own refusal is
//!   believed.

use anabranch_units::{Duration, Instant};

use super::packet::{PacketContent, SentPacket};

/// Sizes that networks carry: Ethernet, PPPoE, tunnels of several kinds, IPv6's minimum.
const COMMON_SIZES: [u32; 13] = [
    1_280, 1_300, 1_320, 1_340, 1_360, 1_380, 1_400, 1_420, 1_440, 1_460, 1_480, 1_492, 1_500,
];
/// Maximum number of probes of one size (RFC 8899 §5.1.2: MAX_PROBES).
const MAX_PROBES: u8 = 3;
/// Time from the loss of a probe to the next one, so that one queue does not take all of them.
const PROBE_INTERVAL: Duration = Duration::from_millis(200);
/// Longest time between two probes of a path that is silent (chosen), and the number of doublings
/// of [`PROBE_INTERVAL`] that exceeds it.
const MAX_SILENT_INTERVAL: Duration = Duration::from_secs(15);
const MAX_DOUBLINGS: u32 = 7;
/// When a finished search starts again (RFC 8899 §5.1.1: PMTU_RAISE_TIMER).
const RAISE_INTERVAL: Duration = Duration::from_secs(600);
/// Number of full-size packets lost in a row, without smaller ones, that make a black hole. RFC
/// 8899 §4.3 leaves the number open; a mistake costs smaller packets for about one round trip.
const BLACK_HOLE_LOSSES: u8 = 3;
/// Losses in a row of the content's longest packets, none of which is above the base, after which
/// the path counts as one that does not carry them. Chosen: half of all packets lost at random do
/// that once in 10⁹ packets.
const BASE_LOSSES: u8 = 30;
/// Shorter packets that have to arrive among these losses: a path that carries nothing is not one
/// with a small MTU. Chosen.
const SHORTER_ARRIVALS: u8 = 5;
/// Packets are full-size if they are at most this much shorter than the longest: headers vary.
const FULL_SIZE_TOLERANCE: u32 = 64;

/// Parameters of the search for the paths' MTU. Sizes are those of IP packets, headers included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MtuDiscovery {
    /// Packet size that every path is assumed to carry (RFC 8899 §5.1.2: BASE_PLPMTU).
    pub base_bytes: u32,
    /// The largest size that is tried.
    pub max_bytes: u32,
    /// Fragments that are shorter than [`fragment_bytes`](crate::Config::fragment_bytes) are
    /// multiples of this if they can: 188 for MPEG-TS.
    pub unit_bytes: u16,
}

impl MtuDiscovery {
    /// Returns a search from 1200 B of UDP payload (RFC 9000 §14) with `header_bytes` of IP and UDP
    /// to 1500 B.
    pub const fn of_internet(header_bytes: u32) -> Self {
        MtuDiscovery {
            base_bytes: 1_200 + header_bytes,
            max_bytes: 1_500,
            unit_bytes: 188,
        }
    }
}

/// The state of one path's search.
#[derive(Clone, Debug)]
pub(crate) struct PathMtu {
    limits: MtuDiscovery,
    /// The largest size that the path is known to carry.
    carried: u32,
    /// The least size that it is believed not to carry.
    refused: u32,
    /// The size of the probe that is in flight.
    probe: Option<u32>,
    /// Number of lost probes of the present size.
    lost_probes: u8,
    /// Number of probes in a row that the path's silence took.
    silent_probes: u32,
    next_probe_at: Instant,
    /// The longest packet of media since the last black hole.
    full_bytes: u32,
    /// The newest full-size packet that has arrived.
    newest_full: Option<u64>,
    /// Number of lost full-size packets that were sent after it.
    full_losses: u8,
    base: BaseWatch,
}

/// Evidence on whether a path carries packets of the base size.
#[derive(Clone, Copy, Debug, Default)]
struct BaseWatch {
    /// The longest packet of the content that is not above the base.
    longest_bytes: u32,
    /// Packets of about this length that were lost since one of them arrived.
    losses: u8,
    /// Shorter ones that arrived among these losses.
    shorter_arrivals: u8,
    /// Whether the interface has refused the base size.
    is_refused: bool,
}

impl BaseWatch {
    fn is_long(&mut self, packet: &SentPacket) -> bool {
        if packet.bytes > self.longest_bytes + FULL_SIZE_TOLERANCE {
            *self = BaseWatch {
                longest_bytes: packet.bytes,
                is_refused: self.is_refused,
                ..BaseWatch::default()
            };
        }
        self.longest_bytes = self.longest_bytes.max(packet.bytes);
        packet.bytes + FULL_SIZE_TOLERANCE >= self.longest_bytes
    }

    fn on_acked(&mut self, packet: &SentPacket) {
        if self.is_long(packet) {
            (self.losses, self.shorter_arrivals) = (0, 0);
            self.is_refused = false;
        } else if self.losses > 0 {
            self.shorter_arrivals = self.shorter_arrivals.saturating_add(1);
        }
    }

    fn on_lost(&mut self, packet: &SentPacket) {
        if self.is_long(packet) {
            self.losses = self.losses.saturating_add(1);
        }
    }

    fn is_too_large(&self) -> bool {
        let is_lost = self.losses >= BASE_LOSSES && self.shorter_arrivals >= SHORTER_ARRIVALS;
        self.is_refused || is_lost
    }
}

impl PathMtu {
    pub(crate) fn new(limits: MtuDiscovery, now: Instant) -> Self {
        PathMtu {
            limits,
            carried: limits.base_bytes,
            refused: u32::MAX,
            probe: None,
            lost_probes: 0,
            silent_probes: 0,
            next_probe_at: now,
            full_bytes: 0,
            newest_full: None,
            full_losses: 0,
            base: BaseWatch::default(),
        }
    }

    /// Returns the largest size that the path is known to carry.
    pub(crate) fn carried(&self) -> u32 {
        self.carried
    }

    /// Returns the same, once there is nothing left to try; `None` if the path does not carry the
    /// base.
    pub(crate) fn found(&self) -> Option<u32> {
        let is_over = self.probe.is_none() && self.candidate().is_none();
        (is_over && !self.is_below_base()).then_some(self.carried)
    }

    /// Returns whether the path is known not to carry the base size.
    pub(crate) fn is_below_base(&self) -> bool {
        self.base.is_too_large()
    }

    /// Returns when the next probe may leave; `None` while one is in flight, or if no larger size
    /// is left to try.
    pub(crate) fn probe_at(&self) -> Option<Instant> {
        let is_wanted = self.probe.is_none() && self.carried < self.limits.max_bytes;
        is_wanted.then_some(self.next_probe_at)
    }

    /// Returns the size of the probe that is due, if any.
    pub(crate) fn due_probe(&mut self, now: Instant) -> Option<u32> {
        if self.probe.is_some() || self.next_probe_at > now {
            return None;
        }
        if self.candidate().is_none() && self.carried < self.limits.max_bytes {
            self.refused = u32::MAX;
            self.next_probe_at = now + RAISE_INTERVAL;
        }
        self.candidate()
    }

    pub(crate) fn on_probe_sent(&mut self, bytes: u32) {
        self.probe = Some(bytes);
    }

    pub(super) fn on_acked(&mut self, now: Instant, packet: &SentPacket) {
        if packet.content == PacketContent::MtuProbe {
            self.probe = None;
            self.lost_probes = 0;
            self.silent_probes = 0;
            if packet.bytes > self.carried {
                self.carried = packet.bytes;
                self.next_probe_at = now;
                if self.refused <= self.carried {
                    self.refused = u32::MAX;
                }
                self.record_end(now);
            }
        } else if self.is_full(packet) {
            self.newest_full = self.newest_full.max(Some(packet.packet_number));
            self.full_losses = 0;
        }
        if self.is_contents(packet) {
            self.base.on_acked(packet);
        }
    }

    /// Handles a lost packet. `is_silence` is true if the path's silence took it, and not its size.
    pub(super) fn on_lost(&mut self, now: Instant, packet: &SentPacket, is_silence: bool) {
        if packet.content == PacketContent::MtuProbe {
            if self.probe.take() != Some(packet.bytes) {
                return;
            }
            self.silent_probes = if is_silence {
                self.silent_probes.saturating_add(1)
            } else {
                0
            };
            self.next_probe_at = now + self.probe_interval();
            self.lost_probes += u8::from(!is_silence);
            if self.lost_probes == MAX_PROBES {
                self.refuse(now, packet.bytes);
            }
        } else if !is_silence && self.is_full(packet) && self.is_newer(packet) {
            self.full_losses += 1;
            if self.full_losses == BLACK_HOLE_LOSSES {
                self.fall(now);
            }
        }
        if !is_silence && self.is_contents(packet) {
            self.base.on_lost(packet);
        }
    }

    /// Records that the interface refuses packets of this size.
    pub(crate) fn on_too_large(&mut self, now: Instant, bytes: u32) {
        self.probe.take_if(|probe| *probe >= bytes);
        self.base.is_refused |= bytes <= self.limits.base_bytes;
        if self.carried >= bytes {
            self.fall(now);
        }
        self.next_probe_at = now;
        self.refuse(now, bytes);
    }

    /// Handles a timeout of all packets in flight. Nothing else shows whether their size is to
    /// blame: a stream sends full-size packets alone.
    pub(crate) fn on_retransmission_timeout(&mut self, now: Instant) {
        if self.carried > self.limits.base_bytes {
            self.fall(now);
        }
        self.next_probe_at = self.next_probe_at.max(now + PROBE_INTERVAL);
    }

    /// Returns the next size to try: the largest of all, then the middle one of the remaining
    /// sizes.
    fn candidate(&self) -> Option<u32> {
        let max = self.limits.max_bytes;
        if self.refused > max {
            return (max > self.carried).then_some(max);
        }
        let mut left = COMMON_SIZES
            .into_iter()
            .filter(|size| *size < max && *size > self.carried && *size < self.refused);
        left.nth(left.clone().count() / 2)
    }

    /// Returns the time between two probes: it doubles with each one that silence took.
    fn probe_interval(&self) -> Duration {
        let doublings = self.silent_probes.saturating_sub(1).min(MAX_DOUBLINGS);
        (PROBE_INTERVAL * (1 << doublings)).min(MAX_SILENT_INTERVAL)
    }

    fn refuse(&mut self, now: Instant, bytes: u32) {
        self.lost_probes = 0;
        self.refused = self.refused.min(bytes);
        self.record_end(now);
    }

    fn record_end(&mut self, now: Instant) {
        if self.candidate().is_none() {
            self.next_probe_at = now + RAISE_INTERVAL;
        }
    }

    /// Returns to the base and restarts the search: the path no longer carries the size found.
    fn fall(&mut self, now: Instant) {
        self.carried = self.limits.base_bytes;
        self.refused = u32::MAX;
        self.lost_probes = 0;
        self.next_probe_at = now;
        self.full_bytes = 0;
        self.newest_full = None;
        self.full_losses = 0;
    }

    /// Returns whether the packet is of full size, which is above the base.
    fn is_full(&mut self, packet: &SentPacket) -> bool {
        if packet.bytes <= self.limits.base_bytes || packet.bytes > self.carried {
            return false;
        }
        self.full_bytes = self.full_bytes.max(packet.bytes);
        packet.bytes + FULL_SIZE_TOLERANCE >= self.full_bytes
    }

    /// Returns whether the packet belongs to the content and is not above the base.
    fn is_contents(&self, packet: &SentPacket) -> bool {
        packet.content != PacketContent::MtuProbe && packet.bytes <= self.limits.base_bytes
    }

    fn is_newer(&self, packet: &SentPacket) -> bool {
        Some(packet.packet_number) > self.newest_full
    }
}

#[cfg(test)]
mod tests;
