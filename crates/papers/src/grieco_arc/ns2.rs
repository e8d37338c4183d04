//! Results of ns-2.35 for some of the paper's scenarios, beside ours. They show whether our TFRC
//! and Reno are those that the paper compared with.

use super::{four_and_four, goodput, multihop, ten_flows};
use crate::case::{Algorithms, Case};
use crate::claim::{Basis, Claim, Paper, Subject};
use crate::evidence::Evidence;
use crate::judgement::{Expect, Judgement, Measured};
use crate::record::RunRecord;
use anabranch_lab::metrics::Unit;

const PAPER: Paper = Paper {
    key: "ns2",
    citation: "ns-2.35, measured: Reno and TFRC in scenarios of Grieco & Mascolo",
    algorithms: Algorithms::Published,
};

pub(crate) const CLAIMS: &[&Claim] = &[
    &RENO_1,
    &RENO_3,
    &RENO_5,
    &RENO_10,
    &TFRC_1,
    &TFRC_3,
    &TFRC_5,
    &TFRC_10,
    &BESIDE_62,
    &BESIDE_250,
    &JAIN_20,
    &JAIN_100,
    &JAIN_400,
];

const REFERENCES: &str = include_str!("../../tests/data/ns2.csv");
/// Margin of our rates where ns-2's own runs differ less.
const MARGIN: f64 = 0.2;
/// Claim about Jain's index near the beginning.
const FIRST_JAIN: &str = "S2-ns2-jain-20";

/// A line of the file.
struct Reference {
    id: &'static str,
    scenario: &'static str,
    flow: &'static str,
    hops: u8,
    at_s: f64,
    mean: f64,
    min: f64,
    max: f64,
}

/// Returns the line of that name.
///
/// # Panics
/// Panics if there is none; every claim here has one.
fn reference(id: &str) -> Reference {
    let lines = REFERENCES.lines();
    let found = lines.filter_map(read).find(|reference| reference.id == id);
    found.unwrap_or_else(|| panic!("ns2.csv has no {id}"))
}

fn read(line: &'static str) -> Option<Reference> {
    let cells: Vec<&str> = line.split(',').collect();
    let &[id, scenario, flow, _protocol, hops, at_s, mean, min, max] = &cells[..] else {
        return None;
    };
    Some(Reference {
        id,
        scenario,
        flow,
        hops: hops.parse().unwrap_or_default(),
        at_s: at_s.parse().unwrap_or_default(),
        mean: mean.parse().ok()?,
        min: min.parse().ok()?,
        max: max.parse().ok()?,
    })
}

impl Reference {
    fn case(&self, controller: &str) -> Case {
        match self.scenario {
            "multihop" => multihop("ours", controller, "reno", self.hops),
            "four-and-four" => four_and_four::case("ours", controller),
            _ => ten_flows::case("ours", controller),
        }
    }

    fn measure(&self, run: &RunRecord) -> f64 {
        match self.scenario {
            "ten-flows" => ten_flows::jain_at(run, self.at_s),
            _ => goodput(run, self.flow),
        }
    }

    fn judge(&self, evidence: &Evidence) -> Judgement {
        let mut judgement = Judgement::new();
        self.expect_of(evidence, &mut judgement);
        // Any flows become about fair; ns-2's do so from a known beginning.
        if self.scenario == "ten-flows" && self.id != FIRST_JAIN {
            reference(FIRST_JAIN).expect_of(evidence, &mut judgement);
        }
        judgement
    }

    fn expect_of(&self, evidence: &Evidence, judgement: &mut Judgement) {
        let samples = evidence.each("ours", |run| self.measure(run));
        let (name, unit, scale) = match self.scenario {
            "ten-flows" => {
                let name = format!("Jain's index up to {} s", self.at_s);
                (name, Unit::Number, 1.0)
            }
            _ => ("goodput".to_owned(), Unit::BitsPerSecond, 1e3),
        };
        let mean = samples.0.iter().sum::<f64>() / samples.0.len() as f64;
        let ours = Measured::new(name.clone(), unit, samples).beside(self.mean * scale);
        // A fifth would be too much for an index near 1.
        let margin = if unit == Unit::Number { 0.0 } else { MARGIN };
        let low = scale * self.min.min(self.mean * (1.0 - margin));
        let high = scale * self.max.max(self.mean * (1.0 + margin));
        let text = format!(
            "{name}: mean of the seeds {} between {} and {}",
            ours.write(mean),
            ours.write(low),
            ours.write(high)
        );
        judgement.report(&ours);
        judgement.expect(Expect::by(text, (mean - low).min(high - mean)));
    }
}

macro_rules! conformance {
    ($name:ident, $id:literal, $controller:literal, $what:literal) => {
        const $name: Claim = Claim {
            id: $id,
            paper: &PAPER,
            figure: "ns-2.35",
            claim: $what,
            criterion: "The mean of the seeds is within 20 % of ns-2's, or in ns-2's range if that \
                        is wider; of an index, in the range.",
            basis: Basis::Measured,
            subject: Subject::Controller($controller),
            cases: |controller| vec![reference($id).case(controller)],
            judge: |evidence| reference($id).judge(evidence),
        };
    };
}

conformance!(
    RENO_1,
    "S2-ns2-reno-1",
    "reno",
    "Goodput of a Reno C1, 1 hop of Reno traffic."
);
conformance!(
    RENO_3,
    "S2-ns2-reno-3",
    "reno",
    "Goodput of a Reno C1, 3 hops of Reno traffic."
);
conformance!(
    RENO_5,
    "S2-ns2-reno-5",
    "reno",
    "Goodput of a Reno C1, 5 hops of Reno traffic."
);
conformance!(
    RENO_10,
    "S2-ns2-reno-10",
    "reno",
    "Goodput of a Reno C1, 10 hops of Reno traffic."
);
conformance!(
    TFRC_1,
    "S2-ns2-tfrc-1",
    "tfrc-ns2",
    "Goodput of a TFRC C1, 1 hop of Reno traffic."
);
conformance!(
    TFRC_3,
    "S2-ns2-tfrc-3",
    "tfrc-ns2",
    "Goodput of a TFRC C1, 3 hops of Reno traffic."
);
conformance!(
    TFRC_5,
    "S2-ns2-tfrc-5",
    "tfrc-ns2",
    "Goodput of a TFRC C1, 5 hops of Reno traffic."
);
conformance!(
    TFRC_10,
    "S2-ns2-tfrc-10",
    "tfrc-ns2",
    "Goodput of a TFRC C1, 10 hops of Reno traffic."
);
conformance!(
    BESIDE_62,
    "S2-ns2-beside-62",
    "tfrc-ns2",
    "Goodput of TFRC with a round trip of 62.5 ms beside three others and four Reno flows."
);
conformance!(
    BESIDE_250,
    "S2-ns2-beside-250",
    "tfrc-ns2",
    "Goodput of TFRC with a round trip of 250 ms beside three others and four Reno flows."
);
conformance!(
    JAIN_20,
    "S2-ns2-jain-20",
    "tfrc-ns2",
    "Jain's index of ten TFRC flows, up to 20 s."
);
conformance!(
    JAIN_100,
    "S2-ns2-jain-100",
    "tfrc-ns2",
    "Jain's index of ten TFRC flows, up to 100 s."
);
conformance!(
    JAIN_400,
    "S2-ns2-jain-400",
    "tfrc-ns2",
    "Jain's index of ten TFRC flows, up to 400 s."
);
