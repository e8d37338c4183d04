//! ProbeBW of version 1: eight phases, the first of which probes and the second drains.

use anabranch_units::{Duration, Instant, Rng};

const PHASES: usize = 8;

/// The pacing gains of the eight phases.
pub(super) type Gains = [f64; PHASES];

/// 1.25 and its complement, then six phases of rest.
pub(super) const GAINS: Gains = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];

/// Where in the cycle ProbeBW is.
#[derive(Clone, Copy, Debug)]
pub(super) struct GainCycle {
    phase: usize,
    started_at: Instant,
}

/// What the end of a phase depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct PhaseFacts {
    pub(super) min_rtt: Duration,
    /// The gain in force.
    pub(super) gain: f64,
    pub(super) has_losses: bool,
    /// Whether the gain times the bandwidth-delay product is in flight.
    pub(super) is_filled: bool,
    /// Whether no more than the bandwidth-delay product is in flight.
    pub(super) is_drained: bool,
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

    /// Whether the phase is over: after a least round-trip time; probing not before there is enough
    /// in flight or something is lost, draining as soon as nothing is in excess.
    pub(super) fn is_over(&self, now: Instant, facts: &PhaseFacts) -> bool {
        let has_lasted = now.saturating_since(self.started_at) > facts.min_rtt;
        if facts.gain > 1.0 {
            has_lasted && (facts.has_losses || facts.is_filled)
        } else if facts.gain < 1.0 {
            has_lasted || facts.is_drained
        } else {
            has_lasted
        }
    }

    pub(super) fn advance(&mut self, now: Instant) {
        self.phase = (self.phase + 1) % PHASES;
        self.started_at = now;
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
        let over = |gain: f64, millis: u64, has_losses: bool, is_filled: bool, is_drained: bool| {
            let facts = PhaseFacts {
                min_rtt: Duration::from_millis(100),
                gain,
                has_losses,
                is_filled,
                is_drained,
            };
            cycle.is_over(Instant::from_millis(millis), &facts)
        };
        assert!(!over(1.0, 100, false, false, false) && over(1.0, 101, false, false, false));
        assert!(!over(1.25, 500, false, false, true), "probing goes on");
        assert!(over(1.25, 101, true, false, false) && over(1.25, 101, false, true, false));
        assert!(!over(1.25, 99, true, true, false));
        assert!(over(0.75, 1, false, false, true) && over(0.75, 101, false, true, false));
        assert!(!over(0.75, 100, true, true, false));
    }
}
