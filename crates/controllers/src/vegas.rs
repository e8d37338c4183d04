//! `vegas`: TCP Vegas (Brakmo & Peterson, IEEE JSAC 13(8), 1995), in the form of Linux and ns-2.
//!
//! Once per round trip the window is compared with the window that would fill the path without a
//! queue. The difference is the flow's own backlog, cwnd (RTT - base RTT) / RTT, which is kept
//! between alpha and beta packets.
//!
//! Deviations and decisions:
//! 1. As in Linux, slow start doubles every round trip and compares at each one's end (paper:
//!    doubles every other round trip). Losses are Reno's (paper: milder, and earlier
//!    retransmissions).
//! 2. RTT is the least of the packets acknowledged in the round, without the time that the receiver
//!    held the report back. A round with two samples or fewer is not judged: it is a Reno step.
//! 3. The base is the least round-trip time ever. It is measured again after idleness (Linux), and
//!    after 10 s in which every round took more than twice as long: the route has changed.
//! 4. Rounds that overlap recovery are not judged.
//! 5. Segments, recovery, growth, marks, silence and idleness: see `window.rs`.
//!
//! `wvegas` shares all but its law of congestion avoidance.

use core::fmt::Debug;

use anabranch_core::control::{CongestionController, ControlParameters, ControllerConfig, Timeout};
use anabranch_core::recovery::{Feedback, FeedbackSchedule, SentPacket};
use anabranch_core::{PathView, SessionView};
use anabranch_units::options::AlgorithmOption;
use anabranch_units::{Duration, Instant};

use super::coupled::Subflows;
use super::window::{DELAYED_ACKNOWLEDGEMENTS, MIN_SSTHRESH, Round, Window, queued_share};

/// In segments (Linux).
const MIN_WINDOW: f64 = 2.0;
/// A round with this many samples or fewer is not judged (Linux).
const FEW_SAMPLES: u32 = 2;
/// Time in which every round must take more than twice the base before the base is discarded.
const STALE_BASE: Duration = Duration::from_secs(10);

const ALPHA: AlgorithmOption = AlgorithmOption::number(
    "alpha",
    "the backlog below which the window grows, in packets",
    2.0,
    0.0..=1_000.0,
);
const BETA: AlgorithmOption = AlgorithmOption::number(
    "beta",
    "the backlog above which the window shrinks, in packets",
    4.0,
    0.0..=1_000.0,
);
const GAMMA: AlgorithmOption = AlgorithmOption::number(
    "gamma",
    "the backlog that ends slow start, in packets",
    1.0,
    0.0..=1_000.0,
);

pub(super) const OPTIONS: &[AlgorithmOption] = &[ALPHA, BETA, GAMMA];

pub(super) fn build(config: &ControllerConfig) -> Box<dyn CongestionController> {
    Box::new(vegas(config))
}

fn vegas(config: &ControllerConfig) -> Vegas<Bounds> {
    let bounds = Bounds {
        alpha: config.options.number(&ALPHA),
        beta: config.options.number(&BETA),
    };
    Vegas::new(config, config.options.number(&GAMMA), bounds)
}

/// Law at the end of a round trip in congestion avoidance.
pub(super) trait Avoidance: Debug + Send {
    /// Returns the round-trip time by which the round is judged.
    fn round_trip(&self, round: &Round) -> Option<Duration>;

    /// Returns the next window, in segments.
    fn window(&mut self, round: &RoundTrip<'_>) -> f64;
}

/// A round trip of more than a few samples.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoundTrip<'a> {
    /// In segments.
    pub(super) window: f64,
    /// `diff`: its part in the queue, in segments.
    pub(super) backlog: f64,
    pub(super) rtt: Duration,
    pub(super) base: Duration,
    pub(super) subflows: Subflows<'a>,
}

/// Bounds of the backlog between which the window stays.
#[derive(Debug)]
struct Bounds {
    alpha: f64,
    beta: f64,
}

impl Avoidance for Bounds {
    fn round_trip(&self, round: &Round) -> Option<Duration> {
        round.min_rtt
    }

    fn window(&mut self, round: &RoundTrip<'_>) -> f64 {
        if round.backlog > self.beta {
            round.window - 1.0
        } else if round.backlog < self.alpha {
            round.window + 1.0
        } else {
            round.window
        }
    }
}

#[derive(Debug)]
pub(super) struct Vegas<A> {
    pub(super) window: Window,
    pub(super) avoidance: A,
    gamma: f64,
    round: Round,
    base_rtt: Option<Duration>,
    /// Time since which every round has taken more than twice the base.
    stale_since: Option<Instant>,
}

impl<A: Avoidance> Vegas<A> {
    pub(super) fn new(config: &ControllerConfig, gamma: f64, avoidance: A) -> Self {
        Vegas {
            window: Window::new(config),
            avoidance,
            gamma,
            round: Round::default(),
            base_rtt: None,
            stale_since: None,
        }
    }

    fn begin_round(&mut self) {
        self.round = Round::before(self.window.next_packet_number());
    }

    fn sample(&mut self, feedback: &Feedback<'_>) {
        for acked in feedback.acked {
            self.round.on_acked(acked);
            if let Some(rtt) = acked.rtt {
                self.base_rtt = Some(self.base_rtt.map_or(rtt, |base| base.min(rtt)));
            }
        }
    }

    fn on_congestion(&mut self, feedback: &Feedback<'_>) {
        let flight_segments = self.window.segments_of(feedback.prior_bytes_in_flight);
        let ssthresh = (flight_segments / 2.0).max(MIN_SSTHRESH);
        self.window.ssthresh = ssthresh;
        self.window.segments = self.window.segments.min(ssthresh);
        self.window.enter_recovery(feedback, self.window.segments);
    }

    /// Grows a window that has been full as Reno does, if a round has not ended or is not judged.
    fn reno_step(&mut self, acked_segments: f64) {
        let left = self.window.slow_start(acked_segments);
        self.window.segments += left / self.window.segments;
    }

    fn on_round_end(
        &mut self,
        now: Instant,
        acked_segments: f64,
        may_grow: bool,
        subflows: Option<Subflows<'_>>,
    ) {
        let round = self.round;
        self.begin_round();
        let rtt = self.avoidance.round_trip(&round);
        let (Some(rtt), Some(base), Some(subflows)) = (rtt, self.base_rtt, subflows) else {
            return;
        };
        if round.sample_count <= FEW_SAMPLES {
            if may_grow {
                self.reno_step(acked_segments);
            }
            return;
        }
        self.judge_base(now, rtt, base);
        let window = self.window.segments;
        let backlog = window * queued_share(base, rtt);
        if self.window.is_in_slow_start() {
            if backlog > self.gamma {
                self.shrink_to(window.min(window - backlog + 1.0));
            } else if may_grow {
                self.reno_step(acked_segments);
            }
            return;
        }
        let next = self.avoidance.window(&RoundTrip {
            window,
            backlog,
            rtt,
            base,
            subflows,
        });
        if next < window {
            self.shrink_to(next);
        } else if may_grow {
            self.window.segments = next;
        }
    }

    /// Ends slow start at this window.
    fn shrink_to(&mut self, segments: f64) {
        let segments = segments.max(MIN_WINDOW).min(self.window.segments);
        self.window.segments = segments;
        let below = (segments - 1.0).max(MIN_SSTHRESH);
        self.window.ssthresh = self.window.ssthresh.min(below);
    }

    fn judge_base(&mut self, now: Instant, rtt: Duration, base: Duration) {
        if rtt <= base * 2 {
            self.stale_since = None;
            return;
        }
        let since = *self.stale_since.get_or_insert(now);
        if now.saturating_since(since) >= STALE_BASE {
            self.base_rtt = Some(rtt);
            self.stale_since = None;
        }
    }
}

impl<A: Avoidance> CongestionController for Vegas<A> {
    fn on_sent(&mut self, now: Instant, packet: &SentPacket) {
        if self.window.on_sent(now, packet).is_some() {
            self.base_rtt = None;
            self.stale_since = None;
            self.begin_round();
        }
    }

    fn on_feedback(
        &mut self,
        now: Instant,
        feedback: &Feedback<'_>,
        _session: &SessionView,
        paths: &[PathView],
    ) {
        self.window.hear(feedback);
        self.sample(feedback);
        let was_in_recovery = self.window.is_in_recovery();
        if self.window.has_new_loss(feedback) || self.window.has_new_mark(feedback) {
            self.on_congestion(feedback);
        }
        let acked_segments = self.window.acked_segments(feedback);
        if self.window.is_in_recovery() {
            return;
        }
        let may_grow = self.window.may_grow(feedback);
        if was_in_recovery {
            self.begin_round();
        }
        let is_over = feedback.acked.last();
        if is_over.is_some_and(|newest| self.round.is_ended_by(newest)) {
            let window = self.window.control().congestion_window.unwrap_or(0);
            let subflows = Subflows::of(window, feedback, paths);
            self.on_round_end(now, acked_segments, may_grow, subflows);
        } else if may_grow && self.window.is_in_slow_start() {
            self.reno_step(acked_segments);
        }
    }

    fn on_penalty(&mut self) {
        self.window.on_penalty();
    }

    fn on_timeout(&mut self, _now: Instant, cause: Timeout) {
        if let Some(flight_size) = cause.flight_size() {
            let flight_segments = self.window.segments_of(flight_size);
            self.window.on_timeout(flight_segments / 2.0);
            self.begin_round();
        }
    }

    fn control(&self) -> ControlParameters {
        self.window.control()
    }

    fn feedback_schedule(&self) -> FeedbackSchedule {
        DELAYED_ACKNOWLEDGEMENTS
    }

    fn state(&self) -> &'static str {
        self.window.state()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::beds::{link, segment_config, t1, t5_ratio};
    use super::super::testing::{Report, Rig, SILENCE};
    use super::*;

    /// Returns a rig in congestion avoidance with a window of `segments`; the base is 100 ms.
    fn at(segments: f64) -> Rig<Vegas<Bounds>> {
        let mut rig = Rig::of_segments(vegas(&segment_config()));
        rig.controller.window.segments = segments;
        rig.controller.window.ssthresh = 2.0;
        rig.controller.base_rtt = Some(Duration::from_millis(100));
        rig.controller.begin_round();
        rig
    }

    /// Plays a round of four samples, which the last of its two reports ends.
    fn round(rig: &mut Rig<Vegas<Bounds>>, rtt_millis: u64, has_window_left: bool) {
        rig.controller.begin_round();
        rig.send(4);
        let (rtt, count) = (Duration::from_millis(rtt_millis), rig.flying.len());
        rig.now += rtt;
        for acked in [count - 1, 1] {
            rig.report(Report {
                acked,
                rtt: Some(rtt),
                has_window_left,
                ..Report::default()
            });
        }
    }

    /// Returns the growth of the window in a round of `rtt_millis`.
    fn grown(segments: f64, rtt_millis: u64, has_window_left: bool) -> f64 {
        let mut rig = at(segments);
        round(&mut rig, rtt_millis, has_window_left);
        rig.controller.window.segments - segments
    }

    #[test]
    fn congestion_avoidance_moves_a_packet_a_round_towards_two_to_four_of_backlog() {
        assert_eq!(grown(30.0, 100, false), 1.0);
        assert_eq!(grown(21.0, 110, false), 1.0, "21 × 10 / 110 = 1.9");
        assert_eq!(grown(23.0, 110, false), 0.0, "2.1");
        assert_eq!(grown(43.0, 110, false), 0.0, "3.9");
        assert_eq!(grown(45.0, 110, false), -1.0, "4.1");
        assert_eq!(grown(400.0, 400, false), -1.0);
    }

    #[test]
    fn rfc9002_7_8_only_a_full_window_grows_but_any_shrinks() {
        assert_eq!(grown(30.0, 100, true), 0.0);
        assert_eq!(grown(45.0, 110, true), -1.0);
    }

    #[test]
    fn options_move_the_bounds() {
        let mut rig = at(30.0);
        (
            rig.controller.avoidance.alpha,
            rig.controller.avoidance.beta,
        ) = (10.0, 20.0);
        round(&mut rig, 110, false);
        assert_eq!(rig.window_segments(), 31.0);
        round(&mut rig, 150, false);
        assert_eq!(rig.window_segments(), 31.0, "10.3");
        rig.controller.window.segments = 2.0;
        (
            rig.controller.avoidance.alpha,
            rig.controller.avoidance.beta,
        ) = (0.0, 1.0);
        round(&mut rig, 500, false);
        assert_eq!(
            rig.window_segments(),
            2.0,
            "1.6, but two segments are the least"
        );
    }

    #[test]
    fn slow_start_doubles_until_a_packet_is_queued() {
        let mut rig = at(10.0);
        rig.controller.window.ssthresh = f64::INFINITY;
        for expected in [20.0, 40.0] {
            rig.controller.begin_round();
            rig.fill();
            for _ in 0..rig.flying.len() {
                rig.hear(0, 1, 100);
            }
            assert_eq!(
                (rig.window_segments(), rig.controller.state()),
                (expected, "SlowStart")
            );
        }
        rig.controller.begin_round();
        rig.send(20);
        rig.hear(0, 20, 110);
        // 40 × 100 / 110 + 1.
        assert!((rig.controller.window.segments - 37.364).abs() < 0.001);
        assert_eq!(rig.controller.state(), "CongestionAvoidance");
    }

    #[test]
    fn few_samples_make_a_reno_step() {
        let mut rig = at(30.0);
        rig.send(2);
        rig.hear(0, 2, 200);
        assert!((rig.controller.window.segments - (30.0 + 2.0 / 30.0)).abs() < 1e-9);
    }

    #[test]
    fn a_loss_is_renos_and_rounds_that_overlap_recovery_are_not_judged() {
        let mut rig = at(40.0);
        rig.fill();
        rig.hear(1, 1, 100);
        assert_eq!(
            (rig.window_segments(), rig.controller.state()),
            (20.0, "Recovery")
        );
        rig.hear(1, 37, 300);
        assert_eq!(rig.window_segments(), 20.0);
        rig.send(4);
        rig.hear(0, 3, 300);
        assert_eq!(
            rig.window_segments(),
            20.0,
            "the first round since has begun"
        );
        rig.hear(0, 1, 300);
        rig.send(4);
        rig.hear(0, 4, 300);
        assert_eq!(rig.window_segments(), 19.0);
    }

    #[test]
    fn a_timeout_leaves_one_segment() {
        let mut rig = at(40.0);
        rig.fill();
        let prior_bytes_in_flight = rig.bytes_in_flight();
        rig.controller.on_timeout(
            rig.now,
            Timeout::FeedbackSilence {
                prior_bytes_in_flight,
            },
        );
        rig.controller.on_timeout(rig.now, SILENCE);
        assert_eq!(
            (rig.window_segments(), rig.controller.window.ssthresh),
            (1.0, 20.0)
        );
    }

    #[test]
    fn base_rtt_resets_after_idle_and_route_change() {
        let mut rig = at(10.0);
        round(&mut rig, 90, false);
        assert_eq!(rig.controller.base_rtt, Some(Duration::from_millis(90)));
        rig.now += Duration::from_secs(2);
        rig.send(1);
        assert_eq!(rig.controller.base_rtt, None);
        let mut rig = at(10.0);
        while rig.now < Instant::from_secs(10) {
            round(&mut rig, 201, false);
        }
        assert_eq!(rig.controller.base_rtt, Some(Duration::from_millis(100)));
        round(&mut rig, 200, false);
        while rig.now < Instant::from_secs(20) {
            round(&mut rig, 201, false);
        }
        assert_eq!(
            rig.controller.base_rtt,
            Some(Duration::from_millis(100)),
            "since 11.25 s"
        );
        for _ in 0..10 {
            round(&mut rig, 201, false);
        }
        assert_eq!(rig.controller.base_rtt, Some(Duration::from_millis(201)));
    }

    #[test]
    fn property_two_to_four_packets_queue_however_long_the_queue_may_be() {
        for queue in [1.0, 5.0] {
            let flow = t1(queue).greedy("vegas", 0).run_secs(60).remove(0);
            let backlog = flow.t1_backlog(20, 60);
            assert!((2.0..=4.0).contains(&backlog), "{queue}: {backlog}");
            assert_eq!(flow.dropped_between(20, 60), 0);
            assert!(flow.utilisation(20, 60) >= 0.97);
        }
    }

    #[test]
    fn property_against_reno_it_gets_less_than_half_of_an_even_share() {
        for queue in [1.0, 4.0] {
            for other in ["reno", "new-reno"] {
                let ratio = t5_ratio(link(50, queue), "vegas", other);
                let share = ratio / (1.0 + ratio);
                assert!(share < 0.35, "{queue}, {other}: {share}");
            }
        }
    }

    #[test]
    fn property_four_flows_lose_nothing_once_they_have_settled() {
        // 4 × beta = 16 packets do not suffice: flows that start together measure their bases over
        // each other's queues and keep twice as much.
        let bed = (0..4).fold(t1(1.0), |bed, _| bed.greedy("vegas", 0));
        for flow in bed.run_secs(60) {
            assert_eq!(flow.dropped_between(5, 60), 0);
            let backlog = flow.t1_backlog(20, 60);
            assert!((8.0..48.0).contains(&backlog), "{backlog}");
        }
    }
}
