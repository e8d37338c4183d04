//! Rate of the first round trips, if the source gives media at a rate of its own.
//!
//! Ours, for `live-bbr`. A Startup from the initial window takes five round trips to 4 Mbit/s at
//! 600 ms, and media of a fixed source is late meanwhile. So the path gets the source's rate until
//! there is evidence that it does not carry that. Then the rate is that of Startup.

use anabranch_core::recovery::{Feedback, RttEstimator};
use anabranch_units::{DataRate, Duration};

use super::profile::{MinRateFloor, Start};
use super::{DelayBbr, INITIAL_BYTES, Mode};

/// Factor for headers, retransmissions and repairs beside the media. Chosen: the results are flat
/// from 1 to 1.25; at 2 a slow path loses a quarter more.
const HEADROOM: f64 = 1.25;
/// Share of losses above which the path does not carry the rate (draft-ietf-rmcat-gcc-02 §6: above
/// it, the loss-based controller decreases).
const MOST_LOST: f64 = 0.1;
/// Bytes acknowledged or lost before the share of losses counts: one burst is too small a sample.
const MIN_SAMPLE_BYTES: u64 = 30_000;
/// A round-trip time above this multiple of the least one, …
const QUEUE_FACTOR: f64 = 1.25;
/// … and longer than it by this, shows a queue. Over short paths Startup is quick enough.
const LEAST_QUEUE: Duration = Duration::from_millis(20);
/// Most that may be noise. Until the jitter is known, a slow path takes as much more of a queue
/// (chosen; over random networks 40 to 100 differ by less than seeds do).
const MOST_NOISE: Duration = Duration::from_millis(60);

/// The rate that the source asks of an unknown path, and the evidence against it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Opening {
    source_rate: DataRate,
    least_rtt: Option<Duration>,
    has_queued: bool,
    has_lost: bool,
}

impl Opening {
    pub(super) fn on_source_rate(&mut self, rate: DataRate) {
        self.source_rate = rate;
    }

    /// Whether the source gives media at a rate of its own.
    pub(super) fn is_of_fixed_source(&self) -> bool {
        !self.source_rate.is_zero()
    }

    /// Handles a round-trip time without jitter, and the excess that may be noise.
    pub(super) fn on_rtt(&mut self, rtt: Duration, margin: Duration) {
        let least = self.least_rtt.map_or(rtt, |least| least.min(rtt));
        self.least_rtt = Some(least);
        let noise = margin.clamp(LEAST_QUEUE, MOST_NOISE);
        self.has_queued |= rtt > least.mul_f64(QUEUE_FACTOR).max(least + noise);
    }

    pub(super) fn on_report(&mut self, feedback: &Feedback<'_>) {
        let settled_bytes = feedback.delivered_bytes + feedback.lost_bytes;
        let most_lost_bytes = settled_bytes as f64 * MOST_LOST;
        let is_lossy = feedback.lost_bytes as f64 > most_lost_bytes;
        self.has_lost |= settled_bytes >= MIN_SAMPLE_BYTES && is_lossy;
    }

    /// Returns the initial rate; zero once there is evidence against it.
    pub(super) fn rate(&self) -> DataRate {
        if self.has_queued || self.has_lost {
            DataRate::ZERO
        } else {
            self.source_rate.mul_f64(HEADROOM)
        }
    }

    /// Whether the source's rate overflows the path's buffer. Both signs together end Startup.
    pub(super) fn is_overflowing(&self) -> bool {
        self.has_queued && self.has_lost && !self.source_rate.is_zero()
    }
}

impl DelayBbr {
    /// Whether the first Startup is over because the source overflows the buffer. It waits for the
    /// first sample, the estimate with which Drain begins.
    #[cold]
    pub(super) fn has_opening_overflowed(&self) -> bool {
        self.is_first_startup() && self.opening.is_overflowing() && !self.bandwidth.max().is_zero()
    }

    /// Returns the rate before the first sample, and the least one in the first Startup.
    #[cold]
    pub(super) fn initial_pacing_rate(&self) -> DataRate {
        let window_rate = match (self.profile.start, self.min_rtt.value) {
            (Start::InitialWindow, Some(min_rtt)) => {
                let round_trip = min_rtt.max(RttEstimator::GRANULARITY);
                DataRate::from_bytes_per(self.initial_window_bytes(), round_trip)
                    .mul_f64(self.profile.startup_gain)
            }
            _ => DataRate::from_bytes_per(INITIAL_BYTES, self.min_rtt.or_initial()),
        };
        match self.profile.min_rate_floor {
            MinRateFloor::Always => window_rate.max(self.assumed_bandwidth()),
            MinRateFloor::CruisingOnly if self.min_rtt.value.is_none() => {
                self.config.min_rate.mul_f64(self.profile.startup_gain)
            }
            MinRateFloor::CruisingOnly => window_rate,
        }
    }

    /// Returns the pacing gain of the first Startup. Where the source gives less than the estimate,
    /// trains find the rate within a second, and each picture would queue: over 6 Mbit/s and 5 % of
    /// loss, 9 frames in 15,000 more are late at Startup's gain.
    #[cold]
    pub(super) fn first_startup_gain(&self, usual: f64) -> f64 {
        if self.is_app_limited && !self.opening.rate().is_zero() {
            HEADROOM
        } else {
            usual
        }
    }

    /// Returns the assumed bandwidth before the first sample.
    #[cold]
    pub(super) fn assumed_bandwidth(&self) -> DataRate {
        match self.profile.min_rate_floor {
            MinRateFloor::Always => self.config.initial_rate.max(self.opening.rate()),
            MinRateFloor::CruisingOnly => self.config.initial_rate,
        }
    }

    /// Whether the path has neither been full nor silent yet: its rate only grows.
    pub(super) fn is_first_startup(&self) -> bool {
        self.profile.start == Start::InitialWindow
            && matches!(self.mode, Mode::Startup)
            && self.counts_from == 0
    }

    fn initial_window_bytes(&self) -> u64 {
        u64::from(self.config.initial_window_packets) * u64::from(self.config.max_packet_bytes)
    }

    /// Returns the burst that may be sent before the first report: the initial window.
    pub(super) fn burst_bytes(&self) -> u64 {
        let is_start = self.profile.start == Start::InitialWindow
            && self.min_rtt.value.is_none()
            && self.bandwidth.max().is_zero()
            && !self.is_silent;
        if is_start {
            self.initial_window_bytes()
                .saturating_sub(u64::from(self.config.max_packet_bytes))
        } else {
            0
        }
    }
}
