//! §VII, the paper's future work: a scheduler that follows BBR's estimates of its paths.

use super::measures::{LTE, WIFI, rate, switches, viewer};
use super::{BBR, PAPER, Reading, SPACE, Scenario, Who, case};
use crate::case::Case;
use crate::claim::{Basis, Claim, Subject};
use crate::evidence::Evidence;
use crate::judgement::{Expect, Judgement, Measured, Samples};
use crate::record::RunRecord;
use crate::sweep::{MetPoints, Point};
use anabranch_lab::metrics::Unit;

/// Scheduler that takes the path of the larger bandwidth-delay product, as the paper proposes.
const LARGEST_BDP: &str = "largest-bdp";
/// Our other readings of "more in harmony with BBR".
const OTHERS: [&str; 2] = ["bbr-earliest", "bbr-sticky"];
/// Names of the cases with the paper's scheduler, and with the proposed one.
const DEFAULT: &str = "default";
const PROPOSED: &str = "proposed";

fn with(name: &str, scheduler: &str) -> Case {
    let case = case(Scenario::C, Reading::Both, Who::Bbr, BBR);
    let case = Case {
        name: name.to_owned(),
        ..case
    };
    match name {
        // The same run as that of the figures.
        DEFAULT => case,
        _ => case.set("flows.0.scheduler", scheduler),
    }
}

fn run<'a>(evidence: &'a Evidence, point: &Point, name: &str) -> &'a RunRecord {
    evidence.shown(&point.of(name))
}

fn harm(run: &RunRecord) -> (u64, u64) {
    let viewer = viewer(run);
    (viewer.underflows, viewer.discarded)
}

fn is_no_worse(run: &RunRecord, than: &RunRecord) -> bool {
    let (ours, others) = (harm(run), harm(than));
    ours.0 <= others.0 && ours.1 <= others.1
}

type IsMended = fn(&RunRecord, &RunRecord) -> bool;

const PARTS: [(&str, IsMended); 3] = [
    ("fewer switches than the default scheduler", |new, old| {
        switches(new) < switches(old)
    }),
    ("no less by the Wi-Fi, within 2 %", |new, old| {
        rate(new, WIFI) >= 0.98 * rate(old, WIFI)
    }),
    ("no more underflows and no more discards", is_no_worse),
];

fn met_points(evidence: &Evidence, name: &str, parts: &[(&str, IsMended)]) -> MetPoints {
    SPACE.met_points(|point| {
        let [new, old] = [name, DEFAULT].map(|name| run(evidence, point, name));
        vec![Expect::that(
            "",
            parts.iter().all(|(_, is_so)| is_so(new, old)),
        )]
    })
}

pub(super) const FUTURE: Claim = Claim {
    id: "S1-C3",
    paper: &PAPER,
    figure: "§VII, future work",
    claim: "With BBR in scenario C, a scheduler that prefers the path of the larger \
            bandwidth-delay product works better than the default one.",
    criterion: "At more than half of the points, for largest-bdp: fewer switches, no less by the \
                Wi-Fi, and \
                neither more underflows nor more discards. bbr-earliest and bbr-sticky are shown \
                beside it. The paper gives no numbers.",
    basis: Basis::Measured,
    subject: Subject::Scheduler(LARGEST_BDP),
    cases: |scheduler| {
        let mut cases = vec![with(DEFAULT, ""), with(PROPOSED, scheduler)];
        cases.extend(OTHERS.map(|other| with(other, other).only_shown()));
        SPACE.cases(&cases)
    },
    judge: |evidence| {
        let mut judgement = Judgement::new();
        let all = met_points(evidence, PROPOSED, &PARTS);
        all.report("largest-bdp: all of it", &mut judgement);
        for part in &PARTS {
            let name = format!("largest-bdp: {}", part.0);
            met_points(evidence, PROPOSED, core::slice::from_ref(part))
                .report(&name, &mut judgement);
        }
        for other in OTHERS {
            let name = format!("{other}: all of it");
            met_points(evidence, other, &PARTS).show(&name, &mut judgement);
            for part in &PARTS {
                let name = format!("{other}: {}", part.0);
                let one = met_points(evidence, other, core::slice::from_ref(part));
                judgement.report(&one.measured(&name));
            }
        }
        numbers(&mut judgement, evidence);
        let same = SPACE.met_points(|point| {
            let [new, old] = [PROPOSED, DEFAULT].map(|name| run(evidence, point, name).trace_hash);
            vec![Expect::that("", new == old)]
        });
        judgement.report(&same.measured("largest-bdp: the very run of the default"));
        judgement.because(format!(
            "No scheduler that waits for room improves C: the Wi-Fi starves for its window, not \
             for segments. BBR's pacers and windows let one packet through at a time, so that one \
             path has room when a segment waits, and there is nothing to choose. The very run of \
             the default scheduler: {}",
            same.sentence()
        ))
    },
};

fn numbers(judgement: &mut Judgement, evidence: &Evidence) {
    type Of = fn(&RunRecord) -> f64;
    let numbers: [(&str, Unit, Of); 5] = [
        ("switches", Unit::Number, switches),
        ("underflows", Unit::Number, |run| harm(run).0 as f64),
        ("discards", Unit::Number, |run| harm(run).1 as f64),
        ("Wi-Fi", Unit::BitsPerSecond, |run| rate(run, WIFI)),
        ("LTE", Unit::BitsPerSecond, |run| rate(run, LTE)),
    ];
    for name in [DEFAULT, PROPOSED].into_iter().chain(OTHERS) {
        for (what, unit, of) in numbers {
            let points = SPACE.points();
            let values = points.iter().map(|point| of(run(evidence, point, name)));
            let samples = Samples(values.collect());
            let name = format!("{name}: {what}, over the points");
            judgement.report(&Measured::new(name, unit, samples));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::seen as run;
    use super::*;

    #[test]
    fn no_worse_is_no_more_of_either() {
        assert!(is_no_worse(&run(1, 0), &run(1, 0)) && is_no_worse(&run(1, 0), &run(2, 9)));
        assert!(!is_no_worse(&run(2, 0), &run(1, 9)) && !is_no_worse(&run(1, 9), &run(2, 0)));
    }

    /// The default scheduler's run is that of Fig. 8, so that it is run once.
    #[test]
    fn the_default_is_the_scheduler_of_the_figures() {
        fn scheduler(case: Case) -> String {
            let scenario = case.scenario().unwrap_or_else(|error| panic!("{error}"));
            scenario.flows[0].scheduler().to_owned()
        }

        let figure = case(Scenario::C, Reading::Both, Who::Bbr, BBR);
        assert_eq!(with(DEFAULT, "").settings, figure.settings);
        assert_eq!(scheduler(figure), "spd");
        assert_eq!(scheduler(with(PROPOSED, LARGEST_BDP)), LARGEST_BDP);
    }
}
