use super::*;
use crate::tcp::listener::{ACCEPT_INTERVAL, Listener, MAX_ACCEPTED_AT_ONCE};
use crate::tcp::stream::Stream;
use crate::testing::{Line, Machine, World};
use crate::via::Via;
use anabranch_units::{DataRate, Duration, Network};
use std::net::{IpAddr, SocketAddr};

const SECOND: Duration = Duration::from_secs(1);

/// Time in which a connection is established.
const MOMENT: Duration = Duration::from_millis(100);

/// A server of TCP, and clients in networks of their own.
struct Bed {
    world: World,
    ports: Vec<Port>,
    to: SocketAddr,
    /// Each with its address.
    clients: Vec<(Machine, IpAddr)>,
}

impl Bed {
    fn new() -> Bed {
        let world = World::new(1);
        let line = Line::new(
            DataRate::from_megabits_per_second(100),
            Duration::from_millis(1),
        );
        let server = world.machine("server");
        let to = server.attach("eth0", &line).at(443);
        let acceptor = server.network().listen_tcp(to).expect("a free port");
        let clients = (0..7).map(|number| {
            let client = world.machine(&format!("client{number}"));
            let address = client.attach("eth0", &line).address();
            (client, address)
        });
        // UDP is left out here.
        let ports = vec![Port::vacant(), Port::listening(Listener::new(acceptor))];
        let clients = clients.collect();
        Bed {
            world,
            ports,
            to,
            clients,
        }
    }

    /// Connects a client of this network.
    fn connect(&self, network: usize) -> Stream {
        let (client, _) = &self.clients[network];
        client
            .network()
            .dial(&Via::DefaultRoute, self.to)
            .expect("a route")
    }

    /// Makes the server accept all waiting connections, from `now` on. Returns the time after it.
    fn accept_all(&mut self, now: Instant) -> Instant {
        self.world.run_for(MOMENT);
        let mut now = now;
        for _ in 0..100 {
            self.accept(now);
            now += ACCEPT_INTERVAL * u64::from(MAX_ACCEPTED_AT_ONCE);
        }
        now
    }

    fn accept(&mut self, now: Instant) {
        if let Tcp::Listening(listener) = self.ports[1].tcp() {
            listener.on_ready();
        }
        accept(now, &mut self.ports);
    }

    fn accepted(&self) -> Vec<&Accepted> {
        let accepted = self.ports.iter().filter_map(|port| match port.tcp() {
            Tcp::Accepted(accepted) => Some(accepted),
            _ => None,
        });
        accepted.collect()
    }

    /// Returns the number of accepted connections of a client's network.
    fn count_of(&self, network: usize) -> usize {
        let network = Network::host(self.clients[network].1);
        let accepted = self.accepted().into_iter();
        accepted.filter(|its| its.network == network).count()
    }

    fn tend(&mut self, now: Instant) {
        self.ports.iter_mut().for_each(|port| drop(port.tend(now)));
    }
}

#[test]
fn one_network_has_sixteen_unproven_connections_and_all_have_64() {
    let mut bed = Bed::new();
    let mut now = Instant::from_secs(1);
    let mut kept = Vec::new();
    for network in 1..=6 {
        kept.extend([(); 20].map(|()| bed.connect(network)));
        now = bed.accept_all(now);
        let count = bed.count_of(network);
        // Above a total of 64, the networks share the connections.
        let least = 64 / network.max(4) - 1;
        assert!(
            (least..=16).contains(&count),
            "{count} of network {network}"
        );
        assert!(bed.accepted().len() <= 64);
    }
    assert_eq!(bed.accepted().len(), 64);
}

#[test]
fn a_strangers_connection_makes_room_and_one_of_a_session_does_not() {
    let mut bed = Bed::new();
    let first = bed.connect(6);
    let mut now = bed.accept_all(Instant::from_secs(1));
    bed.accepted()[0].on_authentic(now);
    let mut kept = vec![first];
    for network in 1..=5 {
        kept.extend([(); 16].map(|()| bed.connect(network)));
        now = bed.accept_all(now);
    }
    assert_eq!(bed.accepted().len(), 65);
    assert!(bed.accepted()[0].is_proven());
}

#[test]
fn a_connection_without_proof_is_closed_after_ten_seconds() {
    let mut bed = Bed::new();
    let _kept = [bed.connect(1), bed.connect(1)];
    let now = Instant::from_secs(1);
    bed.accept_all(now);
    bed.accepted()[1].on_authentic(now + SECOND * 9);
    bed.tend(now + SECOND * 9);
    assert_eq!(bed.accepted().len(), 2);
    bed.tend(now + SECOND * 12);
    assert_eq!(bed.accepted().len(), 1);
    assert!(bed.accepted()[0].is_proven());
    bed.tend(now + SECOND * 98);
    assert_eq!(bed.accepted().len(), 1);
    bed.tend(now + SECOND * 100);
    assert_eq!(bed.accepted().len(), 0);
}

/// Checks a host that fills the queue of the kernel before another one connects.
#[test]
fn connections_of_one_host_keep_no_other_waiting() {
    let mut bed = Bed::new();
    let mut kept: Vec<_> = (0..100).map(|_| bed.connect(1)).collect();
    bed.world.run_for(MOMENT);
    kept.push(bed.connect(2));
    bed.world.run_for(MOMENT);
    let now = Instant::from_secs(1);
    for millis in 0..=30 {
        bed.accept(now + Duration::from_millis(millis));
    }
    assert_eq!((bed.count_of(1), bed.count_of(2)), (16, 1));
}

#[test]
fn a_slot_is_not_used_again_soon() {
    let mut bed = Bed::new();
    let mut used = Vec::new();
    let mut now = Instant::from_secs(1);
    for _ in 0..80 {
        let _kept = bed.connect(1);
        now = bed.accept_all(now);
        let slot = bed
            .ports
            .iter()
            .position(|port| matches!(port.tcp(), Tcp::Accepted(_)))
            .expect("accepted");
        *bed.ports[slot].tcp_mut() = Tcp::None;
        assert!(
            !used
                .iter()
                .rev()
                .take(MIN_SLOTS - 1)
                .any(|used| *used == slot)
        );
        used.push(slot);
    }
    assert_eq!(bed.ports.len(), 2 + MIN_SLOTS);
}
