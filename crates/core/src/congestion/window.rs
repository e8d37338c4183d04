//! What TCP's window controllers share: the window in segments, slow start, the recovery period,
//! what follows timeouts and idleness, and rounds.
//!
//! Deviations and decisions, for all of them:
//! 1. Windows are fractions of segments of [`ControllerConfig::max_packet_bytes`]. Equations that a
//!    source gives per acknowledgement of one segment are applied per acknowledged segment, so that
//!    delayed or batched reports change nothing.
//! 2. Recovery lasts until a packet is acknowledged that left after it began (RFC 9002 §7.3.2).
//!    Losses of packets that left before it are the same congestion event; acknowledgements of them
//!    do not open the window. Packet conservation is left to the window: what is in flight above it
//!    must leave before anything enters.
//! 3. The window grows only if it kept the sender from sending (RFC 9002 §7.8).
//! 4. A mark Congestion Experienced is a congestion event like a loss (RFC 3168 §6.1.2).
//! 5. A path that has fallen silent is a retransmission timeout: one segment, and the threshold is
//!    not lowered again until something is acknowledged (RFC 5681 §3.1).
//! 6. After more than a retransmission timeout without anything in flight, the window is at most
//!    the initial one (RFC 5681 §4.1).
//! 7. Losses that turn out spurious are not undone.

use anabranch_units::{DataRate, Duration, Ecn, Instant};

use super::{ControlParameters, ControllerConfig, Feedback, FeedbackSchedule};
use crate::recovery::{AckedPacket, SentPacket};

/// RFC 5681 eq. 4, in segments.
pub(super) const MIN_SSTHRESH: f64 = 2.0;
/// RFC 6298 §2.4.
const MIN_RETRANSMISSION_TIMEOUT: Duration = Duration::from_secs(1);

/// TCP's delayed acknowledgements (RFC 5681 §4.2): of every second packet, after 40 ms at the
/// latest, the least that Linux waits (ns-2 waits 100 ms); and at once of a packet beyond a hole.
pub(super) const DELAYED_ACKNOWLEDGEMENTS: FeedbackSchedule = FeedbackSchedule {
    every_packets: 2,
    max_delay: Duration::from_millis(40),
    ..FeedbackSchedule::EVERY_PACKET
};

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
        }
    }

    /// Returns how long the path had been idle, if for more than a retransmission timeout.
    pub(super) fn on_sent(&mut self, now: Instant, packet: &SentPacket) -> Option<Duration> {
        let is_alone = packet.bytes_in_flight <= u64::from(packet.bytes);
        let idle = now.saturating_since(self.last_sent_at);
        let is_restart =
            is_alone && self.next_packet_number > 0 && idle > self.retransmission_timeout;
        if is_restart {
            self.segments = self.segments.min(self.initial_segments);
        }
        self.last_sent_at = now;
        self.next_packet_number = packet.packet_number + 1;
        is_restart.then_some(idle)
    }

    /// Takes the round-trip time and notes that the path lives. To be called first.
    pub(super) fn hear(&mut self, feedback: &Feedback<'_>) {
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

    pub(super) fn enter_recovery(&mut self) {
        self.recovery_ends_with = self.next_packet_number;
        self.is_in_recovery = true;
    }

    /// Whether what is acknowledged may open the window (RFC 9002 §7.8).
    pub(super) fn may_grow(feedback: &Feedback<'_>) -> bool {
        feedback.is_window_limited
    }

    /// Segments acknowledged that left after recovery had begun; any of them end it.
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
        }
        self.segments_of(bytes)
    }

    /// A retransmission timeout, or silence.
    pub(super) fn on_timeout(&mut self, ssthresh: f64) {
        if !self.is_timed_out {
            self.ssthresh = ssthresh.max(MIN_SSTHRESH);
        }
        self.is_timed_out = true;
        self.is_in_recovery = false;
        self.recovery_ends_with = self.next_packet_number;
        self.segments = 1.0;
    }

    pub(super) fn is_in_recovery(&self) -> bool {
        self.is_in_recovery
    }

    pub(super) fn is_in_slow_start(&self) -> bool {
        self.segments < self.ssthresh
    }

    /// A segment for each one acknowledged, up to the threshold. Returns the segments left over.
    pub(super) fn slow_start(&mut self, acked_segments: f64) -> f64 {
        let room = (self.ssthresh - self.segments).max(0.0);
        let growth = acked_segments.min(room);
        self.segments += growth;
        acked_segments - growth
    }

    pub(super) fn segments_of(&self, bytes: u64) -> f64 {
        bytes as f64 / self.segment_bytes as f64
    }

    pub(super) fn segment_bytes(&self) -> u64 {
        self.segment_bytes
    }

    pub(super) fn next_packet_number(&self) -> u64 {
        self.next_packet_number
    }

    /// What a window of so many segments grants.
    pub(super) fn control_of(&self, segments: f64) -> ControlParameters {
        let bytes = (segments * self.segment_bytes as f64) as u64;
        let bytes = bytes.max(self.segment_bytes);
        let rate = self.smoothed_rtt.map_or(self.initial_rate, |rtt| {
            DataRate::from_bytes_per(bytes, rtt.max(Duration::from_micros(1)))
        });
        ControlParameters {
            congestion_window: Some(bytes),
            ecn: self.ecn,
            ..ControlParameters::of(rate.max(self.min_rate))
        }
    }

    pub(super) fn control(&self) -> ControlParameters {
        self.control_of(self.segments)
    }

    /// RFC 5681's names.
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

/// The part of a window that waits in a queue if round trips take `rtt`, and `base` without one.
pub(super) fn queued_share(base: Duration, rtt: Duration) -> f64 {
    if rtt <= base {
        return 0.0;
    }
    1.0 - base.as_secs_f64() / rtt.as_secs_f64()
}

/// A round trip: from a moment until the first acknowledgement of a packet that left after it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Round {
    /// The first packet number that left after its beginning.
    ends_with: u64,
    pub(super) min_rtt: Option<Duration>,
    pub(super) sample_count: u32,
}

impl Round {
    /// A round that begins before this packet leaves.
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
        }
    }

    pub(super) fn is_ended_by(&self, acked: &AckedPacket) -> bool {
        acked.sent.packet_number >= self.ends_with
    }
}

#[cfg(test)]
mod tests {
    use super::super::reno::Reno;
    use super::super::testing::beds::segment_config;
    use super::super::testing::{Report, Rig};
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
