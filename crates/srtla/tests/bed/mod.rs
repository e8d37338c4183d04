//! Links of constant delay on which a test may change every datagram.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

use anabranch_srtla::{
    GroupId, LinkId, LinkOptions, LinkState, Receiver as Relay, Sender, SenderEvent, Taken,
};
use anabranch_units::{Duration, Instant};

use super::judge::libsrt::{Caller, Receiver, word};

const STEP: Duration = Duration::from_millis(1);
/// Number of steps between pairs of packets: 4.2 Mbit/s.
const PACKET_STEPS: u64 = 5;
const PACKETS_AT_ONCE: u64 = 2;
const LATENCY: Duration = Duration::from_secs(1);
const FIRST: u32 = 700;

/// Direction of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    There,
    Back,
}

type Tamper = dyn FnMut(Instant, Way, usize, Vec<u8>) -> Option<Vec<u8>>;

pub struct Bed {
    pub sender: Sender,
    /// Datagrams that came to the SRT sender.
    pub answers: Vec<Vec<u8>>,
    pub events: Vec<SenderEvent>,
    now: Instant,
    delays: Vec<Duration>,
    ports: Vec<u16>,
    flying: BTreeMap<(Instant, u64), (Way, usize, Vec<u8>)>,
    next_id: u64,
    tamper: Box<Tamper>,
    copies: usize,
    /// Numbers that were sent before: their copies are marked for the tamperer.
    marks: Option<std::collections::BTreeSet<u32>>,
    relay: Option<Relay>,
    relay_count: u8,
    group: Option<GroupId>,
    caller: Caller,
    listener: Receiver,
    is_connected: bool,
}

impl Bed {
    /// Makes a sender with a link for each round trip in milliseconds.
    pub fn new(round_trips: &[u64]) -> Self {
        let mut sender = Sender::new(Instant::ZERO, &[3; 32]);
        for _ in round_trips {
            sender
                .add_link(Instant::ZERO, LinkOptions::default())
                .expect("16 links");
        }
        Bed {
            sender,
            answers: Vec::new(),
            events: Vec::new(),
            now: Instant::ZERO,
            delays: round_trips
                .iter()
                .map(|&span| Duration::from_millis(span) / 2)
                .collect(),
            ports: (1..=round_trips.len() as u16).collect(),
            flying: BTreeMap::new(),
            next_id: 0,
            tamper: Box::new(|_, _, _, datagram| Some(datagram)),
            copies: 1,
            marks: None,
            relay: Some(Relay::new(&[0; 32])),
            relay_count: 1,
            group: None,
            caller: Caller::new(FIRST),
            listener: Receiver::new(LATENCY, FIRST),
            is_connected: false,
        }
    }

    pub fn now(&self) -> Instant {
        self.now
    }

    pub fn tamper(
        &mut self,
        tamper: impl FnMut(Instant, Way, usize, Vec<u8>) -> Option<Vec<u8>> + 'static,
    ) {
        self.tamper = Box::new(tamper);
    }

    /// Marks copies of packets as SRT marks its retransmissions, so that a test can let them
    /// through.
    pub fn repeat_once(&mut self) {
        self.marks = Some(std::collections::BTreeSet::new());
    }

    /// Delivers each answer of SRT several times by every link.
    pub fn copy_answers(&mut self, copies: usize) {
        self.copies = copies;
    }

    /// Gives a link another address at the receiver.
    pub fn change_port(&mut self, link: usize) {
        self.ports[link] += 100;
    }

    pub fn stop_receiver(&mut self) {
        self.relay = None;
        self.group = None;
    }

    pub fn start_receiver(&mut self) {
        self.relay = Some(Relay::new(&[self.relay_count; 32]));
        self.relay_count += 1;
    }

    /// Returns the number of links that can be used.
    pub fn up(&self) -> usize {
        self.sender
            .links()
            .filter(|link| link.state == LinkState::Up)
            .count()
    }

    /// Returns the number of packets that were not there in time.
    pub fn missing(&self) -> usize {
        self.listener.missing.len()
    }

    /// Returns the number of the next packet to play.
    pub fn played(&self) -> u32 {
        self.listener.next()
    }

    /// Runs for a time in milliseconds without media.
    pub fn run(&mut self, millis: u64) {
        (0..millis).for_each(|_| self.step(false));
    }

    /// Runs for a time in milliseconds with media, once SRT is connected.
    pub fn stream(&mut self, millis: u64) {
        (0..millis).for_each(|_| self.step(self.is_connected));
    }

    fn step(&mut self, has_media: bool) {
        self.now += STEP;
        let step = self.now.as_micros() / 1_000;
        if !self.is_connected && step.is_multiple_of(250) {
            self.caller.out = Caller::new(FIRST).out;
        }
        if has_media && step.is_multiple_of(PACKET_STEPS) {
            (0..PACKETS_AT_ONCE).for_each(|_| _ = self.caller.send(self.now));
        }
        for datagram in core::mem::take(&mut self.caller.out) {
            self.sender.handle_srt(self.now, &datagram);
        }
        self.sender.handle_time(self.now);
        while let Some(transmit) = self.sender.poll_transmit(self.now) {
            let mut datagram = transmit.datagram;
            if let Some(marks) = &mut self.marks
                && word(&datagram, 0) >> 31 == 0
                && !marks.insert(word(&datagram, 0))
            {
                datagram[4] |= 0x04;
            }
            self.send(Way::There, usize::from(transmit.link.0), datagram);
        }
        let later = self.flying.split_off(&(self.now, u64::MAX));
        for (_, (way, link, datagram)) in core::mem::replace(&mut self.flying, later) {
            match way {
                Way::There => self.arrive(link, &datagram),
                Way::Back => self
                    .sender
                    .handle_link(self.now, LinkId(link as u8), &datagram),
            }
        }
        self.listen();
        self.take_answers();
    }

    fn send(&mut self, way: Way, link: usize, datagram: Vec<u8>) {
        if let Some(datagram) = (self.tamper)(self.now, way, link, datagram) {
            let at = self.now + self.delays[link];
            self.flying
                .insert((at, self.next_id), (way, link, datagram));
            self.next_id += 1;
        }
    }

    fn arrive(&mut self, link: usize, datagram: &[u8]) {
        let from: SocketAddr = (Ipv4Addr::LOCALHOST, self.ports[link]).into();
        let Some(relay) = &mut self.relay else {
            return;
        };
        match relay.handle_link(self.now, from, datagram) {
            Taken::Nothing => {}
            Taken::Answer(answer) => self.send(Way::Back, link, answer),
            Taken::Forward { group, ack } => {
                self.group = Some(group);
                self.listener.handle(self.now, datagram);
                ack.into_iter()
                    .for_each(|ack| self.send(Way::Back, link, ack));
            }
        }
    }

    fn listen(&mut self) {
        self.listener.handle_time(self.now);
        for answer in core::mem::take(&mut self.listener.answers) {
            let (Some(relay), Some(group)) = (&mut self.relay, self.group) else {
                continue;
            };
            for to in relay.handle_srt(self.now, group, &answer) {
                let Some(link) = self.ports.iter().position(|&port| port == to.port()) else {
                    continue;
                };
                (0..self.copies).for_each(|_| self.send(Way::Back, link, answer.clone()));
            }
        }
    }

    fn take_answers(&mut self) {
        while let Some(datagram) = self.sender.poll_srt() {
            self.is_connected = true;
            if word(&datagram, 0) >> 16 == 0x8005 {
                // Both ends begin again.
                self.caller = Caller::new(FIRST);
                self.listener = Receiver::new(LATENCY, FIRST);
                self.is_connected = false;
            }
            self.caller.handle(self.now, &datagram);
            self.answers.push(datagram);
        }
        self.events
            .extend(core::iter::from_fn(|| self.sender.poll_event()));
    }
}
