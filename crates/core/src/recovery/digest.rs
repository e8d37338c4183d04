//! Changes that a report makes, for the other parts.

use super::{AckedPacket, PacketContent, RateSample, SentPacket};

/// Changes made by one report or timeout. Its vectors are reused.
#[derive(Debug, Default)]
pub(crate) struct Digest {
    pub(crate) acked: Vec<AckedPacket>,
    pub(crate) lost: Vec<SentPacket>,
    /// Lost packets that exceed the size which the path is known to carry, probes among them. They
    /// are no sign of congestion.
    pub(crate) too_large: Vec<SentPacket>,
    pub(crate) spurious: Vec<AckedPacket>,
    pub(crate) delivery: Option<RateSample>,
    pub(crate) prior_bytes_in_flight: u64,
    pub(crate) is_app_limited: bool,
    pub(crate) ce_count: u64,
    /// Whether the losses are the first of a round trip.
    pub(crate) is_recovery_begun: bool,
}

impl Digest {
    /// Returns whether it is only about probes, none of which is lost.
    pub(crate) fn is_of_probes(&self) -> bool {
        let mut acked = self.acked.iter();
        self.lost.is_empty() && acked.all(|packet| packet.sent.content.is_probe())
    }

    /// Returns the number of lost packets, without probes for a larger MTU.
    pub(crate) fn lost_count(&self) -> u64 {
        let too_large = self.too_large.iter();
        let counted = too_large.filter(|packet| packet.content != PacketContent::MtuProbe);
        (self.lost.len() + counted.count()) as u64
    }

    /// Marks the packet acknowledged last as spuriously lost.
    #[cold]
    pub(super) fn mark_spurious(&mut self) {
        self.spurious.extend(self.acked.last().copied());
    }

    pub(super) fn restart(&mut self, prior_bytes_in_flight: u64) {
        self.acked.clear();
        self.lost.clear();
        self.too_large.clear();
        self.spurious.clear();
        self.delivery = None;
        self.prior_bytes_in_flight = prior_bytes_in_flight;
        self.is_app_limited = false;
        self.ce_count = 0;
        self.is_recovery_begun = false;
    }
}
