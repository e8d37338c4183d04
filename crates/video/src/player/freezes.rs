//! Detection of frozen pictures: `freezeCount` of the W3C's "Identifiers for WebRTC's Statistics
//! API".

use std::collections::VecDeque;

use anabranch_units::{Duration, Instant};

/// Number of displayed frames whose durations are averaged (W3C webrtc-stats, `freezeCount`).
const AVERAGED: usize = 30;
/// Factor and excess over the average gap from which on a gap counts as a freeze (W3C webrtc-stats,
/// `freezeCount`).
const FACTOR: u64 = 3;
const EXCESS: Duration = Duration::from_millis(150);

/// A picture that stood still for too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freeze {
    /// Time at which the picture was first shown.
    pub from: Instant,
    /// Time of the next picture, or of the end.
    pub to: Instant,
}

/// Detects freezes by the instants at which frames are displayed: a gap of at least max(3·avg, avg
/// + 150 ms), avg being the average of the 30 gaps before it.
#[derive(Clone, Debug, Default)]
pub struct FreezeDetector {
    gaps: VecDeque<Duration>,
    sum: Duration,
    shown_at: Option<Instant>,
}

impl FreezeDetector {
    /// Records the display of a frame, no earlier than the last. A frame that replaces another at
    /// the same instant makes no gap.
    pub fn on_displayed(&mut self, at: Instant) -> Option<Freeze> {
        let freeze = self.until(at);
        if let Some(shown_at) = self.shown_at.filter(|shown_at| *shown_at < at) {
            let gap = at - shown_at;
            self.gaps.push_back(gap);
            self.sum += gap;
            if self.gaps.len() > AVERAGED {
                self.sum -= self.gaps.pop_front().expect("there are more than 30");
            }
        }
        self.shown_at = self.shown_at.max(Some(at));
        freeze
    }

    /// Returns the freeze that a display of the next frame at `at` would end.
    pub fn until(&self, at: Instant) -> Option<Freeze> {
        let from = self.shown_at?;
        let gap = at.saturating_since(from);
        let average = self.sum / u64::try_from(self.gaps.len()).ok().filter(|n| *n > 0)?;
        (gap >= (average * FACTOR).max(average + EXCESS)).then_some(Freeze { from, to: at })
    }

    /// Returns the time of the last frame's display.
    pub const fn shown_at(&self) -> Option<Instant> {
        self.shown_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the freezes' lengths in ms if frames are displayed after these gaps in ms.
    fn freezes(gaps: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let mut detector = FreezeDetector::default();
        detector.on_displayed(Instant::ZERO);
        let mut at = Instant::ZERO;
        let mut freezes = Vec::new();
        for gap in gaps {
            at += Duration::from_millis(gap);
            let freeze = detector.on_displayed(at);
            freezes.extend(freeze.map(|freeze| (freeze.to - freeze.from).as_millis()));
        }
        freezes
    }

    #[test]
    fn at_short_gaps_a_freeze_is_the_average_and_150_ms() {
        let thirty = [40; 30];
        assert_eq!(freezes(thirty.into_iter().chain([189])), []);
        assert_eq!(freezes(thirty.into_iter().chain([190])), [190]);
    }

    #[test]
    fn at_long_gaps_a_freeze_is_three_times_the_average() {
        let thirty = [100; 30];
        assert_eq!(freezes(thirty.into_iter().chain([299])), []);
        assert_eq!(freezes(thirty.into_iter().chain([300])), [300]);
    }

    #[test]
    fn the_average_is_over_the_last_thirty_gaps() {
        // Thirty gaps of 40 ms have displaced those of 200 ms.
        assert_eq!(
            freezes([200; 30].into_iter().chain([40; 30]).chain([190])),
            [190]
        );
        // After 29 of them it is (200 + 29 · 40) / 30 = 45.3 ms.
        assert_eq!(
            freezes([200; 30].into_iter().chain([40; 29]).chain([195])),
            []
        );
        assert_eq!(
            freezes([200; 30].into_iter().chain([40; 29]).chain([196])),
            [196]
        );
    }

    #[test]
    fn frames_at_one_instant_make_no_gap() {
        assert_eq!(
            freezes([40; 30].into_iter().chain([0; 30]).chain([189])),
            []
        );
    }

    #[test]
    fn a_picture_that_stays_to_the_end_is_frozen() {
        let mut detector = FreezeDetector::default();
        assert_eq!(detector.until(Instant::from_secs(9)), None);
        for frame in 0..3 {
            detector.on_displayed(Instant::from_millis(40 * frame));
        }
        assert_eq!(detector.until(Instant::from_millis(269)), None);
        let freeze = detector.until(Instant::from_millis(270)).unwrap();
        assert_eq!(freeze.from, Instant::from_millis(80));
    }
}
