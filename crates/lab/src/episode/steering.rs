//! Decisions of an episode's caller: a controller and a scheduler that follow them.

use core::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use anabranch_core::control::{
    CongestionController, ControlParameters, Controller, RateKind, Timeout,
};
use anabranch_core::recovery::Feedback;
use anabranch_core::scheduler::{PacketView, SchedulerFactory, eligible_paths};
use anabranch_core::{Config, PathId, PathView, SessionView};
use anabranch_schedulers::{OneByOne, PathChoice};
use anabranch_units::{DataRate, Duration, Instant};

use super::EpisodeError;

/// Decisions that the caller of an episode makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steering {
    /// None: the flow keeps its controller and scheduler.
    None,
    /// The rate of a flow with one path, in place of its controller. The encoder gets all of it
    /// except for headers.
    Rate,
    /// Weights of the paths, in place of the scheduler: the shares of bytes that are sent for the
    /// first time. Retransmissions follow the session's rule. The controllers stay.
    Split,
}

impl fmt::Display for Steering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Steering::None => "no decision",
            Steering::Rate => "a rate",
            Steering::Split => "a split",
        })
    }
}

impl Steering {
    /// Returns the number of values of a decision about `path_count` paths.
    pub fn decision_len(self, path_count: usize) -> usize {
        match self {
            Steering::None => 0,
            Steering::Rate => 1,
            Steering::Split => path_count,
        }
    }

    pub(super) fn check(self, path_count: usize) -> Result<(), EpisodeError> {
        let wanted = match self {
            Steering::Rate if path_count != 1 => "one path",
            Steering::Split if path_count < 2 => "two or more",
            _ => return Ok(()),
        };
        Err(EpisodeError::PathCount {
            path_count,
            steering: self,
            wanted,
        })
    }

    pub(super) fn check_decision(
        self,
        decision: &[f64],
        path_count: usize,
    ) -> Result<(), EpisodeError> {
        let wanted = self.decision_len(path_count);
        if decision.len() == wanted
            && decision
                .iter()
                .all(|value| value.is_finite() && *value >= 0.0)
        {
            Ok(())
        } else {
            Err(EpisodeError::Decision {
                wanted,
                given: decision.to_vec(),
            })
        }
    }

    /// Makes a session follow the decisions. These change every `step`.
    pub(super) fn install(self, decision: &Decision, step: Duration, config: &mut Config) {
        let decision = decision.clone();
        match self {
            Steering::None => {}
            Steering::Rate => {
                config.controller = Controller::new("action", RateKind::Media, move |path| {
                    Box::new(Steered::new(path, step, decision.clone())) as _
                });
            }
            Steering::Split => {
                config.scheduler = SchedulerFactory::new("action", move || {
                    let split = Split::new(decision.clone());
                    Box::new(OneByOne::new(split)) as _
                });
            }
        }
    }
}

/// The present decision.
#[derive(Clone, Debug)]
pub(super) struct Decision(Arc<Mutex<Vec<f64>>>);

impl Decision {
    /// Returns the decision before the first step: the initial rate, or equal shares.
    pub(super) fn new(steering: Steering, path_count: usize, config: &Config) -> Decision {
        let initial = match steering {
            Steering::Rate => config.initial_rate.bits_per_second() as f64,
            Steering::None | Steering::Split => 1.0,
        };
        let values = vec![initial; steering.decision_len(path_count)];
        Decision(Arc::new(Mutex::new(values)))
    }

    pub(super) fn set(&self, decision: &[f64]) {
        let mut values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        values.copy_from_slice(decision);
    }

    fn read<R>(&self, read: impl FnOnce(&[f64]) -> R) -> R {
        read(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Pacing rate over the rate of the decision: libwebrtc's pacing factor, so that a frame leaves in
/// less than half of its interval.
const PACING_FACTOR: f64 = 2.5;

/// A controller that follows decisions.
#[derive(Debug)]
struct Steered {
    decision: Decision,
    min_rate: DataRate,
    step: Duration,
    control: ControlParameters,
    /// Time of the next decision. The step before ends with all events at its last instant, so it
    /// is one nanosecond later.
    next_at: Instant,
}

impl Steered {
    fn new(
        config: &anabranch_core::control::ControllerConfig,
        step: Duration,
        decision: Decision,
    ) -> Steered {
        let mut steered = Steered {
            decision,
            min_rate: config.min_rate,
            step,
            control: ControlParameters::of(config.initial_rate),
            next_at: Instant::from_nanos(1),
        };
        steered.follow();
        steered
    }

    fn follow(&mut self) {
        let wanted = self.decision.read(|values| values[0]);
        let rate = DataRate::from_bits_per_second(wanted as u64).max(self.min_rate);
        self.control = ControlParameters {
            pacing_rate: Some(rate.mul_f64(PACING_FACTOR)),
            ..ControlParameters::of(rate)
        };
    }
}

impl CongestionController for Steered {
    fn looks_at_paths(&self) -> bool {
        false
    }

    fn on_feedback(
        &mut self,
        _now: Instant,
        _feedback: &Feedback<'_>,
        _session: &SessionView,
        _paths: &[PathView],
    ) {
    }

    fn next_timeout(&self) -> Option<Instant> {
        Some(self.next_at)
    }

    fn on_timeout(&mut self, now: Instant, cause: Timeout) {
        if cause == Timeout::Own {
            self.follow();
            let steps = (now - Instant::ZERO).as_nanos() / self.step.as_nanos();
            self.next_at = Instant::from_nanos(1) + self.step * (steps + 1);
        }
    }

    fn control(&self) -> ControlParameters {
        self.control
    }

    fn state(&self) -> &'static str {
        "Action"
    }
}

/// Smooth weighted round robin over bytes: each packet goes to the path that is furthest behind its
/// share.
#[derive(Debug)]
struct Split {
    decision: Decision,
    /// Bytes by path number that the path is behind its share.
    behind: Vec<f64>,
}

impl Split {
    fn new(decision: Decision) -> Split {
        Split {
            decision,
            behind: Vec::new(),
        }
    }
}

impl PathChoice for Split {
    /// Paths without weight, and those that the session would not take, get nothing while another
    /// one has weight.
    fn choose(&mut self, _now: Instant, packet: &PacketView, paths: &[PathView]) -> Option<PathId> {
        let Split { decision, behind } = self;
        let count = paths.iter().map(|path| path.id.index() + 1).max()?;
        behind.resize(count, 0.0);
        decision.read(|weights| {
            let usable = paths.iter().filter(|path| path.state.is_usable());
            let weighted = usable.map(|path| {
                let weight = weights.get(path.id.index()).copied().unwrap_or(0.0);
                (path, weight)
            });
            let total: f64 = weighted.clone().map(|(_, weight)| weight).sum();
            if total <= 0.0 {
                return eligible_paths(packet, paths).map(|path| path.id).next();
            }
            let bytes = f64::from(packet.bytes);
            let chosen = weighted.filter(|(_, weight)| *weight > 0.0);
            for (path, weight) in chosen.clone() {
                behind[path.id.index()] += bytes * weight / total;
            }
            let (furthest, _) = chosen.max_by(|(a, _), (b, _)| {
                let [a, b] = [a, b].map(|path| behind[path.id.index()]);
                a.total_cmp(&b)
            })?;
            behind[furthest.id.index()] -= bytes;
            Some(furthest.id)
        })
    }
}
