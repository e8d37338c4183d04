//! Delay-BBR (Zhang & Lei, §4.1): BBR with a gentler gain cycle, whose ProbeRTT reacts to delay and
//! drains at three quarters of the bandwidth.
//!
//! There are three forms, which share everything here and differ in the decisions of a [`Profile`]:
//! `live-bbr` (ours, [`live`]), `delay-bbr` (the authors' code, [`v5`]) and `delay-bbr-text`
//! ([`text`]). Only the first has a window, where jitter hides queues, and reacts to losses, if
//! they come with a long queue.

mod delay_signal;
mod live;
mod longer_path;
mod min_rtt;
mod need;
mod noise;
mod opening;
mod overflow;
mod probe_bw;
mod probe_rtt;
mod profile;
mod reports;
mod samples;
#[cfg(test)]
mod tests;
mod text;
mod trains;
mod v5;

use anabranch_core::control::{CongestionController, ControlParameters, ControllerConfig, Timeout};
use anabranch_core::recovery::{AckedPacket, Feedback, FeedbackSchedule, RateSample, SentPacket};
use anabranch_core::{PathView, SessionView};
use anabranch_units::options::AlgorithmOption;
use anabranch_units::{DataRate, Duration, Instant, Rng};

use super::backlog_share::path_backlog_bytes;
use super::bbr::{BANDWIDTH_WINDOW_ROUNDS, FullPipe, RoundCounter, RoundMax};
use delay_signal::DelaySignal;
use longer_path::Draining;
use min_rtt::MinRtt;
use noise::Noise;
use opening::Opening;
use overflow::Overflow;
use probe_bw::{Echo, GainCycle};
use probe_rtt::ProbeRtt;
use profile::{AfterSilence, BandwidthUpdate, MinRateFloor, Profile, Reports, SignalForm};
use reports::Batches;
use trains::Trains;

/// The initial window, in bytes per round trip.
const INITIAL_BYTES: u64 = 10 * 1_000;
/// Jitter from which packets in flight are limited, because it hides queues of this length.
const DISCERNIBLE_QUEUE: Duration = Duration::from_millis(5);
/// Limit in this case, as a multiple of the bandwidth-delay product (BBR's `cwnd_gain` is 2).
const WINDOW_GAIN: f64 = 1.5;
/// Rounds of congestion in Startup before congestion ends it.
const STARTUP_ROUNDS_BEFORE_DELAY_EXIT: u64 = 2;

/// Share of the send rate from which the delivered rate shows that the path is not full.
const DELIVERED_AS_SENT: f64 = 0.95;

/// Rounds, as many as the bandwidth filter has, after which two conclusions are drawn. A sender
/// that was never application-limited in them always has enough to send. A path that had no queue
/// in them is not full, since they are more than a cycle of gains.
const VERDICT_ROUNDS: u64 = BANDWIDTH_WINDOW_ROUNDS;

/// The gains of ProbeBW: those of §4.1, or BBR's, which it means to improve on.
const CYCLE: AlgorithmOption = AlgorithmOption::words(
    "cycle",
    "gains of ProbeBW: 1.11 and 0.9 (gentle, Zhang & Lei) or 1.25 and 0.75 (bbr)",
    &["gentle", "bbr"],
);

/// The reset of the smoothed round-trip time at the back-off (Algorithm 5, lines 3 to 5), which is
/// to keep the flow from backing off too often (§5.1).
const RESET: AlgorithmOption = AlgorithmOption::words(
    "reset",
    "whether ProbeRTT forgets packets that left before it (on, Zhang & Lei)",
    &["on", "off"],
);

pub(super) const OPTIONS: &[AlgorithmOption] = &[CYCLE, RESET];

pub(super) fn build_live(config: &ControllerConfig) -> Box<dyn CongestionController> {
    Box::new(DelayBbr::new(&live::PROFILE, config))
}

pub(super) fn build_text(config: &ControllerConfig) -> Box<dyn CongestionController> {
    Box::new(DelayBbr::new(&text::PROFILE, config))
}

pub(super) fn build_published(config: &ControllerConfig) -> Box<dyn CongestionController> {
    Box::new(DelayBbr::new(&v5::PROFILE, config))
}

#[derive(Clone, Copy, Debug)]
enum Mode {
    Startup,
    Drain,
    ProbeBw(GainCycle),
    ProbeRtt(ProbeRtt),
}

#[derive(Debug)]
struct DelayBbr {
    profile: &'static Profile,
    config: ControllerConfig,
    /// Whether [`CYCLE`] is set to the gains of BBR.
    has_gains_of_bbr: bool,
    /// Whether [`RESET`] is on.
    has_reset: bool,
    rng: Rng,
    mode: Mode,
    min_rtt: MinRtt,
    signal: DelaySignal,
    /// Draining that began while the sender was application-limited.
    draining: Option<Draining>,
    overflow: Overflow,
    opening: Opening,
    rounds: RoundCounter,
    bandwidth: RoundMax<DataRate>,
    full_pipe: FullPipe,
    /// Rounds that had ended when Startup was entered.
    startup_began_at_round: u64,
    /// `last_sent_packet` + 1.
    next_packet_number: u64,
    /// One more than the largest packet number acknowledged.
    acked_until: u64,
    /// First packet that counts. Earlier ones are no evidence on the path, which has been silent
    /// since.
    counts_from: u64,
    bytes_in_flight: u64,
    /// Whether the newest acknowledged packet was sent while the sender was application-limited.
    is_app_limited: bool,
    /// Last round in which a packet was acknowledged that an application-limited sender had sent.
    app_limited_round: u64,
    /// Last such round, or round in which another path had room.
    spare_round: u64,
    /// Last round in which a packet met a queue.
    queued_round: u64,
    /// The latest round-trip time, without jitter.
    floor: Duration,
    noise: Noise,
    /// Whether, in Startup, the newest sample shows a delivery rate below the send rate.
    is_slowed: bool,
    batches: Batches,
    trains: Trains,
    /// Backlog of media for the path.
    backlog_bytes: u64,
    /// Lifetime of media after its capture.
    deadline: Duration,
    /// Least round-trip time of the quickest path, over which lost packets are retransmitted.
    quickest_rtt: Option<Duration>,
    /// Whether the path is silent: nothing has been acknowledged since it was declared so.
    is_silent: bool,
}

impl DelayBbr {
    fn new(profile: &'static Profile, config: &ControllerConfig) -> Self {
        DelayBbr {
            profile,
            config: config.clone(),
            has_gains_of_bbr: config.options.word(&CYCLE) == "bbr",
            has_reset: config.options.word(&RESET) == "on",
            rng: config.seed.derive("gain cycle").rng(),
            mode: Mode::Startup,
            min_rtt: MinRtt::default(),
            signal: DelaySignal::default(),
            draining: None,
            overflow: Overflow::default(),
            opening: Opening::default(),
            rounds: RoundCounter::default(),
            bandwidth: RoundMax::new(BANDWIDTH_WINDOW_ROUNDS),
            full_pipe: FullPipe::default(),
            startup_began_at_round: 0,
            next_packet_number: 0,
            acked_until: 0,
            counts_from: 0,
            bytes_in_flight: 0,
            is_app_limited: false,
            app_limited_round: 0,
            spare_round: 0,
            queued_round: 0,
            floor: Duration::MAX,
            noise: Noise::default(),
            is_slowed: false,
            batches: Batches::default(),
            trains: Trains::default(),
            backlog_bytes: 0,
            deadline: Duration::ZERO,
            quickest_rtt: None,
            is_silent: false,
        }
    }

    /// Runs algorithm 2 for one packet. `sample` belongs to `newest`, the newest packet of its
    /// report.
    fn on_acked(
        &mut self,
        now: Instant,
        packet: &AckedPacket,
        newest: &AckedPacket,
        sample: Option<&RateSample>,
    ) {
        let number = packet.sent.packet_number;
        if self.is_silent {
            self.is_silent = false;
            self.rounds.restart(self.next_packet_number);
        }
        self.on_rtt(now, packet);
        let has_sampled = self.rounds.count > 0;
        let is_round_end = self.rounds.on_acked(number, self.next_packet_number);
        if !has_sampled {
            return;
        }
        if is_round_end && self.profile.bandwidth_update == BandwidthUpdate::BeforeAlgorithm2 {
            self.on_round_end(newest, sample);
        }
        self.maybe_enter_or_exit_probe_rtt(now);
        if is_round_end && self.profile.bandwidth_update == BandwidthUpdate::AfterAlgorithm5 {
            self.on_round_end(newest, sample);
        }
        self.maybe_exit_startup_or_drain(now);
        let echo = self.echo(packet);
        if let Mode::ProbeBw(cycle) = &self.mode
            && (cycle.may_step(now, self.min_rtt.or_initial()) || self.is_media_urgent())
        {
            self.step_cycle(now, echo);
        }
    }

    /// Advances the cycle of gains when it is time.
    #[cold]
    fn step_cycle(&mut self, now: Instant, echo: Option<Echo>) {
        let ask = self.ask();
        if let Mode::ProbeBw(cycle) = &mut self.mode {
            if let Some(echo) = echo {
                cycle.on_rtt(now, echo, ask);
            }
            cycle.advance(now, self.min_rtt.or_initial(), ask);
        }
    }

    /// Runs algorithm 3, without the bytes in flight.
    fn on_rtt(&mut self, now: Instant, packet: &AckedPacket) {
        let number = packet.sent.packet_number;
        if number < self.counts_from {
            return;
        }
        let Some(rtt) = packet.rtt else { return };
        self.floor = self.noise.floor_of(rtt);
        self.min_rtt.on_rtt(now, rtt, self.profile.comparison);
        self.overflow.on_rtt(rtt);
        self.opening.on_rtt(self.floor, self.noise.margin);
        if !self.has_no_queue() {
            self.queued_round = self.rounds.count;
        }
        let form = self.profile.delay_signal;
        match &mut self.mode {
            Mode::ProbeRtt(stay) => stay.on_rtt(now, rtt),
            // "The SRTT signal is monitored during the ProbeBW phase."
            Mode::ProbeBw(_) => self.signal.on_rtt(number, rtt, &self.noise, form),
            Mode::Startup if self.profile.has_startup_delay_exit => {
                self.signal.on_rtt(number, rtt, &self.noise, form);
            }
            Mode::Startup | Mode::Drain => {}
        }
    }

    /// Runs algorithm 5.
    fn maybe_enter_or_exit_probe_rtt(&mut self, now: Instant) {
        let has_expired = self.min_rtt.has_expired(now);
        // Algorithm 4, line 4.
        let is_congested = matches!(self.mode, Mode::ProbeBw(_)) && self.signal.is_congested();
        if !matches!(self.mode, Mode::ProbeRtt(_)) && (has_expired || is_congested) {
            self.enter_probe_rtt(now, has_expired);
        }
        if let Mode::ProbeRtt(stay) = &self.mode
            && stay.is_over(now, self.bytes_in_flight, self.acked_until, self.profile)
        {
            let renewed = stay.renewed_min_rtt(now);
            if self.profile.expiry == profile::Expiry::Raise
                && let Some((rtt, seen_at)) = renewed
            {
                self.min_rtt.replace(rtt, seen_at);
            }
            self.enter_probe_bw(now);
        }
    }

    #[cold]
    fn enter_probe_rtt(&mut self, now: Instant, has_expired: bool) {
        self.signal.restart(if self.has_reset {
            self.next_packet_number
        } else {
            0
        });
        self.mode = Mode::ProbeRtt(ProbeRtt::enter(
            now,
            self.next_packet_number,
            self.drained_bytes(probe_rtt::GAIN),
            self.min_rtt.or_initial(),
            has_expired,
        ));
        if !has_expired {
            self.begin_draining(now, probe_rtt::GAIN);
        }
    }

    /// "When the inflight packets are less than the computed BDP, the state is changed to ProbeBW."
    fn maybe_exit_startup_or_drain(&mut self, now: Instant) {
        if matches!(self.mode, Mode::Startup) {
            let rounds = self.rounds.count - self.startup_began_at_round;
            self.full_pipe.is_full |= self.has_opening_overflowed();
            self.full_pipe.is_full |= self.profile.has_startup_delay_exit
                && rounds > STARTUP_ROUNDS_BEFORE_DELAY_EXIT
                && self.signal.is_congested()
                && self.is_slowed;
            if self.full_pipe.is_full {
                self.enter_drain();
                self.begin_draining(now, 1.0 / self.profile.startup_gain);
            }
        }
        if matches!(self.mode, Mode::Drain)
            && self.profile.comparison.is_below(
                self.bytes_in_flight,
                self.drained_bytes(1.0 / self.profile.startup_gain),
            )
        {
            self.enter_probe_bw(now);
        }
        self.maybe_accept_longer_path(now);
    }

    /// Enters Drain: the excess in flight drains, whichever state sent it.
    #[cold]
    fn enter_drain(&mut self) {
        self.draining = None;
        self.mode = Mode::Drain;
    }

    #[cold]
    fn enter_probe_bw(&mut self, now: Instant) {
        self.draining = None;
        let ask = self.ask();
        self.mode = Mode::ProbeBw(GainCycle::enter(now, ask, &mut self.rng));
    }

    /// Handles a path outage: no packet counts as in flight any longer.
    #[cold]
    fn on_silence(&mut self) {
        if self.is_silent {
            return;
        }
        self.is_silent = true;
        self.bytes_in_flight = 0;
        if self.profile.after_silence == AfterSilence::Resume {
            return;
        }
        let bandwidth = self.bandwidth.max();
        if !bandwidth.is_zero() {
            self.bandwidth.restart(bandwidth.mul_f64(0.5));
        }
        self.draining = None;
        self.mode = Mode::Startup;
        self.startup_began_at_round = self.rounds.count;
        self.full_pipe = FullPipe::default();
        self.min_rtt = MinRtt::default();
        self.signal.restart(self.next_packet_number);
        self.overflow = Overflow::default();
        self.counts_from = self.next_packet_number;
    }

    fn bdp_bytes(&self) -> u64 {
        let bdp_bytes = match self.bandwidth.max().bytes_in(self.min_rtt.or_initial()) {
            0 => INITIAL_BYTES,
            bytes => bytes,
        };
        let floor = self.profile.min_bdp_packets * u64::from(self.config.max_packet_bytes);
        bdp_bytes.max(floor)
    }

    /// Returns the limit of bytes in flight where jitter hides a queue until it is long: a window
    /// like BBR's. Without it, a path whose capacity falls fills its queue before the delay shows
    /// it.
    fn window_bytes(&self) -> Option<u64> {
        let jitter = self.noise.jitter;
        if jitter < DISCERNIBLE_QUEUE || matches!(self.mode, Mode::Startup) {
            return None;
        }
        // A path that has become longer shows in the base first.
        let least = self
            .min_rtt
            .or_initial()
            .max(self.signal.base.unwrap_or_default());
        let round_trip = least + jitter + self.report_delay();
        let held_bytes = self.bandwidth.max().bytes_in(round_trip);
        Some(((held_bytes as f64 * WINDOW_GAIN) as u64).max(INITIAL_BYTES))
    }

    /// Returns the bytes in flight after the excess has drained, at this gain. They are the
    /// bandwidth-delay product, or the bytes that the gain itself keeps in flight where jitter
    /// makes round trips much longer than the least.
    fn drained_bytes(&self, gain: f64) -> u64 {
        if self.noise.jitter.is_zero() {
            return self.bdp_bytes();
        }
        let round_trip = self.min_rtt.or_initial() + self.noise.jitter;
        let kept = self.bandwidth.max().mul_f64(gain).bytes_in(round_trip);
        self.bdp_bytes().max(kept)
    }

    fn gain(&self) -> f64 {
        match &self.mode {
            Mode::Startup => self.profile.startup_gain,
            Mode::Drain => 1.0 / self.profile.startup_gain,
            Mode::ProbeBw(cycle) => cycle.gain(self.has_gains_of_bbr),
            Mode::ProbeRtt(stay) => stay.gain(self.profile),
        }
    }

    fn pacing_rate(&self, gain: f64) -> DataRate {
        let bandwidth = self.bandwidth.max();
        let (rate, is_floored) = if self.is_silent {
            (self.silent_rate(), true)
        } else if bandwidth.is_zero() {
            (self.initial_pacing_rate(), false)
        } else if self.is_first_startup() {
            // A first sample shows the pause after the initial window as much as the path.
            let rate = bandwidth.mul_f64(self.first_startup_gain(gain));
            (rate.max(self.initial_pacing_rate()), false)
        } else {
            let is_cruising = matches!(self.mode, Mode::ProbeBw(_)) && gain == 1.0;
            let climbing_rate = match &self.mode {
                Mode::ProbeBw(cycle) => cycle.climbing_rate(),
                _ => None,
            };
            (
                climbing_rate.unwrap_or_else(|| bandwidth.mul_f64(gain)),
                is_cruising,
            )
        };
        let is_floored = is_floored || self.profile.min_rate_floor == MinRateFloor::Always;
        let floor = if is_floored {
            self.config.min_rate
        } else {
            DataRate::ZERO
        };
        let packet_a_second =
            DataRate::from_bits_per_second(8 * u64::from(self.config.max_packet_bytes).max(1));
        rate.max(floor).max(packet_a_second)
    }

    /// Returns half the bandwidth, for the time until the path answers.
    #[cold]
    fn silent_rate(&self) -> DataRate {
        match self.profile.after_silence {
            AfterSilence::Resume => self.bandwidth.max().mul_f64(0.5),
            // The filter has been halved already.
            AfterSilence::Startup => self.bandwidth.max(),
        }
    }

    fn is_probing(&self, gain: f64) -> bool {
        !self.is_silent && (gain > 1.0 || !self.full_pipe.is_full)
    }
}

impl CongestionController for DelayBbr {
    /// Runs algorithm 1.
    fn on_sent(&mut self, _now: Instant, packet: &SentPacket) {
        self.next_packet_number = packet.packet_number + 1;
        self.bytes_in_flight = packet.bytes_in_flight;
    }

    fn on_source_rate(&mut self, rate: DataRate) {
        self.opening.on_source_rate(rate);
    }

    /// Returns `false`: of an only path the session's state suffices.
    fn looks_at_only_path(&self) -> bool {
        false
    }

    fn on_feedback(
        &mut self,
        now: Instant,
        feedback: &Feedback<'_>,
        session: &SessionView,
        paths: &[PathView],
    ) {
        self.backlog_bytes = path_backlog_bytes(feedback.path, session, paths);
        self.deadline = session.deadline;
        self.quickest_rtt = session.quickest_rtt;
        let Some(newest) = feedback.acked.last() else {
            self.bytes_in_flight = feedback.bytes_in_flight;
            return;
        };
        let delivery = feedback.delivery.as_ref();
        let sample = delivery.filter(|sample| !sample.is_first_flight);
        if let SignalForm::Floor { .. } = self.profile.delay_signal {
            self.noise = Noise::of(feedback.rtt);
        }
        // Only Startup needs it.
        self.is_slowed = matches!(self.mode, Mode::Startup)
            && sample.is_some_and(|sample| self.is_slowed(sample, &newest.sent));
        self.opening.on_report(feedback);
        self.is_app_limited = feedback.is_app_limited;
        if feedback.is_app_limited {
            self.app_limited_round = self.rounds.count;
        }
        if feedback.is_app_limited || reports::is_room_elsewhere(now, feedback.path, paths) {
            self.spare_round = self.rounds.count;
        }
        self.batches.on_report(feedback.acked.len());
        self.bytes_in_flight = feedback.prior_bytes_in_flight;
        let rounds_before = self.rounds.count;
        self.on_trains(feedback, paths);
        let mut lost = feedback.lost.iter().peekable();
        let mut spurious = feedback.spurious.iter().peekable();
        for packet in feedback.acked {
            let number = packet.sent.packet_number;
            while let Some(gone) = lost.next_if(|gone| gone.packet_number < number) {
                self.bytes_in_flight = self.bytes_in_flight.saturating_sub(gone.bytes.into());
            }
            // Packets declared lost have left flight before.
            if spurious
                .next_if(|late| late.sent.packet_number == number)
                .is_none()
            {
                self.bytes_in_flight = self
                    .bytes_in_flight
                    .saturating_sub(packet.sent.bytes.into());
            }
            if number >= self.acked_until {
                self.acked_until = number + 1;
                self.on_acked(now, packet, newest, sample);
            }
        }
        self.bytes_in_flight = feedback.bytes_in_flight;
        self.on_long_probe(newest, sample);
        if let Some(sample) = sample {
            self.maybe_drop_to(sample, newest);
        }
        if self.rounds.count > rounds_before
            && self.profile.answers_overflow
            && let Some(sample) = sample
        {
            self.maybe_answer_overflow(now, newest, sample, feedback.lost_bytes);
        }
    }

    fn on_timeout(&mut self, _now: Instant, cause: Timeout) {
        if matches!(cause, Timeout::FeedbackSilence { .. }) {
            self.on_silence();
        }
    }

    fn control(&self) -> ControlParameters {
        let bandwidth = self.bandwidth.max();
        let gain = self.gain();
        let pacing_rate = self.pacing_rate(gain);
        let is_encoder_slowed =
            self.profile.is_encoder_slowed_in_drain && matches!(self.mode, Mode::Drain);
        let target_rate = if bandwidth.is_zero() {
            self.assumed_bandwidth()
        } else if self.is_first_startup() {
            bandwidth.max(self.opening.rate())
        } else if is_encoder_slowed {
            pacing_rate
        } else {
            bandwidth
        };
        ControlParameters {
            pacing_rate: Some(pacing_rate),
            padding_rate: if self.is_probing(gain) {
                pacing_rate
            } else {
                DataRate::ZERO
            },
            burst_bytes: self.burst_bytes(),
            congestion_window: self.window_bytes(),
            ..ControlParameters::of(target_rate.max(self.config.min_rate))
        }
    }

    fn feedback_schedule(&self) -> FeedbackSchedule {
        match self.profile.reports {
            Reports::EveryPacket => FeedbackSchedule::EVERY_PACKET,
            Reports::Batches => self.batches(),
        }
    }

    fn state(&self) -> &'static str {
        match self.mode {
            Mode::Startup => "Startup",
            Mode::Drain => "Drain",
            Mode::ProbeBw(_) => "ProbeBW",
            Mode::ProbeRtt(_) => "ProbeRTT",
        }
    }
}
