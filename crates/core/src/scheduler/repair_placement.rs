//! Where repair packets go: away from what they protect.

use anabranch_units::Instant;

use super::one_by_one::{candidates, transfer_cost};
use super::{PacketKind, PacketView};
use crate::media::FrameId;
use crate::path_view::{PathId, PathView};

/// How many sources are remembered, at least the largest window of a repair.
const MEMORY: usize = 128;

/// Large enough to tell quotients of small numbers apart.
const QUOTIENT_SCALE: usize = 1 << 16;

/// Remembers which paths the last sources took, and places repairs on others: one outage or one
/// burst shall not take a packet together with its repair.
#[derive(Debug)]
pub struct RepairPlacement {
    /// The paths of the last sources, a ring.
    taken: [PathId; MEMORY],
    /// How many sources there have been.
    source_count: usize,
    /// The frame whose repairs are being placed, and how many of them each path has got.
    frame: FrameId,
    placed: [u16; PathId::LIMIT],
}

impl Default for RepairPlacement {
    fn default() -> Self {
        RepairPlacement {
            taken: [PathId::default(); MEMORY],
            source_count: 0,
            frame: FrameId::default(),
            placed: [0; PathId::LIMIT],
        }
    }
}

impl RepairPlacement {
    /// A packet has been bound to `path`.
    pub fn on_bound(&mut self, packet: &PacketView, path: PathId) {
        if packet.kind == PacketKind::Source {
            self.taken[self.source_count % MEMORY] = path;
            self.source_count += 1;
        }
        if let PacketKind::Repair { .. } = packet.kind {
            if self.frame != packet.frame {
                self.frame = packet.frame;
                self.placed = [0; PathId::LIMIT];
            }
            self.placed[path.index()] += 1;
        }
    }

    /// The path for a repair, among those that deliver it before its deadline. The repairs of a
    /// frame are spread in proportion to the sources that each path has *not* carried (Webster's
    /// method), so that an outage of either leaves enough; of equal paths the fastest.
    pub fn path_for(
        &self,
        now: Instant,
        packet: &PacketView,
        window: u16,
        paths: &[PathView],
    ) -> Option<PathId> {
        let mut carried = [0_u8; PathId::LIMIT];
        let window = usize::from(window).min(self.source_count).min(MEMORY);
        for back in 1..=window {
            carried[self.taken[(self.source_count - back) % MEMORY].index()] += 1;
        }
        let rank = |path: &PathView| {
            let cost = transfer_cost(path, u64::from(packet.bytes));
            let arrives_at = now + path.unweighted(cost);
            let is_late = packet.deadline.is_some_and(|at| arrives_at > at);
            let placed = match self.frame == packet.frame {
                true => self.placed[path.id.index()],
                false => 0,
            };
            let elsewhere = window - usize::from(carried[path.id.index()]);
            // The larger the quotient elsewhere / (2 placed + 1) the better, in whole numbers.
            let quotient = elsewhere * QUOTIENT_SCALE / (2 * usize::from(placed) + 1);
            (is_late, core::cmp::Reverse(quotient), cost)
        };
        candidates(packet, paths)
            .min_by_key(|path| rank(path))
            .map(|path| path.id)
    }
}

#[cfg(test)]
mod tests {
    use anabranch_units::Duration;

    use super::*;
    use crate::scheduler::testing::{Bed, path};

    fn repair(window: u16) -> PacketView {
        PacketView {
            kind: PacketKind::Repair { window },
            ..Bed::source(0, 1000)
        }
    }

    fn placement(taken: &[u8]) -> RepairPlacement {
        let mut placement = RepairPlacement::default();
        for path in taken {
            placement.on_bound(&Bed::source(0, 1000), PathId(*path));
        }
        placement
    }

    #[test]
    fn a_repair_takes_the_path_that_carried_the_fewest_of_its_sources() {
        let paths = [path(0, 20, 4), path(1, 100, 2)];
        let placement = placement(&[1, 1, 1, 0, 0, 1]);
        let chosen = |window| placement.path_for(Instant::ZERO, &repair(window), window, &paths);
        assert_eq!(
            chosen(3),
            Some(PathId(1)),
            "two of three went by the fast one"
        );
        assert_eq!(
            chosen(6),
            Some(PathId(0)),
            "four of six went by the slow one"
        );
        assert_eq!(chosen(4), Some(PathId(0)), "as many on each: the faster");
    }

    #[test]
    fn the_repairs_of_a_frame_are_spread_against_the_outage_of_either_path() {
        let paths = [path(0, 20, 4), path(1, 20, 4)];
        let mut placement = placement(&[0, 0, 0, 0, 1]);
        let mut counts = [0; 2];
        for _ in 0..5 {
            let packet = repair(5);
            let chosen = placement
                .path_for(Instant::ZERO, &packet, 5, &paths)
                .unwrap();
            placement.on_bound(&packet, chosen);
            counts[chosen.index()] += 1;
        }
        assert_eq!(counts, [1, 4]);
    }

    #[test]
    fn a_repair_that_would_come_late_goes_with_its_sources() {
        let paths = [path(0, 20, 4), path(1, 400, 2)];
        let mut packet = repair(2);
        packet.deadline = Some(Instant::ZERO + Duration::from_millis(100));
        let chosen = placement(&[0, 0]).path_for(Instant::ZERO, &packet, 2, &paths);
        assert_eq!(chosen, Some(PathId(0)));
    }
}
