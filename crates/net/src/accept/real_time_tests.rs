use super::*;
use crate::tcp::listener::{ACCEPT_INTERVAL, Listener, MAX_ACCEPTED_AT_ONCE};
use anabranch_units::Duration;
use std::net::{SocketAddr, TcpStream};

const SECOND: Duration = Duration::from_secs(1);

/// Returns a server's ports: UDP, which is left out here, and TCP.
fn ports() -> (Vec<Port>, SocketAddr) {
    let listener = Listener::bind("0.0.0.0:0".parse().unwrap()).expect("a port");
    let port = listener.local_addr().unwrap().port();
    let ports = vec![Port::vacant(), Port::listening(listener)];
    (ports, SocketAddr::from(([127, 0, 0, 1], port)))
}

/// Opens a connection from this address of loopback.
fn connect(from: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
    let socket = socket.expect("a socket");
    socket
        .bind(&SocketAddr::from((from, 0)).into())
        .expect("loopback");
    socket.connect(&to.into()).expect("the kernel takes it");
    socket.into()
}

/// Makes the server accept all waiting connections, from `now` on. Returns the time after it.
fn accept_all(now: Instant, ports: &mut Vec<Port>) -> Instant {
    let mut now = now;
    for _ in 0..100 {
        if let Tcp::Listening(listener) = ports[1].tcp() {
            listener.on_ready();
        }
        accept(now, ports);
        now += ACCEPT_INTERVAL * u64::from(MAX_ACCEPTED_AT_ONCE);
    }
    now
}

fn accepted(ports: &[Port]) -> Vec<&Accepted> {
    let accepted = ports.iter().filter_map(|port| match port.tcp() {
        Tcp::Accepted(accepted) => Some(accepted),
        _ => None,
    });
    accepted.collect()
}

#[test]
fn one_network_has_sixteen_unproven_connections_and_all_have_64() {
    let (mut ports, to) = ports();
    let mut now = Instant::from_secs(1);
    let mut kept = Vec::new();
    for network in 1..=6 {
        kept.extend([(); 20].map(|()| connect([127, 0, 0, network], to)));
        now = accept_all(now, &mut ports);
        let of_network = Network::host([127, 0, 0, network].into());
        let is_its = |accepted: &&&Accepted| accepted.network == of_network;
        let count = accepted(&ports).iter().filter(is_its).count();
        // Above a total of 64, the networks share the connections.
        let least = 64 / usize::from(network).max(4) - 1;
        assert!(
            (least..=16).contains(&count),
            "{count} of network {network}"
        );
        assert!(accepted(&ports).len() <= 64);
    }
    assert_eq!(accepted(&ports).len(), 64);
}

#[test]
fn a_strangers_connection_makes_room_and_one_of_a_session_does_not() {
    let (mut ports, to) = ports();
    let first = connect([127, 0, 0, 9], to);
    let mut now = accept_all(Instant::from_secs(1), &mut ports);
    accepted(&ports)[0].on_authentic(now);
    let mut kept = vec![first];
    for network in 1..=5 {
        kept.extend([(); 16].map(|()| connect([127, 0, 0, network], to)));
        now = accept_all(now, &mut ports);
    }
    assert_eq!(accepted(&ports).len(), 65);
    assert!(accepted(&ports)[0].is_proven());
}

#[test]
fn a_connection_without_proof_is_closed_after_ten_seconds() {
    let (mut ports, to) = ports();
    let _kept = [connect([127, 0, 0, 1], to), connect([127, 0, 0, 1], to)];
    let now = Instant::from_secs(1);
    accept_all(now, &mut ports);
    accepted(&ports)[1].on_authentic(now + SECOND * 9);
    let tend = |ports: &mut Vec<Port>, now| ports.iter_mut().for_each(|port| drop(port.tend(now)));
    tend(&mut ports, now + SECOND * 9);
    assert_eq!(accepted(&ports).len(), 2);
    tend(&mut ports, now + SECOND * 12);
    assert_eq!(accepted(&ports).len(), 1);
    assert!(accepted(&ports)[0].is_proven());
    tend(&mut ports, now + SECOND * 98);
    assert_eq!(accepted(&ports).len(), 1);
    tend(&mut ports, now + SECOND * 100);
    assert_eq!(accepted(&ports).len(), 0);
}

/// Checks a host that fills the queue of the kernel before another one connects.
#[test]
fn connections_of_one_host_keep_no_other_waiting() {
    let (mut ports, to) = ports();
    let mut kept: Vec<_> = (0..100).map(|_| connect([127, 0, 1, 1], to)).collect();
    kept.push(connect([127, 0, 2, 1], to));
    let now = Instant::from_secs(1);
    for millis in 0..=30 {
        if let Tcp::Listening(listener) = ports[1].tcp() {
            listener.on_ready();
        }
        accept(now + Duration::from_millis(millis), &mut ports);
    }
    let host = |last: u8| Network::host([127, 0, last, 1].into());
    let accepted = accepted(&ports);
    let count = |of: Network| accepted.iter().filter(|its| its.network == of).count();
    assert_eq!((count(host(1)), count(host(2))), (16, 1));
}

#[test]
fn a_slot_is_not_used_again_soon() {
    let (mut ports, to) = ports();
    let mut used = Vec::new();
    let mut now = Instant::from_secs(1);
    for _ in 0..80 {
        let _kept = connect([127, 0, 0, 1], to);
        now = accept_all(now, &mut ports);
        let is_used = |port: &Port| matches!(port.tcp(), Tcp::Accepted(_));
        let slot = ports.iter().position(is_used).expect("accepted");
        *ports[slot].tcp_mut() = Tcp::None;
        assert!(
            !used
                .iter()
                .rev()
                .take(MIN_SLOTS - 1)
                .any(|used| *used == slot)
        );
        used.push(slot);
    }
    assert_eq!(ports.len(), 2 + MIN_SLOTS);
}
