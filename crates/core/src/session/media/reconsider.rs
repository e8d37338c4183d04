//! The one place that decides whether a fragment is sent again: whatever becomes known of its
//! copies comes here, and is weighed by the paths' forecasts.

use anabranch_units::{Duration, Instant};

use super::MediaSession;
use crate::forecast::Turn;
use crate::media::{FragmentId, FrameId, Outlook, UnderWay, Verdict};
use crate::path_view::{PathId, PathSet, PathState, PathView};
use crate::send_reason::SendReason;

/// So many copies under way are enough, whatever they are worth: a third delays the next pictures
/// by more than it saves.
const MAX_COPIES: u32 = 2;

/// The way of another copy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub(super) path: PathId,
    /// The paths that it shall not take, if it need not.
    pub(super) avoid: PathSet,
}

impl MediaSession {
    /// Something has become known of a fragment of `bytes` bytes on the wire, of which the copies
    /// on the `doubted` paths count no more. It is sent again, for this reason, if the rule says
    /// so.
    pub(super) fn reconsider(
        &mut self,
        now: Instant,
        id: FragmentId,
        doubted: PathSet,
        reason: SendReason,
        bytes: u32,
    ) -> Verdict {
        let (verdict, way) = self.verdict(now, id, doubted, reason, bytes);
        match verdict {
            Verdict::SendAgain => self.send_again(id, way, reason),
            Verdict::GiveUp => self.give_up(now, id.frame),
            Verdict::Settled | Verdict::Wait => {}
        }
        verdict
    }

    /// What the rule says, and the way that another copy would take.
    pub(super) fn verdict(
        &mut self,
        now: Instant,
        id: FragmentId,
        doubted: PathSet,
        reason: SendReason,
        bytes: u32,
    ) -> (Verdict, Option<Way>) {
        let Some(under_way) = self.content.send_buffer.under_way(id) else {
            return (Verdict::Settled, None);
        };
        let best = self.best_for_copy(now, &under_way, doubted, bytes);
        let (chance, known_after) = self.chance(&under_way, doubted);
        let mut outlook = Outlook {
            now,
            chance,
            known_after,
            arrives_after: Duration::ZERO,
            doubt: Duration::ZERO,
            told_after: Duration::ZERO,
        };
        // Without a path it waits for one: whether that is too late, time will tell.
        if let Some(best) = best {
            outlook.arrives_after = best.arrival(Turn::Again, u64::from(bytes));
            outlook.doubt = best.forecast.doubt;
            outlook.told_after = self.paths[best.id.index()].recovery.loss_delay();
        }
        let way = best.map(|best| self.way(now, best, &under_way, doubted, bytes));
        let verdict = self.content.send_buffer.reconsider(id, reason, &outlook);
        (verdict, way)
    }

    /// Queues another copy.
    pub(super) fn send_again(&mut self, id: FragmentId, way: Option<Way>, reason: SendReason) {
        let avoid = way.map_or(PathSet::EMPTY, |way| way.avoid);
        let buffer = &mut self.content.send_buffer;
        buffer.queue_again(id.frame, id.fragment, avoid, reason);
        self.content.is_schedule_due = true;
    }

    /// Judges again the lost fragments for which repairs have come too late or not at all.
    pub(super) fn retry_disappointed(&mut self, now: Instant) {
        if self.content.send_buffer.waits_until().is_none() {
            return;
        }
        self.refresh_views(now);
        let (bytes, reason) = (self.max_packet_bytes, SendReason::NotRecovered);
        while let Some(id) = self.content.send_buffer.next_disappointed(now) {
            self.reconsider(now, id, PathSet::EMPTY, reason, bytes);
        }
    }

    pub(super) fn give_up(&mut self, now: Instant, frame: FrameId) {
        if self.content.send_buffer.give_up(frame) {
            self.on_given_up(now, frame);
        }
    }

    /// The probability that one of the copies under way arrives in time, those on `doubted` paths
    /// left out, and after how long that is known.
    fn chance(&self, under_way: &UnderWay, doubted: PathSet) -> (f64, Duration) {
        let (mut missing, mut copies, mut known_after) = (1.0, 0, Duration::ZERO);
        for path in under_way.in_flight_on.iter() {
            let view = &self.views[path.index()];
            if doubted.contains(path) || view.state != PathState::Active {
                continue;
            }
            let count = 1 + u32::from(under_way.twice_on.contains(path));
            copies += count;
            missing *= loss_of_copy(view, under_way.lost_on).powi(count as i32);
            known_after = known_after.max(self.paths[path.index()].recovery.loss_delay());
        }
        match copies >= MAX_COPIES {
            true => (1.0, known_after),
            false => (1.0 - missing, known_after),
        }
    }

    /// The path by which another copy is there first in the mean: a path that loses it needs one
    /// more try. One that makes the deadline goes before one that does not, one where no copy is
    /// before one where there is, and a suspect path is taken only if there is no other.
    fn best_for_copy(
        &self,
        now: Instant,
        under_way: &UnderWay,
        doubted: PathSet,
        bytes: u32,
    ) -> Option<&PathView> {
        let usable = |view: &&PathView| view.state.is_usable() && !view.is_standby;
        let rank = |view: &&PathView| {
            let arrival = view.arrival(Turn::Again, u64::from(bytes));
            let told_after = self.paths[view.id.index()].recovery.loss_delay();
            let again = told_after.mul_f64(loss_of_copy(view, under_way.lost_on));
            (
                view.state != PathState::Active,
                now + arrival > under_way.due_at,
                doubted.contains(view.id) || under_way.in_flight_on.contains(view.id),
                arrival + again,
            )
        };
        self.views.iter().filter(usable).min_by_key(rank)
    }

    /// The way by this path, the best: of the others those need not be avoided that are as good.
    fn way(
        &self,
        now: Instant,
        best: &PathView,
        under_way: &UnderWay,
        doubted: PathSet,
        bytes: u32,
    ) -> Way {
        let is_worse = |view: &&PathView| {
            let has_copy = |id| doubted.contains(id) || under_way.in_flight_on.contains(id);
            let is_late = now + view.arrival(Turn::Again, u64::from(bytes)) > under_way.due_at;
            let has_lost =
                under_way.lost_on.contains(view.id) && !under_way.lost_on.contains(best.id);
            view.id != best.id && (is_late || has_lost || has_copy(view.id) && !has_copy(best.id))
        };
        let worse = self.views.iter().filter(is_worse);
        Way {
            path: best.id,
            avoid: worse.map(|view| view.id).collect(),
        }
    }
}

/// The probability that a copy is lost on this path: where one was lost at least that the burst
/// goes on.
fn loss_of_copy(view: &PathView, lost_on: PathSet) -> f64 {
    let burst_goes_on = match lost_on.contains(view.id) {
        true => 1.0 - 1.0 / view.risk.loss_burst_packets.max(1.0),
        false => 0.0,
    };
    view.risk.recent_loss().max(burst_goes_on)
}
