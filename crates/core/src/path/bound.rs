//! The packets that are bound to a path and wait for its pacer or window.

#[cfg(any(debug_assertions, feature = "invariants"))]
mod invariants;

use std::collections::VecDeque;

use anabranch_units::{Duration, Instant};

use super::Path;
use crate::fragment::FrameId;
use crate::scheduler::{PacketKind, PacketView};

/// Delay with which a driver may wake an endpoint for a packet that was held until a path is ready.
const LATE_WAKE: Duration = Duration::from_millis(2);

/// Packets in the order in which they leave: retransmissions first. Their bytes are summed as they
/// come and go: everybody asks for them after every event.
#[derive(Debug, Default)]
pub(super) struct Bound {
    /// Bytes on the wire of all of them.
    bytes: u64,
    /// Bytes on the wire of the retransmissions.
    retransmission_bytes: u64,
    retransmissions: VecDeque<PacketView>,
    /// First transmissions, and repairs.
    sources: VecDeque<PacketView>,
}

impl Bound {
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Asserts that the sums are consistent: every packet has bytes.
    fn assert_sums(&self) {
        let has_retransmissions = !self.retransmissions.is_empty();
        debug_assert_eq!(self.retransmission_bytes > 0, has_retransmissions);
        debug_assert_eq!(
            self.bytes > 0,
            has_retransmissions || !self.sources.is_empty()
        );
    }

    pub(super) fn retransmission_bytes(&self) -> u64 {
        self.retransmission_bytes
    }

    pub(super) fn push(&mut self, packet: PacketView) {
        self.bytes += u64::from(packet.bytes);
        match packet.kind() {
            PacketKind::Retransmission => {
                self.retransmission_bytes += u64::from(packet.bytes);
                self.retransmissions.push_back(packet);
            }
            PacketKind::Source | PacketKind::Repair => self.sources.push_back(packet),
        }
    }

    /// Puts a packet before all others of its kind.
    pub(super) fn put_first(&mut self, packet: PacketView) {
        self.bytes += u64::from(packet.bytes);
        match packet.kind() {
            PacketKind::Retransmission => {
                self.retransmission_bytes += u64::from(packet.bytes);
                self.retransmissions.push_front(packet);
            }
            PacketKind::Source | PacketKind::Repair => self.sources.push_front(packet),
        }
    }

    /// Returns the packet that leaves next.
    pub(super) fn first(&self) -> Option<&PacketView> {
        self.retransmissions
            .front()
            .or_else(|| self.sources.front())
    }

    pub(super) fn pop(&mut self) -> Option<PacketView> {
        let packet = match self.retransmissions.pop_front() {
            Some(packet) => {
                self.retransmission_bytes -= u64::from(packet.bytes);
                packet
            }
            None => self.sources.pop_front()?,
        };
        self.bytes -= u64::from(packet.bytes);
        self.assert_sums();
        Some(packet)
    }

    pub(super) fn drain(&mut self) -> impl Iterator<Item = PacketView> + '_ {
        (self.bytes, self.retransmission_bytes) = (0, 0);
        self.retransmissions.drain(..).chain(self.sources.drain(..))
    }

    /// Iterates over first transmissions and repairs.
    pub(super) fn sources(&self) -> impl DoubleEndedIterator<Item = &PacketView> {
        self.sources.iter()
    }

    /// Takes them out.
    pub(super) fn take_sources(&mut self) -> Vec<PacketView> {
        self.bytes = self.retransmission_bytes;
        self.sources.drain(..).collect()
    }

    /// Drops all packets of a frame.
    pub(super) fn drop_frame(&mut self, frame: FrameId) {
        let retransmission_bytes = drop_from(&mut self.retransmissions, frame);
        self.retransmission_bytes -= retransmission_bytes;
        self.bytes -= retransmission_bytes + drop_from(&mut self.sources, frame);
        self.assert_sums();
    }

    /// Returns whether another copy of this packet is bound too. The scheduler binds none of
    /// repairs.
    pub(super) fn has_copy_of(&self, packet: &PacketView) -> bool {
        let kind = packet.kind();
        let queue = match kind {
            PacketKind::Source => &self.sources,
            PacketKind::Retransmission => &self.retransmissions,
            PacketKind::Repair => return false,
        };
        let mut last_first = queue.iter().rev();
        last_first.any(|bound| bound.id() == packet.id() && bound.kind() == kind)
    }
}

/// Drops the packets of a frame from a queue. Returns their bytes.
fn drop_from(queue: &mut VecDeque<PacketView>, frame: FrameId) -> u64 {
    let mut dropped_bytes = 0;
    queue.retain(|packet| {
        let is_other = packet.frame != frame;
        if !is_other {
            dropped_bytes += u64::from(packet.bytes);
        }
        is_other
    });
    dropped_bytes
}

impl Path {
    /// Binds a packet to this path. `held_since` is the time since which the scheduler has held
    /// packets: a path that a driver woke a little late for them was not idle.
    pub(crate) fn bind(&mut self, now: Instant, packet: PacketView, held_since: Option<Instant>) {
        if !self.has_bound() && !self.is_woken_late(now, held_since) {
            self.leave_idleness(now);
        }
        self.bound.push(packet);
    }

    /// Binds a packet to this path, which has not stood idle.
    pub(crate) fn bind_next(&mut self, packet: PacketView) {
        self.bound.push(packet);
    }

    /// Returns whether the driver wakes this path a little late for packets held since
    /// `held_since`.
    pub(crate) fn is_woken_late(&self, now: Instant, held_since: Option<Instant>) -> bool {
        let ready_at = self.ready_at();
        held_since.is_some_and(|since| since <= ready_at)
            && now.saturating_since(ready_at) <= LATE_WAKE
    }

    /// Takes all bound packets back.
    pub(crate) fn unbind_all(&mut self) -> impl Iterator<Item = PacketView> + '_ {
        self.bound.drain()
    }

    /// Iterates over bound first transmissions, and repairs, in the order in which they leave.
    pub(crate) fn bound_sources(&self) -> impl DoubleEndedIterator<Item = &PacketView> {
        self.bound.sources()
    }

    /// Takes them back.
    pub(crate) fn unbind_sources(&mut self) -> Vec<PacketView> {
        self.bound.take_sources()
    }

    /// Returns whether a copy of this fragment waits here.
    pub(crate) fn has_bound_copy_of(&self, packet: &PacketView) -> bool {
        self.bound.has_copy_of(packet)
    }

    /// Drops all bound packets of a frame.
    pub(crate) fn unbind_frame(&mut self, frame: FrameId) {
        self.bound.drop_frame(frame);
    }

    /// Returns the bound packet that leaves next.
    pub(crate) fn first_bound(&self) -> Option<&PacketView> {
        self.bound.first()
    }

    /// Takes it out.
    pub(crate) fn pop_first_bound(&mut self) -> Option<PacketView> {
        self.bound.pop()
    }

    /// Takes the next bound packet, if pacer and window let it go now.
    pub(crate) fn pop_bound(&mut self, now: Instant) -> Option<PacketView> {
        if !self.has_bound() || self.ready_at() > now {
            return None;
        }
        if !self.has_window() {
            self.is_window_limited = true;
            return None;
        }
        self.bound.pop()
    }

    pub(crate) fn has_bound(&self) -> bool {
        self.bound.bytes() > 0
    }

    pub(crate) fn queued_bytes(&self) -> u64 {
        self.bound.bytes()
    }

    /// Returns the bytes on the wire of bound retransmissions, which leave first.
    pub(crate) fn bound_retransmission_bytes(&self) -> u64 {
        self.bound.retransmission_bytes()
    }
}

#[cfg(test)]
mod tests {
    use anabranch_units::Importance;

    use super::*;
    use crate::path_view::PathSet;
    use crate::send_reason::SendReason;

    #[test]
    fn taking_back_leaves_retransmissions() {
        fn packet(frame: u64, reason: SendReason) -> PacketView {
            PacketView {
                frame: FrameId(frame),
                fragment: 0,
                fragment_count: 1,
                reason,
                importance: Importance::Reference,
                bytes: 1_000,
                deadline: None,
                in_flight_on: PathSet::EMPTY,
                avoid: PathSet::EMPTY,
            }
        }
        let mut bound = Bound::default();
        bound.push(packet(1, SendReason::New));
        bound.push(packet(0, SendReason::Lost));
        bound.push(packet(2, SendReason::New));
        let taken: Vec<u64> = bound.take_sources().iter().map(|one| one.frame.0).collect();
        assert_eq!(taken, [1, 2]);
        assert_eq!(
            (bound.bytes(), bound.retransmission_bytes()),
            (1_000, 1_000)
        );
        assert_eq!(bound.pop().map(|one| one.frame), Some(FrameId(0)));
        assert_eq!((bound.bytes(), bound.pop()), (0, None));
    }

    #[test]
    fn a_copy_of_a_retransmission_is_seen_as_one_of_a_source_is() {
        for reason in [SendReason::New, SendReason::PathOut] {
            let packet = PacketView {
                frame: FrameId(1),
                fragment: 2,
                fragment_count: 3,
                reason,
                importance: Importance::Reference,
                bytes: 1_000,
                deadline: None,
                in_flight_on: PathSet::EMPTY,
                avoid: PathSet::EMPTY,
            };
            let mut bound = Bound::default();
            assert!(!bound.has_copy_of(&packet), "{reason}");
            bound.push(packet);
            assert!(bound.has_copy_of(&packet), "{reason}");
            let other = PacketView {
                fragment: 1,
                ..packet
            };
            assert!(!bound.has_copy_of(&other), "{reason}");
        }
    }
}
