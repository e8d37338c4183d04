//! The usual composition of elements, with its counters.

use std::collections::VecDeque;

use anabranch_units::{DataRate, Instant, Seed};

use crate::bottleneck::Bottleneck;
use crate::chain::Chain;
use crate::config::LinkConfig;
use crate::delay::Delay;
use crate::element::{DropCause, Dropped, Element};
use crate::loss::Loss;
use crate::outage::Outage;
use crate::packet::Packet;
use crate::schedule::Schedule;
use crate::statistics::LinkStatistics;

type Elements = Outage<Chain<Bottleneck, Loss<Delay>>>;

/// One direction of a link, built by [`LinkConfig::build`]. It is driven as any [`Element`] is.
#[derive(Clone, Debug)]
pub struct Link {
    elements: Elements,
    /// Counted, and not yet taken.
    dropped: VecDeque<Dropped>,
    statistics: LinkStatistics,
}

impl Link {
    /// # Panics
    /// If a probability of the loss model is outside 0..=1.
    pub(crate) fn new(config: &LinkConfig, seed: Seed) -> Self {
        let rate = config.rate.unwrap_or(DataRate::MAX);
        let rate = Schedule::new(rate, config.rate_schedule.clone());
        let delay = Schedule::new(config.delay, config.delay_schedule.clone());
        let delay = match config.jitter {
            None => Delay::new(delay),
            Some(model) => Delay::with_jitter(delay, model, rate.clone(), seed.derive("jitter")),
        };
        let loss = Loss::new(config.loss, seed.derive("loss"), delay);
        let (discipline, queue_seed) = (&config.discipline, seed.derive("queue"));
        let bottleneck = match config.trace.clone() {
            None => Bottleneck::with_discipline(rate, config.queue, discipline, queue_seed),
            Some(trace) => Bottleneck::with_trace(trace, config.queue, discipline, queue_seed),
        };
        let chain = Chain::new(bottleneck, loss);
        Link {
            elements: Outage::new(&config.outages, chain),
            dropped: VecDeque::new(),
            statistics: LinkStatistics::default(),
        }
    }

    /// Takes a packet in; see [`Element::push`].
    ///
    /// # Errors
    /// The packet, if it was dropped at once.
    pub fn push(&mut self, now: Instant, packet: Packet) -> Result<(), Dropped> {
        self.statistics.offered_packets += 1;
        self.statistics.offered_bytes += u64::from(packet.size_bytes);
        let result = self.elements.push(now, packet);
        if let Err(dropped) = &result {
            self.statistics.dropped.record(dropped.cause);
        }
        result
    }

    /// Gives back the next packet that has left by `now`; see [`Element::pop`].
    pub fn pop(&mut self, now: Instant) -> Option<Packet> {
        let packet = self.elements.pop(now)?;
        self.statistics.delivered_packets += 1;
        self.statistics.delivered_bytes += u64::from(packet.size_bytes);
        Some(packet)
    }

    /// When a packet next leaves or is lost; see [`Element::next_at`].
    pub fn next_at(&self) -> Option<Instant> {
        self.elements.next_at()
    }

    /// Gives back a packet that was taken in and lost later; see [`Element::take_dropped`].
    pub fn take_dropped(&mut self) -> Option<Dropped> {
        self.dropped.pop_front().or_else(|| self.take_uncounted())
    }

    fn take_uncounted(&mut self) -> Option<Dropped> {
        let dropped = self.elements.take_dropped()?;
        self.statistics.dropped.record(dropped.cause);
        Some(dropped)
    }

    /// How many packets are inside: pushed, not yet popped, not dropped.
    pub fn held_packets(&self) -> usize {
        self.elements.held_packets()
    }

    /// Bytes in the bottleneck's queue at `now`, those of the packet in service included.
    pub fn queued_bytes(&mut self, now: Instant) -> u64 {
        self.elements.advance(now);
        self.elements.inner().first().queued_bytes()
    }

    /// What happened up to `now`, which is not before the last call.
    pub fn statistics(&mut self, now: Instant) -> LinkStatistics {
        self.elements.advance(now);
        while let Some(dropped) = self.take_uncounted() {
            self.dropped.push_back(dropped);
        }
        LinkStatistics {
            read_at: now,
            observed: now - Instant::ZERO,
            held_packets: self.held_packets() as u64,
            queued_bytes: self.elements.inner().first().queued_bytes(),
            queue: self.elements.inner_mut().first_mut().statistics(now),
            ..self.statistics
        }
    }
}

impl Element for Link {
    fn push(&mut self, now: Instant, packet: Packet) -> Result<(), Dropped> {
        Link::push(self, now, packet)
    }

    fn pop(&mut self, now: Instant) -> Option<Packet> {
        Link::pop(self, now)
    }

    fn next_at(&self) -> Option<Instant> {
        Link::next_at(self)
    }

    fn take_dropped(&mut self) -> Option<Dropped> {
        Link::take_dropped(self)
    }

    fn advance(&mut self, now: Instant) {
        self.elements.advance(now);
    }

    fn flush(&mut self, now: Instant, lost: &mut Vec<Packet>) {
        let before_count = lost.len();
        self.elements.flush(now, lost);
        for _ in before_count..lost.len() {
            self.statistics.dropped.record(DropCause::Outage);
        }
    }

    fn held_packets(&self) -> usize {
        Link::held_packets(self)
    }

    fn earliest_exit(&self, entry: Instant) -> Instant {
        self.elements.earliest_exit(entry)
    }
}
