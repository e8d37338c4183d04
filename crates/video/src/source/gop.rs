//! The ideal encoder with key frames larger than the others, at the same average bitrate.

use anabranch_units::{DataRate, Importance, Instant};

use super::{FrameShape, FrameSource, Ideal, LEAST_KEY_FRAME_INTERVAL, SourceConfigError};

/// Groups of one key frame and `interval - 1` others. With the ideal frame of `b` bytes, another
/// frame has `b * interval / (interval - 1 + ratio)` bytes and a key frame `ratio` times that.
///
/// A key frame requested by a loss also begins a group. Its excess size comes on top of the
/// average.
#[derive(Clone, Debug)]
pub struct Gop {
    ideal: Ideal,
    key_frame_interval: u32,
    key_frame_ratio: f64,
    has_key_on_loss: bool,
    /// The index of the present group's key frame.
    key_index: u64,
    is_key_wanted: bool,
}

impl Gop {
    /// Shapes the frames of `ideal`: every `key_frame_interval` frames one has `key_frame_ratio`
    /// times the size of the others.
    ///
    /// # Errors
    /// If the interval is zero or the ratio not 1 to 1,000.
    pub fn new(
        ideal: Ideal,
        key_frame_interval: u32,
        key_frame_ratio: f64,
    ) -> Result<Self, SourceConfigError> {
        if key_frame_interval == 0 {
            return Err(SourceConfigError::KeyFrameInterval);
        }
        if !(1.0..=1_000.0).contains(&key_frame_ratio) {
            return Err(SourceConfigError::KeyFrameRatio(key_frame_ratio));
        }
        Ok(Gop {
            ideal,
            key_frame_interval,
            key_frame_ratio,
            has_key_on_loss: false,
            key_index: 0,
            is_key_wanted: false,
        })
    }

    /// Sets whether a key frame follows at once after a frame was given up.
    #[must_use]
    pub fn with_key_on_loss(mut self, has_key_on_loss: bool) -> Self {
        self.has_key_on_loss = has_key_on_loss;
        self
    }
}

impl FrameSource for Gop {
    fn next_at(&self) -> Option<Instant> {
        self.ideal.next_at()
    }

    fn produce(&mut self, now: Instant, target: DataRate) -> FrameShape {
        let (index, mean_bytes) = self.ideal.advance(now, target);
        let interval = u64::from(self.key_frame_interval);
        let is_due = (index - self.key_index).is_multiple_of(interval);
        let least_frames = (LEAST_KEY_FRAME_INTERVAL.as_secs_f64()
            * f64::from(self.ideal.frames_per_second())) as u64;
        let is_key = is_due || (self.is_key_wanted && index - self.key_index >= least_frames);
        if is_key {
            self.key_index = index;
            self.is_key_wanted = false;
        }
        let interval = f64::from(self.key_frame_interval);
        let other_bytes = mean_bytes as f64 * interval / (interval - 1.0 + self.key_frame_ratio);
        let bytes = if is_key {
            other_bytes * self.key_frame_ratio
        } else {
            other_bytes
        };
        FrameShape {
            bytes: (bytes as u32).max(1),
            importance: Importance::key_if(is_key),
        }
    }

    fn on_frame_lost(&mut self) {
        self.is_key_wanted = self.has_key_on_loss;
    }

    fn max_rate(&self) -> Option<DataRate> {
        self.ideal.max_rate()
    }

    fn is_adaptive(&self) -> bool {
        self.ideal.is_adaptive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_lost_calls_for_a_key_frame_which_begins_a_group() {
        fn keys(has_key_on_loss: bool, lost: &[usize], rate: DataRate) -> Vec<usize> {
            let ideal = Ideal::new(Instant::ZERO, 25, rate, rate).unwrap();
            let gop = Gop::new(ideal, 50, 5.0).unwrap();
            let mut source = gop.with_key_on_loss(has_key_on_loss);
            let mut keys = Vec::new();
            for index in 0..150 {
                if lost.contains(&index) {
                    source.on_frame_lost();
                }
                let now = source.next_at().unwrap();
                if source.produce(now, rate).importance.is_key() {
                    keys.push(index);
                }
            }
            keys
        }

        let rate = DataRate::from_megabits_per_second(1);
        assert_eq!(keys(true, &[70, 72], rate), [0, 50, 70, 82, 132]);
        // Not within half a second of the last one.
        assert_eq!(keys(true, &[53], rate), [0, 50, 62, 112]);
        assert_eq!(keys(false, &[70], rate), [0, 50, 100]);
    }

    #[test]
    fn key_frames_have_the_ratio_and_the_mean_is_the_ideal_encoders() {
        let rate = DataRate::from_megabits_per_second(1);
        let ideal = Ideal::new(Instant::ZERO, 25, rate, rate).unwrap();
        let mut source = Gop::new(ideal, 50, 5.0).unwrap();
        let frames: Vec<FrameShape> = (0..100)
            .map(|_| {
                let now = source.next_at().unwrap();
                source.produce(now, rate)
            })
            .collect();
        let total: u64 = frames.iter().map(|frame| u64::from(frame.bytes)).sum();
        assert!((499_850..=500_000).contains(&total), "{total}");
        let keys: Vec<usize> = (0..100)
            .filter(|&index| frames[index].importance.is_key())
            .collect();
        assert_eq!(keys, [0, 50]);
        let ratio = f64::from(frames[50].bytes) / f64::from(frames[51].bytes);
        assert!((ratio - 5.0).abs() < 0.01, "{ratio}");
    }
}
