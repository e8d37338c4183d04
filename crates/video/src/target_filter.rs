//! The choice of target changes that an encoder should follow, for all programs and models of
//! encoders.

use anabranch_units::{DataRate, Duration, Instant};

/// Minimum time between two updates, unless the bitrate falls. An encoder's rate control needs some
/// frames to follow.
const INTERVAL: Duration = Duration::from_millis(500);
/// Smallest reported change, in percent: the usual error of rate controls.
const MIN_CHANGE_PERCENT: u64 = 3;

/// The last reported target.
#[derive(Clone, Copy, Debug)]
pub struct TargetFilter {
    interval: Duration,
    reported: Option<(Instant, DataRate)>,
}

impl Default for TargetFilter {
    fn default() -> Self {
        TargetFilter::every(INTERVAL)
    }
}

impl TargetFilter {
    /// Creates the state. Increases are reported at most once in this interval.
    pub fn every(interval: Duration) -> Self {
        TargetFilter {
            interval,
            reported: None,
        }
    }

    /// Returns whether to report `target` now. A drop is reported at once: excess packets would be
    /// late.
    pub fn should_report(&mut self, now: Instant, target: DataRate) -> bool {
        let is_new = match self.reported {
            None => true,
            Some((at, reported)) => {
                let change = target
                    .bits_per_second()
                    .abs_diff(reported.bits_per_second());
                let is_large = change * 100 >= reported.bits_per_second() * MIN_CHANGE_PERCENT;
                is_large && change > 0 && (target < reported || now >= at + self.interval)
            }
        };
        if is_new {
            self.reported = Some((now, target));
        }
        is_new
    }

    /// Returns the last reported target; `None` before the first.
    pub fn reported(&self) -> Option<DataRate> {
        self.reported.map(|(_, reported)| reported)
    }

    /// Returns the time of the last report.
    pub fn reported_at(&self) -> Option<Instant> {
        self.reported.map(|(at, _)| at)
    }

    /// Forgets the last report, because its reader has gone.
    pub fn forget(&mut self) {
        self.reported = None;
    }

    /// Records a repetition of the last report.
    pub fn repeat(&mut self, now: Instant) {
        if let Some((at, _)) = &mut self.reported {
            *at = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KBIT: fn(u64) -> DataRate = DataRate::from_kilobits_per_second;

    #[test]
    fn growth_is_reported_twice_a_second_drops_at_once() {
        let mut filter = TargetFilter::default();
        let mut should_report =
            |millis, kbit| filter.should_report(Instant::from_millis(millis), KBIT(kbit));
        assert!(should_report(0, 1_000));
        assert!(!should_report(100, 2_000));
        assert!(should_report(500, 2_000));
        assert!(should_report(550, 1_940));
        assert!(should_report(600, 1_000));
        assert!(!should_report(1_050, 1_100));
        assert!(should_report(1_100, 1_100));
    }

    #[test]
    fn changes_below_three_percent_are_not_reported() {
        let mut filter = TargetFilter::default();
        assert!(filter.should_report(Instant::ZERO, KBIT(1_000)));
        for (second, kbit) in [(1, 1_029), (2, 971), (3, 1_000)] {
            assert!(!filter.should_report(Instant::from_millis(1_000 * second), KBIT(kbit)));
        }
        assert!(filter.should_report(Instant::from_millis(4_000), KBIT(1_030)));
        filter.forget();
        assert!(filter.should_report(Instant::from_millis(4_001), KBIT(1_030)));
    }
}
