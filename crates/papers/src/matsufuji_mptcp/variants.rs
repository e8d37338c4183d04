//! Sentences of §4 about the variants of TCP, except for CCP's retransmissions.

use anabranch_lab::metrics::Unit;

use super::PAPER;
use super::bench::{At, NETWORKS, Network, Plan, Sentence, judge};
use crate::claim::{Basis, Claim, Subject};
use crate::judgement::Measured;
use crate::record::RunRecord;

/// Baseline of the paper for the variants: uncoupled, without a delay part.
const RENO: &str = "new-reno";
/// Counted part of a run, in seconds: the film is still being fetched.
const COUNTED: (f64, f64) = (10.0, 80.0);
/// Windows that differ by less are alike.
const ALIKE: f64 = 1.05;

const fn plan<'a>(variants: &'a [&'static str]) -> Plan<'a> {
    Plan {
        networks: &NETWORKS,
        variants,
        schedulers: &["spd"],
    }
}

const COMPOUND_AND_RENO: &[&str] = &["compound", RENO];
const COUPLED_AND_RENO: &[&str] = &["lia", "olia", RENO];

/// Returns the mean window of each flow, in packets.
fn windows(run: &RunRecord) -> [f64; 2] {
    let series = &run.series().flows[0];
    [0, 1].map(|flow| {
        let windows = run.window_packets(series, &series.paths[flow]).into_iter();
        let counted = windows.filter(|(at, _)| (COUNTED.0..=COUNTED.1).contains(at));
        let (sum, count) = counted.fold((0.0, 0.0), |(sum, count), (_, packets)| {
            (sum + packets, count + 1.0)
        });
        sum / count
    })
}

fn are_no_larger_than_renos(at: &At<'_>, network: &Network, variant: &str) -> bool {
    let of =
        |variant| [0, 1].map(|flow| at.mean((network, variant, "spd"), |run| windows(run)[flow]));
    let (ours, reno) = (of(variant), of(RENO));
    (0..2).all(|flow| ours[flow] <= ALIKE * reno[flow])
}

pub(super) const COMPOUND: Claim = Claim {
    id: "S3-C8",
    paper: &PAPER,
    figure: "§4.E",
    claim: "Compound is dominated by its loss based component, and slow to respond to the \
            available bandwidth.",
    criterion: "With SPD its video is in every network like that of New Reno, which is that \
                component alone, uncoupled. Else as for Fig. 4.",
    basis: Basis::Measured,
    subject: Subject::Controller("compound"),
    cases: |name| plan(COMPOUND_AND_RENO).cases("compound", name),
    judge: |evidence| {
        let plan = plan(COMPOUND_AND_RENO);
        let sentences: [Sentence<'_>; 1] = [("Compound's video like Reno's", &|at| {
            NETWORKS.iter().all(|network| {
                let [compound, reno] = ["compound", RENO].map(|it| at.video(network, it, "spd"));
                compound.is_like(&reno)
            })
        })];
        let why = "The delay window opens where nothing queues. Where a loss comes before a queue, \
                   it is most of the window.";
        judge(evidence, &plan, &sentences, why)
    },
};

pub(super) const COUPLED: Claim = Claim {
    id: "S3-C9",
    paper: &PAPER,
    figure: "§4.B, §4.C",
    claim: "LIA and OLIA open each window by no more than a flow of Reno would, and halve it at a \
            loss.",
    criterion: "With SPD the mean window of each flow from 10 s to 80 s is in every network at \
                most 1.05 times that of New Reno, uncoupled. Else as for Fig. 4.",
    basis: Basis::Measured,
    subject: Subject::Scenario,
    cases: |name| plan(COUPLED_AND_RENO).cases("", name),
    judge: |evidence| {
        let plan = plan(COUPLED_AND_RENO);
        let sentences: [Sentence<'_>; 2] = [
            ("LIA's windows no larger than Reno's", &|at| {
                NETWORKS
                    .iter()
                    .all(|network| are_no_larger_than_renos(at, network, "lia"))
            }),
            ("OLIA's windows no larger than Reno's", &|at| {
                NETWORKS
                    .iter()
                    .all(|network| are_no_larger_than_renos(at, network, "olia"))
            }),
        ];
        let why = "A window that opens more slowly meets fewer losses of queues that overflow, and \
                   is halved less often.";
        let mut judgement = judge(evidence, &plan, &sentences, why);
        for (network, _, variant) in plan.runs() {
            let case = format!("{variant}, spd, {}", network.name);
            for flow in 0..2 {
                let name = format!("{case}: mean window of flow {}, packets", flow + 1);
                let samples = evidence.each(&case, |run| windows(run)[flow]);
                judgement.report(&Measured::new(name, Unit::Number, samples));
            }
        }
        judgement
    },
};
