//! Common parts of TCP's window controllers: the window in segments, slow start, the recovery
//! period, reactions to timeouts and idleness, and rounds.
//!
//! Deviations and decisions, for all of them:
//! 1. Windows are fractions of segments of [`ControllerConfig::max_packet_bytes`]. Equations that a
//!    source gives per acknowledgement of one segment are applied per acknowledged segment, so that
//!    delayed or batched reports change nothing.
//! 2. Recovery lasts until a packet is acknowledged that was sent after it began (RFC 9002 §7.3.2).
//!    Losses of earlier packets are the same congestion event; acknowledgements of them do not open
//!    the window. Streams reach the reduced window over a round trip (`reduction.rs`). Elsewhere
//!    packets in flight above it must leave before another is sent.
//! 3. The window grows only if it kept the sender from sending (RFC 9002 §7.8), or if more than
//!    half of it was in flight at once (RFC 7661 §4.4; Linux in slow start). Video that gets 0.8 of
//!    the window's rate never fills a window, and would stay at the initial one forever.
//! 4. A mark Congestion Experienced is a congestion event like a loss (RFC 3168 §6.1.2).
//! 5. A path that has fallen silent counts as a retransmission timeout: one segment, and the
//!    threshold is not lowered again until a packet is acknowledged (RFC 5681 §3.1).
//! 6. After more than a retransmission timeout without a packet in flight, the window is at most
//!    the initial one (RFC 5681 §4.1). The path need not have become slower; only a burst is
//!    unwise. Slow start leads to three quarters of the earlier window (RFC 2861 §3.2; Linux), and
//!    the reported rate keeps its value until a packet is lost.
//! 7. Losses that turn out spurious are not undone.

use anabranch_core::control::{ControlParameters, ControllerConfig};
use anabranch_core::recovery::{AckedPacket, Feedback, FeedbackSchedule, SentPacket};
use anabranch_units::{DataRate, Duration, Ecn, Instant};

use super::reduction::Reduction;

/// RFC 5681 eq. 4, in segments.
pub(super) const MIN_SSTHRESH: f64 = 2.0;
/// RFC 2861 §3.2: the part of a window that slow start leads back to after idleness.
pub(super) const REMEMBERED: f64 = 0.75;
/// RFC 6298 §2.4.
const MIN_RETRANSMISSION_TIMEOUT: Duration = Duration::from_secs(1);

/// TCP's delayed acknowledgements (RFC 5681 §4.2): of every second packet, after 40 ms at the
/// latest, the least time that Linux waits (ns-2 waits 100 ms), and at once of a packet beyond a
/// hole.
pub(super) const DELAYED_ACKNOWLEDGEMENTS: FeedbackSchedule = FeedbackSchedule {
    every_packets: 2,
    max_delay: Duration::from_millis(40),
    ..FeedbackSchedule::EVERY_PACKET
};

/// Most bytes in flight at once in this round trip and the last one: Linux's `max_packets_out`, RFC
/// 7661's pipeACK.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PeakFlight {
    /// The first packet number that left after the round's beginning.
    round_ends_with: u64,
    bytes: u64,
    previous_bytes: u64,
}

impl PeakFlight {
    pub(super) fn on_sent(&mut self, packet: &SentPacket) {
        self.bytes = self.bytes.max(packet.bytes_in_flight);
    }

    pub(super) fn on_feedback(&mut self, feedback: &Feedback<'_>, next_packet_number: u64) {
        let newest = feedback.acked.last();
        if newest.is_some_and(|acked| acked.sent.packet_number >= self.round_ends_with) {
            self.round_ends_with = next_packet_number;
            self.previous_bytes = self.bytes;
            self.bytes = feedback.bytes_in_flight;
        }
    }

    /// Whether such a window is validated, so that it may grow (RFC 7661 §4.3).
    pub(super) fn is_over_half_of(&self, window_bytes: u64) -> bool {
        window_bytes < self.bytes.max(self.previous_bytes).saturating_mul(2)
    }
}

#[derive(Debug)]
pub(super) struct Window {
    /// `cwnd`.
    pub(super) segments: f64,
    /// Infinite: arbitrarily high.
    pub(super) ssthresh: f64,
    pub(super) smoothed_rtt: Option<Duration>,
    segment_bytes: u64,
    min_rate: DataRate,
    initial_rate: DataRate,
    initial_segments: f64,
    ecn: Ecn,
    next_packet_number: u64,
    /// `recovery_start`, as the first packet number that left after it.
    recovery_ends_with: u64,
    is_in_recovery: bool,
    /// Whether a timeout has passed without an acknowledgement since.
    is_timed_out: bool,
    retransmission_timeout: Duration,
    last_sent_at: Instant,
    /// Rate of the path before it was idle; zero if a packet was lost since.
    rate_before_idleness: DataRate,
    pub(super) flight: PeakFlight,
    reduction: Reduction,
}

impl Window {
    pub(super) fn new(config: &ControllerConfig) -> Self {
        let initial_segments = f64::from(config.initial_window_packets.max(1));
        Window {
            segments: initial_segments,
            ssthresh: f64::INFINITY,
            smoothed_rtt: None,
            segment_bytes: u64::from(config.max_packet_bytes).max(1),
            min_rate: config.min_rate,
            initial_rate: config.initial_rate,
            initial_segments,
            ecn: if config.is_ecn_capable {
                Ecn::Ect0
            } else {
                Ecn::NotEct
            },
            next_packet_number: 0,
            recovery_ends_with: 0,
            is_in_recovery: false,
            is_timed_out: false,
            retransmission_timeout: MIN_RETRANSMISSION_TIMEOUT,
            last_sent_at: Instant::ZERO,
            rate_before_idleness: DataRate::ZERO,
            flight: PeakFlight::default(),
            reduction: Reduction::new(config),
        }
    }

    /// Returns how long the path had been idle, if for more than a retransmission timeout.
    pub(super) fn on_sent(&mut self, now: Instant, packet: &SentPacket) -> Option<Duration> {
        let is_alone = packet.bytes_in_flight <= u64::from(packet.bytes);
        let idle = now.saturating_since(self.last_sent_at);
        let is_restart =
            is_alone && self.next_packet_number > 0 && idle > self.retransmission_timeout;
        if is_restart {
            self.rate_before_idleness = self.control().target_rate;
            if !self.is_in_recovery {
                self.ssthresh = self.ssthresh.max(REMEMBERED * self.segments);
            }
            self.segments = self.segments.min(self.initial_segments);
            self.reduction.end();
        }
        self.last_sent_at = now;
        self.next_packet_number = packet.packet_number + 1;
        self.flight.on_sent(packet);
        self.reduction.on_sent(packet);
        is_restart.then_some(idle)
    }

    /// Takes the round-trip time and records that the path lives. To be called first.
    pub(super) fn hear(&mut self, feedback: &Feedback<'_>) {
        self.flight.on_feedback(feedback, self.next_packet_number);
        self.reduction.on_feedback(feedback);
        if feedback.rtt.has_sample() {
            self.smoothed_rtt = Some(feedback.rtt.smoothed());
            let timeout = feedback.rtt.probe_timeout();
            self.retransmission_timeout = timeout.max(MIN_RETRANSMISSION_TIMEOUT);
        }
        if !feedback.acked.is_empty() {
            self.is_timed_out = false;
        }
    }

    /// Whether a packet that left after the last congestion event was lost.
    pub(super) fn has_new_loss(&self, feedback: &Feedback<'_>) -> bool {
        let newest = feedback.lost.last();
        newest.is_some_and(|lost| lost.packet_number >= self.recovery_ends_with)
    }

    /// Whether a packet was marked, and one acknowledged that left after the last congestion event.
    pub(super) fn has_new_mark(&self, feedback: &Feedback<'_>) -> bool {
        let newest = feedback.acked.last();
        feedback.ce_count > 0
            && newest.is_some_and(|acked| acked.sent.packet_number >= self.recovery_ends_with)
    }

    /// Begins a recovery period because of this report, in which the window falls to `segments`.
    pub(super) fn enter_recovery(&mut self, feedback: &Feedback<'_>, segments: f64) {
        self.reduction.begin(self.bytes_of(segments), feedback);
        self.recovery_ends_with = self.next_packet_number;
        self.is_in_recovery = true;
        self.rate_before_idleness = DataRate::ZERO;
    }

    /// Whether acknowledgements may open the window.
    pub(super) fn may_grow(&self, feedback: &Feedback<'_>) -> bool {
        self.may_grow_from(feedback, self.segments)
    }

    /// Whether acknowledgements may open a window of `segments`, of which this one is a part.
    pub(super) fn may_grow_from(&self, feedback: &Feedback<'_>, segments: f64) -> bool {
        feedback.is_window_limited
            || self
                .flight
                .is_over_half_of((segments * self.segment_bytes as f64) as u64)
    }

    /// Returns the acknowledged segments that were sent after recovery had begun; any of them ends
    /// it.
    pub(super) fn acked_segments(&mut self, feedback: &Feedback<'_>) -> f64 {
        let after_recovery = feedback
            .acked
            .iter()
            .filter(|acked| acked.sent.packet_number >= self.recovery_ends_with);
        let bytes: u64 = after_recovery
            .map(|acked| u64::from(acked.sent.bytes))
            .sum();
        if bytes > 0 {
            self.is_in_recovery = false;
            self.reduction.end();
        }
        self.segments_of(bytes)
    }

    /// Handles a retransmission timeout, or silence.
    pub(super) fn on_timeout(&mut self, ssthresh: f64) {
        if !self.is_timed_out {
            self.ssthresh = ssthresh.max(MIN_SSTHRESH);
        }
        self.is_timed_out = true;
        self.is_in_recovery = false;
        self.reduction.end();
        self.recovery_ends_with = self.next_packet_number;
        self.rate_before_idleness = DataRate::ZERO;
        self.segments = 1.0;
    }

    /// [`CongestionController::on_penalty`](anabranch_core::control::CongestionController).
    pub(super) fn on_penalty(&mut self) {
        (self.segments, self.ssthresh) = penalised(self.segments, self.ssthresh, 1.0);
        self.reduction.end();
    }

    pub(super) fn is_in_recovery(&self) -> bool {
        self.is_in_recovery
    }

    pub(super) fn is_in_slow_start(&self) -> bool {
        self.segments < self.ssthresh
    }

    /// Grows the window by a segment for each one acknowledged, up to the threshold. Returns the
    /// segments left over.
    pub(super) fn slow_start(&mut self, acked_segments: f64) -> f64 {
        let room = (self.ssthresh - self.segments).max(0.0);
        let growth = acked_segments.min(room);
        self.segments += growth;
        acked_segments - growth
    }

    pub(super) fn segments_of(&self, bytes: u64) -> f64 {
        bytes as f64 / self.segment_bytes as f64
    }

    /// Returns a window of `segments` in bytes: at least one segment.
    fn bytes_of(&self, segments: f64) -> u64 {
        ((segments * self.segment_bytes as f64) as u64).max(self.segment_bytes)
    }

    pub(super) fn segment_bytes(&self) -> u64 {
        self.segment_bytes
    }

    pub(super) fn next_packet_number(&self) -> u64 {
        self.next_packet_number
    }

    /// Returns the parameters that a window of `segments` grants.
    pub(super) fn control_of(&self, segments: f64) -> ControlParameters {
        let bytes = self.bytes_of(segments);
        let rate = self.smoothed_rtt.map_or(self.initial_rate, |rtt| {
            DataRate::from_bytes_per(bytes, rtt.max(Duration::from_micros(1)))
        });
        ControlParameters {
            congestion_window: Some(self.reduction.window_or(bytes)),
            ecn: self.ecn,
            ..ControlParameters::of(rate.max(self.min_rate).max(self.rate_before_idleness))
        }
    }

    pub(super) fn control(&self) -> ControlParameters {
        self.control_of(self.segments)
    }

    /// Returns the state by RFC 5681's names.
    pub(super) fn state(&self) -> &'static str {
        if self.is_in_recovery {
            "Recovery"
        } else if self.is_in_slow_start() {
            "SlowStart"
        } else {
            "CongestionAvoidance"
        }
    }
}

/// Returns a window and its threshold after a penalty, in segments or bytes: half, but at least one
/// and two segments (Linux's `mptcp_rcv_buf_optimization`).
pub(super) fn penalised(window: f64, ssthresh: f64, segment: f64) -> (f64, f64) {
    (
        (window / 2.0).max(segment),
        (ssthresh / 2.0).max(MIN_SSTHRESH * segment),
    )
}

/// Returns the part of a window that is queued if round trips take `rtt`, and `base` without a
/// queue.
pub(super) fn queued_share(base: Duration, rtt: Duration) -> f64 {
    if rtt <= base {
        return 0.0;
    }
    1.0 - base.as_secs_f64() / rtt.as_secs_f64()
}

/// Round trip, from a moment until the first acknowledgement of a packet that was sent after it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Round {
    /// The first packet number that left after its beginning.
    ends_with: u64,
    pub(super) min_rtt: Option<Duration>,
    pub(super) sample_count: u32,
    rtt_sum: Duration,
}

impl Round {
    /// Returns a round that begins before this packet is sent.
    pub(super) fn before(next_packet_number: u64) -> Self {
        Round {
            ends_with: next_packet_number,
            ..Round::default()
        }
    }

    pub(super) fn on_acked(&mut self, acked: &AckedPacket) {
        if let Some(rtt) = acked.rtt {
            self.min_rtt = Some(self.min_rtt.map_or(rtt, |min| min.min(rtt)));
            self.sample_count = self.sample_count.saturating_add(1);
            self.rtt_sum += rtt;
        }
    }

    pub(super) fn mean_rtt(&self) -> Option<Duration> {
        (self.sample_count > 0).then(|| self.rtt_sum / u64::from(self.sample_count))
    }

    pub(super) fn is_ended_by(&self, acked: &AckedPacket) -> bool {
        acked.sent.packet_number >= self.ends_with
    }
}

#[cfg(test)]
mod tests {

    use super::super::CONTROLLERS;
    use super::super::reno::Reno;
    use super::super::testing::beds::segment_config;
    use super::super::testing::{
        Bed, Report, Rig, Source, bed_config, build, ten_megabits, with_flows,
    };
    use super::*;

    #[test]
    fn the_queued_share_of_a_window() {
        let millis = Duration::from_millis;
        assert_eq!(queued_share(millis(100), millis(200)), 0.5);
        assert_eq!(queued_share(millis(100), millis(100)), 0.0);
        assert_eq!(queued_share(millis(100), millis(90)), 0.0);
        assert_eq!(queued_share(Duration::ZERO, Duration::ZERO), 0.0);
    }

    #[test]
    fn slow_start_stops_at_the_threshold_and_leaves_the_rest() {
        let mut window = Window::new(&segment_config());
        window.ssthresh = 12.0;
        assert_eq!((window.slow_start(5.0), window.segments), (3.0, 12.0));
    }

    #[test]
    fn rfc3168_6_1_2_marks_count_once_per_round_trip() {
        let mut rig = Rig::of_segments(Reno::new(&segment_config()));
        let marked = Report {
            acked: 1,
            ce_count: 1,
            ..Report::default()
        };
        rig.send(3);
        rig.report(marked);
        assert_eq!(rig.window_segments(), 5.0);
        rig.report(marked);
        assert!(
            rig.window_segments() >= 5.0,
            "it left before the first mark was heard of"
        );
        rig.hear(0, 1, 100);
        rig.send(1);
        rig.report(marked);
        assert!(rig.window_segments() < 3.0);
    }

    #[test]
    fn ect_is_sent_only_if_allowed() {
        for (is_ecn_capable, ecn) in [(false, Ecn::NotEct), (true, Ecn::Ect0)] {
            let config = ControllerConfig {
                is_ecn_capable,
                ..segment_config()
            };
            assert_eq!(Window::new(&config).control().ecn, ecn);
        }
    }

    #[test]
    fn rfc7661_4_3_the_flight_of_this_round_and_the_last_validates_a_window_below_twice_it() {
        let mut rig = Rig::of_segments(Reno::new(&segment_config()));
        let unused = Report {
            acked: 1,
            has_window_left: true,
            ..Report::default()
        };
        let mut validated = Vec::new();
        rig.send(3);
        for _ in 0..4 {
            let flight = rig.controller.window.flight;
            validated.push((flight.is_over_half_of(5_999), flight.is_over_half_of(6_000)));
            // A round each: the last packet of the one before is acknowledged.
            while rig.flying.len() > 1 {
                rig.flying.remove(0);
            }
            rig.report(unused);
            rig.send(1);
        }
        let expected = [(true, false), (true, false), (false, false), (false, false)];
        assert_eq!(validated, expected);
    }

    #[test]
    fn a_penalty_halves_windows_and_thresholds_and_leaves_a_segment_and_two() {
        assert_eq!(penalised(9.0, 8.0, 1.0), (4.5, 4.0));
        assert_eq!(penalised(1.5, 3.0, 1.0), (1.0, 2.0));
        assert_eq!(penalised(9e3, f64::INFINITY, 1e3), (4.5e3, f64::INFINITY));
        assert_eq!(penalised(1e3, 1e3, 1e3), (1e3, 2e3));
    }

    /// Windows of TCP's kind are penalised; rates and windows that follow a model are not.
    #[test]
    fn a_penalty_halves_each_window_of_tcp_s_kind() {
        for entry in CONTROLLERS {
            let mut controller = build(entry.name, &segment_config()).unwrap();
            let before = controller.control().congestion_window.unwrap_or(0);
            controller.on_penalty();
            let expected = if PENALISED.contains(&entry.name) {
                before / 2
            } else {
                before
            };
            let window = controller.control().congestion_window.unwrap_or(0);
            assert_eq!(window, expected, "{}", entry.name);
        }
    }

    const PENALISED: [&str; 12] = [
        "balia", "bic", "ccp", "ccpd", "compound", "cubic", "lia", "new-reno", "olia", "reno",
        "vegas", "wvegas",
    ];

    /// Controllers that share this rule.
    const WINDOWS: [&str; 11] = [
        "balia", "bic", "compound", "copa", "cubic", "lia", "new-reno", "olia", "reno", "vegas",
        "wvegas",
    ];

    /// Returns the target in Mbit/s after `seconds` of video of at most `max` Mbit/s, alone.
    fn target_after(name: &str, max: u64, seconds: u64) -> f64 {
        let max = DataRate::from_megabits_per_second(max);
        let flows = [(name, Source::Video { max }, 0)];
        let bed = Bed::new(ten_megabits(50));
        let mut target = DataRate::ZERO;
        with_flows(bed, &bed_config(1), &flows, seconds)
            .run_observed(Instant::from_secs(seconds), |_, _, controller| {
                target = controller.control().target_rate
            });
        target.megabits_per_second()
    }

    #[test]
    fn property_a_camera_of_four_megabits_gets_them_on_a_free_path_of_ten() {
        for name in WINDOWS {
            let target = target_after(name, 4, 10);
            assert!(0.8 * target >= 4.0, "{name}: {target}");
        }
    }

    #[test]
    fn property_rfc7661_a_camera_does_not_raise_its_window_beyond_twice_its_use() {
        for name in WINDOWS {
            let target = target_after(name, 1, 120);
            // Eight packets are sent in a round trip and the 8 ms that a report waits for a second
            // packet. 17 packets in 50 ms are 2.8 Mbit/s.
            assert!(target <= 17.0 * 0.165, "{name}: {target}");
        }
    }

    #[test]
    fn the_target_is_the_window_per_smoothed_round_trip() {
        let mut rig = Rig::of_segments(Reno::new(&segment_config()));
        let config = segment_config();
        assert_eq!(
            rig.controller.window.control().target_rate,
            config.initial_rate
        );
        rig.send(1);
        rig.hear(0, 1, 100);
        // Eleven segments of 1000 bytes in 100 ms.
        let rate = DataRate::from_kilobits_per_second(880);
        assert_eq!(rig.controller.window.control().target_rate, rate);
    }
}
