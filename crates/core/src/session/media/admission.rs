//! Choice of the frames that are sent at all, if the source exceeds the paths' capacity.
//!
//! One question is asked of every frame before its first packet leaves, and again while it waits:
//! can its *last* packet arrive in time at the paths' delivery rate? A frame is either begun with
//! the intention to finish it, or given up whole, with all that need it. `docs/algorithms.md` shows
//! which frames make way.

use anabranch_units::{Duration, Importance, Instant};

use super::MediaSession;
use crate::config::SourceLimits;
use crate::media::{FrameId, Group, Unsent};
use crate::path::{FluidModel, Path, SPARE_LIFETIME};
use crate::path_view::PathState;

/// Inverse of the part of its lifetime that an unfinished frame waits before the session is
/// overloaded. An overload lasts until nothing waits. Before one, the paths' full capacity may be
/// unknown, and a frame refused too early costs all that need it.
const WAIT_OF_OVERLOAD: u64 = 2;
/// Inverse of the part of its lifetime by which a new frame must arrive before its deadline. It can
/// then still finish if the paths become a little slower.
const SPARE_OF_NEW: u64 = 8;
/// Inverse of the same part for a frame that waits already.
const SPARE_OF_WAITING: u64 = 32;

/// Inputs of the decision about a frame.
#[derive(Clone, Copy, Debug)]
struct Admission {
    now: Instant,
    lifetime: Duration,
    is_chain_broken: bool,
    /// The frame that has just come, if one has.
    new: Option<FrameId>,
}

impl Admission {
    /// Returns whether to give up a frame that leaves behind `ahead_bytes`.
    fn refuses(&self, frame: &Unsent, ahead_bytes: u64, model: &FluidModel) -> bool {
        let arrives_at = self.now + model.time_for(ahead_bytes + frame.bytes);
        let is_new = self.new == Some(frame.frame);
        let spare = match frame.is_begun {
            true => Duration::ZERO,
            false if frame.importance.is_key() => self.lifetime / SPARE_LIFETIME,
            false if is_new => self.lifetime / SPARE_OF_NEW,
            false => self.lifetime / SPARE_OF_WAITING,
        };
        if arrives_at + spare > frame.due_at {
            return true;
        }
        // A path that comes back may have room for it.
        if model.is_interrupted() {
            return false;
        }
        // A frame that cannot be decoded may only use spare capacity.
        let is_undecodable = is_new && !frame.importance.is_key() && self.is_chain_broken;
        is_undecodable && model.drain_time(ahead_bytes) > self.lifetime / SPARE_LIFETIME
    }
}

impl MediaSession {
    /// Gives up frames that cannot arrive in time at the paths' delivery rate. `new` is the frame
    /// that has just come, if one has.
    pub(super) fn admit(&mut self, now: Instant, new: Option<FrameId>) {
        // If frames stand alone, each is given up as late as possible: paths may become faster. An
        // encoder that follows the paths ends an overload by itself, and the capacity of a path
        // that was never full is unknown. A frame refused too early would cost all that need it.
        let has_structure = self.content.send_buffer.has_structure();
        let is_fixed = self.config.media.source == SourceLimits::Fixed;
        let is_bare = self.config.media.endpoint.is_bare();
        if is_bare || !is_fixed || !has_structure || self.content.scheduler.is_redundant() {
            return;
        }
        let lifetime = self.config.media.deadline;
        let is_busy =
            self.content.send_buffer.has_waiting() || self.paths.iter().any(|p| p.has_bound());
        let patience = lifetime / WAIT_OF_OVERLOAD;
        let oldest = self.content.send_buffer.unsent().next();
        // A backlog from the wait for a returning path was not too much for it.
        let has_waited = now > self.content.path_changed_at + patience
            && oldest.is_some_and(|frame| now + (lifetime - patience) > frame.due_at);
        self.content.is_overloaded = is_busy && (self.content.is_overloaded || has_waited);
        let is_active = |path: &Path| path.state() == PathState::Active;
        if !self.content.is_overloaded || !self.paths.iter().any(is_active) {
            return;
        }
        let model = FluidModel::of(self.paths.iter(), now, lifetime);
        let mut admission = Admission {
            now,
            lifetime,
            is_chain_broken: self.content.send_buffer.is_chain_broken(),
            new,
        };
        if let Some(key) = new.filter(|id| self.content.send_buffer.is_key(*id)) {
            self.end_group_before(now, key, &model);
        }
        while let Some(refused) = self.first_refused(&admission, &model) {
            let frame = self.least_needed_before(refused);
            match model.is_interrupted() {
                true => self.give_up_alone(now, frame),
                false => self.give_up_for_good(now, frame),
            }
            admission.is_chain_broken = self.content.send_buffer.is_chain_broken();
        }
    }

    /// Returns the largest backlog at the next key frame, as the time to drain it; `None` if the
    /// paths carry whole groups.
    fn backlog_at_key(&self, group: &Group, model: &FluidModel) -> Option<Duration> {
        let payload_share =
            f64::from(self.config.fragment_bytes) / f64::from(self.max_packet_bytes);
        let carried = model.rate().mul_f64(payload_share);
        let lifetime = self.config.media.deadline;
        let longest =
            (lifetime - lifetime / SPARE_OF_NEW).saturating_sub(model.min_one_way_delay());
        let needed = carried.time_for(group.key_bytes + group.other_bytes);
        if needed <= group.span || group.span <= longest {
            return None;
        }
        // The next group may end when the longest queue takes as long as the rest of it. The queue
        // before it must be shorter than that by the growth until then.
        let begun = group.span - longest;
        let share = begun.as_secs_f64() / group.span.as_secs_f64();
        let others = carried.time_for(group.other_bytes).mul_f64(share);
        let growth = (carried.time_for(group.key_bytes) + others).saturating_sub(begun);
        Some(longest.saturating_sub(growth) / 2)
    }

    fn first_refused(&self, admission: &Admission, model: &FluidModel) -> Option<FrameId> {
        let mut ahead_bytes = self.bound_retransmission_bytes();
        for frame in self.content.send_buffer.unsent() {
            if admission.refuses(&frame, ahead_bytes, model) {
                return Some(frame.frame);
            }
            ahead_bytes += frame.bytes;
        }
        None
    }

    /// Returns the bytes of bound retransmissions, which leave before all other packets.
    fn bound_retransmission_bytes(&self) -> u64 {
        let bound = self
            .paths
            .iter()
            .map(|path| path.bound_retransmission_bytes());
        bound.sum()
    }

    /// Returns the frame to give up so that `refused` may arrive: the newest one up to it, of which
    /// nothing has left, that cannot be decoded, else that no other needs, else `refused` itself.
    fn least_needed_before(&self, refused: FrameId) -> FrameId {
        let newest = |is_wanted: fn(&Unsent) -> bool| {
            let unsent = self.content.send_buffer.unsent();
            let candidates = unsent
                .take_while(|frame| frame.frame <= refused)
                .filter(|frame| is_wanted(frame) && !frame.is_begun);
            candidates.last().map(|frame| frame.frame)
        };
        newest(|frame| frame.is_undecodable)
            .or_else(|| newest(|frame| frame.importance == Importance::Disposable))
            .unwrap_or(refused)
    }

    /// Ends the group before the key frame `key`, which has just come, at its best last frame.
    ///
    /// If a source gives too much for a long time, the beginning of each group is worth most. After
    /// the end of a group the queue drains until the next key frame; a queue that is empty earlier
    /// wastes capacity. So a group ends as late as the next one still has room to grow the queue
    /// again.
    fn end_group_before(&mut self, now: Instant, key: FrameId, model: &FluidModel) {
        let Some(group) = self.content.send_buffer.group(now) else {
            return;
        };
        let Some(backlog) = self.backlog_at_key(&group, model) else {
            return;
        };
        let mut ahead_bytes = self.bound_retransmission_bytes();
        let mut unsent = self.content.send_buffer.unsent();
        let first_too_many = unsent.find(|frame| {
            ahead_bytes += frame.bytes;
            frame.frame < key && !frame.is_begun && model.drain_time(ahead_bytes) > backlog
        });
        let ends_at = first_too_many.map(|frame| frame.frame);
        drop(unsent);
        if let Some(frame) = ends_at {
            self.give_up_for_good(now, frame);
        }
    }

    /// Gives up a frame. The frames that need it stay: a player may conceal the gap, and
    /// each has its own last moment.
    fn give_up_alone(&mut self, now: Instant, frame: FrameId) {
        self.content.send_buffer.give_up_alone(frame);
        self.paths
            .iter_mut()
            .for_each(|path| path.unbind_frame(frame));
        self.on_given_up(now, frame);
    }

    /// Gives up a frame and all that need it, wherever it waits.
    pub(super) fn give_up_for_good(&mut self, now: Instant, frame: FrameId) {
        let mut late = Vec::new();
        self.content
            .send_buffer
            .give_up_with_dependents(frame, |id| late.push(id));
        for id in late {
            self.paths.iter_mut().for_each(|path| path.unbind_frame(id));
            self.on_given_up(now, id);
        }
    }
}
