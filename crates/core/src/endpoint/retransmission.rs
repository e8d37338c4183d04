//! Retransmission: when another copy of what was lost could arrive, and which path it takes.

use anabranch_units::{Duration, Instant};

use super::Endpoint;
use crate::media::Retry;
use crate::path_view::{PathId, PathSet, PathState, PathView};
use crate::scheduler;

impl Endpoint {
    /// When another copy of a packet of `bytes` bytes that was lost on `lost_on` could be there,
    /// and the doubt in it (`docs/algorithms.md`: cost(p*)). It goes by another path, unless
    /// that takes much longer: then the time for one more try is worth more.
    pub(super) fn retry(&self, now: Instant, lost_on: PathId, bytes: u32) -> Retry {
        let usable = |view: &&PathView| view.state.is_usable() && !view.is_standby;
        let (own, others) = (
            self.views
                .iter()
                .filter(usable)
                .find(|view| view.id == lost_on),
            self.views
                .iter()
                .filter(usable)
                .filter(|view| view.id != lost_on),
        );
        let cost = |view: &&PathView| cost_of(view, bytes);
        let other = others.min_by_key(cost);
        let is_own_better = |other: &PathView| {
            own.is_some_and(|own| {
                own.state == PathState::Active
                    && cost_of(own, bytes).mul_f64(OWN_PATH_PENALTY) < cost_of(other, bytes)
            })
        };
        let (best, avoid) = match other {
            Some(other) if is_own_better(other) => (own, PathSet::EMPTY),
            Some(other) => (Some(other), PathSet::only(lost_on)),
            None => (own, PathSet::only(lost_on)),
        };
        // With no path at all it waits for one: whether that is too late, time will tell.
        let arrives_at = now + best.map_or(Duration::ZERO, |view| cost_of(view, bytes));
        let doubt = best.map_or(Duration::ZERO, |view| view.rtt_variation * 2);
        let told_after = best.map_or(Duration::ZERO, |view| {
            self.paths[view.id.index()].recovery.loss_delay()
        });
        Retry {
            now,
            arrives_at,
            doubt,
            avoid,
            told_after,
        }
    }

    /// Judges again the lost fragments for which repairs have come too late or not at all.
    pub(super) fn retry_disappointed(&mut self, now: Instant) {
        if self.send_buffer.waits_until().is_none() {
            return;
        }
        self.refresh_views(now);
        while let Some(copy) = self.send_buffer.next_disappointed(now) {
            self.judge(now, copy, self.max_packet_bytes);
            self.is_schedule_due = true;
        }
    }
}

/// What was lost on a path goes by another, unless that costs more than so many times as much.
const OWN_PATH_PENALTY: f64 = 1.25;

/// What a retransmission costs on a path.
pub(super) fn cost_of(view: &PathView, bytes: u32) -> Duration {
    scheduler::retransmission_cost(view, u64::from(bytes))
}
