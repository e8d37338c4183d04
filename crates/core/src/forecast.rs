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
    /// Possible excess over this time: two mean deviations of the round-trip time. After idleness
    /// it is at most the jitter.
    pub delay_margin: Duration,
    /// Delivery rate of the path with a standing queue: the controller's estimate, or the measured
    /// rate if that is lower. Never zero.
    pub rate: DataRate,
    /// Rate at which the packets in flight leave a standing queue; `None` without such a queue.
    pub queue_rate: Option<DataRate>,
    /// Whether the path is congested: its delivery rate is then measured, and is both rates.
    pub is_congested: bool,
    /// Bytes in the network beyond the path's content without a queue; zero unless congested.
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
            is_congested: false,
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
        if self.is_congested {
            queued
        } else {
            queued.max(self.one_way_delay.saturating_sub(age))
        }
    }

    /// Returns the least time until data arrives whose acknowledgement is overdue: another round
    /// trip.
    pub fn overdue_arrival(&self) -> Duration {
        self.one_way_delay * 2
    }

    /// Returns the time to the receiver over the empty path.
    pub fn empty_arrival(&self) -> Duration {
        self.min_one_way_delay
    }

    /// Returns the time until a short packet arrives that leaves after `wait`.
    pub fn arrival_after(&self, wait: Duration) -> Duration {
        wait + self.one_way_delay
    }

    /// Returns the excess of the last byte's delay, of `bytes` bytes that leave from now on, over
    /// that of an empty path.
    pub fn excess_delay(&self, bytes: u64) -> Duration {
        self.arrival(bytes).saturating_sub(self.min_one_way_delay)
    }

    /// Returns the least time between a packet and its acknowledgement.
    pub fn min_round_trip(&self) -> Duration {
        self.min_one_way_delay * 2
    }

    /// Returns the age from which a packet's acknowledgement is overdue, if the receiver holds it
    /// back for up to `held_back`.
    pub fn overdue_after(&self, held_back: Duration) -> Duration {
        self.overdue_arrival() + self.delay_margin + held_back
    }
}

impl Default for Forecast {
    /// Returns the forecast of an unknown path.
    fn default() -> Self {
        Self::constant(Self::UNKNOWN_RTT, DataRate::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Returns the forecast of a path of 60 ms and 8 Mbit/s, a kilobyte a millisecond.
    fn forecast() -> Forecast {
        Forecast::constant(ms(60), DataRate::from_megabits_per_second(8))
    }

    #[test]
    fn without_a_queue_a_packet_in_flight_has_its_age_behind_it() {
        fn arrives_in(age: u64) -> Duration {
            forecast().arrival_in_flight(ms(age), 50_000)
        }
        assert_eq!([arrives_in(10), arrives_in(40)], [ms(20), ms(0)]);
    }

    #[test]
    fn a_standing_queue_delivers_the_bytes_before_a_packet_first() {
        let queued = Forecast {
            one_way_delay: ms(70),
            queue_rate: Some(DataRate::from_megabits_per_second(8)),
            ..forecast()
        };
        // 90 kB take 90 ms, 30 ms of which have passed.
        assert_eq!(queued.arrival_in_flight(ms(40), 90_000), ms(60));
        assert_eq!(queued.arrival_in_flight(ms(40), 50_000), ms(30));
        let congested = Forecast {
            is_congested: true,
            ..queued
        };
        assert_eq!(congested.arrival_in_flight(ms(40), 50_000), ms(20));
    }

    #[test]
    fn an_acknowledgement_is_overdue_after_a_round_trip_its_margin_and_the_receivers_delay() {
        let doubtful = Forecast {
            delay_margin: ms(8),
            ..forecast()
        };
        assert_eq!(doubtful.overdue_after(ms(40)), ms(108));
    }
}
