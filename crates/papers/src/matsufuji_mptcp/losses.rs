//! Sentences of §4.E and §5 about retransmitted packets, and about a window that opens slowly.

use anabranch_lab::metrics::{PathStatistics, Unit};

use super::PAPER;
use super::bench::{
    At, NETWORKS, Network, Plan, Sentence, VARIANTS, judge, met_points, resent, underflows,
};
use crate::claim::{Basis, Claim, Subject};
use crate::judgement::{Judgement, Measured, Samples};
use crate::record::RunRecord;

const SPD: &[&str] = &["spd"];

const fn plan<'a>(variants: &'a [&'static str]) -> Plan<'a> {
    Plan {
        networks: &NETWORKS,
        variants,
        schedulers: SPD,
    }
}

/// Returns the share of a flow's packets that it resent.
fn share_resent(run: &RunRecord, flow: usize) -> f64 {
    let path: &PathStatistics = &run.statistics.flows[0].paths[flow];
    resent(path) / path.traffic.packets_sent as f64
}

/// Returns whether flow 2 resends the larger share, over all variants together.
fn loses_more(at: &At<'_>, network: &Network) -> bool {
    let [first, second] = [0, 1].map(|flow| {
        VARIANTS
            .iter()
            .map(|variant| at.mean((network, variant, "spd"), |run| share_resent(run, flow)))
            .sum::<f64>()
    });
    second > first
}

/// Returns whether both flows' bars lie within the figure's axis, with all variants.
fn is_drawn(at: &At<'_>, network: &Network) -> bool {
    VARIANTS.iter().all(|variant| {
        let [first, second] = at.retransmissions(network, variant, "spd");
        first.max(second) <= network.most_retransmissions
    })
}

pub(super) const BY_FLOW: Claim = Claim {
    id: "S3-C10",
    paper: &PAPER,
    figure: "§5, Figs. 4, 7 and 10",
    claim: "Losses show in the number of packets that TCP resends, flow by flow; flow 2 loses \
            more.",
    criterion: "With SPD, in every network: over all variants flow 2 resends a larger share of its \
                packets than flow 1, and both flows' bars lie within the axis. Else as for Fig. 4.",
    basis: Basis::Measured,
    subject: Subject::Scenario,
    cases: |name| plan(&VARIANTS).cases("", name),
    judge: |evidence| {
        let plan = plan(&VARIANTS);
        let sentences: [Sentence<'_>; 2] = [
            ("flow 2 resends the larger share", &|at| {
                NETWORKS.iter().all(|network| loses_more(at, network))
            }),
            ("both flows' retransmissions within the axes", &|at| {
                NETWORKS.iter().all(|network| is_drawn(at, network))
            }),
        ];
        let why = "Without random loss both queues overflow alike, and with 200/100 ms flow 2, \
                   whose window opens faster, overflows its own more often.";
        let mut judgement = judge(evidence, &plan, &sentences, why);
        for (network, _, variant) in plan.runs() {
            for flow in 0..2 {
                let case = format!("{variant}, spd, {}", network.name);
                let name = format!("{case}: share resent of flow {}", flow + 1);
                let samples = evidence.each(&case, |run| share_resent(run, flow));
                judgement.report(&Measured::new(name, Unit::Share, samples));
            }
        }
        judgement
    },
};

const COMPOUND_AND_CCP: &[&str] = &["compound", "ccp"];

pub(super) const UNDERFLOWS: Claim = Claim {
    id: "S3-C11",
    paper: &PAPER,
    figure: "§4.E, §4.F",
    claim: "Compound's slow response may cause playout buffer underflows, and CCP responds fast.",
    criterion: "\"May\": at one point at least Compound has underflows with SPD, and in the same \
                network more than CCP.",
    basis: Basis::Measured,
    subject: Subject::Controller("compound"),
    cases: |name| plan(COMPOUND_AND_CCP).cases("compound", name),
    judge: |evidence| {
        let more = met_points(evidence, &|at| {
            NETWORKS.iter().any(|network| {
                let [compound, ccp] =
                    ["compound", "ccp"].map(|it| at.mean((network, it, "spd"), underflows));
                compound > ccp
            })
        });
        let mut judgement = Judgement::new().because(more.sentence());
        more.show("Compound has more underflows than CCP", &mut judgement);
        judgement.expect(more.expect_some("Compound has more underflows than CCP"));
        let points = super::space::SPACE.points();
        for network in &NETWORKS {
            for variant in COMPOUND_AND_CCP {
                let at = points.iter().map(|point| At { evidence, point });
                let counts = at.map(|at| at.mean((network, variant, "spd"), underflows));
                let samples = Samples(counts.collect());
                let name = format!("{variant}, spd, {}: underflows at a point", network.name);
                judgement.report(&Measured::new(name, Unit::Number, samples));
            }
        }
        judgement
    },
};
