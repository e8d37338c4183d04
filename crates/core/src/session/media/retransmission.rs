//! Retransmission: when another copy of what was lost could arrive, and which path it takes.

use anabranch_units::{Duration, Instant};

use super::MediaSession;
use crate::forecast::Turn;
use crate::media::Retry;
use crate::path_view::{PathId, PathSet, PathState, PathView};

impl MediaSession {
    /// When another copy of a packet of `bytes` bytes that was lost on `lost_on` could be there,
    /// and the doubt in it (`docs/algorithms.md`: cost(p*)). It takes the path by which it is
    /// there first in the mean: a path that loses it needs one more try.
    pub(super) fn retry(&self, now: Instant, lost_on: PathId, bytes: u32) -> Retry {
        let usable = |view: &&PathView| view.state.is_usable() && !view.is_standby;
        let usable = self.views.iter().filter(usable);
        let arrival = |view: &PathView| view.arrival(Turn::Again, u64::from(bytes));
        let rank = |view: &&PathView| {
            let told_after = self.paths[view.id.index()].recovery.loss_delay();
            let again = told_after.mul_f64(loss_of_copy(view, lost_on));
            // A suspect path is taken only if there is no other.
            (view.state != PathState::Active, arrival(view) + again)
        };
        let Some(best) = usable.min_by_key(rank) else {
            // It waits for a path: whether that is too late, time will tell.
            return Retry {
                now,
                arrives_at: now,
                doubt: Duration::ZERO,
                avoid: PathSet::only(lost_on),
                told_after: Duration::ZERO,
            };
        };
        Retry {
            now,
            arrives_at: now + arrival(best),
            doubt: best.forecast.doubt,
            avoid: match best.id == lost_on {
                true => PathSet::EMPTY,
                false => PathSet::only(lost_on),
            },
            told_after: self.paths[best.id.index()].recovery.loss_delay(),
        }
    }

    /// Judges again the lost fragments for which repairs have come too late or not at all.
    pub(super) fn retry_disappointed(&mut self, now: Instant) {
        if self.content.send_buffer.waits_until().is_none() {
            return;
        }
        self.refresh_views(now);
        while let Some(copy) = self.content.send_buffer.next_disappointed(now) {
            self.judge(now, copy, self.max_packet_bytes);
            self.content.is_schedule_due = true;
        }
    }
}

/// The probability that a copy of what was lost on `lost_on` is lost on this path: on the same one
/// at least that the burst goes on.
fn loss_of_copy(view: &PathView, lost_on: PathId) -> f64 {
    let burst_goes_on = match view.id == lost_on {
        true => 1.0 - 1.0 / view.risk.loss_burst_packets,
        false => 0.0,
    };
    view.risk.recent_loss().max(burst_goes_on)
}
