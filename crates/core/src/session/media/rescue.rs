//! What would come late over its path, though it could be in time over another.
//!
//! A path that slows down answers all the same, so that it is not silent, and its round-trip time
//! tells of the queue only when that has been passed. But what flies there and the rate at which it
//! comes out tell when the rest will: what then would be late is copied to another path, and what
//! has not left yet goes there alone. The same holds for a long queue at the sender, when another
//! path has become faster.

use anabranch_units::{DataRate, Duration, Instant};

use super::MediaSession;
use crate::media::{LostCopy, Verdict};
use crate::path::{Path, SPARE_LIFETIME};
use crate::path_view::{PathId, PathSet, PathState, PathView};
use crate::recovery::PacketContent;
use crate::scheduler::{retransmission_cost, transfer_cost};
use crate::send_reason::SendReason;

/// Only what waits at the sender for more than this share of the deadline is looked at.
const LONG_WAIT: u64 = 4;

impl MediaSession {
    /// Looks at what flies on and is bound to paths that have slowed down or have a long queue.
    pub(super) fn rescue(&mut self, now: Instant) {
        if self.paths.len() < 2 || self.content.scheduler.is_redundant() {
            return;
        }
        let long_wait = self.config.media.deadline / LONG_WAIT;
        for index in 0..self.paths.len() {
            let id = PathId(index as u8);
            if self.paths[index].state() != PathState::Active {
                continue;
            }
            if let Some(rate) = self.paths[index].backed_up_rate(now) {
                self.copy_what_is_stuck(now, id, rate);
            }
            if self.paths[index].queue_wait(now) > long_wait {
                self.rebind(now, id);
            }
        }
    }

    /// Copies what flies on the path, out of which packets come at `rate`, and will be late to
    /// where it will not.
    fn copy_what_is_stuck(&mut self, now: Instant, id: PathId, rate: DataRate) {
        self.refresh_views(now);
        let path = &self.paths[id.index()];
        // What is known to have arrived did so half a round trip ago at least.
        let since = now.saturating_sub(path.recovery.rtt().min_rtt().unwrap_or_default() / 2);
        let mut ahead_bytes = 0;
        let mut late = Vec::new();
        for packet in path.recovery.outstanding() {
            ahead_bytes += u64::from(packet.bytes);
            let arrives_at = since + rate.time_for(ahead_bytes);
            if let PacketContent::Fragment { frame, fragment } = packet.content
                && let Some(due_at) = self.content.send_buffer.due_at(frame)
                && arrives_at > due_at
            {
                late.push((frame, fragment, packet.bytes, arrives_at));
            }
        }
        for (frame, fragment, bytes, arrives_at) in late {
            let cost = |view: &PathView| retransmission_cost(view, u64::from(bytes));
            let Some(other) = self.best_other_view(id, cost) else {
                return;
            };
            let view = &self.views[other.index()];
            if now + cost(view) >= arrives_at {
                continue;
            }
            let copy = LostCopy {
                frame,
                fragment,
                path: id,
                reason: SendReason::PathCongested,
            };
            if self.judge(now, copy, bytes) == Verdict::SendAgain {
                let view = &mut self.views[other.index()];
                view.queued_retransmission_bytes += u64::from(bytes);
                view.queued_bytes += u64::from(bytes);
                self.content.is_schedule_due = true;
            }
        }
    }

    /// Binds anew what is bound, oldest first, if much of what is bound to this path would be late
    /// there but not elsewhere.
    fn rebind(&mut self, now: Instant, id: PathId) {
        self.refresh_views(now);
        let spare = self.config.media.deadline / SPARE_LIFETIME;
        let view = self.views[id.index()];
        let path = &self.paths[id.index()];
        let Some(fastest) = self.best_other_view(id, |view| transfer_cost(view, 0)) else {
            return;
        };
        let mut other = self.views[fastest.index()];
        let mut here = path.ahead(now, &view);
        let mut better_bytes = 0;
        for packet in path.bound_sources() {
            let bytes = u64::from(packet.bytes);
            let Some(due_at) = self.content.send_buffer.due_at(packet.frame) else {
                continue;
            };
            if now + here.wait(bytes) + spare <= due_at {
                here.bytes += bytes;
                continue;
            }
            let wait = other.ready_at.saturating_since(now);
            if now + wait + transfer_cost(&other, bytes) + spare <= due_at {
                other.queued_bytes += bytes;
                better_bytes += bytes;
            }
        }
        let is_misplaced = view.drain_rate().time_for(better_bytes) > spare;
        if !is_misplaced && !self.has_rate_changed(id, fastest) {
            return;
        }
        let is_backed_up = |path: &&Path| path.backed_up_rate(now).is_some();
        let backed_up: PathSet = self
            .paths
            .iter()
            .filter(is_backed_up)
            .map(|path| path.id)
            .collect();
        for index in 0..self.paths.len() {
            self.paths[index].note_rate();
            for mut packet in self.paths[index].unbind_sources() {
                // It has not been anywhere yet: what it was kept from may be over.
                packet.avoid = backed_up;
                self.content.send_buffer.unbind(packet);
            }
        }
        self.content.is_schedule_due = true;
    }

    /// Whether one of these paths carries much less or more than when the present queues were
    /// bound, so that they end far apart.
    fn has_rate_changed(&self, one: PathId, other: PathId) -> bool {
        let end = |id: PathId| {
            let view = &self.views[id.index()];
            transfer_cost(view, 0)
        };
        let is_changed = |id: PathId| self.paths[id.index()].has_rate_changed();
        let is_apart = end(one) > end(other) + self.config.media.deadline / SPARE_LIFETIME;
        is_apart && (is_changed(one) || is_changed(other))
    }

    /// The active path other than `id` of the least cost.
    fn best_other_view(&self, id: PathId, cost: impl Fn(&PathView) -> Duration) -> Option<PathId> {
        let others = self
            .views
            .iter()
            .filter(|view| view.id != id && view.state == PathState::Active && !view.is_standby);
        others.min_by_key(|view| cost(view)).map(|view| view.id)
    }
}
