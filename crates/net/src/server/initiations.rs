//! Initiations and their answers.

use anabranch_secure::{HandshakeError, Mac, PublicKey, Refusal, Responder};
use anabranch_units::{Ecn, Instant};

use super::ServerRole;
use super::sessions::Owner;
use super::unconfirmed::Resent;
use crate::carrier::Carrier;
use crate::handshake_limiter::Verdict;
use crate::port::Port;
use crate::random;
use crate::session_parameters::{SessionKind, SessionParameters};
use crate::socket::{Arrival, Batch};

impl ServerRole {
    /// Answers an initiation. Cheap checks come first: the first mark, then a resend, then the room
    /// for a handshake.
    pub(super) fn handle_initiation(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        datagram: &[u8],
        ports: &[Port],
    ) {
        let is_accepted = match self.responder.screen(datagram) {
            Ok(()) => self.answer_initiation(now, arrival, datagram, ports),
            Err(error) => {
                self.send_version_notice(now, error, arrival, datagram, ports);
                false
            }
        };
        self.edge.refused_handshakes += u64::from(!is_accepted);
    }

    /// Answers an initiation that bears the first mark. Returns whether it is accepted.
    fn answer_initiation(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        datagram: &[u8],
        ports: &[Port],
    ) -> bool {
        if self.limiter.is_rotation_due(now) {
            self.responder.rotate_cookies();
        }
        let source = arrival.from;
        let Some(mark) = Responder::mark(datagram) else {
            return false;
        };
        if let Some(resent) = self.unconfirmed.resent(now, &mark) {
            return self.resend(now, &resent, arrival, ports);
        }
        let responder = &self.responder;
        // A connection's address is proven by its own handshake.
        let has_session = !self.sessions.is_empty();
        match self.limiter.judge(now, source.ip(), has_session, || {
            arrival.carrier == Carrier::Tcp || responder.proves_address(source, datagram)
        }) {
            Verdict::Admit => self.shake_hands(now, mark, arrival, datagram, ports),
            Verdict::AskForProof => {
                if let Some(reply) = self.responder.cookie_reply(source, datagram) {
                    answer_to(arrival, &reply, ports);
                }
                false
            }
            Verdict::Refuse => false,
        }
    }

    fn resend(&mut self, now: Instant, resent: &Resent, arrival: &Arrival, ports: &[Port]) -> bool {
        // Another peer may have taken the place meanwhile.
        let is_accepted = resent
            .accepted
            .is_some_and(|owner| self.may_enter(now, owner));
        let is_still_true = is_accepted == resent.accepted.is_some();
        if is_still_true && self.limiter.may_answer(now) {
            answer_to(arrival, &resent.response, ports);
        }
        is_accepted
    }

    /// Performs a handshake's public-key work. Returns whether the session is accepted.
    fn shake_hands(
        &mut self,
        now: Instant,
        mark: Mac,
        arrival: &Arrival,
        datagram: &[u8],
        ports: &[Port],
    ) -> bool {
        self.pairing.expire(&mut self.responder, now);
        let request = match self.responder.read_initiation(datagram) {
            Ok(request) => request,
            Err(error) => {
                self.refused_senders.add(arrival.from, error);
                return false;
            }
        };
        let peer = request.peer();
        if let Some(code) = request.code().cloned() {
            self.pairing.pair(&mut self.responder, peer, code);
        }
        let requested = SessionParameters::from_block(request.parameters());
        let owner = self.place_for(now, peer, requested);
        let (response, session) = match owner {
            Ok(owner) => {
                let parameters = SessionParameters::of(owner.1)
                    .with_latency(requested.and_then(|requested| requested.latency))
                    .agreed(self.latency)
                    .with_flags_of(requested);
                let index = self.new_session_index();
                let mut held = self.sessions.iter().map(|(_, held)| held.owner());
                let had_session = held.any(|held| held == owner);
                let answer =
                    self.responder
                        .accept(request, index, had_session, parameters.to_block());
                (answer.response, Some((owner, answer.agreed)))
            }
            // A sender without a place asks again, and is accepted when it is its turn.
            Err(reason) => {
                self.refused_senders.add_refused(peer, reason);
                (self.responder.refuse(request, reason), None)
            }
        };
        self.unconfirmed.add(now, (peer, mark), response, session);
        answer_to(arrival, &response, ports);
        owner.is_ok()
    }

    /// Returns the owner of the session that a peer requests, if it gets a place.
    fn place_for(
        &self,
        now: Instant,
        peer: PublicKey,
        requested: Option<SessionParameters>,
    ) -> Result<Owner, Refusal> {
        match requested.and_then(|requested| requested.kind) {
            Some(kind) if self.offers_kind(kind) => {
                let owner = (peer, kind);
                if self.may_enter(now, owner) {
                    Ok(owner)
                } else {
                    Err(Refusal::NoPlace)
                }
            }
            _ => Err(Refusal::NotCarried),
        }
    }

    fn offers_kind(&self, kind: SessionKind) -> bool {
        let mut offers = self.offers.iter();
        offers.any(|offer| offer.session_kind() == kind)
    }

    /// Notifies a program of another version of this end's protocol version.
    fn send_version_notice(
        &mut self,
        now: Instant,
        error: HandshakeError,
        arrival: &Arrival,
        datagram: &[u8],
        ports: &[Port],
    ) {
        if !matches!(error, HandshakeError::OtherVersion(_)) {
            return;
        }
        self.refused_senders.add(arrival.from, error);
        if self.limiter.may_answer(now)
            && let Some(notice) = self.responder.version_notice(datagram)
        {
            answer_to(arrival, &notice, ports);
        }
    }

    fn new_session_index(&self) -> u32 {
        loop {
            let index = random::session_index();
            if !self.sessions.has(index) && !self.unconfirmed.has(index) {
                return index;
            }
        }
    }
}

fn answer_to(arrival: &Arrival, answer: &[u8], ports: &[Port]) {
    // A lost answer is requested again.
    let _ = ports[arrival.socket].send(&Batch {
        to: arrival.from,
        from: arrival.to,
        ecn: Ecn::NotEct,
        bytes: answer,
        datagram_bytes: answer.len(),
    });
}
