//! Clients whose receivers have names: failures, changes, and hosts that TCP alone reaches.

use std::net::{IpAddr, SocketAddr};

use anabranch_core::PathState;
use anabranch_net::testing::{Interface, Machine};
use anabranch_net::{
    Carrier, ClientPath, Event, Events, PathSnapshot, Receiver, Receptions, Sender, StreamServer,
    TcpFallback, Via,
};

use super::bed::{Bed, drain, line, millis};

const HOST: &str = "studio.example";
const NAME: &str = "studio.example:7000";
const TCP_PORT: u16 = 443;
/// Address at which nobody answers.
const NOWHERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(203, 0, 113, 9));

/// Returns a world whose camera has two lines.
fn two_lines(seed: u64) -> Bed {
    Bed::new(seed, &[line(10, 10), line(10, 20)])
}

/// Returns another machine for the studio's program.
fn other_host(bed: &Bed) -> (Machine, Interface) {
    let machine = bed.world.machine("other");
    let line = machine.attach("eth0", &line(100, 1));
    (machine, line)
}

fn receiver_on(bed: &Bed, machine: &Machine, line: &Interface) -> (Receiver, Receptions) {
    let server = Receiver::builder()
        .key(bed.world.key("studio"))
        .allow(bed.world.key("camera").public_key())
        .network(machine.network())
        .listen(line.at(7_000))
        .listen_tcp(line.at(TCP_PORT));
    server.start().expect("the addresses are free")
}

fn start(bed: &Bed, tcp: TcpFallback) -> (Sender, Events) {
    let client = bed.client().to(NAME).tcp(tcp);
    client.start().expect("the set-up works")
}

fn leads_to(sender: &Sender, address: SocketAddr) -> bool {
    let paths = sender.snapshot().paths;
    !paths.is_empty() && paths.iter().all(|path| path.peer == Some(address))
}

fn is_by_tcp(paths: &[PathSnapshot]) -> bool {
    !paths.is_empty() && paths.iter().all(|path| path.carrier == Carrier::Tcp)
}

/// Returns the paths that have turned to TCP, in the order of their numbers.
fn turned_to_tcp(events: &[Event]) -> Vec<usize> {
    let mut turned: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::PathCarrier {
                path,
                carrier: Carrier::Tcp,
            } => Some(path.index()),
            _ => None,
        })
        .collect();
    turned.sort_unstable();
    turned
}

#[test]
fn a_name_that_cannot_be_resolved_yet_is_waited_for() {
    let bed = two_lines(1);
    let (_receiver, _sessions) = bed.receiver();
    let reason = "temporary failure".to_owned();
    bed.world.set_name(HOST, Err(reason.clone()));
    let (sender, events) = start(&bed, TcpFallback::Off);
    bed.world.run_for(millis(2_500));
    bed.world.set_name(HOST, Ok(vec![bed.address().ip()]));
    bed.world.run_for(millis(4_000));
    let seen = drain(&events);
    let (name, addresses) = (NAME.to_owned(), vec![bed.address()]);
    let unresolved = Event::NameUnresolved {
        name: name.clone(),
        reason,
    };
    let resolved = Event::NameResolved { name, addresses };
    assert_eq!(seen[..2], [unresolved, resolved]);
    assert!(matches!(seen[2], Event::Connected { .. }), "{seen:?}");
    assert!(leads_to(&sender, bed.address()));
}

#[test]
fn the_next_address_is_called_when_the_first_does_not_answer() {
    let bed = two_lines(2);
    let (_receiver, _sessions) = bed.receiver();
    bed.world
        .set_name(HOST, Ok(vec![NOWHERE, bed.address().ip()]));
    let client = bed.client().to(NAME);
    let connected = bed.world.block_on(client.connect_async());
    let (sender, _events) = connected.expect("an answer from the second address");
    bed.send_for(&sender, millis(1_000));
    assert!(leads_to(&sender, bed.address()));
}

/// Checks each line in turn: one of them has brought the session, and the other has only been heard
/// since.
#[test]
fn a_line_that_is_silent_for_a_moment_keeps_the_address_that_it_was_heard_from() {
    for silent in 0..2 {
        let bed = two_lines(20);
        let (_receiver, _sessions) = bed.receiver();
        bed.world
            .set_name(HOST, Ok(vec![bed.address().ip(), NOWHERE]));
        let (sender, _events) = start(&bed, TcpFallback::Off);
        bed.send_for(&sender, millis(10_000));
        bed.lines[silent].block_udp(true);
        for second in 0..8 {
            bed.send_for(&sender, millis(1_000));
            assert!(
                leads_to(&sender, bed.address()),
                "line {silent}, {second} s"
            );
        }
        // It is not patient for ever, and tries both in turn.
        let has_left = (0..12).any(|_| {
            bed.send_for(&sender, millis(1_000));
            !leads_to(&sender, bed.address())
        });
        assert!(has_left, "line {silent}");
    }
}

#[test]
fn a_name_that_moves_is_followed_when_the_receiver_is_gone() {
    let bed = two_lines(3);
    let (other, line) = other_host(&bed);
    let first = bed.receiver();
    let (_second, _sessions) = receiver_on(&bed, &other, &line);
    bed.world.set_name(HOST, Ok(vec![bed.address().ip()]));
    let (sender, events) = start(&bed, TcpFallback::Off);
    bed.world.run_for(millis(1_000));
    let moved_to = line.at(7_000);
    bed.world.set_name(HOST, Ok(vec![moved_to.ip()]));
    bed.send_for(&sender, millis(10_000));
    assert!(leads_to(&sender, bed.address()), "the session works");
    drain(&events);
    drop(first);
    bed.send_for(&sender, millis(10_000));
    let seen = drain(&events);
    assert!(
        seen.iter().any(|event| match event {
            Event::NameResolved { addresses, .. } => *addresses == [moved_to],
            _ => false,
        }),
        "{seen:?}"
    );
    assert!(leads_to(&sender, moved_to));
}

#[test]
fn tcp_reaches_the_address_of_a_name_that_answers_and_paths_stay_there() {
    let bed = two_lines(4);
    bed.studio_line.block_udp(true);
    let (receiver, _sessions) = receiver_on(&bed, &bed.studio, &bed.studio_line);
    bed.world
        .set_name(HOST, Ok(vec![NOWHERE, bed.address().ip()]));
    let (sender, events) = start(&bed, TcpFallback::Port(TCP_PORT));
    bed.world.run_for(millis(15_000));
    bed.send_for(&sender, millis(2_000));
    let seen = drain(&events);
    let remote = bed.studio_line.at(TCP_PORT);
    assert!(seen.contains(&Event::UdpBlocked { remote }), "{seen:?}");
    assert_eq!(turned_to_tcp(&seen), [0, 1]);
    assert!(leads_to(&sender, bed.address()));
    assert!(is_by_tcp(&sender.snapshot().paths));
    assert!(is_by_tcp(&receiver.snapshot().paths));
}

#[test]
fn a_name_that_moves_is_followed_by_tcp() {
    let bed = two_lines(5);
    let (other, line) = other_host(&bed);
    bed.studio_line.block_udp(true);
    line.block_udp(true);
    let first = receiver_on(&bed, &bed.studio, &bed.studio_line);
    let (second, _sessions) = receiver_on(&bed, &other, &line);
    bed.world.set_name(HOST, Ok(vec![bed.address().ip()]));
    let (sender, events) = start(&bed, TcpFallback::Port(TCP_PORT));
    bed.world.run_for(millis(8_000));
    assert_eq!(turned_to_tcp(&drain(&events)), [0, 1]);
    bed.world.set_name(HOST, Ok(vec![line.at(7_000).ip()]));
    drop(first);
    bed.send_for(&sender, millis(20_000));
    let seen = drain(&events);
    assert!(
        seen.iter()
            .any(|event| matches!(event, Event::Reconnected { .. })),
        "{seen:?}"
    );
    assert!(leads_to(&sender, line.at(7_000)));
    assert!(is_by_tcp(&sender.snapshot().paths));
    assert!(is_by_tcp(&second.snapshot().paths));
}

#[test]
fn a_path_that_takes_a_number_where_udp_is_blocked_goes_by_tcp_too() {
    let bed = Bed::new(6, &[line(10, 10), line(10, 20), line(10, 15)]);
    bed.studio_line.block_udp(true);
    let (receiver, _sessions) = receiver_on(&bed, &bed.studio, &bed.studio_line);
    let client = bed
        .client_by(&["line0", "line1"])
        .tcp(TcpFallback::Port(TCP_PORT));
    let (sender, events) = client.start().expect("the set-up works");
    bed.world.run_for(millis(8_000));
    assert_eq!(turned_to_tcp(&drain(&events)), [0, 1]);
    for (turn, via) in [(1, "line2"), (2, "line1"), (3, "line2")] {
        let by = ClientPath::new(Via::from(via), bed.address().into());
        let old = sender.replace_path(anabranch_core::PathId(1), by);
        assert_eq!(old.expect("there is such a path").carrier, Carrier::Tcp);
        bed.send_for(&sender, millis(6_000));
        assert_eq!(turned_to_tcp(&drain(&events)), [1], "{turn}");
        let path = &sender.snapshot().paths[1];
        assert_eq!((path.succession, path.carrier), (turn, Carrier::Tcp));
        assert_eq!(path.view.state, PathState::Active);
    }
    let from = receiver.snapshot().paths[1].peer.expect("it was heard");
    assert_eq!(from.ip(), bed.lines[2].address());
}

#[test]
fn a_number_serves_one_path_after_the_other() {
    let bed = Bed::new(7, &[line(10, 10), line(10, 20), line(10, 15)]);
    let (_receiver, _sessions) = bed.receiver();
    let client = bed.client_by(&["line0", "line1"]).scheduler_named("wrr");
    let connected = bed.world.block_on(client.connect_async());
    let (sender, _events) = connected.expect("an answer");
    bed.send_for(&sender, millis(500));
    for turn in 0..40 {
        let via = if turn % 2 == 0 { "line2" } else { "line1" };
        let old = sender
            .replace_path(
                anabranch_core::PathId(1),
                ClientPath::new(Via::from(via), bed.address().into()),
            )
            .expect("there is such a path");
        assert!(old.counters.received_packets > 0, "{turn}");
        assert_eq!(old.peer, Some(bed.address()));
        let path = &sender.snapshot().paths[1];
        assert_eq!(path.counters.received_packets, 0);
        assert_eq!(path.succession, turn + 1);
        bed.send_for(&sender, millis(500));
        let path = &sender.snapshot().paths[1];
        assert_eq!(path.view.state, PathState::Active, "{turn}");
    }
    let refused = sender
        .replace_path(
            anabranch_core::PathId(2),
            ClientPath::new(Via::from("line1"), bed.address().into()),
        )
        .expect_err("there is none");
    assert!(matches!(
        refused,
        anabranch_net::StartError::NoSuchPath { index: 2 }
    ));
}

/// The server carries streams, and the session would be one of frames.
#[test]
fn a_receiver_that_refuses_by_udp_is_not_asked_by_tcp() {
    let bed = two_lines(8);
    let server = StreamServer::builder()
        .key(bed.world.key("studio"))
        .allow(bed.world.key("camera").public_key())
        .network(bed.studio.network())
        .listen(bed.address())
        .listen_tcp(bed.studio_line.at(TCP_PORT));
    let _server = server.start().expect("the addresses are free");
    bed.world.set_name(HOST, Ok(vec![bed.address().ip()]));
    let (_sender, events) = start(&bed, TcpFallback::Port(TCP_PORT));
    bed.world.run_for(millis(1_000));
    let seen = drain(&events);
    assert!(matches!(seen[..], [Event::Refused(_)]), "{seen:?}");
    bed.world.run_for(millis(5_000));
    assert_eq!(drain(&events), [], "UDP answers, if not with a session");
}

#[test]
fn an_address_of_tcp_that_is_taken_is_named() {
    let bed = two_lines(9);
    let _first = receiver_on(&bed, &bed.studio, &bed.studio_line);
    let second = Receiver::builder()
        .key(bed.world.key("studio"))
        .network(bed.studio.network())
        .listen(bed.studio_line.at(7_001))
        .listen_tcp(bed.studio_line.at(TCP_PORT));
    let error = second.start().expect_err("it is taken").to_string();
    let address = bed.studio_line.at(TCP_PORT).to_string();
    assert!(error.contains("TCP") && error.contains(&address), "{error}");
}
