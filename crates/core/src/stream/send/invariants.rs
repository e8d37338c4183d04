//! Check of the state of a stream's sender.

use std::collections::BTreeMap;

use super::SendStream;
use crate::invariants::{Checker, Invariant};
use crate::recovery::{PacketContent, SentPacket};

impl SendStream {
    /// Checks the stream. `outstanding` holds packets of all paths, `bound` the offsets of packets
    /// bound to any.
    pub(crate) fn check(
        &self,
        outstanding: impl Iterator<Item = SentPacket>,
        bound: &[u64],
        checker: &mut Checker,
    ) {
        let mut copies: BTreeMap<u64, u64> = BTreeMap::new();
        for packet in outstanding {
            if let PacketContent::Segment { offset } = packet.content {
                *copies.entry(offset).or_default() += 1;
            }
        }
        let mut end = self
            .segments
            .front()
            .map_or(self.next_offset, |first| first.offset);
        let mut waiting_bytes = 0;
        for segment in &self.segments {
            let offset = segment.offset;
            checker.equal(Invariant::Segments, "a segment's offset", offset, end);
            end = segment.end();
            let in_flight = copies.get(&offset).copied().unwrap_or(0);
            let kept = u64::from(segment.copies_in_flight);
            // A copy that was declared lost and still arrives counts down for another one; the
            // count of a segment that has arrived is not used.
            let is_counted = segment.is_delivered || kept == in_flight;
            checker.require(Invariant::Sums, is_counted, || {
                format!("copies of segment {offset} in flight: {kept}, counted {in_flight}")
            });
            let is_waiting = self.waiting.contains_key(&offset);
            waiting_bytes += u64::from(segment.length) * u64::from(is_waiting);
            // Over several paths a segment may wait for another copy while one is in flight.
            let is_right = if is_waiting {
                !segment.is_delivered
            } else {
                !segment.is_wanted_again()
            };
            checker.require(Invariant::Segments, is_right, || {
                format!("to be sent: {is_waiting}: {segment:?}")
            });
            let bound = bound.iter().filter(|bound| **bound == offset).count() as u64;
            let kept = u64::from(segment.bound_copies);
            checker.require(Invariant::Sums, kept == bound, || {
                format!("bound copies of segment {offset}: {kept}, counted {bound}")
            });
        }
        checker.equal(
            Invariant::Segments,
            "the next offset",
            self.next_offset,
            end,
        );
        checker.sum(
            "waiting bytes of the stream",
            self.waiting_bytes,
            waiting_bytes,
        );
        let mut offsets = self.waiting.keys();
        let are_known = offsets.all(|offset| self.segment(*offset).is_some());
        checker.require(Invariant::Segments, are_known, || {
            format!(
                "waiting segments {:?} are not all known",
                self.waiting.keys()
            )
        });
        let is_acked_sent = self.acked_offset <= self.next_offset;
        checker.require(Invariant::Segments, is_acked_sent, || {
            format!("acknowledged {} of {}", self.acked_offset, self.next_offset)
        });
    }
}
