//! Check that low delay is not bought with capacity.

use super::{PAPER, SETTINGS, WHOLE};
use crate::charts::bars;
use crate::claim::{Basis, Claim, Subject};
use crate::judgement::{Judgement, Measured, Samples};
use anabranch_lab::metrics::Unit;

pub(super) const CLAIM: Claim = Claim {
    id: "S0-C8",
    paper: &PAPER,
    figure: "§§1, 6",
    claim: "Delay-BBR's throughput comes close to the available bandwidth.",
    criterion: "Utilisation of at least 95 % in all nine cases, 0 to 300 s.",
    basis: Basis::Measured,
    subject: Subject::Controller("live-bbr"),
    cases: |controller| {
        SETTINGS
            .iter()
            .map(|setting| setting.three_flows(setting.label(), controller))
            .collect()
    },
    judge: |evidence| {
        let each: Vec<Measured> = SETTINGS
            .iter()
            .map(|setting| {
                let case = setting.label();
                let samples = evidence.each(&case, |run| run.utilisation("bottleneck", WHOLE));
                Measured::new(format!("{case}: utilisation"), Unit::Share, samples)
            })
            .collect();
        let least = Samples::least(each.iter().map(|measured| &measured.samples));
        let least = Measured::new("utilisation, least of the nine cases", Unit::Share, least);
        let mut judgement = Judgement::new();
        judgement.expect(least.at_least(0.95));
        judgement.report(&least);
        for measured in &each {
            judgement.report(measured);
        }
        let samples = each.iter().map(|measured| measured.samples.clone());
        judgement.draw(bars(
            "Utilisation by case",
            "share of the time",
            1.0,
            SETTINGS.iter().map(|setting| setting.number.to_string()),
            [("Delay-BBR".to_owned(), samples.collect())],
        ));
        judgement
    },
};
