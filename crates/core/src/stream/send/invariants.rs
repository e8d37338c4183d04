//! The check of what a stream's sender keeps.

use std::collections::BTreeMap;

use super::SendStream;
use crate::invariants::{Checker, Invariant};
use crate::recovery::{PacketContent, SentPacket};

impl SendStream {
    /// `outstanding`: on all paths.
    pub(crate) fn check(
        &self,
        outstanding: impl Iterator<Item = SentPacket>,
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
        let mut lost_bytes = 0;
        for segment in &self.segments {
            let offset = segment.offset;
            checker.equal(Invariant::Segments, "a segment's offset", offset, end);
            end = segment.end();
            let in_flight = copies.get(&offset).copied().unwrap_or(0);
            let kept = u64::from(segment.copies_in_flight);
            // A copy that was declared lost and arrives after all counts down for another one;
            // of a segment that has arrived nobody asks.
            let is_counted = segment.is_delivered || kept == in_flight;
            checker.require(Invariant::Sums, is_counted, || {
                format!("copies of segment {offset} in flight: {kept}, counted {in_flight}")
            });
            let is_lost = self.lost.contains_key(&offset);
            lost_bytes += u64::from(segment.length) * u64::from(is_lost);
            let is_waiting = segment.copies_in_flight == 0 && !segment.is_delivered;
            checker.require(Invariant::Segments, is_lost == is_waiting, || {
                format!("to be sent again: {is_lost}: {segment:?}")
            });
        }
        checker.equal(
            Invariant::Segments,
            "the next offset",
            self.next_offset,
            end,
        );
        checker.sum("lost bytes of the stream", self.lost_bytes, lost_bytes);
        let known = |offset: &u64| self.segment(*offset).is_some();
        checker.require(Invariant::Segments, self.lost.keys().all(known), || {
            format!("lost segments {:?} are not all known", self.lost.keys())
        });
        let is_acked_sent = self.acked_offset <= self.next_offset;
        checker.require(Invariant::Segments, is_acked_sent, || {
            format!("acknowledged {} of {}", self.acked_offset, self.next_offset)
        });
    }
}
