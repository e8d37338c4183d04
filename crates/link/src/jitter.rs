//! Delay variation: as RFC 8868 §3.1 models it, or uniform.

use anabranch_units::{DataRate, Duration, Instant, Rng, Seed};

use crate::schedule::Schedule;

/// Variation of packets' propagation delays around a link's delay.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct JitterModel {
    /// Variation of each packet's delay.
    pub amount: JitterAmount,
    /// Rule that keeps packets in order.
    pub order: JitterOrder,
}

/// Variation of a packet's delay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum JitterAmount {
    /// A normally distributed amount (z of RFC 8868 §3.1.3), cut off at a number of deviations.
    Normal {
        /// Standard deviation before the cut (std).
        std: Duration,
        /// Standard deviations at which the amount is cut off (N_STD).
        max_deviations: f64,
        /// Base that the amount is added to.
        shape: JitterShape,
    },
    /// Any amount from zero to this is equally likely, on top of the link's delay.
    Uniform(Duration),
}

impl Default for JitterAmount {
    /// Returns the values that RFC 8868 §3.1.3 recommends.
    fn default() -> Self {
        JitterAmount::Normal {
            std: Duration::from_millis(5),
            max_deviations: 3.0,
            shape: JitterShape::ZeroMean,
        }
    }
}

/// The two readings of RFC 8868 §3.1.3, whose text gives z an average of zero and whose formula
/// takes its absolute value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JitterShape {
    /// The average is the link's delay: with the recommended values, -15 ms to 15 ms. This fits the
    /// 30 ms of maximum end-to-end jitter in RFC 8867.
    #[default]
    ZeroMean,
    /// The link's delay is the minimum: 0 ms to 15 ms.
    Folded,
}

/// Rule that keeps packets with varying delays in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JitterOrder {
    /// A packet leaves no earlier than the one before it, plus that one's serialisation time at the
    /// link's rate (no-reordering bounded PDV of RFC 8868 §3.1.2).
    #[default]
    Spaced,
    /// A packet leaves no earlier than the one before it did. Several may leave together, as from a
    /// radio that gathers packets.
    Bunched,
    /// No rule: packets may overtake each other (random bounded PDV of RFC 8868 §3.1.1).
    Reordered,
}

impl JitterModel {
    /// Returns the maximum time by which a packet may leave earlier than after the link's delay.
    pub fn max_advance(&self) -> Duration {
        match self.amount {
            JitterAmount::Normal {
                std,
                max_deviations,
                shape: JitterShape::ZeroMean,
            } => std.mul_f64(max_deviations),
            _ => Duration::ZERO,
        }
    }
}

/// A model with its random numbers and its memory.
#[derive(Clone, Debug)]
pub(crate) struct Jitter {
    model: JitterModel,
    normal: Normal,
    /// The link's rate, for serialisation times.
    rate: Schedule<DataRate>,
    /// Instant before which no packet leaves.
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

    /// Returns the departure of a packet that enters a link with this `delay` at `now`.
    pub(crate) fn release_at(&mut self, now: Instant, delay: Duration, size_bytes: u32) -> Instant {
        let varied = now + self.varied(delay);
        let gap = match self.model.order {
            JitterOrder::Reordered => return varied,
            JitterOrder::Bunched => Duration::ZERO,
            JitterOrder::Spaced => self.serialisation_time(now, size_bytes),
        };
        let release_at = varied.max(self.next_release_at);
        self.next_release_at = release_at + gap;
        release_at
    }

    fn varied(&mut self, delay: Duration) -> Duration {
        match self.model.amount {
            JitterAmount::Uniform(most) => delay + most.mul_f64(self.normal.rng.next_f64()),
            JitterAmount::Normal {
                std,
                max_deviations: limit,
                shape,
            } => {
                let deviations = self.normal.sample().clamp(-limit, limit);
                let amount = std.mul_f64(deviations.abs());
                if deviations < 0.0 && shape == JitterShape::ZeroMean {
                    delay.saturating_sub(amount)
                } else {
                    delay + amount
                }
            }
        }
    }

    fn serialisation_time(&self, now: Instant, size_bytes: u32) -> Duration {
        match self.rate.value_at(now) {
            // Nothing is serialised now; the rate was different for the packet before.
            DataRate::ZERO | DataRate::MAX => Duration::ZERO,
            rate => rate.time_for(u64::from(size_bytes)),
        }
    }

    pub(crate) fn set_rate(&mut self, rate: DataRate) {
        self.rate = Schedule::constant(rate);
    }

    /// Packets in flight leave by `at` at the latest: the next one may leave then.
    pub(crate) fn set_next_release_at(&mut self, at: Instant) {
        self.next_release_at = at;
    }

    pub(crate) fn max_advance(&self) -> Duration {
        self.model.max_advance()
    }

    pub(crate) fn next_release_at(&self) -> Instant {
        self.next_release_at
    }

    /// Forgets earlier packets, as none is left to be overtaken.
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
        // 1 - u, as zero has no logarithm.
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
        fn moment(power: i32, samples: &[f64]) -> f64 {
            let sum: f64 = samples.iter().map(|sample| sample.powi(power)).sum();
            sum / samples.len() as f64
        }

        let mut normal = Normal::new(Seed(1));
        let samples: Vec<f64> = (0..400_000).map(|_| normal.sample()).collect();
        // Four standard errors of each moment of a normal distribution.
        assert!(
            moment(1, &samples).abs() < 0.006_4,
            "{}",
            moment(1, &samples)
        );
        assert!(
            (moment(2, &samples) - 1.0).abs() < 0.009,
            "{}",
            moment(2, &samples)
        );
        assert!(moment(3, &samples).abs() < 0.025, "{}", moment(3, &samples));
        assert!(
            (moment(4, &samples) - 3.0).abs() < 0.063,
            "{}",
            moment(4, &samples)
        );
        let within = samples.iter().filter(|sample| sample.abs() <= 1.0).count();
        let share = within as f64 / samples.len() as f64;
        assert!((share - 0.682_69).abs() < 0.003, "{share}");
        // Two consecutive samples are made from one pair.
        let products = samples.windows(2).map(|pair| pair[0] * pair[1]);
        let correlation = products.sum::<f64>() / samples.len() as f64;
        assert!(correlation.abs() < 0.006_4, "{correlation}");
    }
}
