//! Tests of URLs of MPEG-TS in datagrams with their parameters, and of encoders that share a port,
//! over loopback. Waits are generous: the machine may be busy.
//!
//! Needs a clock: real programs exchange packets over sockets.

#![allow(
    clippy::disallowed_methods,
    reason = "these tests act as users, who wait in real time"
)]

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use crate::bed::{Bed, PATIENCE, UNHURRIED, free_port, transport_stream};

fn loopback() -> UdpSocket {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()
}

/// Sends to the port from these sockets in turn, every 5 ms for two seconds, each after its header.
fn take_turns(encoders: Vec<(UdpSocket, Vec<u8>)>, port: u16) -> JoinHandle<()> {
    let null_packet = [&[0x47, 0x1f, 0xff, 0x10][..], &[0xff; 184]].concat();
    spawn(move || {
        for _ in 0..200 {
            for (socket, header) in &encoders {
                let datagram = [header, &null_packet[..]].concat();
                socket
                    .send_to(&datagram, (Ipv4Addr::LOCALHOST, port))
                    .unwrap();
                sleep(Duration::from_millis(5));
            }
        }
    })
}

/// Runs a sender whose input these encoders share, and returns its output.
fn said_of(encoders: Vec<(UdpSocket, Vec<u8>)>) -> String {
    let bed = Bed::new();
    let (_recv, address) = bed.recv(&bed.sender_public, &bed.text("out.ts"), &[]);
    let port = free_port();
    let mut send = bed.send(&address, &format!("udp://127.0.0.1:{port}"), &[]);
    send.wait_for("connected");
    take_turns(encoders, port).join().unwrap();
    send.interrupt();
    send.finish().1
}

#[test]
fn two_encoders_at_one_port_are_reported_once_by_their_addresses() {
    let encoders = [loopback(), loopback()];
    let names = [0, 1].map(|index| encoders[index].local_addr().unwrap().to_string());
    let said = said_of(encoders.map(|socket| (socket, Vec::new())).into());
    assert_eq!(said.matches("two encoders send").count(), 1, "{said}");
    assert!(names.iter().all(|name| said.contains(name)), "{said}");
}

#[test]
fn two_encoders_at_one_port_are_reported_once_by_their_rtp_sources() {
    let socket = loopback();
    let encoders = [1, 2].map(|source| {
        let header = vec![0x80, 33, 0, 0, 0, 0, 0, 0, 0xab, 0, 0, source];
        (socket.try_clone().unwrap(), header)
    });
    let said = said_of(encoders.into());
    assert_eq!(said.matches("two encoders send").count(), 1, "{said}");
    for source in ["0xab000001", "0xab000002"] {
        assert!(said.contains(source), "{said}");
    }
}

#[test]
fn a_multicast_stream_comes_and_goes_by_the_interfaces_that_are_named() {
    let bed = Bed::new();
    let group = Ipv4Addr::new(239, 255, 78, 2);
    let player = UdpSocket::bind((group, 0)).unwrap();
    player
        .join_multicast_v4(&group, &Ipv4Addr::LOCALHOST)
        .unwrap();
    player.set_read_timeout(Some(PATIENCE)).unwrap();
    let port = player.local_addr().unwrap().port();
    let output = format!("udp://{group}:{port}?ttl=8&localaddr=127.0.0.1&rcvbuf=100000");
    let (_recv, address) = bed.recv(&bed.sender_public, &output, &UNHURRIED);
    let port = free_port();
    let input = format!("udp://127.0.0.1@239.255.78.1:{port}?rcvbuf=100000");
    let mut send = bed.send(&address, &input, &[]);
    send.wait_for("connected");
    // A source address of loopback also chooses the interface.
    let camera = loopback();
    let to = SocketAddr::from(([239, 255, 78, 1], port));
    let stream = transport_stream(30);
    for packets in stream.chunks(7 * 188) {
        camera.send_to(packets, to).unwrap();
        sleep(Duration::from_millis(5));
    }
    let mut arrived = Vec::new();
    let mut buffer = [0; 2_000];
    let began_at = Instant::now();
    while arrived.len() < stream.len() && began_at.elapsed() < PATIENCE {
        let (count, from) = player.recv_from(&mut buffer).unwrap();
        assert_eq!(from.ip(), Ipv4Addr::LOCALHOST);
        arrived.extend_from_slice(&buffer[..count]);
    }
    assert!(arrived == stream, "{} B", arrived.len());
    send.interrupt();
    send.finish_well();
}

/// Without a default route, the group cannot be joined, and the error gives the same advice.
#[test]
fn a_group_that_is_silent_at_the_default_interface_is_reported_with_the_way_out() {
    let bed = Bed::new();
    let (_recv, address) = bed.recv(&bed.sender_public, &bed.text("out.ts"), &[]);
    let input = format!("udp://@239.255.78.3:{}", free_port());
    let mut send = bed.send(&address, &input, &[]);
    send.wait_for("?iface=NAME");
}
