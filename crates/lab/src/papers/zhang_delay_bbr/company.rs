//! §§1, 3, 5.1: what loss, and what TCP on the same link, do to a flow.

use super::{PAPER, STEADY, test_bed};
use crate::metrics::Unit;
use crate::papers::claim::{Case, Claim};
use crate::papers::judgement::{Judgement, Measured};

const RIVAL: &str = include_str!("../../../../../scenarios/zhang-delay-bbr/rival.toml");

pub(super) const LOSS: Claim = Claim {
    id: "S0-m6",
    paper: &PAPER,
    figure: "§3.1",
    claim: "BBR does not take loss for congestion: 1 % of random loss hardly moves it, and cuts \
            Reno down.",
    controller: Some("bbr-quic"),
    cases: |controller| {
        let lossy = |name: &str, controller: &str| {
            test_bed(name, controller).set("links.bottleneck.loss", "1 %")
        };
        vec![lossy("BBR", controller), lossy("Reno", "reno")]
    },
    judge: |evidence| {
        let utilisation = |case: &str| {
            let samples = evidence.each(case, |run| run.utilisation("bottleneck", STEADY));
            Measured::new(
                format!("{case}: utilisation at 1 % of loss"),
                Unit::Share,
                samples,
            )
        };
        let (bbr, reno) = (utilisation("BBR"), utilisation("Reno"));
        let mut judgement = Judgement::new();
        judgement.report(&bbr);
        judgement.report(&reno);
        judgement.expect(bbr.at_least(0.9));
        judgement.expect(reno.at_most(0.6));
        judgement
    },
};

pub(super) const STARVATION: Claim = Claim {
    id: "S0-m7",
    paper: &PAPER,
    figure: "§5.1",
    claim: "Beside TCP, Vegas starves and Delay-BBR does not.",
    controller: Some("delay-bbr"),
    cases: |controller| {
        let rival = |name: &str, controller: &str| -> Case {
            Case::new(name, "zhang-delay-bbr/rival.toml", RIVAL).controller(controller)
        };
        vec![rival("Delay-BBR", controller), rival("Vegas", "vegas")]
    },
    judge: |evidence| {
        let share = |case: &str| {
            let samples = evidence.each(case, |run| {
                let rate = |flow: &str| run.rate(run.flow(flow), (60.0, 120.0));
                rate("ours") / (rate("ours") + rate("reno"))
            });
            Measured::new(
                format!("{case}: share beside Reno, 60-120 s"),
                Unit::Share,
                samples,
            )
        };
        let (ours, vegas) = (share("Delay-BBR"), share("Vegas"));
        let mut judgement = Judgement::new().because(
            "In the paper's own setting Delay-BBR keeps about a third (S0-F7); here, with a round \
             trip of 50 ms and a queue as long, it yields more.",
        );
        judgement.report(&ours);
        judgement.report(&vegas);
        judgement.expect(vegas.at_most(0.35));
        judgement.expect(ours.at_least(0.3));
        judgement.expect(ours.at_most(0.7));
        judgement
    },
};
