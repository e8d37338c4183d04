//! Use of rate samples.

use anabranch_core::recovery::{AckedPacket, RateSample, SentPacket};
use anabranch_units::{DataRate, Instant};

use super::profile::AppLimitedSamples;
use super::{DELIVERED_AS_SENT, DelayBbr, Mode, overflow};

impl DelayBbr {
    /// Takes one bandwidth sample per round (eq. 13), and checks whether the pipe is full by it.
    #[cold]
    pub(super) fn on_round_end(&mut self, newest: &AckedPacket, sample: Option<&RateSample>) {
        let Some(sample) = sample else {
            return self.bandwidth.on_round(None);
        };
        let rate = sample.min_of_send_and_ack_rate;
        let is_path_full = self.is_draining_congestion() && self.is_slowed(sample, &newest.sent);
        let says_least_only = sample.is_app_limited
            && self.profile.app_limited_samples == AppLimitedSamples::OnlyRaise
            && !is_path_full;
        if says_least_only {
            self.bandwidth.raise(rate);
        } else {
            self.bandwidth.on_round(Some(rate));
        }
        let is_limited_by_path = !sample.is_app_limited
            || self.profile.app_limited_samples == AppLimitedSamples::Count
            || self.trains.take_slowed();
        if !self.full_pipe.is_full && is_limited_by_path {
            self.full_pipe.on_round(self.bandwidth.max());
        }
    }

    /// Returns the largest delivered rate that the jitter allows. Doubt lowers the estimate less
    /// than the sample does, and never raises it beyond a measured rate.
    fn most_delivered(&self, sample: &RateSample, newest: &AckedPacket) -> DataRate {
        let known = self.bandwidth.max().max(sample.min_of_send_and_ack_rate);
        self.noise.most_delivered(sample, &newest.sent).min(known)
    }

    /// "The receive rate is far below the rate of sending though this has slowed down": capacity
    /// has gone. This need not wait for the window or the round, which the queue makes long.
    pub(super) fn maybe_drop_to(&mut self, sample: &RateSample, newest: &AckedPacket) {
        let Mode::ProbeRtt(stay) = &self.mode else {
            return;
        };
        let was_sent_in_it = newest.sent.packet_number >= stay.first_packet;
        let ratio = self.profile.capacity_drop_ratio;
        let has_dropped = self.noise.is_short_of(ratio, sample, &newest.sent);
        if was_sent_in_it && stay.is_by_congestion() && has_dropped {
            self.bandwidth.restart(self.most_delivered(sample, newest));
            self.enter_drain();
        }
    }

    /// Answers an overflowing buffer, which is full of excess even if its delay has been taken for
    /// the path's. The delivered rate becomes the estimate, and the excess drains.
    #[cold]
    pub(super) fn maybe_answer_overflow(
        &mut self,
        now: Instant,
        newest: &AckedPacket,
        sample: &RateSample,
        lost_bytes: u64,
    ) {
        let round = self.rounds.count;
        let overflow = self
            .overflow
            .on_round_end(round, newest, sample, lost_bytes, &self.noise);
        if let Some(least_rtt) = overflow {
            self.full_pipe.is_full = true;
            // While an earlier excess drains, the lost packets were sent before, and the sample
            // shows how fast it drains.
            let is_draining = matches!(self.mode, Mode::Drain);
            if !is_draining || !overflow::has_come_through(newest, sample) {
                self.bandwidth.restart(self.most_delivered(sample, newest));
            }
            self.min_rtt.replace(least_rtt, now);
            self.signal.restart(self.next_packet_number);
            self.enter_drain();
        }
    }

    /// Takes a sample that lies in a long probe, whatever the rounds.
    pub(super) fn on_long_probe(&mut self, newest: &AckedPacket, sample: Option<&RateSample>) {
        let estimate = self.bandwidth.max();
        let Some(sample) = sample else { return };
        if let Mode::ProbeBw(cycle) = &mut self.mode
            && cycle.has_probed_with(&newest.sent)
        {
            let found = sample.min_of_send_and_ack_rate;
            cycle.on_probed(estimate, found);
            self.bandwidth.raise(found);
        }
    }

    /// Whether the delivery rate is below the send rate.
    pub(super) fn is_slowed(&self, sample: &RateSample, packet: &SentPacket) -> bool {
        self.noise.is_short_of(DELIVERED_AS_SENT, sample, packet)
    }

    fn is_draining_congestion(&self) -> bool {
        matches!(&self.mode, Mode::ProbeRtt(stay) if stay.is_by_congestion())
    }
}
