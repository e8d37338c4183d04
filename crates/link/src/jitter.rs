//! Delay variation as RFC 8868 §3.1 models it.

use anabranch_units::{DataRate, Duration, Instant, Rng, Seed};

use crate::schedule::Schedule;

/// How packets' propagation delays vary around a link's delay: by a normally distributed amount
/// (z), cut off at a number of standard deviations (RFC 8868 §3.1.3).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JitterModel {
    /// Standard deviation before the cut (std).
    pub std: Duration,
    /// Standard deviations at which the amount is cut off (N_STD).
    pub max_deviations: f64,
    /// What the amount is added to.
    pub shape: JitterShape,
    /// Whether packets may overtake each other (random bounded PDV, §3.1.1). If not, a packet
    /// leaves no earlier than the one before it did, plus that one's serialisation time at the
    /// link's rate (no-reordering bounded PDV, §3.1.2).
    pub may_reorder: bool,
}

/// The two readings of RFC 8868 §3.1.3, whose text has z of zero mean and whose formula has its
/// absolute value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JitterShape {
    /// The link's delay is the mean: with the recommended values, -15 ms to 15 ms. This fits the
    /// 30 ms of maximum end-to-end jitter in RFC 8867.
    #[default]
    ZeroMean,
    /// The link's delay is the least: 0 ms to 15 ms.
    Folded,
}

impl Default for JitterModel {
    /// The values that RFC 8868 §3.1.3 recommends, without reordering.
    fn default() -> Self {
        JitterModel {
            std: Duration::from_millis(5),
            max_deviations: 3.0,
            shape: JitterShape::ZeroMean,
            may_reorder: false,
        }
    }
}

impl JitterModel {
    /// The most that a packet's delay is off.
    pub fn bound(&self) -> Duration {
        self.std.mul_f64(self.max_deviations)
    }

    /// How much earlier than after the link's delay a packet may leave.
    pub fn max_advance(&self) -> Duration {
        match self.shape {
            JitterShape::ZeroMean => self.bound(),
            JitterShape::Folded => Duration::ZERO,
        }
    }
}

/// A model with its chance and its memory.
#[derive(Clone, Debug)]
pub(crate) struct Jitter {
    model: JitterModel,
    normal: Normal,
    /// The link's rate, for serialisation times.
    rate: Schedule<DataRate>,
    /// Before this no packet leaves.
    next_release_at: Instant,
}

impl Jitter {
    pub(crate) fn new(model: JitterModel, rate: Schedule<DataRate>, seed: Seed) -> Self {
        Jitter {
            model,
            normal: Normal::new(seed),
            rate,
            next_release_at: Instant::ZERO,
        }
    }

    /// When a packet leaves that enters at `now` a link with this `delay`.
    pub(crate) fn release_at(&mut self, now: Instant, delay: Duration, size_bytes: u32) -> Instant {
        let limit = self.model.max_deviations;
        let deviations = self.normal.sample().clamp(-limit, limit);
        let amount = self.model.std.mul_f64(deviations.abs());
        let is_early = deviations < 0.0 && self.model.shape == JitterShape::ZeroMean;
        let varied = match is_early {
            true => delay.saturating_sub(amount),
            false => delay + amount,
        };
        if self.model.may_reorder {
            return now + varied;
        }
        let release_at = (now + varied).max(self.next_release_at);
        self.next_release_at = release_at + self.serialisation_time(now, size_bytes);
        release_at
    }

    fn serialisation_time(&self, now: Instant, size_bytes: u32) -> Duration {
        match self.rate.value_at(now) {
            // Nothing is serialised now; the rate was another when this packet was.
            DataRate::ZERO | DataRate::MAX => Duration::ZERO,
            rate => rate.time_for(u64::from(size_bytes)),
        }
    }

    pub(crate) fn max_advance(&self) -> Duration {
        self.model.max_advance()
    }

    pub(crate) fn next_release_at(&self) -> Instant {
        self.next_release_at
    }

    /// Nothing is left to be overtaken.
    pub(crate) fn forget(&mut self, now: Instant) {
        self.next_release_at = now;
    }
}

/// The standard normal distribution (Box & Muller 1958).
#[derive(Clone, Debug)]
struct Normal {
    rng: Rng,
    spare: Option<f64>,
}

impl Normal {
    fn new(seed: Seed) -> Self {
        Normal {
            rng: seed.rng(),
            spare: None,
        }
    }

    fn sample(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        // 1 - u, as the logarithm of zero is none.
        let radius = (-2.0 * libm::log(1.0 - self.rng.next_f64())).sqrt();
        let angle = 2.0 * core::f64::consts::PI * self.rng.next_f64();
        self.spare = Some(radius * libm::sin(angle));
        radius * libm::cos(angle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_standard_normal() {
        let mut normal = Normal::new(Seed(1));
        let samples: Vec<f64> = (0..400_000).map(|_| normal.sample()).collect();
        let moment = |power: i32| {
            let sum: f64 = samples.iter().map(|sample| sample.powi(power)).sum();
            sum / samples.len() as f64
        };
        // Four standard errors of each moment of a normal distribution.
        assert!(moment(1).abs() < 0.006_4, "{}", moment(1));
        assert!((moment(2) - 1.0).abs() < 0.009, "{}", moment(2));
        assert!(moment(3).abs() < 0.025, "{}", moment(3));
        assert!((moment(4) - 3.0).abs() < 0.063, "{}", moment(4));
        let within = samples.iter().filter(|sample| sample.abs() <= 1.0).count();
        let share = within as f64 / samples.len() as f64;
        assert!((share - 0.682_69).abs() < 0.003, "{share}");
        // Consecutive samples come from one pair.
        let products = samples.windows(2).map(|pair| pair[0] * pair[1]);
        let correlation = products.sum::<f64>() / samples.len() as f64;
        assert!(correlation.abs() < 0.006_4, "{correlation}");
    }
}
