//! The rule of [`crate::copies`] for a fragment: it is retransmitted, waits, or is given up.
//!
//! If no path makes the deadline and nothing is in flight, its frame is given up. The loss of a
//! copy, a path that is suspect or congested, an overdue report: all these only change the
//! probability.

use anabranch_units::{Importance, Instant};

use super::{Fragment, SendBuffer, State};
use crate::copies::{Judgement, Outlook};
use crate::fragment::FragmentId;
use crate::path_view::{PathId, PathSet};
use crate::send_reason::SendReason;

/// Copies in flight of a fragment that has neither arrived nor waits to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopiesInFlight {
    pub(crate) in_flight_on: PathSet,
    /// Paths among these on which two copies are in flight.
    twice_on: PathSet,
    /// Paths on which three copies or more are in flight.
    thrice_on: PathSet,
    /// Paths on which a copy was lost.
    pub(crate) lost_on: PathSet,
    pub(crate) due_at: Instant,
}

impl CopiesInFlight {
    /// Returns the number of copies in flight on the path; three stand for more.
    pub(crate) fn copies_on(&self, path: PathId) -> u32 {
        let sets = [self.in_flight_on, self.twice_on, self.thrice_on];
        sets.iter().filter(|set| set.contains(path)).count() as u32
    }
}

/// Decision about a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing to do: it has arrived, waits already, or its copies in flight suffice for now.
    Settled,
    /// Another copy is sent.
    SendCopy,
    /// Repairs that cover it are under way: it is judged again when they have arrived or not.
    Wait,
    /// It would come too late: its frame is given up.
    GiveUp,
}

/// Returns the sufficient probability to arrive in time. If a fragment is lost, so is its frame and
/// all that need it: hundreds of packets, for one more. A frame that no other needs gets another
/// copy only if those in flight will hardly arrive.
fn enough(importance: Importance) -> f64 {
    match importance {
        Importance::Key | Importance::Reference => 0.999,
        Importance::Disposable => 0.5,
    }
}

/// Returns whether a fragment may wait for the repairs in flight: not if its copy may still arrive,
/// nor if it has waited.
fn may_wait(reason: SendReason) -> bool {
    use SendReason::{Lost, PathOut, PathRemoved};
    matches!(reason, Lost | PathOut | PathRemoved)
}

impl SendBuffer {
    /// Records that a copy of the fragment on `path` is lost.
    pub(crate) fn on_lost(&mut self, id: FragmentId, path: PathId) {
        let Some(state) = self.state_mut(id) else {
            return;
        };
        state.lost_on.insert(path);
        let sets = [
            &mut state.thrice_on,
            &mut state.twice_on,
            &mut state.in_flight_on,
        ];
        if let Some(fewest) = sets.into_iter().find(|set| set.contains(path)) {
            fewest.remove(path);
        }
    }

    /// Returns the copies in flight of a fragment. `None` if there is nothing to decide: it has
    /// arrived or waits, or its frame is not wanted any more.
    pub(crate) fn copies_in_flight(&self, id: FragmentId) -> Option<CopiesInFlight> {
        let frame = self.frame(id.frame).filter(|frame| !frame.is_given_up)?;
        let fragment = frame.fragments[usize::from(id.fragment)];
        (fragment.state == State::Sent).then_some(CopiesInFlight {
            in_flight_on: fragment.in_flight_on,
            twice_on: fragment.twice_on,
            thrice_on: fragment.thrice_on,
            lost_on: fragment.lost_on,
            due_at: self.deadline_of(frame),
        })
    }

    /// Decides about a fragment. On `SendCopy`, the caller queues a copy, or schedules it for its
    /// moment.
    pub(crate) fn reconsider(
        &mut self,
        id: FragmentId,
        reason: SendReason,
        outlook: &Outlook,
    ) -> Verdict {
        let Some(copies_in_flight) = self.copies_in_flight(id) else {
            return Verdict::Settled;
        };
        let frame = self.frame(id.frame).expect("it is under way");
        let (importance, is_protected) = (frame.importance, frame.is_protected);
        let is_useful_late = self.groups.outlives_deadline(id.frame);
        match outlook.judge(copies_in_flight.due_at, is_useful_late, enough(importance)) {
            Judgement::Enough | Judgement::LaterWillDo => return Verdict::Settled,
            Judgement::TooLate => {
                // Copies in flight, or repairs, may still complete it.
                return if copies_in_flight.in_flight_on.is_empty() && !is_protected {
                    Verdict::GiveUp
                } else {
                    Verdict::Settled
                };
            }
            Judgement::Send => {}
        }
        let waits = is_protected
            && may_wait(reason)
            && self.wait_for_repairs(id, outlook, copies_in_flight.due_at);
        if waits {
            Verdict::Wait
        } else {
            Verdict::SendCopy
        }
    }

    /// Sets the state of a fragment unless it has arrived.
    pub(super) fn set_state(&mut self, id: FragmentId, to: State) {
        if let Some(fragment) = self.state_mut(id)
            && fragment.state != State::Arrived
        {
            fragment.state = to;
        }
    }

    pub(super) fn fragment_state(&self, id: FragmentId) -> Option<&Fragment> {
        let frame = self.frame(id.frame)?;
        Some(&frame.fragments[usize::from(id.fragment)])
    }

    fn state_mut(&mut self, id: FragmentId) -> Option<&mut Fragment> {
        let frame = self.frame_mut(id.frame)?;
        Some(&mut frame.fragments[usize::from(id.fragment)])
    }
}

#[cfg(test)]
mod tests;
