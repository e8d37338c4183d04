//! Round-trip times of packets that another path's report was first to acknowledge.
//!
//! While a path is suspect, its reports come back on another one, too. If that is the faster way,
//! they acknowledge everything first, and reports on the path itself acknowledge nothing new. Still
//! these are the only measure of the path's round trip: without them, a path whose delay has grown
//! at once would be suspect for ever.

use std::collections::VecDeque;

use anabranch_units::{Duration, Instant};

use super::{Recovery, rtt};
use crate::wire::FeedbackReport;

/// The most packets that are remembered; the oldest make way.
const MAX_PACKETS: usize = 256;

/// Packets that were acknowledged by way of another path: their numbers, and when they were sent.
#[derive(Debug, Default)]
pub(super) struct CrossPathAcks(VecDeque<(u64, Instant)>);

impl CrossPathAcks {
    /// Records a packet that has been acknowledged by way of another path.
    pub(super) fn record(&mut self, packet_number: u64, sent_at: Instant) {
        if self.0.len() == MAX_PACKETS {
            self.0.pop_front();
        }
        self.0.push_back((packet_number, sent_at));
    }

    /// Handles a report that has come back on the path itself. Finds the newest of these packets
    /// whose arrival time it states. Returns when that packet was sent, and the time for which its
    /// report was held back. Packets up to it are forgotten.
    pub(super) fn take(&mut self, report: &FeedbackReport) -> Option<(Instant, Duration)> {
        let newest = self
            .0
            .iter()
            .rposition(|(number, _)| report.held_back(*number).is_some())?;
        let (number, sent_at) = self.0[newest];
        self.0.drain(..=newest);
        Some((sent_at, report.held_back(number)?))
    }
}

impl Recovery {
    /// Takes the round-trip time of packets that a report on another path listed first.
    pub(super) fn sample_cross_path_acks(&mut self, now: Instant, report: &FeedbackReport) {
        if self.cross_path_acks.0.is_empty() {
            return;
        }
        let acked = self.cross_path_acks.take(report);
        let sample = acked.and_then(|(sent_at, held_back)| {
            Some((sent_at, rtt::sample(now, sent_at, held_back)?))
        });
        if let Some((sent_at, rtt)) = sample {
            self.rtt.on_sample(now, rtt);
            self.rtt.on_packet(sent_at, rtt);
            self.last_acked_at = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Digest, LossDetection, PacketContent};
    use super::*;
    use crate::path_view::PathId;
    use crate::wire::{self, OutgoingReport, WireFrame};

    const fn ms(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    /// Returns a report of the packets up to `largest`, made at `reported_at`, with the arrival
    /// time of the newest.
    fn report(reported_at: Instant, largest: u64, arrived_at: Instant) -> FeedbackReport {
        let outgoing = OutgoingReport {
            path: PathId(0),
            reported_at,
            ce_count: 0,
            ranges: &[(0, largest)],
            arrivals: [arrived_at].into_iter(),
        };
        let mut bytes = Vec::new();
        wire::write_untracked_header(&mut bytes);
        wire::write_feedback(outgoing, &mut bytes);
        let mut report = FeedbackReport::default();
        let (_, mut frames) = wire::decode(&bytes).unwrap();
        let frame = frames.next(&mut report).unwrap();
        assert!(matches!(frame, Ok(WireFrame::Feedback { .. })));
        report.expand(largest + 1, reported_at);
        report
    }

    #[test]
    fn a_round_trip_is_measured_though_another_paths_report_came_first() {
        let mut recovery = Recovery::new(LossDetection::PerPacket, ms(0));
        let mut digest = Digest::default();
        for at in [0, 10] {
            recovery.on_sent(ms(at), 1_000, PacketContent::Padding);
        }
        let first = report(ms(80), 0, ms(70));
        let elsewhere = report(ms(85), 1, ms(80));
        assert!(recovery.on_report(ms(90), &elsewhere, false, &mut digest));
        assert!(!recovery.rtt().has_sample(), "by way of another path");
        assert!(!recovery.on_report(ms(150), &first, true, &mut digest));
        // Sent at 0 and held back for 10 ms.
        assert_eq!(recovery.rtt().latest(), Some(Duration::from_millis(140)));
        assert!(!recovery.on_report(ms(160), &first, true, &mut digest));
        assert_eq!(recovery.rtt().sampled_at(), ms(150), "once");
    }
}
