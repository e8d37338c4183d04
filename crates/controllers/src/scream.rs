//! SCReAM, Self-Clocked Rate Adaptation for Multimedia: a window that follows the queuing delay,
//! and a media rate that follows the window.
//!
//! `scream-v1` is RFC 8298 ([`v1`]); `scream` is draft-johansson-ccwg-rfc8298bis-screamv2 ([`v2`]).

mod competing_flows;
mod trend;
mod v1;
mod v2;

use anabranch_core::control::ControllerConfig;
use anabranch_core::recovery::Feedback;
use anabranch_units::{Duration, Instant};

use super::one_way_delay::{BaseDelay, one_way_delay_millis};

pub(super) use v1::{OPTIONS as V1_OPTIONS, build as build_v1};
pub(super) use v2::{OPTIONS as V2_OPTIONS, build as build_v2};

/// Packets until a report is due, before the receiver has to forget arrival times.
const MAX_PACKETS_PER_REPORT: u32 = 100;

/// Returns the least and the largest media rate in bit/s: the least is a packet per second.
fn rate_limits(config: &ControllerConfig, segment_bytes: f64) -> (f64, f64) {
    let min_rate = (config.min_rate.bits_per_second() as f64).max(8.0 * segment_bytes);
    let max_rate = (config.max_rate.bits_per_second() as f64).max(min_rate);
    (min_rate, max_rate)
}

/// Bytes that a report acknowledges and declares lost, and number of packets that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Settled {
    acked_bytes: u64,
    lost_bytes: u64,
    acked_count: u64,
}

impl Settled {
    fn by(feedback: &Feedback<'_>) -> Self {
        let acked = feedback.acked.iter();
        let lost = feedback.lost.iter();
        Settled {
            acked_bytes: acked.map(|acked| u64::from(acked.sent.bytes)).sum(),
            lost_bytes: lost.map(|lost| u64::from(lost.bytes)).sum(),
            acked_count: feedback.acked.len() as u64,
        }
    }
}

/// Returns the least and the newest queuing delay of a report's packets, in milliseconds.
fn queue_delays_millis(
    base: &mut BaseDelay,
    now: Instant,
    feedback: &Feedback<'_>,
) -> Option<(f64, f64)> {
    let delays = feedback.acked.iter().filter_map(one_way_delay_millis);
    delays.fold(None, |found: Option<(f64, f64)>, delay_millis| {
        let queue_millis = base.queue_delay_millis(now, delay_millis);
        let least = found.map_or(queue_millis, |(least, _)| least.min(queue_millis));
        Some((least, queue_millis))
    })
}

/// Maximum of a quantity over about the last span: that of this span and of the one before.
#[derive(Clone, Copy, Debug, Default)]
struct RecentMax {
    current: u64,
    previous: u64,
    began_at: Option<Instant>,
}

impl RecentMax {
    fn on_value(&mut self, value: u64) {
        self.current = self.current.max(value);
    }

    /// Begins a new span if `span` has passed since this one began.
    fn advance(&mut self, now: Instant, span: Duration, value: u64) {
        let began_at = *self.began_at.get_or_insert(now);
        if now.saturating_since(began_at) >= span {
            self.previous = self.current;
            self.current = value;
            self.began_at = Some(now);
        }
        self.on_value(value);
    }

    fn max(&self) -> u64 {
        self.current.max(self.previous)
    }
}
