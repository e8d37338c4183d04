//! The least delays of the last two seconds: how fast they grow, and where the path stepped.

use std::collections::VecDeque;

use anabranch_units::{Duration, Instant};

/// Span that is kept. An outage may hide the path for a second before a step.
const KEPT: Duration = Duration::from_secs(2);
/// Least time between two floors that are kept, so that memory is bounded.
const SPACING: Duration = Duration::from_millis(5);
/// Span over which growth is measured: two and a half frames.
const GROWTH_SPAN: Duration = Duration::from_millis(100);
/// Least span that says something of growth.
const LEAST_GROWTH_SPAN: Duration = Duration::from_millis(50);
/// Time for which a delay is level after a step, at least and in jitters.
const LEVEL_SPAN: Duration = Duration::from_millis(250);
const LEVEL_JITTERS: u64 = 6;
/// Most by which a level delay varies, in milliseconds and in jitters.
const LEVEL_MILLIS: f64 = 3.0;
const LEVEL_JITTER_SHARE: f64 = 0.5;
/// Span of a sudden step: the floor's own 40 ms, and 30.
const SUDDEN_SPAN: Duration = Duration::from_millis(70);
/// Least step, in milliseconds and in jitters.
const STEP_MILLIS: f64 = 10.0;
const STEP_JITTERS: f64 = 2.0;

/// A path that has become longer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Step {
    /// Since when the delay is level.
    pub(super) since: Instant,
    /// Whether the delay grew faster than a queue can.
    pub(super) is_sudden: bool,
}

/// Floors of the delay in milliseconds, by the times at which they were measured.
#[derive(Debug, Default)]
pub(super) struct Floors {
    kept: VecDeque<(Instant, f64)>,
}

impl Floors {
    pub(super) fn push(&mut self, now: Instant, floor_millis: f64) {
        match self.kept.back() {
            Some(&(last, _)) if now < last + SPACING => return,
            _ => self.kept.push_back((now, floor_millis)),
        }
        while self.kept.front().is_some_and(|&(at, _)| at + KEPT < now) {
            self.kept.pop_front();
        }
    }

    /// Returns the growth over the last [`GROWTH_SPAN`], in milliseconds per millisecond.
    pub(super) fn growth(&self) -> f64 {
        let Some(&(to, last)) = self.kept.back() else {
            return 0.0;
        };
        let Some(&(from, first)) = self.kept.get(self.index_of(to.saturating_sub(GROWTH_SPAN)))
        else {
            return 0.0;
        };
        let span = to.saturating_since(from);
        if span < LEAST_GROWTH_SPAN {
            return 0.0;
        }
        (last - first) / span.as_millis_f64()
    }

    /// Returns the step after which the delay is level now. A sudden one is the path's: no queue
    /// fills within two frames and then stands still. Of a slow one, `has_yielded` must say that
    /// the sender has given way in vain, and the delay must be level for twice as long.
    pub(super) fn step(
        &self,
        now: Instant,
        base_millis: f64,
        jitter: Duration,
        has_yielded: impl FnOnce() -> bool,
    ) -> Option<Step> {
        let span = LEVEL_SPAN.max(jitter * LEVEL_JITTERS);
        let jitter_millis = jitter.as_millis_f64();
        let least_step = STEP_MILLIS.max(STEP_JITTERS * jitter_millis);
        let (since, level) = self.level(now, span, jitter_millis)?;
        let before = self
            .index_of(since.saturating_sub(SUDDEN_SPAN))
            .checked_sub(1);
        let is_sudden = before
            .and_then(|index| self.kept.get(index))
            .is_some_and(|&(_, earlier)| level - earlier > least_step);
        let is_found = is_sudden
            || (level - base_millis > least_step
                && self.level(now, span * 2, jitter_millis).is_some()
                && has_yielded());
        is_found.then_some(Step { since, is_sudden })
    }

    pub(super) fn clear(&mut self) {
        self.kept.clear();
    }

    /// Returns the beginning of the last `span`, and its least floor, if the delay was level in it.
    fn level(&self, now: Instant, span: Duration, jitter_millis: f64) -> Option<(Instant, f64)> {
        let begin = self.index_of(now.saturating_sub(span));
        if begin == 0 {
            return None;
        }
        let &(since, first) = self.kept.get(begin)?;
        let (mut least, mut most) = (first, first);
        for &(_, floor) in self.kept.range(begin..) {
            (least, most) = (least.min(floor), most.max(floor));
        }
        let variation = LEVEL_MILLIS.max(LEVEL_JITTER_SHARE * jitter_millis);
        (most - least <= variation).then_some((since, least))
    }

    /// Returns the index of the first floor from `at` on.
    fn index_of(&self, at: Instant) -> usize {
        self.kept.partition_point(|&(kept_at, _)| kept_at < at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    /// Floors each 10 ms until the delay of `delay` at that time.
    fn floors(until: u64, delay: impl Fn(u64) -> f64) -> Floors {
        let mut floors = Floors::default();
        for millis in (0..=until).step_by(10) {
            floors.push(at(millis), delay(millis));
        }
        floors
    }

    fn step(floors: &Floors, now: u64, jitter_millis: u64, has_yielded: bool) -> Option<Step> {
        floors.step(at(now), 20.0, Duration::from_millis(jitter_millis), || {
            has_yielded
        })
    }

    #[test]
    fn growth_is_that_of_the_last_tenth_of_a_second() {
        let ramp = floors(1_000, |millis| {
            20.0 + 0.2 * (millis as f64 - 500.0).max(0.0)
        });
        assert!((ramp.growth() - 0.2).abs() < 1e-9);
        assert_eq!(floors(1_000, |_| 20.0).growth(), 0.0);
        assert_eq!(
            floors(40, |millis| millis as f64).growth(),
            0.0,
            "40 ms say nothing"
        );
    }

    #[test]
    fn a_sudden_step_is_the_paths_when_the_delay_is_level_again() {
        fn far(millis: u64) -> f64 {
            if millis < 1_000 { 20.0 } else { 220.0 }
        }

        fn stepped(millis: u64) -> f64 {
            if millis < 1_000 { 20.0 } else { 60.0 }
        }
        assert_eq!(step(&floors(1_200, stepped), 1_200, 0, false), None);
        let found = step(&floors(1_260, stepped), 1_260, 0, false);
        assert_eq!(
            found,
            Some(Step {
                since: at(1_010),
                is_sudden: true
            })
        );
        // 40 ms are less than two jitters of 25 ms; 200 ms must be level for six of 50 ms.
        assert_eq!(step(&floors(1_260, stepped), 1_260, 25, false), None);
        assert_eq!(step(&floors(1_260, far), 1_260, 50, false), None);
        assert!(step(&floors(1_310, far), 1_310, 50, false).is_some());
    }

    #[test]
    fn a_step_behind_an_outage_is_sudden() {
        let mut floors = floors(1_000, |_| 20.0);
        for millis in (1_500..=1_800).step_by(10) {
            floors.push(at(millis), 60.0);
        }
        assert!(step(&floors, 1_800, 0, false).is_some_and(|step| step.is_sudden));
    }

    #[test]
    fn a_queue_that_filled_is_level_only_if_yielding_was_in_vain() {
        fn filled(millis: u64) -> f64 {
            20.0 + 0.1 * (millis.min(1_400) as f64 - 1_000.0).max(0.0)
        }
        let level = floors(1_950, filled);
        assert_eq!(step(&level, 1_950, 0, false), None);
        let found = step(&level, 1_950, 0, true).expect("half a second is level");
        assert!(!found.is_sudden);
        assert_eq!(step(&floors(1_800, filled), 1_800, 0, true), None);
        assert_eq!(
            step(
                &floors(1_950, |millis| filled(millis)
                    - 0.02 * (millis.max(1_400) - 1_400) as f64),
                1_950,
                0,
                true
            ),
            None
        );
    }

    #[test]
    fn memory_is_bounded() {
        let mut floors = Floors::default();
        for micros in 0..3_000_000 {
            floors.push(Instant::ZERO + Duration::from_micros(micros), 1.0);
        }
        assert!(floors.kept.len() <= 402, "{}", floors.kept.len());
    }
}
