//! What a viewer would see: which frames can be displayed, and how long the picture stood still.

use anabranch_units::{Duration, Importance, Instant};

use crate::player::Decodability;

/// One frame as the receiver's application met it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlayedFrame {
    /// The frame's number; each is one more than the one before it in coding order.
    pub id: u64,
    /// What is lost with it.
    pub importance: Importance,
    /// Whether all of it arrived in time.
    pub is_complete: bool,
    /// The moment that gaps are measured between: when the frame was received, or, for the
    /// picture's own time, when it was taken.
    pub at: Instant,
}

/// Follows frames in coding order. A frame is displayable if it can be decoded.
#[derive(Clone, Debug, Default)]
pub struct Playback {
    next_id: Option<u64>,
    decodability: Decodability,
    displayable_count: u64,
    frame_count: u64,
    last_displayable_at: Option<Instant>,
    longest_gap: Duration,
    longest_gap_from: Option<Instant>,
}

impl Playback {
    /// A viewer who has not seen anything yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next frame and says whether it is displayable. Frames whose number was left out
    /// count as incomplete; one that comes late, after a higher number, is counted but not
    /// displayable.
    pub fn on_frame(&mut self, frame: PlayedFrame) -> bool {
        let expected_id = self.next_id.unwrap_or(frame.id);
        if frame.id < expected_id {
            return false;
        }
        let missing_count = frame.id - expected_id;
        self.frame_count += missing_count + 1;
        self.next_id = Some(frame.id + 1);
        if missing_count > 0 {
            self.decodability.on_unknown_loss();
        }
        let is_displayable = self
            .decodability
            .on_frame(frame.importance, frame.is_complete);
        if is_displayable {
            self.displayable_count += 1;
            self.close_gap(frame.at);
        }
        is_displayable
    }

    /// Ends the viewing at `at`: a picture that stood still until then counts as a gap too.
    pub fn finish(&mut self, at: Instant) {
        self.close_gap(at);
    }

    /// The number that the next frame in order has; `None` before the first.
    pub const fn next_id(&self) -> Option<u64> {
        self.next_id
    }

    /// Frames so far, those left out included.
    pub const fn frame_count(&self) -> u64 {
        self.frame_count
    }

    /// Frames so far that were displayable.
    pub const fn displayable_count(&self) -> u64 {
        self.displayable_count
    }

    /// The longest time between two displayable frames.
    pub const fn longest_gap(&self) -> Duration {
        self.longest_gap
    }

    /// When the longest gap began; `None` before two frames were displayable.
    pub const fn longest_gap_from(&self) -> Option<Instant> {
        self.longest_gap_from
    }

    fn close_gap(&mut self, at: Instant) {
        if let Some(last_at) = self.last_displayable_at {
            let gap = at.saturating_since(last_at);
            if gap > self.longest_gap {
                self.longest_gap = gap;
                self.longest_gap_from = Some(last_at);
            }
        }
        // A frame that overtook another ends no gap twice.
        self.last_displayable_at = self.last_displayable_at.max(Some(at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(id: u64, is_key: bool, is_complete: bool) -> PlayedFrame {
        PlayedFrame {
            id,
            importance: Importance::key_if(is_key),
            is_complete,
            at: Instant::from_millis(id * 40),
        }
    }

    fn displayable(frames: &[(u64, bool, bool)]) -> Vec<bool> {
        let mut playback = Playback::new();
        frames
            .iter()
            .map(|&(id, key, complete)| playback.on_frame(frame(id, key, complete)))
            .collect()
    }

    #[test]
    fn an_incomplete_frame_hides_all_until_the_next_key_frame() {
        let frames = [
            (0, true, true),
            (1, false, false),
            (2, false, true),
            (3, true, true),
            (4, false, true),
        ];
        assert_eq!(displayable(&frames), [true, false, false, true, true]);
    }

    #[test]
    fn an_incomplete_key_frame_hides_its_group() {
        let frames = [(0, true, true), (1, true, false), (2, false, true)];
        assert_eq!(displayable(&frames), [true, false, false]);
    }

    #[test]
    fn nothing_is_displayable_before_the_first_key_frame() {
        assert_eq!(
            displayable(&[(7, false, true), (8, true, true)]),
            [false, true]
        );
    }

    #[test]
    fn a_number_left_out_counts_as_incomplete() {
        let mut playback = Playback::new();
        assert!(playback.on_frame(frame(0, true, true)));
        assert!(!playback.on_frame(frame(2, false, true)));
        assert!(!playback.on_frame(frame(1, false, true)));
        assert_eq!(
            (playback.frame_count(), playback.displayable_count()),
            (3, 1)
        );
    }

    #[test]
    fn the_longest_gap_is_between_displayable_frames() {
        let mut playback = Playback::new();
        for id in 0..20 {
            playback.on_frame(frame(id, id % 10 == 0, id != 5));
        }
        assert_eq!(playback.longest_gap(), Duration::from_millis(6 * 40));
        assert_eq!(
            playback.longest_gap_from(),
            Some(Instant::from_millis(4 * 40))
        );
        playback.finish(Instant::from_secs(2));
        assert_eq!(
            playback.longest_gap(),
            Duration::from_millis(2_000 - 19 * 40)
        );
    }
}
