//! Elastic cross traffic: flows that fill the queue until it loses packets, however much others
//! yield.
//!
//! Beside a source of a constant rate, a sender that yields sees the queue shrink within a few
//! seconds. Beside TCP's windows it grows until a loss, again and again.

use std::collections::VecDeque;

use anabranch_units::{Duration, Instant};

/// Time between two samples.
const SPACING: Duration = Duration::from_millis(50);
/// Span of a queue's slope: shorter than TCP's cycles, longer than frames and their jitter.
const SLOPE_SPAN: Duration = Duration::from_secs(1);
/// Samples from which a slope is taken.
const LEAST_SAMPLES: usize = 15;
/// Slope in milliseconds per second above which the queue grows. Reno beside a queue of a second
/// has five.
const GROWS: f64 = 3.0;
/// Span of the rate that the sender had before it yielded.
const FORMER_SPAN: Duration = Duration::from_secs(10);
/// The rate by that one, and by the least rate, up to which the sender has yielded.
const YIELDED: f64 = 0.8;
const NEAR_LEAST: f64 = 1.05;
/// Seconds of growth in spite of yielding that show elastic traffic. Falls of the capacity last
/// half as long: RFC 8867's sources of a constant rate reach 3.1.
const ENOUGH: f64 = 4.0;
/// Part of the other time that counts against it.
const LEAK: f64 = 0.25;
/// Part that is left after a competition: its end may be wrong.
const REMEMBERED: f64 = 0.5;

/// The queue and the rates, in bits per second, at a report.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sight {
    pub(super) queue_millis: f64,
    pub(super) target_millis: f64,
    pub(super) capacity: f64,
    pub(super) rate: f64,
    pub(super) min_rate: f64,
}

/// Evidence of elastic cross traffic.
#[derive(Debug, Default)]
pub(super) struct CrossTraffic {
    /// The queue in milliseconds over the slope's span.
    queues: VecDeque<(Instant, f64)>,
    /// c over the former span; those that a later one exceeds are gone.
    capacities: VecDeque<(Instant, f64)>,
    evidence_seconds: f64,
}

impl CrossTraffic {
    /// Counts the evidence of a report. Returns whether the cross traffic is elastic.
    pub(super) fn is_elastic(&mut self, now: Instant, sight: Sight) -> bool {
        let last = self.queues.back().map(|&(at, _)| at);
        if last.is_some_and(|last| now < last + SPACING) {
            return false;
        }
        let elapsed = now.saturating_since(last.unwrap_or(now)).min(SLOPE_SPAN);
        push(&mut self.queues, now, sight.queue_millis, SLOPE_SPAN);
        while (self.capacities.back()).is_some_and(|&(_, last)| last <= sight.capacity) {
            self.capacities.pop_back();
        }
        push(&mut self.capacities, now, sight.capacity, FORMER_SPAN);
        if self.grows_in_spite_of(sight) {
            self.evidence_seconds += elapsed.as_secs_f64();
        } else {
            self.evidence_seconds -= LEAK * elapsed.as_secs_f64();
        }
        self.evidence_seconds = self.evidence_seconds.clamp(0.0, ENOUGH);
        self.evidence_seconds >= ENOUGH
    }

    /// Returns the largest c of the former span.
    pub(super) fn former_capacity(&self) -> Option<f64> {
        self.capacities.front().map(|&(_, capacity)| capacity)
    }

    /// Begins again after a competition.
    pub(super) fn on_end(&mut self) {
        self.queues.clear();
        self.capacities.clear();
        self.evidence_seconds = REMEMBERED * ENOUGH;
    }

    fn grows_in_spite_of(&self, sight: Sight) -> bool {
        let has_yielded = sight.rate <= NEAR_LEAST * sight.min_rate
            || (self.former_capacity()).is_some_and(|former| sight.rate <= YIELDED * former);
        has_yielded
            && sight.queue_millis > sight.target_millis
            && self.queues.len() >= LEAST_SAMPLES
            && slope(&self.queues) > GROWS
    }
}

/// Returns the slope of the least squares, per second.
fn slope(values: &VecDeque<(Instant, f64)>) -> f64 {
    let Some(&(begin, _)) = values.front() else {
        return 0.0;
    };
    let points = values
        .iter()
        .map(|&(at, y)| (at.saturating_since(begin).as_secs_f64(), y));
    let count = values.len() as f64;
    let mean_x = points.clone().map(|(x, _)| x).sum::<f64>() / count;
    let spread = points
        .clone()
        .map(|(x, _)| (x - mean_x) * (x - mean_x))
        .sum::<f64>();
    let common = points.map(|(x, y)| (x - mean_x) * y).sum::<f64>();
    if spread > 0.0 { common / spread } else { 0.0 }
}

fn push(values: &mut VecDeque<(Instant, f64)>, now: Instant, value: f64, span: Duration) {
    values.push_back((now, value));
    let from = now.saturating_sub(span);
    while values.front().is_some_and(|&(at, _)| at < from) {
        values.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns when a sender that has yielded to 0.4 sees elastic traffic in 60 s of a queue.
    fn found_at(queue_millis: impl Fn(f64) -> f64) -> Option<f64> {
        let mut traffic = CrossTraffic::default();
        let mut found = None;
        for report in 0..6_000_u32 {
            let seconds = f64::from(report) / 100.0;
            let sight = Sight {
                queue_millis: queue_millis(seconds),
                target_millis: 10.0,
                capacity: if seconds < 1.0 { 1e6 } else { 0.4e6 },
                rate: if seconds < 1.0 { 1e6 } else { 0.2e6 },
                min_rate: 0.2e6,
            };
            let now = Instant::from_millis(1_000 + 10 * u64::from(report));
            if traffic.is_elastic(now, sight) {
                found = found.or(Some(seconds));
            }
        }
        found
    }

    #[test]
    fn windows_that_grow_until_a_loss_are_elastic() {
        // Cycles of 9 s and of 2.5 s.
        let slow = found_at(|seconds| 20.0 * (seconds % 9.0)).expect("it grows");
        assert!((4.0..10.0).contains(&slow), "{slow}");
        let fast = found_at(|seconds| 20.0 + 40.0 * (seconds % 2.5)).expect("it grows");
        assert!((4.0..30.0).contains(&fast), "{fast}");
    }

    #[test]
    fn queues_that_drain_are_level_or_grow_for_two_seconds_are_not() {
        assert_eq!(found_at(|seconds| (300.0 - 50.0 * seconds).max(0.0)), None);
        assert_eq!(found_at(|_| 100.0), None);
        assert_eq!(
            found_at(|seconds| (50.0 * (seconds % 20.0)).min(100.0)),
            None
        );
    }

    #[test]
    fn a_sender_that_has_not_yielded_fills_the_queue_itself() {
        let mut traffic = CrossTraffic::default();
        for report in 0..1_000_u32 {
            let sight = Sight {
                queue_millis: f64::from(report),
                target_millis: 10.0,
                capacity: 1e6,
                rate: 0.9e6,
                min_rate: 0.2e6,
            };
            assert!(!traffic.is_elastic(Instant::from_millis(10 * u64::from(report)), sight));
        }
    }

    #[test]
    fn half_of_the_evidence_survives_a_competition() {
        let mut traffic = CrossTraffic {
            evidence_seconds: ENOUGH,
            ..CrossTraffic::default()
        };
        traffic.on_end();
        assert_eq!(traffic.evidence_seconds, ENOUGH / 2.0);
        assert_eq!(traffic.former_capacity(), None);
    }
}
