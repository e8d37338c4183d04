//! At which rate a source gives media.

use anabranch_units::{DataRate, Duration, Instant};

/// The rate is measured over one to two of these, so that a key frame counts with others.
const SPAN: Duration = Duration::from_millis(500);
/// The first frames are spread over this at most, …
const LONGEST_FIRST_SPAN: Duration = Duration::from_millis(200);
/// … and at least: a frame is no rate by itself.
const SHORTEST_FIRST_SPAN: Duration = Duration::from_millis(5);

/// The mean rate over the present span and the one before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SourceRate {
    /// Minimum time over which the first frames are spread: after a single frame, the time of the
    /// next one is unknown.
    first_span: Duration,
    /// When the present span began.
    began_at: Option<Instant>,
    /// Bytes of the present span.
    bytes: u64,
    /// Bytes of the span before; `None` in the first one.
    bytes_before: Option<u64>,
}

impl SourceRate {
    /// Creates the measurement of a source whose frames are worthless after `deadline`.
    pub(crate) fn new(deadline: Duration) -> Self {
        let mut rate = SourceRate {
            first_span: Duration::ZERO,
            began_at: None,
            bytes: 0,
            bytes_before: None,
        };
        rate.set_deadline(deadline);
        rate
    }

    /// Sets the time after which frames are worthless.
    pub(crate) fn set_deadline(&mut self, deadline: Duration) {
        // At the rate that this gives, a frame leaves in a quarter of its lifetime.
        self.first_span = (deadline / 4).clamp(SHORTEST_FIRST_SPAN, LONGEST_FIRST_SPAN);
    }

    /// Counts a frame that comes now. The rate, this frame included.
    pub(crate) fn on_frame(&mut self, now: Instant, bytes: usize) -> DataRate {
        let began_at = *self.began_at.get_or_insert(now);
        let elapsed = now.saturating_since(began_at);
        if elapsed >= SPAN * 2 {
            // The source has paused, and may go on as it began.
            *self = SourceRate {
                began_at: Some(now),
                bytes: 0,
                bytes_before: None,
                ..*self
            };
        } else if elapsed >= SPAN {
            self.bytes_before = Some(self.bytes);
            self.began_at = Some(began_at + SPAN);
            self.bytes = 0;
        }
        self.bytes += bytes as u64;
        let elapsed = now.saturating_since(self.began_at.unwrap_or(now));
        match self.bytes_before {
            None => DataRate::from_bytes_per(self.bytes, elapsed.max(self.first_span)),
            Some(before) => DataRate::from_bytes_per(before + self.bytes, SPAN + elapsed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEADLINE: Duration = Duration::from_millis(400);

    /// Returns the rate in kbit/s after each frame, one of which comes every 40 ms.
    fn rates(source: &mut SourceRate, from_millis: u64, sizes: &[usize]) -> Vec<u64> {
        let mut now = Instant::from_millis(from_millis);
        let mut rates = Vec::new();
        for size in sizes {
            rates.push(source.on_frame(now, *size).bits_per_second() / 1_000);
            now += Duration::from_millis(40);
        }
        rates
    }

    #[test]
    fn first_frame_spans_a_quarter_of_the_deadline() {
        fn rate(deadline_millis: u64) -> u64 {
            let mut source = SourceRate::new(Duration::from_millis(deadline_millis));
            rates(&mut source, 0, &[20_000])[0]
        }
        assert_eq!(rate(400), 1_600);
        assert_eq!(rate(100), 6_400);
        assert_eq!(rate(60_000), 800, "200 ms at most");
        assert_eq!(rate(0), 32_000, "5 ms at least");
    }

    #[test]
    fn after_a_few_frames_the_rate_is_that_of_the_source_and_stays_so() {
        let mut source = SourceRate::new(DEADLINE);
        let rates = rates(&mut source, 0, &[20_000; 200]);
        assert!(
            rates[3..12]
                .iter()
                .all(|rate| (4_000..=5_400).contains(rate))
        );
        assert!(
            rates[12..]
                .iter()
                .all(|rate| (4_000..=4_400).contains(rate))
        );
    }

    #[test]
    fn a_key_frame_counts_with_those_around_it() {
        let mut sizes = [18_000; 100];
        (0..100).step_by(50).for_each(|index| sizes[index] = 90_000);
        let rates = rates(&mut SourceRate::new(DEADLINE), 0, &sizes);
        assert!(
            rates[25..]
                .iter()
                .all(|rate| (3_600..=5_200).contains(rate))
        );
    }

    #[test]
    fn after_a_pause_it_begins_again() {
        let mut source = SourceRate::new(DEADLINE);
        rates(&mut source, 0, &[20_000; 50]);
        assert_eq!(rates(&mut source, 60_000, &[20_000])[0], 1_600);
    }
}
