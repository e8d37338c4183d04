//! Clients whose receivers have names, over loopback and in real time, with a scripted resolver.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, mpsc};
use std::time::Duration as StdDuration;

use anabranch_core::{Frame, PathId, PathState};
use anabranch_secure::SecretKey;
use anabranch_units::Importance;

use super::super::ClientConfig;
use super::*;
use crate::event_queue::{self, Events};
use crate::load::Frames;
use crate::names::testing::Scripted;
use crate::receiver::{Receiver, Receptions};
use crate::runtime::{Next, Role, Runtime, Surroundings};
use crate::server::ServerConfig;
use crate::snapshot::Snapshot;
use crate::tcp::TcpFallback;

mod carriers;

const PATIENCE: StdDuration = StdDuration::from_secs(10);

type Resolved = Result<Vec<SocketAddr>, String>;

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

    fn receiver(&self, listen: SocketAddr) -> (Receiver, Receptions) {
        let allowed = vec![self.sender.public_key()];
        Receiver::start(ServerConfig::new(listen, copy(&self.receiver), allowed))
            .expect("a port of loopback")
    }
}

fn loopback(last: u8) -> SocketAddr {
    (Ipv4Addr::new(127, 0, 0, last), 0).into()
}

/// Returns an address at which nobody answers.
fn nobody() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind(loopback(1)).expect("a port of loopback");
    let address = socket.local_addr().expect("it has one");
    (socket, address)
}

fn wait(pause: StdDuration) {
    let (_sender, never) = mpsc::channel::<()>();
    let _ = never.recv_timeout(pause);
}

/// A running sender whose receiver is "studio.example".
struct Client {
    runtime: Runtime<ClientRole<Frames>>,
    events: Events,
    script: Arc<Scripted>,
}

impl Client {
    /// Makes the second path leave from 127.0.1.`last` from now on. Returns the old one's state.
    fn replace_second_path(&self, last: u64, remote: SocketAddr) -> PathSnapshot {
        let by = ClientPath {
            via: format!("127.0.1.{last}").parse().unwrap_or_default(),
            remote: remote.into(),
            options: PathOptions::default(),
        };
        let port = by.open_port(&Network::default()).expect("loopback");
        let replaced = self
            .runtime
            .change(|role, now| role.replace_path(now, 1, by, port));
        replaced.expect("there is such a path")
    }

    fn start(keys: &Keys, vias: &[&str], answers: Vec<Resolved>) -> Client {
        Client::start_with(keys, vias, answers, TcpFallback::Off)
    }

    fn start_with(keys: &Keys, vias: &[&str], answers: Vec<Resolved>, tcp: TcpFallback) -> Client {
        let path = |via: &&str| ClientPath {
            via: via.parse().unwrap_or_default(),
            remote: "studio.example:7000".parse().expect("a name"),
            options: PathOptions::default(),
        };
        let paths: Vec<_> = vias.iter().map(path).collect();
        let peer = keys.receiver.public_key();
        let mut config = ClientConfig::new(copy(&keys.sender), peer, paths.clone());
        config.tcp = tcp;
        let ports = config.open_ports().expect("names need no ports");
        let (events, receiver) = event_queue::queue();
        let script = Arc::new(Scripted::new(answers));
        let resolver = Arc::clone(&script);
        let surroundings = Surroundings::of(&config.network, config.clock);
        let runtime = Runtime::start_with("sender", surroundings, ports, |waker| {
            let woken = Arc::clone(&waker);
            let mut role = ClientRole::new(config, events, Box::new(Frames::default), waker)?;
            role.paths = PathManager::new(paths, Network::default(), resolver, woken);
            Ok(role)
        });
        Client {
            runtime: runtime.expect("a thread"),
            events: receiver,
            script,
        }
    }

    fn wait_for<T>(&self, mut pick: impl FnMut(Event) -> Option<T>) -> T {
        loop {
            let event = self.events.recv_timeout(PATIENCE);
            if let Some(picked) = pick(event.expect("an event in time")) {
                return picked;
            }
        }
    }

    fn wait_connected(&self) {
        self.wait_for(|event| matches!(event, Event::Connected { .. }).then_some(()));
    }

    /// Waits until a snapshot meets the condition.
    fn wait_until(&self, is_so: impl Fn(&Snapshot) -> bool) {
        for _ in 0..PATIENCE.as_millis() / 20 {
            if is_so(&self.runtime.look(ClientRole::snapshot)) {
                return;
            }
            wait(StdDuration::from_millis(20));
        }
        panic!("{:?}", self.runtime.look(ClientRole::snapshot));
    }

    fn send_frame(&self) {
        self.runtime.change(|role, now| {
            let frame = Frame {
                bytes: vec![7; 1_000].into(),
                importance: Importance::Key,
                captured_at: now,
                lifetime: None,
            };
            if let Ok(driver) = role.open_driver() {
                let _ = driver.send_frame(now, &frame);
            }
        });
    }

    fn unused_answers(&self) -> usize {
        self.script.0.lock().unwrap().len()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.runtime.change(|role, _| role.abandon());
        let _ = self.runtime.join();
    }
}

/// Returns whether every path leads to the address.
fn leads_to(seen: &Snapshot, address: SocketAddr) -> bool {
    seen.paths.iter().all(|path| path.peer == Some(address))
}

#[test]
fn a_name_that_cannot_be_resolved_yet_is_waited_for_and_told() {
    let keys = Keys::new();
    let (receiver, _sessions) = keys.receiver(loopback(1));
    let address = receiver.local_addr();
    let failure = || Err("temporary failure".to_owned());
    let answers = vec![failure(), failure(), Ok(vec![address])];
    let client = Client::start(&keys, &["127.0.0.1"], answers);
    let mut reported = Vec::new();
    client.wait_for(|event| match event {
        Event::Connected { .. } => Some(()),
        event => {
            reported.push(event);
            None
        }
    });
    let name = "studio.example:7000".to_owned();
    let reason = "temporary failure".to_owned();
    let addresses = vec![address];
    let unresolved = Event::NameUnresolved {
        name: name.clone(),
        reason,
    };
    assert_eq!(
        reported[..2],
        [unresolved, Event::NameResolved { name, addresses }]
    );
    client.send_frame();
    client.wait_until(|seen| leads_to(seen, address));
}

#[test]
fn the_next_address_is_called_when_the_first_does_not_answer() {
    let keys = Keys::new();
    let (receiver, _sessions) = keys.receiver(loopback(1));
    let (_silent, nowhere) = nobody();
    let answers = vec![Ok(vec![nowhere, receiver.local_addr()])];
    let client = Client::start(&keys, &["127.0.0.1", "127.0.0.2"], answers);
    client.wait_connected();
    client.wait_until(|seen| leads_to(seen, receiver.local_addr()));
}

#[test]
fn a_name_that_moves_is_followed_when_the_receiver_is_gone() {
    let keys = Keys::new();
    let (first, _first_sessions) = keys.receiver(loopback(1));
    let (second, _second_sessions) = keys.receiver(loopback(3));
    let answers = vec![Ok(vec![first.local_addr()]), Ok(vec![second.local_addr()])];
    let client = Client::start(&keys, &["127.0.0.1", "127.0.0.2"], answers);
    client.wait_connected();
    client.wait_until(|seen| leads_to(seen, first.local_addr()));
    // No answer of the resolver moves a working session.
    for _ in 0..60 {
        client.send_frame();
        wait(StdDuration::from_millis(25));
    }
    assert_eq!(client.unused_answers(), 1, "asked once, at the start");
    let moved_to = second.local_addr();
    drop(first);
    let mut reported = None;
    client.wait_for(|event| match event {
        Event::NameResolved { addresses, .. } => {
            reported = Some(addresses);
            None
        }
        event => matches!(event, Event::Reconnected { .. }).then_some(()),
    });
    assert_eq!(reported, Some(vec![moved_to]));
    client.wait_until(|seen| leads_to(seen, moved_to));
}

#[test]
fn each_path_takes_an_address_that_it_has_a_route_to() {
    let keys = Keys::new();
    let everywhere = "[::]:0".parse().expect("an address");
    // Some machines have no IPv6.
    if UdpSocket::bind("[::1]:0").is_err() {
        return;
    }
    let (receiver, _sessions) = keys.receiver(everywhere);
    let port = receiver.local_addr().port();
    let at = |host: &str| -> SocketAddr { format!("{host}:{port}").parse().expect("an address") };
    let [v4, v6] = [at("127.0.0.1"), at("[::1]")];
    let client = Client::start(&keys, &["127.0.0.1", "::1"], vec![Ok(vec![v6, v4])]);
    client.wait_connected();
    client.wait_until(|seen| {
        client.send_frame();
        let peers = seen.paths.iter().map(|path| path.peer);
        let is_heard = |path: &PathSnapshot| path.counters.received_packets > 0;
        peers.eq([Some(v4), Some(v6)]) && seen.paths.iter().all(is_heard)
    });
}

#[test]
fn nothing_leaves_before_ports_are_changed() {
    let keys = Keys::new();
    let (_silent, remote) = nobody();
    let path = ClientPath {
        via: Via::DefaultRoute,
        remote: remote.into(),
        options: PathOptions::default(),
    };
    let peer = keys.receiver.public_key();
    let config = ClientConfig::new(copy(&keys.sender), peer, vec![path.clone()]);
    let mut ports = config.open_ports().expect("loopback");
    let (events, _receiver) = event_queue::queue();
    let (waker, _wakeup) = crate::waker::pair().expect("a pipe");
    let make_load = Box::new(Frames::default);
    let role = ClientRole::<Frames>::new(config, events, make_load, Arc::new(waker));
    let mut role = role.expect("it is set up");
    let port = path.open_port(&Network::default()).expect("loopback");
    role.add_path(path, port).expect("there is room");
    let now = role.config.clock.now();
    let has_sent = |role: &ClientRole<Frames>| {
        let handshake = role.handshake.as_ref().expect("it asks for a session");
        handshake.first_sent_at.is_some()
    };
    assert_eq!(role.advance(now, &ports), Next::Wait(Some(now)));
    assert!(!has_sent(&role));
    role.take_ports(now, &mut ports);
    role.advance(now, &ports);
    assert!(has_sent(&role));
    assert_eq!(ports.len(), 2);
}

#[test]
fn a_number_serves_one_path_after_the_other() {
    let keys = Keys::new();
    let (receiver, _sessions) = keys.receiver(loopback(1));
    let remote = receiver.local_addr();
    let client = Client::start(&keys, &["127.0.0.1", "127.0.0.2"], vec![Ok(vec![remote])]);
    client.wait_connected();
    for turn in 0..40 {
        let old = client.replace_second_path(turn, remote);
        assert!(turn == 0 || old.counters.received_packets > 0);
        assert_eq!(old.peer, Some(remote));
        let seen = client.runtime.look(ClientRole::snapshot);
        assert_eq!(seen.paths[1].counters.received_packets, 0);
        assert_eq!(seen.paths[1].succession, turn + 1);
        client.wait_until(|seen| {
            client.send_frame();
            let path = &seen.paths[1];
            path.counters.received_packets > 0 && path.view.state == PathState::Active
        });
    }
    let by = ClientPath {
        via: Via::DefaultRoute,
        remote: remote.into(),
        options: PathOptions::default(),
    };
    let port = by.open_port(&Network::default()).expect("loopback");
    let refused = client
        .runtime
        .change(|role, now| role.replace_path(now, PathId(2).index(), by, port));
    assert!(matches!(refused, Err(StartError::NoSuchPath { index: 2 })));
}
