//! Corrections of round-trip times and rate samples for jitter.

use anabranch_core::recovery::{RateSample, RttEstimator, SentPacket};
use anabranch_units::{DataRate, Duration};

use super::probe_rtt::send_rate;

/// Jitter of a path by the newest report; zero in the forms that ignore it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Noise {
    floor: Option<Duration>,
    /// Variation of round-trip times beside the queue's.
    pub(super) jitter: Duration,
    /// Excess of a round-trip time that may be noise: the jitter, and more until that is known.
    pub(super) margin: Duration,
}

impl Noise {
    pub(super) fn of(rtt: &RttEstimator) -> Self {
        Noise {
            floor: rtt.floor(),
            jitter: rtt.jitter(),
            margin: rtt.idle_delay_margin(),
        }
    }

    /// Returns the round-trip time without jitter; `rtt` itself, if the jitter is unknown.
    pub(super) fn floor_of(&self, rtt: Duration) -> Duration {
        match self.floor {
            Some(floor) if !self.jitter.is_zero() => floor,
            _ => rtt,
        }
    }

    /// Returns the share of itself by which the sample's rate may be too low.
    fn uncertainty(&self, sample: &RateSample) -> f64 {
        if sample.interval.is_zero() {
            0.0
        } else {
            self.jitter.as_secs_f64() / sample.interval.as_secs_f64()
        }
    }

    /// Whether the sample's interval, whose ends the jitter makes uncertain, delivered less than
    /// `share` of the sent bytes.
    pub(super) fn is_short_of(&self, share: f64, sample: &RateSample, packet: &SentPacket) -> bool {
        let certain = share.min(1.0 - self.uncertainty(sample)).max(0.0);
        sample.min_of_send_and_ack_rate < send_rate(packet).mul_f64(certain)
    }

    /// Returns the largest rate that the path may have delivered in the sample's interval, at most
    /// the send rate.
    pub(super) fn most_delivered(&self, sample: &RateSample, packet: &SentPacket) -> DataRate {
        let rate = sample.min_of_send_and_ack_rate;
        if self.jitter.is_zero() {
            return rate;
        }
        let least_interval = sample.interval.saturating_sub(self.jitter);
        let sent = send_rate(packet).max(rate);
        if least_interval.is_zero() {
            return sent;
        }
        let uncertainty = sample.interval.as_secs_f64() / least_interval.as_secs_f64();
        rate.mul_f64(uncertainty).min(sent)
    }
}
