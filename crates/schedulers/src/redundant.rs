//! `redundant`: every packet on every path.
//!
//! Source: the Linux kernel's out-of-tree MPTCP scheduler `mptcp_redundant` (0.89 and later). Each
//! path works through the same packets at its own pace, and the receiver keeps the first copy. A
//! packet that is lost or late on one path has often arrived on another, at the price of one copy
//! per path.
//!
//! Read for frames over push queues: a packet is bound to all paths when it comes. A path skips
//! packets acknowledged on another path in the meantime; so a slow path keeps up with a fast one.
//!
//! *Deviations*: the kernel drops a copy that a path cannot take at once. Here a path takes it
//! unless it would arrive after the frame's deadline (after the session's deadline for key frames,
//! which have none of their own), so that no queue grows longer than that; the path that delivers
//! first always gets one. No copy follows one that is in flight on the same path. Paths held in
//! reserve carry no copies.

use anabranch_core::scheduler::{Assignment, Scheduler, SendQueue, fastest, usable};
use anabranch_core::{PathSet, PathView, SessionView};
use anabranch_units::Instant;

use super::binding::Binding;
use super::transfer_cost;

#[derive(Debug, Default)]
struct Redundant {
    binding: Binding,
}

pub(super) fn build() -> Box<dyn Scheduler> {
    Box::new(Redundant::default())
}

impl Scheduler for Redundant {
    fn schedule(
        &mut self,
        now: Instant,
        queue: &SendQueue<'_>,
        session: &SessionView,
        paths: &[PathView],
        out: &mut Vec<Assignment>,
    ) {
        self.binding.begin(paths);
        for (index, packet) in queue.iter() {
            let Some(first) = fastest(packet, &self.binding.paths) else {
                continue;
            };
            let deadline = packet.deadline.unwrap_or(now + session.deadline);
            let copies = usable(&self.binding.paths).filter(|path| {
                let arrives_at = now + transfer_cost(path, u64::from(packet.bytes));
                arrives_at <= deadline && !packet.in_flight_on.contains(path.id)
            });
            let mut set: PathSet = copies.map(|path| path.id).collect();
            set.insert(first);
            self.binding.bind(index, packet, set, out);
        }
    }

    fn is_redundant(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use anabranch_core::PathId;
    use anabranch_core::scheduler::PacketView;
    use anabranch_units::Duration;

    use super::super::testing::{Bed, path};
    use super::*;

    fn frame(packet_count: u16, deadline_millis: u64) -> Vec<PacketView> {
        let mut packets = Bed::frame(packet_count, 1000);
        for packet in &mut packets {
            packet.deadline = Some(Instant::from_millis(deadline_millis));
        }
        packets
    }

    fn all(paths: impl IntoIterator<Item = u8>) -> PathSet {
        paths.into_iter().map(PathId).collect()
    }

    #[test]
    fn every_packet_goes_to_all_usable_paths_but_those_in_reserve() {
        let mut paths = vec![path(0, 40, 4), path(1, 100, 4), path(2, 60, 4)];
        paths[2].is_standby = true;
        let mut bed = Bed::new(build(), paths);
        for (_, set) in bed.schedule(&frame(10, 500)) {
            assert_eq!(set, all([0, 1]));
        }
    }

    #[test]
    fn a_copy_that_would_come_too_late_is_not_made_so_no_queue_outgrows_the_deadline() {
        // 80 Mbit/s of packets, of which the slow path carries 1.
        let mut bed = Bed::new(build(), vec![path(0, 20, 100), path(1, 100, 1)]);
        for _ in 0..10 {
            bed.schedule(&frame(500, 500));
        }
        let queue = bed.paths[1]
            .drain_rate()
            .time_for(bed.paths[1].queued_bytes);
        // Half the round-trip time and the queue make 500 ms.
        assert!(queue <= Duration::from_millis(450), "{queue}");
        assert!(queue > Duration::from_millis(440), "{queue}");
        assert_eq!(bed.paths[0].queued_bytes, 5_000_000);
    }

    #[test]
    fn first_delivering_path_gets_even_late_packets() {
        let mut bed = Bed::new(build(), vec![path(0, 400, 4), path(1, 200, 4)]);
        let bound = bed.schedule(&frame(1, 10));
        assert_eq!(bound[0].1, all([1]));
    }

    #[test]
    fn a_path_on_which_a_copy_flies_gets_no_other() {
        let mut bed = Bed::new(build(), vec![path(0, 40, 4), path(1, 40, 4)]);
        let mut packets = frame(1, 500);
        packets[0].in_flight_on = all([1]);
        assert_eq!(bed.schedule(&packets)[0].1, all([0]));
    }
}
