//! `nada`: Network-Assisted Dynamic Adaptation, RFC 8698 §4.2, §4.3 and §5: delay, loss and marks
//! become one congestion signal `x`, and the reference rate `r_ref` follows it.
//!
//! Decisions and deviations:
//! 1. The receiver's part runs at the sender, from arrival times.
//! 2. RMIN is 150 kbit/s, or the configured minimum if that is more. RMAX is the configured
//!    maximum; without one 12 Mbit/s. It scales the queue: one flow at rate r keeps XREF · RMAX /
//!    r.
//! 3. A source that sends less than the rate would hold accelerated ramp-up at its start: that mode
//!    asks for padding up to `r_ref`.
//! 4. Gradual update raises the rate only if at least 0.75 of it was sent.
//! 5. A step of gradual update accounts for at most TAU since the last one, and `x` is at most
//!    500 ms (as in Cisco's ns3-rmcat).
//! 6. Reports that are less than DELTA/2 apart are taken together.
//! 7. No report for 500 ms with packets unanswered: `r_ref` is halved, and again every 500 ms (the
//!    RFC leaves this open). An outage does the same.
//! 8. `loss_int` follows RFC 5348 §5.4, as §4.2 has it, without the optional history discounting.
//!    The open interval is then never longer than seven mean ones, its weight being a sixth at
//!    least: once something was lost, long queues are warped for good. So it is in Cisco's code,
//!    too. `loss-interval=closed` leaves the open one out, and warping fades.
//! 9. `PRIO` and `XREF` are options; the shaping buffer is the session's backlog, of which a path
//!    has the part that its rate has in the sum of all paths.

mod signals;
#[cfg(test)]
mod tests;

use anabranch_core::control::{CongestionController, ControlParameters, ControllerConfig, Timeout};
use anabranch_core::recovery::{Feedback, FeedbackSchedule, SentPacket};
use anabranch_core::{PathView, SessionView};
use anabranch_units::options::AlgorithmOption;
use anabranch_units::{DataRate, Duration, Ecn, Instant};

use super::backlog_share::path_backlog_bytes;
use super::rate_meter::RateMeter;
use signals::{OBSERVATION_WINDOW, Signals};

/// `RMIN`, bit/s.
const MIN_RATE: f64 = 150_000.0;
/// `RMAX` without a configured maximum, bit/s.
const UNLIMITED_MAX_RATE: f64 = 12e6;
/// `KAPPA`, `ETA`.
const SCALING: f64 = 0.5;
const TREND_SCALING: f64 = 2.0;
/// `TAU`, ms.
const TAU_MILLIS: f64 = 500.0;
/// `DELTA`: time between reports.
const DELTA: Duration = Duration::from_millis(100);
/// `DFILT`, ms: delay of filtering.
const FILTER_MILLIS: f64 = 120.0;
/// `GAMMA_MAX`, and `QBOUND` in ms.
const MAX_RAMP_UP: f64 = 0.5;
const QUEUE_BOUND_MILLIS: f64 = 50.0;
/// `MULTILOSS`.
const LOSS_INTERVALS: f64 = 7.0;
/// `QTH` (ms), `LAMBDA`.
const WARP_MILLIS: f64 = 50.0;
const WARP_SCALING: f64 = 0.5;
/// `PLRREF` with `DLOSS` (ms), `PMRREF` with `DMARK` (ms).
const REFERENCE_RATIO: f64 = 0.01;
const LOSS_PENALTY_MILLIS: f64 = 10.0;
const MARK_PENALTY_MILLIS: f64 = 2.0;
const MAX_SIGNAL_MILLIS: f64 = 500.0;
/// `BETA_S` = `BETA_V`, `FPS`, and the most that the buffer shifts a rate.
const BUFFER_WEIGHT: f64 = 0.1;
const FRAMES_PER_SECOND: f64 = 30.0;
const MAX_SHIFT: f64 = 0.05;
/// Silence: time until the rate falls, and the factor that it applies.
const SILENCE: Duration = Duration::from_millis(500);
const SILENCE_FACTOR: f64 = 0.5;
/// A source that sends less than this share of the rate is the limit, not the path.
const SOURCE_LIMITED: f64 = 0.75;
/// Packets until a report is due, before the receiver has to forget arrival times.
const MAX_PACKETS_PER_REPORT: u32 = 100;

const PRIORITY: AlgorithmOption =
    AlgorithmOption::number("priority", "PRIO: weight among NADA flows", 1.0, 0.1..=10.0);
const XREF: AlgorithmOption = AlgorithmOption::number(
    "xref",
    "XREF: reference congestion level, in milliseconds",
    10.0,
    1.0..=100.0,
);
const LOSS_INTERVAL: AlgorithmOption = AlgorithmOption::words(
    "loss-interval",
    "whether loss_int counts the interval since the last loss (RFC 5348 §5.4)",
    &["open", "closed"],
);
pub(super) const OPTIONS: &[AlgorithmOption] = &[PRIORITY, XREF, LOSS_INTERVAL];

pub(super) fn build(config: &ControllerConfig) -> Box<dyn CongestionController> {
    Box::new(Nada::new(config))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    AcceleratedRampUp,
    GradualUpdate,
}

#[derive(Debug)]
struct Nada {
    priority: f64,
    /// `XREF`, ms.
    reference_millis: f64,
    /// `RMIN`, `RMAX`, bit/s.
    min_rate: f64,
    max_rate: f64,
    is_ecn_capable: bool,
    counts_open_interval: bool,
    mode: Mode,
    /// `r_ref`, bit/s.
    reference_rate: f64,
    /// `x_prev`, ms.
    previous_signal_millis: f64,
    signals: Signals,
    sent: RateMeter,
    updated_at: Option<Instant>,
    /// The path's part of the backlog: `buffer_len`.
    buffer_bytes: u64,
    /// When silence counts (again); `None` with nothing unanswered.
    silence_at: Option<Instant>,
    /// Whether nothing has arrived since the path was declared silent.
    is_silent: bool,
}

impl Nada {
    fn new(config: &ControllerConfig) -> Self {
        let min_rate = (config.min_rate.bits_per_second() as f64)
            .max(MIN_RATE)
            .max(8.0 * f64::from(config.max_packet_bytes));
        let max_rate = match config.max_rate {
            DataRate::MAX => UNLIMITED_MAX_RATE,
            rate => rate.bits_per_second() as f64,
        };
        Nada {
            priority: config.options.number(&PRIORITY),
            reference_millis: config.options.number(&XREF),
            min_rate,
            max_rate: max_rate.max(min_rate),
            is_ecn_capable: config.is_ecn_capable,
            counts_open_interval: config.options.word(&LOSS_INTERVAL) == "open",
            mode: Mode::AcceleratedRampUp,
            reference_rate: min_rate,
            previous_signal_millis: 0.0,
            signals: Signals::default(),
            sent: RateMeter::new(OBSERVATION_WINDOW),
            updated_at: None,
            buffer_bytes: 0,
            silence_at: None,
            is_silent: false,
        }
    }

    /// `x_curr` (§4.2).
    fn congestion_signal(&self) -> f64 {
        let signals = &self.signals;
        let loss = signals.loss_ratio / REFERENCE_RATIO;
        let mark = signals.mark_ratio / REFERENCE_RATIO;
        let signal_millis = self.perceived_delay()
            + LOSS_PENALTY_MILLIS * loss * loss
            + MARK_PENALTY_MILLIS * mark * mark;
        signal_millis.min(MAX_SIGNAL_MILLIS)
    }

    /// `d_tilde` while losses are recent, `d_queue` when they are not, and a blend between (§4.2).
    fn perceived_delay(&self) -> f64 {
        let queue_millis = self.signals.queue_delay_millis;
        let Some(interval) = self.signals.loss_interval.mean(self.counts_open_interval) else {
            return queue_millis;
        };
        let beyond = self.signals.loss_interval.packets_since - LOSS_INTERVALS * interval;
        let share = (beyond / interval).clamp(0.0, 1.0);
        share * queue_millis + (1.0 - share) * warped(queue_millis)
    }

    /// §4.3: accelerated ramp-up.
    fn ramp_up(&mut self, rtt_millis: f64) {
        let Some(received) = self.signals.received_rate() else {
            return;
        };
        let horizon_millis = rtt_millis + DELTA.as_millis_f64() + FILTER_MILLIS;
        let gamma = (QUEUE_BOUND_MILLIS / horizon_millis).min(MAX_RAMP_UP);
        self.reference_rate = self.reference_rate.max((1.0 + gamma) * received);
    }

    /// §4.3: gradual update.
    fn update_gradually(&mut self, signal_millis: f64, delta_millis: f64) {
        let rate = self.reference_rate;
        let target_millis = self.priority * self.reference_millis * self.max_rate / rate;
        let offset_millis = signal_millis - target_millis;
        let trend_millis = signal_millis - self.previous_signal_millis;
        let change = -SCALING * (delta_millis / TAU_MILLIS) * (offset_millis / TAU_MILLIS) * rate
            - SCALING * TREND_SCALING * (trend_millis / TAU_MILLIS) * rate;
        let is_source_limited = self
            .sent
            .bits_per_second()
            .is_some_and(|sent| sent < SOURCE_LIMITED * rate);
        if change < 0.0 || !is_source_limited {
            self.reference_rate += change;
        }
    }

    fn update(&mut self, now: Instant, rtt_millis: f64) {
        let elapsed = now.saturating_since(self.updated_at.unwrap_or(now));
        if self.updated_at.is_some() && elapsed < DELTA / 2 {
            return;
        }
        self.updated_at = Some(now);
        self.signals.update_ratios();
        let signal_millis = self.congestion_signal();
        if self.signals.is_clear(now) {
            self.mode = Mode::AcceleratedRampUp;
            self.ramp_up(rtt_millis);
        } else {
            self.mode = Mode::GradualUpdate;
            let delta_millis = elapsed.as_millis_f64().min(TAU_MILLIS);
            self.update_gradually(signal_millis, delta_millis);
        }
        self.previous_signal_millis = signal_millis;
        self.reference_rate = self.reference_rate.clamp(self.min_rate, self.max_rate);
    }

    /// By how much the shaping buffer shifts the rates, bit/s (§4.3).
    fn shift(&self) -> f64 {
        let wanted = BUFFER_WEIGHT * 8.0 * self.buffer_bytes as f64 * FRAMES_PER_SECOND;
        wanted.min(MAX_SHIFT * self.reference_rate)
    }

    fn on_silence(&mut self) {
        self.reference_rate = (self.reference_rate * SILENCE_FACTOR).max(self.min_rate);
    }
}

/// `d_tilde`: delay beyond QTH counts ever less, so that flows that fill queues do not starve this
/// one (§4.2).
fn warped(queue_millis: f64) -> f64 {
    if queue_millis < WARP_MILLIS {
        queue_millis
    } else {
        let excess = (queue_millis - WARP_MILLIS) / WARP_MILLIS;
        WARP_MILLIS * libm::exp(-WARP_SCALING * excess)
    }
}

impl CongestionController for Nada {
    fn on_sent(&mut self, now: Instant, packet: &SentPacket) {
        self.sent.on_bytes(now, packet.bytes.into());
        if self.silence_at.is_none() {
            self.silence_at = Some(now + SILENCE.max(DELTA * 3));
        }
    }

    fn on_feedback(
        &mut self,
        now: Instant,
        feedback: &Feedback<'_>,
        session: &SessionView,
        paths: &[PathView],
    ) {
        self.buffer_bytes = path_backlog_bytes(feedback.path, session, paths);
        self.sent.advance(now);
        if !feedback.acked.is_empty() {
            if core::mem::take(&mut self.is_silent) {
                self.signals.restart();
            }
            self.silence_at = (feedback.bytes_in_flight > 0).then(|| now + SILENCE);
        }
        self.signals.on_feedback(now, feedback);
        self.update(now, feedback.rtt.smoothed().as_millis_f64());
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.silence_at
    }

    fn on_timeout(&mut self, now: Instant, cause: Timeout) {
        let is_due = self.silence_at.is_some_and(|at| at <= now);
        match cause {
            Timeout::Own if is_due => {
                self.on_silence();
                self.silence_at = Some(now + SILENCE);
            }
            Timeout::FeedbackSilence { .. } if !self.is_silent => {
                self.is_silent = true;
                self.on_silence();
            }
            _ => {}
        }
    }

    fn control(&self) -> ControlParameters {
        fn bits(rate: f64) -> DataRate {
            DataRate::from_bits_per_second(rate as u64)
        }

        let rate = self.reference_rate;
        let media_rate = (rate - self.shift()).max(self.min_rate);
        let send_rate = (rate + self.shift()).min(self.max_rate);
        let is_probing = self.mode == Mode::AcceleratedRampUp && rate < self.max_rate;
        ControlParameters {
            pacing_rate: Some(bits(send_rate)),
            padding_rate: if is_probing {
                bits(rate)
            } else {
                DataRate::ZERO
            },
            ecn: if self.is_ecn_capable {
                Ecn::Ect0
            } else {
                Ecn::NotEct
            },
            ..ControlParameters::of(bits(media_rate))
        }
    }

    fn feedback_schedule(&self) -> FeedbackSchedule {
        FeedbackSchedule {
            every_packets: MAX_PACKETS_PER_REPORT,
            max_delay: DELTA,
            interval: Some(DELTA),
            on_hole: None,
            is_immediate_on_ce: false,
            reports_pauses: false,
        }
    }

    fn state(&self) -> &'static str {
        match self.mode {
            Mode::AcceleratedRampUp => "AcceleratedRampUp",
            Mode::GradualUpdate => "GradualUpdate",
        }
    }
}
