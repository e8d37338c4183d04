//! Fairness between flows.

/// Returns Jain's index, (Σ b)² / (n Σ b²): 1 if all shares are equal, 1/n if one flow has
/// everything. `None` if all shares are zero.
pub fn jain_index(shares: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (count, sum, squares) = shares
        .into_iter()
        .fold((0.0, 0.0, 0.0), |(count, sum, squares), b| {
            (count + 1.0, sum + b, squares + b * b)
        });
    (squares > 0.0).then(|| sum * sum / (count * squares))
}

/// Returns the smallest share over the largest; `None` for fewer than two, or if all are zero.
pub fn smallest_over_largest(shares: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (count, least, most) = shares
        .into_iter()
        .fold((0, f64::MAX, 0.0_f64), |(count, least, most), b| {
            (count + 1, b.min(least), b.max(most))
        });
    (count > 1 && most > 0.0).then(|| least / most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_share_over_the_largest_needs_two() {
        assert_eq!(smallest_over_largest([3.0, 1.0, 2.0]), Some(1.0 / 3.0));
        assert_eq!(smallest_over_largest([3.0]), None);
        assert_eq!(smallest_over_largest([0.0, 0.0]), None);
    }

    #[test]
    fn jains_index_lies_between_a_single_user_and_equal_shares() {
        assert_eq!(jain_index([2.5; 7]), Some(1.0));
        assert_eq!(jain_index([0.0, 3.0, 0.0, 0.0]), Some(0.25));
        let uneven = jain_index([1.0, 2.0, 3.0]).unwrap();
        assert!((uneven - 36.0 / 42.0).abs() < 1e-12);
        assert_eq!(jain_index([0.0, 0.0]), None);
    }
}
