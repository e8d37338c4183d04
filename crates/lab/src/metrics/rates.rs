//! A flow's rates over time, and the measures of RFC 8868 §3.

use anabranch_units::{Duration, Instant};
use serde::{Deserialize, Serialize};

use super::variation::Variation;
use super::window::Window;

/// Bytes of a flow in intervals of 100 ms: 80 B for each second of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct RateSeries {
    bins: Vec<Bytes>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bytes {
    sent: u32,
    received: u32,
}

/// Variation of a flow's rates, by its samples of 200 ms (RFC 8868 §3).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RateSamples {
    /// The least rate received.
    pub received_min_bits_per_second: f64,
    /// The largest rate received.
    pub received_max_bits_per_second: f64,
    /// Standard deviation over mean of the rate received.
    pub received_variation: Option<f64>,
    /// Standard deviation over mean of the rate sent.
    pub sent_variation: Option<f64>,
    /// Number of times at which the received rate, over 500 ms, fell from 1.25 times its mean to
    /// 0.75 times.
    pub oscillations: u64,
    /// Time from the start of the flow or window until the received rate, over 1 s, stayed within
    /// 25 % of its mean over the second half; `null`: it did not settle.
    pub convergence_time_ms: Option<f64>,
}

const BIN: Duration = Duration::from_millis(100);
const HIGH_WATERMARK: f64 = 1.25;
const LOW_WATERMARK: f64 = 0.75;

impl RateSeries {
    /// Records sent bytes.
    #[inline]
    pub(crate) fn record_sent(&mut self, now: Instant, bytes: u32) {
        let bin = self.bin(now);
        bin.sent = bin.sent.saturating_add(bytes);
    }

    /// Records received bytes.
    #[inline]
    pub(crate) fn record_received(&mut self, now: Instant, bytes: u32) {
        let bin = self.bin(now);
        bin.received = bin.received.saturating_add(bytes);
    }

    fn bin(&mut self, now: Instant) -> &mut Bytes {
        let index = (now.as_nanos() / BIN.as_nanos()) as usize;
        if self.bins.len() <= index {
            self.bins.resize(index + 1, Bytes::default());
        }
        &mut self.bins[index]
    }

    /// Returns the rates in bit/s over consecutive periods of `bins` bins, as far as these lie in
    /// the window and in `from..to`.
    fn rates(
        &self,
        bins: usize,
        window: &Window,
        (from, to): (Instant, Instant),
        bytes: fn(&Bytes) -> u32,
    ) -> Vec<f64> {
        fn at(index: usize) -> Instant {
            Instant::ZERO + BIN * index as u64
        }

        let begin = window.from.max(from).as_nanos().div_ceil(BIN.as_nanos()) as usize;
        let end = (window.to.min(to).as_nanos() / BIN.as_nanos()) as usize;
        let period = BIN * bins as u64;
        let starts = (begin..end).step_by(bins).filter(|start| {
            start + bins <= end && window.overlap(at(*start), at(start + bins)) == period
        });
        starts
            .map(|start| {
                let bins = (start..start + bins).filter_map(|index| self.bins.get(index));
                let bytes: u64 = bins.map(|bin| u64::from(bytes(bin))).sum();
                bytes as f64 * 8.0 / period.as_secs_f64()
            })
            .collect()
    }

    /// Returns the received rates over consecutive periods.
    pub(crate) fn received(
        &self,
        period: Duration,
        window: &Window,
        span: (Instant, Instant),
    ) -> Vec<f64> {
        let bins = (period.as_nanos() / BIN.as_nanos()).max(1) as usize;
        self.rates(bins, window, span, |bin| bin.received)
    }

    /// Returns the samples in a window, of a flow that runs in `span`; `None`: it is shorter than
    /// two samples.
    pub(crate) fn samples(&self, window: &Window, span: (Instant, Instant)) -> Option<RateSamples> {
        let received = self.rates(2, window, span, |bin| bin.received);
        let sent = self.rates(2, window, span, |bin| bin.sent);
        if received.len() < 2 {
            return None;
        }
        let bins = self.rates(1, window, span, |bin| bin.received);
        Some(RateSamples {
            received_min_bits_per_second: received.iter().copied().fold(f64::MAX, f64::min),
            received_max_bits_per_second: received.iter().copied().fold(0.0, f64::max),
            received_variation: variation(&received),
            sent_variation: variation(&sent),
            oscillations: oscillations(&moving_means(&bins, 5)),
            convergence_time_ms: convergence_ms(&bins),
        })
    }

    /// Returns the time from the begin of `span` until the received rate settles: `Some(None)` if
    /// it does not, `None` if no part of `span` is in the window.
    pub(super) fn convergence(
        &self,
        window: &Window,
        span: (Instant, Instant),
    ) -> Option<Option<f64>> {
        let bins = self.rates(1, window, span, |bin| bin.received);
        (!bins.is_empty()).then(|| convergence_ms(&bins))
    }
}

fn variation(samples: &[f64]) -> Option<f64> {
    let mut variation = Variation::default();
    samples.iter().for_each(|sample| variation.record(*sample));
    variation.coefficient()
}

fn mean(samples: &[f64]) -> f64 {
    samples.iter().sum::<f64>() / samples.len().max(1) as f64
}

/// Returns the means of each sample and those before it, of at most `count` samples.
fn moving_means(samples: &[f64], count: usize) -> Vec<f64> {
    (0..samples.len())
        .map(|index| mean(&samples[(index + 1).saturating_sub(count)..=index]))
        .collect()
}

/// Counts the falls of a rate from the high watermark to the low one.
fn oscillations(rates: &[f64]) -> u64 {
    let mean = mean(rates);
    let mut was_high = false;
    let mut count = 0;
    for rate in rates {
        if *rate >= HIGH_WATERMARK * mean {
            was_high = true;
        } else if *rate <= LOW_WATERMARK * mean {
            count += u64::from(was_high);
            was_high = false;
        }
    }
    count
}

/// Returns the time from the begin of these rates over 100 ms until they settle.
fn convergence_ms(rates: &[f64]) -> Option<f64> {
    convergence_bins(&moving_means(rates, 10)).map(|bins| (BIN * bins as u64).as_millis_f64())
}

/// Returns the number of samples after which a rate stays within 25 % of its mean over the second
/// half; `None`: the last sample is still outside.
fn convergence_bins(rates: &[f64]) -> Option<usize> {
    fn is_settled(rate: &f64, settled: f64) -> bool {
        (rate - settled).abs() <= 0.25 * settled
    }

    let settled = mean(&rates[rates.len() / 2..]);
    match rates.iter().rposition(|rate| !is_settled(rate, settled)) {
        _ if settled <= 0.0 => None,
        None => Some(0),
        Some(last) if last + 1 < rates.len() => Some(last + 1),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the series of a flow that receives `kilobits` kbit/s at a time in ms, for 20 s.
    fn series(kilobits: impl Fn(u64) -> u64) -> RateSeries {
        let mut series = RateSeries::default();
        for at in (0..20_000).step_by(10) {
            // kbit/s times 10 ms are 10 bits.
            let bytes = (kilobits(at) * 10 / 8) as u32;
            series.record_received(Instant::from_millis(at), bytes);
            series.record_sent(Instant::from_millis(at), 2 * bytes);
        }
        series
    }

    const SPAN: (Instant, Instant) = (Instant::ZERO, Instant::from_secs(20));

    fn samples(kilobits: impl Fn(u64) -> u64) -> RateSamples {
        let window = Window::whole(Duration::from_secs(20));
        series(kilobits).samples(&window, SPAN).unwrap()
    }

    #[test]
    fn a_constant_rate_has_converged_and_does_not_vary() {
        let samples = samples(|_| 800);
        assert_eq!(samples.received_min_bits_per_second, 800e3);
        assert_eq!(samples.received_max_bits_per_second, 800e3);
        assert_eq!(
            (samples.received_variation, samples.sent_variation),
            (Some(0.0), Some(0.0))
        );
        assert_eq!(
            (samples.oscillations, samples.convergence_time_ms),
            (0, Some(0.0))
        );
    }

    #[test]
    fn convergence_ends_when_the_mean_of_a_second_stays_near_the_last_half() {
        // From 400 to 800 kbit/s at 5 s: 600 kbit/s, 25 % below, is the mean after half a second.
        let samples = samples(|at| if at < 5_000 { 400 } else { 800 });
        assert_eq!(samples.convergence_time_ms, Some(5_400.0));
        let late = super::tests::samples(|at| if at < 19_500 { 800 } else { 80 });
        assert_eq!(late.convergence_time_ms, None);
        assert_eq!(super::tests::samples(|_| 0).convergence_time_ms, None);
    }

    #[test]
    fn an_oscillation_is_a_fall_from_the_high_to_the_low_watermark() {
        // Periods of 4 s between 1600 and 400 kbit/s, around 1000: five falls in 20 s.
        let swing = samples(|at| if at % 4_000 < 2_000 { 1_600 } else { 400 });
        assert_eq!(swing.oscillations, 5);
        assert_eq!(
            swing
                .received_variation
                .map(|value| (value * 1e6).round() / 1e6),
            Some(0.6)
        );
        // Too small, and too fast for the mean of 500 ms.
        assert_eq!(
            samples(|at| if at % 4_000 < 2_000 { 1_100 } else { 900 }).oscillations,
            0
        );
        assert_eq!(
            samples(|at| if at % 500 < 250 { 1_600 } else { 400 }).oscillations,
            0
        );
    }

    #[test]
    fn only_samples_wholly_inside_count() {
        let window = Window {
            from: Instant::from_millis(1_050),
            to: Instant::from_secs(4),
            outside: Some((Instant::from_secs(2), Instant::from_secs(3))),
        };
        let rates = series(|at| at).received(Duration::from_millis(200), &window, SPAN);
        // From 1.1 s on: 1.1, 1.3, 1.5, 1.7, not 1.9, 2.1 to 2.9; then 3.1 to 3.7, and no 3.9.
        assert_eq!(rates.len(), 4 + 4);
        let seconds = Duration::from_secs(1);
        let late = (Instant::from_secs(18), Instant::from_secs(20));
        let whole = Window::whole(Duration::from_secs(20));
        assert_eq!(
            series(|_| 800).received(seconds, &whole, late),
            [800e3, 800e3]
        );
    }
}
