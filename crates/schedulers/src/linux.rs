//! `linux`: bursts to the path that would drain its data first.
//!
//! Source: the Linux kernel, `mptcp_subflow_get_send` in net/mptcp/protocol.c, 6.x. Each burst goes
//! to the active subflow of the least linger time. That is the data in its socket
//! (`sk_wmem_queued`: not sent, or not acknowledged) over its mean pacing rate. A backup is chosen
//! only if none other is active. If the send buffer is full, nothing is sent. A burst is 64 KiB
//! less the headers (65,428 B), or the rest of the peer's window. The mean pacing rate begins at
//! the socket's own; a burst moves it to (mean · wmem + rate · burst) / (wmem + burst).
//!
//! It binds ahead: a path's queue is the socket's. In our terms `sk_wmem_queued` are the bytes
//! queued for a path and in flight. `sk_pacing_rate` is the controller's pacing rate, or its window
//! per smoothed round-trip time. A send buffer is full with 64 KiB queued beyond the window.
//!
//! *Deviations*: Linux paces window controllers at 1.2 times their window per round-trip time,
//! twice in slow start; here it is once, on all paths alike. Of equal linger times the higher rate
//! decides, where the kernel takes the older subflow; so the user's weight decides between idle
//! paths, too. A controller without a window has no buffer to fill: the session limits the bound
//! bytes. A burst ends early if its path may no longer be taken. Retransmissions follow the
//! session's rule, the path that delivers first; the kernel takes the path with the longest idle
//! time.

use core::cmp::Reverse;

use anabranch_core::scheduler::{PacketView, Scheduler, SendQueue, eligible_paths};
use anabranch_core::{PathId, PathView, SessionView};
use anabranch_units::{DataRate, Instant};

use super::room::{BySession, SessionChoice};

/// `MPTCP_SEND_BURST_SIZE`: 64 KiB without TCP, IPv6 and fragment headers.
const BURST_BYTES: u64 = (1 << 16) - 20 - 40 - 40 - 8;
/// Largest queue of a path beyond its window.
const MAX_BEYOND_WINDOW: u64 = 64 << 10;

#[derive(Debug, Default)]
struct Linux {
    /// Path of the burst, and its remaining bytes.
    burst: Option<(PathId, u64)>,
    /// By path: the mean pacing rate.
    rates: Vec<Option<DataRate>>,
    /// Rest of the peer's window.
    window_bytes: Option<u64>,
}

pub(super) fn build() -> Box<dyn Scheduler> {
    Box::new(BySession::<Linux>::default())
}

impl SessionChoice for Linux {
    fn begin(
        &mut self,
        _now: Instant,
        queue: &SendQueue<'_>,
        session: &SessionView,
        paths: &[PathView],
    ) {
        self.rates.resize(paths.len(), None);
        let waiting: u64 = queue
            .iter()
            .map(|(_, packet)| u64::from(packet.bytes))
            .sum();
        self.window_bytes = session.window_bytes.map(|bytes| bytes + waiting);
    }

    fn choose(
        &mut self,
        packet: &PacketView,
        _session: &SessionView,
        paths: &[PathView],
    ) -> Option<PathId> {
        let bytes = u64::from(packet.bytes);
        let going = self.burst.filter(|(id, left)| {
            let path = eligible_paths(packet, paths).find(|path| path.id == *id);
            *left > 0 && path.is_some_and(has_memory)
        });
        let (id, left) = match going {
            Some(burst) => burst,
            None => self.next_burst(packet, paths)?,
        };
        self.burst = Some((id, left.saturating_sub(bytes)));
        Some(id)
    }
}

/// `sk_wmem_queued`.
fn held_bytes(path: &PathView) -> u64 {
    path.queued_bytes + path.bytes_in_flight
}

/// `sk_stream_memory_free`.
fn has_memory(path: &PathView) -> bool {
    fn limit(window: u64) -> u64 {
        window.saturating_add(MAX_BEYOND_WINDOW)
    }
    path.congestion_window
        .is_none_or(|window| held_bytes(path) < limit(window))
}

impl Linux {
    /// Returns the path and the bytes of a new burst.
    fn next_burst(&mut self, packet: &PacketView, paths: &[PathView]) -> Option<(PathId, u64)> {
        let chosen = eligible_paths(packet, paths).min_by_key(|path| {
            let rate = self.rates[path.id.index()].get_or_insert_with(|| path.drain_rate());
            let linger = path.preferred(rate.time_for(held_bytes(path)));
            (linger, Reverse(path.preferred_rate(path.drain_rate())))
        })?;
        if !has_memory(chosen) {
            return None;
        }
        let room = self.window_bytes.map_or(u64::MAX, |window| {
            let bound: u64 = paths.iter().map(|path| path.queued_bytes).sum();
            window.saturating_sub(bound)
        });
        let burst = BURST_BYTES.min(room.max(u64::from(packet.bytes)));
        let mean = &mut self.rates[chosen.id.index()];
        let before = mean.unwrap_or_else(|| chosen.drain_rate());
        *mean = Some(mean_rate(
            before,
            held_bytes(chosen),
            chosen.drain_rate(),
            burst,
        ));
        Some((chosen.id, burst))
    }
}

/// (mean · wmem + rate · burst) / (wmem + burst).
fn mean_rate(mean: DataRate, held: u64, rate: DataRate, burst: u64) -> DataRate {
    let weighted =
        |rate: DataRate, bytes: u64| u128::from(rate.bits_per_second()) * u128::from(bytes);
    let sum = weighted(mean, held) + weighted(rate, burst);
    let bits = sum / u128::from(held + burst).max(1);
    DataRate::from_bits_per_second(u64::try_from(bits).unwrap_or(u64::MAX).max(1))
}

#[cfg(test)]
mod tests {
    use anabranch_core::PathSet;

    use super::super::testing::{Bed, FluidBed, path, windowed};
    use super::*;

    fn choose(linux: &mut Linux, paths: &[PathView], window: Option<u64>) -> Option<u8> {
        let packets = [Bed::source(0, 1000)];
        let session = SessionView {
            window_bytes: window,
            ..SessionView::default()
        };
        linux.begin(Instant::ZERO, &SendQueue::new(&packets), &session, paths);
        let chosen = linux.choose(&packets[0], &session, paths);
        chosen.map(|path| path.0)
    }

    fn chosen(paths: &[PathView]) -> Option<u8> {
        choose(&mut Linux::default(), paths, None)
    }

    #[test]
    fn linger_time_is_queue_and_inflight_at_pacing_rate() {
        // A kilobyte takes 1 ms, or 2; round-trip times do not matter.
        let mut paths = [path(0, 20, 8), path(1, 400, 4)];
        (paths[0].queued_bytes, paths[0].bytes_in_flight) = (3_000, 6_000);
        (paths[1].queued_bytes, paths[1].bytes_in_flight) = (1_000, 3_000);
        assert_eq!(chosen(&paths), Some(1));
        paths[1].bytes_in_flight = 3_501;
        assert_eq!(chosen(&paths), Some(0));
        paths[0].bytes_in_flight = 6_003;
        assert_eq!(chosen(&paths), Some(1));
    }

    #[test]
    fn of_idle_paths_the_faster_is_taken_whatever_the_round_trip_time() {
        assert_eq!(chosen(&[path(0, 20, 4), path(1, 400, 8)]), Some(1));
        // Without a pacing rate it is the window per round-trip time.
        let paths = [windowed(0, 100, 10, 0), windowed(1, 50, 6, 0)];
        assert_eq!(chosen(&paths), Some(1));
    }

    /// Returns the number of packets on the first path.
    fn on_first(bound: &[(PacketView, PathSet)]) -> usize {
        let on_first = bound.iter().filter(|(_, set)| set.contains(PathId(0)));
        on_first.count()
    }

    #[test]
    fn a_burst_stays_on_its_path_until_64_kib_without_headers_are_sent() {
        let mut bed = Bed::new(build(), vec![path(0, 40, 8), path(1, 40, 8)]);
        let bound = bed.schedule(&Bed::frame(100, 1000));
        assert!(
            bound
                .iter()
                .take(66)
                .all(|(_, set)| set.contains(PathId(0)))
        );
        assert_eq!(on_first(&bound), 66);
        // The second's burst goes on.
        bed.paths[0].queued_bytes = 0;
        let bound = bed.schedule(&Bed::frame(40, 1000));
        assert_eq!(on_first(&bound), 8);
    }

    #[test]
    fn a_burst_never_exceeds_the_peers_window() {
        let mut linux = Linux::default();
        let paths = [path(0, 40, 8), path(1, 40, 8)];
        choose(&mut linux, &paths, Some(9_000));
        // With the packet that waits, 10,000 B; it has taken one.
        assert_eq!(linux.burst, Some((PathId(0), 9_000)));
        let mut linux = Linux::default();
        choose(&mut linux, &paths, Some(1 << 20));
        assert_eq!(linux.burst, Some((PathId(0), 65_428 - 1_000)));
    }

    #[test]
    fn a_full_send_buffer_holds_the_packet_though_another_has_room() {
        // 64 KiB beyond the window of 10 kB.
        let mut paths = [windowed(0, 100, 10, 10_000), windowed(1, 1_000, 10, 10_000)];
        paths[0].queued_bytes = 65_535;
        assert_eq!(chosen(&paths), Some(0));
        paths[0].queued_bytes = 65_536;
        paths[1].bytes_in_flight = 9_000;
        // 756 ms against 900.
        assert_eq!(chosen(&paths), None);
        let mut linux = Linux {
            burst: Some((PathId(0), 9_000)),
            ..Linux::default()
        };
        assert_eq!(choose(&mut linux, &paths, None), None);
    }

    #[test]
    fn a_backup_is_taken_only_if_no_other_is_active() {
        let mut paths = [path(0, 40, 8), path(1, 40, 80)];
        paths[1].is_standby = true;
        paths[0].queued_bytes = 50_000;
        assert_eq!(chosen(&paths), Some(0));
        paths[0].state = anabranch_core::PathState::Out;
        assert_eq!(chosen(&paths), Some(1));
    }

    #[test]
    fn mean_rate_moves_by_the_share_of_the_burst() {
        let megabits = DataRate::from_megabits_per_second;
        assert_eq!(
            mean_rate(megabits(2), 30_000, megabits(10), 10_000),
            megabits(4)
        );
        // A path whose rate has doubled is judged by the old one at first.
        let mut linux = Linux::default();
        let mut paths = [path(0, 40, 4), path(1, 40, 4)];
        paths[0].bytes_in_flight = BURST_BYTES;
        paths[1].bytes_in_flight = BURST_BYTES + 1;
        choose(&mut linux, &paths, None);
        paths[0].pacing_rate = Some(megabits(8));
        linux.burst = None;
        choose(&mut linux, &paths, None);
        assert_eq!(linux.rates[0], Some(megabits(6)));
    }

    #[test]
    fn greedy_traffic_is_shared_in_proportion_to_the_pacing_rates() {
        let mut bed = FluidBed::new(build(), vec![path(0, 100, 1), path(1, 20, 10)]);
        bed.run_at(1.0, 60);
        let ratio = bed.bound_bytes[1] as f64 / bed.bound_bytes[0] as f64;
        assert!((8.0..12.0).contains(&ratio), "{ratio}");
    }
}
