//! Worth of waiting frames: which frames depend on which.

use anabranch_units::{Duration, Importance, Instant};

use super::{OutgoingFrame, SendBuffer};
use crate::media::{Frame, FrameId};

/// A frame of which fragments wait for being sent for the first time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unsent {
    pub(crate) frame: FrameId,
    pub(crate) importance: Importance,
    pub(crate) due_at: Instant,
    /// The bytes on the wire of these fragments.
    pub(crate) bytes: u64,
    /// Some of it has left.
    pub(crate) is_begun: bool,
    /// A frame that it needs has been given up.
    pub(crate) is_undecodable: bool,
}

/// From one key frame to the next, as the source had it last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    pub(crate) span: Duration,
    /// The bytes of media of its key frame.
    pub(crate) key_bytes: u64,
    /// Bytes of media of its other frames that others need.
    pub(crate) other_bytes: u64,
    /// When the next group begins, if it begins as the last one did.
    pub(crate) next_key_at: Instant,
}

/// Observed pattern of the source's key frames.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// The group that began with the newest key frame.
    open: Option<OpenGroup>,
    last: Option<Group>,
    /// A frame has been given up that all others need up to the next key frame.
    is_broken: bool,
    has_disposable: bool,
    newest_key: Option<FrameId>,
    /// The newest two frames are key frames: no frame needs another one.
    is_all_intra: bool,
    is_newest_key: bool,
}

#[derive(Clone, Copy, Debug)]
struct OpenGroup {
    began_at: Instant,
    key_bytes: u64,
    other_bytes: u64,
}

impl Groups {
    pub(super) fn on_frame(&mut self, id: FrameId, frame: &Frame) {
        let is_key = frame.importance.is_key();
        let was_key = core::mem::replace(&mut self.is_newest_key, is_key);
        self.is_all_intra = is_key && was_key;
        if is_key {
            self.newest_key = Some(id);
        }
        let bytes = frame.bytes.len() as u64;
        match (&mut self.open, frame.importance) {
            (open, Importance::Key) => {
                let now = frame.captured_at;
                self.last = open.map(|group| Group {
                    span: now.saturating_since(group.began_at),
                    key_bytes: group.key_bytes,
                    other_bytes: group.other_bytes,
                    next_key_at: now + now.saturating_since(group.began_at),
                });
                self.open = Some(OpenGroup {
                    began_at: now,
                    key_bytes: bytes,
                    other_bytes: 0,
                });
                self.is_broken = false;
            }
            (Some(group), Importance::Reference) => group.other_bytes += bytes,
            (None, Importance::Reference) => {}
            (_, Importance::Disposable) => self.has_disposable = true,
        }
    }

    /// Counts further bytes of the newest frame.
    pub(super) fn on_more_bytes(&mut self, importance: Importance, bytes: u64) {
        match (&mut self.open, importance) {
            (Some(group), Importance::Key) => group.key_bytes += bytes,
            (Some(group), Importance::Reference) => group.other_bytes += bytes,
            _ => {}
        }
    }

    /// Returns whether a frame is of use after its deadline: the newest key frame is, since all
    /// frames up to the next one need it.
    pub(super) fn outlives_deadline(&self, id: FrameId) -> bool {
        self.newest_key == Some(id) && !self.is_all_intra
    }
}

impl SendBuffer {
    /// Returns whether frames have shown their dependencies: a key frame, or a frame that no other
    /// needs.
    pub(crate) fn has_structure(&self) -> bool {
        self.groups.open.is_some() || self.groups.has_disposable
    }

    /// Returns whether the newest frames need a missing one.
    pub(crate) fn is_chain_broken(&self) -> bool {
        self.groups.is_broken
    }

    /// Returns the source's last whole group, if the next key frame is still to come.
    pub(crate) fn group(&self, now: Instant) -> Option<Group> {
        self.groups.last.filter(|group| group.next_key_at > now)
    }

    /// Returns whether this is a key frame that is still of interest.
    pub(crate) fn is_key(&self, id: FrameId) -> bool {
        let frame = self.frame(id);
        frame.is_some_and(|frame| frame.importance.is_key())
    }

    /// Iterates over the frames with fragments that wait for their first transmission, oldest
    /// first.
    pub(crate) fn unsent(&self) -> impl Iterator<Item = Unsent> + '_ {
        let indexed = self.frames.iter().enumerate();
        let waiting = indexed.filter(|(_, frame)| !frame.is_given_up && frame.never_sent_count > 0);
        waiting.map(|(index, frame)| Unsent {
            frame: FrameId(self.first.0 + index as u64),
            importance: frame.importance,
            due_at: self.deadline_of(frame),
            bytes: self.never_sent_bytes(frame),
            is_begun: usize::from(frame.never_sent_count) < frame.fragments.len(),
            is_undecodable: frame.is_undecodable,
        })
    }

    fn never_sent_bytes(&self, frame: &OutgoingFrame) -> u64 {
        let count = u64::from(frame.never_sent_count);
        let payload_bytes = count * u64::from(frame.fragment_bytes);
        payload_bytes.min(frame.bytes.len() as u64) + count * u64::from(self.packet_overhead_bytes)
    }

    /// Stops sending a frame and all waiting frames that need it: those up to the next key frame,
    /// if there are key frames at all. Reports each to `on_late`.
    pub(crate) fn give_up_with_dependents(
        &mut self,
        id: FrameId,
        mut on_late: impl FnMut(FrameId),
    ) {
        if self.give_up(id) {
            on_late(id);
        }
        self.break_chain(id, |buffer, id| {
            let frame = buffer.frame(id);
            if frame.is_some_and(|frame| frame.never_sent_count > 0) && buffer.give_up(id) {
                on_late(id);
            }
        });
    }

    /// Stops sending a frame, and marks those that need it as undecodable.
    pub(crate) fn give_up_alone(&mut self, id: FrameId) {
        self.give_up(id);
        self.break_chain(id, |buffer, id| {
            if let Some(frame) = buffer.frame_mut(id) {
                frame.is_undecodable = true;
            }
        });
    }

    /// Calls `on_dependent` for each frame that needs this one.
    fn break_chain(&mut self, id: FrameId, mut on_dependent: impl FnMut(&mut SendBuffer, FrameId)) {
        let frame = self.frame(id);
        let has_dependents = frame.is_some_and(|it| it.importance != Importance::Disposable);
        if self.groups.open.is_none() || !has_dependents {
            return;
        }
        for next in id.0 + 1..self.first.0 + self.frames.len() as u64 {
            let id = FrameId(next);
            if self.is_key(id) {
                return;
            }
            on_dependent(self, id);
        }
        self.groups.is_broken = true;
    }
}
