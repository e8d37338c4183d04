//! §4.1: a controller that grows with its sending rate, behind a scheduler that favours the faster
//! path.

use super::PAPER;
use crate::claim::{Basis, Case, Claim, Subject};
use crate::judgement::{Judgement, Measured};
use anabranch_lab::metrics::Unit;
use anabranch_lab::{Chart, Line, Lines};

const UNDERLOAD: &str = include_str!("../../../../scenarios/zhang-multipath/underload.toml");
/// Capacity of the far path, in bit/s.
const CAPACITY: f64 = 10e6;

fn case(name: &str, controller: &str) -> Case {
    Case::new(name, "zhang-multipath/underload.toml", UNDERLOAD).controller(controller)
}

pub(super) const CLAIM: Claim = Claim {
    id: "S0-C3",
    paper: &PAPER,
    figure: "§4.1",
    claim: "With GCC, a scheduler that takes the earliest path leaves the other one underloaded, \
            so that its rate grows slowly. Delay-BBR pads.",
    criterion: "From 60 to 80 s the far path of 10 Mbit/s carries at least 8 Mbit/s with \
            Delay-BBR, and at most 5 with GCC (without probes, as in the authors' program).",
    basis: Basis::Measured,
    subject: Subject::Controller("live-bbr"),
    cases: |controller| {
        vec![
            case("Delay-BBR", controller),
            case("GCC", "gcc:probing=off").set("flow-defaults.padding", "never"),
            case("GCC, probing", "gcc")
                .set("flow-defaults.padding", "while-probing")
                .only_shown(),
            case("Delay-BBR without padding", controller)
                .set("flow-defaults.padding", "never")
                .only_shown(),
        ]
    },
    judge: |evidence| {
        let far = |name: &str| {
            let samples = evidence.each(name, |run| {
                let far = &run.statistics.flows[0].paths[1];
                far.traffic.throughput_bits_per_second
            });
            let name = format!("{name}: rate of the far path, 60-80 s");
            Measured::new(name, Unit::BitsPerSecond, samples)
        };
        let whole = |name: &str| {
            let samples = evidence.each(name, |run| {
                run.statistics.flows[0].traffic.media_bits_per_second
            });
            let name = format!("{name}: media on both paths, 60-80 s");
            Measured::new(name, Unit::BitsPerSecond, samples)
        };
        let mut judgement = Judgement::new().because(WHY);
        let (ours, gcc) = (far("Delay-BBR"), far("GCC"));
        judgement.report(&ours);
        judgement.report(&gcc);
        for name in [
            "Delay-BBR",
            "GCC",
            "GCC, probing",
            "Delay-BBR without padding",
        ] {
            judgement.report(&far(name));
            judgement.report(&whole(name));
        }
        judgement.expect(ours.at_least(0.8 * CAPACITY));
        judgement.expect(gcc.at_most(0.5 * CAPACITY));
        judgement.draw(Chart::Lines(Lines {
            title: "Sending rate on both paths (20 Mbit/s)".to_owned(),
            x: "time, s".to_owned(),
            y: "sending rate, kbit/s".to_owned(),
            lines: ["Delay-BBR", "GCC", "GCC, probing"]
                .map(|name| {
                    let run = evidence.shown(name);
                    Line::new(name, run.sent_kbits(run.flow("video")))
                })
                .to_vec(),
            ..Lines::default()
        }));
        judgement
    },
};

const WHY: &str = "A far path that is left alone has no estimate to grow from.";
