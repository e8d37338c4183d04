//! Traffic without answers: datagrams of one size at a rate that ignores the network.

use anabranch_units::{DataRate, Duration, Instant, Rng, Seed};

use crate::ids::RouteId;

/// A flow of raw datagrams along a route's forward links: no endpoint, no feedback.
#[derive(Clone, Debug, PartialEq)]
pub struct GeneratorConfig {
    /// Route of its packets.
    pub route: RouteId,
    /// Bytes of each packet on the wire.
    pub size_bytes: u32,
    /// Sending rate.
    pub rate: GeneratorRate,
    /// Spacing of packets at that rate.
    pub spacing: Spacing,
    /// Start of the generator.
    pub start: Instant,
    /// Time from which on it sends no more; `None`: never.
    pub stop: Option<Instant>,
}

/// Sending rate of a generator.
#[derive(Clone, Debug, PartialEq)]
pub enum GeneratorRate {
    /// A rate that may change at given instants.
    Steps {
        /// The rate to start with.
        rate: DataRate,
        /// Rates that hold from an instant on, in the order of time.
        changes: Vec<(Instant, DataRate)>,
    },
    /// A rate that is alternately on and off.
    OnOff {
        /// The rate while on.
        rate: DataRate,
        /// Duration of an on period.
        on: Duration,
        /// Duration of an off period.
        off: Duration,
        /// Whether these are averages of exponential distributions instead of fixed durations.
        is_exponential: bool,
        /// Whether it is on first.
        starts_on: bool,
    },
}

/// Spacing of packets at a given rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spacing {
    /// A packet leaves as soon as the rate permits its bytes, the first immediately.
    #[default]
    Even,
    /// The gaps are exponentially distributed: a Poisson process.
    Exponential,
}

/// Mistakes in a generator's set-up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GeneratorConfigError {
    /// Its packets are too small or too large.
    #[error("packets of {0} B: allowed are 29 B to 65535 B, headers included")]
    Size(u32),
    /// A period below the minimum.
    #[error("{0}: a period on or off lasts 1 ms at least")]
    Period(Duration),
    /// A rate above the maximum, at which time would not advance.
    #[error("{0}: a generator sends at most 100 Gbit/s")]
    Rate(DataRate),
    /// Its rate changes are out of order.
    #[error("the rate changes at {0} after a later change")]
    Order(Instant),
}

impl GeneratorConfig {
    /// Checks the values.
    ///
    /// # Errors
    /// A [`GeneratorConfigError`] that names the wrong value.
    pub fn check(&self) -> Result<(), GeneratorConfigError> {
        // An IPv4 header, a UDP header and a byte.
        if !(29..=65_535).contains(&self.size_bytes) {
            return Err(GeneratorConfigError::Size(self.size_bytes));
        }
        let (rate, changes) = match &self.rate {
            GeneratorRate::Steps { rate, changes } => (rate, changes.as_slice()),
            GeneratorRate::OnOff { rate, .. } => (rate, [].as_slice()),
        };
        let rates = std::iter::once(rate).chain(changes.iter().map(|(_, rate)| rate));
        if let Some(rate) = rates.into_iter().find(|rate| **rate > MAX_RATE) {
            return Err(GeneratorConfigError::Rate(*rate));
        }
        match &self.rate {
            GeneratorRate::Steps { changes, .. } => {
                let disordered = changes.windows(2).find(|pair| pair[1].0 < pair[0].0);
                disordered.map_or(Ok(()), |pair| Err(GeneratorConfigError::Order(pair[1].0)))
            }
            GeneratorRate::OnOff { on, off, .. } => {
                let short = [*on, *off].into_iter().find(|span| *span < SHORTEST_PERIOD);
                short.map_or(Ok(()), |span| Err(GeneratorConfigError::Period(span)))
            }
        }
    }
}

const MAX_RATE: DataRate = DataRate::from_megabits_per_second(100_000);

const SHORTEST_PERIOD: Duration = Duration::from_millis(1);

/// Units in a byte. A rate of 1 bit/s yields one unit, a bit-nanosecond per second, in 1 ns.
const UNITS_PER_BYTE: u128 = 8 * 1_000_000_000;

/// A generator in the world's representation.
#[derive(Debug)]
pub(crate) struct Generator {
    pub(crate) config: GeneratorConfig,
    rng: Rng,
    /// Departure of the next packet.
    next_at: Instant,
    /// Rate at `next_at`; the end of its validity follows.
    rate: DataRate,
    rate_until: Instant,
    /// Number of rate changes that have taken effect.
    change_count: usize,
    is_on: bool,
    /// Units that the rate yielded beyond the last packet, because instants are whole nanoseconds.
    carried_units: u128,
}

impl Generator {
    pub(crate) fn new(config: GeneratorConfig, seed: Seed) -> Generator {
        let mut generator = Generator {
            rng: seed.rng(),
            next_at: config.start,
            rate: DataRate::ZERO,
            rate_until: config.start,
            change_count: 0,
            is_on: false,
            carried_units: 0,
            config,
        };
        match &generator.config.rate {
            // The changes before the start have taken effect by then.
            GeneratorRate::Steps { rate, changes } => {
                let past = changes
                    .iter()
                    .take_while(|(at, _)| *at <= generator.next_at);
                generator.change_count = past.count();
                let last = generator
                    .change_count
                    .checked_sub(1)
                    .map(|last| changes[last].1);
                generator.rate = last.unwrap_or(*rate);
                let next = changes.get(generator.change_count);
                generator.rate_until = next.map_or(Instant::FAR_FUTURE, |(at, _)| *at);
            }
            GeneratorRate::OnOff { starts_on, .. } => {
                generator.is_on = !starts_on;
                generator.change_rate();
            }
        }
        let first = match generator.config.spacing {
            Spacing::Even => 0,
            Spacing::Exponential => generator.gap_units(),
        };
        generator.wait_for(first);
        generator
    }

    /// Returns the departure of the next packet; `None` if there is none.
    pub(crate) fn next_at(&self) -> Option<Instant> {
        let is_over = self.config.stop.is_some_and(|stop| stop <= self.next_at);
        (self.next_at < Instant::FAR_FUTURE && !is_over).then_some(self.next_at)
    }

    /// Advances to the next packet after the due one has left.
    pub(crate) fn advance(&mut self) {
        let units = self.gap_units();
        self.wait_for(units);
    }

    /// Returns the units between this packet and the next one.
    fn gap_units(&mut self) -> u128 {
        let units = u128::from(self.config.size_bytes) * UNITS_PER_BYTE;
        match self.config.spacing {
            Spacing::Even => units,
            Spacing::Exponential => (units as f64 * exponential(&mut self.rng)) as u128,
        }
    }

    /// Advances to the instant at which the rate has yielded `units`.
    fn wait_for(&mut self, units: u128) {
        let mut missing = units.saturating_sub(self.carried_units);
        self.carried_units = self.carried_units.saturating_sub(units);
        loop {
            let rate = u128::from(self.rate.bits_per_second());
            let span = u128::from((self.rate_until - self.next_at).as_nanos());
            let needed = missing
                .checked_div(rate)
                .map(|nanos| nanos + u128::from(!missing.is_multiple_of(rate)));
            if let Some(nanos) = needed.filter(|nanos| *nanos < span) {
                self.next_at += Duration::from_nanos(nanos as u64);
                self.carried_units += nanos * rate - missing;
                return;
            }
            missing = missing.saturating_sub(rate * span);
            self.next_at = self.rate_until;
            let is_over = self.config.stop.is_some_and(|stop| stop <= self.next_at);
            if is_over || self.next_at == Instant::FAR_FUTURE {
                self.next_at = Instant::FAR_FUTURE;
                return;
            }
            self.change_rate();
        }
    }

    /// Changes to the next rate.
    fn change_rate(&mut self) {
        match &self.config.rate {
            GeneratorRate::Steps { changes, .. } => {
                self.rate = changes[self.change_count].1;
                self.change_count += 1;
                let next = changes.get(self.change_count);
                self.rate_until = next.map_or(Instant::FAR_FUTURE, |(at, _)| *at);
            }
            GeneratorRate::OnOff {
                rate,
                on,
                off,
                is_exponential,
                ..
            } => {
                self.is_on = !self.is_on;
                let (rate, mean) = if self.is_on {
                    (*rate, *on)
                } else {
                    (DataRate::ZERO, *off)
                };
                let factor = if *is_exponential {
                    exponential(&mut self.rng)
                } else {
                    1.0
                };
                // Never zero, so that time advances.
                let span = mean.mul_f64(factor).max(Duration::from_nanos(1));
                self.rate = rate;
                self.rate_until += span;
            }
        }
    }
}

/// Draws a number from the exponential distribution with mean 1.
fn exponential(rng: &mut Rng) -> f64 {
    -libm::log(1.0 - rng.next_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEGABIT: DataRate = DataRate::from_megabits_per_second(1);

    /// Returns the instants at which a generator of 1500 B packets that starts at `start_s` sends
    /// before `stop_s`.
    fn sent(rate: GeneratorRate, spacing: Spacing, start_s: u64, stop_s: u64) -> Vec<Instant> {
        let config = GeneratorConfig {
            route: RouteId(0),
            size_bytes: 1_500,
            rate,
            spacing,
            start: Instant::from_secs(start_s),
            stop: Some(Instant::from_secs(stop_s)),
        };
        config.check().unwrap();
        let mut generator = Generator::new(config, Seed(5));
        std::iter::from_fn(|| {
            let at = generator.next_at()?;
            generator.advance();
            Some(at)
        })
        .collect()
    }

    fn steps(rate: DataRate, changes: &[(u64, DataRate)]) -> GeneratorRate {
        GeneratorRate::Steps {
            rate,
            changes: changes
                .iter()
                .map(|(at, rate)| (Instant::from_secs(*at), *rate))
                .collect(),
        }
    }

    fn on_off(on_ms: u64, off_ms: u64, is_exponential: bool, starts_on: bool) -> GeneratorRate {
        GeneratorRate::OnOff {
            rate: MEGABIT,
            on: Duration::from_millis(on_ms),
            off: Duration::from_millis(off_ms),
            is_exponential,
            starts_on,
        }
    }

    #[test]
    fn constant_rate_is_even_and_does_not_drift() {
        let seventh = DataRate::from_bits_per_second(7_000_000);
        let sent = sent(steps(seventh, &[]), Spacing::Even, 1, 13);
        // 12 s at 7 Mbit/s are 7000 packets of 12 kbit, and the first leaves immediately.
        assert_eq!(sent.len(), 7_000);
        assert_eq!(sent[0], Instant::from_secs(1));
        assert_eq!(sent[3_500], Instant::from_secs(7));
        for pair in sent.windows(2) {
            let gap = (pair[1] - pair[0]).as_nanos();
            assert!((1_714_285..=1_714_287).contains(&gap), "{gap}");
        }
    }

    #[test]
    fn a_change_of_rate_holds_at_once_and_rate_zero_holds_everything() {
        let changes = [(2, DataRate::ZERO), (4, MEGABIT + MEGABIT)];
        let sent = sent(steps(MEGABIT, &changes), Spacing::Even, 0, 6);
        let (second, fourth) = (Instant::from_secs(2), Instant::from_secs(4));
        // 2 s permit 166 2/3 packets after the one that leaves immediately.
        assert_eq!(sent.iter().filter(|at| **at < second).count(), 167);
        assert!(!sent.iter().any(|at| (second..fourth).contains(at)));
        // The third of a packet that was missing takes 2 ms at 2 Mbit/s.
        assert_eq!(sent[167], Instant::from_millis(4_002));
        assert_eq!(sent[168] - sent[167], Duration::from_millis(6));
    }

    #[test]
    fn a_change_before_the_start_has_come_into_force() {
        let changes = [(1, DataRate::ZERO), (3, MEGABIT)];
        let sent = sent(steps(MEGABIT, &changes), Spacing::Even, 2, 4);
        assert_eq!(sent[0], Instant::from_secs(3));
        assert_eq!(sent.len(), 84);
    }

    #[test]
    fn periods_alternate_and_the_first_is_on_unless_asked() {
        fn is_on(at: &Instant) -> bool {
            at.as_nanos() / 1_000_000 % 480 < 240
        }

        // 240 ms on permit 20 packets of 12 ms.
        let on_first = sent(on_off(240, 240, false, true), Spacing::Even, 0, 48);
        assert_eq!(on_first.len(), 2_000);
        assert!(on_first.iter().all(is_on));
        let off_first = sent(on_off(240, 240, false, false), Spacing::Even, 0, 48);
        assert_eq!(off_first[0], Instant::from_millis(240));
        assert!(!off_first.iter().any(is_on));
    }

    #[test]
    fn exponential_periods_have_the_mean_share_of_the_rate() {
        // On for 0.5 s, off for 1.5 s on average: 20.83 packets a second. In 20,000 s there are
        // 10,000 cycles, whose share deviates by (1 - 1/4) * sqrt(2 / 10,000) = 1.06 %.
        let count = sent(on_off(500, 1_500, true, true), Spacing::Even, 0, 20_000).len();
        assert!((403_000..=430_000).contains(&count), "{count}");
    }

    #[test]
    fn poisson_gaps_have_mean_and_deviation_alike() {
        let sent = sent(steps(MEGABIT, &[]), Spacing::Exponential, 0, 1_200);
        // 100,000 packets expected, with a standard deviation of 316.
        assert!((99_000..=101_000).contains(&sent.len()), "{}", sent.len());
        let gaps: Vec<f64> = sent
            .windows(2)
            .map(|p| (p[1] - p[0]).as_secs_f64())
            .collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps
            .iter()
            .map(|gap| (gap - mean) * (gap - mean))
            .sum::<f64>();
        let coefficient = (variance / gaps.len() as f64).sqrt() / mean;
        assert!((0.98..=1.02).contains(&coefficient), "{coefficient}");
    }

    #[test]
    fn invalid_configurations_are_refused() {
        let config = GeneratorConfig {
            route: RouteId(0),
            size_bytes: 1_500,
            rate: steps(MEGABIT, &[]),
            spacing: Spacing::Even,
            start: Instant::ZERO,
            stop: None,
        };
        let small = GeneratorConfig {
            size_bytes: 28,
            ..config.clone()
        };
        assert_eq!(small.check(), Err(GeneratorConfigError::Size(28)));
        let rates = [
            steps(MEGABIT, &[(2, MEGABIT), (1, MEGABIT)]),
            steps(MEGABIT, &[(2, DataRate::MAX)]),
            on_off(0, 5, false, true),
        ];
        for rate in rates {
            let config = GeneratorConfig {
                rate,
                ..config.clone()
            };
            assert!(config.check().is_err(), "{config:?}");
        }
    }
}
