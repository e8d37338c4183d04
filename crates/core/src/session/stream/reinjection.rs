//! Segments in flight on one path are sent on another as well, and unsent ones move there:
//! [`crate::Reinjection`].

use anabranch_units::{Duration, Instant};

use super::StreamSession;
use super::schedule::Binding;
use crate::config::Reinjection;
use crate::copies;
use crate::forecast::Priority;
use crate::path_view::{PathId, PathView};
use crate::scheduler::PacketView;
use crate::stream::Chunk;

/// Ratio of round-trip times from which a path is much slower than another (Linux,
/// `mptcp_sched.c`). Below it, copies would cost more than the wait.
const MUCH_SLOWER: u64 = 4;
/// Number of packets up to which a window counts as too small (same source).
const HARDLY_A_WINDOW: u64 = 4;

pub(super) fn rtt(view: &PathView) -> Duration {
    view.rtt.smoothed.unwrap_or(PathView::UNKNOWN_RTT)
}

/// Time until the copies of a segment in flight are expected.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    arrives_after: Duration,
    /// Whether their acknowledgement is overdue.
    is_overdue: bool,
}

impl StreamSession {
    /// Reinjects segments if a path has room, and nothing else can be sent there.
    pub(super) fn reinject(&mut self, now: Instant, binding: &mut Binding) {
        match self.config.stream.reinjection {
            Reinjection::Off => {}
            Reinjection::Linux if self.content.send.is_blocked(self.segment_bytes()) => {
                self.reinject_awaited(now, binding);
            }
            Reinjection::Linux => {}
            Reinjection::Tail => self.reinject_tail(now),
            Reinjection::Xlink => {
                self.reinject_all_below(now, u64::MAX);
            }
        }
    }

    /// Speeds up the end of the data on the path with room that delivers a packet first. That path
    /// takes over bound packets that would arrive later elsewhere, and copies of segments in flight
    /// that it delivers earlier.
    fn reinject_tail(&mut self, now: Instant) {
        let Some(by) = self.earliest() else {
            return;
        };
        self.move_later_ones(by);
        let earliest = latest_arrival(&self.views[by.index()], 0);
        // Overdue segments take another round trip; all others arrive before a new packet.
        let is_later = |view: &PathView| {
            let latest = view.rtt.latest.map(|_| view.forecast.overdue_arrival());
            view.id != by && view.bytes_in_flight > 0 && latest.is_none_or(|it| earliest < it)
        };
        if self.views.iter().any(is_later) {
            self.copy_in_flight(by, u64::MAX, |session, chunk| {
                Some(session.expected(now, chunk.offset))
            });
        }
    }

    /// Moves bound packets to the path with room that delivers a packet first, if they would arrive
    /// later elsewhere. Used when no new data can be bound, since the limit is reached. Returns
    /// whether it moved any.
    pub(super) fn rebind_later_ones(&mut self) -> bool {
        self.earliest().is_some_and(|by| self.move_later_ones(by))
    }

    /// Copies to the path, as far as it has room, those of the segments in flight elsewhere below
    /// an offset for which the rule asks. `expected` says when the copy in flight is expected;
    /// `None` if it does not count. Returns whether it copied any.
    pub(super) fn copy_in_flight(
        &mut self,
        by: PathId,
        offset: u64,
        expected: impl Fn(&Self, &Chunk) -> Option<Expected>,
    ) -> bool {
        let view = &self.views[by.index()];
        let mut allowance = self.content.copies;
        let (mut bytes, mut copies) = (0, Vec::new());
        for (chunk, in_flight_on) in self.content.send.in_flight_elsewhere(by, offset) {
            let packet = self.packet_view(&chunk, in_flight_on);
            let with_it = bytes + u64::from(packet.bytes);
            if with_it > view.sendable_bytes {
                break;
            }
            let expected = expected(self, &chunk);
            let is_paid = expected.is_some_and(|expected| !expected.is_overdue);
            let arrives_after = expected.map(|expected| expected.arrives_after);
            if copies::is_worth_sending(arrives_after, latest_arrival(view, with_it))
                && (!is_paid || allowance.covers(u64::from(packet.bytes)))
            {
                if is_paid {
                    allowance.pay(u64::from(packet.bytes));
                }
                bytes = with_it;
                copies.push(packet);
            }
        }
        for packet in &copies {
            self.content.send.on_reinjected(packet.frame.0);
            self.bind_to(by, *packet);
        }
        self.content.copies = allowance;
        !copies.is_empty()
    }

    /// Binds a packet to a path, and counts it in the view.
    fn bind_to(&mut self, by: PathId, packet: PacketView) {
        self.paths[by.index()].bind_next(packet);
        let view = &mut self.views[by.index()];
        view.queued_bytes += u64::from(packet.bytes);
        view.sendable_bytes = match view.pacing_rate {
            Some(_) => 0,
            None => view.sendable_bytes.saturating_sub(u64::from(packet.bytes)),
        };
    }

    /// Returns the path with room that delivers a packet first.
    fn earliest(&self) -> Option<PathId> {
        let could_send = |view: &&PathView| view.is_in_service() && view.sendable_bytes > 0;
        let views = self.views.iter().filter(could_send);
        let earliest = views.min_by_key(|view| latest_arrival(view, 0));
        earliest.map(|view| view.id)
    }

    /// Binds to a path, as far as it has room, packets that wait for others' windows or pacers and
    /// would arrive later there, the last first. Returns whether it moved any.
    fn move_later_ones(&mut self, by: PathId) -> bool {
        let to = &self.views[by.index()];
        let (mut bytes, mut moved) = (0, Vec::new());
        for view in self.views.iter().filter(|view| view.id != by) {
            let from = &self.paths[view.id.index()];
            let leaves_at_once =
                view.pacing_rate.is_none() && from.has_window_beyond(from.queued_bytes());
            if leaves_at_once || view.sendable_bytes > 0 {
                continue;
            }
            let first = moved.len();
            let mut queued_bytes = view.queued_bytes;
            for packet in from.bound_sources().rev() {
                let with_it = bytes + u64::from(packet.bytes);
                let is_later = latest_arrival(to, with_it) < view.forecast.arrival(queued_bytes);
                let is_only_copy = self.content.send.is_bound_once(packet.frame.0);
                if !is_later || !is_only_copy || with_it > to.sendable_bytes {
                    break;
                }
                queued_bytes -= u64::from(packet.bytes);
                bytes = with_it;
                moved.push((view.id, *packet));
            }
            moved[first..].reverse();
        }
        for (from, packet) in &moved {
            self.paths[from.index()].unbind_frame(packet.frame);
            self.views[from.index()].queued_bytes -= u64::from(packet.bytes);
            self.bind_to(by, *packet);
        }
        !moved.is_empty()
    }

    /// Returns when the copy in flight of a segment is expected. One whose acknowledgement is
    /// overdue takes another round trip at the least.
    fn expected(&self, now: Instant, offset: u64) -> Expected {
        let last_copy = self.content.send.last_copy(offset);
        let packet = last_copy.and_then(|(on, number)| {
            let packet = self.paths[on.index()].recovery.sent_packet(number)?;
            Some((on, packet))
        });
        let Some((on, packet)) = packet else {
            return Expected {
                arrives_after: Duration::ZERO,
                is_overdue: false,
            };
        };
        let (path, forecast) = (&self.paths[on.index()], &self.views[on.index()].forecast);
        let age = now.saturating_since(packet.sent_at);
        let overdue_after = forecast.overdue_after(self.content.config.delayed_ack);
        let is_overdue = age > overdue_after || self.content.paths[on.index()].probe.is_wanted();
        let bytes_behind = path.recovery.sent_bytes() - packet.delivery.sent_bytes;
        let bytes = path.recovery.bytes_in_flight().saturating_sub(bytes_behind);
        let arrives_after = match is_overdue {
            // A path that has never answered is not known to deliver.
            _ if !path.recovery.rtt().has_sample() => Duration::MAX,
            true => forecast.overdue_arrival(),
            false => forecast.arrival_in_flight(age, bytes),
        };
        Expected {
            arrives_after,
            is_overdue,
        }
    }

    /// Handles a full peer's window though a path could send. A slower path that should have
    /// delivered the awaited segment is penalised. If that path is much slower or its window is too
    /// small, its copy does not count. Both follow Linux's `mptcp_rcv_buf_optimization`.
    fn reinject_awaited(&mut self, now: Instant, binding: &mut Binding) {
        let could_send = |view: &&PathView| view.is_in_service() && view.sendable_bytes > 0;
        let open = self.views.iter().filter(could_send);
        let Some(by) = open.min_by_key(|view| rtt(view)) else {
            return;
        };
        let Some((chunk, in_flight_on)) = self.content.send.first_in_flight_elsewhere(by.id) else {
            return;
        };
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
        if is_worth_a_copy {
            self.copy_in_flight(by, chunk.end(), |_, _| None);
        }
    }
}

/// Returns the latest arrival of `bytes` more bytes that are bound to a path now.
fn latest_arrival(view: &PathView, bytes: u64) -> Duration {
    view.arrival(Priority::New, bytes) + view.forecast.delay_margin
}
