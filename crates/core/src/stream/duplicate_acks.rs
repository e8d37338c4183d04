//! Loss detection from cumulative acknowledgements alone: RFC 5681 §3.2 without the window's
//! inflation, limited transmit (RFC 3042), and Karn's rule.
//!
//! As in ns-2.35's Reno (`bug_fix_`), the first acknowledgement that advances ends fast recovery,
//! also a partial one. Duplicate acknowledgements of segments outstanding at a fast retransmission
//! or a timeout cause no other: a second loss in a window waits for the timer. The window is never
//! inflated: each duplicate acknowledgement takes a segment out of flight instead, which lets the
//! same segments leave.

use anabranch_units::{Duration, Instant};

/// RFC 5681 §3.2: the third duplicate means loss.
const DUPLICATE_THRESHOLD: u32 = 3;

/// State that the sender derives from acknowledgements that do not advance.
#[derive(Debug, Default)]
pub(crate) struct DuplicateAcks {
    count: u32,
    is_in_fast_recovery: bool,
    /// End of the data outstanding at the last fast retransmission or timeout, until it has been
    /// passed.
    recover: Option<u64>,
    /// Segments that have left the network by the witness of duplicates.
    departed_segments: u64,
    /// Bytes sent since the first duplicate.
    limited_transmit_bytes: u64,
    /// The one segment whose round-trip time is being measured: its end, and when it left.
    timed: Option<(u64, Instant)>,
}

/// Meaning of a duplicate acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DuplicateAck {
    /// Nothing: it may stem from segments sent twice.
    Ignored,
    /// A segment has left the network.
    Departed,
    /// That, and the first unacknowledged segment is lost.
    FastRetransmit,
}

impl DuplicateAcks {
    /// Handles the arrival of all data up to `offset`. Returns a round-trip time, if it was
    /// measured.
    pub(crate) fn on_advance(&mut self, now: Instant, offset: u64) -> Option<Duration> {
        self.count = 0;
        self.is_in_fast_recovery = false;
        self.departed_segments = 0;
        if self.recover.is_some_and(|recover| offset > recover) {
            self.recover = None;
        }
        let (_, sent_at) = self.timed.take_if(|(end, _)| *end <= offset)?;
        Some(now.saturating_since(sent_at))
    }

    /// Handles an acknowledgement that has not advanced though everything up to `end` is
    /// outstanding.
    pub(crate) fn on_duplicate(&mut self, end: u64) -> DuplicateAck {
        self.count = self.count.saturating_add(1);
        if self.count == 1 {
            self.limited_transmit_bytes = 0;
        }
        if self.count == DUPLICATE_THRESHOLD && self.recover.is_none() {
            self.is_in_fast_recovery = true;
            self.recover = Some(end);
            self.departed_segments += 1;
            // The segment will be retransmitted, so neither it nor segments sent with it can be
            // timed.
            self.timed = None;
            return DuplicateAck::FastRetransmit;
        }
        if self.count < DUPLICATE_THRESHOLD || self.is_in_fast_recovery {
            self.departed_segments += 1;
            return DuplicateAck::Departed;
        }
        DuplicateAck::Ignored
    }

    /// Records a segment that leaves and ends at `end`.
    pub(crate) fn on_sent(&mut self, now: Instant, end: u64, bytes: u32, is_new: bool) {
        self.limited_transmit_bytes += u64::from(bytes);
        if is_new && self.timed.is_none() {
            self.timed = Some((end, now));
        }
    }

    /// Handles an expiry of the timer with everything up to `end` outstanding.
    pub(crate) fn on_timeout(&mut self, end: u64) {
        *self = DuplicateAcks {
            recover: Some(end),
            ..DuplicateAcks::default()
        };
    }

    /// Returns the number of segments that duplicates have taken out of flight.
    pub(crate) fn departed_segments(&self) -> u64 {
        self.departed_segments
    }

    /// Returns RFC 5681's FlightSize: the part of `outstanding_bytes` sent before limited transmit.
    pub(crate) fn flight_size(&self, outstanding_bytes: u64) -> u64 {
        outstanding_bytes.saturating_sub(self.limited_transmit_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::DuplicateAck::{Departed, FastRetransmit, Ignored};
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    #[test]
    fn rfc5681_3_2_the_third_duplicate_retransmits_once() {
        let mut acks = DuplicateAcks::default();
        let verdicts: Vec<_> = (0..6).map(|_| acks.on_duplicate(9_000)).collect();
        let expected = [
            Departed,
            Departed,
            FastRetransmit,
            Departed,
            Departed,
            Departed,
        ];
        assert_eq!(verdicts, expected);
        assert_eq!(acks.departed_segments(), 6);
    }

    #[test]
    fn a_partial_acknowledgement_ends_reno_recovery_and_three_more_retransmit_nothing() {
        let mut acks = DuplicateAcks::default();
        (0..5).for_each(|_| _ = acks.on_duplicate(9_000));
        acks.on_advance(at(1), 1_000);
        assert_eq!(acks.departed_segments(), 0);
        let verdicts: Vec<_> = (0..4).map(|_| acks.on_duplicate(12_000)).collect();
        assert_eq!(verdicts, [Departed, Departed, Ignored, Ignored]);
        acks.on_advance(at(2), 9_001);
        let verdicts: Vec<_> = (0..3).map(|_| acks.on_duplicate(12_000)).collect();
        assert_eq!(verdicts, [Departed, Departed, FastRetransmit]);
    }

    #[test]
    fn duplicates_after_timeout_cause_no_fast_retransmit() {
        let mut acks = DuplicateAcks::default();
        acks.on_timeout(9_000);
        let verdicts: Vec<_> = (0..4).map(|_| acks.on_duplicate(9_000)).collect();
        assert_eq!(verdicts, [Departed, Departed, Ignored, Ignored]);
        acks.on_advance(at(1), 9_000);
        assert_eq!(
            (0..3).map(|_| acks.on_duplicate(9_000)).last(),
            Some(Ignored)
        );
        acks.on_advance(at(2), 9_001);
        assert_eq!(
            (0..3).map(|_| acks.on_duplicate(9_000)).last(),
            Some(FastRetransmit)
        );
    }

    #[test]
    fn karn_one_segment_is_timed_at_a_time_and_none_that_was_sent_again() {
        let mut acks = DuplicateAcks::default();
        acks.on_sent(at(10), 1_000, 1_500, true);
        acks.on_sent(at(20), 2_000, 1_500, true);
        assert_eq!(acks.on_advance(at(50), 999), None);
        let measured = Some(Duration::from_millis(50));
        assert_eq!(acks.on_advance(at(60), 2_000), measured);
        acks.on_sent(at(70), 3_000, 1_500, true);
        acks.on_timeout(3_000);
        acks.on_sent(at(300), 3_000, 1_500, false);
        assert_eq!(acks.on_advance(at(350), 3_000), None);
        acks.on_sent(at(360), 3_500, 1_500, true);
        assert!(acks.on_advance(at(390), 3_500).is_some());
        acks.on_sent(at(400), 4_000, 1_500, true);
        (0..3).for_each(|_| _ = acks.on_duplicate(9_000));
        assert_eq!(acks.on_advance(at(450), 4_000), None);
    }

    #[test]
    fn rfc5681_3_2_flight_size_leaves_limited_transmit_out() {
        let mut acks = DuplicateAcks::default();
        acks.on_sent(at(0), 10_000, 10_000, true);
        acks.on_duplicate(9_000);
        acks.on_sent(at(1), 11_000, 1_000, true);
        acks.on_duplicate(9_000);
        acks.on_sent(at(2), 12_000, 1_000, true);
        assert_eq!(acks.on_duplicate(9_000), FastRetransmit);
        assert_eq!(acks.flight_size(12_000), 10_000);
    }
}
