//! Packet sizes that a path's MTU permits.

use anabranch_units::{Duration, Instant};

use super::Path;
use crate::path_view::PathState;
use crate::scheduler::PacketView;
use crate::wire;

/// Shortest time between two send times on a path: 2 kbit/s, and 150 samples in the receiver's
/// shorter memory.
const SEND_TIME_INTERVAL: Duration = Duration::from_millis(20);

impl Path {
    /// Appends the header of the next tracked packet.
    pub(crate) fn write_tracked_header(&mut self, buf: &mut Vec<u8>) {
        wire::write_tracked_header(self.recovery.next_packet_number(), buf);
    }

    /// Inserts the feedback schedule behind the header unless the peer knows it, if the packet has
    /// room. The packet has been written from `start` on, and `overhead_bytes` will be added to it.
    pub(crate) fn write_schedule(&mut self, start: usize, overhead_bytes: u32, buf: &mut Vec<u8>) {
        let bytes = (buf.len() - start) as u32 + overhead_bytes;
        if self.schedule.is_known || !self.carries(bytes + wire::MAX_SCHEDULE_BYTES) {
            return;
        }
        let packet_number = self.recovery.next_packet_number();
        if let Some(schedule) = self.schedule.take_unannounced(packet_number) {
            let end = buf.len();
            wire::write_feedback_schedule(&schedule, buf);
            let added_bytes = buf.len() - end;
            buf[start + wire::TRACKED_HEADER_BYTES..].rotate_right(added_bytes);
        }
    }

    /// Puts the send time behind the header of a packet written from `start` on, if it is due and
    /// there is room.
    pub(crate) fn write_send_time(
        &mut self,
        now: Instant,
        start: usize,
        overhead_bytes: u32,
        buf: &mut Vec<u8>,
    ) {
        let bytes = (buf.len() - start) as u32 + overhead_bytes;
        let is_due = self
            .send_time_at
            .is_none_or(|at| now.saturating_since(at) >= SEND_TIME_INTERVAL);
        if !is_due || !self.carries(bytes + wire::SEND_TIME_BYTES) {
            return;
        }
        self.send_time_at = Some(now);
        let end = buf.len();
        wire::write_send_time(now, buf);
        let added_bytes = buf.len() - end;
        buf[start + wire::TRACKED_HEADER_BYTES..].rotate_right(added_bytes);
    }

    /// Returns the room that a packet must leave for a feedback schedule that the peer does not
    /// know.
    pub(crate) fn unannounced_bytes(&self) -> u32 {
        if self.schedule.is_known {
            0
        } else {
            wire::MAX_SCHEDULE_BYTES
        }
    }

    /// Returns whether the path is known to carry packets of `bytes` bytes on the wire.
    pub(crate) fn carries(&self, bytes: u32) -> bool {
        bytes <= self.recovery.carried_bytes()
    }

    /// Returns when a probe for a larger MTU may leave; `None` if none is needed.
    pub(crate) fn mtu_probe_at(&self) -> Option<Instant> {
        let mtu = self.recovery.mtu()?;
        // RFC 8899 §5.2: the base is confirmed first. The first packets of all are also those by
        // which controllers measure the path.
        let is_confirmed = self.recovery.rtt().has_sample() && self.state() == PathState::Active;
        if is_confirmed { mtu.probe_at() } else { None }
    }

    /// Binds the pieces of a fragment behind the first one, which leaves now: they are next.
    pub(crate) fn bind_pieces(&mut self, pieces: Vec<PacketView>) {
        for piece in pieces.into_iter().rev() {
            self.bound.put_first(piece);
        }
    }
}
