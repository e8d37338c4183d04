//! A stream's own time, out of 33-bit counters that wrap, jump and step back.

use anabranch_units::Duration;

const TICKS_PER_SECOND: u64 = 90_000;
const COUNTER_BITS: u32 = 33;
/// A step further than this, either way, is a discontinuity: another recording was spliced in, or
/// the file starts over. The time between is unknown and taken as none.
const LARGEST_STEP: u64 = 10 * TICKS_PER_SECOND;

/// Adds up the steps of a counter of 1/90,000 s. Never steps back.
#[derive(Clone, Debug, Default)]
pub(super) struct StreamClock {
    last: Option<u64>,
    elapsed_ticks: u64,
}

impl StreamClock {
    /// Time from the first counter value to this one.
    pub(super) fn advance(&mut self, counter: u64) -> Duration {
        if let Some(last) = self.last {
            let forward = counter.wrapping_sub(last) & ((1 << COUNTER_BITS) - 1);
            let backward = last.wrapping_sub(counter) & ((1 << COUNTER_BITS) - 1);
            if forward <= LARGEST_STEP {
                self.elapsed_ticks += forward;
            } else if backward <= LARGEST_STEP {
                // Pictures in coding order, of which only the moment of display is known.
                return self.elapsed();
            }
        }
        self.last = Some(counter);
        self.elapsed()
    }

    fn elapsed(&self) -> Duration {
        // 1 tick is 100,000 / 9 ns. Whole seconds apart, so that no stream is too long.
        let (seconds, ticks) = (
            self.elapsed_ticks / TICKS_PER_SECOND,
            self.elapsed_ticks % TICKS_PER_SECOND,
        );
        Duration::from_secs(seconds) + Duration::from_nanos(ticks * 100_000 / 9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRAP: u64 = 1 << COUNTER_BITS;

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
}
