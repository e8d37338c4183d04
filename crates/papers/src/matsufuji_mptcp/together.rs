//! The number of figures that one network shows.

use anabranch_lab::metrics::Unit;

use super::PAPER;
use super::bench::{At, NETWORKS, OTHER_LET, Plan, VARIANTS};
use super::figures::{CRITERION, FIGURE_COUNT, seen};
use super::space::SPACE;
use crate::claim::{Basis, Claim, Subject};
use crate::judgement::{Expect, Judgement, Measured, Samples};

const PLAN: Plan<'_> = Plan {
    networks: &NETWORKS,
    variants: &VARIANTS,
    schedulers: &["spd", "lpc", "let", OTHER_LET],
};

pub(super) const TOGETHER: Claim = Claim {
    id: "S3-all",
    paper: &PAPER,
    figure: "Figs. 4 to 12",
    claim: "One testbed shows all of the figures.",
    criterion: CRITERION,
    basis: Basis::Measured,
    subject: Subject::Controller("cubic"),
    cases: |name| PLAN.cases("cubic", name),
    judge: |evidence| {
        let mut judgement = Judgement::new();
        let mut best = (0, String::new());
        let points = SPACE.points();
        for (reading, name) in [("let", "LET"), (OTHER_LET, "LET by delivery rate")] {
            let at = points.iter().map(|point| At { evidence, point });
            let seen: Vec<Vec<u8>> = at.map(|at| seen(&at, reading)).collect();
            let counts: Vec<f64> = seen.iter().map(|seen| seen.len() as f64).collect();
            let text = format!("figures at a point, {name}");
            judgement.report(&Measured::new(text, Unit::Number, Samples(counts)));
            for (seen, point) in seen.iter().zip(&points) {
                if seen.len() > best.0 {
                    let numbers: Vec<String> = seen.iter().map(u8::to_string).collect();
                    let (count, point) = (seen.len(), SPACE.describe(point));
                    let figures = numbers.join(", ");
                    let text = format!(
                        "{count} of {FIGURE_COUNT} figures at one point (Figs. {figures}, {name}), \
                         with {point}."
                    );
                    best = (count, text);
                }
            }
        }
        let (most, text) = best;
        let all = format!("{most} figures at one point, expected all {FIGURE_COUNT}");
        judgement.expect(Expect::by(all, most as f64 - FIGURE_COUNT as f64));
        judgement.headline(&text).because(text)
    },
};
