//! Schedulers written in Python.

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_core::scheduler::{
    Assignment, PacketKind, PacketView, Scheduler, SendQueue, fastest,
};
use anabranch_core::{PathId, PathSet, PathState, PathView, SessionView};
use anabranch_schedulers::{OneByOne, PathCost};
use anabranch_units::{Duration, Importance, Instant};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::controller::Maker;
use crate::failures::has_failed;

/// A packet that waits for a path.
///
/// `frame`, `fragment` and `fragment_count`: numbers from 0, and the fragments of its frame.
/// `bytes` on the wire. `importance`: key, reference or disposable. `deadline_s`: simulated seconds
/// after which the frame is worthless, None for never.
///
/// >>> import anabranch
/// >>> class Nearest(anabranch.Scheduler):
/// ...     def cost(self, packet, path):
/// ...         assert packet.fragment < packet.fragment_count
/// ...         return path.transfer_cost_s
/// >>> two = anabranch.testing.two_path_scenario().with_({"flows.0.scheduler": Nearest})
/// >>> anabranch.run(two, seeds=1).finished_count
/// 1
#[pyclass(frozen, get_all, name = "Packet", module = "anabranch")]
#[derive(Debug)]
pub(crate) struct NativePacket {
    /// Number of its frame, from 0.
    frame: u64,
    /// Number of its fragment in the frame, from 0.
    fragment: u16,
    /// Fragments of the frame.
    fragment_count: u16,
    /// Bytes on the wire.
    bytes: u32,
    /// `key`, `reference` or `disposable`.
    importance: &'static str,
    /// Time in simulated seconds after which the frame is worthless; None: never.
    deadline_s: Option<f64>,
}

impl NativePacket {
    fn of(packet: &PacketView) -> NativePacket {
        NativePacket {
            frame: packet.frame.0,
            fragment: packet.fragment,
            fragment_count: packet.fragment_count,
            bytes: packet.bytes,
            importance: match packet.importance {
                Importance::Key => "key",
                Importance::Reference => "reference",
                Importance::Disposable => "disposable",
            },
            deadline_s: packet.deadline.map(seconds),
        }
    }
}

/// A path as a scheduler sees it.
///
/// `id`, `state` (active, suspect, out or removed), `is_usable`, `is_standby` (held in reserve),
/// `weight` (the user's preference). Round-trip times in seconds, None if unknown:
/// `smoothed_rtt_s`, `latest_rtt_s`, `min_rtt_s`; `rtt_variation_s`. In bytes: `queued_bytes`,
/// `bytes_in_flight`, `sendable_bytes` and `window_bytes`. In bit/s: `pacing_bps` and
/// `bandwidth_bps`. `loss`: lost over sent packets. `transfer_cost_s`: half the round trip and the
/// queue at the pacing rate, as `min-cost` has it.
///
/// >>> import anabranch
/// >>> class Widest(anabranch.Scheduler):
/// ...     def choose(self, packets, paths):
/// ...         usable = [path for path in paths if path.is_usable]
/// ...         return [max(usable, key=lambda path: path.bandwidth_bps).id for _ in packets]
/// >>> two = anabranch.testing.two_path_scenario().with_({"flows.0.scheduler": Widest})
/// >>> anabranch.run(two, seeds=1).finished_count
/// 1
#[pyclass(frozen, get_all, name = "Path", module = "anabranch")]
#[derive(Debug)]
pub(crate) struct NativePath {
    /// Number of the path.
    id: u8,
    /// `active`, `suspect`, `out` or `removed`.
    state: &'static str,
    /// Whether packets may be sent on it: it is active or suspect.
    is_usable: bool,
    /// Whether it is held in reserve.
    is_standby: bool,
    /// The user's preference.
    weight: f64,
    /// Smoothed round-trip time in seconds; None: not known yet, as the next two.
    smoothed_rtt_s: Option<f64>,
    latest_rtt_s: Option<f64>,
    min_rtt_s: Option<f64>,
    rtt_variation_s: f64,
    /// Bytes that wait for the path, those bound in this call included.
    queued_bytes: u64,
    bytes_in_flight: u64,
    /// The controller's window in bytes; None: it has none.
    window_bytes: Option<u64>,
    /// The controller's pacing rate in bit/s; None: it does not pace.
    pacing_bps: Option<f64>,
    /// Rate in bit/s that the controller believes the path carries.
    bandwidth_bps: f64,
    /// Bytes that the path takes now without waiting.
    sendable_bytes: u64,
    /// Lost over sent packets, smoothed.
    loss: f64,
    /// Time in seconds in which the queue leaves at the pacing rate, plus half the round trip.
    transfer_cost_s: f64,
}

impl NativePath {
    fn of(path: &PathView) -> NativePath {
        NativePath {
            id: path.id.0,
            state: match path.state {
                PathState::Active => "active",
                PathState::Suspect => "suspect",
                PathState::Out => "out",
                PathState::Removed => "removed",
            },
            is_usable: path.state.is_usable(),
            is_standby: path.is_standby,
            weight: path.weight,
            smoothed_rtt_s: path.rtt.smoothed.map(Duration::as_secs_f64),
            latest_rtt_s: path.rtt.latest.map(Duration::as_secs_f64),
            min_rtt_s: path.rtt.least.map(Duration::as_secs_f64),
            rtt_variation_s: path.rtt.variation.as_secs_f64(),
            queued_bytes: path.queued_bytes,
            bytes_in_flight: path.bytes_in_flight,
            window_bytes: path.congestion_window,
            pacing_bps: path.pacing_rate.map(|rate| rate.bits_per_second() as f64),
            bandwidth_bps: path.bandwidth.bits_per_second() as f64,
            sendable_bytes: path.sendable_bytes,
            loss: path.risk.loss_ratio,
            transfer_cost_s: anabranch_schedulers::transfer_cost(path, 0).as_secs_f64(),
        }
    }
}

fn seconds(now: Instant) -> f64 {
    (now - Instant::ZERO).as_secs_f64()
}

/// A scheduler of Python: a cost for each path, or a choice for all packets.
#[derive(Debug)]
pub(crate) struct PyScheduler {
    maker: Arc<Maker>,
    instance: Option<Py<PyAny>>,
}

/// Largest cost that a scheduler may name: a year.
const MAX_COST_S: f64 = 365.0 * 86_400.0;

impl PyScheduler {
    /// Makes an instance, and the scheduler that calls it.
    pub(crate) fn build(maker: &Arc<Maker>) -> Box<dyn Scheduler> {
        let made = Python::attach(|py| {
            let instance = maker.instance(py)?;
            let has_choice: bool = instance.getattr(py, "_has_choice")?.extract(py)?;
            Ok((instance, has_choice))
        });
        let (instance, has_choice) = match made {
            Ok((instance, has_choice)) => (Some(instance), has_choice),
            Err(error) => {
                maker.fail("__init__", Instant::ZERO, error);
                (None, false)
            }
        };
        let scheduler = PyScheduler {
            maker: maker.clone(),
            instance,
        };
        if has_choice {
            Box::new(scheduler)
        } else {
            Box::new(OneByOne::new(scheduler))
        }
    }

    fn asked_cost(&self, packet: &PacketView, path: &PathView) -> PyResult<f64> {
        let Some(instance) = &self.instance else {
            return Ok(0.0);
        };
        let cost = Python::attach(|py| {
            let packet = Py::new(py, NativePacket::of(packet))?;
            let path = Py::new(py, NativePath::of(path))?;
            let cost = instance.bind(py).call_method1("cost", (packet, path))?;
            cost.extract::<f64>()
        })?;
        if (0.0..=MAX_COST_S).contains(&cost) {
            Ok(cost)
        } else {
            Err(PyValueError::new_err(format!(
                "a cost is a number of seconds from 0 to a year, not {cost}"
            )))
        }
    }

    /// Returns the paths of each packet; an empty set holds the packet.
    fn asked_choice(
        &self,
        packets: &[(usize, &PacketView)],
        paths: &[PathView],
    ) -> PyResult<Vec<PathSet>> {
        let Some(instance) = &self.instance else {
            return Ok(vec![PathSet::EMPTY; packets.len()]);
        };
        Python::attach(|py| {
            let offered = packets
                .iter()
                .map(|(_, packet)| Py::new(py, NativePacket::of(packet)))
                .collect::<PyResult<Vec<Py<NativePacket>>>>()?;
            let views = paths
                .iter()
                .map(|path| Py::new(py, NativePath::of(path)))
                .collect::<PyResult<Vec<Py<NativePath>>>>()?;
            let answer = instance.bind(py).call_method1("choose", (offered, views))?;
            let answers: Vec<Bound<'_, PyAny>> = answer.extract().map_err(|_| {
                PyTypeError::new_err("choose must return a list with an entry for each packet")
            })?;
            if answers.len() != packets.len() {
                let (count, wanted) = (answers.len(), packets.len());
                let message = format!("choose returned {count} entries for {wanted} packets");
                return Err(PyValueError::new_err(message));
            }
            answers.iter().map(|entry| chosen(entry, paths)).collect()
        })
    }
}

/// Returns the paths of one entry of a choice: None, a number or several numbers.
fn chosen(entry: &Bound<'_, PyAny>, paths: &[PathView]) -> PyResult<PathSet> {
    if entry.is_none() {
        return Ok(PathSet::EMPTY);
    }
    let numbers: Vec<u8> = match entry.extract::<u8>() {
        Ok(number) => vec![number],
        Err(_) => entry.extract().map_err(|_| {
            PyTypeError::new_err(format!(
                "expected the id of a path, several, or None: {entry}"
            ))
        })?,
    };
    let usable: Vec<u8> = paths
        .iter()
        .filter(|path| path.state.is_usable())
        .map(|path| path.id.0)
        .collect();
    match numbers.iter().find(|number| !usable.contains(number)) {
        Some(number) => Err(PyValueError::new_err(format!(
            "{number} is no path that packets may take now; these are {usable:?}"
        ))),
        None => Ok(numbers.into_iter().map(PathId).collect()),
    }
}

impl PathCost for PyScheduler {
    fn cost(&mut self, now: Instant, packet: &PacketView, path: &PathView) -> Duration {
        if has_failed() {
            return Duration::ZERO;
        }
        let cost = self.asked_cost(packet, path).unwrap_or_else(|error| {
            self.maker.fail("cost", now, error);
            0.0
        });
        Duration::from_secs_f64(cost)
    }
}

impl Scheduler for PyScheduler {
    fn schedule(
        &mut self,
        now: Instant,
        queue: &SendQueue<'_>,
        _session: &SessionView,
        paths: &[PathView],
        out: &mut Vec<Assignment>,
    ) {
        if has_failed() || !paths.iter().any(|path| path.state.is_usable()) {
            return;
        }
        let mut bound: BTreeMap<usize, PathSet> = BTreeMap::new();
        let mut sources: Vec<(usize, &PacketView)> = Vec::new();
        for (index, packet) in queue.iter() {
            match packet.kind() {
                PacketKind::Source => sources.push((index, packet)),
                _ => {
                    let path = fastest(packet, paths).map(PathSet::only);
                    bound.insert(index, path.unwrap_or(PathSet::EMPTY));
                }
            }
        }
        if !sources.is_empty() {
            match self.asked_choice(&sources, paths) {
                Ok(sets) => {
                    let indices = sources.iter().map(|(index, _)| *index);
                    bound.extend(indices.zip(sets));
                }
                Err(error) => self.maker.fail("choose", now, error),
            }
        }
        let bound = bound.into_iter().filter(|(_, paths)| !paths.is_empty());
        out.extend(bound.map(|(index, paths)| Assignment { index, paths }));
    }
}
