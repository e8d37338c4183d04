//! `wrr`: weighted round robin, shares by available bandwidth.
//!
//! Source: Zhang & Lei eq. 16, interleaved as in their code: the classic weighted round robin of
//! load balancers, which serves every path whose weight reaches a mark that sinks from the largest
//! weight to one.
//!
//! *Deviations*: eq. 16 prints load_i = ⌈n·ABW_i/ΣABW⌉, whose sum may exceed the frame's n packets;
//! surplus turns at the frame's end are not used. One-packet frames alternate, as
//! in their code. Retransmissions follow the session's rule, the path that delivers first.

use anabranch_units::{DataRate, Instant};

use super::one_by_one::{candidates, fastest};
use super::{OneByOne, PacketView, PathChoice, Scheduler};
use crate::media::FrameId;
use crate::path_view::{PathId, PathView};

#[derive(Debug, Default)]
struct WeightedRoundRobin {
    /// The frame that `turns` is for.
    frame: Option<FrameId>,
    /// The paths of the frame's packets that are still to be bound, last first.
    turns: Vec<PathId>,
    /// The paths that the frame was dealt to.
    usable: Vec<PathView>,
    /// Which path begins an interleaving, so that no path is favoured by its number.
    first: u8,
}

pub(super) fn build() -> Box<dyn Scheduler> {
    Box::new(OneByOne::new(WeightedRoundRobin::default()))
}

impl PathChoice for WeightedRoundRobin {
    fn choose(&mut self, _now: Instant, packet: &PacketView, paths: &[PathView]) -> Option<PathId> {
        let fastest = fastest(packet, paths)?;
        if self.frame != Some(packet.frame) {
            self.frame = Some(packet.frame);
            let mut usable = core::mem::take(&mut self.usable);
            usable.clear();
            usable.extend(candidates(packet, paths));
            self.deal(u64::from(packet.fragment_count), &usable);
            self.usable = usable;
        }
        // A path that has died since the frame was dealt loses its turns to the fastest.
        let turn = self.turns.pop();
        let turn = turn.filter(|id| paths[id.index()].state.is_usable());
        Some(turn.unwrap_or(fastest))
    }
}

impl WeightedRoundRobin {
    /// Eq. 16, interleaved.
    fn deal(&mut self, packet_count: u64, paths: &[PathView]) {
        self.turns.clear();
        let total: DataRate = paths.iter().map(|path| path.bandwidth).sum();
        let total = u128::from(total.bits_per_second().max(1));
        let load = |path: &PathView| {
            let share = u128::from(path.bandwidth.bits_per_second()) * u128::from(packet_count);
            (share.div_ceil(total) as u64).min(packet_count)
        };
        let start = usize::from(self.first) % paths.len();
        self.first = self.first.wrapping_add(1);
        for mark in (1..=paths.iter().map(load).max().unwrap_or(0)).rev() {
            for turn in 0..paths.len() {
                let path = &paths[(start + turn) % paths.len()];
                if load(path) >= mark && (self.turns.len() as u64) < packet_count {
                    self.turns.push(path.id);
                }
            }
        }
        self.turns.reverse();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::testing::{Bed, path};

    #[test]
    fn eq_16_shares_follow_bandwidth_in_the_long_run() {
        let mut bed = Bed::new(build(), vec![path(0, 40, 3), path(1, 400, 1)]);
        for _ in 0..250 {
            bed.schedule(&Bed::frame(16, 1000));
        }
        let share = bed.paths[0].queued_bytes as f64 / 4_000_000.0;
        assert!((share - 0.75).abs() < 1.0 / 16.0 + 0.01, "{share}");
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
