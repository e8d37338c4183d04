//! Congestion controllers written in Python.

use anabranch_core::control::{CongestionController, ControlParameters, ControllerConfig, Timeout};
use anabranch_core::recovery::{Feedback, SentPacket};
use anabranch_core::{PathView, SessionView};
use anabranch_units::{DataRate, Instant};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::errors::Failure;
use crate::failures::{fail, has_failed};
use crate::feedback::{NativeConfig, NativeFeedback};

/// A class or function of Python that makes an algorithm's instances.
#[derive(Debug)]
pub(crate) struct Maker {
    pub(crate) name: String,
    make: Py<PyAny>,
}

impl Maker {
    pub(crate) fn new(name: String, make: Py<PyAny>) -> Maker {
        Maker { name, make }
    }

    /// Returns a new instance.
    pub(crate) fn instance(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.make.call0(py)
    }

    /// Notes an exception of a method.
    pub(crate) fn fail(&self, method: &str, now: Instant, cause: PyErr) {
        fail(Failure {
            method: format!("{}.{method}", self.name),
            time_s: (now - Instant::ZERO).as_secs_f64(),
            cause,
        });
    }
}

/// Limits that a controller sets for its path.
///
/// `window_bytes`: most bytes in flight. `pacing_bps`: rate in bit/s at which packets are spaced.
/// `target_bps`: rate in bit/s that the path is believed to carry, from which the encoder's target
/// is made; `pacing_bps` unless given. `padding_bps`: rate of padding that probes for bandwidth.
/// Raises ValueError for NaN, infinite or negative values, and without any rate.
///
/// >>> import anabranch
/// >>> anabranch.Control(pacing_bps=1e6, window_bytes=30_000).target_bps
/// 1000000.0
#[pyclass(
    frozen,
    get_all,
    name = "Control",
    module = "anabranch",
    skip_from_py_object
)]
#[derive(Clone, Debug)]
pub(crate) struct Control {
    window_bytes: Option<f64>,
    pacing_bps: Option<f64>,
    target_bps: f64,
    padding_bps: f64,
}

#[pymethods]
impl Control {
    #[new]
    #[pyo3(signature = (*, window_bytes=None, pacing_bps=None, target_bps=None, padding_bps=0.0))]
    fn new(
        window_bytes: Option<f64>,
        pacing_bps: Option<f64>,
        target_bps: Option<f64>,
        padding_bps: f64,
    ) -> PyResult<Control> {
        let Some(target) = target_bps.or(pacing_bps) else {
            let message = "Control needs target_bps or pacing_bps, in bit/s";
            return Err(PyValueError::new_err(message));
        };
        let named = [
            ("window_bytes", window_bytes),
            ("pacing_bps", pacing_bps),
            ("target_bps", Some(target)),
            ("padding_bps", Some(padding_bps)),
        ];
        for (name, value) in named {
            if let Some(value) = value.filter(|value| !value.is_finite() || *value < 0.0) {
                let message = format!("{name} must be finite and not negative, not {value}");
                return Err(PyValueError::new_err(message));
            }
        }
        Ok(Control {
            window_bytes,
            pacing_bps,
            target_bps: target,
            padding_bps,
        })
    }

    fn __repr__(&self) -> String {
        let [window, pacing] = [self.window_bytes, self.pacing_bps]
            .map(|value| value.map_or("None".to_owned(), |value| value.to_string()));
        format!(
            "Control(window_bytes={window}, pacing_bps={pacing}, target_bps={}, padding_bps={})",
            self.target_bps, self.padding_bps
        )
    }
}

impl Control {
    fn parameters(&self) -> ControlParameters {
        let [target, padding] = [self.target_bps, self.padding_bps]
            .map(|bps| DataRate::from_bits_per_second(bps as u64));
        ControlParameters {
            congestion_window: self.window_bytes.map(|bytes| bytes as u64),
            pacing_rate: self
                .pacing_bps
                .map(|bps| DataRate::from_bits_per_second(bps as u64)),
            padding_rate: padding,
            ..ControlParameters::of(target)
        }
    }
}

/// Methods of an instance.
#[derive(Debug)]
struct Methods {
    on_feedback: Py<PyAny>,
    on_timeout: Py<PyAny>,
    on_sent: Py<PyAny>,
}

impl Methods {
    fn of(instance: &Bound<'_, PyAny>) -> PyResult<Methods> {
        Ok(Methods {
            on_feedback: instance.getattr("on_feedback")?.unbind(),
            on_timeout: instance.getattr("on_timeout")?.unbind(),
            on_sent: instance.getattr("on_sent")?.unbind(),
        })
    }
}

/// One path's instance of a controller in Python.
#[derive(Debug)]
pub(crate) struct PyController {
    maker: std::sync::Arc<Maker>,
    /// Its methods for reports, timeouts and sent packets. `None`: the instance could not be made,
    /// and the run ends.
    methods: Option<Methods>,
    /// Whether its class has a method of its own for sent packets.
    hears_sent: bool,
    control: ControlParameters,
}

/// Returns the control that a method has answered; `None` keeps the present one.
fn answered(answer: &Bound<'_, PyAny>) -> PyResult<Option<ControlParameters>> {
    if answer.is_none() {
        return Ok(None);
    }
    let control = answer.cast::<Control>().map_err(|_| {
        let kind = answer.get_type();
        PyTypeError::new_err(format!("expected a Control or None, not {kind}"))
    })?;
    Ok(Some(control.get().parameters()))
}

impl PyController {
    /// Makes an instance and starts it.
    pub(crate) fn start(maker: &std::sync::Arc<Maker>, config: &ControllerConfig) -> PyController {
        let usual = ControlParameters {
            pacing_rate: Some(config.initial_rate),
            ..ControlParameters::of(config.initial_rate)
        };
        let started = Python::attach(|py| {
            let instance = maker.instance(py)?;
            let config = Py::new(py, NativeConfig::of(config))?;
            let answer = instance.bind(py).call_method1("start", (config,))?;
            let control = answered(&answer)?.unwrap_or(usual);
            let hears_sent = instance.getattr(py, "_hears_sent")?.extract(py)?;
            Ok((Methods::of(instance.bind(py))?, control, hears_sent))
        });
        match started {
            Ok((methods, control, hears_sent)) => PyController {
                maker: maker.clone(),
                methods: Some(methods),
                hears_sent,
                control,
            },
            Err(error) => {
                maker.fail("start", Instant::ZERO, error);
                PyController {
                    maker: maker.clone(),
                    methods: None,
                    hears_sent: false,
                    control: usual,
                }
            }
        }
    }

    /// Calls a method of this name, and takes its answer.
    fn call(
        &mut self,
        now: Instant,
        name: &str,
        call: impl FnOnce(Python<'_>, &Methods) -> PyResult<Py<PyAny>>,
    ) {
        if has_failed() {
            return;
        }
        let Some(methods) = &self.methods else {
            return;
        };
        let answer = Python::attach(|py| answered(call(py, methods)?.bind(py)));
        match answer {
            Ok(Some(control)) => self.control = control,
            Ok(None) => {}
            Err(error) => self.maker.fail(name, now, error),
        }
    }
}

fn seconds(now: Instant) -> f64 {
    (now - Instant::ZERO).as_secs_f64()
}

impl CongestionController for PyController {
    fn on_sent(&mut self, now: Instant, packet: &SentPacket) {
        if self.hears_sent {
            let (bytes, in_flight) = (packet.bytes, packet.bytes_in_flight);
            self.call(now, "on_sent", |py, methods| {
                methods.on_sent.call1(py, (seconds(now), bytes, in_flight))
            });
        }
    }

    fn looks_at_paths(&self) -> bool {
        false
    }

    fn on_feedback(
        &mut self,
        now: Instant,
        feedback: &Feedback<'_>,
        _session: &SessionView,
        _paths: &[PathView],
    ) {
        self.call(now, "on_feedback", |py, methods| {
            let feedback = Py::new(py, NativeFeedback::of(feedback))?;
            methods.on_feedback.call1(py, (seconds(now), feedback))
        });
    }

    fn on_timeout(&mut self, now: Instant, cause: Timeout) {
        let (name, in_flight) = match cause {
            Timeout::Retransmission {
                prior_bytes_in_flight,
                ..
            } => ("retransmission", prior_bytes_in_flight),
            Timeout::FeedbackSilence {
                prior_bytes_in_flight,
            } => ("silence", prior_bytes_in_flight),
            Timeout::Own => return,
        };
        self.call(now, "on_timeout", |py, methods| {
            methods
                .on_timeout
                .call1(py, (seconds(now), name, in_flight))
        });
    }

    fn control(&self) -> ControlParameters {
        self.control
    }

    fn state(&self) -> &'static str {
        "Python"
    }
}
