//! Check of the records of sent packets.

use super::{Outcome, Record, SentPackets};
use crate::invariants::{Checker, Invariant};
use crate::recovery::Recovery;

impl Recovery {
    pub(crate) fn check(&self, checker: &mut Checker) {
        self.sent.check(checker);
    }
}

impl SentPackets {
    fn check(&self, checker: &mut Checker) {
        let records = self.packets.iter();
        let mut outstanding = records.filter(|record| record.is_outstanding());
        let bytes = outstanding.clone().map(Record::bytes);
        checker.sum("bytes in flight", self.bytes_in_flight, bytes.sum());
        let found = self.outstanding().count() as u64;
        checker.sum(
            "outstanding packets",
            found,
            outstanding.clone().count() as u64,
        );
        let oldest = outstanding.next().map(Record::sent_at);
        checker.require(Invariant::Lists, self.oldest_sent_at == oldest, || {
            let kept = self.oldest_sent_at;
            format!("oldest packet in flight sent at {kept:?}, found {oldest:?}")
        });
        let numbers = self.packets.iter().zip(self.first..);
        let are_in_order = numbers
            .clone()
            .map(|(record, _)| record.sent_at())
            .is_sorted();
        checker.require(Invariant::Lists, are_in_order, || {
            format!("packets from {} on are not in order", self.first)
        });
        let below = numbers.filter(|(_, number)| *number < self.acked_until);
        let open: Vec<u64> = below
            .filter(|(record, _)| record.outcome() != Outcome::Acked)
            .map(|(_, number)| number)
            .collect();
        // A packet that a stream's offset settled stays a hole until it is forgotten.
        let mut holes = self.holes.iter();
        let has_all = open.iter().all(|number| holes.any(|hole| hole == number));
        checker.require(Invariant::Lists, has_all, || {
            format!("holes {:?} lack some of {open:?}", self.holes)
        });
        let lost = self.holes.get(..self.lost_hole_count);
        let are_settled = lost.is_some_and(|lost| {
            let mut records = lost
                .iter()
                .map(|number| &self.packets[self.index_of(*number)]);
            !records.any(Record::is_outstanding)
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
