//! Figs. 7 (a) to (c): one flow through 1 to 10 hops, with cross traffic on each.

use super::{PAPER, TFRC, TFRC_15, TFRC_15_NAME, goodput, group, multihop};
use crate::case::Case;
use crate::claim::{Basis, Claim, Subject};
use crate::evidence::Evidence;
use crate::judgement::{Judgement, Measured};
use anabranch_lab::metrics::Unit;
use anabranch_lab::{Chart, Line, Lines};

const HOPS: core::ops::RangeInclusive<u8> = 1..=10;
/// Numbers of hops at which the paper compares the controllers.
const MANY: core::ops::RangeInclusive<u8> = 4..=10;
/// Numbers of hops at which the other constant of TFRC is tried.
const SENSITIVITY: [u8; 2] = [5, 10];
/// Time in which c1 runs.
const SPAN: (f64, f64) = (10.0, 110.0);
const NAMES: [&str; 3] = ["ARC", "TFRC", "Reno"];

/// Returns the cases of 1 to 10 hops for each line: name, c1's controller, that of cross traffic.
/// Case of ten hops whose queues are too short for the packets that ARC leaves there.
const SHORT_QUEUES: &str = "ARC, 10 hops, queues of 10 packets";

fn over_hops(lines: [(&str, &str, &str); 3]) -> Vec<Case> {
    lines
        .into_iter()
        .flat_map(|(name, c1, cross)| -> Vec<Case> {
            HOPS.map(|hops| multihop(case_name(name, hops), c1, cross, hops))
                .collect()
        })
        .collect()
}

fn case_name(name: &str, hops: u8) -> String {
    format!("{name}, {hops} hops")
}

fn of_c1(evidence: &Evidence, name: &str, hops: u8) -> Measured {
    let case = case_name(name, hops);
    let samples = evidence.each(&case, |run| goodput(run, "c1"));
    Measured::new(case, Unit::BitsPerSecond, samples)
}

/// Draws goodput against the number of hops, as the paper does.
fn picture(evidence: &Evidence, title: &str) -> Chart {
    Chart::Lines(Lines {
        title: title.to_owned(),
        x: "hops".to_owned(),
        y: "goodput of C1, kbit/s".to_owned(),
        lines: NAMES
            .map(|name| {
                let points = HOPS.map(|hops| {
                    let median = of_c1(evidence, name, hops).samples.median();
                    (f64::from(hops), median / 1e3)
                });
                Line::new(name, points.collect())
            })
            .to_vec(),
        ..Lines::default()
    })
}

/// Expects goodput to fall with the number of hops.
fn expect_fall(judgement: &mut Judgement, evidence: &Evidence, name: &str) {
    let [one, three, ten] = [1, 3, 10].map(|hops| of_c1(evidence, name, hops));
    judgement.expect(three.below(&one));
    judgement.expect(ten.below(&three));
}

pub(super) const FIGURE_7A: Claim = Claim {
    id: "S2-F7a",
    paper: &PAPER,
    figure: "Fig. 7 (a), §4.2",
    claim: "Through Reno traffic goodput falls with the number of hops, and ARC's is the largest \
            beyond three.",
    criterion: "Falls: from 1 to 3 and from 3 to 10 hops. ARC's is also larger than that of TFRC \
            with c = 1.5, at 5 and 10 hops.",
    basis: Basis::Measured,
    subject: Subject::Controller("arc"),
    cases: |controller| {
        let mut cases = over_hops([
            ("ARC", controller, "reno"),
            ("TFRC", TFRC, "reno"),
            ("Reno", "reno", "reno"),
        ]);
        cases.extend(
            SENSITIVITY.map(|hops| multihop(case_name(TFRC_15_NAME, hops), TFRC_15, "reno", hops)),
        );
        cases
    },
    judge: |evidence| {
        let mut judgement = Judgement::new();
        for name in NAMES {
            judgement.report(&of_c1(evidence, name, 10));
            judgement.report(&of_c1(evidence, name, 5));
            judgement.report(&of_c1(evidence, name, 1));
            expect_fall(&mut judgement, evidence, name);
        }
        for hops in MANY {
            let arc = of_c1(evidence, "ARC", hops);
            judgement.expect(of_c1(evidence, "TFRC", hops).below(&arc));
            judgement.expect(of_c1(evidence, "Reno", hops).below(&arc));
        }
        for hops in SENSITIVITY {
            let tfrc = of_c1(evidence, TFRC_15_NAME, hops);
            judgement.report(&tfrc);
            judgement.expect(tfrc.below(&of_c1(evidence, "ARC", hops)));
        }
        judgement.draw(picture(evidence, "Fig. 7 (a): C1 through Reno traffic"));
        judgement
    },
};

/// Returns cases with Reno as c1, through cross traffic of each kind in turn.
fn reno_through_each(controller: &str) -> Vec<Case> {
    over_hops([
        ("ARC", "reno", controller),
        ("TFRC", "reno", TFRC),
        ("Reno", "reno", "reno"),
    ])
}

pub(super) const FIGURE_7B: Claim = Claim {
    id: "S2-F7b",
    paper: &PAPER,
    figure: "Fig. 7 (b), §4.2",
    claim: "A Reno flow gets very little through TFRC traffic, and most through ARC traffic.",
    criterion: "ARC, Reno, TFRC in this order for each number of hops. Very little: half of that \
            through Reno, at 3 and 10 hops. ARC's own flows have 0.5 Mbit/s.",
    basis: Basis::Measured,
    subject: Subject::Controller("arc"),
    cases: reno_through_each,
    judge: |evidence| {
        let mut judgement = Judgement::new();
        expect_friendliness(&mut judgement, evidence, HOPS);
        for hops in [3, 10] {
            let (tfrc, reno) = (of_c1(evidence, "TFRC", hops), of_c1(evidence, "Reno", hops));
            judgement.expect(tfrc.at_most(0.5 * reno.samples.median()));
        }
        judgement.draw(picture(evidence, "Fig. 7 (b): Reno C1, by cross traffic"));
        judgement
    },
};

/// Expects a Reno flow to get more through ARC than through Reno, and more through Reno than
/// through TFRC, while ARC uses its links.
fn expect_friendliness(
    judgement: &mut Judgement,
    evidence: &Evidence,
    hops: impl IntoIterator<Item = u8>,
) {
    for hops in hops {
        let values = NAMES.map(|name| of_c1(evidence, name, hops));
        let [arc, tfrc, reno] = &values;
        if [1, 3, 5, 10].contains(&hops) {
            values.iter().for_each(|value| judgement.report(value));
        }
        judgement.expect(reno.below(arc));
        judgement.expect(tfrc.below(reno));
    }
    let samples = evidence.each(&case_name("ARC", 5), |run| {
        let flows = [group(run, "forward"), group(run, "backward")].concat();
        let sum: f64 = flows.iter().map(|flow| run.rate(flow, SPAN)).sum();
        sum / flows.len() as f64
    });
    let used = Measured::new("ARC's own mean, 5 hops", Unit::BitsPerSecond, samples);
    judgement.report(&used);
    judgement.expect(used.at_least(0.5e6));
}

pub(super) const FRIENDLIER: Claim = Claim {
    id: "S2-C1",
    paper: &PAPER,
    figure: "Abstract",
    claim: "ARC is friendlier towards Reno than TFRC is.",
    criterion: "A Reno flow gets at least as much through ARC as through TFRC, at 1, 3, 5 and 10 \
            hops.",
    basis: Basis::Measured,
    subject: Subject::Controller("arc"),
    cases: reno_through_each,
    judge: |evidence| {
        let mut judgement = Judgement::new();
        for hops in [1, 3, 5, 10] {
            let arc = of_c1(evidence, "ARC", hops);
            let tfrc = of_c1(evidence, "TFRC", hops);
            let ratio = arc.samples.over(&tfrc.samples);
            let text = format!("Reno through ARC over Reno through TFRC, {hops} hops");
            let ratio = Measured::new(text, Unit::Number, ratio);
            judgement.report(&ratio);
            judgement.expect(ratio.at_least(1.0));
        }
        judgement
    },
};

pub(super) const FIGURE_7C: Claim = Claim {
    id: "S2-F7c",
    paper: &PAPER,
    figure: "Fig. 7 (c), §4.2",
    claim: "Among its own kind C1 gets least if all are TFRC; beyond three hops ARC and Reno get \
            similar goodput.",
    criterion: "Similar: a ratio of 0.7 to 1.4.",
    basis: Basis::Measured,
    subject: Subject::Controller("arc"),
    cases: |controller| {
        let mut cases = over_hops([
            ("ARC", controller, controller),
            ("TFRC", TFRC, TFRC),
            ("Reno", "reno", "reno"),
        ]);
        let short = multihop(SHORT_QUEUES, controller, controller, 10);
        cases.push(short.set("links.hop.queue", "10 packets").only_shown());
        cases
    },
    judge: |evidence| {
        let samples = evidence.each(SHORT_QUEUES, |run| goodput(run, "c1"));
        let short = Measured::new(SHORT_QUEUES, Unit::BitsPerSecond, samples);
        let mut judgement = Judgement::new()
            .because(
                "Queues of 21 packets hold the 10 that each of two ARC flows leaves there, so that \
                 from five hops on nothing is lost. That explains a part: where queues are shorter \
                 and packets are lost, C1 has less, and still far more than Reno's.",
            )
            .ablated(format!(
                "with queues of 10 packets ARC's C1 has {}.",
                short.all()
            ));

        for hops in HOPS {
            let values = NAMES.map(|name| of_c1(evidence, name, hops));
            let [arc, tfrc, reno] = &values;
            if [1, 3, 5, 10].contains(&hops) {
                values.iter().for_each(|value| judgement.report(value));
            }
            judgement.expect(tfrc.below(reno));
            judgement.expect(tfrc.below(arc));
        }
        for hops in MANY {
            let (arc, reno) = (of_c1(evidence, "ARC", hops), of_c1(evidence, "Reno", hops));
            let text = format!("ARC over Reno, {hops} hops");
            let ratio = arc.samples.median() / reno.samples.median();
            let ratio = crate::judgement::Samples(vec![ratio]);
            let ratio = Measured::new(text, Unit::Number, ratio);
            judgement.report(&ratio);
            judgement.expect(ratio.at_least(0.7));
            judgement.expect(ratio.at_most(1.4));
        }
        judgement.report(&short);
        judgement.draw(picture(evidence, "Fig. 7 (c): C1 among its own kind"));
        judgement
    },
};
