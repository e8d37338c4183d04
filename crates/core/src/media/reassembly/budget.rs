//! How long a frame may hold up others: until its budget is used up, which counts from its capture.

use anabranch_units::{Duration, Instant};

/// For half as long at least the least delay is remembered: a path may have become longer for good.
const MEMORY: Duration = Duration::from_secs(10);

/// Tells when frames are due. The two ends' clocks differ by an unknown offset, which is in the
/// least time from capture to arrival that has been seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    wait: Duration,
    /// The least arrival less capture, in nanoseconds, of this half of the memory and the last.
    least: [Option<i64>; 2],
    turned_at: Instant,
}

impl Budget {
    pub(super) fn new(wait: Duration) -> Self {
        Budget {
            wait,
            least: [None; 2],
            turned_at: Instant::ZERO,
        }
    }

    /// A fragment has arrived.
    pub(super) fn on_arrival(&mut self, now: Instant, captured_at: Instant) {
        if now.saturating_since(self.turned_at) >= MEMORY / 2 {
            self.least = [None, self.least[0]];
            self.turned_at = now;
        }
        let delay = now.as_nanos() as i64 - captured_at.as_nanos() as i64;
        self.least[0] = Some(self.least[0].map_or(delay, |least| least.min(delay)));
    }

    /// When a frame has used up its time.
    pub(super) fn due_at(&self, captured_at: Instant) -> Instant {
        let least = self.least.iter().flatten().min().copied().unwrap_or(0);
        let came_at = (captured_at.as_nanos() as i64).saturating_add(least);
        Instant::from_nanos(came_at.max(0) as u64) + self.wait
    }

    /// When a frame of which nothing has arrived has, at the latest.
    pub(super) fn missing_until(&self, noticed_at: Instant) -> Instant {
        noticed_at + self.wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    #[test]
    fn the_budget_counts_from_the_capture_by_the_least_delay() {
        let mut budget = Budget::new(Duration::from_millis(100));
        // The sender's clock is an hour ahead.
        let hour = Duration::from_secs(3_600);
        budget.on_arrival(ms(50), ms(0) + hour);
        budget.on_arrival(ms(70), ms(40) + hour);
        budget.on_arrival(ms(170), ms(80) + hour);
        assert_eq!(budget.due_at(ms(80) + hour), ms(80 + 30 + 100));
    }

    #[test]
    fn a_path_that_has_become_longer_is_believed_in_the_end() {
        let mut budget = Budget::new(Duration::from_millis(100));
        budget.on_arrival(ms(6_000), ms(5_970));
        budget.on_arrival(ms(12_000), ms(11_800));
        assert_eq!(budget.due_at(ms(12_000)), ms(12_130));
        budget.on_arrival(ms(18_000), ms(17_800));
        assert_eq!(budget.due_at(ms(18_000)), ms(18_300));
    }
}
