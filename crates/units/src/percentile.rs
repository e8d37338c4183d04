//! Percentiles and medians: one definition for all measurements and reports.

/// Returns the place, from 0, of a percentile among `count` sorted values; `None` without values.
///
/// It uses the nearest rank: the percentile is the value of rank ⌈`percent`/100 · `count`⌉, from 1.
/// It is therefore always one of the values, and `percent` of 100 of them are not above it.
///
/// # Panics
/// If `percent` is above 100.
pub fn percentile_place(count: u64, percent: u8) -> Option<u64> {
    assert!(percent <= 100, "percentiles end at 100, not {percent}");
    let rank = (u128::from(count) * u128::from(percent)).div_ceil(100) as u64;
    (count > 0).then(|| rank.max(1) - 1)
}

/// Returns the percentile of values in rising order, by [`percentile_place`]; `None` without
/// values.
///
/// # Panics
/// If `percent` is above 100.
pub fn percentile<T: Copy>(sorted: &[T], percent: u8) -> Option<T> {
    percentile_place(sorted.len() as u64, percent).map(|place| sorted[place as usize])
}

/// Returns the median of values in any order, and sorts them. It is the average of the middle two
/// if their number is even. `None` without values.
pub fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    Some(f64::midpoint(values[last / 2], values[last.div_ceil(2)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_the_value_of_the_nearest_rank() {
        let hundred: Vec<u32> = (1..=100).collect();
        for percent in 1..=100 {
            assert_eq!(percentile(&hundred, percent), Some(u32::from(percent)));
        }
        let seven = [10, 20, 30, 40, 50, 60, 70];
        // Ranks ⌈0.35⌉, ⌈3.5⌉, ⌈6.65⌉.
        let found = [0, 5, 50, 95].map(|percent| percentile(&seven, percent));
        assert_eq!(found, [Some(10), Some(10), Some(40), Some(70)]);
        assert_eq!(percentile::<u32>(&[], 50), None);
        assert_eq!(percentile_place(u64::MAX, 100), Some(u64::MAX - 1));
    }

    #[test]
    fn a_median_lies_between_the_middle_two() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&mut [4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(&mut []), None);
    }
}
