//! Rate that a path is expected to carry again after a silence that has just begun or ended.

use anabranch_units::{DataRate, Duration, Instant};

use super::Path;
use crate::path_view::PathState;

/// Factor of a frame's lifetime after which a silent path is no longer expected back. Chosen:
/// frames are lost over outages of two lifetimes at 2, and over those of 20 s at 3.
const LONGEST: f64 = 2.5;
/// The same for the time after a silence in which the rate before it counts: the controller, which
/// has restarted, needs about a second to find it again. The result is flat from 2 to 4.
const RETURN: f64 = 2.0;

/// A silence of a path that has carried packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interruption {
    began_at: Instant,
    /// `None` while it lasts.
    ended_at: Option<Instant>,
    /// Rate of the path before its controller learnt of the silence.
    rate: DataRate,
}

impl Path {
    /// Records the rate of a path that falls silent, before its controller lowers it.
    pub(crate) fn begin_interruption(&mut self, now: Instant, lifetime: Duration) {
        let is_interrupted = self
            .interruption
            .is_some_and(|last| last.ended_at.is_none());
        if is_interrupted || self.counters.sent_packets == 0 {
            return;
        }
        let last = self.rate_after_interruption(now, lifetime);
        self.interruption = Some(Interruption {
            began_at: now,
            ended_at: None,
            rate: self.estimated_rate().max(last.unwrap_or(DataRate::ZERO)),
        });
    }

    /// Records that the path answers again.
    pub(crate) fn end_interruption(&mut self, now: Instant) {
        if let Some(interruption) = &mut self.interruption {
            interruption.ended_at.get_or_insert(now);
        }
    }

    /// Returns the rate that the path is expected to carry as soon as it answers; `None` if it is
    /// not silent and has not just been, or has been silent for too long to be expected back.
    pub(crate) fn rate_after_interruption(
        &self,
        now: Instant,
        lifetime: Duration,
    ) -> Option<DataRate> {
        let interruption = self.interruption?;
        let expected_until = match interruption.ended_at {
            Some(ended_at) => ended_at + lifetime.mul_f64(RETURN),
            None => interruption.began_at + lifetime.mul_f64(LONGEST),
        };
        let is_expected = now <= expected_until && self.state() != PathState::Removed;
        is_expected.then_some(interruption.rate)
    }
}
