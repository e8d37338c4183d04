//! Check of the packets bound to a path.

use std::collections::VecDeque;

use super::Bound;
use crate::invariants::{Checker, Invariant};
use crate::path::Path;
use crate::scheduler::{PacketKind, PacketView};

impl Path {
    /// Iterates over all bound packets.
    pub(crate) fn bound_packets(&self) -> impl Iterator<Item = &PacketView> {
        let bound = &self.bound;
        bound.retransmissions.iter().chain(&bound.sources)
    }

    pub(crate) fn check_queue(&self, checker: &mut Checker) {
        self.bound.check(checker);
    }
}

impl Bound {
    fn check(&self, checker: &mut Checker) {
        let retransmitted = sum(&self.retransmissions);
        let all = retransmitted + sum(&self.sources);
        checker.sum("bound bytes", self.bytes, all);
        checker.sum(
            "bound retransmission bytes",
            self.retransmission_bytes,
            retransmitted,
        );
        let is_sorted = self.retransmissions.iter().all(is_retransmission)
            && !self.sources.iter().any(is_retransmission);
        checker.require(Invariant::Lists, is_sorted, || {
            "retransmissions and sources are mixed".to_owned()
        });
    }
}

fn sum(packets: &VecDeque<PacketView>) -> u64 {
    packets.iter().map(|packet| u64::from(packet.bytes)).sum()
}

fn is_retransmission(packet: &PacketView) -> bool {
    packet.kind() == PacketKind::Retransmission
}

#[cfg(test)]
mod tests {
    use anabranch_units::Importance;

    use super::*;
    use crate::fragment::FrameId;
    use crate::path_view::PathSet;
    use crate::send_reason::SendReason;

    fn violated(change: impl FnOnce(&mut Bound)) -> Vec<Invariant> {
        fn packet(reason: SendReason) -> PacketView {
            PacketView {
                frame: FrameId(0),
                fragment: 0,
                fragment_count: 1,
                reason,
                importance: Importance::Key,
                bytes: 1_000,
                deadline: None,
                in_flight_on: PathSet::EMPTY,
                avoid: PathSet::EMPTY,
            }
        }
        let mut bound = Bound::default();
        bound.push(packet(SendReason::New));
        bound.push(packet(SendReason::LastCall));
        change(&mut bound);
        let mut checker = Checker::default();
        bound.check(&mut checker);
        let violations = checker.violations.iter();
        violations.map(|violation| violation.invariant).collect()
    }

    #[test]
    fn wrong_sums_and_queues_are_found() {
        assert_eq!(violated(|_| {}), []);
        assert_eq!(violated(|bound| bound.bytes -= 1), [Invariant::Sums]);
        let found = violated(|bound| bound.retransmission_bytes += 1);
        assert_eq!(found, [Invariant::Sums]);
        let found = violated(|bound| {
            std::mem::swap(&mut bound.sources, &mut bound.retransmissions);
        });
        assert_eq!(found, [Invariant::Lists]);
    }
}
