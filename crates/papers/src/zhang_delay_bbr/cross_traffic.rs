//! §§4.1 and 5.1: effects of loss, and of TCP on the same link, on a flow.

use super::{PAPER, STEADY, as_tcp, test_bed};
use crate::case::Case;
use crate::claim::{Basis, Claim, Subject};
use crate::judgement::{Judgement, Measured};
use crate::{Evidence, RunRecord};
use anabranch_lab::metrics::Unit;

const RIVAL: &str = include_str!("../../../../scenarios/zhang-delay-bbr/rival.toml");

fn lossy(name: &str, controller: &str) -> Case {
    test_bed(name, controller).set("links.bottleneck.loss", "1 %")
}

pub(super) const LOSS: Claim = Claim {
    id: "S0-m6",
    paper: &PAPER,
    figure: "§4.1",
    claim: "BBR does not respond to loss.",
    criterion: "At 1 % of random loss it uses at least 90 % of the link, and Reno at most 60 %.",
    basis: Basis::Measured,
    subject: Subject::Controller("bbr-quic"),
    cases: |controller| vec![lossy("BBR", controller), as_tcp(lossy("Reno", "reno"))],
    judge: |evidence| {
        let [bbr, reno] = ["BBR", "Reno"].map(|case| {
            let samples = evidence.each(case, |run| run.utilisation("bottleneck", STEADY));
            Measured::new(
                format!("{case}: utilisation at 1 % of loss"),
                Unit::Share,
                samples,
            )
        });
        let mut judgement = Judgement::new();
        judgement.report(&bbr);
        judgement.report(&reno);
        judgement.expect(bbr.at_least(0.9));
        judgement.expect(reno.at_most(0.6));
        judgement
    },
};

/// Queue of four bandwidth-delay products.
const DEEP_QUEUE: &str = "250000 B";

/// Returns a case of the paper's own experiment.
fn case_2(name: &str, controller: &str) -> Case {
    Case::new(name, "zhang-delay-bbr/reno.toml", super::reno::SCENARIO)
        .set("flows.0.controller", controller)
}

pub(super) const STARVATION: Claim = Claim {
    id: "S0-m7",
    paper: &PAPER,
    figure: "§5.1",
    claim: "Beside loss-based controllers, Vegas starves and Delay-BBR does not.",
    criterion: "Beside Reno in case 2, the network of the paper's experiment (Fig. 7), 60 to 120 \
                s: \
            Vegas has at most 35 %, Delay-BBR 30 to 70 %.",
    basis: Basis::Measured,
    subject: Subject::Controller("live-bbr"),
    cases: |controller| {
        fn rival(name: &str, controller: &str) -> Case {
            Case::new(name, "zhang-delay-bbr/rival.toml", RIVAL).controller(controller)
        }
        fn deep(case: Case) -> Case {
            case.set("links.bottleneck.queue", DEEP_QUEUE)
        }
        // A round trip of 200 ms, and still a queue of one bandwidth-delay product.
        fn long(case: Case) -> Case {
            case.set("links.bottleneck.delay", "100 ms")
                .set("links.return.delay", "100 ms")
                .set("links.bottleneck.queue", "250000 B")
        }
        vec![
            case_2("Delay-BBR", controller),
            as_tcp(case_2("Vegas", "vegas")),
            rival("Delay-BBR, 50 ms", controller).only_shown(),
            as_tcp(rival("Vegas, 50 ms", "vegas")).only_shown(),
            deep(rival("Delay-BBR, deep queue", controller)).only_shown(),
            deep(as_tcp(rival("Vegas, deep queue", "vegas"))).only_shown(),
            long(rival("Delay-BBR, 200 ms", controller)).only_shown(),
            long(as_tcp(rival("Vegas, 200 ms", "vegas"))).only_shown(),
        ]
    },
    judge: |evidence| {
        fn share(case: &str, evidence: &Evidence) -> Measured {
            fn rate(place: usize, run: &RunRecord) -> f64 {
                run.rate(&run.series().flows[place], (60.0, 120.0))
            }

            let samples = evidence.each(case, |run| rate(0, run) / (rate(0, run) + rate(1, run)));
            Measured::new(
                format!("{case}: share beside Reno, 60-120 s"),
                Unit::Share,
                samples,
            )
        }
        let (ours, vegas) = (share("Delay-BBR", evidence), share("Vegas", evidence));
        let mut judgement = Judgement::new().because(
            "In other networks, of 10 Mbit/s, the share depends on the round trip: the cases with \
                        50 \
             and 200 ms show it.",
        );
        judgement.report(&ours);
        judgement.report(&vegas);
        for case in [
            "Delay-BBR, 50 ms",
            "Vegas, 50 ms",
            "Delay-BBR, deep queue",
            "Vegas, deep queue",
            "Delay-BBR, 200 ms",
            "Vegas, 200 ms",
        ] {
            judgement.report(&share(case, evidence));
        }
        judgement.expect(vegas.at_most(0.35));
        judgement.expect(ours.at_least(0.3));
        judgement.expect(ours.at_most(0.7));
        judgement
    },
};
