//! The last try at a fragment: when there is no time for another one after it.

use anabranch_units::{Duration, Instant};

use super::reconsider::Rule;
use super::{Media, unanswered};
use crate::forecast::Priority;
use crate::media::{FragmentId, LastCall, SendBuffer, Verdict};
use crate::path::Path;
use crate::path_view::{PathId, PathSet, PathView};
use crate::recovery::{PacketContent, RttEstimator};
use crate::scheduler::PacketView;
use crate::send_reason::SendReason;
use crate::session::content::Context;

impl Rule<'_> {
    /// Sends a copy of a retransmission that has just left on `path`, if it is the last chance to
    /// do so. On the same path the copy waits until the burst of losses that hit the original is
    /// over.
    pub(super) fn try_last(&mut self, path: PathId, packet: &PacketView) {
        let (id, reason) = (packet.id(), SendReason::LastTry);
        let (verdict, copy_path) = self.verdict(id, PathSet::EMPTY, reason, packet.bytes);
        if verdict != Verdict::SendCopy || !self.may_copy_blindly(packet.bytes) {
            return;
        }
        let is_elsewhere = copy_path.is_some_and(|copy_path| copy_path.path != path);
        let wait = if is_elsewhere {
            Duration::ZERO
        } else {
            burst_wait(
                self.now,
                packet,
                &self.views[path.index()],
                self.send_buffer,
            )
        };
        if wait.is_zero() {
            self.queue_copy(id, copy_path, reason_of_copy(is_elsewhere));
        } else {
            self.send_buffer.call_copy(self.now + wait, id);
        }
    }

    /// Reconsiders overdue packets at the last moment at which another copy can arrive in time:
    /// their loss, or the report about it, may be lost in a burst. Also sends copies that have
    /// waited.
    pub(super) fn answer_last_calls(&mut self, calls: &[LastCall]) {
        let bytes = self.max_packet_bytes;
        for call in calls {
            let copies = Copies {
                now: self.now,
                id: call.id,
                send_buffer: self.send_buffer,
                paths: self.paths,
                views: self.views,
            };
            let suspected: PathSet = call
                .in_flight_on
                .iter()
                .filter(|path| copies.is_overdue(*path))
                .collect();
            // The packet may be on its way as usual, and a copy would use up others' capacity.
            // Before an answer is possible, its absence means nothing.
            let is_usual = suspected.is_empty() && call.reason == SendReason::LastCall;
            let mut in_flight_on = call.in_flight_on.iter();
            if is_usual
                && !(self.budget.has_room_for_copy(bytes)
                    && in_flight_on.all(|path| copies.is_answer_possible(path)))
            {
                continue;
            }
            let (verdict, copy_path) = self.verdict(call.id, suspected, call.reason, bytes);
            if verdict != Verdict::SendCopy || !self.may_copy_blindly(bytes) {
                continue;
            }
            if is_usual {
                self.budget.on_copy(bytes);
            }
            let is_elsewhere =
                copy_path.is_some_and(|copy_path| !call.in_flight_on.contains(copy_path.path));
            let reason = match call.reason {
                SendReason::LastTry => reason_of_copy(is_elsewhere),
                reason => reason,
            };
            self.queue_copy(call.id, copy_path, reason);
        }
    }

    /// Returns whether another copy of `bytes` bytes on the wire may be asked for by silence alone.
    fn may_copy_blindly(&self, bytes: u32) -> bool {
        let waiting = self.send_buffer.waiting();
        unanswered::may_copy_blindly(self.now, self.paths, waiting, self.budget, bytes)
    }
}

impl Media {
    /// Answers the last calls that are due.
    pub(super) fn answer_last_calls(&mut self, ctx: &mut Context<'_>) {
        let next = self.send_buffer.next_last_call();
        if next.is_none_or(|at| at > ctx.now) {
            return;
        }
        let mut calls = core::mem::take(&mut self.scratch.last_calls);
        calls.clear();
        self.send_buffer.last_calls(ctx.now, &mut calls);
        if !calls.is_empty() {
            ctx.refresh_views(self);
            self.rule(ctx).answer_last_calls(&calls);
        }
        self.scratch.last_calls = calls;
    }
}

/// Returns the wait of the last copy on the same path. It grows with the length of loss bursts;
/// from two packets on the copy leaves as late as the deadline allows. Copies of one frame leave a
/// packet's gap apart.
fn burst_wait(
    now: Instant,
    packet: &PacketView,
    view: &PathView,
    send_buffer: &SendBuffer,
) -> Duration {
    let Some(deadline) = packet.deadline else {
        return Duration::ZERO;
    };
    let bytes = packet.bytes;
    let before = gap_of(view, bytes) * send_buffer.called_copies(packet.frame);
    let latest = deadline.saturating_sub(lead_of(view, bytes) + before);
    let burstiness = (view.risk.loss_burst_packets - 1.0).clamp(0.0, 1.0);
    latest.saturating_since(now).mul_f64(burstiness)
}

/// Returns the time before its deadline at which a packet of `bytes` bytes has to leave over these
/// paths; `None` without any.
pub(super) fn last_call_lead(views: &[PathView], bytes: u32) -> Option<Duration> {
    let usable = views
        .iter()
        .filter(|view| view.state.is_usable() && !view.is_standby && view.rtt.smoothed.is_some());
    usable.map(|view| lead_of(view, bytes)).min()
}

/// Copies of a fragment in flight.
struct Copies<'a> {
    now: Instant,
    id: FragmentId,
    send_buffer: &'a SendBuffer,
    paths: &'a [Path],
    views: &'a [PathView],
}

impl Copies<'_> {
    /// Returns whether the path could have reported its copy by now.
    fn is_answer_possible(&self, path: PathId) -> bool {
        let least_rtt = self.views[path.index()].forecast.min_round_trip();
        self.is_out_for(path, least_rtt)
    }

    /// Returns whether the report of the path's copy is overdue.
    fn is_overdue(&self, path: PathId) -> bool {
        let forecast = &self.views[path.index()].forecast;
        let held_back = self.paths[path.index()].recovery.max_feedback_delay();
        self.is_out_for(path, forecast.overdue_after(held_back))
    }

    /// Returns whether a copy has been in flight for at least `time` on the path, which is in use.
    fn is_out_for(&self, path: PathId, time: Duration) -> bool {
        let path = &self.paths[path.index()];
        let content = PacketContent::Fragment {
            frame: self.id.frame,
            fragment: self.id.fragment,
            is_piece: self.send_buffer.is_piece(self.id),
        };
        path.state().is_usable()
            && path
                .recovery
                .first_outstanding_at(content)
                .is_some_and(|sent_at| sent_at + time <= self.now)
    }
}

/// Returns the reason of the copy of a last try.
fn reason_of_copy(is_elsewhere: bool) -> SendReason {
    if is_elsewhere {
        SendReason::LastTry
    } else {
        SendReason::LastTrySamePath
    }
}

/// Returns the time before its deadline at which a packet has to leave on a path. It consists of
/// its delivery behind another packet and the forecast's delay margin, which is at least the
/// granularity of timers.
fn lead_of(view: &PathView, bytes: u32) -> Duration {
    let delay_margin = view.forecast.delay_margin.max(RttEstimator::GRANULARITY);
    view.arrival(Priority::Retransmission, 2 * u64::from(bytes)) + delay_margin
}

/// Returns the gap between two packets.
fn gap_of(view: &PathView, bytes: u32) -> Duration {
    view.forecast.rate.time_for(u64::from(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forecast::Forecast;

    #[test]
    fn a_last_call_allows_for_doubt_or_the_granularity_of_timers() {
        fn lead(margin_micros: u64) -> u64 {
            let forecast = Forecast {
                delay_margin: Duration::from_micros(margin_micros),
                ..Forecast::default()
            };
            let view = PathView {
                forecast,
                ..PathView::default()
            };
            let arrival = view.arrival(Priority::Retransmission, 2_000);
            (lead_of(&view, 1_000) - arrival).as_micros()
        }
        assert_eq!(lead(6_000), 6_000);
        assert_eq!(lead(100), 1_000);
    }
}
