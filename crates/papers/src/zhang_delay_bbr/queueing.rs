//! The paper's remarks on TCP and on queues (§§1, 2 and 5.1).

use super::{PAPER, STEADY, as_tcp, test_bed};
use crate::case::Case;
use crate::claim::{Basis, Claim, Subject};
use crate::evidence::Evidence;
use crate::judgement::{Judgement, Measured};
use crate::record::RunRecord;
use anabranch_lab::metrics::Unit;

/// Window algorithm that stands for TCP.
const TCP: &str = "reno";

pub(super) const SAW_TOOTH: Claim = Claim {
    id: "S0-m4",
    paper: &PAPER,
    figure: "§1",
    claim: "Halving the window at every loss makes TCP's rate a saw-tooth, which a video encoder \
            suffers from.",
    criterion: "Reno's 1 s rates vary more than Delay-BBR's, 20 to 60 s.",
    basis: Basis::Measured,
    subject: Subject::Controller(TCP),
    cases: |tcp| {
        vec![
            as_tcp(test_bed("tcp", tcp)),
            test_bed("live-bbr", "live-bbr"),
        ]
    },
    judge: |evidence| {
        let [tcp, delay_bbr] = ["tcp", "live-bbr"].map(|case| {
            let samples = evidence.each(case, |run| run.variation(&run.series().flows[0], STEADY));
            let name = format!("{case}: variation of the 1 s rates, 20-60 s");
            Measured::new(name, Unit::Number, samples)
        });
        let mut judgement = Judgement::new();
        judgement.report(&tcp);
        judgement.report(&delay_bbr);
        judgement.expect(delay_bbr.below(&tcp));
        judgement
    },
};

pub(super) const BUFFERBLOAT: Claim = Claim {
    id: "S0-m5",
    paper: &PAPER,
    figure: "§§1, 2",
    claim: "TCP probes until packets are lost and occupies much of the buffer (bufferbloat).",
    criterion: "In a queue of five bandwidth-delay products Reno's packets wait at least four \
            times as long as Delay-BBR's.",
    basis: Basis::Measured,
    subject: Subject::Controller(TCP),
    cases: |tcp| {
        // A queue of five bandwidth-delay products.
        let [tcp, delay_bbr] =
            [("tcp", tcp), ("live-bbr", "live-bbr")].map(|(name, controller)| {
                test_bed(name, controller).set("links.bottleneck.queue", "312500 B")
            });
        vec![as_tcp(tcp), delay_bbr]
    },
    judge: |evidence| {
        let [tcp, delay_bbr] = ["tcp", "live-bbr"].map(|case| {
            let samples = evidence.each(case, queueing_ms);
            Measured::new(
                format!("{case}: queueing, 20-60 s"),
                Unit::Milliseconds,
                samples,
            )
        });
        let ratio = tcp.samples.over(&delay_bbr.samples);
        let ratio = Measured::new("queueing, TCP over Delay-BBR", Unit::Number, ratio);
        let mut judgement = Judgement::new();
        judgement.report(&ratio);
        judgement.report(&tcp);
        judgement.report(&delay_bbr);
        judgement.expect(ratio.at_least(4.0));
        judgement
    },
};

/// Returns the mean one-way delay beyond that of the empty path, which is 25 ms and the time to
/// send a packet.
fn queueing_ms(run: &RunRecord) -> f64 {
    run.delay_ms(STEADY) - 25.0
}

pub(super) const OCCUPANCY: Claim = Claim {
    id: "S0-m10",
    paper: &PAPER,
    figure: "§5.1",
    claim: "The more of the buffer is occupied, the longer the delay; packets are lost when it \
            overflows.",
    criterion: "A constant rate of 50, 99 and 110 % of the link's: only the last loses (1/11 ± 5 \
            %), and it has the longest delay.",
    basis: Basis::ByConstruction,
    subject: Subject::Scenario,
    cases: |_| {
        fn case(share: &str, rate: &str) -> Case {
            test_bed(share, "fixed").set("flow-defaults.fixed-rate", rate)
        }
        vec![
            case("half", "5 Mbit/s"),
            case("nearly", "9.9 Mbit/s"),
            case("over", "11 Mbit/s"),
        ]
    },
    judge: occupancy,
};

fn occupancy(evidence: &Evidence) -> Judgement {
    let mut judgement = Judgement::new();
    let names = [
        ("half", "half the rate"),
        ("nearly", "99 % of it"),
        ("over", "110 % of it"),
    ];
    let delays = names.map(|(case, name)| {
        let samples = evidence.each(case, |run| run.delay_ms(STEADY));
        Measured::new(format!("{name}: delay"), Unit::Milliseconds, samples)
    });
    let losses = names.map(|(case, name)| {
        let samples = evidence.each(case, |run| run.loss(STEADY));
        Measured::new(format!("{name}: loss"), Unit::Share, samples)
    });
    let values = delays
        .iter()
        .zip(&losses)
        .flat_map(|(delay, loss)| [delay, loss]);
    values.for_each(|value| judgement.report(value));
    judgement.expect(delays[0].below(&delays[2]));
    judgement.expect(delays[1].below(&delays[2]));
    judgement.expect(losses[0].at_most(0.0));
    judgement.expect(losses[1].at_most(0.0));
    // There is no room for 1 - 10/11 of the packets.
    judgement.expect(losses[2].within(0.05, 1.0 - 10.0 / 11.0));
    judgement
}
