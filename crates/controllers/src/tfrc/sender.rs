//! Common parts of RFC 5348's sender and ns-2's.

use core::fmt::Debug;

use anabranch_units::{Duration, Instant};

use super::receiver::Report;
use crate::rate_use::USED_SHARE;

/// Largest rate as a multiple of the receive rate (RFC 5348 §4.3, ns-2).
pub(super) const RECEIVE_RATE_FACTOR: f64 = 2.0;
/// Factor that a new loss applies to the receive rate of a data-limited sender (RFC 5348 §4.3).
const DATA_LIMITED_LOSS_FACTOR: f64 = 0.85;

/// A report, with the sender's derived values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    pub(super) now: Instant,
    pub(super) report: Report,
    /// `R`, in seconds.
    pub(super) rtt: f64,
    /// `X_Bps` of the equation, in bytes per second; infinite before the first loss.
    pub(super) equation_rate: f64,
    /// Sent bytes since the last report, as a share of the allowed bytes.
    pub(super) used_share: f64,
}

impl Round {
    /// Whether the source rather than the rate was the limit since the last report.
    pub(super) fn is_data_limited(&self) -> bool {
        self.used_share < USED_SHARE
    }
}

/// `X_recv_set` (RFC 5348 §4.3): receive rates, in bytes per second, and when they were reported.
#[derive(Debug)]
pub(super) struct ReceiveRates(Vec<(Instant, f64)>);

impl ReceiveRates {
    pub(super) fn of(at: Instant, rate: f64) -> Self {
        ReceiveRates(vec![(at, rate)])
    }

    pub(super) fn max(&self) -> f64 {
        self.0.iter().map(|(_, rate)| *rate).fold(0.0, f64::max)
    }

    /// "Update X_recv_set": those of the last two round trips, at most three.
    pub(super) fn update(&mut self, round: &Round) {
        let memory = Duration::from_secs_f64(2.0 * round.rtt);
        self.0.push((round.now, round.report.receive_rate));
        self.0.retain(|(at, _)| *at + memory >= round.now);
        if self.0.len() > 3 {
            self.0.remove(0);
        }
    }

    /// "Maximize X_recv_set".
    fn maximize(&mut self, now: Instant, receive_rate: f64) {
        self.0.retain(|(_, rate)| rate.is_finite());
        self.0.push((now, receive_rate));
        *self = Self::of(now, self.max());
    }

    /// Returns `recv_limit` from a report on an interval in which the source was the limit. A low
    /// receive rate takes nothing away without a new loss, and at most half with one.
    pub(super) fn data_limited(&mut self, round: &Round) -> f64 {
        let receive_rate = round.report.receive_rate;
        if !round.report.is_loss_new {
            self.maximize(round.now, receive_rate);
            return RECEIVE_RATE_FACTOR * self.max();
        }
        for (_, rate) in &mut self.0 {
            *rate /= 2.0;
        }
        self.maximize(round.now, DATA_LIMITED_LOSS_FACTOR * receive_rate);
        self.max()
    }
}

/// Sets the allowed rate.
pub(super) trait Sender: Debug + Send {
    fn on_report(&mut self, round: &Round);

    /// Handles the expiry of the nofeedback timer. `rtt` is unknown before the first report.
    fn on_nofeedback(&mut self, now: Instant, rtt: Option<f64>, is_idle: bool);

    /// Returns `X`, in bytes per second.
    fn rate(&self) -> f64;

    /// Returns the send rate before damping.
    fn sending_rate(&self) -> f64 {
        self.rate()
    }

    fn state(&self) -> &'static str;
}

/// Returns the initial rate in bytes per round trip (RFC 3390).
pub(super) fn initial_window(segment_bytes: f64) -> f64 {
    (4.0 * segment_bytes).min((2.0 * segment_bytes).max(4_380.0))
}
