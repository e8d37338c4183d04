//! The tail loss probe (RFC 8985 §7): when the last packets of a flight may be lost, one more
//! packet is sent before the retransmission timer runs out. Its acknowledgement shows the missing
//! ones.

use anabranch_units::{Duration, Instant};

use crate::recovery::RttEstimator;

/// RFC 8985 §7.2: the probe timeout without a round-trip time.
const INITIAL_TIMEOUT: Duration = Duration::from_secs(1);

/// Least timeout: RFC 8985 §7.2 names none, Linux waits for two ticks of its clock, and a busy host
/// keeps an acknowledgement for as long.
const MIN_TIMEOUT: Duration = RttEstimator::HOST_DELAY;

/// When to probe.
#[derive(Debug, Default)]
pub(crate) struct TailLossProbe {
    due_at: Option<Instant>,
    /// Whether a probe is due now.
    is_wanted: bool,
    /// The probe that has been sent and is not acknowledged.
    outstanding: Option<u64>,
    sent_at: Option<Instant>,
}

impl TailLossProbe {
    /// Schedules the probe when new data has left, or has been acknowledged (RFC 8985 §7.2).
    /// `alone_delay` is the receiver's possible delay of the acknowledgement if a single packet is
    /// outstanding.
    pub(crate) fn schedule(&mut self, now: Instant, rtt: &RttEstimator, alone_delay: Duration) {
        let has_new_sample = self
            .sent_at
            .is_none_or(|sent_at| rtt.has_sample() && rtt.sampled_at() > sent_at);
        self.due_at = (self.outstanding.is_none() && has_new_sample).then(|| {
            let timeout = if rtt.has_sample() {
                (rtt.smoothed() * 2).max(MIN_TIMEOUT)
            } else {
                INITIAL_TIMEOUT
            };
            now + timeout + alone_delay
        });
    }

    /// Cancels the probe: nothing is outstanding, or a loss is known already.
    pub(crate) fn cancel(&mut self) {
        self.due_at = None;
        self.is_wanted = false;
    }

    /// Handles an expiry of the retransmission timer.
    pub(crate) fn on_timeout(&mut self) {
        self.cancel();
        self.outstanding = None;
    }

    /// Returns when the probe is due, if the retransmission timer expires at `expires_at`.
    pub(crate) fn due_at(&self, expires_at: Option<Instant>) -> Option<Instant> {
        let due_at = self.due_at?;
        Some(expires_at.map_or(due_at, |expires_at| due_at.min(expires_at)))
    }

    pub(crate) fn want(&mut self) {
        self.due_at = None;
        self.is_wanted = true;
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.is_wanted
    }

    /// Records that the probe leaves.
    pub(crate) fn on_sent(&mut self, now: Instant, packet_number: u64) {
        self.is_wanted = false;
        self.outstanding = Some(packet_number);
        self.sent_at = Some(now);
    }

    /// Records that packets up to this number have been acknowledged or lost.
    pub(crate) fn on_settled(&mut self, packet_number: u64) {
        self.outstanding.take_if(|probe| *probe <= packet_number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc8985_7_2_two_smoothed_rtts_but_never_after_the_retransmission_timer() {
        let mut rtt = RttEstimator::default();
        let mut probe = TailLossProbe::default();
        probe.schedule(Instant::ZERO, &rtt, Duration::ZERO);
        assert_eq!(probe.due_at(None), Some(Instant::from_secs(1)));
        rtt.on_sample(Instant::ZERO, Duration::from_millis(50));
        probe.schedule(Instant::ZERO, &rtt, Duration::from_millis(40));
        assert_eq!(probe.due_at(None), Some(Instant::from_millis(140)));
        let early = Some(Instant::from_millis(120));
        assert_eq!(probe.due_at(early), early);
    }

    #[test]
    fn rfc8985_7_3_one_probe_at_a_time_and_none_without_a_new_sample() {
        let mut rtt = RttEstimator::default();
        rtt.on_sample(Instant::ZERO, Duration::from_millis(50));
        let mut probe = TailLossProbe::default();
        probe.want();
        probe.on_sent(Instant::from_millis(100), 7);
        probe.schedule(Instant::from_millis(110), &rtt, Duration::ZERO);
        assert_eq!(probe.due_at(None), None);
        probe.on_settled(7);
        probe.schedule(Instant::from_millis(120), &rtt, Duration::ZERO);
        assert_eq!(probe.due_at(None), None);
        rtt.on_sample(Instant::from_millis(150), Duration::from_millis(50));
        probe.schedule(Instant::from_millis(150), &rtt, Duration::ZERO);
        assert_eq!(probe.due_at(None), Some(Instant::from_millis(250)));
    }

    #[test]
    fn a_short_round_trip_does_not_probe_within_a_hosts_delay() {
        let mut rtt = RttEstimator::default();
        rtt.on_sample(Instant::ZERO, Duration::from_micros(50));
        let mut probe = TailLossProbe::default();
        probe.schedule(Instant::ZERO, &rtt, Duration::ZERO);
        assert_eq!(probe.due_at(None), Some(Instant::from_millis(10)));
    }
}
