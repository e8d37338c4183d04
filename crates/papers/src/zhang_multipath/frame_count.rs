//! §5.2: the number of frames that its figures are about.

use super::frame_delay::TABLE_IS_LOST;
use super::{CONFIGURATIONS, Configuration};
use crate::Evidence;
use crate::claim::{Basis, Claim, Subject};
use crate::judgement::{Judgement, Measured, Samples};
use crate::zhang_delay_bbr::PAPER;
use anabranch_lab::metrics::{FrameStatistics, Unit};

fn case_name(configuration: &Configuration) -> String {
    configuration.name("min-cost")
}

/// Returns the mean of a count over the configurations, seed by seed.
fn mean_count(evidence: &Evidence, of: fn(&FrameStatistics) -> u64) -> Samples {
    let all: Vec<Samples> = CONFIGURATIONS
        .iter()
        .map(|configuration| {
            let case = case_name(configuration);
            evidence.each(&case, |run| of(&run.statistics.flows[0].frames) as f64)
        })
        .collect();
    let seeds = 0..all[0].0.len();
    Samples(
        seeds
            .map(|seed| {
                let sum: f64 = all.iter().map(|samples| samples.0[seed]).sum();
                sum / all.len() as f64
            })
            .collect(),
    )
}

pub(super) const CLAIM: Claim = Claim {
    id: "S0-C11",
    paper: &PAPER,
    figure: "§5.2",
    claim: "There are about 7000 frames in 300 s of simulation.",
    criterion: "Complete frames, on average over the ten candidate configurations, rounded to \
                thousands.",
    basis: Basis::Measured,
    subject: Subject::Scheduler("min-cost"),
    cases: |scheduler| {
        CONFIGURATIONS
            .iter()
            .map(|configuration| {
                let case = configuration.case(case_name(configuration));
                case.scheduler(scheduler)
            })
            .collect()
    },
    judge: |evidence| {
        let complete = mean_count(evidence, |frames| frames.complete);
        let whole = Measured::new("frames that came whole", Unit::Number, complete);
        let captured = mean_count(evidence, |frames| frames.captured);
        let captured = Measured::new("frames captured", Unit::Number, captured);
        let mut judgement = Judgement::unknowable(format!(
            "{TABLE_IS_LOST} Cameras of 25 frames a second give 7500 in 300 s, of which as many \
             come whole as the lost configurations let through."
        ));
        judgement.report(&whole.clone().beside(7_000.0));
        judgement.report(&captured);
        judgement.expect(whole.at_least(6_500.0));
        judgement.expect(whole.less_than(7_500.0));
        judgement
    },
};
