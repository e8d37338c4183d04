//! Forecast of a packet's arrival by a path: [`crate::PathView::arrival`].
//!
//! It knows a path's idleness, its queues and the bytes in flight. Admission, late drops, the rule
//! about copies, forward error correction, the encoder's target, metered paths and our schedulers
//! ask it. Published schedulers have their sources' own estimates. `core/tests/arrivals.rs` lists
//! the files that compute an arrival time.

use anabranch_units::{DataRate, Duration, Instant};

/// Position of a packet in a path's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// It is a first transmission: it leaves behind all waiting packets.
    New,
    /// It is a retransmission: it leaves behind other retransmissions only.
    Retransmission,
}

/// Arrival times of packets by a path, as estimated at one moment, and not changed later.
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
    /// Possible excess over this time: two mean deviations of the round-trip time. After idleness it
    /// is at most the jitter.
    pub delay_margin: Duration,
    /// Delivery rate of the path with a standing queue: the controller's estimate, or the measured
    /// rate if that is lower. Never zero.
    pub rate: DataRate,
    /// Rate at which the packets in flight leave a standing queue; `None` without such a queue.
    pub queue_rate: Option<DataRate>,
    /// Bytes in the network beyond the path's content without a queue; zero unless the path
    /// delivers less than is sent.
    pub backed_up_bytes: u64,
    /// Queueing delay of a packet that arrives now: measured, or that of the backed-up bytes.
    pub queueing_delay: Duration,
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
            queue_rate: None,
            backed_up_bytes: 0,
            queueing_delay: Duration::ZERO,
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

    /// Returns the time until a packet in flight arrives that was sent `age` ago. `bytes` bytes are
    /// in flight up to its last one: by Little's law a queue delivers them first. Reports are half
    /// of the least round-trip time old.
    pub fn arrival_in_flight(&self, age: Duration, bytes: u64) -> Duration {
        let queued = self.queue_rate.map_or(Duration::ZERO, |rate| {
            rate.time_for(bytes).saturating_sub(self.min_one_way_delay)
        });
        match self.is_congested() {
            true => queued,
            false => queued.max(self.one_way_delay.saturating_sub(age)),
        }
    }

    /// Returns the age from which a packet's acknowledgement is overdue, if the receiver holds it
    /// back for up to `held_back`.
    pub fn overdue_after(&self, held_back: Duration) -> Duration {
        self.one_way_delay * 2 + self.delay_margin + held_back
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
