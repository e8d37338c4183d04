//! Reports of a machine that is too slow to keep time. Measurements of the transport then describe
//! the machine more than the network.

use anabranch_units::{Duration, Instant, Lateness};

/// Total lateness of due work in a second from which that second is slow. Packets and frames then
/// leave in bursts that affect deadlines.
const SLOW: Duration = Duration::from_millis(100);
/// Minimum time between two reports.
const SILENCE: Duration = Duration::from_secs(10);
const SECOND: Duration = Duration::from_secs(1);

/// Counter of the seconds in which the machine was too slow.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slowness {
    counted_at: Option<Instant>,
    reported_at: Option<Instant>,
    second_count: u64,
}

impl Slowness {
    /// Returns a report on the machine's lateness, if one is due.
    pub(crate) fn due_report(&mut self, now: Instant, lateness: Lateness) -> Option<String> {
        let is_over = |at: Option<Instant>, span: Duration| at.is_none_or(|at| now >= at + span);
        if lateness.total < SLOW {
            return None;
        }
        if is_over(self.counted_at, SECOND) {
            self.counted_at = Some(now);
            self.second_count += 1;
        }
        if !is_over(self.reported_at, SILENCE) {
            return None;
        }
        self.reported_at = Some(now);
        Some(format!(
            "this machine is too slow to keep time: in one second, work that was due waited \
             {:.0} ms for the processor, {:.0} ms at worst",
            lateness.total.as_millis_f64(),
            lateness.worst.as_millis_f64(),
        ))
    }

    /// Returns the number of seconds in which the machine was too slow.
    pub(crate) fn second_count(&self) -> u64 {
        self.second_count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn late(millis: u64) -> Lateness {
        Lateness {
            total: Duration::from_millis(millis),
            worst: Duration::from_millis(millis / 2),
        }
    }

    #[test]
    fn a_slow_machine_is_told_at_once_and_not_all_the_time() {
        let mut slowness = Slowness::default();
        let at = |tick: u64| Instant::from_millis(50 * tick);
        let reports = (0..300).filter_map(|tick| slowness.due_report(at(tick), late(240)));
        let reports: Vec<String> = reports.collect();
        assert_eq!(reports.len(), 2, "{reports:?}");
        assert!(reports[0].contains("too slow") && reports[0].contains("waited 240 ms"));
        assert!(reports[0].contains("120 ms at worst"));
        assert_eq!(slowness.second_count(), 15);
    }

    #[test]
    fn a_hiccup_is_not_told() {
        let mut slowness = Slowness::default();
        assert_eq!(slowness.due_report(Instant::ZERO, late(99)), None);
        assert_eq!(slowness.second_count(), 0);
    }
}
