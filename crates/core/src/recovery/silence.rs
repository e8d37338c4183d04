//! Time since a path last answered.

use anabranch_units::{Duration, Instant};

use super::{Recovery, RttEstimator};

impl Recovery {
    /// Returns when the oldest packet in flight was sent.
    pub(crate) fn oldest_sent_at(&self) -> Option<Instant> {
        self.sent.oldest_sent_at()
    }

    /// Returns the time for which the oldest packet in flight has been unanswered beyond `usual`.
    pub(crate) fn overdue(&self, now: Instant, usual: Duration) -> Duration {
        let sent_at = self.sent.oldest_sent_at();
        sent_at.map_or(Duration::ZERO, |at| now.saturating_since(at + usual))
    }

    /// Returns the time within which a packet is normally acknowledged: the smoothed round-trip
    /// time and the receiver's delay.
    pub(crate) fn usual_answer_time(&self) -> Duration {
        self.rtt.smoothed() + self.max_feedback_delay
    }

    /// Returns the time for which the receiver may hold a report back.
    pub(crate) fn max_feedback_delay(&self) -> Duration {
        self.max_feedback_delay
    }

    /// Returns the time since which the path has not answered though packets are outstanding.
    pub(crate) fn silent_since(&self) -> Option<Instant> {
        Some(self.sent.oldest_sent_at()?.max(self.last_acked_at))
    }

    /// Returns when the answer to the oldest packet in flight is due, if the path has not changed.
    pub(crate) fn answer_due_at(&self) -> Option<Instant> {
        Some(self.silent_since()? + self.usual_answer_time())
    }

    /// Returns when the path last answered.
    pub(crate) fn last_acked_at(&self) -> Instant {
        self.last_acked_at
    }

    /// Returns whether the path answered less than half of the receiver's delay ago, so that no
    /// report is due. With all of the delay, paths that fail together vouch for one another.
    pub(crate) fn is_just_heard(&self, now: Instant) -> bool {
        self.last_acked_at + self.max_feedback_delay / 2 > now
    }

    /// Returns a lower bound of [`Recovery::suspect_at`]: no path is suspect before a round trip
    /// and a busy host's delay have passed.
    pub(crate) fn suspect_at_earliest(&self) -> Option<Instant> {
        let min_rtt = self.rtt.min_rtt().unwrap_or_default();
        Some(self.silent_since()? + min_rtt + RttEstimator::HOST_DELAY)
    }

    /// Returns when the path has been silent for too long: a probe timeout after it last answered
    /// and the oldest packet in flight was sent. `patience`, but not less than the least round trip
    /// and two of the receiver's reports, bounds two times. One is the deviation granted to the
    /// oldest packet's acknowledgement, the other the silence of a path whose acknowledgement is
    /// that much overdue. On a path with unknown round trips nothing is overdue.
    pub(crate) fn suspect_at(&self, patience: Duration) -> Option<Instant> {
        let oldest_at = self.sent.oldest_sent_at()?;
        let probe_timeout = self.probe_timeout();
        if !self.rtt.has_sample() {
            return Some(oldest_at.max(self.last_acked_at) + probe_timeout);
        }
        // A path without a queue is no less patient than it would be: one report may be lost.
        let two_reports = self.max_feedback_delay * 2 + RttEstimator::HOST_DELAY;
        let patience = patience.max(self.rtt.min_rtt().unwrap_or_default() + two_reports);
        let overdue_at = oldest_at + probe_timeout.min(self.usual_answer_time() + patience);
        Some(overdue_at.max(self.last_acked_at + probe_timeout.min(patience)))
    }
}
