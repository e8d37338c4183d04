//! Metered paths in reserve: whether unmetered paths suffice without them.
//!
//! They suffice if all of these hold:
//! - their bandwidth is at least 1.25 times the required media rate;
//! - their backlog drains within a quarter of the deadline;
//! - their queueing delay is at most a quarter of the deadline.
//!
//! Metered paths leave the reserve if one of these holds:
//! - the bandwidth of the others is below the required rate itself;
//! - their backlog needs more than a quarter of the deadline;
//! - their queueing delay exceeds half of the deadline.
//!
//! Queues caused by cross traffic alone do not justify the cost while frames come in time. Either
//! state must last ([`SUFFICIENT_FOR`], [`SHORT_FOR`]), so that neither a frame nor a controller's
//! dip changes anything. The loss of the last other path takes effect at once.
//!
//! The required rate of a source that follows no target is its actual rate. For an adaptive source
//! it is twice its minimum, or its maximum if that is less: metered paths serve to keep the
//! picture, not to improve it. A user who wants more of them sets a higher minimum.
//!
//! While metered paths help, the others are padded until their bandwidth is known to suffice, and
//! no further: more bandwidth saves nothing, and its queues keep metered paths in use.

use anabranch_units::{DataRate, Duration, Instant};

use crate::config::SourceLimits;

/// Factor by which the bandwidth has to exceed the needed rate: an encoder is asked for 0.8 of it.
const MARGIN: f64 = 1.25;

/// Time for which the other paths must fall short before metered ones help.
const SHORT_FOR: Duration = Duration::from_millis(100);

/// Time for which the other paths must suffice before metered ones are held in reserve.
const SUFFICIENT_FOR: Duration = Duration::from_secs(1);

/// Decides whether metered paths are held in reserve.
#[derive(Debug)]
pub(crate) struct Standby {
    is_in_reserve: bool,
    /// Whether the other paths' bandwidth is below the one at which metered paths return to
    /// reserve.
    is_scarce: bool,
    /// Time since which the opposite of `is_in_reserve` has seemed right.
    contested_since: Option<Instant>,
}

/// State of the active paths without a meter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unmetered {
    /// Number of these paths.
    pub(crate) path_count: usize,
    /// Bandwidth of all together.
    pub(crate) bandwidth: DataRate,
    /// Backlog of these paths, with that in the network of congested ones.
    pub(crate) queued_bytes: u64,
    /// Queueing delay of the best of them: the excess of its round-trip time, measured or
    /// predicted, over its least one.
    pub(crate) queueing_delay: Duration,
}

impl Standby {
    /// Creates the state with metered paths in reserve, until the others are seen to fall short.
    pub(crate) fn new() -> Self {
        Standby {
            is_in_reserve: true,
            is_scarce: false,
            contested_since: None,
        }
    }

    /// Returns whether metered paths are in reserve now.
    pub(crate) fn is_in_reserve(&self) -> bool {
        self.is_in_reserve
    }

    /// Returns whether more bandwidth of the others would save money: metered paths help, and the
    /// others lack bandwidth. If they only have a backlog, they need time, and padding would take
    /// it from them.
    pub(crate) fn is_bandwidth_wanted(&self) -> bool {
        !self.is_in_reserve && self.is_scarce
    }

    /// Updates the decision by the state of the paths, of which media needs a rate. Returns whether
    /// it has changed.
    pub(crate) fn update(
        &mut self,
        now: Instant,
        needed: DataRate,
        deadline: Duration,
        unmetered: &Unmetered,
    ) -> bool {
        if unmetered.path_count == 0 {
            self.contested_since = None;
            return core::mem::replace(&mut self.is_in_reserve, false);
        }
        self.is_scarce = unmetered.bandwidth < needed.mul_f64(MARGIN);
        let is_drained = unmetered.bandwidth.bytes_in(deadline / 4) >= unmetered.queued_bytes;
        let (is_suspected, lasting) = if self.is_in_reserve {
            let is_held_up = unmetered.queueing_delay > deadline / 2;
            let is_short = unmetered.bandwidth < needed || !is_drained || is_held_up;
            (is_short, SHORT_FOR)
        } else {
            let is_swift = unmetered.queueing_delay <= deadline / 4;
            (!self.is_scarce && is_drained && is_swift, SUFFICIENT_FOR)
        };
        if !is_suspected {
            self.contested_since = None;
            return false;
        }
        let since = *self.contested_since.get_or_insert(now);
        if now.saturating_since(since) < lasting {
            return false;
        }
        self.is_in_reserve = !self.is_in_reserve;
        self.contested_since = None;
        true
    }
}

/// Returns the rate that the paths must carry for a source. `media_rate` is its present rate.
pub(crate) fn needed(source: SourceLimits, media_rate: DataRate) -> DataRate {
    match source {
        SourceLimits::Fixed => media_rate,
        SourceLimits::Adaptive { min, max } => min.mul_f64(2.0).min(max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KBIT: fn(u64) -> DataRate = DataRate::from_kilobits_per_second;
    const DEADLINE: Duration = Duration::from_millis(500);
    const ADAPTIVE: SourceLimits = SourceLimits::Adaptive {
        min: DataRate::from_kilobits_per_second(500),
        max: DataRate::from_kilobits_per_second(4_000),
    };

    const NEEDED: DataRate = DataRate::from_megabits_per_second(1);

    fn unmetered(kilobits_per_second: u64, queued_bytes: u64) -> Unmetered {
        Unmetered {
            path_count: 1,
            bandwidth: KBIT(kilobits_per_second),
            queued_bytes,
            queueing_delay: Duration::ZERO,
        }
    }

    /// Returns whether metered paths are in reserve after `seen` every 10 ms for `for_millis`.
    fn after(standby: &mut Standby, from_millis: u64, for_millis: u64, seen: Unmetered) -> bool {
        for millis in (from_millis..=from_millis + for_millis).step_by(10) {
            standby.update(Instant::from_millis(millis), NEEDED, DEADLINE, &seen);
        }
        standby.is_in_reserve()
    }

    #[test]
    fn an_adaptive_source_needs_twice_its_least_or_its_most_and_another_its_rate() {
        assert_eq!(needed(ADAPTIVE, KBIT(3_000)), KBIT(1_000));
        let narrow = SourceLimits::Adaptive {
            min: KBIT(500),
            max: KBIT(800),
        };
        assert_eq!(needed(narrow, KBIT(3_000)), KBIT(800));
        assert_eq!(needed(SourceLimits::Fixed, KBIT(3_000)), KBIT(3_000));
    }

    #[test]
    fn below_the_need_for_100_ms_metered_paths_help() {
        let mut standby = Standby::new();
        assert!(after(&mut standby, 0, 5_000, unmetered(1_000, 0)));
        assert!(after(&mut standby, 6_000, 90, unmetered(999, 0)));
        assert!(
            after(&mut standby, 6_100, 0, unmetered(1_000, 0)),
            "it starts again"
        );
        assert!(!after(&mut standby, 6_110, 100, unmetered(999, 0)));
    }

    #[test]
    fn a_backlog_of_more_than_a_quarter_of_the_deadline_counts_as_short() {
        let mut standby = Standby::new();
        // 2 Mbit/s for 125 ms carry 31,250 B.
        assert!(after(&mut standby, 0, 1_000, unmetered(2_000, 31_250)));
        assert!(!after(&mut standby, 1_010, 100, unmetered(2_000, 31_251)));
    }

    #[test]
    fn packets_held_for_half_of_the_deadline_count_as_short_and_for_a_quarter_as_ample() {
        fn held(millis: u64) -> Unmetered {
            Unmetered {
                queueing_delay: Duration::from_millis(millis),
                ..unmetered(2_000, 0)
            }
        }
        let mut standby = Standby::new();
        assert!(after(&mut standby, 0, 1_000, held(250)));
        assert!(!after(&mut standby, 1_010, 100, held(251)));
        assert!(!after(&mut standby, 1_120, 5_000, held(126)));
        assert!(after(&mut standby, 6_130, 1_000, held(125)));
    }

    #[test]
    fn with_a_quarter_to_spare_for_a_second_they_go_back() {
        let mut standby = Standby::new();
        standby.is_in_reserve = false;
        assert!(!after(&mut standby, 0, 9_000, unmetered(1_249, 0)));
        assert!(!after(&mut standby, 9_010, 990, unmetered(1_250, 0)));
        assert!(after(&mut standby, 10_010, 0, unmetered(1_250, 0)));
    }

    #[test]
    fn bandwidth_is_wanted_up_to_a_quarter_above_the_need_and_only_while_metered_paths_help() {
        fn is_wanted(is_in_reserve: bool, seen: Unmetered, standby: &mut Standby) -> bool {
            standby.is_in_reserve = is_in_reserve;
            standby.update(Instant::ZERO, NEEDED, DEADLINE, &seen);
            standby.is_bandwidth_wanted()
        }

        let mut standby = Standby::new();
        assert!(is_wanted(false, unmetered(1_249, 0), &mut standby));
        assert!(!is_wanted(false, unmetered(1_250, 0), &mut standby));
        assert!(
            !is_wanted(false, unmetered(1_250, 1_000_000), &mut standby),
            "time is"
        );
        assert!(!is_wanted(true, unmetered(999, 0), &mut standby));
    }

    #[test]
    fn without_any_other_path_they_help_at_once() {
        let mut standby = Standby::new();
        let seen = Unmetered::default();
        assert!(standby.update(Instant::ZERO, NEEDED, DEADLINE, &seen));
        assert!(!standby.is_in_reserve());
    }
}
