//! Number of seeds for a verdict.
//!
//! Seeds are taken in *stages*. After a stage that is not the last, a claim is settled if more
//! seeds are not expected to change its verdict; else it takes those of the next stage. An
//! expectation is clear if its *gap*, the distance of the measured value from the bound, exceeds
//! its *margin*:
//!
//! `margin = 1.25 × t × s / √n`
//!
//! - `n` is the number of seeds so far, and `s` the standard deviation of their individual gaps.
//! - 1.25 is the standard error of a median over that of a mean (√(π/2), normal distribution).
//! - `t` is Student's quantile of 99.5 % for `n - 1` degrees of freedom.
//!
//! If the true gap of an expectation is zero, one stage in a hundred takes it for clear. If the gap
//! is larger, a stage errs more rarely. The margin is the same on both sides of the bound, so that
//! stopping favours no verdict. It depends on nothing but the spread, and was fixed before it was
//! used. Student's quantile assumes that gaps are about normal. All seeds are taken where this says
//! nothing: for expectations about *every* run, unless one run has broken them, and for gaps that
//! were equal in fewer than seven runs.

use anabranch_lab::compare::{deviation, student_t_995};

use super::judgement::{Expect, Judgement, Reach};

/// Number of seeds in the first stage.
const FIRST: u64 = 4;
/// Number of equal gaps after which a median is assumed to stay. For it to change, one run in two
/// would have to differ; seven equal runs would then occur in one of 128 cases.
const EQUAL: usize = 7;
/// Standard error of a median over that of a mean.
const OF_MEDIAN: f64 = 1.25;

/// Returns the number of seeds of each stage; that of the last is `most`: 4, 7, 13, 23, ….
pub(super) fn stages(most: u64) -> Vec<u64> {
    let before = core::iter::successors(Some(FIRST), |seeds| {
        Some(seeds.saturating_mul(7).div_ceil(4))
    })
    .take_while(|seeds| *seeds < most);
    before.chain([most]).collect()
}

/// Returns whether more seeds are not expected to change a verdict. `alone` has the judgement of
/// each seed on its own.
pub(super) fn is_settled(judgement: &Judgement, alone: &[Judgement]) -> bool {
    let count = judgement.expects.len();
    if alone.iter().any(|alone| alone.expects.len() != count) {
        return false;
    }
    let is_clear = |place: usize| {
        let gaps: Vec<f64> = alone.iter().map(|one| one.expects[place].gap).collect();
        is_clear(&judgement.expects[place], &gaps)
    };
    let mut all = judgement.expects.iter().enumerate();
    let is_broken = all.any(|(place, expect)| !expect.is_met && is_clear(place));
    is_broken || (0..count).all(is_clear)
}

fn is_clear(expect: &Expect, alone: &[f64]) -> bool {
    match expect.reach {
        Reach::Sure => true,
        Reach::Every => !expect.is_met,
        Reach::Any => expect.is_met,
        // If one run could not measure the value, its median is NaN.
        Reach::Typical if expect.gap == -f64::INFINITY => true,
        Reach::Typical => margin(alone).is_some_and(|margin| expect.gap.abs() > margin),
    }
}

/// Returns the distance from the bound within which an expectation is not clear; `None` if it is
/// never clear.
fn margin(gaps: &[f64]) -> Option<f64> {
    let deviation = deviation(gaps).filter(|deviation| deviation.is_finite())?;
    if gaps.iter().all(|gap| *gap == gaps[0]) {
        // Equal gaps are clear even at zero, so the margin is negative.
        return (gaps.len() >= EQUAL).then_some(-1.0);
    }
    let quantile = student_t_995(gaps.len() - 1);
    Some(OF_MEDIAN * quantile * deviation / libm::sqrt(gaps.len() as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judgement::{Measured, Samples};
    use anabranch_lab::metrics::Unit;

    fn judged(values: &[f64], expect: impl Fn(&Measured) -> Expect) -> Judgement {
        let samples = Samples(values.to_vec());
        let mut judgement = Judgement::new();
        judgement.expect(expect(&Measured::new("delay", Unit::Milliseconds, samples)));
        judgement
    }

    fn settled(values: &[f64], expect: impl Fn(&Measured) -> Expect) -> bool {
        let alone: Vec<Judgement> = values.iter().map(|v| judged(&[*v], &expect)).collect();
        is_settled(&judged(values, &expect), &alone)
    }

    #[test]
    fn looks_grow_by_three_quarters_and_end_with_the_last_seed() {
        assert_eq!(stages(10), [4, 7, 10]);
        assert_eq!(stages(30), [4, 7, 13, 23, 30]);
        assert_eq!(stages(4), [4]);
        assert_eq!(stages(1), [1]);
    }

    /// Their s is 1.29, the margin 1.25 × 5.841 × 1.29 / 2 = 4.71.
    #[test]
    fn the_margin_is_that_of_the_equation_on_both_sides() {
        let values = [9.0, 10.0, 11.0, 12.0];
        for (bound, is_clear) in [(15.1, false), (15.3, true), (5.9, false), (5.7, true)] {
            assert_eq!(settled(&values, |m| m.at_most(bound)), is_clear, "{bound}");
            assert_eq!(settled(&values, |m| m.at_least(bound)), is_clear, "{bound}");
        }
    }

    #[test]
    fn every_run_counts_until_one_breaks_it() {
        let values = [9.0, 10.0, 11.0, 12.0];
        assert!(!settled(&values, |m| m.always_at_most(1e6)));
        assert!(settled(&values, |m| m.always_at_most(11.5)));
        assert!(!settled(&values, |m| m.at_most(10.0).by_any_run()));
        assert!(settled(&values, |m| m.at_most(11.0).by_any_run()));
    }

    #[test]
    fn equal_gaps_are_trusted_from_seven_on() {
        assert!(!settled(&[0.0; 4], |m| m.at_most(5.0)));
        assert!(settled(&[0.0; 7], |m| m.at_most(5.0)));
        assert!(settled(&[0.0; 7], |m| m.at_most(0.0)));
    }

    #[test]
    fn one_clear_failure_settles_and_one_unclear_promise_does_not() {
        fn both(values: &[f64], far: f64, near: f64) -> Judgement {
            let mut judgement = judged(values, |m| m.at_most(far));
            judgement
                .expects
                .extend(judged(values, |m| m.at_most(near)).expects);
            judgement
        }
        let values = [9.0, 10.0, 11.0, 12.0];
        for (far, near, expected) in [(1.0, 11.0, true), (100.0, 11.0, false), (100.0, 90.0, true)]
        {
            let alone: Vec<Judgement> = values.iter().map(|v| both(&[*v], far, near)).collect();
            assert_eq!(
                is_settled(&both(&values, far, near), &alone),
                expected,
                "{far}, {near}"
            );
        }
    }

    #[test]
    fn unmeasurable_claims_are_settled() {
        assert!(settled(&[1.0, f64::NAN, 2.0, 1.0], |m| m.at_most(9.0)));
    }

    /// A linear congruential generator.
    struct Noise(u64);

    impl Noise {
        fn uniform(&mut self) -> f64 {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (self.0 >> 11) as f64 / (1_u64 << 53) as f64
        }

        /// Returns a number with mean 0 and variance 1, as a sum of twelve.
        fn normal(&mut self) -> f64 {
            (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
        }
    }

    /// Checks that normal gaps whose true median is the bound are clear as rarely as the module
    /// says.
    #[test]
    fn the_margin_errs_in_one_of_a_hundred_looks() {
        let mut noise = Noise(1);
        let stages = 20_000;
        let mut clear = 0;
        for _ in 0..stages {
            let values = [
                noise.normal(),
                noise.normal(),
                noise.normal(),
                noise.normal(),
            ];
            clear += u32::from(settled(&values, |m| m.at_most(0.0)));
        }
        let share = f64::from(clear) / f64::from(stages);
        assert!((0.003..=0.012).contains(&share), "{share}");
    }
}
