//! Share of the video for each path: the rates of least distortion.

/// Distortion of a video, after K. Stuhlmüller et al., "Analysis of video transmission over lossy
/// channels" (2000): `D(R) = D0 + θ / (R - R0) + κ P`. `D0` moves no minimum and is left out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Video {
    /// `θ`, in units of distortion times bit/s.
    pub(super) theta: f64,
    /// `R0`, in bit/s.
    pub(super) least_rate: f64,
    /// `κ`, the distortion if all packets are lost.
    pub(super) loss_sensitivity: f64,
}

/// A path as an M/M/1 queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PathModel {
    /// `c`, the rate that the path could carry of this video, in bit/s.
    pub(super) available: f64,
    /// `α`, in bits: the mean wait is `α / (c - r)`. A packet's size if packets come as in M/M/1.
    pub(super) burst: f64,
    /// `T`, the rest of the deadline after propagation, in seconds.
    pub(super) slack: f64,
}

impl PathModel {
    /// Returns the share of the packets that come too late, `e^(-(c - r) T / α)`.
    pub(super) fn late(&self, rate: f64) -> f64 {
        libm::exp(-(self.available - rate).max(0.0) * self.exponent())
    }

    /// Returns the logarithm of `d(r P(r)) / dr = (1 + r T / α) e^(-(c - r) T / α)`.
    #[cfg(test)]
    fn log_marginal(&self, rate: f64) -> f64 {
        let exponent = self.exponent();
        libm::log1p(rate * exponent) - (self.available - rate) * exponent
    }

    /// Returns the rate at which one more bit makes `e^log_price` bits more late.
    fn rate_at(&self, log_price: f64) -> f64 {
        // z = 1 + r T / α solves z + ln z = k.
        let k = log_price + 1.0 + self.available * self.exponent();
        let mut z = if k > 1.0 { k } else { libm::exp(k - 1.0) };
        for _ in 0..6 {
            z = (z * (1.0 + k - libm::log(z)) / (1.0 + z)).max(1e-9);
        }
        ((z - 1.0) / self.exponent()).clamp(0.0, self.available)
    }

    /// `T / α`.
    fn exponent(&self) -> f64 {
        self.slack.max(1e-3) / self.burst.max(1.0)
    }
}

/// Returns the logarithm of the price of lateness at which the distortion is least: every path gets
/// the rate at which one more bit costs the same ([`rate_of`]).
///
/// `dD/dr = -θ / (R - R0)² + κ (m / R - Σ r P / R²)`, `m` being the price, grows with it.
pub(super) fn best_price(video: &Video, paths: impl Iterator<Item = PathModel> + Clone) -> f64 {
    let (mut low, mut high) = (-60.0, 0.0);
    for _ in 0..40 {
        let price = 0.5 * (low + high);
        if slope(video, paths.clone(), price) < 0.0 {
            low = price;
        } else {
            high = price;
        }
    }
    low
}

/// Returns the rate of a path at a price.
pub(super) fn rate_of(path: &PathModel, log_price: f64) -> f64 {
    path.rate_at(log_price)
}

fn slope(video: &Video, paths: impl Iterator<Item = PathModel>, log_price: f64) -> f64 {
    let (mut rate, mut late) = (0.0, 0.0);
    for path in paths {
        let own = path.rate_at(log_price);
        rate += own;
        late += own * path.late(own);
    }
    if rate <= video.least_rate {
        return -1.0;
    }
    let gain = video.theta / ((rate - video.least_rate) * (rate - video.least_rate));
    let price = libm::exp(log_price);
    video.loss_sensitivity * (price / rate - late / (rate * rate)) - gain
}

#[cfg(test)]
mod tests {
    use super::*;

    const VIDEO: Video = Video {
        theta: 1e6,
        least_rate: 20e3,
        loss_sensitivity: 500.0,
    };

    fn path(megabits: f64, slack: f64) -> PathModel {
        PathModel {
            available: megabits * 1e6,
            burst: 16e3,
            slack,
        }
    }

    /// `θ / (R - R0) + κ Σ r P / R`.
    fn distortion(rates: &[f64], paths: &[PathModel]) -> f64 {
        let rate: f64 = rates.iter().sum();
        let late: f64 = rates
            .iter()
            .zip(paths)
            .map(|(r, path)| r * path.late(*r))
            .sum();
        VIDEO.theta / (rate - VIDEO.least_rate) + VIDEO.loss_sensitivity * late / rate
    }

    fn allocation(paths: &[PathModel]) -> Vec<f64> {
        let price = best_price(&VIDEO, paths.iter().copied());
        paths.iter().map(|path| rate_of(path, price)).collect()
    }

    #[test]
    fn late_packets_are_the_tail_of_an_m_m_1_queue() {
        // Mean wait 16e3 / 160e3 = 0.1 s; 0.2 s are left.
        let late = path(1.0, 0.2).late(0.84e6);
        assert!((late - libm::exp(-2.0)).abs() < 1e-12, "{late}");
        assert_eq!(path(1.0, 0.2).late(2e6), 1.0);
    }

    #[test]
    fn a_paths_rate_has_the_price_asked_for() {
        let path = path(2.0, 0.4);
        for log_price in [-20.0, -8.0, -1.0, 0.0] {
            let rate = path.rate_at(log_price);
            let found = path.log_marginal(rate);
            assert!((found - log_price).abs() < 1e-6, "{log_price}: {found}");
        }
        assert_eq!(path.rate_at(-60.0), 0.0);
        assert_eq!(path.rate_at(9.0), path.available);
    }

    #[test]
    fn no_other_rates_distort_less() {
        let paths = [path(2.0, 0.45), path(1.0, 0.35)];
        let rates = allocation(&paths);
        let least = distortion(&rates, &paths);
        for (first, second) in [
            (1.01, 1.0),
            (0.99, 1.0),
            (1.0, 1.01),
            (1.0, 0.99),
            (1.005, 0.99),
        ] {
            let other = distortion(&[rates[0] * first, rates[1] * second], &paths);
            assert!(other > least, "{first} {second}: {other} < {least}");
        }
    }

    #[test]
    fn equal_paths_get_equal_rates_and_less_slack_gets_less() {
        let equal = allocation(&[path(2.0, 0.4); 2]);
        assert!((equal[0] - equal[1]).abs() < 1.0, "{equal:?}");
        let uneven = allocation(&[path(2.0, 0.4), path(2.0, 0.1)]);
        assert!(uneven[0] > 1.02 * uneven[1], "{uneven:?}");
        assert!(uneven[1] > 0.5e6, "{uneven:?}");
    }

    #[test]
    fn burstier_paths_keep_more_room() {
        let smooth = allocation(&[path(2.0, 0.4)])[0];
        let bursty = PathModel {
            burst: 64e3,
            ..path(2.0, 0.4)
        };
        let bursty = allocation(&[bursty])[0];
        assert!(smooth > 1.5e6 && bursty < 0.9 * smooth, "{smooth} {bursty}");
    }
}
