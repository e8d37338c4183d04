//! `min-cost`: each packet to the path that delivers it first.
//!
//! Source: Zhang & Lei, "An Optimized BBR for Multipath Real Time Video Streaming", §4.2, eqs. 14
//! and 15, Algorithm 6. λ_p = RTT_p/2 + Q_p/c_p, with the latest round-trip time sample, the bytes
//! waiting for the path's pacer and its pacing rate; Q_p grows with each packet bound.
//!
//! *Deviations*: none. A frame of one packet follows the same rule, as the text has it; the
//! authors' code sends it to the path of the lowest round-trip time.

use anabranch_core::PathView;
use anabranch_core::scheduler::{PacketView, Scheduler};
use anabranch_units::{Duration, Instant};

use super::{OneByOne, PathCost, transfer_cost};

#[derive(Debug)]
struct MinCost;

pub(super) fn build() -> Box<dyn Scheduler> {
    Box::new(OneByOne::new(MinCost))
}

impl PathCost for MinCost {
    /// Eq. 14.
    fn cost(&mut self, _now: Instant, _packet: &PacketView, path: &PathView) -> Duration {
        transfer_cost(path, 0)
    }
}

#[cfg(test)]
mod tests {
    use anabranch_units::DataRate;

    use super::super::testing::{Bed, FluidBed, path};
    use super::*;

    #[test]
    fn eq_14_is_half_the_rtt_plus_the_queue_at_the_pacing_rate() {
        let mut view = path(0, 100, 8);
        view.queued_bytes = 10_000;
        let cost = MinCost.cost(Instant::ZERO, &Bed::source(0, 1000), &view);
        assert_eq!(cost, Duration::from_millis(50 + 10));
    }

    #[test]
    fn eq_15_costs_of_used_paths_differ_by_at_most_one_packet_time() {
        let mut bed = Bed::new(build(), vec![path(0, 40, 4), path(1, 100, 3)]);
        let bound = bed.schedule(&Bed::frame(60, 1000));
        assert_eq!(bound.len(), 60);
        let costs: Vec<_> = bed
            .paths
            .iter()
            .map(|path| transfer_cost(path, 0))
            .collect();
        let one_packet = DataRate::from_megabits_per_second(3).time_for(1000);
        assert!(costs[0].abs_diff(costs[1]) <= one_packet, "{costs:?}");
    }

    #[test]
    fn no_path_idles_while_another_costs_more() {
        let mut bed = FluidBed::new(build(), vec![path(0, 20, 10), path(1, 60, 4)]);
        let mut idle_count = 0;
        for turn in 0..2_000_u64 {
            // One packet at a time, with an occasional pause.
            let pause = Duration::from_micros(if turn % 200 == 0 { 100_000 } else { 500 });
            let before = bed.bed.paths.clone();
            bed.run(1, pause, 1);
            let taken = bed.trail[turn as usize].index();
            for (id, path) in before.iter().enumerate().filter(|(id, _)| *id != taken) {
                let cost = transfer_cost(&before[taken], 0);
                assert!(
                    cost <= transfer_cost(path, 0),
                    "packet {turn}: {id} was cheaper"
                );
                idle_count += usize::from(path.queued_bytes == 0);
            }
        }
        assert!(idle_count > 100 && bed.share(1) > 0.1);
    }

    #[test]
    fn a_frame_of_one_packet_takes_the_least_cost_and_not_the_least_rtt() {
        let mut bed = Bed::new(build(), vec![path(0, 20, 10), path(1, 60, 4)]);
        bed.paths[0].queued_bytes = 30_000;
        bed.schedule(&Bed::frame(1, 1000));
        assert_eq!(bed.paths[1].queued_bytes, 1000);
    }

    #[test]
    fn raising_the_rtt_of_a_path_by_d_moves_c_times_d_bytes() {
        fn on_slow(rtt_millis: u64) -> u64 {
            let mut bed = Bed::new(build(), vec![path(0, 40, 4), path(1, rtt_millis, 4)]);
            bed.schedule(&Bed::frame(200, 500));
            bed.paths[1].queued_bytes
        }
        // RTT/2 rises by 20 ms at 4 Mbit/s: 10 kB, half of which each path gives or takes.
        assert_eq!(on_slow(40) - on_slow(80), 5_000);
    }
}
