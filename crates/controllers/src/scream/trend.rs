//! The queuing delay's trend (RFC 8298 §4.1.2.1), sampled every 50 ms.

const HISTORY: usize = 20;
/// `QDELAY_WEIGHT`.
const FRACTION_WEIGHT: f64 = 0.1;
const MEMORY: f64 = 0.99;

/// Whether the queue grows steadily: 0 no, 1 yes.
#[derive(Clone, Debug, Default)]
pub(super) struct Trend {
    /// `qdelay_fraction_avg`.
    fraction_average: f64,
    /// `qdelay_fraction_hist`, in a ring.
    fractions: [f64; HISTORY],
    pub(super) sample_count: usize,
    /// `qdelay_trend`, and `qdelay_trend_mem`, which falls slowly.
    pub(super) value: f64,
    pub(super) memory: f64,
}

impl Trend {
    /// Takes the queuing delay as a fraction of its target.
    pub(super) fn on_sample(&mut self, fraction: f64) {
        self.fraction_average += FRACTION_WEIGHT * (fraction - self.fraction_average);
        self.fractions[self.sample_count % HISTORY] = fraction;
        self.sample_count += 1;
        self.value = (self.correlation() * self.fraction_average).clamp(0.0, 1.0);
        self.memory = (MEMORY * self.memory).max(self.value);
    }

    /// Returns the autocorrelation at a lag of one sample, over that at zero.
    fn correlation(&self) -> f64 {
        let mean = self.fractions.iter().sum::<f64>() / HISTORY as f64;
        let by_age: [f64; HISTORY] =
            core::array::from_fn(|age| self.fractions[(self.sample_count + age) % HISTORY] - mean);
        let power: f64 = by_age.iter().map(|sample| sample * sample).sum();
        let lagged: f64 = by_age.windows(2).map(|pair| pair[1] * pair[0]).sum();
        if power > 0.0 { lagged / power } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc8298_4_1_2_1_a_growing_delay_has_a_trend_and_a_noisy_one_has_not() {
        let (mut growing, mut noisy) = (Trend::default(), Trend::default());
        for sample in 0..20 {
            growing.on_sample(f64::from(sample) / 20.0);
            noisy.on_sample(f64::from(sample % 2) * 0.9);
        }
        // Autocorrelation of a ramp of 20 at lag 1: 0.85.
        let average = growing.fraction_average;
        assert!((0.5..0.6).contains(&average), "{growing:?}");
        assert!((growing.value - 0.85 * average).abs() < 1e-9, "{growing:?}");
        assert_eq!(noisy.value, 0.0);
    }

    #[test]
    fn rfc8298_4_1_2_1_memory_falls_by_a_hundredth_a_sample() {
        let mut trend = Trend {
            memory: 0.5,
            ..Trend::default()
        };
        trend.on_sample(0.0);
        assert_eq!((trend.value, trend.memory), (0.0, 0.495));
    }

    #[test]
    fn rfc8298_4_1_2_1_autocorrelation_of_the_oldest_to_the_newest() {
        fn at(age: f64) -> f64 {
            age - 9.5
        }

        let mut trend = Trend::default();
        for sample in 0..27 {
            trend.on_sample(f64::from(sample));
        }
        // The ring has wrapped: still a ramp, Σ over 19 lags by Σ over 20.
        let power: f64 = (0..20)
            .map(|age| at(f64::from(age)) * at(f64::from(age)))
            .sum();
        let lagged: f64 = (1..20)
            .map(|age| at(f64::from(age)) * at(f64::from(age) - 1.0))
            .sum();
        assert!((trend.correlation() - lagged / power).abs() < 1e-12);
    }
}
