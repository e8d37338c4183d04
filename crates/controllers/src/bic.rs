//! `bic`: BIC-TCP (Xu, Harfoush & Rhee, INFOCOM 2004), with the constants of Linux's tcp_bic.
//!
//! A binary search looks for the right window between the window after a loss and the window before
//! it, W_max. Each round trip adds a fraction of the distance, but neither more than S_max nor less
//! than a smooth approach. Beyond W_max the search is mirrored: slowly first, then faster (max
//! probing).
//!
//! Deviations and decisions:
//! 1. As in Linux, a round trip adds a quarter of the distance to W_max, not half of it as in the
//!    paper. S_max is 16 (paper: 32). Next to W_max a segment takes five round trips (paper's
//!    S_min: 0.01 segments). β is 819/1024 and multiplies the window (paper: a reduction by 1/8).
//! 2. Before the first loss, beyond slow start, the window grows by at least a twentieth per round
//!    trip (Linux).
//! 3. A loss reduces the window, as in the paper and Linux, not the flight.
//! 4. Segments, recovery, growth, marks, silence and idleness: see `window.rs`.

use anabranch_core::control::{CongestionController, ControlParameters, ControllerConfig, Timeout};
use anabranch_core::recovery::{Feedback, FeedbackSchedule, SentPacket};
use anabranch_core::{PathView, SessionView};
use anabranch_units::Instant;
use anabranch_units::options::AlgorithmOption;

use super::window::{DELAYED_ACKNOWLEDGEMENTS, MIN_SSTHRESH, Window};

/// `low_window`, in segments: Reno up to here. The paper's value too.
const LOW_WINDOW: f64 = 14.0;
/// `max_increment`, the paper's S_max, in segments per round trip.
const MAX_INCREMENT: f64 = 16.0;
/// `smooth_part`: round trips that the last `BICTCP_B` segments below W_max take.
const SMOOTH_PART: f64 = 20.0;
/// `beta`: factor that a loss applies to the window.
const BETA: f64 = 819.0 / 1_024.0;
/// `BICTCP_B`: inverse of the part of the distance to W_max that a round trip adds.
const SEARCH_DIVISOR: f64 = 4.0;
/// Inverse of the least growth of the window per round trip before the first loss (Linux).
const FIRST_GROWTH_DIVISOR: f64 = 20.0;

const FAST_CONVERGENCE: AlgorithmOption = AlgorithmOption::words(
    "fast-convergence",
    "whether a flow with a loss below its last maximum yields as in the paper",
    &["on", "off"],
);

pub(super) const OPTIONS: &[AlgorithmOption] = &[FAST_CONVERGENCE];

pub(super) fn build(config: &ControllerConfig) -> Box<dyn CongestionController> {
    Box::new(Bic::new(config))
}

#[derive(Debug)]
struct Bic {
    window: Window,
    has_fast_convergence: bool,
    /// `W_max`, in segments; `None` before the first loss.
    max_window: Option<f64>,
}

impl Bic {
    fn new(config: &ControllerConfig) -> Self {
        Bic {
            window: Window::new(config),
            has_fast_convergence: config.options.word(&FAST_CONVERGENCE) == "on",
            max_window: None,
        }
    }

    /// Returns the growth in congestion avoidance, in segments per round trip.
    fn increment(&self) -> f64 {
        let window = self.window.segments;
        let smooth = SEARCH_DIVISOR / SMOOTH_PART;
        let beyond = window - self.max_window.unwrap_or(0.0);
        let increment = if window <= LOW_WINDOW {
            1.0
        } else if beyond < 0.0 {
            // Binary search increase.
            let step = -beyond / SEARCH_DIVISOR;
            if step > 1.0 {
                step.min(MAX_INCREMENT)
            } else {
                smooth
            }
        } else if beyond < SEARCH_DIVISOR {
            // Max probing.
            smooth
        } else {
            (beyond / (SEARCH_DIVISOR - 1.0)).min(MAX_INCREMENT)
        };
        if self.max_window.is_none() {
            increment.max(window / FIRST_GROWTH_DIVISOR)
        } else {
            increment
        }
    }

    /// Returns the window after a loss, in segments, and records W_max.
    fn reduce(&mut self) -> f64 {
        let window = self.window.segments;
        let is_shrinking = self.max_window.is_some_and(|max| window < max);
        self.max_window = Some(if self.has_fast_convergence && is_shrinking {
            window * (1.0 + BETA) / 2.0
        } else {
            window
        });
        let factor = if window <= LOW_WINDOW { 0.5 } else { BETA };
        (window * factor).max(MIN_SSTHRESH)
    }
}

impl CongestionController for Bic {
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
        if self.window.has_new_loss(feedback) || self.window.has_new_mark(feedback) {
            self.window.ssthresh = self.reduce();
            self.window.segments = self.window.segments.min(self.window.ssthresh);
            self.window.enter_recovery(feedback, self.window.segments);
        }
        let mut left = self.window.acked_segments(feedback);
        if !self.window.may_grow(feedback) {
            return;
        }
        if self.window.is_in_slow_start() {
            left = self.window.slow_start(left);
        }
        if left > 0.0 {
            self.window.segments += self.increment() * left / self.window.segments;
        }
    }

    fn on_penalty(&mut self) {
        self.window.on_penalty();
    }

    fn on_timeout(&mut self, _now: Instant, cause: Timeout) {
        match cause {
            Timeout::Retransmission { .. } | Timeout::FeedbackSilence { .. } => {
                let ssthresh = self.reduce();
                self.window.on_timeout(ssthresh);
                // Linux: the search starts from the beginning.
                self.max_window = None;
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
        match self.window.state() {
            "CongestionAvoidance" => match self.max_window {
                Some(max) if self.window.segments < max => "BinarySearch",
                _ => "MaxProbing",
            },
            state => state,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::beds::{link, segment_config, t1, t2_jain, t5_ratio};
    use super::super::testing::{Rig, SILENCE};
    use super::*;

    /// Returns a rig in congestion avoidance with a window of `segments`, after a loss at
    /// `max_window`.
    fn at(segments: f64, max_window: Option<f64>) -> Rig<Bic> {
        let mut rig = Rig::of_segments(Bic::new(&segment_config()));
        rig.controller.window.segments = segments;
        rig.controller.window.ssthresh = segments.min(2.0);
        rig.controller.max_window = max_window;
        rig
    }

    /// Returns the growth of the window in a round trip, rounded to thousandths.
    fn grown(segments: f64, max_window: Option<f64>) -> f64 {
        let mut rig = at(segments, max_window);
        rig.fill();
        rig.hear(0, rig.flying.len(), 100);
        ((rig.window_segments() - segments) * 1_000.0).round() / 1_000.0
    }

    #[test]
    fn increments_below_the_maximum_are_a_quarter_of_the_way_16_segments_at_most() {
        assert_eq!(grown(100.0, Some(400.0)), 16.0, "300 / 4 is too fast");
        assert_eq!(grown(100.0, Some(164.0)), 16.0);
        assert_eq!(grown(100.0, Some(140.0)), 10.0);
        assert_eq!(grown(100.0, Some(108.0)), 2.0);
        assert_eq!(grown(100.0, Some(104.0)), 0.2, "smooth next to it");
        assert_eq!(grown(100.0, Some(101.0)), 0.2);
    }

    #[test]
    fn increments_beyond_the_maximum_grow_as_the_search_is_mirrored() {
        assert_eq!(grown(100.0, Some(100.0)), 0.2);
        assert_eq!(grown(103.0, Some(100.0)), 0.2);
        assert_eq!(grown(106.0, Some(100.0)), 2.0);
        assert_eq!(grown(136.0, Some(100.0)), 12.0);
        assert_eq!(grown(148.0, Some(100.0)), 16.0);
        assert_eq!(grown(500.0, Some(100.0)), 16.0);
    }

    #[test]
    fn below_the_low_window_it_is_reno() {
        assert_eq!(grown(14.0, Some(400.0)), 1.0);
        assert_eq!(grown(15.0, Some(400.0)), 16.0);
        let mut rig = at(14.0, Some(400.0));
        rig.fill();
        rig.hear(1, 1, 100);
        assert_eq!(rig.window_segments(), 7.0);
    }

    #[test]
    fn before_the_first_loss_a_round_trip_adds_a_twentieth_at_least() {
        assert_eq!(grown(30.0, None), 10.0, "max probing from nothing");
        assert_eq!(grown(100.0, None), 16.0);
        assert_eq!(grown(1_000.0, None), 50.0);
    }

    #[test]
    fn slow_start_doubles() {
        let mut rig = Rig::of_segments(Bic::new(&segment_config()));
        rig.round(100);
        assert_eq!(
            (rig.window_segments(), rig.controller.state()),
            (20.0, "SlowStart")
        );
    }

    #[test]
    fn a_loss_leaves_819_of_1024_once_per_round_trip() {
        let mut rig = at(1_024.0, None);
        rig.fill();
        rig.hear(1, 1, 100);
        assert_eq!(
            (rig.window_segments(), rig.controller.state()),
            (819.0, "Recovery")
        );
        assert_eq!(rig.controller.max_window, Some(1_024.0));
        rig.hear(1, 1, 100);
        assert_eq!(rig.window_segments(), 819.0);
    }

    #[test]
    fn fast_convergence_lowers_a_shrinking_maximum() {
        for (has_fast_convergence, expected) in
            [(true, 1_024.0 * 1_843.0 / 2_048.0), (false, 1_024.0)]
        {
            let mut rig = at(1_024.0, Some(2_000.0));
            rig.controller.has_fast_convergence = has_fast_convergence;
            rig.fill();
            rig.hear(1, 1, 100);
            assert_eq!(rig.controller.max_window, Some(expected));
            assert_eq!(rig.window_segments(), 819.0);
        }
    }

    #[test]
    fn a_timeout_leaves_one_segment_and_forgets_the_maximum() {
        let mut rig = at(1_024.0, Some(2_000.0));
        rig.fill();
        for _ in 0..2 {
            rig.controller.on_timeout(rig.now, SILENCE);
            assert_eq!(
                (rig.window_segments(), rig.controller.max_window),
                (1.0, None)
            );
            assert_eq!(rig.controller.window.ssthresh, 819.0);
        }
    }

    #[test]
    fn the_window_is_back_at_its_maximum_in_the_time_of_the_search() {
        let mut rig = at(500.0, None);
        rig.fill();
        rig.hear(1, rig.flying.len() - 1, 100);
        let mut round_count = 0;
        while rig.window_segments() < 500.0 {
            rig.fill();
            rig.hear(0, rig.flying.len(), 100);
            round_count += 1;
        }
        // From 400: by 16 until 64 are missing, by quarters until 4 are, and those by 0.2.
        assert_eq!(round_count, 3 + 9 + 20);
    }

    #[test]
    fn property_a_queue_of_one_bdp_keeps_the_link_busy() {
        let flow = t1(1.0).greedy("bic", 0).run_secs(60).remove(0);
        assert!(flow.utilisation(20, 60) >= 0.98);
    }

    #[test]
    fn property_two_flows_share_evenly() {
        let jain = t2_jain("bic");
        assert!(jain >= 0.95, "{jain}");
    }

    #[test]
    fn property_it_takes_more_than_new_reno() {
        for queue in [1.0, 4.0] {
            let ratio = t5_ratio(link(50, queue), "bic", "new-reno");
            assert!((1.5..4.0).contains(&ratio), "{queue}: {ratio}");
        }
    }
}
