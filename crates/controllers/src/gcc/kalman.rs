//! Arrival filter A: the scalar Kalman filter of draft-ietf-rmcat-gcc-02 §5.3.

use super::inter_group::Delta;

/// `q`: variance of the state noise.
const STATE_NOISE: f64 = 1e-3;
/// `e(0)`.
const INITIAL_ERROR: f64 = 0.1;
/// `chi`, of the draft's range 0.1 to 0.001.
const CHI: f64 = 0.01;
/// `K`: groups of which the highest rate counts; the draft gives no number.
const RATE_WINDOW: usize = 20;
/// Bound of a residual, in standard deviations.
const MAX_DEVIATIONS: f64 = 3.0;

/// `m(i)`: the gradient of the queuing delay, in milliseconds per group.
#[derive(Clone, Debug)]
pub(super) struct Kalman {
    gradient_millis: f64,
    /// `e(i)`.
    error: f64,
    /// `var_v_hat`: variance of the measurement noise.
    noise_variance: f64,
    /// `T(i) - T(i-1)` of the last groups, in a ring.
    sent_millis: [f64; RATE_WINDOW],
    group_count: usize,
}

impl Default for Kalman {
    fn default() -> Self {
        Kalman {
            gradient_millis: 0.0,
            error: INITIAL_ERROR,
            noise_variance: 1.0,
            sent_millis: [f64::INFINITY; RATE_WINDOW],
            group_count: 0,
        }
    }
}

impl Kalman {
    /// Takes the next pair of groups and returns the gradient.
    pub(super) fn on_delta(&mut self, delta: &Delta) -> f64 {
        self.sent_millis[self.group_count % RATE_WINDOW] = delta.sent_millis.max(1.0);
        self.group_count += 1;
        let residual = delta.delay_millis - self.gradient_millis;
        self.update_noise(residual);
        let predicted_error = self.error + STATE_NOISE;
        let gain = predicted_error / (self.noise_variance + predicted_error);
        self.gradient_millis += gain * residual;
        self.error = (1.0 - gain) * predicted_error;
        self.gradient_millis
    }

    /// `var = max(a var + (1 - a) z², 1)`, `a = (1 - chi)^(30 / (1000 f_max))`.
    fn update_noise(&mut self, residual: f64) {
        let shortest_millis = self
            .sent_millis
            .iter()
            .copied()
            .fold(f64::INFINITY, f64::min);
        let memory = libm::pow(1.0 - CHI, 30.0 * shortest_millis / 1_000.0);
        let limit = MAX_DEVIATIONS * self.noise_variance.sqrt();
        let residual = residual.clamp(-limit, limit);
        self.noise_variance =
            (memory * self.noise_variance + (1.0 - memory) * residual * residual).max(1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_units::Instant;

    fn delta(delay_millis: f64) -> Delta {
        Delta {
            sent_millis: 10.0,
            delay_millis,
            received_at: Instant::ZERO,
        }
    }

    #[test]
    fn draft_5_3_first_step_by_hand() {
        let mut kalman = Kalman::default();
        // k = 0.101 / 1.101.
        let gradient = kalman.on_delta(&delta(1.0));
        assert!((gradient - 0.101 / 1.101).abs() < 1e-12);
        assert!((kalman.error - (1.0 - 0.101 / 1.101) * 0.101).abs() < 1e-12);
    }

    #[test]
    fn draft_5_3_gradient_converges() {
        let mut kalman = Kalman::default();
        let last = (0..300).map(|_| kalman.on_delta(&delta(0.7))).last();
        assert!((last.unwrap() - 0.7).abs() < 0.01, "{last:?}");
    }

    #[test]
    fn draft_5_3_noise_is_at_least_one_and_an_outlier_counts_as_three_deviations() {
        let mut kalman = Kalman::default();
        kalman.on_delta(&delta(0.0));
        assert_eq!(kalman.noise_variance, 1.0);
        kalman.on_delta(&delta(1e6));
        // f_max = 100 Hz: a = 0.99^0.3.
        let memory = libm::pow(0.99, 0.3);
        assert!((kalman.noise_variance - (memory + (1.0 - memory) * 9.0)).abs() < 1e-9);
    }
}
