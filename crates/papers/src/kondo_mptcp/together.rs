//! The number of the paper's figures that one network shows.

use super::figure::{At, Parts, each_point, form_name, is_seen};
use super::{BBR, FORMS, PAPER, Reading, SCENARIOS, SPACE, Who, cases};
use super::{rates, switches, viewer, windows};
use crate::claim::{Basis, Claim, Subject};
use crate::evidence::Evidence;
use crate::judgement::{Expect, Judgement, Measured, Samples};
use anabranch_lab::metrics::Unit;

/// Returns the figures and their statements.
fn figures() -> [(&'static str, Parts); 10] {
    let [f4, f6, f8] = viewer::PARTS;
    let [f5ab, f7ab, f9ab] = windows::PARTS;
    let [f5cd, f7cd, f9cd] = rates::PARTS;
    [
        ("4", f4),
        ("5 (a), (b)", f5ab),
        ("5 (c), (d)", f5cd),
        ("6", f6),
        ("7 (a), (b)", f7ab),
        ("7 (c), (d)", f7cd),
        ("8", f8),
        ("9 (a), (b)", f9ab),
        ("9 (c), (d)", f9cd),
        ("10", switches::SWITCHES),
    ]
}

/// Returns the figures that are seen at each point.
fn seen(evidence: &Evidence, reading: Reading, bbr: Who) -> Vec<Vec<&'static str>> {
    each_point(evidence, (reading, bbr), |at: &At<'_>| {
        let seen = figures()
            .into_iter()
            .filter(|(_, parts)| is_seen(parts, at));
        seen.map(|(name, _)| name).collect()
    })
}

/// Returns the index of the point with the most figures, the first of several.
fn best(seen: &[Vec<&'static str>]) -> usize {
    let most = seen.iter().map(Vec::len).max().unwrap_or(0);
    seen.iter().position(|it| it.len() == most).unwrap_or(0)
}

pub(super) const TOGETHER: Claim = Claim {
    id: "S1-all",
    paper: &PAPER,
    figure: "Figs. 4 to 10",
    claim: "One testbed shows all of the figures.",
    criterion: "There is a point at which all ten verdicts are met, by either reading.",
    basis: Basis::Measured,
    subject: Subject::Controller(BBR),
    cases: |bbr| cases(&SCENARIOS, bbr),
    judge: |evidence| {
        let mut judgement = Judgement::new();
        let (mut most, mut sentences) = (0, Vec::new());
        let mut headline = String::new();
        for (reading, bbr) in FORMS {
            let seen = seen(evidence, reading, bbr);
            let counts = seen.iter().map(|seen| seen.len() as f64).collect();
            let name = format!("figures at a point, {}", form_name(reading, bbr));
            judgement.report(&Measured::new(&*name, Unit::Number, Samples(counts)));
            let best = best(&seen);
            let point = SPACE.describe(&SPACE.points()[best]);
            let (count, all) = (seen[best].len(), seen[best].join(", "));
            sentences.push(format!("{name}: {count} of 10 (Figs. {all}) with {point}."));
            if bbr == Who::Bbr && count > most {
                most = count;
                headline = format!(
                    "{count} of 10 figures at one point (Figs. {all}, {}), with {point}.",
                    form_name(reading, bbr)
                );
            }
        }
        let half = Expect::by(
            format!("{most} figures at one point, expected 5 at least"),
            most as f64 - 5.0,
        );
        judgement.expect(half);
        let all = format!("{most} figures at one point, expected all 10");
        judgement.expect(Expect::by(all, most as f64 - 10.0));
        judgement.headline(headline).because(sentences.join(" "))
    },
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_point_has_the_most_figures() {
        assert_eq!(best(&[vec!["4"], vec!["4", "8"], vec!["5", "6"]]), 1);
        assert_eq!(best(&[vec![], vec![]]), 0);
    }

    /// Every figure of the paper that shows a measurement is in the list.
    #[test]
    fn all_figures_are_listed() {
        let numbers = figures().map(|(name, _)| name.split(' ').next());
        for number in 4..=10 {
            let expected = if number % 2 == 1 { 2 } else { 1 };
            let number = number.to_string();
            let figures = numbers.iter().filter(|name| **name == Some(&*number));
            assert_eq!(figures.count(), expected);
        }
    }
}
