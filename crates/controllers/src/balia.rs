//! `balia`: the Balanced Linked Adaptation algorithm of draft-walid-mptcp-congestion-control-04
//! (Peng, Walid, Hwang & Low 2014).
//!
//! With x = w / rtt and a_i = max(x) / x_i each segment acknowledged on path i adds (§2)
//!
//! ```text
//! x_i / (rtt_i (Σ x)²) × (1 + a_i)/2 × (4 + a_i)/5
//! ```
//!
//! and a loss takes w_i/2 × min(a_i, 1.5). All else is New Reno's, each path for itself; the least
//! threshold is one segment if there are several paths. BALIA is between LIA, which is slow to
//! leave a path that loses packets, and OLIA, which is slow to take a path that becomes free.
//!
//! Deviations:
//! 1. A loss decreases the bytes in flight by the law's share, as in `new-reno`.
//! 2. Growth is by bytes, as in `new-reno`, and a whole segment at a time.
//! 3. Paths that count, and their windows: see `coupled.rs`.

use anabranch_core::control::{CongestionController, ControllerConfig};

use super::coupled::{Share, Subflows, largest};
use super::new_reno;

/// Bound of `a` in the decrease.
const MAX_RATIO: f64 = 1.5;

pub(super) fn build(config: &ControllerConfig) -> Box<dyn CongestionController> {
    Box::new(new_reno::coupled(config, share))
}

fn share(subflows: &Subflows<'_>) -> Share {
    let rate = subflows.own.rate();
    let ratio = largest(subflows.iter().map(|subflow| subflow.rate() / rate));
    let rates = subflows.rate_ratio();
    Share {
        growth: (1.0 + ratio) / 2.0 * (4.0 + ratio) / 5.0 / (rates * rates),
        kept: 1.0 - ratio.min(MAX_RATIO) / 2.0,
        min_ssthresh_packets: if subflows.are_several() { 1 } else { 2 },
    }
}

#[cfg(test)]
mod tests {
    use super::super::coupled::testing::{
        assert_alone_is, assert_near, growths, life, shares, view,
    };
    use super::*;

    #[test]
    fn the_increase_is_the_one_printed_and_the_kernel_s() {
        // 10 segments in 0.1 s, 20 in 0.4 s: x is 100 and 50.
        let paths = [(10.0, 0.1), (20.0, 0.4)];
        let views = [view(0, 10.0, 100, 0), view(1, 20.0, 400, 0)];
        let sum = 150.0_f64;
        for ((window, rtt), growth) in paths.into_iter().zip(growths(share, &views)) {
            let rate = window / rtt;
            let ratio: f64 = 100.0 / rate;
            let per_segment = rate / (rtt * sum * sum) * (1.0 + ratio) / 2.0 * (4.0 + ratio) / 5.0;
            assert_near(growth, per_segment * window);
            // Linux adds one segment per this number of acknowledged segments.
            let segments = 10.0 * window * sum * sum / ((rate + 100.0) * (4.0 * rate + 100.0));
            assert_near(growth, window / segments);
        }
    }

    #[test]
    fn a_loss_takes_half_of_the_fastest_path_and_three_quarters_of_one_much_slower() {
        fn kept(other: f64) -> f64 {
            let shares = shares(share, &[view(0, 10.0, 100, 0), view(1, other, 100, 0)]);
            assert!(shares.iter().all(|share| share.min_ssthresh_packets == 1));
            shares[0].kept
        }
        for (other, expected) in [
            (3.0, 0.5),
            (10.0, 0.5),
            (13.0, 0.35),
            (15.0, 0.25),
            (90.0, 0.25),
        ] {
            assert_near(kept(other), expected);
        }
        assert_eq!(shares(share, &[view(0, 10.0, 100, 0)])[0], Share::RENO);
    }

    #[test]
    fn a_slow_path_loses_three_quarters_but_a_timeout_s_threshold_is_half() {
        let views = [view(0, 10.0, 100, 0), view(1, 90.0, 100, 0)];
        let life = life(share, &views);
        assert_eq!(life[..2], [20.0, 5.0]);
        assert_eq!(life.last(), Some(&1.0));
    }

    #[test]
    fn property_no_path_grows_faster_than_reno() {
        for other in [1.0, 5.0, 10.0, 40.0, 400.0] {
            let views = [view(0, 10.0, 100, 0), view(1, other, 30, 0)];
            let growths = growths(share, &views);
            assert!(growths.iter().all(|growth| *growth <= 1.0), "{growths:?}");
        }
    }

    #[test]
    fn property_a_path_alone_is_new_reno() {
        assert_alone_is("balia", "new-reno");
    }
}
