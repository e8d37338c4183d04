//! `cubic`: CUBIC (RFC 9438), with HyStart++ (RFC 9406) or HyStart (Ha & Rhee, Computer Networks
//! 55, 2011).
//!
//! After a loss the window returns to its earlier value, W_max, along a cubic function of time that
//! is flat there, and then grows beyond: W(t) = C (t - K)³ + W_max. If Reno's window would be
//! larger, it is as large as Reno's.
//!
//! Deviations and decisions:
//! 1. HyStart++ is the default, as RFC 9438 §4.10 recommends: where delays vary (wireless access),
//!    HyStart's first long round ends slow start for good; HyStart++ goes back. Linux still has
//!    HyStart: `hystart=classic`, which also applies to slow start after a timeout.
//! 2. The RTT of W(t + RTT) is the smoothed one.
//! 3. A loss reduces the window to beta times FlightSize (RFC 9438 §4.6), so that an idle source
//!    does not keep a window that it has not used. W_max is the window, and the window never rises
//!    by a loss.
//! 4. Time in which the window did not limit the sender does not count (RFC 9438 §5.8): the epoch
//!    is shifted by it.
//! 5. Slow start is limited per report only with HyStart++ (L = 8: nothing is paced).
//! 6. In Linux 6.18 W_est grows by 8/15 of a segment per round trip forever, not by 1 beyond the
//!    window before the loss (RFC 9438 §4.3), and it counts in whole segments:
//!    `friendliness=linux`.
//! 7. Segments, recovery, growth, marks, silence and idleness: see `window.rs`.

mod hystart;
mod linux;

use anabranch_core::control::{CongestionController, ControlParameters, ControllerConfig, Timeout};
use anabranch_core::recovery::{Feedback, FeedbackSchedule, SentPacket};
use anabranch_core::{PathView, SessionView};
use anabranch_units::options::AlgorithmOption;
use anabranch_units::{Duration, Instant};

use self::hystart::{Classic, HyStart, PlusPlus, Verdict};
use self::linux::WholeSegments;
use super::window::{DELAYED_ACKNOWLEDGEMENTS, MIN_SSTHRESH, Window};

/// Bound of the growth per round trip (RFC 9438 §4.2).
const MAX_TARGET: f64 = 1.5;

const HYSTART: AlgorithmOption = AlgorithmOption::words(
    "hystart",
    "end of slow start before a loss: HyStart++ (RFC 9406), Linux's HyStart, or none",
    &["hystart++", "classic", "off"],
);
const FRIENDLINESS: AlgorithmOption = AlgorithmOption::words(
    "friendliness",
    "beyond the window before the loss, Reno's estimate grows by Reno's 1 (rfc9438) or \
              goes on as before, and all in whole segments (linux)",
    &["rfc9438", "linux"],
);
const FAST_CONVERGENCE: AlgorithmOption = AlgorithmOption::words(
    "fast-convergence",
    "whether a flow with a loss below its last maximum yields (RFC 9438 §4.7)",
    &["on", "off"],
);
const SCALE: AlgorithmOption = AlgorithmOption::number(
    "c",
    "C, the steepness of the window's curve, in segments/s³ (RFC 9438 §4.1)",
    0.4,
    0.001..=100.0,
);
const BETA: AlgorithmOption = AlgorithmOption::number(
    "beta",
    "factor that a loss applies to the window (RFC 9438 §4.6)",
    0.7,
    0.1..=0.95,
);

pub(super) const OPTIONS: &[AlgorithmOption] =
    &[HYSTART, FRIENDLINESS, FAST_CONVERGENCE, SCALE, BETA];

pub(super) fn build(config: &ControllerConfig) -> Box<dyn CongestionController> {
    Box::new(Cubic::new(config))
}

#[derive(Debug)]
struct Cubic {
    window: Window,
    hystart: HyStart,
    has_fast_convergence: bool,
    /// `C`, in segments/s³.
    scale: f64,
    beta: f64,
    /// Whether [`FRIENDLINESS`] is Linux's.
    has_linux_friendliness: bool,
    /// `W_max`, in segments.
    max_window: f64,
    /// `cwnd_prior`, in segments.
    prior_window: f64,
    /// Whether congestion avoidance begins because of a loss, not by the end of slow start.
    is_after_loss: bool,
    epoch: Option<Epoch>,
    last_heard_at: Instant,
}

/// A stage of congestion avoidance.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    /// `t_epoch`.
    began_at: Instant,
    /// Window at which the curve is flat: `W_max`, or the window at the beginning if that is
    /// larger.
    origin: f64,
    /// `K`, in seconds.
    time_to_origin: f64,
    /// `W_est`, in segments.
    reno_window: f64,
    /// The integer arithmetic of Linux's CUBIC.
    whole: WholeSegments,
}

impl Epoch {
    /// Returns `W_cubic(t)` (RFC 9438 §4.2).
    fn window_at(&self, seconds: f64, scale: f64) -> f64 {
        let distance = seconds - self.time_to_origin;
        scale * distance * distance * distance + self.origin
    }
}

impl Cubic {
    fn new(config: &ControllerConfig) -> Self {
        let options = &config.options;
        Cubic {
            window: Window::new(config),
            hystart: match options.word(&HYSTART) {
                "off" => HyStart::Off,
                "classic" => HyStart::Classic(Classic::default()),
                _ => HyStart::PlusPlus(PlusPlus::default()),
            },
            has_fast_convergence: options.word(&FAST_CONVERGENCE) == "on",
            scale: options.number(&SCALE),
            beta: options.number(&BETA),
            has_linux_friendliness: options.word(&FRIENDLINESS) == "linux",
            max_window: 0.0,
            prior_window: 0.0,
            is_after_loss: false,
            epoch: None,
            last_heard_at: Instant::ZERO,
        }
    }

    /// Reduces the window (RFC 9438 §4.6, §4.7). `least` is in segments.
    fn on_congestion(&mut self, feedback: &Feedback<'_>, least: f64) {
        let mut window = self.window.segments;
        let mut flight_segments = self.window.segments_of(feedback.prior_bytes_in_flight);
        if self.has_linux_friendliness {
            // `bictcp_recalc_ssthresh` goes by the window.
            window = window.floor();
            flight_segments = window;
        }
        self.prior_window = window;
        self.max_window = if self.has_fast_convergence && window < self.max_window {
            window * (1.0 + self.beta) / 2.0
        } else {
            window
        };
        let mut reduced = flight_segments * self.beta;
        if self.has_linux_friendliness {
            reduced = reduced.floor();
            self.max_window = self.max_window.floor();
        }
        self.window.ssthresh = reduced.max(MIN_SSTHRESH);
        self.window.segments = window.min(reduced.max(least));
        self.window.enter_recovery(feedback, self.window.segments);
        self.is_after_loss = true;
        self.epoch = None;
        self.hystart.restart();
    }

    fn on_acked(&mut self, now: Instant, feedback: &Feedback<'_>, acked_segments: f64) {
        let mut left = acked_segments;
        if self.window.is_in_slow_start() {
            let next_packet_number = self.window.next_packet_number();
            let window = self.window.segments;
            let hystart = &mut self.hystart;
            match hystart.on_feedback(now, feedback, left, window, next_packet_number) {
                Verdict::Grow(segments) => left = self.window.slow_start(segments),
                Verdict::Exit => {
                    self.window.ssthresh = window;
                    self.hystart.restart();
                }
            }
        }
        if left > 0.0 && !self.window.is_in_slow_start() {
            self.avoid_congestion(now, left);
        }
    }

    /// Grows the window (RFC 9438 §4.2 to §4.5).
    fn avoid_congestion(&mut self, now: Instant, acked_segments: f64) {
        let window = self.window.segments;
        if self.epoch.is_none() {
            self.epoch = Some(self.begin_epoch(now));
        }
        let Some(epoch) = &mut self.epoch else {
            return;
        };
        // RFC 9438 §4.3: as fast as Reno once the window before the loss is reached again.
        let is_below = epoch.reno_window < self.prior_window;
        let alpha = if is_below {
            3.0 * (1.0 - self.beta) / (1.0 + self.beta)
        } else {
            1.0
        };
        epoch.reno_window += alpha * acked_segments / window;
        let seconds = now.saturating_since(epoch.began_at).as_secs_f64();
        let rtt = self.window.smoothed_rtt.unwrap_or(Duration::ZERO);
        if self.has_linux_friendliness {
            let target = epoch.window_at(seconds + rtt.as_secs_f64(), self.scale);
            self.window.segments = epoch.whole.grow(window, target, acked_segments);
            return;
        }
        self.window.segments = if epoch.window_at(seconds, self.scale) < epoch.reno_window {
            window.max(epoch.reno_window)
        } else {
            let target = epoch
                .window_at(seconds + rtt.as_secs_f64(), self.scale)
                .clamp(window, MAX_TARGET * window);
            (window + (target - window) / window * acked_segments).min(target)
        };
    }

    fn begin_epoch(&mut self, now: Instant) -> Epoch {
        let window = self.window.segments;
        if !self.is_after_loss {
            // RFC 9438 §4.8, §4.10.
            (self.max_window, self.prior_window) = (window, window);
        }
        let distance = (self.max_window - window).max(0.0);
        Epoch {
            began_at: now,
            origin: self.max_window.max(window),
            time_to_origin: libm::cbrt(distance / self.scale),
            reno_window: window,
            whole: WholeSegments::new(window),
        }
    }

    /// Shifts the epoch by the time since then, in which the window did not limit the sender.
    fn put_off_epoch(&mut self, now: Instant) {
        if let Some(epoch) = &mut self.epoch {
            epoch.began_at += now.saturating_since(self.last_heard_at);
        }
    }
}

impl CongestionController for Cubic {
    fn on_sent(&mut self, now: Instant, packet: &SentPacket) {
        if packet.bytes_in_flight <= u64::from(packet.bytes) {
            self.put_off_epoch(now);
            self.last_heard_at = now;
        }
        if self.window.on_sent(now, packet).is_some() && self.window.is_in_slow_start() {
            self.epoch = None;
            self.is_after_loss = false;
            self.hystart.forget_rounds();
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
        self.window.hear(feedback);
        if self.window.has_new_loss(feedback) {
            self.on_congestion(feedback, MIN_SSTHRESH);
        } else if self.window.has_new_mark(feedback) {
            self.on_congestion(feedback, 1.0);
        }
        let acked_segments = self.window.acked_segments(feedback);
        if !self.window.may_grow(feedback) {
            self.put_off_epoch(now);
        } else if acked_segments > 0.0 {
            self.on_acked(now, feedback, acked_segments);
        }
        self.last_heard_at = now;
    }

    fn on_penalty(&mut self) {
        self.window.on_penalty();
    }

    fn on_timeout(&mut self, _now: Instant, cause: Timeout) {
        if let Some(flight_size) = cause.flight_size() {
            let flight_segments = self.window.segments_of(flight_size);
            self.window.on_timeout(flight_segments * self.beta);
            self.is_after_loss = false;
            self.epoch = None;
            self.hystart.restart();
        }
    }

    fn control(&self) -> ControlParameters {
        self.window.control()
    }

    fn feedback_schedule(&self) -> FeedbackSchedule {
        DELAYED_ACKNOWLEDGEMENTS
    }

    fn state(&self) -> &'static str {
        if self.window.is_in_slow_start() && self.hystart.is_in_css() {
            "ConservativeSlowStart"
        } else {
            self.window.state()
        }
    }
}

#[cfg(test)]
mod tests;
