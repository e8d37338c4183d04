//! The check of what is remembered of packets that were sent.

use super::{Fate, SentPackets};
use crate::invariants::{Checker, Invariant};
use crate::recovery::Recovery;

impl Recovery {
    pub(crate) fn check(&self, checker: &mut Checker) {
        self.sent.check(checker);
    }
}

impl SentPackets {
    fn check(&self, checker: &mut Checker) {
        let is_outstanding = |fate: &Fate| *fate == Fate::Outstanding;
        let outstanding = || {
            let packets = self.packets.iter();
            packets.filter(|(_, fate)| is_outstanding(fate))
        };
        let bytes = outstanding().map(|(packet, _)| u64::from(packet.bytes));
        checker.sum("bytes in flight", self.bytes_in_flight, bytes.sum());
        let found = self.outstanding().count() as u64;
        checker.sum("outstanding packets", found, outstanding().count() as u64);
        let oldest = outstanding().next().map(|(packet, _)| packet.sent_at);
        checker.require(Invariant::Lists, self.oldest_sent_at == oldest, || {
            let kept = self.oldest_sent_at;
            format!("oldest packet in flight sent at {kept:?}, found {oldest:?}")
        });
        let numbers = self.packets.iter().zip(self.first..);
        let are_numbered = numbers
            .clone()
            .all(|((packet, _), number)| packet.packet_number == number);
        checker.require(Invariant::Lists, are_numbered, || {
            format!("packets from {} on are not in order", self.first)
        });
        let below = numbers.filter(|(_, number)| *number < self.acked_until);
        let open = below.filter(|((_, fate), _)| *fate != Fate::Acked);
        let open: Vec<u64> = open.map(|(_, number)| number).collect();
        // A packet that a stream's offset settled stays a hole until it is forgotten.
        let mut holes = self.holes.iter();
        let has_all = open.iter().all(|number| holes.any(|hole| hole == number));
        checker.require(Invariant::Lists, has_all, || {
            format!("holes {:?} lack some of {open:?}", self.holes)
        });
        let lost = self.holes.get(..self.lost_hole_count);
        let are_settled = lost.is_some_and(|lost| {
            let mut fates = lost
                .iter()
                .map(|number| self.packets[self.index_of(*number)].1);
            !fates.any(|fate| is_outstanding(&fate))
        });
        checker.require(Invariant::Lists, are_settled, || {
            let count = self.lost_hole_count;
            format!(
                "the first {count} of holes {:?} are not all settled",
                self.holes
            )
        });
    }
}
