//! Runs for claims, each made once, and verdicts from them.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anabranch_units::Duration;

use super::cache::Cache;
use super::case::{Algorithms, Case, Forms};
use super::claim::{Claim, Swap};
use super::evidence::Evidence;
use super::finding::{AsPublished, Columns, Finding};
use super::judgement::{Judged, Judgement, WithoutChance};
use super::provenance::{Command, RunProvenance, shade_outages};
use super::record::RunRecord;
use super::sequential::{is_settled, stages};
use anabranch_lab::{Progress, RunError, RunHooks, Scenario, ScenarioError, in_parallel, run_with};

/// Options of a test of claims.
#[derive(Clone, Debug)]
pub struct StudyOptions {
    /// Maximum number of seeds, from 1 on.
    pub seed_count: u64,
    /// Whether a claim takes all of them although its verdict is clear with fewer.
    pub takes_all_seeds: bool,
    /// Number of concurrent runs; 0 for one per core.
    pub threads: usize,
    /// Folder for runs; `None` for a temporary folder until the study is over.
    pub cache: Option<Cache>,
}

/// Reason for which claims cannot be tested.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StudyError {
    /// A claim's scenario cannot be read.
    #[error("the scenario of claim {id} is wrong")]
    Scenario {
        /// The claim.
        id: &'static str,
        /// Cause.
        #[source]
        source: ScenarioError,
    },
    /// A scenario cannot be run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A run cannot be kept.
    #[error("the cache: {0}")]
    Cache(#[from] std::io::Error),
}

/// Claims and their runs.
#[derive(Debug)]
pub struct Study {
    claims: Vec<Planned>,
    runs: Vec<Run>,
    interrupt: Option<Arc<AtomicBool>>,
}

#[derive(Debug)]
struct Planned {
    claim: &'static Claim,
    cases: PlannedCases,
    /// Cases with the paper's algorithm as published, if ours is another.
    as_published: Option<(&'static Forms, PlannedCases)>,
    /// Cases with the paper's algorithm on our endpoint, if the other column has it on a bare one.
    on_our_endpoint: Option<PlannedCases>,
}

/// Form in which cases are run: controller and endpoint.
#[derive(Clone, Copy)]
enum Form {
    /// The claim's own form: our controller on our endpoint, all others on a bare one.
    AsNamed,
    /// The paper's algorithm as published, on a bare endpoint.
    Published,
    /// The same on our endpoint.
    PublishedOnOurs,
}

type PlannedCases = Vec<PlannedCase>;

#[derive(Debug)]
struct PlannedCase {
    name: String,
    /// Index among the runs.
    place: usize,
    is_only_shown: bool,
    max_seeds: u64,
}

/// A claim with one column's algorithm.
#[derive(Clone, Copy)]
struct Item<'a> {
    claim: &'static Claim,
    cases: &'a PlannedCases,
}

/// A scenario of one case, or of several cases of one or several claims.
#[derive(Debug)]
struct Run {
    key: String,
    scenario: Scenario,
    command: Command,
    interval: Duration,
}

impl Study {
    /// Plans the test of `claims`, with the substitutes of `swap` for their subjects.
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
            interrupt: None,
        };
        let mut places = BTreeMap::new();
        for claim in claims {
            let cases = (claim.cases)(swap.of(claim.subject));
            let has_both = columns == Columns::Both;
            let as_published = match &claim.paper.algorithms {
                Algorithms::Developed(forms) if has_both => {
                    let planned = study.plan(claim, &cases, Form::Published, &mut places)?;
                    planned.map(|planned| (forms, planned))
                }
                _ => None,
            };
            let on_our_endpoint = if has_both {
                study.plan(claim, &cases, Form::PublishedOnOurs, &mut places)?
            } else {
                None
            };
            let cases = study.plan(claim, &cases, Form::AsNamed, &mut places)?;
            study.claims.push(Planned {
                claim,
                cases: cases.unwrap_or_default(),
                as_published,
                on_our_endpoint,
            });
        }
        Ok(study)
    }

    /// Plans the runs of `cases`; `None` if the form is the same as another column's.
    fn plan(
        &mut self,
        claim: &'static Claim,
        cases: &[Case],
        form: Form,
        places: &mut BTreeMap<String, usize>,
    ) -> Result<Option<PlannedCases>, StudyError> {
        let mut planned = Vec::new();
        let mut is_another = matches!(form, Form::AsNamed);
        let mut runs = Vec::new();
        for case in cases {
            let mut key = case.key();
            let mut scenario = case.scenario().map_err(|source| StudyError::Scenario {
                id: claim.id,
                source,
            })?;
            is_another |= form.apply(&claim.paper.algorithms, &mut scenario, &mut key);
            runs.push((case, key, scenario));
        }
        if !is_another {
            return Ok(None);
        }
        for (case, key, scenario) in runs {
            let place = *places.entry(key.clone()).or_insert(self.runs.len());
            if place == self.runs.len() {
                self.runs.push(Run {
                    command: Command::new(case, &claim.paper.algorithms, &scenario),
                    key,
                    scenario,
                    interval: case.interval,
                });
            }
            planned.push(PlannedCase {
                name: case.name.clone(),
                place,
                is_only_shown: case.is_only_shown,
                max_seeds: case.max_seeds,
            });
        }
        Ok(Some(planned))
    }

    /// Lets `interrupt` end the study: once it is set, [`Study::findings`] returns
    /// [`RunError::Interrupted`] within about a simulated second. Finished runs are kept.
    pub fn interrupted_by(self, interrupt: Arc<AtomicBool>) -> Study {
        Study {
            interrupt: Some(interrupt),
            ..self
        }
    }

    /// Returns the simulated time of one seed.
    pub fn simulated(&self) -> Duration {
        let spans = self.runs.iter().map(|run| run.scenario.duration);
        spans.fold(Duration::ZERO, |sum, span| sum + span)
    }

    /// Returns the number of scenarios.
    pub fn scenario_count(&self) -> usize {
        self.runs.len()
    }

    /// Makes the runs that are not in the cache, and judges the claims: with few seeds first, and
    /// with more if these leave a verdict open (`sequential.rs`). `progress` receives simulated
    /// time, [`Study::simulated`] × seeds in total. Runs from the cache, and seeds that are not
    /// needed, are reported at once.
    ///
    /// # Errors
    /// [`StudyError`].
    pub fn findings(
        &self,
        options: &StudyOptions,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<Vec<Finding>, StudyError> {
        let store = match &options.cache {
            Some(cache) => cache.clone(),
            None => Cache::temporary()?,
        };
        let items: Vec<Item<'_>> = self.claims.iter().flat_map(Planned::items).collect();
        let stages = if options.takes_all_seeds {
            vec![options.seed_count]
        } else {
            stages(options.seed_count)
        };
        let mut judged: Vec<Option<Judged>> = items.iter().map(|_| None).collect();
        let mut taken = vec![0; self.runs.len()];
        for seeds in &stages {
            let stage = Stage {
                seeds: *seeds,
                first: stages[0],
                is_last: *seeds == options.seed_count,
            };
            let open: Vec<(usize, Item<'_>)> = items
                .iter()
                .copied()
                .enumerate()
                .filter(|(at, _)| judged[*at].is_none())
                .collect();
            self.take(&open, stage, &mut taken, (options, &store), progress)?;
            let found = in_parallel(&open, options.threads, |(_, item)| {
                self.judge(*item, stage, &store)
            });
            for ((at, _), found) in open.iter().zip(found) {
                judged[*at] = found?;
            }
        }
        self.skip(&taken, options.seed_count, progress);
        let mut judged = judged
            .into_iter()
            .map(|judged| judged.expect("the last stage settles"));
        Ok(self
            .claims
            .iter()
            .map(|planned| {
                let mut next = || judged.next().expect("one for each item");
                let forms = planned.as_published.as_ref().map(|(forms, _)| *forms);
                let as_published = forms.map(|forms| AsPublished::new(forms, next()));
                let on_our_endpoint = planned.on_our_endpoint.as_ref().map(|_| next());
                Finding::new(planned.claim, next(), as_published, on_our_endpoint)
            })
            .collect())
    }

    /// Makes the missing runs of a stage at `open` claims.
    fn take(
        &self,
        open: &[(usize, Item<'_>)],
        stage: Stage,
        taken: &mut [u64],
        (options, store): (&StudyOptions, &Cache),
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<(), StudyError> {
        let mut wanted = taken.to_vec();
        for case in open.iter().flat_map(|(_, item)| item.cases) {
            wanted[case.place] = wanted[case.place].max(stage.seeds_of(case));
        }
        let mut jobs = Vec::new();
        for (place, run) in self.runs.iter().enumerate() {
            jobs.extend((taken[place] + 1..=wanted[place]).map(|seed| (run, seed)));
        }
        let made = in_parallel(&jobs, options.threads, |(run, seed)| {
            run.make(*seed, store, &|part| {
                progress(part);
                if self
                    .interrupt
                    .as_ref()
                    .is_some_and(|interrupt| interrupt.load(Ordering::Relaxed))
                {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })
        });
        taken.copy_from_slice(&wanted);
        made.into_iter().collect()
    }

    /// Judges a claim; `None` if more seeds are needed.
    fn judge(
        &self,
        item: Item<'_>,
        stage: Stage,
        store: &Cache,
    ) -> Result<Option<Judged>, StudyError> {
        let mut evidence = Evidence::default();
        let mut runs = Vec::new();
        for case in item.cases {
            let run = &self.runs[case.place];
            let seeds = 1..=stage.seeds_of(case);
            let records = seeds
                .map(|seed| Ok(Arc::new(run.load(seed, store)?)))
                .collect::<Result<Vec<Arc<RunRecord>>, StudyError>>()?;
            runs.extend(records.first().map(|record| RunProvenance {
                case: case.name.clone(),
                command: run.command.text.clone(),
                is_exact: run.command.is_exact,
                trace_hash: format!("{:016x}", record.trace_hash),
            }));
            evidence.add(case.name.clone(), &run.scenario, records);
        }
        let mut judgement = (item.claim.judge)(&evidence);
        let scenarios = item
            .cases
            .iter()
            .map(|case| &self.runs[case.place].scenario);
        shade_outages(&mut judgement.charts, scenarios);
        judgement.without_chance = evidence.without_chance();
        let (seed_count, is_all) = stage.most_seeds_of(item.cases);
        let is_sure = stage.is_last || is_all;
        let is_settled = is_sure || judgement.without_chance == WithoutChance::All || {
            let alone: Vec<Judgement> = (0..stage.seeds as usize)
                .map(|at| (item.claim.judge)(&evidence.alone(at)))
                .collect();
            is_settled(&judgement, &alone)
        };
        Ok(is_settled.then(|| Judged::new(judgement, seed_count, runs)))
    }

    /// Reports progress for seeds that are not needed.
    fn skip(&self, taken: &[u64], seed_count: u64, progress: &(dyn Fn(Progress) + Sync)) {
        for (run, taken) in self.runs.iter().zip(taken) {
            for seed in taken + 1..=seed_count {
                progress(Progress {
                    seed,
                    simulated: run.scenario.duration,
                });
            }
        }
    }
}

impl Form {
    /// Changes a scenario to this form, and the key of its runs with it. Returns whether that makes
    /// it differ from the columns before this one.
    fn apply(self, algorithms: &Algorithms, scenario: &mut Scenario, key: &mut String) -> bool {
        let has_ours = match (self, algorithms) {
            (Form::Published | Form::PublishedOnOurs, Algorithms::Developed(forms)) => {
                forms.publish(scenario)
            }
            _ => false,
        };
        if has_ours {
            key.push_str("\nas published");
        }
        let mut bare = scenario.clone();
        let has_bare = algorithms.strip(&mut bare);
        if let Form::PublishedOnOurs = self {
            return has_bare;
        }
        if has_bare {
            *scenario = bare;
            key.push_str("\non a bare endpoint");
        }
        has_ours
    }
}

impl Planned {
    /// Returns the published algorithm's items first, if there are any, then the claim's own.
    fn items(&self) -> impl Iterator<Item = Item<'_>> {
        let as_published = self.as_published.iter().map(|(_, cases)| cases);
        let published = as_published.chain(&self.on_our_endpoint);
        let columns = published.chain([&self.cases]);
        columns.map(|cases| Item {
            claim: self.claim,
            cases,
        })
    }
}

/// Number of seeds of a stage.
#[derive(Clone, Copy)]
struct Stage {
    seeds: u64,
    /// Number of seeds of the first stage.
    first: u64,
    is_last: bool,
}

impl Stage {
    fn seeds_of(self, case: &PlannedCase) -> u64 {
        let seeds = if case.is_only_shown {
            self.first
        } else {
            self.seeds
        };
        seeds.min(case.max_seeds)
    }

    /// Returns the most seeds of any case, and whether no case takes more than that.
    fn most_seeds_of(self, cases: &[PlannedCase]) -> (u64, bool) {
        let seeds = cases.iter().map(|case| self.seeds_of(case)).max();
        (
            seeds.unwrap_or(0),
            cases
                .iter()
                .all(|case| case.is_only_shown || case.max_seeds <= self.seeds),
        )
    }
}

impl Run {
    fn key(&self, seed: u64) -> String {
        format!("{}\nseed {seed}", self.key)
    }

    fn load(&self, seed: u64, store: &Cache) -> Result<RunRecord, StudyError> {
        store
            .load(&self.key(seed))
            .ok_or_else(|| StudyError::Cache(std::io::Error::other("a run was removed from it")))
    }

    /// Makes a run, unless it is kept.
    fn make(
        &self,
        seed: u64,
        store: &Cache,
        progress: &(dyn Fn(Progress) -> ControlFlow<()> + Sync),
    ) -> Result<(), StudyError> {
        let key = self.key(seed);
        if store.load(&key).is_some() {
            let kept = progress(Progress {
                seed,
                simulated: self.scenario.duration,
            });
            return match kept {
                ControlFlow::Continue(()) => Ok(()),
                ControlFlow::Break(()) => Err(RunError::Interrupted.into()),
            };
        }
        let hooks = RunHooks {
            series_interval: Some(self.interval),
            threads: 1,
            ..RunHooks::default()
        };
        let outcome = run_with(&self.scenario, seed, hooks, progress)?;
        let expectations = self.scenario.expectations.iter();
        let values = expectations
            .zip(&outcome.expected)
            .map(|(expectation, statistics)| expectation.value(statistics));
        let series = outcome.series.expect("it was asked for");
        let hash = outcome.trace_hash.as_u64();
        let record = RunRecord::new(outcome.statistics, values.collect(), hash, series);
        Ok(store.store(&key, &record)?)
    }
}
