//! Forecast of a packet's arrival by a path: [`crate::PathView::arrival`].
//!
//! Admission, retransmission, reinjection of packets on congested paths, placement of repairs, the
//! encoder's target over several paths, metered paths and our schedulers share it. Published
//! schedulers have their sources' own estimates. Late drops go by the path's least round-trip time,
//! and the FEC policy `adaptive` by the longest round-trip time of the paths.

use anabranch_units::{DataRate, Duration, Instant};

/// Position of a packet in a path's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// It is a first transmission: it leaves behind all waiting packets.
    New,
    /// It is a retransmission: it leaves behind other retransmissions only.
    Retransmission,
}

/// Arrival times of packets by a path, as estimated at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forecast {
    /// When it was made.
    pub made_at: Instant,
    /// When the pacer lets the next packet go; in the past if it was free before.
    pub ready_at: Instant,
    /// No packet takes less time to the receiver: half of the least round-trip time.
    pub min_one_way_delay: Duration,
    /// Time to the receiver of a packet that leaves now, behind the network's queues.
    pub one_way_delay: Duration,
    /// Possible excess over this time: two mean deviations of the round-trip time.
    pub delay_margin: Duration,
    /// Delivery rate of the path with a standing queue: the controller's estimate, or the measured
    /// rate if that is lower. Never zero.
    pub rate: DataRate,
    /// Bytes of waiting retransmissions, which leave first.
    pub retransmission_bytes: u64,
    /// Bytes in the network beyond the path's content without a queue; zero unless the path
    /// delivers less than is sent.
    pub backed_up_bytes: u64,
}

impl Forecast {
    /// The round-trip time of a path without a sample (`docs/algorithms.md`: an unknown round-trip
    /// time counts as 100 ms).
    pub const UNKNOWN_RTT: Duration = Duration::from_millis(100);

    /// Returns the forecast of a path that is idle and never changes.
    pub fn constant(rtt: Duration, rate: DataRate) -> Self {
        Forecast {
            made_at: Instant::ZERO,
            ready_at: Instant::ZERO,
            min_one_way_delay: rtt / 2,
            one_way_delay: rtt / 2,
            delay_margin: Duration::ZERO,
            rate: rate.max(DataRate::from_bits_per_second(1)),
            retransmission_bytes: 0,
            backed_up_bytes: 0,
        }
    }

    /// Returns the time until the pacer lets a packet go.
    pub fn ready_in(&self) -> Duration {
        self.ready_at.saturating_since(self.made_at)
    }

    /// Returns the time until the last of `bytes` bytes arrives that leave from now on.
    pub fn arrival(&self, bytes: u64) -> Duration {
        self.ready_in() + self.one_way_delay + self.rate.time_for(bytes)
    }

    /// Returns whether the path delivers less than is sent.
    pub fn is_congested(&self) -> bool {
        self.backed_up_bytes > 0
    }
}

impl Default for Forecast {
    /// Returns the forecast of an unknown path.
    fn default() -> Self {
        Self::constant(Self::UNKNOWN_RTT, DataRate::ZERO)
    }
}
