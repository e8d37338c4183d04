//! Sessions by TCP, where UDP is blocked.

use std::net::SocketAddr;

use anabranch_net::testing::{ForeignConnection, Machine, Nat};
use anabranch_net::{Carrier, Ended, Event, Events, Receiver, Receptions, Sender, TcpFallback};
use anabranch_secure::{STREAM_PREAMBLE, append_framed};

use super::bed::{Bed, drain, line, millis};

const PORT: u16 = 443;

/// Starts a receiver that also accepts TCP.
fn receiver(bed: &Bed) -> (Receiver, Receptions) {
    let server = bed.server().listen_tcp(bed.studio_line.at(PORT));
    server.start().expect("the addresses are free")
}

/// Starts a sender that never tries UDP, and waits until its session is up.
fn connect_by_tcp(bed: &Bed) -> (Sender, Events) {
    let client = bed
        .client()
        .to(bed.studio_line.at(PORT))
        .tcp(TcpFallback::Only);
    let connected = bed.world.block_on(client.connect_async());
    connected.expect("an answer")
}

fn carriers(sender: &Sender) -> Vec<Carrier> {
    let paths = sender.snapshot().paths;
    paths.iter().map(|path| path.carrier).collect()
}

#[test]
fn a_session_by_tcp_alone_carries_frames() {
    let bed = Bed::new(1, &[line(10, 20), line(6, 30)]);
    bed.lines[0].block_udp(true);
    let (receiver, _sessions) = receiver(&bed);
    let (sender, _events) = connect_by_tcp(&bed);
    bed.send_for(&sender, millis(2_000));
    bed.world.run_for(millis(500));
    assert_eq!(receiver.snapshot().session.frames_received, 100);
    let paths = receiver.snapshot().paths;
    assert_eq!(paths.len(), 2);
    assert!(paths.iter().all(|path| path.carrier == Carrier::Tcp));
    assert_eq!(carriers(&sender), [Carrier::Tcp; 2]);
    assert_eq!(sender.finish(), Ended::Closed);
}

#[test]
fn blocked_udp_is_left_for_tcp_and_taken_again() {
    let bed = Bed::new(2, &[line(10, 20).behind(Nat::default()), line(6, 30)]);
    bed.lines.iter().for_each(|line| line.block_udp(true));
    let (receiver, _sessions) = receiver(&bed);
    let client = bed.client().tcp(TcpFallback::Port(PORT));
    let (sender, events) = client.start().expect("the set-up works");
    bed.world.run_for(millis(2_900));
    assert_eq!(drain(&events), []);
    bed.world.run_for(millis(2_000));
    let seen = drain(&events);
    assert!(
        seen.iter()
            .any(|event| matches!(event, Event::TriesTcp { .. }))
            && seen
                .iter()
                .any(|event| matches!(event, Event::Connected { .. })),
        "{seen:?}"
    );
    bed.send_for(&sender, millis(1_000));
    assert_eq!(carriers(&sender), [Carrier::Tcp; 2]);
    bed.lines.iter().for_each(|line| line.block_udp(false));
    bed.send_for(&sender, millis(30_000));
    assert_eq!(carriers(&sender), [Carrier::Udp; 2]);
    // The session is the same, and its routes use UDP.
    assert_eq!(sender.snapshot().past_sessions, 0);
    let paths = receiver.snapshot().paths;
    assert!(
        paths.iter().all(|path| path.carrier == Carrier::Udp),
        "{paths:?}"
    );
    // Blocked again, in the middle of the session.
    bed.lines.iter().for_each(|line| line.block_udp(true));
    bed.send_for(&sender, millis(6_000));
    assert_eq!(carriers(&sender), [Carrier::Tcp; 2]);
    let before = receiver.snapshot().session.frames_received;
    bed.send_for(&sender, millis(1_000));
    assert!(receiver.snapshot().session.frames_received >= before + 45);
    assert_eq!(sender.finish(), Ended::Closed);
}

#[test]
fn udp_that_answers_is_not_left() {
    let bed = Bed::new(3, &[line(10, 20), line(6, 30)]);
    bed.lines[1].block_udp(true);
    let (_receiver, _sessions) = receiver(&bed);
    let client = bed.client().tcp(TcpFallback::Port(PORT));
    let (sender, events) = bed
        .world
        .block_on(client.connect_async())
        .expect("an answer");
    bed.send_for(&sender, millis(10_000));
    let seen = drain(&events);
    assert!(
        !seen
            .iter()
            .any(|event| matches!(event, Event::TriesTcp { .. } | Event::PathCarrier { .. })),
        "{seen:?}"
    );
    assert_eq!(carriers(&sender)[0], Carrier::Udp);
}

#[test]
fn a_restarted_receiver_is_connected_to_again() {
    let bed = Bed::new(4, &[line(10, 20)]);
    let first = receiver(&bed);
    let client = bed
        .client()
        .to(bed.studio_line.at(PORT))
        .tcp(TcpFallback::Only);
    let (sender, events) = bed
        .world
        .block_on(client.connect_async())
        .expect("an answer");
    bed.studio.kill();
    bed.send_for(&sender, millis(1_500));
    let (second, _sessions) = receiver(&bed);
    bed.send_for(&sender, millis(5_000));
    assert!(
        drain(&events)
            .iter()
            .any(|event| matches!(event, Event::Reconnected { .. }))
    );
    assert!(second.snapshot().session.frames_received > 50);
    assert_eq!(sender.finish(), Ended::Closed);
    drop(first);
}

#[test]
fn a_connection_that_stalls_delays_frames_and_keeps_the_session() {
    let bed = Bed::new(5, &[line(10, 20)]);
    let (receiver, _sessions) = receiver(&bed);
    let (sender, _events) = connect_by_tcp(&bed);
    bed.send_for(&sender, millis(1_000));
    bed.lines[0].stall_tcp(millis(700));
    bed.send_for(&sender, millis(3_000));
    let before = receiver.snapshot().session.frames_received;
    bed.send_for(&sender, millis(1_000));
    assert!(receiver.snapshot().session.frames_received >= before + 45);
    assert_eq!(sender.snapshot().past_sessions, 0);
}

/// Returns a connection to `studio` that begins with these bytes.
fn connected(machine: &Machine, studio: SocketAddr, bytes: &[u8]) -> ForeignConnection {
    let connection = machine.connect_tcp(studio);
    connection.write(bytes);
    connection
}

#[test]
fn strangers_connections_are_closed_and_a_session_goes_on() {
    let bed = Bed::new(6, &[line(10, 20)]);
    let (receiver, _sessions) = receiver(&bed);
    let (sender, _events) = connect_by_tcp(&bed);
    let stranger = bed.world.machine("stranger");
    stranger.attach("eth0", &line(100, 1));
    let studio = bed.studio_line.at(PORT);
    let huge = [&STREAM_PREAMBLE[..], &[0xff, 0xff]].concat();
    let mut junk = STREAM_PREAMBLE.to_vec();
    for number in 0..3_000_u32 {
        append_framed(&mut junk, &number.to_be_bytes());
    }
    let web = b"GET / HTTP/1.1\r\nHost: example\r\n\r\n";
    let connections =
        [&[0x47; 100_000][..], web, &huge, &junk].map(|bytes| connected(&stranger, studio, bytes));
    for _ in 0..20 {
        bed.send_for(&sender, millis(100));
        connections
            .iter()
            .for_each(|connection| drop(connection.read()));
    }
    for connection in &connections[..3] {
        assert!(connection.is_closed());
    }
    // Occasional bytes do not prolong the time for the first authentic datagram.
    let slow = connected(&stranger, studio, &STREAM_PREAMBLE[..1]);
    let idle: Vec<_> = (0..1_000)
        .map(|_| connected(&stranger, studio, &[]))
        .collect();
    for byte in &STREAM_PREAMBLE[1..6] {
        bed.send_for(&sender, millis(2_000));
        slow.write(&[*byte]);
    }
    bed.send_for(&sender, millis(1_000));
    for connection in connections.iter().chain([&slow]).chain(&idle) {
        assert_eq!(connection.read(), [], "no answer");
        assert!(connection.is_closed(), "after ten seconds");
    }
    bed.world.run_for(millis(500));
    let seen = receiver.snapshot();
    assert_eq!(seen.session.frames_received, 650);
    assert_eq!(seen.paths[0].carrier, Carrier::Tcp);
}
