//! Google Congestion Control: the rate follows the gradient of the queuing delay, and gives way to
//! heavy loss.
//!
//! `gcc` is WebRTC's of 2019 and later: trendline filter, acknowledged bitrate estimator, probing.
//! `gcc-kalman` is draft-ietf-rmcat-gcc-02 (2016): Kalman filter, receive rate over half a second.
//! Both run at the sender, from arrival times. Rate = min(delay-based `A_r`, loss-based `A_s`).
//!
//! Deviations:
//! 1. `gcc-kalman` compares min(groups, 60) · m(i) with the threshold, as WebRTC's code of that
//!    time did, for which the published gains are made. The draft prints |m(i)|: with groups of 5
//!    ms that notices only a sender at twice the capacity.
//! 2. `gcc-kalman` probes and scales down in silence by WebRTC's rules too; the draft has neither.
//! 3. A probe raises the rate and never lowers it.
//! 4. Pacing at the rate itself (option `pacing`; WebRTC 2.5): a session that always pads fills the
//!    pacing rate.
//! 5. No periodic probing while the source is limited, and no probe to restore the rate after a
//!    large decrease. After an outage it probes as at the start.
//! 6. `A_s` is WebRTC's published loss rule, not its later loss-based estimators (v1, v2).
//! 7. Rates are updated at most twice per interval, however often reports come.
//! 8. In silence while packets are unanswered the rate falls to 0.8 after 1.5 s (three intervals if
//!    that is longer) and again every second.

mod aimd;
mod inter_group;
mod kalman;
mod loss_based;
mod overuse;
mod probing;
#[cfg(test)]
mod tests;
mod throughput;
mod trendline;

use anabranch_core::control::{CongestionController, ControlParameters, ControllerConfig, Timeout};
use anabranch_core::recovery::{AckedPacket, Feedback, FeedbackSchedule, SentPacket};
use anabranch_core::{PathView, SessionView};
use anabranch_units::options::AlgorithmOption;
use anabranch_units::{DataRate, Duration, Instant};

use aimd::{Aimd, AimdState, Rules};
use inter_group::{Delta, InterGroup};
use kalman::Kalman;
use loss_based::LossBased;
use overuse::{OveruseDetector, ThresholdGains, Usage};
use probing::Prober;
use throughput::Throughput;
use trendline::Trendline;

/// Largest count of groups by which the arrival filter's output is multiplied.
const MAX_GROUPS: u32 = 60;
/// Pause of a stream after which the filter starts again (WebRTC).
const STREAM_TIMEOUT: Duration = Duration::from_secs(2);
/// Silence: time until the rate falls, number of intervals that count as silence, repetition, and
/// factor of the rate each time.
const SILENCE: Duration = Duration::from_millis(1_500);
const SILENCE_INTERVALS: u64 = 3;
const SILENCE_REPEAT: Duration = Duration::from_secs(1);
const SILENCE_FACTOR: f64 = 0.8;
/// Packets until a report is due, before the receiver has to forget arrival times.
const MAX_PACKETS_PER_REPORT: u32 = 100;

const PACING: AlgorithmOption = AlgorithmOption::number(
    "pacing",
    "pacing rate by the target rate (WebRTC: 2.5)",
    1.0,
    1.0..=4.0,
);
const BACKOFF: AlgorithmOption = AlgorithmOption::number(
    "backoff",
    "share of the received rate after overuse (draft: 0.8 to 0.95)",
    0.85,
    0.5..=0.95,
);
const INTERVAL: AlgorithmOption = AlgorithmOption::number(
    "interval",
    "time between reports, in milliseconds",
    100.0,
    10.0..=1_000.0,
);
const PROBING: AlgorithmOption = AlgorithmOption::words(
    "probing",
    "whether it probes for bandwidth at the start and after outages",
    &["on", "off"],
);
const THRESHOLD: AlgorithmOption = AlgorithmOption::words(
    "threshold",
    "whether the overuse detector's threshold adapts (Carlucci et al. 2016)",
    &["adaptive", "fixed"],
);
pub(super) const OPTIONS: &[AlgorithmOption] = &[PACING, BACKOFF, INTERVAL, PROBING, THRESHOLD];

pub(super) fn build_trendline(config: &ControllerConfig) -> Box<dyn CongestionController> {
    Box::new(Gcc::new(Form::WebRtc, config))
}

pub(super) fn build_kalman(config: &ControllerConfig) -> Box<dyn CongestionController> {
    Box::new(Gcc::new(Form::Draft, config))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    WebRtc,
    Draft,
}

#[derive(Clone, Debug)]
enum ArrivalFilter {
    Trendline(Trendline),
    Kalman(Kalman),
}

impl ArrivalFilter {
    fn new(form: Form) -> Self {
        match form {
            Form::WebRtc => ArrivalFilter::Trendline(Trendline::default()),
            Form::Draft => ArrivalFilter::Kalman(Kalman::default()),
        }
    }

    /// Returns the gradient, and the factor that scales it for the comparison with the threshold.
    fn on_delta(&mut self, delta: &Delta) -> (f64, f64) {
        match self {
            ArrivalFilter::Trendline(trendline) => (trendline.on_delta(delta), trendline::GAIN),
            ArrivalFilter::Kalman(kalman) => (kalman.on_delta(delta), 1.0),
        }
    }
}

#[derive(Debug)]
struct Gcc {
    form: Form,
    gains: ThresholdGains,
    pacing_factor: f64,
    interval: Duration,
    min_rate: f64,
    groups: InterGroup,
    group_count: u32,
    filter: ArrivalFilter,
    detector: OveruseDetector,
    throughput: Throughput,
    delay_based: Aimd,
    loss_based: LossBased,
    prober: Prober,
    /// Time of the last update of the rates, and packets reported since.
    updated_at: Option<Instant>,
    lost_count: u64,
    acked_count: u64,
    /// Time of the last arrival.
    heard_at: Option<Instant>,
    /// Time at which silence counts (again); `None` with nothing unanswered.
    silence_at: Option<Instant>,
    /// Whether nothing has arrived since the path was declared silent.
    is_silent: bool,
    next_packet_number: u64,
    /// First packet that counts. Earlier ones were sent to a silent path and are no evidence of its
    /// rate.
    counts_from: u64,
}

impl Gcc {
    fn new(form: Form, config: &ControllerConfig) -> Self {
        let options = &config.options;
        let rules = match form {
            Form::WebRtc => Rules::WebRtc,
            Form::Draft => Rules::Draft,
        };
        let gains = match (options.word(&THRESHOLD), form) {
            ("fixed", _) => ThresholdGains::FIXED,
            (_, Form::WebRtc) => ThresholdGains::TRENDLINE,
            (_, Form::Draft) => ThresholdGains::KALMAN,
        };
        // At least a packet per second.
        let min_rate = (config.min_rate.bits_per_second() as f64)
            .max(8.0 * f64::from(config.max_packet_bytes));
        let max_rate = (config.max_rate.bits_per_second() as f64).max(min_rate);
        let initial_rate = (config.initial_rate.bits_per_second() as f64).clamp(min_rate, max_rate);
        let is_probing = options.word(&PROBING) == "on";
        let backoff = options.number(&BACKOFF);
        Gcc {
            form,
            gains,
            pacing_factor: options.number(&PACING),
            interval: Duration::from_secs_f64(options.number(&INTERVAL) / 1e3),
            min_rate,
            groups: InterGroup::default(),
            group_count: 0,
            filter: ArrivalFilter::new(form),
            detector: OveruseDetector::new(gains),
            throughput: match form {
                Form::WebRtc => Throughput::acknowledged(),
                Form::Draft => Throughput::window(),
            },
            delay_based: Aimd::new(rules, backoff, initial_rate, min_rate, max_rate),
            loss_based: LossBased::new(rules, initial_rate, min_rate, max_rate),
            prober: Prober::new(is_probing, initial_rate, max_rate),
            updated_at: None,
            lost_count: 0,
            acked_count: 0,
            heard_at: None,
            silence_at: None,
            is_silent: false,
            next_packet_number: 0,
            counts_from: 0,
        }
    }

    /// Returns `A = min(A_r, A_s)`, bit/s.
    fn rate(&self) -> f64 {
        self.delay_based
            .rate
            .min(self.loss_based.rate)
            .max(self.min_rate)
    }

    fn silence(&self) -> Duration {
        SILENCE.max(self.interval * SILENCE_INTERVALS)
    }

    fn restart_filter(&mut self) {
        self.groups = InterGroup::default();
        self.group_count = 0;
        self.filter = ArrivalFilter::new(self.form);
        self.detector = OveruseDetector::new(self.gains);
    }

    fn on_acked(&mut self, acked: &AckedPacket) {
        self.prober.on_acked(acked);
        let Some(received_at) = acked.received_at else {
            return;
        };
        if acked.sent.packet_number < self.counts_from {
            return;
        }
        self.throughput.on_received(received_at, acked.sent.bytes);
        if let Some(delta) = self.groups.on_packet(acked.sent.sent_at, received_at) {
            self.group_count = (self.group_count + 1).min(MAX_GROUPS);
            let (gradient, gain) = self.filter.on_delta(&delta);
            if self.group_count > 1 {
                let signal_millis = f64::from(self.group_count) * gradient * gain;
                self.detector.on_signal(&delta, gradient, signal_millis);
            }
        }
    }

    /// Handles the return of the path: its capacity must be found again.
    fn on_return(&mut self) {
        self.is_silent = false;
        self.counts_from = self.next_packet_number;
        self.throughput.restart();
        self.delay_based.forget_capacity();
        self.loss_based.restart();
        self.prober.restart(self.rate());
    }

    /// Updates the rates once per interval, for which the rules are made: more frequent reports are
    /// combined. Overuse does not wait.
    fn update_rates(&mut self, now: Instant, feedback: &Feedback<'_>) {
        self.lost_count += feedback.lost.len() as u64;
        self.acked_count += feedback.acked.len() as u64;
        let rtt = feedback.rtt.smoothed();
        let usage = self.detector.usage();
        if usage != Usage::Overuse
            && self
                .updated_at
                .is_some_and(|at| now.saturating_since(at) < self.interval / 2)
        {
            return;
        }
        self.updated_at = Some(now);
        match self.prober.take_result(now) {
            Some(found) if usage != Usage::Overuse && found > self.rate() => {
                self.delay_based.set_rate(now, found);
                self.loss_based.set_rate(found);
            }
            _ => {
                let received = self.throughput.bits_per_second();
                self.delay_based.update(now, usage, received, rtt);
            }
        }
        let lost_count = core::mem::take(&mut self.lost_count);
        let acked_count = core::mem::take(&mut self.acked_count);
        let delay_based = self.delay_based.rate;
        self.loss_based
            .update(now, lost_count, acked_count, rtt, delay_based);
    }
}

impl CongestionController for Gcc {
    fn on_sent(&mut self, now: Instant, packet: &SentPacket) {
        if self.silence_at.is_none() {
            self.silence_at = Some(now + self.silence());
        }
        self.next_packet_number = packet.packet_number + 1;
        self.prober.on_sent(now, packet);
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
        if !feedback.acked.is_empty() {
            if self.is_silent {
                self.on_return();
            }
            let heard_at = self.heard_at.replace(now).unwrap_or(now);
            if now.saturating_since(heard_at) > STREAM_TIMEOUT {
                self.restart_filter();
            }
            self.silence_at = (feedback.bytes_in_flight > 0).then(|| now + self.silence());
        }
        for acked in feedback.acked {
            self.on_acked(acked);
        }
        self.update_rates(now, feedback);
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.silence_at
    }

    fn on_timeout(&mut self, now: Instant, cause: Timeout) {
        let is_own = cause == Timeout::Own && self.silence_at.is_some_and(|at| at <= now);
        let is_out = matches!(cause, Timeout::FeedbackSilence { .. }) && !self.is_silent;
        if is_own || is_out {
            self.delay_based.scale(now, SILENCE_FACTOR);
            self.loss_based.scale(SILENCE_FACTOR);
        }
        if is_own {
            self.silence_at = Some(now + SILENCE_REPEAT);
        }
        if is_out {
            self.is_silent = true;
            self.silence_at = None;
            self.prober.stop();
            self.restart_filter();
        }
    }

    fn control(&self) -> ControlParameters {
        let rate = self.rate();
        let probe_rate = self.prober.rate().unwrap_or(0.0);
        let pacing_rate = (self.pacing_factor * rate).max(probe_rate);
        ControlParameters {
            pacing_rate: Some(DataRate::from_bits_per_second(pacing_rate as u64)),
            padding_rate: DataRate::from_bits_per_second(probe_rate as u64),
            ..ControlParameters::of(DataRate::from_bits_per_second(rate as u64))
        }
    }

    fn feedback_schedule(&self) -> FeedbackSchedule {
        FeedbackSchedule {
            every_packets: MAX_PACKETS_PER_REPORT,
            max_delay: self.interval,
            interval: Some(self.interval),
            on_hole: None,
            is_immediate_on_ce: false,
            reports_pauses: false,
        }
    }

    fn state(&self) -> &'static str {
        match self.delay_based.state {
            AimdState::Hold => "Hold",
            AimdState::Increase => "Increase",
            AimdState::Decrease => "Decrease",
        }
    }
}
