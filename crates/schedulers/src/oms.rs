//! `oms`: opportunistic multipath scheduling, the path of least delay among those that are not
//! ahead of their share.
//!
//! Source: Cetinkaya & Knightly, "Opportunistic traffic scheduling over multiple network paths",
//! IEEE INFOCOM 2004, from its description in Zhang & Lei §2: packets take the path that is
//! expected to deliver first by its capacity and queue, while the paths' long-term shares φ_p of
//! the bytes are kept. With the deficit d_p, which grows by φ_p of every packet and falls by
//! those that the path carries, the eligible paths are {p: d_p > −T}.
//!
//! *Deviations*: φ_p is the path's share of the bandwidth, and T is 32 kB; neither is known from
//! the source. The queue before a packet is that of the local pacer, where the paper estimates
//! those of the network. When paths come or go the deficits start from zero.

use anabranch_core::scheduler::{PacketView, Scheduler, eligible_paths};
use anabranch_core::{PathId, PathSet, PathView};
use anabranch_units::Instant;

use super::one_by_one::{preferred_bandwidth, transfer_cost};
use super::{OneByOne, PathChoice};

/// T: bytes by which a path may run ahead of its share.
const TOLERANCE_BYTES: f64 = 32_000.0;

#[derive(Debug)]
struct Oms {
    /// d_p in bytes, by path number.
    deficits: [f64; PathId::LIMIT],
    /// The paths that `deficits` is for.
    known: PathSet,
}

pub(super) fn build() -> Box<dyn Scheduler> {
    Box::new(OneByOne::new(Oms::new()))
}

impl Oms {
    fn new() -> Self {
        Oms {
            deficits: [0.0; PathId::LIMIT],
            known: PathSet::EMPTY,
        }
    }
}

impl PathChoice for Oms {
    fn choose(&mut self, _now: Instant, packet: &PacketView, paths: &[PathView]) -> Option<PathId> {
        let met: PathSet = eligible_paths(packet, paths).map(|path| path.id).collect();
        if met != self.known {
            self.known = met;
            self.deficits = [0.0; PathId::LIMIT];
        }
        let bytes = f64::from(packet.bytes);
        let total: f64 = eligible_paths(packet, paths).map(bandwidth).sum();
        // Deficits sum to zero, so at least one is not negative.
        let id = eligible_paths(packet, paths)
            .filter(|path| self.deficits[path.id.index()] > -TOLERANCE_BYTES)
            .min_by_key(|path| path.preferred(transfer_cost(path, u64::from(packet.bytes))))?
            .id;
        for path in eligible_paths(packet, paths) {
            self.deficits[path.id.index()] += bandwidth(path) / total * bytes;
        }
        self.deficits[id.index()] -= bytes;
        Some(id)
    }
}

/// Returns the preferred bandwidth in bits per second.
fn bandwidth(path: &PathView) -> f64 {
    preferred_bandwidth(path).bits_per_second().max(1) as f64
}

#[cfg(test)]
mod tests {
    use anabranch_units::{DataRate, Duration};

    use super::super::testing::{Bed, FluidBed, m1, mean_millis, path};
    use super::super::wrr;
    use super::*;

    #[test]
    fn the_long_run_split_is_within_2_percent_of_the_shares() {
        for paths in [m1(), vec![path(0, 20, 3), path(1, 300, 1)]] {
            let share = paths[0].bandwidth.megabits_per_second()
                / (paths[0].bandwidth.megabits_per_second()
                    + paths[1].bandwidth.megabits_per_second());
            let mut bed = FluidBed::new(build(), paths);
            bed.run_at(0.7, 20);
            assert!((bed.share(0) - share).abs() < 0.02, "{}", bed.share(0));
        }
    }

    /// Returns the mean packet delay in milliseconds if each path in turn almost stands still for
    /// 40 ms.
    fn mean_delay_over_pauses(scheduler: Box<dyn Scheduler>) -> f64 {
        let mut bed = FluidBed::new(scheduler, vec![path(0, 20, 10), path(1, 20, 10)]);
        for turn in 0..500 {
            for (index, path) in bed.bed.paths.iter_mut().enumerate() {
                let megabits_per_second = if turn % 4 == 2 * index { 1 } else { 10 };
                let rate = DataRate::from_megabits_per_second(megabits_per_second);
                path.pacing_rate = Some(rate);
            }
            bed.run(1, Duration::from_millis(40), 20);
        }
        mean_millis(&bed.packet_delays)
    }

    #[test]
    fn mean_delay_is_below_that_of_wrr_with_the_same_shares() {
        let (oms, wrr) = (
            mean_delay_over_pauses(build()),
            mean_delay_over_pauses(wrr::build()),
        );
        assert!(oms < 0.9 * wrr, "{oms} ms, wrr {wrr} ms");
        // Over constant paths the same shares leave nothing to gain. Then the two differ in the
        // order of packets, by less than one packet's time (0.8 ms and 2.7 ms).
        for (paths, load, packet_millis) in [
            (m1(), 0.3, 0.8),
            (m1(), 0.9, 0.8),
            (vec![path(0, 20, 3), path(1, 60, 1)], 0.7, 2.7),
        ] {
            let [oms, wrr] = [build(), wrr::build()].map(|scheduler| {
                let mut bed = FluidBed::new(scheduler, paths.clone());
                bed.run_at(load, 20);
                mean_millis(&bed.packet_delays)
            });
            assert!(
                oms <= wrr + packet_millis,
                "{oms} ms, wrr {wrr} ms at {load}"
            );
        }
    }

    #[test]
    fn no_path_runs_ahead_by_more_than_the_tolerance_and_a_packet() {
        let paths = [path(0, 20, 10), path(1, 200, 10), path(2, 300, 1)];
        let mut oms = Oms::new();
        let packet = Bed::source(0, 1000);
        for _ in 0..10_000 {
            oms.choose(Instant::ZERO, &packet, &paths);
            let ahead = oms.deficits.iter().fold(0.0_f64, |most, d| most.max(-d));
            assert!(ahead <= TOLERANCE_BYTES + 1000.0, "{ahead}");
            // A path is behind by the sum of the others' leads: with two, by the same.
            let behind = oms.deficits.iter().fold(0.0_f64, |most, d| most.max(*d));
            assert!(behind <= 2.0 * (TOLERANCE_BYTES + 1000.0), "{behind}");
        }
    }

    #[test]
    fn within_the_tolerance_the_nearest_path_is_taken() {
        let mut oms = Oms::new();
        let paths = [path(0, 100, 10), path(1, 20, 10)];
        let packet = Bed::source(0, 1000);
        let trail: Vec<u8> = (0..70)
            .filter_map(|_| oms.choose(Instant::ZERO, &packet, &paths))
            .map(|id| id.0)
            .collect();
        // Each packet on path 1 puts it ahead by half a packet: 64 of them make 32 kB.
        assert!(trail[..64].iter().all(|id| *id == 1));
        assert_eq!(trail[64..], [0, 1, 0, 1, 0, 1]);
    }
}
