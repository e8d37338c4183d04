//! `round-robin`: one packet per path in turn.
//!
//! Source: the Linux kernel's out-of-tree MPTCP scheduler `mptcp_rr` with `num_segments` 1 and
//! `cwnd_limited`: a path without room for a packet is skipped, and a packet is held while no path
//! has room.
//!
//! *Deviations*: retransmissions follow the session's rule, the path that delivers first.

use anabranch_core::scheduler::{PacketView, Scheduler, eligible_paths};
use anabranch_core::{PathId, PathView};
use anabranch_units::Instant;

use super::{OneByOne, PathChoice};

#[derive(Debug, Default)]
struct RoundRobin {
    /// The path after the one that was served last.
    next: PathId,
}

pub(super) fn build() -> Box<dyn Scheduler> {
    Box::new(OneByOne::new(RoundRobin::default()))
}

impl PathChoice for RoundRobin {
    fn choose(&mut self, _now: Instant, packet: &PacketView, paths: &[PathView]) -> Option<PathId> {
        let id = eligible_paths(packet, paths)
            .filter(|path| path.sendable_bytes >= u64::from(packet.bytes))
            .map(|path| path.id)
            .min_by_key(|id| (*id < self.next, *id))?;
        self.next = PathId(id.0 + 1);
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bed, Lines, path};
    use super::*;

    #[test]
    fn equal_paths_get_equal_counts() {
        let mut bed = Bed::new(
            build(),
            vec![path(0, 40, 4), path(1, 40, 4), path(2, 40, 4)],
        );
        for _ in 0..10 {
            bed.schedule(&Bed::frame(5, 1000));
        }
        let counts: Vec<_> = bed
            .paths
            .iter()
            .map(|path| path.queued_bytes / 1000)
            .collect();
        assert!(
            counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1,
            "{counts:?}"
        );
    }

    #[test]
    fn light_load_alternates_paths() {
        // 4 packets in 40 ms, of which 3 Mbit/s carry 15.
        let mut lines = Lines::new(build(), &[(4, 20), (3, 50)]);
        lines.stream(4, 50);
        let changes = lines.left_on.windows(2).filter(|two| two[0] != two[1]);
        assert_eq!((changes.count(), lines.left_on.len()), (199, 200));
    }

    #[test]
    fn full_load_follows_the_room_of_each_path() {
        // 60 packets in 40 ms, of which 4 and 2 Mbit/s carry 30.
        let mut lines = Lines::new(build(), &[(4, 20), (2, 50)]);
        lines.stream(60, 25);
        let first = lines.left_on.iter().filter(|id| id.0 == 0).count() as f64;
        let share = first / lines.left_on.len() as f64;
        assert!((share - 2.0 / 3.0).abs() < 0.01, "{share}");
    }

    #[test]
    fn a_path_without_room_is_passed_over_and_without_any_room_packets_are_held() {
        let mut bed = Bed::new(build(), vec![path(0, 40, 4), path(1, 40, 4)]);
        bed.paths[0].sendable_bytes = 2_500;
        bed.paths[1].sendable_bytes = 1_000;
        let bound = bed.schedule(&Bed::frame(5, 1000));
        let paths: Vec<u8> = bound
            .iter()
            .flat_map(|(_, set)| set.iter())
            .map(|id| id.0)
            .collect();
        assert_eq!(paths, [0, 1, 0]);
    }
}
