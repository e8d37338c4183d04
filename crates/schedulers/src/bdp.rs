//! `largest-bdp`, `bbr-earliest` and `bbr-sticky`: choices by the path estimates of a controller
//! that measures bandwidth.
//!
//! Source: Kondo et al., future work: "the path with the larger bandwidth-delay product, rather
//! than the lower delay". The paper gives no rule. These are ours, among the paths that have room:
//!
//! - `largest-bdp`, to the letter: the most bandwidth · least round-trip time.
//! - `bbr-earliest`: the least RTprop/2 + (in flight + queued + the packet) / bandwidth.
//! - `bbr-sticky`: `largest-bdp`, and a path is left only if it has no room, or if another's
//!   product is more than 1.25 times as large.
//!
//! *Deviations*: bandwidth is the controller's estimate, whatever the controller. While the
//! estimate of one of the paths is zero, the least round-trip time decides. Retransmissions follow
//! the session's rule, the path that delivers first.

use anabranch_core::scheduler::{PacketView, Scheduler, eligible_paths};
use anabranch_core::{PathId, PathView};
use anabranch_units::{Duration, Instant};

use super::room::{least_rtt, most, with_room};
use super::{OneByOne, PathChoice};

/// Factor by which another path's product must exceed the present path's for `bbr-sticky` to
/// switch, as a fraction: 5/4.
const HYSTERESIS: (u128, u128) = (5, 4);

#[derive(Debug)]
struct LargestBdp;

#[derive(Debug)]
struct BbrEarliest;

#[derive(Debug, Default)]
struct BbrSticky {
    current: Option<PathId>,
}

pub(super) fn build() -> Box<dyn Scheduler> {
    Box::new(OneByOne::new(LargestBdp))
}

pub(super) fn build_earliest() -> Box<dyn Scheduler> {
    Box::new(OneByOne::new(BbrEarliest))
}

pub(super) fn build_sticky() -> Box<dyn Scheduler> {
    Box::new(OneByOne::new(BbrSticky::default()))
}

/// Returns RTprop, the least round-trip time.
fn least_seen(path: &PathView) -> Duration {
    path.rtt.least.unwrap_or(PathView::UNKNOWN_RTT)
}

/// Returns the bandwidth-delay product in bits · nanoseconds per second.
fn product(path: &PathView) -> u128 {
    let bandwidth = path.preferred_rate(path.bandwidth).bits_per_second();
    u128::from(bandwidth) * u128::from(least_seen(path).as_nanos())
}

/// Whether the bandwidth of every path is known.
fn is_measured(packet: &PacketView, paths: &[PathView]) -> bool {
    eligible_paths(packet, paths).all(|path| !path.bandwidth.is_zero())
}

impl PathChoice for LargestBdp {
    fn choose(&mut self, _now: Instant, packet: &PacketView, paths: &[PathView]) -> Option<PathId> {
        let open = with_room(packet, paths);
        let chosen = if is_measured(packet, paths) {
            most(open, product)
        } else {
            least_rtt(open)
        };
        chosen.map(|path| path.id)
    }
}

impl PathChoice for BbrEarliest {
    fn choose(&mut self, _now: Instant, packet: &PacketView, paths: &[PathView]) -> Option<PathId> {
        let open = with_room(packet, paths);
        let chosen = if is_measured(packet, paths) {
            open.min_by_key(|path| {
                let ahead_bytes =
                    path.bytes_in_flight + path.queued_bytes + u64::from(packet.bytes);
                path.preferred(least_seen(path) / 2 + path.bandwidth.time_for(ahead_bytes))
            })
        } else {
            least_rtt(open)
        };
        chosen.map(|path| path.id)
    }
}

impl PathChoice for BbrSticky {
    fn choose(&mut self, now: Instant, packet: &PacketView, paths: &[PathView]) -> Option<PathId> {
        let best = LargestBdp.choose(now, packet, paths)?;
        let current = with_room(packet, paths).find(|path| Some(path.id) == self.current);
        let chosen = match current {
            Some(current) if is_measured(packet, paths) => {
                let (times, over) = HYSTERESIS;
                let is_exceeded = over * product(&paths[best.index()]) > times * product(current);
                if is_exceeded { best } else { current.id }
            }
            _ => best,
        };
        self.current = Some(chosen);
        Some(chosen)
    }
}

#[cfg(test)]
mod tests {
    use anabranch_units::DataRate;

    use super::super::min_cost;
    use super::super::testing::{Bed, path, windowed};
    use super::*;

    fn chosen(choice: &mut impl PathChoice, paths: &[PathView]) -> Option<u8> {
        let packet = Bed::source(0, 1000);
        choice
            .choose(Instant::ZERO, &packet, paths)
            .map(|path| path.0)
    }

    #[test]
    fn the_largest_product_is_filled_first() {
        // 8 Mbit/s · 40 ms, 4 Mbit/s · 90 ms, 9 Mbit/s · 20 ms.
        let mut paths = vec![path(0, 40, 8), path(1, 90, 4), path(2, 20, 9)];
        assert_eq!(chosen(&mut LargestBdp, &paths), Some(1));
        paths[1].sendable_bytes = 999;
        assert_eq!(chosen(&mut LargestBdp, &paths), Some(0));
        // The least round-trip time counts, not the smoothed one.
        paths[0].rtt.least = Some(Duration::from_millis(20));
        assert_eq!(chosen(&mut LargestBdp, &paths), Some(2));
        for path in &mut paths {
            path.sendable_bytes = 0;
        }
        assert_eq!(chosen(&mut LargestBdp, &paths), None);
    }

    #[test]
    fn before_the_first_sample_the_least_round_trip_time_decides() {
        let mut paths = [path(0, 90, 8), path(1, 40, 8)];
        assert_eq!(chosen(&mut LargestBdp, &paths), Some(0));
        paths[0].bandwidth = DataRate::ZERO;
        assert_eq!(chosen(&mut LargestBdp, &paths), Some(1));
        let mut sticky = BbrSticky {
            current: Some(PathId(0)),
        };
        assert_eq!(chosen(&mut sticky, &paths), Some(1));
        paths[1].bytes_in_flight = 1_000_000;
        assert_eq!(chosen(&mut BbrEarliest, &paths), Some(1));
    }

    #[test]
    fn the_earliest_counts_half_rtprop_and_all_that_is_ahead_at_the_bandwidth() {
        // A kilobyte takes 1 ms, or 2: 20 + 1 ms against 10 + 2.
        let mut paths = [path(0, 40, 8), path(1, 20, 4)];
        assert_eq!(chosen(&mut BbrEarliest, &paths), Some(1));
        paths[1].bytes_in_flight = 4_000;
        assert_eq!(chosen(&mut BbrEarliest, &paths), Some(1));
        paths[1].queued_bytes = 1_000;
        assert_eq!(chosen(&mut BbrEarliest, &paths), Some(0));
        // The smoothed round-trip time does not count, nor does the pacing rate.
        paths[0].rtt.smoothed = Some(Duration::from_millis(900));
        paths[0].pacing_rate = Some(DataRate::from_bits_per_second(1));
        assert_eq!(chosen(&mut BbrEarliest, &paths), Some(0));
        paths[0].sendable_bytes = 0;
        assert_eq!(chosen(&mut BbrEarliest, &paths), Some(1));
    }

    #[test]
    fn the_earliest_is_min_cost_where_nothing_is_in_flight() {
        // A packet's own time, which `min-cost` does not count, is equal on both.
        let paths = vec![path(0, 40, 6), path(1, 90, 6)];
        let [ours, theirs] = [build_earliest(), min_cost::build()].map(|scheduler| {
            let bound = Bed::new(scheduler, paths.clone()).schedule(&Bed::frame(60, 1000));
            let sets = bound.iter().map(|(_, set)| *set);
            sets.collect::<Vec<_>>()
        });
        assert_eq!(ours, theirs);
    }

    #[test]
    fn sticky_switches_above_five_quarters_or_without_room() {
        let mut sticky = BbrSticky::default();
        let mut paths = [path(0, 40, 8), windowed(1, 39, 90, 0)];
        paths[1].bandwidth = DataRate::from_megabits_per_second(8);
        assert_eq!(chosen(&mut sticky, &paths), Some(0));
        paths[1].rtt.least = Some(Duration::from_millis(50));
        assert_eq!(chosen(&mut sticky, &paths), Some(0));
        paths[1].rtt.least = Some(Duration::from_micros(50_001));
        assert_eq!(chosen(&mut sticky, &paths), Some(1));
        paths[1].rtt.least = Some(Duration::from_millis(39));
        assert_eq!(chosen(&mut sticky, &paths), Some(1));
        paths[1].sendable_bytes = 0;
        assert_eq!(chosen(&mut sticky, &paths), Some(0));
    }
}
