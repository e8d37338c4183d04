//! The experience of a viewer of live video: the frames that are displayed, their times, and the
//! durations of freezes.
//!
//! It decodes nothing and reads no clock: a frame goes in when the receiver hands it out, and its
//! outcome is returned.

mod decodability;
mod freezes;
mod jitter_buffer;

use anabranch_units::{Duration, Importance, Instant};

pub use decodability::Decodability;
pub use freezes::{Freeze, FreezeDetector};
use jitter_buffer::PlayoutDelay;
pub use jitter_buffer::{JitterBuffer, ParseJitterBufferError};

/// A frame as the player receives it, in coding order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlayerFrame {
    /// Importance of the frame. All frames that do not need others are key frames.
    pub importance: Importance,
    /// Capture time, by the viewer's clock.
    pub captured_at: Instant,
    /// Whether the frame arrived completely.
    pub is_complete: bool,
}

/// Outcome of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DisplayOutcome {
    /// The frame is displayed.
    Displayed(Display),
    /// The frame arrived, but a frame that it needs did not.
    Undecodable,
    /// The frame did not arrive.
    Lost,
}

/// Display of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Display {
    /// Time of display: now or later.
    pub at: Instant,
    /// Whether its time had passed when it arrived.
    pub is_late: bool,
    /// Whether it replaces a frame at the same instant, which is not shown.
    pub is_substitute: bool,
    /// The freeze that it ends.
    pub freeze: Option<Freeze>,
}

/// Counts of a player's frames. Each frame is displayed, skipped, undecodable or lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlayerCounts {
    /// Frames displayed.
    pub displayed: u64,
    /// Frames that arrived after their time, displayed or skipped.
    pub late: u64,
    /// Frames that arrived so late that the next one had arrived, too.
    pub skipped: u64,
    /// Frames that arrived without all frames that they need.
    pub undecodable: u64,
    /// Frames that did not arrive.
    pub lost: u64,
    /// Number of freezes of the picture, by the W3C's definition.
    pub freezes: u64,
    /// Total duration of the freezes.
    pub freeze_time: Duration,
}

/// A viewer's player: a jitter buffer, a decoder's dependencies, and a freeze detector.
#[derive(Clone, Debug)]
pub struct Player {
    started_at: Instant,
    delay: PlayoutDelay,
    decodability: Decodability,
    freezes: FreezeDetector,
    first_shown_at: Option<Instant>,
    counts: PlayerCounts,
}

impl Player {
    /// Creates a player that waits for its first frame since `started_at`.
    pub fn new(buffer: JitterBuffer, started_at: Instant) -> Self {
        Player {
            started_at,
            delay: PlayoutDelay::new(buffer),
            decodability: Decodability::default(),
            freezes: FreezeDetector::default(),
            first_shown_at: None,
            counts: PlayerCounts::default(),
        }
    }

    /// Changes the jitter buffer. Frames that wait for their display follow it.
    pub fn set_buffer(&mut self, buffer: JitterBuffer) {
        self.delay = PlayoutDelay::new(buffer);
    }

    /// Takes the next frame at the time at which it is handed out, complete, or given up. It is
    /// displayed at its time, or at once if that has passed, but not before the last frame.
    pub fn on_frame(&mut self, now: Instant, frame: PlayerFrame) -> DisplayOutcome {
        fn due_at(delay: Option<Duration>, now: Instant, captured_at: Instant) -> Instant {
            delay.map_or(now, |delay| captured_at + delay)
        }

        let PlayerFrame {
            importance,
            captured_at,
            is_complete,
        } = frame;
        let is_late =
            now > due_at(self.delay.delay(), now, captured_at) && self.first_shown_at.is_some();
        if is_complete {
            self.delay.on_frame(now, now.saturating_since(captured_at));
        }
        if !self.decodability.on_frame(importance, is_complete) {
            return if is_complete {
                self.counts.undecodable += 1;
                DisplayOutcome::Undecodable
            } else {
                self.counts.lost += 1;
                DisplayOutcome::Lost
            };
        }
        let shown_at = self.freezes.shown_at();
        let at = due_at(self.delay.delay(), now, captured_at)
            .max(now)
            .max(shown_at.unwrap_or(now));
        let is_substitute = shown_at == Some(at);
        let freeze = self.freezes.on_displayed(at);
        self.first_shown_at = self.first_shown_at.or(Some(at));
        self.counts.displayed += u64::from(!is_substitute);
        self.counts.skipped += u64::from(is_substitute);
        self.counts.late += u64::from(is_late);
        self.count(freeze);
        DisplayOutcome::Displayed(Display {
            at,
            is_late,
            is_substitute,
            freeze,
        })
    }

    /// Records that an unknown number of unknown frames was lost.
    pub fn on_unknown_loss(&mut self) {
        self.decodability.on_unknown_loss();
    }

    /// Ends the viewing at `at`, and counts a picture that has stood still for too long until then
    /// as frozen.
    pub fn finish(&mut self, at: Instant) -> Option<Freeze> {
        let freeze = self.freezes.until(at);
        self.count(freeze);
        freeze
    }

    fn count(&mut self, freeze: Option<Freeze>) {
        if let Some(Freeze { from, to }) = freeze {
            self.counts.freezes += 1;
            self.counts.freeze_time += to - from;
        }
    }

    /// Returns the counts so far.
    pub const fn counts(&self) -> &PlayerCounts {
        &self.counts
    }

    /// Returns the present time from capture to display; `None` if frames are not held back.
    pub fn delay(&self) -> Option<Duration> {
        self.delay.delay()
    }

    /// Returns the time at which the first frame was displayed.
    pub const fn first_shown_at(&self) -> Option<Instant> {
        self.first_shown_at
    }

    /// Returns the time from the start to the first frame's display.
    pub fn start_up_delay(&self) -> Option<Duration> {
        Some(self.first_shown_at?.saturating_since(self.started_at))
    }

    /// Returns the share of the time from the first frame to `end` in which the picture was frozen;
    /// `None` if there is no such time.
    pub fn stall_ratio(&self, end: Instant) -> Option<f64> {
        let time = end.saturating_since(self.first_shown_at?);
        let is_measured = time > Duration::ZERO;
        is_measured.then(|| self.counts.freeze_time.as_secs_f64() / time.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Duration = Duration::from_millis(40);

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    /// Hands over frame `index`, of 25 a second, `took` ms after its capture.
    fn come(player: &mut Player, index: u64, took: u64) -> DisplayOutcome {
        let captured_at = Instant::ZERO + FRAME * index;
        let frame = PlayerFrame {
            importance: Importance::key_if(index == 0),
            captured_at,
            is_complete: true,
        };
        player.on_frame(captured_at + Duration::from_millis(took), frame)
    }

    fn lose(player: &mut Player, index: u64, importance: Importance) -> DisplayOutcome {
        let captured_at = Instant::ZERO + FRAME * index;
        let frame = PlayerFrame {
            importance,
            captured_at,
            is_complete: false,
        };
        player.on_frame(captured_at + Duration::from_millis(100), frame)
    }

    fn shown(outcome: DisplayOutcome) -> (u64, bool) {
        let DisplayOutcome::Displayed(display) = outcome else {
            panic!("{outcome:?}");
        };
        ((display.at - Instant::ZERO).as_millis(), display.is_late)
    }

    #[test]
    fn frames_are_displayed_a_fixed_time_after_their_capture() {
        let mut player = Player::new(JitterBuffer::Fixed(Duration::from_millis(200)), at(0));
        assert_eq!(shown(come(&mut player, 0, 50)), (200, false));
        assert_eq!(shown(come(&mut player, 1, 199)), (240, false));
        // A late one at once, and the one after it at its own time.
        assert_eq!(shown(come(&mut player, 2, 230)), (310, true));
        assert_eq!(shown(come(&mut player, 3, 10)), (320, false));
        assert_eq!(player.start_up_delay(), Some(Duration::from_millis(200)));
        assert_eq!((player.counts().displayed, player.counts().late), (4, 1));
    }

    #[test]
    fn frames_that_come_together_and_late_show_only_the_last() {
        let mut player = Player::new(JitterBuffer::Fixed(Duration::from_millis(100)), at(0));
        for index in 0..10 {
            come(&mut player, index, 20);
        }
        // Captured at 400, 440 and 480 ms, all arrived at 800 ms.
        for (index, took) in [(10, 400), (11, 360), (12, 320)] {
            assert_eq!(shown(come(&mut player, index, took)), (800, true));
        }
        let counts = *player.counts();
        assert_eq!((counts.displayed, counts.skipped, counts.late), (11, 2, 3));
        // From the tenth frame at 460 ms to 800 ms.
        assert_eq!(
            (counts.freezes, counts.freeze_time),
            (1, Duration::from_millis(340))
        );
        assert_eq!(player.stall_ratio(at(1_800)), Some(0.2));
    }

    #[test]
    fn a_lost_reference_freezes_the_picture_and_a_disposable_frame_does_not() {
        for (importance, expected) in [
            (Importance::Reference, (1, 4, 1)),
            (Importance::Disposable, (1, 0, 0)),
        ] {
            let mut player = Player::new(JitterBuffer::Off, at(0));
            for index in 0..10 {
                come(&mut player, index, 20);
            }
            assert_eq!(lose(&mut player, 10, importance), DisplayOutcome::Lost);
            for index in 11..15 {
                come(&mut player, index, 20);
            }
            let frame = PlayerFrame {
                importance: Importance::Key,
                captured_at: at(600),
                is_complete: true,
            };
            player.on_frame(at(620), frame);
            let counts = player.counts();
            assert_eq!(
                (counts.lost, counts.undecodable, counts.freezes),
                expected,
                "{importance:?}"
            );
        }
    }

    #[test]
    fn every_frame_has_one_fate() {
        let mut player = Player::new(JitterBuffer::Adaptive, at(0));
        for index in 0..1_000 {
            match index % 17 {
                5 => lose(&mut player, index, Importance::Disposable),
                11 if index > 500 => lose(&mut player, index, Importance::Reference),
                _ => come(&mut player, index, 20 + index * 7_919 % 200),
            };
        }
        let counts = player.counts();
        let sum = counts.displayed + counts.skipped + counts.undecodable + counts.lost;
        assert_eq!(sum, 1_000);
        assert!(counts.displayed > 450 && counts.undecodable > 400);
    }

    #[test]
    fn a_picture_that_stands_to_the_end_is_frozen_to_the_end() {
        let mut player = Player::new(JitterBuffer::Off, at(0));
        assert_eq!(
            (player.finish(at(9)), player.stall_ratio(at(9))),
            (None, None)
        );
        for index in 0..26 {
            come(&mut player, index, 0);
        }
        player.finish(at(2_000));
        assert_eq!(player.counts().freeze_time, Duration::from_millis(1_000));
        assert_eq!(player.stall_ratio(at(2_000)), Some(0.5));
    }
}
