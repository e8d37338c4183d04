//! `min-cost`: each packet to the path that delivers it first.
//!
//! Source: Zhang & Lei, "Delay-responding BBR and min-cost packet scheduling", §4.2, eqs. 14 and
//! 15, Algorithm 6. λ_p = RTT_p/2 + Q_p/c_p, with the latest round-trip time sample, the bytes
//! waiting for the path's pacer and its pacing rate; Q_p grows with each packet bound.
//!
//! *Deviations*: none. A frame of one packet follows the same rule, as the text has it; the
//! authors' code sends it to the path of the lowest round-trip time.

use anabranch_units::{Duration, Instant};

use super::{OneByOne, PacketView, PathCost, Scheduler, transfer_cost};
use crate::path_view::PathView;

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

    use super::*;
    use crate::scheduler::testing::{Bed, path};

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
    fn raising_the_rtt_of_a_path_by_d_moves_c_times_d_bytes() {
        let on_slow = |rtt_millis| {
            let mut bed = Bed::new(build(), vec![path(0, 40, 4), path(1, rtt_millis, 4)]);
            bed.schedule(&Bed::frame(200, 500));
            bed.paths[1].queued_bytes
        };
        // RTT/2 rises by 20 ms at 4 Mbit/s: 10 kB, half of which each path gives or takes.
        assert_eq!(on_slow(40) - on_slow(80), 5_000);
    }
}
