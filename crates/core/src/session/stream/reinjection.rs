//! Segments in flight on one path are sent on another as well: [`crate::Reinjection`].

use anabranch_units::{Duration, Instant};

use super::StreamSession;
use super::schedule::Binding;
use crate::config::Reinjection;
use crate::path_view::{PathId, PathView};
use crate::scheduler::PacketView;
use crate::stream::xlink;

/// Ratio of round-trip times from which a path is much slower than another (Linux,
/// `mptcp_sched.c`). Below it, copies would cost more than the wait.
const MUCH_SLOWER: u64 = 4;
/// Number of packets up to which a window counts as too small (same source).
const HARDLY_A_WINDOW: u64 = 4;

fn rtt(view: &PathView) -> Duration {
    view.rtt.smoothed.unwrap_or(PathView::UNKNOWN_RTT)
}

impl StreamSession {
    /// Updates the viewer's remaining play time `left` at `now`, without further data;
    /// [`Reinjection::Xlink`] follows it. Returns whether there may be something to send.
    pub fn on_play_time_left(&mut self, now: Instant, left: Duration) -> bool {
        if self.config.stream.reinjection != Reinjection::Xlink {
            return false;
        }
        self.content.feedback.on_play_time_left(now, left);
        let is_wanted = self
            .content
            .feedback
            .wants_copies(now, self.longest_delivery());
        if is_wanted {
            self.content.request_scheduling();
        }
        is_wanted
    }

    /// Returns the longest round trip, with its variation, of the paths that have packets in
    /// flight.
    fn longest_delivery(&self) -> Duration {
        let views = self.views.iter();
        let carrying = views.filter(|view| view.bytes_in_flight > 0);
        let times = carrying.map(|view| rtt(view) + view.rtt.variation);
        times.max().unwrap_or(Duration::ZERO)
    }

    /// Reinjects the start of the stream once all of it has been sent: its segments in flight go
    /// before later data.
    pub(super) fn reinject_start(&mut self, now: Instant) -> bool {
        let send = &self.content.send;
        let is_in_flight = send.acked_offset() < xlink::START_BYTES
            && send.next_offset() > 0
            && !send.has_unsent_below(xlink::START_BYTES);
        is_in_flight && self.reinject_all_below(now, xlink::START_BYTES)
    }

    /// Copies segments in flight below an offset to other paths with room, if the viewer needs it.
    /// Returns whether it copied any.
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

    /// Speeds up the end of the data on the path with room that delivers a packet first. That path
    /// takes over bound packets that would arrive later elsewhere. It also takes a copy, the only
    /// one, of each segment in flight that it delivers earlier.
    pub(super) fn reinject_tail(&mut self, now: Instant) {
        let Some(by) = &self.earliest() else {
            return;
        };
        let mut bytes = self.move_later_ones(by);
        let is_other = |view: &PathView| view.id != by.id && view.bytes_in_flight > 0;
        let earliest = self.latest_arrival(by, bytes);
        let has_later = |view: &PathView| earliest < self.latest_in_flight(now, view);
        if !self.views.iter().any(is_other) || !self.views.iter().any(has_later) {
            return;
        }
        let mut copies = Vec::new();
        for (chunk, in_flight_on) in self.content.send.in_flight_elsewhere(by.id, u64::MAX) {
            let packet = self.packet_view(&chunk, in_flight_on);
            let with_it = bytes + u64::from(packet.bytes);
            if with_it > by.sendable_bytes {
                break;
            }
            if self.latest_arrival(by, with_it) < self.arrival_in_flight(now, chunk.offset) {
                bytes = with_it;
                copies.push(packet);
            }
        }
        for packet in copies {
            self.content.send.on_reinjected(packet.frame.0);
            self.paths[by.id.index()].bind_next(packet);
        }
    }

    /// Moves bound packets to the path with room that delivers a packet first, if they would arrive
    /// later elsewhere. Used when no new data can be bound, since the limit is reached. Returns
    /// whether it moved any.
    pub(super) fn rebind_later_ones(&mut self) -> bool {
        let earliest = self.earliest();
        earliest.is_some_and(|by| self.move_later_ones(&by) > 0)
    }

    /// Returns whether no sample of the path's round-trip time has come since it was idle: the last
    /// one describes its last queue.
    pub(super) fn has_idle_rtt(&self, id: PathId) -> bool {
        let recovery = &self.paths[id.index()].recovery;
        let sampled_at = recovery.rtt().sampled_at();
        recovery.oldest_sent_at().is_none_or(|at| at > sampled_at)
    }

    /// Returns the path's estimate, or zero if it was idle, since its queue is gone.
    pub(super) fn queue_drains_in(&self, now: Instant, on: PathId, bytes: u64) -> Duration {
        match self.has_idle_rtt(on) {
            true => Duration::ZERO,
            false => self.paths[on.index()].queue_drains_in(now, bytes),
        }
    }

    /// Returns the time until the last of `bytes` bytes arrives that leave a path from now on.
    fn arrival(&self, view: &PathView, bytes: u64) -> Duration {
        let forecast = &view.forecast;
        let one_way_delay = match self.has_idle_rtt(view.id) {
            true => forecast.min_one_way_delay,
            false => forecast.one_way_delay,
        };
        forecast.ready_in() + one_way_delay + forecast.rate.time_for(bytes)
    }

    /// Returns the latest arrival of `bytes` more bytes that are bound to a path now.
    fn latest_arrival(&self, view: &PathView, bytes: u64) -> Duration {
        let most = match self.has_idle_rtt(view.id) {
            true => view.forecast.min_one_way_delay * 2,
            false => Duration::MAX,
        };
        self.arrival(view, view.queued_bytes + bytes) + view.forecast.delay_margin.min(most)
    }

    /// Returns the path with room that delivers a packet first.
    fn earliest(&self) -> Option<PathView> {
        let could_send = |view: &&PathView| view.is_in_service() && view.sendable_bytes > 0;
        let views = self.views.iter().filter(could_send);
        let earliest = views.min_by_key(|view| self.latest_arrival(view, 0));
        earliest.copied()
    }

    /// Binds to a path, as far as it has room, packets that wait for others' windows or pacers and
    /// would arrive later there, the last first. Returns the number of moved bytes.
    fn move_later_ones(&mut self, by: &PathView) -> u64 {
        let mut moved_bytes = 0;
        for view in self.views.iter().filter(|view| view.id != by.id) {
            let from = &self.paths[view.id.index()];
            let is_paced = from.control().pacing_rate.is_some();
            let leaves_at_once = !is_paced && from.has_window_beyond(from.queued_bytes());
            if leaves_at_once || view.sendable_bytes > 0 {
                continue;
            }
            let mut queued_bytes = from.queued_bytes();
            let mut later: Vec<PacketView> = Vec::new();
            for packet in from.bound_sources().rev() {
                let bytes = moved_bytes + u64::from(packet.bytes);
                let is_later = self.latest_arrival(by, bytes) < self.arrival(view, queued_bytes);
                let is_only_copy = self.content.send.is_bound_once(packet.frame.0);
                if !is_later || !is_only_copy || bytes > by.sendable_bytes {
                    break;
                }
                queued_bytes -= u64::from(packet.bytes);
                moved_bytes = bytes;
                later.push(*packet);
            }
            for packet in &later {
                self.paths[view.id.index()].unbind_frame(packet.frame);
            }
            for packet in later.into_iter().rev() {
                self.paths[by.id.index()].bind_next(packet);
            }
        }
        moved_bytes
    }

    /// Returns whether a packet in flight for `age` should have been acknowledged.
    fn is_overdue(&self, on: PathId, age: Duration) -> bool {
        let forecast = &self.views[on.index()].forecast;
        let patience =
            forecast.one_way_delay * 2 + forecast.delay_margin + self.content.config.delayed_ack;
        age > patience || self.content.paths[on.index()].probe.is_wanted()
    }

    /// Returns the latest arrival of the segments that a path carried last, by
    /// [`arrival_in_flight`](Self::arrival_in_flight).
    fn latest_in_flight(&self, now: Instant, view: &PathView) -> Duration {
        let forecast = &view.forecast;
        let latest = forecast.one_way_delay.max(forecast.min_one_way_delay);
        // If nothing is outstanding, a copy may be remembered that is lost.
        let oldest_at = self.paths[view.id.index()].recovery.oldest_sent_at();
        let age = oldest_at.map_or(Duration::MAX, |at| now.saturating_since(at));
        match self.is_overdue(view.id, age) {
            true => latest.max(forecast.one_way_delay * 2),
            false => latest,
        }
    }

    /// Returns the time until a segment in flight arrives. One whose acknowledgement is overdue
    /// takes another round trip at the least.
    fn arrival_in_flight(&self, now: Instant, offset: u64) -> Duration {
        let Some((on, number)) = self.content.send.last_copy(offset) else {
            return Duration::ZERO;
        };
        let recovery = &self.paths[on.index()].recovery;
        let Some(packet) = recovery.sent_packet(number) else {
            return Duration::ZERO;
        };
        let forecast = &self.views[on.index()].forecast;
        let age = now.saturating_since(packet.sent_at);
        if self.is_overdue(on, age) {
            return forecast.one_way_delay * 2;
        }
        // Older samples may be of a queue that the packet has not met.
        let one_way_delay = match recovery.rtt().sampled_at() > packet.sent_at {
            true => forecast.one_way_delay,
            false => forecast.min_one_way_delay,
        };
        let bytes_behind = recovery.sent_bytes() - packet.delivery.sent_bytes;
        let ahead_by = match forecast.is_congested() {
            true => age.max(forecast.rate.time_for(bytes_behind)),
            false => age,
        };
        let bytes_ahead = recovery.bytes_in_flight().saturating_sub(bytes_behind);
        let drained = self.queue_drains_in(now, on, bytes_ahead);
        let arrives = one_way_delay.saturating_sub(ahead_by);
        arrives.max(drained.saturating_sub(forecast.min_one_way_delay))
    }

    /// Handles a full peer's window though a path could send. A slower path that should have
    /// delivered the awaited segment is penalised. If that path is much slower or its window is too
    /// small, the other path takes a copy. Both follow Linux's `mptcp_rcv_buf_optimization`.
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
