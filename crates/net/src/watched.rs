//! Copies of a session's events for the watch of its receiver.

use core::fmt;

use anabranch_secure::PublicKey;

use crate::event::Event;

/// A session in the events of its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchedSession {
    /// Number in the order in which sessions began, from 0:
    /// [`Reception::number`](crate::Reception::number).
    pub number: u64,
    /// The sender's public key.
    pub peer: PublicKey,
}

/// Reader of the copies.
pub(crate) trait Watcher: fmt::Debug + Send + Sync {
    /// Returns the session.
    fn session(&self) -> WatchedSession;

    /// Takes the next event of the session.
    fn see(&self, event: &Event);
}
