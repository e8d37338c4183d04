//! Reports of a machine that is too slow to keep time. Measurements of the transport then describe
//! the machine more than the network.

use core::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anabranch_observe::{Observation, StreamEvent};
use anabranch_terminal::print;
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
    /// Watches the machine's lateness for `stream`, and reports it as a warning and as an event.
    pub(crate) fn watch(
        &mut self,
        now: Instant,
        lateness: Lateness,
        observation: &Observation,
        stream: &str,
    ) {
        let report = self.due_report(now, lateness);
        observation.on_slow_seconds(self.second_count);
        if let Some(report) = report {
            print::warn(report);
            observation.on_stream_event(stream, report.stream_event());
        }
    }

    /// Returns a report on the machine's lateness, if one is due.
    pub(crate) fn due_report(&mut self, now: Instant, lateness: Lateness) -> Option<Report> {
        if lateness.total < SLOW {
            return None;
        }
        if self.counted_at.is_none_or(|at| now >= at + SECOND) {
            self.counted_at = Some(now);
            self.second_count += 1;
        }
        if self.reported_at.is_some_and(|at| now < at + SILENCE) {
            return None;
        }
        self.reported_at = Some(now);
        Some(Report {
            lateness,
            second_count: self.second_count,
        })
    }

    /// Returns whether the machine was too slow within `span`.
    pub(crate) fn was_slow_within(&self, now: Instant, span: Duration) -> bool {
        self.counted_at.is_some_and(|at| now < at + span + SECOND)
    }

    /// Returns a line for the summary, if the machine was ever too slow.
    pub(crate) fn summary(&self) -> Option<String> {
        (self.second_count > 0).then(|| {
            format!(
                "this machine was too slow to keep time in {} s: late or lost frames of that time \
                 need not be the links' fault",
                self.second_count
            )
        })
    }

    /// Returns the number of seconds in which the machine was too slow.
    pub(crate) fn second_count(&self) -> u64 {
        self.second_count
    }
}

/// Returns the watch that several threads share.
pub(crate) fn locked(slowness: &Mutex<Slowness>) -> MutexGuard<'_, Slowness> {
    slowness.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A machine that was too slow in a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Report {
    lateness: Lateness,
    second_count: u64,
}

impl Report {
    fn stream_event(&self) -> StreamEvent {
        StreamEvent::MachineSlow {
            waited_s: self.lateness.total.as_secs_f64(),
            worst_s: self.lateness.worst.as_secs_f64(),
            slow_seconds: self.second_count,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "this machine is too slow to keep time: in one second, work that was due waited \
             {:.0} ms for the processor, {:.0} ms at worst",
            self.lateness.total.as_millis_f64(),
            self.lateness.worst.as_millis_f64(),
        )
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

    fn at(tick: u64) -> Instant {
        Instant::from_millis(50 * tick)
    }

    #[test]
    fn slow_machine_is_reported_at_once_then_rarely() {
        let mut slowness = Slowness::default();
        let reports: Vec<String> = (0..300)
            .filter_map(|tick| slowness.due_report(at(tick), late(240)))
            .map(|report| report.to_string())
            .collect();
        assert_eq!(reports.len(), 2, "{reports:?}");
        assert!(reports[0].contains("too slow") && reports[0].contains("waited 240 ms"));
        assert!(reports[0].contains("120 ms at worst"));
        assert_eq!(slowness.second_count(), 15);
        let summary = slowness.summary().expect("it was slow");
        assert!(summary.contains("in 15 s"), "{summary}");
        let span = Duration::from_secs(3);
        assert!(slowness.was_slow_within(at(300), span));
        assert!(!slowness.was_slow_within(at(400), span));
    }

    #[test]
    fn hiccup_is_not_reported() {
        let mut slowness = Slowness::default();
        assert_eq!(slowness.due_report(Instant::ZERO, late(99)), None);
        assert_eq!(slowness.second_count(), 0);
        assert_eq!(slowness.summary(), None);
    }
}
