//! `compound`: Compound TCP (Tan, Song, Zhang & Sridharan, INFOCOM 2006;
//! draft-sridharan-tcpm-ctcp-02).
//!
//! The window is the sum of Reno's and of a delay-based one. dwnd grows with a power of the window
//! while the flow's own backlog is short, and shrinks as soon as it is not, so that a full queue
//! leaves Reno.
//!
//! Deviations and decisions:
//! 1. The power is of the whole window, win^k, and a loss leaves win (1 - beta) in all, as in the
//!    paper and ns-2. The draft's equations (3) and (5) print dwnd there, and with them dwnd could
//!    never leave zero.
//! 2. RTT is the least of the round, with more than two samples (ns-2; draft: the smoothed one),
//!    win the window that the round began with.
//! 3. The delay part grows only if the window is above `low-window` (draft: 38 packets; ns-2
//!    has no such bound); it yields at any size.
//! 4. gamma is 30 packets. `gamma-tuning=on` is the draft's: a loss moves gamma towards 3/4 of
//!    the backlog that Reno's part had, within 5 to 30; the draft gives no weight: 1/4 here.
//! 5. The base is the least round-trip time ever. It is measured again after a timeout and after
//!    idleness.
//! 6. A loss halves the window, as in the sources, not the flight.
//! 7. Segments, recovery, growth, marks, silence and idleness: see `window.rs`.

use anabranch_core::control::{CongestionController, ControlParameters, ControllerConfig, Timeout};
use anabranch_core::recovery::{Feedback, FeedbackSchedule, SentPacket};
use anabranch_core::{PathView, SessionView};
use anabranch_units::options::AlgorithmOption;
use anabranch_units::{Duration, Instant};

use super::window::{DELAYED_ACKNOWLEDGEMENTS, MIN_SSTHRESH, Round, Window, queued_share};

/// `alpha`, `beta`, `k` and `zeta` (the draft's eta).
const ALPHA: f64 = 0.125;
const BETA: f64 = 0.5;
const EXPONENT: f64 = 0.75;
const ZETA: f64 = 1.0;
/// A round with this many samples or fewer is not judged (ns-2).
const FEW_SAMPLES: u32 = 2;
/// The draft's tuning: bounds of gamma, and the part of Reno's backlog that gamma approaches.
const MIN_TUNED_GAMMA: f64 = 5.0;
const MAX_TUNED_GAMMA: f64 = 30.0;
const GAMMA_SHARE: f64 = 0.75;
const GAMMA_WEIGHT: f64 = 0.25;

const GAMMA: AlgorithmOption = AlgorithmOption::number(
    "gamma",
    "the backlog at which the delay part yields, in packets",
    30.0,
    1.0..=1_000.0,
);
const LOW_WINDOW: AlgorithmOption = AlgorithmOption::number(
    "low-window",
    "the window up to which it is Reno, in packets (ns-2: 0)",
    38.0,
    0.0..=1e6,
);
const GAMMA_TUNING: AlgorithmOption = AlgorithmOption::words(
    "gamma-tuning",
    "whether losses tune gamma, as in the draft",
    &["off", "on"],
);

pub(super) const OPTIONS: &[AlgorithmOption] = &[GAMMA, LOW_WINDOW, GAMMA_TUNING];

pub(super) fn build(config: &ControllerConfig) -> Box<dyn CongestionController> {
    Box::new(Compound::new(config))
}

#[derive(Debug)]
struct Compound {
    /// `cwnd`, Reno's part.
    window: Window,
    /// `dwnd`, in segments.
    delay_window: f64,
    gamma: f64,
    low_window: f64,
    is_tuning: bool,
    round: Round,
    /// Whole window at the beginning of the round.
    round_window: f64,
    /// Reno's part of the backlog in the last round, in segments.
    reno_backlog: f64,
    base_rtt: Option<Duration>,
}

impl Compound {
    fn new(config: &ControllerConfig) -> Self {
        let window = Window::new(config);
        Compound {
            delay_window: 0.0,
            gamma: config.options.number(&GAMMA),
            low_window: config.options.number(&LOW_WINDOW),
            is_tuning: config.options.word(&GAMMA_TUNING) == "on",
            round: Round::default(),
            round_window: window.segments,
            reno_backlog: 0.0,
            base_rtt: None,
            window,
        }
    }

    /// Returns `win`, in segments.
    fn whole_window(&self) -> f64 {
        self.window.segments + self.delay_window
    }

    fn is_in_slow_start(&self) -> bool {
        self.whole_window() < self.window.ssthresh
    }

    fn begin_round(&mut self) {
        self.round = Round::before(self.window.next_packet_number());
        self.round_window = self.whole_window();
    }

    /// Applies the draft's eq. 5 to the whole window.
    fn on_congestion(&mut self) {
        if self.is_tuning {
            let sample = GAMMA_SHARE * self.reno_backlog;
            let gamma = self.gamma + GAMMA_WEIGHT * (sample - self.gamma);
            self.gamma = gamma.clamp(MIN_TUNED_GAMMA, MAX_TUNED_GAMMA);
        }
        let left = self.whole_window() * (1.0 - BETA);
        let reno = self.window.segments / 2.0;
        self.delay_window = (left - reno).max(0.0);
        self.window.segments = reno.max(MIN_SSTHRESH - self.delay_window);
        self.window.ssthresh = self.whole_window();
    }

    fn sample(&mut self, feedback: &Feedback<'_>) {
        for acked in feedback.acked {
            self.round.on_acked(acked);
            if let Some(rtt) = acked.rtt {
                self.base_rtt = Some(self.base_rtt.map_or(rtt, |base| base.min(rtt)));
            }
        }
    }

    /// Updates the delay part once per round trip.
    fn on_round_end(&mut self, may_grow: bool) {
        let (round, window) = (self.round, self.round_window);
        if let (Some(rtt), Some(base)) = (round.min_rtt, self.base_rtt)
            && round.sample_count > FEW_SAMPLES
        {
            let queued_share = queued_share(base, rtt);
            let backlog = window * queued_share;
            self.reno_backlog = self.window.segments * queued_share;
            if self.is_in_slow_start() {
                // dwnd is zero there.
            } else if backlog >= self.gamma {
                self.delay_window = (self.delay_window - ZETA * backlog).max(0.0);
                // Otherwise slow start would replace it.
                self.window.ssthresh = self.window.ssthresh.min(self.whole_window());
            } else if may_grow && self.whole_window() > self.low_window {
                self.delay_window += (ALPHA * libm::pow(window, EXPONENT) - 1.0).max(0.0);
            }
        }
        self.begin_round();
    }

    fn on_acked(&mut self, acked_segments: f64) {
        let mut left = acked_segments;
        if self.is_in_slow_start() {
            left = self.window.slow_start(left);
        }
        self.window.segments += left / self.whole_window();
    }
}

impl CongestionController for Compound {
    fn on_sent(&mut self, now: Instant, packet: &SentPacket) {
        if self.window.on_sent(now, packet).is_some() {
            self.delay_window = 0.0;
            self.base_rtt = None;
            self.begin_round();
        }
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
        self.sample(feedback);
        let was_in_recovery = self.window.is_in_recovery();
        if self.window.has_new_loss(feedback) || self.window.has_new_mark(feedback) {
            self.on_congestion();
            let segments = self.whole_window();
            self.window.enter_recovery(feedback, segments);
        }
        let acked_segments = self.window.acked_segments(feedback);
        if self.window.is_in_recovery() {
            return;
        }
        if was_in_recovery {
            self.begin_round();
        }
        let may_grow = self.window.may_grow_from(feedback, self.whole_window());
        let newest = feedback.acked.last();
        if newest.is_some_and(|newest| self.round.is_ended_by(newest)) {
            self.on_round_end(may_grow);
        }
        if may_grow {
            self.on_acked(acked_segments);
        }
    }

    fn on_penalty(&mut self) {
        self.window.on_penalty();
        self.delay_window /= 2.0;
    }

    fn on_timeout(&mut self, _now: Instant, cause: Timeout) {
        match cause {
            Timeout::Retransmission { .. } | Timeout::FeedbackSilence { .. } => {
                self.window.on_timeout(self.whole_window() / 2.0);
                self.delay_window = 0.0;
                self.base_rtt = None;
                self.begin_round();
            }
            Timeout::Own => {}
        }
    }

    fn control(&self) -> ControlParameters {
        self.window.control_of(self.whole_window())
    }

    fn feedback_schedule(&self) -> FeedbackSchedule {
        DELAYED_ACKNOWLEDGEMENTS
    }

    fn state(&self) -> &'static str {
        if self.window.is_in_recovery() {
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

    use super::super::reno::Reno;
    use super::super::testing::beds::{segment_config, t1, t2_jain};
    use super::super::testing::{Report, Rig, SILENCE};
    use super::*;

    /// Returns a rig in congestion avoidance with these parts of the window; the base is 100 ms.
    fn at(reno: f64, delay: f64) -> Rig<Compound> {
        let mut rig = Rig::of_segments(Compound::new(&segment_config()));
        rig.controller.window.segments = reno;
        rig.controller.delay_window = delay;
        rig.controller.window.ssthresh = 2.0;
        rig.controller.base_rtt = Some(Duration::from_millis(100));
        rig.controller.begin_round();
        rig
    }

    fn parts(rig: &Rig<Compound>) -> (f64, f64) {
        (rig.controller.window.segments, rig.controller.delay_window)
    }

    /// Returns the growth of the delay part in a round trip of `rtt_millis`.
    fn delay_growth(reno: f64, delay: f64, rtt_millis: u64) -> f64 {
        let mut rig = at(reno, delay);
        rig.send(3);
        rig.hear(0, 3, rtt_millis);
        rig.controller.delay_window - delay
    }

    #[test]
    fn the_delay_part_grows_with_the_power_of_the_window_while_the_backlog_is_short() {
        let growth = delay_growth(60.0, 40.0, 100);
        assert!(
            (growth - (31.623 / 8.0 - 1.0)).abs() < 0.001,
            "100^0.75 / 8 - 1"
        );
        let growth = delay_growth(60.0, 40.0, 142);
        assert!(
            (growth - 2.953).abs() < 0.001,
            "100 × 42 / 142 = 29.6 packets of backlog"
        );
        // From zero too: 60^0.75 / 8 - 1.
        assert!((delay_growth(60.0, 0.0, 100) - 1.6948).abs() < 0.001);
    }

    #[test]
    fn the_delay_part_yields_its_backlog_from_gamma_on_down_to_zero() {
        assert!((delay_growth(60.0, 40.0, 150) + 100.0 / 3.0).abs() < 1e-9);
        assert_eq!(delay_growth(80.0, 20.0, 150), -20.0);
        assert_eq!(delay_growth(60.0, 0.0, 200), 0.0);
    }

    #[test]
    fn yielding_does_not_lead_to_slow_start() {
        let mut rig = at(60.0, 40.0);
        rig.controller.window.ssthresh = 100.0;
        rig.send(3);
        rig.hear(0, 3, 150);
        assert_eq!(rig.controller.state(), "CongestionAvoidance");
    }

    #[test]
    fn the_loss_part_grows_by_a_segment_per_whole_window() {
        let mut rig = at(60.0, 40.0);
        rig.controller.round = Round::before(1_000);
        rig.fill();
        rig.hear(0, 50, 100);
        assert_eq!(parts(&rig), (60.5, 40.0));
    }

    #[test]
    fn a_loss_halves_the_whole_window_once_per_round_trip() {
        let mut rig = at(60.0, 40.0);
        rig.fill();
        rig.hear(1, 1, 100);
        assert_eq!(
            (parts(&rig), rig.controller.state()),
            ((30.0, 20.0), "Recovery")
        );
        rig.hear(1, 97, 200);
        assert_eq!(parts(&rig), (30.0, 20.0));
        rig.send(3);
        rig.hear(0, 1, 200);
        assert_eq!(rig.controller.state(), "CongestionAvoidance");
        assert_eq!(
            rig.controller.delay_window, 20.0,
            "recovery's round is not judged"
        );
        let mut rig = at(3.0, 0.0);
        rig.fill();
        rig.hear(1, 1, 100);
        assert_eq!(parts(&rig), (2.0, 0.0));
    }

    #[test]
    fn a_timeout_leaves_one_segment_no_delay_part_and_no_base() {
        let mut rig = at(60.0, 40.0);
        rig.fill();
        for _ in 0..2 {
            rig.controller.on_timeout(rig.now, SILENCE);
            assert_eq!(parts(&rig), (1.0, 0.0));
            assert_eq!(
                (rig.controller.window.ssthresh, rig.controller.base_rtt),
                (50.0, None)
            );
        }
    }

    #[test]
    fn an_idle_window_starts_again_without_a_delay_part_and_a_base() {
        let mut rig = at(60.0, 40.0);
        rig.send(1);
        rig.hear(0, 1, 100);
        rig.now += Duration::from_secs(2);
        rig.send(1);
        assert_eq!((parts(&rig), rig.controller.base_rtt), ((10.0, 0.0), None));
    }

    #[test]
    fn slow_start_doubles_without_a_delay_part() {
        let mut rig = Rig::of_segments(Compound::new(&segment_config()));
        for expected in [20.0, 40.0, 80.0] {
            rig.round(100);
            assert_eq!(parts(&rig), (expected, 0.0));
            assert_eq!(rig.controller.state(), "SlowStart");
        }
    }

    #[test]
    fn losses_tune_gamma() {
        let mut rig = at(80.0, 20.0);
        rig.controller.is_tuning = true;
        rig.send(3);
        rig.hear(0, 3, 200);
        rig.fill();
        rig.hear(1, 1, 200);
        // 80 × 100 / 200 = 40, and 3/4 of it: as gamma is.
        assert_eq!(rig.controller.gamma, 30.0);
        rig.controller.reno_backlog = 0.0;
        rig.controller.on_congestion();
        assert_eq!(rig.controller.gamma, 22.5);
        for _ in 0..10 {
            rig.controller.on_congestion();
        }
        assert_eq!(rig.controller.gamma, 5.0);
    }

    #[test]
    fn only_a_full_window_grows() {
        let mut rig = at(60.0, 40.0);
        let report = Report {
            acked: 3,
            rtt: Some(Duration::from_millis(100)),
            has_window_left: true,
            ..Report::default()
        };
        rig.send(3);
        rig.report(report);
        assert_eq!(parts(&rig), (60.0, 40.0));
        rig.send(3);
        rig.controller.round.min_rtt = None;
        rig.report(Report {
            rtt: Some(Duration::from_millis(150)),
            ..report
        });
        assert!(rig.controller.delay_window < 40.0);
    }

    #[test]
    fn property_below_the_low_window_it_is_reno() {
        let mut compound = at(20.0, 0.0);
        let mut reno = Rig::of_segments(Reno::new(&segment_config()));
        reno.controller.window.segments = 20.0;
        reno.controller.window.ssthresh = 2.0;
        for step in 0..20 {
            compound.round(100 + step);
            reno.round(100 + step);
            if step == 15 {
                // In one burst: NewReno's recovery, which Compound has, keeps the window still.
                compound.send(20);
                compound.hear(1, 19, 100);
                reno.send(20);
                reno.hear(1, 19, 100);
            }
            assert_eq!(compound.window_segments(), reno.window_segments());
        }
    }

    #[test]
    fn property_without_loss_it_doubles_its_window_faster_than_reno() {
        let mut rig = at(42.0, 0.0);
        let mut round_count = 0;
        while rig.window_segments() < 84.0 {
            rig.round(100);
            round_count += 1;
        }
        assert!(round_count <= 21, "Reno takes 42: {round_count}");
    }

    #[test]
    fn property_it_is_not_slower_than_new_reno() {
        for queue in [0.25, 1.0, 5.0] {
            let [mine, renos] = ["compound", "new-reno"].map(|name| {
                let flow = t1(queue).greedy(name, 0).run_secs(60).remove(0);
                flow.utilisation(20, 60)
            });
            assert!(mine >= 0.95 * renos, "{queue}: {mine}, {renos}");
        }
        for loss_ratio in [0.001, 0.01] {
            let [mine, renos] = ["compound", "new-reno"].map(|name| {
                let bed = t1(1.0).random_loss(loss_ratio, Seed(1));
                bed.greedy(name, 0)
                    .run_secs(60)
                    .remove(0)
                    .utilisation(20, 60)
            });
            assert!(mine >= 0.95 * renos, "{loss_ratio}: {mine}, {renos}");
        }
    }

    #[test]
    fn property_a_full_queue_leaves_reno() {
        // Reno's sawtooth, within a twentieth, over a queue of five BDP.
        let [mine, renos] = ["compound", "new-reno"].map(|name| {
            let flow = t1(5.0).greedy(name, 0).run_secs(60).remove(0);
            flow.t1_backlog(20, 60)
        });
        assert!((mine / renos - 1.0).abs() < 0.05, "{mine}, {renos}");
    }

    #[test]
    fn property_two_flows_share_evenly() {
        let jain = t2_jain("compound");
        assert!(jain >= 0.95, "{jain}");
    }
}
