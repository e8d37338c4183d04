//! `ccp`: Capacity and Congestion Probing (Cavendish et al., INTERNET 2010).
//!
//! On every acknowledgement cwnd = [Kp (B - x) - in flight] / 2: a proportional law that holds the
//! path's backlog x at a fixed part of its storage B. The window has no memory, and losses do not
//! move it.
//!
//! The law is the paper's as later papers of the same group quote it. They do not contain the
//! estimators of B and x.
//!
//! Deviations and decisions:
//! 1. Capacity c by CapProbe (Kapoor et al., SIGCOMM 2004): the dispersion of the packet pair with
//!    the least sum of delays, in runs of 100 pairs, so that a new capacity is noticed; before any
//!    pair, the largest delivery rate. x = c (RTT - least RTT), of the newest packet.
//! 2. B = c × the largest RTT, which slow start up to the first loss shows, but at least 1.5 c ×
//!    the least RTT. Round-trip times of packets declared lost do not count. While the path is
//!    idle, the largest one decays by 1 % per second.
//! 3. Kp = 2. A flow alone settles at a window of Kp (B - x) / 3, a queue of [Kp (P + Q) - 3 P] /
//!    (3 + Kp) for a pipe P and a buffer Q; the loop through the queue has the gain Kp / 3, so that
//!    Kp must lie below 3.
//! 4. The law runs once per report, with the packets in flight after it. The window grows by no
//!    more than the acknowledged packets, and only if it was full. `limiter=off`, for experiments,
//!    lets it jump: after a pause it jumps into overflow, and may stay in a cycle of overflows.
//! 5. Only the law reacts to losses, so there is a safety: above 10 % of loss over ten round trips
//!    B shrinks by a tenth.
//! 6. The window is at least two segments. After a silent path it is two segments, and the law
//!    continues from there. A retransmission timeout only ends slow start.
//! 7. Marks are losses to the sources: no ECT is sent. Idleness: see `window.rs`, 6.

mod path_model;

use core::fmt::Debug;

use anabranch_core::control::{CongestionController, ControlParameters, ControllerConfig, Timeout};
use anabranch_core::recovery::{Feedback, FeedbackSchedule, SentPacket};
use anabranch_core::{PathView, SessionView};
use anabranch_units::options::AlgorithmOption;
use anabranch_units::{Ecn, Instant};

pub(super) use self::path_model::PathModel;
use super::window::{DELAYED_ACKNOWLEDGEMENTS, Window};

/// In segments.
const MIN_WINDOW: f64 = 2.0;

const GAIN: AlgorithmOption =
    AlgorithmOption::number("kp", "Kp, the gain of the free storage", 2.0, 0.0..=10.0);
const LIMITER: AlgorithmOption = AlgorithmOption::words(
    "limiter",
    "whether the window grows by at most the acknowledged packets",
    &["on", "off"],
);

pub(super) const OPTIONS: &[AlgorithmOption] = &[GAIN, LIMITER];

pub(super) fn build(config: &ControllerConfig) -> Box<dyn CongestionController> {
    Box::new(probing(config))
}

fn probing(config: &ControllerConfig) -> Probing<Proportional> {
    let law = Proportional {
        gain: config.options.number(&GAIN),
    };
    Probing::new(config, law, config.options.word(&LIMITER) == "on")
}

/// Computes a window from the path's state, in segments.
pub(super) trait Law: Debug + Send {
    fn window(&mut self, now: Instant, path: &PathModel, round_trip: f64, in_flight: f64) -> f64;
}

/// CCP's law.
#[derive(Debug)]
struct Proportional {
    /// `Kp`.
    gain: f64,
}

impl Law for Proportional {
    fn window(&mut self, _now: Instant, path: &PathModel, _round_trip: f64, in_flight: f64) -> f64 {
        (self.gain * (path.storage() - path.backlog()) - in_flight) / 2.0
    }
}

/// Slow start up to the first loss, then a law.
#[derive(Debug)]
pub(super) struct Probing<L> {
    window: Window,
    pub(super) path: PathModel,
    pub(super) law: L,
    has_limiter: bool,
    is_in_slow_start: bool,
}

impl<L: Law> Probing<L> {
    pub(super) fn new(config: &ControllerConfig, law: L, has_limiter: bool) -> Self {
        let window = Window::new(config);
        Probing {
            path: PathModel::new(window.segment_bytes()),
            window,
            law,
            has_limiter,
            is_in_slow_start: true,
        }
    }

    fn end_slow_start(&mut self, now: Instant) {
        if self.is_in_slow_start {
            self.is_in_slow_start = false;
            let next_packet_number = self.window.next_packet_number();
            self.path.begin_counting(now, next_packet_number);
        }
    }

    fn apply_law(&mut self, now: Instant, feedback: &Feedback<'_>, acked_segments: f64) {
        let in_flight = self.window.segments_of(feedback.bytes_in_flight);
        let round_trip = feedback.rtt.smoothed().as_secs_f64();
        let wanted = self.law.window(now, &self.path, round_trip, in_flight);
        let most = if !self.window.may_grow(feedback) {
            self.window.segments
        } else if self.has_limiter {
            self.window.segments + acked_segments
        } else {
            f64::INFINITY
        };
        self.window.segments = wanted.min(most).max(MIN_WINDOW);
    }
}

impl<L: Law> CongestionController for Probing<L> {
    fn on_sent(&mut self, now: Instant, packet: &SentPacket) {
        if let Some(idle) = self.window.on_sent(now, packet) {
            self.path.on_idle(idle);
        }
    }

    fn on_feedback(
        &mut self,
        now: Instant,
        feedback: &Feedback<'_>,
        _session: &SessionView,
        _paths: &[PathView],
    ) {
        self.window.hear(feedback);
        self.path.on_feedback(now, feedback);
        if !feedback.lost.is_empty() {
            self.end_slow_start(now);
        }
        let acked_segments = self.window.acked_segments(feedback);
        if !self.is_in_slow_start {
            self.apply_law(now, feedback, acked_segments);
        } else if self.window.may_grow(feedback) {
            self.window.slow_start(acked_segments);
        }
    }

    fn on_penalty(&mut self) {
        self.window.on_penalty();
    }

    fn on_timeout(&mut self, now: Instant, cause: Timeout) {
        match cause {
            Timeout::Retransmission { .. } => self.end_slow_start(now),
            Timeout::FeedbackSilence { .. } => {
                self.end_slow_start(now);
                self.window.segments = MIN_WINDOW;
            }
            Timeout::Own => {}
        }
    }

    fn control(&self) -> ControlParameters {
        ControlParameters {
            ecn: Ecn::NotEct,
            ..self.window.control()
        }
    }

    fn feedback_schedule(&self) -> FeedbackSchedule {
        DELAYED_ACKNOWLEDGEMENTS
    }

    fn state(&self) -> &'static str {
        if self.is_in_slow_start {
            "SlowStart"
        } else {
            "Probing"
        }
    }
}
#[cfg(test)]
mod tests;
