//! Sessions by TCP over loopback, in real time: fallback from blocked UDP and back, restarts, and
//! strangers' connections. Waits are generous: the machine may be busy.
//!
//! Needs a clock: a session's threads send over real sockets.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration as StdDuration;

use anabranch_core::{Frame, PathOptions};
use anabranch_net::{
    Carrier, ClientConfig, ClientPath, Ended, Event, Events, Receiver, Reception, Receptions,
    Sender, ServerConfig, TcpFallback, Via,
};
use anabranch_secure::{STREAM_PREAMBLE, SecretKey, append_framed};
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
        let paths = remotes
            .iter()
            .map(|remote| ClientPath {
                via: Via::Address(Ipv4Addr::LOCALHOST.into()),
                remote: (*remote).into(),
                options: PathOptions::default(),
            })
            .collect();
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

/// Relays UDP to `target` if `passes` accepts a datagram and its number, and answers while
/// `passes_back` does. Returns its local address and its source address.
fn relay(
    target: SocketAddr,
    mut passes: impl FnMut(&[u8], u64) -> bool + Send + 'static,
    passes_back: impl Fn() -> bool + Send + 'static,
) -> (SocketAddr, SocketAddr) {
    let [near, far] = [(); 2].map(|()| UdpSocket::bind(loopback(0)).expect("loopback"));
    let addresses = (near.local_addr().unwrap(), far.local_addr().unwrap());
    let client = Arc::new(Mutex::new(None));
    let (near_too, far_too) = (near.try_clone().unwrap(), far.try_clone().unwrap());
    let client_too = Arc::clone(&client);
    thread::spawn(move || {
        let mut buffer = [0; 2_000];
        for number in 0.. {
            let Ok((size, from)) = near.recv_from(&mut buffer) else {
                return;
            };
            *client.lock().unwrap() = Some(from);
            if passes(&buffer[..size], number) {
                let _ = far.send_to(&buffer[..size], target);
            }
        }
    });
    thread::spawn(move || {
        let mut buffer = [0; 2_000];
        while let Ok(size) = far_too.recv(&mut buffer) {
            let client = *client_too.lock().unwrap();
            if let (Some(client), true) = (client, passes_back()) {
                let _ = near_too.send_to(&buffer[..size], client);
            }
        }
    });
    addresses
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

/// Sends frames that may be lost, at 25 a second.
fn send_lossy_frames(sender: &Sender, count: u64) {
    for _ in 0..count {
        let frame = Frame {
            bytes: vec![1; 2_000].into(),
            importance: Importance::key_if(true),
            captured_at: sender.snapshot().at,
            lifetime: None,
        };
        let _ = sender.send_frame(&frame);
        pause(40);
    }
}

/// Connects without a key, and sends these bytes.
fn stranger(to: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(to).expect("the kernel takes it");
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let _ = stream.write_all(bytes);
    stream
}

/// A bystander on the path of UDP, which copies every datagram of a client into a TCP connection of
/// its own. The first copies arrive before their originals, the others compete with them.
struct Bystander {
    /// Destination of the client's datagrams.
    address: SocketAddr,
    /// The address from which the originals reach the receiver.
    origin: SocketAddr,
}

impl Bystander {
    fn start(udp: SocketAddr, tcp: SocketAddr) -> Bystander {
        let mut copies = stranger(tcp, &STREAM_PREAMBLE);
        copies.set_nodelay(true).unwrap();
        let (address, origin) = relay(
            udp,
            move |datagram, number| {
                let mut framed = Vec::new();
                append_framed(&mut framed, datagram);
                let _ = copies.write_all(&framed);
                if number < 20 {
                    pause(5);
                }
                true
            },
            || true,
        );
        Bystander { address, origin }
    }
}

#[test]
fn a_bystander_that_copies_datagrams_into_its_own_connection_gets_no_route() {
    let keys = Keys::new();
    let (receiver, receptions) = keys.receiver(loopback(0), loopback(0));
    let tcp = receiver.local_tcp_addr().expect("it listens");
    let bystander = Bystander::start(receiver.local_addr(), tcp);
    let (sender, events) = keys.sender(&[bystander.address], TcpFallback::Off);
    wait_for(&events, |event| matches!(event, Event::Connected { .. }));
    send_lossy_frames(&sender, 50);
    let _reception = reception(&receptions);
    let seen = receiver.snapshot();
    assert_eq!(seen.paths[0].peer, Some(bystander.origin));
    let received_before = seen.session.frames_received;
    send_lossy_frames(&sender, 50);
    let mut received_count = 0;
    for _ in 0..100 {
        received_count = receiver.snapshot().session.frames_received - received_before;
        if received_count >= 49 {
            break;
        }
        pause(100);
    }
    assert!(received_count >= 49, "{received_count} of 50");
}
