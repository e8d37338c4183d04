//! Rules that need no session.

use std::net::SocketAddr;
use std::sync::Arc;

use anabranch_secure::SecretKey;

use super::super::ClientConfig;
use super::*;
use crate::carrier::Carrier;
use crate::event_queue;
use crate::load::Frames;
use crate::names::testing::Scripted;
use crate::runtime::{Next, Role};

/// Returns the manager of these paths, whose resolver has one answer: no address.
fn managed(paths: Vec<ClientPath>) -> PathManager {
    let (waker, _wakeup) = crate::waker::pair().expect("a pipe");
    let resolver = Arc::new(Scripted::new(vec![Ok(Vec::new())]));
    PathManager::new(paths, Network::default(), resolver, Arc::new(waker))
}

fn has_sent(role: &ClientRole<Frames>) -> bool {
    let handshake = role.handshake.as_ref().expect("it asks for a session");
    handshake.first_sent_at.is_some()
}

#[test]
fn nothing_leaves_before_ports_are_changed() {
    let remote: SocketAddr = "192.0.2.1:7000".parse().expect("an address");
    let path = ClientPath {
        via: Via::DefaultRoute,
        remote: remote.into(),
        options: PathOptions::default(),
    };
    let [local, peer] = [(); 2].map(|()| SecretKey::generate());
    let config = ClientConfig::new(local, peer.public_key(), vec![path.clone()]);
    let mut ports = config.open_ports().expect("loopback");
    let (events, _receiver) = event_queue::queue();
    let (waker, _wakeup) = crate::waker::pair().expect("a pipe");
    let make_load = Box::new(Frames::default);
    let mut role = ClientRole::<Frames>::new(config, events, make_load, Arc::new(waker))
        .expect("it is set up");
    let port = path.open_port(&Network::default()).expect("loopback");
    role.add_path(path, port).expect("there is room");
    let now = role.config.clock.now();
    assert_eq!(role.advance(now, &ports), Next::Wait(Some(now)));
    assert!(!has_sent(&role));
    role.take_ports(now, &mut ports);
    role.advance(now, &ports);
    assert!(has_sent(&role));
    assert_eq!(ports.len(), 2);
}

#[test]
fn an_answer_by_tcp_is_the_hosts_whatever_its_port() {
    let address: SocketAddr = "192.0.2.1:7000".parse().expect("an address");
    let path = ClientPath {
        via: Via::DefaultRoute,
        remote: address.into(),
        options: PathOptions::default(),
    };
    let paths = managed(vec![path]);
    for (from, carrier, known) in [
        ("192.0.2.1:443", Carrier::Tcp, Some(address)),
        ("192.0.2.1:443", Carrier::Udp, None),
        ("192.0.2.1:7000", Carrier::Udp, Some(address)),
        ("192.0.2.2:7000", Carrier::Tcp, None),
    ] {
        let arrival = Arrival {
            socket: 0,
            from: from.parse().expect("an address"),
            to: None,
            received_at: Instant::ZERO,
            ecn: anabranch_units::Ecn::NotEct,
            carrier,
        };
        assert_eq!(paths.address_of(&arrival), known, "{from} {carrier}");
    }
}

/// The path that was heard may be answered by its address again; the other one tries the next.
#[test]
fn after_silence_only_paths_that_were_heard_are_patient_with_their_addresses() {
    let addresses =
        ["192.0.2.1:7000", "192.0.2.2:7000"].map(|address| address.parse().expect("an address"));
    let name = "studio.example:7000".parse().expect("a name");
    let path = ClientPath::new(Via::DefaultRoute, name);
    let mut paths = managed(vec![path.clone(), path]);
    for managed in &mut paths.paths {
        managed.search.set_candidates(&addresses);
        managed.search.choose(addresses[0]);
    }
    let now = Instant::from_secs(1);
    paths.on_silence(now, |index| index == 0);
    paths.on_initiation();
    let next = paths
        .paths
        .iter_mut()
        .map(|managed| managed.search.next(now, |_| true));
    assert_eq!(next.collect::<Vec<_>>(), [None, Some(addresses[1])]);
}

#[test]
fn a_path_that_takes_a_number_gets_no_address_of_the_path_before() {
    let address: SocketAddr = "192.0.2.1:7000".parse().expect("an address");
    let name = "studio.example:7000".parse().expect("a name");
    let named = ClientPath::new(Via::DefaultRoute, name);
    let mut paths = managed(vec![named.clone(), named]);
    for managed in &mut paths.paths {
        managed.search.set_candidates(&[address]);
    }
    assert!(paths.aim(Instant::ZERO), "both call the address now");
    let remote: SocketAddr = "192.0.2.9:7000".parse().expect("an address");
    let new = ClientPath::new(Via::DefaultRoute, remote.into());
    let port = Port::nowhere(&Network::default());
    let managed = ManagedPath::new(new, &mut paths.names);
    paths.replace(0, managed, port);
    let redirected = paths.changes.iter().filter_map(|change| match change {
        Change::Redirect(index, to) => Some((*index, *to)),
        _ => None,
    });
    assert_eq!(redirected.collect::<Vec<_>>(), [(1, address)]);
    assert_eq!(paths.address(0), Some(remote));
}
