//! Episodes for environments of reinforcement learning, several at a time on threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use anabranch_lab::episode::{Episode, EpisodeConfig, EpisodeError, Steering, StepReport};
use anabranch_lab::in_parallel;
use anabranch_units::{Duration, Instant};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors;
use crate::runs::panic_message;
use crate::scenario::NativeScenario;

/// Numbers about a step as a whole, in their order. Durations and times are in seconds.
const STEP_NUMBERS: [&str; 15] = [
    "time_s",
    "length_s",
    "is_over",
    "target_bps",
    "given_up_frames",
    "on_time_frames",
    "decodable_frames",
    "missed_frames",
    "complete_frames",
    "frame_delay_sum_s",
    "on_time_bytes",
    "quality_s",
    "delay_s",
    "missed_s",
    "path_count",
];

/// Numbers about each path, in their order. Up to `is_usable` they are the sender's knowledge, the
/// others are the state of the network. NaN: not known, or no limit.
const PATH_NUMBERS: [&str; 18] = [
    "sent_bytes",
    "acked_bytes",
    "acked_packets",
    "lost_packets",
    "mean_rtt_s",
    "smoothed_rtt_s",
    "min_rtt_s",
    "silence_s",
    "in_flight_bytes",
    "unsent_bytes",
    "bandwidth_bps",
    "is_usable",
    "capacity_bps",
    "queued_bytes",
    "delivered_bytes",
    "delivered_packets",
    "packet_delay_sum_s",
    "dropped_packets",
];

/// Returns the names of a step's numbers, and of those of each path.
#[pyfunction]
pub(crate) fn episode_numbers() -> (Vec<&'static str>, Vec<&'static str>) {
    (STEP_NUMBERS.to_vec(), PATH_NUMBERS.to_vec())
}

fn push_row(row: &mut Vec<f64>, report: &StepReport) {
    let StepReport { frames, .. } = report;
    let numbers: [f64; STEP_NUMBERS.len()] = [
        (report.at - Instant::ZERO).as_secs_f64(),
        report.length.as_secs_f64(),
        f64::from(u8::from(report.is_over)),
        report.target_bitrate.bits_per_second() as f64,
        report.frames_given_up as f64,
        frames.on_time as f64,
        frames.decodable as f64,
        frames.missed as f64,
        frames.complete as f64,
        frames.delay.as_secs_f64(),
        frames.on_time_bytes as f64,
        frames.quality_s,
        frames.delay_s,
        frames.missed_s,
        report.sender.len() as f64,
    ];
    row.extend(numbers);
    for (sender, network) in report.sender.iter().zip(&report.network) {
        let [mean_rtt, smoothed_rtt, min_rtt] =
            [sender.mean_rtt, sender.smoothed_rtt, sender.min_rtt]
                .map(|rtt| rtt.map_or(f64::NAN, Duration::as_secs_f64));
        let numbers: [f64; PATH_NUMBERS.len()] = [
            sender.sent_bytes as f64,
            sender.acked_bytes as f64,
            sender.acked_packets as f64,
            sender.lost_packets as f64,
            mean_rtt,
            smoothed_rtt,
            min_rtt,
            sender.silence.as_secs_f64(),
            sender.bytes_in_flight as f64,
            sender.unsent_bytes as f64,
            sender.bandwidth.bits_per_second() as f64,
            f64::from(u8::from(sender.is_usable)),
            network.capacity_bits_per_second.unwrap_or(f64::NAN),
            network.queued_bytes as f64,
            network.delivered_bytes as f64,
            network.delivered_packets as f64,
            network.delay.as_secs_f64(),
            network.dropped_packets as f64,
        ];
        row.extend(numbers);
    }
}

/// Reason for which a step was not made.
#[derive(Debug)]
enum Failure {
    Missing,
    Episode(EpisodeError),
    Panic(String),
}

impl Failure {
    fn into_error(self, py: Python<'_>, slot: usize) -> PyErr {
        match self {
            Failure::Missing => {
                PyValueError::new_err(format!("episode {slot} has not begun: call reset"))
            }
            Failure::Episode(error) => episode_error(py, &error),
            Failure::Panic(message) => errors::text(
                py,
                &format!("the simulator panicked in episode {slot}: {message}"),
            ),
        }
    }
}

fn episode_error(py: Python<'_>, error: &EpisodeError) -> PyErr {
    match error {
        EpisodeError::Run(error) => errors::run(py, error),
        error => PyValueError::new_err(error.to_string()),
    }
}

/// Episodes, each in a slot, which step at the same time.
#[pyclass(frozen, module = "anabranch._native")]
#[derive(Debug)]
pub(crate) struct NativeEpisodes {
    slots: Vec<Mutex<Option<Episode>>>,
    threads: usize,
    steering: Steering,
    step: Duration,
}

#[pymethods]
impl NativeEpisodes {
    /// Returns `count` empty slots. `steering` is "none", "rate" or "split", `step_s` the length of
    /// a step, `threads` their number, 0 for one per core.
    #[new]
    fn new(count: usize, steering: &str, step_s: f64, threads: usize) -> PyResult<NativeEpisodes> {
        let steering = match steering {
            "none" => Steering::None,
            "rate" => Steering::Rate,
            "split" => Steering::Split,
            other => {
                return Err(PyValueError::new_err(format!(
                    "no steering is called {other:?}; known are none, rate, split"
                )));
            }
        };
        if !(0.001..=10.0).contains(&step_s) {
            return Err(PyValueError::new_err(format!(
                "step_ms: 1 to 10000, not {}",
                step_s * 1e3
            )));
        }
        Ok(NativeEpisodes {
            slots: (0..count).map(|_| Mutex::new(None)).collect(),
            threads,
            steering,
            step: Duration::from_secs_f64(step_s),
        })
    }

    /// Begins an episode: a run of the scenario's only point with this seed, about the flow of this
    /// index. Returns the number of the flow's paths.
    fn reset(
        &self,
        py: Python<'_>,
        slot: usize,
        scenario: &NativeScenario,
        flow: usize,
        seed: u64,
    ) -> PyResult<usize> {
        if scenario.points.len() != 1 {
            return Err(PyValueError::new_err(
                "an episode needs a scenario without a sweep",
            ));
        }
        if scenario.has_python {
            return Err(PyValueError::new_err(
                "an episode runs algorithms in Rust only: a scenario's algorithms in Python would \
                 stop its threads",
            ));
        }
        let config = EpisodeConfig {
            flow,
            steering: self.steering,
            step: self.step,
        };
        let episode = Episode::new(&scenario.points[0].scenario, seed, config)
            .map_err(|error| episode_error(py, &error))?;
        let path_count = episode.path_count();
        let Some(slot) = self.slots.get(slot) else {
            return Err(PyValueError::new_err("there is no such slot"));
        };
        *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(episode);
        Ok(path_count)
    }

    /// Runs a step of every episode without Python's lock. `decisions` are float64 numbers, equally
    /// many for each slot. Returns float64 numbers: for each slot those of [`STEP_NUMBERS`] and,
    /// for each path, of [`PATH_NUMBERS`].
    fn step<'py>(&self, py: Python<'py>, decisions: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let decisions: Vec<f64> = decisions
            .chunks_exact(size_of::<f64>())
            .map(|bytes| f64::from_ne_bytes(bytes.try_into().expect("eight bytes")))
            .collect();
        let width = decisions.len() / self.slots.len().max(1);
        let indices: Vec<usize> = (0..self.slots.len()).collect();
        let advance =
            |&slot: &usize| self.advance(slot, &decisions[slot * width..(slot + 1) * width]);
        let rows: Vec<_> = py.detach(|| match indices.len().min(self.threads) {
            // A thread costs as much as a step.
            1 => indices.iter().map(advance).collect(),
            _ => in_parallel(&indices, self.threads, advance),
        });
        let mut numbers = Vec::new();
        for (slot, row) in rows.into_iter().enumerate() {
            let report = row.map_err(|failure| failure.into_error(py, slot))?;
            push_row(&mut numbers, &report);
        }
        let bytes: Vec<u8> = numbers.into_iter().flat_map(f64::to_ne_bytes).collect();
        Ok(PyBytes::new(py, &bytes))
    }
}

impl NativeEpisodes {
    fn advance(&self, slot: usize, decision: &[f64]) -> Result<StepReport, Failure> {
        let mut episode = self.slots[slot]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let made = catch_unwind(AssertUnwindSafe(|| {
            let running = episode.as_mut().ok_or(Failure::Missing)?;
            running.advance(decision).map_err(Failure::Episode)
        }));
        match made {
            Ok(report) => report,
            Err(panic) => {
                // Its state is unknown.
                *episode = None;
                Err(Failure::Panic(panic_message(&*panic)))
            }
        }
    }
}
