//! From numbers to a verdict.

use serde::Serialize;

use anabranch_lab::Chart;
use anabranch_lab::metrics::Unit;
use anabranch_lab::{Spread, cell, written};

/// One number a seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Samples(pub Vec<f64>);

impl Samples {
    /// Median, least and largest; `None` if one run could not measure it.
    pub fn spread(&self) -> Option<Spread> {
        let is_whole = self.0.iter().all(|value| value.is_finite());
        Spread::of(self.0.iter().copied().filter(|_| is_whole))
    }

    /// The median; not a number if one run could not measure it.
    pub fn median(&self) -> f64 {
        self.spread().map_or(f64::NAN, |spread| spread.median)
    }

    /// Seed by seed.
    pub fn over(&self, other: &Samples) -> Samples {
        let pairs = self.0.iter().zip(&other.0);
        Samples(pairs.map(|(ours, other)| ours / other).collect())
    }

    /// Of several samples the largest, seed by seed.
    pub fn largest<'a>(of: impl IntoIterator<Item = &'a Samples>) -> Samples {
        Samples::folded(of, f64::max)
    }

    /// Of several samples the least, seed by seed.
    pub fn least<'a>(of: impl IntoIterator<Item = &'a Samples>) -> Samples {
        Samples::folded(of, f64::min)
    }

    fn folded<'a>(
        of: impl IntoIterator<Item = &'a Samples>,
        fold: impl Fn(f64, f64) -> f64,
    ) -> Samples {
        let mut of = of.into_iter();
        let first = of.next().cloned().unwrap_or(Samples(Vec::new()));
        of.fold(first, |all, samples| {
            let pairs = all.0.into_iter().zip(&samples.0);
            // `max` would hide what is not a number.
            let pick = |(a, b): (f64, &f64)| {
                if a.is_nan() || b.is_nan() {
                    f64::NAN
                } else {
                    fold(a, *b)
                }
            };
            Samples(pairs.map(pick).collect())
        })
    }
}

/// A number of ours, by its name, beside the paper's.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// What it is.
    pub name: String,
    /// In what.
    pub unit: Unit,
    /// Ours, a number a seed.
    pub samples: Samples,
    /// The paper's, where it prints one.
    pub published: Option<f64>,
}

/// What has to be for a claim to hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Expect {
    /// In words, with the numbers.
    pub text: String,
    /// Whether it is.
    pub is_met: bool,
}

impl Expect {
    /// Something that is no bound on a number.
    pub fn that(text: impl Into<String>, is_met: bool) -> Expect {
        Expect {
            text: text.into(),
            is_met,
        }
    }
}

impl Measured {
    /// A number that the paper does not print.
    pub fn new(name: impl Into<String>, unit: Unit, samples: Samples) -> Measured {
        Measured {
            name: name.into(),
            unit,
            samples,
            published: None,
        }
    }

    /// With the paper's number.
    #[must_use]
    pub fn beside(mut self, published: f64) -> Measured {
        self.published = Some(published);
        self
    }

    /// The median is `bound` or more.
    pub fn at_least(&self, bound: f64) -> Expect {
        self.median_meets("at least", bound, |median| median >= bound)
    }

    /// The median is `bound` or less.
    pub fn at_most(&self, bound: f64) -> Expect {
        self.median_meets("at most", bound, |median| median <= bound)
    }

    /// The median lies within a share of `target` around it.
    pub fn within(&self, share: f64, target: f64) -> Expect {
        let text = format!(
            "{}: median {} within {:.0} % of {}",
            self.name,
            self.write(self.samples.median()),
            share * 100.0,
            self.write(target)
        );
        Expect::that(
            text,
            (self.samples.median() - target).abs() <= share * target,
        )
    }

    /// The value of every seed is `bound` or more.
    pub fn always_at_least(&self, bound: f64) -> Expect {
        self.all_meet("at least", bound, |value| value >= bound)
    }

    /// The value of every seed is `bound` or less.
    pub fn always_at_most(&self, bound: f64) -> Expect {
        self.all_meet("at most", bound, |value| value <= bound)
    }

    /// The median is less than another's.
    pub fn below(&self, other: &Measured) -> Expect {
        let (ours, theirs) = (self.samples.median(), other.samples.median());
        let text = format!(
            "{} ({}) < {} ({})",
            self.name,
            self.write(ours),
            other.name,
            other.write(theirs)
        );
        Expect::that(text, ours < theirs)
    }

    fn median_meets(&self, word: &str, bound: f64, is_met: impl Fn(f64) -> bool) -> Expect {
        let median = self.samples.median();
        let (ours, bound) = (self.write(median), self.write(bound));
        let text = format!("{}: median {ours}, expected {word} {bound}", self.name);
        Expect::that(text, is_met(median))
    }

    fn all_meet(&self, word: &str, bound: f64, is_met: impl Fn(f64) -> bool) -> Expect {
        let all = self.all();
        let text = format!(
            "{}: {all}, expected {word} {} in every run",
            self.name,
            self.write(bound)
        );
        let is_met =
            !self.samples.0.is_empty() && self.samples.0.iter().all(|value| is_met(*value));
        Expect::that(text, is_met)
    }

    /// Median and range, with unit.
    pub fn all(&self) -> String {
        cell(self.samples.spread(), |value| self.write(value))
    }

    /// A value of this kind, with unit.
    pub fn write(&self, value: f64) -> String {
        if value.is_finite() {
            written(value, self.unit)
        } else {
            "unmeasured".to_owned()
        }
    }
}

/// What becomes of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Verdict {
    /// All that it expects was found.
    #[serde(rename = "holds")]
    Holds,
    /// Something else was found.
    #[serde(rename = "differs")]
    Differs,
    /// The source is lost, or argues without anything that a run could contradict.
    #[serde(rename = "cannot be known")]
    CannotBeKnown,
}

impl Verdict {
    /// As reports print it.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::Differs => "differs",
            Verdict::CannotBeKnown => "cannot be known",
        }
    }
}

/// Cases in which nothing is left to chance: of these, a spread of zero says nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum WithoutChance {
    /// No case of the claim.
    #[default]
    None,
    /// These, by their names.
    Some(Vec<String>),
    /// All of them.
    All,
}

impl WithoutChance {
    /// In a sentence; `None` if chance has a part everywhere.
    pub(super) fn sentence(&self) -> Option<String> {
        const SAME: &str = "all seeds gave the same result, without any chance";
        match self {
            WithoutChance::None => None,
            WithoutChance::Some(cases) => Some(format!("{SAME}, in: {}", cases.join(", "))),
            WithoutChance::All => Some(SAME.to_owned()),
        }
    }
}

/// What runs say to a claim.
#[derive(Clone, Debug, Default)]
pub struct Judgement {
    /// The numbers, the one that the claim is about first.
    pub values: Vec<Measured>,
    /// What has to be.
    pub expects: Vec<Expect>,
    /// Why ours differ, if they do.
    pub why: String,
    /// Pictures, in the paper's axes.
    pub charts: Vec<Chart>,
    /// Its cases of which all seeds gave the same result, if there were several seeds.
    pub without_chance: WithoutChance,
    is_unknowable: bool,
}

impl Judgement {
    /// Nothing yet.
    pub fn new() -> Judgement {
        Judgement::default()
    }

    /// The source is lost or says nothing that a run could contradict, for the reason given.
    pub fn unknowable(why: impl Into<String>) -> Judgement {
        Judgement {
            why: why.into(),
            is_unknowable: true,
            ..Judgement::default()
        }
    }

    /// Takes a number into the report.
    pub fn report(&mut self, value: &Measured) {
        self.values.push(value.clone());
    }

    /// Takes an expectation in.
    pub fn expect(&mut self, expect: Expect) {
        self.expects.push(expect);
    }

    /// Takes a picture in.
    pub fn draw(&mut self, chart: Chart) {
        self.charts.push(chart);
    }

    /// A sentence on why ours differ, printed only if they do.
    #[must_use]
    pub fn because(mut self, why: impl Into<String>) -> Judgement {
        self.why = why.into();
        self
    }

    /// The verdict. Who expects nothing has found nothing.
    pub fn verdict(&self) -> Verdict {
        let is_met = !self.expects.is_empty() && self.expects.iter().all(|expect| expect.is_met);
        match (self.is_unknowable, is_met) {
            (true, _) => Verdict::CannotBeKnown,
            (false, true) => Verdict::Holds,
            (false, false) => Verdict::Differs,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(values: &[f64]) -> Measured {
        Measured::new("delay", Unit::Milliseconds, Samples(values.to_vec()))
    }

    #[test]
    fn medians_and_every_seed_are_different_demands() {
        let delay = measured(&[1.0, 2.0, 9.0]);
        assert!(delay.at_most(2.0).is_met && !delay.always_at_most(2.0).is_met);
        assert!(delay.at_least(2.0).is_met && !delay.always_at_least(2.0).is_met);
        assert!(delay.below(&measured(&[3.0])).is_met && !delay.below(&delay).is_met);
        assert!(delay.within(0.1, 2.1).is_met && !delay.within(0.1, 3.0).is_met);
        let text = "delay: median 2.0 ms, expected at most 1.0 ms";
        assert_eq!(delay.at_most(1.0).text, text);
    }

    #[test]
    fn what_was_not_measured_meets_nothing() {
        let lost = measured(&[1.0, f64::NAN]);
        assert!(!lost.at_least(0.0).is_met && !lost.at_most(9.0).is_met);
        assert!(!lost.below(&measured(&[2.0])).is_met);
        assert!(!lost.always_at_most(9.0).is_met && !measured(&[]).always_at_least(0.0).is_met);
        let largest = Samples::largest([&lost.samples, &measured(&[5.0, 5.0]).samples]);
        assert!(largest.0[0] == 5.0 && largest.0[1].is_nan());
        assert_eq!(Judgement::new().verdict(), Verdict::Differs);
    }
}
