//! Check of the receiver's frames.

use super::{Reassembly, Slot};
use crate::invariants::{Checker, Invariant};

impl Reassembly {
    pub(crate) fn check(&self, checker: &mut Checker) {
        let (mut open, mut whole, mut overhead) = (0, 0, 0);
        let (mut known_count, mut whole_count, mut whole_key_count) = (0, 0, 0);
        for slot in &self.slots {
            known_count += u64::from(matches!(slot, Slot::Open(_) | Slot::Whole(_)));
            if let Slot::Whole(frame) = slot {
                whole_count += 1;
                whole_key_count += u64::from(frame.importance.is_key());
            }
            match slot {
                Slot::Open(frame) => {
                    open += frame.held_bytes() as u64;
                    overhead += frame.overhead_bytes() as u64;
                    checker.require(Invariant::Lists, !frame.is_whole(), || {
                        format!("an open frame is whole: {:?}", frame.arrived)
                    });
                }
                Slot::Whole(frame) => whole += frame.size_bytes as u64,
                Slot::Missing { .. } | Slot::HandedOut | Slot::GivenUp(_) => {}
            }
        }
        checker.sum("known frames", self.known.len() as u64, known_count);
        checker.sum("whole frames", self.whole.len() as u64, whole_count);
        let of = "whole key frames";
        checker.sum(of, self.whole_key_count as u64, whole_key_count);
        checker.sum("bytes of open frames", self.open_bytes as u64, open);
        checker.sum("bytes of whole frames", self.whole_bytes as u64, whole);
        let of = "bytes that open frames take beside";
        checker.sum(of, self.overhead_bytes as u64, overhead);
    }
}
