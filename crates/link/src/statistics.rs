//! Statistics of links.

use anabranch_units::{DataRate, Duration, Instant};

use crate::element::DropCause;

/// Counters of a link up to an instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStatistics {
    /// Time of the reading.
    pub read_at: Instant,
    /// Duration of the observation: since the origin, or since the statistics that were subtracted.
    pub observed: Duration,
    /// Packets pushed, including those dropped immediately.
    pub offered_packets: u64,
    /// Bytes on the wire of the packets pushed.
    pub offered_bytes: u64,
    /// Packets that left the link.
    pub delivered_packets: u64,
    /// Bytes on the wire of the packets that left the link.
    pub delivered_bytes: u64,
    /// Packets lost, by cause.
    pub dropped: DropCounts,
    /// Packets inside when this was read. Each offered packet is delivered, dropped or held.
    pub held_packets: u64,
    /// Bytes in the bottleneck's queue when this was read, including the packet in service.
    pub queued_bytes: u64,
    /// Counters of the bottleneck.
    pub queue: QueueStatistics,
}

impl LinkStatistics {
    /// Returns the difference to `earlier` counts of the same link. Maxima are those of the whole
    /// time.
    pub fn since(&self, earlier: &LinkStatistics) -> LinkStatistics {
        LinkStatistics {
            read_at: self.read_at,
            observed: self.read_at - earlier.read_at,
            offered_packets: self.offered_packets - earlier.offered_packets,
            offered_bytes: self.offered_bytes - earlier.offered_bytes,
            delivered_packets: self.delivered_packets - earlier.delivered_packets,
            delivered_bytes: self.delivered_bytes - earlier.delivered_bytes,
            dropped: self.dropped.since(&earlier.dropped),
            held_packets: self.held_packets,
            queued_bytes: self.queued_bytes,
            queue: self.queue.since(&earlier.queue),
        }
    }

    /// Returns the share of the observed time in which the bottleneck was sending, in 0..=1. With a
    /// trace, it is the bytes sent over its average capacity, which a part of its period may
    /// exceed.
    pub fn utilisation(&self) -> f64 {
        ratio(self.queue.busy.as_secs_f64(), self.observed.as_secs_f64())
    }

    /// Returns the average bytes in the queue over the observed time, including the packet in
    /// service.
    pub fn mean_queued_bytes(&self) -> f64 {
        ratio(
            self.queue.byte_nanos as f64,
            self.observed.as_nanos() as f64,
        )
    }

    /// Returns the bytes on the wire that were delivered, over the observed time.
    pub fn delivered_rate(&self) -> DataRate {
        if self.observed.is_zero() {
            DataRate::ZERO
        } else {
            DataRate::from_bytes_per(self.delivered_bytes, self.observed)
        }
    }

    /// Returns lost packets over offered ones, in 0..=1.
    pub fn loss_ratio(&self) -> f64 {
        ratio(self.dropped.total() as f64, self.offered_packets as f64)
    }
}

fn ratio(numerator: f64, denominator: f64) -> f64 {
    if denominator > 0.0 {
        numerator / denominator
    } else {
        0.0
    }
}

/// Lost packets by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DropCounts([u64; DropCause::ALL.len()]);

impl DropCounts {
    /// Returns the packets lost for `cause`.
    pub fn of(&self, cause: DropCause) -> u64 {
        self.0[cause as usize]
    }

    /// Returns the packets lost for any cause.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    pub(crate) fn record(&mut self, cause: DropCause) {
        self.0[cause as usize] += 1;
    }

    fn since(&self, earlier: &DropCounts) -> DropCounts {
        DropCounts(core::array::from_fn(|cause| {
            self.0[cause] - earlier.0[cause]
        }))
    }
}

/// Counters of a bottleneck up to an instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueStatistics {
    /// Packets sent in full.
    pub served_packets: u64,
    /// Bytes sent of those packets.
    pub served_bytes: u64,
    /// Time with a packet in service. With a trace, it is the time that the sent packets take at
    /// its average rate. Over whole periods, this gives the used share of its capacity.
    pub busy: Duration,
    /// Integral over time of the bytes queued, in byte · ns.
    pub byte_nanos: u128,
    /// Maximum of the bytes queued.
    pub max_queued_bytes: u64,
    /// Packets whose service has started.
    pub started_packets: u64,
    /// Sum of the times from a packet's arrival to its start of service.
    pub waited: Duration,
    /// Maximum of those times.
    pub max_wait: Duration,
    /// Packets on which the queue's discipline set "congestion experienced".
    pub marked_packets: u64,
}

impl QueueStatistics {
    /// Returns the average time from a packet's arrival to its start of service, over packets.
    pub fn mean_wait(&self) -> Duration {
        match self.started_packets {
            0 => Duration::ZERO,
            count => self.waited / count,
        }
    }

    pub(crate) fn record_wait(&mut self, wait: Duration) {
        self.started_packets += 1;
        self.waited += wait;
        self.max_wait = self.max_wait.max(wait);
    }

    /// Records that a packet was queued for `stay`, service included. The sum over packets of size
    /// times stay is the integral of the queue over time.
    pub(crate) fn record_stay(&mut self, size_bytes: u32, stay: Duration) {
        self.byte_nanos += u128::from(size_bytes) * u128::from(stay.as_nanos());
    }

    fn since(&self, earlier: &QueueStatistics) -> QueueStatistics {
        QueueStatistics {
            served_packets: self.served_packets - earlier.served_packets,
            served_bytes: self.served_bytes - earlier.served_bytes,
            busy: self.busy - earlier.busy,
            byte_nanos: self.byte_nanos - earlier.byte_nanos,
            max_queued_bytes: self.max_queued_bytes,
            started_packets: self.started_packets - earlier.started_packets,
            waited: self.waited - earlier.waited,
            max_wait: self.max_wait,
            marked_packets: self.marked_packets - earlier.marked_packets,
        }
    }
}
