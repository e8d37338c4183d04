//! Measurements of the runs of a claim's cases.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::judgement::{Expect, Measured, Samples, WithoutChance};
use super::record::RunRecord;
use anabranch_lab::subject_name;
use anabranch_lab::{Expectation, Scenario};

/// The runs of a claim's cases.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    cases: BTreeMap<String, CaseRuns>,
}

/// The runs of one case.
#[derive(Clone, Debug)]
struct CaseRuns {
    /// Expectations of its file, if they count, each with its name.
    expectations: Vec<(String, Expectation)>,
    /// Runs by seed.
    runs: Vec<Arc<RunRecord>>,
}

impl CaseRuns {
    /// Returns whether several seeds gave the same result.
    fn is_alike(&self) -> bool {
        let (first, others) = self.runs.split_first().expect("a seed at least");
        !others.is_empty()
            && others
                .iter()
                .all(|other| other.trace_hash == first.trace_hash)
    }
}

impl Evidence {
    pub(super) fn add(&mut self, case: String, scenario: &Scenario, runs: Vec<Arc<RunRecord>>) {
        let expectations = scenario
            .expectations
            .iter()
            .map(|expectation| {
                let subject = subject_name(scenario, expectation.subject);
                let name: Vec<&str> = [Some(expectation.metric.name), subject.as_deref()]
                    .into_iter()
                    .flatten()
                    .collect();
                (name.join("."), expectation.clone())
            })
            .collect();
        self.cases.insert(case, CaseRuns { expectations, runs });
    }

    /// Returns the cases in which several seeds gave the same result.
    pub(super) fn without_chance(&self) -> WithoutChance {
        let alike: Vec<String> = self
            .cases
            .iter()
            .filter(|(_, case)| case.is_alike())
            .map(|(name, _)| name.clone())
            .collect();
        match alike.len() {
            0 => WithoutChance::None,
            count if count == self.cases.len() => WithoutChance::All,
            _ => WithoutChance::Some(alike),
        }
    }

    /// Returns the evidence of one seed, by index; the last one of a case with fewer seeds.
    pub(super) fn alone(&self, place: usize) -> Evidence {
        Evidence {
            cases: self
                .cases
                .iter()
                .map(|(name, case)| {
                    let run = case.runs.get(place).or(case.runs.last());
                    let one = CaseRuns {
                        expectations: case.expectations.clone(),
                        runs: run.cloned().into_iter().collect(),
                    };
                    (name.clone(), one)
                })
                .collect(),
        }
    }

    fn case(&self, name: &str) -> &CaseRuns {
        let case = self.cases.get(name);
        case.unwrap_or_else(|| panic!("no case is called {name:?}"))
    }

    /// Returns all runs of a case, by seed.
    ///
    /// # Panics
    /// Panics if the claim has no such case.
    pub fn runs(&self, case: &str) -> &[Arc<RunRecord>] {
        &self.case(case).runs
    }

    /// Returns the expectations of a case's file, about every run, as `anabranch-lab run` judges
    /// them.
    ///
    /// # Panics
    /// Panics if the claim has no such case.
    pub fn promises(&self, case: &str) -> Vec<Expect> {
        let CaseRuns { expectations, runs } = self.case(case);
        expectations
            .iter()
            .enumerate()
            .flat_map(|(place, (name, expectation))| {
                let values = runs
                    .iter()
                    .map(|run| run.expected[place].unwrap_or(f64::NAN));
                let samples = Samples(values.collect());
                let name = format!("{case}: {name}");
                let measured = Measured::new(name, expectation.metric.unit, samples);
                let least = expectation.min.map(|min| measured.always_at_least(min));
                let most = expectation.max.map(|max| measured.always_at_most(max));
                least.into_iter().chain(most)
            })
            .collect()
    }

    /// Returns a number of each run of a case. A number that cannot be measured is NaN, and meets
    /// no expectation.
    pub fn each(&self, case: &str, measure: impl Fn(&RunRecord) -> f64) -> Samples {
        Samples(self.runs(case).iter().map(|run| measure(run)).collect())
    }

    /// Returns the run for pictures: that of the first seed.
    pub fn shown(&self, case: &str) -> &RunRecord {
        &self.runs(case)[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Case;

    const TEXT: &str = r#"
        duration = "1 s"
        links.l = { rate = "1 Mbit/s" }
        routes.r = { forward = ["l"], reverse = ["l"] }
        flows = [{ paths = ["r"] }]
        expect.frames-decodable-on-time = { min = "50 %", max = "90 %" }
        expect.utilisation.l = { max = "20 %" }
    "#;

    /// Returns the file's expectations for runs with these measurements, and whether they are met.
    fn promises(case: &Case, measured: &[[Option<f64>; 2]]) -> Vec<(String, bool)> {
        let scenario = case.scenario().unwrap_or_else(|error| panic!("{error}"));
        let mut evidence = Evidence::default();
        evidence.add(
            "run".to_owned(),
            &scenario,
            measured
                .iter()
                .map(|expected| {
                    let mut run = RunRecord::default();
                    run.expected.extend(expected);
                    Arc::new(run)
                })
                .collect(),
        );
        let expects = evidence.promises("run").into_iter();
        expects
            .map(|expect| {
                let name = expect.text.split(": ").nth(1).unwrap_or_default();
                (name.to_owned(), expect.is_met)
            })
            .collect()
    }

    #[test]
    fn a_promise_has_to_be_kept_in_every_run_and_by_both_of_its_bounds() {
        let bare = Case::new("run", "run.toml", TEXT);
        assert_eq!(promises(&bare, &[[Some(0.6), Some(0.1)]]), []);
        let case = bare.with_promises();
        let names = [
            "frames-decodable-on-time",
            "frames-decodable-on-time",
            "utilisation.l",
        ];
        for (measured, is_met) in [
            (&[[Some(0.6), Some(0.1)]][..], [true, true, true]),
            (
                &[[Some(0.6), Some(0.1)], [Some(0.4), Some(0.3)]],
                [false, true, false],
            ),
            (&[[Some(0.95), None]], [true, false, false]),
        ] {
            let expected: Vec<(String, bool)> =
                names.map(str::to_owned).into_iter().zip(is_met).collect();
            assert_eq!(promises(&case, measured), expected);
        }
    }
}
