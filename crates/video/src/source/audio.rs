//! A voice codec of constant bitrate.

use anabranch_units::{DataRate, Duration, Importance, Instant};

use super::{FrameShape, FrameSource, SourceConfigError, check_rates};

/// Equal frames at equal intervals, each of which can be decoded on its own.
#[derive(Clone, Debug)]
pub struct Audio {
    rate: DataRate,
    interval: Duration,
    next_at: Instant,
}

impl Audio {
    /// Creates a source whose first frame is due at `start`.
    ///
    /// # Errors
    /// If the interval is not 1 ms to 1 s, or the rate is zero or above 100 Gbit/s.
    pub fn new(
        start: Instant,
        rate: DataRate,
        interval: Duration,
    ) -> Result<Self, SourceConfigError> {
        check_rates(rate, rate)?;
        if !(Duration::from_millis(1)..=Duration::from_secs(1)).contains(&interval) {
            return Err(SourceConfigError::FrameInterval(interval));
        }
        Ok(Audio {
            rate,
            interval,
            next_at: start,
        })
    }
}

impl FrameSource for Audio {
    fn next_at(&self) -> Option<Instant> {
        Some(self.next_at)
    }

    fn produce(&mut self, now: Instant, _target: DataRate) -> FrameShape {
        let next_at = self.next_at;
        assert!(
            now >= next_at,
            "no frame is due at {now}, the next is at {next_at}"
        );
        self.next_at += self.interval;
        let bytes = self.rate.bytes_in(self.interval).max(1);
        FrameShape {
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
            importance: Importance::Key,
        }
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
    fn twenty_kilobits_in_frames_of_20_ms_are_50_bytes_each() {
        let rate = DataRate::from_kilobits_per_second(20);
        let mut source = Audio::new(Instant::ZERO, rate, Duration::from_millis(20)).unwrap();
        for index in 0..100 {
            let now = source.next_at().unwrap();
            assert_eq!(now, Instant::from_millis(20 * index));
            let frame = source.produce(now, DataRate::MAX);
            assert_eq!((frame.bytes, frame.importance.is_key()), (50, true));
        }
        assert!(Audio::new(Instant::ZERO, rate, Duration::ZERO).is_err());
    }
}
