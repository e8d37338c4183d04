//! `scream`: SCReAM v2, draft-johansson-ccwg-rfc8298bis-screamv2-07 (2026-03-02), with constants of
//! WebRTC's implementation of 2025 if they differ and comments name it.
//!
//! Deviations:
//! 1. A loss is answered once a round-trip time, for packets that left after the last answer; the
//!    draft goes by min(RTT, virtual RTT) for losses as for marks.
//! 2. Bytes in flight have the draft's head room of 1.5 (WebRTC 1.1). The target rate is not
//!    divided by 1.2, as in the draft: the encoder gets all of it, except for headers.
//! 3. Growth slows down by the average least queuing delay (WebRTC), not by the draft's
//!    `qdelay_dev_norm`; the delay target is fixed, as in WebRTC.
//! 4. ECN is always that of L4S: ECT(1).
//! 5. The send queue corrects the target rate by its delay, as the draft's `rate_adjust_factor`.
//!    The queue is the path's part of the session's backlog, the least of 100 ms instead of the
//!    queue that each new frame finds. Frame sizes are unknown to a controller.
//! 6. MSS is the largest packet, the least reference window two of them. The send window is never
//!    less than the least target rate needs; otherwise an encoder at its least rate would queue
//!    forever.
//! 7. An outage or a retransmission timeout counts as one loss.
//! 8. Pacing is the draft's 1.5 target rates (`PACKET_PACING_HEADROOM`), not WebRTC's 1.1. The
//!    authors' code (EricssonResearch/scream, 2026) goes up to 2.25 for frames above the average
//!    size, which a controller does not know. Beside 1.1 the frames' 95th percentile falls by 14 %
//!    over RFC 8867's cases, by 16 % over RFC 8869's, and by 25 % with jitter of 10 ms. 2.25 and
//!    2.5 reduce it further, but the bursts of key frames then count as a queue: at 8 Mbit/s
//!    without jitter 44 % of the goodput is lost, with 1.5 7 %. A source that always has data
//!    sends at the pacing rate: two of them share a queue of 50 ms with Jain's index of 0.75.

#[cfg(test)]
mod tests;

use anabranch_core::control::{CongestionController, ControlParameters, ControllerConfig, Timeout};
use anabranch_core::recovery::{Feedback, FeedbackSchedule, SentPacket};
use anabranch_core::{PathView, SessionView};
use anabranch_units::options::AlgorithmOption;
use anabranch_units::{DataRate, Duration, Ecn, Instant};

use super::super::backlog_share::path_backlog_bytes;
use super::super::one_way_delay::BaseDelay;
use super::{RecentMax, Settled, queue_delays_millis, rate_limits};

/// `QDELAY_TARGET_LO`, ms.
const DELAY_TARGET_MILLIS: f64 = 60.0;
/// `QDELAY_AVG_G`.
const DELAY_WEIGHT: f64 = 0.25;
/// `VIRTUAL_RTT`.
const VIRTUAL_RTT: Duration = Duration::from_millis(25);
/// `L4S_AVG_G_UP`, `L4S_AVG_G_DOWN`, and between updates of `l4s_alpha`.
const ALPHA_UP: f64 = 1.0 / 8.0;
const ALPHA_DOWN: f64 = 1.0 / 128.0;
const ALPHA_INTERVAL: Duration = Duration::from_millis(10);
/// Value of `l4s_alpha` at the first mark after a long time (WebRTC).
const ALPHA_AFTER_LONG: f64 = 0.25;
/// `BETA_LOSS`.
const BETA_LOSS: f64 = 0.7;
/// `POST_CONGESTION_DELAY_RTT`.
const POST_CONGESTION_RTTS: u64 = 100;
/// `MUL_INCREASE_FACTOR`.
const MULTIPLICATIVE_INCREASE: f64 = 0.02;
/// Steepness of growth away from the inflection point, and least value (WebRTC 2, draft 8).
const INFLECTION_SCALE: f64 = 2.0;
const MIN_INFLECTION: f64 = 0.1;
const MIN_INFLECTION_STEP: f64 = 0.25;
/// Average least queuing delay at which growth is a tenth, ms, and its weight (WebRTC).
const LEAST_DELAY_MILLIS: f64 = 10.0;
const LEAST_DELAY_WEIGHT: f64 = 1.0 / 32.0;
/// `BYTES_IN_FLIGHT_HEAD_ROOM`.
const HEAD_ROOM: f64 = 1.5;
/// `REF_WND_OVERHEAD_MIN`, `REF_WND_OVERHEAD_MAX`.
const MIN_OVERHEAD: f64 = 1.5;
const MAX_OVERHEAD: f64 = 3.0;
/// Weight of a report in the feedback hold time (WebRTC).
const HOLD_WEIGHT: f64 = 1.0 / 8.0;
/// A queue that stays above `DRAINED_MILLIS` for `DRAIN_AFTER` is drained for `DRAIN_RTTS`. If that
/// does not help, the base delay is forgotten (WebRTC).
const DRAINED_MILLIS: f64 = 5.0;
const DRAIN_AFTER: Duration = Duration::from_secs(20);
const DRAIN_RTTS: u64 = 5;
const MIN_DRAIN: Duration = Duration::from_millis(100);
const DRAIN_FACTOR: f64 = 0.5;
/// `RATE_ADJUST_GAIN`, its bound, and the frame period (s).
const RATE_ADJUST_GAIN: f64 = 1.0 / 16.0;
const MAX_RATE_ADJUST: f64 = 0.5;
const FRAME_SECONDS: f64 = 0.02;
/// Window of the least send queue, which a new frame finds. More is a frame that is being sent.
const QUEUE_SPAN: Duration = Duration::from_millis(100);

const PACING: AlgorithmOption = AlgorithmOption::number(
    "pacing",
    "pacing rate by the target rate (draft 1.5, WebRTC 1.1)",
    1.5,
    1.0..=4.0,
);
pub(crate) const OPTIONS: &[AlgorithmOption] = &[PACING];

pub(crate) fn build(config: &ControllerConfig) -> Box<dyn CongestionController> {
    Box::new(ScreamV2::new(config))
}

/// `l4s_alpha`: the share of packets that are marked, rising fast and falling slowly.
#[derive(Clone, Copy, Debug, Default)]
struct MarkedShare {
    alpha: f64,
    acked_count: u64,
    ce_count: u64,
    updated_at: Option<Instant>,
}

impl MarkedShare {
    fn on_report(&mut self, now: Instant, acked_count: u64, ce_count: u64, rtt: Duration) {
        self.acked_count += acked_count;
        self.ce_count += ce_count;
        let updated_at = *self.updated_at.get_or_insert(now);
        if now.saturating_since(updated_at) < ALPHA_INTERVAL.min(rtt) || self.acked_count == 0 {
            return;
        }
        let share = (self.ce_count as f64 / self.acked_count as f64).min(1.0);
        self.alpha = if share >= self.alpha {
            self.alpha + ALPHA_UP * (share - self.alpha)
        } else {
            self.alpha * (1.0 - ALPHA_DOWN)
        };
        (self.acked_count, self.ce_count) = (0, 0);
        self.updated_at = Some(now);
    }
}

/// Queuing delay for the window, ms.
#[derive(Clone, Copy, Debug, Default)]
struct DelaySignal {
    /// `qdelay_avg`: slow to rise, fast to fall.
    average: f64,
    /// The average of the least delays.
    least_average: f64,
    /// The last report's.
    last: f64,
    updated_at: Option<Instant>,
    /// Time since which the queue has not been drained.
    standing_since: Option<Instant>,
}

impl DelaySignal {
    fn on_report(&mut self, now: Instant, least_millis: f64, rtt: Duration) {
        if least_millis <= DRAINED_MILLIS {
            self.standing_since = None;
        } else {
            self.standing_since.get_or_insert(now);
        }
        // A single late report is no evidence.
        let sample = least_millis.min(self.last);
        self.last = least_millis;
        let updated_at = *self.updated_at.get_or_insert(now);
        if sample < self.average {
            self.average = sample;
        } else if now.saturating_since(updated_at) >= VIRTUAL_RTT.min(rtt) {
            self.average += DELAY_WEIGHT * (sample - self.average);
        } else {
            return;
        }
        let least = least_millis.min(2.0 * LEAST_DELAY_MILLIS);
        self.least_average += LEAST_DELAY_WEIGHT * (least - self.least_average);
        self.updated_at = Some(now);
    }

    /// `l4s_alpha_v`: 0 at half the target, 1 at the target.
    fn virtual_alpha(&self) -> f64 {
        let half = DELAY_TARGET_MILLIS / 2.0;
        ((self.average - half) / half).clamp(0.0, 1.0)
    }

    /// Returns the factor of the window's growth: 0.1 at a least delay of 10 ms, 1 at 2.5 ms.
    fn freedom(&self) -> f64 {
        let distance = (LEAST_DELAY_MILLIS - self.least_average) / LEAST_DELAY_MILLIS;
        (0.1 + 1.2 * distance).clamp(0.0, 1.0)
    }
}

/// Congestion that a report shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Congestion {
    is_loss: bool,
    is_ce: bool,
    is_virtual_ce: bool,
}

#[derive(Debug)]
struct ScreamV2 {
    segment_bytes: f64,
    min_rate: f64,
    max_rate: f64,
    pacing_factor: f64,
    is_ecn_capable: bool,
    base: BaseDelay,
    delay: DelaySignal,
    marked: MarkedShare,
    /// `ref_wnd`, bytes.
    reference_window: f64,
    /// `ref_wnd_i`: window at which it last began to fall.
    inflection_window: Option<f64>,
    has_grown: bool,
    has_first_feedback: bool,
    /// `last_reaction_to_congestion_time`.
    reacted_at: Option<Instant>,
    next_packet_number: u64,
    /// First packet whose loss counts; earlier losses have been answered.
    losses_count_from: u64,
    /// `max_bytes_in_flight`.
    flight: RecentMax,
    smoothed_rtt: Duration,
    hold_seconds: f64,
    /// `target_bitrate`, bit/s.
    target_rate: f64,
    /// `rate_adjust_factor`, the time of its adjustment, and the least send queue since.
    rate_adjust: f64,
    rate_adjusted_at: Option<Instant>,
    least_backlog_bytes: u64,
    drains_since: Option<Instant>,
    is_silent: bool,
}

impl ScreamV2 {
    fn new(config: &ControllerConfig) -> Self {
        let segment_bytes = f64::from(config.max_packet_bytes.max(1));
        let (min_rate, max_rate) = rate_limits(config, segment_bytes);
        let initial_rate = config.initial_rate.bits_per_second() as f64;
        ScreamV2 {
            segment_bytes,
            min_rate,
            max_rate,
            pacing_factor: config.options.number(&PACING),
            is_ecn_capable: config.is_ecn_capable,
            base: BaseDelay::default(),
            delay: DelaySignal::default(),
            marked: MarkedShare::default(),
            reference_window: 2.0 * segment_bytes,
            inflection_window: None,
            has_grown: false,
            has_first_feedback: false,
            reacted_at: None,
            next_packet_number: 0,
            losses_count_from: 0,
            flight: RecentMax::default(),
            smoothed_rtt: anabranch_core::recovery::RttEstimator::INITIAL,
            hold_seconds: 0.0,
            target_rate: initial_rate.clamp(min_rate, max_rate),
            rate_adjust: 0.0,
            rate_adjusted_at: None,
            least_backlog_bytes: u64::MAX,
            drains_since: None,
            is_silent: false,
        }
    }

    fn min_window(&self) -> f64 {
        2.0 * self.segment_bytes
    }

    /// `ref_wnd_ratio`.
    fn segment_share(&self) -> f64 {
        self.segment_bytes / self.reference_window
    }

    fn virtual_rtts(&self) -> f64 {
        self.smoothed_rtt.as_secs_f64() / VIRTUAL_RTT.as_secs_f64()
    }

    /// `scl_t`: small near the window that last was too much.
    fn inflection_scale(&self) -> f64 {
        self.inflection_window.map_or(1.0, |inflection| {
            let distance = INFLECTION_SCALE * (self.reference_window - inflection) / inflection;
            (distance * distance).clamp(MIN_INFLECTION, 1.0)
        })
    }

    /// Round-trip times since the last reaction, of at least 25 ms each, by a hundred.
    fn post_congestion_scale(&self, now: Instant) -> f64 {
        let span = self.smoothed_rtt.max(VIRTUAL_RTT) * POST_CONGESTION_RTTS;
        self.reacted_at.map_or(1.0, |at| {
            (now.saturating_since(at).as_secs_f64() / span.as_secs_f64()).min(1.0)
        })
    }

    fn may_react(&self, now: Instant) -> bool {
        let interval = self.smoothed_rtt.min(VIRTUAL_RTT);
        self.reacted_at
            .is_none_or(|at| now.saturating_since(at) >= interval)
    }

    /// Reference window reduction.
    fn reduce(&mut self, now: Instant, congestion: Congestion) {
        let is_after_long = self.post_congestion_scale(now) >= 1.0;
        self.reacted_at = Some(now);
        let previous = self.reference_window;
        if congestion.is_loss {
            self.losses_count_from = self.next_packet_number;
            self.reference_window *= BETA_LOSS;
        }
        if congestion.is_ce {
            self.reduce_by_marks(congestion.is_virtual_ce, is_after_long);
        } else if congestion.is_virtual_ce && !congestion.is_loss {
            let backoff = self.delay.virtual_alpha() / 2.0 / self.virtual_rtts().max(1.0);
            self.reference_window *= 1.0 - backoff;
        }
        self.reference_window = self.reference_window.max(self.min_window());
        if self.reference_window < previous && core::mem::take(&mut self.has_grown) {
            self.inflection_window = Some(previous);
        }
    }

    fn reduce_by_marks(&mut self, is_virtual_ce: bool, is_after_long: bool) {
        let mut backoff = self.marked.alpha / 2.0 / self.virtual_rtts().max(1.0);
        if !is_virtual_ce {
            backoff *= self.inflection_scale().max(MIN_INFLECTION_STEP);
            backoff *= self.delay.freedom().max(0.1);
        }
        if is_after_long {
            let in_flight = self.flight.max() as f64;
            self.reference_window = self.reference_window.min(in_flight);
            self.marked.alpha = ALPHA_AFTER_LONG;
        }
        self.reference_window *= 1.0 - backoff;
    }

    /// Reference window increase, by bytes acknowledged without a mark.
    fn increase(&mut self, now: Instant, unmarked_bytes: f64) {
        let inflection = self.inflection_scale();
        let mut scale = self.segment_share();
        let round_seconds = self.smoothed_rtt.as_secs_f64() + self.hold_seconds;
        let short = (round_seconds / VIRTUAL_RTT.as_secs_f64()).min(1.0);
        scale *= short * short;
        scale *= inflection.max(MIN_INFLECTION_STEP);
        scale *= self.delay.freedom().max(0.1);
        let multiplicative = MULTIPLICATIVE_INCREASE / self.segment_share();
        scale *= 1.0 + multiplicative * self.post_congestion_scale(now) * inflection;
        let limit = self.segment_bytes + HEAD_ROOM * self.flight.max() as f64;
        let increased = (self.reference_window + unmarked_bytes * scale).min(limit);
        if increased > self.reference_window && self.target_rate < self.max_rate {
            self.reference_window = increased;
            self.has_grown = true;
        }
    }

    fn update_window(&mut self, now: Instant, feedback: &Feedback<'_>, settled: &Settled) {
        let newest_lost = feedback.lost.last();
        let congestion = Congestion {
            is_loss: newest_lost.is_some_and(|lost| lost.packet_number >= self.losses_count_from),
            is_ce: feedback.ce_count > 0,
            is_virtual_ce: self.delay.virtual_alpha() > 0.0,
        };
        let is_congested = congestion.is_loss || congestion.is_ce || congestion.is_virtual_ce;
        let reacts = is_congested && self.may_react(now);
        if reacts {
            self.reduce(now, congestion);
        }
        if reacts || !is_congested {
            let unmarked = settled.acked_count.saturating_sub(feedback.ce_count) as f64;
            let share = unmarked / settled.acked_count.max(1) as f64;
            self.increase(now, settled.acked_bytes as f64 * share);
        }
    }

    fn update_hold(&mut self, feedback: &Feedback<'_>) {
        let received = feedback.acked.iter().filter_map(|acked| acked.received_at);
        if let Some(first) = received.min() {
            let hold = feedback.reported_at.saturating_since(first).as_secs_f64();
            self.hold_seconds += HOLD_WEIGHT * (hold.min(1.0) - self.hold_seconds);
        }
    }

    /// Media rate control.
    fn update_rate(&mut self, now: Instant, backlog_bytes: u64) {
        self.adjust_to_queue(now, backlog_bytes);
        let round_seconds = self.smoothed_rtt.as_secs_f64().max(1e-3) + self.hold_seconds;
        let mut rate = 8.0 * self.reference_window / round_seconds;
        rate *= 1.0 - (self.segment_share() - 0.1).clamp(0.0, 0.2);
        rate /= 1.0 + self.rate_adjust;
        if self.drains(now) {
            rate *= DRAIN_FACTOR;
        }
        self.target_rate = rate.clamp(self.min_rate, self.max_rate);
    }

    /// The draft's `rate_adjust_factor`, which integrates the send queue's delay.
    fn adjust_to_queue(&mut self, now: Instant, backlog_bytes: u64) {
        self.least_backlog_bytes = self.least_backlog_bytes.min(backlog_bytes);
        let adjusted_at = *self.rate_adjusted_at.get_or_insert(now);
        let elapsed = now.saturating_since(adjusted_at);
        if elapsed < QUEUE_SPAN {
            return;
        }
        let queue_seconds = 8.0 * self.least_backlog_bytes as f64 / self.target_rate;
        let error = (queue_seconds - FRAME_SECONDS / 4.0) / FRAME_SECONDS;
        let frame_count = elapsed.min(QUEUE_SPAN * 2).as_secs_f64() / FRAME_SECONDS;
        self.rate_adjust =
            (self.rate_adjust + RATE_ADJUST_GAIN * frame_count * error).clamp(0.0, MAX_RATE_ADJUST);
        self.rate_adjusted_at = Some(now);
        self.least_backlog_bytes = u64::MAX;
    }

    /// Returns whether a standing queue is being drained; forgets the base delay if that has not
    /// helped.
    fn drains(&mut self, now: Instant) -> bool {
        let is_standing = self
            .delay
            .standing_since
            .is_some_and(|since| now.saturating_since(since) >= DRAIN_AFTER);
        if !is_standing {
            self.drains_since = None;
            return false;
        }
        let since = *self.drains_since.get_or_insert(now);
        let span = (self.smoothed_rtt * DRAIN_RTTS).max(MIN_DRAIN);
        if now.saturating_since(since) < span {
            return true;
        }
        self.base = BaseDelay::default();
        self.delay = DelaySignal::default();
        self.drains_since = None;
        false
    }

    fn on_timeout_loss(&mut self, now: Instant) {
        self.reduce(
            now,
            Congestion {
                is_loss: true,
                is_ce: false,
                is_virtual_ce: false,
            },
        );
        self.update_rate(now, u64::MAX);
    }
}

impl CongestionController for ScreamV2 {
    fn on_sent(&mut self, _now: Instant, packet: &SentPacket) {
        self.next_packet_number = packet.packet_number + 1;
        self.flight.on_value(packet.bytes_in_flight);
    }

    fn on_feedback(
        &mut self,
        now: Instant,
        feedback: &Feedback<'_>,
        session: &SessionView,
        paths: &[PathView],
    ) {
        self.is_silent &= feedback.acked.is_empty();
        if feedback.rtt.has_sample() {
            self.smoothed_rtt = feedback.rtt.smoothed();
        }
        let settled = Settled::by(feedback);
        if let Some((least, _)) = queue_delays_millis(&mut self.base, now, feedback) {
            self.delay.on_report(now, least, self.smoothed_rtt);
        }
        self.update_hold(feedback);
        if !self.has_first_feedback && settled.acked_count > 0 {
            self.has_first_feedback = true;
            let round_seconds = self.smoothed_rtt.as_secs_f64() + self.hold_seconds;
            self.reference_window = (self.target_rate * round_seconds / 8.0).max(self.min_window());
        }
        let (acked_count, ce_count) = (settled.acked_count, feedback.ce_count);
        self.marked
            .on_report(now, acked_count, ce_count, self.smoothed_rtt);
        self.update_window(now, feedback, &settled);
        self.update_rate(now, path_backlog_bytes(feedback.path, session, paths));
        let span = self.smoothed_rtt.max(VIRTUAL_RTT);
        self.flight.advance(now, span, feedback.bytes_in_flight);
    }

    fn on_timeout(&mut self, now: Instant, cause: Timeout) {
        match cause {
            Timeout::Retransmission { count: 1, .. } => self.on_timeout_loss(now),
            Timeout::FeedbackSilence { .. } if !self.is_silent => {
                self.is_silent = true;
                self.on_timeout_loss(now);
            }
            _ => {}
        }
    }

    /// Send window: 1.5 to 3 reference windows in flight, the less the longer the queue.
    fn control(&self) -> ControlParameters {
        fn bits(rate: f64) -> DataRate {
            DataRate::from_bits_per_second(rate as u64)
        }

        let overhead = MIN_OVERHEAD + (MAX_OVERHEAD - MIN_OVERHEAD) * self.delay.freedom();
        let least = self.min_rate / 8.0 * self.smoothed_rtt.as_secs_f64();
        let window = (self.reference_window * overhead).max(least) as u64;
        let pacing_rate = self.pacing_factor * self.target_rate;
        ControlParameters {
            congestion_window: Some(window),
            pacing_rate: Some(bits(pacing_rate)),
            ecn: if self.is_ecn_capable {
                Ecn::Ect1
            } else {
                Ecn::NotEct
            },
            ..ControlParameters::of(bits(self.target_rate))
        }
    }

    /// Every 16 packets or 20 ms.
    fn feedback_schedule(&self) -> FeedbackSchedule {
        FeedbackSchedule {
            every_packets: 16,
            max_delay: Duration::from_millis(20),
            on_hole: None,
            is_immediate_on_ce: false,
            reports_pauses: false,
            ..FeedbackSchedule::default()
        }
    }

    fn state(&self) -> &'static str {
        if self.drains_since.is_some() {
            "Drain"
        } else if self.delay.virtual_alpha() > 0.0 {
            "VirtualCe"
        } else {
            "Increase"
        }
    }
}
