//! Excess of acknowledged bytes over the bandwidth's share in bursts, over five to ten rounds.

use anabranch_units::{DataRate, Duration, Instant};

/// `bbr_extra_acked_win_rtts`: each of the two windows.
const WINDOW_ROUNDS: u32 = 5;
/// `bbr_extra_acked_max_us`.
const MAX_SPAN: Duration = Duration::from_millis(100);
/// `bbr_ack_epoch_acked_reset_thresh`: 2^20 packets.
const MAX_EPOCH_BYTES: u64 = (1 << 20) * 1_500;

/// `bbr_update_ack_aggregation`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ExtraAcked {
    epoch_began_at: Instant,
    epoch_bytes: u64,
    largest: [u64; 2],
    window: usize,
    rounds_in_window: u32,
}

impl ExtraAcked {
    pub(super) fn on_acked(
        &mut self,
        now: Instant,
        acked_bytes: u64,
        bandwidth: DataRate,
        congestion_window: u64,
        is_round_start: bool,
    ) {
        if is_round_start {
            self.rounds_in_window += 1;
            if self.rounds_in_window >= WINDOW_ROUNDS {
                self.rounds_in_window = 0;
                self.window ^= 1;
                self.largest[self.window] = 0;
            }
        }
        let mut expected = bandwidth.bytes_in(now.saturating_since(self.epoch_began_at));
        if self.epoch_bytes <= expected || self.epoch_bytes + acked_bytes >= MAX_EPOCH_BYTES {
            self.restart(now);
            expected = 0;
        }
        self.epoch_bytes += acked_bytes;
        let extra = self
            .epoch_bytes
            .saturating_sub(expected)
            .min(congestion_window);
        let largest = &mut self.largest[self.window];
        *largest = extra.max(*largest);
    }

    /// Begins a new epoch after idleness.
    pub(super) fn restart(&mut self, now: Instant) {
        self.epoch_bytes = 0;
        self.epoch_began_at = now;
    }

    /// `bbr_ack_aggregation_cwnd`: the addition to the window for aggregated acknowledgements.
    pub(super) fn allowance(&self, bandwidth: DataRate) -> u64 {
        let largest = self.largest[0].max(self.largest[1]);
        largest.min(bandwidth.bytes_in(MAX_SPAN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1000 bytes a millisecond.
    const BANDWIDTH: DataRate = DataRate::from_megabits_per_second(8);

    #[test]
    fn extra_acked_exceeds_the_bandwidth() {
        let mut extra = ExtraAcked::default();
        let at = Instant::from_millis;
        extra.on_acked(at(100), 8_000, BANDWIDTH, 100_000, false);
        extra.on_acked(at(103), 7_000, BANDWIDTH, 100_000, false);
        assert_eq!(extra.allowance(BANDWIDTH), 12_000);
        extra.on_acked(at(120), 1_000, BANDWIDTH, 100_000, false);
        assert_eq!(extra.epoch_bytes, 1_000, "the epoch was over");
        extra.on_acked(at(120), 50_000, BANDWIDTH, 20_000, false);
        assert_eq!(extra.allowance(BANDWIDTH), 20_000, "a window at most");
    }

    #[test]
    fn extra_acked_is_forgotten_after_five_to_ten_rounds() {
        let mut extra = ExtraAcked::default();
        let mut at = Instant::from_secs(1);
        extra.on_acked(at, 30_000, BANDWIDTH, 100_000, false);
        for round in 1..=10 {
            at += Duration::from_millis(100);
            extra.on_acked(at, 1_000, BANDWIDTH, 100_000, true);
            let expected = if round < 10 { 30_000 } else { 1_000 };
            assert_eq!(extra.allowance(BANDWIDTH), expected, "round {round}");
        }
    }

    #[test]
    fn extra_acked_is_capped_at_100_ms_of_the_bandwidth() {
        let mut extra = ExtraAcked::default();
        let at = Instant::from_secs(1);
        extra.on_acked(at, 500_000, BANDWIDTH, 1_000_000, false);
        assert_eq!(extra.allowance(BANDWIDTH), 100_000);
    }
}
