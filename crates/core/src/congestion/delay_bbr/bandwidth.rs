//! Rounds, and the windowed maximum over them.

use std::collections::VecDeque;

use anabranch_units::DataRate;

/// How many rounds a bandwidth sample counts: a gain cycle and two more.
const WINDOW_ROUNDS: u64 = 10;

/// Counts round trips by packet number: one ends when a packet is acknowledged that left after the
/// end of the one before.
#[derive(Debug, Default)]
pub(super) struct RoundCounter {
    /// The least packet number that ends the round.
    ends_with: u64,
    /// Rounds ended so far.
    pub(super) count: u64,
}

impl RoundCounter {
    /// Whether the acknowledgement of `packet_number` ends a round.
    pub(super) fn on_acked(&mut self, packet_number: u64, next_packet_number: u64) -> bool {
        let is_end = packet_number >= self.ends_with;
        if is_end {
            self.count += 1;
            self.ends_with = next_packet_number;
        }
        is_end
    }

    /// Starts the round again: only a packet that leaves from now on ends it.
    pub(super) fn restart(&mut self, next_packet_number: u64) {
        self.ends_with = next_packet_number;
    }
}

/// The maximum of the samples of the last ten rounds.
#[derive(Debug, Default)]
pub(super) struct BandwidthFilter {
    /// (round, sample), later rounds and lesser samples towards the back.
    samples: VecDeque<(u64, DataRate)>,
    round: u64,
}

impl BandwidthFilter {
    /// The estimate; zero before the first sample.
    pub(super) fn max(&self) -> DataRate {
        self.samples
            .front()
            .map_or(DataRate::ZERO, |&(_, rate)| rate)
    }

    /// A round has ended, with this sample if it gave a valid one.
    pub(super) fn on_round(&mut self, sample: Option<DataRate>) {
        self.round += 1;
        if let Some(rate) = sample {
            self.push(rate);
        }
        // The last sample stays however old it is: an empty window would say zero.
        while self.samples.len() > 1 && self.samples[0].0 + WINDOW_ROUNDS < self.round {
            self.samples.pop_front();
        }
    }

    /// A sample that says how much the path carries at least: it ages nothing.
    pub(super) fn raise(&mut self, rate: DataRate) {
        if rate > self.max() {
            self.push(rate);
        }
    }

    /// Forgets all samples but this one.
    pub(super) fn restart(&mut self, rate: DataRate) {
        self.samples.clear();
        self.push(rate);
    }

    fn push(&mut self, rate: DataRate) {
        while self
            .samples
            .back()
            .is_some_and(|&(_, lesser)| lesser <= rate)
        {
            self.samples.pop_back();
        }
        self.samples.push_back((self.round, rate));
    }
}

#[cfg(test)]
mod tests {
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
        let mut filter = BandwidthFilter::default();
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
        let mut filter = BandwidthFilter::default();
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
        let mut filter = BandwidthFilter::default();
        filter.on_round(Some(mbps(5)));
        for _ in 0..40 {
            filter.raise(mbps(1));
        }
        assert_eq!(filter.max(), mbps(5));
        filter.raise(mbps(6));
        assert_eq!(filter.max(), mbps(6));
    }
}
