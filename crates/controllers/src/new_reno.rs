//! `new-reno`: the window of RFC 5681, counted in bytes, for packets that are never sent twice
//! under one number (RFC 9002 §7).
//!
//! Decisions:
//! 1. Window growth in slow start is limited per acknowledgement (RFC 3465: L = 2, and 1 after a
//!    timeout). A report stands for one acknowledgement per two packets that it acknowledges, as
//!    delayed acknowledgements would.
//! 2. A loss halves the bytes in flight (RFC 5681 eq. 4), not the window as in RFC 9002: a source
//!    that has not filled its window must not profit by it.
//! 3. A timeout leaves one packet (RFC 5681 §3.1), where RFC 9002 §7.2 leaves two.
//! 4. Streams reach a reduced window over a round trip (`reduction.rs`). Elsewhere packets in
//!    flight above it must leave before new ones enter.
//! 5. Losses that turn out spurious are not undone.
//! 6. The window grows if it kept the sender from sending (RFC 9002 §7.8), or if more than half of
//!    it was in flight at once (RFC 7661 §4.4; Linux in slow start): see `window.rs`.
//! 7. For the memory of a path after idleness see `window.rs`.
//! 8. `abc=off` takes byte counting away (RFC 3465): a segment per report in slow start, MSS²/cwnd
//!    per report after it (RFC 5681 eq. 3), as in the years before 2003 and in ns-2.

use anabranch_core::control::{CongestionController, ControlParameters, ControllerConfig, Timeout};
use anabranch_core::recovery::{Feedback, FeedbackSchedule, SentPacket};
use anabranch_core::{PathView, SessionView};
use anabranch_units::options::AlgorithmOption;
use anabranch_units::{DataRate, Duration, Ecn, Instant};

use super::coupled::{Law, Share, Subflows};
use super::reduction::Reduction;
use super::window::{PeakFlight, REMEMBERED, penalised};

/// Bytes per initial segment in the bound of the initial window: ten segments, or 14,600 bytes if
/// these are less (RFC 6928 §2).
const INITIAL_SEGMENT_BYTES: u64 = 1_460;
/// Least idle time after which the window starts again (RFC 5681 §4.1; RFC 6298 §2.4).
const MIN_RETRANSMISSION_TIMEOUT: Duration = Duration::from_secs(1);

const APPROPRIATE_BYTE_COUNTING: AlgorithmOption = AlgorithmOption::words(
    "abc",
    "whether windows grow by bytes (RFC 3465) or by acknowledgements (RFC 5681 eqs. 2, 3)",
    &["on", "off"],
);

pub(super) const OPTIONS: &[AlgorithmOption] = &[APPROPRIATE_BYTE_COUNTING];

pub(super) fn build(config: &ControllerConfig) -> Box<dyn CongestionController> {
    Box::new(NewReno::new(config))
}

/// Builds New Reno, except that `law` governs a window in congestion avoidance.
pub(super) fn coupled(config: &ControllerConfig, law: Law) -> NewReno {
    NewReno {
        law: Some(law),
        ..NewReno::new(config)
    }
}

#[derive(Debug)]
pub(super) struct NewReno {
    /// `SMSS`.
    segment_bytes: u64,
    min_rate: DataRate,
    initial_rate: DataRate,
    initial_window: u64,
    ecn: Ecn,
    is_counting_bytes: bool,
    /// Law that couples the window to the session's other paths.
    law: Option<Law>,
    /// Newest decision of the law.
    share: Share,
    congestion_window: u64,
    /// `None`: arbitrarily high.
    ssthresh: Option<u64>,
    /// Bytes acknowledged in congestion avoidance that have not yet become growth; for a coupled
    /// window its share of them.
    bytes_acked: f64,
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
    /// Rate of the path before it was idle; zero if a packet was lost since.
    rate_before_idleness: DataRate,
    flight: PeakFlight,
    reduction: Reduction,
}

impl NewReno {
    fn new(config: &ControllerConfig) -> Self {
        let segment_bytes = u64::from(config.max_packet_bytes).max(1);
        let initial_window = initial_window(config.initial_window_packets, segment_bytes);
        NewReno {
            segment_bytes,
            min_rate: config.min_rate,
            initial_rate: config.initial_rate,
            initial_window,
            ecn: if config.is_ecn_capable {
                Ecn::Ect0
            } else {
                Ecn::NotEct
            },
            is_counting_bytes: config.options.word(&APPROPRIATE_BYTE_COUNTING) == "on",
            law: None,
            share: Share::RENO,
            congestion_window: initial_window,
            ssthresh: None,
            bytes_acked: 0.0,
            next_packet_number: 0,
            recovery_ends_with: 0,
            is_in_recovery: false,
            is_timed_out: false,
            is_restart: false,
            smoothed_rtt: None,
            retransmission_timeout: MIN_RETRANSMISSION_TIMEOUT,
            last_sent_at: Instant::ZERO,
            rate_before_idleness: DataRate::ZERO,
            flight: PeakFlight::default(),
            reduction: Reduction::new(config),
        }
    }

    fn is_in_slow_start(&self) -> bool {
        self.ssthresh
            .is_none_or(|ssthresh| self.congestion_window < ssthresh)
    }

    /// Returns the window after a loss: RFC 5681 eq. 4, unless other paths change it.
    fn reduced(&self, flight_bytes: u64, kept: f64) -> u64 {
        let left = (flight_bytes as f64 * kept) as u64;
        left.max(self.share.min_ssthresh_packets * self.segment_bytes)
    }

    /// Reduces the window at most once per round trip, however many losses it has (RFC 9002
    /// §7.3.2).
    fn on_congestion(&mut self, newest_packet_number: u64, feedback: &Feedback<'_>) {
        if newest_packet_number >= self.recovery_ends_with {
            self.reduce(feedback.prior_bytes_in_flight);
            self.reduction.begin(self.congestion_window, feedback);
        }
    }

    /// Begins a recovery period with `flight_bytes` in flight.
    fn reduce(&mut self, flight_bytes: u64) {
        let ssthresh = self.reduced(flight_bytes, self.share.kept);
        self.ssthresh = Some(ssthresh);
        self.congestion_window = self.congestion_window.min(ssthresh);
        self.bytes_acked = 0.0;
        self.recovery_ends_with = self.next_packet_number;
        self.is_in_recovery = true;
        self.rate_before_idleness = DataRate::ZERO;
    }

    /// Handles `acked_bytes` in `packet_count` packets that were sent after recovery had begun.
    fn on_acked(&mut self, acked_bytes: u64, packet_count: u64) {
        if !self.is_counting_bytes {
            return self.on_acknowledgement();
        }
        if self.is_in_slow_start() {
            let limit_per_ack = if self.is_restart { 1 } else { 2 } * self.segment_bytes;
            self.congestion_window += acked_bytes.min(limit_per_ack * packet_count.div_ceil(2));
            return;
        }
        // RFC 5681 §3.1 by RFC 3465 §2.1: one segment per window of bytes.
        self.bytes_acked += acked_bytes as f64 * self.share.growth;
        let window = self.congestion_window as f64;
        if self.bytes_acked >= window {
            self.bytes_acked -= window;
            self.congestion_window += self.segment_bytes;
        } else if self.bytes_acked <= -window {
            self.bytes_acked += window;
            let less = self.congestion_window.saturating_sub(self.segment_bytes);
            self.congestion_window = less.max(self.segment_bytes);
            // Otherwise slow start would undo the law's decrease.
            self.ssthresh = self.ssthresh.map(|bytes| bytes.min(self.congestion_window));
        }
    }

    /// Grows the window by RFC 5681 eqs. 2 and 3.
    fn on_acknowledgement(&mut self) {
        self.congestion_window += if self.is_in_slow_start() {
            self.segment_bytes
        } else {
            (self.segment_bytes * self.segment_bytes / self.congestion_window).max(1)
        };
    }

    /// Sets the window to one segment (RFC 5681 §3.1, last paragraphs). One silence does not lower
    /// the threshold twice.
    fn on_retransmission_timeout(&mut self, flight_bytes: u64) {
        if !self.is_timed_out {
            self.ssthresh = Some(self.reduced(flight_bytes, Share::RENO.kept));
        }
        self.is_timed_out = true;
        self.is_restart = true;
        self.is_in_recovery = false;
        self.reduction.end();
        self.congestion_window = self.segment_bytes;
        self.bytes_acked = 0.0;
        self.recovery_ends_with = self.next_packet_number;
        self.rate_before_idleness = DataRate::ZERO;
    }
}

fn initial_window(packets: u32, segment_bytes: u64) -> u64 {
    let packets = u64::from(packets).max(1);
    let most = (packets * INITIAL_SEGMENT_BYTES).max(2 * segment_bytes);
    (packets * segment_bytes).min(most)
}

impl CongestionController for NewReno {
    fn on_sent(&mut self, now: Instant, packet: &SentPacket) {
        let is_alone = packet.bytes_in_flight <= u64::from(packet.bytes);
        let idle = now.saturating_since(self.last_sent_at);
        if is_alone && idle > self.retransmission_timeout {
            // RFC 5681 §4.1.
            self.rate_before_idleness = self.control().target_rate;
            if !self.is_in_recovery {
                let remembered = (REMEMBERED * self.congestion_window as f64) as u64;
                self.ssthresh = self.ssthresh.map(|bytes| bytes.max(remembered));
            }
            self.congestion_window = self.congestion_window.min(self.initial_window);
            self.reduction.end();
        }
        self.last_sent_at = now;
        self.next_packet_number = packet.packet_number + 1;
        self.flight.on_sent(packet);
        self.reduction.on_sent(packet);
    }

    fn on_feedback(
        &mut self,
        _now: Instant,
        feedback: &Feedback<'_>,
        _session: &SessionView,
        paths: &[PathView],
    ) {
        self.flight.on_feedback(feedback, self.next_packet_number);
        self.reduction.on_feedback(feedback);
        if feedback.rtt.has_sample() {
            self.smoothed_rtt = Some(feedback.rtt.smoothed());
            self.retransmission_timeout =
                feedback.rtt.probe_timeout().max(MIN_RETRANSMISSION_TIMEOUT);
        }
        if !feedback.acked.is_empty() {
            self.is_timed_out = false;
        }
        if let Some(law) = self.law {
            let subflows = Subflows::of(self.congestion_window, feedback, paths);
            self.share = subflows.map_or(Share::RENO, |subflows| law(&subflows));
        }
        if let Some(newest) = feedback.lost.last() {
            self.on_congestion(newest.packet_number, feedback);
        }
        if feedback.ce_count > 0
            && let Some(newest) = feedback.acked.last()
        {
            self.on_congestion(newest.sent.packet_number, feedback);
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
        self.reduction.end();
        // RFC 9002 §7.8, RFC 7661 §4.4.
        let may_grow =
            feedback.is_window_limited || self.flight.is_over_half_of(self.congestion_window);
        let is_shrinking = self.share.growth < 0.0 && !self.is_in_slow_start();
        if may_grow || is_shrinking {
            self.on_acked(acked_bytes, packet_count);
        }
    }

    fn on_penalty(&mut self) {
        let ssthresh = self.ssthresh.map_or(f64::INFINITY, |bytes| bytes as f64);
        let window = self.congestion_window as f64;
        let (window, ssthresh) = penalised(window, ssthresh, self.segment_bytes as f64);
        self.congestion_window = window as u64;
        self.reduction.end();
        self.ssthresh = self.ssthresh.map(|_| ssthresh as u64);
    }

    fn on_timeout(&mut self, _now: Instant, cause: Timeout) {
        if let Some(flight_size) = cause.flight_size() {
            self.on_retransmission_timeout(flight_size);
        }
    }

    fn control(&self) -> ControlParameters {
        let rate = self.smoothed_rtt.map_or(self.initial_rate, |rtt| {
            DataRate::from_bytes_per(self.congestion_window, rtt.max(Duration::from_micros(1)))
        });
        ControlParameters {
            congestion_window: Some(self.reduction.window_or(self.congestion_window)),
            ecn: self.ecn,
            ..ControlParameters::of(rate.max(self.min_rate).max(self.rate_before_idleness))
        }
    }

    /// Requests reports as receivers of QUIC send them (RFC 9000 §13.2.2, §18.2).
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
    use anabranch_units::Seed;

    use super::super::testing::beds::{mathis_utilisation, t1, t2_jain, t6};
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

        /// Returns a rig in congestion avoidance with a window of ten segments.
        fn in_congestion_avoidance() -> Self {
            let mut rig = Rig::start();
            rig.controller.ssthresh = Some(10 * SEGMENT);
            rig
        }

        /// Reports the oldest packets as lost, the next oldest as acknowledged.
        fn feed(&mut self, lost: usize, acked: usize, is_window_limited: bool, ce_count: u64) {
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
        assert_eq!(initial_window(10, 1_000), 10_000);
        assert_eq!(initial_window(10, 1_500), 14_600);
        assert_eq!(initial_window(10, 9_000), 18_000);
        assert_eq!(initial_window(2, 1_500), 3_000, "ns-2");
    }

    #[test]
    fn slow_start_doubles_in_a_round_trip_however_reports_are_batched() {
        for batch in [1, 2, 5, 10] {
            let mut rig = Rig::start();
            rig.send(10);
            for _ in 0..10 / batch {
                rig.feed(0, batch, true, 0);
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
        rig.feed(0, 8, true, 0);
        assert_eq!(rig.segments(), 1 + 4);
    }

    #[test]
    fn congestion_avoidance_adds_a_segment_per_window() {
        let mut rig = Rig::in_congestion_avoidance();
        rig.send(21);
        rig.feed(0, 9, true, 0);
        assert_eq!(
            (rig.segments(), rig.controller.state()),
            (10, "CongestionAvoidance")
        );
        rig.feed(0, 1, true, 0);
        assert_eq!(rig.segments(), 11);
        rig.feed(0, 11, true, 0);
        assert_eq!(rig.segments(), 12);
    }

    #[test]
    fn rfc7661_4_4_only_a_window_of_which_half_was_used_grows() {
        let mut rig = Rig::start();
        rig.send(5);
        rig.feed(0, 5, false, 0);
        assert_eq!(rig.segments(), 10);
        rig.send(6);
        rig.feed(0, 6, false, 0);
        assert_eq!(rig.segments(), 16);
        rig.send(6);
        rig.feed(0, 6, false, 0);
        assert_eq!(rig.segments(), 16, "more than twice six");
    }

    #[test]
    fn rfc5681_eq_4_a_loss_halves_the_flight_once_per_round_trip() {
        let mut rig = Rig::in_congestion_avoidance();
        rig.send(8);
        rig.feed(1, 2, true, 0);
        assert_eq!((rig.segments(), rig.controller.state()), (4, "Recovery"));
        rig.feed(2, 1, true, 0);
        assert_eq!(rig.segments(), 4, "they had left before the reduction");
        rig.send(4);
        rig.feed(0, 3, true, 0);
        assert_eq!(rig.controller.state(), "CongestionAvoidance");
        rig.send(1);
        rig.feed(1, 1, true, 0);
        assert_eq!(rig.segments(), 2, "two segments at least");
    }

    #[test]
    fn rfc9002_7_1_a_ce_mark_is_a_loss() {
        let mut rig = Rig::in_congestion_avoidance();
        rig.send(10);
        rig.feed(0, 1, true, 1);
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
                    prior_bytes_in_flight: rig.bytes_in_flight(),
                },
            );
        }
        rig.controller.on_timeout(rig.now, SILENCE);
        assert_eq!(rig.controller.congestion_window, SEGMENT);
        assert_eq!(rig.controller.ssthresh, Some(5 * SEGMENT));
        assert_eq!(rig.controller.state(), "SlowStart");
    }

    #[test]
    fn a_penalty_halves_window_and_threshold() {
        let mut rig = Rig::in_congestion_avoidance();
        rig.controller.on_penalty();
        let left = (rig.segments(), rig.controller.ssthresh);
        assert_eq!(left, (5, Some(5 * SEGMENT)));
        rig.controller.ssthresh = None;
        rig.controller.on_penalty();
        assert_eq!(rig.controller.ssthresh, None);
    }

    #[test]
    fn rfc5681_4_1_an_idle_window_starts_again() {
        let mut rig = Rig::start();
        rig.controller.congestion_window = 80 * SEGMENT;
        rig.send(1);
        rig.feed(0, 1, false, 0);
        rig.now += Duration::from_millis(900);
        rig.send(1);
        rig.feed(0, 1, false, 0);
        assert_eq!(rig.segments(), 80);
        rig.now += Duration::from_millis(1_001);
        let rate = rig.controller.control().target_rate;
        rig.send(1);
        assert_eq!(rig.segments(), 10);
        // The path counts as unchanged until a packet is lost.
        assert_eq!(rig.controller.control().target_rate, rate);
        rig.controller.reduce(10 * SEGMENT);
        assert!(rig.controller.control().target_rate < rate);
    }

    #[test]
    fn the_target_is_the_window_per_round_trip() {
        let mut rig = Rig::start();
        assert_eq!(
            rig.controller.control().target_rate,
            rig.controller.initial_rate
        );
        rig.send(1);
        rig.feed(0, 1, false, 0);
        let rate = DataRate::from_kilobits_per_second(800);
        assert_eq!(rig.controller.control().target_rate, rate);
        assert_eq!(rig.controller.control().pacing_rate, None);
    }

    #[test]
    fn rfc5681_eqs_2_and_3_count_acknowledgements_without_byte_counting() {
        let mut rig = Rig::in_congestion_avoidance();
        rig.controller.is_counting_bytes = false;
        rig.send(10);
        rig.feed(0, 2, true, 0);
        assert_eq!(rig.controller.congestion_window, 10_100);
        rig.controller.ssthresh = None;
        rig.feed(0, 2, true, 0);
        assert_eq!(rig.controller.congestion_window, 11_100);
    }

    #[test]
    fn ect_is_sent_only_if_allowed() {
        let config = ControllerConfig {
            is_ecn_capable: true,
            ..ControllerConfig::default()
        };
        assert_eq!(NewReno::new(&config).control().ecn, Ecn::Ect0);
        assert_eq!(Rig::start().controller.control().ecn, Ecn::NotEct);
    }

    #[test]
    fn property_utilisation_is_that_of_the_sawtooth() {
        // A queue of b BDP: 3 (1 + b)² / 8 over (1 - b) / 2 + ((1 + b)² - 1) / 2.
        for (queue, expected) in [(0.25, 0.893), (0.5, 0.964), (1.0, 1.0)] {
            let flow = t1(queue).greedy("new-reno", 0).run_secs(60).remove(0);
            let utilisation = flow.utilisation(20, 60);
            let tolerance = if queue < 1.0 { 0.03 } else { 0.02 };
            assert!(
                (utilisation - expected).abs() <= tolerance,
                "{queue}: {utilisation}"
            );
        }
    }

    #[test]
    fn mathis_goodput_under_random_loss() {
        for (name, factor) in [("new-reno", 1.22), ("new-reno:abc=off", 0.87)] {
            let bed = t1(1.0).random_loss(0.01, Seed(1));
            let flow = bed.greedy(name, 0).run_secs(200).remove(0);
            let ratio = flow.utilisation(20, 200) / mathis_utilisation(factor, &flow);
            assert!((ratio - 1.0).abs() < 0.15, "{name}: {ratio}");
        }
    }

    #[test]
    fn property_two_flows_share_evenly() {
        let jain = t2_jain("new-reno");
        assert!(jain >= 0.95, "{jain}");
    }

    #[test]
    fn property_throughput_falls_with_a_power_of_the_round_trip_between_1_and_2() {
        let [near, .., far] = t6("new-reno");
        let exponent = libm::log(near.0 / far.0) / libm::log(far.1 / near.1);
        assert!((1.0..=2.0).contains(&exponent), "{exponent}");
    }
}
