//! `wrr`: weighted round robin, shares by available bandwidth.
//!
//! Source: Zhang & Lei eq. 16, interleaved as in their code: the classic weighted round robin of
//! load balancers. It serves every path whose weight reaches a mark, which sinks from the largest
//! weight to one.
//!
//! *Deviations*: eq. 16 prints load_i = ⌈n·ABW_i/ΣABW⌉, whose sum may exceed the frame's n packets;
//! surplus turns at the frame's end are not used. One-packet frames alternate, as
//! in their code. Retransmissions follow the session's rule, the path that delivers first.

use anabranch_core::scheduler::{PacketView, Scheduler};
use anabranch_core::{PathId, PathView};
use anabranch_units::{DataRate, Instant};

use super::OneByOne;
use super::frame_wise::{FrameDeal, FrameWise, interleave};
use super::one_by_one::preferred_bandwidth;

#[derive(Debug, Default)]
struct WeightedRoundRobin {
    /// Path that begins the next interleaving, so that no path is favoured by its number.
    first: u8,
}

pub(super) fn build() -> Box<dyn Scheduler> {
    Box::new(OneByOne::new(FrameWise::new(WeightedRoundRobin::default())))
}

impl FrameDeal for WeightedRoundRobin {
    /// Eq. 16, interleaved.
    fn deal(
        &mut self,
        _now: Instant,
        packet: &PacketView,
        paths: &[PathView],
        turns: &mut Vec<PathId>,
    ) {
        let packet_count = u64::from(packet.fragment_count);
        let total: DataRate = paths.iter().map(preferred_bandwidth).sum();
        let total = u128::from(total.bits_per_second().max(1));
        interleave(
            paths,
            self.first,
            |index| {
                let bandwidth = u128::from(preferred_bandwidth(&paths[index]).bits_per_second());
                let share = bandwidth * u128::from(packet_count);
                (share.div_ceil(total) as u64).min(packet_count)
            },
            turns,
        );
        self.first = self.first.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use anabranch_units::Duration;

    use super::super::min_cost;
    use super::super::testing::{Bed, FluidBed, path};
    use super::*;

    #[test]
    fn eq_16_shares_follow_bandwidth_in_the_long_run_whatever_the_rtt() {
        for rates in [vec![3, 1], vec![9, 1], vec![5, 3, 2], vec![20, 1, 1, 1]] {
            let total: u64 = rates.iter().sum();
            for packet_count in [2, 3, 5, 16, 50] {
                let paths = rates
                    .iter()
                    .zip(0..)
                    .map(|(rate, id)| path(id, 40 + 90 * u64::from(id), *rate));
                let mut bed = Bed::new(build(), paths.collect());
                for _ in 0..240 {
                    bed.schedule(&Bed::frame(packet_count, 1000));
                }
                for (path, rate) in bed.paths.iter().zip(&rates) {
                    let got = path.queued_bytes as f64 / (240_000.0 * f64::from(packet_count));
                    let error = (got - *rate as f64 / total as f64).abs();
                    let bound = 1.0 / f64::from(packet_count) + 0.01;
                    assert!(error < bound, "{rates:?}, {packet_count} packets: {got}");
                }
            }
        }
    }

    #[test]
    fn a_frame_takes_as_long_as_on_the_slowest_path_whose_rtt_is_not_heeded() {
        fn run(scheduler: Box<dyn Scheduler>, rtt_millis: u64) -> (Vec<PathId>, Vec<Duration>) {
            let mut bed = FluidBed::new(scheduler, vec![path(0, 20, 8), path(1, rtt_millis, 8)]);
            bed.run(100, Duration::from_millis(40), 10);
            (bed.trail, bed.frame_delays)
        }
        let near = run(build(), 20);
        for rtt_millis in [100, 200, 400] {
            let (trail, delays) = run(build(), rtt_millis);
            assert_eq!(trail, near.0);
            // Five packets of 1 ms after one another, and then half the round-trip time.
            let expected = Duration::from_millis(5 + rtt_millis / 2);
            assert!(delays.iter().all(|delay| *delay == expected), "{delays:?}");
            // Ten the near way.
            let (_, delays) = run(min_cost::build(), rtt_millis);
            assert!(
                delays
                    .iter()
                    .all(|delay| *delay == Duration::from_millis(10 + 10))
            );
        }
    }

    #[test]
    fn packets_of_a_frame_are_interleaved() {
        let mut bed = Bed::new(build(), vec![path(0, 40, 2), path(1, 40, 1)]);
        let bound = bed.schedule(&Bed::frame(6, 1000));
        let paths: Vec<u8> = bound
            .iter()
            .flat_map(|(_, set)| set.iter())
            .map(|id| id.0)
            .collect();
        assert_eq!(paths, [0, 0, 0, 1, 0, 1]);
    }

    #[test]
    fn frames_of_one_packet_alternate() {
        let mut bed = Bed::new(build(), vec![path(0, 40, 4), path(1, 40, 4)]);
        for _ in 0..10 {
            bed.schedule(&Bed::frame(1, 1000));
        }
        assert_eq!(bed.paths[0].queued_bytes, bed.paths[1].queued_bytes);
    }
}
