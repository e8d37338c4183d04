//! The file that a new scheduler begins with.

/// It compiles and does what `min-cost` does, with `{name}` and `{type_name}` for its names.
pub(super) const TEMPLATE: &str = r#"//! `{name}`: what it does, in a line.
//!
//! Source: authors, "title", where and when, with section and equation. The idea in a paragraph.
//!
//! *Deviations*: where this differs from the source and why, or none.

use anabranch_units::{Duration, Instant};

use super::{OneByOne, PacketView, PathCost, Scheduler, transfer_cost};
use crate::path_view::PathView;

#[derive(Debug)]
struct {type_name};

pub(super) fn build() -> Box<dyn Scheduler> {
    Box::new(OneByOne::new({type_name}))
}

impl PathCost for {type_name} {
    fn cost(&mut self, _now: Instant, packet: &PacketView, path: &PathView) -> Duration {
        transfer_cost(path, u64::from(packet.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path_view::{PathId, PathSet};
    use crate::scheduler::testing::{Bed, path};

    #[test]
    fn a_packet_takes_the_cheapest_path() {
        let mut bed = Bed::new(build(), vec![path(0, 100, 4), path(1, 40, 4)]);
        let bound = bed.schedule(&Bed::frame(1, 1000));
        assert_eq!(bound[0].1, PathSet::only(PathId(1)));
    }
}
"#;
