//! Queue for a path: packets for the scheduler, and repairs.

use super::{Repairs, SendBuffer, State};
use crate::fragment::FrameId;
use crate::scheduler::{PacketKind, PacketView};
use crate::send_reason::SendReason;

impl SendBuffer {
    /// Returns whether anything waits for a path.
    pub(crate) fn has_waiting(&self) -> bool {
        let repairs = self.repairs.as_deref();
        !self.waiting.is_empty() || repairs.is_some_and(Repairs::has_unbound)
    }

    /// Returns the packets that wait for the scheduler.
    pub(crate) fn waiting(&self) -> &[PacketView] {
        &self.waiting
    }

    /// Returns the bytes on the wire of all packets that wait for a path.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        let bytes = self.waiting.iter().map(|packet| u64::from(packet.bytes));
        let repairs = self.repairs.as_deref();
        bytes.sum::<u64>() + repairs.map_or(0, Repairs::unbound_bytes)
    }

    /// Takes out of the waiting packets those that `is_bound` names by index.
    pub(crate) fn retain_waiting(&mut self, mut is_bound: impl FnMut(usize) -> bool) {
        let mut index = 0;
        self.waiting.retain(|_| {
            index += 1;
            !is_bound(index - 1)
        });
    }

    /// Returns whether a copy of the packet's fragment is in flight or has arrived.
    pub(crate) fn has_left(&self, packet: &PacketView) -> bool {
        let frame = self.frame(packet.frame);
        frame.is_none_or(|frame| {
            let state = &frame.fragments[usize::from(packet.fragment)];
            state.state == State::Arrived || !state.in_flight_on.is_empty()
        })
    }

    /// Returns the reason of a packet that leaves now: the first copy of a fragment is new,
    /// whatever it was bound for.
    pub(crate) fn reason_of(&self, packet: &PacketView) -> SendReason {
        let frame = self.frame(packet.frame);
        let is_copy =
            frame.is_some_and(|frame| frame.fragments[usize::from(packet.fragment)].has_left);
        match (packet.kind(), packet.reason) {
            (PacketKind::Source, _) if !is_copy => SendReason::New,
            (PacketKind::Source, SendReason::New) => SendReason::Duplicate,
            (_, reason) => reason,
        }
    }

    /// Handles a bound packet that was dropped: it waits no more, and a loss of another copy is
    /// judged again.
    pub(crate) fn on_dropped(&mut self, packet: &PacketView) {
        if packet.kind() == PacketKind::Retransmission {
            self.set_state(packet.id(), State::Sent);
        }
    }

    /// Takes back a packet that was bound to a path: the path has died or is suspect, or another
    /// is faster. One of the scheduler's copies is dropped if another copy has left or waits
    /// already: the outcome of the one that has left decides about a retransmission.
    pub(crate) fn unbind(&mut self, packet: PacketView) {
        if packet.kind() != PacketKind::Source {
            return self.take_back(packet);
        }
        let is_waiting = packet.reason.is_scheduled_copy() && self.is_waiting(&packet);
        let has_left = self.frame(packet.frame).is_none_or(|frame| {
            let state = &frame.fragments[usize::from(packet.fragment)];
            state.state == State::Arrived || state.has_left
        });
        if !has_left && !is_waiting {
            self.take_back(packet);
        }
    }

    fn is_waiting(&self, packet: &PacketView) -> bool {
        self.waiting
            .iter()
            .any(|other| (other.frame, other.fragment) == (packet.frame, packet.fragment))
    }

    /// Puts a packet to those that wait.
    pub(super) fn take_back(&mut self, packet: PacketView) {
        if packet.kind() == PacketKind::Repair {
            if let Some(repairs) = &mut self.repairs {
                repairs.take_back(packet);
            }
            return;
        }
        let place = self
            .waiting
            .partition_point(|other| queue_order(other) <= queue_order(&packet));
        self.waiting.insert(place, packet);
    }

    /// Removes all waiting packets of this frame.
    pub(super) fn discard_waiting(&mut self, id: FrameId) {
        self.waiting.retain(|packet| packet.frame != id);
        if let Some(repairs) = &mut self.repairs {
            repairs.forget_frame(id);
        }
    }
}

/// Retransmissions first, then as captured.
pub(super) fn queue_order(packet: &PacketView) -> (bool, FrameId, u16) {
    let is_new = packet.kind() != PacketKind::Retransmission;
    (is_new, packet.frame, packet.fragment)
}
