//! `blest`: a slower path only if its packets cannot block the faster one.
//!
//! Source: Ferlin, Alay, Mehani & Boreli, "BLEST: blocking estimation-based MPTCP scheduler for
//! heterogeneous networks", IFIP Networking 2016, and the Linux kernel's out-of-tree
//! `mptcp_blest.c`. `f` is the path of the least smoothed round-trip time, `s` the one that `spd`
//! would choose. If `s` is another path, an estimate is made of the bytes that `f` sends meanwhile:
//! in n = linger_s / ((min + max srtt_f) / 2) + 1 round trips, X = MSS (W_f + (n-1)/2) n. The
//! packet goes to `s` if λ X ≤ the session's window - MSS (in flight on s + 1), else it is held.
//! linger_s is the max srtt_s if the packet fills the window of `s`, else min + (max - min) (in
//! flight + 1) / W_s, but at least the smoothed round-trip time. λ begins at 1.2. Once in each min
//! srtt_s it grows by 0.04 if the session has resent data meanwhile, else falls by 0.01, between 1
//! and 1.3.
//!
//! *Deviations*: views of paths have no slow start threshold, so W_f is the window. The kernel's
//! other formula for the first slow start (W (2^n - 1)) is not used, so a path in slow start is
//! assumed to send less than it will. The session's window is its whole window: free, in flight and
//! bound bytes. Resent data on which λ depends are segments of a path that fell silent, and, since
//! the scheduler learns nothing of reinjections, calls that find the window full. Media have no
//! window: `blest` is `spd` there. Retransmissions follow the session's rule.

use anabranch_core::scheduler::{PacketKind, PacketView, Scheduler, SendQueue, eligible_paths};
use anabranch_core::{PathId, PathView, SendReason, SessionView};
use anabranch_units::{Duration, Instant};

use super::room::{BySession, SessionChoice, least_rtt, rtt, window_bytes, with_room};

/// λ in thousandths: initial, least and largest value, increase and decrease.
const LAMBDA: u64 = 1_200;
const MIN_LAMBDA: u64 = 1_000;
const MAX_LAMBDA: u64 = 1_300;
const UP: u64 = 40;
const DOWN: u64 = 10;

#[derive(Debug)]
struct Blest {
    lambda: u64,
    /// Time of the last update of λ.
    updated_at: Option<Instant>,
    /// Whether the session has resent data since.
    is_blocked: bool,
    now: Instant,
    /// The session's whole window; `None` for media.
    window_bytes: Option<u64>,
    /// By path: the least and the greatest smoothed round-trip time.
    rtts: Vec<Option<(Duration, Duration)>>,
}

impl Default for Blest {
    fn default() -> Self {
        Blest {
            lambda: LAMBDA,
            updated_at: None,
            is_blocked: false,
            now: Instant::ZERO,
            window_bytes: None,
            rtts: Vec::new(),
        }
    }
}

pub(super) fn build() -> Box<dyn Scheduler> {
    Box::new(BySession::<Blest>::default())
}

impl SessionChoice for Blest {
    fn begin(
        &mut self,
        now: Instant,
        queue: &SendQueue<'_>,
        session: &SessionView,
        paths: &[PathView],
    ) {
        fn is_retransmitted(packet: &PacketView) -> bool {
            packet.kind() == PacketKind::Retransmission && packet.reason != SendReason::Lost
        }

        self.now = now;
        self.rtts.resize(paths.len(), None);
        for path in paths.iter().filter(|path| path.rtt.smoothed.is_some()) {
            let rtt = rtt(path);
            let range = self.rtts[path.id.index()].get_or_insert((rtt, rtt));
            *range = (range.0.min(rtt), range.1.max(rtt));
        }
        let on_paths = paths
            .iter()
            .map(|path| path.bytes_in_flight + path.queued_bytes);
        let committed = on_paths.sum::<u64>() + bytes_in(queue, is_source);
        self.window_bytes = session.window_bytes.map(|bytes| bytes + committed);
        let first = queue.packet(0).map_or(0, |packet| u64::from(packet.bytes));
        let is_full = session.window_bytes.is_some_and(|bytes| bytes < first);
        self.is_blocked |= is_full || bytes_in(queue, is_retransmitted) > 0;
    }

    fn choose(
        &mut self,
        packet: &PacketView,
        _session: &SessionView,
        paths: &[PathView],
    ) -> Option<PathId> {
        let fast = least_rtt(eligible_paths(packet, paths))?;
        let chosen = least_rtt(with_room(packet, paths))?;
        if chosen.id == fast.id {
            return Some(chosen.id);
        }
        let Some(window) = self.window_bytes else {
            return Some(chosen.id);
        };
        self.update(chosen);
        let bytes = u64::from(packet.bytes);
        let fast_bytes = self.bytes_of(fast, self.linger(chosen, bytes), bytes);
        let slow_bytes = chosen.bytes_in_flight + chosen.queued_bytes + bytes;
        let has_space =
            u128::from(fast_bytes) * u128::from(self.lambda) <= space(window, slow_bytes);
        has_space.then_some(chosen.id)
    }
}

/// Returns the bytes of the packets of this kind.
fn bytes_in(queue: &SendQueue<'_>, is_meant: fn(&PacketView) -> bool) -> u64 {
    let packets = queue.iter().filter(|(_, packet)| is_meant(packet));
    packets.map(|(_, packet)| u64::from(packet.bytes)).sum()
}

fn is_source(packet: &PacketView) -> bool {
    packet.kind() == PacketKind::Source
}

/// Returns the rest of the window beside `slow_bytes`, in thousandths of bytes.
fn space(window: u64, slow_bytes: u64) -> u128 {
    u128::from(window.saturating_sub(slow_bytes)) * 1_000
}

impl Blest {
    /// Returns the least and the greatest smoothed round-trip time of a path.
    fn range(&self, path: &PathView) -> (Duration, Duration) {
        let range = self.rtts.get(path.id.index()).copied().flatten();
        range.unwrap_or((rtt(path), rtt(path)))
    }

    /// Returns the time until a packet of `bytes` bytes on `path` is acknowledged.
    fn linger(&self, path: &PathView, bytes: u64) -> Duration {
        let (least, most) = self.range(path);
        let in_flight = path.bytes_in_flight + path.queued_bytes + bytes;
        let window = window_bytes(path);
        let linger = if in_flight >= window {
            most
        } else {
            least + (most - least).mul_f64(in_flight as f64 / window as f64)
        };
        linger.max(rtt(path))
    }

    /// Returns X, the bytes that `path` sends in that time, in packets of `bytes` bytes.
    fn bytes_of(&self, path: &PathView, time: Duration, bytes: u64) -> u64 {
        let (least, most) = self.range(path);
        let mean = (least + most) / 2;
        let rounds = time
            .as_nanos()
            .checked_div(mean.as_nanos())
            .map_or(1, |rounds| rounds + 1);
        (window_bytes(path) + bytes * (rounds - 1) / 2).saturating_mul(rounds)
    }

    /// Updates λ by the effect of its last value.
    fn update(&mut self, slow: &PathView) {
        let (least, _) = self.range(slow);
        let since = *self.updated_at.get_or_insert(self.now);
        if self.now.saturating_since(since) < least {
            return;
        }
        self.updated_at = Some(self.now);
        self.lambda = if core::mem::take(&mut self.is_blocked) {
            (self.lambda + UP).min(MAX_LAMBDA)
        } else {
            (self.lambda - DOWN).max(MIN_LAMBDA)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bed, windowed};
    use super::*;

    fn session(window: Option<u64>) -> SessionView {
        SessionView {
            window_bytes: window,
            ..SessionView::default()
        }
    }

    /// Chooses the path of a packet of 1000 bytes at `millis`, with the given rest of the window.
    fn choose_at(
        blest: &mut Blest,
        millis: u64,
        paths: &[PathView],
        window: Option<u64>,
    ) -> Option<u8> {
        let packets = [Bed::source(0, 1000)];
        let session = session(window);
        let now = Instant::from_millis(millis);
        blest.begin(now, &SendQueue::new(&packets), &session, paths);
        blest
            .choose(&packets[0], &session, paths)
            .map(|path| path.0)
    }

    fn chosen(paths: &[PathView], window: u64) -> Option<u8> {
        choose_at(&mut Blest::default(), 0, paths, Some(window))
    }

    /// Returns a full path of 20 ms, and one of 200 ms with room.
    fn far() -> [PathView; 2] {
        [windowed(0, 20, 10, 10_000), windowed(1, 200, 10, 4_000)]
    }

    #[test]
    fn slow_path_needs_window_for_the_fast_one() {
        // n = 200/20 + 1 = 11; X = 11 · (10,000 + 5,000) = 165,000; · 1.2 = 198,000; and 5,000 of
        // the slow path's. In flight and waiting are 15,000.
        assert_eq!(chosen(&far(), 198_000 + 5_000 - 15_000), Some(1));
        assert_eq!(chosen(&far(), 198_000 + 5_000 - 15_001), None);
    }

    #[test]
    fn the_fast_path_is_taken_while_it_has_room_whatever_the_window() {
        let mut paths = far();
        paths[0].sendable_bytes = 1_000;
        assert_eq!(chosen(&paths, 0), Some(0));
    }

    #[test]
    fn with_a_large_window_or_none_and_with_one_path_it_is_the_least_round_trip_time() {
        assert_eq!(chosen(&far(), 4 << 20), Some(1));
        assert_eq!(choose_at(&mut Blest::default(), 0, &far(), None), Some(1));
        assert_eq!(chosen(&[windowed(0, 20, 10, 0)], 0), Some(0));
        assert_eq!(chosen(&[windowed(0, 20, 10, 10_000)], 1 << 20), None);
    }

    #[test]
    fn a_small_window_leaves_a_path_ten_times_as_far_unused() {
        assert_eq!(chosen(&far(), 100_000), None);
        // A near path is no such case: n = 2, X = 2 · 10,500.
        let near = [windowed(0, 20, 10, 10_000), windowed(1, 30, 10, 4_000)];
        assert_eq!(chosen(&near, 100_000), Some(1));
    }

    #[test]
    fn the_linger_time_is_between_the_least_and_the_greatest_as_the_window_is_full() {
        fn linger(in_flight: u64, smoothed: u64, blest: &Blest) -> u64 {
            let mut path = windowed(0, smoothed, 10, in_flight);
            path.rtt.variation = Duration::from_millis(500);
            blest.linger(&path, 1_000).as_millis()
        }

        let blest = Blest {
            rtts: vec![Some((
                Duration::from_millis(100),
                Duration::from_millis(300),
            ))],
            ..Blest::default()
        };
        assert_eq!(linger(4_000, 100, &blest), 200);
        assert_eq!(linger(9_000, 100, &blest), 300);
        assert_eq!(linger(20_000, 100, &blest), 300);
        assert_eq!(linger(4_000, 250, &blest), 250);
    }

    #[test]
    fn a_round_trip_of_the_fast_path_is_the_mean_of_its_extremes() {
        let mut blest = Blest::default();
        for (millis, rtt) in [(0, 20), (1, 60), (2, 20)] {
            let paths = [windowed(0, rtt, 10, 0)];
            choose_at(&mut blest, millis, &paths, Some(1 << 20));
        }
        // 100/40 + 1 = 3 rounds: 3 · (10,000 + 1,000).
        let bytes = blest.bytes_of(&windowed(0, 20, 10, 0), Duration::from_millis(100), 1_000);
        assert_eq!(bytes, 33_000);
    }

    #[test]
    fn lambda_moves_once_in_a_slow_round_trip_and_stays_in_its_range() {
        fn after(blest: &mut Blest, millis: u64, window: u64, at: &mut u64) -> u64 {
            *at += millis;
            choose_at(blest, *at, &far(), Some(window));
            blest.lambda
        }

        let mut blest = Blest::default();
        let mut at = 0;
        assert_eq!(after(&mut blest, 0, 1 << 20, &mut at), 1_200);
        assert_eq!(after(&mut blest, 199, 1 << 20, &mut at), 1_200);
        assert_eq!(after(&mut blest, 1, 1 << 20, &mut at), 1_190);
        // The window is full for once.
        assert_eq!(after(&mut blest, 100, 999, &mut at), 1_190);
        assert_eq!(after(&mut blest, 100, 1 << 20, &mut at), 1_230);
        for _ in 0..5 {
            after(&mut blest, 200, 0, &mut at);
        }
        assert_eq!(blest.lambda, 1_300);
        for _ in 0..40 {
            after(&mut blest, 200, 1 << 20, &mut at);
        }
        assert_eq!(blest.lambda, 1_000);
    }

    #[test]
    fn only_timeouts_count_as_retransmissions() {
        for (reason, lambda) in [
            (SendReason::Lost, 1_190),
            (SendReason::RetransmissionTimeout, 1_240),
        ] {
            let mut blest = Blest::default();
            choose_at(&mut blest, 0, &far(), Some(1 << 20));
            let retransmission = PacketView {
                reason,
                ..Bed::source(1, 1000)
            };
            let packets = [retransmission, Bed::source(0, 1000)];
            let session = session(Some(1 << 20));
            let now = Instant::from_millis(200);
            blest.begin(now, &SendQueue::new(&packets), &session, &far());
            blest.choose(&packets[1], &session, &far());
            assert_eq!(blest.lambda, lambda, "{reason:?}");
        }
    }
}
