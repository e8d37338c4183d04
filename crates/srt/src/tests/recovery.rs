//! Packets that are lost for good, over a link whose queue fills with every burst. Each of our
//! ends works with a model of libsrt's other end.

use std::collections::VecDeque;

use anabranch_units::{DataRate, Duration, Instant, Rng, Seed};

use super::libsrt::{FIRST, RECEIVER, Receiver, SENDER, Sender};
use crate::connection::{Agreement, Connection};
use crate::negotiation::Agreed;
use crate::settings::Settings;

const SEEDS: u64 = 100;
const STEP: Duration = Duration::from_millis(1);
const DELAY: Duration = Duration::from_millis(20);
const LATENCY: Duration = Duration::from_millis(400);
const RATE: DataRate = DataRate::from_megabits_per_second(4);
const LOSS: f64 = 0.02;
const RUN: Duration = Duration::from_secs(10);
const PAYLOAD_BYTES: usize = 1_316;

/// A program that sends bursts of packets, each `bursts_per_key`th with a key frame.
struct Source {
    burst_steps: u64,
    bursts_per_key: u64,
    key_burst_packets: u64,
    burst_packets: u64,
}

/// A camera with 25 frames a second. The link carries a key frame in 160 ms.
const CAMERA: Source = Source {
    burst_steps: 40,
    bursts_per_key: 25,
    key_burst_packets: 60,
    burst_packets: 5,
};
/// ffmpeg, which reads a file five frames at a time.
const FILE: Source = Source {
    burst_steps: 200,
    bursts_per_key: 5,
    key_burst_packets: 56,
    burst_packets: 31,
};

impl Source {
    /// Returns the packets that leave at a step.
    fn packets(&self, step: u64) -> u64 {
        match (step % self.burst_steps, step / self.burst_steps) {
            (0, burst) if burst % self.bursts_per_key == 0 => self.key_burst_packets,
            (0, _) => self.burst_packets,
            _ => 0,
        }
    }
}

/// One direction of the link: a queue, a delay, and losses.
struct Way {
    rate: Option<DataRate>,
    busy_until: Instant,
    in_flight: VecDeque<(Instant, Vec<u8>)>,
}

impl Way {
    fn new(rate: Option<DataRate>) -> Self {
        Way {
            rate,
            busy_until: Instant::ZERO,
            in_flight: VecDeque::new(),
        }
    }

    fn send(&mut self, now: Instant, datagrams: Vec<Vec<u8>>, rng: &mut Rng) {
        for datagram in datagrams {
            let bytes = datagram.len() as u64 + 28;
            let busy_for = self.rate.map(|rate| rate.time_for(bytes));
            self.busy_until = self.busy_until.max(now) + busy_for.unwrap_or_default();
            if !rng.chance(LOSS) {
                self.in_flight
                    .push_back((self.busy_until + DELAY, datagram));
            }
        }
    }

    fn arrivals(&mut self, now: Instant) -> Vec<Vec<u8>> {
        let count = self.in_flight.partition_point(|(at, _)| *at <= now);
        let arrived = self.in_flight.drain(..count);
        arrived.map(|(_, datagram)| datagram).collect()
    }
}

/// An end of ours, or a model of libsrt's.
enum Sending {
    Ours(Box<Connection>),
    Libsrt(Sender),
}

enum Receiving {
    Ours(Box<Connection>),
    Libsrt(Box<Receiver>),
}

pub(super) fn ours(
    local_id: u32,
    peer_id: u32,
    peer_timestamp: u32,
    now: Instant,
) -> Box<Connection> {
    let agreement = Agreement {
        began_at: Instant::ZERO,
        local_id,
        peer_id,
        initial_sequence: FIRST,
        peer_initial_sequence: FIRST,
        peer_timestamp,
        agreed: Agreed {
            receive_latency: LATENCY,
            peer_latency: LATENCY,
            mtu: 1_500,
            peer_window: 8_192,
        },
        cipher: None,
    };
    Box::new(Connection::new(now, agreement, Settings::default()))
}

fn transmits(connection: &mut Connection, now: Instant) -> Vec<Vec<u8>> {
    core::iter::from_fn(|| connection.poll_transmit(now)).collect()
}

impl Sending {
    fn send(&mut self, now: Instant) {
        match self {
            Sending::Ours(connection) => connection.send(now, &[0; PAYLOAD_BYTES]).unwrap(),
            Sending::Libsrt(sender) => sender.send(now, vec![0; PAYLOAD_BYTES]),
        }
    }

    fn step(&mut self, now: Instant, arrived: &[Vec<u8>]) -> Vec<Vec<u8>> {
        match self {
            Sending::Ours(connection) => {
                let arrivals = arrived.iter();
                arrivals.for_each(|datagram| connection.handle_datagram(now, datagram));
                connection.handle_timeout(now);
                transmits(connection, now)
            }
            Sending::Libsrt(sender) => {
                let arrivals = arrived.iter();
                arrivals.for_each(|datagram| sender.handle(now, datagram));
                sender.take()
            }
        }
    }
}

impl Receiving {
    fn step(&mut self, now: Instant, arrived: &[Vec<u8>]) -> Vec<Vec<u8>> {
        match self {
            Receiving::Ours(connection) => {
                let arrivals = arrived.iter();
                arrivals.for_each(|datagram| connection.handle_datagram(now, datagram));
                connection.handle_timeout(now);
                while connection.poll_payload(now).is_some() {}
                transmits(connection, now)
            }
            Receiving::Libsrt(receiver) => {
                let arrivals = arrived.iter();
                arrivals.for_each(|datagram| receiver.handle(now, datagram));
                receiver.handle_timeout(now);
                receiver.take()
            }
        }
    }

    /// Returns the packets that were dropped.
    fn dropped(&self) -> u64 {
        match self {
            Receiving::Ours(connection) => connection.statistics().dropped_packets,
            Receiving::Libsrt(receiver) => receiver.dropped,
        }
    }
}

/// Counts of all seeds.
#[derive(Debug, Default)]
struct Total {
    /// Packets of the program.
    packets: u64,
    /// Packets that have left, repetitions included.
    departures: u64,
    dropped: u64,
}

impl Total {
    fn repeated_share(&self) -> f64 {
        (self.departures - self.packets) as f64 / self.packets as f64
    }
}

fn is_data(datagram: &[u8]) -> bool {
    datagram[0] < 0x80
}

fn run(
    seed: u64,
    source: &Source,
    (mut sending, mut receiving): (Sending, Receiving),
    total: &mut Total,
) {
    let mut rng = Seed(seed).rng();
    let (mut there, mut back) = (Way::new(Some(RATE)), Way::new(None));
    let begin = Instant::ZERO + DELAY;
    let steps = RUN.as_millis();
    for step in 0..steps + 2_000 {
        let now = begin + STEP * step;
        if step < steps {
            let packets = source.packets(step);
            (0..packets).for_each(|_| sending.send(now));
            total.packets += packets;
        }
        let out = sending.step(now, &back.arrivals(now));
        total.departures += out.iter().filter(|datagram| is_data(datagram)).count() as u64;
        there.send(now, out, &mut rng);
        let out = receiving.step(now, &there.arrivals(now));
        back.send(now, out, &mut rng);
    }
    total.dropped += receiving.dropped();
}

fn our_sender() -> Sending {
    Sending::Ours(ours(SENDER, RECEIVER, 0, Instant::ZERO))
}

/// Its handshake was on the way for the delay.
fn our_receiver() -> Receiving {
    Receiving::Ours(ours(RECEIVER, SENDER, 0, Instant::ZERO + DELAY))
}

fn their_receiver() -> Receiving {
    Receiving::Libsrt(Box::new(Receiver::new(LATENCY + DELAY)))
}

fn their_sender() -> Sending {
    Sending::Libsrt(Sender::default())
}

fn over_all_seeds(sending: impl Fn() -> Sending, receiving: impl Fn() -> Receiving) -> Total {
    let mut total = Total::default();
    for source in [CAMERA, FILE] {
        for seed in 0..SEEDS {
            run(seed, &source, (sending(), receiving()), &mut total);
        }
    }
    total
}

/// Some runs of libsrt's ends lose a packet for good. A retransmission that is lost is asked for
/// again half the longest round trip later, the very first one 300 ms later.
#[test]
fn our_ends_recover_what_libsrts_lose_for_good() {
    let theirs = over_all_seeds(their_sender, their_receiver);
    assert!(theirs.dropped >= 5, "{theirs:?}");
    for (name, total) in [
        ("a receiver", over_all_seeds(their_sender, our_receiver)),
        ("a sender", over_all_seeds(our_sender, their_receiver)),
        ("both", over_all_seeds(our_sender, our_receiver)),
    ] {
        assert_eq!(total.dropped, 0, "{name}: {total:?}");
        // Of which 2 % are necessary.
        let repeated = total.repeated_share();
        assert!(repeated < 0.04, "{name}: {repeated}");
    }
}
