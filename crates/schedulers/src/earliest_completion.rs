//! `earliest-completion`: uses a path only if the others cannot deliver the whole backlog earlier.
//!
//! Ours, for streams. Like `ecf`, it asks whether all data known to wait would be written earlier
//! without this path. But it uses the session's [`Forecast`](anabranch_core::Forecast). `s` is the
//! path with room of the least a_s + doubt_s: the time until the packet arrives, and its margin of
//! error. k are the bytes that wait. The packet is held if
//!
//!   Σ_f b_f(a_s + doubt_s - a_f) ≥ k
//!
//! over the paths f that have no room now. Such a path delivers b_f(t) = rate_f · t in t. k is at
//! most the peer's window, since no path sends data beyond it any earlier.
//!
//! For its gains and the effect of each part see `docs/decisions/0160-the-default-of-streams.md`.

use anabranch_core::scheduler::{PacketView, Scheduler, SendQueue, eligible_paths};
use anabranch_core::{PathId, PathView, Priority, SessionView};
use anabranch_units::{Duration, Instant};

use super::room::{BySession, SessionChoice, with_room};

#[derive(Debug, Default)]
struct EarliestCompletion {
    /// Waiting and bound bytes at the beginning of the call.
    waiting_bytes: u64,
}

pub(super) fn build() -> Box<dyn Scheduler> {
    Box::new(BySession::<EarliestCompletion>::default())
}

impl SessionChoice for EarliestCompletion {
    fn begin(
        &mut self,
        _now: Instant,
        queue: &SendQueue<'_>,
        session: &SessionView,
        paths: &[PathView],
    ) {
        let bound_bytes = bound_bytes(paths);
        let backlog = session.backlog_bytes.saturating_sub(bound_bytes);
        // Segments are cut within the window; media have none.
        let queued = queue.iter().map(|(_, packet)| u64::from(packet.bytes));
        let sendable = session
            .window_bytes
            .map(|window| window + queued.sum::<u64>());
        self.waiting_bytes = backlog.min(sendable.unwrap_or(u64::MAX)) + bound_bytes;
    }

    fn is_of_retransmissions(&self) -> bool {
        true
    }

    fn holds_alike(&self) -> bool {
        true
    }

    fn choose(
        &mut self,
        packet: &PacketView,
        _session: &SessionView,
        paths: &[PathView],
    ) -> Option<PathId> {
        let chosen = with_room(packet, paths).min_by_key(|path| latest_arrival(path))?;
        let waiting_bytes = self.waiting_bytes.saturating_sub(bound_bytes(paths));
        let arrives = latest_arrival(chosen);
        let bytes = u64::from(packet.bytes);
        let by_others: u64 = eligible_paths(packet, paths)
            .filter(|path| path.sendable_bytes < bytes)
            .map(|path| (path, arrives.saturating_sub(arrival(path))))
            .map(|(path, time)| path.forecast.rate.bytes_in(time))
            .fold(0, u64::saturating_add);
        (by_others < waiting_bytes.max(bytes)).then_some(chosen.id)
    }
}

fn bound_bytes(paths: &[PathView]) -> u64 {
    paths.iter().map(|path| path.queued_bytes).sum()
}

/// Returns a, the time until the next packet arrives.
fn arrival(path: &PathView) -> Duration {
    path.preferred(path.arrival(Priority::New, 0))
}

/// Returns the arrival with its margin of error.
fn latest_arrival(path: &PathView) -> Duration {
    arrival(path) + path.preferred(path.forecast.delay_margin)
}

#[cfg(test)]
mod tests {
    use anabranch_core::Forecast;
    use anabranch_core::SendReason;
    use anabranch_units::DataRate;

    use super::super::testing::{Bed, windowed};
    use super::*;

    /// Chooses the path of a packet of 1000 bytes while `backlog` bytes wait, the packet included.
    fn chosen(paths: &[PathView], backlog: u64, window: Option<u64>) -> Option<u8> {
        let session = SessionView {
            backlog_bytes: backlog,
            window_bytes: window,
            ..SessionView::default()
        };
        let packets = [Bed::source(0, 1000)];
        let mut scheduler = EarliestCompletion::default();
        scheduler.begin(Instant::ZERO, &SendQueue::new(&packets), &session, paths);
        let id = scheduler.choose(&packets[0], &session, paths)?;
        Some(id.0)
    }

    fn of(id: u8, rtt: u64, megabits: u64, in_flight: u64) -> PathView {
        let rate = DataRate::from_megabits_per_second(megabits);
        PathView {
            forecast: Forecast::constant(Duration::from_millis(rtt), rate),
            ..windowed(id, rtt, 10, in_flight)
        }
    }

    /// A full path of 20 ms and 8 Mbit/s, a kilobyte a millisecond, and one of `far` ms with room.
    fn full_and(far: u64) -> [PathView; 2] {
        [of(0, 20, 8, 10_000), of(1, far, 8, 5_000)]
    }

    #[test]
    fn the_packet_is_held_if_the_full_path_brings_all_that_waits_before_it_arrives() {
        // It arrives after 50 ms; the near path brings 40 kB in 50 - 10.
        assert_eq!(chosen(&full_and(100), 40_000, None), None);
        assert_eq!(chosen(&full_and(100), 40_001, None), Some(1));
    }

    #[test]
    fn the_far_paths_doubt_speaks_for_the_near_one_and_the_near_paths_does_not() {
        let mut paths = full_and(100);
        paths[0].forecast.delay_margin = Duration::from_millis(7);
        assert_eq!(chosen(&paths, 40_001, None), Some(1));
        paths[1].forecast.delay_margin = Duration::from_millis(10);
        assert_eq!(chosen(&paths, 50_000, None), None);
        assert_eq!(chosen(&paths, 50_001, None), Some(1));
    }

    #[test]
    fn several_full_paths_bring_it_together() {
        let [near, far] = full_and(100);
        let paths = [near, far, of(2, 60, 16, 10_000)];
        // 40 ms of a kilobyte each, and 20 ms of two.
        assert_eq!(chosen(&paths, 80_000, None), None);
        assert_eq!(chosen(&paths, 80_001, None), Some(1));
    }

    #[test]
    fn full_peer_window_holds_nothing_back() {
        // 39 kB and the packet itself.
        assert_eq!(chosen(&full_and(100), 1 << 20, Some(39_000)), None);
        assert_eq!(chosen(&full_and(100), 1 << 20, Some(39_001)), Some(1));
    }

    #[test]
    fn the_earliest_arrival_is_taken_among_paths_with_room() {
        let mut paths = [of(0, 60, 8, 5_000), of(1, 40, 8, 5_000)];
        assert_eq!(chosen(&paths, 1_000, None), Some(1));
        // Ten packets that wait there take ten milliseconds.
        paths[1].queued_bytes = 10_001;
        assert_eq!(chosen(&paths, 20_000, None), Some(0));
        assert_eq!(chosen(&paths[1..], 1_000, None), Some(1));
    }

    #[test]
    fn a_paths_queue_and_its_pacer_count() {
        let mut paths = [of(0, 60, 8, 5_000), of(1, 40, 8, 0)];
        assert_eq!(chosen(&paths, 1_000, None), Some(1));
        paths[1].queued_bytes = 10_001;
        assert_eq!(chosen(&paths, 20_000, None), Some(0));
        paths[1].queued_bytes = 0;
        paths[1].forecast.ready_at = Instant::from_millis(11);
        assert_eq!(chosen(&paths, 1_000, None), Some(0));
    }

    #[test]
    fn bound_packets_leave_the_backlog() {
        let session = SessionView {
            backlog_bytes: 42_000,
            ..SessionView::default()
        };
        let packets: Vec<PacketView> = (0..5).map(|n| Bed::source(n, 1000)).collect();
        let mut out = Vec::new();
        let queue = SendQueue::new(&packets);
        build().schedule(Instant::ZERO, &queue, &session, &full_and(100), &mut out);
        // 42, 41 and 40 kB against 40, 41 and 42: the far path's own queue grows.
        assert_eq!(out.len(), 1);
    }

    #[test]
    fn a_doubtful_path_is_farther() {
        let mut paths = [of(0, 60, 8, 5_000), of(1, 40, 8, 5_000)];
        paths[1].forecast.delay_margin = Duration::from_millis(10);
        assert_eq!(chosen(&paths, 1_000, None), Some(0));
        paths[0].forecast.delay_margin = Duration::from_millis(1);
        assert_eq!(chosen(&paths, 1_000, None), Some(1));
    }

    #[test]
    fn it_is_not_asked_while_no_path_has_room() {
        assert!(build().needs_room());
    }

    #[test]
    fn a_retransmission_is_held_as_well() {
        let retransmission = PacketView {
            reason: SendReason::Lost,
            ..Bed::source(0, 1000)
        };
        let mut bed = Bed::new(build(), full_and(100).to_vec());
        assert_eq!(bed.schedule(&[retransmission]), []);
        bed.paths[0].sendable_bytes = 1_000;
        assert!(bed.schedule(&[retransmission])[0].1.contains(PathId(0)));
    }
}
