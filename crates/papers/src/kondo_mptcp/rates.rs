//! Figs. 5, 7 and 9, (c) and (d): the rate of each path.

use super::figure::{At, Part, Parts, over_points};
use super::measures::{LTE, WIFI, rate, rates};
use super::viewer::judge;
use super::{BBR, PAPER, Reading, SPACE, Scenario, Who, case_name, cases};
use crate::claim::{Basis, Claim, Subject};
use crate::evidence::Evidence;
use crate::judgement::Judgement;
use anabranch_lab::metrics::Unit;
use anabranch_lab::{Chart, Line, Lines};

/// Least share that is visible in a figure.
const SEEN: f64 = 0.02;
/// Bitrate of the film, in bit/s.
const FILM: f64 = 5.24e6;

const WHY_A: &str = "Where a path carries less, a small receive window or read-ahead stops both.";
const WHY_B: &str = "BBR's filter forgets the shorter round trip once the delay has lasted for 10 \
                     s, and until then the Wi-Fi loses a part of its rate, little with the delay \
                     one way and more with it each way. On links of 2.8 Mbit/s LTE is full with \
                     either, and cannot carry more.";
const WHY_C: &str = "A fifth less than CUBIC's takes 60 ms each way. If the delay lasts for a \
            whole cycle of 10 s, BBR's window follows \
                     it, and nothing starves.";

type Run = fn(&At<'_>, Scenario, usize) -> f64;

const BBRS: Run = |at, scenario, path| rate(at.bbr(scenario), path);
const CUBICS: Run = |at, scenario, path| rate(at.cubic(scenario), path);

fn sum(run: Run, at: &At<'_>, scenario: Scenario) -> f64 {
    run(at, scenario, WIFI) + run(at, scenario, LTE)
}

fn is_equal_share(run: Run, at: &At<'_>) -> bool {
    let share = run(at, Scenario::A, WIFI) / run(at, Scenario::A, LTE);
    (0.8..=1.25).contains(&share)
}

const IN_A: Parts = &[
    Part {
        name: "BBR's paths carry equal shares in A",
        is_so: |at| is_equal_share(BBRS, at),
    },
    Part {
        name: "CUBIC's paths carry equal shares in A",
        is_so: |at| is_equal_share(CUBICS, at),
    },
    Part {
        name: "both carry the film in A",
        is_so: |at| {
            [BBRS, CUBICS]
                .iter()
                .all(|run| sum(*run, at, Scenario::A) >= FILM)
        },
    },
];

const IN_B: Parts = &[
    Part {
        name: "BBR's Wi-Fi carries less than CUBIC's in B",
        is_so: |at| BBRS(at, Scenario::B, WIFI) <= (1.0 - SEEN) * CUBICS(at, Scenario::B, WIFI),
    },
    Part {
        name: "BBR's LTE carries more than CUBIC's in B",
        is_so: |at| BBRS(at, Scenario::B, LTE) >= (1.0 + SEEN) * CUBICS(at, Scenario::B, LTE),
    },
];

/// Statement that a constant rate below the film's cannot meet.
pub(super) const FILM_COMES: Part = Part {
    name: "both of BBR's paths carry the film in A",
    is_so: |at| sum(BBRS, at, Scenario::A) >= FILM,
};

const IN_C: Parts = &[
    FILM_COMES,
    Part {
        name: "BBR's Wi-Fi carries a fifth less than CUBIC's in C",
        is_so: |at| BBRS(at, Scenario::C, WIFI) <= 0.8 * CUBICS(at, Scenario::C, WIFI),
    },
    Part {
        name: "both of BBR's paths carry less than the film in C",
        is_so: |at| sum(BBRS, at, Scenario::C) < FILM,
    },
    Part {
        name: "both of BBR's paths carry less than CUBIC's in C",
        is_so: |at| sum(BBRS, at, Scenario::C) <= (1.0 - SEEN) * sum(CUBICS, at, Scenario::C),
    },
];

pub(super) const PARTS: [Parts; 3] = [IN_A, IN_B, IN_C];

fn judged(evidence: &Evidence, parts: Parts, scenario: Scenario, why: &str) -> Judgement {
    let mut judgement = judge(evidence, parts, why);
    for (name, run) in [("BBR", BBRS), ("CUBIC", CUBICS)] {
        for (path, label) in [(WIFI, "Wi-Fi"), (LTE, "LTE")] {
            let name = format!("{name} in {scenario:?}: {label}");
            judgement.report(&over_points(evidence, &name, Unit::BitsPerSecond, |at| {
                run(at, scenario, path)
            }));
        }
    }
    let middle = &SPACE.points()[SPACE.middle()];
    for (path, label) in [(LTE, "LTE"), (WIFI, "Wi-Fi")] {
        let who = [(Who::Cubic, "CUBIC"), (Who::Bbr, "BBR of Linux 4.9")];
        let lines = who.map(|(who, label)| {
            let run = evidence.shown(&middle.of(&case_name(scenario, Reading::Both, who)));
            Line::new(label, rates(run, path))
        });
        judgement.draw(Chart::Lines(Lines {
            title: format!("{scenario:?}: throughput, {label}"),
            x: "time, s".to_owned(),
            y: "kbit/s".to_owned(),
            lines: lines.into(),
            ..Lines::default()
        }));
    }
    judgement
}

pub(super) const FIGURE_5CD: Claim = Claim {
    id: "S1-F5cd",
    paper: &PAPER,
    figure: "Fig. 5 (c), (d), §VI.A",
    claim: "Scenario A: LTE and Wi-Fi carry about the same, with BBR and with CUBIC.",
    criterion: "At more than half of the points where Fig. 4 is met. The same: Wi-Fi over LTE is \
                0.8 to 1.25, and both together \
                carry the film.",
    basis: Basis::Measured,
    subject: Subject::Controller(BBR),
    cases: |bbr| cases(&[Scenario::A], bbr),
    judge: |evidence| judged(evidence, IN_A, Scenario::A, WHY_A),
};

pub(super) const FIGURE_7CD: Claim = Claim {
    id: "S1-F7cd",
    paper: &PAPER,
    figure: "Fig. 7 (c), (d), §VI.B",
    claim: "Scenario B: BBR's Wi-Fi carries less than CUBIC's, and its LTE more.",
    criterion: "At more than half of the points where Fig. 4 is met, by 2 % at least: less is not \
                to be seen in a figure.",
    basis: Basis::Measured,
    subject: Subject::Controller(BBR),
    cases: |bbr| cases(&[Scenario::A, Scenario::B], bbr),
    judge: |evidence| judged(evidence, IN_B, Scenario::B, WHY_B),
};

pub(super) const FIGURE_9CD: Claim = Claim {
    id: "S1-F9cd",
    paper: &PAPER,
    figure: "Fig. 9 (c), (d), §VI.C",
    claim: "Scenario C: BBR's Wi-Fi carries much less than CUBIC's, and its LTE cannot make up \
            for it: the film starves.",
    criterion: "At more than half of the points where Fig. 4 is met. Much less: by a fifth. It \
                starves: both paths together \
                carry less than 5.24 Mbit/s, but not in A, and 2 % less than CUBIC's.",
    basis: Basis::Measured,
    subject: Subject::Controller(BBR),
    cases: |bbr| cases(&[Scenario::A, Scenario::C], bbr),
    judge: |evidence| judged(evidence, IN_C, Scenario::C, WHY_C),
};
