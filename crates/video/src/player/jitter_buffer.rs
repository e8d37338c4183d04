//! The delay of frames in front of the display, for even display.

use core::fmt;
use core::str::FromStr;
use std::collections::VecDeque;

use anabranch_units::{Duration, Instant, ParseQuantityError, percentile_place};

/// A player's treatment of frames with varying delays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JitterBuffer {
    /// No delay: each frame is displayed as soon as it arrives (`off`).
    Off,
    /// Each frame that has arrived is displayed at this delay after its capture (a time, such as
    /// `200 ms`).
    Fixed(Duration),
    /// Each frame is displayed at the delay that 95 % of the last 10 s' frames kept, 20 to 500 ms
    /// (`adaptive`).
    #[default]
    Adaptive,
}

/// The text is neither `off` nor `adaptive` nor a time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("known are off, adaptive, and a time: {0}")]
pub struct ParseJitterBufferError(ParseQuantityError);

impl FromStr for JitterBuffer {
    type Err = ParseJitterBufferError;

    fn from_str(text: &str) -> Result<Self, ParseJitterBufferError> {
        Ok(match text {
            "off" => JitterBuffer::Off,
            "adaptive" => JitterBuffer::Adaptive,
            _ => JitterBuffer::Fixed(text.parse().map_err(ParseJitterBufferError)?),
        })
    }
}

impl fmt::Display for JitterBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JitterBuffer::Off => f.write_str("off"),
            JitterBuffer::Adaptive => f.write_str("adaptive"),
            JitterBuffer::Fixed(delay) => delay.fmt(f),
        }
    }
}

/// Period for which a frame's delay counts.
const WINDOW: Duration = Duration::from_secs(10);
/// Share of frames that must be in time, in percent.
const PERCENT: u8 = 95;
const MIN_DELAY: Duration = Duration::from_millis(20);
const MAX_DELAY: Duration = Duration::from_millis(500);
/// Inverse of the rate at which the delay shrinks over time. The picture runs 5 % faster meanwhile,
/// which nobody sees. The 5 % are our choice.
const SHRINKING: u64 = 20;

/// The time from capture to display.
#[derive(Clone, Debug)]
pub(super) struct PlayoutDelay {
    buffer: JitterBuffer,
    /// Arrivals and delays of frames, oldest first.
    recent: VecDeque<(Instant, Duration)>,
    /// Delays of the slowest frames, in ascending order: some more frames than the late ones.
    slowest: Vec<Duration>,
    delay: Duration,
    set_at: Option<Instant>,
}

impl PlayoutDelay {
    pub(super) fn new(buffer: JitterBuffer) -> Self {
        PlayoutDelay {
            buffer,
            recent: VecDeque::new(),
            slowest: Vec::new(),
            delay: match buffer {
                JitterBuffer::Fixed(delay) => delay,
                JitterBuffer::Off | JitterBuffer::Adaptive => Duration::ZERO,
            },
            set_at: None,
        }
    }

    /// Returns the present time from capture to display; `None` if frames are not held back.
    pub(super) fn delay(&self) -> Option<Duration> {
        (self.buffer != JitterBuffer::Off).then_some(self.delay)
    }

    /// Records a frame that took `took` since its capture. A longer delay holds at once, a shorter
    /// one is approached.
    pub(super) fn on_frame(&mut self, now: Instant, took: Duration) {
        if self.buffer != JitterBuffer::Adaptive {
            return;
        }
        while let Some((came_at, old)) = self.recent.front().copied()
            && now.saturating_since(came_at) > WINDOW
        {
            self.recent.pop_front();
            self.forget(old);
        }
        self.remember(took);
        self.recent.push_back((now, took));
        let target = self.percentile().clamp(MIN_DELAY, MAX_DELAY);
        let passed = now.saturating_since(self.set_at.unwrap_or(now));
        self.set_at = Some(now);
        let shrunk = self.delay.saturating_sub(passed / SHRINKING);
        self.delay = target.max(shrunk);
    }

    /// Removes a frame with this delay.
    fn forget(&mut self, took: Duration) {
        let index = self.slowest.partition_point(|other| *other < took);
        // Otherwise it is faster than the kept ones, and not among them.
        if self.slowest.get(index) == Some(&took) {
            self.slowest.remove(index);
        }
    }

    /// Adds a frame with this delay.
    fn remember(&mut self, took: Duration) {
        let index = self.slowest.partition_point(|other| *other <= took);
        let are_all = self.slowest.len() == self.recent.len();
        if index > 0 || are_all {
            self.slowest.insert(index, took);
        }
    }

    /// Returns the delay that [`PERCENT`] of the frames kept.
    fn percentile(&mut self) -> Duration {
        let count = self.recent.len() as u64;
        let place = percentile_place(count, PERCENT).expect("a frame has come");
        let wanted = (count - place) as usize;
        // Twice as many as needed, so that they seldom have to be collected again.
        let kept = 2 * wanted;
        if self.slowest.len() < wanted {
            let mut all: Vec<Duration> = self.recent.iter().map(|(_, took)| *took).collect();
            all.sort_unstable();
            self.slowest.clear();
            self.slowest
                .extend_from_slice(&all[all.len().saturating_sub(kept)..]);
        }
        let excess = self.slowest.len().saturating_sub(kept);
        self.slowest.drain(..excess);
        self.slowest[self.slowest.len() - wanted]
    }
}

#[cfg(test)]
mod tests {
    use anabranch_units::percentile;

    use super::*;

    const FRAME: Duration = Duration::from_millis(40);

    /// Feeds frames every 40 ms, from the one with the number `first` on, and returns the delay in
    /// ms after the last.
    fn feed(buffer: &mut PlayoutDelay, first: u64, took_millis: &[u64]) -> f64 {
        for (frame, took) in (first..).zip(took_millis) {
            buffer.on_frame(Instant::ZERO + FRAME * frame, Duration::from_millis(*took));
        }
        buffer.delay().unwrap().as_millis_f64()
    }

    #[test]
    fn the_delay_is_that_which_95_percent_of_the_last_ten_seconds_kept_to() {
        let mut buffer = PlayoutDelay::new(JitterBuffer::Adaptive);
        let hundred: Vec<u64> = (1..=100).map(|frame| 100 + frame).collect();
        assert_eq!(feed(&mut buffer, 0, &hundred), 195.0);
    }

    #[test]
    fn the_slowest_give_the_percentile_of_all() {
        let mut buffer = PlayoutDelay::new(JitterBuffer::Adaptive);
        for index in 0..4_000_u64 {
            // Rising, falling, at random and with equal values.
            let took = match index / 1_000 {
                0 => index,
                1 => 2_000 - index,
                2 => index * 7_919 % 211,
                _ => index % 3,
            };
            let now = Instant::ZERO + FRAME * index;
            buffer.on_frame(now, Duration::from_millis(took));
            let mut all: Vec<Duration> = buffer.recent.iter().map(|(_, took)| *took).collect();
            all.sort();
            assert_eq!(Some(buffer.percentile()), percentile(&all, PERCENT));
            assert!(buffer.slowest.len() <= 26 && buffer.recent.len() <= 251);
        }
    }

    #[test]
    fn the_delay_is_clamped_to_20_and_500_ms() {
        let mut buffer = PlayoutDelay::new(JitterBuffer::Adaptive);
        assert_eq!(feed(&mut buffer, 0, &[5]), 20.0);
        assert_eq!(feed(&mut buffer, 1, &[900; 20]), 500.0);
    }

    #[test]
    fn the_delay_grows_at_once_and_shrinks_by_a_twentieth_of_the_time() {
        let mut buffer = PlayoutDelay::new(JitterBuffer::Adaptive);
        assert_eq!(feed(&mut buffer, 0, &[50; 251]), 50.0);
        // One frame in twenty may be slow; from the 14th of the 251 in the window on they are more.
        assert_eq!(feed(&mut buffer, 251, &[300; 12]), 50.0);
        assert_eq!(feed(&mut buffer, 263, &[300; 1]), 300.0);
        // 238 frames later the first of them has left the window: one in twenty again.
        assert_eq!(feed(&mut buffer, 264, &[50; 238]), 300.0);
        // From there on 2 ms a frame.
        assert_eq!(feed(&mut buffer, 502, &[50; 1]), 298.0);
        assert_eq!(feed(&mut buffer, 503, &[50; 10]), 278.0);
        assert_eq!(feed(&mut buffer, 513, &[50; 200]), 50.0);
    }

    #[test]
    fn a_fixed_delay_stays_and_none_is_none() {
        let mut fixed = PlayoutDelay::new("200 ms".parse().unwrap());
        assert_eq!(feed(&mut fixed, 0, &[900; 9]), 200.0);
        assert_eq!(PlayoutDelay::new(JitterBuffer::Off).delay(), None);
    }

    #[test]
    fn settings_are_read_as_they_are_written() {
        for text in ["off", "adaptive", "200 ms"] {
            let buffer: JitterBuffer = text.parse().unwrap();
            assert_eq!(buffer.to_string(), text);
        }
        assert!("maybe".parse::<JitterBuffer>().is_err());
    }
}
