//! ProbeBW: the gain cycle.

use anabranch_units::{Duration, Instant, Rng};

/// Pacing gains of the eight phases (Zhang & Lei §4.1).
pub(super) const GAINS: [f64; 8] = [1.11, 0.9, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];

/// Where in the cycle ProbeBW is.
#[derive(Clone, Copy, Debug)]
pub(super) struct GainCycle {
    phase: usize,
    started_at: Instant,
}

impl GainCycle {
    /// Enters the cycle anywhere but in the phase that drains what probing has queued.
    pub(super) fn enter(now: Instant, rng: &mut Rng) -> Self {
        let drawn = rng.below(GAINS.len() as u64 - 1) as usize;
        GainCycle {
            phase: if drawn >= 1 { drawn + 1 } else { drawn },
            started_at: now,
        }
    }

    /// "8 RTT periods": a phase lasts for the least round-trip time.
    pub(super) fn advance(&mut self, now: Instant, min_rtt: Duration) {
        if now.saturating_since(self.started_at) > min_rtt {
            self.phase = (self.phase + 1) % GAINS.len();
            self.started_at = now;
        }
    }

    /// The phase's pacing gain.
    pub(super) fn gain(&self) -> f64 {
        GAINS[self.phase]
    }
}

#[cfg(test)]
mod tests {
    use anabranch_units::Seed;

    use super::*;

    #[test]
    fn the_gain_cycle_steps_once_a_round_trip_and_starts_over() {
        let mut cycle = GainCycle {
            phase: 0,
            started_at: Instant::ZERO,
        };
        let mut gains = Vec::new();
        for millis in 0..900 {
            cycle.advance(Instant::from_millis(millis), Duration::from_millis(99));
            if gains.last() != Some(&cycle.gain()) {
                gains.push(cycle.gain());
            }
        }
        assert_eq!(gains, [1.11, 0.9, 1.0, 1.11]);
    }

    #[test]
    fn the_cycle_is_entered_in_all_phases_but_the_draining_one() {
        let mut rng = Seed(1).rng();
        let mut entries = [0; 8];
        for _ in 0..700 {
            entries[GainCycle::enter(Instant::ZERO, &mut rng).phase] += 1;
        }
        assert_eq!(entries[1], 0);
        assert!(
            entries
                .iter()
                .enumerate()
                .all(|(phase, &count)| phase == 1 || count > 50)
        );
    }
}
