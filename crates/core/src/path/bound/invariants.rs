//! The check of what is bound to a path.

use super::Bound;
use crate::invariants::{Checker, Invariant};
use crate::path::Path;
use crate::scheduler::{PacketKind, PacketView};

impl Path {
    /// All bound packets.
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
        let sum = |packets: &mut dyn Iterator<Item = &PacketView>| -> u64 {
            packets.map(|packet| u64::from(packet.bytes)).sum()
        };
        let again = sum(&mut self.retransmissions.iter());
        let all = again + sum(&mut self.sources.iter());
        checker.sum("bound bytes", self.bytes, all);
        checker.sum(
            "bound retransmission bytes",
            self.retransmission_bytes,
            again,
        );
        let is_again = |packet: &PacketView| packet.kind() == PacketKind::Retransmission;
        let is_sorted =
            self.retransmissions.iter().all(is_again) && !self.sources.iter().any(is_again);
        checker.require(Invariant::Lists, is_sorted, || {
            "retransmissions and sources are mixed".to_owned()
        });
    }
}
