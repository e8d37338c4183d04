//! `olia`: the Opportunistic Linked Increases Algorithm, draft-khalili-mptcp-congestion-control-05
//! (Khalili, Gast, Popovic, Upadhyay & Le Boudec 2012), and Linux's `mptcp_olia.c`.
//!
//! §2: each segment acknowledged on path i adds
//!
//! ```text
//! (w_i / rtt_i²) / (Σ w / rtt)² + alpha_i / w_i
//! ```
//!
//! where alpha moves windows from the largest paths to the best ones that are not largest. Best are
//! the paths of the largest l / rtt², with l the bytes acknowledged since the last loss, or between
//! the last two if that is more. Of n paths, with B the best and M the largest,
//!
//! ```text
//! alpha =  1 / (n |B \ M|)   in B \ M
//!         -1 / (n |M|)       in M, if B \ M is not empty
//!          0                 else
//! ```
//!
//! All else is New Reno's, each path for itself; the least threshold is one segment where there are
//! several paths.
//!
//! Deviations:
//! 1. The draft prints l² / rtt where Linux has l / rtt², which is its own estimate of a rate,
//!    √(2 l) / rtt, squared: Linux's. Matsufuji et al. print the first term without `rtt_i²`.
//! 2. Paths within a hundredth of the largest value are the largest, too.
//! 3. Growth is by bytes, as in `new-reno`, and a whole segment at a time. A window that alpha
//!    shrinks has at least a segment, and shrinks even if it is not used. The threshold shrinks
//!    with it: otherwise slow start would undo alpha's decrease.
//! 4. Paths that count, and their windows: see `coupled.rs`.

use anabranch_core::control::{CongestionController, ControllerConfig};

use super::coupled::{Share, Subflow, Subflows, largest};
use super::new_reno;

/// Share of the largest value from which another one counts as equal to it.
const EQUAL: f64 = 0.99;

pub(super) fn build(config: &ControllerConfig) -> Box<dyn CongestionController> {
    Box::new(new_reno::coupled(config, share))
}

fn share(subflows: &Subflows<'_>) -> Share {
    let rates = subflows.rate_ratio();
    Share {
        growth: 1.0 / (rates * rates) + alpha(subflows),
        min_ssthresh_packets: if subflows.are_several() { 1 } else { 2 },
        ..Share::RENO
    }
}

fn quality(subflow: &Subflow) -> f64 {
    subflow.loss_interval / (subflow.rtt * subflow.rtt)
}

fn alpha(subflows: &Subflows<'_>) -> f64 {
    let least_quality = EQUAL * largest(subflows.iter().map(|subflow| quality(&subflow)));
    let least_window = EQUAL * largest(subflows.iter().map(|subflow| subflow.window));
    let (mut all, mut largest, mut collected) = (0, 0, 0);
    for subflow in subflows.iter() {
        all += 1;
        if subflow.window >= least_window {
            largest += 1;
        } else if quality(&subflow) >= least_quality {
            collected += 1;
        }
    }
    let own = &subflows.own;
    if collected == 0 {
        0.0
    } else if own.window >= least_window {
        -1.0 / (f64::from(all) * f64::from(largest))
    } else if quality(own) >= least_quality {
        1.0 / (f64::from(all) * f64::from(collected))
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::super::coupled::testing::{
        assert_alone_is, assert_near, growths, life, shares, view,
    };
    use super::*;

    /// Returns the growth that alpha gives to each of these paths.
    fn alphas(paths: &[(f64, u64, u64)]) -> Vec<f64> {
        let views: Vec<_> = (0..)
            .zip(paths)
            .map(|(id, &(window, rtt, interval))| view(id, window, rtt, interval))
            .collect();
        let rates = paths.iter().map(|(window, rtt, _)| window / *rtt as f64);
        let sum: f64 = rates.clone().sum();
        let growths = growths(share, &views);
        let first_terms = rates.map(|rate| (rate / sum).powi(2));
        growths
            .iter()
            .zip(first_terms)
            .map(|(growth, first)| growth - first)
            .collect()
    }

    #[track_caller]
    fn assert_alphas(paths: &[(f64, u64, u64)], expected: &[f64]) {
        let alphas = alphas(paths);
        for (alpha, expected) in alphas.iter().zip(expected) {
            assert_near(*alpha, *expected);
        }
        assert_near(alphas.iter().sum(), 0.0);
    }

    #[test]
    fn the_first_term_is_the_one_printed() {
        // w / rtt² / (Σ w / rtt)² of 10 segments in 0.1 s beside 20 in 0.4 s, both best and largest
        // in nothing but the first: times w.
        let views = [view(0, 10.0, 100, 500), view(1, 10.0, 400, 1)];
        assert_near(growths(share, &views)[0], 1_000.0 / (125.0 * 125.0) * 10.0);
        assert_near(growths(share, &views)[1], 62.5 / (125.0 * 125.0) * 10.0);
    }

    #[test]
    fn alpha_moves_windows_from_the_largest_to_the_best() {
        assert_alphas(&[(5.0, 100, 90), (9.0, 100, 30)], &[0.5, -0.5]);
        assert_alphas(&[(9.0, 100, 90), (5.0, 100, 30)], &[0.0, 0.0]);
        // Two that are largest and one that is best, of four.
        let four = [(9.0, 50, 1), (9.0, 80, 1), (5.0, 40, 99), (7.0, 90, 1)];
        assert_alphas(&four, &[-0.125, -0.125, 0.25, 0.0]);
        // Two that are best, and one of them is the largest.
        let three = [(9.0, 50, 40), (5.0, 50, 40), (5.0, 50, 10)];
        assert_alphas(&three, &[-1.0 / 3.0, 1.0 / 3.0, 0.0]);
    }

    #[test]
    fn best_is_the_largest_interval_over_the_square_of_the_round_trip_time() {
        // 30 / 0.1² is more than 100 / 0.2², where l / rtt and l² / rtt say otherwise.
        assert_alphas(&[(5.0, 100, 30), (9.0, 200, 100)], &[0.5, -0.5]);
        assert_alphas(&[(5.0, 100, 24), (9.0, 200, 100)], &[0.0, 0.0]);
    }

    #[test]
    fn a_hundredth_less_is_equal() {
        assert_alphas(&[(9.95, 100, 30), (10.0, 100, 30)], &[0.0, 0.0]);
        assert_alphas(&[(9.8, 100, 30), (10.0, 100, 29)], &[0.5, -0.5]);
    }

    #[test]
    fn property_equal_paths_grow_by_a_square_of_their_number_each() {
        for count in 1..=4 {
            let views: Vec<_> = (0..count).map(|id| view(id, 12.0, 80, 50)).collect();
            for growth in growths(share, &views) {
                assert_near(growth, 1.0 / f64::from(count).powi(2));
            }
        }
    }

    #[test]
    fn a_loss_halves_and_one_segment_is_the_least_threshold_of_several() {
        let views = [view(0, 10.0, 100, 5), view(1, 10.0, 30, 5)];
        for share in shares(share, &views) {
            assert_eq!((share.kept, share.min_ssthresh_packets), (0.5, 1));
        }
        assert_eq!(shares(share, &views[..1])[0], Share::RENO);
    }

    #[test]
    fn a_largest_path_that_is_not_the_best_shrinks() {
        // (1 / (1 + 8.6))² - 1/2 of Reno's growth, until it is no larger than the best.
        let views = [view(0, 10.0, 100, 1), view(1, 6.0, 7, 90)];
        let life = life(share, &views);
        assert_eq!(life[..2], [20.0, 10.0], "slow start is its own");
        assert!((5.0..=6.0).contains(&life[2]), "{life:?}");
    }

    #[test]
    fn property_a_path_alone_is_new_reno() {
        assert_alone_is("olia", "new-reno");
    }
}
