//! Conclusions of §5 and §6, and remarks in passing.

use anabranch_core::SendReason;
use anabranch_lab::metrics::{PathStatistics, Unit};

use super::PAPER;
use super::bench::{
    At, EQUAL, FAR_FIRST, FAR_SECOND, NETWORKS, Network, Plan, SCHEDULERS, Sentence, VARIANTS,
    Video, download, judge, met_points, within_axes,
};
use super::figures::CRITERION;
use crate::claim::{Basis, Claim, Subject};
use crate::evidence::Evidence;
use crate::judgement::{Judgement, Measured};
use crate::record::RunRecord;

const SPD_AND_LPC: &[&str] = &["spd", "lpc"];
const SPD: &[&str] = &["spd"];

const fn plan<'a>(variants: &'a [&'static str], schedulers: &'a [&'static str]) -> Plan<'a> {
    Plan {
        networks: &NETWORKS,
        variants,
        schedulers,
    }
}

/// Returns whether the first is worse in no network, and better in at least one.
fn is_better_somewhere(of: impl Fn(&Network) -> (Video, Video)) -> bool {
    let pairs = NETWORKS.map(|network| of(&network));
    let is_never_worse = !pairs.iter().any(|(ours, other)| other.is_better_than(ours));
    is_never_worse && pairs.iter().any(|(ours, other)| ours.is_better_than(other))
}

/// Returns whether a variant is better with LPC than with SPD.
fn gains_by_lpc(at: &At<'_>, variant: &str) -> bool {
    is_better_somewhere(|network| {
        let [spd, lpc] = ["spd", "lpc"].map(|scheduler| at.video(network, variant, scheduler));
        (lpc, spd)
    })
}

/// Returns whether a variant is worse with LPC in no network, except for OLIA's loss with 100/200
/// ms, which the paper itself reports for Fig. 8.
fn loses_nothing_by_lpc(at: &At<'_>, variant: &str) -> bool {
    NETWORKS.iter().all(|network| {
        let [spd, lpc] = ["spd", "lpc"].map(|scheduler| at.video(network, variant, scheduler));
        let is_fig_8 = variant == "olia" && network.name == FAR_SECOND.name;
        is_fig_8 || !spd.is_better_than(&lpc)
    })
}

/// Returns whether all schedulers are alike in all networks.
fn is_alike(at: &At<'_>, variant: &str) -> bool {
    NETWORKS.iter().all(|network| {
        let videos = SCHEDULERS.map(|scheduler| at.video(network, variant, scheduler));
        videos.iter().all(|video| video.is_like(&videos[0]))
    })
}

pub(super) const LPC_FOR_CCP: Claim = Claim {
    id: "S3-C1",
    paper: &PAPER,
    figure: "End of §5",
    claim: "LPC improves CCP, and is no worse for the other variants.",
    criterion: "OLIA with 100/200 ms is left out, as the paper says the contrary of it (Fig. 8). \
                Else as for Fig. 4.",
    basis: Basis::Measured,
    subject: Subject::Controller("ccp"),
    cases: |name| plan(&VARIANTS, SPD_AND_LPC).cases("ccp", name),
    judge: |evidence| {
        let plan = plan(&VARIANTS, SPD_AND_LPC);
        let sentences: [Sentence<'_>; 2] = [
            ("CCP gains by LPC in one network, loses in none", &|at| {
                gains_by_lpc(at, "ccp")
            }),
            ("the others lose nothing by LPC", &|at| {
                let mut others = VARIANTS.iter().filter(|variant| **variant != "ccp");
                others.all(|variant| loses_nothing_by_lpc(at, variant))
            }),
        ];
        let why = "A CCP with a stable gain has nothing to gain, and one that overflows waits for \
                   its windows, whatever the scheduler.";
        let mut judgement = judge(evidence, &plan, &sentences, why);
        judgement
            .expects
            .extend(within_axes(evidence, &plan, "ccp"));
        judgement
    },
};

/// Returns whether, with each scheduler, `ours` is no worse in any network, and better in one.
fn is_better(at: &At<'_>, ours: &str, other: &str) -> bool {
    SCHEDULERS.iter().all(|scheduler| {
        is_better_somewhere(|network| {
            let [ours, other] = [ours, other].map(|it| at.video(network, it, scheduler));
            (ours, other)
        })
    })
}

pub(super) const OLIA_BETTER: Claim = Claim {
    id: "S3-C2",
    paper: &PAPER,
    figure: "End of §5",
    claim: "OLIA delivers better video than LIA in all path scenarios.",
    criterion: "With each of the three schedulers no worse in any network, and better in one. \
                Else as for Fig. 4.",
    basis: Basis::Measured,
    subject: Subject::Scenario,
    cases: |name| plan(&["lia", "olia"], &SCHEDULERS).cases("", name),
    judge: |evidence| {
        let plan = plan(&["lia", "olia"], &SCHEDULERS);
        let sentences: [Sentence<'_>; 1] =
            [("OLIA better than LIA", &|at| is_better(at, "olia", "lia"))];
        let why = "OLIA leaves the path that loses more to the other one, as it is made to. One \
                   path carries 5 Mbit/s, and the film has 5.24: it lacks the rate that LIA keeps \
                   on flow 2.";
        let mut judgement = judge(evidence, &plan, &sentences, why);
        let lia = met_points(evidence, &|at| is_better(at, "lia", "olia"));
        lia.show("LIA better than OLIA", &mut judgement);
        judgement
    },
};

/// Returns the share of a flow's new packets that one path carried.
fn share(run: &RunRecord, path: usize) -> f64 {
    fn new(path: &PathStatistics) -> f64 {
        let reasons = path.traffic.reasons.iter();
        let new = reasons.filter(|sent| sent.reason == SendReason::New.name());
        new.map(|sent| sent.packets).sum::<u64>() as f64
    }
    let paths = &run.statistics.flows[0].paths;
    new(&paths[path]) / paths.iter().map(new).sum::<f64>()
}

fn spd_leaves_longer_path(at: &At<'_>) -> bool {
    [(FAR_SECOND, 1), (FAR_FIRST, 0)]
        .iter()
        .all(|(network, path)| {
            let [spd, lpc] = ["spd", "lpc"]
                .map(|scheduler| at.mean((network, "cubic", scheduler), |run| share(run, *path)));
            spd < lpc && spd < 1.0 / 3.0
        })
}

pub(super) const SPD_AND_THE_LONG_PATH: Claim = Claim {
    id: "S3-C3",
    paper: &PAPER,
    figure: "§5.B",
    claim: "SPD takes the longer path only when the window of the shorter one is very small.",
    criterion: "With Cubic and 100/200 or 200/100 ms, the longer path carries less of the film \
                than with LPC, and less than a third. Else as for Fig. 4.",
    basis: Basis::Measured,
    subject: Subject::Scenario,
    cases: |name| uneven(&["cubic"]).cases("", name),
    judge: |evidence| {
        let plan = uneven(&["cubic"]);
        let sentences: [Sentence<'_>; 1] =
            [("SPD leaves the longer path alone", &spd_leaves_longer_path)];
        let why = "Random loss keeps the window of the lossy path small, and the film needs more \
                   than half of both paths' rate: both windows are used up, in whatever order \
                   they are offered. Without random loss SPD does as the paper says.";
        let mut judgement = judge(evidence, &plan, &sentences, why);
        for (network, path) in [(FAR_SECOND, 1), (FAR_FIRST, 0)] {
            for scheduler in SPD_AND_LPC {
                let case = format!("cubic, {scheduler}, {}", network.name);
                let name = format!("{case}: share of the longer path");
                let samples = evidence.each(&case, |run| share(run, path));
                judgement.report(&Measured::new(name, Unit::Share, samples));
            }
        }
        judgement
    },
};

/// Returns a plan with the networks whose paths are uneven.
const fn uneven<'a>(variants: &'a [&'static str]) -> Plan<'a> {
    Plan {
        networks: &[FAR_SECOND, FAR_FIRST],
        variants,
        schedulers: SPD_AND_LPC,
    }
}

pub(super) const ALIKE: Claim = Claim {
    id: "S3-C4",
    paper: &PAPER,
    figure: "End of §5",
    claim: "With two paths, of which one is blocked at times, all schedulers choose the other one, \
            and deliver the same performance.",
    criterion: "The same video with SPD, LPC and LET, of every variant in every network. Else as \
                for Fig. 4.",
    basis: Basis::Measured,
    subject: Subject::Scenario,
    cases: |name| plan(&VARIANTS, &SCHEDULERS).cases("", name),
    judge: |evidence| {
        let plan = plan(&VARIANTS, &SCHEDULERS);
        let sentences: [Sentence<'_>; 1] = [("all schedulers alike", &|at| {
            VARIANTS.iter().all(|variant| is_alike(at, variant))
        })];
        judge(evidence, &plan, &sentences, "")
    },
};

pub(super) const FLOW_2: Claim = Claim {
    id: "S3-C5",
    paper: &PAPER,
    figure: "End of §5",
    claim: "The larger loss of flow 2 makes 100/200 ms differ from 200/100 ms.",
    criterion: "With SPD, some variant's video differs between the two networks. Else as for \
                Fig. 4. Without loss the networks mirror each other.",
    basis: Basis::Measured,
    subject: Subject::Scenario,
    cases: |name| {
        let plan = Plan {
            schedulers: SPD,
            ..uneven(&VARIANTS)
        };
        plan.cases("", name)
    },
    judge: |evidence| {
        let plan = Plan {
            schedulers: SPD,
            ..uneven(&VARIANTS)
        };
        let sentences: [Sentence<'_>; 1] = [("100/200 ms is not like 200/100 ms", &|at| {
            VARIANTS.iter().any(|variant| {
                let [one, other] =
                    [FAR_SECOND, FAR_FIRST].map(|network| at.video(&network, variant, "spd"));
                !one.is_like(&other)
            })
        })];
        judge(evidence, &plan, &sentences, "")
    },
};

fn cubic_is_no_worse_than_coupled(at: &At<'_>) -> bool {
    NETWORKS.iter().all(|network| {
        let coupled = ["lia", "olia"].map(|variant| at.video(network, variant, "lpc"));
        let cubic = at.video(network, "cubic", "spd");
        !coupled.iter().any(|coupled| coupled.is_better_than(&cubic))
    })
}

pub(super) const ADVICE: Claim = Claim {
    id: "S3-C6",
    paper: &PAPER,
    figure: "§6",
    claim: "Use MPTCP uncoupled, as Cubic and Compound are the same under all schedulers, or \
            coupled with LPC, which is better for OLIA.",
    criterion: CRITERION,
    basis: Basis::Measured,
    subject: Subject::Controller("cubic"),
    cases: |name| plan(&VARIANTS, &SCHEDULERS).cases("cubic", name),
    judge: |evidence| {
        let plan = plan(&VARIANTS, &SCHEDULERS);
        let sentences: [Sentence<'_>; 3] = [
            ("Cubic and Compound alike under all schedulers", &|at| {
                is_alike(at, "cubic") && is_alike(at, "compound")
            }),
            (
                "Cubic no worse than the coupled ones with LPC",
                &cubic_is_no_worse_than_coupled,
            ),
            ("OLIA gains by LPC in one network", &|at| {
                NETWORKS.iter().any(|network| {
                    let [spd, lpc] = ["spd", "lpc"].map(|it| at.video(network, "olia", it));
                    lpc.is_better_than(&spd)
                })
            }),
        ];
        let why = "The coupled windows are too small for the film; a scheduler cannot make them \
                   larger.";
        let mut judgement = judge(evidence, &plan, &sentences, why);
        judgement
            .expects
            .extend(within_axes(evidence, &plan, "cubic"));
        judgement
    },
};

pub(super) const CCP_RESENDS: Claim = Claim {
    id: "S3-C7",
    paper: &PAPER,
    figure: "§4.F, Figs. 4, 7, 10",
    claim: "CCP, which reacts to no loss, resends the most.",
    criterion: "With SPD in every network more than any other variant, both flows together. Else \
                as for Fig. 4.",
    basis: Basis::Measured,
    subject: Subject::Controller("ccp"),
    cases: |name| plan(&VARIANTS, SPD).cases("ccp", name),
    judge: |evidence| {
        let plan = plan(&VARIANTS, SPD);
        let sentences: [Sentence<'_>; 1] = [("CCP resends the most", &|at| {
            NETWORKS.iter().all(|network| {
                let mut others = VARIANTS.iter().filter(|variant| **variant != "ccp");
                others.all(|variant| {
                    at.resent(network, variant, "spd") < at.resent(network, "ccp", "spd")
                })
            })
        })];
        let why = "With a stable gain CCP loses packets by chance alone; Cubic fills the queues.";
        let mut judgement = judge(evidence, &plan, &sentences, why);
        judgement
            .expects
            .extend(within_axes(evidence, &plan, "ccp"));
        judgement
    },
};

pub(super) const LATENCY: Claim = Claim {
    id: "S3-m3",
    paper: &PAPER,
    figure: "§5",
    claim: "A retransmission costs a round trip: on long paths it delays the film more.",
    criterion: "Cubic, SPD: bytes wait longer on average for those before them with 100/200 ms \
                than with 100/100 ms, the lossy path being the longer one. Else as for Fig. 4.",
    basis: Basis::Measured,
    subject: Subject::Scenario,
    cases: |name| plan(&VARIANTS, &SCHEDULERS).cases("", name),
    judge: |evidence| {
        let plan = plan(&VARIANTS, &SCHEDULERS);
        let sentences: [Sentence<'_>; 1] = [("bytes wait longer on the longer path", &|at| {
            let [near, far] =
                [EQUAL, FAR_SECOND].map(|it| at.mean((&it, "cubic", "spd"), |run| waited(run).0));
            near < far
        })];
        let mut judgement = judge(evidence, &plan, &sentences, "");
        report_more(evidence, &plan, &mut judgement);
        judgement
    },
};

/// Returns the time for which bytes waited for earlier ones: mean and maximum, in ms.
fn waited(run: &RunRecord) -> (f64, f64) {
    let line = run.statistics.flows[0].head_of_line;
    line.map_or((f64::NAN, f64::NAN), |line| (line.mean_ms, line.max_ms))
}

/// Reports numbers that the paper does not show: start-up, stalls, the paths' shares, switches,
/// waiting.
fn report_more(evidence: &Evidence, plan: &Plan<'_>, judgement: &mut Judgement) {
    type Measure = fn(&RunRecord) -> f64;
    let measures: [(&str, Unit, Measure); 5] = [
        ("start-up", Unit::Milliseconds, |run| {
            download(run).start_up_ms.unwrap_or(f64::NAN)
        }),
        ("time stalled", Unit::Milliseconds, |run| {
            download(run).stall_time_ms
        }),
        ("path switches", Unit::Number, |run| {
            run.statistics.flows[0].segment_path_switches as f64
        }),
        ("mean head-of-line time", Unit::Milliseconds, |run| {
            waited(run).0
        }),
        ("longest head-of-line time", Unit::Milliseconds, |run| {
            waited(run).1
        }),
    ];
    for (network, scheduler, variant) in plan.runs() {
        let case = format!("{variant}, {scheduler}, {}", network.name);
        for (what, unit, measure) in measures {
            let samples = evidence.each(&case, measure);
            judgement.report(&Measured::new(format!("{case}: {what}"), unit, samples));
        }
    }
}
