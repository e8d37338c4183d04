//! When the receiver is to report, if not of every packet.

use anabranch_units::{Duration, Instant};

use super::{DelayBbr, ROUNDS_TO_TELL};
use crate::congestion::FeedbackSchedule;
use crate::path_view::{PathId, PathState, PathView};

/// Reports are due after so many packets at the latest …
const PACKETS_PER_REPORT: u32 = 16;
/// … or after this time: as often as the encoder could follow.
const LONGEST_DELAY: Duration = Duration::from_millis(40);

/// How many packets a report acknowledges, smoothed over about ten reports.
#[derive(Debug, Default)]
pub(super) struct Batches {
    packets: f64,
}

impl Batches {
    pub(super) fn on_report(&mut self, acked_count: usize) {
        const WEIGHT: f64 = 0.1;
        self.packets += WEIGHT * (acked_count as f64 - self.packets);
    }

    /// Whether reports are of two packets and more: rounds end later for it, and show less of a
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

    /// For how long the receiver may gather arrivals: a third of the round trip, but no less than
    /// by the default schedule, and no more for a session that never runs out.
    pub(super) fn report_delay(&self) -> Duration {
        let usual = FeedbackSchedule::default().max_delay;
        if self.rounds.count > self.spare_round + ROUNDS_TO_TELL {
            return usual;
        }
        let third = self.min_rtt.value.map_or(usual, |min_rtt| min_rtt / 3);
        third.clamp(usual, LONGEST_DELAY)
    }
}

/// Whether another path would take a packet now: what a scheduler prefers is full, the session's
/// bandwidth is not.
pub(super) fn is_room_elsewhere(now: Instant, path: PathId, paths: &[PathView]) -> bool {
    let is_idle = |view: &PathView| {
        view.id != path
            && view.state == PathState::Active
            && !view.is_standby
            && view.queued_bytes == 0
            && view.ready_at < now
    };
    paths.len() > 1 && paths.iter().any(is_idle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_elsewhere_if_another_path_in_service_is_idle() {
        let now = Instant::from_secs(1);
        let idle = PathView {
            id: PathId(1),
            ready_at: Instant::from_millis(999),
            ..PathView::default()
        };
        let full = PathView {
            queued_bytes: 1,
            ..PathView::default()
        };
        let is_room = |other: PathView| is_room_elsewhere(now, PathId(0), &[full, other]);
        assert!(is_room(idle));
        assert!(!is_room_elsewhere(now, PathId(1), &[full, idle]), "itself");
        for busy in [
            PathView {
                ready_at: now,
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
            assert!(!is_room(busy), "{busy:?}");
        }
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
