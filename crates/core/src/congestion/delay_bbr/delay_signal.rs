//! The delay signal: eq. 12 and Algorithm 4.

use anabranch_units::Duration;

use super::profile::Profile;

/// β: the smoothed round-trip time above this multiple of the base says congestion.
const CONGESTION_FACTOR: f64 = 1.2;

/// The smoothed round-trip time and the least one since the last back-off.
#[derive(Debug, Default)]
pub(super) struct DelaySignal {
    /// `base_line_rtt`.
    base: Option<Duration>,
    /// What the base says is congestion.
    congested_above: Duration,
    /// `srtt`.
    smoothed: Option<Duration>,
    /// `seq_at_backoff` + 1: earlier packets were sent into the old queue.
    counts_from: u64,
}

impl DelaySignal {
    /// Algorithm 3, lines 11 to 17.
    pub(super) fn on_rtt(&mut self, packet_number: u64, rtt: Duration, profile: &Profile) {
        if packet_number < self.counts_from {
            return;
        }
        if self.base.is_none_or(|base| rtt < base) {
            self.base = Some(rtt);
            let least = rtt + profile.congestion_margin;
            self.congested_above = rtt.mul_f64(CONGESTION_FACTOR).max(least);
            self.smoothed = Some(rtt);
        }
        let smoothed = self.smoothed.unwrap_or(rtt);
        self.smoothed = Some(smooth(smoothed, rtt, profile));
    }

    /// Algorithm 4, without the mode.
    pub(super) fn is_congested(&self) -> bool {
        self.smoothed
            .is_some_and(|smoothed| smoothed > self.congested_above)
    }

    /// Algorithm 5, lines 3 to 5: starts anew with the next packet that leaves.
    pub(super) fn restart(&mut self, next_packet_number: u64) {
        *self = DelaySignal {
            counts_from: next_packet_number,
            ..DelaySignal::default()
        };
    }
}

/// Eq. 12: srtt = (1 - α) srtt + α rtt, at the profile's resolution.
fn smooth(smoothed: Duration, rtt: Duration, profile: &Profile) -> Duration {
    let resolution = profile.srtt_resolution.as_nanos();
    let steps = |span: Duration| (span.as_nanos() / resolution) as f64;
    let mean = (1.0 - profile.srtt_weight) * steps(smoothed) + profile.srtt_weight * steps(rtt);
    // α has two decimals: 1e-9 undoes the error of binary fractions before the cut.
    profile.srtt_resolution * (mean + 1e-9) as u64
}
