//! Links, routes, and the packets on them.

mod entries;
mod forecast;
mod journey;
mod traffic;
mod way;

use anabranch_link::{Dropped, Link, Packet};
use anabranch_units::{Duration, Instant};

use self::entries::Entry;
pub(crate) use self::forecast::RouteForecast;
pub(crate) use self::traffic::{Datagram, Lanes, Traffic};
use self::way::{LinkState, Way};
use crate::event_queue::Alarm;
use crate::flow::{Direction, FlowId, Side};
use crate::inboxes::Arrival;
use crate::observer::{Observer, PacketEvent};
use crate::parties::{Division, MAX_PARTIES, Party, Window};
use crate::topology::{LinkId, Route, RouteId};

/// Numbers of datagrams by outcome. Every sent datagram is delivered, dropped or in flight.
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
    /// Returns the sums of both.
    pub(crate) const fn plus(self, other: PacketCounts) -> PacketCounts {
        PacketCounts {
            sent: self.sent + other.sent,
            delivered: self.delivered + other.delivered,
            dropped: self.dropped + other.dropped,
        }
    }

    /// Returns the number of datagrams in flight.
    pub const fn in_flight(&self) -> u64 {
        self.sent - self.delivered - self.dropped
    }
}

/// The role of a link in a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Role {
    direction: Direction,
    is_last: bool,
}

/// Links and the packets on them. Time advances in windows: [`Network::deliver`] hands out a
/// window's arrivals, then flows call [`Traffic::send`], and [`Network::carry`] moves the packets
/// on.
#[derive(Debug, Default)]
pub(crate) struct Network {
    links: Vec<LinkState>,
    routes: Vec<Route>,
    division: Division,
    /// Ways by the receiving party.
    ways: [Way; MAX_PARTIES],
}

impl Network {
    pub(crate) fn add_link(&mut self, link: Link) -> LinkId {
        self.links.push(LinkState {
            link,
            alarm: Alarm::UNSET,
            party: 0,
            is_last: false,
            is_all_for: None,
            is_changed: false,
        });
        LinkId(u32::try_from(self.links.len() - 1).expect("fewer than 2^32 links"))
    }

    /// # Panics
    /// If a link is not of this network.
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

    /// Returns the role of each link in its routes: the direction of its packets, and whether it is
    /// the last link. `None` if the role differs between routes.
    fn roles(&self) -> Vec<Option<Role>> {
        let mut roles = vec![Vec::new(); self.links.len()];
        for route in &self.routes {
            for direction in Direction::BOTH {
                let links = route.links(direction);
                for (hop, link) in links.iter().enumerate() {
                    let is_last = hop == links.len() - 1;
                    roles[link.index()].push(Role { direction, is_last });
                }
            }
        }
        let only = |roles: Vec<Role>| {
            let first = roles.first().copied();
            first.filter(|first| roles.iter().all(|role| role == first))
        };
        roles.into_iter().map(only).collect()
    }

    /// Returns whether senders and receivers are connected by different links only, and each link
    /// is either the last one of all its packets or of none.
    pub(crate) fn is_divisible(&self) -> bool {
        let roles = self.roles();
        let mut links = self.routes.iter().flat_map(|route| {
            let links = Direction::BOTH.map(|direction| route.links(direction));
            links.into_iter().flatten()
        });
        links.all(|link| roles[link.index()].is_some())
    }

    /// Prepares the network for parties of this division.
    pub(crate) fn divide(&mut self, division: Division) {
        self.division = division;
        for route in &self.routes {
            for direction in Direction::BOTH {
                let links = route.links(direction);
                for link in links {
                    self.links[link.index()].party = division.that_hears(direction);
                }
                let last = links.last().expect("routes have links");
                self.links[last.index()].is_last = true;
            }
        }
        self.ways = Default::default();
        let roles = self.roles();
        for (index, (state, role)) in self.links.iter_mut().zip(roles).enumerate() {
            let last = role.filter(|role| role.is_last);
            state.is_all_for = last.map(|role| Side::that_hears(role.direction));
            state.alarm = Alarm::UNSET;
            let link = LinkId(index as u32);
            let way = &mut self.ways[state.party];
            if state.is_last {
                way.ends.push(link);
            }
            state.plan(link, Instant::ZERO, way);
        }
    }

    /// Returns the least time between the sending of a packet and its arrival at the party.
    pub(crate) fn min_delay(&self, party: Party) -> Duration {
        let delays = self.ends_of(party).map(Link::min_delay);
        delays.min().unwrap_or(Duration::ZERO)
    }

    /// Returns a lower bound for the arrival at `party` of packets sent at `known_until` or later:
    /// they queue behind all packets sent before.
    pub(crate) fn horizon(&self, party: Party, known_until: Instant) -> Instant {
        let exits = self
            .ends_of(party)
            .map(|link| link.earliest_exit(known_until));
        exits.min().unwrap_or(known_until)
    }

    /// Returns the links that end routes to a party.
    fn ends_of(&self, party: Party) -> impl Iterator<Item = &Link> {
        let ends = self.ways[party].ends.iter();
        ends.map(|link| &self.links[link.index()].link)
    }

    pub(crate) fn link(&mut self, link: LinkId) -> &mut Link {
        &mut self.links[link.index()].link
    }

    pub(crate) fn routes(&self) -> &[Route] {
        &self.routes
    }

    pub(crate) fn has_route(&self, route: RouteId) -> bool {
        route.index() < self.routes.len()
    }

    /// Returns the next event of a link that concerns a party.
    pub(crate) fn next_at(&self, party: Party) -> Option<Instant> {
        let carried = &self.ways[self.division.peer_of(party)];
        let events = [
            self.ways[party].deliveries.next_at(),
            carried.relays.next_at(),
        ];
        events.into_iter().flatten().min()
    }

    /// Hands the packets that complete their routes in this window to their lanes. All of them are
    /// known, as the window ends no later than [`Network::horizon`] allows.
    pub(crate) fn deliver(&mut self, window: Window, lanes: &mut impl Lanes) {
        let Window {
            party,
            known_until,
            before,
            ..
        } = window;
        while let Some((at, link)) = self.ways[party].deliveries.pop_before(before) {
            let state = &mut self.links[link.index()];
            if !state.alarm.ring(at) {
                continue;
            }
            while let Some((at, packet)) = state.link.pop_before(known_until, before) {
                let id = packet.id as u32;
                let arrival = |flow, side| Arrival::new(at, id, flow, side, packet.ecn);
                // The usual case, which does not need the journey.
                let (traffic, _) = lanes.of(FlowId(packet.flow));
                if let Some(side) = state.is_all_for {
                    traffic.arrivals.push(arrival(FlowId(packet.flow), side));
                    continue;
                }
                let journey = traffic.journey(&packet);
                journey.hop += 1;
                let PacketEvent {
                    flow, direction, ..
                } = journey.event();
                match self.routes[journey.route.index()].hop(direction, journey.hop) {
                    Some(next) => self.ways[party].entries.note(Entry {
                        at,
                        flow,
                        id,
                        size_bytes: packet.size_bytes,
                        link: next,
                        ecn: packet.ecn,
                        is_back: packet.is_back,
                    }),
                    None => {
                        let side = Side::that_hears(direction);
                        traffic.arrivals.push(arrival(flow, side));
                    }
                }
            }
            self.settle(link, before, lanes);
        }
    }

    /// Moves packets that a party has sent on, to the end of its window. The receiving party is at
    /// `peer_at`.
    pub(crate) fn carry(&mut self, window: Window, peer_at: Instant, lanes: &mut impl Lanes) {
        let way = self.division.peer_of(window.party);
        let mut entries = std::mem::take(&mut self.ways[way].entries);
        lanes.for_each(|traffic| entries.note_all(&mut traffic.noted));
        for entry in entries.drain() {
            self.relay(way, entry.at + Duration::from_nanos(1), lanes);
            let packet = Packet {
                size_bytes: entry.size_bytes,
                ecn: entry.ecn,
                flow: entry.flow.0,
                is_back: entry.is_back,
                id: u64::from(entry.id),
                entered_at: entry.at,
            };
            self.push(entry.at, entry.link, packet, lanes);
        }
        self.ways[way].entries = entries;
        self.relay(way, window.before, lanes);
        while let Some(link) = self.ways[way].changed.pop() {
            self.links[link.index()].is_changed = false;
            self.settle(link, peer_at, lanes);
        }
    }

    /// Passes packets that leave a link before `before` to the next link of their routes.
    #[inline]
    fn relay(&mut self, way: Party, before: Instant, lanes: &mut impl Lanes) {
        // This is called before every packet, and routes of one link never have relays.
        let next_at = self.ways[way].relays.next_at();
        if next_at.is_some_and(|at| at < before) {
            self.relay_due(way, before, lanes);
        }
    }

    #[inline(never)]
    fn relay_due(&mut self, way: Party, before: Instant, lanes: &mut impl Lanes) {
        while let Some((at, link)) = self.ways[way].relays.pop_before(before) {
            if !self.links[link.index()].alarm.ring(at) {
                continue;
            }
            while let Some(packet) = self.links[link.index()].link.pop(at) {
                let (traffic, _) = lanes.of(FlowId(packet.flow));
                let journey = traffic.journey(&packet);
                journey.hop += 1;
                let route = &self.routes[journey.route.index()];
                let next = route.hop(journey.direction, journey.hop);
                let next = next.expect("no route ends here");
                self.push(at, next, packet, lanes);
            }
            self.settle(link, at, lanes);
        }
    }

    fn push(&mut self, now: Instant, link: LinkId, packet: Packet, lanes: &mut impl Lanes) {
        let state = &mut self.links[link.index()];
        let result = state.link.push(now, packet);
        if !state.is_last {
            self.settle(link, now, lanes);
        } else if !std::mem::replace(&mut state.is_changed, true) {
            self.ways[state.party].changed.push(link);
        }
        if let Err(dropped) = result {
            self.lose(link, &dropped, lanes);
        }
    }

    /// Collects the packets that a link has dropped, and plans its next event, at `earliest` or
    /// later.
    fn settle(&mut self, link: LinkId, earliest: Instant, lanes: &mut impl Lanes) {
        while let Some(dropped) = self.links[link.index()].link.take_dropped() {
            self.lose(link, &dropped, lanes);
        }
        let state = &mut self.links[link.index()];
        let way = &mut self.ways[state.party];
        state.plan(link, earliest, way);
    }

    #[cold]
    fn lose(&mut self, link: LinkId, dropped: &Dropped, lanes: &mut impl Lanes) {
        let (traffic, observer) = lanes.of(FlowId(dropped.packet.flow));
        let event = traffic.lose(dropped);
        observer.on_dropped(dropped.at, &event, link, dropped.cause);
    }
}
