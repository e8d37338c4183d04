//! Segments in flight on one path are sent on another as well: [`crate::Reinjection`].

use anabranch_units::{Duration, Instant};

use super::StreamSession;
use super::schedule::Binding;
use crate::config::Reinjection;
use crate::path_view::{PathId, PathView};
use crate::scheduler::PacketView;
use crate::send_reason::SendReason;
use crate::stream::xlink;

/// A path whose round trip takes more than so many of another's is much slower (Linux,
/// `mptcp_sched.c`): below that, copies would cost more than the wait.
const MUCH_SLOWER: u64 = 4;
/// So many packets are hardly a window (there).
const HARDLY_A_WINDOW: u64 = 4;

fn rtt(view: &PathView) -> Duration {
    view.rtt.smoothed.unwrap_or(PathView::UNKNOWN_RTT)
}

/// After how long so many bytes have arrived that are bound now, or later than that.
fn latest_arrival(view: &PathView, bytes: u64) -> Duration {
    let forecast = &view.forecast;
    // The samples of a path that has been idle are of its last queue.
    let (transit, doubt) = match view.bytes_in_flight {
        0 => (
            forecast.least_transit,
            forecast.doubt.min(forecast.least_transit * 2),
        ),
        _ => (forecast.transit, forecast.doubt),
    };
    let bytes = view.queued_bytes + bytes;
    forecast.ready_in() + transit + forecast.rate.time_for(bytes) + doubt
}

impl StreamSession {
    /// The viewer of the stream could go on playing for so long at `now`, were no more to come:
    /// what [`Reinjection::Xlink`] follows. Returns whether there may be something to send.
    pub fn on_play_time_left(&mut self, now: Instant, left: Duration) -> bool {
        if self.config.stream.reinjection != Reinjection::Xlink {
            return false;
        }
        self.content.feedback.tell(now, left);
        let is_wanted = self
            .content
            .feedback
            .wants_copies(now, self.longest_delivery());
        if is_wanted {
            self.content.schedule_anew();
        }
        is_wanted
    }

    /// The longest round trip with its variation of the paths that have packets in flight.
    fn longest_delivery(&self) -> Duration {
        let views = self.views.iter();
        let carrying = views.filter(|view| view.bytes_in_flight > 0);
        let times = carrying.map(|view| rtt(view) + view.rtt.variation);
        times.max().unwrap_or(Duration::ZERO)
    }

    /// The start of the stream has been sent: what of it is in flight goes before what follows.
    pub(super) fn reinject_start(&mut self, now: Instant) -> bool {
        let send = &self.content.send;
        let is_in_flight = send.acked_offset() < xlink::START_BYTES
            && send.next_offset() > 0
            && !send.has_unsent_below(xlink::START_BYTES);
        is_in_flight && self.reinject_all_below(now, xlink::START_BYTES)
    }

    /// What is in flight below an offset is copied to other paths, as far as these have room, if
    /// the viewer needs it. Returns whether anything is.
    pub(super) fn reinject_all_below(&mut self, now: Instant, offset: u64) -> bool {
        let longest = self.longest_delivery();
        if !self.content.feedback.wants_copies(now, longest) {
            return false;
        }
        let could_send = |view: &&PathView| view.is_in_service() && view.sendable_bytes > 0;
        let open = self.views.iter().filter(could_send);
        let mut open: Vec<(Duration, PathId, u64)> = open
            .map(|view| (rtt(view), view.id, view.sendable_bytes))
            .collect();
        open.sort_unstable();
        let mut is_any = false;
        for (_, by, mut room) in open {
            let mut copies = Vec::new();
            for (chunk, in_flight_on) in self.content.send.in_flight_elsewhere(by, offset) {
                let packet = self.packet_view(&chunk, in_flight_on);
                let Some(left) = room.checked_sub(u64::from(packet.bytes)) else {
                    break;
                };
                room = left;
                copies.push(packet);
            }
            for packet in copies {
                is_any = true;
                self.content.send.on_reinjected(packet.frame.0);
                self.paths[by.index()].bind_next(packet);
            }
        }
        is_any
    }

    /// Nothing else is to be sent: what a path with room would bring sooner than the path that it
    /// is in flight on is copied to it, each segment once, and what is overdue.
    pub(super) fn reinject_tail(&mut self, now: Instant) {
        let Some(by) = &self.soonest() else {
            return;
        };
        let (mut copies, mut copied_bytes) = self.take_later_ones(by);
        for (chunk, in_flight_on) in self.content.send.in_flight_elsewhere(by.id, u64::MAX) {
            let packet = self.packet_view(&chunk, in_flight_on);
            let bytes = copied_bytes + u64::from(packet.bytes);
            if bytes > by.sendable_bytes {
                break;
            }
            if latest_arrival(by, bytes) < self.remaining_time(now, chunk.offset) {
                copied_bytes = bytes;
                copies.push(packet);
            }
        }
        let by = by.id;
        for packet in copies {
            match packet.reason {
                SendReason::Reinjection => self.content.send.on_reinjected(packet.frame.0),
                _ => self.content.send.on_bound(packet.frame.0),
            }
            self.paths[by.index()].bind_next(packet);
        }
    }

    /// The path with room that brings a packet soonest.
    fn soonest(&self) -> Option<PathView> {
        let could_send = |view: &&PathView| view.is_in_service() && view.sendable_bytes > 0;
        let views = self.views.iter().filter(could_send);
        let soonest = views.min_by_key(|view| latest_arrival(view, 0));
        soonest.copied()
    }

    /// Nothing more can be bound: the path that brings it soonest takes what is bound to others and
    /// would arrive later. Returns whether there is any.
    pub(super) fn move_later_ones(&mut self) -> bool {
        let Some(by) = &self.soonest() else {
            return false;
        };
        let (moved, _) = self.take_later_ones(by);
        for packet in &moved {
            self.content.send.on_bound(packet.frame.0);
            self.paths[by.id.index()].bind_next(*packet);
        }
        !moved.is_empty()
    }

    /// Takes back what is bound to other paths and would arrive later than by this one, as far as
    /// it has room, and tells its bytes.
    fn take_later_ones(&mut self, by: &PathView) -> (Vec<PacketView>, u64) {
        let (mut taken, mut taken_bytes) = (Vec::new(), 0);
        for view in self.views.iter().filter(|view| view.id != by.id) {
            let path = &mut self.paths[view.id.index()];
            let mut ahead_bytes = path.queued_bytes();
            let mut later: Vec<PacketView> = Vec::new();
            for packet in path.bound_sources().rev() {
                let bytes = taken_bytes + u64::from(packet.bytes);
                let is_later = latest_arrival(by, bytes) < view.forecast.arrival(ahead_bytes);
                if !is_later || bytes > by.sendable_bytes {
                    break;
                }
                ahead_bytes -= u64::from(packet.bytes);
                taken_bytes = bytes;
                later.push(*packet);
            }
            for packet in later.iter().rev() {
                path.unbind_frame(packet.frame);
                self.content.send.on_unbound(packet.frame.0, packet.reason);
                taken.push(*packet);
            }
        }
        (taken, taken_bytes)
    }

    /// After how long a segment in flight arrives. One whose acknowledgement is overdue takes
    /// another round trip, at the least.
    fn remaining_time(&self, now: Instant, offset: u64) -> Duration {
        let Some((on, number)) = self.content.send.last_copy(offset) else {
            return Duration::ZERO;
        };
        let recovery = &self.paths[on.index()].recovery;
        let Some(packet) = recovery.sent_packet(number) else {
            return Duration::ZERO;
        };
        let forecast = &self.views[on.index()].forecast;
        let age = now.saturating_since(packet.sent_at);
        let patience = forecast.transit * 2 + forecast.doubt + self.content.config.delayed_ack;
        if age > patience {
            return forecast.transit * 2;
        }
        let transit = match recovery.rtt().sampled_at() > packet.sent_at {
            true => forecast.transit,
            false => forecast.least_transit,
        };
        let mut remaining = transit.saturating_sub(age);
        if forecast.is_congested() {
            let bytes_behind = recovery.sent_bytes() - packet.delivery.sent_bytes;
            let behind = forecast.rate.time_for(bytes_behind);
            remaining = remaining.min(transit.saturating_sub(behind));
        }
        remaining
    }

    /// The peer's window is full though a path could send: a slower path that should have brought
    /// what the peer waits for is penalised. If that path is much slower or has hardly a window,
    /// the other brings it, both as Linux's `mptcp_rcv_buf_optimization` has it.
    pub(super) fn reinject_awaited(&mut self, now: Instant, binding: &mut Binding) {
        let could_send = |view: &&PathView| view.is_in_service() && view.sendable_bytes > 0;
        let rtt = |view: &PathView| view.rtt.smoothed.unwrap_or(PathView::UNKNOWN_RTT);
        let Some(by) = self
            .views
            .iter()
            .filter(could_send)
            .min_by_key(|view| rtt(view))
        else {
            return;
        };
        let Some((chunk, in_flight_on)) = self.content.send.first_in_flight_elsewhere(by.id) else {
            return;
        };
        let packet = self.packet_view(&chunk, in_flight_on);
        let small_window = HARDLY_A_WINDOW * u64::from(self.max_packet_bytes);
        let mut is_worth_a_copy = false;
        for holder in in_flight_on.iter() {
            let view = &self.views[holder.index()];
            let holder_rtt = rtt(view);
            let has_hardly_a_window = view.congestion_window.is_some_and(|it| it <= small_window);
            is_worth_a_copy |= has_hardly_a_window || rtt(by) * MUCH_SLOWER < holder_rtt;
            let penalised_at = &mut binding.penalised_at[holder.index()];
            if holder_rtt > rtt(by) && *penalised_at + holder_rtt <= now {
                *penalised_at = now;
                self.paths[holder.index()].on_penalty();
            }
        }
        let by = by.id;
        if !is_worth_a_copy {
            return;
        }
        self.content.send.on_bound(chunk.offset);
        self.paths[by.index()].bind_next(packet);
    }
}
