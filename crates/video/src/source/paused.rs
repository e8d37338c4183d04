//! A source that is silent for a while and returns.

use anabranch_units::{DataRate, Duration, Importance, Instant};

use super::{FrameShape, FrameSource};

/// Another source without the frames that are due in pauses. The first after a pause is a key
/// frame, for viewers that joined in between, if the source has key frames.
#[derive(Debug)]
pub struct Paused {
    source: Box<dyn FrameSource>,
    /// Start and length of each pause.
    pauses: Vec<(Instant, Duration)>,
    has_skipped: bool,
    /// Whether there has been a key frame, so that frames need one another.
    has_keys: bool,
}

impl Paused {
    /// Leaves out the frames of `source` that are due in `pauses`.
    pub fn new(source: Box<dyn FrameSource>, pauses: Vec<(Instant, Duration)>) -> Paused {
        let mut paused = Paused {
            source,
            pauses,
            has_skipped: false,
            has_keys: false,
        };
        paused.skip(DataRate::ZERO);
        paused
    }

    fn is_pause(&self, at: Instant) -> bool {
        let mut pauses = self.pauses.iter();
        pauses.any(|(from, span)| *from <= at && at - *from < *span)
    }

    /// Skips the frames that are due in a pause.
    fn skip(&mut self, target: DataRate) {
        while let Some(at) = self.source.next_at()
            && self.is_pause(at)
        {
            let skipped = self.source.produce(at, target);
            self.has_keys |= skipped.importance.is_key();
            self.has_skipped = true;
        }
    }
}

impl FrameSource for Paused {
    fn on_frame_lost(&mut self) {
        self.source.on_frame_lost();
    }

    fn next_at(&self) -> Option<Instant> {
        self.source.next_at()
    }

    fn produce(&mut self, now: Instant, target: DataRate) -> FrameShape {
        let shape = self.source.produce(now, target);
        self.has_keys |= shape.importance.is_key();
        let is_first = std::mem::take(&mut self.has_skipped) && self.has_keys;
        self.skip(target);
        FrameShape {
            importance: if is_first {
                Importance::Key
            } else {
                shape.importance
            },
            ..shape
        }
    }

    fn max_rate(&self) -> Option<DataRate> {
        self.source.max_rate()
    }

    fn is_adaptive(&self) -> bool {
        self.source.is_adaptive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{Cbr, Packets};

    #[test]
    fn nothing_is_due_in_a_pause_and_a_key_frame_ends_it() {
        let rate = DataRate::from_megabits_per_second(1);
        let source = Box::new(Cbr::new(Instant::ZERO, 25, rate).unwrap());
        let pauses = [(0, 100), (1_200, 400)]
            .map(|(at, span)| (Instant::from_millis(at), Duration::from_millis(span)));
        let mut source = Paused::new(source, pauses.to_vec());
        let frames: Vec<(u64, bool)> = (0..40)
            .map(|_| {
                let now = source.next_at().unwrap();
                (
                    now.as_nanos() / 1_000_000,
                    source.produce(now, rate).importance.is_key(),
                )
            })
            .collect();
        assert_eq!(frames[0], (120, true));
        assert_eq!(frames[1], (160, false));
        let gap = frames
            .windows(2)
            .find(|pair| pair[1].0 - pair[0].0 > 40)
            .unwrap();
        assert_eq!(gap, [(1_160, false), (1_600, true)]);
        assert_eq!(frames[39].0, 2_000 + 40 * 2);
    }

    #[test]
    fn packets_that_stand_alone_do_so_after_a_pause() {
        let rate = DataRate::from_megabits_per_second(1);
        let source = Box::new(Packets::new(Instant::ZERO, 1_316, rate, rate).unwrap());
        let pause = (Instant::from_millis(100), Duration::from_millis(400));
        let mut source = Paused::new(source, vec![pause]);
        for _ in 0..100 {
            let now = source.next_at().unwrap();
            assert!(!source.produce(now, rate).importance.is_key());
        }
    }
}
