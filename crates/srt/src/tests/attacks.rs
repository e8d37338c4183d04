//! Strangers, forged packets and nonsense.

use core::net::SocketAddr;

use anabranch_units::{Duration, Instant};
use proptest::prelude::*;

use super::network::{World, caller_address, entropy};
use crate::listener::{Listener, MAX_CONNECTIONS, Request};
use crate::settings::{Passphrase, Settings};
use crate::wire::handshake::{Handshake, HandshakeType};
use crate::wire::{Control, DataHeader, Packet, SequenceNumber};
use crate::{Caller, Rejection};

fn now() -> Instant {
    Instant::from_secs(100)
}

/// Hands a datagram to the listener and returns its answers.
fn ask(listener: &mut Listener, from: SocketAddr, datagram: &[u8]) -> Vec<Vec<u8>> {
    let mut admit = |_: &Request| Ok(Settings::default());
    listener.handle_datagram(now(), from, datagram, &mut admit);
    let answers = core::iter::from_fn(|| listener.poll_transmit(now()));
    answers.map(|(_, datagram)| datagram).collect()
}

fn caller(seed: u64) -> Caller {
    let to = ([198, 51, 100, 1], 9_000).into();
    Caller::new(now(), to, None, Settings::default(), entropy(seed))
}

#[test]
fn inductions_of_forged_addresses_cost_no_memory_and_are_not_amplified() {
    let mut listener = Listener::new(now(), entropy(0));
    let induction = caller(1).poll_transmit(now()).unwrap();
    for host in 0..=255 {
        let answers = ask(&mut listener, ([192, 0, 2, host], 1).into(), &induction);
        assert_eq!(answers.len(), 1);
        assert!(answers[0].len() <= induction.len());
    }
    assert_eq!(listener.connection_count(), 0);
}

#[test]
fn a_conclusion_needs_the_cookie_of_its_address() {
    let mut listener = Listener::new(now(), entropy(0));
    let mut caller = caller(1);
    let induction = caller.poll_transmit(now()).unwrap();
    let answers = ask(&mut listener, caller_address(), &induction);
    caller.handle_datagram(now(), &answers[0]);
    let conclusion = caller.poll_transmit(now()).unwrap();
    let other = ([192, 0, 2, 2], 5_000).into();
    assert!(ask(&mut listener, other, &conclusion).is_empty());
    assert_eq!(listener.connection_count(), 0);
    assert_eq!(ask(&mut listener, caller_address(), &conclusion).len(), 1);
    assert_eq!(listener.connection_count(), 1);
    // Repeated, it makes no other connection.
    assert_eq!(ask(&mut listener, caller_address(), &conclusion).len(), 1);
    assert_eq!(listener.connection_count(), 1);
}

/// Returns the cause of a refusal.
fn refusal(answer: &[u8]) -> Option<Rejection> {
    let Some(Packet::Control {
        control: Control::Handshake(body),
        ..
    }) = Packet::parse(answer)
    else {
        return None;
    };
    match Handshake::parse(body)?.kind {
        HandshakeType::Rejected(rejection) => Some(rejection),
        _ => None,
    }
}

#[test]
fn connections_are_bounded_and_the_next_caller_is_told() {
    let mut listener = Listener::new(now(), entropy(0));
    let mut refused = Vec::new();
    for seed in 1..=MAX_CONNECTIONS as u64 + 1 {
        let mut caller = caller(seed);
        let at = now() + Duration::from_secs(seed);
        let mut exchange = |datagram: Vec<u8>| {
            let mut admit = |_: &Request| Ok(Settings::default());
            listener.handle_datagram(at, caller_address(), &datagram, &mut admit);
            listener.poll_transmit(at).map(|(_, answer)| answer)
        };
        let answer = exchange(caller.poll_transmit(now()).unwrap()).unwrap();
        caller.handle_datagram(now(), &answer);
        let answer = exchange(caller.poll_transmit(now()).unwrap());
        refused.extend(answer.and_then(|answer| refusal(&answer)));
    }
    assert_eq!(listener.connection_count(), MAX_CONNECTIONS);
    assert_eq!(refused, [Rejection::Resource]);
}

#[test]
fn plain_packets_and_other_addresses_change_nothing_of_an_encrypted_connection() {
    let settings = Settings {
        passphrase: Passphrase::new("correct horse"),
        ..Settings::default()
    };
    let mut world = World::new(1, settings.clone(), settings);
    let id = world.connect();
    let destination = world.listener.connection(id).unwrap().local_id();
    let header = DataHeader {
        sequence: SequenceNumber::new(0),
        key: None,
        is_retransmitted: false,
        message: 1,
        timestamp: 0,
        destination,
    };
    for number in 0..1_000 {
        let sequence = SequenceNumber::new(number * 2_147_483);
        let packet = DataHeader { sequence, ..header }.to_packet(b"forged");
        world.calling();
        let mut admit = |_: &Request| Err(Rejection::Peer);
        let now = world.now;
        world
            .listener
            .handle_datagram(now, caller_address(), &packet, &mut admit);
        let other = ([203, 0, 113, 9], 9).into();
        let shutdown = Control::Shutdown.to_packet(0, destination);
        world
            .listener
            .handle_datagram(now, other, &shutdown, &mut admit);
    }
    world.run_for(Duration::from_secs(1));
    assert!(world.at_listener.is_empty());
    let connection = world.listener.connection(id).unwrap();
    assert_eq!(
        (connection.closed(), connection.buffered_bytes()),
        (None, 0)
    );
}

proptest! {
    /// Checks that no datagrams of the peer break a connection or its bounds.
    #[test]
    fn nonsense_breaks_nothing(
        packets in prop::collection::vec(
            (prop::collection::vec(any::<u8>(), 0..80), 0_u32..12, any::<u32>(), 0_u64..2_000),
            0..200,
        )
    ) {
        let mut world = World::new(1, Settings::default(), Settings::default());
        let id = world.connect();
        let destination = world.listener.connection(id).unwrap().local_id();
        for (body, kind, info, millis) in packets {
            let first = match kind {
                0..=8 => 1 << 31 | kind << 16,
                9 => 0xffff_0003,
                _ => info,
            };
            let words = [first, info, info, destination];
            let header = words.into_iter().flat_map(u32::to_be_bytes);
            let datagram: Vec<u8> = header.chain(body).collect();
            let mut admit = |_: &Request| Err(Rejection::Peer);
            let now = world.now;
            world.listener.handle_datagram(now, caller_address(), &datagram, &mut admit);
            if let Some(connection) = world.listener.connection(id) {
                let _ = connection.send(now, &[7; 188]);
                prop_assert!(connection.buffered_bytes() <= 200 * 100);
            }
            world.run_for(Duration::from_millis(millis));
        }
    }
}
