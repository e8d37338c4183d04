//! `bbr-quic`: BBR version 1 of QUIC (Chromium's `bbr_sender` of 2018; Cardwell et al., "BBR:
//! Congestion-Based Congestion Control", 2016).
//!
//! The pacing rate is a gain times the bandwidth, the largest sample of ten rounds. The window is
//! twice bandwidth times least round-trip time. Gains above one probe, gains below one drain.
//!
//! Deviations:
//! 1. Windows are counted in the source's segments of 1460 bytes, or in packets of the largest size
//!    if that is larger. The initial window is the option `initial-window`.
//!    [`ControllerConfig::initial_window_packets`] is not read, since its usual ten may be a
//!    default or a wish.
//! 2. The windowed maximum is exact, not of three samples.
//! 3. `probe_rtt_skipped_if_similar_rtt` (1.125) and the other experiments of the source that are
//!    off in it are left out, except for the options below.
//! 4. No pacing below a packet per second, nor target below the configured minimum.

mod recovery_window;
#[cfg(test)]
mod tests;

use anabranch_core::control::{CongestionController, ControlParameters, ControllerConfig, Timeout};
use anabranch_core::recovery::{AckedPacket, Feedback, FeedbackSchedule, SentPacket};
use anabranch_core::{PathView, SessionView};
use anabranch_units::options::AlgorithmOption;
use anabranch_units::{DataRate, Duration, Instant, Rng};

use super::gain_cycle::{GAINS, GainCycle, PhaseFacts};
use super::{
    BANDWIDTH_WINDOW_ROUNDS, FullPipe, HIGH_GAIN, HeldBack, MIN_RTT_EXPIRY, PROBE_RTT_DURATION,
    RoundCounter, RoundMax, packet_a_second,
};
use recovery_window::RecoveryWindow;

/// `kDefaultTCPMSS`.
const SEGMENT_BYTES: u64 = 1_460;
/// `kDefaultMinimumCongestionWindow`, in segments.
const MIN_WINDOW_SEGMENTS: u64 = 4;
/// `kDefaultMaxCongestionWindowPackets`.
const MAX_WINDOW_SEGMENTS: u64 = 2_000;
/// `congestion_window_gain_constant`.
const WINDOW_GAIN: f64 = 2.0;
/// `kInitialRttMs`.
const INITIAL_RTT: Duration = Duration::from_millis(100);
/// `quic_bbr2_default_startup_full_loss_count` and `quic_bbr2_default_loss_threshold`.
const STARTUP_FULL_LOSS_COUNT: u32 = 8;
const STARTUP_LOSS_THRESHOLD: f64 = 0.02;
/// Packets that receivers acknowledge one by one at first; later they report every tenth one, or
/// after 25 ms.
const PACKETS_ACKED_AT_ONCE: u64 = 100;

/// `high_cwnd_gain`.
pub(crate) const STARTUP_CWND_GAIN: AlgorithmOption = AlgorithmOption::words(
    "startup-cwnd-gain",
    "window gain in Startup: 2.885 as in 2018, 2.0 as in quiche today",
    &["2.885", "2.0"],
);
/// `kInitialCongestionWindow`.
pub(crate) const INITIAL_WINDOW: AlgorithmOption = AlgorithmOption::number(
    "initial-window",
    "initial window in segments (Chromium: 32)",
    32.0,
    1.0..=1_000.0,
);
/// `exit_startup_on_loss`.
pub(crate) const EXIT_STARTUP_ON_LOSS: AlgorithmOption = AlgorithmOption::words(
    "exit-startup-on-loss",
    "whether a round in recovery (2018), or one with 8 loss events and 2 % lost (quiche)",
    &["off", "recovery", "excess"],
);
/// `drain_to_target`.
pub(crate) const DRAIN_TO_TARGET: AlgorithmOption = AlgorithmOption::words(
    "drain-to-target",
    "whether ProbeBW's draining phase lasts until no excess is in flight (BBR3)",
    &["off", "on"],
);

/// The options of `bbr-quic`.
pub(crate) const OPTIONS: &[AlgorithmOption] = &[
    STARTUP_CWND_GAIN,
    INITIAL_WINDOW,
    EXIT_STARTUP_ON_LOSS,
    DRAIN_TO_TARGET,
];

pub(crate) fn build(config: &ControllerConfig) -> Box<dyn CongestionController> {
    let options = &config.options;
    let settings = Settings {
        startup_window_gain: match options.word(&STARTUP_CWND_GAIN) {
            "2.0" => 2.0,
            _ => HIGH_GAIN,
        },
        initial_window_segments: options.number(&INITIAL_WINDOW) as u64,
        startup_loss_exit: match options.word(&EXIT_STARTUP_ON_LOSS) {
            "recovery" => StartupLossExit::InRecovery,
            "excess" => StartupLossExit::Excess,
            _ => StartupLossExit::Never,
        },
        is_drained_to_target: options.word(&DRAIN_TO_TARGET) == "on",
        ..Settings::default()
    };
    Box::new(BbrQuic::new(settings, config))
}

/// Differences between versions of the source.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) startup_window_gain: f64,
    pub(super) initial_window_segments: u64,
    pub(super) startup_loss_exit: StartupLossExit,
    pub(super) is_drained_to_target: bool,
    /// Whether losses in Startup start recovery.
    pub(super) recovers_in_startup: bool,
    /// Whether the window limits the sender.
    pub(super) is_window_enforced: bool,
    pub(super) min_pacing_rate: DataRate,
    /// Schedule of reports; `None`: that of receivers of QUIC.
    pub(super) schedule: Option<FeedbackSchedule>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            startup_window_gain: HIGH_GAIN,
            initial_window_segments: 32,
            startup_loss_exit: StartupLossExit::Never,
            is_drained_to_target: false,
            recovers_in_startup: false,
            is_window_enforced: true,
            min_pacing_rate: DataRate::ZERO,
            schedule: None,
        }
    }
}

/// Losses that end Startup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StartupLossExit {
    Never,
    /// A round without growth that ends in recovery.
    InRecovery,
    /// A round with eight loss events that lost more than 2 % of the bytes in flight.
    Excess,
}

#[derive(Clone, Copy, Debug)]
enum Mode {
    Startup,
    Drain,
    ProbeBw(GainCycle),
    ProbeRtt(ProbeRtt),
}

#[derive(Clone, Copy, Debug, Default)]
struct ProbeRtt {
    /// Set once few enough bytes are in flight.
    exit_at: Option<Instant>,
    has_passed_round: bool,
}

/// BBRv1 of QUIC.
#[derive(Debug)]
pub(super) struct BbrQuic {
    settings: Settings,
    segment_bytes: u64,
    min_rate: DataRate,
    initial_rate: DataRate,
    rng: Rng,
    mode: Mode,
    pacing_gain: f64,
    window_gain: f64,
    rounds: RoundCounter,
    bandwidth: RoundMax<DataRate>,
    min_rtt: Option<Duration>,
    min_rtt_at: Instant,
    full_pipe: FullPipe,
    pacing_rate: DataRate,
    congestion_window: u64,
    recovery: RecoveryWindow,
    aggregation: Aggregation,
    held_back: HeldBack,
    is_last_sample_app_limited: bool,
    is_exiting_quiescence: bool,
    next_packet_number: u64,
    delivered_bytes: u64,
    loss_events_in_round: u32,
    bytes_lost_in_round: u64,
}

/// Excess of acknowledged bytes over the bandwidth's share: `max_ack_height`.
#[derive(Debug)]
struct Aggregation {
    epoch: Option<Instant>,
    epoch_bytes: u64,
    height: RoundMax<u64>,
}

impl Aggregation {
    fn on_acked(&mut self, now: Instant, acked_bytes: u64, bandwidth: DataRate) {
        let expected = self
            .epoch
            .map_or(0, |epoch| bandwidth.bytes_in(now.saturating_since(epoch)));
        if self.epoch_bytes <= expected {
            self.epoch_bytes = acked_bytes;
            self.epoch = Some(now);
            return;
        }
        self.epoch_bytes = self.epoch_bytes.saturating_add(acked_bytes);
        self.height.push(self.epoch_bytes.saturating_sub(expected));
    }
}

impl BbrQuic {
    pub(super) fn new(settings: Settings, config: &ControllerConfig) -> Self {
        let segment_bytes = SEGMENT_BYTES.max(config.max_packet_bytes.into());
        let initial_window = settings.initial_window_segments * segment_bytes;
        BbrQuic {
            settings,
            segment_bytes,
            min_rate: config.min_rate,
            initial_rate: config.initial_rate,
            rng: config.seed.derive("gain cycle").rng(),
            mode: Mode::Startup,
            pacing_gain: HIGH_GAIN,
            window_gain: settings.startup_window_gain,
            rounds: RoundCounter::default(),
            bandwidth: RoundMax::new(BANDWIDTH_WINDOW_ROUNDS),
            min_rtt: None,
            min_rtt_at: Instant::ZERO,
            full_pipe: FullPipe::default(),
            pacing_rate: DataRate::ZERO,
            congestion_window: initial_window,
            recovery: RecoveryWindow::default(),
            aggregation: Aggregation {
                epoch: None,
                epoch_bytes: 0,
                height: RoundMax::new(BANDWIDTH_WINDOW_ROUNDS),
            },
            held_back: HeldBack::default(),
            is_last_sample_app_limited: false,
            is_exiting_quiescence: false,
            next_packet_number: 0,
            delivered_bytes: 0,
            loss_events_in_round: 0,
            bytes_lost_in_round: 0,
        }
    }

    fn initial_window(&self) -> u64 {
        self.settings.initial_window_segments * self.segment_bytes
    }

    fn min_window(&self) -> u64 {
        MIN_WINDOW_SEGMENTS * self.segment_bytes
    }

    /// `GetTargetCongestionWindow`.
    fn target_window(&self, gain: f64) -> u64 {
        let min_rtt = self.min_rtt.unwrap_or(INITIAL_RTT);
        let bdp_bytes = self.bandwidth.max().bytes_in(min_rtt);
        let window = match (gain * bdp_bytes as f64) as u64 {
            0 => (gain * self.initial_window() as f64) as u64,
            window => window,
        };
        window.max(self.min_window())
    }

    /// Updates rounds, bandwidth and least round-trip time; returns whether this had expired.
    fn update_model(&mut self, now: Instant, feedback: &Feedback<'_>) -> bool {
        let mut least_rtt: Option<Duration> = None;
        for packet in feedback.acked {
            self.on_bandwidth_sample(now, packet);
            if let Some(rtt) = packet.rtt.filter(|rtt| !rtt.is_zero()) {
                least_rtt = Some(least_rtt.map_or(rtt, |least| least.min(rtt)));
            }
        }
        let Some(rtt) = least_rtt else { return false };
        let has_expired = self.min_rtt.is_some() && now > self.min_rtt_at + MIN_RTT_EXPIRY;
        if has_expired || self.min_rtt.is_none_or(|min_rtt| rtt < min_rtt) {
            self.min_rtt = Some(rtt);
            self.min_rtt_at = now;
        }
        has_expired
    }

    fn on_bandwidth_sample(&mut self, now: Instant, packet: &AckedPacket) {
        let is_held_back = self
            .held_back
            .on_acked(packet.sent.packet_number, self.next_packet_number);
        let is_app_limited = packet.sent.delivery.is_app_limited || is_held_back;
        let Some(rate) = packet.delivery_rate(now) else {
            return;
        };
        self.is_last_sample_app_limited = is_app_limited;
        if !is_app_limited || rate > self.bandwidth.max() {
            self.bandwidth.push(rate);
        }
    }

    /// `UpdateGainCyclePhase`.
    fn maybe_advance_cycle(&mut self, now: Instant, feedback: &Feedback<'_>) {
        let Mode::ProbeBw(mut cycle) = self.mode else {
            return;
        };
        let facts = PhaseFacts {
            min_rtt: self.min_rtt.unwrap_or(INITIAL_RTT),
            gain: self.pacing_gain,
            has_losses: !feedback.lost.is_empty(),
            bytes_in_flight: feedback.prior_bytes_in_flight,
        };
        if !cycle.is_over(now, &facts, |gain| self.target_window(gain)) {
            return;
        }
        cycle.advance(now);
        self.mode = Mode::ProbeBw(cycle);
        let gain = cycle.gain(&GAINS);
        let is_held_low = self.settings.is_drained_to_target
            && self.pacing_gain < 1.0
            && gain == 1.0
            && facts.bytes_in_flight > self.target_window(1.0);
        if !is_held_low {
            self.pacing_gain = gain;
        }
    }

    /// `CheckIfFullBandwidthReached`, at the start of a round.
    fn check_full_bandwidth(&mut self, newest: &AckedPacket) {
        match self.settings.startup_loss_exit {
            StartupLossExit::Excess => {
                let threshold = STARTUP_LOSS_THRESHOLD * newest.sent.bytes_in_flight as f64;
                self.full_pipe.is_full |= self.loss_events_in_round >= STARTUP_FULL_LOSS_COUNT
                    && self.bytes_lost_in_round as f64 > threshold;
            }
            StartupLossExit::InRecovery | StartupLossExit::Never => {}
        }
        if self.is_last_sample_app_limited {
            return;
        }
        let has_grown = self.full_pipe.on_round(self.bandwidth.max());
        let by_recovery = self.settings.startup_loss_exit == StartupLossExit::InRecovery;
        self.full_pipe.is_full |= by_recovery && !has_grown && self.recovery.is_active();
    }

    /// `MaybeExitStartupOrDrain`.
    fn maybe_exit_startup_or_drain(&mut self, now: Instant, bytes_in_flight: u64) {
        if matches!(self.mode, Mode::Startup) && self.full_pipe.is_full {
            self.mode = Mode::Drain;
            self.pacing_gain = 1.0 / HIGH_GAIN;
            self.window_gain = self.settings.startup_window_gain;
        }
        if matches!(self.mode, Mode::Drain) && bytes_in_flight <= self.target_window(1.0) {
            self.enter_probe_bw(now);
        }
    }

    fn enter_probe_bw(&mut self, now: Instant) {
        let cycle = GainCycle::enter(now, &mut self.rng);
        self.mode = Mode::ProbeBw(cycle);
        self.window_gain = WINDOW_GAIN;
        self.pacing_gain = cycle.gain(&GAINS);
    }

    fn enter_startup(&mut self) {
        self.mode = Mode::Startup;
        self.pacing_gain = HIGH_GAIN;
        self.window_gain = self.settings.startup_window_gain;
    }

    /// `MaybeEnterOrExitProbeRtt`.
    fn maybe_enter_or_exit_probe_rtt(
        &mut self,
        now: Instant,
        is_round_start: bool,
        has_expired: bool,
        bytes_in_flight: u64,
    ) {
        let is_in_it = matches!(self.mode, Mode::ProbeRtt(_));
        if has_expired && !self.is_exiting_quiescence && !is_in_it {
            self.mode = Mode::ProbeRtt(ProbeRtt::default());
            self.pacing_gain = 1.0;
        }
        self.is_exiting_quiescence = false;
        let is_small = bytes_in_flight < self.min_window() + self.segment_bytes;
        let Mode::ProbeRtt(stay) = &mut self.mode else {
            return;
        };
        self.held_back.mark(self.next_packet_number);
        let Some(exit_at) = stay.exit_at else {
            stay.exit_at = is_small.then(|| now + PROBE_RTT_DURATION);
            return;
        };
        stay.has_passed_round |= is_round_start;
        if now >= exit_at && stay.has_passed_round {
            self.min_rtt_at = now;
            if self.full_pipe.is_full {
                self.enter_probe_bw(now);
            } else {
                self.enter_startup();
            }
        }
    }

    /// `CalculatePacingRate`.
    fn update_pacing_rate(&mut self) {
        let bandwidth = self.bandwidth.max();
        if bandwidth.is_zero() {
            return;
        }
        let target = bandwidth.mul_f64(self.pacing_gain);
        if self.full_pipe.is_full {
            self.pacing_rate = target;
        } else if self.pacing_rate.is_zero()
            && let Some(min_rtt) = self.min_rtt
        {
            self.pacing_rate = DataRate::from_bytes_per(self.initial_window(), min_rtt);
        } else {
            self.pacing_rate = self.pacing_rate.max(target);
        }
    }

    /// `CalculateCongestionWindow`.
    fn update_window(&mut self, acked_bytes: u64) {
        if matches!(self.mode, Mode::ProbeRtt(_)) {
            return;
        }
        let target = self.target_window(self.window_gain);
        let grown = self.congestion_window.saturating_add(acked_bytes);
        if self.full_pipe.is_full {
            self.congestion_window = grown.min(target + self.aggregation.height.max());
        } else if self.congestion_window < target || self.delivered_bytes < self.initial_window() {
            self.congestion_window = grown;
        }
        let max_window = MAX_WINDOW_SEGMENTS * self.segment_bytes;
        self.congestion_window = self.congestion_window.clamp(self.min_window(), max_window);
    }

    fn window(&self) -> u64 {
        if matches!(self.mode, Mode::ProbeRtt(_)) {
            return self.min_window();
        }
        let recovery = self.recovery.bytes().unwrap_or(u64::MAX);
        self.congestion_window.min(recovery)
    }

    fn on_acked(&mut self, now: Instant, feedback: &Feedback<'_>, newest: &AckedPacket) {
        let number = newest.sent.packet_number;
        let is_round_start = self.rounds.on_acked(number, self.next_packet_number);
        if is_round_start {
            self.bandwidth.on_round(None);
            self.aggregation.height.on_round(None);
        }
        let has_expired = self.update_model(now, feedback);
        let has_losses = !feedback.lost.is_empty();
        let next = self.next_packet_number;
        if (self.settings.recovers_in_startup || self.full_pipe.is_full)
            && self
                .recovery
                .update(number, has_losses, is_round_start, next)
        {
            self.rounds.restart(next);
        }
        let acked_bytes = acked_bytes(feedback);
        self.aggregation
            .on_acked(now, acked_bytes, self.bandwidth.max());
        if is_round_start && !self.full_pipe.is_full {
            self.check_full_bandwidth(newest);
        }
        if is_round_start {
            (self.loss_events_in_round, self.bytes_lost_in_round) = (0, 0);
        }
        self.maybe_advance_cycle(now, feedback);
        self.maybe_exit_startup_or_drain(now, feedback.bytes_in_flight);
        self.maybe_enter_or_exit_probe_rtt(
            now,
            is_round_start,
            has_expired,
            feedback.bytes_in_flight,
        );
    }

    fn is_probing(&self) -> bool {
        matches!(self.mode, Mode::Startup) || self.pacing_gain > 1.0
    }
}

fn acked_bytes(feedback: &Feedback<'_>) -> u64 {
    let acked = feedback.acked.iter();
    acked.map(|packet| u64::from(packet.sent.bytes)).sum()
}

fn lost_bytes(feedback: &Feedback<'_>) -> u64 {
    let lost = feedback.lost.iter();
    lost.map(|packet| u64::from(packet.bytes)).sum()
}

impl CongestionController for BbrQuic {
    fn on_sent(&mut self, now: Instant, packet: &SentPacket) {
        self.next_packet_number = packet.packet_number + 1;
        let is_alone = packet.bytes_in_flight <= u64::from(packet.bytes);
        if is_alone && packet.delivery.is_app_limited {
            self.is_exiting_quiescence = true;
        }
        if self.aggregation.epoch.is_none() {
            self.aggregation.epoch = Some(now);
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
        self.delivered_bytes = feedback.delivered_bytes;
        let lost_bytes = lost_bytes(feedback);
        if lost_bytes > 0 {
            self.loss_events_in_round = self.loss_events_in_round.saturating_add(1);
            self.bytes_lost_in_round = self.bytes_lost_in_round.saturating_add(lost_bytes);
        }
        if let Some(newest) = feedback.acked.last() {
            self.on_acked(now, feedback, newest);
        } else {
            self.maybe_advance_cycle(now, feedback);
        }
        let acked_bytes = acked_bytes(feedback);
        self.update_pacing_rate();
        self.update_window(acked_bytes);
        self.recovery.on_bytes(
            feedback.bytes_in_flight,
            acked_bytes,
            lost_bytes,
            self.segment_bytes,
            self.min_window(),
        );
    }

    /// Restarts after silence, when all packets of a recovery are lost. The source has no timeouts.
    fn on_timeout(&mut self, _now: Instant, cause: Timeout) {
        if matches!(cause, Timeout::FeedbackSilence { .. }) {
            self.recovery = RecoveryWindow::default();
            self.rounds.restart(self.next_packet_number);
        }
    }

    fn control(&self) -> ControlParameters {
        let pacing_rate = match self.pacing_rate {
            DataRate::ZERO => {
                let min_rtt = self.min_rtt.unwrap_or(INITIAL_RTT);
                DataRate::from_bytes_per(self.initial_window(), min_rtt).mul_f64(HIGH_GAIN)
            }
            rate => rate,
        };
        let pacing_rate = pacing_rate
            .max(self.settings.min_pacing_rate)
            .max(packet_a_second(self.segment_bytes));
        let target_rate = match self.bandwidth.max() {
            DataRate::ZERO => self.initial_rate,
            bandwidth => bandwidth,
        };
        ControlParameters {
            congestion_window: self.settings.is_window_enforced.then(|| self.window()),
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
        if let Some(schedule) = self.settings.schedule {
            return schedule;
        }
        if self.next_packet_number < PACKETS_ACKED_AT_ONCE {
            return FeedbackSchedule::EVERY_PACKET;
        }
        FeedbackSchedule {
            every_packets: 10,
            max_delay: Duration::from_millis(25),
            ..FeedbackSchedule::EVERY_PACKET
        }
    }

    fn state(&self) -> &'static str {
        match self.mode {
            Mode::Startup => "STARTUP",
            Mode::Drain => "DRAIN",
            Mode::ProbeBw(_) => "PROBE_BW",
            Mode::ProbeRtt(_) => "PROBE_RTT",
        }
    }
}
