//! Figs. 5, 7 and 9, (a) and (b): the Wi-Fi's congestion window.

use super::figure::{At, Part, Parts, over_points};
use super::measures::{WIFI, tracking, window, window_p90, windows};
use super::viewer::judge;
use super::{BBR, PAPER, Reading, SCENARIOS, SPACE, Scenario, Who, case_name, cases};
use crate::claim::{Basis, Claim, Subject};
use crate::evidence::Evidence;
use crate::judgement::Judgement;
use anabranch_lab::metrics::Unit;
use anabranch_lab::{Chart, Line, Lines};

/// Least factor between windows with and without the delay for a window that tracks it.
const TRACKS: f64 = 1.5;

fn is_much_smaller(at: &At<'_>, scenario: Scenario) -> bool {
    window(at.bbr(scenario), WIFI) <= 0.5 * window(at.cubic(scenario), WIFI)
}

fn bbr_tracks(at: &At<'_>, scenario: Scenario) -> bool {
    tracking(at.bbr(scenario), scenario, at.reading) >= TRACKS
}

fn cubic_does_not(at: &At<'_>, scenario: Scenario) -> bool {
    let tracking = tracking(at.cubic(scenario), scenario, at.reading);
    (1.0 / TRACKS..TRACKS).contains(&tracking)
}

const WHY: &str = "CUBIC's window ends where the queue overflows or the receive window does. With \
                   a queue of 100 ms it is no larger than BBR's two bandwidth-delay products with \
                   the delay; with 400 ms and more it is. BBR's window tracks the delay if the \
                   delay lasts for the 10 s of its filter, by as much as the round trips differ.";
const WHY_C: &str = "BBR's window is two bandwidth-delay products of the Wi-Fi without the delay \
                     and six packets (three of Linux's bursts of two): 15 at a round trip of 10 \
                     to 20 ms, 30 at 40 ms. If the delay lasts for 10 s the window tracks it.";

const IN_A: Parts = &[
    Part {
        name: "BBR's window in A is half of CUBIC's or less",
        is_so: |at| is_much_smaller(at, Scenario::A),
    },
    Part {
        name: "BBR's window tracks the delay in A",
        is_so: |at| bbr_tracks(at, Scenario::A),
    },
    Part {
        name: "CUBIC's window does not track the delay in A",
        is_so: |at| cubic_does_not(at, Scenario::A),
    },
];

const IN_B: Parts = &[
    Part {
        name: "BBR's window in B is half of CUBIC's or less",
        is_so: |at| is_much_smaller(at, Scenario::B),
    },
    Part {
        name: "BBR's window tracks the delay in B",
        is_so: |at| bbr_tracks(at, Scenario::B),
    },
];

const IN_C: Parts = &[
    Part {
        name: "BBR's window in C is 10 to 20 packets for nine tenths of the time",
        is_so: |at| (10.0..=20.0).contains(&window_p90(at.bbr(Scenario::C), WIFI)),
    },
    Part {
        name: "BBR's window does not track the delay in C",
        is_so: |at| tracking(at.bbr(Scenario::C), Scenario::C, at.reading) < TRACKS,
    },
    Part {
        name: "CUBIC's window in C is within a quarter of that in B",
        is_so: |at| {
            let [c, b] = [Scenario::C, Scenario::B].map(|it| window(at.cubic(it), WIFI));
            (c / b - 1.0).abs() <= 0.25
        },
    },
];

pub(super) const PARTS: [Parts; 3] = [IN_A, IN_B, IN_C];

/// Draws windows over time at the point in the middle of the space, with both readings.
fn draw(judgement: &mut Judgement, evidence: &Evidence, scenario: Scenario) {
    let middle = &SPACE.points()[SPACE.middle()];
    for reading in [Reading::Both, Reading::Each] {
        let mut who = vec![(Who::Cubic, "CUBIC"), (Who::Bbr, "BBR of Linux 4.9")];
        if reading == Reading::Both {
            who.push((Who::Today, "BBR of today"));
        }
        let lines = who.into_iter().map(|(who, label)| {
            let run = evidence.shown(&middle.of(&case_name(scenario, reading, who)));
            Line::new(label, windows(run, WIFI))
        });
        judgement.draw(Chart::Lines(Lines {
            title: format!("{scenario:?}: window, Wi-Fi ({})", reading.name()),
            x: "time, s".to_owned(),
            y: "packets".to_owned(),
            lines: lines.collect(),
            ..Lines::default()
        }));
    }
}

fn numbers(judgement: &mut Judgement, evidence: &Evidence, scenario: Scenario) {
    let p90 = over_points(
        evidence,
        "BBR's window, 90th percentile",
        Unit::Number,
        |at| window_p90(at.bbr(scenario), WIFI),
    );
    judgement.report(&match scenario {
        Scenario::C => p90.beside(15.0),
        _ => p90,
    });
    let name = "BBR's mean window over CUBIC's";
    judgement.report(&over_points(evidence, name, Unit::Number, |at| {
        window(at.bbr(scenario), WIFI) / window(at.cubic(scenario), WIFI)
    }));
    let name = "BBR's window with the delay over that without";
    judgement.report(&over_points(evidence, name, Unit::Number, |at| {
        tracking(at.bbr(scenario), scenario, at.reading)
    }));
    let name = "CUBIC's window with the delay over that without";
    judgement.report(&over_points(evidence, name, Unit::Number, |at| {
        tracking(at.cubic(scenario), scenario, at.reading)
    }));
}

fn judged(evidence: &Evidence, parts: Parts, scenario: Scenario, why: &str) -> Judgement {
    let mut judgement = judge(evidence, parts, why);
    numbers(&mut judgement, evidence, scenario);
    draw(&mut judgement, evidence, scenario);
    judgement
}

pub(super) const FIGURE_5AB: Claim = Claim {
    id: "S1-F5ab",
    paper: &PAPER,
    figure: "Fig. 5 (a), (b), §VI.A",
    claim: "Scenario A: BBR's Wi-Fi window is much smaller than CUBIC's and tracks the delay; \
            CUBIC's does not.",
    criterion: "At more than half of the points where Fig. 4 is met. Much smaller: half on \
                average. It tracks: in the second \
                halves of phases it is 1.5 times as large with the delay as without.",
    basis: Basis::Measured,
    subject: Subject::Controller(BBR),
    cases: |bbr| cases(&[Scenario::A], bbr),
    judge: |evidence| judged(evidence, IN_A, Scenario::A, WHY),
};

pub(super) const FIGURE_7AB: Claim = Claim {
    id: "S1-F7ab",
    paper: &PAPER,
    figure: "Fig. 7 (a), (b), §VI.B",
    claim: "Scenario B: BBR's Wi-Fi window is much smaller than CUBIC's and still tracks the \
            delay.",
    criterion: "At more than half of the points where Fig. 4 is met, by the bounds of Fig. 5.",
    basis: Basis::Measured,
    subject: Subject::Controller(BBR),
    cases: |bbr| cases(&[Scenario::A, Scenario::B], bbr),
    judge: |evidence| judged(evidence, IN_B, Scenario::B, WHY),
};

pub(super) const FIGURE_9AB: Claim = Claim {
    id: "S1-F9ab",
    paper: &PAPER,
    figure: "Fig. 9 (a), (b), §VI.C",
    claim: "Scenario C: BBR's Wi-Fi window no longer tracks the delay, stuck near 15 packets; \
            CUBIC's is as in B.",
    criterion: "At more than half of the points where Fig. 4 is met. Near 15: the 90th percentile \
                is 10 to 20. CUBIC's mean is \
                within a quarter of B's.",
    basis: Basis::Measured,
    subject: Subject::Controller(BBR),
    cases: |bbr| cases(&SCENARIOS, bbr),
    judge: |evidence| judged(evidence, IN_C, Scenario::C, WHY_C),
};
