//! `R_hat`: the rate at which packets have arrived.

use anabranch_units::{Duration, Instant};

use super::super::rate_meter::RateMeter;

const FIRST_WINDOW: Duration = Duration::from_millis(500);
const WINDOW: Duration = Duration::from_millis(150);
/// Standard deviation of a sample, in kbit/s per unit of relative distance from the estimate.
const UNCERTAINTY: f64 = 10.0;
/// Variance that the estimate gains from one sample to the next.
const PROCESS_VARIANCE: f64 = 5.0;
const INITIAL_VARIANCE: f64 = 50.0;
/// The draft's window (§5.5: 0.5 to 1 s).
const DRAFT_WINDOW: Duration = Duration::from_millis(500);

/// Estimator of the received rate.
#[derive(Clone, Debug)]
pub(super) enum Throughput {
    /// The acknowledged bitrate estimator of WebRTC.
    Acknowledged(AcknowledgedRate),
    /// A sliding window (draft §5.5).
    Window(Box<RateMeter>),
}

impl Throughput {
    pub(super) fn acknowledged() -> Self {
        Throughput::Acknowledged(AcknowledgedRate::default())
    }

    pub(super) fn window() -> Self {
        Throughput::Window(Box::new(RateMeter::new(DRAFT_WINDOW)))
    }

    pub(super) fn on_received(&mut self, at: Instant, bytes: u32) {
        match self {
            Throughput::Acknowledged(rate) => rate.on_received(at, bytes),
            Throughput::Window(meter) => meter.on_bytes(at, bytes.into()),
        }
    }

    pub(super) fn bits_per_second(&self) -> Option<f64> {
        match self {
            Throughput::Acknowledged(rate) => rate.estimate_kilobits.map(|rate| rate * 1e3),
            Throughput::Window(meter) => meter.bits_per_second(),
        }
    }

    pub(super) fn restart(&mut self) {
        match self {
            Throughput::Acknowledged(rate) => *rate = AcknowledgedRate::default(),
            Throughput::Window(meter) => meter.restart(),
        }
    }
}

/// Bayesian mean of the rates over windows of 150 ms (the first one 500 ms). The further a sample
/// is from the estimate, the smaller is its weight.
#[derive(Clone, Debug)]
pub(super) struct AcknowledgedRate {
    estimate_kilobits: Option<f64>,
    variance: f64,
    previous_at: Option<Instant>,
    window_passed: Duration,
    window_bytes: u64,
}

impl Default for AcknowledgedRate {
    fn default() -> Self {
        AcknowledgedRate {
            estimate_kilobits: None,
            variance: INITIAL_VARIANCE,
            previous_at: None,
            window_passed: Duration::ZERO,
            window_bytes: 0,
        }
    }
}

impl AcknowledgedRate {
    fn on_received(&mut self, at: Instant, bytes: u32) {
        if let Some(sample_kilobits) = self.on_window(at, bytes) {
            let Some(estimate) = self.estimate_kilobits else {
                self.estimate_kilobits = Some(sample_kilobits);
                return;
            };
            let distance = (estimate - sample_kilobits).abs() / estimate.max(1.0);
            let deviation = UNCERTAINTY * distance;
            let sample_variance = deviation * deviation;
            let variance = self.variance + PROCESS_VARIANCE;
            let total = sample_variance + variance;
            self.estimate_kilobits =
                Some((sample_variance * estimate + variance * sample_kilobits) / total);
            self.variance = sample_variance * variance / total;
        }
    }

    fn on_window(&mut self, at: Instant, bytes: u32) -> Option<f64> {
        let window = match self.estimate_kilobits {
            None => FIRST_WINDOW,
            Some(_) => WINDOW,
        };
        let previous_at = self.previous_at.unwrap_or(at);
        let passed = at.saturating_since(previous_at);
        self.previous_at = Some(at.max(previous_at));
        self.window_passed += passed;
        if passed > window {
            self.window_bytes = 0;
            self.window_passed = remainder(self.window_passed, window);
        }
        let mut sample = None;
        if self.window_passed >= window {
            sample = Some(self.window_bytes as f64 * 8.0 / window.as_millis_f64());
            self.window_passed = self.window_passed.saturating_sub(window);
            self.window_bytes = 0;
        }
        self.window_bytes += u64::from(bytes);
        sample
    }
}

fn remainder(span: Duration, window: Duration) -> Duration {
    Duration::from_nanos(span.as_nanos() % window.as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds 1000 bytes every `gap` milliseconds, for `millis`.
    fn feed(throughput: &mut Throughput, from_millis: u64, gap: u64, millis: u64) {
        for at in (from_millis..from_millis + millis).step_by(gap as usize) {
            throughput.on_received(Instant::from_millis(at), 1_000);
        }
    }

    #[test]
    fn acknowledged_rate_needs_half_a_second_first() {
        let mut throughput = Throughput::acknowledged();
        feed(&mut throughput, 1_000, 5, 500);
        assert_eq!(throughput.bits_per_second(), None);
        feed(&mut throughput, 1_500, 5, 5);
        assert_eq!(throughput.bits_per_second(), Some(1.6e6));
    }

    #[test]
    fn acknowledged_rate_weighs_a_sample_by_its_distance() {
        let mut throughput = Throughput::acknowledged();
        feed(&mut throughput, 1_000, 5, 505);
        // The next whole window of 150 ms has half the rate.
        feed(&mut throughput, 1_510, 10, 151);
        // Sample variance (10 × 0.48)², that of the estimate 55.
        let (old, new) = (1_600.0, 8_000.0 * 15.5 / 150.0);
        let variance = 100.0 * ((old - new) / old) * ((old - new) / old);
        let expected = (variance * old + 55.0 * new) / (variance + 55.0);
        let found = throughput.bits_per_second().unwrap() / 1e3;
        assert!((found / expected - 1.0).abs() < 0.03, "{found} {expected}");
    }

    #[test]
    fn a_long_pause_does_not_count_as_a_low_rate() {
        let mut throughput = Throughput::acknowledged();
        feed(&mut throughput, 1_000, 5, 1_000);
        feed(&mut throughput, 60_000, 5, 1_000);
        let rate = throughput.bits_per_second().unwrap();
        assert!((rate / 1.6e6 - 1.0).abs() < 0.02, "{rate}");
    }
}
