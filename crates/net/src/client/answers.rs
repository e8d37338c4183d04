//! Answers of a receiver to the initiations of a client.

use anabranch_units::Instant;

use super::{ClientRole, initiator};
use crate::event::{Event, Refused};
use crate::load::Load;
use crate::socket::Arrival;

impl<L: Load> ClientRole<L> {
    /// Takes the receiver's answer to an initiation.
    pub(super) fn handle_response(&mut self, now: Instant, arrival: &Arrival, datagram: &[u8]) {
        let Some(handshake) = &mut self.handshake else {
            return;
        };
        let is_first = !handshake.has_agreed();
        match handshake.handle_response(now, datagram) {
            Ok(None) if is_first && handshake.has_agreed() => {
                self.record_answer(now, arrival);
                let at = self.paths.address_of(arrival);
                self.answered = at.map(|address| (arrival.socket, address));
            }
            Ok(None) => {}
            Ok(Some(reason)) => {
                handshake.request_again(initiator::<L>(&self.config));
                self.record_answer(now, arrival);
                self.record_refused(Refused::ByReceiver(reason));
            }
            Err(_) => self.edge.refused_handshakes += 1,
        }
    }

    /// Records the carrier by which the receiver has answered.
    fn record_answer(&mut self, now: Instant, arrival: &Arrival) {
        if let Some(handshake) = &mut self.handshake {
            handshake.on_answer(now);
        }
        self.fallback.on_heard(now, arrival.socket, arrival.carrier);
    }

    /// Takes the notice of a receiver that speaks another version of the protocol.
    pub(super) fn handle_version_notice(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        datagram: &[u8],
    ) {
        let handshake = self.handshake.as_ref();
        match handshake.map(|handshake| handshake.handle_version_notice(datagram)) {
            Some(Ok(version)) => {
                self.record_answer(now, arrival);
                self.record_refused(Refused::OtherVersion(version));
            }
            Some(Err(_)) => self.edge.refused_handshakes += 1,
            None => {}
        }
    }

    fn record_refused(&mut self, refused: Refused) {
        if let Some(handshake) = &mut self.handshake
            && handshake.record_refused(refused)
        {
            self.events.emit(Event::Refused(refused));
        }
    }

    /// Takes a cookie, and sends the initiation again at once with it.
    pub(super) fn handle_cookie_reply(&mut self, now: Instant, arrival: &Arrival, datagram: &[u8]) {
        if let Some(handshake) = &mut self.handshake {
            let taken = handshake.handle_cookie_reply(now, arrival.socket, datagram);
            match taken {
                Ok(()) => {
                    self.record_answer(now, arrival);
                    self.paths.on_sign(arrival.socket);
                }
                Err(_) => self.edge.refused_handshakes += 1,
            }
        }
    }
}
