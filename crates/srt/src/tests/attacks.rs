//! Strangers, forged packets and nonsense.

use core::net::SocketAddr;
use std::sync::Arc;

use anabranch_units::{Duration, Instant};
use proptest::prelude::*;

use super::libsrt::{FIRST, RECEIVER, SENDER};
use super::network::{World, caller_address, entropy};
use super::recovery::ours;
use crate::listener::{Listener, MAX_BUFFERED_BYTES, MAX_CONNECTIONS};
use crate::settings::{Passphrase, Settings};
use crate::wire::handshake::{Handshake, HandshakeType};
use crate::wire::loss_list::{LossList, append};
use crate::wire::{Ack, Control, DataHeader, Packet, SequenceNumber};
use crate::{Caller, CloseReason, Rejection};

fn now() -> Instant {
    Instant::from_secs(100)
}

/// Hands a datagram to the listener and returns its answers.
fn ask(listener: &mut Listener, from: SocketAddr, datagram: &[u8]) -> Vec<Vec<u8>> {
    listener.handle_datagram(now(), from, datagram, &mut |_| Ok(Settings::default()));
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

/// Connects a caller at `from`. Returns the cause of a refusal; `None` also without an answer.
fn connect(
    listener: &mut Listener,
    at: Instant,
    (seed, from): (u64, SocketAddr),
    (calling, admitted): (Settings, Settings),
) -> Option<Rejection> {
    let to = ([198, 51, 100, 1], 9_000).into();
    let mut caller = Caller::new(now(), to, None, calling, entropy(seed));
    let mut answer: Option<Vec<u8>> = None;
    for _ in 0..2 {
        if let Some(answer) = &answer {
            caller.handle_datagram(now(), answer);
        }
        let datagram = caller.poll_transmit(now()).unwrap();
        listener.handle_datagram(at, from, &datagram, &mut |_| Ok(admitted.clone()));
        let all = core::iter::from_fn(|| listener.poll_transmit(at));
        let last = all.filter(|(to, _)| *to == from).last();
        answer = last.map(|(_, answer)| answer);
    }
    answer.and_then(|answer| refusal(&answer))
}

/// Returns the address of a stranger.
fn stranger(seed: u64) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], 1_000 + seed as u16))
}

fn input() -> Settings {
    Settings {
        keeps_place: true,
        ..Settings::default()
    }
}

#[test]
fn strangers_fill_a_listener_and_an_input_gets_a_place_and_keeps_it() {
    let mut listener = Listener::new(now(), entropy(0));
    let plain = (Settings::default(), Settings::default());
    for seed in 1..=100 {
        let at = now() + Duration::from_secs(seed);
        let refused = connect(&mut listener, at, (seed, stranger(seed)), plain.clone());
        assert_eq!(refused, None, "the idlest of its network made room");
        assert_eq!(
            listener.connection_count(),
            MAX_CONNECTIONS.min(seed as usize)
        );
    }
    let camera = ([203, 0, 113, 7], 5_000).into();
    let settings = (Settings::default(), input());
    let at = now() + Duration::from_secs(101);
    assert_eq!(connect(&mut listener, at, (101, camera), settings), None);
    for seed in 102..=300 {
        let at = now() + Duration::from_secs(seed);
        connect(&mut listener, at, (seed, stranger(seed)), plain.clone());
    }
    let ids = listener.connection_ids();
    let mut inputs = ids.iter().filter(|&&id| {
        let connection = listener.connection(id).unwrap();
        connection.keeps_place() && connection.closed().is_none()
    });
    assert!(inputs.next().is_some(), "the camera is still there");
    let closed = core::iter::from_fn(|| listener.poll_event())
        .filter(|event| matches!(event, crate::Event::Closed(..)));
    assert!(closed.count() >= 200, "each is reported");
}

#[test]
fn a_listener_full_of_inputs_refuses() {
    let mut listener = Listener::new(now(), entropy(0));
    for seed in 1..=MAX_CONNECTIONS as u64 {
        let from = ([192, 0, 2, seed as u8], 9).into();
        let at = now() + Duration::from_secs(seed);
        let settings = (Settings::default(), input());
        assert_eq!(connect(&mut listener, at, (seed, from), settings), None);
    }
    let from = ([203, 0, 113, 7], 9).into();
    let at = now() + Duration::from_secs(100);
    let refused = connect(
        &mut listener,
        at,
        (100, from),
        (Settings::default(), input()),
    );
    assert_eq!(refused, Some(Rejection::Resource));
}

/// Checks that neither conclusions that are refused nor those of one host that derive a key keep a
/// caller with the passphrase out.
#[test]
fn conclusions_of_one_host_keep_no_other_out() {
    fn secret(text: &str) -> Settings {
        Settings {
            passphrase: Passphrase::new(text),
            ..Settings::default()
        }
    }

    for (calling, expected) in [
        (Settings::default(), Rejection::Unsecure),
        (secret("wrong horses"), Rejection::BadSecret),
    ] {
        let mut listener = Listener::new(now(), entropy(0));
        let mut refused = 0;
        for millis in 0..2_000 {
            let at = now() + Duration::from_millis(millis);
            let from = ([192, 0, 2, 1], 1_000 + millis as u16).into();
            let settings = (calling.clone(), secret("correct horse"));
            let refusal = connect(&mut listener, at, (millis, from), settings);
            refused += u64::from(refusal == Some(expected));
            if millis % 250 == 249 {
                let from = ([203, 0, 113, 7], 1_000 + millis as u16).into();
                let before = listener.connection_count();
                let settings = (secret("correct horse"), secret("correct horse"));
                connect(&mut listener, at, (millis, from), settings);
                assert_eq!(listener.connection_count(), before + 1, "at {millis} ms");
            }
        }
        // Keys are derived for 32 at once and 20 a second.
        let is_cheap = expected == Rejection::Unsecure;
        let range = if is_cheap { 2_000..=2_000 } else { 70..=72 };
        assert!(range.contains(&refused), "{expected}: {refused}");
    }
}

/// Checks the memory of callers that acknowledge nothing: packets without a key are the output's,
/// and those with one have a total.
#[test]
fn silent_callers_share_the_memory_of_an_output() {
    for passphrase in [None, Passphrase::new("correct horse")] {
        let settings = Settings {
            passphrase,
            peer_latency: Duration::from_secs(65),
            flow_window: 25_600,
            ..Settings::default()
        };
        let mut listener = Listener::new(now(), entropy(0));
        for seed in 1..=8 {
            let from = ([192, 0, 2, seed as u8], 9).into();
            let both = (settings.clone(), settings.clone());
            assert_eq!(connect(&mut listener, now(), (seed, from), both), None);
        }
        let ids = listener.connection_ids();
        for _ in 0..20_000 {
            let payload: Arc<[u8]> = [7; 1_316].into();
            for &id in &ids {
                let _ = listener.send(now(), id, &payload);
            }
            assert!(Arc::strong_count(&payload) == 9 || settings.passphrase.is_some());
        }
        let own: Vec<usize> = ids
            .iter()
            .filter_map(|&id| {
                let connection = listener.connection(id)?;
                Some(connection.own_sending_bytes())
            })
            .collect();
        let all: usize = own.iter().sum();
        assert!(all <= MAX_BUFFERED_BYTES + 8 * 1_316, "{all}");
        let is_shared = settings.passphrase.is_none();
        assert_eq!(all == 0, is_shared, "{own:?}");
        assert!(is_shared || own.iter().all(|&its| its >= MAX_BUFFERED_BYTES / 9));
    }
}

/// Checks a receiver that reports everything missing each millisecond, and no round trip.
#[test]
fn a_receiver_that_asks_without_end_gets_a_quarter_more() {
    let mut connection = ours(SENDER, RECEIVER, 0, now());
    let (mut packets, mut departures) = (0_u64, 0_u64);
    let report = crate::wire::control::Report {
        rtt: Duration::ZERO,
        rtt_variation: Duration::ZERO,
        available_packets: 8_192,
        packets_per_second: 0,
        capacity: 0,
        bytes_per_second: 0,
    };
    for millis in 0..60_000_u64 {
        let at = now() + Duration::from_millis(millis);
        if millis % 2 == 0 {
            connection.send(at, &[7; 1_316]).unwrap();
            packets += 1;
        }
        // 40 ms later something is acknowledged for once.
        let next = FIRST.after(if millis < 41 { 0 } else { 1 });
        let ack = Control::Ack(Ack {
            number: 1 + millis as u32,
            next,
            report: Some(report),
        });
        connection.handle_datagram(at, &ack.to_packet(0, SENDER));
        if packets > 1 {
            let mut list = Vec::new();
            let oldest = packets.saturating_sub(1_000).max(1);
            append(&mut list, (FIRST.after(oldest), FIRST.after(packets - 2)));
            let nak = Control::Nak(LossList::new(&list));
            connection.handle_datagram(at, &nak.to_packet(0, SENDER));
        }
        connection.handle_timeout(at);
        while let Some(datagram) = connection.poll_transmit(at) {
            departures += u64::from(datagram[0] < 0x80);
        }
    }
    let repeated = departures - packets;
    // Half a megabyte beside a quarter.
    let most = packets / 4 + 500_000 / 1_316;
    assert!(repeated <= most, "{repeated} of {packets}");
    assert!(repeated >= packets / 5, "{repeated}: it asks for nothing");
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
        let (now, listener) = (world.now, &mut world.listener);
        listener.handle_datagram(now, caller_address(), &packet, &mut |_| {
            Err(Rejection::Peer)
        });
        let other = ([203, 0, 113, 9], 9).into();
        let shutdown = Control::Shutdown.to_packet(0, destination);
        listener.handle_datagram(now, other, &shutdown, &mut |_| Err(Rejection::Peer));
    }
    world.run_for(Duration::from_secs(1));
    assert!(world.at_listener.is_empty());
    let connection = world.listener.connection(id).unwrap();
    assert_eq!(
        (connection.closed(), connection.buffered_bytes()),
        (None, 0)
    );
}

/// Checks a sender whose message with the next key was lost: a receiver that stays would be mute.
#[test]
fn a_receiver_that_cannot_decrypt_ends_the_connection() {
    let settings = Settings {
        passphrase: Passphrase::new("correct horse"),
        ..Settings::default()
    };
    let mut world = World::new(1, settings.clone(), settings);
    world.caller.set_initial_sequence(9);
    let id = world.connect();
    let destination = world.listener.connection(id).unwrap().local_id();
    let began_at = world.now;
    while world.calling().closed().is_none() {
        let header = DataHeader {
            sequence: SequenceNumber::new(9),
            key: Some(crate::wire::KeyParity::Odd),
            is_retransmitted: false,
            message: 1,
            timestamp: 0,
            destination,
        };
        let (now, listener) = (world.now, &mut world.listener);
        let packet = header.to_packet(&[7; 1_316]);
        listener.handle_datagram(now, caller_address(), &packet, &mut |_| {
            Err(Rejection::Peer)
        });
        world.run_for(Duration::from_millis(10));
        assert!(world.now < began_at + Duration::from_secs(5), "it is mute");
    }
    assert!(world.now >= began_at + Duration::from_secs(3));
    assert_eq!(world.calling().closed(), Some(CloseReason::Peer));
    assert!(
        world.events.iter().any(|event| match event {
            crate::Event::Closed(its, _, reason) =>
                (*its, *reason) == (id, CloseReason::Undecryptable),
            _ => false,
        }),
        "{:?}",
        world.events
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
            let (now, listener) = (world.now, &mut world.listener);
            let from = caller_address();
            listener.handle_datagram(now, from, &datagram, &mut |_| Err(Rejection::Peer));
            if let Some(connection) = world.listener.connection(id) {
                let _ = connection.send(now, &[7; 188]);
                prop_assert!(connection.buffered_bytes() <= 200 * 100);
            }
            world.run_for(Duration::from_millis(millis));
        }
    }
}
