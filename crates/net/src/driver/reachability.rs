//! Challenges of addresses, and their answers, as datagrams.
//!
//! ```text
//! byte 0     0x42 challenge, 0x43 answer, 0x44 question, 0x45 echo
//! bytes 1–8  token
//! then       in a challenge, padding
//! ```
//!
//! A challenge is as long as the last datagram of the transport on its path: a bystander that is
//! taken for the peer cannot pass on the challenges alone (RFC 9000 §8.2.1).
//!
//! They are sealed as all datagrams of the path are, and stay below the transport. The transport's
//! challenges test whether a path delivers packets; these find the address of the path's other end.
//!
//! A question asks whether a carrier works that the path does not use, and is echoed by the same
//! carrier. It is as long as its echo and moves no route.

use anabranch_core::{PADDING_BYTE, PathId};
use anabranch_secure::{HEADER_BYTES, TAG_BYTES};
use anabranch_units::{Duration, Ecn, Instant};

use super::{Authentic, Driver};
use crate::carrier::Carrier;
use crate::load::Load;
use crate::port::Port;
use crate::random;
use crate::route::{Address, Challenge, Heard, Route, Token};
use crate::socket::{Arrival, Batch};

const CHALLENGE: u8 = 0x42;
const ANSWER: u8 = 0x43;
const QUESTION: u8 = 0x44;
const ECHO: u8 = 0x45;
const TOKEN_AT: usize = 1;
const MESSAGE_BYTES: usize = TOKEN_AT + size_of::<Token>();
/// Maximum number of pending answers to challenges; a peer has no use for more at once.
const MAX_ANSWERS: usize = 8;
/// Least time between openings of copies while all addresses are proven: they cost as much as
/// datagrams.
const COPY_INTERVAL: Duration = Duration::from_millis(100);

/// Content of such a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    Challenge(Token),
    Answer(Token),
    Question(Token),
    Echo(Token),
}

/// Returns whether a plaintext is a question about a carrier.
pub(super) fn is_question(plaintext: &[u8]) -> bool {
    matches!(Message::read(plaintext), Some(Message::Question(_)))
}

impl Message {
    fn read(plaintext: &[u8]) -> Option<Message> {
        let (message, padding) = plaintext.split_first_chunk::<MESSAGE_BYTES>()?;
        let token = Token::from_be_bytes(*message.last_chunk()?);
        match (message[0], padding) {
            (CHALLENGE, _) => Some(Message::Challenge(token)),
            (ANSWER, []) => Some(Message::Answer(token)),
            (QUESTION, []) => Some(Message::Question(token)),
            (ECHO, []) => Some(Message::Echo(token)),
            _ => None,
        }
    }

    fn to_bytes(self) -> [u8; MESSAGE_BYTES] {
        let (kind, token) = match self {
            Message::Challenge(token) => (CHALLENGE, token),
            Message::Answer(token) => (ANSWER, token),
            Message::Question(token) => (QUESTION, token),
            Message::Echo(token) => (ECHO, token),
        };
        let mut bytes = [kind; MESSAGE_BYTES];
        bytes[TOKEN_AT..].copy_from_slice(&token.to_be_bytes());
        bytes
    }
}

impl<L: Load> Driver<L> {
    /// Records the source of an authentic datagram.
    pub(super) fn hear(&mut self, now: Instant, arrival: &Arrival, authentic: &Authentic<'_>) {
        let heard = Heard {
            from: Address::of(arrival),
            counter: authentic.counter,
            datagram_bytes: authentic.plaintext.len() + HEADER_BYTES + TAG_BYTES,
            is_copy: false,
        };
        match &mut self.paths[authentic.path.index()].route {
            Some(route) => route.hear(now, &heard, random::token),
            route @ None => *route = Some(Route::back(now, &heard, random::token)),
        }
    }

    /// Records the source of a copy of a datagram. It is the peer itself if somebody copies its
    /// datagrams faster than they arrive.
    pub(super) fn hear_copy(&mut self, now: Instant, arrival: &Arrival, datagram: &mut [u8]) {
        let mut routes = self.paths.iter().filter_map(|path| path.route.as_ref());
        let is_due = now >= self.copy_heard_at + COPY_INTERVAL;
        if !is_due && !routes.any(Route::is_sought) {
            return;
        }
        let datagram_bytes = datagram.len();
        let Ok(opened) = self.session.open_replayed(datagram) else {
            return;
        };
        let authentic = Authentic::from(opened);
        if is_question(authentic.plaintext) {
            return;
        }
        let path = self.paths.get_mut(authentic.path.index());
        let Some(route) = path.and_then(|path| path.route.as_mut()) else {
            return;
        };
        let heard = Heard {
            from: Address::of(arrival),
            counter: authentic.counter,
            datagram_bytes,
            is_copy: true,
        };
        // A network may duplicate datagrams, too.
        if route.is_sought() || heard.from != route.address() {
            self.copy_heard_at = now;
            route.hear(now, &heard, random::token);
            if let Some(Message::Answer(token)) = Message::read(authentic.plaintext) {
                route.take_answer(now, heard.from, token);
            }
        }
    }

    /// Takes a datagram that is about addresses; `false` if it is the transport's.
    pub(super) fn take_message(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        authentic: &Authentic<'_>,
    ) -> bool {
        let Some(message) = Message::read(authentic.plaintext) else {
            return false;
        };
        match message {
            Message::Challenge(token)
                if self.answers.len() < MAX_ANSWERS && self.answers_to(arrival, authentic.path) =>
            {
                self.answers.push((authentic.path, token));
            }
            Message::Challenge(_) => {}
            Message::Question(token) if self.echoes.len() < MAX_ANSWERS => {
                self.echoes
                    .push((authentic.path, token, Address::of(arrival)));
            }
            // The arrival of an echo is all that counts.
            Message::Question(_) | Message::Echo(_) => {}
            Message::Answer(token) => {
                let path = self.paths.get_mut(authentic.path.index());
                if let Some(route) = path.and_then(|path| path.route.as_mut()) {
                    route.take_answer(now, Address::of(arrival), token);
                }
            }
        }
        true
    }

    /// Returns whether a challenge is answered: one from the address that this end sends to. Others
    /// were passed on by a bystander. Those by a carrier that this end has left are not answered
    /// either, so that the peer leaves it, too.
    fn answers_to(&self, arrival: &Arrival, path: PathId) -> bool {
        let Some(path) = self.paths.get(path.index()) else {
            return false;
        };
        let is_by_carrier = path
            .answered_carrier
            .is_none_or(|only| only == arrival.carrier);
        // A connection's other end is the one that was called.
        let is_called = arrival.carrier == Carrier::Tcp
            || path.route.as_ref().is_some_and(|route| {
                let called = route.address().peer;
                (called.ip(), called.port()) == (arrival.from.ip(), arrival.from.port())
            });
        is_by_carrier && is_called
    }

    /// Restricts the answers to challenges by this carrier; `None`: by any.
    pub(crate) fn set_answered_carrier(&mut self, index: usize, carrier: Option<Carrier>) {
        if let Some(path) = self.paths.get_mut(index) {
            path.answered_carrier = carrier;
        }
    }

    /// Returns whether the transport has given a path up for now.
    pub(crate) fn is_out(&self, index: usize) -> bool {
        self.paths.get(index).is_some_and(|path| path.is_out)
    }

    /// Sends a question by UDP whether UDP works on a path that TCP carries.
    pub(crate) fn ask_by_udp(&mut self, index: usize, ports: &[Port]) {
        let path = PathId(index as u8);
        let route = self.paths.get(index).and_then(|path| path.route.as_ref());
        let Some(to) = route.map(Route::address) else {
            return;
        };
        if let Some(datagram) = self.sealed(path, &Message::Question(random::token()).to_bytes()) {
            let _ = ports[to.socket].send_by_udp(&batch(to, &datagram));
        }
    }

    /// Moves due routes, and sends challenges and answers.
    pub(super) fn advance_routes(&mut self, now: Instant, ports: &[Port]) {
        for index in 0..self.paths.len() {
            let path = PathId(index as u8);
            let Some(route) = &mut self.paths[index].route else {
                continue;
            };
            route.advance(now);
            for challenge in route.challenges() {
                self.send_challenge(ports, path, &challenge);
            }
        }
        while let Some((path, token)) = self.answers.pop() {
            let route = self
                .paths
                .get(path.index())
                .and_then(|path| path.route.as_ref());
            if let Some(to) = route.map(Route::address) {
                self.send_message(ports, path, to, Message::Answer(token));
            }
        }
        while let Some((path, token, to)) = self.echoes.pop() {
            self.send_message(ports, path, to, Message::Echo(token));
        }
    }

    /// Returns the time at which [`advance_routes`](Self::advance_routes) has something to do.
    pub(super) fn routes_next_at(&self) -> Option<Instant> {
        let routes = self.paths.iter().filter_map(|path| path.route.as_ref());
        routes.filter_map(Route::next_at).min()
    }

    fn send_challenge(&mut self, ports: &[Port], path: PathId, challenge: &Challenge) {
        let message = Message::Challenge(challenge.token).to_bytes();
        let length = if self.pads_challenges {
            challenge
                .max_bytes
                .min(self.paths[path.index()].sent_bytes as u64) as usize
        } else {
            0
        };
        let mut plaintext = message.to_vec();
        let padded = length.saturating_sub(HEADER_BYTES + TAG_BYTES);
        plaintext.resize(padded.max(MESSAGE_BYTES), PADDING_BYTE);
        self.send_plaintext(ports, path, challenge.to, &plaintext);
    }

    fn send_message(&mut self, ports: &[Port], path: PathId, to: Address, message: Message) {
        self.send_plaintext(ports, path, to, &message.to_bytes());
    }

    fn send_plaintext(&mut self, ports: &[Port], path: PathId, to: Address, plaintext: &[u8]) {
        let Some(datagram) = self.sealed(path, plaintext) else {
            return;
        };
        let route = self.paths[path.index()].route.as_mut();
        if !route.is_some_and(|route| route.address() != to || route.may_send(datagram.len())) {
            return;
        }
        // A lost one is sent again.
        let _ = ports[to.socket].send(&batch(to, &datagram));
    }

    pub(super) fn sealed(&mut self, path: PathId, plaintext: &[u8]) -> Option<Vec<u8>> {
        let mut datagram = Vec::with_capacity(plaintext.len() + HEADER_BYTES + TAG_BYTES);
        let sealed = self.session.seal_append(path.0, plaintext, &mut datagram);
        self.is_key_exhausted |= sealed.is_err();
        sealed.ok().map(|()| datagram)
    }
}

fn batch(to: Address, datagram: &[u8]) -> Batch<'_> {
    Batch {
        to: to.peer,
        from: to.local,
        ecn: Ecn::NotEct,
        bytes: datagram,
        datagram_bytes: datagram.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_read_back_and_nothing_else_is_one() {
        for message in [
            Message::Challenge(1 << 60 | 7),
            Message::Answer(9),
            Message::Question(8),
            Message::Echo(7),
        ] {
            let bytes = message.to_bytes();
            assert_eq!(Message::read(&bytes), Some(message));
            assert_eq!(Message::read(&bytes[..MESSAGE_BYTES - 1]), None);
            let padded = [&bytes[..], &[PADDING_BYTE; 20]].concat();
            let is_challenge = matches!(message, Message::Challenge(_));
            assert_eq!(Message::read(&padded), is_challenge.then_some(message));
            let mut other = bytes;
            other[0] = 0x40;
            assert_eq!(Message::read(&other), None, "the transport's");
        }
        assert_eq!(Message::read(&[]), None);
    }
}
