//! The queuing delay's target, which rises where loss-based flows keep the queue long
//! (RFC 8298 §4.1.2.1).

use anabranch_units::{Duration, Instant};

/// Samples of the variance, and of the mean.
const VARIANCE_HISTORY: usize = 200;
const MEAN_HISTORY: usize = 50;
/// Share of round trips with loss above which other flows compete.
const LOSS_EVENT_RATE: f64 = 0.002;
/// Weight of one round trip in that share.
const LOSS_WEIGHT: f64 = 0.01;
/// Variance below which the delay is steady.
const STEADY_VARIANCE: f64 = 0.2;

/// `qdelay_target`, between a low and a high bound.
#[derive(Clone, Debug)]
pub(super) struct DelayTarget {
    low_millis: f64,
    high_millis: f64,
    pub(super) millis: f64,
    /// Delays by the low bound, in a ring.
    history: [f64; VARIANCE_HISTORY],
    sample_count: usize,
    pub(super) loss_event_rate: f64,
    has_lost: bool,
    round_began_at: Option<Instant>,
}

impl DelayTarget {
    pub(super) fn new(low_millis: f64, high_millis: f64) -> Self {
        DelayTarget {
            low_millis,
            high_millis,
            millis: low_millis,
            history: [0.0; VARIANCE_HISTORY],
            sample_count: 0,
            loss_event_rate: 0.0,
            has_lost: false,
            round_began_at: None,
        }
    }

    /// Updates the target after a report.
    pub(super) fn on_report(&mut self, now: Instant, has_lost: bool, rtt: Duration) {
        self.has_lost |= has_lost;
        let began_at = *self.round_began_at.get_or_insert(now);
        if now.saturating_since(began_at) >= rtt {
            let sample = f64::from(u8::from(core::mem::take(&mut self.has_lost)));
            self.loss_event_rate += LOSS_WEIGHT * (sample - self.loss_event_rate);
            self.round_began_at = Some(now);
        }
    }

    /// Takes a queuing delay, every 50 ms.
    pub(super) fn on_sample(&mut self, queue_millis: f64) {
        self.history[self.sample_count % VARIANCE_HISTORY] = queue_millis / self.low_millis;
        self.sample_count += 1;
        let (mean, variance) = self.mean_and_variance();
        self.adjust((mean + variance.sqrt()) * self.low_millis, variance);
    }

    fn adjust(&mut self, new_millis: f64, variance: f64) {
        let millis = if self.loss_event_rate > LOSS_EVENT_RATE {
            1.5 * new_millis
        } else if variance < STEADY_VARIANCE {
            new_millis
        } else if new_millis < self.low_millis {
            new_millis.max(0.5 * self.millis)
        } else {
            0.9 * self.millis
        };
        self.millis = millis.clamp(self.low_millis, self.high_millis);
    }

    /// Returns the mean of the newest samples, and the variance of all.
    fn mean_and_variance(&self) -> (f64, f64) {
        let count = self.sample_count.min(VARIANCE_HISTORY);
        let newest =
            (0..count).map(|age| self.history[(self.sample_count - 1 - age) % VARIANCE_HISTORY]);
        let recent = count.min(MEAN_HISTORY);
        let recent_mean = newest.clone().take(recent).sum::<f64>() / recent as f64;
        let mean = newest.clone().sum::<f64>() / count as f64;
        let squares = newest.map(|sample| (sample - mean) * (sample - mean));
        (recent_mean, squares.sum::<f64>() / count as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(millis: f64) -> DelayTarget {
        DelayTarget {
            millis,
            ..DelayTarget::new(100.0, 400.0)
        }
    }

    #[test]
    fn rfc8298_4_1_2_1_target_adjustment() {
        for (loss_event_rate, variance, before, new, expected) in [
            (0.01, 0.9, 100.0, 150.0, 225.0),
            (0.01, 0.0, 100.0, 390.0, 400.0),
            (0.0, 0.1, 100.0, 250.0, 250.0),
            (0.0, 0.1, 300.0, 20.0, 100.0),
            (0.0, 0.3, 300.0, 80.0, 150.0),
            (0.0, 0.3, 300.0, 200.0, 270.0),
        ] {
            let mut target = target(before);
            target.loss_event_rate = loss_event_rate;
            target.adjust(new, variance);
            assert_eq!(target.millis, expected);
        }
    }

    #[test]
    fn rfc8298_4_1_2_1_mean_of_fifty_and_variance_of_two_hundred() {
        let mut target = target(100.0);
        (0..150).for_each(|_| target.on_sample(100.0));
        (0..50).for_each(|_| target.on_sample(300.0));
        let (mean, variance) = target.mean_and_variance();
        assert!((mean - 3.0).abs() < 1e-9 && (variance - 0.75).abs() < 1e-9);
    }

    #[test]
    fn rfc8298_4_1_2_1_loss_event_rate_counts_round_trips_with_loss() {
        let mut target = target(100.0);
        let rtt = Duration::from_millis(100);
        for report in 0..9 {
            let now = Instant::from_millis(20 * report);
            target.on_report(now, report < 4, rtt);
        }
        assert_eq!(target.loss_event_rate, 0.01);
    }
}
