//! The sizes of a receiver's tables.

/// Numbers of entries in the tables of a receiver, which peers and strangers could fill.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tables {
    /// Sessions.
    pub sessions: usize,
    /// Initiations that were answered, each with a session that may begin.
    pub unconfirmed: usize,
    /// Replaced sessions, whose senders may still have to be notified.
    pub displaced: usize,
    /// Ended sessions that their owner has not taken.
    pub ended: usize,
}
