//! `arc`: Adaptive Rate Control, Grieco & Mascolo, "Adaptive rate control for Internet video
//! streaming" (2004).
//!
//! A window `w` is turned into a rate by the Smith principle: r = k [w − q − out]⁺ (eq. 1). Here q
//! = B (RTT − mRTT) is the flow's own backlog, and `out` are the packets sent within the last round
//! trip. The window grows by a packet every α while q stays below a threshold (eq. 3), and is
//! constant above it. On a loss or a silence it becomes B (mRTT + 1/k) (eq. 2), the window that
//! leaves no queue.
//!
//! Packets are [`ControllerConfig::max_packet_bytes`] on the wire; all rates count wire bytes.
//!
//! Deviations:
//! 1. The receiver's part runs at the sender, from arrival times, on the schedule of the paper's
//!    receiver.
//! 2. The paper leaves open: τ of the filter (0.5 s, as TCP Westwood), w(0) = 2 packets, a silence
//!    before the first round trip (1 s), the least rate (a packet per smoothed round trip; two a
//!    second before).
//! 3. The rate is computed at every report and timeout, not at every packet. Between two reports
//!    each additional packet in `out` would change it by k packets/s, a share k · SRTT of itself.
//! 4. The window does not grow while the source sends less than 0.8 of the rate.
//! 5. Silence counts only while something is in flight.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use anabranch_core::control::{CongestionController, ControlParameters, ControllerConfig, Timeout};
use anabranch_core::recovery::{Feedback, FeedbackSchedule, HoleReports, SentPacket};
use anabranch_core::{PathView, SessionView};
use anabranch_units::options::AlgorithmOption;
use anabranch_units::{DataRate, Duration, Instant};

use super::rate_use::RateUse;

/// Initial window, and initial rate in packets per second.
const INITIAL_WINDOW: f64 = 2.0;
const INITIAL_RATE: f64 = 2.0;
/// Silence that counts as a timeout before the first round trip; later it is two round trips
/// (§3.1.3).
const INITIAL_TIMEOUT: Duration = Duration::from_secs(1);
/// Time constant of the bandwidth filter, as in TCP Westwood.
const FILTER_TAU: f64 = 0.5;
/// Least span of a bandwidth sample, as a share of the round-trip time. The receiver learns of
/// changes of the round-trip time above an eighth only, so reports may come that much earlier.
const MIN_SAMPLE_SHARE: f64 = 0.85;

const GAIN: AlgorithmOption = AlgorithmOption::number(
    "k",
    "gain of eq. 1, 1/s (Grieco & Mascolo §4)",
    0.5,
    0.01..=10.0,
);
const ALPHA: AlgorithmOption = AlgorithmOption::number(
    "alpha",
    "seconds in which the window grows by a packet, eq. 3",
    0.3,
    0.001..=100.0,
);
const BACKLOG_THRESHOLD: AlgorithmOption = AlgorithmOption::number(
    "qthresh",
    "own backlog at which the window stops growing, packets (§3.1.2)",
    10.0,
    0.0..=10_000.0,
);
const CLAMP_DOWN: AlgorithmOption = AlgorithmOption::words(
    "clamp-down",
    "whether a loss may only lower the window, which eq. 2 alone does not ensure",
    &["off", "on"],
);

pub(super) const OPTIONS: &[AlgorithmOption] = &[GAIN, ALPHA, BACKLOG_THRESHOLD, CLAMP_DOWN];

pub(super) fn build(config: &ControllerConfig) -> Box<dyn CongestionController> {
    Box::new(Arc::new(config))
}

#[derive(Debug)]
struct Arc {
    packet_bytes: f64,
    min_rate: DataRate,
    max_rate: DataRate,
    /// `k`, per second.
    gain: f64,
    /// `α`, in seconds.
    alpha: f64,
    /// `qthresh`, in packets.
    backlog_threshold: f64,
    is_clamped_down: bool,
    /// `w`, in packets.
    window: f64,
    /// Time of the last update of the window.
    window_at: Instant,
    used_bandwidth: UsedBandwidth,
    smoothed_rtt: Option<Duration>,
    min_rtt: Duration,
    latest_rtt: Duration,
    bytes_in_flight: u64,
    /// Times and bytes of the packets sent within the last smoothed round trip.
    sent: VecDeque<(Instant, u32)>,
    sent_bytes: u64,
    rate_use: RateUse,
    /// Time of the last report, or of the notice of its absence.
    heard_at: Option<Instant>,
    /// `r`, in packets per second, above every floor.
    rate: f64,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Start,
    Increase,
    Constant,
    Loss,
    Timeout,
}

/// Receiver's estimate of the bandwidth that the flow uses (§3.2), in packets per second.
#[derive(Debug, Default)]
struct UsedBandwidth {
    /// `B`.
    filtered: f64,
    /// `b` of the last sample.
    sample: f64,
    /// Time of the last sample, by the receiver's clock.
    sampled_at: Option<Instant>,
    received_bytes: u64,
}

impl UsedBandwidth {
    fn on_received(&mut self, bytes: u32) {
        self.received_bytes += u64::from(bytes);
    }

    /// Samples `b = D/T` once per round trip.
    fn on_report(&mut self, reported_at: Instant, rtt: Duration, packet_bytes: f64) {
        let Some(sampled_at) = self.sampled_at else {
            self.sampled_at = Some(reported_at);
            self.received_bytes = 0;
            return;
        };
        let span = reported_at.saturating_since(sampled_at);
        if span.is_zero() || span < rtt.mul_f64(MIN_SAMPLE_SHARE) {
            return;
        }
        self.sampled_at = Some(reported_at);
        let received = core::mem::take(&mut self.received_bytes) as f64 / packet_bytes;
        self.filter(received / span.as_secs_f64(), span.as_secs_f64());
    }

    /// Applies a first-order low-pass filter by the bilinear transformation. Steps above 2 τ would
    /// overshoot, so longer ones are divided.
    fn filter(&mut self, sample: f64, span: f64) {
        const MAX_STEPS: f64 = 32.0;
        let steps = (span / FILTER_TAU).ceil().clamp(1.0, MAX_STEPS);
        let step = (span / steps).min(2.0 * FILTER_TAU);
        for _ in 0..steps as u32 {
            self.filtered = ((2.0 * FILTER_TAU - step) * self.filtered
                + step * (sample + self.sample))
                / (2.0 * FILTER_TAU + step);
            self.sample = sample;
        }
    }
}

impl Arc {
    fn new(config: &ControllerConfig) -> Self {
        let options = &config.options;
        let packet_bytes = f64::from(config.max_packet_bytes.max(1));
        let mut arc = Arc {
            packet_bytes,
            min_rate: config.min_rate,
            max_rate: config.max_rate,
            gain: options.number(&GAIN),
            alpha: options.number(&ALPHA),
            backlog_threshold: options.number(&BACKLOG_THRESHOLD),
            is_clamped_down: options.word(&CLAMP_DOWN) == "on",
            window: INITIAL_WINDOW,
            window_at: Instant::ZERO,
            used_bandwidth: UsedBandwidth::default(),
            smoothed_rtt: None,
            min_rtt: Duration::ZERO,
            latest_rtt: Duration::ZERO,
            bytes_in_flight: 0,
            sent: VecDeque::new(),
            sent_bytes: 0,
            rate_use: RateUse::new(packet_bytes),
            heard_at: None,
            rate: INITIAL_RATE,
            state: State::Start,
        };
        arc.update_rate(Instant::ZERO);
        arc
    }

    /// Returns `q = B (RTT − mRTT)` (§3.1.1), in packets.
    fn backlog(&self) -> f64 {
        let queuing = self.latest_rtt.saturating_sub(self.min_rtt);
        self.used_bandwidth.filtered * queuing.as_secs_f64()
    }

    /// Returns `out`, in packets.
    fn outstanding(&self) -> f64 {
        self.sent_bytes as f64 / self.packet_bytes
    }

    /// Returns the window of eq. 2.
    fn depleting_window(&self) -> f64 {
        self.used_bandwidth.filtered * (self.min_rtt.as_secs_f64() + 1.0 / self.gain)
    }

    fn on_congestion(&mut self, now: Instant, state: State) {
        let window = self.depleting_window();
        self.window = if self.is_clamped_down {
            window.min(self.window)
        } else {
            window
        };
        self.window_at = now;
        self.state = state;
    }

    /// Grows the window by eq. 3.
    fn grow(&mut self, now: Instant, is_rate_limited: bool) {
        self.state = State::Constant;
        if self.backlog() < self.backlog_threshold {
            self.state = State::Increase;
            if is_rate_limited {
                self.window += now.saturating_since(self.window_at).as_secs_f64() / self.alpha;
            }
        }
        self.window_at = now;
    }

    /// Sets the rate by eq. 1, kept above the floors.
    fn update_rate(&mut self, now: Instant) {
        let span = self.smoothed_rtt.unwrap_or(INITIAL_TIMEOUT);
        while let Some(&(sent_at, bytes)) = self.sent.front()
            && sent_at + span <= now
        {
            self.sent_bytes -= u64::from(bytes);
            self.sent.pop_front();
        }
        let rate = self.gain * (self.window - self.backlog() - self.outstanding()).max(0.0);
        let per_packet = 8.0 * self.packet_bytes;
        let floor = self
            .smoothed_rtt
            .map_or(INITIAL_RATE, |rtt| {
                (1.0 / rtt.as_secs_f64().max(0.001)).max(1.0)
            })
            .max(self.min_rate.bits_per_second() as f64 / per_packet);
        let ceiling = self.max_rate.bits_per_second() as f64 / per_packet;
        self.rate = rate.min(ceiling).max(floor);
        self.rate_use.on_rate(now, self.rate * self.packet_bytes);
    }

    fn timeout(&self) -> Duration {
        self.smoothed_rtt.map_or(INITIAL_TIMEOUT, |rtt| {
            (rtt * 2).max(Duration::from_millis(1))
        })
    }
}

impl CongestionController for Arc {
    fn on_sent(&mut self, now: Instant, packet: &SentPacket) {
        self.heard_at.get_or_insert(now);
        self.bytes_in_flight = packet.bytes_in_flight;
        self.sent.push_back((now, packet.bytes));
        self.sent_bytes += u64::from(packet.bytes);
        self.rate_use.on_sent(now, packet.bytes);
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
        if !feedback.acked.is_empty() {
            self.heard_at = Some(now);
            for acked in feedback.acked {
                self.used_bandwidth.on_received(acked.sent.bytes);
            }
            if let Some(latest) = feedback.rtt.latest() {
                self.latest_rtt = latest;
                self.min_rtt = feedback.rtt.min_rtt().unwrap_or(latest);
                let smoothed_rtt = feedback.rtt.smoothed();
                if self.smoothed_rtt.is_none() {
                    self.window_at = now;
                }
                self.smoothed_rtt = Some(smoothed_rtt);
                let (reported_at, bytes) = (feedback.reported_at, self.packet_bytes);
                self.used_bandwidth
                    .on_report(reported_at, smoothed_rtt, bytes);
            }
        }
        let is_rate_limited = self.rate_use.take(now);
        if feedback.lost.is_empty() {
            self.grow(now, is_rate_limited);
        } else {
            self.on_congestion(now, State::Loss);
        }
        self.update_rate(now);
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.heard_at.map(|heard_at| heard_at + self.timeout())
    }

    fn on_timeout(&mut self, now: Instant, cause: Timeout) {
        match cause {
            Timeout::Own if self.next_timeout().is_some_and(|at| at <= now) => {
                self.heard_at = Some(now);
                if self.bytes_in_flight > 0 {
                    self.on_congestion(now, State::Timeout);
                }
                self.window_at = now;
            }
            Timeout::FeedbackSilence { .. } => {
                self.bytes_in_flight = 0;
                self.on_congestion(now, State::Timeout);
            }
            // The paper has its own timer of silence.
            Timeout::Own | Timeout::Retransmission { .. } => {}
        }
        self.update_rate(now);
    }

    fn control(&self) -> ControlParameters {
        let bits = (self.rate * self.packet_bytes * 8.0).ceil();
        let rate = DataRate::from_bits_per_second(bits as u64);
        ControlParameters {
            pacing_rate: Some(rate),
            ..ControlParameters::of(rate)
        }
    }

    /// Requests a report every smoothed round trip and at once on a hole; of every packet during
    /// the first round trip (§3.2).
    fn feedback_schedule(&self) -> FeedbackSchedule {
        let Some(smoothed_rtt) = self.smoothed_rtt else {
            return FeedbackSchedule::EVERY_PACKET;
        };
        FeedbackSchedule {
            every_packets: u32::MAX,
            max_delay: smoothed_rtt,
            interval: Some(smoothed_rtt),
            on_hole: Some(HoleReports::AT_ONCE),
            is_immediate_on_ce: false,
            reports_pauses: false,
        }
    }

    fn state(&self) -> &'static str {
        match self.state {
            State::Start => "Start",
            State::Increase => "Increase",
            State::Constant => "Constant",
            State::Loss => "Loss",
            State::Timeout => "Timeout",
        }
    }
}
