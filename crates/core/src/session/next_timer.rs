//! Timers of a session, and the choice of the first one.

use anabranch_units::Instant;

/// Why a session wants to be called at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// The pacer lets a packet go: that is for
    /// [`Session::poll_transmit`](crate::Session::poll_transmit) alone.
    Pacing,
    /// A packet may count as lost.
    LossDetection,
    /// A path has been silent for too long, or a challenge is due.
    PathSilence,
    /// A stream's path has been silent for too long, or a tail loss probe is due.
    Retransmission,
    /// A question for a larger window of the peer is due.
    Blocked,
    /// A report is due.
    Feedback,
    /// A controller asked for it.
    Controller,
    /// The scheduler asked for it.
    Scheduler,
    /// A frame at the sender becomes worthless.
    FrameDeadline,
    /// The last bytes of a frame that grows have waited long enough for more.
    Tail,
    /// A lost fragment has waited long enough for repairs.
    Repairs,
    /// The last moment at which a new copy of an unacknowledged fragment can arrive in time.
    LastCall,
    /// A notice to the peer about given-up frames is due.
    Notice,
    /// A frame at the receiver has waited long enough.
    Reassembly,
    /// The next announcement of the end is due.
    Close,
}

/// The first of several timers; of those at one moment, that which was considered first, but any
/// other before the pacer.
#[derive(Debug)]
pub(crate) struct NextTimer {
    at: Instant,
    timer: Timer,
}

impl NextTimer {
    /// Returns the choice without any timer.
    pub(super) fn none() -> Self {
        NextTimer {
            at: Instant::FAR_FUTURE,
            timer: Timer::Pacing,
        }
    }

    /// Returns the first timer and its moment; `None` if there is none.
    pub(super) fn first(&self) -> Option<(Instant, Timer)> {
        (self.at < Instant::FAR_FUTURE).then_some((self.at, self.timer))
    }

    pub(super) fn consider(&mut self, at: Option<Instant>, timer: Timer) {
        if let Some(at) = at
            && (at < self.at || (at == self.at && self.timer == Timer::Pacing))
        {
            *self = NextTimer { at, timer };
        }
    }

    /// Returns whether a timer that expires at this moment at the earliest may be the first. Mostly
    /// a packet leaves before, and its exact time is not needed.
    pub(super) fn may_be(&self, at_earliest: Option<Instant>) -> bool {
        at_earliest.is_some_and(|at| at <= self.at)
    }
}

/// Returns whether a timer has expired.
pub(super) fn is_due(at: Option<Instant>, now: Instant) -> bool {
    at.is_some_and(|at| at <= now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_timers_at_one_moment_the_pacer_is_the_last() {
        fn first_after(at: Option<Instant>, timer: Timer, next: &mut NextTimer) -> Timer {
            next.consider(at, timer);
            next.timer
        }

        let mut next = NextTimer::none();
        let at = Some(Instant::from_millis(5));
        let later = Some(Instant::from_millis(6));
        assert_eq!(first_after(at, Timer::Pacing, &mut next), Timer::Pacing);
        assert_eq!(
            first_after(later, Timer::LossDetection, &mut next),
            Timer::Pacing
        );
        assert_eq!(first_after(at, Timer::Feedback, &mut next), Timer::Feedback);
        assert_eq!(
            first_after(at, Timer::Reassembly, &mut next),
            Timer::Feedback
        );
        assert!(next.may_be(at) && !next.may_be(later) && !next.may_be(None));
    }
}
