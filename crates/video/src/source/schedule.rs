//! The times of the frames of a source with a fixed frame rate.

use anabranch_units::{Duration, Instant};

use super::SourceConfigError;

/// Counts frames of a fixed rate. Frame n is due at start + n / fps, computed from n so that
/// rounding errors do not add up.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    start: Instant,
    frames_per_second: u32,
    frame_count: u64,
}

impl Schedule {
    pub(super) fn new(start: Instant, frames_per_second: u32) -> Result<Self, SourceConfigError> {
        if !(1..=1_000).contains(&frames_per_second) {
            return Err(SourceConfigError::FramesPerSecond(frames_per_second));
        }
        Ok(Schedule {
            start,
            frames_per_second,
            frame_count: 0,
        })
    }

    pub(super) const fn frames_per_second(&self) -> u32 {
        self.frames_per_second
    }

    /// Returns whether decoding can start at a frame, if only sizes are known of an encoder. This
    /// is one frame per second: even sizes are those of intra-refresh, in cycles of a second.
    pub(super) const fn is_key(&self, index: u64) -> bool {
        index.is_multiple_of(self.frames_per_second as u64)
    }

    pub(super) fn next_at(&self) -> Instant {
        self.start + Duration::from_secs(self.frame_count) / u64::from(self.frames_per_second)
    }

    /// Takes the due frame and returns its index from 0.
    pub(super) fn advance(&mut self, now: Instant) -> u64 {
        let next_at = self.next_at();
        assert!(
            now >= next_at,
            "no frame is due at {now}, the next is at {next_at}"
        );
        self.frame_count += 1;
        self.frame_count - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_do_not_drift_at_rates_that_do_not_divide_a_second() {
        let mut schedule = Schedule::new(Instant::from_millis(5), 30).unwrap();
        for index in 0..3_000 {
            assert_eq!(schedule.advance(schedule.next_at()), index);
        }
        assert_eq!(schedule.next_at(), Instant::from_millis(100_005));
    }
}
