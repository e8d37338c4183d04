//! Verdicts from numbers.

use serde::Serialize;

use super::provenance::RunProvenance;

use anabranch_lab::Chart;
use anabranch_lab::metrics::Unit;
use anabranch_lab::{Spread, cell, written};

/// Least difference of two medians that decides, in standard errors: chance alone exceeds it once
/// in twenty times.
const DECISIVE_ERRORS: f64 = 2.0;

/// One number per seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Samples(pub Vec<f64>);

impl Samples {
    /// Returns median, minimum and maximum; `None` if one run could not measure the number.
    pub fn spread(&self) -> Option<Spread> {
        if self.0.iter().all(|value| value.is_finite()) {
            Spread::of(self.0.iter().copied())
        } else {
            None
        }
    }

    /// Returns the median; not a number if one run could not measure it.
    pub fn median(&self) -> f64 {
        self.spread().map_or(f64::NAN, |spread| spread.median)
    }

    /// Returns the standard error of the mean; zero of a single run, whose spread is not known.
    pub fn standard_error(&self) -> f64 {
        let count = self.0.len() as f64;
        if self.0.len() < 2 {
            return 0.0;
        }
        let mean = self.0.iter().sum::<f64>() / count;
        let squares: f64 = self.0.iter().map(|value| (value - mean).powi(2)).sum();
        (squares / (count - 1.0) / count).sqrt()
    }

    /// Divides by `other`, seed by seed.
    pub fn over(&self, other: &Samples) -> Samples {
        let pairs = self.0.iter().zip(&other.0);
        Samples(pairs.map(|(ours, other)| ours / other).collect())
    }

    /// Returns the largest of several samples, seed by seed.
    pub fn largest<'a>(of: impl IntoIterator<Item = &'a Samples>) -> Samples {
        Samples::folded(of, f64::max)
    }

    /// Returns the least of several samples, seed by seed.
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
            // `max` would hide values that are not a number.
            Samples(
                pairs
                    .map(|(a, b)| {
                        if a.is_nan() || b.is_nan() {
                            f64::NAN
                        } else {
                            fold(a, *b)
                        }
                    })
                    .collect(),
            )
        })
    }
}

/// A named number of ours, beside the paper's.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Name.
    pub name: String,
    /// Unit.
    pub unit: Unit,
    /// Our values, one per seed.
    pub samples: Samples,
    /// The paper's value, if it prints one.
    pub published: Option<f64>,
}

/// Condition for a claim to hold.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Expect {
    /// The condition in words, with the numbers.
    pub text: String,
    /// Whether the condition is met.
    pub is_met: bool,
    /// Whether a setting decides it that the paper does not print, or chance.
    pub is_open: bool,
    /// Distance of the measured value from the bound: negative beyond the bound, minus infinity if
    /// it could not be measured. The unit does not matter: gaps of one expectation are only
    /// compared over seeds.
    #[serde(skip)]
    pub(super) gap: f64,
    #[serde(skip)]
    pub(super) reach: Reach,
}

/// Possible effect of more seeds on an [`Expect`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// No effect: the expectation is about no run.
    Sure,
    /// A change in either direction: it is about a median, a mean or a count of these.
    Typical,
    /// Only breaking it: it is about every run.
    Every,
    /// Only meeting it: it is about any run.
    Any,
}

impl Expect {
    /// Makes an expectation about the set-up, which seeds do not change.
    pub fn that(text: impl Into<String>, is_met: bool) -> Expect {
        let gap = if is_met {
            f64::INFINITY
        } else {
            -f64::INFINITY
        };
        Expect::new(text, is_met, gap, Reach::Sure)
    }

    /// Makes an expectation with the distance `gap` from its bound. It is met if `gap` is at least
    /// zero.
    pub fn by(text: impl Into<String>, gap: f64) -> Expect {
        Expect::new(text, gap >= 0.0, gap, Reach::Typical)
    }

    /// Makes an expectation with the distance `gap` from its bound. It is met if `gap` exceeds
    /// zero.
    pub fn by_more(text: impl Into<String>, gap: f64) -> Expect {
        Expect::new(text, gap > 0.0, gap, Reach::Typical)
    }

    /// Expects that at least `least` of `all` are met.
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

    /// Expects that all of `all` are met.
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

    /// Marks the expectation as open if a value that the paper does not print could equally well
    /// give the other outcome.
    #[must_use]
    pub fn open_if(mut self, is_open: bool) -> Expect {
        self.is_open = is_open;
        self
    }

    /// Makes the expectation one about any run: more runs can only meet it.
    #[must_use]
    pub fn by_any_run(mut self) -> Expect {
        self.reach = Reach::Any;
        self
    }

    /// Makes the expectation one over numbers that are, for example, of one scenario each instead
    /// of one seed each.
    #[must_use]
    pub fn over_cases(mut self) -> Expect {
        self.reach = Reach::Typical;
        self
    }
}

impl Measured {
    /// Makes a number that the paper does not print.
    pub fn new(name: impl Into<String>, unit: Unit, samples: Samples) -> Measured {
        Measured {
            name: name.into(),
            unit,
            samples,
            published: None,
        }
    }

    /// Adds the paper's number.
    #[must_use]
    pub fn beside(mut self, published: f64) -> Measured {
        self.published = Some(published);
        self
    }

    /// Expects a median of `bound` or more.
    pub fn at_least(&self, bound: f64) -> Expect {
        self.median_meets("at least", bound, |median| median - bound)
    }

    /// Expects a median of `bound` or less.
    pub fn at_most(&self, bound: f64) -> Expect {
        self.median_meets("at most", bound, |median| bound - median)
    }

    /// Expects a median above `bound`.
    pub fn more_than(&self, bound: f64) -> Expect {
        let median = self.samples.median();
        let (ours, written) = (self.write(median), self.write(bound));
        let text = format!("{}: median {ours}, expected more than {written}", self.name);
        Expect::by_more(text, median - bound)
    }

    /// Expects a median below `bound`.
    pub fn less_than(&self, bound: f64) -> Expect {
        let median = self.samples.median();
        let (ours, written) = (self.write(median), self.write(bound));
        let text = format!("{}: median {ours}, expected less than {written}", self.name);
        Expect::by_more(text, bound - median)
    }

    /// Expects a median within a share of `target` around it.
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

    /// Expects `bound` or more from every seed.
    pub fn always_at_least(&self, bound: f64) -> Expect {
        self.all_meet("at least", bound, |value| value - bound)
    }

    /// Expects `bound` or less from every seed.
    pub fn always_at_most(&self, bound: f64) -> Expect {
        self.all_meet("at most", bound, |value| bound - value)
    }

    /// Expects a median below another's. A difference below the spread of the runs decides
    /// nothing.
    pub fn below(&self, other: &Measured) -> Expect {
        self.beside_other(other, "<", Expect::by_more)
    }

    /// Expects a median that is no larger than another's. A difference below the spread of the runs
    /// decides nothing.
    pub fn no_more_than(&self, other: &Measured) -> Expect {
        self.beside_other(other, "≤", Expect::by)
    }

    fn beside_other(&self, other: &Measured, sign: &str, by: fn(String, f64) -> Expect) -> Expect {
        let (ours, theirs) = (self.samples.median(), other.samples.median());
        let mut text = format!(
            "{} ({}) {sign} {} ({})",
            self.name,
            self.write(ours),
            other.name,
            other.write(theirs)
        );
        let errors = self
            .samples
            .standard_error()
            .hypot(other.samples.standard_error());
        let is_chance = (theirs - ours).abs() < DECISIVE_ERRORS * errors;
        if is_chance {
            text.push_str("; the difference is below the spread of the runs");
        }
        by(text, theirs - ours).open_if(is_chance)
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
        let least = gaps
            .reduce(|one, other| {
                if one.is_nan() || other.is_nan() {
                    f64::NAN
                } else {
                    one.min(other)
                }
            })
            .unwrap_or(f64::NAN);
        Expect::new(text, least >= 0.0, least, Reach::Every)
    }

    /// Returns median and range as text, with the unit.
    pub fn all(&self) -> String {
        cell(self.samples.spread(), |value| self.write(value))
    }

    /// Returns a value of this kind as text, with the unit.
    pub fn write(&self, value: f64) -> String {
        if value.is_finite() {
            written(value, self.unit)
        } else {
            "unmeasured".to_owned()
        }
    }
}

/// Verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Verdict {
    /// All expectations are met.
    #[serde(rename = "holds")]
    Holds,
    /// An expectation is not met.
    #[serde(rename = "differs")]
    Differs,
    /// The source is lost, argues without anything that a run could contradict, or does not print
    /// the setting that decides.
    #[serde(rename = "cannot be known")]
    CannotBeKnown,
}

impl Verdict {
    /// Returns the name for reports.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::Differs => "differs",
            Verdict::CannotBeKnown => "cannot be known",
        }
    }
}

/// Cases without chance, in which a spread of zero means nothing.
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
    /// Returns a sentence; `None` if chance has a part everywhere.
    pub(super) fn sentence(&self) -> Option<String> {
        const SAME: &str = "all seeds gave the same result, without any chance";
        match self {
            WithoutChance::None => None,
            WithoutChance::Some(cases) => Some(format!("{SAME}, in: {}", cases.join(", "))),
            WithoutChance::All => Some(SAME.to_owned()),
        }
    }
}

/// Numbers, expectations and pictures from the runs of a claim.
#[derive(Clone, Debug, Default)]
pub struct Judgement {
    /// Numbers; the first is the one that the claim is about.
    pub values: Vec<Measured>,
    /// Expectations.
    pub expects: Vec<Expect>,
    /// Reason for which ours differ, if they do.
    pub why: String,
    /// Experiment that tests this reason by taking the cause away, and its outcome. Empty: none
    /// does.
    pub ablation: String,
    /// Pictures, in the paper's axes.
    pub charts: Vec<Chart>,
    /// Cases in which several seeds gave the same result.
    pub without_chance: WithoutChance,
    /// Sentence for the summary, beside the verdict; may be empty.
    pub headline: String,
    is_unknowable: bool,
}

impl Judgement {
    /// Makes an empty judgement.
    pub fn new() -> Judgement {
        Judgement::default()
    }

    /// Makes a judgement of a claim whose source is lost, or holds nothing that a run could
    /// contradict.
    pub fn unknowable(why: impl Into<String>) -> Judgement {
        Judgement {
            why: why.into(),
            is_unknowable: true,
            ..Judgement::default()
        }
    }

    /// Adds a number to the report.
    pub fn report(&mut self, value: &Measured) {
        self.values.push(value.clone());
    }

    /// Adds an expectation.
    pub fn expect(&mut self, expect: Expect) {
        self.expects.push(expect);
    }

    /// Adds a picture.
    pub fn draw(&mut self, chart: Chart) {
        self.charts.push(chart);
    }

    /// Sets the reason for which ours differ, printed only if they do.
    #[must_use]
    pub fn because(mut self, why: impl Into<String>) -> Judgement {
        self.why = why.into();
        self
    }

    /// Sets the experiment that tests the reason by taking the cause away.
    #[must_use]
    pub fn ablated(mut self, text: impl Into<String>) -> Judgement {
        self.ablation = text.into();
        self
    }

    /// Sets a sentence for the summary, whatever the verdict.
    #[must_use]
    pub fn headline(mut self, text: impl Into<String>) -> Judgement {
        self.headline = text.into();
        self
    }

    /// Returns the verdict. A claim without expectations differs.
    pub fn verdict(&self) -> Verdict {
        let differs = self.expects.is_empty()
            || self
                .expects
                .iter()
                .any(|expect| !expect.is_met && !expect.is_open);
        let is_open = self.expects.iter().any(|expect| expect.is_open);
        match (self.is_unknowable, differs, is_open) {
            (true, _, _) | (false, false, true) => Verdict::CannotBeKnown,
            (false, true, _) => Verdict::Differs,
            (false, false, false) => Verdict::Holds,
        }
    }
}

/// A judgement with its verdict and number of seeds.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The numbers and pictures.
    pub judgement: Judgement,
    /// Verdict.
    pub verdict: Verdict,
    /// Number of seeds that were run; zero if there is nothing to run.
    pub seed_count: u64,
    /// Runs that decided, one per case.
    pub runs: Vec<RunProvenance>,
}

impl Judged {
    pub(super) fn new(judgement: Judgement, seed_count: u64, runs: Vec<RunProvenance>) -> Judged {
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
    fn unknown_leaves_the_verdict_open() {
        fn verdict(expects: &[(bool, bool)]) -> Verdict {
            let mut judgement = Judgement::new();
            for (is_met, is_open) in expects {
                judgement.expect(Expect::that("it", *is_met).open_if(*is_open));
            }
            judgement.verdict()
        }
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
    fn a_difference_below_the_spread_of_the_runs_decides_nothing() {
        let seeds = measured(&[1.0, 3.0, 2.0, 2.0]);
        let near = measured(&[3.0, 1.0, 2.5, 2.5]);
        let far = measured(&[9.0, 11.0, 10.0, 10.0]);
        for expect in [
            seeds.below(&near),
            near.below(&seeds),
            near.no_more_than(&seeds),
        ] {
            assert!(expect.is_open, "{}", expect.text);
        }
        assert!(!seeds.below(&far).is_open && seeds.below(&far).is_met);
        assert!(!far.below(&seeds).is_open && !far.below(&seeds).is_met);
        // The spread of runs without chance is zero, so that any difference decides.
        let [one, other] = [&[1.0, 1.0], &[1.01, 1.01]].map(|values| measured(values));
        assert!(one.below(&other).is_met && !one.below(&other).is_open);
        assert!(one.no_more_than(&one).is_met && !one.below(&one).is_met);
    }

    #[test]
    fn missing_measurements_meet_nothing() {
        let lost = measured(&[1.0, f64::NAN]);
        assert!(!lost.at_least(0.0).is_met && !lost.at_most(9.0).is_met);
        assert!(!lost.below(&measured(&[2.0])).is_met);
        assert!(!lost.always_at_most(9.0).is_met && !measured(&[]).always_at_least(0.0).is_met);
        let largest = Samples::largest([&lost.samples, &measured(&[5.0, 5.0]).samples]);
        assert!(largest.0[0] == 5.0 && largest.0[1].is_nan());
        assert_eq!(Judgement::new().verdict(), Verdict::Differs);
    }
}
