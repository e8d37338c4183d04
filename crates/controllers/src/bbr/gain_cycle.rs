//! ProbeBW of version 1: eight phases, the first of which probes and the second drains.

use anabranch_units::{Duration, Instant, Rng};

const PHASES: usize = 8;

/// The pacing gains of the eight phases.
pub(super) type Gains = [f64; PHASES];

/// 1.25 and its complement, then six phases of rest.
pub(super) const GAINS: Gains = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];

/// Position of ProbeBW in the cycle.
#[derive(Clone, Copy, Debug)]
pub(super) struct GainCycle {
    phase: usize,
    started_at: Instant,
}

/// Inputs of the decision whether a phase ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct PhaseFacts {
    pub(super) min_rtt: Duration,
    /// The gain in force.
    pub(super) gain: f64,
    pub(super) has_losses: bool,
    pub(super) bytes_in_flight: u64,
}

impl GainCycle {
    /// Enters the cycle anywhere but in the phase that drains.
    pub(super) fn enter(now: Instant, rng: &mut Rng) -> Self {
        let drawn = rng.below(PHASES as u64 - 1) as usize;
        GainCycle {
            phase: if drawn >= 1 { drawn + 1 } else { drawn },
            started_at: now,
        }
    }

    /// Whether the phase is over. A phase lasts one least round-trip time. Probing also needs
    /// enough packets in flight or a loss; draining ends as soon as no excess is in flight.
    /// `product` returns the bytes of a multiple of the bandwidth-delay product.
    pub(super) fn is_over(
        &self,
        now: Instant,
        facts: &PhaseFacts,
        product: impl Fn(f64) -> u64,
    ) -> bool {
        let has_lasted = now.saturating_since(self.started_at) > facts.min_rtt;
        if facts.gain > 1.0 {
            has_lasted && (facts.has_losses || facts.bytes_in_flight >= product(facts.gain))
        } else if facts.gain < 1.0 {
            has_lasted || facts.bytes_in_flight <= product(1.0)
        } else {
            has_lasted
        }
    }

    pub(super) fn advance(&mut self, now: Instant) {
        self.phase = (self.phase + 1) % PHASES;
        self.started_at = now;
    }

    /// Returns the index of the gain in force.
    pub(super) fn phase(&self) -> usize {
        self.phase
    }

    /// Whether it is the phase that probes.
    pub(super) fn is_probing(&self) -> bool {
        self.phase == 0
    }

    pub(super) fn gain(&self, gains: &Gains) -> f64 {
        gains[self.phase]
    }
}

#[cfg(test)]
mod tests {
    use anabranch_units::Seed;

    use super::*;

    #[test]
    fn the_cycle_begins_at_random_but_never_by_draining() {
        let mut rng = Seed(1).rng();
        let mut entries = [0; PHASES];
        for _ in 0..700 {
            entries[GainCycle::enter(Instant::ZERO, &mut rng).phase] += 1;
        }
        assert_eq!(entries[1], 0);
        let others = entries.iter().enumerate().filter(|(phase, _)| *phase != 1);
        assert!(others.map(|(_, count)| *count).all(|count| count > 60));
    }

    #[test]
    fn a_phase_ends_by_time_flight_and_loss_as_its_gain_says() {
        let cycle = GainCycle {
            phase: 0,
            started_at: Instant::ZERO,
        };
        let over = |gain: f64, millis: u64, has_losses: bool, bytes_in_flight: u64| {
            let facts = PhaseFacts {
                min_rtt: Duration::from_millis(100),
                gain,
                has_losses,
                bytes_in_flight,
            };
            cycle.is_over(Instant::from_millis(millis), &facts, |gain| {
                (gain * 1_000.0) as u64
            })
        };
        assert!(!over(1.0, 100, false, 1_100) && over(1.0, 101, false, 1_100));
        assert!(!over(1.25, 500, false, 1_249), "probing goes on");
        assert!(over(1.25, 101, true, 1_249) && over(1.25, 101, false, 1_250));
        assert!(!over(1.25, 99, true, 1_250));
        assert!(over(0.75, 1, false, 1_000) && over(0.75, 101, false, 1_250));
        assert!(!over(0.75, 100, true, 1_001));
    }
}
