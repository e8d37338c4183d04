//! Reinjects packets that would miss their deadline on their own path.
//!
//! A path that slows down still answers, so it is not silent, and its round-trip time shows the
//! queue only after a packet has passed it. But bytes in flight divided by the delivery rate
//! predict which packets will be late. Those are copied to another path, and unsent packets are
//! rebound to it. The same holds for a long queue at the sender, if another path has become faster.

use anabranch_units::{Duration, Instant};

use super::MediaSession;
use crate::forecast::{Forecast, Priority};
use crate::media::Verdict;
use crate::path::{Path, SPARE_LIFETIME};
use crate::path_view::{PathId, PathSet, PathState, PathView};
use crate::recovery::PacketContent;
use crate::send_reason::SendReason;

/// Inverse of the share of the deadline that a queue at the sender takes before it is rebound.
const LONG_WAIT: u64 = 4;

impl MediaSession {
    /// Checks, by the present views, the packets on paths that have slowed down or have a long
    /// queue.
    pub(super) fn reinject(&mut self, now: Instant) {
        debug_assert!(self.has_present_views(now));
        if self.paths.len() < 2 || self.content.scheduler.is_redundant() {
            return;
        }
        let long_wait = self.config.media.deadline / LONG_WAIT;
        for index in 0..self.paths.len() {
            let id = PathId(index as u8);
            if self.paths[index].state() != PathState::Active {
                continue;
            }
            let forecast = self.views[index].forecast;
            if forecast.is_congested {
                self.reinject_late_packets(now, id, &forecast);
            }
            let queued_bytes = self.paths[index].queued_bytes();
            if forecast.excess_delay(queued_bytes) > long_wait {
                self.rebind(now, id);
            }
        }
    }

    /// Reinjects packets in flight on the path that will be late there and earlier elsewhere.
    fn reinject_late_packets(&mut self, now: Instant, id: PathId, forecast: &Forecast) {
        let path = &self.paths[id.index()];
        let mut ahead_bytes = 0;
        let mut late = Vec::new();
        for packet in path.recovery.outstanding() {
            ahead_bytes += u64::from(packet.bytes);
            let age = now.saturating_since(packet.sent_at);
            let arrives_at = now + forecast.arrival_in_flight(age, ahead_bytes);
            if let PacketContent::Fragment { frame, .. } = packet.content
                && let Some(due_at) = self.content.send_buffer.due_at(frame)
                && arrives_at > due_at
            {
                let carried = self.content.send_buffer.carried_by(packet.content);
                late.extend(carried.map(|id| (id, packet.bytes, arrives_at)));
            }
        }
        for (late_fragment, bytes, arrives_at) in late {
            let arrival =
                |view: &PathView| view.arrival(Priority::Retransmission, u64::from(bytes));
            let Some(other) = best_other(&self.views, id, arrival) else {
                return;
            };
            if now + arrival(&self.views[other.index()]) >= arrives_at {
                continue;
            }
            let (suspected, reason) = (PathSet::only(id), SendReason::PathCongested);
            if self.reconsider(now, late_fragment, suspected, reason, bytes) == Verdict::SendCopy {
                let view = &mut self.views[other.index()];
                view.retransmission_bytes += u64::from(bytes);
                view.queued_bytes += u64::from(bytes);
            }
        }
    }

    /// Rebinds packets of this path, oldest first, if many of them would be late there but not
    /// elsewhere.
    fn rebind(&mut self, now: Instant, id: PathId) {
        let spare = self.config.media.deadline / SPARE_LIFETIME;
        let view = self.views[id.index()];
        let path = &self.paths[id.index()];
        let Some(fastest) = best_other(&self.views, id, end_of_queue) else {
            return;
        };
        let mut other = self.views[fastest.index()];
        let mut ahead_bytes = view.retransmission_bytes;
        let mut better_bytes = 0;
        for packet in path.bound_sources() {
            let bytes = u64::from(packet.bytes);
            let Some(due_at) = self.content.send_buffer.due_at(packet.frame) else {
                continue;
            };
            if now + view.forecast.arrival(ahead_bytes + bytes) + spare <= due_at {
                ahead_bytes += bytes;
                continue;
            }
            if now + other.arrival(Priority::New, bytes) + spare <= due_at {
                other.queued_bytes += bytes;
                better_bytes += bytes;
            }
        }
        let is_misplaced = view.forecast.rate.time_for(better_bytes) > spare;
        if !is_misplaced && !has_rate_changed(&self.paths, &self.views, [id, fastest], spare) {
            return;
        }
        let is_congested = |view: &&PathView| view.forecast.is_congested;
        let congested = self.views.iter().filter(is_congested);
        let congested: PathSet = congested.map(|view| view.id).collect();
        for index in 0..self.paths.len() {
            self.paths[index].record_rate();
            for mut packet in self.paths[index].unbind_sources() {
                // It has not left yet, and the reason to avoid a path may be over.
                packet.avoid = congested;
                self.content.send_buffer.unbind(packet);
            }
        }
        self.content.is_schedule_due = true;
    }
}

/// Returns whether the rate of one of these paths is much lower or higher than when the present
/// queues were bound, so that they end more than `spare` apart.
fn has_rate_changed(
    paths: &[Path],
    views: &[PathView],
    [one, other]: [PathId; 2],
    spare: Duration,
) -> bool {
    let end = |id: PathId| end_of_queue(&views[id.index()]);
    let is_changed = |id: PathId| paths[id.index()].has_rate_changed();
    end(one) > end(other) + spare && (is_changed(one) || is_changed(other))
}

/// Returns the active path other than `id` of the least cost.
fn best_other(
    views: &[PathView],
    id: PathId,
    cost: impl Fn(&PathView) -> Duration,
) -> Option<PathId> {
    let others = views
        .iter()
        .filter(|view| view.id != id && view.is_in_service());
    others.min_by_key(|view| cost(view)).map(|view| view.id)
}

/// Returns the time until all packets that wait on the path have arrived.
fn end_of_queue(view: &PathView) -> Duration {
    view.arrival(Priority::New, 0)
}
