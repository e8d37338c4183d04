//! `anabranch`: each packet where it arrives first, by the session's own forecast.
//!
//! Ours. As min-cost does, it binds a packet to the path that delivers it first. But a controller's
//! estimate of a path is at least a round trip old, and packets are late because of later changes.
//! [`Forecast`](anabranch_core::Forecast) notices a path that delivers less than is sent.
//!
//! Retransmissions follow the session's rule, the path that delivers first. For gains and limits
//! see `docs/results.md`.

use anabranch_core::scheduler::{PacketView, Scheduler};
use anabranch_core::{PathView, Priority};
use anabranch_units::{Duration, Instant};

use super::{OneByOne, PathCost};

#[derive(Debug)]
struct Anabranch;

pub(super) fn build() -> Box<dyn Scheduler> {
    Box::new(OneByOne::new(Anabranch))
}

impl PathCost for Anabranch {
    /// A packet's own bytes do not count: the pacer's gap comes after it, and its time on the wire
    /// is in the round-trip time.
    fn cost(&mut self, _now: Instant, _packet: &PacketView, path: &PathView) -> Duration {
        path.arrival(Priority::New, 0)
    }
}

#[cfg(test)]
mod tests {
    use anabranch_core::Forecast;
    use anabranch_units::DataRate;

    use super::super::testing::{Bed, path};
    use super::*;

    fn on(bed: &mut Bed, packet_count: u16) -> Vec<u8> {
        let bound = bed.schedule(&Bed::frame(packet_count, 1_000));
        let first = bound.iter().flat_map(|(_, paths)| paths.iter().next());
        first.map(|path| path.0).collect()
    }

    #[test]
    fn a_packet_goes_where_queue_and_transit_end_first() {
        let mut bed = Bed::new(build(), vec![path(0, 20, 8), path(1, 40, 8)]);
        bed.paths[0].queued_bytes = 9_000;
        // 10 + 9 ms against 20, then 10 + 10 against 20, and so on in turn.
        assert_eq!(on(&mut bed, 4), [0, 0, 1, 0]);
    }

    #[test]
    fn a_packets_own_bytes_do_not_count() {
        // 100 ms of the pacer's gap come after the packet.
        let mut bed = Bed::new(build(), vec![path(0, 20, 1), path(1, 30, 100)]);
        let (rtt, rate) = (
            Duration::from_millis(20),
            DataRate::from_kilobits_per_second(80),
        );
        bed.paths[0].forecast = Forecast::constant(rtt, rate);
        assert_eq!(on(&mut bed, 2), [0, 1]);
    }

    #[test]
    fn a_pacer_that_is_not_ready_counts() {
        let mut bed = Bed::new(build(), vec![path(0, 20, 8), path(1, 40, 8)]);
        bed.paths[0].forecast.ready_at = Instant::from_millis(11);
        assert_eq!(on(&mut bed, 1), [1]);
    }

    #[test]
    fn a_congested_path_takes_nothing_before_what_flies_there_has_come_out() {
        let mut bed = Bed::new(build(), vec![path(0, 20, 8), path(1, 40, 8)]);
        bed.paths[0].forecast.one_way_delay = Duration::from_millis(31);
        bed.paths[0].forecast.rate = DataRate::from_megabits_per_second(1);
        // 31 ms against 20, 21, ... and 31; a kilobyte there takes 8 ms more.
        let taken = on(&mut bed, 16);
        assert_eq!(taken[..11], [1; 11]);
        assert_eq!(taken[11..], [0, 1, 1, 1, 1]);
    }
}
