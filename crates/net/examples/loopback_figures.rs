//! Prints the cost of a session over loopback: CPU seconds per Gbit of media at each end.
//!
//! Linux only: reads the threads' CPU time from /proc.

use std::net::Ipv4Addr;
use std::sync::mpsc;
use std::time::Duration as StdDuration;

use anabranch_controllers::by_name;
use anabranch_core::{Frame, PathOptions};
use anabranch_net::{ClientConfig, ClientPath, Clock, Event, Receiver, Sender, ServerConfig, Via};
use anabranch_secure::SecretKey;
use anabranch_units::{DataRate, Duration, Importance};

const FRAMES_PER_SECOND: u64 = 100;
const RUN: Duration = Duration::from_secs(4);
/// Ticks per second of the kernel's clock.
const TICKS_PER_SECOND: f64 = 100.0;

/// Returns the CPU seconds of the thread called `name`, in user and kernel mode.
fn cpu_seconds(name: &str) -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux");
    let stats = tasks
        .flatten()
        .flat_map(|task| std::fs::read_to_string(task.path().join("stat")));
    stats
        .filter(|stat| stat.contains(&format!("({name})")))
        .map(|stat| {
            let (_, fields) = stat.rsplit_once(')').expect("a name in brackets");
            let ticks = fields.split_whitespace().skip(11).take(2);
            ticks
                .map(|ticks| ticks.parse::<f64>().expect("ticks"))
                .sum::<f64>()
        })
        .sum::<f64>()
        / TICKS_PER_SECOND
}

fn run(rate: DataRate) {
    let (sender_key, receiver_key) = (SecretKey::generate(), SecretKey::generate());
    let peer_key = receiver_key.public_key();
    let listen = (Ipv4Addr::LOCALHOST, 0).into();
    let allowed = vec![sender_key.public_key()];
    let (receiver, receptions) =
        Receiver::start(ServerConfig::new(listen, receiver_key, allowed)).expect("loopback");
    let remote = receiver.local_addr();
    let path = ClientPath {
        via: Via::DefaultRoute,
        remote: remote.into(),
        options: PathOptions::default(),
    };
    let mut config = ClientConfig::new(sender_key, peer_key, vec![path]);
    config.transport.controller = by_name("fixed").unwrap();
    config.transport.laboratory.fixed_rate = rate.mul_f64(1.2);
    let clock = config.clock;
    let (sender, events) = Sender::start(config).expect("loopback");
    while !matches!(events.recv(), Ok(Event::Connected { .. })) {}
    let reception = receptions.recv().expect("a session");
    let drain = std::thread::spawn(move || {
        let mut bytes = 0;
        for event in reception.events().iter() {
            match event {
                Event::FrameReceived(frame) => bytes += frame.bytes.len() as u64,
                Event::Ended(_) => break,
                _ => {}
            }
        }
        bytes
    });
    let interval = Duration::from_secs(1) / FRAMES_PER_SECOND;
    feed(
        &sender,
        &clock,
        &vec![1; rate.bytes_in(interval) as usize],
        interval,
    );
    let (sender_seconds, receiver_seconds) = (cpu_seconds("sender"), cpu_seconds("receiver"));
    sender.close();
    while !matches!(events.recv(), Ok(Event::Ended(_)) | Err(_)) {}
    let gigabits = drain.join().expect("it only counts") as f64 * 8.0 / 1e9;
    let lost = sender.snapshot().paths[0].counters.lost_packets;
    println!(
        "{rate}: {gigabits:.2} Gbit arrived, {lost} packets lost; CPU seconds per Gbit: sender \
         {:.3}, receiver {:.3}",
        sender_seconds / gigabits,
        receiver_seconds / gigabits
    );
}

fn feed(sender: &Sender, clock: &Clock, bytes: &[u8], interval: Duration) {
    let (_keep, never) = mpsc::channel::<()>();
    let origin = clock.now();
    let mut next_at = origin;
    while next_at < origin + RUN {
        let wait = next_at.saturating_since(clock.now());
        let _ = never.recv_timeout(StdDuration::from_nanos(wait.as_nanos()));
        let frame = Frame {
            bytes: bytes.to_vec().into(),
            importance: Importance::key_if(next_at == origin),
            captured_at: next_at,
            lifetime: None,
        };
        sender.send_frame(&frame).expect("not backlogged");
        next_at += interval;
    }
}

fn main() {
    for megabits in [10, 100, 400] {
        run(DataRate::from_megabits_per_second(megabits));
    }
}
