//! `new-reno`: the window of RFC 5681, counted in bytes, for packets that are never sent twice
//! under one number (RFC 9002 §7).
//!
//! Decisions:
//! 1. Window growth in slow start is limited per acknowledgement (RFC 3465: L = 2, and 1 after a
//!    timeout). A report stands for one acknowledgement per two packets that it acknowledges, as
//!    delayed acknowledgements would.
//! 2. A loss halves what was in flight (RFC 5681 eq. 4), not the window as RFC 9002 does: a source
//!    that has not filled its window must not profit by it.
//! 3. A timeout leaves one packet (RFC 5681 §3.1), where RFC 9002 §7.2 leaves two.
//! 4. Packet conservation in recovery is left to the window: packets in flight above it must leave
//!    before new ones enter.
//! 5. Losses that turn out spurious are not undone.

use anabranch_units::{DataRate, Duration, Instant};

use super::{
    CongestionController, ControlParameters, ControllerConfig, Feedback, FeedbackSchedule, Timeout,
};
use crate::path_view::PathView;
use crate::recovery::SentPacket;
use crate::session_view::SessionView;

/// RFC 6928 §2.
const INITIAL_WINDOW_PACKETS: u64 = 10;
const INITIAL_WINDOW_BYTES: u64 = 14_600;
/// RFC 5681 eq. 4.
const MIN_SSTHRESH_PACKETS: u64 = 2;
/// Idle for so long at least, the window starts again (RFC 5681 §4.1; RFC 6298 §2.4).
const MIN_RETRANSMISSION_TIMEOUT: Duration = Duration::from_secs(1);

pub(super) fn build(config: &ControllerConfig) -> Box<dyn CongestionController> {
    Box::new(NewReno::new(config))
}

#[derive(Debug)]
struct NewReno {
    /// `SMSS`.
    segment_bytes: u64,
    min_rate: DataRate,
    initial_rate: DataRate,
    congestion_window: u64,
    /// `None`: arbitrarily high.
    ssthresh: Option<u64>,
    /// Acknowledged in congestion avoidance and not yet turned into growth.
    bytes_acked: u64,
    bytes_in_flight: u64,
    next_packet_number: u64,
    /// `recovery_start`, as the first packet number that left after it.
    recovery_ends_with: u64,
    is_in_recovery: bool,
    /// Whether a timeout has passed without an acknowledgement since.
    is_timed_out: bool,
    /// Whether the slow start is one after a timeout.
    is_restart: bool,
    smoothed_rtt: Option<Duration>,
    retransmission_timeout: Duration,
    last_sent_at: Instant,
}

impl NewReno {
    fn new(config: &ControllerConfig) -> Self {
        let segment_bytes = u64::from(config.max_packet_bytes).max(1);
        NewReno {
            segment_bytes,
            min_rate: config.min_rate,
            initial_rate: config.initial_rate,
            congestion_window: initial_window(segment_bytes),
            ssthresh: None,
            bytes_acked: 0,
            bytes_in_flight: 0,
            next_packet_number: 0,
            recovery_ends_with: 0,
            is_in_recovery: false,
            is_timed_out: false,
            is_restart: false,
            smoothed_rtt: None,
            retransmission_timeout: MIN_RETRANSMISSION_TIMEOUT,
            last_sent_at: Instant::ZERO,
        }
    }

    fn is_in_slow_start(&self) -> bool {
        self.ssthresh
            .is_none_or(|ssthresh| self.congestion_window < ssthresh)
    }

    /// RFC 5681 eq. 4.
    fn halved(&self, flight_bytes: u64) -> u64 {
        (flight_bytes / 2).max(MIN_SSTHRESH_PACKETS * self.segment_bytes)
    }

    /// RFC 9002 §7.3.2: one reduction per round trip, whatever is lost in it.
    fn on_congestion(&mut self, newest_packet_number: u64, flight_bytes: u64) {
        if newest_packet_number < self.recovery_ends_with {
            return;
        }
        let ssthresh = self.halved(flight_bytes);
        self.ssthresh = Some(ssthresh);
        self.congestion_window = self.congestion_window.min(ssthresh);
        self.bytes_acked = 0;
        self.recovery_ends_with = self.next_packet_number;
        self.is_in_recovery = true;
    }

    /// Bytes acknowledged that left after recovery had begun, in so many packets.
    fn on_acked(&mut self, acked_bytes: u64, packet_count: u64) {
        if self.is_in_slow_start() {
            let limit_per_ack = if self.is_restart { 1 } else { 2 } * self.segment_bytes;
            self.congestion_window += acked_bytes.min(limit_per_ack * packet_count.div_ceil(2));
            return;
        }
        // RFC 5681 §3.1 by RFC 3465 §2.1: one segment per window of bytes.
        self.bytes_acked += acked_bytes;
        if self.bytes_acked >= self.congestion_window {
            self.bytes_acked -= self.congestion_window;
            self.congestion_window += self.segment_bytes;
        }
    }

    /// RFC 5681 §3.1, last paragraphs: one segment, and the threshold is not lowered twice for one
    /// silence.
    fn on_retransmission_timeout(&mut self) {
        if !self.is_timed_out {
            self.ssthresh = Some(self.halved(self.bytes_in_flight));
        }
        self.is_timed_out = true;
        self.is_restart = true;
        self.is_in_recovery = false;
        self.congestion_window = self.segment_bytes;
        self.bytes_acked = 0;
        self.recovery_ends_with = self.next_packet_number;
    }
}

fn initial_window(segment_bytes: u64) -> u64 {
    (INITIAL_WINDOW_PACKETS * segment_bytes).min(INITIAL_WINDOW_BYTES.max(2 * segment_bytes))
}

impl CongestionController for NewReno {
    fn on_sent(&mut self, now: Instant, packet: &SentPacket) {
        let is_alone = packet.bytes_in_flight <= u64::from(packet.bytes);
        let idle = now.saturating_since(self.last_sent_at);
        if is_alone && idle > self.retransmission_timeout {
            // RFC 5681 §4.1.
            let restart_window = initial_window(self.segment_bytes);
            self.congestion_window = self.congestion_window.min(restart_window);
        }
        self.last_sent_at = now;
        self.next_packet_number = packet.packet_number + 1;
        self.bytes_in_flight = packet.bytes_in_flight;
    }

    fn on_feedback(
        &mut self,
        _now: Instant,
        feedback: &Feedback<'_>,
        _session: &SessionView,
        _paths: &[PathView],
    ) {
        self.bytes_in_flight = feedback.bytes_in_flight;
        if feedback.rtt.has_sample() {
            self.smoothed_rtt = Some(feedback.rtt.smoothed());
            self.retransmission_timeout =
                feedback.rtt.probe_timeout().max(MIN_RETRANSMISSION_TIMEOUT);
        }
        if !feedback.acked.is_empty() {
            self.is_timed_out = false;
        }
        if let Some(newest) = feedback.lost.last() {
            self.on_congestion(newest.packet_number, feedback.prior_bytes_in_flight);
        }
        if feedback.ce_count > 0
            && let Some(newest) = feedback.acked.last()
        {
            self.on_congestion(newest.sent.packet_number, feedback.prior_bytes_in_flight);
        }
        let after_recovery = feedback
            .acked
            .iter()
            .filter(|acked| acked.sent.packet_number >= self.recovery_ends_with);
        let (acked_bytes, packet_count) = after_recovery.fold((0, 0), |(bytes, count), acked| {
            (bytes + u64::from(acked.sent.bytes), count + 1)
        });
        if packet_count == 0 {
            return;
        }
        self.is_in_recovery = false;
        // RFC 9002 §7.8.
        if feedback.is_window_limited {
            self.on_acked(acked_bytes, packet_count);
        }
    }

    fn on_timeout(&mut self, _now: Instant, cause: Timeout) {
        match cause {
            Timeout::Retransmission { .. } => self.on_retransmission_timeout(),
            Timeout::FeedbackSilence { .. } => {
                self.on_retransmission_timeout();
                self.bytes_in_flight = 0;
            }
            Timeout::Own => {}
        }
    }

    fn control(&self) -> ControlParameters {
        let rate = self.smoothed_rtt.map_or(self.initial_rate, |rtt| {
            DataRate::from_bytes_per(self.congestion_window, rtt.max(Duration::from_micros(1)))
        });
        ControlParameters {
            congestion_window: Some(self.congestion_window),
            ..ControlParameters::of(rate.max(self.min_rate))
        }
    }

    /// As receivers of QUIC acknowledge (RFC 9000 §13.2.2, §18.2).
    fn feedback_schedule(&self) -> FeedbackSchedule {
        FeedbackSchedule {
            every_packets: 2,
            max_delay: Duration::from_millis(25),
            ..FeedbackSchedule::EVERY_PACKET
        }
    }

    fn state(&self) -> &'static str {
        if self.is_in_recovery {
            "Recovery"
        } else if self.is_in_slow_start() {
            "SlowStart"
        } else {
            "CongestionAvoidance"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{self, Report, SILENCE};
    use super::*;

    const SEGMENT: u64 = 1_000;

    type Rig = testing::Rig<NewReno>;

    impl Rig {
        fn start() -> Self {
            let config = ControllerConfig {
                max_packet_bytes: SEGMENT as u32,
                ..Default::default()
            };
            let mut rig = Rig::new(NewReno::new(&config), SEGMENT as u32);
            rig.rtt.on_sample(Instant::ZERO, Duration::from_millis(100));
            rig
        }

        /// In congestion avoidance with a window of ten segments.
        fn in_congestion_avoidance() -> Self {
            let mut rig = Rig::start();
            rig.controller.ssthresh = Some(10 * SEGMENT);
            rig
        }

        /// The oldest packets are lost, the next oldest acknowledged.
        fn tell(&mut self, lost: usize, acked: usize, is_window_limited: bool, ce_count: u64) {
            self.report(Report {
                lost,
                acked,
                rtt: Some(Duration::from_millis(100)),
                is_app_limited: !is_window_limited,
                has_window_left: !is_window_limited,
                ce_count,
                ..Report::default()
            });
        }

        fn segments(&self) -> u64 {
            self.controller.congestion_window / SEGMENT
        }
    }

    #[test]
    fn rfc6928_initial_window() {
        assert_eq!(initial_window(1_000), 10_000);
        assert_eq!(initial_window(1_500), 14_600);
        assert_eq!(initial_window(9_000), 18_000);
    }

    #[test]
    fn slow_start_doubles_in_a_round_trip_however_reports_are_batched() {
        for batch in [1, 2, 5, 10] {
            let mut rig = Rig::start();
            rig.send(10);
            for _ in 0..10 / batch {
                rig.tell(0, batch, true, 0);
            }
            assert_eq!((rig.segments(), rig.controller.state()), (20, "SlowStart"));
        }
    }

    #[test]
    fn rfc3465_slow_start_after_a_timeout_counts_one_segment_per_two_packets() {
        let mut rig = Rig::start();
        rig.controller.on_timeout(rig.now, SILENCE);
        rig.controller.ssthresh = Some(40 * SEGMENT);
        rig.send(8);
        rig.tell(0, 8, true, 0);
        assert_eq!(rig.segments(), 1 + 4);
    }

    #[test]
    fn congestion_avoidance_adds_a_segment_per_window() {
        let mut rig = Rig::in_congestion_avoidance();
        rig.send(21);
        rig.tell(0, 9, true, 0);
        assert_eq!(
            (rig.segments(), rig.controller.state()),
            (10, "CongestionAvoidance")
        );
        rig.tell(0, 1, true, 0);
        assert_eq!(rig.segments(), 11);
        rig.tell(0, 11, true, 0);
        assert_eq!(rig.segments(), 12);
    }

    #[test]
    fn rfc9002_7_8_only_a_full_window_grows() {
        let mut rig = Rig::start();
        rig.send(10);
        rig.tell(0, 10, false, 0);
        assert_eq!(rig.segments(), 10);
    }

    #[test]
    fn rfc5681_eq_4_a_loss_halves_the_flight_once_per_round_trip() {
        let mut rig = Rig::in_congestion_avoidance();
        rig.send(8);
        rig.tell(1, 2, true, 0);
        assert_eq!((rig.segments(), rig.controller.state()), (4, "Recovery"));
        rig.tell(2, 1, true, 0);
        assert_eq!(rig.segments(), 4, "they had left before the reduction");
        rig.send(4);
        rig.tell(0, 3, true, 0);
        assert_eq!(rig.controller.state(), "CongestionAvoidance");
        rig.send(1);
        rig.tell(1, 1, true, 0);
        assert_eq!(rig.segments(), 2, "two segments at least");
    }

    #[test]
    fn rfc9002_7_1_a_ce_mark_is_a_loss() {
        let mut rig = Rig::in_congestion_avoidance();
        rig.send(10);
        rig.tell(0, 1, true, 1);
        assert_eq!((rig.segments(), rig.controller.state()), (5, "Recovery"));
    }

    #[test]
    fn rfc5681_3_1_a_timeout_leaves_one_segment_and_lowers_the_threshold_once() {
        let mut rig = Rig::in_congestion_avoidance();
        rig.send(10);
        for count in 1..=3 {
            rig.controller.on_timeout(
                rig.now,
                Timeout::Retransmission {
                    count,
                    prior_bytes_in_flight: 0,
                },
            );
        }
        rig.controller.on_timeout(rig.now, SILENCE);
        assert_eq!(rig.controller.congestion_window, SEGMENT);
        assert_eq!(rig.controller.ssthresh, Some(5 * SEGMENT));
        assert_eq!(rig.controller.state(), "SlowStart");
    }

    #[test]
    fn rfc5681_4_1_an_idle_window_starts_again() {
        let mut rig = Rig::start();
        rig.controller.congestion_window = 80 * SEGMENT;
        rig.send(1);
        rig.tell(0, 1, false, 0);
        rig.now += Duration::from_millis(900);
        rig.send(1);
        rig.tell(0, 1, false, 0);
        assert_eq!(rig.segments(), 80);
        rig.now += Duration::from_millis(1_001);
        rig.send(1);
        assert_eq!(rig.segments(), 10);
    }

    #[test]
    fn the_target_is_the_window_per_round_trip() {
        let mut rig = Rig::start();
        assert_eq!(
            rig.controller.control().target_rate,
            rig.controller.initial_rate
        );
        rig.send(1);
        rig.tell(0, 1, false, 0);
        let rate = DataRate::from_kilobits_per_second(800);
        assert_eq!(rig.controller.control().target_rate, rate);
        assert_eq!(rig.controller.control().pacing_rate, None);
    }
}
