//! `copa`: Arun & Balakrishnan, "Copa: Practical delay-based congestion control for the Internet"
//! (NSDI 2018).
//!
//! The target rate is 1/(δ d_q) packets per second, with the queuing delay d_q. The window moves
//! towards it by v/(δ cwnd) packets per packet acknowledged, ever faster (velocity v) while the
//! direction stays the same. Packets are spaced at twice the window per round trip. If the queue
//! never empties, other flows fill it: then AIMD drives 1/δ itself (competitive mode).
//!
//! Windows are in packets of [`ControllerConfig::max_packet_bytes`] on the wire.
//!
//! Deviations:
//! 1. A report of several packets is handled packet by packet, all with its round-trip times.
//! 2. The velocity is at most the window, as in the authors' genericCC.
//! 3. The window does not grow while the source is the limit and uses less than half of it (RFC
//!    7661 §4.4); it may shrink.
//! 4. Media stays in default mode unless `mode-switching=on`. A video that uses its rate in
//!    pictures seldom empties its own queue within five round trips: alone at video rates it would
//!    turn competitive against itself.
//! 5. A retransmission timeout or a path gone silent leaves two packets and slow start.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use anabranch_core::control::{CongestionController, ControlParameters, ControllerConfig, Timeout};
use anabranch_core::recovery::{Feedback, FeedbackSchedule, SentPacket};
use anabranch_core::{PathView, SessionView};
use anabranch_units::options::AlgorithmOption;
use anabranch_units::{DataRate, Duration, Instant};

use super::window::PeakFlight;

/// Window of RTTmin, a minimum (§2.1).
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
/// Window of RTTmax, a maximum, in round trips (§2.2). RTTmax serves to detect competing flows that
/// fill buffers.
const MAX_RTT_ROUND_TRIPS: u64 = 4;
/// The queue counts as nearly empty below this share of RTTmax − RTTmin (§2.2).
const EMPTY_QUEUE_SHARE: f64 = 0.1;
/// Round trips within which the queue must be nearly empty once (§2.2).
const EMPTY_QUEUE_ROUND_TRIPS: u64 = 5;
/// Round trips in one direction before the velocity doubles (§2.1).
const VELOCITY_ROUND_TRIPS: u32 = 3;
const MIN_WINDOW: f64 = 2.0;
/// Pacing rate in windows per round trip (§2.1).
const PACING_FACTOR: f64 = 2.0;

const DELTA: AlgorithmOption = AlgorithmOption::number(
    "delta",
    "δ of default mode: 1/δ is the target of its own queued packets (paper: 0.5)",
    0.5,
    0.01..=10.0,
);
const MODE_SWITCHING: AlgorithmOption = AlgorithmOption::words(
    "mode-switching",
    "whether it turns competitive beside full queues (§2.2); auto: in streams alone",
    &["auto", "on", "off"],
);

pub(super) const OPTIONS: &[AlgorithmOption] = &[DELTA, MODE_SWITCHING];

pub(super) fn build(config: &ControllerConfig) -> Box<dyn CongestionController> {
    Box::new(Copa::new(config))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Default,
    Competitive,
}

/// Extreme of the newest samples. It holds the samples that no newer one exceeds, oldest first.
#[derive(Debug, Default)]
struct Window(VecDeque<(Instant, Duration)>);

impl Window {
    fn add(&mut self, now: Instant, sample: Duration, outdoes: fn(&Duration, &Duration) -> bool) {
        while let Some((_, last)) = self.0.back()
            && !outdoes(last, &sample)
        {
            self.0.pop_back();
        }
        self.0.push_back((now, sample));
    }

    /// Returns the extreme of the last `span`.
    fn extreme(&mut self, now: Instant, span: Duration) -> Duration {
        while self.0.len() > 1
            && let Some(&(at, _)) = self.0.front()
            && at + span < now
        {
            self.0.pop_front();
        }
        self.0.front().map_or(Duration::ZERO, |(_, rtt)| *rtt)
    }
}

#[derive(Debug)]
struct Copa {
    packet_bytes: f64,
    min_rate: DataRate,
    max_rate: DataRate,
    initial_rate: DataRate,
    default_delta: f64,
    switches_modes: bool,
    /// In packets.
    window: f64,
    delta: f64,
    /// `v`.
    velocity: f64,
    direction: Option<Direction>,
    same_direction_count: u32,
    is_in_slow_start: bool,
    mode: Mode,
    min_rtts: Window,
    standing_rtts: Window,
    max_rtts: Window,
    /// RTTstanding and RTTmin.
    standing_rtt: Option<Duration>,
    min_rtt: Duration,
    next_packet_number: u64,
    /// First packet of the round trip, the window then, and whether a packet was lost since.
    round_began_with: u64,
    round_window: f64,
    had_loss_in_round: bool,
    was_limited_in_round: bool,
    flight: PeakFlight,
    round_count: u64,
    /// Round trip in which the queue was last nearly empty.
    empty_in_round: u64,
    /// Losses of packets before this one have been answered.
    loss_answered_until: u64,
}

impl Copa {
    fn new(config: &ControllerConfig) -> Self {
        let delta = config.options.number(&DELTA);
        let window = f64::from(config.initial_window_packets.max(1)).max(MIN_WINDOW);
        Copa {
            packet_bytes: f64::from(config.max_packet_bytes.max(1)),
            min_rate: config.min_rate,
            max_rate: config.max_rate,
            initial_rate: config.initial_rate,
            default_delta: delta,
            switches_modes: match config.options.word(&MODE_SWITCHING) {
                "auto" => !config.is_media,
                word => word == "on",
            },
            window,
            delta,
            velocity: 1.0,
            direction: None,
            same_direction_count: 0,
            is_in_slow_start: true,
            mode: Mode::Default,
            min_rtts: Window::default(),
            standing_rtts: Window::default(),
            max_rtts: Window::default(),
            standing_rtt: None,
            min_rtt: Duration::ZERO,
            next_packet_number: 0,
            round_began_with: 0,
            round_window: window,
            had_loss_in_round: false,
            was_limited_in_round: false,
            flight: PeakFlight::default(),
            round_count: 0,
            empty_in_round: 0,
            loss_answered_until: 0,
        }
    }

    fn on_rtt_sample(&mut self, now: Instant, rtt: Duration, smoothed_rtt: Duration) {
        self.min_rtts.add(now, rtt, |a, b| a < b);
        self.standing_rtts.add(now, rtt, |a, b| a < b);
        self.max_rtts.add(now, rtt, |a, b| a > b);
        self.min_rtt = self.min_rtts.extreme(now, MIN_RTT_WINDOW);
        let standing_rtt = self.standing_rtts.extreme(now, smoothed_rtt / 2);
        self.standing_rtt = Some(standing_rtt.max(Duration::from_micros(1)));
        let span = smoothed_rtt * MAX_RTT_ROUND_TRIPS;
        let max_rtt = self.max_rtts.extreme(now, span);
        let swing = max_rtt.saturating_sub(self.min_rtt).as_secs_f64();
        if self.queuing_delay() <= EMPTY_QUEUE_SHARE * swing {
            self.empty_in_round = self.round_count;
        }
    }

    /// Returns `d_q`, in seconds.
    fn queuing_delay(&self) -> f64 {
        let standing_rtt = self.standing_rtt.unwrap_or(self.min_rtt);
        standing_rtt.saturating_sub(self.min_rtt).as_secs_f64()
    }

    /// Whether λ ≤ λ_t: cwnd/RTTstanding ≤ 1/(δ d_q).
    fn is_below_target(&self) -> bool {
        self.standing_rtt.is_some_and(|standing_rtt| {
            self.window * self.delta * self.queuing_delay() <= standing_rtt.as_secs_f64()
        })
    }

    fn on_acked(&mut self, is_limited: bool) {
        let is_below = self.is_below_target();
        if self.is_in_slow_start {
            if is_below {
                // A packet for a packet doubles the window in a round trip.
                self.window += if is_limited { 1.0 } else { 0.0 };
                return;
            }
            self.is_in_slow_start = false;
        }
        let direction = if is_below {
            Direction::Up
        } else {
            Direction::Down
        };
        if self.velocity > 1.0 && self.direction != Some(direction) {
            self.turn(direction);
        }
        let step = self.velocity / (self.delta * self.window);
        match direction {
            Direction::Up if is_limited => self.window += step,
            Direction::Up => {}
            Direction::Down => self.window = (self.window - step).max(MIN_WINDOW),
        }
    }

    fn turn(&mut self, direction: Direction) {
        self.direction = Some(direction);
        self.velocity = 1.0;
        self.same_direction_count = 0;
        self.round_window = self.window;
    }

    /// Handles the acknowledgement of a packet that was sent after the last round trip began.
    fn on_round(&mut self) {
        self.update_velocity();
        self.update_mode();
        self.round_count += 1;
        self.round_began_with = self.next_packet_number;
        self.round_window = self.window;
        self.had_loss_in_round = false;
        self.was_limited_in_round = false;
    }

    fn update_velocity(&mut self) {
        if self.is_in_slow_start {
            return;
        }
        let direction = if self.window > self.round_window {
            Direction::Up
        } else {
            Direction::Down
        };
        if self.direction != Some(direction) {
            self.turn(direction);
            return;
        }
        self.same_direction_count += 1;
        if self.same_direction_count >= VELOCITY_ROUND_TRIPS && self.was_limited_in_round {
            self.velocity = (2.0 * self.velocity).min(self.window);
        }
    }

    /// Updates the mode (§2.2).
    fn update_mode(&mut self) {
        if !self.switches_modes {
            return;
        }
        if self.round_count.saturating_sub(self.empty_in_round) < EMPTY_QUEUE_ROUND_TRIPS {
            self.mode = Mode::Default;
            self.delta = self.default_delta;
        } else {
            self.mode = Mode::Competitive;
            if !self.had_loss_in_round && !self.is_in_slow_start {
                self.delta = 1.0 / (1.0 / self.delta + 1.0);
            }
        }
    }

    /// Handles the loss of this packet: competitive mode halves 1/δ once per round trip.
    fn on_lost(&mut self, packet_number: u64) {
        self.had_loss_in_round = true;
        if packet_number < self.loss_answered_until {
            return;
        }
        self.loss_answered_until = self.next_packet_number;
        if self.mode == Mode::Competitive {
            self.delta = (2.0 * self.delta).min(self.default_delta);
        }
    }

    fn restart(&mut self) {
        self.window = MIN_WINDOW;
        self.velocity = 1.0;
        self.direction = None;
        self.same_direction_count = 0;
        self.is_in_slow_start = true;
        self.round_began_with = self.next_packet_number;
        self.round_window = self.window;
        self.mode = Mode::Default;
        self.delta = self.default_delta;
        self.empty_in_round = self.round_count;
    }
}

impl CongestionController for Copa {
    fn on_sent(&mut self, _now: Instant, packet: &SentPacket) {
        self.next_packet_number = packet.packet_number + 1;
        self.flight.on_sent(packet);
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
        let smoothed_rtt = feedback.rtt.smoothed();
        for rtt in feedback.acked.iter().filter_map(|acked| acked.rtt) {
            self.on_rtt_sample(now, rtt, smoothed_rtt);
        }
        for lost in feedback.lost {
            self.on_lost(lost.packet_number);
        }
        self.flight.on_feedback(feedback, self.next_packet_number);
        let is_limited = feedback.is_window_limited
            || !feedback.is_app_limited
            || self
                .flight
                .is_over_half_of((self.window * self.packet_bytes) as u64);
        self.was_limited_in_round |= is_limited;
        for acked in feedback.acked {
            self.on_acked(is_limited);
            if acked.sent.packet_number >= self.round_began_with {
                self.on_round();
            }
        }
    }

    fn on_timeout(&mut self, _now: Instant, cause: Timeout) {
        if cause != Timeout::Own {
            self.restart();
        }
    }

    fn control(&self) -> ControlParameters {
        let window_bytes = self.window * self.packet_bytes;
        let Some(standing_rtt) = self.standing_rtt else {
            let rate = self.initial_rate.max(self.min_rate);
            return ControlParameters {
                congestion_window: Some(window_bytes as u64),
                ..ControlParameters::of(rate)
            };
        };
        let rate = DataRate::from_bytes_per(window_bytes as u64, standing_rtt);
        let floor = self
            .min_rate
            .max(DataRate::from_bits_per_second(8 * self.packet_bytes as u64));
        let least_window = floor.bytes_in(standing_rtt) as f64;
        ControlParameters {
            congestion_window: Some(window_bytes.max(least_window) as u64),
            pacing_rate: Some(rate.mul_f64(PACING_FACTOR).max(floor)),
            ..ControlParameters::of(rate.min(self.max_rate).max(self.min_rate))
        }
    }

    /// Requests reports as from receivers of TCP without delayed acknowledgements.
    fn feedback_schedule(&self) -> FeedbackSchedule {
        FeedbackSchedule::EVERY_PACKET
    }

    fn state(&self) -> &'static str {
        match (self.is_in_slow_start, self.mode) {
            (true, _) => "SlowStart",
            (false, Mode::Default) => "Default",
            (false, Mode::Competitive) => "Competitive",
        }
    }
}
