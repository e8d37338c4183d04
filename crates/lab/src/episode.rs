//! Episodes: runs of a scenario that a caller steers, step by step.
//!
//! A flow of media gets its rate, or the shares of its paths, from the caller. Decisions change
//! between steps only, so that no packet waits for the caller. Each step reports the sender's
//! knowledge, the outcomes of frames, and the state of the network apart from each other.

mod frames;
mod network;
mod reports;
mod steering;

use anabranch_core::{PathCounters, PathId, SessionCounters};
use anabranch_sim::{FlowId, World};
use anabranch_units::{DataRate, Duration, Instant, Seed};

use crate::run::{RunError, build_world, with_starts};
use crate::scenario::{FlowKind, Scenario};

pub use frames::FrameSums;
pub use network::NetworkPath;
pub use reports::SenderPath;
pub use steering::Steering;

use network::{Links, Meter};
use reports::Reports;
use steering::Decision;

/// Set-up of an [`Episode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpisodeConfig {
    /// Index of the flow that is steered and measured. It carries media.
    pub flow: usize,
    /// Decisions that the caller makes.
    pub steering: Steering,
    /// Simulated time of a step, 1 ms to 10 s.
    pub step: Duration,
}

/// Reason why a scenario is no episode.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EpisodeError {
    /// It cannot be run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The flow is not there, or carries no media.
    #[error("flow {flow} carries no media: an episode is about frames")]
    NoMedia {
        /// Its index.
        flow: usize,
    },
    /// The number of paths does not fit the decisions.
    #[error("the flow has {path_count} paths: {steering} is for {wanted}")]
    PathCount {
        /// Number of paths of the flow.
        path_count: usize,
        /// The decisions.
        steering: Steering,
        /// The fitting number.
        wanted: &'static str,
    },
    /// The length of a step is not 1 ms to 10 s.
    #[error("a step takes 1 ms to 10 s, not {0}")]
    Step(Duration),
    /// A decision has the wrong number of values, or an impossible one.
    #[error("a decision has {wanted} finite values of at least 0, not {given:?}")]
    Decision {
        /// Number of values.
        wanted: usize,
        /// The caller's.
        given: Vec<f64>,
    },
    /// The episode has no further step.
    #[error("the episode is over: start another one")]
    Over,
}

/// A run of a scenario with one seed, which a caller steers.
///
/// ```
/// use anabranch_lab::Scenario;
/// use anabranch_lab::episode::{Episode, EpisodeConfig, Steering};
/// use anabranch_units::Duration;
///
/// let text = r#"
/// duration = "2 s"
/// links.up = { rate = "2 Mbit/s", delay = "20 ms", queue = "100 ms" }
/// routes.only = { forward = ["up"], reverse = ["up"] }
/// flows = [{ paths = ["only"] }]
/// "#;
/// let scenario = Scenario::parse("episode.toml", text, &[])?;
/// let step = Duration::from_millis(100);
/// let config = EpisodeConfig { flow: 0, steering: Steering::Rate, step };
/// let mut episode = Episode::new(&scenario, 1, config)?;
/// while !episode.is_over() {
///     let report = episode.advance(&[1e6])?;
///     assert_eq!(report.sender.len(), 1);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Episode {
    world: World,
    flow: FlowId,
    step: Duration,
    end: Instant,
    /// Time after the end in which the outcomes of all counted frames become known.
    settling: Duration,
    steering: Steering,
    decision: Decision,
    reports: Reports,
    meter: Meter,
    links: Links,
    /// Counters of the sender at the beginning of the step.
    session: SessionCounters,
    paths: Vec<PathCounters>,
}

/// Report on one step of an [`Episode`].
#[derive(Clone, Debug)]
pub struct StepReport {
    /// End of the step.
    pub at: Instant,
    /// Simulated time since the step before.
    pub length: Duration,
    /// Whether it is the last one, which includes the outcomes of all open frames.
    pub is_over: bool,
    /// Bitrate that the sender requests of its encoder.
    pub target_bitrate: DataRate,
    /// Frames that the sender gave up in the step.
    pub frames_given_up: u64,
    /// Sender's knowledge of each path.
    pub sender: Vec<SenderPath>,
    /// Frames whose outcome became known in the step, at the receiver.
    pub frames: FrameSums,
    /// State of each path's network, which no sender knows.
    pub network: Vec<NetworkPath>,
}

const STEPS: core::ops::RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(10);

impl Episode {
    /// Returns a run of the scenario with `seed` before its first step.
    ///
    /// # Errors
    /// [`EpisodeError`], except [`EpisodeError::Decision`] and [`EpisodeError::Over`].
    pub fn new(
        scenario: &Scenario,
        seed: u64,
        config: EpisodeConfig,
    ) -> Result<Episode, EpisodeError> {
        let EpisodeConfig {
            flow,
            steering,
            step,
        } = config;
        if !STEPS.contains(&step) {
            return Err(EpisodeError::Step(step));
        }
        let mut scenario = with_starts(scenario, Seed(seed));
        let spec = scenario
            .flows
            .get_mut(flow)
            .ok_or(EpisodeError::NoMedia { flow })?;
        let path_count = spec.paths.len();
        steering.check(path_count)?;
        let FlowKind::Media(media) = &mut spec.kind else {
            return Err(EpisodeError::NoMedia { flow });
        };
        let decision = Decision::new(steering, path_count, &media.config);
        let reports = Reports::new(path_count);
        steering.install(&decision, step, &mut media.config);
        reports.install(&mut media.config);
        let id = FlowId(flow as u32);
        let end = Instant::ZERO + scenario.duration;
        let video = &media.config.media;
        // A queue that the last decisions fill delays frames for up to a deadline.
        let counted_until = end + video.deadline;
        Ok(Episode {
            meter: Meter::new(id, path_count, counted_until, video),
            settling: video.deadline * 2 + video.reassembly_wait,
            world: build_world(&scenario, Seed(seed), 1, false)?,
            links: Links::new(&scenario, flow),
            flow: id,
            step,
            end,
            steering,
            decision,
            reports,
            session: SessionCounters::default(),
            paths: vec![PathCounters::default(); path_count],
        })
    }

    /// Returns the number of the flow's paths.
    pub fn path_count(&self) -> usize {
        self.paths.len()
    }

    /// Returns the simulated time at which the episode ends.
    pub fn end(&self) -> Instant {
        self.end
    }

    /// Returns whether there is no further step.
    pub fn is_over(&self) -> bool {
        self.world.now() >= self.end
    }

    /// Runs one step with a decision: a rate in bit/s for [`Steering::Rate`], a weight for each
    /// path for [`Steering::Split`], nothing for [`Steering::None`].
    ///
    /// After the last step the network runs on with the last decision. Frames captured within one
    /// more deadline count, and their outcomes are in the last report: a caller who fills the queue
    /// before the end pays for it.
    ///
    /// # Errors
    /// [`EpisodeError::Decision`], [`EpisodeError::Over`].
    pub fn advance(&mut self, decision: &[f64]) -> Result<StepReport, EpisodeError> {
        if self.is_over() {
            return Err(EpisodeError::Over);
        }
        self.steering.check_decision(decision, self.path_count())?;
        self.decision.set(decision);
        let begun_at = self.world.now();
        let at = (begun_at + self.step).min(self.end);
        self.world.run_until(at, &mut self.meter);
        let length = at - begun_at;
        let network = self.links.read(&mut self.world, &mut self.meter, length);
        let session = self.world.sender_counters(self.flow);
        let before = std::mem::replace(&mut self.session, session);
        let sender = self.sender(at);
        let is_over = at >= self.end;
        if is_over {
            self.world.run_until(at + self.settling, &mut self.meter);
            self.meter.frames.settle();
        }
        Ok(StepReport {
            at,
            length,
            is_over,
            target_bitrate: self.world.target_bitrate(self.flow),
            frames_given_up: session.frames_late - before.frames_late,
            sender,
            frames: self.meter.frames.take(),
            network,
        })
    }

    /// Returns the sender's knowledge of its paths, and begins the next step's counts.
    fn sender(&mut self, now: Instant) -> Vec<SenderPath> {
        let heard = self.reports.take();
        let views = self.world.sender_paths(self.flow);
        let paths = views.iter().zip(heard).zip(&mut self.paths).enumerate();
        paths
            .map(|(index, ((view, heard), counters))| {
                let id = PathId(index as u8);
                let total = self.world.sender_path_counters(self.flow, id);
                let before = std::mem::replace(counters, total);
                SenderPath::new(now, view, heard, total.sent_bytes - before.sent_bytes)
            })
            .collect()
    }
}
