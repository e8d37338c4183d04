//! §§3.2 and 4.2: costs, order and intervals that a scheduler produces.

use super::bench::{FAR_MS, NEAR_MS, bench, smooth};
use super::frame_delay::{TABLE_IS_LOST, in_most};
use super::{CONFIGURATIONS, PAPER, SCHEDULERS};
use crate::case::Case;
use crate::claim::{Basis, Claim, Subject};
use crate::evidence::Evidence;
use crate::judgement::{Expect, Judgement, Measured};
use crate::record::RunRecord;
use anabranch_lab::metrics::{FragmentStatistics, Unit};

/// Load above the near path's rate, and a tenth below both.
const LOAD: &str = "7 Mbit/s";

pub(super) const BALANCE: Claim = Claim {
    id: "S0-C4",
    paper: &PAPER,
    figure: "§3.2",
    claim: "With the sum of all paths' rates as the encoder's, a single path cannot send all \
            packets within the deadline; sending each packet where its cost is least balances the \
            paths' costs.",
    criterion: "7 Mbit/s over two paths of 4: the mean costs differ by less than half as much as \
            the paths' own delays (40 ms), and 99 % of the frames are complete in time; over one \
            path not all.",
    basis: Basis::Measured,
    subject: Subject::Scheduler("min-cost"),
    cases: |scheduler| {
        let alone = smooth(bench("one path", scheduler), LOAD);
        vec![
            smooth(bench("two paths", scheduler), LOAD),
            alone.set("flows.0.paths", "[\"near\"]"),
        ]
    },
    judge: |evidence| {
        let [near, far] = [0, 1].map(|place: usize| {
            let samples = evidence.each("two paths", |run| {
                let path = &run.statistics.flows[0].paths[place];
                path.cost_ms.unwrap_or(f64::NAN)
            });
            let name = ["cost of the near path", "cost of the far path"][place];
            Measured::new(name, Unit::Milliseconds, samples)
        });
        let difference = evidence.each("two paths", |run| {
            let paths = &run.statistics.flows[0].paths;
            let costs = [0, 1].map(|place: usize| paths[place].cost_ms.unwrap_or(f64::NAN));
            (costs[0] - costs[1]).abs()
        });
        let name = "difference of the paths' mean costs";
        let difference = Measured::new(name, Unit::Milliseconds, difference);
        let [both, alone] = ["two paths", "one path"].map(|case| {
            let samples = evidence.each(case, |run| {
                let ratio = run.statistics.flows[0].frames.complete_on_time_ratio;
                ratio.unwrap_or(f64::NAN)
            });
            Measured::new(
                format!("{case}: frames complete in time"),
                Unit::Share,
                samples,
            )
        });
        let mut judgement = Judgement::new();
        for value in [&difference, &near, &far, &both, &alone] {
            judgement.report(value);
        }
        // A scheduler that ignores costs leaves all of the difference.
        judgement.expect(difference.less_than((FAR_MS - NEAR_MS) / 2.0));
        judgement.expect(both.at_least(0.99));
        judgement.expect(alone.less_than(1.0));
        judgement
    },
};

pub(super) const REASSEMBLY: Claim = Claim {
    id: "S0-m8",
    paper: &PAPER,
    figure: "§1",
    claim: "Packets on different paths arrive out of order; the receiver's buffer is allocated \
            dynamically and does not overflow.",
    criterion: "At least 10 % out of order; the receiver holds at least a frame (35 kB), and no \
            run drops one.",
    basis: Basis::ByConstruction,
    subject: Subject::Scenario,
    cases: |_| vec![smooth(bench("two paths", "wrr"), LOAD)],
    judge: |evidence| {
        let order = evidence.each("two paths", |run| {
            fragments(run)
                .and_then(|of| of.out_of_order_ratio)
                .unwrap_or(f64::NAN)
        });
        let order = Measured::new("packets out of order", Unit::Share, order);
        let peak = evidence.each("two paths", |run| {
            fragments(run).map_or(f64::NAN, |of| of.reassembly_peak_bytes as f64)
        });
        let peak = Measured::new("most that the receiver held", Unit::Bytes, peak);
        let dropped = evidence.each("two paths", |run| {
            run.statistics.flows[0].frames.dropped as f64
        });
        let dropped = Measured::new("frames dropped", Unit::Number, dropped);
        let mut judgement = Judgement::new();
        for value in [&order, &peak, &dropped] {
            judgement.report(value);
        }
        judgement.expect(order.at_least(0.1));
        // The size of a frame.
        judgement.expect(peak.at_least(35_000.0));
        judgement.expect(dropped.always_at_most(0.0));
        judgement
    },
};

fn fragments(run: &RunRecord) -> Option<FragmentStatistics> {
    run.statistics.flows[0].fragments
}

/// Expects min-cost's number to be the least in most configurations, and reports it for all
/// schedulers.
fn least_in_most(
    mut judgement: Judgement,
    evidence: &Evidence,
    text: &str,
    measure: fn(&FragmentStatistics) -> Option<f64>,
) -> Judgement {
    let (mut least, mut below_wrr) = (Vec::new(), Vec::new());
    for configuration in &CONFIGURATIONS {
        let [ours, others @ ..] = SCHEDULERS.map(|(label, _)| {
            let name = configuration.name(label);
            let samples = evidence.each(&name, |run| {
                fragments(run)
                    .as_ref()
                    .and_then(measure)
                    .unwrap_or(f64::NAN)
            });
            Measured::new(format!("{name}: {text}"), Unit::Milliseconds, samples)
        });
        let below: Vec<Expect> = others.iter().map(|other| ours.below(other)).collect();
        least.push(Expect::all_of("", &below));
        below_wrr.push(ours.below(&others[0]));
        judgement.report(&ours);
        for other in &others {
            judgement.report(other);
        }
    }
    let min_cost = format!("{text}: min-cost's median is the least");
    judgement.expect(in_most(&min_cost, &least));
    judgement.expect(in_most(&format!("{text}: below WRR's"), &below_wrr));
    judgement
}

fn every_case(scheduler: &str) -> Vec<Case> {
    let configurations = CONFIGURATIONS.iter();
    configurations
        .flat_map(|configuration| configuration.all_schedulers(scheduler))
        .collect()
}

pub(super) const AGGREGATE_COST: Claim = Claim {
    id: "S0-m9",
    paper: &PAPER,
    figure: "§3.2, eqs. 1-8",
    claim: "The surplus of the session is largest where its aggregate cost q (eq. 8) is least, \
            which sending each packet where it costs least is meant to achieve.",
    criterion: "An argument in the paper, and no experiment: q is reported over the candidate \
            Table 3.",
    basis: Basis::Measured,
    subject: Subject::Scheduler("min-cost"),
    cases: every_case,
    judge: |evidence| {
        let judgement = Judgement::unknowable(WHY_COST);
        least_in_most(judgement, evidence, "aggregate cost q", |of| {
            of.aggregate_cost_ms
        })
    },
};

const WHY_COST: &str = "The paper argues, and measures neither surplus nor q, which is reported \
     here. It is no argument for min-cost: the best choice for each packet keeps a queue on the \
     nearer path that later packets wait behind, and EDCLD and WRR, which fill it less, have less \
     q in most configurations.";

pub(super) const INTERVAL: Claim = Claim {
    id: "S0-m12",
    paper: &PAPER,
    figure: "§4.2",
    claim: "The proposed scheduler strives for the least interval between the arrivals of \
            consecutive packets.",
    criterion: "The least mean interval in 6 of 10 configurations of the candidate Table 3, and \
            below WRR's in 6.",
    basis: Basis::Measured,
    subject: Subject::Scheduler("min-cost"),
    cases: every_case,
    judge: |evidence| {
        let judgement = Judgement::unknowable(format!("{TABLE_IS_LOST} {WHY_INTERVAL}"));
        let text = "mean interval of consecutive packets";
        least_in_most(judgement, evidence, text, |of| of.gap_mean_ms)
    },
};

const WHY_INTERVAL: &str = "It is below WRR and EDCLD in all ten; SFL, which gives each path \
     packets \
     that follow one another, has the least in all ten.";
