//! Many senders at one receiver: `many_senders FILE COUNT ADDRESS PEER RATE SECONDS`. It writes
//! COUNT keys to be allowed into FILE, waits for a line on standard input, and then sends at RATE
//! from each. `scripts/many-senders` starts the receiver next to it, and prints the cost of each
//! session there.

use std::io::{BufRead, Write};
use std::net::SocketAddr;
use std::sync::mpsc;

use anabranch_core::{Frame, PathOptions};
use anabranch_net::{ClientConfig, ClientPath, Event, Sender, Via};
use anabranch_secure::{PublicKey, SecretKey};
use anabranch_units::{DataRate, Duration, Importance};

const FRAMES_PER_SECOND: u64 = 25;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, count, address, peer, rate, seconds] = arguments.as_slice() else {
        panic!("many_senders FILE COUNT ADDRESS PEER RATE SECONDS");
    };
    let count: usize = count.parse().expect("a count");
    let remote: SocketAddr = address.parse().expect("an address");
    let peer: PublicKey = peer.parse().expect("a public key");
    let rate: DataRate = rate.parse().expect("a rate");
    let seconds: u64 = seconds.parse().expect("seconds");
    let keys: Vec<SecretKey> = (0..count).map(|_| SecretKey::generate()).collect();
    let mut list = std::fs::File::create(file).expect("a file");
    for (index, key) in keys.iter().enumerate() {
        writeln!(list, "{} s{index}", key.public_key()).expect("it can be written");
    }
    std::io::stdin().lock().lines().next();
    let senders: Vec<_> = keys
        .into_iter()
        .map(|key| {
            let path = ClientPath {
                via: Via::DefaultRoute,
                remote: remote.into(),
                options: PathOptions::default(),
            };
            let config = ClientConfig::new(key, peer, vec![path]);
            let clock = config.clock;
            let (sender, events) = Sender::start(config).expect("loopback");
            (sender, events, clock)
        })
        .collect();
    for (_, events, _) in &senders {
        while !matches!(events.recv(), Ok(Event::Connected { .. })) {}
    }
    println!("connected");
    std::io::stdin().lock().lines().next();
    let interval = Duration::from_secs(1) / FRAMES_PER_SECOND;
    let bytes = vec![7; (rate.bytes_in(interval) as usize).max(1)];
    let (_keep, never) = mpsc::channel::<()>();
    for _ in 0..seconds * FRAMES_PER_SECOND {
        let rest = interval / count as u64;
        for (sender, _, clock) in &senders {
            let frame = Frame {
                bytes: bytes.clone().into(),
                importance: Importance::Key,
                captured_at: clock.now(),
                lifetime: None,
            };
            let _ = sender.send_frame(&frame);
            let _ = never.recv_timeout(rest.to_std());
        }
    }
    for (sender, _, _) in &senders {
        sender.close();
    }
}
