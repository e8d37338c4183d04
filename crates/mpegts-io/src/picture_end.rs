//! The end of a live picture that the stream does not mark: a pause that is long compared with
//! those inside pictures.

use std::collections::VecDeque;

use anabranch_units::{Duration, Instant};
use anabranch_video::mpeg_ts::PictureProgress;

/// Shortest pause that counts; the operating system causes shorter ones.
const SHORTEST_PAUSE: Duration = Duration::from_millis(2);
/// Longest pause inside a picture.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);
/// Number of remembered pictures: about a second.
const PICTURE_COUNT: usize = 32;
/// Percentile of the remembered longest pauses. If a picture's pause is in the longest tenth, the
/// picture may be cut in two, which costs an extra frame. The maximum would delay every picture.
const PERCENT: usize = 90;
/// Factor between the pauses inside pictures and the pause that ends one.
const MARGIN: u64 = 2;

/// Observer of a live stream's video packets.
#[derive(Debug, Default)]
pub(super) struct PictureEnd {
    /// Longest pauses inside the last pictures, oldest first.
    longest: VecDeque<Duration>,
    /// Longest pause inside the current picture.
    current: Duration,
    /// Arrival of the last video packet.
    came_at: Option<Instant>,
    progress: PictureProgress,
}

impl PictureEnd {
    /// Records the stream's progress, after bytes arrived or a unit was handed over.
    pub(super) fn on_bytes(&mut self, now: Instant, progress: PictureProgress) {
        let before = core::mem::replace(&mut self.progress, progress);
        if before.packet_count == progress.packet_count {
            return;
        }
        let pause = self
            .came_at
            .map_or(Duration::ZERO, |at| now.saturating_since(at));
        self.came_at = Some(now);
        if before.started_count == progress.started_count {
            self.current = self.current.max(pause);
            return;
        }
        if self.longest.len() == PICTURE_COUNT {
            self.longest.pop_front();
        }
        self.longest.push_back(core::mem::take(&mut self.current));
    }

    /// Returns the time at which the current picture ends if no more of it arrives; `None` if no
    /// picture may be whole.
    pub(super) fn over_at(&self) -> Option<Instant> {
        if !self.progress.may_be_whole {
            return None;
        }
        let came_at = self.came_at?;
        let mut longest: Vec<_> = self.longest.iter().copied().collect();
        longest.sort_unstable();
        let inside = longest.get(longest.len() * PERCENT / 100);
        let pause = inside.map_or(Duration::ZERO, |inside| *inside * MARGIN);
        Some(came_at + pause.clamp(SHORTEST_PAUSE, LONGEST_PAUSE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds pictures of four packets, `gap` µs apart, at intervals of 40 ms.
    fn watch(end: &mut PictureEnd, count: u64, gap: impl Fn(u64) -> u64) -> Instant {
        let mut now = end.came_at.unwrap_or_default();
        for picture in 0..count {
            let start = now + Duration::from_millis(40);
            for packet in 0..4 {
                now = start + Duration::from_micros(gap(picture)) * packet;
                let progress = PictureProgress {
                    started_count: end.progress.started_count + u64::from(packet == 0),
                    packet_count: end.progress.packet_count + 1,
                    may_be_whole: true,
                    has_picture: true,
                };
                end.on_bytes(now, progress);
            }
        }
        now
    }

    fn pause(end: &PictureEnd, last_at: Instant) -> u64 {
        (end.over_at().unwrap() - last_at).as_micros()
    }

    #[test]
    fn a_burst_is_over_after_two_milliseconds() {
        let mut end = PictureEnd::default();
        assert_eq!(end.over_at(), None);
        let last_at = watch(&mut end, 50, |_| 100);
        assert_eq!(pause(&end, last_at), 2_000);
    }

    #[test]
    fn packets_that_trickle_are_waited_for_twice_as_long_as_they_are_apart() {
        let mut end = PictureEnd::default();
        let last_at = watch(&mut end, 50, |_| 5_000);
        assert_eq!(pause(&end, last_at), 10_000);
        // Packets without video do not delay the end of a picture.
        end.on_bytes(last_at + Duration::from_millis(9), end.progress);
        assert_eq!(pause(&end, last_at), 10_000);
    }

    #[test]
    fn a_hiccup_now_and_then_delays_no_other_picture() {
        let mut end = PictureEnd::default();
        let last_at = watch(&mut end, 50, |picture| match picture % 15 {
            0 => 12_000,
            _ => 100,
        });
        assert_eq!(pause(&end, last_at), 2_000);
        let last_at = watch(&mut end, 50, |picture| match picture % 5 {
            0 => 12_000,
            _ => 100,
        });
        assert_eq!(pause(&end, last_at), 24_000);
    }

    #[test]
    fn explicit_picture_ends_are_not_guessed() {
        let mut end = PictureEnd::default();
        let last_at = watch(&mut end, 5, |_| 100);
        let handed_over = PictureProgress {
            may_be_whole: false,
            ..end.progress
        };
        end.on_bytes(last_at, handed_over);
        assert_eq!(end.over_at(), None);
    }
}
