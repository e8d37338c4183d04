//! `tcp-state`: the least round-trip time among the paths that are not repairing losses.
//!
//! Source: Nagayama et al. 2018, as described by Kondo et al. (§II): a path in fast retransmit,
//! fast recovery or after a retransmission timeout gets no new data; if all are, the base rule
//! chooses among all.
//!
//! *Deviations*: the base rule is `spd`'s. A path that repairs losses is taken, too, while no other
//! has room: if packets were held for the others, two paths of 3 Mbit/s would carry 0.83 of their
//! capacity. Retransmissions follow the session's rule.

use anabranch_core::scheduler::{PacketView, Scheduler};
use anabranch_core::{PathId, PathView};
use anabranch_units::Instant;

use super::room::{least_rtt, with_room};
use super::{OneByOne, PathChoice};

#[derive(Debug)]
struct TcpState;

pub(super) fn build() -> Box<dyn Scheduler> {
    Box::new(OneByOne::new(TcpState))
}

impl PathChoice for TcpState {
    fn choose(&mut self, _now: Instant, packet: &PacketView, paths: &[PathView]) -> Option<PathId> {
        let open = with_room(packet, paths);
        let sound = open.clone().filter(|path| !path.risk.is_in_recovery);
        let chosen = least_rtt(sound).or_else(|| least_rtt(open));
        chosen.map(|path| path.id)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bed, windowed};
    use super::*;

    fn chosen(paths: &[PathView]) -> Option<u8> {
        let packet = Bed::source(0, 1000);
        TcpState
            .choose(Instant::ZERO, &packet, paths)
            .map(|path| path.0)
    }

    #[test]
    fn a_path_that_repairs_losses_gets_nothing_new_while_another_does_not() {
        let mut paths = [
            windowed(0, 20, 10, 0),
            windowed(1, 90, 10, 0),
            windowed(2, 60, 10, 0),
        ];
        assert_eq!(chosen(&paths), Some(0));
        paths[0].risk.is_in_recovery = true;
        assert_eq!(chosen(&paths), Some(2));
        paths[2].risk.is_in_recovery = true;
        assert_eq!(chosen(&paths), Some(1));
        // No other has room.
        paths[1].sendable_bytes = 999;
        assert_eq!(chosen(&paths), Some(0));
        paths[0].sendable_bytes = 999;
        paths[2].sendable_bytes = 999;
        assert_eq!(chosen(&paths), None);
    }

    #[test]
    fn if_all_repair_losses_the_base_rule_chooses_among_all() {
        let mut paths = [windowed(0, 90, 10, 0), windowed(1, 20, 10, 0)];
        for path in &mut paths {
            path.risk.is_in_recovery = true;
        }
        assert_eq!(chosen(&paths), Some(1));
        paths[1].sendable_bytes = 999;
        assert_eq!(chosen(&paths), Some(0));
    }
}
