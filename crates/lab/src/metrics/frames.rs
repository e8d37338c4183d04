//! Measurements of frames outside the simulator, by the same definitions.

use anabranch_units::{Duration, Instant};
use anabranch_video::player::{DisplayOutcome, JitterBuffer, Player, PlayerFrame};

use super::record::{FrameRecord, Outcome};
use super::statistics::FrameStatistics;
use super::window::Window;

/// Measures one flow's frames in a window of a run that lasted until all of them had their time:
/// none is too near the end to be judged.
///
/// Its viewer has no jitter buffer, so that a frame is complete, delivered and displayed at once.
#[derive(Debug)]
pub struct FrameMeter {
    window: Window,
    deadline: Duration,
    player: Player,
    record: FrameRecord,
    /// Opening of the window, while it is open.
    opened_at: Option<Instant>,
    /// Future times at which it opens or closes, the last first.
    boundaries: Vec<Instant>,
}

impl FrameMeter {
    /// Returns a meter of frames that are useful until `deadline` after their capture.
    pub fn new(window: Window, deadline: Duration) -> FrameMeter {
        let mut boundaries: Vec<Instant> = window.boundaries().collect();
        boundaries.sort_unstable_by(|a, b| b.cmp(a));
        FrameMeter {
            window,
            deadline,
            player: Player::new(JitterBuffer::Off, Instant::ZERO),
            record: FrameRecord::default(),
            opened_at: None,
            boundaries,
        }
    }

    /// Takes the next frame in the order of capture when it is complete or given up.
    pub fn on_frame(&mut self, now: Instant, frame: PlayerFrame, size_bytes: u64) {
        self.pass_to(now);
        let display_outcome = self.player.on_frame(now, frame);
        let is_displayed = matches!(display_outcome, DisplayOutcome::Displayed(_));
        if self.window.contains(frame.captured_at) {
            let delay = now.saturating_since(frame.captured_at);
            let outcome = Outcome {
                delay,
                out_delay: delay,
                is_complete: frame.is_complete,
                is_displayed,
                size_bytes,
                has_time: true,
            };
            self.record.on_captured(size_bytes, true);
            self.record
                .on_outcome(&outcome, self.deadline, Duration::ZERO);
        }
        if is_displayed {
            self.record.show(now, self.opened_at.is_some());
        }
    }

    /// Opens and closes the window until just before the events at `now`.
    fn pass_to(&mut self, now: Instant) {
        while let Some(at) = self
            .boundaries
            .pop_if(|at| *at < now || *at == Instant::ZERO)
        {
            match (self.opened_at, self.window.is_open_after(at)) {
                (None, true) => self.opened_at = Some(at),
                (Some(opened_at), false) => {
                    self.record.close(opened_at, at);
                    self.opened_at = None;
                }
                _ => {}
            }
        }
    }

    /// Returns the measurements; the window is over.
    pub fn finish(mut self) -> FrameStatistics {
        self.pass_to(Instant::FAR_FUTURE);
        self.record.statistics()
    }
}

#[cfg(test)]
mod tests {
    use anabranch_units::Importance;

    use super::*;

    /// Measures frames every 40 ms, one in ten a key frame, complete after 30 ms except for the
    /// lost ones.
    fn measured(window: Window, lost: &[u64], end: u64) -> FrameStatistics {
        let mut meter = FrameMeter::new(window, Duration::from_millis(100));
        for index in 0..end {
            let captured_at = Instant::from_millis(40 * index);
            let frame = PlayerFrame {
                importance: Importance::key_if(index.is_multiple_of(10)),
                captured_at,
                is_complete: !lost.contains(&index),
            };
            meter.on_frame(captured_at + Duration::from_millis(30), frame, 1_000);
        }
        meter.finish()
    }

    #[test]
    fn a_lost_frame_takes_those_along_that_need_it() {
        let window = Window::whole(Duration::from_secs(4));
        let seen = measured(window, &[25], 100);
        assert_eq!((seen.captured, seen.complete, seen.dropped), (100, 99, 1));
        assert_eq!(seen.complete_on_time_ratio, Some(0.99));
        assert_eq!(seen.decodable_on_time_ratio, Some(0.95));
        assert_eq!(seen.delay_ms.unwrap().mean, 30.0);
        // From the 24th to the 30th.
        assert_eq!(seen.longest_gap_ms, Some(240.0));
        assert_eq!(seen.longest_gap_from_s, Some(0.99));
    }

    #[test]
    fn a_picture_that_stands_still_to_the_end_is_a_gap_and_a_window_without_frames_has_none() {
        let window = Window::whole(Duration::from_secs(6));
        let seen = measured(window, &[], 100);
        assert_eq!(seen.longest_gap_ms, Some(6_000.0 - 3_990.0));
        assert_eq!(measured(window, &[], 0), FrameStatistics::default());
    }

    #[test]
    fn frames_outside_the_window_do_not_count() {
        let lost: Vec<u64> = (41..80).collect();
        let whole = Window::whole(Duration::from_secs(4));
        let gap = (Instant::from_millis(1_600), Instant::from_millis(3_300));
        let window = Window {
            outside: Some(gap),
            ..whole
        };
        let seen = measured(window, &lost, 100);
        assert_eq!((seen.dropped, seen.complete_on_time_ratio), (0, Some(1.0)));
        assert_eq!(seen.longest_gap_ms, Some(40.0));
        let within = Window {
            from: gap.0,
            to: gap.1,
            outside: None,
        };
        let seen = measured(within, &lost, 100);
        assert_eq!((seen.captured, seen.complete), (42, 3));
        assert_eq!(seen.longest_gap_ms, Some(1_600.0));
    }
}
