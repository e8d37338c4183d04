//! Links, routes, and the packets on them.

use anabranch_core::PathId;
use anabranch_link::{Dropped, Link, Packet};
use anabranch_units::{Ecn, Instant};

use crate::event_queue::{Alarm, Event, EventQueue};
use crate::flow::Direction;
use crate::observer::{Observer, PacketEvent};
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
    pub(crate) payload: Vec<u8>,
}

/// What the network must remember of a packet, named by [`Packet::id`].
#[derive(Clone, Copy, Debug)]
struct Journey {
    event: PacketEvent,
    session: u32,
    route: RouteId,
    hop: u8,
    sent_at: Instant,
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
    /// Indices of journeys that have ended.
    free_journeys: Vec<u32>,
    /// Payloads of packets that have arrived or been lost, for packets to come.
    spare_payloads: Vec<Vec<u8>>,
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

    /// An empty buffer for a datagram.
    pub(crate) fn take_buffer(&mut self) -> Vec<u8> {
        self.spare_payloads.pop().unwrap_or_default()
    }

    /// Takes back a buffer, whatever is in it.
    pub(crate) fn recycle(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        self.spare_payloads.push(buffer);
    }

    /// Hands a datagram to the first link of its route.
    pub(crate) fn send(
        &mut self,
        now: Instant,
        datagram: Datagram,
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
            payload,
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

    /// Takes the next packet from a link that has come to its route's end; those that have links
    /// before them go on to these.
    pub(crate) fn next_arrival(
        &mut self,
        now: Instant,
        link: LinkId,
        events: &mut EventQueue,
        observer: &mut impl Observer,
    ) -> Option<Arrival> {
        while let Some(packet) = self.links[link.index()].link.pop(now) {
            let journey = &mut self.journeys[packet.id as usize];
            journey.hop += 1;
            let route = &self.routes[journey.route.index()];
            match route.hop(journey.event.direction, journey.hop) {
                Some(next) => self.push(now, next, packet, events, observer),
                None => return Some(self.arrive(now, packet, observer)),
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
            self.lose(now, link, dropped, observer);
        }
        let state = &mut self.links[link.index()];
        state
            .alarm
            .set(state.link.next_at(), Event::Link(link), events);
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
            self.lose(now, link, dropped, observer);
        }
        self.settle(now, link, events, observer);
    }

    fn arrive(&mut self, now: Instant, packet: Packet, observer: &mut impl Observer) -> Arrival {
        let Journey {
            event,
            session,
            sent_at,
            ..
        } = self.end_journey(packet.id);
        self.counts.delivered += 1;
        self.data_delivered_count += u64::from(event.direction == Direction::Forward);
        self.fold(now, Kind::Delivered, &event);
        observer.on_delivered(now, &event, now - sent_at);
        Arrival {
            event,
            session,
            ecn: packet.ecn,
            payload: packet.payload,
        }
    }

    fn lose(&mut self, now: Instant, link: LinkId, dropped: Dropped, observer: &mut impl Observer) {
        let event = self.end_journey(dropped.packet.id).event;
        self.counts.dropped += 1;
        self.fold(dropped.at, Kind::Dropped, &event);
        observer.on_dropped(dropped.at.min(now), &event, link, dropped.cause);
        self.recycle(dropped.packet.payload);
    }

    fn end_journey(&mut self, id: u64) -> Journey {
        self.free_journeys.push(id as u32);
        self.journeys[id as usize]
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
pub(crate) struct Datagram {
    pub(crate) event: PacketEvent,
    /// Which of the flow's sessions it belongs to.
    pub(crate) session: u32,
    pub(crate) route: RouteId,
    pub(crate) ecn: Ecn,
    pub(crate) payload: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Sent = 1,
    Delivered = 2,
    Dropped = 3,
}
