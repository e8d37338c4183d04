//! A source of constant bitrate that ignores the target.

use anabranch_units::{DataRate, Instant};

use super::{FrameShape, FrameSource, Ideal, SourceConfigError};

/// Frames of rate / (8 fps) bytes each, independent of the target.
#[derive(Clone, Debug)]
pub struct Cbr {
    rate: DataRate,
    ideal: Ideal,
}

impl Cbr {
    /// Creates a source whose first frame is due at `start`.
    ///
    /// # Errors
    /// If frames per second are not 1 to 1,000, or the rate is zero or above 100 Gbit/s.
    pub fn new(
        start: Instant,
        frames_per_second: u32,
        rate: DataRate,
    ) -> Result<Self, SourceConfigError> {
        Ok(Cbr {
            rate,
            ideal: Ideal::new(start, frames_per_second, rate, rate)?,
        })
    }
}

impl FrameSource for Cbr {
    fn next_at(&self) -> Option<Instant> {
        self.ideal.next_at()
    }

    fn produce(&mut self, now: Instant, _target: DataRate) -> FrameShape {
        self.ideal.produce(now, self.rate)
    }

    fn max_rate(&self) -> Option<DataRate> {
        Some(self.rate)
    }

    fn is_adaptive(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_changes_nothing() {
        let rate = DataRate::from_megabits_per_second(2);
        let mut source = Cbr::new(Instant::ZERO, 25, rate).unwrap();
        for target in [DataRate::ZERO, rate, DataRate::MAX] {
            let now = source.next_at().unwrap();
            assert_eq!(source.produce(now, target).bytes, 10_000);
        }
        assert!(!source.is_adaptive());
    }
}
