//! Receivers that register: their handshakes, and the sessions that wait for a first datagram.

use anabranch_secure::{Refusal, Screen};
use anabranch_units::Instant;

use super::message::Message;
use super::registration::Registration;
use super::role::{CONFIRMATION_PERIOD, RelayRole, UnconfirmedSession, answer, ends_of};
use super::uplink::canonical;
use crate::port::Port;
use crate::random;
use crate::session_parameters::SessionParameters;
use crate::socket::Arrival;

/// Maximum number of receivers at a time, of some 15 kB each. An initiation of a stranger is
/// compared with all of them.
const MAX_RECEIVERS: usize = 256;
/// Maximum number of such sessions.
const MAX_UNCONFIRMED: usize = 256;

impl RelayRole {
    /// Answers a receiver that wants to register.
    pub(super) fn register(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        datagram: &[u8],
        ports: &[Port],
    ) {
        let from = canonical(arrival.from);
        if !self.responder.proves_address(from, datagram) {
            if let Some(reply) = self.responder.cookie_reply(from, datagram) {
                answer(arrival, &reply, ports);
            }
            return;
        }
        if !self.handshakes.admit(now, from.ip()) {
            return;
        }
        self.pairing.expire(&mut self.responder, now);
        let request = match self.responder.read_initiation(datagram) {
            Ok(request) => request,
            Err(error) => return self.refused_senders.add(arrival.from, error),
        };
        let receiver = request.peer();
        if let Some(code) = request.code().cloned() {
            self.pairing.pair(&mut self.responder, receiver, code);
            self.allowed.push(receiver);
        }
        let parameters = SessionParameters::from_block(request.parameters());
        let is_its_kind = parameters.is_some_and(|parameters| parameters.is_registration);
        let had_session = self.registrations.contains_key(&receiver);
        let has_room = had_session || self.registrations.len() < MAX_RECEIVERS;
        let refusal = match (is_its_kind, has_room) {
            (true, true) => None,
            (false, _) => Some(Refusal::NotCarried),
            (true, false) => Some(Refusal::NoPlace),
        };
        if let Some(reason) = refusal {
            self.refused_senders.add_refused(receiver, reason);
            answer(arrival, &self.responder.refuse(request, reason), ports);
            return;
        }
        let index = self.new_index();
        let block = SessionParameters::of_registration().to_block();
        let accepted = self.responder.accept(request, index, had_session, block);
        if self.unconfirmed.len() == MAX_UNCONFIRMED {
            self.unconfirmed.pop_front();
        }
        self.unconfirmed.push_back(UnconfirmedSession {
            receiver,
            session: accepted.agreed.session,
            answered_at: now,
        });
        answer(arrival, &accepted.response, ports);
    }

    fn new_index(&self) -> u32 {
        loop {
            let index = random::session_index();
            let mut unconfirmed = self.unconfirmed.iter();
            let is_taken =
                unconfirmed.any(|unconfirmed| unconfirmed.session.local_index() == index);
            if !is_taken && !self.by_index.contains_key(&index) {
                return index;
            }
        }
    }

    /// Returns whether a datagram is addressed to a session that waits for its first one.
    pub(super) fn confirms(&self, now: Instant, index: u32, datagram: &[u8]) -> bool {
        let mut unconfirmed = self.unconfirmed.iter();
        !datagram.is_empty()
            && unconfirmed.any(|unconfirmed| {
                unconfirmed.session.local_index() == index
                    && now < unconfirmed.answered_at + CONFIRMATION_PERIOD
            })
    }

    /// Opens the first datagram of a receiver's session. If it opens, the receiver is registered.
    pub(super) fn confirm(
        &mut self,
        now: Instant,
        index: u32,
        arrival: &Arrival,
        datagram: &mut [u8],
        ports: &[Port],
    ) {
        let mut unconfirmed = self.unconfirmed.iter_mut();
        let at = unconfirmed.position(|unconfirmed| unconfirmed.session.local_index() == index);
        let Some(at) = at else { return };
        let session = &mut self.unconfirmed[at].session;
        let Ok(opened) = session.open(datagram) else {
            return;
        };
        let message = Message::read(opened.plaintext);
        let Some(UnconfirmedSession {
            receiver, session, ..
        }) = self.unconfirmed.remove(at)
        else {
            return;
        };
        // Earlier ones of the same receiver can no longer be confirmed.
        self.unconfirmed.retain(|other| other.receiver != receiver);
        let ends = ends_of(arrival);
        let before = self.registrations.remove(&receiver);
        let screen = match before {
            Some(before) => {
                self.by_index.remove(&before.session.local_index());
                // Cookies that senders hold stay good.
                before.screen
            }
            None => Screen::new(&receiver),
        };
        self.by_index.insert(index, receiver);
        let registration = Registration::new(now, session, ends, screen);
        self.registrations.insert(receiver, registration);
        if let Some(message) = message {
            self.handle_message(now, receiver, ends, &message, &[], (arrival, ports));
        }
    }
}
