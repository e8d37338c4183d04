//! The sender of ns-2.35's Agent/TFRC, with its defaults.

use anabranch_units::Instant;

use super::receiver::is_round_trip;
use super::sender::{RECEIVE_RATE_FACTOR, ReceiveRates, Round, Sender, initial_window};
use crate::rate_use::USED_SHARE;

/// `ssmult_`.
const SLOW_START_FACTOR: f64 = 2.0;
/// Round trips that an increase makes up for, at most.
const MAX_INCREASE_ROUND_TRIPS: f64 = 2.0;
/// `InitRate_`, in bytes per second.
const INITIAL_RATE: f64 = 300.0;
/// Bound of halving, in bytes per second: below the least rate, a packet in 64 s.
const MIN_RATE: f64 = 1.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    SlowStart,
    OutOfSlowStart,
    Increase,
    Decrease,
}

#[derive(Debug)]
pub(super) struct Ns2 {
    segment_bytes: f64,
    /// `conservative_` with `scmult_`: the multiple of the receive rate that bounds the rate
    /// without loss. With loss the bound is the receive rate itself (Bansal et al. 2001).
    self_clocking: Option<f64>,
    rate: f64,
    /// The rate before the last step of slow start (`oldrate_`).
    previous_rate: f64,
    phase: Phase,
    changed_at: Instant,
    /// Number of reports.
    round_count: u64,
    /// Receive rates for self-clocking.
    receive_rates: ReceiveRates,
    last_used_share: f64,
    /// `maxrate_`, and its value in slow start.
    max_rate: f64,
    slow_start_max_rate: f64,
}

impl Ns2 {
    pub(super) fn new(segment_bytes: f64, self_clocking: Option<f64>) -> Self {
        Ns2 {
            segment_bytes,
            self_clocking,
            rate: INITIAL_RATE,
            previous_rate: INITIAL_RATE,
            phase: Phase::SlowStart,
            changed_at: Instant::ZERO,
            round_count: 0,
            receive_rates: ReceiveRates::of(Instant::ZERO, 0.0),
            last_used_share: 1.0,
            max_rate: 0.0,
            slow_start_max_rate: 0.0,
        }
    }

    fn bound_by_receive_rate(&mut self, round: &Round) {
        let receive_rate = if self.round_count > 1 {
            round.report.receive_rate
        } else {
            0.0
        };
        let multiple = RECEIVE_RATE_FACTOR * receive_rate;
        (self.max_rate, self.slow_start_max_rate) = match self.self_clocking {
            Some(factor) => self.self_clocked(round, receive_rate, factor),
            None => (multiple, multiple),
        };
    }

    /// Returns the bounds of the rate with and without slow start. The unused part of the rate is
    /// no evidence against the path. Up to the share that the session's encoder leaves, it counts
    /// as received. Beyond that, RFC 5348 §4.3 has the limit: the clock is for senders that use
    /// their rate. Packets that arrived during a round trip were sent in that one and the one
    /// before.
    fn self_clocked(&mut self, round: &Round, receive_rate: f64, factor: f64) -> (f64, f64) {
        let shares = [round.used_share, self.last_used_share];
        self.last_used_share = round.used_share;
        let is_limited = shares.iter().any(|share| *share < USED_SHARE);
        if is_limited && receive_rate > 0.0 {
            let limit = self.receive_rates.data_limited(round);
            return (limit, limit);
        }
        self.receive_rates.update(round);
        let used_share = (shares[0].min(1.0) + shares[1].min(1.0)) / 2.0;
        let received = receive_rate / used_share.max(USED_SHARE);
        let has_loss = round.report.lost_count > 0;
        let clocked = received * if has_loss { 1.0 } else { factor };
        (clocked, RECEIVE_RATE_FACTOR * receive_rate)
    }

    fn slow_start(&mut self, round: &Round) {
        let initial_rate = initial_window(self.segment_bytes) / round.rtt;
        let packet_per_rtt = self.segment_bytes / round.rtt;
        let most = self.slow_start_max_rate;
        let rate = self.rate;
        let is_time = is_round_trip(round.now.saturating_since(self.changed_at), round.rtt);
        if self.round_count <= 2 || (round.is_data_limited() && most > 0.0 && most < initial_rate) {
            self.rate = self.rate.max(initial_rate);
        } else if most <= 0.0 {
            self.rate = packet_per_rtt;
        } else if self.rate > most {
            (self.rate, self.previous_rate) = (most / 2.0, most / 2.0);
            self.changed_at = round.now;
            return;
        } else if is_time {
            self.rate = (SLOW_START_FACTOR * self.rate)
                .min(most)
                .max(packet_per_rtt);
        } else {
            return;
        }
        self.previous_rate = rate;
        self.changed_at = round.now;
    }

    /// Increases the rate by a packet per round trip for every round trip since the last change.
    fn increase(&mut self, round: &Round) {
        let since = round.now.saturating_since(self.changed_at).as_secs_f64();
        let round_trips = (since / round.rtt).min(MAX_INCREASE_ROUND_TRIPS);
        let packet_per_rtt = self.segment_bytes / round.rtt;
        let least = if round.is_data_limited() {
            initial_window(self.segment_bytes) / round.rtt
        } else {
            packet_per_rtt
        };
        let most = self.max_rate.max(least).min(round.equation_rate);
        self.rate = (self.rate + packet_per_rtt * round_trips).min(most);
        self.phase = Phase::Increase;
        self.changed_at = round.now;
    }

    fn decrease(&mut self, round: &Round) {
        let most = self.max_rate.max(self.segment_bytes / round.rtt);
        self.rate = round.equation_rate.min(most);
        self.phase = Phase::Decrease;
        self.changed_at = round.now;
    }
}

impl Sender for Ns2 {
    fn on_report(&mut self, round: &Round) {
        self.round_count += 1;
        self.bound_by_receive_rate(round);
        if self.phase != Phase::SlowStart {
            if round.equation_rate > self.rate {
                self.increase(round);
            } else {
                self.decrease(round);
            }
        } else if self.round_count > 1 && round.report.loss_event_rate > 0.0 {
            self.phase = Phase::OutOfSlowStart;
            self.rate = round.equation_rate;
        } else {
            self.slow_start(round);
        }
    }

    /// `reduce_rate_on_no_feedback`.
    fn on_nofeedback(&mut self, _now: Instant, rtt: Option<f64>, is_idle: bool) {
        if self.phase != Phase::SlowStart {
            self.phase = Phase::Decrease;
        }
        let initial_rate = rtt.map_or(0.0, |rtt| initial_window(self.segment_bytes) / rtt);
        // An idle sender does not fall below the initial rate.
        let least = if is_idle {
            self.rate.min(initial_rate)
        } else {
            MIN_RATE
        };
        self.rate = (self.rate / 2.0).max(least);
    }

    fn rate(&self) -> f64 {
        self.rate
    }

    /// Returns the send rate. A step of slow start is taken packet by packet over the round trip
    /// (`slow_increase_`): on average half of it.
    fn sending_rate(&self) -> f64 {
        if self.phase == Phase::SlowStart && self.round_count > 2 {
            (self.previous_rate.min(self.rate) + self.rate) / 2.0
        } else {
            self.rate
        }
    }

    fn state(&self) -> &'static str {
        match self.phase {
            Phase::SlowStart => "SlowStart",
            Phase::OutOfSlowStart => "OutOfSlowStart",
            Phase::Increase => "CongestionAvoidance",
            Phase::Decrease => "RateDecrease",
        }
    }
}
