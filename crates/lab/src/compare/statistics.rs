//! Confidence of a mean of a few runs.

use serde::Serialize;

/// A mean with its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The mean of the runs.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval (Student's t); `None` with a single run.
    pub half_width: Option<f64>,
}

/// Student's t, two-sided 95 %, for 1 to 30 degrees of freedom.
const STUDENT_T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];
/// The same for more degrees of freedom: their least number, and the value.
const STUDENT_T_BEYOND: [(usize, f64); 3] = [(120, 1.980), (60, 2.000), (40, 2.021)];

/// Returns the 97.5 % quantile of Student's t. Between the tabulated degrees of freedom it is that
/// of the lower one, which errs to the wide side.
///
/// # Panics
/// If there are no degrees of freedom.
pub fn student_t_975(degrees_of_freedom: usize) -> f64 {
    assert!(degrees_of_freedom > 0, "one run says nothing of others");
    let beyond = STUDENT_T_BEYOND
        .into_iter()
        .find(|(from, _)| degrees_of_freedom >= *from);
    beyond.map_or_else(|| STUDENT_T[degrees_of_freedom.min(30) - 1], |(_, t)| t)
}

/// Student's t, one-sided 99.5 %, by degrees of freedom.
const STUDENT_T_995: [(usize, f64); 10] = [
    (1, 63.66),
    (2, 9.925),
    (3, 5.841),
    (4, 4.604),
    (5, 4.032),
    (6, 3.707),
    (9, 3.250),
    (12, 3.055),
    (20, 2.845),
    (40, 2.704),
];

/// Returns the 99.5 % quantile, as [`student_t_975`].
///
/// # Panics
/// If there are no degrees of freedom.
pub fn student_t_995(degrees_of_freedom: usize) -> f64 {
    let mut known = STUDENT_T_995.into_iter().rev();
    let found = known.find(|(freedom, _)| *freedom <= degrees_of_freedom);
    found.expect("one run says nothing of others").1
}

/// Returns the standard deviation of the distribution from which independent runs are drawn; `None`
/// with fewer than two.
pub fn deviation(values: &[f64]) -> Option<f64> {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values
        .iter()
        .map(|value| (value - mean) * (value - mean))
        .sum();
    (values.len() > 1).then(|| (squares / (count - 1.0)).sqrt())
}

impl Estimate {
    /// Returns the estimate of independent runs; `None` without any.
    pub fn of(values: &[f64]) -> Option<Estimate> {
        let count = values.len() as f64;
        (!values.is_empty()).then(|| Estimate {
            mean: values.iter().sum::<f64>() / count,
            half_width: deviation(values)
                .map(|deviation| student_t_975(values.len() - 1) * deviation / count.sqrt()),
        })
    }

    /// Whether zero lies outside the interval; `None` if there is none.
    pub fn excludes_zero(self) -> Option<bool> {
        self.half_width
            .map(|half_width| self.mean.abs() > half_width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_students() {
        // Mean 3, deviation sqrt(2.5), 4 degrees of freedom: 2.776 * 1.5811 / 2.2361.
        let estimate = Estimate::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert_eq!(estimate.mean, 3.0);
        assert!(
            (estimate.half_width.unwrap() - 1.9629).abs() < 1e-3,
            "{estimate:?}"
        );
        assert_eq!(estimate.excludes_zero(), Some(true));
        let small = Estimate::of(&[-1.0, 2.0, -0.5, 1.0]).unwrap();
        assert_eq!(small.excludes_zero(), Some(false));
    }

    #[test]
    fn one_run_has_no_interval_and_equal_runs_have_none_to_speak_of() {
        assert_eq!(Estimate::of(&[]), None);
        assert_eq!(Estimate::of(&[7.0]).unwrap().excludes_zero(), None);
        assert_eq!(Estimate::of(&[7.0; 3]).unwrap().half_width, Some(0.0));
        assert_eq!(
            Estimate::of(&[0.0; 3]).unwrap().excludes_zero(),
            Some(false)
        );
        assert_eq!(Estimate::of(&[0.1; 3]).unwrap().excludes_zero(), Some(true));
    }

    #[test]
    fn t_falls_with_the_degrees_of_freedom() {
        let values: Vec<f64> = (1..200).map(student_t_975).collect();
        assert!(values.windows(2).all(|pair| pair[0] >= pair[1]));
        for freedom in 1..200 {
            assert!(student_t_995(freedom) > student_t_975(freedom), "{freedom}");
        }
        assert!(student_t_995(2) > student_t_995(3) && student_t_995(7) == student_t_995(8));
        assert_eq!(
            (values[0], values[8], values[34], values[150]),
            (12.706, 2.262, 2.042, 1.980)
        );
    }
}
