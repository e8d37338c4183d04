//! From claims to runs, each of which is run once, and back to verdicts.

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_units::Duration;

use super::cache::Cache;
use super::claim::{Algorithms, Case, Claim, Forms, Swap};
use super::evidence::{Evidence, RunRecord};
use super::report::{AsPublished, Columns, Finding};
use anabranch_lab::{Progress, RunError, RunOptions, in_parallel, run_outcomes};
use anabranch_lab::{Scenario, ScenarioError};

/// How claims are tested.
#[derive(Clone, Debug)]
pub struct StudyOptions {
    /// Seeds 1 to this many.
    pub seed_count: u64,
    /// How many runs at a time; 0: one per core.
    pub threads: usize,
    /// Where runs are kept, if anywhere.
    pub cache: Option<Cache>,
}

/// Why claims cannot be tested.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StudyError {
    /// A claim's scenario cannot be read.
    #[error("{id}: {error}")]
    Scenario {
        /// The claim.
        id: &'static str,
        /// Why not.
        error: ScenarioError,
    },
    /// A scenario cannot be run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A run cannot be kept.
    #[error("the cache: {0}")]
    Cache(#[from] std::io::Error),
}

/// Claims, and the runs that they take.
#[derive(Debug)]
pub struct Study {
    claims: Vec<Planned>,
    runs: Vec<Run>,
}

#[derive(Debug)]
struct Planned {
    claim: &'static Claim,
    cases: PlannedCases,
    /// The same with the paper's algorithm as published, if ours is another.
    as_published: Option<(&'static Forms, PlannedCases)>,
}

/// By the case's name, the place among the runs.
type PlannedCases = Vec<(String, usize)>;

/// A scenario that one case, or several of one or several claims, ask for.
#[derive(Debug)]
struct Run {
    key: String,
    scenario: Scenario,
    interval: Duration,
}

impl Study {
    /// Plans the test of `claims`, each about what `swap` says.
    ///
    /// # Errors
    /// [`StudyError::Scenario`].
    pub fn new(
        claims: &[&'static Claim],
        swap: Swap<'_>,
        columns: Columns,
    ) -> Result<Study, StudyError> {
        let mut study = Study {
            claims: Vec::new(),
            runs: Vec::new(),
        };
        let mut places = BTreeMap::new();
        for claim in claims {
            let cases = (claim.cases)(swap.of(claim.subject));
            let as_published = match &claim.paper.algorithms {
                Algorithms::Developed(forms) if columns == Columns::Both => {
                    let planned = study.plan(claim, &cases, Some(forms), &mut places)?;
                    planned.map(|planned| (forms, planned))
                }
                _ => None,
            };
            let cases = study.plan(claim, &cases, None, &mut places)?;
            study.claims.push(Planned {
                claim,
                cases: cases.unwrap_or_default(),
                as_published,
            });
        }
        Ok(study)
    }

    /// Plans the runs of `cases`; with `forms`, those of the algorithm as published: `None` if no
    /// case has ours.
    fn plan(
        &mut self,
        claim: &'static Claim,
        cases: &[Case],
        forms: Option<&Forms>,
        places: &mut BTreeMap<String, usize>,
    ) -> Result<Option<PlannedCases>, StudyError> {
        let (mut planned, mut has_ours) = (Vec::new(), forms.is_none());
        let mut runs = Vec::new();
        for case in cases {
            let mut key = case.key();
            let scenario = case.scenario();
            let mut scenario = scenario.map_err(|error| StudyError::Scenario {
                id: claim.id,
                error,
            })?;
            if let Some(forms) = forms
                && forms.publish(&mut scenario)
            {
                key.push_str("\nas published");
                has_ours = true;
            }
            runs.push((case, key, scenario));
        }
        if !has_ours {
            return Ok(None);
        }
        for (case, key, scenario) in runs {
            let place = *places.entry(key.clone()).or_insert(self.runs.len());
            if place == self.runs.len() {
                self.runs.push(Run {
                    key,
                    scenario,
                    interval: case.interval,
                });
            }
            planned.push((case.name.clone(), place));
        }
        Ok(Some(planned))
    }

    /// How much time one seed simulates.
    pub fn simulated(&self) -> Duration {
        let spans = self.runs.iter().map(|run| run.scenario.duration);
        spans.fold(Duration::ZERO, |sum, span| sum + span)
    }

    /// How many scenarios are run.
    pub fn scenario_count(&self) -> usize {
        self.runs.len()
    }

    /// Runs what is not in the cache, and judges. `progress` hears of simulated time, in all
    /// [`Study::simulated`] × seeds; of a run from the cache all at once.
    ///
    /// # Errors
    /// [`StudyError`].
    pub fn findings(
        &self,
        options: &StudyOptions,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<Vec<Finding>, StudyError> {
        let jobs: Vec<(&Run, u64)> = self
            .runs
            .iter()
            .flat_map(|run| (1..=options.seed_count).map(move |seed| (run, seed)))
            .collect();
        let records = in_parallel(&jobs, options.threads, |(run, seed)| {
            run.record(*seed, options.cache.as_ref(), progress)
        });
        let records: Vec<Arc<RunRecord>> = records
            .into_iter()
            .map(|record| record.map(Arc::new))
            .collect::<Result<_, _>>()?;
        let by_run: Vec<&[Arc<RunRecord>]> =
            records.chunks(options.seed_count.max(1) as usize).collect();
        let judge = |claim: &Claim, cases: &PlannedCases| {
            let mut evidence = Evidence::default();
            for (name, place) in cases {
                let scenario = &self.runs[*place].scenario;
                evidence.add(name.clone(), scenario, by_run[*place].to_vec());
            }
            let mut judgement = (claim.judge)(&evidence);
            judgement.without_chance = evidence.without_chance();
            judgement
        };
        let finding = |planned: &Planned| {
            let as_published = planned
                .as_published
                .as_ref()
                .map(|(forms, cases)| AsPublished::new(forms, judge(planned.claim, cases)));
            let judgement = judge(planned.claim, &planned.cases);
            Finding::new(planned.claim, judgement, as_published)
        };
        Ok(self.claims.iter().map(finding).collect())
    }
}

impl Run {
    fn record(
        &self,
        seed: u64,
        cache: Option<&Cache>,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<RunRecord, StudyError> {
        let key = format!("{}\nseed {seed}", self.key);
        if let Some(record) = cache.and_then(|cache| cache.load(&key)) {
            progress(Progress {
                seed,
                simulated: self.scenario.duration,
            });
            return Ok(record);
        }
        let options = RunOptions {
            seeds: vec![seed],
            threads: 1,
            trace: None,
            series_interval: Some(self.interval),
        };
        let mut outcomes = run_outcomes(&self.scenario, &options, progress)?;
        let outcome = outcomes.remove(0);
        let expectations = self.scenario.expectations.iter();
        let values = expectations
            .zip(&outcome.expected)
            .map(|(expectation, statistics)| expectation.value(statistics));
        let record = RunRecord {
            expected: values.collect(),
            statistics: outcome.statistics,
            series: outcome.series.expect("it was asked for"),
        };
        if let Some(cache) = cache {
            cache.store(&key, &record)?;
        }
        Ok(record)
    }
}
