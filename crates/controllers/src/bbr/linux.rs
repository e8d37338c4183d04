//! `bbr-linux` and `bbr-linux-4.9`: BBR version 1 of Linux (`tcp_bbr.c`). The first is that of 6.18
//! (2025), with which `docs/results.md` compares it. The second is its first release, with 4.9
//! (2016), that of Kondo et al.
//!
//! As `bbr-quic`, but for: one bandwidth sample per report; a pacing margin; a window counted in
//! packets with room for offloaded segments; packet conservation in recovery, whose end restores
//! the window; a detector of policers. [`profile`] holds the differences between the two.
//!
//! Deviations:
//! 1. Windows are kept in bytes; counts of packets are of the largest size.
//! 2. No delayed acknowledgements need an exception from renewing an expired least round-trip time,
//!    since a round-trip time excludes the time that the receiver held the report back.
//! 3. Recovery lasts until a packet that left after its beginning is acknowledged.
//! 4. A loss episode is undone when all of its packets have arrived after all.
//! 5. Offloaded segments are those of `bbr_tso_segs_goal`. The kernel's are longer where the least
//!    round-trip time is below 16 ms (`tcp_tso_autosize`, since 5.18), and shorter where the window
//!    or the application ends one.
//! 6. Phases end by the bytes in flight now, not at the next departure (`departure-times=on`): with
//!    `bbr_packets_in_net_at_edt` a flow alone queues 5 ms more than the kernel's own.

mod coupling;
mod extra_acked;
mod in_flight;
mod policer;
mod profile;
#[cfg(test)]
mod tests;

use anabranch_core::control::{CongestionController, ControlParameters, ControllerConfig, Timeout};
use anabranch_core::recovery::{Feedback, FeedbackSchedule, RateSample, SentPacket};
use anabranch_core::{PathView, SessionView};
use anabranch_units::options::AlgorithmOption;
use anabranch_units::{DataRate, Duration, Instant, Rng};

use super::gain_cycle::{GAINS, GainCycle, PhaseFacts};
use super::recovery::{Recovery, Step};
use super::{
    BANDWIDTH_WINDOW_ROUNDS, FullPipe, HeldBack, MIN_RTT_EXPIRY, PROBE_RTT_DURATION, RoundMax,
    packet_a_second,
};
use coupling::Coupling;
use extra_acked::ExtraAcked;
use policer::{Policer, PolicerFacts};
use profile::Profile;

/// `bbr_high_gain`, in 1/256: 2885/1000 + 1/256.
const HIGH_GAIN: f64 = 739.0 / 256.0;
/// `bbr_drain_gain`, in 1/256: 1000/2885.
const DRAIN_GAIN: f64 = 88.0 / 256.0;
/// `bbr_cwnd_gain`.
const WINDOW_GAIN: f64 = 2.0;
/// `bbr_cwnd_min_target`, in packets.
const MIN_WINDOW_PACKETS: u64 = 4;
/// `TCP_INIT_CWND`, in packets: the bandwidth-delay product before the first round-trip time.
const INITIAL_PRODUCT_PACKETS: u64 = 10;
/// Round-trip time that the first pacing rate assumes.
const NOMINAL_RTT: Duration = Duration::from_millis(1);

const DEPARTURE_TIMES: AlgorithmOption = AlgorithmOption::words(
    "departure-times",
    "whether phases end by what is in flight at the next departure (since 4.20)",
    &["off", "on"],
);
const SEGMENTS: AlgorithmOption = AlgorithmOption::words(
    "segments",
    "whether packets leave together in offloaded segments",
    &["on", "off"],
);

pub(crate) const OPTIONS: &[AlgorithmOption] = &[DEPARTURE_TIMES, SEGMENTS];

pub(crate) fn build(config: &ControllerConfig) -> Box<dyn CongestionController> {
    Box::new(BbrLinux::new(&profile::TODAY, config))
}

pub(crate) fn build_coupled(config: &ControllerConfig) -> Box<dyn CongestionController> {
    Box::new(coupled(config))
}

fn coupled(config: &ControllerConfig) -> BbrLinux {
    BbrLinux {
        coupling: Some(Coupling::default()),
        ..BbrLinux::new(&profile::C_MPBBR, config)
    }
}

pub(crate) fn build_4_9(config: &ControllerConfig) -> Box<dyn CongestionController> {
    Box::new(BbrLinux::new(&profile::LINUX_4_9, config))
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
    /// Set once four packets are in flight.
    done_at: Option<Instant>,
    has_passed_round: bool,
}

#[derive(Debug)]
struct BbrLinux {
    profile: &'static Profile,
    /// Coupling of `c-mpbbr`; `None` for the other profiles.
    coupling: Option<Coupling>,
    /// By [`DEPARTURE_TIMES`].
    knows_departure_times: bool,
    /// By [`SEGMENTS`].
    sends_segments: bool,
    packet_bytes: u64,
    min_rate: DataRate,
    initial_rate: DataRate,
    rng: Rng,
    mode: Mode,
    bandwidth: RoundMax<DataRate>,
    policer: Policer,
    extra_acked: ExtraAcked,
    /// `next_rtt_delivered`.
    round_ends_at_delivered: u64,
    is_round_start: bool,
    full_pipe: FullPipe,
    min_rtt: Option<Duration>,
    min_rtt_at: Instant,
    has_seen_rtt: bool,
    pacing_rate: DataRate,
    congestion_window: u64,
    prior_window: u64,
    recovery: Recovery,
    held_back: HeldBack,
    /// Whether the sender was idle when it last began to send.
    is_idle_restart: bool,
    next_packet_number: u64,
    /// `tcp_wstamp_ns`: the earliest departure time of the next packet.
    departs_at: Instant,
    delivered_bytes: u64,
    lost_bytes: u64,
}

impl BbrLinux {
    fn new(profile: &'static Profile, config: &ControllerConfig) -> Self {
        let packet_bytes = u64::from(config.max_packet_bytes).max(1);
        let initial_window = u64::from(config.initial_window_packets.max(1)) * packet_bytes;
        BbrLinux {
            profile,
            coupling: None,
            knows_departure_times: profile.knows_departure_times
                && config.options.word(&DEPARTURE_TIMES) == "on",
            sends_segments: config.options.word(&SEGMENTS) == "on",
            packet_bytes,
            min_rate: config.min_rate,
            initial_rate: config.initial_rate,
            rng: config.seed.derive("gain cycle").rng(),
            mode: Mode::Startup,
            bandwidth: RoundMax::new(BANDWIDTH_WINDOW_ROUNDS),
            policer: Policer::default(),
            extra_acked: ExtraAcked::default(),
            round_ends_at_delivered: 0,
            is_round_start: false,
            full_pipe: FullPipe::default(),
            min_rtt: None,
            min_rtt_at: Instant::ZERO,
            has_seen_rtt: false,
            pacing_rate: DataRate::from_bytes_per(initial_window, NOMINAL_RTT)
                .mul_f64(HIGH_GAIN * profile.paced_share),
            congestion_window: initial_window,
            prior_window: 0,
            recovery: Recovery::default(),
            held_back: HeldBack::default(),
            is_idle_restart: false,
            next_packet_number: 0,
            departs_at: Instant::ZERO,
            delivered_bytes: 0,
            lost_bytes: 0,
        }
    }

    /// `bbr_bw`: the policer's rate, or the largest one of ten rounds.
    fn estimate(&self) -> DataRate {
        self.policer.rate().unwrap_or_else(|| self.bandwidth.max())
    }

    /// Returns the part of the estimate that the path uses.
    fn bandwidth(&self) -> DataRate {
        match (&self.coupling, &self.mode) {
            (Some(coupling), Mode::ProbeBw(cycle)) => coupling.taken(self.estimate(), cycle),
            _ => self.estimate(),
        }
    }

    fn pacing_gain(&self) -> f64 {
        match &self.mode {
            Mode::Startup => HIGH_GAIN,
            Mode::Drain => DRAIN_GAIN,
            Mode::ProbeBw(_) if self.policer.rate().is_some() => 1.0,
            Mode::ProbeBw(cycle) => cycle.gain(&GAINS),
            Mode::ProbeRtt(_) => 1.0,
        }
    }

    fn window_gain(&self) -> f64 {
        match &self.mode {
            Mode::Startup | Mode::Drain => HIGH_GAIN,
            Mode::ProbeBw(_) => WINDOW_GAIN,
            Mode::ProbeRtt(_) => 1.0,
        }
    }

    /// `bbr_update_bw`.
    fn update_bandwidth(&mut self, feedback: &Feedback<'_>, now: Instant) {
        self.is_round_start = false;
        let Some(sample) = feedback.delivery.filter(|sample| sample.is_full_round) else {
            return;
        };
        if sample.prior_delivered_bytes >= self.round_ends_at_delivered {
            self.round_ends_at_delivered = feedback.delivered_bytes;
            self.is_round_start = true;
            self.bandwidth.on_round(None);
            self.recovery.end_conservation();
        }
        let is_app_limited = self.is_app_limited(feedback, &sample);
        let facts = PolicerFacts {
            now,
            is_round_start: self.is_round_start,
            is_app_limited,
            has_losses: !feedback.lost.is_empty(),
            delivered_bytes: feedback.delivered_bytes,
            lost_bytes: feedback.lost_bytes,
            is_in_probe_bw: matches!(self.mode, Mode::ProbeBw(_)),
        };
        if self.policer.on_sample(&facts) {
            self.enter_probe_bw(now);
        }
        if !is_app_limited || sample.delivery_rate >= self.bandwidth.max() {
            self.bandwidth.push(sample.delivery_rate);
        }
        self.check_full_pipe(is_app_limited);
    }

    fn is_app_limited(&mut self, feedback: &Feedback<'_>, sample: &RateSample) -> bool {
        let is_held_back = feedback.acked.last().is_some_and(|newest| {
            let number = newest.sent.packet_number;
            self.held_back.on_acked(number, self.next_packet_number)
        });
        sample.is_app_limited || is_held_back
    }

    /// `bbr_update_cycle_phase`.
    fn maybe_advance_cycle(&mut self, now: Instant, feedback: &Feedback<'_>, paths: &[PathView]) {
        let Mode::ProbeBw(mut cycle) = self.mode else {
            return;
        };
        let facts = PhaseFacts {
            min_rtt: self.min_rtt.unwrap_or(Duration::ZERO),
            gain: self.pacing_gain(),
            has_losses: !feedback.lost.is_empty(),
            bytes_in_flight: self.in_network_at_departure(now, feedback.prior_bytes_in_flight),
        };
        if cycle.is_over(now, &facts, |gain| {
            self.inflight(self.bandwidth.max(), gain)
        }) {
            cycle.advance(now);
            self.mode = Mode::ProbeBw(cycle);
            let estimate = self.estimate();
            if let Some(coupling) = &mut self.coupling {
                coupling.on_phase(&cycle, estimate, feedback, paths);
            }
        }
    }

    /// `bbr_check_full_bw_reached`, for a valid sample.
    fn check_full_pipe(&mut self, is_app_limited: bool) {
        if !self.full_pipe.is_full && self.is_round_start && !is_app_limited {
            self.full_pipe.on_round(self.bandwidth.max());
        }
    }

    /// `bbr_check_drain`.
    fn check_drain(&mut self, now: Instant, bytes_in_flight: u64) {
        if matches!(self.mode, Mode::Startup) && self.full_pipe.is_full {
            self.mode = Mode::Drain;
        }
        if matches!(self.mode, Mode::Drain)
            && self.in_network_at_departure(now, bytes_in_flight)
                <= self.inflight(self.bandwidth.max(), 1.0)
        {
            self.enter_probe_bw(now);
        }
    }

    fn enter_probe_bw(&mut self, now: Instant) {
        self.mode = Mode::ProbeBw(GainCycle::enter(now, &mut self.rng));
    }

    /// `bbr_update_min_rtt`.
    fn update_min_rtt(&mut self, now: Instant, feedback: &Feedback<'_>) {
        let has_expired = self.min_rtt.is_some() && now > self.min_rtt_at + MIN_RTT_EXPIRY;
        let newest = feedback.acked.last().and_then(|packet| packet.rtt);
        if let Some(rtt) = newest {
            let is_least = self.min_rtt.is_none_or(|min_rtt| {
                rtt < min_rtt || (rtt == min_rtt && self.profile.does_equal_rtt_confirm)
            });
            if is_least || has_expired {
                self.min_rtt = Some(rtt);
                self.min_rtt_at = now;
            }
        }
        if has_expired && !self.is_idle_restart && !matches!(self.mode, Mode::ProbeRtt(_)) {
            self.save_window();
            self.mode = Mode::ProbeRtt(ProbeRtt::default());
        }
        self.stay_in_probe_rtt(now, feedback);
        if feedback
            .delivery
            .is_some_and(|sample| sample.delivered_bytes > 0)
        {
            self.is_idle_restart = false;
        }
    }

    fn stay_in_probe_rtt(&mut self, now: Instant, feedback: &Feedback<'_>) {
        let is_small = feedback.bytes_in_flight <= MIN_WINDOW_PACKETS * self.packet_bytes;
        let Mode::ProbeRtt(stay) = &mut self.mode else {
            return;
        };
        self.held_back.mark(self.next_packet_number);
        if stay.done_at.is_none() {
            if is_small {
                stay.done_at = Some(now + PROBE_RTT_DURATION);
                stay.has_passed_round = false;
                self.round_ends_at_delivered = feedback.delivered_bytes;
            }
            return;
        }
        stay.has_passed_round |= self.is_round_start;
        if stay.has_passed_round {
            self.maybe_leave_probe_rtt(now);
        }
    }

    /// `bbr_check_probe_rtt_done`.
    fn maybe_leave_probe_rtt(&mut self, now: Instant) {
        let Mode::ProbeRtt(stay) = &self.mode else {
            return;
        };
        if stay.done_at.is_none_or(|done_at| now <= done_at) {
            return;
        }
        self.min_rtt_at = now;
        self.congestion_window = self.congestion_window.max(self.prior_window);
        if self.full_pipe.is_full {
            self.enter_probe_bw(now);
        } else {
            self.mode = Mode::Startup;
        }
    }

    /// `bbr_save_cwnd`.
    fn save_window(&mut self) {
        let is_cut = self.recovery.is_active() || matches!(self.mode, Mode::ProbeRtt(_));
        self.prior_window = if is_cut {
            self.prior_window.max(self.congestion_window)
        } else {
            self.congestion_window
        };
    }

    /// `bbr_set_pacing_rate`.
    fn update_pacing_rate(&mut self, gain: f64, feedback: &Feedback<'_>) {
        if !self.has_seen_rtt && feedback.rtt.has_sample() {
            self.has_seen_rtt = true;
            let rtt = feedback.rtt.smoothed().max(NOMINAL_RTT);
            self.pacing_rate = DataRate::from_bytes_per(self.congestion_window, rtt)
                .mul_f64(HIGH_GAIN * self.profile.paced_share);
        }
        let rate = self.bandwidth().mul_f64(gain * self.profile.paced_share);
        let may_fall = self.full_pipe.is_full
            || (self.profile.is_paced_down_after_startup && !matches!(self.mode, Mode::Startup));
        if may_fall || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    /// `bbr_set_cwnd`.
    fn update_window(&mut self, feedback: &Feedback<'_>, acked_bytes: u64, lost_bytes: u64) {
        self.congestion_window = self
            .congestion_window
            .saturating_sub(lost_bytes)
            .max(self.packet_bytes);
        let in_flight = feedback.bytes_in_flight;
        match self.recovery.step() {
            Step::Entered => {
                self.round_ends_at_delivered = feedback.delivered_bytes;
                self.congestion_window = in_flight + acked_bytes;
            }
            Step::Left => {
                self.congestion_window = self.congestion_window.max(self.prior_window);
            }
            Step::None => {}
        }
        if self.recovery.is_conserving() {
            self.congestion_window = self.congestion_window.max(in_flight + acked_bytes);
        } else {
            self.approach_target(acked_bytes);
        }
        if matches!(self.mode, Mode::ProbeRtt(_)) {
            let least = MIN_WINDOW_PACKETS * self.packet_bytes;
            self.congestion_window = self.congestion_window.min(least);
        }
    }

    fn approach_target(&mut self, acked_bytes: u64) {
        let bandwidth = self.bandwidth();
        let mut target = self.product(bandwidth, self.window_gain());
        if self.profile.allows_for_aggregation && self.full_pipe.is_full {
            target += self.extra_acked.allowance(bandwidth);
        }
        let target = self.with_quantization_budget(target);
        let grown = self.congestion_window.saturating_add(acked_bytes);
        let is_young = self.delivered_bytes < INITIAL_PRODUCT_PACKETS * self.packet_bytes;
        if self.full_pipe.is_full {
            self.congestion_window = grown.min(target);
        } else if self.congestion_window < target || is_young {
            self.congestion_window = grown;
        }
        let least = MIN_WINDOW_PACKETS * self.packet_bytes;
        self.congestion_window = self.congestion_window.max(least);
    }

    /// `bbr_undo_cwnd`: the losses were spurious.
    fn undo(&mut self) {
        if self.profile.has_undo {
            self.full_pipe.restart();
            self.policer = Policer::default();
        }
        self.congestion_window = self.congestion_window.max(self.prior_window);
    }

    fn on_losses(&mut self, feedback: &Feedback<'_>) {
        if !feedback.lost.is_empty() {
            if !self.recovery.is_active() {
                self.save_window();
            }
            let count = feedback.lost.len() as u64;
            self.recovery.on_lost(count, self.next_packet_number);
        }
        let spurious_count = feedback.spurious.len() as u64;
        if spurious_count > 0 && self.recovery.on_spurious(spurious_count) {
            self.undo();
        }
    }

    fn is_probing(&self) -> bool {
        matches!(self.mode, Mode::Startup) || self.pacing_gain() > 1.0
    }
}

impl CongestionController for BbrLinux {
    /// `CA_EVENT_TX_START`.
    fn on_sent(&mut self, now: Instant, packet: &SentPacket) {
        self.next_packet_number = packet.packet_number + 1;
        let gap = self.pacing_rate.time_for(u64::from(packet.bytes));
        self.departs_at = self.departs_at.max(now) + gap;
        let is_alone = packet.bytes_in_flight <= u64::from(packet.bytes);
        if is_alone && packet.delivery.is_app_limited {
            self.is_idle_restart = true;
            self.extra_acked.restart(now);
            if matches!(self.mode, Mode::ProbeBw(_)) {
                self.pacing_rate = self.bandwidth().mul_f64(self.profile.paced_share);
            } else if self.profile.leaves_probe_rtt_when_idle {
                self.maybe_leave_probe_rtt(now);
            }
        }
    }

    fn on_feedback(
        &mut self,
        now: Instant,
        feedback: &Feedback<'_>,
        _session: &SessionView,
        paths: &[PathView],
    ) {
        self.delivered_bytes = feedback.delivered_bytes;
        self.lost_bytes = feedback.lost_bytes;
        self.on_losses(feedback);
        let acked = feedback.acked.iter();
        let acked_bytes: u64 = acked.map(|packet| u64::from(packet.sent.bytes)).sum();
        let Some(newest) = feedback.acked.last() else {
            return;
        };
        self.update_bandwidth(feedback, now);
        if self.profile.allows_for_aggregation && feedback.delivery.is_some() {
            let (bandwidth, window) = (self.bandwidth(), self.congestion_window);
            self.extra_acked
                .on_acked(now, acked_bytes, bandwidth, window, self.is_round_start);
        }
        self.maybe_advance_cycle(now, feedback, paths);
        self.check_drain(now, feedback.bytes_in_flight);
        self.update_min_rtt(now, feedback);
        self.update_pacing_rate(self.pacing_gain(), feedback);
        self.recovery.on_acked(newest.sent.packet_number);
        let lost = feedback.lost.iter();
        let lost_bytes = lost.map(|packet| u64::from(packet.bytes)).sum();
        self.update_window(feedback, acked_bytes, lost_bytes);
    }

    /// `bbr_set_state` of `TCP_CA_Loss`, and the kernel's window for it.
    fn on_timeout(&mut self, now: Instant, cause: Timeout) {
        let window_packets = match cause {
            Timeout::Own => return,
            // The packets in flight, which are none, and one.
            Timeout::Retransmission { .. } => 1,
            Timeout::FeedbackSilence { .. } => MIN_WINDOW_PACKETS,
        };
        if !self.recovery.is_active() {
            self.save_window();
        }
        self.full_pipe.restart_growth();
        // `TCP_CA_Loss` ends a round with a loss.
        self.policer.on_sample(&PolicerFacts {
            now,
            is_round_start: true,
            is_app_limited: false,
            has_losses: true,
            delivered_bytes: self.delivered_bytes,
            lost_bytes: self.lost_bytes,
            is_in_probe_bw: false,
        });
        self.recovery.on_timeout(self.next_packet_number);
        self.congestion_window = window_packets * self.packet_bytes;
    }

    fn control(&self) -> ControlParameters {
        let target_rate = match self.estimate() {
            DataRate::ZERO => self.initial_rate,
            bandwidth => bandwidth,
        };
        let pacing_rate = self.pacing_rate.max(packet_a_second(self.packet_bytes));
        ControlParameters {
            congestion_window: Some(self.congestion_window.max(self.packet_bytes)),
            pacing_rate: Some(pacing_rate),
            group_bytes: if self.sends_segments {
                self.segment_packets() * self.packet_bytes
            } else {
                0
            },
            is_usable: self.coupling.as_ref().is_none_or(Coupling::is_usable),
            padding_rate: if self.is_probing() {
                pacing_rate
            } else {
                DataRate::ZERO
            },
            ..ControlParameters::of(target_rate.max(self.min_rate))
        }
    }

    /// Requests a report of every second packet, as receivers of TCP acknowledge (RFC 5681 §4.2;
    /// Linux: after 40 ms).
    fn feedback_schedule(&self) -> FeedbackSchedule {
        FeedbackSchedule {
            every_packets: 2,
            max_delay: Duration::from_millis(40),
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
