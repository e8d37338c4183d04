//! One run: an SRT caller, a bonding sender, links, this crate's receiver, an SRT listener.

use core::fmt;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};

use anabranch_srtla::{GroupId, Receiver as Relay, Taken};
use anabranch_units::{Duration, Instant, Seed};

use super::bond::Bond;
use super::cases::{Case, Source};
use super::libsrt::{Caller, Receiver, word};
use super::network::Wire;

/// Step of virtual time.
const STEP: Duration = Duration::from_micros(500);
/// Length of the stream, and of the run after it.
const STREAM: Duration = Duration::from_secs(20);
const AFTER: Duration = Duration::from_secs(3);
/// Number of the first packet.
const FIRST: u32 = 5_000;
const PICTURE_INTERVAL: Duration = Duration::from_millis(40);
const PACKET_BYTES: u64 = 1_316;
/// Least rate of an encoder in kbit/s, pictures from one key frame to the next, and its size in
/// other pictures: as those of `test:`.
const LEAST_RATE: u64 = 300;
const KEY_INTERVAL: usize = 50;
const KEY_RATIO: u64 = 2;

/// Counts of runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    pub runs: u64,
    /// Packets or pictures.
    pub units: u64,
    pub missing_units: u64,
    pub packets: u64,
    pub copies: u64,
    /// Runs in which a unit is missing.
    pub flawed: u64,
    /// Largest target over the capacity, 2 s after this fell.
    pub target_excess: f64,
}

impl Outcome {
    pub fn plus(self, other: Outcome) -> Outcome {
        Outcome {
            runs: self.runs + other.runs,
            units: self.units + other.units,
            missing_units: self.missing_units + other.missing_units,
            packets: self.packets + other.packets,
            copies: self.copies + other.copies,
            flawed: self.flawed + other.flawed,
            target_excess: self.target_excess.max(other.target_excess),
        }
    }

    /// Returns the missing share in percent.
    pub fn missing(&self) -> f64 {
        100.0 * self.missing_units as f64 / self.units as f64
    }

    /// Returns the share of packets that were sent again in percent.
    pub fn again(&self) -> f64 {
        100.0 * self.copies.saturating_sub(self.packets) as f64 / self.packets as f64
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (missing, again, flawed) = (self.missing(), self.again(), self.flawed);
        write!(
            f,
            "{missing:.3} % / {again:.2} % ({flawed} of {} runs)",
            self.runs
        )?;
        match self.target_excess {
            0.0 => Ok(()),
            excess => write!(f, ", target {excess:.2}"),
        }
    }
}

/// Media and its pictures.
struct Media {
    source: Source,
    next_at: Instant,
    /// Bytes that are due and not sent.
    rest: u64,
    /// First and last number of each unit.
    units: Vec<(u32, u32)>,
}

struct World<B> {
    bond: B,
    wires: Vec<Wire>,
    relay: Relay,
    group: Option<GroupId>,
    caller: Caller,
    listener: Receiver,
    media: Media,
    copies: u64,
    is_connected: bool,
    target_excess: f64,
}

/// Runs a case.
pub fn run<B: Bond>(case: &Case, seed: Seed) -> Outcome {
    let phase = Duration::from_micros(seed.derive("phase").rng().below(1_000_000));
    let begin = Instant::from_secs(1) + phase;
    let paths = (case.paths)();
    let shift = begin - Instant::ZERO;
    let mut world = World {
        bond: B::new(Instant::ZERO, paths.len()),
        wires: paths
            .iter()
            .enumerate()
            .map(|(index, path)| Wire::new(path, shift, seed.derive(&format!("link {index}"))))
            .collect(),
        relay: Relay::new(&[9; 32]),
        group: None,
        caller: Caller::new(FIRST),
        listener: Receiver::new(Duration::from_millis(case.latency), FIRST),
        media: Media {
            source: case.source,
            next_at: begin,
            rest: 0,
            units: Vec::new(),
        },
        copies: 0,
        is_connected: false,
        target_excess: 0.0,
    };
    let mut now = Instant::ZERO;
    while now < begin + STREAM + AFTER {
        now += STEP;
        world.step(now, begin);
    }
    world.outcome()
}

impl<B: Bond> World<B> {
    fn step(&mut self, now: Instant, begin: Instant) {
        if !self.is_connected && (now - Instant::ZERO).as_millis().is_multiple_of(250) {
            self.caller.out = Caller::new(FIRST).out;
        }
        if now < begin + STREAM {
            self.feed(now, begin);
        }
        for datagram in core::mem::take(&mut self.caller.out) {
            self.bond.handle_srt(now, &datagram);
        }
        self.bond.handle_time(now);
        while let Some((link, datagram)) = self.bond.poll_transmit(now) {
            self.copies += u64::from(word(&datagram, 0) >> 31 == 0);
            self.wires[link].send(now, datagram);
        }
        for link in 0..self.wires.len() {
            while let Some(datagram) = self.wires[link].arrived(now) {
                self.arrive(now, link, &datagram);
            }
        }
        self.relay.handle_time(now);
        self.listener.handle_time(now);
        for answer in core::mem::take(&mut self.listener.answers) {
            let links = self
                .group
                .map(|group| self.relay.handle_srt(now, group, &answer));
            for link in links.into_iter().flatten() {
                let index = usize::from(link.port()) - 1;
                self.wires[index].answer(now, answer.clone());
            }
        }
        for link in 0..self.wires.len() {
            while let Some(datagram) = self.wires[link].answered(now) {
                self.bond.handle_link(now, link, &datagram);
            }
        }
        while let Some(datagram) = self.bond.poll_srt() {
            self.is_connected = true;
            self.caller.handle(now, &datagram);
        }
    }

    fn arrive(&mut self, now: Instant, link: usize, datagram: &[u8]) {
        let from: SocketAddr = (Ipv4Addr::LOCALHOST, link as u16 + 1).into();
        match self.relay.handle_link(now, from, datagram) {
            Taken::Nothing => {}
            Taken::Answer(answer) => self.wires[link].answer(now, answer),
            Taken::Forward { group, ack } => {
                self.group = Some(group);
                self.listener.handle(now, datagram);
                ack.into_iter()
                    .for_each(|ack| self.wires[link].answer(now, ack));
            }
        }
    }

    /// Sends the media that is due.
    fn feed(&mut self, now: Instant, begin: Instant) {
        // SRT sends nothing before it is connected.
        if !self.is_connected {
            self.media.next_at = self.media.next_at.max(now);
            return;
        }
        while self.media.next_at <= now {
            match self.media.source {
                Source::Constant(rate) => {
                    let micros = PACKET_BYTES * 8 * 1_000 / rate;
                    self.media.next_at += Duration::from_micros(micros);
                    let number = self.caller.send(now);
                    self.media.units.push((number, number));
                }
                Source::Following {
                    most,
                    falls_at,
                    capacity,
                } => {
                    self.media.next_at += PICTURE_INTERVAL;
                    let rate = self.bond.target(now);
                    let target = rate
                        .map_or(most, |rate| rate.bits_per_second() / 1_000)
                        .clamp(LEAST_RATE, most);
                    if now >= begin + Duration::from_millis(falls_at + 2_000) {
                        let excess = target as f64 / capacity as f64;
                        self.target_excess = self.target_excess.max(excess);
                    }
                    let is_key = self.media.units.len() % KEY_INTERVAL == KEY_INTERVAL - 1;
                    let bytes = target * 1_000 / 8 / 25;
                    self.media.rest += if is_key { KEY_RATIO * bytes } else { bytes };
                    let count = (self.media.rest / PACKET_BYTES).max(1);
                    self.media.rest = self.media.rest.saturating_sub(count * PACKET_BYTES);
                    let numbers: Vec<u32> = (0..count).map(|_| self.caller.send(now)).collect();
                    self.media
                        .units
                        .push((numbers[0], numbers[numbers.len() - 1]));
                }
            }
        }
    }

    fn outcome(self) -> Outcome {
        let last = self.media.units.last().map_or(FIRST, |unit| unit.1);
        // The last packets are missing, too, if no later one was played.
        let missing: BTreeSet<u32> = self
            .listener
            .missing
            .iter()
            .copied()
            .chain(self.listener.next()..=last)
            .collect();
        let missing_units = self
            .media
            .units
            .iter()
            .filter(|&&(first, last)| missing.range(first..=last).next().is_some())
            .count() as u64;
        Outcome {
            runs: 1,
            units: self.media.units.len() as u64,
            missing_units,
            packets: u64::from(last - FIRST + 1),
            copies: self.copies,
            flawed: u64::from(missing_units > 0),
            target_excess: self.target_excess,
        }
    }
}
