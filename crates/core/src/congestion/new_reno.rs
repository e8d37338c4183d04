//! `new-reno`: the window of RFC 5681, counted in bytes, for packets that are never sent twice under
//! one number (RFC 9002 §7).
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
            Timeout::FeedbackSilence => {
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
            pacing_rate: None,
            target_rate: rate.max(self.min_rate),
            padding_rate: DataRate::ZERO,
            burst_bytes: 0,
            is_usable: true,
        }
    }

    /// As receivers of QUIC acknowledge (RFC 9000 §13.2.2, §18.2).
    fn feedback_schedule(&self) -> FeedbackSchedule {
        FeedbackSchedule {
            every_packets: 2,
            max_delay: Duration::from_millis(25),
            is_immediate_on_hole: true,
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
