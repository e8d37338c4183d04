//! The standing queue: the delay of a path after the sender's own bursts have drained.

use std::collections::VecDeque;

use anabranch_units::{Duration, Instant};

use super::floors::{Floors, Step};

/// Span of a floor, at least: one interval between frames at 25 a second. A frame leaves faster
/// than the path carries it; its own queue is gone before the next frame.
const LEAST_SPAN: Duration = Duration::from_millis(40);
/// The same in jitters: that many packets' delays hold one near the least (chosen; 2 to 5 differ by
/// less than seeds do).
const SPAN_JITTERS: u64 = 3;
/// Time for which a floor may be the base. Routes change; ten seconds after the last look at the
/// base the controller drains the queue to see it.
const BASE_SPAN: Duration = Duration::from_secs(12);
/// Share of the jitter by which floors differ without a queue.
const JITTER_SHARE: f64 = 0.2;
/// Queue beside which the base counts as seen, in milliseconds and in jitters.
const SEEN_MILLIS: f64 = 3.0;
const SEEN_JITTERS: f64 = 0.25;

/// A path's least delays.
#[derive(Debug, Default)]
pub(super) struct StandingQueue {
    /// One-way delays in milliseconds of the packets of one span, by the time of sending; those
    /// that a later packet undercuts are gone.
    delays: VecDeque<(Instant, f64)>,
    /// Floors of the base's span, as the delays.
    bases: VecDeque<(Instant, f64)>,
    floors: Floors,
    millis: f64,
    base_seen_at: Option<Instant>,
}

impl StandingQueue {
    /// Records the one-way delay of a packet, by clocks with any offset.
    pub(super) fn on_packet(&mut self, sent_at: Instant, delay_millis: f64) {
        push_minimum(&mut self.delays, sent_at, delay_millis);
    }

    /// Measures the queue after the packets of a report.
    pub(super) fn measure(&mut self, now: Instant, jitter: Duration) {
        let Some(&(newest, _)) = self.delays.back() else {
            return;
        };
        let span = (jitter * SPAN_JITTERS).max(LEAST_SPAN);
        forget_before(&mut self.delays, newest.saturating_sub(span));
        let Some(&(_, floor)) = self.delays.front() else {
            return;
        };
        self.floors.push(now, floor);
        // The base is a floor as well: jitter in order seldom shows the bare path at a high rate.
        forget_before(&mut self.bases, now.saturating_sub(BASE_SPAN));
        push_minimum(&mut self.bases, now, floor);
        self.compare(now, floor, jitter);
    }

    /// Takes the delay for the path's own after a step ([`Floors::step`]), and returns it.
    pub(super) fn follow_step(
        &mut self,
        now: Instant,
        jitter: Duration,
        has_yielded: impl FnOnce() -> bool,
    ) -> Option<Step> {
        let (&(_, base), &(_, floor)) = (self.bases.front()?, self.delays.front()?);
        let step = self.floors.step(now, base, jitter, has_yielded)?;
        self.bases.clear();
        self.bases.push_back((now, floor));
        self.floors.clear();
        self.compare(now, floor, jitter);
        Some(step)
    }

    /// Returns the queue in milliseconds.
    pub(super) fn millis(&self) -> f64 {
        self.millis
    }

    /// Returns its growth in milliseconds per millisecond.
    pub(super) fn growth(&self) -> f64 {
        self.floors.growth()
    }

    /// Returns the time since which the queue hides the base.
    pub(super) fn base_seen_at(&self) -> Option<Instant> {
        self.base_seen_at
    }

    /// Counts the base as seen, as a drain begins that will show it.
    pub(super) fn on_drain(&mut self, now: Instant) {
        self.base_seen_at = Some(now);
    }

    fn compare(&mut self, now: Instant, floor: f64, jitter: Duration) {
        let base = self.bases.front().map_or(floor, |&(_, least)| least);
        let jitter_millis = jitter.as_millis_f64();
        self.millis = (floor - base - JITTER_SHARE * jitter_millis).max(0.0);
        if self.millis < SEEN_MILLIS + SEEN_JITTERS * jitter_millis {
            self.base_seen_at = Some(now);
        }
    }
}
/// Appends a value to those of a sliding window whose first is the least.
fn push_minimum(window: &mut VecDeque<(Instant, f64)>, at: Instant, value: f64) {
    while window.back().is_some_and(|&(_, last)| last >= value) {
        window.pop_back();
    }
    window.push_back((at, value));
}

fn forget_before(window: &mut VecDeque<(Instant, f64)>, at: Instant) {
    while window.len() > 1 && window.front().is_some_and(|&(first, _)| first < at) {
        window.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_JITTER: Duration = Duration::ZERO;

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    /// Measures after packets each 5 ms whose delays are `delay` of the time in milliseconds.
    fn measured(until: u64, jitter: Duration, delay: impl Fn(u64) -> f64) -> StandingQueue {
        let mut queue = StandingQueue::default();
        for millis in (1_000..until).step_by(5) {
            queue.on_packet(at(millis), delay(millis));
            queue.measure(at(millis + 50), jitter);
        }
        queue
    }

    #[test]
    fn bursts_of_own_frames_are_no_queue_and_clocks_may_differ() {
        // A frame's packets wait for 0 to 30 ms.
        let queue = measured(5_000, NO_JITTER, |millis| -7_000.0 + (millis % 40) as f64);
        assert!(queue.millis() < 1e-6, "{}", queue.millis());
    }

    #[test]
    fn delay_that_stays_is_a_queue_until_the_base_is_forgotten() {
        fn delay(millis: u64) -> f64 {
            if millis < 5_000 { 30.0 } else { 90.0 }
        }
        assert_eq!(measured(6_000, NO_JITTER, delay).millis(), 60.0);
        assert_eq!(
            measured(6_000, Duration::from_millis(50), delay).millis(),
            50.0
        );
        // Twelve seconds later, the path is longer.
        assert_eq!(measured(18_000, NO_JITTER, delay).millis(), 0.0);
    }

    #[test]
    fn the_base_is_seen_while_there_is_no_queue() {
        let queue = measured(
            6_000,
            NO_JITTER,
            |millis| if millis < 5_000 { 30.0 } else { 90.0 },
        );
        let seen_at = queue.base_seen_at().expect("it was seen");
        // The last floor without the queue holds for a span.
        assert_eq!(seen_at, at(5_085));
    }

    #[test]
    fn a_step_of_the_path_becomes_the_base() {
        let mut queue = measured(6_000, NO_JITTER, |_| 30.0);
        let mut stepped_at = None;
        for millis in (6_000..6_400).step_by(5) {
            let now = at(millis + 50);
            queue.on_packet(at(millis), 70.0);
            queue.measure(now, NO_JITTER);
            if let Some(step) = queue.follow_step(now, NO_JITTER, || false) {
                assert!(step.is_sudden && stepped_at.is_none());
                stepped_at = Some(millis);
            } else if millis > 6_050 && stepped_at.is_none() {
                assert_eq!(queue.millis(), 40.0);
            }
        }
        // The floor's span, and the level one.
        assert_eq!(stepped_at, Some(6_290));
        assert_eq!(queue.millis(), 0.0);
    }
}
