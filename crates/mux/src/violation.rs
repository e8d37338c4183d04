//! Violations of the protocol by a peer.

/// Violations of the protocol by the peer. The session cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// Bytes that are no message, or that belong to a stream that only this end may open.
    #[error("a message that means nothing")]
    Meaningless,
    /// More than the window allows.
    #[error("more than a stream's window allows")]
    WindowExceeded,
    /// Repeated bytes, or bytes behind the end.
    #[error("bytes that contradict others of their stream")]
    Contradiction,
    /// Streams far ahead of others whose messages have not arrived.
    #[error("too many streams at once")]
    TooManyStreams,
    /// More messages beyond gaps than a network leaves.
    #[error("too many gaps in the streams")]
    TooManyGaps,
}
