//! From numbers to a verdict.

use serde::Serialize;

use super::provenance::RunNote;

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
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Expect {
    /// In words, with the numbers.
    pub text: String,
    /// Whether it is.
    pub is_met: bool,
    /// Whether something that the paper does not print decides it.
    pub is_open: bool,
    /// How far what was measured lies within the bound; negative: beyond it; minus infinity: it
    /// could not be measured. In any unit: it is only compared with itself over seeds.
    #[serde(skip)]
    pub(super) gap: f64,
    #[serde(skip)]
    pub(super) reach: Reach,
}

/// What more seeds can do to an [`Expect`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Nothing: it is about no run.
    Sure,
    /// Move it both ways: it is about a median, a mean or a count of these.
    Typical,
    /// Break it: it is about every run.
    Every,
    /// Meet it: it is about any run.
    Any,
}

impl Expect {
    /// Something about the set-up: seeds have no part in it.
    pub fn that(text: impl Into<String>, is_met: bool) -> Expect {
        let gap = if is_met {
            f64::INFINITY
        } else {
            -f64::INFINITY
        };
        Expect::new(text, is_met, gap, Reach::Sure)
    }

    /// Something whose distance from its bound is `gap`, which is at least zero if it is met.
    pub fn by(text: impl Into<String>, gap: f64) -> Expect {
        Expect::new(text, gap >= 0.0, gap, Reach::Typical)
    }

    /// Something whose distance from its bound is `gap`, which is more than zero if it is met.
    pub fn by_more(text: impl Into<String>, gap: f64) -> Expect {
        Expect::new(text, gap > 0.0, gap, Reach::Typical)
    }

    /// At least `least` of `all` are met.
    pub fn at_least_of(text: impl Into<String>, least: usize, all: &[Expect]) -> Expect {
        let is_met = all.iter().filter(|expect| expect.is_met).count() >= least;
        let mut gaps: Vec<f64> = all.iter().map(|expect| expect.gap).collect();
        gaps.sort_by(|one, other| other.total_cmp(one));
        let gap = match least {
            0 => f64::INFINITY,
            _ => gaps.get(least - 1).copied().unwrap_or(-f64::INFINITY),
        };
        Expect::new(text, is_met, gap, Reach::Typical)
    }

    /// All of `all` are met.
    pub fn all_of(text: impl Into<String>, all: &[Expect]) -> Expect {
        Expect::at_least_of(text, all.len(), all)
    }

    fn new(text: impl Into<String>, is_met: bool, gap: f64, reach: Reach) -> Expect {
        let gap = if gap.is_nan() { -f64::INFINITY } else { gap };
        Expect {
            text: text.into(),
            is_met,
            is_open: false,
            gap,
            reach,
        }
    }

    /// The same, where the other outcome is as well founded, by a value that the paper does not
    /// print.
    #[must_use]
    pub fn open_if(mut self, is_open: bool) -> Expect {
        self.is_open = is_open;
        self
    }

    /// The same, met by any run: more of them can only meet it.
    #[must_use]
    pub fn by_any_run(mut self) -> Expect {
        self.reach = Reach::Any;
        self
    }

    /// The same of numbers that are not of one seed each, but of one scenario each, say.
    #[must_use]
    pub fn over_cases(mut self) -> Expect {
        self.reach = Reach::Typical;
        self
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
        self.median_meets("at least", bound, |median| median - bound)
    }

    /// The median is `bound` or less.
    pub fn at_most(&self, bound: f64) -> Expect {
        self.median_meets("at most", bound, |median| bound - median)
    }

    /// The median is more than `bound`.
    pub fn more_than(&self, bound: f64) -> Expect {
        let median = self.samples.median();
        let (ours, written) = (self.write(median), self.write(bound));
        let text = format!("{}: median {ours}, expected more than {written}", self.name);
        Expect::by_more(text, median - bound)
    }

    /// The median is less than `bound`.
    pub fn less_than(&self, bound: f64) -> Expect {
        let median = self.samples.median();
        let (ours, written) = (self.write(median), self.write(bound));
        let text = format!("{}: median {ours}, expected less than {written}", self.name);
        Expect::by_more(text, bound - median)
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
        let off = (self.samples.median() - target).abs();
        Expect::by(text, share * target - off)
    }

    /// The value of every seed is `bound` or more.
    pub fn always_at_least(&self, bound: f64) -> Expect {
        self.all_meet("at least", bound, |value| value - bound)
    }

    /// The value of every seed is `bound` or less.
    pub fn always_at_most(&self, bound: f64) -> Expect {
        self.all_meet("at most", bound, |value| bound - value)
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
        Expect::by_more(text, theirs - ours)
    }

    fn median_meets(&self, word: &str, bound: f64, gap: impl Fn(f64) -> f64) -> Expect {
        let median = self.samples.median();
        let (ours, bound) = (self.write(median), self.write(bound));
        let text = format!("{}: median {ours}, expected {word} {bound}", self.name);
        Expect::by(text, gap(median))
    }

    fn all_meet(&self, word: &str, bound: f64, gap: impl Fn(f64) -> f64) -> Expect {
        let all = self.all();
        let text = format!(
            "{}: {all}, expected {word} {} in every run",
            self.name,
            self.write(bound)
        );
        let gaps = self.samples.0.iter().map(|value| gap(*value));
        let smaller = |one: f64, other: f64| match one.is_nan() || other.is_nan() {
            true => f64::NAN,
            false => one.min(other),
        };
        let least = gaps.reduce(smaller).unwrap_or(f64::NAN);
        Expect::new(text, least >= 0.0, least, Reach::Every)
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
    /// The source is lost, argues without anything that a run could contradict, or does not print
    /// what decides.
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
    /// A sentence for the summary, beside the verdict; empty: there is none.
    pub headline: String,
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

    /// Puts a sentence into the summary, whatever the verdict.
    #[must_use]
    pub fn headline(mut self, text: impl Into<String>) -> Judgement {
        self.headline = text.into();
        self
    }

    /// The verdict. A claim that expects nothing has found nothing.
    pub fn verdict(&self) -> Verdict {
        let is_broken = |expect: &Expect| !expect.is_met && !expect.is_open;
        let differs = self.expects.is_empty() || self.expects.iter().any(is_broken);
        let is_open = self.expects.iter().any(|expect| expect.is_open);
        match (self.is_unknowable, differs, is_open) {
            (true, _, _) | (false, false, true) => Verdict::CannotBeKnown,
            (false, true, _) => Verdict::Differs,
            (false, false, false) => Verdict::Holds,
        }
    }
}

/// A judgement, what it comes to, and how many seeds it took.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The numbers and pictures.
    pub judgement: Judgement,
    /// What they come to.
    pub verdict: Verdict,
    /// How many seeds were run for it; zero: there is nothing to run.
    pub seed_count: u64,
    /// The runs that it was judged by, one for each case.
    pub runs: Vec<RunNote>,
}

impl Judged {
    pub(super) fn new(judgement: Judgement, seed_count: u64, runs: Vec<RunNote>) -> Judged {
        Judged {
            verdict: judgement.verdict(),
            judgement,
            seed_count,
            runs,
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
        assert!(delay.more_than(1.9).is_met && !delay.more_than(2.0).is_met);
        assert!(delay.less_than(2.1).is_met && !delay.less_than(2.0).is_met);
        assert!(delay.within(0.1, 2.1).is_met && !delay.within(0.1, 3.0).is_met);
        let text = "delay: median 2.0 ms, expected at most 1.0 ms";
        assert_eq!(delay.at_most(1.0).text, text);
    }

    #[test]
    fn what_an_unknown_decides_is_open_unless_something_else_is_broken() {
        let verdict = |expects: &[(bool, bool)]| {
            let mut judgement = Judgement::new();
            for (is_met, is_open) in expects {
                judgement.expect(Expect::that("it", *is_met).open_if(*is_open));
            }
            judgement.verdict()
        };
        assert_eq!(verdict(&[(true, false)]), Verdict::Holds);
        assert_eq!(
            verdict(&[(true, false), (true, true)]),
            Verdict::CannotBeKnown
        );
        assert_eq!(
            verdict(&[(true, false), (false, true)]),
            Verdict::CannotBeKnown
        );
        assert_eq!(verdict(&[(false, false), (false, true)]), Verdict::Differs);
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
