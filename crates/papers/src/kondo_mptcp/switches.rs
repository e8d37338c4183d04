//! Fig. 10 and the mechanism that §V and §VI.C give for it: how often segments change paths.

use super::figure::{At, Part, Parts, over_points};
use super::measures::{
    LTE, WIFI, blocked, blocked_when_delayed, delayed_rate, rate, switch_share, switches, window,
};
use super::rates::FILM_COMES;
use super::viewer::judge;
use super::{BBR, CUBIC, PAPER, SCENARIOS, SPACE, STUDY, Scenario, cases};
use crate::case::Case;
use crate::claim::{Basis, Claim, Subject};
use crate::evidence::Evidence;
use crate::judgement::{Expect, Judgement, Measured, Samples};
use crate::record::RunRecord;
use anabranch_lab::metrics::Unit;

fn ratio(at: &At<'_>, scenario: Scenario) -> f64 {
    switches(at.bbr(scenario)) / switches(at.cubic(scenario))
}

fn largest_ratio(at: &At<'_>) -> f64 {
    let ratios = SCENARIOS.map(|scenario| ratio(at, scenario));
    ratios.into_iter().fold(f64::NAN, f64::max)
}

pub(super) const SWITCHES: Parts = &[
    FILM_COMES,
    Part {
        name: "BBR switches more often than CUBIC in A, B and C",
        is_so: |at| SCENARIOS.iter().all(|scenario| ratio(at, *scenario) > 1.0),
    },
    Part {
        name: "at most about four times as often",
        is_so: |at| (2.0..=6.0).contains(&largest_ratio(at)),
    },
];

pub(super) const FIGURE_10: Claim = Claim {
    id: "S1-F10",
    paper: &PAPER,
    figure: "Fig. 10, §VI.C",
    claim: "With BBR, the paths are switched more often than with CUBIC in all scenarios, up to \
            four times as often.",
    criterion: "At more than half of the points where Fig. 4 is met. Up to four times: the \
                largest of the three ratios is 2 to \
                6, with paths that carry the film in A. A switch is a new segment that takes \
                another path than the one before it.",
    basis: Basis::Measured,
    subject: Subject::Controller(BBR),
    cases: |bbr| cases(&SCENARIOS, bbr),
    judge: |evidence| {
        let why = "CUBIC switches less where its windows are not full. With queues of 2 s and a \
                   receive window that ends first, the scheduler goes by the smoothed round-trip \
                   times, which change places slowly, and runs of segments take one path. Where \
                   windows are full, each acknowledgement makes room for a segment on its own \
                   path, and so both switch with every other segment. BBR switches so anywhere: \
                   its pacer and window let single packets through. A fourfold ratio takes a \
                   receive window that CUBIC's queues fill before they overflow.";
        let mut judgement = judge(evidence, SWITCHES, why);
        let largest = over_points(
            evidence,
            "largest ratio of BBR's switches to CUBIC's",
            Unit::Number,
            largest_ratio,
        );
        judgement.report(&largest.beside(4.0));
        for scenario in SCENARIOS {
            let name = format!("ratio in {scenario:?}");
            judgement.report(&over_points(evidence, &name, Unit::Number, |at| {
                ratio(at, scenario)
            }));
        }
        for (name, of) in [
            (
                "CUBIC's switches in C",
                (|at| switches(at.cubic(Scenario::C))) as fn(&At<'_>) -> f64,
            ),
            ("BBR's switches in C", |at| switches(at.bbr(Scenario::C))),
            (
                "share of the time in which CUBIC's Wi-Fi is full in C",
                |at| blocked(at.cubic(Scenario::C), WIFI),
            ),
        ] {
            judgement.report(&over_points(evidence, name, Unit::Number, of));
        }
        judgement
    },
};

const WHY_BACK: &str = "The shortest round trip of the last 10 s holds in C: the window stays at \
                        two bandwidth-delay products of the Wi-Fi without the delay, is full \
                        while the delay is on, and the bandwidth filter follows the falling rate. \
                        With a round trip of 40 ms and the delay one way it is large enough. With \
                        the delay each way and short queues CUBIC's window is too small as well.";

const MECHANISM: Parts = &[
    Part {
        name: "BBR's Wi-Fi window is full for half of the time that it is delayed in C",
        is_so: |at| blocked_when_delayed(at.bbr(Scenario::C), Scenario::C, at.reading) >= 0.5,
    },
    Part {
        name: "in C BBR's Wi-Fi is a tenth slower while it is delayed, and CUBIC's is not",
        is_so: |at| {
            let [bbr, cubic] = [at.bbr(Scenario::C), at.cubic(Scenario::C)]
                .map(|run| delayed_rate(run, Scenario::C, at.reading));
            bbr <= 0.9 && cubic > 0.9
        },
    },
    Part {
        name: "every third of BBR's segments changes paths in C",
        is_so: |at| switch_share(at.bbr(Scenario::C)) >= 1.0 / 3.0,
    },
];

pub(super) const BACK: Claim = Claim {
    id: "S1-C2",
    paper: &PAPER,
    figure: "§VI.C, end",
    claim: "BBR's window blocks the Wi-Fi when its delay changes, which pushes the scheduler to \
            LTE; as soon as there is room on the Wi-Fi it switches back.",
    criterion: "At more than half of the points where Fig. 4 is met, in C. Blocked: no packet \
                fits into the window for half of \
                the time with the delay, and the Wi-Fi is slower by a tenth then where CUBIC's \
                is not. Back \
                as soon as there is room: every third segment changes paths.",
    basis: Basis::Measured,
    subject: Subject::Controller(BBR),
    cases: |bbr| cases(&[Scenario::A, Scenario::C], bbr),
    judge: |evidence| {
        let mut judgement = judge(evidence, MECHANISM, WHY_BACK);
        type Of = fn(&At<'_>) -> f64;
        let numbers: [(&str, Of); 5] = [
            (
                "share of the time with the delay in which BBR's Wi-Fi is full",
                |at| blocked_when_delayed(at.bbr(Scenario::C), Scenario::C, at.reading),
            ),
            ("the same of CUBIC", |at| {
                blocked_when_delayed(at.cubic(Scenario::C), Scenario::C, at.reading)
            }),
            ("BBR's Wi-Fi rate with the delay over that without", |at| {
                delayed_rate(at.bbr(Scenario::C), Scenario::C, at.reading)
            }),
            ("the same of CUBIC", |at| {
                delayed_rate(at.cubic(Scenario::C), Scenario::C, at.reading)
            }),
            ("share of BBR's segments that change paths", |at| {
                switch_share(at.bbr(Scenario::C))
            }),
        ];
        for (name, of) in numbers {
            judgement.report(&over_points(evidence, name, Unit::Number, of));
        }
        judgement
    },
};

/// Settings of a near path of little bandwidth, and a far one of much, at a point.
const NARROW: [(&str, &str); 6] = [
    ("links.wifi.rate", "1 Mbit/s"),
    ("links.lte.rate", "6 Mbit/s"),
    ("links.wifi-base.delay", "10 ms"),
    ("links.wifi-back.delay", "10 ms"),
    ("links.wifi-air.delay-schedule", "[]"),
    ("links.wifi-air-back.delay-schedule", "[]"),
];

fn narrow(name: &str, controller: &str) -> Case {
    let case = Case::new(name, "kondo-mptcp/study.toml", STUDY);
    let case = NARROW
        .iter()
        .fold(case, |case, (key, value)| case.set(key, value));
    case.set("flows.0.controller", controller).seeds(1)
}

fn far_share(run: &RunRecord) -> f64 {
    let [near, far] = [WIFI, LTE].map(|path| rate(run, path));
    far / (near + far)
}

pub(super) const BLOCKED: Claim = Claim {
    id: "S1-C1",
    paper: &PAPER,
    figure: "§V",
    claim: "The default scheduler prefers the path of the shorter round trip, but BBR gives a path \
            of little bandwidth a small window: it is blocked, and the path of the larger \
            bandwidth-delay product carries the data.",
    criterion: "At more than half of the points, with Wi-Fi of 1 Mbit/s and 20 ms and LTE of 6 \
                Mbit/s: the \
                Wi-Fi's window is at most half of LTE's and full for half of the time, and LTE \
                carries two thirds.",
    basis: Basis::Measured,
    subject: Subject::Controller(BBR),
    cases: |bbr| {
        let cases = [narrow("BBR", bbr), narrow("CUBIC", CUBIC).only_shown()];
        SPACE.cases(&cases)
    },
    judge: judge_blocked,
};

fn judge_blocked(evidence: &Evidence) -> Judgement {
    let mut judgement = Judgement::new();
    type Part = (&'static str, fn(&RunRecord) -> bool);
    let parts: [Part; 3] = [
        ("the Wi-Fi's window is at most half of LTE's", |run| {
            window(run, WIFI) <= 0.5 * window(run, LTE)
        }),
        ("it is full for half of the time", |run| {
            blocked(run, WIFI) >= 0.5
        }),
        ("LTE carries two thirds", |run| far_share(run) >= 2.0 / 3.0),
    ];
    let all = SPACE.met_points(|point| {
        let run = evidence.shown(&point.of("BBR"));
        vec![Expect::that("", parts.iter().all(|(_, is_so)| is_so(run)))]
    });
    all.report("all of it", &mut judgement);
    for (name, is_so) in parts {
        let one = SPACE.met_points(|point| {
            let run = evidence.shown(&point.of("BBR"));
            vec![Expect::that("", is_so(run))]
        });
        one.report(name, &mut judgement);
    }
    let points = SPACE.points();
    for who in ["BBR", "CUBIC"] {
        let runs = points.iter().map(|point| evidence.shown(&point.of(who)));
        let shares = Samples(runs.map(far_share).collect());
        let name = format!("share that LTE carries, {who}, over the points");
        judgement.report(&Measured::new(name, Unit::Share, shares));
    }
    judgement.because(format!(
        "The data take LTE, but no full window sends them there: BBR's pacer limits the bytes in \
         flight to one bandwidth-delay product, and the window is two. The Wi-Fi has no room \
         between packets because of its pacing rate. {}",
        all.sentence()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_lab::Scenario as File;
    use anabranch_link::LinkConfig;

    fn link<'a>(scenario: &'a File, name: &str) -> &'a LinkConfig {
        let found = scenario.links.iter().find(|link| link.name == name);
        &found.unwrap().config
    }

    /// The near path is the near one without the delay, at every point.
    #[test]
    fn the_narrow_path_is_the_near_one() {
        for case in SPACE.cases(&[narrow("BBR", BBR)]) {
            let scenario = case.scenario().unwrap_or_else(|error| panic!("{error}"));
            let [wifi, lte] = ["wifi", "lte"].map(|path| {
                let [there, back] =
                    ["base", "back"].map(|part| link(&scenario, &format!("{path}-{part}")).delay);
                there + back
            });
            assert!(wifi < lte);
            let rate = link(&scenario, "wifi").rate.unwrap();
            assert_eq!(rate.bits_per_second(), 1_000_000);
        }
    }
}
