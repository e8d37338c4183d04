//! Variation of a rate.

/// Mean and coefficient of variation of samples that stream past (Welford 1962).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Variation {
    count: u64,
    mean: f64,
    /// Sum of squared deviations from the mean.
    deviation: f64,
}

impl Variation {
    /// Adds a sample.
    pub fn record(&mut self, sample: f64) {
        self.count += 1;
        let delta = sample - self.mean;
        self.mean += delta / self.count as f64;
        self.deviation += delta * (sample - self.mean);
    }

    /// Returns standard deviation (of the population) over mean; `None` without samples or with
    /// mean zero.
    pub fn coefficient(&self) -> Option<f64> {
        let variance = self.deviation / self.count as f64;
        (self.count > 0 && self.mean > 0.0).then(|| variance.sqrt() / self.mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coefficient(samples: &[f64]) -> Option<f64> {
        let mut variation = Variation::default();
        samples.iter().for_each(|sample| variation.record(*sample));
        variation.coefficient()
    }

    #[test]
    fn a_constant_does_not_vary() {
        assert_eq!(coefficient(&[1.7; 100]), Some(0.0));
        assert_eq!(coefficient(&[]), None);
        assert_eq!(coefficient(&[0.0; 3]), None);
    }

    #[test]
    fn the_coefficient_is_deviation_over_mean() {
        let value = coefficient(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert!((value - 0.4).abs() < 1e-12, "{value}");
    }
}
