//! ProbeBW: the gain cycle.

use anabranch_core::recovery::SentPacket;
use anabranch_units::{DataRate, Duration, Instant, Rng};

/// Pacing gains of the eight phases (Zhang & Lei §4.1).
pub(super) const GAINS: [f64; 8] = [1.11, 0.9, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Gains of BBR (Cardwell et al. 2016), for comparison.
const BBR_GAINS: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];

/// Growth found by a probe that is worth another one.
const WORTHWHILE_GROWTH: f64 = 1.05;

/// Share of the asked rate that a probe must find before one with twice the excess follows, if
/// media is about to be late; and the largest number of doublings: 1.11, 1.22 and 1.44.
const FULL_GROWTH: f64 = 0.95;
const MAX_DOUBLINGS: u8 = 2;

/// Growth of a climbing probe's rate per round trip, as in Startup.
const CLIMB: f64 = 2.0;
/// Growth of the round-trip time that ends a climb.
const FIRST_SIGN: Duration = Duration::from_millis(5);
/// Time into a step after which sent packets show whether the path carries its rate. If it carried
/// a tenth less, they would have met 4 ms of a queue.
const DISCERNIBLE_AFTER: Duration = Duration::from_millis(40);
/// Excess of the usual probe over the estimate.
const USUAL_EXCESS: f64 = GAINS[0] - 1.0;
/// Largest excess of a climb's next step if the last one was right.
const CLIMB_EXCESS: f64 = 0.5;

/// Evidence that a probe must give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// The rounds show it.
    Usual,
    /// The probe must show it by itself: a long probe.
    Evident,
    /// As [`Need::Evident`], and media is about to be late: a higher capacity must be found soon.
    Urgent,
}

/// Requirements of the next probe.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    pub(super) need: Need,
    /// Estimated bandwidth of the path.
    pub(super) estimate: DataRate,
    /// Smaller differences of round-trip times are noise.
    pub(super) jitter: Duration,
    /// Duration of a probe that gives evidence by itself.
    pub(super) probe_length: Duration,
}

impl Ask {
    /// Returns the share by which the probe must exceed the estimate. If it is urgent, half of it
    /// must queue more than the jitter where the path is full.
    fn excess(&self) -> f64 {
        let detectable = 2.0 * self.jitter.as_secs_f64() / self.probe_length.as_secs_f64();
        match self.need {
            Need::Urgent => detectable.clamp(USUAL_EXCESS, CLIMB - 1.0),
            Need::Usual | Need::Evident => USUAL_EXCESS,
        }
    }
}

/// Position of ProbeBW in the cycle.
#[derive(Clone, Copy, Debug)]
pub(super) struct GainCycle {
    phase: usize,
    started_at: Instant,
    /// Time at which the gain became 1 after the last probe, or before the first one.
    cruises_since: Instant,
    /// The newest probe, if it was a long one.
    long_probe: Option<LongProbe>,
}

/// Probe for an application-limited sender, filled by padding, or for one with a backlog. Before
/// and after it no more than the estimate is sent, so a round that only overlaps it shows little or
/// no growth.
#[derive(Clone, Copy, Debug)]
struct LongProbe {
    began_at: Instant,
    ended_at: Instant,
    /// Estimated bandwidth at the beginning of the probe, if it is urgent.
    base: Option<DataRate>,
    /// Excess of its gain over 1, before it was doubled …
    excess: f64,
    /// … and the number of doublings.
    doublings: u8,
    has_grown: bool,
    has_found_all: bool,
    climb: Option<Climb>,
}

/// State of an urgent probe that meets no queue: the path is not full at all, and the rate doubles
/// with each round trip that shows the same, as in Startup.
#[derive(Clone, Copy, Debug)]
struct Climb {
    rate: DataRate,
    began_at: Instant,
    /// Round-trip time that showed room for it.
    rtt: Duration,
}

/// Newest round-trip time, with the send time of its packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Echo {
    pub(super) sent_at: Instant,
    pub(super) rtt: Duration,
    pub(super) has_no_queue: bool,
}

impl LongProbe {
    fn excess(&self) -> f64 {
        let doubled = self.excess * f64::from(1_u32 << self.doublings);
        doubled.min(CLIMB - 1.0)
    }

    fn gain(&self) -> f64 {
        1.0 + self.excess()
    }
}

/// Returns the time after which a rate that exceeds the path by that share shows in spite of
/// jitter.
fn discernible_after(jitter: Duration, excess: f64) -> Duration {
    DISCERNIBLE_AFTER + jitter.mul_f64(1.0 / excess)
}

impl GainCycle {
    /// Enters the cycle in any phase except the one that drains a probe's queue.
    pub(super) fn enter(now: Instant, ask: Ask, rng: &mut Rng) -> Self {
        let drawn = rng.below(GAINS.len() as u64 - 1) as usize;
        let phase = if drawn >= 1 { drawn + 1 } else { drawn };
        let mut cycle = GainCycle {
            phase,
            started_at: now,
            cruises_since: now,
            long_probe: None,
        };
        cycle.start_phase(now, phase, ask);
        cycle
    }

    /// Whether [`GainCycle::on_rtt`] and [`GainCycle::advance`] may have an effect while no media
    /// is urgent: no phase is shorter than the least round-trip time.
    pub(super) fn may_step(&self, now: Instant, min_rtt: Duration) -> bool {
        let is_urgent_probe = self.long_probe.is_some_and(|probe| probe.base.is_some());
        is_urgent_probe || now.saturating_since(self.started_at) > min_rtt
    }

    /// Advances the cycle. "8 RTT periods": a phase lasts for the least round-trip time. A long
    /// probe lasts for two and a report's delay, [`Ask::probe_length`], since a sample must lie
    /// entirely in it.
    pub(super) fn advance(&mut self, now: Instant, min_rtt: Duration, ask: Ask) {
        // The queue of a long probe takes as long to drain.
        let is_in_long_probe = self.phase < 2 && self.long_probe.is_some();
        let has_found_all = self.long_probe.is_some_and(|probe| probe.has_found_all);
        let has_queued_nothing = self.phase == 1 && has_found_all && ask.need == Need::Urgent;
        let length = if is_in_long_probe && !has_queued_nothing {
            self.long_probe_length(min_rtt, ask)
        } else {
            min_rtt
        };
        if now.saturating_since(self.started_at) <= length {
            return;
        }
        if self.phase == 0
            && let Some(probe) = self.long_probe.as_mut()
        {
            probe.ended_at = now;
        }
        let has_grown = self.long_probe.is_some_and(|probe| probe.has_grown);
        let next = if self.phase == 1 && has_grown {
            0
        } else {
            (self.phase + 1) % GAINS.len()
        };
        self.start_phase(now, next, ask);
    }

    /// Returns the length of a long probe. An urgent one lasts until the packets that show a queue
    /// have been acknowledged.
    fn long_probe_length(&self, min_rtt: Duration, ask: Ask) -> Duration {
        let urgent = self.long_probe.filter(|probe| probe.base.is_some());
        let shown = urgent.map(|probe| {
            let answered = ask.probe_length.saturating_sub(min_rtt);
            discernible_after(ask.jitter, probe.excess()) + answered
        });
        ask.probe_length.max(shown.unwrap_or_default())
    }

    fn start_phase(&mut self, now: Instant, phase: usize, ask: Ask) {
        self.phase = phase;
        self.started_at = now;
        if phase == 2 {
            self.cruises_since = now;
        }
        if phase == 0 {
            let before = self.long_probe.filter(|probe| probe.has_found_all);
            let doublings = match ask.need {
                Need::Urgent => before.map_or(0, |probe| MAX_DOUBLINGS.min(probe.doublings + 1)),
                Need::Usual | Need::Evident => 0,
            };
            let probe = LongProbe {
                began_at: now,
                ended_at: Instant::FAR_FUTURE,
                base: (ask.need == Need::Urgent).then_some(ask.estimate),
                excess: ask.excess(),
                doublings,
                has_grown: false,
                has_found_all: false,
                climb: None,
            };
            self.long_probe = (ask.need != Need::Usual).then_some(probe);
        }
    }

    /// Handles a round-trip time, which an urgent probe follows. It climbs while there is no queue,
    /// and ends at the first sign of one, with its own queue still to be drained. Such a probe need
    /// not wait for its turn where nothing queues.
    pub(super) fn on_rtt(&mut self, now: Instant, echo: Echo, ask: Ask) {
        let is_urgent = ask.need == Need::Urgent;
        if is_urgent && self.phase >= 2 && echo.has_no_queue && echo.sent_at >= self.cruises_since {
            return self.start_phase(now, 0, ask);
        }
        if self.phase != 0 {
            return;
        }
        let Some(probe) = &mut self.long_probe else {
            return;
        };
        let Some(base) = probe.base else { return };
        let (rate, began_at, excess) = match probe.climb {
            None => {
                let rate = base.mul_f64(probe.gain());
                (rate, probe.began_at, probe.excess())
            }
            Some(climb) => (climb.rate, climb.began_at, CLIMB_EXCESS),
        };
        if probe
            .climb
            .is_some_and(|climb| echo.rtt > climb.rtt + FIRST_SIGN + ask.jitter)
        {
            probe.ended_at = now;
            return self.start_phase(now, 1, ask);
        }
        let discernible_at = began_at + discernible_after(ask.jitter, excess);
        let has_carried = echo.sent_at >= discernible_at && echo.has_no_queue;
        if is_urgent && has_carried {
            probe.base = Some(rate);
            probe.has_grown = true;
            probe.climb = Some(Climb {
                rate: rate.mul_f64(CLIMB),
                began_at: now,
                rtt: echo.rtt,
            });
            self.started_at = now;
        }
    }

    /// Returns the present rate of a climbing probe.
    pub(super) fn climbing_rate(&self) -> Option<DataRate> {
        if self.phase != 0 {
            return None;
        }
        let probe = self.long_probe?;
        Some(probe.climb?.rate)
    }

    /// Whether the interval of the packet's rate sample lies entirely in a long probe.
    pub(super) fn has_probed_with(&self, packet: &SentPacket) -> bool {
        self.long_probe.is_some_and(|probe| {
            probe.began_at <= packet.delivery.first_sent_at && packet.sent_at <= probe.ended_at
        })
    }

    /// Handles a long probe that has found `found`, more than the estimate.
    pub(super) fn on_probed(&mut self, estimate: DataRate, found: DataRate) {
        if let Some(probe) = &mut self.long_probe {
            let base = probe.base.unwrap_or(estimate);
            probe.has_grown |= found >= base.mul_f64(WORTHWHILE_GROWTH);
            let all = probe.gain() * FULL_GROWTH;
            probe.has_found_all |= probe.base.is_some() && found >= base.mul_f64(all);
        }
    }

    /// Returns the phase's pacing gain.
    pub(super) fn gain(&self, has_bbr_gains: bool) -> f64 {
        if has_bbr_gains {
            return BBR_GAINS[self.phase];
        }
        match &self.long_probe {
            Some(probe) if self.phase == 0 => probe.gain(),
            _ => GAINS[self.phase],
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_units::Seed;

    use super::*;

    const PROBE: Duration = Duration::from_millis(134);

    /// Asks of a path without jitter.
    fn ask(need: Need, estimate: DataRate) -> Ask {
        Ask {
            need,
            estimate,
            jitter: Duration::ZERO,
            probe_length: PROBE,
        }
    }

    /// Changes `ask` to a round trip of 99 ms and reports after 10.
    fn long(ask: Ask) -> Ask {
        Ask {
            probe_length: Duration::from_millis(208),
            ..ask
        }
    }

    #[test]
    fn the_gain_cycle_steps_once_a_round_trip_and_starts_over() {
        let mut cycle = GainCycle {
            phase: 0,
            started_at: Instant::ZERO,
            cruises_since: Instant::ZERO,
            long_probe: None,
        };
        let mut gains = Vec::new();
        for millis in 0..900 {
            cycle.advance(
                Instant::from_millis(millis),
                Duration::from_millis(99),
                long(ask(Need::Usual, DataRate::ZERO)),
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
            entries[GainCycle::enter(Instant::ZERO, ask(Need::Usual, DataRate::ZERO), &mut rng)
                .phase] += 1;
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
            cruises_since: Instant::ZERO,
            long_probe: None,
        };
        let mut gains = Vec::new();
        let estimate = DataRate::from_megabits_per_second(1);
        for millis in (0..1_000).step_by(10) {
            cycle.advance(
                Instant::from_millis(millis),
                Duration::from_millis(99),
                long(ask(Need::Evident, estimate)),
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

    #[test]
    fn while_media_waits_a_probe_that_found_all_is_followed_by_one_that_asks_for_twice_as_much() {
        fn gains(need: Need, capacity: DataRate) -> (Vec<f64>, f64) {
            let mut cycle = GainCycle {
                phase: 7,
                started_at: Instant::ZERO,
                cruises_since: Instant::ZERO,
                long_probe: None,
            };
            let mut estimate = DataRate::from_megabits_per_second(1);
            let mut gains = Vec::new();
            for millis in (0..2_000).step_by(10) {
                let now = Instant::from_millis(millis);
                cycle.advance(now, Duration::from_millis(99), long(ask(need, estimate)));
                let gain = cycle.gain(false);
                if gain > 1.0 && now.saturating_since(cycle.started_at).as_millis() == 200 {
                    let found = estimate.mul_f64(gain).min(capacity);
                    cycle.on_probed(estimate, found);
                    estimate = estimate.max(found);
                }
                if gain > 1.0 && gains.last() != Some(&gain) {
                    gains.push(gain);
                }
            }
            let megabits = estimate.bits_per_second() as f64 / 1e6;
            (gains, megabits)
        }
        let (urgent, found) = gains(Need::Urgent, DataRate::from_megabits_per_second(9));
        assert_eq!(urgent, [1.11, 1.2200000000000002, 1.4400000000000004]);
        assert!((5.8..5.9).contains(&found), "{found}");
        let (evident, found) = gains(Need::Evident, DataRate::from_megabits_per_second(9));
        assert_eq!(evident, [1.11]);
        assert!((1.6..1.7).contains(&found), "{found}");
        // The second probe finds less than it asks for, and the third starts over.
        let (urgent, found) = gains(Need::Urgent, DataRate::from_kilobits_per_second(1_200));
        assert_eq!(urgent, [1.11, 1.2200000000000002, 1.11]);
        assert_eq!(found, 1.2);
    }

    /// A path of 62 ms without a queue, at which an urgent cycle cruises from 0 s on.
    struct Path {
        cycle: GainCycle,
        estimate: DataRate,
        capacity: DataRate,
        queued: Duration,
    }

    impl Path {
        const RTT: Duration = Duration::from_millis(62);

        fn cruising(capacity_kbps: u64) -> Self {
            Path {
                cycle: GainCycle {
                    phase: 2,
                    started_at: Instant::ZERO,
                    cruises_since: Instant::ZERO,
                    long_probe: None,
                },
                estimate: DataRate::from_megabits_per_second(1),
                capacity: DataRate::from_kilobits_per_second(capacity_kbps),
                queued: Duration::ZERO,
            }
        }

        /// Runs the path, a packet sent and one acknowledged per millisecond. Returns the send
        /// rates, each with the millisecond of its beginning, and the longest queue.
        fn run(&mut self, millis: u64, need: Need) -> (Vec<(u64, f64)>, Duration) {
            let mut rates: Vec<(u64, f64)> = Vec::new();
            let mut echoes = std::collections::VecDeque::new();
            let mut longest = Duration::ZERO;
            for milli in 0..millis {
                let now = Instant::from_millis(milli);
                let gain = self.cycle.gain(false);
                let rate = self
                    .cycle
                    .climbing_rate()
                    .unwrap_or(self.estimate.mul_f64(gain));
                let sent = rate.bytes_in(Duration::from_millis(1));
                self.queued = (self.queued + self.capacity.time_for(sent))
                    .saturating_sub(Duration::from_millis(1));
                longest = longest.max(self.queued);
                echoes.push_back((now, Self::RTT + self.queued));
                while let Some(&(sent_at, rtt)) = echoes.front()
                    && sent_at + rtt <= now
                {
                    let echo = Echo {
                        sent_at,
                        rtt,
                        has_no_queue: rtt <= Self::RTT + Duration::from_millis(1),
                    };
                    self.cycle.on_rtt(now, echo, ask(need, self.estimate));
                    echoes.pop_front();
                }

                self.cycle.advance(now, Self::RTT, ask(need, self.estimate));
                let rate = rate.bits_per_second() as f64 / 1e6;
                if rates.last().is_none_or(|(_, last)| *last != rate) {
                    rates.push((milli, rate));
                }
            }
            (rates, longest)
        }
    }

    #[test]
    fn an_urgent_probe_that_meets_no_queue_climbs_as_startup_does_until_the_first_sign_of_one() {
        let (rates, longest) = Path::cruising(4_000).run(400, Need::Urgent);
        let megabits: Vec<f64> = rates.iter().map(|(_, rate)| *rate).collect();
        assert_eq!(megabits[..5], [1.0, 1.11, 2.22, 4.44, 0.9]);
        // A round trip before it begins, and hardly more for each step.
        let (first, last) = (rates[1].0, rates[3].0);
        assert!(first <= 65, "{rates:?}");
        assert!(last - first <= 2 * (62 + 45), "{rates:?}");
        assert!(longest < Duration::from_millis(25), "{longest:?}");
    }

    #[test]
    fn a_climb_ends_at_the_first_sign_of_a_queue_though_it_is_not_urgent_any_more() {
        let mut path = Path::cruising(4_000);
        path.run(280, Need::Urgent);
        assert!(path.cycle.climbing_rate().is_some());
        let echo = Echo {
            sent_at: Instant::from_millis(250),
            rtt: Path::RTT + Duration::from_millis(8),
            has_no_queue: false,
        };
        let now = Instant::from_millis(320);
        path.cycle
            .on_rtt(now, echo, ask(Need::Usual, path.estimate));
        assert_eq!((path.cycle.climbing_rate(), path.cycle.phase), (None, 1));
    }

    #[test]
    fn an_urgent_probe_of_a_full_path_does_not_climb() {
        for capacity_kbps in [1_000, 1_040] {
            let (rates, longest) = Path::cruising(capacity_kbps).run(2_000, Need::Urgent);
            let most = rates.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
            assert_eq!(most, 1.11);
            assert!(longest < Duration::from_millis(25), "{longest:?}");
        }
    }

    #[test]
    fn a_probe_that_is_not_urgent_neither_climbs_nor_comes_before_its_turn() {
        let (rates, _) = Path::cruising(4_000).run(350, Need::Evident);
        assert_eq!(rates, [(0, 1.0)]);
    }
}
