//! Round-trip time filters of WebRTC's BBR.

use anabranch_units::Duration;

/// `kRttFilterSize`.
const SAMPLES: usize = 25;
/// `kRttIncreaseThresholdForExpiry`.
const GROWTH: f64 = 2.3;

/// Least round-trip time, which expires when the mean of 25 has grown to 2.3 times of it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GrownMinRtt {
    pub(super) value: Option<Duration>,
    samples: [Duration; SAMPLES],
    sum: Duration,
    count: usize,
}

impl GrownMinRtt {
    /// `AddRttSample`: the least one, or any if it has expired.
    pub(super) fn on_rtt(&mut self, rtt: Duration) {
        if self.has_grown() || self.value.is_none_or(|value| rtt <= value) {
            self.value = Some(rtt);
        }
        let oldest = &mut self.samples[self.count % SAMPLES];
        self.sum = self.sum - *oldest + rtt;
        *oldest = rtt;
        self.count += 1;
    }

    /// `MinRttExpired`.
    pub(super) fn has_grown(&self) -> bool {
        let is_full = self.count >= SAMPLES;
        let mean = self.sum / SAMPLES as u64;
        is_full
            && self
                .value
                .is_some_and(|value| mean >= value.mul_f64(GROWTH))
    }
}

/// Mean round-trip time of the newest round (`past_rtts_`, one round long).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MeanOfRound {
    round: u64,
    sum: Duration,
    count: u64,
}

impl MeanOfRound {
    pub(super) fn add(&mut self, round: u64, rtts: impl Iterator<Item = Duration>) {
        if round != self.round {
            *self = MeanOfRound {
                round,
                ..MeanOfRound::default()
            };
        }
        for rtt in rtts {
            self.sum += rtt;
            self.count += 1;
        }
    }

    pub(super) fn value(&self) -> Option<Duration> {
        (self.count > 0).then(|| self.sum / self.count)
    }
}
