//! A caller and a listener over a network in virtual time that delays, loses, duplicates and
//! reorders.

use core::cmp::Reverse;
use core::net::SocketAddr;
use std::collections::BinaryHeap;

use anabranch_units::{Duration, Instant, Rng, Seed};

use crate::connection::Connection;
use crate::entropy::Entropy;
use crate::listener::{ConnectionId, Event, Listener};
use crate::rejection::Rejection;
use crate::settings::Settings;
use crate::{Caller, Delivered};

/// Calls without progress of time after which a test fails.
const MAX_CALLS_AT_ONCE: u32 = 10_000;

/// Effects of the network on each datagram.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Effects {
    pub(super) delay: Duration,
    /// Largest additional delay, drawn for each datagram; it reorders.
    pub(super) jitter: Duration,
    pub(super) loss: f64,
    pub(super) duplication: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Caller,
    Listener,
}

/// Datagram in the network, by arrival and number.
type InFlight = Reverse<(Instant, u64, End, Vec<u8>)>;

pub(super) struct World {
    pub(super) now: Instant,
    pub(super) caller: Caller,
    pub(super) listener: Listener,
    pub(super) effects: Effects,
    /// Settings of the listener for every caller.
    pub(super) admitted: Result<Settings, Rejection>,
    pub(super) events: Vec<Event>,
    /// Payloads and the times at which they were delivered.
    pub(super) at_listener: Vec<(Instant, Delivered)>,
    pub(super) at_caller: Vec<(Instant, Delivered)>,
    pub(super) lost: u64,
    in_flight: BinaryHeap<InFlight>,
    number: u64,
    rng: Rng,
    calls_at_once: u32,
}

pub(super) fn caller_address() -> SocketAddr {
    ([192, 0, 2, 1], 5_000).into()
}

pub(super) fn entropy(seed: u64) -> Entropy {
    let mut secret = [0; crate::SECRET_BYTES];
    secret[..8].copy_from_slice(&seed.to_be_bytes());
    Entropy::new(&secret)
}

impl World {
    pub(super) fn new(seed: u64, settings: Settings, admitted: Settings) -> Self {
        let now = Instant::from_secs(1_000);
        let listener = SocketAddr::from(([198, 51, 100, 1], 9_000));
        World {
            now,
            caller: Caller::new(now, listener, Some("studio"), settings, entropy(2 * seed)),
            listener: Listener::new(Instant::from_secs(5), entropy(2 * seed + 1)),
            effects: Effects::default(),
            admitted: Ok(admitted),
            events: Vec::new(),
            at_listener: Vec::new(),
            at_caller: Vec::new(),
            lost: 0,
            in_flight: BinaryHeap::new(),
            number: 0,
            rng: Seed(seed).rng(),
            calls_at_once: 0,
        }
    }

    /// Runs until `until`.
    pub(super) fn run(&mut self, until: Instant) {
        self.act();
        loop {
            let arrival = self.in_flight.peek().map(|Reverse((at, ..))| *at);
            let timers = [self.caller.poll_timeout(), self.listener.poll_timeout()];
            let next = timers
                .into_iter()
                .chain(arrival)
                .min()
                .unwrap_or(until)
                .max(self.now);
            if next >= until {
                self.now = self.now.max(until);
                return;
            }
            self.calls_at_once = if next > self.now {
                0
            } else {
                self.calls_at_once + 1
            };
            assert!(self.calls_at_once < MAX_CALLS_AT_ONCE, "a loop at {next}");
            self.now = next;
            self.act();
        }
    }

    pub(super) fn run_for(&mut self, span: Duration) {
        self.run(self.now + span);
    }

    /// Runs until both ends are connected.
    pub(super) fn connect(&mut self) -> ConnectionId {
        self.run_for(Duration::from_secs(2));
        let connected = self.events.iter().find_map(|event| match event {
            Event::Connected(id, _) => Some(*id),
            _ => None,
        });
        assert!(self.caller.connection().is_some(), "{:?}", self.events);
        connected.expect("the listener has connected too")
    }

    /// Returns the caller's connection.
    pub(super) fn calling(&mut self) -> &mut Connection {
        self.caller.connection().expect("connected")
    }

    fn act(&mut self) {
        let now = self.now;
        while let Some(Reverse((at, ..))) = self.in_flight.peek()
            && *at <= now
        {
            let Some(Reverse((_, _, end, datagram))) = self.in_flight.pop() else {
                break;
            };
            self.deliver(end, &datagram);
        }
        self.caller.handle_timeout(now);
        self.take_payloads();
        self.listener.handle_timeout(now);
        while let Some(event) = self.listener.poll_event() {
            self.events.push(event);
        }
        while let Some(datagram) = self.caller.poll_transmit(now) {
            self.send(End::Listener, datagram);
        }
        while let Some((to, datagram)) = self.listener.poll_transmit(now) {
            assert_eq!(to, caller_address());
            self.send(End::Caller, datagram);
        }
    }

    fn deliver(&mut self, end: End, datagram: &[u8]) {
        let now = self.now;
        match end {
            End::Caller => self.caller.handle_datagram(now, datagram),
            End::Listener => {
                let admitted = self.admitted.clone();
                self.listener
                    .handle_datagram(now, caller_address(), datagram, &mut |_| admitted.clone());
            }
        }
    }

    fn take_payloads(&mut self) {
        let now = self.now;
        for id in self.listener.connection_ids() {
            if let Some(connection) = self.listener.connection(id) {
                while let Some(delivered) = connection.poll_payload(now) {
                    self.at_listener.push((now, delivered));
                }
            }
        }
        if let Some(connection) = self.caller.connection() {
            while let Some(delivered) = connection.poll_payload(now) {
                self.at_caller.push((now, delivered));
            }
        }
    }

    fn send(&mut self, to: End, datagram: Vec<u8>) {
        if self.rng.chance(self.effects.loss) {
            self.lost += 1;
            return;
        }
        let copies = 1 + u64::from(self.rng.chance(self.effects.duplication));
        for _ in 0..copies {
            let jitter = self.effects.jitter.mul_f64(self.rng.next_f64());
            let at = self.now + self.effects.delay + jitter;
            self.number += 1;
            self.in_flight
                .push(Reverse((at, self.number, to, datagram.clone())));
        }
    }
}
