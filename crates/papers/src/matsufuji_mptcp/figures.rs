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

/// A figure: bars of all variants in one network.
struct Figure {
    id: &'static str,
    number: u8,
    section: &'static str,
    /// Subject of the claim.
    variant: &'static str,
    networks: &'static [Network; 1],
    schedulers: &'static [&'static str],
    claim: &'static str,
    sentences: &'static [(&'static str, Shown)],
    why: &'static str,
}

/// A relation of bars, in one network.
#[derive(Clone, Copy)]
enum Shown {
    /// The uncoupled variants are better than each of these, with SPD.
    Best(&'static [&'static str]),
    /// The other variants but CCP are like Cubic, with SPD.
    Similar,
    /// The variant is better with the scheduler than with SPD.
    Improves(&'static str, &'static str),
    /// The variant is worse with the scheduler than with SPD.
    Worsens(&'static str, &'static str),
    /// The variants are alike with the scheduler and with SPD.
    Alike(&'static [&'static str], &'static str),
    /// Both flows of the variant together resend more packets with the scheduler than with SPD.
    ResendsMore(&'static str, &'static str),
}
use Shown::{Alike, Best, Improves, ResendsMore, Similar, Worsens};

impl Shown {
    fn is_so(self, at: &At<'_>, network: &Network) -> bool {
        match self {
            Best(others) => others.iter().all(|other| {
                let other = at.video(network, other, "spd");
                UNCOUPLED
                    .iter()
                    .all(|variant| at.video(network, variant, "spd").is_better_than(&other))
            }),
            Similar => {
                let cubic = at.video(network, "cubic", "spd");
                let mut others = ["compound", "lia", "olia"].iter();
                others.all(|other| at.video(network, other, "spd").is_like(&cubic))
            }
            Improves(variant, scheduler) => at
                .video(network, variant, scheduler)
                .is_better_than(&at.video(network, variant, "spd")),
            Worsens(variant, scheduler) => at
                .video(network, variant, "spd")
                .is_better_than(&at.video(network, variant, scheduler)),
            Alike(variants, scheduler) => variants.iter().all(|variant| {
                at.video(network, variant, scheduler)
                    .is_like(&at.video(network, variant, "spd"))
            }),
            ResendsMore(variant, scheduler) => {
                at.resent(network, variant, scheduler) > at.resent(network, variant, "spd")
            }
        }
    }

    /// Returns the scheduler that is compared with SPD.
    fn scheduler(self) -> &'static str {
        match self {
            Best(_) | Similar => "spd",
            Improves(_, scheduler)
            | Worsens(_, scheduler)
            | Alike(_, scheduler)
            | ResendsMore(_, scheduler) => scheduler,
        }
    }
}

impl Figure {
    fn plan(&self) -> Plan<'static> {
        Plan {
            networks: self.networks,
            variants: &VARIANTS,
            schedulers: self.schedulers,
        }
    }

    /// Judges the sentences, and expects the variant's bars within the figures' axes.
    fn judge(&self, evidence: &Evidence) -> Judgement {
        let [network] = self.networks;
        let shown: Vec<_> = self
            .sentences
            .iter()
            .map(|(name, shown)| (*name, move |at: &At<'_>| shown.is_so(at, network)))
            .collect();
        let sentences: Vec<Sentence<'_>> = shown
            .iter()
            .map(|(name, is_so)| (*name, is_so as &dyn Fn(&At<'_>) -> bool))
            .collect();
        let plan = self.plan();
        let mut judgement = judge(evidence, &plan, &sentences, self.why);
        judgement
            .expects
            .extend(within_axes(evidence, &plan, self.variant));
        judgement
    }
}

const SPD: &[&str] = &["spd"];
const LPC: &[&str] = &["spd", "lpc"];
const LET: &[&str] = &["spd", "let", OTHER_LET];

const ALL_BUT_CCP: &[&str] = &["cubic", "compound", "lia", "olia"];

/// Figs. 4 to 12. Those of LET have its sentences with each reading of it.
const FIGURES: [Figure; 9] = [
    Figure {
        id: "S3-F4",
        number: 4,
        section: "Fig. 4, §5.A",
        variant: "cubic",
        networks: &[EQUAL],
        schedulers: SPD,
        claim: "SPD, 100/100 ms: Cubic and Compound deliver the best video; OLIA, CCP and LIA \
                worse.",
        sentences: &[
            (
                "Cubic and Compound better than LIA and OLIA",
                Best(&["lia", "olia"]),
            ),
            ("Cubic and Compound better than CCP", Best(&["ccp"])),
        ],
        why: GAIN_WHY,
    },
    Figure {
        id: "S3-F5",
        number: 5,
        section: "Fig. 5, §5.A",
        variant: "cubic",
        networks: &[EQUAL],
        schedulers: LPC,
        claim: "LPC instead of SPD, 100/100 ms: OLIA improves; Cubic and Compound stay the same.",
        sentences: &[
            (
                "OLIA better with LPC than with SPD",
                Improves("olia", "lpc"),
            ),
            (
                "Cubic and Compound alike with LPC and SPD",
                Alike(&UNCOUPLED, "lpc"),
            ),
        ],
        why: ALIKE_WHY,
    },
    Figure {
        id: "S3-F6",
        number: 6,
        section: "Fig. 6, §5.A",
        variant: "cubic",
        networks: &[EQUAL],
        schedulers: LET,
        claim: "LET instead of SPD, 100/100 ms: OLIA improves; Cubic and Compound stay the same.",
        sentences: &[
            (
                "OLIA better with LET than with SPD",
                Improves("olia", "let"),
            ),
            (
                "Cubic and Compound alike with LET and SPD",
                Alike(&UNCOUPLED, "let"),
            ),
            (
                "OLIA better with LET by delivery rate",
                Improves("olia", OTHER_LET),
            ),
            (
                "Cubic and Compound alike with LET by delivery rate",
                Alike(&UNCOUPLED, OTHER_LET),
            ),
        ],
        why: ALIKE_WHY,
    },
    Figure {
        id: "S3-F7",
        number: 7,
        section: "Fig. 7, §5.B",
        variant: "cubic",
        networks: &[FAR_SECOND],
        schedulers: SPD,
        claim: "SPD, 100/200 ms: better video with Cubic and Compound than with CCP, LIA or OLIA.",
        sentences: &[
            (
                "Cubic and Compound better than LIA and OLIA",
                Best(&["lia", "olia"]),
            ),
            ("Cubic and Compound better than CCP", Best(&["ccp"])),
        ],
        why: GAIN_WHY,
    },
    Figure {
        id: "S3-F8",
        number: 8,
        section: "Fig. 8, §5.B",
        variant: "ccp",
        networks: &[FAR_SECOND],
        schedulers: LPC,
        claim: "LPC instead of SPD, 100/200 ms: CCP improves and resends more; OLIA worsens; \
                Cubic and Compound stay the same.",
        sentences: &[
            ("CCP better with LPC than with SPD", Improves("ccp", "lpc")),
            (
                "CCP resends more with LPC than with SPD",
                ResendsMore("ccp", "lpc"),
            ),
            ("OLIA worse with LPC than with SPD", Worsens("olia", "lpc")),
            (
                "Cubic and Compound alike with LPC and SPD",
                Alike(&UNCOUPLED, "lpc"),
            ),
        ],
        why: ALIKE_WHY,
    },
    Figure {
        id: "S3-F9",
        number: 9,
        section: "Fig. 9, §5.B",
        variant: "cubic",
        networks: &[FAR_SECOND],
        schedulers: LET,
        claim: "LET instead of SPD, 100/200 ms: Cubic and Compound stay the same.",
        sentences: &[
            (
                "Cubic and Compound alike with LET and SPD",
                Alike(&UNCOUPLED, "let"),
            ),
            (
                "Cubic and Compound alike with LET by delivery rate",
                Alike(&UNCOUPLED, OTHER_LET),
            ),
        ],
        why: "",
    },
    Figure {
        id: "S3-F10",
        number: 10,
        section: "Fig. 10, §5.B",
        variant: "cubic",
        networks: &[FAR_FIRST],
        schedulers: SPD,
        claim: "SPD, 200/100 ms: all variants deliver similar video except CCP, which is worse.",
        sentences: &[
            ("Compound, LIA and OLIA like Cubic", Similar),
            ("CCP worse than Cubic and Compound", Best(&["ccp"])),
        ],
        why: GAIN_WHY,
    },
    Figure {
        id: "S3-F11",
        number: 11,
        section: "Fig. 11, §5.B",
        variant: "ccp",
        networks: &[FAR_FIRST],
        schedulers: LPC,
        claim: "LPC instead of SPD, 200/100 ms: CCP improves and resends more; the others stay the \
            same.",
        sentences: &[
            ("CCP better with LPC than with SPD", Improves("ccp", "lpc")),
            (
                "CCP resends more with LPC than with SPD",
                ResendsMore("ccp", "lpc"),
            ),
            (
                "Cubic, Compound, LIA and OLIA alike with LPC and SPD",
                Alike(ALL_BUT_CCP, "lpc"),
            ),
        ],
        why: ALIKE_WHY,
    },
    Figure {
        id: "S3-F12",
        number: 12,
        section: "Fig. 12, §5.B",
        variant: "cubic",
        networks: &[FAR_FIRST],
        schedulers: LET,
        claim: "LET instead of SPD, 200/100 ms: all variants but CCP stay the same.",
        sentences: &[
            (
                "Cubic, Compound, LIA and OLIA alike with LET and SPD",
                Alike(ALL_BUT_CCP, "let"),
            ),
            (
                "the same with LET by delivery rate",
                Alike(ALL_BUT_CCP, OTHER_LET),
            ),
        ],
        why: "",
    },
];

/// Number of figures.
pub(super) const FIGURE_COUNT: usize = FIGURES.len();

/// Returns the claim of the figure at index `N`.
pub(super) const fn figure<const N: usize>() -> Claim {
    let figure = &FIGURES[N];
    Claim {
        id: figure.id,
        paper: &PAPER,
        figure: figure.section,
        claim: figure.claim,
        criterion: CRITERION,
        basis: Basis::Measured,
        subject: Subject::Controller(figure.variant),
        cases: |name| FIGURES[N].plan().cases(FIGURES[N].variant, name),
        judge: |evidence| FIGURES[N].judge(evidence),
    }
}

/// Returns the numbers of the figures that are seen at a point, if `reading` is that of LET.
pub(super) fn seen(at: &At<'_>, reading: &str) -> Vec<u8> {
    fn is_other(scheduler: &str, reading: &str) -> bool {
        LET[1..].contains(&scheduler) && scheduler != reading
    }
    FIGURES
        .iter()
        .filter(|figure| {
            let mut sentences = figure.sentences.iter().map(|(_, shown)| shown);
            sentences.all(|shown| {
                is_other(shown.scheduler(), reading) || shown.is_so(at, &figure.networks[0])
            })
        })
        .map(|figure| figure.number)
        .collect()
}
