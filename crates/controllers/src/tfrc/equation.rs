//! The throughput of TCP Reno as a function of loss event rate and round-trip time (RFC 5348 §3.1,
//! with b = 1), and its inverse.

/// The equation for one segment size, in bytes on the wire.
#[derive(Clone, Copy, Debug)]
pub(super) struct Equation {
    pub(super) segment_bytes: f64,
    /// Whether the chance of a timeout is at most 1, as in Padhye et al. 1998 and ns-2, but not in
    /// RFC 5348.
    pub(super) is_chance_bounded: bool,
}

impl Equation {
    /// Returns `X_Bps` in bytes per second; times are in seconds. Infinite without loss.
    pub(super) fn rate(&self, loss_event_rate: f64, rtt: f64, timeout: f64) -> f64 {
        let p = loss_event_rate.min(1.0);
        if p <= 0.0 {
            return f64::INFINITY;
        }
        let chance = 3.0 * (3.0 * p / 8.0).sqrt();
        let chance = if self.is_chance_bounded {
            chance.min(1.0)
        } else {
            chance
        };
        let seconds_per_segment =
            rtt * (2.0 * p / 3.0).sqrt() + timeout * chance * p * (1.0 + 32.0 * p * p);
        self.segment_bytes / seconds_per_segment
    }

    /// Returns the loss event rate at which [`Equation::rate`] is `rate`.
    pub(super) fn loss_event_rate(&self, rate: f64, rtt: f64, timeout: f64) -> f64 {
        // The rate falls as p rises; 50 halvings of 16 decades are exact enough.
        let (mut low, mut high) = (-16.0, 0.0);
        for _ in 0..50 {
            let middle = (low + high) / 2.0;
            if self.rate(libm::exp10(middle), rtt, timeout) > rate {
                low = middle;
            } else {
                high = middle;
            }
        }
        libm::exp10(high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RFC: Equation = Equation {
        segment_bytes: 1_000.0,
        is_chance_bounded: false,
    };

    /// By hand, for R = 0.1 s and `t_RTO` = 0.4 s:
    /// p = 0.01: 0.1 · 0.081650 + 0.4 · 0.183712 · 0.01 · 1.0032 = 0.0089022 s;
    /// p = 0.1: 0.1 · 0.258199 + 0.4 · 0.580948 · 0.1 · 1.32 = 0.0564939 s;
    /// p = 1: 0.1 · 0.816497 + 0.4 · 1.837117 · 33 = 24.331598 s.
    #[test]
    fn rfc5348_3_1_throughput_equation() {
        for (p, seconds) in [(0.01, 0.008_902_2), (0.1, 0.056_493_9), (1.0, 24.331_598)] {
            let rate = RFC.rate(p, 0.1, 0.4);
            assert!((rate * seconds / 1_000.0 - 1.0).abs() < 1e-4, "{p}: {rate}");
        }
        assert_eq!(RFC.rate(0.0, 0.1, 0.4), f64::INFINITY);
    }

    /// p = 1: 0.1 · 0.816497 + 0.4 · 1 · 33 = 13.281650 s; below 8/27 the two agree.
    #[test]
    fn ns2_bounds_the_chance_of_a_timeout() {
        let ns2 = Equation {
            is_chance_bounded: true,
            ..RFC
        };
        let rate = ns2.rate(1.0, 0.1, 0.4);
        assert!((rate * 13.281_65 / 1_000.0 - 1.0).abs() < 1e-4, "{rate}");
        assert_eq!(ns2.rate(0.29, 0.1, 0.4), RFC.rate(0.29, 0.1, 0.4));
    }

    #[test]
    fn rfc5348_6_3_1_the_inverse_is_within_5_percent() {
        for p in [1e-6, 1e-4, 0.003, 0.02, 0.3, 1.0] {
            let inverse = RFC.loss_event_rate(RFC.rate(p, 0.08, 0.32), 0.08, 0.32);
            assert!((inverse / p - 1.0).abs() < 0.05, "{p}: {inverse}");
        }
    }
}
