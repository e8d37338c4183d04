//! Last calls: the moments at which another copy of a fragment can still arrive in time. They
//! concern scheduled copies, and fragments without an acknowledgement.

use anabranch_units::{Duration, Importance, Instant};

use super::SendBuffer;
use crate::fragment::{FragmentId, FrameId};
use crate::path_view::PathSet;
use crate::send_reason::SendReason;

/// Future moments.
#[derive(Debug, Default)]
pub(super) struct LastCalls {
    /// Time before its deadline at which a packet has to leave; `None` without a path.
    lead: Option<Duration>,
    /// Frames before this one have had theirs, or need none.
    next: FrameId,
    /// Copies of a last try, each with its moment.
    copies: Vec<(Instant, FragmentId)>,
}

/// A fragment whose last call has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastCall {
    pub(crate) id: FragmentId,
    /// Where copies of it are in flight.
    pub(crate) in_flight_on: PathSet,
    /// Why it is called: a copy of a last try goes whatever is due.
    pub(crate) reason: SendReason,
}

impl SendBuffer {
    /// Sets the time before its deadline at which a packet has to leave; `None` if no path would
    /// take it.
    pub(crate) fn set_last_call_lead(&mut self, lead: Option<Duration>) {
        self.last_calls.lead = lead;
    }

    /// Schedules the copy of a last try for `at`.
    pub(crate) fn call_copy(&mut self, at: Instant, id: FragmentId) {
        self.last_calls.copies.push((at, id));
    }

    /// Returns the number of copies of the frame's fragments that wait for their moments.
    pub(crate) fn called_copies(&self, id: FrameId) -> u64 {
        let copies = self.last_calls.copies.iter();
        copies.filter(|(_, copy)| copy.frame == id).count() as u64
    }

    /// Returns the time of the next [`SendBuffer::last_calls`]; it may be too early.
    pub(crate) fn next_last_call(&self) -> Option<Instant> {
        let of_frames = self.frame(self.last_calls.next).and_then(|frame| {
            let lead = self.last_calls.lead?;
            Some(self.deadline_of(frame).saturating_sub(lead))
        });
        let copies = self.last_calls.copies.iter().map(|(at, _)| *at);
        copies.chain(of_frames).min()
    }

    /// Appends the fragments whose last calls have come, of those that have been sent and neither
    /// arrived nor wait for a retransmission.
    pub(crate) fn last_calls(&mut self, now: Instant, out: &mut Vec<LastCall>) {
        let mut copies = core::mem::take(&mut self.last_calls.copies);
        copies.retain(|&(at, id)| {
            if at <= now {
                out.extend(self.last_call(id, SendReason::LastTry));
            }
            at > now
        });
        self.last_calls.copies = copies;
        let Some(lead) = self.last_calls.lead else {
            return;
        };
        while let Some(frame) = self.frame(self.last_calls.next)
            && self.deadline_of(frame) <= now + lead
        {
            let id = self.last_calls.next;
            if !frame.is_given_up && frame.unacked_count > 0 {
                let fragments = 0..frame.fragments.len() as u16;
                let ids = fragments.map(|fragment| FragmentId {
                    frame: id,
                    fragment,
                });
                out.extend(ids.filter_map(|id| self.last_call(id, SendReason::LastCall)));
            }
            self.last_calls.next.0 += 1;
            self.skip_settled_calls();
        }
    }

    /// Returns the last call of a fragment in flight. Frames that no other needs get no copy while
    /// the first may still arrive.
    fn last_call(&self, id: FragmentId, reason: SendReason) -> Option<LastCall> {
        let in_flight_on = self.copies_in_flight(id)?.in_flight_on;
        let is_needed = self.frame(id.frame)?.importance != Importance::Disposable;
        (is_needed && !in_flight_on.is_empty()).then_some(LastCall {
            id,
            in_flight_on,
            reason,
        })
    }

    /// Passes over frames that need no call any more, so that no timer runs for them.
    pub(super) fn skip_settled_calls(&mut self) {
        self.last_calls.next = self.last_calls.next.max(self.first);
        while let Some(frame) = self.frame(self.last_calls.next)
            && frame.is_settled()
        {
            self.last_calls.next.0 += 1;
        }
    }
}
