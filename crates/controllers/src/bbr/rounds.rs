//! Rounds, and the windowed maximum over them.

use std::collections::VecDeque;

/// Lifetime of a bandwidth sample in BBRv1, in rounds: a gain cycle and two more.
pub(crate) const BANDWIDTH_WINDOW_ROUNDS: u64 = 10;

/// Counts round trips by packet number: one ends when a packet is acknowledged that was sent after
/// the end of the one before.
#[derive(Debug, Default)]
pub(crate) struct RoundCounter {
    /// Least packet number that ends the round.
    ends_with: u64,
    /// Rounds ended so far.
    pub(crate) count: u64,
}

impl RoundCounter {
    /// Whether the acknowledgement of `packet_number` ends a round.
    pub(crate) fn on_acked(&mut self, packet_number: u64, next_packet_number: u64) -> bool {
        let is_end = packet_number >= self.ends_with;
        if is_end {
            self.count += 1;
            self.ends_with = next_packet_number;
        }
        is_end
    }

    /// Starts the round again: only a packet sent from now on ends it.
    pub(crate) fn restart(&mut self, next_packet_number: u64) {
        self.ends_with = next_packet_number;
    }
}

/// The maximum of the samples of the last few rounds, that of the oldest one included.
#[derive(Debug)]
pub(crate) struct RoundMax<T> {
    /// (round, sample), later rounds and lesser samples towards the back, at most one a round.
    samples: VecDeque<(u64, T)>,
    /// The first of them, cached since it is read far more often than it changes.
    max: T,
    window_rounds: u64,
    round: u64,
}

impl<T: Copy + Default + Ord> RoundMax<T> {
    pub(crate) fn new(window_rounds: u64) -> Self {
        RoundMax {
            // Enough capacity for all rounds of the window: the deque never grows.
            samples: VecDeque::with_capacity(window_rounds as usize + 2),
            max: T::default(),
            window_rounds,
            round: 0,
        }
    }

    /// Sets the number of rounds for which samples count.
    pub(crate) fn set_window(&mut self, window_rounds: u64) {
        self.window_rounds = window_rounds;
    }

    /// Returns the estimate; zero before the first sample.
    pub(crate) fn max(&self) -> T {
        debug_assert!(
            self.samples
                .front()
                .is_none_or(|&(_, sample)| sample == self.max)
        );
        self.max
    }

    /// Ends a round, with this sample if it gave a valid one.
    pub(crate) fn on_round(&mut self, sample: Option<T>) {
        self.round += 1;
        if let Some(sample) = sample {
            self.push(sample);
        }
        self.forget_old();
    }

    /// Adds a sample of the current round.
    pub(crate) fn push(&mut self, sample: T) {
        while self
            .samples
            .back()
            .is_some_and(|&(_, lesser)| lesser <= sample)
        {
            self.samples.pop_back();
        }
        if self
            .samples
            .back()
            .is_none_or(|&(round, _)| round != self.round)
        {
            self.samples.push_back((self.round, sample));
        }
        self.forget_old();
    }

    /// Removes expired samples. The last sample stays however old it is, since an empty window
    /// would mean zero. A sample of the current round replaces one that is kept for this reason
    /// only.
    fn forget_old(&mut self) {
        while self.samples.len() > 1 && self.samples[0].0 + self.window_rounds < self.round {
            self.samples.pop_front();
        }
        self.max = self.samples.front().map_or(self.max, |&(_, max)| max);
    }

    /// Adds a lower bound of the path's capacity, which ages no sample.
    pub(crate) fn raise(&mut self, sample: T) {
        if sample > self.max() {
            self.push(sample);
        }
    }

    /// Forgets all samples but this one.
    pub(crate) fn restart(&mut self, sample: T) {
        self.samples.clear();
        self.push(sample);
    }
}

#[cfg(test)]
mod tests {
    use anabranch_units::DataRate;

    use super::*;

    fn mbps(rate: u64) -> DataRate {
        DataRate::from_megabits_per_second(rate)
    }

    #[test]
    fn rounds_are_counted_by_packet_number() {
        let mut rounds = RoundCounter::default();
        let ends: Vec<bool> = [(0, 4), (1, 5), (3, 7), (4, 8), (5, 9), (8, 12)]
            .map(|(n, next)| rounds.on_acked(n, next))
            .into();
        assert_eq!(ends, [true, false, false, true, false, true]);
        rounds.restart(20);
        assert!(!rounds.on_acked(19, 25));
        assert!(rounds.on_acked(20, 26));
        assert_eq!(rounds.count, 4);
    }

    #[test]
    fn the_filter_holds_a_maximum_for_ten_rounds() {
        let mut filter = RoundMax::new(BANDWIDTH_WINDOW_ROUNDS);
        filter.on_round(Some(mbps(5)));
        for round in 1..=10 {
            filter.on_round(Some(mbps(3)));
            assert_eq!(filter.max(), mbps(5), "round {round}");
        }
        filter.on_round(Some(mbps(2)));
        assert_eq!(filter.max(), mbps(3));
    }

    #[test]
    fn rounds_without_a_sample_age_it_but_leave_the_last_one() {
        let mut filter = RoundMax::new(BANDWIDTH_WINDOW_ROUNDS);
        filter.on_round(Some(mbps(5)));
        for _ in 0..40 {
            filter.on_round(None);
        }
        assert_eq!(filter.max(), mbps(5));
        filter.on_round(Some(mbps(1)));
        assert_eq!(filter.max(), mbps(1));
    }

    #[test]
    fn raising_ages_nothing_and_never_lowers() {
        let mut filter = RoundMax::new(BANDWIDTH_WINDOW_ROUNDS);
        filter.on_round(Some(mbps(5)));
        for _ in 0..40 {
            filter.raise(mbps(1));
        }
        assert_eq!(filter.max(), mbps(5));
        filter.raise(mbps(6));
        assert_eq!(filter.max(), mbps(6));
    }

    #[test]
    fn a_round_with_many_samples_keeps_its_largest() {
        let mut filter = RoundMax::new(BANDWIDTH_WINDOW_ROUNDS);
        for round in 0..30 {
            filter.on_round(None);
            for sample in [3, 1, 2] {
                filter.push(mbps(40 - round + sample));
            }
            assert!(filter.samples.len() <= 11);
        }
        assert_eq!(filter.max(), mbps(40 - 19 + 3));
    }
}
