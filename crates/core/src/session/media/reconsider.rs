//! The one place that decides whether a fragment is retransmitted: all news of its copies comes
//! here, and is weighed by the paths' forecasts.

use anabranch_units::{Duration, Instant};

use super::Media;
use super::notices::Notices;
use crate::copies::Outlook;
use crate::fec::Budget;
use crate::forecast::Priority;
use crate::media::{CopiesInFlight, FragmentId, SendBuffer, Verdict};
use crate::path::Path;
use crate::path_view::{PathId, PathSet, PathState, PathView};
use crate::recovery::{PacketContent, SentPacket};
use crate::send_reason::SendReason;
use crate::sender_rules::SenderRule;
use crate::session::are_present;
use crate::session::binding::Binding;
use crate::session::content::Context;
use crate::session::output::Output;

/// Maximum number of copies in flight, whatever their worth. More would delay later frames by more
/// than they save.
const MOST_COPIES: u32 = 3;
/// Maximum number of copies if the mean burst of losses has [`SHORT_BURST`] packets or more. A
/// third one leaves with the second, at the last moment, and is lost in the same burst.
const MOST_COPIES_IN_BURSTS: u32 = 2;
const SHORT_BURST: f64 = 1.5;

/// The way of another copy.
#[derive(Clone, Copy, Debug)]
pub(super) struct CopyPath {
    pub(super) path: PathId,
    /// The paths that it must not take unless no other is left.
    pub(super) avoid: PathSet,
}

/// Search for a path: another copy of a fragment, of `bytes` bytes on the wire.
#[derive(Clone, Copy, Debug)]
struct Search {
    now: Instant,
    copies_in_flight: CopiesInFlight,
    suspected: PathSet,
    bytes: u32,
}

impl Search {
    fn arrival(&self, view: &PathView) -> Duration {
        view.arrival(Priority::Retransmission, u64::from(self.bytes))
    }

    fn is_late(&self, view: &PathView) -> bool {
        self.now + self.arrival(view) > self.copies_in_flight.due_at
    }

    fn has_copy(&self, view: &PathView) -> bool {
        self.suspected.contains(view.id) || self.copies_in_flight.in_flight_on.contains(view.id)
    }

    fn has_lost(&self, view: &PathView) -> bool {
        self.copies_in_flight.lost_on.contains(view.id)
    }
}

/// The rule for another copy at one moment, with all that it knows, and the parts that carry out
/// its verdicts.
#[derive(Debug)]
pub(super) struct Rule<'a> {
    pub(super) now: Instant,
    pub(super) send_buffer: &'a mut SendBuffer,
    pub(super) budget: &'a mut Budget,
    notices: &'a mut Notices,
    binding: &'a mut Binding,
    output: &'a mut Output,
    pub(super) paths: &'a [Path],
    /// Views of this moment.
    pub(super) views: &'a mut [PathView],
    /// Maximum number of copies in flight.
    most_copies: u32,
    pub(super) max_packet_bytes: u32,
}

impl Rule<'_> {
    /// Returns the verdict about a fragment of `bytes` bytes on the wire after news about it, and
    /// the way of the other copy. Copies on the `suspected` paths no longer count.
    pub(super) fn verdict(
        &mut self,
        id: FragmentId,
        suspected: PathSet,
        reason: SendReason,
        bytes: u32,
    ) -> (Verdict, Option<CopyPath>) {
        let Some(copies_in_flight) = self.send_buffer.copies_in_flight(id) else {
            return (Verdict::Settled, None);
        };
        let now = self.now;
        let search = Search {
            now,
            copies_in_flight,
            suspected,
            bytes,
        };
        let best = self.best_for_copy(&search);
        let (mut chance, known_after) = self.chance(&copies_in_flight, suspected);
        // A path that keeps this many to itself keeps the next one, too.
        if best.is_some_and(|best| copies_in_flight.copies_on(best.id) >= MOST_COPIES) {
            chance = 1.0;
        }
        let mut outlook = Outlook {
            now,
            chance,
            known_after,
            arrives_after: Duration::ZERO,
            delay_margin: Duration::ZERO,
            loss_reported_after: Duration::ZERO,
        };
        // Without a path the copy waits for one; whether that is too late is decided then.
        if let Some(best) = best {
            outlook.arrives_after = search.arrival(best);
            outlook.delay_margin = best.forecast.delay_margin;
            outlook.loss_reported_after = self.paths[best.id.index()].recovery.loss_delay();
        }
        let best = best.map(|best| best.id);
        let verdict = self.send_buffer.reconsider(id, reason, &outlook);
        let copy_path = match verdict {
            Verdict::SendCopy => best.map(|best| self.copy_path(&search, best)),
            Verdict::Settled | Verdict::Wait | Verdict::GiveUp => None,
        };
        (verdict, copy_path)
    }

    /// Returns the probability that one of the copies in flight arrives in time, without those on
    /// `suspected` paths, and the time until that is known.
    fn chance(&self, copies_in_flight: &CopiesInFlight, suspected: PathSet) -> (f64, Duration) {
        let (mut missing, mut copies, mut known_after) = (1.0, 0, Duration::ZERO);
        let mut most_copies = self.most_copies;
        for path in copies_in_flight.in_flight_on.iter() {
            let view = &self.views[path.index()];
            if suspected.contains(path) || view.state != PathState::Active {
                continue;
            }
            let count = copies_in_flight.copies_on(path);
            copies += count;
            if view.risk.loss_burst_packets >= SHORT_BURST {
                most_copies = most_copies.min(MOST_COPIES_IN_BURSTS);
            }
            missing *= loss_of_copy(view, copies_in_flight.lost_on).powi(count as i32);
            known_after = known_after.max(self.paths[path.index()].recovery.loss_delay());
        }
        if copies >= most_copies {
            (1.0, known_after)
        } else {
            (1.0 - missing, known_after)
        }
    }

    /// Returns the path by which another copy arrives first on average: a path that loses it needs
    /// one more try. Paths that meet the deadline rank first, then those without a copy. A suspect
    /// path is taken only if there is no other.
    fn best_for_copy(&self, search: &Search) -> Option<&PathView> {
        self.views
            .iter()
            .filter(|view| view.state.is_usable() && !view.is_standby)
            .min_by_key(|view| {
                let loss_reported_after = self.paths[view.id.index()].recovery.loss_delay();
                let retry_delay = loss_reported_after
                    .mul_f64(loss_of_copy(view, search.copies_in_flight.lost_on));
                (
                    view.state != PathState::Active,
                    search.is_late(view),
                    search.has_copy(view),
                    search.arrival(view) + retry_delay,
                )
            })
    }

    /// Reconsiders a fragment of `bytes` bytes on the wire after news about it. Copies on the
    /// `suspected` paths no longer count. It is resent, for this reason, if the rule says so.
    pub(super) fn reconsider(
        &mut self,
        id: FragmentId,
        suspected: PathSet,
        reason: SendReason,
        bytes: u32,
    ) -> Verdict {
        let (verdict, copy_path) = self.verdict(id, suspected, reason, bytes);
        match verdict {
            Verdict::SendCopy => self.queue_copy(id, copy_path, reason),
            Verdict::GiveUp => {
                if self.send_buffer.give_up(id.frame) {
                    self.notices.on_given_up(self.now, id.frame, self.output);
                }
            }
            Verdict::Settled | Verdict::Wait => {}
        }
        verdict
    }

    /// Handles a copy that is lost, or stuck on a suspect path: another one may be worth sending.
    pub(super) fn on_copy_lost(&mut self, path: PathId, packet: &SentPacket, reason: SendReason) {
        if let PacketContent::Repair { frame, repair } = packet.content {
            self.send_buffer.on_repair_settled(frame, repair);
        }
        let suspected = match reason {
            SendReason::PathSuspect => PathSet::only(path),
            _ => PathSet::EMPTY,
        };
        for id in self.send_buffer.carried_by(packet.content) {
            if suspected.is_empty() {
                self.send_buffer.on_lost(id, path);
            }
            self.reconsider(id, suspected, reason, packet.bytes);
        }
    }

    /// Judges again the lost fragments for which repairs have come too late or not at all.
    pub(super) fn reconsider_unrepaired(&mut self) {
        while let Some(id) = self.send_buffer.next_unrepaired(self.now) {
            let (bytes, reason) = (self.max_packet_bytes, SendReason::NotRecovered);
            self.reconsider(id, PathSet::EMPTY, reason, bytes);
        }
    }

    /// Queues another copy.
    pub(super) fn queue_copy(
        &mut self,
        id: FragmentId,
        copy_path: Option<CopyPath>,
        reason: SendReason,
    ) {
        let avoid = copy_path.map_or(PathSet::EMPTY, |copy_path| copy_path.avoid);
        self.send_buffer.queue_retransmission(id, avoid, reason);
        self.binding.request();
    }

    /// Returns the way by the best path. Other paths that are equally good need not be avoided.
    fn copy_path(&self, search: &Search, best: PathId) -> CopyPath {
        let best = &self.views[best.index()];
        let worse = self.views.iter().filter(|view| {
            let has_more =
                |has: fn(&Search, &PathView) -> bool| has(search, view) && !has(search, best);
            let is_worse =
                search.is_late(view) || has_more(Search::has_lost) || has_more(Search::has_copy);
            view.id != best.id && is_worse
        });
        CopyPath {
            path: best.id,
            avoid: worse.map(|view| view.id).collect(),
        }
    }
}

impl Media {
    /// Returns the rule as of now, by `ctx.views`.
    pub(super) fn rule<'a>(&'a mut self, ctx: &'a mut Context<'_>) -> Rule<'a> {
        debug_assert!(are_present(ctx.views, ctx.paths, ctx.now));
        let most_copies = if ctx.config.laboratory.rules.has(SenderRule::SecondCopies) {
            MOST_COPIES
        } else {
            1
        };
        Rule {
            now: ctx.now,
            send_buffer: &mut self.send_buffer,
            budget: &mut self.budget,
            notices: &mut self.notices,
            binding: &mut self.binding,
            output: ctx.output,
            paths: ctx.paths,
            views: ctx.views,
            most_copies,
            max_packet_bytes: ctx.sizes.max_packet_bytes,
        }
    }
}

/// Returns the probability that a copy is lost on this path: after a loss, at least that of the
/// burst going on.
fn loss_of_copy(view: &PathView, lost_on: PathSet) -> f64 {
    let burst_goes_on = if lost_on.contains(view.id) {
        1.0 - 1.0 / view.risk.loss_burst_packets.max(1.0)
    } else {
        0.0
    };
    view.risk.recent_loss().max(burst_goes_on)
}
