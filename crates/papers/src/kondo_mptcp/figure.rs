//! A figure of the paper at the points of the space, with both readings and both forms of BBR.
//!
//! A network in which the paper's Fig. 4 is not seen, because a film stops in scenario A, is not
//! the paper's. So Figs. 5 to 10 count at the points where Fig. 4 is met.

use super::{FORMS, Reading, SPACE, Scenario, Who, case_name};
use crate::evidence::Evidence;
use crate::judgement::{Expect, Judgement, Measured, Samples};
use crate::record::RunRecord;
use crate::sweep::{MetPoints, Point};
use anabranch_lab::metrics::Unit;

/// A point, with one reading and one form of BBR.
#[derive(Clone, Copy, Debug)]
pub(super) struct At<'a> {
    evidence: &'a Evidence,
    point: &'a Point,
    pub(super) reading: Reading,
    bbr: Who,
}

impl<'a> At<'a> {
    fn new(evidence: &'a Evidence, point: &'a Point, (reading, bbr): (Reading, Who)) -> At<'a> {
        At {
            evidence,
            point,
            reading,
            bbr,
        }
    }

    /// Returns BBR's film.
    pub(super) fn bbr(&self, scenario: Scenario) -> &RunRecord {
        self.run(scenario, self.bbr)
    }

    pub(super) fn cubic(&self, scenario: Scenario) -> &RunRecord {
        self.run(scenario, Who::Cubic)
    }

    fn run(&self, scenario: Scenario, who: Who) -> &RunRecord {
        let case = self.point.of(&case_name(scenario, self.reading, who));
        self.evidence.shown(&case)
    }
}

/// A statement that a figure shows.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub(super) name: &'static str,
    pub(super) is_so: fn(&At<'_>) -> bool,
}

/// Statements of a figure.
pub(super) type Parts = &'static [Part];

/// Returns whether all statements of a figure are true.
pub(super) fn is_seen(parts: &[Part], at: &At<'_>) -> bool {
    parts.iter().all(|part| (part.is_so)(at))
}

fn expect(is_so: bool) -> Vec<Expect> {
    vec![Expect::that("", is_so)]
}

/// Returns `of` at all points, with a reading and a form of BBR.
pub(super) fn each_point<T>(
    evidence: &Evidence,
    (reading, bbr): (Reading, Who),
    of: impl Fn(&At<'_>) -> T,
) -> Vec<T> {
    SPACE
        .points()
        .iter()
        .map(|point| {
            of(&At {
                evidence,
                point,
                reading,
                bbr,
            })
        })
        .collect()
}

/// Returns the form in words.
pub(super) fn form_name(reading: Reading, bbr: Who) -> String {
    let form = match bbr {
        Who::Today => "BBR of today",
        _ => "BBR of Linux 4.9",
    };
    format!("{}, {form}", reading.name())
}

/// Tallies the points at which `parts` are true, of those at which `given` are.
fn met_points(
    evidence: &Evidence,
    form: (Reading, Who),
    given: &[Part],
    parts: &[Part],
) -> MetPoints {
    SPACE.met_points_where(
        |point| is_seen(given, &At::new(evidence, point, form)),
        |point| expect(is_seen(parts, &At::new(evidence, point, form))),
    )
}

/// Judges a figure at the points where all of `given` is met. The first reading and the paper's BBR
/// decide, each statement and all at once; the others are shown.
pub(super) fn judge_where(evidence: &Evidence, given: Parts, parts: Parts, why: &str) -> Judgement {
    let mut judgement = Judgement::new();
    let mut sentences = Vec::new();
    let main = FORMS[0];
    let all = met_points(evidence, main, given, parts);
    all.report("all of it", &mut judgement);
    if parts.len() > 1 {
        for part in parts {
            let one = met_points(evidence, main, given, core::slice::from_ref(part));
            one.report(part.name, &mut judgement);
        }
    }
    for form in FORMS {
        let other = met_points(evidence, form, given, parts);
        let name = form_name(form.0, form.1);
        sentences.push(format!("{name}: {}", other.sentence()));
        if form != main {
            judgement.report(&other.measured(&format!("all of it, {name}")));
        }
    }
    judgement
        .because(format!("{why} {}", sentences.join(" ")))
        .ablated(all.ablation().unwrap_or_default())
}

/// Returns a number of each point, for the report.
pub(super) fn over_points(
    evidence: &Evidence,
    name: &str,
    unit: Unit,
    of: impl Fn(&At<'_>) -> f64,
) -> Measured {
    let samples = Samples(each_point(evidence, (Reading::Both, Who::Bbr), of));
    Measured::new(format!("{name}, over the points"), unit, samples)
}
