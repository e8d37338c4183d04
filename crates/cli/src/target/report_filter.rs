//! The choice of target changes that an encoder should follow.

use anabranch_units::{DataRate, Duration, Instant};

/// Minimum time between two updates, unless the bitrate falls. An encoder's rate control needs some
/// frames to follow.
const INTERVAL: Duration = Duration::from_millis(500);
/// Smallest reported change, in percent: the usual error of rate controls.
const MIN_CHANGE_PERCENT: u64 = 3;

/// The last reported target.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReportFilter {
    interval: Duration,
    reported: Option<(Instant, DataRate)>,
}

impl Default for ReportFilter {
    fn default() -> Self {
        ReportFilter::every(INTERVAL)
    }
}

impl ReportFilter {
    /// Creates the state. Increases are reported at most once in this interval.
    pub(super) fn every(interval: Duration) -> Self {
        ReportFilter {
            interval,
            reported: None,
        }
    }

    /// Returns whether to report `target` now. A drop is reported at once: excess packets would be
    /// late.
    pub(super) fn should_report(&mut self, now: Instant, target: DataRate) -> bool {
        let should_report = match self.reported {
            None => true,
            Some((at, reported)) => {
                let change = target
                    .bits_per_second()
                    .abs_diff(reported.bits_per_second());
                let is_large = change * 100 >= reported.bits_per_second() * MIN_CHANGE_PERCENT;
                is_large && change > 0 && (target < reported || now >= at + self.interval)
            }
        };
        if should_report {
            self.reported = Some((now, target));
        }
        should_report
    }

    /// Returns the time of the last report.
    pub(super) fn reported_at(&self) -> Option<Instant> {
        self.reported.map(|(at, _)| at)
    }

    /// Forgets the last report, because its reader has gone.
    pub(super) fn forget(&mut self) {
        self.reported = None;
    }

    /// Records a repetition of the last report.
    pub(super) fn repeat(&mut self, now: Instant) {
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
    fn growth_is_told_twice_a_second_and_drops_at_once() {
        let mut report_filter = ReportFilter::default();
        let mut send =
            |millis, kbit| report_filter.should_report(Instant::from_millis(millis), KBIT(kbit));
        assert!(send(0, 1_000));
        assert!(!send(100, 2_000));
        assert!(send(500, 2_000));
        assert!(send(550, 1_940));
        assert!(send(600, 1_000));
        assert!(!send(1_050, 1_100));
        assert!(send(1_100, 1_100));
    }

    #[test]
    fn a_change_of_less_than_three_percent_is_not_told() {
        let mut report_filter = ReportFilter::default();
        assert!(report_filter.should_report(Instant::ZERO, KBIT(1_000)));
        for (second, kbit) in [(1, 1_029), (2, 971), (3, 1_000)] {
            assert!(!report_filter.should_report(Instant::from_millis(1_000 * second), KBIT(kbit)));
        }
        assert!(report_filter.should_report(Instant::from_millis(4_000), KBIT(1_030)));
        report_filter.forget();
        assert!(report_filter.should_report(Instant::from_millis(4_001), KBIT(1_030)));
    }
}
