//! The relay's reaction to datagrams: of receivers that register, of those that have, and of
//! senders.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use anabranch_secure::{
    Kind, PublicKey, RESET_BYTES, Responder, Session, classify, receiver_index,
};
use anabranch_units::{Bucket, DataRate, Duration, Ecn, Instant, Limiter, Limits, Rate};

use super::flows::Flows;
use super::message::{Message, write_datagram};
use super::registration::{Ends, Registration};
use super::uplink::canonical;
use super::{RelayConfig, RelaySnapshot, RelayedReceiver};
use crate::pairing::{Pairing, PairingOutcome};
use crate::port::Port;
use crate::runtime::{Next, Role};
use crate::server::{RefusedSender, RefusedSenders};
use crate::socket::{Arrival, Batch};

/// Time for which an answered receiver may confirm its session.
pub(super) const CONFIRMATION_PERIOD: Duration = Duration::from_secs(10);
/// Interval between two looks for idle flows and receivers.
const PRUNE_INTERVAL: Duration = Duration::from_secs(1);
/// Period of the cookies' secrets (WireGuard has the same).
const COOKIE_ROTATION: Duration = Duration::from_secs(120);
/// Initiations of addresses without a flow that are looked at: 256 marks take 0.2 ms at most.
const LOOKS: Rate = Rate {
    burst: 500,
    interval: Duration::from_millis(1),
};
/// Handshakes of receivers that have proven their address (chosen).
const HANDSHAKES: Limits = Limits {
    total: Rate {
        burst: 20,
        interval: Duration::from_millis(20),
    },
    host: Rate {
        burst: 3,
        interval: Duration::from_millis(500),
    },
};
/// Resets of receivers' sessions that the relay does not know.
const RESETS: Limits = Limits {
    total: Rate {
        burst: 64,
        interval: Duration::from_millis(5),
    },
    host: Rate {
        burst: 2,
        interval: Duration::from_millis(50),
    },
};

/// A session that its receiver has not confirmed yet.
#[derive(Debug)]
pub(super) struct UnconfirmedSession {
    pub(super) receiver: PublicKey,
    pub(super) session: Session,
    pub(super) answered_at: Instant,
}

#[derive(Debug)]
pub(crate) struct RelayRole {
    pub(super) responder: Responder,
    pub(super) pairing: Pairing,
    pub(super) allowed: Vec<PublicKey>,
    pub(super) refused_senders: RefusedSenders,
    rate: DataRate,
    pub(super) registrations: BTreeMap<PublicKey, Registration>,
    /// Receivers by the indices of their sessions.
    pub(super) by_index: BTreeMap<u32, PublicKey>,
    pub(super) unconfirmed: VecDeque<UnconfirmedSession>,
    flows: Flows,
    looks: Bucket,
    pub(super) handshakes: Limiter,
    resets: Limiter,
    prune_at: Instant,
    rotate_at: Instant,
    unknown_count: u64,
    is_closing: bool,
    /// Room for the plaintext and the datagram around it.
    plaintext: Vec<u8>,
    sealed: Vec<u8>,
}

impl RelayRole {
    pub(super) fn new(now: Instant, config: RelayConfig) -> Self {
        RelayRole {
            responder: Responder::new(config.local_key, config.allowed.iter().copied()),
            pairing: Pairing::default(),
            allowed: config.allowed,
            refused_senders: RefusedSenders::default(),
            rate: config.rate,
            registrations: BTreeMap::new(),
            by_index: BTreeMap::new(),
            unconfirmed: VecDeque::new(),
            flows: Flows::new(),
            looks: Bucket::default(),
            handshakes: Limiter::new(HANDSHAKES),
            resets: Limiter::new(RESETS),
            prune_at: now,
            rotate_at: now + COOKIE_ROTATION,
            unknown_count: 0,
            is_closing: false,
            plaintext: Vec::new(),
            sealed: Vec::new(),
        }
    }

    pub(super) fn pairing(&mut self) -> (&mut Pairing, &mut Responder) {
        (&mut self.pairing, &mut self.responder)
    }

    pub(super) fn take_pairing_outcomes(&mut self, now: Instant) -> Vec<PairingOutcome> {
        self.pairing.take_outcomes(&mut self.responder, now)
    }

    pub(super) fn take_refused(&mut self) -> Vec<RefusedSender> {
        self.refused_senders.take()
    }

    /// Sets the receivers that may register; those of others are forgotten.
    pub(super) fn set_allowed(&mut self, allowed: &[PublicKey]) {
        self.allowed = self.pairing.with_paired(allowed);
        self.responder.set_allowed(&self.allowed);
        self.refused_senders.set_allowed(&self.allowed);
        let allowed = &self.allowed;
        self.registrations.retain(|key, _| allowed.contains(key));
        self.by_index.retain(|_, key| allowed.contains(key));
        self.unconfirmed
            .retain(|unconfirmed| allowed.contains(&unconfirmed.receiver));
        self.prune_at = Instant::ZERO;
    }

    pub(super) fn close(&mut self) {
        self.is_closing = true;
    }

    pub(super) fn snapshot(&self) -> RelaySnapshot {
        RelaySnapshot {
            receivers: self
                .registrations
                .iter()
                .map(|(key, of)| RelayedReceiver {
                    key: *key,
                    address: of.ends.receiver,
                    flow_count: self.flows.count_of(key),
                    carried_bytes: of.carried_bytes,
                    dropped_count: of.dropped_count,
                })
                .collect(),
            flow_count: self.flows.len(),
            unconfirmed_count: self.unconfirmed.len(),
            unknown_count: self.unknown_count,
        }
    }

    fn handle_initiation(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        datagram: &[u8],
        ports: &[Port],
    ) {
        let from = canonical(arrival.from);
        // A sender asks again for the receiver that it has a flow to.
        let known = self.flows.get_mut(from).map(|flow| flow.receiver);
        if let Some(receiver) = known
            && let Some(registration) = self.registrations.get(&receiver)
            && registration.screen.check(datagram).is_ok()
        {
            return self.carry_inward(now, from, arrival, datagram, ports);
        }
        if !self.looks.take_if(now, LOOKS) {
            self.unknown_count += 1;
            return;
        }
        if self.responder.screen(datagram).is_ok() {
            return self.register(now, arrival, datagram, ports);
        }
        let mut registrations = self.registrations.iter_mut();
        let wanted =
            registrations.find(|(_, registration)| registration.screen.check(datagram).is_ok());
        let Some((&receiver, registration)) = wanted else {
            self.unknown_count += 1;
            return;
        };
        if !registration.screen.proves_address(from, datagram) {
            // Shorter than the initiation, and nothing is kept of its source.
            if let Some(reply) = registration.screen.cookie_reply(from, datagram) {
                answer(arrival, &reply, ports);
            }
        } else if self.flows.open(now, from, arrival.to, receiver, true) {
            self.carry_inward(now, from, arrival, datagram, ports);
        }
    }

    fn handle_data(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        datagram: &mut [u8],
        ports: &[Port],
    ) {
        let from = canonical(arrival.from);
        let Some(index) = receiver_index(datagram) else {
            self.unknown_count += 1;
            return;
        };
        if self.flows.get_mut(from).is_some() {
            self.carry_inward(now, from, arrival, datagram, ports);
        } else if let Some(receiver) = self.by_index.get(&index).copied() {
            self.handle_receivers(now, receiver, arrival, datagram, ports);
        } else if self.confirms(now, index, datagram) {
            self.confirm(now, index, arrival, datagram, ports);
        } else if let Some(receiver) = self.flows.receiver_of(index) {
            // Another path of a sender, or the same one behind another address.
            if self.flows.open(now, from, arrival.to, receiver, false) {
                self.carry_inward(now, from, arrival, datagram, ports);
            }
        } else {
            self.unknown_count += 1;
            if datagram.len() > RESET_BYTES && self.resets.admit(now, from.ip()) {
                answer(arrival, &self.responder.reset(index), ports);
            }
        }
    }

    /// Takes a datagram of a registered receiver.
    fn handle_receivers(
        &mut self,
        now: Instant,
        receiver: PublicKey,
        arrival: &Arrival,
        datagram: &mut [u8],
        ports: &[Port],
    ) {
        let Some(registration) = self.registrations.get_mut(&receiver) else {
            return;
        };
        let Ok(opened) = registration.session.open(datagram) else {
            self.unknown_count += 1;
            return;
        };
        let plaintext: &[u8] = opened.plaintext;
        let ends = ends_of(arrival);
        let challenge = registration.hear(now, ends);
        if let Some(number) = challenge {
            self.tell(
                receiver,
                ends,
                &Message::Challenge(number),
                ports,
                arrival.socket,
            );
        }
        if let Some(message) = Message::read(plaintext) {
            self.handle_message(now, receiver, ends, &message, plaintext, (arrival, ports));
        }
    }

    pub(super) fn handle_message(
        &mut self,
        now: Instant,
        receiver: PublicKey,
        ends: Ends,
        message: &Message,
        plaintext: &[u8],
        (arrival, ports): (&Arrival, &[Port]),
    ) {
        match message {
            Message::Datagram {
                peer,
                is_proven,
                bytes,
            } => {
                let datagram = plaintext.get(bytes.clone()).unwrap_or_default();
                self.carry_outward(
                    now,
                    receiver,
                    (*peer, *is_proven),
                    datagram,
                    (arrival, ports),
                );
            }
            Message::Ping(number) => {
                self.tell(
                    receiver,
                    ends,
                    &Message::Pong(*number),
                    ports,
                    arrival.socket,
                );
            }
            Message::Answer(number) => {
                if let Some(registration) = self.registrations.get_mut(&receiver) {
                    registration.take_answer(ends, *number);
                }
            }
            Message::Bye => {
                if let Some(gone) = self.registrations.remove(&receiver) {
                    self.by_index.remove(&gone.session.local_index());
                    self.prune_at = now;
                }
            }
            Message::Pong(_) | Message::Challenge(_) => {}
        }
    }

    /// Sends a message to a receiver.
    fn tell(
        &mut self,
        receiver: PublicKey,
        to: Ends,
        message: &Message,
        ports: &[Port],
        socket: usize,
    ) {
        let Some(registration) = self.registrations.get_mut(&receiver) else {
            return;
        };
        self.sealed.clear();
        let bytes = message.to_bytes();
        if registration
            .session
            .seal_append(0, &bytes, &mut self.sealed)
            .is_ok()
        {
            send(ports, socket, to, Ecn::NotEct, &self.sealed);
        }
    }

    /// Carries a sender's datagram to its receiver.
    fn carry_inward(
        &mut self,
        now: Instant,
        from: SocketAddr,
        arrival: &Arrival,
        datagram: &[u8],
        ports: &[Port],
    ) {
        let index = match classify(datagram) {
            Some(Kind::Data) => receiver_index(datagram),
            _ => None,
        };
        self.flows.hear(now, from, datagram.len(), index);
        let Some(flow) = self.flows.get_mut(from) else {
            return;
        };
        let Some(registration) = self.registrations.get_mut(&flow.receiver) else {
            self.unknown_count += 1;
            return;
        };
        if !registration.may_carry(now, datagram.len(), self.rate) {
            return;
        }
        write_datagram(&mut self.plaintext, from, false, datagram);
        self.sealed.clear();
        let sealed = registration
            .session
            .seal_append(0, &self.plaintext, &mut self.sealed);
        if sealed.is_ok() {
            send(
                ports,
                arrival.socket,
                registration.ends,
                arrival.ecn,
                &self.sealed,
            );
        }
    }

    /// Carries a receiver's datagram to a sender that has called it.
    fn carry_outward(
        &mut self,
        now: Instant,
        receiver: PublicKey,
        (peer, is_proven): (SocketAddr, bool),
        datagram: &[u8],
        (arrival, ports): (&Arrival, &[Port]),
    ) {
        let Some(registration) = self.registrations.get_mut(&receiver) else {
            return;
        };
        let flow = self.flows.get_mut(peer);
        let Some(flow) = flow.filter(|flow| flow.receiver == receiver) else {
            registration.dropped_count += 1;
            return;
        };
        if datagram.is_empty() || !flow.may_send(datagram.len(), is_proven) {
            registration.dropped_count += 1;
            return;
        }
        if registration.may_carry(now, datagram.len(), self.rate) {
            let to = Ends {
                receiver: peer,
                local: flow.local,
            };
            send(ports, arrival.socket, to, arrival.ecn, datagram);
        }
    }

    fn prune(&mut self, now: Instant) {
        self.prune_at = now + PRUNE_INTERVAL;
        let is_old =
            |unconfirmed: &UnconfirmedSession| now >= unconfirmed.answered_at + CONFIRMATION_PERIOD;
        self.unconfirmed.retain(|unconfirmed| !is_old(unconfirmed));
        self.registrations
            .retain(|_, registration| !registration.is_over(now));
        let registrations = &self.registrations;
        self.by_index
            .retain(|_, receiver| registrations.contains_key(receiver));
        self.flows
            .prune(now, |receiver| registrations.contains_key(receiver));
        if now >= self.rotate_at {
            self.rotate_at = now + COOKIE_ROTATION;
            self.responder.rotate_cookies();
            for registration in self.registrations.values_mut() {
                registration.screen.rotate_cookies();
            }
        }
    }
}

impl Role for RelayRole {
    fn handle_datagram(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        datagram: &mut [u8],
        ports: &[Port],
    ) {
        match classify(datagram) {
            _ if self.is_closing => {}
            Some(Kind::Initiation) => self.handle_initiation(now, arrival, datagram, ports),
            Some(Kind::Data) => self.handle_data(now, arrival, datagram, ports),
            _ => self.unknown_count += 1,
        }
    }

    fn advance(&mut self, now: Instant, ports: &[Port]) -> Next {
        if self.is_closing {
            let all: Vec<(PublicKey, Ends)> = self
                .registrations
                .iter()
                .map(|(receiver, registration)| (*receiver, registration.ends))
                .collect();
            for (receiver, ends) in all {
                self.tell(receiver, ends, &Message::Bye, ports, 0);
            }
            return Next::Over;
        }
        if now >= self.prune_at {
            self.prune(now);
        }
        Next::Wait(Some(self.prune_at))
    }
}

pub(super) fn ends_of(arrival: &Arrival) -> Ends {
    Ends {
        receiver: canonical(arrival.from),
        local: arrival.to,
    }
}

fn send(ports: &[Port], socket: usize, to: Ends, ecn: Ecn, bytes: &[u8]) {
    // A datagram that is too long for a link is lost, as on any path.
    let _ = ports[socket].send(&Batch {
        to: to.receiver,
        from: to.local,
        ecn,
        bytes,
        datagram_bytes: bytes.len(),
    });
}

pub(super) fn answer(arrival: &Arrival, bytes: &[u8], ports: &[Port]) {
    let to = Ends {
        receiver: arrival.from,
        local: arrival.to,
    };
    send(ports, arrival.socket, to, Ecn::NotEct, bytes);
}
