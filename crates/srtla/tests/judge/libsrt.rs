//! A model of libsrt's receiver and sender in live mode, with its defaults (draft-sharabayko-srt-01
//! and the documentation of libsrt 1.5): reports of missing packets at once and periodically,
//! acknowledgements every 10 ms, drops by latency.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_units::{Duration, Instant};

/// Interval of acknowledgements (§4.8.1).
const ACK_INTERVAL: Duration = Duration::from_millis(10);
/// Least interval of periodic reports of missing packets (§4.8.2).
const LEAST_NAK_INTERVAL: Duration = Duration::from_millis(20);
/// Round trip and its variance before the first sample (§4.10), in microseconds.
const INITIAL_RTT: (u64, u64) = (100_000, 50_000);
/// Socket of the model's listener and of its caller.
pub const LISTENER: u32 = 1;
pub const CALLER: u32 = 2;

/// Returns a control packet to `socket`.
pub fn control(kind: u16, info: u32, socket: u32, words: &[u32]) -> Vec<u8> {
    let head = [u32::from(kind) << 16, info, 0, socket];
    head.iter()
        .chain(words)
        .flat_map(|word| word.to_be_bytes())
        .collect()
}

/// Returns a handshake to `socket`, with a latency of the listener if there is one.
pub fn handshake(kind: u32, from: u32, to: u32, latency: Option<Duration>) -> Vec<u8> {
    let mut words = vec![5, 0, 0, 1_500, 8_192, kind, from, 0, 0, 0, 0, 0];
    if let Some(latency) = latency {
        let millis = latency.as_millis() as u32;
        words.extend([(2 << 16) | 3, 0x10503, 0xbf, millis << 16 | millis]);
    }
    control(0x8000, 0, to, &words)
}

/// Returns the word of a datagram at an index.
pub fn word(datagram: &[u8], index: usize) -> u32 {
    let bytes = datagram.get(4 * index..4 * index + 4);
    bytes.map_or(0, |bytes| {
        u32::from_be_bytes(bytes.try_into().expect("four"))
    })
}

/// Smoothed round trip in microseconds, and its variance.
#[derive(Clone, Copy, Debug)]
struct Smoothed(u64, u64);

impl Smoothed {
    fn span(self) -> Duration {
        Duration::from_micros(self.0 + 4 * self.1)
    }
}

/// A receiver of one stream.
#[derive(Debug)]
pub struct Receiver {
    latency: Duration,
    /// Time between a packet's stamp and its play-out; known with the first packet.
    base: Option<Instant>,
    /// First number that is neither played nor dropped.
    next: u32,
    highest: Option<u32>,
    lost: BTreeSet<u32>,
    /// Stamps of the packets that have arrived and are not played.
    held: BTreeMap<u32, Duration>,
    rtt: Smoothed,
    ack_at: Instant,
    nak_at: Instant,
    ack_number: u32,
    /// Last acknowledged number, when, and whether the sender has confirmed it.
    acked: (u32, Instant, bool),
    asked: BTreeMap<u32, Instant>,
    /// Numbers that were dropped.
    pub missing: BTreeSet<u32>,
    /// Answers for the sender.
    pub answers: Vec<Vec<u8>>,
}

impl Receiver {
    pub fn new(latency: Duration, first: u32) -> Self {
        Receiver {
            latency,
            base: None,
            next: first,
            highest: None,
            lost: BTreeSet::new(),
            held: BTreeMap::new(),
            rtt: Smoothed(INITIAL_RTT.0, INITIAL_RTT.1),
            ack_at: Instant::ZERO,
            nak_at: Instant::ZERO,
            ack_number: 0,
            acked: (first, Instant::ZERO, true),
            asked: BTreeMap::new(),
            missing: BTreeSet::new(),
            answers: Vec::new(),
        }
    }

    /// Returns the first number that is neither played nor dropped.
    pub fn next(&self) -> u32 {
        self.next
    }

    /// Takes a datagram of the sender.
    pub fn handle(&mut self, now: Instant, datagram: &[u8]) {
        let first = word(datagram, 0);
        match (first >> 16) as u16 {
            _ if first >> 31 == 0 => self.take(now, first, word(datagram, 2)),
            0x8000 => {
                let latency = Some(self.latency);
                self.answers
                    .push(handshake(u32::MAX, LISTENER, CALLER, latency));
            }
            0x8006 => self.on_ack_ack(now, word(datagram, 1)),
            _ => {}
        }
    }

    fn take(&mut self, now: Instant, number: u32, stamp: u32) {
        let stamp = Duration::from_micros(u64::from(stamp));
        let latency = self.latency;
        self.base.get_or_insert(Instant::from_nanos(
            (now + latency).as_nanos().saturating_sub(stamp.as_nanos()),
        ));
        if number < self.next || self.held.contains_key(&number) {
            return;
        }
        let expected = self.highest.map_or(self.next, |highest| highest + 1);
        if number > expected {
            self.lost.extend(expected..number);
            self.report(&[(expected, number - 1)]);
        }
        self.lost.remove(&number);
        self.held.insert(number, stamp);
        self.highest = self.highest.max(Some(number));
    }

    fn report(&mut self, ranges: &[(u32, u32)]) {
        let words: Vec<u32> = ranges
            .iter()
            .flat_map(|&(first, last)| {
                if first == last {
                    vec![last]
                } else {
                    vec![first | 1 << 31, last]
                }
            })
            .collect();
        self.answers.push(control(0x8003, 0, CALLER, &words));
    }

    fn on_ack_ack(&mut self, now: Instant, number: u32) {
        let Some(sent_at) = self.asked.remove(&number) else {
            return;
        };
        if number == self.ack_number {
            self.acked.2 = true;
        }
        let sample = now.saturating_since(sent_at).as_nanos() / 1_000;
        let Smoothed(mean, variance) = self.rtt;
        let variance = (3 * variance + mean.abs_diff(sample)) / 4;
        self.rtt = Smoothed((7 * mean + sample) / 8, variance);
        self.asked = self.asked.split_off(&number);
    }

    /// Plays, drops, acknowledges and reports.
    pub fn handle_time(&mut self, now: Instant) {
        self.play(now);
        if now >= self.ack_at {
            self.ack_at = now + ACK_INTERVAL;
            self.acknowledge(now);
        }
        if now >= self.nak_at {
            self.nak_at = now + (self.rtt.span() / 2).max(LEAST_NAK_INTERVAL);
            let mut ranges: Vec<(u32, u32)> = Vec::new();
            for &number in &self.lost {
                match ranges.last_mut() {
                    Some((_, last)) if *last + 1 == number => *last = number,
                    _ => ranges.push((number, number)),
                }
            }
            // A report fits a packet.
            for part in ranges.chunks(150) {
                self.report(part);
            }
        }
    }

    fn play(&mut self, now: Instant) {
        let Some(base) = self.base else {
            return;
        };
        while let Some((&first, &stamp)) = self.held.first_key_value() {
            if base + stamp > now {
                return;
            }
            self.missing.extend(self.next..first);
            self.lost = self.lost.split_off(&first);
            self.held.remove(&first);
            self.next = first + 1;
        }
    }

    fn acknowledge(&mut self, now: Instant) {
        let Some(highest) = self.highest else {
            return;
        };
        let next = self.lost.first().copied().unwrap_or(highest + 1);
        let (acked, at, is_confirmed) = self.acked;
        let is_again = next == acked && (is_confirmed || now < at + self.rtt.span());
        if next < acked || is_again {
            return;
        }
        self.acked = (next, now, false);
        self.ack_number += 1;
        self.asked.insert(self.ack_number, now);
        let words = [next, self.rtt.0 as u32, self.rtt.1 as u32, 8_192];
        self.answers
            .push(control(0x8002, self.ack_number, CALLER, &words));
    }
}

/// A sender of one stream.
#[derive(Debug, Default)]
pub struct Caller {
    /// Packets, and the time of their last repetition.
    kept: BTreeMap<u32, (Vec<u8>, Instant)>,
    rtt: Duration,
    next: u32,
    /// Datagrams for the bonding sender.
    pub out: Vec<Vec<u8>>,
}

impl Caller {
    pub fn new(first: u32) -> Self {
        Caller {
            next: first,
            out: vec![handshake(1, CALLER, 0, None)],
            ..Caller::default()
        }
    }

    /// Sends a packet of media of 1,316 bytes. Returns its number.
    pub fn send(&mut self, now: Instant) -> u32 {
        let number = self.next;
        let words = [number, 0xe000_0000, now.as_micros() as u32, LISTENER];
        let mut packet: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        packet.resize(16 + 1_316, 0x47);
        self.kept.insert(number, (packet.clone(), Instant::ZERO));
        self.out.push(packet);
        self.next += 1;
        number
    }

    /// Takes a datagram of the receiver.
    pub fn handle(&mut self, now: Instant, datagram: &[u8]) {
        match (word(datagram, 0) >> 16) as u16 {
            0x8002 => {
                let rtt = u64::from(word(datagram, 5)) + 4 * u64::from(word(datagram, 6));
                self.rtt = Duration::from_micros(rtt);
                self.kept = self.kept.split_off(&word(datagram, 4));
                let number = word(datagram, 1);
                self.out.push(control(0x8006, number, LISTENER, &[]));
            }
            0x8003 => {
                let mut at = 4;
                while 4 * at < datagram.len() {
                    let first = word(datagram, at);
                    let is_range = first >> 31 == 1;
                    let last = word(datagram, at + usize::from(is_range));
                    self.repeat(now, first & (u32::MAX >> 1), last);
                    at += 1 + usize::from(is_range);
                }
            }
            _ => {}
        }
    }

    /// Sends packets again, each once in a round trip (`SRTO_RETRANSMITALGO` 1).
    fn repeat(&mut self, now: Instant, first: u32, last: u32) {
        if first > last {
            return;
        }
        for (_, (packet, at)) in self.kept.range_mut(first..=last) {
            if *at == Instant::ZERO || now >= *at + self.rtt {
                *at = now;
                packet[4] |= 0x04;
                self.out.push(packet.clone());
            }
        }
    }
}
