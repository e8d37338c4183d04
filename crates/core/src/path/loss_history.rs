//! Which packets arrived and which are lost, in the order of their numbers.

use std::collections::VecDeque;

use anabranch_fec::LossProcess;
use anabranch_units::Instant;

use crate::recovery::Digest;

/// Queue that passes the outcomes of packets to the loss process in order. Losses are declared
/// after later packets have arrived, and only the order shows a burst.
#[derive(Debug, Default)]
pub(super) struct LossHistory {
    process: LossProcess,
    /// The known outcomes of the packets from `first` on.
    pending: VecDeque<Option<IsLost>>,
    first: u64,
    /// Losses before this number have not been counted.
    counted_from: u64,
}

type IsLost = bool;

impl LossHistory {
    /// Creates a queue for packets from this number on.
    pub(super) fn from(packet_number: u64) -> Self {
        LossHistory {
            first: packet_number,
            counted_from: packet_number,
            ..LossHistory::default()
        }
    }

    pub(super) fn process(&self) -> &LossProcess {
        &self.process
    }

    pub(super) fn on_digest(&mut self, now: Instant, digest: &Digest) {
        for packet in &digest.acked {
            let packet_number = packet.sent.packet_number;
            // The usual case: nothing before it is open.
            if packet_number == self.first && self.pending.is_empty() {
                self.first += 1;
                self.process.on_outcome(now, false);
            } else {
                self.record(packet_number, false);
            }
        }
        for packet in &digest.spurious {
            // A loss that the process does not know yet is revoked above.
            if (self.counted_from..self.first).contains(&packet.sent.packet_number) {
                self.process.on_spurious_loss(now);
            }
        }
        for packet in &digest.lost {
            self.record(packet.packet_number, true);
        }
        // Their size took them, and not chance.
        for packet in &digest.too_large {
            self.record(packet.packet_number, false);
        }
        while let Some(Some(is_lost)) = self.pending.front().copied() {
            self.pending.pop_front();
            self.first += 1;
            self.process.on_outcome(now, is_lost);
        }
    }

    /// Skips the packets outstanding before this number: the path has fallen silent, and they say
    /// nothing about losses.
    pub(super) fn skip_until(&mut self, packet_number: u64) {
        self.pending.clear();
        self.first = packet_number;
        self.counted_from = packet_number;
    }

    #[cold]
    fn record(&mut self, packet_number: u64, is_lost: bool) {
        // Before it, everything is settled.
        let Some(index) = packet_number.checked_sub(self.first) else {
            return;
        };
        let index = index as usize;
        if self.pending.len() <= index {
            self.pending.resize(index + 1, None);
        }
        self.pending[index] = Some(is_lost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_follow_packet_order_not_report_order() {
        let mut loss_history = LossHistory::default();
        // 3 and 5 are lost, each alone, though their losses are declared together.
        for packet_number in [0, 1, 2, 4, 6, 7, 8] {
            loss_history.record(packet_number, false);
        }
        loss_history.record(3, true);
        loss_history.record(5, true);
        loss_history.on_digest(Instant::ZERO, &Digest::default());
        assert_eq!(loss_history.process.burst_packets(), 1.0);
        assert!(loss_history.process.ratio() > 0.0);
        loss_history.record(9, true);
        loss_history.record(10, true);
        loss_history.on_digest(Instant::ZERO, &Digest::default());
        assert_eq!(loss_history.process.burst_packets(), 4.0 / 3.0);
    }

    #[test]
    fn silence_is_no_loss() {
        let mut loss_history = LossHistory::default();
        loss_history.record(4, true);
        loss_history.skip_until(9);
        loss_history.record(8, true);
        loss_history.record(9, false);
        loss_history.on_digest(Instant::ZERO, &Digest::default());
        assert_eq!(
            (loss_history.process.ratio(), loss_history.first),
            (0.0, 10)
        );
    }
}
