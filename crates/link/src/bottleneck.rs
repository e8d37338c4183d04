//! Serialisation behind a managed queue: packets leave one after the other, each taking its size
//! over the rate.

use std::collections::VecDeque;

use anabranch_units::{DataRate, Instant};

use crate::discipline::{Ledger, Queue, QueueDiscipline, Refused};
use crate::element::{Dropped, Element};
use crate::forecast::{Departure, Forecast};
use crate::moves::unsent_bytes;
use crate::packet::Packet;
use crate::queue::Load;
use crate::statistics::QueueStatistics;
use crate::transmitter::Transmitter;

/// A transmitter of limited rate behind a managed queue. The discipline picks each packet at the
/// instant at which it leaves; otherwise as [`DropTail`](crate::DropTail).
#[derive(Clone, Debug)]
pub(crate) struct Bottleneck {
    transmitter: Transmitter,
    queue: Queue,
    /// Start of service, while the queue has a packet and the transmitter no opportunity yet.
    starts_at: Option<Instant>,
    in_service: Option<InService>,
    /// Packets that have left and have not been popped, as the driver is late.
    departed: VecDeque<(Instant, Packet)>,
    ledger: Ledger,
}

#[derive(Clone, Debug)]
struct InService {
    packet: Packet,
    started_at: Instant,
    ends_at: Instant,
}

impl Bottleneck {
    /// Creates an idle transmitter behind an empty queue.
    pub(crate) fn new(transmitter: Transmitter, queue: Queue) -> Self {
        Bottleneck {
            transmitter,
            queue,
            starts_at: None,
            in_service: None,
            departed: VecDeque::new(),
            ledger: Ledger::default(),
        }
    }

    /// Sends at `rate` from `now` on.
    pub(crate) fn set_rate(&mut self, now: Instant, rate: DataRate) {
        self.advance(now);
        self.transmitter.set_rate(rate);
        match &mut self.in_service {
            Some(service) => {
                let (started_at, size_bytes) = (service.started_at, service.packet.size_bytes);
                let unsent = unsent_bytes(now, started_at, service.ends_at, size_bytes);
                service.ends_at = self.transmitter.end_at(now, unsent);
            }
            None if self.starts_at.take().is_some() => self.start_service(now),
            None => {}
        }
    }

    fn service_load(&self) -> Load {
        let in_service = self.in_service.as_ref();
        in_service.map_or(Load::default(), |service| Load::of(&service.packet))
    }

    fn load(&self) -> Load {
        self.queue.load().plus(self.service_load())
    }

    /// Returns the bytes queued as of the last call, including the packet in service.
    pub(crate) fn queued_bytes(&self) -> u64 {
        self.load().bytes
    }

    /// Returns the statistics up to `now`, which is not before the last call.
    pub(crate) fn statistics(&mut self, now: Instant) -> QueueStatistics {
        self.advance(now);
        let mut statistics = self.ledger.statistics;
        // Packets inside are otherwise accounted when they leave.
        self.queue
            .for_each(&mut |packet| record_stay(&mut statistics, packet, now));
        if let Some(service) = &self.in_service {
            record_stay(&mut statistics, &service.packet, now);
            statistics.busy += self.transmitter.busy(service.started_at, now, 0);
        }
        statistics
    }

    /// Passes all packets inside through the forecast `behind`, which becomes the forecast of both.
    pub(crate) fn forecast(
        &self,
        now: Instant,
        mut behind: Forecast,
        inside: &mut Vec<Departure>,
    ) -> Forecast {
        behind.free_at = now;
        let mut transmitter = self.transmitter.clone();
        let mut next_at = self.starts_at;
        if let Some(service) = &self.in_service {
            inside.push(pass(&mut behind, &service.packet, service.ends_at));
            next_at = None;
        }
        let mut free_at = self
            .in_service
            .as_ref()
            .map_or(now, |service| service.ends_at);
        self.queue.for_each(&mut |packet| {
            let starts_at = next_at
                .take()
                .unwrap_or_else(|| transmitter.start_at(free_at, false));
            free_at = transmitter.end_at(starts_at, packet.size_bytes);
            inside.push(pass(&mut behind, packet, free_at));
        });
        behind.transmitter = Some(transmitter);
        behind
    }

    /// Takes the next packet when it may, as the transmitter is free at `now`.
    fn begin(&mut self, now: Instant, was_idle: bool) {
        debug_assert!(self.in_service.is_none(), "one packet is served at a time");
        let starts_at = match &mut self.transmitter {
            Transmitter::Rate { .. } => now,
            Transmitter::Trace(_) if self.queue.load().is_empty() => return,
            Transmitter::Trace(cursor) => cursor.start_at(now, was_idle),
        };
        if starts_at <= now {
            self.start_service(now);
        } else {
            self.starts_at = Some(starts_at);
        }
    }

    fn start_service(&mut self, now: Instant) {
        if let Some(packet) = self.queue.dequeue(now, &mut self.ledger) {
            let wait = now.saturating_since(packet.entered_at);
            self.ledger.statistics.record_wait(wait);
            let ends_at = self.transmitter.end_at(now, packet.size_bytes);
            self.in_service = Some(InService {
                packet,
                started_at: now,
                ends_at,
            });
        }
    }

    /// Returns whether the start or the end of a service is due by `now`.
    #[inline]
    fn is_due(&self, now: Instant) -> bool {
        let in_service = self.in_service.as_ref();
        in_service.is_some_and(|service| service.ends_at <= now)
            || self.starts_at.is_some_and(|starts_at| starts_at <= now)
    }

    /// Ends the service that is due by `now`, if one is, and starts the next.
    fn end_service(&mut self, now: Instant) -> Option<(Instant, Packet)> {
        if let Some(starts_at) = self.starts_at.take_if(|starts_at| *starts_at <= now) {
            self.start_service(starts_at);
        }
        let service = self.in_service.take_if(|service| service.ends_at <= now)?;
        let InService {
            packet,
            started_at,
            ends_at,
        } = service;
        let statistics = &mut self.ledger.statistics;
        statistics.busy += self
            .transmitter
            .busy(started_at, ends_at, packet.size_bytes);
        statistics.record_stay(packet.size_bytes, ends_at - packet.entered_at);
        statistics.served_packets += 1;
        statistics.served_bytes += u64::from(packet.size_bytes);
        self.begin(ends_at, false);
        Some((ends_at, packet))
    }
}

impl Element for Bottleneck {
    fn push(&mut self, now: Instant, packet: Packet) -> Result<(), Dropped> {
        self.advance(now);
        let in_service = self.service_load();
        let result = self
            .queue
            .enqueue(now, packet, in_service, &mut self.ledger);
        if let Err(Refused { cause, packet }) = result {
            let at = now;
            return Err(Dropped { cause, at, packet });
        }
        let statistics = &mut self.ledger.statistics;
        let queued_bytes = self.queue.load().plus(in_service).bytes;
        statistics.max_queued_bytes = statistics.max_queued_bytes.max(queued_bytes);
        if self.in_service.is_none() && self.starts_at.is_none() {
            self.begin(now, true);
        }
        Ok(())
    }

    fn pop(&mut self, now: Instant) -> Option<Packet> {
        self.pop_before(now, Instant::FAR_FUTURE)
            .map(|(_, packet)| packet)
    }

    /// Returns only packets that have left: the end of service is uncertain, as the rate may depend
    /// on a queue's discipline.
    #[inline]
    fn pop_before(&mut self, now: Instant, _before: Instant) -> Option<(Instant, Packet)> {
        if !self.departed.is_empty() {
            return self.departed.pop_front();
        }
        // Mostly none is due.
        self.is_due(now).then(|| self.end_service(now)).flatten()
    }

    fn next_at(&self) -> Option<Instant> {
        let departed_at = self.departed.front().map(|(at, _)| *at);
        departed_at
            .or_else(|| self.in_service.as_ref().map(|service| service.ends_at))
            .or(self.starts_at)
            .filter(|at| *at < Instant::FAR_FUTURE)
    }

    fn take_dropped(&mut self) -> Option<Dropped> {
        self.ledger.dropped.pop_front()
    }

    #[inline]
    fn advance(&mut self, now: Instant) {
        while self.is_due(now) {
            if let Some(departure) = self.end_service(now) {
                self.departed.push_back(departure);
            }
        }
    }

    fn flush(&mut self, now: Instant, lost: &mut Vec<Packet>) {
        lost.extend(self.departed.drain(..).map(|(_, packet)| packet));
        self.starts_at = None;
        let statistics = &mut self.ledger.statistics;
        if let Some(service) = self.in_service.take() {
            statistics.busy += self.transmitter.busy(service.started_at, now, 0);
            record_stay(statistics, &service.packet, now);
            lost.push(service.packet);
        }
        while let Some(packet) = self.queue.evict() {
            record_stay(statistics, &packet, now);
            lost.push(packet);
        }
    }

    fn held_packets(&self) -> usize {
        self.departed.len() + self.load().packets
    }
}

/// Records the time for which a packet has been inside until `now`.
fn record_stay(statistics: &mut QueueStatistics, packet: &Packet, now: Instant) {
    statistics.record_stay(packet.size_bytes, now.saturating_since(packet.entered_at));
}

/// Passes a packet that is sent at `sent_at` through the forecast `behind`.
fn pass(behind: &mut Forecast, packet: &Packet, sent_at: Instant) -> Departure {
    behind.free_at = sent_at;
    behind.queued.push_back((sent_at, Load::of(packet)));
    behind.last_release_at = behind.release_at(sent_at);
    Departure {
        id: packet.id,
        size_bytes: packet.size_bytes,
        at: behind.last_release_at,
    }
}
