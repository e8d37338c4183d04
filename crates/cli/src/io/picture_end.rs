//! When a live picture is over whose end the stream does not tell: after a pause that is long
//! beside those inside pictures.

use std::collections::VecDeque;

use anabranch_units::{Duration, Instant};
use anabranch_video::mpeg_ts::PictureProgress;

/// A shorter pause is nobody's: the operating system makes such.
const SHORTEST_PAUSE: Duration = Duration::from_millis(2);
/// A longer one ends anything.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);
/// How many pictures are remembered: a second or so.
const PICTURE_COUNT: usize = 32;
/// A picture may be cut in two if its longest pause is among the longest tenth: that costs a frame
/// more, whereas waiting for the worst of all would delay every picture.
const PERCENT: usize = 90;
/// The pause that ends a picture is so much longer than one inside.
const MARGIN: u64 = 2;

/// Watches the packets of a live stream's video.
#[derive(Debug, Default)]
pub(super) struct PictureEnd {
    /// The longest pauses inside the last pictures, oldest first.
    longest: VecDeque<Duration>,
    /// The longest inside the current one.
    current: Duration,
    /// When video last came.
    came_at: Option<Instant>,
    progress: PictureProgress,
}

impl PictureEnd {
    /// The stream is now so far, by bytes that came, or since a unit was handed over.
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

    /// When the picture that may be whole is over if no more of it comes; `None`: there is none.
    pub(super) fn over_at(&self) -> Option<Instant> {
        let came_at = self.came_at.filter(|_| self.progress.may_be_whole)?;
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

    /// Pictures of four packets, `gap` µs apart, 40 ms from one to the next.
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
        // Packets without video change nothing: the end of a picture comes all the same.
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
    fn what_has_an_end_of_its_own_is_not_guessed_at() {
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
