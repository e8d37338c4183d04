//! `template`: description in one line.
//!
//! Source: authors, "title", where and when, with section and equation. The idea in a paragraph.
//!
//! *Deviations*: where this differs from the source and why, or none.

use anabranch_core::PathView;
use anabranch_core::scheduler::{PacketView, Scheduler};
use anabranch_units::{Duration, Instant};

use super::{OneByOne, PathCost, transfer_cost};

#[derive(Debug)]
struct Template;

pub(super) fn build() -> Box<dyn Scheduler> {
    Box::new(OneByOne::new(Template))
}

impl PathCost for Template {
    fn cost(&mut self, _now: Instant, packet: &PacketView, path: &PathView) -> Duration {
        transfer_cost(path, u64::from(packet.bytes))
    }
}

#[cfg(test)]
mod tests {
    use anabranch_core::{PathId, PathSet};

    use super::super::testing::{Bed, path};
    use super::*;

    #[test]
    fn a_packet_takes_the_cheapest_path() {
        let mut bed = Bed::new(build(), vec![path(0, 100, 4), path(1, 40, 4)]);
        let bound = bed.schedule(&Bed::frame(1, 1000));
        assert_eq!(bound[0].1, PathSet::only(PathId(1)));
    }
}
