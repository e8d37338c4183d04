//! A source that plays a film's frames at their own times.

use std::sync::Arc;

use anabranch_units::{DataRate, Instant};

use super::{FrameShape, FrameSource, SourceConfigError, check_rates};
use crate::frame_trace::FrameTrace;

/// Plays a [`FrameTrace`] repeatedly. Sizes are the film's own if it is not adapted, and else
/// scaled by the target over the film's average bitrate.
#[derive(Clone, Debug)]
pub struct Stored {
    /// Start of the present round.
    round_at: Instant,
    index: usize,
    min_rate: DataRate,
    max_rate: DataRate,
    film: Arc<FrameTrace>,
}

impl Stored {
    /// Creates a source whose first frame is due at `start`.
    ///
    /// # Errors
    /// If the rates are not `0 < min_rate <= max_rate <= 100 Gbit/s`.
    pub fn new(
        start: Instant,
        (min_rate, max_rate): (DataRate, DataRate),
        film: Arc<FrameTrace>,
    ) -> Result<Self, SourceConfigError> {
        check_rates(min_rate, max_rate)?;
        Ok(Stored {
            round_at: start,
            index: 0,
            min_rate,
            max_rate,
            film,
        })
    }

    fn due_at(&self) -> Instant {
        let frames = self.film.frames();
        self.round_at + (frames[self.index].at - frames[0].at)
    }
}

impl FrameSource for Stored {
    fn next_at(&self) -> Option<Instant> {
        Some(self.due_at())
    }

    fn produce(&mut self, now: Instant, target: DataRate) -> FrameShape {
        let due_at = self.due_at();
        assert!(
            now >= due_at,
            "no frame is due at {now}, the next is at {due_at}"
        );
        let frame = self.film.frames()[self.index];
        self.index += 1;
        if self.index == self.film.frames().len() {
            self.index = 0;
            self.round_at += self.film.duration();
        }
        let rate = target.clamp(self.min_rate, self.max_rate);
        let mean = self.film.mean_rate();
        let scale = rate.bits_per_second() as f64 / mean.bits_per_second().max(1) as f64;
        FrameShape {
            bytes: ((f64::from(frame.bytes) * scale + 0.5) as u32).clamp(1, 8 << 20),
            importance: frame.importance,
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
    use anabranch_units::{Duration, Importance};

    use super::*;
    use crate::frame_trace::TracedFrame;

    fn film() -> Arc<FrameTrace> {
        // At uneven times. The last frame lasts 50 ms, the average of the others.
        let frames = [
            (10, 6_000, Importance::Key),
            (50, 1_000, Importance::Disposable),
            (110, 2_000, Importance::Reference),
        ];
        Arc::new(
            FrameTrace::new(
                frames
                    .map(|(millis, bytes, importance)| TracedFrame {
                        at: Duration::from_millis(millis),
                        bytes,
                        kind: None,
                        importance,
                    })
                    .into(),
            )
            .unwrap(),
        )
    }

    fn play(rates: (DataRate, DataRate), target: DataRate) -> Vec<(u64, u32, Importance)> {
        let mut source = Stored::new(Instant::from_secs(1), rates, film()).unwrap();
        (0..5)
            .map(|_| {
                let at = source.next_at().unwrap();
                let shape = source.produce(at, target);
                (at.as_micros() / 1_000, shape.bytes, shape.importance)
            })
            .collect()
    }

    #[test]
    fn frames_come_at_their_times_and_over_again() {
        let mean = film().mean_rate();
        use Importance::{Disposable, Key, Reference};
        let expected = [
            (1_000, 6_000, Key),
            (1_040, 1_000, Disposable),
            (1_100, 2_000, Reference),
            (1_150, 6_000, Key),
            (1_190, 1_000, Disposable),
        ];
        assert_eq!(play((mean, mean), DataRate::MAX), expected);
    }

    #[test]
    fn sizes_follow_the_target_if_they_may() {
        // 9000 B in 150 ms.
        let mean = film().mean_rate();
        assert_eq!(mean, DataRate::from_kilobits_per_second(480));
        let rates = (mean, DataRate::from_kilobits_per_second(960));
        let frames = play(rates, DataRate::MAX);
        assert_eq!((frames[0].1, frames[1].1), (12_000, 2_000));
        assert_eq!(play(rates, DataRate::ZERO)[0].1, 6_000);
    }
}
