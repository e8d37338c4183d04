//! When one controller beats another.

use crate::compare::Estimate;

/// Difference of means that counts as none, as a share: rounding.
const EQUAL: f64 = 0.001;
/// Least share of the delay or of the goodput that counts as better: chosen, above the differences
/// of other seeds.
const LESS_DELAY: f64 = 0.02;
const MORE_GOODPUT: f64 = 0.01;

/// Delay and goodput of a controller at a point, of each seed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trade<'a> {
    pub(super) delays_ms: &'a [f64],
    pub(super) goodputs: &'a [f64],
}

/// Returns whether `one` is no worse than `other` in both, and better beyond noise in one. It never
/// dominates itself.
pub(super) fn dominates(one: &Trade<'_>, other: &Trade<'_>) -> bool {
    let delay = Lead::of(other.delays_ms, one.delays_ms);
    let goodput = Lead::of(one.goodputs, other.goodputs);
    let is_no_worse = delay.share >= -EQUAL && goodput.share >= -EQUAL;
    is_no_worse && (delay.is_beyond(LESS_DELAY) || goodput.is_beyond(MORE_GOODPUT))
}

/// By how much one measure exceeds another.
#[derive(Clone, Copy, Debug)]
struct Lead {
    /// Mean difference by the larger of both means; not finite values count as largest.
    share: f64,
    /// Whether chance may be the reason of the differences, seed by seed.
    is_noise: bool,
}

impl Lead {
    fn of(larger: &[f64], smaller: &[f64]) -> Lead {
        let (large, small) = (super::mean(larger), super::mean(smaller));
        if large.is_infinite() || small.is_infinite() {
            let share = match (large.is_infinite(), small.is_infinite()) {
                (true, true) => 0.0,
                (true, false) => 1.0,
                _ => -1.0,
            };
            return Lead {
                share,
                is_noise: false,
            };
        }
        let pairs = larger.iter().zip(smaller);
        let differences: Vec<f64> = pairs.map(|(large, small)| large - small).collect();
        let estimate = Estimate::of(&differences);
        let most = large.max(small);
        Lead {
            share: if most > 0.0 {
                (large - small) / most
            } else {
                0.0
            },
            is_noise: estimate.and_then(Estimate::excludes_zero) == Some(false),
        }
    }

    fn is_beyond(self, share: f64) -> bool {
        self.share > share && !self.is_noise
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beats(one: (&[f64], &[f64]), other: (&[f64], &[f64])) -> bool {
        let [one, other] = [one, other].map(|(delays_ms, goodputs)| Trade {
            delays_ms,
            goodputs,
        });
        dominates(&one, &other)
    }

    #[test]
    fn less_delay_and_more_goodput_dominate_and_a_trade_does_not() {
        let good: (&[f64], &[f64]) = (&[100.0, 101.0], &[900.0, 905.0]);
        let slow: (&[f64], &[f64]) = (&[200.0, 201.0], &[800.0, 805.0]);
        let greedy: (&[f64], &[f64]) = (&[200.0, 201.0], &[950.0, 955.0]);
        assert!(beats(good, slow) && !beats(slow, good));
        assert!(!beats(good, greedy) && !beats(greedy, good));
        assert!(beats(greedy, slow), "equal delay, more goodput");
        assert!(!beats(good, good));
    }

    #[test]
    fn differences_within_the_noise_do_not_dominate() {
        // By 1 % less delay, and by 0.5 % more goodput: too little.
        assert!(!beats((&[99.0], &[1_005.0]), (&[100.0], &[1_000.0])));
        assert!(beats((&[97.0], &[1_005.0]), (&[100.0], &[1_000.0])));
        // On average a fifth less, but one seed of three says the opposite.
        let scattered: (&[f64], &[f64]) = (&[60.0, 130.0, 50.0], &[1_000.0; 3]);
        assert!(!beats(scattered, (&[100.0; 3], &[1_000.0; 3])));
        assert!(beats(
            (&[79.0, 81.0, 80.0], &[1_000.0; 3]),
            (&[100.0; 3], &[1_000.0; 3])
        ));
    }

    #[test]
    fn a_controller_without_frames_is_dominated() {
        let nothing: (&[f64], &[f64]) = (&[f64::INFINITY], &[0.0]);
        let some: (&[f64], &[f64]) = (&[5_000.0], &[10.0]);
        assert!(beats(some, nothing) && !beats(nothing, some));
        assert!(!beats(nothing, nothing));
    }
}
