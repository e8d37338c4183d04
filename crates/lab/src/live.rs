//! A run that its caller advances, watches and changes.

use anabranch_link::LinkChange;
use anabranch_sim::{LinkId, Observer, TraceHash, World};
use anabranch_units::Instant;

use crate::run::{Outcome, RunError, RunHooks, SetUp, Stepped};
use crate::scenario::Scenario;

/// A run of a scenario with one seed, on the calling thread. Without changes, its results and its
/// hash are those of [`run_with`](crate::run_with), no matter in which steps it advances.
///
/// ```
/// use anabranch_lab::{LiveRun, Scenario, RunHooks};
/// use anabranch_link::LinkChange;
/// use anabranch_sim::LinkId;
/// use anabranch_units::{DataRate, Instant};
///
/// let text = r#"
/// title = "A download over a link that becomes slow"
/// duration = "3 s"
/// links.uplink = { rate = "5 Mbit/s", delay = "20 ms", queue = "100 ms" }
/// routes.uplink = { forward = ["uplink"], reverse = ["uplink"] }
///
/// [[flows]]
/// kind = "bulk"
/// controller = "cubic"
/// paths = ["uplink"]
/// "#;
/// let scenario = Scenario::parse("download.toml", text, &[])?;
/// let mut run = LiveRun::new(&scenario, 1, RunHooks::default())?;
/// run.advance(Instant::from_secs(1), &mut ())?;
/// run.change_link(LinkId(0), LinkChange::Rate(DataRate::from_megabits_per_second(1)))?;
/// run.advance(run.end(), &mut ())?;
/// let throughput = run.finish()?.statistics.total.traffic.throughput_bits_per_second;
/// assert!(throughput < 3e6, "{throughput}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct LiveRun<'a>(Stepped<'a>);

impl<'a> LiveRun<'a> {
    /// Returns a run before its first event. It has one thread, whatever `watched` says.
    ///
    /// # Errors
    /// [`RunError::World`], [`RunError::Source`].
    pub fn new(
        scenario: &Scenario,
        seed: u64,
        hooks: RunHooks<'a>,
    ) -> Result<LiveRun<'a>, RunError> {
        let set_up = SetUp {
            sink: hooks.sink,
            series_interval: hooks.series_interval,
            shard_count: 1,
            is_changeable: true,
        };
        Ok(LiveRun(Stepped::new(scenario, seed, set_up)?))
    }

    /// Advances to `until`, or to the end if that is earlier. `observer` receives all events.
    ///
    /// # Errors
    /// [`RunError::Trace`].
    pub fn advance(
        &mut self,
        until: Instant,
        observer: &mut impl Observer,
    ) -> Result<(), RunError> {
        self.0.advance(until, observer)
    }

    /// Changes a link now, after all events of this instant.
    ///
    /// # Errors
    /// [`RunError::World`]: the link cannot have this value; nothing has changed.
    ///
    /// # Panics
    /// If the scenario has no such link.
    pub fn change_link(&mut self, link: LinkId, change: LinkChange) -> Result<(), RunError> {
        Ok(self.0.world.change_link(link, change)?)
    }

    /// Returns the simulated network and its flows, to be read.
    pub fn world(&mut self) -> &mut World {
        &mut self.0.world
    }

    /// Returns the instant up to which everything has happened.
    pub fn now(&self) -> Instant {
        self.0.world.now()
    }

    /// Returns the instant at which the run ends.
    pub fn end(&self) -> Instant {
        self.0.end()
    }

    /// Returns whether everything has happened.
    pub fn is_over(&self) -> bool {
        self.0.is_over()
    }

    /// Returns the hash of all events so far.
    pub fn trace_hash(&self) -> TraceHash {
        self.0.world.trace_hash()
    }

    /// Advances to the end, and returns the results.
    ///
    /// # Errors
    /// [`RunError::Trace`].
    pub fn finish(mut self) -> Result<Outcome, RunError> {
        self.advance(self.end(), &mut ())?;
        self.0.finish()
    }
}
