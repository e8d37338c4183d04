//! `spd`, `lpc`, `let` and `let-delivered`: among the paths that have room, the one of the shortest
//! delay, of the most room, or of the largest estimated throughput.
//!
//! Source: Matsufuji et al. (the three policies, named shortest packet delay, largest packet
//! credits and largest estimated throughput); `spd` is MPTCP's default of old, LRF (lowest
//! round-trip time first), in the Linux kernel's out-of-tree `mptcp_sched.c`. A path's credits are
//! the packets that its window leaves, ⌊(window - in flight) / packet⌋; a path without any is not
//! chosen, and a packet is held while none has one.
//!
//! - `spd`: the least smoothed round-trip time.
//! - `lpc`: the most credits.
//! - `let`: the most window / smoothed round-trip time.
//! - `let-delivered`: the same, or the path's delivery rate if that is less.
//!
//! *Deviations*: the paper does not print the estimate of `let`; it says that throughput is capped
//! at window / round-trip time, which is taken. `let-delivered` is another reading, to show the
//! influence of this choice. Of equal credits or estimates the shorter round-trip time decides. A
//! controller without a window has no credits to compare: its paths take one packet at a time as
//! their pacers let them, and `let` estimates by the pacing rate. The kernel's reaction to a full
//! receive window (a copy by the fast path, the slow path's window halved) is the stream session's
//! own. Retransmissions follow the session's rule, the path that delivers first.

use anabranch_core::scheduler::{PacketView, Scheduler};
use anabranch_core::{PathId, PathView};
use anabranch_units::{DataRate, Instant};

use super::room::{least_rtt, most, with_room};
use super::{OneByOne, PathChoice};

#[derive(Clone, Copy, Debug)]
enum Order {
    ShortestDelay,
    MostCredits,
    MostThroughput,
    MostDelivered,
}

pub(super) fn build() -> Box<dyn Scheduler> {
    Box::new(OneByOne::new(Order::ShortestDelay))
}

pub(super) fn build_lpc() -> Box<dyn Scheduler> {
    Box::new(OneByOne::new(Order::MostCredits))
}

pub(super) fn build_let() -> Box<dyn Scheduler> {
    Box::new(OneByOne::new(Order::MostThroughput))
}

pub(super) fn build_let_delivered() -> Box<dyn Scheduler> {
    Box::new(OneByOne::new(Order::MostDelivered))
}

impl PathChoice for Order {
    fn choose(&mut self, _now: Instant, packet: &PacketView, paths: &[PathView]) -> Option<PathId> {
        let open = with_room(packet, paths);
        let chosen = match self {
            Order::ShortestDelay => least_rtt(open),
            Order::MostCredits => most(open, |path| credits(path, packet.bytes)),
            Order::MostThroughput => most(open, throughput),
            Order::MostDelivered => most(open, delivered),
        };
        chosen.map(|path| path.id)
    }
}

/// Returns the packets of `bytes` bytes for which the window has room, times the user's weight.
fn credits(path: &PathView, bytes: u32) -> u64 {
    let committed = path.bytes_in_flight + path.queued_bytes;
    let room = match path.congestion_window {
        Some(window) => window.saturating_sub(committed),
        None => path.sendable_bytes,
    };
    let credits = room / u64::from(bytes.max(1));
    // A weight scales credits as it scales rates.
    let weighted = path.preferred_rate(DataRate::from_bits_per_second(credits));
    weighted.bits_per_second()
}

/// Returns the rate of one window per round trip.
fn throughput(path: &PathView) -> DataRate {
    let rtt = path.rtt.smoothed.unwrap_or(PathView::UNKNOWN_RTT);
    let rate = path
        .congestion_window
        .map(|window| DataRate::from_bytes_per(window, rtt));
    path.preferred_rate(rate.unwrap_or_else(|| path.drain_rate()))
}

/// Returns the same, but at most the delivery rate.
fn delivered(path: &PathView) -> DataRate {
    throughput(path).min(path.preferred_rate(path.forecast.rate))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bed, LeastRtt, Lines, windowed};
    use super::*;

    /// Returns the path of a packet of 1000 bytes.
    fn chosen(mut order: Order, paths: &[PathView]) -> Option<u8> {
        let packet = Bed::source(0, 1000);
        order
            .choose(Instant::ZERO, &packet, paths)
            .map(|path| path.0)
    }

    const ALL: [Order; 4] = [
        Order::ShortestDelay,
        Order::MostCredits,
        Order::MostThroughput,
        Order::MostDelivered,
    ];

    #[test]
    fn a_path_without_a_credit_is_never_chosen_and_without_any_the_packet_is_held() {
        for order in ALL {
            let paths = [windowed(0, 20, 10, 9_001), windowed(1, 200, 10, 0)];
            assert_eq!(chosen(order, &paths), Some(1), "{order:?}");
            let paths = [windowed(0, 20, 10, 9_000), windowed(1, 200, 10, 9_001)];
            assert_eq!(chosen(order, &paths), Some(0), "{order:?}");
            let paths = [windowed(0, 20, 10, 10_000), windowed(1, 200, 10, 9_001)];
            assert_eq!(chosen(order, &paths), None, "{order:?}");
        }
    }

    #[test]
    fn spd_takes_the_least_smoothed_round_trip_time() {
        let mut paths = [windowed(0, 40, 40, 0), windowed(1, 30, 10, 8_000)];
        assert_eq!(chosen(Order::ShortestDelay, &paths), Some(1));
        // Neither the latest nor the least sample counts.
        paths[1].rtt.smoothed = Some(anabranch_units::Duration::from_millis(41));
        assert_eq!(chosen(Order::ShortestDelay, &paths), Some(0));
    }

    #[test]
    fn lpc_takes_the_most_room_and_not_the_largest_window() {
        let paths = [windowed(0, 20, 40, 35_000), windowed(1, 200, 10, 3_000)];
        assert_eq!(chosen(Order::MostCredits, &paths), Some(1));
        // Seven whole packets each: the shorter round-trip time.
        let paths = [windowed(0, 200, 40, 32_001), windowed(1, 20, 10, 3_000)];
        assert_eq!(chosen(Order::MostCredits, &paths), Some(1));
        let paths = [windowed(0, 20, 40, 32_999), windowed(1, 20, 10, 3_000)];
        assert_eq!(chosen(Order::MostCredits, &paths), Some(0));
    }

    #[test]
    fn lpc_levels_credits_and_then_alternates() {
        let mut bed = Bed::new(
            build_lpc(),
            vec![windowed(0, 20, 10, 0), windowed(1, 90, 30, 0)],
        );
        let bound = bed.schedule(&Bed::frame(26, 1000));
        let trail: Vec<u8> = bound
            .iter()
            .flat_map(|(_, set)| set.iter())
            .map(|path| path.0)
            .collect();
        assert_eq!(trail[..20], [1; 20]);
        assert_eq!(trail[20..], [0, 1, 0, 1, 0, 1]);
    }

    #[test]
    fn let_orders_by_window_per_round_trip() {
        // 10 packets in 100 ms against 40 in 200 ms.
        let paths = [windowed(0, 100, 10, 0), windowed(1, 200, 40, 38_000)];
        assert_eq!(chosen(Order::MostThroughput, &paths), Some(1));
        // 19 packets in 200 ms are less, and more credits.
        let paths = [windowed(0, 100, 10, 5_000), windowed(1, 200, 19, 0)];
        assert_eq!(chosen(Order::MostThroughput, &paths), Some(0));
        // Twice the windows, the same choice; equal windows, that of `spd`.
        let paths = [windowed(0, 100, 20, 5_000), windowed(1, 200, 38, 0)];
        assert_eq!(chosen(Order::MostThroughput, &paths), Some(0));
        let paths = [windowed(0, 100, 20, 0), windowed(1, 99, 20, 0)];
        assert_eq!(chosen(Order::MostThroughput, &paths), Some(1));
    }

    #[test]
    fn let_delivered_believes_no_window_that_does_not_come_out() {
        // 800 and 1600 kbit/s by the windows, and the larger one delivers 500.
        let mut paths = [windowed(0, 100, 10, 0), windowed(1, 200, 40, 0)];
        for path in &mut paths {
            path.forecast.rate = DataRate::from_kilobits_per_second(2_000);
        }
        assert_eq!(chosen(Order::MostDelivered, &paths), Some(1));
        paths[1].forecast.rate = DataRate::from_kilobits_per_second(500);
        assert_eq!(chosen(Order::MostDelivered, &paths), Some(0));
        assert_eq!(chosen(Order::MostThroughput, &paths), Some(1));
        // A rate beyond the window's changes nothing.
        paths[0].forecast.rate = DataRate::from_kilobits_per_second(9_000);
        paths[1].forecast.rate = DataRate::from_kilobits_per_second(9_000);
        assert_eq!(chosen(Order::MostDelivered, &paths), Some(1));
    }

    #[test]
    fn spd_leaves_nine_tenths_to_the_near_path_while_it_has_room() {
        // 30 packets in 40 ms, of which the near path alone carries 50.
        let mut lines = Lines::with_windows(build(), &[(10, 10, 40), (10, 50, 40)]);
        lines.stream(30, 250);
        let near = lines.left_on.iter().filter(|path| path.0 == 0).count();
        assert!(near * 10 >= lines.left_on.len() * 9, "{near}");
    }

    #[test]
    fn spd_is_the_least_round_trip_time() {
        fn trail(scheduler: Box<dyn Scheduler>) -> Vec<PathId> {
            let mut lines = Lines::new(scheduler, &[(4, 20), (3, 50)]);
            lines.stream(25, 50);
            lines.left_on
        }
        assert_eq!(trail(build()), trail(Box::new(OneByOne::new(LeastRtt))));
    }

    #[test]
    fn lpc_of_a_greedy_source_fills_both_paths() {
        let mut lines = Lines::with_windows(build_lpc(), &[(10, 10, 60), (10, 50, 160)]);
        lines.stream(110, 100);
        let near = lines.left_on.iter().filter(|path| path.0 == 0).count();
        let share = near as f64 / lines.left_on.len() as f64;
        assert!((0.47..0.53).contains(&share), "{share}");
    }
}
