//! What RFC 5348's sender and ns-2's have in common.

use core::fmt::Debug;

use anabranch_units::{Duration, Instant};

use super::receiver::Report;
use crate::congestion::rate_use::USED_SHARE;

/// What a new loss leaves of the receive rate of a data-limited sender (RFC 5348 §4.3).
pub(super) const DATA_LIMITED_LOSS_FACTOR: f64 = 0.85;

/// A report, with what the sender makes of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    pub(super) now: Instant,
    pub(super) report: Report,
    /// `R`, in seconds.
    pub(super) rtt: f64,
    /// `X_Bps` of the equation, in bytes per second; infinite before the first loss.
    pub(super) equation_rate: f64,
    /// What was sent since the last report, as a share of what was allowed.
    pub(super) used_share: f64,
}

impl Round {
    /// Whether the source rather than the rate was the limit since the last report.
    pub(super) fn is_data_limited(&self) -> bool {
        self.used_share < USED_SHARE
    }
}

/// Sets the allowed rate.
pub(super) trait Sender: Debug + Send {
    fn on_report(&mut self, round: &Round);

    /// The nofeedback timer has expired. `rtt` is unknown before the first report.
    fn on_nofeedback(&mut self, now: Instant, rtt: Option<f64>, is_idle: bool);

    /// `X`, in bytes per second.
    fn rate(&self) -> f64;

    /// The rate at which packets are to leave, before damping.
    fn sending_rate(&self) -> f64 {
        self.rate()
    }

    fn state(&self) -> &'static str;
}

/// The initial rate in bytes per round trip (RFC 3390).
pub(super) fn initial_window(segment_bytes: f64) -> f64 {
    (4.0 * segment_bytes).min((2.0 * segment_bytes).max(4_380.0))
}

/// Whether `span` is the time between two reports, which are to come a round trip apart: the peer
/// is told of changes above an eighth only.
pub(super) fn is_round_trip(span: Duration, rtt: f64) -> bool {
    const MIN_SHARE: f64 = 0.85;
    span.as_secs_f64() >= MIN_SHARE * rtt
}
