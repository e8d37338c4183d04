//! Fig. 2: filling paths like water.

use super::PAPER;
use super::bench::{FAR_MS, NEAR_MS, bench, path_share};
use crate::claim::{Basis, Claim, Subject};
use crate::judgement::{Judgement, Measured};
use anabranch_lab::metrics::Unit;

/// Share of the near path for frames of 50,000 B over paths of 4 Mbit/s, 20 and 60 ms long. The
/// level is 90 ms at one way, 70 and 30 ms above the beds.
const FIRST_SHARE: f64 = 0.7;

pub(super) const FIGURE_2: Claim = Claim {
    id: "S0-F2",
    paper: &PAPER,
    figure: "Fig. 2, §4.3",
    claim: "SFL fills a frame into the paths like water: waiting and one-way delay have the same \
            sum on all paths that it uses, and the parts make up the frame.",
    criterion: "Frames of 50 kB over two paths of 4 Mbit/s, 20 and 60 ms long: 70 % ± 3.5 of the \
            packets take the near one, and the levels differ by 5 ms at most.",
    basis: Basis::ByConstruction,
    subject: Subject::Scheduler("sfl"),
    cases: |scheduler| vec![bench("large frames", scheduler)],
    judge: |evidence| {
        let share = path_share(evidence, "large frames", 0);
        let spread = evidence.each("large frames", |run| {
            // The last packet of a frame on a path arrives after wait and delay.
            let paths = &run.statistics.flows[0].paths;
            // The mean is that of the middle of the wait: bed + (level - bed) / 2.
            let [near, far] = [(0, NEAR_MS), (1, FAR_MS)].map(|(place, bed): (usize, f64)| {
                2.0 * paths[place].cost_ms.unwrap_or(f64::NAN) - bed
            });
            (near - far).abs()
        });
        let name = "difference of the paths' levels, wait and one-way delay";
        let spread = Measured::new(name, Unit::Milliseconds, spread);
        let mut judgement = Judgement::new();
        judgement.report(&share);
        judgement.report(&spread);
        judgement.expect(share.within(0.05, FIRST_SHARE));
        // The time of two packets, the first and the last.
        judgement.expect(spread.at_most(5.0));
        judgement
    },
};
