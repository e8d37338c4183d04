//! The delay signal: eq. 12 and Algorithm 4, or the floor of round-trip times instead.

use anabranch_units::Duration;

use super::noise::Noise;
use super::profile::SignalForm;

/// β: multiple of the base above which the round-trip time indicates congestion.
const CONGESTION_FACTOR: f64 = 1.2;

/// Round-trip time without its noise, and the least one since the last back-off.
#[derive(Debug, Default)]
pub(super) struct DelaySignal {
    /// `base_line_rtt`.
    pub(super) base: Option<Duration>,
    /// `srtt`, or the floor.
    level: Option<Duration>,
    /// The base times [`CONGESTION_FACTOR`].
    long: Duration,
    /// Level above which the path is congested.
    congested_above: Duration,
    /// `seq_at_backoff` + 1: first packet that counts; earlier ones were sent into the old queue.
    counts_from: u64,
}

impl DelaySignal {
    /// Runs algorithm 3, lines 11 to 17.
    pub(super) fn on_rtt(
        &mut self,
        packet_number: u64,
        rtt: Duration,
        noise: &Noise,
        form: SignalForm,
    ) {
        if packet_number < self.counts_from {
            return;
        }
        let is_least = self.base.is_none_or(|base| rtt < base);
        let base = if is_least {
            rtt
        } else {
            self.base.unwrap_or(rtt)
        };
        if is_least {
            self.base = Some(base);
            self.long = base.mul_f64(CONGESTION_FACTOR);
        }
        let (level, margin) = match form {
            SignalForm::Smoothed { weight, resolution } => {
                let before = if is_least {
                    rtt
                } else {
                    self.level.unwrap_or(rtt)
                };
                (smooth(before, rtt, weight, resolution), Duration::ZERO)
            }
            SignalForm::Floor { margin } => (noise.floor_of(rtt), margin.max(noise.jitter)),
        };
        self.level = Some(level);
        self.congested_above = self.long.max(base + margin);
    }

    /// Runs algorithm 4, without the mode.
    pub(super) fn is_congested(&self) -> bool {
        self.level.is_some_and(|level| level > self.congested_above)
    }

    /// Starts again with the next packet sent (Algorithm 5, lines 3 to 5).
    pub(super) fn restart(&mut self, next_packet_number: u64) {
        *self = DelaySignal {
            counts_from: next_packet_number,
            ..DelaySignal::default()
        };
    }
}

/// Returns eq. 12: srtt = (1 - α) srtt + α rtt, at a resolution.
fn smooth(smoothed: Duration, rtt: Duration, weight: f64, resolution: Duration) -> Duration {
    fn steps(span: Duration, resolution: Duration) -> f64 {
        (span.as_nanos() / resolution.as_nanos()) as f64
    }
    let mean = (1.0 - weight) * steps(smoothed, resolution) + weight * steps(rtt, resolution);
    // α has two decimals: 1e-9 undoes the error of binary fractions before the cut.
    resolution * (mean + 1e-9) as u64
}
