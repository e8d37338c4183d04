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
pub struct TargetNews {
    interval: Duration,
    told: Option<(Instant, DataRate)>,
}

impl Default for TargetNews {
    fn default() -> Self {
        TargetNews::every(INTERVAL)
    }
}

impl TargetNews {
    /// Creates the state. Increases are reported at most once in this interval.
    pub fn every(interval: Duration) -> Self {
        TargetNews {
            interval,
            told: None,
        }
    }

    /// Returns whether to report `target` now. A drop is reported at once: excess packets would be
    /// late.
    pub fn is_news(&mut self, now: Instant, target: DataRate) -> bool {
        let is_news = match self.told {
            None => true,
            Some((at, told)) => {
                let change = target.bits_per_second().abs_diff(told.bits_per_second());
                let is_large = change * 100 >= told.bits_per_second() * MIN_CHANGE_PERCENT;
                is_large && change > 0 && (target < told || now >= at + self.interval)
            }
        };
        if is_news {
            self.told = Some((now, target));
        }
        is_news
    }

    /// Returns the last reported target; `None` before the first.
    pub fn told(&self) -> Option<DataRate> {
        self.told.map(|(_, told)| told)
    }

    /// Returns the time of the last report.
    pub fn told_at(&self) -> Option<Instant> {
        self.told.map(|(at, _)| at)
    }

    /// Forgets the last report, because its reader has gone.
    pub fn forget(&mut self) {
        self.told = None;
    }

    /// Records a repetition of the last report.
    pub fn repeat(&mut self, now: Instant) {
        if let Some((at, _)) = &mut self.told {
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
        let mut news = TargetNews::default();
        let mut tell = |millis, kbit| news.is_news(Instant::from_millis(millis), KBIT(kbit));
        assert!(tell(0, 1_000));
        assert!(!tell(100, 2_000));
        assert!(tell(500, 2_000));
        assert!(tell(550, 1_940));
        assert!(tell(600, 1_000));
        assert!(!tell(1_050, 1_100));
        assert!(tell(1_100, 1_100));
    }

    #[test]
    fn a_change_of_less_than_three_percent_is_not_told() {
        let mut news = TargetNews::default();
        assert!(news.is_news(Instant::ZERO, KBIT(1_000)));
        for (second, kbit) in [(1, 1_029), (2, 971), (3, 1_000)] {
            assert!(!news.is_news(Instant::from_millis(1_000 * second), KBIT(kbit)));
        }
        assert!(news.is_news(Instant::from_millis(4_000), KBIT(1_030)));
        news.forget();
        assert!(news.is_news(Instant::from_millis(4_001), KBIT(1_030)));
    }
}
