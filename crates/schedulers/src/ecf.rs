//! `ecf`: a slower path only if it finishes earlier than waiting for the faster one.
//!
//! Source: Lim, Nahum, Towsley & Gibbens, "ECF: an MPTCP path scheduler to manage heterogeneous
//! paths", CoNEXT 2017, Algorithm 1, and the Linux kernel's out-of-tree `mptcp_ecf.c`. `f` is the
//! path of the least smoothed round-trip time, `s` the one that `spd` would choose, `k` the bytes
//! that wait, W a window, δ the greater of both round-trip times' variations, x = max(k, W). If `s`
//! is another path than `f`:
//!
//! 1. If srtt_f (x_f + W_f) < W_f (srtt_s + δ) (1 + β waiting), with β = 1/4: sending the whole
//!    backlog on `f`, a round trip later, is over before a packet is acknowledged on `s`.
//! 2. If also srtt_s x_s ≥ W_s (2 srtt_f + δ), `s` would take longer than two round trips of `f`:
//!    the packet is held, and waiting = 1. Else it goes to `s`.
//! 3. If 1. fails, it goes to `s`, and waiting = 0.
//!
//! *Deviations*: an unknown round-trip time has no variation. Retransmissions follow the session's
//! rule, the path that delivers first. Of media, `k` is the backlog of the frames that have come.

use anabranch_core::scheduler::{PacketView, Scheduler, eligible_paths};
use anabranch_core::{PathId, PathView, SessionView};
use anabranch_units::Duration;

use super::room::{BySession, SessionChoice, least_rtt, rtt, variation, window_bytes, with_room};

/// 1/β: a path that was waited for is given up only if it is slower by this fraction.
const INVERSE_BETA: u128 = 4;

#[derive(Debug, Default)]
struct Ecf {
    is_waiting: bool,
}

pub(super) fn build() -> Box<dyn Scheduler> {
    Box::new(BySession::<Ecf>::default())
}

impl SessionChoice for Ecf {
    fn choose(
        &mut self,
        packet: &PacketView,
        session: &SessionView,
        paths: &[PathView],
    ) -> Option<PathId> {
        let fast = least_rtt(eligible_paths(packet, paths))?;
        let slow = least_rtt(with_room(packet, paths))?;
        if slow.id == fast.id {
            return Some(fast.id);
        }
        // Packets bound in this call are no longer in the backlog.
        let bound_bytes: u64 = paths.iter().map(|path| path.queued_bytes).sum();
        let backlog = session.backlog_bytes.saturating_sub(bound_bytes);
        let delta = variation(fast).max(variation(slow));
        if !self.is_fast_in_time(fast, slow, backlog, delta) {
            self.is_waiting = false;
            return Some(slow.id);
        }
        if is_slow_late(fast, slow, backlog, delta) {
            self.is_waiting = true;
            return None;
        }
        Some(slow.id)
    }
}

fn nanos(time: Duration) -> u128 {
    u128::from(time.as_nanos())
}

impl Ecf {
    /// Whether the first inequality holds.
    fn is_fast_in_time(
        &self,
        fast: &PathView,
        slow: &PathView,
        backlog: u64,
        delta: Duration,
    ) -> bool {
        let window = u128::from(window_bytes(fast));
        let bytes = u128::from(backlog).max(window);
        let by_fast = nanos(rtt(fast)) * (bytes + window);
        let by_slow = window * nanos(rtt(slow) + delta);
        let beta = u128::from(self.is_waiting);
        INVERSE_BETA * by_fast < (INVERSE_BETA + beta) * by_slow
    }
}

/// Whether the second inequality holds.
fn is_slow_late(fast: &PathView, slow: &PathView, backlog: u64, delta: Duration) -> bool {
    let window = u128::from(window_bytes(slow));
    let bytes = u128::from(backlog).max(window);
    nanos(rtt(slow)) * bytes >= window * nanos(rtt(fast) * 2 + delta)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bed, windowed};
    use super::*;

    fn chosen(ecf: &mut Ecf, paths: &[PathView], backlog: u64) -> Option<u8> {
        let session = SessionView {
            backlog_bytes: backlog,
            ..SessionView::default()
        };
        let packet = Bed::source(0, 1000);
        ecf.choose(&packet, &session, paths).map(|path| path.0)
    }

    /// Returns a full path of 20 ms and 10 packets, and one of `slow` ms and the same window with
    /// room.
    fn full_and(slow: u64) -> [PathView; 2] {
        [windowed(0, 20, 10, 10_000), windowed(1, slow, 10, 0)]
    }

    #[test]
    fn the_fast_path_is_waited_for_if_all_is_sent_before_the_slow_one_answers() {
        // (x + 10 kB) · 20 ms against 10 kB · 100 ms.
        assert_eq!(chosen(&mut Ecf::default(), &full_and(100), 39_999), None);
        assert_eq!(chosen(&mut Ecf::default(), &full_and(100), 40_000), Some(1));
        // Less than a window counts as one: 40 ms against 40.
        assert_eq!(chosen(&mut Ecf::default(), &full_and(40), 1_000), Some(1));
        assert_eq!(chosen(&mut Ecf::default(), &full_and(41), 1_000), None);
    }

    #[test]
    fn waiting_has_a_quarter_of_hysteresis() {
        let mut ecf = Ecf::default();
        assert_eq!(chosen(&mut ecf, &full_and(100), 39_999), None);
        // 125 ms count: (x + 10 kB) · 20 < 1,250 kB · ms.
        assert_eq!(chosen(&mut ecf, &full_and(100), 52_499), None);
        assert_eq!(chosen(&mut ecf, &full_and(100), 52_500), Some(1));
        assert_eq!(chosen(&mut ecf, &full_and(100), 40_000), Some(1));
    }

    #[test]
    fn the_greater_variation_speaks_for_the_fast_path_and_then_for_the_slow_one() {
        let delta = Duration::from_millis(5);
        for index in [0, 1] {
            let mut paths = full_and(100);
            paths[index].rtt.variation = delta;
            paths[1 - index].rtt.variation = Duration::from_millis(1);
            // 20 ms · 51 kB against 10 kB · 105 ms.
            assert_eq!(chosen(&mut Ecf::default(), &paths, 41_000), None);
            assert_eq!(chosen(&mut Ecf::default(), &paths, 42_500), Some(1));
        }
        // 36 ms · 12.5 kB against 10 kB · 45 ms.
        let paths = full_and(36);
        assert!(is_slow_late(&paths[0], &paths[1], 12_500, delta));
        assert!(!is_slow_late(&paths[0], &paths[1], 12_499, delta));
    }

    #[test]
    fn a_slow_path_that_is_done_in_time_leaves_the_waiting_as_it_was() {
        let mut ecf = Ecf { is_waiting: true };
        let mut paths = full_and(39);
        paths[1].rtt.variation = Duration::from_millis(2);
        assert_eq!(chosen(&mut ecf, &paths, 0), Some(1));
        assert!(ecf.is_waiting);
    }

    #[test]
    fn a_path_with_room_that_is_fastest_is_taken_and_one_alone_too() {
        let paths = [windowed(0, 20, 10, 9_000), windowed(1, 100, 10, 0)];
        assert_eq!(chosen(&mut Ecf::default(), &paths, 1_000), Some(0));
        assert_eq!(chosen(&mut Ecf::default(), &paths[..1], 1_000), Some(0));
    }

    #[test]
    fn bound_packets_leave_the_backlog() {
        let mut paths = full_and(100);
        paths[1].queued_bytes = 5_000;
        assert_eq!(chosen(&mut Ecf::default(), &paths, 44_999), None);
        assert_eq!(chosen(&mut Ecf::default(), &paths, 45_000), Some(1));
    }
}
