//! `edcld`: Effective Delay-Controlled Load Distribution, shares that level the paths' delays.
//!
//! Source: Prabhavat, Nishiyama, Ansari & Kato, IEEE TPDS 2011; cost function as Zhang & Lei
//! eq. 17: C_p(ψ_p) = D_p + (1 − w)/(μ_p − ψ_p λ) + w q_p/μ_p, with the propagation delay D_p, the
//! rates μ_p and λ (input) in packets/s, the local queue q_p in packets, the share ψ_p and w = 0.8.
//! At each frame Δψ moves from the path of the highest cost, z, to that of the lowest, b, so that
//! C_b(ψ_b + Δψ) = C_z(ψ_z − Δψ); the frame's packets are then dealt as `wrr` does, by ψ.
//!
//! *Deviations*: the quadratic is solved as it follows from eq. 17. The released code of Zhang &
//! Lei has λ − (2 − k·s) for its linear coefficient where λ (2 − k·s) belongs, and that is not
//! imitated. D_p is half the least round-trip time. A path at or above its capacity has no M/M/1
//! cost. At each frame, 5 % of the share of the most overloaded path moves to the path of the
//! lowest cost or, if all are overloaded, of the least load. When paths come or go the shares start
//! again from the rates'.

use core::cmp::Ordering;

use anabranch_core::scheduler::{PacketView, Scheduler};
use anabranch_core::{PathId, PathSet, PathView};
use anabranch_units::{DataRate, Instant};

use super::OneByOne;
use super::frame_wise::{FrameDeal, FrameWise, interleave};
use super::one_by_one::preferred_bandwidth;

/// Weight of the local queue in the cost; the rest is the M/M/1 formula's (Zhang & Lei §4.3).
const WEIGHT_OF_QUEUE: f64 = 0.8;

/// Weight of the newest sample in the input rate (Zhang & Lei's code).
const WEIGHT_OF_SAMPLE: f64 = 0.85;

/// Part of its share that an overloaded path loses at a frame.
const OVERLOAD_STEP: f64 = 0.05;

#[derive(Debug)]
struct Edcld {
    /// w of eq. 17.
    weight_of_queue: f64,
    /// ψ, by path number.
    shares: [f64; PathId::LIMIT],
    /// The paths that `shares` is for.
    known: PathSet,
    /// λ in packets per second; `None` before the second frame.
    input_rate: Option<f64>,
    /// Packets since the last sample of the input rate, and its time.
    packet_count: u32,
    sampled_at: Option<Instant>,
    /// Path that begins the next interleaving.
    first: u8,
}

/// Terms of eq. 17 for a path.
#[derive(Clone, Copy, Debug)]
struct Term {
    id: PathId,
    /// D_p in seconds.
    propagation: f64,
    /// μ_p in packets per second.
    rate: f64,
    /// q_p in packets.
    queue: f64,
    /// μ_p − ψ_p λ.
    headroom: f64,
}

pub(super) fn build() -> Box<dyn Scheduler> {
    Box::new(OneByOne::new(FrameWise::new(Edcld::new(WEIGHT_OF_QUEUE))))
}

impl FrameDeal for Edcld {
    fn deal(
        &mut self,
        now: Instant,
        packet: &PacketView,
        paths: &[PathView],
        turns: &mut Vec<PathId>,
    ) {
        self.meet(paths);
        self.measure(now, packet.fragment_count);
        if let Some(input_rate) = self.input_rate {
            self.shift(packet.bytes, input_rate, paths);
        }
        let packet_count = f64::from(packet.fragment_count);
        interleave(
            paths,
            self.first,
            |index| libm::ceil(packet_count * self.share(&paths[index])) as u64,
            turns,
        );
        self.first = self.first.wrapping_add(1);
    }
}

impl Edcld {
    fn new(weight_of_queue: f64) -> Self {
        Edcld {
            weight_of_queue,
            shares: [0.0; PathId::LIMIT],
            known: PathSet::EMPTY,
            input_rate: None,
            packet_count: 0,
            sampled_at: None,
            first: 0,
        }
    }

    fn share(&self, path: &PathView) -> f64 {
        self.shares[path.id.index()]
    }

    /// Starts from the rates' shares if these are not the paths of the last frame.
    fn meet(&mut self, paths: &[PathView]) {
        let met: PathSet = paths.iter().map(|path| path.id).collect();
        if met == self.known {
            return;
        }
        self.known = met;
        let total: DataRate = paths.iter().map(preferred_bandwidth).sum();
        self.shares = [0.0; PathId::LIMIT];
        for path in paths {
            self.shares[path.id.index()] = match total {
                DataRate::ZERO => 1.0 / paths.len() as f64,
                total => {
                    preferred_bandwidth(path).bits_per_second() as f64
                        / total.bits_per_second() as f64
                }
            };
        }
    }

    fn measure(&mut self, now: Instant, packet_count: u16) {
        let elapsed = now.saturating_since(self.sampled_at.unwrap_or(now));
        if !elapsed.is_zero() {
            let sample = f64::from(self.packet_count) / elapsed.as_secs_f64();
            let before = self.input_rate.unwrap_or(sample);
            self.input_rate = Some(before + WEIGHT_OF_SAMPLE * (sample - before));
            self.packet_count = 0;
        }
        if !elapsed.is_zero() || self.sampled_at.is_none() {
            self.sampled_at = Some(now);
        }
        self.packet_count = self.packet_count.saturating_add(u32::from(packet_count));
    }

    fn term(&self, path: &PathView, packet_bytes: u32, input_rate: f64) -> Term {
        let packet_bits = f64::from(packet_bytes.max(1)) * 8.0;
        let rate = preferred_bandwidth(path).bits_per_second().max(1) as f64 / packet_bits;
        let rtt = path.rtt.least.unwrap_or(PathView::UNKNOWN_RTT);
        Term {
            id: path.id,
            propagation: path.preferred(rtt / 2).as_secs_f64(),
            rate,
            queue: path.queued_bytes as f64 * 8.0 / packet_bits,
            headroom: rate - self.share(path) * input_rate,
        }
    }

    /// Returns the cost of eq. 17; infinite where M/M/1 has none.
    fn cost(&self, term: &Term) -> f64 {
        let w = self.weight_of_queue;
        if term.headroom <= 0.0 {
            return f64::INFINITY;
        }
        term.propagation + (1.0 - w) / term.headroom + w * term.queue / term.rate
    }

    /// Compares two terms; the better one is less. The worst of several overloaded paths is the one
    /// furthest above its rate.
    fn order(&self, a: &Term, b: &Term) -> Ordering {
        let costs = self.cost(a).total_cmp(&self.cost(b));
        costs.then_with(|| (-a.headroom / a.rate).total_cmp(&(-b.headroom / b.rate)))
    }

    /// Moves Δψ from the worst path to the best.
    fn shift(&mut self, packet_bytes: u32, input_rate: f64, paths: &[PathView]) {
        let terms = paths
            .iter()
            .map(|path| self.term(path, packet_bytes, input_rate));
        let Some(best) = terms.clone().min_by(|a, b| self.order(a, b)) else {
            return;
        };
        let Some(worst) = terms
            .filter(|term| self.shares[term.id.index()] > 0.0)
            .max_by(|a, b| self.order(a, b))
        else {
            return;
        };
        if best.id == worst.id {
            return;
        }
        let whole = self.shares[worst.id.index()];
        let moved = if best.headroom <= 0.0 || worst.headroom <= 0.0 {
            OVERLOAD_STEP * whole
        } else {
            self.root(&best, &worst, input_rate).clamp(0.0, whole)
        };
        self.shares[best.id.index()] += moved;
        self.shares[worst.id.index()] -= moved;
    }

    /// Returns the Δψ at which both cost the same: the one root that leaves both paths headroom.
    fn root(&self, best: &Term, worst: &Term, input_rate: f64) -> f64 {
        let w = self.weight_of_queue;
        let (a, b) = (best.headroom, worst.headroom);
        let queues = best.queue / best.rate - worst.queue / worst.rate;
        let difference = best.propagation - worst.propagation + w * queues;
        if input_rate <= 0.0 {
            return 0.0;
        }
        // Without an M/M/1 term no shift changes a cost, so the shares move in steps, as under
        // overload.
        if 1.0 - w <= 0.0 {
            return OVERLOAD_STEP * self.shares[worst.id.index()];
        }
        // With y = λΔψ: K y² − (2 + K (a − b)) y + (a − b − K a b) = 0.
        let k = difference / (1.0 - w);
        let linear = 2.0 + k * (a - b);
        // The discriminant is 4 + K² (a + b)²; in this form the root between −b and a keeps its
        // digits, and a K of zero is no special case.
        let discriminant = 4.0 + k * k * (a + b) * (a + b);
        let constant = a - b - k * a * b;
        let y = if linear >= 0.0 {
            2.0 * constant / (linear + discriminant.sqrt())
        } else {
            (linear - discriminant.sqrt()) / (2.0 * k)
        };
        y / input_rate
    }
}

#[cfg(test)]
mod tests {
    use anabranch_units::{Duration, Rng, Seed};

    use super::super::testing::{Bed, FluidBed, path};
    use super::*;

    const PACKET: u32 = 1000;

    fn term(propagation: f64, rate: f64, queue: f64, headroom: f64) -> Term {
        Term {
            id: PathId(0),
            propagation,
            rate,
            queue,
            headroom,
        }
    }

    /// Deals `frame_count` frames of 20 packets at 25 frames/s without any queue, 500 packets/s.
    fn deal_frames(edcld: &mut Edcld, paths: &[PathView], frame_count: u64) {
        let packet = Bed::frame(20, PACKET)[0];
        for frame in 0..frame_count {
            let now = Instant::from_millis(40 * frame);
            edcld.deal(now, &packet, paths, &mut Vec::new());
            let total: f64 = edcld.shares.iter().sum();
            assert!((total - 1.0).abs() < 1e-9, "shares sum to {total}");
            assert!(edcld.shares.iter().all(|share| *share >= 0.0));
        }
    }

    fn costs(edcld: &Edcld, paths: &[PathView]) -> Vec<f64> {
        let input_rate = edcld.input_rate.unwrap();
        let terms = paths
            .iter()
            .map(|path| edcld.term(path, PACKET, input_rate));
        terms.map(|term| edcld.cost(&term)).collect()
    }

    #[test]
    fn eq_17_is_propagation_and_a_mean_of_both_queues() {
        let edcld = Edcld::new(WEIGHT_OF_QUEUE);
        let cost = edcld.cost(&term(0.02, 500.0, 10.0, 100.0));
        assert!((cost - (0.02 + 0.2 / 100.0 + 0.8 * 10.0 / 500.0)).abs() < 1e-12);
    }

    #[test]
    fn the_root_levels_both_costs_leaves_both_headroom_and_is_not_negative() {
        fn between(low: f64, high: f64, rng: &mut Rng) -> f64 {
            low + (high - low) * rng.next_f64()
        }

        let edcld = Edcld::new(WEIGHT_OF_QUEUE);
        let mut rng: Rng = Seed(7).rng();
        for case in 0..65_065 {
            let input_rate = between(1.0, 3000.0, &mut rng);
            fn any(rng: &mut Rng) -> Term {
                let rate = between(10.0, 2000.0, rng);
                let headroom = rate * between(0.001, 1.0, rng);
                term(
                    between(0.001, 0.3, rng),
                    rate,
                    between(0.0, 50.0, rng),
                    headroom,
                )
            }
            let (mut best, mut worst) = (any(&mut rng), any(&mut rng));
            if edcld.cost(&best) > edcld.cost(&worst) {
                core::mem::swap(&mut best, &mut worst);
            }
            let y = edcld.root(&best, &worst, input_rate) * input_rate;
            assert!(y >= 0.0, "case {case}: {y}");
            let after = [
                edcld.cost(&Term {
                    headroom: best.headroom - y,
                    ..best
                }),
                edcld.cost(&Term {
                    headroom: worst.headroom + y,
                    ..worst
                }),
            ];
            assert!(
                (after[0] / after[1] - 1.0).abs() < 1e-6,
                "case {case}: {after:?}"
            );
        }
    }

    #[test]
    fn the_input_rate_follows_the_newest_frame_by_85_percent() {
        let mut edcld = Edcld::new(WEIGHT_OF_QUEUE);
        for (millis, packet_count) in [(0, 20), (40, 10), (80, 10)] {
            edcld.measure(Instant::from_millis(millis), packet_count);
        }
        // 20 packets in 40 ms, and then 10.
        assert!((edcld.input_rate.unwrap() - (500.0 - 0.85 * 250.0)).abs() < 1e-9);
    }

    #[test]
    fn equal_paths_get_half_each() {
        let paths = [path(0, 40, 4), path(1, 40, 4)];
        let mut edcld = Edcld::new(WEIGHT_OF_QUEUE);
        deal_frames(&mut edcld, &paths, 10);
        assert_eq!(edcld.shares[..2], [0.5, 0.5]);
        // From an unequal start too.
        (edcld.shares[0], edcld.shares[1]) = (0.9, 0.1);
        deal_frames(&mut edcld, &paths, 10);
        assert!((edcld.shares[0] - 0.5).abs() < 1e-9, "{:?}", edcld.shares);
    }

    #[test]
    fn costs_of_used_paths_level_to_a_millisecond_at_constant_load() {
        let paths = [path(0, 20, 3), path(1, 22, 2), path(2, 24, 2)];
        let mut edcld = Edcld::new(WEIGHT_OF_QUEUE);
        deal_frames(&mut edcld, &paths, 100);
        let costs = costs(&edcld, &paths);
        let spread = costs.iter().copied().fold(0.0, f64::max)
            - costs.iter().copied().fold(f64::INFINITY, f64::min);
        assert!(edcld.shares[..3].iter().all(|share| *share > 0.0));
        assert!(spread < 0.001, "{costs:?} {:?}", &edcld.shares[..3]);
    }

    #[test]
    fn a_path_too_far_away_loses_its_share() {
        let paths = [path(0, 20, 10), path(1, 200, 10)];
        let mut edcld = Edcld::new(WEIGHT_OF_QUEUE);
        deal_frames(&mut edcld, &paths, 10);
        assert_eq!(edcld.shares[..2], [1.0, 0.0]);
    }

    #[test]
    fn without_mm1_nothing_divides_by_zero_and_the_nearer_path_is_filled_in_steps() {
        let paths = [path(0, 20, 10), path(1, 40, 10)];
        let mut edcld = Edcld::new(1.0);
        deal_frames(&mut edcld, &paths, 2);
        assert!((edcld.shares[1] - 0.5 * 0.95).abs() < 1e-12);
        deal_frames(&mut edcld, &paths, 500);
        assert!(edcld.shares[1] < 0.01, "{:?}", &edcld.shares[..2]);
    }

    #[test]
    fn an_overloaded_path_gives_its_share_away_in_steps() {
        let paths = [path(0, 20, 10), path(1, 20, 1)];
        let mut edcld = Edcld::new(WEIGHT_OF_QUEUE);
        deal_frames(&mut edcld, &paths, 1);
        (edcld.shares[0], edcld.shares[1]) = (0.2, 0.8);
        deal_frames(&mut edcld, &paths, 2);
        assert!((edcld.shares[1] - 0.76).abs() < 1e-12, "{:?}", edcld.shares);
        deal_frames(&mut edcld, &paths, 100);
        assert!(edcld.shares[1] * 500.0 < 125.0, "{:?}", edcld.shares);
    }

    #[test]
    fn when_all_are_overloaded_the_shares_follow_the_rates() {
        let paths = [path(0, 20, 2), path(1, 20, 1)];
        let mut edcld = Edcld::new(WEIGHT_OF_QUEUE);
        deal_frames(&mut edcld, &paths, 1);
        (edcld.shares[0], edcld.shares[1]) = (0.1, 0.9);
        deal_frames(&mut edcld, &paths, 200);
        assert!((edcld.shares[0] - 2.0 / 3.0).abs() < OVERLOAD_STEP);
    }

    #[test]
    fn a_frame_of_one_packet_goes_where_there_is_a_share() {
        let mut bed = FluidBed::new(build(), vec![path(0, 20, 10), path(1, 200, 10)]);
        bed.run(50, Duration::from_millis(40), 1);
        assert!(bed.share(0) > 0.95, "{}", bed.share(0));
    }
}
