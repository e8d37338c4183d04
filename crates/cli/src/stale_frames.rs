//! Frames of a live input that are too old when they are read, because the program was suspended or
//! got no processor.

use anabranch_units::Duration;

/// Age below which a frame is always in time, whatever the latency.
const ALWAYS_IN_TIME: Duration = Duration::from_millis(10);

/// Counter of frames that are too old, until one is in time again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StaleFrames {
    count: u64,
    oldest: Duration,
}

impl StaleFrames {
    /// Records a frame of this `age` at a session with this `latency`. If it is the first in time
    /// again, returns a warning about those before it.
    pub(crate) fn on_frame(
        &mut self,
        age: Duration,
        latency: impl FnOnce() -> Duration,
    ) -> Option<String> {
        if age >= ALWAYS_IN_TIME && age >= latency() {
            self.count += 1;
            self.oldest = self.oldest.max(age);
            return None;
        }
        let StaleFrames { count, oldest } = core::mem::take(self);
        let seconds = oldest.as_secs_f64();
        (count > 0).then(|| {
            format!(
                "this program stood still for {seconds:.1} s: {count} frames of the input were \
                 too old to be sent"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_that_are_too_old_are_reported_once_with_the_first_in_time() {
        let mut stale = StaleFrames::default();
        let mut warnings = Vec::new();
        // After a stop of 20 s all frames are read together, and the latest ones are not too old.
        let after_stop = (0..500).map(|number| (20_000 - 40 * number, 500));
        // Usual scheduling delays do not count.
        let others = [(0, 500), (3, 500), (499, 500), (9, 5)];
        for (age, latency) in after_stop.chain(others) {
            let [age, latency] = [age, latency].map(Duration::from_millis);
            warnings.extend(stale.on_frame(age, || latency));
        }
        let expected = "this program stood still for 20.0 s: 488 frames of the input were too old \
                        to be sent";
        assert_eq!(warnings, [expected]);
    }
}
