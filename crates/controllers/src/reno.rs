//! `reno`: the window of ns-2's Agent/TCP/Reno (RFC 2581 before byte counting and NewReno).
//!
//! Slow start adds a segment per acknowledgement, congestion avoidance 1/cwnd; a fast retransmit
//! halves the window; a timeout leaves one segment.
//!
//! Deviations and decisions:
//! 1. An acknowledgement is a report that acknowledges new packets and declares none lost: with
//!    delayed acknowledgements the window grows half as fast, as it did before RFC 3465.
//! 2. A report with losses is a fast retransmit. Each one halves the window, even if several fall
//!    into one window: unlike NewReno, Reno has no recovery period. Loss detection `tcp-cumulative`
//!    reports only one loss in a window, as ns-2.
//! 3. The window is halved as in ns-2 (min(cwnd, advertised window); nothing is advertised here),
//!    not the flight of RFC 5681 eq. 4. Inflation by duplicate acknowledgements is recovery's.
//! 4. Only a timeout takes a window below two segments (ns-2: half may be less than two).
//! 5. A reduction takes effect at once, as in ns-2: Reno has no recovery period over which it could
//!    be spread.
//! 6. Growth only of a used window, idle restart, silence and marks: see `window.rs`, 3 to 6; marks
//!    count once per window. ns-2 grows an idle source's window too.

use anabranch_core::control::{CongestionController, ControlParameters, ControllerConfig, Timeout};
use anabranch_core::recovery::{Feedback, FeedbackSchedule, SentPacket};
use anabranch_core::{PathView, SessionView};
use anabranch_units::Instant;

use super::window::{DELAYED_ACKNOWLEDGEMENTS, MIN_SSTHRESH, Window};

pub(super) fn build(config: &ControllerConfig) -> Box<dyn CongestionController> {
    Box::new(Reno::new(config))
}

#[derive(Debug)]
pub(super) struct Reno {
    pub(super) window: Window,
}

impl Reno {
    pub(super) fn new(config: &ControllerConfig) -> Self {
        Reno {
            window: Window::new(&ControllerConfig {
                spreads_reductions: false,
                ..config.clone()
            }),
        }
    }

    fn on_fast_retransmit(&mut self, feedback: &Feedback<'_>) {
        self.window.ssthresh = (self.window.segments / 2.0).max(MIN_SSTHRESH);
        self.window.segments = self.window.ssthresh;
        self.window.enter_recovery(feedback, self.window.segments);
    }

    fn on_acknowledgement(&mut self) {
        self.window.segments += if self.window.is_in_slow_start() {
            1.0
        } else {
            1.0 / self.window.segments
        };
    }
}

impl CongestionController for Reno {
    fn on_sent(&mut self, now: Instant, packet: &SentPacket) {
        self.window.on_sent(now, packet);
    }

    fn looks_at_paths(&self) -> bool {
        false
    }

    fn on_feedback(
        &mut self,
        _now: Instant,
        feedback: &Feedback<'_>,
        _session: &SessionView,
        _paths: &[PathView],
    ) {
        self.window.hear(feedback);
        if !feedback.lost.is_empty() || self.window.has_new_mark(feedback) {
            self.on_fast_retransmit(feedback);
        } else if self.window.may_grow(feedback) && !feedback.acked.is_empty() {
            self.on_acknowledgement();
        }
    }

    fn on_penalty(&mut self) {
        self.window.on_penalty();
    }

    fn on_timeout(&mut self, _now: Instant, cause: Timeout) {
        match cause {
            Timeout::Retransmission { .. } | Timeout::FeedbackSilence { .. } => {
                self.window.on_timeout(self.window.segments / 2.0);
            }
            Timeout::Own => {}
        }
    }

    fn control(&self) -> ControlParameters {
        self.window.control()
    }

    fn feedback_schedule(&self) -> FeedbackSchedule {
        DELAYED_ACKNOWLEDGEMENTS
    }

    fn state(&self) -> &'static str {
        if self.window.is_in_slow_start() {
            "SlowStart"
        } else {
            "CongestionAvoidance"
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_units::{Duration, Seed};

    use super::super::testing::beds::{link, mathis_utilisation, segment_config, t1, t2_jain, t6};
    use super::super::testing::{Bed, PACKET_BYTES, Report, Rig, SILENCE};
    use super::*;

    /// Returns a rig in congestion avoidance with a window of `segments`.
    fn at(segments: f64) -> Rig<Reno> {
        let mut rig = Rig::of_segments(Reno::new(&segment_config()));
        rig.controller.window.segments = segments;
        rig.controller.window.ssthresh = segments;
        rig
    }

    #[test]
    fn slow_start_adds_a_segment_per_acknowledgement() {
        let config = ControllerConfig {
            initial_window_packets: 2,
            ..segment_config()
        };
        let mut rig = Rig::of_segments(Reno::new(&config));
        rig.send(2);
        rig.hear(0, 1, 100);
        assert_eq!(rig.window_segments(), 3.0);
        rig.send(9);
        rig.hear(0, 10, 100);
        assert_eq!(rig.window_segments(), 4.0, "however much it acknowledges");
        assert_eq!(rig.controller.state(), "SlowStart");
    }

    #[test]
    fn congestion_avoidance_adds_a_segment_per_window_of_acknowledgements() {
        let mut rig = at(10.0);
        rig.send(10);
        rig.hear(0, 1, 100);
        assert_eq!(rig.window_segments(), 10.1);
        for _ in 0..9 {
            rig.hear(0, 1, 100);
        }
        assert!((rig.window_segments() - 10.96).abs() < 0.01);
        assert_eq!(rig.controller.state(), "CongestionAvoidance");
    }

    #[test]
    fn delayed_acknowledgements_halve_the_growth() {
        let mut rig = at(10.0);
        rig.send(10);
        for _ in 0..5 {
            rig.hear(0, 2, 100);
        }
        assert!((rig.window_segments() - 10.49).abs() < 0.01);
    }

    #[test]
    fn every_fast_retransmit_halves_the_window() {
        let mut rig = at(20.0);
        rig.send(20);
        for expected in [10.0, 5.0, 2.5, 2.0, 2.0] {
            rig.hear(1, 1, 100);
            assert_eq!(rig.window_segments(), expected);
            assert_eq!(rig.controller.window.ssthresh, expected);
        }
    }

    #[test]
    fn loss_halves_the_window_not_the_flight() {
        let mut rig = at(20.0);
        rig.send(4);
        rig.hear(1, 1, 100);
        assert_eq!(rig.window_segments(), 10.0);
    }

    #[test]
    fn a_timeout_leaves_one_segment_and_lowers_the_threshold_once() {
        let mut rig = at(20.0);
        rig.send(20);
        for count in 1..=3 {
            let cause = Timeout::Retransmission {
                count,
                prior_bytes_in_flight: rig.bytes_in_flight(),
            };
            rig.controller.on_timeout(rig.now, cause);
            assert_eq!(rig.window_segments(), 1.0);
            assert_eq!(rig.controller.window.ssthresh, 10.0);
        }
        rig.controller.on_timeout(rig.now, SILENCE);
        assert_eq!(rig.controller.window.ssthresh, 10.0);
        rig.hear(0, 1, 100);
        rig.controller.on_timeout(rig.now, SILENCE);
        assert_eq!(rig.controller.window.ssthresh, MIN_SSTHRESH);
    }

    #[test]
    fn rfc9002_7_8_only_a_full_window_grows_but_any_window_is_halved() {
        let mut rig = at(20.0);
        rig.send(4);
        let report = Report {
            acked: 1,
            has_window_left: true,
            ..Report::default()
        };
        rig.report(report);
        assert_eq!(rig.window_segments(), 20.0);
        rig.report(Report { lost: 1, ..report });
        assert_eq!(rig.window_segments(), 10.0);
    }

    #[test]
    fn rfc5681_4_1_an_idle_window_starts_again() {
        let mut rig = at(80.0);
        rig.send(1);
        rig.hear(0, 1, 100);
        rig.now += Duration::from_millis(1_001);
        rig.send(1);
        assert_eq!(rig.window_segments(), 10.0);
    }

    #[test]
    fn property_a_queue_of_one_bdp_keeps_the_link_busy() {
        let flow = t1(1.0).greedy("reno", 0).run_secs(60).remove(0);
        assert!(flow.utilisation(20, 60) >= 0.98);
    }

    #[test]
    fn property_short_queues_cost_as_the_sawtooth() {
        for (queue, expected) in [(0.25, 0.893), (0.5, 0.964)] {
            let flow = t1(queue).greedy("reno", 0).run_secs(60).remove(0);
            let utilisation = flow.utilisation(20, 60);
            assert!((utilisation - expected).abs() < 0.03, "{utilisation}");
        }
    }

    /// 3/4. A bed without any queue is impossible: if the window grows, a report of two packets
    /// frees three, which find one in service. With less room than for those four it starves
    /// (0.08).
    #[test]
    fn property_room_for_no_more_than_one_burst_leaves_three_quarters() {
        let mut link = link(50, 0.0);
        link.queue_bytes = 4 * u64::from(PACKET_BYTES);
        let flow = Bed::new(link).greedy("reno", 0).run_secs(60).remove(0);
        let utilisation = flow.utilisation(20, 60);
        assert!((utilisation - 0.75).abs() < 0.03, "{utilisation}");
    }

    #[test]
    fn mathis_goodput_under_random_loss_with_and_without_delayed_acknowledgements() {
        for (feedback, factor) in [
            (FeedbackSchedule::EVERY_PACKET, 1.22),
            (DELAYED_ACKNOWLEDGEMENTS, 0.87),
        ] {
            let bed = t1(1.0).random_loss(0.01, Seed(1)).feedback(feedback);
            let flow = bed.greedy("reno", 0).run_secs(200).remove(0);
            let ratio = flow.utilisation(20, 200) / mathis_utilisation(factor, &flow);
            assert!((ratio - 1.0).abs() < 0.15, "{factor}: {ratio}");
        }
    }

    #[test]
    fn property_two_flows_share_evenly() {
        let jain = t2_jain("reno");
        assert!(jain >= 0.95, "{jain}");
    }

    #[test]
    fn property_throughput_falls_with_a_power_of_the_round_trip_between_1_and_2() {
        let [near, .., far] = t6("reno");
        let exponent = libm::log(near.0 / far.0) / libm::log(far.1 / near.1);
        assert!((1.0..=2.0).contains(&exponent), "{exponent}");
    }
}
