//! ProbeBW: the gain cycle.

use anabranch_units::{DataRate, Duration, Instant, Rng};

use crate::recovery::SentPacket;

/// Pacing gains of the eight phases (Zhang & Lei §4.1).
pub(super) const GAINS: [f64; 8] = [1.11, 0.9, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Those that BBR has instead (Cardwell et al. 2016), to compare with.
const BBR_GAINS: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];

/// A probe that finds so much more is followed by another one.
const WORTHWHILE_GROWTH: f64 = 1.05;

/// Where in the cycle ProbeBW is.
#[derive(Clone, Copy, Debug)]
pub(super) struct GainCycle {
    phase: usize,
    started_at: Instant,
    /// The newest probe, if it was a long one.
    long_probe: Option<LongProbe>,
}

/// A probe for a sender that has too little to send, which padding fills, or whose media waits.
/// Before and after it no more is sent than the estimate or less, so a round that only overlaps it
/// shows little more or nothing.
#[derive(Clone, Copy, Debug)]
struct LongProbe {
    began_at: Instant,
    ended_at: Instant,
    has_grown: bool,
}

impl GainCycle {
    /// Enters the cycle anywhere but in the phase that drains what probing has queued.
    pub(super) fn enter(now: Instant, is_long: bool, rng: &mut Rng) -> Self {
        let drawn = rng.below(GAINS.len() as u64 - 1) as usize;
        let phase = if drawn >= 1 { drawn + 1 } else { drawn };
        let mut cycle = GainCycle {
            phase,
            started_at: now,
            long_probe: None,
        };
        cycle.start_phase(now, phase, is_long);
        cycle
    }

    /// "8 RTT periods": a phase lasts for the least round-trip time. A long probe lasts for two
    /// and a report's delay, `probe_length`: a sample needs one from end to end.
    pub(super) fn advance(
        &mut self,
        now: Instant,
        min_rtt: Duration,
        probe_length: Duration,
        is_long: bool,
    ) {
        // What a long probe has queued takes as long to drain.
        let is_in_long_probe = self.phase < 2 && self.long_probe.is_some();
        let length = if is_in_long_probe {
            probe_length
        } else {
            min_rtt
        };
        if now.saturating_since(self.started_at) <= length {
            return;
        }
        if let Some(probe) = self.long_probe.as_mut().filter(|_| self.phase == 0) {
            probe.ended_at = now;
        }
        let has_grown = self.long_probe.is_some_and(|probe| probe.has_grown);
        let next = if self.phase == 1 && has_grown {
            0
        } else {
            (self.phase + 1) % GAINS.len()
        };
        self.start_phase(now, next, is_long);
    }

    fn start_phase(&mut self, now: Instant, phase: usize, is_long: bool) {
        self.phase = phase;
        self.started_at = now;
        if phase == 0 {
            let probe = LongProbe {
                began_at: now,
                ended_at: Instant::FAR_FUTURE,
                has_grown: false,
            };
            self.long_probe = is_long.then_some(probe);
        }
    }

    /// Whether the interval of the packet's rate sample lies in a long probe from end to end.
    pub(super) fn has_probed_with(&self, packet: &SentPacket) -> bool {
        self.long_probe.is_some_and(|probe| {
            probe.began_at <= packet.delivery.first_sent_at && packet.sent_at <= probe.ended_at
        })
    }

    /// A long probe has found this much more than the estimate.
    pub(super) fn on_probed(&mut self, estimate: DataRate, found: DataRate) {
        if let Some(probe) = &mut self.long_probe {
            probe.has_grown |= found >= estimate.mul_f64(WORTHWHILE_GROWTH);
        }
    }

    /// The phase's pacing gain.
    pub(super) fn gain(&self, has_bbr_gains: bool) -> f64 {
        let gains = if has_bbr_gains { BBR_GAINS } else { GAINS };
        gains[self.phase]
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
            long_probe: None,
        };
        let mut gains = Vec::new();
        for millis in 0..900 {
            cycle.advance(
                Instant::from_millis(millis),
                Duration::from_millis(99),
                Duration::from_millis(208),
                false,
            );
            if gains.last() != Some(&cycle.gain(false)) {
                gains.push(cycle.gain(false));
            }
        }
        assert_eq!(gains, [1.11, 0.9, 1.0, 1.11]);
    }

    #[test]
    fn the_cycle_is_entered_in_all_phases_but_the_draining_one() {
        let mut rng = Seed(1).rng();
        let mut entries = [0; 8];
        for _ in 0..700 {
            entries[GainCycle::enter(Instant::ZERO, false, &mut rng).phase] += 1;
        }
        assert_eq!(entries[1], 0);
        assert!(
            entries
                .iter()
                .enumerate()
                .all(|(phase, &count)| phase == 1 || count > 50)
        );
    }
    #[test]
    fn a_long_probe_lasts_two_round_trips_and_is_repeated_while_it_finds_more() {
        let mut cycle = GainCycle {
            phase: 7,
            started_at: Instant::ZERO,
            long_probe: None,
        };
        let mut gains = Vec::new();
        let estimate = DataRate::from_megabits_per_second(1);
        for millis in (0..1_000).step_by(10) {
            cycle.advance(
                Instant::from_millis(millis),
                Duration::from_millis(99),
                Duration::from_millis(208),
                true,
            );
            if millis == 350 {
                cycle.on_probed(estimate, estimate.mul_f64(1.11));
            }
            gains.push(cycle.gain(false));
        }
        let runs: Vec<(f64, usize)> = gains
            .chunk_by(|a, b| a == b)
            .map(|run| (run[0], run.len()))
            .collect();
        assert_eq!(
            runs,
            [
                (1.0, 10),
                (1.11, 21),
                (0.9, 21),
                (1.11, 21),
                (0.9, 21),
                (1.0, 6)
            ]
        );
    }
}
