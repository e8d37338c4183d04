//! Attacks on a session over loopback, in real time. Waits are generous: the machine may be busy.
//!
//! Needs a clock: a session's threads send over real sockets.
//!
//! The floods run only if asked for, alone, by an optimised program:
//! `cargo test --release -p anabranch-net --test tests attackers -- --ignored --nocapture
//! --test-threads 1`

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration as StdDuration;

use anabranch_controllers::by_name;
use anabranch_core::{Frame, PathOptions};
use anabranch_net::{
    ClientConfig, ClientPath, Clock, Event, Events, Receiver, Receptions, Sender, ServerConfig, Via,
};
use anabranch_net::{SessionKind, SessionParameters};
use anabranch_secure::{INITIATION_BYTES, Initiator, PublicKey, SecretKey};
use anabranch_units::{DataRate, Duration, Importance, Instant};
use quinn_udp::{Transmit, UdpSockRef, UdpSocketState};

use crate::tap::{loopback, pause};

const PATIENCE: StdDuration = StdDuration::from_secs(30);

fn start_receiver(
    key: SecretKey,
    allowed: Vec<PublicKey>,
    change: impl FnOnce(&mut ServerConfig),
) -> (Receiver, Receptions) {
    let mut config = ServerConfig::new(loopback(1, 0), key, allowed);
    change(&mut config);
    Receiver::start(config).expect("a port of loopback")
}

/// A sender that gets a frame of `frame_bytes` every 40 ms from [`Source::run`].
struct Source {
    sender: Sender,
    events: Events,
    clock: Clock,
    frame_bytes: usize,
}

impl Source {
    fn start(key: SecretKey, peer: PublicKey, remote: SocketAddr, frame_bytes: usize) -> Source {
        let path = ClientPath {
            via: Via::Address(IpAddr::from([127, 0, 0, 1])),
            remote: remote.into(),
            options: PathOptions::default(),
        };
        let mut config = ClientConfig::new(key, peer, vec![path]);
        config.transport.controller = by_name("fixed").unwrap();
        config.transport.laboratory.fixed_rate = DataRate::from_megabits_per_second(20);
        let clock = config.clock;
        let (sender, events) = Sender::start(config).expect("loopback");
        Source {
            sender,
            events,
            clock,
            frame_bytes,
        }
    }

    fn is_connected(&self) -> bool {
        loop {
            match self.events.recv_timeout(PATIENCE).expect("an event") {
                Event::Connected { .. } => return true,
                Event::Ended(_) => return false,
                _ => {}
            }
        }
    }

    fn send(&self, number: u64) {
        let frame = Frame {
            bytes: vec![number as u8; self.frame_bytes].into(),
            importance: Importance::key_if(number.is_multiple_of(25)),
            captured_at: self.clock.now(),
            lifetime: None,
        };
        self.sender.send_frame(&frame).expect("taken");
    }

    /// Sends `count` frames at 25 a second, independent of overrun sleeps.
    fn run(&self, count: u64) {
        let start = self.clock.now();
        for number in 0..count {
            self.send(number);
            let next_at = start + Duration::from_millis(40) * (number + 1);
            pause(next_at.saturating_since(self.clock.now()).to_std());
        }
    }
}

fn initiation(initiator: &Initiator) -> [u8; INITIATION_BYTES] {
    let message = initiator.message().try_into();
    message.expect("it has no code")
}

/// Sends first messages to `target` from 200 addresses at `per_second` until it is dropped.
struct Flood {
    is_over: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Flood {
    const BATCH: usize = 50;

    fn start(messages: Vec<[u8; INITIATION_BYTES]>, target: SocketAddr, per_second: u64) -> Flood {
        let is_over = Arc::new(AtomicBool::new(false));
        let sent = Arc::new(AtomicU64::new(0));
        let sockets: Vec<UdpSocket> = (1..=200)
            .map(|last| {
                UdpSocket::bind((Ipv4Addr::new(127, 0, 1, last), 0)).expect("a port of loopback")
            })
            .collect();
        let thread = thread::spawn({
            let (is_over, sent) = (Arc::clone(&is_over), Arc::clone(&sent));
            move || {
                let state = UdpSocketState::new(UdpSockRef::from(&sockets[0])).expect("a socket");
                let clock = Clock::start();
                let mut batches = messages
                    .chunks_exact(Self::BATCH)
                    .map(<[_]>::as_flattened)
                    .cycle()
                    .zip(sockets.iter().cycle());
                while !is_over.load(Ordering::Relaxed) {
                    let sent_so_far = sent.load(Ordering::Relaxed);
                    let due_at = Instant::ZERO
                        + Duration::from_nanos(sent_so_far * 1_000_000_000 / per_second);
                    let early = due_at.saturating_since(clock.now());
                    if early > Duration::from_micros(500) {
                        pause(early.to_std());
                    }
                    let Some((batch, socket)) = batches.next() else {
                        return;
                    };
                    let transmit = Transmit {
                        destination: target,
                        ecn: None,
                        contents: batch,
                        segment_size: Some(INITIATION_BYTES),
                        src_ip: None,
                    };
                    let _ = state.try_send(UdpSockRef::from(socket), &transmit);
                    sent.fetch_add(Self::BATCH as u64, Ordering::Relaxed);
                }
            }
        });
        Flood {
            is_over,
            sent,
            thread: Some(thread),
        }
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Returns the CPU seconds of the thread called `name`.
fn cpu_seconds(name: &str) -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux");
    let stats = tasks
        .flatten()
        .flat_map(|task| std::fs::read_to_string(task.path().join("stat")));
    let ticks = stats
        .filter(|stat| stat.contains(&format!("({name})")))
        .filter_map(|stat| {
            let (_, fields) = stat.rsplit_once(')')?;
            let fields = fields.split_whitespace().skip(11).take(2);
            Some(fields.flat_map(str::parse::<f64>).sum::<f64>())
        });
    ticks.sum::<f64>() / 100.0
}

/// Sends 8 s of 5 Mbit/s while `messages` arrive at 100,000 a second, and a second sender connects.
fn survive(what: &str, messages: impl FnOnce(&PublicKey) -> Vec<[u8; INITIATION_BYTES]>) {
    const FRAMES: u64 = 200;
    let (sender_key, receiver_key) = (SecretKey::generate(), SecretKey::generate());
    let again = SecretKey::from_text(&sender_key.to_text()).expect("its own text");
    let receiver_public = receiver_key.public_key();
    let messages = messages(&receiver_public);
    let allowed = vec![sender_key.public_key()];
    let (receiver, received) = start_receiver(receiver_key, allowed, |_| {});
    let remote = receiver.local_addr();
    let source = Source::start(sender_key, receiver_public, remote, 25_000);
    assert!(source.is_connected());
    source.run(10);
    let per_second = 100_000;
    let cpu = cpu_seconds("receiver");
    let flood = Flood::start(messages, remote, per_second);
    let started_at = source.clock.now();
    source.run(FRAMES);
    let took = source
        .clock
        .now()
        .saturating_since(started_at)
        .as_secs_f64();
    let sent = flood.sent.load(Ordering::Relaxed);
    let cpu = cpu_seconds("receiver") - cpu;
    pause(StdDuration::from_millis(500));
    let snapshot = receiver.snapshot();
    let received_count = snapshot.session.frames_received;
    println!(
        "{what}: {:.0} first messages a second for {took:.1} s, {:.0} % of a core; {} of {} \
         frames, {} refused",
        sent as f64 / took,
        100.0 * cpu / took,
        received_count,
        FRAMES + 10,
        snapshot.edge.refused_handshakes
    );
    // A sender that restarts is admitted during the flood.
    let asked_at = source.clock.now();
    let second = Source::start(again, receiver_public, remote, 1_000);
    let has_come_back = second.is_connected();
    let waited = source.clock.now().saturating_since(asked_at);
    println!("{what}: a handshake beside it takes {waited}");
    drop(flood);
    if sent as f64 / took < 0.9 * per_second as f64 {
        eprintln!("NOT JUDGED: {what}: this machine is too slow for such a flood");
        return;
    }
    assert_eq!(received_count, FRAMES + 10, "{snapshot:?}");
    assert!(has_come_back);
    drop((source, received));
}

#[test]
#[ignore = "a flood of 10 s, for an optimised program on an idle machine"]
fn random_first_messages_stop_no_stream() {
    survive("random", |_| {
        (0..5_000)
            .map(|number: usize| {
                let mut message = std::array::from_fn(|at| {
                    (number.wrapping_mul(2_654_435_761) >> (at % 24)) as u8 ^ at as u8
                });
                message[0] = 1;
                message
            })
            .collect()
    });
}

#[test]
#[ignore = "a flood of 10 s, for an optimised program on an idle machine"]
fn first_messages_of_strangers_who_know_the_key_stop_no_stream() {
    survive("marked", |receiver_public| {
        let stranger = SecretKey::generate();
        (0..5_000)
            .map(|number| {
                initiation(&Initiator::new(
                    &stranger,
                    receiver_public,
                    number,
                    SessionParameters::of(SessionKind::Frames).to_block(),
                ))
            })
            .collect()
    });
}
