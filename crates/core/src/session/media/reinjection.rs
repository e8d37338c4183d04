//! Reinjects packets that would miss their deadline on their own path.
//!
//! A path that slows down still answers, so it is not silent, and its round-trip time shows the
//! queue only after a packet has passed it. But bytes in flight divided by the delivery rate
//! predict which packets will be late. Those are copied to another path, and unsent packets are
//! rebound to it. The same holds for a long queue at the sender, if another path has become faster.

use anabranch_units::{Duration, Instant};

use super::Media;
use super::reconsider::Rule;
use crate::forecast::{Forecast, Priority};
use crate::media::{SendBuffer, Verdict};
use crate::path::{Path, SPARE_LIFETIME};
use crate::path_view::{PathId, PathSet, PathState, PathView};
use crate::recovery::PacketContent;
use crate::send_reason::SendReason;
use crate::sender_rules::SenderRule;
use crate::session::are_present;
use crate::session::content::Context;

/// Inverse of the share of the deadline that a queue at the sender takes before it is rebound.
const LONG_WAIT: u64 = 4;

impl Media {
    /// Checks, by the present views, the packets on paths that have slowed down or have a long
    /// queue.
    pub(super) fn reinject(&mut self, ctx: &mut Context<'_>) {
        debug_assert!(are_present(ctx.views, ctx.paths, ctx.now));
        if ctx.paths.len() < 2 || self.binding.is_redundant() {
            return;
        }
        let deadline = ctx.config.media.deadline;
        let rules = ctx.config.laboratory.rules;
        for index in 0..ctx.paths.len() {
            let id = PathId(index as u8);
            if ctx.paths[index].state() != PathState::Active {
                continue;
            }
            let forecast = ctx.views[index].forecast;
            if forecast.is_congested && rules.has(SenderRule::CongestedCopies) {
                self.rule(ctx).reinject_late_packets(id, &forecast);
            }
            let queued_bytes = ctx.paths[index].queued_bytes();
            let is_long = rules.has(SenderRule::Rebinding)
                && forecast.excess_delay(queued_bytes) > deadline / LONG_WAIT;
            let spare = deadline / SPARE_LIFETIME;
            let send_buffer = &mut self.send_buffer;
            if is_long && rebind(ctx.now, id, spare, ctx.paths, ctx.views, send_buffer) {
                self.binding.request();
            }
        }
    }
}

impl Rule<'_> {
    /// Reinjects packets in flight on the path that will be late there and earlier elsewhere.
    fn reinject_late_packets(&mut self, id: PathId, forecast: &Forecast) {
        let now = self.now;
        let mut ahead_bytes = 0;
        let mut late = Vec::new();
        for packet in self.paths[id.index()].recovery.outstanding() {
            ahead_bytes += u64::from(packet.bytes);
            let age = now.saturating_since(packet.sent_at);
            let arrives_at = now + forecast.arrival_in_flight(age, ahead_bytes);
            if let PacketContent::Fragment { frame, .. } = packet.content
                && let Some(due_at) = self.send_buffer.due_at(frame)
                && arrives_at > due_at
            {
                let carried = self.send_buffer.carried_by(packet.content);
                late.extend(carried.map(|id| (id, packet.bytes, arrives_at)));
            }
        }
        for (late_fragment, bytes, arrives_at) in late {
            let arrival =
                |view: &PathView| view.arrival(Priority::Retransmission, u64::from(bytes));
            let Some(other) = best_other(self.views, id, arrival) else {
                return;
            };
            if now + arrival(&self.views[other.index()]) >= arrives_at {
                continue;
            }
            let (suspected, reason) = (PathSet::only(id), SendReason::PathCongested);
            if self.reconsider(late_fragment, suspected, reason, bytes) == Verdict::SendCopy {
                let view = &mut self.views[other.index()];
                view.retransmission_bytes += u64::from(bytes);
                view.queued_bytes += u64::from(bytes);
            }
        }
    }
}

/// Returns the packets of all paths to the scheduler if many of this path would be late there, by
/// more than `spare`, but not elsewhere. Returns whether it did.
fn rebind(
    now: Instant,
    id: PathId,
    spare: Duration,
    paths: &mut [Path],
    views: &[PathView],
    send_buffer: &mut SendBuffer,
) -> bool {
    let view = views[id.index()];
    let Some(fastest) = best_other(views, id, end_of_queue) else {
        return false;
    };
    let mut other = views[fastest.index()];
    let mut ahead_bytes = view.retransmission_bytes;
    let mut better_bytes = 0;
    for packet in paths[id.index()].bound_sources() {
        let bytes = u64::from(packet.bytes);
        let Some(due_at) = send_buffer.due_at(packet.frame) else {
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
    if !is_misplaced && !has_rate_changed(paths, views, [id, fastest], spare) {
        return false;
    }
    let congested: PathSet = views
        .iter()
        .filter(|view| view.forecast.is_congested)
        .map(|view| view.id)
        .collect();
    for path in paths {
        path.record_rate();
        for mut packet in path.unbind_sources() {
            // It has not left yet, and the reason to avoid a path may be over.
            packet.avoid = congested;
            send_buffer.unbind(packet);
        }
    }
    true
}

/// Returns whether the rate of one of these paths is much lower or higher than when the present
/// queues were bound, so that they end more than `spare` apart.
fn has_rate_changed(
    paths: &[Path],
    views: &[PathView],
    [one, other]: [PathId; 2],
    spare: Duration,
) -> bool {
    let [one, other] = [one.index(), other.index()];
    end_of_queue(&views[one]) > end_of_queue(&views[other]) + spare
        && (paths[one].has_rate_changed() || paths[other].has_rate_changed())
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
