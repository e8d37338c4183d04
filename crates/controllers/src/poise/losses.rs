//! Losses and marks of a round.

use anabranch_units::{Duration, Instant};

/// Share of lost packets that the capacity answers.
const HEAVY_LOSS: f64 = 0.1;
/// Packets below which a share of losses says nothing.
const LEAST_JUDGED: u64 = 10;
/// Weight of a round trip in the share of marks (RFC 8257 §3.3: g).
const MARK_WEIGHT: f64 = 1.0 / 16.0;

/// Losses of the present round.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundOfLosses {
    began_at: Option<Instant>,
    lost: u64,
    all: u64,
}

impl RoundOfLosses {
    pub(super) fn on_report(&mut self, acked: usize, lost: usize) {
        self.lost += lost as u64;
        self.all += (acked + lost) as u64;
    }

    /// Ends a round that has lasted for `span`. Returns whether it lost too much.
    pub(super) fn end_round(&mut self, now: Instant, span: Duration) -> bool {
        let began_at = *self.began_at.get_or_insert(now);
        if now < began_at + span {
            return false;
        }
        let RoundOfLosses { lost, all, .. } = core::mem::take(self);
        all >= LEAST_JUDGED && lost as f64 > HEAVY_LOSS * all as f64
    }
}

/// Smoothed share of packets that carried the mark Congestion Experienced.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Marks {
    share: f64,
    began_at: Option<Instant>,
    marked: u64,
    all: u64,
}

impl Marks {
    pub(super) fn on_report(&mut self, acked: usize, marked: u64) {
        self.marked += marked;
        self.all += acked as u64;
    }

    /// Ends a round that has lasted for `span`. Returns the share if the round had marks.
    pub(super) fn end_round(&mut self, now: Instant, span: Duration) -> Option<f64> {
        let began_at = *self.began_at.get_or_insert(now);
        if now < began_at + span || self.all == 0 {
            return None;
        }
        let share = (self.marked as f64 / self.all as f64).min(1.0);
        self.share += MARK_WEIGHT * (share - self.share);
        let has_marks = self.marked > 0;
        (self.began_at, self.marked, self.all) = (Some(now), 0, 0);
        has_marks.then_some(self.share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND: Duration = Duration::from_millis(100);

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    #[test]
    fn more_than_a_tenth_of_a_round_is_too_much() {
        for (lost, is_heavy) in [(1, false), (2, true)] {
            let mut losses = RoundOfLosses::default();
            assert!(!losses.end_round(at(0), ROUND));
            losses.on_report(12 - lost, lost);
            assert!(!losses.end_round(at(99), ROUND), "the round lasts");
            assert_eq!(losses.end_round(at(100), ROUND), is_heavy);
        }
    }

    #[test]
    fn few_packets_say_nothing() {
        let mut losses = RoundOfLosses::default();
        losses.end_round(at(0), ROUND);
        losses.on_report(0, 9);
        assert!(!losses.end_round(at(100), ROUND));
    }

    #[test]
    fn the_share_of_marks_is_smoothed_over_sixteen_rounds() {
        let mut marks = Marks::default();
        marks.end_round(at(0), ROUND);
        let mut share = 0.0;
        for round in 1..=40 {
            marks.on_report(10, 5);
            share = marks.end_round(at(100 * round), ROUND).expect("marks");
        }
        assert!((0.4..0.5).contains(&share), "{share}");
        marks.on_report(10, 0);
        assert_eq!(marks.end_round(at(4_100), ROUND), None);
        marks.on_report(10, 10);
        let after = marks.end_round(at(4_200), ROUND).expect("marks");
        assert!((after - (share * 15.0 / 16.0 * 15.0 / 16.0 + 1.0 / 16.0)).abs() < 1e-9);
    }
}
