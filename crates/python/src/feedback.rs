//! Reports and set-ups as controllers in Python see them.

use anabranch_core::control::ControllerConfig;
use anabranch_core::recovery::{AckedPacket, Feedback, SentPacket};
use anabranch_units::{DataRate, Duration, Instant};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Parameters of a controller: the scenario's keys, and properties of the path.
///
/// `min_rate_bps`, `max_rate_bps` (None: without one) and `initial_rate_bps` in bit/s,
/// `initial_window_packets`, `max_packet_bytes`, `is_media`, and the path's `seed` for chance.
///
/// >>> import anabranch
/// >>> class Steady(anabranch.Controller):
/// ...     def start(self, config):
/// ...         assert config.initial_rate_bps == 300_000 and config.is_media
/// ...     def on_feedback(self, now_s, feedback):
/// ...         return None
/// >>> small = anabranch.testing.small_scenario().with_({"flows.0.controller": Steady})
/// >>> anabranch.run(small, seeds=1).finished_count
/// 1
#[pyclass(frozen, get_all, name = "ControllerConfig", module = "anabranch")]
#[derive(Debug)]
pub(crate) struct NativeConfig {
    /// Least rate, in bit/s.
    min_rate_bps: f64,
    /// Rate above which it is of no use to go, in bit/s; None: without one.
    max_rate_bps: Option<f64>,
    /// Rate before anything is known, in bit/s.
    initial_rate_bps: f64,
    /// Window before anything is known, in packets.
    initial_window_packets: u32,
    /// Largest packet on the wire, in bytes.
    max_packet_bytes: u32,
    /// Whether the session carries media.
    is_media: bool,
    /// Seed of the path, for the controller's own chance.
    seed: u64,
}

fn bps(rate: DataRate) -> f64 {
    rate.bits_per_second() as f64
}

impl NativeConfig {
    pub(crate) fn of(config: &ControllerConfig) -> NativeConfig {
        NativeConfig {
            min_rate_bps: bps(config.min_rate),
            max_rate_bps: (config.max_rate != DataRate::MAX).then(|| bps(config.max_rate)),
            initial_rate_bps: bps(config.initial_rate),
            initial_window_packets: config.initial_window_packets,
            max_packet_bytes: config.max_packet_bytes,
            is_media: config.is_media,
            seed: config.seed.0,
        }
    }
}

/// A digested report of the receiver about one path.
///
/// Newly acknowledged and lost packets: `acked`, `lost` (`Packets`), and their sums `acked_count`,
/// `acked_bytes`, `lost_count`, `lost_bytes`; `spurious_count`: lost ones that arrived after all.
/// Round-trip times in seconds, None if unknown: `smoothed_rtt_s`, `latest_rtt_s`, `min_rtt_s`,
/// `rtt_variation_s`. `delivery_rate_bps` in bit/s, None without a valid sample. In bytes:
/// `prior_bytes_in_flight`, `bytes_in_flight`, `total_delivered_bytes`, `total_lost_bytes`.
/// `is_app_limited`, `is_window_limited`; `ce_count`: packets marked by ECN; `reported_s`: time of
/// the report by the receiver's clock; `path`: number of the path.
///
/// >>> import anabranch
/// >>> class Steady(anabranch.Controller):
/// ...     def on_feedback(self, now_s, feedback):
/// ...         assert feedback.acked_count == len(feedback.acked)
/// >>> small = anabranch.testing.small_scenario().with_({"flows.0.controller": Steady})
/// >>> anabranch.run(small, seeds=1).finished_count
/// 1
#[pyclass(frozen, name = "Feedback", module = "anabranch")]
#[derive(Debug)]
pub(crate) struct NativeFeedback {
    #[pyo3(get)]
    path: u8,
    #[pyo3(get)]
    acked_count: usize,
    #[pyo3(get)]
    acked_bytes: u64,
    #[pyo3(get)]
    lost_count: usize,
    #[pyo3(get)]
    lost_bytes: u64,
    #[pyo3(get)]
    spurious_count: usize,
    #[pyo3(get)]
    smoothed_rtt_s: Option<f64>,
    #[pyo3(get)]
    latest_rtt_s: Option<f64>,
    #[pyo3(get)]
    min_rtt_s: Option<f64>,
    #[pyo3(get)]
    rtt_variation_s: f64,
    #[pyo3(get)]
    delivery_rate_bps: Option<f64>,
    #[pyo3(get)]
    prior_bytes_in_flight: u64,
    #[pyo3(get)]
    bytes_in_flight: u64,
    #[pyo3(get)]
    total_delivered_bytes: u64,
    #[pyo3(get)]
    total_lost_bytes: u64,
    #[pyo3(get)]
    is_app_limited: bool,
    #[pyo3(get)]
    is_window_limited: bool,
    #[pyo3(get)]
    ce_count: u64,
    #[pyo3(get)]
    reported_s: f64,
    acked: Vec<AckedPacket>,
    lost: Vec<SentPacket>,
}

impl NativeFeedback {
    pub(crate) fn of(feedback: &Feedback<'_>) -> NativeFeedback {
        let rtt = feedback.rtt;
        let is_known = rtt.latest().is_some();
        NativeFeedback {
            path: feedback.path.0,
            acked_count: feedback.acked.len(),
            acked_bytes: feedback
                .acked
                .iter()
                .map(|acked| u64::from(acked.sent.bytes))
                .sum(),
            lost_count: feedback.lost.len(),
            lost_bytes: feedback.lost.iter().map(|lost| u64::from(lost.bytes)).sum(),
            spurious_count: feedback.spurious.len(),
            smoothed_rtt_s: is_known.then(|| rtt.smoothed().as_secs_f64()),
            latest_rtt_s: rtt.latest().map(Duration::as_secs_f64),
            min_rtt_s: rtt.min_rtt().map(Duration::as_secs_f64),
            rtt_variation_s: rtt.variation().as_secs_f64(),
            delivery_rate_bps: feedback.delivery.map(|sample| bps(sample.delivery_rate)),
            prior_bytes_in_flight: feedback.prior_bytes_in_flight,
            bytes_in_flight: feedback.bytes_in_flight,
            total_delivered_bytes: feedback.delivered_bytes,
            total_lost_bytes: feedback.lost_bytes,
            is_app_limited: feedback.is_app_limited,
            is_window_limited: feedback.is_window_limited,
            ce_count: feedback.ce_count,
            reported_s: (feedback.reported_at - Instant::ZERO).as_secs_f64(),
            acked: feedback.acked.to_vec(),
            lost: feedback.lost.to_vec(),
        }
    }
}

#[pymethods]
impl NativeFeedback {
    /// Newly acknowledged packets, in the order of their numbers.
    #[getter]
    fn acked(&self) -> NativePackets {
        NativePackets(self.acked.clone())
    }

    /// Packets newly declared lost, in the order of their numbers.
    #[getter]
    fn lost(&self) -> NativePackets {
        NativePackets::lost(&self.lost)
    }
}

/// Packets of a report, in numpy arrays of float64 that are made when they are asked for.
///
/// `number` (on the path), `bytes` (on the wire), `sent_s`, `received_s` (by the receiver's clock)
/// and `rtt_s` in seconds. NaN: not known; lost packets have neither of the last two.
///
/// >>> import anabranch
/// >>> class Steady(anabranch.Controller):
/// ...     def on_feedback(self, now_s, feedback):
/// ...         assert (feedback.acked.sent_s <= now_s).all()
/// >>> small = anabranch.testing.small_scenario().with_({"flows.0.controller": Steady})
/// >>> anabranch.run(small, seeds=1).finished_count
/// 1
#[pyclass(frozen, name = "Packets", module = "anabranch")]
#[derive(Debug)]
pub(crate) struct NativePackets(Vec<AckedPacket>);

impl NativePackets {
    fn lost(packets: &[SentPacket]) -> NativePackets {
        let lost = packets.iter().map(|sent| AckedPacket {
            sent: *sent,
            received_at: None,
            rtt: None,
            delivered_bytes: 0,
        });
        NativePackets(lost.collect())
    }

    /// Returns a value of each packet as a numpy array.
    fn floats<'py>(
        &self,
        py: Python<'py>,
        value: impl Fn(&AckedPacket) -> f64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let values = self.0.iter().map(value);
        let bytes: Vec<u8> = values.flat_map(f64::to_ne_bytes).collect();
        let arguments = (PyBytes::new(py, &bytes), "f8");
        py.import("numpy")?.call_method1("frombuffer", arguments)
    }
}

fn seconds(at: Instant) -> f64 {
    (at - Instant::ZERO).as_secs_f64()
}

#[pymethods]
impl NativePackets {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// Numbers of the packets on their path.
    #[getter]
    fn number<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.floats(py, |packet| packet.sent.packet_number as f64)
    }

    /// Their bytes on the wire.
    #[getter]
    fn bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.floats(py, |packet| f64::from(packet.sent.bytes))
    }

    /// When they left, in simulated seconds.
    #[getter]
    fn sent_s<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.floats(py, |packet| seconds(packet.sent.sent_at))
    }

    /// When they arrived by the receiver's clock, in seconds; NaN: not known.
    #[getter]
    fn received_s<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.floats(py, |packet| packet.received_at.map_or(f64::NAN, seconds))
    }

    /// Their round-trip times in seconds; NaN: not known.
    #[getter]
    fn rtt_s<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.floats(py, |packet| {
            packet.rtt.map_or(f64::NAN, Duration::as_secs_f64)
        })
    }
}
