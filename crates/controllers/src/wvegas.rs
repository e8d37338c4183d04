//! `wvegas`: weighted Vegas (Cao, Xu & Fu, "Delay-based congestion control for multipath TCP", ICNP
//! 2012), in the form of Linux's `mptcp_wvegas.c`.
//!
//! All paths of a session together keep `total_alpha` packets queued, each in proportion to its
//! rate. Once per round trip, with the mean of its round-trip times and
//! diff = w (rtt - base) / rtt,
//!
//! ```text
//! diff ≥ alpha_i:  alpha_i = max(2, total_alpha × (w_i / rtt_i) / Σ (w / rtt))
//! then diff > alpha_i:  w -= 1,    diff < alpha_i:  w += 1
//! ```
//!
//! so that traffic leaves a path whose queue grows. If the queueing delay q = rtt - base is twice
//! its least, the queue is drained, so that all can measure their bases: w *= base / (2 rtt), and
//! the least is searched again. Slow start, losses, timeouts and the base are those of `vegas`.
//!
//! Deviations:
//! 1. Rates are windows over smoothed round-trip times (Linux: the rate that a path had when its
//!    alpha was last set). Paths that count: see `coupled.rs`.
//! 2. The least q is searched only in rounds with diff ≥ alpha_i, where the window has settled.
//!    Linux searches in all of them (`drain=any`). A window that grows from an empty queue doubles
//!    q at once, and is drained again before it has filled the path: alone on a link of 10 Mbit/s
//!    and 50 ms it takes 6 %.
//! 3. Of q only positive values count. Linux takes zero for unset, and drains an empty queue.
//! 4. diff and alpha_i are whole packets, as in Linux: within a packet the window stays.

use anabranch_core::control::{CongestionController, ControllerConfig};
use anabranch_units::Duration;
use anabranch_units::options::AlgorithmOption;

use super::vegas::{Avoidance, RoundTrip, Vegas};
use super::window::Round;

/// The backlog that ends slow start, in packets.
const GAMMA: f64 = 1.0;
/// Least value of `alpha`, and its initial one, in packets.
const MIN_ALPHA: f64 = 2.0;

const TOTAL_ALPHA: AlgorithmOption = AlgorithmOption::number(
    "total-alpha",
    "the backlog of all paths together, in packets",
    10.0,
    2.0..=1_000.0,
);
const DRAIN: AlgorithmOption = AlgorithmOption::words(
    "drain",
    "rounds after which a queueing delay of twice the least drains the queue",
    &["settled", "any", "off"],
);

pub(super) const OPTIONS: &[AlgorithmOption] = &[TOTAL_ALPHA, DRAIN];

pub(super) fn build(config: &ControllerConfig) -> Box<dyn CongestionController> {
    Box::new(weighted(config))
}

fn weighted(config: &ControllerConfig) -> Vegas<Weighted> {
    let weighted = Weighted {
        total_alpha: config.options.number(&TOTAL_ALPHA),
        drain: config.options.word(&DRAIN),
        alpha: MIN_ALPHA,
        least_queueing_delay: None,
    };
    Vegas::new(config, GAMMA, weighted)
}

#[derive(Debug)]
struct Weighted {
    total_alpha: f64,
    /// A word of [`DRAIN`].
    drain: &'static str,
    alpha: f64,
    /// Least queueing delay since the queue was last drained.
    least_queueing_delay: Option<Duration>,
}

impl Weighted {
    /// Whether the queueing delay is twice its least.
    fn is_drain_due(&mut self, queueing_delay: Duration, is_settled: bool) -> bool {
        let counts = self.drain == "any" || (self.drain == "settled" && is_settled);
        if !counts || queueing_delay.is_zero() {
            return false;
        }
        let least = self
            .least_queueing_delay
            .unwrap_or(queueing_delay)
            .min(queueing_delay);
        let is_due = queueing_delay >= least * 2;
        self.least_queueing_delay = (!is_due).then_some(least);
        is_due
    }
}

impl Avoidance for Weighted {
    fn round_trip(&self, round: &Round) -> Option<Duration> {
        round.mean_rtt()
    }

    fn window(&mut self, round: &RoundTrip<'_>) -> f64 {
        let backlog = libm::floor(round.backlog);
        if backlog >= self.alpha {
            let weight = 1.0 / round.subflows.rate_ratio();
            self.alpha = libm::floor(weight * self.total_alpha).max(MIN_ALPHA);
        }
        let window = if backlog > self.alpha {
            round.window - 1.0
        } else if backlog < self.alpha {
            round.window + 1.0
        } else {
            round.window
        };
        let queueing_delay = round.rtt.saturating_sub(round.base);
        if self.is_drain_due(queueing_delay, backlog >= self.alpha) {
            window * 0.5 * round.base.as_secs_f64() / round.rtt.as_secs_f64()
        } else {
            window
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_core::PathView;

    use super::super::coupled::testing::{assert_near, seen_by_first, view};
    use super::super::testing::Rig;
    use super::super::testing::beds::{segment_config, t1};
    use super::super::window::queued_share;
    use super::*;

    const BASE: Duration = Duration::from_millis(100);

    fn law() -> Weighted {
        weighted(&segment_config()).avoidance
    }

    /// Returns the window on the first of these paths after a round of `rtt_millis`.
    fn next(law: &mut Weighted, window: f64, rtt_millis: u64, paths: &[PathView]) -> f64 {
        let rtt = Duration::from_millis(rtt_millis);
        law.window(&RoundTrip {
            window,
            backlog: window * queued_share(BASE, rtt),
            rtt,
            base: BASE,
            subflows: seen_by_first(paths),
        })
    }

    fn alone() -> [PathView; 1] {
        [view(0, 40.0, 100, 0)]
    }

    #[test]
    fn the_backlog_is_kept_at_a_share_of_ten_packets_by_rate() {
        // 200 and 50 segments a second.
        let paths = [view(0, 20.0, 100, 0), view(1, 10.0, 200, 0)];
        let law = || Weighted {
            drain: "off",
            ..law()
        };
        // 40 × 22/122 is 7.2, 40 × 26/126 is 8.3, 40 × 30/130 is 9.2.
        for (rtt, expected) in [(122, 41.0), (126, 40.0), (130, 39.0)] {
            assert_eq!(next(&mut law(), 40.0, rtt, &paths), expected);
        }
        let swapped = [paths[1], paths[0]];
        for (rtt, expected) in [(104, 41.0), (106, 40.0), (109, 39.0)] {
            assert_eq!(next(&mut law(), 40.0, rtt, &swapped), expected);
        }
        for (rtt, expected) in [(130, 41.0), (135, 40.0), (140, 39.0)] {
            assert_eq!(next(&mut law(), 40.0, rtt, &alone()), expected);
        }
    }

    #[test]
    fn alpha_is_two_until_that_much_is_queued_and_then_at_the_least() {
        let mut law = law();
        next(&mut law, 40.0, 105, &alone());
        assert_eq!(law.alpha, 2.0, "1.9 are queued");
        next(&mut law, 40.0, 106, &alone());
        assert_eq!(law.alpha, 10.0);
        let paths = [view(0, 10.0, 200, 0), view(1, 90.0, 50, 0)];
        next(&mut law, 40.0, 140, &paths);
        assert_eq!(law.alpha, 2.0);
    }

    #[test]
    fn a_queueing_delay_that_has_doubled_is_drained_once() {
        let mut law = Weighted {
            drain: "any",
            ..law()
        };
        assert_eq!(
            next(&mut law, 40.0, 100, &alone()),
            41.0,
            "none is no least"
        );
        assert_eq!(next(&mut law, 40.0, 105, &alone()), 41.0);
        assert_eq!(next(&mut law, 40.0, 109, &alone()), 41.0);
        let drained = next(&mut law, 40.0, 110, &alone());
        assert_near(drained, 41.0 * 100.0 / 220.0);
        assert_eq!(next(&mut law, 40.0, 130, &alone()), 41.0, "the new least");
        assert_near(next(&mut law, 40.0, 160, &alone()), 39.0 * 100.0 / 320.0);
        law.drain = "off";
        next(&mut law, 40.0, 110, &alone());
        assert_eq!(next(&mut law, 40.0, 160, &alone()), 39.0);
    }

    #[test]
    fn a_round_is_judged_by_the_mean_of_its_samples() {
        let mut rig = Rig::of_segments(weighted(&segment_config()));
        rig.controller.avoidance.total_alpha = 4.0;
        // The base, and the end of the first round.
        rig.send(41);
        rig.hear(0, 1, 100);
        rig.send(1);
        rig.controller.window.segments = 40.0;
        rig.controller.window.ssthresh = 2.0;
        // 40 × 15.8/115.8 is 5.4. The least says 3.6 and the newest 4.3.
        for (acked, rtt) in [(20, 110), (20, 122), (1, 112)] {
            assert_eq!(rig.window_segments(), 40.0);
            rig.hear(0, acked, rtt);
        }
        assert_eq!(rig.window_segments(), 39.0);
    }

    #[test]
    fn the_least_delay_is_looked_for_where_the_window_has_settled() {
        let mut law = law();
        for rtt in [101, 105, 110, 130] {
            assert_eq!(next(&mut law, 40.0, rtt, &alone()), 41.0, "{rtt}");
        }
        assert_eq!(next(&mut law, 40.0, 135, &alone()), 40.0);
        assert_eq!(next(&mut law, 40.0, 169, &alone()), 39.0);
        assert_near(next(&mut law, 40.0, 170, &alone()), 39.0 * 100.0 / 340.0);
    }

    #[test]
    fn property_a_path_whose_queue_grows_loses_weight() {
        let alphas: Vec<f64> = (100..400)
            .step_by(20)
            .map(|rtt| {
                let mut law = Weighted {
                    total_alpha: 100.0,
                    ..law()
                };
                next(
                    &mut law,
                    40.0,
                    rtt,
                    &[view(0, 40.0, rtt, 0), view(1, 40.0, 100, 0)],
                );
                law.alpha
            })
            .collect();
        assert!(
            alphas[1..].is_sorted_by(|one, next| one > next),
            "{alphas:?}"
        );
        assert_eq!((alphas[1], alphas[14]), (45.0, 20.0));
    }

    #[test]
    fn property_alone_it_keeps_ten_packets_queued_and_loses_none() {
        for queue in [1.0, 5.0] {
            let flow = t1(queue).greedy("wvegas", 0).run_secs(60).remove(0);
            let backlog = flow.t1_backlog(20, 60);
            assert!((9.0..12.0).contains(&backlog), "{queue}: {backlog}");
            assert_eq!(flow.dropped_between(0, 60), 0);
            assert!(flow.utilisation(20, 60) >= 0.97);
        }
    }

    #[test]
    fn linux_s_drain_keeps_it_from_filling_the_path() {
        let flow = t1(1.0).greedy("wvegas:drain=any", 0).run_secs(60).remove(0);
        assert!(flow.utilisation(20, 60) < 0.1);
    }
}
