//! The overuse detector: the arrival filter's output against a threshold that adapts, so that
//! flows that compete by loss do not starve this one (draft §5.4; Carlucci et al. 2016).

use anabranch_units::Instant;

use super::inter_group::Delta;

/// `del_var_th(0)`, in milliseconds.
pub(super) const INITIAL_THRESHOLD_MILLIS: f64 = 12.5;
pub(super) const MIN_THRESHOLD_MILLIS: f64 = 6.0;
const MAX_THRESHOLD_MILLIS: f64 = 600.0;
/// Excess over the threshold beyond which a signal does not move it.
const MAX_EXCESS_MILLIS: f64 = 15.0;
/// Largest time that one step of the threshold accounts for.
const MAX_STEP_MILLIS: f64 = 100.0;
/// `overuse_time_th`: time that overuse must exceed.
const OVERUSE_TIME_MILLIS: f64 = 10.0;

/// Verdict of the delay on the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Usage {
    Normal,
    Overuse,
    Underuse,
}

/// Speed at which the threshold follows the signal, per millisecond. The pairs belong to their
/// filters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ThresholdGains {
    /// While the signal is above it: `K_u`.
    pub(super) up: f64,
    /// While it is below: `K_d`.
    pub(super) down: f64,
}

impl ThresholdGains {
    /// With the Kalman filter (draft §5.4).
    pub(super) const KALMAN: ThresholdGains = ThresholdGains {
        up: 0.01,
        down: 0.000_18,
    };
    /// With the trendline (WebRTC).
    pub(super) const TRENDLINE: ThresholdGains = ThresholdGains {
        up: 0.0087,
        down: 0.039,
    };
    /// A threshold that does not move.
    pub(super) const FIXED: ThresholdGains = ThresholdGains { up: 0.0, down: 0.0 };
}

/// Detects an overused path.
#[derive(Clone, Debug)]
pub(super) struct OveruseDetector {
    gains: ThresholdGains,
    /// `gamma`, in milliseconds.
    pub(super) threshold_millis: f64,
    updated_at: Option<Instant>,
    over_millis: Option<f64>,
    over_count: u32,
    previous_slope: f64,
    usage: Usage,
}

impl OveruseDetector {
    pub(super) fn new(gains: ThresholdGains) -> Self {
        OveruseDetector {
            gains,
            threshold_millis: INITIAL_THRESHOLD_MILLIS,
            updated_at: None,
            over_millis: None,
            over_count: 0,
            previous_slope: 0.0,
            usage: Usage::Normal,
        }
    }

    pub(super) fn usage(&self) -> Usage {
        self.usage
    }

    /// Handles a new output of the filter: `slope`, and `signal_millis`, the same on the
    /// threshold's scale.
    pub(super) fn on_signal(&mut self, delta: &Delta, slope: f64, signal_millis: f64) {
        if signal_millis > self.threshold_millis {
            let before = self.over_millis.unwrap_or(-delta.sent_millis / 2.0);
            let over_millis = before + delta.sent_millis;
            self.over_millis = Some(over_millis);
            self.over_count += 1;
            let has_lasted = over_millis > OVERUSE_TIME_MILLIS && self.over_count > 1;
            if has_lasted && slope >= self.previous_slope {
                (self.over_millis, self.over_count) = (Some(0.0), 0);
                self.usage = Usage::Overuse;
            }
        } else {
            (self.over_millis, self.over_count) = (None, 0);
            self.usage = if signal_millis < -self.threshold_millis {
                Usage::Underuse
            } else {
                Usage::Normal
            };
        }
        self.previous_slope = slope;
        self.adapt(delta.received_at, signal_millis.abs());
    }

    fn adapt(&mut self, now: Instant, signal_millis: f64) {
        let updated_at = self.updated_at.replace(now).unwrap_or(now);
        if signal_millis > self.threshold_millis + MAX_EXCESS_MILLIS {
            return;
        }
        let gain = if signal_millis < self.threshold_millis {
            self.gains.down
        } else {
            self.gains.up
        };
        let step_millis = now
            .saturating_since(updated_at)
            .as_millis_f64()
            .min(MAX_STEP_MILLIS);
        self.threshold_millis += gain * (signal_millis - self.threshold_millis) * step_millis;
        self.threshold_millis = self
            .threshold_millis
            .clamp(MIN_THRESHOLD_MILLIS, MAX_THRESHOLD_MILLIS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds groups 6 ms apart, all with this signal.
    fn feed(detector: &mut OveruseDetector, from_millis: u64, signal_millis: f64, count: u64) {
        for group in 0..count {
            let delta = Delta {
                sent_millis: 6.0,
                delay_millis: 0.0,
                received_at: Instant::from_millis(from_millis + 6 * group),
            };
            detector.on_signal(&delta, signal_millis, signal_millis);
        }
    }

    #[test]
    fn draft_5_4_overuse_has_to_last_ten_milliseconds_and_two_groups() {
        let mut detector = OveruseDetector::new(ThresholdGains::FIXED);
        feed(&mut detector, 0, 20.0, 2);
        // 3 ms (half of the first group's) and 6 ms.
        assert_eq!(detector.usage(), Usage::Normal);
        feed(&mut detector, 12, 20.0, 1);
        assert_eq!(detector.usage(), Usage::Overuse);
        feed(&mut detector, 18, 0.0, 1);
        assert_eq!(detector.usage(), Usage::Normal);
        feed(&mut detector, 24, -13.0, 1);
        assert_eq!(detector.usage(), Usage::Underuse);
    }

    #[test]
    fn draft_5_4_no_overuse_while_the_gradient_falls() {
        let mut detector = OveruseDetector::new(ThresholdGains::FIXED);
        for (group, signal) in [30.0, 29.0, 28.0, 27.0].into_iter().enumerate() {
            feed(&mut detector, 6 * group as u64, signal, 1);
        }
        assert_eq!(detector.usage(), Usage::Normal);
    }

    #[test]
    fn draft_5_4_threshold_follows_with_the_filters_own_gains() {
        for (gains, signal, expected) in [
            (ThresholdGains::KALMAN, 20.0, 12.5 + 6.0 * 0.01 * 7.5),
            (ThresholdGains::KALMAN, 0.0, 12.5 - 6.0 * 0.000_18 * 12.5),
            (ThresholdGains::TRENDLINE, 20.0, 12.5 + 6.0 * 0.0087 * 7.5),
            (ThresholdGains::TRENDLINE, 0.0, 12.5 - 6.0 * 0.039 * 12.5),
            (ThresholdGains::TRENDLINE, 27.6, 12.5),
        ] {
            let mut detector = OveruseDetector::new(gains);
            feed(&mut detector, 0, signal, 2);
            let threshold = detector.threshold_millis;
            assert!((threshold - expected).abs() < 1e-9, "{threshold}");
        }
    }

    #[test]
    fn property_constant_delay_lets_the_threshold_decay_to_six_milliseconds() {
        // The trendline's needs a third of a second, the Kalman filter's some seconds.
        for (gains, seconds) in [(ThresholdGains::TRENDLINE, 1), (ThresholdGains::KALMAN, 6)] {
            let mut detector = OveruseDetector::new(gains);
            feed(&mut detector, 0, 0.0, seconds * 1_000 / 6);
            assert_eq!(detector.threshold_millis, MIN_THRESHOLD_MILLIS);
        }
    }
}
