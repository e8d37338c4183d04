//! Token-bucket policers: two intervals with many losses and the same rate reveal one, and its rate
//! is then taken as the bandwidth for a while ("lt_bw").

use anabranch_units::{DataRate, Duration, Instant};

/// `bbr_lt_intvl_min_rtts`: least rounds of an interval; it lasts at most four times as many.
const MIN_ROUNDS: u32 = 4;
const MAX_ROUNDS: u32 = 4 * MIN_ROUNDS;
/// `bbr_lt_loss_thresh`: lost by delivered, in 1/256.
const LOSS_THRESHOLD: u64 = 50;
/// `bbr_lt_bw_ratio` and `bbr_lt_bw_diff`: rates this close are the same.
const SAME_RATIO: u64 = 8;
const SAME_RATE: DataRate = DataRate::from_kilobits_per_second(4);
/// `bbr_lt_bw_max_rtts`: rounds of ProbeBW for which the rate is believed.
const MAX_RATE_ROUNDS: u32 = 48;

/// `bbr_lt_bw_sampling`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Policer {
    is_sampling: bool,
    is_found: bool,
    rate: Option<DataRate>,
    round_count: u32,
    began_at: Instant,
    delivered_bytes: u64,
    lost_bytes: u64,
}

/// Evidence of a rate sample on policers.
#[derive(Clone, Copy, Debug)]
pub(super) struct PolicerFacts {
    pub(super) now: Instant,
    pub(super) is_round_start: bool,
    pub(super) is_app_limited: bool,
    pub(super) has_losses: bool,
    pub(super) delivered_bytes: u64,
    pub(super) lost_bytes: u64,
    pub(super) is_in_probe_bw: bool,
}

impl Policer {
    /// Returns the policer's rate, if there is one.
    pub(super) fn rate(&self) -> Option<DataRate> {
        if self.is_found { self.rate } else { None }
    }

    /// Returns whether a policer has been assumed for long enough, so that ProbeBW must begin
    /// again.
    pub(super) fn on_sample(&mut self, facts: &PolicerFacts) -> bool {
        if self.is_found {
            self.round_count += u32::from(facts.is_in_probe_bw && facts.is_round_start);
            let is_over = self.round_count >= MAX_RATE_ROUNDS;
            if is_over {
                *self = Policer::default();
            }
            return is_over;
        }
        if !self.is_sampling {
            if !facts.has_losses {
                return false;
            }
            self.begin(facts.now, facts.delivered_bytes, facts.lost_bytes);
        }
        self.round_count += u32::from(facts.is_round_start);
        if facts.is_app_limited || self.round_count > MAX_ROUNDS {
            *self = Policer::default();
            return false;
        }
        if self.round_count >= MIN_ROUNDS && facts.has_losses {
            self.maybe_end_interval(facts);
        }
        false
    }

    fn begin(&mut self, now: Instant, delivered_bytes: u64, lost_bytes: u64) {
        self.is_sampling = true;
        self.round_count = 0;
        self.began_at = now;
        self.delivered_bytes = delivered_bytes;
        self.lost_bytes = lost_bytes;
    }

    fn maybe_end_interval(&mut self, facts: &PolicerFacts) {
        let lost = facts.lost_bytes.saturating_sub(self.lost_bytes);
        let delivered = facts.delivered_bytes.saturating_sub(self.delivered_bytes);
        let span = facts.now.saturating_since(self.began_at);
        let has_few_losses =
            u128::from(lost) * 256 < u128::from(delivered) * u128::from(LOSS_THRESHOLD);
        if delivered == 0 || has_few_losses || span < Duration::from_millis(1) {
            return;
        }
        let rate = DataRate::from_bytes_per(delivered, span);
        if let Some(before) = self.rate {
            let (low, high) = (rate.min(before), rate.max(before));
            let difference = high.saturating_sub(low);
            if difference.mul_f64(SAME_RATIO as f64) <= before || difference <= SAME_RATE {
                self.rate = Some(low.mul_f64(0.5) + high.mul_f64(0.5));
                self.is_found = true;
                self.round_count = 0;
                return;
            }
        }
        self.rate = Some(rate);
        self.begin(facts.now, facts.delivered_bytes, facts.lost_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays a round of 100 ms with `delivered` and `lost` bytes.
    fn round(policer: &mut Policer, facts: &mut PolicerFacts, delivered: u64, lost: u64) -> bool {
        facts.now += Duration::from_millis(100);
        facts.delivered_bytes += delivered;
        facts.lost_bytes += lost;
        facts.has_losses = lost > 0;
        policer.on_sample(facts)
    }

    fn start() -> (Policer, PolicerFacts) {
        let facts = PolicerFacts {
            now: Instant::from_secs(1),
            is_round_start: true,
            is_app_limited: false,
            has_losses: false,
            delivered_bytes: 0,
            lost_bytes: 0,
            is_in_probe_bw: true,
        };
        (Policer::default(), facts)
    }

    #[test]
    fn lt_bw_two_lossy_intervals_of_four_rounds_and_one_rate_are_a_policer() {
        let (mut policer, mut facts) = start();
        for count in 1..=9 {
            round(&mut policer, &mut facts, 50_000, 11_000);
            assert_eq!(policer.rate().is_some(), count >= 8, "{count}");
        }
        let rate = policer.rate().unwrap();
        assert!((rate.megabits_per_second() - 4.0).abs() < 0.01, "{rate}");
    }

    #[test]
    fn lt_bw_needs_a_fifth_lost_and_rates_within_an_eighth() {
        let (mut policer, mut facts) = start();
        for _ in 0..60 {
            round(&mut policer, &mut facts, 50_000, 9_700);
        }
        assert_eq!(policer.rate(), None, "50/256 is 9766 of 50000");
        let (mut policer, mut facts) = start();
        for count in 0..16 {
            let bytes = if (count / 4) % 2 == 0 { 50_000 } else { 60_000 };
            round(&mut policer, &mut facts, bytes, 20_000);
        }
        assert_eq!(policer.rate(), None);
    }

    #[test]
    fn lt_bw_sampling_ends_when_app_limited_and_after_sixteen_rounds() {
        let (mut policer, mut facts) = start();
        round(&mut policer, &mut facts, 50_000, 20_000);
        for count in 1..=16 {
            assert!(policer.is_sampling, "{count}");
            round(&mut policer, &mut facts, 50_000, 0);
        }
        assert!(!policer.is_sampling);
        round(&mut policer, &mut facts, 50_000, 20_000);
        facts.is_app_limited = true;
        round(&mut policer, &mut facts, 50_000, 20_000);
        assert!(!policer.is_sampling);
    }

    #[test]
    fn lt_bw_is_believed_for_48_rounds_of_probe_bw() {
        let (mut policer, mut facts) = start();
        while policer.rate().is_none() {
            round(&mut policer, &mut facts, 50_000, 11_000);
        }
        for _ in 0..47 {
            assert!(!round(&mut policer, &mut facts, 50_000, 0));
            assert!(policer.rate().is_some());
        }
        assert!(round(&mut policer, &mut facts, 50_000, 0));
        assert_eq!(policer.rate(), None);
    }
}
