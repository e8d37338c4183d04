//! A session by TCP over loopback, in real time. Waits are generous: the machine may be busy.
//!
//! Needs a clock: a session's threads send over real sockets.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::mpsc;
use std::time::Duration as StdDuration;

use anabranch_core::{Frame, PathOptions};
use anabranch_net::{
    Carrier, ClientConfig, ClientPath, Ended, Event, Events, Receiver, Reception, Receptions,
    Sender, ServerConfig, TcpFallback, Via,
};
use anabranch_secure::SecretKey;
use anabranch_units::{Duration, Importance};

/// Limit for any wait.
const PATIENCE: StdDuration = StdDuration::from_secs(30);

fn loopback(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

fn copy(key: &SecretKey) -> SecretKey {
    SecretKey::from_text(&key.to_text()).expect("it is a key")
}

/// Waits for an event and skips others.
fn wait_for(events: &Events, mut is_it: impl FnMut(&Event) -> bool) -> Event {
    loop {
        let event = events.recv_timeout(PATIENCE).expect("an event in time");
        if is_it(&event) {
            return event;
        }
    }
}

/// Keys of a sender and a receiver.
struct Keys {
    sender: SecretKey,
    receiver: SecretKey,
}

impl Keys {
    fn new() -> Self {
        Keys {
            sender: SecretKey::generate(),
            receiver: SecretKey::generate(),
        }
    }

    fn receiver(&self, udp: SocketAddr, tcp: SocketAddr) -> (Receiver, Receptions) {
        let allowed = vec![self.sender.public_key()];
        let mut config = ServerConfig::new(udp, copy(&self.receiver), allowed);
        config.listen_tcp = Some(tcp);
        Receiver::start(config).expect("ports of loopback")
    }

    fn sender(&self, remotes: &[SocketAddr], tcp: TcpFallback) -> (Sender, Events) {
        let path = |remote: &SocketAddr| ClientPath {
            via: Via::Address(Ipv4Addr::LOCALHOST.into()),
            remote: (*remote).into(),
            options: PathOptions::default(),
        };
        let paths = remotes.iter().map(path).collect();
        let mut config = ClientConfig::new(copy(&self.sender), self.receiver.public_key(), paths);
        config.tcp = tcp;
        config.connect_timeout = Duration::from_secs(30);
        // No frame is too late on a busy machine.
        config.latency = Some(Duration::from_secs(5));
        Sender::start(config).expect("loopback")
    }
}

fn pause(millis: u64) {
    let (_keep, never) = mpsc::channel::<()>();
    let _ = never.recv_timeout(StdDuration::from_millis(millis));
}

/// Sends `count` frames of 5 kB at 25 a second; the first is a key frame.
fn send_frames(sender: &Sender, count: u64) {
    for number in 0..count {
        let frame = Frame {
            bytes: vec![number as u8; 5_000].into(),
            importance: Importance::key_if(number == 0),
            captured_at: sender.snapshot().at,
            lifetime: None,
        };
        sender.send_frame(&frame).expect("taken");
        pause(40);
    }
}

/// Waits for `count` frames, without losses.
fn expect_frames(reception: &Reception, count: u64) {
    for _ in 0..count {
        let event = wait_for(reception.events(), |event| {
            matches!(event, Event::FrameReceived(_) | Event::FrameDropped { .. })
        });
        assert!(matches!(event, Event::FrameReceived(_)), "{event:?}");
    }
}

fn reception(receptions: &Receptions) -> Reception {
    receptions
        .recv_timeout(PATIENCE)
        .expect("a session in time")
}

#[test]
fn a_session_by_tcp_alone_carries_frames() {
    let keys = Keys::new();
    let (receiver, receptions) = keys.receiver(loopback(0), loopback(0));
    let tcp = receiver.local_tcp_addr().expect("it listens");
    let (sender, events) = keys.sender(&[tcp, tcp], TcpFallback::Only);
    wait_for(&events, |event| matches!(event, Event::Connected { .. }));
    let reception = reception(&receptions);
    send_frames(&sender, 50);
    expect_frames(&reception, 50);
    let paths = receiver.snapshot().paths;
    assert_eq!(paths.len(), 2);
    for path in paths.iter().chain(&sender.snapshot().paths) {
        assert_eq!(path.carrier, Carrier::Tcp);
        assert_eq!(path.unsent_datagrams, 0);
    }
    sender.close();
    assert_eq!(
        wait_for(&events, |event| matches!(event, Event::Ended(_))),
        Event::Ended(Ended::Closed)
    );
}
