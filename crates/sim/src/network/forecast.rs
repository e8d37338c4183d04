//! Forecasts of the network's effect on packets that are sent now.

use anabranch_link::{Departure, Forecast};
use anabranch_units::Instant;

use super::{Network, Traffic};
use crate::ids::{Direction, LinkId, RouteId};

/// The forecasts of a route's links, in their order.
#[derive(Clone, Debug)]
pub(crate) struct RouteForecast {
    links: Vec<Forecast>,
}

impl RouteForecast {
    /// Returns the time at which a packet that enters at `entry` leaves the last link; `None`:
    /// never.
    pub(crate) fn exit_at(&self, entry: Instant, size_bytes: u32) -> Option<Instant> {
        let mut links = self.links.iter();
        links.try_fold(entry, |at, link| link.exit_at(at, size_bytes))
    }

    /// Does the same, and counts the packet for later ones.
    pub(crate) fn pass(&mut self, entry: Instant, size_bytes: u32) -> Option<Instant> {
        let mut links = self.links.iter_mut();
        links.try_fold(entry, |at, link| link.pass(at, size_bytes))
    }
}

impl Network {
    /// Returns the effect of a route's links in one direction on new packets, given all packets on
    /// the links now. `None` while one of the links is down. Future packets of other flows are not
    /// included.
    pub(crate) fn forecast(
        &mut self,
        now: Instant,
        route: RouteId,
        direction: Direction,
        traffic: &Traffic,
    ) -> Option<RouteForecast> {
        let mut links = Vec::new();
        // Packets that go from the link before on to this one.
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
            inside.retain(|packet| {
                next.is_some() && self.link_after(packet.id, link, traffic) == next
            });
            inside.sort_by_key(|packet| packet.at);
            coming = inside;
        }
        Some(RouteForecast { links })
    }

    /// Returns the link that a packet takes after this one.
    fn link_after(&self, id: u64, link: LinkId, traffic: &Traffic) -> Option<LinkId> {
        let packet_record = &traffic.packet_records[id as usize];
        let route = &self.routes[packet_record.route.index()];
        let hops = (0_u8..).map_while(|hop| route.hop(packet_record.direction, hop));
        hops.skip_while(|hop| *hop != link).nth(1)
    }
}

#[cfg(test)]
mod tests {
    use anabranch_core::PathId;
    use anabranch_link::{LinkConfig, QueueLimit};
    use anabranch_units::{DataRate, Duration, Ecn, Seed};

    use super::*;
    use crate::groups::{Division, Window};
    use crate::ids::FlowId;
    use crate::network::Datagram;
    use crate::observer::PacketEvent;
    use crate::payload::Unpacked;
    use crate::topology::Route;

    /// A size that no other packet has.
    const PROBE_BYTES: u32 = 1_501;

    fn datagram(route: RouteId, size_bytes: u32) -> Datagram<'static> {
        Datagram {
            event: PacketEvent {
                flow: FlowId(0),
                path: PathId(0),
                direction: Direction::Forward,
                size_bytes,
                fragment: None,
                reason: None,
            },
            session: 0,
            route,
            ecn: Ecn::NotEct,
            payload: &[],
        }
    }

    /// Returns two drop-tail links, one route over both and one over the first alone.
    fn network() -> (Network, Traffic, [RouteId; 2]) {
        fn link(
            megabits: u64,
            delay_millis: u64,
            queue: QueueLimit,
            network: &mut Network,
        ) -> LinkId {
            let config = LinkConfig {
                rate: Some(DataRate::from_megabits_per_second(megabits)),
                delay: Duration::from_millis(delay_millis),
                queue,
                ..LinkConfig::default()
            };
            network.add_link(config.build(Seed(1)).unwrap())
        }

        let mut network = Network::default();
        let first = link(5, 20, QueueLimit::Unlimited, &mut network);
        let second = link(2, 30, QueueLimit::Bytes(10_000), &mut network);
        let routes = [vec![first, second], vec![first]].map(|forward| {
            let reverse = vec![first];
            network.add_route(Route { forward, reverse })
        });
        network.divide(Division::Together);
        let mut traffic = Traffic::default();
        traffic.learn_routes(network.routes());
        (network, traffic, routes)
    }

    #[test]
    fn the_forecast_of_a_chain_of_links_is_exact_while_nothing_else_comes() {
        let mut rng = Seed(7).rng();
        let (mut never_count, mut arrived_count) = (0, 0);
        for _ in 0..200 {
            let (mut network, mut traffic, routes) = network();
            let mut now = Instant::ZERO;
            for _ in 0..rng.below(150) {
                let next_at = now + Duration::from_micros(rng.below(3_000));
                run(&mut network, &mut traffic, next_at);
                now = next_at;
                let route = routes[usize::from(rng.chance(0.2))];
                let size_bytes = 40 + rng.below(1_461) as u32;
                send(&mut network, &mut traffic, now, datagram(route, size_bytes));
            }
            let forecast = network.forecast(now, routes[0], Direction::Forward, &traffic);
            let promised = forecast.unwrap().exit_at(now, PROBE_BYTES);
            send(
                &mut network,
                &mut traffic,
                now,
                datagram(routes[0], PROBE_BYTES),
            );
            let arrivals = run(&mut network, &mut traffic, Instant::from_secs(60));
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

    fn send(network: &mut Network, traffic: &mut Traffic, now: Instant, datagram: Datagram<'_>) {
        traffic.send(now, &datagram, &mut ());
        network.carry(instant(now), now, &mut (traffic, &mut ()));
    }

    /// Returns a window of one instant.
    fn instant(now: Instant) -> Window {
        Window {
            group: 0,
            known_until: now,
            before: now + Duration::from_nanos(1),
            reached: now,
        }
    }

    /// Runs the network up to `until`. Returns the arrivals of datagrams, and their sizes.
    fn run(network: &mut Network, traffic: &mut Traffic, until: Instant) -> Vec<(Instant, u32)> {
        while let Some(now) = network.next_at(0).filter(|at| *at <= until) {
            network.deliver(instant(now), &mut (&mut *traffic, &mut ()));
            network.carry(instant(now), now, &mut (&mut *traffic, &mut ()));
        }
        let mut buffer = Unpacked::default();
        let arrivals = std::mem::take(&mut traffic.arrivals);
        arrivals
            .iter()
            .map(|arrival| {
                traffic.arrive(arrival, &mut buffer, &mut ());
                let packet_record = &traffic.packet_records[arrival.id as usize];
                (arrival.at, packet_record.event().size_bytes)
            })
            .collect()
    }
}
