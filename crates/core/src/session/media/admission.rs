//! Choice of the frames that are sent at all, if the source exceeds the paths' capacity.
//!
//! One question is asked of every frame before its first packet leaves, and again while it waits:
//! can its *last* packet arrive in time at the paths' delivery rate? A frame is either begun with
//! the intention to finish it, or given up whole, with all that need it.
//! `docs/session-rules.md` shows which frames make way.

use anabranch_units::{Duration, Importance, Instant};

use crate::config::{Config, SourceLimits};
use crate::media::{FrameId, Group, SendBuffer, Unsent};
use crate::path::{FluidModel, Path, SPARE_LIFETIME};
use crate::path_view::{PathState, PathView};
use crate::sender_rules::SenderRule;

/// Inverse of the part of its lifetime that an unfinished frame waits before the session is
/// overloaded. An overload lasts until nothing waits. Before one, the paths' full capacity may be
/// unknown, and a frame refused too early costs all that need it.
const WAIT_OF_OVERLOAD: u64 = 2;
/// Inverse of the part of its lifetime by which a new frame must arrive before its deadline. It can
/// then still finish if the paths become a little slower.
const SPARE_OF_NEW: u64 = 8;
/// Inverse of the same part for a frame that waits already.
const SPARE_OF_WAITING: u64 = 32;

/// Decisions about the frames that are sent.
#[derive(Debug)]
pub(super) struct Admission {
    /// Whether frames have waited for too long, and the queue has not been empty since.
    is_overloaded: bool,
    /// When a path last went out or came back.
    path_changed_at: Instant,
}

/// Inputs of the decisions at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Occasion {
    pub(super) now: Instant,
    /// Lifetime of frames.
    pub(super) lifetime: Duration,
    /// The frame that has just come, if one has.
    pub(super) new: Option<FrameId>,
    /// Payload of a full packet, as a share of its bytes on the wire.
    pub(super) payload_share: f64,
}

impl Occasion {
    /// Returns whether to give up a frame that leaves behind `ahead_bytes`.
    fn refuses(
        &self,
        frame: &Unsent,
        ahead_bytes: u64,
        is_chain_broken: bool,
        model: &FluidModel,
    ) -> bool {
        let arrives_at = self.now + model.time_for(ahead_bytes + frame.bytes);
        let is_new = self.new == Some(frame.frame);
        let spare = if frame.is_begun {
            Duration::ZERO
        } else if frame.importance.is_key() {
            self.lifetime / SPARE_LIFETIME
        } else if is_new {
            self.lifetime / SPARE_OF_NEW
        } else {
            self.lifetime / SPARE_OF_WAITING
        };
        if arrives_at + spare > frame.due_at {
            return true;
        }
        // A path that comes back may have room for it.
        if model.is_interrupted() {
            return false;
        }
        // A frame that cannot be decoded may only use spare capacity.
        let is_undecodable = is_new && !frame.importance.is_key() && is_chain_broken;
        is_undecodable && model.drain_time(ahead_bytes) > self.lifetime / SPARE_LIFETIME
    }

    /// Returns the largest backlog at the next key frame, as the time to drain it; `None` if the
    /// paths carry whole groups.
    fn backlog_at_key(&self, group: &Group, model: &FluidModel) -> Option<Duration> {
        let carried = model.rate().mul_f64(self.payload_share);
        let lifetime = self.lifetime;
        let longest = (lifetime - lifetime / SPARE_OF_NEW).saturating_sub(model.nearest());
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
}

impl Admission {
    pub(super) fn new(now: Instant) -> Self {
        Admission {
            is_overloaded: false,
            path_changed_at: now,
        }
    }

    /// Handles a path that went out or came back.
    pub(super) fn on_path_changed(&mut self, now: Instant) {
        self.path_changed_at = now;
    }

    /// Updates and returns whether frames may have to be given up.
    pub(super) fn update(
        &mut self,
        now: Instant,
        config: &Config,
        is_redundant: bool,
        send_buffer: &SendBuffer,
        paths: &[Path],
    ) -> bool {
        // If frames stand alone, each is given up as late as possible: paths may become faster. An
        // encoder that follows the paths ends an overload by itself, and the capacity of a path
        // that was never full is unknown. A frame refused too early would cost all that need it.
        let is_fixed = config.media.source == SourceLimits::Fixed;
        let is_off = !config.laboratory.rules.has(SenderRule::Admission);
        if is_off || !is_fixed || !send_buffer.has_structure() || is_redundant {
            return false;
        }
        let lifetime = config.media.deadline;
        let is_busy = send_buffer.has_waiting() || paths.iter().any(Path::has_bound);
        let patience = lifetime / WAIT_OF_OVERLOAD;
        let oldest = send_buffer.unsent().next();
        // A backlog from the wait for a returning path was not too much for it.
        let has_waited = now > self.path_changed_at + patience
            && oldest.is_some_and(|frame| now + (lifetime - patience) > frame.due_at);
        self.is_overloaded = is_busy && (self.is_overloaded || has_waited);
        self.is_overloaded && paths.iter().any(|path| path.state() == PathState::Active)
    }
}

/// Gives up frames that cannot arrive in time at the paths' delivery rate, and unbinds them.
/// Returns them.
pub(super) fn admit(
    occasion: &Occasion,
    send_buffer: &mut SendBuffer,
    paths: &mut [Path],
    views: &[PathView],
) -> Vec<FrameId> {
    let mut given_up = Vec::new();
    let model = FluidModel::of(paths.iter().zip(views), occasion.now, occasion.lifetime);
    let mut choice = Choice {
        occasion,
        model: &model,
        send_buffer,
        paths,
        given_up: &mut given_up,
    };
    let key = occasion.new.filter(|id| choice.send_buffer.is_key(*id));
    if let Some(key) = key {
        choice.end_group_before(key);
    }
    while let Some(refused) = choice.first_refused() {
        let frame = choice.least_needed_before(refused);
        if model.is_interrupted() {
            choice.give_up_alone(frame);
        } else {
            choice.give_up_for_good(frame);
        }
    }
    given_up
}

/// Choice of frames to give up, during an overload.
struct Choice<'a> {
    occasion: &'a Occasion,
    model: &'a FluidModel,
    send_buffer: &'a mut SendBuffer,
    paths: &'a mut [Path],
    given_up: &'a mut Vec<FrameId>,
}

impl Choice<'_> {
    fn first_refused(&self) -> Option<FrameId> {
        let mut ahead_bytes = self.bound_retransmission_bytes();
        let is_chain_broken = self.send_buffer.is_chain_broken();
        for frame in self.send_buffer.unsent() {
            let occasion = self.occasion;
            if occasion.refuses(&frame, ahead_bytes, is_chain_broken, self.model) {
                return Some(frame.frame);
            }
            ahead_bytes += frame.bytes;
        }
        None
    }

    /// Returns the bytes of bound retransmissions, which leave before all other packets.
    fn bound_retransmission_bytes(&self) -> u64 {
        let bound = self.paths.iter().map(Path::bound_retransmission_bytes);
        bound.sum()
    }

    /// Returns the frame to give up so that `refused` may arrive: the newest one up to it, of which
    /// nothing has left, that cannot be decoded, else that no other needs, else `refused` itself.
    fn least_needed_before(&self, refused: FrameId) -> FrameId {
        self.newest_unsent(refused, |frame| frame.is_undecodable)
            .or_else(|| {
                self.newest_unsent(refused, |frame| frame.importance == Importance::Disposable)
            })
            .unwrap_or(refused)
    }

    /// Returns the newest frame up to `last` of this kind of which nothing has left.
    fn newest_unsent(&self, last: FrameId, is_wanted: fn(&Unsent) -> bool) -> Option<FrameId> {
        let candidates = self
            .send_buffer
            .unsent()
            .take_while(|frame| frame.frame <= last)
            .filter(|frame| is_wanted(frame) && !frame.is_begun);
        candidates.last().map(|frame| frame.frame)
    }

    /// Ends the group before the key frame `key`, which has just come, at its best last frame.
    ///
    /// If a source gives too much for a long time, the beginning of each group is worth most. After
    /// the end of a group the queue drains until the next key frame; a queue that is empty earlier
    /// wastes capacity. So a group ends as late as the next one still has room to grow the queue
    /// again.
    fn end_group_before(&mut self, key: FrameId) {
        let group = self.send_buffer.group(self.occasion.now);
        let backlog = group.and_then(|group| self.occasion.backlog_at_key(&group, self.model));
        let Some(backlog) = backlog else {
            return;
        };
        let mut ahead_bytes = self.bound_retransmission_bytes();
        let model = self.model;
        let first_too_many = self.send_buffer.unsent().find(|frame| {
            ahead_bytes += frame.bytes;
            frame.frame < key && !frame.is_begun && model.drain_time(ahead_bytes) > backlog
        });
        let ends_at = first_too_many.map(|frame| frame.frame);
        if let Some(frame) = ends_at {
            self.give_up_for_good(frame);
        }
    }

    /// Gives up a frame. The frames that need it stay: a player may conceal the gap, and
    /// each has its own last moment.
    fn give_up_alone(&mut self, frame: FrameId) {
        self.send_buffer.give_up_alone(frame);
        unbind(frame, self.paths);
        self.given_up.push(frame);
    }

    fn give_up_for_good(&mut self, frame: FrameId) {
        let given_up = give_up_for_good(frame, self.send_buffer, self.paths);
        self.given_up.extend(given_up);
    }
}

/// Gives up a frame and all that need it, wherever it waits. Returns them.
pub(super) fn give_up_for_good(
    frame: FrameId,
    send_buffer: &mut SendBuffer,
    paths: &mut [Path],
) -> Vec<FrameId> {
    let mut late = Vec::new();
    send_buffer.give_up_with_dependents(frame, |id| late.push(id));
    late.iter().for_each(|id| unbind(*id, paths));
    late
}

fn unbind(frame: FrameId, paths: &mut [Path]) {
    for path in paths {
        path.unbind_frame(frame);
    }
}
