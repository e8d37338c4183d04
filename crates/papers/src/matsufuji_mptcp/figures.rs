//! Figs. 4 to 12: what the viewer sees with each variant of TCP, scheduler by scheduler and network
//! by network.

use super::PAPER;
use super::bench::{
    At, EQUAL, FAR_FIRST, FAR_SECOND, Network, OTHER_LET, Plan, Sentence, VARIANTS, judge,
    within_axes,
};
use crate::claim::{Basis, Claim, Subject};
use crate::evidence::Evidence;
use crate::judgement::Judgement;

pub(super) const CRITERION: &str = "Judged at 27 points of what the paper does not print (losses, \
    queues, Wi-Fi's delay, receive window, reinjection, cache and read-ahead, CCP's gain), with \
    90 s of the film each, and true if at half of them or more. Better: fewer pictures discarded; \
    if these are alike, fewer underflows. Alike: within a quarter, or 30 pictures and 10 \
    underflows of the whole film. Each is also counted over the points at which all bars lie \
    within the axes.";

/// The uncoupled ones that the paper recommends.
const UNCOUPLED: [&str; 2] = ["cubic", "compound"];

const ALIKE_WHY: &str = "Where a viewer suffers, the windows are what the network leaves too \
    small: segments wait for room, an acknowledgement makes room on one path at a time, and no \
    scheduler has a choice; runs with SPD, LPC and LET are then often the same packet by packet. \
    A scheduler matters where the receive window of 256 KiB is what is full, for better or worse.";

const GAIN_WHY: &str = "CCP reacts to no loss, so random loss costs it nothing: with a stable gain \
    its film plays, better than any other's. Kp = 3 without a limiter is a cycle of overflow, and \
    worse the smaller the queues are.";

/// Sentences, and that a variant's bars lie within the figures' axes.
fn judge_figure(
    evidence: &Evidence,
    plan: &Plan<'_>,
    variant: &str,
    sentences: &[Sentence<'_>],
    why: &str,
) -> Judgement {
    let mut judgement = judge(evidence, plan, sentences, why);
    judgement
        .expects
        .extend(within_axes(evidence, plan, variant));
    judgement
}

/// Better than each of `others`, by this scheduler.
fn are_best(at: &At<'_>, network: &Network, scheduler: &str, others: &[&str]) -> bool {
    others.iter().all(|other| {
        let other = at.video(network, other, scheduler);
        let is_better =
            |variant: &&str| at.video(network, variant, scheduler).is_better_than(&other);
        UNCOUPLED.iter().all(is_better)
    })
}

/// A variant by a scheduler against the same by `spd`.
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

/// Resent packets of both flows.
fn resends_more(at: &At<'_>, network: &Network, variant: &str, scheduler: &str) -> bool {
    let sum = |scheduler| -> f64 {
        let by_flow = at.retransmissions(network, variant, scheduler);
        by_flow.iter().sum()
    };
    sum(scheduler) > sum("spd")
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
        let coupled = |at: &At<'_>| are_best(at, &EQUAL, "spd", &["lia", "olia"]);
        let ccp = |at: &At<'_>| are_best(at, &EQUAL, "spd", &["ccp"]);
        let sentences: [Sentence<'_>; 2] = [
            ("Cubic and Compound better than LIA and OLIA", &coupled),
            ("Cubic and Compound better than CCP", &ccp),
        ];
        judge_figure(evidence, &plan, "cubic", &sentences, GAIN_WHY)
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
        let olia = |at: &At<'_>| improves(at, &EQUAL, "olia", "lpc");
        let same = |at: &At<'_>| are_alike(at, &EQUAL, &UNCOUPLED, "lpc");
        let sentences: [Sentence<'_>; 2] = [
            ("OLIA better with LPC than with SPD", &olia),
            ("Cubic and Compound alike with LPC and SPD", &same),
        ];
        judge_figure(evidence, &plan, "cubic", &sentences, ALIKE_WHY)
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
        let olia = |at: &At<'_>| improves(at, &EQUAL, "olia", "let");
        let same = |at: &At<'_>| are_alike(at, &EQUAL, &UNCOUPLED, "let");
        let other_olia = |at: &At<'_>| improves(at, &EQUAL, "olia", OTHER_LET);
        let other_same = |at: &At<'_>| are_alike(at, &EQUAL, &UNCOUPLED, OTHER_LET);
        let sentences: [Sentence<'_>; 4] = [
            ("OLIA better with LET than with SPD", &olia),
            ("OLIA better with LET by what is delivered", &other_olia),
            ("Cubic and Compound alike with LET and SPD", &same),
            (
                "Cubic and Compound alike with LET by what is delivered",
                &other_same,
            ),
        ];
        judge_figure(evidence, &plan, "cubic", &sentences, ALIKE_WHY)
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
        let coupled = |at: &At<'_>| are_best(at, &FAR_SECOND, "spd", &["lia", "olia"]);
        let ccp = |at: &At<'_>| are_best(at, &FAR_SECOND, "spd", &["ccp"]);
        let sentences: [Sentence<'_>; 2] = [
            ("Cubic and Compound better than LIA and OLIA", &coupled),
            ("Cubic and Compound better than CCP", &ccp),
        ];
        judge_figure(evidence, &plan, "cubic", &sentences, GAIN_WHY)
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
        let ccp = |at: &At<'_>| improves(at, &FAR_SECOND, "ccp", "lpc");
        let more = |at: &At<'_>| resends_more(at, &FAR_SECOND, "ccp", "lpc");
        let olia = |at: &At<'_>| worsens(at, &FAR_SECOND, "olia", "lpc");
        let same = |at: &At<'_>| are_alike(at, &FAR_SECOND, &UNCOUPLED, "lpc");
        let sentences: [Sentence<'_>; 4] = [
            ("CCP better with LPC than with SPD", &ccp),
            ("CCP resends more with LPC than with SPD", &more),
            ("OLIA worse with LPC than with SPD", &olia),
            ("Cubic and Compound alike with LPC and SPD", &same),
        ];
        judge_figure(evidence, &plan, "ccp", &sentences, ALIKE_WHY)
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
        let same = |at: &At<'_>| are_alike(at, &FAR_SECOND, &UNCOUPLED, "let");
        let other = |at: &At<'_>| are_alike(at, &FAR_SECOND, &UNCOUPLED, OTHER_LET);
        let sentences: [Sentence<'_>; 2] = [
            ("Cubic and Compound alike with LET and SPD", &same),
            (
                "Cubic and Compound alike with LET by what is delivered",
                &other,
            ),
        ];
        judge_figure(evidence, &plan, "cubic", &sentences, "")
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
        let ccp = |at: &At<'_>| are_best(at, &FAR_FIRST, "spd", &["ccp"]);
        let similar = |at: &At<'_>| {
            let cubic = at.video(&FAR_FIRST, "cubic", "spd");
            let others = ["compound", "lia", "olia"];
            others
                .iter()
                .all(|other| at.video(&FAR_FIRST, other, "spd").is_like(&cubic))
        };
        let sentences: [Sentence<'_>; 2] = [
            ("Compound, LIA and OLIA like Cubic", &similar),
            ("CCP worse than Cubic and Compound", &ccp),
        ];
        judge_figure(evidence, &plan, "cubic", &sentences, GAIN_WHY)
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
        let ccp = |at: &At<'_>| improves(at, &FAR_FIRST, "ccp", "lpc");
        let more = |at: &At<'_>| resends_more(at, &FAR_FIRST, "ccp", "lpc");
        let others = ["cubic", "compound", "lia", "olia"];
        let same = |at: &At<'_>| are_alike(at, &FAR_FIRST, &others, "lpc");
        let sentences: [Sentence<'_>; 3] = [
            ("CCP better with LPC than with SPD", &ccp),
            ("CCP resends more with LPC than with SPD", &more),
            (
                "Cubic, Compound, LIA and OLIA alike with LPC and SPD",
                &same,
            ),
        ];
        judge_figure(evidence, &plan, "ccp", &sentences, ALIKE_WHY)
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
        let others = ["cubic", "compound", "lia", "olia"];
        let same = |at: &At<'_>| are_alike(at, &FAR_FIRST, &others, "let");
        let other = |at: &At<'_>| are_alike(at, &FAR_FIRST, &others, OTHER_LET);
        let sentences: [Sentence<'_>; 2] = [
            (
                "Cubic, Compound, LIA and OLIA alike with LET and SPD",
                &same,
            ),
            ("the same with LET by what is delivered", &other),
        ];
        judge_figure(evidence, &plan, "cubic", &sentences, "")
    },
};
