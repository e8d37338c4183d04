//! Steps of the 33-bit counters of a transport stream, which wrap, jump and step back, and the
//! time that they add up to.

use anabranch_units::Duration;

/// Ticks of the clock of MPEG-TS in a second.
pub const TICKS_PER_SECOND: u64 = 90_000;
const COUNTER_MASK: u64 = (1 << 33) - 1;
/// Longest step forward within a time base; a longer one is a discontinuity. Pictures of a slide
/// show may be this far apart, and so are clock references that only occur in pictures.
const LONGEST_STEP: Duration = Duration::from_secs(30);
/// Largest step back of a clock reference, due to the multiplexer's jitter. A larger one belongs to
/// another time base.
pub(super) const REFERENCE_HOLD: Duration = Duration::from_millis(100);
/// Largest step back of timestamps: in coding order they step back by a few pictures.
pub(super) const TIMESTAMP_HOLD: Duration = Duration::from_secs(1);

/// Relation of a counter's value to the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The counter has advanced by this time.
    Forward(Duration),
    /// The counter is behind an earlier value of the same time base.
    Held,
    /// A new time base begins: the time that has passed is unknown.
    Jump,
}

/// A counter of 1/90,000 s.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counter {
    last: u64,
    /// Largest step back within a time base.
    hold: Duration,
}

impl Counter {
    /// Creates a counter with a first value.
    pub(super) const fn new(first: u64, hold: Duration) -> Self {
        Counter { last: first, hold }
    }

    /// Takes the next value. `is_new_base` says whether the stream announces a discontinuity.
    pub(super) fn advance(&mut self, value: u64, is_new_base: bool) -> Step {
        let forward = ticks(value.wrapping_sub(self.last) & COUNTER_MASK);
        let backward = ticks(self.last.wrapping_sub(value) & COUNTER_MASK);
        // Some multiplexers announce false discontinuities.
        let longest = if is_new_base {
            REFERENCE_HOLD
        } else {
            LONGEST_STEP
        };
        if backward <= self.hold && !forward.is_zero() && !is_new_base {
            return Step::Held;
        }
        self.last = value;
        if forward <= longest {
            Step::Forward(forward)
        } else {
            Step::Jump
        }
    }
}

/// Adds up the steps of a counter. Never steps back.
#[derive(Clone, Debug, Default)]
pub(super) struct StreamClock {
    counter: Option<Counter>,
    elapsed: Duration,
}

impl StreamClock {
    /// Returns the time from the first timestamp to this one; discontinuities take no time.
    pub(super) fn advance(&mut self, timestamp: u64) -> Duration {
        match &mut self.counter {
            None => self.counter = Some(Counter::new(timestamp, TIMESTAMP_HOLD)),
            Some(counter) => {
                if let Step::Forward(step) = counter.advance(timestamp, false) {
                    self.elapsed += step;
                }
            }
        }
        self.elapsed
    }
}

/// Converts ticks of 1/90,000 s.
fn ticks(count: u64) -> Duration {
    // One tick is 100,000 / 9 ns. Whole seconds are converted apart, so that no product is too
    // large.
    let (seconds, rest) = (count / TICKS_PER_SECOND, count % TICKS_PER_SECOND);
    Duration::from_secs(seconds) + Duration::from_nanos(rest * 100_000 / 9)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRAP: u64 = 1 << 33;

    fn forward(millis: u64) -> Step {
        Step::Forward(Duration::from_millis(millis))
    }

    #[test]
    fn the_counter_wraps_without_a_jump() {
        let mut clock = StreamClock::default();
        assert_eq!(clock.advance(WRAP - 3_600), Duration::ZERO);
        assert_eq!(clock.advance(0), Duration::from_millis(40));
        assert_eq!(clock.advance(3_600), Duration::from_millis(80));
    }

    #[test]
    fn pictures_out_of_order_hold_the_clock() {
        let mut clock = StreamClock::default();
        let times: Vec<u64> = [0, 10_800, 3_600, 7_200, 14_400]
            .map(|pts| clock.advance(pts).as_millis())
            .into();
        assert_eq!(times, [0, 120, 120, 120, 160]);
    }

    #[test]
    fn a_discontinuity_takes_no_time() {
        let mut clock = StreamClock::default();
        clock.advance(500_000_000);
        clock.advance(500_003_600);
        assert_eq!(clock.advance(1_000), Duration::from_millis(40));
        assert_eq!(clock.advance(4_600), Duration::from_millis(80));
    }

    #[test]
    fn a_step_back_of_more_than_100_ms_is_a_jump_of_a_reference() {
        let mut counter = Counter::new(90_000, REFERENCE_HOLD);
        assert_eq!(counter.advance(90_000 - 9_000, false), Step::Held);
        assert_eq!(counter.advance(90_000, false), forward(0));
        assert_eq!(counter.advance(90_000 - 9_001, false), Step::Jump);
        assert_eq!(counter.advance(90_000 - 9_001 + 3_600, false), forward(40));
    }

    #[test]
    fn a_step_forward_is_time_up_to_30_s() {
        let mut counter = Counter::new(0, REFERENCE_HOLD);
        assert_eq!(counter.advance(30 * 90_000, false), forward(30_000));
        assert_eq!(counter.advance(60 * 90_000 + 1, false), Step::Jump);
    }

    #[test]
    fn an_announced_discontinuity_is_one_unless_the_clock_goes_on() {
        let mut counter = Counter::new(90_000, REFERENCE_HOLD);
        assert_eq!(counter.advance(93_600, true), forward(40));
        assert_eq!(counter.advance(93_600 + 9_090, true), Step::Jump);
        assert_eq!(counter.advance(93_600, true), Step::Jump);
    }
}
