//! `sticky`: the same path until it has no room, then the one of the least round-trip time.
//!
//! Source: Nagayama et al. 2019, as described by Kondo et al. (§II): path switches put packets out
//! of order, so a path is left only when it has no credits.
//!
//! *Deviations*: the base rule is `spd`'s. A path is left, too, when it is suspect, out or held in
//! reserve while another is not. Retransmissions follow the session's rule.

use anabranch_core::scheduler::{PacketView, Scheduler};
use anabranch_core::{PathId, PathView};
use anabranch_units::Instant;

use super::room::{least_rtt, with_room};
use super::{OneByOne, PathChoice};

#[derive(Debug, Default)]
struct Sticky {
    current: Option<PathId>,
}

pub(super) fn build() -> Box<dyn Scheduler> {
    Box::new(OneByOne::new(Sticky::default()))
}

impl PathChoice for Sticky {
    fn choose(&mut self, _now: Instant, packet: &PacketView, paths: &[PathView]) -> Option<PathId> {
        let open = with_room(packet, paths);
        let current = open.clone().find(|path| Some(path.id) == self.current);
        let chosen = current.or_else(|| least_rtt(open))?.id;
        self.current = Some(chosen);
        Some(chosen)
    }
}

#[cfg(test)]
mod tests {
    use super::super::spd;
    use super::super::testing::{Bed, Lines, windowed};
    use super::*;

    fn chosen(sticky: &mut Sticky, paths: &[PathView]) -> Option<u8> {
        let packet = Bed::source(0, 1000);
        sticky
            .choose(Instant::ZERO, &packet, paths)
            .map(|path| path.0)
    }

    #[test]
    fn a_path_is_left_only_without_a_credit_and_not_returned_to_for_one() {
        let mut sticky = Sticky::default();
        let mut paths = [windowed(0, 20, 10, 9_000), windowed(1, 90, 10, 0)];
        assert_eq!(chosen(&mut sticky, &paths), Some(0));
        paths[0].sendable_bytes = 999;
        assert_eq!(chosen(&mut sticky, &paths), Some(1));
        // The near path has room again.
        paths[0].sendable_bytes = 10_000;
        assert_eq!(chosen(&mut sticky, &paths), Some(1));
        paths[1].sendable_bytes = 1_000;
        assert_eq!(chosen(&mut sticky, &paths), Some(1));
        paths[1].sendable_bytes = 0;
        assert_eq!(chosen(&mut sticky, &paths), Some(0));
    }

    #[test]
    fn without_any_room_packets_are_held_and_the_path_is_kept() {
        let mut sticky = Sticky::default();
        let mut paths = [windowed(0, 20, 10, 10_000), windowed(1, 90, 10, 0)];
        assert_eq!(chosen(&mut sticky, &paths), Some(1));
        paths[1].sendable_bytes = 0;
        assert_eq!(chosen(&mut sticky, &paths), None);
        paths[0].sendable_bytes = 10_000;
        paths[1].sendable_bytes = 10_000;
        assert_eq!(chosen(&mut sticky, &paths), Some(1));
    }

    #[test]
    fn switches_are_no_more_than_those_of_the_base_rule() {
        fn switches(scheduler: Box<dyn Scheduler>, packet_count: u16) -> usize {
            let mut lines = Lines::with_windows(scheduler, &[(10, 10, 8), (10, 50, 20)]);
            lines.stream(packet_count, 100);
            let two = lines.left_on.windows(2);
            two.filter(|two| two[0] != two[1]).count()
        }

        for packet_count in [10, 30, 60, 90] {
            let (ours, base) = (
                switches(build(), packet_count),
                switches(spd::build(), packet_count),
            );
            assert!(ours <= base, "{packet_count}: {ours} {base}");
        }
    }
}
