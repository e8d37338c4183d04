//! Figs. 4 to 12: the viewer's counts with each variant of TCP, by scheduler and network.

use super::PAPER;
use super::bench::{
    At, EQUAL, FAR_FIRST, FAR_SECOND, Network, OTHER_LET, Plan, Sentence, VARIANTS, judge,
    within_axes,
};
use crate::claim::{Basis, Claim, Subject};
use crate::evidence::Evidence;
use crate::judgement::Judgement;

pub(super) const CRITERION: &str = "Judged at 27 points of the settings that the paper does not \
    print (losses, queues, Wi-Fi's delay and air, receive window, reinjection, cache and \
    read-ahead, CCP's gain), by the means of five whole films each, and true if at half of them \
    or more. Better: fewer pictures discarded; if these are alike, fewer underflows. Alike: \
    within a quarter, or 30 pictures and 10 underflows of the whole film. Each is also counted \
    over the points at which all bars lie within the axes.";

/// Uncoupled variants, which the paper recommends.
const UNCOUPLED: [&str; 2] = ["cubic", "compound"];

const ALIKE_WHY: &str = "Where a viewer suffers, the network leaves the windows too small: \
    segments wait for room, an acknowledgement makes room on one path at a time, and no scheduler \
    has a choice; runs with SPD, LPC and LET are then often the same packet by packet. A \
    scheduler matters where the receive window of 256 KiB is full, for better or worse.";

const GAIN_WHY: &str = "CCP reacts to no loss, so random loss costs it nothing: with a stable gain \
    its film plays, better than any other's. Kp = 3 without a limiter is a cycle of overflow, and \
    worse the smaller the queues are.";

/// A sentence that a figure shows.
#[derive(Clone, Copy)]
pub(super) struct Part {
    name: &'static str,
    pub(super) is_so: fn(&At<'_>) -> bool,
}

/// All sentences of a figure.
pub(super) type Parts = &'static [Part];

/// Judges sentences, and expects a variant's bars within the figures' axes.
fn judge_figure(
    evidence: &Evidence,
    plan: &Plan<'_>,
    variant: &str,
    parts: &[Parts],
    why: &str,
) -> Judgement {
    let parts = parts.concat();
    let sentence =
        |part: &'_ Part| -> (&'static str, fn(&At<'_>) -> bool) { (part.name, part.is_so) };
    let sentences: Vec<_> = parts.iter().map(sentence).collect();
    let sentences: Vec<Sentence<'_>> = sentences
        .iter()
        .map(|(name, is_so)| (*name, is_so as &dyn Fn(&At<'_>) -> bool))
        .collect();
    let mut judgement = judge(evidence, plan, &sentences, why);
    judgement
        .expects
        .extend(within_axes(evidence, plan, variant));
    judgement
}

/// Returns whether the uncoupled variants are better than each of `others`, with this scheduler.
fn are_best(at: &At<'_>, network: &Network, scheduler: &str, others: &[&str]) -> bool {
    others.iter().all(|other| {
        let other = at.video(network, other, scheduler);
        let is_better =
            |variant: &&str| at.video(network, variant, scheduler).is_better_than(&other);
        UNCOUPLED.iter().all(is_better)
    })
}

/// Returns whether a variant is better with a scheduler than with `spd`.
fn improves(at: &At<'_>, network: &Network, variant: &str, scheduler: &str) -> bool {
    let before = at.video(network, variant, "spd");
    at.video(network, variant, scheduler)
        .is_better_than(&before)
}

fn worsens(at: &At<'_>, network: &Network, variant: &str, scheduler: &str) -> bool {
    let before = at.video(network, variant, "spd");
    before.is_better_than(&at.video(network, variant, scheduler))
}

fn are_alike(at: &At<'_>, network: &Network, variants: &[&str], scheduler: &str) -> bool {
    variants.iter().all(|variant| {
        let before = at.video(network, variant, "spd");
        at.video(network, variant, scheduler).is_like(&before)
    })
}

/// Returns whether both flows together resend more packets with a scheduler than with `spd`.
fn resends_more(at: &At<'_>, network: &Network, variant: &str, scheduler: &str) -> bool {
    let sum = |scheduler| -> f64 {
        let by_flow = at.retransmissions(network, variant, scheduler);
        by_flow.iter().sum()
    };
    sum(scheduler) > sum("spd")
}

/// Returns whether Compound, LIA and OLIA are like Cubic with SPD.
fn are_similar(at: &At<'_>, network: &Network) -> bool {
    let cubic = at.video(network, "cubic", "spd");
    let mut others = ["compound", "lia", "olia"].iter();
    others.all(|other| at.video(network, other, "spd").is_like(&cubic))
}

const fn plan<'a>(networks: &'a [Network], schedulers: &'a [&'static str]) -> Plan<'a> {
    Plan {
        networks,
        variants: &VARIANTS,
        schedulers,
    }
}

const AT_100: &[Network] = &[EQUAL];
const AT_200: &[Network] = &[FAR_SECOND];
const FROM_200: &[Network] = &[FAR_FIRST];
const SPD: &[&str] = &["spd"];
const LPC: &[&str] = &["spd", "lpc"];
const LET: &[&str] = &["spd", "let", OTHER_LET];

const ALL_BUT_CCP: [&str; 4] = ["cubic", "compound", "lia", "olia"];

const IN_4: Parts = &[
    Part {
        name: "Cubic and Compound better than LIA and OLIA",
        is_so: |at| are_best(at, &EQUAL, "spd", &["lia", "olia"]),
    },
    Part {
        name: "Cubic and Compound better than CCP",
        is_so: |at| are_best(at, &EQUAL, "spd", &["ccp"]),
    },
];

const IN_5: Parts = &[
    Part {
        name: "OLIA better with LPC than with SPD",
        is_so: |at| improves(at, &EQUAL, "olia", "lpc"),
    },
    Part {
        name: "Cubic and Compound alike with LPC and SPD",
        is_so: |at| are_alike(at, &EQUAL, &UNCOUPLED, "lpc"),
    },
];

/// Statements of Fig. 6 with each reading of LET.
const IN_6: [Parts; 2] = [
    &[
        Part {
            name: "OLIA better with LET than with SPD",
            is_so: |at| improves(at, &EQUAL, "olia", "let"),
        },
        Part {
            name: "Cubic and Compound alike with LET and SPD",
            is_so: |at| are_alike(at, &EQUAL, &UNCOUPLED, "let"),
        },
    ],
    &[
        Part {
            name: "OLIA better with LET by delivery rate",
            is_so: |at| improves(at, &EQUAL, "olia", OTHER_LET),
        },
        Part {
            name: "Cubic and Compound alike with LET by delivery rate",
            is_so: |at| are_alike(at, &EQUAL, &UNCOUPLED, OTHER_LET),
        },
    ],
];

const IN_7: Parts = &[
    Part {
        name: "Cubic and Compound better than LIA and OLIA",
        is_so: |at| are_best(at, &FAR_SECOND, "spd", &["lia", "olia"]),
    },
    Part {
        name: "Cubic and Compound better than CCP",
        is_so: |at| are_best(at, &FAR_SECOND, "spd", &["ccp"]),
    },
];

const IN_8: Parts = &[
    Part {
        name: "CCP better with LPC than with SPD",
        is_so: |at| improves(at, &FAR_SECOND, "ccp", "lpc"),
    },
    Part {
        name: "CCP resends more with LPC than with SPD",
        is_so: |at| resends_more(at, &FAR_SECOND, "ccp", "lpc"),
    },
    Part {
        name: "OLIA worse with LPC than with SPD",
        is_so: |at| worsens(at, &FAR_SECOND, "olia", "lpc"),
    },
    Part {
        name: "Cubic and Compound alike with LPC and SPD",
        is_so: |at| are_alike(at, &FAR_SECOND, &UNCOUPLED, "lpc"),
    },
];

/// Statements of Fig. 9 with each reading of LET.
const IN_9: [Parts; 2] = [
    &[Part {
        name: "Cubic and Compound alike with LET and SPD",
        is_so: |at| are_alike(at, &FAR_SECOND, &UNCOUPLED, "let"),
    }],
    &[Part {
        name: "Cubic and Compound alike with LET by delivery rate",
        is_so: |at| are_alike(at, &FAR_SECOND, &UNCOUPLED, OTHER_LET),
    }],
];

const IN_10: Parts = &[
    Part {
        name: "Compound, LIA and OLIA like Cubic",
        is_so: |at| are_similar(at, &FAR_FIRST),
    },
    Part {
        name: "CCP worse than Cubic and Compound",
        is_so: |at| are_best(at, &FAR_FIRST, "spd", &["ccp"]),
    },
];

const IN_11: Parts = &[
    Part {
        name: "CCP better with LPC than with SPD",
        is_so: |at| improves(at, &FAR_FIRST, "ccp", "lpc"),
    },
    Part {
        name: "CCP resends more with LPC than with SPD",
        is_so: |at| resends_more(at, &FAR_FIRST, "ccp", "lpc"),
    },
    Part {
        name: "Cubic, Compound, LIA and OLIA alike with LPC and SPD",
        is_so: |at| are_alike(at, &FAR_FIRST, &ALL_BUT_CCP, "lpc"),
    },
];

/// Statements of Fig. 12 with each reading of LET.
const IN_12: [Parts; 2] = [
    &[Part {
        name: "Cubic, Compound, LIA and OLIA alike with LET and SPD",
        is_so: |at| are_alike(at, &FAR_FIRST, &ALL_BUT_CCP, "let"),
    }],
    &[Part {
        name: "the same with LET by delivery rate",
        is_so: |at| are_alike(at, &FAR_FIRST, &ALL_BUT_CCP, OTHER_LET),
    }],
];

/// Figs. 4 to 12 with each reading of LET.
pub(super) const FIGURES: [[(u8, Parts); 9]; 2] = [figures(0), figures(1)];

const fn figures(reading: usize) -> [(u8, Parts); 9] {
    [
        (4, IN_4),
        (5, IN_5),
        (6, IN_6[reading]),
        (7, IN_7),
        (8, IN_8),
        (9, IN_9[reading]),
        (10, IN_10),
        (11, IN_11),
        (12, IN_12[reading]),
    ]
}

pub(super) const FIGURE_4: Claim = Claim {
    id: "S3-F4",
    paper: &PAPER,
    figure: "Fig. 4, §5.A",
    claim: "SPD, 100/100 ms: Cubic and Compound deliver the best video; OLIA, CCP and LIA worse.",
    criterion: CRITERION,
    basis: Basis::Measured,
    subject: Subject::Controller("cubic"),
    cases: |name| plan(AT_100, SPD).cases("cubic", name),
    judge: |evidence| {
        let plan = plan(AT_100, SPD);
        judge_figure(evidence, &plan, "cubic", &[IN_4], GAIN_WHY)
    },
};

pub(super) const FIGURE_5: Claim = Claim {
    id: "S3-F5",
    paper: &PAPER,
    figure: "Fig. 5, §5.A",
    claim: "LPC instead of SPD, 100/100 ms: OLIA improves; Cubic and Compound stay the same.",
    criterion: CRITERION,
    basis: Basis::Measured,
    subject: Subject::Controller("cubic"),
    cases: |name| plan(AT_100, LPC).cases("cubic", name),
    judge: |evidence| {
        let plan = plan(AT_100, LPC);
        judge_figure(evidence, &plan, "cubic", &[IN_5], ALIKE_WHY)
    },
};

pub(super) const FIGURE_6: Claim = Claim {
    id: "S3-F6",
    paper: &PAPER,
    figure: "Fig. 6, §5.A",
    claim: "LET instead of SPD, 100/100 ms: OLIA improves; Cubic and Compound stay the same.",
    criterion: CRITERION,
    basis: Basis::Measured,
    subject: Subject::Controller("cubic"),
    cases: |name| plan(AT_100, LET).cases("cubic", name),
    judge: |evidence| {
        let plan = plan(AT_100, LET);
        judge_figure(evidence, &plan, "cubic", &IN_6, ALIKE_WHY)
    },
};

pub(super) const FIGURE_7: Claim = Claim {
    id: "S3-F7",
    paper: &PAPER,
    figure: "Fig. 7, §5.B",
    claim: "SPD, 100/200 ms: better video with Cubic and Compound than with CCP, LIA or OLIA.",
    criterion: CRITERION,
    basis: Basis::Measured,
    subject: Subject::Controller("cubic"),
    cases: |name| plan(AT_200, SPD).cases("cubic", name),
    judge: |evidence| {
        let plan = plan(AT_200, SPD);
        judge_figure(evidence, &plan, "cubic", &[IN_7], GAIN_WHY)
    },
};

pub(super) const FIGURE_8: Claim = Claim {
    id: "S3-F8",
    paper: &PAPER,
    figure: "Fig. 8, §5.B",
    claim: "LPC instead of SPD, 100/200 ms: CCP improves and resends more; OLIA worsens; Cubic and \
            Compound stay the same.",
    criterion: CRITERION,
    basis: Basis::Measured,
    subject: Subject::Controller("ccp"),
    cases: |name| plan(AT_200, LPC).cases("ccp", name),
    judge: |evidence| {
        let plan = plan(AT_200, LPC);
        judge_figure(evidence, &plan, "ccp", &[IN_8], ALIKE_WHY)
    },
};

pub(super) const FIGURE_9: Claim = Claim {
    id: "S3-F9",
    paper: &PAPER,
    figure: "Fig. 9, §5.B",
    claim: "LET instead of SPD, 100/200 ms: Cubic and Compound stay the same.",
    criterion: CRITERION,
    basis: Basis::Measured,
    subject: Subject::Controller("cubic"),
    cases: |name| plan(AT_200, LET).cases("cubic", name),
    judge: |evidence| {
        let plan = plan(AT_200, LET);
        judge_figure(evidence, &plan, "cubic", &IN_9, "")
    },
};

pub(super) const FIGURE_10: Claim = Claim {
    id: "S3-F10",
    paper: &PAPER,
    figure: "Fig. 10, §5.B",
    claim: "SPD, 200/100 ms: all variants deliver similar video except CCP, which is worse.",
    criterion: CRITERION,
    basis: Basis::Measured,
    subject: Subject::Controller("cubic"),
    cases: |name| plan(FROM_200, SPD).cases("cubic", name),
    judge: |evidence| {
        let plan = plan(FROM_200, SPD);
        judge_figure(evidence, &plan, "cubic", &[IN_10], GAIN_WHY)
    },
};

pub(super) const FIGURE_11: Claim = Claim {
    id: "S3-F11",
    paper: &PAPER,
    figure: "Fig. 11, §5.B",
    claim: "LPC instead of SPD, 200/100 ms: CCP improves and resends more; the others stay the \
            same.",
    criterion: CRITERION,
    basis: Basis::Measured,
    subject: Subject::Controller("ccp"),
    cases: |name| plan(FROM_200, LPC).cases("ccp", name),
    judge: |evidence| {
        let plan = plan(FROM_200, LPC);
        judge_figure(evidence, &plan, "ccp", &[IN_11], ALIKE_WHY)
    },
};

pub(super) const FIGURE_12: Claim = Claim {
    id: "S3-F12",
    paper: &PAPER,
    figure: "Fig. 12, §5.B",
    claim: "LET instead of SPD, 200/100 ms: all variants but CCP stay the same.",
    criterion: CRITERION,
    basis: Basis::Measured,
    subject: Subject::Controller("cubic"),
    cases: |name| plan(FROM_200, LET).cases("cubic", name),
    judge: |evidence| {
        let plan = plan(FROM_200, LET);
        judge_figure(evidence, &plan, "cubic", &IN_12, "")
    },
};
