//! The record that the demo's threads share: each frame from capture to check.

use std::sync::{Mutex, MutexGuard, PoisonError};

use anabranch_core::FrameId;
use anabranch_units::{Duration, Importance, Instant};
use anabranch_video::fidelity::Fidelity;
use anabranch_video::player::Decodability;

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
    /// Index of each frame that the transport accepted; the transport numbers them from zero.
    indices: Vec<usize>,
    /// Sent content, if it is compared with the received content.
    contents: Vec<Option<Vec<u8>>>,
    /// Frames that the transport accepted and that were neither delivered nor given up.
    pending_count: u64,
    /// Decodability by index, so that a frame that was never sent breaks the chain too.
    decodability: Decodability,
    /// Index of the first frame that `decodability` has not seen. Frames before the first delivered
    /// one do not count.
    next_index: Option<usize>,
    displayable_count: u64,
    /// Thumbnail of the last delivered key frame, until the view takes it.
    key_picture: Option<Picture>,
}

/// Totals for the live view.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FrameTotals {
    pub(super) captured_count: usize,
    pub(super) delivered_count: usize,
    pub(super) displayable_count: u64,
    /// Mean delay of delivered frames captured in the last second.
    pub(super) mean_delay: Option<Duration>,
    pub(super) max_delay: Option<Duration>,
}

impl Ledger {
    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a picture was captured, and returns its index. Nothing is recorded as sent yet.
    pub(super) fn on_captured(&self, captured_at: Instant) -> usize {
        let mut entries = self.lock();
        entries.frames.push(FrameRecord {
            captured_at,
            ..FrameRecord::default()
        });
        entries.frames.len() - 1
    }

    /// Records that the frame is about to be given to the transport. `content` is kept for the
    /// comparison.
    pub(super) fn on_sending(
        &self,
        index: usize,
        importance: Importance,
        payload_bytes: u64,
        content: &[u8],
    ) {
        let mut entries = self.lock();
        let frame = &mut entries.frames[index];
        frame.importance = importance;
        frame.payload_bytes = payload_bytes;
        entries.indices.push(index);
        entries.contents.push(Some(content.to_vec()));
        entries.pending_count += 1;
    }

    /// Records that the transport refused the last frame.
    pub(super) fn on_refused(&self) {
        let mut entries = self.lock();
        entries.indices.pop();
        entries.contents.pop();
        entries.pending_count -= 1;
    }

    /// Returns the number of frames that the transport accepted.
    pub(super) fn sent_count(&self) -> usize {
        self.lock().indices.len()
    }

    /// Records that the receiver handed over a frame. Returns whether it is displayable.
    pub(super) fn on_delivered(&self, id: FrameId, delivered_at: Instant) -> bool {
        let entries = &mut *self.lock();
        let index = entries.indices[id.0 as usize];
        entries.frames[index].delivered_at = Some(delivered_at);
        // The importance of missing frames determines whether this one is displayable.
        let next = entries.next_index.unwrap_or(index);
        let mut is_displayable = false;
        for frame in entries.frames.get(next..=index).unwrap_or_default() {
            let is_complete = frame.delivered_at.is_some();
            let decodability = &mut entries.decodability;
            is_displayable = decodability.on_frame(frame.importance, is_complete);
            entries.displayable_count += u64::from(is_displayable);
        }
        entries.next_index = Some(next.max(index + 1));
        entries.pending_count -= 1;
        is_displayable
    }

    /// Records that the receiver gave up a frame.
    pub(super) fn on_dropped(&self) {
        let mut entries = self.lock();
        entries.pending_count = entries.pending_count.saturating_sub(1);
    }

    /// Takes the content that was sent as `id`.
    pub(super) fn take_content(&self, id: FrameId) -> Option<Vec<u8>> {
        self.lock().contents[id.0 as usize].take()
    }

    /// Records the result of a content check.
    pub(super) fn on_checked(&self, id: FrameId, check: Check) {
        let mut entries = self.lock();
        let index = entries.indices[id.0 as usize];
        entries.frames[index].check = Some(check);
    }

    /// Records the similarity of the picture displayed in the place of a frame.
    pub(super) fn on_seen(&self, id: FrameId, fidelity: Fidelity) {
        let mut entries = self.lock();
        let index = entries.indices[id.0 as usize];
        entries.frames[index].fidelity = Some(fidelity);
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

    /// Returns the totals so far, and the mean delay of the last second.
    pub(super) fn totals(&self, now: Instant) -> FrameTotals {
        let entries = self.lock();
        let second_ago = now.saturating_sub(Duration::from_secs(1));
        let recent = entries.frames.iter().rev();
        let delays: Vec<Duration> = recent
            .take_while(|frame| frame.captured_at >= second_ago)
            .filter_map(FrameRecord::delay)
            .collect();
        let delivered = |frame: &&FrameRecord| frame.delivered_at.is_some();
        FrameTotals {
            captured_count: entries.frames.len(),
            delivered_count: entries.frames.iter().filter(delivered).count(),
            displayable_count: entries.displayable_count,
            mean_delay: mean(&delays),
            max_delay: delays.iter().max().copied(),
        }
    }

    /// Returns a copy of the records of frames captured before `at`.
    pub(super) fn frames_before(&self, at: Instant) -> Vec<FrameRecord> {
        let entries = self.lock();
        let count = entries
            .frames
            .partition_point(|frame| frame.captured_at < at);
        entries.frames[..count].to_vec()
    }

    /// Returns the records of all frames, once the threads have ended.
    pub(super) fn into_frames(self) -> Vec<FrameRecord> {
        let entries = self.0.into_inner();
        entries.unwrap_or_else(PoisonError::into_inner).frames
    }
}

/// Returns the mean of some durations; `None` if there are none.
fn mean(spans: &[Duration]) -> Option<Duration> {
    let count = spans.len() as u64;
    (count > 0).then(|| spans.iter().copied().sum::<Duration>() / count)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Captures and sends frames at 40 ms intervals.
    fn send(ledger: &Ledger, is_key: bool) {
        let count = ledger.lock().frames.len() as u64;
        let index = ledger.on_captured(Instant::from_millis(40 * count));
        let importance = Importance::key_if(is_key);
        ledger.on_sending(index, importance, 1_000, &[count as u8]);
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
        let displayable: Vec<bool> = (0..3)
            .map(|id| ledger.on_delivered(FrameId(id), at))
            .collect();
        assert_eq!(displayable, [true, false, true]);
        assert!(ledger.is_settled());
        let frames = ledger.into_frames();
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
        let totals = ledger.totals(Instant::from_millis(500));
        assert_eq!((totals.captured_count, totals.delivered_count), (2, 1));
        assert_eq!(totals.mean_delay, Some(Duration::from_millis(70)));
    }

    #[test]
    fn frames_are_those_taken_before() {
        let ledger = Ledger::default();
        (0..5).for_each(|_| send(&ledger, false));
        assert_eq!(ledger.frames_before(Instant::from_millis(80)).len(), 2);
        assert_eq!(ledger.frames_before(Instant::from_millis(81)).len(), 3);
    }

    #[test]
    fn content_is_kept_until_it_is_compared() {
        let ledger = Ledger::default();
        send(&ledger, true);
        assert_eq!(ledger.take_content(FrameId(0)), Some(vec![0]));
        assert_eq!(ledger.take_content(FrameId(0)), None);
    }
}
