//! `lia`: the Linked Increases Algorithm, RFC 6356 (Raiciu, Handley & Wischik 2011).
//!
//! All paths together take no more from a bottleneck than one TCP on the best of them. By §3 each
//! acknowledgement of B bytes on path i adds
//!
//! ```text
//! min(alpha B MSS / cwnd_total, B MSS / cwnd_i)
//! alpha = cwnd_total max(cwnd / rtt²) / (Σ cwnd / rtt)²
//! ```
//!
//! and all else is New Reno's, each path for itself.
//!
//! Deviations:
//! 1. alpha is computed with every report (§4.1: once per round trip will do), as a fraction, so
//!    that there is no least increase of a byte. `cwnd_total` is in both equations and cancels: it
//!    does not matter which windows count in it (§3: those of recovery, and of senders that have
//!    too little to send).
//! 2. Growth is by bytes, as in `new-reno`, and a whole segment at a time.
//! 3. Paths that count, and their windows: see `coupled.rs`.

use anabranch_core::control::{CongestionController, ControllerConfig};

use super::coupled::{Share, Subflows, largest};
use super::new_reno;

pub(super) fn build(config: &ControllerConfig) -> Box<dyn CongestionController> {
    Box::new(new_reno::coupled(config, share))
}

/// Returns the ratio of §3's minimum to its second term, which is Reno's growth.
fn share(subflows: &Subflows<'_>) -> Share {
    let own = subflows.own;
    let best = largest(subflows.iter().map(|subflow| {
        let rtt_ratio = own.rtt / subflow.rtt;
        subflow.window / own.window * rtt_ratio * rtt_ratio
    }));
    let rates = subflows.rate_ratio();
    Share {
        growth: (best / (rates * rates)).min(1.0),
        ..Share::RENO
    }
}

#[cfg(test)]
mod tests {
    use super::super::coupled::testing::{
        assert_alone_is, assert_near, growths, life, shares, view,
    };
    use super::*;

    /// Computes RFC 6356 §3 as printed, in segments and seconds: the growth of the first of these
    /// paths by a window of acknowledgements.
    fn printed(paths: &[(f64, f64)]) -> f64 {
        let total: f64 = paths.iter().map(|(window, _)| window).sum();
        let best = largest(paths.iter().map(|(window, rtt)| window / (rtt * rtt)));
        let sum: f64 = paths.iter().map(|(window, rtt)| window / rtt).sum();
        let alpha = total * best / (sum * sum);
        let own = paths[0].0;
        (alpha / total).min(1.0 / own) * own
    }

    #[test]
    fn rfc6356_3_is_the_increase_printed() {
        for (others, expected) in [
            // 20 × 10/0.1² / (10/0.1 + 10/0.2)² / 20 × 10.
            (vec![(10.0, 0.1), (10.0, 0.2)], 4.0 / 9.0),
            (vec![(100.0, 1.0), (1.0, 0.01)], 25.0),
            (vec![(30.0, 0.05), (4.0, 0.3), (7.0, 0.08)], f64::NAN),
            (vec![(4.0, 0.3), (30.0, 0.05), (7.0, 0.08)], f64::NAN),
        ] {
            let views: Vec<_> = (0..)
                .zip(&others)
                .map(|(id, &(window, rtt))| view(id, window, (rtt * 1e3) as u64, 0))
                .collect();
            let growth = growths(share, &views)[0];
            assert_near(growth, printed(&others));
            if !expected.is_nan() {
                assert_near(growth, expected.min(1.0));
            }
        }
    }

    #[test]
    fn property_equal_paths_grow_by_a_square_of_their_number_each() {
        for count in 1..=4 {
            let views: Vec<_> = (0..count).map(|id| view(id, 12.0, 80, 0)).collect();
            for growth in growths(share, &views) {
                assert_near(growth, 1.0 / f64::from(count).powi(2));
            }
        }
    }

    #[test]
    fn property_no_path_grows_faster_than_reno() {
        let far = [view(0, 100.0, 1_000, 0), view(1, 1.0, 10, 0)];
        let growths = growths(share, &far);
        assert!(growths.iter().all(|growth| *growth <= 1.0), "{growths:?}");
        assert_eq!(growths[0], 1.0, "alpha alone would have it be 25");
    }

    #[test]
    fn a_loss_halves_and_two_segments_are_the_least_threshold() {
        let views = [view(0, 10.0, 100, 0), view(1, 10.0, 30, 0)];
        for share in shares(share, &views) {
            assert_eq!((share.kept, share.min_ssthresh_packets), (0.5, 2));
        }
    }

    #[test]
    fn beside_a_path_alike_it_grows_a_quarter_as_fast() {
        let views = [view(0, 11.0, 100, 0), view(1, 11.0, 100, 0)];
        let [alone, coupled] = [&[][..], &views].map(|paths| life(share, paths));
        // Twenty round trips after the loss.
        assert_eq!(alone, [20.0, 10.0, 30.0, 15.0, 1.0]);
        assert_eq!(coupled[..2], alone[..2]);
        assert!((12.0..=17.0).contains(&coupled[2]), "{coupled:?}");
    }

    #[test]
    fn property_a_path_alone_is_new_reno() {
        assert_alone_is("lia", "new-reno");
    }
}
