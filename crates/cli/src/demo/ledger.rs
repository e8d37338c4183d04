//! The record that the demo's threads share: each frame from capture to check.

use std::sync::{Mutex, MutexGuard, PoisonError};

use anabranch_core::{Frame, FrameId};
use anabranch_units::{Duration, Importance, Instant};
use anabranch_video::fidelity::Fidelity;
use anabranch_video::player::Decodability;
use bytes::Bytes;

use crate::view::Picture;

/// Record of one captured picture.
#[derive(Clone, Debug, Default)]
pub(super) struct FrameRecord {
    /// Time of the capture.
    pub(super) captured_at: Instant,
    /// Importance for other frames.
    pub(super) importance: Importance,
    /// Encoded size.
    pub(super) payload_bytes: u64,
    /// Time of the delivery; `None` if the frame was not delivered.
    pub(super) delivered_at: Option<Instant>,
    /// Result of the content check.
    pub(super) check: Option<Check>,
    /// Similarity of the displayed picture to the camera's. The displayed picture is this frame or
    /// an earlier one that stood still in its place.
    pub(super) fidelity: Option<Fidelity>,
}

impl FrameRecord {
    /// Returns the time from capture to delivery.
    pub(super) fn delay(&self) -> Option<Duration> {
        self.delivered_at
            .map(|at| at.saturating_since(self.captured_at))
    }
}

/// Result of checking a received frame's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// The content is equal to the sent one.
    Right,
    /// The content differs.
    Wrong,
    /// The content gave no picture.
    Undecodable,
}

/// Ledger that the threads share. Frames are indexed in the order of their capture.
#[derive(Debug, Default)]
pub(super) struct Ledger(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    frames: Vec<FrameRecord>,
    /// Index and content of each frame that the transport accepted; the transport numbers them from
    /// zero.
    sent: Vec<(usize, Bytes)>,
    /// Frames that the transport accepted and that were neither delivered nor given up.
    pending_count: u64,
    /// Decodability by index, so that a frame that was never sent breaks the chain too.
    decodability: Decodability,
    /// Index of the first frame that `decodability` has not seen. Frames before the first delivered
    /// one do not count.
    next_index: Option<usize>,
    /// Thumbnail of the last delivered key frame, until the view takes it.
    key_picture: Option<Picture>,
}

impl Ledger {
    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a frame is about to be given to the transport.
    pub(super) fn on_sending(&self, frame: &Frame) {
        let mut entries = self.lock();
        let index = entries.frames.len();
        entries.frames.push(FrameRecord {
            captured_at: frame.captured_at,
            importance: frame.importance,
            payload_bytes: frame.bytes.len() as u64,
            ..FrameRecord::default()
        });
        entries.sent.push((index, frame.bytes.clone()));
        entries.pending_count += 1;
    }

    /// Records that the transport refused the last frame.
    pub(super) fn on_refused(&self) {
        let mut entries = self.lock();
        entries.sent.pop();
        entries.pending_count -= 1;
    }

    /// Records that the receiver handed over a frame. Returns its index, and whether it is
    /// displayable.
    pub(super) fn on_delivered(&self, id: FrameId, delivered_at: Instant) -> (usize, bool) {
        let entries = &mut *self.lock();
        let (index, _) = entries.sent[id.0 as usize];
        entries.frames[index].delivered_at = Some(delivered_at);
        // The importance of missing frames determines whether this one is displayable.
        let next = entries.next_index.unwrap_or(index);
        let mut is_displayable = false;
        for frame in entries.frames.get(next..=index).unwrap_or_default() {
            let is_complete = frame.delivered_at.is_some();
            let decodability = &mut entries.decodability;
            is_displayable = decodability.on_frame(frame.importance, is_complete);
        }
        entries.next_index = Some(next.max(index + 1));
        entries.pending_count -= 1;
        (index, is_displayable)
    }

    /// Records that the receiver gave up a frame.
    pub(super) fn on_dropped(&self) {
        let mut entries = self.lock();
        entries.pending_count = entries.pending_count.saturating_sub(1);
    }

    /// Takes the content that was sent as `id`; it is empty if it was taken before.
    pub(super) fn take_content(&self, id: FrameId) -> Bytes {
        core::mem::take(&mut self.lock().sent[id.0 as usize].1)
    }

    /// Records the result of the content check of the frame at `index`.
    pub(super) fn on_checked(&self, index: usize, check: Check) {
        self.lock().frames[index].check = Some(check);
    }

    /// Records the similarity of the picture displayed in the place of the frame at `index`.
    pub(super) fn on_seen(&self, index: usize, fidelity: Fidelity) {
        self.lock().frames[index].fidelity = Some(fidelity);
    }

    /// Returns the time of the frame's capture.
    pub(super) fn captured_at(&self, index: usize) -> Instant {
        self.lock().frames[index].captured_at
    }

    /// Records that a key frame was decoded.
    pub(super) fn on_key_picture(&self, picture: Option<Picture>) {
        let mut entries = self.lock();
        entries.key_picture = picture.or(entries.key_picture.take());
    }

    /// Takes the last key frame, if it was not taken before.
    pub(super) fn take_key_picture(&self) -> Option<Picture> {
        self.lock().key_picture.take()
    }

    /// Returns whether every sent frame was delivered or given up.
    pub(super) fn is_settled(&self) -> bool {
        self.lock().pending_count == 0
    }

    /// Returns a copy of all records.
    pub(super) fn frames(&self) -> Vec<FrameRecord> {
        self.lock().frames.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Captures and sends frames at 40 ms intervals.
    fn send(ledger: &Ledger, is_key: bool) {
        let count = ledger.frames().len() as u64;
        ledger.on_sending(&Frame {
            bytes: vec![count as u8].into(),
            importance: Importance::key_if(is_key),
            captured_at: Instant::from_millis(40 * count),
            lifetime: None,
        });
    }

    #[test]
    fn a_refused_frame_breaks_the_chain_until_the_next_key_frame() {
        let ledger = Ledger::default();
        send(&ledger, true);
        send(&ledger, false);
        ledger.on_refused();
        send(&ledger, false);
        send(&ledger, true);
        let at = Instant::from_millis(200);
        let delivered: Vec<_> = (0..3)
            .map(|id| ledger.on_delivered(FrameId(id), at))
            .collect();
        assert_eq!(delivered, [(0, true), (2, false), (3, true)]);
        assert!(ledger.is_settled());
        let frames = ledger.frames();
        assert_eq!(frames.len(), 4);
        assert_eq!(frames[1].delivered_at, None);
        assert_eq!(frames[2].delay(), Some(Duration::from_millis(120)));
    }

    #[test]
    fn frames_are_pending_until_they_come_or_are_given_up() {
        let ledger = Ledger::default();
        send(&ledger, true);
        send(&ledger, false);
        ledger.on_delivered(FrameId(0), Instant::from_millis(70));
        assert!(!ledger.is_settled());
        ledger.on_dropped();
        assert!(ledger.is_settled());
    }

    #[test]
    fn content_is_kept_until_it_is_compared() {
        let ledger = Ledger::default();
        send(&ledger, true);
        assert_eq!(ledger.take_content(FrameId(0)), [0][..]);
        assert!(ledger.take_content(FrameId(0)).is_empty());
    }
}
