//! Schedule of the receiver's reports, if not of every packet.

use anabranch_core::recovery::FeedbackSchedule;
use anabranch_core::{PathId, PathView};
use anabranch_units::{Duration, Instant};

use super::{DelayBbr, VERDICT_ROUNDS};

/// Largest number of packets per report …
const PACKETS_PER_REPORT: u32 = 16;
/// … or after this time: as often as the encoder could follow.
const LONGEST_DELAY: Duration = Duration::from_millis(40);
/// Reports that may be lost before a retransmission would be too late.
const REPORTS_TO_SPARE: u64 = 3;

/// Packets per report, smoothed over about ten reports.
#[derive(Debug, Default)]
pub(super) struct Batches {
    packets: f64,
}

impl Batches {
    pub(super) fn on_report(&mut self, acked_count: usize) {
        const WEIGHT: f64 = 0.1;
        self.packets += WEIGHT * (acked_count as f64 - self.packets);
    }

    /// Whether reports are of two packets and more: rounds then end later, and show less of a
    /// probe.
    pub(super) fn are_of_many(&self) -> bool {
        self.packets >= 2.0
    }
}

impl DelayBbr {
    pub(super) fn batches(&self) -> FeedbackSchedule {
        FeedbackSchedule {
            every_packets: PACKETS_PER_REPORT,
            max_delay: self.report_delay(),
            ..FeedbackSchedule::default()
        }
    }

    /// Returns the longest time for which the receiver may gather arrivals. It is a third of the
    /// round trip, but no less than by the default schedule, and no more for a session that never
    /// runs out. It is shorter if the deadline is a few round trips away, since a lost report costs
    /// another one.
    pub(super) fn report_delay(&self) -> Duration {
        let usual = FeedbackSchedule::default().max_delay;
        if self.rounds.count > self.spare_round + VERDICT_ROUNDS {
            return usual;
        }
        let Some(min_rtt) = self.min_rtt.value else {
            return usual;
        };
        // A loss is reported one round trip after the packet was sent; the retransmission takes
        // another half.
        let mended_in = min_rtt + self.quickest_rtt.unwrap_or(min_rtt) / 2;
        let spare = self.deadline.saturating_sub(mended_in);
        let longest = (min_rtt / 3).min(spare / REPORTS_TO_SPARE);
        longest.clamp(usual, LONGEST_DELAY)
    }
}

/// Whether another path could send a packet now. If so, the scheduler's preferred path is full, but
/// the session's bandwidth is not.
pub(super) fn is_room_elsewhere(now: Instant, path: PathId, paths: &[PathView]) -> bool {
    paths.len() > 1
        && paths.iter().any(|view| {
            view.id != path
                && view.is_in_service()
                && view.queued_bytes == 0
                && view.forecast.ready_at < now
        })
}

#[cfg(test)]
mod tests {
    use super::super::live;
    use super::*;
    use anabranch_core::control::ControllerConfig;
    use anabranch_core::{Forecast, PathState};

    #[test]
    fn there_is_room_elsewhere_if_another_path_in_service_is_idle() {
        fn is_room(other: PathView, now: Instant, full: PathView) -> bool {
            is_room_elsewhere(now, PathId(0), &[full, other])
        }

        fn ready(ready_at: Instant) -> Forecast {
            Forecast {
                ready_at,
                ..Forecast::default()
            }
        }

        let now = Instant::from_secs(1);
        let idle = PathView {
            id: PathId(1),
            forecast: ready(Instant::from_millis(999)),
            ..PathView::default()
        };
        let full = PathView {
            queued_bytes: 1,
            ..PathView::default()
        };
        assert!(is_room(idle, now, full));
        assert!(!is_room_elsewhere(now, PathId(1), &[full, idle]), "itself");
        for busy in [
            PathView {
                forecast: ready(now),
                ..idle
            },
            PathView {
                queued_bytes: 1,
                ..idle
            },
            PathView {
                is_standby: true,
                ..idle
            },
            PathView {
                state: PathState::Suspect,
                ..idle
            },
        ] {
            assert!(!is_room(busy, now, full), "{busy:?}");
        }
    }

    #[test]
    fn three_reports_may_be_lost_before_a_late_repair() {
        fn delay(deadline_millis: u64, quickest_millis: Option<u64>) -> u64 {
            let mut bbr = DelayBbr::new(&live::PROFILE, &ControllerConfig::default());
            bbr.min_rtt
                .replace(Duration::from_millis(60), Instant::from_secs(1));
            bbr.deadline = Duration::from_millis(deadline_millis);
            bbr.quickest_rtt = quickest_millis.map(Duration::from_millis);
            bbr.report_delay().as_millis()
        }
        assert_eq!(delay(500, None), 20, "a third of the round trip");
        assert_eq!(delay(132, None), 14, "(132 - 60 - 30) / 3");
        assert_eq!(
            delay(132, Some(30)),
            19,
            "a quicker path: (132 - 60 - 15) / 3"
        );
        assert_eq!(delay(100, None), 10, "the default schedule");
    }

    #[test]
    fn reports_are_batches_if_they_acknowledge_two_packets_and_more() {
        let mut batches = Batches::default();
        (0..100).for_each(|_| batches.on_report(1));
        assert!(!batches.are_of_many());
        (0..20).for_each(|_| batches.on_report(3));
        assert!(batches.are_of_many());
    }
}
