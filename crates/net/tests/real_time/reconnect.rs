//! Sessions whose receiver leaves and returns, over loopback and in real time. Waits are generous:
//! the machine may be busy.
//!
//! Needs a clock: a session's threads send over real sockets.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration as StdDuration;

use anabranch_core::{Frame, PathId, PathOptions};
use anabranch_net::{
    ClientConfig, ClientPath, Clock, Ended, Event, Events, Receiver, Reception, Receptions, Sender,
    ServerConfig, Via,
};
use anabranch_secure::SecretKey;
use anabranch_units::{Duration, Importance, Instant};

use crate::punctual::Watch;

const PATIENCE: StdDuration = StdDuration::from_secs(30);
const FRAME_INTERVAL: StdDuration = StdDuration::from_millis(20);
/// A port without a listener.
const NOBODY: u16 = 0;

/// A relay between an address and the port that the test chooses, and back. A sender sees a
/// receiver that is exchanged behind it as one that crashed and was started again.
struct Doorway {
    address: SocketAddr,
    target: Arc<AtomicU16>,
    is_over: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Doorway {
    fn to(receiver: &Receiver) -> Doorway {
        let outside = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port of loopback");
        let inside = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port of loopback");
        for socket in [&outside, &inside] {
            let turn = StdDuration::from_millis(1);
            socket.set_read_timeout(Some(turn)).unwrap();
        }
        let address = outside.local_addr().unwrap();
        let target = Arc::new(AtomicU16::new(receiver.local_addr().port()));
        let is_over = Arc::new(AtomicBool::new(false));
        let thread = thread::spawn({
            let (target, is_over) = (Arc::clone(&target), Arc::clone(&is_over));
            move || {
                let mut buffer = [0; 2_000];
                let mut sender = None;
                while !is_over.load(Ordering::Relaxed) {
                    while let Ok((length, from)) = outside.recv_from(&mut buffer) {
                        sender = Some(from);
                        let port = target.load(Ordering::Relaxed);
                        if port != NOBODY {
                            let _ = inside.send_to(&buffer[..length], (Ipv4Addr::LOCALHOST, port));
                        }
                    }
                    while let Ok((length, from)) = inside.recv_from(&mut buffer) {
                        let is_target = from.port() == target.load(Ordering::Relaxed);
                        if let Some(sender) = sender
                            && is_target
                        {
                            let _ = outside.send_to(&buffer[..length], sender);
                        }
                    }
                }
            }
        });
        Doorway {
            address,
            target,
            is_over,
            thread: Some(thread),
        }
    }

    fn lead_to(&self, port: u16) {
        self.target.store(port, Ordering::Relaxed);
    }
}

impl Drop for Doorway {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(thread::JoinHandle::join);
    }
}

/// Keys of a sender and a receiver that know each other.
struct Keys {
    sender: SecretKey,
    receiver: SecretKey,
}

fn copy(key: &SecretKey) -> SecretKey {
    SecretKey::from_text(&key.to_text()).expect("it is a key")
}

impl Keys {
    fn new() -> Keys {
        Keys {
            sender: SecretKey::generate(),
            receiver: SecretKey::generate(),
        }
    }

    fn receiver(&self) -> (Receiver, Receptions) {
        let listen = (Ipv4Addr::LOCALHOST, 0).into();
        let allowed = vec![self.sender.public_key()];
        Receiver::start(ServerConfig::new(listen, copy(&self.receiver), allowed))
            .expect("a port of loopback")
    }

    fn config(&self, paths: Vec<ClientPath>) -> ClientConfig {
        ClientConfig::new(copy(&self.sender), self.receiver.public_key(), paths)
    }
}

fn path(via: Via, remote: SocketAddr) -> ClientPath {
    ClientPath {
        via,
        remote: remote.into(),
        options: PathOptions::default(),
    }
}

fn via_loopback(remote: SocketAddr) -> Vec<ClientPath> {
    vec![path(
        Via::Address(IpAddr::from(Ipv4Addr::LOCALHOST)),
        remote,
    )]
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

fn connected(event: Event) -> Option<()> {
    match event {
        Event::Ended(ended) => panic!("{ended}"),
        event => matches!(event, Event::Connected { .. }).then_some(()),
    }
}

fn ended(event: Event) -> Option<Ended> {
    match event {
        Event::Ended(ended) => Some(ended),
        _ => None,
    }
}

/// Sleeps.
fn wait(span: StdDuration) {
    let (_keep, never) = mpsc::channel::<()>();
    let _ = never.recv_timeout(span);
}

fn send_one(sender: &Sender, clock: &Clock) {
    let frame = Frame {
        bytes: vec![7; 2_000].into(),
        importance: Importance::Key,
        captured_at: clock.now(),
        lifetime: None,
    };
    // While no receiver answers, frames may be refused.
    let _ = sender.send_frame(&frame);
}

/// Returns a sender that has been connected for 300 ms, and has sent meanwhile.
fn streaming(config: ClientConfig) -> (Sender, Events, Clock) {
    let clock = config.clock;
    let (sender, events) = Sender::start(config).expect("loopback");
    wait_for(&events, connected);
    send_for(&sender, &clock, Duration::from_millis(300));
    (sender, events, clock)
}

fn send_for(sender: &Sender, clock: &Clock, span: Duration) {
    let until = clock.now() + span;
    while clock.now() < until {
        send_one(sender, clock);
        wait(FRAME_INTERVAL);
    }
}

/// Returns the next session that begins.
fn reception(sessions: &Receptions) -> Reception {
    let reception = sessions.recv_timeout(PATIENCE);
    reception.expect("a session in time")
}

/// Sends until a session begins.
fn send_until_reception(sender: &Sender, clock: &Clock, sessions: &Receptions) -> Reception {
    let give_up_at = clock.now() + Duration::from_std(PATIENCE);
    loop {
        send_for(sender, clock, Duration::from_millis(20));
        match sessions.try_recv() {
            Ok(reception) => return reception,
            Err(_) => assert!(clock.now() < give_up_at, "a session in time"),
        }
    }
}

/// Sends until `pick` returns something for an event.
fn send_until<T>(
    sender: &Sender,
    clock: &Clock,
    events: &Events,
    mut pick: impl FnMut(Event) -> Option<T>,
) -> T {
    let give_up_at = clock.now() + Duration::from_std(PATIENCE);
    while clock.now() < give_up_at {
        send_one(sender, clock);
        wait(FRAME_INTERVAL);
        while let Ok(event) = events.try_recv() {
            if let Some(picked) = pick(event) {
                return picked;
            }
        }
    }
    panic!("it did not come in time");
}

fn reconnecting(event: Event) -> Option<Duration> {
    match event {
        Event::Ended(ended) => panic!("{ended}"),
        Event::Reconnecting { silent_for } => Some(silent_for),
        _ => None,
    }
}

/// Returns the capture time of the first frame of the next session.
fn first_capture(event: Event) -> Option<Instant> {
    match event {
        Event::FrameReceived(frame) => Some(frame.captured_at),
        _ => None,
    }
}

/// Returns the number of the first frame of the next session.
fn first_frame(event: Event) -> Option<u64> {
    match event {
        Event::FrameReceived(frame) => Some(frame.id.0),
        _ => None,
    }
}

#[test]
fn a_receiver_that_was_restarted_says_so_and_has_the_next_session_at_once() {
    let keys = Keys::new();
    let (first, received) = keys.receiver();
    let doorway = Doorway::to(&first);
    let config = keys.config(via_loopback(doorway.address));
    let (sender, events, clock) = streaming(config);
    reception(&received);
    let (second, received) = keys.receiver();
    let watch = Watch::start();
    doorway.lead_to(second.local_addr().port());
    let silent_for = send_until(&sender, &clock, &events, reconnecting);
    // Without the receiver's notice, it takes a second.
    let is_noticed = silent_for < Duration::from_secs(1);
    let is_right = watch.allows(is_noticed, "a receiver's notice", &[]);
    assert!(is_right, "{silent_for}");
    let reception = send_until_reception(&sender, &clock, &received);
    send_until(&sender, &clock, reception.events(), first_frame);
    let seen = sender.snapshot();
    assert_eq!(seen.past_sessions, 1);
    assert!(seen.session.frames_sent > 10, "of both sessions: {seen:?}");
    sender.close();
    assert_eq!(wait_for(&events, ended), Ended::Closed);
}

/// Checks that a stopped receiver announces it, and that the next one gets the stream.
#[test]
fn a_receiver_that_was_stopped_and_started_again_has_the_stream_at_once() {
    let keys = Keys::new();
    let (first, received) = keys.receiver();
    let doorway = Doorway::to(&first);
    let config = keys.config(via_loopback(doorway.address));
    let (sender, events, clock) = streaming(config);
    let reception = reception(&received);
    let (watch, closed_at) = (Watch::start(), clock.now());
    first.close();
    send_until(&sender, &clock, &events, |event| match event {
        Event::ReceiverLeft => Some(()),
        Event::Reconnecting { .. } => panic!("it said so"),
        event => ended(event).map(|ended| panic!("{ended}")),
    });
    assert!(sender.snapshot().peer_left_at.is_some());
    assert_eq!(wait_for(reception.events(), ended), Ended::Closed);
    drop(first);
    let (second, received) = keys.receiver();
    doorway.lead_to(second.local_addr().port());
    let reception = send_until_reception(&sender, &clock, &received);
    send_until(&sender, &clock, reception.events(), first_frame);
    // Silence alone would be noticed after a second.
    let took = clock.now() - closed_at;
    let is_soon = took < Duration::from_secs(1);
    assert!(watch.allows(is_soon, "a restart", &[]), "{took}");
    let seen = sender.snapshot();
    assert_eq!((seen.past_sessions, seen.peer_left_at), (1, None));
    sender.close();
    assert_eq!(wait_for(&events, ended), Ended::Closed);
}

#[test]
fn a_receiver_that_was_stopped_is_not_waited_for_longer_than_asked() {
    let keys = Keys::new();
    let (receiver, _received) = keys.receiver();
    let mut config = keys.config(via_loopback(receiver.local_addr()));
    config.give_up_after = Some(Duration::from_millis(700));
    let (sender, events, clock) = streaming(config);
    drop(receiver);
    let ended = send_until(&sender, &clock, &events, ended);
    assert!(matches!(ended, Ended::ReceiverLeft { .. }), "{ended:?}");
}

#[test]
fn a_receiver_that_is_away_for_seconds_is_waited_for() {
    let keys = Keys::new();
    let (first, _received) = keys.receiver();
    let doorway = Doorway::to(&first);
    let config = keys.config(via_loopback(doorway.address));
    let (sender, events, clock) = streaming(config);
    doorway.lead_to(NOBODY);
    let silent_for = send_until(&sender, &clock, &events, reconnecting);
    assert!(silent_for >= Duration::from_millis(900), "{silent_for}");
    send_for(&sender, &clock, Duration::from_secs(3));
    let (second, received) = keys.receiver();
    let (watch, back_at) = (Watch::start(), clock.now());
    doorway.lead_to(second.local_addr().port());
    let reception = send_until_reception(&sender, &clock, &received);
    let captured_at = send_until(&sender, &clock, reception.events(), first_capture);
    // Challenges leave every 100 ms, and the receiver does not know their session.
    let took = clock.now() - back_at;
    let is_soon = took < Duration::from_millis(1_500);
    assert!(watch.allows(is_soon, "a return", &[]), "{took}");
    // Frames that can still be in time are not lost with their session.
    let age = clock.now() - captured_at;
    assert!(age > Duration::from_millis(200), "{age}");
}

#[test]
fn an_outage_alone_leaves_the_session_as_it_is() {
    let keys = Keys::new();
    let (receiver, received) = keys.receiver();
    let doorway = Doorway::to(&receiver);
    let config = keys.config(via_loopback(doorway.address));
    let (sender, events, clock) = streaming(config);
    let reception = reception(&received);
    doorway.lead_to(NOBODY);
    send_until(&sender, &clock, &events, reconnecting);
    send_for(&sender, &clock, Duration::from_secs(1));
    doorway.lead_to(receiver.local_addr().port());
    send_for(&sender, &clock, Duration::from_secs(1));
    sender.close();
    let mut is_reconnected = false;
    let end = wait_for(&events, |event| {
        is_reconnected |= matches!(event, Event::Reconnected { .. });
        ended(event)
    });
    assert_eq!((end, is_reconnected), (Ended::Closed, false));
    assert_eq!(wait_for(reception.events(), ended), Ended::ClosedByPeer);
}

#[test]
fn a_sender_gives_up_when_it_is_told_to() {
    let keys = Keys::new();
    let (receiver, _received) = keys.receiver();
    let doorway = Doorway::to(&receiver);
    let mut config = keys.config(via_loopback(doorway.address));
    config.give_up_after = Some(Duration::from_millis(1_500));
    let (sender, events, clock) = streaming(config);
    doorway.lead_to(NOBODY);
    let ended = send_until(&sender, &clock, &events, ended);
    assert!(matches!(ended, Ended::PeerSilent { .. }), "{ended:?}");
}

#[test]
fn a_sender_whose_place_was_taken_is_told_so_even_if_it_was_away() {
    let keys = Keys::new();
    let (receiver, received) = keys.receiver();
    let doorway = Doorway::to(&receiver);
    let config = keys.config(via_loopback(doorway.address));
    let (first, first_events, clock) = streaming(config);
    let reception = reception(&received);
    // The first is cut off, and receives nothing more.
    doorway.lead_to(NOBODY);
    let config = keys.config(via_loopback(receiver.local_addr()));
    let (second, second_events) = Sender::start(config).expect("loopback");
    wait_for(&second_events, connected);
    send_for(&second, &clock, Duration::from_millis(300));
    assert_eq!(wait_for(reception.events(), ended), Ended::Replaced);
    doorway.lead_to(receiver.local_addr().port());
    assert_eq!(
        send_until(&first, &clock, &first_events, ended),
        Ended::Replaced
    );
    send_for(&second, &clock, Duration::from_millis(300));
    second.close();
    assert_eq!(wait_for(&second_events, ended), Ended::Closed);
}

#[test]
fn a_path_that_is_absent_is_told_and_the_others_carry_the_session() {
    let keys = Keys::new();
    let (receiver, received) = keys.receiver();
    let remote = receiver.local_addr();
    let absent = path(Via::Interface("nowhere9".into()), remote);
    let config = keys.config([vec![absent], via_loopback(remote)].concat());
    let clock = config.clock;
    let (sender, events) = Sender::start(config).expect("what is absent is waited for");
    let mut reason = None;
    wait_for(&events, |event| match event {
        Event::PathAbsent {
            path: PathId(0),
            reason: given,
        } => {
            reason = Some(given);
            None
        }
        event => connected(event),
    });
    assert!(reason.is_some_and(|reason| reason.contains("nowhere9")));
    for _ in 0..25 {
        send_one(&sender, &clock);
        wait(FRAME_INTERVAL);
    }
    // All of them: a close does not wait for data that a busy machine has not sent yet.
    let mut count = 0;
    let reception = reception(&received);
    wait_for(reception.events(), |event| {
        count += u32::from(matches!(event, Event::FrameReceived(_)));
        (count == 25).then_some(())
    });
    sender.close();
    assert_eq!(wait_for(&events, ended), Ended::Closed);
    wait_for(reception.events(), ended);
}
