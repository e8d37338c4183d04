//! `bbr3`: BBR version 3, draft-ietf-ccwg-bbr as of 3 August 2026 (Cardwell, Swett, Beshay).
//!
//! Bandwidth and least round-trip time are estimated as in version 1. Losses add bounds: on packets
//! in flight in the long term, found by probing, and on rate and flight in the short term,
//! forgotten before the next probe.
//!
//! Deviations:
//! 1. The state that a spurious recovery restores is saved when the recovery begins (§5.5.11.1's
//!    text), not at every first loss of a round: the second lost packet of the report that ends a
//!    probe would overwrite it.
//! 2. The pacing rate of the initial window is computed again with the first round-trip time, as
//!    Linux does: the draft's nominal 1 ms would hold until the pipe is full.
//! 3. Recovery lasts until a packet that left after its beginning is acknowledged; it was spurious
//!    if all its lost packets have arrived since.
//! 4. The offload budget is QUIC's, one send quantum. No pacing below a packet per second.
//! 5. A path that falls silent counts as a retransmission timeout with nothing in flight.

mod model;
#[cfg(test)]
mod paths;
mod probe_bw;
mod probe_rtt;
#[cfg(test)]
mod tests;

use anabranch_core::control::{CongestionController, ControlParameters, ControllerConfig, Timeout};
use anabranch_core::recovery::{AckedPacket, Feedback, FeedbackSchedule, SentPacket};
use anabranch_core::{PathView, SessionView};
use anabranch_units::{DataRate, Duration, Instant, Rng};

use super::recovery::{Recovery, Step};
use super::{HeldBack, RoundMax, packet_a_second};
use model::{Undo, is_inflight_too_high};
use probe_rtt::ProbeRtt;

/// `StartupPacingGain`: 4 ln 2.
const STARTUP_PACING_GAIN: f64 = 2.77;
const DRAIN_PACING_GAIN: f64 = 0.5;
const DOWN_PACING_GAIN: f64 = 0.9;
const UP_PACING_GAIN: f64 = 1.25;
/// `DefaultCwndGain`, and §5.6.1 for ProbeBW_UP.
const CWND_GAIN: f64 = 2.0;
const UP_CWND_GAIN: f64 = 2.25;
const PROBE_RTT_CWND_GAIN: f64 = 0.5;
/// `PacingMarginPercent`.
const PACED_SHARE: f64 = 0.99;
/// `LossThresh`, `Beta`, `Headroom`.
const LOSS_THRESHOLD: f64 = 0.02;
const BETA: f64 = 0.7;
const HEADROOM: f64 = 0.15;
/// `MinPipeCwnd`, in packets.
const MIN_PIPE_PACKETS: u64 = 4;
/// `MaxBwFilterLen` is two cycles: the current one and the one before.
const BANDWIDTH_CYCLES_BEFORE: u64 = 1;
/// `ExtraAckedFilterLen`, in rounds, and the same in Startup.
const EXTRA_ACKED_ROUNDS: u64 = 10;
const EXTRA_ACKED_ROUNDS_IN_STARTUP: u64 = 1;
/// `BBRStartupFullLossCnt`.
const STARTUP_FULL_LOSS_COUNT: u32 = 6;
/// Growth of a round, and rounds without it after which the pipe is full.
const FULL_GROWTH: f64 = 1.25;
const FULL_ROUNDS: u32 = 3;
/// Rounds after which Drain ends, however many packets are in flight.
const MAX_DRAIN_ROUNDS: u64 = 3;
/// The send quantum's span and limits.
const QUANTUM_SPAN: Duration = Duration::from_millis(1);
const MAX_QUANTUM: u64 = 64 * 1_024;
const NOMINAL_RTT: Duration = Duration::from_millis(1);
/// Value of a bound that has no effect.
const UNBOUNDED: u64 = u64::MAX;

pub(crate) fn build(config: &ControllerConfig) -> Box<dyn CongestionController> {
    Box::new(Bbr3::new(config))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Startup,
    Drain,
    ProbeBwDown,
    ProbeBwCruise,
    ProbeBwRefill,
    ProbeBwUp,
    ProbeRtt,
}

/// `ack_phase`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AckPhase {
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

/// `RS`: the sample of a report.
#[derive(Clone, Copy, Debug)]
struct Sample {
    /// Zero: not valid.
    delivery_rate: DataRate,
    delivered: u64,
    prior_delivered: u64,
    newly_acked: u64,
    /// Bytes lost since the newest packet was sent.
    lost: u64,
    tx_in_flight: u64,
    is_app_limited: bool,
    rtt: Option<Duration>,
}

/// `full_bw` and its companions.
#[derive(Clone, Copy, Debug, Default)]
struct FullBandwidth {
    baseline: DataRate,
    count: u32,
    is_now: bool,
    is_reached: bool,
}

#[derive(Debug)]
struct Bbr3 {
    packet_bytes: u64,
    min_rate: DataRate,
    initial_rate: DataRate,
    initial_window: u64,
    rng: Rng,
    state: State,
    // Signals.
    next_packet_number: u64,
    delivered: u64,
    bytes_in_flight: u64,
    held_back: HeldBack,
    recovery: Recovery,
    /// Whether the window limited the sender in the current round, and in the one before.
    is_cwnd_limited: [bool; 2],
    // Rounds.
    next_round_delivered: u64,
    round_count: u64,
    is_round_start: bool,
    // The model.
    max_bw: RoundMax<DataRate>,
    bw: DataRate,
    bw_shortterm: DataRate,
    inflight_shortterm: u64,
    inflight_longterm: u64,
    bdp: u64,
    min_rtt: Option<Duration>,
    min_rtt_at: Instant,
    extra_acked: RoundMax<u64>,
    extra_acked_began_at: Instant,
    extra_acked_delivered: u64,
    full_bw: FullBandwidth,
    drain_start_round: u64,
    // Latest signals, and losses.
    bw_latest: DataRate,
    inflight_latest: u64,
    loss_round_delivered: u64,
    is_loss_round_start: bool,
    is_loss_in_round: bool,
    /// Discontiguous ranges lost in the loss round, and the last packet of the last one.
    lost_ranges_in_round: u32,
    last_lost: Option<u64>,
    undo: Undo,
    // ProbeBW.
    ack_phase: AckPhase,
    cycle_at: Instant,
    bw_probe_wait: Duration,
    rounds_since_probe_up: u64,
    bw_probe_up_rounds: u32,
    bw_probe_up_acked: u64,
    probe_up_acked_per_inc: u64,
    is_bw_probe_sample: bool,
    is_prev_probe_too_high: bool,
    is_prev_probe_precautionary: bool,
    // ProbeRTT.
    probe_rtt: ProbeRtt,
    is_idle_restart: bool,
    // Control.
    pacing_rate: DataRate,
    has_seen_rtt: bool,
    send_quantum: u64,
    cwnd: u64,
    prior_cwnd: u64,
}

impl Bbr3 {
    fn new(config: &ControllerConfig) -> Self {
        let packet_bytes = u64::from(config.max_packet_bytes).max(1);
        let initial_window = u64::from(config.initial_window_packets.max(1)) * packet_bytes;
        Bbr3 {
            packet_bytes,
            min_rate: config.min_rate,
            initial_rate: config.initial_rate,
            initial_window,
            rng: config.seed.derive("probe wait").rng(),
            state: State::Startup,
            next_packet_number: 0,
            delivered: 0,
            bytes_in_flight: 0,
            held_back: HeldBack::default(),
            recovery: Recovery::default(),
            is_cwnd_limited: [false; 2],
            next_round_delivered: 0,
            round_count: 0,
            is_round_start: false,
            max_bw: RoundMax::new(BANDWIDTH_CYCLES_BEFORE),
            bw: DataRate::ZERO,
            bw_shortterm: DataRate::MAX,
            inflight_shortterm: UNBOUNDED,
            inflight_longterm: UNBOUNDED,
            bdp: 0,
            min_rtt: None,
            min_rtt_at: Instant::ZERO,
            extra_acked: RoundMax::new(EXTRA_ACKED_ROUNDS),
            extra_acked_began_at: Instant::ZERO,
            extra_acked_delivered: 0,
            full_bw: FullBandwidth::default(),
            drain_start_round: 0,
            bw_latest: DataRate::ZERO,
            inflight_latest: 0,
            loss_round_delivered: 0,
            is_loss_round_start: false,
            is_loss_in_round: false,
            lost_ranges_in_round: 0,
            last_lost: None,
            undo: Undo::default(),
            ack_phase: AckPhase::Init,
            cycle_at: Instant::ZERO,
            bw_probe_wait: Duration::ZERO,
            rounds_since_probe_up: 0,
            bw_probe_up_rounds: 0,
            bw_probe_up_acked: 0,
            probe_up_acked_per_inc: UNBOUNDED,
            is_bw_probe_sample: false,
            is_prev_probe_too_high: false,
            is_prev_probe_precautionary: false,
            probe_rtt: ProbeRtt::default(),
            is_idle_restart: false,
            pacing_rate: DataRate::from_bytes_per(initial_window, NOMINAL_RTT)
                .mul_f64(STARTUP_PACING_GAIN),
            has_seen_rtt: false,
            send_quantum: 2 * packet_bytes,
            cwnd: initial_window,
            prior_cwnd: 0,
        }
    }

    fn pacing_gain(&self) -> f64 {
        match self.state {
            State::Startup => STARTUP_PACING_GAIN,
            State::Drain => DRAIN_PACING_GAIN,
            State::ProbeBwDown => DOWN_PACING_GAIN,
            State::ProbeBwUp => UP_PACING_GAIN,
            State::ProbeBwCruise | State::ProbeBwRefill | State::ProbeRtt => 1.0,
        }
    }

    fn cwnd_gain(&self) -> f64 {
        match self.state {
            State::ProbeBwUp => UP_CWND_GAIN,
            State::ProbeRtt => PROBE_RTT_CWND_GAIN,
            _ => CWND_GAIN,
        }
    }

    fn is_in_probe_bw(&self) -> bool {
        matches!(
            self.state,
            State::ProbeBwDown | State::ProbeBwCruise | State::ProbeBwRefill | State::ProbeBwUp
        )
    }

    fn is_probing_bw(&self) -> bool {
        matches!(
            self.state,
            State::Startup | State::ProbeBwRefill | State::ProbeBwUp
        )
    }

    fn min_pipe_cwnd(&self) -> u64 {
        MIN_PIPE_PACKETS * self.packet_bytes
    }

    /// `RS`, of a report whose newest packet this is.
    fn sample(&mut self, feedback: &Feedback<'_>, newest: &AckedPacket) -> Sample {
        let prior = &newest.sent.delivery;
        let number = newest.sent.packet_number;
        let is_held_back = self.held_back.on_acked(number, self.next_packet_number);
        let rate = feedback.delivery.filter(|sample| sample.is_full_round);
        let acked = feedback.acked.iter();
        Sample {
            delivery_rate: rate.map_or(DataRate::ZERO, |sample| sample.delivery_rate),
            delivered: feedback
                .delivered_bytes
                .saturating_sub(prior.delivered_bytes),
            prior_delivered: prior.delivered_bytes,
            newly_acked: acked.map(|packet| u64::from(packet.sent.bytes)).sum(),
            lost: feedback.lost_bytes.saturating_sub(prior.lost_bytes),
            tx_in_flight: newest.sent.bytes_in_flight,
            is_app_limited: feedback.is_app_limited || is_held_back,
            rtt: newest.rtt,
        }
    }

    /// `UpdateModelAndState`.
    fn update_model_and_state(&mut self, now: Instant, sample: &Sample) {
        self.update_latest_delivery_signals(sample);
        self.update_congestion_signals(sample);
        self.update_ack_aggregation(now, sample);
        self.check_full_bw_reached(sample);
        self.check_startup_done(sample);
        self.check_drain_done(now);
        self.update_probe_bw_cycle_phase(now, sample);
        self.update_min_rtt(now, sample);
        self.check_probe_rtt(now, sample);
        if self.is_loss_round_start {
            // `AdvanceLatestDeliverySignals`.
            self.bw_latest = sample.delivery_rate;
            self.inflight_latest = sample.delivered;
            self.lost_ranges_in_round = 0;
        }
        self.bw = self.max_bw.max().min(self.bw_shortterm);
    }

    /// `CheckFullBWReached`.
    fn check_full_bw_reached(&mut self, sample: &Sample) {
        if self.full_bw.is_now || !self.is_round_start || sample.is_app_limited {
            return;
        }
        if sample.delivery_rate >= self.full_bw.baseline.mul_f64(FULL_GROWTH) {
            self.reset_full_bw(sample.delivery_rate);
            return;
        }
        self.full_bw.count += 1;
        self.full_bw.is_now = self.full_bw.count >= FULL_ROUNDS;
        self.full_bw.is_reached |= self.full_bw.is_now;
    }

    /// `ResetFullBW`, with a new baseline.
    fn reset_full_bw(&mut self, baseline: DataRate) {
        self.full_bw = FullBandwidth {
            baseline,
            is_reached: self.full_bw.is_reached,
            ..FullBandwidth::default()
        };
    }

    /// `CheckStartupDone`.
    fn check_startup_done(&mut self, sample: &Sample) {
        if self.state != State::Startup {
            return;
        }
        // `CheckStartupHighLoss`: a round has passed since the recovery began with its first loss.
        let is_high_loss = self.is_loss_round_start
            && self.recovery.is_active()
            && self.lost_ranges_in_round >= STARTUP_FULL_LOSS_COUNT
            && is_inflight_too_high(sample.lost, sample.tx_in_flight);
        if is_high_loss && !self.full_bw.is_reached {
            self.undo.state = Some(State::Startup);
            self.full_bw.is_now = true;
            self.full_bw.is_reached = true;
            self.inflight_longterm = self.bdp.max(self.inflight_latest);
        }
        if self.full_bw.is_reached {
            self.state = State::Drain;
            self.drain_start_round = self.round_count;
        }
    }

    /// `CheckDrainDone`.
    fn check_drain_done(&mut self, now: Instant) {
        if self.state == State::Drain
            && (self.bytes_in_flight <= self.inflight(self.bw, 1.0)
                || self.round_count > self.drain_start_round + MAX_DRAIN_ROUNDS)
        {
            self.start_probe_bw_down(now);
        }
    }

    fn start_round(&mut self) {
        self.next_round_delivered = self.delivered;
    }

    /// `BDPMultiple`, of a bandwidth.
    fn bdp_multiple(&self, bandwidth: DataRate, gain: f64) -> u64 {
        let Some(min_rtt) = self.min_rtt else {
            return self.initial_window;
        };
        (gain * bandwidth.bytes_in(min_rtt) as f64) as u64
    }

    /// `QuantizationBudget`.
    fn with_quantization_budget(&self, inflight: u64) -> u64 {
        let inflight = inflight.max(self.send_quantum).max(self.min_pipe_cwnd());
        if self.state == State::ProbeBwUp {
            inflight.saturating_add(2 * self.packet_bytes)
        } else {
            inflight
        }
    }

    /// `Inflight`.
    fn inflight(&self, bandwidth: DataRate, gain: f64) -> u64 {
        self.with_quantization_budget(self.bdp_multiple(bandwidth, gain))
    }

    /// `SetPacingRateWithGain`.
    fn set_pacing_rate(&mut self, gain: f64) {
        let rate = self.bw.mul_f64(gain * PACED_SHARE);
        if self.full_bw.is_reached || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    /// `UpdateControlParameters`.
    fn update_control_parameters(&mut self, feedback: &Feedback<'_>, sample: &Sample) {
        if !self.has_seen_rtt && feedback.rtt.has_sample() {
            self.has_seen_rtt = true;
            let rtt = feedback.rtt.smoothed().max(NOMINAL_RTT);
            self.pacing_rate =
                DataRate::from_bytes_per(self.initial_window, rtt).mul_f64(STARTUP_PACING_GAIN);
        }
        self.set_pacing_rate(self.pacing_gain());
        self.send_quantum = send_quantum(self.pacing_rate, self.packet_bytes);
        self.bdp = self.bdp_multiple(self.bw, 1.0);
        self.set_cwnd(sample);
    }

    /// `SetCwnd`.
    fn set_cwnd(&mut self, sample: &Sample) {
        let inflight = self.bdp_multiple(self.bw, self.cwnd_gain());
        let max_inflight =
            self.with_quantization_budget(inflight.saturating_add(self.extra_acked.max()));
        let grown = self.cwnd.saturating_add(sample.newly_acked);
        if self.full_bw.is_reached {
            self.cwnd = grown.min(max_inflight);
        } else if self.cwnd < max_inflight || self.delivered < self.initial_window {
            self.cwnd = grown;
        }
        self.cwnd = self.cwnd.max(self.min_pipe_cwnd());
        if self.state == State::ProbeRtt {
            self.cwnd = self.cwnd.min(self.probe_rtt_cwnd());
        }
        self.bound_cwnd_for_model();
    }

    /// `BoundCwndForModel`.
    fn bound_cwnd_for_model(&mut self) {
        let longterm = match self.state {
            State::ProbeRtt | State::ProbeBwCruise => self.inflight_with_headroom(),
            _ if self.is_in_probe_bw() => self.inflight_longterm,
            _ => UNBOUNDED,
        };
        let cap = longterm
            .min(self.inflight_shortterm)
            .max(self.min_pipe_cwnd());
        self.cwnd = self.cwnd.min(cap);
    }

    /// `SaveCwnd`.
    fn save_cwnd(&mut self) {
        self.prior_cwnd = if self.recovery.is_active() || self.state == State::ProbeRtt {
            self.prior_cwnd.max(self.cwnd)
        } else {
            self.cwnd
        };
    }

    /// `RestoreCwnd`.
    fn restore_cwnd(&mut self) {
        self.cwnd = self.cwnd.max(self.prior_cwnd);
    }

    fn update_cwnd_limited(&mut self, is_window_limited: bool) {
        if self.is_round_start {
            self.is_cwnd_limited = [false, self.is_cwnd_limited[0]];
        }
        self.is_cwnd_limited[0] |= is_window_limited;
    }
}

/// `SetSendQuantum`.
fn send_quantum(rate: DataRate, packet_bytes: u64) -> u64 {
    let quantum = rate.bytes_in(QUANTUM_SPAN).min(MAX_QUANTUM);
    quantum.max(2 * packet_bytes)
}

impl CongestionController for Bbr3 {
    /// `HandleRestartFromIdle`.
    fn on_sent(&mut self, now: Instant, packet: &SentPacket) {
        self.next_packet_number = packet.packet_number + 1;
        self.bytes_in_flight = packet.bytes_in_flight;
        let is_alone = packet.bytes_in_flight <= u64::from(packet.bytes);
        if is_alone && packet.delivery.is_app_limited {
            self.is_idle_restart = true;
            self.extra_acked_began_at = now;
            if self.is_in_probe_bw() {
                self.set_pacing_rate(1.0);
            } else if self.state == State::ProbeRtt {
                self.maybe_leave_probe_rtt(now);
            }
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
        self.delivered = feedback.delivered_bytes;
        self.bytes_in_flight = feedback.bytes_in_flight;
        self.on_losses(now, feedback);
        let Some(newest) = feedback.acked.last() else {
            return;
        };
        let sample = self.sample(feedback, newest);
        self.update_round(&sample);
        self.update_cwnd_limited(feedback.is_window_limited);
        self.update_model_and_state(now, &sample);
        self.recovery.on_acked(newest.sent.packet_number);
        if self.recovery.step() == Step::Left {
            self.restore_cwnd();
        }
        self.update_control_parameters(feedback, &sample);
    }

    /// `OnEnterRTO`.
    fn on_timeout(&mut self, _now: Instant, cause: Timeout) {
        if cause == Timeout::Own {
            return;
        }
        if !self.recovery.is_active() {
            self.save_state_upon_loss();
        }
        self.recovery.on_timeout(self.next_packet_number);
        // The packets in flight, which are none, and one.
        self.cwnd = self.packet_bytes;
    }

    fn control(&self) -> ControlParameters {
        let pacing_rate = self.pacing_rate.max(packet_a_second(self.packet_bytes));
        let target_rate = match self.bw {
            DataRate::ZERO => self.initial_rate,
            bandwidth => bandwidth,
        };
        let is_padded = matches!(self.state, State::Startup | State::ProbeBwUp);
        ControlParameters {
            congestion_window: Some(self.cwnd.max(self.packet_bytes)),
            pacing_rate: Some(pacing_rate),
            padding_rate: if is_padded {
                pacing_rate
            } else {
                DataRate::ZERO
            },
            burst_bytes: self.send_quantum,
            ..ControlParameters::of(target_rate.max(self.min_rate))
        }
    }

    /// Requests reports as receivers of QUIC send them (RFC 9000 §13.2.2, §18.2).
    fn feedback_schedule(&self) -> FeedbackSchedule {
        FeedbackSchedule {
            every_packets: 2,
            max_delay: Duration::from_millis(25),
            ..FeedbackSchedule::EVERY_PACKET
        }
    }

    fn state(&self) -> &'static str {
        match self.state {
            State::Startup => "Startup",
            State::Drain => "Drain",
            State::ProbeBwDown => "ProbeBW_DOWN",
            State::ProbeBwCruise => "ProbeBW_CRUISE",
            State::ProbeBwRefill => "ProbeBW_REFILL",
            State::ProbeBwUp => "ProbeBW_UP",
            State::ProbeRtt => "ProbeRTT",
        }
    }
}
