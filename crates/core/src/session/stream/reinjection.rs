//! Segments in flight on one path are sent on another as well: [`crate::Reinjection`].

use anabranch_units::{Duration, Instant};

use super::StreamSession;
use super::schedule::Binding;
use crate::config::Reinjection;
use crate::path_view::{PathId, PathView};
use crate::stream::xlink;

/// A path whose round trip takes more than so many of another's is much slower (Linux,
/// `mptcp_sched.c`): below that, copies would cost more than the wait.
const MUCH_SLOWER: u64 = 4;
/// So many packets are hardly a window (there).
const HARDLY_A_WINDOW: u64 = 4;

fn rtt(view: &PathView) -> Duration {
    view.rtt.smoothed.unwrap_or(PathView::UNKNOWN_RTT)
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
