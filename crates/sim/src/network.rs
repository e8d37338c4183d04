//! Links, routes, and the packets on them.

mod entries;
mod forecast;
mod inbound;
mod packet_record;
mod traffic;

use anabranch_link::{Dropped, Link, Packet};
use anabranch_units::{Duration, Instant};

use self::entries::Entry;
pub(crate) use self::forecast::RouteForecast;
use self::inbound::{InboundLinks, LinkState};
pub(crate) use self::traffic::{Datagram, Shards, Traffic};
use crate::event_queue::Alarm;
use crate::groups::{Division, Group, MAX_GROUPS, Window};
use crate::ids::{Direction, FlowId, LinkId, RouteId, Side};
use crate::mailboxes::Arrival;
use crate::observer::{Observer, PacketEvent};
use crate::topology::Route;

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
    /// Inbound links by the receiving group.
    inbound_links: [InboundLinks; MAX_GROUPS],
}

impl Network {
    pub(crate) fn add_link(&mut self, link: Link) -> LinkId {
        self.links.push(LinkState {
            link,
            alarm: Alarm::UNSET,
            group: 0,
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
        roles
            .into_iter()
            .map(|roles| {
                let first = roles.first().copied();
                first.filter(|first| roles.iter().all(|role| role == first))
            })
            .collect()
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

    /// Prepares the network for groups of this division.
    pub(crate) fn divide(&mut self, division: Division) {
        self.division = division;
        for route in &self.routes {
            for direction in Direction::BOTH {
                let links = route.links(direction);
                for link in links {
                    self.links[link.index()].group = division.receiving(direction);
                }
                let last = links.last().expect("routes have links");
                self.links[last.index()].is_last = true;
            }
        }
        self.inbound_links = Default::default();
        let roles = self.roles();
        for (index, (state, role)) in self.links.iter_mut().zip(roles).enumerate() {
            let last = role.filter(|role| role.is_last);
            state.is_all_for = last.map(|role| Side::receiving(role.direction));
            state.alarm = Alarm::UNSET;
            let link = LinkId(index as u32);
            let inbound = &mut self.inbound_links[state.group];
            if state.is_last {
                inbound.ends.push(link);
            }
            state.plan(link, Instant::ZERO, inbound);
        }
    }

    /// Returns the least time between the sending of a packet and its arrival at the group.
    pub(crate) fn min_delay(&self, group: Group) -> Duration {
        let delays = self.ends_of(group).map(Link::min_delay);
        delays.min().unwrap_or(Duration::ZERO)
    }

    /// Returns a lower bound for the arrival at `group` of packets sent at `known_until` or later:
    /// they queue behind all packets sent before.
    pub(crate) fn horizon(&self, group: Group, known_until: Instant) -> Instant {
        let exits = self
            .ends_of(group)
            .map(|link| link.earliest_exit(known_until));
        exits.min().unwrap_or(known_until)
    }

    /// Returns the links that end routes to a group.
    fn ends_of(&self, group: Group) -> impl Iterator<Item = &Link> {
        let ends = self.inbound_links[group].ends.iter();
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

    /// Returns the next event of a link that concerns a group.
    pub(crate) fn next_at(&self, group: Group) -> Option<Instant> {
        let carried = &self.inbound_links[self.division.peer_of(group)];
        let events = [
            self.inbound_links[group].deliveries.next_at(),
            carried.relays.next_at(),
        ];
        events.into_iter().flatten().min()
    }

    /// Hands the packets that complete their routes in this window to their shards. All of them are
    /// known, as the window ends no later than [`Network::horizon`] allows.
    pub(crate) fn deliver(&mut self, window: Window, shards: &mut impl Shards) {
        let Window {
            group,
            known_until,
            before,
            ..
        } = window;
        while let Some((at, link)) = self.inbound_links[group].deliveries.pop_before(before) {
            let state = &mut self.links[link.index()];
            if !state.alarm.ring(at) {
                continue;
            }
            while let Some((at, packet)) = state.link.pop_before(known_until, before) {
                let id = packet.id as u32;
                // The usual case, which does not need the record.
                let (traffic, _) = shards.of(FlowId(packet.flow));
                if let Some(side) = state.is_all_for {
                    let flow = FlowId(packet.flow);
                    let arrival = Arrival::new((at, link), id, flow, side, packet.ecn);
                    traffic.arrivals.push(arrival);
                    continue;
                }
                let packet_record = traffic.packet_record(&packet);
                packet_record.hop += 1;
                let PacketEvent {
                    flow, direction, ..
                } = packet_record.event();
                match self.routes[packet_record.route.index()].hop(direction, packet_record.hop) {
                    Some(next) => self.inbound_links[group].entries.record(Entry {
                        at,
                        flow,
                        id,
                        size_bytes: packet.size_bytes,
                        link: next,
                        ecn: packet.ecn,
                        is_back: packet.is_back,
                    }),
                    None => {
                        let side = Side::receiving(direction);
                        let arrival = Arrival::new((at, link), id, flow, side, packet.ecn);
                        traffic.arrivals.push(arrival);
                    }
                }
            }
            self.settle(link, before, shards);
        }
    }

    /// Moves packets that a group has sent on, to the end of its window. The receiving group is at
    /// `peer_at`.
    pub(crate) fn carry(&mut self, window: Window, peer_at: Instant, shards: &mut impl Shards) {
        let inbound = self.division.peer_of(window.group);
        let mut entries = std::mem::take(&mut self.inbound_links[inbound].entries);
        shards.for_each(|traffic| entries.record_all(&mut traffic.recorded));
        for entry in entries.drain() {
            self.relay(inbound, entry.at + Duration::from_nanos(1), shards);
            let packet = Packet {
                size_bytes: entry.size_bytes,
                ecn: entry.ecn,
                flow: entry.flow.0,
                is_back: entry.is_back,
                id: u64::from(entry.id),
                entered_at: entry.at,
            };
            self.push(entry.at, entry.link, packet, shards);
        }
        self.inbound_links[inbound].entries = entries;
        self.relay(inbound, window.before, shards);
        while let Some(link) = self.inbound_links[inbound].changed.pop() {
            self.links[link.index()].is_changed = false;
            self.settle(link, peer_at, shards);
        }
    }

    /// Passes packets that leave a link before `before` to the next link of their routes.
    #[inline]
    fn relay(&mut self, inbound: Group, before: Instant, shards: &mut impl Shards) {
        // This is called before every packet, and routes of one link never have relays.
        let next_at = self.inbound_links[inbound].relays.next_at();
        if next_at.is_some_and(|at| at < before) {
            self.relay_due(inbound, before, shards);
        }
    }

    #[inline(never)]
    fn relay_due(&mut self, inbound: Group, before: Instant, shards: &mut impl Shards) {
        while let Some((at, link)) = self.inbound_links[inbound].relays.pop_before(before) {
            if !self.links[link.index()].alarm.ring(at) {
                continue;
            }
            while let Some(packet) = self.links[link.index()].link.pop(at) {
                let (traffic, _) = shards.of(FlowId(packet.flow));
                let packet_record = traffic.packet_record(&packet);
                packet_record.hop += 1;
                let route = &self.routes[packet_record.route.index()];
                let next = route
                    .hop(packet_record.direction, packet_record.hop)
                    .expect("no route ends here");
                self.push(at, next, packet, shards);
            }
            self.settle(link, at, shards);
        }
    }

    fn push(&mut self, now: Instant, link: LinkId, packet: Packet, shards: &mut impl Shards) {
        let state = &mut self.links[link.index()];
        let result = state.link.push(now, packet);
        if !state.is_last {
            self.settle(link, now, shards);
        } else if !std::mem::replace(&mut state.is_changed, true) {
            self.inbound_links[state.group].changed.push(link);
        }
        if let Err(dropped) = result {
            self.lose(link, &dropped, shards);
        }
    }

    /// Collects the packets that a link has dropped, and plans its next event, at `earliest` or
    /// later.
    pub(crate) fn settle(&mut self, link: LinkId, earliest: Instant, shards: &mut impl Shards) {
        while let Some(dropped) = self.links[link.index()].link.take_dropped() {
            self.lose(link, &dropped, shards);
        }
        let state = &mut self.links[link.index()];
        let inbound = &mut self.inbound_links[state.group];
        state.plan(link, earliest, inbound);
    }

    #[cold]
    fn lose(&mut self, link: LinkId, dropped: &Dropped, shards: &mut impl Shards) {
        let (traffic, observer) = shards.of(FlowId(dropped.packet.flow));
        let event = traffic.lose(dropped);
        observer.on_dropped(dropped.at, &event, link, dropped.cause);
    }
}
