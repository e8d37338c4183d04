//! The ideal encoder of Zhang & Lei's simulations: all frames of the same size, and a new target
//! followed at once.

use anabranch_units::{DataRate, Importance, Instant};

use super::schedule::Schedule;
use super::{FrameShape, FrameSource, SourceConfigError, check_rates, mean_frame_bytes};

/// Frames of rate / (8 fps) bytes each, with the target clamped to a range. One of fps frames is a
/// key frame, no larger than the others; between key frames each frame needs the ones before it.
#[derive(Clone, Debug)]
pub struct Ideal {
    schedule: Schedule,
    min_rate: DataRate,
    max_rate: DataRate,
}

impl Ideal {
    /// Creates a source whose first frame is due at `start`.
    ///
    /// # Errors
    /// If frames per second are not 1 to 1,000, or the rates not `0 < min_rate <= max_rate <=
    /// 100 Gbit/s`.
    pub fn new(
        start: Instant,
        frames_per_second: u32,
        min_rate: DataRate,
        max_rate: DataRate,
    ) -> Result<Self, SourceConfigError> {
        check_rates(min_rate, max_rate)?;
        Ok(Ideal {
            schedule: Schedule::new(start, frames_per_second)?,
            min_rate,
            max_rate,
        })
    }

    pub(super) const fn frames_per_second(&self) -> u32 {
        self.schedule.frames_per_second()
    }

    /// Returns index and size in bytes of the due frame.
    pub(super) fn advance(&mut self, now: Instant, target: DataRate) -> (u64, u64) {
        let rate = target.clamp(self.min_rate, self.max_rate);
        let index = self.schedule.advance(now);
        (
            index,
            mean_frame_bytes(rate, self.schedule.frames_per_second()).max(1),
        )
    }
}

impl FrameSource for Ideal {
    fn next_at(&self) -> Option<Instant> {
        Some(self.schedule.next_at())
    }

    fn produce(&mut self, now: Instant, target: DataRate) -> FrameShape {
        let (index, bytes) = self.advance(now, target);
        FrameShape {
            bytes: u32::try_from(bytes).expect("the rate is bounded"),
            importance: Importance::key_if(self.schedule.is_key(index)),
        }
    }

    fn max_rate(&self) -> Option<DataRate> {
        Some(self.max_rate)
    }

    fn is_adaptive(&self) -> bool {
        self.min_rate < self.max_rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_have_rate_over_eight_fps_bytes_and_follow_the_target_at_once() {
        let min_rate = DataRate::from_kilobits_per_second(500);
        let max_rate = DataRate::from_megabits_per_second(2);
        let mut source = Ideal::new(Instant::ZERO, 25, min_rate, max_rate).unwrap();
        for (kilobits, bytes) in [
            (1_000, 5_000),
            (1_500, 7_500),
            (100, 2_500),
            (9_000, 10_000),
        ] {
            let now = source.next_at().unwrap();
            let frame = source.produce(now, DataRate::from_kilobits_per_second(kilobits));
            assert_eq!(frame.bytes, bytes, "{kilobits} kbit/s");
        }
    }

    #[test]
    fn every_fps_frames_one_is_a_key_frame() {
        let rate = DataRate::from_megabits_per_second(1);
        let mut source = Ideal::new(Instant::ZERO, 25, rate, rate).unwrap();
        for index in 0..100 {
            let now = source.next_at().unwrap();
            assert_eq!(
                source.produce(now, rate).importance.is_key(),
                index % 25 == 0,
                "{index}"
            );
        }
    }
}
