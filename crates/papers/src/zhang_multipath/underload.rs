//! §4.1: a controller that grows with its sending rate, behind a scheduler that favours the faster
//! path.

use super::PAPER;
use crate::Evidence;
use crate::case::Case;
use crate::claim::{Basis, Claim, Subject};
use crate::judgement::{Judgement, Measured};
use crate::record::Span;
use anabranch_lab::metrics::Unit;
use anabranch_lab::{Chart, Line, Lines};

const UNDERLOAD: &str = include_str!("../../../../scenarios/zhang-multipath/underload.toml");
/// Time after the start.
const INITIALLY: Span = (0.0, 10.0);
const LATER: Span = (60.0, 80.0);
/// Capacity of the far path, in bit/s.
const CAPACITY: f64 = 10e6;

fn case(name: &str, controller: &str) -> Case {
    Case::new(name, "zhang-multipath/underload.toml", UNDERLOAD).controller(controller)
}

pub(super) const CLAIM: Claim = Claim {
    id: "S0-C3",
    paper: &PAPER,
    figure: "§4.1",
    claim: "In the initial phase GCC's rate ramps up slowly in the path that a scheduler of the \
            earliest path leaves underloaded. Delay-BBR pads.",
    criterion: "Slowly: in the first 10 s the far path of 10 Mbit/s carries at most 2 Mbit/s with \
            GCC (without probes, as in the authors' program), and at least 5 with Delay-BBR.",
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
        fn rate(name: &str, path: usize, span: Span, evidence: &Evidence) -> Measured {
            let samples = evidence.each(name, |run| {
                run.path_rate(&run.series().flows[0].paths[path], span)
            });
            let path = ["near", "far"][path];
            let name = format!(
                "{name}: rate of the {path} path, {:.0}-{:.0} s",
                span.0, span.1
            );
            Measured::new(name, Unit::BitsPerSecond, samples)
        }
        fn whole(name: &str, evidence: &Evidence) -> Measured {
            let samples = evidence.each(name, |run| {
                run.statistics.flows[0].traffic.media_bits_per_second
            });
            let name = format!("{name}: media on both paths, 60-80 s");
            Measured::new(name, Unit::BitsPerSecond, samples)
        }
        let mut judgement = Judgement::new().because(WHY);
        let [ours, gcc] = ["Delay-BBR", "GCC"].map(|name| rate(name, 1, INITIALLY, evidence));
        judgement.report(&ours);
        judgement.report(&gcc);
        for name in [
            "Delay-BBR",
            "GCC",
            "GCC, probing",
            "Delay-BBR without padding",
        ] {
            judgement.report(&rate(name, 0, INITIALLY, evidence));
            judgement.report(&rate(name, 1, LATER, evidence));
            judgement.report(&whole(name, evidence));
        }
        judgement.expect(ours.at_least(0.5 * CAPACITY));
        judgement.expect(gcc.at_most(0.2 * CAPACITY));
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

const WHY: &str = "GCC's near path, which is not underloaded, is as slow in its first 10 s: the \
                   scheduler is not the cause.";
