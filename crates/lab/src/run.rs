//! Running a scenario, with one seed or with many on all cores.

mod noise;
mod recording;
mod stepped;
mod watch;

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use anabranch_core::{Config, PathOptions};
use anabranch_sim::{
    Application, FlowConfig, FlowId, FlowPath, LinkId, ORACLE, PacketCounts, ReachedLimit, RouteId,
    TraceHash, World, WorldError,
};
use anabranch_units::{Duration, Seed};
use anabranch_video::source::SourceConfigError;

use crate::metrics::{Series, Statistics};
use crate::scenario::{AdaptiveSpec, FlowKind, FlowSpec, Scenario};
use crate::trace::{CsvFiles, TraceError, TraceOptions, TraceSink};

pub use recording::Recording;
pub(crate) use stepped::{SetUp, Stepped};

/// Options of running a scenario.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// The seeds, one run each.
    pub seeds: Vec<u64>,
    /// Number of threads; 0: one per core. Runs of several seeds share them out. The threads of a
    /// single run move its flows, if these are many.
    pub threads: usize,
    /// Folder for traces, if requested: it takes those of a single seed itself, else `seed-N` below
    /// it does.
    pub trace: Option<(PathBuf, TraceOptions)>,
    /// Interval of recorded series, in whole milliseconds; `None`: no series.
    pub series_interval: Option<Duration>,
}

impl RunOptions {
    /// Returns options for seeds 1 to `count` on all cores, without traces.
    pub fn seeds(count: u64) -> RunOptions {
        RunOptions {
            seeds: (1..=count).collect(),
            ..RunOptions::default()
        }
    }
}

/// Progress of the work: `simulated` of a run with `seed`, since the last report of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Seed of the run.
    pub seed: u64,
    /// Simulated time since then; all reports of all runs add up to duration × seeds.
    pub simulated: Duration,
}

/// Results of one run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Its seed.
    pub seed: u64,
    /// Hash of all events.
    pub trace_hash: TraceHash,
    /// All its datagrams.
    pub packets: PacketCounts,
    /// Datagrams delivered from senders to receivers.
    pub data_packets_delivered: u64,
    /// Over the scenario's statistics window.
    pub statistics: Statistics,
    /// Over each expectation's own window.
    pub expected: Vec<Statistics>,
    /// Series over time, if requested.
    pub series: Option<Series>,
}

/// Reason why a scenario could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The simulator rejects a part of it.
    #[error(transparent)]
    World(#[from] WorldError),
    /// The settings of a source are invalid.
    #[error(transparent)]
    Source(#[from] SourceConfigError),
    /// A trace cannot be written.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The run needs more than its scenario allows.
    #[error(
        "{}: a limit for strangers' scenarios, which `--set limits.{}=N` raises",
        limit_text(.0).0, limit_text(.0).1
    )]
    Limit(ReachedLimit),
    /// The caller has ended the run.
    #[error("the run was interrupted")]
    Interrupted,
}

/// Returns the words for a limit that a run has reached, and its key.
fn limit_text(limit: &ReachedLimit) -> (String, &'static str) {
    match limit {
        ReachedLimit::Steps(most) => (format!("the run needs more than {most} steps"), "steps"),
        ReachedLimit::PacketsInFlight(most) => {
            let text = format!("more than {most} packets in flight");
            (text, "packets-in-flight")
        }
    }
}

/// Runs a scenario once per seed, in the order of the seeds' list. `progress` is called from
/// several threads.
///
/// The same seed gives the same result:
///
/// ```
/// use anabranch_lab::{RunOptions, Scenario, run_outcomes};
///
/// let text = r#"
/// title = "A download over a lossy link"
/// duration = "3 s"
/// links.uplink = { rate = "5 Mbit/s", delay = "20 ms", queue = "100 ms", loss = "1 %" }
/// routes.uplink = { forward = ["uplink"], reverse = ["uplink"] }
///
/// [[flows]]
/// kind = "bulk"
/// controller = "cubic"
/// paths = ["uplink"]
/// "#;
/// let scenario = Scenario::parse("download.toml", text, &[])?;
/// let options = RunOptions::seeds(2);
/// let first = run_outcomes(&scenario, &options, &|_progress| ())?;
/// let again = run_outcomes(&scenario, &options, &|_progress| ())?;
/// assert_eq!(first[0].trace_hash, again[0].trace_hash);
/// assert_ne!(first[0].trace_hash, first[1].trace_hash, "other losses");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The first [`RunError`] in the order of the seeds.
pub fn run_outcomes(
    scenario: &Scenario,
    options: &RunOptions,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Vec<Outcome>, RunError> {
    let shard_count = shard_count(scenario, options);
    in_parallel(&options.seeds, options.threads, |seed| {
        let trace = options.trace.as_ref();
        let mut files = trace
            .map(|(path, trace)| {
                let folder = match options.seeds.len() {
                    1 => path.clone(),
                    _ => path.join(format!("seed-{seed}")),
                };
                CsvFiles::create(&folder, *trace)
            })
            .transpose()?;
        let set_up = SetUp {
            sink: files.as_mut().map(|files| files as &mut dyn TraceSink),
            series_interval: options.series_interval,
            shard_count,
            is_changeable: false,
        };
        run_once(scenario, *seed, set_up, &|part| {
            progress(part);
            ControlFlow::Continue(())
        })
    })
    .into_iter()
    .collect()
}

/// Parts of a single run that its caller watches.
#[derive(Debug, Default)]
pub struct RunHooks<'a> {
    /// Consumer of the run's trace, if any.
    pub sink: Option<&'a mut dyn TraceSink>,
    /// Number of threads that move the run's flows, if these are many; 0: one per core.
    pub threads: usize,
    /// As [`RunOptions::series_interval`].
    pub series_interval: Option<Duration>,
}

/// Runs a scenario with one seed. `progress` is called about once per simulated second, and may end
/// the run.
///
/// # Errors
/// A [`RunError`]; [`RunError::Interrupted`], if `progress` has ended the run.
pub fn run_with(
    scenario: &Scenario,
    seed: u64,
    hooks: RunHooks<'_>,
    progress: &(dyn Fn(Progress) -> ControlFlow<()> + Sync),
) -> Result<Outcome, RunError> {
    let is_recorded = hooks.sink.is_some() || hooks.series_interval.is_some();
    let set_up = SetUp {
        sink: hooks.sink,
        series_interval: hooks.series_interval,
        shard_count: lane_count_of(scenario, is_recorded, thread_count(hooks.threads)),
        is_changeable: false,
    };
    run_once(scenario, seed, set_up, progress)
}

/// Flows per thread. With fewer, the threads' waiting for each other costs as much as a thread
/// gains.
const FLOWS_PER_LANE: usize = 25;

/// Returns the number of threads by which each run moves its flows. It is one if events are
/// recorded in their order, or if a scheduler looks at the links' queues.
fn shard_count(scenario: &Scenario, options: &RunOptions) -> usize {
    let is_recorded = options.trace.is_some() || options.series_interval.is_some();
    let threads = thread_count(options.threads) / options.seeds.len().max(1);
    lane_count_of(scenario, is_recorded, threads)
}

/// Returns the same for a single run that may use `threads`.
fn lane_count_of(scenario: &Scenario, is_recorded: bool, threads: usize) -> usize {
    if is_recorded || scenario.flows.iter().any(|flow| flow.scheduler() == ORACLE) {
        return 1;
    }
    threads.min(scenario.flows.len() / FLOWS_PER_LANE).max(1)
}

/// Returns `threads`, or the number of cores for 0.
fn thread_count(threads: usize) -> usize {
    match threads {
        0 => std::thread::available_parallelism().map_or(1, |count| count.get()),
        threads => threads,
    }
}

/// Returns the results of `work` on each of `items`, in their order, by `threads` threads at a time
/// (0: one per core).
pub fn in_parallel<T: Sync, R: Send>(
    items: &[T],
    threads: usize,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let threads = thread_count(threads).min(items.len());
    if threads == 1 {
        // Also where there are no threads.
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((index, item)) = {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    items.get(index).map(|item| (index, item))
                } {
                    let result = work(item);
                    results
                        .lock()
                        .expect("no thread has panicked")
                        .push((index, result));
                }
            });
        }
    });
    let mut results = results.into_inner().expect("no thread has panicked");
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Runs a scenario with one seed.
fn run_once(
    scenario: &Scenario,
    seed: u64,
    set_up: SetUp<'_>,
    progress: &(dyn Fn(Progress) -> ControlFlow<()> + Sync),
) -> Result<Outcome, RunError> {
    let mut run = Stepped::new(scenario, seed, set_up)?;
    while let Some(simulated) = run.step()? {
        if progress(Progress { seed, simulated }).is_break() {
            return Err(RunError::Interrupted);
        }
    }
    run.finish()
}

/// Returns the scenario's network and flows, before the first event.
pub(crate) fn build_world(
    scenario: &Scenario,
    seed: Seed,
    shard_count: usize,
    is_changeable: bool,
) -> Result<World, RunError> {
    let mut world = World::new(seed);
    world.set_shards(shard_count);
    world.set_limits(scenario.limits);
    for link in &scenario.links {
        if is_changeable {
            world.add_changeable_link(&link.name, &link.config)?
        } else {
            world.add_link(&link.name, &link.config)?
        };
    }
    for route in &scenario.routes {
        let [forward, reverse] = [&route.forward, &route.reverse]
            .map(|links| links.iter().map(|link| LinkId(*link as u32)).collect());
        world.add_route(forward, reverse)?;
    }
    let mut last_config = None;
    for flow in &scenario.flows {
        let routes = noise::routes_of(&mut world, scenario, flow)?;
        add_flow(&mut world, flow, &routes, seed, &mut last_config)?;
    }
    Ok(world)
}

/// Returns the scenario with every flow's start drawn by the seed.
pub(crate) fn with_starts(scenario: &Scenario, seed: Seed) -> Scenario {
    let mut scenario = scenario.clone();
    for flow in &mut scenario.flows {
        let jitter = std::mem::take(&mut flow.start_jitter);
        let mut rng = seed.derive(&format!("flow/{}/start", flow.name)).rng();
        flow.start += jitter.mul_f64(rng.next_f64());
    }
    scenario
}

/// Adds a flow over `routes`, one for each of its paths. `last_config` is the configuration of the
/// flow before.
fn add_flow(
    world: &mut World,
    flow: &FlowSpec,
    routes: &[RouteId],
    seed: Seed,
    last_config: &mut Option<Arc<Config>>,
) -> Result<FlowId, RunError> {
    let (config, source) = match &flow.kind {
        FlowKind::Media(media) => {
            let seed = seed.derive(&format!("flow/{}/source", flow.name));
            (
                &media.config,
                Application::Media(media.build(flow.start, seed)?),
            )
        }
        FlowKind::Bulk(bulk) => {
            let source = bulk.bytes.map_or(Application::Greedy, Application::Bytes);
            (&bulk.config, source)
        }
        FlowKind::Short(short) => (&short.config, Application::Short(short.objects)),
        FlowKind::Download(download) => {
            let seed = seed.derive(&format!("flow/{}/source", flow.name));
            let application = Application::Download(download.film(seed)?, download.buffering);
            (&download.config, application)
        }
        FlowKind::Adaptive(adaptive) => {
            let AdaptiveSpec {
                config,
                video,
                buffer,
            } = &**adaptive;
            (config, Application::Adaptive(video.clone(), *buffer))
        }
        FlowKind::Raw(raw) => {
            let generator = raw.generator(routes[0], flow.start, flow.stop);
            return Ok(world.add_generator(&flow.name, generator)?);
        }
    };
    let config = match last_config.take().filter(|last| **last == *config) {
        Some(shared) => shared,
        None => Arc::new(config.clone()),
    };
    *last_config = Some(config.clone());
    let config = FlowConfig {
        sender: config.clone(),
        receiver: config,
        paths: flow
            .paths
            .iter()
            .zip(routes)
            .map(|(path, route)| FlowPath {
                route: *route,
                options: PathOptions {
                    weight: path.weight,
                    is_metered: path.is_metered,
                    ..PathOptions::default()
                },
            })
            .collect(),
        start: flow.start,
        stop: flow.stop,
        source,
    };
    Ok(world.add_flow(&flow.name, config)?)
}
