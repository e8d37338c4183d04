//! The usual composition of elements, with its counters.

use std::collections::VecDeque;

use anabranch_units::{DataRate, Duration, Instant, Seed};

use crate::bottleneck::Bottleneck;
use crate::chain::Chain;
use crate::change::LinkChange;
use crate::config::{LinkConfig, LinkConfigError};
use crate::delay::Delay;
use crate::drop_tail::DropTail;
use crate::element::{DropCause, Dropped, Element};
use crate::forecast::{Departure, Forecast};
use crate::loss::Loss;
use crate::outage::Outage;
use crate::packet::Packet;
use crate::schedule::Schedule;
use crate::statistics::{LinkStatistics, QueueStatistics};
use crate::transmitter::{TraceCursor, Transmitter};

/// Elements of a link.
#[derive(Clone, Debug)]
enum Elements {
    /// Delay only, as on most return paths.
    Line(Delay),
    /// Packets leave in the order of arrival or not at all.
    DropTail(Box<Outage<DropTail<Loss<Delay>>>>),
    Managed(Box<Outage<Chain<Bottleneck, Loss<Delay>>>>),
}

/// Evaluates `$call` on the link's elements of any kind.
macro_rules! of_elements {
    ($elements:expr, $inner:ident => $call:expr) => {
        match $elements {
            Elements::Line($inner) => $call,
            Elements::DropTail($inner) => $call,
            Elements::Managed($inner) => $call,
        }
    };
}

/// One direction of a link, built by [`LinkConfig::build`]. It is driven as any [`Element`] is.
#[derive(Clone, Debug)]
pub struct Link {
    elements: Elements,
    /// The longest packets that pass, if there is a limit.
    mtu: Option<Box<Schedule<u32>>>,
    /// Drops that were counted, and not yet taken.
    dropped: VecDeque<Dropped>,
    statistics: LinkStatistics,
}

impl Link {
    /// # Panics
    /// If a probability of the loss model is outside 0..=1.
    pub(crate) fn new(config: &LinkConfig, seed: Seed) -> Self {
        Link {
            mtu: mtu_of(config),
            ..Link::without_mtu(config, seed, config.is_line())
        }
    }

    /// Makes a link that [`change`](Link::change) can give a rate, whatever it has now.
    ///
    /// # Panics
    /// If a probability of the loss model is outside 0..=1.
    pub(crate) fn changeable(config: &LinkConfig, seed: Seed) -> Self {
        Link {
            mtu: mtu_of(config),
            ..Link::without_mtu(config, seed, false)
        }
    }

    fn without_mtu(config: &LinkConfig, seed: Seed, is_line: bool) -> Self {
        let rate = config.rate.unwrap_or(DataRate::MAX);
        let rate = Schedule::new(rate, config.rate_schedule.clone());
        let delay = Schedule::new(config.delay, config.delay_schedule.clone());
        let delay = match config.jitter {
            None => Delay::new(delay),
            Some(model) => Delay::with_jitter(delay, model, rate.clone(), seed.derive("jitter")),
        };
        let delay = match config.detour {
            None => delay,
            Some(model) => delay.with_detour(model, seed.derive("detour")),
        };
        let delay = if config.overtaking {
            delay.overtaking()
        } else {
            delay
        };
        if is_line {
            return Link::of(Elements::Line(delay));
        }
        let loss = Loss::new(config.loss, seed.derive("loss"), delay);
        let transmitter = match config.trace.clone() {
            None => Transmitter::Rate {
                rate,
                frame_time: config.frame_time,
            },
            Some(trace) => Transmitter::Trace(TraceCursor::new(trace)),
        };
        let (discipline, limit) = (&config.discipline, config.queue);
        let initial_rate = transmitter.initial_rate();
        if let Some(queue) = discipline.build(limit, initial_rate, seed.derive("queue")) {
            let chain = Chain::new(Bottleneck::new(transmitter, queue), loss);
            let elements = Outage::new(&config.outages, chain);
            return Link::of(Elements::Managed(Box::new(elements)));
        }
        let queue = DropTail::of(transmitter, limit, loss)
            .marking_above(discipline.mark_above())
            .with_burst(config.burst_bytes);
        let elements = Outage::new(&config.outages, queue);
        Link::of(Elements::DropTail(Box::new(elements)))
    }

    fn of(elements: Elements) -> Self {
        Link {
            elements,
            mtu: None,
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
        let result = if self
            .mtu
            .as_deref()
            .is_some_and(|mtu| packet.size_bytes > mtu.value_at(now))
        {
            Err(Dropped {
                cause: DropCause::TooLarge,
                at: now,
                packet,
            })
        } else {
            of_elements!(&mut self.elements, inner => inner.push(now, packet))
        };
        if let Err(dropped) = &result {
            self.statistics.dropped.record(dropped.cause);
        }
        result
    }

    /// Returns the length of the longest packet that passes at `now`, in bytes; `None` without a
    /// limit.
    pub fn mtu(&self, now: Instant) -> Option<u32> {
        let mtu = self.mtu.as_deref()?.value_at(now);
        (mtu < u32::MAX).then_some(mtu)
    }

    /// Gives back the next packet that has left by `now`; see [`Element::pop`].
    pub fn pop(&mut self, now: Instant) -> Option<Packet> {
        let packet = of_elements!(&mut self.elements, inner => inner.pop(now))?;
        self.statistics.delivered_packets += 1;
        self.statistics.delivered_bytes += u64::from(packet.size_bytes);
        Some(packet)
    }

    /// Gives back the next packet that is certain to leave before `before`; see
    /// [`Element::pop_before`].
    pub fn pop_before(&mut self, now: Instant, before: Instant) -> Option<(Instant, Packet)> {
        let popped = of_elements!(&mut self.elements, inner => inner.pop_before(now, before))?;
        self.statistics.delivered_packets += 1;
        self.statistics.delivered_bytes += u64::from(popped.1.size_bytes);
        Some(popped)
    }

    /// Returns the least time that any packet spends on the link; see [`Element::min_delay`].
    pub fn min_delay(&self) -> Duration {
        of_elements!(&self.elements, inner => inner.min_delay())
    }

    /// Returns an instant before which no packet leaves that enters at `entry` or later; see
    /// [`Element::earliest_exit`].
    pub fn earliest_exit(&self, entry: Instant) -> Instant {
        of_elements!(&self.elements, inner => inner.earliest_exit(entry))
    }

    /// Returns the next time at which a packet leaves or is lost; see [`Element::next_at`].
    pub fn next_at(&self) -> Option<Instant> {
        of_elements!(&self.elements, inner => inner.next_at())
    }

    /// Gives back a packet that was taken in and lost later; see [`Element::take_dropped`].
    pub fn take_dropped(&mut self) -> Option<Dropped> {
        self.dropped.pop_front().or_else(|| self.take_uncounted())
    }

    fn take_uncounted(&mut self) -> Option<Dropped> {
        let dropped = of_elements!(&mut self.elements, inner => inner.take_dropped())?;
        self.statistics.dropped.record(dropped.cause);
        Some(dropped)
    }

    /// Returns the number of packets inside: pushed, not yet popped, not dropped.
    pub fn held_packets(&self) -> usize {
        of_elements!(&self.elements, inner => inner.held_packets())
    }

    /// Returns the bytes in the bottleneck's queue at `now`, including the packet in service.
    pub fn queued_bytes(&mut self, now: Instant) -> u64 {
        match &mut self.elements {
            Elements::Line(_) => 0,
            Elements::DropTail(elements) => {
                elements.advance(now);
                elements.inner_mut().queued_bytes()
            }
            Elements::Managed(elements) => {
                elements.advance(now);
                elements.inner_mut().first().queued_bytes()
            }
        }
    }

    /// Returns the statistics up to `now`, which is not before the last call.
    pub fn statistics(&mut self, now: Instant) -> LinkStatistics {
        Element::advance(self, now);
        while let Some(dropped) = self.take_uncounted() {
            self.dropped.push_back(dropped);
        }
        LinkStatistics {
            read_at: now,
            observed: now - Instant::ZERO,
            held_packets: self.held_packets() as u64,
            queued_bytes: self.queued_bytes(now),
            queue: self.queue_statistics(now),
            ..self.statistics
        }
    }
}

impl Link {
    pub(crate) fn delay_mut(&mut self) -> &mut Delay {
        match &mut self.elements {
            Elements::Line(delay) => delay,
            Elements::DropTail(elements) => elements.inner_mut().inner_mut().inner_mut(),
            Elements::Managed(elements) => elements.inner_mut().second_mut().inner_mut(),
        }
    }

    /// Applies a change that is valid.
    pub(crate) fn apply(&mut self, now: Instant, change: LinkChange) {
        Element::advance(self, now);
        match (change, &mut self.elements) {
            (LinkChange::Delay(delay), _) => self.delay_mut().set_delay(delay),
            (_, Elements::Line(_)) => debug_assert!(false, "a line has nothing but a delay"),
            (LinkChange::Rate(rate), elements) => {
                match elements {
                    Elements::Line(_) => {}
                    Elements::DropTail(elements) => elements.inner_mut().set_rate(now, rate),
                    Elements::Managed(elements) => {
                        elements.inner_mut().first_mut().set_rate(now, rate);
                    }
                }
                self.delay_mut().set_rate(rate);
            }
            (LinkChange::Loss(model), Elements::DropTail(elements)) => {
                elements.inner_mut().inner_mut().set_model(model);
            }
            (LinkChange::Loss(model), Elements::Managed(elements)) => {
                elements.inner_mut().second_mut().set_model(model);
            }
            (LinkChange::Down, Elements::DropTail(elements)) => elements.set_down(now),
            (LinkChange::Down, Elements::Managed(elements)) => elements.set_down(now),
            (LinkChange::Up, Elements::DropTail(elements)) => elements.set_up(now),
            (LinkChange::Up, Elements::Managed(elements)) => elements.set_up(now),
        }
    }
}

fn mtu_of(config: &LinkConfig) -> Option<Box<Schedule<u32>>> {
    let has_limit = config.mtu.is_some() || !config.mtu_schedule.is_empty();
    let initial = config.mtu.unwrap_or(u32::MAX);
    has_limit.then(|| Box::new(Schedule::new(initial, config.mtu_schedule.clone())))
}

impl Link {
    /// Returns the link's effect on packets that arrive at `now` or later without other arrivals,
    /// and appends the departures of the packets inside, in their order. `None` while the link is
    /// down.
    pub fn forecast(&mut self, now: Instant, inside: &mut Vec<Departure>) -> Option<Forecast> {
        Element::advance(self, now);
        match &self.elements {
            Elements::Line(line) => Some(line.forecast(inside)),
            Elements::DropTail(elements) => {
                let queue = elements.inner_if_up(now, inside)?;
                let behind = queue.inner().inner().forecast(inside);
                Some(queue.forecast(behind, inside))
            }
            Elements::Managed(elements) => {
                let chain = elements.inner_if_up(now, inside)?;
                let behind = chain.second().inner().forecast(inside);
                Some(chain.first().forecast(now, behind, inside))
            }
        }
    }

    /// Returns the transit time of a packet of `size_bytes` that enters at `now`: the queueing
    /// delay, its serialisation and the propagation delay. `None` if it would not leave: the link
    /// is down or stands still, or its queue is full.
    pub fn one_way_delay(&mut self, now: Instant, size_bytes: u32) -> Option<Duration> {
        let forecast = self.forecast(now, &mut Vec::new())?;
        forecast.exit_at(now, size_bytes).map(|at| at - now)
    }

    fn queue_statistics(&mut self, now: Instant) -> QueueStatistics {
        match &mut self.elements {
            // Every packet leaves a bottleneck without a limit as it enters.
            Elements::Line(_) => QueueStatistics {
                served_packets: self.statistics.offered_packets,
                served_bytes: self.statistics.offered_bytes,
                started_packets: self.statistics.offered_packets,
                ..QueueStatistics::default()
            },
            Elements::DropTail(elements) => elements.inner_mut().statistics(now),
            Elements::Managed(elements) => elements.inner_mut().first_mut().statistics(now),
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

    fn pop_before(&mut self, now: Instant, before: Instant) -> Option<(Instant, Packet)> {
        Link::pop_before(self, now, before)
    }

    fn next_at(&self) -> Option<Instant> {
        Link::next_at(self)
    }

    fn take_dropped(&mut self) -> Option<Dropped> {
        Link::take_dropped(self)
    }

    fn advance(&mut self, now: Instant) {
        of_elements!(&mut self.elements, inner => inner.advance(now));
    }

    fn flush(&mut self, now: Instant, lost: &mut Vec<Packet>) {
        let before_count = lost.len();
        of_elements!(&mut self.elements, inner => inner.flush(now, lost));
        for _ in before_count..lost.len() {
            self.statistics.dropped.record(DropCause::Outage);
        }
    }

    fn held_packets(&self) -> usize {
        Link::held_packets(self)
    }

    fn min_delay(&self) -> Duration {
        Link::min_delay(self)
    }

    fn earliest_exit(&self, entry: Instant) -> Instant {
        Link::earliest_exit(self, entry)
    }
}

impl LinkConfig {
    /// Builds an idle link. Its random numbers come from `seed` alone.
    ///
    /// # Errors
    /// A [`LinkConfigError`] if a number is out of its range, or two settings exclude each other.
    pub fn build(&self, seed: Seed) -> Result<Link, LinkConfigError> {
        self.check()?;
        Ok(Link::new(self, seed))
    }

    /// Returns an idle link whose rate, delay and losses may change while it runs.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn build_changeable(&self, seed: Seed) -> Result<Link, LinkConfigError> {
        self.check()?;
        Ok(Link::changeable(self, seed))
    }
}

impl Link {
    /// Applies a change at `now`. The link must have been built by
    /// [`LinkConfig::build_changeable`](crate::LinkConfig::build_changeable).
    ///
    /// # Errors
    /// The change is not valid for this link; nothing has changed.
    pub fn change(&mut self, now: Instant, change: LinkChange) -> Result<(), LinkConfigError> {
        if let LinkChange::Loss(model) = change
            && let Some(probability) = model.invalid_probability()
        {
            return Err(LinkConfigError::Probability(probability));
        }
        if let LinkChange::Delay(delay) = change {
            let needed = self.delay_mut().max_advance();
            if delay < needed {
                return Err(LinkConfigError::JitterExceedsDelay { delay, needed });
            }
        }
        self.apply(now, change);
        Ok(())
    }
}
