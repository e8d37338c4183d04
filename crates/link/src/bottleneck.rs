//! Serialisation: packets leave one after the other, each taking its size over the rate.

use std::collections::VecDeque;

use anabranch_units::{DataRate, Duration, Instant};

use crate::element::{DropCause, Dropped, Element};
use crate::packet::Packet;
use crate::queue::{DropTail, QueueLimit};
use crate::schedule::Schedule;
use crate::statistics::QueueStatistics;

const BIT_NANOS_PER_BYTE_SECOND: u128 = 8 * 1_000_000_000;

/// A transmitter of limited rate behind a drop-tail queue.
///
/// The queue holds `q` bytes, the packet in service included until its last bit has left; an
/// arriving packet is dropped if `q + size` exceeds the limit. Service is back to back: the next
/// one starts at the nanosecond at which the former ended. When the rate changes, the bits not yet
/// sent of the packet in service are sent at the new rate. At [`DataRate::MAX`] a packet leaves as
/// it enters.
#[derive(Clone, Debug)]
pub struct Bottleneck {
    rate: Schedule<DataRate>,
    queue: DropTail,
    in_service: Option<InService>,
    /// Packets that have left and that nobody has popped yet: the driver is late.
    departed: VecDeque<(Instant, Packet)>,
    statistics: QueueStatistics,
}

#[derive(Clone, Debug)]
struct InService {
    packet: Packet,
    started_at: Instant,
    ends_at: Instant,
}

impl Bottleneck {
    /// An idle transmitter. `limit` in time is taken at the schedule's initial rate.
    pub fn new(rate: Schedule<DataRate>, limit: QueueLimit) -> Self {
        let initial_rate = rate.value_at(Instant::ZERO);
        Bottleneck {
            rate,
            queue: DropTail::new(limit, initial_rate),
            in_service: None,
            departed: VecDeque::new(),
            statistics: QueueStatistics::default(),
        }
    }

    /// Bytes queued as of the last call, those of the packet in service included.
    pub fn queued_bytes(&self) -> u64 {
        let in_service = self.in_service.as_ref().map(|service| &service.packet);
        self.queue.bytes() + in_service.map_or(0, |packet| u64::from(packet.size_bytes))
    }

    /// Packets queued as of the last call, the one in service included.
    pub fn queued_packets(&self) -> usize {
        self.queue.len() + usize::from(self.in_service.is_some())
    }

    /// What happened up to `now`, which is not before the last call.
    pub fn statistics(&mut self, now: Instant) -> QueueStatistics {
        self.advance(now);
        let mut statistics = self.statistics;
        // Those inside have not been accounted, as that is done when a packet leaves.
        if let Some(service) = &self.in_service {
            statistics.busy += now.saturating_since(service.started_at);
        }
        let in_service = self.in_service.iter().map(|service| &service.packet);
        for packet in in_service.chain(self.queue.iter()) {
            statistics.record_stay(packet.size_bytes, now.saturating_since(packet.entered_at));
        }
        statistics
    }

    fn start_service(&mut self, now: Instant) {
        debug_assert!(self.in_service.is_none(), "one packet is served at a time");
        if let Some(packet) = self.queue.dequeue() {
            self.statistics
                .record_wait(now.saturating_since(packet.entered_at));
            let ends_at = self.service_end(now, packet.size_bytes);
            self.in_service = Some(InService {
                packet,
                started_at: now,
                ends_at,
            });
        }
    }

    /// When the last bit leaves of a packet whose first bit leaves at `now`.
    fn service_end(&mut self, now: Instant, size_bytes: u32) -> Instant {
        let mut rate = self.rate.advance(now);
        let ends_at = now + service_time(rate, size_bytes);
        if self
            .rate
            .upcoming()
            .first()
            .is_none_or(|(change_at, _)| ends_at <= *change_at)
        {
            return ends_at;
        }
        // Exact in bit · ns/s, in which a rate times a span is an integer.
        let mut remaining = u128::from(size_bytes) * BIT_NANOS_PER_BYTE_SECOND;
        let mut from = now;
        for &(change_at, next_rate) in self.rate.upcoming() {
            let capacity = u128::from(rate.bits_per_second())
                .saturating_mul(u128::from((change_at - from).as_nanos()));
            if remaining <= capacity {
                break;
            }
            remaining -= capacity;
            (from, rate) = (change_at, next_rate);
        }
        from + remaining_time(rate, remaining)
    }

    /// Ends the service that is due by `now`, if one is, and starts the next.
    fn end_service(&mut self, now: Instant) -> Option<(Instant, Packet)> {
        let service = self.in_service.take_if(|service| service.ends_at <= now)?;
        let InService {
            packet,
            started_at,
            ends_at,
        } = service;
        self.statistics.busy += ends_at - started_at;
        self.statistics
            .record_stay(packet.size_bytes, ends_at - packet.entered_at);
        self.statistics.served_packets += 1;
        self.statistics.served_bytes += u64::from(packet.size_bytes);
        self.start_service(ends_at);
        Some((ends_at, packet))
    }
}

/// [`DataRate::time_for`], but nothing at the rate that stands for "no limit".
fn service_time(rate: DataRate, size_bytes: u32) -> Duration {
    if rate == DataRate::MAX {
        Duration::ZERO
    } else {
        rate.time_for(u64::from(size_bytes))
    }
}

fn remaining_time(rate: DataRate, bit_nanos: u128) -> Duration {
    match rate {
        DataRate::ZERO => Duration::MAX,
        DataRate::MAX => Duration::ZERO,
        rate => {
            let nanos = bit_nanos.div_ceil(u128::from(rate.bits_per_second()));
            Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
        }
    }
}

impl Element for Bottleneck {
    fn push(&mut self, now: Instant, packet: Packet) -> Result<(), Dropped> {
        self.advance(now);
        let in_service = self.in_service.as_ref().map(|service| &service.packet);
        if let Err(packet) = self.queue.enqueue(now, packet, in_service) {
            return Err(Dropped {
                cause: DropCause::QueueFull,
                at: now,
                packet,
            });
        }
        let queued_bytes = self.queued_bytes();
        self.statistics.max_queued_bytes = self.statistics.max_queued_bytes.max(queued_bytes);
        if self.in_service.is_none() {
            self.start_service(now);
        }
        Ok(())
    }

    fn pop(&mut self, now: Instant) -> Option<Packet> {
        self.departed
            .pop_front()
            .or_else(|| self.end_service(now))
            .map(|(_, packet)| packet)
    }

    fn next_at(&self) -> Option<Instant> {
        let ends_at = || self.in_service.as_ref().map(|service| service.ends_at);
        let departed_at = self.departed.front().map(|(at, _)| *at);
        departed_at
            .or_else(ends_at)
            .filter(|at| *at < Instant::FAR_FUTURE)
    }

    fn advance(&mut self, now: Instant) {
        while let Some(departure) = self.end_service(now) {
            self.departed.push_back(departure);
        }
    }

    fn flush(&mut self, now: Instant, lost: &mut Vec<Packet>) {
        lost.extend(self.departed.drain(..).map(|(_, packet)| packet));
        if let Some(service) = self.in_service.take() {
            self.statistics.busy += now.saturating_since(service.started_at);
            let stay = now.saturating_since(service.packet.entered_at);
            self.statistics.record_stay(service.packet.size_bytes, stay);
            lost.push(service.packet);
        }
        while let Some(packet) = self.queue.dequeue() {
            let stay = now.saturating_since(packet.entered_at);
            self.statistics.record_stay(packet.size_bytes, stay);
            lost.push(packet);
        }
    }

    fn held_packets(&self) -> usize {
        self.departed.len() + self.queued_packets()
    }
}
