//! A drop-tail queue in front of a transmitter: the outcome of a packet is known on arrival.

use std::collections::VecDeque;

use anabranch_units::{DataRate, Duration, Instant};

use crate::delay::Delay;
use crate::discipline::Ledger;
use crate::element::{DropCause, Dropped, Element};
use crate::forecast::{Departure, Forecast};
use crate::loss::Loss;
use crate::moves::{Moved, take_move, unsent_bytes};
use crate::packet::Packet;
use crate::queue::{Capacity, Load, QueueLimit};
use crate::schedule::Schedule;
use crate::statistics::QueueStatistics;
use crate::trace::Trace;
use crate::transmitter::{TraceCursor, Transmitter};

/// Serialises packets at a rate, first in, first out, before they enter the inner element.
///
/// The queue holds `q` bytes, the packet in service included until its last bit has left. An
/// arriving packet is dropped if `q + size` exceeds the limit. Service is back to back: the next
/// one starts at the nanosecond at which the former ended. When the rate changes, the unsent bits
/// of the packet in service are sent at the new rate. At [`DataRate::MAX`] a packet leaves as it
/// enters. Instead of a rate there may be a [`Trace`] of opportunities; the service of a packet
/// starts with the first opportunity that it uses.
///
/// Later arrivals do not change when a packet leaves. It is therefore passed on at once with its
/// departure time, and only its size stays in the queue until then.
#[derive(Clone, Debug)]
pub struct DropTail<E> {
    transmitter: Transmitter,
    capacity: Capacity,
    mark_above: Option<Capacity>,
    /// Packets whose last bit had not left at the last call, in the order of service.
    queued: VecDeque<Queued>,
    load: Load,
    /// Departure of the last packet's last bit; with a token bucket, its departure without one.
    free_at: Instant,
    /// Number of bytes that leave at once after a pause: a token bucket, full at first.
    burst_bytes: u64,
    ledger: Ledger,
    /// Packets that the inner element refuses, in the order of the refusals; until then they count
    /// as inside.
    doomed: VecDeque<Dropped>,
    inner: E,
}

/// A packet's place in the queue.
#[derive(Clone, Copy, Debug)]
struct Queued {
    size_bytes: u32,
    entered_at: Instant,
    /// Departure of its first bit; that of the last one follows.
    starts_at: Instant,
    ends_at: Instant,
}

impl<E: Element> DropTail<E> {
    /// Creates an idle transmitter behind a queue. `limit` in time is taken at the rate before any
    /// change.
    pub fn new(rate: Schedule<DataRate>, limit: QueueLimit, inner: E) -> Self {
        let frame_time = Duration::ZERO;
        DropTail::of(Transmitter::Rate { rate, frame_time }, limit, inner)
    }

    /// Does the same with the opportunities of `trace`. `limit` in time is taken at the trace's
    /// average rate.
    pub fn with_trace(trace: Trace, limit: QueueLimit, inner: E) -> Self {
        let transmitter = Transmitter::Trace(TraceCursor::new(trace));
        DropTail::of(transmitter, limit, inner)
    }

    pub(crate) fn of(transmitter: Transmitter, limit: QueueLimit, inner: E) -> Self {
        DropTail {
            capacity: limit.capacity(transmitter.initial_rate()),
            transmitter,
            mark_above: None,
            queued: VecDeque::new(),
            load: Load::default(),
            free_at: Instant::ZERO,
            burst_bytes: 0,
            ledger: Ledger::default(),
            doomed: VecDeque::new(),
            inner,
        }
    }

    /// Sets a threshold for marking. Packets of ECN-capable transports are marked on arrival if the
    /// queue with them and with the packet in service exceeds it, as data centre switches do (RFC
    /// 8257 §3.1).
    #[must_use]
    pub fn marking_above(mut self, limit: Option<QueueLimit>) -> Self {
        let rate = self.transmitter.initial_rate();
        self.mark_above = limit.map(|limit| limit.capacity(rate));
        self
    }

    /// Sets the number of unused bytes of a pause that may leave at once afterwards: a token
    /// bucket, as in the generic cell rate algorithm. Not with a trace.
    #[must_use]
    pub(crate) fn with_burst(mut self, bytes: u64) -> Self {
        self.burst_bytes = bytes;
        self
    }

    /// Returns the departures of the first and the last bit of a packet that arrives at `now`.
    #[inline]
    fn serve(&mut self, now: Instant, size_bytes: u32) -> (Instant, Instant) {
        let is_idle = self.free_at <= now;
        if self.burst_bytes == 0 || !is_idle {
            let starts_at = self.transmitter.start_at(self.free_at.max(now), is_idle);
            self.free_at = self.transmitter.end_at(starts_at, size_bytes);
            return (starts_at, self.free_at);
        }
        let saved = self.transmitter.time_for(now, self.burst_bytes);
        let from = self.free_at.max(now.saturating_sub(saved));
        self.free_at = self.transmitter.end_at(from, size_bytes);
        (now, self.free_at.max(now))
    }

    /// The element behind the transmitter, to change it.
    pub(crate) fn inner_mut(&mut self) -> &mut E {
        &mut self.inner
    }

    /// Returns the element behind the transmitter.
    pub(crate) fn inner(&self) -> &E {
        &self.inner
    }

    /// Returns the bytes queued as of the last call, including the packet in service.
    pub fn queued_bytes(&self) -> u64 {
        self.load.bytes
    }

    /// Returns the statistics up to `now`, which is not before the last call.
    pub fn statistics(&mut self, now: Instant) -> QueueStatistics {
        self.retire(now);
        let mut statistics = self.ledger.statistics;
        self.record_inside(now, &mut statistics);
        statistics
    }

    /// Adds the packets inside, which are otherwise accounted when they leave.
    fn record_inside(&self, now: Instant, statistics: &mut QueueStatistics) {
        for packet in &self.queued {
            let stay = now.saturating_since(packet.entered_at);
            statistics.record_stay(packet.size_bytes, stay);
            if packet.starts_at <= now {
                statistics.record_wait(packet.starts_at - packet.entered_at);
                statistics.busy += self.transmitter.busy(packet.starts_at, now, 0);
            }
        }
    }

    /// Accounts for packets whose last bit has left by `now`.
    #[inline]
    fn retire(&mut self, now: Instant) {
        while let Some(packet) = self.queued.front().filter(|packet| packet.ends_at <= now) {
            let Queued {
                size_bytes,
                entered_at,
                starts_at,
                ends_at,
            } = *packet;
            self.queued.pop_front();
            self.load = self.load.minus(Load::of_bytes(size_bytes));
            let statistics = &mut self.ledger.statistics;
            statistics.record_wait(starts_at - entered_at);
            statistics.record_stay(size_bytes, ends_at - entered_at);
            statistics.busy += self.transmitter.busy(starts_at, ends_at, size_bytes);
            statistics.served_packets += 1;
            statistics.served_bytes += u64::from(size_bytes);
        }
    }

    /// Reports packets that were refused by `now`.
    #[inline]
    fn report_refused(&mut self, now: Instant) {
        while let Some(dropped) = self.doomed.front().filter(|dropped| dropped.at <= now) {
            self.ledger.dropped.push_back(*dropped);
            self.doomed.pop_front();
        }
    }

    /// Returns the effect on packets that arrive at `now`, given the effect of the inner element.
    pub(crate) fn forecast(&self, behind: Forecast, inside: &mut Vec<Departure>) -> Forecast {
        let queued = self.queued.iter();
        let forecast = Forecast {
            transmitter: Some(self.transmitter.clone()),
            capacity: Some(self.capacity),
            queued: queued
                .map(|packet| (packet.ends_at, Load::of_bytes(packet.size_bytes)))
                .collect(),
            free_at: self.free_at,
            ..behind
        };
        // The forecast treats later random losses as if they passed.
        if !self.doomed.is_empty() {
            inside.extend(self.doomed.iter().map(|dropped| Departure {
                id: dropped.packet.id,
                size_bytes: dropped.packet.size_bytes,
                at: forecast.release_at(dropped.at),
            }));
            inside.sort_by_key(|departure| departure.at);
        }
        forecast
    }
}

impl DropTail<Loss<Delay>> {
    /// Sends at `rate` from `now` on: packets in the queue, which were handed on with the instants
    /// of their departure, are moved.
    pub(crate) fn set_rate(&mut self, now: Instant, rate: DataRate) {
        self.advance(now);
        self.transmitter.set_rate(rate);
        let mut starts_at = now;
        let mut moves = Vec::with_capacity(self.queued.len());
        for packet in &mut self.queued {
            let (size_bytes, before) = (packet.size_bytes, packet.ends_at);
            let unsent = unsent_bytes(now, packet.starts_at, before, size_bytes);
            if packet.starts_at > now || !moves.is_empty() {
                packet.starts_at = starts_at;
            }
            packet.ends_at = self.transmitter.end_at(starts_at, unsent);
            starts_at = packet.ends_at;
            let (entered_at, after) = (packet.entered_at, packet.ends_at);
            moves.push(Moved::new(entered_at, size_bytes, before, after));
        }
        if !self.queued.is_empty() {
            self.free_at = starts_at;
        }
        for dropped in self.doomed.iter_mut().rev() {
            let packet = &dropped.packet;
            if let Some(moved) = take_move(&mut moves, packet.entered_at, packet.size_bytes) {
                dropped.at = moved.after;
            }
        }
        self.inner.inner_mut().move_entries(now, &mut moves);
        self.advance(now);
    }
}

impl<E: Element> Element for DropTail<E> {
    fn push(&mut self, now: Instant, mut packet: Packet) -> Result<(), Dropped> {
        self.retire(now);
        let load = self.load.plus(Load::of_bytes(packet.size_bytes));
        if !self.capacity.holds(load) {
            return Err(Dropped {
                cause: DropCause::QueueFull,
                at: now,
                packet,
            });
        }
        if self.mark_above.is_some_and(|limit| !limit.holds(load)) {
            self.ledger.is_marked(&mut packet);
        }
        packet.entered_at = now;
        self.load = load;
        let statistics = &mut self.ledger.statistics;
        statistics.max_queued_bytes = statistics.max_queued_bytes.max(load.bytes);
        let (starts_at, ends_at) = self.serve(now, packet.size_bytes);
        self.queued.push_back(Queued {
            size_bytes: packet.size_bytes,
            entered_at: now,
            starts_at,
            ends_at,
        });
        if let Err(dropped) = self.inner.push(ends_at, packet) {
            self.doomed.push_back(dropped);
        }
        Ok(())
    }

    fn pop(&mut self, now: Instant) -> Option<Packet> {
        self.report_refused(now);
        self.inner.pop(now)
    }

    #[inline]
    fn pop_before(&mut self, now: Instant, before: Instant) -> Option<(Instant, Packet)> {
        self.report_refused(now);
        self.inner.pop_before(now, before)
    }

    fn next_at(&self) -> Option<Instant> {
        let doomed_at = self.doomed.front().map(|dropped| dropped.at);
        let next_at = self.inner.next_at().into_iter().chain(doomed_at).min();
        next_at.filter(|at| *at < Instant::FAR_FUTURE)
    }

    fn take_dropped(&mut self) -> Option<Dropped> {
        self.ledger.dropped.pop_front()
    }

    fn advance(&mut self, now: Instant) {
        self.retire(now);
        self.report_refused(now);
        self.inner.advance(now);
    }

    fn flush(&mut self, now: Instant, lost: &mut Vec<Packet>) {
        self.advance(now);
        self.inner.flush(now, lost);
        lost.extend(self.doomed.drain(..).map(|dropped| dropped.packet));
        let mut statistics = self.ledger.statistics;
        self.record_inside(now, &mut statistics);
        self.ledger.statistics = statistics;
        self.queued.clear();
        self.load = Load::default();
        self.free_at = now;
    }

    fn held_packets(&self) -> usize {
        self.inner.held_packets() + self.doomed.len()
    }

    fn min_delay(&self) -> Duration {
        self.inner.min_delay()
    }

    fn earliest_exit(&self, entry: Instant) -> Instant {
        self.inner.earliest_exit(entry.max(self.free_at))
    }
}
