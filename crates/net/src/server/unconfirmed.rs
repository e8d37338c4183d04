//! Initiations that were answered recently, and the sessions that wait for their first datagram.
//!
//! An initiation may be a replay; the first datagram of its session proves that it was not. Each
//! initiation therefore has an entry of its own: if a peer had one place, its replayed
//! initiations could push out the live one. Memory is bounded by time and by the limiter's rate.

use std::collections::{BTreeMap, VecDeque};

use anabranch_secure::{Agreed, Mac, PublicKey, RESPONSE_BYTES, Session};
use anabranch_units::{Duration, Instant};

use super::sessions::Owner;

/// Time for which a resent initiation gets the same response: a sender resends it at most 2 s
/// later, and paths overtake each other by less. After that it is answered like a new one.
const RESEND_PERIOD: Duration = Duration::from_secs(5);
/// Time for which an unconfirmed session can be confirmed: a resend at the end of [`RESEND_PERIOD`]
/// leaves 5 s for the round trip.
const CONFIRMATION_PERIOD: Duration = Duration::from_secs(10);
/// Maximum number of entries, some 3 kB each: the limiter admits 200 handshakes a second and a
/// burst of 40, so no entry makes room before its time.
const MAX_ENTRIES: usize = 2_048;

/// Response to an initiation that was answered before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resent {
    pub(super) response: [u8; RESPONSE_BYTES],
    /// Owner of the session; `None` if it was refused.
    pub(super) accepted: Option<Owner>,
}

/// An unconfirmed session whose first datagram has arrived.
#[derive(Debug)]
pub(super) struct Confirmed {
    pub(super) owner: Owner,
    pub(super) answered_at: Instant,
    pub(super) agreed: Agreed,
}

#[derive(Debug)]
struct Entry {
    answered_at: Instant,
    peer: PublicKey,
    mark: Mac,
    response: [u8; RESPONSE_BYTES],
    accepted: Option<Accepted>,
}

#[derive(Debug)]
struct Accepted {
    owner: Owner,
    index: u32,
    /// The session; `None` once it is confirmed, or a later session of the owner is.
    agreed: Option<Agreed>,
}

/// The unconfirmed sessions.
#[derive(Debug, Default)]
pub(super) struct UnconfirmedSessions {
    /// Entries, the oldest first.
    entries: VecDeque<Entry>,
    /// Number of removed entries, which is the number of the first in `entries`.
    gone_count: u64,
    /// Number of the newest entry, by first mark.
    by_mark: BTreeMap<Mac, u64>,
    /// Entries by session index.
    by_index: BTreeMap<u32, u64>,
}

impl UnconfirmedSessions {
    /// Remembers the response to an initiation of `peer`, and the session that it agrees to.
    pub(super) fn add(
        &mut self,
        now: Instant,
        (peer, mark): (PublicKey, Mac),
        response: [u8; RESPONSE_BYTES],
        session: Option<(Owner, Agreed)>,
    ) {
        self.forget(now);
        if self.entries.len() == MAX_ENTRIES {
            self.forget_oldest();
        }
        let number = self.gone_count + self.entries.len() as u64;
        let accepted = session.map(|(owner, agreed)| Accepted {
            owner,
            index: agreed.session.local_index(),
            agreed: Some(agreed),
        });
        if let Some(accepted) = &accepted {
            self.by_index.insert(accepted.index, number);
        }
        self.by_mark.insert(mark, number);
        self.entries.push_back(Entry {
            answered_at: now,
            peer,
            mark,
            response,
            accepted,
        });
    }

    /// Returns the response to an initiation that is a resend.
    pub(super) fn resent(&self, now: Instant, mark: &Mac) -> Option<Resent> {
        let entry = self.entry(*self.by_mark.get(mark)?)?;
        let is_recent = now < entry.answered_at + RESEND_PERIOD;
        is_recent.then(|| Resent {
            response: entry.response,
            accepted: entry.accepted.as_ref().map(|accepted| accepted.owner),
        })
    }

    /// Returns whether a session index is in use.
    pub(super) fn has(&self, index: u32) -> bool {
        self.by_index.contains_key(&index)
    }

    /// Returns the unconfirmed session with this index that can be confirmed, and its owner.
    pub(super) fn get_mut(&mut self, now: Instant, index: u32) -> Option<(Owner, &mut Session)> {
        let place = self.place(*self.by_index.get(&index)?)?;
        let entry = self.entries.get_mut(place)?;
        if now >= entry.answered_at + CONFIRMATION_PERIOD {
            return None;
        }
        let accepted = entry.accepted.as_mut()?;
        let agreed = accepted.agreed.as_mut()?;
        Some((accepted.owner, &mut agreed.session))
    }

    /// Takes an unconfirmed session whose first datagram has opened. Earlier ones of its owner can
    /// then not be confirmed: a delayed datagram must not replace a later session.
    pub(super) fn confirm(&mut self, index: u32) -> Option<Confirmed> {
        let place = self.place(*self.by_index.get(&index)?)?;
        let entry = self.entries.get_mut(place)?;
        let answered_at = entry.answered_at;
        let accepted = entry.accepted.as_mut()?;
        let (owner, agreed) = (accepted.owner, accepted.agreed.take()?);
        let earlier = self.entries.iter_mut().take(place);
        let accepted = earlier.filter_map(|entry| entry.accepted.as_mut());
        for accepted in accepted.filter(|accepted| accepted.owner == owner) {
            accepted.agreed = None;
        }
        Some(Confirmed {
            owner,
            answered_at,
            agreed,
        })
    }

    /// Forgets the unconfirmed sessions and responses of peers that are no longer allowed.
    pub(super) fn set_allowed(&mut self, allowed: &[PublicKey]) {
        for entry in &mut self.entries {
            if !allowed.contains(&entry.peer) {
                self.by_mark.remove(&entry.mark);
                if let Some(accepted) = &mut entry.accepted {
                    accepted.agreed = None;
                }
            }
        }
    }

    /// Forgets entries whose time is over.
    pub(super) fn forget(&mut self, now: Instant) {
        while self
            .entries
            .front()
            .is_some_and(|entry| now >= entry.answered_at + CONFIRMATION_PERIOD)
        {
            self.forget_oldest();
        }
    }

    #[cfg(feature = "testing")]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    fn forget_oldest(&mut self) {
        let Some(entry) = self.entries.pop_front() else {
            return;
        };
        let number = self.gone_count;
        self.gone_count += 1;
        // A repeated initiation has a newer entry.
        if self.by_mark.get(&entry.mark) == Some(&number) {
            self.by_mark.remove(&entry.mark);
        }
        if let Some(accepted) = entry.accepted {
            self.by_index.remove(&accepted.index);
        }
    }

    fn entry(&self, number: u64) -> Option<&Entry> {
        self.entries.get(self.place(number)?)
    }

    fn place(&self, number: u64) -> Option<usize> {
        usize::try_from(number.checked_sub(self.gone_count)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use crate::session_parameters::{SessionKind, SessionParameters};
    use anabranch_secure::{Initiator, Reply, Responder, SecretKey};

    use super::*;

    struct Bed {
        sender: SecretKey,
        receiver_key: PublicKey,
        responder: Responder,
        unconfirmed: UnconfirmedSessions,
    }

    impl Bed {
        fn new() -> Bed {
            let (sender, receiver) = (SecretKey::generate(), SecretKey::generate());
            Bed {
                receiver_key: receiver.public_key(),
                responder: Responder::new(receiver, [sender.public_key()]),
                sender,
                unconfirmed: UnconfirmedSessions::default(),
            }
        }

        fn owner(&self) -> Owner {
            (self.sender.public_key(), SessionKind::Frames)
        }

        /// Makes a sender's session, and returns it with the mark of its initiation, which arrives
        /// at `now`.
        fn shake_hands(&mut self, now: Instant, index: u32) -> (Session, Mac) {
            let parameters = SessionParameters::of(SessionKind::Frames).to_block();
            let mut initiator = Initiator::new(&self.sender, &self.receiver_key, index, parameters);
            let request = self.responder.read_initiation(initiator.message()).unwrap();
            let answer = self.responder.accept(request, index, false, parameters);
            let mark = Responder::mark(initiator.message()).unwrap();
            let session = Some((self.owner(), answer.agreed));
            let from = (self.owner().0, mark);
            self.unconfirmed.add(now, from, answer.response, session);
            match initiator.handle_response(&answer.response).unwrap() {
                Reply::Agreed(agreed) => (agreed.session, mark),
                Reply::Refused(reason) => panic!("{reason:?}"),
            }
        }

        fn opens(&mut self, now: Instant, index: u32, datagram: &[u8]) -> bool {
            let unconfirmed = self.unconfirmed.get_mut(now, index);
            unconfirmed.is_some_and(|(_, session)| session.open(&mut datagram.to_vec()).is_ok())
        }
    }

    fn sealed(session: &mut Session) -> Vec<u8> {
        let mut datagram = Vec::new();
        session.seal_append(0, b"first", &mut datagram).unwrap();
        datagram
    }

    fn at(seconds: u64) -> Instant {
        Instant::from_secs(seconds)
    }

    #[test]
    fn replays_at_the_gates_rate_do_not_push_out_the_live_sender() {
        let mut bed = Bed::new();
        let (mut live, mark) = bed.shake_hands(at(1), 0);
        bed.shake_hands(at(1), 1);
        // As many as the limiter admits in ten seconds: a burst of 40, then 200 a second.
        for number in 0..40 + 1_999u64 {
            let now = at(1) + Duration::from_millis(5) * number.saturating_sub(40);
            let mut other = mark;
            other[..8].copy_from_slice(&number.to_be_bytes());
            let from = (bed.owner().0, other);
            let response = [0; RESPONSE_BYTES];
            bed.unconfirmed.add(now, from, response, None);
        }
        bed.shake_hands(at(10), 2);
        let now = Instant::from_millis(10_999);
        assert!(bed.opens(now, 0, &sealed(&mut live)));
        let confirmed = bed.unconfirmed.confirm(0).unwrap();
        assert_eq!(confirmed.owner, bed.owner());
        assert_eq!(confirmed.answered_at, at(1));
        assert!(!bed.opens(now, 2, &sealed(&mut live)), "of another session");
    }

    fn mark(number: u64) -> [u8; 16] {
        let mut mark = [0; 16];
        mark[..8].copy_from_slice(&number.to_be_bytes());
        mark
    }

    #[test]
    fn memory_is_bounded_in_time_and_in_number() {
        let mut bed = Bed::new();
        bed.shake_hands(at(1), 0);
        for number in 0..MAX_ENTRIES as u64 + 10 {
            let response = [0; RESPONSE_BYTES];
            let from = (bed.owner().0, mark(number));
            bed.unconfirmed.add(at(2), from, response, None);
        }
        assert_eq!(bed.unconfirmed.entries.len(), MAX_ENTRIES);
        assert!(!bed.unconfirmed.has(0), "the oldest makes room");
        assert!(bed.unconfirmed.resent(at(2), &mark(10)).is_some());
        bed.unconfirmed.forget(at(12));
        let UnconfirmedSessions {
            entries,
            by_mark,
            by_index,
            ..
        } = &bed.unconfirmed;
        assert!(entries.is_empty() && by_mark.is_empty() && by_index.is_empty());
    }

    #[test]
    fn a_resend_gets_the_same_response_for_a_while_and_makes_no_second_session() {
        let mut bed = Bed::new();
        let (mut live, mark) = bed.shake_hands(at(1), 7);
        let owner = bed.owner();
        let first = bed.unconfirmed.resent(at(2), &mark).unwrap();
        assert_eq!(first.accepted, Some(owner));
        assert!(bed.opens(at(2), 7, &sealed(&mut live)));
        assert!(bed.unconfirmed.confirm(7).is_some());
        // A copy that arrived by a slow path.
        let again = bed.unconfirmed.resent(at(3), &mark).unwrap();
        assert_eq!(again.response, first.response);
        assert!(bed.unconfirmed.confirm(7).is_none());
        assert!(!bed.opens(at(3), 7, &sealed(&mut live)));
        assert!(bed.unconfirmed.resent(at(6), &mark).is_none());
    }

    #[test]
    fn an_initiation_that_is_answered_twice_can_be_confirmed_by_either_response() {
        let mut bed = Bed::new();
        let (mut first, mark) = bed.shake_hands(at(1), 1);
        // Its response was lost for 5 s; the sender has not made another initiation.
        let (_, other) = bed.shake_hands(at(7), 2);
        let number = bed.unconfirmed.by_mark.remove(&other).unwrap();
        bed.unconfirmed.by_mark.insert(mark, number);
        bed.unconfirmed.entries[1].mark = mark;
        assert!(bed.opens(at(10), 1, &sealed(&mut first)));
        bed.unconfirmed.forget(at(11));
        assert!(bed.unconfirmed.resent(at(11), &mark).is_some());
        assert!(!bed.opens(at(11), 1, &sealed(&mut first)), "too old");
        assert!(bed.unconfirmed.has(2) && !bed.unconfirmed.has(1));
    }

    #[test]
    fn a_delayed_first_datagram_replaces_no_later_session() {
        let mut bed = Bed::new();
        let (mut first, _) = bed.shake_hands(at(1), 1);
        let (mut second, _) = bed.shake_hands(at(2), 2);
        let (mut third, _) = bed.shake_hands(at(3), 3);
        assert!(bed.opens(at(4), 2, &sealed(&mut second)));
        assert!(bed.unconfirmed.confirm(2).is_some());
        assert!(!bed.opens(at(4), 1, &sealed(&mut first)));
        assert!(bed.opens(at(4), 3, &sealed(&mut third)));
    }

    #[test]
    fn sessions_of_another_cargo_are_apart() {
        let mut bed = Bed::new();
        let (mut frames, _) = bed.shake_hands(at(1), 1);
        let (mut streams, _) = bed.shake_hands(at(2), 2);
        let of_streams = bed.unconfirmed.entries[1].accepted.as_mut().unwrap();
        of_streams.owner.1 = SessionKind::Streams;
        assert!(bed.opens(at(3), 2, &sealed(&mut streams)));
        let confirmed = bed.unconfirmed.confirm(2).unwrap();
        assert_eq!(confirmed.owner.1, SessionKind::Streams);
        assert!(bed.opens(at(3), 1, &sealed(&mut frames)));
    }

    #[test]
    fn a_peer_that_is_no_longer_allowed_is_answered_no_more_and_confirms_nothing() {
        let mut bed = Bed::new();
        let (mut session, mark) = bed.shake_hands(at(1), 1);
        let sender = bed.sender.public_key();
        bed.unconfirmed.set_allowed(&[sender]);
        assert!(bed.opens(at(1), 1, &sealed(&mut session)));
        assert!(bed.unconfirmed.resent(at(1), &mark).is_some());
        bed.unconfirmed.set_allowed(&[]);
        assert!(bed.unconfirmed.resent(at(1), &mark).is_none());
        assert!(!bed.opens(at(1), 1, &sealed(&mut session)));
    }
}
