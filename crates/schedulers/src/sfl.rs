//! `sfl`: Sub-Frame-Level scheduling, each frame poured over the paths like water.
//!
//! Source: Wu et al., IEEE Transactions on Multimedia 2015, as in Zhang & Lei §4.3 and Algorithm 7.
//! With one-way delays d_i and available bandwidths c_i, path i gets (h − d_i)·c_i of a frame of L
//! bytes, with the level h at which Σ_{d_i < h} (h − d_i)·c_i = L. So D_i + d_i is the same on all
//! used paths. Packets go in order, to the path of the least delay until its part is used up, then
//! to the next.
//!
//! *Deviations*: h in closed form; the printed loop starts at the largest d_i and so fills the
//! nearest path beyond the level when a frame is small. The delay is the text's, one-way, not the
//! code's from queueing to acknowledgement. It is half the latest round-trip time, smoothed with
//! 0.85 for the newest sample as in the code, and the local queue at c_i, since without it
//! successive frames would not see each other.

use anabranch_core::scheduler::{PacketView, Scheduler};
use anabranch_core::{PathId, PathView};
use anabranch_units::{Duration, Instant};

use super::OneByOne;
use super::frame_wise::{FrameDeal, FrameWise};
use super::one_by_one::preferred_bandwidth;

/// Weight of the newest sample in the one-way delay (Zhang & Lei's code).
const WEIGHT_OF_SAMPLE: f64 = 0.85;

#[derive(Debug, Default)]
struct Sfl {
    /// The smoothed one-way delay in seconds, by path number.
    one_way_delays: [Option<f64>; PathId::LIMIT],
    /// The paths by delay.
    order: Vec<Vessel>,
}

/// A path to be filled.
#[derive(Clone, Copy, Debug)]
struct Vessel {
    id: PathId,
    /// d_i in seconds.
    delay: f64,
    /// c_i in bytes per second.
    rate: f64,
}

pub(super) fn build() -> Box<dyn Scheduler> {
    Box::new(OneByOne::new(FrameWise::new(Sfl::default())))
}

impl FrameDeal for Sfl {
    fn deal(
        &mut self,
        _now: Instant,
        packet: &PacketView,
        paths: &[PathView],
        turns: &mut Vec<PathId>,
    ) {
        self.order.clear();
        for path in paths {
            let vessel = self.vessel(path);
            self.order.push(vessel);
        }
        self.order
            .sort_unstable_by(|a, b| a.delay.total_cmp(&b.delay).then(a.id.cmp(&b.id)));
        let packet_bytes = f64::from(packet.bytes.max(1));
        let frame_bytes = packet_bytes * f64::from(packet.fragment_count);
        let level = level(&self.order, frame_bytes);
        // A packet belongs to the path that contains its middle.
        let mut end = 0.0;
        for vessel in &self.order {
            end += (level - vessel.delay).max(0.0) * vessel.rate;
            while turns.len() < usize::from(packet.fragment_count)
                && (turns.len() as f64 + 0.5) * packet_bytes < end
            {
                turns.push(vessel.id);
            }
        }
        let last = turns.last().copied().unwrap_or(self.order[0].id);
        turns.resize(usize::from(packet.fragment_count), last);
    }
}

impl Sfl {
    fn vessel(&mut self, path: &PathView) -> Vessel {
        let sample = path.rtt.latest.map(|rtt| rtt.as_secs_f64() / 2.0);
        let smoothed = &mut self.one_way_delays[path.id.index()];
        if let Some(sample) = sample {
            let before = smoothed.unwrap_or(sample);
            *smoothed = Some(before + WEIGHT_OF_SAMPLE * (sample - before));
        }
        let one_way_delay = smoothed.unwrap_or(PathView::UNKNOWN_RTT.as_secs_f64() / 2.0);
        let rate = preferred_bandwidth(path).bits_per_second().max(1) as f64 / 8.0;
        let delay = Duration::from_secs_f64(one_way_delay);
        Vessel {
            id: path.id,
            delay: path.preferred(delay).as_secs_f64() + path.queued_bytes as f64 / rate,
            rate,
        }
    }
}

/// Returns the level h, in seconds, to which `bytes` bytes fill vessels that are in the order of
/// delays.
fn level(vessels: &[Vessel], bytes: f64) -> f64 {
    let (mut rates, mut products, mut level) = (0.0, 0.0, 0.0);
    for (index, vessel) in vessels.iter().enumerate() {
        rates += vessel.rate;
        products += vessel.rate * vessel.delay;
        level = (bytes + products) / rates;
        let next = vessels.get(index + 1);
        if next.is_none_or(|next| level <= next.delay) {
            break;
        }
    }
    level
}

#[cfg(test)]
mod tests {
    use anabranch_units::DataRate;

    use super::super::testing::{Bed, path};
    use super::super::{min_cost, transfer_cost};
    use super::*;

    fn vessels(paths: &[PathView]) -> Vec<Vessel> {
        let mut sfl = Sfl::default();
        paths.iter().map(|path| sfl.vessel(path)).collect()
    }

    fn dealt(paths: Vec<PathView>, fragment_count: u16) -> Vec<u64> {
        let mut bed = Bed::new(build(), paths);
        bed.schedule(&Bed::frame(fragment_count, 1000));
        bed.paths.iter().map(|path| path.queued_bytes).collect()
    }

    #[test]
    fn the_level_holds_the_frame() {
        let paths = [path(0, 20, 8), path(1, 60, 4), path(2, 400, 8)];
        let vessels = vessels(&paths);
        for bytes in [500.0, 20_000.0, 50_000.0, 1e6] {
            let level = level(&vessels, bytes);
            let parts = vessels
                .iter()
                .map(|vessel| (level - vessel.delay).max(0.0) * vessel.rate);
            let held: f64 = parts.sum();
            assert!((held - bytes).abs() < 1e-6 * bytes, "{bytes}: {held}");
        }
    }

    #[test]
    fn a_path_whose_delay_is_above_the_level_gets_nothing() {
        // 20 ms between the first two at 8 Mbit/s hold 20 kB.
        assert_eq!(dealt(vec![path(0, 20, 8), path(1, 60, 4)], 19), [19_000, 0]);
        // h = (30000 + 1e6 * 0.01 + 0.5e6 * 0.03) / 1.5e6 = 36.7 ms.
        assert_eq!(
            dealt(vec![path(0, 20, 8), path(1, 60, 4)], 30),
            [27_000, 3_000]
        );
    }

    #[test]
    fn the_parts_sum_to_the_frame_and_level_delay_plus_depth() {
        let paths = vec![path(0, 20, 8), path(1, 60, 4), path(2, 100, 2)];
        let mut bed = Bed::new(build(), paths);
        let bound = bed.schedule(&Bed::frame(200, 1000));
        assert_eq!(bound.len(), 200);
        let ends = bed.paths.iter().map(|path| transfer_cost(path, 0));
        let (first, last) = (ends.clone().min().unwrap(), ends.max().unwrap());
        let packet = DataRate::from_megabits_per_second(2).time_for(1000);
        assert!(last - first <= packet, "{}", last - first);
    }

    #[test]
    fn packets_go_in_order_to_the_nearest_path_first() {
        let mut bed = Bed::new(build(), vec![path(0, 60, 8), path(1, 20, 8)]);
        let bound = bed.schedule(&Bed::frame(60, 1000));
        let trail: Vec<u8> = bound
            .iter()
            .map(|(_, set)| set.iter().next().unwrap().0)
            .collect();
        assert!(trail.is_sorted_by(|a, b| a >= b), "{trail:?}");
        assert_eq!((trail[0], trail[59]), (1, 0));
    }

    #[test]
    fn a_frame_of_one_packet_takes_the_nearest_path() {
        assert_eq!(dealt(vec![path(0, 30, 8), path(1, 20, 8)], 1), [0, 1000]);
    }

    #[test]
    fn the_delay_follows_the_latest_round_trip_time_by_85_percent() {
        let mut sfl = Sfl::default();
        sfl.vessel(&path(0, 100, 8));
        let delay = sfl.vessel(&path(0, 200, 8)).delay;
        assert!((delay - (0.05 + 0.85 * 0.05)).abs() < 1e-12, "{delay}");
    }

    #[test]
    fn min_cost_is_water_filling_of_one_frame_to_a_packet_on_each_path() {
        let paths = vec![path(0, 20, 8), path(1, 60, 4), path(2, 100, 2)];
        for fragment_count in [5, 20, 50, 200] {
            let mut bed = Bed::new(min_cost::build(), paths.clone());
            bed.schedule(&Bed::frame(fragment_count, 1000));
            let by_sfl = dealt(paths.clone(), fragment_count);
            for (path, by_sfl) in bed.paths.iter().zip(by_sfl) {
                let apart = path.queued_bytes.abs_diff(by_sfl);
                assert!(apart <= 1000, "{fragment_count}: {apart} B");
            }
        }
    }
}
