//! Corrections of round-trip times and rate samples for jitter.

use anabranch_core::recovery::{RateSample, RttEstimator, SentPacket};
use anabranch_units::{DataRate, Duration};

use super::probe_rtt::send_rate;

/// A path's jitter, as the newest report shows it; none in the forms that know of none.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Noise {
    floor: Option<Duration>,
    /// By how much round-trip times vary whatever the queue does.
    pub(super) jitter: Duration,
}

impl Noise {
    pub(super) fn of(rtt: &RttEstimator) -> Self {
        Noise {
            floor: rtt.floor(),
            jitter: rtt.jitter(),
        }
    }

    /// The round-trip time without jitter; `rtt` itself, if nothing is known of any.
    pub(super) fn floor_of(&self, rtt: Duration) -> Duration {
        match self.floor {
            Some(floor) if !self.jitter.is_zero() => floor,
            _ => rtt,
        }
    }

    /// By which share of itself the sample's rate may be too low.
    fn doubt(&self, sample: &RateSample) -> f64 {
        match sample.interval.is_zero() {
            true => 0.0,
            false => self.jitter.as_secs_f64() / sample.interval.as_secs_f64(),
        }
    }

    /// Whether the sample's interval, whose ends the jitter makes uncertain, delivered less than
    /// `share` of the sent bytes.
    pub(super) fn is_short_of(&self, share: f64, sample: &RateSample, packet: &SentPacket) -> bool {
        let certain = share.min(1.0 - self.doubt(sample)).max(0.0);
        sample.min_of_send_and_ack_rate < send_rate(packet).mul_f64(certain)
    }

    /// The rate that the path has delivered at the most in the sample's interval: no more than was
    /// sent.
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
        let doubt = sample.interval.as_secs_f64() / least_interval.as_secs_f64();
        rate.mul_f64(doubt).min(sent)
    }
}
