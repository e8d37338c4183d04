//! `anabranch`: each packet where it arrives first, and waiting counts twice.
//!
//! Ours. The estimate of a path's rate is at least a round trip old, and the longer a packet waits
//! for its turn, the more that estimate matters. `min-cost` fills a near, slow path until its queue
//! ends as late as the transit of a far one. A far path without a queue is the safer one: if the
//! slow path slows down, all that waits there is late. So each path costs half of its latest
//! round-trip time, the margin of its delay, and twice the wait for its pacer.
//!
//! Retransmissions follow the session's rule, the path that delivers first. The table of
//! `docs/decisions/0262-waiting-counts-twice.md` has the effect of each term.

use anabranch_core::PathView;
use anabranch_core::scheduler::{PacketView, Scheduler};
use anabranch_units::{Duration, Instant};

use super::{OneByOne, PathCost, transfer_cost};

/// Weight of the wait beyond its own length. Chosen: over random networks the result is flat from 1
/// to 4. With 2, a path whose queue others fill gets parts of key frames, which come late there.
const DOUBT: u64 = 1;

#[derive(Debug)]
struct Anabranch;

pub(super) fn build() -> Box<dyn Scheduler> {
    Box::new(OneByOne::new(Anabranch))
}

impl PathCost for Anabranch {
    fn cost(&mut self, _now: Instant, _packet: &PacketView, path: &PathView) -> Duration {
        let wait = path.drain_rate().time_for(path.queued_bytes);
        transfer_cost(path, 0) + wait * DOUBT + path.forecast.delay_margin
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bed, path};
    use super::*;

    /// Returns the paths of a frame's packets of 1 kB each, in order.
    fn bind(bed: &mut Bed, packet_count: u16) -> Vec<u8> {
        let bound = bed.schedule(&Bed::frame(packet_count, 1_000));
        let first = bound.iter().flat_map(|(_, paths)| paths.iter().next());
        first.map(|path| path.0).collect()
    }

    #[test]
    fn the_wait_counts_twice() {
        // A kilobyte takes 8 ms: 10 + 2 × 8 ms exceed 25 ms, 10 ms do not.
        let mut bed = Bed::new(build(), vec![path(0, 20, 1), path(1, 50, 100)]);
        assert_eq!(bind(&mut bed, 2), [0, 1]);
        bed.paths[0].queued_bytes = 0;
        bed.paths[1].rtt.latest = Some(Duration::from_millis(54));
        assert_eq!(bind(&mut bed, 2), [0, 0]);
    }

    #[test]
    fn a_packets_own_bytes_do_not_count() {
        // 100 ms of the pacer's gap come after the packet.
        let mut bed = Bed::new(build(), vec![path(0, 20, 1), path(1, 30, 100)]);
        bed.paths[0].pacing_rate = Some(anabranch_units::DataRate::from_kilobits_per_second(80));
        assert_eq!(bind(&mut bed, 2), [0, 1]);
    }

    #[test]
    fn a_steady_path_precedes_one_of_the_same_delay_with_jitter() {
        let mut bed = Bed::new(build(), vec![path(0, 40, 8), path(1, 50, 8)]);
        bed.paths[0].forecast.delay_margin = Duration::from_millis(6);
        assert_eq!(bind(&mut bed, 1), [1]);
        bed.paths[1].queued_bytes = 0;
        bed.paths[0].forecast.delay_margin = Duration::from_millis(4);
        assert_eq!(bind(&mut bed, 1), [0]);
    }
}
