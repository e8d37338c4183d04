//! One run that its driver advances, from stop to stop.

use std::sync::Arc;

use anabranch_sim::{Observer, World};
use anabranch_units::{Duration, Instant, Seed};

use super::watch::{Watch, join};
use super::{Outcome, RunError, build_world, with_starts};
use crate::metrics::{SeriesRecorder, Statistics, Window};
use crate::scenario::Scenario;
use crate::trace::{SAMPLE_INTERVAL, TraceSink, TraceWriter};

pub(super) const SECOND: Duration = Duration::from_secs(1);

/// Set-up of one run.
#[derive(Debug)]
pub(crate) struct SetUp<'a> {
    pub(crate) sink: Option<&'a mut dyn TraceSink>,
    pub(crate) series_interval: Option<Duration>,
    pub(crate) shard_count: usize,
    /// Whether links may be changed.
    pub(crate) is_changeable: bool,
}

/// A run, with its recorders. It pauses at *stops*, at which recorders sample the world.
#[derive(Debug)]
pub(crate) struct Stepped<'a> {
    seed: u64,
    scenario: Arc<Scenario>,
    windows: Vec<Window>,
    pub(crate) world: World,
    watches: Vec<Watch<'a>>,
    series_interval: Option<Duration>,
    /// The stops that are still to come, the next one last.
    stops: Vec<Instant>,
}

impl<'a> Stepped<'a> {
    /// Returns a run before its first event.
    pub(crate) fn new(
        scenario: &Scenario,
        seed: u64,
        set_up: SetUp<'a>,
    ) -> Result<Stepped<'a>, RunError> {
        let scenario = Arc::new(with_starts(scenario, Seed(seed)));
        let SetUp {
            series_interval,
            shard_count,
            is_changeable,
            ..
        } = set_up;
        let world = build_world(&scenario, Seed(seed), shard_count, is_changeable)?;
        let windows = windows(&scenario);
        let mut watch = Watch::new(&scenario, &windows);
        watch.trace = set_up.sink.map(|sink| TraceWriter::new(sink, &scenario));
        watch.series = series_interval.map(|interval| SeriesRecorder::new(&scenario, interval));
        let mut watches = vec![watch];
        watches.resize_with(shard_count, || Watch::new(&scenario, &windows));
        let end = Instant::ZERO + scenario.duration;
        let mut stops = stops(&watches[0], series_interval, end);
        stops.reverse();
        Ok(Stepped {
            seed,
            scenario,
            windows,
            world,
            watches,
            series_interval,
            stops,
        })
    }

    /// Advances to the next stop, by a thread for each shard. Returns the simulated time; `None` at
    /// the end.
    pub(crate) fn step(&mut self) -> Result<Option<Duration>, RunError> {
        let Some(stop) = self.stops.pop() else {
            return Ok(None);
        };
        let before = self.world.now();
        self.world.run_shards_until(stop, &mut self.watches);
        self.check_limits()?;
        self.at_stop(stop)?;
        Ok(Some(stop - before))
    }

    /// Advances a run of a single shard to `until`, or to its end. `observer` receives all events.
    ///
    /// # Panics
    /// If there are several shards.
    pub(crate) fn advance(
        &mut self,
        until: Instant,
        observer: &mut impl Observer,
    ) -> Result<(), RunError> {
        while let Some(stop) = self.stops.last().copied().filter(|stop| *stop <= until) {
            self.stops.pop();
            self.run_until(stop, observer)?;
            self.at_stop(stop)?;
        }
        if !self.stops.is_empty() {
            self.run_until(until, observer)?;
        }
        Ok(())
    }

    fn run_until(&mut self, until: Instant, observer: &mut impl Observer) -> Result<(), RunError> {
        let watch = &mut self.watches[0];
        self.world.run_until(until, &mut watch.and(observer));
        self.check_limits()
    }

    fn check_limits(&self) -> Result<(), RunError> {
        match self.world.reached_limit() {
            Some(limit) => Err(RunError::Limit(limit)),
            None => Ok(()),
        }
    }

    /// Lets the recorders sample the world, which has reached a stop.
    fn at_stop(&mut self, stop: Instant) -> Result<(), RunError> {
        for watch in &mut self.watches {
            watch.recorder.at_boundary(&mut self.world);
            if is_multiple(stop, SECOND) {
                watch.recorder.at_second(stop);
            }
        }
        let watch = &mut self.watches[0];
        let is_sample = is_multiple(stop, SAMPLE_INTERVAL);
        if is_sample && let Some(trace) = watch.trace.as_mut() {
            trace.sample(&mut self.world)?;
        }
        let is_interval = stop > Instant::ZERO
            && self
                .series_interval
                .is_some_and(|interval| is_multiple(stop, interval));
        if is_interval && let Some(series) = watch.series.as_mut() {
            series.at_interval(&mut self.world);
        }
        Ok(())
    }

    /// Returns the instant at which the run ends.
    pub(crate) fn end(&self) -> Instant {
        Instant::ZERO + self.scenario.duration
    }

    /// Returns whether everything has happened.
    pub(crate) fn is_over(&self) -> bool {
        self.stops.is_empty()
    }

    /// Returns the results. The run is over.
    pub(crate) fn finish(self) -> Result<Outcome, RunError> {
        let end = self.end();
        let (world, windows) = (self.world, self.windows);
        let watch = join(self.watches, &world);
        if let Some(trace) = watch.trace {
            trace.finish()?;
        }
        let statistics = watch.recorder.finish(end);
        let (statistics, expected) = by_expectation(&self.scenario, &windows, statistics);
        Ok(Outcome {
            seed: self.seed,
            series: watch.series.map(SeriesRecorder::finish),
            trace_hash: world.trace_hash(),
            packets: world.packet_counts(),
            data_packets_delivered: world.data_packets_delivered(),
            statistics,
            expected,
        })
    }
}

fn is_multiple(at: Instant, of: Duration) -> bool {
    at.as_nanos().is_multiple_of(of.as_nanos())
}

/// Returns the statistics of the scenario's window, and of each expectation's; `statistics` has
/// those of all `windows`.
pub(super) fn by_expectation(
    scenario: &Scenario,
    windows: &[Window],
    statistics: Vec<Statistics>,
) -> (Statistics, Vec<Statistics>) {
    let expectations = scenario.expectations.iter();
    let expected = expectations
        .map(|expected| {
            let mut own = windows[1..].iter();
            let found = own.position(|window| *window == expected.window);
            let index = found.expect("all are there");
            statistics[1 + index].clone()
        })
        .collect();
    let mut statistics = statistics.into_iter();
    (
        statistics
            .next()
            .expect("the first window is the scenario's"),
        expected,
    )
}

/// Returns the times at which the run stops for recorders, in order, the end last.
fn stops(watch: &Watch<'_>, series_interval: Option<Duration>, end: Instant) -> Vec<Instant> {
    let step = match &watch.trace {
        Some(trace) if trace.wants_samples() => SAMPLE_INTERVAL,
        _ => SECOND,
    };
    let mut stops: Vec<Instant> = watch.recorder.boundaries().collect();
    for step in [Some(step), series_interval].into_iter().flatten() {
        stops.extend(multiples(step, end));
    }
    stops.push(end);
    stops.sort();
    stops.dedup();
    stops
}

/// Returns zero, `step`, and its further multiples before `end`.
pub(super) fn multiples(step: Duration, end: Instant) -> impl Iterator<Item = Instant> {
    (0..)
        .map(move |index| Instant::ZERO + step * index)
        .take_while(move |at| *at < end)
}

/// Returns the scenario's own window, and then each window of an expectation once.
pub(super) fn windows(scenario: &Scenario) -> Vec<Window> {
    let mut windows = vec![scenario.statistics];
    for expectation in &scenario.expectations {
        if !windows[1..].contains(&expectation.window) {
            windows.push(expectation.window);
        }
    }
    windows
}
