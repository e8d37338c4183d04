//! The loss-based rate `A_s` (draft §6; WebRTC's send-side bandwidth estimation).

use std::collections::VecDeque;

use anabranch_units::{Duration, Instant};

use super::aimd::Rules;

/// Shares of lost packets below which the rate grows, and above which it falls.
const LOW_LOSS: f64 = 0.02;
const HIGH_LOSS: f64 = 0.10;
/// Least packets of a loss ratio.
const MIN_PACKETS: u64 = 20;
/// Time between decreases, beyond a round-trip time.
const DECREASE_INTERVAL: Duration = Duration::from_millis(300);
/// Window whose least rate is the base of growth (WebRTC).
const GROWTH_WINDOW: Duration = Duration::from_secs(1);
const GROWTH: f64 = 1.08;
const GROWTH_OFFSET: f64 = 1_000.0;
/// Growth by a report (draft).
const DRAFT_GROWTH: f64 = 1.05;
/// Initial time in which the delay-based rate leads while nothing is lost.
const START_PHASE: Duration = Duration::from_secs(2);
/// Capacity of the window's minimum; it holds increasing rates only, one per report.
const MAX_HISTORY: usize = 64;

/// Rate that the losses allow.
#[derive(Clone, Debug)]
pub(super) struct LossBased {
    rules: Rules,
    min_rate: f64,
    max_rate: f64,
    /// `A_s`, bit/s.
    pub(super) rate: f64,
    lost_count: u64,
    packet_count: u64,
    has_lost: bool,
    began_at: Option<Instant>,
    decreased_at: Option<Instant>,
    /// Rates of the last second, from the least on.
    history: VecDeque<(Instant, f64)>,
}

impl LossBased {
    pub(super) fn new(rules: Rules, initial_rate: f64, min_rate: f64, max_rate: f64) -> Self {
        LossBased {
            rules,
            min_rate,
            max_rate,
            rate: initial_rate.clamp(min_rate, max_rate),
            lost_count: 0,
            packet_count: 0,
            has_lost: false,
            began_at: None,
            decreased_at: None,
            history: VecDeque::with_capacity(MAX_HISTORY),
        }
    }

    /// Handles a report of lost and acknowledged packets. `delay_based` is `A_r`.
    pub(super) fn update(
        &mut self,
        now: Instant,
        lost_count: u64,
        acked_count: u64,
        rtt: Duration,
        delay_based: f64,
    ) {
        let began_at = *self.began_at.get_or_insert(now);
        self.lost_count += lost_count;
        self.packet_count += lost_count + acked_count;
        self.has_lost |= lost_count > 0;
        if !self.has_lost && now < began_at + START_PHASE {
            self.rate = self.rate.max(delay_based);
            self.history.clear();
        }
        if self.packet_count >= MIN_PACKETS {
            let loss = self.lost_count as f64 / self.packet_count as f64;
            (self.lost_count, self.packet_count) = (0, 0);
            self.on_loss_ratio(now, loss, rtt);
        }
        // The rate must not grow unseen above the delay-based one.
        self.rate = self
            .rate
            .min(delay_based)
            .clamp(self.min_rate, self.max_rate);
    }

    fn on_loss_ratio(&mut self, now: Instant, loss: f64, rtt: Duration) {
        self.remember(now);
        if loss < LOW_LOSS {
            self.rate = match self.rules {
                Rules::Draft => self.rate * DRAFT_GROWTH,
                Rules::WebRtc => {
                    let least = self.history.front().map_or(self.rate, |&(_, rate)| rate);
                    self.rate.max(GROWTH * least + GROWTH_OFFSET)
                }
            };
        } else if loss > HIGH_LOSS
            && self
                .decreased_at
                .is_none_or(|at| at + DECREASE_INTERVAL + rtt <= now)
        {
            self.rate *= 1.0 - 0.5 * loss;
            self.decreased_at = Some(now);
        }
    }

    fn remember(&mut self, now: Instant) {
        while self
            .history
            .front()
            .is_some_and(|&(at, _)| at + GROWTH_WINDOW < now)
        {
            self.history.pop_front();
        }
        while self
            .history
            .back()
            .is_some_and(|&(_, rate)| rate >= self.rate)
            || self.history.len() >= MAX_HISTORY
        {
            self.history.pop_back();
        }
        self.history.push_back((now, self.rate));
    }

    /// Sets the rate that a probe has found.
    pub(super) fn set_rate(&mut self, rate: f64) {
        self.rate = rate.clamp(self.min_rate, self.max_rate);
        self.history.clear();
    }

    /// Starts again with the start phase.
    pub(super) fn restart(&mut self) {
        self.began_at = None;
        self.has_lost = false;
        (self.lost_count, self.packet_count) = (0, 0);
    }

    /// Scales the rate by this factor after silence.
    pub(super) fn scale(&mut self, factor: f64) {
        self.set_rate(self.rate * factor);
        (self.lost_count, self.packet_count) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    /// Returns a controller past its start phase, at 1 Mbit/s.
    fn started(rules: Rules) -> LossBased {
        let mut loss_based = LossBased::new(rules, 1e6, 5e4, 1e9);
        loss_based.began_at = Some(Instant::ZERO);
        loss_based
    }

    /// Plays reports every 100 ms from the third second on, of a hundred packets each.
    fn report(loss_based: &mut LossBased, reports: std::ops::Range<u64>, lost_count: u64) {
        for report in reports {
            let now = Instant::from_millis(3_000 + 100 * report);
            loss_based.update(now, lost_count, 100 - lost_count, RTT, 1e9);
        }
    }

    fn near(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-9, "{found}, {expected}");
    }

    #[test]
    fn property_five_percent_loss_holds_the_rate() {
        let mut loss_based = started(Rules::WebRtc);
        report(&mut loss_based, 0..100, 5);
        near(loss_based.rate, 1e6);
    }

    #[test]
    fn property_fifteen_percent_loss_takes_seven_and_a_half_every_400_ms() {
        let mut loss_based = started(Rules::WebRtc);
        report(&mut loss_based, 0..4, 15);
        near(loss_based.rate, 1e6 * 0.925);
        report(&mut loss_based, 4..8, 15);
        near(loss_based.rate, 1e6 * 0.925 * 0.925);
    }

    #[test]
    fn low_loss_grows_by_eight_percent_of_the_last_seconds_least() {
        let mut loss_based = started(Rules::WebRtc);
        report(&mut loss_based, 0..11, 1);
        near(loss_based.rate, 1.08 * 1e6 + 1_000.0);
        report(&mut loss_based, 11..12, 1);
        near(loss_based.rate, 1.08 * (1.08 * 1e6 + 1_000.0) + 1_000.0);
    }

    #[test]
    fn draft_6_low_loss_grows_by_five_percent_a_report() {
        let mut loss_based = started(Rules::Draft);
        report(&mut loss_based, 0..2, 1);
        near(loss_based.rate, 1.05 * 1.05 * 1e6);
    }

    #[test]
    fn fewer_than_twenty_packets_say_nothing() {
        let mut loss_based = started(Rules::WebRtc);
        let now = Instant::from_secs(3);
        loss_based.update(now, 9, 10, RTT, 1e9);
        near(loss_based.rate, 1e6);
        loss_based.update(now, 0, 1, RTT, 1e9);
        near(loss_based.rate, 1e6 * (1.0 - 0.5 * 0.45));
    }

    #[test]
    fn start_phase_follows_the_delay_based_rate_until_something_is_lost() {
        let mut loss_based = LossBased::new(Rules::WebRtc, 3e5, 5e4, 1e9);
        loss_based.update(Instant::from_secs(1), 0, 5, RTT, 2e6);
        near(loss_based.rate, 2e6);
        loss_based.update(Instant::from_secs(2), 1, 5, RTT, 3e6);
        near(loss_based.rate, 2e6);
        loss_based.update(Instant::from_secs(2), 0, 1, RTT, 1.5e6);
        near(loss_based.rate, 1.5e6);
    }
}
