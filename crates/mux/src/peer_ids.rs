//! The streams that the peer has opened, though messages overtake one another.

use std::collections::BTreeSet;

/// Number of streams that the peer may open beyond one whose first message has not arrived.
const MAX_UNSEEN: usize = 1 << 14;

/// Ids of the peer's streams: every other number, used in order.
#[derive(Debug)]
pub(crate) struct PeerIds {
    /// The first id that the peer is not known to have used.
    next: u64,
    /// Streams below that have not been seen.
    unseen: BTreeSet<u64>,
}

/// State of a stream that the peer may have opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerStream {
    /// This is its first message.
    New,
    /// The stream exists, or did.
    Before,
    /// The stream is too far ahead of others.
    TooFar,
}

impl PeerIds {
    pub(crate) fn starting_at(next: u64) -> Self {
        PeerIds {
            next,
            unseen: BTreeSet::new(),
        }
    }

    /// Records a message of stream `id`, which is one of the peer's.
    pub(crate) fn see(&mut self, id: u64) -> PeerStream {
        if id < self.next {
            return if self.unseen.remove(&id) {
                PeerStream::New
            } else {
                PeerStream::Before
            };
        }
        let skipped = ((id - self.next) / 2) as usize;
        if self.unseen.len().saturating_add(skipped) > MAX_UNSEEN {
            return PeerStream::TooFar;
        }
        self.unseen.extend((self.next..id).step_by(2));
        self.next = id + 2;
        PeerStream::New
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_new_once_in_any_order() {
        let mut ids = PeerIds::starting_at(1);
        for id in [1, 7, 3, 5, 11] {
            assert_eq!(ids.see(id), PeerStream::New, "{id}");
            assert_eq!(ids.see(id), PeerStream::Before, "{id}");
        }
        assert_eq!(ids.unseen, BTreeSet::from([9]));
    }

    #[test]
    fn those_that_are_not_seen_are_bounded() {
        let mut ids = PeerIds::starting_at(0);
        let most = 2 * MAX_UNSEEN as u64;
        assert_eq!(ids.see(most + 2), PeerStream::TooFar);
        assert_eq!(ids.see((1 << 62) - 2), PeerStream::TooFar);
        assert_eq!(ids.see(most), PeerStream::New);
        assert_eq!(ids.see(most + 4), PeerStream::TooFar);
        assert_eq!(ids.see(most + 2), PeerStream::New);
    }
}
