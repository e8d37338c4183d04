//! `scream-v1`: RFC 8298 §4.1.
//!
//! Deviations:
//! 1. Bytes in flight are recovery's: packets declared lost have left flight and count as newly
//!    acknowledged. The RFC goes by the highest acknowledged sequence number.
//! 2. The RTP queue is the path's part of the session's backlog, its delay the time that this takes
//!    at the target rate.
//! 3. The media rate control's correction is relative to the target rate, as in Ericsson's code of
//!    2018; as printed in the RFC, only losses and a long RTP queue lower the rate.
//! 4. MSS is the largest packet. The least window is 3000 bytes or two packets, and the granted
//!    window is no less than the least target rate needs.
//! 5. After an outage it starts again with the least window, in fast increase, at half the rate. A
//!    retransmission timeout counts as a loss.

#[cfg(test)]
mod tests;

use anabranch_core::control::{CongestionController, ControlParameters, ControllerConfig, Timeout};
use anabranch_core::recovery::{Feedback, FeedbackSchedule, SentPacket};
use anabranch_core::{PathView, SessionView};
use anabranch_units::options::AlgorithmOption;
use anabranch_units::{DataRate, Duration, Ecn, Instant};

use super::super::backlog_share::path_backlog_bytes;
use super::super::one_way_delay::BaseDelay;
use super::super::rate_meter::RateMeter;
use super::competing_flows::DelayTarget;
use super::trend::Trend;
use super::{MAX_PACKETS_PER_REPORT, RecentMax, Settled, queue_delays_millis, rate_limits};

/// `QDELAY_TARGET_LO`, `QDELAY_TARGET_HI`, ms.
const TARGET_LOW_MILLIS: f64 = 100.0;
const TARGET_HIGH_MILLIS: f64 = 400.0;
/// `MIN_CWND`.
const MIN_WINDOW: f64 = 3_000.0;
/// `MAX_BYTES_IN_FLIGHT_HEAD_ROOM`, and time in which the most bytes in flight are sought.
const HEAD_ROOM: f64 = 1.1;
const FLIGHT_HISTORY: Duration = Duration::from_secs(5);
/// `GAIN`, `BETA_LOSS`, `BETA_ECN`, `BETA_R`.
const GAIN: f64 = 1.0;
const BETA_LOSS: f64 = 0.8;
const BETA_ECN: f64 = 0.9;
const BETA_RATE: f64 = 0.9;
/// Multiple of the bytes in flight that must exceed the window before it grows.
const FAST_INCREASE_FILL: f64 = 1.5;
const FILL: f64 = 1.25;
/// `QDELAY_TREND_TH`, `QDELAY_TREND_LO`, `T_RESUME_FAST_INCREASE`.
const TREND_THRESHOLD: f64 = 0.2;
const RESUME_FAST_INCREASE: Duration = Duration::from_secs(5);
/// Time between samples of the queuing delay.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(50);
const MAX_SAMPLES_AT_ONCE: u64 = 200;
/// `RATE_ADJUST_INTERVAL`, `RAMP_UP_SPEED` (bit/s per s), `RATE_PACE_MIN` (bit/s).
const RATE_INTERVAL: Duration = Duration::from_millis(200);
const RAMP_UP: f64 = 200_000.0;
const MIN_PACING: f64 = 50_000.0;
/// `PRE_CONGESTION_GUARD`, `TX_QUEUE_SIZE_FACTOR`.
const PRE_CONGESTION_GUARD: f64 = 0.1;
const QUEUE_SIZE_FACTOR: f64 = 1.0;
/// `RTP_QDELAY_TH` (s), `TARGET_RATE_SCALE_RTP_QDELAY`.
const RTP_QUEUE_SECONDS: f64 = 0.02;
const RTP_QUEUE_SCALE: f64 = 0.95;
/// Media rates of 10 s.
const MEDIA_HISTORY: usize = 50;
/// Factor that an outage applies to the target rate.
const OUTAGE_FACTOR: f64 = 0.5;

const COMPETING: AlgorithmOption = AlgorithmOption::words(
    "competing",
    "whether the delay target rises beside loss-based flows (RFC 8298 §4.1.2.1)",
    &["on", "off"],
);
pub(crate) const OPTIONS: &[AlgorithmOption] = &[COMPETING];

pub(crate) fn build(config: &ControllerConfig) -> Box<dyn CongestionController> {
    Box::new(ScreamV1::new(config))
}

#[derive(Debug)]
struct ScreamV1 {
    segment_bytes: f64,
    min_rate: f64,
    max_rate: f64,
    is_ecn_capable: bool,
    has_competing_flows: bool,
    base: BaseDelay,
    queue_millis: f64,
    target: DelayTarget,
    trend: Trend,
    sampled_at: Option<Instant>,
    /// `cwnd`, bytes.
    congestion_window: f64,
    is_in_fast_increase: bool,
    /// Time of the last congestion, by loss, mark or trend.
    congested_at: Option<Instant>,
    reacted_at: Option<Instant>,
    flight: RecentMax,
    smoothed_rtt: Duration,
    /// `target_bitrate`, and its value when congestion was last detected, bit/s.
    target_rate: f64,
    last_max_rate: Option<f64>,
    rate_adjusted_at: Option<Instant>,
    sent: RateMeter,
    acked: RateMeter,
    /// Media rates, bit/s, in a ring.
    media_rates: [f64; MEDIA_HISTORY],
    media_count: usize,
    backlog_bytes: u64,
    previous_backlog_bytes: u64,
    is_silent: bool,
}

impl ScreamV1 {
    fn new(config: &ControllerConfig) -> Self {
        let segment_bytes = f64::from(config.max_packet_bytes.max(1));
        let (min_rate, max_rate) = rate_limits(config, segment_bytes);
        let initial_rate = config.initial_rate.bits_per_second() as f64;
        ScreamV1 {
            segment_bytes,
            min_rate,
            max_rate,
            is_ecn_capable: config.is_ecn_capable,
            has_competing_flows: config.options.word(&COMPETING) == "on",
            base: BaseDelay::default(),
            queue_millis: 0.0,
            target: DelayTarget::new(TARGET_LOW_MILLIS, TARGET_HIGH_MILLIS),
            trend: Trend::default(),
            sampled_at: None,
            congestion_window: MIN_WINDOW.max(2.0 * segment_bytes),
            is_in_fast_increase: true,
            congested_at: None,
            reacted_at: None,
            flight: RecentMax::default(),
            smoothed_rtt: anabranch_core::recovery::RttEstimator::INITIAL,
            target_rate: initial_rate.clamp(min_rate, max_rate),
            last_max_rate: None,
            rate_adjusted_at: None,
            sent: RateMeter::new(RATE_INTERVAL),
            acked: RateMeter::new(RATE_INTERVAL),
            media_rates: [0.0; MEDIA_HISTORY],
            media_count: 0,
            backlog_bytes: 0,
            previous_backlog_bytes: 0,
            is_silent: false,
        }
    }

    fn min_window(&self) -> f64 {
        MIN_WINDOW.max(2.0 * self.segment_bytes)
    }

    /// Takes the samples that became due since the last report.
    fn sample(&mut self, now: Instant) {
        let sampled_at = *self.sampled_at.get_or_insert(now);
        let due = now.saturating_since(sampled_at).as_nanos() / SAMPLE_INTERVAL.as_nanos();
        for _ in 0..due.min(MAX_SAMPLES_AT_ONCE) {
            self.trend.on_sample(self.queue_millis / self.target.millis);
            if self.has_competing_flows {
                self.target.on_sample(self.queue_millis);
            }
        }
        self.sampled_at = Some(sampled_at + SAMPLE_INTERVAL * due);
    }

    /// Handles a loss or a mark, at most once per round-trip time (§4.1.2.2).
    fn on_congestion(&mut self, now: Instant, is_loss: bool) {
        self.congested_at = Some(now);
        if self
            .reacted_at
            .is_some_and(|at| now.saturating_since(at) < self.smoothed_rtt)
        {
            return;
        }
        self.reacted_at = Some(now);
        self.is_in_fast_increase = false;
        let (window, rate) = if is_loss {
            (BETA_LOSS, BETA_RATE)
        } else {
            (BETA_ECN, BETA_ECN)
        };
        self.congestion_window = (self.congestion_window * window).max(self.min_window());
        self.last_max_rate = Some(self.target_rate);
        self.target_rate = (self.target_rate * rate).max(self.min_rate);
        self.rate_adjusted_at = Some(now);
    }

    /// Updates the window without loss and marks (§4.1.2.2).
    fn update_window(&mut self, now: Instant, newly_acked: f64, in_flight: f64) {
        if self.trend.value >= TREND_THRESHOLD {
            self.congested_at = Some(now);
        }
        if self.is_in_fast_increase {
            if self.trend.value >= TREND_THRESHOLD {
                self.is_in_fast_increase = false;
                self.last_max_rate = Some(self.target_rate);
            } else {
                if FAST_INCREASE_FILL * in_flight + newly_acked > self.congestion_window {
                    self.congestion_window += newly_acked;
                }
                return;
            }
        } else if self
            .congested_at
            .is_none_or(|at| now.saturating_since(at) >= RESUME_FAST_INCREASE)
        {
            self.is_in_fast_increase = true;
        }
        let off_target = (self.target.millis - self.queue_millis) / self.target.millis;
        let is_filled = FILL * in_flight + newly_acked > self.congestion_window;
        if off_target < 0.0 || is_filled {
            let change = GAIN * off_target * newly_acked * self.segment_bytes;
            self.congestion_window += change / self.congestion_window;
        }
        let limit = HEAD_ROOM * self.flight.max() as f64;
        self.congestion_window = self.congestion_window.min(limit).max(self.min_window());
    }

    /// Adjusts the media rate every 200 ms (§4.1.3).
    fn adjust_rate(&mut self, now: Instant) {
        let adjusted_at = *self.rate_adjusted_at.get_or_insert(now);
        let elapsed = now.saturating_since(adjusted_at);
        if elapsed < RATE_INTERVAL {
            return;
        }
        self.rate_adjusted_at = Some(now);
        let current = self.current_rate();
        let media = self.take_media_rate(current, elapsed);
        self.ramp(current);
        let median = self.median_media_rate();
        let limit = (2.0 - self.trend.memory) * current.max(media).max(median);
        if limit > 0.0 {
            self.target_rate = self.target_rate.min(limit);
        }
        self.target_rate = self.target_rate.clamp(self.min_rate, self.max_rate);
    }

    /// Returns the larger of the rates sent and acknowledged.
    fn current_rate(&self) -> f64 {
        let sent = self.sent.bits_per_second().unwrap_or(0.0);
        sent.max(self.acked.bits_per_second().unwrap_or(0.0))
    }

    fn ramp(&mut self, current: f64) {
        let step = RAMP_UP.min(self.target_rate / 2.0) * RATE_INTERVAL.as_secs_f64();
        let scale = self.last_max_rate.map_or(1.0, |last_max| {
            let distance = 4.0 * (self.target_rate - last_max) / last_max;
            (distance * distance).clamp(0.2, 1.0)
        });
        if self.is_in_fast_increase {
            self.target_rate += step * scale;
            return;
        }
        let backlog_bits = 8.0 * self.backlog_bytes as f64;
        let guarded = current * (1.0 - PRE_CONGESTION_GUARD * self.trend.value);
        let change = guarded - QUEUE_SIZE_FACTOR * backlog_bits - self.target_rate;
        self.target_rate += if change > 0.0 {
            (change * scale).min(step)
        } else {
            change
        };
        if backlog_bits > RTP_QUEUE_SECONDS * self.target_rate {
            self.target_rate *= RTP_QUEUE_SCALE;
        }
    }

    /// Returns the rate of the media's production: sent bytes, and the growth of the backlog.
    fn take_media_rate(&mut self, current: f64, elapsed: Duration) -> f64 {
        let waiting = self.backlog_bytes as f64 - self.previous_backlog_bytes as f64;
        self.previous_backlog_bytes = self.backlog_bytes;
        let media = (current + 8.0 * waiting / elapsed.as_secs_f64()).max(0.0);
        self.media_rates[self.media_count % MEDIA_HISTORY] = media;
        self.media_count += 1;
        media
    }

    fn median_media_rate(&self) -> f64 {
        let mut sorted = self.media_rates;
        let count = self.media_count.min(MEDIA_HISTORY);
        sorted[..count].sort_unstable_by(f64::total_cmp);
        if count == 0 { 0.0 } else { sorted[count / 2] }
    }

    fn on_outage(&mut self) {
        self.is_silent = true;
        self.congestion_window = self.min_window();
        self.is_in_fast_increase = true;
        self.congested_at = None;
        self.queue_millis = 0.0;
        self.trend = Trend::default();
        self.target_rate = (self.target_rate * OUTAGE_FACTOR).max(self.min_rate);
    }
}

impl CongestionController for ScreamV1 {
    fn on_sent(&mut self, now: Instant, packet: &SentPacket) {
        self.sent.on_bytes(now, packet.bytes.into());
        self.flight
            .advance(now, FLIGHT_HISTORY, packet.bytes_in_flight);
    }

    fn on_feedback(
        &mut self,
        now: Instant,
        feedback: &Feedback<'_>,
        session: &SessionView,
        paths: &[PathView],
    ) {
        self.is_silent &= feedback.acked.is_empty();
        self.backlog_bytes = path_backlog_bytes(feedback.path, session, paths);
        let settled = Settled::by(feedback);
        if feedback.rtt.has_sample() {
            self.smoothed_rtt = feedback.rtt.smoothed();
        }
        if let Some((_, newest_millis)) = queue_delays_millis(&mut self.base, now, feedback) {
            self.queue_millis = newest_millis;
        }
        self.sent.advance(now);
        self.acked.on_bytes(now, settled.acked_bytes);
        self.sample(now);
        let has_lost = settled.lost_bytes > 0;
        self.target.on_report(now, has_lost, self.smoothed_rtt);
        if has_lost || feedback.ce_count > 0 {
            self.on_congestion(now, has_lost);
        } else {
            let newly_acked = (settled.acked_bytes + settled.lost_bytes) as f64;
            self.update_window(now, newly_acked, feedback.bytes_in_flight as f64);
        }
        self.adjust_rate(now);
    }

    fn on_timeout(&mut self, now: Instant, cause: Timeout) {
        match cause {
            Timeout::Retransmission { .. } => self.on_congestion(now, true),
            Timeout::FeedbackSilence { .. } if !self.is_silent => self.on_outage(),
            Timeout::FeedbackSilence { .. } | Timeout::Own => {}
        }
    }

    /// §4.1.2.3: the send window leaves room for a segment more while the queue is below target.
    fn control(&self) -> ControlParameters {
        fn bits(rate: f64) -> DataRate {
            DataRate::from_bits_per_second(rate as u64)
        }

        let is_below_target = self.queue_millis <= self.target.millis;
        let room = if is_below_target {
            self.segment_bytes
        } else {
            0.0
        };
        let rtt_seconds = self.smoothed_rtt.as_secs_f64().max(1e-3);
        let least = self.min_rate / 8.0 * rtt_seconds;
        let pacing_rate = (8.0 * self.congestion_window / rtt_seconds)
            .max(MIN_PACING)
            .max(self.min_rate)
            .max(8.0 * self.segment_bytes);
        ControlParameters {
            congestion_window: Some((self.congestion_window + room).max(least) as u64),
            pacing_rate: Some(bits(pacing_rate)),
            ecn: if self.is_ecn_capable {
                Ecn::Ect0
            } else {
                Ecn::NotEct
            },
            ..ControlParameters::of(bits(self.target_rate))
        }
    }

    /// §4.2.1: 2.5 to 50 reports a second, by the media rate.
    fn feedback_schedule(&self) -> FeedbackSchedule {
        let per_second = (self.target_rate / 10_000.0).clamp(2.5, 50.0);
        let interval = Duration::from_secs_f64(1.0 / per_second);
        FeedbackSchedule {
            every_packets: MAX_PACKETS_PER_REPORT,
            max_delay: interval,
            interval: Some(interval),
            on_hole: None,
            is_immediate_on_ce: false,
            reports_pauses: false,
        }
    }

    fn state(&self) -> &'static str {
        if self.is_in_fast_increase {
            "FastIncrease"
        } else {
            "DelayBased"
        }
    }
}
