//! From claims to runs, each of which is run once, and back to verdicts.

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_units::Duration;

use super::cache::Cache;
use super::claim::{Claim, Swap};
use super::evidence::{Evidence, RunRecord};
use super::report::Finding;
use crate::run::{Progress, RunError, RunOptions, in_parallel, run_outcomes};
use crate::scenario::{Scenario, ScenarioError};

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
    /// By name, the place among the runs.
    cases: Vec<(String, usize)>,
}

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
    pub fn new(claims: &[&'static Claim], swap: Swap<'_>) -> Result<Study, StudyError> {
        let mut study = Study {
            claims: Vec::new(),
            runs: Vec::new(),
        };
        let mut places = BTreeMap::new();
        for claim in claims {
            let mut cases = Vec::new();
            for case in (claim.cases)(swap.of(claim.subject)) {
                let key = case.key();
                let scenario = case.scenario();
                let scenario = scenario.map_err(|error| StudyError::Scenario {
                    id: claim.id,
                    error,
                })?;
                let place = *places.entry(key.clone()).or_insert(study.runs.len());
                if place == study.runs.len() {
                    study.runs.push(Run {
                        key,
                        scenario,
                        interval: case.interval,
                    });
                }
                cases.push((case.name, place));
            }
            study.claims.push(Planned { claim, cases });
        }
        Ok(study)
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
        let finding = |planned: &Planned| {
            let mut evidence = Evidence::default();
            for (name, place) in &planned.cases {
                let scenario = &self.runs[*place].scenario;
                evidence.add(name.clone(), scenario, by_run[*place].to_vec());
            }
            Finding::new(planned.claim, (planned.claim.judge)(&evidence))
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
