//! Sessions over loopback, in real time. Waits are generous: the machine may be busy.
//!
//! Needs a clock: a session's threads send over real sockets.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::mpsc;
use std::time::Duration as StdDuration;

use anabranch_controllers::by_name;
use anabranch_core::{Frame, PathOptions, ReceivedFrame};
use anabranch_net::{
    ClientConfig, ClientPath, Clock, Ended, Event, Events, Receiver, Reception, Receptions, Sender,
    ServerConfig, Via,
};
use anabranch_secure::{PublicKey, SecretKey};
use anabranch_units::{DataRate, Duration, Importance};

use crate::punctual::Watch;

const PATIENCE: StdDuration = StdDuration::from_secs(30);
const FRAME_INTERVAL: StdDuration = StdDuration::from_millis(20);

fn loopback(last: u8, port: u16) -> SocketAddr {
    (Ipv4Addr::new(127, 0, 0, last), port).into()
}

fn path(local: u8, remote: SocketAddr) -> ClientPath {
    let via = Via::Address(IpAddr::from([127, 0, 0, local]));
    ClientPath {
        via,
        remote: remote.into(),
        options: PathOptions::default(),
    }
}

fn start_receiver(key: SecretKey, allowed: PublicKey) -> (Receiver, Receptions) {
    let config = ServerConfig::new(loopback(1, 0), key, vec![allowed]);
    Receiver::start(config).expect("a port of loopback")
}

/// Returns the next session that begins.
fn reception(sessions: &Receptions) -> Reception {
    let reception = sessions.recv_timeout(PATIENCE);
    reception.expect("a session in time")
}

/// Waits for an event that `pick` accepts and skips others.
fn wait_for<T>(events: &Events, mut pick: impl FnMut(Event) -> Option<T>) -> T {
    loop {
        let event = events.recv_timeout(PATIENCE).expect("an event in time");
        if let Some(picked) = pick(event) {
            return picked;
        }
    }
}

fn connected(event: Event) -> Option<PublicKey> {
    match event {
        Event::Connected { peer, .. } => Some(peer),
        Event::Ended(ended) => panic!("{ended}"),
        _ => None,
    }
}

fn ended(event: Event) -> Option<Ended> {
    match event {
        Event::Ended(ended) => Some(ended),
        _ => None,
    }
}

/// Returns the bytes of a frame, which depend on its number.
fn frame_bytes(number: usize) -> Vec<u8> {
    let bytes = 2_000 + number % 7 * 1_000;
    (0..bytes).map(|at| (at * 31 + number * 7) as u8).collect()
}

fn send(sender: &Sender, clock: &Clock, number: usize) {
    let bytes = frame_bytes(number);
    let frame = Frame {
        bytes: bytes.into(),
        importance: Importance::key_if(number.is_multiple_of(25)),
        captured_at: clock.now(),
        lifetime: None,
    };
    let id = sender
        .send_frame(&frame)
        .expect("the session is up and not backlogged");
    assert_eq!(id.0, number as u64);
}

fn received_until_end(events: &Events) -> (Vec<ReceivedFrame>, Ended) {
    let mut frames = Vec::new();
    let ended = wait_for(events, |event| match event {
        Event::FrameReceived(frame) => {
            frames.push(frame);
            None
        }
        event => ended(event),
    });
    (frames, ended)
}

fn assert_all_arrived(frames: &[ReceivedFrame], count: usize) {
    let numbers: Vec<_> = frames.iter().map(|frame| frame.id.0).collect();
    let expected: Vec<_> = (0..count as u64).collect();
    assert_eq!(numbers, expected);
    for (number, frame) in frames.iter().enumerate() {
        assert_eq!(frame.bytes, frame_bytes(number), "frame {number}");
        assert_eq!(
            frame.importance.is_key(),
            number % 25 == 0,
            "frame {number}"
        );
    }
}

/// Fixes the rate, as these tests are about the runtime, independent of any controller's estimate.
/// No frame is too late on a busy machine.
fn at_fixed_rate(config: &mut ClientConfig) {
    config.latency = Some(Duration::from_secs(10));
    config.transport.controller = by_name("fixed").unwrap();
    config.transport.laboratory.fixed_rate = DataRate::from_megabits_per_second(4);
}

/// Returns the keys of a sender and a receiver that know each other.
fn keys() -> (SecretKey, SecretKey) {
    (SecretKey::generate(), SecretKey::generate())
}

#[test]
fn frames_arrive_in_order_until_close() {
    let (sender_key, receiver_key) = keys();
    let (sender_public, receiver_public) = (sender_key.public_key(), receiver_key.public_key());
    let (receiver, received) = start_receiver(receiver_key, sender_public);
    let remote = receiver.local_addr();
    let paths = vec![path(1, remote), path(2, remote)];
    let mut config = ClientConfig::new(sender_key, receiver_public, paths);
    config.transport.scheduler = anabranch_schedulers::by_name("wrr").unwrap();
    at_fixed_rate(&mut config);
    let clock = config.clock;
    let watch = Watch::start();
    let (sender, events) = Sender::start(config).expect("loopback");
    assert_eq!(wait_for(&events, connected), receiver_public);
    for number in 0..50 {
        send(&sender, &clock, number);
        wait(FRAME_INTERVAL);
    }
    sender.close();
    assert_eq!(wait_for(&events, ended), Ended::Closed);
    let sent = sender.snapshot();
    assert_eq!(
        (sent.session.frames_sent, sent.session.frames_late),
        (50, 0),
        "{sent:?}"
    );
    assert_eq!(sent.paths.len(), 2);
    for path in &sent.paths {
        assert!(path.counters.acked_packets > 10, "{path:?}");
        assert_eq!(path.unsent_datagrams, 0);
        let rtt = path.view.rtt.smoothed.expect("it was measured");
        let is_short = rtt < Duration::from_millis(200);
        assert!(watch.allows(is_short, "a round-trip time", &[]), "{rtt}");
    }
    let reception = reception(&received);
    assert_eq!(reception.peer(), sender_public);
    assert_eq!(wait_for(reception.events(), connected), sender_public);
    let (frames, ended) = received_until_end(reception.events());
    assert_all_arrived(&frames, 50);
    assert_eq!(ended, Ended::ClosedByPeer);
    let seen = reception.snapshot();
    assert_eq!(
        (seen.session.frames_received, seen.session.frames_dropped),
        (50, 0)
    );
    let from: Vec<_> = seen
        .paths
        .iter()
        .map(|path| path.peer.unwrap().ip())
        .collect();
    assert_eq!(from, [loopback(1, 0).ip(), loopback(2, 0).ip()]);
}

/// Sleeps.
fn wait(span: StdDuration) {
    let (_keep, never) = mpsc::channel::<()>();
    let _ = never.recv_timeout(span);
}
