//! Links, routes, and the packets on them.

use anabranch_core::PathId;
use anabranch_link::{Departure, Dropped, Forecast, Link, Packet};
use anabranch_units::{Ecn, Instant};

use crate::event_queue::{Alarm, Event, EventQueue};
use crate::flow::Direction;
use crate::observer::{Observer, PacketEvent};
use crate::payload::Payload;
use crate::topology::{LinkId, Route, RouteId};
use crate::trace_hash::TraceHash;

/// Datagrams by what has become of them. What was sent was delivered, dropped, or is in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketCounts {
    /// Handed to the first link of a route.
    pub sent: u64,
    /// Handed to the endpoint at a route's end.
    pub delivered: u64,
    /// Lost by a link.
    pub dropped: u64,
}

impl PacketCounts {
    /// How many are on some link.
    pub const fn in_flight(&self) -> u64 {
        self.sent - self.delivered - self.dropped
    }
}

/// A datagram that has reached the end of its route.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) event: PacketEvent,
    pub(crate) session: u32,
    pub(crate) ecn: Ecn,
}

/// The forecasts of a route's links, in their order.
#[derive(Clone, Debug)]
pub(crate) struct RouteForecast {
    links: Vec<Forecast>,
}

impl RouteForecast {
    /// When a packet that enters at `entry` comes out at the end; `None`: never.
    pub(crate) fn exit_at(&self, entry: Instant, size_bytes: u32) -> Option<Instant> {
        let mut links = self.links.iter();
        links.try_fold(entry, |at, link| link.exit_at(at, size_bytes))
    }

    /// The same, and the packet counts for those that follow.
    pub(crate) fn pass(&mut self, entry: Instant, size_bytes: u32) -> Option<Instant> {
        let mut links = self.links.iter_mut();
        links.try_fold(entry, |at, link| link.pass(at, size_bytes))
    }
}

/// What the network must remember of a packet, named by [`Packet::id`]. Links need none of it.
#[derive(Debug)]
struct Journey {
    event: PacketEvent,
    session: u32,
    route: RouteId,
    hop: u8,
    sent_at: Instant,
    payload: Payload,
}

#[derive(Debug)]
struct LinkState {
    link: Link,
    alarm: Alarm,
}

#[derive(Debug, Default)]
pub(crate) struct Network {
    links: Vec<LinkState>,
    routes: Vec<Route>,
    journeys: Vec<Journey>,
    /// Indices of journeys that have ended, for packets to come.
    free_journeys: Vec<u32>,
    counts: PacketCounts,
    data_delivered_count: u64,
    hash: TraceHash,
}

impl Network {
    pub(crate) fn add_link(&mut self, link: Link) -> LinkId {
        self.links.push(LinkState {
            link,
            alarm: Alarm::UNSET,
        });
        LinkId(u32::try_from(self.links.len() - 1).expect("fewer than 2^32 links"))
    }

    pub(crate) fn add_route(&mut self, route: Route) -> RouteId {
        let links = route.forward.iter().chain(&route.reverse);
        assert!(
            links
                .max()
                .is_some_and(|link| link.index() < self.links.len()),
            "a link unknown here"
        );
        self.routes.push(route);
        RouteId(u32::try_from(self.routes.len() - 1).expect("fewer than 2^32 routes"))
    }

    pub(crate) fn link(&mut self, link: LinkId) -> &mut Link {
        &mut self.links[link.index()].link
    }

    pub(crate) fn has_route(&self, route: RouteId) -> bool {
        route.index() < self.routes.len()
    }

    pub(crate) fn counts(&self) -> PacketCounts {
        self.counts
    }

    pub(crate) fn data_delivered_count(&self) -> u64 {
        self.data_delivered_count
    }

    pub(crate) fn hash(&self) -> TraceHash {
        self.hash
    }

    /// Hands a datagram to the first link of its route.
    pub(crate) fn send(
        &mut self,
        now: Instant,
        datagram: Datagram<'_>,
        events: &mut EventQueue,
        observer: &mut impl Observer,
    ) {
        let Datagram {
            event,
            session,
            route,
            ecn,
            payload,
        } = datagram;
        let journey = Journey {
            event,
            session,
            route,
            hop: 0,
            sent_at: now,
            payload: Payload::of(payload),
        };
        let id = match self.free_journeys.pop() {
            Some(index) => {
                self.journeys[index as usize] = journey;
                index
            }
            None => {
                self.journeys.push(journey);
                u32::try_from(self.journeys.len() - 1).expect("fewer than 2^32 packets in flight")
            }
        };
        self.counts.sent += 1;
        self.fold(now, Kind::Sent, &event);
        observer.on_sent(now, &event);
        let packet = Packet {
            payload: Vec::new(),
            size_bytes: event.size_bytes,
            ecn,
            flow: event.flow.0,
            id: u64::from(id),
            entered_at: now,
        };
        let link = self.routes[route.index()].hop(event.direction, 0);
        self.push(
            now,
            link.expect("routes have links"),
            packet,
            events,
            observer,
        );
    }

    /// Whether the event of this link and instant is still wanted.
    pub(crate) fn ring(&mut self, now: Instant, link: LinkId) -> bool {
        self.links[link.index()].alarm.ring(now)
    }

    /// Takes the next packet from a link that has come to its route's end, and its bytes to
    /// `buffer`; those that have links before them go on to these.
    pub(crate) fn next_arrival(
        &mut self,
        now: Instant,
        link: LinkId,
        buffer: &mut Vec<u8>,
        events: &mut EventQueue,
        observer: &mut impl Observer,
    ) -> Option<Arrival> {
        while let Some(packet) = self.links[link.index()].link.pop(now) {
            let journey = &mut self.journeys[packet.id as usize];
            journey.hop += 1;
            let route = &self.routes[journey.route.index()];
            match route.hop(journey.event.direction, journey.hop) {
                Some(next) => self.push(now, next, packet, events, observer),
                None => return Some(self.arrive(now, &packet, buffer, observer)),
            }
        }
        None
    }

    /// Collects what a link has lost, and plans its next event.
    pub(crate) fn settle(
        &mut self,
        now: Instant,
        link: LinkId,
        events: &mut EventQueue,
        observer: &mut impl Observer,
    ) {
        while let Some(dropped) = self.links[link.index()].link.take_dropped() {
            self.lose(now, link, &dropped, observer);
        }
        let state = &mut self.links[link.index()];
        state
            .alarm
            .set(state.link.next_at(), Event::Link(link), events);
    }

    /// What a route's links in one direction would do to packets that come, given all that is on
    /// them now. `None` while one of them is down. What others will send is not in it.
    pub(crate) fn forecast(
        &mut self,
        now: Instant,
        route: RouteId,
        direction: Direction,
    ) -> Option<RouteForecast> {
        let mut links = Vec::new();
        // What goes from the link before on to this one.
        let mut coming: Vec<Departure> = Vec::new();
        for hop in 0_u8.. {
            let Some(link) = self.routes[route.index()].hop(direction, hop) else {
                break;
            };
            let mut inside = Vec::new();
            let mut forecast = self.link(link).forecast(now, &mut inside)?;
            for packet in coming {
                let at = forecast.pass(packet.at, packet.size_bytes);
                inside.extend(at.map(|at| Departure { at, ..packet }));
            }
            links.push(forecast);
            let next = self.routes[route.index()].hop(direction, hop + 1);
            inside.retain(|packet| next.is_some() && self.link_after(packet.id, link) == next);
            inside.sort_by_key(|packet| packet.at);
            coming = inside;
        }
        Some(RouteForecast { links })
    }

    /// The link that a packet takes after this one.
    fn link_after(&self, id: u64, link: LinkId) -> Option<LinkId> {
        let Journey { event, route, .. } = &self.journeys[id as usize];
        let route = &self.routes[route.index()];
        let hops = || (0_u8..).map_while(|hop| route.hop(event.direction, hop));
        hops().skip_while(|hop| *hop != link).nth(1)
    }

    fn push(
        &mut self,
        now: Instant,
        link: LinkId,
        packet: Packet,
        events: &mut EventQueue,
        observer: &mut impl Observer,
    ) {
        if let Err(dropped) = self.links[link.index()].link.push(now, packet) {
            self.lose(now, link, &dropped, observer);
        }
        self.settle(now, link, events, observer);
    }

    fn arrive(
        &mut self,
        now: Instant,
        packet: &Packet,
        buffer: &mut Vec<u8>,
        observer: &mut impl Observer,
    ) -> Arrival {
        let journey = self.end_journey(packet.id);
        journey.payload.unpack(buffer);
        let (event, session, sent_at) = (journey.event, journey.session, journey.sent_at);
        self.counts.delivered += 1;
        self.data_delivered_count += u64::from(event.direction == Direction::Forward);
        self.fold(now, Kind::Delivered, &event);
        observer.on_delivered(now, &event, now - sent_at);
        Arrival {
            event,
            session,
            ecn: packet.ecn,
        }
    }

    fn lose(
        &mut self,
        now: Instant,
        link: LinkId,
        dropped: &Dropped,
        observer: &mut impl Observer,
    ) {
        let event = self.end_journey(dropped.packet.id).event;
        self.counts.dropped += 1;
        self.fold(dropped.at, Kind::Dropped, &event);
        observer.on_dropped(dropped.at.min(now), &event, link, dropped.cause);
    }

    /// The journey of a packet that leaves the network, which lasts until the next one begins.
    fn end_journey(&mut self, id: u64) -> &Journey {
        self.free_journeys.push(id as u32);
        &self.journeys[id as usize]
    }

    #[inline]
    fn fold(&mut self, at: Instant, kind: Kind, event: &PacketEvent) {
        let PacketEvent {
            flow,
            path: PathId(path),
            direction,
            size_bytes,
            fragment: _,
        } = *event;
        let word = u64::from(size_bytes)
            | u64::from(flow.0) << 32
            | u64::from(path) << 52
            | (direction as u64) << 60
            | (kind as u64) << 61;
        self.hash.fold(at.as_nanos(), word);
    }
}

/// A datagram that an endpoint sends.
#[derive(Debug)]
pub(crate) struct Datagram<'a> {
    pub(crate) event: PacketEvent,
    /// Which of the flow's sessions it belongs to.
    pub(crate) session: u32,
    pub(crate) route: RouteId,
    pub(crate) ecn: Ecn,
    pub(crate) payload: &'a [u8],
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Sent = 1,
    Delivered = 2,
    Dropped = 3,
}

#[cfg(test)]
mod tests {
    use anabranch_link::{LinkConfig, QueueLimit};
    use anabranch_units::{DataRate, Duration, Seed};

    use super::*;
    use crate::flow::FlowId;

    /// No other packet is as long.
    const PROBE_BYTES: u32 = 1_501;

    fn datagram(route: RouteId, size_bytes: u32) -> Datagram<'static> {
        Datagram {
            event: PacketEvent {
                flow: FlowId(0),
                path: PathId(0),
                direction: Direction::Forward,
                size_bytes,
                fragment: None,
            },
            session: 0,
            route,
            ecn: Ecn::NotEct,
            payload: &[],
        }
    }

    /// Two drop-tail links, one route over both and one over the first alone.
    fn network() -> (Network, [RouteId; 2]) {
        let mut network = Network::default();
        let mut link = |megabits, delay_millis, queue| {
            let config = LinkConfig {
                rate: Some(DataRate::from_megabits_per_second(megabits)),
                delay: Duration::from_millis(delay_millis),
                queue,
                ..LinkConfig::default()
            };
            network.add_link(config.build(Seed(1)).unwrap())
        };
        let first = link(5, 20, QueueLimit::Unlimited);
        let second = link(2, 30, QueueLimit::Bytes(10_000));
        let routes = [vec![first, second], vec![first]].map(|forward| {
            let reverse = vec![first];
            network.add_route(Route { forward, reverse })
        });
        (network, routes)
    }

    #[test]
    fn the_forecast_of_a_chain_of_links_is_exact_while_nothing_else_comes() {
        let mut rng = Seed(7).rng();
        let (mut never_count, mut arrived_count) = (0, 0);
        for _ in 0..200 {
            let (mut network, routes) = network();
            let mut events = EventQueue::default();
            let mut now = Instant::ZERO;
            for _ in 0..rng.below(150) {
                let next_at = now + Duration::from_micros(rng.below(3_000));
                run(&mut network, next_at, &mut events);
                now = next_at;
                let route = routes[usize::from(rng.chance(0.2))];
                let size_bytes = 40 + rng.below(1_461) as u32;
                network.send(now, datagram(route, size_bytes), &mut events, &mut ());
            }
            let forecast = network.forecast(now, routes[0], Direction::Forward);
            let promised = forecast.unwrap().exit_at(now, PROBE_BYTES);
            network.send(now, datagram(routes[0], PROBE_BYTES), &mut events, &mut ());
            let arrivals = run(&mut network, Instant::from_secs(60), &mut events);
            let probe = arrivals
                .iter()
                .find(|(_, size_bytes)| *size_bytes == PROBE_BYTES);
            assert_eq!(promised, probe.map(|(at, _)| *at));
            never_count += u32::from(promised.is_none());
            arrived_count += u32::from(promised.is_some());
        }
        assert!(
            never_count > 10 && arrived_count > 50,
            "{never_count} {arrived_count}"
        );
    }

    /// Lets everything happen up to `until`. When datagrams arrived, and their sizes.
    fn run(network: &mut Network, until: Instant, events: &mut EventQueue) -> Vec<(Instant, u32)> {
        let mut arrivals = Vec::new();
        let mut buffer = Vec::new();
        while let Some((now, event)) = events.pop_until(until) {
            let Event::Link(link) = event else { continue };
            if !network.ring(now, link) {
                continue;
            }
            while let Some(arrival) = network.next_arrival(now, link, &mut buffer, events, &mut ())
            {
                arrivals.push((now, arrival.event.size_bytes));
            }
            network.settle(now, link, events, &mut ());
        }
        arrivals
    }
}
