//! `daps`: delay-aware packet scheduling, a schedule of arrivals made beforehand.
//!
//! Source: Kuhn, Lochin, Mifdaoui, Sarwar, Mehani & Boreli, "DAPS: Intelligent delay-aware packet
//! scheduling for multipath transport", ICC 2014. The horizon is the least common multiple of the
//! round-trip times. For it the scheduler lists when each path can send (congestion window packets
//! per round-trip time) and when the packet arrives. Packets take these places in the order of
//! arrival: a slow path carries packets that the receiver needs when they arrive.
//!
//! Read for frames over push queues: the list runs in real time, so an unused place expires, and a
//! frame's packets are bound to their places when the frame comes. The list is not stored: the next
//! place of each path follows from its rate, and the earliest of them is next.
//!
//! *Deviations*: round-trip times are rounded to 10 ms for the horizon, which is at most 1 s. A new
//! list is made at the end of the old one, when a path's round-trip time or rate (the paper:
//! window) has changed by more than 20 %, and when a path has come or gone. Otherwise it is
//! followed, as in the paper, however wrong it has become. Retransmissions follow the session's
//! rules.

use anabranch_core::scheduler::{PacketView, Scheduler, eligible_paths};
use anabranch_core::{PathId, PathView};
use anabranch_units::{DataRate, Duration, Instant};

use super::{OneByOne, PathChoice};

/// Unit of rounded round-trip times, large enough for a useful common multiple.
const RTT_UNIT: Duration = Duration::from_millis(10);
/// Longest horizon.
const MAX_HORIZON: Duration = Duration::from_secs(1);
/// Inverse of the relative change of a path that makes the list stale.
const STALE_FRACTION: u64 = 5;

#[derive(Debug, Default)]
struct Daps {
    /// By path number.
    places: Vec<Place>,
    /// Duration of the present list, and its end.
    horizon: Duration,
    ends_at: Instant,
}

/// Entry of a path in the list.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// Whether the path was usable when the list was made.
    is_listed: bool,
    rtt: Duration,
    rate: DataRate,
    /// Time at which the path sends next.
    sends_at: Instant,
}

pub(super) fn build() -> Box<dyn Scheduler> {
    Box::new(OneByOne::new(Daps::default()))
}

impl PathChoice for Daps {
    fn choose(&mut self, now: Instant, packet: &PacketView, paths: &[PathView]) -> Option<PathId> {
        if now >= self.ends_at || self.is_stale(paths) {
            self.make_list(now, u64::from(packet.bytes), paths);
        }
        let id = eligible_paths(packet, paths)
            .min_by_key(|path| {
                let place = &self.places[path.id.index()];
                place.sent_at(now, packet) + place.rtt / 2
            })?
            .id;
        let place = &mut self.places[id.index()];
        place.sends_at = place.sent_at(now, packet);
        Some(id)
    }
}

impl Place {
    /// Returns when the path would have sent the packet.
    fn sent_at(&self, now: Instant, packet: &PacketView) -> Instant {
        self.sends_at.max(now) + self.rate.time_for(u64::from(packet.bytes))
    }
}

impl Daps {
    fn is_stale(&self, paths: &[PathView]) -> bool {
        fn differs(old: u64, new: u64) -> bool {
            old.abs_diff(new) > old / STALE_FRACTION
        }
        self.places.len() != paths.len()
            || paths.iter().zip(&self.places).any(|(path, place)| {
                let is_usable = path.state.is_usable();
                is_usable != place.is_listed
                    || is_usable
                        && (differs(place.rtt.as_nanos(), rtt(path).as_nanos())
                            || differs(place.rate.bits_per_second(), rate(path).bits_per_second()))
            })
    }

    fn make_list(&mut self, now: Instant, packet_bytes: u64, paths: &[PathView]) {
        self.places.resize(paths.len(), Place::default());
        let usable = paths.iter().filter(|path| path.state.is_usable());
        self.horizon = horizon(usable.map(rtt));
        self.ends_at = now + self.horizon;
        for (path, place) in paths.iter().zip(&mut self.places) {
            let rate = rate(path);
            // The queue goes first. A packet may also be on its way out, which only the old list
            // records.
            let free_at = now + rate.time_for(path.queued_bytes);
            let latest = free_at + rate.time_for(packet_bytes);
            *place = Place {
                is_listed: path.state.is_usable(),
                rtt: rtt(path),
                rate,
                sends_at: place.sends_at.clamp(free_at, latest),
            };
        }
    }
}

fn rtt(path: &PathView) -> Duration {
    path.preferred(path.rtt.smoothed.unwrap_or(PathView::UNKNOWN_RTT))
}

fn rate(path: &PathView) -> DataRate {
    path.preferred_rate(path.drain_rate())
}

/// Returns the least common multiple of the round-trip times, within the bounds above.
fn horizon(rtts: impl Iterator<Item = Duration>) -> Duration {
    let unit = RTT_UNIT.as_nanos();
    let max = MAX_HORIZON.as_nanos() / unit;
    let units = rtts.map(|rtt| ((rtt.as_nanos() + unit / 2) / unit).clamp(1, max));
    let multiple = units.fold(1, |multiple, units| {
        (multiple / greatest_common_divisor(multiple, units) * units).min(max)
    });
    RTT_UNIT * multiple
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::super::round_robin;
    use super::super::testing::{Bed, Lines, M1_LINES, path};
    use super::*;

    #[test]
    fn constant_paths_bring_at_least_98_percent_in_order() {
        // Load below, at and above the paths' capacity (7 Mbit/s are 35 packets in 40 ms).
        let loads = [10, 34, 40].map(|packet_count| ([(4, 20), (3, 50)], packet_count));
        let m1 = [40, 70, 98, 110].map(|packet_count| (M1_LINES, packet_count));
        for (bed, packet_count) in loads.into_iter().chain(m1) {
            let mut lines = Lines::new(build(), &bed);
            lines.stream(packet_count, 25 * 10);
            let in_order = lines.in_order_share();
            assert!(in_order >= 0.98, "{packet_count}: {in_order}");
        }
    }

    #[test]
    fn a_horizon_has_rate_times_horizon_packets_of_each_path() {
        // Of 40 and 100 ms it is 200 ms, in which 4 and 2 Mbit/s are 100 and 50 packets.
        let mut daps = Daps::default();
        let paths = [path(0, 40, 4), path(1, 100, 2)];
        let mut counts = [0, 0];
        let packet = Bed::source(0, 1000);
        for _ in 0..300 {
            let id = daps.choose(Instant::ZERO, &packet, &paths).unwrap();
            let is_within = daps.places[id.index()].sends_at <= daps.ends_at;
            counts[id.index()] += u32::from(is_within);
        }
        assert_eq!(daps.horizon, Duration::from_millis(200));
        assert_eq!(counts, [100, 50]);
    }

    #[test]
    fn list_is_rebuilt_at_30_percent_not_at_10() {
        for (rtt_millis, is_new) in [(44, false), (52, true), (28, true)] {
            let mut daps = Daps::default();
            let packet = Bed::source(0, 1000);
            daps.choose(Instant::ZERO, &packet, &[path(0, 40, 4), path(1, 100, 3)]);
            let later = [path(0, rtt_millis, 4), path(1, 100, 3)];
            daps.choose(Instant::from_millis(1), &packet, &later);
            let is_known = daps.places[0].rtt == Duration::from_millis(rtt_millis);
            assert_eq!(is_known, is_new, "{rtt_millis}");
        }
    }

    #[test]
    fn a_list_that_has_become_wrong_is_followed_to_its_end() {
        // The weakness that the paper names: the queue grows by 19 %, unnoticed.
        let mut daps = Daps::default();
        let packet = Bed::source(0, 1000);
        let mut paths = [path(0, 100, 4), path(1, 100, 4)];
        daps.choose(Instant::ZERO, &packet, &paths);
        paths[0].queued_bytes = 50_000;
        let at = Instant::from_millis(50);
        assert_eq!(daps.choose(at, &packet, &paths), Some(PathId(0)));
        let end = Instant::from_millis(100);
        assert_eq!(daps.choose(end, &packet, &paths), Some(PathId(1)));
    }

    #[test]
    fn receiver_holds_half_of_round_robin_at_most() {
        fn peak(scheduler: Box<dyn Scheduler>, bed: &[(u64, u64); 2], packet_count: u16) -> u64 {
            let mut lines = Lines::new(scheduler, bed);
            lines.stream(packet_count, 25 * 10);
            lines.max_held_bytes()
        }

        for (bed, packet_count) in [([(4, 20), (3, 50)], 30), (M1_LINES, 70), (M1_LINES, 90)] {
            let (daps, round_robin) = (
                peak(build(), &bed, packet_count),
                peak(round_robin::build(), &bed, packet_count),
            );
            assert!(2 * daps <= round_robin, "{daps} {round_robin}");
        }
    }
}
