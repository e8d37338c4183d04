//! Arrival filter B: the slope of the smoothed one-way delay over the last twenty groups (WebRTC).

use anabranch_units::Instant;

use super::inter_group::Delta;

const WINDOW: usize = 20;
/// Weight of the old value in the smoothed delay.
const SMOOTHING: f64 = 0.9;
/// Factor between a slope (ms per ms) and the scale of the threshold.
pub(super) const GAIN: f64 = 4.0;

/// A least-squares line through the delay as it accumulates.
#[derive(Clone, Debug, Default)]
pub(super) struct Trendline {
    first_received_at: Option<Instant>,
    accumulated_millis: f64,
    smoothed_millis: f64,
    /// (arrival, smoothed delay), both in milliseconds, in a ring.
    points: [(f64, f64); WINDOW],
    point_count: usize,
    slope: f64,
}

impl Trendline {
    /// Takes the next pair of groups and returns the slope.
    pub(super) fn on_delta(&mut self, delta: &Delta) -> f64 {
        let first_received_at = *self.first_received_at.get_or_insert(delta.received_at);
        self.accumulated_millis += delta.delay_millis;
        self.smoothed_millis =
            SMOOTHING * self.smoothed_millis + (1.0 - SMOOTHING) * self.accumulated_millis;
        let arrival_millis = delta
            .received_at
            .saturating_since(first_received_at)
            .as_millis_f64();
        self.points[self.point_count % WINDOW] = (arrival_millis, self.smoothed_millis);
        self.point_count += 1;
        if self.point_count >= WINDOW {
            self.slope = least_squares_slope(&self.points).unwrap_or(self.slope);
        }
        self.slope
    }
}

fn least_squares_slope(points: &[(f64, f64)]) -> Option<f64> {
    let count = points.len() as f64;
    let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / count;
    let (mut covariance, mut variance) = (0.0, 0.0);
    for (x, y) in points {
        covariance += (x - mean_x) * (y - mean_y);
        variance += (x - mean_x) * (x - mean_x);
    }
    (variance > 0.0).then(|| covariance / variance)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(delay_millis_per_group: f64, group_count: u64) -> Vec<f64> {
        let mut trendline = Trendline::default();
        (1..=group_count)
            .map(|group| {
                trendline.on_delta(&Delta {
                    sent_millis: 10.0,
                    delay_millis: delay_millis_per_group,
                    received_at: Instant::from_millis(group * 10),
                })
            })
            .collect()
    }

    #[test]
    fn slope_is_unknown_before_twenty_groups_and_right_when_smoothing_has_settled() {
        let slopes = run(0.5, 120);
        assert!(slopes[..19].iter().all(|slope| *slope == 0.0));
        assert!(slopes[19] > 0.0);
        assert!((slopes[119] - 0.05).abs() < 1e-4, "{}", slopes[119]);
    }

    #[test]
    fn slope_of_a_constant_delay_is_zero() {
        assert!(run(0.0, 60).iter().all(|slope| *slope == 0.0));
    }

    #[test]
    fn points_that_arrive_at_once_leave_the_slope_as_it_was() {
        assert_eq!(least_squares_slope(&[(3.0, 1.0), (3.0, 2.0)]), None);
        assert_eq!(least_squares_slope(&[(0.0, 1.0), (2.0, 2.0)]), Some(0.5));
    }
}
