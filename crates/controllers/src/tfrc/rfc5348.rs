//! The sender of RFC 5348 §4.

use anabranch_units::Instant;

use super::MAX_BACKOFF_SECONDS;
use super::receiver::is_round_trip;
use super::sender::{RECEIVE_RATE_FACTOR, ReceiveRates, Round, Sender, initial_window};

#[derive(Debug)]
pub(super) struct Rfc5348 {
    segment_bytes: f64,
    /// `X`.
    rate: f64,
    receive_rates: ReceiveRates,
    equation_rate: f64,
    /// `p > 0`.
    has_loss: bool,
    /// `tld`: time at which the rate was last doubled.
    doubled_at: Option<Instant>,
}

impl Rfc5348 {
    pub(super) fn new(segment_bytes: f64) -> Self {
        Rfc5348 {
            segment_bytes,
            rate: segment_bytes,
            receive_rates: ReceiveRates::of(Instant::ZERO, f64::INFINITY),
            equation_rate: f64::INFINITY,
            has_loss: false,
            doubled_at: None,
        }
    }

    fn min_rate(&self) -> f64 {
        self.segment_bytes / MAX_BACKOFF_SECONDS
    }

    /// Returns `recv_limit` from a report.
    fn receive_limit(&mut self, round: &Round) -> f64 {
        if round.is_data_limited() && round.report.receive_rate > 0.0 {
            return self.receive_rates.data_limited(round);
        }
        self.receive_rates.update(round);
        RECEIVE_RATE_FACTOR * self.receive_rates.max()
    }
}

impl Sender for Rfc5348 {
    fn on_report(&mut self, round: &Round) {
        self.has_loss = round.report.loss_event_rate > 0.0;
        self.equation_rate = round.equation_rate;
        let initial_rate = initial_window(self.segment_bytes) / round.rtt;
        let Some(doubled_at) = self.doubled_at else {
            // §4.2: the first report.
            self.rate = initial_rate;
            self.doubled_at = Some(round.now);
            self.receive_rates = ReceiveRates::of(round.now, f64::INFINITY);
            return;
        };
        let receive_limit = self.receive_limit(round);
        if self.has_loss {
            self.rate = self.equation_rate.min(receive_limit).max(self.min_rate());
        } else if is_round_trip(round.now.saturating_since(doubled_at), round.rtt) {
            self.rate = (2.0 * self.rate).min(receive_limit).max(initial_rate);
            self.doubled_at = Some(round.now);
        }
    }

    /// Handles the expiry of the nofeedback timer (§4.4).
    fn on_nofeedback(&mut self, now: Instant, rtt: Option<f64>, is_idle: bool) {
        let receive_rate = self.receive_rates.max();
        let Some(rtt) = rtt else {
            if !is_idle {
                self.rate = (self.rate / 2.0).max(self.min_rate());
            }
            return;
        };
        let recover_rate = initial_window(self.segment_bytes) / rtt;
        let is_low = if self.has_loss {
            receive_rate < recover_rate
        } else {
            self.rate < 2.0 * recover_rate
        };
        if is_idle && is_low {
            return;
        }
        if !self.has_loss {
            self.rate = (self.rate / 2.0).max(self.min_rate());
            return;
        }
        let bound = if self.equation_rate > 2.0 * receive_rate {
            receive_rate
        } else {
            self.equation_rate / 2.0
        };
        let limit = bound.max(self.min_rate());
        self.receive_rates = ReceiveRates::of(now, limit / 2.0);
        self.rate = self.equation_rate.min(limit).max(self.min_rate());
    }

    fn rate(&self) -> f64 {
        self.rate
    }

    fn state(&self) -> &'static str {
        if self.has_loss {
            "CongestionAvoidance"
        } else {
            "SlowStart"
        }
    }
}
