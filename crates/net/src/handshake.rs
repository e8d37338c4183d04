//! A sender's way to a session: the first, or a replacement of a silent one.
//!
//! After a second without answers a sender requests a new session, on all paths and as long as it
//! takes, and continues with the old one: the first to answer is used. A receiver that was
//! restarted notifies the sender that it does not know the old session, and then the new one is
//! requested at once.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use anabranch_secure::{Agreed, Cookie, HandshakeError, Initiator, Refusal, Reply};
use anabranch_units::{Duration, Ecn, Instant};

use crate::event::Refused;
use crate::port::Port;
use crate::socket::Batch;

/// Silence after which another session is requested. Chosen.
pub(crate) const RECONNECT_AFTER: Duration = Duration::from_secs(1);
/// Silence after which a receiver's notice that it does not know a session is trusted: a session
/// that answers exists. Chosen.
const TRUST_RESET_AFTER: Duration = Duration::from_millis(200);
/// An unanswered initiation is sent again after this time, then after twice as long, …
const FIRST_RETRY: Duration = Duration::from_millis(250);
/// … and at last at this interval.
const LAST_RETRY: Duration = Duration::from_secs(2);
/// Least time between two initiations, for any number of resets and cookies.
const SHORTEST_RETRY: Duration = Duration::from_millis(50);

pub(crate) struct Handshake {
    initiator: Initiator,
    /// Cookies from a receiver under load, by the path they belong to.
    cookies: BTreeMap<usize, Cookie>,
    pub(crate) started_at: Instant,
    /// Time at which an initiation was first due while a path had an address.
    asked_at: Option<Instant>,
    answered_at: Option<Instant>,
    /// Time at which an initiation first left this machine.
    pub(crate) first_sent_at: Option<Instant>,
    last_sent_at: Option<Instant>,
    retry_at: Instant,
    retry_after: Duration,
    /// Time for which a new session waits for the old one to speak.
    grace: Duration,
    /// The agreed session, and the time of the agreement.
    agreed: Option<(Agreed, Instant)>,
    /// Whether the receiver has proven that it does not know the session before.
    is_old_forgotten: bool,
    /// The last reason that the receiver gave for refusing a session.
    refused: Option<Refused>,
}

impl Handshake {
    pub(crate) fn new(now: Instant, initiator: Initiator, grace: Duration) -> Self {
        Handshake {
            initiator,
            cookies: BTreeMap::new(),
            started_at: now,
            asked_at: None,
            answered_at: None,
            first_sent_at: None,
            last_sent_at: None,
            retry_at: now,
            retry_after: FIRST_RETRY,
            grace,
            agreed: None,
            is_old_forgotten: false,
            refused: None,
        }
    }

    /// Returns whether a reset may be trusted of a session that was last heard at `heard_at`.
    pub(crate) fn may_trust_reset(now: Instant, heard_at: Instant) -> bool {
        now.saturating_since(heard_at) >= TRUST_RESET_AFTER
    }

    /// Records that the receiver has proven not to know the session before.
    pub(crate) fn on_reset(&mut self) {
        self.is_old_forgotten = true;
        self.retry_soon();
    }

    /// Sends the initiation again as soon as the back-off allows: an eighth of the present interval
    /// after the last one.
    fn retry_soon(&mut self) {
        let least = (self.retry_after / 8).max(SHORTEST_RETRY);
        let soonest = self.last_sent_at.map(|at| at + least);
        self.retry_at = self.retry_at.min(soonest.unwrap_or(Instant::ZERO));
    }

    /// Takes the receiver's answer. Returns the reason if it refuses a session: only another
    /// initiation can ask again, with [`request_again`](Self::request_again).
    ///
    /// # Errors
    /// Reason to drop the datagram.
    pub(crate) fn handle_response(
        &mut self,
        now: Instant,
        datagram: &[u8],
    ) -> Result<Option<Refusal>, HandshakeError> {
        // Every working path brings an answer, and the first was taken.
        if self.agreed.is_some() {
            return Ok(None);
        }
        match self.initiator.handle_response(datagram) {
            Ok(Reply::Agreed(agreed)) => {
                self.agreed = Some((*agreed, now));
                Ok(None)
            }
            Ok(Reply::Refused(reason)) => Ok(Some(reason)),
            // Every path of a refusal ends here, too.
            Err(HandshakeError::WrongSession) if self.refused.is_some() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sends another initiation, when the next one is due.
    pub(crate) fn request_again(&mut self, initiator: Initiator) {
        self.initiator = initiator;
    }

    /// Takes the notice of a receiver that speaks another protocol version.
    ///
    /// # Errors
    /// Reason to drop the datagram.
    pub(crate) fn handle_version_notice(&self, datagram: &[u8]) -> Result<u8, HandshakeError> {
        self.initiator.handle_version_notice(datagram)
    }

    /// Records the receiver's reason for refusing a session. Returns whether it is new.
    pub(crate) fn record_refused(&mut self, refused: Refused) -> bool {
        self.refused.replace(refused) != Some(refused)
    }

    /// Returns the last reason that the receiver gave for refusing a session.
    pub(crate) fn refused(&self) -> Option<Refused> {
        self.refused
    }

    /// Takes a cookie for the address of path `port`. The first one makes the initiation leave
    /// again at once; one that replaces it does so with a back-off.
    ///
    /// # Errors
    /// Why the datagram is dropped.
    pub(crate) fn handle_cookie_reply(
        &mut self,
        now: Instant,
        port: usize,
        datagram: &[u8],
    ) -> Result<(), HandshakeError> {
        let cookie = self.initiator.handle_cookie_reply(datagram)?;
        // One answer for each cookie, as a receiver under load would otherwise be asked without
        // end.
        match self.cookies.insert(port, cookie.clone()) {
            None => self.retry_at = now,
            Some(before) if before != cookie => self.retry_soon(),
            Some(_) => {}
        }
        Ok(())
    }

    /// Returns the start of the wait for an answer, if there is an address to ask.
    pub(crate) fn unanswered_since(&self) -> Option<Instant> {
        self.asked_at.max(self.answered_at)
    }

    /// Returns the time at which the receiver last answered, with a session or without.
    pub(crate) fn answered_at(&self) -> Option<Instant> {
        self.answered_at
    }

    /// Records that the receiver has answered, with a session or without.
    pub(crate) fn on_answer(&mut self, now: Instant) {
        self.answered_at = Some(now);
    }

    /// Sends the initiation again at once, as there is another way to the receiver.
    pub(crate) fn on_new_path(&mut self, now: Instant) {
        self.retry_at = self.retry_at.min(now);
    }

    /// Takes the new session, once it is to be used. `has_old` says whether there is an old one
    /// that may still speak.
    pub(crate) fn take_session(&mut self, now: Instant, has_old: bool) -> Option<Agreed> {
        let may_speak = has_old && !self.is_old_forgotten;
        let grace = self.grace;
        let (agreed, _) = self
            .agreed
            .take_if(|(_, at)| !may_speak || now >= *at + grace)?;
        Some(agreed)
    }

    /// Returns whether a session is agreed on, though it is not used yet.
    pub(crate) fn has_agreed(&self) -> bool {
        self.agreed.is_some()
    }

    /// Makes the initiation due now, as there is an address that has not been asked.
    pub(crate) fn on_new_address(&mut self, now: Instant) {
        self.retry_at = self.retry_at.min(now);
        self.retry_after = FIRST_RETRY;
    }

    /// Sends the initiation on all paths that have an address, when it is due. Returns whether it
    /// was.
    pub(crate) fn advance(
        &mut self,
        now: Instant,
        targets: &[Option<SocketAddr>],
        ports: &[Port],
    ) -> bool {
        if self.agreed.is_some() || now < self.retry_at {
            return false;
        }
        for (index, (port, target)) in ports.iter().zip(targets).enumerate() {
            let Some(target) = *target else { continue };
            self.asked_at.get_or_insert(now);
            let cookie = self.cookies.get(&index);
            let proven = cookie.map(|cookie| self.initiator.message_with(cookie));
            let message = proven.as_deref().unwrap_or(self.initiator.message());
            let sent = port.send(&Batch {
                to: target,
                from: None,
                ecn: Ecn::NotEct,
                bytes: message,
                datagram_bytes: message.len(),
            });
            // A failed path does not keep the others from trying.
            if sent.is_ok() {
                self.first_sent_at.get_or_insert(now);
            }
        }
        self.last_sent_at = Some(now);
        self.retry_at = now + self.retry_after;
        self.retry_after = (self.retry_after * 2).min(LAST_RETRY);
        true
    }

    /// Returns the time of the next action.
    pub(crate) fn next_at(&self) -> Instant {
        match &self.agreed {
            Some((_, at)) => *at + self.grace,
            None => self.retry_at,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::session_parameters::{SessionKind, SessionParameters};
    use anabranch_secure::SecretKey;

    use super::*;

    #[test]
    fn resets_ask_for_initiations_with_a_back_off() {
        let (local, peer) = (SecretKey::generate(), SecretKey::generate().public_key());
        let initiator = Initiator::new(
            &local,
            &peer,
            1,
            SessionParameters::of(SessionKind::Frames).to_block(),
        );
        let mut handshake = Handshake::new(Instant::ZERO, initiator, Duration::ZERO);
        let mut sent_at = Vec::new();
        for millis in 0..10_000 {
            let now = Instant::from_millis(millis);
            handshake.on_reset();
            handshake.advance(now, &[], &[]);
            if handshake.last_sent_at == Some(now) {
                sent_at.push(millis);
            }
        }
        assert_eq!(sent_at[..4], [0, 63, 188, 438]);
        assert!(sent_at.len() <= 45, "{}", sent_at.len());
    }
}
