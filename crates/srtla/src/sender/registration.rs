//! Registration of a group: a probe by every link, a request by the first that answers, and the
//! group's name for all.

use anabranch_units::{Duration, Instant};
use ring::hmac;

use super::{LinkId, SECRET_BYTES};
use crate::wire::{ID_BYTES, Id};

/// Interval of probes, and of a link's requests to join.
pub(super) const RETRY: Duration = Duration::from_secs(1);
/// Time after which another group is requested.
const ASK_TIMEOUT: Duration = Duration::from_secs(4);
/// Wait after a refusal. Receivers free places after 10 s or more.
pub(super) const REFUSED_WAIT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) enum Group {
    /// Every link asks for a group that does not exist. The first answer shows the fastest link.
    Probing { at: Instant },
    /// A link asks for a group. The name begins with the first half of `id`.
    Asking {
        link: LinkId,
        id: Box<Id>,
        since: Instant,
        /// Time at which the same request is repeated.
        repeat_at: Instant,
    },
    /// The group exists.
    Named {
        id: Box<Id>,
        since: Instant,
        /// Whether a link has joined it.
        is_joined: bool,
    },
}

/// The group's state, and the source of names.
#[derive(Debug)]
pub(super) struct Registration {
    key: hmac::Key,
    count: u64,
    pub(super) group: Group,
}

impl Registration {
    pub(super) fn new(now: Instant, secret: &[u8; SECRET_BYTES]) -> Self {
        Registration {
            key: hmac::Key::new(hmac::HMAC_SHA256, secret),
            count: 0,
            group: Group::Probing { at: now },
        }
    }

    /// Returns a name that nobody can guess, and that no other call returns.
    pub(super) fn fresh_name(&mut self) -> Box<Id> {
        let mut name = Box::new([0; ID_BYTES]);
        let (blocks, _) = name.as_chunks_mut::<32>();
        for block in blocks {
            self.count += 1;
            let mac = hmac::sign(&self.key, &self.count.to_be_bytes());
            block.copy_from_slice(&mac.as_ref()[..32]);
        }
        name
    }

    /// Begins to ask by a link that answers. Returns the name to ask with.
    pub(super) fn ask(&mut self, now: Instant, link: LinkId) -> Box<Id> {
        let id = self.fresh_name();
        self.group = Group::Asking {
            link,
            id: id.clone(),
            since: now,
            repeat_at: now + RETRY,
        };
        id
    }

    /// Returns a request to repeat, if it is time, and its link. A receiver that has answered the
    /// first one answers alike, or refuses.
    pub(super) fn repeats(&mut self, now: Instant) -> Option<(LinkId, Box<Id>)> {
        match &mut self.group {
            Group::Asking {
                link,
                id,
                repeat_at,
                ..
            } if now >= *repeat_at => {
                *repeat_at = now + RETRY;
                Some((*link, id.clone()))
            }
            _ => None,
        }
    }

    /// Gives up a request that is not answered, or not any more by this link.
    pub(super) fn give_up(&mut self, now: Instant, gone: Option<LinkId>) {
        if let Group::Asking { link, since, .. } = &self.group
            && (gone == Some(*link) || now >= *since + ASK_TIMEOUT)
        {
            self.group = Group::Probing { at: now };
        }
    }

    /// Returns whether the answer that there is no group is about this one. It may be a late answer
    /// to a probe, unless a link has joined or time has passed.
    pub(super) fn is_lost(&self, now: Instant) -> bool {
        match self.group {
            Group::Named {
                since, is_joined, ..
            } => is_joined || now >= since + ASK_TIMEOUT,
            _ => false,
        }
    }

    /// Returns whether probes are due, which are then sent.
    pub(super) fn takes_probe(&mut self, now: Instant) -> bool {
        match &mut self.group {
            Group::Probing { at } if now >= *at => {
                *at = now + RETRY;
                true
            }
            _ => false,
        }
    }
}
