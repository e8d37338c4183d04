//! The last try at a fragment: when there is no time for another one after it.

use anabranch_units::{Duration, Instant};

use super::MediaSession;
use crate::config::RetransmissionCopies;
use crate::forecast::Turn;
use crate::media::LastCall;
use crate::path_view::{PathId, PathSet, PathState, PathView};
use crate::recovery::{PacketContent, RttEstimator};
use crate::scheduler::PacketView;
use crate::send_reason::SendReason;

/// By how many mean deviations of the round-trip time it may be longer.
const DOUBT_IN_DEVIATIONS: u64 = 2;

impl MediaSession {
    /// A retransmission has just left on `path`. Has a copy of it follow, if it is the last that
    /// can make the deadline: on another path that makes it too, else on the same, where it waits
    /// until a burst of losses that met the first is over.
    pub(super) fn on_retransmitted(&mut self, now: Instant, path: PathId, packet: &PacketView) {
        let payload_bytes = packet.bytes.saturating_sub(self.header_bytes());
        self.content
            .budget
            .on_retransmission(now, u64::from(payload_bytes));
        let (frame, fragment) = (packet.frame, packet.fragment);
        if !self.content.send_buffer.take_doubling(frame, fragment) {
            return;
        }
        self.refresh_views(now);
        let (avoid, has_other) = self.avoided_by_copy(now, path, packet.bytes, packet.deadline);
        let wait = match has_other {
            true => Duration::ZERO,
            false => self.burst_wait(now, packet, &self.views[path.index()]),
        };
        if wait.is_zero() {
            let reason = reason_of_copy(has_other);
            self.content
                .send_buffer
                .queue_again(frame, fragment, avoid, reason);
            self.content.is_schedule_due = true;
            return;
        }
        self.content
            .send_buffer
            .call_copy(now + wait, frame, fragment);
    }

    /// How long the last copy on the same path waits: the longer bursts of losses are there, the
    /// later it leaves, and at two packets and more as late as the deadline allows. Copies of one
    /// frame leave a packet's gap apart.
    fn burst_wait(&self, now: Instant, packet: &PacketView, view: &PathView) -> Duration {
        let Some(deadline) = packet.deadline else {
            return Duration::ZERO;
        };
        let bytes = packet.bytes;
        let before = gap_of(view, bytes) * self.content.send_buffer.called_copies(packet.frame);
        let latest = deadline.saturating_sub(lead_of(view, bytes) + before);
        let burstiness = (view.risk.loss_burst_packets - 1.0).clamp(0.0, 1.0);
        latest.saturating_since(now).mul_f64(burstiness)
    }

    /// The paths that a copy of what is in flight on `path` shall not take, if it need not, and
    /// whether that leaves another one that makes the deadline.
    fn avoided_by_copy(
        &self,
        now: Instant,
        path: PathId,
        bytes: u32,
        deadline: Option<Instant>,
    ) -> (PathSet, bool) {
        let is_late = |view: &PathView| {
            let arrives_at = now + view.arrival(Turn::Again, u64::from(bytes));
            deadline.is_some_and(|deadline| arrives_at > deadline)
        };
        let mut others = self.views.iter().filter(|view| view.id != path);
        let has_other = others.any(|view| view.state == PathState::Active && !is_late(view));
        let is_avoided = |view: &&PathView| (view.id == path) == has_other || is_late(view);
        let avoided = self.views.iter().filter(is_avoided).map(|view| view.id);
        (avoided.collect(), has_other)
    }

    /// Takes note of how long before its deadline a packet has to leave over these paths.
    pub(super) fn update_last_call_lead(&mut self, paths: &[PathView]) {
        if self.config.media.retransmission_copies != RetransmissionCopies::Adaptive {
            return;
        }
        let bytes = self.max_packet_bytes;
        let usable = paths.iter().filter(|view| {
            view.state.is_usable() && !view.is_standby && view.rtt.smoothed.is_some()
        });
        let lead = usable.map(|view| lead_of(view, bytes)).min();
        self.content.send_buffer.set_last_call_lead(lead);
    }

    /// Sends again what has not been heard of though it should have been, and can be there in time
    /// only if it leaves now: its loss, or the report about it, may be lost in a burst. And copies
    /// that have waited.
    pub(super) fn answer_last_calls(&mut self, now: Instant) {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if !is_due(self.content.send_buffer.next_last_call()) {
            return;
        }
        let mut calls = core::mem::take(&mut self.content.scratch.last_calls);
        calls.clear();
        self.content.send_buffer.last_calls(now, &mut calls);
        if !calls.is_empty() {
            self.refresh_views(now);
        }
        let bytes = self.max_packet_bytes;
        for call in &calls {
            let mut paths = call.in_flight_on.iter();
            let is_copy = call.reason == SendReason::LastTry;
            let is_unheard = is_copy || paths.all(|path| self.is_overdue(now, path, call));
            let Some(path) = call.in_flight_on.iter().next().filter(|_| is_unheard) else {
                continue;
            };
            let (avoid, has_other) = self.avoided_by_copy(now, path, bytes, Some(call.deadline));
            let reason = match is_copy {
                true => reason_of_copy(has_other),
                false => call.reason,
            };
            self.content
                .send_buffer
                .queue_again(call.frame, call.fragment, avoid, reason);
            self.content.is_schedule_due = true;
        }
        self.content.scratch.last_calls = calls;
    }

    /// Whether the path, though in use, has told nothing of this copy when it should have.
    fn is_overdue(&self, now: Instant, path: PathId, call: &LastCall) -> bool {
        let path = &self.paths[path.index()];
        let content = PacketContent::Fragment {
            frame: call.frame,
            fragment: call.fragment,
        };
        let margin = path.recovery.rtt().variation() * DOUBT_IN_DEVIATIONS;
        let patience = path.recovery.usual_answer_time() + margin;
        let outstanding = path.recovery.outstanding();
        let mut overdue = outstanding.take_while(|packet| packet.sent_at + patience <= now);
        path.state().is_usable() && overdue.any(|packet| packet.content == content)
    }
}

/// Why the copy of a last try leaves.
fn reason_of_copy(has_other: bool) -> SendReason {
    match has_other {
        true => SendReason::LastTry,
        false => SendReason::LastTrySamePath,
    }
}

/// How long before its deadline a packet has to leave on a path: what it takes, the pacer's gap
/// behind another one, and the forecast's doubt, but no less than timers are fine.
fn lead_of(view: &PathView, bytes: u32) -> Duration {
    let doubt = view.forecast.doubt.max(RttEstimator::GRANULARITY);
    view.arrival(Turn::Again, u64::from(bytes)) + gap_of(view, bytes) + doubt
}

/// What the pacer keeps between two packets.
fn gap_of(view: &PathView, bytes: u32) -> Duration {
    view.drain_rate().time_for(u64::from(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forecast::Forecast;

    #[test]
    fn a_last_call_allows_for_doubt_or_the_granularity_of_timers() {
        let lead = |doubt_micros| {
            let forecast = Forecast {
                doubt: Duration::from_micros(doubt_micros),
                ..Forecast::default()
            };
            let view = PathView {
                forecast,
                ..PathView::default()
            };
            let arrival = view.arrival(Turn::Again, 1_000);
            (lead_of(&view, 1_000) - arrival - gap_of(&view, 1_000)).as_micros()
        };
        assert_eq!(lead(6_000), 6_000);
        assert_eq!(lead(100), 1_000);
    }
}
