//! `bbr-webrtc`: the BBR with which Zhang & Lei compared theirs, that of WebRTC's bandwidth
//! estimation tests (`BbrBweSender`). It has a gentler gain cycle, ProbeRTT when the round-trip
//! time has grown rather than by the clock, and a recovery that reacts to delay instead of loss.
//!
//! With `form=chromium-2018` it is WebRTC's own of 2018 (`modules/congestion_controller/bbr`)
//! instead: `bbr-quic` that also recovers from losses in Startup, and that losses take out of it.
//!
//! Deviations:
//! 1. It is unknown whether the window limited the sender in the authors' set-up. In the form of
//!    2017 it does not, unless `enforce-cwnd=on`: ProbeRTT and Recovery slow the encoder only, and
//!    the pacing rate alone slows a greedy source. In the form of 2018 it does, unless
//!    `enforce-cwnd=off`: its ProbeRTT would not end otherwise.
//! 2. The send rate of a sample is that before the packet was sent, as in `bbr-quic`. The source
//!    takes the one between its sending and its acknowledgement.
//! 3. The pacing rate is at least `min-pacing-rate`: flows that starve would stop for good. The
//!    encoder's rate of zero is the configured minimum rate.
//! 4. Packets declared lost leave flight at once. The source removes them with the next
//!    acknowledgement, since its network never reorders.

mod round_trips;
#[cfg(test)]
mod tests;

use anabranch_core::control::{CongestionController, ControlParameters, ControllerConfig, Timeout};
use anabranch_core::recovery::{Feedback, FeedbackSchedule, SentPacket};
use anabranch_core::{PathView, SessionView};
use anabranch_units::options::AlgorithmOption;
use anabranch_units::{DataRate, Duration, Instant, Rng};

use super::gain_cycle::{GainCycle, Gains, PhaseFacts};
use super::quic::{BbrQuic, Settings, StartupLossExit};
use super::{
    BANDWIDTH_WINDOW_ROUNDS, FullPipe, HIGH_GAIN, PROBE_RTT_DURATION, RoundCounter, RoundMax,
    packet_a_second,
};
use round_trips::{GrownMinRtt, MeanOfRound};

/// `kPacingGain`.
const GAINS: Gains = [1.1, 0.9, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// `kTargetCongestionWindowGainForHighGain`: packets in flight, as a multiple of the product,
/// before probing ends.
const PROBED_GAIN: f64 = 1.15;
/// `kCruisingCongestionWindowGain`.
const CRUISING_WINDOW_GAIN: f64 = 2.0;
/// `kProbeRttCongestionWindowGain`.
const PROBE_RTT_WINDOW_GAIN: f64 = 0.65;
/// `kRecoveryPacingGain`, `kRecoveryCongestionWindowGain`.
const RECOVERY_PACING_GAIN: f64 = 0.5;
const RECOVERY_WINDOW_GAIN: f64 = 1.5;
/// `kRttIncreaseThreshold`, `kRttDecreaseThreshold`: of a round's mean above the least one.
const RTT_INCREASE: f64 = 3.0;
const RTT_DECREASE: f64 = 1.5;
/// `kCongestionWindowThreshold`: share of the window in flight at which the encoder pauses.
const ENCODER_REST_SHARE: f64 = 0.69;
/// `kEncoderRateGainForProbeRtt`.
const PROBE_RTT_ENCODER_GAIN: f64 = 0.1;
/// `kStartingCongestionWindowBytes`.
const STARTING_WINDOW_BYTES: u64 = 6_000;
/// `kMinimumCongestionWindowBytes`.
const MIN_WINDOW_BYTES: u64 = 4_000;

const FORM: AlgorithmOption = AlgorithmOption::words(
    "form",
    "Zhang & Lei's version (ported), or WebRTC's module of 2018",
    &["ported", "chromium-2018"],
);
const ENFORCE_CWND: AlgorithmOption = AlgorithmOption::words(
    "enforce-cwnd",
    "whether the window limits the sender; usual: not as ported, but in 2018's form",
    &["usual", "off", "on"],
);
const FEEDBACK_INTERVAL: AlgorithmOption = AlgorithmOption::number(
    "feedback-interval",
    "interval of the receiver's reports, in ms",
    100.0,
    1.0..=1_000.0,
);
const MIN_PACING_RATE: AlgorithmOption = AlgorithmOption::number(
    "min-pacing-rate",
    "the least pacing rate, in kbit/s",
    50.0,
    1.0..=1_000_000.0,
);

/// The options of `bbr-webrtc`.
pub(crate) const OPTIONS: &[AlgorithmOption] =
    &[FORM, ENFORCE_CWND, FEEDBACK_INTERVAL, MIN_PACING_RATE];

pub(crate) fn build(config: &ControllerConfig) -> Box<dyn CongestionController> {
    if config.options.word(&FORM) == "ported" {
        return Box::new(BbrWebrtc::new(config));
    }
    let settings = Settings {
        startup_loss_exit: StartupLossExit::InRecovery,
        recovers_in_startup: true,
        is_window_enforced: config.options.word(&ENFORCE_CWND) != "off",
        min_pacing_rate: min_pacing_rate(config),
        schedule: Some(schedule(config)),
        ..Settings::default()
    };
    Box::new(BbrQuic::new(settings, config))
}

fn min_pacing_rate(config: &ControllerConfig) -> DataRate {
    let kilobits = config.options.number(&MIN_PACING_RATE);
    DataRate::from_bits_per_second((kilobits * 1_000.0) as u64)
}

/// Requests transport-wide feedback: every packet's arrival, in periodic reports.
fn schedule(config: &ControllerConfig) -> FeedbackSchedule {
    let interval = Duration::from_millis(config.options.number(&FEEDBACK_INTERVAL) as u64);
    FeedbackSchedule {
        every_packets: 128,
        max_delay: interval,
        interval: Some(interval),
        on_hole: None,
        is_immediate_on_ce: false,
        reports_pauses: false,
    }
}

#[derive(Clone, Copy, Debug)]
enum Mode {
    Startup,
    Drain,
    ProbeBw(GainCycle),
    /// Time since which, and round from which on, few enough bytes are in flight.
    ProbeRtt(Option<(Instant, u64)>),
    Recovery,
}

#[derive(Debug)]
struct BbrWebrtc {
    is_window_enforced: bool,
    min_pacing_rate: DataRate,
    schedule: FeedbackSchedule,
    min_rate: DataRate,
    initial_rate: DataRate,
    packet_bytes: u64,
    rng: Rng,
    mode: Mode,
    pacing_gain: f64,
    window_gain: f64,
    rounds: RoundCounter,
    bandwidth: RoundMax<DataRate>,
    full_pipe: FullPipe,
    min_rtt: GrownMinRtt,
    round_rtt: MeanOfRound,
    bytes_in_flight: u64,
    next_packet_number: u64,
}

impl BbrWebrtc {
    fn new(config: &ControllerConfig) -> Self {
        BbrWebrtc {
            is_window_enforced: config.options.word(&ENFORCE_CWND) == "on",
            min_pacing_rate: min_pacing_rate(config),
            schedule: schedule(config),
            min_rate: config.min_rate,
            initial_rate: config.initial_rate,
            packet_bytes: config.max_packet_bytes.into(),
            rng: config.seed.derive("gain cycle").rng(),
            mode: Mode::Startup,
            pacing_gain: HIGH_GAIN,
            window_gain: HIGH_GAIN,
            rounds: RoundCounter::default(),
            bandwidth: RoundMax::new(BANDWIDTH_WINDOW_ROUNDS),
            full_pipe: FullPipe::default(),
            min_rtt: GrownMinRtt::default(),
            round_rtt: MeanOfRound::default(),
            bytes_in_flight: 0,
            next_packet_number: 0,
        }
    }

    /// `GetTargetCongestionWindow`.
    fn target_window(&self, gain: f64) -> u64 {
        let min_rtt = self.min_rtt.value.unwrap_or(Duration::ZERO);
        let bdp_bytes = self.bandwidth.max().bytes_in(min_rtt);
        let window = match (gain * bdp_bytes as f64) as u64 {
            0 => (gain * STARTING_WINDOW_BYTES as f64) as u64,
            window => window,
        };
        window.max(MIN_WINDOW_BYTES).max(self.packet_bytes)
    }

    /// `TryEnteringProbeRtt`.
    fn maybe_enter_probe_rtt(&mut self) {
        if self.min_rtt.has_grown() && !matches!(self.mode, Mode::ProbeRtt(_)) {
            self.mode = Mode::ProbeRtt(None);
            self.pacing_gain = 1.0;
            self.window_gain = PROBE_RTT_WINDOW_GAIN;
        }
    }

    /// `UpdateBandwidthAndMinRtt`. Round-trip times include the time that the receiver held the
    /// report back.
    fn update_model(&mut self, now: Instant, feedback: &Feedback<'_>) {
        let mut least: Option<Duration> = None;
        for packet in feedback.acked {
            if let Some(rate) = packet.delivery_rate(now) {
                self.bandwidth.push(rate);
            }
            if packet.rtt.is_some() {
                let rtt = now.saturating_since(packet.sent.sent_at);
                least = Some(least.map_or(rtt, |least| least.min(rtt)));
            }
        }
        let Some(rtt) = least else { return };
        if self.pacing_gain <= 1.0 || self.min_rtt.value.is_none_or(|min_rtt| rtt <= min_rtt) {
            self.min_rtt.on_rtt(rtt);
        }
    }

    fn maybe_leave_mode(&mut self, now: Instant, is_round_start: bool) {
        match self.mode {
            Mode::Startup if self.full_pipe.is_full => {
                self.mode = Mode::Drain;
                self.pacing_gain = 1.0 / HIGH_GAIN;
                self.window_gain = HIGH_GAIN;
            }
            Mode::Drain if self.bytes_in_flight <= self.target_window(1.0) => {
                self.enter_probe_bw(now);
            }
            Mode::ProbeBw(cycle) => self.maybe_advance_cycle(now, cycle),
            Mode::ProbeRtt(None)
                if self.bytes_in_flight <= self.target_window(PROBE_RTT_WINDOW_GAIN) =>
            {
                self.mode = Mode::ProbeRtt(Some((now, self.rounds.count)));
            }
            Mode::ProbeRtt(Some((since, round)))
                if now.saturating_since(since) >= PROBE_RTT_DURATION
                    && self.rounds.count > round =>
            {
                self.enter_probe_bw(now);
            }
            Mode::Recovery if is_round_start && self.round_rtt_is_at_most(RTT_DECREASE) => {
                self.enter_probe_bw(now);
            }
            _ => {}
        }
    }

    /// `TryUpdatingCyclePhase`.
    fn maybe_advance_cycle(&mut self, now: Instant, mut cycle: GainCycle) {
        let Some(min_rtt) = self.min_rtt.value else {
            return;
        };
        let facts = PhaseFacts {
            min_rtt,
            gain: self.pacing_gain,
            has_losses: false,
            bytes_in_flight: self.bytes_in_flight,
        };
        if cycle.is_over(now, &facts, |gain| {
            if gain > 1.0 {
                self.target_window(PROBED_GAIN)
            } else {
                self.target_window(gain)
            }
        }) {
            cycle.advance(now);
            self.pacing_gain = cycle.gain(&GAINS);
            self.mode = Mode::ProbeBw(cycle);
        }
    }

    fn enter_probe_bw(&mut self, now: Instant) {
        let cycle = GainCycle::enter(now, &mut self.rng);
        self.mode = Mode::ProbeBw(cycle);
        self.window_gain = CRUISING_WINDOW_GAIN;
        self.pacing_gain = cycle.gain(&GAINS);
    }

    /// `TryEnteringRecovery`.
    fn maybe_enter_recovery(&mut self, is_round_start: bool) {
        let is_in_it = matches!(self.mode, Mode::Recovery);
        if is_in_it || !is_round_start || !self.full_pipe.is_full {
            return;
        }
        let (Some(mean), Some(min_rtt)) = (self.round_rtt.value(), self.min_rtt.value) else {
            return;
        };
        if mean >= min_rtt.mul_f64(RTT_INCREASE) {
            self.mode = Mode::Recovery;
            self.pacing_gain = RECOVERY_PACING_GAIN;
            self.window_gain = RECOVERY_WINDOW_GAIN;
        }
    }

    fn round_rtt_is_at_most(&self, factor: f64) -> bool {
        let (mean, min_rtt) = (self.round_rtt.value(), self.min_rtt.value);
        mean.zip(min_rtt)
            .is_some_and(|(mean, min_rtt)| mean <= min_rtt.mul_f64(factor))
    }

    fn pacing_rate(&self) -> DataRate {
        let bandwidth = self.bandwidth.max();
        let rate = if bandwidth.is_zero() {
            self.initial_rate
        } else {
            bandwidth.mul_f64(self.pacing_gain)
        };
        let least = packet_a_second(self.packet_bytes).max(self.min_pacing_rate);
        rate.max(least)
    }

    fn encoder_rate(&self) -> DataRate {
        let pacing_rate = self.pacing_rate();
        let window = self.target_window(self.window_gain);
        if matches!(self.mode, Mode::ProbeRtt(_)) {
            pacing_rate.mul_f64(PROBE_RTT_ENCODER_GAIN)
        } else if self.bytes_in_flight as f64 >= window as f64 * ENCODER_REST_SHARE {
            DataRate::ZERO
        } else {
            pacing_rate
        }
    }

    fn is_probing(&self) -> bool {
        matches!(self.mode, Mode::Startup) || self.pacing_gain > 1.0
    }
}

impl CongestionController for BbrWebrtc {
    fn on_sent(&mut self, _now: Instant, packet: &SentPacket) {
        self.next_packet_number = packet.packet_number + 1;
        self.bytes_in_flight = packet.bytes_in_flight;
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
        self.bytes_in_flight = feedback.bytes_in_flight;
        let Some(newest) = feedback.acked.last() else {
            return;
        };
        let number = newest.sent.packet_number;
        let is_round_start = self.rounds.on_acked(number, self.next_packet_number);
        if is_round_start {
            self.bandwidth.on_round(None);
        }
        self.maybe_enter_probe_rtt();
        self.update_model(now, feedback);
        if is_round_start && !self.full_pipe.is_full {
            self.full_pipe.on_round(self.bandwidth.max());
        }
        self.maybe_leave_mode(now, is_round_start);
        self.maybe_enter_recovery(is_round_start);
        if newest.rtt.is_some() {
            let rtts = feedback
                .acked
                .iter()
                .map(|packet| now.saturating_since(packet.sent.sent_at));
            self.round_rtt.add(self.rounds.count, rtts);
        }
    }

    fn on_timeout(&mut self, _now: Instant, cause: Timeout) {
        if matches!(cause, Timeout::FeedbackSilence { .. }) {
            self.bytes_in_flight = 0;
            self.rounds.restart(self.next_packet_number);
        }
    }

    fn control(&self) -> ControlParameters {
        let pacing_rate = self.pacing_rate();
        let window = self.target_window(self.window_gain);
        let is_known = !self.bandwidth.max().is_zero();
        let target_rate = if is_known {
            self.encoder_rate()
        } else {
            self.initial_rate
        };
        ControlParameters {
            congestion_window: self.is_window_enforced.then_some(window),
            pacing_rate: Some(pacing_rate),
            padding_rate: if self.is_probing() {
                pacing_rate
            } else {
                DataRate::ZERO
            },
            ..ControlParameters::of(target_rate.max(self.min_rate))
        }
    }

    fn feedback_schedule(&self) -> FeedbackSchedule {
        self.schedule
    }

    fn state(&self) -> &'static str {
        match self.mode {
            Mode::Startup => "STARTUP",
            Mode::Drain => "DRAIN",
            Mode::ProbeBw(_) => "PROBE_BW",
            Mode::ProbeRtt(_) => "PROBE_RTT",
            Mode::Recovery => "RECOVERY",
        }
    }
}
