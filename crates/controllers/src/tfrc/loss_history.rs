//! The loss event rate: a weighted average of the intervals between loss events (RFC 5348 §5.4),
//! with history discounting (§5.5).

use std::collections::VecDeque;

/// `w_0` … `w_7`.
const WEIGHTS: [f64; 8] = [1.0, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2];

#[derive(Clone, Copy, Debug)]
struct Interval {
    packets: f64,
    /// `DF_i`.
    discount: f64,
}

/// The loss intervals of a flow, counted in packets.
#[derive(Clone, Debug)]
pub(super) struct LossHistory {
    /// `THRESHOLD`: least factor of a discount of old intervals.
    discount_floor: f64,
    /// `I_1` …, the newest first.
    closed: VecDeque<Interval>,
    /// The first lost packet of the newest loss event.
    event_began_with: u64,
    /// `I_0`: from that packet to the highest received.
    open: f64,
}

impl LossHistory {
    pub(super) fn new(discount_floor: f64) -> Self {
        LossHistory {
            discount_floor,
            closed: VecDeque::with_capacity(WEIGHTS.len() + 1),
            event_began_with: 0,
            open: 0.0,
        }
    }

    pub(super) fn has_loss(&self) -> bool {
        !self.closed.is_empty()
    }

    /// Handles the very first loss event. The packets received until then are a poor sample, so
    /// `initial_interval` replaces them (RFC 5348 §6.3.1).
    pub(super) fn on_first_event(&mut self, packet_number: u64, initial_interval: f64) {
        self.close(packet_number, initial_interval);
    }

    /// Handles a loss event that begins with this packet.
    pub(super) fn on_event(&mut self, packet_number: u64) {
        let discount = self.discount();
        for interval in &mut self.closed {
            interval.discount *= discount;
        }
        let packets = packet_number.saturating_sub(self.event_began_with).max(1);
        self.close(packet_number, packets as f64);
    }

    /// Sets the highest packet received so far.
    pub(super) fn on_received(&mut self, packet_number: u64) {
        self.open = (packet_number + 1).saturating_sub(self.event_began_with) as f64;
    }

    /// Returns `p`, zero before the first loss.
    pub(super) fn loss_event_rate(&self) -> f64 {
        if self.closed.is_empty() {
            return 0.0;
        }
        (1.0 / self.mean_with_open().max(self.mean_of_closed())).min(1.0)
    }

    fn close(&mut self, packet_number: u64, packets: f64) {
        self.closed.push_front(Interval {
            packets,
            discount: 1.0,
        });
        self.closed.truncate(WEIGHTS.len());
        self.event_began_with = packet_number;
        self.open = 0.0;
    }

    fn mean_of_closed(&self) -> f64 {
        let weighted = self.closed.iter().zip(WEIGHTS);
        let (sum, weights) = weighted.fold((0.0, 0.0), |(sum, weights), (interval, weight)| {
            let weight = weight * interval.discount;
            (sum + weight * interval.packets, weights + weight)
        });
        sum / weights
    }

    /// Returns the mean with the open interval, which takes the first weight; of eight closed ones
    /// the oldest has none.
    fn mean_with_open(&self) -> f64 {
        let discount = self.discount();
        let weighted = self.closed.iter().zip(&WEIGHTS[1..]);
        let first = (self.open * WEIGHTS[0], WEIGHTS[0]);
        let (sum, weights) = weighted.fold(first, |(sum, weights), (interval, weight)| {
            let weight = weight * interval.discount * discount;
            (sum + weight * interval.packets, weights + weight)
        });
        sum / weights
    }

    /// Returns `DF`, below 1 once the open interval is more than twice the mean of the others.
    fn discount(&self) -> f64 {
        let mean = self.mean_of_closed();
        if self.open > 2.0 * mean {
            (2.0 * mean / self.open).max(self.discount_floor)
        } else {
            1.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a history with a first interval and those that follow, and `open` packets in the
    /// open one.
    fn history(discount_floor: f64, intervals: &[u64], open: u64) -> LossHistory {
        let mut history = LossHistory::new(discount_floor);
        let mut number = 1_000;
        history.on_first_event(number, intervals[0] as f64);
        for packets in &intervals[1..] {
            history.on_received(number + packets - 1);
            number += packets;
            history.on_event(number);
        }
        if open > 0 {
            history.on_received(number + open - 1);
        }
        history
    }

    fn assert_mean(history: &LossHistory, expected: f64) {
        let mean = 1.0 / history.loss_event_rate();
        assert!(
            (mean / expected - 1.0).abs() < 1e-9,
            "{mean} is not {expected}"
        );
    }

    #[test]
    fn rfc5348_5_4_before_the_first_loss_there_is_no_loss_rate() {
        let mut history = LossHistory::new(0.25);
        history.on_received(5_000);
        assert_eq!(history.loss_event_rate(), 0.0);
    }

    #[test]
    fn rfc5348_5_4_the_weights_of_eight_intervals() {
        // Newest first: 80, 70, … 10: (80 + 70 + 60 + 50 + 32 + 18 + 8 + 2) / 6.
        let eight = [10, 20, 30, 40, 50, 60, 70, 80];
        assert_mean(&history(0.25, &eight, 1), 320.0 / 6.0);
        let nine = [999, 10, 20, 30, 40, 50, 60, 70, 80];
        assert_mean(&history(0.25, &nine, 1), 320.0 / 6.0);
    }

    #[test]
    fn rfc5348_5_4_fewer_intervals_are_divided_by_their_own_weights() {
        assert_mean(&history(0.25, &[40, 60], 1), 50.0);
        assert_mean(
            &history(0.25, &[40, 60, 20, 20, 10], 1),
            (10.0 + 20.0 + 20.0 + 60.0 + 32.0) / 4.8,
        );
    }

    #[test]
    fn rfc5348_5_4_the_open_interval_counts_only_if_it_lowers_the_rate() {
        assert_mean(&history(0.25, &[40, 40], 39), 40.0);
        assert_mean(&history(0.25, &[40, 40], 70), (70.0 + 40.0 + 40.0) / 3.0);
    }

    #[test]
    fn rfc5348_5_5_an_open_interval_twice_the_mean_discounts_the_older_ones() {
        // DF = 2 · 40 / 160 = 0.5.
        assert_mean(&history(0.25, &[40, 40], 160), (160.0 + 20.0 + 20.0) / 2.0);
        // DF = 0.25, its floor; ns-2's floor is 0.5.
        assert_mean(&history(0.25, &[40, 40], 1_000), 1_020.0 / 1.5);
        assert_mean(&history(0.5, &[40, 40], 1_000), 1_040.0 / 2.0);
    }

    #[test]
    fn rfc5348_5_5_discounts_stay_and_multiply_when_an_event_closes_the_interval() {
        let history = history(0.25, &[40, 40, 160], 1);
        assert_mean(&history, (160.0 + 0.5 * 80.0) / 2.0);
    }

    #[test]
    fn a_loss_rate_is_at_most_one() {
        let history = history(0.25, &[1, 1, 1], 0);
        assert_eq!(history.loss_event_rate(), 1.0);
    }
}
