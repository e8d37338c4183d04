//! Spaces of the settings that a paper does not print: a claim is judged at points that nobody
//! picked.
//!
//! A [`Space`] has a [`Dimension`] for each such setting (a base delay, a queue), with its two or
//! three possible values. [`Space::points`] are 9 or 27 combinations of these: an orthogonal array
//! (Taguchi's L9 and L27, the linear codes over three elements). In it each value of one dimension
//! meets each value of any other equally often. The share of points at which an expectation is met,
//! value by value, therefore shows the effect of one dimension alone. A dimension with two values
//! fills the place of the third with each in turn, so that both occur nearly equally often.
//!
//! A claim names its cases with [`Space::cases`], judges each point by [`Point::of`], and passes
//! its expectations there to [`Space::met_points`]. The [`MetPoints`] writes shares, picture and
//! verdict. The claim holds if it does at more than half of the points, the same bound for all
//! claims. It cannot be known if as many points would meet it by the toss of a coin: within half
//! the root of their number from half of them. Nor can it be known if one dimension decides it: met
//! at three quarters of the points or more with one of its values, and at a quarter or less with
//! another. [`Space::met_points_where`] counts only points of which something else is known.

use anabranch_lab::metrics::Unit;
use anabranch_lab::{Bar, BarKind, Bars, Chart, Spread};

use super::case::Case;
use super::judgement::{Expect, Judgement, Measured, Samples};

/// Least share of the points for a claim to hold.
const MOST: f64 = 0.5;
/// Shares of the points with two values of a dimension, below and above which this dimension
/// decides. With nine points, a third of 27, these are two and seven: chance rarely gives such
/// shares.
const DECIDED: (f64, f64) = (0.25, 0.75);
/// Least number of points with a value for it to decide: by chance all of three meet an even claim
/// once in eight times, and none of three others as rarely.
const DECIDING_POINTS: usize = 3;
/// Columns of L27: weights of three digits. The first three dimensions have all combinations.
const OF_27: [[usize; 3]; 13] = [
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
    [1, 1, 1],
    [1, 1, 2],
    [1, 2, 1],
    [1, 2, 2],
    [1, 1, 0],
    [1, 0, 1],
    [0, 1, 1],
    [1, 2, 0],
    [1, 0, 2],
    [0, 1, 2],
];
/// Columns of L9, with two digits.
const OF_9: [[usize; 3]; 4] = [[1, 0, 0], [0, 1, 0], [1, 1, 0], [1, 2, 0]];

/// A setting that a paper does not print.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dimension {
    pub(crate) name: &'static str,
    /// Two or three possible values.
    pub(crate) values: &'static [Value],
}

/// A possible value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value {
    pub(crate) name: &'static str,
    /// Keys of the scenario, and their values.
    pub(crate) settings: &'static [(&'static str, &'static str)],
}

/// All settings that a paper does not print.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Space(pub(crate) &'static [Dimension]);

/// A value of each dimension, by index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    number: usize,
    values: Vec<usize>,
}

impl Space {
    /// Returns 9 points for up to four dimensions, 27 for up to 13.
    pub(crate) fn points(&self) -> Vec<Point> {
        let (count, columns) = if self.0.len() <= OF_9.len() {
            (9, &OF_9[..])
        } else {
            (27, &OF_27[..])
        };
        let mut third_counts = vec![0; self.0.len()];
        let mut points = Vec::with_capacity(count);
        for number in 0..count {
            let digits = [number % 3, number / 3 % 3, number / 9];
            let mut values = Vec::new();
            for (place, dimension) in self.0.iter().enumerate() {
                let parts = columns[place].iter().zip(digits);
                let level = parts.map(|(by, digit)| by * digit).sum::<usize>() % 3;
                values.push(if level < dimension.values.len() {
                    level
                } else {
                    third_counts[place] += 1;
                    (third_counts[place] - 1) % dimension.values.len()
                });
            }
            points.push(Point { number, values });
        }
        points
    }

    /// Returns the index of the point with the most middle values; of two values the first is the
    /// middle one.
    pub(crate) fn middle(&self) -> usize {
        let mut middle = 0;
        let mut most = 0;
        for (place, point) in self.points().iter().enumerate() {
            let values = point.values.iter().zip(self.0);
            let count = values
                .filter(|(value, dimension)| **value == (dimension.values.len() - 1) / 2)
                .count();
            if count > most {
                (middle, most) = (place, count);
            }
        }
        middle
    }

    /// Describes a point's values in a phrase.
    pub(crate) fn describe(&self, point: &Point) -> String {
        let values = self.0.iter().zip(&point.values);
        let names = values.map(|(dimension, value)| {
            format!("{} {}", dimension.name, dimension.values[*value].name)
        });
        names.collect::<Vec<_>>().join(", ")
    }

    /// Returns `cases` at each point, named by [`Point::of`].
    pub(crate) fn cases(&self, cases: &[Case]) -> Vec<Case> {
        self.points()
            .into_iter()
            .flat_map(|point| cases.iter().map(move |case| self.at(case, &point)))
            .collect()
    }

    /// Returns a case at a point. The case's own settings take precedence.
    pub(crate) fn at(&self, case: &Case, point: &Point) -> Case {
        let values = self.0.iter().zip(&point.values);
        let settings = values.flat_map(|(dimension, value)| dimension.values[*value].settings);
        let mut at = Case {
            name: point.of(&case.name),
            settings: Vec::new(),
            ..case.clone()
        };
        at = settings.fold(at, |case, (key, value)| case.set(key, value));
        at.settings.extend(case.settings.iter().cloned());
        at
    }

    /// Tallies the points at which all of `expects` are met.
    pub(crate) fn met_points(&self, expects: impl Fn(&Point) -> Vec<Expect>) -> MetPoints {
        self.met_points_where(|_| true, expects)
    }

    /// Tallies the points that count and at which all of `expects` are met.
    pub(crate) fn met_points_where(
        &self,
        counts: impl Fn(&Point) -> bool,
        expects: impl Fn(&Point) -> Vec<Expect>,
    ) -> MetPoints {
        let mut points = self.points();
        points.retain(counts);
        let is_met = points
            .iter()
            .map(|point| {
                let expects = expects(point);
                !expects.is_empty() && expects.iter().all(|expect| expect.is_met)
            })
            .collect();
        MetPoints {
            space: *self,
            points,
            is_met,
        }
    }
}

impl Point {
    /// Returns the name of a case at this point.
    pub(crate) fn of(&self, case: &str) -> String {
        format!("{case}, point {}", self.number + 1)
    }

    /// Returns the index of the value of a dimension.
    pub(crate) fn value(&self, dimension: usize) -> usize {
        self.values[dimension]
    }
}

/// Points at which an expectation is met.
#[derive(Clone, Debug)]
pub(crate) struct MetPoints {
    space: Space,
    points: Vec<Point>,
    is_met: Vec<bool>,
}

impl MetPoints {
    /// Returns the number of points at which it is met, and the number of all that count.
    pub(crate) fn count(&self) -> (usize, usize) {
        let met = self.is_met.iter().filter(|is_met| **is_met).count();
        (met, self.points.len())
    }

    /// Returns the share of the points that count; not a number if there are none.
    pub(crate) fn share(&self) -> f64 {
        let (met, all) = self.count();
        met as f64 / all as f64
    }

    /// Returns the same two numbers for each value of a dimension.
    pub(crate) fn by_value(&self, dimension: usize) -> Vec<(usize, usize)> {
        (0..self.space.0[dimension].values.len())
            .map(|value| {
                let points = self.points.iter().zip(&self.is_met);
                let with: Vec<bool> = points
                    .filter(|(point, _)| point.value(dimension) == value)
                    .map(|(_, is_met)| *is_met)
                    .collect();
                let met = with.iter().filter(|is_met| **is_met).count();
                (met, with.len())
            })
            .collect()
    }

    /// Returns the difference between the largest and the least share of a dimension's values.
    fn spread(&self, dimension: usize) -> f64 {
        let shares: Vec<f64> = self.shares(dimension).into_iter().flatten().collect();
        let largest = shares.iter().copied().fold(0.0, f64::max);
        largest - shares.iter().copied().fold(1.0, f64::min)
    }

    /// Returns the dimension whose values differ most in their shares, the first of equal ones;
    /// `None` if no value makes a difference.
    pub(crate) fn decisive(&self) -> Option<usize> {
        let mut best = None;
        for dimension in 0..self.space.0.len() {
            let spread = self.spread(dimension);
            if spread > best.map_or(0.0, |(most, _)| most) {
                best = Some((spread, dimension));
            }
        }
        best.map(|(_, dimension)| dimension)
    }

    /// Returns the dimension that decides, if there is one.
    fn deciding(&self) -> Option<usize> {
        const ROUNDING: f64 = 1e-9;
        let (little, much) = (DECIDED.0 + ROUNDING, DECIDED.1 - ROUNDING);
        self.decisive().filter(|dimension| {
            let by_value = self.by_value(*dimension).into_iter();
            let enough = by_value.filter(|(_, all)| *all >= DECIDING_POINTS);
            let shares: Vec<f64> = enough.map(|(met, all)| met as f64 / all as f64).collect();
            shares.iter().any(|share| *share >= much) && shares.iter().any(|share| *share <= little)
        })
    }

    /// Returns the share of each value of a dimension; `None` if no point with it counts.
    fn shares(&self, dimension: usize) -> Vec<Option<f64>> {
        let by_value = self.by_value(dimension).into_iter();
        by_value
            .map(|(met, all)| (all > 0).then(|| met as f64 / all as f64))
            .collect()
    }

    /// Returns whether the toss of a coin at each point would give as many, within one standard
    /// deviation.
    fn is_like_chance(&self) -> bool {
        let (met, all) = self.count();
        (met as f64 - MOST * all as f64).abs() < (all as f64).sqrt() / 2.0
    }

    /// Describes the number of points and the decisive dimension in a sentence.
    pub(crate) fn sentence(&self) -> String {
        let (met, all) = self.count();
        let mut text = format!("Met at {met} of {all} points");
        if let Some(dimension) = self.decisive() {
            let Dimension { name, values } = self.space.0[dimension];
            let by_value = values.iter().zip(self.by_value(dimension));
            let parts: Vec<String> = by_value
                .map(|(value, (met, all))| format!("{} {met} of {all}", value.name))
                .collect();
            text.push_str(&format!("; most depends on {name}: {}", parts.join(", ")));
        }
        text.push('.');
        text
    }

    /// Returns the share of the points, as a number for reports.
    pub(crate) fn measured(&self, name: &str) -> Measured {
        let name = format!("{name}: share of {} points", self.points.len());
        Measured::new(name, Unit::Share, Samples(vec![self.share()]))
    }

    /// Expects that it is met at more than half of the points.
    pub(crate) fn expect(&self, name: &str) -> Expect {
        let deciding = self.deciding();
        let mut text = format!("{name}: {} Expected: more than half.", self.sentence());
        if self.points.is_empty() {
            text.push_str(" No point counts.");
        } else if self.is_like_chance() {
            text.push_str(" So near to half of them, the choice of points decides.");
        }
        if let Some(dimension) = deciding {
            let what = self.space.0[dimension].name;
            text.push_str(&format!(" The paper does not print what decides: {what}."));
        }
        let is_open = deciding.is_some() || self.points.is_empty() || self.is_like_chance();
        Expect::by_more(text, self.share() - MOST).open_if(is_open)
    }

    /// Expects that it is met at one point at least.
    pub(crate) fn expect_some(&self, name: &str) -> Expect {
        let (met, all) = self.count();
        let text = format!("{name}: met at {met} of {all} points, expected one at least");
        Expect::by(text, met as f64 - 1.0).open_if(all == 0)
    }

    /// Reports the points, draws them and makes the verdict depend on them.
    pub(crate) fn report(&self, name: &str, judgement: &mut Judgement) {
        self.show(name, judgement);
        judgement.expect(self.expect_some(name));
        judgement.expect(self.expect(name));
    }

    /// Describes the effect of the decisive dimension as an experiment; `None` if no value makes a
    /// difference.
    pub(crate) fn ablation(&self) -> Option<String> {
        self.decisive()?;
        Some(format!("the points of the space. {}", self.sentence()))
    }

    /// Reports and draws the points without an effect on the verdict.
    pub(crate) fn show(&self, name: &str, judgement: &mut Judgement) {
        judgement.report(&self.measured(name));
        if let Some(dimension) = self.decisive() {
            let Dimension { name: what, values } = self.space.0[dimension];
            for (value, share) in values.iter().zip(self.shares(dimension)) {
                let name = format!("{name}, with {what} {}", value.name);
                let share = share.unwrap_or(f64::NAN);
                judgement.report(&Measured::new(name, Unit::Share, Samples(vec![share])));
            }
            judgement.draw(self.chart(name));
        }
    }

    /// Draws the share of the points with each value of each dimension.
    fn chart(&self, name: &str) -> Chart {
        let (mut groups, mut bars) = (Vec::new(), Vec::new());
        for (place, dimension) in self.space.0.iter().enumerate() {
            for (value, share) in dimension.values.iter().zip(self.shares(place)) {
                groups.push(format!("{} {}", dimension.name, value.name));
                bars.push(Spread::of(share.map(|share| share * 100.0)).map(Bar::from));
            }
        }
        let (met, all) = self.count();
        Chart::Bars(Bars {
            title: format!("{name}: {met} of {all} points"),
            y: "% of the points with this value".to_owned(),
            kinds: vec![BarKind {
                label: "settings that the paper omits".to_owned(),
                bars,
            }],
            groups,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::judgement::Verdict;

    const TWO: &[Value] = &[
        value("a", &[("duration", "1 s")]),
        value("b", &[("duration", "2 s")]),
    ];
    const THREE: &[Value] = &[value("x", &[]), value("y", &[]), value("z", &[])];

    const fn value(name: &'static str, settings: &'static [(&'static str, &'static str)]) -> Value {
        Value { name, settings }
    }

    const fn dimension(name: &'static str, values: &'static [Value]) -> Dimension {
        Dimension { name, values }
    }

    const FOUR: Space = Space(&[
        dimension("one", THREE),
        dimension("two", THREE),
        dimension("three", THREE),
        dimension("four", TWO),
    ]);
    const THIRTEEN: Space = Space(&[dimension("all", THREE); 13]);

    fn expects(is_met: bool) -> Vec<Expect> {
        vec![Expect::that("it", is_met)]
    }

    #[test]
    fn each_value_meets_each_value_of_another_dimension_equally_often() {
        for (space, count, dimensions) in [(FOUR, 9, 3), (THIRTEEN, 27, 13)] {
            let points = space.points();
            assert_eq!(points.len(), count);
            for one in 0..dimensions {
                for other in 0..one {
                    for pair in 0..9 {
                        let met = points
                            .iter()
                            .filter(|point| {
                                (point.value(one), point.value(other)) == (pair / 3, pair % 3)
                            })
                            .count();
                        assert_eq!(met, count / 9, "{one} and {other}");
                    }
                }
            }
        }
        let all = THIRTEEN.points();
        let triples: BTreeSet<&[usize]> = all.iter().map(|point| &point.values[..3]).collect();
        assert_eq!((triples.len(), all.len()), (27, 27));
        // The third's three places go to both of two values in turn.
        let fourths: Vec<usize> = FOUR.points().iter().map(|point| point.value(3)).collect();
        assert_eq!(fourths, [0, 1, 0, 1, 0, 1, 1, 0, 0]);
    }

    #[test]
    fn cases_have_the_settings_and_the_name_of_their_points() {
        let case = Case::new("run", "run.toml", "").set("title", "a case's own");
        let cases = FOUR.cases(&[case.clone(), Case::new("other", "run.toml", "")]);
        assert_eq!(cases.len(), 18);
        let points = FOUR.points();
        for (case, point) in cases.iter().step_by(2).zip(&points) {
            assert_eq!(case.name, point.of("run"));
            let expected = ["duration=1 s", "duration=2 s"][point.value(3)];
            assert_eq!(case.settings, [expected, "title=a case's own"]);
        }
        assert_ne!(cases[0].name, cases[2].name);
        assert_eq!(cases[1].name, points[0].of("other"));
    }

    #[test]
    fn the_middle_has_the_middle_values() {
        let middle = &FOUR.points()[FOUR.middle()];
        // No point of the nine has four middle values.
        let values: Vec<usize> = (0..4).map(|place| middle.value(place)).collect();
        assert_eq!(values, [1, 1, 2, 0]);
        assert_eq!(FOUR.describe(middle), "one y, two y, three z, four a");
    }

    #[test]
    fn what_decides_is_found_and_nothing_else() {
        let met_points = FOUR.met_points(|point| expects(point.value(1) != 2));
        assert_eq!(
            (met_points.count(), met_points.decisive()),
            ((6, 9), Some(1))
        );
        assert_eq!(met_points.by_value(1), [(3, 3), (3, 3), (0, 3)]);
        assert_eq!(met_points.by_value(0), [(2, 3); 3]);
        let sentence = "Met at 6 of 9 points; most depends on two: x 3 of 3, y 3 of 3, z 0 of 3.";
        assert_eq!(met_points.sentence(), sentence);
        let always = FOUR.met_points(|_| expects(true));
        assert_eq!((always.decisive(), always.share()), (None, 1.0));
        assert_eq!(always.sentence(), "Met at 9 of 9 points.");
    }

    #[test]
    fn a_point_meets_a_claim_if_all_is_met_and_something_is_expected() {
        let [met, unmet] = [true, false].map(|is_met| [expects(true), expects(is_met)].concat());
        assert_eq!(FOUR.met_points(|_| met.clone()).count(), (9, 9));
        assert_eq!(FOUR.met_points(|_| unmet.clone()).count(), (0, 9));
        assert_eq!(FOUR.met_points(|_| Vec::new()).count(), (0, 9));
    }

    #[test]
    fn more_points_than_a_coin_would_give_make_a_claim_hold() {
        fn verdict(met: usize) -> Verdict {
            // In this order no dimension decides.
            let order = [0, 4, 8, 5, 3, 7, 2, 6, 1];
            let mut judgement = Judgement::new();
            let met_points = FOUR.met_points(|point| expects(order[..met].contains(&point.number)));
            met_points.report("it", &mut judgement);
            assert_eq!(judgement.values[0].samples.0, [met as f64 / 9.0]);
            let is_met = judgement.expects.iter().map(|expect| expect.is_met);
            assert_eq!(is_met.collect::<Vec<_>>(), [met >= 1, met >= 5]);
            judgement.verdict()
        }
        assert_eq!(verdict(0), Verdict::Differs);
        assert_eq!(verdict(1), Verdict::Differs);
        // Half the root of nine is one and a half: 3.1 to 5.9 are like chance.
        assert_eq!(verdict(3), Verdict::Differs);
        assert_eq!(verdict(4), Verdict::CannotBeKnown);
        assert_eq!(verdict(5), Verdict::CannotBeKnown);
        assert_eq!(verdict(6), Verdict::Holds);
        // One value has all points, another has none.
        let mut decided = Judgement::new();
        FOUR.met_points(|point| expects(point.value(1) != 2))
            .report("it", &mut decided);
        assert_eq!(decided.verdict(), Verdict::CannotBeKnown);
        assert!(decided.expects[1].text.ends_with("what decides: two."));
        // Two points with each value do not decide.
        let few = THIRTEEN.met_points_where(
            |point| point.number < 6,
            |point| expects(point.value(0) == 2),
        );
        assert_eq!((few.count(), few.deciding()), ((2, 6), None));
        let mut shown = Judgement::new();
        FOUR.met_points(|_| expects(true)).show("it", &mut shown);
        assert!(shown.expects.is_empty() && shown.values.len() == 1);
    }

    #[test]
    fn only_points_count_of_which_something_else_is_known() {
        let met_points = FOUR.met_points_where(
            |point| point.value(0) != 1,
            |point| expects(point.value(0) == 0),
        );
        assert_eq!(met_points.count(), (3, 6));
        assert_eq!(met_points.by_value(0), [(3, 3), (0, 0), (0, 3)]);
        let mut none = Judgement::new();
        FOUR.met_points_where(|_| false, |_| expects(true))
            .report("it", &mut none);
        assert_eq!(none.verdict(), Verdict::CannotBeKnown);
    }
}
